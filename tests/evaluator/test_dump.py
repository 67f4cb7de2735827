"""Predictions in a file: whole or not at all, in order, and as good as the evaluation they come from."""

from __future__ import annotations

import logging
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from fleetmetrics.errors import FleetMetricsError
from fleetmetrics.evaluator import BaseMetric, DumpResults, Evaluator
from fleetmetrics.evaluator import load as load_stand_in

#: Fewer samples than were added are asked for here; that there is a warning is another test's promise.
pytestmark = pytest.mark.filterwarnings("ignore:.* cut off:UserWarning")

RECORDS = [{"label": i, "score": np.arange(3) / (i + 1), "name": f"sample {i}"} for i in range(5)]


def dump(path: Any, records: Any = RECORDS, size: int | None = None) -> DumpResults:
    metric = DumpResults(path)
    metric.process(None, records)
    assert metric.evaluate(size) == {}
    return metric


def load(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same(found: Any, expected: Any) -> bool:
    return repr(found) == repr(expected)


def test_the_file_has_the_samples_in_order_and_leaves_no_other_file(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "fleetmetrics")
    path = tmp_path / "new" / "folder" / "out.pkl"
    metric = dump(str(path), size=4)
    assert same(load(path), RECORDS[:4])
    assert files(path.parent) == ["out.pkl"]
    assert metric.results == []
    assert f"Results has been saved to {path}." in caplog.text


@pytest.mark.parametrize("name", ["out.pkl", "out.pickle", "no.dots.in.this.pkl"])
def test_the_path_may_be_any_of_a_pickle(tmp_path: Path, name: str, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    dump(name)
    dump(tmp_path / "path" / name)
    assert same(load(tmp_path / name), RECORDS)
    assert same(load(tmp_path / "path" / name), RECORDS)


@pytest.mark.parametrize("name", ["out.json", "out", "pkl", ""])
def test_another_ending_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"out_file_path must end in \.pkl, \.parquet or \.npz, not be ") as error:
        DumpResults(out_file_path=name, collect_device="cpu", collect_dir=None)
    assert isinstance(error.value, FleetMetricsError)


def test_an_older_file_is_replaced_and_its_readers_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "out.pkl"
    dump(path, ["old"])
    with path.open("rb") as reader:
        dump(path, ["new"])
        assert pickle.load(reader) == ["old"]
    assert load(path) == ["new"]


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_the_file_has_the_permissions_that_the_user_has_set(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        dump(tmp_path / "out.pkl")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.pkl").stat().st_mode) == 0o666 & ~mask


def test_tensors_are_in_the_file(tmp_path: Path) -> None:
    dump(tmp_path / "out.pkl", [{"score": paddle.to_tensor([0.5, 1.5]), "more": [(paddle.to_tensor(3), "a")]}])
    for read in (load, load_stand_in):  # which needs no allow_pickle for them
        (record,) = read(tmp_path / "out.pkl")
        assert np.asarray(record["score"]).tolist() == [0.5, 1.5]
        assert np.asarray(record["more"][0][0]).item() == 3
        assert record["more"][0][1] == "a"


def test_tensors_are_columns_of_an_archive(tmp_path: Path) -> None:
    dump(
        tmp_path / "out.npz",
        [{"score": paddle.to_tensor([0.5, n]), "more": {"n": paddle.to_tensor(n)}} for n in range(3)],
    )
    with np.load(tmp_path / "out.npz") as found:
        assert {name: found[name].tolist() for name in found} == {
            "score": [[0.5, 0], [0.5, 1], [0.5, 2]],
            "more.n": [0, 1, 2],
        }


def test_a_record_that_cannot_be_pickled_leaves_the_older_file_and_the_results(tmp_path: Path) -> None:
    path = tmp_path / "out.pkl"
    dump(path, ["old"])
    records = [{"label": 1}, {"label": lambda: 2}]
    metric = DumpResults(path)
    metric.process(None, records)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        metric.evaluate(2)
    assert load(path) == ["old"]
    assert files(tmp_path) == ["out.pkl"]
    assert len(metric.results) == 2
    metric.results[1] = {"label": 2}
    metric.evaluate(2)
    assert load(path) == [{"label": 1}, {"label": 2}]


def test_a_file_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "out.pkl").mkdir()
    (tmp_path / "out.pkl" / "inside").touch()
    metric = DumpResults(tmp_path / "out.pkl")
    metric.process(None, RECORDS)
    with pytest.raises(OSError):
        metric.evaluate(5)
    assert files(tmp_path) == ["out.pkl"]
    assert len(metric.results) == 5


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    metric = DumpResults(tmp_path / "file" / "out.pkl")
    metric.process(None, RECORDS)
    with pytest.raises(OSError):
        metric.evaluate(5)
    assert files(tmp_path) == ["file"]
    assert len(metric.results) == 5


FULL = """
import os, resource, sys
from fleetmetrics.evaluator import DumpResults
metric = DumpResults(sys.argv[1])
metric.process(None, [os.urandom(1000) for _ in range(1000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    metric.evaluate(1000)
except OSError as error:
    print(error.strerror, len(metric.results), sorted(os.listdir(os.path.dirname(sys.argv[1]))))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
metric.evaluate(1000)
print(len(metric.results), os.listdir(os.path.dirname(sys.argv[1])))
"""


def test_a_disk_without_room_leaves_the_older_file_and_the_results(tmp_path: Path) -> None:
    path = tmp_path / "out.pkl"
    dump(path, ["old"])
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.splitlines() == ["File too large 1000 ['out.pkl']", "0 ['out.pkl']"], done.stderr
    assert len(load(path)) == 1000


def test_what_was_dumped_evaluates_to_the_same_values(tmp_path: Path) -> None:
    class Mean(BaseMetric):
        default_prefix = "mean"

        def process(self, data_batch: Any, data_samples: Any) -> None:
            self.results.extend(sample["score"].sum() * sample["label"] for sample in data_samples)

        def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
            return {"score": float(np.mean(results))}

    online = Evaluator([Mean(), dict(type="DumpResults", out_file_path=str(tmp_path / "out.pkl"))])
    online.process(RECORDS[:3])
    online.process(RECORDS[3:])
    values = online.evaluate(5)
    assert Evaluator(Mean()).offline_evaluate(load(tmp_path / "out.pkl"), chunk_size=2) == values


def test_one_process_alone_need_not_import_paddle(tmp_path: Path) -> None:
    code = (
        "import sys; from fleetmetrics.evaluator import DumpResults; m = DumpResults(sys.argv[1]);"
        " m.process(None, [{'a': (1, [2])}]); m.evaluate(1); print('paddle' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out.pkl")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "False\n", done.stderr
    assert load(tmp_path / "out.pkl") == [{"a": (1, [2])}]
