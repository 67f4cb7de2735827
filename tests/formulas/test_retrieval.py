"""Average precision against scikit-learn, and by definition."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas import average_precision, average_precision_of_ranking


@pytest.mark.parametrize("values", [2, 10, 10**9])
def test_average_precision_equals_scikit_learn(values):
    rng = np.random.default_rng(values)
    score, target = rng.integers(0, values, (300, 6)) / values, rng.integers(0, 2, (300, 6))
    np.testing.assert_allclose(
        average_precision(score, target), average_precision_score(target, score, average=None), rtol=1e-13
    )


def test_samples_that_do_not_count_are_left_out():
    assert average_precision([[0.9], [0.8], [0.7]], [[-1], [1], [0]]).tolist() == [1.0]


def test_undefined_classes_are_zero_and_no_samples_nan():
    with pytest.warns(UndefinedMetricWarning, match="1 of 2 classes have no positive sample; the value is 0.0"):
        assert average_precision([[0.9, 0.9]], [[1, 0]]).tolist() == [1.0, 0.0]
    with pytest.warns(UndefinedMetricWarning, match="there are no samples; the value is nan"):
        assert np.isnan(average_precision(np.zeros([0, 2]), np.zeros([0, 2]))).tolist() == [True, True]


def test_modes_of_a_ranking_by_hand():
    relevant = [[True, False, True], [False, True, False]]
    np.testing.assert_allclose(average_precision_of_ranking(relevant, [2, 1]), [(1 / 1 + 2 / 3) / 2, 1 / 2], rtol=1e-15)
    expected = [((1 + 1) / 2 + (2 / 3 + 1 / 2) / 2) / 2, (1 / 2 + 0 / 1) / 2]
    np.testing.assert_allclose(average_precision_of_ranking(relevant, [2, 1], "integrate"), expected, rtol=1e-15)


def test_relevant_answers_that_are_not_found_lower_the_value():
    assert average_precision_of_ranking([[True, False]], [4]).tolist() == [0.25]


def test_nothing_relevant_or_no_answers_are_zero():
    assert average_precision_of_ranking([[False, False]], [0]).tolist() == [0.0]
    assert average_precision_of_ranking(np.zeros([2, 0], bool), [1, 2]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", ["IR", "integrate"])
def test_a_query_has_the_same_bits_however_many_positions_follow(mode):
    relevant = np.random.default_rng(0).random((50, 37)) < 0.4
    longer = np.concatenate([relevant, np.zeros([50, 500], bool)], axis=1)
    total = relevant.sum(axis=1)
    one, other = average_precision_of_ranking(relevant, total, mode), average_precision_of_ranking(longer, total, mode)
    assert (
        one.tolist()
        == other.tolist()
        == [average_precision_of_ranking(r[None], [t], mode)[0] for r, t in zip(relevant, total)]
    )
