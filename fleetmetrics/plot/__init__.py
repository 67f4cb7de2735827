"""Plots of metrics and their values, by matplotlib, which the extra ``plot`` installs.

Each function draws on axes and returns them. ``metric`` is a metric, whose states are merged over all workers as
in ``compute`` (so every worker must call it), or a computed value; anything else raises an
`InvalidInputError`. ``ax`` are matplotlib's axes; None: a new figure, 80 mm wide. A second metric on the same
axes is added to the first; ``label`` comes first in the legend. Up to six classes have separate curves; more
than six are combined. Without matplotlib, every function raises a `MissingLibraryError`.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

from fleetmetrics import formulas
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.plot.canvas import style, svg
from fleetmetrics.plot.histograms import histogram, residuals, score_histogram
from fleetmetrics.plot.matrix import confusion_matrix
from fleetmetrics.plot.reliability import calibration, predicted_actual
from fleetmetrics.plot.score_curves import are_shares, by_share, gain, lift, precision_recall, roc, threshold_sweep
from fleetmetrics.plot.series import at_k, by_worker, over_passes, over_time, slices
from fleetmetrics.support.typed import Axes

__all__ = [
    "at_k",
    "by_worker",
    "calibration",
    "confusion_matrix",
    "gain",
    "histogram",
    "lift",
    "over_passes",
    "over_time",
    "precision_recall",
    "predicted_actual",
    "residuals",
    "roc",
    "score_histogram",
    "slices",
    "style",
    "svg",
    "threshold_sweep",
]
__dir__: Callable[[], list[str]] = functools.partial(sorted, __all__)


def draw(metric: Any, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw the plot that a metric declares, or the plot of a value; ``options`` are those of the plot."""
    declared = next(iter(getattr(metric, "pictures", ())), "")
    picture = globals()[declared] if declared else _of_value(metric)
    if picture is None:
        names = ", ".join(_with_picture())
        several = " of several labels" if hasattr(type(metric), "pictures") and type(metric).pictures else ""
        raise InvalidInputError(f"{type(metric).__name__}{several} has no plot; these have one: {names}")
    return picture(metric, ax, **options)


def _of_value(value: Any) -> Callable[..., Axes] | None:
    """The plot of a metric's value; None: it has none."""
    pictures: Sequence[tuple[type, Callable[..., Axes]]] = (
        (formulas.ROC, roc),
        (formulas.PrecisionRecall, precision_recall),
        (formulas.CalibrationPoints, calibration),
        (formulas.Sweep, threshold_sweep),
        (formulas.HistogramCounts, histogram),
    )
    if are_shares(value):
        return by_share
    return next((picture for kind, picture in pictures if isinstance(value, kind)), None)


def _with_picture() -> list[str]:
    """The metrics that declare a plot."""
    import fleetmetrics

    names = [name for name, module in fleetmetrics._modules.items() if ".metrics." in module or ".wrappers." in module]
    return [name for name in names if getattr(getattr(fleetmetrics, name), "pictures", ())]
