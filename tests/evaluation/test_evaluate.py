"""``fleetmetrics.evaluate``: the result that Python gets is what the command line prints."""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
import re

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.cli import main
from fleetmetrics.evaluation import compare, merge
from fleetmetrics.evaluation.arguments.named import Named, kinds
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.output.result_tables import _far
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.support.vocabulary import as_options
from tests.distributed.cluster import free_ports
from tests.fakes import together

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.usefixtures("few_groups"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
]
pa = pytest.importorskip("pyarrow")

ROWS = 4000


def drawn(seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 5, ROWS)
    slot = rng.integers(0, 4, ROWS)
    rate = np.where(slot == 2, rng.permutation(p), p)
    return {
        "y": (rng.random(ROWS) < rate).astype(np.int64),
        "p": p,
        "slot": np.array(["feed", "<b>news", "evil", "a|b"])[slot],
        "uid": rng.integers(0, 300, ROWS),
        "id": rng.permutation(ROWS),
        "w": rng.random(ROWS),
    }


DATA = drawn(3)
OLD = {**DATA, "p": np.clip(DATA["p"] + np.random.default_rng(5).normal(0, 0.3, ROWS), 0, 1)}
ASKED = {"label": "y", "score": "p", "metrics": "auc,log_loss", "by": "slot"}


def without_date(result):
    for side in (result, result["baseline"] or {"data": {}}):
        side["data"].update(date="", files=[])
    result["asked"]["command"] = ""
    return result


# -- the same as the command line --------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"ci": 0.9}, {"baseline": "old.parquet", "join_on": "id"}, {"user": "uid"}])
def test_a_result_of_files_prints_what_the_command_line_prints(there, capsys, more):
    options = [each for name, value in more.items() for each in (f"--{name.replace('_', '-')}", str(value))]
    asked = ["--label", "y", "--score", "p", "--metrics", "auc,log_loss", "--by", "slot"]
    assert main(["evaluate", "new.parquet", *asked, *options]) == 0
    text = capsys.readouterr().out
    assert main(["evaluate", "new.parquet", *asked, *options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    with as_options():  # warnings call arguments otherwise in a shell
        result = fm.evaluate("new.parquet", **ASKED, **more)
        assert f"{result}\n" == text
    assert without_date(json.loads(json.dumps(result.to_dict()))) == without_date(printed)


def test_a_printed_result_names_arguments_of_python(monkeypatch):
    monkeypatch.setattr("fleetmetrics.evaluation.output.result_tables._SLICES", 2)
    frame = {**DATA, "few": np.arange(ROWS)}
    asked = {**ASKED, "metrics": "auc,log_loss,roc_curve", "by": ["slot", "few"], "max_slices": 3}
    said = f"{fm.evaluate(frame, baseline=frame, **asked)}"
    assert "--" not in said
    for told in ("see max_slices", "see rank_by", "no single number, see to_dict()", "more in to_dict()"):
        assert told in said


@pytest.mark.parametrize("kind", ["dict", "arrow", "pandas", "polars"])
def test_frames_of_every_kind_and_files_give_the_same_result(there, kind):
    make = {"dict": dict, "arrow": pa.table}.get(kind)
    if make is None:
        make = pytest.importorskip(kind).DataFrame
    more = {"ci": 0.9, "user": "uid", "join_on": "id"}
    found = fm.evaluate(make(DATA), baseline=make(OLD), **ASKED, **more).to_dict()
    wanted = fm.evaluate("new.parquet", baseline="old.parquet", **ASKED, **more).to_dict()
    assert without_date(found) == without_date(wanted)


def test_a_dict_may_hold_scores_of_classes_and_lists():
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(3), 60)
    frame = {"y": rng.integers(0, 3, 60).tolist(), "p": scores}
    found = fm.evaluate(frame, label="y", score="p", task="multiclass", classes=3, metrics="accuracy,f1")
    metric = fm.Accuracy(task="multiclass", num_classes=3)
    metric.add(scores, frame["y"])
    assert found["accuracy"] == metric.compute()


def test_rows_that_weigh_something_are_drawn_apart_on_each_side():
    found = fm.evaluate(DATA, baseline=DATA, **ASKED, ci=0.95, weight="w")
    width = found.intervals["auc"].high - found.intervals["auc"].low
    delta = found.deltas["auc"]
    assert delta.value == 0 and 1.1 < (delta.interval.high - delta.interval.low) / width < 1.8


# -- what the result can do --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    return fm.evaluate(DATA, baseline=OLD, join_on="id", **ASKED)


def test_a_notebook_gets_tables_in_which_data_are_only_shown(result):
    page = result._repr_html_()
    assert page.count("<table>") == 4 and "&lt;b&gt;news" in page and "<b>" not in page
    cells = [len(re.findall("<t[hd]>", line)) for line in re.findall("<tr>.*?</tr>", page)]
    assert len(set(cells[:3])) == 1 and repr(result).startswith("<EvaluationResult>\n4,000 rows")


def test_metrics_and_slices_are_data_frames(result):
    pytest.importorskip("pandas")
    frame = result.frame()
    assert frame.loc["auc", "value"] == result["auc"] and frame.loc["auc", "baseline"] == result.baseline.values["auc"]
    assert frame.loc["auc", "delta_low"] == result.deltas["auc"].interval.low
    slices = result.frame("slot")
    assert slices["slot"].tolist() == [each.key for each in result.slices["slot"]]
    assert slices["log_loss"].tolist() == [each.metrics["log_loss"] for each in result.slices["slot"]]
    for each in result.versus["slot"].slices:
        row = slices.set_index("slot").loc[each.key]
        assert (row["auc_delta"], row["log_loss_delta"]) == (each.delta, each.deltas["log_loss"])
        assert (row["auc_delta.low"], row["baseline_rows"], row["added"]) == (each.low, each.baseline_rows, each.added)
    assert "delta" not in fm.evaluate(DATA, **ASKED).frame()
    with pytest.raises(fm.InvalidInputError, match="by must be one of None, 'slot', not 'uid'"):
        result.frame("uid")


def test_the_report_is_returned_and_written(result, tmp_path):
    pytest.importorskip("jinja2")
    page = result.to_html(tmp_path / "r.html", lang="zh")
    assert (tmp_path / "r.html").read_text("utf-8") == page and page.count("<figure>") == 7 and 'lang="zh' in page


def test_the_variation_of_slices_is_an_estimate_and_no_verdict():
    """Of slices at random, half have more than 0: as a verdict it would be false as often."""
    assert _far(None, "auc", None) == []
    start = "root mean square difference of slices from all"
    assert _far(0.0, "auc", None) == [f"{start} rows, less what chance adds: 0 auc"]
    assert _far(0.125, "auc", 0.5) == [f"{start} slices together, less what chance adds: 0.125 auc"]


def test_pictures_are_drawn_of_both_sides_and_one_that_no_metric_has_is_refused(result):
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = result.plot("roc")
    assert [text.get_text().split()[0] for text in axes.get_legend().get_texts()] == ["new", "baseline"]
    _, own = plt.subplots()
    assert result.plot("score_histogram", own) is own
    with pytest.raises(fm.InvalidInputError, match="no metric here has the plot 'residuals': auc, log_loss"):
        result.plot("residuals", own)
    with pytest.raises(fm.InvalidInputError, match="kind must be one of 'roc'"):
        result.plot("pie")
    found = fm.evaluate(DATA, label="y", score="p", task="regression")
    assert found.plot("residuals") is not None
    plt.close("all")


def test_an_unknown_metric_of_a_result_is_a_key_error_that_names_the_nearest(result):
    with pytest.raises(KeyError, match=r"^there is no metric 'aucc'; did you mean auc\?$"):
        result["aucc"]
    with pytest.raises(fm.UnknownNameError, match=r"^there is no metric 7; there are auc"):
        result[7]


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda result: result.deltas["acu"], "there is no delta 'acu'; did you mean auc?"),
        (lambda result: result.values["acu"], "there is no metric 'acu'; did you mean auc?"),
        (lambda result: result.baseline["xyz"], "there is no metric 'xyz'; there are auc, log_loss"),
        (lambda result: result.slices["slto"], "there is no column of slices 'slto'; did you mean slot?"),
        (lambda result: result.versus["slto"], "there is no column of slices 'slto'; did you mean slot?"),
        (lambda result: result.intervals["auc"], "there is no interval 'auc'; give ci=0.95 for intervals"),
        (lambda result: result.tasks["click"], "there is no task 'click'; label= names one"),
    ],
)
def test_so_is_any_other_name_in_a_result_and_it_says_how_to_have_some(ask, told):
    rows = {"y": [0, 1, 0, 1], "p": [0.1, 0.8, 0.4, 0.3], "slot": ["a", "a", "b", "b"]}
    compared = fm.evaluate(rows, label="y", score="p", by="slot", baseline=rows, metrics="auc,log_loss")
    for kept in (compared, pickle.loads(pickle.dumps(compared))):
        with pytest.raises(KeyError) as caught:
            ask(kept)
        assert isinstance(caught.value, fm.UnknownNameError) and str(caught.value) == told
    assert compared.deltas.get("acu") is None and "acu" not in compared.deltas


def test_an_unknown_attribute_of_a_result_is_an_error_that_names_what_was_meant(result):
    with pytest.raises(fm.UnknownAttributeError, match=r"no attribute 'auc'; the metric's value is result\['auc'\]$"):
        _ = result.auc
    with pytest.raises(AttributeError, match=r"no attribute 'slcies'; did you mean slices\?$"):  # codespell:ignore
        _ = result.slcies  # codespell:ignore
    assert not hasattr(result, "auc") and not hasattr(result, "_repr_png_")


def test_few_frames_are_between_a_call_and_its_error():
    """The traceback of a wrong option: those of evaluate, the one exchange, the question, and the check."""
    with pytest.raises(fm.InvalidInputError) as caught:
        fm.evaluate({"y": [0], "p": [0.1]}, label="y", score="p", ci=3)
    assert len(caught.traceback) <= 10


def test_every_metric_that_lacks_something_is_named_as_it_was_asked_for():
    """And no argument, object or key of the package itself."""
    few = {"y": np.array([0, 1, 1, 0]), "p": np.array([0.2, 0.7, 0.6, 0.3])}
    errors = {}
    for name in kinds():
        try:
            fm.evaluate(few, label="y", score="p", metrics=[f"mine={name}"], ci=0.9)
        except fm.InvalidInputError as error:
            errors[name] = str(error)
    assert len(errors) > 15 and errors["gauc"] == "mine needs the column of the user; give user=COLUMN"
    for name, text in errors.items():
        assert "mine" in text and not re.search(r"0x[0-9a-f]{6}|\w_count_\d|values |slice_\d", text), (name, text)


def test_conditions_are_those_of_the_command_line_without_its_option(result):
    assert result.failed("auc<0.1", "auc_delta.low<-1") == []
    [held] = result.failed("auc<1")
    assert held.startswith("'auc<1' holds: auc is 0.")
    with pytest.raises(fm.InvalidInputError, match=r"^'aux<1': there is no 'aux'; did you mean auc?"):
        result.failed("aux<1")
    with pytest.raises(fm.InvalidInputError, match=r"^5 must be a name"):
        result.failed(5)


def test_saved_states_merge_and_compare_as_in_a_shell(tmp_path):
    halves = [{name: each[place::2] for name, each in DATA.items()} for place in range(2)]
    for place, half in enumerate(halves):
        fm.evaluate(half, **ASKED).save_state(tmp_path / f"{place}.fms")
    states = [tmp_path / "0.fms", tmp_path / "1.fms"]
    whole, merged = fm.evaluate(DATA, **ASKED), merge(states)
    assert merged["auc"] == whole["auc"] and merged["log_loss"] == pytest.approx(whole["log_loss"], rel=1e-13)
    assert [each.verdict for each in merged.slices["slot"]] == [each.verdict for each in whole.slices["slot"]]
    fm.evaluate(OLD, **ASKED).save_state(tmp_path / "old.fms")
    compared = compare(states[0], tmp_path / "old.fms")
    assert compared.deltas["auc"].value == compared["auc"] - compared.baseline["auc"]
    with pytest.raises(fm.InvalidInputError, match="states is empty"):
        merge([])


def test_reading_a_result_twice_changes_nothing_of_what_it_reads():
    result = fm.evaluate(DATA, baseline=OLD, ci=0.95, **{**ASKED, "metrics": "matthews_correlation,auc"})
    one, other = result._sides
    again = [side.measured([]).intervals["matthews_correlation"] for side in (one, other, one, other)]
    assert again[0].low == again[2].low and again[1].low == again[3].low
    assert [side.members.intervals["matthews_correlation"].seed for side in (one, other)] == [0, 0]


# -- errors in the words of Python -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ci": 95}, "^ci must be a number between 0 and 1, such as 0.95, not 95"),
        ({"ci": "a"}, "^ci must be a number"),
        ({"by": 5}, "^by must be a string, or a list of strings, not 5"),
        ({"score": None}, "^score must be the name of a column, or a list of names, not None"),
        ({"weight": ["w"]}, r"^weight must be the name of a column or None, not \['w'\]"),
        ({"metrics": "auk"}, "^metrics: there is no metric 'auk'; did you mean auc?"),
        ({"metrics": "retrieval"}, r"'retrieval' is of boxes, .* use fleetmetrics\.Retrieval in Python, with add and"),
        ({"metrics": []}, "^metrics is empty"),
        ({"metrics": "auc,auc"}, "^metrics: 'auc' is taken"),
        ({"metrics": "gauc"}, "give user=COLUMN"),
        ({"task": "x"}, "^task must be one of 'binary'"),
        ({"task": "multiclass"}, "give classes=N, or one column per class"),
        ({"task": "multiclass", "classes": 1}, "^classes must be an integer of at least 2"),
        ({"join_on": "id"}, "^join_on joins the data with the data of baseline; give both"),
        ({"skip_bad_rows": 1}, "^skip_bad_rows must be True or False"),
        ({"processes": "a"}, "^processes must be an integer"),
        ({"communicator": 5}, "^communicator is 5"),
        ({"timeout": -3}, "timeout is -3"),
        ({"baseline": 5}, "^baseline must be a data frame .* or a dict of arrays, not int"),
        ({"columns": ["a", "b"]}, "^columns names the columns of CSV files without a header; a data frame has names"),
        ({"baseline": [3]}, "^baseline must be a path"),
        ({"baseline": []}, "^baseline is empty; name at least one file"),
        ({"label": "yy"}, "^data: no column 'yy' for label; did you mean 'y'"),
        ({"by": "nothere"}, "^data: no column 'nothere' for by. There are 'y'"),
    ],
)
def test_errors_name_arguments_as_python_does(more, said):
    with pytest.raises(fm.InvalidInputError, match=said) as caught:
        fm.evaluate(DATA, **{**ASKED, **more})
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("more", [{}, {"baseline": DATA, "join_on": "id", "join": "inner"}])
def test_timeout_is_what_the_error_of_a_missing_worker_advises(more):
    frame = {**DATA, "id": np.arange(len(DATA["y"]))}
    more = {**more, **({"baseline": frame} if more else {})}
    late = pytest.raises(fm.DeadlineError, match=r"rank 1 did not connect within 1 s .*timeout=, or")
    port = free_ports(1)[0]
    with fm.SocketCommunicator(rank=0, world_size=2, endpoint=f"127.0.0.1:{port}", secret="a") as alone, late:
        fm.evaluate(frame, **{**ASKED, **more}, communicator=alone, timeout=1)


@pytest.mark.parametrize("given", [5, "", [], [3], b"x", np.zeros(3), "pandas", "polars", "pyarrow"])
def test_what_is_neither_files_nor_a_frame_is_refused(given):
    if isinstance(given, str) and given:
        make = {"pyarrow": "chunked_array"}.get(given, "Series")
        given = getattr(pytest.importorskip(given), make)([[0.1, 0.2]] if given == "pyarrow" else [0.1, 0.2])
    for more in ({}, {"baseline": DATA}):
        with pytest.raises(fm.InvalidInputError, match=r"^data (must be a (data frame of pandas.*not|path)|is empty)"):
            fm.evaluate(given, **more, **ASKED)
    with pytest.raises(fm.InvalidInputError, match=r"^baseline (must be a|is empty)"):
        fm.evaluate(DATA, baseline=given, **ASKED)


def test_one_condition_may_be_given_alone(result):
    pytest.importorskip("jinja2")
    assert "auc&lt;0.99" in result.to_html(conditions="auc<0.99") and "auc&lt;0.99" in result.to_html(
        conditions=["auc<0.99"]
    )
    for wrong in (3, [3]):
        with pytest.raises(fm.InvalidInputError, match="must be"):
            result.to_html(conditions=wrong)


def test_rows_of_a_frame_that_are_at_fault_are_named_or_left_out_and_counted():
    frame = {"y": [0, 1, 1, 0], "p": [0.1, 0.9, 1.5, 0.3]}
    with pytest.raises(fm.DataError, match=r"^data: row 2, column 'p': 1.5 where prediction must be"):
        fm.evaluate(frame, label="y", score="p")
    found = fm.evaluate(frame, label="y", score="p", skip_bad_rows=True)
    assert (found.new.rows, found.new.data.rows, found.new.data.skipped) == (3, 4, 1)
    with pytest.raises(
        fm.InvalidInputError, match=r"^data: column 'y' must hold one entry, or row, for each of 1 row, not"
    ):
        fm.evaluate({**frame, "p": [0.5]}, label="y", score="p")


def test_a_baseline_of_other_rows_is_refused_in_the_words_of_python():
    with pytest.raises(fm.DataError, match=r"^join_on=id: ids and labels differ from the baseline's: 4,000 rows"):
        fm.evaluate(DATA, baseline={name: each[1:] for name, each in OLD.items()}, join_on="id", **ASKED)


# -- the question ------------------------------------------------------------------------------------------------


def asked(**more):
    return Question.of(Options(**{"label": "y", "score": "p", "metrics": "auc,confusion_matrix", **more}))


def test_users_are_drawn_where_there_are_some_then_the_rows_that_are_joined_then_rows():
    joined = {"join_on": "id", "baseline": OLD}
    units = [asked(user="uid", **joined), asked(**joined), asked(baseline_score="old"), asked()]
    assert [each.unit for each in units] == ["user", "id", "row", None]


def test_an_interval_has_coarse_buckets_only_where_each_draw_has_a_histogram():
    def interval(metric, **more):
        question = asked(ci=0.9, metrics=metric, **more)
        return question.interval(next(iter(question.named)))

    def buckets(metric, **more):
        return interval(metric, **more).settings()["metric"].buckets

    for metric in ("auc", "average_precision"):
        assert buckets(metric) == buckets(metric, weight="w") == 4096  # by a formula
    assert [buckets("auc:max_fpr=0.5"), buckets("auc:max_fpr=0.5", weight="w")] == [4096, 512]
    assert interval("gauc", user="uid").ids == "user"
    # its sums are by user, and cannot be drawn by the id of a row
    assert interval("gauc", user="uid", join_on="id", baseline=OLD).ids == "user"
    assert interval("ndcg", task="ranking", user="q") is not None
    assert interval("exact_auc") is None and interval("confusion_matrix") is None


def test_a_metric_that_sums_over_users_has_a_formula_for_its_interval():
    """So none of them is drawn by the column that its rows are joined on."""
    grouped = []
    for name, k in itertools.product(kinds(), (None, 3)):
        with contextlib.suppress(fm.InvalidInputError):  # it needs k, or has none
            metric = Named(name, name, name, k, {}).metric("ranking")
            grouped += [metric] if isinstance(metric, GroupedMetric) else []
    assert len(grouped) > 10 and all(metric.linear is not None for metric in grouped)


def test_slices_are_compared_where_they_have_intervals_or_a_baseline():
    for more, wanted in (({}, False), ({"ci": 0.9}, True), ({"baseline": OLD}, True)):
        assert asked(by="slot", **more).compared is wanted
        assert asked(**more).compared is False


def test_a_comparison_with_pairs_or_at_every_look_has_intervals():
    for more, wanted in (
        ({}, None),
        ({"baseline": OLD}, None),
        ({"baseline": OLD, "join_on": "id"}, 0.95),
        ({"baseline_score": "old"}, 0.95),
        ({"baseline": OLD, "always_valid": 10}, 0.95),
        ({"baseline": OLD, "always_valid": 10, "ci": 0.9}, 0.9),
    ):
        assert asked(**more).ci == wanted


def test_columns_of_slices_may_be_called_as_arguments_are():
    data = {**DATA, "weight": DATA["slot"], "my slot": DATA["slot"], "mask": DATA["slot"]}
    found = fm.evaluate(data, label="y", score="p", metrics="auc", by=["weight", "my slot", "mask", "slot"])
    slices = found.to_dict()["slices"]
    assert list(slices) == ["weight", "my slot", "mask", "slot"]
    assert slices["weight"] == slices["my slot"] == slices["mask"] == slices["slot"]


def test_the_baselines_names_hold_for_columns_that_are_crossed_and_for_its_scores():
    question = asked(by=["slot*day", "slot", '"a*b"*slot'], task="multiclass", score=["p0", "p1"], baseline=OLD)
    other = question.of_baseline(("q0", "q1"), {"slot": "place", "day": "date", "a*b": "c"})
    assert list(other.by) == ["place*date", "place", "c*place"]
    assert other.roles["prediction"] == ["q0", "q1"] and question.roles["prediction"] == ["p0", "p1"]
    assert asked(by="slot").of_baseline(names={"slot": "a*b"}).by == ["a*b"]


def test_positives_are_counted_where_a_metric_or_the_question_needs_them():
    assert "positives" in asked()._sizes() and "positives" in asked(metrics="mae", positive="click")._sizes()
    assert "positives" not in asked(metrics="mae")._sizes()
    assert "positives" in asked(metrics="mae", min_positives=3)._sizes()


def test_the_first_metric_that_is_a_number_ranks_the_slices():
    assert asked(metrics="confusion_matrix,log_loss,auc").ranking == "log_loss"
    assert asked(metrics="confusion_matrix").ranking == "confusion_matrix"
    assert asked(metrics="auc,log_loss", by="slot", rank_by="log_loss").ranking == "log_loss"


# -- several workers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["files", "frames"])
def test_all_workers_get_the_result_over_all_rows(there, kind):
    import pyarrow.parquet

    more = {"ci": 0.9, "user": "uid", "join_on": "id"}
    parts = [[{name: each[rank::2] for name, each in side.items()} for rank in range(2)] for side in (DATA, OLD)]
    for name, side in zip(("news", "olds"), parts):
        (there / name).mkdir()
        for rank, part in enumerate(side):
            pyarrow.parquet.write_table(pa.table(part), there / name / f"{rank}.parquet")

    def work(channel):
        new, old = ("news", "olds") if kind == "files" else (side[channel.rank] for side in parts)
        return fm.evaluate(new, baseline=old, communicator=channel, **ASKED, **more)

    results = [*together([work] * 2), fm.evaluate("news", baseline="olds", **ASKED, **more)]
    found = [{**without_date(each.to_dict()), "warnings": []} for each in results]  # threads mix up whose they are
    assert found[0] == found[1] == found[2]


def test_what_is_wrong_on_one_worker_is_raised_on_all():
    bad = {**DATA, "p": DATA["p"] + 1}
    frames = [lambda channel, each=each: fm.evaluate(each, communicator=channel, **ASKED) for each in (DATA, bad)]
    errors = together(frames)
    assert all(isinstance(error, fm.DataError) and "column 'p'" in str(error) for error in errors)
    asked = [lambda channel, ci=ci: fm.evaluate(DATA, communicator=channel, ci=ci, **ASKED) for ci in (None, 0.9)]
    for error in together(asked):
        assert isinstance(error, fm.InvalidInputError)
        assert "rank 1 got different arguments from rank 0: ci is None on rank 0, here 0.9" in str(error)


def test_slices_are_plotted_by_their_column_in_one_call(result):
    pytest.importorskip("matplotlib")
    axes = result.plot("slices")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [row.key for row in result.slices["slot"]]
    again = fm.plot.slices(result.slices["slot"])
    assert axes.get_xlabel() == again.get_xlabel() == "auc"
    assert [line.get_xydata().tolist() for line in axes.lines] == [line.get_xydata().tolist() for line in again.lines]
    two = fm.evaluate(DATA, label="y", score="p", by=["slot", "uid"], metrics="auc", max_slices=5)
    assert len(two.plot("slices", by="uid").get_yticklabels()) == len(two.slices["uid"])
    with pytest.raises(fm.InvalidInputError, match="by must be one of 'slot', 'uid', not 'country'"):
        two.plot("slices", by="country")
    with pytest.raises(fm.InvalidInputError, match=r"by is for plot\('slices'\), not for 'roc'"):
        two.plot("roc", by="slot")
    with pytest.raises(fm.InvalidInputError, match="there are no slices to plot; name their column"):
        fm.evaluate(DATA, label="y", score="p", metrics="auc").plot("slices")


# -- the report of classes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_classes():
    rng = np.random.default_rng(4)
    names = np.array(["cat", "dog", "owl"])
    label, new, old = rng.integers(0, 3, (3, 300))
    new[:200], old[:150] = label[:200], label[:150]
    return {"y": names[label], "p": names[new], "q": names[old], "slot": np.array(["a", "b"])[np.arange(300) % 2]}


CLASSES = {"label": "y", "score": "p", "task": "multiclass", "classes": ["cat", "dog", "owl"]}


def test_a_report_of_classes_has_their_names_a_table_and_conditions(of_classes):
    result = fm.evaluate(of_classes, **CLASSES, metrics="classification_report,accuracy", by="slot")
    expected = fm.classification_report(label=of_classes["y"], prediction=of_classes["p"])
    assert result["classification_report"] == expected == result.to_dict()["classification_report"]
    for row in fm.formulas.class_report.rows_of(expected):
        assert re.search(rf"{row['name']} .*{row['f1-score']:.4f} +{row['support']}\n", f"{result}\n")
    assert result.failed("classification_report.dog.recall<1", "classification_report.macro avg.f1-score<0") == [
        f"'classification_report.dog.recall<1' holds: classification_report.dog.recall is "
        f"{expected['dog']['recall']:.6g}, {1 - expected['dog']['recall']:.6g} below"
    ]
    assert all(row.metric == "accuracy" for row in result.slices["slot"])  # slices have numbers


def test_against_a_baseline_the_report_has_the_change_of_f1_and_alone_no_empty_table(of_classes):
    result = fm.evaluate(of_classes, **CLASSES, metrics="classification_report", baseline_score="q", by="slot")
    [table] = [table for table in result.tables() if table.title == "classification_report"]
    old = fm.classification_report(label=of_classes["y"], prediction=of_classes["q"])
    row = next(row for row in table.rows if row[0] == "owl")
    assert row[5] == f"{old['owl']['f1-score']:.4g}"
    assert float(row[6]) == pytest.approx(
        result["classification_report"]["owl"]["f1-score"] - old["owl"]["f1-score"], 0.01
    )
    assert "\n\n\n" not in str(result) and "undefined" not in str(result)


def test_the_report_of_a_binary_task_and_of_several_tasks_is_by_label():
    rows = {"click": [0, 1, 1, 0], "like": [1, 1, 0, 0], "p": [0.2, 0.9, 0.4, 0.1], "q": [0.7, 0.6, 0.2, 0.8]}
    one = fm.evaluate(rows, label="click", score="p", metrics="classification_report")
    both = fm.evaluate(rows, label=["click", "like"], score=["p", "q"], metrics="classification_report")
    assert one["classification_report"]["1"]["recall"] == 0.5
    assert both["click.classification_report"] == one["classification_report"]
    assert "\nlike.classification_report\n" in str(both)


def test_a_page_has_the_averages_of_a_report_among_the_metrics_and_the_classes_by_name(of_classes):
    pytest.importorskip("jinja2")
    page = fm.evaluate(of_classes, **CLASSES, metrics="classification_report").to_html()
    shown = page.partition('id="result"')[0]
    assert "classification_report.macro avg.recall" in shown and "classification_report.dog" not in shown
    assert re.search(r">dog</t[hd]>", shown) and "macro avg.support" not in shown


#: The column of each role of a counterfactual task.
ROLES = {"target": "new", "propensity": "old", "expected_logged": "model", "expected_target": "mean"}


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    columns = {column: rng.uniform(0.1, 1, 300) for column in (*ROLES.values(), "other")}
    return {**columns, "reward": rng.normal(size=300)}


def _by_add(log, *columns):
    metrics = fm.MetricCollection({"ips": fm.IPS(), "snips": fm.SNIPS()})
    metrics.add(np.stack([log[column] for column in columns], axis=1), log["reward"])
    return metrics.compute()["ips"]


def test_counterfactual_values_are_those_of_the_columns_by_role_in_any_order(log, tmp_path, capsys):
    asked = {"label": "reward", "task": "counterfactual"}
    robust = fm.DoublyRobust()
    robust.add(np.stack([log[column] for column in ROLES.values()], axis=1), log["reward"])
    result = fm.evaluate(log, score=dict(reversed(ROLES.items())), **asked)
    assert result["ips"] == pytest.approx(_by_add(log, "new", "old"), rel=1e-12)
    assert result["doubly_robust"] == pytest.approx(robust.compute(), rel=1e-12)
    assert result.to_dict()["asked"]["columns"]["prediction"] == [*ROLES.values()]
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(pa.table(log), tmp_path / "log.parquet")
    arguments = ["evaluate", str(tmp_path / "log.parquet"), "--task", "counterfactual", "--label", "reward", "--json"]
    policies = ["--score", "propensity=old,target=new", "--baseline-score", "target=other,propensity=old"]
    assert main([*arguments, *policies]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ips"] == pytest.approx(result["ips"], rel=1e-12) and "doubly_robust" not in found
    assert found["baseline"]["ips"] == pytest.approx(_by_add(log, "other", "old"), rel=1e-12)


@pytest.mark.parametrize(
    ("score", "named"),
    [
        ("new", "'new'"),
        (["new", "old"], r"\['new', 'old'\]"),
        (["target=new", "target=old"], r"\['target=new', 'target=old'\]"),
        ({"target": "new"}, r"{'target': 'new'}"),
        ({"target": "new", "propensity": ["old"]}, r"{'target': 'new', 'propensity': \['old'\]}"),
        ({"target": "new", "propensity": "old", "expected_target": "mean"}, "{'target': 'new', 'propensity': 'old', "),
        ({"target": "new", "logged": "old"}, "{'target': 'new', 'logged': 'old'}"),
    ],
)
@pytest.mark.parametrize("argument", ["score", "baseline_score"])
def test_columns_of_policies_go_by_role_never_by_position(log, argument, score, named):
    by_role = {"score": {"target": "new", "propensity": "old"}, argument: score}
    allowed = r'^{0} names each column by its role, {0}={{"target": "t", "propensity": "l"}}: .*; not {1}'
    with pytest.raises(fm.InvalidInputError, match=allowed.format(argument, named)):
        fm.evaluate(log, label="reward", task="counterfactual", **by_role)


def test_a_counterfactual_task_has_one_column_of_rewards(log):
    with pytest.raises(fm.InvalidInputError, match="takes one column of rewards, not reward, other; evalu"):
        fm.evaluate(log, label=["reward", "other"], score=ROLES, task="counterfactual")


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ("ips,auc", "metrics: auc does not evaluate a policy; task=counterfactual takes ips, snips, effective_sample_"),
        ("ctr", "metrics: ctr does not evaluate a policy"),
        ("doubly_robust:clip=2", "doubly_robust:clip=2 needs expected rewards; name their columns in score, by"),
        ("ipss", "there is no metric 'ipss'; did you mean ips"),
    ],
)
def test_probabilities_of_policies_are_no_scores_of_other_metrics(log, metrics, told):
    """Or their value would be that of the propensities."""
    score, of_reward = {"target": "new", "propensity": "old"}, {"label": "reward", "task": "counterfactual"}
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.evaluate({**log, "reward": log["reward"] > 0}, score=score, **of_reward, metrics=metrics)
    assert fm.evaluate(log, score=score, **of_reward, metrics="ips,count")["count"] == 300


def test_an_invalid_propensity_is_no_logit(log):
    log = {**log, "old": np.append(0.0, log["old"][1:])}
    with pytest.raises(fm.DataError, match=r"row 0, .*up to 1 \(the first row is row 0\)"):
        fm.evaluate(log, label="reward", score={"target": "new", "propensity": "old"}, task="counterfactual")


def test_roles_are_of_a_counterfactual_task_alone(log):
    with pytest.raises(fm.InvalidInputError, match="score must be the name of a column, or a list of names"):
        fm.evaluate(log, label="reward", score=ROLES)
