"""The printed tables of an evaluation: the data, the metrics, the slices, the warnings."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.evaluation.arguments.options import CONFIDENCE
from fleetmetrics.formulas.class_report import REPORTS, rows_of, table_of
from fleetmetrics.support.printed import (
    Column,
    Table,
    clean,
    column,
    ends,
    facts_in_line,
    grouped,
    key_of,
    needed,
    number,
    signed,
    span,
)
from fleetmetrics.support.vocabulary import SIZES, VERDICTS, argument, counted, in_shell, parts_of
from fleetmetrics.words import Words

__all__ = ["tables"]

#: The number of slices to print.
_SLICES = 20
#: The most metrics that all have a column beside the one that ranks the slices; of more, how many have one.
_BESIDE, _NARROW = 4, 2
#: The digits in the table of a report of classes.
_DIGITS = 4
#: The number of slices with too few rows whose needs are printed.
_FEW = 3
#: The words of the verdict "within chance".
_NOT_SIGNIFICANT = "not significant"
#: What a line about each side begins with.
_SIDES = "", "baseline: "
#: The names of changes within a slice, by the attribution of the delta.
_WITHIN = {"sums": "its own {}", "ranks": "its rows' ranks among all rows"}


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """The data, the metrics, the slices, the warnings.

    Args:
        result: in its JSON form.
    """
    yield Table("", [], list(_lines_of_data(result)))
    if result.get("tasks"):
        yield _tasks(result["tasks"])
    metrics = _metrics(result)
    if metrics.rows or metrics.notes:
        yield metrics
    yield from _class_reports(result)
    for start, part in parts_of(result):
        for table in (*_deltas(part), *_slices(part)):
            if not start:
                yield table
            elif len(table.rows) > 1:  # a task may have no rows
                yield table._replace(title=f"{clean(start[:-1])}: {table.title}")
    if result["warnings"]:
        yield Table("warnings", [], [clean(text) for text in result["warnings"]])


def _confidence(result: Mapping[str, Any]) -> float:
    confidence: float = result["asked"].get("ci") or CONFIDENCE
    return confidence


def _everything() -> str:
    """What gives every number: an option in a shell, else a method."""
    return "--json" if in_shell() else "to_dict()"


# -- the data ----------------------------------------------------------------------------------------------


def _lines_of_data(result: Mapping[str, Any]) -> Iterator[str]:
    """A line on the rows of each side, and one on what was understood of it; one for both if that was the same."""
    sides = [side["data"] for side in (result, result["baseline"]) if side]
    yield from (f"{which}{_rows_of(data)}" for which, data in zip(_SIDES, sides))
    lines = [facts_in_line(data.get("understood") or {}) for data in sides]
    lines = lines if len(set(lines)) > 1 else lines[:1]
    yield from (f"{which}{line}" for which, line in zip(_SIDES, lines) if line)


def _rows_of(data: Mapping[str, Any]) -> str:
    """What was read, and what counts nowhere."""
    files = len(data["files"])
    text = ", ".join(counted(data[size], size) for size in ("rows", *SIZES) if size in data)
    parts = [f"{text} in {counted(files, 'files')}" if files else text]
    parts += [f"{counted(nulls, 'nulls')} in {clean(name)}" for name, nulls in data["nulls"].items() if nulls]
    parts += [f"{counted(data['multiline'], 'rows', 'span')} several lines"] if data.get("multiline") else []
    uncounted = {
        "with weight 0": data["weight_0"],
        "left out by the condition": data["left_out"],
        "with ids on this side only": data["unmatched"],
    }
    parts += [f"{rows:,} more {what}" for what, rows in uncounted.items() if rows]
    skipped = ("rows", data["skipped"], data["examples"]), ("files", data["skipped_files"], data["bad_files"])
    parts += [f"{counted(some, what)} skipped: {clean(examples[0])}" for what, some, examples in skipped if examples]
    return ", ".join(parts)


def _tasks(tasks: Mapping[str, Any]) -> Table:
    """The numbers of rows that count for each task, and of those without its label."""

    def size_column(size: str) -> Column:
        return Column(size, lambda entry: grouped(entry[1]["data"].get(size, 0)))

    columns = [
        Column("task", lambda entry: clean(entry[0])),
        Column("rows", lambda entry: grouped(entry[1]["rows"])),
        *(size_column(size) for size in SIZES if any(size in part["data"] for part in tasks.values())),
        Column("without a label", lambda entry: grouped(entry[1]["data"]["unlabeled"])),
        Column("baseline rows", lambda entry: grouped(entry[1]["baseline"]["rows"]) if entry[1]["baseline"] else ""),
    ]
    return Table.of("", columns, tasks.items()).filled()


# -- the metrics -------------------------------------------------------------------------------------------


class _Metric(NamedTuple):
    """A metric that is a number: its name, its value, the JSON of its interval and of its delta, and the baseline."""

    name: str
    value: Any
    interval: Mapping[str, Any]
    delta: Mapping[str, Any]
    baseline: Mapping[str, Any] | None
    key: str


def _metrics(result: Mapping[str, Any]) -> Table:
    """The values, with intervals and against a baseline."""
    percent, metrics, arrays = f"{100 * _confidence(result):g}%", [], []
    for start, part in parts_of(result):
        for key in part["asked"]["metrics"]:
            name, value = f"{start}{key}", part[key]
            if isinstance(value, (dict, list)):
                if result["about"][name]["kind"] not in REPORTS:
                    arrays.append(name)
                continue
            interval, delta = (part.get(f"{key}_{number_of}", {}) for number_of in ("interval", "delta"))
            metrics.append(_Metric(clean(name), value, interval, delta, part["baseline"], key))
    columns = [
        Column("", lambda metric: metric.name),
        Column("value", lambda metric: number(metric.value)),
        Column(percent, lambda metric: ends(metric.interval)),
        Column("baseline", lambda metric: number(metric.baseline[metric.key]) if metric.baseline else ""),
        Column("delta", lambda metric: signed(metric.delta.get("value")) if metric.baseline else ""),
        Column(f"{percent} of the delta", lambda metric: ends(metric.delta, "+") if metric.baseline else ""),
    ]
    notes = [f"{', '.join(arrays)}: no single number, see {_everything()}"] if arrays else []
    signed_by = (
        (name, what.get("signature"), what.get("baseline_signature")) for name, what in result["about"].items()
    )
    notes += [
        f"{clean(name)}: {new}" + (f"; baseline: {old}" if old else "") for name, new, old in signed_by if new or old
    ]
    scarce = ((metric.name, entry) for metric in metrics for entry in [_with_reason(metric)] if entry)
    notes += _reasons(scarce, "too few for")
    return Table.of("", columns, metrics, notes).filled() if metrics else Table("", [], notes)


def _class_reports(result: Mapping[str, Any]) -> Iterator[Table]:
    """The numbers of each class; against a baseline, its F1, too."""
    for start, part in parts_of(result):
        reports = (key for key in part["asked"]["metrics"] if result["about"][f"{start}{key}"]["kind"] in REPORTS)
        for key in reports:
            old = {row["name"]: row["f1-score"] for row in rows_of((part["baseline"] or {}).get(key, {}))}
            rows = [{**row, "old": old.get(row["name"])} for row in rows_of(part[key])]
            beside = [
                column("baseline f1-score", "old", _four_digits),
                Column("delta", lambda row: _short(_less(row["f1-score"], row["old"]))),
            ]
            yield table_of(clean(f"{start}{key}"), rows, _DIGITS, beside if old else [])


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _with_reason(metric: _Metric) -> Mapping[str, Any]:
    """The delta or the interval of a metric, the first that has a reason for what it needs."""
    return next((entry for entry in (metric.delta, metric.interval) if entry.get("because")), {})


def _reasons(entries: Iterable[tuple[str, Mapping[str, Any]]], few: str) -> Iterator[str]:
    """Lines on why so much is needed, with the names of what needs it."""
    alike: dict[Any, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, entry in entries:
        if entry.get("needs") and (because := entry.get("because")):
            alike.setdefault((because["unit"], because.get("of")), []).append((name, because))
    for named in alike.values():
        more = f" and {len(named) - _FEW} more" if len(named) > _FEW else ""
        reason = Words("en").reason(*(because for _, because in named))
        yield f"{few} {', '.join(name for name, _ in named[:_FEW])}{more}: {reason}"


# -- the slices --------------------------------------------------------------------------------------------


def _slices(result: Mapping[str, Any]) -> Iterator[Table]:
    """A table for each column, first the one that explains most."""
    percent = f"{100 - 100 * (1 - _confidence(result)):g}%"
    for by, slices in result["slices"].items():
        first: Mapping[str, Any] = slices[0] if slices else {"metric": "", "metrics": {}}
        metric, sizes = first["metric"], [size for size in SIZES if size in first]
        others = [name for name in first["metrics"] if name != metric]
        beside = others if len(others) <= _BESIDE else others[:_NARROW]
        columns = [
            column(clean(by), "key", key_of),
            *(column(count, count, grouped) for count in ("rows", *sizes)),
            column("share", "share", "{:.2%}".format),
            *([column(metric, "value", number)] if metric else []),
            Column(percent, span),
            column("difference", "difference", signed),
            column("harm", "harm", lambda harm: "-" if harm is None else number(harm)),
            column("q", "q", _two_digits),
            Column("", _verdict),
            *map(_metric_column, beside),
        ]
        notes = [*_of_others(by, result), *_notes_on_slices(by, result)]
        notes += [f"intervals and verdicts are those of {metric}; see {argument('rank_by')}"] if beside else []
        if len(beside) < len(others):
            notes.append(f"{', '.join(others[len(beside) :])} by {clean(by)}: see {_everything()}")
        yield Table.of(f"by {clean(by)}", columns, slices[:_SLICES], notes).filled()


def _metric_column(name: str) -> Column:
    """The values of a metric beside the one that ranks the slices."""
    return Column(name, lambda row: number(row["metrics"].get(name)))


def _of_others(by: str, result: Mapping[str, Any]) -> Iterator[str]:
    """The content of the slice of all others."""
    others = result.get("others", {})
    if by in others:
        rows = sum(row["rows"] for row in result["slices"][by] if row["key"] == "(other)")
        more = "all others" if others[by] is None else counted(others[by], "smaller slices")
        yield f"(other) stands for {more} with {counted(rows, 'rows')} in all; see {argument('max_slices')}"


def _notes_on_slices(by: str, result: Mapping[str, Any]) -> Iterator[str]:
    """The reference of slices if it is not all rows; the number with each verdict, and of those not in the table."""
    slices, together, far = (result.get(name, {}).get(by) for name in ("slices", "references", "explained"))
    metric, share = slices[0]["metric"] if slices else "", 1 - _confidence(result)
    if together is not None:
        unit = "queries" if "queries" in slices[0] else "users"
        value = number(together)
        yield f"slices share {unit}, and are compared with each other: {metric} {value} of all slices together"
    without = sum(row["verdict"] is None for row in slices)
    if without < len(slices):
        rest = [f"{without} without a verdict"] if without else []
        verdicts = [*_verdicts(slices, {"too few": "too few to tell"}), *rest]
        yield f"{', '.join(verdicts)}; significant: q of at most {share:.2g}, over all slices of all columns"
    elif slices:
        yield f"no verdicts: there is no test for {metric or 'the first metric'} of these rows"
    yield from _reasons(((key_of(row["key"]), row) for row in slices), "too few in")
    if any(row["harm"] is not None for row in slices):
        yield f"harm = share * distance from {metric} of {_whole(together)}, if that is worse"
    if len(slices) > _SLICES:
        yield f"and {counted(len(slices) - _SLICES, 'more slices')}: see {_everything()}"
    yield from _far(far, metric, together)


def _far(spread: float | None, metric: str, together: float | None) -> list[str]:
    """The variation of slices, which is an estimate, and no verdict."""
    if spread is None:
        return []
    whole = _whole(together)
    return [f"root mean square difference of slices from {whole}, less what chance adds: {spread:.3g} {metric}"]


def _whole(together: float | None) -> str:
    return "all rows" if together is None else "all slices together"


def _verdicts(slices: Sequence[Mapping[str, Any]], words: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The number of slices with each verdict."""
    numbers = Counter(row["verdict"] for row in slices)
    words = {"within chance": _NOT_SIGNIFICANT, **words}
    return [f"{numbers[verdict]} {words.get(verdict, verdict)}" for verdict in VERDICTS if numbers[verdict]]


def _verdict(row: Mapping[str, Any]) -> str:
    """The words of a verdict on a slice, with the needs of one that is too small."""
    return needed(row) if row["verdict"] == "too few" else _short_verdict(row["verdict"])


def _short_verdict(verdict: str | None) -> str:
    """The words of a verdict, or a dash."""
    return _NOT_SIGNIFICANT if verdict == "within chance" else verdict or "-"


def _two_digits(q: float | None) -> str:
    return "-" if q is None else f"{q:.2g}"


def _four_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _short(value: float | None) -> str:
    """Three digits with a sign."""
    if value is None:
        return "-"
    return f"{value:+.3g}" if value else "0"


def _deltas(result: Mapping[str, Any]) -> Iterator[Table]:
    """For each column of a comparison, the slices' deltas, and their contributions to that of the whole."""
    percent = f"{100 - 100 * (1 - _confidence(result)):g}%"
    for by, of_column in result.get("versus", {}).items():
        metric, slices = of_column["metric"], of_column["slices"]
        columns = [
            column(clean(by), "key", key_of),
            column("baseline", "baseline", _four_digits),
            column(metric, "value", _four_digits),
            column("delta", "delta", _short),
            Column(percent, lambda row: span(row, "+", 2)),
            column("q", "q", _two_digits),
            column("", "verdict", _short_verdict),
        ]
        notes = list(_notes_on_deltas(of_column, result))
        yield Table.of(f"new against baseline, by {clean(by)}", columns, slices[:_SLICES], notes).filled()
        if slices and slices[0]["added"] is not None:
            yield _sources(by, of_column)


def _sources(by: str, of_column: Mapping[str, Any]) -> Table:
    """The contributions of slices to the delta of the whole."""
    metric, delta = of_column["metric"], _short(of_column["delta"])
    columns = [
        column(clean(by), "key", key_of),
        column("rows before", "baseline_rows", grouped),
        column("rows now", "rows", grouped),
        column("mix", "mix", _short),
        column("within", "within", _short),
        column("adds", "added", _short),
    ]
    rest = f", remainder {_short(of_column['remainder'])}" if of_column["remainder"] else ""
    why = "; remainder: users with rows in several slices" if rest else ""
    notes = [
        f"mix {_short(of_column['mix'])}, within {_short(of_column['within'])}{rest}: {delta} in all{why}",
        f"mix: the slice's share changed; within: {_WITHIN[of_column['made_of']].format(metric)} did",
    ]
    title = f"where the delta of {metric}, {delta}, comes from, by {clean(by)}"
    return Table.of(title, columns, of_column["slices"][:_SLICES], notes).filled()


def _notes_on_deltas(of_column: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[str]:
    """The number of slices with each verdict, the needs of those with too few rows, and what intervals hold at."""
    slices, verdicts = of_column["slices"], ", ".join(_verdicts(of_column["slices"]))
    if verdicts:
        yield f"{verdicts}; significant: q of at most {1 - _confidence(result):.2g}"
    elif slices:
        yield f"no verdicts: there is no test for the delta of {of_column['metric']} of these rows"
    few = [row for row in slices[:_SLICES] if row["verdict"] == "too few"]
    yield from (f"{key_of(row['key'])} is {_verdict(row)}" for row in few[:_FEW])
    if len(few) > _FEW or len(slices) > _SLICES:
        yield f"more in {_everything()}"
    yield from _reasons(((key_of(row["key"]), row) for row in slices), "too few in")
    looks = result["asked"].get("always_valid")
    if looks and slices:
        yield f"intervals hold at all looks together, narrowest at {looks:,} rows"
