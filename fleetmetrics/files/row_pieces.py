"""Rows of a file as Arrow tables of about a million rows, and the base of their readers."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Iterable, Iterator, NamedTuple

import numpy as np

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns

__all__ = ["FEW", "Bad", "Format", "Piece", "Source", "gathered", "rows_at_once"]

#: The rows of a piece, where `add` is fastest; those of a batch that may be wide; the bytes of a piece of such rows.
_ROWS, FEW, _BYTES = 1_000_000, 1 << 14, 1 << 27

#: Receives a line that is not a row, and skips it or raises.
Bad = Callable[[str], None]


class Piece(NamedTuple):
    """Some rows of a file."""

    table: Any
    start: int  #: the number of the first; that of the first in the file is 0
    kept: np.ndarray | None = None  #: the offset of each row; None: consecutive
    left_out: int = 0  #: the number of rows that a condition excluded
    unmatched: int = 0  #: the number of rows excluded because the other side lacks their ids
    multiline: int = 0  #: the number of rows that span lines, because a value in quotes holds an end of line

    @property
    def rows(self) -> np.ndarray:
        """The numbers of the rows in the file."""
        return self.start + (np.arange(self.table.num_rows) if self.kept is None else self.kept)

    def taken(self, keep: np.ndarray) -> Piece:
        """The piece with only the flagged rows."""
        table = self.table.filter(arrow().array(keep)).combine_chunks()
        return self._replace(table=table, start=0, kept=self.rows[keep])


class Source(NamedTuple):
    """An open file."""

    stream: Any  #: from its beginning, unpacked
    path: str  #: of the file; "-": the standard input
    plain: bool  #: whether it is seekable, by `fleetmetrics.files.places.opened`


class Format:
    """A format of files.

    A new format is a class in the table of `fleetmetrics.files.formats`, from which the command line's help and the
    guide's table are made.
    """

    name: ClassVar[str]  #: for ``format=``
    title: ClassVar[str]  #: its name in help
    about: ClassVar[str]  #: its description in the guide
    is_text: ClassVar[bool] = False  #: whether it has lines of text, in any encoding
    streams: ClassVar[str] = (
        ""  #: the packings that can be read, and the standard input; empty: it must be a plain file
    )

    def begins(self, first: bytes) -> bool:
        """Whether a file that begins with these bytes has this format."""
        raise NotImplementedError

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:
        """The rows, about a million at a time.

        Args:
            source: the file.
            columns: the requested columns.
            bad: receives each line that is not a row.
        """
        raise NotImplementedError


def gathered(batches: Iterable[Any]) -> Iterator[Piece]:
    """Regroup batches or tables of any size into about a million rows at a time, fewer if the rows are wide."""
    pa, start, rows, size = arrow(), 0, 0, 0
    held: list[Any] = []
    for batch in batches:
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        most = rows_at_once(table.num_columns)
        for first in range(0, table.num_rows, most):
            part = table.slice(first, most)
            if held and (rows + part.num_rows > most or size > _BYTES):
                yield Piece(pa.concat_tables(held), start)
                held, start, rows, size = [], start + rows, 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if held:
        yield Piece(pa.concat_tables(held), start)


def rows_at_once(columns: int) -> int:
    """The number of rows in a piece: a million, or fewer if more than eight columns take memory for codes and lanes."""
    return min(_ROWS, max(FEW, _BYTES // (16 * max(1, columns))))
