"""What formulas are given: lists are taken, and what is none of what they say is an error that says so."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import pytest

from fleetmetrics import InvalidInputError, formulas

NAN = math.nan
OF_MATRICES = [
    *("balanced_accuracy", "cohen_kappa", "confusion_accuracy", "f_beta", "hamming_loss", "jaccard"),
    *("matthews_correlation", "normalized_confusion", "precision", "recall", "specificity", "stat_scores"),
]
OF_AREAS = [
    *("auc_from_histogram", "auc_bounds", "average_precision_from_histogram", "average_precision_bounds"),
    *("kolmogorov_smirnov", "bucket_error"),
]
NO_MATRICES = [
    *([[NAN, 1], [1, 1]], [[NAN] * 2] * 2, [[-1, 2], [3, 4]], [[math.inf, 1], [1, 1]], [[1, 2, 3], [4, 5, 6]], [1, 2]),
    *(3, [], [[1, 2], [3]], [["a", "b"], ["c", "d"]], None, np.zeros((2, 3, 3))),
]
OF_HISTOGRAMS: dict[str, Callable[..., Any]] = {
    **{name: getattr(formulas, name) for name in OF_AREAS},
    "roc_curve": lambda p, n: formulas.roc_curve(p, n, np.arange(3)),
    "precision_recall_curve": lambda p, n: formulas.precision_recall_curve(p, n, np.arange(3)),
    "cumulative_gain": lambda p, n: formulas.cumulative_gain(p, n, [0.5]),
    "lift": lambda p, n: formulas.lift(p, n, [0.5]),
    "recall_at_fixed_precision": lambda p, n: formulas.recall_at_fixed_precision(p, n, np.arange(3), 0.5),
    "specificity_at_sensitivity": lambda p, n: formulas.specificity_at_sensitivity(p, n, np.arange(3), 0.5),
    "threshold_sweep": lambda p, n: formulas.threshold_sweep(p, n, [0.25, 0.5]),
}


@pytest.mark.parametrize("name", OF_MATRICES)
def test_a_confusion_matrix_is_square_and_holds_counts_or_weights(name: str) -> None:
    function = getattr(formulas, name)
    for matrix in NO_MATRICES:
        with pytest.raises(InvalidInputError, match="confusion must"):
            function(matrix)
    assert np.array_equal(function([[3, 1], [2, 4]]), function(np.array([[3.0, 1.0], [2.0, 4.0]])))
    assert np.array_equal(function([[True, False], [True, True]]), function([[1, 0], [1, 1]]))


@pytest.mark.parametrize("name", OF_HISTOGRAMS)
def test_histograms_hold_counts_or_weights_and_are_equally_long(name: str) -> None:
    function = OF_HISTOGRAMS[name]
    for wrong in ([1, NAN, 1], [1, -1, 3], [1, math.inf, 2], ["a", "b", "c"], None):
        with pytest.raises(InvalidInputError, match="positive must"):
            function(wrong, [1, 2, 3])
        with pytest.raises(InvalidInputError, match="negative must"):
            function([1, 2, 3], wrong)
    with pytest.raises(InvalidInputError, match="negative has 2 entries and positive 3"):
        function([1, 2, 3], [1, 2])
    function([1000, 200, 300], [300, 200, 1000])


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: formulas.precision(np.eye(2), "mean"), "average must be one of"),
        (lambda: formulas.precision(np.eye(3), "binary"), "average='binary' is of two classes, not of 3"),
        (lambda: formulas.cohen_kappa(np.eye(2), "cubic"), "weights must be one of"),
        (lambda: formulas.normalized_confusion(np.eye(2), "rows"), "normalize must be one of"),
        (lambda: formulas.expected_calibration_error([[1], [1]], [[0.5], [0.5]], "l3"), "norm must be one of"),
        (lambda: formulas.expected_calibration_error([1, 2], [0.5, 0.5]), r"number must be an array .* \[2, n\]"),
        (lambda: formulas.brier_decomposition([[1], [1]], [[0.5], [0.5]], [0.0], [0.5, 0.5]), "centers must be"),
        (lambda: formulas.mean([1, 2], 3), "the sum of mean must be one number"),
        (lambda: formulas.mean(6.0, -4), "the total of mean must be .* at least 0, not -4"),
        (lambda: formulas.accuracy("3", 4), "the sum of accuracy must be"),
        (lambda: formulas.log_loss(-1.0, 4, "weighted"), "average must be one of"),
        (lambda: formulas.log_loss([-1.0, -2.0], [4]), "the totals of log_loss must be"),
        (lambda: formulas.variance([4.0, 2.5]), "moments must have the shape"),
        (lambda: formulas.variance([4.0, 2.5, -1.0]), "moments must hold .* at least 0, not -1.0"),
        (lambda: formulas.r2_score(1.0, [[4.0, 2.5, 5.0]]), "label must have the shape"),
        (lambda: formulas.pearson_correlation([1.0, 2.0]), "comoments must have the shape"),
        (lambda: formulas.pair_counts([1, NAN], [1, 2]), "prediction must hold numbers, and some are nan"),
        (lambda: formulas.spearman_correlation([1, 2], [1, 2, 3]), "label has 3 entries and prediction 2"),
        (lambda: formulas.pair_counts([1, 2], [1, 2], [1, -1]), "weight must hold counts or weights"),
        (lambda: formulas.exact_auc([0.1, 0.2], [0, 1], [1, NAN]), "weight must hold counts or weights"),
        (lambda: formulas.exact_auc(["a", "b"], [0, 1]), "score must be an array of numbers"),
        (lambda: formulas.exact_auc([0.1, 0.2], [0, 1], curve="roc"), "curve must be one of"),
        (lambda: formulas.cumulative_gain([1, 2], [1, 2], [1.5]), "fractions must be shares"),
        (lambda: formulas.quantile_loss(1.0, 1.0, 2, 1.5), "quantile must be a number from 0 to 1"),
        (lambda: formulas.histogram_counts([1, 2], [0.0, 0.5, 1.0]), "cells must be an array"),
        (lambda: formulas.throughput(64, [1.0, 2.0]), "seconds must be one number"),
    ],
)
def test_what_a_formula_cannot_take_is_an_error_that_names_it(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        call()


def test_nan_sums_stay_nan() -> None:
    assert math.isnan(formulas.mean_absolute_error(NAN, 4)) and math.isnan(formulas.mean(6.0, NAN))
