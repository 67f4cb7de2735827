"""Rank 0's decisions that need the workers' letters only: rank 0's own thread makes them, found by name.

>>> FOLDS["barrier"]([Letter(None), Letter(None)])
Letter(note=None, payload=b'')
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from fleetmetrics.comm import columns, rows, states
from fleetmetrics.comm.failures import by_rank, fit_cause, named_error
from fleetmetrics.comm.letters import divided, read_each
from fleetmetrics.errors import AgreementError, FleetMetricsError, InvalidInputError
from fleetmetrics.serial.descriptions import Decide, Letter, joined

__all__ = ["FOLDS", "NAMES", "answered"]


def barrier(letters: Sequence[Letter]) -> Letter:
    """All workers have arrived."""
    return Letter(None)


def settings(letters: Sequence[Letter]) -> Letter:
    """Raise the error that names the setting in which the workers differ; a note is a call, and its settings."""
    calls, texts = zip(*read_each(letters, lambda letter: [str(text) for text in letter.note]))
    states.check_settings(calls[0], texts)
    return Letter(None)


def objects(letters: Sequence[Letter]) -> Letter:
    """The objects of the workers that have sent one, by rank."""
    sent = [letter for letter in letters if letter.note is not None]
    return Letter([[one.note, len(one.payload)] for one in sent], [one.payload for one in sent])


def shuffle(letters: Sequence[Letter]) -> Letter:
    """All letters of all workers; a letter has one for each worker."""
    check_numbers(read_each(letters, lambda letter: len(letter.note)))
    read_each(letters, lambda letter: divided(letter, len(letters)))
    return Letter([letter.note for letter in letters], [joined(letter.payload) for letter in letters])


def mine(rank: int, answer: Letter) -> list[Letter]:
    """A worker's letters in rank 0's answer to `shuffle`."""
    notes = [[row, sum(size for _, size in row)] for row in answer.note]
    by_sender = divided(Letter(notes, answer.payload), len(notes))
    return [divided(row, len(notes))[rank] for row in by_sender]


def check_numbers(numbers: Sequence[int]) -> None:
    """Raise unless each worker gives a letter for each worker."""
    if set(numbers) != {len(numbers)}:
        texts = by_rank(map(str, numbers))
        raise InvalidInputError(f"letters must hold one for each of {len(numbers)} workers, not {texts}")


#: By name.
FOLDS: dict[str, Callable[[Sequence[Letter]], Letter]] = {
    "barrier": barrier,
    "chunks": columns.gather_chunks,
    "gather": columns.gather,
    "objects": objects,
    "pieces": rows.reduce_pieces,
    "settings": settings,
    "shuffle": shuffle,
    "states": rows.reduce_states,
}
NAMES = {fold: name for name, fold in FOLDS.items()}


def answered(decide: Decide, number: int, calls: Sequence[str], letters: Sequence[Letter]) -> Letter:
    """Merge the letters on rank 0; an `AgreementError` names the exchange in which workers disagree.

    Errors may quote the workers' letters, so their texts are escaped for a log.
    """
    try:
        notes = [letter.note for letter in letters]
        if len(set(calls)) > 1 or len({isinstance(note, str) for note in notes if note is not None}) > 1:
            raise AgreementError(f"the workers disagree: {by_rank(map(_spoken, calls, notes))}")
        return decide(letters)
    except FleetMetricsError as error:
        text = str(error)
        if isinstance(error, AgreementError):
            text = text.replace("the workers disagree:", f"the workers disagree at exchange {number}:", 1)
        if text == str(error) and fit_cause(error):
            raise
        raise named_error(type(error).__name__, text) from fit_cause(error)


def _spoken(call: str, note: Any) -> str:
    """Describe a worker's call, for an error: with the states if the note describes them."""
    try:
        return states.signature(states.layout_of(note))
    except (TypeError, ValueError, RecursionError):
        return call
