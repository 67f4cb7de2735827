"""What is printed of a result: aligned text, tables of rich on a terminal, Markdown, JSON."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import unicodedata
from collections import Counter
from typing import Any, Iterator, Mapping, Sequence

__all__ = ["clean", "show"]

#: What is said of a slice, the most important first.
VERDICTS = ("worse", "different", "better", "within chance", "too few")

#: Of more slices the first ones are printed; of metrics beside the one that ranks them so many.
_SLICES, _BESIDE = 20, 2
#: The numbers of a slice beside that of its rows.
_SIZES = ("positives", "users", "queries")


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
    yield from _slices(result)
    if result["warnings"]:
        yield "warnings", [], [clean(each) for each in result["warnings"]]


def _slices(result: Mapping[str, Any]) -> Iterator[tuple[str, list[Any], list[str]]]:
    """A table for each column, that first which explains most."""
    share = 1 - (result["asked"].get("ci") or 0.95)
    for by, slices in result["slices"].items():
        one: Mapping[str, Any] = slices[0] if slices else {"metric": "", "metrics": {}}
        name, sizes = one["metric"], [size for size in _SIZES if size in one]
        beside = [each for each in one["metrics"] if each != name][:_BESIDE]
        head = [clean(by), "rows", *sizes, "share", name, f"{100 - 100 * share:g}%", "difference", "harm", "q", ""]
        rows = [[*head, *beside]]
        for each in slices[:_SLICES]:
            size = [f"{each['rows']:,}", *(f"{each[size]:,}" for size in sizes), f"{each['share']:.2%}"]
            harm = "-" if each["harm"] is None else _number(each["harm"])
            tested = ["-" if each["q"] is None else f"{each['q']:.2g}", verdict(each)]
            others = [_number(each["metrics"].get(other)) for other in beside]
            apart = _number(each["difference"], "+")
            rows.append([clean(each["key"]), *size, _number(each["value"]), _span(each), apart, harm, *tested, *others])
        yield f"by {clean(by)}", rows, [*_said_of(slices, name, share), *_far(result["explained"].get(by), name)]


def _said_of(slices: Sequence[Mapping[str, Any]], name: str, share: float) -> Iterator[str]:
    """How many slices got which verdict, and how many are not in the table."""
    counts = Counter(each["verdict"] for each in slices)
    said = [f"{counts[each]} {each}{' to tell' * (each == 'too few')}" for each in VERDICTS if counts[each]]
    said += [f"{counts[None]} without a verdict"] if counts[None] else []
    if counts[None] < len(slices):
        yield f"{', '.join(said)}; beyond chance: q of at most {share:.2g}, over all slices of all columns"
    elif slices:
        yield f"no verdicts: there is no test for {name or 'the first metric'} of these rows"
    if any(each["harm"] is not None for each in slices):
        yield f"harm = share * distance from {name} of all rows, if that is worse"
    if len(slices) > _SLICES:
        yield f"and {len(slices) - _SLICES} slices that matter less, see --json"


def _far(spread: float | None, name: str) -> list[str]:
    return (
        [] if spread is None else [f"slices lie {spread:.3g} from all rows in {name}, beyond chance (root mean square)"]
    )


def verdict(entry: Mapping[str, Any]) -> str:
    """What is said of a slice, and of one with too little in it, how much would do."""
    needs = " and ".join(f"{number:,} {name}" for name, number in entry["needs"].items())
    return (entry["verdict"] or "-") + (f": needs {needs}" if entry["verdict"] == "too few" else "")


def _read(data: Mapping[str, Any]) -> str:
    files = len(data["files"])
    text = "".join(f", {data[size]:,} {size}" for size in _SIZES if size in data)
    text = f"{data['rows']:,} rows{text} in {files:,} {'file' if files == 1 else 'files'}"
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
