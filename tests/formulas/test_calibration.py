"""Formulas of calibration against scikit-learn and plain loops over the samples."""

import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from fleetmetrics import UndefinedMetricWarning, formulas

RNG = np.random.default_rng(6)
P = np.concatenate([RNG.random(300), RNG.integers(0, 11, 100) / 10])
Y = (RNG.random(400) < P**2).astype(int)
W = RNG.random(400)
WEIGHTS = pytest.mark.parametrize("weight", [None, W], ids=["plain", "weighted"])
EDGES = np.linspace(0, 1, 11)
PLACE = np.searchsorted(EDGES[1:-1], P)
CENTERS = (EDGES[1:] + EDGES[:-1]) / 2


def tables(weight):
    table = np.zeros((3, 2, 10))
    for values, sums in zip((np.ones(400), P, (P - CENTERS[PLACE]) ** 2), table):
        np.add.at(sums, (Y, PLACE), values if weight is None else weight * values)
    number = table[0].astype(np.int64) if weight is None else table[0]
    return number, table[1], table[2].sum(axis=0)


def test_curve_is_scikit_learns():
    number, probability, _ = tables(None)
    actual, predicted = calibration_curve(Y, P, n_bins=10)
    curve = formulas.calibration_curve(number, probability, EDGES)
    np.testing.assert_allclose(curve.predicted, predicted, rtol=1e-12)
    np.testing.assert_allclose(curve.actual, actual, rtol=1e-12)
    assert curve.weight.dtype == np.int64 and curve.weight.sum() == 400


@WEIGHTS
def test_the_parts_of_the_brier_score_are_those_of_the_definition_and_add_up(weight):
    parts = formulas.brier_decomposition(*tables(weight), CENTERS)
    w = np.ones(400) if weight is None else weight
    assert parts.score == pytest.approx(brier_score_loss(Y, P, sample_weight=weight), rel=1e-13)
    rate = np.average(Y, weights=w)
    expected = dict.fromkeys(parts._fields[1:], 0.0)
    expected["uncertainty"] = rate * (1 - rate)
    for place in range(10):
        p, y, of = P[place == PLACE], Y[place == PLACE], w[place == PLACE]
        mean, actual = np.average(p, weights=of), np.average(y, weights=of)
        expected["reliability"] += of.sum() * (mean - actual) ** 2 / w.sum()
        expected["resolution"] += of.sum() * (actual - rate) ** 2 / w.sum()
        expected["within_bin_variance"] += np.sum(of * (p - mean) ** 2) / w.sum()
        expected["within_bin_covariance"] += 2 * np.sum(of * (p - mean) * (y - actual)) / w.sum()
    for name, value in expected.items():
        assert getattr(parts, name) == pytest.approx(value, rel=1e-12), name
    total = parts.reliability - parts.resolution + parts.uncertainty
    assert total + parts.within_bin_variance - parts.within_bin_covariance == pytest.approx(parts.score, abs=1e-16)


def test_the_parts_of_the_brier_score_do_not_depend_on_the_size_of_weights():
    parts = formulas.brier_decomposition(*tables(W * 2.0**-1030), CENTERS)
    assert parts == pytest.approx(formulas.brier_decomposition(*tables(W), CENTERS), rel=1e-6)


@WEIGHTS
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_expected_calibration_error_is_that_of_the_definition(norm, weight):
    number, probability, _ = tables(weight)
    w = np.ones(400) if weight is None else weight
    gaps, shares = [], []
    for place in np.unique(PLACE):
        of = w[place == PLACE]
        gaps.append(abs(np.average(P[place == PLACE], weights=of) - np.average(Y[place == PLACE], weights=of)))
        shares.append(of.sum() / w.sum())
    gaps, shares = np.array(gaps), np.array(shares)
    expected = {"l1": gaps @ shares, "l2": math.sqrt(gaps**2 @ shares), "max": gaps.max()}[norm]
    assert formulas.expected_calibration_error(number, probability, norm) == pytest.approx(expected, rel=1e-12)


def test_empty_bins_are_left_out():
    number, probability = np.array([[0, 2, 0], [0, 2, 0]]), np.array([[0, 0.75, 0], [0, 1.25, 0]])
    curve = formulas.calibration_curve(number, probability, [0, 0.25, 0.75, 1])
    assert [part.tolist() for part in curve] == [[0.5], [0.5], [4], [0.25], [0.75]]
    assert formulas.expected_calibration_error(number, probability, "max") == 0.0
    parts = formulas.brier_decomposition(number, probability, [0, 0.01, 0], [0.1, 0.5, 0.9])
    assert parts.reliability == 0.0 and parts.uncertainty == 0.25


def test_no_samples_are_undefined():
    number, probability = np.zeros((2, 3), np.int64), np.zeros((2, 3))
    for norm in ("l1", "l2", "max"):
        with pytest.warns(UndefinedMetricWarning, match="expected_calibration_error is undefined: there"):
            assert math.isnan(formulas.expected_calibration_error(number, probability, norm))
    with pytest.warns(UndefinedMetricWarning, match="brier_decomposition is undefined: there are no samples"):
        assert all(map(math.isnan, formulas.brier_decomposition(number, probability, np.zeros(3), np.zeros(3))))
    with pytest.warns(UndefinedMetricWarning, match="calibration_curve is undefined: there are no samples"):
        assert [len(part) for part in formulas.calibration_curve(number, probability, np.arange(4))] == [0] * 5


def test_kuipers_p_value_is_that_of_the_range_of_a_random_walk():
    rng = np.random.default_rng(0)
    probability = np.sort(rng.random((400, 500)), axis=1)
    label = rng.random(probability.shape) < probability
    parts = [
        formulas.kuiper_calibration(
            [~row, row], [p * ~row, p * row], (p * (1 - p)).sum(), np.append(0, np.arange(1, 501) / 500)
        )
        for p, row in zip(probability, label)
    ]
    for level in (0.05, 0.2, 0.5):
        share = np.mean([part.p_value <= level for part in parts])
        assert level - 0.1 < share < level + 0.05  # a walk of 500 steps has a smaller range than one without steps


@pytest.mark.parametrize("normalized, p_value", [(0.25, 1), (1, 0.936635), (2.5, 0.049673), (4, 0.000253370)])
def test_kuipers_p_value_at_given_statistics(normalized, p_value):
    parts = formulas.kuiper_calibration([[8], [0]], [[normalized], [0]], 1, [0, 1])
    assert parts.normalized == normalized and parts.p_value == pytest.approx(p_value, rel=1e-5)


def test_kuipers_range_of_scores_is_where_the_difference_arises_and_has_its_sign():
    number = [[4, 3, 4], [4, 5, 4]]  # of the middle bin five of eight are positive, and three are predicted
    parts = formulas.kuiper_calibration(number, [[2, 1, 2], [2, 2, 2]], 4, [0, 0.25, 0.5, 1])
    assert parts[:2] == (2 / 24, 1) and parts[3:] == (0.25, 0.5, 2 / 24)
    certain = formulas.kuiper_calibration([[2, 0], [0, 2]], [[0, 0], [0, 2]], 0, [0, 0.5, 1])
    assert (certain.statistic, certain.normalized, certain.p_value) == (0, 0, 1)
    wrong = formulas.kuiper_calibration([[0, 2], [0, 0]], [[0, 2], [0, 0]], 0, [0, 0.5, 1])
    assert (wrong.statistic, wrong.normalized, wrong.p_value, wrong.difference) == (1, np.inf, 0, -1)
