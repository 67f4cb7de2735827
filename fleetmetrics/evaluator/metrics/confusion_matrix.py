"""The confusion matrix, modelled on MMPretrain 1.2.0."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.evaluator.engine_metric import BaseMetric, as_dicts
from fleetmetrics.evaluator.metrics import inputs, settings
from fleetmetrics.evaluator.registry import PRETRAIN

__all__ = ["ConfusionMatrix"]


@PRETRAIN.register_module()
class ConfusionMatrix(BaseMetric):
    """How often each class was predicted for each true class, modelled on MMPretrain's ``ConfusionMatrix``.

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

    default_prefix = "confusion_matrix"

    def __init__(self, num_classes: int | None = None, collect_device: str = "cpu", prefix: str | None = None) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.num_classes = settings.check_class_count(num_classes)

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
        pred, target = inputs.labelled_columns(results)
        return {"matrix": self.calculate(pred, target, inputs.class_count(results))}

    def compute_from(self, states: dict[str, np.ndarray]) -> dict[str, Any]:
        return {"result": states["matrix"]}

    @staticmethod
    def calculate(pred: Any, target: Any, num_classes: int | None = None) -> np.ndarray:
        """The confusion matrix of these predictions.

        Args:
            pred: scores ``[n, classes]``, or predicted labels ``[n]``: an array, a tensor or a sequence.
            target: labels ``[n]`` or ``[n, 1]``.
            num_classes: number of classes, required for predicted labels; None: one per score.

        Returns:
            ``[classes, classes]`` int64.

        Raises:
            AssertedInputError: ``num_classes`` is missing, or predictions and labels differ in number.
            TypeError: an input is not an array, tensor or sequence.
        """
        pred, target = inputs.pair(pred, target)
        if pred.ndim > 1:
            scores = inputs.as_scores(pred, "pred")
            pred, num_classes = scores.argmax(axis=1), scores.shape[1] if num_classes is None else num_classes
        classes = settings.known_class_count(num_classes)
        cells = inputs.as_labels(target, "target", classes) * classes + inputs.as_labels(pred, "pred", classes)
        return np.bincount(cells, minlength=classes**2).reshape(classes, classes)
