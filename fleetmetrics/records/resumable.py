"""Checkpoints of what keeps records: a `BaseMetric`, or an `Evaluator` with those of its metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import Columns
from fleetmetrics.records.ledger import Ledger
from fleetmetrics.records.recorder import Recorder
from fleetmetrics.records.share import Share
from fleetmetrics.sampling import Dealing, dataset_indices, epoch_under_way
from fleetmetrics.serial import misfits_named
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.settings import Told
from fleetmetrics.state_dicts import Checkpointed, Holder

__all__ = ["Resumable", "plain_settings"]

#: Arguments of other types, such as data sets and models, are not compared.
_PLAIN = (bool, int, float, str, tuple, list, type(None))


class Resumable(Checkpointed):
    """What keeps records, in checkpoints.

    A sampler tells which sample each record is of. So a checkpoint has records by id, without padding, and whoever goes
    on from it may deal the rest in any way: all that is exchanged then has ids.
    """

    sampler: Any
    _epoch: int | None  # the sampler's at the first batch
    _before: list[Columns] | None = None  # those of a checkpoint, with ids, for each metric
    _passed: Any = None  # the pass that they were dealt in, and how many samples of it this worker had got

    # What derives from it says:
    _recorders: Any  # the metrics
    _given: Any  # the records of each, as columns
    _give: Any  # keeps such records instead

    def _dealing(self) -> Dealing | None:
        """The pass of the sampler that is under way."""
        if self.sampler is None:
            return None
        return Dealing(self.sampler, epoch_under_way(self.sampler) if self._epoch is None else self._epoch)

    def _done(self, dealing: Dealing) -> int:
        """How many samples of the pass this worker had got before the checkpoint."""
        return self._passed[1] if self._passed and self._passed[0] == dealing.settings else 0

    def _holders(self) -> Sequence[Holder]:
        return [vars(self).setdefault("_kept", Kept(self))]

    def _numbered(self, columns: Columns, whole: bool = True) -> Columns:
        """The records of samples that count, with ids; ``whole`` is False in the middle of a pass."""
        dealing = self._dealing()
        if not columns.batches or columns.ids:
            return columns
        if dealing is None:
            raise InvalidInputError(
                f"{self._called()}: these records and those of the checkpoint have no order; give the sampler, then and"
                " now, or add with ids="
            )
        rank = dealing.rank(None)
        start = self._done(dealing)
        ids, keep = dealing.dealt.indices(rank)[start:], ~dealing.dealt.mask(rank)[start:]
        count = len(columns)
        if count > len(ids) or (whole and count < len(ids)):
            raise InvalidInputError(
                f"{self._called()}: {count} records for {len(ids)} samples that the sampler deals to this worker, "
                f"{start} before the checkpoint not counted; records must be one to one with samples"
            )
        of = dataset_indices(self.sampler)
        ids = ids[:count] if of is None else of[ids[:count]]
        numbered = Columns(columns.names, columns.batches, np.split(ids, np.cumsum(columns.blocks())[:-1]))
        return numbered.select(keep[:count])

    def _goes_on(self, share: Share, place: int = 0, whole: bool = True) -> Share:
        """A share with what was done before the checkpoint."""
        assert self._before is not None
        records = self._before[place].followed_by(self._numbered(share.records, whole))
        return replace(share, records=records, mode="cat", dealing=None, blocks=None, block=None)


class Kept:
    """The records of its owner as a holder; see `fleetmetrics.state_dicts`."""

    dealt = True
    name = kind = "records"

    def __init__(self, owner: Resumable) -> None:
        self._owner = owner

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """What it holds, packed."""
        owner, given, passed = self._owner, self._owner._given(), None
        dealing, ledgers = owner._dealing(), [getattr(each, "_ledger", None) or Ledger() for each in owner._recorders()]
        odd = any(ledger.note(len(each))["calls"] for ledger, each in zip(ledgers, given))
        if dealing is not None and not odd and not any(each.ids for each in given):
            passed = [dealing.settings, owner._done(dealing) + max(map(len, given), default=0)]
        if passed or owner._before is not None:
            passed, before = passed or [None, 0], owner._before or [Columns() for _ in given]
            given = [old.followed_by(owner._numbered(each, whole=False)) for old, each in zip(before, given)]
        calls = [[ledger.calls, ledger.records, ledger.nested] for ledger in ledgers]
        packed = pack([[*map(Columns.plain, given)], passed, owner._epoch, calls])
        layout = np.frombuffer(json.dumps(packed.layout).encode(), np.uint8)
        return {"layout": layout, "data": np.frombuffer(b"".join(packed.buffers), np.uint8)}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
        """What several workers had, or none, for another number of workers."""
        done = [Columns() for _ in self._owner._given()]
        for part in parts:
            given = _unpacked(part[self])[0]
            if any(each.batches and not each.ids for each in given):
                raise InvalidInputError(
                    f"{self._owner._called()}: on another number of workers nobody knows which samples the records of"
                    " the checkpoint are of; make it with sampler=, or add records with ids="
                )
            done = [one.followed_by(other) for one, other in zip(done, given)]
        return {"content": [done, [None, 0], None, []]}

    def check(self, held: dict[Any, Any], scope: Any = None) -> None:
        """Raise `InvalidInputError` if this was not saved."""
        held[self] = {"content": held[self].get("content") or _unpacked(held[self])}
        if len(held[self]["content"][0]) != len(self._owner._given()):
            raise InvalidInputError(f"{self._owner._called()}: the checkpoint has records of another number of metrics")

    def load(self, held: Mapping[str, Any], scope: Any = None) -> None:
        """Hold what was saved."""
        owner = self._owner
        given, passed, epoch, calls = held["content"]
        owner._before, owner._passed, owner._epoch = (None, None, epoch) if passed is None else (given, passed, None)
        owner._give(given if passed is None else [Columns() for _ in given])
        for metric, its in zip(owner._recorders(), calls if passed is None else [([], 0, False)] * len(given)):
            if isinstance(metric, Recorder):
                metric._ledger.calls, metric._ledger.records, metric._ledger.nested = its


def _unpacked(held: Mapping[str, np.ndarray]) -> Any:
    with misfits_named():
        given, passed, epoch, calls = unpack(json.loads(held["layout"].tobytes()), held["data"].copy())
        return [[Columns(*each) for each in given], passed, epoch, [[calls, held, odd] for calls, held, odd in calls]]


def plain_settings(metric: Any) -> dict[str, Any]:
    """The arguments that a metric over records was made with, as far as they are plain; none of another library's."""
    told = Told.settings(metric) if isinstance(metric, Told) else {}
    plain = {name: value for name, value in told.items() if isinstance(value, _PLAIN)}
    return {"class": type(metric).__name__, **plain}
