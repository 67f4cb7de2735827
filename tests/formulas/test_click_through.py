"""Formulas of click-through metrics against plain loops over the samples."""

import math

import numpy as np
import pytest

from fleetmetrics import UndefinedMetricWarning, formulas

RNG = np.random.default_rng(5)


def by_the_book(positive, negative, max_span=0.01, bound=0.05):
    """Bucket by bucket, with fractions of the groups written down as lists."""
    groups, group = [], []
    size = len(positive)
    for bucket in range(size):
        if not group or bucket / size - group[0] / size > max_span:
            group = []
        group = [*group, bucket]
        shows = sum(positive[b] + negative[b] for b in group)
        expected = sum(b / size * (positive[b] + negative[b]) for b in group)
        if shows and expected > 0 and math.sqrt((1 - expected / shows) / (expected / shows * shows)) < bound:
            groups.append((shows, expected / shows, sum(positive[b] for b in group) / shows))
            group = []
    if not groups:
        return math.nan
    return sum(n * abs(rate / mean - 1) for n, mean, rate in groups) / sum(n for n, *_ in groups)


@pytest.mark.parametrize("size, samples", [(100, 50000), (37, 90000), (1001, 200000)])
@pytest.mark.parametrize("kind", ["counts", "weights", "sparse"])
def test_bucket_error_is_paddles(size, samples, kind):
    p = RNG.beta(2, 5, samples)
    p = np.round(p, 1) if kind == "sparse" else p
    bucket = np.minimum((p * size).astype(int), size - 1)
    label = RNG.random(samples) < p * 1.1
    weight = RNG.random(samples) * 2 if kind == "weights" else np.ones(samples)
    positive = np.bincount(bucket[label], weight[label], size)
    negative = np.bincount(bucket[~label], weight[~label], size)
    if kind == "counts":
        positive, negative = positive.astype(np.int64), negative.astype(np.int64)
    expected = by_the_book(positive.tolist(), negative.tolist())
    assert not math.isnan(expected)
    assert formulas.bucket_error(positive, negative) == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("max_span, bound", [(0.03, 0.05), (0.01, 0.2), (0.3, 0.02)])
def test_bucket_error_takes_other_bounds(max_span, bound):
    positive, negative = RNG.integers(0, 40, 200), RNG.integers(0, 300, 200)
    expected = by_the_book(positive.tolist(), negative.tolist(), max_span, bound)
    value = formulas.bucket_error(positive, negative, max_span=max_span, relative_error_bound=bound)
    assert value == pytest.approx(expected, rel=1e-12, abs=0)


def test_bucket_error_is_undefined_without_a_group_that_can_tell():
    for positive, reason in (([0, 0, 3, 0], "no group of buckets holds enough samples"), ([0] * 4, "no samples")):
        with pytest.warns(UndefinedMetricWarning, match=f"bucket_error is undefined: .*{reason}"):
            assert math.isnan(formulas.bucket_error(positive, [0] * 4))
        assert formulas.bucket_error(positive, [0] * 4, zero_division=0.0) == 0.0


@pytest.mark.parametrize("rate", [1e-9, 0.002, 0.5, 1 - 1e-9])
def test_normalized_entropy_of_the_constant_rate_is_one(rate):
    total = 1e12
    clicks = rate * total
    log_likelihood = clicks * math.log(rate) + (total - clicks) * math.log1p(-rate)
    assert formulas.normalized_entropy(log_likelihood, clicks, total) == pytest.approx(1, rel=1e-6)


def test_normalized_entropy_keeps_the_digits_of_low_rates():
    from fractions import Fraction

    clicks, total = 3, 10**12
    # 1 - r is 1 - 3e-12: its logarithm is -r - r**2 / 2 to 1e-35.
    rate = Fraction(clicks, total)
    entropy = clicks * math.log(total / clicks) + (total - clicks) * float(rate + rate**2 / 2)
    assert formulas.normalized_entropy(-entropy, clicks, total) == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize(
    "value, name, reason",
    [
        (lambda **k: formulas.normalized_entropy(-1.0, 0, 5, **k), "normalized_entropy", "all labels are 0"),
        (lambda **k: formulas.normalized_entropy(-1.0, 2.5, 2.5, **k), "normalized_entropy", "all labels are 1"),
        (lambda **k: formulas.normalized_entropy(0.0, 0, 0, **k), "normalized_entropy", "there are no samples"),
    ],
)
def test_undefined_is_nan_with_a_warning_that_says_why_or_what_was_asked_for(value, name, reason, recwarn):
    with pytest.warns(UndefinedMetricWarning, match=f"^{name} is undefined: {reason}"):
        assert math.isnan(value())
    recwarn.clear()
    assert value(zero_division=0.25) == 0.25
    assert not recwarn.list
