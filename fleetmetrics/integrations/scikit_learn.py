"""scikit-learn's ``classification_report`` over the samples of all workers; it does not import scikit-learn."""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

import fleetmetrics.comm
from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.comm.choose import call_of
from fleetmetrics.errors import InvalidInputError, MissingArgumentError
from fleetmetrics.formulas.class_report import ClassReport, class_names, report_of
from fleetmetrics.formulas.confusion import Counts
from fleetmetrics.metrics.aggregation import Count
from fleetmetrics.metrics.classification.class_reports import ClassificationReport
from fleetmetrics.support.checks import flag_of, knows_its_arguments, listed, whole_number_of, zero_division_of
from fleetmetrics.support.tensors import as_array, refuse_masked
from fleetmetrics.wrappers.sliced import Sliced
from fleetmetrics.wrappers.sliced_states import host_keys

__all__ = ["classification_report"]


@knows_its_arguments
def classification_report(
    *positional: Any,
    label: Any = None,
    prediction: Any = None,
    weight: Any = None,
    mask: Any = None,
    labels: Sequence[Any] | None = None,
    target_names: Sequence[str] | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float = math.nan,
    ignore_index: Any = None,
    communicator: fleetmetrics.comm.Communicator | None = None,
    group: Any = None,
    timeout: float | None = None,
) -> ClassReport:
    """Precision, recall, F1 and support of each class over all workers, as scikit-learn's function of this name.

    Every worker must call it with its own samples, and gets the same report, in one exchange. To add batch by batch,
    use `ClassificationReport`.

    Args:
        *positional: refused: scikit-learn takes labels first, and `Metric.add` takes predictions first.
        label: the true classes, integers or strings ``[n]``; or for several labels 0 and 1 ``[n, labels]``.
        prediction: the predicted classes, of the label's shape; or scores ``[n, classes]``: the highest counts.
        weight: one number of at least 0 per sample; None: 1.
        mask: one flag per sample; False leaves it out. None: all count.
        labels: the classes of the report, in this order, and of scores the classes of the columns; None: those of
            all workers, sorted. If it lacks one of these, the report has micro averages in place of the accuracy.
        target_names: the names of the classes; None: the classes as strings.
        digits: the digits after the point in the printed table.
        output_dict: True: a plain dict; the report itself is a dict, too.
        zero_division: the value of undefined numbers; nan, with `UndefinedMetricWarning`, leaves them out of averages.
        ignore_index: the label, or a list of labels, of samples that do not count.
        communicator: the workers' channel; None: the one that was set or is chosen automatically.
        group: the workers that call it; None: all.
        timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have met.

    Raises:
        FleetMetricsError: the same error on every worker.

    Examples:
        >>> report = classification_report(label=["cat", "dog", "cat"], prediction=["cat", "dog", "dog"])
        >>> print(report)
                      precision  recall  f1-score  support
        cat                1.00    0.50      0.67        2
        dog                0.50    1.00      0.67        1
        accuracy                             0.67        3
        macro avg          0.75    0.75      0.67        3
        weighted avg       0.83    0.67      0.67        3
        >>> report["cat"]["recall"]
        0.5
    """
    settings = _Settings(labels, target_names, digits, output_dict, zero_division, ignore_index)
    try:
        _check_names(positional, label=label, prediction=prediction)
        settings = settings.checked()
        metric = _filled(settings, label, prediction, weight, mask)
    except Exception as error:
        with call_of("classification_report", communicator, group=group, timeout=timeout):  # tells the other workers
            raise error
    value = metric.compute(communicator=communicator, group=group, timeout=timeout)
    report = value if isinstance(value, ClassReport) else _report(settings, value)
    return dict(report) if settings.output_dict else report  # type: ignore[return-value]


class _OfPair(Count):
    """The number of samples of a true and a predicted class, with the settings of the report: all workers agree."""

    def __init__(self, labels: Any, target_names: Any, digits: int, zero_division: float, ignore_index: Any) -> None:
        super().__init__()


class _Settings(NamedTuple):
    labels: Any
    target_names: Any
    digits: int
    output_dict: bool
    zero_division: float
    ignore_index: Any

    def checked(self) -> _Settings:
        """The settings; InvalidInputError if one is invalid."""
        labels, names, digits, plain, zero_division, ignored = self
        if labels is not None:
            labels = host_keys(listed("labels", labels, "classes"), "labels").tolist()
            class_names(labels, len(labels), "labels")
            names = class_names(labels if names is None else names, len(labels))
        if not isinstance(ignored, (list, tuple, set, frozenset, range, np.ndarray)):
            ignored = [] if ignored is None else [ignored]
        flag, digits = flag_of("output_dict", plain), whole_number_of("digits", digits, 0, 15)
        return _Settings(labels, names, digits, flag, zero_division_of(zero_division), list(ignored))


def _check_names(positional: Sequence[Any], **needed: Any) -> None:
    if positional:
        raise InvalidInputError(
            "classification_report takes label= and prediction= by keyword: scikit-learn takes labels first, and add "
            "takes predictions first"
        )
    for name, value in needed.items():
        if value is None:
            raise MissingArgumentError(f"classification_report needs {name}=")


def _filled(settings: _Settings, label: Any, prediction: Any, weight: Any, mask: Any) -> Accumulator[Any]:
    """A metric that holds this worker's samples."""
    name = "classification_report"
    for argument, value in (("label", label), ("prediction", prediction)):
        refuse_masked(argument, value)
    label, prediction = as_array(label, "label"), as_array(prediction, "prediction")
    if label.ndim == 2 and label.shape[1] > 1:
        metric = ClassificationReport(
            name=name,
            num_labels=label.shape[1],
            target_names=settings.target_names,
            digits=settings.digits,
            zero_division=settings.zero_division,
            ignore_index=settings.ignore_index,
        )
        metric.add(prediction, label, weight, mask)
        return metric
    label = label.reshape(-1) if label.ndim == 2 else label
    true, predicted = _classes("label", label), _predicted(settings, prediction, label)
    if true.shape != predicted.shape:
        raise InvalidInputError(
            f"prediction has {len(predicted)} samples, and label has {len(true)}; give one for each"
        )
    if len(true):
        _check_kinds(("label", true), ("prediction", predicted))
    if settings.ignore_index and len(true):
        ignored = host_keys(settings.ignore_index, "ignore_index")
        _check_kinds(("label", true), ("ignore_index", ignored))
        keep = ~np.isin(true, ignored)
        mask = keep if mask is None else keep & as_array(mask, "mask").astype(bool).reshape(-1)
    number = _OfPair(
        settings.labels, settings.target_names, settings.digits, settings.zero_division, settings.ignore_index
    )
    counted: Sliced[Any] = Sliced(number, by="pair", max_keys=None, name=name)
    if len(true):
        counted.add(np.zeros(len(true)), weight=weight, mask=mask, pair=_pairs(true, predicted))
    return counted


def _check_kinds(*columns: tuple[str, np.ndarray]) -> None:
    """Raise for strings in one of two columns of classes, and integers in the other."""
    kinds = {argument: "strings" if values.dtype.kind == "U" else "integers" for argument, values in columns}
    if len({*kinds.values()}) > 1:
        texts = " and ".join(f"{argument} has {kind}" for argument, kind in kinds.items())
        raise InvalidInputError(f"{texts}; give classes in one form")


def _predicted(settings: _Settings, prediction: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The predicted classes; of scores the one with the highest, the first of several."""
    if prediction.ndim != 2 or prediction.shape[1] == 1:
        return _classes("prediction", prediction.reshape(-1))
    if prediction.dtype.kind not in "biuf" or np.isnan(prediction).any():
        raise InvalidInputError("prediction must hold scores [n, classes] without nan, or predicted classes [n]")
    classes, best = prediction.shape[1], prediction.argmax(axis=1)
    if settings.labels is not None and len(settings.labels) != classes:
        raise InvalidInputError(
            f"labels has {len(settings.labels)} classes, and prediction scores of {classes}; name those of all columns"
        )
    if settings.labels is None and label.dtype.kind not in "biu" and len(label):
        raise InvalidInputError(
            "prediction has scores, and label no integers; name the classes of the columns, labels="
        )
    return best if settings.labels is None else np.asarray(settings.labels)[best]


def _classes(argument: str, values: np.ndarray) -> np.ndarray:
    """Classes, int64 or strings; floats might be probabilities."""
    if values.dtype.kind == "f" and len(values):
        way = " (of probabilities, prediction > 0.5)" if argument == "prediction" else ""
        raise InvalidInputError(f"{argument} must hold classes, integers or strings, not {values.dtype}{way}")
    keys = host_keys(values if len(values) else np.empty(0, np.int64), argument)
    return keys if keys.dtype.kind == "U" else keys.astype(np.int64)


def _pairs(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """A string for each sample that holds both of its classes."""
    classes, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    pairs, places = np.unique(codes[: len(true)] * len(classes) + codes[len(true) :], return_inverse=True)
    values = classes.tolist()
    texts = [json.dumps([values[pair // len(values)], values[pair % len(values)]]) for pair in pairs.tolist()]
    return np.asarray(texts)[places]


def _report(settings: _Settings, pairs: Mapping[str, Any]) -> ClassReport:
    """The report from the number of samples of each pair of a true and a predicted class."""
    numbers = {tuple(json.loads(pair)): number for pair, number in pairs.items()}
    known = {value for pair in numbers for value in pair}
    try:
        classes = sorted(known) if settings.labels is None else settings.labels
    except TypeError:
        raise InvalidInputError("label has strings on some workers, and integers on others; give one form") from None
    names = class_names(classes if settings.target_names is None else settings.target_names, len(classes))
    sums = {value: [0, 0, 0] for value in {*known, *classes}}
    for (true, predicted), number in numbers.items():
        if true == predicted:
            sums[true][0] += number
        else:
            sums[predicted][1] += number
            sums[true][2] += number
    tp, fp, fn = (np.array([sums[value][place] for value in classes] or np.zeros(0, int)) for place in range(3))
    total = sum(numbers.values())
    counts = Counts(tp, fp, fn, np.full(len(classes), total), "class")  # the last tells whether there are samples
    right = None if known - set(classes) else (tp.sum(), np.asarray(total))
    return report_of(counts, names, right, settings.zero_division, settings.digits)
