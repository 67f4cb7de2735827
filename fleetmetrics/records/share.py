"""One metric's share in the exchange of records: its records, or states condensed from them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Mapping, Sequence

from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.letters import read_each
from fleetmetrics.comm.states import check_settings
from fleetmetrics.errors import AgreementError, InvalidInputError, RecordError, UnknownNameError
from fleetmetrics.records.arrangement import MODES
from fleetmetrics.records.batches import Columns, Kind
from fleetmetrics.records.recorder import Recorder, States, checked_states, combine_states
from fleetmetrics.samplers.dealing import Dealing
from fleetmetrics.samplers.repeats import Repeats, digest_of, repeats_of
from fleetmetrics.serial import described_array, is_plain
from fleetmetrics.support.checks import is_whole
from fleetmetrics.support.vocabulary import agreeing, counted
from fleetmetrics.support.warning import warn

__all__ = ["Share", "check_mode", "check_notes", "counts_samples", "doubt_of_size", "kinds_in"]

_COLLECT_MODES = (*MODES, "auto")
#: The attributes that must be equal on every worker.
_SAME = ("name", "mode", "size", "sampler", "collect_dir", "allow_pickle")
#: The attributes that must be equal on every worker with records.
_SAME_IF_ANY = ("columns", "ids")


@dataclass
class Share:
    """One metric's share in the exchange."""

    metric: Recorder  #: computes the value, on rank 0
    name: str  #: for errors
    records: Columns  #: this worker's records
    size: int | None  #: the number of samples in the data set; any further ones are padding
    mode: str | None  #: how the workers' records are put in order: "unzip", "cat" or "batch"; None: not chosen
    dealing: Dealing | None = None  #: how a sampler dealt the samples, which settles padding and order
    blocks: Sequence[int] | None = None  #: the lengths of the batches of this worker's records, for "batch"
    block: int | None = None  #: the length of a batch of samples, for "batch"; None: each call brought one
    repeats: Repeats | None = None  #: a sampler of this process that repeated samples, without being told of
    owner: tuple[str, str] = ("Evaluator", "evaluate(size={})")  #: what to give the sampler, and the call with a size

    def __post_init__(self) -> None:
        size = self.size
        if size is not None and not (is_whole(size) and size >= 0):
            raise InvalidInputError(
                f"size is {size!r}; it must be None, or the number of samples of the whole data set"
            )
        self.size = None if size is None else int(size)
        self._unfit: RecordError | None = None
        if not self.metric.allow_pickle and not self.condenses:
            try:
                self.records = self.records.portable()
            except RecordError as error:
                self._unfit = error

    @property
    def order(self) -> str:
        """The mode; by default that of MMEval and MMEngine."""
        return self.mode or "unzip"

    def look_for_repeats(self, rank: int, workers: int, look: bool) -> None:
        """Look for a sampler that repeats samples, if neither a sampler, a size nor ids leave them out."""
        if self.dealing is None and self.size is None and not self.records.ids and workers > 1:
            held = len(self.records)
            added = self.metric._ledger.note(held)["samples"]
            self.repeats = repeats_of(held if added is None else added, rank, workers, look)

    def check(self, rank: int, workers: int) -> None:
        """Raise `InvalidInputError` unless the sampler dealt this worker one sample per record.

        Alone, warn of a record that could not be sent: it would be an error with several workers.
        """
        if workers == 1 and self._unfit is not None:
            warn(f"{self.name}: {self._unfit}. One worker keeps it; with several, this is a RecordError")
        if self.dealing is None:
            return
        try:
            self.dealing.check(rank, workers)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.name}: {error}") from None
        dealt = self.dealing.dealt
        held, due, distinct = len(self.records), dealt.count(rank), dealt.distinct
        if held != due and not self.uses_calls(self.metric._ledger.note(held), rank):
            raise InvalidInputError(
                f"{self.name}: {counted(held, 'records')} for the {counted(due, 'samples')} that the sampler assigns "
                "to this worker in a pass; there must be one record per sample: add every sample of a "
                "pass once, and reset before the next"
            )
        if self.size not in (None, distinct):
            raise InvalidInputError(
                f"{self.name}: size is {self.size}, but the sampler assigns {distinct} distinct samples; leave out "
                "size, because the sampler determines it"
            )

    def note(self, several: bool) -> dict[str, Any]:
        """The note for the other workers, fit for JSON; without the settings unless there are ``several`` workers."""
        records, metric = self.records, self.metric
        blocks = [[size, len(list(run))] for size, run in groupby(self.blocks or ())] if self.mode == "batch" else []
        return {
            "name": self.name,
            "mode": self.order,
            "size": self.size,
            "sampler": None if self.dealing is None else self.dealing.settings,
            "collect_dir": metric.collect_dir and ("shared" if metric.collect_dir_shared else "not shared"),
            "n": len(records),
            "digest": self._digest(),
            **metric._ledger.note(len(records)),
            "block": self.block and int(self.block),
            "blocks": blocks,
            "columns": records.names,
            "kinds": [kind and [kind.dtype.str, list(kind.shape)] for kind in map(_plain, records.kinds())],
            "ids": any(len(ids) and ids.dtype.kind in "SU" for ids in records.ids) if records.ids else None,
            "allow_pickle": metric.allow_pickle,
            "settings": metric._terms() if several else "",
            "repeats": self.repeats is not None,
        }

    def _digest(self) -> int:
        """`digest_of` the records."""
        batches = self.records.batches
        some = batches if len(batches) < 4 else [batches[0], batches[len(batches) // 2], batches[-1]]
        return digest_of((column for batch in some for column in batch), len(self.records))

    def uses_calls(self, note: Mapping[str, Any], rank: int) -> bool:
        """Whether a worker's calls took all of its samples, but did not add one record for each."""
        return bool(note["calls"]) and (self.dealing is None or note["samples"] == self.dealing.dealt.count(rank))

    def states(self, results: Any) -> States | None:
        """The records condensed to states, if the metric can."""
        summary = self.metric.summarize(results) if self.condenses else None
        return None if summary is None else checked_states(self.name, summary)

    @property
    def condenses(self) -> bool:
        """Whether the metric computes from states, and no subclass of the definition computes from records."""
        own = self.metric._own_methods()
        if "summarize" not in own or "compute_from" not in own:
            return False
        return own["summarize"] <= own.get(self.metric._computed_by, math.inf)

    def value(self, results: Any) -> Any:
        """The value, from the records of all workers."""
        return self.metric._finished(self.metric._value_of(results))

    def value_from(self, states: Sequence[States | None]) -> Any:
        """The value, from the states of each worker; None for one without records."""
        return self.metric._finished(self.metric.compute_from(combine_states(self.name, states)))


def kinds_in(note: Mapping[str, Any]) -> list[Kind | None]:
    """The kinds of a worker's columns; ValueError or TypeError if the note is malformed."""
    columns = note["columns"]
    number = 1
    if isinstance(columns, (list, tuple)):
        number = len(columns)
    elif isinstance(columns, int):
        number = columns
    wanted = 0
    if note["n"]:
        wanted = number if note["ids"] is None else number + 1
    if len(note["kinds"]) != wanted:
        raise ValueError(f"{len(note['kinds'])} kinds of {number} columns")
    return [kind and Kind(described_array(*kind)[0], tuple(kind[1])) for kind in note["kinds"]]


def _plain(kind: Kind | None) -> Kind | None:
    return kind if kind is not None and is_plain(kind.dtype) else None  # other records are rejected there


def check_notes(notes: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Raise unless the workers' shares match, with enough records; the notes are by rank and share."""
    read_each(notes, lambda rank_notes: list(map(kinds_in, rank_notes)))
    names = [", ".join(note["name"] for note in rank_notes) for rank_notes in notes]
    if len(set(names)) > 1:
        raise AgreementError(f"the workers compute different metrics: {by_rank(names)}")
    for same in zip(*notes):
        for key in (*_SAME, *_SAME_IF_ANY):
            here = [note for note in same if key in _SAME or note["n"]]
            if len({json.dumps(note[key]) for note in here}) > 1:
                texts = [_text(key, note) if note in here else "no records" for note in same]
                raise AgreementError(f"{same[0]['name']}: the workers differ: {by_rank(texts)}")
        check_settings(same[0]["name"], read_each(same, lambda note: str(note["settings"])))
        doubt_of_size(same)
        if same[0]["sampler"] is not None and not any(note["n"] for note in same) and any(n["calls"] for n in same):
            raise InvalidInputError(f"{same[0]['name']}: no records, of {same[0]['sampler']['samples']} samples")


def _text(key: str, note: dict[str, Any]) -> str:
    if key == "ids":
        return {None: "no ids", False: "integers as ids", True: "strings as ids"}[note["ids"]]
    if key == "sampler" and note["sampler"]:
        return "a sampler with " + ", ".join(f"{name} {value}" for name, value in note["sampler"].items())
    return f"{key} {note[key]}"


def _most_padding(notes: Sequence[dict[str, Any]]) -> int:
    """A number above that of any padding: a sampler adds less than one block on each of several ranks."""
    calls = [samples for note in notes if note["mode"] == "batch" for samples, *_ in note["calls"]]
    block = max([*calls, *(length for note in notes for length, _ in note["blocks"])], default=1)
    return len(notes) * block if len(notes) > 1 else 1


def _as_dealt(notes: Sequence[dict[str, Any]]) -> bool:
    """Whether each worker has as many records as the sampler deals to it."""
    return {note["n"] for note in notes} == {-(-notes[0]["size"] // len(notes))}


def counts_samples(notes: Sequence[dict[str, Any]]) -> bool:
    """Whether the size counts the samples of all workers, not their records."""
    size, samples = notes[0]["size"], [note["samples"] for note in notes]
    if size is None or None in samples or not any(note["calls"] for note in notes) or _as_dealt(notes):
        return False
    return any(note["n"] for note in notes) and 0 <= sum(samples) - size < _most_padding(notes)


def doubt_of_size(notes: Sequence[dict[str, Any]]) -> str:
    """The text of a `SizeWarning`, or nothing.

    Raise if there are fewer records than samples, or (on several workers) far more.
    """
    size, counts = notes[0]["size"], [note["n"] for note in notes]
    known = notes[0]["sampler"] is not None or any(note["ids"] is not None for note in notes)
    if known or size is None or counts_samples(notes):
        return ""
    padded, several = sum(counts) - size, len(counts) > 1
    unknown = any(note["nested"] or note["samples"] is None for note in notes)
    if 0 <= padded < _most_padding(notes) and (padded == 0 or not unknown or _as_dealt(notes)):
        return ""
    what = "gathered" if several else "added"
    by = f" ({by_rank(map(str, counts))})" if several else ""
    text = (
        f"{notes[0]['name']}: size is {size}, but {counted(sum(counts), 'records', 'were')} {what}{by}; there "
        "must be one record per sample of the data set, not counting repeats"
    )
    if padded < 0 < sum(counts) and (unknown or sum(note["samples"] for note in notes) >= size):
        more = "The number of their samples is unknown: all records count, and repeated samples count again"
        return f"{text}. {more}"
    if padded < 0 or (several and padded >= size):
        raise InvalidInputError(text)
    return f"{text}. The first {size} count, and {padded} {agreeing(padded, 'are')} cut off"


def check_mode(argument: str, mode: Any) -> str:
    """Return the collect mode, or raise `UnknownNameError`."""
    if not isinstance(mode, str) or mode not in _COLLECT_MODES:
        raise UnknownNameError(f"{argument} is {mode!r}; allowed are {', '.join(map(repr, _COLLECT_MODES))}")
    return str(mode)
