"""Which of a worker's samples are padding, and where its records belong among those of all workers.

A sampler that deals a data set to several workers repeats samples so that all get the same number; these samples would
count twice. The module uses only NumPy, and does not communicate. All results are in the order of dealing; for Paddle's
own sampler they come from a formula, without iterating it.

A ``sampler`` is a `paddle.io.DistributedBatchSampler`, a `paddle.io.DataLoader` with one, or an object with its
attributes ``nranks``, ``local_rank``, ``dataset``, ``batch_size``, ``shuffle``, ``drop_last`` and ``epoch``; PyTorch's
`DistributedSampler`, or a loader with one, works, too. If its class overrides ``__iter__``, a copy is
iterated for every rank, and its order must depend only on its attributes. ``rank`` is from 0 to ``nranks - 1``;
None: the sampler's ``local_rank``. ``epoch`` is from 0 to 2**32 - 1; None: that of the pass to come, the sampler's.
If Paddle's sampler shuffles, it raises its epoch as a pass begins: that of the current pass is
`fleetmetrics.samplers.dealing.epoch_under_way`. An invalid sampler, rank or epoch raises `InvalidInputError`.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.samplers.dealing import Dealing
from fleetmetrics.support.checks import counts_of, knows_its_arguments

__all__ = ["dealt_indices", "kept_positions", "padding_mask", "remaining_indices"]


def dealt_indices(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """The data set's indices that a rank is dealt in one pass, padding included: int64 [n].

    Examples:
        >>> from types import SimpleNamespace
        >>> sampler = SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                           drop_last=False, epoch=0)
        >>> [dealt_indices(sampler, rank).tolist() for rank in range(3)]
        [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 0, 1]]
    """
    dealing = Dealing(sampler, epoch, every=rank is not None)
    return dealing.dealt.indices(dealing.rank(rank))


@knows_its_arguments
def padding_mask(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Return flags of the padding among a rank's samples in one pass, by default the next pass.

    Over all ranks, exactly one entry of every dealt sample is False: that of the earliest step, so that a pass may end
    after any step; within a step, the first one in the list ``(0, ..., N - 1, 0, ..., p - 1)`` that Paddle's sampler
    deals, shuffled or not. If the sampler has its own ``__iter__``, the entry that is earliest on its rank counts, then
    that of the lowest rank.

    Args:
        sampler: a `paddle.io.DistributedBatchSampler`, a `paddle.io.DataLoader` with one, or an object with its
            attributes; see `fleetmetrics.samplers.sampling`.
        rank: from 0 to ``nranks - 1``; None: the sampler's ``local_rank``.
        epoch: of the pass; None: the sampler's, that of the next pass.

    Returns:
        bool [n]: True for padding. Making it takes n bytes, or 4 N + 9 n where the sampler shuffles.

    Raises:
        InvalidInputError: the sampler, rank or epoch is invalid.


    Examples:
        >>> from types import SimpleNamespace
        >>> padding_mask(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                              drop_last=False, epoch=0))
        array([False, False,  True,  True])
    """
    dealing = Dealing(sampler, epoch, every=rank is not None)
    return dealing.dealt.mask(dealing.rank(rank))


def kept_positions(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Return the places of a rank's kept samples in the order of the data set: int32, or int64 if 2**31 or more.

    ``out[kept_positions(sampler, r)] = records_of_rank_r`` for every rank r sorts the records by index. Samples dealt
    to no rank leave no gap: a position is the number of dealt samples with a lower index.

    Examples:
        >>> from types import SimpleNamespace
        >>> kept_positions(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                                drop_last=False, epoch=0))
        array([4, 5], dtype=int32)
    """
    dealing = Dealing(sampler, epoch, every=rank is not None)
    return dealing.dealt.kept(dealing.rank(rank))


@knows_its_arguments
def remaining_indices(sampler: Any, batches: Sequence[int], epoch: int | None = None) -> np.ndarray:
    """Return the data set's indices that remain in an unfinished pass: int64 [n], rising, each once.

    The remaining samples are those whose counting entry, see `padding_mask`, is in no finished batch. Deal them to any
    number of workers.

    Args:
        sampler: as for `padding_mask`, of the job that began the pass.
        batches: the number of batches that each rank had finished, by rank.
        epoch: of the pass; None: the sampler's.

    Raises:
        InvalidInputError: the sampler or epoch is invalid, or ``batches`` lacks a number for a rank.

    Examples:
        >>> from types import SimpleNamespace
        >>> sampler = SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=0, shuffle=False,
        ...                           drop_last=False, epoch=0)
        >>> remaining_indices(sampler, [1, 1, 1])
        array([6, 7, 8, 9])
    """
    dealing = Dealing(sampler, epoch, every=True)
    done = counts_of("batches", batches).tolist()
    if len(done) != dealing.ranks:
        raise InvalidInputError(f"batches is {batches!r}; it must hold a number for each of {dealing.ranks} ranks")
    size, rest = dealing.batch, []
    for rank, number in enumerate(done):
        left = slice(number * size, None)
        rest.append(dealing.dealt.indices(rank)[left][~dealing.dealt.mask(rank)[left]])
    return np.sort(np.concatenate(rest))
