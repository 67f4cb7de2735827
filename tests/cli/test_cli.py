"""The command line: what it prints is what the metrics say, and each exit status means one thing."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.evaluation.arguments.named import kinds
from fleetmetrics.evaluation.question.counted import Errors, Joined
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.sides.side_of_data import of_files
from fleetmetrics.evaluation.sides.sides_of_workers import of_workers
from fleetmetrics.support import printed
from tests.fakes import together

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]
pa = pytest.importorskip("pyarrow")

ROOT = Path(__file__).resolve().parents[2]
ROWS = 4000
COLUMNS = ["--label", "y", "--score", "p"]


def write(path, table):
    import pyarrow.parquet

    path.parent.mkdir(exist_ok=True, parents=True)
    pyarrow.parquet.write_table(pa.table(table), path)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    p = rng.beta(2, 5, ROWS)
    slot = rng.integers(0, 4, ROWS)
    rate = np.where(slot == 2, rng.permutation(p), p)  # in one slot the score says nothing
    return {
        "y": (rng.random(ROWS) < rate).astype(np.int64),
        "p": p,
        "n": 1 - p,
        "old": np.clip(p + rng.normal(0, 0.3, ROWS), 0, 1),
        "uid": rng.integers(0, 300, ROWS),
        "slot": np.array(["feed", "<b>news", "evil\x1b[31m\nred", "a|b"])[slot],
        "id": rng.permutation(ROWS),
        "w": rng.random(ROWS),
    }


@pytest.fixture(scope="module")
def there(data, tmp_path_factory):
    """A folder with the data in two halves, and those of an old model in three parts, in another order."""
    folder = tmp_path_factory.mktemp("cli")
    for place in range(2):
        write(folder / "new" / f"{place}.parquet", {name: each[place::2] for name, each in data.items()})
    order = np.random.default_rng(4).permutation(ROWS)
    for place in range(3):
        part = {name: each[order[place::3]] for name, each in data.items()}
        write(folder / "old" / f"{place}.parquet", {**part, "p": part["old"]})
    return folder


@pytest.fixture
def run(there, monkeypatch, capsys):
    def call(*args, status=0):
        monkeypatch.chdir(there)
        got = main(list(map(str, args)))
        out, err = capsys.readouterr()
        assert got == status, err
        assert "Traceback" not in err
        return json.loads(out) if "--json" in args and status in (0, 1) else err if status else out

    return call


@pytest.fixture
def evaluate(run):
    return lambda *args, files="new", **more: run("evaluate", files, *COLUMNS, *args, **more)


def without_date(result):
    return {**result, "data": {**result["data"], "date": ""}, "asked": {**result["asked"], "command": ""}}


# -- values ----------------------------------------------------------------------------------------------------


def test_label_and_score_are_enough_and_keys_are_names_of_metrics(evaluate, data):
    found = evaluate("--json")
    auc, loss = fm.AUC(), fm.LogLoss()
    for metric in (auc, loss):
        metric.add(data["p"], data["y"])
    assert found["auc"] == auc.compute() and found["log_loss"] == pytest.approx(loss.compute(), rel=1e-14)
    assert found["rows"] == ROWS == found["data"]["rows"]
    assert found["data"]["files"] == ["new/0.parquet", "new/1.parquet"]
    assert found["asked"]["columns"] == {"prediction": "p", "label": "y"} and found["baseline"] is None
    assert "gauc" not in found and not any("interval" in name for name in found)


def test_a_user_and_a_weight_change_what_they_should(evaluate, data):
    found = evaluate("--user", "uid", "--weight", "w", "--json")
    gauc, auc = fm.GAUC(), fm.AUC()
    gauc.add(data["p"], data["y"], data["w"], user=data["uid"])
    auc.add(data["p"], data["y"], data["w"])
    assert found["gauc"] == pytest.approx(gauc.compute(), rel=1e-13) and found["rows"] == ROWS
    assert found["auc"] == pytest.approx(auc.compute(), rel=1e-13)


def test_rows_of_weight_0_count_the_same_in_headline_rows_and_slices(run, tmp_path):
    table = {
        "y": [0, 1, 1, 0, 0],
        "p": [0.1, 0.9, 0.4, 0.5, None],
        "w": [1.0, 2, 0, 0.5, 1],
        "s": ["a", "a", "b", "b", "b"],
    }
    write(tmp_path / "some.parquet", table)
    given = [tmp_path / "some.parquet", *COLUMNS, "--weight", "w", "--by", "s", "--metrics", "auc", "--skip-bad-rows"]
    found = run("evaluate", *given, "--baseline", given[0], "--json")
    for side in (found, found["baseline"]):
        assert side["rows"] == 3
        assert {name: side["data"][name] for name in ("rows", "skipped", "weight_0")} == {
            "rows": 4,
            "skipped": 1,
            "weight_0": 1,
        }
    assert {each["key"]: each["rows"] for each in found["slices"]["s"]} == {"a": 2, "b": 1}
    assert run("evaluate", *given).startswith(
        "4 rows, 1 positive in 1 file, 1 null in p, 1 more with weight 0, 1 row skipped: "
    )


@pytest.mark.parametrize("task", ["regression", "ranking", "multiclass"])
def test_each_task_has_metrics_of_its_own(evaluate, run, task, data):
    if task == "multiclass":
        found = run("evaluate", "new", "--label", "y", "--score", "n,p", "--task", task, "--json")
        score = fm.Accuracy(task="multiclass", num_classes=2)
        score.add(np.stack([data["n"], data["p"]], 1), data["y"])
        assert found["accuracy"] == score.compute() and set(found) >= {"f1", "log_loss"}
    elif task == "ranking":
        found = evaluate("--task", task, "--user", "uid", "--json")
        score = fm.NDCG(10)
        score.add(data["p"], data["y"], query=data["uid"])
        assert found["ndcg@10"] == pytest.approx(score.compute(), rel=1e-13)
        recall = fm.RecallAtK([1, 3, 10, 30, 100])
        recall.add(data["p"], data["y"], query=data["uid"])
        assert {int(k): value for k, value in found["at_k"]["recall"].items()} == pytest.approx(
            recall.compute(), rel=1e-13
        )
        assert found["at_k"].keys() == {"ndcg", "hit_rate", "recall"}
        assert found["at_k"]["recall"]["10"] == found["recall@10"] and found["at_k"]["ndcg"]["10"] == found["ndcg@10"]
    else:
        found = evaluate("--task", task, "--json")
        assert found["mean_bias"] == pytest.approx(np.mean(data["p"] - data["y"]))


def test_metrics_are_named_with_settings_and_keys(evaluate, data):
    names = "pr=auc:curve=PR,f1:threshold=0.4,precision@5,mae,threshold_sweep:thresholds=[0.2, 0.5],roc_curve"
    found = evaluate("--metrics", names, "--user", "uid", "--json")
    assert list(found)[:4] == ["pr", "f1:threshold=0.4", "precision@5", "mae"]
    area = fm.AUC(curve="PR")
    area.add(data["p"], data["y"])
    assert found["pr"] == area.compute()
    assert found["threshold_sweep:thresholds=[0.2, 0.5]"]["thresholds"] == [0.2, 0.5]
    assert "roc_curve: no single number" in evaluate("--metrics", "auc,roc_curve")


def test_every_metric_of_the_catalogue_has_a_line_and_can_be_made(run):
    lines = run("metrics").splitlines()
    assert len(lines) == len(kinds()) >= 80 and all(len(line.split(None, 1)) == 2 for line in lines)
    for line in lines:
        spec = line.split()[0] + (line.split("Needs ")[1][:-1] + "0.5" if "Needs :" in line else "")
        spec = re.sub(r"(num_\w+)=0\.5", r"\1=2", spec).replace("types=0.5", "types=['A']")
        assert Question("y", "p", user="uid", metrics=[spec]).probe().values[spec]


def test_errors_of_any_size_are_counted_by_their_sign():
    metric = Errors()
    metric.add([1e15, -1e300, 1e-30, 2.0, -2.0, 0.0], np.zeros(6))
    found = metric.compute()
    assert (found.below, found.above, found.counts.sum()) == (1, 1, 4)


# -- intervals, baseline, slices -------------------------------------------------------------------------------


def by_user(metric, data, **more):
    """The ends of the interval of 90 % of a metric, from the library."""
    made = fm.Interval(metric, confidence=0.9, **more)
    made.add(data["p"], data["y"], user=data["uid"])
    found = made.compute()
    return pytest.approx({"low": found.low, "high": found.high}, rel=1e-12)


def test_intervals_by_user_are_those_of_the_formula(evaluate, data):
    found = evaluate("--user", "uid", "--ci", "0.9", "--metrics", "log_loss,gauc,auc", "--json")
    assert found["log_loss_interval"] == by_user(fm.LogLoss(), data, ids="user")
    assert found["gauc_interval"] == by_user(fm.GAUC(), data)
    assert found["auc_interval"] == by_user(fm.AUC(), data, ids="user", groups=1024)


def test_metrics_by_query_have_intervals_deltas_and_conditions_and_those_of_all_rows_have_none(evaluate):
    args = ["--task", "ranking", "--query", "uid", "--baseline", "old", "--join-on", "id", "--by", "slot"]
    found = evaluate(*args, "--metrics", "ndcg@10,map,exact_auc", "--json", "--fail-if", "ndcg@10_interval.low<0.1")
    for key in ("ndcg@10", "map"):
        assert found[f"{key}_interval"]["low"] < found[key] < found[f"{key}_interval"]["high"]
        delta = found[f"{key}_delta"]
        assert delta["low"] < delta["value"] < delta["high"]
    assert "exact_auc_interval" not in found and list(found["exact_auc_delta"]) == ["value"]
    assert all(each["low"] < each["value"] < each["high"] for each in found["slices"]["slot"])
    held = evaluate("--user", "uid", "--ci", "0.9", "--metrics", "gauc", "--fail-if", "gauc_interval.low<1", status=1)
    assert "gauc_interval.low is 0." in held
    said = evaluate("--ci", "0.9", "--metrics", "exact_auc", "--fail-if", "exact_auc_interval.low<1", status=2)
    assert "there is no 'exact_auc_interval.low'" in said


def test_a_metric_without_a_formula_is_resampled_over_few_buckets_and_moved_to_its_value(evaluate, data):
    found = evaluate("--user", "uid", "--ci", "0.9", "--metrics", "matthews_correlation", "--json")
    metric = fm.Bootstrap(fm.MatthewsCorrelation(), 1000, confidence=0.9, ids="user")
    metric.add(data["p"], data["y"], user=data["uid"])
    wanted = metric.compute()
    assert found["matthews_correlation_interval"] == pytest.approx({"low": wanted.low, "high": wanted.high}, abs=2e-3)


def test_without_a_user_rows_are_independent(evaluate):
    found = evaluate("--ci", "0.95", "--metrics", "auc,log_loss", "--json")
    for key in ("auc", "log_loss"):
        assert found[f"{key}_interval"]["low"] < found[key] < found[f"{key}_interval"]["high"]


def test_a_baseline_joined_by_id_gives_paired_deltas(evaluate, data):
    found = evaluate("--baseline", "old", "--join-on", "id", "--metrics", "auc,log_loss", "--json")
    sides = []
    for score in (data["p"], data["old"]):
        sides.append(fm.Interval(fm.LogLoss(), ids="id"))
        sides[-1].add(score, data["y"], id=data["id"])
    wanted = fm.paired_difference(*(side.compute() for side in sides))
    delta = found["log_loss_delta"]
    assert delta == pytest.approx({"value": wanted.value, "low": wanted.low, "high": wanted.high}, rel=1e-10)
    assert found["baseline"]["data"]["rows"] == ROWS
    assert found["auc_delta"]["value"] == found["auc"] - found["baseline"]["auc"]
    alone = evaluate("--baseline", "old", "--metrics", "auc,log_loss", "--json")
    assert list(alone["auc_delta"]) == ["value"]


def test_a_baseline_that_is_not_joined_has_rows_of_its_own(evaluate):
    """Even the same rows: the interval of a delta of two independent sides is wider than that of one."""
    found = evaluate("--baseline", "new", "--ci", "0.95", "--metrics", "auc", "--json")
    width, of_delta = (found[name]["high"] - found[name]["low"] for name in ("auc_interval", "auc_delta"))
    assert found["auc_delta"]["value"] == 0 and 1.1 < of_delta / width < 1.8


@pytest.mark.parametrize("fault", ["missing", "twice", "label"])
def test_a_baseline_of_other_rows_is_refused_with_an_example(run, data, tmp_path, fault):
    other = {name: each.copy() for name, each in data.items()}
    place = int(np.flatnonzero(data["id"] == 7)[0])
    if fault == "label":
        other["y"][place] ^= 1
    elif fault == "twice":
        other = {name: np.append(each, each[place]) for name, each in other.items()}
    else:
        other = {name: np.delete(each, place) for name, each in other.items()}
    write(tmp_path / "other.parquet", other)
    args = ["--baseline", tmp_path / "other.parquet", "--join-on", "id", "--metrics", "auc"]
    text = run("evaluate", "new", *COLUMNS, *args, status=3)
    assert "--join-on id" in text and "7 with label" in text
    times = {"missing": "1 time here and 0 times there", "twice": "1 time here and 2 times there", "label": "0 times"}
    assert times[fault] in text


def test_slices_come_worst_first_with_the_values_of_their_rows(evaluate, data):
    found = evaluate("--by", "slot", "--metrics", "auc,calibration", "--json")
    slices = found["slices"]["slot"]
    assert slices[0]["key"] == "evil\x1b[31m\nred" and slices[0]["within_chance"] is False
    for each in slices:
        rows = data["slot"] == each["key"]
        auc = fm.AUC()
        auc.add(data["p"][rows], data["y"][rows])
        assert each["rows"] == rows.sum() and each["share"] == rows.mean() and each["value"] == auc.compute()
        assert each["difference"] == each["value"] - found["auc"]
        assert each["low"] < each["value"] < each["high"] and each["p"] <= each["q"]
        assert each["metrics"]["calibration"] > 0


def test_slices_of_one_class_are_too_few_and_come_last(run, tmp_path):
    rng = np.random.default_rng(0)
    slot = np.repeat([1, 2, 3], 100)
    label = np.where(slot == 1, 1, rng.integers(0, 2, 300))  # the area of slot 1 is undefined
    write(tmp_path / "some.parquet", {"y": label, "p": rng.random(300), "s": slot})
    found = run("evaluate", tmp_path / "some.parquet", *COLUMNS, "--by", "s", "--metrics", "auc", "--json")
    *others, last = found["slices"]["s"]
    assert last["key"] == 1 and last["value"] is None and last["harm"] is None
    assert (last["verdict"], last["needs"]) == ("too few", {"negatives": 5})
    assert all(each["verdict"] in ("worse", "better", "within chance") for each in others)


def test_a_column_of_any_name_can_slice_and_two_can(evaluate, tmp_path, run, data):
    found = evaluate("--by", "slot,uid", "--metrics", "accuracy", "--json")
    assert list(found["slices"]) == ["slot", "uid"] and len(found["slices"]["uid"]) == 300
    write(tmp_path / "a.parquet", {"y": data["y"], "p": data["p"], "label": data["slot"], "a b": data["slot"]})
    found = run("evaluate", tmp_path / "a.parquet", *COLUMNS, "--by", "label,a b", "--metrics", "auc", "--json")
    assert found["slices"]["label"] == found["slices"]["a b"]


# -- outputs ---------------------------------------------------------------------------------------------------


def test_what_data_hold_reaches_neither_terminal_nor_markdown_raw(evaluate):
    text, page = evaluate("--by", "slot"), evaluate("--by", "slot", "--markdown")
    for each in (text, page):
        assert "\x1b" not in each and "x1b" in each
    assert "<b>" not in page.replace("\\<b\\>", "") and "a\\|b" in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    widths = [len(line.replace("\\|", "").split("|")) for line in rows]
    assert widths[0] == 4 or len(set(widths)) == 2


def test_a_terminal_gets_a_table_of_rich(there):
    pytest.importorskip("rich")
    pty = pytest.importorskip("pty")
    reading, writing = pty.openpty()
    command = [sys.executable, "-m", "fleetmetrics", "evaluate", "new", *COLUMNS, "--by", "slot", "--metrics", "auc"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}
    subprocess.run(command, cwd=there, stdout=writing, stderr=subprocess.PIPE, env=environment, check=True, timeout=60)
    os.close(writing)
    shown = b""
    while True:
        try:
            part = os.read(reading, 1 << 16)
        except OSError:
            break
        shown += part
        if not part:
            break
    assert "┃" in shown.decode() and b"evil\\x1b[31m" in shown


def test_conditions_that_hold_are_named_and_the_exit_status_is_1(evaluate):
    held = evaluate("--metrics", "auc,roc_curve", "--fail-if", "auc<0.99", "--fail-if", "rows>1e9", status=1)
    assert held.count("--fail-if") == 1 and "auc is 0." in held and "below" in held
    assert evaluate("--metrics", "auc", "--fail-if", "auc>=1", "--fail-if", "data.skipped>0")
    args = ["--baseline", "old", "--join-on", "id", "--metrics", "auc"]
    evaluate(*args, "--fail-if", "auc_delta.low<0")
    evaluate(*args, "--fail-if", "auc_delta>0", status=1)
    evaluate(*args, "--fail-if", "auc_interval.high>0", "--fail-if", "baseline.auc>0", status=1)


def test_a_condition_that_can_never_hold_is_refused(evaluate):
    assert "--fail-if 'auc<nan' must be a name" in evaluate("--fail-if", "auc<nan", status=2)


def test_an_undefined_number_fails(run, tmp_path):
    write(tmp_path / "one.parquet", {"y": [1, 1], "p": [0.5, 0.2]})
    args = ["evaluate", tmp_path / "one.parquet", *COLUMNS, "--metrics", "auc"]
    assert "auc is undefined" in run(*args, "--fail-if", "auc<0.5", status=1)
    found = run(*args, "--json")
    assert found["auc"] is None and any("auc is undefined" in text for text in found["warnings"])
    assert "undefined" in run(*args)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--fail-if", "aux<0.5"], "did you mean auc?"),
        (["--fail-if", "auc_delta.low<0"], "deltas need --baseline"),
        (["--fail-if", "auc_interval.low<0"], "intervals need --ci"),
        (["--fail-if", "baseline.auc<0"], "need --baseline"),
        (["--fail-if", "asked.ci<1", "--ci", "0.9"], "there is no 'asked.ci'"),
        (["--fail-if", "auc"], "'auc<0.77'"),
        (["--metrics", "accuarcy"], "did you mean accuracy?"),  # codespell:ignore
        (["--metrics", "auk"], "did you mean auc?"),
        (["--metrics", "AUROC"], "did you mean auc?"),
        (["--metrics", "auc,auc"], "another name, NAME=auc"),
        (["--metrics", "rows=auc"], "'rows' is taken"),
        (["--metrics", "gauc"], "give --user COLUMN"),
        (["--metrics", "auc:curve=RP"], "curve must be one of"),
        (["--metrics", "recall_at_fixed_precision"], ":min_precision=VALUE"),
        (["--metrics", ""], "--metrics is empty"),
        (["--task", "multiclass"], "give --classes N"),
        (["--join-on", "id"], "give both"),
        (["--baseline-columns", "p=q"], "--baseline-columns needs --baseline; give both"),
        (["-", "--baseline-score", "old"], "the standard input can be read only once"),
        (["--ci", "95"], "--ci must be a number between 0 and 1"),
        (["--html", "nowhere/report.html"], "cannot be written"),
        (["--save-state", "nowhere/day.fms"], "cannot be written"),
        (["--html", ""], "--html is empty; give the path of a file"),
        (["--save-state", ""], "--save-state is empty; give the path of a file"),
        (["--config", ""], "--config '': No such file"),
        (["--processes", "0"], "--processes must be an integer of at least 1, not 0"),
        (["--unknown"], ""),
    ],
)
def test_a_wrong_command_is_status_2_before_anything_is_read(evaluate, args, said):
    assert said in evaluate(*args, files="/nowhere/at/all.parquet", status=2)


# -- bad data --------------------------------------------------------------------------------------------------


def test_bad_data_are_status_3_with_file_and_place(evaluate, run, tmp_path, there):
    assert "or a pattern that matches one" in evaluate(files="nothing/*.parquet", status=3)
    assert "no column 'yy' for --label; did you mean 'y'?" in run(
        "evaluate", "new", "--label", "yy", "--score", "p", status=3
    )
    write(tmp_path / "null.parquet", {"y": [1, 0, 1], "p": [0.5, None, 0.25]})
    text = run("evaluate", tmp_path / "null.parquet", *COLUMNS, status=3)
    assert "null.parquet" in text and "row 1" in text and "'p'" in text
    found = run("evaluate", tmp_path / "null.parquet", *COLUMNS, "--skip-bad-rows", "--json")
    assert (found["rows"], found["data"]["rows"], found["data"]["skipped"]) == (2, 3, 1)
    assert found["data"]["nulls"] == {"p": 1, "y": 0}
    nulls = ["--skip-bad-rows", "--fail-if", "data.nulls.p>0", "--fail-if", "data.nulls.y>0"]
    assert "data.nulls.p is 1" in run("evaluate", tmp_path / "null.parquet", *COLUMNS, *nulls, status=1)
    run("evaluate", "new", *COLUMNS, *nulls)
    assert "1 null in p" in run("evaluate", tmp_path / "null.parquet", *COLUMNS, "--skip-bad-rows")


def test_data_without_rows_that_count_are_status_3_in_the_shell_and_an_error_in_python(evaluate, run, tmp_path):
    write(tmp_path / "none.parquet", {"y": np.zeros(0, int), "p": np.zeros(0)})
    write(tmp_path / "null.parquet", {"y": [1, 0], "p": [None, None]})
    none, state = tmp_path / "none.parquet", tmp_path / "none.fms"
    nothing = "there are no rows to evaluate in 1 file"
    assert f"fleetmetrics: {nothing}\n" in evaluate(files=none, status=3)
    assert f"{nothing}: 2 rows skipped\n" in evaluate("--skip-bad-rows", files=tmp_path / "null.parquet", status=3)
    said = evaluate("--where", "p > 9", status=3)
    assert f"there are no rows to evaluate in 2 files: {ROWS:,} rows left out by --where\n" in said
    assert f"baseline: {nothing}" in evaluate("--baseline", none, status=3)
    assert f"{state} holds the usable files" in evaluate("--save-state", state, files=none, status=3)
    assert nothing in run("merge", state, status=3)
    with pytest.raises(fm.DataError, match=r"^there are no rows to evaluate: 2 rows with weight 0$"):
        fm.evaluate({"y": [0, 1], "p": [0.5, 0.5], "w": [0, 0]}, label="y", score="p", weight="w")
    with pytest.raises(fm.DataError, match=r"^there are no rows to evaluate: 2 rows left out by where$"):
        fm.evaluate({"y": [0, 1], "p": [0.5, 0.5]}, label="y", score="p", where="p > 1")


def test_the_work_of_other_files_is_kept_in_the_state(run, there, tmp_path):
    shutil.copy(there / "new" / "0.parquet", tmp_path)
    (tmp_path / "1.parquet").write_bytes((there / "new" / "1.parquet").read_bytes()[:-100])
    state = tmp_path / "day.fms"
    text = run("evaluate", tmp_path / "*.parquet", *COLUMNS, "--save-state", state, status=3)
    assert "1.parquet" in text and "day.fms holds the usable files: 1" in text
    kept, alone = run("merge", state, "--json"), run("evaluate", "new/0.parquet", *COLUMNS, "--json")
    assert kept["auc"] == alone["auc"] and kept["data"]["files"] == [str(tmp_path / "0.parquet")]


def test_a_file_that_one_worker_cannot_use_is_an_error_on_all(tmp_path):
    (tmp_path / "0.csv").write_text("p,y\n0.5,1\n0.25,0\n")
    (tmp_path / "1.csv").write_text("p,y\n0.5,one\n")
    asked = Question("y", "p", metrics=["auc"])

    def work(channel):
        side = of_files([str(tmp_path / f"{channel.rank}.csv")], asked)
        finish = lambda sides: [3, f"{sides[0].error}, of {sides[0].read.rows} rows"]  # noqa: E731
        return of_workers(channel, lambda: ("*.csv", [side]), finish)

    (status, text), other = together([work] * 2)
    assert [status, text] == other and "1.csv: " in text and text.endswith(", of 2 rows")


# -- saved states ----------------------------------------------------------------------------------------------

MANY = ["--user", "uid", "--by", "slot", "--ci", "0.9", "--metrics", "auc,gauc,log_loss"]


def test_merged_states_print_what_evaluate_prints_of_all_data(evaluate, run, tmp_path):
    states = [tmp_path / f"{place}.fms" for place in range(2)]
    for place, state in enumerate(states):
        evaluate(*MANY, "--save-state", state, files=f"new/{place}.parquet")
    both = tmp_path / "both.fms"
    assert run("merge", *states, "--save-state", both) == evaluate(*MANY) == run("merge", both)
    assert without_date(run("merge", *states[::-1], "--json")) == without_date(evaluate(*MANY, "--json"))
    assert "auc is" in run("merge", *states, "--fail-if", "auc<2", status=1)
    assert "is given 2 times" in run("merge", states[0], states[0], status=3)
    page = tmp_path / "page.html"
    assert "did you mean auc?" in run("merge", *states, "--fail-if", "aux<2", "--html", page, status=2)
    assert not page.exists()


@pytest.mark.parametrize("weight", [[], ["--weight", "w"]], ids=["counts", "weights"])
def test_merged_states_have_all_bits_of_counts_and_all_but_the_last_digits_of_weights(run, data, tmp_path, weight):
    write(tmp_path / "all.parquet", data)
    given = [*COLUMNS, "--user", "uid", *weight, "--metrics", "auc,gauc,exact_auc,log_loss"]
    states = [tmp_path / f"{place}.fms" for place in range(2)]
    for place, state in enumerate(states):
        run("evaluate", f"new/{place}.parquet", *given, "--save-state", state)
    merged, whole = run("merge", *states, "--json"), run("evaluate", tmp_path / "all.parquet", *given, "--json")
    for name in ("auc", "gauc", "exact_auc", "log_loss"):
        exact = not weight and name != "log_loss"
        assert merged[name] == (whole[name] if exact else pytest.approx(whole[name], rel=1e-13)), name
    assert merged["rows"] == whole["rows"]


def test_two_states_are_compared_as_a_baseline_is(evaluate, run, tmp_path):
    for name in ("new", "old"):
        evaluate(*MANY, "--save-state", tmp_path / f"{name}.fms", files=name)
    found = run("compare", tmp_path / "new.fms", tmp_path / "old.fms", "--json")
    wanted = evaluate(*MANY, "--baseline", "old", "--json")
    found["baseline"]["data"]["date"] = wanted["baseline"]["data"]["date"]
    assert without_date(found) == without_date(wanted) and "low" in found["auc_delta"]


def test_states_of_something_else_do_not_go_together(evaluate, run, tmp_path):
    one, other, torn = (tmp_path / f"{name}.fms" for name in ("one", "other", "torn"))
    evaluate("--metrics", "auc,log_loss", "--save-state", one)
    evaluate("--metrics", "auc:buckets=64,log_loss", "--save-state", other)
    torn.write_bytes(one.read_bytes()[:-20])
    weighted = tmp_path / "weighted.fms"
    evaluate("--metrics", "auc,log_loss", "--weight", "w", "--save-state", weighted)
    for command in ("merge", "compare"):
        assert "weight" in run(command, one, weighted, status=3).replace("weighted", "")
        text = run(command, one, other, status=3)
        assert "one.fms" in text and "other.fms" in text and "auc:buckets=64" in text
        assert "torn.fms" in run(command, one, torn, status=3)
        assert "no.fms" in run(command, one, tmp_path / "no.fms", status=3)
    metric = fm.AUC()
    fm.save(tmp_path / "other_kind.fms", metric)
    said = run("merge", tmp_path / "other_kind.fms", status=3)
    assert "other_kind.fms is a file of fleetmetrics, but no saved evaluation" in said and "--save-state" in said
    assert os.path.getsize(one) < 2**18


# -- the process -----------------------------------------------------------------------------------------------


def command(*args):
    return [sys.executable, "-m", "fleetmetrics", *map(str, args)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_help_is_quick_and_imports_nothing_large():
    check = "import sys; from fleetmetrics.cli import main; main(['--help']); print([each for each in "
    check += "('numpy', 'pyarrow', 'paddle', 'rich', 'matplotlib') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert [status for status in (1, 2, 3, 130) if not re.search(rf"\b{status}: ", done.stdout)] == []

    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    def least(*args):
        """Of processor time: the clock also counts what others do."""
        seconds = []
        for _ in range(5):
            start = used()
            subprocess.run(args, env=ENVIRONMENT, capture_output=True, check=True)
            seconds.append(used() - start)
        return min(seconds)

    assert least(*command("--help")) < 8 * least(sys.executable, "-c", "pass")


@pytest.mark.parametrize("name", ["evaluate", "merge", "compare", "consistency", "history"])
def test_the_help_of_a_command_ends_with_examples_of_it(run, name):
    told = run(name, "--help").splitlines()
    examples = [line.split()[1] for line in told if line.startswith("fleetmetrics ")]
    assert examples and set(examples) == {name} and told[-2].startswith("exit status: 0; 1: ")


def test_the_version_is_printed(run):
    assert run("--version") == f"fleetmetrics {fm.__version__}\n"


def test_the_state_that_is_saved_beside_a_baseline_is_that_of_the_new_files(evaluate, run, tmp_path, data):
    evaluate("--metrics", "auc", "--baseline", "old", "--save-state", tmp_path / "new.fms")
    auc = fm.AUC()
    auc.add(data["p"], data["y"])
    assert run("merge", tmp_path / "new.fms", "--json")["auc"] == auc.compute()


def test_a_closed_pipe_is_not_an_error(there):
    line = f"{' '.join(command('metrics'))} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=ENVIRONMENT, capture_output=True, text=True, cwd=there)
    assert done.stdout.splitlines()[1:] == ["0"] and done.stderr == ""


@pytest.mark.parametrize("args", [("metrics",), ("evaluate", "new", *COLUMNS), ("--help",)])
def test_a_full_disk_behind_the_standard_output_is_status_3_and_named(there, monkeypatch, capsys, args):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fileno(self):
            return os.open(there / "out", os.O_WRONLY | os.O_CREAT)

    monkeypatch.chdir(there)
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(list(args)) == 3
    assert capsys.readouterr().err == "fleetmetrics: the standard output cannot be written: No space left on device\n"


def test_ctrl_c_leaves_nothing_half_written(there, tmp_path):
    args = command("evaluate", "-", *COLUMNS, "--save-state", tmp_path / "day.fms", "--html", tmp_path / "day.html")
    process = subprocess.Popen(args, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1, text=True, cwd=there)
    process.stdin.write("y,p\n" + "1,0.5\n" * 100_000)  # more than a pipe holds: now it reads
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and err == "fleetmetrics: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_the_standard_input_is_a_file_too(there):
    done = subprocess.run(
        command("evaluate", "-", *COLUMNS, "--metrics", "accuracy", "--json"),
        input="y,p\n1,0.75\n0,0.5\n1,0.25\n", env=ENVIRONMENT, capture_output=True, text=True, cwd=there,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 3


def test_a_report_is_written_whole_beside_the_output(evaluate, tmp_path):
    pytest.importorskip("jinja2")
    text = evaluate("--metrics", "auc,roc_curve", "--by", "slot", "--html", tmp_path / "r.html", "--lang", "zh")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert text.startswith("4,000 rows") and 'lang="zh' in page and "<svg" in page and "<b>news" not in page
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_numbers_have_six_digits_and_integers_all_of_theirs():
    found = [printed.number(each) for each in (0.123456789, 1234567.89, 12345678, None)]
    assert found == ["0.123457", "1.23457e+06", "12,345,678", "undefined"]
    assert [printed.number(each, "+") for each in (0.5, -0.5, None)] == ["+0.5", "-0.5", "-"]


def test_labels_of_0_and_minus_0_join():
    found = []
    for label in ([0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]):
        joined = Joined()
        joined.add([0.5, 0.5], label, id=[7, 8])
        found.append(joined.compute().tolist())
    assert found[0] == found[1] != found[2] and found[0][-1] == 2
