"""What the pictures are drawn from: lines, bands and intervals against scikit-learn's numbers."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve, roc_curve

import fleetmetrics as fm
from fleetmetrics import plot
from fleetmetrics.words import Words
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, run

pytestmark = pytest.mark.numpy_only

RNG = np.random.default_rng(0)
ODDS = RNG.normal(-1, 1.5, 4000)
SCORES = 1 / (1 + np.exp(-ODDS))
LABELS = (RNG.random(4000) < SCORES).astype(int)
BINNED = RNG.integers(0, 41, 4000) / 40  # each score has a linear bucket of its own


def held(metric: Any, scores: Any = SCORES, labels: Any = LABELS, **columns: Any) -> Any:
    metric.add(scores, labels, **columns)
    return metric


def texts(ax: Any) -> list[str]:
    return [each.get_text() for each in ax.get_legend().get_texts()]


def rectangles(ax: Any) -> np.ndarray:
    """Left, lower, right and upper end of each part of a band; those that touch are one shape."""
    shapes = [path.vertices for each in ax.collections for path in each.get_paths()]
    return np.array([[*each.min(axis=0), *each.max(axis=0)] for each in shapes])


# -- curves ----------------------------------------------------------------------------------------------------


def test_the_roc_curve_of_scores_that_are_alone_in_their_buckets_is_scikit_learns() -> None:
    metric = held(fm.AUC(num_thresholds=40), BINNED)
    fpr, tpr, _ = roc_curve(LABELS, BINNED, drop_intermediate=False)
    curve = plot.roc(metric).lines[1]
    np.testing.assert_allclose(curve.get_xdata(), fpr, atol=1e-15)
    np.testing.assert_allclose(curve.get_ydata(), tpr, atol=1e-15)


def test_the_roc_curve_of_the_scores_runs_in_the_band() -> None:
    ax = plot.roc(held(fm.AUC(buckets=16, spacing="linear")))
    x, y = ax.lines[1].get_data()
    boxes = [(x[k], y[k], x[k + 1], y[k + 1]) for k in range(len(x) - 1)]
    fpr, tpr, _ = roc_curve(LABELS, SCORES, drop_intermediate=False)
    for a, b in zip(fpr, tpr):
        assert any(x0 <= a <= x1 and y0 <= b <= y1 for x0, y0, x1, y1 in boxes)
    drawn = rectangles(ax)
    wide = np.array([each for each in boxes if min(each[2] - each[0], each[3] - each[1]) > 1 / 512])
    assert len(wide) > 8 and drawn[:, 0].min() == wide[:, 0].min() and drawn[:, 3].max() == wide[:, 3].max()


def test_the_legend_has_the_area_and_its_bounds() -> None:
    metric = held(fm.AUC(buckets=16, spacing="linear", bounds=True))
    value, low, high = metric.compute()
    said = f"new AUC {value:.3f} (buckets ±{max(high - value, value - low):.3f})"
    assert texts(plot.roc(metric, label="new")) == [said]
    value, low, high = held(fm.AveragePrecision(buckets=16, spacing="linear", bounds=True)).compute()
    assert texts(plot.precision_recall(metric)) == [f"AP {value:.3f} (buckets ±{max(high - value, value - low):.3f})"]


def test_the_precision_recall_curve_of_scores_that_are_alone_in_their_buckets_is_scikit_learns() -> None:
    metric = held(fm.AveragePrecision(num_thresholds=40), BINNED)
    precision, recall, _ = precision_recall_curve(LABELS, BINNED)
    ax = plot.precision_recall(metric)
    np.testing.assert_allclose(ax.lines[1].get_data(), [recall, precision], atol=1e-15)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), LABELS.mean())


def test_the_precision_recall_curve_of_the_scores_runs_in_the_band() -> None:
    metric = held(fm.AveragePrecision(buckets=16, spacing="linear"))
    drawn = [path.vertices for each in plot.precision_recall(metric).collections for path in each.get_paths()]
    precision, recall, _ = precision_recall_curve(LABELS, SCORES)
    for a, b in list(zip(recall, precision))[:-1:50]:
        near = np.concatenate([shape[np.isclose(shape[:, 0], a, atol=0.12)] for shape in drawn])
        assert near[:, 1].min() - 1e-9 <= b <= near[:, 1].max() + 1e-9


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_a_band_that_says_nothing_is_not_drawn(scale: float) -> None:
    """Half of the scores are exactly 1: anything may be within the last bucket."""
    scores = np.where(np.arange(4000) % 2, 1.0, scale * SCORES)
    ax = plot.precision_recall(held(fm.AveragePrecision(), scores))
    high = [path.vertices[:, 1] for each in ax.collections for path in each.get_paths()]
    assert all(np.ptp(each) < 1 for each in high)


@pytest.mark.parametrize("value", ["metric", "value"])
def test_a_value_is_drawn_like_the_metric_that_computed_it(value: str) -> None:
    for make, draw in ((fm.ROCCurve, plot.roc), (fm.PrecisionRecallCurve, plot.precision_recall)):
        metric = held(make())
        ax = draw(metric if value == "metric" else metric.compute())
        assert [len(each.get_xdata()) for each in ax.lines] == [2, len(metric.compute()[0])]


def test_each_class_has_a_curve_and_more_than_six_have_one_together() -> None:
    scores = RNG.dirichlet(np.ones(3), 300)
    metric = held(fm.AUC(task="multiclass", num_classes=3, average=None), scores, RNG.integers(0, 3, 300))
    ax, areas = plot.roc(metric), metric.compute()
    assert [each[:13] for each in texts(ax)] == [f"class {k} AUC {areas[k]:.3f}"[:13] for k in range(3)]
    many = held(fm.AUC(task="multilabel", num_labels=8), RNG.random((50, 8)), RNG.integers(0, 2, (50, 8)))
    assert [each[:5] for each in texts(plot.roc(many))] == ["all 8"] and len(plot.roc(many).lines) == 2


# -- calibration and scores --------------------------------------------------------------------------------------


def test_calibration_shows_wilsons_intervals_and_the_number_of_each_bin() -> None:
    from statsmodels.stats.proportion import proportion_confint

    metric = held(fm.CalibrationCurve(bins=8))
    curve = metric.compute()
    for drawn in (metric, curve):
        ax = plot.calibration(drawn)
        np.testing.assert_array_equal(ax.lines[1].get_data(), [curve.predicted, curve.actual])
        bars = np.array([each[:, 1] for each in ax.collections[0].get_segments()])
        ends = proportion_confint(curve.actual * curve.weight, curve.weight, method="wilson")
        np.testing.assert_allclose(bars.T, ends, atol=1e-4)
        counts = {each.get_x(): each.get_height() for each in ax.child_axes[0].patches}
        assert counts == dict(zip(np.arange(8) / 8, np.histogram(SCORES, 8, (0, 1))[0].tolist()))


def test_bins_without_samples_leave_a_gap() -> None:
    [first, last] = plot.calibration(held(fm.CalibrationCurve(bins=4), [0.1, 0.9], [0, 1])).child_axes[0].patches
    assert (first.get_x(), first.get_width(), last.get_x(), last.get_width()) == (0, 0.25, 0.75, 0.25)


def test_weighted_samples_have_no_intervals() -> None:
    metric = held(fm.CalibrationCurve(bins=8), weight=np.full(4000, 0.5))
    assert not any(map(len, plot.calibration(metric).collections[0].get_segments()))


def test_bins_of_unequal_width_have_logarithmic_axes() -> None:
    ax = plot.calibration(held(fm.CalibrationCurve(bins=[0, 0.01, 0.1, 1])))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


@pytest.mark.parametrize("average", ["macro", None])
def test_calibration_by_class_has_the_curves_of_the_three_with_the_highest_error(average: Any) -> None:
    for classes, shown in ((2, [0, 1]), (3, [0, 1, 2]), (9, [2, 5, 6])):
        table, label = np.full((2000, classes), 1 / classes), np.arange(2000) % classes
        table[:, shown] += 0.01 * np.arange(1, len(shown) + 1)  # which does not have to add up to 1
        metric = fm.ExpectedCalibrationError(bins=4, classwise=True, num_classes=classes, average=average)
        metric.validate = False
        metric.add(table, label)
        ax = plot.calibration(metric, label="new")
        errors = [abs(table[0, k] - np.mean(label == k)) for k in shown]
        assert texts(ax) == [f"new class {k} ECE {error:.{3 + 2 * (error < 0.1)}f}" for k, error in zip(shown, errors)]
        points = [line.get_data() for line in ax.lines[1:]]
        np.testing.assert_allclose(points, [([table[0, k]], [np.mean(label == k)]) for k in shown])


def test_calibration_of_a_histogram_of_scores_has_bins_of_equal_mass_and_the_means_of_the_scores() -> None:
    ax = plot.calibration(held(fm.AUC()))
    predicted, actual = ax.lines[1].get_data()
    bars = [(each.get_x(), each.get_x() + each.get_width()) for each in ax.child_axes[0].patches]
    assert 12 <= len(predicted) <= 16 and ax.get_xscale() == "linear"
    for low, high, one, other in zip(*zip(*bars), predicted, actual):
        inside = (low <= SCORES) & (high > SCORES)
        mass = inside.mean() + LABELS[inside].sum() / LABELS.sum()
        assert 0.5 < 8 * mass < 2
        assert one == pytest.approx(SCORES[inside].mean(), rel=0.01) and other == LABELS[inside].mean()
    assert bars[0][0] <= SCORES.min() and bars[-1][1] >= SCORES.max()


def test_calibration_of_rare_clicks_has_logarithmic_axes_and_more_than_one_point() -> None:
    random = np.random.default_rng(0)
    odds = random.normal(-9, 1.5, 200_000)
    scores = 1 / (1 + np.exp(-odds))
    clicks = random.random(len(scores)) < scores
    assert clicks.mean() < 0.001
    ax = plot.calibration(held(fm.AUC(), scores, clicks))
    predicted, actual = ax.lines[1].get_data()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    seen = np.isfinite(actual)
    assert seen.sum() >= 8 and np.ptp(np.log10(predicted[seen])) > 1.5
    assert not (actual[seen] == 0).any()  # which has no place there; its interval has
    low, high = ax.get_xlim()
    assert low < predicted.min() and high > predicted.max() and ax.get_ylim() == (low, high)
    again = plot.calibration(held(fm.AUC(), np.sqrt(scores), clicks), ax, "old")
    assert again.get_xlim()[1] > high and len(again.lines) == 3


def test_weights_buckets_that_are_wide_and_no_samples_are_no_trouble_for_calibration() -> None:
    weighted = plot.calibration(held(fm.AUC(), weight=np.full(4000, 0.5)))
    assert not any(map(len, weighted.collections[0].get_segments()))
    for settings in ({"buckets": 512}, {"num_thresholds": 4095}):
        with pytest.raises(fm.InvalidInputError, match="this plot shows a metric of bins"):
            plot.calibration(held(fm.AUC(**settings)))
    plot.svg(plot.calibration(fm.AUC()).figure)
    assert len(plot.calibration(held(fm.AUC(), [0.5, 0.5], [0, 0])).lines[1].get_xdata()) == 1


def test_means_of_groups_stand_beside_what_was_predicted() -> None:
    value = {"predicted": [1.0, 2.0], "actual": [1.5, 1.75], "error": [0.25, 0.5]}
    ax = plot.predicted_actual(value)
    assert ax.lines[1].get_xydata().tolist() == [[1, 1.5], [2, 1.75]]
    ends = [each[:, 1].tolist() for each in ax.collections[0].get_segments()]
    assert ends == [pytest.approx([1.01, 1.99]), pytest.approx([0.77, 2.73])]
    plot.svg(plot.predicted_actual({name: [] for name in value}).figure)


@pytest.mark.parametrize("settings", [{}, {"num_thresholds": 4095}])
def test_the_area_of_each_class_in_the_histogram_is_the_share_in_the_legend(settings: Any) -> None:
    ax = plot.score_histogram(held(fm.AUC(**settings)))
    said = [re.fullmatch(r"label (\d) \((.*k)\)(?:, ([\d.]+)% outside)?", each) for each in texts(ax)]
    for stairs, each, wanted in zip(ax.patches[1::2], said, (0, 1)):
        share, edges, _ = stairs.get_data()
        place = edges if settings else np.log10(edges / (1 - edges))
        assert each and each[1] == str(wanted) and each[2] == f"{np.sum(wanted == LABELS) / 1000:.3g}k"
        area, outside = (
            np.sum(share * np.diff(place)),
            np.mean((SCORES[wanted == LABELS] < edges[0]) | (SCORES[wanted == LABELS] >= edges[-1])),
        )
        assert 20 < len(share) <= 50 and 1 - area == pytest.approx(outside, abs=1e-3)
        assert float(each[3] or 0) / 100 == pytest.approx(1 - area, rel=0.06, abs=1e-9) and outside < 0.003


def test_few_scores_at_the_ends_do_not_make_the_axis_wide() -> None:
    scores = np.concatenate([[0.0], SCORES.clip(0.01, 0.9), [1.0]])
    ax = plot.score_histogram(held(fm.AUC(), scores, [0, *LABELS, 1]))
    low, high = ax.get_xlim()
    assert 0.005 < low < 0.01 and 0.9 < high < 0.95
    ax = plot.score_histogram(held(fm.AUC(), SCORES.clip(0.001, 0.5), LABELS), ax, "old")
    assert ax.get_xlim()[0] < 0.005 and ax.get_xlim()[1] > 0.9  # both are seen
    assert len(plot.score_histogram(held(fm.AUC(), [0.5, 0.5], [0, 1])).patches) == 4


def test_two_densities_are_filled_and_four_are_lines_that_cover_nothing() -> None:
    ax = plot.score_histogram(held(fm.AUC()))
    assert [patch.get_fill() for patch in ax.patches] == [True, False] * 2
    for rounds in (4, 6):
        ax = plot.score_histogram(held(fm.AUC(), SCORES.clip(0.1, 0.5)), ax, f"of {rounds}")
        assert [patch.get_fill() for patch in ax.patches] == [False] * rounds


def test_a_precision_recall_curve_that_goes_on_above_the_axis_has_a_mark_there() -> None:
    """As where positives are rare: the highest scores have a precision that would squeeze the rest."""
    scores = np.linspace(0.01, 0.99, 20_000)
    clicks = np.arange(len(scores)) % 40 == 0
    clicks[-5:] = True
    ax = plot.precision_recall(held(fm.AUC(), scores, clicks))
    top = ax.get_ylim()[1]
    [mark] = [line for line in ax.lines if line.get_marker() == "^"]
    assert top < 0.6 and max(ax.lines[1].get_ydata()) == 1 and not mark.get_clip_on()
    [at], [height] = mark.get_data()
    assert height == 1 and 0 < at < 0.05  # of the axis, at the recall until which it is above
    plot.precision_recall(held(fm.AUC()), ax, "a good model")  # whose axis holds both
    assert ax.get_ylim()[1] > 1 and not [line for line in ax.lines if line.get_marker() == "^"]


# -- numbers with intervals --------------------------------------------------------------------------------------


def bars(ax: Any) -> dict[float, list[float]]:
    """Left and right end of the bar in each row."""
    return {each[0, 1]: each[:, 0].tolist() for some in ax.collections for each in some.get_segments() if len(each)}


def test_slices_show_the_intervals_in_the_order_given_and_which_are_within_chance() -> None:
    rows = [
        {
            "key": "b$",
            "value": 0.7,
            "low": 0.65,
            "high": 0.75,
            "rows": 1200,
            "difference": -0.1,
            "within_chance": False,
        },
        {"key": "a", "value": 0.9, "low": 0.6, "high": 0.95, "difference": 0.1, "within_chance": True, "metric": "auc"},
        {"key": 7, "value": None, "low": None, "high": None, "within_chance": True},
    ]
    ax = plot.slices(rows)
    assert [each.get_text() for each in ax.get_yticklabels()] == [r"b\$", "a", "7"]
    assert bars(ax) == {0: [0.65, 0.75], 1: [0.6, 0.95]}
    assert ax.lines[0].get_xdata() == pytest.approx([0.8, 0.8])  # over all of them
    full, hollow = (each for each in ax.lines if each.get_marker() == "o")
    assert full.get_data()[1].tolist() == [0] and hollow.get_data()[1].tolist() == [1, 2]
    assert hollow.get_markerfacecolor() == "none" and texts(ax) == ["significant", "not significant"]
    assert [each.get_text() for each in ax.texts] == ["1.2k", "", ""]
    assert "the first 2 of 3" in plot.slices(rows, most=2).get_xlabel()


def test_a_slice_without_a_verdict_is_neither_different_nor_within_chance() -> None:
    known = {"value": 0.7, "low": 0.6, "high": 0.8, "metric": "auc", "difference": 0.1}
    rows = [
        {**known, "key": "a", "within_chance": False, "verdict": "worse"},
        {**known, "key": "b", "within_chance": True, "verdict": "within chance"},
        {**known, "key": "c", "within_chance": None, "verdict": "too few"},
        {**known, "key": "d", "within_chance": None, "verdict": None},
    ]

    def marks(rows: list[dict[str, Any]]) -> tuple[list[list[float]], list[str]]:
        ax = plot.slices(rows)
        places = [each.get_ydata().tolist() for each in ax.lines if each.get_marker() == "o"]
        return places, texts(ax) if ax.get_legend() else []

    ax = plot.slices(rows)
    full, hollow, gray = (each for each in ax.lines if each.get_marker() == "o")
    assert [each.get_ydata().tolist() for each in (full, hollow, gray)] == [[0], [1], [2, 3]]
    assert full.get_markerfacecolor() == full.get_color() == hollow.get_color() != gray.get_color()
    assert hollow.get_markerfacecolor() == gray.get_markerfacecolor() == "none"
    assert texts(ax) == ["significant", "not significant", "too few to tell"]
    assert set(bars(ax)) == {0, 1, 2, 3}
    assert marks(rows[2:3]) == ([[0]], ["too few to tell"])  # if no slice has a verdict, none differs
    assert marks(rows[3:]) == ([[0]], [])  # a metric without a test
    assert marks(rows[2:]) == ([[1], [0]], ["too few to tell"])
    assert marks(rows[::2]) == ([[0], [1]], ["significant", "too few to tell"])
    with plot.style(words=Words("zh").of_charts):
        assert texts(plot.slices(rows)) == ["显著", "不显著", "数据太少"]


def test_slices_are_drawn_of_what_sliced_computes() -> None:
    metric = fm.Sliced(fm.Bootstrap(fm.AUC(), replicates=20), by="slot")
    slots = RNG.integers(0, 3, 4000)
    metric.add(SCORES, LABELS, slot=slots)
    value = metric.compute()
    for drawn in (metric, value):
        assert bars(plot.slices(drawn)) == {key: [each.low, each.high] for key, each in value.items()}
    for bad in ("b", held(fm.ROCCurve()).compute(), np.ones(3)):
        with pytest.raises(fm.InvalidInputError, match="a value must be a number, or have value, low and high, not"):
            plot.slices({"a": bad})


def test_the_values_of_workers_are_drawn_next_to_the_value_over_all() -> None:
    ax = plot.by_worker([0.75, fm.formulas.BoundedArea(0.5, 0.25, 0.625)], fm.formulas.BoundedArea(0.6, 0.5, 0.7))
    assert bars(ax) == {1: [0.25, 0.625]} and ax.lines[0].get_xdata() == [0.6, 0.6]
    assert [each.get_text() for each in ax.get_yticklabels()] == ["worker 0", "worker 1"]


def test_passes_have_a_band_where_they_have_intervals() -> None:
    ax = plot.over_passes(
        {2: 0.5, 4: {"value": 0.6, "low": 0.5, "high": 0.75}, 6: {"value": 0.7, "low": 0.6, "high": 0.8}}
    )
    assert ax.lines[0].get_xydata().tolist() == [[2, 0.5], [4, 0.6], [6, 0.7]]
    corners = ax.collections[0].get_paths()[0].vertices
    assert {tuple(each) for each in corners} == {(4, 0.5), (4, 0.75), (6, 0.6), (6, 0.8)}
    assert plot.over_passes([0.25, 0.5]).lines[0].get_xdata().tolist() == [1, 2]


def test_points_in_time_have_names_and_intervals() -> None:
    values = {"mon": 0.5, "tue": {"value": 0.6, "low": 0.5, "high": 0.75}}
    ax = plot.over_time(values, label="auc")
    assert ax.lines[0].get_xydata().tolist() == [[0, 0.5], [1, 0.6]] and texts(ax) == ["auc"]
    assert [each.get_text() for each in ax.get_xticklabels()] == ["mon", "tue"]
    [known] = [each for each in ax.collections[0].get_segments() if len(each)]
    assert known.tolist() == [[1, 0.5], [1, 0.75]]
    many = plot.over_time({str(day): 0.5 for day in range(100)})
    assert len(many.get_xticklabels()) == 12 and many.get_xticklabels()[1].get_text() == "9"
    plot.svg(plot.over_time({}).figure)


def test_places_are_drawn_of_a_metric_of_several_k() -> None:
    metric = held(fm.NDCG(k=[1, 5, 10]), query=RNG.integers(0, 50, 4000))
    line = plot.at_k(metric, label="NDCG").lines[0]
    assert dict(line.get_xydata().tolist()) == metric.compute()


# -- thresholds, shares, matrices, errors of predictions ----------------------------------------------------------


def test_a_sweep_is_drawn_of_given_thresholds_and_of_the_buckets() -> None:
    metric = held(fm.ThresholdSweep(thresholds=[0.25, 0.5, 0.75]))
    sweep = metric.compute()
    for drawn in (metric, sweep):
        ax = plot.threshold_sweep(drawn)
        values = [line.get_ydata().tolist() for line in ax.lines[:4]]
        assert values == [each.tolist() for each in (sweep.precision, sweep.recall, sweep.f_beta, sweep.specificity)]
        assert ax.lines[4].get_xdata() == [sweep.best_threshold] * 2
    ax = plot.threshold_sweep(held(fm.AUC()))
    for k in (0, 200, 400):
        chosen = ax.lines[0].get_xdata()[k] <= SCORES
        found = [line.get_ydata()[k] for line in ax.lines[:4]]
        precision, recall = LABELS[chosen].mean(), LABELS[chosen].sum() / LABELS.sum()
        specificity = (1 - LABELS[~chosen]).sum() / (1 - LABELS).sum()
        assert found == pytest.approx([precision, recall, 2 / (1 / precision + 1 / recall), specificity])
    assert texts(ax) == ["precision", "recall", "F1", "specificity"]


def test_gain_and_lift_go_through_the_values_that_the_metrics_compute() -> None:
    gain, lift = held(fm.CumulativeGain(fractions=[0.1, 0.5, 1])), held(fm.Lift(fractions=[0.1, 0.5, 1]))
    for draw, metric in ((plot.gain, gain), (plot.lift, lift)):
        value, line = metric.compute(), draw(metric).lines[1]
        np.testing.assert_allclose(np.interp(value.fractions, *line.get_data()), value.values, rtol=1e-3)
        assert draw(value).lines[1].get_xydata().tolist() == np.transpose(value).tolist()
    assert plot.draw(lift.compute()).get_ylim()[1] > lift.compute().values[0]  # its class is unknown


def test_a_confusion_matrix_shows_the_shares_of_the_rows() -> None:
    ax = plot.confusion_matrix(held(fm.ConfusionMatrix(normalize="all")), classes=["no", "yes"])
    matrix = held(fm.ConfusionMatrix()).compute()
    np.testing.assert_allclose(ax.images[0].get_array(), matrix / matrix.sum(axis=1, keepdims=True))
    shown = [each.get_text().split("\n") for each in ax.texts]
    assert [each[1] for each in shown] == [f"{share:.0%}" for share in (matrix / matrix.sum(axis=1)[:, None]).ravel()]
    assert [each.get_text() for each in ax.get_xticklabels()] == ["no", "yes"]
    assert len(plot.confusion_matrix(np.eye(9)).texts) == 81 and not plot.confusion_matrix(np.eye(13)).texts
    for size in (4, 10, 30):
        ax = plot.confusion_matrix(np.full((size, size), 1200))
        for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
            assert [each.get_text() for each in labels] == [str(each) for each in range(size)]
        assert {each.get_text() for each in ax.texts} == ({f"1.2k\n{1 / size:.0%}"} if size < 13 else set())


def test_residuals_are_a_density_and_the_legend_gives_the_share_outside_all_bins() -> None:
    metric = fm.Histogram(bins=[-1, 0, 0.5, 1])
    metric.add([-0.5, 0.25, 0.25, 3.0])
    ax = plot.residuals(metric)
    assert ax.patches[0].get_data().values.tolist() == [0.25, 1.0, 0.0] and texts(ax) == ["25% outside"]
    assert ax.get_xlabel() == "prediction - label" and plot.histogram(metric.compute()).get_xlabel() == "value"


def test_the_higher_of_two_histograms_is_seen_to_its_top() -> None:
    low, high = fm.Histogram(bins=4, range=(0, 1)), fm.Histogram(bins=4, range=(0, 1))
    low.add([0.1, 0.4, 0.6, 0.9])
    high.add([0.1, 0.1, 0.1, 0.1])
    ax = plot.residuals(high, plot.residuals(low), "old")
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > 4


def test_a_histogram_of_many_bins_is_drawn_by_fifty_of_equal_width_without_the_outermost() -> None:
    errors = np.concatenate([RNG.normal(0, 1, 10_000), [1e6, -1e9, np.inf]])
    edges = np.sort(np.concatenate([sign * np.geomspace(1e-9, 1e7, 3000) for sign in (1, -1)]))
    metric = fm.Histogram(bins=edges, validate=False)
    metric.add(errors)
    ax = plot.residuals(metric)
    density, edges, _ = ax.patches[0].get_data()
    assert 30 < len(density) <= 50 and -4 < edges[0] < -2.5 and 2.5 < edges[-1] < 4
    inside = np.histogram(errors, edges)[0] / len(errors)
    np.testing.assert_allclose(density * np.diff(edges), inside, atol=1e-9)
    assert texts(ax) == [f"{100 * (1 - inside.sum()):.2g}% outside"]


# -- all of them -------------------------------------------------------------------------------------------------


def test_plot_draws_the_picture_that_suits_a_metric() -> None:
    assert held(fm.AUC()).plot().get_ylabel() == "true positive rate"
    assert held(fm.AUC(curve="PR")).plot(label="new").get_ylabel() == "precision"
    assert held(fm.F1()).plot().get_xlabel() == "predicted"
    ax = held(fm.Lift()).plot()
    assert held(fm.Lift()).plot(ax) is ax and len(ax.lines) == 3
    with pytest.raises(fm.InvalidInputError, match=r"LogLoss has no plot; these have one: AUC, AveragePrecision, "):
        held(fm.LogLoss()).plot()
    with pytest.raises(fm.InvalidInputError, match=r"^Precision of several labels has no plot; these have one: AUC"):
        fm.Precision(task="multilabel", num_labels=3).plot()


#: What metrics declare; values by k and slices are drawn of more than metrics.
DECLARED = sorted({picture for name in fm._modules for picture in getattr(getattr(fm, name), "pictures", ())})
PUBLIC = [getattr(plot, name) for name in (*DECLARED, "predicted_actual") if name != "slices"]


@pytest.mark.parametrize(
    "metric",
    [
        fm.AUC(),
        fm.AUC(curve="PR", spacing="linear"),
        fm.AUC(task="multilabel", num_labels=2),
        fm.KolmogorovSmirnov(buckets=64),
        fm.ThresholdSweep(thresholds=[0.25, 0.5]),
        fm.BrierDecomposition(),
        fm.BucketError(),
        fm.F1(),
        fm.Precision(task="multiclass", num_classes=3),
        fm.Histogram(),
    ],
    ids=lambda metric: f"{type(metric).__name__}: {', '.join(metric.pictures)}",
)
def test_each_picture_that_a_metric_declares_can_draw_it_and_no_other_can(metric: Any) -> None:
    scores = {"multilabel": (30, 2), "multiclass": (30, 3)}.get(getattr(getattr(metric, "task", None), "kind", ""), 30)
    labels = scores if scores == (30, 2) else 30
    metric.add(RNG.random(scores), *[RNG.integers(0, 2, labels)] * (type(metric) is not fm.Histogram))
    assert len(set(metric.pictures)) == len(metric.pictures) > 0
    for name in {*DECLARED} - {"slices"}:
        if name in metric.pictures:
            getattr(plot, name)(metric)
        else:
            with pytest.raises(fm.InvalidInputError, match="this plot shows"):
                getattr(plot, name)(metric)


def test_every_picture_that_a_metric_declares_is_a_function_of_plot() -> None:
    assert {"roc", "precision_recall", "calibration", "lift", "confusion_matrix", "at_k", "slices"} <= set(DECLARED)
    assert all(callable(getattr(plot, name)) for name in DECLARED)
    classes = [getattr(fm, name) for name in fm._modules if hasattr(getattr(fm, name), "gives")]
    no_number = {each.gives for each in classes} - {"number"}
    assert no_number == {"curve", "point", "counts", "parts", "slices"}
    # Of parts, all may be better if they are higher: the precisions of mAP at several IoUs are.
    assert all(not each.better for each in classes if each.gives in no_number - {"point", "parts"})


@pytest.mark.parametrize("draw", PUBLIC, ids=lambda each: each.__name__)
def test_a_metric_that_a_picture_cannot_show_is_an_error_that_names_possible_ones(draw: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match=r"plot shows .*; metric is Mean "):
        draw(fm.Mean())
    with pytest.raises(fm.InvalidInputError, match=r"plot shows .*; metric is str 'roc'"):
        draw("roc")


def test_metrics_without_samples_are_drawn_empty_and_undefined_ones_are_labeled() -> None:
    for make in (fm.AUC, fm.AveragePrecision, fm.CalibrationCurve, fm.KolmogorovSmirnov, fm.Lift, fm.CumulativeGain):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
            plot.svg(make().plot().figure)
            ax = held(make(), [0.25, 0.5], [0, 0]).plot()
            plot.svg(ax.figure)
        if make in (fm.AUC, fm.AveragePrecision):
            assert texts(ax)[0].endswith("undefined")
    with pytest.warns(fm.UndefinedMetricWarning):
        held(fm.AUC(), [0.25, 0.5], [0, 0]).plot()
    plot.svg(fm.ConfusionMatrix().plot().figure)
    plot.svg(fm.Histogram().plot().figure)
    for empty in (plot.slices([]), plot.over_passes([]), plot.by_worker([], math.nan), plot.at_k({})):
        plot.svg(empty.figure)


def test_the_picture_is_that_of_all_workers() -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        with fm.set_communicator(member(rank, 2, port)):
            metric = held(fm.AUC(name="it"), SCORES[rank::2], LABELS[rank::2])
            return metric.plot().lines[1].get_xydata().tolist()

    one, other = run(2, work)
    assert one == other == held(fm.AUC()).plot().lines[1].get_xydata().tolist()
