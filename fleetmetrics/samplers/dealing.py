"""The samples that a sampler deals to each rank in one pass: Paddle's by a formula, others by iterating copies."""

from __future__ import annotations

import contextlib
import zlib
from functools import cached_property
from typing import Any

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.reductions import position_dtype
from fleetmetrics.samplers.iterated import Iterated, copied, raised_by
from fleetmetrics.support.checks import is_whole, whole_number_of
from fleetmetrics.support.vocabulary import with_article

__all__ = ["Dealing", "dataset_indices", "epoch_under_way", "places_in"]

_READ = ("nranks", "local_rank", "dataset", "batch_size", "shuffle", "drop_last", "epoch")
#: The samplers' names for the number of ranks, and the rank: Paddle, PyTorch.
_PLACES = (("nranks", "local_rank"), ("num_replicas", "rank"))


class Dealing:
    """One pass of a sampler over all ranks.

    Args:
        sampler: see `fleetmetrics.samplers.sampling`.
        epoch: the epoch of the pass; None: the sampler's, that of the next pass.
        consumed: the samples of all ranks after which the pass continues; None: the sampler's ``consumed_samples``.
        every: whether to iterate a sampler of another kind for every rank: those of a job check their own, and agree.
    """

    consumed: int
    epoch: int
    ranks: int

    def __init__(
        self, sampler: Any, epoch: int | None = None, consumed: int | None = None, every: bool = False
    ) -> None:
        self._sampler, self._every = sampler, every
        self._outer, self._inner, names = _dealer(sampler)
        inner = self._inner
        self.formula: bool = _is_paddles(self._outer)
        missing = [name for name in (_READ if self.formula else names) if not hasattr(inner, name)]
        if missing:
            raise InvalidInputError(
                f"sampler is {with_article(type(inner).__name__)} without {', '.join(missing)}. Allowed are a"
                " paddle.io.DistributedBatchSampler, a paddle.io.DataLoader with one as its batch_sampler, and an"
                f" object with {', '.join(_READ)}. {_instead(inner)}"
            )
        self._ranks_name, self._rank_name = names
        self.ranks = whole_number_of(f"sampler.{names[0]}", getattr(inner, names[0]), 1, 2**31 - 1)
        self.local_rank: Any = getattr(inner, names[1])
        if epoch is None:
            epoch = 0 if self.formula and not inner.shuffle else getattr(inner, "epoch", 0)
        self.epoch = whole_number_of("epoch", epoch, 0, 2**32 - 1)  # the seeds that RandomState takes
        its = 0 if self.formula else getattr(inner, "consumed_samples", 0) or 0
        self.consumed = whole_number_of("sampler.consumed_samples", its if consumed is None else consumed, 0)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that must be equal on every worker; fit for JSON."""
        dataset, of = getattr(self._inner, "dataset", None), dataset_indices(self._inner)
        settings = {"samples": None if dataset is None else len(dataset), "nranks": self.ranks}
        for name in ("batch_size", "shuffle", "drop_last"):
            settings[name] = getattr(self._inner, name, getattr(self._outer, name, None))
        settings["epoch"] = self.epoch
        if self.consumed:
            settings["consumed_samples"] = self.consumed
        if of is not None:
            settings["subset"] = zlib.crc32(of.data)
        if isinstance(self.dealt, Iterated):
            settings["order"] = self.dealt.digest
        return settings

    @cached_property
    def dealt(self) -> _Formula | Iterated:
        """Computed on demand: for a shuffling sampler a permutation of the data set, for others by iteration."""
        if self.formula:
            return _Formula(self._inner, self.ranks, self.epoch)
        copies, own = [self._copy(rank) for rank in range(self.ranks)], self.local_rank
        if self._every or not is_whole(own) or not 0 <= own < self.ranks:
            return Iterated(copies)
        block = getattr(self._inner, "batch_size", 1)
        return Iterated(copies, own, self._alone(), block if is_whole(block) and block > 0 else 1)

    def _copy(self, rank: int) -> Any:
        return copied(self._outer, self._inner, self._rank_name, rank, self.epoch, self.consumed)

    def _alone(self) -> Any:
        """A copy that deals to one rank what the others share, in their steps; None if it has no such settings."""
        one = self._copy(0)
        inner = one if self._outer is self._inner else one.sampler
        with contextlib.suppress(Exception):  # of attributes that cannot be set
            setattr(inner, self._ranks_name, 1)
            if hasattr(inner, "total_size") and hasattr(inner, "num_samples"):
                inner.num_samples = inner.total_size
            for layer in {id(one): one, id(inner): inner}.values():
                if is_whole(getattr(layer, "batch_size", None)):
                    layer.batch_size *= self.ranks
            return one
        return None

    def after(self, consumed: int) -> Dealing:
        """The rest of the pass, after this many samples of all ranks."""
        return Dealing(self._sampler, self.epoch, consumed, self._every)

    @property
    def batch(self) -> int:
        """The number of samples of a rank in a whole batch."""
        size = getattr(self._inner, "batch_size", getattr(self._outer, "batch_size", None))
        return whole_number_of("sampler.batch_size", size, 1) * int(getattr(self._inner, "_acc_steps", 1))

    def rank(self, rank: int | None) -> int:
        """The rank, or the sampler's for None; `InvalidInputError` for an unknown rank."""
        return whole_number_of("rank", self.local_rank if rank is None else rank, 0, self.ranks - 1)

    def check(self, rank: int, workers: int) -> None:
        """Raise `InvalidInputError` unless it deals to this worker."""
        if (self.ranks, self.local_rank) != (workers, rank):
            raise InvalidInputError(
                f"the sampler is for rank {self.local_rank} of {self.ranks}, but this worker is rank {rank} of "
                f"{workers}; create the sampler with num_replicas={workers} and rank={rank}, or, if several workers "
                f"get the same samples, give group= the {self.ranks} workers that get different ones. For the value "
                "of this worker alone, call compute_local or evaluate_local"
            )


def _instead(sampler: Any) -> str:
    """The advice for a sampler without ranks."""
    if type(sampler).__name__ == "BatchSampler":
        return (
            "With this sampler, each worker evaluates everything: give the loader a DistributedBatchSampler of the "
            "same data set and batch_size"
        )
    return "If samples are assigned in a different way, give a BaseMetric ids= instead"


def _dealer(sampler: Any) -> tuple[Any, Any, tuple[str, str]]:
    """The object to iterate in a pass; the sampler with ranks, itself or inside it; and its names for them."""
    within = getattr(sampler, "batch_sampler", None)  # false if it deals no batch
    outer = sampler if within is None or _names_in(sampler) else within
    inner = outer if _names_in(outer) else getattr(outer, "sampler", None)
    names = None if inner is None else _names_in(inner)
    return (outer, outer, _PLACES[0]) if names is None else (outer, inner, names)


def places_in(sampler: Any) -> tuple[int, int] | None:
    """The number of ranks to which a sampler deals, and its own; None: it has none."""
    names = _names_in(sampler)
    return None if names is None else (int(getattr(sampler, names[0])), int(getattr(sampler, names[1])))


def _names_in(sampler: Any) -> tuple[str, str] | None:
    if hasattr(sampler, _PLACES[0][0]):
        return _PLACES[0]
    return _PLACES[1] if all(hasattr(sampler, name) for name in _PLACES[1]) else None


def _is_paddles(sampler: Any) -> bool:
    """Whether Paddle's own sampler deals, or one with its attributes that does not override its order."""
    kind = next((kind for kind in type(sampler).__mro__ if "__iter__" in vars(kind)), None)
    return kind is None or (kind.__name__ == "DistributedBatchSampler" and kind.__module__.startswith("paddle."))


def epoch_under_way(sampler: Any) -> int:
    """The epoch of the pass that began last."""
    outer, inner, names = _dealer(sampler)
    epoch = int(getattr(inner, "epoch", 0))
    if not epoch:
        return 0
    raised = bool(getattr(inner, "shuffle", False)) if _is_paddles(outer) else raised_by(outer, inner, names[1])
    return max(0, epoch - raised)


def dataset_indices(sampler: Any) -> np.ndarray | None:
    """A sampler's indices in the whole data set, if it deals a `paddle.io.Subset`; None: the same."""
    part: Any = getattr(_dealer(sampler)[1], "dataset", None)
    indices = None
    while hasattr(part, "indices") and hasattr(part, "dataset"):
        of = np.asarray(part.indices, np.int64)
        indices = of if indices is None else of[indices]
        part = part.dataset
    return indices


class _Formula:
    """One pass of Paddle's own sampler: position q of the padded list stands for sample q % N."""

    def __init__(self, sampler: Any, ranks: int, epoch: int) -> None:
        self.samples, self.ranks = len(sampler.dataset), ranks
        share = getattr(sampler, "num_samples", -(-self.samples // ranks))  # fixed when the sampler was made
        self.total = share * ranks
        block = whole_number_of("sampler.batch_size", sampler.batch_size, 1)
        # In auto-parallel a worker's batch is several blocks; what is dropped is less than a batch.
        self.dealt = share - (share % (block * getattr(sampler, "_acc_steps", 1)) if sampler.drop_last else 0)
        self.block = max(1, min(block, share))
        self.rest = self.dealt % self.block  # in a shorter last block
        self.end = (self.dealt - self.rest) * ranks  # in the whole blocks
        self.dtype = position_dtype(self.total)
        self.order: np.ndarray | None = None  # position by place in the order of dealing; None: the same
        if sampler.shuffle:
            self.order = np.arange(self.total, dtype=self.dtype)
            np.random.RandomState(epoch).shuffle(self.order)

    @cached_property
    def _repeated(self) -> np.ndarray:
        """The places in the order of dealing at which a sample is repeated: in a later step, or later in the list.

        The list repeats the first samples of the data set. Without shuffling, the copies are at its end.
        """
        dealt = self.dealt * self.ranks
        if self.order is None:
            return np.arange(self.samples, dealt)
        near = self.order[:dealt] >= self.samples
        near |= self.order[:dealt] < self.total - self.samples
        place = np.flatnonzero(near)
        position = self.order[place]
        sample, step = position % max(1, self.samples), place // (self.block * self.ranks)
        in_turn = np.lexsort((position, step, sample))
        again = sample[in_turn][1:] == sample[in_turn][:-1]
        return np.sort(place[in_turn[1:][again]])

    @cached_property
    def _lost(self) -> np.ndarray:
        """The samples dealt to no rank, rising; without shuffling they leave no gap."""
        if self.order is None:
            return np.empty(0, self.dtype)
        dealt = self.dealt * self.ranks
        dropped = np.unique(self.order[dealt:] % max(1, self.samples))
        return dropped[~np.isin(dropped, self.order[:dealt] % max(1, self.samples))] if dropped.size else dropped

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
        """The number of different samples that all ranks are dealt."""
        return min(self.samples, self.dealt * self.ranks) if self.order is None else self.samples - self._lost.size

    def count(self, rank: int) -> int:
        """The number of samples that the rank is dealt, padding included."""
        return self.dealt

    def indices(self, rank: int, dtype: Any = np.int64) -> np.ndarray:
        """The data set's indices that the rank is dealt, int64 [n]."""
        positions = self._positions(rank, dtype)
        return np.remainder(positions, max(1, self.samples), out=positions)

    def repeats(self, rank: int) -> np.ndarray:
        """The places of padding among the rank's samples, rising."""
        if self.total == self.samples:
            return np.empty(0, np.int64)
        whole, rest = self._repeated[self._repeated < self.end], self._repeated[self._repeated >= self.end] - self.end
        step, place = np.divmod(whole, self.block * self.ranks)
        its, of = place // self.block == rank, rest // max(1, self.rest) == rank
        last = self.dealt - self.rest + rest[of] % max(1, self.rest)
        return np.concatenate([step[its] * self.block + place[its] % self.block, last])

    def mask(self, rank: int) -> np.ndarray:
        """Flags of padding, bool [n]."""
        mask = np.zeros(self.dealt, np.bool_)
        mask[self.repeats(rank)] = True
        return mask

    def kept(self, rank: int) -> np.ndarray:
        """The places of the others in the order of the data set, int [m]."""
        kept = self.indices(rank, self.dtype)[~self.mask(rank)]
        return (kept - np.searchsorted(self._lost, kept)).astype(self.dtype) if self._lost.size else kept
