"""The area under the ROC curve by user: the order of samples that compete with each other."""

from __future__ import annotations

from typing import Any, Literal, Mapping

import numpy as np

from fleetmetrics.base.metric import Quotient, Settings, Undefinable
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.formulas.groups import auc_by_group, scaled
from fleetmetrics.formulas.quotients import ratio
from fleetmetrics.metrics.task import DISTRIBUTION_ALONE
from fleetmetrics.records.table import Records
from fleetmetrics.support.checks import choice_of, column_of
from fleetmetrics.support.typed import Unpack

__all__ = ["GAUC", "UAUC", "WuAUC"]

_USER_WEIGHTS = ("samples", "clicks", "uniform")


class UserSettings(Settings, total=False):
    """Arguments of every metric by user."""

    by: str


class _ByUser(Undefinable[float], GroupedMetric[float]):
    """The mean of the users' areas; arguments as for `GAUC`."""

    better = "higher"
    quotient: Quotient | None = Quotient({"total": 1}, {"weight": 1}, highest=1)
    requirements: tuple[str | Requirement, ...] = ("finite_prediction", "class_label")
    columns: tuple[str, ...]
    by: str
    #: Its name in warnings.
    title = ""
    #: The weight of a user.
    user_weight = "samples"

    def __init__(self, *, by: str = "user", **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.by = column_of("by", by, ("score",))
        self.columns = (by,)
        self.keep_records((by, "score", "label", "weight"), order=by, key="scores and classes")

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return (DISTRIBUTION_ALONE, "class_label") if batch.classes else self.requirements

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        positive = batch.xp.cast(batch.positive, "bool")
        return {self.by: batch.column(self.by), "score": batch.scores, "label": positive, "weight": batch.weight}

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {"total": (), "weight": ()}

    def of_groups(self, records: Records) -> dict[str, Any]:
        area, positive, negative, exponent = records.cached("auc by user", self._areas)
        counts = {"samples": positive + negative, "clicks": positive, "uniform": np.ones(len(area))}[self.user_weight]
        none = np.isnan(area)
        exponent = 0 if self.user_weight == "uniform" else exponent
        return {"total": np.where(none, 0, area * counts), "weight": np.where(none, 0, counts), "exponent": exponent}

    def _areas(self, records: Records) -> tuple[Any, ...]:
        weight, exponent = scaled(records["weight"])
        return (*auc_by_group.bare(records[self.by], records["score"], records["label"], weight), exponent)

    def formula(self, total: np.ndarray, weight: np.ndarray) -> float:
        return ratio.bare(total, weight, self.title, self.zero_division, "no user has samples of both classes")


class GAUC(_ByUser):
    """Grouped AUC: the area under the ROC curve of each user's samples, averaged over users.

    Formula: ``sum_u w_u * AUC_u / sum_u w_u`` over the users with samples of both classes; ``w_u`` is the number of the
    user's samples (their weight, if weights are given), of the clicks among them, or 1. Equal scores count as half.

    ``add(prediction, label, user=)`` takes scores (probabilities or logits: only their order counts) of the label's
    shape, or ``[n, 2]`` scores of both classes, labels 0 or 1, and the user of each sample: integers or strings. A
    user's samples may come in any batch and on any worker. Undefined if no user has samples of both classes.

    Every worker keeps its own samples; rank 0 reads those of all workers user by user and never holds them all.

    Args:
        by: the argument of ``add`` that names the user of a sample; it may also name a session or a request.
        user_weight: "samples", "clicks" or "uniform".

    Examples:
        >>> metric = GAUC()
        >>> metric.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=["ann", "ann", "bob", "bob", "bob"])
        >>> metric.compute()
        0.4
    """

    user_weight: Any

    title = "gauc"

    def __init__(
        self, *, user_weight: Literal["samples", "clicks", "uniform"] = "samples", **settings: Unpack[UserSettings]
    ) -> None:
        super().__init__(**settings)
        self.user_weight = choice_of("user_weight", user_weight, _USER_WEIGHTS)


class UAUC(_ByUser):
    """User AUC: the mean of the users' areas, in which each user counts once; Paddle's ``uauc``, over all workers.

    Formula: ``sum_u AUC_u / U`` over the U users with samples of both classes: `GAUC` with ``user_weight="uniform"``.

    Paddle's C++ metric counts a user twice if the user's samples are on two workers. Inputs as for `GAUC`.

    Examples:
        >>> metric = UAUC()
        >>> metric.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=[1, 1, 2, 2, 2])
        >>> metric.compute()
        0.5
    """

    title = "uauc"
    user_weight = "uniform"


class WuAUC(_ByUser):
    """Weighted user AUC: `GAUC` by the number of samples, under the name of Paddle's C++ metric.

    Formula: ``sum_u n_u * AUC_u / sum_u n_u`` over the users with samples of both classes, of n_u samples each.

    Examples:
        >>> metric = WuAUC()
        >>> metric.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=[1, 1, 2, 2, 2])
        >>> metric.compute()
        0.4
    """

    title = "wuauc"
