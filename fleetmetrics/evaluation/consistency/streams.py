"""Compare streams of predictions, such as training and serving, row by row."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from dataclasses import replace
from typing import Any, Callable, Literal, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.base.metric import Metric
from fleetmetrics.batch.keys import NULL, distinct
from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.reading import StreamReading
from fleetmetrics.columns.understood import facts_of, joined
from fleetmetrics.errors import DataError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluation.arguments.option_checks import texts
from fleetmetrics.evaluation.consistency.consistency_result import (
    DIGITS,
    ODDS,
    ConsistencyResult,
    Step,
    StepSlice,
    Stream,
)
from fleetmetrics.evaluation.consistency.id_shares import IdPlaces, IdShares
from fleetmetrics.files import evaluate_file, find, memory_of
from fleetmetrics.files.formats import FORMATS, rows_of
from fleetmetrics.files.places import whole_path
from fleetmetrics.formulas.sums import exact_sum
from fleetmetrics.metrics.auc import AUC
from fleetmetrics.metrics.click_through import Calibration
from fleetmetrics.support.checks import choice_of, flag_of, knows_its_arguments, number_of
from fleetmetrics.support.vocabulary import agreeing, argument, counted
from fleetmetrics.support.warning import muted

__all__ = ["consistency"]

#: What is understood for metrics, by their requirements; streams are compared as they are.
_OF_METRICS = ("label", "score")
#: The bytes of a row of one stream during the comparison, without those of further columns.
_PER_ROW, _PER_COLUMN = 96, 16
#: The most shares of the ids: each piece of a file has rows in all of them. And the rows of a share where memory
#: is ample: joining more at once takes longer, and the join itself takes memory.
_MOST_SHARES, _ROWS_OF_SHARE = 1000, 1 << 19
#: The result says so where buckets leave an area open by more than this.
_WIDE = 0.01


# `make names` writes the arguments between ``skip_bad_rows`` and ``memory``, and their descriptions, from `Options`.
@knows_its_arguments
def consistency(
    streams: Mapping[str, Any],
    *,
    join_on: str | Mapping[str, str],
    score: str | Mapping[str, str],
    label: str | None = None,
    by: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    tolerance: float = 1e-6,
    skip_bad_rows: bool = False,
    where: str | None = None,
    text: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    quote: Literal["none", '"', "'"] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    null: str | Sequence[str] = (),
    format: Literal["parquet", "npz", "arrow", "jsonl", "libsvm", "csv"] | None = None,
    memory: int | None = None,
) -> ConsistencyResult:
    r"""Check that two or more streams give the same rows the same scores: training, serving, or each step between.

    Rows are joined by their ids. Each stream is compared with the one before it, so give them in the order of the
    data flow. A feature that is null, or nan, on one side only is a difference, like a score that is nan. If the rows
    do not fit into memory together, they wait in files of the folder for temporary files.

    Args:
        streams: files by name, as `fleetmetrics.files.find` takes them.
        join_on: the column of a row's id, integers or strings, unique in a stream; a dict: by stream.
        score: the column of the prediction; a dict: by stream.
        label: the column of the label in the first stream, 0 or 1; None: no AUC and calibration.
        by: columns of the first stream, to slice by.
        features: further columns of numbers in every stream; those that differ are counted. Rows may lack a value.
        tolerance: how far apart two scores may be, times the larger of 1 and their size.
        skip_bad_rows: whether to skip and count rows that cannot be read: without an id or a score, or with an invalid
            value. Rows without a label are compared, and count in neither AUC nor calibration. False: an error.
        where: a condition on rows, such as ``"day = '2026-11-01' and n > 3"``; other rows are skipped and counted.
        text: columns of keys that CSV keeps as strings: 007 is "007".
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
        ...     {"train": folder + "/train.npz", "serving": folder + "/serving.npz"}, join_on="id", score="p"
        ... )
        >>> result.departs, result.steps[0].digits[3], result.steps[0].example
        ('serving', 1, 1)
    """
    if not isinstance(streams, Mapping) or len(streams) < 2 or not all(isinstance(name, str) for name in streams):
        raise InvalidInputError(f"streams must be a dict of two or more streams, files by name, not {streams!r:.80}")
    features, by = texts("features", features), texts("by", by)
    number_of(argument("tolerance"), tolerance, 0, allowed="a number of at least 0")
    ids, scores = _by_stream("join_on", join_on, list(streams)), _by_stream("score", score, list(streams))
    flag_of(argument("skip_bad_rows"), skip_bad_rows)
    if label is not None and not isinstance(label, str):
        raise InvalidInputError(f"{argument('label')} must be the name of a column, or None, not {label!r:.80}")
    reading = StreamReading(
        header=columns,
        text=texts("text", text),
        where=where,
        quote=quote,
        separator=separator,
        encoding=encoding,
        null=null,
        format=choice_of(argument("format"), format, (None, *FORMATS)),
    )
    reading.check_texts([*ids.values(), *by])
    arguments: dict[str, dict[str, Any]] = {
        name: {"prediction": [scores[name], *features], "id": ids[name]} for name in streams
    }
    arguments[next(iter(streams))].update(_of_first_stream(by, label))
    readers = [_Reader(name, find(files), arguments[name], skip_bad_rows, reading) for name, files in streams.items()]
    number, fit = _shares_of(readers, len(features) + len(by), memory)
    comparison = _Comparison(readers, tolerance, features, by)
    with contextlib.nullcontext() if fit else tempfile.TemporaryDirectory(prefix="fleetmetrics-") as folder:
        comparison.read(number, folder)
    return comparison.result()


class _Rows(NamedTuple):
    """The rows of a stream in one share of the ids."""

    ids: Any  #: an Arrow column
    values: np.ndarray  #: ``[rows, columns]``; the first is the score
    label: np.ndarray
    keys: Sequence[np.ndarray]  #: of each column of slices, the places of the rows' keys among `_Reader.keys`
    ids_met: Any  #: an Arrow column with the ids of rows that were skipped, and perhaps of others


class _RowSink(Metric):
    """Hands the rows of files over, instead of adding them up."""

    def __init__(self, take: Callable[[Any], None], slots: Mapping[str, dict[Any, int]]) -> None:
        super().__init__()
        self.columns, self.nullable = ("id", *slots), tuple(slots)
        self.take, self.slots = take, slots

    def add(self, prediction: Any, label: Any = None, *, id: Any, **keys: Any) -> None:  # type: ignore[override]
        pa = arrow()
        columns = {f"value {place}": np.asarray(values, np.float64) for place, values in enumerate(prediction.T)}
        if label is not None:
            columns["label"] = np.asarray(label, np.float64)
        columns.update({name: _codes_of(column, self.slots[name]) for name, column in keys.items()})
        self.take(pa.table({"id": id, **{name: pa.array(values) for name, values in columns.items()}}))


class _IdSink(Metric):
    """Hands the ids of files over."""

    columns = ("id",)
    takes_label = False

    def __init__(self, take: Callable[[Any], None]) -> None:
        super().__init__()
        self.take = take

    def add(self, *, id: Any) -> None:  # type: ignore[override]
        self.take(arrow().table({"id": id}))


class _Reader:
    """Reads a stream once, into shares of its ids."""

    def __init__(
        self, name: str, paths: Sequence[str], columns: Mapping[str, Any], skip: bool, reading: StreamReading
    ) -> None:
        self.name, self.paths, self.columns = name, paths, columns
        score, *features = columns["prediction"]
        lacking = [column for column in features if column not in (columns["id"], score)]
        if skip and "label" in columns:
            lacking.append(columns["label"])
        named_by = {columns[name]: name.partition(" ")[0] for name in columns if name != "prediction"}
        named_by = {**dict.fromkeys(features, "features"), **named_by, score: "score", columns["id"]: "join_on"}
        self.reading = replace(reading, lacking=lacking, arguments=named_by)
        self.settings: Any = {"skip_bad_rows": skip, "reading": self.reading}
        #: By argument of a column of slices, the place of each key; None is that of rows without one.
        self.keys: dict[str, dict[Any, int]] = {column: {} for column in columns if column.startswith("by ")}
        self.total = self.skipped = self.left_out = 0
        self.understood: Mapping[str, Sequence[str]] = {}
        self.nulls: Counter[str] = Counter()
        self.examples: list[str] = []

    def read(self, number: int, folder: str | None) -> None:
        """Read all files into shares.

        Args:
            number: of shares.
            folder: where they go; None: they stay in memory.
        """
        columns = {f"value {place}": "double" for place in range(len(self.columns["prediction"]))}
        columns.update({name: "double" for name in self.columns if name == "label"})
        self.shares = IdShares(number, folder, {**columns, **dict.fromkeys(self.keys, "int64")})
        self.met = IdShares(number, folder, {})
        for path in self.paths:
            read = evaluate_file(path, lambda: _RowSink(self.shares.add, self.keys), self.columns, **self.settings).read
            self.total += read.rows
            self.skipped += read.skipped
            facts = {name: kinds for name, kinds in read.understood.items() if name not in _OF_METRICS}
            self.understood = joined([self.understood, facts])
            self.left_out += read.left_out
            self.nulls.update({name: read.nulls.get(name, 0) for name in self.reading.may_lack})
            self.examples += read.examples
            if read.skipped:  # their ids are not missing; those of rows without one are unknown
                evaluate_file(path, lambda: _IdSink(self.met.add), {"id": self.columns["id"]}, **self.settings)

    @property
    def kinds(self) -> set[str]:
        """The Arrow types of the ids."""
        return self.shares.kinds | self.met.kinds

    def rows(self, kind: str, share: int) -> _Rows:
        """The rows of a share, whose ids have this Arrow type."""
        table = self.shares.take(kind, share)
        columns = {name: table[name].to_numpy() for name in table.column_names if name != "id"}
        values = np.stack([column for name, column in columns.items() if name.startswith("value ")], axis=1)
        keys = [columns[name] for name in self.keys]
        label = columns.get("label", np.full(len(values), np.nan))
        return _Rows(table["id"], values, label, keys, self.met.take(kind, share)["id"])

    def stream(self, auc: float | None, calibration: float | None) -> Stream:
        """What the result says of the stream, with the values of its metrics."""
        counts = len(self.paths), self.total, self.skipped, self.left_out
        return Stream(*counts, auc, calibration, dict(+self.nulls), facts_of(self.understood))


class _Comparison:
    """The steps between streams, and their values, from rows in shares."""

    def __init__(
        self, readers: Sequence[_Reader], tolerance: float, features: Sequence[str], by: Sequence[str]
    ) -> None:
        names = [reader.name for reader in readers]
        self.readers, self.tolerance, self.features, self.by = readers, tolerance, features, by
        self.steps = [Step(*pair, features=dict.fromkeys(features, 0)) for pair in zip(names, names[1:])]
        self.slices: list[dict[str, dict[Any, StepSlice]]] = [{key: {} for key in by} for _ in self.steps]
        self.metrics = [MetricCollection({"auc": AUC(bounds=True), "calibration": Calibration()}) for _ in names]
        self.log_odds: list[list[float]] = [[] for _ in self.steps]  # of each step, terms of the sum
        self.common = self.unmeasured = 0
        self.labeled = False

    def read(self, number: int, folder: str | None) -> None:
        """Read all streams, and compare them; the arguments are those of `_Reader.read`."""
        for reader in self.readers:
            reader.read(number, folder)
        for kind in sorted({kind for reader in self.readers for kind in reader.kinds}):
            for share in range(number):
                self.add([reader.rows(kind, share) for reader in self.readers])

    def add(self, streams: Sequence[_Rows]) -> None:
        """Compare the rows of a share of the ids."""
        number = len(streams)
        ids, places, counts = IdPlaces.of(
            [*(stream.ids for stream in streams), *(stream.ids_met for stream in streams)]
        )
        self._check_once(ids, counts)
        there = [place >= 0 for place in places[:number]]
        met = [rows | (place >= 0) for rows, place in zip(there, places[number:])]
        for at, step in enumerate(self.steps):
            rows = np.flatnonzero(there[at] & there[at + 1])
            step.rows += len(rows)
            step.missing += int((met[at] & ~met[at + 1]).sum())
            step.added += int((met[at + 1] & ~met[at]).sum())
            step.skipped += int((met[at] & met[at + 1]).sum()) - len(rows)
            before, after = (
                streams[stream_number].values[places[stream_number][rows]] for stream_number in (at, at + 1)
            )
            differ = self._compare(step, ids, rows, before, after)
            self._add_odds(step, self.log_odds[at], before[:, 0], after[:, 0])
            first = places[0][rows]  # whose keys are those of the slices
            keyed = first >= 0
            for by, column, codes in zip(self.by, self.readers[0].keys.values(), streams[0].keys):
                _tally(self.slices[at][by], list(column), codes[first[keyed]], differ[keyed])
        self._evaluate(streams, places, np.logical_and.reduce(there))

    def _check_once(self, ids: Any, counts: Sequence[np.ndarray]) -> None:
        """Raise DataError if an id comes twice in a stream."""
        for reader, count in zip(self.readers, counts):
            twice = np.flatnonzero(count > 1)
            if len(twice):
                which = f"stream {reader.name!r}, column {reader.columns['id']!r}"
                raise DataError(f"{which}: {_least(ids, twice)!r} occurs twice; an id must name one row")

    def _compare(self, step: Step, ids: Any, rows: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
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
        largest = float(score.max(initial=-1))
        if len(rows) and (step.example is None or largest >= step.largest):
            example = _least(ids, rows[score == largest])
            if step.example is None or largest > step.largest or _is_before(example, step.example):
                step.largest, step.example = largest, example
        return differ[:, 0]

    @staticmethod
    def _add_odds(step: Step, terms: list[float], one: np.ndarray, other: np.ndarray) -> None:
        if step.mean_log_odds is None or any(((scores < 0) | (scores > 1)).any() for scores in (one, other)):
            step.mean_log_odds, step.odds = None, {}
            return
        with np.errstate(divide="ignore"):
            apart = _distance(*(np.log(scores) - np.log1p(-scores) for scores in (one, other)))
        for distance in ODDS:
            step.odds[distance] += int((apart >= distance).sum())
        total = exact_sum(apart)  # two terms, so that the sum of all shares does not depend on their number
        terms += [total, exact_sum(np.append(apart, -total))] if math.isfinite(total) else [total]

    def _evaluate(self, streams: Sequence[_Rows], places: Sequence[np.ndarray], common: np.ndarray) -> None:
        """Add the rows that all streams have."""
        rows = np.flatnonzero(common)
        self.common += len(rows)
        if "label" not in self.readers[0].columns or not len(rows):
            return
        self.labeled = True
        rows = rows[np.argsort(places[0][rows])]  # in the order of the first stream: each run gives the same bits
        scores = [stream.values[place[rows], 0] for stream, place in zip(streams, places)]
        label = streams[0].label[places[0][rows]]
        known = ~np.isnan(np.stack([label, *scores])).any(axis=0)
        if self.readers[0].settings["skip_bad_rows"]:
            self.unmeasured += int((~known).sum())
            label, scores = label[known], [score[known] for score in scores]
        for reader, metrics, score in zip(self.readers, self.metrics, scores):
            _check_fits(reader.name, "label", label, (label == 0) | (label == 1), "0 or 1")
            _check_fits(reader.name, "score", score, (score >= 0) & (score <= 1), "a number from 0 to 1")
            metrics.add(score, label)

    def result(self) -> ConsistencyResult:
        """The result, of all rows."""
        readers = self.readers
        for step, slices, terms, *sides in zip(self.steps, self.slices, self.log_odds, readers, readers[1:]):
            _check_common(step, [example for reader in sides for example in reader.examples])
            if step.mean_log_odds is not None:
                step.mean_log_odds = math.fsum(terms) / step.rows
            step.slices = {
                by: sorted(by_key.values(), key=lambda slice_: (-slice_.share, -slice_.rows, str(slice_.key)))
                for by, by_key in slices.items()
            }
        streams, warnings = {}, self._warnings_of_rows()
        for reader, metrics in zip(readers, self.metrics):
            auc = calibration = None
            if self.labeled:
                with muted(UndefinedMetricWarning):  # nan says so
                    (auc, low, high), calibration = metrics.compute_local().values()
                if high - low > _WIDE:
                    bounds = f"that of the scores themselves lies from {low:.6g} to {high:.6g}"
                    warnings.append(f"{reader.name}: {auc:.6g} is an area over buckets; {bounds}")
            streams[reader.name] = reader.stream(auc, calibration)
        paths = [whole_path(path) for reader in readers for path in reader.paths]
        return ConsistencyResult(streams, self.steps, self.tolerance, self.common, warnings, paths)

    def _warnings_of_rows(self) -> list[str]:
        """Which rows count nowhere, or not in every number."""
        warnings = [
            f"{reader.name}: {counted(reader.skipped, 'rows', 'were')} skipped, and compared with nothing: "
            f"{reader.examples[0]}"
            for reader in self.readers
            if reader.skipped
        ]
        if self.unmeasured:
            lacking = "lack" if self.unmeasured != 1 else "lacks"
            rows = f"{counted(self.unmeasured, 'rows')} {lacking} a label or a score"
            warnings.append(f"{rows}, and {agreeing(self.unmeasured, 'count')} in neither auc nor calibration")
        return warnings


def _check_common(step: Step, examples: Sequence[str]) -> None:
    """Raise DataError unless both streams have some rows in common; ``examples``: of rows that were skipped."""
    if step.rows:
        return
    streams = f"streams {step.before!r} and {step.after!r} have"
    if step.skipped:
        raise DataError(
            f"{streams} {counted(step.skipped, 'ids')} in common, all of skipped rows, such as {examples[0]}"
        )
    raise DataError(f"{streams} no id in common: are these the same ids, in the same form?")


def _check_fits(stream: str, what: str, values: np.ndarray, fits: np.ndarray, allowed: str) -> None:
    """Raise DataError if AUC and calibration do not take some labels or scores of a stream."""
    if not fits.all():
        option, number = argument("label"), int((~fits).sum())
        raise DataError(
            f"stream {stream!r}: {what} {values[~fits][0]:g}, where {option} needs {allowed} ({number:,} of "
            f"{len(fits):,} rows); without {option}, scores of any kind are compared"
        )


def _of_first_stream(by: Sequence[str], label: str | None) -> dict[str, str]:
    """The columns that only the first stream has, by argument: the slices and the label are its own."""
    columns = {f"by {place}": column for place, column in enumerate(by)}
    return columns if label is None else {**columns, "label": label}


def _by_stream(name: str, columns: Any, names: Sequence[str]) -> dict[str, str]:
    """A column for each stream."""
    by_stream = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(names, columns)
    if set(by_stream) != set(names) or not all(isinstance(column, str) for column in by_stream.values()):
        one_each = f"a dict of one for each of {', '.join(map(repr, names))}"
        raise InvalidInputError(f"{argument(name)} must be the name of a column, or {one_each}; not {columns!r:.80}")
    return by_stream


def _shares_of(readers: Sequence[_Reader], columns: int, memory: int | None) -> tuple[int, bool]:
    """The number of shares of the ids, each of which fits into memory; and whether all together do."""
    room = memory_of(memory)
    if any("-" in reader.paths for reader in readers):
        raise InvalidInputError("streams are read several times; the standard input can be read only once")
    try:
        rows = sum(rows_of(path) for reader in readers for path in reader.paths)
    except OSError as error:
        raise DataError(str(error)) from None
    needed = rows * (_PER_ROW + _PER_COLUMN * columns)
    if needed > _MOST_SHARES * room:
        least = -(-needed // _MOST_SHARES)
        raise InvalidInputError(f"memory={memory} is too little for {rows:,} rows; give {least} bytes or more")
    return max(1, -(-needed // room), min(_MOST_SHARES, rows // _ROWS_OF_SHARE)), needed <= room


def _codes_of(column: Any, places: dict[Any, int]) -> np.ndarray:
    """The place of each row's key, which gets one if it is new."""
    values, codes = distinct(column)
    keys = (None if key in NULL.values() else key for key in values.tolist())
    return np.array([places.setdefault(key, len(places)) for key in keys], np.int64)[codes]


def _tally(slices: dict[Any, StepSlice], keys: Sequence[Any], codes: np.ndarray, differ: np.ndarray) -> None:
    """Count the rows of each key, and those of them whose scores differ."""
    rows, differing = (np.bincount(places, minlength=len(keys)).tolist() for places in (codes, codes[differ]))
    for key, number, apart in zip(keys, rows, differing):
        if number:
            slot = slices.setdefault(key, StepSlice(key))
            slot.rows += number
            slot.differ += apart


def _least(ids: Any, rows: np.ndarray) -> Any:
    """The first of some ids, by value."""
    return arrow("compute").min(ids.take(arrow().array(rows))).as_py()


def _is_before(one: Any, other: Any) -> bool:
    """Whether an id is less than another one; integers and strings have no order."""
    return type(one) is type(other) and bool(one < other)


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far apart numbers are: two nan, or equal infinities, not at all; nan and a number infinitely."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
    alike = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(alike, 0.0, np.where(np.isnan(apart), np.inf, apart))
