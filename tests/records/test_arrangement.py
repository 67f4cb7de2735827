"""Where records belong that no sampler has dealt: each has a place of its own, in each of the modes."""

import itertools

import numpy as np
import pytest

from fleetmetrics.errors import InvalidInputError, UnknownNameError
from fleetmetrics.records.arrangement import MODES, arrange, kept_count

pytestmark = pytest.mark.numpy_only


def in_turn(blocks):
    """Positions by rank, in plain Python: one block from each rank in turn."""
    positions, total = [[] for _ in blocks], 0
    for turn in itertools.zip_longest(*blocks, fillvalue=0):
        for rank, length in enumerate(turn):
            positions[rank].extend(range(total, total + length))
            total += length
    return positions


def as_lists(arranged, total):
    return [np.arange(total)[places].tolist() for places in arranged]


def test_no_record_of_uneven_or_empty_workers_is_lost():
    rng = np.random.default_rng(3)
    for _ in range(500):
        blocks = [rng.integers(0, 4, rng.integers(0, 5)).tolist() for _ in range(rng.integers(1, 7))]
        counts = [sum(part) for part in blocks]
        total = sum(counts)
        expected = {
            "batch": in_turn(blocks),
            "unzip": in_turn([[1] * count for count in counts]),
            "cat": in_turn([[0] * rank + [count] for rank, count in enumerate(counts)]),
        }
        for mode, positions in expected.items():
            arranged = arrange(mode, counts, blocks)
            assert as_lists(arranged, total) == positions, (mode, blocks)
            assert sorted(itertools.chain.from_iterable(positions)) == list(range(total))
            assert all(isinstance(places, slice) or places.dtype == np.int32 for places in arranged)


@pytest.mark.parametrize(
    ("mode", "counts"), [("cat", [3, 0, 2]), ("unzip", [4, 4, 4]), ("unzip", [2, 0, 2]), ("unzip", [0, 5]), ("cat", [])]
)
def test_positions_in_even_steps_are_slices(mode, counts):
    arranged = arrange(mode, counts)
    assert all(isinstance(places, slice) for places in arranged)
    assert sorted(itertools.chain.from_iterable(as_lists(arranged, sum(counts)))) == list(range(sum(counts)))


def test_kept_count_is_the_number_of_positions_below_the_size():
    random = np.random.RandomState(0)
    for _ in range(200):
        blocks = [random.randint(0, 4, random.randint(0, 5)).tolist() for _ in range(random.randint(1, 5))]
        counts = [sum(part) for part in blocks]
        for mode in MODES:
            positions = arrange(mode, counts, blocks)
            for size, (rank, places) in itertools.product(range(sum(counts) + 2), enumerate(positions)):
                places = np.arange(sum(counts))[places] if isinstance(places, slice) else places
                expected = np.flatnonzero(places < size)
                assert kept_count(mode, counts, rank, size, blocks) == expected.size
                assert expected.tolist() == list(range(expected.size))  # always the first ones


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: arrange("zip", [1]), "mode is 'zip'; it must be one of unzip, cat, batch"),
        (lambda: arrange("cat", [1, -1]), "counts is"),
        (lambda: arrange("cat", [1.5]), "counts is"),
        (lambda: arrange("batch", [2, 1]), r"blocks sum by rank to \[\]; they must sum to the counts, \[2, 1\]"),
        (lambda: arrange("batch", [2, 1], [[2]]), r"blocks sum by rank to \[2\]"),
        (lambda: arrange("batch", [2, 1], [[2], [2]]), r"blocks sum by rank to \[2, 2\]"),
        (lambda: arrange("batch", [2, 1], [[3, -1], [1]]), r"blocks\[0\] is"),
    ],
)
def test_wrong_arguments_are_named(call, text):
    with pytest.raises(InvalidInputError, match=text):
        call()


def test_an_unknown_mode_is_an_unknown_name():
    with pytest.raises(UnknownNameError):
        arrange("gather", [1, 2])
