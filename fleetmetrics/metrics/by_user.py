"""The area under the ROC curve user by user: how well scores order the samples that compete with each other."""

from __future__ import annotations

import math
from typing import Any, Mapping

import numpy as np

from fleetmetrics.arguments import choice_of, column_of, zero_division_of
from fleetmetrics.batch import Batch
from fleetmetrics.formulas.groups import added_up, auc_by_group, scaled
from fleetmetrics.formulas.ratio import stand_in
from fleetmetrics.record_metric import RecordMetric
from fleetmetrics.records.table import Records

__all__ = ["GAUC", "UAUC", "WuAUC"]

_USER_WEIGHTS = ("samples", "clicks", "uniform")


class GAUC(RecordMetric):
    """Grouped AUC: the area under the ROC curve of each user's samples, averaged over users.

    Formula: ``sum_u w_u * AUC_u / sum_u w_u`` over the users with samples of both classes; ``w_u`` is the number of the
    user's samples (their weight, if weights are given), of the clicks among them, or 1. Equal scores count as half.

    ``add(prediction, label, user=)`` takes scores (probabilities or logits: only their order counts) of the label's
    shape, or ``[n, 2]`` scores of both classes, labels 0 or 1, and whose sample each is: integers or texts. A user's
    samples may come in any batch and on any worker. Undefined if no user has samples of both classes: nan with
    `UndefinedMetricWarning`.

    Every worker keeps its own samples; rank 0 looks at those of all workers user by user, and never holds them all.

    Source: Zhu et al., "Optimized cost per click in Taobao display advertising", KDD 2017.

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        by: the argument of ``add`` that says whose sample it is; a session or a request will do as well.
        user_weight: "samples", "clicks" or "uniform".
        zero_division: the value if it is undefined, without a warning.
        validate: False skips the check that scores are finite, labels 0 or 1, and weights at least 0.
        share: has no use here; as in `fleetmetrics.Metric`.

    Raises:
        InvalidInputError: an argument is not what is allowed.

    Examples:
        >>> metric = GAUC()
        >>> metric.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=["ann", "ann", "bob", "bob", "bob"])
        >>> metric.compute()
        0.4
    """

    requirements = ("finite_prediction", "class_label")
    title = "gauc"

    def __init__(
        self,
        name: str | None = None,
        *,
        by: str = "user",
        user_weight: str = "samples",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, validate=validate, share=share)
        self.by = column_of("by", by, ("score",))
        self.user_weight = choice_of("user_weight", user_weight, _USER_WEIGHTS)
        self.zero_division = zero_division_of(zero_division)
        self.columns = (by,)
        self.keep_records((by, "score", "label", "weight"), order=by, key="scores and classes")

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        positive = batch.xp.cast(batch.positive, "bool")
        return {self.by: batch.column(self.by), "score": batch.scores, "label": positive, "weight": batch.weight}

    def start(self) -> dict[str, Any]:
        return {"total": 0.0, "weight": 0.0, "exponent": 0}

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        area, positive, negative, exponent = records.cached("auc by user", self._areas)
        counts = {"samples": positive + negative, "clicks": positive, "uniform": np.ones(len(area))}[self.user_weight]
        both = ~np.isnan(area)
        total, weight = np.sum(area[both] * counts[both]), np.sum(counts[both])
        return added_up(carry, 0 if self.user_weight == "uniform" else exponent, total=total, weight=weight)

    def _areas(self, records: Records) -> tuple[Any, ...]:
        weight, exponent = scaled(records["weight"])
        return (*auc_by_group(records[self.by], records["score"], records["label"], weight), exponent)

    def formula(self, total: float, weight: float, exponent: int) -> float:
        if not weight:
            return stand_in(self.title, "no user has samples of both classes", self.zero_division)
        return total / weight


class UAUC(GAUC):
    """User AUC: the mean of the users' areas, each user counting once; Paddle's ``uauc``, over all workers.

    Paddle's C++ metric takes a user for two where the samples lie on two workers. Formula, inputs, errors and source as
    for `GAUC` with ``user_weight="uniform"``.

    Examples:
        >>> metric = UAUC()
        >>> metric.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=[1, 1, 2, 2, 2])
        >>> metric.compute()
        0.5
    """

    title = "uauc"

    def __init__(
        self,
        name: str | None = None,
        *,
        by: str = "user",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(
            name, by=by, user_weight="uniform", zero_division=zero_division, validate=validate, share=share
        )


class WuAUC(GAUC):
    """Weighted user AUC: `GAUC` by the number of samples, under the name that Paddle's C++ metric has.

    Examples:
        >>> metric = WuAUC()
        >>> metric.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=[1, 1, 2, 2, 2])
        >>> metric.compute()
        0.4
    """

    title = "wuauc"

    def __init__(
        self,
        name: str | None = None,
        *,
        by: str = "user",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(
            name, by=by, user_weight="samples", zero_division=zero_division, validate=validate, share=share
        )
