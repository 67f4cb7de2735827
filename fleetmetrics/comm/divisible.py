"""Decisions that can be made in parts: the leader of a host folds its workers' letters, and rank 0 merges the parts.

The result has the bits that rank 0 would compute from all letters: integers are summed as integers, and a partial sum
of floats keeps its rounding error. A leader does not fold letters if that would lose information.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm import blocks as wire
from fleetmetrics.comm.blocks import Group, Layout, Letter
from fleetmetrics.comm.frames import joined
from fleetmetrics.errors import IntegerOverflowError
from fleetmetrics.numbers import combine_exactly

__all__ = ["Agreement", "Barrier", "Divisible", "Reduction"]

_FOLDED = ("sum", "max", "min")


class Divisible:
    """A `Decide` that leaders may apply in parts, if all letters have the same note."""

    def __call__(self, letters: Sequence[Letter]) -> Letter:
        """Rank 0's answer to all letters."""
        raise NotImplementedError

    def fold(self, letters: Sequence[Letter]) -> Letter | None:
        """A part of the answer: its bytes, and a note for `merge`; None if folding would lose information."""
        raise NotImplementedError

    def merge(self, letters: Sequence[Letter], notes: Sequence[Any]) -> Letter | None:
        """The answer from letters and parts, with the notes of `fold`; None if merging would lose information."""
        raise NotImplementedError


class Barrier(Divisible):
    """The decision that all workers have arrived."""

    def __call__(self, letters: Sequence[Letter]) -> Letter:
        """See `Divisible`."""
        return Letter(None)

    def fold(self, letters: Sequence[Letter]) -> Letter | None:
        """See `Divisible`."""
        return Letter(None)

    def merge(self, letters: Sequence[Letter], notes: Sequence[Any]) -> Letter | None:
        """See `Divisible`."""
        return Letter(None)


class Agreement(Barrier):
    """The decision that the layouts in the notes agree; the states follow."""

    def __call__(self, letters: Sequence[Letter]) -> Letter:
        """See `Divisible`."""
        agreed, layouts = _agreed(letters)
        if agreed is None:
            return Letter(wire.SETTINGS_DIFFER)
        return Letter(None if len(layouts) == 1 else agreed.text)


class Reduction(Divisible):
    """States that fit into one letter, reduced."""

    def __call__(self, letters: Sequence[Letter]) -> Letter:
        """See `Divisible`."""
        agreed, layouts = _agreed(letters)
        if agreed is None:
            return Letter(wire.SETTINGS_DIFFER)
        note = None if len(layouts) == 1 else agreed.text
        return Letter(note, wire.reduced(layouts, agreed, [letter.payload for letter in letters]))

    def fold(self, letters: Sequence[Letter]) -> Letter | None:
        """See `Divisible`."""
        return self._merged(letters, [None] * len(letters), whole=False)

    def merge(self, letters: Sequence[Letter], notes: Sequence[Any]) -> Letter | None:
        """See `Divisible`."""
        return self._merged(letters, notes, whole=True)

    def _merged(self, letters: Sequence[Letter], notes: Sequence[Any], whole: bool) -> Letter | None:
        layout = wire.layouts_of([letters[0].note])[0]
        if not set(layout.reductions) <= {*_FOLDED}:
            return None
        parts = [_part(layout, letter.payload, words) for letter, words in zip(letters, notes)]
        values, rests, counts = [], [], []
        for place, group in enumerate(layout.groups):
            value, rest = _reduced(group, [each[place] for each in parts], whole)
            if value is None:
                return None
            values.append(value)
            counts.append(0 if whole or rest is None else len(rest))
            rests += [] if whole or rest is None else [rest.reshape(-1)]
        return Letter(None if whole else counts, wire.packed([*values, *rests]))


def _agreed(letters: Sequence[Letter]) -> tuple[Layout | None, list[Layout]]:
    """The call of all workers, see `wire.agree`, and `layouts_of` them."""
    layouts = wire.layouts_of([letter.note for letter in letters])
    return wire.agree(layouts), layouts


def _part(layout: Layout, payload: Any, words: Sequence[int] | None) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """For each group of states, its value and the words of its rest; a letter has no rest."""
    if words is None or not any(words):
        return [(array, None) for array in wire.read_packed(layout.kinds, joined(payload))]
    kinds = tuple((size * words[place], "float64") for place, (size, _) in enumerate(layout.kinds) if words[place])
    arrays = wire.read_packed((*layout.kinds, *kinds), joined(payload))
    rests = iter(arrays[len(layout.kinds) :])
    return [
        (array, next(rests).reshape(count, -1) if count else None)
        for array, count in zip(arrays[: len(layout.kinds)], words)
    ]


def _reduced(
    group: Group, parts: Sequence[tuple[np.ndarray, np.ndarray | None]], whole: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The value of a group and its rest; None if merging would lose information."""
    values = [value for value, _ in parts]
    if group.dtype == "int64" or {how for how, *_ in group.parts} <= {"max", "min"}:
        try:
            return wire.combined_group(group, values), None
        except IntegerOverflowError:  # a part overflows; the whole sum may not
            return None, None
    if whole and all(rest is None for _, rest in parts):
        return wire.combined_group(group, values), None
    found = []
    for how, start, end in group.parts:
        of_part = [value[start:end] for value in values], [_words(rest, start, end) for _, rest in parts]
        found.append((start, *combine_exactly(how, *of_part)))
        if how == "sum" and not np.isfinite(found[-1][1]).all():
            return None, None
    value = np.concatenate([each for _, each, _ in found])
    rest = np.zeros((max([len(words) for *_, words in found if words is not None], default=0), group.size))
    for start, _, words in found:
        if words is not None:
            rest[: len(words), start : start + words.shape[1]] = words
    return value, rest if len(rest) else None


def _words(rest: np.ndarray | None, start: int, end: int) -> np.ndarray | None:
    return None if rest is None else rest[:, start:end]
