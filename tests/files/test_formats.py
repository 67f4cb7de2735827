"""What a file is: told by its first bytes, wherever it comes from, and never taken for something else."""

from __future__ import annotations

import io
import lzma
import os
from types import SimpleNamespace

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = {"prediction": "p", "label": "y"}


def refused(path):
    with pytest.raises(DataError) as caught:
        files.evaluate(path, fm.AUC, COLUMNS, processes=1)
    return str(caught.value)


@pytest.mark.parametrize("name", ["BZh", "BZh91", "ORC", "ORCID", "Obj", "7z", "PK", "PAR", "ARROW", "[x]", "[p]"])
def test_csv_may_begin_with_any_name(tmp_path, name):
    path = tmp_path / "a.csv"
    path.write_text(f"{name},p,y\n7,0.9,1\n7,0.2,0\n")
    metrics, read = files.evaluate(path, fm.AUC, COLUMNS)
    assert (metrics.compute(), read.rows) == (1.0, 2)


@pytest.mark.parametrize("text", ['[{"p": 0.5, "y": 1}]', "[[0.5, 1]]", '\n [\n {"p": 0.5, "y": 1}]'])
def test_a_json_array_is_refused_with_the_way_to_lines(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert "it is a JSON array, not JSON Lines; convert it: jq" in refused(tmp_path / "a.json")


class Trickle(io.RawIOBase):
    """A pipe that hands out a few bytes at a time."""

    def __init__(self, data, size=7):
        self.rest, self.size = data, size

    def readable(self):
        return True

    def read(self, size=-1):
        size = min(self.size, size if size >= 0 else self.size)
        found, self.rest = self.rest[:size], self.rest[size:]
        return found


def given(monkeypatch, data):
    pipe = Trickle(data)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=pipe))
    return pipe


def test_a_pipe_that_trickles_is_read_as_a_file_is_and_stays_open(monkeypatch):
    """Of CSV the first bytes decide the types: here the key of the first row, behind the first seven bytes."""
    pipe = given(monkeypatch, b"p,y,k\n0.9,1,3\n0.2,0,4\n")

    def make():
        return fm.Sliced(fm.Count(), by="k", max_keys=None)

    metrics, _ = files.evaluate("-", make, {**COLUMNS, "k": "k"})
    assert metrics.compute() == {3: 1.0, 4: 1.0}
    assert not pipe.closed


@pytest.mark.parametrize("kind", ["parquet", "npz", "arrow"])
def test_what_a_pipe_cannot_give_is_said(tmp_path, monkeypatch, kind):
    path = tmp_path / f"a.{kind}"
    table = pa.table({"p": [0.9, 0.2], "y": [1, 0]})
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "npz":
        np.savez(path, p=[0.9, 0.2], y=[1, 0])
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    given(monkeypatch, path.read_bytes())
    told = "an Arrow file" if kind == "arrow" else kind
    assert f"-: {told} cannot be read from a pipe or a compressed stream" in refused("-")


@pytest.mark.parametrize("kind", ["xz", "npz", "zip"])
def test_packed_data_that_are_broken_in_the_middle_are_an_error_with_the_files_name(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    score = np.random.default_rng(0).integers(0, 1000, 50_000) / 1000  # of which packing leaves a part
    if kind == "xz":
        data = "p,y\n" + "".join(f"{each},1\n" for each in score)
        path.write_bytes(lzma.compress(data.encode()))
    else:
        np.savez_compressed(path, p=score, y=np.arange(50_000) % 2)
        path = path if kind == "npz" else path.with_suffix(".zip.npz")
    broken = bytearray(path.read_bytes())
    if kind == "zip":  # the table at its end
        broken[-60:] = os.urandom(60)
    else:
        broken[len(broken) // 3 : len(broken) // 3 + 99] = b"\xff" * 99
    path.write_bytes(bytes(broken))
    assert refused(path).startswith(f"{path}: it cannot be read{' as npz' * (kind != 'xz')}: ")
