"""Which of a worker's samples are padding, and where its records belong among those of all workers.

A sampler that deals a data set to several workers repeats samples so that all get the same number; counted over all
workers, those would count twice. Pure NumPy, no communication. All results are in the order of dealing; for Paddle's
own sampler they come from a formula, without iterating it.

A ``sampler`` is a `paddle.io.DistributedBatchSampler`, a `paddle.io.DataLoader` with one, or an object with its
attributes ``nranks``, ``local_rank``, ``dataset``, ``batch_size``, ``shuffle``, ``drop_last`` and ``epoch``. If its
class has an ``__iter__`` of its own, a copy is iterated for every rank, and what it deals must depend only on its
attributes. ``rank`` is from 0 to ``nranks - 1``; None: the sampler's ``local_rank``. ``epoch`` is from 0 to 2**32 - 1;
None: that of the pass to come, the sampler's. A sampler that shuffles raises it as a pass begins: the pass under way is
``sampler.epoch - 1``. Any other sampler, rank or epoch raises `InvalidInputError`.
"""

from __future__ import annotations

import copy
import itertools
from functools import cached_property, partial
from typing import Any, Callable, Sequence, Union

import numpy as np

from fleetmetrics.arguments import whole_number_of
from fleetmetrics.errors import InvalidInputError, UnknownNameError
from fleetmetrics.given import at_least, given, optional

__all__ = [
    "MODES",
    "Dealing",
    "arrange",
    "dataset_indices",
    "dealt_indices",
    "epoch_under_way",
    "kept_count",
    "kept_positions",
    "padding_mask",
    "position_dtype",
    "remaining_indices",
]

_READ = ("nranks", "local_rank", "dataset", "batch_size", "shuffle", "drop_last", "epoch")


class Dealing:
    """One pass of a sampler over all ranks."""

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
        self.ranks = whole_number_of("sampler.nranks", inner.nranks, 1, 2**31 - 1)
        self.local_rank: Any = inner.local_rank
        if epoch is None:
            epoch = 0 if formula and not inner.shuffle else getattr(inner, "epoch", 0)
        epoch = whole_number_of("epoch", epoch, 0, 2**32 - 1)  # the seeds that RandomState takes
        names = ("nranks", "batch_size", "shuffle", "drop_last")
        samples = len(inner.dataset) if hasattr(inner, "dataset") else None
        #: What must be the same on every worker; fit for JSON.
        self.settings = {"samples": samples, **{name: getattr(inner, name, None) for name in names}, "epoch": epoch}
        make: Callable[..., _Formula | _Iterated] = _Formula if formula else _Iterated
        self._make = partial(make, inner, self.ranks, epoch)
        self.formula = formula

    @cached_property
    def dealt(self) -> _Formula | _Iterated:
        """Made when needed: a sampler that shuffles takes a permutation of the data set, another is iterated."""
        return self._make()

    def rank(self, rank: int | None) -> int:
        """The rank, or the sampler's for None; `InvalidInputError` if there is no such rank."""
        return whole_number_of("rank", self.local_rank if rank is None else rank, 0, self.ranks - 1)


def epoch_under_way(sampler: Any) -> int:
    """The epoch of the pass that began last."""
    inner = _inner(sampler)
    epoch = int(getattr(inner, "epoch", 0))
    return max(0, epoch - 1) if getattr(inner, "shuffle", False) else epoch


def dataset_indices(sampler: Any) -> np.ndarray | None:
    """What a sampler's indices are in the whole data set, where it deals a `paddle.io.Subset`; None: the same."""
    part: Any = getattr(_inner(sampler), "dataset", None)
    found = None
    while hasattr(part, "indices") and hasattr(part, "dataset"):
        of = np.asarray(part.indices, np.int64)
        found = of if found is None else of[found]
        part = part.dataset
    return found


def _inner(sampler: Any) -> Any:
    return sampler if hasattr(sampler, "nranks") else getattr(sampler, "batch_sampler", sampler)


class _Formula:
    """One pass of Paddle's own sampler: position q of the padded list stands for sample q % N."""

    def __init__(self, sampler: Any, ranks: int, epoch: int) -> None:
        self.samples, self.ranks = len(sampler.dataset), ranks
        each = getattr(sampler, "num_samples", -(-self.samples // ranks))  # fixed when the sampler was made
        self.total = each * ranks
        block = whole_number_of("sampler.batch_size", sampler.batch_size, 1)
        # In auto-parallel a worker's batch is several blocks; what is dropped is less than a batch.
        self.dealt = each - (each % (block * getattr(sampler, "_acc_steps", 1)) if sampler.drop_last else 0)
        self.block = max(1, min(block, each))
        self.rest = self.dealt % self.block  # in a last, shorter block
        self.end = (self.dealt - self.rest) * ranks  # of the whole blocks
        self.dtype = position_dtype(self.total)
        self.order: np.ndarray | None = None  # position by place in the order of dealing; None: the same
        self.stand_ins = self.lost = np.empty(0, self.dtype)
        if not sampler.shuffle:  # it is the list's end that is dropped: a copy goes before its original, no gap is left
            return
        self.order = np.arange(self.total, dtype=self.dtype)
        np.random.RandomState(epoch).shuffle(self.order)
        dropped = self.order[self.dealt * ranks :]
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
        """How many different samples all ranks are dealt."""
        return min(self.samples, self.dealt * self.ranks) if self.order is None else self.samples - self.lost.size

    def count(self, rank: int) -> int:
        """How many samples the rank is dealt, padding included."""
        return self.dealt

    def indices(self, rank: int, dtype: Any = np.int64) -> np.ndarray:
        """The data set's indices that the rank is dealt, int64 [n]."""
        positions = self._positions(rank, dtype)
        return np.remainder(positions, max(1, self.samples), out=positions)

    def mask(self, rank: int) -> np.ndarray:
        """Which of them are padding, bool [n]."""
        if self.order is None:  # a rank's positions rise, so its padding is its end: count what lies below N
            rounds, left = divmod(min(self.samples, self.end), self.block * self.ranks)
            own = rounds * self.block + min(max(left - rank * self.block, 0), self.block)
            own += min(max(self.samples - self.end - rank * self.rest, 0), self.rest)
            return np.repeat([False, True], [own, self.dealt - own])
        positions = self._positions(rank, self.dtype)
        return (positions >= self.samples) & ~np.isin(positions, self.stand_ins)

    def kept(self, rank: int) -> np.ndarray:
        """Where the others belong in the order of the data set, int [m]."""
        kept = self.indices(rank, self.dtype)[~self.mask(rank)]
        return (kept - np.searchsorted(self.lost, kept)).astype(self.dtype) if self.lost.size else kept


class _Iterated:
    """As `_Formula`, of a sampler that deals in its own way: a copy of it is iterated for every rank."""

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
    """The integers that hold positions among ``total`` records."""
    return np.dtype(np.int32 if total < 2**31 else np.int64)


MODES = ("unzip", "cat", "batch")
#: Where records belong: positions, or an arithmetic progression of them.
Positions = Union[slice, np.ndarray]


def dealt_indices(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """The data set's indices that a rank is dealt in one pass, padding included: int64 [n].

    Examples:
        >>> from types import SimpleNamespace
        >>> sampler = SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                           drop_last=False, epoch=0)
        >>> [dealt_indices(sampler, rank).tolist() for rank in range(3)]
        [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 0, 1]]
    """
    dealing = Dealing(sampler, epoch)
    return dealing.dealt.indices(dealing.rank(rank))


def padding_mask(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Which of the samples that a rank is dealt in one pass are padding, by default in the pass to come.

    Over all ranks, exactly one entry of every dealt sample is False. Paddle's sampler deals the list ``(0, ..., N - 1,
    0, ..., p - 1)``, shuffled or not: its entries from position N on are padding. Where ``drop_last`` drops a sample
    but not its copy, the first copy dealt, in the order of that list, counts. With an ``__iter__`` of its own, the
    entry counts that is earliest on its rank, then that of the lowest rank.

    Args:
        sampler: a `paddle.io.DistributedBatchSampler`, a `paddle.io.DataLoader` with one, or an object with its
            attributes; see `fleetmetrics.sampling`.
        rank: from 0 to ``nranks - 1``; None: the sampler's ``local_rank``.
        epoch: of the pass; None: the sampler's, that of the pass to come.

    Returns:
        bool [n]: True for padding. Making it takes n bytes, or 4 N + 9 n where the sampler shuffles.

    Raises:
        InvalidInputError: for another sampler, rank or epoch.

    Examples:
        >>> from types import SimpleNamespace
        >>> padding_mask(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                              drop_last=False, epoch=0))
        array([False, False,  True,  True])
    """
    dealing = Dealing(sampler, epoch)
    return dealing.dealt.mask(dealing.rank(rank))


def kept_positions(sampler: Any, rank: int | None = None, epoch: int | None = None) -> np.ndarray:
    """Where the records of a rank's kept samples belong in the order of the data set: int32, or int64 if 2**31 or more.

    ``out[kept_positions(sampler, r)] = records_of_rank_r`` for every rank r sorts the records by index. Samples dealt
    to no rank leave no gap: a position is the number of dealt samples with a lower index.

    Examples:
        >>> from types import SimpleNamespace
        >>> kept_positions(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                                drop_last=False, epoch=0))
        array([4, 5], dtype=int32)
    """
    dealing = Dealing(sampler, epoch)
    return dealing.dealt.kept(dealing.rank(rank))


def remaining_indices(sampler: Any, batches: Sequence[int], epoch: int | None = None) -> np.ndarray:
    """The data set's indices that are still to come in a pass that was left: int64 [n], rising, each once.

    Those whose counting entry, see `padding_mask`, is in no batch that was done. Deal them to any number of workers.

    Args:
        sampler: as for `padding_mask`, of the job that did them.
        batches: how many batches each rank had done, by rank.
        epoch: of the pass; None: the sampler's.

    Raises:
        InvalidInputError: for another sampler or epoch, or if ``batches`` does not hold a number for each rank.

    Examples:
        >>> from types import SimpleNamespace
        >>> sampler = SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=0, shuffle=False,
        ...                           drop_last=False, epoch=0)
        >>> remaining_indices(sampler, [1, 1, 1])
        array([6, 7, 8, 9])
    """
    dealing = Dealing(sampler, epoch)
    done = _lengths("batches", batches).tolist()
    if len(done) != dealing.ranks:
        raise InvalidInputError(f"batches is {batches!r}; it must hold a number for each of {dealing.ranks} ranks.")
    size = _inner(sampler).batch_size * getattr(_inner(sampler), "_acc_steps", 1)
    rest = [dealing.dealt.indices(rank)[number * size :] for rank, number in enumerate(done)]
    masks = [dealing.dealt.mask(rank)[number * size :] for rank, number in enumerate(done)]
    return np.sort(np.concatenate(rest)[~np.concatenate(masks)])


def arrange(mode: str, counts: Sequence[int], blocks: Sequence[Any] | None = None) -> list[Positions]:
    """Where each worker's records belong among those of all workers, if no sampler tells.

    Args:
        mode: "unzip": one sample from each rank in turn; "cat": rank after rank; "batch": one block from each rank in
            turn, as `paddle.io.DistributedBatchSampler` deals. A rank that has run out is skipped. Others:
            `UnknownNameError`.
        counts: number of records by rank, each at least 0.
        blocks: for "batch": by rank the lengths of its blocks, int [k], each at least 0, adding up to its count.

    Returns:
        By rank the positions of its records: int32 or, from 2**31 records on, int64 [counts[rank]]. A slice for "cat",
        where only one rank has records, and for "unzip" if all ranks with records have the same number.

    Examples:
        >>> arrange("unzip", [2, 2])
        [slice(0, 4, 2), slice(1, 4, 2)]
        >>> [positions.tolist() for positions in arrange("batch", [3, 2], [[2, 1], [2]])]
        [[0, 1, 4], [2, 3]]
    """
    _mode("mode", mode, None)
    records = _lengths("counts", counts)
    parts = [_lengths(f"blocks[{rank}]", part) for rank, part in enumerate(blocks or ())] if mode == "batch" else []
    sums = [int(part.sum()) for part in parts]
    if mode == "batch" and sums != records.tolist():
        raise InvalidInputError(f"blocks sum by rank to {sums}; they must sum to the counts, {records.tolist()}.")
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
        raise UnknownNameError(f"{argument} is {value!r:.60}; it must be one of {', '.join(MODES)}.")
    return value


def _counts(argument: str, value: Any, sizes: Any) -> list[int]:
    found: list[int] = _lengths(argument, value).tolist()
    sizes["ranks"] = len(found)
    return found


def _rank(argument: str, value: Any, sizes: Any) -> int:
    return whole_number_of(argument, value, 0, sizes["ranks"] - 1)


def _blocks(argument: str, value: Any, sizes: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) != sizes["ranks"]:
        raise InvalidInputError(f"{argument} must be a list of the blocks of each rank, not {value!r:.60}")
    return [_lengths(f"{argument}[{rank}]", part) for rank, part in enumerate(value)]


@given(mode=_mode, counts=_counts, rank=_rank, size=at_least(0), blocks=optional(_blocks))
def kept_count(mode: str, counts: Sequence[int], rank: int, size: int, blocks: Sequence[Any] | None = None) -> int:
    """How many of a rank's records come before position ``size`` in the order of `arrange`: always its first ones.

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
    low, high = 0, counts[rank]  # the first turn whose record lies beyond, by bisection
    while low < high:
        turn = (low + high) // 2
        position = sum(min(count, turn) for count in counts) + sum(count > turn for count in counts[:rank])
        low, high = (turn + 1, high) if position < size else (low, turn)
    return low


def _lengths(name: str, values: Sequence[int]) -> np.ndarray:
    try:
        array = np.asarray(values)
    except Exception:  # ragged lists, and whatever an object's __array__ raises
        array = np.empty((), object)
    if np.ma.is_masked(values) or array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise InvalidInputError(f"{name} is {values!r}; it must hold integers of at least 0.")
    return array.astype(np.int64)


def _starts(blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """By rank the positions at which its blocks start, one block from each rank in turn."""
    lengths = np.concatenate(blocks)
    # Stable: the blocks of one turn stay in the order of the ranks.
    order = np.argsort(np.concatenate([np.arange(part.size) for part in blocks]), kind="stable")
    starts = np.empty_like(lengths)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    return np.split(starts, np.cumsum([part.size for part in blocks])[:-1])


def _more_than(counts: np.ndarray, stop: int, dtype: np.dtype) -> np.ndarray:
    """For j = 0, ..., stop - 1, how many of the counts exceed j: a staircase with a step down at every count."""
    steps = np.sort(np.minimum(counts, stop))
    return np.repeat(np.arange(steps.size, -1, -1, dtype=dtype), np.diff(steps, prepend=0, append=stop))
