"""A model over days: a table of saved results, with a row for each state, metric and slice."""

from __future__ import annotations

import inspect
import math
import os
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from html import escape
from typing import Any, Collection, Hashable, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.comm.choose import channel_of
from fleetmetrics.comm.deadline import began
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.calls import evaluate, result_of_sides
from fleetmetrics.evaluation.output.conditions import failed
from fleetmetrics.evaluation.output.output_paths import output_of
from fleetmetrics.evaluation.question.question import OTHER
from fleetmetrics.evaluation.request import Request
from fleetmetrics.evaluation.result import EvaluationResult, result_of
from fleetmetrics.evaluation.sides.side_of_data import are_files
from fleetmetrics.evaluation.sides.side_of_states import load, states_of
from fleetmetrics.evaluation.sides.sides_of_workers import of_all_workers
from fleetmetrics.report.headline import change_of
from fleetmetrics.support.checks import raise_if_unknown_argument
from fleetmetrics.support.optional import library
from fleetmetrics.support.printed import (
    ByName,
    Column,
    Printed,
    Table,
    clean,
    column,
    grouped,
    number,
    plain,
    signed,
    span,
)
from fleetmetrics.support.vocabulary import argument, counted
from fleetmetrics.words import Words
from fleetmetrics.words.texts import Language

__all__ = ["HistoryResult", "HistoryRow", "check_by_day", "history"]

#: A day or a month as a string; or a moment, which begins with a day.
_DAY = re.compile(r"(?P<day>\d{4}(?P<sign>[-/]?)\d\d(?P<date>(?P=sign)\d\d)?)(?(date)(?P<time>[T ].+)?)")
#: The most values of a column of days, once moments are cut to days.
_MOST_VALUES = 100_000
#: The most days, each of which is evaluated for itself.
_MOST_DAYS = 1000
#: A change that is undefined, or of the first state.
_UNKNOWN: Mapping[str, Any] = {"value": None}


class HistoryRow(NamedTuple):
    """A metric of a saved result, over all rows or over those of a slice; unknown numbers are None.

    Args:
        state: the name of the saved result.
        metric: the name of the metric.
        rows: the number of rows.
        value: the value of the metric.
        interval: its interval in its JSON form; empty without one.
        by: the column of the slice; None: over all rows.
        key: the key of the slice.
        change: the value minus that of the state before, with an interval if both have one.
    """

    state: str
    metric: str
    rows: int
    value: Any
    interval: Mapping[str, Any]
    by: str | None = None
    key: Any = None
    change: Mapping[str, Any] = _UNKNOWN

    @property
    def of(self) -> Hashable:
        """What the row of another state must have, too, for a change."""
        return self.metric, self.by, self.key

    def plain(self) -> dict[str, Any]:
        """The row of a data frame."""
        ends = {end: self.interval.get(end) for end in ("low", "high")}
        change = {f"change_{end}": self.change.get(end) for end in ("low", "high")}
        names = {"state": self.state, "by": self.by, "key": self.key, "metric": self.metric, "rows": self.rows}
        return {**names, "value": self.value, **ends, "change": self.change["value"], **change}


@dataclass(frozen=True, repr=False)
class HistoryResult(Printed):
    """The result of `history`; it prints as ``fleetmetrics history`` does.

    Attributes:
        points: the result of each state by its name, in the order given.
        warnings: problems of the points together.
    """

    points: dict[str, EvaluationResult]
    warnings: list[str]

    @property
    def metrics(self) -> list[str]:
        """The metrics that are numbers."""
        values = next(iter(self.points.values())).values
        return [name for name, value in values.items() if not isinstance(value, (dict, list)) and _scalar(value)]

    def frame(self) -> Any:
        """Return a data frame of pandas: a row for each state, metric and slice, those over all rows first.

        It has the columns ``state``, ``by`` and ``key`` (None over all rows), ``metric``, ``rows``, ``value``, ``low``,
        ``high`` and, from the state before, ``change``, ``change_low`` and ``change_high``.

        Raises:
            MissingLibraryError: pandas is not installed.
        """
        rows = [row for of_state in self._rows().values() for row in of_state]
        rows += [row for of_state in self._rows(of_slices=True).values() for row in of_state]
        return library("pandas").DataFrame([row.plain() for row in rows])

    def _rows(self, *, of_slices: bool = False) -> dict[str, list[HistoryRow]]:
        """The rows of each state, over all rows or over those of slices, with their changes."""
        table: dict[str, list[HistoryRow]] = {}
        before: dict[Hashable, HistoryRow] = {}
        for state, result in self.points.items():
            rows = _rows_of_slices(state, result) if of_slices else _rows_of(state, result, self.metrics)
            table[state] = [row._replace(change=_change(before.get(row.of), row)) for row in rows]
            before = {row.of: row for row in table[state]}
        return table

    def to_dict(self) -> dict[str, Any]:
        """The dict that ``fleetmetrics history --json`` prints; undefined values are None."""
        about = next(iter(self.points.values())).asked.about()
        states: list[dict[str, Any]] = []
        for name, rows in self._rows().items():
            data = self.points[name].new.data
            state: dict[str, Any] = {"state": name, "rows": data.rows, **data.sizes}
            for row in rows:
                state[row.metric] = row.value
                if row.interval:
                    state[f"{row.metric}_interval"] = row.interval
            if states:
                state.update({f"{row.metric}_change": row.change for row in rows})
            states.append(state)
        result: dict[str, Any] = plain({"states": states, "about": about, "warnings": self.warnings})
        return result

    @property
    def latest(self) -> dict[str, Any]:
        """The dict of the last state, and its changes from the state before; a single state's are undefined."""
        state, last = self.to_dict()["states"][-1], self.last.to_dict()
        changes = {f"{metric}_change": state.get(f"{metric}_change", _UNKNOWN) for metric in self.metrics}
        return {**last, **changes}

    def tables(self, lang: str = "en") -> Iterator[Table]:
        """The values of each state, and for each metric with intervals the changes between states.

        Args:
            lang: "en" or "zh".
        """
        return self._tables(self.to_dict(), Words(lang))

    def _tables(self, result: Mapping[str, Any], words: Words) -> Iterator[Table]:
        states = result["states"]
        sizes = {size: text for size, text in words.section("sizes").items() if size in states[0]}
        columns = [
            column(words("history.state"), "state", clean),
            *(_size_column(size, text) for size, text in sizes.items()),
            *(column(metric, metric, number) for metric in self.metrics),
        ]
        yield Table.of("", columns, states, [self._lead(words)])
        for metric in self.metrics:
            rows = [row for of_state in self._rows().values() for row in of_state if row.metric == metric]
            if any(row.interval for row in rows):
                yield self._changes(rows, result["about"][metric]["better"], words)
        if self.warnings:
            yield Table(words("history.warnings"), [], [clean(text) for text in self.warnings])

    def _changes(self, rows: Sequence[HistoryRow], better: str, words: Words) -> Table:
        """The values of a metric, and the changes between states."""
        percent, form = f"{100 * self.last.confidence:g}%", words("numbers.span")
        columns = [
            Column(words("history.state"), lambda row: clean(row.state)),
            Column(rows[0].metric, lambda row: number(row.value)),
            Column(
                percent,
                lambda row: words.ends(row.interval) if row.interval.get("needs") else span(row.interval, form=form),
            ),
            Column(words("history.change"), lambda row: signed(row.change["value"])),
            Column(percent, lambda row: span(row.change, "+", form=form)),
            Column("", lambda row: _in_words(change_of(row.change, better), words)),
        ]
        return Table.of(rows[0].metric, columns, rows, [words("history.changes")]).filled()

    def _lead(self, words: Words) -> str:
        """The first metric from the first state to the last."""
        if not self.metrics:
            return words("history.no_metric")
        states = [rows[0] for rows in self._rows().values()]
        first, last = states[0], states[-1]
        text = f"{first.metric}: {number(first.value)} ({first.state})"
        if len(states) > 1:
            better = self.last.asked.about()[first.metric]["better"]
            text = words("numbers.span", low=text, high=f"{number(last.value)} ({last.state})")
            text = ", ".join(filter(None, (text, _in_words(change_of(_change(first, last), better), words))))
        return clean(text)

    def failed(self, *conditions: str) -> list[str]:
        """Return a text for each condition that the last state satisfies; empty if it satisfies none.

        Args:
            *conditions: as for `EvaluationResult.failed`; ``"auc_change.high<0"`` is one on the change from the state
                before.

        Raises:
            InvalidInputError: a condition cannot be read, or the result has no number of that name.
        """
        return failed(conditions, self.latest)

    @property
    def last(self) -> EvaluationResult:
        """The result of the last state."""
        return list(self.points.values())[-1]

    def to_html(self, path: Any = None, lang: Language = "en") -> str:
        """Return one self-contained page: a chart of each metric, the tables, and all numbers as JSON.

        Args:
            path: the file to write, whole or not at all; None: no file.
            lang: "en" or "zh".

        Returns:
            The page.

        Raises:
            InvalidInputError: the path is one of the states or data, or not writable.
            MissingLibraryError: jinja2 is not installed.
        """
        from fleetmetrics.report import written
        from fleetmetrics.report.tables import page_of, points

        words, result = Words(lang), self.to_dict()
        pictures = []
        for place, rows in enumerate(zip(*self._rows().values())):
            values = {row.state: {"value": row.value, **row.interval} for row in rows}
            pictures.append(points(values, escape(rows[0].metric), place))
        title = words("history.title")
        first, *others = self._tables(result, words)
        tables = [first._replace(notes=[]), *others]  # its note is the first sentence
        page = page_of(title, self._lead(words), tables, result, pictures, lang)
        inputs = (path for point in self.points.values() for path in point.inputs())
        return written(page, None if path is None else output_of(path, inputs))


def history(states: Any, *, by_day: str | None = None, **options: Any) -> HistoryResult:
    """Show saved states as points of a history, in the order given; or one table, by its column of days.

    Args:
        states: the paths of saved states, such as one for each day; see `EvaluationResult.save_state`. With ``by_day``
            the data, as for `fleetmetrics.evaluate`.
        by_day: the column of days: dates, times, or strings and integers such as 2026-11-01 or 20261101. Each day is
            evaluated for itself, so the data are read once to find the days, and once for each.
        **options: with ``by_day`` those of `fleetmetrics.evaluate`, without a baseline.

    Returns:
        The points; they print as ``fleetmetrics history`` does.

    Raises:
        InvalidInputError: no states were given, or an option is invalid.
        DataError: a state is given twice, or the states have different arguments; or the column holds no days.
        CorruptFileError: a file is not a saved state.

    Examples:
        >>> rows = {"day": ["2026-11-02", "2026-11-01"] * 2, "y": [0, 0, 1, 1], "p": [0.1, 0.8, 0.6, 0.7]}
        >>> result = history(rows, by_day="day", label="y", score="p", metrics="auc")
        >>> {day: point["auc"] for day, point in result.points.items()}
        {'2026-11-01': 0.0, '2026-11-02': 1.0}
    """
    of_evaluate = [name for name in inspect.signature(evaluate).parameters if name != "data"]
    raise_if_unknown_argument("history", ["states", "by_day", *of_evaluate], options)
    if by_day is not None:
        return _by_day(states, by_day, options)
    if options:
        raise InvalidInputError(f"{next(iter(options))} is for a table, with by_day=; saved states have their options")
    paths = states_of(states)
    seen: set[str] = set()
    for path in paths:
        if os.path.realpath(path) in seen:
            raise DataError(f"{path} is given twice; name each state once")
        seen.add(os.path.realpath(path))
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    names = stems if len(set(stems)) == len(stems) else paths
    points: dict[str, EvaluationResult] = {}
    warnings: list[str] = []
    held: dict[Any, str] = {}
    for name, path in zip(names, paths):
        side, notes = load([path], paths[0])
        warnings += notes
        for source in side.read.sources:
            before = held.setdefault((source.size, source.digest), name)
            if before != name and source.rows:
                warnings.append(f"{source.path} is in {before} and in {name}")
        points[name] = result_of([side])
        warnings += [f"{name}: {text}" for text in points[name].warnings]
    return HistoryResult(ByName("point", "", points), warnings)


def check_by_day(data: Any, column: Any, options: Mapping[str, Any]) -> None:
    """Raise InvalidInputError if a table cannot be evaluated day by day.

    Args:
        data: the table.
        column: of days.
        options: those of `fleetmetrics.evaluate`.
    """
    called = argument("by_day")
    for name in ("baseline", "baseline_score", "always_valid"):
        if options.get(name) is not None:
            raise InvalidInputError(f"{called} compares each day with the day before; leave out {argument(name)}")
    if not isinstance(column, str) or not column:
        raise InvalidInputError(f"{called} must be the name of the column of days, not {column!r:.80}")
    if are_files(data) and "-" in ([data] if isinstance(data, str) else list(data)):
        raise InvalidInputError(f"{called} reads the data once for each day; give files, not the standard input")


def _by_day(data: Any, column: str, options: Mapping[str, Any]) -> HistoryResult:
    """Evaluate each day of a table."""
    check_by_day(data, column, options)
    days, warnings = _days(data, column, options)
    where, points = options.get("where"), {}
    for day, condition in days.items():
        points[day] = evaluate(data, **{**options, "where": f"({where}) and {condition}" if where else condition})
        warnings += [f"{day}: {text}" for text in points[day].warnings]
    return HistoryResult(ByName("point", "", points), warnings)


def _days(data: Any, column: str, options: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The days of a column in order, each with the condition on its rows; and warnings."""
    name = '"' + column.replace('"', '""') + '"'
    by = name if "*" in column else column
    own = {"metrics": "count", "by": [by], "max_slices": _MOST_VALUES, "ci": None, "rank_by": None, "min_positives": 0}
    try:
        whole = _of_days(data, column, {**options, **own})
    except DataError as error:
        missing = f"no column {column!r} for "  # the option by is not the caller's
        raise DataError(str(error).replace(missing + argument("by"), missing + argument("by_day"))) from None
    slices = [row for part in (whole.tasks or {"": whole}).values() for row in part.slices[by]]
    without = sum(row.rows for row in slices if row.key is None)
    warnings = [f"{counted(without, 'rows')} without {column} count for no day"] if without else []
    keys = {row.key for row in slices} - {None, OTHER}
    if keys and all(type(key) is int for key in keys):
        days = {str(key): f"{name} = {key}" for key in sorted(keys)}
    else:
        days = _days_of_texts(keys, column, name)
        if any(str(key).endswith("Z") for key in keys):
            warnings.append(f"{column} has a time zone; its days are those of UTC")
    if len(days) > _MOST_DAYS:
        number = f"{len(days):,}" if len(keys) < _MOST_VALUES else f"{_MOST_VALUES:,} or more"
        raise DataError(
            f"{argument('by_day')}: {column} has {number} different days; at most {_MOST_DAYS:,} are evaluated, "
            f"those of a condition with {argument('where')}"
        )
    return days, warnings


def _of_days(data: Any, column: str, options: Mapping[str, Any]) -> EvaluationResult:
    """What `evaluate` returns for slices by a column, whose moments are cut to days."""
    bound = inspect.signature(evaluate).bind(data, **options)
    bound.apply_defaults()
    timeout, asked = bound.arguments["timeout"], Options.among(bound.arguments)
    channel, trouble = channel_of(bound.arguments["communicator"])
    _, trouble = began(timeout, trouble)
    sides = of_all_workers(channel, lambda: Request.of(data, asked, column).sides(channel), trouble, timeout)
    return result_of_sides(sides, channel=channel, timeout=timeout)


def _days_of_texts(keys: Collection[Any], column: str, name: str) -> dict[str, str]:
    """The days that strings say, in order, each with the condition on its rows; DataError for other strings."""
    texts = sorted(map(str, keys))
    matches = [match for match in map(_DAY.fullmatch, texts) if match is not None]
    forms = {re.sub(r"\d", "0", match["day"]) for match in matches}
    if len(matches) < len(texts) or len(forms) != 1:
        unfit = next((text for text in texts if not _DAY.fullmatch(text)), None)
        several = " and ".join(repr(text) for text in texts[:: max(1, len(texts) - 1)])
        raise DataError(
            f"{argument('by_day')}: {column} must hold days in one form, such as 2026-11-01 or 20261101, or moments "
            f"that begin with one; it holds {repr(unfit) if unfit is not None else several or 'none'}"
        )
    of_moments = any(match["time"] for match in matches)
    return {match["day"]: _test(name, match, of_moments) for match in matches}


def _test(name: str, match: re.Match[str], of_moments: bool) -> str:
    """The condition on the rows of a day; of a column of moments, from its beginning to that of the next."""
    day, sign = match["day"], match["sign"]
    if not of_moments:
        return f"{name} = '{day}'"
    try:
        begins = datetime.strptime(day, f"%Y{sign}%m{sign}%d").date()
    except ValueError:
        raise DataError(f"{argument('by_day')}: {name} holds {day}, and there is no such day") from None
    if begins == date.max:
        return f"{name} >= '{day}'"
    following = (begins + timedelta(days=1)).isoformat().replace("-", sign)
    return f"{name} >= '{day}' and {name} < '{following}'"


def _scalar(value: Any) -> bool:
    return isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0


def _rows_of(state: str, result: EvaluationResult, metrics: Sequence[str]) -> Iterator[HistoryRow]:
    """The rows of a state over all rows."""
    for metric in metrics:
        interval = result.intervals[metric].plain() if metric in result.intervals else {}
        yield HistoryRow(state, metric, result.new.data.rows, plain(result.values[metric]), plain(interval))


def _rows_of_slices(state: str, result: EvaluationResult) -> Iterator[HistoryRow]:
    """The rows of a state over those of each slice; one metric of these has intervals."""
    parts = [(f"{task}.", part) for task, part in result.tasks.items()] or [("", result)]
    slices = ((start, by, row) for start, part in parts for by, table in part.slices.items() for row in table)
    for start, by, row in slices:
        for metric, value in row.metrics.items():
            interval = {"low": row.low, "high": row.high} if metric == row.metric else {}
            yield HistoryRow(state, f"{start}{metric}", row.rows, plain(value), plain(interval), by, row.key)


def _change(before: HistoryRow | None, after: HistoryRow) -> Mapping[str, Any]:
    """The change of a metric from one state to a later one, with an interval if both have one."""
    if before is None or before.value is None or after.value is None:
        return _UNKNOWN
    value, old, new = after.value - before.value, before.interval, after.interval
    if None in (old.get("low"), old.get("high"), new.get("low"), new.get("high")):
        return {"value": value}
    down = math.hypot(after.value - new["low"], old["high"] - before.value)
    up = math.hypot(new["high"] - after.value, before.value - old["low"])
    return {"value": value, "low": value - down, "high": value + up}


def _size_column(size: str, header: str) -> Column:
    return Column(header, lambda state: grouped(state.get(size, 0)))


def _in_words(change: str, words: Words) -> str:
    """A change in words, if its direction is known or it is within chance."""
    return words(f"changes.{change}") if change in ("better", "worse", "higher", "lower", "chance") else ""
