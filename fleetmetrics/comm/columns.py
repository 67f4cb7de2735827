"""Arrays of any dtype, for all_gather and broadcast."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm import states
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.letters import read_each, split
from fleetmetrics.errors import AgreementError, InvalidInputError
from fleetmetrics.serial import WIDEST, described_array, is_plain
from fleetmetrics.serial.descriptions import Letter, joined
from fleetmetrics.support.tensors import as_array
from fleetmetrics.support.vocabulary import kind_in_words

__all__ = ["array_of", "as_column", "column_in", "gather", "gather_chunks", "join", "parts_in"]

_NUMBERS = "biufc"


def as_column(array: Any) -> np.ndarray:
    """Return a contiguous array of native byte order that can cross the wire as bytes."""
    column = as_array(array, "array")
    if not is_plain(column.dtype) or column.dtype.kind not in _NUMBERS + "SU" or column.dtype.itemsize > WIDEST:
        raise InvalidInputError(
            f"array holds {kind_in_words(column.dtype)}; allowed are numbers, booleans, and bytes or strings of fixed "
            "width, up to 16 MiB an element"
        )
    return np.asarray(column, dtype=column.dtype.newbyteorder("="), order="C")


def column_in(letter: Letter) -> tuple[int | None, str, list[int]]:
    """The source, dtype and shape of a peer's array; the letter holds its bytes unless there are too many."""
    source, dtype, shape = letter.note
    size, brought = described_array(dtype, shape)[1], len(joined(letter.payload))
    if brought != (size if size <= states.CHUNK_BYTES else 0):
        raise ValueError(f"{brought} bytes, but {dtype} of shape {list(shape)} was announced")
    return source, dtype, shape


def join(source: int | None, parts: Sequence[tuple[str, Sequence[int]]]) -> tuple[str, list[int]]:
    """Check that the workers' arrays can be joined; return their common dtype and sizes."""
    sizes = [described_array(dtype, shape)[1] for dtype, shape in parts]
    if source is not None:
        return parts[source][0], sizes
    dtypes = [np.dtype(dtype) for dtype, _ in parts]
    if len({"number" if dtype.kind in _NUMBERS else dtype.kind for dtype in dtypes}) > 1:
        raise AgreementError(f"the workers gather arrays that cannot be joined: {by_rank(map(kind_in_words, dtypes))}")
    if len({(len(shape), tuple(shape[1:])) for _, shape in parts}) > 1:
        what = by_rank(f"shape {list(shape)}" for _, shape in parts)
        raise AgreementError(f"the workers gather arrays that differ beyond the first axis: {what}")
    # only the header gives the width of strings that never arrive
    heard = [dtype for dtype, size in zip(dtypes, sizes) if size or dtype.kind in _NUMBERS] or dtypes[:1]
    return functools.reduce(np.promote_types, heard).str, sizes


def array_of(part: np.ndarray, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """An array from its bytes."""
    return np.frombuffer(bytes(part.data), dtype).reshape(shape)


def gather(letters: Sequence[Letter]) -> Letter:
    """Rank 0's answer to the workers' arrays: all of them, by rank, unless one is large."""
    sources, *parts = zip(*read_each(letters, column_in))
    if len(set(sources)) > 1:
        calls = by_rank(f"broadcast from rank {source}" for source in sources)
        raise AgreementError(f"the workers disagree: {calls}")
    large = max(join(sources[0], list(zip(*parts)))[1]) > states.CHUNK_BYTES
    return Letter(list(zip(*parts)), b"" if large else [letter.payload for letter in letters])


def parts_in(source: int | None, answer: Letter) -> tuple[str, list[int], list[np.ndarray]]:
    """The common dtype, the sizes and, unless one is large, the bytes of all arrays in rank 0's answer."""
    common, sizes = join(source, answer.note)
    large = max(sizes) > states.CHUNK_BYTES
    return common, sizes, [] if large else split(joined(answer.payload), sizes)


def gather_chunks(letters: Sequence[Letter]) -> Letter:
    """Rank 0's answer to the next chunk of each worker's array; each letter says how many bytes it has."""
    chunks = read_each(letters, lambda letter: split(joined(letter.payload), [letter.note])[0])
    return Letter(None, [chunk.data for chunk in chunks])
