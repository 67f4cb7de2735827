"""Intervals without resampling: the variance of a metric from sums over samples, or over groups of users."""

from __future__ import annotations

import functools
import math
import sys
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas.slices import placements
from fleetmetrics.support.warning import part_now, warn

__all__ = ["IntervalResult", "Spread", "interval", "of_area", "of_area_groups", "of_groups", "of_samples"]

#: The fewest rows, users or samples of a class.
LEAST = 50
#: The fewest events behind a value: the inverse of the square of its skewness; for a count, the count.
EVENTS = 40
#: The fewest samples, or groups, behind a value: an effective number, from how far each could move the value.
SOURCES = 30
#: The fewest groups with equal contributions that a variance must come from, if the sizes of groups are unknown; normal
#: contributions need a third of that.
_EVEN = 15
#: The fewest samples of the rarer class, times the share of the rarer order of pairs.
_PAIRS = 10
#: A sum of squares is a difference of terms; if it is this small a part of them, only rounding is left.
_ROUNDED = 1e-10
#: Below it the products of three terms are below 1e-300 and lose digits.
_SMALL = 1e-200


class IntervalResult(NamedTuple):
    """A value and its uncertainty, without resampling.

    Args:
        value: over all samples.
        std: its standard error; nan if there are too few samples.
        low: lower end of the interval.
        high: its upper end.
        confidence: the share of such intervals that should contain the true value.
        groups: with ids, the contribution of each group of ids to the value, float64 ``[groups]``: the sum of the
            squares is the variance. None without ids.
        drawn: with ids, the number of samples in each group, int64 ``[groups]``, a fingerprint of the samples.
    """

    value: Any
    std: float
    low: float
    high: float
    confidence: float
    groups: np.ndarray | None
    drawn: np.ndarray | None


class Supply(NamedTuple):
    """The number of samples, groups or members of a class, and the number that an interval needs.

    Args:
        number: the number there is.
        needed: the number that would be enough by the values of these, such as their rare clicks.
        least: the number needed for any values.
    """

    number: float
    needed: float
    least: float = LEAST

    @property
    def short(self) -> tuple[float, float] | None:
        """The number there is, and the larger one that is needed; None if there is enough."""
        needed = max(self.least, self.needed)
        return None if self.number >= needed else (self.number, needed)


class Largest(NamedTuple):
    """The user or query that has most.

    Args:
        share: its part of what all have, from 0 to 1.
        of: what that is: "rows", "weight", or the metric's "denominator".
    """

    share: float
    of: str


def largest_of(sizes: Any, of: str) -> Largest | None:
    """The largest user, from what groups of users have; None if none has far more than an equal part.

    Args:
        sizes: what each group has, ``[groups]``, at least 0. Its other users have what a group has on average.
        of: what that is.
    """
    sizes = np.asarray(sizes, np.float64)
    total, most = sizes.sum().item(), sizes.max(initial=0.0).item()
    if not 0 < total < math.inf:
        return None
    share = (most - (total - most) / max(len(sizes) - 1, 1)) / total
    equal = 1 / _users(int(np.count_nonzero(sizes)), len(sizes))
    return Largest(share, of) if share >= max(1 / LEAST, 2 * equal) else None


def users_of(samples: Any) -> float:
    """The most likely number of users, from the samples of each group of them; inf if all groups have some."""
    filled = int(np.count_nonzero(samples))
    return _users(filled, len(samples)) if filled < len(samples) else math.inf


class Spread(NamedTuple):
    """How much a value varies.

    Args:
        variance: the variance of the value.
        freedom: the degrees of freedom of the variance.
        short: by name, of what there is too little: the number there is, and the number needed.
        groups: see `IntervalResult`.
        supply: by name, what there is and what is needed, enough or not.
        share: if the value is the share of independent samples of equal weight: their number with the property, and
            the number of all; then there is an exact interval. None: it is not.
    """

    variance: float
    freedom: float
    short: Mapping[str, tuple[float, float]]
    groups: np.ndarray | None = None
    supply: Mapping[str, Supply] = MappingProxyType({})
    share: tuple[int, int] | None = None


def _spread(variance: float, freedom: float, supply: Mapping[str, Supply], groups: np.ndarray | None = None) -> Spread:
    """The spread with the names of what is too scarce."""
    return Spread(variance, freedom, {name: each.short for name, each in supply.items() if each.short}, groups, supply)


def alike(one: Spread, other: Spread) -> tuple[Spread, Spread]:
    """The spreads of two sides of a comparison, with the same need on both.

    If they do not differ, samples of both have their events equally often: so the need follows from both sides
    together. By its own events, a small side would be compared only if it happens to have many, and would mostly
    differ.

    Args:
        one: of independent samples, or groups, of one side.
        other: of the other side.
    """
    both = []
    for spread in (one, other):
        supply = dict(spread.supply)
        for name, its in other.supply.items() if spread is one else one.supply.items():
            if name in supply and one.variance > 0 and other.variance > 0:
                own = supply[name]
                enough = sum(each.number / each.needed if each.needed else math.inf for each in (own, its))
                needed = (own.number + its.number) / enough if enough > 0 else own.needed
                supply[name] = Supply(own.number, needed, max(own.least, its.least))
        short = {name: each.short for name, each in supply.items() if each.short} if supply else spread.short
        both.append(spread._replace(short=short, supply=supply))
    return both[0], both[1]


def of_samples(products: Any, terms: Any, slopes: Sequence[float], samples: int, signed: bool = False) -> Spread:
    """The spread of a function of sums over independent samples: the delta method.

    Formula: ``n / (n - 1) sum(c_i**2)`` with ``c_i = sum_k g_k x_ik``, where ``x_i`` are the terms of a sample, and g
    the derivatives of the value by their sums. The mean of c is 0: the value does not change when all samples are
    doubled, and so ``sum_k g_k sum_i x_ik = 0``.

    Source: Deng, Knoblich and Lu, "Applying the delta method in metric analytics", KDD 2018.

    Args:
        products: the sums of the products of two, and of three, terms of a sample, in the order of `monomials`.
        terms: the sums of the terms.
        slopes: the derivatives.
        samples: the number of samples in the sums.
        signed: whether the terms of samples have either sign, so that there is no bound on how far one can move
            the value.
    """
    square, cube = moments_of(products, slopes)
    enough = _events(square, cube) / EVENTS
    if not signed:
        enough = min(enough, _events(*moments_of(products, _far(slopes, terms))) / SOURCES)
    return _of_units(square, samples, samples, enough, "samples")._replace(share=_share(products, terms))


def _share(products: Any, terms: Any) -> tuple[int, int] | None:
    """The number of samples that both terms count, and of those that the second counts; None if terms are no counts.

    A term counts samples if it is 0 or some number u in each, so that the sum of ``x (x - u)**2`` is 0; with unequal
    weights it is not. The first term counts none that the second does not if the sum of ``n (u - d)`` is 0.

    Args:
        products: as for `of_samples`.
        terms: likewise.
    """
    if len(terms) != 2 or not terms[1] > 0:
        return None
    (nn, cross, dd, nnn, _, _, ddd), (n, d) = products, terms
    unit = dd / d
    if not 0 < unit * unit < math.inf:  # squares of weights that are beyond float64
        return None
    rests = (ddd - 2 * unit * dd + unit**2 * d) / unit, (nnn - 2 * unit * nn + unit**2 * n) / unit, unit * n - cross
    if any(not abs(rest) <= _ROUNDED * unit * d for rest in rests):
        return None
    return round(n / unit), round(d / unit)


def _far(slopes: Sequence[float], terms: Any) -> list[float]:
    """The slopes of ``sum_k |g_k x_ik|``, how far a sample can move the value, from the sums of terms of one sign each.

    Terms that go against each other, such as hits and samples, hide in the value how few samples there are.
    """
    return [math.copysign(slope, term) for slope, term in zip(slopes, terms)]


def moments_of(products: Any, slopes: Sequence[float]) -> tuple[float, float]:
    """The sums of the squares and cubes of ``sum_k g_k x_ik``, from the sums of `products`; 0 if they have no digits.

    Args:
        products: summed over samples.
        slopes: g.
    """
    pairs, triples = monomials(len(slopes))
    parts = np.asarray(products, np.float64) * [_factor(slopes, each) for each in (*pairs, *triples)]
    square, cube = parts[: len(pairs)].sum().item(), parts[len(pairs) :].sum().item()
    return (square, cube) if square > max(_SMALL, _ROUNDED * np.abs(parts[: len(pairs)]).sum()) else (0.0, 0.0)


def products(terms: Sequence[Any]) -> np.ndarray:
    """The products of two, and of three, terms of each sample, in the order of `monomials`: ``[products, samples]``.

    Args:
        terms: arrays ``[samples]``.
    """
    pairs, triples = monomials(len(terms))
    return np.stack([functools.reduce(np.multiply, [terms[k] for k in each]) for each in (*pairs, *triples)])


def _events(square: float, cube: float) -> float:
    """The number of events behind a sum, from the sums of squares and cubes."""
    if not cube:
        return math.inf
    away = square / cube  # a power of it may be too large
    return square * away * away


def monomials(terms: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The pairs and triples of terms whose products are summed, each as the rising numbers of its terms."""
    pairs: list[tuple[int, ...]] = [(i, j) for i in range(terms) for j in range(i, terms)]
    return pairs, [(*pair, k) for pair in pairs for k in range(pair[-1], terms)]


def _factor(slopes: Sequence[float], places: tuple[int, ...]) -> float:
    """The product of the derivatives, times its multiplicity in the expanded sum."""
    times = math.factorial(len(places))
    for place in set(places):
        times //= math.factorial(places.count(place))
    return times * math.prod(slopes[place] for place in places)


def of_groups(groups: np.ndarray, far: np.ndarray | None = None) -> Spread:
    """The spread of a value, from the contribution of each group of users.

    Formula: ``g / (g - 1) sum(c**2)`` over the g groups with a contribution. A hash puts independent users into groups,
    so that a group varies as its users do: the method of random groups. The variance has ``2 / (k - 1 / g)`` degrees of
    freedom, where ``k = sum(c**4) / sum(c**2)**2``: fewer than g - 1 if a few users make most of it.

    Source: Wolter, Introduction to Variance Estimation (2007), chapter 2; Deng, Knoblich and Lu, "Applying the delta
    method in metric analytics", KDD 2018; Satterthwaite, "An approximate distribution of estimates of variance
    components", Biometrics Bulletin 2 (1946).

    Args:
        groups: the contribution of each to the value, ``[groups]``.
        far: how far each can move the value, ``[groups]``. It depends on the sizes of users and hardly on the value, so
            that groups that happen to be alike are not taken for many. None: unknown.
    """
    filled = int(np.count_nonzero(groups))
    users = _users(filled, len(groups))
    exponent, near = _scaled(groups)
    square, cube, fourth = ((near**power).sum().item() for power in (2, 3, 4))
    peaked = fourth / square**2 if fourth else math.inf
    enough = 1 / peaked / _EVEN
    if far is not None:
        far = _scaled(far)[1]
        enough = _events((far**2).sum().item(), (far**3).sum().item()) / SOURCES
    found = _of_units(square, filled, users, min(_events(square, cube) / EVENTS, enough), "users")
    freedom = min(found.freedom, max(1.0, 2 / (peaked - 1 / filled))) if peaked * filled > 1 else found.freedom
    return found._replace(variance=np.ldexp(found.variance, 2 * exponent).item(), groups=groups, freedom=freedom)


def _scaled(groups: np.ndarray) -> tuple[int, np.ndarray]:
    """Numbers divided by a power of two, so that their powers stay within float64; and its exponent."""
    exponent = int(np.frexp(np.abs(groups).max(initial=0.0))[1])
    return exponent, np.ldexp(groups, -exponent)


def _users(filled: int, groups: int) -> float:
    """The most likely number of users in this number of groups."""
    return -groups * math.log1p(-filled / groups) if filled < groups else 8.0 * groups


def _of_units(square: float, units: int, number: float, enough: float, name: str) -> Spread:
    """The spread, from the sum of the squares of the contributions of independent units.

    Args:
        square: the sum.
        units: the number of units for the estimate.
        number: the number of units to report.
        enough: the ratio of the units to those needed.
        name: the name of the units.
    """
    needed = number / enough if enough > 0 else number * EVENTS
    variance = square * units / (units - 1) if units > 1 and square > 0 else math.nan
    least = float(LEAST) if square > 0 else max(LEAST, number + 1)
    return _spread(variance, max(units - 1.0, 1.0), {name: Supply(number, needed, least)})


def of_area(positive: Any, negative: Any, positive_squares: Any, negative_squares: Any) -> Spread:
    """The spread of the area under the ROC curve of independent samples.

    Formula: with A the area, and the placements v, the weighted share of negatives below a positive and of positives
    above a negative, ``m / (m - 1) sum_i (w_i (v_i - A) / W1)**2`` over the positives, plus the same over the
    negatives; m is ``W1**2 / sum_i w_i**2``, without weights the number of positives.

    Source: DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 44 (1988); from ranks, and so from a histogram: Sun and Xu, "Fast implementation
    of DeLong's algorithm", IEEE Signal Processing Letters 21 (2014).

    Args:
        positive: the weight of the samples labeled 1 by bucket of their scores.
        negative: the same for label 0.
        positive_squares: the sums of the squares of the weights by bucket.
        negative_squares: the same for label 0.
    """
    parts, sizes = _of_classes(positive, negative, positive_squares, negative_squares)
    supply = _of_pairs(_area(positive, negative), sizes, 1.0)
    variance = sum(parts)
    if not variance > 0:
        return _spread(math.nan, 1.0, supply)
    freedom = variance**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes))
    return _spread(variance, freedom, supply)


def of_area_groups(
    groups: np.ndarray, positive: Any, negative: Any, positive_squares: Any, negative_squares: Any
) -> Spread:
    """The same if only users are independent, from the contribution of each group of users to the area.

    Source: Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 53 (1997).

    Args:
        groups: as for `of_groups`.
        positive: as for `of_area`.
        negative: likewise.
        positive_squares: likewise.
        negative_squares: likewise.
    """
    parts, sizes = _of_classes(positive, negative, positive_squares, negative_squares)
    found = of_groups(groups)
    inflation = max(1.0, found.variance / sum(parts)) if sum(parts) else 1.0
    users = {name: Supply(each.number, 0.0) for name, each in found.supply.items()}
    supply = {**users, **_of_pairs(_area(positive, negative), sizes, inflation)}
    return _spread(found.variance, found.freedom, supply, groups)


def _of_classes(
    positive: Any, negative: Any, positive_squares: Any, negative_squares: Any
) -> tuple[list[float], list[float]]:
    """The contribution of positives and negatives to the variance, and their effective numbers."""
    above, below, area = placements(np.asarray(positive, np.float64), np.asarray(negative, np.float64))
    parts, sizes = [], []
    for weight, squares, placed in ((positive, positive_squares, above), (negative, negative_squares, below)):
        total, squares = float(weight.sum()), np.asarray(squares, np.float64)
        size = total**2 / squares.sum().item() if total else 0.0
        part = squares.dot((placed - area) ** 2).item() / total**2 if total else 0.0
        parts.append(part * size / (size - 1) if size > 1 else math.nan)
        sizes.append(size)
    return parts, sizes


def _area(positive: np.ndarray, negative: np.ndarray) -> float:
    return placements(np.asarray(positive, np.float64), np.asarray(negative, np.float64))[2]


def _of_pairs(area: float, sizes: Sequence[float], inflation: float) -> dict[str, Supply]:
    """The samples of both classes; this many samples of a user count as one."""
    rarer = max(min(area, 1 - area), 0.5 / max(min(sizes), 1))
    return {
        name: Supply(size, _PAIRS / rarer * inflation, LEAST * inflation)
        for name, size in zip(("positives", "negatives"), sizes)
    }


def interval(
    value: Any, spread: Spread, lowest: float, highest: float, confidence: float, metric: str
) -> IntervalResult:
    """Make an interval of a value and its spread.

    A share of too few samples for the formula has an exact interval, without a standard error: the lowest and the
    highest probability at which this number of samples or more, or fewer, has a probability of at least ``(1 -
    confidence) / 2`` each. Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
    case of the binomial", Biometrika 26 (1934).

    Formula: a quantile of Student's distribution times the standard error; the interval is symmetric on the scale of
    ``log((x - lowest) / (highest - x))`` between two bounds, and of ``log(x - lowest)`` above a lower one, so that the
    interval stays there.

    Args:
        value: the metric's value.
        spread: its spread.
        lowest: the lowest value that the metric can have.
        highest: the largest.
        confidence: between 0 and 1.
        metric: name of the metric, for the warning.

    Returns:
        The result; nan if there are too few samples, with a warning that gives the number that is needed.
    """
    value = float(value)
    none = IntervalResult(value, math.nan, math.nan, math.nan, confidence, spread.groups, None)
    if math.isnan(value):  # the metric has warned of it
        return none
    if spread.short or not spread.variance >= sys.float_info.min or not lowest < value < highest:
        if spread.share is not None and (lowest, highest) == (0, 1):
            low, high = exact_ends(*spread.share, confidence)
            return none._replace(low=low, high=high)
        _warn(metric, spread)
        return none
    std = math.sqrt(spread.variance)
    half = quantile((1 + confidence) / 2, spread.freedom) * std
    low, high = _ends(value, half, lowest, highest)
    return none._replace(std=std, low=low, high=high)


def exact_ends(number: int, samples: int, confidence: float) -> tuple[float, float]:
    """The ends of Clopper and Pearson's interval for a share.

    Args:
        number: of the samples with the property.
        samples: of all of them, at least 1.
        confidence: between 0 and 1.

    Examples:
        >>> [round(end, 4) for end in exact_ends(3, 4, 0.95)]
        [0.1941, 0.9937]
    """
    if 2 * number > samples:
        low, high = exact_ends(samples - number, samples, confidence)
        return 1 - high, 1 - low
    tail = (1 - confidence) / 2
    low = _probability(number - 1, samples, 1 - tail) if number else 0.0
    return low, _probability(number, samples, tail)


def _probability(number: int, samples: int, cases: float) -> float:
    """The probability of a property that at most this number of the samples have in this share of cases."""
    fewer = np.arange(number + 1.0)
    ways = np.append(0.0, np.cumsum(np.log((samples - fewer[:-1]) / fewer[1:])))  # logarithms of binomials
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        logs = ways + fewer * math.log(middle) + (samples - fewer) * math.log1p(-middle)
        low, high = (middle, high) if np.exp(logs).sum() > cases else (low, middle)
        if high - low <= 1e-14 * high:
            break
    return middle


def _warn(metric: str, spread: Spread) -> None:
    told = [
        f"{math.floor(have):,} {name}, but it needs {math.ceil(need):,}"
        for name, (have, need) in spread.short.items()
        if have < LEAST or need > have + 1 or spread.variance > 0
    ]
    alike = "they do not vary, or only by numbers whose cubes are beyond float64, such as 1e-110"
    warn(
        f"{metric}{part_now()} has too few samples for a reliable interval: {'; '.join(told) or alike}. "
        "std, low and high are nan",
        UndefinedMetricWarning,
    )


def _ends(value: float, half: float, lowest: float, highest: float) -> tuple[float, float]:
    above, below = value - lowest, highest - value
    if math.isinf(above):
        return value - half, value + half
    if math.isinf(below):
        factor = math.exp(min(half / above, 700.0))
        return lowest + above / factor, lowest + above * factor
    width = highest - lowest
    factor = math.exp(min(half * width / (above * below), 700.0))
    return tuple(lowest + width * above / (above + below * each) for each in (factor, 1 / factor))  # type: ignore


def quantile(share: float, freedom: float) -> float:
    """A quantile of Student's distribution, by Wallace's transformation to a normal variable."""
    normal = NormalDist().inv_cdf(share)
    if math.isinf(freedom):
        return normal
    normal *= (8 * freedom + 3) / (8 * freedom + 1)
    return math.copysign(math.sqrt(freedom * math.expm1(min(normal**2 / freedom, 700.0))), normal)


def two_sided(distance: float, freedom: float) -> float:
    """The share of Student's distribution beyond a distance from 0 on either side, by the same transformation."""
    normal = distance
    if math.isfinite(freedom):
        normal = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(distance**2 / freedom))
    return math.erfc(normal / math.sqrt(2))
