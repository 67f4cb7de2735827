"""``Bootstrap``: a metric with an interval from resampling."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, Iterable, Iterator, Mapping, NamedTuple, Sequence, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.record_metric import Draws, GroupedMetric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import poisson, salts, words_of_column
from fleetmetrics.batch.lanes import Groups, Nested, Replicates
from fleetmetrics.errors import BucketWarning, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.bootstrap import CONFIDENCE, BootstrapResult, bootstrap_result
from fleetmetrics.formulas.spreads import LEAST
from fleetmetrics.state.state import Lanes, State
from fleetmetrics.support.checks import MOST_EDGES, is_whole, raise_if_too_large, whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.support.warning import muted, part_now, warn
from fleetmetrics.wrappers.wrapper import Wrapper, names_of
from fleetmetrics.xp import is_static, numpy_ops, without_strays

__all__ = ["Bootstrap"]

#: The bytes of weights for each part of a large batch; not in static programs.
_AT_ONCE = 2**23
#: The fewest replicates whose sizes tell the number of samples.
_ENOUGH = 20
#: The largest mean of NumPy's Poisson variables; cutting a larger one to it is an error of less than 1e-8.
_LARGEST = 2**63 - 2**35


class _Alike(NamedTuple):
    """The parts that metrics with equal draws share."""

    drawn: Lanes  #: how often each replicate has drawn a sample
    lanes: dict[State, Lanes]  #: the replicates of each state
    metrics: list[Metric]


class DrawSettings(Common, total=False):
    """Arguments of `Bootstrap` by keyword."""

    seed: int
    confidence: float
    ids: str | None


class Bootstrap(Wrapper[Value]):
    """A metric with its standard error and a confidence interval, by resampling the samples of all workers.

    This is the Poisson bootstrap: in each replicate, the count of a sample is a Poisson variable of mean 1. Formula:
    for replicates r = 1, ..., R the metric of the samples with weights ``w_i N_ir``; the interval is that of their
    percentiles, see `fleetmetrics.formulas.bootstrap.bootstrap_result`. The result depends neither on the number of
    workers nor on the order of the samples.

    Without ids, ``metric`` must consist of counts: histograms, confusion matrices, shares (`AUC`, `F1`, `Accuracy`,
    `ClickThroughRate`). A sum of n independent Poisson variables of mean 1 is one of mean n, so ``compute`` draws the
    replicates from the global counts, by the seed, and ``add`` costs no more than the metric's. Samples are drawn
    independently, each counts once, and weights and rows of several elements are errors.

    With ``ids="request"``, ``add(..., request=)`` takes an integer or string for each sample, and ``N_ir`` is a hash of
    the seed, r, and that id. Samples of equal id are drawn together (ids of users resample users), as are the elements
    of a row of ``[n, m]`` input. This works with weights, and with any metric whose states have a fixed size: each
    state is kept ``replicates`` times and is part of the one exchange, and each sample costs ``replicates`` hashes. In
    static programs, ids must be integers.

    A metric by user or by query (`GAUC`, `NDCG`, `MRR`) draws users: the hash of a user's id gives the count of the
    user, with all of its samples, in the sum over users. ``ids`` defaults to the column that the metric is ``by``.
    Records are unchanged, and the replicates' sums are exact.

    Metrics with the same seed, replicates and ids draw the same samples: `fleetmetrics.paired_difference` compares
    their results, and in a `MetricCollection` the samples of a batch are drawn once for all of them.

    ``add`` takes the metric's arguments. ``compute`` returns a `fleetmetrics.BootstrapResult`, or one for each entry of
    a value that is a dict or a named tuple.

    Args:
        metric: without samples, left unchanged; if it keeps every sample, it must sum over users or queries.
        replicates: their number, at least 2.
        seed: an integer.
        confidence: the share of such intervals that should contain the true value, between 0 and 1.
        ids: the name of the additional argument of ``add`` that identifies the samples; None: samples are drawn
            independently, or the column that the metric is ``by``.
        **common: those of `Metric`; all but ``name`` are those of the metric unless given.

    Raises:
        InvalidInputError: an argument is invalid, or the metric cannot be resampled.

    Examples:
        >>> from fleetmetrics import Accuracy
        >>> metric = Bootstrap(Accuracy(), replicates=500)
        >>> metric.add([0.9, 0.2, 0.7, 0.6] * 25, [1, 0, 0, 1] * 25)
        >>> result = metric.compute()
        >>> result.value, round(result.std, 2)     # sqrt(0.75 * 0.25 / 100) = 0.043
        (0.75, 0.04)
    """

    columns: tuple[str, ...]
    confidence: float
    replicates: int
    seed: int
    #: Whether to warn of too few samples; an evaluation names what its intervals need instead.
    warns: ClassVar[bool] = True

    refused: ClassVar[dict[str, str]] = {
        "Bootstrap": "resampling once is enough",
        "Interval": "one interval is enough, Bootstrap(metric) or Interval(metric)",
        "Sliced": "reverse them: Sliced(Bootstrap(metric))",
        "Windowed": "reverse them: Windowed(Bootstrap(metric), last=...)",
    }

    @overload
    def __init__(
        self: Bootstrap[BootstrapResult],
        metric: Metric[float] | Metric[np.ndarray],
        replicates: int = 200,
        **settings: Unpack[DrawSettings],
    ) -> None: ...
    @overload
    def __init__(self, metric: Metric, replicates: int = 200, **settings: Unpack[DrawSettings]) -> None: ...
    def __init__(
        self,
        metric: Metric,
        replicates: int = 200,
        *,
        seed: int = 0,
        confidence: float = 0.95,
        ids: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        self.replicates = whole_number_of("replicates", replicates, 2, MOST_EDGES)
        if not is_whole(seed):
            raise InvalidInputError(f"seed must be an integer, not {seed!r}")
        self.seed = int(seed)
        self.confidence = CONFIDENCE("confidence", confidence, {})
        if ids is not None and (not isinstance(ids, str) or not ids.isidentifier()):
            raise InvalidInputError(f"ids must be the name of an additional argument of add, or None, not {ids!r}")
        self.ids = ids
        self._metrics: list[Metric] = []
        super().__init__(metric, **common)

    def _fit(self) -> None:
        for metric in self.metric.record_metrics():
            if not isinstance(metric, GroupedMetric):
                raise self._keeps_samples(metric, "resample groups of samples yourself, with one metric for each")
            group = metric.table.order
            self.ids = self.ids or group
            if self.ids != group:
                raise InvalidInputError(
                    f"Bootstrap draws the terms of a metric's sums, and {metric.name} ({type(metric).__name__}) adds "
                    f"one term per {group}: give ids={group!r}, not {self.ids!r}"
                )
            self.settle(ids=group)
            metric.draws = Draws(self.seed, self.replicates)
        if self.ids is not None:
            self.columns = tuple(dict.fromkeys((*self.metric.columns, self.ids)))
        else:
            self._partition()

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        if self.metric in self._metrics:  # it leaves the metrics with which it has shared its draws
            self._metrics.remove(self.metric)
        self.metric.become_part(prefix, shared)
        states = list(self.metric.own_states())
        self._lanes: dict[State, Lanes] = {}
        if self.ids is None or not states:  # the fold draws users when it adds them up
            return states
        self._kind = ("bootstrap", self.replicates, self.seed, self.ids)
        drawn = self._lanes_of(State("", (), "int64", "sum", "drawn"), f"{prefix}.drawn")
        alike = shared.first(self._kind, _Alike(drawn, {}, []))
        self._drawn, self._all_lanes, self._metrics = alike
        self._metrics.append(self.metric)
        for state, name in zip(states, names_of(prefix, states, "_replicates")):
            self._lanes[state] = self._all_lanes.setdefault(state, self._lanes_of(state, name))
        return (self._drawn, *self._lanes.values(), *states)

    def _lanes_of(self, state: State, name: str) -> Lanes:
        shape = (self.replicates, *state.shape)
        raise_if_too_large(f"replicates={self.replicates}", shape, f"{state.name!r} of all replicates")
        return Lanes(name, shape, state.declared_dtype, state.reduction, (*self._kind, state.key))

    def _partition(self) -> tuple[State, State | None]:
        """The state that counts each sample in one entry, and any that counts all; other metrics raise an error."""
        leaves: Iterable[Any] = self.metric.leaf_metrics()
        cell_states = {tuple(leaf.states[name] for name in leaf.cell_states) for leaf in leaves}
        if len(cell_states) != 1 or set(*cell_states) != set(self.metric.own_states()):
            names = ", ".join(state.name.rpartition(".")[2] for state in self.metric.own_states())
            raise InvalidInputError(
                "Bootstrap without ids takes metrics that count samples of a few kinds, such as AUC or Accuracy; the "
                f"states of {self.metric.name} ({type(self.metric).__name__}: {names}) are not counts. Give ids=, the "
                "name of an additional argument of add that identifies the samples"
            )
        cells, *rest = cell_states.pop()
        return cells, rest[0] if rest else None

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """A batch's increments of the metric's states and of each replicate's."""
        pairs = _asked(self.metric, batch)
        if self.ids is None:
            if batch.weight is not None or batch.width != 1:
                what = "weights" if batch.weight is not None else "rows of several elements, which are drawn together"
                raise InvalidInputError(
                    f"without ids, Bootstrap counts samples, but it was given {what}. Give ids=, the name of an "
                    "additional argument of add that identifies the samples"
                )
            return pairs
        if not self._lanes or (batch.xp.FILTERS and not len(batch.each)):
            return pairs
        own = [self._drawn, *self._lanes.values()]
        done: dict[State, Any] = batch.cached(("replicates", self._kind), dict)  # shared by metrics with equal draws
        if not done.keys() >= {*own}:
            done.update(self._of_replicates(batch))
        return pairs + [(lanes, done[lanes]) for lanes in own if done[lanes] is not None]

    def _of_replicates(self, batch: Batch) -> dict[State, Any]:
        """A batch's increments of all replicates; a large batch keeps only some of its weights in memory at a time."""
        metrics = []
        for metric in self._metrics:
            with contextlib.suppress(InvalidInputError):  # the metric raises it later
                _asked(metric, batch)
                metrics.append(metric)
        hashes, groups = words_of_column(batch, self.ids or "", self.seed), batch.lanes
        samples = batch.xp.shape(batch.each)[0]
        floats = batch.weight is not None or any(
            lanes.declared_dtype == "float64" for lanes in self._all_lanes.values()
        )
        step = max(1, _AT_ONCE // ((8 if floats else 1) * self.replicates * batch.width)) * batch.width
        if samples <= step or is_static(batch.each):
            return self._increments(metrics, self._resampled(batch, hashes))
        assert not isinstance(groups, (Nested, Replicates))
        if groups is None or batch.xp is not numpy_ops:
            parts: list[Any] = [slice(start, start + step) for start in range(0, samples, step)]
            sums = self._sums(metrics, batch, hashes, groups, parts)
            return {lanes: total.value for lanes, total in sums.items()}
        # Take one group after the other: its replicates are sums of columns, and close together in memory.
        order = np.argsort(groups.index.astype(np.min_scalar_type(groups.size)), kind="stable")
        bounds = np.searchsorted(groups.index[order], np.arange(groups.size + 1)).tolist()
        sums_of_groups = []
        for first, last in zip(bounds, bounds[1:]):
            parts = [order[start : min(start + step, last)] for start in range(first, last, step)]
            sums_of_groups.append(self._sums(metrics, batch, hashes, None, parts))
        return {lanes: np.stack([sums[lanes].read() for sums in sums_of_groups]) for lanes in sums_of_groups[0]}

    def _sums(
        self, metrics: Sequence[Metric], batch: Batch, hashes: tuple[Any, Any], groups: Any, parts: Iterable[Any]
    ) -> dict[State, State]:
        """The increments of the parts of a batch, each with its places among the samples."""
        lead = () if groups is None else (groups.size,)
        every_lanes = [self._drawn, *(self._all_lanes[state] for metric in metrics for state in metric.own_states())]
        totals: dict[State, State] = {
            lanes: Lanes(lanes.name, (*lead, *lanes.shape), lanes.declared_dtype, lanes.reduction)
            for lanes in every_lanes
        }
        one, two = hashes
        for place in parts:
            part = batch.part(place)
            if groups is not None:
                part = part.in_lanes(Groups(batch.xp, groups.index[place], groups.size))
            inside = self._resampled(part, (one[place], two[place]))
            for lanes, increment in self._increments(metrics, inside).items():
                total = totals[lanes]
                if increment is not None:
                    total.accumulate(increment if batch.checked else without_strays(batch.xp, increment, total))
        return totals

    def _increments(self, metrics: Sequence[Metric], inside: Batch) -> dict[State, Any]:
        """The increments of samples in replicates; None for nothing."""
        increments: dict[State, Any] = {self._drawn: inside.number}
        for metric in metrics:
            own = dict(metric.increments_of(inside))
            increments.update({self._all_lanes[state]: own.get(state) for state in metric.own_states()})
        return increments

    def _resampled(self, batch: Batch, words_of_ids: tuple[Any, Any]) -> Batch:
        salt, xp = salts(self.seed, self.replicates), batch.xp
        if isinstance(words_of_ids[0], np.ndarray):
            times = poisson(numpy_ops, *words_of_ids, salt)
            times = times if xp is numpy_ops else xp.asarray(times, "times")
        else:
            times = poisson(xp, *words_of_ids, xp.integers(salt))
        return batch.in_lanes(Replicates(xp, times, self.replicates), self.ids)

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value and those of the replicates."""
        value = self.metric.value_from_states(values, carries)
        grouped = {metric: carries[metric] for metric in self.metric.record_metrics()}
        of_lanes = (
            {state: values[lanes][r, ...] for state, lanes in self._lanes.items()} for r in range(self.replicates)
        )
        draws = self._from_counts(values) if self.ids is None else of_lanes
        with muted(UndefinedMetricWarning, BucketWarning):
            replicates = [
                self.metric.value_from_states(
                    draw, {metric: {**carry, "row": row} for metric, carry in grouped.items()}
                )
                for row, draw in enumerate(draws, 1)
            ]
        sizes = [values[self._drawn]] if self._lanes else [carry["drawn"][1:] for carry in grouped.values()]
        drawn = sizes[0] if sizes else None
        if self.warns:
            self._warn_of_few(value, values, drawn)
        return self._result(value, replicates, drawn)

    def _warn_of_few(self, value: Any, values: Mapping[State, np.ndarray], drawn: np.ndarray | None) -> None:
        """Warn if percentiles of so few independent samples have less than their confidence."""
        if self.ids is None:
            cells, whole = self._partition()
            number = float(values[cells if whole is None else whole].sum())
        elif drawn is not None and self.replicates >= _ENOUGH:  # their number varies like that of independent samples
            number = float(drawn.mean() ** 2 / max(drawn.var(), 1e-300))
        else:
            return
        if 0 < round(number) < LEAST:
            few = f"{'' if self.ids is None else 'about '}{counted(round(number), 'independent samples')}"
            warn(
                f"{self.metric.name}{part_now()} has {few}: intervals of percentiles of fewer than {LEAST} contain the "
                f"true value in fewer than {self.confidence:.4g} of cases (of 8 samples, about 0.8 instead of 0.95). "
                "For shares, Interval has exact ones",
                UndefinedMetricWarning,
            )

    def _from_counts(self, values: Mapping[State, np.ndarray]) -> Iterator[Mapping[State, np.ndarray]]:
        """Replicates of the counts, drawn as Poisson variables with these means."""
        cells, whole = self._partition()
        counts = values[cells]
        rest = 0 if whole is None else values[whole].item() - counts.sum().item()
        mean = np.minimum(np.append(counts, rest), _LARGEST)
        # If the sign were a word of the number, -3 would draw the same as 2**32 + 3.
        seed = np.random.SeedSequence([abs(self.seed), 0], spawn_key=[1] if self.seed < 0 else [])
        random = np.random.Generator(np.random.PCG64(seed))
        for _ in range(self.replicates):
            drawn = random.poisson(mean)
            replicate = {cells: drawn[:-1].reshape(counts.shape)}
            yield replicate if whole is None else {**replicate, whole: drawn.sum()}

    def _result(self, value: Any, replicates: list[Any], drawn: np.ndarray | None) -> Any:
        """The result for a number or an array, or one for each entry of a dict or tuple."""
        if isinstance(value, dict):
            return {key: self._result(value[key], [replicate[key] for replicate in replicates], drawn) for key in value}
        if isinstance(value, tuple):
            parts = [
                self._result(part, [replicate[i] for replicate in replicates], drawn) for i, part in enumerate(value)
            ]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        arrays = [np.asarray(number) for number in (value, *replicates)]
        shapes = list(dict.fromkeys(array.shape for array in arrays))
        if len(shapes) > 1 or any(array.dtype.kind not in "biuf" for array in arrays):
            kinds = f"arrays of the shapes {list(shapes[0])} and {list(shapes[1])}" if shapes[1:] else repr(value)
            raise InvalidInputError(
                "Bootstrap takes metrics whose value is a number, an array of the same shape for all samples, "
                f"or a dict or tuple of these; {self.metric.name} gives {kinds}"
            )
        table = np.stack([array.astype(np.float64) for array in arrays[1:]])
        return bootstrap_result.bare(value, table, self.seed, drawn, self.confidence, self.metric.name)


def _asked(metric: Metric, batch: Batch) -> list[tuple[Any, Any]]:
    """A batch's increments of the states of a metric."""
    return batch.cached(("asked", metric), lambda: list(metric.increments_of(batch)))
