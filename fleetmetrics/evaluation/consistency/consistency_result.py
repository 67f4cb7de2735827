"""The result for streams: each stream, the steps from one to the next, and the printed result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Sequence

from fleetmetrics.evaluation.output.conditions import checked
from fleetmetrics.evaluation.output.output_paths import output_of
from fleetmetrics.support.printed import Column, Printed, Table, clean, facts_in_line, grouped, key_of, plain
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.words import Words
from fleetmetrics.words.texts import Language

__all__ = ["DIGITS", "ODDS", "ConsistencyResult", "Step", "StepSlice", "Stream"]

#: Scores that differ by 10 to the minus these are counted, and log-odds that differ by these; some are printed.
DIGITS, ODDS = tuple(range(1, 10)), (0.001, 0.01, 0.1, 1.0)
_DIGITS, _ODDS = (1, 3, 5, 7), (0.1, 1.0)
#: The number of slices of a column to print.
_SLICES = 10


@dataclass(frozen=True)
class Stream:
    """One stream.

    Attributes:
        files: the number of files.
        rows: the number of rows.
        skipped: the number of rows that cannot be read, and are compared with nothing.
        left_out: the number of other rows left out by the condition.
        auc: the AUC over the ids that all streams have; None without labels.
        calibration: predicted over observed for the same ids; None without labels.
        nulls: by feature and label, the number of rows without a value.
        understood: what the reader inferred, or took by an option, such as the separator.
    """

    files: int
    rows: int
    skipped: int
    left_out: int = 0
    auc: float | None = None
    calibration: float | None = None
    nulls: Mapping[str, int] = field(default_factory=dict)
    understood: Mapping[str, str] = field(default_factory=dict)


@dataclass
class StepSlice:
    """The rows of a step with one key.

    Attributes:
        key: the key of the slice; None for rows without one.
        rows: the number of rows.
        differ: the number of rows whose scores differ.
    """

    key: Any
    rows: int = 0
    differ: int = 0

    @property
    def share(self) -> float:
        """The share of rows whose scores differ."""
        return self.differ / self.rows


@dataclass
class Step:
    """From one stream to the next, over the ids that both have.

    Attributes:
        before: the name of the first stream.
        after: the name of the second stream.
        rows: the number of ids in both.
        missing: the number of ids in ``before`` only.
        added: the number of ids in ``after`` only.
        skipped: the number of further ids in both, for which a row was skipped on one side or both.
        differ: the number of rows whose scores differ by more than the tolerance.
        digits: for d = 1, ..., 9, the number of rows whose scores differ by at least ``10**-d``.
        odds: the numbers of rows whose log-odds differ by at least 0.001, 0.01, 0.1 and 1; empty unless all scores are
            probabilities.
        mean_log_odds: the mean distance of the log-odds; None unless all scores are probabilities.
        largest: the largest difference of two scores.
        example: the id of that row.
        features: by column, the number of rows whose values differ. A null and nan are equal, and differ from a number.
        slices: by column of slices, first those with the largest share of rows that differ.
    """

    before: str
    after: str
    rows: int = 0
    missing: int = 0
    added: int = 0
    skipped: int = 0
    differ: int = 0
    digits: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DIGITS, 0))
    odds: dict[float, int] = field(default_factory=lambda: dict.fromkeys(ODDS, 0))
    mean_log_odds: float | None = 0.0
    largest: float = 0.0
    example: Any = None
    features: dict[str, int] = field(default_factory=dict)
    slices: dict[str, list[StepSlice]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of rows whose scores differ; nan without rows."""
        return self.differ / self.rows if self.rows else math.nan

    def plain(self) -> dict[str, Any]:
        """The form in the result's JSON."""
        slices = {by: [{**vars(row), "share": row.share} for row in rows[:1000]] for by, rows in self.slices.items()}
        digits = {f"1e-{digit}": number for digit, number in self.digits.items()}
        odds = {f"{distance:g}": number for distance, number in self.odds.items()}
        return {**vars(self), "share": self.share, "digits": digits, "odds": odds, "slices": slices}


@dataclass(frozen=True, repr=False)
class ConsistencyResult(Printed):
    """The result of `consistency`; it prints as ``fleetmetrics consistency`` does.

    Attributes:
        streams: by name, in the given order.
        steps: from each stream to the next.
        tolerance: the largest distance of equal scores.
        common: the number of ids in all streams.
        warnings: problems of the values.
    """

    streams: dict[str, Stream]
    steps: list[Step]
    tolerance: float
    common: int
    warnings: list[str] = field(default_factory=list)
    _files: Sequence[str] = field(default=(), compare=False)

    @classmethod
    def empty(cls, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """`to_dict` before anything is read, and the paths below which there will be more.

        Args:
            names: of the streams.
        """
        steps = [Step(*pair) for pair in zip(names, names[1:])]
        result = cls({name: Stream(0, 0, 0) for name in names}, steps, 0.0, 0).to_dict()
        return result, [f"steps.{step.after}.{entry}" for step in steps for entry in ("features", "slices")]

    @property
    def departs(self) -> str | None:
        """The first stream with a score that differs from the stream before it; None: all are alike."""
        return self._departing.after if self._departing else None

    @property
    def _departing(self) -> Step | None:
        """The first step with a score that differs."""
        return next((step for step in self.steps if step.differ), None)

    @property
    def _shown(self) -> Step | None:
        """The step whose features and slices are printed: the first with a difference of scores, or of features."""
        return self._departing or next((step for step in self.steps if any(step.features.values())), None)

    def to_dict(self) -> dict[str, Any]:
        """The dict that ``fleetmetrics consistency --json`` prints; undefined values are None."""
        result: dict[str, Any] = plain(
            {
                "streams": {name: vars(stream) for name, stream in self.streams.items()},
                "steps": {step.after: step.plain() for step in self.steps},
                "common": self.common,
                "departs": self.departs,
                "tolerance": self.tolerance,
                "warnings": self.warnings,
            }
        )
        return result

    def failed(self, *conditions: str) -> list[str]:
        """Return a text for each condition that holds; empty if none holds.

        Skipped rows block, too, unless a condition says how many a stream may have.

        Args:
            *conditions: such as ``"steps.serving.share>0.001"`` and ``"streams.serving.skipped>10"``; the names are
                those of `to_dict`, with dots.

        Raises:
            InvalidInputError: a condition cannot be read, or the result has no number of that name.
        """
        outcomes = checked(conditions, self.to_dict())
        paths = {outcome.path for outcome in outcomes}
        texts = [outcome.said for outcome in outcomes if outcome.fails]
        for name, stream in self.streams.items():
            path = f"streams.{name}.skipped"
            if outcomes and stream.skipped and path not in paths:
                rows = counted(stream.skipped, "rows", "were")
                texts.append(f"{path} is {stream.skipped:,}: {rows} compared with nothing; '{path}>N' allows N of them")
        return texts

    def to_html(self, path: Any = None, lang: Language = "en") -> str:
        """Return one self-contained page, with the tables and every number as JSON.

        Args:
            path: the file to write, whole or not at all; None: no file.
            lang: "en" or "zh".

        Returns:
            The page.

        Raises:
            InvalidInputError: the path is one of the files that were read, or not writable.
            MissingLibraryError: jinja2 is not installed.
        """
        from fleetmetrics.report import written
        from fleetmetrics.report.tables import page_of

        words = Words(lang)
        page = page_of(words("streams.title"), self._lead(words), self.tables(lang), self.to_dict(), lang=lang)
        return written(page, None if path is None else output_of(path, self._files))

    def tables(self, lang: str = "en") -> Iterator[Table]:
        """The streams, the steps, and for the first step that differs its features and slices.

        Args:
            lang: "en" or "zh".
        """
        words = Words(lang)
        yield self._table_of_streams(words)
        yield self._table_of_steps(words)
        if self._shown:
            yield from _where(self._shown, self.streams, words)
        if self.warnings:
            yield Table(words("history.warnings"), [], [clean(text) for text in self.warnings])

    def _table_of_streams(self, words: Words) -> Table:
        """What each stream has, and lacks of the one before."""
        streams = self.streams.values()
        left_out, skipped = (any(getattr(stream, name) for stream in streams) for name in ("left_out", "skipped"))
        steps = {step.after: step for step in self.steps}
        columns = [
            Column("", clean),
            Column(words("streams.files"), lambda name: grouped(self.streams[name].files)),
            Column(words("streams.rows"), lambda name: grouped(self.streams[name].rows)),
            Column(words("streams.left_out"), lambda name: grouped(self.streams[name].left_out) if left_out else ""),
            Column(words("streams.skipped"), lambda name: grouped(self.streams[name].skipped) if skipped else ""),
            Column(words("streams.missing"), lambda name: grouped(steps[name].missing) if name in steps else "-"),
            Column(words("streams.added"), lambda name: grouped(steps[name].added) if name in steps else "-"),
            Column("auc", lambda name: _six_digits(self.streams[name].auc)),
            Column(words("streams.calibration"), lambda name: _six_digits(self.streams[name].calibration)),
        ]
        notes = [words("streams.common", number=self.common), *self._understood()]
        return Table.of("", columns, self.streams, notes).filled()

    def _table_of_steps(self, words: Words) -> Table:
        """How far the scores differ from one stream to the next."""
        columns = [
            Column(words("streams.differ_by"), lambda step: _named(step, words)),
            Column(words("streams.more_than", tolerance=self.tolerance), lambda step: _percent(step.differ, step.rows)),
            *map(_digit_column, _DIGITS),
            *(_odds_column(distance, words) for distance in _ODDS),
            Column(words("streams.largest"), lambda step: f"{step.largest:.3g}"),
        ]
        return Table.of("", columns, self.steps, [self._lead(words)])

    def _understood(self) -> Iterator[str]:
        """A line of what was understood of each stream; one for all if it was the same."""
        lines = {name: facts_in_line(stream.understood) for name, stream in self.streams.items()}
        if len(set(lines.values())) == 1:
            lines = {"": next(iter(lines.values()))}
        yield from (f"{clean(name)}: {line}" if name else line for name, line in lines.items() if line)

    def _lead(self, words: Words) -> str:
        """The sentence on where the streams part."""
        step, skipped = self._departing, sum(stream.skipped for stream in self.streams.values())
        rest = ""
        if skipped:
            rest = words("streams.not_compared", number=skipped)
        if step is None:
            apart = self._shown
            if apart is not None:
                names = ", ".join(clean(name) for name, number in apart.features.items() if number)
                rest = words("streams.differing_features", features=names, stream=clean(apart.after)) + rest
            return words("streams.agree", tolerance=self.tolerance) + rest
        streams = {"before": clean(step.before), "after": clean(step.after)}
        share = _percent(step.differ, step.rows)
        return words("streams.diverges", share=share, id=clean(step.example), **streams) + rest


def _named(step: Step, words: Words) -> str:
    return words("streams.step", before=clean(step.before), after=clean(step.after))


def _digit_column(digit: int) -> Column:
    """The share of rows whose scores differ in a digit."""
    return Column(f"1e-{digit}", lambda step: _percent(step.digits[digit], step.rows))


def _odds_column(distance: float, words: Words) -> Column:
    """The share of rows whose log-odds differ by a distance."""
    header = words("streams.odds", difference=distance)
    return Column(header, lambda step: _percent(step.odds[distance], step.rows) if step.odds else "-")


def _nulls_column(name: str, stream: Stream, words: Words) -> Column:
    """The number of rows of a stream without a value, by feature."""
    header = words("streams.nulls", stream=clean(name))
    return Column(header, lambda feature: grouped(stream.nulls[feature]) if stream.nulls.get(feature) else "-")


def _where(step: Step, streams: Mapping[str, Stream], words: Words) -> Iterator[Table]:
    """The features and slices in which the rows of a step differ."""
    if step.features:
        columns = [
            Column(words("streams.feature"), clean),
            Column(words("streams.differing_values"), lambda name: _percent(step.features[name], step.rows)),
            *(_nulls_column(name, streams[name], words) for name in (step.before, step.after)),
        ]
        yield Table.of(_named(step, words), columns, step.features).filled()
    for by, slices in step.slices.items():
        columns = [
            Column(clean(by), lambda row: key_of(row.key)),
            Column(words("streams.rows"), lambda row: grouped(row.rows)),
            Column(words("streams.differing_scores"), lambda row: _percent(row.differ, row.rows)),
        ]
        rest = len(slices) - _SLICES
        notes = [words("streams.more_slices", number=rest)] if rest > 0 else []
        title = words("streams.step_by", step=_named(step, words), column=clean(by))
        yield Table.of(title, columns, slices[:_SLICES], notes)


def _six_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _percent(number: int, of: int) -> str:
    """A share in words: a few rows do not print as none, nor nearly all rows as all."""
    share = number / of if of else math.nan
    if not 0 < number < of:
        return f"{share:.0%}"
    if share < 1e-4:
        return "<0.01%"
    return ">99.99%" if share > 0.9999 else f"{share:.2%}"
