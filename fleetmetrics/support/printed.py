"""A result in print: tables as aligned text, Markdown, and HTML for a notebook."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import abc
from html import escape
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    NoReturn,
    Sequence,
    TypeVar,
)

import numpy as np

from fleetmetrics.errors import UnknownAttributeError, UnknownNameError
from fleetmetrics.support.hints import did_you_mean, near
from fleetmetrics.words import Words

__all__ = [
    "ByName",
    "Column",
    "Printed",
    "Table",
    "clean",
    "column",
    "ends",
    "escaped",
    "facts_in_line",
    "grouped",
    "html_of",
    "key_of",
    "laid_out",
    "markdown_of",
    "needed",
    "number",
    "plain",
    "signed",
    "span",
]

_Entry = TypeVar("_Entry")

#: The styles of cells in a notebook: digits of one width make the columns of numbers readable.
_NAME, _NUMBER = "text-align: left", "text-align: right; font-variant-numeric: tabular-nums"

#: What JSON holds as it is.
_AS_IT_IS = frozenset([bool, int, str, type(None)])


class Column(NamedTuple):
    """A column of a table.

    Args:
        header: above it.
        text: gives the cell of an entry.
    """

    header: str
    text: Callable[[Any], str]


def column(header: str, name: str, text: Callable[[Any], str]) -> Column:
    """A column of one number of each entry.

    Args:
        header: above it.
        name: of the number in an entry.
        text: gives the cell of the number.
    """
    return Column(header, lambda entry: text(entry[name]))


class Table(NamedTuple):
    """A part of the printed result.

    Args:
        title: above it, or nothing.
        rows: headers first; the first column is names, aligned to the left; the others are numbers, to the right.
        notes: lines below.
    """

    title: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]

    @classmethod
    def of(cls, title: str, columns: Sequence[Column], entries: Iterable[Any], notes: Sequence[str] = ()) -> Table:
        """A table with a row for each entry.

        Args:
            title: above it, or nothing.
            columns: of the table.
            entries: what their formatters take.
            notes: lines below.
        """
        rows = ([text(entry) for _, text in columns] for entry in entries)
        return cls(title, [[header for header, _ in columns], *rows], notes)

    def filled(self) -> Table:
        """The table without columns that are empty in each row; the first one stays."""
        columns = [cells for place, cells in enumerate(zip(*self.rows)) if not place or {*cells[1:]} - {"", "-"}]
        return self._replace(rows=list(zip(*columns)))


class ByName(Dict[str, _Entry]):
    """A dict of a result, which raises `UnknownNameError`, a KeyError, for a name that it lacks.

    Args:
        what: an entry is, such as "delta".
        way: to have entries, while it is empty.
        entries: by name.
    """

    def __init__(self, what: str, way: str, entries: Mapping[str, _Entry]) -> None:
        super().__init__(entries)
        self._what, self._way = what, way

    def __missing__(self, name: Any) -> NoReturn:
        way = did_you_mean(near(str(name), self)) or (f"; there are {', '.join(self)}" if self else f"; {self._way}")
        raise UnknownNameError(f"there is no {self._what} {name!r}{way}")


class Printed:
    """A result that is printed as tables, in a shell and in a notebook alike."""

    if not TYPE_CHECKING:  # otherwise every attribute would seem to exist

        def __getattr__(self, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else did_you_mean(near(name, dir(self)))
            raise UnknownAttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def tables(self) -> Iterable[Table]:
        """The printed tables."""
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        """Leave out of completion what the command line alone calls."""
        return [name for name in super().__dir__() if name not in ("inputs", "tables")]

    def __str__(self) -> str:
        return laid_out(self.tables())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>\n{self}"

    def _repr_html_(self) -> str:
        return html_of(self.tables())


def clean(text: Any) -> str:
    """A string from the data, with a terminal's control characters escaped as in Python's source."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(text))


def plain(value: Any) -> Any:
    """The form in JSON: named tuples as dicts, arrays as lists, nan and infinity as None."""
    if type(value) in _AS_IT_IS:
        return value
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, abc.Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- cells -------------------------------------------------------------------------------------------------


def key_of(key: Any) -> str:
    """The name of a slice; (null) for rows without a key."""
    return "(null)" if key is None else clean(key)


def number(value: Any, sign: str = "", digits: int = 6) -> str:
    """A number with six digits, or an integer with all."""
    if value is None:
        return "-" if sign else "undefined"
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign}.{digits}g}"


def signed(value: Any) -> str:
    """A difference."""
    return number(value, "+")


def grouped(value: int) -> str:
    """A count."""
    return f"{value:,}"


def span(entry: Mapping[str, Any], sign: str = "", digits: int = 6, form: str = "{low} to {high}") -> str:
    """An interval, if it is known."""
    known = entry.get("low") is not None and entry.get("high") is not None
    return form.format(**{end: number(entry[end], sign, digits) for end in ("low", "high")}) if known else "-"


def ends(entry: Mapping[str, Any], sign: str = "") -> str:
    """An interval, or the kind of data that is too scarce."""
    return needed(entry) if entry.get("needs") else span(entry, sign)


def needed(entry: Mapping[str, Any]) -> str:
    """What an interval or a verdict needs, without the reason."""
    return Words("en").few({"needs": entry["needs"]})


def facts_in_line(facts: Mapping[str, str]) -> str:
    """What was understood, by name; empty without any."""
    return "; ".join(f"{clean(name)}: {clean(kind)}" for name, kind in facts.items())


# -- forms -------------------------------------------------------------------------------------------------


def laid_out(parts: Iterable[Table]) -> str:
    """Tables as aligned text.

    Args:
        parts: the tables.
    """
    texts = (
        "\n".join([*([title] if title else []), *([_aligned(rows)] if rows else []), *notes])
        for title, rows, notes in parts
    )
    return "\n\n".join(texts)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths, lines = [max(map(_width, column)) for column in zip(*rows)], []
    for row in rows:
        first, *others = (cell.rjust(width - _width(cell) + len(cell)) for cell, width in zip(row, widths))
        lines.append("  ".join([first.lstrip().ljust(len(first)), *others]).rstrip())
    return "\n".join(lines)


def markdown_of(parts: Iterable[Table]) -> str:
    """Tables as Markdown.

    Args:
        parts: the tables.
    """
    return "\n\n".join(_markdown(parts))


def _markdown(parts: Iterable[Table]) -> Iterator[str]:
    for title, rows, notes in parts:
        if title:
            yield f"### {escaped(title)}"
        cells = [[escaped(cell) for cell in row] for row in rows]
        if cells:
            cells.insert(1, ["---", *["---:"] * (len(cells[0]) - 1)])
            yield "\n".join(f"| {' | '.join(row)} |" for row in cells)
        yield from map(escaped, notes)


def escaped(text: str) -> str:
    """A string for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def html_of(parts: Iterable[Table]) -> str:
    """Tables as HTML for a notebook, without a script.

    Args:
        parts: the tables.
    """
    return "".join(_html(parts))


def _html(parts: Iterable[Table]) -> Iterator[str]:
    for title, rows, notes in parts:
        if title:
            yield f"<h4>{escape(title)}</h4>"
        if rows:
            head, *body = ("".join(_cells(row, "th" if not place else "td")) for place, row in enumerate(rows))
            lines = "".join(f"<tr>{line}</tr>" for line in body)
            yield f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
        yield from (f"<p>{escape(note)}</p>" for note in notes)


def _cells(row: Sequence[str], tag: str) -> Iterator[str]:
    """A name, to the left, and numbers, to the right; each cell says so, as notebooks have styles of their own."""
    for place, cell in enumerate(row):
        kind, style = (tag, _NUMBER) if place else ("th", _NAME)
        yield f'<{kind} style="{style}">{escape(cell)}</{kind}>'


def _width(text: str) -> int:
    """The number of columns that a string takes on a terminal."""
    wide = [c for c in text if unicodedata.east_asian_width(c) in "WF"]
    combining = [c for c in text if unicodedata.combining(c)]
    return len(text) + len(wide) - len(combining)
