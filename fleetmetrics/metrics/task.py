"""Classification tasks: their requirements of a batch, and the confusion matrix that a family of metrics shares."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence, Tuple, Union

import numpy as np

from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import FROM_LOGITS, REQUIREMENTS, Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.checks import (
    MOST_ENTRIES,
    choice_of,
    flag_of,
    is_whole,
    number_of,
    raise_if_too_large,
    whole_number_of,
)  # fmt: skip
from fleetmetrics.xp import numpy_ops

TASKS = ("binary", "multiclass", "multilabel")
#: The most cells, and the samples at a time, that `confusion_of` counts in a cache.
_CELLS, _BLOCK = 2**14, 2**16
#: The labels that do not count.
Ignored = Union[int, Tuple[int, ...], None]


class Task(NamedTuple):
    """The task of a metric, and its reading of predictions; equal tasks share their states."""

    kind: str  # one of TASKS; or "any": multiclass with scores of three or more classes, else binary
    size: int  # classes or labels; 0: that of the scores
    threshold: float = 0.5
    from_logits: bool = False
    ignore_index: Ignored = None
    top_k: int = 1  # a label among the top_k highest scores counts as predicted

    def of(self, batch: Batch) -> Task:
        """The task of a batch, whose shapes decide the open settings."""
        if self.size:
            return self
        if self.kind == "any" and batch.classes <= 2:
            return Task("binary", 2, *self[2:])
        return Task("multiclass", batch.classes, *self[2:])

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it comes from, written out."""
        arguments = {name: getattr(self, name) for name in ("threshold", "from_logits", "ignore_index", "top_k")}
        for argument, kind in (("num_classes", "multiclass"), ("num_labels", "multilabel")):
            arguments[argument] = self.size if self.size and self.kind == kind else None
        return {"task": self.kind, **arguments}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the confusion matrix."""
        several = self.kind == "multilabel"
        shape = (self.size, 2, 2) if several else (self.size, self.size)
        raise_if_too_large(f"num_{'labels' if several else 'classes'}={self.size}", shape, "the confusion matrix")
        return shape

    @property
    def classes(self) -> int:
        """The number of values that a label may have."""
        return self.size if self.kind == "multiclass" else 2

    @property
    def label_rule(self) -> Requirement | str:
        """The requirement of labels."""
        if self.kind == "multiclass" or self.ignore_index is not None:
            return _class_rule("label", self.classes, "", self.ignore_index)
        return "class_label"

    @property
    def rules(self) -> tuple[Requirement | str, ...]:
        """The requirements of predictions and labels, whatever a batch holds."""
        if self.kind != "multiclass" or self.from_logits:
            return (self._rule("class_scores" if self.from_logits else "probability_or_logits"), self.label_rule)
        return (self._rule("class_scores"), self._predicted_class, self.label_rule)

    def rules_for(self, batch: Batch) -> tuple[Requirement | str, ...]:
        """The requirements of this batch; raises if its shapes are not those of the task."""
        self.check_shape(batch)
        if self.kind == "binary" and batch.classes and not self.from_logits:
            return self.distribution_rules
        if self.kind != "multiclass":
            return self.rules
        return (self._rule("class_scores") if batch.classes else self._predicted_class, self.label_rule)

    @property
    def distribution_rules(self) -> tuple[Requirement | str, ...]:
        """The requirements of probabilities of all classes, and labels: columns of other things do not add up to 1."""
        return (unless_ignored(DISTRIBUTION, self.ignore_index), self.label_rule)

    @property
    def _predicted_class(self) -> Requirement:
        return _class_rule("prediction", self.size, f", or give scores [n, {self.size}]", self.ignore_index)

    def _rule(self, name: str) -> Requirement | str:
        return unless_ignored(name, self.ignore_index)

    def check_shape(self, batch: Batch) -> None:
        """Raise if the shapes of a batch are not those of the task."""
        if self.kind == "multilabel" and (batch.classes or batch.width != self.size):
            width = batch.classes or batch.width
            raise InvalidInputError(
                f"prediction has {width} value(s) per sample, and label has {1 if batch.classes else width}; with "
                f"task='multilabel', num_labels={self.size} both must have shape [n, {self.size}]"
            )
        if self.kind == "binary" and batch.classes > 2:
            raise InvalidInputError(
                f"prediction has shape [n, {batch.classes}]; allowed are [n], [n, 1], the label's shape, or [n, 2] of "
                f"both classes; for {batch.classes} classes give num_classes={batch.classes}"
            )
        if self.top_k > 1 and not batch.classes:
            raise InvalidInputError(
                f"prediction has the label's shape; top_k={self.top_k} needs scores of shape [n, {self.size}]"
            )
        if self.kind == "multiclass" and batch.classes not in (0, self.size):
            raise InvalidInputError(
                f"prediction has shape [n, {batch.classes}]; with task='multiclass', num_classes={self.size} it must "
                f"be [n, {self.size}] scores, or predicted classes of the label's shape"
            )


class _Class(NamedTuple):
    """Which samples have a class as this argument, or an ignored label; equal ones share one check."""

    argument: str
    classes: int
    ignore_index: Ignored

    def __call__(self, batch: Batch) -> Any:
        xp, values = batch.xp, getattr(batch, self.argument)
        if xp.kind(values) == "i" and self.classes and xp.within(values, 0, self.classes - 1):
            return None
        flags = xp.is_class(values, self.classes)
        return _or_ignored(batch, flags, self.ignore_index)


class _Tolerant(NamedTuple):
    """Which samples meet a requirement, or have an ignored label; equal ones share one check."""

    rule: Requirement
    ignore_index: Ignored

    def __call__(self, batch: Batch) -> Any:
        return _or_ignored(batch, self.rule.holds(batch), self.ignore_index)


@functools.lru_cache(maxsize=None)
def _class_rule(argument: str, classes: int, more: str, ignore_index: Ignored) -> Requirement:
    if ignore_index is not None and argument == "label":
        more = f", or ignore_index={_text(ignore_index)}"
    holds: Any = _Class(argument, classes, ignore_index)
    allowed = f"from 0 to {classes - 1}" if classes else "of at least 0, below the number of classes"
    return Requirement(argument, f"a class: a whole number {allowed}{more}", holds)


def _text(ignore_index: Ignored) -> str:
    return str(list(ignore_index) if isinstance(ignore_index, tuple) else ignore_index)


def unless_ignored(rule: Requirement | str, ignore_index: Ignored) -> Requirement | str:
    """The requirement, which samples with an ignored label always meet."""
    if ignore_index is None:
        return rule
    rule = REQUIREMENTS[rule] if isinstance(rule, str) else rule
    return _tolerant(rule, ignore_index)


@functools.lru_cache(maxsize=None)
def _tolerant(rule: Requirement, ignore_index: Ignored) -> Requirement:
    holds: Any = _Tolerant(rule, ignore_index)
    more = f", or ignore_index={_text(ignore_index)}" if rule.argument == "label" else ""
    return rule._replace(holds=holds, allowed=rule.allowed + more)


def _or_ignored(batch: Batch, flags: Any, ignore_index: Ignored) -> Any:
    if flags is None or ignore_index is None:
        return flags
    return batch.xp.logical_or(flags, _ignored(batch, ignore_index))


def _ignored(batch: Batch, ignore_index: Ignored) -> Any:
    """Which samples have one of these labels."""
    xp = batch.xp
    labels = xp.cast(batch.labels, "int64") if xp.kind(batch.labels) == "b" else batch.labels
    several = ignore_index if isinstance(ignore_index, tuple) else (ignore_index,)
    return functools.reduce(xp.logical_or, [xp.equal(labels, xp.full_like(labels, label)) for label in several])


def ignored_of(ignore_index: Any) -> Ignored:
    """The argument ``ignore_index``: an integer, or several; a list of one equals the integer."""
    if ignore_index is None:
        return None
    listed = isinstance(ignore_index, (list, tuple, set, frozenset, range)) or np.ndim(ignore_index) == 1
    several = list(ignore_index) if listed else [ignore_index]
    if not all(is_whole(label) and -(2**63) <= label < 2**63 for label in several):
        raise InvalidInputError(f"ignore_index must be an integer, several in a list, or None, not {ignore_index!r}")
    labels = sorted(set(map(int, several)))
    if not labels:
        return None
    return tuple(labels) if len(labels) > 1 else labels[0]


def class_axis_of(class_axis: Any) -> int | None:
    """The argument ``class_axis``."""
    if class_axis is None or is_whole(class_axis):
        return None if class_axis is None else int(class_axis)
    raise InvalidInputError(
        f"class_axis must be the number of an axis of the scores, such as 1 or -1, or None for the last, not "
        f"{class_axis!r}"
    )


def task_of(
    task: str | None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    from_logits: bool = False,
    ignore_index: int | Sequence[int] | None = None,
    *,
    top_k: int = 1,
    allowed: tuple[str, ...] = TASKS,
    by_shape: bool = False,
) -> Task:
    """The task that the arguments of a classification metric describe.

    ``num_classes`` means multiclass, ``num_labels`` multilabel, and neither means binary; ``task``, one of ``allowed``,
    names it. ``by_shape``: the metric keeps nothing per class, so the scores of each batch may give their number.
    """
    if task is not None:
        choice_of("task", task, allowed)
    left_open = by_shape and num_classes is None and num_labels is None and task in (None, "multiclass")
    if left_open:
        kind = "any" if task is None else task
    elif task is None:
        task = "multilabel" if num_labels is not None else allowed[0]
        if num_classes is not None:
            task = "multiclass"
        if task not in allowed:
            sizes = f"num_classes={num_classes!r}" if num_classes is not None else f"num_labels={num_labels!r}"
            raise InvalidInputError(f"{sizes} means task={task!r}; allowed are {', '.join(map(repr, allowed))}")
    for name, value, owner in (("num_classes", num_classes, "multiclass"), ("num_labels", num_labels, "multilabel")):
        if task == owner and not left_open:
            least = 2 if owner == "multiclass" else 1
            if not is_whole(value) or value < least:  # type: ignore[operator]
                raise InvalidInputError(
                    f"{name} must be an integer of at least {least} with task={task!r}, not {value!r}"
                )
            whole_number_of(name, value, least, MOST_ENTRIES)
        elif value is not None:
            raise InvalidInputError(
                f"{name} belongs to task={owner!r}; with task={task!r} it must be None, not {value!r}"
            )
    bound = number_of("threshold", threshold, 0, 1)
    if whole_number_of("top_k", top_k, 1) > 1 and task != "multiclass" and not left_open:
        raise InvalidInputError(f"top_k={top_k!r} needs task='multiclass', not {task!r}")
    if task == "multiclass":
        bound = 0.5  # the highest score needs no threshold
    ignored = ignored_of(ignore_index)
    if left_open:
        return Task(kind, 0, bound, flag_of("from_logits", from_logits), ignored, int(top_k))
    size = {"binary": 2, "multiclass": num_classes, "multilabel": num_labels}[task]  # type: ignore[index]
    size = int(size)  # type: ignore[arg-type]
    # top_k beyond the number of classes means all of them
    return Task(str(task), size, bound, flag_of("from_logits", from_logits), ignored, min(int(top_k), size))


def average_of(task: Task, average: str | None) -> str | None:
    """``average`` as the formulas take it."""
    if task.kind == "binary":
        if isinstance(average, str) and average in ("auto", "binary"):
            return "binary"
        raise InvalidInputError(
            f"average must be left out with task='binary', which counts class 1 only, not {average!r}; for both "
            "classes use task='multiclass', num_classes=2"
        )
    if isinstance(average, str) and average == "samples" and task.kind != "multilabel":
        raise InvalidInputError("average='samples' needs num_labels=: without several labels a sample has one class")
    samples = ("samples",) if task.kind == "multilabel" else ()
    choice_of("average", average, ("auto", "micro", "macro", "weighted", *samples, "none", None))
    return {"auto": "macro", "none": None}.get(average, average)  # type: ignore[arg-type]


# -- batch statistics ------------------------------------------------------------------------------------


def counted(batch: Batch, task: Task) -> Any:
    """Which samples have a label that is not ignored; None: all."""
    return None if task.ignore_index is None else _not_ignored(batch, task.ignore_index)


@per_sample
def _not_ignored(batch: Batch, ignore_index: Ignored) -> Any:
    return batch.xp.logical_not(_ignored(batch, ignore_index))


def zero_unless(batch: Batch, flags: Any, values: Any) -> Any:
    """The values where the flags are true (None: everywhere) and 0 elsewhere."""
    return values if flags is None else batch.xp.where(flags, values, batch.xp.zeros_like(values))


@statistic
def counted_total(batch: Batch, task: Task) -> Any:
    """The number or weight of the samples whose label is not ignored; for multilabel ``[labels]``."""
    if task.kind == "multilabel":
        return batch.histogram(batch.label_index, amount=counted(batch, task))
    return batch.total if task.ignore_index is None else _total_without(batch, task.ignore_index)


@statistic
def _total_without(batch: Batch, ignore_index: Ignored) -> Any:
    """Of all tasks that ignore the same labels, which share it."""
    return batch.weighted_sum(_not_ignored(batch, ignore_index))


def total_key(task: Task) -> Any:
    """The key of a state filled by `counted_total`."""
    return "total" if task.ignore_index is None else ("total", task.ignore_index)


@per_sample
def label_classes(batch: Batch, task: Task) -> Any:
    """Labels as int64; 0 where they are ignored."""
    return zero_unless(batch, counted(batch, task), batch.xp.cast(batch.labels, "int64"))


@per_sample
def numbers(batch: Batch, task: Task) -> Any:
    """Predictions of one number for each label, float64 ``[n]``; 0 where the label is ignored."""
    return zero_unless(batch, counted(batch, task), batch.xp.cast(batch.prediction, "float64"))


def of_scores(batch: Batch, task: Task, function: Callable[..., Any]) -> Any:
    """``function(xp, scores, labels)``, an entry per sample, of scores ``[samples, classes]``.

    Scores and label are 0 where the label is ignored.
    """
    xp, flags = batch.xp, counted(batch, task)

    def of_block(scores: Any, labels: Any, flags: Any = None) -> Any:
        if flags is not None:
            scores = xp.where(xp.reshape(flags, [-1, 1]), scores, xp.zeros_like(scores))
        return function(xp, scores, labels)

    arrays = [label_classes(batch, task), *([] if flags is None else [flags])]
    return batch.of_rows(of_block, *arrays)


def _difference(xp: Any, scores: Any, _: Any) -> Any:
    return xp.subtract(xp.cast(scores[:, 1], "float64"), xp.cast(scores[:, 0], "float64"))


@per_sample
def logits(batch: Batch, task: Task) -> Any:
    """Predictions as logits of class 1, float64 ``[n]``: the difference of two columns."""
    return of_scores(batch, task, _difference) if batch.classes else numbers(batch, task)


@per_sample
def among_highest(batch: Batch, task: Task) -> Any:
    """Which labels are among the ``top_k`` highest scores; of equal scores the lower class comes first."""
    if task.top_k == 1 and batch.table is not None:
        return batch.xp.equal(_highest(batch), label_classes(batch, task))
    return batch.of_rows(batch.xp.rank_of_label, label_classes(batch, task)) < task.top_k


def _highest(batch: Batch) -> Any:
    """The class of the highest score."""
    return batch.once(_highest, lambda: batch.of_rows(batch.xp.highest_of_rows))


@per_sample
def predicted_classes(batch: Batch, task: Task) -> Any:
    """Predictions as classes, int64; any class where the label is ignored."""
    xp = batch.xp
    if task.kind == "multiclass":
        if batch.classes:
            best = _highest(batch)
            return best if task.top_k == 1 else xp.where(among_highest(batch, task), label_classes(batch, task), best)
        return xp.cast(zero_unless(batch, counted(batch, task), batch.prediction), "int64")
    if task.from_logits:
        predicted = xp.greater(xp.sigmoid(logits(batch, task)), task.threshold)
    elif xp.kind(batch.prediction) == "f":
        predicted = xp.greater(batch.scores, task.threshold)
    else:
        predicted = xp.cast(zero_unless(batch, counted(batch, task), batch.scores), "bool")
    return xp.cast(predicted, "int64")


@statistic
def confusion(batch: Batch, task: Task) -> Any:
    """The increment of the confusion matrix from a batch."""
    label = (batch.label_index,) if task.kind == "multilabel" else ()
    indices = (*label, label_classes(batch, task), predicted_classes(batch, task))
    return batch.histogram(*indices, amount=counted(batch, task))


def confusion_of(prediction: np.ndarray, label: np.ndarray, classes: int, ignored: Ignored) -> np.ndarray | None:
    """The confusion matrix of integer arrays of equal size, counted in one pass in blocks that a cache holds.

    Returns:
        None if a prediction is no class, or a label neither one nor ignored; or if ignored labels are far from them.
    """
    skipped = [] if ignored is None else np.atleast_1d(ignored).tolist()
    low, high = min(0, *skipped, 0), max(classes - 1, *skipped, 0)
    labels = high - low + 1
    if labels * classes > _CELLS:
        return None
    counts, places = np.zeros(labels * classes, np.int64), np.empty(_BLOCK, np.int64)
    prediction, label = prediction.reshape(-1), label.reshape(-1)
    for start in range(0, label.size, _BLOCK):
        row, column = (array[start : start + _BLOCK].astype(np.int64, copy=False) for array in (label, prediction))
        if not (numpy_ops.within(row, low, high) and numpy_ops.within(column, 0, classes - 1)):
            return None
        place = np.multiply(row, classes, out=places[: row.size])
        place += column
        if low:
            place -= low * classes
        counts += np.bincount(place, minlength=counts.size)
    matrix = counts.reshape(labels, classes)
    whole = matrix[-low : classes - low].copy()
    matrix[-low : classes - low] = 0
    for each in skipped:
        if 0 <= each < classes:
            whole[each] = 0
        matrix[each - low] = 0
    return None if matrix.any() else whole


@per_sample
def counted_rows(batch: Batch, task: Task) -> Any:
    """Which rows of labels have one that is not ignored: flags at the first element of each row, False elsewhere."""
    xp, keep = batch.xp, counted(batch, task)
    every = batch.by_row(xp.equal(batch.labels, batch.labels))
    if keep is None:
        return every
    return xp.logical_and(every, xp.logical_not(batch.by_row(xp.logical_not(keep))))


#: For each cell of a confusion matrix, by label and prediction, the contribution of a label to a sum.
Cells = Tuple[Tuple[float, float], Tuple[float, float]]


@statistic
def sum_of_shares(batch: Batch, task: Task, parts: tuple[Cells, Cells]) -> Any:
    """The sum of the rows' quotients of two sums over their labels."""
    shares, _ = _shares(batch, task, parts)
    return batch.sum_of_rows(shares)


@statistic
def rows_with_share(batch: Batch, task: Task, parts: tuple[Cells, Cells]) -> Any:
    """The number or weight of the rows that have such a quotient."""
    _, defined = _shares(batch, task, parts)
    return batch.sum_of_rows(defined)


@per_sample
def _shares(batch: Batch, task: Task, parts: tuple[Cells, Cells]) -> tuple[Any, Any]:
    """The quotient of each row at its first element, and a flag if it has one; 0 and False elsewhere."""
    xp, rows = batch.xp, counted_rows(batch, task)
    predicted = zero_unless(batch, counted(batch, task), predicted_classes(batch, task))
    numerator, denominator = (_by_cells(batch, task, predicted, cells) for cells in parts)
    defined = xp.logical_and(rows, xp.greater(denominator, 0))
    quotient = xp.divide(numerator, xp.or_one(denominator))
    return xp.where(defined, quotient, xp.zeros_like(quotient)), defined


def _by_cells(batch: Batch, task: Task, predicted: Any, cells: Cells) -> Any:
    """The contributions of the labels of a row, summed, at each of its elements: float64."""
    xp, true = batch.xp, label_classes(batch, task)
    (neither, wrong), (missed, right) = cells
    keep = counted(batch, task)
    elements = xp.ones_like(true) if keep is None else xp.cast(keep, "int64")
    both = xp.multiply(true, predicted)
    counts = (elements, neither), (predicted, wrong - neither), (true, missed - neither)
    total = None
    for flags, factor in (*counts, (both, right - wrong - missed + neither)):
        if factor:
            part = xp.scale(xp.cast(flags, "float64"), factor)
            total = part if total is None else xp.add(total, part)
    return xp.repeat(xp.sum_of_rows(xp.reshape(total, [-1, batch.width])), batch.width)


@statistic
def number_of_rows(batch: Batch, task: Task) -> Any:
    """The number or weight of the rows with a label that is not ignored."""
    return batch.sum_of_rows(counted_rows(batch, task))


# -- scores of a task's classes --------------------------------------------------------------------------

#: The largest distance from 1 of the sum of the probabilities of all classes, for float64 and for narrower dtypes. They
#: may have been computed in half that precision: float64 in float32 (the root of its rounding), others in bfloat16
#: (2**-8).
_ROUNDING = {True: 2.0**-11.5, False: 2.0**-7}


def adds_up(xp: Any, scores: Any) -> Any:
    """Which rows ``[n, classes]`` are probabilities of all classes."""
    values = xp.cast(scores, "float64")
    within = xp.is_probability(values)
    total = xp.sum_of_rows(xp.where(within, values, xp.zeros_like(values)))
    rounding = _ROUNDING["64" in str(scores.dtype)]
    return xp.logical_and(xp.all_rows(within), xp.logical_not(xp.greater(xp.absolute(total - 1), rounding)))


def _is_distribution(batch: Batch) -> Any:
    return batch.of_rows(lambda scores: adds_up(batch.xp, scores))


DISTRIBUTION = Requirement(
    "prediction",
    "probabilities in [0, 1] of all classes, which add up to 1 (apply the softmax to logits first)",
    _is_distribution,
    FROM_LOGITS,
)
#: Of metrics without ``from_logits``.
DISTRIBUTION_ALONE = DISTRIBUTION._replace(advice="")


def check_scores(task: Task, batch: Batch) -> Task:
    """The task of a batch; raises if its shapes do not fit, or scores for each of several classes are missing."""
    task = task.of(batch)
    if batch.label is None:
        raise InvalidInputError("label is missing; give add(prediction, label)")
    task.check_shape(batch)
    if task.kind == "multiclass" and not batch.classes:
        raise InvalidInputError(
            f"prediction has the label's shape; with task='multiclass' it must have shape [n, {task.size or 'classes'}]"
        )
    return task
