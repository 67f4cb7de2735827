"""A model over days: saved states in order, each a point, as text, Markdown, JSON and one page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.evaluation.history import HistoryRow, _change, _in_words, history
from fleetmetrics.report.headline import change_of
from fleetmetrics.words import Words

pytestmark = pytest.mark.numpy_only


def state(path: Path, noise: float, seed: int, **asked: Any) -> Any:
    random = np.random.default_rng(seed)
    odds = random.normal(-1, 1.5, 4000)
    label = (random.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    score = 1 / (1 + np.exp(-odds - random.normal(0, noise, 4000)))
    settings: dict[str, Any] = {"label": "y", "score": "p", "metrics": "auc,log_loss", "ci": 0.95, **asked}
    result = fm.evaluate({"y": label, "p": score, "user": np.arange(4000) // 4}, **settings)
    result.save_state(path)
    return result


@pytest.fixture(scope="module")
def days(tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("days")
    made = {f"d{day}": state(folder / f"d{day}.fms", noise, day) for day, noise in ((1, 0.1), (2, 0.2), (3, 3.0))}
    return folder, made


def test_each_state_is_a_point_with_its_values_and_intervals_in_the_order_given(days: Any) -> None:
    folder, made = days
    order = ["d2", "d1", "d3"]
    found = history([folder / f"{name}.fms" for name in order])
    states = found.to_dict()["states"]
    assert list(found.points) == [each["state"] for each in states] == order
    for name, each in zip(order, states):
        interval = made[name].intervals["auc"]
        assert each["auc"] == made[name]["auc"] and each["log_loss"] == made[name]["log_loss"]
        assert each["auc_interval"] == {"low": interval.low, "high": interval.high} and each["rows"] == 4000
    assert found.to_dict()["about"]["log_loss"]["better"] == "lower" and found.warnings == []


def test_what_changed_is_better_worse_or_within_chance_by_the_direction_of_the_metric(days: Any) -> None:
    folder, made = days
    found = history([folder / f"d{day}.fms" for day in (1, 2, 3)])
    first, auc, loss = [each.rows for each in found.tables()]
    assert [row[0] for row in first] == ["state", "d1", "d2", "d3"]
    assert first[0][1:] == ["rows", "positives", "auc", "log_loss"]
    assert [row[-1] for row in auc][2:] == ["not significant", "worse"]
    assert loss[3][-1] == "worse" and loss[3][3].startswith("+")  # a higher loss
    assert auc[1][3:] == ("-", "-", "")
    assert f"auc: {made['d1']['auc']:.6g} (d1) to {made['d3']['auc']:.6g} (d3), worse" in str(found)


def test_a_change_is_from_the_state_before_and_each_interval_is_that_of_its_state(days: Any) -> None:
    folder, made = days
    _, auc, _ = [each.rows for each in history([folder / f"d{day}.fms" for day in (1, 2, 3)]).tables()]
    for row, old, new in zip(auc[2:], ("d1", "d2"), ("d2", "d3")):
        change, interval = made[new]["auc"] - made[old]["auc"], made[new].intervals["auc"]
        assert float(row[3]) == pytest.approx(change, abs=1e-5)
        low, high = (float(end) for end in row[2].split(" to "))
        assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-5)


def test_a_change_has_the_squared_distances_of_both_intervals_on_the_side_that_counts() -> None:
    old = HistoryRow("mon", "auc", 9, 0.5, {"low": 0.4, "high": 0.53})
    new = HistoryRow("tue", "auc", 9, 0.75, {"low": 0.71, "high": 0.9})
    found = _change(old, new)
    assert found["value"] == 0.25
    assert found["low"] == pytest.approx(0.25 - math.hypot(0.04, 0.03))
    assert found["high"] == pytest.approx(0.25 + math.hypot(0.15, 0.1))
    for half in ({"low": None, "high": 0.6}, {"low": 0.4, "high": None}, {}):
        assert _change(old._replace(interval=half), new) == {"value": 0.25}
        assert _change(old, new._replace(interval=half)) == {"value": 0.25}
    unknown = {"value": None}
    assert _change(old._replace(value=None), new) == _change(old, new._replace(value=None)) == unknown
    assert _change(None, new) == unknown


def test_a_history_is_a_frame_of_states_metrics_and_slices(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    made = {
        day: state(tmp_path / f"{day}.fms", noise, 1, by="user", max_slices=2)
        for day, noise in (("mon", 0.1), ("tue", 3.0))
    }
    frame = history([tmp_path / f"{day}.fms" for day in made]).frame()
    rows = frame[frame["by"].isna()].set_index(["state", "metric"])
    for day, result in made.items():
        for metric, value in result.values.items():
            row, interval = rows.loc[day, metric], result.intervals[metric]
            assert (row["value"], row["low"], row["high"], row["rows"]) == (value, interval.low, interval.high, 4000)
    change = made["tue"]["auc"] - made["mon"]["auc"]
    assert rows.loc["tue", "auc"]["change"] == change < rows.loc["tue", "auc"]["change_high"]
    assert rows.loc["mon"]["change"].isna().all()
    slices = frame[frame["by"] == "user"].set_index(["state", "key", "metric"])
    for day, result in made.items():
        for each in result.slices["user"]:
            for metric, value in each.metrics.items():
                row = slices.loc[day, each.key, metric][["value", "rows"]]
                np.testing.assert_array_equal(row.astype(float), [value, each.rows])
        (other,) = [each for each in result.slices["user"] if each.key == "(other)"]
        row = slices.loc[day, "(other)", "auc"]
        assert (row["low"], row["high"]) == (other.low, other.high)
    before, after = (slices.loc[day, "(other)", "log_loss"] for day in made)
    assert after["change"] == after["value"] - before["value"]


def test_the_pictures_show_the_values_and_intervals_of_the_states(days: Any, monkeypatch: Any) -> None:
    folder, made = days
    drawn: list[Any] = []
    monkeypatch.setattr("fleetmetrics.report.tables.points", lambda *given: drawn.append(given) or "")
    monkeypatch.setattr("fleetmetrics.report.tables.page_of", lambda *given: "")
    history([folder / "d3.fms", folder / "d1.fms"]).to_html()
    assert [(name, place) for _, name, place in drawn] == [("auc", 0), ("log_loss", 1)]
    for name in ("d3", "d1"):
        interval = made[name].intervals["auc"]
        assert drawn[0][0][name] == {"value": made[name]["auc"], "low": interval.low, "high": interval.high}


def test_a_state_twice_or_one_that_was_asked_something_else_is_an_error_that_names_it(days: Any, tmp_path: Any) -> None:
    folder, _ = days
    one = folder / "d1.fms"
    with pytest.raises(fm.DataError, match=r"d1\.fms is given twice"):
        history([one, folder / "d2.fms", one])
    (tmp_path / "link.fms").symlink_to(one)
    with pytest.raises(fm.DataError, match=r"link\.fms is given twice"):
        history([one, tmp_path / "link.fms"])
    state(tmp_path / "other.fms", 0.1, 1, metrics="auc")
    with pytest.raises(fm.DataError, match=r"other\.fms, .*cannot be combined with .*d1\.fms.*metrics"):
        history([one, tmp_path / "other.fms"])
    (tmp_path / "bad.fms").write_bytes(b"no state")
    with pytest.raises(fm.CorruptFileError, match=r"bad\.fms"):
        history([tmp_path / "bad.fms"])
    fm.save(tmp_path / "metric.fms", fm.AUC())
    for states in ([tmp_path / "metric.fms"], [one, tmp_path / "metric.fms"]):
        with pytest.raises(fm.CorruptFileError, match=r"metric\.fms is a file of .*, but no saved evaluation"):
            history(states)
    with pytest.raises(fm.InvalidInputError, match="states is empty"):
        history([])


def test_states_of_one_name_in_two_folders_have_their_paths_and_a_file_in_two_is_a_warning(tmp_path: Any) -> None:
    np.savez(tmp_path / "part.npz", y=np.arange(50) % 2, p=np.linspace(0.1, 0.9, 50))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        fm.evaluate(str(tmp_path / "part.npz"), label="y", score="p", metrics="auc").save_state(
            tmp_path / name / "s.fms"
        )
    found = history([tmp_path / "a" / "s.fms", tmp_path / "b" / "s.fms"])
    assert list(found.points) == [str(tmp_path / name / "s.fms") for name in "ab"]
    assert len(found.warnings) == 1 and "part.npz is in" in found.warnings[0]
    assert len(list(found.tables())) == 2  # no intervals: the values, and the warning
    said = next(iter(found.tables())).notes
    assert str(said).count("s.fms)") == 2 and ", " not in str(said).split("s.fms)")[-1]  # and of a change nothing


def test_missing_metrics_and_undefined_points_are_warnings_with_the_name_of_the_state(tmp_path: Any) -> None:
    np.savez(tmp_path / "part.npz", y=np.ones(50, int), p=np.linspace(0.1, 0.9, 50))
    (tmp_path / "gone.csv").touch()
    paths = [str(tmp_path / name) for name in ("part.npz", "gone.csv")]
    found = fm.evaluate(paths, label="y", score="p", metrics="auc,log_loss", skip_bad_files=True)
    found.save_state(tmp_path / "mon.fms")
    lacks, undefined = history([tmp_path / "mon.fms"]).warnings
    assert lacks.startswith(f"{tmp_path}/mon.fms lacks a file that could not be used: {tmp_path}/gone.csv")
    assert undefined.startswith("mon: ") and "auc" in undefined


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_has_a_picture_of_each_metric_and_asks_for_nothing(days: Any, tmp_path: Any, lang: str) -> None:
    folder, _ = days
    hostile = tmp_path / "<script>alert(1)<.fms"
    hostile.write_bytes((folder / "d1.fms").read_bytes())
    found = history([hostile, folder / "d2.fms"])
    page = found.to_html(tmp_path / "page.html", lang)
    assert (tmp_path / "page.html").read_text("utf-8") == page and page.count("<figure>") == 2
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;" in page
    assert "http:" not in page.replace("http://www.w3.org", "") and "default-src 'none'" in page
    assert {"en": "<h1>History</h1>", "zh": "<h1>历史</h1>"}[lang] in page and f'lang="{lang}' in page
    said = page.partition('<script type="application/json"')[0]
    assert said.count("(d2)") == 1  # the first sentence comes once


def test_the_command_prints_text_markdown_and_json_and_writes_the_page(days: Any, tmp_path: Any, capsys: Any) -> None:
    folder, _ = days
    states = [str(folder / f"d{day}.fms") for day in (1, 2)]
    assert main(["history", *states, "--html", str(tmp_path / "h.html")]) == 0
    assert capsys.readouterr().out == f"{history(states)}\n" and (tmp_path / "h.html").exists()
    assert main(["history", *states, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == history(states).to_dict()
    assert main(["history", *states, "--markdown"]) == 0
    assert "| state | rows |" in capsys.readouterr().out
    assert main(["history", *states, "--html", states[0]]) == 2  # nothing is overwritten
    assert main(["history", states[0], states[0]]) == 3
    assert "is given twice" in capsys.readouterr().err


def test_a_condition_on_the_last_state_makes_the_exit_status_one(days: Any, tmp_path: Path, capsys: Any) -> None:
    folder, made = days
    paths = [str(folder / f"d{day}.fms") for day in (1, 2, 3)]
    first, last = made["d1"]["auc"], made["d3"]["auc"]
    assert last < first
    between = f"auc<{(first + last) / 2}"
    assert main(["history", *paths, "--fail-if", between]) == 1
    said = capsys.readouterr()
    assert "d1" in said.out and f"--fail-if 'auc<{(first + last) / 2}' holds: auc is " in said.err
    assert main(["history", *reversed(paths), "--fail-if", between, "--fail-if", "data.rows<4000"]) == 0
    assert main(["history", *paths, "--fail-if", "auc_interval.high<0.5"]) == 0
    assert history(paths).failed(between) and not history(paths[::-1]).failed(between)
    assert history(paths).failed("data.rows<4001")  # any number of the last state's result
    assert main(["history", *paths, "--fail-if", "auc_change.high<0"]) == 1  # from d2 to d3
    assert main(["history", *paths[:2], "--fail-if", "auc_change.high<0"]) == 0  # within chance
    latest = history(paths).to_dict()["states"][-1]["auc_change"]
    assert list(latest) == ["value", "low", "high"] and latest["value"] == last - made["d2"]["auc"]
    assert history(paths).failed("auc_change<0")[0].startswith("'auc_change<0' holds: auc_change is -")
    capsys.readouterr()
    assert main(["history", paths[0], "--fail-if", "auc_change<0"]) == 1
    assert "auc_change is undefined" in capsys.readouterr().err
    capsys.readouterr()
    page = tmp_path / "page.html"
    for wrong, what in (
        ("acu<0.7", "did you mean auc?"),
        ("auc<", "must be a name"),
        ("auc_delta<0", "--baseline"),
    ):
        assert main(["history", *paths, "--fail-if", wrong, "--html", str(page)]) == 2
        said = capsys.readouterr()
        assert what in said.err and "d3" in said.out and not page.exists()


def test_the_first_line_is_of_the_first_metric_by_its_own_direction_and_of_one_state_its_value(tmp_path: Path) -> None:
    made = [state(tmp_path / f"{name}.fms", noise, 1, metrics="log_loss") for name, noise in (("a", 0.1), ("b", 3.0))]
    values = [f"{each['log_loss']:.6g}" for each in made]
    both, alone = history([tmp_path / "a.fms", tmp_path / "b.fms"]), history([tmp_path / "b.fms"])
    assert next(iter(both.tables())).notes == [f"log_loss: {values[0]} (a) to {values[1]} (b), worse"]
    assert next(iter(alone.tables())).notes == [f"log_loss: {values[1]} (b)"]


def test_the_first_line_is_of_the_change_from_the_first_state_to_the_last(days: Any) -> None:
    folder, _ = days
    table = next(iter(history([folder / f"d{day}.fms" for day in (3, 1, 2)]).tables()))
    assert table.notes[0].endswith("(d2), better")  # from the second state, it is within chance


def test_a_page_takes_the_place_of_no_state_whichever_it_is(days: Any, tmp_path: Path) -> None:
    folder, _ = days
    paths = [tmp_path / f"d{day}.fms" for day in (1, 2)]
    for path in paths:
        path.write_bytes((folder / path.name).read_bytes())
    for path in paths:
        before = path.read_bytes()
        with pytest.raises(fm.InvalidInputError, match=path.name):
            history(paths).to_html(path)
        assert path.read_bytes() == before


def test_intervals_are_shown_where_the_first_state_has_none(tmp_path: Path) -> None:
    ones = fm.evaluate(
        {"y": np.ones(50, int), "p": np.linspace(0.1, 0.9, 50)}, label="y", score="p", metrics="auc", ci=0.9
    )
    ones.save_state(tmp_path / "ones.fms")
    made = state(tmp_path / "both.fms", 0.1, 1, metrics="auc", ci=0.9)
    found = history([tmp_path / "ones.fms", tmp_path / "both.fms"])
    assert found.to_dict()["states"][1]["auc_change"] == {"value": None}
    _, auc, *_ = [each.rows for each in found.tables()]
    interval = made.intervals["auc"]
    shown = (f"{made['auc']:.6g}", f"{interval.low:.6g} to {interval.high:.6g}")
    assert auc == [("state", "auc", "90%"), ("ones", "undefined", "-"), ("both", *shown)]


def test_a_file_without_rows_in_two_states_is_no_data_that_count_twice(tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz", y=np.zeros(0, int), p=np.zeros(0))
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", y=np.arange(50) % 2, p=np.linspace(0.1, 0.9, 50) / (1 + (name == "b")))
        paths = [str(tmp_path / f"{each}.npz") for each in (name, "none")]
        fm.evaluate(paths, label="y", score="p", metrics="auc").save_state(tmp_path / f"{name}.fms")
    assert history([tmp_path / "a.fms", tmp_path / "b.fms"]).warnings == []


def test_a_change_of_a_metric_without_a_direction_is_higher_or_lower() -> None:
    for sign, english, chinese in ((1, "higher", "更高"), (-1, "lower", "更低")):
        change = {"value": 0.2 * sign, "low": 0.2 * sign - 0.1, "high": 0.2 * sign + 0.1}
        assert [_in_words(change_of(change, ""), Words(lang)) for lang in ("en", "zh")] == [english, chinese]


# -- one table, by its column of days ------------------------------------------------------------------------------


def table(days: Any, **more: Any) -> dict[str, Any]:
    random = np.random.default_rng(5)
    score = random.random(len(days))
    return {"date": np.asarray(days), "y": (random.random(len(days)) < score).astype(int), "p": score, **more}


DAYS = ["2026-11-03", "2026-11-01", "2026-11-02"]
ASKED: dict[str, Any] = {"label": "y", "score": "p", "metrics": "auc,log_loss", "ci": 0.95}


def test_each_day_of_a_table_is_the_evaluation_of_its_rows_in_the_order_of_days(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow")
    rows = table(np.repeat(DAYS, [300, 200, 400]), slot=np.arange(900) % 3)
    found = history(rows, by_day="date", where="slot < 2", by="slot", **ASKED)
    assert list(found.points) == sorted(DAYS)
    for day, point in found.points.items():
        chosen = (rows["date"] == day) & (rows["slot"] < 2)
        alone = fm.evaluate({name: column[chosen] for name, column in rows.items()}, by="slot", **ASKED)
        assert point.values == alone.values and point.intervals == alone.intervals
        assert [row.value for row in point.slices["slot"]] == [row.value for row in alone.slices["slot"]]
        point.save_state(tmp_path / f"{day}.fms")
    assert str(found).splitlines()[0].split() == ["state", "rows", "positives", "auc", "log_loss"]
    assert found.failed("auc_change<-1", "auc>0") == [f"'auc>0' holds: auc is {found.last['auc']:.6g}, "
                                                       f"{found.last['auc']:.6g} above"]  # fmt: skip


@pytest.mark.parametrize("kind", ["date", "moment", "integer", "number", "text", "month", "quoted"])
def test_days_may_be_dates_moments_integers_or_texts(kind: str) -> None:
    pytest.importorskip("pyarrow")
    day = np.repeat(DAYS, 30).astype("datetime64[D]")
    column, expected = {
        "date": (day, sorted(DAYS)),
        "moment": (day.astype("datetime64[s]") + (np.arange(90) % 7 * 10_000).astype("timedelta64[s]"), sorted(DAYS)),
        "integer": (np.repeat([20261103, 20261101, 20261102], 30), ["20261101", "20261102", "20261103"]),
        "number": (np.repeat([33, 1, 64], 30), ["1", "33", "64"]),
        "text": (np.repeat(["20261103", "20261101", "20261102"], 30), ["20261101", "20261102", "20261103"]),
        "month": (np.repeat(["2026-03", "2025-12", "2026-01"], 30), ["2025-12", "2026-01", "2026-03"]),
        "quoted": (day.astype(str), sorted(DAYS)),
    }[kind]
    rows = table(column)
    name = 'the "date"*' if kind == "quoted" else "date"
    rows[name] = rows.pop("date")
    found = history(rows, by_day=name, label="y", score="p", metrics="auc")
    assert list(found.points) == expected
    assert [point.new.rows for point in found.points.values()] == [30, 30, 30]


def test_rows_without_a_day_are_told_and_several_tasks_have_their_days() -> None:
    pa = pytest.importorskip("pyarrow")
    rows = table(np.repeat(DAYS, 20))
    dates = pa.array([None, *rows["date"][1:].tolist()])
    found = history(pa.table({**rows, "date": dates}), by_day="date", label="y", score="p", metrics="log_loss")
    assert found.warnings == ["1 row without date count for no day"]
    both = history({**rows, "z": 1 - rows["y"]}, by_day="date", label=["y", "z"], score=["p", "p"], metrics="log_loss")
    assert list(both.points) == sorted(DAYS) and "z.log_loss" in both.last.values


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"by_day": "p"}, "column 'p' must hold integers, strings, bools, dates or times, not double"),
        (
            {"by_day": "word"},
            "by_day: word must hold days in one form, such as 2026-11-01 or 20261101, .* it holds 'mon'",
        ),
        ({"by_day": "mixed"}, "mixed must hold days in one form"),
        (
            {"by_day": "number"},
            "number has 1,200 different days; at most 1,000 are evaluated, those of a condition with where",
        ),
        ({"by_day": "second"}, "second has 100 or more different days; at most 50 are evaluated"),
        ({"by_day": "name"}, "name must hold days in one form, .*, or moments that begin with one; it holds 'row 0'"),
        ({"by_day": 3}, "by_day must be the name of the column of days, not 3"),
        (
            {"by_day": "date", "baseline_score": "p"},
            "by_day compares each day with the day before; leave out baseline_score",
        ),
        ({"by_day": "date", "metric": "auc"}, "history has no argument 'metric'; did you mean metrics"),
        ({"by_day": "dat"}, "no column 'dat' for by_day; did you mean 'date'"),
    ],
)
def test_what_is_no_column_of_days_is_refused(given: dict[str, Any], why: str, monkeypatch: Any) -> None:
    pytest.importorskip("pyarrow")
    if given["by_day"] in ("second", "name"):  # of more values than are counted
        monkeypatch.setattr("fleetmetrics.evaluation.history._MOST_VALUES", 100)
        monkeypatch.setattr("fleetmetrics.evaluation.history._MOST_DAYS", 50)
    rows = table(np.repeat(DAYS, 400), word=np.repeat(["mon", "tue"], 600), number=np.arange(1200))
    rows["mixed"] = np.repeat(["2026-11-01", "20261102"], 600)
    rows.update(second=1_793_491_200 + np.arange(1200), name=np.array([f"row {number}" for number in range(1200)]))
    with pytest.raises((fm.InvalidInputError, fm.DataError), match=why) as refused:
        history(rows, label="y", score="p", metrics="auc", **given)
    assert "\n" not in str(refused.value)


def test_days_of_times_with_a_zone_are_those_of_utc_and_a_warning_says_so() -> None:
    pa, pc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.compute")
    at = pa.array(np.array(["2026-11-01T01", "2026-11-01T23", "2026-11-01T07", "2026-11-01T09"], "datetime64[s]"))
    zoned = pc.assume_timezone(at, "Asia/Shanghai")  # eight hours ahead
    table = pa.table({"at": zoned, "y": [0, 1, 1, 0], "p": [0.1, 0.8, 0.6, 0.7]})
    result = history(table, by_day="at", label="y", score="p", metrics="count")
    assert {day: point["count"] for day, point in result.points.items()} == {"2026-10-31": 2, "2026-11-01": 2}
    assert "at has a time zone; its days are those of UTC" in result.warnings
    local = history(table.set_column(0, "at", at), by_day="at", label="y", score="p", metrics="count")
    assert list(local.points) == ["2026-11-01"] and not local.warnings


@pytest.mark.parametrize(
    ("form", "days"),
    [
        ("datetime64[us]", ["2026-10-31", "2026-11-01", "2026-11-02"]),
        ("dictionary", ["2026-10-31", "2026-11-01", "2026-11-02"]),
        ("%Y-%m-%d %H:%M:%S", ["2026-10-31", "2026-11-01", "2026-11-02"]),
        ("%Y/%m/%d %H:%M:%S", ["2026/10/31", "2026/11/01", "2026/11/02"]),
        ("%Y%m%dT%H%M%SZ", ["20261031", "20261101", "20261102"]),
    ],
)
def test_moments_are_cut_to_days_while_they_are_read_so_that_they_may_all_differ(
    form: str, days: list[str], monkeypatch: Any, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr("fleetmetrics.evaluation.history._MOST_VALUES", 50)
    at = np.datetime64("2026-10-31T00:00:00", "us") + np.arange(0, 72 * 3600, 1000) * np.timedelta64(1, "s")
    column = at if "%" not in form else np.array([moment.strftime(form) for moment in at.tolist()])
    keys = pa.array(column).dictionary_encode() if form == "dictionary" else pa.array(column)
    data = pa.table({"at": keys, "y": np.arange(len(at)) % 2, "p": np.arange(len(at)) / len(at)})
    asked: dict[str, Any] = {"label": "y", "score": "p", "metrics": "count"}
    whole = history(data, by_day="at", **asked)
    assert {day: point["count"] for day, point in whole.points.items()} == dict(zip(days, (87, 86, 87)))
    assert whole.warnings == (["at has a time zone; its days are those of UTC"] if form.endswith("Z") else [])
    later = {"datetime64[us]": "2026-11-01T12:00", "dictionary": "2026-11-01T12:00"}.get(form, column[130])
    some = history(data, by_day="at", where=f"at >= '{later}'", **asked)  # a condition sees the moments, not the days
    assert {day: point["count"] for day, point in some.points.items()} == dict(zip(days[1:], (43, 87)))
    if "%" in form:
        lines = [f"{moment},{number % 2},0.5" for number, moment in enumerate(column)]
        (tmp_path / "log.csv").write_text("at,y,p\n" + "\n".join(lines) + "\n")
        assert [*history(str(tmp_path / "log.csv"), by_day="at", **asked).points] == days


def test_a_day_may_be_the_first_or_the_last_of_all_and_must_be_one() -> None:
    pytest.importorskip("pyarrow")
    ends = ["0001-01-01 00:00:00", "9999-12-31 23:59:59", "2026-11-01 12:00:00"] * 2
    found = history(table(ends), by_day="date", label="y", score="p", metrics="count")
    assert {day: point["count"] for day, point in found.points.items()} == dict.fromkeys(
        ("0001-01-01", "2026-11-01", "9999-12-31"), 2
    )
    with pytest.raises(fm.DataError, match='by_day: "date" holds 2026-11-31, and there is no such day'):
        history(table(["2026-11-31 12:00:00", "2026-11-01 12:00:00"]), by_day="date", label="y", score="p")


def test_options_are_for_a_table_and_not_for_saved_states() -> None:
    with pytest.raises(fm.InvalidInputError, match="label is for a table, with by_day="):
        history(["a.fms"], label="y")


def test_the_command_evaluates_each_day_and_is_a_gate_on_the_last(tmp_path: Path, capfd: Any) -> None:
    pytest.importorskip("pyarrow")
    lines = [f"{day},{number % 2},{number % 7 / 7}" for day in DAYS for number in range(40)]
    (tmp_path / "log.csv").write_text("date,y,p\n" + "\n".join(lines) + "\n")
    command = [
        "evaluate",
        str(tmp_path / "log.csv"),
        "--label",
        "y",
        "--score",
        "p",
        "--metrics",
        "auc",
        "--by-day",
        "date",
    ]
    assert main([*command, "--json", "--fail-if", "auc_change<0"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert [state["state"] for state in shown["states"]] == sorted(DAYS)
    assert main([*command, "--fail-if", "auc<2"]) == 1
    assert "'auc<2' holds" in capfd.readouterr().err
    for more, status, why in (
        (["--save-state", str(tmp_path / "s.fms")], 2, "--save-state holds one result"),
        (["--baseline", str(tmp_path / "log.csv")], 2, "--by-day compares each day with the day before"),
        (["--metrics-of", "x"], 2, "no option --metrics-of"),
    ):
        assert main([*command, *more]) == status
        assert why in capfd.readouterr().err
    assert main([*command[:-1], "y"]) == 0  # days may be numbered
    command[1] = "-"
    assert main(command) == 2 and "standard input" in capfd.readouterr().err
