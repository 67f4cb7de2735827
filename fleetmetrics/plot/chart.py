"""Axes that become SVG without matplotlib, which takes a second to import and to draw what a report shows.

A `Chart` knows those calls of matplotlib's axes that the plots of reports make: each plot is written once.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np

from fleetmetrics.plot.axis import SMALL, Axis, short, tick
from fleetmetrics.plot.shapes import SIZE, Shape, path, png, text_at, text_width, unescaped

__all__ = ["COLORS", "INKS", "LINES", "Chart"]

#: By background: Okabe and Ito's colors, those that stand out, some of them darker; each also has its own line style.
COLORS = ("#0072B2 #D55E00 #222222 #008F68 #AF4F88 #3E8EBE", "#56B4E9 #E69F00 #F2F2F2 #2BC79A #DE9BC0 #F0E442")
LINES: Sequence[Any] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
#: The colors of text, background, elements between them, and the grid.
INKS = (("#1a1a1a", "#ffffff", "#6a6a6a", "#e2e2e2"), ("#ececec", "#16191d", "#a0a4a8", "#30353b"))
_TEXT, _BACKGROUND, _BETWEEN, _GRID = INKS[0]
#: In points: the width of charts, a line of text, the sample of a line in a legend.
_WIDTH, _ROW, _SAMPLE = 80 / 25.4 * 72, 11.3, 19.5
#: The height of axes above others, with the gap between them, as a share of the others'.
_CHILD = 0.24
#: A share of an axis from 0 to 1 beyond both ends, so that no line there is cut.
_SHARES = (-0.02, 1.02), (0, 0.25, 0.5, 0.75, 1)


class Chart:
    """Axes of the width of a report's plot; `svg` draws what the calls before it put on them."""

    def __init__(self, above: Chart | None = None) -> None:
        self.lines: list[Shape] = []
        self.patches: list[Shape] = []
        self.child_axes: list[Chart] = []
        self._areas: list[Shape] = []
        self._bars: list[Shape] = []
        self._texts: list[tuple[float, float, str, float]] = []
        self._image, self._cycle = "", 0
        self._x: Axis = above._x if above else Axis()
        self._y = Axis()
        self._title, self._columns, self._inside, self._is_square, self._height = "", 1, False, False, 60.0

    # -- what plots call ---------------------------------------------------------------------------------------

    def plot(self, x: Any, y: Any, *, drawstyle: str = "", transform: Any = None, **look: Any) -> list[Shape]:
        """A line, in the next color and line style unless it has its own."""
        if look.get("color") is None or look.get("linestyle") is None:
            colors = COLORS[0].split()
            own = {"color": colors[self._cycle % len(colors)], "linestyle": LINES[self._cycle % len(LINES)]}
            look, self._cycle = {**own, **look}, self._cycle + 1
        look = {"linewidth": 1.2, "markersize": 4, "drawstyle": drawstyle, **look}
        return [Shape(self.lines, [(x, y)], transform is not None, **look)]

    def vlines(self, x: Any, low: Any, high: Any, color: str, linewidth: float) -> None:
        """A line up from each x."""
        pieces = [([at, at], ends) for at, *ends in zip(x, low, high)]
        Shape(self._bars, pieces, color=color, linestyle="-", linewidth=linewidth)

    def axvline(self, x: float, **look: Any) -> None:
        """A line over the whole height."""
        Shape(self.lines, [([x, x], [0, 1])], fraction=True, **look)

    def fill_between(self, x: Any, low: Any, high: Any, where: Any = True, **look: Any) -> None:
        """The area between two curves."""
        x, low, high = (np.asarray(values, float) for values in (x, low, high))
        shown = np.isfinite(low) & np.isfinite(high) & where
        ends = np.flatnonzero(np.diff(shown.astype(int), prepend=0, append=0)).reshape(-1, 2)
        edges = [(slice(first, last), slice(first, last)) for first, last in ends]
        polygons = [([*x[up], *x[down][::-1]], [*high[up], *low[down][::-1]]) for up, down in edges]
        Shape(self._areas, polygons, fill=True, **look)

    def stairs(self, values: Any, edges: Any, fill: bool = False, **look: Any) -> None:
        """A histogram, as an area or as its outline."""
        x, y = np.repeat(edges, 2), np.concatenate([[0], np.repeat(values, 2), [0]])
        Shape(self.patches, [(x, y)], fill=fill, **look)

    def bar(
        self, left: Any, height: Any, width: Any, *, facecolor: str, edgecolor: str, alpha: float, **_: Any
    ) -> None:
        """Bars from 0, side by side."""
        polygons = [([x, x, x + wide, x + wide], [0, y, y, 0]) for x, y, wide in zip(left, height, width)]
        Shape(self._areas, polygons, fill=True, color=facecolor, edge=edgecolor, alpha=alpha)

    def cells(self, shares: np.ndarray, color: str, most: float) -> None:
        """A square for each entry of a matrix, as dark as it is large."""
        alpha = np.rint(255 * most * shares).astype(np.uint8)[..., None]
        shade = np.broadcast_to(np.array([*bytes.fromhex(color[1:])], np.uint8), (*shares.shape, 3))
        rgba = np.concatenate([shade, alpha], axis=-1)
        self._image, self._is_square = png(rgba), True
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

    def set_xticks(self, ticks: Any, texts: Any = None, rotation: int = 0, fontsize: float = SMALL) -> None:
        """Ticks, and their texts, perhaps upright."""
        self._x.ticks, self._x.texts, self._x.rotation, self._x.size = list(ticks), texts, rotation, fontsize

    def set_yticks(self, ticks: Any, texts: Any = None, fontsize: float = SMALL) -> None:
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

    def get_legend_handles_labels(self) -> tuple[list[Shape], list[str]]:
        """Lines with a label, and the labels."""
        named = [line for line in self.lines if line.look.get("label")]
        return named, [unescaped(line.look["label"]) for line in named]

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
        legend = _Legend(*self.get_legend_handles_labels(), self._columns)
        frame, height = self._placed(4 + (0 if self._inside else legend.height) + (_ROW if self._title else 0))
        above = [(child, child._above(frame)) for child in self.child_axes]
        clip = f"f{zlib.crc32(repr((name, legend.labels, frame)).encode()):08x}{name}"
        parts = [*self._names(frame, height)]
        for number, (chart, place) in enumerate([(self, frame), *above]):
            parts += [*chart._grid(place, chart is self), *chart._drawn(place, f"{clip}{number}")]
        left, top = (frame.left + 5, frame.top + 5) if self._inside else (max(2.0, frame.left - 2), 3.0)
        parts += legend.drawn(left, top)
        size = f'width="{_WIDTH:.1f}pt" height="{height:.1f}pt" viewBox="0 0 {_WIDTH:.1f} {height:.1f}"'
        look = f'font-family="sans-serif" font-size="{SIZE}" fill="{_TEXT}" stroke-linejoin="round"'
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
        below, right = (widest, 5) if self._x.rotation else (SMALL, max(5, widest / 2))
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
            yield text_at(middle, frame.top - 5, self._title)
        if self._x.label:
            yield text_at(middle, height - 3.5, self._x.label)
        if self._y.label:
            x = frame.left - _widest(self._y.marks(*frame.y_span), self._y.size) - 8
            yield text_at(x, center, self._y.label, turned=True)

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
            yield text_at(x, y, text, self._x.size, "end" if turned else "middle", turned)
        for y, (_, text) in zip(places[1], y_marks):
            yield text_at(frame.left - 3.5, y + 0.36 * self._y.size, text, self._y.size, "end")

    def _drawn(self, frame: _Frame, clip: str) -> Iterator[str]:
        """The data: areas, lines, texts."""
        if self._image:
            (x, y), (right, bottom) = frame.corners(0)[::2]
            place = f'x="{x:.2f}" y="{y:.2f}" width="{right - x:.2f}" height="{bottom - y:.2f}"'
            yield f'<image {place} preserveAspectRatio="none" image-rendering="pixelated" href="{self._image}"/>'
        yield f'<clipPath id="{clip}">{path([frame.corners(1)], "")}</clipPath><g clip-path="url(#{clip})">'
        for shape in [*self._areas, *self.patches]:
            yield from shape.areas(self._pieces(shape, frame))
        for shape in [*self.patches, *self._bars, *self.lines]:
            yield from shape.strokes(self._pieces(shape, frame))
        yield "</g>"
        for shape in self.lines:
            for points in self._pieces(shape, frame):
                yield from shape.markers(points)
        for x, y, text, size in self._texts:
            rows = text.split("\n")
            x, y = frame.x(x), frame.y(y) + 0.36 * size - 0.6 * size * (len(rows) - 1)
            yield from (text_at(x, y + 1.2 * size * place, row, size) for place, row in enumerate(rows))

    def _pieces(self, shape: Shape, frame: _Frame) -> Iterator[np.ndarray]:
        """The points of each piece of a shape on the page, ``[n, 2]``."""
        for x, y in shape.pieces:
            if shape.look.get("drawstyle") == "steps-post":
                x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
            up = frame.top + frame.high * (1 - y) if shape.fraction else frame.y(self._y.scaled(y))
            yield np.column_stack([frame.x(self._x.scaled(x)), up])


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


class _Legend:
    """The samples of the lines, and their labels, column by column; as many columns as fit, at ``most``."""

    def __init__(self, lines: Sequence[Shape], labels: Sequence[str], most: int) -> None:
        self._lines, self.labels = lines, labels
        self._column = max(map(text_width, labels), default=0.0) + _SAMPLE + 18
        self._rows = math.ceil(len(labels) / max(1, min(most, int(_WIDTH // self._column))))
        self.height = _ROW * self._rows

    def drawn(self, left: float, top: float) -> Iterator[str]:
        """The legend, from its corner."""
        for place, (line, label) in enumerate(zip(self._lines, self.labels)):
            x, y = left + self._column * (place // self._rows), top + _ROW * (place % self._rows + 0.5)
            ends = np.array([(x, y), (x + _SAMPLE, y)])
            yield from line.strokes([ends])
            yield from line.markers(ends.mean(axis=0, keepdims=True))
            yield text_at(x + _SAMPLE + 5, y + 0.36 * SIZE, label, anchor="start")


def _widest(marks: Sequence[tuple[float, str]], size: float) -> float:
    return max((text_width(text, size) for _, text in marks), default=0.0)
