"""Metrics on Spark, Ray and Dask: what their tasks do, and how the parts that they send become one.

A task reads its file, or takes a partition of a frame, adds it to metrics and sends these: states travel, samples do
not. Parts are merged in a tree, by tasks again; every sum is rounded once: the same bits on each engine, in each run.
"""

from __future__ import annotations

import copy
import os
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.dataframes import Columns, arrow
from fleetmetrics.errors import FleetMetricsError, InvalidInputError
from fleetmetrics.files import Evaluated, evaluate_file, find, together
from fleetmetrics.files.one_file import of_tables
from fleetmetrics.files.parts import Part, as_one
from fleetmetrics.files.row_pieces import gathered
from fleetmetrics.partial import closed_by

__all__ = ["WAY", "Part", "Plan", "joined", "paths_of", "tree"]

#: How many parts one task merges.
WAY = 16


def joined(parts: Iterable[Part]) -> Part:
    """Several parts as one; they stay as they are, for a task may run again."""
    try:
        return as_one(map(copy.deepcopy, parts))
    except FleetMetricsError as error:
        return Part(errors=(error,))


def paths_of(files: Any) -> list[str]:
    """The files, as tasks find them too, which may run in another folder."""
    return [os.path.abspath(path) for path in find(files)]


def tree(parts: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """One of the parts that tasks will make; ``join`` makes a task that joins a few of them."""
    while len(parts) != 1:
        parts = [join(parts[start : start + WAY]) for start in range(0, max(len(parts), 1), WAY)]
    return parts[0]


class Plan:
    """What the tasks are to do; the arguments are those of each engine's ``evaluate``."""

    empty: Any
    columns: dict[str, Any]
    skip: bool
    complete_by: str | None
    totals: Any
    names: list[str]
    by_range: bool
    bounds: list[Any]

    def __init__(
        self,
        make_metrics: Callable[[], Any],
        columns: Mapping[str, Any],
        complete_by: str | None,
        totals: Any,
        skip_bad_rows: bool,
    ) -> None:
        self.empty, self.columns, self.skip = make_metrics(), dict(columns), skip_bad_rows
        self.complete_by, self.totals = complete_by, totals
        self._wanted = Columns(self.empty, self.columns)
        self.names = self._wanted.names
        self._closed(copy.deepcopy(self.empty))  # an error here comes at once
        #: Whether a frame is divided into ranges of scores.
        self.by_range = complete_by == "score"
        first = closed_by(totals, "score")["ranges"] if self.by_range and totals is not None else []
        #: Where the ranges of the first pass begin, but for the lowest: those of this pass must be the same.
        self.bounds = [low for low, *_ in first[1:]]
        kept = [metric.name for metric in self.empty.record_metrics()]
        if kept and complete_by is None:
            raise InvalidInputError(
                f"{', '.join(kept)}: keeps every sample, and samples do not leave a task; say what a file, or a "
                'partition, has all samples of: complete_by="user"'
            )

    def _closed(self, metrics: Any) -> Any:
        if self.complete_by is not None:
            metrics.close(self.complete_by, totals=self.totals)
        return metrics

    def _made(self, evaluate: Callable[[Any], Evaluated]) -> Part:
        try:
            metrics, read = evaluate(copy.deepcopy(self.empty))
            return Part(self._closed(metrics) if read.rows else None, (read,))
        except FleetMetricsError as error:
            return Part(errors=(error,))

    def of_file(self, path: str) -> Part:
        """A task: what a file gives."""
        return self._made(lambda new: evaluate_file(path, lambda: new, self.columns, skip_bad_rows=self.skip))

    def of_batches(self, batches: Iterable[Any]) -> Part:
        """A task: what Arrow batches, or tables, of a partition give; their columns are ``names``, in this order."""
        tables: Iterable[Any] = (piece.table.rename_columns(self.names) for piece in gathered(batches))
        name = "a partition of the frame"
        return joined(
            self._made(lambda new, some=some: of_tables(some, new, self.columns, self.skip, name))  # type: ignore[misc]
            for some in self._in_ranges(tables)
        )

    def _in_ranges(self, tables: Iterable[Any]) -> Iterable[Iterable[Any]]:
        """The tables of each range of the first pass that a partition has; without one all are in one."""
        if not self.bounds:
            return [tables]
        found: dict[int, list[Any]] = {}
        for table in tables:
            place = np.searchsorted(self.bounds, table.column(self.columns["prediction"]).to_numpy(), "right")
            for each in np.unique(place).tolist():
                found.setdefault(each, []).append(table.filter(arrow().array(place == each)))
        return found.values()

    def divided_by(self, there: Sequence[str]) -> str:
        """The column by which a frame with these is to be divided; empty: by none."""
        self._wanted.chosen(there)
        if self.complete_by is None:
            return ""
        column = self.columns.get("prediction" if self.by_range else self.complete_by)
        if not isinstance(column, str):
            raise InvalidInputError(f"complete_by is {self.complete_by!r}; columns must name one column for it")
        return column

    def result(self, part: Part) -> Evaluated:
        """What the whole is, on the driver; raises what a task has found wrong."""
        if part.errors:
            raise min(part.errors, key=str)
        return Evaluated(self._closed(self.empty) if part.metrics is None else part.metrics, together(part.reads))
