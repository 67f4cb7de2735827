"""Precision, recall and similar metrics among the k highest scores: a label among these counts as predicted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, same

RNG = np.random.default_rng(4)
SIX = {"task": "multiclass", "num_classes": 6}
#: Many scores are equal.
SCORES, LABEL, WEIGHT = RNG.integers(0, 5, (70, 6)) / 4, RNG.integers(0, 6, 70), RNG.random(70)
KINDS = {
    fm.Precision: sklearn.precision_score,
    fm.Recall: sklearn.recall_score,
    fm.F1: sklearn.f1_score,
    fm.Jaccard: sklearn.jaccard_score,
}


def predicted(scores, label, k):
    """By the definition: a stable sort, the lower class first of equal scores."""
    best = np.argsort(-scores, axis=1, kind="stable")
    return np.where((best[:, :k] == label[:, None]).any(axis=1), label, best[:, 0])


def value(metric, data, mode="numpy"):
    return metric.compute(feed(metric, [data], mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_label_among_the_highest_scores_counts_as_predicted(mode):
    for k in (1, 2, 4):
        theirs = predicted(SCORES, LABEL, k)
        members = {}
        expected = {"counts": sklearn.confusion_matrix(LABEL, theirs, sample_weight=WEIGHT).diagonal()}
        for kind, function in KINDS.items():
            for average in ("micro", "macro", "weighted", None):
                members[f"{kind.__name__} {average}"] = kind(top_k=k, average=average, **SIX)
                expected[f"{kind.__name__} {average}"] = function(LABEL, theirs, average=average, sample_weight=WEIGHT)
        members["f2"] = fm.FBeta(beta=2, top_k=k, **SIX)
        expected["f2"] = sklearn.fbeta_score(LABEL, theirs, beta=2, average="macro", sample_weight=WEIGHT)
        members["counts"] = fm.StatScores(top_k=k, **SIX)
        members["recalls"] = fm.Accuracy(top_k=k, average="macro", **SIX)
        expected["recalls"] = expected["Recall macro"]
        collection = fm.MetricCollection(members)
        found = value(collection, Data(SCORES, LABEL, WEIGHT), mode)
        found["counts"] = found["counts"][:, 0]
        assert len({id(state) for member in members.values() for state in member.states.values()}) == 1
        assert [key for key in expected if not same(found[key], expected[key], False)] == []


def test_the_numbers_of_torchmetrics():
    """Printed by MulticlassPrecision(num_classes=3, top_k=2, average=None) and others of torchmetrics 1.9.0."""
    scores = [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]]
    label = [1, 2, 2, 0, 0]
    for kind, expected in ((fm.Precision, [2 / 3, 1, 1]), (fm.Recall, [1, 1, 0.5]), (fm.F1, [0.8, 1, 2 / 3])):
        metric = kind(task="multiclass", num_classes=3, top_k=2, average=None)
        metric.add(scores, label)
        assert metric.compute().tolist() == pytest.approx(expected)


def test_together_they_are_the_accuracy_among_the_highest_scores():
    for k in (2, 3, 6, 10**30):
        accuracy = value(fm.Accuracy(top_k=k), Data(SCORES, LABEL, WEIGHT))
        for kind in (fm.Precision, fm.Recall, fm.F1):
            found = value(kind(top_k=k, average="micro", **SIX), Data(SCORES, LABEL, WEIGHT))
            assert found == pytest.approx(accuracy, rel=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_ignored_labels_leave_no_trace(mode):
    gone = RNG.random(70) < 0.3
    scores = SCORES.copy()
    scores[gone] = np.nan
    found = value(fm.F1(top_k=2, ignore_index=-1, **SIX), Data(scores, np.where(gone, -1, LABEL)), mode)
    assert found == value(fm.F1(top_k=2, **SIX), Data(SCORES[~gone], LABEL[~gone]))


def test_it_has_a_matrix_of_its_own():
    collection = fm.MetricCollection({k: fm.Recall(top_k=k, **SIX) for k in (1, 2, 3)})
    assert len({id(member.states["confusion"]) for member in collection.metrics.values()}) == 3


@pytest.mark.parametrize("top_k", [0, -1, 2.0, True, "2", None])
def test_it_must_be_a_whole_number_of_at_least_1(top_k):
    with pytest.raises(fm.InvalidInputError, match="top_k must be an integer of at least 1, not "):
        fm.Precision(top_k=top_k, **SIX)


def test_it_needs_several_classes_and_their_scores():
    for settings in ({}, {"task": "multilabel", "num_labels": 2}):
        with pytest.raises(fm.InvalidInputError, match="top_k=2 needs task='multiclass', not "):
            fm.Precision(top_k=2, **settings)
    for validate in (True, False):
        with pytest.raises(fm.InvalidInputError, match=r"label's shape; top_k=2 needs scores of shape \[n, 6\]"):
            fm.Precision(top_k=2, validate=validate, **SIX).add([0, 1], [0, 1])
    for kind in (fm.CohenKappa, fm.MatthewsCorrelation, fm.ConfusionMatrix):
        with pytest.raises(fm.InvalidInputError, match=f"top_k must be 1 for {kind.__name__}, not 2"):
            kind(top_k=2, **SIX)
