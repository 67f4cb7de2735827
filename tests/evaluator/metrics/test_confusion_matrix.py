"""ConfusionMatrix: rows are true classes, columns predicted ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator import Evaluator
from fleetmetrics.evaluator.metrics import ConfusionMatrix
from tests.evaluator.metrics.given import (
    FORMS,
    FORMS_OF_A_SAMPLE,
    close,
    digits,
    evaluate,
    evaluate_split,
    plain,
    samples,
)


def test_mmpretrains_example():
    found = ConfusionMatrix.calculate([0, 1, 1, 3], [0, 2, 1, 3], num_classes=4)
    assert plain(found) == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert found.dtype == np.int64


@pytest.mark.parametrize("form", FORMS)
def test_it_equals_scikit_learn(form):
    score, label = digits()
    expected = confusion_matrix(label, score.argmax(axis=1)).tolist()
    make = FORMS[form]
    assert plain(ConfusionMatrix.calculate(make(score), make(label))) == expected
    assert plain(ConfusionMatrix.calculate(make(score.argmax(axis=1)), make(label[:, None]), 10)) == expected
    wide = ConfusionMatrix.calculate(make(score), make(label), 12)
    assert wide.shape == (12, 12) and plain(wide[:10, :10]) == expected and wide.sum() == len(label)


@pytest.mark.numpy_only
@pytest.mark.parametrize("form", FORMS_OF_A_SAMPLE)
def test_data_samples_in_every_form(form):
    score, label = digits()
    make = FORMS_OF_A_SAMPLE[form]
    expected = confusion_matrix(label, score.argmax(axis=1)).tolist()
    truth = [make(each) for each in label]
    found = evaluate(ConfusionMatrix(), samples(pred_score=[make(row) for row in score], gt_label=truth))
    assert list(found) == ["result"] and plain(found["result"]) == expected
    pred = [make(each) for each in score.argmax(axis=1)]
    assert plain(evaluate(ConfusionMatrix(10), samples(pred_label=pred, gt_label=truth))["result"]) == expected


def test_scores_bring_their_number_of_classes():
    given = [{"pred_score": [0.1, 0.9], "gt_label": 0}]
    assert plain(evaluate(ConfusionMatrix(num_classes=7), given)["result"]) == [[0, 1], [0, 0]]


def test_of_equal_scores_the_lower_class_is_predicted():
    assert plain(ConfusionMatrix.calculate([[1, 1], [0, 0]], [0, 1])) == [[1, 0], [1, 0]]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_split_over_workers_gives_the_whole(workers):
    score, label = digits()
    metric = ConfusionMatrix()
    whole = evaluate(metric, samples(pred_score=score, gt_label=label))["result"]
    part = np.random.default_rng(0).integers(0, workers, len(label))
    assert plain(evaluate_split(metric, metric.results, part)["result"]) == plain(whole)


def test_its_sums_are_the_counts():
    score, label = digits()
    matrix = ConfusionMatrix.calculate(score, label)
    assert plain(matrix.sum(axis=1)) == close(np.bincount(label, minlength=10))


def test_no_samples_give_zeros():
    assert plain(ConfusionMatrix.calculate(np.zeros([0, 2]), [])) == [[0, 0], [0, 0]]
    assert plain(ConfusionMatrix(2).compute_metrics([])["result"]) == [[0, 0], [0, 0]]


def test_it_is_registered():
    evaluator = Evaluator({"type": "ConfusionMatrix", "num_classes": 2})
    evaluator.process([{"pred_label": 1, "gt_label": 1}])
    assert plain(evaluator.evaluate()["confusion_matrix/result"]) == [[0, 0], [0, 1]]


def test_a_class_outside_of_the_matrix_is_an_error_and_no_other_cell():
    with pytest.raises(InvalidInputError, match="pred holds 3; with 3 classes, labels are 0 to 2"):
        ConfusionMatrix.calculate([3, 0, 1], [0, 0, 1], num_classes=3)
    with pytest.raises(InvalidInputError, match="target holds 3; with 3 classes"):
        ConfusionMatrix.calculate([0], [3], num_classes=3)
    with pytest.raises(InvalidInputError, match="pred holds 2; with 2 classes"):
        ConfusionMatrix.calculate([[0.1, 0.2, 0.7]], [0], num_classes=2)


def test_labels_may_be_processed_before_the_number_of_classes_is_known():
    metric = ConfusionMatrix()
    metric.process([], [{"pred_label": 0, "gt_label": 0}])
    with pytest.raises(AssertionError, match="Please specify the `num_classes` if the `pred` is labels"):
        metric.evaluate(1)
    metric.process([], [{"pred_label": 1, "gt_label": 0, "num_classes": 2}])  # as MMPretrain's DataSample has it
    assert plain(metric.evaluate(2)["confusion_matrix/result"]) == [[1, 1], [0, 0]]
    metric.process([], [{"pred_label": 0, "gt_label": 0}])
    metric.num_classes = 3
    metric.process([], [{"pred_score": [0.1, 0.2, 0.7], "gt_label": 1}])
    assert plain(metric.evaluate(2)["confusion_matrix/result"]) == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_bad_input():
    with pytest.raises(AssertionError, match="Please specify the `num_classes` if the `pred` is labels"):
        ConfusionMatrix.calculate([0], [0])
    with pytest.raises(AssertionError, match=r"The size of pred \(1\) doesn't match the target \(2\)"):
        ConfusionMatrix.calculate([0], [0, 1], 2)
    with pytest.raises(AssertionError, match=r"target has shape \[1, 2\]"):
        ConfusionMatrix.calculate([0], [[0, 1]], 2)
    with pytest.raises(TypeError, match=r"<class 'str'> is not an available argument$"):
        ConfusionMatrix.calculate("a", [0], 2)
    with pytest.raises(InvalidInputError, match="pred_score holds nan"):
        ConfusionMatrix().process(None, [{"pred_score": [0.5, float("nan")], "gt_label": 0}])
    with pytest.raises(InvalidInputError, match="num_classes must be an integer"):
        ConfusionMatrix(num_classes=0)
