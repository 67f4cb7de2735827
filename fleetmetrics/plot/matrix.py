"""The confusion matrix."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.plot.axis import short
from fleetmetrics.plot.canvas import canvas, check, list_of, plain
from fleetmetrics.plot.chart import Chart
from fleetmetrics.plot.plotted import has, held, ratio, refused
from fleetmetrics.support.checks import array_or_empty, knows_its_arguments
from fleetmetrics.support.optional import library
from fleetmetrics.support.typed import Axes

__all__ = ["confusion_matrix"]

#: In matrices of more classes, the axes name only some of them.
_NAMED = 40


@knows_its_arguments
def confusion_matrix(
    metric: Any, ax: Axes | None = None, label: str = "", classes: Sequence[str] | None = None
) -> Axes:
    """The confusion matrix: shades and numbers are shares of the row, the samples of a true class; counts if few.

    ``metric``: `ConfusionMatrix` or another one of a confusion matrix, or a square array; ``label`` is the title,
    ``classes`` are the names of the classes.
    """
    matrix: Any = held(metric)["confusion"] if has(metric, "confusion_matrix") else array_or_empty(metric)
    size = len(matrix) if matrix.ndim else 0
    if matrix.shape != (size, size) or matrix.dtype.kind not in "iuf":
        raise refused("one confusion matrix, such as that of ConfusionMatrix (of several labels, one by one)", metric)
    check(ax, label)
    names = range(size) if classes is None else list_of("classes", classes, "names of the classes")
    if len(names) != size:
        raise InvalidInputError(f"classes must hold a name for each of the {size} classes, not {classes!r:.80}")
    shares = np.nan_to_num(ratio(matrix.astype(np.float64), matrix.sum(axis=1, keepdims=True)))
    with canvas(ax, "predicted", "true", height=70 if size < 13 else 80, title=plain(label)) as ax:
        (line,) = ax.plot([], [])
        _shade(ax, shares, line.get_color())
        for (row, column), share in np.ndenumerate(shares if size < 13 else shares[:0]):
            text = f"{short(matrix[row, column])}\n{share:.0%}" if matrix[row, column] else "0"
            ax.text(column, row, text, ha="center", va="center", fontsize=7 if size < 6 else 4.5)
        ax.grid(False)
        ax.locator_params(integer=True)
        if classes is not None or size <= _NAMED:
            ticks = [plain(name) for name in names]
            look = {"fontsize": 7 if size < 21 else 4.5}
            ax.set_xticks(range(size), ticks, rotation=0 if size < 4 or classes is None else 90, **look)
            ax.set_yticks(range(size), ticks, **look)
    return ax


def _shade(ax: Any, shares: np.ndarray, color: str) -> None:
    """Cells as dark as their shares, up to what a number in them has contrast with."""
    if isinstance(ax, Chart):
        ax.cells(shares, color, 0.6)
    else:
        ax.imshow(shares, cmap=library("matplotlib.colors").ListedColormap([color]), alpha=0.6 * shares)
