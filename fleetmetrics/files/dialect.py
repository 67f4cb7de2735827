"""What is between the values of a file of text, and around them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.reading import BLANKS, Reading
from fleetmetrics.errors import DataError
from fleetmetrics.support.vocabulary import argument

__all__ = ["Dialect"]

#: What is recognized between values; ^A, which Hive writes, is in no text.
_KNOWN = ",\t;|\1"
#: The stand-in for a separator outside of ASCII, which Arrow does not take.
_STAND_IN = "\x1f"
_RUNS = re.compile(rb"[ \t]+")
_RUNS_OR_QUOTED = re.compile(rb"""((?:^|(?<=[ \t]))"(?:[^"\n]|"")*"(?=[ \t\r\n]|\Z))|[ \t]+""", re.MULTILINE)


class Dialect(NamedTuple):
    """The separator and the quote of a file."""

    separator: str  #: between values, for Arrow
    quote: str  #: around values; empty: none
    asked: str  #: the separator as given, or as recognized

    @classmethod
    def of(cls, line: bytes, reading: Reading) -> Dialect:
        """The dialect by the options, or by the first line with values.

        Args:
            line: that line.
            reading: the options.
        """
        asked = reading.between
        if asked is None:
            asked = max(
                _KNOWN, key=lambda character: (character == "\1" and b"\1" in line, line.count(character.encode()))
            )
        separator = asked if asked.isascii() else _STAND_IN
        if asked == BLANKS:
            separator = "\t"
        quote = {None: '"', "none": ""}.get(reading.quote, reading.quote or "")
        return cls(separator, quote, asked)

    def understood(self, columns: Columns) -> None:
        """Say what was not taken for granted."""
        if columns.reading.quote is not None:
            columns.understand("quotes", self.quote or "none")
        if columns.reading.separator is not None or self.asked == "\1":
            names = {BLANKS: BLANKS, "\t": "tab", " ": "a blank"}
            shown = f"^{chr(ord(self.asked) + 64)}" if len(self.asked) == 1 and self.asked < " " else self.asked
            columns.understand("separator", names.get(self.asked, shown))

    def prepared(self, block: bytes) -> bytes:
        """Lines with the separator that Arrow takes."""
        if self.asked == BLANKS:
            return self._without_runs(block)
        if self.asked.isascii():
            return block
        if _STAND_IN.encode() in block:
            raise DataError(f"it holds {_STAND_IN!r}, which stands for {self.asked!r} here; write it without")
        return block.replace(self.asked.encode(), _STAND_IN.encode())

    def restored(self, table: Any) -> Any:
        """A table whose texts have the separator of the file, if they hold any."""
        if self.asked == BLANKS or self.asked.isascii():
            return table
        pa, replace = arrow(), arrow("compute").replace_substring
        marks = {pa.string(): (self.separator, self.asked), pa.binary(): (self.separator.encode(), self.asked.encode())}
        for place, (name, column) in enumerate(zip(table.column_names, table.columns)):
            if column.type in marks:
                table = table.set_column(place, name, replace(column, *marks[column.type]))
        return table

    def _without_runs(self, block: bytes) -> bytes:
        """Lines with a tab for each run of blanks, and none at the ends of lines; values in quotes keep theirs."""
        if self.quote and self.quote.encode() in block:
            pattern = re.compile(_RUNS_OR_QUOTED.pattern.replace(b'"', re.escape(self.quote).encode()), re.MULTILINE)
            block = pattern.sub(lambda run: run[1] or b"\t", block)
        else:
            block = _RUNS.sub(b"\t", block)
        return re.sub(rb"^\t|\t(?=\r?$)", b"", block, flags=re.MULTILINE)

    def hint(self, line: bytes, names: Sequence[str], number: int = 0) -> str:
        """The advice for a first line in which nothing separates values, if blanks or something else might.

        Args:
            line: that line.
            names: the requested columns, if it is a header.
            number: of columns, if it is not.
        """
        if self.separator.encode() in line or not all(name.encode() in line for name in names):
            return ""
        if len(line.split()) == number or (names and set(names) <= set(line.decode("utf-8", "replace").split())):
            return f". If blanks separate values: {argument('separator', BLANKS)}"
        return f". If another character separates values: {argument('separator', 'CHARACTER')}"
