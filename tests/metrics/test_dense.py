"""Scores with one axis more than the label: of each token of a sequence, of each pixel of an image."""

from __future__ import annotations

import functools

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.batch import scores as blocks
from tests import contract
from tests.contract import Data, state_bytes

pytestmark = pytest.mark.filterwarnings("ignore:auc of class 0 is undefined:fleetmetrics.UndefinedMetricWarning")
CLASSES = 5
#: Each metric of scores, with what it takes: "logits", or "probabilities" of all classes.
METRICS = {
    "accuracy": (fm.Accuracy, "logits"),
    "accuracy among two": (functools.partial(fm.Accuracy, top_k=2), "logits"),
    "accuracy of classes": (functools.partial(fm.Accuracy, num_classes=CLASSES), "logits"),
    "confusion": (functools.partial(fm.ConfusionMatrix, num_classes=CLASSES), "logits"),
    "recall among two": (functools.partial(fm.Recall, num_classes=CLASSES, top_k=2), "logits"),
    "mean iou": (functools.partial(fm.Jaccard, num_classes=CLASSES, ignore_index=[1, 3]), "logits"),
    "log loss": (fm.LogLoss, "probabilities"),
    "log loss of logits": (functools.partial(fm.LogLoss, from_logits=True, ignore_index=2), "logits"),
    "hinge loss": (fm.HingeLoss, "logits"),
    "auc": (functools.partial(fm.AUC, num_classes=CLASSES, ignore_index=0), "probabilities"),
    "average precision": (functools.partial(fm.AveragePrecision, num_classes=CLASSES, from_logits=True), "logits"),
    "calibration": (functools.partial(fm.ExpectedCalibrationError, num_classes=CLASSES), "probabilities"),
}
SHAPE = (6, 4, 3)
LAYOUTS = {"last": (3, None), "first of the row": (1, 1), "between": (2, -2), "first of all": (0, 0)}


def drawn(takes: str, shape: tuple[int, ...] = SHAPE, classes: int = CLASSES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(takes))
    values = rng.normal(size=(*shape, classes)).round(1)
    if takes == "probabilities":
        values = np.exp(values) / np.exp(values).sum(axis=-1, keepdims=True)
    return values, rng.integers(0, classes, shape)


@pytest.fixture(params=["one block", "small blocks"])
def block(request, monkeypatch):
    if request.param == "small blocks":  # of rows, and of parts of rows
        monkeypatch.setattr(blocks, "_BLOCK", {True: 2 * CLASSES, False: 7 * CLASSES})


def given(mode: str, *arrays):
    return [each if mode == "numpy" or each is None else paddle.to_tensor(each) for each in arrays]


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", METRICS)
def test_dense_scores_leave_the_states_of_a_flat_batch(name, layout, mode, block):
    make, takes = METRICS[name]
    scores, label = drawn(takes)
    axis, class_axis = LAYOUTS[layout]
    rng = np.random.default_rng(0)
    by_row, by_place = rng.integers(1, 9, len(label)) / 8, rng.random(SHAPE) < 0.7
    dense, flat = make(class_axis=class_axis), make()
    for weight, mask in ((None, None), (by_row, None), (None, by_place), (by_place / 2, None), (None, by_row > 0.5)):
        each = [
            None if part is None else np.broadcast_to(part.T, SHAPE[::-1]).T if part.ndim == 1 else part
            for part in (weight, mask)
        ]
        dense.add(*given(mode, np.ascontiguousarray(np.moveaxis(scores, -1, axis)), label, weight, mask))
        flat.add(
            scores.reshape(-1, CLASSES),
            label.reshape(-1),
            *[part if part is None else part.reshape(-1) for part in each],
        )
    assert contract.same(dense.compute(), flat.compute(), exact=False)
    if name not in ("log loss", "log loss of logits", "hinge loss", "calibration"):
        assert state_bytes(dense) == state_bytes(flat)


@pytest.mark.parametrize("name", METRICS)
def test_a_static_program_takes_dense_scores_with_a_batch_size_that_is_open(name):
    make, takes = METRICS[name]
    scores, label = drawn(takes)
    mask = np.random.default_rng(0).random(SHAPE) < 0.7
    dense, flat = make(class_axis=1), make()
    data = Data(np.ascontiguousarray(np.moveaxis(scores, -1, 1)), label, None, mask)
    scope = contract.feed(dense, [data.rows(0, 4), data.rows(4, 6)], "static")
    flat.add(scores.reshape(-1, CLASSES), label.reshape(-1), mask=mask.reshape(-1))
    assert contract.same(dense.compute(scope), flat.compute(), exact=False)


@pytest.mark.parametrize("shape, given_label", [((6, 1), (6, 1)), ((6, 1), (6, 1, 1)), ((6, 4), (6, 4, 1)), ((), ())])
def test_axes_of_one_entry_are_read_correctly(shape, given_label):
    scores, label = drawn("logits", shape)
    metric = fm.Accuracy()
    metric.add(scores, label.reshape(given_label))
    assert metric.compute() == np.mean(scores.argmax(-1) == label)


def test_labels_of_images_may_keep_the_axis_of_the_classes():
    scores, label = drawn("logits")
    metric = fm.Accuracy(class_axis=1)
    metric.add(np.moveaxis(scores, -1, 1), label[:, None])
    metric.add(label, label)  # predicted classes
    assert metric.compute() == (np.mean(scores.argmax(-1) == label) + 1) / 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "bool"])
def test_narrow_scores_are_widened_block_by_block(dtype, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK", {True: 10, False: 10})
    scores, label = drawn("logits")
    scores = paddle.to_tensor(scores, dtype=dtype)
    metric = fm.Accuracy()
    metric.add(scores, label)
    if dtype != "bfloat16":
        metric.add(scores.numpy(), label)
    best = scores.astype("float32").numpy().argmax(-1)
    assert metric.compute() == np.mean(best == label)


@pytest.mark.numpy_only
def test_large_logits_are_not_copied():
    """Not even with a mask for each position: memory for a tenth of them would not do for a copy."""
    import tracemalloc

    scores = np.zeros((64, 2048, 64), np.float32)
    label, mask = np.zeros((64, 2048), np.int64), np.arange(64 * 2048).reshape(64, 2048) % 3 > 0
    for axis, class_axis in ((2, None), (1, 1)):
        dense = np.ascontiguousarray(np.moveaxis(scores, -1, axis))
        for make in (
            fm.Accuracy,
            functools.partial(fm.LogLoss, from_logits=True),
            functools.partial(fm.Accuracy, top_k=3),
        ):
            metric = make(class_axis=class_axis)
            tracemalloc.start()
            metric.add(dense, label, mask=mask)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 12e6 + label.nbytes * 2 < scores.nbytes / 2, (peak, scores.nbytes)


# -- settings ------------------------------------------------------------------------------------------


@pytest.mark.numpy_only
@pytest.mark.parametrize("class_axis", [1.0, "last", True, [1]])
def test_a_class_axis_that_is_no_number_is_an_error(class_axis):
    with pytest.raises(fm.InvalidInputError, match="class_axis must be the number of an axis"):
        fm.F1(num_classes=3, class_axis=class_axis)


@pytest.mark.numpy_only
@pytest.mark.parametrize("class_axis, told", [(4, "from -4 to 3"), (-5, "from -4 to 3")])
def test_a_class_axis_that_is_not_there_is_an_error_that_says_which_are(class_axis, told):
    scores, label = drawn("logits")
    metric = fm.Accuracy(class_axis=class_axis)
    with pytest.raises(
        fm.InvalidInputError,
        match=rf"prediction has shape \[6, 4, 3, 5\], and no axis {class_axis} for the classes; "
        rf"class_axis must be {told}",
    ):
        metric.add(scores, label)
    assert not metric.holds_samples()


@pytest.mark.numpy_only
def test_scores_that_do_not_fit_beside_their_class_axis_are_an_error_that_names_both_shapes():
    scores, label = drawn("logits")
    with pytest.raises(
        fm.InvalidInputError,
        match=r"label has shape \[6, 4, 3\] but prediction has \[6, 4, 3, 5\], with class_axis=1; without that axis "
        r"they must be equal: \[6, 3, 5\]",
    ):
        fm.Accuracy(class_axis=1).add(scores, label)


@pytest.mark.numpy_only
def test_members_of_a_collection_share_one_class_axis():
    scores, label = drawn("logits")
    together = fm.MetricCollection({"accuracy": fm.Accuracy(class_axis=1), "loss": fm.LogLoss(from_logits=True)})
    together.add(np.moveaxis(scores, -1, 1), label)
    alone = fm.LogLoss(from_logits=True)
    alone.add(scores, label)
    assert together.compute()["loss"] == pytest.approx(alone.compute(), rel=1e-12)
    with pytest.raises(fm.InvalidInputError, match=r"a has class_axis=1, b has class_axis=2; give each the same"):
        fm.MetricCollection([fm.Accuracy(class_axis=1, name="a"), fm.Accuracy(class_axis=2, name="b")])


@pytest.mark.numpy_only
def test_slices_take_keys_by_row_and_a_class_axis():
    scores, label = drawn("logits")
    metric = fm.Sliced(fm.Accuracy(class_axis=1), by="camera")
    metric.add(np.moveaxis(scores, -1, 1), label, camera=["a", "b"] * 3)
    right = scores.argmax(-1) == label
    assert metric.compute() == {"a": right[::2].mean(), "b": right[1::2].mean()}


@pytest.mark.numpy_only
@pytest.mark.parametrize("ignore_index", [[-100, 4], (4, -100), {-100, 4}, np.array([-100, 4])])
def test_several_labels_may_be_ignored(ignore_index):
    scores, label = drawn("logits")
    label[0] = -100
    for make in (fm.Accuracy, functools.partial(fm.Accuracy, num_classes=CLASSES)):
        metric = make(ignore_index=ignore_index)
        metric.add(scores, label)
        keep = (label != -100) & (label != 4)
        assert metric.compute() == np.mean((scores.argmax(-1) == label)[keep])
        metric.merge(metric.fresh())


@pytest.mark.numpy_only
def test_one_ignored_label_in_a_list_is_that_label():
    one, listed = fm.F1(num_classes=3, ignore_index=-1), fm.F1(num_classes=3, ignore_index=[-1])
    one.merge(listed)
    assert one.settings() == {**listed.settings()}


@pytest.mark.numpy_only
def test_metrics_of_several_tasks_share_the_number_of_labels_that_are_not_ignored():
    scores, label = drawn("logits")
    losses = {"log": fm.LogLoss(from_logits=True, ignore_index=2), "hinge": fm.HingeLoss(num_classes=5, ignore_index=2)}
    alone = {key: loss.fresh() for key, loss in losses.items()}
    together = fm.MetricCollection({**losses, "accuracy": fm.Accuracy(ignore_index=2)})
    together.add(scores, label)
    values = together.compute()
    for key, loss in alone.items():
        loss.add(scores, label)
        assert values[key] == loss.compute()
    assert len({id(loss.states["total"]) for loss in together.metrics.values()}) == 1


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("make", [fm.Accuracy, functools.partial(fm.ConfusionMatrix, num_classes=CLASSES)])
def test_a_label_outside_the_classes_is_counted_and_located(make, mode, block):
    scores, label = drawn("logits")
    label[2, 1, 0], label[4, 3, 2], label[0, 0, 0] = 9, 17, -100
    metric = make(ignore_index=-100)
    with pytest.raises(
        fm.InvalidInputError,
        match=r"label must be a class: .*, or ignore_index=-100; 2 of 72 samples are not, the first at position "
        r"\[2, 1, 0\]: 9\. None of this batch was added",
    ):
        metric.add(*given(mode, scores, label))
    assert not metric.holds_samples()


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_logits_in_the_place_of_probabilities_are_counted_and_located(mode, block):
    scores, label = drawn("probabilities")
    scores[3, 2] = np.log(scores[3, 2])
    with pytest.raises(
        fm.InvalidInputError,
        match=r"prediction must be probabilities in \[0, 1\] of all classes, which add up to 1 \(apply the softmax to "
        r"logits first\); 3 of 72 samples are not, the first at position \[3, 2, 0\]: \[-",
    ):
        fm.LogLoss().add(*given(mode, scores, label))


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_invalid_scores_are_counted_and_located(mode, block):
    scores, label = drawn("logits")
    scores[1, 1, 1, 1], scores[5, 3, 2, 0] = np.nan, np.inf
    with pytest.raises(
        fm.InvalidInputError, match=r"a finite number; 2 of 72 samples are not, the first at position \[1, 1, 1\]: \["
    ):
        fm.Accuracy().add(*given(mode, scores, label))


# -- with a sampler --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_padding_of_a_sampler_is_left_out_of_dense_scores(mode, block):
    scores, label = drawn("logits", (5, 4, 3))
    parts = []
    for rank in range(2):
        sampler = paddle.io.DistributedBatchSampler(range(5), 2, num_replicas=2, rank=rank)
        metric = fm.Accuracy(sampler=sampler)
        for places in sampler:
            metric.add(*given(mode, scores[places], label[places]))
        parts.append(metric)
    assert fm.merge_all(parts).compute() == np.mean(scores.argmax(-1) == label)
