"""Tests whether slices differ from the whole by more than chance, for all slices of a column at once.

A slice is compared with a random sample of the whole of its size. The variance and the skewness of such a sample's
value follow from the rows of the whole: nothing is estimated from the few rows of the slice itself, and nothing is
drawn. A slice that is too small for the test gets no verdict.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics.formulas.auc import areas_of_many
from fleetmetrics.formulas.spreads import covariance_of, moments_of, placements, slopes_of_residual

__all__ = [
    "Residuals",
    "SliceTests",
    "areas_against_whole",
    "false_discovery_rates",
    "inflation_of_sizes",
    "quotients_against_whole",
    "residuals_of_slices",
    "residuals_of_whole",
]

#: The fewest units (positives and negatives, rows, users, queries) with a part in a slice.
LEAST = 5
#: Sums that depend on how rows come in batches are this close: no verdict may hang on it.
_ROUNDED = 1e-9
#: The largest skewness of the value of a random sample: beyond it, the transformation to a normal variable is too
#: rough.
_SKEWEST = 1.0
#: The number of units of one size from which a slice uses its own quotient.
_MANY = 30
#: How much more kurtosis it may have than the transformation, of a chi-square distribution, gives it with its skewness.
_MOST_PEAKED = 0.5


class SliceTests(NamedTuple):
    """A test of each slice against the whole: arrays ``[slices]``.

    Args:
        score: the distance of the slice from the whole, a standard normal variable if the slice is a random sample of
            the whole; nan if there are too few units.
        p_value: two-sided, for the hypothesis that it is a random sample.
        error: the standard error of the distance from the whole.
        low: lower end of an interval for the true value of the slice.
        high: its upper end.
        needed: the number of units needed; for areas ``[slices, 2]``, positives and negatives.
        units: the number of units; for areas, of the rarer of positives and negatives.
    """

    score: np.ndarray
    p_value: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    needed: np.ndarray
    units: np.ndarray


def areas_against_whole(
    positive: Sequence[np.ndarray], negative: Sequence[np.ndarray], confidence: float = 0.95, inflation: float = 1.0
) -> SliceTests:
    """Test the area under the ROC curve of slices, from the histograms of their scores.

    Formula: with A the area of the whole and the placements ``v(x)``, the share of negatives below a positive and of
    positives above a negative, a random sample of m positives and n negatives has the variance ``S10 / m + S01 / n +
    (S11 - S10 - S01) / (m n)``, where S10 and S01 are the variances of the placements of all positives and all
    negatives and ``S11 = A (1 - A)``, less a quarter of the share of tied pairs. Since the slice is part of the whole
    of M and N, ``1 / m - 1 / M`` takes the place of ``1 / m``. The third moments give the skewness g, and the distance
    x in standard errors becomes normal by Wilson and Hilferty: ``6 / g ((1 + g x / 2)**(1/3) - 1) + g / 6``.

    Source: DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 44 (1988); Wilson and Hilferty, "The distribution of chi-square", PNAS 17 (1931).

    Args:
        positive: for each slice, numbers of samples labeled 1 by bucket, ``[buckets]``; together they are the whole.
        negative: the same for label 0.
        confidence: of the intervals.
        inflation: the variance divided by that of single rows, if rows come in groups.
    """
    p, n = (np.asarray(sum(histograms), np.float64) for histograms in (positive, negative))
    m, k = (np.array([row.sum() for row in histograms], np.float64) for histograms in (positive, negative))
    of_positive, of_negative, area = placements(p, n)
    (s10, c10), (s01, c01) = _moments(of_positive - area, p), _moments(of_negative - area, n)
    rest = max(area * (1 - area) - p.dot(n) / max(p.sum() * n.sum(), 1) / 4 - s10 - s01, 0)
    least = [max(LEAST, _count(c * c / s**3 / _SKEWEST**2) if s > 0 else 0) for s, c in ((s10, c10), (s01, c01))]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = areas_of_many(positive, negative).value
        one, other = 1 / m - 1 / p.sum(), 1 / k - 1 / n.sum()
        variance = inflation * (s10 * one + s01 * other + rest * one * other)
        third = inflation**2 * (c10 * one * (one - 1 / p.sum()) + c01 * other * (other - 1 / n.sum()))
        of_slice = inflation * (s10 / m + s01 / k)
    enough = (m >= least[0] * inflation) & (k >= least[1] * inflation)
    needed = np.broadcast_to([_count(fewest * inflation) for fewest in least], (len(m), 2))
    return _tested(values, area, variance, third, of_slice, enough, needed, np.minimum(m, k), 1.0, confidence)


def quotients_against_whole(
    numerator: Any,
    denominator: Any,
    units: Any,
    square: float,
    cube: float | Sequence[float],
    highest: float = math.inf,
    confidence: float = 0.95,
    squares: Any = None,
    fourth: float = 0.0,
    mixed: float = 0.0,
) -> SliceTests:
    """Test quotients of sums over units, such as rows, or users with all of their rows in a slice.

    Formula: with ``R = N / D`` of the whole and ``r = n - R d`` of a unit, the sum of r over a random part of the units
    that holds the share s of D has mean 0, variance ``s (1 - s) sum(r**2)`` and third moment ``s (1 - s) (1 - 2 s)
    sum(r**3)``. So it treats no quotient of small numbers as a normal variable: this is the delta method without its
    limit. A denominator that grows with the tested value, as that of F1 grows with hits, is no measure of evidence: of
    two equal slices, the one with more hits would count as the larger. So s is the share of ``d - b r``, where ``b =
    sum(r d) / sum(r**2)``: it is uncorrelated with r, and its sum over all units is that of d. For F1, it is the share
    of the rows that are hits, misses or false alarms. The skewness is removed as in `areas_against_whole`. This gives
    the sum an excess kurtosis of 1.5 times the square of its skewness, as chi-square distributions have; where it is
    much more, there are too few units.

    Source: Cochran, Sampling Techniques (1977), chapters 6 and 9.

    Args:
        numerator: for each slice, the sum of n over its units.
        denominator: the same for d, at least 0.
        units: the number of units with a part in each slice; one number: that of all slices.
        square: the sum of ``r**2`` over the units of all slices.
        cube: the same of ``r**3``; several if it is uncertain: the one that says least against chance counts.
        highest: the upper bound of a quotient of at least 0; nan: it has no bounds.
        confidence: of the intervals.
        squares: of each slice, the sum over its units of ``d**2``: see `inflation_of_sizes`. There must be enough
            units of one size that would vary as much. None: units are of one size.
        fourth: the sum of ``r**4`` over the units of all slices; 0: it is ignored.
        mixed: the same of ``r d``.
    """
    numerator, denominator, units = (np.asarray(sums, np.float64) for sums in (numerator, denominator, units))
    total = denominator.sum()
    whole = (numerator.sum() / total).item() if total else math.nan
    evidence = denominator
    if mixed and square > 0:
        evidence = np.fmax(denominator - mixed / square * (numerator - whole * denominator), denominator / 2)
    if not units.ndim:
        units = units * (evidence / total if total else np.zeros(len(denominator)))
    all_units = max(units.sum(), 1)
    inflation: Any = 1.0
    even = units
    if squares is not None:
        inflation = inflation_of_sizes(squares, evidence)
        even = np.minimum(units, evidence**2 / np.maximum(squares, 1e-300))
    cubes = np.atleast_1d(np.asarray(cube, np.float64))[:, None]
    skew = float(np.abs(cubes / square / math.sqrt(square)).max()) ** 2 if square > 0 else 0  # powers may be too large
    peaked = fourth / square / square - 3 / all_units - 1.5 * skew if square > 0 and fourth else 0
    least = inflation * max(skew / _SKEWEST**2, peaked / _MOST_PEAKED, LEAST / all_units)  # the share of D
    with np.errstate(divide="ignore", invalid="ignore"):
        values, share = numerator / denominator, evidence / total
        scale = denominator**2
        variance = inflation * square * share * (1 - share) / scale
        third = inflation**2 * cubes * share * (1 - share) * (1 - 2 * share) / (scale * denominator)
        of_slice = inflation * square * share / scale
        needed = np.where(share > 0, units * np.fmax(least / share, LEAST / even), all_units * least)
    enough = (share >= least * (1 - _ROUNDED)) & (even >= LEAST * (1 - _ROUNDED))
    needed = np.array([_count(number) for number in np.fmax(needed, LEAST)])
    return _tested(values, whole, variance, third, of_slice, enough, needed, units, highest, confidence)


class Residuals(NamedTuple):
    """Sums over the units of all slices of what the residuals ``r = n - R d`` have to say.

    Args:
        square: of ``r**2``.
        cubes: of ``r**3``; several if it is uncertain.
        fourth: of ``r**4``.
        mixed: of ``r d``.
    """

    square: float
    cubes: Sequence[float]
    fourth: float
    mixed: float


def residuals_of_whole(sums: Any, products: Any) -> Residuals:
    """The residuals from the quotient of the whole, of units of one size.

    Args:
        sums: the numerator and the denominator.
        products: the sums over units of the products of both, of degrees 2 and 3, and 4 or none: see
            `fleetmetrics.formulas.spreads.products`.
    """
    slopes = slopes_of_residual(*sums)
    square, cube, *fourth = moments_of(products, slopes, (2, 3, 4) if len(products) == 12 else (2, 3))
    mixed = covariance_of(products[:3], slopes, (0.0, 1.0))
    return Residuals(square, [cube], fourth[0] if fourth else 0.0, mixed)


def residuals_of_slices(sums: Any, products: Any) -> Residuals:
    """The residuals of units of uneven sizes, with a second cube, that of all but the largest unit.

    One large unit may hide on which side most units are: its cube is at most its slice's fourth powers to the power of
    3/4. A slice of many equal units uses its own quotient, otherwise a bad slice would hide others.

    Args:
        sums: ``[slices, 2]``, numerators and denominators.
        products: ``[slices, 12]``, the sums over units of their products, of degrees 2, 3 and 4.
    """
    of_whole, square, cube, fourth, largest = slopes_of_residual(*np.sum(sums, axis=0)), 0.0, 0.0, 0.0, 0.0
    for (numerator, denominator), own in zip(sums, products):
        equal_units = denominator**2 / own[2] if own[2] else 0.0  # units of one size with the same evidence
        many = equal_units >= _MANY
        slopes = slopes_of_residual(numerator, denominator) if many else of_whole
        own_square, own_cube, own_fourth = moments_of(own, slopes, (2, 3, 4))
        square += own_square * equal_units / (equal_units - 1) if many else own_square
        cube += own_cube
        fourth += own_fourth
        largest = max(largest, math.copysign(own_fourth**0.75, own_cube), key=abs)
    mixed = covariance_of(np.sum(products, axis=0)[:3], of_whole, (0.0, 1.0))
    return Residuals(square, [cube, cube - largest], fourth, mixed)


def inflation_of_sizes(squares: Any, denominator: Any) -> np.ndarray:
    """The factor by which few large units make the variance of a slice larger than its share of the denominator.

    Formula: units of which each is alike throughout vary with the square of their size. So the variance of a slice is
    its share of ``sum(d**2)``, where that is more than its share of ``sum(d)``: the quotient of both, at least 1.

    Args:
        squares: of each slice, the sum over its units of ``d**2``, where d is what a unit adds to the denominator.
        denominator: the same of d.
    """
    squares, denominator = np.asarray(squares, np.float64), np.asarray(denominator, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        inflation = squares / denominator * (denominator.sum() / squares.sum())
    return np.fmax(inflation, 1.0)


def _moments(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """The mean square and the mean cube."""
    total = max(weight.sum().item(), 1)
    return weight.dot(values**2).item() / total, weight.dot(values**3).item() / total


def _count(number: float) -> int:
    return math.ceil(number * (1 - _ROUNDED)) if math.isfinite(number) else 0


def _tested(
    values: np.ndarray,
    whole: float,
    variance: np.ndarray,
    third: np.ndarray,
    of_slice: np.ndarray,
    enough: np.ndarray,
    needed: np.ndarray,
    units: np.ndarray,
    highest: float,
    confidence: float,
) -> SliceTests:
    """The tests of values with these moments around that of the whole."""
    with np.errstate(divide="ignore", invalid="ignore"):
        known = enough & np.isfinite(values)
        error = np.where(known & (variance > 0), np.sqrt(variance), np.nan)
        scores = np.atleast_2d(_normal((values - whole) / error, third / error**3))
        score = scores[np.abs(scores).argmin(axis=0), np.arange(len(values))]
        own = np.sqrt(np.where(known & (of_slice > 0), of_slice, np.nan))
        ends = _ends(values, whole, own, units, highest, confidence)
    p_value = np.array([math.erfc(abs(distance) / math.sqrt(2)) for distance in score.tolist()])
    return SliceTests(score, p_value, error, *ends, needed, units)


def _normal(distance: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """A variable of mean 0, variance 1 and this skewness as a normal one, by the transformation of chi-square."""
    skew = np.where(np.abs(skewness) < 1e-6, np.where(skewness < 0, -1e-6, 1e-6), skewness)
    bent = 6 / skew * (np.cbrt(1 + skew * distance / 2) - 1) + skew / 6
    normal: np.ndarray = np.where(np.abs(skewness) < 1e-5, distance, bent)
    return normal


def _ends(
    values: np.ndarray, whole: float, error: np.ndarray, units: np.ndarray, highest: float, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals that stay between 0 and ``highest``: even on the scale of the log-odds, or of the logarithm.

    The value includes one more unit like the whole, so that it is never on the edge. The variance is that of the whole,
    as it changes with the mean of a share or a count.
    """
    times = NormalDist().inv_cdf((1 + confidence) / 2)
    if math.isnan(highest):
        return values - times * error, values + times * error
    inside = (values * units + whole) / (units + 1)
    if math.isinf(highest):
        factor = np.exp(times * error / np.sqrt(whole * inside))
        low, high = inside / factor, inside * factor
    else:
        one, other = inside / highest, whole / highest
        half = times * error / highest / np.sqrt(one * (1 - one) * other * (1 - other))
        odds = one / (1 - one)
        low, high = (highest * end / (1 + end) for end in (odds * np.exp(-half), odds * np.exp(half)))
    return np.minimum(low, values), np.maximum(high, values)  # nan stays nan


def false_discovery_rates(p_values: Sequence[float]) -> np.ndarray:
    """The smallest share of false discoveries at which each of many tests is one: q-values.

    Formula: of the n p-values in rising order ``q_i = min over j >= i of n p_j / j``. nan stays nan and is not counted.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B
    57 (1995).

    Examples:
        >>> false_discovery_rates([0.04, 0.01, 0.5]).tolist()
        [0.06, 0.03, 0.5]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")  # nan comes last
    known = np.count_nonzero(~np.isnan(p))
    order = order[:known]
    rising = p[order] * (known / np.arange(1, known + 1))  # in this order no q is below its p by rounding
    rates = np.full(len(p), np.nan)
    rates[order] = np.minimum(np.minimum.accumulate(rising[::-1])[::-1], 1.0)
    return rates
