"""How users write against the package: checked by `make types` with Basedpyright, never run.

A line that must be an error is marked with the rule that finds it; a mark that nothing needs is an error itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from typing_extensions import assert_type

import fleetmetrics as fm
from fleetmetrics.batch import Batch
from fleetmetrics.engines import spark


def metrics_are_what_they_are_called() -> None:
    assert_type(fm.AUC(), "fm.AUC[float]")
    assert_type(fm.AUC(curve="PR", name="pr"), "fm.AUC[float]")
    assert_type(fm.GAUC(), fm.GAUC)
    assert_type(fm.Sliced(fm.AUC(), by="slot"), "fm.Sliced[float]")
    assert_type(fm.Windowed(fm.Calibration(), last=10), "fm.Windowed[fm.WindowedValue]")
    assert_type(fm.Bootstrap(fm.Accuracy()), "fm.Bootstrap[fm.BootstrapResult]")
    assert_type(fm.Interval(fm.AUC()), fm.Interval)
    assert_type(fm.MetricCollection([fm.AUC(), fm.Count()]), fm.MetricCollection)


def a_fresh_one_is_of_the_same_class() -> None:
    assert_type(fm.AUC().fresh(), "fm.AUC[float]")
    assert_type(fm.MetricCollection([fm.AUC()]).fresh("again"), fm.MetricCollection)
    assert_type(fm.merge_all([fm.GAUC(), fm.GAUC()]), fm.GAUC)
    assert_type(fm.merge_all([fm.AUC(), fm.AUC()]), "fm.AUC[float]")


def the_name_alone_is_a_type(metric: fm.AUC) -> fm.AUC:
    assert_type(metric.compute(), Any)
    return fm.AUC(average=None, num_classes=3)


def a_collection_gives_values_by_name(collection: fm.MetricCollection) -> None:
    assert_type(collection.compute(), "dict[str, Any]")


def wrong_arguments_are_seen() -> None:
    fm.AUC("PR")  # pyright: ignore[reportCallIssue]
    fm.AUC(curv="PR")  # pyright: ignore[reportCallIssue]
    fm.AUC(curve=3)  # pyright: ignore
    fm.NDCG(k="ten")  # pyright: ignore
    fm.F1(average="sample")  # pyright: ignore
    fm.Precision(tresh=0.5)  # pyright: ignore[reportCallIssue]
    fm.Bootstrap(fm.AUC(), replicate=5)  # pyright: ignore[reportCallIssue]
    fm.Windowed(fm.AUC())  # pyright: ignore[reportCallIssue]
    fm.Sliced("auc")  # pyright: ignore[reportArgumentType]


def misspelt_arguments_of_add_are_seen(p: Any, y: Any, w: Any) -> None:
    fm.AUC().add(p, y, weights=w)  # pyright: ignore[reportCallIssue]
    fm.ExactAUC().add(p, y, user=w)  # pyright: ignore[reportCallIssue]
    fm.LogLoss().add(p, y, weights=w)  # pyright: ignore[reportCallIssue]
    fm.Accuracy().add(p, y, masks=w)  # pyright: ignore[reportCallIssue]
    fm.CalibrationCurve().add(p, y, weights=w)  # pyright: ignore[reportCallIssue]
    fm.ClickThroughRate().add(p, y, weights=w)  # pyright: ignore[reportCallIssue]
    fm.MeanAbsoluteError().add(p, labels=y)  # pyright: ignore[reportCallIssue]
    fm.SpearmanCorrelation().add(p, y, weights=w)  # pyright: ignore[reportCallIssue]
    fm.Count().add(p, weights=w)  # pyright: ignore[reportCallIssue]
    fm.Mean().add(p, label=y)  # pyright: ignore[reportCallIssue]
    fm.Max().add(p, weights=w)  # pyright: ignore[reportCallIssue]
    fm.Throughput().add(p, secs=y)  # pyright: ignore[reportCallIssue]
    fm.Perplexity().add(p, y, byte=w)  # pyright: ignore[reportCallIssue]
    fm.BitsPerByte().add(p, y, byte=w)  # pyright: ignore[reportCallIssue]


def columns_have_the_names_that_their_metrics_give_them(metric: fm.Metric, p: Any, y: Any, k: Any, w: Any) -> None:
    fm.AUC().add(prediction=p, label=y, weight=w, mask=None)
    fm.AUC().add(**{"prediction": p, "label": y})
    fm.BitsPerByte(of="token_losses").add(loss=p, bytes=w)
    fm.NDCG(by="session").add(p, y, session=k, weight=w)
    fm.GAUC().add(p, y, user=k)
    fm.Sliced(fm.AUC(), by="slot").add(p, y, slot=k)
    fm.Windowed(fm.GAUC(), last=10).add(p, y, user=k)
    fm.Bootstrap(fm.AUC(), ids="id").add(p, y, id=k)
    fm.Interval(fm.AUC(), ids="id").add(p, y, id=k)
    fm.MetricCollection([fm.AUC(), fm.GAUC()]).add(p, y, user=k)
    (fm.GAUC() - fm.AUC()).add(p, y, user=k)
    metric.add(p, y, user=k)


def wrong_names_are_seen() -> None:
    fm.AUC().ad([0.5], [1])  # pyright: ignore[reportAttributeAccessIssue]
    fm.AUCs()  # pyright: ignore[reportAttributeAccessIssue]


def values_have_types(k: int) -> None:
    assert_type(fm.MeanAbsoluteError().compute(), float)
    assert_type(fm.Calibration().compute(), float)
    assert_type(fm.GAUC().compute_local(), float)
    assert_type(fm.Count().compute(), int)
    assert_type(fm.ROCCurve().compute(), fm.formulas.ROC)
    assert_type(fm.Sliced(fm.AUC()).compute(), "dict[Any, float]")
    assert_type(fm.Sliced(fm.Count()).compute_local(), "dict[Any, int]")
    fm.MeanSquaredError().compute() + k
    assert fm.MeanSquaredError().compute().thresholds  # pyright: ignore[reportAttributeAccessIssue]


def values_follow_the_settings() -> None:
    assert_type(fm.AUC().compute(), float)
    assert_type(fm.AUC(bounds=True).compute(), fm.formulas.BoundedArea)
    assert_type(fm.AUC(bounds=True, average=None, num_classes=3).compute(), fm.formulas.BoundedArea)
    assert_type(fm.AUC(average="none", num_labels=3).compute(), np.ndarray)
    assert_type(fm.AveragePrecision(buckets=512).compute(), float)
    assert_type(fm.AveragePrecision(average=None, num_classes=3).compute(), np.ndarray)
    for metric in (fm.Precision, fm.Recall, fm.Specificity, fm.F1, fm.Jaccard):
        assert_type(metric().compute(), float)
    assert_type(fm.Precision(average="macro", num_classes=3).compute(), float)
    assert_type(fm.Recall(average=None, num_classes=3).compute(), np.ndarray)
    assert_type(fm.Specificity(average=None, num_classes=3).compute(), np.ndarray)
    assert_type(fm.F1(average="none", num_labels=3, threshold=0.3).compute(), np.ndarray)
    assert_type(fm.Jaccard(average=None, num_classes=3).compute(), np.ndarray)
    assert_type(fm.FBeta(2).compute(), float)
    assert_type(fm.FBeta(beta=2, average=None, num_classes=3).compute(), np.ndarray)
    assert_type(fm.Accuracy(top_k=5).compute(), float)
    assert_type(fm.Accuracy(average=None, num_classes=3).compute(), np.ndarray)
    assert_type(fm.LogLoss().compute(), float)
    assert_type(fm.LogLoss(num_labels=3, average=None).compute(), np.ndarray)
    assert_type(fm.HingeLoss().compute(), float)
    assert_type(fm.QuantileLoss(0.9).compute(), float)
    assert_type(fm.QuantileLoss([0.1, 0.9]).compute(), np.ndarray)
    assert_type(fm.ConfusionMatrix(num_classes=3).compute(), np.ndarray)


def settings_may_be_known_at_run_time_alone(bounds: bool, lifetime: bool, average: str, k: int | list[int]) -> None:
    assert_type(fm.AUC(bounds=bounds).compute(), Any)
    assert_type(fm.AveragePrecision(bounds=bounds).compute(), Any)
    assert_type(fm.Windowed(fm.AUC(), 3, lifetime=lifetime).compute(), Any)
    assert_type(fm.NDCG(k=k).compute(), "float | dict[int, float]")
    fm.AUC(bounds="yes")  # pyright: ignore
    fm.F1(average=average)  # pyright: ignore


def results_of_files_have_the_metrics_that_were_made() -> None:
    columns = {"prediction": "p", "label": "y"}
    assert_type(fm.files.evaluate("a.parquet", fm.AUC, columns).metrics, "fm.AUC[float]")
    found = fm.files.evaluate("a.parquet", lambda: fm.MetricCollection([fm.AUC()]), columns)
    assert_type(found.metrics.compute(), "dict[str, Any]")
    assert_type(found.read.rows, int)
    assert_type(spark.evaluate(None, None, fm.GAUC, columns).metrics, fm.GAUC)


def differences_have_types() -> None:
    low, high = fm.Interval(fm.AUC()), fm.Interval(fm.AUC())
    assert_type(fm.paired_difference(low.compute(), high.compute()), fm.Difference)
    assert_type(fm.unpaired_difference(low.compute(), high.compute()), fm.Difference)
    by_day = fm.Sliced(fm.Interval(fm.AUC()), "day").compute()
    assert_type(fm.paired_difference(by_day, by_day), "dict[Any, fm.Difference]")
    fm.paired_difference(0.5, 0.6)  # pyright: ignore


def several_places_give_a_value_each() -> None:
    for metric in (fm.DCG, fm.NDCG, fm.MRR, fm.MAP, fm.HitRate, fm.PrecisionAtK, fm.RecallAtK, fm.FallOutAtK):
        assert_type(metric(10).compute(), float)
        assert_type(metric(k=[1, 10]).compute(), "dict[int, float]")
    assert_type(fm.NDCG().compute(), float)
    assert_type(fm.NDCG((1, 3), gains="exponential", by="session").compute(), "dict[int, float]")
    assert_type(fm.FBetaAtK([1, 3], beta=2).compute(), "dict[int, float]")
    assert_type(fm.RPrecision().compute(), float)


def pictures_are_axes_of_matplotlib(metric: fm.AUC[float], result: fm.EvaluationResult, ax: Axes) -> None:
    assert_type(metric.plot(ax, label="new"), Axes)
    assert_type(fm.plot.roc(metric, ax), Axes)
    assert_type(result.plot("roc", ax), Axes)
    fm.plot.slices({"mon": 0.5}, ax).figure.savefig("part.png")  # pyright: ignore[reportAttributeAccessIssue]
    fm.plot.over_time({"mon": 0.5}, "axes")  # pyright: ignore[reportArgumentType]
    fm.plot.svg(metric)  # pyright: ignore[reportArgumentType]


def new_axes_have_a_figure_that_can_be_saved(metric: fm.AUC[float], result: fm.EvaluationResult) -> None:
    metric.plot().figure.savefig("roc.png", dpi=200)
    result.plot("roc").figure.savefig("roc.png")
    fm.plot.svg(fm.plot.at_k({1: 0.5}, label="new").figure)


def losses_of_tokens_and_sums_are_numbers() -> None:
    assert_type(fm.TokenLoss().compute(), float)
    assert_type(fm.Perplexity(ignore_index=-100).compute(), float)
    assert_type(fm.BitsPerByte().compute(), float)
    assert_type(fm.Sum().compute(), float)


def wrappers_pass_types_on() -> None:
    assert_type(fm.Bootstrap(fm.AUC(), replicates=500, seed=3).compute(), fm.BootstrapResult)
    assert_type(fm.Bootstrap(fm.NDCG(k=[1, 3])).compute(), Any)
    assert_type(fm.Interval(fm.AUC()).compute(), fm.IntervalResult)
    assert_type(fm.Windowed(fm.AUC(), 5).compute().window, Any)
    assert_type(fm.Windowed(fm.AUC(), 5, lifetime=False).compute(), float)
    assert_type(fm.Sliced(fm.Bootstrap(fm.AUC()), "day").compute()["mon"].low, Any)


def arithmetic_of_metrics_is_a_metric() -> None:
    assert_type((fm.Sum() / fm.Count()).compute(), Any)
    f1 = fm.F1(num_classes=3)
    f1.add([0, 1, 2], [0, 1, 1])
    f1.reset()
    state = f1.state_dict()
    f1.set_state_dict(state)


class Missed(fm.Metric[float]):
    """A metric written like the guide's."""

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
