"""The report of classes: its numbers, its names, its forms."""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings

import numpy as np
import pytest

from fleetmetrics import ClassificationReport, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas import classification_report, f_beta, precision, recall

pytestmark = pytest.mark.numpy_only
MATRIX = [[30, 5, 0], [2, 40, 1], [0, 7, 15]]
NAMES = ["cat", "dog", "猫头鹰"]


def test_its_numbers_are_those_of_the_formulas_one_by_one():
    report = classification_report(MATRIX, NAMES)
    for measure, formula in (("precision", precision), ("recall", recall), ("f1-score", f_beta)):
        assert [report[name][measure] for name in NAMES] == formula(MATRIX, None).tolist()
        for average in ("macro", "weighted"):
            assert report[f"{average} avg"][measure] == formula(MATRIX, average)
    assert [report[name]["support"] for name in NAMES] == [35, 43, 22] and report["macro avg"]["support"] == 100
    assert report["accuracy"] == 0.85 and list(report) == [*NAMES, "accuracy", "macro avg", "weighted avg"]
    assert report.classes == NAMES


def test_several_labels_have_micro_averages_and_no_accuracy():
    matrices = [[[5, 1], [2, 4]], [[8, 2], [1, 1]]]
    report = classification_report(matrices)
    assert list(report) == ["0", "1", "micro avg", "macro avg", "weighted avg"]
    assert report["micro avg"]["recall"] == recall(matrices, "micro") == 5 / 8


def test_the_table_has_digits_aligned_wide_characters_and_no_number_where_the_accuracy_has_none():
    lines = str(classification_report(MATRIX, NAMES, digits=3)).splitlines()
    assert lines[0].split() == ["precision", "recall", "f1-score", "support"]
    assert lines[3].startswith("猫头鹰  ") and lines[3].split() == ["猫头鹰", "0.938", "0.682", "0.789", "22"]
    assert lines[4].split() == ["accuracy", "0.850", "100"]
    weighted = classification_report(np.asarray(MATRIX) * 0.25)
    assert str(weighted).splitlines()[1].split()[-1] == "8.75"


def test_a_notebook_shows_the_table_with_numbers_to_the_right():
    page = classification_report(MATRIX, ["<b>", "dog", "owl"])._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert page.count('<td style="text-align: right; font-variant-numeric: tabular-nums">') == 6 * 4


def test_it_is_a_dict_for_json_copies_and_pickles():
    report = classification_report(MATRIX, NAMES, digits=4)
    assert json.loads(json.dumps(report)) == report and "np." not in repr(report) and repr(report)[0] == "{"
    for other in (copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert other == report and str(other) == str(report) and type(other) is type(report)


def test_a_frame_has_a_row_for_each_class_and_average():
    pytest.importorskip("pandas")
    frame = classification_report(MATRIX, NAMES).frame()
    assert frame.loc["dog", "recall"] == 40 / 43 and frame.loc["accuracy", "f1-score"] == 0.85
    assert list(frame.index) == [*NAMES, "accuracy", "macro avg", "weighted avg"]


def test_one_warning_names_the_classes_without_a_number():
    with pytest.warns(UndefinedMetricWarning) as said:
        report = classification_report([[1, 0, 0], [1, 0, 0], [1, 0, 0]], ["cat", "dog", "owl"])
    assert [str(warning.message) for warning in said] == [
        "classification_report: undefined are precision of dog, owl, never predicted. Averages leave them out"
    ]
    assert math.isnan(report["dog"]["precision"]) and report["macro avg"]["precision"] == 1 / 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = classification_report([[1, 0, 0], [1, 0, 0], [1, 0, 0]], zero_division=0)
    assert report["macro avg"]["precision"] == 1 / 9


def test_without_samples_all_is_undefined_with_one_warning():
    with pytest.warns(UndefinedMetricWarning, match="classification_report is undefined: there are no samples") as said:
        report = classification_report(np.zeros((2, 2), int))
    assert len(said) == 1 and math.isnan(report["accuracy"]) and report["1"]["support"] == 0
    assert str(report).count("undefined") == 2 * 3 + 1 + 2 * 3


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["a", "b"], "target_names must hold a name for each of the 3 classes, not"),
        (["a", "b", "a"], "target_names: 'a' is there twice"),
        (["a", "b", "macro avg"], "target_names: 'macro avg' is also the name of an average"),
        ("abc", "target_names must be a list of names of the classes, not 'abc'"),
        ({"a", "b", "c"}, "target_names must be a list of names of the classes, in their order, not {"),
        ({0: "a", 1: "b", 2: "c"}, "target_names must be a list of names of the classes, in their order, not {0"),
    ],
)
def test_names_that_no_dict_can_have_are_refused(names, why):
    with pytest.raises(InvalidInputError, match=why):
        classification_report(MATRIX, names)


def test_digits_are_of_0_to_15():
    with pytest.raises(InvalidInputError, match="digits must be at most 15, not 16"):
        classification_report(MATRIX, digits=16)


def test_the_average_over_samples_can_be_left_out_for_weights_of_single_labels():
    prediction, label = np.array([[0.9, 0.2], [0.7, 0.8]]), np.array([[1, 0], [1, 1]])
    with pytest.raises(InvalidInputError, match="a metric of whole rows takes one per row"):
        ClassificationReport(num_labels=2).add(prediction, label, weight=np.ones((2, 2)))
    metric = ClassificationReport(num_labels=2, samples_average=False)
    metric.add(prediction, label, weight=np.ones((2, 2)))
    assert "samples avg" not in metric.compute()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ClassificationReport(num_labels=2).compute()
    assert [str(warning.message)[:34] for warning in said] == ["classification_report is undefined"]


def test_a_class_that_a_report_does_not_have_is_named():
    report = classification_report(MATRIX, NAMES)
    with pytest.raises(KeyError, match=r"^there is no class 'dgo'; did you mean dog\?$"):
        report["dgo"]
