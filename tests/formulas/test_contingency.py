"""Agreement of partitions: large counts, independence, and what is undefined."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import formulas

SCORES = [formulas.adjusted_rand, formulas.normalized_mutual_information, formulas.cramers_v]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
def test_it_is_1_for_renumbered_clusters_and_0_for_independent_ones_of_any_size(score: Any):
    renumbered = np.array([[0, 7, 0], [0, 0, 5], [9, 0, 0]])
    independent = np.full((3, 3), 10**9)  # whose number of pairs no int64 holds
    for factor in (1, 10**9):
        assert score(renumbered * factor) == pytest.approx(1, abs=1e-12)
    assert score(independent) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
def test_without_samples_and_with_one_class_in_one_cluster_it_is_undefined(score: Any):
    for matrix in (np.zeros((2, 2), int), np.array([[5, 0], [0, 0]])):
        with pytest.warns(fm.UndefinedMetricWarning, match=f"{score.__name__} is undefined"):
            assert np.isnan(score(matrix))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert score(matrix, zero_division=1) == 1


def test_adjusted_rand_and_mutual_information_have_a_value_where_one_side_is_a_single_cluster():
    matrix = np.array([[3, 0], [4, 0]])
    assert formulas.adjusted_rand(matrix) == formulas.normalized_mutual_information(matrix) == 0
    with pytest.warns(fm.UndefinedMetricWarning, match="one cluster only is predicted"):
        assert np.isnan(formulas.cramers_v(matrix))


@pytest.mark.parametrize("weight", [1e40, 1e100, 1e150, 1e300])
def test_adjusted_rand_of_weights_of_any_size_is_that_of_as_many_copies(weight: float):
    table = np.array([[3.0, 1.0], [2.0, 4.0]])
    copies = formulas.adjusted_rand((table * 10**12).astype(np.int64))
    assert formulas.adjusted_rand(table * weight) == pytest.approx(copies, abs=1e-11)


def test_adjusted_rand_of_less_than_one_sample_is_undefined():
    for weight in (0.05, 1e-300):
        with pytest.warns(fm.UndefinedMetricWarning, match="is less than one sample"):
            assert np.isnan(formulas.adjusted_rand(np.array([[3.0, 1.0], [2.0, 4.0]]) * weight))
