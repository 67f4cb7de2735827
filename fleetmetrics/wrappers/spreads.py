"""The states of `Interval` for a metric's variance: products or squares of terms of samples or groups."""

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
from fleetmetrics.batch.hashing import integer_ids, words, words_of_column
from fleetmetrics.batch.lanes import Each
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import intervals
from fleetmetrics.formulas.groups import exact_parts, scaled, starts_of, sums_of
from fleetmetrics.formulas.intervals import Largest, Spread
from fleetmetrics.formulas.slices import placements
from fleetmetrics.records.table import Kept, Records
from fleetmetrics.state.state import Lanes, State
from fleetmetrics.support.checks import raise_if_too_large
from fleetmetrics.xp import numpy_ops, without_strays

__all__ = ["Way", "sums_in", "terms_of", "terms_of_groups", "way_of", "without_weight"]


class Way(ABC):
    """The states for the variance of a metric.

    Args:
        metric: a metric with states.
        ids: the column that groups dependent samples; "" for independent ones.
        groups: see `Interval`.
    """

    #: Keeps the samples of an id together.
    records: Sequence[_GroupTerms] = ()
    metric: Any
    ids: str
    groups: int

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        self.metric, self.ids, self.groups = metric, ids, groups

    @abstractmethod
    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        """The states, with names that begin with this prefix."""

    @abstractmethod
    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The increments of the states from a batch."""

    @abstractmethod
    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        """The spread of the value."""

    def drawn(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray | None:
        """The number of samples in each group of ids; None without ids."""
        return None

    def number(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> float | None:
        """The most likely number of ids; inf if all groups have samples, None without ids."""
        drawn = self.drawn(values, carries)
        return None if drawn is None else intervals.users_of(drawn)

    def largest(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Largest | None:
        """The largest of the ids, if one is far larger than the others."""
        drawn = self.drawn(values, carries)
        return None if drawn is None else intervals.largest_of(drawn, "rows")

    def sums(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        """The sums that the value is computed from."""
        return np.array(sums_in(values, self.metric, self.linear))

    @property
    def linear(self) -> Linear:
        found: Linear | None = self.metric.linear
        assert found is not None
        return found


def way_of(metric: Metric, ids: str, groups: int, bounded: bool = False) -> Way:
    """The way to keep the variance of a metric.

    Args:
        metric: with states.
        ids: see `Way`.
        groups: see `Way`.
        bounded: whether an area with ids keeps a histogram for each group, instead of an entry for each sample.
    """
    kind: type[Way] = _Areas if metric.ranked else _Sums
    if isinstance(metric, GroupedMetric):
        kind = _Means
    elif ids:
        areas: type[Way] = _AreasByGroup if bounded else _AreasOfIds
        kind = areas if metric.ranked else _SumsOfIds
    return kind(metric, ids, groups)


def _one_by_one(metric: Metric, batch: Batch) -> list[tuple[str, Any]]:
    """The increments of each sample to the states of a metric, by name: arrays ``[n]``, or `Scattered`."""

    def alone() -> Batch:
        rows = copy.copy(batch)
        rows.lanes = None
        return rows.in_lanes(Each(batch.xp, batch.each))  # type: ignore[arg-type]

    rows = batch.cached("samples one by one", alone)
    names = {state: name for name, state in metric.states.items()}
    found = []
    for state, increment in metric.increments_of(rows):
        found.append((names[state], increment if batch.checked else without_strays(batch.xp, increment, state)))
    return found


def without_weight(batch: Batch) -> Batch:
    """The same samples without weights: the numbers to add up already contain them.

    Args:
        batch: the samples.
    """
    plain = copy.copy(batch)
    plain.weight = None
    return plain


# -- functions of sums ----------------------------------------------------------------------------------------


def terms_of(metric: Metric, batch: Batch, linear: Linear) -> list[Any]:
    """The terms of each sample in each of the sums behind a value: arrays ``[n]``.

    Args:
        metric: its states have the sums.
        batch: the samples.
        linear: which sums.
    """
    xp, found = batch.xp, []
    increments = _one_by_one(metric, batch)
    for part in linear.terms:
        total: Any = None
        for name, increment in increments:
            if name in part:
                each = _times(xp, np.asarray(part[name]), increment)
                total = each if total is None else xp.add(*_alike(xp, total, each))
        found.append(total)
    return found


def _times(xp: Any, factors: np.ndarray, increment: Any) -> Any:
    """The increment of each sample, times the factor of its entry."""
    if not factors.ndim:
        factor = factors.item()
        return (
            increment
            if factor == 1
            else -increment
            if factor == -1
            else xp.scale(xp.cast(increment, "float64"), factor)
        )
    indices, amount = increment
    place = indices[0]
    for index, size in zip(indices[1:], factors.shape[1:]):
        place = xp.add(xp.multiply(place, xp.full_like(place, size)), index)
    each = xp.take(xp.integers(factors.reshape(-1).astype(np.int64)), place)
    return each if amount is None else xp.multiply(*_alike(xp, each, amount))


def _alike(xp: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Return two arrays as floats if one of them has floats."""
    kinds = xp.kind(one) + xp.kind(other)
    return (xp.cast(one, "float64"), xp.cast(other, "float64")) if "f" in kinds else (one, other)


def sums_in(values: Mapping[State, np.ndarray], metric: Metric, linear: Linear) -> list[float]:
    """The sums behind a value.

    Args:
        values: of the metric's states.
        metric: the same as for `terms_of`.
        linear: likewise.
    """
    states = metric.states.items()
    return [
        sum(float((values[state] * np.asarray(part[name])).sum()) for name, state in states if name in part)
        for part in linear.terms
    ]


class _Sums(Way):
    """The products of a sample's terms, summed over samples."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._places = [each for places in intervals.monomials(len(self.linear.terms)) for each in places]
        names = ["counted", *("product_" + "".join(map(str, each)) for each in self._places)]
        self._states = [State(f"{prefix}.{name}", (), "int64", "sum") for name in names]
        return self._states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        samples, *products = self._states
        found, plain, xp = terms_of(self.metric, batch, self.linear), without_weight(batch), batch.xp
        yield samples, plain.weighted_sum(functools.reduce(xp.logical_or, [xp.cast(each, "bool") for each in found]))
        for state, (first, *rest) in zip(products, self._places):
            product = found[first]
            for place in rest:
                product = xp.multiply(*_alike(xp, product, found[place]))
            yield state, plain.weighted_sum(product)

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        samples, *products = (values[state].item() for state in self._states)
        sums = sums_in(values, self.metric, self.linear)
        return intervals.of_samples(products, sums, self.linear.slopes(*sums), samples, self.linear.lowest < 0)


class _Grouped(Way):
    """Terms by group of ids."""

    def _spread(self, terms: np.ndarray) -> Spread:
        """The spread from terms ``[terms, groups]``."""
        slopes = np.asarray(self.linear.slopes(*terms.sum(axis=1).tolist()))
        far = None if self.linear.lowest < 0 else np.abs(slopes) @ np.abs(terms)
        return intervals.of_groups(slopes @ terms, far)

    def _largest(self, terms: np.ndarray, drawn: np.ndarray) -> Largest | None:
        """The largest id by the denominator, which a large one decides; without one, by its samples."""
        if self.metric.quotient is None or np.array_equal(terms[1], drawn):
            return intervals.largest_of(drawn, "rows")
        return intervals.largest_of(terms[1], "weight" if self.metric.quotient.counts_samples else "denominator")


class _SumsOfIds(_Grouped):
    """The sums, by group of ids."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        names = ["drawn", *(f"term_{place}" for place in range(len(self.linear.terms)))]
        raise_if_too_large(f"groups={self.groups}", (self.groups,), "what is kept of each group")
        self._states = [Lanes(f"{prefix}.{name}", (self.groups,), "int64", "sum") for name in names]
        return self._states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        group, plain = _group(batch, self.ids, self.groups), without_weight(batch)
        amounts = [None, *terms_of(self.metric, batch, self.linear)]
        return [(state, plain.histogram(group, amount=each)) for state, each in zip(self._states, amounts)]

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        return self._spread(self._terms_in(values))

    def _terms_in(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        return np.stack([values[state].astype(np.float64) for state in self._states[1:]])

    def largest(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Largest | None:
        return self._largest(self._terms_in(values), self.drawn(values, carries))

    def drawn(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        return values[self._states[0]]


def _group(batch: Batch, ids: str, groups: int) -> Any:
    """The group of each sample's id, int64."""

    def hashed() -> Any:
        word, xp = words_of_column(batch, ids, 0)[0], batch.xp
        if isinstance(word, np.ndarray):
            group = word.astype(np.int64) % groups
            return group if xp is numpy_ops else xp.asarray(group, ids)
        return xp.remainder(word, groups)

    return batch.cached(("group of ids", ids, groups), hashed)


# -- areas ------------------------------------------------------------------------------------------------------


class _Areas(Way):
    """The squares of the weights in each bucket minus the weights: nothing without weights."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._histogram = self.metric.states[self.metric.ranked]
        own = Lanes(f"{prefix}.excess", self._histogram.shape, "int64", "sum", ("excess", self._histogram.key))
        self._excess = shared.first(own.kind, own)
        return [self._excess]

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return [] if batch.weight is None else [(self._excess, batch.cached(self._excess, lambda: self._of(batch)))]

    def _of(self, batch: Batch) -> Any:
        ((_, (indices, weight)),) = _one_by_one(self.metric, batch)
        more = batch.xp.multiply(weight, batch.xp.subtract(weight, batch.xp.ones_like(weight)))
        return without_weight(batch).histogram(*indices, amount=more)

    def sums(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        return values[self._histogram]

    def _classes(self, values: Mapping[State, np.ndarray]) -> tuple[np.ndarray, ...]:
        """Positives and negatives, and the squares of both."""
        histogram = values[self._histogram]
        squares = np.maximum(histogram + values[self._excess], 0)
        return histogram[1], histogram[0], squares[1], squares[0]

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        return intervals.of_area(*self._classes(values))


class _AreasOfIds(_Areas):
    """The bucket of each sample, and which belong together."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        states = super().adopted(prefix, shared)
        self._terms = _PlacedTerms(self.metric, self.ids, self.groups)
        self._terms.become_part(prefix, shared)
        self.records = [self._terms]
        return states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return [*super().statistics(batch), *self._terms.increments_of(batch)]

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        classes = self._classes(values)
        above, below = self._terms.terms_in(carries[self._terms])
        groups = above / float(classes[0].sum()) + below / float(classes[1].sum())
        return intervals.of_area_groups(groups, *classes)

    def drawn(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        return self._terms.drawn_in(carries[self._terms])


class _AreasByGroup(_Areas):
    """The histogram of each group of ids."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        states = super().adopted(prefix, shared)
        self._by_group = Lanes(f"{prefix}.by_group", (self.groups, *self._histogram.shape), "int64", "sum")
        return [*states, self._by_group]

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        ((_, (indices, weight)),) = _one_by_one(self.metric, batch)
        index = _group(batch, self.ids, self.groups), *indices
        amount = None if batch.weight is None else weight
        return [*super().statistics(batch), (self._by_group, without_weight(batch).histogram(*index, amount=amount))]

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        positive, negative, *squares = self._classes(values)
        above, below, area = placements(np.asarray(positive, np.float64), np.asarray(negative, np.float64))
        terms = (above - area) / max(float(positive.sum()), 1.0), (below - area) / max(float(negative.sum()), 1.0)
        by_group = values[self._by_group]
        groups = by_group[:, 1] @ terms[0] + by_group[:, 0] @ terms[1]
        return intervals.of_area_groups(groups, positive, negative, *squares)

    def number(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> float | None:
        return intervals.users_of(values[self._by_group].sum(axis=(1, 2)))

    def largest(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Largest | None:
        sizes = values[self._by_group].sum(axis=(1, 2))
        return intervals.largest_of(sizes, "weight" if values[self._excess].any() else "rows")


class _Means(_Grouped):
    """The results of the groups of a `GroupedMetric`, by group of ids."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._terms = _MeanTerms(self.metric, self.ids, self.groups)
        self._terms.become_part(prefix, shared)
        self.records = [self._terms]
        return []

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return []  # the metric keeps the records

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        return self._spread(self._terms.terms_in(carries[self._terms]))

    def sums(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        return self._terms.terms_in(carries[self._terms]).sum(axis=1)

    def largest(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Largest | None:
        return self._largest(self._terms.terms_in(carries[self._terms]), self.drawn(values, carries))

    def drawn(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        return self._terms.drawn_in(carries[self._terms])


class _GroupTerms(GroupedMetric):
    """Terms that are added up by group of ids, exactly: ``[terms, groups]``."""

    terms = 2

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(name=metric.name)
        self.metric, self.groups = metric, groups
        self.columns = (ids,)

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {"terms": (self.terms, self.groups)}

    def of_ids(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        """The terms of each id, ``[terms, ids]``, times a power of two, with the exponent that undoes it."""
        raise NotImplementedError

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        ids = records[self.table.order or ""]
        if not len(ids):
            return self.start()
        start = np.flatnonzero(starts_of(ids))
        place = words(numpy_ops, integer_ids(ids[start]), 0)[0].astype(np.int64) % self.groups
        terms, exponent = self.of_ids(records, states)
        parts = exact_parts(terms, len(start))
        sums = [[np.bincount(place, each, self.groups) for each in part] for part in parts]
        drawn = np.bincount(place, np.diff(np.append(start, len(ids))), self.groups).astype(np.int64)
        return {"exponent": exponent, "drawn": drawn, "terms": words_of(np.array(sums)[:, None])}

    def terms_in(self, carry: Mapping[str, Any]) -> np.ndarray:
        """The terms of all ids, ``[terms, groups]``."""
        found: np.ndarray = np.ldexp(carry["terms"][0, 0], carry["exponent"])
        return found

    def drawn_in(self, carry: Mapping[str, Any]) -> np.ndarray:
        """The number of samples by group; the carry of no samples has one number for all."""
        return np.broadcast_to(carry["drawn"], self.groups)


def terms_of_groups(found: Mapping[str, Any], linear: Linear) -> np.ndarray:
    """The terms of each user or query in each of the sums, ``[terms, groups]``, before the exponent is applied.

    Args:
        found: the result of `GroupedMetric.of_groups`.
        linear: which sums.
    """
    terms = []
    for part in linear.terms:
        ((name, times),) = part.items()
        each = np.asarray(found[name], np.float64) * times
        terms.append(each.reshape(-1, each.shape[-1])[0])
    return np.stack(terms)


class _MeanTerms(_GroupTerms):
    """The terms of a metric by user or by query, in the numerator and in the denominator."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(metric, ids, groups)
        table = metric.table
        self.keep_records(table.columns, table.order, table.key)

    def become_part(self, prefix: str, shared: Shared) -> None:
        super().become_part(prefix, shared)
        self.table = self.metric.table

    def of_ids(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        found = self.metric.of_groups(records)
        return terms_of_groups(found, self.metric.linear), found.get("exponent", 0)


class _PlacedTerms(_GroupTerms):
    """The terms of an area: the summed distances of an id's positives', and negatives', placements from the area."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(metric, ids, groups)
        key = metric.states[metric.ranked].key
        self.keep_records((ids, "bucket", "label", "weight"), order=ids, key=("buckets of ids", key))

    def become_part(self, prefix: str, shared: Shared) -> None:
        super().become_part(prefix, shared)
        self.states = {"histogram": self.metric.states[self.metric.ranked]}

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        ((_, (indices, weight)),) = _one_by_one(self.metric, batch)
        label, bucket = indices
        kept = {"bucket": bucket, "label": label, "weight": None if batch.weight is None else weight}
        ids = batch.column(self.table.order or "")
        return [(self.table, Kept(batch.xp, batch.keep, {self.table.order or "": ids, **kept}))]

    def of_ids(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        negative, positive = states["histogram"].astype(np.float64)
        above, below, area = placements(positive, negative)
        ids, bucket, label = (records[name] for name in (self.table.order or "", "bucket", "label"))
        weight, exponent = scaled(records["weight"])
        start = starts_of(ids)
        keys = [bucket, label, np.cumsum(start)]
        order = np.lexsort(keys if weight is None else [weight, *keys])  # or rounding would depend on the workers
        bucket, label = bucket[order], label[order].astype(bool)
        apart = np.where(label, above[bucket], below[bucket]) - area
        apart = apart if weight is None else apart * weight[order]
        sums = [sums_of(np.where(own, apart, 0), np.flatnonzero(start)) for own in (label, ~label)]
        return np.stack(sums), exponent

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        if records:
            raise InvalidInputError(
                f"{self.name} (Interval with ids) needs the scores of all parts to place those of one, and no part "
                "can be closed; leave out ids, or do not close"
            )
        return self.start()
