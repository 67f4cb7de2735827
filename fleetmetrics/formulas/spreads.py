"""Variances from global sums: one core for intervals, and for verdicts on slices.

Independent units, rows or users, add terms to a few sums. The delta method turns the sums of the terms' products, or
the terms of groups of users, into the variance of a function of these sums; the placements of positives and negatives
give that of an area under the ROC curve.
"""

from __future__ import annotations

import functools
import itertools
import math
from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

__all__ = ["Spread", "of_area", "of_area_groups", "of_groups", "of_samples", "placements_of"]

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
#: The same as `EVENTS` for average precision: on the scale of the log-odds, half of them suffice.
_ON_LOG_ODDS = 20
#: A sum of squares is a difference of terms; if it is this small a part of them, only rounding is left.
_ROUNDED = 1e-10
#: Below it the products of three terms are below 1e-300 and lose digits.
_SMALL = 1e-200


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


class Spread(NamedTuple):
    """How much a value varies.

    Args:
        variance: the variance of the value.
        freedom: the degrees of freedom of the variance.
        short: by name, of what there is too little: the number there is, and the number needed.
        groups: see `fleetmetrics.formulas.intervals.IntervalResult`.
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
    return Spread(variance, freedom, _shortages(supply), groups, supply)


def _shortages(supply: Mapping[str, Supply]) -> dict[str, tuple[float, float]]:
    return {name: supplied.short for name, supplied in supply.items() if supplied.short}


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
    for spread, opposite in ((one, other), (other, one)):
        supply = dict(spread.supply)
        for name, theirs in opposite.supply.items():
            if name in supply and one.variance > 0 and other.variance > 0:
                own = supply[name]
                enough = sum(side.number / side.needed if side.needed else math.inf for side in (own, theirs))
                needed = (own.number + theirs.number) / enough if enough > 0 else own.needed
                supply[name] = Supply(own.number, needed, max(own.least, theirs.least))
        short = _shortages(supply) if supply else spread.short
        both.append(spread._replace(short=short, supply=supply))
    return both[0], both[1]


# -- functions of sums over independent samples: the delta method ------------------------------------------------


@functools.lru_cache(maxsize=64)
def monomials(terms: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """The products of this degree of a number of terms, each as the rising numbers of its terms."""
    return tuple(itertools.combinations_with_replacement(range(terms), degree))


@functools.lru_cache(maxsize=256)
def _multiplicity(places: tuple[int, ...]) -> int:
    """How often a product occurs in the expanded power of a sum."""
    return math.factorial(len(places)) // math.prod(math.factorial(places.count(place)) for place in set(places))


def products(
    terms: Sequence[Any], degrees: Sequence[int] = (2, 3), multiply: Callable[[Any, Any], Any] = np.multiply
) -> list[Any]:
    """The products of each unit's terms, in the order of `monomials`: arrays ``[units]``.

    Args:
        terms: arrays ``[units]``.
        degrees: how many terms a product has, from 1 to 4.
        multiply: multiplies two arrays.
    """
    pairs = {places: multiply(terms[places[0]], terms[places[1]]) for places in monomials(len(terms), 2)}

    def product(places: tuple[int, ...]) -> Any:
        if len(places) < 3:
            return terms[places[0]] if len(places) == 1 else pairs[places]
        return multiply(pairs[places[:2]], terms[places[2]] if len(places) == 3 else pairs[places[2:]])

    return [product(places) for degree in degrees for places in monomials(len(terms), degree)]


def moments_of(products: Any, slopes: Sequence[float], degrees: Sequence[int] = (2, 3)) -> list[float]:
    """The sums over units of the powers of ``sum_k g_k x_ik``; 0 if only rounding is left of the squares.

    Args:
        products: of the terms x, summed over units, of these degrees.
        slopes: g.
        degrees: the powers, the first of which is 2.
    """
    moments, start = [], 0
    for degree in degrees:
        factors = [
            _multiplicity(places) * math.prod(slopes[place] for place in places)
            for places in monomials(len(slopes), degree)
        ]
        parts = np.asarray(products[start : start + len(factors)], np.float64) * factors
        moment = parts.sum().item()
        if degree == 2 and not moment > max(_SMALL, _ROUNDED * np.abs(parts).sum()):
            return [0.0] * len(degrees)
        moments.append(0.0 if degree == 4 and moment < 0 else moment)
        start += len(factors)
    return moments


def covariance_of(products: Any, slopes: Sequence[float], others: Sequence[float]) -> float:
    """The sum over units of ``(sum_k g_k x_ik) (sum_k h_k x_ik)``, from that of the products of two terms."""
    both = [(slopes[i] * others[j] + slopes[j] * others[i]) / (1 + (i == j)) for i, j in monomials(len(slopes), 2)]
    return float((np.asarray(products, np.float64) * both).sum())


def slopes_of_residual(numerator: float, denominator: float) -> tuple[float, float]:
    """The slopes of ``n - R d``, what a unit has beyond the quotient R of the sums of n and d."""
    return 1.0, -numerator / denominator if denominator else 0.0


def _slopes_of_reach(slopes: Sequence[float], terms: Any) -> list[float]:
    """The slopes of ``sum_k |g_k x_ik|``, how far a sample can move the value, from the sums of terms of one sign each.

    Terms that go against each other, such as hits and samples, hide in the value how few samples there are.
    """
    return [math.copysign(slope, term) for slope, term in zip(slopes, terms)]


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
        enough = min(enough, _events(*moments_of(products, _slopes_of_reach(slopes, terms))) / SOURCES)
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


def _events(square: float, cube: float) -> float:
    """The number of events behind a sum, from the sums of squares and cubes."""
    if not cube:
        return math.inf
    away = square / cube  # a power of it may be too large
    return square * away * away


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


# -- groups of users ----------------------------------------------------------------------------------------------


def of_groups(groups: np.ndarray, reach: np.ndarray | None = None) -> Spread:
    """The spread of a value, from the contribution of each group of users.

    Formula: ``g / (g - 1) sum(c**2)`` over the g groups with a contribution. A hash puts independent users into groups,
    so that a group varies as its users do: the method of random groups. The variance has ``2 / (k - 1 / g)`` degrees of
    freedom, where ``k = sum(c**4) / sum(c**2)**2``: fewer than g - 1 if a few users make most of it.

    Source: Wolter, Introduction to Variance Estimation (2007), chapter 2; Deng, Knoblich and Lu, "Applying the delta
    method in metric analytics", KDD 2018; Satterthwaite, "An approximate distribution of estimates of variance
    components", Biometrics Bulletin 2 (1946).

    Args:
        groups: the contribution of each to the value, ``[groups]``.
        reach: how far each can move the value, ``[groups]``. It depends on the sizes of users and hardly on the value,
            so that groups that happen to be alike are not taken for many. None: unknown.
    """
    filled = int(np.count_nonzero(groups))
    users = users_in(filled, len(groups))
    exponent, near = _scaled(groups)
    square, cube, fourth = ((near**power).sum().item() for power in (2, 3, 4))
    peaked = fourth / square**2 if fourth else math.inf
    enough = 1 / peaked / _EVEN
    if reach is not None:
        reach = _scaled(reach)[1]
        enough = _events((reach**2).sum().item(), (reach**3).sum().item()) / SOURCES
    spread = _of_units(square, filled, users, min(_events(square, cube) / EVENTS, enough), "users")
    freedom = min(spread.freedom, max(1.0, 2 / (peaked - 1 / filled))) if peaked * filled > 1 else spread.freedom
    return spread._replace(variance=np.ldexp(spread.variance, 2 * exponent).item(), groups=groups, freedom=freedom)


def of_group_terms(terms: np.ndarray, slopes: Sequence[float], signed: bool = False) -> Spread:
    """The spread of a function of sums, from the terms of each group of users: the delta method.

    Args:
        terms: ``[terms, groups]``.
        slopes: the derivatives of the value by the sums of the terms.
        signed: as for `of_samples`.
    """
    gradient = np.asarray(slopes)
    return of_groups(gradient @ terms, None if signed else np.abs(gradient) @ np.abs(terms))


def _scaled(groups: np.ndarray) -> tuple[int, np.ndarray]:
    """Numbers divided by a power of two, so that their powers stay within float64; and its exponent."""
    exponent = int(np.frexp(np.abs(groups).max(initial=0.0))[1])
    return exponent, np.ldexp(groups, -exponent)


def users_in(filled: int, groups: int) -> float:
    """The most likely number of users, from the number of groups that have any; a larger number if all have."""
    return -groups * float(np.log1p(-filled / groups)) if filled < groups else 8.0 * groups


def users_of(samples: Any) -> float:
    """The most likely number of users, from the samples of each group of them; inf if all groups have some."""
    filled = int(np.count_nonzero(samples))
    return users_in(filled, len(samples)) if filled < len(samples) else math.inf


def squares_of_users(groups: np.ndarray, users: np.ndarray) -> np.ndarray:
    """The sums over users of squares, from what groups of users add up to.

    Two users may share a group by chance: this removes that part of all their products from the squares of groups.

    Args:
        groups: of each slice, the sum of each group: ``[slices, groups]``.
        users: the number of users of each slice, ``[slices]``.
    """
    total, number = groups.sum(axis=1) ** 2, groups.shape[1]
    alone = ((groups**2).sum(axis=1) - total / number) / (1 - 1 / number)
    least: np.ndarray = total / np.maximum(users, 1)
    return np.maximum(alone, least)


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
    equal = 1 / users_in(int(np.count_nonzero(sizes)), len(sizes))
    return Largest(share, of) if share >= max(1 / LEAST, 2 * equal) else None


# -- areas under the ROC curve, and under the steps of the precision-recall curve ----------------------------------


def placements(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """By bucket, the share of negatives below a positive, and of positives above a negative; and the area."""
    positives, negatives = positive.sum() or 1, negative.sum() or 1
    of_positive = (np.cumsum(negative) - negative / 2) / negatives
    of_negative = 1 - (np.cumsum(positive) - positive / 2) / positives
    return of_positive, of_negative, positive.dot(of_positive).item() / positives


def placements_of_precision(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The same for average precision: its derivatives by the number of samples in a bucket, on that scale.

    One more positive counts with its precision and raises that of all positives at or below it; one more negative
    lowers theirs. With P and N the numbers of both classes, T and F those at or above a bucket:

        above(b) = T / (T + F) + sum_{c <= b} positive[c] * F / (T + F)**2
        below(b) = A - N / P * sum_{c <= b} positive[c] * T / (T + F)**2

    So a positive moves the value by ``(above - A) / P`` and a negative by ``(below - A) / N``, as for `placements`.
    """
    positives, negatives = positive.sum() or 1, negative.sum() or 1
    true, false = (np.cumsum(each[::-1])[::-1] for each in (positive, negative))
    both = np.where(true + false > 0, true + false, 1)
    precision = true / both
    area = positive.dot(precision).item() / positives
    of_positive = precision + np.cumsum(positive * false / both**2)
    of_negative = area - negatives / positives * np.cumsum(positive * true / both**2)
    return of_positive, of_negative, area


#: By curve, the placements of the samples of both classes.
_PLACEMENTS = {"ROC": placements, "PR": placements_of_precision}


def placements_of(curve: str, positive: Any, negative: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """By bucket, how far a positive and a negative of weight 1 move the area times their number; and the area.

    Args:
        curve: "ROC", or "PR" for average precision.
        positive: the weight of the samples labeled 1 by bucket.
        negative: the same for label 0.
    """
    return _PLACEMENTS[curve](np.asarray(positive, np.float64), np.asarray(negative, np.float64))


def contributions_to_area(positive: Any, negative: Any, curve: str = "ROC") -> tuple[np.ndarray, np.ndarray]:
    """What a positive, and a negative, of weight 1 adds to the area, by bucket: ``(v - A) / W``, see `of_area`."""
    of_positive, of_negative, area = placements_of(curve, positive, negative)
    return (of_positive - area) / (float(positive.sum()) or 1), (of_negative - area) / (float(negative.sum()) or 1)


def of_area(positive: Any, negative: Any, positive_squares: Any, negative_squares: Any, curve: str = "ROC") -> Spread:
    """The spread of the area under the ROC curve, or of average precision, of independent samples.

    Formula: with A the area, and the placements v, the weighted share of negatives below a positive and of positives
    above a negative, ``m / (m - 1) sum_i (w_i (v_i - A) / W1)**2`` over the positives, plus the same over the
    negatives; m is ``W1**2 / sum_i w_i**2``, without weights the number of positives. For average precision, v is
    that of `placements_of_precision`: the delta method, by the numbers of both classes in each bucket.

    Source: DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 44 (1988); from ranks, and so from a histogram: Sun and Xu, "Fast implementation
    of DeLong's algorithm", IEEE Signal Processing Letters 21 (2014). The scale of the log-odds for average precision:
    Boyd, Eng and Page, "Area under the precision-recall curve: point estimates and confidence intervals", ECML PKDD
    2013.

    Args:
        positive: the weight of the samples labeled 1 by bucket of their scores.
        negative: the same for label 0.
        positive_squares: the sums of the squares of the weights by bucket.
        negative_squares: the same for label 0.
        curve: "ROC", or "PR" for average precision.
    """
    classes = _Classes.of(positive, negative, positive_squares, negative_squares, curve)
    supply = classes.supply(1.0)
    variance = sum(classes.parts)
    if not variance > 0:
        return _spread(math.nan, 1.0, supply)
    freedom = variance**2 / sum(part**2 / (size - 1) for part, size in zip(classes.parts, classes.sizes))
    return _spread(variance, freedom, supply)


def of_area_groups(
    groups: np.ndarray,
    positive: Any,
    negative: Any,
    positive_squares: Any,
    negative_squares: Any,
    curve: str = "ROC",
) -> Spread:
    """The same if only users are independent, from the contribution of each group of users to the area.

    Source: Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 53 (1997).

    Args:
        groups: as for `of_groups`.
        positive: as for `of_area`.
        negative: likewise.
        positive_squares: likewise.
        negative_squares: likewise.
        curve: likewise.
    """
    classes = _Classes.of(positive, negative, positive_squares, negative_squares, curve)
    spread = of_groups(groups)
    inflation = max(1.0, spread.variance / sum(classes.parts)) if sum(classes.parts) else 1.0
    users = {name: Supply(supplied.number, 0.0) for name, supplied in spread.supply.items()}
    supply = {**users, **classes.supply(inflation)}
    return _spread(spread.variance, spread.freedom, supply, groups)


class _Classes(NamedTuple):
    """The samples of both classes, positives first: what they add to the variance of an area, and their number.

    Args:
        area: the value.
        parts: the contributions to the variance.
        sizes: the effective numbers of samples.
        cube: the sum of the cubes of what samples add to the value.
        curve: "ROC" or "PR".
    """

    area: float
    parts: list[float]
    sizes: list[float]
    cube: float
    curve: str

    @staticmethod
    def of(positive: Any, negative: Any, positive_squares: Any, negative_squares: Any, curve: str) -> _Classes:
        above, below, area = placements_of(curve, positive, negative)
        parts, sizes, cube = [], [], 0.0
        for weight, squares, placed in ((positive, positive_squares, above), (negative, negative_squares, below)):
            total, squares = float(weight.sum()), np.asarray(squares, np.float64)
            size = total**2 / squares.sum().item() if total else 0.0
            part = squares.dot((placed - area) ** 2).item() / total**2 if total else 0.0
            parts.append(part * size / (size - 1) if size > 1 else math.nan)
            sizes.append(size)
            if total and curve == "PR":
                alike = squares * np.divide(squares, weight, out=np.zeros_like(squares), where=np.asarray(weight) > 0)
                cube += alike.dot(((placed - area) / total) ** 3).item()
        return _Classes(area, parts, sizes, cube, curve)

    def supply(self, inflation: float) -> dict[str, Supply]:
        """The samples of both classes; this many samples of a user count as one."""
        if self.curve == "PR":
            enough = _events(sum(self.parts), self.cube) / _ON_LOG_ODDS
            needed = [self.sizes[0] / enough if enough > 0 else self.sizes[0] * _ON_LOG_ODDS, 0.0]
        else:
            needed = [_PAIRS / max(min(self.area, 1 - self.area), 0.5 / max(min(self.sizes), 1))] * 2
        return {
            name: Supply(size, need * inflation, LEAST * inflation)
            for name, size, need in zip(("positives", "negatives"), self.sizes, needed)
        }


def inflation_of_areas(positive: Any, negative: Any) -> float:
    """The variance of an area of rows in groups, divided by that of single rows.

    Formula: the sum over groups of the squares of what their rows add to the area, over the sum of the squares of what
    each row adds; at least 1.

    Args:
        positive: for each group, numbers of samples labeled 1 by bucket, ``[groups, buckets]``. A group may hold
            several users, if chance puts them together.
        negative: the same for label 0.
    """
    p, n = positive.sum(axis=0), negative.sum(axis=0)
    of_positive, of_negative = contributions_to_area(p, n)
    by_group = positive.dot(of_positive) + negative.dot(of_negative)
    of_rows = p.dot(of_positive**2) + n.dot(of_negative**2)
    return max(1.0, (by_group.dot(by_group) / of_rows).item()) if of_rows > 0 else 1.0
