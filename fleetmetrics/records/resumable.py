"""Checkpoints of records: those of a `BaseMetric`, or of an `Evaluator` and its metrics."""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import Columns
from fleetmetrics.records.ledger import Ledger
from fleetmetrics.records.recorder import Recorder
from fleetmetrics.records.share import Share
from fleetmetrics.samplers.dealing import dataset_indices
from fleetmetrics.samplers.progress import Part, Pass
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.state.state_dicts import Checkpointed, Holder, PackedHolder
from fleetmetrics.support.settings import Told
from fleetmetrics.support.vocabulary import counted

__all__ = ["PassOfRecords", "Resumable", "plain_settings"]

#: Arguments of other types, such as data sets and models, are not compared.
_PLAIN = (bool, int, float, str, tuple, list, type(None))


class PassOfRecords(Pass):
    """A pass that a pickle keeps with its sampler: it gives the places of the added records."""

    held: Sequence[Part]

    def __getstate__(self) -> dict[str, Any]:
        return {"sampler": self.sampler, "held": self.held, "resumed": self._resumed, "epoch": self.epoch}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__(state["sampler"])
        self.held, self._resumed, self._epoch = state["held"], state["resumed"], state["epoch"]


class Resumable(Checkpointed, ABC):
    """An object that keeps records, in checkpoints.

    A sampler gives the sample of each record. So a checkpoint has records by id, without padding, and a resumed run may
    deal the rest in any way: every record then has an id.
    """

    _pass: Pass  # how many samples of it this worker had got before the checkpoint; records tell of the others
    _before: list[Columns] | None = None  # each metric's records of a checkpoint, with ids

    @abstractmethod
    def _recorders(self) -> Sequence[Any]:
        """The metrics."""

    @abstractmethod
    def _given(self) -> list[Columns]:
        """The records of each metric, as columns."""

    @abstractmethod
    def _give(self, columns: list[Columns]) -> None:
        """Keep these records instead."""

    @property
    def sampler(self) -> Any:
        """The sampler that assigns the samples; setting it begins a new pass and keeps the added records."""
        return self._pass.sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self._pass.follow(sampler)

    def _begin_pass(self) -> None:
        """Note the pass in which the first record is added."""
        if self.sampler is not None:
            self._pass.begin()

    @functools.cached_property
    def _kept(self) -> HeldRecords:
        return HeldRecords(self)

    def holders(self) -> Sequence[Holder]:
        """The one holder, of all records."""
        return [self._kept]

    def _numbered(self, columns: Columns, whole: bool = True) -> Columns:
        """The records of samples that count, with ids; ``whole`` is False in the middle of a pass."""
        if not columns.batches or columns.ids:
            return columns
        if self.sampler is None:
            raise InvalidInputError(
                f"{self.name_in_errors()}: these records and those of the checkpoint have no order; pass the sampler "
                "when you save and when you load, or add with ids="
            )
        with self._pass.looked_at() as begun:
            start, count = self._pass.done, len(columns)
            due = begun.due - start
            if count > due or (whole and count < due):
                raise InvalidInputError(
                    f"{self.name_in_errors()}: {counted(count, 'records')} for {counted(due, 'samples')} that the "
                    f"sampler assigns to this worker, not counting {start} before the checkpoint; there must be "
                    "one record per sample"
                )
            flags = self._pass.take(count)
            ids = begun.dealing.dealt.indices(begun.rank)[start : start + count]
        of = dataset_indices(self.sampler)
        ids = ids if of is None else of[ids]
        numbered = Columns(columns.names, columns.batches, np.split(ids, np.cumsum(columns.blocks())[:-1]))
        return numbered if flags is None else numbered.select(flags)

    def _goes_on(self, share: Share, place: int = 0, whole: bool = True) -> Share:
        """A share with the records from before the checkpoint."""
        assert self._before is not None
        records = self._before[place].followed_by(self._numbered(share.records, whole))
        return replace(share, records=records, mode="cat", dealing=None, blocks=None, block=None)


class _Content(NamedTuple):
    """The records in a checkpoint.

    Args:
        columns: those of each metric.
        parts: the pass that dealt them, if they have ids; None: they are as they were added.
        epoch: the epoch of the pass in which they were added, if ``parts`` is None.
        ledgers: for each metric the calls, the records and whether they are nested.
    """

    columns: list[Columns]
    parts: list[Part] | None
    epoch: int | None
    ledgers: Sequence[tuple[list[Any], int, bool]]


class HeldRecords(PackedHolder):
    """The records of its owner as a holder; see `fleetmetrics.state.state_dicts`."""

    dealt = True
    name = kind = "records"

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Pack the contents."""
        owner, columns, passed = self._owner, self._owner._given(), None
        ledgers = [getattr(recorder, "_ledger", None) or Ledger() for recorder in owner._recorders()]
        odd = any(ledger.note(len(held))["calls"] for ledger, held in zip(ledgers, columns))
        by_sampler = owner.sampler is not None and not odd and not any(held.ids for held in columns)
        added = max(map(len, columns), default=0)
        if by_sampler or owner._before is not None:
            before, passed = owner._before or [Columns() for _ in columns], [None, 0]
            columns = [old.followed_by(owner._numbered(held, whole=False)) for old, held in zip(before, columns)]
        if by_sampler:
            with owner._pass.looked_at():
                owner._pass.take(added)
                part = owner._pass.parts()[-1]
            passed = [part.settings, part.done, part.rank, part.due]
        calls = [[ledger.calls, ledger.records, ledger.nested] for ledger in ledgers]
        packed = pack([[*map(Columns.plain, columns)], passed, owner._pass.epoch, calls])
        layout = np.frombuffer(json.dumps(packed.layout).encode(), np.uint8)
        return {"layout": layout, "data": np.frombuffer(b"".join(packed.buffers), np.uint8)}

    def read(self, arrays: Mapping[str, np.ndarray]) -> _Content:
        """Unpack contents."""
        fields_by_metric, passed, epoch, ledgers = unpack(json.loads(arrays["layout"].tobytes()), arrays["data"].copy())
        parts: list[Part] | None = None if passed is None else []
        if parts is not None and passed[0] is not None:
            settings, done, rank, due = passed if len(passed) == 4 else (*passed, None, passed[1])
            parts = [Part(dict(settings), rank, done, due)]
        columns = [Columns(*fields) for fields in fields_by_metric]
        return _Content(columns, parts, epoch, [(calls, records, nested) for calls, records, nested in ledgers])

    def joined(self, contents: Sequence[_Content]) -> _Content:
        """The joined records of several workers, or of none, for another number of workers."""
        done = [Columns() for _ in self._owner._given()]
        for content in contents:
            if any(columns.batches and not columns.ids for columns in content.columns):
                raise InvalidInputError(
                    f"{self._owner.name_in_errors()}: with a different number of workers, the samples of the "
                    "checkpoint's records are unknown; create the metric with sampler=, or add records with ids="
                )
            done = [one.followed_by(other) for one, other in zip(done, content.columns)]
        return _Content(done, [], None, [])

    def check(self, held: dict[Any, Any], scope: Any = None) -> None:
        """Raise `InvalidInputError` if it cannot hold this."""
        super().check(held, scope)
        if len(held[self]["content"].columns) != len(self._owner._given()):
            raise InvalidInputError(
                f"{self._owner.name_in_errors()}: the checkpoint has records of a different number of metrics"
            )

    def hold(self, content: _Content) -> None:
        """Hold saved records: as they were added or, with ids, as those from before the checkpoint."""
        owner, columns, none = self._owner, content.columns, [Columns() for _ in content.columns]
        as_added = content.parts is None
        owner._before = None if as_added else columns
        owner._pass.hold(content.parts or [], content.epoch if as_added else None)
        owner._give(columns if as_added else none)
        for metric, its in zip(owner._recorders(), content.ledgers if as_added else [([], 0, False)] * len(columns)):
            if isinstance(metric, Recorder):
                metric._ledger.calls, metric._ledger.records, metric._ledger.nested = its


def plain_settings(metric: Any) -> dict[str, Any]:
    """The plain arguments that a metric over records was made with; none for another library's metric."""
    settings = Told.settings(metric) if isinstance(metric, Told) else {}
    plain = {name: value for name, value in settings.items() if isinstance(value, _PLAIN)}
    return {"class": type(metric).__name__, **plain}
