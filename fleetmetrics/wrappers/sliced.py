"""``Sliced``: any metric, for each key of a column at once."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Dict, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.errors import BucketWarning, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.records.folding import Folding
from fleetmetrics.records.table import Table
from fleetmetrics.state.state import State
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.warning import gathered, part_named, warn
from fleetmetrics.wrappers.keyed import host_keys
from fleetmetrics.wrappers.slicing import KEY, FixedSlicing, GrowingSlicing, SlicedRecords, Slicing
from fleetmetrics.wrappers.wrapper import Wrapper
from fleetmetrics.xp import Directed, Scattered, is_paddle, numpy_ops

__all__ = ["Sliced"]

#: The most slices named in a warning.
_NAMED = 5
_EVALUATED_BY = ("values_from_rows", "value_from_states", "formula")
_ARGUMENTS = ("prediction", "label", "weight", "mask")


class Sliced(Wrapper[Dict[Any, Value]]):
    """A metric for each key of a column (slot, channel, country, cohort) at once.

    ``add`` takes the metric's arguments and one more: ``add(prediction, label, slot=)`` takes an integer or string for
    each sample. ``compute`` returns a dict of values by key, sorted (strings by code points). The value of ``other`` is
    last, if any sample has a different key. Workers may have different keys. All slices are part of one exchange, also
    in a `MetricCollection`, where `Sliced` metrics of equal settings share states. Each value is the metric's value
    over the samples of the slice; one warning names all slices with an undefined value.

    Without ``keys``, the slices are found in the data. The ``max_keys`` smallest keys are kept, and all other samples
    are counted under ``other``, with a warning that says how many. The kept keys depend only on the samples: a key
    among the smallest of all workers is always among the smallest on each worker, and loses no samples. The states are
    on the host, and ``add`` waits for a device to read the keys; its cost does not depend on the number of slices.
    Without samples, the value is an empty dict, with `UndefinedMetricWarning`.

    With ``keys``, the states have a fixed size, and all other keys are counted in ``other``. ``add`` does not wait for
    a device, and integer keys work in static programs, too. Every key is in the result, also without samples.

    A metric that keeps every sample (GAUC, NDCG) keeps its key, too; all slices are still computed in one pass. A
    user's or query's samples are only compared within a slice. Samples of a file or a data frame without a key form the
    slice ``None``, unless ``keys`` are given.

    To get an interval for each slice, slice a `Bootstrap` with ``ids``. For slices over a window, put `Windowed`
    outside: ``Windowed(Sliced(metric, keys=[...]), last=10)``.

    Args:
        metric: the metric to slice; without samples, left unchanged.
        by: the name of the column.
        keys: the slices, integers or strings; None: those in the data.
        max_keys: the number of keys to keep without ``keys``, at least 1; None: all.
        other: the key of the result for all other samples.
        **common: those of `Metric`; all but ``name`` are those of the metric unless given.

    Raises:
        InvalidInputError: an argument is invalid, or the metric cannot be sliced.

    Examples:
        >>> from fleetmetrics import Accuracy
        >>> metric = Sliced(Accuracy(), by="slot")
        >>> metric.add([0.9, 0.2, 0.7, 0.6], [1, 0, 0, 1], slot=[3, 3, 1, 1])
        >>> metric.compute()
        {1: 0.5, 3: 1.0}
        >>> metric = Sliced(Accuracy(), by="country", keys=["fr", "de"])
        >>> metric.add([0.9, 0.2, 0.7, 0.6], [1, 0, 0, 1], country=["de", "fr", "it", "fr"])
        >>> metric.compute()
        {'de': 1.0, 'fr': 1.0, 'other': 0.0}
    """

    gives = "slices"
    pictures: tuple[str, ...] = ("slices",)

    by: str
    columns: tuple[str, ...]
    nullable: tuple[str, ...]
    other: str

    refused: ClassVar[dict[str, str]] = {
        "Sliced": "join the two columns into one key",
        "Windowed": "reverse them: Windowed(Sliced(metric, keys=[...]), last=...)",
    }

    def __init__(
        self,
        metric: Metric[Value],
        by: str = "slot",
        *,
        keys: Sequence[Any] | None = None,
        max_keys: int | None = 1000,
        other: str = "other",
        **common: Unpack[Common],
    ) -> None:
        if not isinstance(by, str) or not by.isidentifier() or by in _ARGUMENTS:
            raise InvalidInputError(f"by must be the name of an additional argument of add, not {by!r}")
        if not isinstance(other, str):
            raise InvalidInputError(f"other must be a string, not {other!r}")
        self.by, self.other = by, other
        limit = None if max_keys is None else whole_number_of("max_keys", max_keys, 1)
        self._slicing: Slicing = GrowingSlicing(by, other, "", limit)
        if keys is not None:
            slices = _checked(keys, other)
            self._slicing = FixedSlicing(by, other, "", slices)
            self.settle(keys=slices.tolist(), max_keys=None)
        super().__init__(metric, **common)

    def _fit(self) -> None:
        self.columns = tuple(dict.fromkeys((self.by, *self.metric.columns)))
        self.nullable = () if self.by in self.metric.columns else (self.by,)

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self._slicing = slicing = shared.first(self._slicing.kind, self._slicing.fresh(prefix))
        self.metric.become_part(prefix, slicing.shared)
        self._entries = {state: slicing.state_of(state) for state in self.metric.own_states()}
        self._records = {metric: SlicedRecords(metric, slicing) for metric in self.metric.record_metrics()}
        first = () if slicing.table is None else (slicing.table,)
        return (*first, slicing.samples, *self._entries.values())

    def keep_largest(self, most: int) -> None:
        """Keep the largest slices and put the others into ``other``; this affects metrics that share the slices too.

        Args:
            most: the number of slices to keep; of slices with equal numbers of samples, those with the smallest keys.

        Raises:
            InvalidInputError: the metric has ``keys``, or a number of ``max_keys``.
        """
        if self._slicing.table is None or not self._slicing.table.keeps_all:
            raise InvalidInputError(f"{self.name}: keep_largest is for Sliced(metric, by, max_keys=None)")
        self._slicing.keep_largest(whole_number_of("most", most, 1))

    @property
    def _kept_of(self) -> int | None:
        """The number of keys that the slices were chosen from, 0 if unknown; None: every key has a slice."""
        table = self._slicing.table
        return None if table is None or table.chosen is None else table.chosen_of

    def record_metrics(self) -> Iterable[Folding]:
        """The metrics that keep records, by slice."""
        return self._records.values()

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """A batch's increments of the slices of its samples."""
        slicing = self._slicing
        entered = slicing.enter(batch)
        if entered is None:
            return []
        inside, plan = entered
        found: list[tuple[Any, Any]] = [(slicing.samples, inside.number)]
        kept: list[tuple[Any, Any]] = []
        for target, increment in self.metric.increments_of(inside):
            if isinstance(target, Table):
                key = batch.cached(("slice key", self.by), lambda: _typed(batch.column(self.by), self.by))
                records = {**increment.records, KEY: key}
                kept.append((slicing.tables[target], increment._replace(records=records)))
            else:
                increment = increment if plan is None else _by_cell(inside, target, increment)
                found.append((self._entries[target], increment))
        if plan is not None:  # every state must follow it, even without an increment
            given = {**dict.fromkeys(self._entries.values()), **dict(found)}
            found = [(slicing.table, plan), *[(state, Directed(plan, each)) for state, each in given.items()]]
        return found + kept

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The values by key."""
        slicing = self._slicing
        keys = slicing.named(slicing.keys(values))
        if not keys:
            return undefined(self.name, "there are no samples", {})
        slicing.warn_of_the_rest(self.name, values)
        names = [*keys, self.other] if values[slicing.samples][-1] else keys
        result = {}
        warnings: dict[type[Warning], dict[Any, str]] = {UndefinedMetricWarning: {}, BucketWarning: {}}
        states = {state: values[entry][: len(names)] for state, entry in self._entries.items()}
        kind: Any = type(self.metric)
        quick = self.metric.values_from_rows(states) if _knows_many(kind) else None
        for place, key in enumerate(names):
            if quick is not None and quick[place] is not None:
                result[key] = quick[place]
                continue
            own = {state: each[place, ...] for state, each in states.items()}
            carry = {metric: records.known(carries[records])(place) for metric, records in self._records.items()}
            part = f"{self.by} {key!r:.80}"
            with part_named(part), gathered(*warnings) as said:
                result[key] = self.metric.value_from_states(own, carry)
            for category, texts in said.items():
                if texts:
                    warnings[category][key] = texts[0] if part in texts[0] else f"{part}: {texts[0]}"
        for category, found in warnings.items():
            self._warn(category, found, len(names))
        return result

    def _warn(self, category: type[Warning], warnings: Mapping[Any, str], slices: int) -> None:
        """Warn once for all slices with a warning of a category; ``warnings`` has the first of each, by key."""
        if not warnings:
            return
        (_, text), *rest = warnings.items()
        if rest:
            more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
            named = ", ".join(f"{key!r:.80}" for key, _ in rest[:_NAMED])
            text += f" ({len(warnings)} of {slices} slices by {self.by} have such a warning: also {named}{more})"
        warn(text, category)


def _by_cell(batch: Batch, state: State, increment: Any) -> Any:
    """An increment in lanes to a table, by the place in the flat table, which all columns of slices share."""
    if not isinstance(increment, Scattered) or len(increment.indices) != 3 or len(state.shape) != 2:
        return increment
    lane, *inner = increment.indices
    if batch.xp is not numpy_ops or not batch.checked or any(index.ndim != 1 for index in increment.indices):
        return increment
    memo, key = batch.of_samples, ("cell", *map(id, inner), state.shape[1])
    if key not in memo:
        memo[key] = inner, inner[0] * state.shape[1] + inner[1]  # keeping them keeps their ids unique
    return Scattered((lane, memo[key][1]), increment.amount)


@functools.lru_cache(maxsize=256)
def _knows_many(kind: Any) -> bool:
    """Whether `values_from_rows` belongs to the formula of a class: a subclass may define another formula."""
    classes = kind.__mro__
    place = {name: next(at for at, each in enumerate(classes) if name in vars(each)) for name in _EVALUATED_BY}
    return place["values_from_rows"] == min(place.values())


def _typed(column: Any, argument: str) -> Any:
    """A column in the form to keep: tensors unchanged, bytes as strings."""
    return column if is_paddle(column) else host_keys(column, argument)


def _checked(keys: Any, other: str) -> np.ndarray:
    """Sort the keys; raise an error unless they are unique integers or strings, at least one."""
    try:
        array = host_keys(list(keys), "keys") if not isinstance(keys, (str, bytes)) else np.empty(0)
    except (InvalidInputError, TypeError, ValueError):
        array = np.empty(0)
    distinct = np.unique(array)
    if array.ndim != 1 or not len(array) or len(distinct) < len(array):
        raise InvalidInputError(f"keys must be a sequence of integers or of strings, each once, not {keys!r}")
    if array.dtype.kind == "U" and other in array:
        raise InvalidInputError(f"keys holds {other!r}, which stands for all other keys; give a different other=")
    return distinct
