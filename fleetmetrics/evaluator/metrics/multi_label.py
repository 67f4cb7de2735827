"""Metrics for classification with any number of labels per sample, modeled on MMPretrain 1.2.0."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import AssertedInputError, InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric, as_dicts
from fleetmetrics.evaluator.metrics import common, inputs
from fleetmetrics.evaluator.registry import PRETRAIN
from fleetmetrics.support.checks import knows_its_arguments, whole_number_of
from fleetmetrics.support.warning import warn

__all__ = ["AveragePrecision", "MultiLabelMetric"]


def _record(sample: Mapping[str, Any], labels: bool = False) -> dict[str, np.ndarray]:
    """Scores or predicted labels, and for each class 1, 0 or -1 (ignored) as int8."""
    if labels and "pred_score" not in sample and "pred_label" in sample:
        known = len(inputs.score_of(sample, "gt_score")) if "gt_score" in sample else sample.get("num_classes")
        classes, label = common.known_class_count(known), inputs.label_of(sample, "pred_label")
        key, pred = "pred_label", inputs.one_hot([label], classes, "pred_label")[0]
    else:
        key, pred = "pred_score", inputs.score_of(sample)
    return {key: pred, "gt_score": _as_target(inputs.target_of(sample, pred.size), "gt_score")}


def _as_target(array: np.ndarray, argument: str) -> np.ndarray:
    """Targets as int8: 1, 0, or -1 where a class is ignored."""
    wrong = (array != 0) & (array != 1) & (array != -1)  # nan, too
    if wrong.any():
        raise InvalidInputError(f"{argument} holds {array[wrong][0]}; allowed are 1, 0, and -1 for ignored")
    return array.astype(np.int8, copy=False)


def _gather(records: Sequence[Mapping[str, Any]], key: str = "pred_score") -> tuple[np.ndarray, np.ndarray]:
    if not records:
        return np.zeros([0, 0]), np.zeros([0, 0], np.int8)
    pred, target = inputs.stack(records, key), inputs.stack(records, "gt_score")
    return inputs.as_scores(pred, key), _as_target(target, "gt_score")


@PRETRAIN.register_module()
class MultiLabelMetric(BaseMetric):
    """Precision, recall, F1 and support in percent, modeled on MMPretrain's ``MultiLabelMetric``.

    Formula: ``tp / predicted``, ``tp / actual``, ``2 * tp / (predicted + actual)`` and ``actual``, from the counts of
    every class; 0 / 0 is 0. A class is predicted if its score is at least ``thr``, or, without ``thr``, among the
    ``topk`` highest of the sample, lower classes first where scores are equal. Where a target is -1, the sample does
    not count for that class. See `fleetmetrics.formulas.precision_recall_f1`.

    Data samples hold ``pred_score`` ``[classes]``, and ``gt_score`` ``[classes]`` of 1, 0 and -1, or any number of
    labels as ``gt_label``. In place of the scores there may be the predicted labels as ``pred_label``, whatever ``thr``
    and ``topk`` are; then also ``num_classes``, unless there is ``gt_score``. Workers exchange counts per class.

    Differs from MMPretrain's as all do, see `fleetmetrics.evaluator.metrics`, and in addition:

    - ``thr=0.0`` is a threshold like any other: MMPretrain uses it, but names the results ``..._topNone``, or
      ``..._top3`` with ``topk=3``;
    - `calculate` accepts indices in arrays and tensors too, which MMPretrain always reads as one-hot labels;
    - with no class ever predicted, or ever true: 0 with `UndefinedMetricWarning`.

    Args:
        thr: the threshold; None: ``topk`` decides. If ``topk`` is None too, 0.5, with a warning.
        topk: the number of classes to predict for every sample; ignored, with a warning, if ``thr`` is given.
        items: which of ``"precision"``, ``"recall"``, ``"f1-score"`` and ``"support"`` to report.
        average: ``"macro"``: mean over the classes; ``"micro"``: from the sums over the classes; None: every class.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"multi-label"``.

    Results:
        The items, followed by ``_thr-{thr:.2f}`` unless that is 0.5, or by ``_top{topk}``; then by ``_micro``, or by
        ``_classwise`` for a list.

    Raises:
        AssertedInputError: ``items`` or ``average`` is invalid.
        InvalidInputError: another argument is invalid.

    Examples:
        >>> metric = MultiLabelMetric(thr=0.5)
        >>> metric.process(None, [{"pred_score": [0.9, 0.7, 0.1], "gt_label": [0, 2]}])
        >>> metric.compute_metrics(metric.results)
        {'precision': 33.333333333333336, 'recall': 33.333333333333336, 'f1-score': 33.333333333333336}
    """

    default_prefix: str | None = "multi-label"

    def __init__(
        self,
        thr: float | None = None,
        topk: int | None = None,
        items: Sequence[str] = ("precision", "recall", "f1-score"),
        average: str | None = "macro",
        collect_device: str = "cpu",
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        if thr is None and topk is None:
            thr = 0.5
            warn("Neither thr nor k is given, set thr as 0.5 by default")
        elif thr is not None and topk is not None:
            warn("Both thr and topk are given, use threshold in favor of top-k")
        self.average: str | None = common.check_choice("average", average, common.AVERAGES)
        self.thr: float | None = common.threshold(thr)
        self.topk: int | None = None if topk is None else whole_number_of("topk", topk, 1)
        self.items: tuple[str, ...] = common.check_items(items, "MultiLabelMetric")

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        self.results.extend([_record(sample, labels=True) for sample in as_dicts(data_samples)])

    def summarize(self, results: Sequence[Any]) -> dict[str, np.ndarray]:
        if results and "pred_label" not in results[0]:
            return _class_counts(*_gather(results), self.thr, self.topk)
        return _class_counts(*_gather(results, "pred_label"), 0.5, None)

    def compute_from(self, states: dict[str, np.ndarray]) -> dict[str, Any]:
        ending = f"_top{self.topk}" if self.thr is None else f"_thr-{self.thr:.2f}"
        return common.named_shares(states, self.items, self.average, ["" if self.thr == 0.5 else ending])

    @staticmethod
    @knows_its_arguments
    def calculate(
        pred: Any,
        target: Any,
        pred_indices: bool = False,
        target_indices: bool = False,
        average: str | None = "macro",
        thr: float | None = None,
        topk: int | None = None,
        num_classes: int | None = None,
    ) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 (in percent) and support of these predictions.

        Args:
            pred: scores or one-hot labels ``[n, classes]``, or with ``pred_indices`` any number of labels per sample:
                an array, a tensor or a sequence.
            target: one-hot labels ``[n, classes]``, -1 for ignored, or with ``target_indices`` the labels of each
                sample.
            pred_indices: whether ``pred`` holds labels.
            target_indices: whether ``target`` holds labels.
            average: as for the class.
            thr: as for the class, without the warning.
            topk: as for the class, without the warning.
            num_classes: number of classes; required for labels.

        Returns:
            0-d arrays, or ``[classes]`` where ``average`` is None; float64, where MMPretrain has float32 tensors.

        Raises:
            AssertedInputError: shapes do not match, ``average`` is invalid, or ``num_classes`` is missing.
            TypeError: an input is not an array, tensor or sequence.

        Examples:
            >>> MultiLabelMetric.calculate(
            ...     [[0], [1], [0, 1], [3]], [[0, 3], [0, 2], [1], [3]], True, True, num_classes=4)
            (array(50.), array(50.), array(45.83333333), array(6))
        """
        common.check_choice("average", average, common.AVERAGES)
        thr, topk = common.threshold(thr), None if topk is None else whole_number_of("topk", topk, 1)
        classes = common.check_class_count(num_classes)
        pred = inputs.as_scores(_matrix(pred, pred_indices, classes, "pred"), "pred")
        target = _as_target(_matrix(target, target_indices, classes, "target"), "target")
        if pred.shape != target.shape:
            raise AssertedInputError(f"The size of pred ({pred.shape}) doesn't match the target ({target.shape})")
        if classes is not None and pred.shape[1] != classes:
            raise AssertedInputError(f"The shape of `pred` ({pred.shape}) doesn't match the num_classes ({classes})")
        (values,) = common.shares(_class_counts(pred, target, 0.5 if thr is topk is None else thr, topk), average)
        return values


def _matrix(value: Any, indices: bool, classes: int | None, argument: str) -> np.ndarray:
    """Scores or one-hot labels ``[n, classes]``."""
    if not indices:
        array = inputs.to_batch(value, argument)
        if array.ndim != 2:
            raise AssertedInputError("The shape `pred` and `target` array must be (N, num_classes)")
        return array
    if classes is None:
        raise AssertedInputError("For index-type labels, please specify `num_classes`")
    rows = value if isinstance(value, (list, tuple)) else inputs.to_batch(value, argument)
    return inputs.one_hot([inputs.to_array(row, argument).reshape(-1) for row in rows], classes, argument)


def _class_counts(pred: np.ndarray, target: np.ndarray, thr: float | None, topk: int | None) -> dict[str, np.ndarray]:
    if thr is None and topk is not None:
        if topk > pred.shape[1]:
            raise InvalidInputError(f"topk is {topk}, but there are only {pred.shape[1]} classes")
        positive = inputs.is_among_best(pred, topk)
    else:
        positive = inputs.above(pred, thr, or_at=True)
    actual = target == 1
    return {
        "true_positive": np.count_nonzero(positive & actual, axis=0)[None],
        "predicted": np.count_nonzero(positive & (target != -1), axis=0)[None],
        "actual": np.count_nonzero(actual, axis=0),
        "total": np.array(len(pred), np.int64),
    }


@PRETRAIN.register_module()
class AveragePrecision(BaseMetric):
    """Average precision of every class or their mean (mAP) in percent, modeled on MMPretrain's ``AveragePrecision``.

    Formula: ``100 * sum_t (R_t - R_{t-1}) * P_t`` over the distinct scores t of a class from the highest, with
    precision and recall of the samples that score at least t. Where a target is -1, the sample does not count for that
    class. See `fleetmetrics.formulas.average_precision`.

    Data samples hold ``pred_score`` ``[classes]``, and ``gt_score`` ``[classes]`` of 1, 0 and -1, or any number of
    labels as ``gt_label``. Workers exchange records, since all scores are needed at once.

    Differs from MMPretrain's as all do, see `fleetmetrics.evaluator.metrics`, and in addition:

    - samples of equal score enter the curve together, as in scikit-learn: MMPretrain's value depends on the order of
      such samples, and so on the number of workers;
    - a class without positive samples counts as 0.0 in the mean, as there, but with `UndefinedMetricWarning`;
      MMPretrain fails with an IndexError if all its samples are ignored;
    - everything is float64: MMPretrain computes in the dtype of the scores, so float16 has three digits, and integer
      scores truncate the values of the classes to 0 or 1.

    Args:
        average: ``"macro"``: the mean over the classes; None: every class.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"multi-label"``.

    Results:
        ``mAP``, or ``AP_classwise``, a list.

    Raises:
        AssertedInputError: ``average`` is invalid.

    Examples:
        >>> metric = AveragePrecision(average=None)
        >>> metric.process(None, [{"pred_score": [0.9, 0.8], "gt_label": 0}, {"pred_score": [0.7, 0.6], "gt_label": 1}])
        >>> metric.compute_metrics(metric.results)
        {'AP_classwise': [100.0, 50.0]}
    """

    default_prefix: str | None = "multi-label"

    def __init__(self, average: str | None = "macro", collect_device: str = "cpu", prefix: str | None = None) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.average: str | None = common.check_choice("average", average, _AP_AVERAGES)

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        self.results.extend([_record(sample) for sample in as_dicts(data_samples)])

    def compute_metrics(self, results: Sequence[Any]) -> dict[str, Any]:
        value = _average_precision(*_gather(results), self.average).tolist()
        return {"AP_classwise" if self.average is None else "mAP": value}

    @staticmethod
    @knows_its_arguments
    def calculate(pred: Any, target: Any, average: str | None = "macro") -> np.ndarray:
        """The average precision of these predictions, in percent.

        Args:
            pred: scores ``[n, classes]``: an array, a tensor or a sequence.
            target: ``[n, classes]`` of 1, 0, and -1 for ignored.
            average: ``"macro"`` or None.

        Returns:
            A 0-d array, or ``[classes]`` where ``average`` is None; float64.

        Raises:
            AssertedInputError: ``average`` is invalid, or the shapes differ.
            TypeError: an input is not an array, tensor or sequence.
        """
        common.check_choice("average", average, _AP_AVERAGES)
        pred, target = inputs.to_batch(pred, "pred"), inputs.to_batch(target, "target")
        if pred.ndim != 2 or pred.shape != target.shape:
            raise AssertedInputError("Both `pred` and `target` should have shape `(N, num_classes)`")
        return _average_precision(inputs.as_scores(pred, "pred"), _as_target(target, "target"), average)


_AP_AVERAGES = ("macro", None)


def _average_precision(pred: np.ndarray, target: np.ndarray, average: str | None) -> np.ndarray:
    values = 100 * formulas.average_precision.bare(pred, target)
    if average is None:
        return values
    return np.asarray(values.mean() if values.size else math.nan)
