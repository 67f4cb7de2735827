"""The first step of the exchange of records: who has what, which of it is padding, and where the rest belongs."""

from __future__ import annotations

import json
from typing import Any, Sequence

import numpy as np

from fleetmetrics import sampling
from fleetmetrics.comm.columns import by_rank
from fleetmetrics.errors import AgreementError, InvalidInputError, warn
from fleetmetrics.records.pieces import Positions, part_of
from fleetmetrics.records.share import Share
from fleetmetrics.records.spool import Spool

__all__ = ["Plan", "check_notes"]

#: What must be the same on every worker, and on every worker that has records.
_SAME, _SAME_IF_ANY = ("name", "mode", "size", "sampler", "collect_dir", "allow_pickle"), ("columns", "ids")


def check_notes(notes: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Check that the workers' shares go together, and that there are enough records.

    Args:
        notes: of every worker, by rank: one of each share.

    Raises:
        AgreementError: if they differ.
        InvalidInputError: if there are more samples than records, or (on several workers) far fewer.
    """
    names = [", ".join(note["name"] for note in each) for each in notes]
    if len(set(names)) > 1:
        raise AgreementError(f"the workers compute different metrics: {by_rank(names)}.")
    for same in zip(*notes):
        for key in (*_SAME, *_SAME_IF_ANY):
            here = [note for note in same if key in _SAME or note["n"]]
            if len({json.dumps(note[key]) for note in here}) > 1:
                texts = [_text(key, note) if note in here else "no records" for note in same]
                raise AgreementError(f"{same[0]['name']}: the workers differ: {by_rank(texts)}.")
        if same[0]["sampler"] is None and not any(note["ids"] is not None for note in same):
            _check_size(same)


def _text(key: str, note: dict[str, Any]) -> str:
    if key == "ids":
        return {None: "no ids", False: "integers as ids", True: "texts as ids"}[note["ids"]]
    if key == "sampler" and note["sampler"]:
        return "a sampler with " + ", ".join(f"{name} {value}" for name, value in note["sampler"].items())
    return f"{key} {note[key]}"


def _check_size(notes: Sequence[dict[str, Any]]) -> None:
    size, counts = notes[0]["size"], [note["n"] for note in notes]
    if size is None:
        return
    # A sampler pads by less than one block on each rank.
    block = max([length for note in notes for length, _ in note["blocks"]], default=1)
    padded, several = sum(counts) - size, len(counts) > 1
    if 0 <= padded < (len(counts) * block if several else 1):
        return
    what = "gathered" if several else "added"
    by = f" ({by_rank(map(str, counts))})" if several else ""
    text = (
        f"{notes[0]['name']}: size is {size}, but {sum(counts)} records were {what}{by}; records must be one to one"
        " with the samples of the data set, repeated samples apart"
    )
    if padded < 0 or (several and padded >= size):
        raise InvalidInputError(text)
    warn(f"{text}. The first {size} are taken, and {padded} cut off")


class Plan:
    """What the workers have of one metric's records.

    Args:
        share: this worker's.
        notes: of all workers, by rank.
        spool: the way through a directory, or None.
    """

    def __init__(self, share: Share, notes: Sequence[dict[str, Any]], spool: Spool | None = None) -> None:
        self.share = share
        self.spool = spool
        self.counts = [note["n"] for note in notes]
        self._blocks = [np.repeat(*np.array(note["blocks"], np.int64).reshape(-1, 2).T) for note in notes]
        self._arranged: list[Positions] | None = None
        having = next((note for note in notes if note["n"]), {"columns": None, "ids": None})
        names = having["columns"]
        #: The names of the columns, as in `Columns`; None if nobody has records.
        self.names = tuple(names) if isinstance(names, list) else names
        self.has_ids = having["ids"] is not None
        #: How many records are kept. With ids, padding is settled when all are together.
        self.total = sum(self.counts)
        if share.dealing is not None:
            self.total = share.dealing.distinct
        elif share.size is not None and not self.has_ids:
            self.total = min(self.total, share.size)

    def warn_of_guess(self) -> None:
        """Warn if what is cut off as padding is that of another sampler than Paddle's."""
        share = self.share
        if share.guessed and share.dealing is None and len(self.counts) > 1 and self.total < sum(self.counts):
            warn(
                f"{share.name}: {sum(self.counts) - self.total} of {sum(self.counts)} records are cut off as padding,"
                " the last ones when one sample is taken from each worker in turn. paddle.io.DistributedBatchSampler"
                " deals otherwise: give the metric, or the Evaluator, sampler=; or choose a collect mode"
            )

    def keep(self, rank: int) -> Any:
        """Which of a worker's records are kept.

        Args:
            rank: of the worker.

        Returns:
            How many from the front, or one flag each.
        """
        dealing = self.share.dealing
        if dealing is None:
            return sampling.kept_count(self.share.mode, self.counts, rank, self.total, self._blocks)
        return ~dealing.mask(rank)

    def positions(self, rank: int) -> Positions:
        """Where the records that a worker keeps belong.

        Args:
            rank: of the worker.
        """
        dealing = self.share.dealing
        if dealing is None:
            if self._arranged is None:
                self._arranged = sampling.arrange(self.share.mode, self.counts, self._blocks)
            return part_of(self._arranged[rank], 0, self.keep(rank))
        return dealing.kept(rank)
