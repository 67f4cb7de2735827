"""Which ends of lines are within quotes, and which quotes are never closed.

A value that begins with a quote may hold ends of lines (RFC 4180), so a quote that nothing closes would take whole rows
into its value, up to the next quote. A value spans lines only if a separator or an end of line follows its closing
quote, the row then has a value for each column, and the lines inside are not whole rows themselves.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple, Sequence

import numpy as np

from fleetmetrics.support.vocabulary import argument

__all__ = ["Quotes", "Settled", "lines_in", "stays_open", "unclosed_in_header"]

_END, _RETURN = ord("\n"), ord("\r")
#: What a number looks like in a column of numbers, or the lack of one.
_NUMBER = re.compile(
    rb"\s*(?:[-+]?[\d.,]+(?:e[-+]?\d+)?|[-+]?inf(?:inity)?|-?nan|null|na|n/a|none|true|false|\\N)?\s*", re.IGNORECASE
)


class Settled(NamedTuple):
    """Some lines; those whose quote is never closed are empty."""

    block: bytes  #: as many lines as before, without those in `left`
    bad: Sequence[tuple[int, str]]  #: the numbers of the lines whose quote is never closed, and their defects
    spans: Sequence[tuple[int, int]]  #: the first and the last line, from 0, of each row that spans lines
    left: bytes  #: the lines of a row that may end in the next block


class _Runs(NamedTuple):
    """Runs of an odd number of quotes: an even number opens and closes nothing that stays open."""

    start: np.ndarray
    line: np.ndarray
    opens: np.ndarray  #: whether it is at the beginning of a value
    closes: np.ndarray  #: whether it is at the end of a value


def lines_in(block: bytes, ends: int) -> int:
    """The number of lines; ``ends``: that of line feeds. A carriage return alone ends a line, too."""
    alone = block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0
    return ends + alone + (not block.endswith((b"\n", b"\r")))


def stays_open(line: bytes, quote: str, separator: str) -> bool:
    """Whether a quote is open at the end of a line that begins a row."""
    if quote.encode() not in line:
        return False
    return bool(len(_open_at_ends(_runs(line, quote, separator, np.zeros(0, np.int64)))))


def unclosed_in_header(head: bytes, quote: str, separator: str, strict: bool) -> bytes:
    """The end of the first line from a quote on that is never closed, or only after a whole row; else empty.

    Args:
        head: the beginning of a file.
        quote: the character.
        separator: the character between values.
        strict: as for `Quotes`.
    """
    line = head.split(b"\n", 1)[0]
    if not stays_open(line, quote, separator):
        return b""
    ends = _ends_of_lines(head)
    runs = _runs(head, quote, separator, ends)
    run = int(_open_at_ends(runs)[0])
    closed, legal = _closed(runs, run)
    between = separator.encode()
    if legal and closed is not None:
        last = head[int(ends[closed - 1]) + 1 :].splitlines()[0]
        if strict or not line.count(between) or last.count(between) != line.count(between):
            return b""
    return line[int(runs.start[run]) :]


class Quotes:
    """The rule of a file.

    Args:
        quote: the character.
        separator: the character between values.
        names: the columns.
        strict: whether values in quotes may span lines that are whole rows.
        head: the beginning of the file: it shows which columns hold numbers.
        most: the most bytes of a row that spans lines.
    """

    names: Sequence[str]
    quote: str
    separator: str
    strict: bool

    def __init__(self, quote: str, separator: str, names: Sequence[str], strict: bool, head: bytes, most: int) -> None:
        self.quote, self.separator, self.names, self.strict = quote, separator, names, strict
        self._head, self._most, self._between = head, most, separator.encode()
        mark = re.escape(quote).encode()
        self._quoted = re.compile(
            rb"(?:\A|(?<=%b))%b(?:[^%b]+|%b%b)*(?:%b|\Z)" % (re.escape(self._between), *[mark] * 5)
        )

    def settled(self, block: bytes, before: int, at_end: bool, quick: bool = False) -> Settled:
        """Lines with their open quotes settled.

        Args:
            block: whole lines, of which the first begins a row.
            before: the number of lines before them.
            at_end: whether nothing follows.
            quick: whether rows that span lines, if all of them may do so, need not have a value for each column.
        """
        ends = _ends_of_lines(block)
        starts, limits = np.append(0, ends + 1), np.append(ends, len(block))
        runs = _runs(block, self.quote, self.separator, ends)
        spans_or_none = self._all_legal(block, runs, starts, limits) if quick else None
        if spans_or_none is not None:
            return Settled(block, (), spans_or_none, b"")
        bad: dict[int, str] = {}
        spans: list[tuple[int, int]] = []
        last, size = -1, len(block)
        for run in _open_at_ends(runs).tolist():
            line = int(runs.line[run])
            if line <= last:
                continue
            start = int(starts[line])
            closed, legal = _closed(runs, run)
            if closed is None and not at_end and len(block) - start < self._most:
                size = start
                break
            row = block[start : limits[line if closed is None else closed]]
            whole = legal and self._has(row) and self._holds_rows(row)
            if legal and self._has(row) and not whole:
                last = int(closed or 0)
                spans.append((line, last))
                continue
            text, place = block[start : limits[line]], int(runs.start[run]) - start
            bad[line] = self._told(text, place, before + int(closed or 0) + 1 if whole else None)
        parts, place = [], 0
        for line in bad:
            parts.append(block[place : starts[line]])
            place = int(limits[line])
        bad_lines = [(before + line + 1, text) for line, text in bad.items()]
        return Settled(b"".join([*parts, block[place:size]]), bad_lines, spans, block[size:])

    def _all_legal(
        self, block: bytes, runs: _Runs, starts: np.ndarray, limits: np.ndarray
    ) -> Sequence[tuple[int, int]] | None:
        """The first and the last line of each row that spans lines, if all quotes are legal, as in most files.

        None: one may be illegal, so each row is to be checked.
        """
        is_open = _open_after(runs, np.zeros(len(runs.start), bool))
        if not len(is_open) or is_open[-1]:
            return None
        opening = np.flatnonzero(is_open[:-1] & (runs.line[1:] != runs.line[:-1]))
        first, last = runs.line[opening], runs.line[opening + 1]
        if not runs.closes[opening + 1].all():
            return None
        new = np.append(True, first[1:] != last[:-1]) if len(first) else np.zeros(0, bool)
        first, last = first[new], last[np.append(new[1:], True)] if len(last) else last
        if not self.strict:
            places = np.flatnonzero(np.frombuffer(block, np.uint8) == ord(self.separator))
            lines = np.repeat(first, last - first + 1) + _within(last - first + 1)
            values = np.searchsorted(places, limits[lines]) - np.searchsorted(places, starts[lines]) + 1
            maybe = values == len(self.names)
            at_first, at_last = np.isin(lines, first), np.isin(lines, last)
            both = maybe[at_first] & maybe[at_last]
            if both.any() or maybe[~at_first & ~at_last].any():
                return None
        return list(zip(first.tolist(), last.tolist()))

    def _has(self, row: bytes) -> bool:
        """Whether a row has a value for each column."""
        return self._quoted.sub(b"", row).count(self._between) + 1 == len(self.names)

    def _holds_rows(self, row: bytes) -> bool:
        """Whether lines of a row that spans them are whole rows, as quotes that nothing closes make them."""
        if self.strict:
            return False
        first, *inner, last = map(self._is_row, row.splitlines())
        return (first and last) or any(inner)

    def _is_row(self, line: bytes) -> bool:
        """Whether a line is a row, if quotes are characters as others are."""
        if line.count(self._between) + 1 != len(self.names):
            return False
        values = line.split(self._between)
        return bool(self._numbers) and all(_NUMBER.fullmatch(values[place]) for place in self._numbers)

    @functools.cached_property
    def _numbers(self) -> list[int]:
        """The places of the columns of numbers: most of their first values are numbers."""
        rows = [line.split(self._between) for line in self._head.splitlines()]
        columns = zip(*(row for row in rows if len(row) == len(self.names)))
        known = [[_NUMBER.fullmatch(value) is not None for value in column if value.strip()] for column in columns]
        return [place for place, flags in enumerate(known) if 2 * sum(flags) > len(flags)]

    def _told(self, line: bytes, place: int, closed: int | None) -> str:
        """The defect of a line whose quote at this place stays open.

        Args:
            line: its bytes.
            place: of the quote.
            closed: the number of the line that closes it after whole rows, or None.
        """
        before = self._quoted.sub(b"", line[:place]).count(self._between)
        column = f", column {self.names[before]!r}: " if before < len(self.names) else ": "
        shown = line[place:].decode("utf-8", "replace")
        reason = f"{column}a quote opens the value and is never closed: {shown!r:.60}"
        if closed is not None:
            reason = f"{column}a quote opens the value, {shown!r:.60}, and is closed on line {closed}, after whole rows"
        how = f"; if quotes are characters of values: {argument('quote', 'none')}"
        return reason + how + ("" if closed is None else f"; if values hold such rows: {argument('quote', self.quote)}")


def _ends_of_lines(block: bytes) -> np.ndarray:
    data = np.frombuffer(block, np.uint8)
    ends = data == _END
    if b"\r" in block:
        ends[:-1] |= (data[:-1] == _RETURN) & ~ends[1:]
    return np.flatnonzero(ends)


def _runs(block: bytes, quote: str, separator: str, ends: np.ndarray) -> _Runs:
    """The runs of quotes in lines that end at these places."""
    data = np.frombuffer(block, np.uint8)
    places = np.flatnonzero(data == ord(quote))
    first = np.flatnonzero(np.diff(places, prepend=-2) > 1)
    length = np.diff(first, append=len(places))
    start, length = places[first][length % 2 == 1], length[length % 2 == 1]
    padded = np.frombuffer(b"\n%b\n" % block, np.uint8)  # the byte before the one at `place` is at `place` here
    opens, closes = (
        (near == ord(separator)) | (near == _END) | (near == _RETURN)
        for near in (padded[start], padded[start + length + 1])
    )
    return _Runs(start, np.searchsorted(ends, start), opens, closes)


def _open_at_ends(runs: _Runs) -> np.ndarray:
    """The runs whose quote is open at the end of its line, if each line begins a row."""
    if not len(runs.start):
        return np.zeros(0, np.int64)
    new = np.append(True, runs.line[1:] != runs.line[:-1])
    return np.flatnonzero(_open_after(runs, new) & np.append(new[1:], True))


def _open_after(runs: _Runs, new: np.ndarray) -> np.ndarray:
    """Whether a quote is open after each run, if none is before the flagged ones.

    Outside of quotes only a run at the beginning of a value opens one, within them each closes it: so a run elsewhere
    leaves none open, and runs at beginnings take turns.
    """
    opened = np.cumsum(runs.opens)
    base = np.where(runs.opens, opened - 1, opened)
    since = np.maximum.accumulate(np.where(new | ~runs.opens, np.arange(len(opened)), 0))
    if len(opened):
        base[0] = opened[0] - runs.opens[0]
    is_open: np.ndarray = (opened - base[since]) % 2 == 1
    return is_open


def _within(lengths: np.ndarray) -> np.ndarray:
    """0, 1, ... for each length."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _closed(runs: _Runs, run: int) -> tuple[int | None, bool]:
    """The line on which the row ends that spans lines from this run on, or None; and whether its quotes are legal."""
    is_open, total = True, len(runs.start)
    for place in range(run + 1, total):
        if is_open and not runs.closes[place]:
            return int(runs.line[place]), False
        is_open = not is_open and bool(runs.opens[place])
        if not is_open and (place + 1 == total or runs.line[place + 1] != runs.line[place]):
            return int(runs.line[place]), True
    return None, False
