"""Accuracy of samples, of the k highest scores, and of whole rows of labels."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Sequence, overload

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Quotient, Settings
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import FROM_LOGITS, PROBABILITY, REQUIREMENTS, Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics import task as tasks
from fleetmetrics.metrics.classification.averaged import OfTask
from fleetmetrics.metrics.classification.losses import LossSettings
from fleetmetrics.metrics.task import Task
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.typed import Unpack

__all__ = ["Accuracy", "ExactMatch"]


@statistic
def _correct(batch: Batch, task: Task) -> Any:
    xp, keep = batch.xp, tasks.counted(batch, task)
    if batch.classes:
        right = tasks.among_highest(batch, task)
    elif xp.kind(batch.prediction) == "f":
        score = batch.probability(True) if task.from_logits else batch.prediction
        right = xp.equal(xp.greater(score, task.threshold), batch.positive)
    else:
        right = xp.equal(batch.prediction, batch.labels)
    return batch.weighted_sum(right if keep is None else xp.logical_and(right, keep))


def _are_scores(batch: Batch) -> Any:
    return REQUIREMENTS["class_scores" if batch.classes else "near_probability"].holds(batch)


#: Of predictions of any shape: the requirement that a static program, and a device, can name after the fact.
_SCORES = Requirement(
    "prediction",
    f"a finite number; of the label's shape {PROBABILITY}",
    _are_scores,
    f"{FROM_LOGITS}; scores of classes other than the label's may be -inf",
)


class AccuracySettings(LossSettings, total=False):
    """Arguments of `Accuracy`, without ``average``."""

    top_k: int
    threshold: float


class Accuracy(OfTask[Value]):
    """Share of samples that are predicted correctly: with ``top_k``, whose label is among the k highest scores.

    Formula: ``sum(w * [correct]) / sum(w)``. Without ``num_classes``, the inputs of ``add(prediction, label)`` decide
    what is correct:

    - floats with one axis more than the integer labels, ``[n, classes]`` or ``[n, positions, classes]`` (see
      ``class_axis``): fewer than ``top_k`` classes come before the label's. Of equal scores the lower class comes
      first, as in ``numpy.argmax``;
    - floats of the label's shape: probabilities of class 1, correct if ``(p > threshold) == label``; others are an
      error, or logits with ``from_logits``;
    - integers or bools of the label's shape: predicted classes, correct if equal;
    - floats of the shape of one-hot labels, ``[n, classes]``: the labels are taken as their argmax, as
      `paddle.metric.Accuracy` does, if no row that counts lacks its single 1 and the scores are those of classes: rows
      add up to 1, a score is outside [0, 1], or there are 16 rows or more. Otherwise they are an error (in a static
      program and on a device, always), or with fewer than four rows entries like any other.

    ``[n, 1]`` equals ``[n]``. Undefined without samples.

    With ``num_classes``, ``num_labels`` or ``task="binary"`` it takes the inputs of `Precision` and in a collection
    shares its confusion matrix; each of several labels counts separately, as in torchmetrics (scikit-learn's accuracy
    of whole rows is `ExactMatch`). The accuracy of a single class is its recall.

    Args:
        top_k: the label must be among this number of the highest scores, at least 1.
        threshold: probability in [0, 1] above which a single score means class 1.
        task: as for `LogLoss`.
        num_classes: as for `LogLoss`.
        num_labels: as for `Precision`.
        average: ``"micro"``: over all samples (and labels); ``"macro"``, ``"weighted"`` and None (or ``"none"``): by
            class or label.
        from_logits: as for `Precision`.
        ignore_index: as for `Precision`.
        class_axis: as for `Precision`.

    Examples:
        >>> metric = Accuracy()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
        >>> metric = Accuracy(top_k=2)
        >>> metric.add([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], [1, 2])
        >>> metric.compute()
        0.5
        >>> metric = Accuracy(task="multiclass", num_classes=3, average=None)
        >>> metric.add([0, 1, 2, 1], [0, 1, 2, 2])
        >>> metric.compute().tolist()
        [1.0, 1.0, 0.5]
        >>> metric = Accuracy(task="multilabel", num_labels=2)
        >>> metric.add([[0.75, 0.25], [0.75, 0.75]], [[1, 1], [1, 1]])
        >>> metric.compute()
        0.75
    """

    class_axis: int | None
    task: Task
    #: The requirements of predicted classes, of scores of each class, and of one score a sample.
    _of_classes: tuple[str | Requirement, ...]
    _of_scores: tuple[str | Requirement, ...]
    _of_one: tuple[str | Requirement, ...]

    better = "higher"
    takes_one_hot: ClassVar[bool] = True
    requirements: tuple[str | Requirement, ...] = (_SCORES, "class_label")

    @overload
    def __init__(
        self: Accuracy[float],
        *,
        average: Literal["micro", "macro", "weighted"] = "micro",
        **settings: Unpack[AccuracySettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Accuracy[np.ndarray], *, average: Literal["none"] | None, **settings: Unpack[AccuracySettings]
    ) -> None: ...
    def __init__(
        self,
        *,
        top_k: int = 1,
        threshold: float = 0.5,
        task: Literal["binary", "multiclass", "multilabel"] | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Literal["micro", "macro", "weighted", "none"] | None = "micro",
        from_logits: bool = False,
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.class_axis = tasks.class_axis_of(class_axis)
        choice_of("average", average, ("micro", "macro", "weighted", "none", None))
        self.average = average
        self.settle(average=average or "none")
        self.task = tasks.task_of(
            task, num_classes, num_labels, threshold, from_logits, ignore_index, top_k=top_k, by_shape=True
        )
        if self.task.size:
            if self.task.kind == "multiclass":
                self.task = self.task._replace(from_logits=False)
            self.requirements = self.task.rules
            if self.task.kind == "binary" and average != "micro":
                raise InvalidInputError(f"average must be 'micro' with task='binary', not {average!r}")
        elif average != "micro":
            raise InvalidInputError(f"average={average!r} needs num_classes=, num_labels= or task='binary'")
        else:
            of_one = "class_scores" if self.task.from_logits else "near_probability"
            self._of_classes = self._unless_ignored("finite_label")
            self._of_one, self._of_scores = (self._unless_ignored(of, "class_label") for of in (of_one, "class_scores"))
            self.requirements = (
                self._of_scores if self.task.from_logits else self._unless_ignored(_SCORES, "class_label")
            )
        self.settle(**self.task.settings)
        if self.task.size and (self.task.top_k == 1 or average != "micro"):
            self.declare("confusion", self.task.shape, statistic=tasks.confusion, settings=("task",))
        else:
            self.declare("correct", statistic=_correct, settings=("task",))
            self.declare("total", key=tasks.total_key(self.task), statistic=tasks.counted_total, settings=("task",))

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        if self.task.size:
            return super().requirements_of(batch)
        predicted_classes = not batch.classes and batch.xp.kind(batch.prediction) != "f"
        if not batch.classes and (self.task.top_k > 1 or (self.task.kind == "multiclass" and not predicted_classes)):
            raise InvalidInputError(
                f"prediction has the label's shape; top_k={self.task.top_k} of several classes needs scores "
                "[n, classes]"
            )
        if predicted_classes:
            return self._of_classes
        return self._of_scores if batch.classes else self._of_one

    def _unless_ignored(self, *rules: str | Requirement) -> tuple[str | Requirement, ...]:
        return tuple(tasks.unless_ignored(rule, self.task.ignore_index) for rule in rules)

    @property
    def quotient(self) -> Quotient | None:
        if "correct" in self.states:
            return Quotient({"correct": 1}, highest=1)
        if self.task.kind == "multilabel" or self.average != "micro":
            return None
        shape = self.states["confusion"].shape
        return Quotient({"confusion": np.eye(shape[0])}, {"confusion": np.ones(shape)}, highest=1)

    def formula(self, **states: np.ndarray) -> Any:
        if "confusion" in states:
            return formulas.confusion_accuracy.bare(states["confusion"], self.average, self.zero_division)
        return self._ratio(states["correct"], states["total"])


@statistic
def _rows(batch: Batch, task: Task) -> Any:
    """The number of rows with every label correct, and of all rows."""
    xp = batch.xp
    right = xp.equal(tasks.predicted_classes(batch, task), tasks.label_classes(batch, task))
    keep = tasks.counted(batch, task)
    if keep is not None:
        right = xp.logical_or(right, xp.logical_not(keep))
    right = xp.logical_and(batch.by_row(right), tasks.counted_rows(batch, task))
    return batch.sum_of_rows(right), tasks.number_of_rows(batch, task)


class ExactMatch(OfTask[float]):
    """Share of samples whose labels are all predicted correctly; subset accuracy.

    Formula: ``sum(w * [all labels of the row correct]) / sum(w)`` over the rows. ``add(prediction, label)`` takes
    probabilities, or 0 and 1, ``[n, num_labels]`` with labels 0 or 1 of the same shape; weight and mask have one entry
    per row. Undefined without samples.

    Args:
        task: ``"multilabel"``.
        num_labels: the number of labels of a sample.
        threshold: probability in [0, 1] above which a label is predicted.
        from_logits: predictions are logits: their sigmoid is compared with the threshold.
        ignore_index: labels of this value are skipped; a row with no other labels does not count.

    Examples:
        >>> metric = ExactMatch(num_labels=2)
        >>> metric.add([[0.75, 0.25], [0.75, 0.75]], [[1, 0], [1, 0]])
        >>> metric.compute()
        0.5
    """

    requirements: tuple[str | Requirement, ...]
    task: Task

    better = "higher"

    def __init__(
        self,
        *,
        task: Literal["multilabel"] = "multilabel",
        num_labels: int | None = None,
        threshold: float = 0.5,
        from_logits: bool = False,
        ignore_index: int | Sequence[int] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.task = tasks.task_of(task, None, num_labels, threshold, from_logits, ignore_index, allowed=("multilabel",))
        self.settle(**self.task.settings)
        self.requirements = self.task.rules
        self.declare("matched", key=("matched rows", self.task))
        self.declare("rows", key=("rows", self.task.size, self.task.ignore_index))

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        matched, rows = _rows(batch, self.task)
        return {"matched": matched, "rows": rows}

    def formula(self, matched: np.ndarray, rows: np.ndarray) -> float:
        return self._ratio(matched, rows)
