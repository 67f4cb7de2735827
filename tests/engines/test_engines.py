"""Each engine gives what one process gives, from files to the last bit, and a clear error where one would."""

from __future__ import annotations

import doctest
import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import fleetmetrics as fm
from fleetmetrics import files

FILES, ROWS = 18, 300  # more than one task joins
COLUMNS = {"prediction": "p.score", "label": "y", "weight": "w", "slot": "slot"}
BY_USER = {"prediction": "p.score", "label": "y", "user": "uid"}


def rows(number: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    score = random.random(number, dtype=np.float32).round(2)  # with ties
    return pa.table(
        {
            "p.score": score,
            "y": (random.random(number) < score).astype(int),
            "w": random.random(number),
            "uid": random.integers(0, number // 8, number),
            "slot": random.choice(["home", "feed", "söök"], number),
            "not requested": ["x"] * number,
        }
    )


def make() -> fm.MetricCollection:
    means = {"loss": fm.LogLoss(), "copc": fm.COPC(), "error": fm.MeanAbsoluteError()}
    return fm.MetricCollection({"auc": fm.AUC(), **means, "slots": fm.Sliced(fm.LogLoss(), by="slot")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preds")
    for number in range(FILES):
        pyarrow.parquet.write_table(rows(ROWS + number, number), folder / f"part-{number:02}.parquet")
    return folder


def values(evaluated: Any) -> str:
    return repr(evaluated.metrics.compute_local())  # every bit


def near(value: Any, wanted: Any) -> bool:
    """Equal to 1e-13."""
    if isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(near(value[name], wanted[name]) for name in wanted)
    return bool(np.allclose(value, wanted, rtol=1e-13, atol=0))


def test_files_give_the_bits_of_one_process_in_every_run(engine, folder):
    alone = files.evaluate(folder, make, COLUMNS, processes=1)
    for names in (folder, sorted(map(os.path.relpath, folder.iterdir()), reverse=True)):
        found = engine.evaluate(names, make, COLUMNS)
        assert (values(found), found.read) == (values(alone), alone.read)
    assert found.read.rows == sum(range(ROWS, ROWS + FILES))


def test_a_frame_gives_what_one_process_gives(engine):
    table = rows(2000)
    alone = make()
    alone.add_frame(table, **COLUMNS)
    found = engine.evaluate(engine.frame(table, 5), lambda: make(), COLUMNS)
    assert near(found.metrics.compute_local(), alone.compute_local())
    assert found.read.understood["label"] == ("0 and 1 (int64)",)
    assert found.read._replace(understood={}) == files.Read(rows=2000)


def test_a_metric_of_the_program_itself_goes_along(engine, folder):
    class Clicks(fm.Metric):
        declared = (fm.Declared("clicks"),)

        def batch_statistics(self, batch: Any) -> Any:
            return {"clicks": batch.xp.sum(batch.label)}

        def formula(self, clicks: Any) -> float:
            return float(clicks)

    wanted = sum(pyarrow.parquet.read_table(path)["y"].to_numpy().sum() for path in folder.iterdir())
    found = engine.evaluate(folder, lambda: Clicks(name="mine"), {"prediction": "w", "label": "y"})
    assert (type(found.metrics), found.metrics.name, found.metrics.compute_local()) == (Clicks, "mine", wanted)


def bad(folder: Path, path: Path) -> Path:
    """A folder in which two files have an invalid score."""
    for number in range(4):
        table = rows(50, number)
        if number in (1, 2):
            scores = table["p.score"].to_numpy().copy()
            scores[20 + number] = 1.5
            table = table.set_column(0, "p.score", pa.array(scores))
        pyarrow.parquet.write_table(table, path / f"{number}.parquet")
    return path


def test_a_bad_row_is_the_error_of_one_process_with_its_file_and_row(engine, folder, tmp_path):
    bad(folder, tmp_path)
    with pytest.raises(fm.DataError) as one:
        engine.evaluate(tmp_path, make, COLUMNS)
    assert str(one.value).startswith(f"{tmp_path}/1.parquet: row 21, column 'p.score': 1.5 where prediction must be ")
    with pytest.raises(fm.DataError) as alone:
        files.evaluate(tmp_path, make, COLUMNS, processes=1)
    assert str(one.value) in str(alone.value)
    skipping = engine.evaluate(tmp_path, make, COLUMNS, skip_bad_rows=True)
    wanted = files.evaluate(tmp_path, make, COLUMNS, skip_bad_rows=True, processes=1)
    assert (values(skipping), skipping.read) == (values(wanted), wanted.read)
    assert skipping.read.skipped == 2


def test_a_bad_row_of_a_frame_is_an_error_or_counted(engine):
    table = rows(40)
    frame = engine.frame(table.set_column(0, "p.score", pa.array([0.5] * 39 + [1.5])), 2)
    with pytest.raises(fm.DataError, match=r"a partition of the frame: row \d+, column 'p.score': 1.5 where"):
        engine.evaluate(frame, make, COLUMNS)
    assert engine.evaluate(frame, make, COLUMNS, skip_bad_rows=True).read[1:4] == (40, {}, 1)


def test_a_frame_without_the_column_is_refused_before_any_task(engine):
    with pytest.raises(fm.DataError, match=r"no column 'slots' for slot; did you mean 'slot'"):
        engine.evaluate(engine.frame(rows(8), 1), make, {**COLUMNS, "slot": "slots"})


def test_a_task_that_fails_otherwise_leaves_no_number(engine, folder):
    class Broken(fm.Count):
        def batch_statistics(self, batch: Any) -> Any:
            if batch.prediction.size == ROWS + 3:
                raise ZeroDivisionError("in one file")
            return super().batch_statistics(batch)

    with pytest.raises(Exception, match="in one file"):
        engine.evaluate(folder, Broken, {"prediction": "w"})


def test_the_samples_of_record_metrics_do_not_leave_a_task(engine, folder):
    with pytest.raises(fm.InvalidInputError, match=r'gauc: keeps every sample.*complete_by="user"'):
        engine.evaluate(folder, lambda: fm.GAUC(name="gauc"), BY_USER)


def of_users(table: Any, files: int, path: Path) -> Path:
    """Files each of which has all samples of its users."""
    users = table["uid"].to_numpy()
    for number in range(files):
        pyarrow.parquet.write_table(table.filter(pa.array(users % files == number)), path / f"{number}.parquet")
    return path


def by_user() -> fm.MetricCollection:
    return fm.MetricCollection({"gauc": fm.GAUC(), "ndcg": fm.NDCG(5, by="user"), "loss": fm.LogLoss()})


def test_a_frame_is_shuffled_so_that_metrics_by_user_are_those_of_one_process(engine):
    table = rows(2400)
    alone = by_user()
    alone.add_frame(table, **BY_USER)
    found = engine.evaluate(engine.frame(table, 4), by_user, BY_USER, complete_by="user")
    assert near(found.metrics.compute_local(), alone.compute_local())
    with pytest.raises(fm.InvalidInputError, match="closed"):
        found.metrics.add([0.5], [1], user=[1])


def test_files_of_whole_users_give_the_bits_of_one_process(engine, tmp_path):
    of_users(rows(800), 3, tmp_path)
    found = engine.evaluate(tmp_path, by_user, BY_USER, complete_by="user")
    parts = [files.evaluate_file(path, by_user, BY_USER).metrics for path in sorted(tmp_path.iterdir())]
    for part in parts:
        part.close(complete_by="user")
    assert values(found) == repr(fm.merge_all(parts).compute_local())


def test_a_user_in_two_files_that_were_called_complete_is_an_error(engine, tmp_path):
    pyarrow.parquet.write_table(rows(200, 1), tmp_path / "1.parquet")
    pyarrow.parquet.write_table(rows(200, 2), tmp_path / "2.parquet")
    with pytest.raises(fm.InvalidInputError, match="user"):
        engine.evaluate(tmp_path, by_user, BY_USER, complete_by="user")


def test_a_frame_in_ranges_of_scores_gives_the_exact_area_with_ties(engine):
    table = rows(2000)
    alone = fm.ExactAUC()
    columns = {"prediction": "p.score", "label": "y"}
    alone.add_frame(table, **columns)
    found = engine.evaluate(engine.frame(table, 4), fm.ExactAUC, columns, complete_by="score")
    assert near(found.metrics.compute_local(), alone.compute_local())


def test_precision_recall_areas_take_the_totals_of_a_first_pass(engine):
    table, columns = rows(1000), {"prediction": "p.score", "label": "y", "weight": "w"}
    frame = engine.frame(table, 4)
    first = engine.evaluate(frame, fm.ExactAUC, columns, complete_by="score").metrics

    def make() -> fm.ExactAUC:
        return fm.ExactAUC(curve="PR")

    found = engine.evaluate(frame, make, columns, complete_by="score", totals=first)
    alone = make()
    alone.add_frame(table, **columns)
    assert near(found.metrics.compute_local(), alone.compute_local())


def test_the_ranges_of_a_first_pass_are_those_of_the_second_where_an_engine_draws_them(engine):
    """More rows than Spark looks at to find ranges; it looks at others each time, and so does Ray."""
    score = np.random.default_rng(0).random(200_000)
    table = pa.table({"p": score, "y": (np.random.default_rng(1).random(len(score)) < score).astype(int)})
    frame, columns = engine.frame(table, 4), {"prediction": "p", "label": "y"}
    first = engine.evaluate(frame, fm.ExactAUC, columns, complete_by="score").metrics
    found = engine.evaluate(frame, PR, columns, complete_by="score", totals=first)
    alone = PR()
    alone.add_frame(table, **columns)
    assert near(found.metrics.compute_local(), alone.compute_local())


def PR() -> fm.ExactAUC:
    return fm.ExactAUC(curve="PR")


def test_empty_partitions_and_frames_without_rows_are_not_errors(engine):
    frame = engine.frame(rows(16), 2)
    found = engine.evaluate(frame, by_user, {**BY_USER, "user": "slot"}, complete_by="user")
    assert found.read.rows == 16


def test_a_column_that_does_not_complete_the_metrics_is_refused_before_any_task(engine):
    frame = engine.frame(rows(8), 1)
    with pytest.raises(fm.InvalidInputError, match="complete_by is 'query'"):
        engine.evaluate(frame, fm.GAUC, BY_USER, complete_by="query")


def test_more_states_than_the_driver_takes_are_merged_by_tasks(spark):
    from fleetmetrics.engines import Plan
    from fleetmetrics.engines.spark import _mapped, evaluate

    columns = {"prediction": "p", "slot": "slot"}
    frame = spark.range(0, 240_000, 1, 120).selectExpr("rand(1) AS p", "id % 900 AS slot")
    found = evaluate(spark, frame, lambda: fm.Sliced(fm.Mean(), by="slot"), columns)
    assert (found.read.rows, len(found.metrics.compute_local())) == (240_000, 900)
    plan = Plan(lambda: fm.Sliced(fm.Mean(), by="slot"), columns, None, None, False)
    with pytest.raises(Exception, match="maxResultSize"):
        _mapped(frame, plan.of_batches).collect()


@pytest.mark.parametrize("name", ["spark", "ray", "dask"])
def test_the_examples_of_the_modules_run(name, request):
    request.getfixturevalue("client" if name == "dask" else name)
    found = doctest.testmod(importlib.import_module(f"fleetmetrics.engines.{name}"))
    assert found.attempted >= 4 and not found.failed
