"""Metrics by class or label, and their averages."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal, Sequence, overload

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Quotient, Settings, Undefinable, WithoutColumns, formula_of
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import AS_ENTRIES, CLASSES, surely_entries
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.task import (
    TASKS,
    Cells,
    Task,
    average_of,
    class_axis_of,
    confusion,
    confusion_of,
    number_of_rows,
    rows_with_share,
    sum_of_shares,
    task_of,
)
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.typed import Required, Unpack

__all__ = ["F1", "FBeta", "Jaccard", "Precision", "Recall", "Specificity", "StatScores"]

_NEITHER = "no label is true or predicted"


class TaskSettings(Settings, total=False):
    """Arguments of every `ConfusionMetric`."""

    task: Literal["binary", "multiclass", "multilabel"] | None
    num_classes: int | None
    num_labels: int | None
    threshold: float
    from_logits: bool
    ignore_index: int | Sequence[int] | None
    class_axis: int | None
    top_k: int


class AveragedSettings(TaskSettings, total=False):
    """Arguments of every metric that averages over classes."""

    average: Literal["auto", "binary", "micro", "macro", "weighted", "samples", "none"] | None


class OneValue(TaskSettings, total=False):
    """Arguments of a metric whose value is one number."""

    average: Literal["auto", "binary", "micro", "macro", "weighted", "samples"]


class ValueEach(TaskSettings, total=False):
    """Arguments of a metric whose value has a number for each class or label."""

    average: Required[Literal["none"] | None]


class OfTask(WithoutColumns[Value], Undefinable[Value]):
    """A metric of the classes that are predicted."""

    task: Task

    @property
    def cell_states(self) -> tuple[str, ...]:
        """See `Metric.cell_states`; several labels have several matrices of the same samples."""
        return () if self.task.kind == "multilabel" else tuple(self.states)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return self.task.rules_for(batch)


class OfConfusion(OfTask[Value]):
    """A metric of the confusion matrix of its `task`."""

    pictures: tuple[str, ...] = ("confusion_matrix",)

    class_axis: int | None
    requirements: tuple[str | Requirement, ...]

    def _declare_states(self) -> None:
        self.declare("confusion", self.task.shape, statistic=confusion, settings=("task",))

    def _add_plain(self, prediction: Any, label: Any) -> bool:
        """Count arrays of predicted classes and labels; see `Accumulator._add_plain`."""
        if not type(prediction) is type(label) is np.ndarray or prediction.shape != label.shape or not label.size:
            return False
        if not (self.validate and self._counts_plainly) or {prediction.dtype.kind, label.dtype.kind} - {"i", "u"}:
            return False
        matrix = self.states["confusion"]
        before = matrix.value
        if matrix.static is not None or not (
            before is None or (type(before) is np.ndarray and before.dtype == np.int64)
        ):
            return False
        if label.ndim > 1:
            axis = -1 if self.class_axis is None else self.class_axis
            if not -label.ndim <= axis < label.ndim or self.earlier.of == CLASSES:
                return False
            if not surely_entries(prediction, label, axis % label.ndim):
                return False
        counts = confusion_of(prediction, label, self.task.size, self.task.ignore_index)
        if counts is None:
            return False
        matrix.value = counts if before is None else before + counts
        if label.ndim > 1:
            self.earlier = AS_ENTRIES
        return True

    @functools.cached_property
    def _counts_plainly(self) -> bool:
        """Whether it counts and requires what this class does; a user's class may require more."""
        plain = self._filled_by == {"confusion": (confusion, [self.task])}
        of_classes = self.task.kind == "multiclass" and self.task.top_k == 1 and self.requirements == self.task.rules
        return plain and of_classes and type(self).__module__.startswith("fleetmetrics.")


class ConfusionMetric(OfConfusion[Value]):
    """A metric of the confusion matrix; arguments as for `Precision`."""

    class_axis: int | None
    pictures: tuple[str, ...] = OfConfusion.pictures
    requirements: tuple[str | Requirement, ...]
    task: Task

    tasks: tuple[str, ...] = TASKS
    #: With ``top_k`` the prediction depends on the label: this suits counts of each class, but not agreement.
    takes_top_k = False

    def __init__(
        self,
        *,
        task: Literal["binary", "multiclass", "multilabel"] | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        threshold: float = 0.5,
        from_logits: bool = False,
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = None,
        top_k: int = 1,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.class_axis = class_axis_of(class_axis)
        allowed = type(self).tasks
        self.task = task_of(
            task, num_classes, num_labels, threshold, from_logits, ignore_index, top_k=top_k, allowed=allowed
        )
        if self.task.kind == "multiclass":
            self.task = self.task._replace(from_logits=False)  # softmax does not change which score is the highest
        if self.task.top_k > 1 and not type(self).takes_top_k:
            raise InvalidInputError(
                f"top_k must be 1 for {type(self).__name__}, not {top_k!r}: the predicted classes would depend on the "
                "label"
            )
        self.settle(**self.task.settings)
        if self.task.kind == "multilabel":
            self.pictures = ()  # it has several matrices
        self.requirements = self.task.rules
        self._declare_states()


def _averages(function: Any, name: str, reason: str, *settings: str) -> Any:
    """A metric's ``formula``: a function of the confusion matrix, or the mean over samples.

    Args:
        function: of `fleetmetrics.formulas`.
        name: the metric's, in warnings.
        reason: describes a sample without a value.
        *settings: further settings of the function.
    """
    of_confusion = formula_of(function, "average", "zero_division", *settings)

    def formula(self: Any, **states: np.ndarray) -> Any:
        if "confusion" in states:
            return of_confusion(self, **states)
        return formulas.mean_of_samples.bare(**states, metric=name, reason=reason, zero_division=self.zero_division)

    return formula


class _Averaged(ConfusionMetric[Value]):
    better = "higher"
    takes_top_k = True
    average: str | None
    #: The contribution of each cell, by label and prediction, to numerator and denominator.
    parts: tuple[Cells, Cells]

    @property
    def quotient(self) -> Quotient | None:
        if self.average != "binary":
            return None
        numerator, denominator = self.parts
        return Quotient({"confusion": numerator}, {"confusion": denominator}, highest=1)

    def __init__(
        self,
        *,
        average: Literal["auto", "binary", "micro", "macro", "weighted", "samples", "none"] | None = "auto",
        **settings: Unpack[TaskSettings],
    ) -> None:
        self.average = average
        super().__init__(**settings)
        self.settle(average=self.average or "none")

    def _declare_states(self) -> None:
        self.average = average_of(self.task, self.average)
        if self.average != "samples":
            super()._declare_states()
            return
        self.declare("shares", dtype="float64", statistic=sum_of_shares, settings=("task", "parts"))
        self.declare("defined", statistic=rows_with_share, settings=("task", "parts"))
        rows = ("rows", self.task.size, self.task.ignore_index)
        self.declare("rows", key=rows, statistic=number_of_rows, settings=("task",))


class Precision(_Averaged[Value]):
    """Share of the predictions of a class that are correct; positive predictive value.

    Formula: ``tp / (tp + fp)`` per class, from one confusion matrix; averages as in scikit-learn, see
    `fleetmetrics.formulas.f_beta`. ``add(prediction, label)`` takes, by task:

    - ``"binary"``: probabilities of class 1 of the label's shape or ``[n, 2]`` of both classes (class 1 is predicted
      above ``threshold``), or predicted classes, integers or bools; labels 0 or 1. ``[n, 1]`` equals ``[n]``;
    - ``"multiclass"``: scores ``[n, num_classes]`` with labels ``[n]``, or of more axes, with one more than the label
      (see ``class_axis``): the class of the highest score is predicted, the lowest class if several tie (see
      ``top_k``); or predicted classes of the label's shape;
    - ``"multilabel"``: probabilities, or 0 and 1, ``[n, num_labels]`` with labels 0 or 1 of the same shape.

    Undefined for a class that was never predicted, and without samples; averages leave such a class out, or take
    ``zero_division`` for it.

    Args:
        task: ``"binary"``, ``"multiclass"`` or ``"multilabel"``; None: multiclass with ``num_classes``, multilabel with
            ``num_labels``, else binary.
        num_classes: the number of classes, at least 2; with ``"multiclass"`` only.
        num_labels: the number of labels of a sample; with ``"multilabel"`` only.
        threshold: probability in [0, 1] above which class 1 is predicted; not for ``"multiclass"``.
        average: ``"micro"``, ``"macro"`` (the default), ``"weighted"``, or None (or ``"none"``) for a value per class
            or label. Leave it out for the binary task, whose value is that of class 1. ``"samples"``, with
            ``"multilabel"`` only: the mean of the values of the rows, each over its own labels; weight and mask then
            have one entry per row, and a row whose labels are all ignored does not count.
        from_logits: predictions are logits: their sigmoid is compared with the threshold; without effect on
            the highest of several scores.
        ignore_index: samples (for ``"multilabel"``: single labels) with this label, or one of several in a list, do not
            count, for any prediction. It may be any integer, negative or one of the classes. In a collection, members
            without it count such labels or reject them.
        class_axis: the axis of the scores that holds the classes; None: the last. 1 for images ``[n, num_classes,
            height, width]`` with labels ``[n, height, width]``. Each position then counts as a sample, and weights and
            masks are per row ``[n]`` or per position. Members of a collection get the same scores: the axis that one of
            them names holds for all.
        top_k: a label among the ``top_k`` highest of the scores ``[n, num_classes]`` counts as predicted, otherwise
            the class of the highest score does; at least 1, more than 1 with ``"multiclass"`` only.

    Examples:
        >>> metric = Precision(task="multiclass", num_classes=3)
        >>> metric.add([0, 1, 2, 2], [0, 1, 1, 2])
        >>> metric.compute()
        0.8333333333333334
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Precision[float], **settings: Unpack[OneValue]) -> None: ...
        @overload
        def __init__(self: Precision[np.ndarray], **settings: Unpack[ValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AveragedSettings]) -> None: ...

    parts: tuple[Cells, Cells] = ((0, 0), (0, 1)), ((0, 1), (0, 1))
    formula: Any = _averages(formulas.precision, "precision", "no label is predicted")


class Recall(_Averaged[Value]):
    """Share of the samples of a class that were predicted as such; sensitivity, true positive rate, hit rate.

    Formula: ``tp / (tp + fn)`` per class. Undefined for a class that is never true. Otherwise like `Precision`.

    Examples:
        >>> metric = Recall()
        >>> metric.add([0.25, 0.75, 0.75], [1, 1, 0])
        >>> metric.compute()
        0.5
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Recall[float], **settings: Unpack[OneValue]) -> None: ...
        @overload
        def __init__(self: Recall[np.ndarray], **settings: Unpack[ValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AveragedSettings]) -> None: ...

    parts: tuple[Cells, Cells] = ((0, 0), (0, 1)), ((0, 0), (1, 1))
    formula: Any = _averages(formulas.recall, "recall", "no label is true")


class Specificity(_Averaged[Value]):
    """Share of the samples outside a class that were not predicted as that class; selectivity, true negative rate.

    Formula: ``tn / (tn + fp)`` per class. Undefined for a class that is always true. Otherwise like `Precision`.

    Examples:
        >>> metric = Specificity()
        >>> metric.add([0.25, 0.75, 0.75], [0, 1, 0])
        >>> metric.compute()
        0.5
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Specificity[float], **settings: Unpack[OneValue]) -> None: ...
        @overload
        def __init__(self: Specificity[np.ndarray], **settings: Unpack[ValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AveragedSettings]) -> None: ...

    parts: tuple[Cells, Cells] = ((1, 0), (0, 0)), ((1, 1), (0, 0))
    formula: Any = _averages(formulas.specificity, "specificity", "every label is true")


class FBeta(_Averaged[Value]):
    """Weighted harmonic mean of precision and recall.

    Formula: ``(1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)`` per class. Undefined for a class that
    is neither true nor predicted.

    Args:
        beta: the importance of recall relative to precision, at least 0.
        **settings: as for `Precision`.

    Examples:
        >>> metric = FBeta(beta=2)
        >>> metric.add([1, 1, 0, 1], [1, 1, 1, 0])
        >>> metric.compute()
        0.6666666666666666
    """

    beta: float
    parts: tuple[Cells, Cells]

    formula: Any = _averages(formulas.f_beta, "f_beta", _NEITHER, "beta")

    @overload
    def __init__(self: FBeta[float], beta: float = 1.0, **settings: Unpack[OneValue]) -> None: ...
    @overload
    def __init__(self: FBeta[np.ndarray], beta: float = 1.0, **settings: Unpack[ValueEach]) -> None: ...
    def __init__(self, beta: float = 1.0, **settings: Unpack[AveragedSettings]) -> None:
        is_number = isinstance(beta, (int, float, np.number)) and not isinstance(beta, bool)
        if not is_number or not 0 <= beta <= math.inf:
            raise InvalidInputError(f"beta must be a number from 0 to inf, not {beta!r}")
        try:
            self.beta = float(beta)
        except OverflowError:  # an int that no float holds
            self.beta = math.inf
        square = min(self.beta, 1e100) ** 2  # a larger one changes no digit
        self.parts = ((0, 0), (0, 1 + square)), ((0, 1), (square, 1 + square))
        if math.isinf(self.beta):
            self.parts = Recall.parts
        self.settle(beta=self.beta)
        super().__init__(**settings)


class F1(_Averaged[Value]):
    """Harmonic mean of precision and recall; Dice coefficient.

    Formula: ``2 * tp / (2 * tp + fn + fp)`` per class. Undefined for a class that is neither true nor predicted.
    Otherwise like `Precision`.

    Examples:
        >>> metric = F1()
        >>> metric.add([0.1, 0.6, 0.7, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.8
        >>> metric = F1(task="multiclass", num_classes=3, average=None)
        >>> metric.add([0, 1, 2, 1], [0, 1, 2, 2])
        >>> metric.compute().tolist()
        [1.0, 0.6666666666666666, 0.6666666666666666]
        >>> metric = F1(task="multilabel", num_labels=2, average=None)
        >>> metric.add([[0.75, 0.25], [0.75, 0.75]], [[1, 1], [1, 1]])
        >>> metric.compute().tolist()
        [1.0, 0.6666666666666666]
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: F1[float], **settings: Unpack[OneValue]) -> None: ...
        @overload
        def __init__(self: F1[np.ndarray], **settings: Unpack[ValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AveragedSettings]) -> None: ...

    parts: tuple[Cells, Cells] = ((0, 0), (0, 2)), ((0, 1), (1, 2))
    formula: Any = _averages(formulas.f_beta, "f1", _NEITHER)


class Jaccard(_Averaged[Value]):
    """Intersection over union of the samples of a class and the samples predicted as that class.

    Formula: ``tp / (tp + fp + fn)`` per class. Undefined for a class that is neither true nor predicted. Otherwise
    like `Precision`.

    Examples:
        >>> metric = Jaccard()
        >>> metric.add([1, 1, 0, 1], [1, 1, 1, 0])
        >>> metric.compute()
        0.5
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Jaccard[float], **settings: Unpack[OneValue]) -> None: ...
        @overload
        def __init__(self: Jaccard[np.ndarray], **settings: Unpack[ValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AveragedSettings]) -> None: ...

    parts: tuple[Cells, Cells] = ((0, 0), (0, 1)), ((0, 1), (1, 1))
    formula: Any = _averages(formulas.jaccard, "jaccard", _NEITHER)


class StatScores(ConfusionMetric[np.ndarray]):
    """True positives, false positives, true negatives, false negatives and support, in this order.

    Formula: see `fleetmetrics.formulas.stat_scores`. An array ``[5]`` for the binary task (class 1) and ``"micro"``;
    otherwise ``[classes, 5]`` or ``[labels, 5]``. int64; with weights, float64; zeros without samples. Otherwise like
    `Precision`.

    Args:
        average: ``"micro"`` for the sums over classes or labels; None (the default, or ``"none"``) for a row each.
        **settings: as for `Precision`.

    Examples:
        >>> metric = StatScores()
        >>> metric.add([1, 1, 0, 1], [1, 1, 1, 0])
        >>> metric.compute().tolist()
        [2, 1, 0, 1, 3]
    """

    gives = "counts"
    takes_top_k = True
    formula: Any = formula_of(formulas.stat_scores, "average")

    def __init__(self, *, average: Literal["micro", "none"] | None = None, **settings: Unpack[TaskSettings]) -> None:
        super().__init__(**settings)
        choice_of("average", average, ("micro", "none", None))
        self.average = "binary" if self.task.kind == "binary" else average
        self.settle(average=self.average or "none")
