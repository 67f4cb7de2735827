"""Metrics of a whole confusion matrix."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.metric import formula_of
from fleetmetrics.metrics.classification.averaged import ConfusionMetric, TaskSettings
from fleetmetrics.support.checks import choice_of, flag_of
from fleetmetrics.support.typed import Unpack

__all__ = ["BalancedAccuracy", "CohenKappa", "ConfusionMatrix", "HammingLoss", "MatthewsCorrelation"]


class ConfusionMatrix(ConfusionMetric[np.ndarray]):
    """How often each class was predicted for each true class.

    Formula: ``n[i, j] = sum(w * [y = i] * [p = j])``, the samples of class i that were predicted as class j: rows true,
    columns predicted, ``[classes, classes]``. For multilabel, one matrix per label, ``[labels, 2, 2]``, as in
    scikit-learn's ``multilabel_confusion_matrix``. int64; with weights, float64. The shares of an empty row, column or
    matrix are undefined; scikit-learn returns 0 (``zero_division=0``).

    Args:
        normalize: ``"true"``: shares of each row; ``"pred"``: of each column; ``"all"``: of all samples; None: counts.
        **settings: as for `Precision`, without ``average`` and ``top_k``.

    Examples:
        >>> metric = ConfusionMatrix()
        >>> metric.add([0.25, 0.75, 0.75], [0, 1, 0])
        >>> metric.compute().tolist()
        [[1, 1], [0, 1]]
    """

    gives = "counts"
    formula: Any = formula_of(formulas.normalized_confusion, "normalize", "zero_division")

    def __init__(
        self, *, normalize: Literal["true", "pred", "all"] | None = None, **settings: Unpack[TaskSettings]
    ) -> None:
        super().__init__(**settings)
        choice_of("normalize", normalize, ("true", "pred", "all", None))
        self.normalize = normalize


class BalancedAccuracy(ConfusionMetric[float]):
    """Mean recall of the classes: accuracy in which every class has the same weight.

    Formula: see `fleetmetrics.formulas.balanced_accuracy`; as in scikit-learn, classes that are never true are left
    out. The binary task has two classes; for multilabel, the value is the mean of the labels' balanced accuracies.
    Undefined without samples, and with ``adjusted`` if only one class is true.

    Args:
        adjusted: rescale so that chance is 0 and a perfect prediction 1.
        **settings: as for `Precision`, without ``average`` and ``top_k``.

    Examples:
        >>> metric = BalancedAccuracy()
        >>> metric.add([0, 1, 1, 1], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
    """

    adjusted: bool

    better = "higher"
    formula: Any = formula_of(formulas.balanced_accuracy, "adjusted", "zero_division")

    def __init__(self, *, adjusted: bool = False, **settings: Unpack[TaskSettings]) -> None:
        super().__init__(**settings)
        self.adjusted = flag_of("adjusted", adjusted)


class CohenKappa(ConfusionMetric[float]):
    """Agreement of prediction and label beyond chance, for two classes or more.

    Formula: see `fleetmetrics.formulas.cohen_kappa`. With ``weights``, the distance of two classes is that of their
    numbers, even if the classes in between do not occur (as in scikit-learn with ``labels=range(num_classes)``).
    Undefined without samples, and if all labels and predictions are of one class.

    Args:
        weights: the cost of confusing two classes. None: 1; ``"linear"``: their distance; ``"quadratic"``: its square.
        **settings: as for `Precision`, without ``average``, ``top_k`` and ``num_labels``.

    Examples:
        >>> metric = CohenKappa(task="multiclass", num_classes=3, weights="linear")
        >>> metric.add([0, 1, 2, 1], [0, 1, 2, 2])
        >>> metric.compute()
        0.7142857142857143
    """

    better = "higher"
    tasks: tuple[str, ...] = ("binary", "multiclass")
    formula: Any = formula_of(formulas.cohen_kappa, "weights", "zero_division")

    def __init__(
        self, *, weights: Literal["linear", "quadratic"] | None = None, **settings: Unpack[TaskSettings]
    ) -> None:
        super().__init__(**settings)
        choice_of("weights", weights, ("linear", "quadratic", None))
        self.weights = weights


class MatthewsCorrelation(ConfusionMetric[float]):
    """Correlation of prediction and label: the phi coefficient, or Gorodkin's R_K for several classes.

    Formula: see `fleetmetrics.formulas.matthews_correlation`. For multilabel, the correlation over all labels together.
    Undefined if only one class is true or only one is predicted (scikit-learn returns 0: ``zero_division=0``), and
    without samples. Otherwise like `Precision`, without ``average``.

    Examples:
        >>> metric = MatthewsCorrelation()
        >>> metric.add([0, 1, 1, 0], [0, 1, 1, 0])
        >>> metric.compute()
        1.0
    """

    better = "higher"
    formula: Any = formula_of(formulas.matthews_correlation, "zero_division")


class HammingLoss(ConfusionMetric[float]):
    """Share of wrong predictions, by sample and label; Hamming distance.

    Formula: ``1 - accuracy``; for multilabel, over all labels together: a sample counts once per label. Undefined
    without samples. Otherwise like `Precision`, without ``average``.

    Examples:
        >>> metric = HammingLoss(task="multilabel", num_labels=2)
        >>> metric.add([[1, 0], [1, 1]], [[1, 1], [1, 1]])
        >>> metric.compute()
        0.25
    """

    better = "lower"
    formula: Any = formula_of(formulas.hamming_loss, "zero_division")
