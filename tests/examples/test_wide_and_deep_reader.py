"""The data of the wide and deep example: split, shares, features, and the errors for unusable data."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wide_and_deep"
WORKERS = (1, 2, 3, 7)
TRAINING, HELD_OUT = b"5", b"6"
"""Covariates on either side of the split."""


def load() -> ModuleType:
    """The example's reader; an example is no package."""
    spec = importlib.util.spec_from_file_location("wide_and_deep_reader", EXAMPLE / "reader.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


reader = load()


class Numbers:
    """Row i has the covariates `covariates[i]` and the features i."""

    layout = reader.Layout(dense=1, wide=2, deep=1)

    def __init__(self, covariates: list[bytes]) -> None:
        self.covariates = covariates
        self.parsed: list[int] = []

    def rows(self) -> Iterator[tuple[bytes, int]]:
        yield from zip(self.covariates, range(len(self.covariates)))

    def parse(self, record: int) -> Any:
        self.parsed.append(record)
        return reader.Features(record % 2, [record / 4], wide=[record, -record], deep=[record])


def persons() -> Numbers:
    """2000 rows of 499 persons: each has several, far from each other."""
    return Numbers([b"person %d" % (i % 499) for i in range(2000)])


def shares(source: Any, workers: int) -> list[tuple[list[int], list[int]]]:
    """The training rows and the held-out rows of each worker, by number."""
    found = [reader.read(source, rank, workers) for rank in range(workers)]
    return [(share.train.deep.ravel().tolist(), share.held_out.deep.ravel().tolist()) for share in found]


def sides(source: Any, workers: int) -> tuple[set[int], set[int]]:
    """The training rows and the held-out rows of all workers together."""
    found = shares(source, workers)
    return {i for train, _ in found for i in train}, {i for _, held_out in found for i in held_out}


# The split


@pytest.mark.parametrize("workers", WORKERS)
def test_rows_with_equal_covariates_are_on_one_side(workers: int) -> None:
    source = persons()
    train, held_out = ({source.covariates[i] for i in rows} for rows in sides(source, workers))
    assert train and held_out
    assert not train & held_out


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_the_split_does_not_depend_on_the_number_of_workers(workers: int) -> None:
    assert sides(persons(), workers) == sides(persons(), 1)


@pytest.mark.parametrize("workers", WORKERS)
def test_shares_are_disjoint_and_together_the_whole(workers: int) -> None:
    found = shares(persons(), workers)
    assert sorted(i for share in found for side in share for i in side) == list(range(2000))


@pytest.mark.parametrize("workers", WORKERS)
def test_shares_of_a_side_differ_by_one_row_at_most(workers: int) -> None:
    for side in zip(*shares(persons(), workers)):
        sizes = [len(rows) for rows in side]
        assert max(sizes) - min(sizes) <= 1


def test_a_worker_parses_only_its_own_rows() -> None:
    source = persons()
    share = reader.read(source, 1, 3)
    assert len(source.parsed) == len(share.train) + len(share.held_out) < 700


def test_one_row_in_five_is_held_out() -> None:
    count = sum(reader.is_held_out(b"row %d" % i) for i in range(10_000))
    assert 1900 < count < 2100


def test_the_split_is_the_same_in_every_process_and_release() -> None:
    held_out = [i for i in range(40) if reader.is_held_out(b"%d" % i)]
    assert held_out == [6, 12, 29, 31, 37]


def test_ids_are_the_same_in_every_process_and_release() -> None:
    # 0xCBF43926 is the check value of CRC-32 in every catalogue.
    assert reader.ids(["123456789", "C1=68fd1e64", ""]) == [0xCBF43926 % 2**20, 32587, 0]


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("train", "held_out", "message"),
    [
        (8, 0, "0 held-out rows for 4 workers: every worker needs at least one"),
        (8, 3, "3 held-out rows for 4 workers: every worker needs at least one"),
        (3, 8, "3 training rows for 4 workers: every worker needs at least one"),
    ],
)
def test_with_fewer_rows_than_workers_every_worker_refuses(train: int, held_out: int, message: str, rank: int) -> None:
    with pytest.raises(reader.DataError) as caught:
        reader.read(Numbers([TRAINING] * train + [HELD_OUT] * held_out), rank, 4)
    assert str(caught.value) == message


def test_one_row_of_each_side_for_each_worker_is_enough() -> None:
    found = shares(Numbers([TRAINING, HELD_OUT] * 4), 4)
    assert found == [([2 * rank], [2 * rank + 1]) for rank in range(4)]


# Arrays


def test_samples_are_arrays_of_the_network_s_inputs() -> None:
    train = reader.read(Numbers([TRAINING, HELD_OUT, TRAINING]), 0, 1).train
    for name, expected in {
        "label": np.array([[0], [0]], np.int64),
        "dense": np.array([[0.0], [0.5]], np.float32),
        "wide": np.array([[0, 0], [2, -2]], np.int64),
        "deep": np.array([[0], [2]], np.int64),
    }.items():
        found = getattr(train, name)
        assert found.dtype == expected.dtype, name
        assert found.tolist() == expected.tolist(), name


def test_batches_cover_the_rows_in_order_and_the_last_is_shorter() -> None:
    samples = reader.read(Numbers([TRAINING] * 5 + [HELD_OUT]), 0, 1).train
    assert [feed["deep"].ravel().tolist() for feed in samples.batches(2)] == [[0, 1], [2, 3], [4]]
    shuffled = list(samples.batches(3, np.array([4, 0, 3, 1])))
    assert [feed["deep"].ravel().tolist() for feed in shuffled] == [[4, 0, 3], [1]]
    assert [feed["wide"].tolist() for feed in shuffled] == [[[4, -4], [0, 0], [3, -3]], [[1, -1]]]


# RAND


@pytest.fixture(scope="module")
def rand() -> Any:
    return reader.read(reader.RandHealth(), 0, 1)


def test_rand_has_20190_rows_and_the_label_is_a_visit_within_the_year() -> None:
    from statsmodels.datasets import randhie

    labels = [record[0] for _, record in reader.RandHealth().rows()]
    assert len(labels) == 20_190
    assert labels == [int(visits > 0) for visits in randhie.load_pandas().data["mdvis"]]


def test_rand_s_covariates_are_all_columns_but_the_label_s() -> None:
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    records = [record[1] for _, record in reader.RandHealth().rows()]
    assert set(records[0]) == set(frame.columns) - {"mdvis"}
    assert records[::1000] == frame.drop(columns="mdvis").iloc[::1000].to_dict("records")


def test_rand_s_split_is_the_one_that_the_readme_prints(rand: Any) -> None:
    assert (len(rand.train), len(rand.held_out)) == (16_257, 3933)
    half = reader.read(reader.RandHealth(), 0, 2)
    assert (len(half.train), len(half.held_out)) == (8129, 1967)


def test_rand_s_rows_with_equal_covariates_are_on_one_side(rand: Any) -> None:
    train, held_out = ({row.tobytes() for row in side.dense} for side in (rand.train, rand.held_out))
    assert len(train) < len(rand.train)
    assert not train & held_out


def test_rand_s_numbers_are_on_one_scale(rand: Any) -> None:
    dense = np.concatenate([rand.train.dense, rand.held_out.dense]).astype(np.float64)
    assert dense.shape == (20_190, 9)
    assert np.abs(dense.mean(axis=0)).max() < 0.01
    assert np.abs(dense.std(axis=0) - 1).max() < 0.01


def test_rand_s_ids_fit_the_tables_and_every_column_has_its_own(rand: Any) -> None:
    for name, columns in (("wide", 12), ("deep", 7)):
        table = getattr(rand.train, name)
        assert table.shape == (16_257, columns)
        assert table.min() >= 0 and table.max() < reader.TABLE_ROWS
        owners = defaultdict(set)
        for column in range(columns):
            for number in np.unique(table[:, column]):
                owners[number].add(column)
        assert all(len(columns) == 1 for columns in owners.values())


# Criteo


def line(label: str = "0", **fields: str) -> str:
    """A line of a Criteo file, without its end; fields that are not given are empty."""
    assert set(fields) <= set(reader.FIELDS)
    return "\t".join([label, *(fields.get(name, "") for name in reader.FIELDS[1:])])


def criteo(directory: Path, text: str | bytes) -> Any:
    """A source of one file, `day.tsv`."""
    path = directory / "day.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return reader.Criteo([path])


def parsed(directory: Path, text: str) -> Any:
    """The features of a file's only line."""
    source = criteo(directory, text)
    ((_, record),) = source.rows()
    return source.parse(record)


def test_criteo_has_13_integers_and_26_categories() -> None:
    assert ("label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))) == reader.FIELDS


def test_every_field_of_a_criteo_line_but_the_label_may_be_empty(tmp_path: Path) -> None:
    features = parsed(tmp_path, line("1") + "\n")
    assert features.label == 1
    assert features.dense == [0.0] * 13
    assert len(features.wide) == len(features.deep) == 39
    assert features.wide == reader.ids([*(f"I{i}=none" for i in range(1, 14)), *(f"C{i}=" for i in range(1, 27))])


def test_criteo_integers_are_numbers_on_a_logarithmic_scale_and_buckets(tmp_path: Path) -> None:
    features = parsed(tmp_path, line(I1="0", I2="1", I3="-1", I4="5", I13="999999999999999999"))
    expected = [0.0, math.log(2), -math.log(2), math.log(6), *[0.0] * 8, math.log(1e18)]
    assert features.dense == pytest.approx(expected, rel=1e-12)
    tokens = ["I1=0", "I2=1", "I3=-1", "I4=3", *(f"I{i}=none" for i in range(5, 13)), "I13=60"]
    assert features.wide[:13] == features.deep[:13] == reader.ids(tokens)


def test_a_criteo_category_is_one_of_its_own_column(tmp_path: Path) -> None:
    features = parsed(tmp_path, line(C1="68fd1e64", C26="68fd1e64"))
    assert [features.wide[13], features.wide[38]] == reader.ids(["C1=68fd1e64", "C26=68fd1e64"])
    assert features.wide[13] != features.wide[38]


def test_criteo_files_with_any_line_ends_are_read_one_after_the_other(tmp_path: Path) -> None:
    ends = {"a.tsv": ("\n", "\n"), "b.tsv": ("\r\n", "\r\n"), "c.tsv": ("\n", "")}
    for name, (first, second) in ends.items():
        (tmp_path / name).write_bytes(f"{line('1', C26='a')}{first}{line('0', I1='7')}{second}".encode())
    source = reader.Criteo([tmp_path / name for name in ends])
    rows = list(source.rows())
    assert [(record.path.name, record.number) for _, record in rows] == [(n, i) for n in ends for i in (1, 2)]
    assert [source.parse(record).label for _, record in rows] == [1, 0] * 3
    assert len({covariates for covariates, _ in rows}) == 2


def test_identical_impressions_are_on_one_side_with_either_label(tmp_path: Path) -> None:
    source = criteo(tmp_path, f"{line('0', I1='7', C3='ab')}\n{line('1', I1='7', C3='ab')}\n")
    (first, _), (second, _) = source.rows()
    assert first == second


FIELDS = "allowed: 40, separated by tabs (label, 13 integers, 26 hexadecimal categories)"
INTEGER = "allowed: an integer of at most 18 digits, or nothing"
CATEGORY = "allowed: a hexadecimal number, or nothing"
BAD_LINES = {
    "too few fields": ("0\t1", f": 2 fields; {FIELDS}"),
    "too many fields": (line() + "\t", f": 41 fields; {FIELDS}"),
    "another separator": (line().replace("\t", ","), f": 1 fields; {FIELDS}"),
    "no label": (line(""), ", field 1 (label): ''; allowed: 0 or 1"),
    "a third label": (line("2"), ", field 1 (label): '2'; allowed: 0 or 1"),
    "two digits": (line("01"), ", field 1 (label): '01'; allowed: 0 or 1"),
    "a fraction": (line(I1="1.5"), f", field 2 (I1): '1.5'; {INTEGER}"),
    "a space": (line(I2=" "), f", field 3 (I2): ' '; {INTEGER}"),
    "a sign alone": (line(I13="-"), f", field 14 (I13): '-'; {INTEGER}"),
    "19 digits": (line(I3="1" * 19), f", field 4 (I3): '1111111111111111111'; {INTEGER}"),
    "digits that are not ASCII": (line(I4="\u0663"), f", field 5 (I4): '\u0663'; {INTEGER}"),
    "a prefix": (line(C1="0x1f"), f", field 15 (C1): '0x1f'; {CATEGORY}"),
    "not hexadecimal": (line(C26="68fd1e6g"), f", field 40 (C26): '68fd1e6g'; {CATEGORY}"),
    "very long": (line(C2="z" * 1000), f", field 16 (C2): '{'z' * 40}'; {CATEGORY}"),
    "not UTF-8": (line(C3="?").encode().replace(b"?", b"\xff"), rf", field 17 (C3): '\\xff'; {CATEGORY}"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_named_by_file_line_field_and_value_with_what_is_allowed(case: str, tmp_path: Path) -> None:
    bad, complaint = BAD_LINES[case]
    source = criteo(tmp_path, b"\n".join([line("1").encode(), bad if isinstance(bad, bytes) else bad.encode(), b""]))
    with pytest.raises(reader.DataError) as caught:
        reader.read(source, 0, 1)
    assert str(caught.value) == f"{tmp_path / 'day.tsv'}, line 2{complaint}"


def test_the_file_of_a_bad_line_is_the_one_that_it_is_in(tmp_path: Path) -> None:
    for name, text in {"a.tsv": line(I1="1"), "b.tsv": line(I1="2"), "c.tsv": line(I1="x")}.items():
        (tmp_path / name).write_text(f"{line()}\n{line()}\n{text}\n")
    with pytest.raises(reader.DataError) as caught:
        reader.read(reader.Criteo([tmp_path / "a.tsv", tmp_path / "c.tsv", tmp_path / "b.tsv"]), 0, 1)
    assert str(caught.value) == f"{tmp_path / 'c.tsv'}, line 3, field 2 (I1): 'x'; {INTEGER}"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_file_that_is_not_there_is_named(rank: int, tmp_path: Path) -> None:
    with pytest.raises(reader.DataError) as caught:
        reader.read(reader.Criteo([tmp_path / "day.tsv"]), rank, 2)
    assert str(caught.value) == f"{tmp_path / 'day.tsv'}: cannot be read: No such file or directory"


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(reader.DataError) as caught:
        reader.read(reader.Criteo([tmp_path]), 0, 1)
    assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("rank", [0, 1])
def test_an_empty_file_is_named_even_among_others(rank: int, tmp_path: Path) -> None:
    (tmp_path / "day.tsv").write_text("".join(f"{line(I1=str(i))}\n" for i in range(100)))
    (tmp_path / "empty.tsv").touch()
    with pytest.raises(reader.DataError) as caught:
        reader.read(reader.Criteo([tmp_path / "day.tsv", tmp_path / "empty.tsv"]), rank, 2)
    assert str(caught.value) == f"{tmp_path / 'empty.tsv'}: the file is empty; one line per impression is expected"


# Dependencies


def test_the_reader_and_the_options_do_not_import_paddle() -> None:
    code = "import sys, options, reader; reader.read(reader.RandHealth(), 0, 100); print('paddle' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLE, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "False\n", done.stderr
