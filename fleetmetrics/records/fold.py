"""Fold the records of all workers in the order of a column, without collecting them all in one place.

Every worker sorts its own. From a sketch of each, rank 0 cuts the range of the column into pieces of similar size. A
piece holds all records of its range, so the records of a query, or tied ones, arrive together.

Over a channel that shuffles, each of n workers folds every n-th piece, and only the results go to rank 0. Otherwise the
workers send the records of one piece after the other to rank 0, which folds each. The pieces are the same, and rank 0
joins the results in the order of the pieces, so both ways give the same bits. A worker that folds needs memory for a
piece in addition to its own records.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.comm.communicator import Call
from fleetmetrics.comm.failures import Caught, by_rank
from fleetmetrics.errors import AgreementError
from fleetmetrics.records.folding import Carry, Folding, Folds
from fleetmetrics.records.table import Closed, Records, Table, joined_records
from fleetmetrics.samplers.repeats import all_equal, digest_of
from fleetmetrics.serial.descriptions import Letter
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.support.logs import progress

__all__ = ["fold_in_order"]

#: The most bytes of records, over all workers, to fold at a time; every worker gets the same number of pieces.
ROUND_BYTES = 16 << 20
#: Smaller pieces are not worth the exchange.
_LEAST = 1 / 16
#: The most values of the column in a worker's sketch.
SKETCH = 4096


def fold_in_order(
    call: Call, tables: Sequence[Folds], states: Mapping[Any, np.ndarray]
) -> tuple[dict[Folding, Any], bool]:
    """Let the metrics of each table fold the records of all workers, in a call.

    Returns:
        Their carries, and whether all workers have added the same samples; the same on every worker.
    """
    carries: dict[Folding, Any] = {}
    same = False
    for folds in tables:
        under_way, closed = _UnderWay(folds, folds.known(states)), folds.table.closed
        carried: Sequence[Any] = under_way.carries
        if call.channel.world_size > 1:
            folded, alike = _fold_together(call, under_way)
            same = same or alike
            closed, carried = (folded, ()) if isinstance(folded, Closed) else (None, folded)
        elif closed is None:
            records = Records(folds.table.records())  # temporary, so its cached values are freed, too
            carried = under_way.alone(records) if records else carried
        carries.update(zip(folds.metrics, carried if closed is None else folds.opened(closed, under_way.states)))
    return carries, same


class _UnderWay:
    """A table's metrics, and their carries so far."""

    def __init__(self, folds: Folds, states: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.folds, self.table, self.metrics, self.states = folds, folds.table, folds.metrics, states
        self.carries: list[Carry] = [metric.start() for metric in folds.metrics]

    def alone(self, records: Records) -> list[Carry]:
        return [metric.alone(records, states) for metric, states in zip(self.metrics, self.states)]

    def ahead(self, records: Records) -> list[Carry | None]:
        return [metric.ahead(records, states) for metric, states in zip(self.metrics, self.states)]

    def piece(self, before: Sequence[Carry], records: Records) -> list[Carry]:
        every = zip(self.metrics, before, self.states)
        return [metric.piece(carry, records, states) for metric, carry, states in every]

    def fold(self, records: Records) -> None:
        every = zip(self.metrics, self.carries, self.states)
        self.carries = [metric.fold(carry, records, states) for metric, carry, states in every]

    def join(self, later: Sequence[Carry | None]) -> None:
        self.carries = [
            carry if more is None else metric.join(carry, more)
            for metric, carry, more in zip(self.metrics, self.carries, later)
        ]


def _fold_together(call: Call, folds: _UnderWay) -> tuple[list[Any] | Closed, bool]:
    channel, table, name = call.channel, folds.table, _named(call)
    records, letter = Records({}), Letter(None)
    with Caught() as caught:
        records = table.prepared()
        letter = Letter(*pack(_described(table, records)))

    def plan(letters: Sequence[Letter]) -> Letter:
        answers = [unpack(*letter) for letter in letters]
        closed = [Closed(*fields) for kind, *fields in answers if kind == "closed"]
        if closed and any(kind == "open" for kind, *_ in answers):
            kinds = by_rank(kind for kind, *_ in answers)
            raise AgreementError(
                f"{table.name}: the workers differ; close the metric on all of them or on none: {kinds}"
            )
        if closed:
            return Letter(*pack(["closed", *folds.folds.join_closed(closed)]))
        _check_kinds(table, answers)
        return Letter(*pack(["cuts", _cuts(answers), all_equal([digest for *_, digest in answers])]))

    kind, *parts = unpack(*call.consult(plan, *letter, name=name, trouble=caught.error))
    if kind == "closed":
        return Closed(*parts), False
    cuts, same = parts
    column = records[table.order] if records.length and table.order else cuts[:0]
    edges = [0, *np.searchsorted(column, cuts, "right").tolist(), records.length]
    mine = [records.taken(slice(*edge_pair)) for edge_pair in zip(edges, edges[1:])]
    if channel.spreads and all(metric.spreads for metric in folds.metrics):
        return _fold_spread(call, folds, mine), same
    for number, piece in enumerate(progress(mine, name, channel, len(mine))):
        answer = _round(call, folds, piece, number == len(mine) - 1)
    return unpack(*answer), same


def _round(call: Call, folds: _UnderWay, mine: Records, last: bool) -> Letter:
    """Send the records of one piece; rank 0 folds it, and answers after the last one."""

    def decide(letters: Sequence[Letter]) -> Letter:
        piece = _together(folds.table, letters)
        if piece.length:
            folds.fold(piece)
        return Letter(*pack(folds.carries)) if last else Letter(None)

    return call.consult(decide, *_written(mine), name=_named(call))


def _fold_spread(call: Call, folds: _UnderWay, mine: Sequence[Records]) -> list[Any]:
    """Each worker folds every n-th piece, of n workers; rank 0 joins the results in the order of the pieces."""
    rank, size, name = call.channel.rank, call.channel.world_size, _named(call)
    before = _UnderWay(folds.folds, folds.states)  # used on rank 0 only
    carries: list[Any] = []
    caught = Caught()

    def look_ahead(letters: Sequence[Letter]) -> Letter:
        known = []
        for letter in letters:  # the pieces of a round are in the order of the ranks
            known.append(before.carries)
            before.join(unpack(*letter))
        return Letter(*pack(known))

    def finish(letters: Sequence[Letter]) -> Letter:
        by_worker = [unpack(*letter) for letter in letters]
        for number in range(len(mine)):
            folds.join(by_worker[number % size][number // size])
        return Letter(*pack(folds.carries))

    for start in progress(range(0, len(mine), size), name, call.channel, -(-len(mine) // size)):
        pieces = [_written(piece) for piece in mine[start : start + size]]
        pieces += [Letter(None)] * (size - len(pieces))
        letters = call.shuffle(pieces, name=name, trouble=caught.error)
        piece, letter = Records({}), Letter(None)
        nothing = [None] * len(folds.metrics)
        with caught:
            piece = _together(folds.table, letters)
            letter = Letter(*pack(folds.ahead(piece) if piece.length else nothing))
        answer = call.consult(look_ahead, *letter, name=name, trouble=caught.error)
        with caught:
            carries.append(folds.piece(unpack(*answer)[rank], piece) if piece.length else nothing)
    letter = Letter(None)
    with caught:
        letter = Letter(*pack(carries))
    return unpack(*call.consult(finish, *letter, name=name, trouble=caught.error))


def _named(call: Call) -> str:
    """The name of the exchanges of records."""
    return f"{call.name}, records"


def _written(records: Records) -> Letter:
    if not records.length:
        return Letter(None)
    return Letter(*pack([dict(records)]))


def _together(table: Table, letters: Sequence[Letter]) -> Records:
    """The records of one piece, from the letters of the workers."""
    parts = [Records(*unpack(*letter)) for letter in letters if letter.note]
    if len(parts) < 2:
        return parts[0] if parts else Records({})
    return table.sorted(joined_records(table.name, parts))


def _described(table: Table, records: Records) -> list[Any]:
    """A worker's records in words for rank 0, with a sketch of the column that orders them; or its closed parts."""
    if table.closed is not None:
        return ["closed", *table.closed]
    kinds = {
        name: "strings" if column is not None and column.dtype.kind in "SU" else "numbers"
        for name, column in records.items()
    }
    if not records.length:
        return ["empty", kinds, 0, None, 0]
    step = -(-records.length // SKETCH)
    row = sum(column.itemsize for column in records.values() if column is not None)
    sketch = None if table.order is None else records[table.order][step - 1 :: step]
    return ["open", kinds, step * row, sketch, digest_of(records.values(), records.length)]


def _check_kinds(table: Table, answers: Sequence[Any]) -> None:
    here = [kinds for kind, kinds, *_ in answers if kind == "open"]
    if any(kinds != here[0] for kinds in here):
        texts = [", ".join(f"{name}: {kind}" for name, kind in answer[1].items()) or "no records" for answer in answers]
        raise AgreementError(f"{table.name}: the workers' records differ: {by_rank(texts)}")


def _cuts(answers: Sequence[Any]) -> np.ndarray:
    """Values of the column that cut the records into pieces of similar size; the last piece is open-ended."""
    sketches = [(sketch, np.full(len(sketch), size)) for _, _, size, sketch, _ in answers if sketch is not None]
    if not sketches:
        return np.empty(0)
    values, sizes = map(np.concatenate, zip(*sketches))
    place = np.argsort(values, kind="stable")
    before = np.cumsum(sizes[place])
    total, workers = int(before[-1]), len(answers)
    pieces = min(workers * -(-total // (workers * ROUND_BYTES)), max(1, int(total / (_LEAST * ROUND_BYTES))))
    begins = np.diff(before * pieces // total, prepend=0) > 0
    chosen = np.flatnonzero(begins & (before < total))
    return np.unique(values[place][chosen])
