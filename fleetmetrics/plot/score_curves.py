"""Curves from histograms of scores: ROC, precision and recall, gain, lift, and the sweep of thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.formulas.curves import points
from fleetmetrics.plot.canvas import band, canvas, check, dotted, reference, spoken, worded
from fleetmetrics.plot.plotted import has, ratio, refused, scores
from fleetmetrics.support.checks import knows_its_arguments
from fleetmetrics.support.typed import Axes

__all__ = ["are_shares", "by_share", "gain", "lift", "precision_recall", "roc", "threshold_sweep"]


@knows_its_arguments
def roc(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The ROC curve, with a band that holds the curve of the scores themselves, in any order within their buckets.

    ``metric``: `AUC`, `ROCCurve` or another one of a histogram of scores; or a `fleetmetrics.formulas.ROC`.

    Examples:
        >>> import fleetmetrics
        >>> metric = fleetmetrics.AUC()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> roc(metric).get_legend().get_texts()[0].get_text()
        'AUC 0.750'
    """
    curves = [(label, metric)]
    if not isinstance(metric, formulas.ROC):
        histograms = scores(metric, label, " or a ROC")
        curves = [(name, formulas.roc_curve(*histogram)) for name, *histogram in histograms]
    check(ax, label)
    with canvas(ax, "false positive rate", "true positive rate", "xy", height=72, box_aspect=1) as ax:
        reference(ax, [0, 1], [0, 1])
        for name, (fpr, tpr, _) in curves:
            low, high = (np.sum(np.diff(fpr) * ends) if len(fpr) > 1 else np.nan for ends in (tpr[:-1], tpr[1:]))
            (line,) = ax.plot(fpr, tpr, label=spoken(name, "AUC", (low + high) / 2, low, high))
            band(ax, line.get_color(), fpr, tpr[:-1], tpr[1:])
    return ax


@knows_its_arguments
def precision_recall(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The precision-recall curve, with a band that holds the curve of the scores themselves; dotted, the rate.

    ``metric``: as for `roc`; or a `fleetmetrics.formulas.PrecisionRecall`, which has no band.
    """
    curves: list[tuple[Any, ...]] = []
    if isinstance(metric, formulas.PrecisionRecall):
        area = -np.sum(np.diff(metric.recall) * metric.precision[:-1])
        curves.append((metric.recall, metric.precision, spoken(label, "AP", area), ()))
    else:
        for name, *histogram in scores(metric, label, " or a PrecisionRecall"):
            at, bounds = points(*histogram), formulas.average_precision_bounds(*histogram[:2])
            recall = ratio(at.tp, at.tp[-1])
            lowest, highest = ratio(at.tp[:-1], at.tp[:-1] + at.fp[1:]), ratio(at.tp[1:], at.tp[1:] + at.fp[:-1])
            curves.append((recall[::-1], at.precision[::-1], spoken(name, "AP", *bounds), (recall, lowest, highest)))
    check(ax, label)
    # If positive samples are rare, precision is high only for the highest scores.
    for mark in _marks(ax):
        mark.remove()
    seen = [curve[:2] for curve in curves] + [line.get_data() for line in (ax.lines if ax else ())]
    high = max(np.max(y[np.greater(x, 0.02)], initial=0.0) for x, y in seen)
    top = 1.5 * high if 0 < high < 0.4 else 1.0
    look: dict[str, Any] = {"unit": "xy"} if top == 1 else {"unit": "x", "ylim": (-0.02 * top, 1.02 * top)}
    with canvas(ax, "recall", "precision", height=72, box_aspect=1, **look) as ax:
        reference(ax, [0, 1], [curves[0][1][0]] * 2)  # a model that predicts everything positive has the rate
        for x, y, name, ends in curves:
            (line,) = ax.plot(x, y, drawstyle="steps-post", label=name)
            if ends:
                ends = _known(*ends)
                band(ax, line.get_color(), *ends, top=top)
        for line in [*ax.lines]:
            _mark_above(ax, line, 1.02 * top)
    return ax


#: What marks say in matplotlib's terms that a line goes on above the axis.
_ABOVE = "above"


def _marks(ax: Any) -> list[Any]:
    return [line for line in (ax.lines if ax else ()) if line.get_gid() == _ABOVE]


def _mark_above(ax: Any, line: Any, top: float) -> None:
    """A triangle at the top where a line leaves the axis."""
    x, y = line.get_data()
    beyond = np.compress(np.greater(y, top), x)
    if beyond.size:
        look = {"marker": "^", "markersize": 5, "linestyle": "none", "color": line.get_color(), "clip_on": False}
        ax.plot(beyond.max(), 1, transform=ax.get_xaxis_transform(), gid=_ABOVE, zorder=3, **look)


def _known(at: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of a band; empty where it would span 0 to 1."""
    nothing = (low <= 0) & (high >= 1)
    return at, np.where(nothing, high, low), high


@knows_its_arguments
def gain(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """Cumulative gain: the share of the positive samples among the highest scores; dotted, without a model.

    ``metric``: as for `roc`, such as `CumulativeGain`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    return by_share(metric, ax, label, "share of the positive ones")


@knows_its_arguments
def lift(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """Lift: how many times more positive samples are among the highest scores than without a model; dotted, 1.

    ``metric``: as for `roc`, such as `Lift`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    return by_share(metric, ax, label, "lift")


def are_shares(value: Any) -> bool:
    """Whether this is what `gain` and `lift` draw, and what their metrics compute."""
    return bool(getattr(value, "_fields", ()) == ("fractions", "values"))


def by_share(metric: Any, ax: Axes | None = None, label: str = "", y: str = "gain or lift") -> Axes:
    """`gain`, or `lift` if ``y`` is that; of shares that were computed, either."""
    if are_shares(metric):
        curves = [(*metric, label)]
    else:
        by_name = [(name, points(*histogram)) for name, *histogram in scores(metric, label, " or Shares")]
        curves = [(ratio(at.tp + at.fp, at.tp[-1] + at.fp[-1]), ratio(at.tp, at.tp[-1]), of) for of, at in by_name]
        if y == "lift":
            place = np.linspace(0.005, 1, 200)
            curves = [(place, np.interp(place, share, tp_share) / place, name) for share, tp_share, name in curves]
    check(ax, label)
    with canvas(ax, "share of the samples, highest scores first", y, "x", ylim=(0, None)) as ax:
        reference(ax, [0, 1], [0 if y == "share of the positive ones" else 1, 1])
        for share, tp_share, name in curves:
            ax.plot(share, tp_share, label=name, marker="o" if len(share) < 30 else "")
    return ax


@knows_its_arguments
def threshold_sweep(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """Precision, recall, F-beta and specificity against the threshold; dotted, where F-beta is highest.

    ``metric``: `ThresholdSweep`, a `fleetmetrics.formulas.Sweep`, or as for `roc`; several classes are drawn together.
    """
    look: dict[str, Any] = {"unit": "xy"}
    value, beta = metric, getattr(metric, "beta", 1.0)
    if has(metric, "gain"):
        [(label, positive, negative, lowest)] = scores(metric, label, together=True)
        used = np.flatnonzero(positive + negative) if positive.any() or negative.any() else [0]
        value = formulas.threshold_sweep([0, *positive[used]], [0, *negative[used]], lowest[used])
        look = {"unit": "y", "xscale": "logit"} if metric.spacing == "log_odds" else look
    elif has(metric, "threshold_sweep"):
        value = metric.compute()
    if not isinstance(value, formulas.Sweep):
        raise refused("ThresholdSweep, a metric of a histogram of scores, or a Sweep", metric)
    check(ax, label)
    with canvas(ax, "threshold", "", above=2, **look) as ax:
        curves = {"precision": value.precision, "recall": value.recall, f"F{beta:g}": value.f_beta}
        for name, curve in {**curves, "specificity": value.specificity}.items():
            ax.plot(value.thresholds, curve, label=f"{label} {worded(name)}".strip())
        ax.axvline(value.best_threshold, **dotted(ax))
    return ax
