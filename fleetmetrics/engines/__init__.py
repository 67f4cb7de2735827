"""Metrics on Spark, Ray, Dask and Beam: the tasks, and the merge of their parts.

A task reads its file, or takes a partition of a frame, adds it to metrics and sends these: states travel, samples do
not. Further tasks merge the parts in a tree and round every sum once: the same bits on each engine, in each run.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.base.merging import closed_by
from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.reading import Reading
from fleetmetrics.errors import FleetMetricsError, InvalidInputError
from fleetmetrics.files import Evaluated, evaluate_file, find, together
from fleetmetrics.files.one_file import of_tables, reading_given
from fleetmetrics.files.parts import Part, as_one
from fleetmetrics.files.places import whole_path
from fleetmetrics.files.row_pieces import gathered

__all__ = ["WAY", "Part", "Plan", "joined", "paths_of", "tree"]

#: The number of parts that one task merges.
WAY = 16


def joined(parts: Iterable[Part]) -> Part:
    """Merge several parts, and leave them unchanged, because a task may run again."""
    try:
        return as_one(map(copy.deepcopy, parts))
    except FleetMetricsError as error:
        return Part(errors=(error,))


def paths_of(files: Any) -> list[str]:
    """The files by paths that also work in tasks, which may run in another folder."""
    return find([whole_path(path) for path in find(files)])


def tree(parts: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """Merge the tasks' parts in a tree; ``join`` makes a task that joins a few of them."""
    while len(parts) != 1:
        parts = [join(parts[start : start + WAY]) for start in range(0, max(len(parts), 1), WAY)]
    return parts[0]


class Plan:
    """The work of the tasks, with the arguments of each engine's ``evaluate``."""

    empty: Any
    columns: dict[str, Any]
    skip: bool
    complete_by: str | None
    totals: Any
    names: list[str]
    by_range: bool
    bounds: list[Any]
    reading: Reading | None

    def __init__(
        self,
        make_metrics: Callable[[], Any],
        columns: Mapping[str, Any],
        complete_by: str | None,
        totals: Any,
        skip_bad_rows: bool,
        reading: Reading | None = None,
    ) -> None:
        self.empty, self.columns, self.skip = make_metrics(), dict(columns), skip_bad_rows
        self.complete_by, self.totals = complete_by, totals
        self.reading = reading_given(reading)
        self._wanted = Columns(self.empty, self.columns, self.reading)
        self.names = [*self._wanted.names, *self._wanted.looked_at]
        if complete_by == "score" and reading is not None and (reading.from_logits or reading.scale != 1.0):
            raise InvalidInputError(
                "complete_by='score' divides a frame by its raw scores; give it probabilities, without from_logits or "
                "scale in reading"
            )
        self._closed(copy.deepcopy(self.empty))  # raises errors now
        #: Whether a frame is divided into ranges of scores.
        self.by_range = complete_by == "score"
        first = closed_by(totals, "score")["ranges"] if self.by_range and totals is not None else []
        #: Where the ranges of the first pass begin, except for the lowest; this pass must use the same ranges.
        self.bounds = [low for low, *_ in first[1:]]
        kept = [metric.name for metric in self.empty.record_metrics()]
        if kept and complete_by is None:
            raise InvalidInputError(
                f"{', '.join(kept)}: keeps every sample, but samples do not leave a task; name the argument by which "
                'a file, or a partition, is complete: complete_by="user"'
            )

    def _closed(self, metrics: Any) -> Any:
        if self.complete_by is not None:
            metrics.close(self.complete_by, totals=self.totals)
        return metrics

    def _made(self, evaluate: Callable[[Any], Evaluated[Any]]) -> Part:
        try:
            metrics, read = evaluate(copy.deepcopy(self.empty))
            return Part(self._closed(metrics) if read.rows else None, (read,))
        except FleetMetricsError as error:
            return Part(errors=(error,))

    def of_file(self, path: str) -> Part:
        """A task: evaluate a file."""
        return self._made(lambda new: self._of_file(path, new))

    def _of_file(self, path: str, new: Any) -> Evaluated[Any]:
        return evaluate_file(path, lambda: new, self.columns, skip_bad_rows=self.skip, reading=self.reading)

    def of_batches(self, batches: Iterable[Any]) -> Part:
        """A task: evaluate the Arrow batches, or tables, of a partition; their columns are ``names``, in this order."""
        tables: Iterable[Any] = (piece.table.rename_columns(self.names) for piece in gathered(batches))
        name = "a partition of the frame"
        return joined(
            self._made(lambda new, some=some: of_tables(some, new, self.columns, self.skip, name, reading=self.reading))  # type: ignore[misc]
            for some in self._in_ranges(tables)
        )

    def _in_ranges(self, tables: Iterable[Any]) -> Iterable[Iterable[Any]]:
        """A partition's tables for each range of the first pass; without ranges, all in one."""
        if not self.bounds:
            return [tables]
        tables_by_place: dict[int, list[Any]] = {}
        for table in tables:
            place = np.searchsorted(self.bounds, table.column(self.columns["prediction"]).to_numpy(), "right")
            for number in np.unique(place).tolist():
                tables_by_place.setdefault(number, []).append(table.filter(arrow().array(place == number)))
        return tables_by_place.values()

    def divided_by(self, there: Sequence[str]) -> str:
        """The column by which to divide a frame with these columns; empty: none."""
        self._wanted.chosen(there)
        if self.complete_by is None:
            return ""
        column = self.columns.get("prediction" if self.by_range else self.complete_by)
        if not isinstance(column, str):
            raise InvalidInputError(f"complete_by is {self.complete_by!r}; columns must name one column for it")
        return column

    def result(self, part: Part) -> Evaluated[Any]:
        """The merged result, on the driver; raises the error of a task."""
        if part.errors:
            raise min(part.errors, key=str)
        return Evaluated(self._closed(self.empty) if part.metrics is None else part.metrics, together(part.reads))
