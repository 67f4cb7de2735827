"""Several labels are several tasks: each has the result that it has alone, over the rows that have its label."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluation import compare, merge
from fleetmetrics.evaluation.history import history
from fleetmetrics.serial.container import read_arrays, write_arrays
from tests.fakes import together

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.usefixtures("few_groups"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
]
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 600
TASKS = {"click": "p1", "like": "p2", "buy": "p3"}
SEVERAL = {"label": list(TASKS), "score": list(TASKS.values())}
OPTIONS = ["--label", ",".join(TASKS), "--score", ",".join(TASKS.values())]


def drawn(seed):
    rng = np.random.default_rng(seed)
    scores = rng.random((ROWS, 3))
    labels = (rng.random((ROWS, 3)) < scores * [0.4, 0.6, 0.9]).astype(int).astype(object)
    labels[rng.random(ROWS) < 0.3, 2] = None
    labels[rng.random(ROWS) < 0.1, 1] = None
    return {
        **{name: pa.array(labels[:, at], pa.int64()) for at, name in enumerate(TASKS)},
        **{name: pa.array(scores[:, at]) for at, name in enumerate(TASKS.values())},
        "slot": pa.array(np.array(["a", "b", "c"])[rng.integers(0, 3, ROWS)]),
        "uid": pa.array(rng.integers(0, 90, ROWS)),
        "id": pa.array(np.arange(ROWS)),
        "w": pa.array(rng.integers(0, 4, ROWS) / 2),
    }


NEW, OLD = pa.table(drawn(1)), pa.table(drawn(2))
OLD = pa.table({**{name: OLD[name] for name in OLD.column_names}, **{name: NEW[name] for name in TASKS}})


def alone(table, task):
    """The rows that have a task's label."""
    return table.filter(pa.compute.is_valid(table[task]))


def values_of(result):
    """What is computed, without what is only told of the data and of the request."""
    found = result.to_dict()
    for side in (found, found["baseline"] or {"data": {}}):
        for name in ("files", "date", "nulls", "weight_0", "unlabeled", "left_out", "understood"):
            side["data"].pop(name, None)
    for name in ("about", "asked", "warnings", "tasks"):
        found.pop(name, None)
    return found


def close(one, other):
    """Whether results are the same up to rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return all(close(each, other[key]) for key, each in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-12)
    return one == other


ASKED = {
    "plain": {},
    "slices": {"by": ["slot", "slot*uid"], "metrics": "auc,log_loss"},
    "users": {"user": "uid", "ci": 0.9, "by": "slot"},
    "weights": {"weight": "w", "ci": 0.9, "metrics": "log_loss,auc", "by": "slot", "rank_by": "log_loss"},
    "regression": {"task": "regression"},
    "ranking": {"task": "ranking", "user": "uid"},
    "logits": {"from_logits": True},
    "scale": {"scale": 0.5},
    "where": {"where": "slot != 'a'"},
    "counts by hand": {"metrics": "ctr,f1:threshold=0.3,n=count", "min_positives": 3, "by": "slot"},
}


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "arrow") for name in ASKED), ("plain", "dict"), ("plain", "file"), ("plain", "pandas")]
)
def test_each_task_has_the_result_that_it_has_alone(tmp_path, name, kind):
    asked, data = ASKED[name], NEW
    if kind == "file":
        data = str(tmp_path / "new.parquet")
        pq.write_table(NEW, data)
    elif kind == "pandas":
        data = pytest.importorskip("pandas") and NEW.to_pandas()
    elif kind == "dict":
        data = {each: NEW[each].to_pandas().to_numpy() for each in NEW.column_names}
    found = fm.evaluate(data, **SEVERAL, **asked)
    assert list(found.tasks) == list(TASKS) == found.to_dict()["asked"]["tasks"]
    for task, score in TASKS.items():
        rows = alone(NEW, task)
        wanted = fm.evaluate(rows, label=task, score=score, **asked)
        assert close(values_of(found.tasks[task]), values_of(wanted))
        assert found.values[f"{task}.{next(iter(wanted.values))}"] == pytest.approx(next(iter(wanted.values.values())))
        data_of = found.tasks[task].new.data
        assert data_of.unlabeled + data_of.rows + data_of.weight_0 + data_of.left_out == ROWS


def test_a_comparison_of_tasks_is_that_of_each(tmp_path):
    asked = {"join_on": "id", "by": "slot", "metrics": "auc,log_loss"}
    found = fm.evaluate(NEW, baseline=OLD, **SEVERAL, **asked)
    for task, score in TASKS.items():
        wanted = fm.evaluate(alone(NEW, task), baseline=alone(OLD, task), label=task, score=score, **asked)
        assert close(values_of(found.tasks[task]), values_of(wanted))
        assert found.deltas[f"{task}.auc"] == found.tasks[task].deltas["auc"]
    other = OLD.rename_columns(
        [name.replace("p", "q") if name in TASKS.values() else name for name in OLD.column_names]
    )
    other = other.append_column("fav", other["like"]).drop_columns("like")
    more = {"baseline_score": ["q1", "q2", "q3"], "baseline_columns": {"like": "fav"}}
    assert close(
        values_of(fm.evaluate(NEW, baseline=other, **SEVERAL, **asked, **more).tasks["like"]),
        values_of(found.tasks["like"]),
    )
    broken = OLD.set_column(OLD.column_names.index("buy"), "buy", pa.array([1] * ROWS))
    with pytest.raises(DataError, match="ids and labels differ from the baseline's"):
        fm.evaluate(NEW, baseline=broken, **SEVERAL, **asked)
    same = fm.evaluate(NEW, baseline_score=["p2", "p1", "p3"], **SEVERAL, metrics="auc")
    assert same.deltas["buy.auc"].value == 0 != same.deltas["click.auc"].value


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        *((kind, missing) for kind in ("int64", "float32", "bool", "string") for missing in ("null", "text")),
        ("float64", "nan"),
    ],
)
def test_a_missing_label_leaves_its_task_alone(tmp_path, kind, missing):
    names = kind == "string"
    labels = [1, None, 0, 1, None, 0, 1, 0]
    if names:
        labels = [{1: "yes", 0: "no"}.get(each) for each in labels]
    column = pa.array(labels).cast(kind)
    if missing == "nan":
        column = column.fill_null(float("nan"))
    scores = pa.array([0.9, None, 0.2, 0.4, 0.5, 0.6, 0.7, 0.1])
    other = pa.array(["yes", "no"] * 4 if names else [1, 0] * 4)
    data = pa.table({"a": column, "b": other, "p": scores, "q": pa.array(np.linspace(0.1, 0.9, 8))})
    if missing == "text":
        pytest.importorskip("pyarrow.csv").write_csv(data, tmp_path / "a.csv")
        data = tmp_path / "a.csv"
    found = fm.evaluate(data, label=["a", "b"], score=["p", "q"], metrics="auc,ctr", positive="yes" if names else None)
    assert (found.tasks["a"].new.rows, found.tasks["b"].new.rows, found.new.rows) == (6, 8, 8)
    assert (found["a.ctr"], found["b.ctr"], found["a.auc"]) == (0.5, 0.5, pytest.approx(8 / 9))
    assert [line.split() for line in str(found).splitlines() if line[:2] in ("a ", "b ")] == [
        ["a", "6", "3", "2"],
        ["b", "8", "4", "0"],
    ]


def test_what_is_missing_where_it_is_needed_or_wrong_names_its_one_column():
    data = {"a": [1.0, np.nan, 0.0], "b": [1, 0, 2], "p": [0.5, 0.1, 0.2], "q": [0.1, 0.2, 0.3]}
    asked = {"label": ["a", "b"], "score": ["p", "q"], "metrics": "ctr"}
    with pytest.raises(DataError, match=r"row 2, column 'b': 2\.0 where label must be"):
        fm.evaluate(data, **asked)
    found = fm.evaluate(data, **asked, skip_bad_rows=True)
    assert (found.tasks["a"].new.rows, found.tasks["b"].new.rows, found.new.data.skipped) == (1, 2, 1)
    rows = pa.table({**data, "b": [1, 0, 1], "p": [0.5, None, None]})
    with pytest.raises(DataError, match="row 2, column 'p': no value"):
        fm.evaluate(rows, **asked)
    nothing = {**data, "a": [np.nan] * 3, "b": [np.nan] * 3}
    with pytest.raises(DataError, match="there are no rows to evaluate: 3 rows without a label"):
        fm.evaluate(nothing, **asked)
    one = fm.evaluate({**nothing, "b": [1, 0, 1]}, **asked)
    assert np.isnan(one["a.ctr"]) and one["b.ctr"] == pytest.approx(2 / 3)
    assert one.warnings == ["a: no row has a label"]
    assert one.failed("a.ctr<2") == ["'a.ctr<2' fails: a.ctr is undefined"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"score": "p1"}, "label names 3 columns, click, like, buy, but score names 1, p1; each label is a task"),
        ({"label": "click"}, "score names 3 columns, p1, p2, p3, but label names 1, click; .*task=multiclass"),
        ({"score": ["p1", "p2"]}, "label names 3 columns, click, like, buy, but score names 2, p1, p2"),
        ({"label": ["click", "click", "buy"]}, "label names 'click' 2 times, and a task has the name of its label"),
        ({"metrics": "auc:num_labels=3"}, "auc:num_labels=3 is one metric of several labels, .*task=multilabel"),
        ({"task": "multiclass"}, "task=multiclass takes one column of labels, not click, like, buy"),
        ({"baseline_score": "p1"}, "label names 3 columns, .* but baseline_score names 1, p1"),
        ({"task": "multilabel", "min_positives": 3}, "min_positives needs labels of 0 and 1"),
    ],
)
def test_labels_and_scores_that_are_no_tasks_are_refused(more, said):
    with pytest.raises(InvalidInputError, match=said):
        fm.evaluate(NEW, **{**SEVERAL, **more})


def test_a_list_of_one_column_is_that_column():
    wanted = fm.evaluate(NEW, label="click", score="p1", metrics="auc")
    assert values_of(fm.evaluate(NEW, label=["click"], score=("p1",), metrics="auc")) == values_of(wanted)


def test_the_pooled_metric_is_asked_for_by_name_and_counts_rows():
    table = alone(alone(NEW, "buy"), "like")
    found = fm.evaluate(table, **SEVERAL, task="multilabel", metrics="auc", by="slot", ci=0.9, weight="w")
    metric = fm.AUC()
    labels, scores = (np.stack([table[name].to_numpy() for name in names], 1) for names in zip(*TASKS.items()))
    metric.add(scores, labels, table["w"].to_numpy())
    assert found["auc"] == metric.compute() and not found.tasks
    weightless = int((table["w"].to_numpy() == 0).sum())
    assert (found.new.rows, found.new.data.weight_0) == (table.num_rows - weightless, weightless)
    counted = sum(each.rows for each in found.slices["slot"])
    assert counted == found.new.rows and sum(each.share for each in found.slices["slot"]) == pytest.approx(1)
    lists = pa.table({"y": pa.array(labels.tolist()), "p": pa.array(scores.tolist())})
    with pytest.raises(DataError, match=r"label has lists of 3 labels; .*task=multilabel"):
        fm.evaluate(lists, label="y", score="p", metrics="auc")
    assert fm.evaluate(lists, label="y", score="p", metrics="auc", task="multilabel").new.rows == table.num_rows
    more = {"label": ["y", "click"], "score": ["p", "p1"]}
    lists = lists.append_column("click", table["click"]).append_column("p1", table["p1"])
    with pytest.raises(DataError, match="column 'p' holds lists, and several columns hold one value a row each"):
        fm.evaluate(lists, **more)
    assert set(fm.evaluate(table, **SEVERAL, task="multilabel", ci=0.9).intervals) >= {"auc", "average_precision"}


def test_logits_of_several_labels_are_log_odds_of_each():
    table = alone(alone(NEW, "buy"), "like")
    asked = {"metrics": "log_loss", "from_logits": True}
    found = fm.evaluate(table, **SEVERAL, task="multilabel", **asked)
    each = [fm.evaluate(table, label=label, score=score, **asked)["log_loss"] for label, score in TASKS.items()]
    assert found["log_loss"] == pytest.approx(np.mean(each))


# -- text, JSON, HTML, gates -------------------------------------------------------------------------------


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(NEW, "new.parquet")
    pq.write_table(OLD, "old.parquet")
    return tmp_path


def test_text_json_and_the_report_have_each_task_by_name(there, capsys):
    pytest.importorskip("jinja2")
    wanted = fm.evaluate(NEW, **SEVERAL, metrics="auc,calibration", by="slot")
    given = ["evaluate", "new.parquet", *OPTIONS, "--metrics", "auc,calibration", "--by", "slot"]
    assert main([*given, "--html", "a.html"]) == 0
    text, page = capsys.readouterr().out, (there / "a.html").read_text()
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for task in TASKS:
        for key in ("auc", "calibration"):
            assert found["tasks"][task][key] == wanted[f"{task}.{key}"]
            assert f"{task}.{key}" in text and f"{wanted[f'{task}.{key}']:.6g}" in text
            assert f"<bdi>{task}.{key}</bdi>" in page
        assert f"\n{task}: by slot\n" in text and f"<bdi>{task}</bdi>: by <bdi>slot</bdi>" in page
        assert f"<figcaption>{task}: ROC curve" in page
    assert "with weight 0" not in text and text.startswith(f"{ROWS} rows in 1 file, 59 nulls in like, ")
    assert main([*given, "--html", "zh.html", "--lang", "zh", "--baseline", "old.parquet"]) == 0
    assert "缺少某任务标签的行" in (there / "zh.html").read_text()
    capsys.readouterr()


@pytest.fixture(scope="module")
def compared():
    return fm.evaluate(NEW, **SEVERAL, metrics="auc", by="slot", baseline=OLD)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("click.auc<0.01", ""),
        ("click.auc<0.99", "holds: click.auc is"),
        ("buy.auc_delta<-2", ""),
        ("buy.auc_delta<2", "holds: buy.auc_delta is"),
        ("any click.slices.slot.auc<0.01", ""),
        ("any click.slices.slot.auc<0.99", "holds: slices.slot["),
        ("like.slices.slot[b].auc<0.99", "holds: slices.slot[b].auc is"),
        ("any like.slices.slot.auc_delta<3", "holds: slices.slot["),
        ("like.data.unlabeled>0", "holds: like.data.unlabeled is 59"),
        ("buy.baseline.auc>2", ""),
    ],
)
def test_a_gate_is_on_one_task(compared, condition, said):
    failures = compared.failed(condition)
    assert [said in each for each in failures] == [True] * bool(said)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("auc<0.5", r"no 'auc'; the names of a task begin with it, here with click, like, buy; there are click.auc"),
        ("any slices.slot.auc<0.5", "the names of a task begin with it"),
        ("click.acu<0.5", r"no 'click\.acu'; .* with click, like, buy; did you mean click\.auc\?$"),
        ("any click.slices.sloth.auc<0.5", "slices are by 'slot', not by 'sloth"),
        ("click.asked.max_slices<5", r"no 'click\.asked"),
    ],
)
def test_a_gate_that_names_no_number_of_a_task_is_an_error(compared, there, condition, said, capsys):
    with pytest.raises(InvalidInputError, match=said):
        compared.failed(condition)
    assert main(["evaluate", "new.parquet", *OPTIONS, "--by", "slot", "--metrics", "auc", "--fail-if", condition]) == 2
    capsys.readouterr()


def test_a_task_may_have_the_name_of_an_entry_but_no_gate_is_on_two_numbers():
    names = ["rows", "data", "tasks"]
    table = (
        NEW.append_column("rows", NEW["click"]).append_column("data", NEW["buy"]).append_column("tasks", NEW["like"])
    )
    found = fm.evaluate(table, label=names, score=["p1", "p3", "p2"], metrics="auc")
    assert list(found.to_dict()["tasks"]) == names and found.new.rows == ROWS
    assert found.failed("data.auc<0.99", "rows.auc<0.01", "rows>601") == [
        f"'data.auc<0.99' holds: data.auc is {found['data.auc']:.6g}, {0.99 - found['data.auc']:.6g} below"
    ]
    with pytest.raises(InvalidInputError, match=r"2 numbers have the name 'data\.rows'; rename a column"):
        found.failed("data.rows<5")


def test_the_status_of_a_gate_is_that_of_its_task(there, capsys):
    given = ["evaluate", "new.parquet", *OPTIONS, "--metrics", "auc", "--fail-if"]
    assert main([*given, "click.auc<0.99"]) == 1 and main([*given, "click.auc<0.01"]) == 0
    assert "'click.auc<0.99' holds: click.auc is" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more", [{}, pytest.param({"user": "uid", "ci": 0.9}, marks=pytest.mark.thorough)], ids=["rows", "users"]
)
def test_processes_states_merge_compare_and_history_keep_the_tasks(there, more):
    pq.write_table(NEW.slice(0, 250), "one.parquet")
    pq.write_table(NEW.slice(250), "two.parquet")
    asked = {**SEVERAL, "metrics": "auc,log_loss,gauc" if more else "auc,log_loss", "by": "slot", **more}
    wanted = fm.evaluate("new.parquet", **asked)
    for processes in (1, 2):
        found = fm.evaluate(["one.parquet", "two.parquet"], **asked, processes=processes)
        assert all(close(values_of(found.tasks[task]), values_of(wanted.tasks[task])) for task in TASKS)
    for name in ("one", "two"):
        fm.evaluate(f"{name}.parquet", **asked).save_state(f"{name}.fms")
    merged = merge(["one.fms", "two.fms"])
    assert all(close(values_of(merged.tasks[task]), values_of(wanted.tasks[task])) for task in TASKS)
    both = compare("one.fms", "two.fms")
    assert both.deltas["buy.auc"].value == both["buy.auc"] - merge("two.fms")["buy.auc"]
    days = history(["one.fms", "two.fms"])
    assert "like.auc" in days.metrics and days.failed("like.auc_change>-2", "like.auc<2")
    assert "click.auc" in str(days) and days.to_dict()["states"][1]["click.auc"] == merge("two.fms")["click.auc"]
    with pytest.raises(InvalidInputError, match="save the whole result"):
        merged.tasks["buy"].save_state("buy.fms")
    fm.evaluate("one.parquet", **{**asked, "label": ["like", "click", "buy"]}).save_state("other.fms")
    with pytest.raises(DataError, match=r"cannot be combined with one\.fms"):
        merge(["one.fms", "other.fms"])


def test_a_state_of_an_earlier_version_is_the_pooled_metric_that_it_was(there):
    table = alone(alone(NEW, "buy"), "like")
    found = fm.evaluate(table, **SEVERAL, task="multilabel", metrics="auc")
    found.save_state("new.fms")
    arrays, note = read_arrays("new.fms")
    del note["asked"]["tasks"]
    note["asked"]["task"] = "binary"
    write_arrays("old.fms", arrays, note)
    assert merge("old.fms").values == found.values
    note["asked"]["task"] = "regression"
    write_arrays("old.fms", arrays, note)
    with pytest.raises(
        DataError, match="pooled in one regression metric, as earlier versions did; evaluate the data again"
    ):
        merge("old.fms")


def test_a_state_of_one_label_of_an_earlier_version_merges_with_one_of_this_version(there):
    for name, rows in (("one", NEW.slice(0, 250)), ("two", NEW.slice(250))):
        fm.evaluate(rows, label="click", score="p1", metrics="auc").save_state(f"{name}.fms")
    arrays, note = read_arrays("one.fms")
    del note["asked"]["tasks"]
    write_arrays("one.fms", arrays, note)
    assert merge(["one.fms", "two.fms"]).new.rows == merge(["two.fms", "one.fms"]).new.rows == ROWS


def test_frames_have_a_row_for_each_metric_and_for_each_slice_of_a_task():
    pd = pytest.importorskip("pandas")
    found = fm.evaluate(NEW, **SEVERAL, metrics="auc", by="slot")
    assert list(found.frame().index) == [f"{task}.auc" for task in TASKS]
    slices = found.frame("slot")
    assert isinstance(slices, pd.DataFrame) and list(slices.columns[:2]) == ["task", "slot"]
    assert list(slices.task) == [task for task in TASKS for _ in range(3)]
    with pytest.raises(InvalidInputError, match=r"plot one of them: result.tasks\['click'\].plot\('roc'\)"):
        found.plot("roc")


def test_workers_share_the_rows_of_all_tasks():
    asked = {**SEVERAL, "metrics": "auc,log_loss,gauc", "user": "uid", "by": "slot", "ci": 0.9}
    wanted = fm.evaluate(NEW, **asked)

    works = [
        lambda channel, rank=rank: fm.evaluate(NEW.slice(200 * rank, 200), **asked, communicator=channel)
        for rank in range(3)
    ]
    for found in together(works):
        assert all(close(values_of(found.tasks[task]), values_of(wanted.tasks[task])) for task in TASKS)
        assert found.tasks["buy"].new.data.unlabeled == wanted.tasks["buy"].new.data.unlabeled


@pytest.mark.parametrize("columns", ["several", "lists"])
def test_several_labels_stay_entries_if_each_row_has_a_single_1(columns: str) -> None:
    rng = np.random.default_rng(5)
    label, score = np.eye(3, dtype=int)[rng.integers(0, 3, 60)], rng.dirichlet(np.ones(3), 60)
    if columns == "lists":
        table, given = pa.table({"y": label.tolist(), "p": score.tolist()}), {"label": "y", "score": "p"}
    else:
        table = pa.table({f"{name}{at}": each[:, at] for name, each in (("y", label), ("p", score)) for at in range(3)})
        given = {"label": ["y0", "y1", "y2"], "score": ["p0", "p1", "p2"]}
    found = fm.evaluate(table, **given, task="multilabel", metrics="accuracy,log_loss,f1").values
    entries = pa.table({"y": label.reshape(-1), "p": score.reshape(-1)})
    expected = fm.evaluate(entries, label="y", score="p", metrics="accuracy,log_loss,f1").values
    assert found == pytest.approx(expected, rel=1e-12)
    if columns == "lists":
        with pytest.raises(DataError, match=r"label has lists of 3 labels; .*task=multilabel"):
            fm.evaluate(table, **given, metrics="accuracy")
        classes = fm.evaluate(table, **given, task="multiclass", classes=3, metrics="accuracy").values
        assert classes == {"accuracy": float((score.argmax(1) == label.argmax(1)).mean())}
