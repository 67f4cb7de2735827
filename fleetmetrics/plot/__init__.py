"""Plots of metrics and their values, by matplotlib, which the extra ``plot`` installs.

Each function draws on axes and returns them. ``metric`` is a metric, whose states are merged over all workers as
in ``compute`` (so every worker must call it), or a computed value; anything else raises an
`InvalidInputError`. ``ax`` are matplotlib's axes; None: a new figure, 80 mm wide. A second metric on the same
axes is added to the first; ``label`` comes first in the legend. Up to six classes have separate curves; more
than six are combined. Without matplotlib, every function raises a `MissingLibraryError`.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.curves import points
from fleetmetrics.plot.axis import short
from fleetmetrics.plot.canvas import (
    band,
    canvas,
    check,
    dotted,
    interval,
    is_own,
    list_of,
    plain,
    reference,
    spoken,
    stairs,
    style,
    svg,
    worded,
)
from fleetmetrics.plot.chart import Chart
from fleetmetrics.support.checks import array_or_empty, is_number, knows_its_arguments, whole_number_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.typed import Axes
from fleetmetrics.xp.score_buckets import lowest_scores

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

#: More classes than this are drawn only in combination; more bins are drawn as about fifty.
_MOST, _MOST_BINS = 6, 100
#: Calibration by class is drawn of this number of classes: more curves with intervals hide each other.
_WORST = 3
#: Calibration is drawn from about this number of groups of scores.
_GROUPS = 16
#: Below this rate, calibration has logarithmic axes.
_RARE = 0.2
#: In matrices of more classes, the axes name only some of them.
_NAMED = 40


def draw(metric: Any, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw the plot that a metric declares, or the plot of a value; ``options`` are those of the plot."""
    drawn = next((name for kind, name in _OF_VALUES if isinstance(metric, kind)), "")
    drawn = next(iter(getattr(metric, "pictures", ())), drawn)
    if getattr(metric, "_fields", ()) == ("fractions", "values"):
        drawn = "_by_share"
    if not drawn:
        names = ", ".join(_with_picture())
        several = " of several labels" if hasattr(type(metric), "pictures") and type(metric).pictures else ""
        raise InvalidInputError(f"{type(metric).__name__}{several} has no plot; these have one: {names}")
    picture: Callable[..., Any] = globals()[drawn]
    return picture(metric, ax, **options)


#: The plots of metrics' values.
_OF_VALUES: Sequence[tuple[type, str]] = (
    (formulas.ROC, "roc"),
    (formulas.PrecisionRecall, "precision_recall"),
    (formulas.CalibrationPoints, "calibration"),
    (formulas.Sweep, "threshold_sweep"),
    (formulas.HistogramCounts, "histogram"),
)


def _with_picture() -> list[str]:
    """The metrics that declare a plot."""
    import fleetmetrics

    names = [name for name, module in fleetmetrics._modules.items() if ".metrics." in module or ".wrappers." in module]
    return [name for name in names if getattr(getattr(fleetmetrics, name), "pictures", ())]


def held(metric: Any) -> Any:
    """The states of a metric, over all workers."""
    view = copy.copy(metric)
    view.formula = lambda **states: states
    return view.compute()


def _scores(metric: Any, label: str, value: str = "", together: bool = False) -> Iterator[tuple[str, Any, Any, Any]]:
    """For each class, or all: name, weights of positive and negative scores by bucket, and lowest scores."""
    if not _has(metric, "gain"):
        raise _refused(f"a metric of a histogram of scores, such as AUC{value}", metric)
    table, names = held(metric)["histogram"], [label]
    check(None, label)
    if table.ndim == 3 and (together or len(table) > _MOST):
        names, table = [f"{label} {worded('all {}').format(len(table))}"], table.sum(axis=0)
    elif table.ndim == 3:
        names = [f"{label} {worded(metric._entry)} {place}" for place in range(len(table))]
    lowest = lowest_scores(metric.buckets, metric.spacing)
    for name, (negative, positive) in zip(names, table.reshape(-1, 2, len(lowest))):
        yield name.strip(), positive, negative, lowest


def _has(metric: Any, *pictures: str) -> bool:
    """Whether this is a metric that declares one of these plots."""
    return any(picture in pictures for picture in getattr(metric, "pictures", ()))


def _refused(drawn: str, metric: Any) -> InvalidInputError:
    return InvalidInputError(f"this plot shows {drawn}; metric is {type(metric).__name__} {metric!r:.80}")


def _ratio(part: np.ndarray, whole: Any) -> np.ndarray:
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.not_equal(whole, 0))


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
        histograms = _scores(metric, label, " or a ROC")
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
        for name, *histogram in _scores(metric, label, " or a PrecisionRecall"):
            at, bounds = points(*histogram), formulas.average_precision_bounds(*histogram[:2])
            recall = _ratio(at.tp, at.tp[-1])
            lowest, highest = _ratio(at.tp[:-1], at.tp[:-1] + at.fp[1:]), _ratio(at.tp[1:], at.tp[1:] + at.fp[:-1])
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
    return _by_share(metric, ax, label, "share of the positive ones")


@knows_its_arguments
def lift(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """Lift: how many times more positive samples are among the highest scores than without a model; dotted, 1.

    ``metric``: as for `roc`, such as `Lift`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    return _by_share(metric, ax, label, "lift")


def _by_share(metric: Any, ax: Axes | None = None, label: str = "", y: str = "gain or lift") -> Axes:
    if getattr(metric, "_fields", ()) == ("fractions", "values"):
        curves = [(*metric, label)]
    else:
        by_name = [(name, points(*histogram)) for name, *histogram in _scores(metric, label, " or Shares")]
        curves = [(_ratio(at.tp + at.fp, at.tp[-1] + at.fp[-1]), _ratio(at.tp, at.tp[-1]), of) for of, at in by_name]
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
    if _has(metric, "gain"):
        [(label, positive, negative, lowest)] = _scores(metric, label, together=True)
        used = np.flatnonzero(positive + negative) if positive.any() or negative.any() else [0]
        value = formulas.threshold_sweep([0, *positive[used]], [0, *negative[used]], lowest[used])
        look = {"unit": "y", "xscale": "logit"} if metric.spacing == "log_odds" else look
    elif _has(metric, "threshold_sweep"):
        value = metric.compute()
    if not isinstance(value, formulas.Sweep):
        raise _refused("ThresholdSweep, a metric of a histogram of scores, or a Sweep", metric)
    check(ax, label)
    with canvas(ax, "threshold", "", above=2, **look) as ax:
        curves = {"precision": value.precision, "recall": value.recall, f"F{beta:g}": value.f_beta}
        for name, curve in {**curves, "specificity": value.specificity}.items():
            ax.plot(value.thresholds, curve, label=f"{label} {worded(name)}".strip())
        ax.axvline(value.best_threshold, **dotted(ax))
    return ax


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
    if _has(metric, "calibration") and _has(metric, "gain"):
        [(label, positive, negative, lowest)] = _scores(metric, label, together=True)
        log = bool(positive.sum() < _RARE * (positive.sum() + negative.sum()))
        metric = _by_mass(positive, negative, lowest)
    elif _has(metric, "calibration"):
        states = held(metric)
        if states["number"].ndim == 3:
            return _calibration_of_classes(metric, states["number"], states["probability"], ax, label)
        metric = formulas.calibration_curve(states["number"], states["probability"], metric.edges)
    if not isinstance(metric, formulas.CalibrationPoints):
        raise _refused("a metric of bins of probabilities, such as CalibrationCurve, or CalibrationPoints", metric)
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
    each = copy.copy(metric)
    each.average = None
    errors = each.formula(number, probability)
    for k in np.sort(np.argsort(-errors, kind="stable")[:_WORST]):
        curve = formulas.calibration_curve(number[:, k], probability[:, k], metric.edges)
        ax = calibration(curve, ax, spoken(f"{label} {worded('class')} {k}", "ECE", errors[k]))
    return ax


def _by_mass(positive: np.ndarray, negative: np.ndarray, lowest: np.ndarray) -> formulas.CalibrationPoints:
    """Calibration of groups of buckets: half of a group's mass is its share of the samples, half of the positive ones.

    Each prediction counts as the middle of its bucket.
    """
    total, ends = positive + negative, np.append(lowest, 1.0)
    mass = _ratio(total, 2 * total.sum()) + np.nan_to_num(_ratio(positive, 2 * positive.sum()))
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
    value = metric.compute() if _has(metric, "predicted_actual") else metric
    if not isinstance(value, Mapping) or not {"predicted", "actual", "error"} <= set(value):
        raise _refused("a dict of predicted, actual and error", metric)
    check(ax, label)
    predicted, actual, error = (np.asarray(value[name]) for name in ("predicted", "actual", "error"))
    with canvas(ax, "predicted", "actual", height=72, legend="inside") as ax:
        ends = [np.min([*predicted, *actual], initial=np.inf), np.max([*predicted, *actual], initial=-np.inf)]
        reference(ax, *[ends if len(predicted) else [0, 1]] * 2)
        (line,) = ax.plot(predicted, actual, marker="o", label=label)
        ax.vlines(predicted, actual - 1.96 * error, actual + 1.96 * error, color=line.get_color(), linewidth=1)
    return ax


@knows_its_arguments
def score_histogram(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """The distribution of each class's scores, without the outermost; the legend has the number of samples.

    There are about fifty bins, and outside of them at most 0.1 % of each class on either side; the legend says how
    much. ``metric``: as for `roc`; several classes are drawn together.
    """
    [(label, positive, negative, lowest)] = _scores(metric, label, together=True)
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
    value = metric.compute() if _has(metric, "histogram", "residuals") else metric
    if not isinstance(value, formulas.HistogramCounts):
        raise _refused("Histogram, or HistogramCounts", metric)
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


@knows_its_arguments
def confusion_matrix(
    metric: Any, ax: Axes | None = None, label: str = "", classes: Sequence[str] | None = None
) -> Axes:
    """The confusion matrix: shades and numbers are shares of the row, the samples of a true class; counts if few.

    ``metric``: `ConfusionMatrix` or another one of a confusion matrix, or a square array; ``label`` is the title,
    ``classes`` are the names of the classes.
    """
    matrix: Any = held(metric)["confusion"] if _has(metric, "confusion_matrix") else array_or_empty(metric)
    size = len(matrix) if matrix.ndim else 0
    if matrix.shape != (size, size) or matrix.dtype.kind not in "iuf":
        raise _refused("one confusion matrix, such as that of ConfusionMatrix (of several labels, one by one)", metric)
    check(ax, label)
    names = range(size) if classes is None else list_of("classes", classes, "names of the classes")
    if len(names) != size:
        raise InvalidInputError(f"classes must hold a name for each of the {size} classes, not {classes!r:.80}")
    shares = np.nan_to_num(_ratio(matrix.astype(np.float64), matrix.sum(axis=1, keepdims=True)))
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


@knows_its_arguments
def over_passes(values: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """A metric over the passes, with a band where its values have intervals.

    ``values`` are its values in each pass, numbers or results of `AUC` with bounds or of `Bootstrap`; or a
    dict of these by the number of the pass.
    """
    if not isinstance(values, Mapping):
        values = dict(enumerate(list_of("values", values, "a value for each pass"), 1))
    if not all(map(is_number, values)):
        raise InvalidInputError(f"values must be a list, or a dict by the number of the pass, not {values!r:.80}")
    ax = _by_number(values, ax, label, "pass")
    ax.locator_params(axis="x", integer=True)
    return ax


@knows_its_arguments
def over_time(values: Mapping[str, Any], ax: Axes | None = None, label: str = "") -> Axes:
    """A metric at consecutive points, such as days, with intervals if its values have them.

    ``values`` are numbers, or results of `AUC` with bounds or of `Bootstrap`, by the point's name on the axis.
    """
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"values must be a dict of values by the name of the point, not {values!r:.80}")
    check(ax, label)
    table = np.array([interval(value) for value in values.values()]).reshape(-1, 3)
    place, step = np.arange(len(table)), max(1, math.ceil(len(table) / 12))
    with canvas(ax, "", "", above=2) as ax:
        (line,) = ax.plot(place, table[:, 0], marker="o", label=label)
        ax.vlines(place, table[:, 1], table[:, 2], color=line.get_color(), linewidth=1)
        ax.set_xticks(place[::step], [plain(name) for name in list(values)[::step]], rotation=90)
    return ax


def _by_number(values: Mapping[Any, Any], ax: Axes | None, label: str, x: str, **look: Any) -> Axes:
    check(ax, label)
    place, table = list(values), np.array([interval(value) for value in values.values()]).reshape(-1, 3)
    with canvas(ax, x, "", above=2, **look) as ax:
        (line,) = ax.plot(place, table[:, 0], marker="o", label=label)
        ax.fill_between(place, table[:, 1], table[:, 2], color=line.get_color(), alpha=0.25, linewidth=0)
    return ax


@knows_its_arguments
def at_k(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """A metric of ranked answers by k.

    ``metric``: one with several ``k``, such as ``NDCG(k=[1, 5, 10])``; or the dict that it computed.
    """
    value = metric.compute() if _has(metric, "at_k") else metric
    if not isinstance(value, Mapping) or not all(map(is_number, value)):
        raise _refused("a metric of several k, such as NDCG(k=[1, 5, 10]), or a dict by k", metric)
    return _by_number(value, ax, label, "k", xscale="log", xticks=list(value))


#: The marks of slices: full, hollow, and hollow and gray.
_KINDS = ("significant", "not significant", "too few to tell")


def _verdict(row: Mapping[str, Any]) -> str:
    """The kind of a slice; empty if it has no verdict."""
    within = row.get("within_chance")
    if within is None:
        return "too few to tell" if row.get("verdict") == "too few" else ""
    return "not significant" if within else "significant"


@knows_its_arguments
def slices(metric: Any, ax: Axes | None = None, most: int = 20, whole: float | None = None) -> Axes:
    """A forest of intervals, one for each slice; dotted, the value over all of them.

    Args:
        metric: `Sliced`, the dict that it computed, or the rows of a column in a result, ``result.slices["slot"]``, or
            in its JSON: dicts of ``key``, ``value``, ``low``, ``high``, ``rows``, ``difference``, ``within_chance``,
            ``verdict`` and ``metric``, of which only the first two must be there. Slices that do not differ
            significantly are hollow; those that are too few for a verdict are also gray.
        ax: see the module.
        most: the number of first slices to draw.
        whole: the value over all slices; None: by the first row's difference, if it has one.
    """
    slices_ = metric.compute() if hasattr(metric, "compute") else metric
    if isinstance(slices_, Mapping):
        slices_ = [dict(zip(("key", "value", "low", "high"), (key, *interval(row_)))) for key, row_ in slices_.items()]
    if isinstance(slices_, (list, tuple)):
        slices_ = [row_.plain() if hasattr(row_, "plain") else row_ for row_ in slices_]
    if not isinstance(slices_, (list, tuple)) or not all(
        isinstance(row_, Mapping) and "key" in row_ for row_ in slices_
    ):
        raise _refused("Sliced, the dict that it computed, or a list of dicts with key and value", metric)
    check(ax)
    rows = slices_[: whole_number_of("most", most, 1)]
    whole = None if whole is None else interval(whole, "whole")[0]
    if whole is None and rows and rows[0].get("difference") is not None:
        whole = rows[0]["value"] - rows[0]["difference"]
    table, place = np.array([interval(row) for row in rows]).reshape(-1, 3), np.arange(len(rows))
    tested = any(row_.get("within_chance") is not None for row_ in slices_)
    verdicts = [_verdict(row) or ("too few to tell" if tested else "significant") for row in rows]
    kinds = {kind: np.array([verdict == kind for verdict in verdicts], bool) for kind in _KINDS}
    name = plain(rows[0].get("metric", "value")) if rows else ""
    name += worded(", the first {} of {}").format(most, len(slices_)) if len(slices_) > most else ""
    height = 16 + 4.2 * max(len(rows), 2)
    with canvas(ax, name, "", above=2, height=height, legend="right", ylim=(len(rows) - 0.4, -0.6)) as ax:
        if whole is not None:
            ax.axvline(whole, **dotted(ax))
        color = ax.plot([], [])[0].get_color()
        legend = tested and set(verdicts) != {"significant"}
        for kind, which in kinds.items():
            if which.any():
                its = dotted(ax)["color"] if kind == "too few to tell" else color
                ax.hlines(place[which], table[which, 1], table[which, 2], color=its, linewidth=1)
                look = {"markerfacecolor": color if kind == "significant" else "none", "linestyle": "", "marker": "o"}
                named = legend or kind == "too few to tell"
                ax.plot(table[which, 0], place[which], color=its, label=worded(kind) if named else None, **look)
        for row, row_ in zip(place, rows):
            number = "" if row_.get("rows") is None else short(row_["rows"])
            ax.annotate(number, (1.02, row), xycoords=ax.get_yaxis_transform(), va="center", fontsize=7)
        ax.set_yticks(place, [plain(row["key"]) for row in rows])
        ax.grid(False, axis="y")
    return ax


@knows_its_arguments
def by_worker(local: Sequence[Any], whole: Any, ax: Axes | None = None) -> Axes:
    """The value of each worker, beside the value over all of them, dotted.

    Args:
        local: the results of ``compute_local`` by rank.
        whole: the result of ``compute``.
        ax: see the module.
    """
    values = list_of("local", local, "the value of each worker")
    named = {f"{worded('worker')} {rank}": value for rank, value in enumerate(values)}
    return slices(named, ax, max(1, len(values)), interval(whole, "whole")[0])
