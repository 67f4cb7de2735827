"""``Sliced``: any metric, for each key of a column at once.

`Slicing` finds the lane of each sample, and has the states with a row for each slice. The records of a metric that
keeps every sample get the key as an additional column; `SlicedRecords` folds those of each slice separately.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, ClassVar, Dict, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.keys import NULL, Coded, distinct
from fleetmetrics.batch.lanes import Groups
from fleetmetrics.errors import BucketWarning, InvalidInputError, StaticProgramError, UndefinedMetricWarning
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.records.folding import Folding
from fleetmetrics.records.table import Records, Table, joined_records
from fleetmetrics.serial import small
from fleetmetrics.state.state import Lanes, State
from fleetmetrics.support.checks import raise_if_too_large, whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.warning import gathered, part_named, warn
from fleetmetrics.wrappers.sliced_states import (
    EVERY_KEY,
    KeyTable,
    Known,
    Plan,
    SlicedState,
    check_kind,
    host_keys,
    positions_in,
)
from fleetmetrics.wrappers.wrapper import Wrapper
from fleetmetrics.xp import Directed, Scattered, is_paddle, is_static, namespace, numpy_ops, to_host

__all__ = ["Sliced"]

#: The most slices named in a warning.
_NAMED = 5
#: The additional column of records; no column of a metric has a space in its name.
_KEY = "slice key"
_ARGUMENTS = ("prediction", "label", "weight", "mask")
#: The methods of a metric that make its value, the quickest first.
_EVALUATED_BY = ("values_from_rows", "value_from_states", "formula")


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
        kept: Any = None if max_keys is None else whole_number_of("max_keys", max_keys, 1)
        if keys is not None:
            kept = _sorted_keys(keys, other)
            self.settle(keys=kept.tolist(), max_keys=None)
        self._slicing = Slicing(by, other, "", kept)
        super().__init__(metric, **common)

    def _fit(self) -> None:
        self.columns = tuple(dict.fromkeys((self.by, *self.metric.columns)))
        self.nullable = () if self.by in self.metric.columns else (self.by,)

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self._slicing = slicing = shared.first(self._slicing.kind, self._slicing.fresh(prefix))
        self.metric.become_part(prefix, slicing.shared)
        self._sliced = {state: slicing.sliced(state) for state in self.metric.own_states()}
        self._records = {metric: SlicedRecords(metric, slicing) for metric in self.metric.record_metrics()}
        keys = () if slicing.table is None else (slicing.table,)
        return (*keys, slicing.samples, *self._sliced.values())

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
    def chosen_of(self) -> int | None:
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
        in_lanes, plan = entered
        increments: dict[State, Any] = {slicing.samples: in_lanes.number}
        records: list[tuple[Any, Any]] = []
        for target, increment in self.metric.increments_of(in_lanes):
            if isinstance(target, Table):
                keys = batch.cached((_KEY, self.by), lambda: _keys_to_keep(batch.columns[self.by], self.by))
                kept = increment._replace(records={**increment.records, _KEY: keys})
                records.append((slicing.tables[target], kept))
            else:
                increments[self._sliced[target]] = increment if plan is None else _by_cell(in_lanes, target, increment)
        if plan is None:
            return [*increments.items(), *records]
        every = {**dict.fromkeys(self._sliced.values()), **increments}  # they follow the plan without an increment, too
        directed = [(state, Directed(plan, increment)) for state, increment in every.items()]
        return [(slicing.table, plan), *directed, *records]

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The values by key."""
        slicing = self._slicing
        names = slicing.named_keys(values)
        if not names:
            return undefined(self.name, "there are no samples", {})
        slicing.warn_of_others(self.name, values)
        if values[slicing.samples][-1]:
            names.append(self.other)
        states = {state: values[sliced][: len(names)] for state, sliced in self._sliced.items()}
        kind: Any = type(self.metric)
        quick = self.metric.values_from_rows(states) if _evaluates_rows(kind) else None
        result: dict[Any, Any] = {}
        warnings: dict[type[Warning], dict[Any, str]] = {UndefinedMetricWarning: {}, BucketWarning: {}}
        for row, key in enumerate(names):
            if quick is not None and quick[row] is not None:
                result[key] = quick[row]
                continue
            own = {state: rows[row, ...] for state, rows in states.items()}
            carry = {metric: records.carry_of(carries[records], row) for metric, records in self._records.items()}
            part = f"{self.by} {key!r:.80}"
            with part_named(part), gathered(*warnings) as texts_of:
                result[key] = self.metric.value_from_states(own, carry)
            for category, texts in texts_of.items():
                if texts:
                    warnings[category][key] = texts[0] if part in texts[0] else f"{part}: {texts[0]}"
        for category, by_key in warnings.items():
            self._warn(category, by_key, len(names))
        return result

    def _warn(self, category: type[Warning], warnings: Mapping[Any, str], slices: int) -> None:
        """Warn once for all slices with a warning of a category; ``warnings`` has the first of each, by key."""
        if not warnings:
            return
        (_, text), *others = warnings.items()
        if others:
            more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
            named = ", ".join(f"{key!r:.80}" for key, _ in others[:_NAMED])
            text += f" ({len(warnings)} of {slices} slices by {self.by} have such a warning: also {named}{more})"
        warn(text, category)


def _sorted_keys(keys: Sequence[Any], other: str) -> np.ndarray:
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


def _keys_to_keep(column: Any, argument: str) -> Any:
    """Keys in the form in which records have them: tensors unchanged, bytes as strings, a small dictionary as it is."""
    keys = column if is_paddle(column) else host_keys(column, argument)
    return keys.texts() if isinstance(keys, Coded) and len(keys.values) > len(keys) else keys


def _by_cell(batch: Batch, state: State, increment: Any) -> Any:
    """An increment in lanes to a table, by the place in the flat table, which all columns of slices share."""
    if not isinstance(increment, Scattered) or len(increment.indices) != 3 or len(state.shape) != 2:
        return increment
    lanes, *inner = increment.indices
    if batch.xp is not numpy_ops or not batch.checked or any(index.ndim != 1 for index in increment.indices):
        return increment
    memo, key = batch.of_samples, ("cell", *map(id, inner), state.shape[1])
    if key not in memo:
        memo[key] = inner, inner[0] * state.shape[1] + inner[1]  # keeping them keeps their ids unique
    return Scattered((lanes, memo[key][1]), increment.amount)


@functools.lru_cache(maxsize=256)
def _evaluates_rows(kind: Any) -> bool:
    """Whether `values_from_rows` belongs to the formula of a class: a subclass may define another formula."""
    classes = kind.__mro__
    place = {name: next(number for number, kind in enumerate(classes) if name in vars(kind)) for name in _EVALUATED_BY}
    return place["values_from_rows"] == min(place.values())


# -- the parts that `Sliced` metrics share ----------------------------------------------------------------------


class Slicing:
    """The lane of each sample, and the states with a row for each slice; equal `Sliced` metrics share one.

    Fixed keys have sorted rows from the beginning, in states of a fixed size that work in all modes. Keys of the data
    are in a `KeyTable`; their states are on the host.

    Args:
        by: the column of the keys.
        other: the name of the slice of all other keys.
        prefix: the prefix of the names of its states.
        kept: the fixed keys, sorted; or the most keys to keep of those in the data, None: all.
    """

    by: str
    other: str
    prefix: str
    kept: np.ndarray | int | None
    kind: tuple[Any, ...]
    shared: Shared
    samples: State

    def __init__(self, by: str, other: str, prefix: str, kept: np.ndarray | int | None) -> None:
        self.by, self.other, self.prefix, self.kept = by, other, prefix, kept
        #: Slicings of equal kind can replace each other.
        self.kind = ("sliced", by, other, tuple(kept.tolist()) if isinstance(kept, np.ndarray) else kept)
        #: The keys of the data; None: they are fixed.
        self.table: KeyTable | None = None
        if not isinstance(kept, np.ndarray):
            self.table = KeyTable(f"{prefix}.keys", by, EVERY_KEY if kept is None else kept, self.kind)
        self.shared = Shared()  # shared by the sliced metrics
        self.tables: dict[Table, Table] = {}
        self._sliced: dict[State, State] = {}
        self.samples = self.sliced(State(f"{prefix}.samples", (), "int64", "sum", "samples of the slice"))

    def fresh(self, prefix: str) -> Slicing:
        """A slicing of the same settings, without states."""
        return Slicing(self.by, self.other, prefix, self.kept)

    def sliced(self, state: State) -> State:
        """The state with a row for each slice of a state; the last row, once sorted, is for other keys."""
        if state not in self._sliced:
            self._sliced[state] = self._new_state(state)
        return self._sliced[state]

    def _new_state(self, state: State) -> State:
        key, of_all = (*self.kind, state.key), f"{state.name!r} of all slices"
        if self.table is not None:
            if isinstance(self.kept, int):
                raise_if_too_large(f"max_keys={self.kept}", (self.kept + 1, *state.shape), of_all)
            return SlicedState(state, self.table, state.name, key)
        shape = (len(self.fixed_keys) + 1, *state.shape)
        raise_if_too_large(f"keys, of which there are {len(self.fixed_keys)},", shape, of_all)
        return Lanes(state.name, shape, state.declared_dtype, state.reduction, key)

    @property
    def fixed_keys(self) -> np.ndarray:
        """The keys of the constructor."""
        assert isinstance(self.kept, np.ndarray)
        return self.kept

    def sorted_keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        """The keys of all workers, from the global states."""
        return self.fixed_keys if self.table is None else values[self.table]

    def named_keys(self, values: Mapping[State, np.ndarray]) -> list[Any]:
        """The keys of all workers in the form of the result."""
        keys = self.sorted_keys(values).tolist()
        if self.table is None:
            return keys
        return [None if key in NULL.values() else key for key in keys]

    def enter(self, batch: Batch) -> tuple[Batch, Plan | None] | None:
        """A batch in lanes, one for each slice of its samples, and any plan for the table; None if no sample counts."""
        entered = self._enter_fixed if self.table is None else self._enter_data
        return batch.cached(("in slices", self), lambda: entered(batch))

    def _enter_fixed(self, batch: Batch) -> tuple[Batch, None] | None:
        if batch.xp.FILTERS and not len(batch.each):
            return None
        return batch.in_lanes(Groups(batch.xp, self._rows_of(batch), len(self.fixed_keys) + 1), self.by), None

    def _rows_of(self, batch: Batch) -> Any:
        """The row of each sample's key among the fixed ones, int64 ``[n]``; it is the lane, too."""
        xp, column, fixed = batch.xp, batch.columns[self.by], self.fixed_keys
        if is_paddle(column) and xp is not numpy_ops:
            column = namespace(column).asarray(column, self.by)
            if fixed.dtype.kind == "U":
                raise InvalidInputError(
                    f"{self.by} must hold strings, as keys does, one per sample, not {column.dtype}"
                )
            keys = xp.integers(fixed)
            row = xp.position(keys, xp.cast(column, "int64"))
            nearest = xp.minimum(row, xp.full_like(row, len(fixed) - 1))
            return xp.where(xp.equal(xp.take(keys, nearest), column), row, xp.full_like(row, len(fixed)))
        if is_static(batch.each):
            raise InvalidInputError(f"{self.by} must be a variable of the static program, not an array")
        keys = host_keys(column, self.by)
        check_kind(fixed, keys, self.by)
        return xp.asarray(positions_in(fixed, keys), self.by)

    def _enter_data(self, batch: Batch) -> tuple[Batch, Plan] | None:
        if is_static(batch.each):
            raise StaticProgramError(
                f"{self.prefix}: states that grow with the keys of {self.by} cannot be in a static program; list the "
                "keys, Sliced(..., keys=[...]); or fetch the inputs of add, and pass it the arrays after each run"
            )
        assert self.table is not None
        keys = host_keys(batch.columns[self.by], self.by)
        keep = None if batch.keep is None else np.asarray(to_host(batch.keep))
        counted = keys if keep is None else keys[keep]
        if not len(counted):
            return None
        distinct = counted.indexed[0] if isinstance(counted, Coded) else counted
        if distinct.dtype.kind == "U" and (distinct == self.other).any():
            raise InvalidInputError(
                f"{self.by} holds {self.other!r}, which stands for all other keys; give Sliced a different other="
            )
        plan = self.table.plan(counted)
        lanes = plan.lanes
        if keep is not None:
            lanes = np.zeros(len(keys), np.int64)
            lanes[keep] = plan.lanes
        return batch.in_lanes(Groups(batch.xp, batch.xp.asarray(lanes, self.by), len(plan.rows)), self.by), plan

    def keep_largest(self, most: int) -> None:
        """Keep the slices with the most samples, of equal ones those with the smallest keys; merge the others."""
        assert self.table is not None
        keys, rows = self.table.known
        if len(keys) <= most:
            return
        order = np.argsort(-self.samples.read()[:-1], kind="stable")
        kept, nothing = np.sort(order[:most]), np.empty(0, np.int64)
        plan = Plan(nothing, nothing, Known(keys[kept], rows[kept]), rows[order[most:]])
        for state in self._sliced.values():
            state.accumulate(Directed(plan, None))
        self.table.accumulate(plan)
        self.table.choose(keys[kept], len(keys) if self.table.chosen is None else self.table.chosen_of)

    def warn_of_others(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        """Warn, in the name of the metric ``owner``, if there were too many keys to keep."""
        samples = values[self.samples]
        if samples[-1] and isinstance(self.kept, int):
            warn(
                f"{owner}: {self.by} has more than {self.kept} keys; the {len(samples) - 1} smallest are kept, and "
                f"{samples[-1]} of {samples.sum()} samples, those of all other keys, are in {self.other!r}. Give a "
                "larger max_keys=, or the keys that matter, keys=[...]"
            )


# -- records ----------------------------------------------------------------------------------------------------


class SlicedRecords(Folding):
    """Replaces a metric that keeps every sample in the fold, and folds each slice separately.

    A carry has the metric's carry of each slice, by the row of its key; of a closed part by the key itself, None for
    all other keys.
    """

    columns: tuple[str, ...]
    metric: Folding
    name: str
    slicing: Slicing
    states: dict[str, State]
    table: Table

    def __init__(self, metric: Folding, slicing: Slicing) -> None:
        self.metric, self.name, self.slicing, self.columns = metric, metric.name, slicing, metric.columns
        self.table = slicing.tables.setdefault(metric.table, _sliced_table(metric.table))
        self.states = {f"own {name}": slicing.sliced(state) for name, state in metric.states.items()}
        if slicing.table is not None:
            self.states["keys"] = slicing.table

    def start(self) -> dict[str, Any]:
        """The empty carry."""
        return {"slices": {}}

    def carry_of(self, carry: Mapping[str, Any], row: int) -> dict[str, Any]:
        """The metric's carry of a slice, by the row of its key; the last row is that of all other keys."""
        slices: dict[int, dict[str, Any]] = carry["slices"]
        return slices[row] if row in slices else self.metric.start()

    @property
    def spreads(self) -> bool:
        """Whether each piece can be folded on another worker."""
        return self.metric.spreads

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Let the metric fold each slice of a piece."""
        return {"slices": {**carry["slices"], **self._by_row(self.metric.fold, carry, records, states)}}

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The metric's carry of each slice of a piece."""
        return {"slices": self._by_row(self.metric.piece, before, records, states)}

    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """The metric's `ahead` for each slice of a piece."""
        carries = ((row, self.metric.ahead(*of_slice)) for row, *of_slice in self._slices(records, states))
        return {"slices": {row: carry for row, carry in carries if carry is not None}}

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        """Let the metric join the carries of each slice."""
        joined = {row: self.metric.join(self.carry_of(carry, row), own) for row, own in later["slices"].items()}
        return {"slices": {**carry["slices"], **joined}}

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        """Let the metric close each slice."""
        if not records:
            return self.start()
        keys, its_totals = [*self._keys(states).tolist(), None], totals["slices"] if totals else {}
        slices = [(keys[row], *of_slice) for row, *of_slice in self._slices(records, states)]
        return {"slices": {key: self.metric.closed(part, own, its_totals.get(key)) for key, part, own in slices}}

    def join_closed(self, carry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """Join the parts of each slice, in the order of the keys."""
        one, more = carry["slices"], other["slices"]
        both = {key: self.metric.join_closed(one[key], more[key]) for key in one if key in more}
        every = {**one, **more, **both}
        return {"slices": {key: every[key] for key in sorted(every, key=lambda key: (key is None, key))}}

    def of_closed(self, carry: dict[str, Any], states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carries by row; InvalidInputError for a slice whose key has no row, of those of all parts."""
        rows = {key: row for row, key in enumerate([*self._keys(states).tolist(), None])}
        for key in carry["slices"]:
            if key not in rows:
                raise InvalidInputError(
                    f"{self.name}: {self.slicing.by} has more than {self.slicing.kept} keys in all parts together, and "
                    f"{key!r} was closed as one of those that are kept; give a larger max_keys=, or keys=[...]"
                )
        slices = [(rows[key], own) for key, own in carry["slices"].items()]
        return {"slices": {row: self.metric.of_closed(own, self._states_at(states, row)) for row, own in slices}}

    def _keys(self, states: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.slicing.fixed_keys if self.slicing.table is None else states["keys"]

    def _states_at(self, states: Mapping[str, np.ndarray], row: int) -> dict[str, np.ndarray]:
        return {name: states[f"own {name}"][row, ...] for name in self.metric.states}

    def _slices(self, records: Records, states: Mapping[str, np.ndarray]) -> list[tuple[int, Records, Any]]:
        """The slices in a piece: the row of the key, the samples, and the states of the metric."""
        keys = self._keys(states)
        parts = records.cached(
            ("slices", self.slicing), lambda piece: _by_slice(piece, positions_in(keys, piece[_KEY]))
        )
        return [(row, part, self._states_at(states, row)) for row, part in parts]

    def _by_row(
        self, fold: Callable[..., Any], carry: Mapping[str, Any], records: Records, states: Mapping[str, np.ndarray]
    ) -> dict[int, Any]:
        """The results of a method of the metric for each slice of a piece and its carry."""
        return {row: fold(self.carry_of(carry, row), *of_slice) for row, *of_slice in self._slices(records, states)}


def _sliced_table(table: Table) -> Table:
    """A table with the slice of each sample; prepares the records of each slice as ``table`` does."""
    prepare = None if table.only_sorts else functools.partial(_prepared, table)
    return Table(table.name, (*table.columns, _KEY), table.order, table.key, prepare)


def _prepared(table: Table, records: Records) -> Records:
    """Prepare the records of each slice on their own, and sort them together."""
    if not len(records[_KEY]):
        return records
    keys, index = distinct(records[_KEY])
    parts = [(keys[row], table.prepare(part)) for row, part in _by_slice(records, index)]
    return table.sorted(joined_records(table.name, [{**part, _KEY: np.full(part.length, key)} for key, part in parts]))


def _by_slice(records: Records, rows: np.ndarray) -> list[tuple[int, Records]]:
    """The samples of each slice, by its row."""
    order = np.argsort(small(rows), kind="stable")  # NumPy sorts integers of 8 or 16 bits by radix
    numbers = np.bincount(rows)
    present = np.flatnonzero(numbers)
    own = Records({name: column for name, column in records.items() if name != _KEY})
    places = np.split(order, np.cumsum(numbers[present])[:-1])
    return [(row, own.taken(chosen)) for row, chosen in zip(present.tolist(), places)]
