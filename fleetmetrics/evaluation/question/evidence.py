"""The evidence for verdicts on slices: sums of each slice, and the variation of the rows or users of the whole.

See `fleetmetrics.formulas.slices`. A metric's `quotient` names its sums; the area under the ROC curve is tested with
its own histograms. Other metrics, and areas of weighted rows, get no verdict. The sums over rows and users are those
that `Interval` keeps:

| metric | of each slice | of all rows |
| --- | --- | --- |
| area | its histogram | users: `AreaOfGroups` |
| quotient | its sums | `SumsOfRows` |
| quotient, weighted rows | `SumsOfRows` with the terms and products of four | |
| quotient, users | `SumsOfUsers` | |
| mean over users or queries | the same, from records | |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.evaluation.question.scarce import because_of, because_of_uneven, in_full
from fleetmetrics.formulas.slices import (
    Residuals,
    SliceTests,
    areas_against_whole,
    quotients_against_whole,
    residuals_of_slices,
    residuals_of_whole,
)
from fleetmetrics.formulas.spreads import inflation_of_areas, largest_of, products, squares_of_users, users_in
from fleetmetrics.metrics.auc import AUC
from fleetmetrics.records.table import Records
from fleetmetrics.state.state import State
from fleetmetrics.support.typed import Unpack
from fleetmetrics.wrappers.unit_sums import (
    AreaOfGroups,
    SumsOfRows,
    SumsOfUsers,
    UnitSums,
    terms_of_groups,
    value_sums,
)
from fleetmetrics.wrappers.wrapper import Wrapper

__all__ = ["Evidence", "GroupCount", "Tested", "evidence_of"]

#: The number of groups of users by hash: the evidence of a slice does not grow with the number of users.
_GROUPS = 1024
#: Enough groups, and buckets, of the areas of all rows to measure how alike the rows of a user are.
_FEW_GROUPS, _FEW_BUCKETS = 512, 128
#: The degrees of the products of units of uneven sizes: the terms, and what the moments of residuals need.
_UNEVEN = (1, 2, 3, 4)


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
        ends = {"low": float(self.low[place]), "high": float(self.high[place])}
        needs, number = {}, self.tests.units[place].item()
        for name, need in self.needs[place].items():
            if name in ("positives", "negatives"):  # all of them count
                needs[name] = need
                continue
            name = "rows" if self.in_rows and self.in_rows[place] and name not in counts else name
            needs[name] = in_full(need, number, counts.get(name))
        because = self.because[place] if needs and self.because else {}
        return {**ends, "p": float(self.tests.p_value[place]), "needs": needs, "because": because}


class Evidence(ABC):
    """The test of a metric.

    Args:
        metric: without samples.
        unit: the unit that `Tested.needs` counts.
    """

    metric: Any
    unit: str

    def __init__(self, metric: Any, unit: str) -> None:
        self.metric, self.unit = metric, unit

    def of_slice(self) -> Metric:
        """A new metric of the evidence of each slice."""
        return _Summed(self.metric)

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
        return _Areas(metric, user) if plain and not weighted else None
    if metric.quotient is None:
        return None
    users = "queries" if query else "users"
    if isinstance(metric, GroupedMetric):
        return _QuotientsOfUnits(metric, users)
    if user:
        return _QuotientsOfUsers(metric, users, weighted)
    return _QuotientsOfUnits(metric, "rows") if weighted else _QuotientsOfRows(metric, "rows")


# -- what is kept ---------------------------------------------------------------------------------------------


class _Summed(Wrapper):
    """A metric whose value are the sums that a test needs.

    Args:
        metric: without samples.
        sums: those "of the value", "of rows", "of uneven rows", "of users", or of "areas of users".
    """

    metric: Any
    _units: UnitSums | None = None

    def __init__(self, metric: Metric, sums: str = "of the value", **common: Unpack[Common]) -> None:
        self.sums = sums
        super().__init__(metric, **common)

    def _fit(self) -> None:
        if self.sums.endswith("of users"):
            self.columns = tuple(dict.fromkeys((*self.metric.columns, "user")))

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        if self.sums == "of the value":
            self.metric.become_part(prefix, shared)
            return list(self.metric.own_states())
        self.metric.become_part(prefix, Shared())
        self._units = self._sums_of_units()
        return self._units.adopted(prefix, shared)

    def _sums_of_units(self) -> UnitSums:
        if self.sums == "areas of users":
            return AreaOfGroups(self.metric, "user", _FEW_GROUPS)
        if self.sums == "of users":
            return SumsOfUsers(self.metric, "user", _GROUPS, counts_rows=False)
        if self.sums == "of uneven rows":
            return SumsOfRows(self.metric, degrees=_UNEVEN)
        signed = self.metric.linear.lowest < 0  # otherwise the skewness of a row's residual bounds its peak
        return SumsOfRows(self.metric, degrees=(2, 3, 4) if signed else (2, 3))

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return self.metric.increments_of(batch) if self._units is None else self._units.statistics(batch)

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        return value_sums(values, self.metric) if self._units is None else self._units.read(values, carries)

    def values_from_rows(self, values: Mapping[State, np.ndarray]) -> Sequence[Any] | None:
        return list(value_sums(values, self.metric)) if self._units is None and self.metric.ranked else None


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
        records: Mapping[str, Any] = self.metric.batch_records(batch)
        return records


class _SummedMeans(_Grouped):
    """The sums over users or queries of the products of their terms, and their number: those of `SumsOfRows`."""

    counts: ClassVar[tuple[str, ...]] = ("units",)  # type: ignore[misc]

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {f"sum_{place}": () for place in range(14)}

    def of_groups(self, records: Records) -> dict[str, Any]:
        values = self.metric.of_groups(records)
        terms = np.ldexp(terms_of_groups(values, self.metric.linear), values.get("exponent", 0))
        sums = products(list(terms), _UNEVEN)
        return {**{f"sum_{place}": product for place, product in enumerate(sums)}, "units": (terms != 0).any(axis=0)}

    def formula(self, units: int, **sums: Any) -> Any:
        return [*map(float, sums.values()), units]


class GroupCount(_Grouped):
    """The number of users or queries, from the records of a metric that keeps them."""

    counts: ClassVar[tuple[str, ...]] = ("groups",)  # type: ignore[misc]

    def of_groups(self, records: Records) -> dict[str, Any]:  # noqa: D102
        group = records[self.table.order or ""]
        return {"groups": np.ones(np.count_nonzero(group[1:] != group[:-1]) + 1, np.int64)}

    def formula(self, groups: int) -> Any:  # noqa: D102
        return groups


# -- the tests ------------------------------------------------------------------------------------------------


class _Areas(Evidence):
    def __init__(self, metric: AUC, user: bool) -> None:
        super().__init__(metric, "positives")
        self.user = user

    def of_whole(self) -> Metric | None:
        few: Any = {"buckets": _FEW_BUCKETS, "spacing": self.metric.spacing, "from_logits": self.metric.from_logits}
        return _Summed(AUC(**few), "areas of users") if self.user else None

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        negative, positive = zip(*slices)
        inflation = 1.0 if whole is None else inflation_of_areas(whole[:, 1], whole[:, 0])
        tests = areas_against_whole(positive, negative, confidence, inflation)
        needs = []
        for m, n, (positives, negatives) in zip(positive, negative, tests.needed.tolist()):
            short = {"positives": positives} if m.sum() < positives else {}
            needs.append({**short, **({"negatives": negatives} if n.sum() < negatives else {})})
        largest = None if whole is None else largest_of(whole.sum(axis=(1, 2)), "all rows")
        return Tested(tests, tests.low, tests.high, needs, because=[because_of([largest], "users")] * len(needs))


class _Quotients(Evidence):
    """Sums of quotients: of each slice the numerator and the denominator, and the residuals of units."""

    def _tests(self, sums: Any, units: Any, residuals: Residuals, confidence: float, squares: Any = None) -> Tested:
        quotient = self.metric.quotient
        numerator, denominator = np.array(sums, np.float64).T
        bounds = math.nan if quotient.lowest < 0 else quotient.highest
        square, cubes, fourth, mixed = residuals if np.isfinite(np.hstack(residuals)).all() else [math.nan] * 4
        fourth = fourth if quotient.lowest < 0 else 0.0  # otherwise the skewness bounds a residual
        tests = quotients_against_whole(
            numerator, denominator, units, square, cubes, bounds, confidence, squares, fourth, mixed
        )
        low, high = np.sort([[quotient.value(end) for end in ends] for ends in (tests.low, tests.high)], axis=0)
        enough = ~np.isnan(tests.score) | (tests.units >= tests.needed)
        needs = [{} if known else {self.unit: need} for known, need in zip(enough, tests.needed.tolist())]
        total = denominator.sum().item()
        return Tested(tests, low, high, needs, quotient.value(numerator.sum().item() / total) if total else None)


class _QuotientsOfRows(_Quotients):
    """Rows of one size."""

    def of_whole(self) -> Metric | None:
        return _Summed(self.metric, "of rows")

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        *products, rows = whole
        return self._tests(slices, rows, residuals_of_whole(np.sum(slices, axis=0), products), confidence)


class _QuotientsOfUnits(_Quotients):
    """Users, queries, or rows with weights: one with a large weight decides its slice like a user with many rows."""

    def of_slice(self) -> Metric:
        metric = self.metric
        return _SummedMeans(metric) if isinstance(metric, GroupedMetric) else _Summed(metric, "of uneven rows")

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        table = np.array(slices, np.float64)
        sums, squares, units = table[:, :2], table[:, 4], table[:, 14]
        residuals = residuals_of_slices(sums, table[:, 2:14])
        cube, of_others = residuals.cubes
        either = [cube, of_others, 2 * cube - of_others]  # the next unit of this size may be on either side
        tested = self._tests(sums, units, residuals._replace(cubes=either), confidence, squares)
        equal_units = table[:, 1] ** 2 / np.maximum(squares, 1e-300)  # units of one size would vary as much
        uneven = zip(equal_units.tolist(), units.tolist())
        return tested._replace(because=[because_of_uneven(*numbers, self.unit) for numbers in uneven])


class _QuotientsOfUsers(_Quotients):
    """Users whose rows are summed by group of users."""

    def __init__(self, metric: Any, unit: str, weighted: bool) -> None:
        super().__init__(metric, unit)
        self.of = "weight" if weighted else "rows"
        if not metric.quotient.counts_samples:
            self.of = "denominator"

    def of_slice(self) -> Metric:
        return _Summed(self.metric, "of users")

    def tested(self, slices: Sequence[Any], whole: Any, confidence: float) -> Tested:
        n, d = np.moveaxis(np.array(slices), 1, 0)
        filled = np.count_nonzero((n != 0) | (d != 0), axis=1)
        users = np.array([users_in(groups, _GROUPS) for groups in filled.tolist()])
        sums = np.stack([n.sum(axis=1), d.sum(axis=1)], 1)
        residuals = residuals_of_slices(sums, np.sum(products([n, d], (2, 3, 4)), axis=2).T)
        tested = self._tests(sums, users, residuals, confidence, squares_of_users(d, users))
        because = [because_of([largest_of(sizes, self.of)], self.unit) for sizes in d]
        in_rows = (filled == _GROUPS) | (self.of == "denominator")  # users may have no part in the latter
        return tested._replace(because=because, in_rows=in_rows.tolist())
