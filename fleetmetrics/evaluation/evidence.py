"""What verdicts on slices need: a few sums of each slice, and how much the rows or users of the whole vary.

See `fleetmetrics.formulas.slices`. A metric says by its `quotient` of which sums it is one; the area under the ROC
curve is tested by the histograms that it holds anyway. Other metrics, and areas of weighted rows, get no verdict.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, words
from fleetmetrics.batch.keys import keys_of
from fleetmetrics.formulas.intervals import moments_of, products
from fleetmetrics.formulas.slices import SliceTests, areas_against_whole, inflation_of_areas, quotients_against_whole
from fleetmetrics.metric import Linear, Metric
from fleetmetrics.metrics.auc import AUC
from fleetmetrics.record_metric import GroupedMetric
from fleetmetrics.records.table import Records
from fleetmetrics.shared import Shared
from fleetmetrics.state import State
from fleetmetrics.wrappers.spreads import sums_in, terms_of, terms_of_groups, without_weight
from fleetmetrics.wrappers.wrapper import Wrapper
from fleetmetrics.xp import numpy_ops

__all__ = ["Evidence", "GroupCount", "Tested", "evidence_of"]

#: How many groups a hash puts the users into: what a slice keeps does not grow with the number of users.
_GROUPS = 1024
#: How many groups, and buckets, of the areas of all rows are enough to see how alike the rows of a user are.
_FEW_GROUPS, _FEW_BUCKETS = 512, 128
#: In how many groups a slice has a quotient of its own.
_MANY = 30


class Tested(NamedTuple):
    """The tests of the slices of a column, with intervals of the value, and what there must be more of: names."""

    tests: SliceTests
    low: np.ndarray
    high: np.ndarray
    needs: list[dict[str, int]]


class Evidence(ABC):
    """How a metric is tested.

    Args:
        metric: without samples.
        unit: what `Tested.needs` counts.
    """

    metric: Metric
    unit: str

    def __init__(self, metric: Metric, unit: str) -> None:
        self.metric, self.unit = metric, unit

    @abstractmethod
    def of_slice(self) -> Metric:
        """A new metric of what is kept of each slice."""

    def of_whole(self) -> Metric | None:
        """A new metric of what is kept of all rows; None: nothing."""
        return None

    @abstractmethod
    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        """The tests, from what those metrics have computed."""


def evidence_of(metric: Metric, weighted: bool, user: bool, query: bool) -> Evidence | None:
    """How a metric is tested; None: it is not.

    Args:
        metric: of the command line, new.
        weighted: whether rows have weights.
        user: whether rows have users, whose rows are alike.
        query: whether these are called queries.
    """
    if isinstance(metric, AUC):
        plain = metric.cells and metric.curve == "ROC" and metric.max_fpr is None and not metric.bounds
        return _OfAreas(metric, user) if plain and not weighted else None
    if metric.quotient is None:
        return None
    groups = "queries" if query else "users"
    if isinstance(metric, GroupedMetric):
        return _OfGroups(metric, groups)
    return _OfUsers(metric, groups) if user else _OfRows(metric, "rows")


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
        negative, positive = np.moveaxis(np.array(slices, np.float64), 1, 0)
        inflation = 1.0 if whole is None else inflation_of_areas(whole[:, 1], whole[:, 0])
        tests = areas_against_whole(positive, negative, confidence, inflation)
        needs = []
        for (m, n), (least, other) in zip(zip(positive.sum(1), negative.sum(1)), tests.needed.tolist()):
            short = {"positives": least} if m < least else {}
            needs.append({**short, **({"negatives": other} if n < other else {})})
        return Tested(tests, tests.low, tests.high, needs)


class _Kept(Wrapper):
    """What is kept for a metric, beside it."""

    def _fit(self) -> None:
        """Any metric will do."""

    def _adopted(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.adopt(prefix, shared)
        return list(self.metric.own_states())

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return self.metric.statistics(batch)


class _Held(_Kept):
    """The only state of a metric."""

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        (state,) = self.metric.own_states()
        return values[state]


class _AreasOfUsers(_Kept):
    """The histograms of a metric, by group of users."""

    def _fit(self) -> None:
        self.columns = (*self.metric.columns, "user")

    def _adopted(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.adopt(prefix, Shared())
        (state,) = self.metric.own_states()
        self._all = State(f"{prefix}.by_user", (_FEW_GROUPS, *state.shape), "int64", "sum", None)
        return (self._all,)

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        ((_, increment),) = self.metric.statistics(batch)
        return [(self._all, increment._replace(indices=(_groups(batch, _FEW_GROUPS), *increment.indices)))]

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
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
    """Of quotients: ``[slices]`` numerators, denominators and units, and the moments of what is left of a unit."""

    def _tests(self, sums: Any, units: Any, square: float, cube: float, confidence: float) -> Tested:
        quotient = self.metric.quotient
        assert quotient is not None
        numerator, denominator = np.array(sums, np.float64).T
        bounds = math.nan if quotient.lowest < 0 else quotient.highest
        tests = quotients_against_whole(numerator, denominator, units, square, cube, bounds, confidence)
        ends = np.sort([[quotient.value(each) for each in end] for end in (tests.low, tests.high)], axis=0)
        enough = ~np.isnan(tests.score) | (np.array(units) >= tests.needed)
        needs = [{} if some else {self.unit: need} for some, need in zip(enough, tests.needed.tolist())]
        return Tested(tests, ends[0], ends[1], needs)


def _residuals(products: Any, sums: Any) -> tuple[float, float]:
    """The sums of squares and cubes of ``n - R d``, where R is the quotient of the sums."""
    return moments_of(products, (1.0, -sums[0] / sums[1] if sums[1] else 0.0))


class _OfRows(_OfQuotients):
    def of_slice(self) -> Metric:
        return _Sums(self.metric)

    def of_whole(self) -> Metric | None:
        return _Products(self.metric)

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        sums = [each[:2] for each in slices]
        total = sum(each[1] for each in slices)
        units = [whole[7] * each[1] / total if total else 0.0 for each in slices]  # those that count for something
        square, cube = _residuals(whole[:7], np.sum(sums, axis=0))
        return self._tests(sums, units, square, cube, confidence)


class _Sums(_Kept):
    """The numerator and the denominator of a metric."""

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return sums_in(values, self.metric, _linear(self.metric))


def _linear(metric: Metric) -> Linear:
    """The numerator and the denominator."""
    quotient = metric.quotient
    assert quotient is not None
    return quotient.linear


class _Products(_Kept):
    """The `products` of both, summed over rows; and how many rows count for something."""

    def _adopted(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.adopt(prefix, Shared())
        self._all = State(f"{prefix}.products", (8,), "float64", "sum", None)
        return (self._all,)

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        n, d = (np.asarray(each, np.float64) for each in terms_of(self.metric, batch, _linear(self.metric)))
        sums = products([n, d]).sum(axis=1)
        return [(self._all, np.append(sums, np.count_nonzero((n != 0) | (d != 0))))]

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return values[self._all]


class _OfUsers(_OfQuotients):
    def of_slice(self) -> Metric:
        return _SumsOfUsers(self.metric)

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        n, d = np.moveaxis(np.array(slices), 1, 0)
        filled = np.count_nonzero((n != 0) | (d != 0), axis=1)
        with np.errstate(divide="ignore"):  # how many users have most likely filled this number of groups
            units = np.where(filled < _GROUPS, -_GROUPS * np.log1p(-filled / _GROUPS), 8 * _GROUPS)
        sums = np.stack([n.sum(axis=1), d.sum(axis=1)], 1)
        all_sums, squares, cubes = sums.sum(axis=0), 0.0, 0.0
        for each, own, number in zip(products([n, d]).sum(axis=2).T, sums, filled):
            many = number >= _MANY  # then by its own quotient, or a bad slice would hide others
            square, cube = _residuals(each, own if many else all_sums)
            squares += square * float(number / (number - 1)) if many else square
            cubes += cube
        return self._tests(sums, units, squares, cubes, confidence)


class _SumsOfUsers(_Kept):
    """The numerator and the denominator by group of users: ``[2, groups]``."""

    def _fit(self) -> None:
        self.columns = tuple(dict.fromkeys((*self.metric.columns, "user")))

    def _adopted(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.adopt(prefix, Shared())
        names = "numerator", "denominator"
        self._both = [State(f"{prefix}.{name}_by_user", (_GROUPS,), "float64", "sum", None) for name in names]
        return self._both

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        group, plain = _groups(batch, _GROUPS), without_weight(batch)
        amounts = zip(self._both, terms_of(self.metric, batch, _linear(self.metric)))
        return [(state, plain.histogram(group, amount=np.asarray(each, np.float64))) for state, each in amounts]

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return np.stack([values[state] for state in self._both])


# -- means over users or queries ----------------------------------------------------------------------------


class _OfGroups(_OfQuotients):
    metric: GroupedMetric

    def of_slice(self) -> Metric:
        return _GroupSums(self.metric)

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        table = np.array(slices, np.float64)
        square, cube = _residuals(table[:, 2:9].sum(axis=0), table[:, :2].sum(axis=0))
        return self._tests(table[:, :2], table[:, 9], square, cube, confidence)


class _Grouped(GroupedMetric):
    """Something of the groups of another metric, of its records."""

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
    """The numerator and the denominator, their `products`, and how many groups count for something."""

    counts: ClassVar[tuple[str, ...]] = ("units",)  # type: ignore[misc]

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {f"sum_{place}": () for place in range(9)}

    def of_groups(self, records: Records) -> dict[str, Any]:
        found = self.metric.of_groups(records)
        n, d = np.ldexp(terms_of_groups(found, _linear(self.metric)), found.get("exponent", 0))
        sums = {f"sum_{place}": each for place, each in enumerate([n, d, *products([n, d])])}
        return {**sums, "units": (n != 0) | (d != 0)}

    def formula(self, units: int, **sums: Any) -> Any:
        return [*(float(each) for each in sums.values()), units]


class GroupCount(_Grouped):
    """How many users or queries there are, by the records of a metric that keeps them."""

    counts: ClassVar[tuple[str, ...]] = ("groups",)  # type: ignore[misc]

    def of_groups(self, records: Records) -> dict[str, Any]:  # noqa: D102
        group = records[self.table.order or ""]
        return {"groups": np.ones(np.count_nonzero(group[1:] != group[:-1]) + 1, np.int64)}

    def formula(self, groups: int) -> Any:  # noqa: D102
        return groups
