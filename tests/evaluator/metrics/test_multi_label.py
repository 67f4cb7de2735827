"""MultiLabelMetric and AveragePrecision: MMPretrain's numbers where they are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from fleetmetrics.errors import AssertedInputError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluator import METRICS, Evaluator
from fleetmetrics.evaluator.metrics import AveragePrecision, MultiLabelMetric
from tests.evaluator.metrics.given import (
    FORMS,
    FORMS_OF_A_SAMPLE,
    Torch,
    close,
    evaluate,
    evaluate_split,
    plain,
    properties,
    samples,
    silence,
    undefined,
)

pytestmark = pytest.mark.numpy_only

AVERAGES = ["micro", "macro", None]
ALL = ("precision", "recall", "f1-score", "support")


def sklearn_shares(target, positive, average):
    *shares, support = precision_recall_fscore_support(target, positive, average=average, zero_division=0)
    return [*(100 * share for share in shares), target.sum() if support is None else support]


def ignoring(target, positive):
    """Precision, recall and F1 of every class where some samples do not count for some classes: one by one."""
    shares = []
    for truth, flags in zip(target.T, positive.T):
        counts = truth != -1
        shares.append(precision_recall_fscore_support(truth[counts], flags[counts], average="binary", zero_division=0))
    return [[100 * share[i] for share in shares] for i in range(3)]


def with_ignored(target, seed=0):
    target = target.copy()
    target[np.random.default_rng(seed).random(target.shape) < 0.2] = -1
    return target


# MultiLabelMetric


def test_mmpretrains_examples():
    found = MultiLabelMetric.calculate([[0], [1], [0, 1], [3]], [[0, 3], [0, 2], [1], [3]], True, True, num_classes=4)
    assert plain(found) == close([50.0, 50.0, 45.8333333333333333, 6])
    target = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    pred = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
    assert plain(MultiLabelMetric.calculate(pred, target)) == close([43.75, 31.25, 100 / 3, 8])
    score = [
        [0.4575, 0.7335, 0.3934, 0.2572],
        [0.1318, 0.1004, 0.8248, 0.6448],
        [0.8349, 0.6294, 0.7896, 0.2061],
        [0.4037, 0.7308, 0.6713, 0.8374],
        [0.3779, 0.4836, 0.0313, 0.0067],
    ]
    found = plain(MultiLabelMetric.calculate(score, target, thr=0.1))
    assert found == pytest.approx([42.5, 75.0, 53.1746, 8], abs=1e-4)
    found = plain(MultiLabelMetric.calculate(score, target, topk=1))
    assert found == pytest.approx([62.5, 31.25, 39.1667, 8], abs=1e-4)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("thr", [0.0, 0.25, 0.5])
def test_thresholds_equal_scikit_learn(thr, average):
    score, target = properties()
    found = MultiLabelMetric.calculate(score, target, average=average, thr=thr)
    assert plain(found) == close(sklearn_shares(target, (score >= thr).astype(int), average))


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("topk", [1, 2, 5])
def test_the_k_highest_equal_scikit_learn(topk, average):
    score, target = properties()
    score = np.round(score, 1)  # with ties: the lower class comes first
    positive = np.zeros_like(target)
    np.put_along_axis(positive, np.argsort(-score, axis=1, kind="stable")[:, :topk], 1, axis=1)
    found = MultiLabelMetric.calculate(score, target, average=average, topk=topk)
    assert plain(found) == close(sklearn_shares(target, positive, average))


def test_where_the_target_is_minus_1_the_sample_does_not_count_for_that_class():
    score, target = properties()[0], with_ignored(properties()[1])
    found = plain(MultiLabelMetric.calculate(score, target, average=None, thr=0.4))
    assert found[:3] == close(ignoring(target, score >= 0.4))
    assert found[3] == (target == 1).sum(axis=0).tolist()


@pytest.mark.parametrize(
    "settings, ending",
    [
        ({"thr": 0.5}, ""),
        ({"thr": 0.3}, "_thr-0.30"),
        ({"topk": 2}, "_top2"),
        ({"thr": 0.0}, "_thr-0.00"),  # MMPretrain: _topNone
        ({"thr": 0}, "_thr-0.00"),
        ({"thr": 0.5, "average": "micro"}, "_micro"),
        ({"thr": 0.3, "average": "micro"}, "_thr-0.30_micro"),
        ({"thr": 0.0, "average": "micro"}, "_thr-0.00_micro"),
        ({"topk": 1, "average": None}, "_top1_classwise"),
    ],
)
def test_results_are_named_as_in_mmpretrain(settings, ending):
    score, target = properties()
    metric = MultiLabelMetric(**settings, items=ALL)
    found = evaluate(metric, samples(pred_score=score, gt_score=target))
    assert list(found) == [item + ending for item in ALL]
    assert list(found.values()) == plain(MultiLabelMetric.calculate(score, target, **{"average": "macro", **settings}))


def test_a_threshold_of_zero_wins_over_topk_in_number_and_name():
    with pytest.warns(UserWarning, match="Both thr and topk are given, use threshold in favor of top-k$"):
        metric = MultiLabelMetric(thr=0.0, topk=1, items=["recall"], average="micro")
    given = [{"pred_score": [0.5, 0.25, -0.25], "gt_score": [1, 1, 1]}]
    assert evaluate(metric, given) == {"recall_thr-0.00_micro": close(200 / 3)}


def test_without_threshold_and_topk_it_is_one_half_with_a_warning():
    with pytest.warns(UserWarning, match="Neither thr nor k is given, set thr as 0.5 by default$"):
        metric = MultiLabelMetric()
    assert (metric.thr, metric.topk) == (0.5, None)
    assert list(evaluate(metric, [{"pred_score": [0.5], "gt_label": 0}])) == ["precision", "recall", "f1-score"]


def test_a_label_that_comes_twice_counts_once():
    found = MultiLabelMetric.calculate([[0], [1]], [[0, 0], [1, 1]], True, True, num_classes=2)
    assert plain(found) == [100.0, 100.0, 100.0, 2]
    given = [{"pred_score": [0.9, 0.1], "gt_label": [0, 0]}]
    assert evaluate(MultiLabelMetric(thr=0.5, items=ALL, average="micro"), given)["support_micro"] == 1
    assert evaluate(AveragePrecision(average=None), [*given, {"pred_score": [0.1, 0.9], "gt_label": [1]}]) == {
        "AP_classwise": [100.0, 100.0]
    }


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
def test_calculate_leaves_its_arguments_as_they_are(dtype):
    score, target = properties()[0].copy(), with_ignored(properties()[1]).astype(dtype)
    kept = score.copy(), target.copy()
    MultiLabelMetric.calculate(score, target, thr=0.5)
    AveragePrecision.calculate(score, target)
    np.testing.assert_array_equal(score, kept[0])
    np.testing.assert_array_equal(target, kept[1])


def test_indices_in_an_array_are_indices():
    rows = np.array([[0, 1], [0, 1]])
    found = MultiLabelMetric.calculate(rows, rows[:, ::-1], True, True, num_classes=2)
    assert plain(found) == [100.0, 100.0, 100.0, 4]
    found = MultiLabelMetric.calculate(np.array([0, 2]), [0, 1], True, True, average="micro", num_classes=3)
    assert plain(found) == [50.0, 50.0, 50.0, 2]


def test_samples_may_have_no_labels():
    found = MultiLabelMetric.calculate([[], [1]], [[], [1]], True, True, average=None, num_classes=2)
    assert plain(found)[1:] == [[0.0, 100.0], [0.0, 100.0], [0, 1]]
    with undefined():
        found = evaluate(MultiLabelMetric(thr=0.5, items=ALL), [{"pred_score": [0.9, 0.1], "gt_label": []}])
    assert found == {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}


def test_what_is_wholly_undefined_is_zero_or_nan_with_a_warning():
    with pytest.warns(UndefinedMetricWarning, match="precision is undefined: no class is predicted for any sample"):
        assert plain(MultiLabelMetric.calculate([[0.1]], [[1]])) == [0.0, 0.0, 0.0, 1]
    with pytest.warns(UndefinedMetricWarning, match="recall is undefined: no class is true for any sample"):
        assert plain(MultiLabelMetric.calculate([[0.9]], [[0]])) == [0.0, 0.0, 0.0, 0]
    with silence():  # one class of two, as in MMPretrain
        assert plain(MultiLabelMetric.calculate([[0.9, 0.1]], [[1, 0]])) == [50.0, 50.0, 50.0, 1]
    with pytest.warns(UndefinedMetricWarning, match="there are no samples"):
        found = plain(MultiLabelMetric.calculate(np.zeros([0, 2]), np.zeros([0, 2]), average="micro"))
    assert all(map(math.isnan, found[:3])) and found[3] == 0
    with undefined():
        assert math.isnan(MultiLabelMetric(thr=0.5).compute_metrics([])["recall"])


# AveragePrecision


def test_average_precision_of_mmpretrains_example():
    score = [[0.9, 0.8, 0.3, 0.2], [0.1, 0.2, 0.2, 0.1], [0.7, 0.5, 0.9, 0.3], [0.8, 0.1, 0.1, 0.2]]
    target = [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    with pytest.warns(UndefinedMetricWarning, match="1 of 4 classes has no positive sample"):
        assert plain(AveragePrecision.calculate(score, target)) == close(70.8333333333333333)
    with undefined():
        found = evaluate(AveragePrecision(average=None), samples(pred_score=score, gt_score=target))
    assert found == {"AP_classwise": close([100.0, 250 / 3, 100.0, 0.0])}


@pytest.mark.parametrize("digits", [9, 2, 1])
def test_average_precision_equals_scikit_learn_with_ties_too(digits):
    score, target = properties()
    score = np.round(score.astype(np.float64), digits)
    expected = 100 * average_precision_score(target, score, average=None)
    assert plain(AveragePrecision.calculate(score, target, average=None)) == close(expected)
    assert plain(AveragePrecision.calculate(score, target)) == close(expected.mean())


def test_average_precision_does_not_depend_on_the_order_of_the_samples():
    score, target = np.round(properties()[0], 1), properties()[1]
    expected = plain(AveragePrecision.calculate(score, target, None))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(score))
        assert plain(AveragePrecision.calculate(score[order], target[order], None)) == expected
    for place in range(4):  # MMPretrain: 100, 50, 33.3 and 25
        assert plain(AveragePrecision.calculate(np.full([4, 1], 0.5), np.eye(4)[:, [place]])) == 25.0


def test_average_precision_leaves_out_ignored_samples():
    score, target = properties()[0], with_ignored(properties()[1])
    expected = [100 * average_precision_score(t[t != -1], s[t != -1]) for s, t in zip(score.T, target.T)]
    assert plain(AveragePrecision.calculate(score, target, None)) == close(expected)
    assert evaluate(AveragePrecision(), samples(pred_score=score, gt_score=target)) == {"mAP": close(np.mean(expected))}


@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_average_precision_is_float64_for_scores_of_any_dtype(dtype):
    score, target = properties()
    score = (score * 8).astype(dtype)
    expected = 100 * average_precision_score(target, score.astype(np.float64), average=None)
    assert plain(AveragePrecision.calculate(score, target, None)) == close(expected)


def test_average_precision_without_positives_or_samples():
    with pytest.warns(UndefinedMetricWarning, match="2 of 2 classes have no positive sample; the value is 0.0"):
        assert plain(AveragePrecision.calculate([[0.5, 0.5]], [[0, -1]], None)) == [0.0, 0.0]
    with pytest.warns(UndefinedMetricWarning, match="there are no samples; the value is nan"):
        assert math.isnan(AveragePrecision.calculate(np.zeros([0, 2]), np.zeros([0, 2])))
    with undefined():
        assert math.isnan(AveragePrecision().compute_metrics([])["mAP"])


# What they have in common


@pytest.mark.parametrize("form", FORMS_OF_A_SAMPLE)
def test_data_samples_in_every_form_give_equal_results(form):
    score, target = properties()[0][:99], properties()[1][:99]
    make = FORMS_OF_A_SAMPLE[form]
    pred = [make(row) for row in score]
    for metric in (MultiLabelMetric(thr=0.25), MultiLabelMetric(topk=2, average=None), AveragePrecision(None)):
        expected = evaluate(metric, samples(pred_score=score, gt_score=target))
        for truth in (target, target.astype(bool), target.astype(np.float32)):
            metric.results.clear()
            assert evaluate(metric, samples(pred_score=pred, gt_score=[make(row) for row in truth])) == expected
        metric.results.clear()
        labels = [make(np.flatnonzero(row)) for row in target]
        assert evaluate(metric, samples(pred_score=pred, gt_label=labels)) == expected


@pytest.mark.parametrize("form", FORMS)
def test_calculate_takes_every_form(form):
    score, target = properties()
    make, labels = FORMS[form], [np.flatnonzero(row) for row in target]
    expected = plain(MultiLabelMetric.calculate(score, target, thr=0.25))
    assert plain(MultiLabelMetric.calculate(make(score), make(target), thr=0.25)) == expected
    rows = [make(row) for row in labels]
    assert plain(MultiLabelMetric.calculate(make(score), rows, False, True, "macro", 0.25, None, 5)) == expected
    both = MultiLabelMetric.calculate(rows, rows, True, True, num_classes=5, average=None)
    assert plain(both) == [[100.0] * 5] * 3 + [target.sum(axis=0).tolist()]
    expected = plain(AveragePrecision.calculate(score, target, None))
    assert plain(AveragePrecision.calculate(make(score), make(target), None)) == expected
    if form == "paddle":  # a list of tensors
        assert plain(AveragePrecision.calculate([make(row) for row in score], make(target), None)) == expected


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("settings", [{"thr": 0.25}, {"topk": 2}])
def test_any_split_over_workers_gives_the_whole(settings, average):
    score, target = properties()[0], with_ignored(properties()[1])
    metric = MultiLabelMetric(**settings, average=average, items=ALL)
    whole = evaluate(metric, samples(pred_score=score, gt_score=target))
    for workers in (1, 2, 7):
        part = np.random.default_rng(workers).integers(0, workers, len(score))
        assert evaluate_split(metric, metric.results, part) == whole


def test_records_are_copies_with_the_names_of_mmpretrain():
    score, target = np.array([0.25, 0.75]), np.array([1.0, -1.0])
    metric = AveragePrecision()
    metric.process(None, [{"pred_score": score, "gt_score": target}, {"pred_score": Torch(score), "gt_label": [0]}])
    score[:], target[:] = 0, 0
    assert [{name: plain(value) for name, value in record.items()} for record in metric.results] == [
        {"pred_score": [0.25, 0.75], "gt_score": [1, -1]},
        {"pred_score": [0.25, 0.75], "gt_score": [1, 0]},
    ]


def test_they_are_registered_and_have_mmpretrains_prefixes():
    evaluator = Evaluator([{"type": "MultiLabelMetric", "thr": 0.5, "items": ["recall"]}, {"type": "AveragePrecision"}])
    evaluator.process([{"pred_score": [0.25, 0.75], "gt_label": [1, 0]}])
    assert evaluator.evaluate() == {"multi-label/recall": 50.0, "multi-label/mAP": 100.0}
    assert METRICS.get("AveragePrecision") is AveragePrecision


# Bad input


@pytest.mark.parametrize(
    "use", [lambda **s: MultiLabelMetric(**s), lambda **s: MultiLabelMetric.calculate([[1]], [[1]], **s)]
)
def test_bad_settings(use):
    for topk in (0, -1, 1.0, True, "1", (1,), [1, 2]):
        with pytest.raises(InvalidInputError, match="topk must be an integer of at least 1, not"):
            use(topk=topk)
    for thr in ("0.5", math.nan, True, (0.5,)):
        with pytest.raises(InvalidInputError, match="thr must be a finite number or None, not"):
            use(thr=thr)
    with pytest.raises(AssertionError, match="Invalid `average` argument"):
        use(thr=0.5, average="samples")


def test_bad_items_and_averages():
    with pytest.raises(
        AssertionError, match="The metric mAP is not supported by `MultiLabelMetric`, please specify from"
    ):
        MultiLabelMetric(thr=0.5, items=["mAP"])
    for average in ("micro", "weighted"):
        with pytest.raises(AssertionError, match=r"Invalid `average` argument, please specify from \['macro', None\]"):
            AveragePrecision(average)
        with pytest.raises(AssertionError, match="Invalid `average` argument"):
            AveragePrecision.calculate([[1]], [[1]], average)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[1]], [[1, 0]]), r"The size of pred \(\(1, 1\)\) doesn't match the target \(\(1, 2\)\)$"),
        (
            ([[1]], [[1]], False, False, None, None, None, 2),
            r"The shape of `pred` \(\(1, 1\)\) doesn't match the num_classes",
        ),
        (([1], [[1]]), r"The shape `pred` and `target` array must be \(N, num_classes\)$"),
        ((np.zeros([1, 1]), np.zeros(1)), r"The shape `pred` and `target` array must be \(N, num_classes\)$"),
        (([[1]], [[1]], True), "For index-type labels, please specify `num_classes`$"),
        (([[1]], [[1]], False, True), "For index-type labels, please specify `num_classes`$"),
    ],
)
def test_what_mmpretrain_asserts_is_an_assertion(arguments, message):
    with pytest.raises(AssertionError, match=message) as error:
        MultiLabelMetric.calculate(*arguments)
    assert isinstance(error.value, AssertedInputError)


@pytest.mark.parametrize("value", ["ab", {}, None, 1, 0.5])
def test_an_argument_that_is_not_an_array_is_a_type_error_in_mmpretrains_words(value):
    words = "must be type of torch.tensor or np.ndarray or sequence but get|is not an available argument"
    for arguments in ((value, [[1]]), ([[1]], value), (value, [[1]], True, True, None, None, None, 2)):
        with pytest.raises(TypeError, match=words):
            MultiLabelMetric.calculate(*arguments)
    with pytest.raises(TypeError, match=words):
        AveragePrecision.calculate(value, [[1]])


@pytest.mark.parametrize("calculate", [MultiLabelMetric.calculate, AveragePrecision.calculate])
@pytest.mark.parametrize(
    "pred, target, message",
    [
        ([[0.5, 0.5]], [[0.7, 0.0]], "target holds 0.7; allowed are 1, 0, and -1 for ignored"),
        ([[0.5, 0.5]], [[2, 0]], "target holds 2; allowed are"),
        ([[0.5, 0.5]], [[-2, 0]], "target holds -2; allowed are"),
        ([[0.5, 0.5]], [[math.nan, 0]], "target holds nan; allowed are"),
        ([[0.5, math.nan]], [[1, 0]], "pred holds nan; scores are numbers"),
        ([[]], [[]], r"pred has shape \[1, 0\]; scores have the shape"),
        ([[0.5], [0.5, 0.5]], [[1], [1]], "pred has no rectangular array form"),
    ],
)
def test_bad_values_name_the_argument_and_what_is_allowed(calculate, pred, target, message):
    with pytest.raises(InvalidInputError, match=message):
        calculate(pred, target)


def test_bad_shapes_for_average_precision():
    for pred, target in [([0.5], [1]), ([[0.5]], [[1, 0]]), ([[0.5]], [[1], [0]])]:
        with pytest.raises(AssertionError, match=r"Both `pred` and `target` should have shape `\(N, num_classes\)`$"):
            AveragePrecision.calculate(pred, target)


def test_more_than_the_classes_is_an_error():
    with pytest.raises(InvalidInputError, match="topk is 3, but there are only 2 classes"):
        MultiLabelMetric.calculate([[0.5, 0.5]], [[1, 0]], topk=3)


@pytest.mark.parametrize("metric", [MultiLabelMetric(thr=0.5), AveragePrecision()])
@pytest.mark.parametrize(
    "sample, message",
    [
        ({"gt_label": 1}, r"a data sample has no 'pred_score'; it has \['gt_label'\]"),
        ({"pred_score": [0.5, 0.5]}, "a data sample has no 'gt_label'"),
        ({"pred_score": [[0.5, 0.5]], "gt_label": 1}, r"pred_score of a data sample has shape \[1, 2\]"),
        ({"pred_score": [0.5, 0.5], "gt_score": [1]}, "gt_score of a data sample has 1 entry, its pred_score 2"),
        ({"pred_score": [0.5, 0.5], "gt_score": [1, 3]}, "gt_score holds 3; allowed are"),
        ({"pred_score": [0.5, 0.5], "gt_label": [2]}, "gt_label holds 2; with 2 classes, labels are 0 to 1"),
        ({"pred_score": [0.5, 0.5], "gt_label": [-1]}, "gt_label holds -1; with 2 classes"),
        ({"pred_score": [0.5, 0.5], "gt_label": [[1]]}, "The dims of value should be 1, but got 2"),
    ],
)
def test_bad_data_samples_name_the_entry(metric, sample, message):
    with pytest.raises(InvalidInputError, match=message):
        metric.process(None, [{"pred_score": [0.5, 0.5], "gt_label": 1}, sample])
    assert metric.results == []  # none of a bad batch is kept


# -- predicted labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", ["gt_score", "gt_label"])
@pytest.mark.parametrize("settings", [{}, {"thr": 0.0}, {"topk": 1}, {"average": None}])
def test_predicted_labels_mean_classes_at_any_threshold(truth, settings):
    score, target = properties()
    pred = [np.flatnonzero(row >= 0.5) for row in score]
    known = {"gt_score": target} if truth == "gt_score" else {"gt_label": [np.flatnonzero(row) for row in target]}
    metric = MultiLabelMetric(**{"thr": 0.5, **settings} if settings != {"topk": 1} else settings)
    found = evaluate(metric, samples(pred_label=pred, num_classes=[5] * len(pred), **known))
    expected = MultiLabelMetric.calculate(score, target, thr=0.5, average=settings.get("average", "macro"))
    assert close(list(found.values())) == close(list(expected[:3]))


def test_predicted_labels_need_the_number_of_classes():
    metric = MultiLabelMetric(thr=0.5)
    metric.process(None, [{"pred_label": 1, "gt_score": [0, 1, 1]}])  # which the true scores tell
    with pytest.raises(AssertionError, match="Please specify the `num_classes`"):
        metric.process(None, [{"pred_label": [0, 1], "gt_label": 1}])
    with pytest.raises(InvalidInputError, match="pred_label holds 3; with 3 classes"):
        metric.process(None, [{"pred_label": [3], "gt_score": [0, 1, 1]}])
    with pytest.raises(InvalidInputError, match="a data sample has no 'pred_score'"):
        AveragePrecision().process(None, [{"pred_label": [0], "gt_score": [0, 1, 1]}])
    assert metric.evaluate(1)["multi-label/recall"] == pytest.approx(100 / 3)
