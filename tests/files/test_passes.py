"""Records that do not fit into memory: some users at a time, in several passes over the files."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = {"prediction": "p", "label": "y", "user": "uid"}
ROWS = 4000


def make():
    return fm.MetricCollection({"gauc": fm.GAUC(), "ndcg": fm.NDCG(k=3, by="user"), "n": fm.Count(), "auc": fm.AUC()})


@pytest.fixture(params=["integers", "texts"])
def folder(request, tmp_path):
    rng = np.random.default_rng(3)
    user = rng.integers(0, 90, ROWS)
    score = rng.random(ROWS).astype(np.float32)
    data = {"p": score, "y": rng.integers(0, 2, ROWS)}
    data["uid"] = user if request.param == "integers" else [f"user {each}" for each in user]
    table = pa.table(data)
    for place in range(3):
        pq.write_table(table.slice(place * 1000, 1000 if place < 2 else ROWS), tmp_path / f"{place}.parquet")
    return tmp_path


@pytest.fixture
def few(monkeypatch):
    """So little memory that it takes five passes."""
    monkeypatch.setattr(files, "_BASE", 1000)
    monkeypatch.setattr(files, "_PER_ROW", 1)
    return {"memory": 1250 + 2 * (2 * ROWS // 5)}  # two passes at a time


def test_passes_give_the_values_of_one_and_their_number_follows_from_the_memory(folder, few, monkeypatch):
    passes = []
    close = fm.MetricCollection.close
    monkeypatch.setattr(
        fm.MetricCollection, "close", lambda self, **given: passes.append(given) or close(self, **given)
    )
    want = files.evaluate(folder, make, COLUMNS, processes=1)
    metrics, read = files.evaluate(folder, make, COLUMNS, processes=1, complete_by="user", **few)
    assert passes == [{"complete_by": "user"}] * 5
    assert metrics.compute() == want.metrics.compute()
    assert read == want.read


def test_processes_share_the_passes(folder):
    one = files.evaluate(folder, make, COLUMNS, processes=1, complete_by="user")
    two = files.evaluate(folder, make, COLUMNS, processes=2, complete_by="user")
    assert one.metrics.compute() == two.metrics.compute()
    assert one.read == two.read


def test_what_comes_back_is_closed(folder, few):
    metrics, _ = files.evaluate(folder, make, COLUMNS, complete_by="user", **few)
    with pytest.raises(fm.InvalidInputError, match="closed"):
        metrics.add([0.5], [1], user=[1])
    with pytest.raises(fm.InvalidInputError, match="are in two parts that are closed"):
        fm.merge_all([metrics, files.evaluate(folder, make, COLUMNS, complete_by="user").metrics])


def test_bad_rows_are_counted_once_and_refused_as_in_one_pass(tmp_path, few):
    table = pa.table({"p": [0.5, 7.0, None, 0.5] * 1000, "y": [0, 1] * 2000, "uid": np.arange(ROWS) % 9})
    pq.write_table(table, tmp_path / "a.parquet")
    want = files.evaluate(tmp_path, make, COLUMNS, skip_bad_rows=True)
    found = files.evaluate(tmp_path, make, COLUMNS, skip_bad_rows=True, complete_by="user", **few)
    assert found.metrics.compute() == want.metrics.compute()
    assert found.read._replace(examples=()) == want.read._replace(examples=())
    assert (found.read.rows, found.read.skipped, found.read.nulls) == (ROWS, 2000, {"p": 1000})
    with pytest.raises(DataError, match=r"a.parquet: row [12], column 'p': .*skip_bad_rows$") as caught:
        files.evaluate(tmp_path, make, COLUMNS, complete_by="user", **few)
    assert caught.value.evaluated is None


def test_what_passes_cannot_do_is_refused(folder):
    def refused(make=make, columns=COLUMNS, entry=folder, **more):
        with pytest.raises(fm.InvalidInputError) as caught:
            files.evaluate(entry, make, columns, **more)
        return str(caught.value)

    assert refused(complete_by="uid").startswith("complete_by='uid' is none of the arguments in columns: prediction")
    assert refused(complete_by="user", memory=10, processes=1).startswith("memory=10 is too little for processes=1")
    assert "standard input can be read only once" in refused(entry="-", complete_by="user")
    assert "complete_by is 'user', and its samples are complete" in refused(
        lambda: fm.MetricCollection({"gauc": fm.GAUC(), "exact": fm.ExactAUC()}), complete_by="user"
    )
