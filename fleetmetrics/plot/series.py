"""Values with their intervals: over passes and time, by k, by slice and by worker."""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.plot.axis import short
from fleetmetrics.plot.canvas import canvas, check, dotted, interval, list_of, plain, worded
from fleetmetrics.plot.plotted import has, refused
from fleetmetrics.support.checks import is_number, knows_its_arguments, whole_number_of
from fleetmetrics.support.typed import Axes

__all__ = ["at_k", "by_worker", "over_passes", "over_time", "slices"]


def _table(values: Iterable[Any]) -> np.ndarray:
    """Values with the ends of their intervals, ``[n, 3]``."""
    return np.array([interval(value) for value in values]).reshape(-1, 3)


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
    table = _table(values.values())
    place, step = np.arange(len(table)), max(1, math.ceil(len(table) / 12))
    with canvas(ax, "", "", above=2) as ax:
        (line,) = ax.plot(place, table[:, 0], marker="o", label=label)
        ax.vlines(place, table[:, 1], table[:, 2], color=line.get_color(), linewidth=1)
        ax.set_xticks(place[::step], [plain(name) for name in list(values)[::step]], rotation=90)
    return ax


def _by_number(values: Mapping[Any, Any], ax: Axes | None, label: str, x: str, **look: Any) -> Axes:
    check(ax, label)
    place, table = list(values), _table(values.values())
    with canvas(ax, x, "", above=2, **look) as ax:
        (line,) = ax.plot(place, table[:, 0], marker="o", label=label)
        ax.fill_between(place, table[:, 1], table[:, 2], color=line.get_color(), alpha=0.25, linewidth=0)
    return ax


@knows_its_arguments
def at_k(metric: Any, ax: Axes | None = None, label: str = "") -> Axes:
    """A metric of ranked answers by k.

    ``metric``: one with several ``k``, such as ``NDCG(k=[1, 5, 10])``; or the dict that it computed.
    """
    value = metric.compute() if has(metric, "at_k") else metric
    if not isinstance(value, Mapping) or not all(map(is_number, value)):
        raise refused("a metric of several k, such as NDCG(k=[1, 5, 10]), or a dict by k", metric)
    return _by_number(value, ax, label, "k", xscale="log", xticks=list(value))


#: The marks of slices: full, hollow, and hollow and gray.
_KINDS = ("significant", "not significant", "too few to tell")


def _verdict(row: Mapping[str, Any]) -> str:
    """The kind of a slice; empty if it has no verdict."""
    within = row.get("within_chance")
    if within is None:
        return "too few to tell" if row.get("verdict") == "too few" else ""
    return "not significant" if within else "significant"


def _rows_of(metric: Any) -> list[Mapping[str, Any]]:
    """A dict with key and value for each slice of what `slices` takes."""
    rows = metric.compute() if hasattr(metric, "compute") else metric
    if isinstance(rows, Mapping):
        rows = [dict(zip(("key", "value", "low", "high"), (key, *interval(value)))) for key, value in rows.items()]
    if isinstance(rows, (list, tuple)):
        rows = [row.plain() if hasattr(row, "plain") else row for row in rows]
        if all(isinstance(row, Mapping) and "key" in row for row in rows):
            return rows
    raise refused("Sliced, the dict that it computed, or a list of dicts with key and value", metric)


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
    every = _rows_of(metric)
    check(ax)
    rows = every[: whole_number_of("most", most, 1)]
    whole = None if whole is None else interval(whole, "whole")[0]
    if whole is None and rows and rows[0].get("difference") is not None:
        whole = rows[0]["value"] - rows[0]["difference"]
    table, place = _table(rows), np.arange(len(rows))
    tested = any(row.get("within_chance") is not None for row in every)
    verdicts = [_verdict(row) or ("too few to tell" if tested else "significant") for row in rows]
    kinds = {kind: np.array([verdict == kind for verdict in verdicts], bool) for kind in _KINDS}
    name = plain(rows[0].get("metric", "value")) if rows else ""
    name += worded(", the first {} of {}").format(most, len(every)) if len(every) > most else ""
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
        for y, row in zip(place, rows):
            number = "" if row.get("rows") is None else short(row["rows"])
            ax.annotate(number, (1.02, y), xycoords=ax.get_yaxis_transform(), va="center", fontsize=7)
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
