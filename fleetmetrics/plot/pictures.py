"""The pictures: each draws a metric, or what one has computed, on axes, and returns them.

``metric`` is a metric, whose states are brought together over all workers, as ``compute`` does (every worker must call
it, then), or a value that it has computed; something else is an `InvalidInputError`. ``ax`` are matplotlib's axes;
None: those of a new figure, 80 mm wide. Another metric on the same axes stands beside the first; ``label`` is what the
legend says in front. Several classes are drawn one by one; more than six, all together. Without matplotlib there is a
`MissingLibraryError`.
"""

from __future__ import annotations

import copy
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import InvalidInputError, library
from fleetmetrics.formulas.curves import Points, points
from fleetmetrics.plot.canvas import band, canvas, finish, interval, plain, quiet, reference, short, spoken
from fleetmetrics.xp.score_buckets import lowest_scores

#: Of more classes only all together are drawn.
_MOST = 6
_UP = "share of the samples, highest scores first"


class _Scores(NamedTuple):
    """The weights of the scores of both classes by bucket, rising, and the lowest score of each."""

    negative: np.ndarray
    positive: np.ndarray
    lowest: np.ndarray
    log_odds: bool
    label: str

    @property
    def points(self) -> Points:
        return points(self.positive, self.negative, self.lowest)

    def named(self, text: str) -> str:
        return " ".join(each for each in (self.label, text) if each)


def _held(metric: Any) -> Any:
    """The states of a metric, over all workers."""
    view = copy.copy(metric)
    view.formula = lambda **states: states
    return view.compute()


def _refused(drawn: str, metric: Any) -> InvalidInputError:
    return InvalidInputError(f"this picture is drawn of {drawn}; metric is {type(metric).__name__} {metric!r:.80}")


def _scores(metric: Any, label: str, value: str = "", together: bool = False) -> Iterator[_Scores]:
    """The histogram of the scores, or that of each class."""
    if not hasattr(metric, "spacing"):
        raise _refused(f"a metric of a histogram of scores, such as AUC{value}", metric)
    table = _held(metric)["histogram"]
    names = [label]
    if table.ndim == 3:
        names = [f"{label} {metric.entry} {place}".strip() for place in range(len(table))]
    if table.ndim == 3 and (together or len(table) > _MOST):
        names, table = [f"{label} all {len(table)}".strip()], table.sum(axis=0)
    lowest = lowest_scores(metric.buckets, metric.spacing)
    for name, (negative, positive) in zip(names, table[None] if table.ndim == 2 else table):
        yield _Scores(negative, positive, lowest, metric.spacing == "log_odds", name)


def _ratio(part: np.ndarray, whole: Any) -> np.ndarray:
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.not_equal(whole, 0))


def roc(metric: Any, ax: Any = None, label: str = "") -> Any:
    """The ROC curve, with the band in which that of the scores themselves runs, whatever their order in the buckets.

    ``metric``: `AUC`, `ROCCurve` or another one of a histogram of scores; or a `fleetmetrics.formulas.ROC`.

    Examples:
        >>> import fleetmetrics
        >>> metric = fleetmetrics.AUC()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> roc(metric).get_legend().get_texts()[0].get_text()
        'AUC 0.750'
    """
    with canvas(ax, 72) as ax:
        curves = [(label, metric)]
        if not isinstance(metric, formulas.ROC):
            given = list(_scores(metric, label, " or a ROC"))
            curves = [(each.label, formulas.roc_curve(each.positive, each.negative, each.lowest)) for each in given]
        reference(ax, [0, 1], [0, 1])
        for name, (fpr, tpr, _) in curves:
            low, high = (float(np.sum(np.diff(fpr) * ends)) if len(fpr) > 1 else np.nan for ends in (tpr[:-1], tpr[1:]))
            area = spoken("AUC", (low + high) / 2, low, high)
            (line,) = ax.plot(fpr, tpr, label=f"{name} {area}".strip())
            band(ax, fpr, tpr[:-1], tpr[1:], line.get_color())
        finish(ax, "false positive rate", "true positive rate", "xy", box_aspect=1)
    return ax


def precision_recall(metric: Any, ax: Any = None, label: str = "") -> Any:
    """The precision-recall curve, with the band in which that of the scores themselves runs; dotted, the rate.

    ``metric``: as for `roc`; or a `fleetmetrics.formulas.PrecisionRecall`, which has no band.
    """
    with canvas(ax, 72) as ax:
        bands = []
        if isinstance(metric, formulas.PrecisionRecall):
            area = -float(np.sum(np.diff(metric.recall) * metric.precision[:-1]))
            _steps(ax, metric.recall, metric.precision, f"{label} {spoken('AP', area)}".strip())
        else:
            for each in _scores(metric, label, " or a PrecisionRecall"):
                at, found = each.points, formulas.average_precision_bounds(each.positive, each.negative)
                recall = _ratio(at.tp, at.tp[-1])
                line = _steps(ax, recall[::-1], at.precision[::-1], each.named(spoken("AP", *found)))
                low, high = _ratio(at.tp[:-1], at.tp[:-1] + at.fp[1:]), _ratio(at.tp[1:], at.tp[1:] + at.fp[:-1])
                bands.append((recall, low, high, line.get_color()))
        highest = max(np.max(each.get_ydata()[np.greater(each.get_xdata(), 0.02)], initial=0.0) for each in ax.lines)
        top = 1.0 if highest > 0.4 or not highest else 1.5 * highest  # where positive samples are rare
        for parts in bands:
            band(ax, *parts, top=top)
        finish(ax, "recall", "precision", "xy" if top == 1 else "x", box_aspect=1)
        if top < 1:
            ax.set_ylim(-0.02 * top, 1.02 * top)
    return ax


def _steps(ax: Any, recall: np.ndarray, precision: np.ndarray, label: str) -> Any:
    reference(ax, [0, 1], [precision[0]] * 2)  # whoever predicts everything positive has the rate
    return ax.plot(recall, precision, drawstyle="steps-post", label=label)[0]


def calibration(metric: Any, ax: Any = None, label: str = "") -> Any:
    """How often it happens against what was predicted, by bin, with 95 % intervals; above, the number of samples.

    The intervals are Wilson's, as if samples were independent; weighted samples have none. Bins of unequal width are
    drawn on logarithmic axes. ``metric``: `CalibrationCurve`, `ExpectedCalibrationError`, `BrierDecomposition` or a
    `fleetmetrics.formulas.CalibrationPoints`.
    """
    if not isinstance(metric, formulas.CalibrationPoints):
        if not hasattr(metric, "binning"):
            raise _refused("a metric of bins of probabilities, such as CalibrationCurve, or CalibrationPoints", metric)
        held = _held(metric)
        metric = formulas.calibration_curve(held["number"], held["probability"], metric.edges)
    predicted, actual, weight, lower, upper = metric
    half = 1.96**2 / 2 / weight if weight.dtype.kind == "i" else np.nan * weight
    middle = (actual + half) / (1 + 2 * half)
    reach = np.sqrt(2 * half * (actual * (1 - actual) + half / 2)) / (1 + 2 * half)
    width, least = upper - lower, 0.5 * np.min([*predicted[predicted > 0], *actual[actual > 0], 1])
    log = len(width) > 0 and width.max() > 1.5 * width.min()
    with canvas(ax, 76) as ax:
        reference(ax, [least if log else 0, 1], [least if log else 0, 1])
        (line,) = ax.plot(predicted, actual, marker="o", label=label)
        color, ends = line.get_color(), (middle - reach, middle + reach)
        ax.vlines(predicted, *ends, color=color, linewidth=1)
        above = ax.child_axes[0] if ax.child_axes else ax.inset_axes([0, 1.04, 1, 0.2], sharex=ax)
        edges = np.clip(np.append(lower, upper[-1:]), least if log else 0, 1)
        above.stairs(weight, edges, color=color, fill=len(ax.lines) == 2, alpha=0.5)
        above.tick_params(labelbottom=False, length=0, labelsize=ax.yaxis.get_tick_params()["labelsize"])
        above.yaxis.set_major_formatter(short)
        above.yaxis.get_major_locator().set_params(nbins=2)
        if log:
            ax.set(xscale="log", yscale="log")
            ax.xaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_major_formatter("{x:g}")
        finish(ax, "predicted", "actual", "" if log else "xy")
    return ax


def score_histogram(metric: Any, ax: Any = None, label: str = "") -> Any:
    """How the scores of each class are distributed: its share in each of about fifty bins.

    ``metric``: as for `roc`; several classes are drawn together.
    """
    [each] = _scores(metric, label, together=True)
    used = np.flatnonzero(each.positive + each.negative)
    edges = np.append(each.lowest, 1.0)[slice(used[0], used[-1] + 2) if used.size else slice(None)]
    place = edges
    if each.log_odds:
        edges = np.clip(edges, each.lowest[1] / 2, 1 - each.lowest[1] / 2)
        place = np.log(edges / (1 - edges))
    starts = np.unique(np.searchsorted(place, np.linspace(place[0], place[-1], 51)))
    with canvas(ax) as ax:
        for name, weights in (("label 0", each.negative), ("label 1", each.positive)):
            inside = weights[used[0] : used[-1] + 1] if used.size else weights
            share = _ratio(np.add.reduceat(inside, starts[:-1]), weights.sum()) / np.diff(place[starts])
            (line,) = ax.plot([], [], label=each.named(f"{name} ({short(weights.sum())})"))
            ax.stairs(share, edges[starts], color=line.get_color(), alpha=0.18, fill=True)
            ax.stairs(share, edges[starts], color=line.get_color(), linestyle=line.get_linestyle(), linewidth=1.2)
        if each.log_odds:
            _log_odds(ax, edges[0], edges[-1])
        finish(ax, "score", "density in the class", above=2, yticks=[])
        ax.set_ylim(bottom=0)
    return ax


def _log_odds(ax: Any, low: float, high: float) -> None:
    """0.001 is as far from 0.01 as that from 0.1, and 0.99 from 0.9."""
    tens = [10.0**-k for k in range(12, 0, -1)]
    inside = [each for each in (*tens, 0.5, *(1 - each for each in tens[:2:-1])) if low <= each <= high]
    ticks = inside[:: -(-len(inside) // 6) or 1]
    ax.set(xscale="logit", xlim=(low, high))
    ax.set_xticks(ticks, [f"{each:g}" for each in ticks])
    ax.set_xticks([], minor=True)


# -- thresholds and shares --------------------------------------------------------------------------------


def threshold_sweep(metric: Any, ax: Any = None, label: str = "") -> Any:
    """Precision, recall, F1 and specificity against the threshold; dotted, where F1 is highest.

    ``metric``: `ThresholdSweep`, a `fleetmetrics.formulas.Sweep`, or as for `roc`; several classes are drawn together.
    """
    log_odds, beta = False, getattr(metric, "beta", 1.0)
    if hasattr(metric, "spacing"):
        [each] = _scores(metric, label, together=True)
        at, log_odds, label = each.points, each.log_odds, each.label
        thresholds, (tp, fp, fn, tn) = at.thresholds[1:], (part[1:] for part in at[:4])
        found = [_ratio(tp, tp + fp), _ratio(tp, tp + fn), _ratio(2 * tp, 2 * tp + fp + fn), _ratio(tn, tn + fp)]
    else:
        value = metric if isinstance(metric, formulas.Sweep) else getattr(metric, "compute", lambda: None)()
        if not isinstance(value, formulas.Sweep):
            raise _refused("ThresholdSweep, a metric of a histogram of scores, or a Sweep", metric)
        thresholds, found = value.thresholds, [value.precision, value.recall, value.f_beta, value.specificity]
    best = found[2]
    with canvas(ax) as ax:
        for name, values in zip(("precision", "recall", "F1" if beta == 1 else f"F{beta:g}", "specificity"), found):
            ax.plot(thresholds, values, label=f"{label} {name}".strip())
        if not np.isnan(best).all():
            ax.axvline(thresholds[np.nanargmax(best)], color=quiet(ax), linestyle=(0, (1, 2)), linewidth=0.9)
        if log_odds and len(thresholds):
            _log_odds(ax, max(thresholds[-1], 1e-12), min(thresholds[0], 1 - 1e-9))
        finish(ax, "threshold", "", "y" if log_odds else "xy", above=2)
    return ax


def gain(metric: Any, ax: Any = None, label: str = "") -> Any:
    """Cumulative gain: the share of the positive samples that is among the highest scores; dotted, without a model.

    ``metric``: as for `roc`, such as `CumulativeGain`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    with canvas(ax, 66) as ax:
        reference(ax, [0, 1], [0, 1])
        for name, x, y in _gains(metric, label):
            ax.plot(x, y, label=name, marker="o" if len(x) < 30 else "")
        finish(ax, _UP, "share of the positive ones", "xy", box_aspect=0.8)
    return ax


def lift(metric: Any, ax: Any = None, label: str = "") -> Any:
    """Lift: how many times more positive samples are among the highest scores than without a model; dotted, 1.

    ``metric``: as for `roc`, such as `Lift`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    with canvas(ax) as ax:
        reference(ax, [0, 1], [1, 1])
        for name, x, y in _gains(metric, label):
            if hasattr(metric, "spacing"):
                share = np.linspace(0.005, 1, 200)
                x, y = share, np.interp(share, x, y) / share
            ax.plot(x, y, label=name, marker="o" if len(x) < 30 else "")
        finish(ax, _UP, "lift", "x")
        ax.set_ylim(bottom=0)
    return ax


def _gains(metric: Any, label: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    if getattr(metric, "_fields", None) == ("fractions", "values"):
        yield label, metric.fractions, metric.values
        return
    for each in _scores(metric, label, " or Shares"):
        at = each.points
        yield each.label, _ratio(at.tp + at.fp, at.tp[-1] + at.fp[-1]), _ratio(at.tp, at.tp[-1])


# -- matrices and histograms ------------------------------------------------------------------------------


def confusion_matrix(metric: Any, ax: Any = None, label: str = "", classes: Sequence[str] | None = None) -> Any:
    """The confusion matrix: shades are shares of the row, the samples of a true class; numbers up to 12 classes.

    ``metric``: `ConfusionMatrix` or another one of a confusion matrix, or a square array; ``label`` is the title,
    ``classes`` are the names of the classes.
    """
    matrix = _held(metric)["confusion"] if "confusion" in getattr(metric, "states", ()) else np.asarray(metric)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype.kind not in "iuf":
        raise _refused("one confusion matrix, such as that of ConfusionMatrix (of several labels, one by one)", metric)
    size = len(matrix)
    shares = np.nan_to_num(_ratio(matrix.astype(np.float64), matrix.sum(axis=1, keepdims=True)))
    with canvas(ax, 70) as ax:
        ink, back = ax.xaxis.label.get_color(), ax.figure.get_facecolor()
        (line,) = ax.plot([], [])
        shades = library("matplotlib.colors", "plot").LinearSegmentedColormap.from_list("", [back, line.get_color()])
        ax.imshow(shares, cmap=shades, vmin=0, vmax=1)
        for (row, column), number in np.ndenumerate(matrix if size < 13 else matrix[:0]):
            text = f"{shares[row, column]:.0%}"
            if size < 6:
                text = f"{number:.3g}\n{text}" if matrix.dtype.kind == "f" else f"{short(number)}\n{text}"
            color = ink if shares[row, column] < 0.5 else back
            ax.text(column, row, text, ha="center", va="center", color=color, fontsize=7 if size < 6 else 5.5)
        ax.grid(False)
        ax.locator_params(integer=True)
        finish(ax, "predicted", "true", title=plain(label))
        if classes is not None:
            names = [plain(each) for each in classes]
            ax.set_xticks(range(size), names, rotation=0 if size < 4 else 90)
            ax.set_yticks(range(size), names)
    return ax


def histogram(metric: Any, ax: Any = None, label: str = "") -> Any:
    """A histogram: the density of the values by bin; the legend says what share of them is outside.

    ``metric``: `Histogram`, or a `fleetmetrics.formulas.HistogramCounts`.
    """
    return _histogram(metric, ax, label, "value")


def residuals(metric: Any, ax: Any = None, label: str = "") -> Any:
    """How the errors of predictions are distributed; dotted, 0.

    ``metric``: a `Histogram` that was given them, ``metric.add(prediction - label)``, or a
    `fleetmetrics.formulas.HistogramCounts`: that takes as little memory for any number of samples.
    """
    with canvas(ax) as ax:
        ax.axvline(0, color=quiet(ax), linestyle=(0, (1, 2)), linewidth=0.9)
        return _histogram(metric, ax, label, "prediction - label")


def _histogram(metric: Any, ax: Any, label: str, x: str) -> Any:
    value = metric.compute() if "cells" in getattr(metric, "states", ()) else metric
    if not isinstance(value, formulas.HistogramCounts):
        raise _refused("Histogram, or HistogramCounts", metric)
    outside = value.below + value.above
    total = value.counts.sum() + outside
    label = f"{label} {outside / total:.2%} outside".strip() if outside else label
    with canvas(ax) as ax:
        (line,) = ax.plot([], [])
        density = _ratio(value.counts, total) / np.diff(value.edges)
        ax.stairs(density, value.edges, color=line.get_color(), alpha=0.25, fill=True)
        ax.stairs(density, value.edges, color=line.get_color(), label=label, linestyle=line.get_linestyle())
        finish(ax, x, "density", above=1)
        ax.set_ylim(bottom=0)
    return ax


# -- numbers with intervals -------------------------------------------------------------------------------


def over_passes(values: Any, ax: Any = None, label: str = "") -> Any:
    """A metric over the passes, with a band where its values have intervals.

    ``values`` are what it computed in each pass, numbers or such as `AUC` with bounds and `Bootstrap` compute; or a
    dict of these by number of the pass.
    """
    with canvas(ax) as ax:
        _series(ax, values if isinstance(values, Mapping) else dict(enumerate(values, 1)), label)
        ax.locator_params(axis="x", integer=True)
        finish(ax, "pass", "", above=2)
    return ax


def at_k(metric: Any, ax: Any = None, label: str = "") -> Any:
    """A metric of ranked answers by the number of places that it looks at.

    ``metric``: one that was made with several ``k``, such as ``NDCG(k=[1, 5, 10])``; or the dict that it computed.
    """
    value = metric if isinstance(metric, Mapping) else getattr(metric, "compute", lambda: None)()
    if not isinstance(value, Mapping) or None in value:
        raise _refused("a metric of several k, such as NDCG(k=[1, 5, 10]), or a dict by k", metric)
    with canvas(ax) as ax:
        _series(ax, value, label)
        ax.set_xscale("log")
        ax.set_xticks(list(value), [str(each) for each in value])
        ax.set_xticks([], minor=True)
        finish(ax, "k", "", above=2)
    return ax


def _series(ax: Any, values: Mapping[Any, Any], label: str) -> None:
    table = np.array([interval(each) for each in values.values()]).reshape(-1, 3)
    (line,) = ax.plot(list(values), table[:, 0], marker="o", label=label)
    ax.fill_between(list(values), table[:, 1], table[:, 2], color=line.get_color(), alpha=0.25, linewidth=0)


def slices(metric: Any, ax: Any = None, most: int = 20, whole: float | None = None) -> Any:
    """A forest of intervals, one for each slice; dotted, the value over all of them.

    Args:
        metric: `Sliced`, the dict that it computed, or the rows that ``fleetmetrics evaluate --json`` has for a column:
            dicts of ``key``, ``value``, ``low``, ``high``, ``rows``, ``difference``, ``within_chance`` and ``metric``,
            of which only the first two must be there. Slices within chance are hollow.
        ax: see the module.
        most: how many of the first are drawn.
        whole: the value over all slices; None: by the first row's difference, if it has one.
    """
    found = metric.compute() if hasattr(metric, "compute") else metric
    if isinstance(found, Mapping):
        rows = [dict(zip(("key", "value", "low", "high"), (key, *interval(each)))) for key, each in found.items()]
    else:
        rows = list(found)
    if whole is None and rows and rows[0].get("difference") is not None:
        whole = rows[0]["value"] - rows[0]["difference"]
    shown = rows[:most]
    table = np.array([interval(each) for each in shown]).reshape(-1, 3)
    hollow, place = np.array([bool(each.get("within_chance")) for each in shown], bool), np.arange(len(shown))
    with canvas(ax, 16 + 4.2 * max(len(shown), 2)) as ax:
        if whole is not None:
            ax.axvline(whole, color=quiet(ax), linestyle=(0, (1, 2)), linewidth=0.9)
        (line,) = ax.plot([], [])
        for which, fill, name in ((~hollow, line.get_color(), "differs"), (hollow, "none", "within chance")):
            ax.hlines(place[which], table[which, 1], table[which, 2], color=line.get_color(), linewidth=1)
            marked = name if hollow.any() else None
            style = {"markerfacecolor": fill, "linestyle": "", "marker": "o", "color": line.get_color()}
            ax.plot(table[which, 0], place[which], label=marked, **style)
        for row, each in enumerate(shown):
            if each.get("rows") is not None:
                at = {"transform": ax.get_yaxis_transform(), "va": "center", "color": quiet(ax), "fontsize": "small"}
                ax.text(1.02, row, short(each["rows"]), **at)
        ax.set_yticks(place, [plain(each["key"]) for each in shown])
        ax.grid(False, axis="y")
        more = f", the first {most} of {len(rows)}" if len(rows) > most else ""
        name = plain(shown[0].get("metric", "value")) + more if shown else ""
        finish(ax, name, "", above=2, corner="right", ylim=(len(shown) - 0.4, -0.6))
    return ax


def by_worker(local: Sequence[Any], whole: Any, ax: Any = None) -> Any:
    """The values of the workers, one by one, beside that over all of them, dotted.

    Args:
        local: what ``compute_local`` gives on each worker, by rank.
        whole: what ``compute`` gives.
        ax: see the module.
    """
    rows = {f"worker {rank}": value for rank, value in enumerate(local)}
    return slices(rows, ax, len(rows), interval(whole)[0])
