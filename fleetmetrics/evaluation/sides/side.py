"""One side of a comparison, or the only one: its metrics, a record of its data, and what is wrong with them."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping, Sequence

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.base.metric import Metric
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.reading import ON_FILES, Reading
from fleetmetrics.evaluation.question.counted import Joined
from fleetmetrics.evaluation.question.probe import Probe
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.files import Read
from fleetmetrics.files.formats import pieces_of
from fleetmetrics.support.vocabulary import argument, counted
from fleetmetrics.wrappers.bootstrap import Bootstrap
from fleetmetrics.wrappers.sliced import Sliced

__all__ = ["Side", "errors_of"]


@dataclass(frozen=True)
class Side:
    """The evaluated data of one side.

    Args:
        asked: the arguments.
        shape: `Question.probe`.
        metrics: its collection.
        read: a record of the data read.
        error: the error of an unusable file; the metrics hold the others.
        baseline: whether it is the other side, whose replicates of counts are drawn with a different seed.
        states: the paths of saved states behind it, as given and from the root.
        task: the place of the task, if this is the view of one of several; None: all.
    """

    asked: Question
    shape: Probe[Any]
    metrics: MetricCollection
    read: Read
    error: str = ""
    baseline: bool = False
    states: Sequence[str] = ()
    task: int | None = None

    @property
    def members(self) -> Probe[Metric]:
        """The metrics."""
        members = self.shape.of(self.metrics.metrics)
        return members if self.task is None else members.tasks[self.task]

    def of_task(self, place: int) -> Side:
        """The view of one of several tasks, which shares metrics and record with the others."""
        return replace(self, asked=self.asked.parts[place], task=place)

    def of_tasks(self) -> list[Side]:
        """The view of each task; of one task the side itself."""
        return [self.of_task(place) for place in range(len(self.asked.tasks))] or [self]

    @property
    def label(self) -> str:
        """What a message about this side begins with, if there are two."""
        return "baseline: " if self.baseline else ""

    def measured(self, notes: list[str]) -> Probe[Any]:
        """The values; warnings are appended to ``notes``."""
        for metric in self._sliced():
            metric.keep_largest(self.asked.max_slices)
        values: dict[str, Any] = {}
        for task, metrics in self._by_task():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                of_task = metrics.compute_local()
            values.update(of_task)
            texts = [self.asked.in_words(str(warning.message)) for warning in caught]
            if task and not any(_rows_by_key(of_task)):
                texts = ["no row has a label"]
            notes += [f"{self.label}{f'{task}: ' if task else ''}{text}" for text in texts]
        return self.shape.of(values)

    def _by_task(self) -> Iterator[tuple[str, MetricCollection]]:
        """The metrics of each task with its name, so that a warning has it; those of all rows without a name."""
        metrics = self._drawn()
        if not self.asked.tasks:
            yield "", metrics
            return
        for place, task in enumerate(["", *self.asked.tasks], -1):
            of_task = f"tasks {place} "
            keys = [
                key for key in metrics.metrics if (key.startswith(of_task) if task else not key.startswith("tasks "))
            ]
            yield task, metrics.view(keys)

    def _sliced(self) -> list[Sliced]:
        """A metric of the slices of each column."""
        members = self.members
        columns = (column for part in (members, *members.tasks) for column in part.slices)
        return [column.rows for column in columns if isinstance(column.rows, Sliced)]

    def others(self) -> dict[str, int | None]:
        """The number of slices in "(other)", by column; None: unknown."""
        numbers = {by: metric.chosen_of for by, metric in zip(self.asked.by, self._sliced())}
        return {by: of - self.asked.max_slices if of else None for by, of in numbers.items() if of is not None}

    def _drawn(self) -> MetricCollection:
        """The metrics, with draws of this side: counts are drawn at the end, so any saved state has them."""
        if not self.baseline:
            return self.metrics
        view = copy.copy(self.metrics)
        view.metrics = {key: _reseeded(metric) for key, metric in view.metrics.items()}
        return view


def _rows_by_key(values: Mapping[str, Any]) -> list[int]:
    """The numbers of rows of a task, from the values of its metrics."""
    return [value for key, value in values.items() if key.startswith("tasks ") and key.endswith(" rows")]


def _reseeded(metric: Any) -> Any:
    if not isinstance(metric, Bootstrap) or metric.ids is not None:
        return metric
    view = copy.copy(metric)
    view.seed = 1  # otherwise both sides would use the same random numbers
    return view


# -- what is wrong with the data -----------------------------------------------------------------------------


def errors_of(sides: Sequence[Side]) -> list[str]:
    """The errors in the data of sides: unusable files, no rows, and a label that no file has."""
    errors = [side.error for side in sides if side.error]
    errors = errors or [_no_rows(side) for side in sides if not any(_rows_of_tasks(side))]
    views = () if errors else (view for side in sides for view in side.of_tasks())
    return errors or next(([text] for text in map(_no_positives, views) if text), [])


def _no_positives(side: Side) -> str:
    """The error for a label that counts as 1, and that no row has; "" otherwise."""
    asked, positives = side.asked, side.members.sizes.get("positives")
    if asked.positive is None or positives is None or not side.read.rows or positives.compute_local():
        return ""
    column = asked.roles["label"]
    labels = _labels_in(side.read.files[:1], column, asked) if isinstance(column, str) else ""
    return f"{side.label}{argument('positive')} {asked.positive!r}: no row has that label in column {column!r}{labels}"


def _rows_of_tasks(side: Side) -> list[int]:
    """The number of rows that count for each task."""
    return [view.members.rows.compute_local() for view in side.of_tasks()]


def _no_rows(side: Side) -> str:
    """The error for a side without rows that count, and where its rows are."""
    read, rows = side.read, side.members.rows.compute_local()
    numbers = {
        f"left out by {argument('where')}": read.left_out,
        "with ids on this side only": read.unmatched,
        "skipped": read.skipped,
        "without a label": rows,
        "with weight 0": read.rows - read.skipped - rows,
    }
    reasons = [f"{counted(number, 'rows')} {what}" for what, number in numbers.items() if number]
    reasons += [f"{counted(len(read.bad_files), 'files')} skipped"] if read.bad_files else []
    files = f" in {counted(len(read.files), 'files')}" if read.files else ""
    text = f"{side.label}there are no rows to evaluate{files}"
    return f"{text}: {', '.join(reasons)}" if reasons else text


def _labels_in(paths: Sequence[str], column: str, asked: Question) -> str:
    """Some of the labels that files have, in words."""
    options = {"header": asked.columns, **{name: getattr(asked, name) for name in ON_FILES}}
    wanted = Columns(Joined(), {"id": column}, Reading(**options))
    for path in paths:
        for piece in pieces_of(path, None, wanted, lambda text: None):
            values = piece.table.column(column).unique().to_pylist()[:5]
            return f"; there are {', '.join(map(repr, values))}"
    return ""
