"""One-hot labels: taken as their argmax by Accuracy, refused by name elsewhere, never samples in silence."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.batch import Batch
from tests.contract import MODES, Data, feed

RNG = np.random.default_rng(1)
N, K = 64, 4
CLASS = RNG.integers(0, K, N)
SCORES = RNG.dirichlet(np.ones(K), N)
ONE_HOT = np.eye(K)[CLASS]
TRUTH = float((SCORES.argmax(1) == CLASS).mean())
LOGITS = np.log(SCORES) + 3
UNNORMALISED = SCORES * RNG.uniform(0.3, 1, (N, 1))
REFUSES = r"one-hot.*label\.argmax\(axis=-1\)"
DEFERRED = r"(?s)invalid and left out.*not one-hot rows.*label\.argmax\(axis=-1\)"


def value(metric, *given, mode="numpy"):
    return metric.compute(feed(metric, [Data(*given)], mode))


# -- accuracy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("scores", [SCORES, LOGITS, UNNORMALISED], ids=["probabilities", "logits", "others"])
def test_accuracy_takes_one_hot_rows_as_their_classes(scores, dtype, mode):
    assert value(fm.Accuracy(), scores, ONE_HOT.astype(dtype), mode=mode) == TRUTH
    assert value(fm.Accuracy(num_classes=K), scores, ONE_HOT.astype(dtype), mode=mode) == TRUTH


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_what_else_accuracy_is_given_applies_to_rows(mode):
    weight = RNG.random(N)
    mask = RNG.random(N) < 0.7
    garbled = np.where(mask[:, None], ONE_HOT, 1.0)  # what is masked may be anything
    for more in ((weight,), (weight, mask), (None, mask), (weight[:, None], mask[:, None])):
        given = np.where(mask[:, None], ONE_HOT, np.nan) if more[-1] is not weight and len(more) > 1 else ONE_HOT
        given = garbled if given is not ONE_HOT else ONE_HOT
        expected = value(fm.Accuracy(), SCORES, CLASS, *more)
        assert value(fm.Accuracy(), SCORES, given, *more, mode=mode) == expected
    assert value(fm.Accuracy(top_k=2), LOGITS, ONE_HOT, mode=mode) == value(fm.Accuracy(top_k=2), LOGITS, CLASS)
    few = (LOGITS[:3], ONE_HOT[:3])
    assert value(fm.Accuracy(), *few, mode=mode) == value(fm.Accuracy(), LOGITS[:3], CLASS[:3])
    ignoring = fm.Accuracy(ignore_index=0)
    assert value(ignoring, SCORES, ONE_HOT, mode=mode) == value(fm.Accuracy(ignore_index=0), SCORES, CLASS)


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_rows_may_have_more_axes(mode):
    assert value(fm.Accuracy(), SCORES[:, None], ONE_HOT[:, None], mode=mode) == TRUTH
    assert value(fm.Accuracy(), SCORES[..., None], ONE_HOT[..., None], mode=mode) == TRUTH
    dense = (8, 8, K)
    assert value(fm.Accuracy(), LOGITS.reshape(dense), ONE_HOT.reshape(dense), mode=mode) == TRUTH
    mask = RNG.random((8, 8)) < 0.5
    expected = value(fm.Accuracy(), LOGITS, CLASS, None, mask.reshape(-1))
    assert value(fm.Accuracy(), LOGITS.reshape(dense), ONE_HOT.reshape(dense), None, mask, mode=mode) == expected
    images = [np.moveaxis(each.reshape(4, 4, 4, K), -1, 1) for each in (LOGITS, ONE_HOT)]
    assert value(fm.Accuracy(class_axis=1), *images, mode=mode) == TRUTH
    weight = RNG.random((4, 4, 4))
    expected = value(fm.Accuracy(), LOGITS, CLASS, weight.reshape(-1))
    assert value(fm.Accuracy(class_axis=1), *images, weight, mode=mode) == pytest.approx(expected, 1e-14)
    with pytest.raises(fm.InvalidInputError, match=r"one-hot along axis 1.*label\.argmax\(axis=1\).*class_axis=1"):
        value(fm.Accuracy(), *images, mode=mode)


def test_two_classes_are_classes_too():
    label = CLASS % 2
    one_hot, scores = np.eye(2)[label], np.stack([1 - SCORES[:, 0], SCORES[:, 0]], 1)
    assert value(fm.Accuracy(), scores, one_hot) == (scores.argmax(1) == label).mean()
    with pytest.raises(fm.InvalidInputError, match=REFUSES):
        value(fm.AUC(), scores, one_hot)
    two_tasks = np.stack([CLASS % 2, CLASS // 2], 1)  # rows with two ones, or none
    assert value(fm.Accuracy(), UNNORMALISED[:, :2], two_tasks) == ((UNNORMALISED[:, :2] > 0.5) == two_tasks).mean()


@pytest.mark.numpy_only
def test_lists_are_read_as_arrays_are():
    metric = fm.Accuracy()
    metric.add(SCORES.tolist(), ONE_HOT.astype(int).tolist())
    assert metric.compute() == TRUTH


@pytest.mark.numpy_only
def test_a_batch_says_that_its_labels_were_one_hot():
    batch = Batch(SCORES, ONE_HOT, reader=fm.Accuracy())
    assert batch.read_as == "one-hot rows, taken as their argmax"
    assert batch.label.tolist() == CLASS.tolist()
    assert Batch(SCORES, CLASS, reader=fm.Accuracy()).read_as == ""


@pytest.mark.numpy_only
def test_wrappers_and_collections_read_them_as_their_metrics_do():
    keys = CLASS % 3
    sliced, expected = fm.Sliced(fm.Accuracy(), by="s"), fm.Sliced(fm.Accuracy(), by="s")
    sliced.add(SCORES, ONE_HOT, s=keys)
    expected.add(SCORES, CLASS, s=keys)
    assert sliced.compute() == expected.compute()
    interval = fm.Interval(fm.Accuracy())
    interval.add(SCORES, ONE_HOT)
    assert interval.compute().value == TRUTH
    windowed = fm.Windowed(fm.Accuracy(), 2)
    windowed.add(SCORES, ONE_HOT)
    assert windowed.compute().lifetime == TRUTH
    error = 1 - fm.Accuracy()
    error.add(SCORES, ONE_HOT)
    assert error.compute() == 1 - TRUTH
    both = fm.MetricCollection({"one": fm.Accuracy(), "top": fm.Accuracy(top_k=2)})
    both.add(SCORES, ONE_HOT)
    assert both.compute()["one"] == TRUTH
    for inner in (fm.AUC(), fm.F1()):
        for refusing in (fm.Sliced(inner, by="s"), fm.MetricCollection({"a": fm.Accuracy(), "b": inner.fresh()})):
            columns = {"s": keys} if isinstance(refusing, fm.Sliced) else {}
            with pytest.raises(fm.InvalidInputError, match=f"{type(inner).__name__} does not take: .*{REFUSES[9:]}"):
                refusing.add(SCORES, ONE_HOT, **columns)
            assert not refusing.holds_samples()


# -- every other metric ----------------------------------------------------------------------------------

#: The metrics whose labels are classes, other than Accuracy.
OF_CLASSES = [
    name
    for name in sorted(set(fm.metrics.__all__) - {"Accuracy"})
    if "class_label" in str(getattr(fm, name).requirements)
    or {"num_classes", "from_logits"}.intersection(inspect.signature(getattr(fm, name)).parameters)
]  # fmt: skip
OF_CLASSES = [
    name for name in OF_CLASSES if name not in ("ExactMatch", "GAUC", "PredictedClickThroughRate", "UAUC", "WuAUC")
]
REQUIRED = {"PrecisionAtFixedRecall": "min_recall", "RecallAtFixedPrecision": "min_precision"}
REQUIRED.update(SensitivityAtSpecificity="min_specificity", SpecificityAtSensitivity="min_sensitivity")
REQUIRED.update(TPRAtFPR="max_fpr")


def made(name, **settings):
    return getattr(fm, name)(**({REQUIRED[name]: 0.5} if name in REQUIRED else {}), **settings)


#: Metrics that need the number of classes, whose axis is the second one.
OF_PIXELS = {"BoundaryF", "Dice", "FrequencyWeightedIoU", "HausdorffDistance", "MeanIoU", "PixelAccuracy"}


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", OF_CLASSES)
@pytest.mark.parametrize(
    "scores", [SCORES, LOGITS, UNNORMALISED, SCORES[:3]], ids=["sum to 1", "logits", "others", "3"]
)
def test_every_other_metric_of_classes_refuses_them(name, scores):
    settings = inspect.signature(getattr(fm, name)).parameters
    given = [*([] if name in OF_PIXELS else [{}]), *([{"num_classes": K}] if "num_classes" in settings else [])]
    given += [{"from_logits": True}] if "from_logits" in settings else []
    for arguments in given:
        for dtype in (float, int, bool):
            metric = made(name, **arguments)
            with pytest.raises(fm.InvalidInputError, match=REFUSES):
                metric.add(scores, ONE_HOT[: len(scores)].astype(dtype))
            assert not metric.holds_samples()


def test_the_catalogue_of_the_refusing_is_complete():
    assert {"AUC", "LogLoss", "F1", "ExpectedCalibrationError", "BrierScore", "ExactAUC", "HingeLoss"} <= set(
        OF_CLASSES
    )
    assert len(OF_CLASSES) > 30


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", ["AUC", "F1", "LogLoss", "AveragePrecision", "ExactMatch", "ConfusionMatrix"])
def test_several_labels_of_a_sample_keep_their_meaning(name):
    metric, again = (getattr(fm, name)(num_labels=K) for _ in range(2))
    metric.add(SCORES, ONE_HOT)
    again.add(SCORES, ONE_HOT.astype(bool))
    assert np.array_equal(metric.compute(), again.compute())
    told = fm.MetricCollection({"f1": fm.F1(num_labels=K), "accuracy": fm.Accuracy()})
    told.add(SCORES, ONE_HOT)
    assert told.compute()["accuracy"] == ((SCORES > 0.5) == ONE_HOT).mean()


@pytest.mark.parametrize("mode", MODES)
def test_the_way_out_works_and_entries_stay_samples(mode):
    flat = value(fm.LogLoss(), SCORES.reshape(-1), ONE_HOT.reshape(-1), mode=mode)
    assert flat > 0
    label = RNG.integers(0, 2, (N, K))
    assert value(fm.Accuracy(), UNNORMALISED, label, mode=mode) == ((UNNORMALISED > 0.5) == label).mean()
    classes = RNG.integers(0, 3, (2, N, K))
    assert value(fm.Accuracy(), *classes, mode=mode) == (classes[0] == classes[1]).mean()
    assert value(fm.Accuracy(num_classes=3), *classes, mode=mode) == (classes[0] == classes[1]).mean()


@pytest.mark.numpy_only
def test_entries_with_a_mask_or_a_weight_of_their_own_are_samples():
    for more in ({"mask": np.ones((N, K), bool)}, {"weight": np.ones((N, K))}):
        metric = fm.AUC(tolerance=None)
        metric.add(SCORES, ONE_HOT, **more)
        flat = fm.AUC(tolerance=None)
        flat.add(SCORES.reshape(-1), ONE_HOT.reshape(-1))
        assert metric.compute() == flat.compute()


@pytest.mark.numpy_only
def test_one_positive_among_the_candidates_of_a_user_is_no_class():
    metric = fm.GAUC()
    metric.add(SCORES, ONE_HOT, user=np.arange(N))
    assert 0 < metric.compute() < 1
    error = fm.MeanAbsoluteError()
    error.add(SCORES, ONE_HOT)
    assert error.compute() == np.abs(SCORES - ONE_HOT).mean()


@pytest.mark.numpy_only
def test_predicted_classes_that_are_one_hot_too_are_read_so_if_they_are_many():
    predicted = np.eye(K, dtype=int)[SCORES.argmax(1)]
    assert value(fm.Accuracy(), predicted, ONE_HOT.astype(int)) == TRUTH
    few = predicted[:2], ONE_HOT[:2].astype(int)
    assert value(fm.Accuracy(), *few) == (few[0] == few[1]).mean()


@pytest.mark.numpy_only
def test_a_few_rows_that_may_be_classes_or_not_are_refused_and_both_ways_are_told():
    with pytest.raises(
        fm.InvalidInputError, match=r"may be one-hot: each of its 5 rows.*argmax.*num_labels=4.*reshape\(-1\)"
    ):
        fm.Accuracy().add(UNNORMALISED[:5], ONE_HOT[:5])
    assert value(fm.Accuracy(num_classes=K), UNNORMALISED[:3], ONE_HOT[:3]) in (0, 1 / 3, 2 / 3, 1)


@pytest.mark.numpy_only
def test_two_rows_may_have_a_single_1_by_chance():
    for make in (fm.Accuracy, fm.LogLoss):
        flat = value(make(), UNNORMALISED[:2].reshape(-1), ONE_HOT[:2].reshape(-1))
        assert value(make(), UNNORMALISED[:2], ONE_HOT[:2]) == flat


@pytest.mark.numpy_only
def fed(metric, scores, label, *sizes):
    """The metric with batches of these sizes."""
    for stop, size in zip(np.cumsum(sizes), sizes):
        metric.add(scores[stop - size : stop], label[stop - size : stop])
    return metric


def test_a_last_batch_of_few_rows_is_what_the_earlier_batches_were():
    assert fed(fm.Accuracy(), UNNORMALISED, ONE_HOT, 61, 2, 1).compute() == TRUTH
    saturated = np.where(np.arange(N)[:, None] < 61, SCORES, np.eye(K)[SCORES.argmax(1)])
    assert fed(fm.Accuracy(), saturated, ONE_HOT, 61, 3).compute() == TRUTH
    labels = np.where(np.arange(N)[:, None] < 40, RNG.random((N, K)) < 0.4, ONE_HOT)
    entries = value(fm.F1(), UNNORMALISED.reshape(-1), labels.reshape(-1))
    for last in (1, 3, 8, 24):
        assert fed(fm.F1(), UNNORMALISED, labels, 40, *[last] * (24 // last)).compute() == entries


def test_batches_of_one_data_set_that_differ_are_refused_until_a_reset():
    metric = fed(fm.Accuracy(), SCORES, ONE_HOT, 32)
    with pytest.raises(fm.InvalidInputError, match=r"those of earlier batches were one-hot.*row 1 .* 0 entries of 1"):
        metric.add(SCORES[:2], np.array([ONE_HOT[0], np.zeros(K)]))
    assert metric.compute() == value(fm.Accuracy(), SCORES[:32], CLASS[:32])
    metric.reset()
    metric.add(UNNORMALISED[:2], ONE_HOT[:2])
    with pytest.raises(fm.InvalidInputError, match=r"label is one-hot.*2 rows of earlier batches counted as entries"):
        metric.add(UNNORMALISED, ONE_HOT)
    metric.reset()
    metric.add(UNNORMALISED[:1], np.zeros((1, K)))
    with pytest.raises(fm.InvalidInputError, match=r"label is one-hot.*Rows of earlier batches counted as entries"):
        metric.add(SCORES, ONE_HOT)
    metric.reset()
    metric.add(SCORES, ONE_HOT)
    assert metric.compute() == TRUTH


@pytest.mark.parametrize("size", [1, 3])
def test_many_small_batches_that_may_be_classes_are_refused_as_one_large_batch_is(size):
    metric = fm.LogLoss()
    with pytest.raises(fm.InvalidInputError, match=r"may be one-hot.*So have all 15 rows of earlier batches"):
        fed(metric, UNNORMALISED, ONE_HOT, *[size] * (N // size))
    expected = value(fm.LogLoss(), UNNORMALISED[:15].reshape(-1), ONE_HOT[:15].reshape(-1))
    assert metric.compute() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_few_rows_of_predicted_entries_are_no_probabilities_of_classes(mode):
    rows = np.eye(K)[[2, 1]], np.eye(K)[[2, 3]]
    assert value(fm.F1(), *rows, mode=mode) == 0.5
    assert value(fm.Accuracy(), *rows, mode=mode) == 0.75


def test_accuracy_of_two_classes_by_name_refuses_one_hot_rows_of_several():
    with pytest.raises(fm.InvalidInputError, match=REFUSES):
        value(fm.Accuracy(task="binary"), SCORES, ONE_HOT)


def test_a_metric_beside_accuracy_that_compares_entries_tells_that_the_labels_are_one_hot():
    both = fm.MetricCollection({"accuracy": fm.Accuracy(), "error": fm.MeanAbsoluteError()})
    with pytest.raises(fm.InvalidInputError, match="one-hot"):
        value(both, SCORES, ONE_HOT)


@pytest.mark.parametrize("place", [0, 7])
@pytest.mark.parametrize("row", [[0, 0, 0, 0], [1, 1, 0, 0]])
def test_one_row_that_is_not_one_hot_is_named(row, place):
    label = ONE_HOT.copy()
    label[place] = row
    for metric in (fm.Accuracy(), fm.F1()):
        with pytest.raises(fm.InvalidInputError, match=rf"not one-hot: row {place} of .* has {sum(row)} entr.*argmax"):
            metric.add(SCORES, label)
    masked = value(fm.Accuracy(), SCORES, label, None, np.arange(N) != place)
    assert masked == np.delete(SCORES.argmax(1) == CLASS, place).mean()


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("shapes", [((N,), (N, K)), ((N, 1), (N, K)), ((N, K), (N, 1, K))])
def test_labels_of_another_shape_than_the_prediction_are_told_too(shapes, mode):
    prediction = SCORES.reshape(shapes[0]) if shapes[0] == SCORES.shape else CLASS.reshape(shapes[0])
    with pytest.raises(
        fm.InvalidInputError, match=r"label has shape .*of one-hot labels give label\.argmax\(axis=-1\)"
    ):
        value(fm.Accuracy(), prediction, ONE_HOT.reshape(shapes[1]), mode=mode)


# -- where values cannot be read in add -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("make", [fm.Accuracy, fm.AUC, fm.LogLoss, fm.F1, fm.ExpectedCalibrationError, fm.BrierScore])
def test_a_static_program_leaves_them_out_and_compute_raises(make, dtype):
    for scores, rows in ((SCORES, N), (SCORES, 3), (UNNORMALISED, N)):
        with pytest.raises(fm.InvalidInputError, match=DEFERRED):
            value(make(), scores[:rows], ONE_HOT[:rows].astype(dtype), mode="static")


def test_a_static_program_knows_the_rows_that_count():
    mask = np.arange(N) != 7
    label = np.where(mask[:, None], ONE_HOT, 1.0)
    with pytest.raises(fm.InvalidInputError, match=DEFERRED):
        value(fm.AUC(), SCORES, label, None, mask, mode="static")
    dense = (8, 8, K)
    with pytest.raises(fm.InvalidInputError, match=DEFERRED):
        value(fm.AUC(), SCORES.reshape(dense), ONE_HOT.reshape(dense), mode="static")
    none = value(fm.Accuracy(), SCORES, ONE_HOT, None, np.zeros(N, bool), mode="static")
    assert np.isnan(none)


def test_a_static_program_counts_entries_that_are_no_rows():
    label = RNG.integers(0, 2, (N, K))
    for make in (fm.Accuracy, fm.LogLoss):
        assert value(make(), UNNORMALISED, label, mode="static") == pytest.approx(value(make(), UNNORMALISED, label))
    classes = np.eye(K, dtype=int)[CLASS], np.eye(K, dtype=int)[::-1][CLASS]
    assert value(fm.Accuracy(), *classes, mode="static") == (classes[0] == classes[1]).mean()
    few = UNNORMALISED[:3], ONE_HOT[:3]  # by chance, perhaps: a program cannot ask
    assert value(fm.Accuracy(), *few, mode="static") == ((few[0] > 0.5) == few[1]).mean()
    flat = value(fm.LogLoss(num_labels=K), SCORES, ONE_HOT, mode="static")
    assert flat == pytest.approx(value(fm.LogLoss(num_labels=K), SCORES, ONE_HOT))
