"""How users write against the package: checked by `make types` with Basedpyright, never run.

A line that must be an error is marked with the rule that finds it; a mark that nothing needs is an error itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import assert_type

import fleetmetrics as fm
from fleetmetrics.batch import Batch


def metrics_are_what_they_are_called() -> None:
    assert_type(fm.AUC(), fm.AUC)
    assert_type(fm.AUC(curve="PR", name="pr"), fm.AUC)
    assert_type(fm.GAUC(), fm.GAUC)
    assert_type(fm.Sliced(fm.AUC(), by="slot"), fm.Sliced)
    assert_type(fm.Windowed(fm.Calibration(), last=10), fm.Windowed)
    assert_type(fm.Bootstrap(fm.Accuracy()), fm.Bootstrap)
    assert_type(fm.Interval(fm.AUC()), fm.Interval)
    assert_type(fm.MetricCollection([fm.AUC(), fm.Count()]), fm.MetricCollection)


def a_fresh_one_is_of_the_same_class() -> None:
    assert_type(fm.AUC().fresh(), fm.AUC)
    assert_type(fm.MetricCollection([fm.AUC()]).fresh("again"), fm.MetricCollection)
    assert_type(fm.merge_all([fm.GAUC(), fm.GAUC()]), fm.GAUC)


def a_collection_gives_values_by_name(collection: fm.MetricCollection) -> None:
    assert_type(collection.compute(), "dict[str, Any]")


def wrong_arguments_are_seen() -> None:
    fm.AUC("PR")  # pyright: ignore[reportCallIssue]
    fm.AUC(curv="PR")  # pyright: ignore[reportCallIssue]
    fm.AUC(curve=3)  # pyright: ignore[reportArgumentType]
    fm.NDCG(k="ten")  # pyright: ignore[reportArgumentType]
    fm.Sliced("auc")  # pyright: ignore[reportArgumentType]


def wrong_names_are_seen() -> None:
    fm.AUC().ad([0.5], [1])  # pyright: ignore[reportAttributeAccessIssue]
    fm.AUCs()  # pyright: ignore[reportAttributeAccessIssue]


def values_have_types(k: int) -> None:
    assert_type(fm.MeanAbsoluteError().compute(), float)
    assert_type(fm.Calibration().compute(), float)
    assert_type(fm.GAUC().compute_local(), float)
    assert_type(fm.Count().compute(), int)
    assert_type(fm.ROCCurve().compute(), fm.formulas.ROC)
    assert_type(fm.Sliced(fm.AUC()).compute(), "dict[Any, Any]")
    fm.MeanSquaredError().compute() + k
    assert fm.MeanSquaredError().compute().thresholds  # pyright: ignore[reportAttributeAccessIssue]


class Missed(fm.Metric[float]):
    """A metric as the guide says."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.declare("missed")
        self.declare("clicks")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        low = batch.xp.logical_not(batch.xp.greater(batch.probabilities, 0.5))
        return {
            "missed": batch.weighted_sum(batch.xp.logical_and(low, batch.positive)),
            "clicks": batch.weighted_sum(batch.positive),
        }

    def formula(self, missed: np.ndarray, clicks: np.ndarray) -> float:
        return float(missed / clicks)


def a_metric_of_ones_own_has_its_type() -> None:
    assert_type(Missed(name="missed").compute(), float)
    Missed().add([0.5], [1], wait=[1])
    Missed(4)  # pyright: ignore[reportCallIssue]


class Bare(fm.Metric):
    """Another, whose value has no type."""

    def formula(self, clicks: np.ndarray) -> dict[str, int]:
        return {"clicks": int(clicks)}


class Clicks(fm.BaseMetric):
    """A metric over records as MMEval's users write it."""

    def compute_metric(self, results: Any) -> dict[str, float]:
        return {"share": float(np.mean(results["score"]))}
