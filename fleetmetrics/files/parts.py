"""The results of files or of parts of the data, and their merge."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, Iterable, Mapping, NamedTuple, Sequence, TypeVar

from fleetmetrics.columns.understood import joined
from fleetmetrics.errors import DataError, FleetMetricsError, InvalidInputError
from fleetmetrics.support.checks import listed
from fleetmetrics.support.vocabulary import argument
from fleetmetrics.wrappers.sliced_states import KeyKindError

__all__ = ["EXAMPLES", "Evaluated", "Made", "Part", "Read", "Source", "as_one", "read_of", "together", "words_of"]

#: The type that a function makes, such as a metric.
Made = TypeVar("Made")

#: The number of skipped rows to describe.
EXAMPLES = 5
#: The bytes of metrics that may wait for a common merge.
_AT_ONCE = 1 << 24


class Source(NamedTuple):
    """The identity of a file that was read.

    Attributes:
        path: absolute.
        size: in bytes.
        digest: of the size, the first and the last 64 KiB.
        rows: its number of rows, skipped ones included.
    """

    path: str
    size: int
    digest: str
    rows: int


class Read(NamedTuple):
    """A record of the data read.

    Attributes:
        files: the files.
        rows: their number of rows, skipped ones included.
        nulls: the number of rows without a value, by column.
        skipped: the number of skipped rows.
        examples: some skipped rows, each with its file, place and defect.
        bad_files: the skipped files, each with the reason.
        sources: the files that were read, except for the standard input.
        left_out: the number of further rows that a condition has excluded.
        unmatched: the number of further rows with ids that the other side of a comparison lacks.
        understood: what labels, scores and whatever a reader inferred were taken as: by name, each kind that was seen.
        multiline: the number of rows of text that span several lines, because a value in quotes holds ends of lines.
    """

    files: tuple[str, ...] = ()
    rows: int = 0
    nulls: Mapping[str, int] = {}  # never changed
    skipped: int = 0
    examples: tuple[str, ...] = ()
    bad_files: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    left_out: int = 0
    unmatched: int = 0
    understood: Mapping[str, Sequence[str]] = {}  # never changed
    multiline: int = 0


def together(parts: Iterable[Read]) -> Read:
    """Join the records of several parts.

    Args:
        parts: in any order; the result has the files sorted, and the examples of the first files.
    """
    parts = listed("parts", parts, "Read")
    if not all(isinstance(part, Read) for part in parts):
        raise InvalidInputError(f"parts must be a list of Read, not {parts!r:.80}")
    parts = sorted(parts, key=lambda part: (part.files, part.examples))
    nulls = sum((Counter(part.nulls) for part in parts), Counter())
    return Read(
        tuple(file for part in parts for file in part.files),
        sum(part.rows for part in parts),
        dict(sorted(nulls.items())),
        sum(part.skipped for part in parts),
        tuple(example for part in parts for example in part.examples)[:EXAMPLES],
        tuple(sorted(bad for part in parts for bad in part.bad_files)),
        tuple(sorted(source for part in parts for source in part.sources)),
        sum(part.left_out for part in parts),
        sum(part.unmatched for part in parts),
        joined(part.understood for part in parts),
        sum(part.multiline for part in parts),
    )


def read_of(plain: Iterable[Any]) -> Read:
    """A record of the data read, from its JSON.

    Args:
        plain: its fields, with lists instead of tuples.
    """
    read = Read(*plain)
    return read._replace(
        files=tuple(read.files),
        examples=tuple(read.examples),
        bad_files=tuple(read.bad_files),
        sources=tuple(Source(*source) for source in read.sources),
        understood=joined([read.understood]),
    )


class _Evaluated(NamedTuple):
    metrics: Any
    read: Read


class Evaluated(_Evaluated, Generic[Made]):
    """Metrics, and a record of the data read for them.

    Attributes:
        metrics: the result of ``make_metrics``, with the samples of all files.
        read: files, rows, nulls, and skipped rows.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # it gives the metrics the type that ``make_metrics`` returns

        def __new__(_cls, metrics: Made, read: Read) -> Evaluated[Made]: ...  # noqa: D102
        @property
        def metrics(self) -> Made: ...  # noqa: D102


class Part(NamedTuple):
    """The result of some of the data."""

    metrics: Any = None  #: None: without usable rows
    reads: tuple[Read, ...] = ()
    errors: tuple[FleetMetricsError, ...] = ()  #: returned, not raised: engines would retry, or change the class


def as_one(parts: Iterable[Part], alike: bool = False) -> Part:
    """Merge several parts into the metrics of the first.

    Args:
        parts: some may have no metrics.
        alike: whether all metrics are copies of the same ones, so that their settings need not be compared.
    """
    held: Any = None
    waiting: list[Part] = []  # for small metrics, merging several at once is quicker
    size = 0.0
    reads: list[Read] = []
    errors: list[FleetMetricsError] = []
    for part in filter(None, parts):
        reads += part.reads
        errors += part.errors
        if held is None:
            held = part.metrics
        elif part.metrics is not None:
            waiting.append(part)
            size += part.metrics._nbytes
            if size > _AT_ONCE:
                _merge(held, waiting, alike)
                waiting, size = [], 0.0
        del part  # otherwise its metrics would be in memory while the next ones are made
    _merge(held, waiting, alike)
    return Part(held, tuple(reads), tuple(errors))


def _merge(held: Any, parts: Sequence[Part], alike: bool) -> None:
    """Merge parts into metrics; DataError names the files of a part that does not fit."""
    others = [part.metrics for part in parts]
    try:
        if others and alike:
            held._merge_alike(others)
        elif others:
            held.merge(others)
    except InvalidInputError as error:
        if len(parts) > 1:  # nothing was merged: find the part that does not fit
            for part in parts:
                _merge(held, [part], alike)
        paths = [path for read in parts[0].reads for path in read.files]
        where = ", ".join(paths[:3]) + (" and others" if paths[3:] else "")
        raise DataError(f"{where}: {words_of(error)}" if paths else words_of(error)) from None


def words_of(error: InvalidInputError) -> str:
    """An error of metrics, in words for files; for keys of two kinds it does not matter which metric met them."""
    if isinstance(error, KeyKindError):
        return f"{error.unnamed}; {argument('text', 'COLUMN')} makes both strings"
    return str(error)
