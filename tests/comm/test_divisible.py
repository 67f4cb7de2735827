"""Decisions in parts: what a leader folds and rank 0 merges has the bits of all letters together."""

from __future__ import annotations

import numpy as np
import pytest

from fleetmetrics.comm.blocks import Block, Layout, describe, pack, unpack
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.divisible import Reduction
from fleetmetrics.comm.frames import joined


def letters_of(workers: list[list[tuple[str, str, np.ndarray]]]) -> tuple[Layout, list[Letter]]:
    """The letters of workers with these states: name, reduction, array."""
    layouts = [describe("call", [Block(*state) for state in states]) for states in workers]
    letters = [
        Letter(layout.text, joined(pack(layout, [array for *_, array in states])))
        for layout, states in zip(layouts, workers)
    ]
    return layouts[0], letters


def in_parts(letters: list[Letter], size: int) -> Letter | None:
    """The answer to folds of this many letters each."""
    folds = [Reduction().fold(letters[start : start + size]) for start in range(0, len(letters), size)]
    if None in folds:
        return None
    parts = [Letter(letters[0].note, joined(fold.payload)) for fold in folds if fold is not None]
    return Reduction().merge(parts, [fold.note for fold in folds if fold is not None])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("large", [1, 100])
def test_folds_merge_to_the_bits_of_all_letters(size: int, large: int) -> None:
    random = np.random.default_rng(size)
    workers = [
        [
            ("floats", "sum", np.append(1e100 * (-1) ** rank, random.random(large))),
            ("latest", "max", np.array([-np.inf if rank < 3 else -0.0, -np.inf])),
            ("first", "min", np.array(2**63 - 1 - rank)),
            ("number", "sum", np.array([rank, 1])),
            ("more", "sum", random.random(3) * 10.0 ** random.integers(-300, 300, 3)),
        ]
        for rank in range(6)
    ]
    layout, letters = letters_of(workers)
    whole, parts = Reduction()(letters), in_parts(letters, size)
    assert parts is not None
    for one, other in zip(unpack(layout, joined(whole.payload)), unpack(layout, joined(parts.payload))):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "state",
    [("large", "sum", np.array([1e308])), ("count", "sum", np.array([2**62])), ("nan", "sum", np.array([np.nan]))],
)
def test_what_a_fold_would_lose_is_not_folded(state: tuple[str, str, np.ndarray]) -> None:
    _, letters = letters_of([[state, ("latest", "max", np.array([-np.inf]))]] * 3)
    assert Reduction().fold(letters) is None
