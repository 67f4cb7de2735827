"""Which record cannot be packed, and why: slow walks, for errors only."""

from __future__ import annotations

import pickle
from typing import Any, Iterable, Iterator, NoReturn

import numpy as np

from fleetmetrics.errors import RecordError
from fleetmetrics.records.serializer.layout import CONTAINERS

__all__ = ["DEPTH", "PICKLE_PROTOCOL", "refuse_depth", "refuse_pickle", "refuse_tensor", "refuse_unpicklable"]

#: Containers may lie in one another so deep.
DEPTH = 100
#: The newest of Python 3.8.
PICKLE_PROTOCOL = 5
_ALLOWED = (
    "records may hold None, bools, numbers, text, bytes, NumPy arrays and scalars, Paddle tensors, and tuples, lists"
    " and dicts of these"
)


def refuse_pickle(values: Iterable[Any], records: list[Any], what: str) -> NoReturn:
    """Raise, since values would need a pickle.

    Args:
        values: some of what the records hold; none of them a container.
        records: all of them.
        what: their name.

    Raises:
        RecordError: naming the first of the values.
    """
    path, value = _first_of(values, records, what)
    raise RecordError(
        f"{path} is {_type_name(value)}, which has no array form; {_ALLOWED}. Convert it to arrays, or allow pickle"
    )


def refuse_unpicklable(values: Iterable[Any], records: list[Any], what: str, error: Exception) -> NoReturn:
    """Raise, since one of these values cannot be pickled.

    Args:
        values: some of what the records hold; none of them a container.
        records: all of them.
        what: their name.
        error: of pickle.

    Raises:
        RecordError: naming the first of the values that cannot be pickled.
    """
    culprits = [value for value in values if not _can_be_pickled(value)]
    path, value = _first_of(culprits or values, records, what)
    raise RecordError(
        f"{path} is {_type_name(value)}, which cannot be pickled ({type(error).__name__}: {error}); {_ALLOWED}."
        " Convert it to arrays"
    ) from error


def refuse_tensor(tensor: Any, records: list[Any], what: str) -> NoReturn:
    """Raise, since a tensor is not dense.

    Args:
        tensor: in the records.
        records: all of them.
        what: their name.

    Raises:
        RecordError: naming it.
    """
    path, _ = _first_of([tensor], records, what)
    raise RecordError(f"{path} is a sparse or distributed tensor; records may hold dense ones of one worker")


def refuse_depth(records: list[Any], what: str) -> None:
    """Raise if a record is nested too deep, or contains itself.

    Args:
        records: all of them.
        what: their name.

    Raises:
        RecordError: naming it.
    """
    for _ in _leaves(records, what):
        pass


def _first_of(values: Iterable[Any], records: list[Any], what: str) -> tuple[str, Any]:
    """Where the first of these values is in the records, and the value."""
    wanted = set(map(id, values))
    return next(leaf for leaf in _leaves(records, what) if id(leaf[1]) in wanted)


def _leaves(records: list[Any], what: str) -> Iterator[tuple[str, Any]]:
    """All values that are no containers, with their paths."""
    for index, record in enumerate(records):
        yield from _leaves_of(record, f"{what}[{index}]", 0)


def _leaves_of(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if type(value) not in CONTAINERS:
        yield path, value
    elif depth == DEPTH:
        raise RecordError(
            f"{path:.40}... is nested deeper than {DEPTH} levels, or contains itself; keep records flat: {_ALLOWED}"
        )
    elif type(value) is dict:
        for key, child in value.items():
            yield from _leaves_of(key, f"{path}<key {key!r:.40}>", depth + 1)
            yield from _leaves_of(child, f"{path}[{key!r:.40}]", depth + 1)
    else:
        for place, child in enumerate(value):
            yield from _leaves_of(child, f"{path}[{place}]", depth + 1)


def _type_name(value: Any) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name} of dtype {value.dtype}" if type(value) is np.ndarray else name


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value, PICKLE_PROTOCOL)
    except Exception:  # whatever its class does
        return False
    return True
