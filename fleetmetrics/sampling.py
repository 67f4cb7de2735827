"""Which of a worker's samples are padding, and where its records belong among those of all workers.

A sampler that deals a data set to several workers repeats samples so that all get the same number; counted over all
workers, those would count twice. Pure NumPy, no communication. All results are in the order of dealing; for Paddle's
own sampler they come from a formula, without iterating it.

A ``sampler`` is a `paddle.io.DistributedBatchSampler`, a `paddle.io.DataLoader` with one, or an object with its
attributes ``nranks``, ``local_rank``, ``dataset``, ``batch_size``, ``shuffle``, ``drop_last`` and ``epoch``; PyTorch's
`DistributedSampler`, or a loader with one, will do, too. If its class has an ``__iter__`` of its own, a copy is
iterated for every rank, and what it deals must depend only on its attributes. ``rank`` is from 0 to ``nranks - 1``;
None: the sampler's ``local_rank``. ``epoch`` is from 0 to 2**32 - 1; None: that of the pass to come, the sampler's.
Paddle's sampler raises it as a pass begins, if it shuffles: `epoch_under_way` is that of the pass under way. Any other
sampler, rank or epoch raises `InvalidInputError`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from functools import cached_property
from typing import Any, NamedTuple, Sequence, Union

import numpy as np

from fleetmetrics.arguments import whole_number_of
from fleetmetrics.errors import InvalidInputError, UnknownNameError
from fleetmetrics.given import at_least, given, optional
from fleetmetrics.iterated import Iterated, copied, raised_by

__all__ = [
    "MODES",
    "Dealing",
    "Part",
    "Pass",
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
#: How a sampler calls its number of ranks, and its rank: Paddle, PyTorch.
_PLACES = (("nranks", "local_rank"), ("num_replicas", "rank"))


class Dealing:
    """One pass of a sampler over all ranks."""

    def __init__(self, sampler: Any, epoch: int | None = None) -> None:
        self._outer, self._inner, names = _dealer(sampler)
        inner = self._inner
        self.formula = _is_paddles(self._outer)
        missing = [name for name in (_READ if self.formula else names) if not hasattr(inner, name)]
        if missing:
            raise InvalidInputError(
                f"sampler is a {type(inner).__name__} without {', '.join(missing)}. Allowed are a"
                " paddle.io.DistributedBatchSampler, a paddle.io.DataLoader with one as its batch_sampler, and an"
                f" object with {', '.join(_READ)}. Where samples are dealt in another way, give ids= instead."
            )
        self._ranks_name, self._rank_name = names
        self.ranks = whole_number_of(f"sampler.{names[0]}", getattr(inner, names[0]), 1, 2**31 - 1)
        self.local_rank: Any = getattr(inner, names[1])
        if epoch is None:
            epoch = 0 if self.formula and not inner.shuffle else getattr(inner, "epoch", 0)
        self.epoch = whole_number_of("epoch", epoch, 0, 2**32 - 1)  # the seeds that RandomState takes

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What must be the same on every worker; fit for JSON."""
        dataset, of = getattr(self._inner, "dataset", None), dataset_indices(self._inner)
        found = {"samples": None if dataset is None else len(dataset), "nranks": self.ranks}
        for name in ("batch_size", "shuffle", "drop_last"):
            found[name] = getattr(self._inner, name, getattr(self._outer, name, None))
        found["epoch"] = self.epoch
        if of is not None:
            found["subset"] = zlib.crc32(of.data)
        if isinstance(self.dealt, Iterated):
            found["order"] = self.dealt.digest
        return found

    @cached_property
    def dealt(self) -> _Formula | Iterated:
        """Made when needed: a sampler that shuffles takes a permutation of the data set, another is iterated."""
        if self.formula:
            return _Formula(self._inner, self.ranks, self.epoch)
        return Iterated(
            [copied(self._outer, self._inner, self._rank_name, rank, self.epoch) for rank in range(self.ranks)]
        )

    @property
    def batch(self) -> int:
        """How many samples of a rank a whole batch has."""
        size = getattr(self._inner, "batch_size", getattr(self._outer, "batch_size", None))
        return whole_number_of("sampler.batch_size", size, 1) * int(getattr(self._inner, "_acc_steps", 1))

    def rank(self, rank: int | None) -> int:
        """The rank, or the sampler's for None; `InvalidInputError` if there is no such rank."""
        return whole_number_of("rank", self.local_rank if rank is None else rank, 0, self.ranks - 1)

    def check(self, rank: int, workers: int) -> None:
        """Raise `InvalidInputError` unless it deals to this worker of these."""
        if (self.ranks, self.local_rank) != (workers, rank):
            raise InvalidInputError(
                f"the sampler deals to rank {self.local_rank} of {self.ranks}, and this worker is rank {rank} of"
                f" {workers}; make the sampler with num_replicas={workers} and rank={rank}."
                " For the value of this worker alone there is compute_local, or evaluate_local"
            )


def _dealer(sampler: Any) -> tuple[Any, Any, tuple[str, str]]:
    """What is iterated in a pass; what, there or inside of it, knows of several ranks; and how that calls them."""
    within = getattr(sampler, "batch_sampler", None)  # which is false where it deals no batch
    outer = sampler if within is None or _names_in(sampler) else within
    inner = outer if _names_in(outer) else getattr(outer, "sampler", None)
    if inner is None or not _names_in(inner):
        return outer, outer, _PLACES[0]
    return outer, inner, _names_in(inner) or _PLACES[0]


def _names_in(sampler: Any) -> tuple[str, str] | None:
    if hasattr(sampler, _PLACES[0][0]):
        return _PLACES[0]
    return _PLACES[1] if all(hasattr(sampler, name) for name in _PLACES[1]) else None


def _is_paddles(sampler: Any) -> bool:
    """Whether Paddle's own sampler deals, or what has its attributes and no way of its own."""
    kind = next((kind for kind in type(sampler).__mro__ if "__iter__" in vars(kind)), None)
    return kind is None or (kind.__name__ == "DistributedBatchSampler" and kind.__module__.startswith("paddle."))


def epoch_under_way(sampler: Any) -> int:
    """The epoch of the pass that began last."""
    outer, inner, _ = _dealer(sampler)
    epoch = int(getattr(inner, "epoch", 0))
    if not epoch:
        return 0
    raised = bool(getattr(inner, "shuffle", False)) if _is_paddles(outer) else raised_by(outer, inner)
    return max(0, epoch - raised)


def dataset_indices(sampler: Any) -> np.ndarray | None:
    """What a sampler's indices are in the whole data set, where it deals a `paddle.io.Subset`; None: the same."""
    part: Any = getattr(_dealer(sampler)[1], "dataset", None)
    found = None
    while hasattr(part, "indices") and hasattr(part, "dataset"):
        of = np.asarray(part.indices, np.int64)
        found = of if found is None else of[found]
        part = part.dataset
    return found


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
        if sampler.shuffle:
            self.order = np.arange(self.total, dtype=self.dtype)
            np.random.RandomState(epoch).shuffle(self.order)

    @cached_property
    def _repeated(self) -> np.ndarray:
        """The places in the order of dealing at which a sample comes again: in a later step, or later in the list.

        The first ones of the data set are those that the list repeats. Unshuffled, the list's end has the copies.
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
        """The samples that no rank is dealt, rising; unshuffled they would leave no gap."""
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
        """How many different samples all ranks are dealt."""
        return min(self.samples, self.dealt * self.ranks) if self.order is None else self.samples - self._lost.size

    def count(self, rank: int) -> int:
        """How many samples the rank is dealt, padding included."""
        return self.dealt

    def indices(self, rank: int, dtype: Any = np.int64) -> np.ndarray:
        """The data set's indices that the rank is dealt, int64 [n]."""
        positions = self._positions(rank, dtype)
        return np.remainder(positions, max(1, self.samples), out=positions)

    def repeats(self, rank: int) -> np.ndarray:
        """Which of the rank's samples are padding, by their places among them, rising."""
        if self.total == self.samples:
            return np.empty(0, np.int64)
        whole, rest = self._repeated[self._repeated < self.end], self._repeated[self._repeated >= self.end] - self.end
        step, place = np.divmod(whole, self.block * self.ranks)
        its, of = place // self.block == rank, rest // max(1, self.rest) == rank
        last = self.dealt - self.rest + rest[of] % max(1, self.rest)
        return np.concatenate([step[its] * self.block + place[its] % self.block, last])

    def mask(self, rank: int) -> np.ndarray:
        """Which of them are padding, bool [n]."""
        mask = np.zeros(self.dealt, np.bool_)
        mask[self.repeats(rank)] = True
        return mask

    def kept(self, rank: int) -> np.ndarray:
        """Where the others belong in the order of the data set, int [m]."""
        kept = self.indices(rank, self.dtype)[~self.mask(rank)]
        return (kept - np.searchsorted(self._lost, kept)).astype(self.dtype) if self._lost.size else kept


class Part(NamedTuple):
    """What is known of a pass that was left, fit for JSON.

    Args:
        settings: of the sampler.
        rank: to which it dealt.
        done: how many samples of the pass the rank had got.
        due: how many it was dealt.
    """

    settings: dict[str, Any]
    rank: int
    done: int
    due: int


class _Begun(NamedTuple):
    """A pass that has begun: what is dealt, to which rank, how many samples, and the places of those that repeat."""

    dealing: Dealing
    rank: int
    due: int
    repeats: list[int]


class Pass:
    """The pass of a sampler that this worker is in: which of the next samples count.

    It begins with its first sample, when the sampler's epoch is known, and lasts until `reset`.

    Args:
        sampler: see `fleetmetrics.sampling`; None: every sample counts.

    Raises:
        InvalidInputError: for any other kind of sampler.

    Examples:
        >>> from types import SimpleNamespace
        >>> one = Pass(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                            drop_last=False, epoch=0))
        >>> one.take(2), one.take(2), one.done == one.due
        (None, array([False, False]), True)
    """

    def __init__(self, sampler: Any = None) -> None:
        self.follow(sampler)

    def follow(self, sampler: Any) -> None:
        """Take samples of this sampler from now on, in a new pass."""
        if sampler is not None:
            Dealing(sampler, 0)
        self.sampler = sampler
        #: Whether samples must be taken; also where the sampler stayed behind, see `__getstate__`.
        self.counts = sampler is not None
        self.reset()

    def reset(self) -> None:
        """Forget the pass: the next sample begins another."""
        self._begun: _Begun | None = None
        self.done = 0  #: how many samples of the pass this worker has got
        self._left: list[Part] = []  # passes of a checkpoint, or of what was merged, that do not go on here
        self._resumed = False  # whether that was held, and be it nothing

    def __getstate__(self) -> dict[str, Any]:
        """For pickles, without the sampler, which may hold a data set: whoever goes on sets another."""
        return {"counts": self.counts, "parts": self.parts()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.follow(None)
        self.hold(state["parts"])
        self.counts = state["counts"]

    def __deepcopy__(self, memo: Any) -> Pass:
        """For copies in this process: they have the same sampler."""
        other = Pass.__new__(Pass)
        vars(other).update(vars(self))
        return other

    def begin(self) -> _Begun:
        """Begin the pass, unless it has begun: at its beginning, or where a checkpoint left it."""
        if self._begun is None:
            if self.sampler is None:
                raise InvalidInputError(
                    "the sampler did not come along when this was pickled; set sampler to the one of this worker, or to"
                    " None if every sample counts"
                )
            dealing = Dealing(self.sampler, epoch_under_way(self.sampler))
            rank, part = dealing.rank(None), self._part_of(dealing)
            if part is not None:
                self.done, self._left = part.done, [each for each in self._left if each is not part]
            dealt = dealing.dealt
            self._begun = _Begun(dealing, rank, dealt.count(rank), dealt.repeats(rank).tolist())
        return self._begun

    def _part_of(self, dealing: Dealing) -> Part | None:
        """What a checkpoint had done of a pass, if it had begun it."""
        rank = dealing.rank(None)
        found = (part for part in self._left if (part.settings, part.rank) == (dealing.settings, rank))
        return next(found, None)

    def take(self, rows: int) -> np.ndarray | None:
        """Flags of the next samples that this worker is dealt: True for those that count; None if all of them do.

        Args:
            rows: how many.

        Raises:
            InvalidInputError: the sampler deals fewer in a pass.
        """
        begun = self._begun or self.begin()
        start, stop = self.done, self.done + rows
        if stop > begun.due:
            raise InvalidInputError(
                f"{stop:,} samples were added, of {begun.due:,} that the sampler deals to rank {begun.rank} in a pass;"
                " add each batch of a pass once, and reset before the next pass"
            )
        self.done, repeats = stop, begun.repeats
        first = bisect_left(repeats, start)
        if first == len(repeats) or repeats[first] >= stop:
            return None
        flags = np.ones(rows, np.bool_)
        flags[np.array(repeats[first : bisect_left(repeats, stop)]) - start] = False
        return flags

    def mark(self) -> Any:
        """What `back_to` returns to."""
        return self._begun, self.done, self._left, self._resumed

    def back_to(self, mark: Any) -> None:
        """Be where it was then."""
        self._begun, self.done, self._left, self._resumed = mark

    @property
    def dealing(self) -> Dealing | None:
        """What is dealt in it; before its first sample, in the pass that the sampler began last."""
        if self.sampler is None:
            return None
        return self._begun.dealing if self._begun else Dealing(self.sampler, epoch_under_way(self.sampler))

    @property
    def settings(self) -> dict[str, Any] | None:
        """What must be the same on every worker; fit for JSON. None without a sampler."""
        return None if self.dealing is None else self.dealing.settings

    @property
    def due(self) -> int:
        """How many samples this worker is dealt in it."""
        dealing = self.dealing
        return 0 if dealing is None else dealing.dealt.count(dealing.rank(None))

    def parts(self) -> list[Part]:
        """What a checkpoint must know of it, and of those before."""
        begun = self._begun
        own = [] if begun is None else [Part(begun.dealing.settings, begun.rank, self.done, begun.due)]
        return [*self._left, *own]

    def hold(self, parts: Sequence[Part]) -> None:
        """Go on from what `parts` said, of one pass or of several."""
        self.reset()
        self._left, self._resumed = list(parts), True

    def check(self, rank: int, workers: int, whole: bool = True) -> dict[str, Any] | None:
        """Raise `InvalidInputError` unless the sampler deals to this worker of these, and it has got all samples.

        Args:
            rank: of this worker.
            workers: how many there are.
            whole: False where the pass may have been left early.

        Returns:
            What must be the same on every worker; None without a sampler, and right after a checkpoint.
        """
        mark = self.mark()
        try:
            if self.sampler is not None and (not self._resumed or self._goes_on(self.dealing)):
                self.begin()
            if self._begun is not None:
                self._begun.dealing.check(rank, workers)
            for part in self.parts() if whole else ():
                if part.done < part.due:
                    raise InvalidInputError(
                        f"{part.done:,} of the {part.due:,} samples that the sampler deals to rank {part.rank} in a"
                        " pass were added; add all of them, or, where a pass is left early, compute(partial=True)."
                        " After a checkpoint of other workers, set the metric's sampler to that of the rest"
                    )
            return None if self._begun is None else self._begun.dealing.settings
        finally:
            self.back_to(mark)

    def _goes_on(self, dealing: Any) -> bool:
        """Whether this worker had all of its samples before the checkpoint, or gets none; not if parts were merged."""
        rank = dealing.rank(None)
        alone = all(part.rank == rank for part in self._left)
        return alone and (self._part_of(dealing) is not None or not dealing.dealt.count(rank))


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

    Over all ranks, exactly one entry of every dealt sample is False: that of the earliest step, so that a pass may be
    left after any step; of one step, that which comes first in the list ``(0, ..., N - 1, 0, ..., p - 1)`` that
    Paddle's sampler deals, shuffled or not. With an ``__iter__`` of its own, the entry counts that is earliest on its
    rank, then that of the lowest rank.

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
    size = dealing.batch
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
