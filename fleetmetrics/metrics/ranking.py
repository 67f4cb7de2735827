"""Ranking metrics: how well scores order the samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metric import Metric
from fleetmetrics.xp import Scattered

__all__ = ["AUC"]


@statistic
def _by_class_and_bucket(batch: Batch, top: int) -> Any:
    indices = batch.xp.cast(batch.labels, "int64"), batch.xp.bucket(batch.scores, top)
    return Scattered(indices, batch.counted_weight)


class AUC(Metric):
    """Area under the ROC curve, from a histogram of the scores.

    Scores are sorted into the buckets of ``paddle.static.auc``: ``int(p * num_thresholds)``, computed in the
    precision of the scores (float16 in float32). Samples of one bucket count as tied; the value is exact for
    scores rounded to their buckets. Formula: see `fleetmetrics.formulas.auc_from_histogram`.

    ``add(prediction, label)`` takes probabilities of class 1 of the label's shape (``[n, 1]`` equals ``[n]``), or
    ``[n, 2]`` probabilities of both classes, and labels 0 or 1. Undefined if a class has no samples: 0.5, as
    Paddle has it, with `UndefinedMetricWarning`.

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic
    (ROC) curve", Radiology 143 (1982).

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        num_thresholds: there are ``num_thresholds + 1`` buckets; at least 1. At very low rates use more than
            the default, see the table in the documentation.
        validate: False skips the check that predictions are probabilities, labels 0 or 1, and weights at
            least 0.
        share: in a static program, share the variables of an earlier metric of this name.

    Raises:
        InvalidInputError: ``num_thresholds`` is no integer of at least 1.

    Examples:
        >>> metric = AUC()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
    """

    requirements = ("probability", "class_label")

    def __init__(
        self, name: str | None = None, *, num_thresholds: int = 4095, validate: bool = True, share: bool = False
    ) -> None:
        super().__init__(name, validate=validate, share=share)
        if not isinstance(num_thresholds, (int, np.integer)) or num_thresholds < 1 or isinstance(num_thresholds, bool):
            raise InvalidInputError(f"num_thresholds must be an integer of at least 1, not {num_thresholds!r}")
        self.num_thresholds = int(num_thresholds)
        # Row 0 holds the samples labelled 0, row 1 those labelled 1.
        self.declare("histogram", (2, self.num_thresholds + 1), key="histogram")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"histogram": _by_class_and_bucket(batch, self.num_thresholds)}

    def formula(self, histogram: np.ndarray) -> float:
        return formulas.auc_from_histogram(histogram[1], histogram[0])
