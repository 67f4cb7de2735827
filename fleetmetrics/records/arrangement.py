"""The places of each worker's records among those of all workers, without a sampler. Pure NumPy, no communication."""

from __future__ import annotations

from typing import Any, Sequence, Union

import numpy as np

from fleetmetrics.errors import InvalidInputError, UnknownNameError
from fleetmetrics.numbers.reductions import position_dtype
from fleetmetrics.support.checks import at_least, checked, counts_of, optional, whole_number_of

__all__ = ["MODES", "Positions", "arrange", "kept_count"]

MODES = ("unzip", "cat", "batch")
#: The positions of records: an array, or a slice if they form an arithmetic progression.
Positions = Union[slice, np.ndarray]


def arrange(mode: str, counts: Sequence[int], blocks: Sequence[Any] | None = None) -> list[Positions]:
    """Return the places of each worker's records among those of all workers, without a sampler.

    Args:
        mode: "unzip": one sample from each rank in turn; "cat": rank after rank; "batch": one block from each rank in
            turn, as `paddle.io.DistributedBatchSampler` assigns them. A rank that has run out is skipped. Others:
            `UnknownNameError`.
        counts: number of records by rank, each at least 0.
        blocks: for "batch": by rank the lengths of its blocks, int [k], each at least 0, adding up to its count.

    Returns:
        By rank the positions of its records: int32 or, from 2**31 records on, int64 [counts[rank]]. They are a slice
        for "cat", if only one rank has records, and for "unzip" if all ranks with records have the same number.

    Examples:
        >>> arrange("unzip", [2, 2])
        [slice(0, 4, 2), slice(1, 4, 2)]
        >>> [positions.tolist() for positions in arrange("batch", [3, 2], [[2, 1], [2]])]
        [[0, 1, 4], [2, 3]]
    """
    _mode("mode", mode, None)
    records = counts_of("counts", counts)
    parts = [counts_of(f"blocks[{rank}]", part) for rank, part in enumerate(blocks or ())] if mode == "batch" else []
    sums = [int(part.sum()) for part in parts]
    if mode == "batch" and sums != records.tolist():
        raise InvalidInputError(f"blocks sum by rank to {sums}; they must sum to the counts, {records.tolist()}")
    having = records[records > 0]
    stops = np.cumsum(records).tolist()
    if mode == "cat" or having.size <= 1:
        return [slice(stop - count, stop, 1) for stop, count in zip(stops, records.tolist())]
    dtype = position_dtype(stops[-1])
    if mode == "batch":
        runs = [(start - (np.cumsum(part) - part)).astype(dtype) for start, part in zip(_starts(parts), parts)]
        return [np.repeat(run, part) + np.arange(part.sum(), dtype=dtype) for run, part in zip(runs, parts)]
    if having.min() == having.max():
        places = (np.cumsum(records > 0) - 1).tolist()
        return [slice(place, stops[-1] if count else place, having.size) for place, count in zip(places, records)]
    turns = _more_than(records, int(records.max()), dtype)
    starts = np.cumsum(turns, dtype=dtype) - turns
    return [starts[:count] + _more_than(records[:rank], int(count), dtype) for rank, count in enumerate(records)]


def _mode(argument: str, value: Any, _: Any) -> str:
    if not isinstance(value, str) or value not in MODES:
        raise UnknownNameError(f"{argument} is {value!r:.60}; it must be one of {', '.join(MODES)}")
    return value


def _counts(argument: str, value: Any, sizes: Any) -> list[int]:
    counts: list[int] = counts_of(argument, value).tolist()
    sizes["ranks"] = len(counts)
    return counts


def _rank(argument: str, value: Any, sizes: Any) -> int:
    return whole_number_of(argument, value, 0, sizes["ranks"] - 1)


def _blocks(argument: str, value: Any, sizes: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) != sizes["ranks"]:
        raise InvalidInputError(f"{argument} must be a list of the blocks of each rank, not {value!r:.60}")
    return [counts_of(f"{argument}[{rank}]", part) for rank, part in enumerate(value)]


@checked(mode=_mode, counts=_counts, rank=_rank, size=at_least(0), blocks=optional(_blocks))
def kept_count(mode: str, counts: Sequence[int], rank: int, size: int, blocks: Sequence[Any] | None = None) -> int:
    """Return how many of a rank's records, always its first ones, come before position ``size`` in `arrange`'s order.

    Examples:
        >>> [kept_count("unzip", [3, 2, 0], rank, 3) for rank in range(3)]
        [2, 1, 0]
    """
    if size >= sum(counts):
        return counts[rank]
    if mode == "cat":
        return min(max(size - sum(counts[:rank]), 0), counts[rank])
    if mode == "batch":
        parts = [np.asarray(part, np.int64) for part in blocks or ()]
        return int(np.clip(size - _starts(parts)[rank], 0, parts[rank]).sum())
    low, high = 0, counts[rank]  # bisect for the first turn that puts its record beyond
    while low < high:
        turn = (low + high) // 2
        position = sum(min(count, turn) for count in counts) + sum(count > turn for count in counts[:rank])
        low, high = (turn + 1, high) if position < size else (low, turn)
    return low


def _starts(blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The positions at which each rank's blocks start, if the ranks give one block in turn."""
    lengths = np.concatenate(blocks)
    # Stable: the blocks of one turn stay in the order of the ranks.
    order = np.argsort(np.concatenate([np.arange(part.size) for part in blocks]), kind="stable")
    starts = np.empty_like(lengths)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    return np.split(starts, np.cumsum([part.size for part in blocks])[:-1])


def _more_than(counts: np.ndarray, stop: int, dtype: np.dtype) -> np.ndarray:
    """For j = 0, ..., stop - 1, the number of counts above j: a staircase with a step down at every count."""
    steps = np.sort(np.minimum(counts, stop))
    return np.repeat(np.arange(steps.size, -1, -1, dtype=dtype), np.diff(steps, prepend=0, append=stop))
