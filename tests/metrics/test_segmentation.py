"""Segmented images: absent classes, values of images, and counting without a batch."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import fleetmetrics as fm
from fleetmetrics.metrics import task
from tests.contract import Data, feed, state_bytes

CLASSES = 4
MEASURES = [fm.MeanIoU, fm.Dice, fm.PixelAccuracy]
EACH = "ignore:.* of class .* undefined:fleetmetrics.UndefinedMetricWarning"


def digits(pictures: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Pixels that are background, faint or ink, and those of the next picture as predictions; class 3 is absent."""
    label = np.digitize(load_digits().images[:pictures], [1, 8])
    return np.roll(label, 1, axis=0), label


def by_class(p: np.ndarray, y: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    right, true, found = (np.array([(x == c).sum() for c in range(CLASSES)]) for x in (p[p == y], y, p))
    return {"MeanIoU": (right, true + found - right), "Dice": (2 * right, true + found), "PixelAccuracy": (right, true)}


@pytest.mark.numpy_only
@pytest.mark.parametrize("kind", MEASURES, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings(EACH)
def test_an_absent_class_is_left_out_or_has_the_value_that_is_given(kind: Any):
    p, y = digits()
    above, below = by_class(p, y)[kind.__name__]
    present = above[:3] / below[:3]
    for absent, values in ((None, [*present, np.nan]), (1, [*present, 1]), (0.25, [*present, 0.25])):
        make = functools.partial(kind, num_classes=CLASSES, absent=absent)
        of_each, mean = make(average=None), make(average="macro")
        for metric in (of_each, mean):
            metric.add(p, y)
        np.testing.assert_allclose(of_each.compute(), values, rtol=1e-15)
        assert mean.compute() == pytest.approx(np.nanmean(values), rel=1e-15)


@pytest.mark.parametrize("mode", ["numpy", "dynamic", "static"])
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("kind", MEASURES, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore:accuracy of class:fleetmetrics.UndefinedMetricWarning")
def test_the_value_by_image_is_the_mean_over_the_images_that_have_pixels(kind: Any, average: str, mode: str):
    p, y = digits(6)
    y[2], y[3, :4] = 255, 255
    make = functools.partial(kind, num_classes=CLASSES, average=average, ignore_index=255, absent=0.5)
    values = []
    for place in (0, 1, 3, 4, 5):
        values.append(make())
        values[-1].add(p[place : place + 1], y[place : place + 1])
    metric = make(per="image", name="of_images")
    scope = feed(metric, [Data(p[:3], y[:3]), Data(p[3:], y[3:])], mode)
    assert metric.compute(scope) == pytest.approx(np.mean([value.compute() for value in values]), rel=1e-12)


@pytest.mark.numpy_only
@pytest.mark.parametrize("ignore_index", [None, 255, -1, [2, 255], -(2**40)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint64"])
def test_arrays_of_classes_are_counted_as_a_batch_of_them_is(dtype: str, ignore_index: Any, monkeypatch: Any):
    monkeypatch.setattr(task, "_BLOCK", 100)
    p, y = digits()
    if ignore_index is not None and np.min(ignore_index) >= 0:
        y[:, 0] = np.max(ignore_index)
    plain, batch = (fm.MeanIoU(num_classes=CLASSES, ignore_index=ignore_index, name="iou") for _ in range(2))
    for _ in range(2):
        plain.add(p.astype(dtype), y.astype(dtype))
        batch.add(p, y, mask=np.ones(len(y), bool))
    assert state_bytes(plain) == state_bytes(batch)
    assert plain._add_plain(p.astype(dtype), y.astype(dtype)) == (ignore_index != -(2**40))


@pytest.mark.numpy_only
@pytest.mark.parametrize("wrong", ["prediction", "label"])
def test_what_is_no_class_is_counted_and_located_and_nothing_is_added(wrong: str):
    p, y = digits()
    (p if wrong == "prediction" else y)[3, 1, 2] = 9
    metric = fm.MeanIoU(num_classes=CLASSES, ignore_index=255)
    with pytest.raises(fm.InvalidInputError, match=rf"{wrong} must be a class.*the first at position \[3, 1, 2\]: 9"):
        metric.add(p, y)
    assert not metric.state_dict() or not any(np.any(value) for value in metric.states["confusion"].read())
    for per in ("dataset", "image"):
        unchecked = fm.PixelAccuracy(num_classes=CLASSES, per=per, validate=False)
        unchecked.add(p[3:4], y[3:4])
        keep = (p[3] < CLASSES) & (y[3] < CLASSES)
        assert unchecked.compute() == pytest.approx((p[3] == y[3])[keep].mean(), rel=1e-15)


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "settings, told",
    [
        ({"absent": 2}, "absent must be a number from 0 to 1, not 2"),
        ({"per": "images"}, "per must be one of 'dataset', 'image', not 'images'"),
        ({"per": "image", "average": None}, "average=None needs per='dataset'"),
        ({"average": "binary"}, "average must be"),
        ({"num_classes": 1}, "num_classes must be an integer of at least 2"),
    ],
)
def test_settings_that_mean_nothing_are_errors(settings: Any, told: str):
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.Dice(**{"num_classes": CLASSES, **settings})


@pytest.mark.numpy_only
def test_by_image_a_mask_of_pixels_is_an_error_and_masks_and_weights_of_images_count():
    p, y = digits()
    metric = fm.Dice(num_classes=CLASSES, per="image")
    with pytest.raises(fm.InvalidInputError, match="mask has one entry per element"):
        metric.add(p, y, mask=y > 0)
    metric.add(p[:3], y[:3], weight=[1, 2, 0], mask=[True, True, True])
    for flat in (p[0], p.reshape(-1)):
        with pytest.raises(fm.InvalidInputError, match=r"label must be images \[n, height, width\].*not of shape \["):
            metric.add(flat, flat)
    each = [fm.Dice(num_classes=CLASSES) for _ in range(2)]
    for place, one in enumerate(each):
        one.add(p[place : place + 1], y[place : place + 1])
    assert metric.compute() == pytest.approx((each[0].compute() + 2 * each[1].compute()) / 3, rel=1e-14)


@pytest.mark.numpy_only
@pytest.mark.parametrize("kind", [*MEASURES, fm.BoundaryF], ids=lambda kind: kind.__name__)
def test_one_hot_images_with_the_classes_last_are_no_volumes(kind: Any):
    p, y = (np.eye(CLASSES)[image] for image in digits())
    for cast in (int, float, bool):
        metric = kind(num_classes=CLASSES)
        with pytest.raises(fm.InvalidInputError, match=r"label is one-hot, which .*Give label\.argmax\(axis=-1\)"):
            metric.add(p.astype(cast), y.astype(cast))
        assert not metric.holds_samples()
    metric.add(digits()[0][:, None], digits()[1][:, None])  # slices of volumes


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "wrap",
    [
        lambda metric: fm.Sliced(metric, by="key"),
        lambda metric: fm.Sliced(metric, by="key", keys=[0, 1]),
        lambda metric: fm.Bootstrap(metric, ids="key", replicates=3),
        lambda metric: fm.Interval(metric, ids="key"),
    ],
    ids=["slices", "known slices", "bootstrap", "interval"],
)
def test_a_key_for_each_pixel_is_an_error_for_the_values_of_images(wrap: Any):
    p, y = digits()
    for metric in (fm.Dice(num_classes=CLASSES, per="image"), fm.BoundaryF(num_classes=CLASSES)):
        both = fm.MetricCollection({"plain": type(metric)(**metric.settings()), "by key": wrap(metric)})
        with pytest.raises(fm.InvalidInputError, match="key has one entry per element; a metric of whole rows"):
            both.add(p, y, key=y)
        both.add(p, y, key=y[:, 0, 0])
    by_pixel = wrap(fm.Accuracy(num_classes=CLASSES, class_axis=1))
    by_pixel.add(p, y, key=y)


@pytest.mark.numpy_only
@pytest.mark.parametrize("make", [functools.partial(fm.Dice, per="image"), fm.BoundaryF])
def test_images_are_drawn_whole_also_where_a_batch_is_cut_into_parts(make: Any, monkeypatch: Any):
    p, y = digits()
    metrics = [fm.Bootstrap(make(num_classes=CLASSES), ids="image", replicates=5) for _ in range(2)]
    metrics[0].add(p, y, image=range(12))
    monkeypatch.setattr("fleetmetrics.wrappers.bootstrap._AT_ONCE", 1)
    metrics[1].add(p, y, image=range(12))
    one, other = (metric.compute() for metric in metrics)
    np.testing.assert_allclose(one.replicates, other.replicates, rtol=1e-12)


@pytest.mark.numpy_only
def test_members_of_a_collection_share_one_matrix():
    settings: Any = {"num_classes": CLASSES, "ignore_index": 255}
    kinds = [*MEASURES, fm.FrequencyWeightedIoU]
    metrics = fm.MetricCollection({kind.__name__: kind(**settings) for kind in kinds})
    metrics.add(*digits())
    assert len({id(metric.states["confusion"]) for metric in metrics.values()}) == 1


def square(*corner: int) -> np.ndarray:
    image = np.zeros((1, 12, 12), int)
    image[0, corner[0] : corner[0] + 4, corner[1] : corner[1] + 4] = 1
    return image


@pytest.mark.numpy_only
def test_a_segment_that_is_missed_has_no_boundary_f_and_is_as_far_as_the_image_is_wide():
    truth, nothing = square(2, 3), np.zeros((1, 12, 12), int)
    for pair in ((truth, nothing), (nothing, truth)):
        metrics = [
            fm.BoundaryF(num_classes=2),
            *(fm.HausdorffDistance(num_classes=2, missed=far) for far in (None, 50)),
        ]
        for metric in metrics:
            metric.add(*pair)
        assert [metric.compute() for metric in metrics] == [0, pytest.approx(11 * 2**0.5), 50]
    empty = fm.BoundaryF(num_classes=2)
    empty.add(nothing, nothing)
    with pytest.warns(fm.UndefinedMetricWarning, match="no image has a pixel of these classes"):
        assert np.isnan(empty.compute())
    empty.add(truth, truth)  # an image without a segment does not count
    assert empty.compute() == 1


@pytest.mark.numpy_only
def test_boundaries_of_volumes_and_of_the_background_are_measured():
    volume = np.zeros((1, 6, 6, 6), int)
    volume[0, 1:4, 1:4, 1:4] = 1
    metric = fm.HausdorffDistance(num_classes=2)
    metric.add(np.roll(volume, 1, axis=3), volume)
    assert metric.compute() == 1
    whole = fm.HausdorffDistance(num_classes=2, classes=[0])
    whole.add(square(2, 3), square(2, 5))
    assert whole.compute() == 2 and whole.settings()["classes"] == (0,)


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "settings, told",
    [
        ({"classes": [2]}, r"classes must be numbers from 0 to 1, not \[2\]"),
        *(
            ({"classes": wrong}, "classes must be numbers")
            for wrong in ([], True, 1, "1", [0.5], [None], [[1], [0, 1]])
        ),
        ({"tolerance": -1}, "tolerance must be a finite number of at least 0, not -1"),
        ({"percentile": 0.95}, "percentile must be a number from 1 to 100, not 0.95"),
    ],
)
def test_settings_of_boundaries_that_mean_nothing_are_errors(settings: Any, told: str):
    with pytest.raises(fm.InvalidInputError, match=told):
        (fm.HausdorffDistance if "percentile" in settings else fm.BoundaryF)(num_classes=2, **settings)


@pytest.mark.numpy_only
def test_a_missing_number_of_classes_is_named_and_a_class_of_a_user_may_give_it():
    for kind in (*MEASURES, fm.FrequencyWeightedIoU, fm.BoundaryF, fm.HausdorffDistance):
        with pytest.raises(fm.MissingArgumentError, match=f"{kind.__name__} needs num_classes"):
            kind(ignore_index=255)

    class Ours(fm.MeanIoU):
        def __init__(self, **settings: Any) -> None:
            super().__init__(num_classes=CLASSES, **settings)

    assert Ours(ignore_index=255).task.size == CLASSES


@pytest.mark.numpy_only
def test_boundaries_need_images_and_scipy(monkeypatch: Any):
    metric = fm.BoundaryF(num_classes=2)
    with pytest.raises(fm.InvalidInputError, match=r"label must be images \[n, height, width\]"):
        metric.add([0, 1], [0, 1])
    monkeypatch.setitem(sys.modules, "scipy.ndimage", None)
    monkeypatch.setattr("fleetmetrics.support.optional._FOUND", {})
    with pytest.raises(fm.MissingLibraryError, match="pip install scipy"):
        metric.add(square(2, 3), square(2, 3))
    assert not metric.holds_samples()


def test_boundaries_in_a_static_program_are_an_error():
    metric = fm.HausdorffDistance(num_classes=2, name="far")
    with pytest.raises(fm.StaticProgramError, match="fetch prediction and label"):
        feed(metric, [Data(square(2, 3), square(2, 3))], "static")
