"""A batch: which shapes and dtypes fit together, and what the error says where they do not."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

from fleetmetrics import FleetMetricsError, IntegerOverflowError, InvalidInputError
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement

N = 6
FORMS = {"numpy": np.asarray, "dynamic": paddle.to_tensor, "list": lambda array: array.tolist()}


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "prediction, label, flat",
    [
        ([N], [N], [N]),
        ([N, 1], [N], [N]),
        ([N], [N, 1], [N]),
        ([N, 1], [N, 1], [N]),
        ([], [], [1]),
        ([1], [], [1]),
        ([2, 3], [2, 3], [N]),
        ([2, 3, 1], [2, 3], [N]),
        ([2, 3, 4], [2, 3, 4], [24]),
        ([N, 3], [N], [N, 3]),
        ([N, 3], [N, 1], [N, 3]),
        ([2, 3, 4], [2, 3], [N, 4]),
        ([2, 3, 4], [2, 3, 1], [N, 4]),
        ([N, 1, 4], [N, 1], [N, 4]),
        ([N, 1, 4], [N, 1, 1], [N, 4]),
        ([4], [], [1, 4]),
        ([N], None, [N]),
        ([2, 3], None, [N]),
        ([0], [0], [0]),
        ([0, 3], [0], [0, 3]),
    ],
)
def test_shapes_that_fit_come_out_flat(prediction, label, flat, form):
    if form == "list" and flat == [0, 3]:
        flat = [0]  # a list of nothing has lost its second axis
    make = FORMS[form]
    batch = Batch(make(zeros(*prediction)), None if label is None else make(zeros(*label)))
    assert list(batch.prediction.shape) == flat
    assert label is None or list(batch.label.shape) == flat[:1]


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
@pytest.mark.parametrize(
    "prediction, label",
    [
        ([N], [N + 1]),
        ([N, 1], [N + 1]),
        ([2, 3], [3, 2]),
        ([N, 3], [N + 1]),
        ([2, 3], [3]),
        ([2, 3, 4], [2, 4]),
        ([], [2]),
    ],
)
def test_shapes_that_do_not_fit_are_an_error_that_names_both(prediction, label, form):
    make = FORMS[form]
    with pytest.raises(
        InvalidInputError, match=r"label has shape .* but prediction has .*; they must be equal"
    ) as error:
        Batch(make(zeros(*prediction)), make(zeros(*label)))
    assert isinstance(error.value, FleetMetricsError)


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
@pytest.mark.parametrize("argument", ["weight", "mask"])
@pytest.mark.parametrize("shape", [[N + 1], [N, 2], [1, N, 1], [2, 3]])
def test_a_weight_or_mask_that_does_not_fit_is_an_error_that_names_it(argument, shape, form):
    make = FORMS[form]
    with pytest.raises(InvalidInputError, match=rf"{argument} has shape \[.*\] but prediction has \[6\]"):
        Batch(make(zeros(N)), make(zeros(N)), **{argument: make(zeros(*shape))})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [[], [2], [2, 1], [2, 3], [2, 3, 1]])
def test_weights_come_by_batch_by_row_or_by_element(shape, form):
    rows = np.arange(6.0).reshape(2, 3) if len(shape) > 1 and shape[1] == 3 else np.array([[2.0], [5.0]])
    weight = np.array(3.0) if shape == [] else rows.reshape(shape)
    batch = Batch(FORMS[form](zeros(2, 3)), weight=FORMS[form](weight))
    expected = np.broadcast_to(3.0 if shape == [] else rows, (2, 3)).reshape(-1)
    np.testing.assert_array_equal(np.asarray(batch.weight), expected)


@pytest.mark.parametrize("argument", ["prediction", "label", "weight", "mask"])
@pytest.mark.parametrize(
    "value, told",
    [
        (["a", "b"], r"must hold .*, not strings such as 'a' \(given a"),
        ([1j, 2j], r"must hold .*, not complex numbers such as 1j"),
        ([None, None], r"must hold .*, not objects such as None"),
        (np.array(["2020"], "datetime64[D]"), r"must hold .*, not times such as 2020-01-01"),
        ([[1, 2], [3]], "has no rectangular array form"),
        ({"a": 1}, r"must hold .*, not object"),
    ],
)
def test_an_argument_that_is_not_a_number_is_named(argument, value, told):
    given = {"prediction": [0.5, 0.5], "label": [0, 1], argument: value}
    with pytest.raises(InvalidInputError, match=f"^{argument} {told}"):
        Batch(**given)


@pytest.mark.parametrize("argument", ["prediction", "label", "weight", "mask"])
def test_an_integer_that_int64_cannot_hold_is_an_error_that_gives_it(argument):
    given = {"prediction": [0.5, 0.5], argument: np.array([1, 2**64 - 1], np.uint64)}
    told = rf"^{argument} holds 18446744073709551615; the largest integer allowed is 2\*\*63 - 1"
    with pytest.raises(IntegerOverflowError, match=told):
        Batch(**given)


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
def test_narrow_dtypes_are_widened_without_loss(form):
    for dtype in ["float16", "int8", "uint8", "int16", "int32", "bool"]:
        array = np.array([0, 1]).astype(dtype)
        batch = Batch(FORMS[form](array), FORMS[form](array))
        assert np.asarray(batch.values).tolist() == np.asarray(batch.targets).tolist() == [0.0, 1.0]
        assert str(np.asarray(batch.values).dtype) == "float64"


def test_bfloat16_is_accepted_and_reported_as_a_number():
    tensor = paddle.to_tensor([0.5, float("nan")], dtype="bfloat16")
    batch = Batch(tensor)
    with pytest.raises(InvalidInputError, match="1 of 2 samples is not, the first at position 1: nan"):
        batch.check(["finite_prediction"], validate=True)
    assert np.asarray(Batch(tensor[:1]).values).tolist() == [0.5]


def test_a_tensor_that_needs_a_gradient_leaves_no_graph_behind():
    tensor = paddle.to_tensor([0.25, 0.5], stop_gradient=False) * 2
    batch = Batch(tensor, paddle.to_tensor([0.0, 1.0]))
    assert batch.weighted_sum(batch.values).stop_gradient


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
def test_sums_of_flags_and_integers_are_int64_and_of_floats_float64(form):
    make = FORMS[form]
    for dtype, expected in [("bool", "int64"), ("int32", "int64"), ("float32", "float64"), ("float64", "float64")]:
        batch = Batch(make(np.ones(4, dtype)))
        assert str(np.asarray(batch.weighted_sum(batch.prediction)).dtype) == expected
        assert str(np.asarray(batch.total).dtype) == "int64"
        weighted = Batch(make(np.ones(4, dtype)), weight=0.5)
        assert np.asarray(weighted.weighted_sum(weighted.prediction)).item() == np.asarray(weighted.total).item() == 2.0


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
def test_a_float32_sum_of_many_samples_does_not_stop_at_2_to_24(form):
    batch = Batch(FORMS[form](np.array([2**24, 1, 1, 1], np.float32)))
    assert np.asarray(batch.weighted_sum(batch.prediction)).item() == 2**24 + 3


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
@pytest.mark.parametrize("drop", ["mask", "weight"])
def test_a_dropped_sample_may_hold_anything(drop, form):
    make = FORMS[form]
    array = np.array([0.5, np.nan, np.inf, 0.25])
    batch = Batch(make(array), make(array), **{drop: make(np.array([1, 0, 0, 1]))})
    batch.check(["finite_prediction", "finite_label"], validate=True)
    assert np.asarray(batch.weighted_sum(batch.values)).item() == 0.75
    assert np.asarray(batch.total).item() == 2


@pytest.mark.parametrize("drop", ["mask", "weight"])
@pytest.mark.parametrize("kept, left_out", [([1, 0, 1], True), ([1, 1, 1], False)])
def test_a_batch_knows_whether_samples_were_left_out(drop, kept, left_out):
    """A metric warns of padding that it counts: not of what a weight of 0 leaves out."""
    batch = Batch(np.array([0.5, 0.0, 1.0]), **{drop: np.array(kept)})
    batch.check(["finite_prediction"], validate=True)
    assert batch.left_some_out is left_out
    tensors = Batch(paddle.to_tensor([0.5, 0.0, 1.0]), **{drop: paddle.to_tensor(kept)})
    assert tensors.left_some_out is (left_out or drop == "mask")  # a device is not asked what a mask holds


@pytest.mark.parametrize("name", ["finite_label", "class_label"])
def test_a_missing_label_is_an_error_that_says_how_to_give_it(name):
    with pytest.raises(InvalidInputError, match=r"label is missing; give add\(prediction, label\)"):
        Batch([0.5]).check([name], validate=True)


def test_scores_of_classes_are_no_numbers_to_compare():
    batch = Batch(zeros(N, 3), zeros(N))
    with pytest.raises(InvalidInputError, match=r"prediction has shape \[n, 3\] and label \[n\].*give both the same"):
        batch.values  # noqa: B018


def test_a_statistic_is_computed_once_per_batch_and_setting():
    calls = []

    @statistic
    def power(batch: Batch, exponent: int) -> float:
        calls.append(exponent)
        return batch.values.sum() ** exponent

    batch = Batch([1.0, 2.0])
    assert [power(batch, 2), power(batch, 2), power(batch, 3)] == [9.0, 9.0, 27.0]
    assert power(Batch([2.0]), 2) == 4.0
    assert calls == [2, 3, 2]


def test_cached_values_of_a_requirement_are_dropped_with_samples():
    below = Requirement("prediction", "below 5", lambda batch: (batch.values < 5) & (batch.number > 0))
    batch = Batch([1.0, 9.0, 3.0, 4.0], [0, 1, 1, 0], mask=[1, 0, 1, 1])
    batch.check([below], True)
    assert batch.number == 3
    assert batch.values.tolist() == [1.0, 3.0, 4.0] and batch.targets.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("form", ["numpy", "dynamic"])
def test_cached_statistics_lose_dropped_samples(form):
    make = FORMS[form]
    batch = Batch(make(np.eye(3)), make(np.array([0, 1, 2])), mask=make(np.array([True, False, True])))
    best = batch.once("best", lambda: batch.of_rows(batch.xp.highest_of_rows))
    assert np.asarray(best).tolist() == [0, 1, 2]
    batch.check([], validate=True)
    again = batch.once("best", lambda: pytest.fail("it was made twice"))
    assert np.asarray(again).tolist() == ([0, 2] if form == "numpy" else [0, 0, 2])
