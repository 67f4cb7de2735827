"""The ids of data: a first pass over their column, before the rows are joined with those of the other side."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.columns.arrow_values import nulls_of
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.joining import distinct_ids
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files.formats import THREADS, read_ahead
from fleetmetrics.files.processes import results_of

__all__ = ["Ids", "ids_of"]


class Ids(NamedTuple):
    """The ids of some data."""

    numbers: np.ndarray  #: as `distinct_ids` returns them
    kinds: Sequence[str]  #: "integers", "strings"


def ids_of(sources: Sequence[Any], columns: Columns, needed: Sequence[str]) -> Ids:
    """The ids of data, without those of rows that lack a value.

    It skips unreadable files: the next pass reports them.

    Args:
        sources: paths of files, or Arrow tables.
        columns: the columns to read; the argument ``id`` has the ids.
        needed: the columns that must have a value for a row to count.
    """
    ids = list(
        results_of(functools.partial(_of_source, columns, needed), [(source,) for source in sources], 1, THREADS)
    )
    return together(ids)


def together(parts: Sequence[Ids]) -> Ids:
    """The ids of several parts of the data."""
    kinds = sorted({kind for part in parts for kind in part.kinds})
    return Ids(distinct_ids([part.numbers for part in parts]), kinds)


def _of_source(columns: Columns, needed: Sequence[str], source: Any) -> Ids:
    distinct_by_piece: list[Ids] = []
    with contextlib.suppress(DataError, InvalidInputError):
        for piece in read_ahead(source, None, columns):
            lacking = [flags for name, flags in nulls_of(piece.table).items() if name in needed]
            if lacking:
                piece = piece.taken(~np.logical_or.reduce(lacking))
            if piece.table.num_rows:
                keys = columns.argument("id", piece.table)
                met = integer_ids(getattr(keys, "values", keys))
                met = met[np.bincount(keys.codes, minlength=len(met)) > 0] if hasattr(keys, "codes") else met
                distinct_by_piece.append(
                    Ids(distinct_ids([met]), ["strings" if keys.dtype.kind == "U" else "integers"])
                )
    return together(distinct_by_piece)
