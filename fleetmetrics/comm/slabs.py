"""States that are too large for one letter: they travel in pieces, which are reduced one after the other.

A slab is a state as rows. A worker may have only some of them: for a state by key, the rows of its own keys, and one
row for all other keys. Each row has a place among those of all workers, see `fleetmetrics.comm.unions`; the rows of
keys that are not kept share the last place. A worker sends only the rows that it has.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Iterator, NamedTuple, Sequence

import numpy as np

from fleetmetrics.comm.blocks import combined, packed, read_each, read_packed
from fleetmetrics.comm.descriptions import Buffer
from fleetmetrics.errors import IntegerOverflowError
from fleetmetrics.moments import WIDTHS
from fleetmetrics.numbers import combine, identity

__all__ = ["Piece", "Slab", "letters_of", "put", "reduced", "spread", "written"]

#: Rows are cut at multiples of this number: moments, whose numbers belong together, have this number or half of it.
_UNIT = 8


@dataclass(eq=False)
class Slab:
    """A state on its way through the channel in pieces: rows, some of which this worker has."""

    name: str
    reduction: str
    rows: np.ndarray  #: this worker's, int64 or float64, ``[rows, width]``
    size: int  #: the number of rows of all workers together
    places: np.ndarray | None = None  #: the places of this worker's rows, rising; None: it has all rows
    sharing: int = 1  #: the most rows of one worker with the last place
    everybodys: Sequence[np.ndarray] | None = None  #: the places of all workers' rows by rank; on rank 0
    found: np.ndarray = field(init=False)  #: the reduced rows, once all pieces have arrived

    def __post_init__(self) -> None:
        self.found = np.empty((self.size, self.rows.shape[1]), self.rows.dtype)

    @classmethod
    def of(cls, name: str, reduction: str, array: np.ndarray) -> Slab:
        """A slab of a state whose rows all workers have."""
        rows = array.reshape(-1, WIDTHS.get(reduction, 1))
        return cls(name, reduction, rows, len(rows))

    @property
    def largest(self) -> int:
        """An upper bound of the absolute values in `whole`; for integers."""
        sharing = 1 if self.places is None else np.count_nonzero(self.places == self.size - 1)
        return max(int(self.rows.max()), -int(self.rows.min())) * int(sharing)

    def whole(self) -> np.ndarray:
        """All rows; missing rows are at the identity, and the rows of the last place are reduced to one."""
        if self.places is None:
            return self.rows
        own = int(np.searchsorted(self.places, self.size - 1))
        body = spread(self.reduction, self.rows, self.places, 0, self.size - 1)
        return np.concatenate([body, combine(self.reduction, list(self.rows[own:]))[None]])


class Piece(NamedTuple):
    """Some rows of a slab, or some of the numbers of one row."""

    slab: Slab
    first: int
    last: int
    columns: slice

    @property
    def size(self) -> int:
        """The count of its numbers."""
        return (self.last - self.first) * (self.columns.stop - self.columns.start)

    def of(self, places: np.ndarray | None) -> tuple[int, int]:
        """The rows of these places in it: the first, and one after the last."""
        if places is None:
            return self.first, self.last
        first, last = np.searchsorted(places, [self.first, self.last]).tolist()
        return first, last


def letters_of(slabs: Sequence[Slab], most: int) -> list[list[Piece]]:
    """The pieces of all slabs, by letter: a letter has at most ``most`` bytes per worker."""
    letters: list[list[Piece]] = []
    room = 0
    pieces = [each for slab in slabs for each in _cut(slab, most // 8)]
    for piece, size in sorted(pieces, key=operator.itemgetter(1), reverse=True):  # the small ones fill the last letters
        if size > room:
            letters.append([])
            room = most // 8
        letters[-1].append(piece)
        room -= size
    return letters


def _cut(slab: Slab, most: int) -> Iterator[tuple[Piece, int]]:
    """The pieces of a slab, each with the largest count of numbers that a worker has in it."""
    width = slab.rows.shape[1]
    shared = slab.size if slab.places is None else slab.size - 1
    for start, stop, sharing in ((0, shared, 1), (shared, slab.size, slab.sharing)):
        longest = max(_UNIT, most // sharing // _UNIT * _UNIT)
        step = max(1, longest // max(1, width))
        for first in range(start, stop, step):
            for left in range(0, width, longest):
                piece = Piece(slab, first, min(first + step, stop), slice(left, min(left + longest, width)))
                yield piece, piece.size * sharing


def written(pieces: Sequence[Piece]) -> list[Buffer]:
    """This worker's numbers of the pieces of a letter."""
    return packed([piece.slab.rows[slice(*piece.of(piece.slab.places)), piece.columns].reshape(-1) for piece in pieces])


def put(pieces: Sequence[Piece], payload: Buffer) -> None:
    """Store the reduced numbers of the pieces of a letter, as rank 0 sends them."""
    arrays = read_packed(tuple([(piece.size, piece.slab.rows.dtype) for piece in pieces]), payload)
    for piece, array in zip(pieces, arrays):
        where = piece.slab.found[piece.first : piece.last, piece.columns]
        where[...] = array.reshape(where.shape)


def reduced(call: str, pieces: Sequence[Piece], payloads: Sequence[Buffer]) -> list[Buffer]:
    """Reduce the workers' numbers of the pieces of a letter; on rank 0."""

    def theirs(given: tuple[int, Buffer]) -> list[np.ndarray]:
        rank, payload = given
        known = [None if piece.slab.everybodys is None else piece.slab.everybodys[rank] for piece in pieces]
        rows = [last - first for first, last in map(Piece.of, pieces, known)]
        widths = [piece.columns.stop - piece.columns.start for piece in pieces]
        kinds = [(number * width, piece.slab.rows.dtype) for piece, number, width in zip(pieces, rows, widths)]
        found = read_packed(tuple(kinds), payload)
        return [array.reshape(number, width) for array, number, width in zip(found, rows, widths)]

    found = []
    for piece, parts in zip(pieces, zip(*read_each(enumerate(payloads), theirs))):
        try:
            found.append(combined(piece.slab.reduction, _terms(piece, parts)).reshape(-1))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{call}, state {piece.slab.name!r}: {error}") from None
    return packed(found)


def _terms(piece: Piece, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The terms to reduce to a piece: each worker's rows in it."""
    slab = piece.slab
    if slab.everybodys is None:
        return list(parts)
    if piece.first == slab.size - 1:
        return [row for part in parts for row in part]
    found = []
    for part, places in zip(parts, slab.everybodys):
        first, last = piece.of(places)
        found.append(spread(slab.reduction, part, places[first:last], piece.first, piece.last))
    return found


def spread(reduction: str, rows: np.ndarray, places: np.ndarray, start: int, stop: int) -> np.ndarray:
    """The rows with places from one to another, all different; missing rows are at the identity."""
    first, last = np.searchsorted(places, [start, stop]).tolist()
    if last - first == stop - start:  # the usual case
        return rows[first:last]
    if reduction == "sum":
        found = np.zeros((stop - start, *rows.shape[1:]), rows.dtype)
    else:  # their identity is not narrow
        dtype = np.float64 if rows.dtype.kind == "f" else np.int64
        found = np.full((stop - start, *rows.shape[1:]), identity(reduction, dtype))
    found[places[first:last] - start] = rows[first:last]
    return found
