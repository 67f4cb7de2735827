"""Metrics that stand in no catalogue: what a result counts beside the metrics that were asked for."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, words
from fleetmetrics.formulas import histogram_counts
from fleetmetrics.metric import Declared, Metric
from fleetmetrics.metrics.aggregation import Count
from fleetmetrics.metrics.regression.differences import signed_error
from fleetmetrics.xp.score_buckets import log_odds, odds_bounds

__all__ = ["Errors", "Joined", "Positives", "Rows"]

#: Of errors, for each sign.
_BINS = 4096


class Rows(Count):
    """How many rows count, whatever they weigh; those of weight 0 do not."""

    declared = (Declared("total", key="rows"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        return {"total": batch.number}


class Positives(Metric):
    """How many rows are labelled 1, whatever they weigh; other metrics check the labels."""

    declared = (Declared("total", key="positives"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        rows = copy.copy(batch)
        rows.weight = None
        return {"total": rows.weighted_sum(rows.positive)}

    def formula(self, total: np.ndarray) -> Any:  # noqa: D102
        return total.item()


class Errors(Metric):
    """Errors of predictions of any size: each doubling from 2e-10 to 4e9, of either sign, is split into 64 bins."""

    requirements = ("finite_prediction", "finite_label")
    declared = (Declared("cells", (2 * _BINS - 1,)),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        error, layout = signed_error(batch), log_odds(_BINS)
        place = np.abs(error).view(np.int64)
        place >>= layout.shift
        place -= layout.first
        place.clip(0, _BINS - 1, out=place)
        np.negative(place, out=place, where=error < 0)
        place += _BINS - 1
        return {"cells": batch.histogram(place)}

    def formula(self, cells: np.ndarray) -> Any:  # noqa: D102
        bounds = odds_bounds(_BINS)
        return histogram_counts(cells, [*-bounds[::-1], *bounds])


class Joined(Metric):
    """Which ids there are, how often, with which labels: 128 bits in four sums of hashes, and how many rows."""

    columns = ("id",)
    declared = (Declared("sums", (5,), "int64"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        ids = integer_ids(batch.columns["id"])
        label = (np.asarray(batch.label, np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
        both = ids ^ (label * np.int64(0x5851F42D4C957F2D))
        sums = [word.sum(dtype=np.int64) for seed in (0, 1) for word in words(batch.xp, both, seed)]
        return {"sums": np.array([*sums, len(both)], np.int64)}

    def formula(self, sums: np.ndarray) -> Any:  # noqa: D102
        return sums
