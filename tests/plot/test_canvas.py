"""The style, and SVG for HTML."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import matplotlib.figure
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import fleetmetrics as fm
from fleetmetrics import plot
from fleetmetrics.plot.axis import short

canvas_module = sys.modules["fleetmetrics.plot.canvas"]

pytestmark = pytest.mark.numpy_only
ROOT = Path(__file__).resolve().parent.parent.parent


def curve(step: int = 3) -> Any:
    metric = fm.AUC()
    metric.add(np.linspace(0.1, 0.8, 50), np.arange(50) % step == 0)
    return metric.plot()


def test_style_leaves_matplotlib_as_it_was_and_pyplot_without_figures() -> None:
    with matplotlib.rc_context({"lines.linewidth": 7, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        ax = curve()
        with plot.style(dark=True):
            dark = curve()
        assert dict(matplotlib.rcParams) == before
    assert ax.lines[1].get_linewidth() == 1.2 and ax.get_facecolor()[3] == 0
    assert to_rgb(ax.figure.get_facecolor()) == (1, 1, 1) and max(to_rgb(dark.figure.get_facecolor())) < 0.2
    from matplotlib import pyplot

    assert not pyplot.get_fignums()


def test_pictures_need_no_display_and_do_not_import_pyplot() -> None:
    code = """
import sys, fleetmetrics as fm
assert "matplotlib" not in sys.modules
metric = fm.AUC()
metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
assert "matplotlib" not in sys.modules
fm.plot.svg(metric.plot().figure)
print("matplotlib.pyplot" in sys.modules, "paddle" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"HOME": "/tmp"}, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_without_matplotlib_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(fm.MissingLibraryError, match=r"pip install matplotlib$"):
        curve()


def linear(color: Any) -> Any:
    parts = np.array(to_rgb(color))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: Any, other: Any) -> float:
    """As WCAG has it: 3 is enough for lines, 4.5 for texts."""
    low, high = sorted(linear(each) @ [0.2126, 0.7152, 0.0722] for each in (one, other))
    return (high + 0.05) / (low + 0.05)


#: How the three kinds of color-blind see linear red, green and blue (Brettel, Vienot and Mollon).
SEEN = {
    "deutan": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    "protan": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "tritan": [[1, 0.14461, -0.14461], [0, 0.85924, 0.14076], [0, 0.85924, 0.14076]],
}


def lab(rgb: Any) -> Any:
    """CIELAB, where equal distances look alike: 2 is just seen."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [False, True])
def test_curves_stand_out_and_differ_for_the_color_blind_in_more_than_color(dark: bool) -> None:
    with plot.style(dark=dark):
        rc = matplotlib.rcParams
        cycle, back = list(rc["axes.prop_cycle"]), rc["figure.facecolor"]
        text = [rc["text.color"], rc["xtick.labelcolor"], rc["axes.labelcolor"]]
    assert all(contrast(each["color"], back) >= 3 for each in cycle)
    assert all(contrast(each, back) >= 7 for each in text)
    assert len({str(each["linestyle"]) for each in cycle}) == len(cycle) == 6
    for kind in SEEN.values():
        seen = [lab(np.array(kind) @ linear(each["color"])) for each in cycle[:3]]
        assert min(np.linalg.norm(one - other) for k, one in enumerate(seen) for other in seen[:k]) > 30


def test_svg_is_the_same_in_every_run_and_holds_texts() -> None:
    text = plot.svg(curve().figure)
    assert text == plot.svg(curve().figure)
    code = "import sys; sys.path.insert(0, '.'); from tests.plot.test_canvas import *; print(plot.svg(curve().figure))"
    again = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert again.strip() == text
    root = ElementTree.fromstring(text)
    said = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "false positive rate" in said and any(each.startswith("AUC 0.") for each in said)
    assert len(text) < 10_000 and "<style" not in text and "metadata" not in text and "20" + "26" not in text
    assert root.get("width") == "226.77pt"  # 80 mm


def test_svgs_on_one_page_have_ids_of_their_own_and_refer_to_those() -> None:
    figure = curve().figure
    with plot.style(dark=True):
        texts = [plot.svg(curve().figure), plot.svg(curve(4).figure)]
    texts += [plot.svg(figure), plot.svg(figure, name="again")]
    ids = [re.findall(r'\bid="([^"]+)"', text) for text in texts]
    for text, own in zip(texts, ids):
        assert own and set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text)) == set(own)
    every = [each for own in ids for each in own]
    assert len(every) == len(set(every))


def test_a_part_of_a_figure_is_refused_because_only_a_whole_one_can_be_saved() -> None:
    figure = matplotlib.figure.Figure()
    for given in (figure.subfigures(1, 2)[0], figure.add_subplot(), None):
        with pytest.raises(fm.InvalidInputError, match="figure must be a whole figure of matplotlib"):
            plot.svg(given)


def test_texts_that_no_font_here_has_are_left_to_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas_module, "_CHINESE", ())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ">首页</text>" in plot.svg(plot.slices({"首页": 0.5}).figure)


def test_what_data_contain_is_escaped_and_no_mathematics() -> None:
    rows = [{"key": "<script>alert(1)</script>", "value": 0.5}, {"key": "$x^2$ & 搜索", "value": 0.6, "metric": "<b>"}]
    text = plot.svg(plot.slices(rows).figure)
    assert "<script" not in text and "&lt;script&gt;" in text and "$x^2$ &amp; 搜索" in text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (12_345, "12.3k"), (3e6, "3M"), (2.5e9, "2.5G"), (999_802, "1M")]
)
def test_counts_are_short(number: float, text: str) -> None:
    assert short(number) == text


# -- a second model, outside of `style` ----------------------------------------------------------------------------


def looks(axes):
    """What differs between the settings of the plots and those of matplotlib."""
    legend = axes.get_legend()
    lines = [(line.get_linewidth(), line.get_markersize()) for line in axes.lines[-2:]]
    return lines, [text.get_fontsize() for text in legend.get_texts()], legend.get_frame_on()


def of_rows(rows, **options):
    metric = fm.AUC()
    metric.add([0.1, 0.4, 0.35, 0.8], rows)
    return metric


@pytest.mark.parametrize("dark", [False, True])
def test_a_second_model_on_the_axes_of_a_plot_looks_as_under_its_style(dark):
    words = {"false positive rate": "假正率"}
    with fm.plot.style(dark=dark, words=words):
        inside = fm.plot.roc(of_rows([0, 1, 0, 1]), fm.plot.roc(of_rows([0, 0, 1, 1]), label="new"), label="old")
        outside = fm.plot.roc(of_rows([0, 0, 1, 1]), label="new")
    outside = fm.plot.roc(of_rows([0, 1, 0, 1]), outside, label="old")
    assert looks(outside) == looks(inside) and outside.get_xlabel() == "假正率"
    assert [line.get_color() for line in outside.lines] == [line.get_color() for line in inside.lines]
    alone = fm.plot.roc(of_rows([0, 1, 0, 1]), fm.plot.roc(of_rows([0, 0, 1, 1])))
    assert looks(alone) == looks(inside) and alone.get_xlabel() == "false positive rate"


def test_on_axes_of_the_callers_own_the_legend_is_inside_and_nothing_leaves_the_figure():
    figure = matplotlib.figure.Figure()
    axes = figure.add_subplot()
    for label in ("new", "old"):
        fm.plot.score_histogram(of_rows([0, 1, 0, 1]), axes, label)
    figure.canvas.draw()
    frame, legend = axes.get_window_extent(), axes.get_legend().get_window_extent()
    assert frame.y0 <= legend.y0 and legend.y1 <= frame.y1 and legend.x1 <= frame.x1
    axes = matplotlib.figure.Figure().add_subplot()
    fm.plot.calibration(of_rows([0, 1, 0, 1]), axes)
    axes.figure.canvas.draw()
    assert axes.child_axes[0].get_window_extent().y1 <= axes.figure.bbox.y1
