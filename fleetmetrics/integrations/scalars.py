"""Scalars with stable names from the values of metrics, collections and wrappers, for loggers."""

from __future__ import annotations

import re
import zlib
from typing import Any, Iterator, Mapping

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import ROC, CalibrationPoints, HistogramCounts, PrecisionRecall, Sweep
from fleetmetrics.formulas.bootstrap import BootstrapResult
from fleetmetrics.formulas.intervals import IntervalResult
from fleetmetrics.metrics.curves import Shares
from fleetmetrics.support.checks import array_or_empty, flag_of, knows_its_arguments, whole_number_of
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import to_host

__all__ = ["flatten"]

#: The types that `parts` leaves whole.
_WHOLE = (ROC, PrecisionRecall, Shares, Sweep, CalibrationPoints, HistogramCounts, BootstrapResult, IntervalResult)


@knows_its_arguments
def flatten(values: Any, prefix: str = "", *, most: int = 100, matrices: bool = True) -> dict[str, float]:
    """Turn the values of metrics, collections and wrappers into scalars with stable names.

    A name is a path: the key in the collection, the slice, the part, such as ``auc/fr/low`` or, of an array, ``f1/2``.
    Letters, digits, ``_``, ``-`` and ``.`` are kept, blanks become ``_``; so do other characters, and then four digits
    tell the name from similar ones: ``<30`` is ``_30_907a``. VisualDL, TensorBoard and MLflow accept all these
    names, and no name depends on other values.

    ROC and precision-recall curves give their ``area``; calibration curves ``error``, the mean distance over all
    samples; histograms the numbers ``below`` and ``above`` their bins. Gain and lift give a scalar by share of the
    samples, threshold sweeps by threshold. None and strings give nothing.

    Args:
        values: a number, array, tensor or named tuple; or dicts, tuples and lists of these, to any depth.
        prefix: the beginning of the names, such as ``"eval"``.
        most: a larger array gives no scalars, with a warning.
        matrices: False omits square matrices.

    Returns:
        Floats by name.

    Raises:
        InvalidInputError: a value is not a number, or two values have the same name.

    Examples:
        >>> import fleetmetrics
        >>> metrics = fleetmetrics.MetricCollection({"auc": fleetmetrics.AUC(), "f1": fleetmetrics.F1()})
        >>> metrics.add([0.9, 0.2, 0.7, 0.6], [1, 0, 1, 0])
        >>> fleetmetrics.flatten(metrics.compute(), "eval")
        {'eval/auc': 1.0, 'eval/f1': 0.8}
    """
    whole_number_of("most", most, 1)
    flag_of("matrices", matrices)
    if not isinstance(prefix, str):
        raise InvalidInputError(f"prefix must be a string, not {prefix!r:.80}")
    scalars: dict[str, float] = {}
    try:
        named = list(parts(values, prefix))
    except RecursionError:
        raise InvalidInputError("values holds itself, or is nested too deeply; give dicts and lists that end") from None
    for part, whole in named:
        for name, value in _scalars(part, whole, most) if matrices or not is_matrix(whole) else ():
            if name in scalars:
                raise InvalidInputError(f"values holds two scalars of the name {name!r}; rename one of them")
            scalars[name] = value
    return scalars


def is_matrix(value: Any) -> bool:
    """Whether a part is a square matrix, or several: a confusion matrix, most likely."""
    return isinstance(value, np.ndarray) and value.ndim > 1 and value.shape[-1] == value.shape[-2] > 1


def parts(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The curves, and everything else as arrays, each with its name."""
    if values is None or isinstance(values, (str, bytes)):
        return
    if hasattr(values, "_fields") and not isinstance(values, _WHOLE):
        values = values._asdict()
    if not isinstance(values, (Mapping, *_WHOLE)):
        if np.ma.is_masked(values):
            where = f" under {name!r}" if name else ""
            raise InvalidInputError(f"values holds a masked array{where}; leave out what is masked, or fill it in")
        array = array_or_empty(to_host(values))
        listed = isinstance(values, (tuple, list)) and (array.dtype.kind not in "biuf" or len(array) < len(values))
        values = dict(enumerate(values)) if listed else array
    if not isinstance(values, Mapping):
        yield "/".join(map(_clean, name.split("/"))) if name else "value", values
        return
    for key, value in values.items():
        yield from parts(value, f"{name}/{key}" if name else str(key))


def _clean(text: str) -> str:
    blank = re.sub(r"\s", "_", text)
    clean = re.sub(r"[^-\w.]", "_", blank)
    if clean == blank and clean.strip("."):
        return clean
    return f"{clean}_{zlib.crc32(text.encode(errors='backslashreplace')) & 0xFFFF:04x}"


def _scalars(name: str, value: Any, most: int, labels: Any = None) -> Iterator[tuple[str, float]]:
    """The scalars of one part; ``labels`` name the entries of an array."""
    if isinstance(value, _WHOLE):
        if isinstance(value, (Shares, Sweep)):
            labels = getattr(value[0], "value", value[0])  # those of Bootstrap do not vary
        for field, column in _kept(value).items():
            yield from _scalars(f"{name}/{field}" if field else name, column, most, labels)
        return
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"values holds {array.tolist()!r} under {name!r}; scalars come from numbers, arrays, named tuples, and "
            "dicts of these"
        )
    if array.size > most:
        warn(f"{name} has {array.size} numbers, more than most={most}, so it gives no scalars")
        return
    for index, number in np.ndenumerate(array):
        place = index if labels is None or array.ndim != 1 else [labels[index[0]]]
        yield "/".join([name, *map(str, place)]), float(number)


def _kept(value: Any) -> dict[str, Any]:
    """The sources of scalars, by field."""
    if isinstance(value, ROC):
        return {"area": np.sum(np.diff(value.fpr) * (value.tpr[1:] + value.tpr[:-1]) / 2)}
    if isinstance(value, PrecisionRecall):
        return {"area": -np.sum(np.diff(value.recall) * value.precision[:-1])}
    if isinstance(value, CalibrationPoints):
        distance, total = np.sum(value.weight * np.abs(value.predicted - value.actual)), value.weight.sum()
        return {"error": distance / total if total else np.nan}
    if isinstance(value, Shares):
        return {"": value.values}
    fields = {BootstrapResult: (0, 5), IntervalResult: (0, 4), HistogramCounts: (2, 4), Sweep: (1, 8)}
    first, last = fields[type(value)]  # not what is set
    return dict(list(value._asdict().items())[first:last])
