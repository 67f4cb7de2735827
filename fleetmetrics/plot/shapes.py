"""What is on a chart, and the SVG of it: lines and areas, texts, pictures of pixels."""

from __future__ import annotations

import base64
import struct
import unicodedata
import zlib
from html import escape
from typing import Any, Iterable, Iterator

import numpy as np

__all__ = ["SIZE", "Shape", "path", "png", "text_at", "text_width", "thinned", "unescaped"]

#: The size of texts, in points.
SIZE = 7.5
#: In points: removing a point may move a line this much; in how many passes.
_MOVED, _PASSES = 0.02, 24


class Shape:
    """A line, or areas in one color, in the coordinates of the data; with what the plots ask matplotlib's artists.

    Args:
        within: the list that holds it.
        pieces: x and y of each part of a line, or of each polygon.
        fraction: whether y is a share of the height of the axes.
        look: ``color``, ``linestyle``, ``linewidth``, ``marker``, ``markersize``, ``alpha``, ``fill``, ``edge``,
            ``label``, ``gid``.
    """

    pieces: list[tuple[np.ndarray, np.ndarray]]
    fraction: bool
    look: dict[str, Any]

    def __init__(self, within: list[Shape], pieces: Iterable[tuple[Any, Any]], fraction: bool = False, **look: Any):
        self.pieces = [(np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float))) for x, y in pieces]
        self._within, self.fraction, self.look = within, fraction, look
        within.append(self)

    def get_color(self) -> str:
        """Its color, as in HTML."""
        return str(self.look["color"])

    def get_linestyle(self) -> Any:
        """The dashes of a line."""
        return self.look["linestyle"]

    def get_linewidth(self) -> float:
        """The width of a line in points."""
        return float(self.look["linewidth"])

    def get_gid(self) -> Any:
        """What the plot calls it."""
        return self.look.get("gid")

    def get_fill(self) -> bool:
        """Whether it is areas."""
        return bool(self.look.get("fill"))

    def get_data(self) -> tuple[np.ndarray, np.ndarray]:
        """The points of a line."""
        return self.pieces[0]

    def remove(self) -> None:
        """Take it off the chart."""
        self._within.remove(self)

    def areas(self, pieces: Iterable[np.ndarray]) -> Iterator[str]:
        """Its polygons, if it is filled; ``pieces`` are their points on the page, ``[n, 2]``."""
        if self.get_fill() and self.pieces:
            edge = f' stroke="{self.look["edge"]}" stroke-width=".8"' if "edge" in self.look else ""
            alpha = f"{self.look['alpha']:g}"
            look = f'fill="{self.get_color()}"{edge} fill-opacity="{alpha}" stroke-opacity="{alpha}"'
            yield path(pieces, look, "Z")

    def strokes(self, pieces: Iterable[np.ndarray]) -> Iterator[str]:
        """Its lines, unless it is filled or has no line; a point that is no number leaves a gap."""
        if self.get_fill() or self.get_linestyle() == "none":
            return
        style, width = self.get_linestyle(), self.get_linewidth()
        dashes = "" if style == "-" else f' stroke-dasharray="{" ".join(f"{part * width:g}" for part in style[1])}"'
        look = f'fill="none" stroke="{self.get_color()}" stroke-width="{width:g}"{dashes}'
        yield path([part for piece in pieces for part in _unbroken(piece)], look)

    def markers(self, points: np.ndarray) -> Iterator[str]:
        """Its points on the page, if it shows them: disks, or triangles that point up."""
        if not self.look.get("marker"):
            return
        radius, color = (self.look["markersize"] + 1) / 2, self.get_color()
        for x, y in points[np.isfinite(points).all(axis=1)].tolist():
            if self.look["marker"] == "o":
                yield f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" fill="{color}"/>'
            else:
                triangle = f"M{x:.2f},{y - radius:.2f}l{radius:g},{2 * radius:g}h{-2 * radius:g}z"
                yield f'<path d="{triangle}" fill="{color}"/>'


def path(pieces: Iterable[np.ndarray], look: str, end: str = "") -> str:
    """Lines or polygons as one element."""
    steps = []
    for points in map(thinned, pieces):
        numbers = [f"{x:.2f},{y:.2f}" for x, y in points.tolist()]
        steps.append(f"M{' '.join(numbers)}{end}")
    return f'<path d="{"".join(steps)}" {look}/>'


def thinned(points: np.ndarray) -> np.ndarray:
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


def text_at(x: float, y: float, content: str, size: float = SIZE, anchor: str = "middle", turned: bool = False) -> str:
    """A text at a point of the page, upright if it is ``turned``."""
    turn = f' transform="rotate(-90 {x:.2f} {y:.2f})"' if turned else ""
    small = "" if size == SIZE else f' font-size="{size:g}"'
    return f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"{small}{turn}>{escape(unescaped(content))}</text>'


def unescaped(content: Any) -> str:
    """A text as a browser shows it, which reads no mathematics."""
    return str(content).replace(r"\$", "$")


def text_width(content: str, size: float = SIZE) -> float:
    """About the width of a text in a font that the browser chooses."""
    return size * sum(1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.56 for letter in unescaped(content))


def png(rgba: np.ndarray) -> str:
    """A picture of a pixel for each entry, ``[height, width, 4]``, as a link."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in rgba)
    header = struct.pack(">IIBBBBB", rgba.shape[1], rgba.shape[0], 8, 6, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()
