"""Log-odds buckets: an integer function of the score, the same in NumPy, in dynamic mode and in a static program."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

from fleetmetrics import InvalidInputError
from fleetmetrics.xp import numpy_ops, paddle_ops
from fleetmetrics.xp.score_buckets import log_odds, lowest_scores, odds_bounds
from tests.contract import new_programs

pytestmark = pytest.mark.halved


def awkward(buckets: int, dtype: str) -> np.ndarray:
    """The ends, the smallest numbers, every bound and its neighbors in the dtype, and numbers between them."""
    bounds = lowest_scores(buckets, "log_odds").astype(dtype)
    zero, one = np.zeros(1, dtype), np.ones(1, dtype)
    tiny = [np.finfo(dtype).tiny, np.nextafter(zero, one)[0], np.finfo(dtype).tiny / 7, 1 - np.finfo(dtype).epsneg]
    ends = np.array([0, -0.0, 1, 0.5, *tiny], dtype)
    near = [np.nextafter(bounds, zero), bounds, np.minimum(np.nextafter(bounds, one), one)]
    rng = np.random.default_rng(0)
    return np.concatenate(
        [ends, *near, rng.random(999).astype(dtype), (10.0 ** rng.uniform(-40, 0, 999)).astype(dtype)]
    )


def in_static_program(score: np.ndarray, buckets: int) -> np.ndarray:
    with new_programs() as (main, _):
        variable = paddle.static.data("score", [-1], str(score.dtype))
        result = paddle_ops.log_odds_bucket(variable, buckets)
        return paddle.static.Executor(paddle.CPUPlace()).run(main, feed={"score": score}, fetch_list=[result])[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("buckets", [2, 3, 7, 200, 4096, 2**17 + 3])
def test_a_score_is_in_the_same_bucket_in_every_mode(buckets, dtype):
    score = awkward(buckets, dtype)
    expected = numpy_ops.log_odds_bucket(score, buckets)
    assert expected.dtype == np.int64 and expected.min() == 0 and expected.max() == buckets - 1
    for result in (
        paddle_ops.log_odds_bucket(paddle.to_tensor(score), buckets).numpy(),
        in_static_program(score, buckets),
    ):
        assert result.dtype == np.int64
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_whole_numbers_are_in_the_buckets_of_0_and_1_in_every_mode(dtype):
    score = np.array([0, 1, 1, 0], dtype)
    for result in (
        numpy_ops.log_odds_bucket(score, 6),
        paddle_ops.log_odds_bucket(paddle.to_tensor(score), 6).numpy(),
        in_static_program(score, 6),
    ):
        assert result.tolist() == [0, 5, 5, 0]


@pytest.mark.parametrize("buckets", [*range(2, 130), 1000, 4095, 4096, 4097, 65_536, 1_000_001])
def test_the_lowest_score_of_a_bucket_is_in_it_and_the_number_before_is_not(buckets):
    lowest = lowest_scores(buckets, "log_odds")
    assert lowest[0] == 0 and (np.diff(lowest) > 0).all() and lowest[buckets // 2] == 0.5
    np.testing.assert_array_equal(numpy_ops.log_odds_bucket(lowest, buckets), np.arange(buckets))
    below = numpy_ops.log_odds_bucket(np.nextafter(lowest[1:], 0), buckets)
    np.testing.assert_array_equal(below, np.arange(buckets - 1))
    bounds = odds_bounds(buckets)
    assert (bounds.astype(np.float32) == bounds).all()  # as constants they are exact in both precisions


@pytest.mark.parametrize("buckets", [2, 5, 200, 4096])
def test_the_lowest_score_of_a_linear_bucket_is_in_it_and_the_number_before_is_not(buckets):
    lowest = lowest_scores(buckets, "linear")
    np.testing.assert_array_equal(numpy_ops.bucket(lowest, buckets - 1), np.arange(buckets))
    np.testing.assert_array_equal(numpy_ops.bucket(np.nextafter(lowest[1:], 0), buckets - 1), np.arange(buckets - 1))


def test_a_score_has_the_same_bucket_in_every_precision():
    score = awkward(4096, "float32")
    wide = numpy_ops.log_odds_bucket(score.astype(np.float64), 4096)
    np.testing.assert_array_equal(numpy_ops.log_odds_bucket(score, 4096), wide)


def test_4096_buckets_split_each_doubling_of_the_odds_into_64_from_1_in_2_to_32():
    assert odds_bounds(4096)[63::64].tolist() == [2.0**power for power in range(-31, 32)]
    assert log_odds(4096).shift == 46
    lowest = lowest_scores(4096, "log_odds")[1:]
    steps = np.diff(np.log(lowest) - np.log1p(-lowest))
    assert steps.min() > 0.0077 and steps.max() < 0.0157  # an even split of a doubling has 0.0108


@pytest.mark.parametrize("mode", ["numpy", "dynamic", "static"])
def test_an_unchecked_score_outside_0_to_1_is_in_an_end_bucket(mode):
    score = np.array([-0.25, 1 + 2.0**-20, 1e300, -1e-9, np.inf, -np.inf])
    if mode == "dynamic":
        result = paddle_ops.log_odds_bucket(paddle.to_tensor(score), 8).numpy()
    else:
        result = (in_static_program if mode == "static" else numpy_ops.log_odds_bucket)(score, 8)
    assert result.tolist() == [0, 7, 7, 0, 7, 0]


@pytest.mark.parametrize("buckets", [-1, 0, 1, 2**24 + 1])
def test_an_invalid_number_of_buckets_is_an_error_that_names_it(buckets):
    with pytest.raises(InvalidInputError, match=rf"buckets must be from 2 to 2\*\*24 .*, not {buckets}$"):
        log_odds(buckets)
