"""Columns on their way to rank 0, in pieces of bounded size, and back in order."""

from __future__ import annotations

from itertools import chain
from typing import Any, Iterable, Iterator, NamedTuple, Sequence, Union

import numpy as np

from fleetmetrics.records.arrays import pack_chunks, unpack_arrays
from fleetmetrics.records.batches import Columns, are_alike
from fleetmetrics.records.serializer import pack, unpack

__all__ = ["PIECE_BYTES", "Part", "Piece", "in_order", "pieces", "read_piece"]

#: A piece of packed records is about this large, since what is packed is held twice.
PIECE_BYTES = 2**23
#: Nor does it have more records: their objects take more room than their bytes.
_MOST = 2**15
#: Of so many records the size is looked at, and so deep; some contain themselves.
_WEIGHED, _DEEP = 8, 4

#: Where records belong: int positions, or an arithmetic progression of them.
Positions = Union[np.ndarray, slice]


class Piece(NamedTuple):
    """Some samples, packed.

    Args:
        layout: fit for JSON; for `read_piece`.
        buffers: what is sent.
        nbytes: how many bytes that is.
    """

    layout: Any
    buffers: list[Any]
    nbytes: int


class Part(NamedTuple):
    """Some samples of one worker, and where they belong.

    Args:
        columns: arrays or lists; the ids, if there are any, last.
        positions: in the common order.
    """

    columns: list[Any]
    positions: Positions


def pieces(columns: Columns, allow_pickle: bool) -> Iterator[Piece]:
    """Pack what a worker sends.

    Arrays are sent from where they lie, all at once; what must be packed first goes piece by piece.

    Args:
        columns: the worker's, without padding.
        allow_pickle: whether records without an array form may be pickled.

    Raises:
        RecordError: if a record has no array form, and may not or cannot be pickled.
    """
    rows = columns.rows()
    if not rows:
        return
    if all(map(are_alike, zip(*rows))):
        yield _packed(rows, allow_pickle)
        return
    group: list[tuple[Any, ...]] = []
    count, size = 0, 0.0
    for row in rows:
        start = 0
        while start < len(row[0]):
            part = tuple(column[start : start + _MOST - count] for column in row)
            each = sum(map(_weight_of_each, part))
            fitting = max(1, int((PIECE_BYTES - size) / each))
            group.append(tuple(column[:fitting] for column in part) if fitting < len(part[0]) else part)
            added = len(group[-1][0])
            start, count, size = start + added, count + added, size + added * each
            if count >= _MOST or size + each > PIECE_BYTES:
                yield _packed(group, allow_pickle)
                group, count, size = [], 0, 0.0
    if group:
        yield _packed(group, allow_pickle)


def _weight_of_each(column: Any) -> float:
    """About how many bytes an entry of a column has, by some of them."""
    if isinstance(column, np.ndarray):
        return max(1.0, column.nbytes / len(column))
    some = column[:: max(1, len(column) // _WEIGHED)]
    return max(1.0, sum(map(_weight, some)) / len(some))


def _weight(value: Any, depth: int = 0) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if hasattr(value, "shape"):  # a tensor
        return 8 * int(np.prod(value.shape))
    if isinstance(value, dict) or hasattr(value, "__dict__"):
        value = list((value if isinstance(value, dict) else vars(value)).values())
    if not isinstance(value, (list, tuple)) or depth > _DEEP:
        return 8
    step = max(1, len(value) // _WEIGHED)  # like entries, mostly
    return step * sum(_weight(entry, depth + 1) for entry in value[::step])


def _packed(rows: Sequence[tuple[Any, ...]], allow_pickle: bool) -> Piece:
    layouts, buffers, total = [], [], 0
    for parts in zip(*rows):
        alike = are_alike(parts)
        packed = pack_chunks(parts) if alike else pack(_joined(parts), allow_pickle)
        layouts.append([alike, packed.nbytes, packed.layout])
        buffers += packed.buffers
        total += packed.nbytes
    return Piece(layouts, buffers, total)


def _joined(parts: Sequence[Any]) -> Sequence[Any]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def read_piece(layout: Any, payload: Any, allow_pickle: bool) -> list[Any]:
    """Return a piece's columns.

    Args:
        layout: of the `Piece`.
        payload: its buffers, joined.
        allow_pickle: whether pickles in it may be read.
    """
    data, start, columns = memoryview(payload), 0, []
    for is_array, size, inner in layout:
        part = data[start : start + size]
        columns.append(unpack_arrays(inner, part)[0] if is_array else unpack(inner, part, allow_pickle))
        start += size
    return columns


def part_of(positions: Positions, start: int, count: int) -> Positions:
    """Return some of the positions.

    Args:
        positions: of a worker's records.
        start: the first of them.
        count: how many.
    """
    if isinstance(positions, np.ndarray):
        return positions[start : start + count]
    step = positions.step
    first = positions.start + start * step
    return slice(first, first + count * step, step)


def in_order(parts: Sequence[Part], total: int) -> list[Any]:
    """Put the parts of all workers in order.

    Args:
        parts: of all workers; together their positions are 0 to total - 1.
        total: how many records.

    Returns:
        The columns.
    """
    positions = [part.positions for part in parts]
    columns = zip(*[part.columns for part in parts])
    return [_column_in_order(column, positions, total) for column in columns]


def _column_in_order(parts: Sequence[Any], positions: Sequence[Positions], total: int) -> Any:
    if not are_alike(parts):
        return _list_in_order(parts, positions, total)
    result = np.empty((total, *parts[0].shape[1:]), np.result_type(*[part.dtype for part in parts]))
    for part, where in zip(parts, positions):
        result[where] = part
    return result


def _list_in_order(parts: Iterable[Any], positions: Iterable[Positions], total: int) -> list[Any]:
    result: list[Any] = [None] * total
    for part, where in zip(parts, positions):
        if isinstance(where, slice):
            result[where] = part if isinstance(part, list) else list(part)
        else:
            for position, record in zip(where.tolist(), part):
                result[position] = record
    return result
