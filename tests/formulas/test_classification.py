"""Formulas of classification metrics against scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import metrics

from fleetmetrics import formulas
from tests.formulas.matrices import CLASSES, SEEDS, draw, draw_labels, matrix_of, one_warning, quietly


def test_agreement_equals_scikit_learn():
    for seed in SEEDS:
        label, prediction, weight = draw(seed)
        matrix = matrix_of(label, prediction, weight)
        options = {"sample_weight": weight}
        for ours, theirs in [
            (formulas.matthews_correlation(matrix), metrics.matthews_corrcoef(label, prediction, **options)),
            (formulas.hamming_loss(matrix), metrics.hamming_loss(label, prediction, **options)),
            (formulas.confusion_accuracy(matrix), metrics.accuracy_score(label, prediction, **options)),
            (
                formulas.balanced_accuracy(matrix),
                quietly(metrics.balanced_accuracy_score, label, prediction, **options),
            ),
            (
                formulas.balanced_accuracy(matrix, True),
                quietly(metrics.balanced_accuracy_score, label, prediction, adjusted=True, **options),
            ),
        ]:
            assert type(ours) is float and ours == pytest.approx(theirs, rel=1e-11)
        for weights in (None, "linear", "quadratic"):
            theirs = metrics.cohen_kappa_score(label, prediction, weights=weights, labels=range(CLASSES), **options)
            assert formulas.cohen_kappa(matrix, weights) == pytest.approx(theirs, rel=1e-11)


def test_agreement_of_labels_is_of_all_together_or_the_mean():
    label, prediction, weight = draw_labels(2)
    matrix = metrics.multilabel_confusion_matrix(label, prediction, sample_weight=weight)
    flat = label.ravel(), prediction.ravel()
    options = {"sample_weight": np.repeat(weight, 3)}
    assert formulas.matthews_correlation(matrix) == pytest.approx(metrics.matthews_corrcoef(*flat, **options))
    assert formulas.hamming_loss(matrix) == pytest.approx(metrics.hamming_loss(label, prediction, sample_weight=weight))
    each = [metrics.accuracy_score(label[:, k], prediction[:, k], sample_weight=weight) for k in range(3)]
    np.testing.assert_allclose(formulas.confusion_accuracy(matrix, None), each)
    assert formulas.confusion_accuracy(matrix) == pytest.approx(np.mean(each))
    each = [metrics.balanced_accuracy_score(label[:, k], prediction[:, k], sample_weight=weight) for k in range(3)]
    assert formulas.balanced_accuracy(matrix) == pytest.approx(np.mean(each))


def test_the_accuracy_of_a_class_is_its_recall():
    label, prediction, _ = draw(0)
    matrix = matrix_of(label, prediction)
    for average in ("macro", "weighted"):
        expected = metrics.recall_score(label, prediction, average=average)
        assert formulas.confusion_accuracy(matrix, average) == pytest.approx(expected)


def test_matthews_correlation_of_any_count_is_exact():
    # t.p differs from c * n in the last of 38 digits: floats would make it 0, or anything
    big = 10**18
    matrix = np.array([[big, big], [big, big + 1]])
    assert formulas.matthews_correlation(matrix) == pytest.approx(0.25e-18, rel=1e-12)
    assert formulas.matthews_correlation(np.diag([big, big])) == 1.0
    assert formulas.matthews_correlation(np.diag([big, 3])[::-1]) == -1.0


@pytest.mark.parametrize(
    "ours, matrix, reason",
    [
        (formulas.matthews_correlation, [[3, 2], [0, 0]], "one class only is true"),
        (formulas.matthews_correlation, [[3, 0], [2, 0]], "one class only is predicted"),
        (formulas.cohen_kappa, [[5, 0], [0, 0]], "only one class is true and predicted"),
        (lambda c, *z: formulas.balanced_accuracy(c, True, *z), [[5, 1], [0, 0]], "one class only is true, so"),
        *[
            (function, np.zeros((3, 3)), "there are no samples")
            for function in (
                formulas.matthews_correlation,
                lambda c, z=np.nan: formulas.cohen_kappa(c, None, z),
                lambda c, z=np.nan: formulas.balanced_accuracy(c, False, z),
                formulas.hamming_loss,
                lambda c, z=np.nan: formulas.confusion_accuracy(c, "micro", z),
            )
        ],
    ],
)
def test_undefined_agreement_is_nan_with_a_warning_or_what_is_asked_for(ours, matrix, reason):
    value, told = one_warning(ours, matrix)
    assert np.isnan(value) and reason in told
    if ours is not formulas.cohen_kappa:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ours(matrix, 0.5) == 0.5


def test_kappa_of_one_class_predicted_and_another_true_is_0():
    assert formulas.cohen_kappa([[0, 5], [0, 0]]) == metrics.cohen_kappa_score([0] * 5, [1] * 5) == 0.0
