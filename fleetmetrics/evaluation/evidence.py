"""The evidence for verdicts on slices: a few sums of each slice, and the variation of the rows or users of the whole.

See `fleetmetrics.formulas.slices`. A metric's `quotient` names its sums; the area under the ROC curve is tested with
its own histograms. Other metrics, and areas of weighted rows, get no verdict.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.metric import Linear, Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, words
from fleetmetrics.batch.keys import keys_of
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.evaluation.scarce import because_of, because_of_uneven, in_full
from fleetmetrics.formulas.intervals import largest_of, moments_of, products
from fleetmetrics.formulas.slices import (
    SliceTests,
    areas_against_whole,
    inflation_of_areas,
    quotients_against_whole,
)
from fleetmetrics.metrics.auc import AUC
from fleetmetrics.records.table import Records
from fleetmetrics.state.state import State
from fleetmetrics.wrappers.spreads import sums_in, terms_of, terms_of_groups, without_weight
from fleetmetrics.wrappers.wrapper import Wrapper
from fleetmetrics.xp import numpy_ops

__all__ = ["Evidence", "GroupCount", "Tested", "evidence_of"]

#: The number of groups of users by hash: the evidence of a slice does not grow with the number of users.
_GROUPS = 1024
#: Enough groups, and buckets, of the areas of all rows to measure how alike the rows of a user are.
_FEW_GROUPS, _FEW_BUCKETS = 512, 128
#: The number of groups of one size from which a slice uses its own quotient.
_MANY = 30


class Tested(NamedTuple):
    """The tests of the slices of a column, with intervals of the value, and the names of units that are too few.

    ``together`` is the value of all slices together; the tests compare each slice with it. It differs from the value of
    all rows if users or queries have rows in several slices. None: it is the value of all rows. ``because`` has the
    reason of each slice for its needs, as `Scarce` has it, and ``in_rows`` whether these are rows and not users,
    because there are more users than the groups show.
    """

    tests: SliceTests
    low: np.ndarray
    high: np.ndarray
    needs: list[dict[str, int]]
    together: float | None = None
    because: Sequence[Mapping[str, Any]] = ()
    in_rows: Sequence[bool] = ()

    def of(self, place: int, counts: Mapping[str, int]) -> dict[str, Any]:
        """The entries of a result for one of the slices, with what there is of it, as `counts_of` has it."""
        ends = {"low": self.low[place], "high": self.high[place]}
        needs, number = {}, self.tests.units[place].item()
        for name, need in self.needs[place].items():
            if name in ("positives", "negatives"):  # all of them count
                needs[name] = need
                continue
            name = "rows" if self.in_rows and self.in_rows[place] and name not in counts else name
            needs[name] = in_full(need, number, counts.get(name))
        because = self.because[place] if needs and self.because else {}
        return {**ends, "p": self.tests.p_value[place], "needs": needs, "because": because}


class Evidence(ABC):
    """The test of a metric.

    Args:
        metric: without samples.
        unit: the unit that `Tested.needs` counts.
    """

    metric: Metric
    unit: str

    def __init__(self, metric: Metric, unit: str) -> None:
        self.metric, self.unit = metric, unit

    @abstractmethod
    def of_slice(self) -> Metric:
        """A new metric of the evidence of each slice."""

    def of_whole(self) -> Metric | None:
        """A new metric of the evidence of all rows; None without one."""
        return None

    @abstractmethod
    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        """The tests, from the values of those metrics."""


def evidence_of(metric: Metric, weighted: bool, user: bool, query: bool) -> Evidence | None:
    """The test of a metric; None if it has none.

    Args:
        metric: of the command line, new.
        weighted: whether rows have weights.
        user: whether rows have users, whose rows are alike.
        query: whether these are called queries.
    """
    if isinstance(metric, AUC):
        plain = metric.cell_states and metric.curve == "ROC" and metric.max_fpr is None and not metric.bounds
        return _OfAreas(metric, user) if plain and not weighted else None
    if metric.quotient is None:
        return None
    groups = "queries" if query else "users"
    if isinstance(metric, GroupedMetric):
        return _OfGroups(metric, groups)
    if user:
        return _OfUsers(metric, groups, weighted)
    return _OfWeightedRows(metric, "rows") if weighted else _OfRows(metric, "rows")


# -- areas ------------------------------------------------------------------------------------------------


class _OfAreas(Evidence):
    metric: AUC

    def __init__(self, metric: AUC, user: bool) -> None:
        super().__init__(metric, "positives")
        self.user = user

    def of_slice(self) -> Metric:
        return _Held(self.metric)

    def of_whole(self) -> Metric | None:
        few: Any = {"buckets": _FEW_BUCKETS, "spacing": self.metric.spacing, "from_logits": self.metric.from_logits}
        return _AreasOfUsers(AUC(**few)) if self.user else None

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        negative, positive = zip(*slices)
        inflation = 1.0 if whole is None else inflation_of_areas(whole[:, 1], whole[:, 0])
        tests = areas_against_whole(positive, negative, confidence, inflation)
        needs = []
        for m, n, (least, other) in zip(positive, negative, tests.needed.tolist()):
            short = {"positives": least} if m.sum() < least else {}
            needs.append({**short, **({"negatives": other} if n.sum() < other else {})})
        largest = None if whole is None else largest_of(whole.sum(axis=(1, 2)), "all rows")
        return Tested(tests, tests.low, tests.high, needs, because=[because_of([largest], "users")] * len(needs))


class _Kept(Wrapper):
    """Evidence that is kept in addition to a metric."""

    def _fit(self) -> None:
        """Any metric fits."""

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.become_part(prefix, shared)
        return list(self.metric.own_states())

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return self.metric.increments_of(batch)


class _Held(_Kept):
    """The only state of a metric."""

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        (state,) = self.metric.own_states()
        return values[state]

    def values_from_rows(self, values: Mapping[State, np.ndarray]) -> Sequence[Any]:
        (state,) = self.metric.own_states()
        return list(values[state])


class _AreasOfUsers(_Kept):
    """The histograms of a metric, by group of users."""

    def _fit(self) -> None:
        self.columns = (*self.metric.columns, "user")

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.become_part(prefix, Shared())
        (state,) = self.metric.own_states()
        self._all = State(f"{prefix}.by_user", (_FEW_GROUPS, *state.shape), "int64", "sum", None)
        return (self._all,)

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        ((_, increment),) = self.metric.increments_of(batch)
        return [(self._all, increment._replace(indices=(_groups(batch, _FEW_GROUPS), *increment.indices)))]

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return values[self._all]


def _groups(batch: Batch, number: int) -> np.ndarray:
    """The group of each sample's user."""

    def hashed() -> np.ndarray:
        ids = integer_ids(keys_of(batch.columns["user"], "user"))
        found: np.ndarray = words(numpy_ops, ids, 0)[0].astype(np.int64) % number
        return found

    return batch.cached(("groups of users", number), hashed)


# -- quotients --------------------------------------------------------------------------------------------


class _OfQuotients(Evidence):
    """Sums of quotients: ``[slices]`` numerators, denominators and units, and the moments of a unit's residual."""

    def _tests(self, sums: Any, units: Any, moments: Sequence[Any], confidence: float, squares: Any = None) -> Tested:
        quotient = self.metric.quotient
        assert quotient is not None
        numerator, denominator = np.array(sums, np.float64).T
        bounds = math.nan if quotient.lowest < 0 else quotient.highest
        square, cube, fourth, mixed = moments if np.isfinite(np.hstack(moments)).all() else [math.nan] * 4
        fourth = fourth if quotient.lowest < 0 else 0.0  # otherwise the skewness bounds a residual
        tests = quotients_against_whole(
            numerator, denominator, units, square, cube, bounds, confidence, squares, fourth, mixed
        )
        ends = np.sort([[quotient.value(each) for each in end] for end in (tests.low, tests.high)], axis=0)
        enough = ~np.isnan(tests.score) | (tests.units >= tests.needed)
        needs = [{} if some else {self.unit: need} for some, need in zip(enough, tests.needed.tolist())]
        total = denominator.sum().item()
        return Tested(tests, ends[0], ends[1], needs, quotient.value(numerator.sum().item() / total) if total else None)


def _residuals(products: Any, sums: Any) -> tuple[float, float]:
    """The sums of squares and cubes of ``n - R d``, where R is the quotient of the sums."""
    return moments_of(products, (1.0, -sums[0] / sums[1] if sums[1] else 0.0))


def _mixed(products: Any, sums: Any) -> float:
    """The sum of ``(n - R d) d``, where R is the quotient of the sums."""
    _, mixed, square = products[:3]
    return float(mixed - sums[0] / sums[1] * square) if sums[1] else 0.0


def _fours(n: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The products of four: ``n**4``, ``n**3 d`` and so on."""
    two, mixed, other = n * n, n * d, d * d
    return np.stack([two * two, two * mixed, two * other, mixed * other, other * other])


def _fourth(fours: Any, sums: Any) -> float:
    """The sum of the fourth powers of ``n - R d``, where R is the quotient of the sums."""
    rest = -sums[0] / sums[1] if sums[1] else 0.0
    found = float(sum(math.comb(4, k) * rest**k * each for k, each in enumerate(fours)))
    return 0.0 if found < 0 else found  # nan stays


def _moments_of_units(sums: Any, two_and_three: Any, fours: Any) -> tuple[float, list[float], float, float]:
    """Sums over all units of residuals' squares; of cubes, also without the largest; of fourth powers; see `_mixed`.

    One large unit may hide on which side most units are: its cube is at most its slice's fourth powers to the power of
    3/4.

    Args:
        sums: ``[slices, 2]``, numerators and denominators.
        two_and_three: ``[slices, 7]``, the `products` of the units.
        fours: ``[slices, 5]``, their products of four.
    """
    whole, squares, cubes, fourth, largest = np.sum(sums, axis=0), 0.0, 0.0, 0.0, 0.0
    for own, each, four in zip(sums, two_and_three, fours):
        even = own[1] ** 2 / each[2] if each[2] else 0.0  # units of one size with the same evidence
        many = even >= _MANY  # then with its own quotient, otherwise a bad slice would hide others
        around = own if many else whole
        square, cube = _residuals(each, around)
        squares += square * even / (even - 1) if many else square
        cubes += cube
        power = _fourth(four, around)
        fourth += power
        largest = max(largest, math.copysign(power**0.75, cube), key=abs)
    return squares, [cubes, cubes - largest], fourth, _mixed(np.sum(two_and_three, axis=0), whole)


class _OfRows(_OfQuotients):
    def of_slice(self) -> Metric:
        return _Sums(self.metric)

    def of_whole(self) -> Metric | None:
        return _Products(self.metric)

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        sums = [each[:2] for each in slices]
        all_sums = np.sum(sums, axis=0)
        moments = *_residuals(whole[:7], all_sums), _fourth(whole[8:], all_sums), _mixed(whole, all_sums)
        return self._tests(sums, whole[7], moments, confidence)  # rows that count for something


class _Sums(_Kept):
    """The numerator and the denominator of a metric."""

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return sums_in(values, self.metric, _linear(self.metric))


def _linear(metric: Metric) -> Linear:
    """The numerator and the denominator."""
    quotient = metric.quotient
    assert quotient is not None
    return quotient.linear


class _Products(_Kept):
    """The `products` of both, summed over rows; the number of rows with a nonzero term; and products of four.

    The latter only if the residual of a row has either sign; otherwise the skewness bounds it.
    """

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.become_part(prefix, Shared())
        quotient = self.metric.quotient
        assert quotient is not None
        self._peaked = quotient.lowest < 0
        self._all = State(f"{prefix}.products", (13 if self._peaked else 8,), "float64", "sum", None)
        return (self._all,)

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        n, d = (np.asarray(each, np.float64) for each in terms_of(self.metric, batch, _linear(self.metric)))
        sums = products([n, d]).sum(axis=1)
        fours = _fours(n, d).sum(axis=1) if self._peaked else ()
        return [(self._all, np.array([*sums, np.count_nonzero((n != 0) | (d != 0)), *fours]))]

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return values[self._all]


class _OfSums(_OfQuotients):
    """Sums over each slice's units of their `_powers`."""

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        table = np.array(slices, np.float64)
        squares, (cubes, others), *more = _moments_of_units(table[:, :2], table[:, 2:9], table[:, 9:14])
        either = [cubes, others, 2 * cubes - others]  # the next unit of this size may be on either side
        tested = self._tests(table[:, :2], table[:, 14], [squares, either, *more], confidence, table[:, 4])
        like = table[:, 1] ** 2 / np.maximum(table[:, 4], 1e-300)  # units of one size would vary as much
        uneven = zip(like.tolist(), table[:, 14].tolist())
        return tested._replace(because=[because_of_uneven(*each, self.unit) for each in uneven])


def _powers(n: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """The numerator and the denominator of units, their products of two, three and four, and whether one is nonzero."""
    return [n, d, *products([n, d]), *_fours(n, d), (n != 0) | (d != 0)]


class _OfWeightedRows(_OfSums):
    """A row with a large weight decides its slice like a user with many rows."""

    def of_slice(self) -> Metric:
        return _SumsOfRows(self.metric)


class _SumsOfRows(_Kept):
    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.become_part(prefix, Shared())
        self._all = [State(f"{prefix}.sum_{place}", (), "float64", "sum", None) for place in range(15)]
        return self._all

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        n, d = (np.asarray(each, np.float64) for each in terms_of(self.metric, batch, _linear(self.metric)))
        plain = without_weight(batch)
        return [
            (state, plain.weighted_sum(np.asarray(each, np.float64))) for state, each in zip(self._all, _powers(n, d))
        ]

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return [float(values[state]) for state in self._all]


class _OfUsers(_OfQuotients):
    def __init__(self, metric: Metric, unit: str, weighted: bool) -> None:
        super().__init__(metric, unit)
        assert metric.quotient is not None
        self.of = ("weight" if weighted else "rows") if metric.quotient.counts_samples else "denominator"

    def of_slice(self) -> Metric:
        return _SumsOfUsers(self.metric)

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        n, d = np.moveaxis(np.array(slices), 1, 0)
        filled = np.count_nonzero((n != 0) | (d != 0), axis=1)
        with np.errstate(divide="ignore"):  # the most likely number of users that fill this number of groups
            units = np.where(filled < _GROUPS, -_GROUPS * np.log1p(-filled / _GROUPS), 8 * _GROUPS)
        sums = np.stack([n.sum(axis=1), d.sum(axis=1)], 1)
        moments = _moments_of_units(sums, products([n, d]).sum(axis=2).T, _fours(n, d).sum(axis=2).T)
        tested = self._tests(sums, units, moments, confidence, _squares_of_users(d, units))
        because = [because_of([largest_of(sizes, self.of)], self.unit) for sizes in d]
        in_rows = (filled == _GROUPS) | (self.of == "denominator")  # users may have no part in the latter
        return tested._replace(because=because, in_rows=in_rows.tolist())


def _squares_of_users(groups: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Of each slice the sum over users of squares, from the sums of groups of users: ``[slices, groups]``.

    Two users of a slice may share a group by chance: this removes that part of all their products from the squares.
    """
    total, number = groups.sum(axis=1) ** 2, groups.shape[1]
    alone = ((groups**2).sum(axis=1) - total / number) / (1 - 1 / number)
    least: np.ndarray = total / np.maximum(users, 1)
    return np.maximum(alone, least)


class _SumsOfUsers(_Kept):
    """The numerator and the denominator by group of users: ``[2, groups]``."""

    def _fit(self) -> None:
        self.columns = tuple(dict.fromkeys((*self.metric.columns, "user")))

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.become_part(prefix, Shared())
        names = "numerator", "denominator"
        self._both = [State(f"{prefix}.{name}_by_user", (_GROUPS,), "float64", "sum", None) for name in names]
        return self._both

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        group, plain = _groups(batch, _GROUPS), without_weight(batch)
        amounts = zip(self._both, terms_of(self.metric, batch, _linear(self.metric)))
        return [(state, plain.histogram(group, amount=np.asarray(each, np.float64))) for state, each in amounts]

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return np.stack([values[state] for state in self._both])


# -- means over users or queries ----------------------------------------------------------------------------


class _OfGroups(_OfSums):
    metric: GroupedMetric

    def of_slice(self) -> Metric:
        return _GroupSums(self.metric)


class _Grouped(GroupedMetric):
    """Sums over the groups of another metric, from its records."""

    columns: tuple[str, ...]
    requirements: tuple[str | Requirement, ...]
    takes_label: bool | None

    def __init__(self, metric: GroupedMetric) -> None:
        super().__init__()
        self.metric: Any = metric
        self.columns, self.requirements = metric.columns, metric.requirements
        self.takes_label = metric.takes_label
        table = metric.table
        self.keep_records(table.columns, table.order, table.key)

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.metric.batch_records(batch)
        return found


class _GroupSums(_Grouped):
    """The sums over groups of their `_powers`."""

    counts: ClassVar[tuple[str, ...]] = ("units",)  # type: ignore[misc]

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {f"sum_{place}": () for place in range(14)}

    def of_groups(self, records: Records) -> dict[str, Any]:
        found = self.metric.of_groups(records)
        n, d = np.ldexp(terms_of_groups(found, _linear(self.metric)), found.get("exponent", 0))
        *sums, units = _powers(n, d)
        return {**{f"sum_{place}": each for place, each in enumerate(sums)}, "units": units}

    def formula(self, units: int, **sums: Any) -> Any:
        return [*(float(each) for each in sums.values()), units]


class GroupCount(_Grouped):
    """The number of users or queries, from the records of a metric that keeps them."""

    counts: ClassVar[tuple[str, ...]] = ("groups",)  # type: ignore[misc]

    def of_groups(self, records: Records) -> dict[str, Any]:  # noqa: D102
        group = records[self.table.order or ""]
        return {"groups": np.ones(np.count_nonzero(group[1:] != group[:-1]) + 1, np.int64)}

    def formula(self, groups: int) -> Any:  # noqa: D102
        return groups
