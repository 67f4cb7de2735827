"""Which slices have most rows: a first pass over the columns of the keys, which counts every key exactly."""

from __future__ import annotations

import contextlib
import functools
import heapq
from collections import Counter
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import NULL, Coded, distinct
from fleetmetrics.dataframes import Columns, decoded
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files.formats import pieces_of
from fleetmetrics.files.processes import results_of
from fleetmetrics.wrappers.keyed import KeyTable

__all__ = ["choose_largest"]

#: How many files are counted at a time; pyarrow reads, and NumPy counts, beside Python.
_THREADS = 2


def choose_largest(
    metrics: Any, sources: Sequence[Any], columns: Mapping[str, Any], most: int, format: str | None = None
) -> None:
    """Let `Sliced` metrics that keep all keys keep those of the most rows, of equally many the smallest.

    Args:
        metrics: without samples.
        sources: paths of files, or Arrow tables.
        columns: the column, or columns, of each argument of ``add``.
        most: how many slices are kept.
        format: of the files, or None.
    """
    tables = [state for state in metrics.own_states() if isinstance(state, KeyTable)]
    tables = [table for table in tables if table.keeps_all and table.by in columns]
    if not tables:
        return
    wanted = Columns(metrics, {table.by: columns[table.by] for table in tables})
    counts: dict[str, Counter[Any]] = {table.by: Counter() for table in tables}
    for found in results_of(functools.partial(_counted, wanted, format), [(each,) for each in sources], 1, _THREADS):
        for by, number in found.items():
            counts[by].update(number)
    for table in tables:
        largest = _largest(counts[table.by], most)
        if largest is not None:
            table.choose(largest, len(counts[table.by]))


def _counted(columns: Columns, format: str | None, source: Any) -> dict[str, Counter[Any]]:
    """How many rows of a file each key has; none of a file that cannot be used, which the next pass tells."""
    counts: dict[str, Counter[Any]] = {by: Counter() for by in columns.by_argument}
    with contextlib.suppress(DataError, InvalidInputError):
        if isinstance(source, str):
            tables = (piece.table for piece in pieces_of(source, format, columns, lambda text: None))
        else:
            tables = (decoded(source.select(columns.chosen(source.column_names))) for _ in range(1))
        for table in tables:
            for by, keys in columns.arguments(table).items():
                values, number = _numbers(keys)
                counts[by].update(dict(zip(values, number)))
    return counts


def _numbers(keys: Any) -> tuple[list[Any], list[int]]:
    """The keys, and how many samples have each."""
    if isinstance(keys, Coded):
        number = np.bincount(keys.codes, minlength=len(keys.values))
        met = np.flatnonzero(number)
        values = keys.values[met].tolist()
        if len(set(values)) == len(values):
            return values, number[met].tolist()
    found, place = distinct(keys)
    return found.tolist(), np.bincount(place, minlength=len(found)).tolist()


def _largest(counts: Counter[Any], most: int) -> np.ndarray | None:
    """The keys of the most rows, sorted; None: there are no more than these."""
    if NULL["i"] in counts and any(isinstance(key, str) for key in counts):
        counts[NULL["U"]] += counts.pop(NULL["i"])
    if len(counts) <= most:
        return None
    found = heapq.nsmallest(most, counts.items(), lambda each: (-each[1], isinstance(each[0], str), each[0]))
    return np.sort(np.array([key for key, _ in found]))
