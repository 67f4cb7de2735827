"""Pictures of what metrics hold and compute, drawn by matplotlib: ``pip install 'fleetmetrics[plot]'``.

Each draws on axes and returns them. ``metric`` is a metric, whose states are brought together over all workers, as
``compute`` does (so every worker must call it), or a value that it has computed; anything else is an
`InvalidInputError`. ``ax`` are matplotlib's axes; None: those of a new figure, 80 mm wide. Another metric on the same
axes stands beside the first; ``label`` is what the legend says in front. Several classes are drawn one by one; more
than six, all together. Without matplotlib there is a `MissingLibraryError`.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import InvalidInputError, library
from fleetmetrics.formulas.curves import Points, points
from fleetmetrics.plot.canvas import (
    band,
    canvas,
    dotted,
    finish,
    interval,
    log_odds_axis,
    plain,
    reference,
    series,
    short,
    spoken,
    stairs,
)
from fleetmetrics.plot.canvas import style as style
from fleetmetrics.plot.canvas import svg as svg
from fleetmetrics.xp.score_buckets import lowest_scores

#: Of more classes only all together are drawn.
_MOST = 6


def draw(metric: Any, ax: Any = None, **options: Any) -> Any:
    """The picture that a metric has, or a value that one has computed; ``options`` are those of the picture."""
    for kind in type(metric).__mro__:
        if kind.__name__ in PICTURES:
            picture = precision_recall if getattr(metric, "curve", "") == "PR" else PICTURES[kind.__name__]
            return picture(metric, ax, **options)
    raise InvalidInputError(f"{type(metric).__name__} has no picture; these have one: {', '.join(sorted(PICTURES))}")


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


def _held(metric: Any) -> Any:
    """The states of a metric, over all workers."""
    view = copy.copy(metric)
    view.formula = lambda **states: states
    return view.compute()


def _scores(metric: Any, label: str, value: str = "", together: bool = False) -> Iterator[_Scores]:
    """The histogram of the scores, or that of each class."""
    if not hasattr(metric, "spacing"):
        raise _refused(f"a metric of a histogram of scores, such as AUC{value}", metric)
    table, names = _held(metric)["histogram"], [label]
    if table.ndim == 3 and (together or len(table) > _MOST):
        names, table = [f"{label} all {len(table)}"], table.sum(axis=0)
    elif table.ndim == 3:
        names = [f"{label} {metric.entry} {place}" for place in range(len(table))]
    lowest = lowest_scores(metric.buckets, metric.spacing)
    for name, (negative, positive) in zip(names, table.reshape(-1, 2, len(lowest))):
        yield _Scores(negative, positive, lowest, metric.spacing == "log_odds", name.strip())


def _refused(drawn: str, metric: Any) -> InvalidInputError:
    return InvalidInputError(f"this picture is drawn of {drawn}; metric is {type(metric).__name__} {metric!r:.80}")


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
    curves = [(label, metric)]
    if not isinstance(metric, formulas.ROC):
        given = _scores(metric, label, " or a ROC")
        curves = [(each.label, formulas.roc_curve(each.positive, each.negative, each.lowest)) for each in given]
    with canvas(ax, 72) as ax:
        reference(ax, [0, 1], [0, 1])
        for name, (fpr, tpr, _) in curves:
            low, high = (np.sum(np.diff(fpr) * ends) if len(fpr) > 1 else np.nan for ends in (tpr[:-1], tpr[1:]))
            (line,) = ax.plot(fpr, tpr, label=spoken(name, "AUC", (low + high) / 2, low, high))
            band(ax, fpr, tpr[:-1], tpr[1:], line.get_color())
        finish(ax, "false positive rate", "true positive rate", "xy", box_aspect=1)
    return ax


def precision_recall(metric: Any, ax: Any = None, label: str = "") -> Any:
    """The precision-recall curve, with the band in which that of the scores themselves runs; dotted, the rate.

    ``metric``: as for `roc`; or a `fleetmetrics.formulas.PrecisionRecall`, which has no band.
    """
    curves, bands = [], []
    if isinstance(metric, formulas.PrecisionRecall):
        area = -np.sum(np.diff(metric.recall) * metric.precision[:-1])
        curves.append((metric.recall, metric.precision, spoken(label, "AP", area)))
    else:
        for each in _scores(metric, label, " or a PrecisionRecall"):
            at, found = each.points, formulas.average_precision_bounds(each.positive, each.negative)
            recall = _ratio(at.tp, at.tp[-1])
            curves.append((recall[::-1], at.precision[::-1], spoken(each.label, "AP", *found)))
            lowest, highest = _ratio(at.tp[:-1], at.tp[:-1] + at.fp[1:]), _ratio(at.tp[1:], at.tp[1:] + at.fp[:-1])
            bands.append((recall, lowest, highest))
    with canvas(ax, 72) as ax:
        reference(ax, [0, 1], [curves[0][1][0]] * 2)  # whoever predicts everything positive has the rate
        lines = [ax.plot(x, y, drawstyle="steps-post", label=name)[0] for x, y, name in curves]
        # Where positive samples are rare, precision is high for the very first only.
        high = max(np.max(each.get_ydata()[np.greater(each.get_xdata(), 0.02)], initial=0.0) for each in ax.lines)
        top = 1.5 * high if 0 < high < 0.4 else 1.0
        for line, parts in zip(lines, bands):
            band(ax, *parts, line.get_color(), top)
        finish(ax, "recall", "precision", "xy" if top == 1 else "x", box_aspect=1)
        ax.set_ylim(-0.02 * top, 1.02 * top)
    return ax


def gain(metric: Any, ax: Any = None, label: str = "") -> Any:
    """Cumulative gain: the share of the positive samples that is among the highest scores; dotted, without a model.

    ``metric``: as for `roc`, such as `CumulativeGain`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    return _by_share(metric, ax, label, "share of the positive ones")


def lift(metric: Any, ax: Any = None, label: str = "") -> Any:
    """Lift: how many times more positive samples are among the highest scores than without a model; dotted, 1.

    ``metric``: as for `roc`, such as `Lift`; or the `fleetmetrics.metrics.curves.Shares` that it computed.
    """
    return _by_share(metric, ax, label, "lift")


def _by_share(metric: Any, ax: Any = None, label: str = "", y: str = "gain or lift") -> Any:
    with canvas(ax) as ax:
        if getattr(metric, "_fields", ()) == ("fractions", "values"):
            curves = [(*metric, label)]
        else:
            given = [(each.points, each.label) for each in _scores(metric, label, " or Shares")]
            curves = [(_ratio(at.tp + at.fp, at.tp[-1] + at.fp[-1]), _ratio(at.tp, at.tp[-1]), to) for at, to in given]
            if y == "lift":
                place = np.linspace(0.005, 1, 200)
                curves = [(place, np.interp(place, share, found) / place, name) for share, found, name in curves]
        reference(ax, [0, 1], [0 if y == "share of the positive ones" else 1, 1])
        for share, found, name in curves:
            ax.plot(share, found, label=name, marker="o" if len(share) < 30 else "")
        finish(ax, "share of the samples, highest scores first", y, "x")
        ax.set_ylim(bottom=0)
    return ax


def threshold_sweep(metric: Any, ax: Any = None, label: str = "") -> Any:
    """Precision, recall, F-beta and specificity against the threshold; dotted, where F-beta is highest.

    ``metric``: `ThresholdSweep`, a `fleetmetrics.formulas.Sweep`, or as for `roc`; several classes are drawn together.
    """
    log_odds, beta = False, getattr(metric, "beta", 1.0)
    if hasattr(metric, "spacing"):
        [each] = _scores(metric, label, together=True)
        log_odds, label = each.log_odds, each.label
        thresholds, (tp, fp, fn, tn) = each.points.thresholds[1:], (part[1:] for part in each.points[:4])
        found = [_ratio(tp, tp + fp), _ratio(tp, tp + fn), _ratio(2 * tp, 2 * tp + fp + fn), _ratio(tn, tn + fp)]
    else:
        value = metric.compute() if hasattr(metric, "thresholds") and hasattr(metric, "compute") else metric
        if not isinstance(value, formulas.Sweep):
            raise _refused("ThresholdSweep, a metric of a histogram of scores, or a Sweep", metric)
        thresholds, found = value.thresholds, [value.precision, value.recall, value.f_beta, value.specificity]
    with canvas(ax) as ax:
        for name, values in zip(("precision", "recall", f"F{beta:g}", "specificity"), found):
            ax.plot(thresholds, values, label=f"{label} {name}".strip())
        if not np.isnan(found[2]).all():
            ax.axvline(thresholds[np.nanargmax(found[2])], **dotted(ax))
        if log_odds and len(thresholds):
            log_odds_axis(ax, thresholds[-1], thresholds[0])
        finish(ax, "threshold", "", "y" if log_odds else "xy", above=2)
    return ax


def calibration(metric: Any, ax: Any = None, label: str = "") -> Any:
    """How often it happens against what was predicted, by bin, with 95 % intervals; above, the number of samples.

    The intervals are Wilson's, as if samples were independent; weighted samples have none. Bins of unequal width are
    drawn on logarithmic axes. ``metric``: `CalibrationCurve`, `ExpectedCalibrationError`, `BrierDecomposition` or a
    `fleetmetrics.formulas.CalibrationPoints`.
    """
    if hasattr(metric, "binning"):
        held = _held(metric)
        metric = formulas.calibration_curve(held["number"], held["probability"], metric.edges)
    if not isinstance(metric, formulas.CalibrationPoints):
        raise _refused("a metric of bins of probabilities, such as CalibrationCurve, or CalibrationPoints", metric)
    predicted, actual, weight, lower, upper = metric
    half = 1.96**2 / 2 / weight if weight.dtype.kind == "i" else np.nan * weight
    middle = (actual + half) / (1 + 2 * half)
    reach = np.sqrt(2 * half * (actual * (1 - actual) + half / 2)) / (1 + 2 * half)
    log = np.ptp(upper - lower) > 1e-6 if len(lower) else False
    least = 0.5 * np.min([*predicted[predicted > 0], *actual[actual > 0], 1]) if log else 0.0
    with canvas(ax, 76) as ax:
        reference(ax, [least, 1], [least, 1])
        (line,) = ax.plot(predicted, actual, marker="o", label=label)
        ax.vlines(predicted, middle - reach, middle + reach, color=line.get_color(), linewidth=1)
        above = ax.child_axes[0] if ax.child_axes else ax.inset_axes([0, 1.04, 1, 0.2], sharex=ax)
        left, face = np.maximum(lower, least), line.get_color() if len(ax.lines) == 2 else "none"
        above.bar(left, weight, upper - left, align="edge", facecolor=face, edgecolor=line.get_color(), alpha=0.5)
        above.tick_params(labelbottom=False, length=0)
        above.yaxis.set_major_formatter(short)
        above.locator_params(axis="y", nbins=2)
        if log:
            ax.set(xscale="log", yscale="log")
            ax.xaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_major_formatter("{x:g}")
        finish(ax, "predicted", "actual", "" if log else "xy")
        if ax.get_legend():
            ax.legend(loc="best")  # above are the numbers of samples
    return ax


def score_histogram(metric: Any, ax: Any = None, label: str = "") -> Any:
    """How the scores of each class are distributed, by about fifty bins; the legend has the number of samples.

    ``metric``: as for `roc`; several classes are drawn together.
    """
    [each] = _scores(metric, label, together=True)
    used = np.flatnonzero(each.positive + each.negative)
    first, last = (used[0], used[-1] + 1) if used.size else (0, len(each.lowest))
    edges = place = np.append(each.lowest, 1.0)[first : last + 1]
    if each.log_odds:
        edges = np.clip(edges, each.lowest[1] / 2, 1 - each.lowest[1] / 2)
        place = np.log(edges / (1 - edges))
    starts = np.unique(np.searchsorted(place, np.linspace(place[0], place[-1], 51)))
    with canvas(ax) as ax:
        for name, weights in (("label 0", each.negative), ("label 1", each.positive)):
            share = _ratio(np.add.reduceat(weights[first:last], starts[:-1]), weights.sum())
            stairs(ax, share / np.diff(place[starts]), edges[starts], f"{each.label} {name} ({short(weights.sum())})")
        if each.log_odds:
            log_odds_axis(ax, edges[0], edges[-1])
        finish(ax, "score", "density in the class", above=2, yticks=[])
        ax.set_ylim(bottom=0)
    return ax


def histogram(metric: Any, ax: Any = None, label: str = "") -> Any:
    """The density of values by bin; the legend says what share of them is in no bin.

    ``metric``: `Histogram`, or a `fleetmetrics.formulas.HistogramCounts`.
    """
    value = metric.compute() if "cells" in getattr(metric, "states", ()) else metric
    if not isinstance(value, formulas.HistogramCounts):
        raise _refused("Histogram, or HistogramCounts", metric)
    outside = value.below + value.above
    total = value.counts.sum() + outside
    with canvas(ax) as ax:
        density = _ratio(value.counts, total) / np.diff(value.edges)
        stairs(ax, density, value.edges, f"{label} {f'{outside / total:.2%} outside' if outside else ''}")
        finish(ax, "value", "density", above=1)
        ax.set_ylim(bottom=0)
    return ax


def residuals(metric: Any, ax: Any = None, label: str = "") -> Any:
    """How the errors of predictions are distributed; dotted, 0.

    ``metric``: as for `histogram`, one that was given the errors, ``metric.add(prediction - label)``: it takes the same
    memory for any number of samples.
    """
    with canvas(ax) as ax:
        histogram(metric, ax, label).set_xlabel("prediction - label")
        ax.axvline(0, **dotted(ax))
    return ax


def confusion_matrix(metric: Any, ax: Any = None, label: str = "", classes: Sequence[str] | None = None) -> Any:
    """The confusion matrix: shades and numbers are shares of the row, the samples of a true class; counts if few.

    ``metric``: `ConfusionMatrix` or another one of a confusion matrix, or a square array; ``label`` is the title,
    ``classes`` are the names of the classes.
    """
    matrix: Any = _held(metric)["confusion"] if "confusion" in getattr(metric, "states", ()) else np.asarray(metric)
    size = len(matrix) if matrix.ndim else 0
    if matrix.shape != (size, size) or matrix.dtype.kind not in "iuf":
        raise _refused("one confusion matrix, such as that of ConfusionMatrix (of several labels, one by one)", metric)
    shares = np.nan_to_num(_ratio(matrix.astype(np.float64), matrix.sum(axis=1, keepdims=True)))
    with canvas(ax, 70) as ax:
        ink, back, (line,) = ax.xaxis.label.get_color(), ax.figure.get_facecolor(), ax.plot([], [])
        shades = library("matplotlib.colors", "plot").LinearSegmentedColormap.from_list("", [back, line.get_color()])
        ax.imshow(shares, cmap=shades, vmin=0, vmax=1)
        for (row, column), share in np.ndenumerate(shares if size < 13 else shares[:0]):
            text = f"{short(matrix[row, column])}\n{share:.0%}" if size < 6 else f"{share:.0%}"
            look = {"color": ink if share < 0.5 else back, "fontsize": 7 if size < 6 else 5.5}
            ax.text(column, row, text, ha="center", va="center", **look)
        ax.grid(False)
        ax.locator_params(integer=True)
        if classes is not None:
            names = [plain(each) for each in classes]
            ax.set_xticks(range(size), names, rotation=0 if size < 4 else 90)
            ax.set_yticks(range(size), names)
        finish(ax, "predicted", "true", title=plain(label))
    return ax


def over_passes(values: Any, ax: Any = None, label: str = "") -> Any:
    """A metric over the passes, with a band where its values have intervals.

    ``values`` are what it computed in each pass, numbers or such as `AUC` with bounds and `Bootstrap` compute; or a
    dict of these by number of the pass.
    """
    with canvas(ax) as ax:
        series(ax, values if isinstance(values, Mapping) else dict(enumerate(values, 1)), label)
        ax.locator_params(axis="x", integer=True)
        finish(ax, "pass", "", above=2)
    return ax


def at_k(metric: Any, ax: Any = None, label: str = "") -> Any:
    """A metric of ranked answers by the number of places that it looks at.

    ``metric``: one that was made with several ``k``, such as ``NDCG(k=[1, 5, 10])``; or the dict that it computed.
    """
    value = metric.compute() if hasattr(metric, "k") else metric
    if not isinstance(value, Mapping):
        raise _refused("a metric of several k, such as NDCG(k=[1, 5, 10]), or a dict by k", metric)
    with canvas(ax) as ax:
        series(ax, value, label)
        ax.set_xscale("log")
        ax.set_xticks(list(value), [str(each) for each in value])
        ax.set_xticks([], minor=True)
        finish(ax, "k", "", above=2)
    return ax


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
        found = [dict(zip(("key", "value", "low", "high"), (key, *interval(each)))) for key, each in found.items()]
    rows = list(found)[:most]
    if whole is None and rows and rows[0].get("difference") is not None:
        whole = rows[0]["value"] - rows[0]["difference"]
    table, place = np.array([interval(each) for each in rows]).reshape(-1, 3), np.arange(len(rows))
    hollow = np.array([bool(each.get("within_chance")) for each in rows], bool)
    with canvas(ax, 16 + 4.2 * max(len(rows), 2)) as ax:
        if whole is not None:
            ax.axvline(whole, **dotted(ax))
        color = ax.plot([], [])[0].get_color()
        ax.hlines(place, table[:, 1], table[:, 2], color=color, linewidth=1)
        for which, fill, name in ((~hollow, color, "differs"), (hollow, "none", "within chance")):
            look = {"markerfacecolor": fill, "linestyle": "", "marker": "o", "color": color}
            ax.plot(table[which, 0], place[which], label=name if hollow.any() else None, **look)
        for row, each in zip(place, rows):
            number = "" if each.get("rows") is None else short(each["rows"])
            ax.annotate(number, (1.02, row), xycoords=ax.get_yaxis_transform(), va="center", fontsize=7)
        ax.set_yticks(place, [plain(each["key"]) for each in rows])
        ax.grid(False, axis="y")
        name = plain(rows[0].get("metric", "value")) if rows else ""
        name += f", the first {most} of {len(found)}" if len(found) > most else ""
        finish(ax, name, "", above=2, corner="right", ylim=(len(rows) - 0.4, -0.6))
    return ax


def by_worker(local: Sequence[Any], whole: Any, ax: Any = None) -> Any:
    """The values of the workers, one by one, beside that over all of them, dotted.

    Args:
        local: what ``compute_local`` gives on each worker, by rank.
        whole: what ``compute`` gives.
        ax: see the module.
    """
    return slices({f"worker {rank}": each for rank, each in enumerate(local)}, ax, len(local), interval(whole)[0])


#: Which picture a metric, by its class or one that it derives from, or a value has.
PICTURES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(["AUC", "ROCCurve", "ROC", "SensitivityAtSpecificity", "SpecificityAtSensitivity"], roc),
    **dict.fromkeys(["AveragePrecision", "PrecisionRecallCurve", "PrecisionRecall"], precision_recall),
    **dict.fromkeys(["PrecisionAtFixedRecall", "RecallAtFixedPrecision"], precision_recall),
    **dict.fromkeys(["BucketError", "KolmogorovSmirnov"], score_histogram),
    **dict.fromkeys(["CalibrationCurve", "CalibrationPoints"], calibration),
    **dict.fromkeys(["BrierDecomposition", "ExpectedCalibrationError"], calibration),
    **{"CumulativeGain": gain, "Shares": _by_share, "Lift": lift},
    **{"ThresholdSweep": threshold_sweep, "Sweep": threshold_sweep, "ConfusionMetric": confusion_matrix},
    **{"Histogram": histogram, "HistogramCounts": histogram, "RankingMetric": at_k, "Sliced": slices},
}
