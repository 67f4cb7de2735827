"""Classification metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metric import Metric

__all__ = ["Accuracy", "LogLoss"]


@statistic
def _correct(batch: Batch, top_k: int, threshold: float) -> Any:
    if batch.classes:
        right = batch.xp.rank_of_label(batch.prediction, batch.labels) < top_k
    elif batch.xp.kind(batch.prediction) == "f":
        right = batch.xp.equal(batch.xp.greater(batch.prediction, threshold), batch.positive)
    else:
        right = batch.xp.equal(batch.prediction, batch.labels)
    return batch.weighted_sum(right)


class Accuracy(Metric):
    """Share of samples that are predicted right; with ``top_k``, whose label is among the k highest scores.

    Formula: ``sum(w * [right]) / sum(w)``. What is right depends on what ``add(prediction, label)`` is given:

    - floats ``[n, classes]`` and integer labels ``[n]`` or ``[n, 1]``: fewer than ``top_k`` classes come before
      the label's. Equal scores are ordered by class, the lower one first, as in ``numpy.argmax``;
    - floats of the label's shape: probabilities (or scores) of class 1, right if ``(p > threshold) == label``;
    - integers or bools of the label's shape: predicted classes, right if equal.

    ``[n, 1]`` equals ``[n]``. Undefined without samples: nan with
    `UndefinedMetricWarning`.

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        top_k: how many of the highest scores may hold the label, at least 1.
        threshold: above which a single score means class 1.
        validate: False skips the check that predictions are finite, labels one of the classes (0 or 1 beside
            single scores), and weights at least 0.
        share: in a static program, share the variables of an earlier metric of this name.

    Raises:
        InvalidInputError: ``top_k`` is no integer of at least 1, or ``threshold`` no finite number.

    Examples:
        >>> metric = Accuracy(top_k=2)
        >>> metric.add([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], [1, 2])
        >>> metric.compute()
        0.5
    """

    requirements = ("finite_prediction", "class_label")

    def __init__(
        self,
        name: str | None = None,
        *,
        top_k: int = 1,
        threshold: float = 0.5,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, validate=validate, share=share)
        if not isinstance(top_k, (int, np.integer)) or isinstance(top_k, bool) or top_k < 1:
            raise InvalidInputError(f"top_k must be an integer of at least 1, not {top_k!r}")
        if not isinstance(threshold, (int, float, np.number)) or not np.isfinite(threshold):
            raise InvalidInputError(f"threshold must be a finite number, not {threshold!r}")
        self.top_k, self.threshold = int(top_k), float(threshold)
        self.declare("correct", key=("correct", self.top_k, self.threshold))
        self.declare("total", key="total")

    def requirements_of(self, batch: Batch) -> tuple[str, ...]:
        predicted_classes = not batch.classes and batch.xp.kind(batch.prediction) != "f"
        return ("finite_label",) if predicted_classes else self.requirements

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"correct": _correct(batch, self.top_k, self.threshold), "total": batch.total}

    def formula(self, correct: np.ndarray, total: np.ndarray) -> float:
        return formulas.accuracy(correct, total)


#: The label's probability counts as at least this, as in scikit-learn for float64: a loss stays finite.
_EPSILON = float(np.finfo(np.float64).eps)


@statistic
def _log_likelihood(batch: Batch) -> Any:
    xp = batch.xp
    of_label = xp.where(batch.positive, batch.probabilities, 1.0 - batch.probabilities)
    return batch.weighted_sum(xp.log(xp.at_least(of_label, _EPSILON)), zero_at_zero=True)


class LogLoss(Metric):
    """Mean negative log-likelihood of binary labels, in nats (cross-entropy).

    Formula: ``-sum(w * ln(max(q, 2**-52))) / sum(w)``, where ``q`` is the probability that was given to the true
    label, ``p`` or ``1 - p``; in float64 whatever the dtype of the inputs.

    ``add(prediction, label)`` takes probabilities of class 1 of the label's shape (``[n, 1]`` equals ``[n]``), or
    ``[n, 2]`` probabilities of both classes, and labels 0 or 1. Undefined without samples: nan with
    `UndefinedMetricWarning`.

    Source: Bishop, Pattern Recognition and Machine Learning (2006), equation 4.90.

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        validate: False skips the check that predictions are probabilities, labels 0 or 1, and weights at
            least 0.
        share: in a static program, share the variables of an earlier metric of this name.

    Examples:
        >>> metric = LogLoss()
        >>> metric.add([0.5, 0.5], [0, 1])
        >>> metric.compute()
        0.6931471805599453
    """

    requirements = ("probability", "class_label")

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        super().__init__(name, validate=validate, share=share)
        self.declare("log_likelihood", dtype="float64", key="log_likelihood")
        self.declare("total", key="total")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"log_likelihood": _log_likelihood(batch), "total": batch.total}

    def formula(self, log_likelihood: np.ndarray, total: np.ndarray) -> float:
        return formulas.log_loss(log_likelihood, total)
