"""``Interval``: a metric with an interval without resampling."""

from __future__ import annotations

import contextlib
import math
from typing import Any, ClassVar, Iterable, Mapping

import numpy as np

from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import intervals
from fleetmetrics.formulas.bootstrap import CONFIDENCE
from fleetmetrics.formulas.intervals import IntervalResult
from fleetmetrics.formulas.spreads import Largest, Spread
from fleetmetrics.records.folding import Folding
from fleetmetrics.state.state import State
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.wrappers.unit_sums import unit_sums_of
from fleetmetrics.wrappers.wrapper import Wrapper

__all__ = ["Interval"]

#: The number of groups of users. Grouping users at random adds noise of sqrt(1 / 2g), or 0.55 %, to the standard error,
#: less than the noise of a bootstrap of 10,000 draws.
_GROUPS = 2**14


class Interval(Wrapper[IntervalResult]):
    """A metric with its standard error and a confidence interval, without resampling: DeLong's, or the delta method.

    It takes `AUC`, `AveragePrecision`, and every metric whose value is computed from a few sums: shares and means
    (`Accuracy`, `ClickThroughRate`, `Precision`, `LogLoss`, `MeanAbsoluteError`), functions of them
    (`RootMeanSquaredError`, `Calibration`, `COPC`, `NormalizedEntropy`), and means over users or queries (`GAUC`,
    `NDCG`). For others, use `Bootstrap`.

    Formula: for areas see `fleetmetrics.formulas.spreads.of_area`, for others
    `fleetmetrics.formulas.spreads.of_samples`, with ids `fleetmetrics.formulas.spreads.of_groups`; for the ends
    `fleetmetrics.formulas.intervals.interval`. The interval is symmetric on the scale of the log-odds for a value
    between 0 and 1, and on that of the logarithm for a value of at least 0. With weights, it is that of the weighted
    mean.

    Without ids, samples are independent of each other. With ``ids="user"``, ``add(..., user=)`` takes an integer or a
    text for each sample, and only users are independent: samples of one id may be alike. A hash of the id puts each
    user into one of ``groups``. A metric by user or by query already has ids. With ids, an area keeps an entry for each
    sample, as `GAUC` does, and does not work in static programs.

    The value, std, low and high are the same on any number of workers if the metric's value is. If there are too few
    samples, users or clicks for intervals of 95 % to contain the true value in 94 to 96 % of cases, std, low and high
    are nan, with an `UndefinedMetricWarning` that gives the number that is needed. A share of independent samples of
    equal weight (`Accuracy`, `Precision`, `ClickThroughRate`) then has the exact interval of Clopper and Pearson, for
    any number of samples; only std is nan.

    `fleetmetrics.paired_difference` compares two results of equal ids over the same samples, and
    `fleetmetrics.unpaired_difference` two of different samples.

    ``add`` takes the metric's arguments. ``compute`` returns a `fleetmetrics.IntervalResult`.

    Args:
        metric: without samples, left unchanged.
        confidence: the share of such intervals that should contain the true value, between 0 and 1.
        ids: the name of the additional argument of ``add`` that groups dependent samples; None: samples are
            independent, or the column that the metric is ``by``.
        groups: the number of groups of ids, at least 64; each takes 16 to 24 bytes.
        **common: those of `Metric`; ``validate``, ``share`` and ``sampler`` are those of the metric unless given.

    Raises:
        InvalidInputError: an argument is invalid, or the metric has no such interval.

    Examples:
        >>> from fleetmetrics import Accuracy
        >>> metric = Interval(Accuracy())
        >>> metric.add([0.9, 0.2, 0.7, 0.6] * 25, [1, 0, 0, 1] * 25)
        >>> result = metric.compute()
        >>> result.value, round(result.std, 3)     # sqrt(0.75 * 0.25 / 99) = 0.0435
        (0.75, 0.044)
        >>> round(result.low, 2), round(result.high, 2)
        (0.65, 0.83)
    """

    confidence: float
    groups: int
    columns: tuple[str, ...]
    #: Whether an area with ids keeps a histogram for each group instead of an entry for each sample.
    bounded: ClassVar[bool] = False
    refused: ClassVar[dict[str, str]] = {
        "Bootstrap": "one interval is enough, Bootstrap(metric) or Interval(metric)",
        "Interval": "one interval is enough",
        "Sliced": "reverse them: Sliced(Interval(metric))",
        "Windowed": "reverse them: Windowed(Interval(metric), last=...)",
    }

    def __init__(
        self,
        metric: Metric,
        *,
        confidence: float = 0.95,
        ids: str | None = None,
        groups: int = _GROUPS,
        **common: Unpack[Common],
    ) -> None:
        self.confidence = CONFIDENCE("confidence", confidence, {})
        if ids is not None and (not isinstance(ids, str) or not ids.isidentifier()):
            raise InvalidInputError(f"ids must be the name of an additional argument of add, or None, not {ids!r}")
        self.ids = ids
        self.groups = whole_number_of("groups", groups, 64, 2**24)
        super().__init__(metric, **common)

    def _fit(self) -> None:
        metric = self.metric
        if isinstance(metric, GroupedMetric):
            group = metric.table.order
            self.ids = self.ids or group
            if self.ids != group:
                raise InvalidInputError(
                    f"{metric.name} ({type(metric).__name__}) adds one term per {group}, and Interval treats these as "
                    f"independent: give ids={group!r}, not {self.ids!r}"
                )
            self.settle(ids=group)
        if not metric.ranked and metric.linear is None:
            raise InvalidInputError(
                f"Interval takes AUC and AveragePrecision (of two classes, the whole area, without bounds), shares, "
                f"means and functions of them (Accuracy, ClickThroughRate, Precision, LogLoss, MeanAbsoluteError, "
                f"RootMeanSquaredError, Calibration, NormalizedEntropy) and means over users or queries (GAUC, NDCG), "
                f"whose value is one number; {metric.name} ({type(metric).__name__}) is none of these: use Bootstrap"
            )
        if self.ids is not None:
            self.columns = tuple(dict.fromkeys((*metric.columns, self.ids)))

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        self.metric.become_part(prefix, shared)
        self._units = unit_sums_of(self.metric, self.ids or "", self.groups, self.bounded)
        return [*self.metric.own_states(), *self._units.adopted(prefix, shared)]

    def record_metrics(self) -> Iterable[Folding]:
        """The record metrics of the metric, and the one that keeps the samples of an id together."""
        return [*self.metric.record_metrics(), *self._units.records]

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The increments of the metric's states, and of those of its variance, from a batch."""
        if self.ids is None and batch.width != 1:
            raise InvalidInputError(
                "without ids, Interval needs independent samples, but it was given rows of several elements, which "
                "are dependent. Give ids=, the name of an additional argument of add that groups dependent samples"
            )
        pairs = batch.cached(("asked", self.metric), lambda: list(self.metric.increments_of(batch)))
        if batch.xp.FILTERS and not len(batch.each):
            return pairs
        return [*pairs, *self._units.statistics(batch)]

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value and its interval."""
        value, spread, _ = self.measured(values, carries)
        lowest, highest = 0.0, 1.0
        if self.metric.linear is not None:
            lowest, highest = self.metric.linear.lowest, self.metric.linear.highest
        result = intervals.interval(value, spread, lowest, highest, self.confidence, self.metric.name)
        if self.ids is None:
            return result
        groups = np.full(self.groups, np.nan) if spread.groups is None else spread.groups
        return result._replace(groups=groups, drawn=self._units.rows_by_group(values, carries))

    def measured(
        self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]
    ) -> tuple[Any, Spread, np.ndarray]:
        """The value, its spread, and its inputs: the sums, or the histogram of both labels."""
        value = self.metric.value_from_states(values, carries)
        spread = Spread(math.nan, 1.0, {})
        # There is no interval if the squares of weights overflow, or if zero_division replaces the value.
        with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, ValueError):
            spread = self._units.spread(values, carries)
        return value, spread, self._units.totals(values, carries)

    def of_ids(
        self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]
    ) -> tuple[Largest | None, float | None]:
        """The largest of the ids, if one is far larger than the others; and their number, see `UnitSums.users`."""
        return self._units.largest(values, carries), self._units.users(values, carries)
