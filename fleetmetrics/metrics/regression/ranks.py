"""Rank correlations and the order of pairs of samples: metrics that need all samples at once."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.record_metric import InOnePiece
from fleetmetrics.batch import Batch, per_sample
from fleetmetrics.formulas import PairCounts
from fleetmetrics.metrics.regression.differences import OfNumbers
from fleetmetrics.records.table import Records
from fleetmetrics.support.checks import bare

__all__ = ["XAUC", "KendallCorrelation", "SpearmanCorrelation"]


class _Ranked(OfNumbers[float], InOnePiece[float]):
    """Keeps every sample; in a collection, once for all of these metrics."""

    better = "higher"
    record: tuple[str, ...] = ("prediction", "label", "weight")

    def batch_records(self, batch: Batch) -> dict[str, Any]:
        return {
            "prediction": _in_order(batch, "prediction", "values"),
            "label": _in_order(batch, "labels", "targets"),
            "weight": batch.weight,
        }


@per_sample
def _in_order(batch: Batch, values: str, floats: str) -> Any:
    """The values to compare: integers stay integers, since float64 is inexact beyond 2**53."""
    own = getattr(batch, values)
    return getattr(batch, floats) if batch.xp.kind(own) == "f" else batch.xp.cast(own, "int64")


class SpearmanCorrelation(_Ranked):
    """Spearman's rank correlation of predictions and labels, in [-1, 1].

    Formula: ``cov(r, s) / sqrt(var(r) * var(s))``, Pearson's coefficient of the ranks r of the predictions and s of the
    labels among the samples of all workers; equal values share their mean rank. A sample of weight w counts as w
    samples of weight 1: its rank is the weight below it plus half the weight tied with it, its own included.

    ``add(prediction, label)`` takes numbers of equal shape (``[n, 1]`` equals ``[n]``); every element of a matrix
    counts. Integers of any size are compared exactly, unless some batches hold floats: then all are compared as
    float64. Every sample is kept, and ``compute`` brings all of them to one worker. Undefined if all predictions, or
    all labels, are equal, or without samples.

    Examples:
        >>> metric = SpearmanCorrelation()
        >>> metric.add([1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 6.0, 7.0, 8.0, 7.0])
        >>> round(metric.compute(), 12)
        0.820782681668
    """

    def start(self) -> dict[str, Any]:
        return {"comoments": np.zeros(6)}

    def piece(self, before: dict[str, Any], records: Any, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {"comoments": formulas.rank_comoments.bare(records["prediction"], records["label"], records["weight"])}

    def formula(self, comoments: np.ndarray) -> float:
        return formulas.pearson_correlation.bare(comoments, self.zero_division, "spearman_correlation")


class _OfPairs(_Ranked):
    """Counts pairs of samples by their order; in a collection, once for all of these metrics."""

    def start(self) -> dict[str, Any]:
        return PairCounts()._asdict()

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        pairs = records.cached(
            "pairs", lambda piece: bare(formulas.pair_counts)(piece["prediction"], piece["label"], piece["weight"])
        )
        return pairs._asdict()


class KendallCorrelation(_OfPairs):
    """Kendall's rank correlation of predictions and labels, tau-b, in [-1, 1].

    Formula: ``(C - D) / sqrt(P * Y)`` over the pairs of samples of all workers: C are concordant (one sample has both
    the higher prediction and the higher label), D discordant (one has the higher prediction, the other the higher
    label), P have different predictions and Y different labels. A pair has the product of its two weights: a sample of
    weight w counts as w samples of weight 1.

    Inputs and storage as for `SpearmanCorrelation`; takes O(n log n). Undefined if all predictions, or all labels, are
    equal, or without samples.

    Examples:
        >>> metric = KendallCorrelation()
        >>> metric.add([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0])
        >>> metric.compute()
        0.6666666666666666
    """

    def formula(self, **pairs: Any) -> float:
        return formulas.kendall_correlation.bare(PairCounts(**pairs), self.zero_division)


class XAUC(_OfPairs):
    """Share of the pairs of samples that are predicted in the order of their labels: AUC of labels that are numbers.

    Formula: ``sum w_i * w_j * ([p_i > p_j] + [p_i = p_j] / 2) / sum w_i * w_j`` over the pairs of samples, of all
    workers, with ``y_i > y_j``. Pairs of equal labels do not count; for labels 0 and 1 it is the area under the ROC
    curve.

    Inputs and storage as for `SpearmanCorrelation`; takes O(n log n). Labels are numbers such as watch times. Undefined
    if all labels are equal, or without samples.

    Examples:
        >>> metric = XAUC()
        >>> metric.add([4.0, 11.0, 9.0, 30.0], [3.0, 8.0, 14.0, 25.0])  # seconds
        >>> metric.compute()
        0.8333333333333334
    """

    def formula(self, **pairs: Any) -> float:
        return formulas.xauc.bare(PairCounts(**pairs), self.zero_division)
