"""Whether streams of predictions, such as training and serving, score the same rows alike."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.arguments import flag_of, number_of, texts_of
from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.batch.keys import NULL, Coded, distinct
from fleetmetrics.collection import MetricCollection
from fleetmetrics.errors import DataError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluation.conditions import failed
from fleetmetrics.evaluation.printed import Table, clean, filled, laid_out, plain
from fleetmetrics.files import Read, evaluate_file, find, memory_of
from fleetmetrics.files.formats import rows_of
from fleetmetrics.files.passes import Share
from fleetmetrics.metric import Metric
from fleetmetrics.metrics.auc import AUC
from fleetmetrics.metrics.click_through import Calibration

__all__ = ["ConsistencyResult", "Step", "StepSlice", "Stream", "consistency"]

#: Scores that differ by 10 to the minus these are counted, and log-odds that differ by these; some are printed.
DIGITS, ODDS = tuple(range(1, 10)), (0.001, 0.01, 0.1, 1.0)
_DIGITS, _ODDS = (1, 3, 5, 7), (0.1, 1.0)
#: The bytes of a row of one stream while it is compared, beside those of each further column.
_PER_ROW, _PER_COLUMN = 96, 16
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
class ConsistencyResult:
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

    def __str__(self) -> str:
        return laid_out(self.tables())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>\n{self}"

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


def consistency(
    streams: Mapping[str, Any],
    *,
    id: str | Mapping[str, str],
    score: str | Mapping[str, str],
    label: str | None = None,
    by: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    tolerance: float = 1e-6,
    skip_bad_rows: bool = False,
    memory: int | None = None,
) -> ConsistencyResult:
    """Whether two or more streams give the same rows the same scores: training and serving, or each step between.

    Rows are joined by their ids. Each stream is compared with the one before it, so give them in the order in which the
    data go through them. The files are read several times where their rows do not fit into memory together.

    Args:
        streams: files by name, as `fleetmetrics.files.find` takes them.
        id: the column of a row's id, integers or texts, which no two rows of a stream share; a dict: by stream.
        score: the column of the prediction; a dict: by stream.
        label: the column of the first stream that says what is true, 0 or 1; None: there are no AUC and calibration.
        by: columns of the first stream: slices.
        columns: further columns of numbers in every stream, such as features; those that differ are counted.
        tolerance: how far apart two scores may be, times the larger of 1 and their size.
        skip_bad_rows: whether to leave out rows with nulls, and count them.
        memory: how many bytes to use, about; None: half of the machine's.

    Returns:
        The streams and the steps between them.

    Raises:
        InvalidInputError: an argument is not what it should be.
        DataError: a file cannot be read, an id comes twice in a stream, or two streams have no id in common.

    Examples:
        >>> import fleetmetrics, numpy, tempfile
        >>> folder, scores = tempfile.mkdtemp(), numpy.array([0.1, 0.4, 0.35, 0.8])
        >>> numpy.savez(folder + "/train.npz", id=numpy.arange(4), p=scores)
        >>> numpy.savez(folder + "/serving.npz", id=numpy.arange(4)[::-1], p=scores[::-1] + [0, 0, 0.002, 0])
        >>> result = fleetmetrics.consistency(
        ...     {"train": folder + "/train.npz", "serving": folder + "/serving.npz"}, id="id", score="p"
        ... )
        >>> result.departs, result.steps[0].digits[3], result.steps[0].example
        ('serving', 1, 1)
    """
    if not isinstance(streams, Mapping) or len(streams) < 2 or not all(isinstance(name, str) for name in streams):
        raise InvalidInputError(f"streams must be a dict of two or more streams, files by name, not {streams!r:.80}")
    names = list(streams)
    more = [columns] if isinstance(columns, str) else texts_of("columns", columns)
    keys = [by] if isinstance(by, str) else texts_of("by", by)
    number_of("tolerance", tolerance, 0, allowed="a number from 0 on")
    ids, scores = _by_stream("id", id, names), _by_stream("score", score, names)
    flag_of("skip_bad_rows", skip_bad_rows)
    readers: list[_Reader] = []
    for name, files in streams.items():
        given: dict[str, Any] = {"prediction": [scores[name], *more], "id": ids[name]}
        if not readers:
            given.update({f"by {place}": column for place, column in enumerate(keys)})
            if label is not None:
                given["label"] = label
        readers.append(_Reader(name, find(files), given, skip_bad_rows))
    comparison = _Comparison(names, tolerance, more, keys)
    number = _passes(readers, len(more) + len(keys), memory)
    for place in range(number):
        comparison.add([reader.rows(Share("id", place, number)) for reader in readers])
    return comparison.result(readers)


class _Keys(NamedTuple):
    """The keys of rows."""

    codes: np.ndarray  #: of each row, the place of its key
    keys: Sequence[Any]  #: None is that of rows without one

    def tally(self, slices: dict[Any, StepSlice], rows: np.ndarray, differ: np.ndarray) -> None:
        """Count some of the rows, and those of them whose scores differ."""
        codes, most = self.codes[rows], len(self.keys)
        numbers = np.bincount(codes, minlength=most), np.bincount(codes[differ], minlength=most)
        for key, number, differing in zip(self.keys, *(each.tolist() for each in numbers)):
            if number:
                found = slices.setdefault(key, StepSlice(key))
                found.rows += number
                found.differ += differing


class _Rows(NamedTuple):
    """Rows of a stream, in the order of their ids."""

    ids: np.ndarray
    values: np.ndarray  #: ``[rows, columns]``; the first is the score
    label: np.ndarray | None
    keys: Sequence[_Keys]


class _Kept(Metric):
    """What is read, as it is."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__()
        self.columns, self.nullable = ("id", *keys), tuple(keys)
        self.parts: list[Mapping[str, Any]] = []

    def add(self, prediction: Any, label: Any = None, **keys: Any) -> None:  # type: ignore[override]
        self.parts.append({"prediction": prediction, "label": label, **keys})


class _Reader:
    """Reads a stream, some of its ids at a time."""

    def __init__(self, name: str, paths: Sequence[str], columns: Mapping[str, Any], skip: bool) -> None:
        self.name, self.paths, self.columns, self.skip = name, paths, columns, skip
        self.keys = [each for each in columns if each.startswith("by ")]
        self.total = self.left_out = 0

    def parts(self, share: Share | None = None) -> Iterator[tuple[Read, Sequence[Mapping[str, Any]]]]:
        """What was read of each file, and its pieces."""
        for path in self.paths:
            kept, read = evaluate_file(
                path, lambda: _Kept(self.keys), self.columns, skip_bad_rows=self.skip, share=share
            )
            yield read, kept.parts

    def rows(self, share: Share) -> _Rows:
        """The rows of a share; DataError if an id comes twice."""
        parts: list[Mapping[str, Any]] = []
        for read, pieces in self.parts(share):
            self.total, self.left_out = self.total + read.rows, self.left_out + read.skipped
            parts += pieces
        ids = np.concatenate([np.zeros(0, np.int64), *(integer_ids(part["id"]) for part in parts)])
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            which = f"stream {self.name!r}, column {self.columns['id']!r}"
            raise DataError(f"{which}: {self.id_of(ids[twice[0]])!r} comes twice; an id must be of one row")
        width = len(self.columns["prediction"])
        values = np.concatenate([np.zeros((0, width)), *(part["prediction"] for part in parts)])[order]
        label = None
        if "label" in self.columns:
            label = np.concatenate([np.zeros(0), *(np.asarray(part["label"]) for part in parts)])[order]
        return _Rows(ids, values, label, [_keys_of([part[key] for part in parts], order) for key in self.keys])

    def id_of(self, number: int) -> Any:
        """The id that became this integer; one that was a text is looked for."""
        for _, pieces in self.parts():
            for part in pieces:
                found = np.flatnonzero(integer_ids(part["id"]) == number)
                if len(found):
                    ids = part["id"][found[:1]]
                    return (ids.texts() if isinstance(ids, Coded) else ids)[0].item()
        raise AssertionError(f"{number} is the id of no row")


class _Comparison:
    """The steps between streams, and their values, of rows that come in shares."""

    def __init__(self, names: Sequence[str], tolerance: float, columns: Sequence[str], by: Sequence[str]) -> None:
        self.names, self.tolerance, self.columns, self.by = names, tolerance, columns, by
        self.steps = [Step(*pair, columns=dict.fromkeys(columns, 0)) for pair in zip(names, names[1:])]
        self.slices: list[dict[str, dict[Any, StepSlice]]] = [{key: {} for key in by} for _ in self.steps]
        self.metrics = [MetricCollection({"auc": AUC(), "calibration": Calibration()}) for _ in names]
        self.common, self.labelled = 0, False

    def add(self, streams: Sequence[_Rows]) -> None:
        """Compare the rows of a share of the ids."""
        for step, slices, before, after in zip(self.steps, self.slices, streams, streams[1:]):
            here, there = _matched(before.ids, after.ids)
            step.rows += len(here)
            step.missing += len(before.ids) - len(here)
            step.added += len(after.ids) - len(there)
            differ = self._compare(step, before.ids[here], before.values[here], after.values[there])
            known, place = _matched(before.ids[here], streams[0].ids)
            for by, keys in zip(self.by, streams[0].keys):
                keys.tally(slices[by], place, differ[known])
        self._evaluate(streams)

    def _compare(self, step: Step, ids: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Count the rows that differ, and return flags of those whose scores do."""
        apart = _distance(one, other)
        room = self.tolerance * np.maximum(1, np.maximum(np.abs(one), np.abs(other)))
        differ = apart > np.where(np.isfinite(room), room, 0)
        step.differ += int(differ[:, 0].sum())
        for place, column in enumerate(self.columns, 1):
            step.columns[column] += int(differ[:, place].sum())
        score = apart[:, 0]
        for digit in DIGITS:
            step.digits[digit] += int((score >= 10.0**-digit * (1 - 1e-9)).sum())  # 0.3 - 0.2 is below 0.1
        if len(score) and (score.max() > step.largest or step.example is None):
            step.largest, step.example = float(score.max()), int(ids[score.argmax()])
        self._add_odds(step, one[:, 0], other[:, 0])
        return differ[:, 0]

    @staticmethod
    def _add_odds(step: Step, one: np.ndarray, other: np.ndarray) -> None:
        if step.mean_log_odds is None or not all((each >= 0).all() and (each <= 1).all() for each in (one, other)):
            step.mean_log_odds, step.odds = None, {}
            return
        with np.errstate(divide="ignore"):
            apart = _distance(*(np.log(each) - np.log1p(-each) for each in (one, other)))
        for distance in ODDS:
            step.odds[distance] += int((apart >= distance).sum())
        step.mean_log_odds += float(apart.sum())

    def _evaluate(self, streams: Sequence[_Rows]) -> None:
        """Add the rows that all streams have."""
        first = streams[0]
        common = np.ones(len(first.ids), bool)
        for each in streams[1:]:
            mine = np.zeros(len(first.ids), bool)
            mine[_matched(first.ids, each.ids)[0]] = True
            common &= mine
        self.common += int(common.sum())
        if first.label is None or not common.any():
            return
        self.labelled = True
        for name, metrics, each in zip(self.names, self.metrics, streams):
            place = np.searchsorted(each.ids, first.ids[common])
            try:
                metrics.add(each.values[place, 0], first.label[common])
            except InvalidInputError as error:
                raise DataError(f"stream {name!r}: {error}") from None

    def result(self, readers: Sequence[_Reader]) -> ConsistencyResult:
        """The result, of all rows."""
        for step, slices, reader in zip(self.steps, self.slices, readers):
            if not step.rows:
                raise DataError(
                    f"streams {step.before!r} and {step.after!r} have no id in common: are these the same ids, in the "
                    "same form?"
                )
            if step.mean_log_odds is not None:
                step.mean_log_odds /= step.rows
            step.example = reader.id_of(step.example)
            step.slices = {
                by: sorted(found.values(), key=lambda each: (-each.share, -each.rows, str(each.key)))
                for by, found in slices.items()
            }
        streams = {}
        for reader, metrics in zip(readers, self.metrics):
            values: Mapping[str, Any] = {}
            if self.labelled:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UndefinedMetricWarning)  # nan says so
                    values = metrics.compute_local()
            streams[reader.name] = Stream(len(reader.paths), reader.total, reader.left_out, **values)
        return ConsistencyResult(streams, self.steps, self.tolerance, self.common)


def _by_stream(argument: str, given: Any, names: Sequence[str]) -> dict[str, str]:
    """A column for each stream."""
    found = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    if set(found) != set(names) or not all(isinstance(each, str) for each in found.values()):
        streams = ", ".join(map(repr, names))
        raise InvalidInputError(
            f"{argument} must be the name of a column, or a dict of one for each of {streams}; not {given!r:.80}"
        )
    return found


def _passes(readers: Sequence[_Reader], columns: int, memory: int | None) -> int:
    """How many shares of the ids there must be, so that the rows of one fit into memory."""
    room = memory_of(memory)
    if any("-" in reader.paths for reader in readers):
        raise InvalidInputError("streams are read several times; the standard input can be read only once")
    try:
        rows = sum(rows_of(path) for reader in readers for path in reader.paths)
    except OSError as error:
        raise DataError(str(error)) from None
    return max(1, -(-rows * (_PER_ROW + _PER_COLUMN * columns) // room))


def _keys_of(parts: Sequence[Any], order: np.ndarray) -> _Keys:
    """The keys of rows that were read in parts, in this order."""
    table: dict[Any, int] = {}
    codes = [np.zeros(0, np.int64)]
    for part in parts:
        values, place = distinct(part)
        keys = (None if key in NULL.values() else key for key in values.tolist())
        codes.append(np.array([table.setdefault(key, len(table)) for key in keys], np.int64)[place])
    return _Keys(np.concatenate(codes)[order], list(table))


def _matched(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of the ids that both have, in each; the ids of ``other`` rise."""
    place = np.searchsorted(other, one)
    here = np.flatnonzero(np.append(other, 0)[place] == one) if len(other) else np.zeros(0, np.int64)
    here = here[place[here] < len(other)]
    return here, place[here]


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far apart numbers are: two nan, or equal infinities, not at all; nan and a number infinitely."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
    alike = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(alike, 0.0, np.where(np.isnan(apart), np.inf, apart))


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
