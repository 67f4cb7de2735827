"""`fleetmetrics.files`: any format gives the number that `add` gives, and what is wrong is named or counted."""

from __future__ import annotations

import gzip
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")

COLUMNS = {"prediction": "p", "label": "y", "slot": "slot"}
ROWS = 3000


def make():
    return fm.MetricCollection(
        {"auc": fm.AUC(), "mae": fm.MeanAbsoluteError(), "slots": fm.Sliced(fm.AUC(), by="slot")}
    )


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    score = rng.integers(0, 1024, ROWS) / 1024  # the same as text
    return pa.table(
        {
            "y": (rng.random(ROWS) < score).astype(np.int64),
            "p": score,
            "slot": np.array(["news", "feed", "émile"])[rng.integers(0, 3, ROWS)],
            "other": rng.random(ROWS),
        }
    )


def write(table, path):
    import pyarrow.csv
    import pyarrow.parquet

    kind = path.suffixes[0]
    if kind == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=700)
    elif kind in (".csv", ".tsv"):
        options = pyarrow.csv.WriteOptions(delimiter="\t" if kind == ".tsv" else ",")
        with pa.output_stream(path, compression="detect") as file:
            pyarrow.csv.write_csv(table, file, options)
    elif kind == ".jsonl":
        with pa.output_stream(path, compression="detect") as file:
            file.write("\n".join(map(json.dumps, table.to_pylist())).encode())
    elif kind == ".npz":
        np.savez(path, **{name: np.array(table[name].to_pylist()) for name in table.column_names})
    else:
        new = pa.ipc.new_file if kind == ".arrow" else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, 500)
    return path


FORMATS = ["parquet", "csv", "tsv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "npz", "arrow", "arrows"]


@pytest.mark.parametrize("name", [f"a.{each}" for each in FORMATS])
def test_every_format_gives_the_number_that_add_gives(table, tmp_path, name):
    want = make()
    want.add(table["p"].to_numpy(), table["y"].to_numpy(), slot=table["slot"].to_pylist())
    found = files.evaluate_file(write(table, tmp_path / name), make, COLUMNS)
    assert found.metrics.compute() == want.compute()
    assert found.read._replace(sources=(), understood={}) == files.Read((str(tmp_path / name),), ROWS)


def test_processes_and_orders_give_the_same_bits(table, tmp_path):
    for place in range(5):
        write(table.slice(600 * place, 600), tmp_path / f"{place}.parquet")
    one = files.evaluate(tmp_path, make, COLUMNS, processes=1)
    two = files.evaluate(str(tmp_path / "*.parquet"), make, COLUMNS, processes=2)
    assert one.metrics.compute() == two.metrics.compute()
    assert one.read == two.read and one.read.rows == ROWS
    assert one.read.files == tuple(str(tmp_path / f"{place}.parquet") for place in range(5))


def kept_and_summed():
    kept = {
        "exact": fm.ExactAUC(),
        "gauc": fm.GAUC(),
        "ndcg": fm.NDCG(by="user", k=3),
        "rank": fm.SpearmanCorrelation(),
    }
    summed = {"auc": fm.AUC(), "log_loss": fm.LogLoss(), "f1": fm.F1(), "ece": fm.ExpectedCalibrationError()}
    return fm.MetricCollection({**kept, **summed})


@pytest.mark.parametrize(
    "weighted", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["without weights", "with weights"]
)
def test_only_weighted_metrics_by_query_and_rank_correlations_may_differ_in_the_last_digit(tmp_path, weighted):
    """As docs/howto/files.md says."""
    random = np.random.default_rng(3)
    for place in range(4):
        columns = {
            "y": random.integers(0, 2, 600),
            "p": random.random(600).round(4),
            "u": random.integers(0, 99, 600),
        }
        write(pa.table({**columns, "w": random.random(600)}), tmp_path / f"{place}.parquet")
    columns = {"prediction": "p", "label": "y", "user": "u", **({"weight": "w"} if weighted else {})}
    paths = [str(tmp_path / f"{place}.parquet") for place in (2, 0, 3, 1)]
    found = [files.evaluate(tmp_path, kept_and_summed, columns, processes=number)[0] for number in (1, 3)]
    found.append(files.evaluate(paths, kept_and_summed, columns, processes=2)[0])
    first, *others = [each.compute() for each in found]
    for other in others:
        for name, value in first.items():
            differs = weighted and name in ("ndcg", "rank")
            assert other[name] == (pytest.approx(value, rel=1e-14, abs=0) if differs else value), name


def test_a_missing_column_is_named_with_the_nearest_one(table, tmp_path):
    path = write(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet: no column 'ys' for label; did you mean 'y'\? There are 'y', 'p'"):
        files.evaluate(path, make, {**COLUMNS, "label": "ys"})


def test_gzip_of_several_members_is_read_to_the_end(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"p,y\n0.5,1\n") + gzip.compress(b"0.25,0\n"))
    assert files.evaluate(path, fm.AUC, {"prediction": "p", "label": "y"}).read.rows == 2


def test_a_row_has_a_unique_number_in_any_folder(table, tmp_path):
    """What resampling draws: equal for the same data, and for no two rows."""

    class Numbers(fm.Metric):
        columns = ("row",)

        def add(self, prediction, row):
            self.seen = [*getattr(self, "seen", []), *row.tolist()]

    def numbers(*parts):
        found = []
        for part in parts:
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            write(part, folder / "part.parquet")
            columns = {"prediction": "p", "row": files.ROW}
            found += files.evaluate_file(folder / "part.parquet", Numbers, columns, skip_bad_rows=True).metrics.seen
        return found

    whole = numbers(table)
    assert len(set(whole)) == ROWS and numbers(table.slice(0), table.slice(9))[:ROWS] == whole
    assert len(set(numbers(table.slice(0, 9), table.slice(9, 9), table.slice(18)))) == ROWS
    edge = np.zeros(1 << 16)  # alike in size and beginning, and not in the end
    apart = [pa.table({"p": np.append(edge, last)}) for last in (0.25, 0.75)]
    folders = [tmp_path / f"end {place}" for place in range(2)]
    first = []
    for folder, part in zip(folders, apart):
        folder.mkdir()
        with pa.ipc.new_file(folder / "a.arrow", part.schema) as file:
            file.write_table(part)
        columns = {"prediction": "p", "row": files.ROW}
        first.append(files.evaluate_file(folder / "a.arrow", Numbers, columns).metrics.seen[0])
    sizes = [(folder / "a.arrow").stat().st_size for folder in folders]
    assert sizes[0] == sizes[1] > 2 << 16 and first[0] != first[1]
    holes = table.set_column(1, "p", pa.array([None, *table["p"].to_pylist()[1:]]))
    left = numbers(holes)
    assert len(left) == ROWS - 1 and left[-1] - left[0] == ROWS - 2


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl.zst", "a.arrows"])
def test_the_standard_input_is_read_as_what_it_is(table, tmp_path, monkeypatch, name):
    path = write(table, tmp_path / name)
    want = files.evaluate_file(path, make, COLUMNS).metrics.compute()
    with open(path, "rb") as file:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=file))
        found = files.evaluate("-", make, COLUMNS)
    assert found.metrics.compute() == want
    assert found.read._replace(understood={}) == files.Read(("-",), ROWS)


def test_a_format_that_was_given_is_not_guessed(tmp_path):
    path = tmp_path / "a"
    path.write_text("{p,y\n0.5,1\n0.25,0\n")
    assert files.evaluate(path, fm.AUC, {"prediction": "{p", "label": "y"}, format="csv").read.rows == 2


def test_folders_and_patterns_stand_for_the_files_of_data_in_them(tmp_path):
    for name in ("b/x.csv", "a/y.csv", "a/_SUCCESS", "a/.part.crc", "_temporary/z.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("p\n")
    both = [str(tmp_path / "a/y.csv"), str(tmp_path / "b/x.csv")]
    assert files.find(tmp_path) == files.find([tmp_path / "b", tmp_path / "a"]) == both
    assert files.find(f"{tmp_path}/**/[xy].csv") == both
    assert files.find(tmp_path / "b/x.csv") == both[1:]


def test_what_was_read_of_parts_adds_up():
    one = files.Read(("b",), 3, {"p": 1}, 1, ("b: row 0",))
    other = files.Read(("a",), 2, {"p": 1, "y": 1}, 2, ("a: row 0", "a: row 1"))
    assert files.together([one, other]) == files.Read(
        ("a", "b"), 5, {"p": 2, "y": 1}, 3, ("a: row 0", "a: row 1", "b: row 0")
    )
    assert files.together([]) == files.Read()


def test_a_piece_ends_where_its_rows_or_its_bytes_are_enough(monkeypatch):
    from fleetmetrics.files import row_pieces as module

    def pieces(rows, size):
        monkeypatch.setattr(module, "_ROWS", rows)
        monkeypatch.setattr(module, "_BYTES", size)
        parts = [pa.table({"p": np.arange(10.0)})] * 9
        return [(piece.start, len(piece.table)) for piece in module.gathered(parts)]

    assert pieces(25, 10**6) == [(0, 20), (20, 20), (40, 20), (60, 20), (80, 10)]
    assert pieces(10**6, 200) == [(0, 30), (30, 30), (60, 30)]
    assert pieces(4, 10**6)[:3] == [(0, 4), (4, 4), (8, 2)]


def test_columns_of_lists_are_read_in_pieces_of_bounded_size(tmp_path):
    import pyarrow.parquet as pq

    scores = np.random.default_rng(0).random((3000, 4))
    label = np.arange(3000) % 4
    pq.write_table(pa.table({"p": scores.tolist(), "y": label}), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", p=scores, y=label)
    want = fm.Accuracy(num_classes=4)
    want.add(scores, label)
    for name in ("a.parquet", "a.npz"):
        found = files.evaluate(tmp_path / name, lambda: fm.Accuracy(num_classes=4), {"prediction": "p", "label": "y"})
        assert found.metrics.compute() == want.compute()


def test_numbers_of_csv_may_look_like_integers_at_first(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,p,slot\n" + "1,1,3\n" * 400_000 + "0.5,0.5,4\n")  # beyond the rows read first
    found = files.evaluate(path, fm.MeanAbsoluteError, {"prediction": "p", "label": "y"})
    assert (found.metrics.compute(), found.read.rows) == (0.0, 400_001)


def test_a_long_job_shows_how_far_it_is(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fleetmetrics.support.logs.LONG_SECONDS", 0.0)
    for place in range(2):
        write(table, tmp_path / f"{place}.parquet")
    files.evaluate(tmp_path, fm.AUC, {"prediction": "p", "label": "y"}, processes=1)
    assert "files: 1 of 2 done after 0 s" in capsys.readouterr().err
    files.evaluate(tmp_path / "0.parquet", fm.AUC, {"prediction": "p", "label": "y"})
    assert re.search(r"0\.parquet: ([\d,]+) of \1 rows done after 0 s, \d+ s left\n", capsys.readouterr().err)
    files.evaluate(tmp_path, fm.AUC, {"prediction": "p", "label": "y"}, processes=1, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f4"])
def test_arrays_of_an_archive_are_read_as_they_lie(tmp_path, order, kind, monkeypatch):
    monkeypatch.setattr("fleetmetrics.files.binary.FEW", 7)
    rng = np.random.default_rng(1)
    score, label = rng.random((40, 3)), rng.integers(0, 3, 40)
    score /= score.sum(axis=1, keepdims=True)
    np.savez(tmp_path / "it.npz", p=np.asarray(score, kind, order), y=label)
    metrics, read = files.evaluate(
        tmp_path / "it.npz", lambda: fm.Accuracy(num_classes=3), {"prediction": "p", "label": "y"}
    )
    alone = fm.Accuracy(num_classes=3)
    alone.add(score, label)
    assert metrics.compute() == alone.compute() and read.rows == 40
