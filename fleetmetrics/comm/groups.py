"""Which workers a group holds: Paddle's groups, lists of ranks, and the topology of a hybrid job."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fleetmetrics.comm.failures import in_words
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.checks import is_whole

__all__ = ["DATA_AXES", "copies_of", "ranks_of"]

#: Along these axes of a hybrid job, workers have different samples; along others, copies or parts of a model.
DATA_AXES = ("data", "sharding")
_ALLOWED = (
    "a Group of paddle.distributed.new_group, a list of ranks, fleet.get_hybrid_communicate_group(), or None for all"
    " workers"
)


def ranks_of(group: Any, rank: int, world_size: int) -> tuple[int, ...]:
    """The ranks of a group, this worker's included: rising, or for a topology in the order of its samplers.

    Args:
        group: see `Communicator.among`.
        rank: of this worker, in the job.
        world_size: of the job.

    Raises:
        InvalidInputError: ``group`` is not a group of this job's workers, or lacks this worker.

    Examples:
        >>> ranks_of([3, 1], rank=1, world_size=4)
        (1, 3)
    """
    if _is_topology(group):
        return _along(group, DATA_AXES, rank, world_size)
    return _checked(group, rank, world_size)


def copies_of(group: Any, rank: int, world_size: int) -> tuple[int, ...]:
    """The ranks with this worker's samples: in a topology those along all other axes, otherwise the group."""
    if _is_topology(group):
        names = group.topology().get_hybrid_group_names()
        return _along(group, [name for name in names if name not in DATA_AXES], rank, world_size)
    return _checked(group, rank, world_size)


def _is_topology(group: Any) -> bool:
    return callable(getattr(group, "topology", None))


def _along(group: Any, axes: Any, rank: int, world_size: int) -> tuple[int, ...]:
    """The workers that differ from this one only along these axes."""
    topology = group.topology()
    if topology.world_size() != world_size:
        raise InvalidInputError(
            f"group is a topology of {topology.world_size()} workers, but the job has {world_size}; give the one of "
            "fleet.get_hybrid_communicate_group() after fleet.init"
        )
    known = [name for name in axes if name in topology.get_hybrid_group_names()]
    ranks_along = next(ranks for ranks in topology.get_fused_ranks(known) if rank in ranks)
    return tuple(map(int, ranks_along))


def _checked(group: Any, rank: int, world_size: int) -> tuple[int, ...]:
    members = getattr(group, "ranks", group)
    if isinstance(members, (set, frozenset, range)) or (isinstance(members, np.ndarray) and members.ndim):
        members = list(members)
    if not isinstance(members, (list, tuple)) or not all(map(is_whole, members)):
        raise InvalidInputError(f"group is {group!r:.80}; it must be {_ALLOWED}")
    ranks = sorted(map(int, members))
    shown = in_words(ranks)
    if not ranks:
        raise InvalidInputError(f"group is empty; it must be {_ALLOWED}, with at least one rank")
    twice = [twofold for twofold, times in Counter(ranks).items() if times > 1]
    if twice:
        raise InvalidInputError(f"group holds {in_words(twice)} more than once; name each rank once")
    outside = [rank for rank in ranks if not 0 <= rank < world_size]
    if outside:
        of = f"the ranks 0 to {world_size - 1}" if world_size > 1 else "rank 0 alone"
        raise InvalidInputError(f"group holds {in_words(outside)}, but this job has {of}")
    if rank not in ranks:
        raise InvalidInputError(
            f"group holds {shown}, but this worker is rank {rank}, which is not in it; call this on the members only, "
            "or give each worker its own group"
        )
    return tuple(ranks)
