"""Ten programs as users write them, whose types editors and checkers infer; none is ever run.

`make types` checks each with mypy, strictly, and with Basedpyright: no line needs a cast, an annotation or an ignore.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from typing_extensions import assert_type

import fleetmetrics as fm
from fleetmetrics.batch import Batch
from fleetmetrics.evaluator import METRICS, Accuracy, BaseMetric, Evaluator


def one_metric(scores: np.ndarray, labels: np.ndarray) -> float:
    auc = fm.AUC(curve="PR", name="pr")
    auc.add(scores, labels, weight=labels)
    assert_type(auc.compute(), float)
    assert_type(fm.NDCG(k=[1, 10]).compute(), "dict[int, float]")
    assert_type(fm.ROCCurve().compute(), fm.formulas.ROC)
    return auc.compute()


def a_collection(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    metrics = fm.MetricCollection({"auc": fm.AUC(), "loss": fm.LogLoss()})
    metrics.add(scores, labels)
    assert_type(metrics.fresh(), fm.MetricCollection)
    assert_type(fm.merge_all([fm.GAUC(), fm.GAUC()]), fm.GAUC)
    return metrics.compute()


class Missed(fm.Metric[float]):
    """A metric of one's own."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.declare("missed")
        self.declare("clicks")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        low = batch.xp.logical_not(batch.xp.greater(batch.probabilities, 0.5))
        missed = batch.weighted_sum(batch.xp.logical_and(low, batch.positive))
        return {"missed": missed, "clicks": batch.weighted_sum(batch.positive)}

    def formula(self, missed: np.ndarray, clicks: np.ndarray) -> float:
        return float(missed / clicks)


def a_metric_of_ones_own() -> None:
    assert_type(Missed(name="missed").compute(), float)
    assert_type(fm.Sliced(Missed(), by="slot").compute(), "dict[Any, float]")


class Share(fm.BaseMetric):
    """A metric over records, in MMEval's form: its ``add`` names what it takes."""

    def add(self, predictions: list[int], labels: list[int]) -> None:
        for prediction, label in zip(predictions, labels):
            self._results.append((prediction, label))

    def compute_metric(self, results: list[tuple[int, int]]) -> dict[str, float]:
        return {"share": sum(prediction == label for prediction, label in results) / len(results)}


def records() -> None:
    metric = Share(dist_collect_mode="unzip")
    metric.add([1, 0], labels=[1, 1])
    assert_type(metric.reset(), None)


@METRICS.register_module()
class Right(BaseMetric):
    """A metric of MMEngine's kind: the decorator keeps the class."""

    def __init__(self, least: float = 0.5, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self.least = least

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.append({"n": len(data_samples)})

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        return {"n": float(len(results))}


def an_evaluator(samples: list[dict[str, Any]]) -> None:
    assert_type(Right(least=0.7), Right)
    assert_type(Accuracy(topk=(1, 5)), Accuracy)
    assert_type(METRICS.register_module(module=Right, force=True), "type[Right]")
    evaluator = Evaluator([Right(least=0.7, prefix="a"), Accuracy(topk=(1, 5))])
    evaluator.process(data_samples=samples)
    assert_type(evaluator.evaluate(len(samples)), "dict[str, Any]")


def an_evaluation(task: Literal["binary", "ranking"]) -> bool:
    result = fm.evaluate(
        "new.parquet", label="y", score="p", task=task, by="slot", baseline="old.parquet", join_on="id", join="inner"
    )
    assert_type(result, fm.EvaluationResult)
    assert_type(result.deltas["auc"].interval.low, float)
    assert_type(result.intervals["auc"].high, float)
    worst = result.slices["slot"][0]
    assert_type(worst.harm, float)
    text = result.to_html("report.html", lang="zh")
    return worst.verdict == "worse" and len(text) > 0


def verdicts_and_choices_are_literals(result: fm.EvaluationResult) -> None:
    worst = result.slices["slot"][0]
    assert_type(worst.verdict, 'Literal["worse", "different", "better", "within chance", "too few"] | None')
    assert_type(
        result.asked.task, 'Literal["binary", "multiclass", "multilabel", "regression", "ranking", "counterfactual"]'
    )
    assert_type(result.asked.join, 'Literal["inner"] | None')


def a_checkpoint(metrics: fm.MetricCollection) -> np.ndarray:
    fm.save("epoch.fm", metrics, batches=3)
    resumed = fm.load("epoch.fm", {"eval": metrics})
    assert_type(resumed.missing, "tuple[str, ...]")
    return resumed.remaining


def intervals_and_windows() -> None:
    assert_type(fm.Bootstrap(fm.AUC()).compute().low, Any)
    new, old = fm.Interval(fm.AUC()), fm.Interval(fm.AUC())
    assert_type(new.compute().low, float)
    assert_type(fm.paired_difference(new.compute(), old.compute()), fm.Difference)
    assert_type(fm.Windowed(fm.AUC(), 5, lifetime=False).compute(), float)


def of_files_and_functions(scores: np.ndarray) -> None:
    columns = {"prediction": "p", "label": "y"}
    auc = fm.files.evaluate("day.parquet", fm.AUC, columns).metrics
    assert_type(auc.compute(), float)
    assert_type(fm.files.evaluate("day.csv", lambda: fm.GAUC(by="user"), columns, format="csv").metrics, fm.GAUC)
    assert_type(fm.sum(scores), np.ndarray)
