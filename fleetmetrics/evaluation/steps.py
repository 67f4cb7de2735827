"""What was found of streams: each of them, the steps from one to the next, and the result that is printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Iterator, Sequence

from fleetmetrics.evaluation.conditions import failed
from fleetmetrics.evaluation.printed import Printed, Table, clean, filled, plain

__all__ = ["DIGITS", "ODDS", "ConsistencyResult", "Step", "StepSlice", "Stream"]

#: Scores that differ by 10 to the minus these are counted, and log-odds that differ by these; some are printed.
DIGITS, ODDS = tuple(range(1, 10)), (0.001, 0.01, 0.1, 1.0)
_DIGITS, _ODDS = (1, 3, 5, 7), (0.1, 1.0)
#: How many slices of a column are printed.
_SLICES = 10


@dataclass(frozen=True)
class Stream:
    """One stream.

    Attributes:
        files: how many there are.
        rows: how many rows it has.
        skipped: how many were left out.
        auc: over the ids that all streams have; None without labels.
        calibration: of the same, predicted over observed; None without labels.
    """

    files: int
    rows: int
    skipped: int
    auc: float | None = None
    calibration: float | None = None


@dataclass
class StepSlice:
    """The rows of a step with one key.

    Attributes:
        key: of the slice; None of rows without one.
        rows: how many.
        differ: in how many the scores differ.
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
        before: the name of the first of the two.
        after: that of the second.
        rows: how many ids both have.
        missing: how many ids only ``before`` has.
        added: how many only ``after`` has.
        differ: in how many rows the scores differ by more than the tolerance.
        digits: for d = 1, ..., 9, in how many rows they differ by at least ``10**-d``.
        odds: in how many rows the log-odds differ by at least 0.001, 0.01, 0.1 and 1; empty unless all scores are
            probabilities.
        mean_log_odds: the mean distance of the log-odds; None unless all scores are probabilities.
        largest: the largest difference of two scores.
        example: the id where that is.
        columns: by column, in how many rows the values differ.
        slices: by column of slices, those with the largest share of rows that differ first.
    """

    before: str
    after: str
    rows: int = 0
    missing: int = 0
    added: int = 0
    differ: int = 0
    digits: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DIGITS, 0))
    odds: dict[float, int] = field(default_factory=lambda: dict.fromkeys(ODDS, 0))
    mean_log_odds: float | None = 0.0
    largest: float = 0.0
    example: Any = None
    columns: dict[str, int] = field(default_factory=dict)
    slices: dict[str, list[StepSlice]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of rows whose scores differ; nan without rows."""
        return self.differ / self.rows if self.rows else math.nan

    def plain(self) -> dict[str, Any]:
        """What the result's JSON is made of."""
        slices = {
            by: [{**vars(each), "share": each.share} for each in slices[:1000]] for by, slices in self.slices.items()
        }
        digits = {f"1e-{digit}": number for digit, number in self.digits.items()}
        odds = {f"{distance:g}": number for distance, number in self.odds.items()}
        return {**vars(self), "share": self.share, "digits": digits, "odds": odds, "slices": slices}


@dataclass(frozen=True, repr=False)
class ConsistencyResult(Printed):
    """What `consistency` has found; printed, it is what ``fleetmetrics consistency`` prints.

    Attributes:
        streams: by name, in the order in which they were given.
        steps: from each stream to the next.
        tolerance: how far apart scores may be.
        common: how many ids all streams have.
    """

    streams: dict[str, Stream]
    steps: list[Step]
    tolerance: float
    common: int

    @classmethod
    def empty(cls, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """`to_dict` before anything is read, and the paths below which there will be more.

        Args:
            names: of the streams.
        """
        steps = [Step(*pair) for pair in zip(names, names[1:])]
        found = cls({name: Stream(0, 0, 0) for name in names}, steps, 0.0, 0).to_dict()
        return found, [f"steps.{step.after}.{each}" for step in steps for each in ("columns", "slices")]

    @property
    def departs(self) -> str | None:
        """The first stream with a score that differs from the stream before it; None: all are alike."""
        return self._departing.after if self._departing else None

    @property
    def _departing(self) -> Step | None:
        """The first step with a score that differs."""
        return next((step for step in self.steps if step.differ), None)

    def to_dict(self) -> dict[str, Any]:
        """What ``fleetmetrics consistency --json`` prints; what is undefined is None."""
        found: dict[str, Any] = plain(
            {
                "streams": {name: vars(stream) for name, stream in self.streams.items()},
                "steps": {step.after: step.plain() for step in self.steps},
                "common": self.common,
                "departs": self.departs,
                "tolerance": self.tolerance,
            }
        )
        return found

    def failed(self, *conditions: str) -> list[str]:
        """What to say of each condition that holds; none: all is well.

        Args:
            *conditions: such as ``"steps.serving.share>0.001"``; the names are those of `to_dict`, with dots.

        Raises:
            InvalidInputError: a condition cannot be read, or the result has no number of that name.
        """
        return failed(conditions, self.to_dict())

    def to_html(self, path: Any = None) -> str:
        """One page that needs no other file, with the tables and every number as JSON.

        Args:
            path: where to write it, whole or not at all; None: nowhere.

        Returns:
            The page.

        Raises:
            MissingLibraryError: jinja2 is not installed.
        """
        from fleetmetrics.report import written
        from fleetmetrics.report.tables import page_of

        return written(page_of("Consistency of streams", self._said(), self.tables(), self.to_dict()), path)

    def tables(self) -> Iterator[Table]:
        """The streams, the steps, and for the first step that differs its columns and slices."""
        rows = [["", "files", "rows", "missing", "added", "auc", "calibration"]]
        steps = {step.after: step for step in self.steps}
        for name, stream in self.streams.items():
            step = steps.get(name)
            gaps = [f"{step.missing:,}", f"{step.added:,}"] if step else ["-", "-"]
            numbers = ["-" if each is None else f"{each:.6g}" for each in (stream.auc, stream.calibration)]
            rows.append([clean(name), f"{stream.files:,}", f"{stream.rows:,}", *gaps, *numbers])
        yield Table("", filled(rows), [f"{self.common:,} ids are in all streams"])
        head = [
            "rows whose scores differ by",
            f"more than {self.tolerance:g}",
            *(f"1e-{each}" for each in _DIGITS),
        ]
        rows = [[*head, *(f"{each:g} in log-odds" for each in _ODDS), "largest"]]
        for step in self.steps:
            shares = [step.differ, *(step.digits[each] for each in _DIGITS)]
            odds = [_percent(step.odds[each], step.rows) if step.odds else "-" for each in _ODDS]
            name = f"{clean(step.before)} to {clean(step.after)}"
            rows.append([name, *(_percent(each, step.rows) for each in shares), *odds, f"{step.largest:.3g}"])
        yield Table("", rows, [self._said()])
        if self._departing:
            yield from _where(self._departing)

    def _said(self) -> str:
        step = self._departing
        if step is None:
            return f"all scores are alike, to {self.tolerance:g}"
        return (
            f"{clean(step.after)} departs first: {_percent(step.differ, step.rows)} of its scores differ from "
            f"{clean(step.before)}, most at id {clean(step.example)}"
        )


def _where(step: Step) -> Iterator[Table]:
    """In which columns and slices the rows of a step differ."""
    if step.columns:
        rows = [["column", "values that differ"]]
        rows += [[clean(column), _percent(number, step.rows)] for column, number in step.columns.items()]
        yield Table(f"{clean(step.before)} to {clean(step.after)}", rows, [])
    for by, slices in step.slices.items():
        rows = [[clean(by), "rows", "scores that differ"]]
        for each in slices[:_SLICES]:
            key = "(null)" if each.key is None else clean(each.key)
            rows.append([key, f"{each.rows:,}", _percent(each.differ, each.rows)])
        more = [f"and {len(slices) - _SLICES:,} slices that differ less"] if len(slices) > _SLICES else []
        yield Table(f"{clean(step.before)} to {clean(step.after)}, by {clean(by)}", rows, more)


def _percent(number: int, of: int) -> str:
    """A share; one of few rows is not taken for none, nor one of nearly all for all."""
    if 0 < number < of:
        return "<0.01%" if number / of < 1e-4 else ">99.99%" if number / of > 0.9999 else f"{number / of:.2%}"
    return f"{number / of if of else math.nan:.0%}"
