"""States that stand for records: what a metric with ``summarize`` sends instead."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np

from fleetmetrics.comm.columns import by_rank
from fleetmetrics.errors import AgreementError, IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers import REDUCTIONS, combine, widen
from fleetmetrics.records.arrays import Packed, pack_arrays, unpack_arrays

__all__ = ["States", "checked_states", "combine_states", "pack_states", "read_states", "states_of", "whole_states"]

#: Reduction and int64 or float64 array by name.
States = Mapping[str, "tuple[str, np.ndarray]"]


def checked_states(name: str, given: Any) -> States:
    """Return what ``summarize`` made, as states.

    Args:
        name: of the metric, for errors.
        given: arrays or numbers by name, to be summed; or pairs of a reduction and such an array.

    Raises:
        InvalidInputError: if it is something else.
    """
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"summarize of {name} returned {type(given).__name__}; it must return a dict of arrays by name, or None"
        )
    states = {}
    for key, value in given.items():
        if isinstance(value, tuple) and len(value) != 2:
            raise InvalidInputError(
                f"summarize of {name}: {key!r} is a tuple of {len(value)}; give an array or a number, or a pair of a"
                " reduction and an array, such as ('max', array)"
            )
        reduction, array = value if isinstance(value, tuple) else ("sum", value)
        if reduction not in REDUCTIONS:
            raise InvalidInputError(
                f"summarize of {name}: the reduction of {key!r} is {reduction!r}; allowed are {', '.join(REDUCTIONS)}"
            )
        states[str(key)] = (reduction, widen(array, f"{name}.{key}"))
    return states


def whole_states(name: str, given: Any) -> dict[str, np.ndarray]:
    """Return what ``summarize`` made of the records of all workers, as ``compute_from`` gets it.

    Args:
        name: of the metric, for errors.
        given: as for `checked_states`.
    """
    return combine_states(name, [checked_states(name, given)])


def states_of(name: str, summarize: Callable[[Any], Any], results: Any, instead: str = "") -> dict[str, np.ndarray]:
    """Return the states of all records, where they are here already.

    Args:
        name: of the metric, for errors.
        summarize: makes states from records.
        results: the records.
        instead: the method that should be there where ``summarize`` returns None.

    Returns:
        int64 or float64 arrays by name.

    Raises:
        InvalidInputError: if ``summarize`` does not return states.
    """
    states = summarize(results)
    if states is None:
        raise InvalidInputError(f"summarize of {name} returned None, and it does not define {instead} for that case")
    return whole_states(name, states)


def pack_states(states: States) -> tuple[Any, Packed]:
    """Return what describes the states, and their bytes.

    Args:
        states: of this worker.
    """
    packed = pack_arrays([array for _, array in states.values()])
    return [[[key, reduction] for key, (reduction, _) in states.items()], packed.layout], packed


def read_states(layout: Any, payload: Any) -> States:
    """Return the states of a worker.

    Args:
        layout: from `pack_states`.
        payload: the bytes.
    """
    names, inner = layout
    return {key: (reduction, array) for (key, reduction), array in zip(names, unpack_arrays(inner, payload))}


def combine_states(name: str, states: Sequence[States | None]) -> dict[str, np.ndarray]:
    """Reduce the workers' states.

    Args:
        name: of the metric, for errors.
        states: by rank; None where a worker had no records.

    Raises:
        AgreementError: if the workers' states differ in name, reduction or shape.
        IntegerOverflowError: naming the state.
    """
    kinds = [
        "no records" if each is None else ", ".join(f"{how} of {key} {list(a.shape)}" for key, (how, a) in each.items())
        for each in states
    ]
    present = [each for each in states if each is not None]
    if len({kind for kind, each in zip(kinds, states) if each is not None}) > 1:
        raise AgreementError(f"{name}: summarize made different states: {by_rank(kinds)}.")
    result = {}
    for key, (reduction, _) in present[0].items():
        arrays = [each[key][1] for each in present]
        dtype = np.result_type(*arrays)
        try:
            result[key] = combine(reduction, [array.astype(dtype, copy=False) for array in arrays])
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{name}, state {key!r}: {error}") from None
    return result
