"""``Interval``: a metric with an interval without resampling."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.arguments import number_of, raise_if_too_large, whole_number_of
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, words, words_of_column
from fleetmetrics.batch.lanes import Each
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import intervals
from fleetmetrics.formulas.groups import exact_parts, scaled, starts_of, sums_of
from fleetmetrics.formulas.intervals import IntervalResult, Spread
from fleetmetrics.formulas.slices import placements
from fleetmetrics.metric import Common, Linear, Metric
from fleetmetrics.record_metric import GroupedMetric, words_of
from fleetmetrics.records.folding import Folding
from fleetmetrics.records.table import Kept, Records
from fleetmetrics.shared import Shared
from fleetmetrics.state import Lanes, State
from fleetmetrics.typed import Unpack
from fleetmetrics.wrappers.wrapper import Wrapper
from fleetmetrics.xp import numpy_ops, without_strays

__all__ = ["Interval"]

#: How many groups users fall into. What chance adds to the standard error by putting users together, sqrt(1 / 2g) or
#: 0.55 %, is less than the noise of a bootstrap of 10,000 draws.
_GROUPS = 2**14


class Interval(Wrapper[IntervalResult]):
    """A metric with its standard error and a confidence interval, without resampling: DeLong's, or the delta method.

    Takes `AUC`, and every metric whose value is made of a few sums: shares and means (`Accuracy`, `ClickThroughRate`,
    `Precision`, `LogLoss`, `MeanAbsoluteError`), functions of them (`RootMeanSquaredError`, `Calibration`, `COPC`,
    `NormalizedEntropy`), and means over users or queries (`GAUC`, `NDCG`). For others there is `Bootstrap`.

    Formula: of `AUC` see `fleetmetrics.formulas.intervals.of_area`, of others
    `fleetmetrics.formulas.intervals.of_samples`, with ids `fleetmetrics.formulas.intervals.of_groups`; for the ends
    `fleetmetrics.formulas.intervals.interval`. They are even on the scale of the log-odds for a value between 0 and 1,
    on that of the logarithm for one of at least 0. Weights are what each sample counts for: the interval is that of the
    weighted mean.

    Without ids, samples are independent of each other. With ``ids="user"``, ``add(..., user=)`` takes an integer or a
    text for each sample, and only users are: samples of one id may be alike. A user falls into one of ``groups`` by a
    hash of the id. A metric by user or by query has its ids already. With ids, `AUC` keeps an entry for each sample, as
    `GAUC` does, and is not for static programs.

    The value, std, low and high are the same on any number of workers, as far as the metric's value is. Where there are
    too few samples, users or clicks for 94 to 96 % of intervals of 95 % to hold the true value, std, low and high are
    nan, with `UndefinedMetricWarning`, which says how many would do.

    `fleetmetrics.paired_difference` compares two results of equal ids over the same samples, and
    `fleetmetrics.unpaired_difference` two of different samples.

    ``add`` is that of the metric. Returns a `fleetmetrics.IntervalResult`.

    Source: DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 44 (1988); Sun and Xu, "Fast implementation of DeLong's algorithm", IEEE Signal
    Processing Letters 21 (2014); Deng, Knoblich and Lu, "Applying the delta method in metric analytics", KDD 2018.

    Args:
        metric: without samples, left unchanged.
        confidence: the share of such intervals meant to contain the true value, between 0 and 1.
        ids: the name of the additional argument of ``add`` that says which samples belong together; None: each is
            independent, or what the metric is ``by``.
        groups: how many groups ids fall into, at least 64; each takes 16 to 24 bytes.
        **common: those of `Metric`; ``validate``, ``share`` and ``sampler`` are those of the metric unless given.

    Raises:
        InvalidInputError: an argument is invalid, or there is no such interval of the metric.

    Examples:
        >>> from fleetmetrics import Accuracy
        >>> metric = Interval(Accuracy())
        >>> metric.add([0.9, 0.2, 0.7, 0.6] * 25, [1, 0, 0, 1] * 25)
        >>> result = metric.compute()
        >>> result.value, round(result.std, 3)     # sqrt(0.75 * 0.25 / 99) = 0.0435
        (0.75, 0.044)
        >>> round(result.low, 2), round(result.high, 2)
        (0.65, 0.83)
    """

    refused: ClassVar[dict[str, str]] = {
        "Bootstrap": "one interval is enough, Bootstrap(metric) or Interval(metric)",
        "Interval": "one interval is enough",
        "Sliced": "put it around, Sliced(Interval(metric))",
        "Windowed": "put it around, Windowed(Interval(metric), last=...)",
    }

    def __init__(
        self,
        metric: Metric,
        *,
        confidence: float = 0.95,
        ids: str | None = None,
        groups: int = _GROUPS,
        **common: Unpack[Common],
    ) -> None:
        above, below = np.nextafter([0.0, 1.0], [1.0, 0.0]).tolist()
        self.confidence = number_of("confidence", confidence, above, below, "a number between 0 and 1")
        if ids is not None and (not isinstance(ids, str) or not ids.isidentifier()):
            raise InvalidInputError(f"ids must be the name of a further argument of add, or None, not {ids!r}")
        self.ids = ids
        self.groups = whole_number_of("groups", groups, 64, 2**24)
        super().__init__(metric, **common)

    def _fit(self) -> None:
        metric = self.metric
        if isinstance(metric, GroupedMetric):
            group = metric.table.order
            self.ids = self.ids or group
            if self.ids != group:
                raise InvalidInputError(
                    f"{metric.name} ({type(metric).__name__}) adds up what each {group} comes to, and Interval takes "
                    f"these as independent: give ids={group!r}, not {self.ids!r}"
                )
            self.settle(ids=group)
        if not metric.ranked and metric.linear is None:
            raise InvalidInputError(
                f"Interval takes AUC (of two classes, the whole area, without bounds), shares, means and functions of "
                f"them (Accuracy, ClickThroughRate, Precision, LogLoss, MeanAbsoluteError, RootMeanSquaredError, "
                f"Calibration, NormalizedEntropy) and means over users or queries (GAUC, NDCG), whose value is one "
                f"number; {metric.name} ({type(metric).__name__}) is none of these: use Bootstrap"
            )
        if self.ids is not None:
            self.columns = tuple(dict.fromkeys((*metric.columns, self.ids)))

    def _adopted(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.adopt(prefix, shared)
        kind: type[_Way] = _Areas if self.metric.ranked else _Sums
        if isinstance(self.metric, GroupedMetric):
            kind = _Means
        elif self.ids is not None:
            kind = _AreasOfIds if self.metric.ranked else _SumsOfIds
        self._way = kind(self.metric, self.ids or "", self.groups)
        return [*self.metric.own_states(), *self._way.adopted(prefix, shared)]

    def record_metrics(self) -> Iterable[Folding]:
        """Those of the metric, and what keeps the samples of an id together."""
        return [*self.metric.record_metrics(), *self._way.records]

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """What a batch adds to the metric's states, and to those of its variance."""
        if self.ids is None and batch.width != 1:
            raise InvalidInputError(
                "without ids Interval takes independent samples, and it was given rows of several elements, which hang "
                "together. Give ids=, the name of a further argument of add that says which do"
            )
        pairs = batch.cached(("asked", self.metric), lambda: list(self.metric.statistics(batch)))
        if batch.xp.FILTERS and not len(batch.each):
            return pairs
        return [*pairs, *self._way.statistics(batch)]

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value and its interval."""
        value = self.metric.evaluate(values, carries)
        spread, lowest, highest = Spread(math.nan, 1.0, {}), 0.0, 1.0
        # Weights whose squares overflow have no interval, nor has a value that stands in for one by zero_division.
        with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, ValueError):
            spread = self._way.spread(values, carries)
        if self.metric.linear is not None:
            lowest, highest = self.metric.linear.lowest, self.metric.linear.highest
        found = intervals.interval(value, spread, lowest, highest, self.confidence, self.metric.name)
        if self.ids is None:
            return found
        groups = np.full(self.groups, np.nan) if spread.groups is None else spread.groups
        return found._replace(groups=groups, drawn=self._way.drawn(values, carries))


class _Way(ABC):
    """What is kept for the variance of a metric.

    Args:
        metric: whose states it looks at.
        ids: the column that says which samples belong together; "": none.
        groups: see `Interval`.
    """

    #: What keeps the samples of an id together.
    records: Sequence[_GroupTerms] = ()

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        self.metric, self.ids, self.groups = metric, ids, groups

    @abstractmethod
    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        """Its states, under these names."""

    @abstractmethod
    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """What a batch adds to them."""

    @abstractmethod
    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        """How much the value varies."""

    def drawn(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray | None:
        """How many samples there are in each group of ids; None without."""
        return None

    @property
    def linear(self) -> Linear:
        found: Linear | None = self.metric.linear
        assert found is not None
        return found


def _one_by_one(metric: Metric, batch: Batch) -> list[tuple[str, Any]]:
    """What each sample adds to the states of a metric, by their names: arrays ``[n]``, or `Scattered`."""

    def alone() -> Batch:
        rows = copy.copy(batch)
        rows.lanes = None
        return rows.in_lanes(Each(batch.xp, batch.each))  # type: ignore[arg-type]

    rows = batch.cached("samples one by one", alone)
    names = {state: name for name, state in metric.states.items()}
    found = []
    for state, increment in metric.statistics(rows):
        found.append((names[state], increment if batch.checked else without_strays(batch.xp, increment, state)))
    return found


def _without_weight(batch: Batch) -> Batch:
    """The same samples, whose weights are in the numbers that are added up."""
    plain = copy.copy(batch)
    plain.weight = None
    return plain


# -- functions of sums ----------------------------------------------------------------------------------------


def _terms(metric: Any, batch: Batch) -> list[Any]:
    """What each sample adds to each of the sums: arrays ``[n]``."""
    xp, found = batch.xp, []
    increments = _one_by_one(metric, batch)
    for part in metric.linear.terms:
        total = None
        for name, increment in increments:
            if name in part:
                each = _times(xp, np.asarray(part[name]), increment)
                total = each if total is None else xp.add(*_alike(xp, total, each))
        found.append(total)
    return found


def _times(xp: Any, factors: np.ndarray, increment: Any) -> Any:
    """What each sample adds, times the factor of the entry that it adds to."""
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
    """Two arrays, both of integers or both of floats."""
    kinds = xp.kind(one) + xp.kind(other)
    return (xp.cast(one, "float64"), xp.cast(other, "float64")) if "f" in kinds else (one, other)


def _sums_in(values: Mapping[State, np.ndarray], metric: Any) -> list[float]:
    """The sums that the value is made of."""
    states = metric.states.items()
    return [
        sum(float((values[state] * np.asarray(part[name])).sum()) for name, state in states if name in part)
        for part in metric.linear.terms
    ]


class _Sums(_Way):
    """The products of what a sample adds, summed over samples."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._places = [each for places in intervals.monomials(len(self.linear.terms)) for each in places]
        names = ["samples", *("product_" + "".join(map(str, each)) for each in self._places)]
        self._states = [State(f"{prefix}.{name}", (), "int64", "sum") for name in names]
        return self._states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        samples, *products = self._states
        found, plain, xp = _terms(self.metric, batch), _without_weight(batch), batch.xp
        yield samples, plain.weighted_sum(functools.reduce(xp.logical_or, [xp.cast(each, "bool") for each in found]))
        for state, (first, *rest) in zip(products, self._places):
            product = found[first]
            for place in rest:
                product = xp.multiply(*_alike(xp, product, found[place]))
            yield state, plain.weighted_sum(product)

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        samples, *products = (values[state].item() for state in self._states)
        sums = _sums_in(values, self.metric)
        return intervals.of_samples(products, sums, self.linear.slopes(*sums), samples)


class _Grouped(_Way):
    """Terms by group of ids."""

    def _spread(self, terms: np.ndarray) -> Spread:
        """Of terms ``[terms, groups]``."""
        slopes = self.linear.slopes(*terms.sum(axis=1).tolist())
        return intervals.of_groups(np.asarray(slopes) @ terms)


class _SumsOfIds(_Grouped):
    """The sums, by group of ids."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        names = ["drawn", *(f"term_{place}" for place in range(len(self.linear.terms)))]
        raise_if_too_large(f"groups={self.groups}", (self.groups,), "what is kept of each group")
        self._states = [Lanes(f"{prefix}.{name}", (self.groups,), "int64", "sum") for name in names]
        return self._states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        group, plain = _group(batch, self.ids, self.groups), _without_weight(batch)
        amounts = [None, *_terms(self.metric, batch)]
        return [(state, plain.histogram(group, amount=each)) for state, each in zip(self._states, amounts)]

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        return self._spread(np.stack([values[state].astype(np.float64) for state in self._states[1:]]))

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


class _Areas(_Way):
    """What the squares of the weights in each bucket are more than the weights: nothing without weights."""

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
        return _without_weight(batch).histogram(*indices, amount=more)

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
        self._terms.adopt(prefix, shared)
        self.records = [self._terms]
        return states

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return [*super().statistics(batch), *self._terms.statistics(batch)]

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        classes = self._classes(values)
        above, below = self._terms.terms_in(carries[self._terms])
        groups = above / float(classes[0].sum()) + below / float(classes[1].sum())
        return intervals.of_area_groups(groups, *classes)

    def drawn(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> np.ndarray:
        return self._terms.drawn_in(carries[self._terms])


class _Means(_Grouped):
    """What the groups of a `GroupedMetric` come to, by group of ids."""

    def adopted(self, prefix: str, shared: Shared) -> Sequence[State]:
        self._terms = _MeanTerms(self.metric, self.ids, self.groups)
        self._terms.adopt(prefix, shared)
        self.records = [self._terms]
        return []

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        return []  # the metric keeps the records

    def spread(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Spread:
        return self._spread(self._terms.terms_in(carries[self._terms]))

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
        """The terms of each id, ``[terms, ids]``, times a power of two, whose exponent would undo it."""
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
        """How many samples there are, by group; the carry of no samples has one number for all."""
        return np.broadcast_to(carry["drawn"], self.groups)


class _MeanTerms(_GroupTerms):
    """Of a metric by user or by query: what each adds to the numerator and to the denominator."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(metric, ids, groups)
        table = metric.table
        self.keep_records(table.columns, table.order, table.key)

    def adopt(self, prefix: str, shared: Shared) -> None:
        super().adopt(prefix, shared)
        self.table = self.metric.table

    def of_ids(self, records: Records, states: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
        found = self.metric.of_groups(records)
        terms = []
        for part in self.metric.linear.terms:
            ((name, times),) = part.items()
            each = np.asarray(found[name], np.float64) * times
            terms.append(each.reshape(-1, each.shape[-1])[0])
        return np.stack(terms), found.get("exponent", 0)


class _PlacedTerms(_GroupTerms):
    """Of an area: how far the placements of an id's positives, and of its negatives, are from the area, in all."""

    def __init__(self, metric: Any, ids: str, groups: int) -> None:
        super().__init__(metric, ids, groups)
        key = metric.states[metric.ranked].key
        self.keep_records((ids, "bucket", "label", "weight"), order=ids, key=("buckets of ids", key))

    def adopt(self, prefix: str, shared: Shared) -> None:
        super().adopt(prefix, shared)
        self.states = {"histogram": self.metric.states[self.metric.ranked]}

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
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
        order = np.lexsort(keys if weight is None else [weight, *keys])  # or rounding would know of the workers
        bucket, label = bucket[order], label[order].astype(bool)
        apart = np.where(label, above[bucket], below[bucket]) - area
        apart = apart if weight is None else apart * weight[order]
        sums = [sums_of(np.where(own, apart, 0), np.flatnonzero(start)) for own in (label, ~label)]
        return np.stack(sums), exponent

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        if records:
            raise InvalidInputError(
                f"{self.name} (Interval with ids) needs the scores of all parts to place those of one, and no part can "
                "be closed; leave ids away, or do not close"
            )
        return self.start()
