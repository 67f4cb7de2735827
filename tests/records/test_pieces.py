"""Records go to rank 0 in pieces of bounded size, and come into the common order there."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest

from fleetmetrics.errors import RecordError
from fleetmetrics.records.batches import Columns, InOrder, Kind, kind_of, part_of
from fleetmetrics.records.pieces import PIECE_BYTES, pieces, read_piece

pytestmark = pytest.mark.numpy_only


def sent(columns: Columns, narrow: bool = False) -> list[list[Any]]:
    """What arrives, piece by piece."""
    found = []
    for piece in pieces(columns, allow_pickle=False, narrow=[narrow] * 3):
        payload = bytearray().join(piece.buffers)
        assert len(payload) == piece.nbytes
        found.append(read_piece(piece.layout, payload, allow_pickle=False))
    return found


def test_small_arrays_are_sent_at_once_from_where_they_lie() -> None:
    columns = Columns()
    score, label = np.arange(500_000.0), np.arange(500_000)
    for start in range(0, len(score), 1000):
        columns.append((), {"score": score[start : start + 1000].copy(), "label": label[start : start + 1000].copy()})
    (piece,) = pieces(columns, allow_pickle=False, narrow=[False] * 2)
    assert np.shares_memory(np.frombuffer(piece.buffers[0], np.uint8), columns.batches[0][0])
    ((one, other),) = sent(columns)
    assert np.array_equal(one, score) and np.array_equal(other, label)


def test_large_arrays_are_sent_in_pieces_from_where_they_lie() -> None:
    """The channel copies a letter, so that it may be sent while the program goes on."""
    columns = Columns()
    for start in range(3):
        columns.append((np.arange(start, start + 700_000.0), np.full((700_000, 2), start, np.float32)), {})
    found = list(pieces(columns, allow_pickle=False, narrow=[False] * 2))
    assert len(found) == 5 and all(piece.nbytes <= PIECE_BYTES + 100 for piece in found)
    assert all(np.shares_memory(np.frombuffer(piece.buffers[0], np.uint8), columns.rows()[0][0]) for piece in found[:1])
    one, other = (np.concatenate(parts) for parts in zip(*sent(columns)))
    assert np.array_equal(one, np.concatenate([row[0] for row in columns.rows()]))
    assert np.array_equal(other, np.concatenate([row[1] for row in columns.rows()]))


@pytest.mark.parametrize("large_from", [0, 300, 10_000])
def test_lists_of_large_records_are_sent_in_pieces(large_from: int) -> None:
    records = [np.full(2500 if i >= large_from else 2, float(i)) for i in range(large_from + 2000)]
    found = sent(Columns.of(records))
    assert len(found) > 3
    assert all(sum(record.nbytes for record in records) < 2 * PIECE_BYTES for (records,) in found)
    flat = [record for (part,) in found for record in part]
    assert len(flat) == len(records) and all(map(np.array_equal, flat, records))


def test_lists_and_ids_stay_together() -> None:
    columns = Columns()
    for start in range(0, 9000, 300):
        names = [f"sample {i}" * (1 + i // 100) for i in range(start, start + 300)]
        columns.append((names,), {}, np.arange(start, start + 300))
    names, ids = (np.concatenate(parts).tolist() for parts in zip(*sent(columns)))
    assert ids == list(range(9000))
    assert names == [f"sample {i}" * (1 + i // 100) for i in range(9000)]


def test_nothing_is_sent_of_no_records() -> None:
    empty = Columns()
    empty.append((np.empty(0), []), {})
    assert sent(empty) == sent(Columns()) == sent(Columns.of([])) == []


def in_order(parts: Sequence[tuple[list[Any], Any]], total: int) -> list[Any]:
    """The columns of parts, each with its positions."""
    found = InOrder([kind_of(column) for column in zip(*[columns for columns, _ in parts])], total)
    for columns, positions in parts:
        found.put(columns, positions)
    return found.taken()


def test_the_parts_of_all_workers_come_into_order() -> None:
    numbers, names, again = in_order(
        [
            ([np.array([0, 2]), ["a", "c"], np.array([[0], [2]])], slice(0, 3, 2)),
            ([np.array([3.0, 1.0]), ["d", "b"], np.array([[3], [1]], np.int8)], np.array([3, 1])),
        ],
        4,
    )
    assert numbers.tolist() == [0, 1, 2, 3] and numbers.dtype == np.float64
    assert names == ["a", "b", "c", "d"]
    assert again.tolist() == [[0], [1], [2], [3]] and again.dtype == np.int64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([2**63], np.uint64), np.array([-1])),  # an array of both would be of floats
        (np.array([1]), np.array(["a"])),  # of texts
        (np.zeros((1, 2)), np.zeros((1, 3))),  # of no shape
        (np.array([1.5]), [None]),
        (np.array([1], "m8[Y]"), np.array([1], "m8[s]")),  # of no unit
    ],
)
def test_what_no_array_holds_becomes_a_list_of_what_it_was(one: Any, other: Any) -> None:
    (column,) = in_order([([one], slice(0, 1, 1)), ([other], slice(1, 2, 1))], 2)
    assert isinstance(column, list)
    for value, given in zip(column, (one[0], other[0])):
        assert type(value) is type(given) and np.array_equal(value, given)


@pytest.mark.parametrize(
    "columns",
    [
        [np.array([0.5, np.nan]), ["a", "b"]],  # floats among integers
        [np.array([2**63, 1], np.uint64), ["a", "b"]],
        [np.array(["1", "2"]), ["a", "b"]],
        [[1, 2], ["a", "b"]],
        [np.array([1, 2]), ["a"]],
        [np.array([1, 2, 3]), ["a", "b", "c"]],
        [np.array([1, 2])],
        [np.array([[1, 2]] * 2), ["a", "b"]],
    ],
    ids=repr,
)
def test_columns_that_are_not_those_that_were_announced_are_refused(columns: list[Any]) -> None:
    found = InOrder([Kind(np.dtype("i8"), ()), None], 4)
    with pytest.raises((TypeError, ValueError)):
        found.put(columns, slice(0, 4, 2))


WHOLE = [(0, 1, "i1"), (-128, 127, "i1"), (-129, 0, "i2"), (0, 2**15, "i4"), (0, 2**31, "i8"), (-(2**63), 0, "i8")]


@pytest.mark.parametrize(("low", "high", "dtype"), WHOLE)
@pytest.mark.parametrize("at", [0, 299_999])
def test_whole_numbers_of_arrays_go_in_as_few_bytes_as_hold_them_all(low: int, high: int, dtype: str, at: int) -> None:
    label = np.zeros(300_000, np.int64)
    label[at], label[150_000] = low, high
    columns = Columns()
    for start in range(0, len(label), 1000):
        columns.append((label[start : start + 1000].copy(), label[start : start + 1000].astype(np.int32)), {})
    ((found, other),) = sent(columns, narrow=True)
    assert found.dtype == dtype and other.dtype == np.int32
    assert np.array_equal(found, label)
    ((found, _),) = sent(columns)
    assert found.dtype == np.int64


def test_positions_are_cut_like_the_records() -> None:
    assert part_of(slice(1, 10, 3), 1, 2) == slice(4, 10, 3)
    assert part_of(np.array([5, 7, 9]), 1, 2).tolist() == [7, 9]


def test_a_record_that_contains_itself_is_an_error_without_pickle() -> None:
    record: list[Any] = [1]
    record.append(record)
    with pytest.raises(RecordError, match="in itself"):
        sent(Columns.of([record] * 3))
