"""A worker's pass over its samples: which of the next ones count, and what a checkpoint keeps of it."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.vocabulary import counted

if TYPE_CHECKING:
    from fleetmetrics.samplers.dealing import Dealing

__all__ = ["Part", "Pass"]


class Part(NamedTuple):
    """The progress of an unfinished pass, fit for JSON.

    Args:
        settings: of the sampler.
        rank: the rank that it dealt to; None: unknown, in a checkpoint of an earlier version.
        done: the number of samples of the pass that the rank had received.
        due: the number of samples that it was dealt.
    """

    settings: dict[str, Any]
    rank: int | None
    done: int
    due: int


class _Begun:
    """A pass that has begun; further facts are computed on demand.

    Args:
        dealing: the dealing of the pass.
        part: where a checkpoint left it, if one did.
    """

    dealing: Dealing
    part: Part | None

    def __init__(self, dealing: Dealing, part: Part | None = None) -> None:
        self.dealing, self.part = dealing, part

    @cached_property
    def rank(self) -> int:
        return self.dealing.rank(None)

    @cached_property
    def due(self) -> int:
        """The number of samples that the rank is dealt."""
        return self.dealing.dealt.count(self.rank)

    @cached_property
    def repeats(self) -> list[int]:
        """The places of padding, rising."""
        repeats: list[int] = self.dealing.dealt.repeats(self.rank).tolist()
        return repeats

    @cached_property
    def first(self) -> int:
        """The first padding; in a pass that is not shuffled, all padding comes last."""
        return self.repeats[0] if self.repeats else self.due


class Pass:
    """The current pass of a worker's sampler: which of the next samples count.

    It begins with its first sample, when the sampler's epoch is known, and lasts until `reset`.

    Args:
        sampler: see `fleetmetrics.samplers.sampling`; None: every sample counts.

    Raises:
        InvalidInputError: for any other kind of sampler.

    Examples:
        >>> from types import SimpleNamespace
        >>> one = Pass(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=False,
        ...                            drop_last=False, epoch=0))
        >>> one.take(2), one.take(2), one.done == one.due
        (None, array([False, False]), True)
    """

    counts: Any
    done: int
    #: Whether repeated samples are left out in some other way, as far as is known: by a mask, or by who adds.
    handled: bool = False
    #: Whether the process was searched for a sampler that has repeated some of these samples.
    looked: bool = False
    #: Passes of a checkpoint, or of what was merged.
    held: Sequence[Part] = ()

    _warned = False
    _begun: _Begun | None = None

    def __init__(self, sampler: Any = None) -> None:
        self.follow(sampler)

    def follow(self, sampler: Any) -> None:
        """Take samples of this sampler from now on: in the held pass if the sampler deals it, else in a new one."""
        if sampler is not None:
            from fleetmetrics.samplers.dealing import Dealing  # a metric without a sampler does not need it

            Dealing(sampler, 0)
        held = () if self._begun else self.held
        self.sampler = sampler
        #: Whether samples must be taken; also where the sampler stayed behind, see `__getstate__`.
        self.counts = sampler is not None
        self.reset()
        self.held = held  # it continues only if the sampler deals it

    def reset(self) -> None:
        """Forget the pass: the next sample begins a new one."""
        self.begin_anew()
        self.held = ()
        self._resumed = False  # whether the held pass was, even an empty one

    def begin_anew(self) -> None:
        """Forget that it has begun: the next sample is the first after the held part."""
        self._begun = None
        self._epoch: int | None = None  # if it is known before the pass begins
        self.handled = False
        #: The number of samples that this worker has received: of the pass, or without a sampler of all.
        self.done = 0

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state, without the sampler, which may hold a data set; set the sampler again to continue."""
        return {"counts": self.counts, "parts": self.parts()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Pass.__init__(self)
        self.hold(state["parts"])
        self.counts = state["counts"]

    def __deepcopy__(self, memo: Any) -> Pass:
        """A copy in this process has the same sampler."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def begin(self) -> _Begun:
        """Begin the pass, unless it has begun, at its beginning or where a checkpoint left it."""
        if self._begun is None:
            dealing = self.dealing
            if dealing is None:
                raise InvalidInputError(
                    "the sampler was not pickled with it; set sampler to this worker's sampler, or to None if every "
                    "sample counts"
                )
            part = self._part_of(dealing)
            if part is None and dealing.consumed and self.held:
                dealing, part = self._rest_of(dealing)
            self._begun, self.done = _Begun(dealing, part), part.done if part else 0
        return self._begun

    def _rest_of(self, dealing: Dealing) -> tuple[Dealing, Part | None]:
        """The checkpoint's pass whose rest a sampler deals, with the finished part; None: it was complete.

        The rest may repeat counted samples, as only the whole pass shows.
        """
        rank = dealing.rank(None)
        for part in self.held:
            begun = dealing.after(part.settings.get("consumed_samples", 0))
            if part.rank in (rank, None) and part.settings == begun.settings:
                due, rest = begun.dealt.indices(rank), dealing.dealt.indices(rank)
                if np.array_equal(due[part.done :], rest):
                    return begun, part
                raise InvalidInputError(
                    f"the sampler continues after {due.size - rest.size:,} samples of rank {rank} (consumed_samples "
                    f"is {dealing.consumed}), but {part.done:,} were done at the checkpoint; set consumed_samples to "
                    "the number that all ranks had done by then"
                )
        if any(part.done < part.due for part in self.held):
            raise InvalidInputError(
                f"the sampler continues a pass (consumed_samples is {dealing.consumed}) that is not the one of the "
                "checkpoint; create it with the epoch, the batch size and the workers of the checkpoint, or reset "
                "first"
            )
        return dealing, None

    def _part_of(self, dealing: Dealing) -> Part | None:
        """The finished part of a checkpoint's pass, if it had begun."""
        if not self.held:
            return None
        settings, ranks = dealing.settings, (dealing.rank(None), None)
        return next((part for part in self.held if part.settings == settings and part.rank in ranks), None)

    @contextlib.contextmanager
    def looked_at(self) -> Iterator[_Begun]:
        """The pass as if it had begun; afterwards it is restored."""
        mark = self.mark()
        try:
            yield self.begin()
        finally:
            self.back_to(mark)

    def take(self, rows: int) -> np.ndarray | None:
        """Flags of the worker's next samples: True for those that count; None if all of them do.

        Args:
            rows: the number of samples.

        Raises:
            InvalidInputError: the sampler deals fewer samples in a pass.
        """
        begun = self._begun or self.begin()
        start, stop = self.done, self.done + rows
        if stop > begun.due:
            raise InvalidInputError(
                f"{counted(stop, 'samples', 'were')} added, but the sampler assigns {begun.due:,} to rank {begun.rank} "
                "in a pass; add each batch of a pass once, and reset before the next pass"
            )
        self.done = stop
        if stop <= begun.first:
            return None
        repeats = begun.repeats
        first = bisect_left(repeats, start)
        if first == len(repeats) or repeats[first] >= stop:
            return None
        flags = np.ones(rows, np.bool_)
        flags[np.array(repeats[first : bisect_left(repeats, stop)]) - start] = False
        return flags

    def all_count(self, rows: int) -> bool:
        """Whether the next samples come before the first padding; also False before the pass has begun."""
        begun = self._begun
        return begun is not None and self.done + rows <= begun.first

    def once(self) -> bool:
        """Whether to warn: once for each metric."""
        warned, self._warned = self._warned, True
        return not warned

    def mark(self) -> Any:
        """The point for `back_to`: it covers taken samples, not a pass that was set, held or forgotten."""
        return self._begun, self.done

    def back_to(self, mark: Any) -> None:
        """Return to that point."""
        self._begun, self.done = mark

    @property
    def dealing(self) -> Dealing | None:
        """Its dealing; before the first sample, that of the pass that the sampler began last."""
        if self._begun is not None:
            return self._begun.dealing
        if self.sampler is None:
            return None
        from fleetmetrics.samplers.dealing import Dealing, epoch_under_way

        return Dealing(self.sampler, epoch_under_way(self.sampler) if self._epoch is None else self._epoch)

    @property
    def epoch(self) -> int | None:
        """The epoch of the pass, if it has begun or was held; None: the sampler decides later."""
        return self._epoch if self._begun is None else self._begun.dealing.epoch

    @property
    def settings(self) -> dict[str, Any] | None:
        """The settings that must be equal on every worker; fit for JSON. None without a sampler."""
        dealing = self.dealing
        return None if dealing is None else dealing.settings

    @property
    def due(self) -> int:
        """The number of samples that this worker is dealt in the pass."""
        dealing = self.dealing
        return 0 if dealing is None else (self._begun or _Begun(dealing)).due

    def parts(self) -> list[Part]:
        """The parts for a checkpoint, of this pass and earlier ones."""
        begun, held = self._begun, list(self.held) if self._resumed else []
        if begun is None:
            return held
        own = Part(begun.dealing.settings, begun.rank, self.done, begun.due)
        return [*(part for part in held if part is not begun.part), own]

    def hold(self, parts: Sequence[Part], epoch: int | None = None) -> None:
        """Continue from the `parts` of one pass or of several.

        Args:
            parts: from `parts`.
            epoch: of the pass; None: the sampler's.
        """
        self.reset()
        self.held, self._resumed, self._epoch = tuple(parts), True, epoch

    def check(self, rank: int, workers: int, whole: bool = True) -> dict[str, Any] | None:
        """Raise `InvalidInputError` unless the sampler deals to this worker, and the worker has all its samples.

        Args:
            rank: this worker's rank.
            workers: the number of workers.
            whole: False if the pass may end early.

        Returns:
            The settings that must be equal on every worker; None without a sampler, and right after a checkpoint.
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
                        f"{part.done:,} of the {part.due:,} samples that the sampler assigns to rank {part.rank} in a "
                        "pass were added; add all of them, or call compute(partial=True) if the pass ends early. "
                        "After a checkpoint of other workers, set the metric's sampler to the sampler of the "
                        "remaining samples"
                    )
            return None if self._begun is None else self._begun.dealing.settings
        finally:
            self.back_to(mark)

    def _goes_on(self, dealing: Any) -> bool:
        """Whether this worker had all its samples before the checkpoint, or gets none; not if parts were merged."""
        rank = dealing.rank(None)
        alone = all(part.rank == rank for part in self.held)
        return alone and (self._part_of(dealing) is not None or not dealing.dealt.count(rank))
