"""What data samples and calculate may be given, as NumPy arrays."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.metrics.inputs import best, is_among_best, to_array
from tests.evaluator.metrics.given import Torch


class Bfloat16:
    """A torch tensor of bfloat16, which NumPy does not have."""

    dtype = "torch.bfloat16"

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Torch(np.array([0.5], np.float32)).cpu()

    def numpy(self):
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize(
    "value, dtype",
    [
        (np.array([0.5]), "float64"),
        (np.array([0.5], np.float16), "float32"),
        (paddle.to_tensor([0.5], "float32"), "float32"),
        (paddle.to_tensor([0.5], "float64"), "float64"),
        (paddle.to_tensor([0.5], "bfloat16"), "float32"),
        (Torch(np.array([0.5], np.float32)), "float32"),
        (Bfloat16(), "float32"),
        ([0.5], "float64"),
        ((np.float32(0.5),), "float32"),
        ([paddle.to_tensor(0.5, "float32")], "float32"),
        ([Torch(np.array(0.5))], "float64"),
    ],
)
def test_one_half_in_every_form(value, dtype):
    array = to_array(value)
    assert array.dtype == dtype
    assert array.tolist() == [0.5]


def test_numbers_have_no_dimension():
    for value in (3, np.int32(3), True, np.bool_(True), paddle.to_tensor(3)):
        assert to_array(value).shape == ()


@pytest.mark.parametrize("value", ["a", b"a", {}, {1}, None, object(), iter([1])])
def test_other_things_are_a_type_error(value):
    with pytest.raises(TypeError, match=r"^gt_label must hold numbers .*, not .* is not an available argument$"):
        to_array(value, "gt_label")


@pytest.mark.parametrize("value", [[[1], [1, 2]], ["a"], [None], np.array([1j]), [10**30]])
def test_what_holds_no_numbers_is_named(value):
    with pytest.raises(InvalidInputError, match=r"^pred "):
        to_array(value, "pred")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3, 8, 9])
def test_the_best_are_those_of_a_stable_sort(k, seed):
    score = np.random.default_rng(seed).integers(0, [2, 5, 10**6][seed], (200, 8)).astype(np.float32)
    expected = np.argsort(-score, axis=1, kind="stable")[:, :k]
    flags = np.zeros(score.shape, bool)
    np.put_along_axis(flags, expected, True, axis=1)
    np.testing.assert_array_equal(is_among_best(score, k), flags)
    if k <= 8:
        np.testing.assert_array_equal(best(score, k), expected)
