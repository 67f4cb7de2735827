"""AUC and average precision of several classes and labels: scikit-learn's averages, bounds, wrappers, bad input."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import paddle
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, feed_together, same

RNG = np.random.default_rng(0)
SAMPLES, CLASSES = 60, 3
WEIGHT = RNG.random(SAMPLES)
#: Multiples of 1/64, of which each has a bucket of its own: nothing is lost by rounding.
TABLE = RNG.multinomial(64, np.ones(CLASSES) / CLASSES, SAMPLES) / 64
CLASS = RNG.integers(0, CLASSES, SAMPLES)
ONE_HOT = (np.arange(CLASSES) == CLASS[:, None]).astype(np.int64)
LABELS = RNG.integers(0, 2, (SAMPLES, CLASSES))
LOGITS = RNG.normal(size=(SAMPLES, CLASSES)) * 3

SIZES = {"multiclass": {"num_classes": CLASSES}, "multilabel": {"num_labels": CLASSES}}
TRUTH = {"multiclass": CLASS, "multilabel": LABELS}
AVERAGES = ["macro", "weighted", "micro", None]
WEIGHTS = pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
IN_MEMORY = pytest.mark.parametrize("form", [np.asarray, paddle.to_tensor], ids=["numpy", "dynamic"])


def made(kind, task, **settings):
    return kind(task=task, **SIZES[task], **settings)


def value(metric, *given):
    metric.add(*given)
    return metric.compute()


def error_of(call) -> str:
    with pytest.raises(fm.InvalidInputError) as error:
        call()
    return str(error.value)


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.numpy_only
@WEIGHTS
@pytest.mark.parametrize("task", SIZES)
def test_a_collection_of_every_average_keeps_one_histogram_and_equals_scikit_learn(task, weight):
    truth = ONE_HOT if task == "multiclass" else LABELS
    members, expected = {}, {}
    for average in AVERAGES:
        for name, metric, theirs in (
            ("roc", made(fm.AUC, task, average=average), roc_auc_score),
            ("pr", made(fm.AUC, task, average=average, curve="PR"), average_precision_score),
            ("ap", made(fm.AveragePrecision, task, average=average), average_precision_score),
        ):
            members[f"{name} {average}"] = metric
            expected[f"{name} {average}"] = theirs(truth, TABLE, average=average, sample_weight=weight)
    metrics = fm.MetricCollection(members)
    metrics.add(TABLE[:20], TRUTH[task][:20], None if weight is None else weight[:20])
    metrics.add(TABLE[20:], TRUTH[task][20:], None if weight is None else weight[20:])
    assert same(metrics.compute(), expected, exact=False)
    (state,) = {state for member in members.values() for state in member.own_states()}
    assert (state.shape, state.name.rpartition(".")[2]) == ((CLASSES, 2, 4096), "histogram")
    assert isinstance(metrics.compute()["roc macro"], float)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_the_area_of_classes_is_scikit_learns_one_versus_rest(average):
    theirs = roc_auc_score(CLASS, TABLE, multi_class="ovr", average=average, sample_weight=WEIGHT)
    mine = value(made(fm.AUC, "multiclass", average=average), TABLE, CLASS, WEIGHT)
    assert mine == pytest.approx(theirs, rel=1e-12, abs=0)


def test_each_class_has_what_a_metric_of_its_column_alone_has():
    for settings in ({}, {"max_fpr": 0.3}, {"curve": "PR"}, {"num_thresholds": 5}, {"bounds": True, "buckets": 6}):
        for task in SIZES:
            parts = [
                value(fm.AUC(**settings), TABLE[:, k], ONE_HOT[:, k] if task == "multiclass" else LABELS[:, k], WEIGHT)
                for k in range(CLASSES)
            ]
            found = value(made(fm.AUC, task, average=None, **settings), TABLE, TRUTH[task], WEIGHT)
            assert np.array_equal(np.array(found), np.array(parts).T)


def test_labels_have_scikit_learns_partial_areas():
    mine = value(made(fm.AUC, "multilabel", max_fpr=0.3), TABLE, LABELS)
    assert mine == pytest.approx(roc_auc_score(LABELS, TABLE, max_fpr=0.3), rel=1e-12, abs=0)


@pytest.mark.numpy_only
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind, theirs", [(fm.AUC, roc_auc_score), (fm.AveragePrecision, average_precision_score)])
def test_the_value_of_the_raw_scores_always_lies_between_the_averaged_bounds(kind, theirs, average):
    rng = np.random.default_rng(1)
    for number in range(10):
        table = rng.dirichlet(np.ones(CLASSES), SAMPLES)
        weight = WEIGHT if number % 2 else None
        metric = made(kind, "multiclass", average=average, bounds=True, buckets=int(rng.integers(2, 20)))
        area = value(metric, table, CLASS, weight)
        exact = theirs(ONE_HOT, table, average=average, sample_weight=weight)
        assert isinstance(area, fm.formulas.BoundedArea)
        assert np.all(area.low <= area.value) and np.all(area.value <= area.high)
        assert np.all(area.low - 1e-12 <= exact) and np.all(exact <= area.high + 1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_logits_are_taken_by_softmax_of_classes_and_by_sigmoid_of_labels(mode):
    odds = np.exp(LOGITS)
    for task, table in (("multiclass", odds / odds.sum(axis=1, keepdims=True)), ("multilabel", odds / (1 + odds))):
        plain, announced = made(fm.AUC, task), made(fm.AUC, task, from_logits=True)
        plain.add(table, TRUTH[task])
        scope = feed(announced, [Data(LOGITS, TRUTH[task])], mode)
        assert announced.compute(scope) == plain.compute()
    huge = value(made(fm.AUC, "multiclass", from_logits=True), LOGITS * 1e300, CLASS)
    assert 0 < huge < 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ignored", [-1, 1])
@pytest.mark.parametrize("task", ["binary", *SIZES])
def test_ignored_labels_do_not_count_with_any_prediction(task, ignored, mode):
    if (task, ignored) != ("multiclass", 1):
        ignored = -1
    size = SIZES.get(task, {})
    label = TRUTH.get(task, LABELS[:, 0])
    label = np.where(RNG.random(label.shape) < 0.3, ignored, label)
    table = np.where((label == ignored).reshape(SAMPLES, -1), np.nan, TABLE)
    table = table[:, 0] if task == "binary" else table
    metric = fm.AUC(task=task, zero_division=0.25, ignore_index=ignored, **size)
    found = metric.compute(feed(metric, [Data(table, label, WEIGHT)], mode))
    if task == "multilabel":
        columns = [table[:, k][label[:, k] >= 0] for k in range(CLASSES)]
        kept = [(label[:, k][label[:, k] >= 0], WEIGHT[label[:, k] >= 0]) for k in range(CLASSES)]
        expected = np.mean([value(fm.AUC(), p, y, w) for p, (y, w) in zip(columns, kept)])
    else:
        keep = label != ignored
        expected = value(fm.AUC(task=task, zero_division=0.25, **size), table[keep], label[keep], WEIGHT[keep])
    assert found == pytest.approx(expected, rel=1e-12, abs=0)


# -- lanes -----------------------------------------------------------------------------------------------

WRAPPED = {
    "sliced": lambda metric: fm.Sliced(metric, by="slot", keys=[0, 1]),
    "windowed": lambda metric: fm.Windowed(metric, last=1),
    "resampled": lambda metric: fm.Bootstrap(metric, replicates=5, ids="id"),
    "resampled slices": lambda metric: fm.Sliced(fm.Bootstrap(metric, replicates=3, ids="id"), by="slot", keys=[0]),
}


def numbers(result):
    """A value without the settings that come with it."""
    if isinstance(result, dict):
        return {key: numbers(each) for key, each in result.items()}
    if isinstance(result, fm.BootstrapResult):
        return [result.value, result.replicates]
    return list(result) if isinstance(result, tuple) else result


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
@pytest.mark.parametrize("mode", MODES)
def test_classes_in_lanes_are_labels_of_which_one_is_true(mode):
    """Whatever is around them; those of labels go through the contract."""
    columns = {"slot": RNG.integers(0, 2, SAMPLES), "id": np.arange(SAMPLES)}
    mask = RNG.random(SAMPLES) < 0.9
    entries = []
    for name, task in itertools.product(WRAPPED, SIZES):
        used = {"sliced": ["slot"], "windowed": [], "resampled": ["id"]}.get(name, ["slot", "id"])
        label = CLASS if task == "multiclass" else ONE_HOT
        data = Data(TABLE, label, WEIGHT, mask, {column: columns[column] for column in used})
        entries.append((WRAPPED[name](made(fm.AUC, task, buckets=50)), data, [data.rows(0, 25), data.rows(25, 60)]))
    if mode == "static":
        scope = feed_together(entries)
    else:
        scope = None
        for metric, _, parts in entries:
            feed(metric, parts, mode)
    values = [numbers(metric.compute(scope)) for metric, *_ in entries]
    for name, classes, labels in zip(WRAPPED, values[::2], values[1::2]):
        assert same(classes, labels, exact=False), name
    plain = made(fm.AUC, "multiclass", buckets=50)
    plain.add(TABLE, CLASS, WEIGHT, mask)
    chosen = columns["slot"] == 1
    of_slot = value(made(fm.AUC, "multiclass", buckets=50), TABLE[chosen], CLASS[chosen], WEIGHT[chosen], mask[chosen])
    assert same([values[0][1], values[2][1], values[4][0]], [of_slot, plain.compute(), plain.compute()], exact=False)


# -- undefined -------------------------------------------------------------------------------------------


@IN_MEMORY
@pytest.mark.parametrize("kind", [fm.AUC, fm.AveragePrecision])
def test_a_class_without_samples_is_left_out_of_averages_and_named(kind, form):
    name = "auc" if kind is fm.AUC else "average_precision"
    table, label = np.pad(TABLE, [(0, 0), (1, 1)]), CLASS + 1  # classes 0 and 4 have no samples

    def of(**settings):
        return value(kind(num_classes=5, tolerance=None, **settings), form(table), form(label), form(WEIGHT))

    with pytest.warns(
        fm.UndefinedMetricWarning,
        match=f"{name} of class 0, 4 is undefined: never true.* the macro average leaves it out",
    ) as told:
        macro = of()
    assert len(told) == 1
    plain = value(made(kind, "multiclass", tolerance=None), TABLE, CLASS, WEIGHT)
    assert macro == pytest.approx(plain, rel=1e-12, abs=0)
    with pytest.warns(fm.UndefinedMetricWarning, match=f"{name} of class 0, 4 is undefined: never true") as told:
        each = of(average=None)
    assert len(told) == 1 and np.isnan(each).tolist() == [True, False, False, False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = value(made(kind, "multiclass", average="weighted", tolerance=None), TABLE, CLASS, WEIGHT)
        assert of(average="weighted") == pytest.approx(expected, rel=1e-12, abs=0)  # such a class has no weight
        assert of(average=None, zero_division=0.5)[[0, 4]].tolist() == [0.5, 0.5]
        assert of(zero_division=0.5) == pytest.approx((3 * plain + 2 * 0.5) / 5, rel=1e-12, abs=0)
        bounded = of(zero_division=0.5, bounds=True)
    assert bounded.low <= bounded.value <= bounded.high


def test_a_label_that_is_always_true_has_no_area_but_an_average_precision():
    label = LABELS.copy()
    label[:, 1] = 1
    with pytest.warns(
        fm.UndefinedMetricWarning, match="auc of label 1 is undefined: .*; the weighted average leaves it out"
    ):
        found = value(made(fm.AUC, "multilabel", average="weighted"), TABLE, label)
    expected = roc_auc_score(label[:, [0, 2]], TABLE[:, [0, 2]], average="weighted")
    assert found == pytest.approx(expected, rel=1e-12, abs=0)
    assert value(made(fm.AveragePrecision, "multilabel", average=None), TABLE, label)[1] == 1


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind", [fm.AUC, fm.AveragePrecision])
def test_nothing_to_average_is_one_warning_or_what_was_asked_for(kind, average):
    for label in ([], np.zeros((4, CLASSES))):
        for bounds in (False, True):
            told = made(kind, "multilabel", average=average, bounds=bounds)
            asked = made(kind, "multilabel", average=average, bounds=bounds, zero_division=0.5)
            for metric in (told, asked) if len(label) else ():
                metric.add(TABLE[:4], label)
            with pytest.warns(fm.UndefinedMetricWarning) as caught:
                assert np.isnan(told.compute()).all()
            assert len(caught) == 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = np.array(asked.compute())
            assert found.shape == ((3,) if bounds else ()) + ((CLASSES,) if average is None else ())
            assert (found == 0.5).all()


# -- arguments and bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"task": "multi"}, "task must be one of 'binary', 'multiclass', 'multilabel', not 'multi'"),
        ({"task": "multiclass"}, "num_classes must be an integer of at least 2 with task='multiclass', not None"),
        ({"task": "multilabel", "num_labels": 0}, "num_labels must be an integer of at least 1 with task='multilabel'"),
        (
            {"task": "binary", "num_classes": 3},
            "num_classes belongs to task='multiclass'; with task='binary' it must be None, not 3",
        ),
        ({"average": "micro"}, "average='micro' needs task='multiclass' or 'multilabel'"),
        (
            {"task": "multilabel", "num_labels": 2, "average": "samples"},
            "average must be one of 'macro', 'weighted', 'micro', 'none', None, not 'samples'",
        ),
        ({"task": "multilabel", "num_labels": 2, "ignore_index": 0.5}, "ignore_index must be an integer, several"),
        (
            {"task": "multiclass", "num_classes": 200_000},
            r"num_classes=200000 with buckets=4096 would be 1638400000 numbers; at most 1073741824 \(8 GiB\) are "
            "allowed: give buckets=2684 or fewer",
        ),
        ({"task": "multilabel", "num_labels": 2**30}, "num_labels=1073741824 with buckets=4096 .* fewer labels"),
    ],
)
@pytest.mark.parametrize("kind", [fm.AUC, fm.AveragePrecision])
def test_a_wrong_argument_is_an_error_that_names_it_its_value_and_what_is_allowed(kind, settings, told):
    with pytest.raises(fm.InvalidInputError, match=told):
        kind(**settings)


@IN_MEMORY
def test_bad_input_is_an_error_and_nothing_of_it_is_added(form):
    classes, labels = made(fm.AUC, "multiclass"), made(fm.AUC, "multilabel")
    for metric, prediction, label, told in (
        (classes, TABLE[:, :2], CLASS, r"prediction has shape \[n, 2\]; with task='multiclass', num_classes=3"),
        (classes, TABLE[:, 0], CLASS, r"prediction has the label's shape; with task='multiclass' it must have shape"),
        (classes, LOGITS, CLASS, "probabilities in .* which add up to 1 .apply the softmax to logits first"),
        (classes, TABLE / 2, CLASS, "probabilities in .* which add up to 1"),
        (classes, TABLE, CLASS + 1, "label must be a class: a whole number from 0 to 2; "),
        (labels, TABLE, CLASS, r"with task='multilabel', num_labels=3 both must have shape \[n, 3\]"),
        (labels, LOGITS, LABELS, r"prediction must be a probability in \[0, 1\]"),
        (labels, TABLE, LABELS + 1, "label must be a class: 0 or 1"),
    ):
        metric.add(form(TABLE), form(TRUTH[metric.task.kind]))
        before = metric.compute()
        with pytest.raises(fm.InvalidInputError, match=told):
            metric.add(form(prediction), form(label))
        assert metric.compute() == before


def test_probabilities_of_labels_need_not_add_up_and_those_of_classes_need_not_where_nobody_checks():
    free = RNG.integers(0, 65, (SAMPLES, CLASSES)) / 64
    expected = roc_auc_score(ONE_HOT, free)
    assert value(made(fm.AUC, "multilabel"), free, ONE_HOT) == pytest.approx(expected, rel=1e-12, abs=0)
    assert value(made(fm.AUC, "multiclass", validate=False), free, CLASS) == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_increments_of_a_failing_batch_are_taken_back():
    metrics = fm.MetricCollection({"auc": made(fm.AUC, "multiclass"), "loss": made(fm.LogLoss, "multiclass")})
    metrics.add(TABLE[1:], CLASS[1:], WEIGHT[1:])
    before = metrics.compute()
    with pytest.raises(fm.InvalidInputError, match="would no longer be finite"):
        metrics.add(TABLE[:2], CLASS[:2], np.array([1e308, 1e308]))
    assert metrics.compute() == before


def test_only_equal_tasks_share_a_histogram():
    kinds = [{}, {"buckets": 9}, {"ignore_index": -1}, {"from_logits": True}]
    members = [made(fm.AUC, task, **settings) for task in SIZES for settings in kinds]
    members += [fm.AUC(task="multiclass", num_classes=4), fm.AUC(), fm.AUC(ignore_index=-1), fm.KolmogorovSmirnov()]
    metrics = fm.MetricCollection(members)
    assert len(metrics._states()) - len(metrics.batch_checks()[0].states) == len(members) - 1
    assert members[-1].states["histogram"] is members[-3].states["histogram"]
    assert fm.AUC().states["histogram"].shape == (2, 4096)
    assert fm.AUC(task="binary").states["histogram"].key == fm.ROCCurve().states["histogram"].key


def test_a_fresh_metric_is_of_the_same_task_and_merges():
    one = made(fm.AUC, "multiclass")
    other, both = one.fresh(), one.fresh()
    one.add(TABLE[:30], CLASS[:30])
    other.add(TABLE[30:], CLASS[30:])
    both.add(TABLE, CLASS)
    one.merge(other)
    assert one.compute() == both.compute() and not math.isnan(other.compute())
    assert type(other.states["histogram"]) is type(one.states["histogram"])
    assert "other must be an AUC" in error_of(lambda: one.merge(made(fm.AUC, "multilabel")))
