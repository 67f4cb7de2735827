"""Integers that float64 rounds: differences are exact, and what needs the numbers themselves refuses them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, same

RNG = np.random.default_rng(5)
LABEL = RNG.integers(2**53, 2**62, 40) * RNG.choice([-1, 1], 40)
ERROR = RNG.integers(-2000, 2000, 40)
LARGE = Data(LABEL + ERROR, LABEL)
LEAST = Data(np.array([2**53 + 1, 5]), np.array([2**53, 5]))
EXTREME = Data(
    np.array([2**63 - 1, -(2**63), 2**63 - 1, 2**53 + 1, -(2**53)]), np.array([2**63 - 2, 2**63 - 1, 0, 0, 1])
)


def symmetric(e, y):
    return sum(2 * abs(x) / (abs(z) + abs(z + x)) for x, z in zip(e, y)) / len(e)


OF_DIFFERENCES = {
    "MeanAbsoluteError": lambda e, y: sum(map(abs, e)) / len(e),
    "MeanSquaredError": lambda e, y: sum(x * x for x in e) / len(e),
    "RootMeanSquaredError": lambda e, y: math.sqrt(sum(x * x for x in e) / len(e)),
    "MeanBias": lambda e, y: sum(e) / len(e),
    "MaxError": lambda e, y: max(map(abs, e)),
    "MeanAbsolutePercentageError": lambda e, y: sum(abs(x / z) for x, z in zip(e, y)) / len(e),
    "WeightedMeanAbsolutePercentageError": lambda e, y: sum(map(abs, e)) / sum(map(abs, y)),
    "QuantileLoss": lambda e, y: sum(map(abs, e)) / len(e) / 2,
    "TweedieDeviance": lambda e, y: sum(x * x for x in e) / len(e),
    "SymmetricMeanAbsolutePercentageError": symmetric,
    "LogCoshError": None,
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(OF_DIFFERENCES))
@pytest.mark.parametrize(
    "data", [LARGE, Data(LARGE.prediction[:1], LARGE.label[:1]), LEAST], ids=["40", "1", "the least that is rounded"]
)
def test_a_metric_of_differences_is_exact_for_integers_that_floats_do_not_tell_apart(name, data, mode):
    metric = getattr(fm, name)()
    value = metric.compute(feed(metric, [data], mode))
    exact = [Fraction(p) - Fraction(y) for p, y in zip(data.prediction.tolist(), data.label.tolist())]
    if OF_DIFFERENCES[name] is None:
        small = fm.LogCoshError()
        small.add(data.prediction - data.label, np.zeros(len(data.label)))
        expected = small.compute()
    else:
        expected = float(OF_DIFFERENCES[name](exact, list(map(Fraction, data.label.tolist()))))
    assert same(value, expected, False, 1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_differences_do_not_wrap_around(mode):
    exact = [p - y for p, y in zip(EXTREME.prediction.tolist(), EXTREME.label.tolist())]
    for metric, expected in [
        (fm.MaxError(), 2.0**64 - 1),
        (fm.MeanBias(), sum(exact) / 5),
        (fm.MeanAbsoluteError(), sum(map(abs, exact)) / 5),
    ]:
        assert same(metric.compute(feed(metric, [EXTREME], mode)), expected, False, 1e-15)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integers_beside_floats_are_not_rounded_either(dtype, mode):
    label = np.array([2**60 + 1, 2**60 - 3, -(2**55) - 7, 12])
    data = Data(np.array([2.0**60, 2.0**60, -(2.0**55), 0.25], dtype), label)
    metric = fm.MeanAbsoluteError()
    assert metric.compute(feed(metric, [data], mode)) == (1 + 3 + 7 + 11.75) / 4
    assert fm.MeanAbsoluteError().kind_name() == "MeanAbsoluteError"
    swapped = fm.MeanBias()
    assert swapped.compute(feed(swapped, [Data(label, data.prediction)], mode)) == (1 - 3 - 7 + 11.75) / 4


@pytest.mark.parametrize("mode", MODES)
def test_weights_and_masks_apply_to_exact_differences(mode):
    data = Data(
        np.array([2**60 + 1, 2**61 + 2, 5]), np.array([2**60, 2**61, 0]), np.array([1.0, 0.5, 9.0]), np.array([1, 1, 0])
    )
    metric = fm.MeanAbsoluteError()
    assert metric.compute(feed(metric, [data], mode)) == 2 / 1.5


REFUSED = ["ExplainedVariance", "MeanSquaredLogError", "PearsonCorrelation", "R2Score", "RootMeanSquaredLogError"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("argument", ["prediction", "label"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_metric_of_the_numbers_themselves_refuses_integers_that_float64_rounds(name, argument, mode):
    data = Data(np.array([1, 5, 3]), np.array([2, 4, 9]))
    data = data._replace(**{argument: getattr(data, argument) + 2**53})
    metric = getattr(fm, name)()
    with pytest.raises(fm.InvalidInputError, match=r"integers beyond 2\*\*53"):
        metric.compute(feed(metric, [data], mode))


@pytest.mark.numpy_only
@pytest.mark.parametrize("make", [fm.Variance, fm.StandardDeviation])
def test_a_variance_refuses_them_and_takes_them_as_floats(make):
    values = np.array([2**60, 2**60 + 1024])
    with pytest.raises(
        fm.InvalidInputError, match=r"rounds integers beyond 2\*\*53: subtract a constant, or give floats"
    ):
        make().add(values)
    metric = make()
    metric.add(values.astype(float))
    assert metric.compute() in (512.0, 512.0**2)


@pytest.mark.numpy_only
def test_unsigned_integers_beyond_int64_are_a_named_error():
    with pytest.raises(fm.IntegerOverflowError, match="the largest integer allowed is 2"):
        fm.MeanAbsoluteError().add(np.array([2**63 + 1], np.uint64), np.array([2**63], np.uint64))
