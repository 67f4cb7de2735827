"""Accuracy and SingleLabelMetric: MMPretrain's numbers where they are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support, top_k_accuracy_score

import fleetmetrics as fm
from fleetmetrics.errors import AssertedInputError, InvalidInputError
from fleetmetrics.evaluator import METRICS, Evaluator
from fleetmetrics.evaluator.metrics import Accuracy, SingleLabelMetric
from tests.evaluator.metrics.given import (
    FORMS,
    FORMS_OF_A_SAMPLE,
    close,
    digits,
    evaluate,
    evaluate_split,
    plain,
    samples,
    silence,
    undefined,
)

pytestmark = pytest.mark.numpy_only

AVERAGES = ["micro", "macro", None]


def brute_accuracy(score, label, k, thr):
    best = np.argsort(-score, axis=1, kind="stable")[:, :k]
    own = score[np.arange(len(label)), label]
    right = (best == label[:, None]).any(axis=1) & (True if thr is None else own > np.float32(thr))
    return 100 * right.sum() / len(label)


def sklearn_shares(label, pred, classes, average):
    labels = range(classes)
    *shares, support = precision_recall_fscore_support(label, pred, labels=labels, average=average, zero_division=0)
    return [*(100 * share for share in shares), len(label) if support is None else support]


# Accuracy


def test_accuracy_of_mmpretrains_example():
    np.testing.assert_array_equal(Accuracy.calculate([0, 2, 1, 3], [0, 1, 2, 3]), [50.0])


def test_top_k_accuracy_equals_scikit_learn():
    score, label = digits()
    found = evaluate(Accuracy(topk=(1, 2, 5, 10)), samples(pred_score=score, gt_label=label))
    expected = {k: 100 * top_k_accuracy_score(label, score, k=k) for k in (1, 2, 5)}
    assert found == {**{f"top{k}": pytest.approx(value, rel=1e-12) for k, value in expected.items()}, "top10": 100.0}


def test_accuracy_with_thresholds_equals_brute_force():
    score, label = digits()
    thrs = (0.0, 0.2, 0.5, None)
    found = evaluate(Accuracy(topk=(1, 3), thrs=thrs), samples(pred_score=score, gt_label=label))
    names = ["thr-0.00", "thr-0.20", "thr-0.50", "no-thr"]
    expected = {f"top{k}_{n}": brute_accuracy(score, label, k, t) for k in (1, 3) for n, t in zip(names, thrs)}
    assert list(found) == list(expected)
    assert found == close(expected)


def test_accuracy_is_that_of_the_package():
    score, label = digits()
    metric = fm.Accuracy(top_k=2)
    metric.add(score, label)
    assert evaluate(Accuracy(topk=2), samples(pred_score=score, gt_label=label))["top2"] == close(
        100 * metric.compute()
    )


@pytest.mark.parametrize("metric", [Accuracy(topk=5), Accuracy(topk=(5,)), Accuracy(topk=[np.int64(5)], thrs=[0.0])])
def test_one_k_and_one_threshold_have_a_name_without_threshold(metric):
    score, label = digits()
    assert list(evaluate(metric, samples(pred_score=score[:9], gt_label=label[:9]))) == ["top5"]


def test_of_equal_scores_the_lower_class_comes_first():
    score = np.random.default_rng(0).integers(0, 3, (300, 6)).astype(np.float32)
    label = np.random.default_rng(1).integers(0, 6, 300)
    for k in (1, 2, 6):
        assert plain(Accuracy.calculate(score, label, k, None)) == [[[close(brute_accuracy(score, label, k, None))]]]
    shares = SingleLabelMetric.calculate(score, label, thrs=None, average=None)[0]
    assert plain(shares) == close(sklearn_shares(label, score.argmax(axis=1), 6, None))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_at_the_threshold_is_not_above_it(dtype):
    at, one = np.array([0.6, 1.0], dtype)
    score = np.array([[at, 0.4], [np.nextafter(at, one), 0.4]], dtype)
    assert plain(Accuracy.calculate(score, [0, 0], thrs=0.6)) == [[[50.0]]]


def test_predicted_labels_ignore_k_and_thresholds():
    score, label = digits()
    found = evaluate(Accuracy(topk=(1, 5), thrs=(0.1, 0.9)), samples(pred_label=score.argmax(axis=1), gt_label=label))
    assert found == {"top1": close(brute_accuracy(score, label, 1, None))}


def test_several_labels_in_a_sample_count_one_by_one():
    given = [{"pred_label": [1, 2, 3], "gt_label": [1, 2, 0]}, {"pred_label": 5, "gt_label": 5}]
    assert evaluate(Accuracy(), given) == {"top1": 75.0}


def test_thresholds_that_two_digits_do_not_tell_apart_keep_a_result_each():
    found = evaluate(Accuracy(thrs=(0.121, 0.123, 0.5)), [{"pred_score": [0.122, 0.1], "gt_label": 0}])
    assert found == {"top1_thr-0.121": 100.0, "top1_thr-0.123": 0.0, "top1_thr-0.50": 0.0}
    assert list(evaluate(Accuracy(thrs=(0.5, 0.5)), [{"pred_score": [0.5], "gt_label": 0}])) == ["top1_thr-0.50"]


def test_logits_below_the_default_threshold_are_not_counted_but_warned_of():
    logits, label = np.array([[-1.0, -2.0], [3.0, -1.0], [-2.0, -1.0]]), [0, 0, 0]
    with pytest.warns(UserWarning, match=r"the threshold 0.0 drops 1 correct predictions .*thrs=None"):
        assert evaluate(Accuracy(), samples(pred_score=logits, gt_label=label)) == {"top1": close(100 / 3)}
    with pytest.warns(UserWarning, match=r"the threshold 0.0 drops 2 predictions"):
        SingleLabelMetric.calculate(logits, label)
    with pytest.warns(UserWarning, match=r"the threshold 0.5 drops 1 correct predictions"):
        Accuracy.calculate(logits, label, thrs=0.5)
    with silence():
        assert evaluate(Accuracy(thrs=None), samples(pred_score=logits, gt_label=label)) == {"top1": close(200 / 3)}


def test_probabilities_below_a_threshold_are_not_warned_of():
    with silence():
        assert plain(Accuracy.calculate([[1.0, 0.0], [0.3, 0.7]], [1, 1], 2, (0.0, 0.8))) == [[[50.0], [0.0]]]
        assert plain(Accuracy.calculate(np.float32([[1.0000001, 0.0]]), [1], 2)) == [[[0.0]]]


def test_a_threshold_of_zero_is_a_threshold():
    assert Accuracy(thrs=0).thrs == Accuracy(thrs=0.0).thrs == (0.0,)
    assert plain(Accuracy.calculate([[0.0, 0.0]], [0], thrs=(0, None))) == [[[0.0], [100.0]]]


def test_labels_in_a_column_are_compared_one_by_one():
    assert plain(Accuracy.calculate(np.arange(3), np.array([[0], [1], [0]]))) == [close(200 / 3)]


def test_no_samples_are_nan_with_a_warning():
    with undefined():
        assert math.isnan(Accuracy.calculate(np.zeros([0, 3]), [])[0][0].item())
    with undefined():
        assert math.isnan(Accuracy.calculate([], []).item())
    with undefined():
        assert list(Accuracy(topk=(1, 5)).compute_metrics([])) == ["top1", "top5"]
    with undefined():
        shares = SingleLabelMetric.calculate(np.zeros([0, 3]), [], average=None)[0]
    assert np.isnan(shares[:3]).all() and plain(shares[3]) == [0, 0, 0]
    with undefined():
        assert math.isnan(SingleLabelMetric().compute_metrics([])["recall"])


# SingleLabelMetric


def test_shares_of_mmpretrains_example():
    found = SingleLabelMetric.calculate([0, 1, 1, 3], [0, 2, 1, 3], num_classes=4)
    assert plain(found) == close([62.5, 75.0, 200 / 3, 4])


@pytest.mark.parametrize("average", AVERAGES)
def test_shares_equal_scikit_learn(average):
    score, label = digits()
    thrs = (0.0, 0.5)
    found = SingleLabelMetric.calculate(score, label, thrs, average)
    for thr, shares in zip(thrs, found):
        pred = np.where(score.max(axis=1) > thr, score.argmax(axis=1), -1)
        assert plain(shares) == close(sklearn_shares(label, pred, 10, average))
    labels = SingleLabelMetric.calculate(score.argmax(axis=1), label, average=average, num_classes=12)
    assert plain(labels) == close(sklearn_shares(label, score.argmax(axis=1), 12, average))


@pytest.mark.parametrize("average, ending", [("micro", "_micro"), ("macro", ""), (None, "_classwise")])
def test_results_are_named_as_in_mmpretrain(average, ending):
    score, label = digits()
    given = samples(pred_score=score, gt_label=label)
    found = evaluate(SingleLabelMetric(thrs=(0.25, None), items=("support", "precision"), average=average), given)
    assert list(found) == [
        f"{item}{thr}{ending}" for thr in ("_thr-0.25", "_no-thr") for item in ("precision", "support")
    ]
    assert type(found[f"precision_no-thr{ending}"]) is (list if average is None else float)
    assert list(evaluate(SingleLabelMetric(average=average), given)) == [
        f"{item}{ending}" for item in ("precision", "recall", "f1-score")
    ]
    labels = samples(pred_label=label, gt_label=label)
    found = evaluate(SingleLabelMetric(thrs=(0.25, None), items=["recall"], average=average, num_classes=10), labels)
    assert found == {f"recall{ending}": [100.0] * 10 if average is None else 100.0}


def test_the_number_of_classes_may_come_with_the_samples():
    given = [{"pred_label": 1, "gt_label": 0, "num_classes": 4}, {"pred_label": 1, "gt_label": 1, "num_classes": 4}]
    assert evaluate(SingleLabelMetric(average=None, items=["recall"]), given) == {"recall_classwise": [0, 100, 0, 0]}
    assert evaluate(SingleLabelMetric(num_classes=2, average=None, items=["recall"]), given) == {
        "recall_classwise": [0, 100]
    }
    metric = SingleLabelMetric()
    metric.process(None, [given[0], {**given[1], "num_classes": 5}])
    with pytest.raises(InvalidInputError, match=r"num_classes of the data samples are \[4, 5\]; they must be the same"):
        metric.compute_metrics(metric.results)
    with pytest.raises(AssertionError, match=r"The `num_classes` must be specified if no `pred_score`$"):
        SingleLabelMetric().process(None, [{"pred_label": 1, "gt_label": 0}])


def test_no_prediction_at_all_is_zero_with_a_warning():
    with undefined():
        found = SingleLabelMetric.calculate([[0.5, 0.4]], [0], thrs=0.9, average="micro")
    assert plain(found) == [[0.0, 0.0, 0.0, 1]]
    with silence():
        assert plain(SingleLabelMetric.calculate([[0.5, 0.4]], [0])) == [[50.0, 50.0, 50.0, 1]]


# What they have in common


@pytest.mark.parametrize("form", FORMS_OF_A_SAMPLE)
def test_data_samples_in_every_form_give_equal_results(form):
    score, label = digits()
    score, label = score[:99], label[:99]
    make = FORMS_OF_A_SAMPLE[form]
    for metric in (Accuracy((1, 3), (0.2, None)), SingleLabelMetric((0.2, None), num_classes=10)):
        for pred in ({"pred_score": score}, {"pred_label": score.argmax(axis=1)}):
            expected = evaluate(metric, samples(**pred, gt_label=label))
            metric.results.clear()
            forms = {name: [make(row) for row in column] for name, column in pred.items()}
            for labels in (label, label[:, None], label.astype(np.int32)):
                assert evaluate(metric, samples(**forms, gt_label=[make(each) for each in labels])) == expected
                metric.results.clear()


@pytest.mark.parametrize("form", FORMS)
def test_calculate_takes_every_form(form):
    score, label = digits()
    make = FORMS[form]
    for pred in (score, score.argmax(axis=1)):
        for labels in (label, label[:, None], label.astype(np.float32)):
            one = Accuracy.calculate(make(pred), make(labels), (1, 3), (0.25, None))
            assert plain(one) == plain(Accuracy.calculate(pred, label, (1, 3), (0.25, None)))
            two = SingleLabelMetric.calculate(make(pred), make(labels), (0.25, None), None, 10)
            assert plain(two) == plain(SingleLabelMetric.calculate(pred, label, (0.25, None), None, 10))


@pytest.mark.parametrize("seed", range(4))
def test_any_split_over_workers_gives_the_whole(seed):
    score, label = digits()
    workers = np.random.default_rng(seed).integers(0, [1, 2, 3, 9][seed], len(label))
    for pred in ({"pred_score": score - 0.2}, {"pred_label": score.argmax(axis=1)}):
        for metric in (
            Accuracy((1, 3), (0.2, None)),
            *(SingleLabelMetric((0.2, None), ("recall", "support"), average, 10) for average in AVERAGES),
        ):
            with pytest.warns(UserWarning) if "pred_score" in pred else silence():
                whole = evaluate(metric, samples(**pred, gt_label=label))
                assert evaluate_split(metric, metric.results, workers) == whole


def test_a_record_is_a_copy_with_the_names_of_mmpretrain():
    score, label, metric = np.array([0.25, 0.75]), np.array([1]), Accuracy()
    metric.process(None, [{"pred_score": score, "gt_label": label}])
    score[:], label[:] = 0, 0
    assert {name: plain(value) for name, value in metric.results[0].items()} == {
        "pred_score": [0.25, 0.75],
        "gt_label": [1],
    }


def test_inputs_are_left_as_they_are():
    score, label = (array.copy() for array in digits())
    SingleLabelMetric.calculate(score, label, (0.5,))
    Accuracy.calculate(score, label)
    assert (score == digits()[0]).all() and (label == digits()[1]).all()


def test_a_subclass_with_its_own_compute_metrics_gets_the_records():
    class Mine(Accuracy):
        def compute_metrics(self, results):
            return {"n": len(results), **super().compute_metrics(results)}

    evaluator = Evaluator(Mine())
    evaluator.process([{"pred_label": 1, "gt_label": 1}, {"pred_label": 1, "gt_label": 0}])
    assert evaluator.evaluate() == {"accuracy/n": 2, "accuracy/top1": 50.0}


def test_they_are_registered_and_have_mmpretrains_prefixes():
    evaluator = Evaluator([{"type": "Accuracy"}, {"type": "SingleLabelMetric", "items": ["recall"], "prefix": "mine"}])
    evaluator.process([{"pred_score": [0.25, 0.75], "gt_label": 1}])
    assert evaluator.evaluate() == {"accuracy/top1": 100.0, "mine/recall": 50.0}
    assert METRICS.get("SingleLabelMetric").default_prefix == "single-label"


# Bad input


@pytest.mark.parametrize("topk", [0, -1, 2.0, True, "1", None, (), (1, 0), (1, "2")])
def test_topk_must_be_whole_numbers_of_at_least_1(topk):
    with pytest.raises(InvalidInputError, match=r"topk( is empty|.* must be an integer of at least 1, not)"):
        Accuracy(topk=topk)
    with pytest.raises(InvalidInputError, match=r"topk( is empty|.* must be an integer)"):
        Accuracy.calculate([[0.5, 0.5]], [0], topk=topk)


@pytest.mark.parametrize("thrs", ["0.5", True, math.nan, math.inf, (0.1, "0.5"), [[0.1]]])
@pytest.mark.parametrize("kind", [Accuracy, SingleLabelMetric])
def test_thrs_must_be_finite_numbers_or_none(thrs, kind):
    with pytest.raises(InvalidInputError, match="thrs, or each of several, must be a finite number or None, not "):
        kind(thrs=thrs)
    with pytest.raises(InvalidInputError, match="thrs is empty"):
        kind.calculate([[0.5, 0.5]], [0], thrs=())


def test_more_than_the_classes_is_an_error_in_mmpretrains_words():
    text = "Top-5 accuracy is unavailable since the number of categories is 3"
    with pytest.raises(ValueError, match=f"{text}$") as error:
        Accuracy.calculate([[0.5, 0.3, 0.2]], [0], (1, 5))
    assert isinstance(error.value, InvalidInputError)
    with pytest.raises(ValueError, match=rf"{text}\. Please check the `val_evaluator` and `test_evaluator` fields"):
        evaluate(Accuracy(topk=5), [{"pred_score": [0.5, 0.3, 0.2], "gt_label": 0}])


@pytest.mark.parametrize("kind", [Accuracy, SingleLabelMetric])
@pytest.mark.parametrize("value", ["abc", b"1", {}, None, 3, 0.5, np.float32(1), object()])
def test_an_argument_that_is_not_an_array_is_a_type_error_in_mmpretrains_words(kind, value):
    for arguments in ((value, [0]), ([[0.5, 0.5]], value)):
        with pytest.raises(TypeError, match=r"<class '.*'> is not an available argument$"):
            kind.calculate(*arguments)


@pytest.mark.parametrize("kind", [Accuracy, SingleLabelMetric])
def test_unequal_lengths_are_an_assertion_in_mmpretrains_words(kind):
    with pytest.raises(AssertionError, match=r"The size of pred \(1\) doesn't match the target \(2\)$") as error:
        kind.calculate([[0.5, 0.5]], [0, 1])
    assert isinstance(error.value, AssertedInputError)
    with pytest.raises(AssertedInputError, match=r"The size of pred \(1\) doesn't match the target \(2\)"):
        kind().process(None, [{"pred_score": [0.5, 0.5], "gt_label": [0, 1]}])
    with pytest.raises(AssertedInputError, match=r"The size of pred \(2\) doesn't match the target \(1\)"):
        kind().process(None, [{"pred_label": [0, 1], "gt_label": 1}])


@pytest.mark.parametrize("kind", [Accuracy, SingleLabelMetric])
@pytest.mark.parametrize(
    "pred, target, message",
    [
        ([[0.5, 0.5]], [2], "target holds 2; with 2 classes, labels are 0 to 1"),
        ([[0.5, 0.5]], [-1], "target holds -1; with 2 classes, labels are 0 to 1"),
        ([[0.5, 0.5]], [0.7], "target holds 0.7; labels are whole numbers"),
        ([[0.5, 0.5]], [math.nan], "target holds nan; labels are whole numbers"),
        ([[0.5, 0.5]], [1e300], "target holds 1e[+]300; labels are whole numbers"),
        ([0.5], [0], "pred holds 0.5; labels are whole numbers"),
        ([[0.5, math.nan]], [0], "pred holds nan; scores are numbers"),
        ([[[0.5]]], [0], r"pred has shape \[1, 1, 1\]; scores have the shape \[n, classes\]"),
        ([[]], [0], r"pred has shape \[1, 0\]; scores have"),
        ([[0.5, 0.5]], [[0, 1]], r"target has shape \[1, 2\]; allowed are \[n\] and \[n, 1\]"),
        ([[0.5, 0.5], [0.5]], [0, 1], "pred has no rectangular array form"),
        (np.array(0.5), [0], "pred is one number"),
        (np.array(["a"]), [0], "pred must hold bools, integers or floats, not"),
    ],
)
def test_bad_values_name_the_argument_and_what_is_allowed(kind, pred, target, message):
    arguments = {"num_classes": 4} if kind is SingleLabelMetric else {}
    with pytest.raises(InvalidInputError, match=message):
        kind.calculate(pred, target, **arguments)


def test_bad_data_samples_name_the_entry():
    with pytest.raises(InvalidInputError, match=r"a data sample has no 'gt_label'; it has \['pred_score'\]"):
        Accuracy().process(None, [{"pred_score": [0.5, 0.5]}])
    with pytest.raises(InvalidInputError, match=r"a data sample has no 'pred_label'; it has \['gt_label'\]"):
        Accuracy().process(None, [{"gt_label": 1}])
    with pytest.raises(InvalidInputError, match=r"pred_score of a data sample has shape \[1, 2\]; allowed is"):
        Accuracy().process(None, [{"pred_score": [[0.5, 0.5]], "gt_label": 1}])
    with pytest.raises(AssertedInputError, match=r"The dims of value should be 1, but got 2: gt_label"):
        Accuracy().process(None, [{"pred_score": [0.5, 0.5], "gt_label": [[1]]}])
    with pytest.raises(InvalidInputError, match=r"pred_score has 2 entries in one data sample and 3 in another"):
        evaluate(Accuracy(), samples(pred_score=[[0.5, 0.5], [0.5, 0.3, 0.2]], gt_label=[0, 0]))
    for order in (1, -1):
        mixed = [{"pred_score": [0.5, 0.5], "gt_label": 0}, {"pred_label": 1, "gt_label": 0}][::order]
        with pytest.raises(InvalidInputError, match=r"some data samples have 'pred_.*' and others do not"):
            evaluate(Accuracy(), mixed)


def test_no_sample_of_a_bad_batch_is_kept():
    for metric in (Accuracy(), SingleLabelMetric(num_classes=2)):
        with pytest.raises(InvalidInputError):
            metric.process(None, [{"pred_label": 1, "gt_label": 1}, {"pred_label": 1}])
        assert metric.results == []


def test_settings_of_the_single_label_metric():
    with pytest.raises(
        AssertionError, match="The metric accuracy is not supported by `SingleLabelMetric`, please specify"
    ):
        SingleLabelMetric(items=("recall", "accuracy"))
    for items in ("recall", 1, None):
        with pytest.raises(AssertedInputError, match="items must be a sequence of names"):
            SingleLabelMetric(items=items)
    for average in ("weighted", "none", 0):
        for use in (lambda a: SingleLabelMetric(average=a), lambda a: SingleLabelMetric.calculate([0], [0], average=a)):
            with pytest.raises(AssertionError, match="Invalid `average` argument, please specify from"):
                use(average)
    for num_classes in (0, -1, 2.0, "2", True):
        with pytest.raises(InvalidInputError, match="num_classes must be an integer of at least 1, not"):
            SingleLabelMetric(num_classes=num_classes)
    with pytest.raises(AssertionError, match="Please specify the `num_classes` if the `pred` is labels"):
        SingleLabelMetric.calculate([0, 1], [0, 1])
    with pytest.raises(InvalidInputError, match="pred holds 3; with 2 classes, labels are 0 to 1"):
        SingleLabelMetric.calculate([3], [1], num_classes=2)
