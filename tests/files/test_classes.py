"""Named classes: labels and predictions are renamed by one rule, whatever their type; no order is guessed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.numpy_only

RNG = np.random.default_rng(5)
TRUE = RNG.integers(0, 3, 90)
SAID = np.where(RNG.random(90) < 0.7, TRUE, 0)
ACCURACY = float((TRUE == SAID).mean())
NAMES = {
    "numbers": ["1", "2", "3"],
    "reversed": ["2", "1", "0"],
    "ids": ["101", "102", "205"],
    "large": [str(2**60 + 1), str(2**60), str(2**60 + 2)],
    "strings": ["cat", "dog", "owl"],
    "mixed": ["1", "cat", "true"],
    "negative": ["-1", "0", "1"],
}


def columns(names, label_type, said_type):
    def made(places, kind):
        texts = [names[place] for place in places]
        return pa.array(
            list(map(int, texts)) if kind == "int" else list(map(float, texts)) if kind == "float" else texts
        )

    return pa.table({"y": made(TRUE, label_type), "s": made(SAID, said_type)})


def written(table, path, form):
    if form == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path / "a.csv")
    elif form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path / "a.parquet")
    else:
        (path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path / f"a.{form}"


@pytest.mark.parametrize("form", ["frame", "csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("names", "label", "said"),
    [
        ("numbers", "int", "int"),
        ("numbers", "int", "float"),
        ("numbers", "text", "int"),
        ("numbers", "int", "text"),
        ("reversed", "int", "int"),
        ("ids", "int", "int"),
        ("large", "int", "int"),
        ("strings", "text", "text"),
        ("mixed", "text", "text"),
        ("negative", "int", "int"),
    ],
)
def test_predicted_classes_are_renamed_as_labels_are(tmp_path, names, label, said, form):
    table = columns(NAMES[names], label, said)
    data = table if form == "frame" else written(table, tmp_path, form)
    found = fm.evaluate(data, label="y", score="s", task="multiclass", classes=NAMES[names], metrics="accuracy,f1")
    assert found.values["accuracy"] == ACCURACY
    if form != "frame":
        metrics, _ = files.evaluate(
            data,
            lambda: fm.Accuracy(num_classes=3),
            {"prediction": "s", "label": "y"},
            reading=files.Reading(classes=NAMES[names]),
        )
        assert metrics.compute() == ACCURACY


@pytest.mark.parametrize("form", ["frame", "csv", "parquet", "jsonl"])
def test_the_baseline_is_renamed_too(tmp_path, form):
    table = columns(NAMES["reversed"], "int", "int")
    data = table if form == "frame" else written(table, tmp_path, form)
    found = fm.evaluate(
        data, baseline=table, label="y", score="s", task="multiclass", classes=NAMES["reversed"], metrics="accuracy"
    )
    assert found.values["accuracy"] == found.baseline.values["accuracy"] == ACCURACY


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_bools_name_classes(tmp_path, form):
    table = pa.table({"y": pa.array(TRUE == 1), "s": pa.array(SAID == 1)})
    data = table if form == "frame" else written(table, tmp_path, form)
    for classes in (["true", "false"], ["false", "true"]):
        found = fm.evaluate(data, label="y", score="s", task="multiclass", classes=classes, metrics="accuracy")
        assert found.values["accuracy"] == ((TRUE == 1) == (SAID == 1)).mean()
    mixed = pa.table({"y": pa.array((TRUE == 1).astype(int)), "s": pa.array(SAID == 1)})
    found = fm.evaluate(mixed, label="y", score="s", task="multiclass", classes=["1", "0"], metrics="accuracy")
    assert found.values["accuracy"] == ((TRUE == 1) == (SAID == 1)).mean()


@pytest.mark.parametrize("form", ["frame", "csv", "parquet", "jsonl"])
@pytest.mark.parametrize(("names", "kind", "other"), [("numbers", "int", 7), ("strings", "text", "emu")])
def test_a_prediction_that_names_no_class_is_an_error_with_row_value_and_names(tmp_path, form, names, kind, other):
    table = columns(NAMES[names], kind, kind)
    said = table.column("s").to_pylist()
    said[4] = other
    table = table.set_column(1, "s", pa.array(said))
    data = table if form == "frame" else written(table, tmp_path, form)
    given = {"label": "y", "score": "s", "task": "multiclass", "classes": NAMES[names], "metrics": "accuracy"}
    where = rf"row \d+, column 's': '?{other}'? where the prediction must be one of classes, {', '.join(NAMES[names])}"
    with pytest.raises(fm.DataError, match=where):
        fm.evaluate(data, **given)
    assert fm.evaluate(data, skip_bad_rows=True, **given).new.data.skipped == 1


@pytest.mark.parametrize("kind", ["int", "text"])
def test_a_metric_without_a_number_of_classes_renames_predicted_classes(tmp_path, kind):
    path = written(columns(NAMES["reversed"], kind, kind), tmp_path, "parquet")
    given = {"prediction": "s", "label": "y"}
    metrics, _ = files.evaluate(path, fm.Accuracy, given, reading=files.Reading(classes=["2", "1", "0"]))
    assert metrics.compute() == ACCURACY
    with pytest.raises(
        fm.DataError, match=r"column 's' holds '?2'?, the first at .*must be one of classes, 0, 1, or a prob"
    ):
        files.evaluate(path, fm.Accuracy, given, reading=files.Reading(classes=["0", "1"]))


def test_numbers_that_may_be_classes_or_probabilities_are_refused(tmp_path):
    table = pa.table({"y": pa.array([1, 0, 1, 1]), "s": pa.array([1.0, 0.0, 0.0, 1.0])})
    given = {"prediction": "s", "label": "y"}
    metrics, _ = files.evaluate(
        written(table, tmp_path, "csv"), fm.F1, given, reading=files.Reading(classes=["1", "0"])
    )
    assert metrics.compute() == pytest.approx(2 / 3)  # whole numbers of a text file are names
    path = written(table, tmp_path, "parquet")
    with pytest.raises(fm.DataError, match=r"column 's' holds only numbers that name classes, such as 1"):
        files.evaluate(path, fm.F1, given, reading=files.Reading(classes=["1", "0"]))
    metrics, _ = files.evaluate(path, fm.F1, given, reading=files.Reading(classes=["0", "1"]))
    assert metrics.compute() == 0.8
    with pytest.raises(fm.DataError, match=r"column 's' holds only whole numbers, such as 1, beside positive=0"):
        fm.evaluate(table, label="y", score="s", positive="0", metrics="accuracy")
    assert fm.evaluate(table, label="y", score="s", positive="1", metrics="accuracy").values["accuracy"] == 0.75
    real = pa.table({"y": pa.array(["no", "yes"]), "s": pa.array([0.25, 0.75])})
    metrics, _ = files.evaluate(
        written(real, tmp_path, "parquet"), fm.AUC, given, reading=files.Reading(classes=["no", "yes"])
    )
    assert metrics.compute() == 1.0


@pytest.mark.parametrize("form", ["{}", "p_{}", "{}_score", "p.{}.x"])
def test_columns_of_scores_in_another_order_than_the_classes_are_an_error_that_shows_the_right_one(form):
    names, scores = NAMES["strings"], RNG.dirichlet(np.ones(3), 90)
    there = [form.format(name) for name in names]
    table = pa.table({"y": pa.array([names[place] for place in TRUE]), **dict(zip(there, scores.T))})
    given = {"label": "y", "task": "multiclass", "classes": names, "metrics": "accuracy"}
    found = fm.evaluate(table, score=there, **given)
    assert found.values["accuracy"] == (scores.argmax(1) == TRUE).mean()
    with pytest.raises(fm.InvalidInputError, match=f"another order; give the scores as {','.join(there)}, or"):
        fm.evaluate(table, score=there[::-1], **given)
    others = table.rename_columns(["y", "c", "a", "b"])
    assert fm.evaluate(others, score=["c", "a", "b"], **given).values == found.values


@pytest.mark.parametrize("classes", [None, 3])
def test_so_are_those_that_have_the_numbers_of_the_classes(classes):
    scores = RNG.dirichlet(np.ones(3), 90)
    there = ["p_0", "p_1", "p_2"]
    table = pa.table({"y": TRUE, **dict(zip(there, scores.T))})
    given = {"label": "y", "task": "multiclass", "classes": classes, "metrics": "accuracy"}
    found = fm.evaluate(table, score=there, **given)
    assert found.values["accuracy"] == (scores.argmax(1) == TRUE).mean()
    with pytest.raises(fm.InvalidInputError, match="classes 0, 1, 2 has another order; give the scores as p_0,p_1,p_2"):
        fm.evaluate(table, score=there[::-1], **given)
    others = table.rename_columns(["y", "p_1", "p_2", "p_3"])
    assert fm.evaluate(others, score=["p_1", "p_2", "p_3"], **given).values == found.values
