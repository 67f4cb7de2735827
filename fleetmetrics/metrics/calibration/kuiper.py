"""Calibration without a width of bins to choose."""

from __future__ import annotations

from typing import Any, Sequence

from fleetmetrics import formulas
from fleetmetrics.base.metric import Common, formula_of
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.metrics.calibration.binned import Binned
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp.score_buckets import lowest_scores

__all__ = ["KuiperCalibration"]

_BUCKETS = 4096


@statistic
def _variance(batch: Batch, from_logits: bool) -> Any:
    """The variance of the number of positives, were the probabilities right: of weight w, ``w**2 * p * (1 - p)``."""
    xp, probability = batch.xp, batch.probability(from_logits)
    values = xp.multiply(probability, xp.subtract(xp.ones_like(probability), probability))
    return batch.weighted_sum(values if batch.weight is None else xp.multiply(batch.weight, values))


class KuiperCalibration(Binned[formulas.KuiperParts]):
    """Kuiper's calibration error: the range of scores that is miscalibrated the most, and whether that is chance.

    Formula: see `fleetmetrics.formulas.kuiper_calibration`, over 4,096 buckets of scores. There is no width of bins to
    choose. The value is a `fleetmetrics.formulas.KuiperParts`: the statistic, its normalized form and p-value, and the
    range of scores with the sign of the difference; without samples, all nan with `UndefinedMetricWarning`. For
    segments, ``Sliced(KuiperCalibration(), by=...)`` has one each: the worst has the largest normalized statistic.

    Inputs as for `fleetmetrics.Calibration`.

    Args:
        bins: as for `CalibrationCurve`; None: the log-odds buckets of `fleetmetrics.AUC`.
        from_logits: as for `CalibrationCurve`.

    Examples:
        >>> metric = KuiperCalibration()
        >>> metric.add([0.25, 0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.75], [0, 0, 0, 0, 0, 1, 1, 1])
        >>> parts = metric.compute()
        >>> parts.statistic, round(parts.p_value, 3), parts.difference
        (0.125, 0.992, -0.125)
    """

    gives = "parts"
    formula: Any = formula_of(formulas.kuiper_calibration, "edges")

    def __init__(
        self, *, bins: int | Sequence[float] | None = None, from_logits: bool = False, **common: Unpack[Common]
    ) -> None:
        buckets = [0.0, *lowest_scores(_BUCKETS, "log_odds")[1:].tolist(), 1.0]
        super().__init__(bins=buckets if bins is None else bins, from_logits=from_logits, **common)
        if bins is None:
            self.settle(bins=None)
        self.declare("variance", dtype="float64", statistic=_variance, settings=("from_logits",))
