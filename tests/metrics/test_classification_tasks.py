"""Classification by task: every average of every metric, one state for all, ignored labels, logits, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import metrics as sklearn

import fleetmetrics as fm
from tests.contract import MODES, Data, StaticFeed, feed, same

pytestmark = pytest.mark.halved

RNG = np.random.default_rng(0)
SAMPLES = 60
WEIGHT = RNG.random(SAMPLES)
PROBABILITY, BINARY = RNG.random(SAMPLES), RNG.integers(0, 2, SAMPLES)
#: Class 4 of five never occurs, class 3 is never true.
SCORES, CLASS = RNG.permuted(np.tile(np.arange(5.0), (SAMPLES, 1)), axis=1), RNG.integers(0, 3, SAMPLES)
SCORES[:, 4] = -1
MANY, LABELS = RNG.random((SAMPLES, 3)), RNG.integers(0, 2, (SAMPLES, 3))

INPUTS = {
    "binary": ({}, PROBABILITY, BINARY, (PROBABILITY > 0.5).astype(int)),
    "multiclass": ({"num_classes": 5}, SCORES, CLASS, SCORES.argmax(axis=1)),
    "multilabel": ({"num_labels": 3}, MANY, LABELS, (MANY > 0.5).astype(int)),
}
AVERAGES = ["micro", "macro", "weighted", None]
#: Metrics, what scikit-learn calls them, and how they are called there.
AVERAGED = {
    "precision": (fm.Precision, {}, sklearn.precision_score, {}),
    "recall": (fm.Recall, {}, sklearn.recall_score, {}),
    "f1": (fm.F1, {}, sklearn.f1_score, {}),
    "f half": (fm.FBeta, {"beta": 0.5}, sklearn.fbeta_score, {"beta": 0.5}),
    "jaccard": (fm.Jaccard, {}, sklearn.jaccard_score, {}),
}


def value(metric: fm.Metric, data: Data, mode: str = "numpy"):
    return metric.compute(feed(metric, [data], mode))


def error_of(call) -> str:
    with pytest.raises(fm.InvalidInputError) as error:
        call()
    return str(error.value)


@pytest.mark.numpy_only
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("task", INPUTS)
def test_a_collection_of_every_average_keeps_one_matrix_and_equals_scikit_learn(task, weight):
    size, prediction, label, predicted = INPUTS[task]
    members, expected = {}, {}
    options = {"sample_weight": weight}
    for average in AVERAGES if task != "binary" else ["binary"]:
        for name, (metric, settings, function, more) in AVERAGED.items():
            key = f"{name} {average}"
            given = {} if task == "binary" else {"average": average}
            members[key] = metric(task=task, zero_division=0, **size, **settings, **given)
            labels = range(5) if average is None and task == "multiclass" else None
            expected[key] = function(
                label, predicted, average=average, zero_division=0, labels=labels, **more, **options
            )
    members["accuracy"] = fm.Accuracy(task=task, **size)
    expected["accuracy"] = 1 - sklearn.hamming_loss(label, predicted, **options)
    members["hamming"] = fm.HammingLoss(task=task, **size)
    expected["hamming"] = sklearn.hamming_loss(label, predicted, **options)
    members["matrix"] = fm.ConfusionMatrix(task=task, **size)
    if task == "multilabel":
        expected["matrix"] = sklearn.multilabel_confusion_matrix(label, predicted, **options)
    else:
        classes = range(5 if task == "multiclass" else 2)
        expected["matrix"] = sklearn.confusion_matrix(label, predicted, labels=classes, **options)
        members["kappa"] = fm.CohenKappa(task=task, **size)
        expected["kappa"] = sklearn.cohen_kappa_score(label, predicted, **options)
        members["matthews"] = fm.MatthewsCorrelation(task=task, **size)
        expected["matthews"] = sklearn.matthews_corrcoef(label, predicted, **options)
        members["balanced"] = fm.BalancedAccuracy(task=task, **size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a class that is never true
            expected["balanced"] = sklearn.balanced_accuracy_score(label, predicted, **options)
    collection = fm.MetricCollection(members)
    assert len({id(state) for member in members.values() for state in member.states.values()}) == 1
    collection.add(prediction, label, weight)
    found = collection.compute()
    for key, theirs in expected.items():
        np.testing.assert_allclose(found[key], theirs, rtol=1e-11, err_msg=key)


def test_accuracy_f1_and_kappa_share_one_state_even_if_only_some_have_a_threshold():
    settings = {"task": "multiclass", "num_classes": 5}
    collection = fm.MetricCollection(
        [fm.Accuracy(**settings), fm.F1(threshold=0.25, **settings), fm.CohenKappa(from_logits=True, **settings)]
    )
    states = [state for state in collection._states() if state.name.endswith("confusion")]
    assert len(states) == 1 and len(collection._states()) == 1 + len(collection._check.states)


def test_other_settings_have_other_states():
    kinds = [
        {},
        {"threshold": 0.25},
        {"from_logits": True},
        {"ignore_index": -1},
        {"task": "multiclass", "num_classes": 2},
        {"task": "multiclass", "num_classes": 2, "ignore_index": 1},
    ]
    collection = fm.MetricCollection([fm.F1(**settings) for settings in kinds])
    assert len({id(member.states["confusion"]) for member in collection.metrics.values()}) == len(kinds)


@pytest.mark.parametrize("mode", MODES)
def test_of_equal_scores_the_lower_class_is_predicted(mode):
    for dtype in ("float32", "int64", "bool"):
        scores = np.random.default_rng(1).integers(0, 2, (40, 4)).astype(dtype)
        label = np.random.default_rng(2).integers(0, 4, 40)
        matrix = value(fm.ConfusionMatrix(task="multiclass", num_classes=4), Data(scores, label), mode)
        assert (matrix == sklearn.confusion_matrix(label, scores.argmax(axis=1), labels=range(4))).all()


@pytest.mark.parametrize("mode", MODES)
def test_top_k_of_a_task_equals_scikit_learn_and_ignores(mode):
    label = np.where(np.arange(SAMPLES) % 4 == 0, -100, CLASS)
    metric = fm.Accuracy(task="multiclass", num_classes=5, top_k=2, ignore_index=-100)
    keep = label >= 0
    expected = sklearn.top_k_accuracy_score(label[keep], SCORES[keep], k=2, labels=range(5))
    assert value(metric, Data(SCORES, label), mode) == expected


def test_the_accuracies_of_classes_are_their_recalls():
    size, scores, label, predicted = INPUTS["multiclass"]
    for average in ("macro", "weighted"):
        metric = fm.Accuracy(task="multiclass", average=average, zero_division=0, **size)
        expected = sklearn.recall_score(label, predicted, average=average, zero_division=0)
        assert value(metric, Data(scores, label)) == pytest.approx(expected, rel=1e-12)


# -- ignored labels --------------------------------------------------------------------------------------

IGNORING = {
    "f1": lambda **s: fm.F1(**s),
    "accuracy": lambda **s: fm.Accuracy(**{"task": "binary", **s}),
    "matrix": lambda **s: fm.ConfusionMatrix(**s),
    "log loss": lambda **s: fm.LogLoss(**s),
    "hinge": lambda **s: fm.HingeLoss(**s),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize(
    "task, ignored", [("binary", -100), ("multiclass", -1), ("multiclass", 2), ("multilabel", 255)]
)
def test_ignored_labels_leave_no_trace_with_any_prediction(task, ignored, from_logits, mode):
    size, prediction, label, _ = INPUTS[task]
    if task == "multiclass" and not from_logits:
        prediction = prediction - prediction.min() + 0.5
        prediction = prediction / prediction.sum(axis=1, keepdims=True)
    gone = np.random.default_rng(3).random(label.shape) < 0.3
    if ignored == 2:
        gone |= label == 2
    nonsense = prediction.copy()
    nonsense[gone] = np.resize([np.nan, np.inf, -np.inf, 99], nonsense[gone].shape)
    spoiled = Data(nonsense, np.where(gone, ignored, label), WEIGHT)
    masked = Data(prediction, label, WEIGHT, ~gone)
    for name, make in IGNORING.items():
        if name == "hinge" and task == "multilabel":
            continue
        settings = {"task": task, **size}
        if name != "hinge":
            settings["from_logits"] = from_logits
        ours, other = make(ignore_index=ignored, **settings), make(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            found = value(ours, spoiled, mode)
        assert same(found, value(other, masked), exact=False), name


@pytest.mark.parametrize("mode", MODES)
def test_predicted_classes_of_ignored_labels_may_be_anything(mode):
    label = np.array([0, 1, -1, 2, -1])
    for dtype, nonsense in (("int64", [99, -7]), ("float32", [np.nan, 0.5])):
        prediction = np.array([0, 2, 0, 2, 0]).astype(dtype)
        prediction[[2, 4]] = nonsense
        metric = fm.Accuracy(task="multiclass", num_classes=3, ignore_index=-1)
        assert value(metric, Data(prediction, label), mode) == 2 / 3


@pytest.mark.parametrize("mode", MODES)
def test_a_row_matches_by_the_labels_that_are_not_ignored(mode):
    label = np.array([[1, -1], [0, -1], [-1, -1], [1, 0], [1, 1]])
    prediction = np.array([[0.9, np.nan], [0.9, 0.1], [np.nan, 7], [0.9, 0.1], [0.9, 0.1]])
    metric = fm.ExactMatch(num_labels=2, ignore_index=-1)
    assert value(metric, Data(prediction, label), mode) == 0.5


def test_nothing_but_ignored_labels_is_undefined():
    for metric in (fm.F1(ignore_index=-1), fm.LogLoss(ignore_index=-1), fm.Accuracy(task="binary", ignore_index=-1)):
        metric.add([0.5, 0.25], [-1, -1])
        with pytest.warns(fm.UndefinedMetricWarning, match="there are no samples"):
            assert np.isnan(metric.compute())


# -- logits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threshold", [0.5, 0.1, 0.9])
def test_logits_are_compared_by_their_sigmoid(threshold, mode):
    logits = np.random.default_rng(4).normal(size=SAMPLES) * 3
    expected = sklearn.f1_score(BINARY, 1 / (1 + np.exp(-logits)) > threshold)
    two_columns = np.stack([np.full(SAMPLES, 2.0), logits + 2], axis=1)
    for prediction in (logits, two_columns, logits.astype("float32")):
        metric = fm.F1(from_logits=True, threshold=threshold)
        assert value(metric, Data(prediction, BINARY), mode) == expected


@pytest.mark.parametrize("mode", MODES)
def test_log_loss_of_logits_is_not_bounded_and_never_infinite(mode):
    for prediction, label, settings in (
        (np.array([1000.0, -1000.0]), np.array([0, 0]), {}),
        (np.array([[1000.0], [-1000.0]]), np.array([[0], [0]]), {"task": "multilabel", "num_labels": 1}),
        (np.array([[0.0, 1000], [0, -1000]]), np.array([0, 0]), {"task": "multiclass", "num_classes": 2}),
        (np.array([[0.0, 1000], [0, -1000]]), np.array([0, 0]), {}),
    ):
        assert value(fm.LogLoss(from_logits=True, **settings), Data(prediction, label), mode) == 500


def test_logits_without_from_logits_are_an_error():
    for metric in (fm.F1(), fm.Accuracy(task="binary"), fm.LogLoss()):
        assert "a probability in [0, 1] (apply the sigmoid or softmax to logits first)" in error_of(
            lambda metric=metric: metric.add([0.5, 1.5], [0, 1])
        )
    metric = fm.LogLoss(task="multiclass", num_classes=2)
    for row in ([0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]):
        told = error_of(lambda row=row: metric.add([[0.5, 0.5], row], [0, 1]))
        assert "probabilities in [0, 1] of all classes, which add up to 1" in told and "at position 1" in told
    metric.add(np.array([[0.3, 0.7]], np.float16), [1])


# -- losses ----------------------------------------------------------------------------------------------


def test_log_loss_of_labels_is_given_each_and_together():
    each = [sklearn.log_loss(LABELS[:, k], MANY[:, k], sample_weight=WEIGHT) for k in range(3)]
    for average, expected in ((None, each), ("none", each), ("macro", np.mean(each)), ("micro", np.mean(each))):
        metric = fm.LogLoss(task="multilabel", num_labels=3, average=average)
        np.testing.assert_allclose(value(metric, Data(MANY, LABELS, WEIGHT)), expected, rtol=1e-12)


def test_a_label_without_samples_is_left_out_of_the_mean_loss():
    metric = fm.LogLoss(task="multilabel", num_labels=2, ignore_index=-1)
    metric.add([[0.5, 0.5]], [[1, -1]])
    with pytest.warns(fm.UndefinedMetricWarning, match="label 1"):
        assert metric.compute() == pytest.approx(np.log(2))


@pytest.mark.parametrize("mode", MODES)
def test_squared_hinge_loss_is_the_mean_of_the_squares(mode):
    decision = np.random.default_rng(5).normal(size=SAMPLES)
    expected = np.mean(np.maximum(0, 1 - np.where(BINARY == 1, decision, -decision)) ** 2)
    assert same(value(fm.HingeLoss(squared=True), Data(decision, BINARY), mode), expected, exact=False)


def test_losses_share_the_number_of_samples():
    collection = fm.MetricCollection([fm.LogLoss(), fm.HingeLoss(), fm.Count(), fm.Accuracy()])
    assert len({id(m.states["total"]) for m in collection.metrics.values()}) == 1


# -- exact match -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_weights_and_masks_of_exact_match_go_by_row(mode):
    data = Data(MANY, LABELS, WEIGHT, np.arange(SAMPLES) % 3 > 0)
    right = ((MANY > 0.5) == LABELS).all(axis=1)
    expected = np.average(right, weights=WEIGHT * data.mask)
    for shape in ([-1], [-1, 1]):
        given = data._replace(weight=data.weight.reshape(shape), mask=data.mask.reshape(shape))
        assert same(value(fm.ExactMatch(num_labels=3), given, mode), expected, exact=False)


def test_an_entry_per_label_is_an_error_for_whole_rows():
    for argument in ("weight", "mask"):
        told = error_of(lambda argument=argument: fm.ExactMatch(num_labels=3).add(MANY, LABELS, **{argument: LABELS}))
        assert f"{argument} has one entry per element; a metric of whole rows takes one per row, of shape [n]" in told


def test_a_broken_label_in_a_static_program_leaves_its_row_out():
    broken = LABELS.copy()
    broken[[3, 7], [2, 0]] = 5
    metric = fm.ExactMatch(num_labels=3)
    scope = StaticFeed(metric, Data(MANY, broken)).run([Data(MANY, broken)])
    with pytest.raises(fm.InvalidInputError, match="2 of 180 samples were invalid and left out"):
        metric.compute(scope)
    metric.validate = False
    right = ((MANY > 0.5) == LABELS).all(axis=1)
    assert metric.compute(scope) == np.delete(right, [3, 7]).mean()


# -- means over samples -------------------------------------------------------------------------------------

#: What scikit-learn calls each metric, and its arguments.
OF_ROWS = {
    "precision": (fm.Precision, "precision_score", {}),
    "recall": (fm.Recall, "recall_score", {}),
    "f1": (fm.F1, "f1_score", {}),
    "f half": (fm.FBeta, "fbeta_score", {"beta": 0.5}),
    "f 0": (fm.FBeta, "fbeta_score", {"beta": 0.0}),
    "f inf": (fm.FBeta, "fbeta_score", {"beta": np.inf}),
    "jaccard": (fm.Jaccard, "jaccard_score", {}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zero_division", [np.nan, 0, 1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OF_ROWS)
def test_the_mean_over_samples_is_scikit_learns(name, weighted, zero_division):
    kind, theirs, settings = OF_ROWS[name]
    random = np.random.default_rng(7)
    for labels in (2, 5):
        for rate in (0.1, 0.5, 0.9):
            label = (random.random((40, labels)) < rate).astype(int)
            score, weight = random.random((40, labels)), random.random(40) if weighted else None
            metric = kind(num_labels=labels, average="samples", zero_division=zero_division, **settings)
            for part in np.split(np.arange(40), [7, 25]):
                metric.add(score[part], label[part], weight=None if weight is None else weight[part])
            given = {"average": "samples", "sample_weight": weight, "zero_division": zero_division, **settings}
            if name == "jaccard" and np.isnan(zero_division):  # which scikit-learn's does not take
                some = ((score > 0.5) | (label > 0)).any(axis=1)
                label, score = label[some], score[some]
                given.update(zero_division=0, sample_weight=None if weight is None else weight[some])
            assert metric.compute() == pytest.approx(getattr(sklearn, theirs)(label, score > 0.5, **given), rel=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [fm.Precision, fm.Recall, fm.F1, fm.Jaccard, fm.Specificity])
def test_ignored_labels_weights_and_masks_of_a_mean_over_samples(kind, mode):
    random = np.random.default_rng(8)
    label = np.where(random.random(LABELS.shape) < 0.3, -1, LABELS)
    label[4] = -1  # a row without a label that counts
    data = Data(MANY, label, WEIGHT, np.arange(SAMPLES) % 3 > 0)
    metric = kind(num_labels=3, average="samples", ignore_index=-1, zero_division=0)
    cells = [np.array(each) for each in metric.parts]
    above = [sum(cells[0][y, int(p > 0.5)] for y, p in zip(ys, ps) if y >= 0) for ys, ps in zip(label, MANY)]
    below = [sum(cells[1][y, int(p > 0.5)] for y, p in zip(ys, ps) if y >= 0) for ys, ps in zip(label, MANY)]
    shares = np.divide(above, below, out=np.zeros(SAMPLES), where=np.array(below) > 0)
    expected = np.average(shares, weights=WEIGHT * data.mask * (label >= 0).any(axis=1))
    assert same(value(metric, data, mode), expected, exact=False)


def test_samples_without_a_value_are_counted_in_the_warning():
    metric = fm.Precision(num_labels=2, average="samples")
    metric.add([[0.9, 0.1], [0.1, 0.2], [0.9, 0.9]], [[1, 0], [1, 0], [1, 0]])
    told = "precision of 1 of 3 samples is undefined: no label is predicted; the samples average leaves them out"
    with pytest.warns(fm.UndefinedMetricWarning, match=told):
        assert metric.compute() == 0.75
    metric.reset()
    metric.add([[0.1, 0.2]], [[1, 0]])
    with pytest.warns(fm.UndefinedMetricWarning, match="precision is undefined: of every sample, no label is predict"):
        assert np.isnan(metric.compute())


def test_means_over_samples_share_what_they_count_and_go_through_wrappers():
    two = {"num_labels": 3, "average": "samples", "zero_division": 0}
    collection = fm.MetricCollection(
        {"p": fm.Precision(**two), "r": fm.Recall(**two), "all": fm.ExactMatch(num_labels=3)}
    )
    assert len({id(metric.states["rows"]) for metric in collection.metrics.values()}) == 1
    sliced = fm.Sliced(fm.F1(**two), by="slot")
    slot = np.arange(SAMPLES) % 3
    sliced.add(MANY, LABELS, slot=slot)
    for key, found in sliced.compute().items():
        alone = alone_over(fm.F1(**two), MANY[slot == key], LABELS[slot == key])
        assert found == pytest.approx(alone, rel=1e-12)


def alone_over(metric, prediction, label):
    metric.add(prediction, label)
    return metric.compute()


def test_an_entry_per_label_is_an_error_for_means_over_samples():
    for argument in ("weight", "mask"):
        metric = fm.F1(num_labels=3, average="samples")
        told = error_of(lambda argument=argument, metric=metric: metric.add(MANY, LABELS, **{argument: LABELS}))
        assert f"{argument} has one entry per element; a metric of whole rows takes one per row, of shape [n]" in told


# -- bad input -------------------------------------------------------------------------------------------

SETTINGS = [
    (fm.F1, {"task": "multi"}, "task must be one of 'binary', 'multiclass', 'multilabel', not 'multi'"),
    (fm.CohenKappa, {"task": "multilabel", "num_labels": 2}, "one of 'binary', 'multiclass', not 'multilabel'"),
    (fm.ExactMatch, {"task": "binary"}, "task must be one of 'multilabel', not 'binary'"),
    (fm.F1, {"task": "multiclass"}, "num_classes must be an integer of at least 2 with task='multiclass', not None"),
    (fm.F1, {"task": "multiclass", "num_classes": 1}, "num_classes must be an integer of at least 2 with"),
    (fm.F1, {"task": "multiclass", "num_classes": 3.0}, "not 3.0"),
    (fm.F1, {"task": "multilabel", "num_labels": 0}, "num_labels must be an integer of at least 1 with"),
    (fm.ExactMatch, {}, "num_labels must be an integer of at least 1 with task='multilabel', not None"),
    (
        fm.F1,
        {"task": "binary", "num_classes": 2},
        "num_classes belongs to task='multiclass'; with task='binary' it must be None, not 2",
    ),
    (fm.F1, {"task": "multiclass", "num_classes": 3, "num_labels": 2}, "num_labels belongs to task='multilabel'"),
    (fm.F1, {"average": "macro"}, "average must be left out with task='binary', which counts class 1 only"),
    (fm.F1, {"task": "multiclass", "num_classes": 3, "average": "samples"}, "average='samples' needs num_labels="),
    (fm.F1, {"average": "samples"}, "average must be left out with task='binary', which counts class 1 only"),
    (fm.F1, {"num_labels": 3, "average": "sample"}, "one of 'auto', 'micro', 'macro', 'weighted', 'samples', 'none', "),
    (fm.F1, {"task": "multiclass", "num_classes": 3, "average": "binary"}, "not 'binary'"),
    (fm.StatScores, {"average": "macro"}, "average must be one of 'micro', 'none', None, not 'macro'"),
    (fm.F1, {"threshold": 1.5}, "threshold must be a number from 0 to 1, not 1.5"),
    (fm.F1, {"threshold": np.nan}, "threshold must be a number from 0 to 1, not nan"),
    (fm.F1, {"zero_division": "warn"}, "zero_division must be nan or a finite number, not 'warn'"),
    (fm.F1, {"zero_division": np.inf}, "zero_division must be nan or a finite number, not inf"),
    (fm.F1, {"ignore_index": 0.5}, "ignore_index must be an integer, several in a list, or None, not 0.5"),
    (fm.FBeta, {"beta": -1}, "beta must be a number from 0 to inf, not -1"),
    (fm.ConfusionMatrix, {"normalize": "rows"}, "normalize must be one of 'true', 'pred', 'all', None, not 'rows'"),
    (fm.CohenKappa, {"weights": "cubic"}, "weights must be one of 'linear', 'quadratic', None, not 'cubic'"),
    (fm.LogLoss, {"average": "micro"}, "average needs task='multilabel'"),
    (fm.LogLoss, {"task": "multilabel", "num_labels": 2, "average": "weighted"}, "average must be one of 'micro'"),
    (fm.HingeLoss, {"task": "multilabel"}, "task must be one of 'binary', 'multiclass', not 'multilabel'"),
    (fm.Accuracy, {"average": None}, "average=None needs num_classes="),
    (fm.Accuracy, {"task": "binary", "average": "macro"}, "average must be 'micro' with task='binary', not 'macro'"),
    (fm.Accuracy, {"task": "binary", "top_k": 2}, "top_k=2 needs task='multiclass', not 'binary'"),
]


@pytest.mark.parametrize("metric, settings, told", SETTINGS)
def test_a_wrong_setting_is_named_with_what_is_allowed(metric, settings, told):
    assert told in error_of(lambda: metric(**settings))


BATCHES = [
    ({"task": "multiclass", "num_classes": 3}, np.ones((2, 4)), [0, 1], "prediction has shape [n, 4]; with task="),
    ({"task": "multiclass", "num_classes": 3}, np.ones((2, 3)), [0, 3], "label must be a class: a whole number from"),
    ({"task": "multiclass", "num_classes": 3}, [0, 3], [0, 1], "prediction must be a class: a whole number from 0 to"),
    ({"task": "multiclass", "num_classes": 3}, [0.5, 1.0], [0, 1], "prediction must be a class: a whole number from 0"),
    ({"task": "multiclass", "num_classes": 3, "ignore_index": -1}, [0, 1], [0, -2], "from 0 to 2, or ignore_index=-1;"),
    ({"task": "multilabel", "num_labels": 3}, np.ones((2, 2)), np.ones((2, 2)), "both must have shape [n, 3]"),
    ({"task": "multilabel", "num_labels": 3}, np.ones((2, 3)), [0, 1], "and label has 1"),
    ({"task": "multilabel", "num_labels": 2}, np.ones((2, 2)), np.full((2, 2), 2), "label must be a class: 0 or 1"),
    ({}, np.ones((2, 3)), [0, 1], "prediction has shape [n, 3]; allowed are [n], [n, 1]"),
    ({}, [0, 2], [0, 1], "prediction must be a probability in [0, 1]"),
    ({}, [0, 1], [0, -1], "label must be a class: 0 or 1"),
]  # fmt: skip


@pytest.mark.parametrize("settings, prediction, label, told", BATCHES)
def test_a_batch_that_is_not_of_the_task_is_an_error_and_adds_nothing(settings, prediction, label, told):
    metric = fm.F1(**settings)
    assert told in error_of(lambda: metric.add(prediction, label))
    assert not metric.states["confusion"].read().any()
    if "shape" in told:  # shapes are checked even if values are not
        assert told in error_of(lambda: fm.F1(validate=False, **settings).add(prediction, label))


def test_scores_are_asked_for_where_classes_do_not_do():
    for metric in (
        fm.LogLoss(task="multiclass", num_classes=3),
        fm.HingeLoss(task="multiclass", num_classes=3),
        fm.Accuracy(task="multiclass", num_classes=3, top_k=2),
    ):
        told = error_of(lambda metric=metric: metric.add([0, 1], [0, 1]))
        assert "prediction has the label's shape" in told and "[n, 3]" in told


def test_a_static_program_reports_labels_that_are_not_classes():
    label = CLASS.copy()
    label[[1, 5]] = [7, -1]
    metric = fm.F1(task="multiclass", num_classes=5)
    scope = StaticFeed(metric, Data(SCORES, label)).run([Data(SCORES, label)])
    with pytest.raises(fm.InvalidInputError, match=r"2 of 60 samples .* label: a class: a whole number from 0 to 4"):
        metric.compute(scope)


def test_the_states_are_whole_numbers_without_weights():
    for metric in (fm.F1(), fm.F1(ignore_index=-1), fm.ExactMatch(num_labels=1), fm.StatScores()):
        metric.add([0.5, 0.75], [0, 1])
        assert all(state.read().dtype == np.int64 for state in metric.states.values())


def test_a_matrix_that_was_returned_may_be_changed():
    metric = fm.ConfusionMatrix()
    metric.add([0.5, 0.75], [0, 1])
    metric.compute_local()[:] = 7
    metric.compute()[:] = 7
    assert metric.compute().tolist() == [[1, 0], [0, 1]]


def test_flags_are_scores_in_every_mode():
    import paddle

    score, label = np.eye(3, dtype=bool), np.array([0, 1, 2])
    several = {"task": "multiclass", "num_classes": 3}
    metrics = fm.AUC(**several), fm.F1(**several, top_k=2), fm.Accuracy(top_k=2), 1 - fm.LogLoss(**several)
    for metric in metrics:
        metric.add(score, label)
        metric.add(paddle.to_tensor(score), paddle.to_tensor(label))
        assert metric.compute() == 1.0


def test_an_average_leaves_undefined_classes_out():
    metric = fm.Recall(task="multiclass", num_classes=3)
    metric.add([0, 1, 2], [0, 1, 1])
    with pytest.warns(fm.UndefinedMetricWarning, match="never true; the macro average leaves it out$"):
        assert metric.compute() == 0.75
