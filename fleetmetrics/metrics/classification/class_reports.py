"""The report of classes as a metric."""

from __future__ import annotations

from typing import Any, ClassVar, Sequence

from fleetmetrics import formulas
from fleetmetrics.base.metric import formula_of
from fleetmetrics.formulas.class_report import class_names
from fleetmetrics.metrics.classification.averaged import ConfusionMetric, TaskSettings
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["ClassificationReport"]


class ClassificationReport(ConfusionMetric[formulas.ClassReport]):
    """Precision, recall, F1 and support of each class by name, with accuracy, macro and weighted averages.

    Formula: per class ``tp / (tp + fp)``, ``tp / (tp + fn)``, ``2 * tp / (2 * tp + fn + fp)`` and ``tp + fn``, from one
    confusion matrix, which a collection shares with `Precision`, `Recall` and `F1`; averages as theirs. The value is a
    `fleetmetrics.formulas.ClassReport`: a dict like scikit-learn's, which prints as a table. The binary task has two
    classes; several labels have micro averages in place of the accuracy. Undefined numbers are nan, and averages leave
    them out, as scikit-learn's do with ``zero_division=nan``.

    Args:
        target_names: the names of the classes or labels, in their order; None: their numbers.
        digits: the digits after the point in the printed table, 0 to 15.
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

    formula: Any = formula_of(formulas.classification_report, "target_names", "zero_division", "digits")

    def __init__(
        self, *, target_names: Sequence[str] | None = None, digits: int = 2, **settings: Unpack[TaskSettings]
    ) -> None:
        super().__init__(**settings)
        self.target_names = class_names(target_names, self.task.size)
        self.digits = whole_number_of("digits", digits, 0, 15)
        self.settle(target_names=self.target_names)
