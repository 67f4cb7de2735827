"""Charts of reports: what plots put on them is what they put on matplotlib's axes, in SVG, without matplotlib."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import fleetmetrics as fm
from fleetmetrics import plot
from fleetmetrics.metrics.curves import Shares
from fleetmetrics.plot.axis import Axis, tick
from fleetmetrics.plot.chart import Chart
from fleetmetrics.plot.shapes import thinned
from fleetmetrics.support.warning import muted

pytestmark = pytest.mark.numpy_only
ROOT = Path(__file__).resolve().parent.parent.parent
SVG = "http://www.w3.org/2000/svg"
KINDS = fm.AUC().pictures

#: Ticks of an axis by its scale and ends, on the scale.
TICKS = {
    ("linear", 0.0, 1.0): "0.0 0.2 0.4 0.6 0.8 1.0",
    ("linear", -3.2, 3.2): "−2 0 2",
    ("linear", 0.0, 52_000.0): "0 20000 40000",
    ("linear", 0.0, 3e9): "0 1e+09 2e+09 3e+09",
    ("log", -4.2, 0.1): "1e-4 0.001 0.01 0.1 1",
    ("log", -0.4, 0.4): "0.5 1 2",
    ("logit", -3.3, 2.1): "0.001 0.01 0.1 0.5 0.9 0.99",
    ("logit", -0.2, 0.2): "0.4 0.45 0.5 0.55 0.6",
    ("logit", -12.0, 1.0): "1e-12 1e-10 1e-8 1e-6 1e-4 0.01 0.5",
}


def scores(number: int = 2000) -> fm.AUC:
    random = np.random.default_rng(3)
    odds, metric = random.normal(-2, 1.5, number), fm.AUC()
    metric.add(1 / (1 + np.exp(-odds - random.normal(0, 1, number))), random.random(number) < 1 / (1 + np.exp(-odds)))
    return metric


def drawn(kind: str, *sides: tuple[Any, str]) -> tuple[Any, Any]:
    """A plot on a chart, and on matplotlib's axes."""
    axes: Any = None
    own = Chart()
    for value, label in sides:
        axes = getattr(plot, kind)(value, axes, label)
        assert getattr(plot, kind)(value, own, label) is own
    return own, axes


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_has_the_lines_labels_and_ticks_of_matplotlibs_axes(kind: str) -> None:
    own, axes = drawn(kind, (scores(), "new"), (scores(500), "old"))
    assert len(own.lines) == len(axes.lines)
    for line, theirs in zip(own.lines, axes.lines):
        assert to_rgb(line.get_color()) == to_rgb(theirs.get_color())
        np.testing.assert_array_equal(line.get_data(), np.atleast_2d(theirs.get_data()))
    assert own.get_legend_handles_labels()[1] == axes.get_legend_handles_labels()[1]
    axes.figure.canvas.draw()
    texts = [text.text for text in ElementTree.fromstring(own.svg("", "")).iter(f"{{{SVG}}}text")]
    assert {axes.get_xlabel(), axes.get_ylabel()} - {""} <= set(texts)
    for name in ("x", "y"):
        low, high = getattr(axes, f"get_{name}lim")()
        ticks = zip(getattr(axes, f"get_{name}ticks")(), getattr(axes, f"get_{name}ticklabels")())
        assert {tick.get_text() for place, tick in ticks if low <= place <= high} <= set(texts)


def test_a_matrix_is_a_picture_of_a_pixel_by_cell_with_its_counts() -> None:
    image = pytest.importorskip("PIL.Image")
    own, _ = drawn("confusion_matrix", (np.array([[3, 1], [0, 4]]), "<new>"))
    text = own.svg("", "")
    pixels = image.open(io.BytesIO(base64.b64decode(re.findall(r"base64,([^\"]+)", text)[0])))
    assert np.array(pixels)[..., 3].tolist() == [[115, 38], [0, 153]]  # 0.6 of the row's share, of 255
    assert re.findall(r">([^<]+)</text>", text)[-7:] == ["3", "75%", "1", "25%", "0", "4", "100%"]
    assert "&lt;new&gt;" in text


def test_points_are_where_the_ticks_of_their_values_are() -> None:
    own = plot.gain(Shares(np.array([0.25, 1.0]), np.array([0.5, 1.0])), Chart())
    svg = ElementTree.fromstring(own.svg("", ""))
    circles = [(float(each.get("cx")), float(each.get("cy"))) for each in svg.iter(f"{{{SVG}}}circle")]
    texts = [each for each in svg.iter(f"{{{SVG}}}text")]
    x = {each.text: float(each.get("x")) for each in texts if each.get("text-anchor") == "middle"}
    y = {each.text: float(each.get("y")) - 0.36 * 7 for each in texts if each.get("text-anchor") == "end"}
    np.testing.assert_allclose(circles, [(x["0.25"], y["0.50"]), (x["1"], y["1.00"])], atol=0.02)
    assert x["0.25"] < x["1"] and y["0.50"] > y["1.00"]


def test_precision_is_drawn_in_steps_and_the_counts_of_a_second_side_as_outlines() -> None:
    text = plot.precision_recall(scores(50), Chart()).svg("", "")
    line = max(re.findall(r'd="M([^"]+)" fill="none" stroke="#0072B2"', text), key=len)
    way = np.diff([[float(number) for number in point.split(",")] for point in line.split()], axis=0)
    assert len(way) > 10 and np.all(way.min(axis=1) * way.max(axis=1) == 0)
    both = Chart()
    for number in (2000, 1000):
        plot.calibration(scores(number), both)
    assert re.findall(r'fill="(\S+)" stroke="\S+" stroke-width=".8"', both.svg("", "")) == ["#0072B2", "none"]


@pytest.mark.parametrize(("scale", "low", "high"), TICKS)
def test_ticks_are_few_and_round(scale: str, low: float, high: float) -> None:
    axis = Axis()
    axis.scale, axis.form = scale, None if scale == "linear" else tick
    assert " ".join(text for _, text in axis.marks(low, high)) == TICKS[scale, low, high]


def test_a_line_without_its_needless_points_is_where_it_was() -> None:
    random = np.random.default_rng(0)
    for x, y in (
        (np.linspace(0, 200, 4096), 100 * np.sqrt(np.linspace(0, 1, 4096))),
        (np.linspace(0, 200, 999), 50 + random.normal(0, 5, 999)),
        (np.repeat(np.arange(100.0), 20), np.tile([0, 1, 2, 3, 4, 5, 4, 3, 2, 1], 200)),
    ):
        points = np.column_stack([x, y])
        kept = thinned(points)
        assert np.array_equal(kept[[0, -1]], points[[0, -1]]) and {*map(tuple, kept)} <= {*map(tuple, points)}
        way = np.diff(kept, axis=0)
        away = points[:, None] - kept[:-1]
        share = ((away * way).sum(-1) / (way**2).sum(-1)).clip(0, 1)
        assert np.hypot(*np.moveaxis(away - share[..., None] * way, -1, 0)).min(axis=1).max() < 0.1
    assert len(thinned(np.column_stack([np.arange(4096.0), np.arange(4096.0)]))) == 2


def test_values_that_are_no_numbers_and_empty_metrics_leave_gaps() -> None:
    with muted(fm.UndefinedMetricWarning):
        for kind in KINDS:
            ElementTree.fromstring(getattr(plot, kind)(fm.AUC(), Chart(), "").svg("", ""))
    own = plot.at_k({1: 0.5, 2: np.nan, 4: 0.25}, Chart())
    text = own.svg("", "")
    assert text.count("<circle") == 2 and "nan" not in text and "inf" not in text


def test_charts_have_the_same_bytes_in_every_run_and_other_ids_by_name() -> None:
    texts = [plot.roc(scores(), Chart(), "new").svg(name, "ROC") for name in ("a", "a", "b")]
    assert texts[0] == texts[1]
    first, other = ({*re.findall(r' id="([^"]+)"', text)} for text in texts[1:])
    assert first and not first & other


def test_a_report_with_charts_needs_no_matplotlib() -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
import fleetmetrics as fm, fleetmetrics.report
metric = fm.AUC()
metric.add([0.9, 0.1, 0.4], [1, 0, 1])
print(fleetmetrics.report.html({"auc": 1.0}, metric, metric).count("<figure>"))
from fleetmetrics.report.tables import points
print(points({"day": {"value": 0.5, "low": 0.4, "high": 0.6}}, "auc", 0)[0][:4])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"HOME": "/tmp"}, capture_output=True, text=True)
    assert done.stdout.split() == ["7", "<svg"], done.stderr
