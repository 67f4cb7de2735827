"""Folding the records of all workers in the order of a column, never all in one place.

Every worker sorts its own. From a sketch of each, rank 0 cuts the range of the column into pieces of similar size.
The workers send the records of one piece after the other, and rank 0 folds each into a few numbers per metric. A piece
holds all records of its range, so the records of a query, or tied ones, arrive together. A worker needs memory for its
own records, rank 0 for a piece as well.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.columns import by_rank
from fleetmetrics.comm.letters import Letter, joined
from fleetmetrics.errors import AgreementError
from fleetmetrics.records.table import Records, Table, joined_records
from fleetmetrics.serial import pack_arrays, unpack_arrays
from fleetmetrics.serial.serializer import pack, unpack

__all__ = ["fold_in_order"]

#: About how many bytes of records, over all workers, are folded at a time.
ROUND_BYTES = 16 << 20
#: The most values of the column in a worker's sketch.
SKETCH = 4096


def fold_in_order(
    call: str,
    channel: Communicator,
    tables: Mapping[Table, Sequence[Any]],
    states: Mapping[Any, np.ndarray],
    deadline: Deadline,
) -> dict[Any, Any]:
    """Let the metrics of each table fold the records of all workers; returns their carries, the same on every worker.

    Args:
        call: what is computed, the same on every worker; errors quote it.
        channel: the workers' communicator.
        tables: the `fleetmetrics.record_metric.RecordMetric`s that use each.
        states: the global states.
        deadline: when to give up; every worker then raises the same error.
    """
    carries: dict[Any, Any] = {}
    for table, metrics in tables.items():
        known = [{name: states[state] for name, state in metric.states.items()} for metric in metrics]
        folds = _Folds(table, metrics, known)
        if channel.world_size == 1:
            records = table.prepared()
            if records:
                folds.take(records)
        else:
            folds.carries = _fold_together(f"{call}, records", channel, table, folds, deadline)
        carries.update(zip(metrics, folds.carries))
    return carries


class _Folds:
    """The carries of a table's metrics so far."""

    def __init__(self, table: Table, metrics: Sequence[Any], states: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.table, self.metrics, self.states = table, metrics, states
        self.carries = [metric.start() for metric in metrics]

    def take(self, records: Records) -> None:
        self.carries = [
            metric.fold(carry, records, states)
            for metric, carry, states in zip(self.metrics, self.carries, self.states)
        ]


def _fold_together(call: str, channel: Communicator, table: Table, folds: _Folds, deadline: Deadline) -> Any:
    records = Records({})
    trouble: Exception | None = None
    note, sketch = None, pack_arrays([])
    try:
        records = table.prepared()
        note, sketch = _described(table, records)
    except Exception as error:  # of any kind: the others are waiting
        trouble = error

    def plan(letters: Sequence[Letter]) -> Letter:
        _check_kinds(table, [letter.note for letter in letters])
        cuts = pack_arrays([_cuts(letters)])
        return Letter(cuts.layout, cuts.buffers)

    told = channel.consult(call, plan, note, sketch.buffers, timeout=_left(deadline), trouble=trouble)
    (cuts,) = unpack_arrays(told.note, told.payload)
    column = records.get(table.order) if table.order else None
    start, last = 0, len(cuts)
    for number in range(last + 1):
        final = number == last
        end = records.length if column is None or final else int(np.searchsorted(column, cuts[number], "right"))
        answer = _round(call, channel, table, folds, records.taken(slice(start, end)), final, deadline)
        start = end
    return unpack(answer.note, answer.payload, allow_pickle=False)[0]


def _round(
    call: str, channel: Communicator, table: Table, folds: _Folds, mine: Records, last: bool, deadline: Deadline
) -> Letter:
    """Send the records of one piece; rank 0 folds it, and answers after the last one."""

    def decide(letters: Sequence[Letter]) -> Letter:
        parts = [_read(letter) for letter in letters if letter.note]
        if parts:
            folds.take(parts[0] if len(parts) == 1 else table.sorted(joined_records(table.name, parts)))
        if not last:
            return Letter(None)
        made = pack([folds.carries], allow_pickle=False)
        return Letter(made.layout, made.buffers)

    note: Any = None
    buffers: Any = b""
    if mine.length:
        given = [name for name in mine if mine[name] is not None]
        packed = pack_arrays([mine[name] for name in given])
        note, buffers = [given, list(mine), packed.layout], packed.buffers
    return channel.consult(call, decide, note, buffers, timeout=_left(deadline))


def _read(letter: Letter) -> Records:
    given, names, layout = letter.note
    columns = dict(zip(given, unpack_arrays(layout, joined(letter.payload))))
    return Records({name: columns.get(name) for name in names})


def _described(table: Table, records: Records) -> tuple[Any, Any]:
    """What rank 0 must know about a worker's records, and a sketch of the column that orders them."""
    kinds = {
        name: "texts" if column is not None and column.dtype.kind in "SU" else "numbers"
        for name, column in records.items()
    }
    length = records.length
    row = sum(column.itemsize for column in records.values() if column is not None)
    if table.order is None or not length:
        return [kinds, length, row, 1, None], pack_arrays([])
    column = records[table.order]
    step = -(-length // SKETCH)
    packed = pack_arrays([column[step - 1 :: step]])
    return [kinds, length, row, step, packed.layout], packed


def _check_kinds(table: Table, notes: Sequence[Any]) -> None:
    here = [note[0] for note in notes if note[1]]
    if any(kinds != here[0] for kinds in here):
        texts = [", ".join(f"{name}: {kind}" for name, kind in note[0].items()) or "no records" for note in notes]
        raise AgreementError(f"{table.name}: the workers' records differ: {by_rank(texts)}.")


def _cuts(letters: Sequence[Letter]) -> np.ndarray:
    """Values of the column that cut the records into pieces of similar size; the last piece is open-ended."""
    sketches, counts = [], []
    for letter in letters:
        _, _, row, step, layout = letter.note
        if layout is not None:
            (values,) = unpack_arrays(layout, joined(letter.payload))
            sketches.append(values)
            counts.append(np.full(len(values), step * row))
    if not sketches:
        return np.empty(0)
    values = np.concatenate(sketches)
    place = np.argsort(values, kind="stable")
    before = np.cumsum(np.concatenate(counts)[place])
    chosen = np.flatnonzero(np.diff(before // ROUND_BYTES, prepend=0))
    return np.unique(values[place][chosen])


def _left(deadline: Deadline) -> float:
    return max(deadline.remaining, 1e-3)  # positive, so that every worker gets the error
