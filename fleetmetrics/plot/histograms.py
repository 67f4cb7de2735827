"""Distributions: of scores, of values, of errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.plot.axis import short
from fleetmetrics.plot.canvas import canvas, check, dotted, stairs, worded
from fleetmetrics.plot.plotted import has, refused, scores
from fleetmetrics.support.checks import knows_its_arguments
from fleetmetrics.support.typed import Axes

__all__ = ["histogram", "residuals", "score_histogram"]

#: More bins than this are drawn as about fifty.
_MOST_BINS = 100


@knows_its_arguments
def score_histogram(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The distribution of each class's scores, without the outermost; the legend has the number of samples.

    There are about fifty bins, and outside of them at most 0.1 % of each class on either side; the legend says how
    much. ``metric``: as for `roc`; several classes are drawn together.
    """
    [(label, positive, negative, lowest)] = scores(metric, label, together=True)
    check(ax, label)
    edges, odds = np.append(lowest, 1.0), metric.spacing == "log_odds"
    density = "density by log-odds" if odds else "density in the class"
    with canvas(ax, "score", density, above=1, yticks=[], ylim=(0, None)) as ax:
        if odds:
            ax.set_xscale("logit")
            edges = edges.clip(lowest[1] / 2, 1 - lowest[1] / 2)
        classes = {0: negative, 1: positive}
        named = {f"{label} {worded('label')} {of} ({short(kind.sum())})".strip(): kind for of, kind in classes.items()}
        stairs(ax, named, edges, cut=True)
    return ax


@knows_its_arguments
def histogram(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The density of values by bin; the legend gives the share of values outside the bins.

    ``metric``: `Histogram`, or a `fleetmetrics.formulas.HistogramCounts`.
    """
    value = metric.compute() if has(metric, "histogram", "residuals") else metric
    if not isinstance(value, formulas.HistogramCounts):
        raise refused("Histogram, or HistogramCounts", metric)
    check(ax, label)
    with canvas(ax, "value", "density", above=1, ylim=(0, None)) as ax:
        stairs(ax, {label: value.counts}, value.edges, len(value.counts) > _MOST_BINS, value.below + value.above)
    return ax


@knows_its_arguments
def residuals(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The distribution of prediction errors; dotted, 0.

    ``metric``: as for `histogram`, one that was given the errors, ``metric.add(prediction - label)``: it takes the same
    memory for any number of samples.
    """
    ax = histogram(metric, ax, label)
    ax.set_xlabel(worded("prediction - label"))
    ax.axvline(0, **dotted(ax))
    return ax
