"""Slices of files: rows without a key, combinations of columns, and keys that folders say."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.batch.keys import NULL
from fleetmetrics.errors import DataError
from fleetmetrics.files.largest import _Counts, choose_largest, expect_few
from tests.cover import thorough

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = {"prediction": "p", "label": "y", "slot": "slot"}
KEYS = {
    "texts": ["a", None, "b", "a", None, "null"],
    "integers": [3, None, 7, 3, None, 0],
    "small integers": pa.array([3, None, 7, 3, None, 0], pa.uint8()),
    "a dictionary": pa.array(["a", None, "b", "a", None, "null"]).dictionary_encode(),
    "bools": [True, None, False, True, None, False],
    "times": pa.array([5, None, 7, 5, None, 0], pa.timestamp("s")),
    "days": pa.array([5, None, 7, 5, None, 0], pa.date32()),
}
SCORES = {"p": [0.9, 0.2, 0.7, 0.4, 0.6, 0.1], "y": [1, 0, 1, 0, 1, 0]}


def make():
    return fm.MetricCollection({"n": fm.Count(), "by": fm.Sliced(fm.Count(), by="slot")})


def parquet(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**SCORES, **columns}), path)
    return path


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("skip", [False, True])
def test_rows_without_a_key_are_a_slice_and_count_for_the_whole(tmp_path, kind, skip):
    path = parquet(tmp_path / "a.parquet", slot=KEYS[kind])
    metrics, read = files.evaluate(path, make, COLUMNS, skip_bad_rows=skip)
    found = metrics.compute()
    assert found["n"] == 6 and (read.rows, read.skipped, read.nulls) == (6, 0, {"slot": 2})
    assert found["by"].pop(None) == 2 and sum(found["by"].values()) == 4 and len(found["by"]) >= 2
    frame = make()
    frame.add_frame(pq.read_table(path), **COLUMNS)
    assert frame.compute()["by"] == {None: 2, **found["by"]}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_empty_field_of_text_is_a_row_without_a_key(tmp_path, form):
    path = tmp_path / f"a.{form}"
    lines = {
        "csv": "p,y,slot\n0.5,1,a\n0.25,0,\n",
        "jsonl": '{"p": 0.5, "y": 1, "slot": "a"}\n{"p": 0.25, "y": 0}\n',
    }
    path.write_text(lines[form])
    assert files.evaluate(path, make, COLUMNS).metrics.compute()["by"] == {None: 1, "a": 1}


@pytest.mark.parametrize("other", [["a"] * 6, [4] * 6])
@pytest.mark.parametrize("first", [True, False])
def test_a_file_without_any_key_goes_with_those_that_have_some(tmp_path, other, first):
    parquet(tmp_path / ("a.parquet" if first else "c.parquet"), slot=pa.nulls(6, pa.string()))
    parquet(tmp_path / "b.parquet", slot=other)
    assert files.evaluate(tmp_path, make, COLUMNS).metrics.compute()["by"] == {None: 6, other[0]: 6}
    both = make()
    for path in sorted(tmp_path.iterdir()):
        both.add_frame(pq.read_table(path), **COLUMNS)
    assert both.compute()["by"] == {None: 6, other[0]: 6}


def test_users_are_never_missing(tmp_path):
    path = parquet(tmp_path / "a.parquet", slot=KEYS["texts"])
    columns = {**COLUMNS, "user": "slot"}

    def by_user():
        return fm.MetricCollection({"gauc": fm.GAUC(), "by": fm.Sliced(fm.Count(), by="slot")})

    with pytest.raises(DataError, match="row 1, column 'slot': no value"):
        files.evaluate(path, by_user, columns)
    parts = files.evaluate(path, by_user, columns, skip_bad_rows=True)
    assert parts.read.skipped == 2 and sum(parts.metrics.compute()["by"].values()) == 4


def test_several_columns_make_one_key_of_each_combination(tmp_path):
    country, day = ["de", "fr", "de", None, "fr", "de"], [1, 2, 1, 1, 2, 2]
    path = parquet(tmp_path / "a.parquet", country=country, day=day)
    columns = {**COLUMNS, "slot": ["country", "day"]}
    found = files.evaluate(path, make, columns).metrics.compute()["by"]
    assert found == {"(null)*1": 1, "de*1": 2, "de*2": 1, "fr*2": 2}


def test_combinations_that_differ_have_keys_that_differ(tmp_path):
    one = ["a*b", "a", "a\\", "a", "(null)", None]
    other = ["c", "b*c", "b", "\\*b", "x", "x"]
    path = parquet(tmp_path / "a.parquet", one=one, other=other)
    found = files.evaluate(path, make, {**COLUMNS, "slot": ["one", "other"]}).metrics.compute()["by"]
    assert len(found) == 6 and set(found.values()) == {1}


def test_many_combinations_are_those_that_rows_have(tmp_path):
    random = np.random.default_rng(0)
    table = {f"c{place}": random.integers(0, 2**60, 5000) % (900 * place + 1) for place in range(1, 4)}
    table.update(p=random.random(5000), y=random.integers(0, 2, 5000))
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    columns = {**COLUMNS, "slot": ["c1", "c2", "c3"]}

    def all_of_them():
        return fm.Sliced(fm.Count(), by="slot", max_keys=5000)

    found = files.evaluate(tmp_path, all_of_them, columns).metrics.compute()
    want = {}
    for each in zip(*(table[f"c{place}"].tolist() for place in range(1, 4))):
        want["*".join(map(str, each))] = want.get("*".join(map(str, each)), 0) + 1
    assert found == want


def test_folders_that_name_a_value_are_a_column(tmp_path):
    for day, country in (("2026-11-01", "de"), ("2026-11-01", "a%2Fb"), ("2026-11-02", "__HIVE_DEFAULT_PARTITION__")):
        parquet(tmp_path / f"day={day}" / f"country={country}" / "part-0.parquet")
    by = {
        day: files.evaluate(tmp_path, make, {**COLUMNS, "slot": day}).metrics.compute()["by"]
        for day in ("day", "country")
    }
    assert by == {"day": {"2026-11-01": 12, "2026-11-02": 6}, "country": {None: 6, "a/b": 6, "de": 6}}
    crossed = files.evaluate(tmp_path, make, {**COLUMNS, "slot": ["country", "day"]}).metrics.compute()["by"]
    assert crossed == {"(null)*2026-11-02": 6, "a/b*2026-11-01": 6, "de*2026-11-01": 6}
    with pytest.raises(
        DataError, match=r"no column 'dey' for slot; did you mean 'day'\? There are 'p', 'y', 'day', 'coun"
    ):
        files.evaluate(tmp_path, make, {**COLUMNS, "slot": "dey"})


@pytest.mark.parametrize("form", ["csv", "jsonl", "npz", "arrow"])
def test_folders_name_columns_of_files_of_any_format(tmp_path, form):
    folder = tmp_path / "hour=05"
    folder.mkdir()
    if form == "csv":
        (folder / "a").write_text("p,y\n0.5,1\n")
    elif form == "jsonl":
        (folder / "a").write_text('{"p": 0.5, "y": 1}\n')
    elif form == "npz":
        np.savez(folder / "a.npz", p=[0.5], y=[1])
    else:
        with pa.ipc.new_file(folder / "a", pa.table({"p": [0.5], "y": [1]}).schema) as writer:
            writer.write_table(pa.table({"p": [0.5], "y": [1]}))
    assert files.evaluate(tmp_path, make, {**COLUMNS, "slot": "hour"}).metrics.compute()["by"] == {"05": 1}


def test_a_column_of_a_file_takes_precedence_over_its_folder(tmp_path):
    parquet(tmp_path / "slot=z" / "a.parquet", slot=list("aabbcc"))
    assert files.evaluate(tmp_path, make, COLUMNS).metrics.compute()["by"] == {"a": 2, "b": 2, "c": 2}


# -- more slices than are kept ----------------------------------------------------------------------------


def all_keys():
    return fm.MetricCollection(
        {"n": fm.Sliced(fm.Count(), "slot", max_keys=None), "auc": fm.Sliced(fm.AUC(), "slot", max_keys=None)}
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Files of 400 keys, of which large and small ones lie anywhere; the number of rows by key."""
    random, folder = np.random.default_rng(1), tmp_path_factory.mktemp("many")
    slot = np.minimum(random.geometric(0.02, 30_000) * 7919 % 401, 400)
    names = np.array([f"ad-{each}" for each in range(401)])[slot]
    p = random.random(len(slot))
    table = pa.table({"p": p, "y": (random.random(len(slot)) < p).astype(int), "slot": names, "number": slot})
    for place in range(6):
        pq.write_table(table.slice(5000 * place, 5000), folder / f"{place}.parquet")
    return folder, table, dict(zip(*(each.tolist() for each in np.unique(names, return_counts=True))))


def test_the_largest_slices_are_kept_whole_and_the_rest_is_one(many):
    folder, table, rows = many
    wanted = sorted(rows, key=lambda key: (-rows[key], key))[:20]
    metrics = files.evaluate(folder, all_keys, COLUMNS, max_slices=20).metrics
    assert metrics.metrics["n"].chosen_of == len(rows)
    found = metrics.compute()
    assert found["n"] == {**{key: rows[key] for key in sorted(wanted)}, "other": 30_000 - sum(map(rows.get, wanted))}
    alone = fm.Sliced(fm.AUC(), "slot", keys=wanted)
    alone.add_frame(table, **COLUMNS)
    assert found["auc"] == alone.compute()


def test_slices_with_a_number_of_keys_of_their_own_are_not_chosen_among_the_largest(many):
    def few():
        return fm.Sliced(fm.Count(), "slot", max_keys=5)

    def both():
        return fm.MetricCollection({"n": fm.Sliced(fm.Count(), "slot", max_keys=None), "few": few()})

    wanted = files.evaluate(many[0], few, COLUMNS).metrics.compute()
    assert files.evaluate(many[0], both, COLUMNS, max_slices=2).metrics.compute()["few"] == wanted


@pytest.mark.parametrize("column", ["slot", *thorough("number")])
@pytest.mark.thorough
def test_which_slices_are_kept_depends_on_the_rows_and_not_on_files_or_processes(many, tmp_path, column):
    folder, table, _ = many
    pq.write_table(table, tmp_path / "one.parquet")
    backwards = tmp_path / "backwards"
    backwards.mkdir()
    pq.write_table(table.take(np.arange(len(table))[::-1]), backwards / "a.parquet", row_group_size=777)
    columns = {**COLUMNS, "slot": column}
    found = [
        files.evaluate(where, all_keys, columns, processes=processes, max_slices=20).metrics.compute()
        for where, processes in ((folder, 1), (folder, 3), (tmp_path / "one.parquet", 1), (backwards, 1))
    ]
    assert found[0] == found[1] == found[2] == found[3] and len(found[0]["n"]) == 21


@pytest.mark.parametrize(
    "slot", [["b", "c", "b", "c", "a", "d"], [7, 9, 7, 9, -1, 11], ["b", None, "b", None, "a", "d"]]
)
def test_of_equally_many_rows_those_of_the_smallest_keys_are_kept(tmp_path, slot):
    for place, part in enumerate((slot[::-1], slot)):
        parquet(tmp_path / f"{place}.parquet", slot=part)
    for most in (1, 2, 3):
        found = files.evaluate(tmp_path, all_keys, COLUMNS, max_slices=most).metrics.compute()["n"]
        order = sorted(set(slot), key=lambda key: (-slot.count(key), key is not None, key))
        assert found == {**{key: 2 * slot.count(key) for key in order[:most]}, "other": found["other"]}


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("several", [True, False])
def test_keys_that_become_too_many_only_later_are_chosen_alike(many, tmp_path, processes, several):
    folder, table, _ = many
    table = table.sort_by("slot")  # the first rows have few keys, and of several files each has few
    for place in range(100 if several else 1):
        part = table.slice(300 * place, 300) if several else table
        pq.write_table(part, tmp_path / f"{place:02}.parquet", row_group_size=500)
    found = files.evaluate(tmp_path, all_keys, COLUMNS, max_slices=20, processes=processes).metrics
    assert found.compute() == files.evaluate(folder, all_keys, COLUMNS, max_slices=20).metrics.compute()


@pytest.mark.parametrize("column", ["slot", "number"])
def test_files_are_read_once_where_all_slices_are_kept(many, monkeypatch, column):
    folder, _, rows = many
    monkeypatch.setattr(files, "choose_largest", None)
    found = files.evaluate(folder, all_keys, {**COLUMNS, "slot": column}, max_slices=len(rows)).metrics
    found.merge(found.fresh())
    more = all_keys()
    more.add([0.5], [1], slot=["new" if column == "slot" else -1])
    found.merge(more)  # of which there may be any number from then on
    assert len(found.compute()["n"]) == len(rows) + 1


def test_keys_that_come_between_two_passes_are_slices_too(tmp_path):
    path, metrics = str(parquet(tmp_path / "a.parquet", slot=["a", "b", "a", "b", "a", "b"])), all_keys()
    expect_few(metrics, [path], COLUMNS, 2)
    choose_largest(metrics, [path], COLUMNS, 2)  # which has counted, and found no more than these
    metrics.add([0.5, 0.25, 0.75], [1, 0, 1], slot=["a", "b", "c"])
    assert metrics.compute()["n"] == {"a": 1, "b": 1, "c": 1}


def test_with_room_for_all_slices_there_is_no_rest(many):
    folder, _, rows = many
    for most in (len(rows), 10_000, None):
        assert files.evaluate(folder, all_keys, COLUMNS, max_slices=most).metrics.compute()["n"] == dict(
            sorted(rows.items())
        )


def test_parts_that_have_kept_other_slices_agree_on_those_that_all_have_whole(many, tmp_path):
    _, table, rows = many
    random = np.random.default_rng(0)
    days = np.array_split(random.permutation(len(table)), 3)
    parts = []
    for place, (day, most) in enumerate(zip(days, (60, 60, None))):
        pq.write_table(table.take(day), tmp_path / f"{place}.parquet")
        parts.append(files.evaluate(tmp_path / f"{place}.parquet", all_keys, COLUMNS, max_slices=most).metrics)
    kept = [set(part.compute()["n"]) - {"other"} for part in parts]
    both = sorted(kept[0] & kept[1])
    assert 0 < len(both) < 60
    want = {**{key: rows[key] for key in both}, "other": 30_000 - sum(rows[key] for key in both)}
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        merged = fm.merge_all([parts[place] for place in order]).compute()
        assert merged["n"] == want
    pairs = fm.merge_all([fm.merge_all([parts[2], parts[0]]), parts[1]])
    assert pairs.compute() == merged
    again = all_keys()
    again.set_state_dict(pairs.state_dict())
    assert again.compute() == merged
    again.merge(parts[0])
    assert set(again.compute()["n"]) == {*both, "other"}


def test_a_column_of_slices_that_was_not_named_is_an_error_with_its_name(tmp_path):
    path = parquet(tmp_path / "a.parquet", slot=KEYS["texts"])
    with pytest.raises(DataError, match=r"slot is missing; pass add\(\.\.\., slot=\)"):
        files.evaluate(path, all_keys, {"prediction": "p", "label": "y"}, max_slices=1)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_bad_file_is_reported_by_the_pass_that_adds_and_not_while_keys_are_counted(tmp_path, place):
    for number in range(3):
        parquet(tmp_path / "in" / f"{number}.parquet", slot=[f"{number}{key}" for key in "abcdef"])
    bad = tmp_path / "in" / f"{place}.parquet"
    pq.write_table(pa.table({**SCORES, "slot": [0.5] * 6}), bad)
    found = files.evaluate(tmp_path / "in", all_keys, COLUMNS, max_slices=2, skip_bad_files=True)
    assert len(found.read.bad_files) == 1 and str(bad) in found.read.bad_files[0]
    assert sum(found.metrics.compute()["n"].values()) == 12
    with pytest.raises(DataError, match=f"{place}.parquet: column 'slot'"):
        files.evaluate(tmp_path / "in", all_keys, COLUMNS, max_slices=2)


@pytest.mark.parametrize("most", [2, 100])
@pytest.mark.parametrize("texts", ["abcdef", "aaabbb"])  # of as many rows as the integers, and of more
def test_keys_of_two_kinds_are_an_error_however_many_are_kept(tmp_path, texts, most):
    parquet(tmp_path / "in" / "0.parquet", slot=list(texts))
    parquet(tmp_path / "in" / "1.parquet", slot=[1, 2, 3, 4, 5, 6])
    with pytest.raises(DataError, match=r"parquet: slot holds .*, but the keys so far are .* makes both strings"):
        files.evaluate(tmp_path / "in", all_keys, COLUMNS, max_slices=most)


def test_the_standard_input_is_not_read_twice(tmp_path):
    with pytest.raises(fm.InvalidInputError, match="max_slices reads the files twice"):
        files.evaluate("-", all_keys, COLUMNS, max_slices=5)


def test_keys_of_several_files_are_counted_together_and_rows_without_one_are_one_key():
    """In a dictionary a text may come twice; a file of rows without any key says nothing about the kind of the keys."""
    counts = _Counts()
    counts.add(["b", "a", "b"], np.array([1, 2, 3]))
    counts.add([NULL["i"]], np.array([5]))
    counts.add([NULL["U"], "c"], np.array([1, 4]))
    assert sorted(counts.largest(3).tolist()) == sorted([NULL["U"], "b", "c"])
    assert dict(zip(counts.places, counts.numbers.tolist())) == {"b": 4, "a": 2, NULL["U"]: 6, "c": 4}
    assert sorted(counts.largest(2).tolist()) == sorted([NULL["U"], "b"]) and counts.largest(4) is None
    counts.add([f"{place:03}" for place in range(100)], np.arange(100))
    assert counts.largest(2).tolist() == ["098", "099"] and len(counts.numbers) == 104
    counts.add(["c"], np.array([1000]))
    assert counts.largest(2).tolist() == ["099", "c"]
    integers = _Counts()
    integers.add([3, NULL["i"], 2], np.array([1, 2, 1]))
    assert integers.largest(2).tolist() == [NULL["i"], 2]


def test_rows_of_every_piece_of_a_file_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("fleetmetrics.files.row_pieces._ROWS", 4)
    keys = [*"abcd", *"azzz", *"zazz"]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"p": [0.5] * 12, "y": [1, 0] * 6, "k": keys}), path)
    columns = {"prediction": "p", "label": "y", "k": "k"}
    made = files.evaluate(path, lambda: fm.Sliced(fm.Count(), by="k", max_keys=None), columns, max_slices=1)
    assert made.metrics.compute() == {"z": 6.0, "other": 6.0}
