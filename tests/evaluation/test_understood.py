"""A result says what it took labels, scores and options as: in text, JSON and the report, in two lines at most."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.understood import facts_of
from fleetmetrics.evaluation import compare, merge
from fleetmetrics.files.parts import Read, together

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

Y, P = np.arange(60) % 3 == 0, np.linspace(0.1, 0.9, 60)
LINE = "label: 0 and 1 (int64); score: probabilities (float64)"


def facts(data, **asked):
    return fm.evaluate(data, **{"label": "y", "score": "p", "metrics": "auc", **asked}).new.data.understood


@pytest.mark.parametrize(
    ("label", "score", "asked", "wanted"),
    [
        (Y.astype(int), P, {}, ("0 and 1 (int64)", "probabilities (float64)")),
        (Y, P.astype(np.float32), {}, ("true and false (bool)", "probabilities (float32)")),
        (Y.astype(float), P * 100, {"scale": 0.01}, ("0 and 1 (float64)", "probabilities, times 0.01 (float64)")),
        (
            Y.astype("int8"),
            P,
            {"from_logits": True},
            ("0 and 1 (int8)", "log-odds made probabilities by from_logits (float64)"),
        ),
        (
            np.where(Y, "click", "no"),
            P,
            {"positive": "click"},
            ("click is 1, all others 0, by positive (string)", "probabilities (float64)"),
        ),
        (
            np.where(Y, "cat", "dog"),
            np.where(Y, "cat", "dog"),
            {"classes": ["cat", "dog"], "task": "multiclass", "metrics": None},
            ("names of 2 classes, by classes (string)", "names of classes, by classes (string)"),
        ),
        (
            Y.astype(int),
            Y.astype(int),
            {"classes": 2, "task": "multiclass", "metrics": None},
            ("classes (int64)", "classes (int64)"),
        ),
        (
            Y.astype(int),
            np.stack([P, 1 - P], 1),
            {"classes": 2, "task": "multiclass", "metrics": None},
            ("classes (int64)", "2 a row (lists of float64)"),
        ),
        (Y * 2.5, P, {"task": "regression", "metrics": None}, ("numbers (float64)", "numbers (float64)")),
    ],
)
def test_labels_and_scores_are_said(label, score, asked, wanted):
    found = facts({"y": label, "p": score}, **asked)
    assert (found["label"], found["score"]) == wanted


def test_text_json_and_report_say_it_and_sides_that_are_alike_have_one_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"y": Y.astype(int), "p": P}), "a.parquet")
    pq.write_table(pa.table({"y": Y, "p": P}), "b.parquet")
    asked = ["--label", "y", "--score", "p", "--metrics", "auc"]
    assert main(["evaluate", "a.parquet", *asked, "--baseline", "a.parquet", "--html", "a.html"]) == 0
    assert capsys.readouterr().out.splitlines()[2:4] == [LINE, ""]
    page = (tmp_path / "a.html").read_text()
    assert "<bdi>0 and 1 (int64)</bdi>" in page and "<bdi>probabilities (float64)</bdi>" in page
    assert main(["evaluate", "a.parquet", *asked, "--baseline", "b.parquet"]) == 0
    other = LINE.replace("0 and 1 (int64)", "true and false (bool)")
    assert capsys.readouterr().out.splitlines()[2:5] == [LINE, f"baseline: {other}", ""]
    assert main(["evaluate", "a.parquet", *asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["data"]["understood"]
    assert found == {"label": "0 and 1 (int64)", "score": "probabilities (float64)"}


@pytest.mark.parametrize("processes", [1, 2])
def test_files_that_differ_have_both_kinds_said_also_by_processes_and_states(tmp_path, processes):
    for place, label in enumerate([Y.astype(int), Y]):
        folder = tmp_path / f"hour={place}"
        folder.mkdir()
        pq.write_table(pa.table({"y": label, "p": P}), folder / "a.parquet")
    found = fm.evaluate(str(tmp_path), label="y", score="p", metrics="auc", by="hour", processes=processes)
    assert found.new.data.understood["label"] == "0 and 1 (int64) or true and false (bool)"
    assert found.new.data.understood["hour"].endswith(", from folders")
    found.save_state(tmp_path / "a.fms")
    for again in (merge([tmp_path / "a.fms"]), compare(tmp_path / "a.fms", tmp_path / "a.fms")):
        assert again.new.data.understood == found.new.data.understood


def test_a_reader_says_a_fact_once_for_a_file_and_parts_join_in_any_order():
    columns = Columns(fm.AUC(), {"prediction": "p", "label": "y"})
    inside = columns.within("day=1/a.csv")
    for _ in range(2):
        inside.understand("quotes", "none")
    assert columns.understood == {"quotes": ["none"]}
    parts = [Read(understood={"z": ["b"], "label": ["x"]}), Read(understood={"z": ["a", "b"], "a": ["q"]})]
    wanted = {"label": ("x",), "a": ("q",), "z": ("a", "b")}
    for some in (parts, parts[::-1]):
        assert together(some).understood == wanted and list(together(some).understood) == list(wanted)
    assert facts_of({"z": list("abcde")}) == {"z": "a or b or c or 2 more"}
