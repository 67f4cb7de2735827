"""Find the slices with the most rows: a first pass over the columns of the keys counts every key exactly.

It runs only if there are more keys than to keep: see `expect_few`.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import NULL, Coded, distinct
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.reading import Reading
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files.formats import THREADS, read_ahead
from fleetmetrics.files.processes import results_of
from fleetmetrics.wrappers.sliced_states import KeyTable

__all__ = ["choose_largest", "expect_any", "expect_few"]


def expect_few(
    metrics: Any,
    sources: Sequence[Any],
    columns: Mapping[str, Any],
    most: int,
    format: str | None = None,
    reading: Reading | None = None,
) -> None:
    """Let `Sliced` metrics that keep all keys raise `TooManyKeys` beyond this number; the keys are then chosen.

    If the first rows have more keys, choose now; see `choose_largest` for the arguments.
    """
    tables = _tables(metrics, columns)
    if not tables:
        return
    for table in tables:
        table.most = most
    wanted = _wanted(metrics, tables, columns, reading)
    first: dict[str, Any] = {}
    pieces = read_ahead(sources[0], format, wanted)
    with contextlib.closing(pieces), contextlib.suppress(DataError, InvalidInputError):  # the pass meets it, too
        first = next((wanted.arguments(piece.table) for piece in pieces), {})
    if any(len(distinct(keys)[0]) > most for keys in first.values()):
        choose_largest(metrics, sources, columns, most, format, reading)


def expect_any(metrics: Any) -> None:
    """Let `Sliced` metrics have any number of keys again, because others are merged with them."""
    for table in _tables(metrics):
        table.most = None


def choose_largest(
    metrics: Any,
    sources: Sequence[Any],
    columns: Mapping[str, Any],
    most: int,
    format: str | None = None,
    reading: Reading | None = None,
) -> None:
    """Let `Sliced` metrics that keep all keys keep only those with the most rows; ties go to the smallest key.

    Args:
        metrics: without samples.
        sources: paths of files, or Arrow tables.
        columns: the column, or columns, of each argument of ``add``.
        most: the number of slices to keep.
        format: of the files, or None.
        reading: options of reading.
    """
    tables = _tables(metrics, columns)
    if not tables:
        return
    wanted = _wanted(metrics, tables, columns, reading)
    counts = {table.by: _Counts() for table in tables}
    for counted in results_of(
        functools.partial(_counted, wanted, format), [(source,) for source in sources], 1, THREADS
    ):
        for by, its in counted.items():
            counts[by].add(list(its.places), its.numbers)
    for table in tables:
        largest = counts[table.by].largest(most)
        table.most = None
        if largest is not None:
            table.choose(largest, len(counts[table.by].places))


def _tables(metrics: Any, columns: Mapping[str, Any] | None = None) -> list[KeyTable]:
    """The tables of these columns that keep all keys."""
    tables = [state for state in metrics.own_states() if isinstance(state, KeyTable)]
    return [table for table in tables if table.keeps_all and (columns is None or table.by in columns)]


def _wanted(metrics: Any, tables: Sequence[KeyTable], columns: Mapping[str, Any], reading: Reading | None) -> Columns:
    return Columns(metrics, {table.by: columns[table.by] for table in tables}, reading)


def _counted(columns: Columns, format: str | None, source: Any) -> dict[str, _Counts]:
    """The rows of each key in a file; empty for an unusable file, which the next pass reports."""
    counts = {by: _Counts() for by in columns.by_argument}
    with contextlib.suppress(DataError, InvalidInputError):
        for piece in read_ahead(source, format, columns):
            for by, keys in columns.arguments(piece.table).items():
                counts[by].add(*_numbers(keys))
    return counts


def _numbers(keys: Any) -> tuple[list[Any], np.ndarray]:
    """The keys, possibly with repetitions, and the number of samples of each."""
    if isinstance(keys, Coded):
        number = np.bincount(keys.codes, minlength=len(keys.values))
        met = np.flatnonzero(number)
        return (keys.values if len(met) == len(number) else keys.values[met]).tolist(), number[met]
    distinct_keys, place = distinct(keys)
    return distinct_keys.tolist(), np.bincount(place, minlength=len(distinct_keys))


class _Counts:
    """The number of rows of each key."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}
        self._numbers = np.zeros(64, np.int64)

    @property
    def numbers(self) -> np.ndarray:
        """The counts of the keys, in the order of their first appearance."""
        return self._numbers[: len(self.places)]

    def add(self, keys: Sequence[Any], numbers: np.ndarray) -> None:
        """Count more rows of keys."""
        places = self.places
        new = itertools.filterfalse(places.__contains__, dict.fromkeys(keys))
        places.update(zip([*new], itertools.count(len(places))))
        at = np.fromiter(map(places.__getitem__, keys), np.int64, len(keys))
        if len(places) > len(self._numbers):
            self._numbers = np.append(self._numbers, np.zeros(2 * len(places), np.int64))
        np.add.at(self._numbers, at, numbers)

    def largest(self, most: int) -> np.ndarray | None:
        """The keys with the most rows, sorted; None if all keys are kept."""
        if NULL["i"] in self.places and any(isinstance(key, str) for key in self.places):
            self.add([NULL["U"]], self.numbers[[self.places[NULL["i"]]]])
            self._forget(NULL["i"])
        if len(self.places) <= most:
            return None
        least = np.partition(self.numbers, -most)[-most]
        keys = list(self.places)
        chosen = [keys[place] for place in np.flatnonzero(self.numbers > least)]
        same = (keys[place] for place in np.flatnonzero(self.numbers == least))
        chosen += heapq.nsmallest(most - len(chosen), same, lambda key: (isinstance(key, str), key))
        return np.sort(np.array(chosen))

    def _forget(self, key: Any) -> None:
        self._numbers = np.delete(self._numbers, self.places.pop(key))
        self.places = {kept: place for place, kept in enumerate(self.places)}
