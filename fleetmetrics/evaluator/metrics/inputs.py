"""The metrics' inputs (arrays, tensors, numbers and sequences; data samples; records) as NumPy arrays."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import AssertedInputError, InvalidInputError
from fleetmetrics.evaluator.metrics import common
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.xp import is_eager_tensor, numpy_ops, to_host

#: A softmax in float32 may exceed 1 by rounding.
_MOST = 1.001


def to_array(value: Any, argument: str = "value") -> np.ndarray:
    """A value as a NumPy array on the host, copied only if necessary."""
    value = to_host(value)
    if not isinstance(value, (np.ndarray, np.number, np.bool_, int, float)):
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            value = [to_array(entry, argument) for entry in value] if _holds_tensors(value) else value
        elif not hasattr(value, "__array__") or is_eager_tensor(value):
            raise TypeError(
                f"{argument} must hold numbers (of classes, their indices), not {value!r:.60}: {type(value)} is not an "
                "available argument"
            )
    return numpy_ops.asarray(value, argument)


def _holds_tensors(value: Any) -> bool:
    while isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value):
        value = value[0]
    return hasattr(value, "numpy")


def to_batch(value: Any, argument: str) -> np.ndarray:
    """An argument of `calculate` as an array with one entry or row per sample."""
    if isinstance(value, (int, float, np.generic)):
        raise TypeError(f"{argument} is one number: {type(value)} is not an available argument")
    array = to_array(value, argument)
    if array.ndim == 0:
        raise InvalidInputError(f"{argument} is one number; give one entry or row per sample")
    return array


def as_labels(array: np.ndarray, argument: str, classes: int | None = None) -> np.ndarray:
    """Labels ``[n]`` or ``[n, 1]`` as int64 ``[n]``."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise AssertedInputError(
            f"{argument} has shape {list(array.shape)}; allowed are [n] and [n, 1]; of one-hot rows give "
            f"{argument}.argmax(axis=-1)"
        )
    if array.dtype.kind == "f":
        whole = (array == np.floor(array)) & (np.abs(array) < 2.0**63)  # false for nan and infinities
        if not whole.all():
            raise InvalidInputError(f"{argument} holds {array[~whole][0]}; labels are whole numbers")
    labels = array.astype(np.int64, copy=False)
    if classes is not None and labels.size and not 0 <= labels.min() <= labels.max() < classes:
        wrong = labels[(labels < 0) | (labels >= classes)][0]
        raise InvalidInputError(f"{argument} holds {wrong}; with {classes} classes, labels are 0 to {classes - 1}")
    return labels


def as_scores(array: np.ndarray, argument: str) -> np.ndarray:
    """Scores ``[n, classes]`` as floats, in their own precision."""
    if array.ndim != 2 or not array.shape[1]:
        raise InvalidInputError(f"{argument} has shape {list(array.shape)}; scores have the shape [n, classes]")
    if array.dtype.kind != "f":
        return array.astype(np.float64)
    if array.size and np.isnan(array.min()):
        raise InvalidInputError(f"{argument} holds nan; scores are numbers")
    return array


def pair(pred: Any, target: Any) -> tuple[np.ndarray, np.ndarray]:
    """The predictions and targets given to `calculate`, of equal length."""
    pred, target = to_batch(pred, "pred"), to_batch(target, "target")
    if len(pred) != len(target):
        raise AssertedInputError(f"The size of pred ({len(pred)}) doesn't match the target ({len(target)})")
    return pred, target


def one_hot(labels: Sequence[np.ndarray], classes: int, argument: str) -> np.ndarray:
    """The classes of each sample as a row of zeros and ones; a repeated label counts once."""
    flags = np.zeros((len(labels), classes), np.int8)
    if len(labels):
        rows = np.repeat(np.arange(len(labels)), [len(label) for label in labels])
        flags[rows, as_labels(np.concatenate(labels), argument, classes)] = 1
    return flags


def field(sample: Mapping[str, Any], key: str) -> Any:
    """An entry of a data sample."""
    try:
        return sample[key]
    except KeyError:
        raise InvalidInputError(f"a data sample has no {key!r}; it has {sorted(map(str, sample))}") from None


def score_of(sample: Mapping[str, Any], key: str = "pred_score") -> np.ndarray:
    """The scores of a data sample, ``[classes]``; a copy, for a record."""
    array = np.array(to_array(field(sample, key), key))
    if array.ndim != 1:
        raise InvalidInputError(f"{key} of a data sample has shape {list(array.shape)}; allowed is [classes]")
    return array


def target_of(sample: Mapping[str, Any], classes: int) -> np.ndarray:
    """The targets ``[classes]`` of a data sample: its ``gt_score``, or its ``gt_label`` as zeros and ones."""
    if "gt_score" not in sample:
        return one_hot([label_of(sample, "gt_label")], classes, "gt_label")[0]
    target = score_of(sample, "gt_score")
    if len(target) != classes:
        raise InvalidInputError(
            f"gt_score of a data sample has {counted(len(target), 'entries')}, its pred_score {classes}"
        )
    return target


def label_of(sample: Mapping[str, Any], key: str) -> np.ndarray:
    """The label or labels of a data sample, ``[labels]`` int64."""
    array = to_array(field(sample, key), key)
    if array.ndim > 1:
        raise AssertedInputError(f"The dims of value should be 1, but got {array.ndim}: {key} of a data sample")
    return np.array(as_labels(array.reshape(-1), key))


def column(records: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """One entry of every record."""
    try:
        return [record[key] for record in records]
    except KeyError:
        raise InvalidInputError(
            f"some data samples have {key!r} and others do not; all must have the same entries"
        ) from None


def arrays(records: Sequence[Mapping[str, Any]], key: str) -> list[np.ndarray]:
    """One entry of every record, as arrays."""
    values = column(records, key)
    return [value if type(value) is np.ndarray and value.ndim else to_array(value, key).reshape(-1) for value in values]


def stack(records: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
    """One array of every record as the rows of a matrix."""
    rows = arrays(records, key)
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise InvalidInputError(f"{key} has {min(widths)} entries in one data sample and {max(widths)} in another")
    return np.concatenate(rows).reshape(len(rows), -1)


def labeled_record(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a sample with one label: ``pred_score`` or ``pred_label``, and ``gt_label``."""
    key = "pred_score" if "pred_score" in sample else "pred_label"
    pred = score_of(sample) if key == "pred_score" else label_of(sample, key)
    label, size = label_of(sample, "gt_label"), 1 if key == "pred_score" else pred.size
    if label.size != size:
        way = ". Of a one-hot gt_label give gt_label.argmax()" if label.size > size == 1 else ""
        raise AssertedInputError(f"The size of pred ({size}) doesn't match the target ({label.size}){way}")
    return {key: pred, "gt_label": label}


def records_with_classes(samples: Sequence[Mapping[str, Any]], num_classes: int | None) -> list[dict[str, Any]]:
    """The records of samples with one label; those without scores have ``num_classes``, None if it is not known."""
    records = [labeled_record(sample) for sample in samples]
    for sample, record in zip(samples, records):
        if "pred_label" in record:
            record["num_classes"] = common.check_class_count(num_classes or sample.get("num_classes"))
    return records


def labeled_columns(records: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """The predictions, scores ``[n, classes]`` or labels ``[n]``, and the true labels."""
    target = np.concatenate(arrays(records, "gt_label"))
    if "pred_score" in records[0]:
        return stack(records, "pred_score"), target
    return np.concatenate(arrays(records, "pred_label")), target


def class_count(records: Sequence[Mapping[str, Any]]) -> int:
    """The ``num_classes`` of all records."""
    counts = set(column(records, "num_classes")) - {None}
    if len(counts) > 1:
        raise InvalidInputError(f"num_classes of the data samples are {sorted(counts)}; they must be the same")
    return common.known_class_count(counts.pop() if counts else None)


# Scores [n, classes]


def above(scores: np.ndarray, threshold: float | None, or_at: bool = False) -> np.ndarray:
    """Flags of the scores above a threshold, which is rounded to the precision of the scores."""
    if threshold is None:
        return np.ones(scores.shape, np.bool_)
    with np.errstate(over="ignore"):
        bound = scores.dtype.type(threshold)
    return scores >= bound if or_at else scores > bound


def is_among_best(scores: np.ndarray, k: int) -> np.ndarray:
    """Flags of the k highest scores of each row, lower classes first where scores are equal."""
    classes = scores.shape[1]
    if k >= classes or not len(scores):
        return np.ones(scores.shape, np.bool_)
    least = np.partition(scores, classes - k, axis=1)[:, classes - k, None]
    flags = scores >= least
    ties = np.flatnonzero(flags.sum(axis=1) > k)
    if ties.size:
        certain, tied = scores[ties] > least[ties], scores[ties] == least[ties]
        places = k - certain.sum(axis=1, keepdims=True)
        flags[ties] = certain | (tied & (np.cumsum(tied, axis=1) <= places))
    return flags


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The classes of the k highest scores of each row, ``[n, k]``: highest first, then lowest class."""
    classes = np.nonzero(is_among_best(scores, k))[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, classes, axis=1), axis=1, kind="stable")
    return np.take_along_axis(classes, order, axis=1)


def look_like_logits(scores: np.ndarray) -> np.ndarray:
    """Flags ``[n]`` of the samples with a score outside [0, 1]."""
    if not scores.size or (scores.min() >= 0 and scores.max() <= _MOST):
        return np.zeros(len(scores), np.bool_)
    return (scores.min(axis=1) < 0) | (scores.max(axis=1) > _MOST)
