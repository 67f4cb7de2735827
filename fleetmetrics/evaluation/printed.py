"""A result in print: aligned text, Markdown, and HTML for a notebook."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from html import escape
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.support.vocabulary import SIZES, VERDICTS, argument, counted, in_shell, parts_of
from fleetmetrics.words import Words

__all__ = [
    "Printed",
    "Table",
    "clean",
    "facts_in_line",
    "filled",
    "html_of",
    "laid_out",
    "markdown_of",
    "number",
    "plain",
    "span",
    "tables",
]

#: The number of slices to print, and of metrics in addition to the one that ranks them.
_SLICES, _BESIDE = 20, 2
#: The number of slices with too few rows whose needs are printed.
_FEW = 3


#: What a line about each side begins with.
_SIDES = "", "baseline: "
#: The names of changes within a slice, by the attribution of the delta.
_WITHIN = {"sums": "its own {}", "ranks": "its rows' ranks among all rows"}


class Table(NamedTuple):
    """A part of the printed result.

    Args:
        title: above it, or nothing.
        rows: headers first; the first column is names, the others are numbers. Empty columns are removed.
        notes: lines below.
    """

    title: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


class Printed:
    """A result that is printed as tables, in a shell and in a notebook alike."""

    def tables(self) -> Iterable[Table]:
        """The printed tables."""
        raise NotImplementedError

    def __str__(self) -> str:
        return laid_out(self.tables())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>\n{self}"

    def _repr_html_(self) -> str:
        return html_of(self.tables())


def clean(text: Any) -> str:
    """A string from the data, with a terminal's control characters escaped as in Python's source."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(text))


def plain(value: Any) -> Any:
    """The form in JSON: named tuples as dicts, arrays as lists, nan and infinity as None."""
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """The data, the metrics, the slices, the warnings.

    Args:
        result: in its JSON form.
    """
    for title, rows, notes in _parts(result):
        yield Table(title, filled(rows) if rows else [], notes)


def _parts(result: Mapping[str, Any]) -> Iterator[tuple[str, list[Any], list[str]]]:
    old, percent = result["baseline"], f"{100 * (result['asked'].get('ci') or 0.95):g}%"
    sides = [result["data"], *([old["data"]] if old else [])]
    rows_of_sides = [f"{which}{_read(data)}" for which, data in zip(_SIDES, sides)]
    yield "", [], [*rows_of_sides, *_understood([data.get("understood") or {} for data in sides])]
    if result.get("tasks"):
        yield "", _tasks(result["tasks"]), []
    rows, whole = [["", "value", percent, "baseline", "delta", f"{percent} of the delta"]], []
    why: list[tuple[str, Any]] = []
    for start, part in parts_of(result):
        for key in part["asked"]["metrics"]:
            if isinstance(part[key], (dict, list)):
                whole.append(f"{start}{key}")
            else:
                rows.append([clean(f"{start}{key}"), *_numbers(part, key)])
                ends = [part.get(f"{key}_{each}", {}) for each in ("delta", "interval")]
                why.append((clean(f"{start}{key}"), next((each for each in ends if each.get("because")), {})))
    notes = [f"{', '.join(whole)}: no single number, see {_everything()}"] if whole else []
    yield "", rows, [*notes, *_reasons(why, "too few for")]
    for start, part in parts_of(result):
        for title, table, notes in [*_versus(part), *_slices(part)]:
            if not start:
                yield title, table, notes
            elif len(table) > 1:  # a task may have no rows
                yield f"{clean(start[:-1])}: {title}", table, notes
    if result["warnings"]:
        yield "warnings", [], [clean(each) for each in result["warnings"]]


def _everything() -> str:
    """What gives every number: an option in a shell, else a method."""
    return "--json" if in_shell() else "to_dict()"


def _tasks(tasks: Mapping[str, Any]) -> list[list[str]]:
    """The numbers of rows that count for each task, and of those without its label."""
    sizes = [size for size in SIZES if any(size in part["data"] for part in tasks.values())]
    rows = [["task", "rows", *sizes, "without a label", "baseline rows"]]
    for task, part in tasks.items():
        data, old = part["data"], part["baseline"]
        counts = [part["rows"], *(data.get(size, 0) for size in sizes), data["unlabeled"]]
        rows.append([clean(task), *(f"{count:,}" for count in counts), f"{old['rows']:,}" if old else ""])
    return rows


def _numbers(part: Mapping[str, Any], key: str) -> list[str]:
    """The value of a metric, the baseline's and the delta, with intervals."""
    old, delta = part["baseline"], part.get(f"{key}_delta", {})
    compared = [number(old[key]), number(delta.get("value"), "+"), _ends(delta, "+")] if old else ["", "", ""]
    return [number(part[key]), _ends(part.get(f"{key}_interval", {})), *compared]


def _versus(result: Mapping[str, Any]) -> Iterator[tuple[str, list[Any], list[str]]]:
    """For each column of a comparison, the slices' deltas, and their contributions to that of the whole."""
    share = 1 - (result["asked"].get("ci") or 0.95)
    always = result["asked"].get("always_valid")
    for by, column in result.get("versus", {}).items():
        name, slices = column["metric"], column["slices"]
        rows = [[clean(by), "baseline", name, "delta", f"{100 - 100 * share:g}%", "q", ""]]
        added = [[clean(by), "rows before", "rows now", "mix", "within", "adds"]]
        for each in slices[:_SLICES]:
            key, q = _slice(each["key"]), "-" if each["q"] is None else f"{each['q']:.2g}"
            numbers = [f"{each[which]:.4g}" if each[which] is not None else "-" for which in ("baseline", "value")]
            rows.append([key, *numbers, _short(each["delta"]), span(each, "+", 2), q, each["verdict"] or "-"])
            numbers = [f"{each[which]:,}" for which in ("baseline_rows", "rows")]
            added.append([key, *numbers, *(_short(each[which]) for which in ("mix", "within", "added"))])
        said = list(_said_of_both(slices, name, share))
        said += [f"intervals hold at all looks together, narrowest at {always:,} rows"] if always and slices else []
        yield f"new against baseline, by {clean(by)}", rows, said
        if slices and slices[0]["added"] is not None:
            yield (
                f"where the delta of {name}, {_short(column['delta'])}, comes from, by {clean(by)}",
                added,
                [
                    _of_parts(column),
                    f"mix: the slice's share changed; within: {_WITHIN[column['made_of']].format(name)} did",
                ],
            )


def _said_of_both(slices: Sequence[Mapping[str, Any]], name: str, share: float) -> Iterator[str]:
    """The number of slices with each verdict, and the needs of those with too few rows."""
    counts = Counter(each["verdict"] for each in slices)
    said = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if counts[each])
    if said:
        yield f"{said}; beyond chance: q of at most {share:.2g}"
    elif slices:
        yield f"no verdicts: there is no test for the delta of {name} of these rows"
    few = [each for each in slices[:_SLICES] if each["verdict"] == "too few"]
    for each in few[:_FEW]:
        yield f"{_slice(each['key'])} is {verdict(each)}"
    if len(few) > _FEW or len(slices) > _SLICES:
        yield f"more in {_everything()}"
    yield from _reasons(((_slice(each["key"]), each) for each in slices), "too few in")


def _of_parts(column: Mapping[str, Any]) -> str:
    """The sentence on how the parts of a delta add up."""
    rest = f", remainder {_short(column['remainder'])}" if column["remainder"] else ""
    whole = f"{_short(column['delta'])} in all"
    more = "; remainder: users with rows in several slices" if rest else ""
    return f"mix {_short(column['mix'])}, within {_short(column['within'])}{rest}: {whole}{more}"


def _short(value: Any) -> str:
    """Three digits with a sign."""
    return "-" if value is None else "0" if not value else f"{value:+.3g}"


def _slices(result: Mapping[str, Any]) -> Iterator[tuple[str, list[Any], list[str]]]:
    """A table for each column, first the one that explains most."""
    share = 1 - (result["asked"].get("ci") or 0.95)
    for by, slices in result["slices"].items():
        one: Mapping[str, Any] = slices[0] if slices else {"metric": "", "metrics": {}}
        name, sizes = one["metric"], [size for size in SIZES if size in one]
        beside = [each for each in one["metrics"] if each != name][:_BESIDE]
        head = [clean(by), "rows", *sizes, "share", name, f"{100 - 100 * share:g}%", "difference", "harm", "q", ""]
        rows = [[*head, *beside]]
        for each in slices[:_SLICES]:
            size = [f"{each['rows']:,}", *(f"{each[size]:,}" for size in sizes), f"{each['share']:.2%}"]
            harm = "-" if each["harm"] is None else number(each["harm"])
            tested = ["-" if each["q"] is None else f"{each['q']:.2g}", verdict(each)]
            others = [number(each["metrics"].get(other)) for other in beside]
            apart = number(each["difference"], "+")
            rows.append([_slice(each["key"]), *size, number(each["value"]), span(each), apart, harm, *tested, *others])
        rest = result.get("others", {})
        said = _others(slices, rest[by]) if by in rest else []
        together = result.get("references", {}).get(by)
        said += [*_said_of(slices, name, share, together), *_far(result["explained"].get(by), name, together)]
        said += [f"intervals and verdicts are those of {name}; see {argument('rank_by')}"] if beside else []
        yield f"by {clean(by)}", rows, said


def _slice(key: Any) -> str:
    """The name of a slice; (null) for rows without a key."""
    return "(null)" if key is None else clean(key)


def _others(slices: Sequence[Mapping[str, Any]], number: int | None) -> list[str]:
    """The content of the slice of all others."""
    rows = sum(each["rows"] for each in slices if each["key"] == "(other)")
    more = "all others" if number is None else counted(number, "smaller slices")
    return [f"(other) stands for {more} with {counted(rows, 'rows')} in all; see {argument('max_slices')}"]


def _said_of(slices: Sequence[Mapping[str, Any]], name: str, share: float, together: float | None) -> Iterator[str]:
    """The reference of slices if it is not all rows; the number with each verdict, and of those not in the table."""
    if together is not None:
        unit = "queries" if "queries" in slices[0] else "users"
        yield f"slices share {unit}, and are compared with each other: {name} {number(together)} of all slices together"
    counts = Counter(each["verdict"] for each in slices)
    words = {"too few": "too few to tell"}
    said = [f"{counts[each]} {words.get(each, each)}" for each in VERDICTS if counts[each]]
    if counts[None]:
        said.append(f"{counts[None]} without a verdict")
    if counts[None] < len(slices):
        yield f"{', '.join(said)}; beyond chance: q of at most {share:.2g}, over all slices of all columns"
    elif slices:
        yield f"no verdicts: there is no test for {name or 'the first metric'} of these rows"
    yield from _reasons(((_slice(each["key"]), each) for each in slices), "too few in")
    if any(each["harm"] is not None for each in slices):
        yield f"harm = share * distance from {name} of {_whole(together)}, if that is worse"
    if len(slices) > _SLICES:
        yield f"and {counted(len(slices) - _SLICES, 'more slices')}: see {_everything()}"


def _far(spread: float | None, name: str, together: float | None) -> list[str]:
    """The variation of slices, which is an estimate, and no verdict."""
    if spread is None:
        return []
    return [
        f"root mean square difference of slices from {_whole(together)}, less what chance adds: {spread:.3g} {name}"
    ]


def _whole(together: float | None) -> str:
    return "all rows" if together is None else "all slices together"


def verdict(entry: Mapping[str, Any]) -> str:
    """The words of a verdict on a slice, with the needs of one that is too small."""
    return _few(entry) if entry["verdict"] == "too few" else entry["verdict"] or "-"


def _few(entry: Mapping[str, Any]) -> str:
    """What an interval or a verdict needs, without the reason."""
    return Words("en").few({"needs": entry["needs"]})


def _reasons(entries: Iterable[tuple[str, Mapping[str, Any]]], few: str) -> Iterator[str]:
    """Lines on why so much is needed, with the names of what needs it."""
    alike: dict[Any, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, entry in entries:
        if entry.get("needs") and (because := entry.get("because")):
            alike.setdefault((because["unit"], because.get("of")), []).append((name, because))
    for its in alike.values():
        more = f" and {len(its) - _FEW} more" if len(its) > _FEW else ""
        reason = Words("en").reason(*(because for _, because in its))
        yield f"{few} {', '.join(name for name, _ in its[:_FEW])}{more}: {reason}"


def facts_in_line(facts: Mapping[str, str]) -> str:
    """What was understood, by name; empty without any."""
    return "; ".join(f"{clean(name)}: {clean(kind)}" for name, kind in facts.items())


def _understood(sides: Sequence[Mapping[str, str]]) -> list[str]:
    """A line of what was understood of each side; one for both if it was the same."""
    lines = [facts_in_line(facts) for facts in sides]
    lines = lines if len(set(lines)) > 1 else lines[:1]
    return [f"{which}{line}" for which, line in zip(_SIDES, lines) if line]


def _read(data: Mapping[str, Any]) -> str:
    files, left = len(data["files"]), data["skipped_files"]
    text = ", ".join(counted(data[size], size) for size in ("rows", *SIZES) if size in data)
    text += f" in {counted(files, 'files')}" if files else ""
    nulls = {clean(column): number for column, number in data["nulls"].items() if number}
    text += "".join(f", {counted(number, 'nulls')} in {column}" for column, number in nulls.items())
    text += f", {counted(data['multiline'], 'rows', 'span')} several lines" if data.get("multiline") else ""
    text += f", {data['weight_0']:,} more with weight 0" if data["weight_0"] else ""
    text += f", {data['left_out']:,} more left out by the condition" if data["left_out"] else ""
    text += f", {data['unmatched']:,} more with ids on this side only" if data["unmatched"] else ""
    text += f", {counted(data['skipped'], 'rows')} skipped: {clean(data['examples'][0])}" if data["examples"] else ""
    return text + (f", {counted(left, 'files')} skipped: {clean(data['bad_files'][0])}" if left else "")


def number(value: Any, sign: str = "", digits: int = 6) -> str:
    """A number with six digits, or an integer with all."""
    if value is None:
        return "-" if sign else "undefined"
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign}.{digits}g}"


def span(ends: Mapping[str, Any], sign: str = "", digits: int = 6, form: str = "{low} to {high}") -> str:
    """An interval, if it is known."""
    known = ends.get("low") is not None and ends.get("high") is not None
    return form.format(**{end: number(ends[end], sign, digits) for end in ("low", "high")}) if known else "-"


def _ends(ends: Mapping[str, Any], sign: str = "") -> str:
    """An interval, or the kind of data that is too scarce."""
    return _few(ends) if ends.get("needs") else span(ends, sign)


def filled(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows without empty columns."""
    columns = [column for place, column in enumerate(zip(*rows)) if not place or {*column[1:]} - {"", "-"}]
    return list(zip(*columns))


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
            yield f"### {_escaped(title)}"
        cells = [[_escaped(cell) for cell in row] for row in rows]
        if cells:
            cells.insert(1, ["---", *["---:"] * (len(cells[0]) - 1)])
            yield "\n".join(f"| {' | '.join(row)} |" for row in cells)
        yield from map(_escaped, notes)


def _escaped(text: str) -> str:
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
            head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
            body = "".join(f"<tr><th>{escape(row[0])}</th>{_cells(row[1:])}</tr>" for row in rows[1:])
            yield f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        yield from (f"<p>{escape(note)}</p>" for note in notes)


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{escape(cell)}</td>" for cell in row)


def _width(text: str) -> int:
    """The number of columns that a string takes on a terminal."""
    wide = [c for c in text if unicodedata.east_asian_width(c) in "WF"]
    combining = [c for c in text if unicodedata.combining(c)]
    return len(text) + len(wide) - len(combining)
