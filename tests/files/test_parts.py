"""The results of parts of the data and their merge, without files."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.merging import Partial
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files import parts as parts_of_files
from fleetmetrics.files.parts import EXAMPLES, Part, Read, Source, as_one, read_of, together

pytestmark = pytest.mark.numpy_only


def sliced(*keys):
    metric = fm.Sliced(fm.Count(), by="slot")
    metric.add([0.5] * len(keys), slot=list(keys))
    return metric


@pytest.mark.parametrize("number, more", [(1, ""), (3, ""), (4, " and others")])
def test_parts_that_do_not_merge_are_named_by_their_first_three_files(number, more):
    paths = [f"{place}.csv" for place in range(number)]
    reads = tuple(Read(files=(path,)) for path in paths)
    with pytest.raises(DataError) as caught:
        as_one([Part(sliced("a"), (Read(files=("first.csv",)),)), Part(sliced(1), reads)])
    assert str(caught.value).startswith(f"{', '.join(paths[:3])}{more}: ") and "text=" in str(caught.value)


def test_the_part_that_does_not_merge_is_named_also_among_several_that_wait():
    parts = [Part(sliced(key), (Read(files=(f"{place}.csv",)),)) for place, key in enumerate(["a", "b", 1, "c"])]
    with pytest.raises(DataError, match=r"^2\.csv: "):
        as_one(parts)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("most", [0, 600, 1 << 24])
def test_parts_that_wait_are_few_bytes_and_merge_to_the_same_bits(alike, most, monkeypatch):
    def part(place):
        metric = fm.MetricCollection({"n": fm.Sliced(fm.Count(), by="slot"), "mean": fm.Sliced(fm.Mean(), by="slot")})
        rng = np.random.default_rng(place)
        metric.add(rng.random(50), slot=rng.integers(0, 9, 50))
        return Part(metric)

    merged = []
    merge = Partial._merge_alike
    monkeypatch.setattr(Partial, "_merge_alike", lambda *given: merged.append(len(given[1])) or merge(*given))
    monkeypatch.setattr(parts_of_files, "_AT_ONCE", most)
    found = as_one(map(part, range(9)), alike).metrics
    each = part(0).metrics._nbytes
    assert sum(merged) == 8 and max(merged) * each <= most + each
    assert most < 1 << 24 or merged == [8]
    whole = fm.merge_all([part(place).metrics for place in range(9)])
    arrays, wanted = found.state_dict(), whole.state_dict()
    assert {name: each.tobytes() for name, each in arrays.items()} == {
        name: each.tobytes() for name, each in wanted.items()
    }


def test_parts_with_records_do_not_wait():
    metric = fm.GAUC()
    metric.add([0.5, 0.6], [0, 1], user=[1, 1])
    assert metric._nbytes == math.inf and sliced(1, 2)._nbytes > 0 and fm.Count()._nbytes == 0


def test_metrics_with_other_settings_are_compared_unless_they_are_copies():
    with pytest.raises(DataError, match="settings"):
        as_one([Part(fm.AUC()), Part(fm.AUC(buckets=8))])


def test_parts_without_usable_rows_leave_reads_and_errors_alone():
    errors = DataError("one"), DataError("two")
    parts = [
        Part(None, (Read(rows=1),), errors[:1]),
        Part(sliced(1), (Read(rows=2),)),
        Part(sliced(1, 2), (), errors[1:]),
    ]
    found = as_one(parts)
    assert found.metrics.compute() == {1: 2, 2: 1}
    assert [read.rows for read in found.reads] == [1, 2] and found.errors == errors


def test_records_of_parts_in_any_order_are_the_same_and_add_up():
    sources = [Source(f"/{name}", 9, "d", 1) for name in "ab"]
    one = Read(("a",), 5, {"y": 1}, 3, ("a1", "a2", "a3"), ("z: gone",), (sources[0],), 7, 11)
    other = Read(("b",), 6, {"p": 2, "y": 4}, 4, ("b1", "b2", "b3"), ("c: gone",), (sources[1],), 8, 12)
    examples = ("a1", "a2", "a3", "b1", "b2")
    assert len(examples) == EXAMPLES
    wanted = Read(("a", "b"), 11, {"p": 2, "y": 5}, 7, examples, ("c: gone", "z: gone"), tuple(sources), 15, 23)
    assert together([one, other]) == together([other, one]) == wanted
    assert list(together([other, one]).nulls) == ["p", "y"]
    with pytest.raises(InvalidInputError, match="parts must be a list of Read"):
        together([one, 3])


def test_a_record_is_what_its_json_was_made_of():
    read = Read(("a",), 5, {"y": 1}, 3, ("a1",), ("z: gone",), (Source("/a", 9, "d", 1),), 7, 11)
    plain = [
        list(map(list, each)) if name == "sources" else list(each) if isinstance(each, tuple) else each
        for name, each in read._asdict().items()
    ]
    assert read_of(plain) == read
