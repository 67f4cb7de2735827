"""Streams that score alike, and streams that do not: where they part, in what, and by how much."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.evaluation.consistency.consistency_result import ConsistencyResult, Step, StepSlice, _percent
from tests.pages import both

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")

ROWS = 4000
RNG = np.random.default_rng(3)
IDS = np.array([f"row {place}" for place in range(ROWS)])
SCORE = RNG.random(ROWS)
LABEL = (RNG.random(ROWS) < SCORE).astype(np.int64)
SLOT = RNG.integers(0, 4, ROWS)


def written(path: Path, columns: dict[str, Any], files: int = 1) -> str:
    import pyarrow.parquet

    path.mkdir()
    for place, rows in enumerate(np.array_split(np.arange(len(columns["id"])), files)):
        table = pa.table({name: pa.array(values).take(pa.array(rows)) for name, values in columns.items()})
        pyarrow.parquet.write_table(table, path / f"{place}.parquet")
    return str(path)


@pytest.fixture
def streams(tmp_path: Path) -> dict[str, str]:
    """Training; an export of it in float32; serving, in another order, wrong in slot 2 and without the last 10 rows."""
    order = RNG.permutation(ROWS - 10)
    served = np.where(SLOT == 2, SCORE / 2 + 0.25, SCORE)
    return {
        "train": written(tmp_path / "train", {"id": IDS, "p": SCORE, "y": LABEL, "slot": SLOT}, files=3),
        "export": written(tmp_path / "export", {"id": IDS[::-1], "p": SCORE[::-1].astype(np.float32)}),
        "serving": written(tmp_path / "serving", {"id": IDS[order], "p": served[order]}, files=2),
    }


@pytest.mark.parametrize("memory", [None, 500_000], ids=["in one pass", "in several"])
def test_the_first_stream_that_departs_is_named_with_its_rows_and_slices(streams, memory):
    result = fm.consistency(streams, join_on="id", score="p", label="y", by="slot", memory=memory)
    assert result.departs == "serving"
    first, second = result.steps
    kept = np.arange(ROWS) < ROWS - 10
    differ = (SLOT == 2) & kept & (np.abs(SCORE / 2 - 0.25) > 1e-6)
    assert (first.rows, first.missing, first.added, first.differ) == (ROWS, 0, 0, 0)
    assert (second.rows, second.missing, second.added, second.differ) == (ROWS - 10, 10, 0, differ.sum())
    worst = second.slices["slot"][0]
    assert (worst.key, worst.rows, worst.differ) == (2, ((SLOT == 2) & kept).sum(), differ.sum())
    assert [each.differ for each in second.slices["slot"][1:]] == [0, 0, 0]
    apart = np.where(differ, np.abs(SCORE / 2 - 0.25), 0)
    assert second.largest == pytest.approx(apart.max(), abs=1e-7)
    assert second.example == IDS[apart.argmax()]
    assert second.digits[1] == (apart >= 0.1).sum() and second.digits[2] == (apart >= 0.01).sum()
    assert first.digits[6] == 0 < first.digits[9]  # what float32 rounds


def apart(one: float, other: float) -> float:
    """How far apart two numbers are, as a person would say it."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    return math.inf if math.isnan(one - other) else abs(one - other)


def odds(score: float) -> float:
    return math.log(score / (1 - score)) if 0 < score < 1 else math.copysign(math.inf, score - 0.5)


def told_of_a_step(before: dict[Any, Any], after: dict[Any, Any], first: dict[Any, Any], tolerance: float) -> Any:
    """What a loop over rows, by id, says of a step: in tenths, of which scores of one digit are made."""
    both = before.keys() & after.keys()
    pairs = [(before[each], after[each], first.get(each)) for each in both]
    steps = [apart(one["p"], other["p"]) for one, other, _ in pairs]
    differ = [far > tolerance * max(1, abs(one["p"]), abs(other["p"])) for far, (one, other, _) in zip(steps, pairs)]
    probable = all(0 <= row["p"] <= 1 for pair in pairs for row in pair[:2])
    far = [apart(odds(one["p"]), odds(other["p"])) for one, other, _ in pairs] if probable else []
    slices: dict[Any, list[int]] = {}
    for differs, (_, _, row) in zip(differ, pairs):
        if row is not None:
            found = slices.setdefault(row["slot"], [0, 0])
            found[0], found[1] = found[0] + 1, found[1] + differs
    column = (
        (apart(one["u"], other["u"]), tolerance * max(1, abs(one["u"]), abs(other["u"]))) for one, other, _ in pairs
    )
    return {
        "rows": len(both),
        "missing": len(before) - len(both),
        "added": len(after) - len(both),
        "differ": sum(differ),
        "tenths": sum(step > 0.05 for step in steps),
        "odds": {each: sum(step >= each for step in far) for each in (0.001, 0.01, 0.1, 1.0)} if probable else {},
        "mean": pytest.approx(math.fsum(far) / len(both), abs=1e-12) if probable else None,
        "largest": max(steps),
        "examples": {each for each in both if apart(before[each]["p"], after[each]["p"]) == max(steps)},
        "features": {"u": sum(distance > (room if math.isfinite(room) else 0) for distance, room in column)},
        "slices": {key: tuple(found) for key, found in slices.items()},
    }


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
@pytest.mark.parametrize("memory", [None, 9_000], ids=["in one pass", "in several"])
@pytest.mark.parametrize("seed", range(8))
def test_streams_of_any_rows_give_what_a_loop_over_the_ids_gives(tmp_path, seed, memory):
    rng = np.random.default_rng(seed)
    scale, tolerance = (0.1, 10.0, 0.1, 0.1)[seed % 4], (1e-6, 0.25)[seed % 2]
    known = (np.arange(-30, 1), np.arange(-30, 31), np.array([f"id {place}" for place in range(60)]))[seed % 3]
    rows: list[dict[Any, Any]] = []
    paths = {}
    scores = rng.integers(0 if seed % 4 == 2 else 1, 11 if seed % 4 == 2 else 10, len(known)) * scale
    slots = [None if slot == 3 else f"slot {slot}" for slot in rng.integers(0, 4, len(known)).tolist()]
    labels = rng.integers(0, 2, len(known))
    for name in ("train", "export", "serving"):
        there = rng.permutation(np.flatnonzero(rng.random(len(known)) < 0.8))
        moved = np.where(rng.random(len(known)) < 0.3, rng.integers(1, 10, len(known)) * scale, scores)
        moved[rng.random(len(known)) < (0.1 if seed == 5 else 0)] = np.nan
        moved[[5, 6, 9]] = 1.5 if seed in (3, 7) else moved[[5, 6, 9]]  # no probabilities, all in the first pass
        feature = rng.choice([1.0, 2.0, np.nan, np.inf], len(known))
        values = {"id": known, "p": moved, "u": feature, "y": labels, "slot": slots}
        paths[name] = written(tmp_path / name, {key: [each[at] for at in there] for key, each in values.items()}, 2)
        rows.append({known[at].item(): {key: values[key][at] for key in ("p", "u", "y", "slot")} for at in there})
    label = "y" if seed % 4 in (0, 2) and seed != 5 else None
    more: Any = {"features": "u", "by": "slot", "tolerance": tolerance, "memory": memory}
    result = fm.consistency(paths, join_on="id", score="p", label=label, **more)
    for place, step in enumerate(result.steps):
        wanted = told_of_a_step(*rows[place : place + 2], rows[0], tolerance)
        assert step.example in wanted.pop("examples")
        found = {name: getattr(step, name) for name in wanted.keys() - {"tenths", "mean", "slices"}}
        found["slices"] = {each.key: (each.rows, each.differ) for each in step.slices["slot"]}
        assert {**found, "tenths": step.digits[1], "mean": step.mean_log_odds} == wanted
        order = [(-each.share, -each.rows) for each in step.slices["slot"]]
        assert order == sorted(order)
    departed = [step.after for step in result.steps if step.differ]
    assert result.departs == (departed[0] if departed else None)
    common = sorted(set.intersection(*(set(each) for each in rows)))
    assert result.common == len(common)
    for (name, stream), each in zip(result.streams.items(), rows):
        assert (stream.files, stream.rows, stream.skipped) == (2, len(each), 0), name
        if label:
            true, score = ([row[key] for row in map(each.get, common)] for key in ("y", "p"))
            assert stream.auc == pytest.approx(roc_auc_score(true, score), abs=1e-3)
            assert stream.calibration == pytest.approx(sum(score) / sum(true))


def test_rows_left_out_of_streams_are_counted_once_if_files_are_read_twice(tmp_path):
    ids = [*range(100), None, None]
    streams = {
        name: written(tmp_path / name, {"id": pa.array(ids), "p": pa.array([*[0.5] * 99, None, 0.5, 0.5])})
        for name in ("a", "b")
    }
    with pytest.raises(fm.DataError, match="no value"):
        fm.consistency(streams, join_on="id", score="p")
    for memory in (None, 9_000):
        found = fm.consistency(streams, join_on="id", score="p", memory=memory, skip_bad_rows=True)
        assert [(each.rows, each.skipped) for each in found.streams.values()] == [(102, 3)] * 2
        assert found.steps[0].rows == found.common == 99


def test_each_stream_has_its_values_over_the_ids_of_all(streams):
    result = fm.consistency(streams, join_on="id", score="p", label="y")
    assert result.common == ROWS - 10
    assert result.streams["train"].auc == pytest.approx(roc_auc_score(LABEL[:-10], SCORE[:-10]), abs=1e-3)
    assert result.streams["serving"].auc < result.streams["train"].auc
    assert result.streams["train"].calibration == pytest.approx(SCORE[:-10].sum() / LABEL[:-10].sum())


def test_an_area_that_buckets_leave_open_is_a_warning_of_the_result(tmp_path, recwarn):
    label, score = np.arange(200) % 2, np.round(np.linspace(0, 1, 200), 1)
    fine = np.linspace(0.01, 0.99, 200)
    for name, values in (("a", fine), ("b", score)):
        written(tmp_path / name, {"id": pa.array(range(200)), "p": pa.array(values), "y": pa.array(label)})
    result = fm.consistency({each: tmp_path / each for each in "ab"}, join_on="id", score="p", label="y")
    (said,) = result.to_dict()["warnings"]
    assert said.startswith(
        f"b: {result.streams['b'].auc:.6g} is an area over buckets; that of the scores themselves lies"
    )
    assert str(result).endswith(f"warnings\n{said}") and not recwarn.list


@pytest.mark.parametrize(("column", "what"), [("big", "stream 'b': score 2"), ("other", "stream 'a': label 2")])
def test_labels_and_scores_that_have_no_auc_are_named_as_the_user_has_given_them(tmp_path, column, what):
    data = {"id": range(3), "p": [0.25, 0.5, 0.75], "big": [0.25, 2.0, 3.0], "y": [0, 1, 1], "other": [0, 1, 2]}
    paths = {name: written(tmp_path / name, {key: pa.array(each) for key, each in data.items()}) for name in "ab"}
    score, label = ({"a": "p", "b": "big"}, "y") if column == "big" else ("p", column)
    with pytest.raises(fm.DataError, match=f"^{what}, where label needs .* of 3 rows.; without label, scores of any"):
        fm.consistency(paths, join_on="id", score=score, label=label)
    assert fm.consistency(paths, join_on="id", score=score).common == 3


def test_differences_of_log_odds_are_counted_where_all_scores_are_probabilities(tmp_path):
    one, other = np.array([0.5, 0.001, 0.0, 1.0]), np.array([0.5, 0.002, 0.0, 1.0])
    ids = np.arange(4)
    found = fm.consistency(
        {
            "a": written(tmp_path / "a", {"id": ids, "p": one}),
            "b": written(tmp_path / "b", {"id": ids, "p": other}),
            "c": written(tmp_path / "c", {"id": ids, "p": other * 3}),
        },
        join_on="id",
        score="p",
    )
    assert found.steps[0].odds == {0.001: 1, 0.01: 1, 0.1: 1, 1.0: 0}
    assert found.steps[0].mean_log_odds == pytest.approx((math.log(0.002 / 0.998) - math.log(0.001 / 0.999)) / 4)
    assert (found.steps[1].odds, found.steps[1].mean_log_odds) == ({}, None)


def test_columns_of_numbers_say_which_feature_differs_and_nan_is_like_nan(tmp_path):
    ids = np.arange(3)
    found = fm.consistency(
        {
            "train": written(
                tmp_path / "a", {"id": ids, "p": [0.1, 0.2, 0.3], "u": [1e9, np.nan, 5], "v": [1.0, 2, 3]}
            ),
            "serving": written(
                tmp_path / "b", {"id": ids, "q": [0.1, 0.2, 0.3], "u": [1e9 + 1, np.nan, np.nan], "v": [1.0, 2, 3]}
            ),
        },
        join_on="id",
        score={"train": "p", "serving": "q"},
        features=["u", "v"],
    )
    assert found.steps[0].features == {"u": 1, "v": 0}  # of 1e9 and 1e9 + 1 the difference is within the tolerance
    assert found.departs is None


def test_an_id_that_comes_twice_and_streams_without_common_ids_are_errors(tmp_path):
    one = written(tmp_path / "a", {"id": ["x", "y", "y"], "p": [0.1, 0.2, 0.3]})
    other = written(tmp_path / "b", {"id": ["x", "y", "z"], "p": [0.1, 0.2, 0.3]})
    third = written(tmp_path / "c", {"id": ["1", "2"], "p": [0.1, 0.2]})
    with pytest.raises(fm.DataError, match="stream 'one', column 'id': 'y' occurs twice"):
        fm.consistency({"other": other, "one": one}, join_on="id", score="p")
    with pytest.raises(fm.DataError, match="'other' and 'third' have no id in common"):
        fm.consistency({"other": other, "third": third}, join_on="id", score="p")


@pytest.mark.parametrize(
    "change, told",
    [
        ({"streams": {"a": "x"}}, "streams must be a dict of two or more"),
        ({"join_on": {"a": "x"}}, "join_on must be the name of a column, or a dict of one for each of 'a', 'b'"),
        ({"score": 3}, "score must be the name of a column"),
        ({"tolerance": -1}, "tolerance"),
        ({"streams": {"a": "-", "b": "-"}}, "the standard input can be read only once"),
        ({"streams": {"a": "nothing.parquet", "b": "x"}}, "'nothing.parquet' is not a file"),
    ],
)
def test_bad_arguments_are_named(change, told):
    given: dict[str, Any] = {"streams": {"a": __file__, "b": __file__}, "join_on": "id", "score": "p", **change}
    with pytest.raises((fm.errors.InvalidInputError, fm.DataError), match=told):
        fm.consistency(given.pop("streams"), **given)


def test_shares_of_few_rows_and_of_none_are_told_apart():
    assert [_percent(number, 100_000) for number in (0, 1, 9, 10, 50_000, 99_990, 99_999, 100_000)] == (
        ["0%", "<0.01%", "<0.01%", "0.01%", "50.00%", "99.99%", ">99.99%", "100%"]
    )
    assert (
        _percent(0, 0) == "nan%" and math.isnan(Step("a", "b").share) and Step("a", "b", rows=4, differ=1).share == 0.25
    )


def test_json_has_a_thousand_slices_and_what_there_will_be_is_known_before():
    step = Step("a", "b", slices={"slot": [StepSlice(place, 4, 1) for place in range(1_001)]})
    assert [len(step.plain()["slices"]["slot"]), step.plain()["slices"]["slot"][0]["share"]] == [1_000, 0.25]
    found, unfilled = ConsistencyResult.empty(["a", "b", "c"])
    assert unfilled == ["steps.b.features", "steps.b.slices", "steps.c.features", "steps.c.slices"]
    assert list(found["steps"]) == ["b", "c"]


def test_too_little_memory_is_an_error_with_what_is_needed_before_files_are_read_without_end(streams):
    needed = (3 * ROWS - 10) * 96
    least = -(-needed // 1000)
    with pytest.raises(fm.InvalidInputError, match=rf"^memory={least - 1} .* give {least} bytes or more"):
        fm.consistency(streams, join_on="id", score="p", memory=least - 1)


def test_the_command_prints_the_result_and_its_conditions_decide(streams, capsys):
    given = ["consistency", *(f"{name}={path}" for name, path in streams.items()), "--join-on", "id", "--score", "p"]
    assert main([*given, "--by", "slot", "--fail-if", "steps.serving.share>0.1"]) == 1
    out, err = capsys.readouterr()
    assert "serving diverges first: " in out and "export to serving, by slot" in out
    assert "--fail-if 'steps.serving.share>0.1' holds" in err
    assert main([*given, "--json", "--fail-if", "steps.export.differ>0"]) == 0
    result = fm.consistency(streams, join_on="id", score="p")
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(result.to_dict()))
    assert str(result).splitlines()[0].split() == ["files", "rows", "missing", "added"]


@pytest.mark.parametrize(
    "args, status, told",
    [
        (["a=x", "a=y", "--join-on", "i", "--score", "p"], 2, "two streams are called 'a'"),
        (["a=x", "b=y", "c=z", "--join-on", "i", "--score", "p,q"], 2, "--score p,q names 2 columns; name one, or 3"),
        (["a=x", "--join-on", "i", "--score", "p"], 2, "two or more streams"),
        (["a=x", "b=y", "--join-on", "i", "--score", "p"], 3, "'x' is not a file"),
        (
            ["a=x", "b=y", "--join-on", "i", "--score", "p", "--fail-if", "steps.c.share>0"],
            2,
            "did you mean steps.b.share?",
        ),
        (
            ["a=x", "b=y", "--join-on", "i", "--score", "p", "--fail-if", "steps.b.slices.s.0.share>1"],
            3,
            "'x' is not a file",
        ),
    ],
)
def test_the_command_names_the_mistake(args, status, told, capsys):
    assert main(["consistency", *args]) == status
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("page", both("howto/consistency"))
def test_the_page_shows_what_is_printed(page):
    text = page.read_text(encoding="utf-8")
    code, shown = (re.search(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for kind in ("python", "text"))
    names: dict[str, Any] = {}
    exec(code[1], names)
    assert f"{names['result']}\n" == shown[1]


def test_a_notebook_a_page_and_markdown_show_the_same_tables_and_no_name_runs(tmp_path, capsys):
    ids, scores = np.arange(6), np.linspace(0.1, 0.6, 6)
    np.savez(tmp_path / "a.npz", id=ids, p=scores)
    np.savez(tmp_path / "b.npz", id=ids, p=scores + np.where(ids == 2, 0.01, 0))
    streams = {"<script>alert(1)": str(tmp_path / "a.npz"), "serving": str(tmp_path / "b.npz")}
    found = fm.consistency(streams, join_on="id", score="p")
    shown, page = found._repr_html_(), found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    for text in (shown, page):
        assert "&lt;script&gt;alert(1)" in text and "<script>alert" not in text
        assert "serving diverges first" in text and "16.67%" in text
    given = ["consistency", f"one={tmp_path / 'a.npz'}", f"two={tmp_path / 'b.npz'}", "--join-on", "id", "--score", "p"]
    assert main([*given, "--markdown", "--html", str(tmp_path / "other.html")]) == 0
    assert (
        "| two | 1 | 6 |" in capsys.readouterr().out and "two diverges first" in (tmp_path / "other.html").read_text()
    )
    assert main([*given, "--html", str(tmp_path / "a.npz")]) == 2  # data are not overwritten


# -- what is read ------------------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, str]:
    """CSV without a line of names; 007 and 7 are two ids, and day 2 differs."""
    for name, shift in (("a", 0.0), ("b", 0.25)):
        rows = [("007", 0.5, 1), ("7", 0.25, 1), ("8", 0.125 + shift, 2)]
        (tmp_path / f"{name}.csv").write_text("".join(f"{key},{score},{day}\n" for key, score, day in rows))
    return {name: f"{tmp_path}/{name}.csv" for name in "ab"}


def test_rows_that_a_condition_leaves_out_are_counted_and_compared_with_nothing(texts):
    asked: Any = {"join_on": "id", "score": "p", "columns": ["id", "p", "day"], "text": "id"}
    assert fm.consistency(texts, **asked).departs == "b"
    found = fm.consistency(texts, **asked, where="day = 1")
    assert found.departs is None and found.common == 2
    assert [(each.rows, each.left_out, each.skipped) for each in found.streams.values()] == [(2, 1, 0)] * 2
    assert "left out" in str(found) and "left out" not in str(fm.consistency(texts, **asked))
    assert found.to_dict()["streams"]["a"]["left_out"] == 1


def test_conditions_texts_and_names_of_columns_are_options(texts, capsys, tmp_path):
    line = ["consistency", *(f"{name}={path}" for name, path in texts.items()), "--join-on", "id", "--score", "p"]
    named = [*line, "--columns", "id,p,day"]
    assert main([*named, "--text", "id", "--where", "day = 1", "--fail-if", "steps.b.share>0"]) == 0
    assert "2 ids are in all streams" in capsys.readouterr().out
    assert main([*named, "--text", "id", "--where", "day = 2", "--fail-if", "steps.b.share>0"]) == 1
    assert main(named) == 3  # as integers both are 7
    assert "7 occurs twice" in capsys.readouterr().err
    for more, said in {
        ("--where", "day ="): "--where",
        ("--text", "day"): "--text 'day' is not one of the columns of keys, 'id'",
        ("--columns", "id,id"): "--columns has 'id' 2 times",
    }.items():
        assert main([*line, *more]) == 2
        assert said in capsys.readouterr().err
    assert main([*named, "--text", "id", "--where", "hour = 2"]) == 3
    assert "no column 'hour' for --where" in capsys.readouterr().err


def test_the_page_is_in_chinese_too_and_names_what_the_english_one_does(texts, tmp_path, capsys):
    pytest.importorskip("jinja2")
    asked: Any = {
        "join_on": "id",
        "score": "p",
        "columns": ["id", "p", "day"],
        "text": "id",
        "features": "day",
        "by": "day",
    }
    found = fm.consistency(texts, **asked)
    pages = {lang: found.to_html(lang=lang) for lang in ("en", "zh")}
    for english, chinese in (("Consistency of streams", "各路数据的一致性"), ("diverges first", "最先出现差异")):
        assert english in pages["en"] and english not in pages["zh"]
        assert chinese in pages["zh"] and chinese not in pages["en"]
    words = re.compile(r"<th scope=\"col\">([^<]*[a-z]{3}[^<]*)</th>")
    assert {*words.findall(pages["zh"])} <= {"day"} and 'lang="zh-CN"' in pages["zh"]
    for cell in ("33.33%", "0.25"):
        assert cell in pages["en"] and cell in pages["zh"]
    with pytest.raises(fm.InvalidInputError, match="lang must be 'en' or 'zh'"):
        found.to_html(lang="de")
    line = ["consistency", *(f"{name}={path}" for name, path in texts.items()), "--join-on", "id", "--score", "p"]
    more = ["--columns", "id,p,day", "--text", "id", "--html", f"{tmp_path}/page.html", "--lang", "zh"]
    assert main([*line, *more]) == 0
    assert "各路数据的一致性" in (tmp_path / "page.html").read_text("utf-8")


# -- values that are not there --------------------------------------------------------------------------------


def of_rows(tmp_path: Path, name: str, form: str, columns: dict[str, list[Any]]) -> str:
    """A file of these columns."""
    path = tmp_path / f"{name}.{form}"
    if form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), path)
    elif form == "jsonl":
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        rows = [["" if value is None else str(value) for value in row] for row in zip(*columns.values())]
        path.write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
    return str(path)


EIGHT = list(range(8))
HALF = [0.5] * 8


NULLS = [
    ([1.0] * 8, [None, None, *[1.0] * 6], 2),
    ([None, 1.0, *[1.0] * 6], [1.0] * 8, 1),
    ([None] * 8, [None] * 8, 0),
    ([None] * 8, [1.0] * 8, 8),
    ([1, 2, None, 4, 5, 6, 7, 8], [1, 2, None, 4, 5, 6, 7, None], 1),
    ([True, None, *[False] * 6], [True, True, *[False] * 6], 1),
]


@pytest.mark.parametrize("skip", [False, True], ids=["strict", "skipping"])
@pytest.mark.parametrize(
    ("form", "one", "other", "differ"),
    [
        *((form, *case) for form in ("parquet", "jsonl", "csv") for case in NULLS),
        ("parquet", [None, math.nan, *[1.0] * 6], [math.nan, None, *[1.0] * 6], 0),  # the others have no nan
        ("parquet", [Decimal("0.5"), None, *[Decimal(1)] * 6], [Decimal("0.5"), *[Decimal(1)] * 7], 1),
    ],
)
def test_a_null_against_a_value_is_a_difference_of_the_feature_and_the_scores_are_compared(
    tmp_path, one, other, differ, form, skip
):
    served = [0.5] * 6 + [0.9] * 2
    streams = {
        "train": of_rows(tmp_path, "t", form, {"id": EIGHT, "p": HALF, "f": one}),
        "export": of_rows(tmp_path, "e", form, {"id": EIGHT, "p": HALF, "f": one}),
        "serving": of_rows(tmp_path, "s", form, {"id": EIGHT, "p": served, "f": other}),
    }
    result = fm.consistency(streams, join_on="id", score="p", features="f", skip_bad_rows=skip)
    first, second = result.steps
    assert (first.rows, first.differ, first.features) == (8, 0, {"f": 0})
    assert (second.rows, second.differ, second.features) == (8, 2, {"f": differ})
    assert all((step.missing, step.added, step.skipped) == (0, 0, 0) for step in result.steps)
    assert [stream.skipped for stream in result.streams.values()] == [0, 0, 0]
    assert result.streams["serving"].nulls.get("f", 0) == sum(value is None for value in other)


def test_a_feature_that_differs_is_printed_where_all_scores_agree(tmp_path):
    train = of_rows(tmp_path, "t", "parquet", {"id": EIGHT, "p": HALF, "f": HALF, "g": HALF})
    serving = of_rows(tmp_path, "s", "parquet", {"id": EIGHT, "p": HALF, "f": [None, None, *HALF[2:]], "g": HALF})
    result = fm.consistency({"train": train, "serving": serving}, join_on="id", score="p", features=["f", "g"])
    said = str(result)
    assert "all scores agree within 1e-06, but not f of serving" in said
    assert re.search(r"feature +values that differ +nulls in serving\nf +25\.00% +2\ng +0%", said)


SKIPPED = {
    "a score is null": {"p": [*HALF[:6], None, None]},
    "an id is null": {"id": [*EIGHT[:6], None, None]},
    "a score is no number": {"p": [*HALF[:6], "x", "y"]},
    "a feature is no number": {"f": [*HALF[:6], "x", "y"]},
}


@pytest.mark.parametrize("memory", [None, 900], ids=["in one pass", "in several"])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize("kind", SKIPPED)
def test_a_skipped_row_is_named_and_not_missing_and_no_gate_passes_over_it(tmp_path, kind, place, memory):
    rows = {"id": EIGHT, "p": HALF, "f": HALF}
    tables = [{**rows, **(SKIPPED[kind] if at == place else {})} for at in range(3)]
    streams = {name: of_rows(tmp_path, name, "csv", table) for name, table in zip(("a", "b", "c"), tables)}
    asked: Any = {"join_on": "id", "score": "p", "features": "f", "memory": memory}
    with pytest.raises(fm.DataError, match=r"(row 6, column|no value).*skip such rows: skip_bad_rows"):
        fm.consistency(streams, **asked)
    result = fm.consistency(streams, **asked, skip_bad_rows=True)
    unknown = 2 if kind == "an id is null" else 0  # ids, which may be any
    steps = {step.after: step for step in result.steps}
    for at, (step, end) in enumerate(zip(result.steps, (0, 1))):
        beside = place in (at, at + 1)
        assert step.rows == (6 if beside else 8) and step.differ == 0
        assert step.skipped == (2 - unknown if beside else 0)
        assert step.missing == (unknown if place == at + 1 else 0), end
        assert step.added == (unknown if place == at else 0)
    name = "abc"[place]
    assert result.to_dict()["streams"][name]["skipped"] == 2
    assert steps["b"].plain()["skipped"] + steps["c"].plain()["skipped"] == (2 - unknown) * (1 + (place == 1))
    said = str(result)
    assert re.search(r"files +rows +skipped", said) and "; 2 skipped rows were not compared" in said
    assert any(f"{name}: 2 rows were skipped, and compared with nothing: " in text for text in result.warnings)
    assert not result.failed()
    (held,) = result.failed("steps.c.differ>0")
    assert held.startswith(f"streams.{name}.skipped is 2: 2 rows were compared with nothing")
    assert not result.failed("steps.c.differ>0", f"streams.{name}.skipped>2")
    assert result.failed("steps.c.differ>0", f"streams.{name}.skipped>1") == [
        f"'streams.{name}.skipped>1' holds: streams.{name}.skipped is 2, 1 above"
    ]


def test_a_gate_of_the_command_does_not_pass_over_skipped_rows(tmp_path, capsys):
    train = of_rows(tmp_path, "t", "csv", {"id": EIGHT, "p": HALF})
    serving = of_rows(tmp_path, "s", "csv", {"id": EIGHT, "p": [None, *HALF[1:]]})
    line = ["consistency", f"train={train}", f"serving={serving}", "--join-on", "id", "--score", "p", "--skip-bad-rows"]
    assert main(line) == 0
    capsys.readouterr()
    assert main([*line, "--fail-if", "steps.serving.share>0.001"]) == 1
    assert "streams.serving.skipped is 1: 1 row was compared with nothing" in capsys.readouterr().err
    assert main([*line, "--fail-if", "steps.serving.share>0.001", "--fail-if", "streams.serving.skipped>1"]) == 0


def test_rows_without_a_label_or_a_score_are_left_out_of_auc_alone(tmp_path):
    label = [0, 1, 0, 1, 0, 1, None, None]
    score = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    train = of_rows(tmp_path, "t", "parquet", {"id": EIGHT, "p": score, "y": label})
    served = [0.1, 0.2, 0.3, 0.4, 0.5, math.nan, 0.7, 0.9]
    serving = of_rows(tmp_path, "s", "parquet", {"id": EIGHT, "p": served})
    asked: Any = {"join_on": "id", "score": "p", "label": "y"}
    with pytest.raises(fm.DataError, match="row 6, column 'y': no value"):
        fm.consistency({"train": train, "serving": serving}, **asked)
    result = fm.consistency({"train": train, "serving": serving}, **asked, skip_bad_rows=True)
    (step,) = result.steps
    assert (step.rows, step.missing, step.differ) == (8, 0, 2)
    assert step.odds[1.0] == 1 and result.common == 8
    assert [each.skipped for each in result.streams.values()] == [0, 0]
    assert result.streams["train"].nulls == {"y": 2}
    wanted = pytest.approx(roc_auc_score(label[:5], score[:5]), abs=1e-3)
    assert [each.auc for each in result.streams.values()] == [wanted, wanted]
    assert "3 rows lack a label or a score, and count in neither auc nor calibration" in result.warnings


def test_streams_whose_common_rows_are_all_skipped_are_an_error_that_says_so(tmp_path):
    train = of_rows(tmp_path, "t", "csv", {"id": EIGHT, "p": HALF})
    serving = of_rows(tmp_path, "s", "csv", {"id": EIGHT, "p": ["x"] * 8})
    with pytest.raises(fm.DataError, match=r"8 ids in common, all of skipped rows, such as .*row 0, column 'p'"):
        fm.consistency({"train": train, "serving": serving}, join_on="id", score="p", skip_bad_rows=True)


def test_what_the_reader_understood_of_a_stream_is_in_text_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;p\n1;0.5\n2;0.25\n")
    (tmp_path / "b.csv").write_text("id,p\n1,0.5\n2,0.25\n")
    semi = {"a": tmp_path / "a.csv", "b": tmp_path / "a.csv"}
    found = fm.consistency(semi, join_on="id", score="p", separator=";")
    assert {each.understood["separator"] for each in found.streams.values()} == {";"}
    assert str(found).count("separator: ;") == 1 and "a: separator" not in str(found)
    assert found.to_dict()["streams"]["b"]["understood"] == {"separator": ";"}
    plain = fm.consistency({"a": tmp_path / "b.csv", "b": tmp_path / "b.csv"}, join_on="id", score="p")
    assert "score:" not in str(plain) and plain.streams["a"].understood == {}
