"""Losses of probabilities and of decision values."""

from __future__ import annotations

import math
from typing import Any, Literal, Sequence, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Declared, Quotient, Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import ratios
from fleetmetrics.metrics import task as tasks
from fleetmetrics.metrics.task import DISTRIBUTION, Task, check_scores
from fleetmetrics.support.checks import choice_of, flag_of
from fleetmetrics.support.typed import Unpack

__all__ = ["HingeLoss", "LogLoss"]

#: The lowest probability of a label, as in scikit-learn for float64: keeps the loss finite.
LOWEST = float(np.finfo(np.float64).eps)


def log_sigmoid(xp: Any, x: Any) -> Any:
    """The logarithm of the sigmoid: ``min(x, 0) - log(1 + exp(-|x|))``."""
    return -xp.add(xp.at_least(-x, 0.0), xp.log1p(xp.exp(-xp.absolute(x))))


def _of_binary_label(xp: Any, positive: Any, p: Any) -> Any:
    """``p``, or ``1 - p`` where a label is 0, and at least `LOWEST`.

    It is computed as a distance, which takes half the time of a choice for each sample.
    """
    return xp.at_least(xp.absolute(xp.subtract(p, xp.cast(xp.logical_not(positive), "float64"))), LOWEST)


@per_sample
def _likelihoods(batch: Batch) -> Any:
    """The probability of each binary label; 1 for samples that do not count."""
    return _of_binary_label(batch.xp, batch.positive, batch.probabilities)


@per_sample
def _binary_log_likelihoods(batch: Batch) -> Any:
    return batch.xp.log(_likelihoods(batch))


@statistic
def _binary_log_likelihood(batch: Batch) -> Any:
    if batch.weight is None and batch.lanes is None:
        return batch.sum_of_logs(_likelihoods(batch))
    return batch.weighted_sum(_binary_log_likelihoods(batch), zero_at_zero=True)


_BINARY = Task("binary", 2)
#: The sum of the log-probabilities of binary labels.
LOG_LIKELIHOOD = Declared("log_likelihood", dtype="float64", key="log_likelihood", statistic=_binary_log_likelihood)


@per_sample
def _log_likelihoods(batch: Batch, task: Task) -> Any:
    """The log-probability of each label; 0 where it is ignored."""
    xp = batch.xp
    if task.kind == "multiclass":
        values = tasks.of_scores(batch, task, log_softmax if task.from_logits else _log_of_label)
    elif task.from_logits:
        own = _signed(batch, task, tasks.logits(batch, task))
        values = log_sigmoid(xp, own)
    else:
        p = tasks.of_scores(batch, task, _second) if batch.classes else tasks.numbers(batch, task)
        values = xp.log(_of_binary_label(xp, xp.cast(tasks.label_classes(batch, task), "bool"), p))
    return tasks.zero_unless(batch, tasks.counted(batch, task), values)


@statistic
def _log_likelihood(batch: Batch, task: Task) -> Any:
    task = task.of(batch)
    if task == _BINARY:
        return _binary_log_likelihood(batch)
    values = _log_likelihoods(batch, task)
    if task.kind == "multilabel":
        return batch.histogram(batch.label_index, amount=values)
    return batch.weighted_sum(values)


def _signed(batch: Batch, task: Task, values: Any) -> Any:
    return batch.xp.where(batch.xp.cast(tasks.label_classes(batch, task), "bool"), values, -values)


def log_softmax(xp: Any, logits: Any, label: Any) -> Any:
    """The logarithm of the probability that logits ``[n, classes]`` give the label, float64 ``[n]``."""
    return xp.subtract(_of_label(xp, logits, label), xp.log_sum_of_rows(logits))


def _log_of_label(xp: Any, probabilities: Any, label: Any) -> Any:
    return xp.log(xp.at_least(_of_label(xp, probabilities, label), LOWEST))


def _of_label(xp: Any, scores: Any, label: Any) -> Any:
    """The score of the label's class, float64 ``[n]``."""
    return xp.cast(xp.score_of_label(scores, label), "float64")


def _second(xp: Any, scores: Any, _: Any) -> Any:
    return xp.cast(scores[:, 1], "float64")


class _OfScores(WithoutColumns[Value], Undefinable[Value]):
    """A metric of the scores of a task."""

    better = "lower"
    task: Task

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return probability_rules_of(check_scores(self.task, batch), batch.classes)


class LossSettings(Settings, total=False):
    """Arguments of `LogLoss`, without ``average``."""

    task: Literal["binary", "multiclass", "multilabel"] | None
    num_classes: int | None
    num_labels: int | None
    from_logits: bool
    ignore_index: int | Sequence[int] | None
    class_axis: int | None


_MEAN_LOSS = Quotient({"log_likelihood": -1})


class LogLoss(_OfScores[Value]):
    """Mean negative log-likelihood of the labels, in nats (cross-entropy).

    Formula: ``-sum(w * ln(max(q, 2**-52))) / sum(w)``, where ``q`` is the probability given to the true label, ``p`` or
    ``1 - p``; in float64 for inputs of any dtype. For logits, ``ln(q)`` is computed directly and has no lower bound.

    ``add(prediction, label)`` takes, by task:

    - ``"binary"``: probabilities of class 1 of the label's shape (``[n, 1]`` equals ``[n]``), or ``[n, 2]``
      probabilities of both classes that add up to 1, and labels 0 or 1;
    - ``"multiclass"``: probabilities ``[n, classes]`` that add up to 1, and labels ``[n]``; or of more axes, with one
      more than the label (see ``class_axis``);
    - ``"multilabel"``: probabilities ``[n, num_labels]`` with labels 0 or 1 of the same shape.

    Undefined without samples.

    Args:
        task: ``"binary"``, ``"multiclass"`` or ``"multilabel"``; None: multiclass with ``num_classes``, multilabel with
            ``num_labels``, multiclass with scores of three or more classes, else binary.
        num_classes: the number of classes, at least 2; with ``"multiclass"`` only. None: that of the scores.
        num_labels: the number of labels of a sample; with ``"multilabel"`` only.
        average: for several labels: ``"macro"``, the mean of their losses; ``"micro"``, in which each label of each
            sample counts once; or None (or ``"none"``), an array of their losses.
        from_logits: predictions are logits: the sigmoid is applied, for several classes (and ``[n, 2]``) the softmax.
        ignore_index: samples (for ``"multilabel"``: single labels) with this label, or one of several in a list, do
            not count.
        class_axis: as for `Precision`.

    Examples:
        >>> metric = LogLoss()
        >>> metric.add([0.5, 0.5], [0, 1])
        >>> metric.compute()
        0.6931471805599453
    """

    class_axis: int | None
    requirements: tuple[str | Requirement, ...]
    task: Task

    @property
    def quotient(self) -> Quotient | None:
        return None if self.task.kind == "multilabel" else _MEAN_LOSS

    def formula(self, log_likelihood: np.ndarray, total: np.ndarray) -> Any:
        if log_likelihood.ndim == 0:
            return super().formula(log_likelihood=log_likelihood, total=total)
        loss = 0.0 - log_likelihood  # 0.0, not -0.0, if all predictions are certain and right
        if self.average == "micro" or (self.average == "macro" and not total.any()):
            return self._ratio(loss.sum(), total.sum())
        values = ratios(loss, total, self._title, self.zero_division, "label")
        defined = (total != 0) | (not math.isnan(self.zero_division))
        return float(np.mean(values[defined])) if self.average == "macro" else values

    @overload
    def __init__(
        self: LogLoss[float], *, average: Literal["micro", "macro"] = "macro", **settings: Unpack[LossSettings]
    ) -> None: ...
    @overload
    def __init__(
        self: LogLoss[np.ndarray], *, average: Literal["none"] | None, **settings: Unpack[LossSettings]
    ) -> None: ...
    def __init__(
        self,
        *,
        task: Literal["binary", "multiclass", "multilabel"] | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Literal["micro", "macro", "none"] | None = "macro",
        from_logits: bool = False,
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.task = tasks.task_of(task, num_classes, num_labels, 0.5, from_logits, ignore_index, by_shape=True)
        self.class_axis = tasks.class_axis_of(class_axis)
        choice_of("average", average, ("micro", "macro", "none", None))
        if average != "macro" and self.task.kind != "multilabel":
            raise InvalidInputError("average needs task='multilabel'; without num_labels= there is one loss")
        self.average = average
        self.settle(**self.task.settings, average=average or "none")
        self.requirements = probability_rules_of(self.task, 3 if self.task.kind == "multiclass" else 0)
        shape = (self.task.size,) if self.task.kind == "multilabel" else ()
        shared = LOG_LIKELIHOOD.key if self.task in (_BINARY, Task("any", 0)) else None
        self.declare("log_likelihood", shape, "float64", key=shared, statistic=_log_likelihood, settings=("task",))
        self.declare("total", shape, key=tasks.total_key(self.task), statistic=tasks.counted_total, settings=("task",))


def probability_rules_of(task: Task, classes: int) -> tuple[Requirement | str, ...]:
    """The requirements of probabilities of ``classes`` (0: of one number for each label) and of labels."""
    rule: Requirement | str = DISTRIBUTION if classes else "probability_or_logits"
    if task.from_logits:
        rule = "class_scores"
    return (tasks.unless_ignored(rule, task.ignore_index), task.label_rule)


@statistic
def _hinge(batch: Batch, task: Task, squared: bool) -> Any:
    xp, task = batch.xp, task.of(batch)
    if task.kind == "multiclass":
        margin = tasks.of_scores(batch, task, _margin)
    else:
        margin = _signed(batch, task, tasks.logits(batch, task))
    loss = xp.at_least(1.0 - margin, 0.0)
    return batch.weighted_sum(
        tasks.zero_unless(batch, tasks.counted(batch, task), xp.square(loss) if squared else loss)
    )


def _margin(xp: Any, scores: Any, label: Any) -> Any:
    """The score of the label less the highest of the others."""
    scores = xp.cast(scores, "float64")
    is_label = xp.equal(xp.arange(scores.shape[1]), xp.reshape(label, [-1, 1]))
    others = xp.where(is_label, xp.full_like(scores, -math.inf), scores)
    return xp.subtract(_of_label(xp, scores, label), xp.largest_of_rows(others))


class HingeLoss(_OfScores[float]):
    """Mean hinge loss of decision values.

    Formula: ``sum(w * max(0, 1 - m)) / sum(w)``, where m is the margin: the decision value, negated for class 0; for
    several classes, the label's decision value minus the highest of the others (Crammer and Singer).

    ``add(prediction, label)`` takes finite decision values: of the label's shape with labels 0 or 1 (not -1), or ``[n,
    classes]`` with labels ``[n]``; for ``[n, 2]``, the decision value is the second column minus the first. Undefined
    without samples.

    Args:
        task: ``"binary"`` or ``"multiclass"``; None: multiclass with ``num_classes`` or scores of three or more
            classes, else binary.
        num_classes: as for `LogLoss`.
        squared: whether to square each sample's loss.
        ignore_index: samples with this label, or one of several in a list, do not count.
        class_axis: as for `Precision`.

    Examples:
        >>> metric = HingeLoss()
        >>> metric.add([-2.0, 0.5, 3.0], [0, 1, 1])
        >>> metric.compute()
        0.16666666666666666
    """

    class_axis: int | None
    requirements: tuple[str | Requirement, ...]
    squared: bool
    task: Task

    quotient: Quotient | None = Quotient({"loss": 1})

    def __init__(
        self,
        *,
        task: Literal["binary", "multiclass"] | None = None,
        num_classes: int | None = None,
        squared: bool = False,
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        allowed = ("binary", "multiclass")  # neither decision values nor logits are probabilities
        self.task = tasks.task_of(
            task, num_classes, from_logits=True, ignore_index=ignore_index, allowed=allowed, by_shape=True
        )
        self.class_axis = tasks.class_axis_of(class_axis)
        self.squared = flag_of("squared", squared)
        self.settle(**self.task.settings)
        self.requirements = probability_rules_of(self.task, 0)
        self.declare("loss", dtype="float64", statistic=_hinge, settings=("task", "squared"))
        self.declare("total", key=tasks.total_key(self.task), statistic=tasks.counted_total, settings=("task",))
