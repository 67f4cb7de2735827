"""A model over days: saved states as points, in the given order."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from html import escape
from typing import Any, Iterator, Mapping, Sequence

from fleetmetrics.errors import DataError
from fleetmetrics.evaluation.conditions import failed
from fleetmetrics.evaluation.output_paths import output_of
from fleetmetrics.evaluation.printed import Printed, Table, clean, filled, number, plain, span
from fleetmetrics.evaluation.result import EvaluationResult, result_of
from fleetmetrics.evaluation.side_of_states import load, states_of
from fleetmetrics.report.headline import change_of
from fleetmetrics.words import Words

__all__ = ["HistoryResult", "history"]

#: A change that is undefined, or of the first state.
_UNKNOWN: Mapping[str, Any] = {"value": None}


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

    def to_dict(self) -> dict[str, Any]:
        """The dict that ``fleetmetrics history --json`` prints; undefined values are None."""
        about = next(iter(self.points.values())).asked.about()
        states: list[dict[str, Any]] = []
        for name, point in self.points.items():
            data = point.new.data
            state: dict[str, Any] = {"state": name, "rows": data.rows, **data.sizes}
            for metric in self.metrics:
                state[metric] = point.values[metric]
                if metric in point.intervals:
                    state[f"{metric}_interval"] = point.intervals[metric].plain()
            state = plain(state)
            for metric in self.metrics if states else ():
                state[f"{metric}_change"] = _change(states[-1], state, metric)
            states.append(state)
        found: dict[str, Any] = plain({"states": states, "about": about, "warnings": self.warnings})
        return found

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
        states, about = result["states"], result["about"]
        sizes = {size: text for size, text in words.section("sizes").items() if size in states[0]}
        rows = [[words("history.state"), *sizes.values(), *self.metrics]]
        for each in states:
            counts = [f"{each.get(size, 0):,}" for size in sizes]
            rows.append([clean(each["state"]), *counts, *(number(each[metric]) for metric in self.metrics)])
        yield Table("", rows, [self._said(result, words)])
        for metric in self.metrics:
            if any(f"{metric}_interval" in each for each in states):
                yield self._of(metric, states, about[metric]["better"], words)
        if self.warnings:
            yield Table(words("history.warnings"), [], [clean(each) for each in self.warnings])

    def _of(self, metric: str, states: Sequence[Mapping[str, Any]], better: str, words: Words) -> Table:
        percent = f"{100 * next(iter(self.points.values())).confidence:g}%"
        rows = [[words("history.state"), metric, percent, words("history.change"), percent, ""]]
        form = words("numbers.span")
        for each in states:
            change = each.get(f"{metric}_change", _UNKNOWN)
            cells = [number(change["value"], "+"), span(change, "+", form=form)]
            ends = each.get(f"{metric}_interval", {})
            interval = words.ends(ends) if ends.get("needs") else span(ends, form=form)
            what = _said_of(change_of(change, better), words)
            rows.append([clean(each["state"]), number(each[metric]), interval, *cells, what])
        return Table(metric, filled(rows), [words("history.changes")])

    def _said(self, result: Mapping[str, Any], words: Words) -> str:
        """The first metric from the first state to the last."""
        if not self.metrics:
            return words("history.no_metric")
        metric, states = self.metrics[0], result["states"]
        first, last = states[0], states[-1]
        said = f"{metric}: {number(first[metric])} ({first['state']})"
        if len(states) > 1:
            said = words("numbers.span", low=said, high=f"{number(last[metric])} ({last['state']})")
            what = _said_of(change_of(_change(first, last, metric), result["about"][metric]["better"]), words)
            said += f", {what}" if what else ""
        return clean(said)

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

    def to_html(self, path: Any = None, lang: str = "en") -> str:
        """Return one self-contained page: a chart of each metric, the tables, and all numbers as JSON.

        Args:
            path: the file to write, whole or not at all; None: no file.
            lang: "en" or "zh".

        Returns:
            The page.

        Raises:
            InvalidInputError: the path is one of the states or data, or not writable.
            MissingLibraryError: jinja2 or matplotlib is not installed.
        """
        from fleetmetrics.report import written
        from fleetmetrics.report.tables import page_of, points

        words, result = Words(lang), self.to_dict()
        pictures = []
        for place, metric in enumerate(self.metrics):
            values = {
                each["state"]: {"value": each[metric], **each.get(f"{metric}_interval", {})}
                for each in result["states"]
            }
            pictures.append(points(values, escape(metric), place))
        title = words("history.title")
        first, *others = self._tables(result, words)
        tables = [first._replace(notes=[]), *others]  # its note is the first sentence
        page = page_of(title, self._said(result, words), tables, result, pictures, lang)
        inputs = (each for point in self.points.values() for each in point.inputs())
        return written(page, None if path is None else output_of(path, inputs))


def history(states: Sequence[Any]) -> HistoryResult:
    """Show saved states as points of a history, in the order given; see `EvaluationResult.save_state`.

    Args:
        states: their paths, such as one for each day.

    Returns:
        The points; they print as ``fleetmetrics history`` does.

    Raises:
        InvalidInputError: no states were given.
        DataError: a state is given twice, or the states have different arguments.
        CorruptFileError: a file is not a saved state.
    """
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
        side, said = load([path], paths[0])
        warnings += said
        for source in side.read.sources:
            before = held.setdefault((source.size, source.digest), name)
            if before != name and source.rows:
                warnings.append(f"{source.path} is in {before} and in {name}")
        points[name] = result_of([side])
        warnings += [f"{name}: {each}" for each in points[name].warnings]
    return HistoryResult(points, warnings)


def _scalar(value: Any) -> bool:
    return isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0


def _change(before: Mapping[str, Any], after: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    """The change of a metric from one state to a later one, with an interval if both have one."""
    if before[metric] is None or after[metric] is None:
        return _UNKNOWN
    value = after[metric] - before[metric]
    old, new = (each.get(f"{metric}_interval") for each in (before, after))
    if not old or not new or None in (old["low"], old["high"], new["low"], new["high"]):
        return {"value": value}
    down = math.hypot(after[metric] - new["low"], old["high"] - before[metric])
    up = math.hypot(new["high"] - after[metric], before[metric] - old["low"])
    return {"value": value, "low": value - down, "high": value + up}


def _said_of(change: str, words: Words) -> str:
    """A change in words, if its direction is known or it is within chance."""
    return words(f"changes.{change}") if change in ("better", "worse", "higher", "lower", "chance") else ""
