"""The sums over independent units, rows or users, that variances follow from, for `Interval` and for verdicts.

| value | rows are independent | only users are |
| --- | --- | --- |
| a function of sums over rows | `SumsOfRows` | `SumsOfUsers` |
| a mean over users or queries | | `MeansOfUsers` |
| an area under a curve | `AreaOfRows` | `AreaOfUsers`; in bounded memory `AreaOfGroups` |
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.base.metric import Linear, Metric
from fleetmetrics.base.record_metric import GroupedMetric, words_of
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, word, words_of_column
from fleetmetrics.batch.lanes import Each
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import spreads
from fleetmetrics.formulas.groups import exact_parts, scaled, starts_of, sums_of
from fleetmetrics.formulas.spreads import Largest, Spread
from fleetmetrics.records.table import Kept, Records
from fleetmetrics.state.state import Lanes, State
from fleetmetrics.support.checks import raise_if_too_large
from fleetmetrics.xp import numpy_ops, without_strays

__all__ = ["AreaOfGroups", "SumsOfRows", "SumsOfUsers", "UnitSums", "terms_of_groups", "unit_sums_of", "value_sums"]

_Values = Mapping[State, np.ndarray]
_Carries = Mapping[Any, Any]


class UnitSums(ABC):
    """Sums over a metric's units, and the spread of its value that follows from them.

    Args:
        metric: with states or records.
        ids: the column of users; "" if rows are independent.
        groups: the number of groups of users.
    """

    metric: Any
    ids: str
    groups: int
    #: Keeps the samples of a user together.
    records: Sequence[_UserTerms] = ()

    def __init__(self, metric: Any, ids: str = "", groups: int = 0) -> None:
        self.metric, self.ids, self.groups = metric, ids, groups

    @abstractmethod
    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        """The states, with names that begin with this prefix."""

    @abstractmethod
    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The increments of the states from a batch."""

    @abstractmethod
    def read(self, values: _Values, carries: _Carries) -> Any:
        """The sums over units."""

    @abstractmethod
    def spread(self, values: _Values, carries: _Carries) -> Spread:
        """The spread of the value."""

    def totals(self, values: _Values, carries: _Carries) -> np.ndarray:
        """The sums over all units, that the value is computed from."""
        return value_sums(values, self.metric)

    def rows_by_group(self, values: _Values, carries: _Carries) -> np.ndarray | None:
        """The number of samples in each group of users; None without users, or if they are not counted."""
        return None

    def users(self, values: _Values, carries: _Carries) -> float | None:
        """The most likely number of users; inf if all groups have samples, None without users."""
        rows = self.rows_by_group(values, carries)
        return None if rows is None else spreads.users_of(rows)

    def largest(self, values: _Values, carries: _Carries) -> Largest | None:
        """The largest of the users, if one is far larger than the others."""
        rows = self.rows_by_group(values, carries)
        return None if rows is None else spreads.largest_of(rows, "rows")


def unit_sums_of(metric: Metric, ids: str, groups: int, bounded: bool = False) -> UnitSums:
    """The sums for the variance of a metric.

    Args:
        metric: with a quotient, or a ranked histogram.
        ids: the column that groups dependent samples; "" for independent ones.
        groups: see `Interval`.
        bounded: whether an area with ids keeps a histogram for each group, instead of an entry for each sample.
    """
    of_rows: type[UnitSums] = SumsOfRows
    of_users: type[UnitSums] = SumsOfUsers
    if isinstance(metric, GroupedMetric):
        of_users = MeansOfUsers
    elif metric.ranked:
        of_rows, of_users = AreaOfRows, AreaOfGroups if bounded else AreaOfUsers
    return (of_users if ids else of_rows)(metric, ids, groups)


def value_sums(values: _Values, metric: Metric) -> np.ndarray:
    """The sums behind a value; of an area, the histogram of both labels.

    Args:
        values: of the metric's states.
        metric: not a mean over users.
    """
    if metric.ranked:
        return values[metric.states[metric.ranked]]
    assert metric.linear is not None
    states = metric.states.items()
    return np.array(
        [
            sum(float((values[state] * np.asarray(factors[name])).sum()) for name, state in states if name in factors)
            for factors in metric.linear.terms
        ]
    )


# -- the terms of rows, and of users ----------------------------------------------------------------------------


def _row_increments(metric: Metric, batch: Batch, ids: str | None = None) -> list[tuple[str, Any]]:
    """The increments of each row to the states of a metric, by name: arrays ``[n]``, or `Scattered`.

    Args:
        metric: whose states.
        batch: the samples.
        ids: the column that groups them; None: they are independent.
    """

    def alone() -> Batch:
        rows = copy.copy(batch)
        rows.lanes = None
        return rows.in_lanes(Each(batch.xp, batch.each), ids)

    rows = batch.cached(("samples one by one", ids), alone)
    names = {state: name for name, state in metric.states.items()}
    return [
        (names[state], increment if batch.checked else without_strays(batch.xp, increment, state))
        for state, increment in metric.increments_of(rows)
    ]


def _without_weight(batch: Batch) -> Batch:
    """The same samples without weights: the numbers to add up already contain them."""
    plain = copy.copy(batch)
    plain.weight = None
    return plain


def _terms_of_rows(metric: Any, batch: Batch, ids: str | None = None) -> list[Any]:
    """The terms of each row in each of the sums behind a value: arrays ``[n]``."""
    xp, terms = batch.xp, []
    increments = _row_increments(metric, batch, ids)
    for factors in metric.linear.terms:
        term: Any = None
        for name, increment in increments:
            if name in factors:
                part = _times(xp, np.asarray(factors[name]), increment)
                term = part if term is None else xp.add(*_alike(xp, term, part))
        terms.append(term)
    return terms


def _times(xp: Any, factors: np.ndarray, increment: Any) -> Any:
    """The increment of each row, times the factor of its entry."""
    if not factors.ndim:
        factor = factors.item()
        if factor in (1, -1):
            return increment if factor == 1 else -increment
        return xp.scale(xp.cast(increment, "float64"), factor)
    indices, amount = increment
    place = indices[0]
    for index, size in zip(indices[1:], factors.shape[1:]):
        place = xp.add(xp.multiply(place, xp.full_like(place, size)), index)
    factor = xp.take(xp.integers(factors.reshape(-1).astype(np.int64)), place)
    return factor if amount is None else xp.multiply(*_alike(xp, factor, amount))


def _alike(xp: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Return two arrays as floats if one of them has floats."""
    kinds = xp.kind(one) + xp.kind(other)
    return (xp.cast(one, "float64"), xp.cast(other, "float64")) if "f" in kinds else (one, other)


def terms_of_groups(values: Mapping[str, Any], linear: Linear) -> np.ndarray:
    """The terms of each user or query in each of the sums, ``[terms, groups]``, before the exponent is applied.

    Args:
        values: the result of `GroupedMetric.of_groups`.
        linear: which sums.
    """
    terms = []
    for part in linear.terms:
        ((name, factor),) = part.items()
        term = np.asarray(values[name], np.float64) * factor
        terms.append(term.reshape(-1, term.shape[-1])[0])
    return np.stack(terms)


def _group_of(batch: Batch, ids: str, groups: int) -> Any:
    """The group of each sample's id, int64."""

    def hashed() -> Any:
        number, xp = words_of_column(batch, ids, 0, word), batch.xp
        if isinstance(number, np.ndarray):
            group = _group_of_word(number, groups)
            return group if xp is numpy_ops else xp.asarray(group, ids)
        return xp.remainder(number, groups)

    return batch.cached(("group of ids", ids, groups), hashed)


def _group_of_word(number: np.ndarray, groups: int) -> np.ndarray:
    """The group of each `word`, int64; the remainder of 32 bits is five times as fast."""
    return (number % np.uint32(groups)).astype(np.int64)


# -- functions of sums ------------------------------------------------------------------------------------------


class SumsOfRows(UnitSums):
    """The products of a row's terms, summed over rows; and the number of rows with a term that is not 0.

    Args:
        degrees: how many terms a product has. Products of four are floats: those of integers may overflow.
    """

    def __init__(self, *args: Any, degrees: Sequence[int] = (2, 3)) -> None:
        super().__init__(*args)
        self.degrees = degrees

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        terms, dtype = len(self.metric.linear.terms), "float64" if 4 in self.degrees else "int64"
        products = [places for degree in self.degrees for places in spreads.monomials(terms, degree)]
        names = [f"{prefix}.product_{''.join(map(str, places))}" for places in products]
        self._counted = State(f"{prefix}.counted", (), "int64", "sum")
        self._products = [State(name, (), dtype, "sum") for name in names]
        return [self._counted, *self._products]

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        terms, plain, xp = _terms_of_rows(self.metric, batch), _without_weight(batch), batch.xp
        if 4 in self.degrees:
            terms = [xp.cast(term, "float64") for term in terms]
        counts = functools.reduce(xp.logical_or, [xp.cast(term, "bool") for term in terms])
        yield self._counted, plain.weighted_sum(counts)
        products = spreads.products(terms, self.degrees, lambda one, other: xp.multiply(*_alike(xp, one, other)))
        for state, product in zip(self._products, products):
            yield state, plain.weighted_sum(product)

    def read(self, values: _Values, carries: _Carries) -> list[Any]:
        """The sums of the products, and the number of rows."""
        return [values[state].item() for state in (*self._products, self._counted)]

    def spread(self, values: _Values, carries: _Carries) -> Spread:
        *products, rows = self.read(values, carries)
        totals = self.totals(values, carries).tolist()
        return spreads.of_samples(
            products, totals, self.metric.linear.slopes(*totals), rows, self.metric.linear.lowest < 0
        )


class SumsOfUsers(UnitSums):
    """The terms by group of users, ``[terms, groups]``.

    Args:
        counts_rows: whether the number of samples by group is kept, too.
    """

    def __init__(self, *args: Any, counts_rows: bool = True) -> None:
        super().__init__(*args)
        self.counts_rows = counts_rows

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        raise_if_too_large(f"groups={self.groups}", (self.groups,), "what is kept of each group")
        names = [f"{prefix}.drawn", *(f"{prefix}.term_{place}" for place in range(len(self.metric.linear.terms)))]
        self._rows, *self._terms = (Lanes(name, (self.groups,), "int64", "sum") for name in names)
        return [self._rows, *self._terms] if self.counts_rows else self._terms

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        group, plain = _group_of(batch, self.ids, self.groups), _without_weight(batch)
        terms = zip(self._terms, _terms_of_rows(self.metric, batch, self.ids))
        increments = [(state, plain.histogram(group, amount=term)) for state, term in terms]
        return [(self._rows, plain.histogram(group)), *increments] if self.counts_rows else increments

    def read(self, values: _Values, carries: _Carries) -> np.ndarray:
        """The terms by group."""
        return np.stack([values[state].astype(np.float64) for state in self._terms])

    def spread(self, values: _Values, carries: _Carries) -> Spread:
        terms = self.read(values, carries)
        slopes = self.metric.linear.slopes(*terms.sum(axis=1).tolist())
        return spreads.of_group_terms(terms, slopes, self.metric.linear.lowest < 0)

    def rows_by_group(self, values: _Values, carries: _Carries) -> np.ndarray | None:
        return values[self._rows] if self.counts_rows else None

    def largest(self, values: _Values, carries: _Carries) -> Largest | None:
        """The largest user by the denominator, which a large one decides; without one, by its samples."""
        terms, quotient = self.read(values, carries), self.metric.quotient
        if quotient is None or np.array_equal(terms[1], self.rows_by_group(values, carries)):  # type: ignore[arg-type]
            return super().largest(values, carries)
        return spreads.largest_of(terms[1], "weight" if quotient.counts_samples else "denominator")


class MeansOfUsers(SumsOfUsers):
    """The results of the groups of a `GroupedMetric`, by group of users."""

    records: Sequence[_UserTerms]

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._by_user = _MeanTerms(self.metric, self.ids, self.groups)
        self._by_user.become_part(prefix, shared)
        self.records = [self._by_user]
        return []

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return []  # the metric keeps the records

    def read(self, values: _Values, carries: _Carries) -> np.ndarray:
        return self._by_user.terms_in(carries[self._by_user])

    def totals(self, values: _Values, carries: _Carries) -> np.ndarray:
        return self.read(values, carries).sum(axis=1)

    def rows_by_group(self, values: _Values, carries: _Carries) -> np.ndarray:
        return self._by_user.rows_in(carries[self._by_user])


# -- areas ------------------------------------------------------------------------------------------------------


class AreaOfRows(UnitSums):
    """The squares of the weights in each bucket minus the weights: nothing without weights."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._histogram = self.metric.states[self.metric.ranked]
        own = Lanes(f"{prefix}.excess", self._histogram.shape, "int64", "sum", ("excess", self._histogram.key))
        self._excess = shared.first(own.kind, own)
        return [self._excess]

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        weighted = batch.weight is not None
        return [(self._excess, batch.cached(self._excess, lambda: self._excess_of(batch)))] if weighted else []

    def _excess_of(self, batch: Batch) -> Any:
        ((_, (indices, weight)),) = _row_increments(self.metric, batch)
        excess = batch.xp.multiply(weight, batch.xp.subtract(weight, batch.xp.ones_like(weight)))
        return _without_weight(batch).histogram(*indices, amount=excess)

    def _classes(self, values: _Values) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """By bucket the weights of positives and of negatives, and the squares of both."""
        histogram = values[self._histogram]
        squares = np.maximum(histogram + values[self._excess], 0)
        return histogram[1], histogram[0], squares[1], squares[0]

    def read(self, values: _Values, carries: _Carries) -> Any:
        """The weights and their squares by class and bucket."""
        return self._classes(values)

    def spread(self, values: _Values, carries: _Carries) -> Spread:
        return spreads.of_area(*self._classes(values), curve=self.metric.curve)


class AreaOfUsers(AreaOfRows):
    """The bucket of each sample, and which belong together."""

    records: Sequence[_UserTerms]

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        states = super().adopted(prefix, shared)
        self._by_user = _PlacedTerms(self.metric, self.ids, self.groups)
        self._by_user.become_part(prefix, shared)
        self.records = [self._by_user]
        return states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return [*super().statistics(batch), *self._by_user.increments_of(batch)]

    def read(self, values: _Values, carries: _Carries) -> np.ndarray:
        """By group the distances of positives from the area, and those of negatives: ``[2, groups]``."""
        return self._by_user.terms_in(carries[self._by_user])

    def spread(self, values: _Values, carries: _Carries) -> Spread:
        classes, (above, below) = self._classes(values), self.read(values, carries)
        groups = above / float(classes[0].sum()) + below / float(classes[1].sum())
        return spreads.of_area_groups(groups, *classes, curve=self.metric.curve)

    def rows_by_group(self, values: _Values, carries: _Carries) -> np.ndarray:
        return self._by_user.rows_in(carries[self._by_user])


class AreaOfGroups(AreaOfRows):
    """The histogram of each group of users."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        states = super().adopted(prefix, shared)
        key = ("by group", self._histogram.key, self.ids, self.groups)
        own = Lanes(f"{prefix}.by_group", (self.groups, *self._histogram.shape), "int64", "sum", key)
        self._by_group = shared.first(own.kind, own)
        return [*states, self._by_group]

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        by_group = batch.cached(self._by_group, lambda: self._by_group_of(batch))
        return [*super().statistics(batch), (self._by_group, by_group)]

    def _by_group_of(self, batch: Batch) -> Any:
        ((_, (indices, weight)),) = _row_increments(self.metric, batch)
        index = _group_of(batch, self.ids, self.groups), *indices
        return _without_weight(batch).histogram(*index, amount=None if batch.weight is None else weight)

    def read(self, values: _Values, carries: _Carries) -> np.ndarray:
        """The histograms, ``[groups, 2, buckets]``, negatives first."""
        return values[self._by_group]

    def spread(self, values: _Values, carries: _Carries) -> Spread:
        classes, by_group = self._classes(values), self.read(values, carries)
        of_positive, of_negative = spreads.contributions_to_area(*classes[:2], curve=self.metric.curve)
        groups = by_group[:, 1] @ of_positive + by_group[:, 0] @ of_negative
        return spreads.of_area_groups(groups, *classes, curve=self.metric.curve)

    def users(self, values: _Values, carries: _Carries) -> float | None:
        return spreads.users_of(values[self._by_group].sum(axis=(1, 2)))

    def largest(self, values: _Values, carries: _Carries) -> Largest | None:
        weights = values[self._by_group].sum(axis=(1, 2))
        return spreads.largest_of(weights, "weight" if values[self._excess].any() else "rows")


# -- users from records -----------------------------------------------------------------------------------------


class _UserTerms(GroupedMetric):
    """Terms of users that are added up by group of users, exactly: ``[terms, groups]``."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(name=metric.name)
        self.metric, self.groups = metric, groups
        self.columns = (ids,)

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {"terms": (2, self.groups)}

    def of_users(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        """The terms of each user, ``[terms, users]``, times a power of two, with the exponent that undoes it."""
        raise NotImplementedError

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        ids = records[self.table.order or ""]
        if not len(ids):
            return self.start()
        start = np.flatnonzero(starts_of(ids))
        group = _group_of_word(word(numpy_ops, integer_ids(ids[start]), 0), self.groups)
        terms, exponent = self.of_users(records, states)
        sums = [[np.bincount(group, term, self.groups) for term in part] for part in exact_parts(terms, len(start))]
        rows = np.bincount(group, np.diff(np.append(start, len(ids))), self.groups).astype(np.int64)
        return {"exponent": exponent, "drawn": rows, "terms": words_of(np.array(sums)[:, None])}

    def terms_in(self, carry: Mapping[str, Any]) -> np.ndarray:
        """The terms of all users, ``[terms, groups]``."""
        terms: np.ndarray = np.ldexp(carry["terms"][0, 0], carry["exponent"])
        return terms

    def rows_in(self, carry: Mapping[str, Any]) -> np.ndarray:
        """The number of samples by group; the carry of no samples has one number for all."""
        return np.broadcast_to(carry["drawn"], self.groups)


class _MeanTerms(_UserTerms):
    """The terms of a metric by user or by query, in the numerator and in the denominator."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(metric, ids, groups)
        table = metric.table
        self.keep_records(table.columns, table.order, table.key)

    def become_part(self, prefix: str, shared: Shared) -> None:
        super().become_part(prefix, shared)
        self.table = self.metric.table

    def of_users(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        values = self.metric.of_groups(records)
        return terms_of_groups(values, self.metric.linear), values.get("exponent", 0)


class _PlacedTerms(_UserTerms):
    """The terms of an area: the summed distances of a user's positives', and negatives', placements from the area."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(metric, ids, groups)
        key = metric.states[metric.ranked].key
        self.keep_records((ids, "bucket", "label", "weight"), order=ids, key=("buckets of ids", key))

    def become_part(self, prefix: str, shared: Shared) -> None:
        super().become_part(prefix, shared)
        self.states = {"histogram": self.metric.states[self.metric.ranked]}

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        ((_, (indices, weight)),) = _row_increments(self.metric, batch)
        label, bucket = indices
        entries = {"bucket": bucket, "label": label, "weight": None if batch.weight is None else weight}
        ids = batch.column(self.table.order or "")
        return [(self.table, Kept(batch.xp, batch.keep, {self.table.order or "": ids, **entries}))]

    def of_users(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        negative, positive = states["histogram"].astype(np.float64)
        above, below, area = spreads.placements_of(self.metric.curve, positive, negative)
        ids, bucket, label = (records[name] for name in (self.table.order or "", "bucket", "label"))
        weight, exponent = scaled(records["weight"])
        start = starts_of(ids)
        order: Any = slice(None)
        if not start.all():  # or rounding would depend on the workers
            keys = [bucket, label, np.cumsum(start)]
            order = np.lexsort(keys if weight is None else [weight, *keys])
        bucket, label = bucket[order], label[order].astype(bool)
        distance = np.where(label, above[bucket], below[bucket]) - area
        distance = distance if weight is None else distance * weight[order]
        sums = [sums_of(np.where(own, distance, 0), np.flatnonzero(start)) for own in (label, ~label)]
        return np.stack(sums), exponent

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        if records:
            raise InvalidInputError(
                f"{self.name} (Interval with ids) needs the scores of all parts to place those of one, and no part "
                "can be closed; leave out ids, or do not close"
            )
        return self.start()
