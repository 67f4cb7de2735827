"""The report of classes as a metric."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.metric import formula_of
from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas.class_report import OF_SAMPLES, class_names
from fleetmetrics.metrics.classification.averaged import F1, ConfusionMetric, Precision, Recall, TaskSettings
from fleetmetrics.metrics.task import Cells, number_of_rows, rows_with_share, sum_of_shares
from fleetmetrics.support.checks import flag_of, whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.warning import muted

__all__ = ["ClassificationReport"]

#: The measures of a row by the names of its states: what the report calls it, and when a row has none.
_MEASURES = {
    "precision": ("precision", "no label is predicted"),
    "recall": ("recall", "no label is true"),
    "f1": ("f1-score", "no label is true or predicted"),
}


class ClassificationReport(ConfusionMetric[formulas.ClassReport]):
    """Precision, recall, F1 and support of each class by name, with accuracy, macro and weighted averages.

    Formula: per class ``tp / (tp + fp)``, ``tp / (tp + fn)``, ``2 * tp / (2 * tp + fn + fp)`` and ``tp + fn``, from one
    confusion matrix, which a collection shares with `Precision`, `Recall` and `F1`; averages as theirs. The value is a
    `fleetmetrics.formulas.ClassReport`: a dict like scikit-learn's, which prints as a table. The binary task has two
    classes; several labels have micro averages in place of the accuracy, and those over samples: of the shares of each
    row's own labels. Undefined numbers are nan, and averages leave them out, as scikit-learn's do with
    ``zero_division=nan``.

    Args:
        target_names: the names of the classes or labels, in their order; None: their numbers.
        digits: the digits after the point in the printed table, 0 to 15.
        samples_average: with several labels, whether there is an average over samples, for which weights and masks
            have one entry per row.
        **settings: as for `Precision`, without ``average``.

    Examples:
        >>> metric = ClassificationReport(num_classes=3, target_names=["cat", "dog", "owl"])
        >>> metric.add([0, 0, 2, 2, 2, 1], [0, 0, 1, 2, 2, 1])
        >>> report = metric.compute()
        >>> report["dog"]
        {'precision': 1.0, 'recall': 0.5, 'f1-score': 0.6666666666666666, 'support': 2}
        >>> print(report)
                      precision  recall  f1-score  support
        cat                1.00    1.00      1.00        2
        dog                1.00    0.50      0.67        2
        owl                0.67    1.00      0.80        2
        accuracy                             0.83        6
        macro avg          0.89    0.83      0.82        6
        weighted avg       0.89    0.83      0.82        6
    """

    incidental: ClassVar[tuple[str, ...]] = (*ConfusionMetric.incidental, "digits")
    gives = "parts"
    takes_top_k = True
    target_names: list[str]
    digits: int

    samples_average: bool
    #: The contributions to the share of a row, as those of `Precision`, `Recall` and `F1`.
    precision_parts: ClassVar[tuple[Cells, Cells]] = Precision.parts
    recall_parts: ClassVar[tuple[Cells, Cells]] = Recall.parts
    f1_parts: ClassVar[tuple[Cells, Cells]] = F1.parts

    def __init__(
        self,
        *,
        target_names: Sequence[str] | None = None,
        digits: int = 2,
        samples_average: bool = True,
        **settings: Unpack[TaskSettings],
    ) -> None:
        self.samples_average = flag_of("samples_average", samples_average)
        super().__init__(**settings)
        self.target_names = class_names(target_names, self.task.size)
        self.digits = whole_number_of("digits", digits, 0, 15)
        self.settle(target_names=self.target_names, samples_average=self.samples_average)

    def _declare_states(self) -> None:
        super()._declare_states()
        if self.task.kind != "multilabel" or not self.samples_average:
            return
        for name in _MEASURES:
            settings = ("task", f"{name}_parts")
            self.declare(f"{name}_shares", dtype="float64", statistic=sum_of_shares, settings=settings)
            self.declare(f"{name}_rows", statistic=rows_with_share, settings=settings)
        self.declare("rows", statistic=number_of_rows, settings=("task",))

    def formula(self, confusion: np.ndarray, rows: Any = None, **sums: Any) -> formulas.ClassReport:
        report = _of_confusion(self, confusion=confusion)
        if rows is not None:
            with muted(UndefinedMetricWarning) if rows == 0 else contextlib.nullcontext():  # the report has said it
                report[OF_SAMPLES] = {
                    measure: self._mean(measure, reason, sums[f"{name}_shares"], sums[f"{name}_rows"], rows)
                    for name, (measure, reason) in _MEASURES.items()
                }
            report[OF_SAMPLES]["support"] = report["macro avg"]["support"]
        return report

    def _mean(self, measure: str, reason: str, shares: Any, defined: Any, rows: Any) -> float:
        return formulas.mean_of_samples.bare(shares, defined, rows, measure, reason, self.zero_division)


_of_confusion = formula_of(formulas.classification_report, "target_names", "zero_division", "digits")
