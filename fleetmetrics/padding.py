"""Which of a worker's samples are padding, and where its records belong among those of all workers.

A sampler that deals a data set to several workers repeats samples so that every worker gets equally many;
counted over all workers, those would count twice. Pure NumPy, no communication. All results are in the order of
dealing; for Paddle's own sampler they come from a formula, without iterating it.
"""

from __future__ import annotations

from typing import Any, Sequence, Union

import numpy as np

from fleetmetrics.dealing import Dealing, position_dtype
from fleetmetrics.errors import InvalidInputError, UnknownNameError

__all__ = ["MODES", "arrange", "dealt_indices", "kept_count", "kept_positions", "padding_mask"]

MODES = ("unzip", "cat", "batch")
Positions = Union[slice, np.ndarray]


def dealt_indices(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Return the data set's indices that a rank is dealt in one pass, padding included.

    Args:
        sampler: a `paddle.io.DistributedBatchSampler`, a `paddle.io.DataLoader` with one, or an object with its
            attributes ``nranks``, ``local_rank``, ``dataset``, ``batch_size``, ``shuffle``, ``drop_last`` and
            ``epoch``. If its class has an ``__iter__`` of its own, a copy of it is iterated for every rank: what
            it deals must then depend on nothing but its attributes.
        rank: from 0 to ``nranks - 1``; None: the sampler's ``local_rank``.
        epoch: from 0 to 2**32 - 1; None: the sampler's ``epoch`` as it stands, which is that of the pass to
            come. A sampler that shuffles raises it as a pass begins: the pass under way is ``sampler.epoch - 1``.

    Returns:
        int64 [n].

    Raises:
        InvalidInputError: for another sampler, rank or epoch.

    Examples:
        >>> from types import SimpleNamespace
        >>> sampler = SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                           drop_last=False, epoch=0)
        >>> [dealt_indices(sampler, rank).tolist() for rank in range(3)]
        [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 0, 1]]
    """
    dealing = Dealing(sampler, epoch)
    return dealing.indices(dealing.rank(rank))


def padding_mask(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Say which of the samples that a rank is dealt in one pass are padding: by default, in the pass to come.

    Over all ranks, every sample that is dealt at all has exactly one entry that is False. Paddle's sampler deals
    the list ``(0, ..., N - 1, 0, ..., p - 1)``, shuffled or not: padding are its entries from position N on.
    Where ``drop_last`` drops a sample and not its copy, the first copy dealt, in the order of that list, counts.
    With an ``__iter__`` of its own, the entry counts that is earliest on its rank, then that of the lowest rank.

    Args:
        sampler: see `dealt_indices`, also for rank, epoch and errors.
        rank: None: the sampler's ``local_rank``.
        epoch: None: that of the pass to come.

    Returns:
        bool [n]: True for padding. Making it takes n bytes, or 4 N + 9 n where the sampler shuffles.

    Examples:
        >>> from types import SimpleNamespace
        >>> padding_mask(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                              drop_last=False, epoch=0))
        array([False, False,  True,  True])
    """
    dealing = Dealing(sampler, epoch)
    return dealing.mask(dealing.rank(rank))


def kept_positions(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Return where the records of a rank's kept samples belong in the order of the data set.

    ``out[kept_positions(sampler, r)] = records_of_rank_r`` for every rank r sorts the records by index. Samples
    that no rank is dealt leave no gap: a position is the number of samples with a lower index that are dealt.

    Args:
        sampler: see `dealt_indices`, also for rank, epoch and errors.
        rank: None: the sampler's ``local_rank``.
        epoch: None: that of the pass to come.

    Returns:
        int32 or, from 2**31 samples on, int64 [m]: one per sample of the rank that is not padding.

    Examples:
        >>> from types import SimpleNamespace
        >>> kept_positions(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                                drop_last=False, epoch=0))
        array([4, 5], dtype=int32)
    """
    dealing = Dealing(sampler, epoch)
    return dealing.kept(dealing.rank(rank))


def arrange(mode: str, counts: Sequence[int], blocks: Sequence[Any] | None = None) -> list[Positions]:
    """Say where each worker's records belong among those of all workers, where no sampler tells.

    Args:
        mode: "unzip": one sample from each rank in turn; "cat": rank after rank; "batch": one block from each rank
            in turn, as `paddle.io.DistributedBatchSampler` deals. A rank that has run out is skipped.
        counts: number of records by rank, each at least 0.
        blocks: for "batch": by rank the lengths of its blocks, int [k], each at least 0.

    Returns:
        By rank the positions of its records: int32 or, from 2**31 records on, int64 [counts[rank]]. A slice
        instead for "cat", where only one rank has records, and for "unzip" if all that have any have equally many.

    Raises:
        UnknownNameError: for another mode.
        InvalidInputError: for other counts, or blocks that do not sum to them.

    Examples:
        >>> arrange("unzip", [2, 2])
        [slice(0, 4, 2), slice(1, 4, 2)]
        >>> [positions.tolist() for positions in arrange("batch", [3, 2], [[2, 1], [2]])]
        [[0, 1, 4], [2, 3]]
    """
    if mode not in MODES:
        raise UnknownNameError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}.")
    records = _lengths("counts", counts)
    parts = [_lengths(f"blocks[{rank}]", part) for rank, part in enumerate(blocks or ())] if mode == "batch" else []
    sums = [int(part.sum()) for part in parts]
    if mode == "batch" and sums != records.tolist():
        raise InvalidInputError(f"blocks sum by rank to {sums}; they must sum to the counts, {records.tolist()}.")
    having = records[records > 0]
    stops = np.cumsum(records).tolist()
    if mode == "cat" or having.size <= 1:
        return [slice(stop - count, stop, 1) for stop, count in zip(stops, records.tolist())]
    if mode == "batch":
        return _block_by_block(parts, position_dtype(stops[-1]))
    if having.min() == having.max():
        turns = (np.cumsum(records > 0) - 1).tolist()
        return [slice(turn, stops[-1] if count else turn, having.size) for turn, count in zip(turns, records)]
    return _one_by_one(records, position_dtype(stops[-1]))


def kept_count(mode: str, counts: Sequence[int], rank: int, size: int, blocks: Sequence[Any] | None = None) -> int:
    """Say how many of a rank's records come before a position in the order of `arrange`: always its first ones.

    Args:
        mode: as for `arrange`.
        counts: as for `arrange`.
        rank: whose.
        size: the position.
        blocks: as for `arrange`.

    Returns:
        From 0 to ``counts[rank]``; without an array of positions.

    Examples:
        >>> [kept_count("unzip", [3, 2, 0], rank, 3) for rank in range(3)]
        [2, 1, 0]
    """
    if size >= sum(counts):
        return counts[rank]
    if mode == "cat":
        return min(max(size - sum(counts[:rank]), 0), counts[rank])
    if mode == "batch":
        turns = len(blocks[rank])  # type: ignore[index]
        table = np.zeros((len(counts), turns), np.int64)
        for row, part in zip(table, blocks or ()):
            row[: len(part)] = part[:turns]
        before = np.concatenate([[0], np.cumsum(table.sum(axis=0))[:-1]]) if turns else np.zeros(0, np.int64)
        starts = before + table[:rank].sum(axis=0)
        return int(np.clip(size - starts, 0, table[rank]).sum())
    low, high = 0, counts[rank]  # the first turn whose record lies beyond, by bisection
    while low < high:
        turn = (low + high) // 2
        position = sum(min(count, turn) for count in counts) + sum(count > turn for count in counts[:rank])
        low, high = (turn + 1, high) if position < size else (low, turn)
    return low


def _lengths(name: str, values: Sequence[int]) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise InvalidInputError(f"{name} is {values!r}; it must hold integers of at least 0.")
    return array.astype(np.int64)


def _block_by_block(blocks: Sequence[np.ndarray], dtype: np.dtype) -> list[Positions]:
    lengths = np.concatenate(blocks)
    # Stable: the blocks of one turn stay in the order of the ranks.
    order = np.argsort(np.concatenate([np.arange(part.size) for part in blocks]), kind="stable")
    starts = np.empty_like(lengths)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    positions = np.arange(lengths.sum(), dtype=dtype)
    positions += np.repeat((starts - (np.cumsum(lengths) - lengths)).astype(dtype), lengths)
    return list(np.split(positions, np.cumsum([part.sum() for part in blocks])[:-1]))


def _one_by_one(counts: np.ndarray, dtype: np.dtype) -> list[Positions]:
    turns = _more_than(counts, int(counts.max()), dtype)
    starts = np.cumsum(turns, dtype=dtype) - turns
    return [starts[:count] + _more_than(counts[:rank], int(count), dtype) for rank, count in enumerate(counts)]


def _more_than(counts: np.ndarray, stop: int, dtype: np.dtype) -> np.ndarray:
    """For j = 0, ..., stop - 1, how many of the counts exceed j: a staircase with a step down at every count."""
    steps = np.sort(np.minimum(counts, stop))
    return np.repeat(np.arange(steps.size, -1, -1, dtype=dtype), np.diff(steps, prepend=0, append=stop))
