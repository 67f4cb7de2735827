"""Offline evaluation of files in one process: what was dumped, and what other programs have written."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import DumpResults, Evaluator
from tests.evaluator.metrics_of_the_tests import Seen

pytestmark = pytest.mark.numpy_only

FIELDS = [
    {"pred_score": np.float32([0.1 * n, 1]), "label": n, "name": f"n° {n}", "more": {"box": np.eye(2) * n, "ok": n > 1}}
    for n in range(5)
]


class Kept(Seen):
    """What it is given is the value, as it is."""

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"records": results}


def written(path: Any, samples: Any = FIELDS, start: int = 0, stop: int = 5) -> Any:
    dump = Evaluator(DumpResults(path))
    dump.process(samples[start:stop])
    dump.evaluate(stop - start)
    return path


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [str(value.dtype), value.tolist()] if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("ending", [".parquet", ".npz", ".pkl"])
@pytest.mark.parametrize("chunk_size", [1, 2, 7])
def test_the_samples_of_a_file_come_back_as_they_were(tmp_path: Any, ending: str, chunk_size: int) -> None:
    evaluator = Evaluator(Kept())
    path = written(tmp_path / f"all{ending}")
    found = evaluator.offline_evaluate(path, None, chunk_size, allow_pickle=ending == ".pkl")["seen/records"]
    assert [plain(sample) for sample in found] == [plain(sample) for sample in FIELDS]


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
def test_several_files_are_read_in_the_order_of_their_names(tmp_path: Any, ending: str) -> None:
    for name, start, stop in (("b", 2, 5), ("a", 0, 2)):
        written(tmp_path / f"{name}{ending}", start=start, stop=stop)
    for files in (tmp_path, f"{tmp_path}/*{ending}"):
        found = Evaluator(Kept()).offline_evaluate(files, [-n for n in range(5)], chunk_size=2)["seen/records"]
        assert [sample["label"] for sample in found] == list(range(5))


def test_parquet_of_another_program_is_read_with_its_lists_and_structs(tmp_path: Any) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = {"scores": [[0.5], [0.25, 0.75]], "inside": [{"a": 1}, {"a": 2}], "name": ["x", "y"]}
    parquet.write_table(pa.table(table), tmp_path / "p.parquet", row_group_size=1)
    found = Evaluator(Kept()).offline_evaluate(str(tmp_path / "p.parquet"))["seen/records"]
    assert [plain(sample) for sample in found] == [
        {"scores": ["float64", [0.5]], "inside": {"a": 1}, "name": "x"},
        {"scores": ["float64", [0.25, 0.75]], "inside": {"a": 2}, "name": "y"},
    ]


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.jsonl", "p.jsonl.zst", "p.arrow", "p.arrows", "p"])
def test_the_files_of_the_metrics_of_files_are_read(tmp_path: Any, name: str) -> None:
    import pyarrow as pa
    import pyarrow.csv

    rows = [{"label": n, "more": {"ok": n > 1, "name": f"n° {n}"}, "score": n / 4} for n in range(5)]
    table = pa.Table.from_pylist(rows).flatten()
    if "arrow" in name:
        with (pa.ipc.new_file if name == "p.arrow" else pa.ipc.new_stream)(tmp_path / name, table.schema) as writer:
            writer.write_table(table, 2)
    else:
        with pa.output_stream(tmp_path / name, compression="detect") as file:
            if "csv" in name:
                pyarrow.csv.write_csv(table, file)
            else:
                file.write("\n".join(map(json.dumps, rows)).encode())
    assert Evaluator(Kept()).offline_evaluate(tmp_path / name, chunk_size=2)["seen/records"] == rows


def test_lists_and_objects_of_json_become_arrays_and_dicts(tmp_path: Any) -> None:
    (tmp_path / "p.jsonl").write_text(
        '{"a": {"b": {"scores": [0.5, 1]}}, "boxes": [[1, 2], [3, 4]], "day": "2026-11-22"}\n'
        '{"a": {"b": {"scores": [0, 1]}}, "boxes": [[5, 6], [7, 8]], "day": "2026-11-23"}\n'
    )
    found = Evaluator(Kept()).offline_evaluate(tmp_path / "p.jsonl")["seen/records"]
    assert [plain(sample["a"]["b"]["scores"]) for sample in found] == [["float64", [0.5, 1]], ["float64", [0, 1]]]
    assert [plain(sample["boxes"]) for sample in found] == [["int64", [[1, 2], [3, 4]]], ["int64", [[5, 6], [7, 8]]]]
    assert [sample["day"] for sample in found] == ["2026-11-22", "2026-11-23"]


BAD = {
    "a.csv": ("p,y\n1,2\n3,x\n", "a.csv: row 1, column 'y': 'x' is no"),
    "b.csv": ("p,y\n1,2\n3,\n", "b.csv: row 1, column 'y': no value"),
    "c.csv": ("p,y\n1,2\n3\n", "c.csv: line 3: 1 value; the header has 2: '3'"),
    "a.jsonl": ('{"p": 1}\n{"p": 2}\n{"p"\n', "a.jsonl: row 2: JSON parse error: Missing a colon"),
    "b.jsonl": ('{"p": 1}\n{"p": 2}\n{"p": "x"}\n', "b.jsonl: row 2, column 'p': 'x' is not a whole number"),
    "c.jsonl": ('{"p": {"a": 1}}\n{"p": {}}\n', "c.jsonl: row 1, column 'p.a': no value"),
    "d.jsonl": ('{"p": [1, 2]}\n{"p": [1, null]}\n', "d.jsonl: row 1, column 'p': no value"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_sample_is_named_by_file_and_row(tmp_path: Any, name: str, monkeypatch: Any) -> None:
    from fleetmetrics.files import lines

    monkeypatch.setattr(lines, "HEAD", 8 if "csv" in name else 16)  # the types are those of the first row
    text, told = BAD[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(fm.errors.DataError, match=told):
        Evaluator(Kept()).offline_evaluate(tmp_path / name)


def test_a_field_that_comes_late_is_an_error(tmp_path: Any, monkeypatch: Any) -> None:
    from fleetmetrics.files import lines

    monkeypatch.setattr(lines, "HEAD", 16)
    (tmp_path / "a.jsonl").write_text('{"p": 1}\n{"p": 2}\n{"p": 3, "q": 4}\n')
    with pytest.raises(fm.errors.DataError, match=r"a.jsonl: row 2: JSON parse error: unexpected field"):
        Evaluator(Kept()).offline_evaluate(tmp_path / "a.jsonl")


def test_arrays_by_columns_are_read(tmp_path: Any) -> None:
    boxes = np.asfortranarray(np.arange(12.0).reshape(2, 3, 2))
    np.savez_compressed(tmp_path / "p.npz", box=boxes, label=[1, 2])
    found = Evaluator(Kept()).offline_evaluate(tmp_path / "p.npz")["seen/records"]
    assert [plain(sample["box"]) for sample in found] == [["float64", each.tolist()] for each in boxes]


def test_a_pickle_is_read_only_where_it_is_asked_for(tmp_path: Any) -> None:
    path = written(tmp_path / "p.pkl")
    with pytest.raises(fm.InvalidInputError, match=r"p.pkl can run any code; .*allow_pickle=True"):
        Evaluator(Kept()).offline_evaluate(path)


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
def test_a_file_that_is_not_what_its_name_says_is_an_error_with_its_name(tmp_path: Any, ending: str) -> None:
    path, whole = tmp_path / f"p{ending}", written(tmp_path / f"whole{ending}").read_bytes()
    for content in (b"", b"nothing", whole[:-40]):
        path.write_bytes(content)
        with pytest.raises(fm.errors.DataError, match=f"p{ending}"):
            Evaluator(Kept()).offline_evaluate(path)


def test_a_file_that_does_not_hold_samples_is_named(tmp_path: Any) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    evaluator = Evaluator(Kept())
    (tmp_path / "p.txt").touch()
    (tmp_path / "p.csv").write_text("a,b\n1,2\n3\n")
    parquet.write_table(pa.table({"a": [1, None]}), tmp_path / "null.parquet")
    np.savez(tmp_path / "uneven.npz", a=np.zeros(2), b=np.zeros(3))
    for name, text in {
        "p.txt": r"p.txt: it is empty",
        "p.csv": r"p.csv: line 3: 1 value; the header has 2: '3'",
        "null.parquet": r"null.parquet: row 1, column 'a': no value",
        "uneven.npz": r"uneven.npz: the arrays differ in length: {'a': 2, 'b': 3}",
        "none-*.npz": r"none-\*.npz",
    }.items():
        with pytest.raises(fm.InvalidInputError, match=text):
            evaluator.offline_evaluate(tmp_path / name)
    assert evaluator.offline_evaluate([1, 2])["seen/records"] == [1, 2]


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([{"a": 1}, {"a": 1, "b": 2}], r"only one of the samples 0 and 1 has the field 'b'"),
        (
            [{"a": {"b": [1, 2]}}, {"a": {"b": [1]}}],
            r"the field 'a.b' is list \[2\] in sample 0, list \[1\] in",
        ),
        ([{"a": 1}, {"a": "x"}], r"the field 'a' is int \[\] in sample 0, str \[\] in sample 1"),
        ([{"a": None}], r"the field 'a' is NoneType \[\] in sample 0"),
        ([{"a": [[1], [2, 3]]}], r"the field 'a' is list"),
        ([{"a": ["x", 1]}], r"the field 'a' is list"),
        ([{"a": "x\0"}], r"the field 'a' is str"),
        ([{"a": 2**70}], r"the field 'a' is int"),
        ([{"a.b": 1}], r"the name of the field 'a.b' must be a string without a dot"),
        ([{1: 1}], r"the name of the field 1 must be a string"),
        (["x"], r"a data sample is str"),
        ([{}], r"a data sample is dict"),
    ],
)
def test_an_invalid_column_is_an_error_with_the_field_and_the_sample(
    tmp_path: Any, ending: str, samples: Any, text: str
) -> None:
    with pytest.raises(fm.InvalidInputError, match=text + r".*write a \.pkl file"):
        written(tmp_path / f"p{ending}", samples, stop=len(samples))
    assert list(tmp_path.iterdir()) == []


def test_a_field_may_have_any_name(tmp_path: Any) -> None:
    samples = [{"file": np.float32([1.5, n]), "allow_pickle": np.int8(n)} for n in range(3)]
    found = Evaluator(Kept()).offline_evaluate(written(tmp_path / "p.npz", samples, stop=3))["seen/records"]
    assert [plain(sample) for sample in found] == [{"file": ["float32", [1.5, n]], "allow_pickle": n} for n in range(3)]


def test_without_samples_the_file_is_empty(tmp_path: Any) -> None:
    for ending in (".parquet", ".npz"):
        assert Evaluator(Seen()).offline_evaluate(written(tmp_path / f"p{ending}", stop=0))["seen/n"] == 0
