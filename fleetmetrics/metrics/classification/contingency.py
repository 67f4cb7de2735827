"""Agreement of predicted clusters and classes; the numbers of the clusters mean nothing."""

from __future__ import annotations

from typing import Any

from fleetmetrics import formulas
from fleetmetrics.base.metric import formula_of
from fleetmetrics.metrics.classification.averaged import ConfusionMetric

__all__ = ["AdjustedRand", "CramersV", "NormalizedMutualInformation"]


class AdjustedRand(ConfusionMetric[float]):
    """Adjusted Rand index of predicted clusters and classes: their agreement on pairs of samples, beyond chance.

    Formula: see `fleetmetrics.formulas.adjusted_rand`. The clusters' numbers mean nothing: exchanging two of them
    changes nothing. Undefined without samples, and if all samples are in one class and in one cluster (scikit-learn
    returns 1: ``zero_division=1``). A sample of weight w counts as w samples: weights twice as large change the value,
    since it counts pairs; a total weight below 1 is undefined.

    Inputs and arguments as for `CohenKappa`, without ``weights``; ``num_classes`` is the larger number, of the classes
    or of the clusters.

    Examples:
        >>> metric = AdjustedRand(num_classes=3)
        >>> metric.add([2, 2, 0, 0], [0, 0, 1, 1])
        >>> metric.compute()
        1.0
    """

    better = "higher"
    tasks: tuple[str, ...] = ("binary", "multiclass")
    formula: Any = formula_of(formulas.adjusted_rand, "zero_division")


class NormalizedMutualInformation(ConfusionMetric[float]):
    """Normalized mutual information of predicted clusters and classes: 1 if each tells the other, 0 if neither does.

    Formula: see `fleetmetrics.formulas.normalized_mutual_information`, with the arithmetic mean of the entropies.
    Otherwise like `AdjustedRand`.

    Examples:
        >>> metric = NormalizedMutualInformation(num_classes=3)
        >>> metric.add([2, 2, 0, 0], [0, 0, 1, 1])
        >>> metric.compute()
        1.0
    """

    better = "higher"
    tasks: tuple[str, ...] = ("binary", "multiclass")
    formula: Any = formula_of(formulas.normalized_mutual_information, "zero_division")


class CramersV(ConfusionMetric[float]):
    """Cramer's V of predicted clusters and classes: the strength of their association, from chi-squared.

    Formula: see `fleetmetrics.formulas.cramers_v`, without a correction for bias. Undefined without samples, and if one
    class only is true, or one cluster only is predicted. Otherwise like `AdjustedRand`.

    Examples:
        >>> metric = CramersV(num_classes=2)
        >>> metric.add([0, 0, 0, 1, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1])
        >>> metric.compute()
        0.5
    """

    better = "higher"
    tasks: tuple[str, ...] = ("binary", "multiclass")
    formula: Any = formula_of(formulas.cramers_v, "zero_division")
