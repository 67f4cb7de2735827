"""The histogram of the scores of both classes, from which areas, curves and points of them are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.batch import Batch, statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metric import Metric
from fleetmetrics.metrics.arguments import MOST_ENTRIES, choice_of, whole_number_of, zero_division_of
from fleetmetrics.xp.buckets import LOG_ODDS_MAX, lowest_scores

__all__ = ["BUCKETS", "ScoreHistogram"]

BUCKETS = 4096
_SPACINGS = ("log_odds", "linear")


@statistic
def _by_class_and_bucket(batch: Batch, buckets: int, spacing: str, from_logits: bool) -> Any:
    xp = batch.xp
    score = batch.probability(True) if from_logits else batch.scores
    bucket = xp.bucket(score, buckets - 1) if spacing == "linear" else xp.log_odds_bucket(score, buckets)
    return batch.histogram(xp.cast(batch.labels, "int64"), bucket)


class ScoreHistogram(Metric):
    """What the metrics on a histogram of scores share; it defines no formula.

    In one `fleetmetrics.MetricCollection` all of them with the same buckets keep one histogram.

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        buckets: how many; None: 4,096, or ``num_thresholds + 1``.
        spacing: "log_odds" or "linear"; None: "log_odds", or "linear" with ``num_thresholds``.
        num_thresholds: Paddle's name: ``num_thresholds + 1`` linear buckets.
        from_logits: predictions are logits.
        zero_division: the value where the metric is undefined; nan: nan, with `UndefinedMetricWarning`.
        validate: False skips the check of the inputs.
        share: in a static program, share the variables of an earlier metric of this name.

    Raises:
        InvalidInputError: an argument is not what it should be, or ``num_thresholds`` contradicts another one.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        buckets: int | None = None,
        spacing: str | None = None,
        num_thresholds: int | None = None,
        from_logits: bool = False,
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, validate=validate, share=share)
        self.buckets, self.spacing = _layout(buckets, spacing, num_thresholds)
        self.from_logits = bool(from_logits)
        self.zero_division = zero_division_of(zero_division)
        self.requirements = ("finite_prediction" if from_logits else "probability", "class_label")
        # Row 0 holds the samples labelled 0, row 1 those labelled 1.
        key = ("scores by class", self.spacing, self.buckets, self.from_logits)
        self.declare("histogram", (2, self.buckets), key=key)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"histogram": _by_class_and_bucket(batch, self.buckets, self.spacing, self.from_logits)}

    @property
    def lowest_scores(self) -> np.ndarray:
        """The lowest probability of each bucket: the thresholds of curves, float64 ``[buckets]``."""
        return lowest_scores(self.buckets, self.spacing)


def _layout(buckets: int | None, spacing: str | None, num_thresholds: int | None) -> tuple[int, str]:
    """The number of buckets and their spacing."""
    if spacing is not None:
        choice_of("spacing", spacing, _SPACINGS)
    if num_thresholds is None:
        spacing = spacing or "log_odds"
        number = BUCKETS if buckets is None else whole_number_of("buckets", buckets, 2, MOST_ENTRIES)
        if spacing == "log_odds" and number > LOG_ODDS_MAX:
            raise InvalidInputError(f"buckets must be at most 2**24 with spacing='log_odds', not {number}")
        return number, spacing
    number = whole_number_of("num_thresholds", num_thresholds, 1, MOST_ENTRIES) + 1
    if spacing == "log_odds":
        raise InvalidInputError(
            "num_thresholds means Paddle's buckets, spacing='linear'; give buckets= instead for spacing='log_odds'"
        )
    if buckets not in (None, number):
        raise InvalidInputError(
            f"num_thresholds={num_thresholds} means {number} buckets, and buckets is {buckets!r}; give one of them"
        )
    return number, "linear"
