"""The numbers of samples and of records of each batch, which identify padding if they differ."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Callable, Protocol, Sequence

import numpy as np

from fleetmetrics.support.checks import raise_if_unknown_argument
from fleetmetrics.support.traced import raise_if_traced

__all__ = ["Ledger", "counted", "kept_records", "samples_added", "samples_processed"]

#: The size of the current call's batch, as a list; and the ledgers of this call and of the calls inside it.
_under_way: contextvars.ContextVar[Any] = contextvars.ContextVar("_under_way", default=None)


class Ledger:
    """One metric's ledger: the samples (None if unknown) and the records of each call of ``add`` or ``process``."""

    nested: bool
    records: int

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.records = 0
        #: Whether another metric made the calls; it may hold back samples.
        self.nested = False
        self._last: Any = None

    def enter(self, batch: list[Any], records: int, nested: bool) -> None:
        """Enter the records that a call has appended for a batch, possibly more than once."""
        if self._last is not batch or not self.calls:
            self.calls.append([*batch, 0])
        self.calls[-1][1] += records
        self._last, self.records, self.nested = batch, self.records + records, self.nested or nested

    def cut(self, calls: int) -> None:
        """Keep only this many calls."""
        del self.calls[calls:]
        self.records = sum(records for _, records in self.calls)

    def note(self, held: int) -> dict[str, Any]:
        """The note for the other workers on a metric with this number of records; no "calls" if these are samples."""
        if not self.calls or self.records != held:  # it was not counted
            return {"samples": held, "calls": [], "nested": False}
        known = all(samples is not None for samples, _ in self.calls)
        odd = known and any(samples != records for samples, records in self.calls)
        runs = [[*pair, len(list(run))] for pair, run in groupby(self.calls)] if odd else []
        return {"samples": sum(n for n, _ in self.calls) if known else None, "calls": runs, "nested": self.nested}


class Counting(Protocol):
    """A metric whose calls a ledger counts."""

    _ledger: Ledger

    def _appended(self) -> Sequence[Any]:
        """The records that the calls have appended."""
        ...


def counted(method: Callable[..., Any], count: Callable[..., int | None]) -> Callable[..., Any]:
    """Wrap a method, so that each call without an error enters its records in the metric's ledger."""
    _, *parameters = inspect.signature(method).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    @functools.wraps(method)
    def call(self: Counting, *args: Any, **named: Any) -> Any:
        raise_if_traced(f"{method.__name__} of {type(self).__name__}")
        if named and not takes_any:
            raise_if_unknown_argument(f"{type(self).__name__}.{method.__name__}", known, named)
        ledger, (batch, inside) = self._ledger, _under_way.get() or ([count(*args, **named)], ())
        if ledger in inside:  # a subclass passes records on to super()
            return method(self, *args, **named)
        before = len(self._appended())
        if before < ledger.records:  # they were cleared from outside
            ledger.cut(0)
        token = _under_way.set((batch, (*inside, ledger)))
        try:
            value = method(self, *args, **named)
        finally:
            _under_way.reset(token)
        ledger.enter(batch, len(self._appended()) - before, bool(inside))
        return value

    return call


def samples_added(*columns: Any, **named: Any) -> int | None:
    """The number of samples in a call of MMEval's ``add``: the common length of all columns."""
    return _length({**dict(enumerate(columns)), **named})


def samples_processed(data_batch: Any = None, data_samples: Any = None, **named: Any) -> int | None:
    """The number of samples in a call of MMEngine's ``process``: of the objects, or of columns and batch."""
    samples = list(named.values())[-1] if named else data_samples  # a subclass may rename it
    size = _length(samples)
    columns = samples if isinstance(samples, (list, tuple)) else ()
    if not columns or any(isinstance(column, Mapping) or _length(column) is None for column in columns):
        return size
    batch = dict(enumerate(data_batch)) if isinstance(data_batch, (list, tuple)) else data_batch
    common = _length(dict(enumerate(columns)))
    processed = size if common == size else _length(batch)
    return processed if processed in (size, common) else None


def _length(value: Any) -> int | None:
    """The length of a list or an array, or the common length of a dict's columns."""
    if isinstance(value, Mapping):
        lengths = {_length(column) for column in value.values()} - {None}
        return lengths.pop() if len(lengths) == 1 else None
    shape = getattr(value, "shape", None)
    if isinstance(shape, (tuple, list)):
        return int(shape[0]) if shape else None
    return len(value) if isinstance(value, (list, tuple, range)) else None


def kept_records(runs: np.ndarray, keep: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The kept records of a worker, and their places.

    The records of a call with one record per sample follow the samples. The records of another call are kept if one of
    its samples is, at the place of the first such sample.

    Args:
        runs: samples and records of calls, and the number of such calls in a row, int [runs, 3].
        keep: whether each sample counts, bool [samples].
        places: the place of each sample, int [samples].

    Returns:
        bool [records]; int [kept]; and the number of samples that do not count among those of the kept records.
    """
    paired = runs[:, 0] == runs[:, 1]
    units = np.where(paired[:, None], 1, runs[:, :2])
    samples, records = np.repeat(units, np.where(paired, runs[:, 0], 1) * runs[:, 2], axis=0).T
    before = np.append(0, np.cumsum(keep))
    ends = np.cumsum(samples)
    counting = before[ends] - before[ends - samples]
    first = np.append(places[keep], 0)[before[ends - samples]]
    kept = np.repeat((counting > 0) | (samples == 0), records)
    return kept, np.repeat(first, records)[kept], int((samples - counting)[(counting > 0) & (records > 0)].sum())
