"""The exact area under a curve, from the scores of all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Mapping

import numpy as np

from fleetmetrics.batch import Batch
from fleetmetrics.formulas.exact_auc import (
    count_exact_auc,
    exact_auc_of,
    fold_exact_auc,
    join_exact_auc,
    sort_by_score,
    start_exact_auc,
)
from fleetmetrics.metric import Declared, Settings, Undefinable
from fleetmetrics.metrics.auc import curve_of
from fleetmetrics.record_metric import RecordMetric
from fleetmetrics.records.table import Records

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ExactAUC"]


class ExactAUC(Undefinable, RecordMetric):
    """Exact area under the ROC or the precision-recall curve, over the samples of all workers, ties counted as ties.

    Formula: see `fleetmetrics.formulas.exact_auc`: what `sklearn.metrics.roc_auc_score` (with ``max_fpr`` too), or for
    ``curve="PR"`` `sklearn.metrics.average_precision_score`, computes from all samples in one process.

    ``add(prediction, label)`` takes scores of the label's shape, probabilities or any other finite numbers (only their
    order counts; integers of any size, unless some batches hold floats), or ``[n, 2]`` probabilities of both classes,
    and labels 0 or 1. Undefined if a class has no samples (for the PR curve class 1).

    Every worker keeps and sorts its own samples, 9 bytes each (5 with float32 scores, 8 more with weights); rank 0 then
    reads those of all workers by descending score, a piece at a time. `fleetmetrics.AUC` needs 64 KiB, one exchange and
    no sorting; its ``bounds`` tell whether that is accurate enough.

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC) curve",
    Radiology 143 (1982).

    Args:
        curve: "ROC", or "PR" for the average precision.
        max_fpr: standardised partial area up to this false positive rate, in (0, 1]; for ``curve="ROC"`` only. None:
            the whole area.

    Examples:
        >>> metric = ExactAUC()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
    """

    requirements = ("finite_prediction", "class_label")
    # The total weight of each class, which the fold needs from the first piece on.
    declared = (Declared("totals", (2,), key="weight by class"),)

    def __init__(
        self, *, curve: Literal["ROC", "PR"] = "ROC", max_fpr: float | None = None, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(**settings)
        self.curve, self.max_fpr = curve_of(curve, max_fpr)
        self.keep_records(("score", "label", "weight"), "score", "scores and classes by score", _sorted)

    def requirements_of(self, batch: Batch) -> tuple[Any, ...]:
        return ("probability", "class_label") if batch.classes else self.requirements

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"totals": batch.histogram(batch.xp.cast(batch.labels, "int64"))}

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        xp = batch.xp
        return {"score": batch.scores, "label": xp.cast(batch.positive, "bool"), "weight": batch.weight}

    def start(self) -> dict[str, Any]:
        return start_exact_auc()

    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return count_exact_auc(records["label"], records["weight"], states["totals"].tolist())

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        totals = states["totals"].tolist()
        return fold_exact_auc(
            before, records["score"], records["label"], records["weight"], totals, self.curve, self.max_fpr
        )

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        return join_exact_auc(carry, later)

    def formula(self, totals: np.ndarray, negative: Any, positive: Any, area: Any) -> float:
        return exact_auc_of(negative, positive, area, self.curve, self.max_fpr, self.zero_division)


def _sorted(records: Records) -> Records:
    names = "score", "label", "weight"
    return Records(dict(zip(names, sort_by_score(*(records[name] for name in names)))))
