"""Formulas of ranked answers: what looking at every order of the tied answers gives."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas import average_precision as average_precision_of_samples
from fleetmetrics.formulas import average_precision_of_ranking, groups, ranking
from tests.cases.ranking import all_orders, average_precision, dcg, reciprocal_rank

#: What is computed, and from relevances in one order (None of them all 0 where nan is expected).
FORMULAS = {
    "hits": (ranking.hits_at, lambda r, k: float((r[:k] > 0).sum())),
    "dcg": (ranking.dcg_at, dcg),
    "ideal dcg": (ranking.ideal_dcg_at, lambda r, k: dcg(-np.sort(-r), k)),
    "hit rate": (ranking.hit_rate_at, lambda r, k: float((r[:k] > 0).any())),
    "reciprocal rank": (ranking.reciprocal_rank_at, reciprocal_rank),
    "average precision": (ranking.average_precision_at, lambda r, k: average_precision(r, k) if r.any() else np.nan),
    "fall-out": (
        ranking.fall_out_at,
        lambda r, k: (r[:k] == 0).sum() / (r == 0).sum() if not r.all() else np.nan,
    ),
    "r-precision": (
        lambda ranked, k: ranking.r_precision(ranked),
        lambda r, k: (r[: (r > 0).sum()] > 0).mean() if r.any() else np.nan,
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("sizes", [[3, 1, 6, 2], [5, 5, 5, 5], [1, 6, 1, 1]], ids=str)
def test_a_value_is_the_mean_over_the_orders_of_tied_answers(name, sizes):
    formula, of_order = FORMULAS[name]
    query = np.repeat([2, 3, 5, 7], sizes)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        score = rng.integers(0, 3, len(query)) / 4
        relevance = rng.integers(0, 4, len(query)) * (rng.random(len(query)) < 0.5)
        ranked = ranking.rank_queries(query, score, relevance)
        for k in (None, 1, 2, 3, 7):
            orders = [all_orders(score[query == each], relevance[query == each].astype(float)) for each in (2, 3, 5, 7)]
            brute = [np.mean([of_order(order, k or 99) for order in each]) for each in orders]
            np.testing.assert_allclose(formula(ranked, k), brute, rtol=1e-12, atol=1e-15)


def test_long_ties_and_short_ones_are_computed_alike():
    size, hits = 3000, 4
    relevance = np.arange(size) < hits
    for k in (None, 1000):
        found = ranking.reciprocal_rank_at(ranking.rank_queries(np.zeros(size), np.ones(size), relevance), k)
        none_yet, expected = 1.0, 0.0
        for drawn in range(k or size - hits + 1):
            expected += none_yet * hits / (size - drawn) / (drawn + 1)
            none_yet *= 1 - hits / (size - drawn)
        assert found[0] == pytest.approx(expected, rel=1e-12)


def test_uneven_queries_are_sorted_as_even_ones():
    rng = np.random.default_rng(0)
    sizes = np.array([1, 400, 3, 7])
    values, start = rng.random(sizes.sum()), np.cumsum(sizes) - sizes
    order = groups.best_first(values, start, sizes)
    for begin, size in zip(start, sizes):
        assert (order[begin : begin + size] == begin + np.argsort(-values[begin : begin + size])).all()


def test_a_query_counts_for_the_mean_weight_of_its_answers():
    assert ranking.rank_queries([1, 1, 2], [1, 2, 3], [0, 1, 1], [1.0, 2.0, 5.0]).weight.tolist() == [1.5, 5.0]


def test_no_answers_are_no_queries():
    ranked = ranking.rank_queries([], [], [])
    for formula, _ in FORMULAS.values():
        assert formula(ranked, 3).shape == (0,)
    assert [each.tolist() for each in groups.auc_by_group([], [], [])] == [[], [], []]


def test_areas_of_groups_are_scikit_learns():
    from sklearn.metrics import roc_auc_score

    for seed in range(8):
        rng = np.random.default_rng(seed)
        group = np.sort(rng.integers(0, 20, 300))
        score, label = rng.integers(0, 8, 300) / 8, rng.integers(0, 2, 300)
        weight = rng.random(300) * 10.0 ** rng.integers(-3, 4) if seed % 2 else None
        area, positive, negative = groups.auc_by_group(group, score, label, weight)
        for place, each in enumerate(np.unique(group)):
            own = group == each
            w = np.ones(own.sum()) if weight is None else weight[own]
            assert positive[place] == pytest.approx(w[label[own] == 1].sum(), rel=1e-13)
            assert negative[place] == pytest.approx(w[label[own] == 0].sum(), rel=1e-13)
            both = len(set(label[own])) == 2
            theirs = roc_auc_score(label[own], score[own], sample_weight=w) if both else np.nan
            assert area[place] == pytest.approx(theirs, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("values", [2, 10, 10**9])
def test_average_precision_equals_scikit_learn(values):
    rng = np.random.default_rng(values)
    score, target = rng.integers(0, values, (300, 6)) / values, rng.integers(0, 2, (300, 6))
    np.testing.assert_allclose(
        average_precision_of_samples(score, target), average_precision_score(target, score, average=None), rtol=1e-13
    )


def test_samples_that_do_not_count_are_left_out():
    assert average_precision_of_samples([[0.9], [0.8], [0.7]], [[-1], [1], [0]]).tolist() == [1.0]


def test_undefined_classes_are_zero_and_no_samples_nan():
    with pytest.warns(UndefinedMetricWarning, match="1 of 2 classes has no positive sample; the value is 0.0"):
        assert average_precision_of_samples([[0.9, 0.9]], [[1, 0]]).tolist() == [1.0, 0.0]
    with pytest.warns(UndefinedMetricWarning, match="there are no samples; the value is nan"):
        assert np.isnan(average_precision_of_samples(np.zeros([0, 2]), np.zeros([0, 2]))).tolist() == [True, True]


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
def test_further_positions_do_not_change_the_bits_of_a_query(mode):
    relevant = np.random.default_rng(0).random((50, 37)) < 0.4
    longer = np.concatenate([relevant, np.zeros([50, 500], bool)], axis=1)
    total = relevant.sum(axis=1)
    one, other = average_precision_of_ranking(relevant, total, mode), average_precision_of_ranking(longer, total, mode)
    assert (
        one.tolist()
        == other.tolist()
        == [average_precision_of_ranking(r[None], [t], mode)[0] for r, t in zip(relevant, total)]
    )
