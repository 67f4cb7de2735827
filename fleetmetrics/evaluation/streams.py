"""Compare streams of predictions, such as training and serving, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.base.metric import Metric
from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.batch.keys import NULL, Coded, distinct
from fleetmetrics.columns.reading import LackingReading, Reading
from fleetmetrics.columns.understood import facts_of, joined
from fleetmetrics.errors import DataError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluation.steps import DIGITS, ODDS, ConsistencyResult, Step, StepSlice, Stream
from fleetmetrics.files import Read, evaluate_file, find, memory_of
from fleetmetrics.files.formats import FORMATS, rows_of
from fleetmetrics.files.passes import Share
from fleetmetrics.files.places import whole_path
from fleetmetrics.metrics.auc import AUC
from fleetmetrics.metrics.click_through import Calibration
from fleetmetrics.support.arguments import choice_of, flag_of, number_of, texts_of
from fleetmetrics.support.vocabulary import agreeing, argument, counted
from fleetmetrics.support.warning import muted

__all__ = ["consistency"]

#: What is understood for metrics, by their requirements; streams are compared as they are.
_OF_METRICS = ("label", "score")
#: The bytes of a row of one stream during the comparison, without those of further columns.
_PER_ROW, _PER_COLUMN = 96, 16
#: The files are not read more often than this.
_MOST_PASSES = 1000
#: The result says so where buckets leave an area open by more than this.
_WIDE = 0.01


def consistency(
    streams: Mapping[str, Any],
    *,
    id: str | Mapping[str, str],
    score: str | Mapping[str, str],
    label: str | None = None,
    by: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    tolerance: float = 1e-6,
    skip_bad_rows: bool = False,
    where: str | None = None,
    text: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    quote: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    null: str | Sequence[str] = (),
    format: str | None = None,
    memory: int | None = None,
) -> ConsistencyResult:
    r"""Check that two or more streams give the same rows the same scores: training, serving, or each step between.

    Rows are joined by their ids. Each stream is compared with the one before it, so give them in the order of the
    data flow. A feature that is null, or nan, on one side only is a difference, like a score that is nan. If the rows
    do not fit into memory together, the files are read several times.

    Args:
        streams: files by name, as `fleetmetrics.files.find` takes them.
        id: the column of a row's id, integers or strings, unique in a stream; a dict: by stream.
        score: the column of the prediction; a dict: by stream.
        label: the column of the label in the first stream, 0 or 1; None: no AUC and calibration.
        by: columns of the first stream, to slice by.
        features: further columns of numbers in every stream; those that differ are counted. Rows may lack a value.
        tolerance: how far apart two scores may be, times the larger of 1 and their size.
        skip_bad_rows: whether to skip and count rows that cannot be read: without an id or a score, or with an invalid
            value. Rows without a label are compared, and count in neither AUC nor calibration. False: an error.
        where: a condition on the rows of every stream, such as ``"day = '2026-11-01'"``; other rows are skipped and
            counted.
        text: columns of ids and slices that CSV keeps as strings: 007 is "007".
        columns: names for the columns of CSV files without a header.
        quote: what is around values of CSV that hold separators or ends of lines: "none", ``'"'`` or ``"'"``; None:
            ``'"'``, but one that would take whole rows into a value is an error.
        separator: the character between values of CSV, or "tab", "^A", "blanks" for any run of them; None: recognized.
        encoding: of text, such as "gb18030"; None: UTF-8, or UTF-16 with a byte order mark.
        null: what else stands for no value, such as ``["\N", "NA"]``.
        format: of all files, such as "libsvm"; None: each is recognized.
        memory: about how many bytes to use; None: half of the machine's.

    Returns:
        The streams and the steps between them.

    Raises:
        InvalidInputError: an argument is invalid.
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
    more = [features] if isinstance(features, str) else texts_of("features", features)
    keys = [by] if isinstance(by, str) else texts_of("by", by)
    number_of("tolerance", tolerance, 0, allowed="a number of at least 0")
    ids, scores = _by_stream("id", id, names), _by_stream("score", score, names)
    flag_of("skip_bad_rows", skip_bad_rows)
    texts = [text] if isinstance(text, str) and text else texts_of("text", text)
    if label is not None and not isinstance(label, str):
        raise InvalidInputError(f"label must be the name of a column, or None, not {label!r:.80}")
    reading = LackingReading(
        header=columns,
        text=texts,
        where=where,
        quote=quote,
        separator=separator,
        encoding=encoding,
        null=null,
        format=choice_of("format", format, (None, *FORMATS)),
    )
    reading.check_texts([*ids.values(), *keys])
    readers: list[_Reader] = []
    for name, files in streams.items():
        given: dict[str, Any] = {"prediction": [scores[name], *more], "id": ids[name]}
        if not readers:
            given.update({f"by {place}": column for place, column in enumerate(keys)})
            if label is not None:
                given["label"] = label
        lacking = [column for column in more if column not in (ids[name], scores[name])]
        lacking += [label] if skip_bad_rows and label is not None and not readers else []
        readers.append(_Reader(name, find(files), given, skip_bad_rows, replace(reading, lacking=lacking)))
    comparison = _Comparison(names, tolerance, more, keys, skip_bad_rows)
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
    skipped: np.ndarray  #: the ids of rows that cannot be read, in order; those without an id are unknown
    values: np.ndarray  #: ``[rows, columns]``; the first is the score
    label: np.ndarray | None
    keys: Sequence[_Keys]


class _Kept(Metric):
    """The data as read."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__()
        self.columns, self.nullable = ("id", *keys), tuple(keys)
        self.parts: list[Mapping[str, Any]] = []

    def add(self, prediction: Any, label: Any = None, **keys: Any) -> None:  # type: ignore[override]
        self.parts.append({"prediction": prediction, "label": label, **keys})


class _Ids(Metric):
    """The ids of rows, read alone."""

    columns = ("id",)
    takes_label = False

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[np.ndarray] = [np.zeros(0, np.int64)]

    def add(self, *, id: Any) -> None:  # type: ignore[override]
        self.parts.append(integer_ids(id))


class _Reader:
    """Reads a stream, some of its ids at a time."""

    def __init__(
        self, name: str, paths: Sequence[str], columns: Mapping[str, Any], skip: bool, reading: Reading
    ) -> None:
        self.name, self.paths, self.columns = name, paths, columns
        self.settings: Any = {"skip_bad_rows": skip, "reading": reading}
        self.reading = reading
        self.keys = [each for each in columns if each.startswith("by ")]
        self.total = self.skipped = self.left_out = 0
        self.understood: Mapping[str, Sequence[str]] = {}
        self.nulls: Counter[str] = Counter()
        self.examples: list[str] = []
        self.incomplete: list[str] = []  # the files with skipped rows; the first pass finds them

    def parts(self, share: Share | None = None) -> Iterator[tuple[Read, Sequence[Mapping[str, Any]]]]:
        """A record of each file's data, and its pieces."""
        for path in self.paths:
            kept, read = evaluate_file(path, lambda: _Kept(self.keys), self.columns, share=share, **self.settings)
            yield read, kept.parts

    def rows(self, share: Share) -> _Rows:
        """The rows of a share; DataError if an id comes twice."""
        parts: list[Mapping[str, Any]] = []
        for read, pieces in self.parts(share):
            self.total += read.rows
            self.skipped += read.skipped
            facts = {name: kinds for name, kinds in read.understood.items() if name not in _OF_METRICS}
            self.understood = joined([self.understood, facts])
            self.left_out += read.left_out
            self.nulls.update({name: read.nulls.get(name, 0) for name in self.reading.may_lack})
            self.examples += read.examples
            self.incomplete += read.files if read.skipped else []
            parts += pieces
        ids = np.concatenate([np.zeros(0, np.int64), *(integer_ids(part["id"]) for part in parts)])
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            which = f"stream {self.name!r}, column {self.columns['id']!r}"
            raise DataError(f"{which}: {self.id_of(ids[twice[0]])!r} occurs twice; an id must name one row")
        width = len(self.columns["prediction"])
        values = np.concatenate([np.zeros((0, width)), *(part["prediction"] for part in parts)])[order]
        label = None
        if "label" in self.columns:
            label = np.concatenate([np.zeros(0), *(np.asarray(part["label"]) for part in parts)])[order]
        keys = [_keys_of([part[key] for part in parts], order) for key in self.keys]
        return _Rows(ids, self._skipped(share, ids), values, label, keys)

    def _skipped(self, share: Share, ids: np.ndarray) -> np.ndarray:
        """The ids of skipped rows, which are not missing: those of the incomplete files that are not among ``ids``."""
        found = [np.zeros(0, np.int64)]
        for path in self.incomplete:
            found += evaluate_file(path, _Ids, {"id": self.columns["id"]}, share=share, **self.settings).metrics.parts
        return np.setdiff1d(np.concatenate(found), ids)

    def id_of(self, number: int) -> Any:
        """The original id behind this integer; strings are looked up."""
        for _, pieces in self.parts():
            for part in pieces:
                found = np.flatnonzero(integer_ids(part["id"]) == number)
                if len(found):
                    ids = part["id"][found[:1]]
                    return (ids.texts() if isinstance(ids, Coded) else ids)[0].item()
        raise AssertionError(f"{number} is not the id of a row")


class _Comparison:
    """The steps between streams, and their values, from rows in shares."""

    def __init__(
        self, names: Sequence[str], tolerance: float, features: Sequence[str], by: Sequence[str], skip: bool
    ) -> None:
        self.names, self.tolerance, self.features, self.by, self.skip = names, tolerance, features, by, skip
        self.steps = [Step(*pair, features=dict.fromkeys(features, 0)) for pair in zip(names, names[1:])]
        self.slices: list[dict[str, dict[Any, StepSlice]]] = [{key: {} for key in by} for _ in self.steps]
        self.metrics = [MetricCollection({"auc": AUC(bounds=True), "calibration": Calibration()}) for _ in names]
        self.common = self.unmeasured = 0
        self.labeled = False

    def add(self, streams: Sequence[_Rows]) -> None:
        """Compare the rows of a share of the ids."""
        for step, slices, before, after in zip(self.steps, self.slices, streams, streams[1:]):
            here, there = _matched(before.ids, after.ids)
            one, other, both = before.ids, after.ids, len(here)
            if len(before.skipped) or len(after.skipped):
                one, other = (np.union1d(each.ids, each.skipped) for each in (before, after))
                both = len(_matched(one, other)[0])
            step.rows += len(here)
            step.missing += len(one) - both
            step.added += len(other) - both
            step.skipped += both - len(here)
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
        for place, feature in enumerate(self.features, 1):
            step.features[feature] += int(differ[:, place].sum())
        score = apart[:, 0]
        for digit in DIGITS:
            step.digits[digit] += int((score >= 10.0**-digit * (1 - 1e-9)).sum())  # 0.3 - 0.2 is below 0.1
        if len(score) and (score.max() > step.largest or step.example is None):
            step.largest, step.example = float(score.max()), int(ids[score.argmax()])
        self._add_odds(step, one[:, 0], other[:, 0])
        return differ[:, 0]

    @staticmethod
    def _add_odds(step: Step, one: np.ndarray, other: np.ndarray) -> None:
        if step.mean_log_odds is None or any(((each < 0) | (each > 1)).any() for each in (one, other)):
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
        self.labeled = True
        scores = [each.values[np.searchsorted(each.ids, first.ids[common]), 0] for each in streams]
        label = first.label[common]
        if self.skip:
            known = ~np.isnan(np.stack([label, *scores])).any(axis=0)
            self.unmeasured += int((~known).sum())
            label, scores = label[known], [each[known] for each in scores]
        for name, metrics, score in zip(self.names, self.metrics, scores):
            _check_fits(name, "label", label, (label == 0) | (label == 1), "0 or 1")
            _check_fits(name, "score", score, (score >= 0) & (score <= 1), "a number from 0 to 1")
            metrics.add(score, label)

    def result(self, readers: Sequence[_Reader]) -> ConsistencyResult:
        """The result, of all rows."""
        for step, slices, reader, after in zip(self.steps, self.slices, readers, readers[1:]):
            if not step.rows and step.skipped:
                raise DataError(
                    f"streams {step.before!r} and {step.after!r} have {counted(step.skipped, 'ids')} in common, all of "
                    f"skipped rows, such as {next(iter([*reader.examples, *after.examples]))}"
                )
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
        said = [
            f"{reader.name}: {counted(reader.skipped, 'rows', 'were')} skipped, and compared with nothing: "
            f"{reader.examples[0]}"
            for reader in readers
            if reader.skipped
        ]
        if self.unmeasured:
            lacking = "lack" if self.unmeasured != 1 else "lacks"
            rows = f"{counted(self.unmeasured, 'rows')} {lacking} a label or a score"
            said.append(f"{rows}, and {agreeing(self.unmeasured, 'count')} in neither auc nor calibration")
        for reader, metrics in zip(readers, self.metrics):
            values: Mapping[str, Any] = {}
            if self.labeled:
                with muted(UndefinedMetricWarning):  # nan says so
                    (auc, low, high), calibration = metrics.compute_local().values()
                values = {"auc": auc, "calibration": calibration}
                if high - low > _WIDE:
                    bounds = f"that of the scores themselves lies from {low:.6g} to {high:.6g}"
                    said.append(f"{reader.name}: {auc:.6g} is an area over buckets; {bounds}")
            counts = len(reader.paths), reader.total, reader.skipped, reader.left_out
            streams[reader.name] = Stream(
                *counts, nulls=dict(+reader.nulls), understood=facts_of(reader.understood), **values
            )
        paths = [whole_path(path) for reader in readers for path in reader.paths]
        return ConsistencyResult(streams, self.steps, self.tolerance, self.common, said, paths)


def _check_fits(stream: str, what: str, values: np.ndarray, fits: np.ndarray, allowed: str) -> None:
    """Raise DataError if AUC and calibration do not take some labels or scores of a stream."""
    if not fits.all():
        option, number = argument("label"), int((~fits).sum())
        raise DataError(
            f"stream {stream!r}: {what} {values[~fits][0]:g}, where {option} needs {allowed} ({number:,} of "
            f"{len(fits):,} rows); without {option}, scores of any kind are compared"
        )


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
    needed = rows * (_PER_ROW + _PER_COLUMN * columns)
    if needed > _MOST_PASSES * room:
        least = -(-needed // _MOST_PASSES)
        raise InvalidInputError(f"memory={memory} is too little for {rows:,} rows; give {least} bytes or more")
    return max(1, -(-needed // room))


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
