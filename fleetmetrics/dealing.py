"""One pass of a sampler: what it deals to whom, which of that is padding, and where the rest belongs.

For Paddle's own sampler a formula tells, without iterating it. Pure NumPy, no communication.
"""

from __future__ import annotations

import copy
import itertools
from functools import cached_property, partial
from typing import Any, Callable

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = ["Dealing", "epoch_under_way", "position_dtype"]

_READ = ("nranks", "local_rank", "dataset", "batch_size", "shuffle", "drop_last", "epoch")


class Dealing:
    """One pass of a sampler over all ranks; see `fleetmetrics.padding.dealt_indices` for what samplers it takes.

    Args:
        sampler: `paddle.io.DistributedBatchSampler` or the like.
        epoch: of the pass; None: the sampler's, which is that of the pass to come.

    Raises:
        InvalidInputError: for another sampler or epoch.
    """

    def __init__(self, sampler: Any, epoch: int | None = None) -> None:
        inner = _inner(sampler)
        kind = next((kind for kind in type(inner).__mro__ if "__iter__" in vars(kind)), None)
        formula = kind is None or (kind.__name__ == "DistributedBatchSampler" and kind.__module__.startswith("paddle."))
        missing = [name for name in (_READ if formula else _READ[:2]) if not hasattr(inner, name)]
        if missing:
            raise InvalidInputError(
                f"sampler is a {type(inner).__name__} without {', '.join(missing)}. Allowed are a"
                " paddle.io.DistributedBatchSampler, a paddle.io.DataLoader with one as its batch_sampler, and an"
                f" object with {', '.join(_READ)}. Where samples are dealt in another way, give ids= instead."
            )
        self.ranks = _integer("sampler.nranks", inner.nranks, 1, 2**31)
        self.local_rank: Any = inner.local_rank
        if epoch is None:
            epoch = 0 if formula and not inner.shuffle else getattr(inner, "epoch", 0)
        epoch = _integer("epoch", epoch, 0, 2**32)  # the seeds that RandomState takes
        names = ("nranks", "batch_size", "shuffle", "drop_last")
        samples = len(inner.dataset) if hasattr(inner, "dataset") else None
        #: What must be the same on every worker; fit for JSON.
        self.settings = {"samples": samples, **{name: getattr(inner, name, None) for name in names}, "epoch": epoch}
        make: Callable[..., Any] = _Formula if formula else _Iterated
        self._make = partial(make, inner, self.ranks, epoch)

    @cached_property
    def _pass(self) -> Any:
        """Made when it is needed: a sampler that shuffles takes a permutation of the data set, another is iterated."""
        return self._make()

    def rank(self, rank: int | None) -> int:
        """Return a rank; that of the sampler for None.

        Args:
            rank: from 0 to ``ranks - 1``, or None.

        Raises:
            InvalidInputError: for another.
        """
        return _integer("rank", self.local_rank if rank is None else rank, 0, self.ranks)

    def indices(self, rank: int) -> np.ndarray:
        """The data set's indices that the rank is dealt, int64 [n]."""
        result: np.ndarray = self._pass.indices(rank)
        return result

    def mask(self, rank: int) -> np.ndarray:
        """Which of them are padding, bool [n]."""
        result: np.ndarray = self._pass.mask(rank)
        return result

    def kept(self, rank: int) -> np.ndarray:
        """Where the others belong in the order of the data set, int [m]."""
        result: np.ndarray = self._pass.kept(rank)
        return result

    def count(self, rank: int) -> int:
        """How many samples the rank is dealt, padding included."""
        return int(self._pass.count(rank))

    @property
    def distinct(self) -> int:
        """How many different samples all ranks are dealt."""
        return int(self._pass.distinct)


def epoch_under_way(sampler: Any) -> int:
    """Return the epoch of the pass that has begun last.

    Args:
        sampler: as for `Dealing`. One that shuffles raises its epoch as a pass begins.
    """
    inner = _inner(sampler)
    epoch = int(getattr(inner, "epoch", 0))
    return max(0, epoch - 1) if getattr(inner, "shuffle", False) else epoch


def _inner(sampler: Any) -> Any:
    return sampler if hasattr(sampler, "nranks") else getattr(sampler, "batch_sampler", sampler)


def _integer(name: str, value: Any, low: int, stop: int) -> int:
    if not isinstance(value, (int, np.integer)) or not low <= value < stop:
        raise InvalidInputError(f"{name} is {value!r}; it must be an integer from {low} to {stop - 1}.")
    return int(value)


class _Formula:
    """One pass of Paddle's own sampler: position q of the padded list stands for sample q % N."""

    def __init__(self, sampler: Any, ranks: int, epoch: int) -> None:
        self.samples, self.ranks = len(sampler.dataset), ranks
        each = getattr(sampler, "num_samples", -(-self.samples // ranks))  # fixed when the sampler was made
        self.total = each * ranks
        block = _integer("sampler.batch_size", sampler.batch_size, 1, 2**63)
        # In auto-parallel a worker's batch is several blocks; what is dropped is less than a batch.
        self.dealt = each - (each % (block * getattr(sampler, "_acc_steps", 1)) if sampler.drop_last else 0)
        self.block = max(1, min(block, each))
        self.rest = self.dealt % self.block  # in a last, shorter block
        self.end = (self.dealt - self.rest) * ranks  # of the whole blocks
        self.dtype = position_dtype(self.total)
        self.order: np.ndarray | None = None  # position by place in the order of dealing; None: the same
        self.stand_ins = self.lost = np.empty(0, self.dtype)
        if sampler.shuffle:
            self.order = np.arange(self.total, dtype=self.dtype)
            np.random.RandomState(epoch).shuffle(self.order)
            self._find_stand_ins(self.order[self.dealt * ranks :])

    def _find_stand_ins(self, dropped: np.ndarray) -> None:
        # Unshuffled it is the list's end that is dropped: a copy goes before its original, and no gap is left.
        copies = np.setdiff1d(np.arange(self.samples, self.total, dtype=self.dtype), dropped)
        copies = copies[np.isin(copies % max(1, self.samples), dropped)]
        found, first = np.unique(copies % max(1, self.samples), return_index=True)
        self.stand_ins, self.lost = copies[first], np.setdiff1d(dropped[dropped < self.samples], found)

    def _positions(self, rank: int, dtype: Any) -> np.ndarray:
        result = np.empty(self.dealt, dtype)
        blocks, rest = result[: self.dealt - self.rest].reshape(-1, self.block), result[self.dealt - self.rest :]
        start = self.end + rank * self.rest
        if self.order is None:
            starts = np.arange(rank * self.block, self.end, self.block * self.ranks, dtype=dtype)
            np.add(starts[:, None], np.arange(self.block, dtype=dtype), out=blocks)
            rest[:] = np.arange(start, start + self.rest, dtype=dtype)
        else:
            blocks[:] = self.order[: self.end].reshape(-1, self.ranks, self.block)[:, rank]
            rest[:] = self.order[start : start + self.rest]
        return result

    @property
    def distinct(self) -> int:
        return min(self.samples, self.dealt * self.ranks) if self.order is None else self.samples - self.lost.size

    def count(self, rank: int) -> int:
        return self.dealt

    def indices(self, rank: int, dtype: Any = np.int64) -> np.ndarray:
        positions = self._positions(rank, dtype)
        return np.remainder(positions, max(1, self.samples), out=positions)

    def mask(self, rank: int) -> np.ndarray:
        if self.order is None:  # a rank's positions rise, so its padding is its end: count what lies below N
            rounds, left = divmod(min(self.samples, self.end), self.block * self.ranks)
            own = rounds * self.block + min(max(left - rank * self.block, 0), self.block)
            own += min(max(self.samples - self.end - rank * self.rest, 0), self.rest)
            return np.repeat([False, True], [own, self.dealt - own])
        positions = self._positions(rank, self.dtype)
        return (positions >= self.samples) & ~np.isin(positions, self.stand_ins)

    def kept(self, rank: int) -> np.ndarray:
        kept = self.indices(rank, self.dtype)[~self.mask(rank)]
        return (kept - np.searchsorted(self.lost, kept)).astype(self.dtype) if self.lost.size else kept


class _Iterated:
    """One pass of a sampler that deals in its own way: a copy of it is iterated for every rank."""

    def __init__(self, sampler: Any, ranks: int, epoch: int) -> None:
        self.ranks = ranks
        self.dealt: list[np.ndarray] = []
        for rank in range(ranks):
            one = copy.copy(sampler)
            one.local_rank, one.epoch = rank, epoch
            self.dealt.append(np.fromiter(itertools.chain.from_iterable(one), np.int64))
        # By place on the rank, then by rank: numpy.unique takes the first.
        order = np.argsort(np.concatenate([np.arange(part.size) for part in self.dealt]), kind="stable")
        self.seen, first = np.unique(np.concatenate(self.dealt)[order], return_index=True)
        mask = np.ones(order.size, np.bool_)
        mask[order[first]] = False
        self.masks = np.split(mask, np.cumsum([part.size for part in self.dealt])[:-1])

    @property
    def distinct(self) -> int:
        return self.seen.size

    def count(self, rank: int) -> int:
        return self.dealt[rank].size

    def indices(self, rank: int) -> np.ndarray:
        return self.dealt[rank]

    def mask(self, rank: int) -> np.ndarray:
        return self.masks[rank]

    def kept(self, rank: int) -> np.ndarray:
        return np.searchsorted(self.seen, self.dealt[rank][~self.masks[rank]]).astype(position_dtype(self.seen.size))


def position_dtype(total: int) -> np.dtype:
    """Return the integers that hold positions among so many records.

    Args:
        total: how many.
    """
    return np.dtype(np.int32 if total < 2**31 else np.int64)
