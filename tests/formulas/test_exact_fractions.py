"""Formulas against the same ones in fractions: weights of very different size, ties, single classes, empty cells."""

from __future__ import annotations

import math
import os
import warnings
from fractions import Fraction as F
from typing import Any, Callable, Iterator

import numpy as np
import pytest

from fleetmetrics import UndefinedMetricWarning, formulas

#: FLEETMETRICS_DRAWS=3000 draws as many of each as the package was once held against.
DRAWS = int(os.environ.get("FLEETMETRICS_DRAWS", "60"))


def weights(rng: np.random.Generator, shape: Any) -> np.ndarray:
    """Counts, weights around 1, or weights of very different size; often with holes."""
    kind = rng.integers(5)
    if kind == 0:
        found = rng.integers(0, 5, shape)
    elif kind == 1:
        found = rng.integers(0, 2**31, shape)
    elif kind == 2:
        found = rng.random(shape)
    else:
        reach = 8 if kind == 3 else 100
        found = rng.random(shape) * 10.0 ** rng.integers(-reach, reach, shape)
    return np.where(rng.random(shape) < rng.choice([0.0, 0.3, 0.7]), 0, found).astype(found.dtype)


def exactly(array: Any) -> Any:
    return np.vectorize(F, otypes=[object])(array.tolist() if array.ndim == 0 else array.astype(object))


def same(found: Any, expected: Any, relative: float = 1e-12, absolute: float = 1e-15) -> None:
    found, expected = (np.ravel(np.asarray(each, object)).tolist() for each in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        if other is None:
            assert math.isnan(one)
        else:
            assert abs(F(one) - F(other)) <= max(F(relative) * abs(F(other)), F(absolute)), (one, float(other))


def draws(seed: int) -> Iterator[np.random.Generator]:
    for number in range(DRAWS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            yield np.random.default_rng([seed, number])


def root(square: F) -> F:
    """The square root, good to 100 digits."""
    scale = 10**400
    return F(math.isqrt(square.numerator * scale // square.denominator), 10**200)


# -- confusion matrices ---------------------------------------------------------------------------------------


def share(above: Any, below: Any) -> F | None:
    return F(above) / F(below) if below else None


def mean(values: list[Any], by: list[Any] | None = None) -> F | None:
    pairs = [(v, 1 if by is None else w) for v, w in zip(values, by or values) if v is not None]
    whole = sum(w for _, w in pairs)
    return share(sum(v * w for v, w in pairs), whole) if whole else mean([v for v, _ in pairs]) if pairs else None


def counts_of(matrix: Any) -> list[tuple[F, F, F, F]]:
    size, whole = len(matrix), matrix.sum()
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    return [
        (matrix[k, k], columns[k] - matrix[k, k], rows[k] - matrix[k, k], whole - rows[k] - columns[k] + matrix[k, k])
        for k in range(size)
    ]


SHARES: dict[str, Callable[[F, F, F, F], F | None]] = {
    "precision": lambda tp, fp, fn, tn: share(tp, tp + fp),
    "recall": lambda tp, fp, fn, tn: share(tp, tp + fn),
    "specificity": lambda tp, fp, fn, tn: share(tn, tn + fp),
    "jaccard": lambda tp, fp, fn, tn: share(tp, tp + fp + fn),
    "f_beta": lambda tp, fp, fn, tn: share(2 * tp, 2 * tp + fp + fn),
}


@pytest.mark.parametrize("name", SHARES)
def test_shares_of_classes(name: str) -> None:
    for rng in draws(1):
        size = int(rng.integers(2, 6))
        matrix = weights(rng, (size, size))
        counts = counts_of(exactly(matrix))
        each = [SHARES[name](*count) for count in counts]
        function = getattr(formulas, name)
        same(function(matrix, None), each)
        same(function(matrix, "micro"), SHARES[name](*map(sum, zip(*counts))))
        occurring = [value for value, count in zip(each, counts) if any(count[:3])]
        same(function(matrix, "macro"), mean(occurring))
        tp, fp, fn, tn = np.array(counts, object).T
        same(formulas.stat_scores(matrix), np.stack([tp, fp, tn, fn, tp + fn], axis=-1), absolute=0)


def test_agreement() -> None:
    for rng in draws(2):
        size = int(rng.integers(2, 6))
        matrix = weights(rng, (size, size))
        exact = exactly(matrix)
        n, t, p = exact.sum(), exact.sum(axis=1), exact.sum(axis=0)
        product = (n * n - t.dot(t)) * (n * n - p.dot(p))
        mcc = (exact.diagonal().sum() * n - t.dot(p)) / root(product) if product else None
        same(formulas.matthews_correlation(matrix), mcc)
        place = np.arange(size)
        for weighting, power in ((None, 0), ("linear", 1), ("quadratic", 2)):
            apart = np.where(place[:, None] == place, 0, np.abs(place[:, None] - place) ** power).astype(object)
            expected = t.dot(apart).dot(p)
            kappa = 1 - n * (apart * exact).sum() / expected if expected else None
            same(formulas.cohen_kappa(matrix, weighting), kappa)
        recalls = [share(exact[k, k], t[k]) for k in range(size)]
        same(formulas.balanced_accuracy(matrix), mean(recalls))
        same(formulas.confusion_accuracy(matrix), share(exact.diagonal().sum(), n))
        same(formulas.hamming_loss(matrix), share(n - exact.diagonal().sum(), n))


def test_a_correlation_of_weights_that_differ_by_twelve_digits() -> None:
    assert formulas.matthews_correlation([[1e12, 0.0], [1.0, 1.0]]) == pytest.approx(math.sqrt(0.5), rel=1e-11)
    assert formulas.stat_scores(np.diag([1e17, 1.0, 3.0]), None)[:, 2].tolist() == [4.0, 1e17 + 3, 1e17 + 1]
    assert formulas.specificity([[1e16, 0, 0], [0, 1, 1], [0, 0, 1.0]], None).tolist()[0] == 1.0
