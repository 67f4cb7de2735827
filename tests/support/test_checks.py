"""What formulas are given: lists are taken, and what is none of what they say is an error that says so."""

from __future__ import annotations

import doctest
import inspect
import math
import pickle
import sys
from typing import Any, Callable

import numpy as np
import pytest

from fleetmetrics import InvalidInputError, UnknownArgumentError, formulas
from fleetmetrics.formulas.arrays import numbers, weights
from fleetmetrics.support.checks import amount, checked

pytestmark = pytest.mark.numpy_only

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
    with pytest.raises(InvalidInputError, match=r"negative has 2 entries and (positive 3|thresholds 2)"):
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
        (lambda: formulas.expected_calibration_error([1, 2], [0.5, 0.5]), r"number must be an array .* \[2, bins\]"),
        (lambda: formulas.brier_decomposition([[1], [1]], [[0.5], [0.5]], [0.0], [0.5, 0.5]), "centers must be"),
        (lambda: formulas.ratio([1, 2], 3, "metric"), "numerator must be one number"),
        (lambda: formulas.ratio(6.0, -4, "metric"), "denominator must be .* at least 0, not -4"),
        (lambda: formulas.ratio("3", 4, "metric"), "numerator must be an array of numbers, not strings such as '3'"),
        (lambda: formulas.mean_of_samples(5, 4, 4), "shares must be at most defined, but shares is 5 and defined 4"),
        (lambda: formulas.mean_of_samples(1, 5, 4), "defined must be at most rows, but defined is 5 and rows 4"),
        (lambda: formulas.mean_of_samples(1, np.int64(2**62 + 1), 2**62), "defined must be at most rows"),
        (
            lambda: formulas.mean_of_samples(4.00001, 4.0, 5.0),
            "shares must be at most defined, but shares is 4.00001 and defined 4.0",
        ),
        (lambda: formulas.variance([4.0, 2.5]), "moments must have the shape"),
        (lambda: formulas.variance([4.0, 2.5, -1.0]), "moments must hold .* at least 0, not -1.0"),
        (lambda: formulas.r2_score(1.0, [[4.0, 2.5, 5.0]]), "label must have the shape"),
        (lambda: formulas.pearson_correlation([1.0, 2.0]), "comoments must have the shape"),
        (lambda: formulas.pair_counts([1, NAN], [1, 2]), "prediction must hold numbers, but some are nan"),
        (lambda: formulas.spearman_correlation([1, 2], [1, 2, 3]), "label has 3 entries and prediction 2"),
        (lambda: formulas.pair_counts([1, 2], [1, 2], [1, -1]), "weight must hold counts or weights"),
        (lambda: formulas.exact_auc([0.1, 0.2], [0, 1], [1, NAN]), "weight must hold counts or weights"),
        (lambda: formulas.exact_auc(["a", "b"], [0, 1]), "score must be an array of numbers"),
        (lambda: formulas.exact_auc([0.1, 0.2], [0, 1], curve="roc"), "curve must be one of"),
        (lambda: formulas.cumulative_gain([1, 2], [1, 2], [1.5]), "fractions must be shares"),
        (lambda: formulas.histogram_counts([1, 2], [0.0, 0.5, 1.0]), "cells must be an array"),
    ],
)
def test_an_invalid_argument_of_a_formula_is_an_error_that_names_it(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        call()


def test_nan_sums_stay_nan() -> None:
    assert math.isnan(formulas.ratio(NAN, 4, "metric")) and math.isnan(formulas.ratio(6.0, NAN, "metric"))


# -- the door ------------------------------------------------------------------------------------------------


@checked(first=weights("n"), second=numbers("n+1"), factor=amount)
def product(first: Any, second: Any, factor: Any = 2) -> Any:
    """The product."""
    return (factor * first).tolist(), second.tolist()


def test_every_formula_has_a_door() -> None:
    functions = [getattr(formulas, name) for name in formulas.__all__]
    found = [each for each in functions if inspect.isfunction(each)]
    assert len(found) > 40 and all(hasattr(each, "bare") for each in found)


def test_a_function_with_a_door_looks_like_the_one_behind_it() -> None:
    for function in (product, formulas.precision):
        assert str(inspect.signature(function)) == str(inspect.signature(function.bare))
        assert (function.__name__, function.__doc__) == (function.bare.__name__, function.bare.__doc__)
        assert pickle.loads(pickle.dumps(formulas.precision)) is formulas.precision
    found = doctest.DocTestFinder().find(sys.modules[formulas.precision.__module__])
    assert [len(each.examples) for each in found if each.name.endswith(".precision")] == [1]


def test_arguments_become_arrays_once_and_are_not_checked_again() -> None:
    assert product([1, 2], (1, 2, 3)) == ([2, 4], [1, 2, 3])
    assert product.bare(np.array([-1]), np.zeros(5), -2) == ([2], [0.0] * 5)


def test_shapes_that_belong_together_are_checked_together() -> None:
    with pytest.raises(InvalidInputError, match=r"second must be an array of numbers of shape \[3\], not int64 \[2\]"):
        product([1, 2], [1, 2])
    with pytest.raises(InvalidInputError, match="factor must be a finite number of at least 0, not -1"):
        product([1], [1, 2], -1)


def test_an_argument_that_there_is_not_is_named_and_one_that_is_missing_is_pythons_own_error() -> None:
    with pytest.raises(UnknownArgumentError, match=r"product has no argument 'other'. It takes first, second"):
        product([1], [1, 2], other=3)
    with pytest.raises(TypeError, match=r"product\(\) missing 1 required positional argument: 'second'"):
        product([1])


def test_a_declaration_that_forgets_an_argument_fails_at_once() -> None:
    with pytest.raises(TypeError, match="checked declares"):
        checked(first=amount)(lambda first, second: first)
