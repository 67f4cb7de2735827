"""Metrics for classification with one label per sample, modeled on MMPretrain 1.2.0."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import AssertedInputError, InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric, as_dicts
from fleetmetrics.evaluator.metrics import common, inputs
from fleetmetrics.evaluator.registry import PRETRAIN
from fleetmetrics.support.checks import knows_its_arguments
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import numpy_ops

__all__ = ["Accuracy", "ConfusionMatrix", "SingleLabelMetric"]


def _warn_of_dropped(metric: str, what: str, states: Mapping[str, np.ndarray], thrs: Sequence[float | None]) -> None:
    for count, thr in zip(states["dropped"].tolist() if "dropped" in states else (), thrs):
        if count:
            warn(
                f"{metric}: the threshold {thr} drops {count} {what} whose scores are outside [0, 1], so they are not "
                "probabilities. For logits give thrs=None, or a threshold for logits"
            )


@PRETRAIN.register_module()
class Accuracy(BaseMetric):
    """Share of the samples whose label is among the k highest scores, in percent, modeled on MMPretrain's.

    Formula: ``100 * correct / total``. A sample is correct if fewer than k classes come before its label, and the
    label's score is above the threshold. Equal scores are ordered by class, the lower one first, as in
    `fleetmetrics.Accuracy` (MMPretrain uses ``torch.topk``, whose order is undefined). Without ``pred_score``,
    ``pred_label`` must equal the label, whatever k and the thresholds are.

    Data samples hold ``pred_score`` ``[classes]`` or ``pred_label``, and ``gt_label``. Workers exchange counts.

    Differs from MMPretrain's as all do, see `fleetmetrics.evaluator.metrics`, and in addition:

    - the default threshold, 0.0, drops negative scores in both; here with a warning for samples with scores outside
      [0, 1], such as logits;
    - scores are compared in their own precision;
    - labels ``[n, 1]`` equal ``[n]``: MMPretrain broadcasts them against predicted labels;
    - thresholds that are equal to two digits have separate results; integers are thresholds too.

    Args:
        topk: one k or several.
        thrs: one threshold or several, each a number or None, for none.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"accuracy"``.

    Results:
        ``top{k}``; with several thresholds ``top{k}_thr-{threshold:.2f}`` and ``top{k}_no-thr``.

    Raises:
        InvalidInputError: an argument is invalid, or k is larger than the number of classes.

    Examples:
        >>> metric = Accuracy(topk=(1, 2))
        >>> metric.process(None, [{"pred_score": [0.5, 0.3, 0.2], "gt_label": 1}])
        >>> metric.compute_metrics(metric.results)
        {'top1': 0.0, 'top2': 100.0}
        >>> Accuracy.calculate([0, 2, 1, 3], [0, 1, 2, 3])
        array([50.])
    """

    default_prefix: str | None = "accuracy"

    def __init__(
        self,
        topk: int | Sequence[int] = (1,),
        thrs: float | Sequence[float | None] | None = 0.0,
        collect_device: str = "cpu",
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.topk: tuple[int, ...] = common.top_ks(topk)
        self.thrs: tuple[float | None, ...] = common.thresholds(thrs)

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        self.results.extend([inputs.labeled_record(sample) for sample in as_dicts(data_samples)])

    def summarize(self, results: Sequence[Any]) -> dict[str, np.ndarray]:
        if not results:
            return _correct(np.zeros([0, max(self.topk)]), np.zeros(0), self.topk, self.thrs)
        advice = ". Please check the `val_evaluator` and `test_evaluator` fields in your config file"
        return _correct(*inputs.labeled_columns(results), self.topk, self.thrs, advice)

    def compute_from(self, states: dict[str, np.ndarray]) -> dict[str, Any]:
        values = _accuracies(states, self.thrs)
        if values.ndim == 0:
            return {"top1": values.item()}
        suffixes = common.suffixes(self.thrs)
        return {
            f"top{k}{suffix}": value
            for k, row in zip(self.topk, values.tolist())
            for suffix, value in zip(suffixes, row)
        }

    @staticmethod
    @knows_its_arguments
    def calculate(
        pred: Any, target: Any, topk: int | Sequence[int] = (1,), thrs: float | Sequence[float | None] | None = (0.0,)
    ) -> np.ndarray | list[list[np.ndarray]]:
        """The accuracy of these predictions, in percent.

        Args:
            pred: scores ``[n, classes]``, or predicted labels ``[n]``: an array, a tensor or a sequence.
            target: labels ``[n]`` or ``[n, 1]``.
            topk: one k or several.
            thrs: one threshold or several, each a number or None.

        Returns:
            Arrays of one float64 (MMPretrain: float32 tensors): for scores a list per k of one array per threshold,
            for labels one array.

        Raises:
            AssertedInputError: predictions and labels differ in number.
            TypeError: an input is not an array, tensor or sequence.
        """
        pred, target = inputs.pair(pred, target)
        thrs = common.thresholds(thrs)
        values = _accuracies(_correct(pred, target, common.top_ks(topk), thrs), thrs)
        if values.ndim == 0:
            return values.reshape(1)
        return [[np.array([value]) for value in row] for row in values]


def _correct(
    pred: np.ndarray, target: np.ndarray, topk: Sequence[int], thrs: Sequence[float | None], advice: str = ""
) -> dict[str, np.ndarray]:
    total = np.array(len(target), np.int64)
    if pred.ndim == 1:
        equal = inputs.as_labels(pred, "pred") == inputs.as_labels(target, "target")
        return {"correct": np.array(np.count_nonzero(equal), np.int64), "total": total}
    pred = inputs.as_scores(pred, "pred")
    classes = pred.shape[1]
    if max(topk) > classes:
        raise InvalidInputError(
            f"Top-{max(topk)} accuracy is unavailable since the number of categories is {classes}{advice}"
        )
    label = inputs.as_labels(target, "target", classes)
    hit = numpy_ops.rank_of_label(pred, label)[:, None] < np.array(topk)
    kept, dropped = _kept(pred, label, thrs, hit.any(axis=1) & inputs.look_like_logits(pred))
    return {"correct": hit.T.astype(np.int64) @ kept.T.astype(np.int64), "dropped": dropped, "total": total}


def _kept(
    pred: np.ndarray, label: np.ndarray, thrs: Sequence[float | None], suspect: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the scores of these labels are above each threshold, ``[thresholds, n]``; the suspects each drops."""
    own = numpy_ops.score_of_label(pred, label)
    kept = np.stack([inputs.above(own, thr) for thr in thrs])
    return kept, np.array([np.count_nonzero(suspect & ~above) for above in kept], np.int64)


def _accuracies(states: dict[str, np.ndarray], thrs: Sequence[float | None]) -> np.ndarray:
    """Percent: ``[k, threshold]``, or 0-d for predicted labels."""
    _warn_of_dropped("Accuracy", "correct predictions", states, thrs)
    counts, total = states["correct"].reshape(-1).tolist(), states["total"]
    values = [formulas.ratio.bare(100 * count, total, "accuracy") for count in counts]
    return np.reshape(values, states["correct"].shape)


@PRETRAIN.register_module()
class SingleLabelMetric(BaseMetric):
    """Precision, recall, F1 and support in percent, modeled on MMPretrain's ``SingleLabelMetric``.

    Formula: ``tp / predicted``, ``tp / actual``, ``2 * tp / (predicted + actual)`` and ``actual``, from the counts of
    every class; 0 / 0 is 0. The predicted class has the highest score, and is the lowest class where scores are equal;
    no class is predicted unless that score is above the threshold. See `fleetmetrics.formulas.precision_recall_f1`.

    Data samples hold ``pred_score`` ``[classes]`` or ``pred_label`` (then also ``num_classes``, unless the metric has
    it), and ``gt_label``. Workers exchange counts per class.

    Differs from MMPretrain's as `Accuracy` does. In addition, samples with different ``num_classes`` are an error:
    MMPretrain uses that of the first.

    Args:
        thrs: one threshold or several, each a number or None, for none. As in `Accuracy`, the default 0.0 drops
            negative scores, with a warning.
        items: which of ``"precision"``, ``"recall"``, ``"f1-score"`` and ``"support"`` to report.
        average: ``"macro"``: mean over the classes; ``"micro"``: from the sums over the classes; None: every class.
        num_classes: number of classes, for predicted labels; ignored with scores.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"single-label"``.

    Results:
        The items; with several thresholds, each followed by ``_thr-{threshold:.2f}`` or ``_no-thr``; then by
        ``_micro``, or by ``_classwise`` for a list.

    Raises:
        AssertedInputError: ``items`` or ``average`` is invalid, or the number of classes is unknown.
        InvalidInputError: another argument is invalid.

    Examples:
        >>> SingleLabelMetric.calculate([0, 1, 1, 3], [0, 2, 1, 3], num_classes=4)
        (array(62.5), array(75.), array(66.66666667), array(4))
    """

    default_prefix: str | None = "single-label"

    def __init__(
        self,
        thrs: float | Sequence[float | None] | None = 0.0,
        items: Sequence[str] = ("precision", "recall", "f1-score"),
        average: str | None = "macro",
        num_classes: int | None = None,
        collect_device: str = "cpu",
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.average: str | None = common.check_choice("average", average, common.AVERAGES)
        self.thrs: tuple[float | None, ...] = common.thresholds(thrs)
        self.items: tuple[str, ...] = common.check_items(items, "SingleLabelMetric")
        self.num_classes: int | None = common.check_class_count(num_classes)

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        records = inputs.records_with_classes(as_dicts(data_samples), self.num_classes)
        if any("pred_label" in record and record["num_classes"] is None for record in records):
            raise AssertedInputError("The `num_classes` must be specified if no `pred_score`")
        self.results.extend(records)

    def summarize(self, results: Sequence[Any]) -> dict[str, np.ndarray]:
        if not results:
            none = np.zeros([len(self.thrs), self.num_classes or 0], np.int64)
            counts = {"true_positive": none, "predicted": none, "actual": none.sum(axis=0)}
            return {**counts, "dropped": none.sum(axis=1), "total": none.sum()}
        pred, target = inputs.labeled_columns(results)
        return _class_counts(pred, target, self.thrs, inputs.class_count(results) if pred.ndim == 1 else None)

    def compute_from(self, states: dict[str, np.ndarray]) -> dict[str, Any]:
        _warn_of_dropped("SingleLabelMetric", "predictions", states, self.thrs)
        endings = common.suffixes(self.thrs) if "dropped" in states else [""]
        return common.named_shares(states, self.items, self.average, endings)

    @staticmethod
    @knows_its_arguments
    def calculate(
        pred: Any,
        target: Any,
        thrs: float | Sequence[float | None] | None = (0.0,),
        average: str | None = "macro",
        num_classes: int | None = None,
    ) -> tuple[np.ndarray, ...] | list[tuple[np.ndarray, ...]]:
        """Precision, recall, F1 (in percent) and support of these predictions.

        Args:
            pred: scores ``[n, classes]``, or predicted labels ``[n]``: an array, a tensor or a sequence.
            target: labels ``[n]`` or ``[n, 1]``.
            thrs: one threshold or several, each a number or None; for scores.
            average: ``"macro"``, ``"micro"`` or None.
            num_classes: number of classes, required for predicted labels.

        Returns:
            0-d arrays, or ``[classes]`` where ``average`` is None; float64, where MMPretrain has float32 tensors. For
            labels one tuple, for scores a list of one per threshold.

        Raises:
            AssertedInputError: ``average`` is invalid, or ``num_classes`` is missing; else as `Accuracy.calculate`.
        """
        common.check_choice("average", average, common.AVERAGES)
        pred, target = inputs.pair(pred, target)
        thrs = common.thresholds(thrs)
        states = _class_counts(pred, target, thrs, num_classes)
        _warn_of_dropped("SingleLabelMetric", "predictions", states, thrs)
        values = common.shares(states, average)
        return values[0] if pred.ndim == 1 else values


def _class_counts(
    pred: np.ndarray, target: np.ndarray, thrs: Sequence[float | None], classes: int | None
) -> dict[str, np.ndarray]:
    """The per-class sums of the confusion matrix of every threshold."""
    states = {"total": np.array(len(target), np.int64)}
    if pred.ndim == 1:
        classes = common.known_class_count(classes)
        label, kept = inputs.as_labels(pred, "pred", classes), np.ones([1, len(pred)], np.bool_)
    else:
        pred = inputs.as_scores(pred, "pred")
        classes, label = pred.shape[1], pred.argmax(axis=1)
        kept, states["dropped"] = _kept(pred, label, thrs, inputs.look_like_logits(pred))
    truth = inputs.as_labels(target, "target", classes)
    right = label == truth
    states["true_positive"] = np.stack([np.bincount(label[keep & right], minlength=classes) for keep in kept])
    states["predicted"] = np.stack([np.bincount(label[keep], minlength=classes) for keep in kept])
    states["actual"] = np.bincount(truth, minlength=classes)
    return states


@PRETRAIN.register_module()
class ConfusionMatrix(BaseMetric):
    """How often each class was predicted for each true class, modeled on MMPretrain's ``ConfusionMatrix``.

    Rows are true classes, columns predicted ones: the highest score, and the lowest class where scores are equal.

    Data samples hold ``pred_score`` ``[classes]`` or ``pred_label``, and ``gt_label``. Workers exchange the matrix.

    Differs from MMPretrain's as all do, see `fleetmetrics.evaluator.metrics`. In addition, a prediction outside the
    matrix is an error (MMPretrain counts it in the next row, as another true class); there is no ``plot``.

    Args:
        num_classes: number of classes; None: one per score, or the ``num_classes`` of the data samples.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"confusion_matrix"``.

    Results:
        ``result``, ``[classes, classes]``.

    Raises:
        AssertedInputError: the number of classes is unknown; not before the value is asked for.
        InvalidInputError: an input is invalid.

    Examples:
        >>> ConfusionMatrix.calculate([0, 1, 1], [0, 2, 1], num_classes=3)
        array([[1, 0, 0],
               [0, 1, 0],
               [0, 1, 0]])
    """

    default_prefix: str | None = "confusion_matrix"

    def __init__(self, num_classes: int | None = None, collect_device: str = "cpu", prefix: str | None = None) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.num_classes: int | None = common.check_class_count(num_classes)

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        records = inputs.records_with_classes(as_dicts(data_samples), self.num_classes)
        for record in records:
            if "pred_score" in record:  # replaced by the label: smaller
                score = inputs.as_scores(record.pop("pred_score")[None], "pred_score")
                record.update(pred_label=score.argmax(axis=1), num_classes=score.shape[1])
        self.results.extend(records)

    def summarize(self, results: Sequence[Any]) -> dict[str, np.ndarray]:
        if not results:
            return {"matrix": np.zeros([self.num_classes or 0] * 2, np.int64)}
        pred, target = inputs.labeled_columns(results)
        return {"matrix": self.calculate(pred, target, inputs.class_count(results))}

    def compute_from(self, states: dict[str, np.ndarray]) -> dict[str, Any]:
        return {"result": states["matrix"]}

    @staticmethod
    @knows_its_arguments
    def calculate(pred: Any, target: Any, num_classes: int | None = None) -> np.ndarray:
        """The confusion matrix of these predictions.

        Args:
            pred: scores ``[n, classes]``, or predicted labels ``[n]``: an array, a tensor or a sequence.
            target: labels ``[n]`` or ``[n, 1]``.
            num_classes: number of classes, required for predicted labels; None: one per score.

        Returns:
            ``[classes, classes]`` int64.

        Raises:
            AssertedInputError: ``num_classes`` is missing; else as `Accuracy.calculate`.
        """
        pred, target = inputs.pair(pred, target)
        if pred.ndim > 1:
            scores = inputs.as_scores(pred, "pred")
            pred, num_classes = scores.argmax(axis=1), scores.shape[1] if num_classes is None else num_classes
        classes = common.known_class_count(num_classes)
        cells = inputs.as_labels(target, "target", classes) * classes + inputs.as_labels(pred, "pred", classes)
        return np.bincount(cells, minlength=classes**2).reshape(classes, classes)
