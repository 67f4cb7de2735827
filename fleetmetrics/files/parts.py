"""What was made of files, or of parts of the data, and several of these as one."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Mapping, NamedTuple

from fleetmetrics.arguments import listed
from fleetmetrics.errors import DataError, FleetMetricsError, InvalidInputError
from fleetmetrics.vocabulary import argument

__all__ = ["EXAMPLES", "Evaluated", "Part", "Read", "Source", "as_one", "read_of", "together"]

#: How many rows that were left out are described.
EXAMPLES = 5


class Source(NamedTuple):
    """A file that was read, so that it can be known again.

    Attributes:
        path: absolute.
        size: in bytes.
        digest: of the size, the first and the last 64 KiB.
        rows: how many rows it has, with those that were left out.
    """

    path: str
    size: int
    digest: str
    rows: int


class Read(NamedTuple):
    """What was read.

    Attributes:
        files: the files that were.
        rows: how many rows they have, with those that were left out.
        nulls: how many rows have no value in a column, by column.
        skipped: how many rows were left out.
        examples: some of these, each with its file, its place and what is wrong.
        bad_files: those that could not be used, and were left out, each with what is wrong.
        sources: the files that were read, but for the standard input.
        left_out: how many more rows they have, which a condition has left out.
        unmatched: how many more, whose ids the other side of a comparison lacks.
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


def together(parts: Iterable[Read]) -> Read:
    """What was read in several parts.

    Args:
        parts: in any order; the files are sorted, and the examples are those of the first.
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
    )


def read_of(plain: Iterable[Any]) -> Read:
    """What was read, of what JSON has made of it.

    Args:
        plain: its fields, with lists in the place of tuples.
    """
    read = Read(*plain)
    return read._replace(
        files=tuple(read.files),
        examples=tuple(read.examples),
        bad_files=tuple(read.bad_files),
        sources=tuple(Source(*each) for each in read.sources),
    )


class Evaluated(NamedTuple):
    """Metrics, and what was read for them.

    Attributes:
        metrics: what ``make_metrics`` makes, holding the samples of all files.
        read: files, rows, nulls, and rows that were left out.
    """

    metrics: Any
    read: Read


class Part(NamedTuple):
    """What was made of some of the data."""

    metrics: Any = None  #: None: of no rows, or of none that could be used
    reads: tuple[Read, ...] = ()
    errors: tuple[FleetMetricsError, ...] = ()  #: engines would try again, or change the kind, were they raised


def as_one(parts: Iterable[Part]) -> Part:
    """Several parts as one; the metrics of the first take up those of the others."""
    held: Any = None
    reads: list[Read] = []
    errors: list[FleetMetricsError] = []
    for metrics, its, wrong in filter(None, parts):
        reads += its
        errors += wrong
        if held is None:
            held = metrics
        elif metrics is not None:
            try:
                held.merge(metrics)
            except InvalidInputError as error:
                paths = [path for read in its for path in read.files]
                where = f"{', '.join(paths[:3])}{' and others' if paths[3:] else ''}: " if paths else ""
                raise DataError(f"{where}{error}; {argument('text', 'COLUMN')} makes texts of both") from None
        del metrics  # or it would be in memory while the next one is made
    return Part(held, tuple(reads), tuple(errors))
