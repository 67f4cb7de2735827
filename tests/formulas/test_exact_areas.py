"""The exact area: scikit-learn's for any finite scores, correctly rounded for counts, the same piece by piece."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from fleetmetrics import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas import exact_auc
from fleetmetrics.formulas.exact_areas import (
    count_exact_auc,
    exact_auc_of,
    fold_exact_auc,
    sort_by_score,
    start_exact_auc,
)

KINDS = {
    "probabilities": lambda rng, n: rng.random(n),
    "tied": lambda rng, n: np.round(rng.random(n), 1),
    "logits": lambda rng, n: rng.normal(size=n) * 3,
    "tied logits": lambda rng, n: np.round(rng.normal(size=n)),
    "all magnitudes": lambda rng, n: rng.choice([-1, 1], n) * 2.0 ** rng.uniform(-140, 120, n),
    "signed zeros": lambda rng, n: rng.choice([-0.0, 0.0, 5e-324, -5e-324, 1.0], n),
    "below zero": lambda rng, n: -rng.random(n),
    "one score": lambda rng, n: np.full(n, 0.5),
}
AREAS = {
    "roc": ({}, roc_auc_score),
    "part of roc": ({"max_fpr": 0.3}, lambda y, s, **w: roc_auc_score(y, s, max_fpr=0.3, **w)),
    "precision and recall": ({"curve": "PR"}, average_precision_score),
}


def draw(kind, seed, size=80):
    rng = np.random.default_rng(seed)
    label = rng.random(size) < 0.4
    label[:2] = True, False
    return KINDS[kind](rng, size), label, rng.random(size)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("area", AREAS)
def test_the_area_is_scikit_learns(area, kind, dtype, weighted):
    settings, theirs = AREAS[area]
    for seed in range(3):
        score, label, weight = draw(kind, seed)
        score = score.astype(dtype)
        weight = weight if weighted else None
        expected = theirs(label, score.astype(np.float64), sample_weight=weight)
        assert exact_auc(score, label, weight, **settings) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_area_of_counts_is_correctly_rounded(kind):
    score, label, _ = draw(kind, 7)
    pairs = score[label][:, None] > score[~label][None, :]
    ties = score[label][:, None] == score[~label][None, :]
    assert exact_auc(score, label) == float(Fraction(int(2 * pairs.sum() + ties.sum()), 2 * pairs.size))


@pytest.mark.parametrize("area", AREAS)
def test_samples_that_fill_several_blocks_and_ties_across_them(area):
    settings, theirs = AREAS[area]
    rng = np.random.default_rng(1)
    score = np.where(rng.random(200_000) < 0.6, 0.5, rng.random(200_000))  # one tie is longer than a block
    label = rng.random(len(score)) < score
    assert exact_auc(score, label, **settings) == pytest.approx(theirs(label, score), abs=1e-12)
    weight = rng.random(len(score))
    expected = theirs(label, score, sample_weight=weight)
    assert exact_auc(score, label, weight, **settings) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("area", AREAS)
def test_pieces_with_whole_ties_give_what_the_samples_together_do(area, weighted):
    settings, _ = AREAS[area]
    score, label, weight = draw("tied", 3, 300)
    weight = weight if weighted else None
    whole = exact_auc(score, label, weight, **settings)
    score, label, weight = sort_by_score(score, label, weight)
    ones = np.ones(300) if weight is None else weight
    totals = [each.sum().item() if weighted else int(each.sum()) for each in (ones[~label], ones[label])]
    rng = np.random.default_rng(4)
    for _ in range(10):
        cuts = np.searchsorted(score, np.sort(rng.choice(np.unique(score), 4, replace=False)))
        carry = start_exact_auc()
        for part in np.split(np.arange(300), cuts):
            piece = None if weight is None else weight[part]
            made = fold_exact_auc(carry, score[part], label[part], piece, totals, **settings)
            told = count_exact_auc(label[part], piece, totals)
            assert {**made, "area": 0} == told  # later pieces get what they are joined with
            carry = {name: carry[name] + made[name] for name in carry}
        assert exact_auc_of(**carry, **settings) == pytest.approx(
            whole, abs=0 if area == "roc" and not weighted else 1e-12
        )


@pytest.mark.parametrize("label_dtype", [bool, np.int64, np.float32, np.uint8])
@pytest.mark.parametrize("score_dtype", [np.float16, np.float32, np.float64, np.int64, np.int8, bool])
def test_scores_and_labels_of_any_dtype(score_dtype, label_dtype):
    rng = np.random.default_rng(5)
    score, label = rng.integers(-3, 4, 60).astype(score_dtype), rng.integers(0, 2, 60).astype(label_dtype)
    expected = roc_auc_score(label.astype(bool), score.astype(float))
    assert exact_auc(score, label) == pytest.approx(expected, rel=1e-14)


def test_inputs_stay_as_they_are_and_need_not_be_contiguous():
    score, label, weight = draw("logits", 9)
    table = np.stack([score, score], axis=1)
    before = table.copy(), label.copy(), weight.copy()
    assert exact_auc(table[:, 1], label[::1]) == exact_auc(score, label)
    exact_auc(table[:, 0], label, weight)
    for array, old in zip((table, label, weight), before):
        np.testing.assert_array_equal(array, old)
    assert exact_auc([[0.1, 0.4], [0.35, 0.8]], [[0, 0], [1, 1]]) == 0.75


def test_infinite_scores_are_the_ends():
    assert exact_auc([-np.inf, 0.0, np.inf], [0, 1, 1]) == 1.0
    assert exact_auc([np.inf, np.inf, -np.inf], [0, 1, 1]) == 0.25


@pytest.mark.parametrize("weight", [None, [1.0, 1.0, 1.0]])
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_a_score_that_is_nan_is_an_error(nan, weight):
    with pytest.raises(InvalidInputError, match="score must hold numbers, but some are nan"):
        exact_auc([0.1, nan, -0.3], [0, 1, 1], weight)


def test_arrays_of_different_lengths_are_an_error_that_says_how_long_they_are():
    with pytest.raises(InvalidInputError, match="label has 2 entries and score 3; give the same number of both"):
        exact_auc([1, 2, 3], [0, 1], [])
    with pytest.raises(InvalidInputError, match="label has 2 entries and score 1; give the same number of both"):
        exact_auc([1], [0, 1])


@pytest.mark.parametrize(
    "label, why", [([], "there are no samples"), ([1, 1], "no sample is labeled 0"), ([0, 0], "no sample is labeled 1")]
)
def test_one_class_is_nan_with_a_warning_or_what_was_asked_for_without(label, why):
    score = [0.5, 0.25][: len(label)]
    with pytest.warns(UndefinedMetricWarning, match=f"exact_auc is undefined: {why}"):
        assert math.isnan(exact_auc(score, label))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exact_auc(score, label, zero_division=0.5) == 0.5
        assert exact_auc([0.5, 0.25], [1, 1], curve="PR") == 1.0


@pytest.mark.parametrize("curve", ["ROC", "PR"])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_weighted_samples_changes_no_bit(curve, seed):
    random = np.random.default_rng(seed)
    score, label, weight = random.integers(0, 40, 3000) / 40, random.integers(0, 2, 3000), random.random(3000)
    found = set()
    for _ in range(8):
        order = random.permutation(3000)
        found.add(exact_auc(score[order], label[order], weight[order], curve=curve))
    assert len(found) == 1
