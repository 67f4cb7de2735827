"""``Bootstrap``: a metric with an interval from resampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Iterator, Mapping

import numpy as np

from fleetmetrics.arguments import number_of, raise_if_too_large, whole_number_of
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, poisson, salts, words
from fleetmetrics.batch.keys import Coded, keys_of
from fleetmetrics.batch.lanes import Groups, Nested, Replicates
from fleetmetrics.errors import BucketWarning, InvalidInputError, UndefinedMetricWarning, muted
from fleetmetrics.formulas.bootstrap import bootstrap_result
from fleetmetrics.metric import Common, Metric
from fleetmetrics.numbers import identity
from fleetmetrics.state import Lanes, State
from fleetmetrics.wrappers.wrapper import Wrapper, names_of
from fleetmetrics.xp import is_paddle, is_static, namespace, numpy_ops, without_strays

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Bootstrap"]

#: The bytes of weights for each part of a large batch; not in static programs.
_AT_ONCE = 2**23
#: The largest mean of NumPy's Poisson variables; a larger one is cut to it, an error of less than 1e-8.
_LARGEST = 2**63 - 2**35


class Bootstrap(Wrapper):
    """A metric with its standard error and a confidence interval, by resampling the samples of all workers.

    The Poisson bootstrap: in each replicate a sample counts as often as a Poisson variable of mean 1 says. Formula: for
    replicates r = 1, ..., R the metric of the samples with weights ``w_i N_ir``; the interval is that of their
    percentiles, see `fleetmetrics.formulas.bootstrap.bootstrap_result`. It depends neither on the number of workers nor
    on the order of the samples.

    Without ids, ``metric`` must consist of counts: histograms, confusion matrices, shares (`AUC`, `F1`, `Accuracy`,
    `ClickThroughRate`). A sum of n independent Poisson variables of mean 1 is one of mean n, so ``compute`` draws the
    replicates from the global counts, by the seed, and ``add`` costs no more than the metric's. Each sample is drawn
    on its own and counts once: without weights, and without rows of several elements.

    With ``ids="request"``, ``add(..., request=)`` takes an integer or text for each sample, and ``N_ir`` is a hash of
    the seed, r, and that id. Samples of equal id are drawn together (ids of users resample users), as are the elements
    of a row of ``[n, m]`` input. Takes weights, and any metric whose states have a fixed size: each is kept
    ``replicates`` times and is part of the one exchange, and each sample costs ``replicates`` hashes. Static programs
    only take integers as ids.

    Two metrics with the same seed, replicates and ids draw the same samples: `fleetmetrics.paired_difference` compares
    their results.

    ``add`` is that of the metric. Returns a `fleetmetrics.BootstrapResult`, or one for each entry of a value that is a
    dict or a named tuple.

    Source: Chamandy, Muralidharan, Najmi and Naidu, "Estimating uncertainty for massive data streams", Google (2012);
    Hanley and MacGibbon, "Creating non-parametric bootstrap samples using Poisson frequencies", Computer Methods and
    Programs in Biomedicine 83 (2006).

    Elsewhere: `BootStrapper`.

    Args:
        metric: without samples, left unchanged; not one that keeps every sample.
        replicates: how many, at least 2.
        seed: of the draws; an integer.
        confidence: the share of such intervals meant to contain the true value, between 0 and 1.
        ids: the name of the additional argument of ``add`` that identifies the samples; None: each is drawn on its own.
        **common: those of `Metric`; ``validate`` and ``share`` are those of the metric unless given.

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

    refused: ClassVar[dict[str, str]] = {
        "Bootstrap": "resampling once is enough",
        "Sliced": "put it around, Sliced(Bootstrap(metric))",
        "Windowed": "put it around, Windowed(Bootstrap(metric), last=...)",
    }

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
        self.replicates = whole_number_of("replicates", replicates, 2)
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InvalidInputError(f"seed must be an integer, not {seed!r}")
        self.seed = int(seed)
        above, below = np.nextafter([0.0, 1.0], [1.0, 0.0]).tolist()
        self.confidence = number_of("confidence", confidence, above, below, "a number between 0 and 1")
        if ids is not None and (not isinstance(ids, str) or not ids.isidentifier()):
            raise InvalidInputError(f"ids must be the name of a further argument of add, or None, not {ids!r}")
        self.ids = ids
        super().__init__(metric, **common)

    def _wrap(self, metric: Metric) -> None:
        super()._wrap(metric)
        self.refuse_records("resample groups of samples outside, one metric for each")
        if self.ids is not None:
            self.columns = tuple(dict.fromkeys((*metric.columns, self.ids)))
        self.adopt(self.name, {})
        if self.ids is None:
            self._partition()

    def adopt(self, prefix: str, shared: dict[Any, Any]) -> None:
        self.metric.collection = self.collection
        self.metric.adopt(prefix, shared)
        states = list(self.metric.own_states())
        self.states = {state.name: state for state in states}
        if self.ids is None:
            return
        self._kind = ("bootstrap", self.replicates, self.seed, self.ids)
        own = shared.setdefault(self._kind, {})
        number = State("", (), "int64", "sum", "drawn")
        self._drawn: Lanes = own.setdefault("drawn", self._lanes_of(number, f"{prefix}.drawn"))
        self._lanes: dict[State, Lanes] = {}
        for state, name in zip(states, names_of(prefix, states, "_replicates")):
            self._lanes[state] = own.setdefault(state, self._lanes_of(state, name))
        self.states = {state.name: state for state in (self._drawn, *self._lanes.values(), *states)}

    def _lanes_of(self, state: State, name: str) -> Lanes:
        shape = (self.replicates, *state.shape)
        raise_if_too_large(f"replicates={self.replicates}", shape, f"{state.name!r} of all replicates")
        return Lanes(name, shape, state.declared_dtype, state.reduction, (*self._kind, state.key))

    def _partition(self) -> tuple[State, State | None]:
        """The state that counts each sample in one entry, and any that counts all; an error for other metrics."""
        leaves: Iterable[Any] = self.metric.leaves()
        found = {tuple(leaf.states[name] for name in leaf.cells) for leaf in leaves}
        if len(found) != 1 or set(*found) != set(self.metric.own_states()):
            names = ", ".join(state.name.rpartition(".")[2] for state in self.metric.own_states())
            raise InvalidInputError(
                f"Bootstrap without ids takes metrics that count samples of a few kinds, such as AUC or Accuracy; the "
                f"states of {self.metric.name} ({type(self.metric).__name__}: {names}) are no such counts. Give ids=, "
                "the name of a further argument of add that identifies the samples"
            )
        cells, *rest = found.pop()
        return cells, rest[0] if rest else None

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """What a batch adds to the metric's states, and to those of each replicate."""
        pairs = list(self.metric.statistics(batch))
        if self.ids is None:
            if batch.weight is not None or batch.width != 1:
                what = "weights" if batch.weight is not None else "rows of several elements, which are drawn together"
                raise InvalidInputError(
                    f"without ids Bootstrap counts samples, and it was given {what}. Give ids=, the name "
                    "of a further argument of add that identifies the samples"
                )
            return pairs
        if batch.xp.FILTERS and not len(batch.prediction):
            return pairs
        words_of_ids = batch.cached(("words", self._kind), lambda: self._words(batch))
        samples = batch.xp.shape(batch.prediction)[0]
        floats = batch.weight is not None or any(state.declared_dtype == "float64" for state in self._lanes)
        step = max(1, _AT_ONCE // ((8 if floats else 1) * self.replicates * batch.width)) * batch.width
        if samples > step and not is_static(batch.prediction):
            return pairs + self._by_parts(batch, words_of_ids, step)
        inside = batch.cached(("resampled", self._kind), lambda: self._resampled(batch, words_of_ids))
        return pairs + self._of_replicates(inside)

    def _of_replicates(self, inside: Batch) -> list[tuple[State, Any]]:
        pairs: list[tuple[State, Any]] = [(self._drawn, inside.number)]
        return pairs + [(self._lanes[state], increment) for state, increment in self.metric.statistics(inside)]

    def _by_parts(self, batch: Batch, words_of_ids: tuple[Any, Any], step: int) -> list[tuple[State, Any]]:
        """The same for a large batch, with only the weights of one part in memory at a time."""
        done: dict[State, Any] = batch.cached(("by parts", self._kind), dict)  # also by metrics that share the states
        asked = [self._drawn, *self._lanes.values()]
        if any(state not in done for state in asked):
            totals = self._totals(batch, words_of_ids, step)
            for state in asked:
                done.setdefault(state, totals.get(state))
        return [(state, done[state]) for state in asked if done[state] is not None]

    def _totals(self, batch: Batch, words_of_ids: tuple[Any, Any], step: int) -> dict[State, Any]:
        groups, samples = batch.lanes, len(batch.prediction)
        assert not isinstance(groups, (Nested, Replicates))
        if groups is None or batch.xp is not numpy_ops:
            parts: list[Any] = [slice(start, start + step) for start in range(0, samples, step)]
            return {state: total.value for state, total in self._sums(batch, words_of_ids, groups, parts).items()}
        # One group after the other: its replicates are sums of columns, and lie close together.
        order = np.argsort(groups.index.astype(np.min_scalar_type(groups.size)), kind="stable")
        bounds = np.searchsorted(groups.index[order], np.arange(groups.size + 1)).tolist()
        found = []
        for first, last in zip(bounds, bounds[1:]):
            parts = [order[start : min(start + step, last)] for start in range(first, last, step)]
            found.append(self._sums(batch, words_of_ids, None, parts))
        states = dict.fromkeys(state for sums in found for state in sums)
        return {state: np.stack([self._row(state, sums.get(state)) for sums in found]) for state in states}

    def _row(self, state: State, total: State | None) -> np.ndarray:
        if total is None:
            return np.full(state.shape, identity(state.reduction, state.declared_dtype))
        return total.value

    def _sums(
        self, batch: Batch, words_of_ids: tuple[Any, Any], groups: Any, parts: Iterable[Any]
    ) -> dict[State, State]:
        """What parts of a batch add, each with its places among the samples."""
        totals: dict[State, State] = {}
        one, two = words_of_ids
        for place in parts:
            part = batch.part(place)
            if groups is not None:
                part = part.in_lanes(Groups(batch.xp, groups.index[place], groups.size))
            for state, increment in self._of_replicates(self._resampled(part, (one[place], two[place]))):
                if state not in totals:
                    shape = state.shape if groups is None else (groups.size, *state.shape)
                    totals[state] = Lanes(state.name, shape, state.declared_dtype, state.reduction)
                totals[state].accumulate(
                    increment if batch.checked else without_strays(batch.xp, increment, totals[state])
                )
        return totals

    def _resampled(self, batch: Batch, words_of_ids: tuple[Any, Any]) -> Batch:
        salt, xp = salts(self.seed, self.replicates), batch.xp
        if isinstance(words_of_ids[0], np.ndarray):
            times = poisson(numpy_ops, *words_of_ids, salt)
            times = times if xp is numpy_ops else xp.asarray(times, "times")
        else:
            times = poisson(xp, *words_of_ids, xp.integers(salt))
        return batch.in_lanes(Replicates(xp, times, self.replicates))

    def _words(self, batch: Batch) -> tuple[Any, Any]:
        """The hash of each sample's id, on the host unless that would wait for a device."""
        assert self.ids is not None
        ids = batch.key_column(self.ids)
        if is_paddle(ids) and not namespace(ids).is_eager(ids):
            xp = namespace(ids)
            ids = xp.asarray(ids, self.ids)
            if xp.kind(ids) == "f":
                raise InvalidInputError(f"{self.ids} must hold integers or texts, one per sample, not {ids.dtype}")
            return words(xp, xp.cast(ids, "int64"), self.seed)
        if is_static(batch.prediction):
            raise InvalidInputError(
                f"{self.ids} must be an integer variable of the static program, not an array; texts are not for static "
                "programs: fetch what add takes, and give it the arrays after each run"
            )
        if isinstance(ids, Coded):
            return words(numpy_ops, integer_ids(ids.values)[ids.codes], self.seed)
        return words(numpy_ops, integer_ids(keys_of(ids, self.ids)), self.seed)

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value and those of the replicates."""
        value = self.metric.evaluate(values, carries)
        draws = self._from_counts(values) if self.ids is None else self._from_lanes(values)
        with muted(UndefinedMetricWarning, BucketWarning):
            replicates = [self.metric.evaluate(each, {}) for each in draws]
        return self._result(value, replicates, None if self.ids is None else values[self._drawn])

    def _from_lanes(self, values: Mapping[State, np.ndarray]) -> Iterator[Mapping[State, np.ndarray]]:
        for r in range(self.replicates):
            yield {state: values[lanes][r, ...] for state, lanes in self._lanes.items()}

    def _from_counts(self, values: Mapping[State, np.ndarray]) -> Iterator[Mapping[State, np.ndarray]]:
        """Replicates of the counts, drawn as Poisson variables with these means."""
        cells, whole = self._partition()
        counts = values[cells]
        rest = 0 if whole is None else values[whole].item() - counts.sum().item()
        mean = np.minimum(np.append(counts, rest), _LARGEST)
        random = np.random.Generator(np.random.PCG64([abs(self.seed), int(self.seed < 0)]))
        for _ in range(self.replicates):
            drawn = random.poisson(mean)
            found = {cells: drawn[:-1].reshape(counts.shape)}
            yield found if whole is None else {**found, whole: drawn.sum()}

    def _result(self, value: Any, replicates: list[Any], drawn: np.ndarray | None) -> Any:
        """The result for a number or an array, or one for each entry of a dict or tuple."""
        if isinstance(value, dict):
            return {key: self._result(value[key], [each[key] for each in replicates], drawn) for key in value}
        if isinstance(value, tuple):
            parts = [self._result(part, [each[i] for each in replicates], drawn) for i, part in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        arrays = [np.asarray(each) for each in (value, *replicates)]
        shapes = list(dict.fromkeys(array.shape for array in arrays))
        if len(shapes) > 1 or any(array.dtype.kind not in "biuf" for array in arrays):
            given = f"arrays of the shapes {list(shapes[0])} and {list(shapes[1])}" if shapes[1:] else repr(value)
            raise InvalidInputError(
                "Bootstrap takes metrics whose value is a number, or an array of one shape whatever the "
                f"samples, or a dict or tuple of these; {self.metric.name} gives {given}"
            )
        table = np.stack([array.astype(np.float64) for array in arrays[1:]])
        return bootstrap_result(value, table, self.seed, drawn, self.confidence, self.metric.name)
