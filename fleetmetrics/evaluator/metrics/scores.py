"""Scores ``[n, classes]``: thresholds, the k best, and whether they look like probabilities."""

from __future__ import annotations

import numpy as np

__all__ = ["above", "best", "is_among_best", "look_like_logits"]

#: A softmax in float32 may exceed 1 by rounding.
_MOST = 1.001


def above(scores: np.ndarray, threshold: float | None, or_at: bool = False) -> np.ndarray:
    """Flags of the scores above a threshold, which is rounded to the precision of the scores.

    Args:
        scores: floats.
        threshold: None: all are.
        or_at: whether the threshold itself is above.
    """
    if threshold is None:
        return np.ones(scores.shape, np.bool_)
    with np.errstate(over="ignore"):
        bound = scores.dtype.type(threshold)
    return scores >= bound if or_at else scores > bound


def is_among_best(scores: np.ndarray, k: int) -> np.ndarray:
    """Flags of the k highest scores of each row; of equal ones those of the lower classes.

    Args:
        scores: ``[n, classes]``.
        k: 1 to the number of classes.
    """
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
    """The classes of the k highest scores of each row, ``[n, k]``: the highest first, then the lower class.

    Args:
        scores: ``[n, classes]``.
        k: 1 to the number of classes.
    """
    classes = np.nonzero(is_among_best(scores, k))[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, classes, axis=1), axis=1, kind="stable")
    return np.take_along_axis(classes, order, axis=1)


def look_like_logits(scores: np.ndarray) -> np.ndarray:
    """Flags ``[n]`` of the samples with a score outside [0, 1].

    Args:
        scores: ``[n, classes]``.
    """
    if not scores.size or (scores.min() >= 0 and scores.max() <= _MOST):
        return np.zeros(len(scores), np.bool_)
    return (scores.min(axis=1) < 0) | (scores.max(axis=1) > _MOST)
