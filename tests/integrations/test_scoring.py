"""Scorers for scikit-learn: its own values for its own names, with the sign that makes higher better."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fleetmetrics as fm

datasets = pytest.importorskip("sklearn.datasets")
linear = pytest.importorskip("sklearn.linear_model")
selection = pytest.importorskip("sklearn.model_selection")

pytestmark = pytest.mark.numpy_only

CANCER = datasets.load_breast_cancer(return_X_y=True)
CANCER = (CANCER[0][:200, :4] / 100, np.array(["benign", "malignant"])[CANCER[1][:200]])
IRIS = datasets.load_iris(return_X_y=True)
DIABETES = datasets.load_diabetes(return_X_y=True)
TWO, SEVERAL = linear.LogisticRegression(max_iter=500), linear.LogisticRegression(max_iter=500)
NUMBERS = linear.Ridge()
RIDGE = linear.RidgeClassifier()

PEERS = [
    ("exact_auc", {}, "roc_auc", TWO, CANCER),
    ("exact_auc", {}, "roc_auc", RIDGE, CANCER),
    ("log_loss", {}, "neg_log_loss", TWO, CANCER),
    ("brier_score", {}, "neg_brier_score", TWO, CANCER),
    ("f1", {}, "f1", TWO, CANCER),
    ("f1", {"average": "macro"}, "f1_macro", TWO, CANCER),
    ("accuracy", {}, "accuracy", RIDGE, CANCER),
    ("accuracy", {}, "accuracy", SEVERAL, IRIS),
    ("f1:average=macro", {}, "f1_macro", SEVERAL, IRIS),
    ("recall", {"average": "weighted"}, "recall_weighted", SEVERAL, IRIS),
    ("log_loss", {}, "neg_log_loss", SEVERAL, IRIS),
    ("mae", {}, "neg_mean_absolute_error", NUMBERS, DIABETES),
    ("r2_score", {}, "r2", NUMBERS, DIABETES),
]


@pytest.mark.parametrize(("name", "settings", "theirs", "model", "data"), PEERS)
def test_a_score_is_that_of_scikit_learn(name, settings, theirs, model, data):
    ours = selection.cross_val_score(model, *data, scoring=fm.scorer(name, **settings), cv=3, error_score="raise")
    x, y = data
    if y.dtype.kind == "U":  # some of theirs do not know which class is the positive one
        y = (y == "malignant").astype(int)
    expected = selection.cross_val_score(model, x, y, scoring=theirs, cv=3, error_score="raise")
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_a_threshold_is_one_of_probabilities_and_a_margin_that_of_the_decision():
    model = TWO.fit(*CANCER)
    share = model.predict_proba(CANCER[0])[:, 1] > 0.9
    assert fm.scorer("accuracy", threshold=0.9)(model, *CANCER) == (share == (CANCER[1] == "malignant")).mean()
    hinge = fm.HingeLoss()
    hinge.add(model.decision_function(CANCER[0]), (CANCER[1] == "malignant").astype(int))
    assert fm.scorer("hinge_loss")(model, *CANCER) == -hinge.compute()


def test_weights_reach_the_metric_and_searches_may_pickle_it():
    weight = np.arange(len(DIABETES[1]), dtype=float)
    model = NUMBERS.fit(*DIABETES)
    score = pickle.loads(pickle.dumps(fm.scorer("mae")))
    error = np.abs(model.predict(DIABETES[0]) - DIABETES[1])
    assert score(model, *DIABETES, sample_weight=weight) == pytest.approx(-np.average(error, weights=weight))
    search = selection.GridSearchCV(NUMBERS, {"alpha": [0.1, 1e6]}, scoring=score, cv=2).fit(*DIABETES)
    assert search.best_params_ == {"alpha": 0.1}


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("acu", {}, "there is no metric 'acu'"),
        ("auc", {"bucket": 3}, "AUC has no setting 'bucket'; did you mean buckets"),
        ("gauc", {}, "cannot be a scorer: it needs user for each sample"),
        ("calibration", {}, "cannot be a scorer: neither higher nor lower values are better"),
        ("confusion_matrix", {}, "cannot be a scorer: its value is no single number"),
        ("mean", {}, "cannot be a scorer: it takes no labels"),
        ("bleu", {}, "cannot be a scorer: it takes texts, and a scorer gets classes and numbers"),
        ("f1:average=macro", {"average": "micro"}, "sets average, and so does average='micro'; give one"),
        (fm.AUC, {}, 'must be the name of a metric, such as "auc"'),
    ],
)
def test_what_is_no_score_is_refused(name, settings, words):
    with pytest.raises(fm.InvalidInputError, match=words):
        fm.scorer(name, **settings)


def test_a_model_that_does_not_fit_is_refused():
    several, ridge = SEVERAL.fit(*IRIS), linear.RidgeClassifier().fit(*CANCER)
    with pytest.raises(fm.InvalidInputError, match=r"scorer\('kolmogorov_smirnov'\) takes two classes, .* has 3"):
        fm.scorer("kolmogorov_smirnov")(several, *IRIS)
    with pytest.raises(fm.InvalidInputError, match="gives one value for each class, and a score is one number; choose"):
        fm.scorer("f1", average=None)(several, *IRIS)
    with pytest.raises(fm.InvalidInputError, match="gives a BoundedError, and a score is one number; leave out bounds"):
        fm.scorer("quantile_error", bounds=True)(NUMBERS.fit(*DIABETES), *DIABETES)
    with pytest.raises(fm.InvalidInputError, match="needs predict_proba, and RidgeClassifier has none"):
        fm.scorer("auc")(ridge, *CANCER)
    with pytest.raises(fm.InvalidInputError, match="takes a classifier of two classes or more; Ridge has classes_"):
        fm.scorer("auc")(NUMBERS.fit(*DIABETES), *DIABETES)
    with pytest.raises(fm.InvalidInputError, match=r"y holds .*'other', the first at position 1, which the estimator"):
        fm.scorer("exact_auc")(ridge, CANCER[0][:2], np.array(["benign", "other"]))
