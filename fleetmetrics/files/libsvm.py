"""LibSVM and SVMrank: ``label qid:1 1:0.5 2:0.3 # comment``, with features by their numbers."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Iterator, Sequence

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.errors import DataError
from fleetmetrics.files.cells import integer_type, not_text, typed
from fleetmetrics.files.lines import blocks_of, head_of
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source
from fleetmetrics.files.separated import CSV

__all__ = ["LibSVM"]

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_ROW = rf"^[ \t]*{_NUMBER}(?:[ \t]+qid:[^\s:#]+)?(?:[ \t]+[0-9]+:(?:{_NUMBER}|(?i:nan|inf)))*[ \t]*(?:#.*)?\r?$"
_SAYS = "LibSVM has no names: label, qid, and the numbers of features"


class LibSVM(Format):
    """LibSVM: a label, the query, and features by their numbers; a feature that a row lacks is 0."""

    name: ClassVar[str] = "libsvm"
    title: ClassVar[str] = "LibSVM"
    about: ClassVar[str] = "LibSVM, SVMrank: columns `label`, `qid`, and features by their numbers"
    is_text: ClassVar[bool] = True
    streams: ClassVar[str] = CSV.streams

    def begins(self, first: bytes) -> bool:  # noqa: D102
        line = first.lstrip().split(b"\n", 1)[0]
        return b":" in line and re.fullmatch(_ROW.strip("^$").encode(), line) is not None

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        pa, start = arrow(), 0
        head = head_of(source.stream)
        features = sorted(set(map(int, re.findall(rb"\s([0-9]+):", head))))
        there = ["label", *(["qid"] if b"qid:" in head else []), *map(str, features)]
        try:
            names = columns.chosen(there)
        except DataError as error:
            raise DataError(f"{error}; {_SAYS}") from None
        kinds, query = {}, integer_type(_column(_lines(head), "qid").drop_null().cast(pa.string()))
        for name in names:
            first = pa.float64() if name != "qid" else query or pa.string()
            kinds[name] = columns.kind(name, first)
        for block in blocks_of(source.stream, bad):
            table, rows = self._table(block.text, block.before, names, bad)
            piece, _ = typed(Piece(table, start), kinds, bad, columns.reading.null)
            yield piece
            start += rows

    @staticmethod
    def _table(block: bytes, before: int, names: Sequence[str], bad: Bad) -> tuple[Any, int]:
        """Lines as a table of texts, and their number."""
        pa, pc = arrow(), arrow("compute")
        try:
            lines = _lines(block)
        except UnicodeDecodeError:
            raise DataError(f"a line {not_text(block)}") from None
        known = pc.match_substring_regex(lines, _ROW)
        blank = pc.match_substring_regex(lines, r"^\s*(?:#.*)?$")
        for place in pc.indices_nonzero(pc.invert(pc.or_(known, blank))).to_pylist():
            bad(f"line {before + place + 1}: {lines[place].as_py()!r:.60} is no row of LibSVM, such as 1 qid:7 1:0.5")
        lines = lines.filter(known)
        return pa.table({name: _column(lines, name) for name in names}), len(lines)


def _lines(block: bytes) -> Any:
    """The lines as an array of strings; other ends of lines, which `str.splitlines` knows, are in comments."""
    return arrow().array(re.split("\r\n?|\n", block.decode()), arrow().string())


def _column(lines: Any, name: str) -> Any:
    """A column as bytes."""
    pa, pc = arrow(), arrow("compute")
    pattern = {"label": rf"^[ \t]*(?P<value>{_NUMBER})", "qid": r"^[^#]*[ \t]qid:(?P<value>[^\s:#]+)"}
    values = pc.extract_regex(lines, pattern.get(name, rf"^[^#]*[ \t]0*{name}:(?P<value>[^\s#]+)"))
    values = pc.struct_field(values, "value")
    return (values.fill_null("0") if name.isdigit() else values).cast(pa.binary())
