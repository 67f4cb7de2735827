"""Predictions beside what is observed: calibration, and average labels."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.plot.axis import short
from fleetmetrics.plot.canvas import canvas, check, is_own, reference, spoken, worded
from fleetmetrics.plot.chart import Chart
from fleetmetrics.plot.plotted import has, held, ratio, refused, scores
from fleetmetrics.support.checks import knows_its_arguments
from fleetmetrics.support.typed import Axes

__all__ = ["calibration", "predicted_actual"]

#: Calibration by class is drawn of this number of classes: more curves with intervals hide each other.
_WORST = 3
#: Calibration is drawn from about this number of groups of scores.
_GROUPS = 16
#: Below this rate, calibration has logarithmic axes.
_RARE = 0.2


@knows_its_arguments
def calibration(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The observed rate against the prediction, by bin, with 95 % intervals; above, the number of samples.

    The intervals are Wilson's, as if samples were independent; weighted samples have none. Of a metric of a histogram
    of scores, such as `AUC`, all bins hold about the same number of samples, or of positive ones. Axes are logarithmic
    where such a histogram has fewer than 20 % positive samples, or bins given to a metric are of unequal width. Then a
    bin without a positive sample has an interval and no point. An error with ``classwise=True`` shows the three classes
    with the highest error.

    ``metric``: `CalibrationCurve`, `ExpectedCalibrationError`, `BrierDecomposition`, or as for `roc`, with at least
    1,024 buckets in log-odds; or a `fleetmetrics.formulas.CalibrationPoints`.
    """
    log = None
    if has(metric, "calibration") and has(metric, "gain"):
        [(label, positive, negative, lowest)] = scores(metric, label, together=True)
        log = bool(positive.sum() < _RARE * (positive.sum() + negative.sum()))
        metric = _by_mass(positive, negative, lowest)
    elif has(metric, "calibration"):
        states = held(metric)
        if states["number"].ndim == 3:
            return _calibration_of_classes(metric, states["number"], states["probability"], ax, label)
        metric = formulas.calibration_curve(states["number"], states["probability"], metric.edges)
    if not isinstance(metric, formulas.CalibrationPoints):
        raise refused("a metric of bins of probabilities, such as CalibrationCurve, or CalibrationPoints", metric)
    check(ax, label)
    predicted, actual, weight, lower, upper = metric
    if log is None:
        log = bool(len(lower) and np.ptp(upper - lower) > 1e-6)
    half = 1.96**2 / 2 / weight if weight.dtype.kind == "i" else np.nan * weight
    middle = (actual + half) / (1 + 2 * half)
    reach = np.sqrt(2 * half * (actual * (1 - actual) + half / 2)) / (1 + 2 * half)
    log = ax.get_xscale() == "log" if ax is not None and ax.lines else log
    least = 0.5 * np.min([*predicted[predicted > 0], *actual[actual > 0], 1]) if log else 0.0
    look: dict[str, Any] = {"xscale": "log", "yscale": "log"} if log else {"unit": "xy"}
    place = [0, 1.02, 1, 0.1] if is_own(ax) else [0, 1.04, 1, 0.2]  # above the caller's axes there is less room
    with canvas(ax, "predicted", "actual", height=76, legend="inside", **look) as ax:
        reference(ax, [least, 1], [least, 1])
        shown = np.where(actual > 0, actual, np.nan) if log else actual
        (line,) = ax.plot(predicted, shown, marker="o", label=label)
        ax.vlines(predicted, np.maximum(middle - reach, least), middle + reach, color=line.get_color(), linewidth=1)
        if log:
            most = min(1.0, 2 * np.max([*predicted, *actual], initial=least))
            ends = [least, most] if len(ax.lines) == 2 else [*ax.get_xlim(), least, most]
            ax.set(xlim=(min(ends), max(ends)), ylim=(min(ends), max(ends)))
        above = ax.child_axes[0] if ax.child_axes else ax.inset_axes(place, sharex=ax)
        left, face = np.maximum(lower, least), line.get_color() if len(ax.lines) == 2 else "none"
        above.bar(left, weight, upper - left, align="edge", facecolor=face, edgecolor=line.get_color(), alpha=0.5)
        if not isinstance(above, Chart):  # which has such axes for counts alone
            above.tick_params(labelbottom=False, length=0)
            above.yaxis.set_major_formatter(short)
            above.locator_params(axis="y", nbins=2)
    return ax


def _calibration_of_classes(metric: Any, number: np.ndarray, probability: np.ndarray, ax: Any, label: str) -> Any:
    """The curves of the classes with the highest errors, and these errors."""
    check(ax, label)
    errors = metric.errors_by_class(number, probability)
    for k in np.sort(np.argsort(-errors, kind="stable")[:_WORST]):
        curve = formulas.calibration_curve(number[:, k], probability[:, k], metric.edges)
        ax = calibration(curve, ax, spoken(f"{label} {worded('class')} {k}", "ECE", errors[k]))
    return ax


def _by_mass(positive: np.ndarray, negative: np.ndarray, lowest: np.ndarray) -> formulas.CalibrationPoints:
    """Calibration of groups of buckets: half of a group's mass is its share of the samples, half of the positive ones.

    Each prediction counts as the middle of its bucket.
    """
    total, ends = positive + negative, np.append(lowest, 1.0)
    mass = ratio(total, 2 * total.sum()) + np.nan_to_num(ratio(positive, 2 * positive.sum()))
    used = np.flatnonzero(total)
    group = np.minimum((_GROUPS * (np.cumsum(mass) - mass / 2)).astype(int), _GROUPS - 1)[used] if len(used) else used
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    if not len(starts):
        nothing = np.zeros(0)
        return formulas.CalibrationPoints(nothing, nothing, nothing, nothing, nothing)
    number, clicks, summed = (
        np.add.reduceat(sums[used], starts) for sums in (total, positive, total * (ends[1:] + ends[:-1]) / 2)
    )
    last = np.append(used[starts[1:] - 1], used[-1])
    lower, upper = ends[used[starts]], ends[last + 1]
    return formulas.CalibrationPoints(summed / number, clicks / number, number, lower, upper)


@knows_its_arguments
def predicted_actual(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The average label against the prediction, by groups of predictions, with 95 % intervals.

    ``metric``: a dict of arrays, one entry for each group: ``predicted``, ``actual``, and the standard ``error`` of the
    latter.
    """
    value = metric.compute() if has(metric, "predicted_actual") else metric
    if not isinstance(value, Mapping) or not {"predicted", "actual", "error"} <= set(value):
        raise refused("a dict of predicted, actual and error", metric)
    check(ax, label)
    predicted, actual, error = (np.asarray(value[name]) for name in ("predicted", "actual", "error"))
    with canvas(ax, "predicted", "actual", height=72, legend="inside") as ax:
        ends = [np.min([*predicted, *actual], initial=np.inf), np.max([*predicted, *actual], initial=-np.inf)]
        reference(ax, *[ends if len(predicted) else [0, 1]] * 2)
        (line,) = ax.plot(predicted, actual, marker="o", label=label)
        ax.vlines(predicted, actual - 1.96 * error, actual + 1.96 * error, color=line.get_color(), linewidth=1)
    return ax
