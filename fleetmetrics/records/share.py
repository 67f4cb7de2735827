"""What one metric brings to the exchange of records."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError, UnknownNameError
from fleetmetrics.records.batches import RECORDS, Columns
from fleetmetrics.sampling import MODES, Dealing

__all__ = ["COLLECT_MODES", "Share", "check_defined", "check_mode", "check_size", "condenses", "record_blocks"]

#: How the workers' records go together.
COLLECT_MODES = (*MODES, "auto")


@dataclass
class Share:
    """What one metric brings to the exchange, and what is to be done with it.

    Args:
        name: of the metric, for errors.
        records: this worker's.
        compute: makes the answer from the records of all workers; runs on rank 0.
        mode: how the workers' records go together: "unzip", "cat" or "batch".
        size: how many samples the data set has, or None; what is gathered beyond it is padding.
        dealing: how a sampler dealt the samples; it settles padding and order.
        blocks: lengths of the blocks in which this worker's records came, for "batch".
        allow_pickle: whether records without an array form may be pickled.
        summarize: makes states from a worker's records, where a sum will do.
        compute_from: makes the answer from the states of all workers.
        directory: where records go on their way, instead of through memory; or None.
        shared: whether all workers see the same directory.
        guessed: whether nobody has chosen the mode.
    """

    name: str
    records: Columns
    compute: Callable[[Any], Any]
    mode: str = "unzip"
    size: int | None = None
    dealing: Dealing | None = None
    blocks: Sequence[int] | None = None
    allow_pickle: bool = True
    summarize: Callable[[Any], Any] | None = None
    compute_from: Callable[[Mapping[str, np.ndarray]], Any] | None = None
    directory: str | None = None
    shared: bool = True
    guessed: bool = False

    def check(self, rank: int, workers: int) -> None:
        """Raise unless the sampler dealt this worker as many samples as it has records.

        Args:
            rank: of this worker.
            workers: how many there are.

        Raises:
            InvalidInputError: if it deals to others, or the records are not one to one with the samples.
        """
        if self.dealing is None:
            return
        if (self.dealing.ranks, self.dealing.local_rank) != (workers, rank):
            raise InvalidInputError(
                f"{self.name}: the sampler deals to rank {self.dealing.local_rank} of {self.dealing.ranks}, and this"
                f" worker is rank {rank} of {workers}; make the sampler with num_replicas={workers} and rank={rank}."
                " For the value of this worker alone there is compute_local, or evaluate_local"
            )
        dealt = self.dealing.count(rank)
        if len(self.records) != dealt:
            raise InvalidInputError(
                f"{self.name}: {len(self.records)} records for the {dealt} samples that the sampler deals to this"
                " worker in a pass; records must be one to one with samples: add every sample of one pass once, and"
                " reset before the next"
            )
        if self.size not in (None, self.dealing.distinct):
            raise InvalidInputError(
                f"{self.name}: size is {self.size}, but the sampler deals {self.dealing.distinct} different samples;"
                " leave size out, the sampler settles it"
            )

    def note(self) -> dict[str, Any]:
        """What the others must know of it, fit for JSON."""
        records = self.records
        blocks = [[size, len(list(run))] for size, run in groupby(self.blocks or ())] if self.mode == "batch" else []
        return {
            "name": self.name,
            "mode": self.mode,
            "size": self.size,
            "sampler": None if self.dealing is None else self.dealing.settings,
            "collect_dir": None if self.directory is None else ("shared" if self.shared else "not shared"),
            "n": len(records),
            "blocks": blocks,
            "columns": records.names,
            "ids": any(len(ids) and ids.dtype.kind in "SU" for ids in records.ids) if records.ids else None,
            "allow_pickle": self.allow_pickle,
        }


def check_defined(kind: type, base: type, compute: str) -> None:
    """Raise unless a metric says how its value is made.

    Args:
        kind: of the metric.
        base: the class that defines none of it.
        compute: the name of the method that takes records.

    Raises:
        TypeError: in Python's words for an abstract class.
    """
    missing = {name for name in (compute, "summarize", "compute_from") if getattr(kind, name) is getattr(base, name)}
    if compute in missing and len(missing) > 1:
        raise TypeError(
            f"Can't instantiate abstract class {kind.__name__} with abstract method {compute} (or summarize and"
            " compute_from)"
        )


def condenses(kind: type, base: type, compute: str) -> bool:
    """Whether a metric's records condense to states.

    Args:
        kind: of the metric.
        base: the class that defines none of it.
        compute: the name of the method that takes records. Where a class overrides this one only, it is what counts.
    """
    names = ("summarize", "compute_from", compute)
    depth = {name: next(i for i, each in enumerate(kind.__mro__) if name in vars(each)) for name in names}
    end = kind.__mro__.index(base)
    return max(depth["summarize"], depth["compute_from"]) < end and depth["summarize"] <= depth[compute]


def record_blocks(name: str, records: Columns, batch_size: int | None) -> list[int]:
    """Return the lengths of the blocks in which a worker's records came.

    Args:
        name: of the metric, for errors.
        records: the worker's.
        batch_size: of the blocks; None: as the columns were added.

    Raises:
        InvalidInputError: if it is no positive integer, or there is no way to know.
    """
    if batch_size is None:
        if records.names == RECORDS:
            raise InvalidInputError(
                f"{name}: collect mode 'batch' must know the blocks in which the records came; give batch_size=, or add"
                " columns"
            )
        return records.blocks()
    if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
        raise InvalidInputError(f"batch_size is {batch_size!r}; it must be None or an integer of at least 1.")
    whole, rest = divmod(len(records), int(batch_size))
    return [batch_size] * whole + [rest] * (rest > 0)


def check_mode(mode: Any, argument: str) -> str:
    """Return the collect mode, or raise.

    Args:
        mode: what was given.
        argument: its name.

    Raises:
        UnknownNameError: for an unknown one.
    """
    if mode not in COLLECT_MODES:
        raise UnknownNameError(f"{argument} is {mode!r}; allowed are {', '.join(map(repr, COLLECT_MODES))}.")
    return str(mode)


def check_size(size: Any) -> int | None:
    """Return the size of the data set, or raise.

    Args:
        size: what was given.

    Raises:
        InvalidInputError: if it is neither None nor an integer of at least 0.
    """
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise InvalidInputError(f"size is {size!r}; it must be None, or the number of samples of the whole data set.")
    return int(size)
