"""Scores of several classes: their axis, and copies in blocks, since logits may fill most of the memory."""

from __future__ import annotations

import math
from typing import Any, Iterator, Sequence

from fleetmetrics.errors import InvalidInputError

__all__ = ["Table", "axis_of_classes", "fits", "without_ones"]

#: The number of scores to process together: in NumPy they fit into a cache; elsewhere starting an operation costs more.
_BLOCK = {True: 2**18, False: 2**22}


def fits(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes agree; a static program's open sizes (-1) agree with any."""
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other))


def axis_of_classes(full: tuple[int, ...], shape: tuple[int, ...], class_axis: int | None) -> int | None:
    """The axis of a prediction of shape ``full`` that holds a score for each class, beside labels of this shape.

    Args:
        full: of the prediction.
        shape: of the label; with an axis of one entry instead of the classes, or without.
        class_axis: where the axis is, if there is one; None: it is the last.

    Returns:
        None if there is no such axis: the shapes are equal except for axes of one entry at the end, or do not fit.

    Raises:
        InvalidInputError: the prediction does not have that axis.
    """
    if class_axis is None and full and full[:-1] == shape:  # the usual case
        return len(full) - 1
    if fits(full, shape):
        return None
    axes = len(full)
    if class_axis is not None and not -axes <= class_axis < axes:
        raise InvalidInputError(
            f"prediction has shape {list(full)}, and no axis {class_axis} for the classes; class_axis must be "
            + (f"from -{axes} to {axes - 1}" if axes else "None for a single number")
        )
    axis = axes - 1 if class_axis is None else class_axis % axes
    rest = [*full[:axis], *full[axis + 1 :]]
    beside = [shape, [*shape[:axis], *shape[axis + 1 :]]] if shape[axis : axis + 1] == (1,) else [shape]
    fitting = any(fits(rest, size) for size in beside)
    if full and not fitting and class_axis is None:
        fitting = fits(without_ones(rest), without_ones(shape)) and full[axis] != 1
    if class_axis is not None and not fitting and len(full) in (len(shape), len(shape) + 1):
        raise InvalidInputError(
            f"label has shape {list(shape)} but prediction has {list(full)}, with class_axis={class_axis}; without "
            f"that axis they must be equal: {rest}"
        )
    return axis if fitting else None


def without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without axes of one entry at its end; the first axis stays."""
    kept = tuple(shape) or (1,)
    while len(kept) > 1 and kept[-1] == 1:
        kept = kept[:-1]
    return kept


class Table:
    """A user's scores, copied only in small blocks.

    Args:
        xp: their array namespace.
        given: an array, or a tensor of dynamic mode, of any dtype.
        axis: of the classes.
        keep: flags of the samples that count; None: all.
    """

    classes: Any
    inner: int
    keep: Any
    outer: int
    scores: Any
    xp: Any

    def __init__(self, xp: Any, scores: Any, axis: int, keep: Any = None) -> None:
        shape = xp.shape(scores)
        self.xp, self.keep = xp, keep
        self.classes = shape[axis]
        self.outer, self.inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        self.scores = xp.reshape(scores, [self.outer, self.classes, self.inner])

    @staticmethod
    def pays(xp: Any, size: int) -> bool:
        """Whether there are more scores than fit into a block."""
        return size > _BLOCK[xp.FILTERS]

    def only(self, keep: Any) -> Table:
        """The same scores, with only some samples; NumPy drops the others, Paddle makes them 0."""
        if self.keep is not None and self.xp.FILTERS:  # samples dropped earlier have no flag
            before, keep = keep, self.keep.copy()
            keep[keep] = before
        return Table(self.xp, self.scores, 1, keep)

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Pieces of the remaining samples, and their scores ``[samples, classes]``."""
        xp, done = self.xp, 0
        for start, stop, scores in self._pieces():
            keep = None if self.keep is None else self.keep[start:stop]
            if keep is not None and xp.FILTERS:
                scores = scores if keep.all() else scores[keep]
            scores = xp.asarray(scores, "prediction")
            if keep is not None and not xp.FILTERS:
                scores = xp.zero_unless(xp.reshape(keep, [-1, 1]), scores)
            if scores.shape[0] or (stop == self.outer * self.inner and not done):  # one block at least
                yield slice(done, done + scores.shape[0]), scores
                done += scores.shape[0]

    def _pieces(self) -> Iterator[tuple[int, int, Any]]:
        """First and last place, and scores, as views where that is possible."""
        xp, inner = self.xp, self.inner
        columns = max(1, _BLOCK[xp.FILTERS] // self.classes)
        if inner == 1:
            for start in range(0, self.outer, columns):
                piece = self.scores[start : start + columns]
                yield start, start + piece.shape[0], xp.reshape(piece, [-1, self.classes])
        elif 2 * inner > columns:  # of one row at a time, without a copy
            for row in range(self.outer):
                for first in range(0, inner, columns):
                    last = min(first + columns, inner)
                    yield row * inner + first, row * inner + last, self.scores[row, :, first:last].T
        else:
            rows = columns // inner
            for first in range(0, self.outer, rows):
                piece = xp.moveaxis(self.scores[first : first + rows], 1, -1)
                yield first * inner, (first + piece.shape[0]) * inner, xp.reshape(piece, [-1, self.classes])
