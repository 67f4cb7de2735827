"""The samples of samplers with their own order: copies of them are iterated.

Most of them make one order of all samples and give each rank a share of it, so a copy that deals to one rank alone
shows what all are dealt, if its own share is what the rank is really dealt. For others, a copy is iterated for every
rank. Neither changes the sampler of the job or any random generator.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import sys
import zlib
from functools import cached_property
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.reductions import position_dtype

__all__ = ["Iterated", "copied", "raised_by", "random_states_kept"]


class Iterated:
    """One pass of copies of a sampler, by rank.

    If a sample is dealt twice, the entry that is earliest on its rank counts, then that of the lowest rank.

    Args:
        samplers: by rank.
        own: this worker's rank.
        alone: a copy that deals to one rank what all share; None: iterate the copy of every rank.
        block: the number of samples that a rank gets at a time.
    """

    dealt: list[np.ndarray]
    seen: np.ndarray
    masks: list[np.ndarray]

    def __init__(self, samplers: Sequence[Any], own: int = 0, alone: Any = None, block: int = 1) -> None:
        with random_states_kept():
            mine = _indices(copy.copy(samplers[own]))
            _stir()
            shared = None if alone is None else _shared(alone, mine, own, len(samplers), block)
            if shared is None and not np.array_equal(_indices(copy.copy(samplers[own])), mine):
                raise InvalidInputError(
                    f"sampler: {type(samplers[0]).__name__} gives a different order each time that it is iterated, "
                    "so its padding is unknown; let it draw from a generator that its epoch seeds"
                )
            if shared is None:
                shared = [mine if rank == own else _indices(one) for rank, one in enumerate(samplers)]
        self.dealt = shared
        # By place on the rank, then by rank.
        order = np.argsort(np.concatenate([np.arange(part.size) for part in self.dealt]), kind="stable")
        self.seen, first = _first_places(np.concatenate(self.dealt)[order])
        mask = np.ones(order.size, np.bool_)
        mask[order[first]] = False
        self.masks = np.split(mask, np.cumsum([part.size for part in self.dealt])[:-1])

    @cached_property
    def digest(self) -> int:
        """The digest of the order in which all ranks are dealt their samples."""
        lengths = np.array([part.size for part in self.dealt])
        return zlib.crc32(np.concatenate([lengths, *self.dealt]).data)

    @property
    def distinct(self) -> int:
        """The number of different samples that all ranks are dealt."""
        return self.seen.size

    def count(self, rank: int) -> int:
        """The number of samples that the rank is dealt, padding included."""
        return self.dealt[rank].size

    def indices(self, rank: int) -> np.ndarray:
        """The data set's indices that the rank is dealt, int64 [n]."""
        return self.dealt[rank]

    def repeats(self, rank: int) -> np.ndarray:
        """The places of padding among them, rising."""
        return np.flatnonzero(self.masks[rank])

    def mask(self, rank: int) -> np.ndarray:
        """Flags of padding, bool [n]."""
        return self.masks[rank]

    def kept(self, rank: int) -> np.ndarray:
        """The places of the other samples in the order of the data set, int [m]."""
        kept = np.searchsorted(self.seen, self.dealt[rank][~self.masks[rank]])
        return kept.astype(position_dtype(self.seen.size))


def _indices(sampler: Iterable[Any]) -> np.ndarray:
    """The indices that a sampler deals, in batches or, like PyTorch's, one by one."""
    dealt = iter(sampler)
    first = list(itertools.islice(dealt, 1))
    everything = itertools.chain(first, dealt)
    return np.fromiter(itertools.chain.from_iterable(everything) if np.ndim(first) > 1 else everything, np.int64)


def _shared(alone: Any, mine: np.ndarray, own: int, ranks: int, block: int) -> list[np.ndarray] | None:
    """What each rank gets of the order of all samples, block by block or sample by sample; None if ours is another."""
    try:
        order = _indices(alone)
    except Exception:  # it cannot deal to one rank
        return None
    if order.size != mine.size * ranks:
        return None
    for size in (block, 1):
        whole = mine.size // size * size
        blocks, rest = order[: whole * ranks].reshape(-1, ranks, size), order[whole * ranks :].reshape(ranks, -1)
        if np.array_equal(np.append(blocks[:, own], rest[own]), mine):
            return [np.append(blocks[:, rank], rest[rank]) for rank in range(ranks)]
    return None


def _first_places(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different samples, rising, and the first place of each."""
    if not samples.size or samples.min() < 0 or samples.max() > 4 * samples.size:
        return np.unique(samples, return_index=True)
    places = np.full(samples.max() + 1, -1)
    places[samples[::-1]] = np.arange(samples.size)[::-1]  # the last of the same counts
    seen = np.flatnonzero(places >= 0)
    return seen, places[seen]


def copied(outer: Any, inner: Any, rank_name: str, rank: int, epoch: int, consumed: int = 0) -> Any:
    """A copy of the iterated object, whose sampler deals to this rank in this epoch.

    ``consumed``: the number of samples of all ranks that it skips, for a sampler with ``consumed_samples``.
    """
    one = copy.copy(inner)
    for name, value in list(getattr(inner, "__dict__", {}).items()):
        if hasattr(value, "get_state") or hasattr(value, "getstate") or hasattr(value, "bit_generator"):
            with contextlib.suppress(Exception):  # an object that cannot be copied is shared
                setattr(one, name, copy.deepcopy(value))
    setattr(one, rank_name, rank)
    if epoch != getattr(inner, "epoch", 0):
        if hasattr(one, "set_epoch"):  # it may seed by a different attribute
            one.set_epoch(epoch)  # this may reset the number of consumed samples
        one.epoch = epoch
    if hasattr(one, "consumed_samples"):
        one.consumed_samples = consumed
    if outer is inner:
        return one
    around = copy.copy(outer)
    around.sampler = one
    return around


def raised_by(outer: Any, inner: Any, rank_name: str) -> int:
    """The amount by which a sampler raises its epoch as a pass begins: 1 or 0."""
    epoch = getattr(inner, "epoch", 0)
    one = copied(outer, inner, rank_name, getattr(inner, rank_name, 0), epoch)  # of the whole pass
    with random_states_kept():
        next(iter(one), None)
    return int(getattr(one if outer is inner else one.sampler, "epoch", 0) > epoch)


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """Leave the random generators of the process as they were: of Python, NumPy, Paddle and PyTorch."""
    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        paddle, torch = _loaded("paddle", "get_rng_state"), _loaded("torch", "get_rng_state")
        if paddle is not None:
            on_cpu = paddle.base.core.default_cpu_generator()  # Paddle 2.6 cannot set a device's generator by name
            stack.callback(on_cpu.set_state, on_cpu.get_state())
            stack.callback(paddle.set_rng_state, paddle.get_rng_state())
            stack.callback(paddle.set_cuda_rng_state, paddle.get_cuda_rng_state())
        if torch is not None:
            stack.callback(torch.set_rng_state, torch.get_rng_state())
            if torch.cuda.is_initialized():
                stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        yield


def _stir() -> None:
    """Reseed the random generators; within `random_states_kept`."""
    random.seed(1)
    np.random.seed(1)
    paddle, torch = _loaded("paddle", "seed"), _loaded("torch", "manual_seed")
    if paddle is not None:
        paddle.seed(1)
    if torch is not None:
        torch.manual_seed(1)


def _loaded(name: str, function: str) -> Any:
    """A library that the job has imported, else None."""
    module = sys.modules.get(name)
    return module if hasattr(module, function) else None
