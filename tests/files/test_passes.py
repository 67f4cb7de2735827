"""Records that do not fit into memory: some users at a time, in several passes over the files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.batch.keys import Coded
from fleetmetrics.errors import DataError
from fleetmetrics.files.passes import Share
from fleetmetrics.records import folding
from tests.cover import thorough

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
    """So little memory that it takes five passes, or more."""
    monkeypatch.setattr(files, "_BASE", 1000)
    monkeypatch.setattr(files, "_PER_ROW", 1)
    monkeypatch.setattr(folding, "AT_ONCE", 100)
    return memory_of_five_passes(2)


def memory_of_five_passes(bytes_per_row):
    return {"memory": 1250 + 2 * (bytes_per_row * ROWS // 5 + 100)}  # two passes of three parts at a time


#: Of texts the constant, in two tables. Of integers one for the user, four for the score, and one for the label in two
#: tables, once more for that which is joined; and those that are folded by two threads.
PER_ROW = {"texts": memory_of_five_passes(2), "integers": {"memory": 200 + memory_of_five_passes(18)["memory"]}}


def test_passes_give_the_values_of_one_and_their_number_follows_from_the_memory(folder, few, monkeypatch, request):
    few, passes = PER_ROW[request.node.callspec.params["folder"]], []
    close = fm.MetricCollection.close
    monkeypatch.setattr(
        fm.MetricCollection, "close", lambda self, **given: passes.append(given) or close(self, **given)
    )
    want = files.evaluate(folder, make, COLUMNS, processes=1)
    metrics, read = files.evaluate(folder, make, COLUMNS, processes=1, complete_by="user", **few)
    assert passes == [{"complete_by": "user", "totals": None}] * 5
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
    with pytest.raises(fm.InvalidInputError, match="is in two parts that are both closed"):
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

    assert refused(complete_by="uid").startswith("complete_by='uid' is not an argument in columns: prediction")
    assert refused(complete_by="user", memory=10, processes=1).startswith("memory=10 is too little for processes=1")
    assert "standard input can be read only once" in refused(entry="-", complete_by="user")
    assert "complete_by is 'user', but it can be closed" in refused(
        lambda: fm.MetricCollection({"gauc": fm.GAUC(), "exact": fm.ExactAUC()}), complete_by="user"
    )


# -- ranges of scores --------------------------------------------------------------------------------------

SCORES = {"prediction": "p", "label": "y"}
TABLES = {
    "floats": lambda rng: {"p": rng.normal(size=ROWS)},
    "float32 with ties": lambda rng: {"p": rng.random(ROWS).round(2).astype(np.float32)},
    "integers": lambda rng: {"p": rng.integers(-9, 9, ROWS)},
    "one score": lambda rng: {"p": np.full(ROWS, 0.5)},
    "sorted": lambda rng: {"p": np.sort(rng.random(ROWS))},
    "two classes": lambda rng: {"p": [[1 - p, p] for p in rng.random(ROWS)]},
}


def scored(folder, kind="floats"):
    rng = np.random.default_rng(4)
    table = pa.table({**TABLES[kind](rng), "y": rng.integers(0, 2, ROWS), "w": rng.random(ROWS)})
    for place in range(3):
        pq.write_table(table.slice(place * 1000, 1000 if place < 2 else ROWS), folder / f"{place}.parquet")
    return folder


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("kind", ["float32 with ties", *thorough(*[kind for kind in TABLES if "ties" not in kind])])
def test_ranges_of_scores_give_the_exact_area_bit_for_bit(tmp_path, few, kind, processes):
    def both():
        return fm.MetricCollection({"exact": fm.ExactAUC(), "n": fm.Count()})

    few = {"memory": few["memory"] * processes + 1000} if processes > 1 else few
    folder = scored(tmp_path, kind)
    want = files.evaluate(folder, both, SCORES, processes=1)
    metrics, read = files.evaluate(folder, both, SCORES, complete_by="score", processes=processes, **few)
    assert metrics.compute() == want.metrics.compute()
    assert read == want.read
    with pytest.raises(fm.InvalidInputError, match="closed"):
        metrics.add([0.5], [1])


def test_ranges_have_about_as_many_samples_each(tmp_path, few, monkeypatch):
    sizes = []
    close = fm.ExactAUC.close
    monkeypatch.setattr(
        fm.ExactAUC,
        "close",
        lambda self, **given: sizes.append(self.states["positives"].read()) or close(self, **given),
    )
    files.evaluate(scored(tmp_path, "sorted"), fm.ExactAUC, SCORES, processes=1, complete_by="score", **few)
    assert len(sizes) >= 3 and max(sizes) < 1.5 * min(sizes)


@pytest.mark.parametrize("settings", [{"curve": "PR"}, {"max_fpr": 0.1}], ids=str)
def test_other_areas_by_ranges_of_scores_take_totals_of_a_first_pass(tmp_path, few, settings, monkeypatch):
    columns, folder = {**SCORES, "weight": "w"}, scored(tmp_path)

    def make():
        return fm.ExactAUC(**settings)

    closed, close = [], fm.ExactAUC.close
    monkeypatch.setattr(
        fm.ExactAUC, "close", lambda self, **given: closed.append(given["totals"]) or close(self, **given)
    )
    want = files.evaluate(folder, make, columns, processes=1).metrics.compute()
    first = files.evaluate(folder, fm.ExactAUC, columns, processes=1, complete_by="score", **few).metrics
    found = files.evaluate(folder, make, columns, processes=1, complete_by="score", totals=first, **few).metrics
    assert closed == [None] * 3 + [first] * 3  # two passes of three parts
    np.testing.assert_allclose(found.compute(), want, rtol=1e-13)
    with pytest.raises(fm.InvalidInputError, match="totals="):
        files.evaluate(folder, make, columns, processes=1, complete_by="score", **few)
    with pytest.raises(fm.InvalidInputError, match="give complete_by='score', not None"):
        files.evaluate(folder, make, columns, totals=first)


@pytest.mark.parametrize("curve", ["ROC", "PR"])
def test_a_range_in_which_all_rows_weigh_0_adds_nothing(tmp_path, few, curve):
    rng = np.random.default_rng(1)
    score, weight = rng.random(ROWS), rng.random(ROWS)
    weight[score < 0.6] = 0
    pq.write_table(pa.table({"p": score, "y": rng.integers(0, 2, ROWS), "w": weight}), tmp_path / "a.parquet")
    given = {"columns": {**SCORES, "weight": "w"}, "processes": 1}
    totals = files.evaluate(tmp_path, fm.ExactAUC, **given, complete_by="score", **few).metrics
    more = {"totals": totals} if curve == "PR" else {}

    def make():
        return fm.ExactAUC(curve=curve)

    found = files.evaluate(tmp_path, make, **given, complete_by="score", **more, **few).metrics
    want = files.evaluate(tmp_path, make, **given).metrics
    np.testing.assert_allclose(found.compute(), want.compute(), rtol=1e-13)


def test_one_range_reports_an_invalid_score(tmp_path, few):
    score = np.random.default_rng(0).random(ROWS)
    score[[7, 9]] = np.nan
    pq.write_table(
        pa.table({"p": pa.array(score, from_pandas=False), "y": np.arange(ROWS) % 2}), tmp_path / "a.parquet"
    )
    _, read = files.evaluate(tmp_path, fm.ExactAUC, SCORES, processes=1, complete_by="score", skip_bad_rows=True, **few)
    assert (read.rows, read.skipped) == (ROWS, 2)
    with pytest.raises(DataError, match="row 7, column 'p': nan"):
        files.evaluate(tmp_path, fm.ExactAUC, SCORES, processes=1, complete_by="score", **few)


def test_ranges_begin_at_scores_that_are_numbers(tmp_path, few):
    score = np.random.default_rng(0).random(ROWS)
    score[::3], score[1::3] = np.nan, np.inf
    table = pa.table({"p": pa.array(score, from_pandas=False), "y": np.arange(ROWS) // 3 % 2})
    pq.write_table(table, tmp_path / "a.parquet")
    given = {"columns": SCORES, "processes": 1, "skip_bad_rows": True}
    want = files.evaluate(tmp_path, fm.ExactAUC, **given)
    found = files.evaluate(tmp_path, fm.ExactAUC, **given, complete_by="score", **few)
    assert found.metrics.compute() == want.metrics.compute() and found.read.skipped == want.read.skipped


def test_what_ranges_of_scores_cannot_do_is_refused(tmp_path):
    with pytest.raises(fm.InvalidInputError, match="complete_by='score' is not an argument in columns: score"):
        files.evaluate(scored(tmp_path), fm.ExactAUC, {"score": "p"}, complete_by="score")
    with pytest.raises(fm.InvalidInputError, match="closed only by 'user'"):
        files.evaluate(tmp_path, fm.GAUC, {**SCORES, "user": "y"}, complete_by="score")


@pytest.mark.parametrize(
    "prediction", [[0.1, 0.7, np.nan, 0.3], [[0.9, 0.1], [0.3, 0.7], [0.0, np.nan], [0.7, 0.3]]], ids=["one", "two"]
)
def test_every_score_is_in_one_range_and_nan_in_the_last(prediction):
    """Of two columns the second is the score."""
    given = {"prediction": np.array(prediction)}
    flags = [Share("score", number, 3, [0.1, 0.3]).flags(given).tolist() for number in range(3)]
    assert flags == [[False] * 4, [True, False, False, False], [False, True, True, True]]


@pytest.mark.parametrize("users", [np.arange(999), np.array([f"user {each}" for each in range(999)])])
def test_every_user_is_in_one_share_of_about_the_same_size(users):
    again = np.r_[users, users[::-1]]
    shares = [Share("user", number, 4).flags({"user": again}) for number in range(4)]
    assert np.sum(shares, axis=0).tolist() == [1] * len(again)
    assert all((share[:999] == share[999:][::-1]).all() and 200 < share[:999].sum() < 300 for share in shares)
    coded = Coded(np.r_[np.arange(999), np.arange(999)[::-1]], users)
    assert all((Share("user", number, 4).flags({"user": coded}) == shares[number]).all() for number in range(4))


def test_a_bad_row_is_left_out_once_in_any_number_of_passes(tmp_path):
    rows = [{"p": place / 40, "y": place % 3 % 2, "u": place % 7} for place in range(40)]
    rows[3]["p"], rows[5]["u"], rows[8]["y"] = None, None, 2
    lines = [*map(json.dumps, rows)]
    lines[10:10] = ["[]", "nothing"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    def read(share):
        columns = {"prediction": "p", "label": "y", "user": "u"}
        found = files.evaluate_file(tmp_path / "a.jsonl", fm.GAUC, columns, skip_bad_rows=True, share=share).read
        return found._replace(examples=())

    alone = read(None)
    assert (alone.rows, alone.skipped) == (42, 5)
    for number in (2, 3, 5):
        assert files.together(read(Share("user", place, number)) for place in range(number)) == alone
