"""Precision, recall and similar metrics, per class and averaged, against scikit-learn."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from sklearn import metrics

from fleetmetrics import formulas
from tests.formulas.matrices import CLASSES, SEEDS, draw, draw_labels, matrix_of, one_warning, quietly

OLD = sys.version_info < (3, 9)  # for which there is no scikit-learn 1.4
AVERAGES = ["micro", "macro", "weighted", None]
PAIRS = {
    "precision": ("precision_score", formulas.precision, {}, {}),
    "recall": ("recall_score", formulas.recall, {}, {}),
    "f1": ("f1_score", formulas.f_beta, {}, {}),
    "f2": ("fbeta_score", formulas.f_beta, {"beta": 2}, {"beta": 2}),
    "f0": ("precision_score", formulas.f_beta, {}, {"beta": 0}),
    "f infinite": ("recall_score", formulas.f_beta, {}, {"beta": np.inf}),
    "f of more than any float": ("recall_score", formulas.f_beta, {}, {"beta": 1e200}),
    "jaccard": ("jaccard_score", formulas.jaccard, {}, {}),
}


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", PAIRS)
def test_averages_of_classes_and_labels_equal_scikit_learn(name, average):
    if name in ("f1", "f2") and OLD:
        pytest.skip("scikit-learn before 1.4 has another F-score of nothing")
    theirs, ours, options, settings = PAIRS[name]
    for seed in SEEDS:
        for label, prediction, weight in (draw(seed), draw_labels(seed)):
            several = label.ndim == 2
            if several:
                matrix = metrics.multilabel_confusion_matrix(label, prediction, sample_weight=weight)
            else:
                matrix = matrix_of(label, prediction, weight)
            for zero_division in [0.0, 1.0] if name == "jaccard" else [0.0, 1.0, np.nan]:
                expected = quietly(
                    getattr(metrics, theirs),
                    label,
                    prediction,
                    average=average,
                    sample_weight=weight,
                    zero_division=zero_division,
                    labels=range(CLASSES) if average is None and not several else None,
                    **options,
                )
                value = quietly(ours, matrix, average, zero_division, **settings)
                np.testing.assert_allclose(value, expected, rtol=1e-12)
                assert type(value) is (np.ndarray if average is None else float)


@pytest.mark.parametrize("average", ["macro", "weighted", None])
def test_specificity_is_the_recall_of_all_other_classes(average):
    for seed in SEEDS:
        label, prediction, weight = draw(seed)
        matrix = matrix_of(label, prediction, weight)
        each = [
            metrics.recall_score(label == k, prediction == k, pos_label=0, sample_weight=weight) for k in range(CLASSES)
        ]
        occurs, times = matrix.sum(0) + matrix.sum(1) > 0, matrix.sum(1)
        expected = each
        if average == "macro":
            expected = np.array(each)[occurs].mean()
        elif average == "weighted":
            expected = np.average(each, weights=times)
        np.testing.assert_allclose(formulas.specificity(matrix, average), expected, rtol=1e-12)


def test_rounding_of_weights_does_not_create_negatives():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        matrix = np.zeros((3, 3))
        matrix[0] = rng.random(3) * 10.0 ** rng.integers(-9, 9, 3)
        assert formulas.specificity(matrix, None, 0.5)[0] == 0.5  # all samples are of class 0
        matrix[1:, 0] = rng.random(2)
        assert formulas.stat_scores(matrix)[0, 2] == 0


@pytest.mark.parametrize("average", ["binary", "micro", "macro", "weighted"])
@pytest.mark.parametrize("ours", [formulas.precision, formulas.recall, formulas.f_beta, formulas.jaccard])
def test_what_zero_division_asks_for_comes_without_a_warning(ours, average):
    for matrix in (np.zeros((2, 2)), np.array([[7, 0], [0, 0]])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = ours(matrix, average, 0.25)
        assert value == (0.25 if average == "binary" or not matrix.any() else 1.0)


@pytest.mark.parametrize("average", ["binary", "micro", "macro", "weighted", None, "none"])
@pytest.mark.parametrize(
    "name, ours",
    [("precision", formulas.precision), ("recall", formulas.recall), ("specificity", formulas.specificity),
     ("f1", formulas.f_beta), ("jaccard", formulas.jaccard)],
)  # fmt: skip
def test_no_samples_are_nan_with_one_warning(name, ours, average):
    for matrix in (np.zeros((2, 2), np.int64), np.zeros((3, 2, 2))):
        if average != "binary" or matrix.ndim == 2:
            value, told = one_warning(ours, matrix, average)
            assert np.isnan(value).all() and told == f"{name} is undefined: there are no samples; the value is nan"
            assert np.shape(value) == ((len(matrix),) if average in (None, "none") else ())


def test_a_warning_names_the_undefined_classes_and_their_treatment():
    matrix = np.diag([3, 0, 2, 0, 1])
    matrix[1, 0] = 2
    value, told = one_warning(formulas.precision, matrix, "macro")
    assert value == pytest.approx((3 / 5 + 1 + 1) / 3)
    assert told == ("precision of class 1 is undefined: never predicted; the macro average leaves it out")
    value, told = one_warning(formulas.precision, matrix, None)
    assert np.isnan(value).tolist() == [False, True, False, True, False]
    assert told == "precision of class 1, 3 is undefined: never predicted; the value is nan"
    value, told = one_warning(formulas.recall, [[[3, 0], [0, 0]]] * 7, None)
    assert told.startswith("recall of label 0, 1, 2, 3, 4 and 2 more is undefined: never true")
    value, told = one_warning(formulas.recall, [[[3, 0], [0, 0]]] * 2, "weighted")
    assert np.isnan(value) and told == "recall is undefined: every label is never true; the value is nan"
    assert one_warning(formulas.recall, [[3, 0], [0, 0]], "binary")[1].startswith(
        "recall is undefined: class 1 is never"
    )


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_normalized_confusion_equals_scikit_learn_except_for_empty_classes(normalize):
    for seed in SEEDS:
        label, prediction, weight = draw(seed)
        expected = metrics.confusion_matrix(
            label, prediction, labels=range(CLASSES), sample_weight=weight, normalize=normalize
        )
        matrix = matrix_of(label, prediction, weight)
        np.testing.assert_allclose(formulas.normalized_confusion(matrix, normalize, 0.0), expected, rtol=1e-12)
    assert formulas.normalized_confusion([[1, 2], [3, 4]]).dtype == np.int64
    value, told = one_warning(formulas.normalized_confusion, [[[1, 1], [0, 0]]] * 2, "true")
    assert value.tolist()[0][0] == [0.5, 0.5] and np.isnan(value[:, 1]).all()
    assert told == "confusion_matrix is undefined: 2 of 4 rows hold no samples; the value is nan"
