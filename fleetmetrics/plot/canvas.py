"""The common parts of all plots: the style, figures, bands, numbers as strings, SVG."""

from __future__ import annotations

import contextlib
import contextvars
import io
import re
import warnings
import weakref
import zlib
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.plot.axis import tick
from fleetmetrics.plot.chart import COLORS, INKS, LINES, Chart
from fleetmetrics.support.checks import flag_of, listed, text
from fleetmetrics.support.optional import library
from fleetmetrics.support.tensors import refuse_masked
from fleetmetrics.support.typed import Figure

__all__ = ["style", "svg"]


class _Style(NamedTuple):
    """The arguments of `style`: whether the background is dark, and the replacements for the English words of plots."""

    dark: bool = False
    words: Mapping[str, str] | None = None


#: The style of plots here; None outside of `style`.
_NOW: contextvars.ContextVar[_Style | None] = contextvars.ContextVar("fleetmetrics_plot", default=None)
#: The style of axes that a plot made: a second model on them is drawn in it, too.
_MADE: weakref.WeakKeyDictionary[Any, _Style] = weakref.WeakKeyDictionary()
#: Makes the names inside an SVG the same in every run.
_SALT = "fleetmetrics"
#: More filled histograms than this would cover one another: they are lines.
_FILLS = 2
#: In axes from 0 to 1, a line hides any narrower band.
_HIDDEN = 1 / 512
#: matplotlib's own font has no Chinese characters; of these the first one that is installed comes after it.
_CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "PingFang SC", "Microsoft YaHei")


@contextlib.contextmanager
def style(dark: bool = False, words: Mapping[str, str] | None = None) -> Iterator[None]:
    """Draw the plots inside for a width of 80 mm, in colors that color-blind readers can distinguish.

    The user's settings of matplotlib do not apply inside, and are restored afterwards.

    Args:
        dark: for a dark background.
        words: replacements for the English words of plots, such as ``{"recall": "召回率"}``.

    Raises:
        MissingLibraryError: matplotlib is not installed.

    Examples:
        >>> import fleetmetrics
        >>> with fleetmetrics.plot.style(dark=True):
        ...     axes = fleetmetrics.plot.at_k({1: 0.25, 10: 0.5})
        >>> max(axes.figure.get_facecolor()[:3]) < 0.2
        True
    """
    flag_of("dark", dark)
    if words is not None and not isinstance(words, Mapping):
        raise InvalidInputError(f"words must be a dict of replacements by English word, or None, not {words!r:.80}")
    there = {font.name for font in library("matplotlib.font_manager").fontManager.ttflist}
    cycler, rc = library("cycler").cycler, library("matplotlib").rc
    text, back, between, grid = INKS[dark]
    with library("matplotlib.style").context("default"):
        rc("font", size=7.5, family=["DejaVu Sans", *[name for name in _CHINESE if name in there][:1]])
        rc("text", color=text)
        rc("figure", facecolor=back, dpi=150)
        rc("axes", facecolor="none", edgecolor=between, labelcolor=text, linewidth=0.5, axisbelow=True, grid=True)
        rc("axes", labelsize=7.5, titlesize=7.5)
        rc("axes", prop_cycle=cycler(color=COLORS[dark].split()) + cycler(linestyle=LINES))
        rc("axes.spines", top=False, right=False)
        rc("grid", color=grid, linewidth=0.5)
        rc(("xtick", "ytick"), color=between, labelcolor=text, labelsize=7)
        rc(("xtick.major", "ytick.major", "xtick.minor", "ytick.minor"), size=0)
        rc("lines", linewidth=1.2, markersize=4)
        rc("legend", fontsize=7.5, frameon=False, handlelength=2.6)
        rc("path", simplify_threshold=0.5)
        rc("svg", hashsalt=_SALT)
        token = _NOW.set(_Style(dark, words))
        try:
            yield
        finally:
            _NOW.reset(token)


@contextlib.contextmanager
def charts(words: Mapping[str, str] | None) -> Iterator[None]:
    """`style` for charts, without matplotlib.

    Args:
        words: as for `style`.
    """
    token = _NOW.set(_Style(False, words))
    try:
        yield
    finally:
        _NOW.reset(token)


def worded(text: str) -> str:
    """A word of a plot, in the language of `style`."""
    now = _NOW.get()
    return text if now is None or now.words is None else now.words.get(text, text)


def check(ax: Any, label: Any = "") -> None:
    """Raise InvalidInputError unless ``ax`` can be drawn on, and ``label`` is a string."""
    if ax is not None and not isinstance(ax, Chart) and not isinstance(ax, library("matplotlib.axes").Axes):
        raise InvalidInputError(f"ax must be axes of matplotlib, such as plt.gca(), or None, not {ax!r:.80}")
    text("label", label)


def list_of(argument: str, values: Any, of: str) -> list[Any]:
    """The entries of an iterable that hides none."""
    refuse_masked(argument, values)
    return listed(argument, values, of)


@contextlib.contextmanager
def canvas(
    ax: Any, x: str, y: str, unit: str = "", above: int = 0, height: float = 60, legend: str = "left", **more: Any
) -> Iterator[Any]:
    """Axes to draw on: those given, or of a new figure, ``height`` mm high, light unless `style` says otherwise.

    The plot then gets names, few ticks and a legend; the axes of ``unit``, such as ``"xy"``, go from 0 to 1. The
    legend is above in ``above`` columns, at the ``"left"`` or ``"right"``; or ``"inside"``, where there is room, as is
    a single entry without ``above``, and any on axes of the caller's own: there may be nothing above. ``more`` is for
    ``ax.set``.
    """
    if isinstance(ax, Chart):
        yield ax
        ax.finish(unit, above, height, legend == "inside", **{"xlabel": worded(x), "ylabel": worded(y), **more})
        return
    figure, rc = library("matplotlib.figure").Figure, library("matplotlib").rcParams
    own, before = is_own(ax), _Style() if ax is None else _MADE.get(ax, _Style())
    with contextlib.nullcontext() if own or _NOW.get() else style(*before):
        if ax is None:
            ax = figure(figsize=(80 / 25.4, height / 25.4), layout="constrained").add_subplot()
            colors = {"color": rc["xtick.color"], "labelcolor": rc["text.color"], "grid_color": rc["grid.color"]}
            # Ticks made at drawing time, perhaps in another style, look like these.
            ax.tick_params(length=0, labelsize=rc["xtick.labelsize"], grid_linewidth=rc["grid.linewidth"], **colors)
            _MADE[ax] = _NOW.get() or _Style()
        yield ax
        if more.get("ylim") == (0, None):  # the second of two curves may be the higher one
            ax.autoscale(axis="y")
        ax.set(**{"xlabel": worded(x), "ylabel": worded(y), **more})
        for side, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
            linear = axis.get_scale() == "linear"
            if side in unit:  # a little more, so that no line at an end is cut
                ax.set(**{f"{side}lim": (-0.02, 1.02), f"{side}ticks": [0, 0.25, 0.5, 0.75, 1]})
            if isinstance(axis.get_major_locator(), library("matplotlib.ticker").MaxNLocator):
                axis.get_major_locator().set_params(nbins=5 if linear else 7)
            if side in unit or not linear:
                axis.set_major_formatter(tick)
                axis.set_minor_locator(library("matplotlib.ticker").NullLocator())
        labels, look = ax.get_legend_handles_labels()[1], {}
        if not own and legend != "inside" and (above or len(labels) > 1):
            look = {"loc": f"lower {legend}", "bbox_to_anchor": (legend == "right", 1), "borderaxespad": 0.2}
        if labels:
            ax.legend(**look, borderpad=0.1 if look else None, ncol=(look and above) or 1, columnspacing=1.2)


def is_own(ax: Any) -> bool:
    """Whether these are the caller's axes, outside of `style`: they keep his settings."""
    return ax is not None and ax not in _MADE and _NOW.get() is None


def dotted(ax: Any) -> dict[str, Any]:
    """The style of a line that shows no data."""
    color = INKS[0][2] if isinstance(ax, Chart) else ax.spines["left"].get_edgecolor()
    return {"color": color, "linestyle": (0, (1, 2)), "linewidth": 0.9}


def reference(ax: Any, x: Any, y: Any) -> None:
    """Add a dotted reference line, once per plot."""
    if not ax.lines:
        ax.plot(x, y, **dotted(ax))


def band(ax: Any, color: Any, x: np.ndarray, low: np.ndarray, high: np.ndarray, *, top: float = 1.0) -> None:
    """A rectangle between each two x in which the curve may run, unless the line hides it; y goes to ``top``."""
    shown = np.minimum(np.diff(x), (high - low) / top) > _HIDDEN
    if shown.any():
        low, high, where = (np.repeat(edge, 2) for edge in (low, high, shown))
        ax.fill_between(np.repeat(x, 2)[1:-1], low, high, where=where, color=color, alpha=0.25, linewidth=0)


def stairs(ax: Any, histograms: Mapping[str, Any], edges: np.ndarray, cut: bool, outside: Any = 0) -> None:
    """Histograms by name, as densities on the axis; the legend gives the share outside the bins, such as ``outside``.

    If ``cut``, there are about fifty bins of equal width on the axis, from the lowest 0.1 % quantile to the highest of
    99.9 %.
    """
    place = ax.scaled_x(edges) if isinstance(ax, Chart) else ax.xaxis.get_transform().transform(edges)
    table = np.stack(list(histograms.values()))
    total = table.sum(axis=1, keepdims=True) + outside
    if cut:
        until = np.cumsum(table, axis=1)
        used = np.flatnonzero(np.any((until > 0.001 * total) & (until - table < 0.999 * total), axis=0))
        first, last = (used[0], used[-1] + 1) if used.size else (0, len(place) - 1)
        starts = np.unique(np.searchsorted(place, np.linspace(place[first], place[last], 51)))
        table = np.add.reduceat(table[:, :last], starts[:-1], axis=1)
        place, edges = place[starts], edges[starts]
    for name, share, whole in zip(histograms, table / np.where(total, total, 1), total):
        left = 1 - share.sum() if whole else 0
        more = worded("{}% outside").format(f"{100 * left:.2g}") if left > 1e-9 else ""
        (line,) = ax.plot([], [], label=", ".join(filter(None, [name, more])))
        look = {"color": line.get_color(), "linestyle": line.get_linestyle(), "linewidth": line.get_linewidth()}
        step: Any = object if isinstance(ax, Chart) else library("matplotlib.patches").StepPatch
        stairs = [patch for patch in ax.patches if isinstance(patch, step)]
        fills = [patch for patch in stairs if patch.get_fill()]
        if len(stairs) - len(fills) < _FILLS:
            ax.stairs(share / np.diff(place), edges, color=line.get_color(), alpha=0.2, fill=True)
        else:
            for fill in fills:
                fill.remove()
        ax.stairs(share / np.diff(place), edges, **look)


def interval(value: Any, called: str = "a value") -> tuple[float, float, float]:
    """A value with the ends of its interval, nan without an interval; takes a number, or a value with low and high."""
    named = value._asdict() if hasattr(value, "_asdict") else value
    parts = named if isinstance(named, Mapping) else {"value": value}
    try:
        numbers = [parts["value"], parts.get("low"), parts.get("high")]
        if any(isinstance(number, (str, bytes)) for number in numbers):
            raise TypeError("float would read them")
        one, low, high = (np.nan if number is None else float(number) for number in numbers)
    except (KeyError, OverflowError, TypeError, ValueError):
        raise InvalidInputError(f"{called} must be a number, or have value, low and high, not {value!r:.80}") from None
    return one, low, high


def spoken(label: str, name: str, value: float, low: float = np.nan, high: float = np.nan) -> str:
    """A value; if three digits tell them apart, with how far off buckets may put it, which is no interval of chance."""
    if np.isnan(value):
        return f"{label} {name} {worded('undefined')}".strip()
    digits = next((digits for digits, least in ((3, 0.1), (5, 0.001)) if value >= least), 7)
    bounds = worded(" (buckets ±{})").format(f"{max(high - value, value - low):.{digits}f}")
    return f"{label} {name} {value:.{digits}f}{bounds if high - low > 0.5 * 10**-digits else ''}".strip()


def plain(key: Any) -> str:
    """A key for matplotlib: not read as mathematics, and not too long."""
    text = str(key)
    return (text if len(text) < 22 else f"{text[:20]}…").replace("$", r"\$")


def svg(figure: Figure, name: str = "") -> str:
    """A figure as an ``<svg>`` element for HTML: small, the same bytes in every run, text as text, no background.

    The ids inside begin with a hash of the plot, so that different plots on a page do not conflict.

    Args:
        figure: matplotlib's, such as ``ax.figure``.
        name: distinguishes it from an equal plot on the same page: letters, digits, ``-`` and ``_``.

    Examples:
        >>> import fleetmetrics
        >>> text = svg(fleetmetrics.plot.at_k({1: 0.25, 10: 0.5}).figure)
        >>> text[:4], text[-6:]
        ('<svg', '</svg>')
    """
    if not isinstance(figure, library("matplotlib.figure").Figure):
        raise InvalidInputError(f"figure must be a whole figure of matplotlib, such as ax.figure, not {figure!r:.80}")
    if not isinstance(name, str) or not re.fullmatch(r"[-\w]*", name, re.ASCII):
        raise InvalidInputError(f"name must be letters, digits, - and _, not {name!r:.80}")
    buffer, nothing = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    rc = {"svg.hashsalt": _SALT, "svg.fonttype": "none"}
    with warnings.catch_warnings(), library("matplotlib").rc_context(rc):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has its own fonts
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
    text = re.search(r"<svg.*</svg>", buffer.getvalue(), re.DOTALL)[0]  # type: ignore[index]
    # The rules of a <style> would hold for the whole page.
    text = text.replace("<svg", '<svg style="stroke-linejoin: round; stroke-linecap: butt"', 1)
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "sans-serif", text)
    referred, prefix = set(re.findall(r"#([-\w]+)", text)), f"f{zlib.crc32(text.encode()):08x}{name}"
    text = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}{match[1]}"' if match[1] in referred else "", text)
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+| ?transform=\"rotate\(-0 .*?\"|\n", r"\1", tag[0]), text)
    return re.sub(r"(<g ?/>|\s)*\n\s*", "\n", re.sub(r"(href=\"|url\()#", rf"\1#{prefix}", text))
