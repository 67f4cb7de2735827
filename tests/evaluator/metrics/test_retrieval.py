"""RetrievalRecall and RetrievalAveragePrecision: MMPretrain's numbers where they are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fleetmetrics.errors import AssertedInputError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluator import METRICS, Evaluator
from fleetmetrics.evaluator.metrics import RetrievalAveragePrecision, RetrievalRecall
from tests.evaluator.metrics.given import (
    FORMS,
    FORMS_OF_A_SAMPLE,
    close,
    evaluate,
    evaluate_split,
    plain,
    samples,
    silence,
    similar,
)

pytestmark = pytest.mark.numpy_only


def ranked(score):
    return np.argsort(-score, axis=1, kind="stable")


def brute_recall(score, target, k):
    hits = [bool(target[query][order[:k]].any()) for query, order in enumerate(ranked(score))]
    return 100 * sum(hits) / len(hits)


def brute_average_precision(score, target, k, mode="IR"):
    values = []
    for query, order in enumerate(ranked(score)):
        hits, found, before = 0, 0.0, 1.0
        for place, item in enumerate(order[:k], 1):
            hits += int(target[query, item])
            precision = hits / place
            if target[query, item]:
                found += precision if mode == "IR" else (precision + before) / 2
            before = precision
        values.append(found / target[query].sum())
    return 100 * math.fsum(values) / len(values)


def test_mmpretrains_examples():
    found = RetrievalRecall.calculate([[0], [1], [2], [3]], [[0, 1], [2], [1], [0, 3]], 1, True, True)
    assert plain(found) == [50.0]
    target = [[0, 3, 6, 8, 35], [1, 2, 54, 105], [2, 42, 205]]
    found = RetrievalAveragePrecision.calculate([list(range(100))] * 3, target, 10, True, True)
    assert found == close(29.246031746031747)
    pred, target = np.array([np.linspace(0.95, 0.05, 10)] * 2), [[1, 0, 1, 0, 0, 1, 0, 0, 1, 1]] * 2
    assert RetrievalAveragePrecision.calculate(pred, target, 10) == close(62.222222222222214)


@pytest.mark.parametrize("decimals", [9, 1])  # with ties too: the lower item comes first
def test_recall_equals_brute_force(decimals):
    score, target = np.round(similar()[0], decimals), similar()[1]
    expected = {f"Recall@{k}": brute_recall(score, target, k) for k in (1, 2, 5, 400)}
    assert evaluate(RetrievalRecall((1, 2, 5, 400)), samples(pred_score=score, gt_score=target)) == close(expected)
    assert plain(RetrievalRecall.calculate(score, target, (1, 2, 5, 400))) == close(list(expected.values()))


@pytest.mark.parametrize("mode", ["IR", "integrate"])
@pytest.mark.parametrize("decimals", [9, 1])
@pytest.mark.parametrize("k", [1, 10, 399, 400])
def test_average_precision_equals_brute_force(k, decimals, mode):
    score, target = np.round(similar()[0], decimals), similar()[1]
    expected = brute_average_precision(score, target, k, mode)
    found = evaluate(RetrievalAveragePrecision(k, mode), samples(pred_score=score, gt_score=target))
    assert found == {f"mAP@{k}": close(expected)}
    assert RetrievalAveragePrecision.calculate(score, target, k, mode=mode) == close(expected)


def test_indices_equal_scores():
    score, target = similar()
    order, items = ranked(score), [np.flatnonzero(row).tolist() for row in target]
    for pred in (order, order.tolist(), [row.astype(np.float32) for row in order]):
        for truth, indices in ((target, False), (items, True)):
            found = RetrievalRecall.calculate(pred, truth, (1, 5), True, indices)
            assert plain(found) == plain(RetrievalRecall.calculate(score, target, (1, 5)))
            found = RetrievalAveragePrecision.calculate(pred, truth, 50, True, indices)
            assert found == RetrievalAveragePrecision.calculate(score, target, 50)
    found = RetrievalAveragePrecision.calculate(score, items, 50, False, True)
    assert found == RetrievalAveragePrecision.calculate(score, target, 50)


def test_every_positive_target_is_relevant():
    score, target = similar()
    grades = target * 0.5
    assert plain(RetrievalRecall.calculate(score, grades, 3)) == plain(RetrievalRecall.calculate(score, target, 3))
    found = evaluate(RetrievalAveragePrecision(9), samples(pred_score=score, gt_score=grades))
    assert found == evaluate(RetrievalAveragePrecision(9), samples(pred_score=score, gt_score=target))


def test_answers_may_be_fewer_than_k():
    assert plain(RetrievalRecall.calculate([[7], []], [[7], [7]], (1, 3), True, True)) == [50.0, 50.0]
    assert RetrievalAveragePrecision.calculate([[7, 1], []], [[7, 8], [7]], 9, True, True) == 25.0


@pytest.mark.parametrize("metric", [RetrievalRecall.calculate, RetrievalAveragePrecision.calculate])
def test_calculate_leaves_its_arguments_as_they_are(metric):
    pred, target = [[0, 1, 2], [1, 2, 0]], [[2], [0]]
    metric(pred, target, 1, True, True)
    assert (pred, target) == ([[0, 1, 2], [1, 2, 0]], [[2], [0]])
    assert plain(RetrievalRecall.calculate(pred, target, 3, True, True)) == [100.0]  # MMPretrain: 0
    assert RetrievalRecall.calculate(((0, 1),), ((1,),), 2, True, True) == [100.0]  # tuples, too


def test_an_item_that_comes_twice_counts_once():
    assert RetrievalAveragePrecision.calculate([[0, 0]], [[0]], 2, True, True) == 100.0  # MMPretrain: 200
    assert RetrievalAveragePrecision.calculate([[0, 1]], [[0, 0]], 2, True, True) == 100.0  # MMPretrain: 50
    assert RetrievalAveragePrecision.calculate([[5, 5, 0]], [[0]], 3, True, True) == close(100 / 3)
    given = [{"pred_score": [0.9, 0.1], "gt_label": [0, 0]}]
    assert evaluate(RetrievalAveragePrecision(2), given) == {"mAP@2": 100.0}


def test_a_query_to_which_nothing_is_relevant_counts_as_zero_with_a_warning():
    words = "is undefined for 1 of 2 queries, which have no relevant item; they count as 0"
    given = [{"pred_score": [0.9, 0.1], "gt_score": [1, 0]}, {"pred_score": [0.9, 0.1], "gt_score": [0, 0]}]
    for metric, expected in ((RetrievalRecall(1), {"Recall@1": 50.0}), (RetrievalAveragePrecision(1), {"mAP@1": 50.0})):
        with pytest.warns(UndefinedMetricWarning, match=words):
            assert evaluate(metric, given) == expected
        with pytest.warns(UndefinedMetricWarning, match=words):
            assert plain(metric.calculate([[0, 1], [0]], [[0], []], 1, True, True)) in (50.0, [50.0])
    with silence():
        assert evaluate(RetrievalRecall(1), given[:1]) == {"Recall@1": 100.0}


def test_no_queries_are_nan_with_a_warning():
    for metric in (RetrievalRecall(1), RetrievalAveragePrecision(1)):
        metric.process(None, [])
        with pytest.warns(UndefinedMetricWarning, match="there are no samples"):
            assert all(map(math.isnan, metric.compute_metrics(metric.results).values()))
        with pytest.warns(UndefinedMetricWarning):
            assert np.isnan(metric.calculate([], [], 1, True, True)).all()


@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_split_over_workers_gives_the_whole(workers, k):
    score, target = similar()
    part = np.random.default_rng(workers).integers(0, workers, len(score))
    metric = RetrievalRecall((1, k))
    whole = evaluate(metric, samples(pred_score=score, gt_score=target))
    assert evaluate_split(metric, metric.results, part) == close(whole)
    for metric in (RetrievalAveragePrecision(k), RetrievalAveragePrecision(k, "integrate")):  # its records travel
        whole = evaluate(metric, samples(pred_score=score, gt_score=target))
        records = [metric.results[i] for i in np.argsort(part, kind="stable")]
        assert metric.compute_metrics(records) == whole  # of the global queries, to the last bit


def test_the_results_do_not_depend_on_the_batches():
    score, target = similar()
    for make in (lambda: RetrievalRecall((1, 3)), lambda: RetrievalAveragePrecision(20, "integrate")):
        one, other = (evaluate(make(), samples(pred_score=score, gt_score=target), size) for size in (1, 80))
        assert one == other


def test_queries_may_have_galleries_of_their_own():
    given = [{"pred_score": [0.9, 0.1], "gt_label": 1}, {"pred_score": [0.9, 0.1, 0.5], "gt_label": [0, 2]}]
    assert evaluate(RetrievalRecall((1, 2)), given) == {"Recall@1": 50.0, "Recall@2": 100.0}
    assert evaluate(RetrievalAveragePrecision(2), given) == {"mAP@2": 75.0}


def test_scores_of_minus_infinity_come_last():
    assert plain(RetrievalRecall.calculate([[-math.inf, 0.1, -math.inf]], [[0, 0, 1]], (1, 2, 3))) == [0.0, 0.0, 100.0]


def test_compute_metrics_is_that_of_the_records_it_is_given():
    metric = RetrievalAveragePrecision(1)
    metric.process(None, [{"pred_score": [0.9, 0.1], "gt_label": 0}, {"pred_score": [0.9, 0.1], "gt_label": 1}])
    assert metric.compute_metrics(metric.results * 2 + metric.results[:1]) == {"mAP@1": 60.0}


@pytest.mark.parametrize("form", FORMS_OF_A_SAMPLE)
def test_data_samples_in_every_form_give_equal_results(form):
    score, target = similar()[0][:20, :60], similar()[1][:20, :60]
    make = FORMS_OF_A_SAMPLE[form]
    pred = [make(row) for row in score]
    for metric in (RetrievalRecall((1, 3)), RetrievalAveragePrecision(9)):
        expected = evaluate(metric, samples(pred_score=score, gt_score=target))
        for truth in (target, target.astype(bool), target.astype(np.float32)):
            metric.results.clear()
            assert evaluate(metric, samples(pred_score=pred, gt_score=[make(row) for row in truth])) == expected
        metric.results.clear()
        labels = [make(np.flatnonzero(row)) for row in target]
        assert evaluate(metric, samples(pred_score=pred, gt_label=labels)) == expected


@pytest.mark.parametrize("form", FORMS)
def test_calculate_takes_every_form(form):
    score, target = similar()
    make = FORMS[form]
    found = RetrievalRecall.calculate(make(score), make(target), (1, 3))
    assert plain(found) == plain(RetrievalRecall.calculate(score, target, (1, 3)))
    expected = RetrievalAveragePrecision.calculate(score, target, 30)
    assert RetrievalAveragePrecision.calculate(make(score), make(target), 30) == expected
    rows, items = [make(row) for row in ranked(score)], [make(np.flatnonzero(row)) for row in target]
    assert RetrievalAveragePrecision.calculate(rows, items, 30, True, True) == expected
    assert RetrievalAveragePrecision.calculate(make(ranked(score)), items, 30, True, True) == expected


def test_they_are_registered_and_have_mmpretrains_prefix():
    evaluator = Evaluator([{"type": "RetrievalRecall", "topk": 1}, {"type": "RetrievalAveragePrecision", "topk": 2}])
    evaluator.process([{"pred_score": [0.25, 0.75], "gt_label": 0}])
    assert evaluator.evaluate() == {"retrieval/Recall@1": 0.0, "retrieval/mAP@2": 50.0}
    assert METRICS.get("RetrievalRecall") is RetrievalRecall


# Bad input


@pytest.mark.parametrize("topk", [0, -1, 2.0, True, "1", None, (), (1, 0)])
def test_topk_must_be_larger_than_0(topk):
    for use in (RetrievalRecall, lambda k: RetrievalRecall.calculate([[0]], [[0]], k, True, True)):
        with pytest.raises(ValueError, match=r"topk( is empty|.* must be an integer of at least 1, not)"):
            use(topk)


@pytest.mark.parametrize("topk", [0, -1, 2.0, True, "1", None, (1,), [1, 5]])
def test_topk_of_average_precision_is_one_number(topk):
    for use in (RetrievalAveragePrecision, lambda k: RetrievalAveragePrecision.calculate([[0]], [[0]], k, True, True)):
        with pytest.raises(ValueError, match=r"^`topk` must be an integer of at least 1, not"):
            use(topk)
    with pytest.raises(InvalidInputError, match=r"^`topk` must be a"):
        RetrievalAveragePrecision()


def test_mode_must_be_known():
    for use in (
        lambda mode: RetrievalAveragePrecision(1, mode),
        lambda mode: RetrievalAveragePrecision.calculate([[0]], [[0]], 1, True, True, mode),
    ):
        for mode in ("ir", None, 1):
            with pytest.raises(
                AssertionError, match=r"Invalid `mode` argument, please specify from \['IR', 'integrate'\]"
            ):
                use(mode)


def test_k_can_be_at_most_the_number_of_items():
    for metric in (RetrievalRecall(3), RetrievalAveragePrecision(3)):
        with pytest.raises(InvalidInputError, match="topk is 3, but there are scores of only 2 items"):
            metric.process(None, [{"pred_score": [0.5, 0.5], "gt_label": 0}])
        with pytest.raises(InvalidInputError, match="topk is 3, but there are scores of only 2 items"):
            metric.calculate(np.zeros([1, 2]), np.ones([1, 2]), 3)


@pytest.mark.parametrize("metric", [RetrievalRecall.calculate, RetrievalAveragePrecision.calculate])
@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[0]], [[1], [2]], 1, True, True), r"Length of `pred`\(1\) and `target` \(2\) must be the same$"),
        (({}, [[1]], 1, True, True), "`pred` must be Sequence of indices when `pred_indices` set to True, but get"),
        (("ab", [[1]], 1, True, True), "`pred` must be Sequence of indices when `pred_indices` set to True, but get"),
        (([[0]], 1, 1, True, True), "`target` must be Sequence of indices when `target_indices` set to True, but get"),
        (([0], [[1]], 1, True, True), r"`pred` should be Sequence of indices .* but pred\[0\] is 0"),
        (([["a"]], [[1]], 1, True, True), "pred must hold bools, integers or floats"),
        (([[0]], ["a"], 1, True, True), r"`target` should be Sequence of indices .* but target\[0\] is a"),
    ],
)
def test_what_mmpretrain_asserts_is_an_assertion(metric, arguments, message):
    with pytest.raises(InvalidInputError, match=message) as error:
        metric(*arguments)
    assert isinstance(error.value, AssertedInputError) or "must hold" in message


@pytest.mark.parametrize("metric", [RetrievalRecall.calculate, RetrievalAveragePrecision.calculate])
def test_a_sequence_of_integers_without_pred_indices_is_a_type_error(metric):
    with pytest.raises(TypeError, match=r"The pred must be type of .* set `pred_indices` to True"):
        metric([[0], [1]], [[0], [1]], 1)
    for value in ("ab", {}, None, 3):
        with pytest.raises(TypeError, match="is not an available argument"):
            metric(value, [[1]], 1)
        with pytest.raises(TypeError, match="is not an available argument"):
            metric(np.ones([1, 1]), value, 1)


@pytest.mark.parametrize("metric", [RetrievalRecall.calculate, RetrievalAveragePrecision.calculate])
@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[0.5, math.nan]], [[1, 0]], 1), "pred holds nan; scores are numbers"),
        (([[0.5, 0.5]], [[-1, 1]], 1), "target holds -1; it must be 0 for an irrelevant item, else positive"),
        (([[0.5, 0.5]], [[math.nan, 1]], 1), "target holds nan; it must be 0"),
        (([[0.5, 0.5]], [[1]], 1), "target has 1 items, pred has scores of 2"),
        (([[0.5, 0.5]], [1], 1), r"target has shape \[1\]; allowed is \[queries, items\]"),
        (([0.5, 0.5], [[1], [1]], 1), r"pred has shape \[2\]; scores have the shape"),
        (([[0.5, 0.5]], [[2]], 1, False, True), "target holds 2; with 2 classes, labels are 0 to 1"),
        (([[-1]], [[0]], 1, True, True), r"pred\[0\] holds -1; indices of items are at least 0"),
        (([[1]], [[0, -1]], 1, True, True), r"target\[0\] holds -1; indices of items are at least 0"),
        (([[0.5]], [[0]], 1, True, True), "pred holds 0.5; labels are whole numbers"),
    ],
)
def test_bad_values_name_the_argument_and_what_is_allowed(metric, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        metric(*arguments)


@pytest.mark.parametrize("metric", [RetrievalRecall(1), RetrievalAveragePrecision(1)])
@pytest.mark.parametrize(
    "sample, message",
    [
        ({"gt_label": 1}, r"a data sample has no 'pred_score'; it has \['gt_label'\]"),
        ({"pred_score": [0.5, 0.5]}, "a data sample has no 'gt_label'"),
        ({"pred_score": [[0.5, 0.5]], "gt_label": 1}, r"pred_score of a data sample has shape \[1, 2\]"),
        ({"pred_score": [0.5, 0.5], "gt_score": [1]}, "gt_score of a data sample has 1 entry, its pred_score 2"),
        ({"pred_score": [0.5, 0.5], "gt_score": [1, -1]}, "gt_score holds -1; it must be 0 for"),
        ({"pred_score": [0.5, 0.5], "gt_label": [2]}, "gt_label holds 2; with 2 classes, labels are 0 to 1"),
        ({"pred_score": [0.5, math.nan], "gt_label": [1]}, "pred_score holds nan"),
    ],
)
def test_bad_data_samples_name_the_entry(metric, sample, message):
    with pytest.raises(InvalidInputError, match=message):
        metric.process(None, [{"pred_score": [0.5, 0.5], "gt_label": 1}, sample])
    assert metric.results == []  # none of a bad batch is kept
