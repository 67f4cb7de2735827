"""Metrics of a whole confusion matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.arguments import choice_of, flag_of
from fleetmetrics.metrics.classification.averaged import ConfusionMetric, TaskSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["BalancedAccuracy", "CohenKappa", "ConfusionMatrix", "HammingLoss", "MatthewsCorrelation"]


class ConfusionMatrix(ConfusionMetric):
    """How often each class was predicted for each true class.

    Formula: entry (i, j) counts the samples of class i for which class j was predicted: rows true, columns
    predicted, ``[classes, classes]``. Of several labels one such matrix each, ``[labels, 2, 2]``, as scikit-learn's
    ``multilabel_confusion_matrix``. int64, with weights float64. Normalized, an empty row, column or matrix is
    undefined: nan with `UndefinedMetricWarning`, where scikit-learn has 0 (``zero_division=0``).

    Source: Stehman, "Selecting and interpreting measures of thematic classification accuracy", Remote Sensing of
    Environment 62 (1997).

    Elsewhere: `confusion_matrix`, `multilabel_confusion_matrix`.

    Args:
        normalize: ``"true"``: shares of each row; ``"pred"``: of each column; ``"all"``: of all samples; None: counts.
        **settings: as for `Precision`, without ``average`` and ``top_k``.

    Examples:
        >>> metric = ConfusionMatrix()
        >>> metric.add([0.25, 0.75, 0.75], [0, 1, 0])
        >>> metric.compute().tolist()
        [[1, 1], [0, 1]]
    """

    def __init__(
        self, *, normalize: Literal["true", "pred", "all"] | None = None, **settings: Unpack[TaskSettings]
    ) -> None:
        super().__init__(**settings)
        choice_of("normalize", normalize, ("true", "pred", "all", None))
        self.normalize = normalize

    def formula(self, confusion: np.ndarray) -> np.ndarray:
        return formulas.normalized_confusion(confusion, self.normalize, self.zero_division)


class BalancedAccuracy(ConfusionMetric):
    """Mean recall of the classes: accuracy with every class of the same weight.

    Formula: see `fleetmetrics.formulas.balanced_accuracy`: classes that are never true are left out, as in
    scikit-learn. The binary task has two classes; of several labels it is the mean of their balanced accuracies.
    Undefined without samples, and adjusted where one class only is true.

    Source: Brodersen et al., "The balanced accuracy and its posterior distribution", ICPR 2010.

    Elsewhere: `balanced_accuracy_score`.

    Args:
        adjusted: adjust for chance: 0 for chance, 1 for a perfect prediction.
        **settings: as for `Precision`, without ``average`` and ``top_k``.

    Examples:
        >>> metric = BalancedAccuracy()
        >>> metric.add([0, 1, 1, 1], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
    """

    def __init__(self, *, adjusted: bool = False, **settings: Unpack[TaskSettings]) -> None:
        super().__init__(**settings)
        self.adjusted = flag_of("adjusted", adjusted)

    def formula(self, confusion: np.ndarray) -> float:
        return formulas.balanced_accuracy(confusion, self.adjusted, self.zero_division)


class CohenKappa(ConfusionMetric):
    """Agreement of prediction and label beyond chance; of two classes or several.

    Formula: see `fleetmetrics.formulas.cohen_kappa`. Weighted, classes are as far apart as their numbers, whether
    those in between occur or not (scikit-learn's with ``labels=range(num_classes)``). Undefined without samples, and
    where one class only is both true and predicted.

    Source: Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20
    (1960); "Weighted kappa", Psychological Bulletin 70 (1968).

    Elsewhere: `cohen_kappa_score`, `Kappa`.

    Args:
        weights: how much a confusion of two classes counts: None: 1; ``"linear"``: their distance; ``"quadratic"``:
            its square.
        **settings: as for `Precision`, without ``average``, ``top_k`` and ``num_labels``.

    Examples:
        >>> metric = CohenKappa(task="multiclass", num_classes=3, weights="linear")
        >>> metric.add([0, 1, 2, 1], [0, 1, 2, 2])
        >>> metric.compute()
        0.7142857142857143
    """

    tasks = ("binary", "multiclass")

    def __init__(
        self, *, weights: Literal["linear", "quadratic"] | None = None, **settings: Unpack[TaskSettings]
    ) -> None:
        super().__init__(**settings)
        choice_of("weights", weights, ("linear", "quadratic", None))
        self.weights = weights

    def formula(self, confusion: np.ndarray) -> float:
        return formulas.cohen_kappa(confusion, self.weights, self.zero_division)


class MatthewsCorrelation(ConfusionMetric):
    """Correlation of prediction and label; the phi coefficient, of several classes Gorodkin's R_K.

    Formula: see `fleetmetrics.formulas.matthews_correlation`. Of several labels the correlation over all of them
    together. Undefined where one class only is true or one only predicted (scikit-learn has 0 there:
    ``zero_division=0``), and without samples. Otherwise like `Precision`, without ``average``.

    Source: Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme", Biochimica
    et Biophysica Acta 405 (1975); Gorodkin, "Comparing two K-category assignments by a K-category correlation
    coefficient", Computational Biology and Chemistry 28 (2004).

    Elsewhere: `MatthewsCorrCoef`, `matthews_corrcoef`, `MCC`.

    Examples:
        >>> metric = MatthewsCorrelation()
        >>> metric.add([0, 1, 1, 0], [0, 1, 1, 0])
        >>> metric.compute()
        1.0
    """

    def formula(self, confusion: np.ndarray) -> float:
        return formulas.matthews_correlation(confusion, self.zero_division)


class HammingLoss(ConfusionMetric):
    """Share of what was predicted wrong, by sample and label; Hamming distance.

    Formula: ``1 - accuracy``; of several labels over all of them together, a sample counting once per label.
    Undefined without samples. Otherwise like `Precision`, without ``average``.

    Source: Schapire and Singer, "BoosTexter: a boosting-based system for text categorization", Machine Learning 39
    (2000), section 2.

    Elsewhere: `hamming_loss`, `HammingDistance`.

    Examples:
        >>> metric = HammingLoss(task="multilabel", num_labels=2)
        >>> metric.add([[1, 0], [1, 1]], [[1, 1], [1, 1]])
        >>> metric.compute()
        0.25
    """

    def formula(self, confusion: np.ndarray) -> float:
        return formulas.hamming_loss(confusion, self.zero_division)
