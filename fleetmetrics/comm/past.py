"""What is over, and is kept for workers that come later: errors, results, and splits between the two."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from fleetmetrics.comm.failures import in_words
from fleetmetrics.comm.message import Place
from fleetmetrics.errors import AgreementError

__all__ = ["KEPT", "Ended", "Latest", "Past", "Split"]

#: How much of each kind is kept.
KEPT = 1024
#: The number of splits that are kept once all workers know them: a worker may not have waited for that error.
_KEPT_KNOWN = 8
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Latest(dict[_Key, _Value]):
    """A dict that drops its oldest key when it has more than `KEPT`."""

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        if len(self) > KEPT:
            del self[next(iter(self))]


class Ended(NamedTuple):
    """An exchange that ended with a result."""

    place: Place
    label: str
    ranks: tuple[int, ...]


class Split:
    """An exchange that ended with a result on some workers, and with an error on others."""

    announced_at: Place
    label: str
    unaware: set[int]
    with_result: set[int]

    def __init__(self, ended: Ended) -> None:
        self.label = ended.label
        self.with_result = set(ended.ranks)
        self.with_error: set[int] = set()
        self.unaware = set(ended.ranks)
        self.announced_at = ended.place  # the exchange whose error has told of it

    @property
    def text(self) -> str:
        """The error that tells all."""
        return (
            f"the workers diverged at {self.label}: it ended with a result on {in_words(self.with_result)}, and with "
            f"an error on {in_words(self.with_error)}. Compute it again on all workers; they are in step again"
        )


class Past:
    """What rank 0 remembers of calls and channels that are over."""

    def __init__(self) -> None:
        self.failed: Latest[tuple[int, int], bytes] = Latest()  # by channel and call: the error
        self.ended: Latest[Place, Ended] = Latest()
        self.splits: dict[Place, Split] = {}
        self.closed: Latest[int, set[int]] = Latest()  # by channel: the ranks that have closed it

    def fail(self, call: tuple[int, int], header: bytes) -> None:
        """A call has ended with an error; its first one counts."""
        if call not in self.failed:
            self.failed[call] = header

    def leave(self, place: Place, rank: int, with_error: set[int]) -> None:
        """A worker has ended a call with an error, like others; the last exchange may have had a result elsewhere."""
        ended = self.ended.get(place)
        if ended is not None and rank in ended.ranks:
            split = self.splits.setdefault(place, Split(ended))
            split.with_error.add(rank)
            split.with_result -= with_error
        for split in self.splits.values():
            if split.announced_at[:2] == place[:2]:  # it has not waited for that error
                split.unaware.add(rank)

    def learn(self, rank: int, call: tuple[int, int]) -> None:
        """A worker hears that a call has failed on others: no split for it."""
        for place, split in self.splits.items():
            if place[:2] == call:
                split.with_result.discard(rank)

    def announce_split(self, place: Place, ranks: tuple[int, ...]) -> None:
        """Raise at this exchange if some of its workers do not know an earlier split yet."""
        for split_place, split in list(self.splits.items()):
            if not split.with_result or len(self.splits) > (KEPT if split.unaware else _KEPT_KNOWN):
                del self.splits[split_place]
            elif split.unaware.intersection(ranks):
                split.unaware.difference_update(ranks)
                split.announced_at = place
                raise AgreementError(split.text)

    def close(self, channel: int, rank: int, world_size: int) -> None:
        """A worker has closed a channel; once all have, it is forgotten: they may open it again."""
        ranks = self.closed.get(channel)
        if ranks is None:
            ranks = self.closed[channel] = set()
        ranks.add(rank)
        if len(ranks) == world_size:
            del self.closed[channel]
            for call in [call for call in self.failed if call[0] == channel]:
                del self.failed[call]
            for kept in (self.ended, self.splits):
                for place in [place for place in kept if place[0] == channel]:
                    del kept[place]
