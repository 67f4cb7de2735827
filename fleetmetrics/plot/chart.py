"""Axes that become SVG without matplotlib, which takes a second to import and to draw what a report shows.

A `Chart` knows those calls of matplotlib's axes that the plots of reports make: each plot is written once.
"""

from __future__ import annotations

import base64
import math
import struct
import unicodedata
import zlib
from html import escape
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

__all__ = ["Chart", "short", "tick"]

#: By background: Okabe and Ito's colors, those that stand out, some of them darker; each also has its own line style.
COLORS = ("#0072B2 #D55E00 #222222 #008F68 #AF4F88 #3E8EBE", "#56B4E9 #E69F00 #F2F2F2 #2BC79A #DE9BC0 #F0E442")
LINES: Sequence[Any] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
#: The colors of text, background, elements between them, and the grid.
INKS = (("#1a1a1a", "#ffffff", "#6a6a6a", "#e2e2e2"), ("#ececec", "#16191d", "#a0a4a8", "#30353b"))
_TEXT, _BACKGROUND, _BETWEEN, _GRID = INKS[0]
#: In points: the width of charts, the sizes of text, a line of text, the sample of a line in a legend.
_WIDTH, _SIZE, _SMALL, _ROW, _SAMPLE = 80 / 25.4 * 72, 7.5, 7.0, 11.3, 19.5
#: Axes that follow from the data have this share of their length beyond it.
_MARGIN = 0.05
#: In points: removing a point may move a line this much; in how many passes.
_MOVED, _PASSES = 0.02, 24
#: The height of axes above others, with the gap between them, as a share of the others'.
_CHILD = 0.24
#: A share of an axis from 0 to 1 beyond both ends, so that no line there is cut.
_SHARES = (-0.02, 1.02), (0, 0.25, 0.5, 0.75, 1)


def tick(number: float, _: Any = None) -> str:
    """A number at an axis of shares, which may be close to 0 or to 1."""
    if 0 < number < 1e-3:
        return f"{number:.0e}".replace("e-0", "e-")
    if 0.9995 < number < 1:
        return f"1-{1 - number:.0e}".replace("e-0", "e-")
    return f"{number:.9g}"


def short(number: float, _: Any = None) -> str:
    """A count in few characters: 12k, 3.4M."""
    rounded = float(f"{number:.3g}")  # 999,802 is 1M, and not 1e+03k
    size, letter = next((unit for unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if rounded >= unit[0]), (1, ""))
    return f"{number / size:.3g}{letter}"


class _Shape:
    """A line, or areas in one color, in the coordinates of the data; with what the plots ask matplotlib's artists.

    Args:
        within: the list that holds it.
        pieces: x and y of each part of a line, or of each polygon.
        fraction: whether y is a share of the height of the axes.
        look: ``color``, ``linestyle``, ``linewidth``, ``marker``, ``markersize``, ``alpha``, ``fill``, ``edge``,
            ``label``, ``gid``.
    """

    def __init__(self, within: list[_Shape], pieces: Iterable[tuple[Any, Any]], fraction: bool = False, **look: Any):
        self.pieces = [(np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float))) for x, y in pieces]
        self._within, self.fraction, self.look = within, fraction, look
        within.append(self)

    def get_color(self) -> str:
        return str(self.look["color"])

    def get_linestyle(self) -> Any:
        return self.look["linestyle"]

    def get_linewidth(self) -> float:
        return float(self.look["linewidth"])

    def get_gid(self) -> Any:
        return self.look.get("gid")

    def get_fill(self) -> bool:
        return bool(self.look.get("fill"))

    def get_data(self) -> tuple[np.ndarray, np.ndarray]:
        return self.pieces[0]

    def remove(self) -> None:
        self._within.remove(self)


class _Axis:
    """The scale, ends and ticks of an axis; what is None follows from the data."""

    def __init__(self) -> None:
        self.scale, self.label, self.most = "linear", "", 5
        self.ends: tuple[float | None, float | None] = (None, None)
        self.ticks: Sequence[float] | None = None
        self.texts: Sequence[str] | None = None
        self.form: Callable[[float], str] | None = None
        self.size, self.rotation, self.grid = _SMALL, 0, True

    def scaled(self, values: Any) -> np.ndarray:
        """Numbers of the data on the scale."""
        values = np.asarray(values, float)
        if self.scale == "linear":
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(values / (1 - values) if self.scale == "logit" else values)

    def span(self, shown: Sequence[np.ndarray]) -> tuple[float, float]:
        """Both ends, on the scale, around the values that are shown."""
        values = self.scaled(np.concatenate([*shown, np.zeros(0)]))
        values = values[np.isfinite(values)]
        least, most = (values.min(), values.max()) if values.size else (0.0, 1.0)
        room = _MARGIN * (most - least) or _MARGIN * abs(most) or 0.5
        ends = [None if end is None else float(self.scaled(end)) for end in self.ends]
        low, high = (auto if end is None else end for end, auto in zip(ends, (least - room, most + room)))
        return (low, high) if low != high else (low, low + 1)

    def marks(self, low: float, high: float) -> list[tuple[float, str]]:
        """The ticks between two ends, on the scale, and their texts."""
        values = self._values(low, high) if self.ticks is None else self.ticks
        texts = self.texts or ([self.form(value) for value in values] if self.form else _decimals(values))
        inside = sorted((low, high))
        places = zip(self.scaled(values).tolist(), texts)
        return [(place, text) for place, text in places if inside[0] - 1e-9 <= place <= inside[1] + 1e-9]

    def _values(self, low: float, high: float) -> Sequence[float]:
        low, high = sorted((low, high))
        if self.scale == "linear":
            return _round_numbers(low, high, self.most)
        powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
        step = max(1, math.ceil(len(powers) / 7))
        if self.scale == "log":
            values = [10.0**power for power in powers if power % step == 0]
            finer = [digit * 10.0**power for power in [powers.start - 1, *powers] for digit in (1, 2, 5)]
        else:
            values = [_of_power(power) for power in powers if power % step == 0]
            finer = _round_numbers(1 / (1 + 10.0**-low), 1 / (1 + 10.0**-high), self.most)
        return values if len(values) > 1 else finer


def _of_power(power: int) -> float:
    """The tick of a logit axis: 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, ..."""
    if power == 0:
        return 0.5
    return float(f"1e{power}") if power < 0 else 1 - float(f"1e-{power}")


def _round_numbers(low: float, high: float, most: int) -> list[float]:
    """At most ``most + 1`` round numbers between two others."""
    size = (high - low) / most
    power = 10.0 ** math.floor(math.log10(size))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= size * (1 - 1e-9))
    return [step * place for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decimals(values: Sequence[float]) -> list[str]:
    """Numbers with the digits after the point that the finest of them needs."""
    largest = max(map(abs, values), default=0)
    if largest and not 1e-4 <= largest < 1e7:
        return [f"{value:.3g}" for value in values]
    digits = next((digits for digits in range(8) if all(abs(round(v, digits) - v) < 1e-9 for v in values)), 8)
    return [f"{value:.{digits}f}".replace("-", "\u2212") for value in values]


class Chart:
    """Axes of the width of a report's plot; `svg` draws what the calls before it put on them."""

    def __init__(self, above: Chart | None = None) -> None:
        self.lines: list[_Shape] = []
        self.patches: list[_Shape] = []
        self.child_axes: list[Chart] = []
        self._areas: list[_Shape] = []
        self._bars: list[_Shape] = []
        self._texts: list[tuple[float, float, str, float]] = []
        self._image, self._cycle = "", 0
        self._x: _Axis = above._x if above else _Axis()
        self._y = _Axis()
        self._title, self._columns, self._inside, self._is_square, self._height = "", 1, False, False, 60.0

    # -- what plots call ---------------------------------------------------------------------------------------

    def plot(self, x: Any, y: Any, *, drawstyle: str = "", transform: Any = None, **look: Any) -> list[_Shape]:
        """A line, in the next color and line style unless it has its own."""
        if look.get("color") is None or look.get("linestyle") is None:
            colors = COLORS[0].split()
            own = {"color": colors[self._cycle % len(colors)], "linestyle": LINES[self._cycle % len(LINES)]}
            look, self._cycle = {**own, **look}, self._cycle + 1
        look = {"linewidth": 1.2, "markersize": 4, "drawstyle": drawstyle, **look}
        return [_Shape(self.lines, [(x, y)], transform is not None, **look)]

    def vlines(self, x: Any, low: Any, high: Any, color: str, linewidth: float) -> None:
        """A line up from each x."""
        pieces = [([at, at], ends) for at, *ends in zip(x, low, high)]
        _Shape(self._bars, pieces, color=color, linestyle="-", linewidth=linewidth)

    def axvline(self, x: float, **look: Any) -> None:
        """A line over the whole height."""
        _Shape(self.lines, [([x, x], [0, 1])], fraction=True, **look)

    def fill_between(self, x: Any, low: Any, high: Any, where: Any = True, **look: Any) -> None:
        """The area between two curves."""
        x, low, high = (np.asarray(values, float) for values in (x, low, high))
        shown = np.isfinite(low) & np.isfinite(high) & where
        ends = np.flatnonzero(np.diff(shown.astype(int), prepend=0, append=0)).reshape(-1, 2)
        edges = [(slice(first, last), slice(first, last)) for first, last in ends]
        polygons = [([*x[up], *x[down][::-1]], [*high[up], *low[down][::-1]]) for up, down in edges]
        _Shape(self._areas, polygons, fill=True, **look)

    def stairs(self, values: Any, edges: Any, fill: bool = False, **look: Any) -> None:
        """A histogram, as an area or as its outline."""
        x, y = np.repeat(edges, 2), np.concatenate([[0], np.repeat(values, 2), [0]])
        _Shape(self.patches, [(x, y)], fill=fill, **look)

    def bar(
        self, left: Any, height: Any, width: Any, *, facecolor: str, edgecolor: str, alpha: float, **_: Any
    ) -> None:
        """Bars from 0, side by side."""
        polygons = [([x, x, x + wide, x + wide], [0, y, y, 0]) for x, y, wide in zip(left, height, width)]
        _Shape(self._areas, polygons, fill=True, color=facecolor, edge=edgecolor, alpha=alpha)

    def cells(self, shares: np.ndarray, color: str, most: float) -> None:
        """A square for each entry of a matrix, as dark as it is large."""
        alpha = np.rint(255 * most * shares).astype(np.uint8)[..., None]
        shade = np.broadcast_to(np.array([*bytes.fromhex(color[1:])], np.uint8), (*shares.shape, 3))
        rgba = np.concatenate([shade, alpha], axis=-1)
        self._image, self._is_square = _png(rgba), True
        self._x.ends, self._y.ends = (-0.5, len(shares) - 0.5), (len(shares) - 0.5, -0.5)

    def text(self, x: float, y: float, text: str, fontsize: float, **_: Any) -> None:
        """A text around a point."""
        self._texts.append((x, y, text, fontsize))

    def inset_axes(self, place: Any, sharex: Any) -> Chart:
        """Axes of counts above these, on the same x."""
        child = Chart(self)
        child._y.ends, child._y.most, child._y.form = (0, None), 2, short
        self.child_axes.append(child)
        return child

    def grid(self, shown: bool) -> None:
        """Whether there are lines at the ticks."""
        self._x.grid = self._y.grid = shown

    def locator_params(self, **_: Any) -> None:
        """Ticks are at round numbers anyway."""

    def set_xticks(self, ticks: Any, texts: Any = None, rotation: int = 0, fontsize: float = _SMALL) -> None:
        """Ticks, and their texts, perhaps upright."""
        self._x.ticks, self._x.texts, self._x.rotation, self._x.size = list(ticks), texts, rotation, fontsize

    def set_yticks(self, ticks: Any, texts: Any = None, fontsize: float = _SMALL) -> None:
        """Ticks and their texts."""
        self._y.ticks, self._y.texts, self._y.size = list(ticks), texts, fontsize

    def set_xlabel(self, text: str) -> None:
        """The name of x."""
        self._x.label = text

    def set_xscale(self, scale: str) -> None:
        """Numbers at equal distances are those of ``"linear"``, ``"log"`` or ``"logit"``."""
        self._x.scale = scale

    def set(self, **settings: Any) -> None:
        """Set ``title``, ``box_aspect``; and ``xscale``, ``xlim``, ``xticks``, ``xlabel``, and those of y."""
        self._title = settings.get("title", self._title)
        self._is_square = bool(settings.get("box_aspect", self._is_square))
        for side, axis in (("x", self._x), ("y", self._y)):
            for name, kept in (("scale", "scale"), ("lim", "ends"), ("ticks", "ticks"), ("label", "label")):
                setattr(axis, kept, settings.get(f"{side}{name}", getattr(axis, kept)))

    def get_xscale(self) -> str:
        """The scale of x."""
        return self._x.scale

    def get_xlim(self) -> Any:
        """The ends of x that were set."""
        return self._x.ends

    def get_xaxis_transform(self) -> str:
        """Says `plot` that y is a share of the height."""
        return "x"

    def scaled_x(self, values: np.ndarray) -> np.ndarray:
        """Values on the scale of x."""
        return self._x.scaled(values)

    def get_legend_handles_labels(self) -> tuple[list[_Shape], list[str]]:
        """Lines with a label, and the labels."""
        named = [line for line in self.lines if line.look.get("label")]
        return named, [_unescaped(line.look["label"]) for line in named]

    def finish(self, unit: str, columns: int, height: float, is_inside: bool, **settings: Any) -> None:
        """What `fleetmetrics.plot.canvas.canvas` gives all plots: names, ends of shares, the place of the legend."""
        self._columns, self._height, self._inside = columns or 1, height, is_inside
        self.set(**settings)
        for side, axis in (("x", self._x), ("y", self._y)):
            if side in unit:
                axis.ends, axis.ticks = _SHARES
            if side in unit or axis.scale != "linear":
                axis.form = tick

    # -- what becomes SVG --------------------------------------------------------------------------------------

    def svg(self, name: str, title: str) -> str:
        """The chart as an ``<svg>`` element: the same bytes in every run, text as text, no background.

        Args:
            name: distinguishes its ids from those of an equal chart on the same page.
            title: what it shows, escaped.
        """
        handles, labels = self.get_legend_handles_labels()
        columns = _columns(labels, self._columns)
        legend = 0 if self._inside else _ROW * math.ceil(len(labels) / columns)
        frame, height = self._placed(4 + legend + (_ROW if self._title else 0))
        above = [(child, child._above(frame)) for child in self.child_axes]
        clip = f"f{zlib.crc32(repr((name, labels, frame)).encode()):08x}{name}"
        parts = [*self._names(frame, height)]
        for number, (chart, place) in enumerate([(self, frame), *above]):
            parts += [*chart._grid(place, chart is self), *chart._drawn(place, f"{clip}{number}")]
        left, top = (frame.left + 5, frame.top + 5) if self._inside else (max(2.0, frame.left - 2), 3.0)
        parts += _legend(handles, labels, columns, left, top)
        size = f'width="{_WIDTH:.1f}pt" height="{height:.1f}pt" viewBox="0 0 {_WIDTH:.1f} {height:.1f}"'
        look = f'font-family="sans-serif" font-size="{_SIZE}" fill="{_TEXT}" stroke-linejoin="round"'
        body = "\n".join(parts)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{title}</title>'
        return f"{head}<g {look}>{body}</g></svg>"

    def _spans(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The ends of both axes, on their scales."""
        shapes = [*self.lines, *self.patches, *self._areas, *self._bars]
        x = [piece[0] for shape in shapes for piece in shape.pieces]
        y = [piece[1] for shape in shapes if not shape.fraction for piece in shape.pieces]
        return self._x.span(x), self._y.span(y)

    def _placed(self, top: float) -> tuple[_Frame, float]:
        """Where the axes are below ``top``, with room for their numbers, and the height of the whole."""
        x_span, y_span = self._spans()
        numbers = self._y.marks(*y_span)
        for child in self.child_axes:
            numbers += child._y.marks(*child._spans()[1])
        left = _widest(numbers, self._y.size) + (16 if self._y.label else 5)
        widest = _widest(self._x.marks(*x_span), self._x.size)
        below, right = (widest, 5) if self._x.rotation else (_SMALL, max(5, widest / 2))
        wide, bottom = _WIDTH - left - right, below + (16.5 if self._x.label else 6)
        height = self._height / 25.4 * 72
        high = height - top - bottom
        if self._is_square:
            side = min(wide, high)
            left, wide, high, height = left + (wide - side) / 2, side, side, height - high + side
        if self.child_axes:
            top, high = top + high * _CHILD / (1 + _CHILD), high / (1 + _CHILD)
        return _Frame(left, top, wide, high, x_span, y_span), height

    def _above(self, frame: _Frame) -> _Frame:
        """Where axes above others are."""
        high = (_CHILD - 0.04) * frame.high
        return frame._replace(top=frame.top - _CHILD * frame.high, high=high, y_span=self._spans()[1])

    def _names(self, frame: _Frame, height: float) -> Iterator[str]:
        """The title and the names of the axes."""
        middle, center = frame.left + frame.wide / 2, frame.top + frame.high / 2
        if self._title:
            yield _text(middle, frame.top - 5, self._title)
        if self._x.label:
            yield _text(middle, height - 3.5, self._x.label)
        if self._y.label:
            x = frame.left - _widest(self._y.marks(*frame.y_span), self._y.size) - 8
            yield _text(x, center, self._y.label, turned=True)

    def _grid(self, frame: _Frame, is_named: bool) -> Iterator[str]:
        """The lines at the ticks, their numbers and the two axes."""
        right, bottom = frame.left + frame.wide, frame.top + frame.high
        x_marks, y_marks = self._x.marks(*frame.x_span), self._y.marks(*frame.y_span)
        places = [frame.x(place) for place, _ in x_marks], [frame.y(place) for place, _ in y_marks]
        if self._x.grid:
            lines = "".join([f"M{x:.2f},{frame.top:.2f}V{bottom:.2f}" for x in places[0]])
            lines += "".join([f"M{frame.left:.2f},{y:.2f}H{right:.2f}" for y in places[1]])
            yield f'<path d="{lines}" stroke="{_GRID}" stroke-width=".5"/>'
        corner = f"M{frame.left:.2f},{frame.top:.2f}V{bottom:.2f}H{right:.2f}"
        yield f'<path d="{corner}" fill="none" stroke="{_BETWEEN}" stroke-width=".5"/>'
        for x, (_, text) in zip(places[0], x_marks if is_named else ()):
            turned = self._x.rotation > 0
            y = bottom + (4 if turned else 3 + self._x.size)
            yield _text(x, y, text, self._x.size, "end" if turned else "middle", turned)
        for y, (_, text) in zip(places[1], y_marks):
            yield _text(frame.left - 3.5, y + 0.36 * self._y.size, text, self._y.size, "end")

    def _drawn(self, frame: _Frame, clip: str) -> Iterator[str]:
        """The data: areas, lines, texts."""
        if self._image:
            (x, y), (right, bottom) = frame.corners(0)[::2]
            place = f'x="{x:.2f}" y="{y:.2f}" width="{right - x:.2f}" height="{bottom - y:.2f}"'
            yield f'<image {place} preserveAspectRatio="none" image-rendering="pixelated" href="{self._image}"/>'
        yield f'<clipPath id="{clip}">{_path([frame.corners(1)], "")}</clipPath><g clip-path="url(#{clip})">'
        for shape in [*self._areas, *self.patches]:
            if shape.get_fill() and shape.pieces:
                edge = f' stroke="{shape.look["edge"]}" stroke-width=".8"' if "edge" in shape.look else ""
                alpha = f"{shape.look['alpha']:g}"
                look = f'fill="{shape.get_color()}"{edge} fill-opacity="{alpha}" stroke-opacity="{alpha}"'
                yield _path([self._points(piece, frame, shape) for piece in shape.pieces], look, "Z")
        for shape in [*self.patches, *self._bars, *self.lines]:
            if not shape.get_fill() and shape.get_linestyle() != "none":
                pieces = [self._points(piece, frame, shape) for piece in shape.pieces]
                yield _path([part for piece in pieces for part in _unbroken(piece)], _stroke(shape))
        yield "</g>"
        for shape in self.lines:
            for piece in shape.pieces if shape.look.get("marker") else ():
                yield from _markers(self._points(piece, frame, shape), shape)
        for x, y, text, size in self._texts:
            rows = text.split("\n")
            x, y = frame.x(x), frame.y(y) + 0.36 * size - 0.6 * size * (len(rows) - 1)
            yield from (_text(x, y + 1.2 * size * place, row, size) for place, row in enumerate(rows))

    def _points(self, piece: tuple[np.ndarray, np.ndarray], frame: _Frame, shape: _Shape) -> np.ndarray:
        """The points of a piece on the page, ``[n, 2]``."""
        x, y = piece
        if shape.look.get("drawstyle") == "steps-post":
            x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
        across = frame.x(self._x.scaled(x))
        up = frame.top + frame.high * (1 - y) if shape.fraction else frame.y(self._y.scaled(y))
        return np.column_stack([across, up])


class _Frame(NamedTuple):
    """Where axes are on the page, in points, and their ends on their scales."""

    left: float
    top: float
    wide: float
    high: float
    x_span: tuple[float, float]
    y_span: tuple[float, float]

    def x(self, place: Any) -> Any:
        low, high = self.x_span
        return self.left + self.wide * (place - low) / (high - low)

    def y(self, place: Any) -> Any:
        low, high = self.y_span
        return self.top + self.high * (high - place) / (high - low)

    def corners(self, more: float) -> np.ndarray:
        """The corners, ``more`` points outside."""
        left, top, right, bottom = self.left - more, self.top - more, self.left + self.wide, self.top + self.high
        right, bottom = right + more, bottom + more
        return np.array([(left, top), (right, top), (right, bottom), (left, bottom)])


# -- marks ---------------------------------------------------------------------------------------------------------


def _thinned(points: np.ndarray) -> np.ndarray:
    """A line without the points that hardly move it: of those between two others, every second one at a time."""
    unchanged = 0
    for passed in range(_PASSES):
        start = passed % 2
        before, point, after = points[start:-2:2], points[start + 1 : -1 : 2], points[start + 2 :: 2]
        way = after - before
        length = np.maximum((way**2).sum(axis=1), 1e-12)
        share = (((point - before) * way).sum(axis=1) / length).clip(0, 1)
        near = np.hypot(*(point - before - share[:, None] * way).T) < _MOVED
        unchanged = 0 if near.any() else unchanged + 1
        if unchanged == 2:
            break
        keep = np.ones(len(points), bool)
        keep[start + 1 : -1 : 2] = ~near
        points = points[keep]
    return points


def _unbroken(points: np.ndarray) -> list[np.ndarray]:
    """The parts of a line between points that are not numbers."""
    gaps = np.flatnonzero(~np.isfinite(points).all(axis=1))
    parts = np.split(points, np.unique([*gaps, *(gaps + 1)]).astype(int)) if gaps.size else [points]
    return [part for part in parts if len(part) and np.isfinite(part).all()]


def _path(pieces: Iterable[np.ndarray], look: str, end: str = "") -> str:
    """Lines or polygons as one element."""
    steps = []
    for points in map(_thinned, pieces):
        numbers = [f"{x:.2f},{y:.2f}" for x, y in points.tolist()]
        steps.append(f"M{' '.join(numbers)}{end}")
    return f'<path d="{"".join(steps)}" {look}/>'


def _stroke(shape: _Shape) -> str:
    """How a line looks."""
    style, width = shape.get_linestyle(), shape.get_linewidth()
    dashes = "" if style == "-" else f' stroke-dasharray="{" ".join(f"{part * width:g}" for part in style[1])}"'
    return f'fill="none" stroke="{shape.get_color()}" stroke-width="{width:g}"{dashes}'


def _markers(points: np.ndarray, shape: _Shape) -> Iterator[str]:
    """The points of a line: disks, or triangles that point up."""
    radius, color = (shape.look["markersize"] + 1) / 2, shape.get_color()
    for x, y in points[np.isfinite(points).all(axis=1)].tolist():
        if shape.look["marker"] == "o":
            yield f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" fill="{color}"/>'
        else:
            yield f'<path d="M{x:.2f},{y - radius:.2f}l{radius:g},{2 * radius:g}h{-2 * radius:g}z" fill="{color}"/>'


def _text(x: float, y: float, text: str, size: float = _SIZE, anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.2f} {y:.2f})"' if turned else ""
    small = "" if size == _SIZE else f' font-size="{size:g}"'
    return f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"{small}{turn}>{escape(_unescaped(text))}</text>'


def _unescaped(text: Any) -> str:
    """A text as a browser shows it, which reads no mathematics."""
    return str(text).replace(r"\$", "$")


def _width(text: str, size: float = _SIZE) -> float:
    """About the width of a text in a font that the browser chooses."""
    return size * sum(1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.56 for letter in _unescaped(text))


def _widest(marks: Sequence[tuple[float, str]], size: float) -> float:
    return max((_width(text, size) for _, text in marks), default=0.0)


def _columns(labels: Sequence[str], most: int) -> int:
    """How many columns of a legend fit."""
    widest = max(map(_width, labels), default=0.0) + _SAMPLE + 18
    return max(1, min(most, int(_WIDTH // widest), len(labels)))


def _legend(handles: Sequence[_Shape], labels: Sequence[str], columns: int, left: float, top: float) -> Iterator[str]:
    """The samples of the lines, and their labels, column by column."""
    rows, column = math.ceil(len(labels) / columns), max(map(_width, labels), default=0.0) + _SAMPLE + 18
    for place, (shape, label) in enumerate(zip(handles, labels)):
        x, y = left + column * (place // rows), top + _ROW * (place % rows + 0.5)
        ends = np.array([(x, y), (x + _SAMPLE, y)])
        yield _path([ends], _stroke(shape))
        if shape.look.get("marker"):
            yield from _markers(ends.mean(axis=0, keepdims=True), shape)
        yield _text(x + _SAMPLE + 5, y + 0.36 * _SIZE, label, anchor="start")


def _png(rgba: np.ndarray) -> str:
    """A picture of a pixel for each entry, ``[height, width, 4]``, as a link."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in rgba)
    header = struct.pack(">IIBBBBB", rgba.shape[1], rgba.shape[0], 8, 6, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()
