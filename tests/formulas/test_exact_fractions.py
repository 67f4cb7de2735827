"""Formulas against the same ones in fractions: weights of very different size, ties, single classes, empty cells."""

from __future__ import annotations

import math
import os
import warnings
from fractions import Fraction as F
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import UndefinedMetricWarning, formulas

#: FLEETMETRICS_DRAWS=3000 draws the number of each that the package was once checked with.
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


# -- samples, pairs of them, ranks ------------------------------------------------------------------------------


def samples(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    size = int(rng.integers(2, 9))
    prediction, label = rng.integers(0, rng.integers(2, 9), (2, size)) / 4
    weight = weights(rng, size).astype(np.float64)
    return prediction, label, np.where(weight == 0, 1e-8, weight)


def test_pairs_of_samples() -> None:
    for rng in draws(3):
        prediction, label, weight = samples(rng)
        i, j = np.triu_indices(len(label), 1)
        product = exactly(weight)[i] * exactly(weight)[j]
        order = np.sign(prediction[i] - prediction[j]) * np.sign(label[i] - label[j])
        c, d = product[order > 0].sum(), product[order < 0].sum()
        y, p = product[label[i] != label[j]].sum(), product[prediction[i] != prediction[j]].sum()
        pairs = formulas.pair_counts(prediction, label, weight)
        same(formulas.xauc(pairs), (y + c - d) / (2 * y) if y else None)
        same(formulas.kendall_correlation(pairs), (c - d) / root(y * p) if y and p else None)


def test_ranks_of_samples() -> None:
    for rng in draws(4):
        prediction, label, weight = samples(rng)
        w = exactly(weight)

        def ranks(values: Any, w: Any = w) -> Any:
            less, level = values[:, None] > values, values[:, None] == values
            return (less * w).sum(axis=1) + (level * w).sum(axis=1) / 2 - w.sum() / 2

        r, s = ranks(prediction), ranks(label)
        product = (w * r * r).sum() * (w * s * s).sum()
        expected = (w * r * s).sum() / root(product) if product else None
        same(formulas.spearman_correlation(prediction, label, weight), expected, absolute=1e-14)


@pytest.mark.parametrize("large, small", [(1e8, 1e-8), (1e12, 1.0), (1e16, 1e-16)])
def test_small_weights_keep_their_order_beside_large_ones(large: float, small: float) -> None:
    prediction, label = np.arange(4.0), np.arange(4.0)[::-1]
    for weight in ([large, small, small, small], [small, large, small, small], [small, small, large, large]):
        pairs = formulas.pair_counts(prediction, label, weight)
        assert formulas.xauc(pairs) == pytest.approx(0, abs=1e-15)
        assert formulas.kendall_correlation(pairs) == pytest.approx(-1, rel=1e-14)
        assert formulas.spearman_correlation(prediction, label, weight) == pytest.approx(-1, rel=1e-14)


# -- histograms -------------------------------------------------------------------------------------------------


def test_curves_over_histograms() -> None:
    for rng in draws(5):
        positive, negative = weights(rng, (2, int(rng.integers(1, 8))))
        thresholds = np.arange(len(positive)) / 8
        p, n = (exactly(each)[::-1] for each in (positive, negative))
        tp, fp = ([F(0), *np.cumsum(each)] for each in (p, n))
        whole = tp[-1] and fp[-1]
        found = formulas.kolmogorov_smirnov(positive, negative)
        same(found, max(abs(a / tp[-1] - b / fp[-1]) for a, b in zip(tp, fp)) if whole else None)
        area = sum((below * (2 * above - own) / 2 for own, below, above in zip(p, n, tp[1:])), F(0))
        same(
            formulas.auc_from_histogram(positive, negative, None, math.nan), area / (tp[-1] * fp[-1]) if whole else None
        )
        precisions = [own * above / (above + below) for own, above, below in zip(p, tp[1:], fp[1:]) if own]
        found = formulas.average_precision_from_histogram(positive, negative)
        same(found, sum(precisions) / tp[-1] if tp[-1] else None)
        best = formulas.specificity_at_sensitivity(positive, negative, thresholds, 0.5)
        allowed = [1 - b / fp[-1] for a, b in zip(tp, fp) if whole and a / tp[-1] >= 0.5]
        same(best.value, max(allowed) if whole else None, absolute=0)
        best = formulas.sensitivity_at_specificity(positive, negative, thresholds, 0.5)
        allowed = [a / tp[-1] for a, b in zip(tp, fp) if whole and 1 - b / fp[-1] >= 0.5]
        same(best.value, max(allowed) if whole else None, absolute=0)
        fractions = rng.random(3)
        if not tp[-1]:
            continue
        for fraction, value in zip(fractions, formulas.cumulative_gain(positive, negative, fractions)):
            population = [a + b for a, b in zip(tp, fp)]
            place = F(fraction) * population[-1]
            k = next(k for k in range(1, len(tp)) if population[k] >= place)
            inside = (place - population[k - 1]) / (population[k] - population[k - 1])
            same(value, (tp[k - 1] + inside * p[k - 1]) / tp[-1], absolute=0)


def test_bounds_of_average_precision_are_good_to_twelve_digits() -> None:
    for rng in draws(6):
        positive, negative = (rng.integers(1, 10 ** rng.integers(1, reach), 3) for reach in (3, 10))
        above_p, above_n, low = F(0), F(0), F(0)
        for p, n in zip(positive[::-1].tolist(), negative[::-1].tolist()):
            above_n += n
            low += sum((above_p + i) / (above_p + i + above_n) for i in range(1, p + 1))
            above_p += p
        bounds = formulas.average_precision_bounds(positive, negative)
        same(bounds.low, low / above_p, absolute=0)


def test_a_rate_of_one_in_ten_meets_a_condition_of_one_in_ten() -> None:
    positive, negative, thresholds = np.ones(10, int), np.ones(10, int), np.arange(10) / 10
    for tenth in range(1, 10):
        point = formulas.sensitivity_at_specificity(positive, negative, thresholds, tenth / 10)
        assert point.threshold == tenth / 10


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 0.7])
@pytest.mark.parametrize(
    ("point", "limit"),
    [
        (formulas.tpr_at_fpr, "max_fpr"),
        (formulas.sensitivity_at_specificity, "min_specificity"),
        (formulas.specificity_at_sensitivity, "min_sensitivity"),
        (formulas.recall_at_fixed_precision, "min_precision"),
        (formulas.precision_at_fixed_recall, "min_recall"),
    ],
)
def test_equal_weights_meet_the_condition_that_counts_meet(point: Any, limit: str, weight: float) -> None:
    """Rounding makes the share of seven weights in ten more or less than 0.7."""
    thresholds = np.arange(10) / 10
    for rng in draws(4):
        positive, negative = rng.integers(0, 4, (2, 10))
        positive[0], negative[0] = 1, 1
        for tenth in range(1, 10):
            counted = point(positive, negative, thresholds, **{limit: tenth / 10})
            weighted = point(positive * weight, negative * weight, thresholds, **{limit: tenth / 10})
            assert weighted.value == pytest.approx(counted.value) and weighted.threshold == counted.threshold


def test_normalized_entropy_of_one_click_in_1e16() -> None:
    few, many = 1.0, 1e16
    entropy = few * math.log1p(many) + many * math.log1p(few / many)
    assert formulas.normalized_entropy(-3.0, many, many + few, others=few) == pytest.approx(3.0 / entropy, rel=1e-12)
    metric = fm.NormalizedEntropy()
    metric.add([0.5, 0.5], [1, 0], weight=[many, few])
    assert metric.compute() == pytest.approx((many + few) * math.log(2) / entropy, rel=1e-12)


# -- users --------------------------------------------------------------------------------------------------------


def test_areas_by_user() -> None:
    for rng in draws(7):
        size = int(rng.integers(1, 30))
        user, score, label = np.sort(rng.integers(0, 4, size)), rng.integers(0, 5, size) / 4, rng.integers(0, 2, size)
        weight = weights(rng, size).astype(np.float64) if rng.random() < 0.7 else None
        w = exactly(np.ones(size) if weight is None else weight)
        expected, by_user = [], []
        for each in np.unique(user):
            p, n = ((user == each) & (label == which) for which in (1, 0))
            pairs = [(a * b, x > y, x == y) for a, x in zip(w[p], score[p]) for b, y in zip(w[n], score[n])]
            right = sum((product * (above + F(int(level)) / 2) for product, above, level in pairs), F(0))
            expected.append(share(right, w[p].sum() * w[n].sum()))
            by_user.append(w[p].sum() + w[n].sum())
        same(formulas.groups.auc_by_group(user, score, label, weight)[0], expected, absolute=1e-300)
        metric = fm.GAUC()
        metric.add(score, label, user=user, weight=weight)
        whole = [(area * by, by) for area, by in zip(expected, by_user) if area is not None]
        same(metric.compute(), share(sum(a for a, _ in whole), sum(b for _, b in whole)) if whole else None)


def test_scores_that_no_float_tells_apart() -> None:
    score, label, user = np.array([2**53, 2**53 + 1, 2**60, 2**60 + 1]), [0, 1, 0, 1], [1, 1, 2, 2]
    for offset in (0, -(2**61)):
        for ranked in (fm.MRR(by="user"), fm.NDCG(by="user"), fm.GAUC()):
            ranked.add(score + offset, label, user=user)
            assert ranked.compute() == 1.0
        for ordered in (fm.XAUC(), fm.KendallCorrelation(), fm.SpearmanCorrelation()):
            ordered.add(score + offset, score)
            assert ordered.compute() == 1.0
        for half in (0, 2):
            area = fm.ExactAUC()
            area.add(score[half : half + 2] + offset, label[:2])
            assert area.compute() == 1.0
            assert formulas.exact_auc(score[half : half + 2] + offset, label[:2]) == 1.0
            assert formulas.exact_auc(score[half : half + 2] + offset, label[:2], weight=[0.5, 0.25]) == 1.0
    assert formulas.exact_auc(np.array([2**64 - 2, 2**64 - 1], np.uint64), [0, 1]) == 1.0
