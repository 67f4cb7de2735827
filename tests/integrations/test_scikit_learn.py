"""`fleetmetrics.classification_report`: scikit-learn's numbers, and what it refuses."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import fleetmetrics as fm

pytestmark = pytest.mark.numpy_only
ROOT = Path(__file__).resolve().parents[2]
NAMES = np.array(["ant", "bee", "cat", "dog", "emu", "fox"])


def same(mine, theirs):
    """Whether two reports have the same keys, in the same order, and numbers."""
    if isinstance(theirs, dict):
        return list(mine) == list(theirs) and all(same(mine[key], theirs[key]) for key in theirs)
    return mine == pytest.approx(theirs, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("zero_division", [math.nan, 0.0, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strings", [False, True])
def test_it_is_that_of_scikit_learn_also_of_missing_classes_and_of_some(zero_division, weighted, strings):
    from sklearn.metrics import classification_report

    rng = np.random.default_rng(7)
    for samples in (1, 2, 5, 12, 40):
        label, prediction = rng.integers(0, 6, (2, samples)) * (1 if strings else 7)
        if strings:
            label, prediction = NAMES[label], NAMES[prediction]
        weight = rng.random(samples) if weighted else None
        known = sorted({*label.tolist(), *prediction.tolist()})
        for labels in (None, known[::-1], known[1:2]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = classification_report(
                    *(label, prediction),
                    labels=labels,
                    sample_weight=weight,
                    zero_division=zero_division,
                    output_dict=True,
                )
                mine = fm.classification_report(
                    label=label, prediction=prediction, labels=labels, weight=weight, zero_division=zero_division
                )
            assert same(mine, theirs), (samples, labels)


def test_of_scores_the_highest_counts_and_labels_name_the_columns():
    scores = [[0.1, 0.7, 0.2], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6]]
    named = fm.classification_report(label=["b", "a", "a"], prediction=scores, labels=["a", "b", "c"], zero_division=0)
    numbered = fm.classification_report(
        label=[1, 0, 0], prediction=scores, target_names=["a", "b", "c"], zero_division=0
    )
    assert named == numbered and named["a"] == {"precision": 1.0, "recall": 0.5, "f1-score": 2 / 3, "support": 2}
    assert named["accuracy"] == 2 / 3


def test_several_labels_are_those_of_the_metric():
    label, prediction = [[1, 0], [1, 1], [0, 1]], [[1, 0], [0, 1], [1, 1]]
    metric = fm.ClassificationReport(num_labels=2, target_names=["click", "like"])
    metric.add(prediction, label)
    found = fm.classification_report(label=label, prediction=prediction, target_names=["click", "like"])
    assert found == metric.compute() and found["like"]["recall"] == 1 and "micro avg" in found


def test_ignored_labels_and_masked_samples_do_not_count():
    label, prediction, keep = ["a", "b", "?", "a"], ["a", "a", "b", "b"], [True, True, True, False]
    whole = fm.classification_report(label=label[:2], prediction=prediction[:2], zero_division=0)
    given = {"label": label, "prediction": prediction, "mask": keep, "zero_division": 0}
    assert fm.classification_report(**given, ignore_index="?") == whole
    assert fm.classification_report(**given, ignore_index=["?", "!"]) == whole
    numbers = fm.classification_report(label=[0, 1, -1], prediction=[0, 0, 1], ignore_index=-1, zero_division=0)
    assert numbers["accuracy"] == 0.5


def test_a_plain_dict_is_one():
    given = {"label": [0, 1], "prediction": [0, 1]}
    assert type(fm.classification_report(**given, output_dict=True)) is dict
    assert fm.classification_report(**given) == fm.classification_report(**given, output_dict=True)


def test_without_samples_there_is_a_warning():
    with pytest.warns(fm.UndefinedMetricWarning, match="there are no samples"):
        assert math.isnan(fm.classification_report(label=[], prediction=[])["accuracy"])


ONE = {"label": [1], "prediction": [1]}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"label": [1]}, "classification_report needs prediction="),
        ({**ONE, "y_true": [1]}, "no argument 'y_true'; did you mean label?"),
        ({**ONE, "sample_weight": [1]}, "no argument 'sample_weight'; did you mean weight?"),
        ({"label": [1, 2], "prediction": [1]}, "prediction has 1 samples, and label has 2; give one for each"),
        (
            {"label": [1], "prediction": ["1"]},
            "label has integers and prediction has strings; give classes in one form",
        ),
        ({**ONE, "ignore_index": "a"}, "label has integers and ignore_index has strings"),
        (
            {"label": [1], "prediction": [0.7]},
            "prediction must hold classes, integers or strings, not float64 .of prob",
        ),
        ({"label": [1.0], "prediction": [1]}, "label must hold classes, integers or strings, not float64"),
        ({"label": [1], "prediction": [[0.1, np.nan]]}, "prediction must hold scores .n, classes. without nan"),
        ({"label": ["a"], "prediction": [[0.1, 0.9]]}, "name the classes of the columns, labels="),
        (
            {"label": ["a"], "prediction": [[0.1, 0.9]], "labels": ["a"]},
            "labels has 1 classes, and prediction scores of 2",
        ),
        ({**ONE, "labels": [1, 1]}, "labels: '1' is there twice"),
        ({**ONE, "target_names": ["a", "b"]}, "target_names must hold a name for each of the 1 classes"),
        ({"label": ["accuracy"], "prediction": ["accuracy"]}, "'accuracy' is also the name of an average"),
        ({**ONE, "digits": -1}, "digits must be an integer of at least 0, not -1"),
        ({**ONE, "output_dict": 1}, "output_dict"),
        ({**ONE, "zero_division": "warn"}, "zero_division must be nan or a finite number, not 'warn'"),
        ({"label": np.ma.masked_array([1], [True]), "prediction": [1]}, "label is a masked array"),
    ],
)
def test_what_has_no_report_is_refused_with_what_to_do(given, why):
    with pytest.raises(fm.InvalidInputError, match=why) as refused:
        fm.classification_report(**given)
    assert "\n" not in str(refused.value)


def test_the_order_of_two_libraries_is_not_guessed():
    with pytest.raises(
        fm.InvalidInputError, match="takes label= and prediction= by keyword: scikit-learn takes labels"
    ):
        fm.classification_report([1, 0], [1, 1])


def test_the_pages_show_the_report_that_their_program_prints():
    label, prediction = ["cat", "cat", "dog", "owl", "owl", "owl"], ["cat", "dog", "dog", "owl", "owl", "cat"]
    text = f"```text\n{fm.classification_report(label=label, prediction=prediction)}\n```\n"
    for language in ("", ".zh"):
        assert text in (ROOT / f"docs/metrics/classification{language}.md").read_text("utf-8")
