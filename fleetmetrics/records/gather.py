"""The exchange of records, in two steps.

First the workers describe their records: a difference, or records that do not match a worker's samples, is an error on
every worker before any record is sent. Then each worker drops its own padding and sends its records in pieces; rank 0
puts them in order, computes, and answers.
"""

from __future__ import annotations

import builtins
import contextlib
import itertools
import os
import traceback
from functools import cached_property
from typing import Any, Callable, Iterator, Sequence, Tuple, cast

import numpy as np

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.communicator import Call
from fleetmetrics.comm.failures import (
    described,
    fit_cause,
    named_error,
    ranks_text,
    readable,
    readable_lines,
)
from fleetmetrics.comm.letters import read_each
from fleetmetrics.errors import AgreementError, FleetMetricsError, InvalidInputError, RecordError, SizeWarning
from fleetmetrics.records.arrangement import Positions, arrange, kept_count
from fleetmetrics.records.batches import Columns, InOrder, Kind, as_results, joint_kind, number_of, one_per_id, part_of
from fleetmetrics.records.ledger import kept_records
from fleetmetrics.records.pieces import PIECE_BYTES, Spool, pieces, read_piece
from fleetmetrics.records.recorder import States
from fleetmetrics.records.share import Share, check_notes, counts_samples, doubt_of_size, kinds_in
from fleetmetrics.samplers.repeats import Repeats, all_equal, warn_of_same_samples
from fleetmetrics.serial import Packed, pack_arrays, unpack_arrays
from fleetmetrics.serial.descriptions import Letter, joined
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.support.logs import progress
from fleetmetrics.support.traced import raise_if_traced
from fleetmetrics.support.vocabulary import agreeing, counted
from fleetmetrics.support.warning import warn

__all__ = ["gather"]

#: Sent to rank 0: the number of the share, the kind of content, and the bytes.
_Parcel = Tuple[int, str, Packed]


def gather(
    call: str, describe: Callable[[], Sequence[Share]], channel: Communicator, timeout: float | None = None
) -> list[Any]:
    """Gather the records of all workers on rank 0; return each share's value, or raise an error, on all workers."""
    raise_if_traced(f"compute of {call}")

    with channel.call(call, timeout) as begun, contextlib.ExitStack() as stack:  # the latter removes temporary files
        shares = describe()
        for place, share in enumerate(shares):
            share.check(channel.rank, channel.world_size)
            share.look_for_repeats(channel.rank, channel.world_size, look=place == 0)
        return _exchanged(begun, shares, stack)


def _exchanged(call: Call, shares: Sequence[Share], stack: contextlib.ExitStack) -> list[Any]:
    """Take the first step and, with several workers, the second; return the values of the shares."""
    channel = call.channel

    def spools(token: str) -> list[Spool | None]:
        metrics = [share.metric for share in shares]
        opened = [
            None
            if metric.collect_dir is None
            else Spool(metric.collect_dir, token, channel.rank, metric.collect_dir_shared)
            for metric in metrics
        ]
        for spool in filter(None, opened):
            stack.callback(spool.clean)
        return opened

    def decide(letters: Sequence[Letter]) -> Letter:
        notes = [letter.note for letter in letters]
        check_notes(notes)
        token = os.urandom(16).hex()
        if len(letters) > 1:
            for spool in filter(None, spools(token)):
                spool.make()
        return Letter([token, list(zip(*notes))])

    token, by_share = call.consult(decide, [share.note(call.channel.world_size > 1) for share in shares]).note
    parts = zip(shares, by_share, spools(token))
    collected = [_Collected(share, notes, channel, spool) for share, notes, spool in parts]
    if channel.world_size > 1:
        return _sent(call, collected)
    for part in collected:
        part.put_own()
    return _values(collected)


def _sent(call: Call, collected: Sequence[_Collected]) -> list[Any]:
    """Take the second step; return the values, or raise the error, from rank 0's answer."""
    allow_pickle = all(part.allow_pickle for part in collected)

    def decide(letters: Sequence[Letter]) -> Letter:
        read_each(enumerate(letters), lambda sent: _take(collected, *sent))
        if any(letter.note["more"] for letter in letters):
            return Letter({"done": False})
        try:
            packed = pack(_values(collected), allow_pickle, "the results")
        except Exception as error:
            return _error_letter(error, allow_pickle)
        return Letter({"done": True, "values": packed.layout}, packed.buffers)

    parcels, name, rank = _parcels(collected, call.channel.rank), f"{call.name}, records", call.channel.rank
    for _ in progress(itertools.count(), name, call.channel):
        note, payload, trouble = _next_letter(parcels)
        reply = call.consult(decide, note, payload, name=name, trouble=trouble)
        del payload  # before the next letter is packed
        if reply.note["done"]:
            break
    values = _outcome(reply, allow_pickle)
    if rank:  # rank 0 warned before its answer, so that a warning turned into an error reaches every worker
        _warn(collected)
    return values


def _parcels(collected: Sequence[_Collected], rank: int) -> Iterator[_Parcel]:
    """This worker's parcels for rank 0: "states", "records", or a "file" of records; rank 0 keeps its own."""
    for number, part in enumerate(collected):
        if rank == 0:
            part.put_own()
            continue
        kept, states = part.own()
        packed = pieces(kept, part.allow_pickle, [kind is not None for kind in part.kinds])
        if part.spool is not None:
            part.spool.check()
        if states is not None:
            content = pack_arrays([array for _, array in states.values()])
            names = [[key, reduction] for key, (reduction, _) in states.items()]
            yield number, "states", Packed([names, content.layout], content.buffers)
        elif part.spool is not None and len(kept) and part.share.metric.collect_dir_shared:
            yield number, "file", Packed(part.spool.write(number, packed), [])
        else:
            for piece in packed if part.spool is None else part.spool.through(number, packed):
                yield number, "records", piece


def _next_letter(parcels: Iterator[_Parcel]) -> tuple[Any, list[Any], Exception | None]:
    """A letter of bounded size, or the error from making a parcel."""
    labels, payload, size = [], [], 0
    try:
        for number, kind, packed in parcels:
            labels.append([number, kind, packed.layout, packed.nbytes])
            payload += packed.buffers
            size += packed.nbytes
            if size >= PIECE_BYTES // 2:
                return {"parcels": labels, "more": True}, payload, None
    except Exception as error:  # any error, because the other workers are waiting
        return None, [], error
    return {"parcels": labels, "more": False}, payload, None


def _take(collected: Sequence[_Collected], rank: int, letter: Letter) -> None:
    """Open a worker's letter, on rank 0."""
    data, start = memoryview(letter.payload) if letter.note["parcels"] else memoryview(b""), 0
    for number, kind, layout, size in letter.note["parcels"]:
        collected[number].put(number, rank, kind, layout, data[start : start + size])
        start += size


def _values(collected: Sequence[_Collected]) -> list[Any]:
    """Every share's answer, on rank 0."""
    _warn(collected)
    return [part.value() for part in collected]


def _warn(collected: Sequence[_Collected]) -> None:
    """Warn of every share; of repeated samples that several shares count, in one of them."""
    same = next((part for part in collected if part.same), None)
    if same is not None:
        warn_of_same_samples(same.share.name, same.workers)
    warned: set[Repeats | None] = {None}
    for part in collected:
        part.warn()
        if part.repeats not in warned:
            warned.add(part.repeats)
            part.warn_of_repeats()


class _Collected:
    """One share: this worker's part to send, and on rank 0 the parts of every worker. ``notes`` are by rank."""

    def __init__(
        self, share: Share, notes: Sequence[dict[str, Any]], channel: Communicator, spool: Spool | None
    ) -> None:
        self.share = share
        self.spool = spool
        self.allow_pickle = share.metric.allow_pickle and channel.authenticated
        self._rank = channel.rank
        self._counts = [note["n"] for note in notes]
        self._blocks = [np.repeat(*np.array(note["blocks"], np.int64).reshape(-1, 2).T) for note in notes]
        #: The calls by rank, if counts and blocks are those of samples; otherwise empty.
        self._runs: list[np.ndarray] = []
        if share.dealing is not None or counts_samples(notes):
            self._look_at_samples(notes)
        self._of_size = doubt_of_size(notes)
        #: The repeats that every worker has found.
        self.repeats = share.repeats if all(note["repeats"] for note in notes) else None
        self._own_flags: Any = None
        self._doubled = 0
        having = next((note for note in notes if note["n"]), {"columns": None, "ids": None})
        names = having["columns"]
        self._names = tuple(names) if isinstance(names, list) else names  # as in `Columns`
        self._has_ids = having["ids"] is not None
        #: Whether all of these workers have added the same records, each of which counts.
        self.workers, self.same = len(notes), not self._has_ids and all_equal([note["digest"] for note in notes])
        #: The number of kept records; with ids, before repeated ones are dropped.
        self._total = sum(self._counts)
        if share.dealing is not None:
            self._total = share.dealing.dealt.distinct
        elif share.size is not None and not self._has_ids:
            self._total = min(self._total, share.size)
        self._cut = sum(self._counts) - self._total
        self._states: list[States | None] = [None] * len(notes)
        self._taken = [0] * len(notes)
        if self._runs:
            self._settle()
        #: For each column, the kind of array that holds the records of all workers; None: a list.
        self.kinds = self._joint_kinds(notes)
        self._in_order = InOrder(self.kinds, self._total)

    def _joint_kinds(self, notes: Sequence[dict[str, Any]]) -> list[Kind | None]:
        kinds_by_rank = list(map(kinds_in, notes))
        kinds_by_rank[self._rank] = self.share.records.kinds()
        return list(map(joint_kind, zip(*filter(None, kinds_by_rank))))

    def _look_at_samples(self, notes: Sequence[dict[str, Any]]) -> None:
        odd = [self.share.uses_calls(note, rank) for rank, note in enumerate(notes)]
        if not any(odd):
            return
        runs = [note["calls"] if uses else [[note["n"], note["n"], 1]] for note, uses in zip(notes, odd)]
        self._runs = [np.array(rank_runs, np.int64) for rank_runs in runs]
        self._counts = [int(rank_runs[:, 0] @ rank_runs[:, 2]) for rank_runs in self._runs]
        for rank, (note, rank_runs) in enumerate(zip(notes, self._runs)):
            if odd[rank]:
                starts = range(0, self._counts[rank], note["block"] or 1)
                whole = np.diff([*starts, self._counts[rank]])
                self._blocks[rank] = whole if note["block"] else np.repeat(rank_runs[:, 0], rank_runs[:, 2])

    def _settle(self) -> None:
        """Find the kept records and their places, unless each sample has one record."""
        dealing, kept_by_rank = self.share.dealing, []
        for rank, (runs, count) in enumerate(zip(self._runs, self._counts)):
            keep = np.arange(count) < self._kept_count(rank) if dealing is None else ~dealing.dealt.mask(rank)
            places, kept = np.zeros(count, np.int64), self._positions[rank]
            places[keep] = np.arange(kept.start, kept.stop, kept.step) if isinstance(kept, slice) else kept
            kept_by_rank.append(kept_records(runs, keep, places))
        flags, by_rank, doubled = zip(*kept_by_rank)
        self._own_flags = flags[self._rank]
        self._doubled = sum(doubled)
        self._total = sum(map(len, by_rank))
        positions = np.empty(self._total, np.int64)
        positions[np.argsort(np.concatenate(by_rank), kind="stable")] = np.arange(self._total)
        self._positions = [*np.split(positions, np.cumsum([*map(len, by_rank)])[:-1])]

    def warn(self) -> None:
        """Warn if the size fits badly, if the cut records are those of no sampler of Paddle's, or if padding stays."""
        if self._of_size:
            warn(self._of_size, SizeWarning)
        share, cut = self.share, self._cut - self._doubled  # the doubled ones have their own warning
        if share.mode is None and share.dealing is None and len(self._counts) > 1 and cut > 0:
            warn(
                f"{share.name}: {cut} of {sum(self._counts)} {'samples' if self._runs else 'records'} "
                f"{agreeing(cut, 'are')} cut off as padding, the last when one sample is taken from each worker in "
                "turn. paddle.io.DistributedBatchSampler assigns them differently: give the metric, or the Evaluator, "
                "sampler=; or choose a collect mode"
            )
        if self._doubled:
            warn(
                f"{share.name}: {counted(self._doubled, 'samples')} may count twice: a sampler repeated samples, and "
                "some records cover repeated and other samples. Append one record per sample"
            )

    def warn_of_repeats(self) -> None:
        """Warn of repeated samples, once for each metric."""
        share = self.share
        if self.repeats is not None and share.metric.warns_of_repeats:
            share.metric.warns_of_repeats = False
            self.repeats.warn(share.name, *share.owner)

    def own(self) -> tuple[Columns, States | None]:
        """This worker's records without padding, and any states that replace them."""
        share = self.share
        keep = self._own_flags
        if keep is None:
            keep = self._kept_count(self._rank) if share.dealing is None else ~share.dealing.dealt.mask(self._rank)
        kept = share.records.select(keep)
        if not share.condenses or self._has_ids or not len(kept):  # records with ids are compared one by one
            return kept, None
        return kept, share.states(kept.joined())

    def _kept_count(self, rank: int) -> int:
        return kept_count.bare(self.share.order, self._counts, rank, self._total, self._blocks)

    @cached_property
    def _positions(self) -> list[Positions]:
        """The positions of the kept records, or samples, by rank; computed on demand."""
        dealing = self.share.dealing
        if dealing is not None:
            return [dealing.dealt.kept(rank) for rank in range(len(self._counts))]
        arranged = arrange(self.share.order, self._counts, self._blocks)
        return [part_of(positions, 0, self._kept_count(rank)) for rank, positions in enumerate(arranged)]

    # On rank 0

    def put_own(self) -> None:
        """Collect this worker's own part."""
        kept, self._states[0] = self.own()
        for row in kept.rows() if self._states[0] is None else ():
            self._add(0, list(row))

    def put(self, number: int, rank: int, kind: str, layout: Any, data: Any) -> None:
        """Collect a parcel of a worker: its states, a piece of its records, or all of them from its file."""
        if kind == "states":
            names, inner = layout
            self._states[rank] = {key: (how, array) for (key, how), array in zip(names, unpack_arrays(inner, data))}
            return
        labels, start = [(layout, len(data))], 0
        if kind == "file" and self.spool is not None:
            labels, data = layout, self.spool.read(number, rank)
        elif kind != "records":
            raise ValueError(f"a parcel of {kind!r:.40}")
        for inner, size in labels:
            self._add(rank, read_piece(inner, data[start : start + size], self.allow_pickle))
            start += size

    def _add(self, rank: int, columns: list[Any]) -> None:
        count, taken = len(columns[0]), self._taken[rank]
        due = number_of(self._positions[rank])
        if taken + count > due:
            raise ValueError(f"{taken + count} records, but there are {due}")
        self._in_order.put(columns, part_of(self._positions[rank], self._taken[rank], count))
        self._taken[rank] += count

    def value(self) -> Any:
        """The share's value."""
        share = self.share
        if any(states is not None for states in self._states):
            if any(self._taken):
                raise AgreementError(f"{share.name}: summarize returned None on some workers, and states on others")
            return share.value_from(self._states)
        results = self._results()
        states = share.states(results) if self._has_ids else None
        return share.value(results) if states is None else share.value_from([states])

    def _results(self) -> Any:
        for rank, (taken, positions) in enumerate(zip(self._taken, self._positions)):
            if taken < number_of(positions):
                raise RecordError(
                    f"{ranks_text([rank])} has sent {taken} records, where there are {number_of(positions)}"
                )
        columns = self._in_order.taken()
        if not columns:
            return []
        if self._has_ids:
            ids = columns.pop()
            columns = one_per_id(columns, ids)
            size, distinct = self.share.size, len(columns[0])
            if size not in (None, distinct):
                raise InvalidInputError(
                    f"{self.share.name}: size is {size}, but the {counted(len(ids), 'records', 'have')} "
                    f"{counted(distinct, 'distinct ids')}; "
                    "there must be one record per sample of the data set, not counting repeats"
                )
        return as_results(self._names, columns)


def _error_letter(error: Exception, allow_pickle: bool) -> Letter:
    """A letter with an error and, if possible, the form from which the other workers rebuild it."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    note = {"done": True, "error": described(error), "trace": trace}
    name = type(error).__name__
    forms: list[Any] = [] if isinstance(error, FleetMetricsError) else [error]
    if vars(builtins).get(name) is type(error):  # by name, with its arguments or its text: `args` may lack a file name
        forms = [[name, error.__reduce__()[1]], [name, (str(error),)]]
    for form in forms:
        with contextlib.suppress(Exception):  # the user's class may raise anything
            packed = pack([form], allow_pickle)
            data = joined(packed.buffers)
            if type(_made_from(packed.layout, data, allow_pickle)) is type(error):
                return Letter({**note, "form": packed.layout}, data)
    return Letter(note)


def _made_from(layout: Any, payload: Any, allow_pickle: bool) -> Exception:
    """Rebuild the error from a packed form: a name and arguments for Python's own, otherwise the error itself."""
    (form,) = unpack(layout, payload, allow_pickle)
    if not isinstance(form, list):
        return cast(Exception, form)
    kind, arguments = vars(builtins)[form[0]], form[1]
    if not issubclass(kind, Exception):
        raise RecordError(f"{form[0]!r} is no error")
    return cast(Exception, kind(*arguments))


def _fit_for_logs(error: Exception) -> Exception | None:
    """Return an error of rank 0 with a text that is fit for a log; None if that is impossible."""
    if fit_cause(error):
        return error
    text = readable(str(error))
    texts = [readable(argument) if isinstance(argument, str) else argument for argument in error.args]
    for arguments in (texts, [text], [text[: len(text) // 4]]):  # a KeyError quotes its text, which makes it longer
        with contextlib.suppress(Exception):  # the user's class may raise anything
            readable_error = type(error)(*arguments)
            if fit_cause(readable_error):
                return readable_error
    return None


def _outcome(letter: Letter, allow_pickle: bool) -> list[Any]:
    """Return the values, or raise the error, of rank 0's last letter."""
    if "values" in letter.note:
        return unpack(letter.note["values"], letter.payload, allow_pickle)
    error: Exception = named_error(*letter.note["error"])
    if "form" in letter.note:
        with contextlib.suppress(Exception):  # its class may be missing here
            error = _fit_for_logs(_made_from(letter.note["form"], letter.payload, allow_pickle)) or error
    raise error from FleetMetricsError(
        f"this was raised on {ranks_text([0])}:\n" + readable_lines(letter.note["trace"])
    )
