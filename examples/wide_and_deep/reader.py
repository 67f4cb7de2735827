"""The data of the example: rows in, features out. Nothing here knows Paddle.

A *source* (`RandHealth`, `Criteo`) yields rows; `read` splits them and turns one worker's share into arrays:

- the side of a row (training or held out) depends on its covariates alone, so that the years of one person,
  or two identical impressions, are never on both sides, for any number of workers;
- the rows of each side are dealt to the workers in turn, and a worker parses only its own.

Every hash is CRC-32, which is the same in every process; Python's `hash` of a string is not.
"""

from __future__ import annotations

import math
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

TABLE_ROWS = 1 << 20
"""Categories are hashed into this many ids."""
HELD_OUT_IN = 5
"""One row in five is held out."""

SCALES = {
    "lncoins": (1.774, 1.983),
    "idp": (0.260, 0.439),
    "lpi": (4.708, 2.698),
    "fmde": (4.030, 3.471),
    "physlm": (0.124, 0.322),
    "disea": (11.244, 6.741),
    "hlthg": (0.362, 0.481),
    "hlthf": (0.077, 0.267),
    "hlthp": (0.015, 0.121),
}
"""Covariates of the RAND data with mean and standard deviation, rounded: they only bring them to one scale."""
EDGES = {
    "lncoins": (1.0, 3.5, 4.2, 4.6),
    "lpi": (1.0, 5.0, 5.7, 6.1, 6.12, 6.55, 6.8, 6.9),
    "fmde": (1.0, 6.0, 6.16, 6.95, 7.9),
    "physlm": (0.01, 0.5),
    "disea": (3.0, 6.0, 9.0, 10.0, 10.4, 11.0, 12.0, 13.75, 17.0, 25.0),
}
"""Buckets of those that are more than a yes or no: quantiles, rounded."""

INTEGERS = tuple(f"I{i}" for i in range(1, 14))
CATEGORIES = tuple(f"C{i}" for i in range(1, 27))
FIELDS = ("label", *INTEGERS, *CATEGORIES)
"""The fields of a Criteo line; the data set does not name them."""


class DataError(Exception):
    """The data cannot be used; the message says where, what was found and what is allowed."""


@dataclass(frozen=True)
class Layout:
    """How many columns a row has: numbers, ids of the wide part, ids of the deep part."""

    dense: int
    wide: int
    deep: int


class Features(NamedTuple):
    """One row, parsed: the label, the numbers, and the ids of categories, buckets and crosses."""

    label: int
    dense: Sequence[float]
    wide: Sequence[int]
    deep: Sequence[int]


class Source(Protocol):
    """Rows of one data set, always in the same order."""

    layout: Layout

    def rows(self) -> Iterator[tuple[bytes, Any]]:
        """Yield (covariates as bytes, record) for every row of the data set."""

    def parse(self, record: Any) -> Features:
        """Turn a record into features; raise `DataError` if it cannot be read."""


@dataclass(frozen=True)
class Samples:
    """Parsed rows as arrays: label [n, 1], dense [n, d] float32, wide [n, w] and deep [n, e] int64."""

    label: np.ndarray
    dense: np.ndarray
    wide: np.ndarray
    deep: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Features], layout: Layout) -> Samples:
        """Stack rows; there may be none."""

        def table(column: str, width: int, dtype: type) -> np.ndarray:
            return np.array([getattr(row, column) for row in rows], dtype).reshape(len(rows), width)

        return cls(
            label=table("label", 1, np.int64),
            dense=table("dense", layout.dense, np.float32),
            wide=table("wide", layout.wide, np.int64),
            deep=table("deep", layout.deep, np.int64),
        )

    def __len__(self) -> int:
        return len(self.label)

    def batches(self, size: int, order: np.ndarray | None = None) -> Iterator[dict[str, np.ndarray]]:
        """Yield feeds of at most `size` rows, in the given order."""
        order = np.arange(len(self)) if order is None else order
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield {name: column[rows] for name, column in vars(self).items()}


@dataclass(frozen=True)
class Share:
    """What one worker reads: its training rows and its held-out rows."""

    train: Samples
    held_out: Samples


def read(source: Source, rank: int, workers: int) -> Share:
    """Split the source and parse the share of one worker.

    Raises:
        DataError: a row of the share cannot be read, or a side has fewer rows than there are workers.
    """
    counts = [0, 0]
    shares: tuple[list[Features], list[Features]] = ([], [])
    for covariates, record in source.rows():
        side = is_held_out(covariates)
        if counts[side] % workers == rank:
            shares[side].append(source.parse(record))
        counts[side] += 1
    for name, count in zip(("training", "held-out"), counts):
        if count < workers:
            raise DataError(f"{count} {name} rows for {workers} workers: every worker needs at least one")
    return Share(*(Samples.of(rows, source.layout) for rows in shares))


def is_held_out(covariates: bytes) -> bool:
    """Which side of the split a row is on."""
    return zlib.crc32(covariates) % HELD_OUT_IN == 0


def ids(tokens: Sequence[str]) -> list[int]:
    """The ids of named categories: their rows in the embedding tables."""
    return [zlib.crc32(token.encode()) % TABLE_ROWS for token in tokens]


def cross(*tokens: str) -> str:
    """The category of a combination of categories."""
    return "&".join(tokens)


class RandHealth:
    """The RAND Health Insurance Experiment, as it ships with statsmodels: 20,190 person-years, public domain.

    The label says whether the person saw a doctor within the year (`mdvis` > 0). The columns are documented at
    https://www.statsmodels.org/stable/datasets/generated/randhie.html
    """

    layout = Layout(dense=9, wide=12, deep=7)

    def rows(self) -> Iterator[tuple[bytes, tuple[int, dict[str, float]]]]:
        from statsmodels.datasets import randhie

        frame = randhie.load_pandas().data
        visits = frame["mdvis"].to_numpy()
        covariates = frame[list(SCALES)].to_numpy("<f8")
        for count, row in zip(visits, covariates):
            yield row.tobytes(), (int(count > 0), dict(zip(SCALES, row.tolist())))

    def parse(self, record: tuple[int, dict[str, float]]) -> Features:
        label, row = record
        dense = [(row[name] - mean) / deviation for name, (mean, deviation) in SCALES.items()]
        bucket = {name: f"{name}={bisect_right(edges, row[name])}" for name, edges in EDGES.items()}
        plan = f"idp={row['idp']:.0f}"
        health = f"health={row['hlthg']:.0f}{row['hlthf']:.0f}{row['hlthp']:.0f}"
        deep = [*bucket.values(), plan, health]
        crosses = [
            cross(bucket["lncoins"], plan),
            cross(bucket["lpi"], plan),
            cross(bucket["lpi"], bucket["physlm"]),
            cross(bucket["disea"], bucket["physlm"]),
            cross(bucket["disea"], health),
        ]
        return Features(label, dense, wide=ids([*deep, *crosses]), deep=ids(deep))


class Line(NamedTuple):
    """A line of a file, with what an error message has to say about it."""

    path: Path
    number: int
    fields: list[bytes]


class Criteo:
    """Criteo display advertising: TSV files of a label, 13 integers and 26 hexadecimal categories.

    Any integer or category may be empty. https://ailab.criteo.com/ressources/
    """

    layout = Layout(dense=len(INTEGERS), wide=len(FIELDS) - 1, deep=len(FIELDS) - 1)

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def rows(self) -> Iterator[tuple[bytes, Line]]:
        for path in self.paths:
            number = 0
            try:
                with path.open("rb") as file:
                    for number, text in enumerate(file, start=1):
                        fields = text.rstrip(b"\r\n").split(b"\t")
                        yield b"\t".join(fields[1:]), Line(path, number, fields)
            except OSError as error:
                raise DataError(f"{path}: cannot be read: {error.strerror}") from error
            if number == 0:
                raise DataError(f"{path}: the file is empty; one line per impression is expected")

    def parse(self, record: Line) -> Features:
        found, expected = len(record.fields), len(FIELDS)
        if found != expected:
            raise DataError(
                f"{record.path}, line {record.number}: {found} fields; allowed: {expected}, separated by tabs "
                "(label, 13 integers, 26 hexadecimal categories)"
            )
        label = int(self._field(record, 0, rb"[01]", "0 or 1"))
        integers = [
            self._field(record, i, rb"(-?[0-9]{1,18})?", "an integer of at most 18 digits, or nothing")
            for i in range(1, 14)
        ]
        categories = [
            self._field(record, i, rb"[0-9a-fA-F]*", "a hexadecimal number, or nothing") for i in range(14, 40)
        ]
        tokens = [f"{name}={_magnitude(value)}" for name, value in zip(INTEGERS, integers)]
        tokens += [f"{name}={value}" for name, value in zip(CATEGORIES, categories)]
        hashed = ids(tokens)
        return Features(label, [_log(value) for value in integers], wide=hashed, deep=hashed)

    def _field(self, line: Line, index: int, pattern: bytes, allowed: str) -> str:
        value = line.fields[index]
        if not re.fullmatch(pattern, value):
            shown = value[:40].decode(errors="backslashreplace")
            raise DataError(
                f"{line.path}, line {line.number}, field {index + 1} ({FIELDS[index]}): {shown!r}; allowed: {allowed}"
            )
        return value.decode()


def _log(value: str) -> float:
    """A count on a logarithmic scale; an empty field counts as zero."""
    number = int(value or 0)
    return math.copysign(math.log1p(abs(number)), number)


def _magnitude(value: str) -> str:
    """The bucket of a count: its sign and its number of binary digits; an empty field is a bucket of its own."""
    return f"{'-' if value.startswith('-') else ''}{int(value).bit_length()}" if value else "none"
