"""Columns on their way to rank 0, in pieces of bounded size: through memory, or through a directory."""

from __future__ import annotations

import contextlib
import sys
from itertools import chain
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import Columns, are_alike
from fleetmetrics.serial import Packed, pack_chunks, unpack_arrays
from fleetmetrics.serial.serializer import pack, unpack

__all__ = ["PIECE_BYTES", "Spool", "pieces", "read_piece"]

#: The approximate size of a piece of packed records; sending it takes a second copy.
PIECE_BYTES = 2**23
#: The most records in a piece unless all are arrays: objects take more memory than their bytes.
_MOST = 2**15
#: The number of records to measure, and the depth, because some records contain themselves.
_WEIGHED, _DEEP = 8, 4


def pieces(columns: Columns, allow_pickle: bool, narrow: Sequence[bool]) -> Iterator[Packed]:
    """Pack a worker's records piece by piece, arrays from where they lie.

    ``narrow`` says for each column whether its whole numbers may take fewer bytes: rank 0 puts them into an array.
    """
    rows = columns.rows()
    if not rows:
        return
    most = sys.maxsize if all(columns.kinds()) else _MOST
    group: list[tuple[Any, ...]] = []
    count, size = 0, 0.0
    for row in rows:
        start = 0
        while start < len(row[0]):
            part = tuple(column[start : start + most - count] for column in row)
            record_bytes = sum(map(_weight_of_each, part))
            fitting = max(1, int((PIECE_BYTES - size) / record_bytes))
            group.append(tuple(column[:fitting] for column in part) if fitting < len(part[0]) else part)
            added = len(group[-1][0])
            start, count, size = start + added, count + added, size + added * record_bytes
            if count >= most or size + record_bytes > PIECE_BYTES:
                yield _packed(group, allow_pickle, narrow)
                group, count, size = [], 0, 0.0
    if group:
        yield _packed(group, allow_pickle, narrow)


def _weight_of_each(column: Any) -> float:
    """The approximate size of a column's entries in bytes, from a few of them."""
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
    step = max(1, len(value) // _WEIGHED)  # most entries have similar sizes
    return step * sum(_weight(entry, depth + 1) for entry in value[::step])


def _packed(rows: Sequence[tuple[Any, ...]], allow_pickle: bool, narrow: Sequence[bool]) -> Packed:
    layouts, buffers = [], []
    for parts, may in zip(zip(*rows), narrow):
        alike = are_alike(parts)
        packed = pack_chunks(parts, may) if alike else pack(list(chain.from_iterable(parts)), allow_pickle)
        layouts.append([alike, packed.nbytes, packed.layout])
        buffers += packed.buffers
    return Packed(layouts, buffers)


def read_piece(layout: Any, payload: Any, allow_pickle: bool) -> list[Any]:
    """Return a piece's columns."""
    data = memoryview(payload)
    start, columns = 0, []
    for is_array, size, inner in layout:
        part = data[start : start + size]
        columns.append(unpack_arrays(inner, part)[0] if is_array else unpack(inner, part, allow_pickle))
        start += size
    return columns


class Spool:
    """A folder of one exchange, marked by its token, in a directory; it touches nothing else there.

    ``shared``: whether all workers see the same directory; if not, each uses its own as a buffer.
    """

    def __init__(self, directory: str, token: str, rank: int, shared: bool) -> None:
        self._rank, self._shared = rank, shared
        self._folder = Path(directory) / f"fleetmetrics-{token}"
        self._files: list[Path] = []

    def make(self) -> None:
        """Make the folder: on rank 0 before the others check for it, or on every worker."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(exist_ok=True)

    def check(self) -> None:
        """Raise unless this worker sees the folder that rank 0 has made."""
        if not self._shared:
            self.make()
        elif not self._folder.is_dir():
            raise InvalidInputError(
                f"collect_dir {str(self._folder.parent)!r} is not the directory that rank 0 sees under that name: it "
                "must be on a file system that all workers share. If they share none, give collect_dir_shared=False, "
                "or no collect_dir"
            )

    def write(self, number: int, pieces: Iterable[Packed]) -> list[tuple[Any, int]]:
        """Write a share's pieces into a file."""
        path = self._folder / f"{number}-{self._rank}"
        self._files.append(path)
        labels = []
        with path.open("wb") as file:
            for piece in pieces:
                file.writelines(piece.buffers)
                labels.append((piece.layout, piece.nbytes))
        return labels

    def read(self, number: int, rank: int) -> Any:
        """Return a worker's file as a buffer; changes to it stay in memory."""
        self._files.append(self._folder / f"{number}-{rank}")  # its reader removes it
        return self._mapped(number, rank)

    def through(self, number: int, pieces: Iterable[Packed]) -> Iterator[Packed]:
        """Write a share's pieces to a file, and yield them from there."""
        labels = self.write(number, pieces)
        data, start = self._mapped(number, self._rank), 0
        for layout, size in labels:
            yield Packed(layout, [data[start : start + size]])
            start += size

    def _mapped(self, number: int, rank: int) -> Any:
        path = self._folder / f"{number}-{rank}"
        return np.memmap(path, np.uint8, "c").data if path.stat().st_size else memoryview(b"")

    def clean(self) -> None:
        """Remove this worker's files, and the folder if it is then empty."""
        for path in self._files:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self._folder.rmdir()
