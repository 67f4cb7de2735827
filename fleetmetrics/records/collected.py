"""What rank 0 makes of everybody's records; and what the others send it."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Sequence

from fleetmetrics.comm.letters import Letter
from fleetmetrics.errors import AgreementError, InvalidInputError
from fleetmetrics.records.batches import Columns, as_results
from fleetmetrics.records.ids import one_per_id
from fleetmetrics.records.pieces import Part, in_order, part_of, pieces, read_piece
from fleetmetrics.records.plan import Plan
from fleetmetrics.records.states import States, checked_states, combine_states, pack_states, read_states, whole_states

__all__ = ["Collected", "Parcel"]


class Parcel(NamedTuple):
    """Something of one share on its way to rank 0.

    Args:
        share: its number.
        kind: "states", "records", or "file" for records that lie in one.
        layout: fit for JSON.
        nbytes: how many bytes.
        buffers: the bytes.
    """

    share: int
    kind: str
    layout: Any
    nbytes: int
    buffers: list[Any]


class Collected:
    """The shares of one exchange: this worker's to send, and on rank 0 everybody's.

    Args:
        plans: of every share.
        rank: of this worker.
        workers: how many there are.
    """

    def __init__(self, plans: Sequence[Plan], rank: int, workers: int) -> None:
        self._rank = rank
        self._shares = [_Collection(plan, workers) for plan in plans]

    def put_own(self) -> None:
        """Collect this worker's own, on rank 0."""
        for collection in self._shares:
            kept, states = _kept(collection.plan, 0)
            collection.put_own(kept, states)

    def parcels(self) -> Iterator[Parcel]:
        """Pack what this worker sends to rank 0, which sends itself nothing."""
        if self._rank == 0:
            self.put_own()
            return
        for number, collection in enumerate(self._shares):
            plan = collection.plan
            kept, states = _kept(plan, self._rank)
            packed = pieces(kept, plan.share.allow_pickle)
            if plan.spool is not None:
                plan.spool.check()
            if states is not None:
                layout, content = pack_states(states)
                yield Parcel(number, "states", layout, content.nbytes, content.buffers)
            elif plan.spool is None or not len(kept):
                for piece in packed:
                    yield Parcel(number, "records", piece.layout, piece.nbytes, piece.buffers)
            elif plan.share.shared:
                yield Parcel(number, "file", plan.spool.write(number, packed), 0, [])
            else:
                for piece in plan.spool.through(number, packed):
                    yield Parcel(number, "records", piece.layout, piece.nbytes, piece.buffers)

    def take(self, rank: int, letter: Letter) -> None:
        """Open a letter, on rank 0.

        Args:
            rank: whose.
            letter: with parcels.
        """
        data, start = memoryview(letter.payload) if letter.note["parcels"] else memoryview(b""), 0
        for number, kind, layout, size in letter.note["parcels"]:
            collection = self._shares[number]
            if kind == "states":
                collection.put_states(rank, layout, data[start : start + size])
            elif kind == "file":
                collection.put_file(number, rank, layout)
            else:
                collection.put(rank, layout, data[start : start + size])
            start += size

    def values(self) -> list[Any]:
        """Compute every share's answer, on rank 0."""
        for collection in self._shares:
            collection.plan.warn_of_guess()  # in here: where a warning is an error, all must hear of it
        return [collection.value() for collection in self._shares]


def _kept(plan: Plan, rank: int) -> tuple[Columns, States | None]:
    """A worker's records without padding, and the states that stand for them where a sum will do."""
    share = plan.share
    kept = share.records.select(plan.keep(rank))
    if share.summarize is None or plan.has_ids or not len(kept):  # ids must be compared one by one
        return kept, None
    states = share.summarize(kept.joined())
    return kept, None if states is None else checked_states(share.name, states)


class _Collection:
    """One share's records on rank 0."""

    def __init__(self, plan: Plan, workers: int) -> None:
        self.plan = plan
        self._states: list[States | None] = [None] * workers
        self._parts: list[Part] = []
        self._taken = [0] * workers
        self._positions: dict[int, Any] = {}

    def put_own(self, kept: Columns, states: States | None) -> None:
        if states is not None:
            self._states[0] = states
            return
        for row in kept.rows():
            self._add(0, list(row))

    def put_states(self, rank: int, layout: Any, payload: Any) -> None:
        self._states[rank] = read_states(layout, payload)

    def put_file(self, number: int, rank: int, labels: Any) -> None:
        assert self.plan.spool is not None
        data, start = self.plan.spool.read(number, rank), 0
        for layout, size in labels:
            self.put(rank, layout, data[start : start + size])
            start += size

    def put(self, rank: int, layout: Any, payload: Any) -> None:
        self._add(rank, read_piece(layout, payload, self.plan.share.allow_pickle))

    def _add(self, rank: int, columns: list[Any]) -> None:
        if rank not in self._positions:
            self._positions[rank] = self.plan.positions(rank)
        count = len(columns[0])
        self._parts.append(Part(columns, part_of(self._positions[rank], self._taken[rank], count)))
        self._taken[rank] += count

    def value(self) -> Any:
        share = self.plan.share
        if any(states is not None for states in self._states):
            if self._parts:
                raise AgreementError(f"{share.name}: summarize returned None on some workers, and states on others.")
            return share.compute_from(combine_states(share.name, self._states))  # type: ignore[misc]
        results = self._results()
        if share.summarize is not None and self.plan.has_ids:
            states = share.summarize(results)
            if states is not None:
                return share.compute_from(whole_states(share.name, states))  # type: ignore[misc]
        return share.compute(results)

    def _results(self) -> Any:
        plan = self.plan
        if not self._parts:
            return []
        columns = in_order(self._parts, plan.total)
        self._parts.clear()
        if plan.has_ids:
            ids = columns.pop()
            columns = one_per_id(columns, ids)
            _check_ids(plan, len(columns[0]), len(ids))
        return as_results(plan.names, columns)


def _check_ids(plan: Plan, distinct: int, records: int) -> None:
    size = plan.share.size
    if size is not None and size != distinct:
        raise InvalidInputError(
            f"{plan.share.name}: size is {size}, but the {records} records have {distinct} different ids; records must"
            " be one to one with the samples of the data set, repeated samples apart"
        )
