"""What is printed of a result: aligned text, tables of rich on a terminal, Markdown, JSON."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import unicodedata
from typing import Any, Iterator, Mapping, Sequence

__all__ = ["clean", "show"]

#: Of more slices the first ones are printed; of metrics beside the one that ranks them so many.
_SLICES, _BESIDE = 20, 2
_CHANCE = {True: "within chance", False: "beyond chance", None: "-"}


def clean(text: Any) -> str:
    """A text of the data without what a terminal would obey: as in Python's source."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(text))


def _tables(result: Mapping[str, Any]) -> Iterator[tuple[str, list[Any], list[str]]]:
    """The data, the metrics, the slices, the warnings, each as a title, a table, and lines below.

    The first row of a table is headers; its first column is names, the others are numbers.
    """
    old, percent = result["baseline"], f"{100 * (result['asked'].get('ci') or 0.95):g}%"
    yield "", [], [_read(result["data"]), *([f"baseline: {_read(old['data'])}"] if old else [])]
    rows, whole = [["", "value", percent, "baseline", "delta", f"{percent} of the delta"]], []
    for key in result["asked"]["metrics"]:
        if isinstance(result[key], (dict, list)):
            whole.append(key)
            continue
        delta = result.get(f"{key}_delta", {})
        compared = [_number(old[key]), _number(delta.get("value"), "+"), _span(delta, "+")] if old else ["", "", ""]
        rows.append([key, _number(result[key]), _span(result.get(f"{key}_interval", {})), *compared])
    yield "", rows, [f"{', '.join(whole)}: no single number, see --json"] if whole else []
    for by, slices in result["slices"].items():
        name = slices[0]["metric"] if slices else ""
        beside = [each for each in (slices[0]["metrics"] if slices else ()) if each != name][:_BESIDE]
        rows = [[clean(by), "rows", "share", name, percent, "difference", "harm", "", *beside]]
        for each in slices[:_SLICES]:
            numbers = [_number(each["difference"], "+"), _number(each["harm"]), _CHANCE[each["within_chance"]]]
            numbers += [_number(each["metrics"].get(other)) for other in beside]
            size = [f"{each['rows']:,}", f"{each['share']:.2%}"]
            rows.append([clean(each["key"]), *size, _number(each["value"]), _span(each), *numbers])
        within = sum(each["within_chance"] is True for each in slices)
        notes = [f"harm = share * distance from {name} of all rows; {within} of {len(slices)} slices within chance"]
        if len(slices) > _SLICES:
            notes.append(f"and {len(slices) - _SLICES} slices that matter less, see --json")
        yield f"by {clean(by)}", rows, notes
    if result["warnings"]:
        yield "warnings", [], [clean(each) for each in result["warnings"]]


def _read(data: Mapping[str, Any]) -> str:
    files = len(data["files"])
    text = f"{data['rows']:,} rows in {files:,} {'file' if files == 1 else 'files'}"
    text += "".join(f", {number:,} nulls in {clean(column)}" for column, number in data["nulls"].items() if number)
    text += f", {data['weight_0']:,} more of weight 0" if data["weight_0"] else ""
    return text + (f", {data['skipped']:,} rows skipped: {clean(data['examples'][0])}" if data["examples"] else "")


def _number(value: Any, sign: str = "") -> str:
    """Six digits, or all of an integer."""
    if value is None:
        return "-" if sign else "undefined"
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign}.6g}"


def _span(ends: Mapping[str, Any], sign: str = "") -> str:
    known = ends.get("low") is not None and ends.get("high") is not None
    return f"{_number(ends['low'], sign)} to {_number(ends['high'], sign)}" if known else "-"


def _filled(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows, without columns in which there is nothing."""
    columns = [column for place, column in enumerate(zip(*rows)) if not place or {*column[1:]} - {"", "-"}]
    return list(zip(*columns))


def show(result: Mapping[str, Any], form: str | None = None) -> None:
    """Print a result as "JSON" or "Markdown"; or for people, by rich where it is there and the output is a terminal."""
    if form == "JSON":
        print(json.dumps(result, indent=2))
        return
    if form == "Markdown":
        print("\n\n".join(_markdown(result)))
        return
    out, draw = print, _aligned
    with contextlib.suppress(ImportError):
        if sys.stdout.isatty():
            from rich.console import Console

            out, draw = Console(highlight=False, markup=False).print, _boxed
    for number, (title, rows, notes) in enumerate(_tables(result)):
        if number:
            out()
        if title:
            out(title)
        if rows:
            out(draw(_filled(rows)))
        for note in notes:
            out(note)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths, lines = [max(map(_width, column)) for column in zip(*rows)], []
    for row in rows:
        first, *others = (cell.rjust(width - _width(cell) + len(cell)) for cell, width in zip(row, widths))
        lines.append("  ".join([first.lstrip().ljust(len(first)), *others]).rstrip())
    return "\n".join(lines)


def _boxed(rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Column, Table

    drawn = Table(*(Column(name, justify="right" if place else "left") for place, name in enumerate(rows[0])))
    for row in rows[1:]:
        drawn.add_row(*row)
    return drawn


def _markdown(result: Mapping[str, Any]) -> Iterator[str]:
    for title, rows, notes in _tables(result):
        if title:
            yield f"### {_escaped(title)}"
        cells = [[_escaped(cell) for cell in row] for row in _filled(rows)]
        if cells:
            cells.insert(1, ["---", *["---:"] * (len(cells[0]) - 1)])
            yield "\n".join(f"| {' | '.join(row)} |" for row in cells)
        yield from map(_escaped, notes)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def _width(text: str) -> int:
    """How many places of a terminal a text takes."""
    return len(text) + sum((unicodedata.east_asian_width(c) in "WF") - bool(unicodedata.combining(c)) for c in text)
