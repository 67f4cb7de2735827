"""Checkpoints: what metrics hold as plain arrays, in a file, or in a folder with a part of each worker of a job.

What accumulates is made of holders: states, tables, records. Each says what it holds as arrays by name (``saved``, none
if that is nothing), makes one of several (``together``), and takes it back (``check``, then ``load``); see
`fleetmetrics.state.State`. All else is here, once.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import re
import zlib
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics._version import __version__
from fleetmetrics.arguments import flag_of, path_of, whole_number_of
from fleetmetrics.comm import Communicator
from fleetmetrics.comm.choose import channel_of
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.deadline import began
from fleetmetrics.comm.failures import Caught, by_rank
from fleetmetrics.errors import AgreementError, CorruptFileError, FileAccessError, InvalidInputError
from fleetmetrics.numbers import REST
from fleetmetrics.sampling import Dealing, Part, Pass, dataset_indices, epoch_under_way, remaining_indices
from fleetmetrics.serial import MISFITS, described_array, misfits_named
from fleetmetrics.serial.container import read_arrays, write_arrays
from fleetmetrics.settings import Told, class_of, described, difference
from fleetmetrics.xp import to_host

__all__ = ["Checkpointed", "HeldPass", "Resumed", "load", "save"]

#: The version of what state dicts and files hold; another one is not read.
FORMAT = 1
#: The entry of a state dict that says what the others are: JSON as bytes.
ABOUT = "fleetmetrics"
#: `paddle.load` makes tensors of these, which come back as they were; arrays of other dtypes go as bytes.
_PLAIN = frozenset(["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
#: Entries that are dealt out where the number of workers changes.
_DEALT = re.compile(r"\d+:")
#: In a file the indices that the sampler deals; no state dict has such an entry.
_INDICES = ("", "indices")
_MANIFEST = "checkpoint.fms"
_PART = re.compile(r"(?:part-([0-9a-f]{16})-\d+|checkpoint)\.fms(\.[0-9a-f]{16})?")


def _begins(key: str, start: str) -> bool:
    """Whether an entry is of the holder whose keys begin so; see `_key`."""
    return key.startswith(start) if start.endswith(":") else key in (start, start + REST)


def _key(place: int, holder: Any, name: str) -> str:
    return f"{place}:{name}" if holder.dealt else f"{place}.{holder.name.rpartition('.')[2]}{name}"


class Checkpointed(Told):
    """What can be saved and resumed."""

    def _holders(self) -> Sequence[Any]:
        """What it is made of, in an order that its class and settings determine."""
        raise NotImplementedError

    def _called(self) -> str:
        return type(self).__name__

    def _parts(self) -> dict[str, tuple[Any, Sequence[Any]]]:
        """What can be loaded without the rest, by name: its settings, and which holders it is made of."""
        return {"": (None, self._holders())}

    def _apart(self, name: str) -> tuple[Sequence[Any], Callable[[], None]]:
        """Holders of its own for a part, in the place of those that it shares; and what gives them to it."""
        raise NotImplementedError

    def _about(self) -> Any:
        """What must be the same where it is loaded: the settings, and of each part settings, and holders by key."""
        keys = {holder: _key(place, holder, "") for place, holder in enumerate(self._holders())}
        parts = {
            name: [described(its, short=True), [[keys[each], described(each.kind, short=True)] for each in holders]]
            for name, (its, holders) in self._parts().items()
        }
        return json.loads(json.dumps({"settings": described(self, short=True), "parts": parts}))

    def state_dict(self, scope: Any = None) -> dict[str, np.ndarray]:
        """What was accumulated on this worker, for `set_state_dict`, `paddle.save` or `numpy.savez`.

        Args:
            scope: where a static program's variables live; None: the global scope.

        Returns:
            Arrays of numbers by name, copied. "fleetmetrics" says what the others are: JSON as bytes, with the class
            and its settings.

        Examples:
            >>> from fleetmetrics import Accuracy
            >>> metric, again = Accuracy(), Accuracy()
            >>> metric.add([0.9, 0.2, 0.7], [1, 0, 0])
            >>> again.set_state_dict(metric.state_dict())
            >>> again.compute()
            0.6666666666666666
        """
        found = {
            _key(place, holder, name): array
            for place, holder in enumerate(self._holders())
            for name, array in holder.saved(scope).items()
        }
        layout = {key: [array.dtype.str, list(array.shape)] for key, array in found.items()}
        about = json.dumps({"format": FORMAT, "written by": __version__, "of": self._about(), "arrays": layout})
        arrays = {ABOUT: _bytes(about.encode())}
        for key, array in found.items():
            plain = array.dtype.name in _PLAIN and array.dtype.isnative
            arrays[key] = array if plain else _bytes(array.tobytes())
        return arrays

    def set_state_dict(self, state: Mapping[str, Any], scope: Any = None, *, strict: bool = True) -> None:
        """Hold what another one of the same class and settings held, instead of what was accumulated here.

        Args:
            state: from `state_dict`; arrays, or tensors that `paddle.load` has made of them.
            scope: where a static program's variables live; None: the global scope.
            strict: False: a collection takes what it has in common with the one that was saved; its other metrics
                hold nothing.

        Raises:
            InvalidInputError: it is of another class, version, setting or shape, which the message says; then nothing
                has changed.
            StateNotFoundError: the scope does not hold the states: the startup program has not run.
        """
        plan = self._plan(state, flag_of("strict", strict))
        parts = [self._parsed(state, plan)]
        self._prepared(parts, parts, scope, plan)()

    def _said(self, state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What a state dict says that it is of, and of which dtype and shape its arrays are."""
        owner = self._called()
        if isinstance(state, (str, os.PathLike)):
            raise InvalidInputError(
                f"{owner}: state must be what state_dict returned, not the path {os.fspath(state)!r}; give what "
                "paddle.load or numpy.load makes of the file, or use fleetmetrics.load for one that fleetmetrics.save "
                "has written"
            )
        try:
            about = json.loads(np.asarray(to_host(state[ABOUT]), np.uint8).tobytes())
            version, of, layout = about["format"], about["of"], dict(about["arrays"])
        except MISFITS:
            raise InvalidInputError(
                f"{owner}: state must be what state_dict returned; it has no readable entry {ABOUT!r}"
            ) from None
        if version != FORMAT:
            raise InvalidInputError(
                f"{owner}: the checkpoint has format {version!r:.40} (fleetmetrics {about.get('written by')!r:.40}), "
                f"and fleetmetrics {__version__} reads format {FORMAT}"
            )
        return of, layout

    def _plan(self, state: Mapping[str, Any], strict: bool = True) -> _Plan:
        """Which holder takes what of a state dict, and of all others that are like it."""
        of = self._said(state)[0]
        own, owner = self._about(), self._called()
        wrong = f"{owner}: the checkpoint is of another metric, or other settings"
        with misfits_named():
            settings = of["settings"]
            theirs = {name: (its, dict(held)) for name, (its, held) in of["parts"].items()}
            if not all(isinstance(start, str) for _, held in theirs.values() for start in held):
                raise TypeError("keys of arrays are texts")
        mine = self._parts()
        partial = not strict and len(mine) > 1 and class_of(settings) == class_of(own["settings"])
        differs = "" if partial else difference(own["settings"], settings, repr)
        for name in [name for name in mine if name in theirs]:
            its, held = own["parts"][name]
            differs = differs or difference(its, theirs[name][0], repr, "", name)
            if not differs and [kind for _, kind in held] != [*theirs[name][1].values()]:
                differs = f"the states of {name!r} are others" if name else "its states are others"
        if differs:
            raise InvalidInputError(f"{wrong}: {differs:.300}")
        plan = _Plan(of, {}, list(mine), [])
        taken: dict[Any, str | None] = {}
        for name, (_, holders) in mine.items():
            keys = list(theirs[name][1]) if name in theirs else [None] * len(holders)
            if any(taken.get(holder, key) != key for holder, key in zip(holders, keys)):
                holders, attach = self._apart(name)
                plan.attached.append(attach)
            taken.update(zip(holders, keys))
        plan.keys.update(taken)
        return plan

    def _parsed(self, state: Mapping[str, Any], plan: _Plan, whole: bool = True) -> dict[Any, Any]:
        """What each holder has saved; unless ``whole``, without what is dealt out."""
        owner, (of, layout) = self._called(), self._said(state)
        differs = difference(plan.of, of)
        if differs:
            raise InvalidInputError(
                f"{owner}: a part is of another metric, or other settings, than the first: {differs:.300}"
            )
        starts = {start for _, held in of["parts"].values() for start, _ in held}
        keys_of = {start: [key for key in layout if _begins(key, start)] for start in starts}
        held: dict[Any, dict[str, np.ndarray]] = {}
        for holder, start in plan.keys.items():
            if start is None:
                held[holder] = {}
            elif whole or not holder.dealt:
                held[holder] = {key[len(start) :]: self._array(state, key, layout[key]) for key in keys_of[start]}
        strange = sorted({*map(str, state), *layout} - {ABOUT, *(key for keys in keys_of.values() for key in keys)})
        if strange:
            raise InvalidInputError(f"{owner}: the checkpoint has {', '.join(map(repr, strange[:5]))}, unknown here")
        return held

    def _array(self, state: Mapping[str, Any], key: str, entry: Any) -> np.ndarray:
        if key not in state:
            raise InvalidInputError(f"{self._called()}: the checkpoint lacks {key!r}")
        try:
            (dtype, _), array = described_array(*entry), np.array(to_host(state[key]))
            array = (array.view(dtype) if array.dtype == np.uint8 != dtype else array).reshape(entry[1])
            if array.dtype != dtype:
                raise TypeError(f"it was {dtype} and is {array.dtype}")
        except MISFITS as error:
            raise InvalidInputError(f"{self._called()}: {key!r} of the checkpoint is malformed: {error}") from None
        return array

    def _prepared(
        self, states: Sequence[Any], records: Sequence[Any], scope: Any, plan: _Plan | None = None, same: bool = True
    ) -> Callable[[], None]:
        """What makes it hold parts, those for its states and those for its records; what can go wrong is raised before.

        No parts: it is reset. ``same``: the number of workers is that of the parts, and there is one.
        """
        holders, held = self._holders() if plan is None else list(plan.keys), {}
        for holder in holders:
            parts = records if holder.dealt else states
            held[holder] = parts[0][holder] if same and parts else holder.together(parts)
        for holder in holders:
            holder.check(held, scope)

        def apply() -> None:
            for attach in () if plan is None else plan.attached:
                attach()
            for holder in holders:
                holder.load(held[holder], scope)

        return apply


class HeldPass:
    """The pass of a sampler as a holder; of several workers the parts of all."""

    dealt = False
    name = kind = "pass"

    def __init__(self, of: Pass) -> None:
        self._pass = of

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """The parts of the pass, as JSON."""
        parts = self._pass.parts()
        return {"": _bytes(json.dumps(parts).encode())} if parts else {}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """The parts of all."""
        every = [each for part in parts if part[self] for each in _passes_in(part[self])]
        return {"": _bytes(json.dumps(every).encode())} if every else {}

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        """Raise `InvalidInputError` if this was not saved."""
        with misfits_named():
            _passes_in(held[self])

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        """Hold what was saved."""
        self._pass.hold(_passes_in(held))


def _passes_in(held: Mapping[str, np.ndarray]) -> list[Part]:
    found = json.loads(held[""].tobytes()) if held else []
    parts = [Part(dict(settings), *map(operator.index, counts)) for settings, *counts in found]
    if any(len(part) != 4 or min(part[1:]) < 0 for part in parts):
        raise ValueError("a pass has settings, rank, samples done and samples due")
    return parts


class _Plan(NamedTuple):
    """Which holder takes what of a state dict.

    Args:
        of: what the state dict says that it is of.
        keys: by holder, what the keys of its arrays begin with; None: it holds nothing.
        parts: the names of the parts that are here.
        attached: puts parts with holders of their own into their places.
    """

    of: Any
    keys: dict[Any, str | None]
    parts: list[str]
    attached: list[Callable[[], None]]

    @property
    def missing(self) -> list[str]:
        """The parts that the state dict lacks."""
        return [name for name in self.parts if name not in self.of["parts"]]

    @property
    def unexpected(self) -> list[str]:
        """The parts that only the state dict has."""
        return [name for name in self.of["parts"] if name not in self.parts]


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), np.uint8)


class _Job(NamedTuple):
    workers: int
    batches: tuple[int, ...] | None
    sampler: dict[str, Any] | None
    indices: np.ndarray | None


class Resumed(_Job):
    """What `load` says of the job that saved; None: `save` was not told.

    Args:
        workers: how many there were.
        batches: how many batches each had done, by rank.
        sampler: the settings of its sampler, and the epoch of the pass.
        indices: the data set's indices that the sampler dealt; None: all.

    Attributes:
        missing: with ``strict=False`` the metrics that the checkpoint lacks, and that now hold nothing.
        unexpected: with ``strict=False`` the metrics that only the checkpoint has.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def remaining(self) -> np.ndarray:
        """The data set's indices that nobody has done: int64, rising, each once; see `remaining_indices`.

        Raises:
            InvalidInputError: `save` was not given sampler and batches.
        """
        if self.sampler is None or self.batches is None:
            raise InvalidInputError("the checkpoint does not say what remains: save it with sampler= and batches=")
        try:
            settings = dict(self.sampler)
            sampler = SimpleNamespace(dataset=range(settings.pop("samples")), local_rank=0, **settings)
            found = remaining_indices(sampler, self.batches)
            return found if self.indices is None else self.indices[found]
        except MISFITS as error:
            raise CorruptFileError(f"the checkpoint's sampler cannot be: {self.sampler!r:.200} ({error})") from None


def save(
    path: Any,
    metrics: Any,
    *,
    sampler: Any = None,
    batches: int | None = None,
    scope: Any = None,
    communicator: Communicator | None = None,
    timeout: float | None = None,
) -> None:
    """Write what metrics have accumulated: a file, or with several workers a folder with a part of each.

    Every worker must call it. It is written whole or not at all: what the path held is the checkpoint until all workers
    have written their parts. There is no pickle in it.

    Args:
        path: of the file, or of the folder, the same one for all workers.
        metrics: a metric, a collection, a `BaseMetric` or an `Evaluator`; or a dict of them by name.
        sampler: the `paddle.io.DistributedBatchSampler` of the pass under way, so that `load` says what remains.
        batches: how many batches of the sampler this worker has added.
        scope: where a static program's variables live; None: the global scope.
        communicator: None: the one that was set or is chosen automatically.
        timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

    Raises:
        FleetMetricsError: the same error on every worker, by the deadline; also if one of them could not write.

    Examples:
        >>> import os, tempfile
        >>> from fleetmetrics import Accuracy
        >>> path, metric, again = os.path.join(tempfile.mkdtemp(), "metrics.fms"), Accuracy(), Accuracy()
        >>> metric.add([0.9, 0.2, 0.7], [1, 0, 0])
        >>> save(path, metric)
        >>> load(path, again).workers
        1
        >>> again.compute()
        0.6666666666666666
    """
    deadline, trouble = began(timeout)
    channel, trouble = channel_of(communicator, trouble=trouble)
    arrays: dict[tuple[str, str], np.ndarray] = {}
    dealt: dict[tuple[str, str], np.ndarray] = {}
    same: list[Any] = [None, None]
    names, done, alone = [""], None, channel.world_size == 1
    with Caught(trouble) as caught:
        path = os.path.abspath(path_of("path", path))
        alone = alone and not os.path.isdir(path)
        named = _named(metrics)
        names = sorted(named)
        for name, metric in named.items():
            arrays.update({(name, key): array for key, array in metric.state_dict(scope).items()})
        if sampler is not None:
            dealing = Dealing(sampler, epoch_under_way(sampler))
            indices = dataset_indices(sampler)
            same[0] = dealing.settings if dealing.formula else None
            if indices is not None:
                dealt, same[1] = {_INDICES: indices}, zlib.crc32(indices.data)
        done = None if batches is None else whole_number_of("batches", batches, 0)

    def begin(letters: Sequence[Letter]) -> Letter:
        _check_equal([letter.note[:2] for letter in letters])
        if not alone:
            with _told_of(path):
                os.makedirs(path, exist_ok=True)
        return Letter([os.urandom(8).hex(), [letter.note[2] for letter in letters]])

    told = channel.consult("save", begin, [names, same, done], timeout=deadline.timeout, trouble=caught.error)
    token, by_worker = told.note
    note = {"workers": channel.world_size, "rank": channel.rank, "token": token, "sampler": same[0]}
    note["batches"] = None if None in by_worker else by_worker
    size = 0
    with caught, _told_of(path):
        part = path if alone else _part(path, token, channel.rank)
        size = write_arrays(part, {**arrays, **dealt} if alone else arrays, note)

    def finish(letters: Sequence[Letter]) -> Letter:
        for rank, letter in enumerate(() if alone else letters):
            part = _part(path, token, rank)
            if not os.path.isfile(part) or os.path.getsize(part) != letter.note:
                raise InvalidInputError(
                    f"path: rank 0 does not see the {letter.note} bytes that rank {rank} wrote to {part}; it must lie "
                    "on a file system that all workers share"
                )
        if not alone:
            with _told_of(path):
                write_arrays(os.path.join(path, _MANIFEST), dealt, note)
                _tidy(path, token)
        return Letter(None)

    channel.consult("save, parts", finish, size, timeout=deadline.left, trouble=caught.error)


def load(
    path: Any,
    metrics: Any,
    *,
    strict: bool = True,
    scope: Any = None,
    communicator: Communicator | None = None,
    timeout: float | None = None,
) -> Resumed:
    """Let metrics hold what `save` wrote, on as many workers as there were, or on another number.

    Every worker must call it. As many workers as before get back what each of them held. Of another number rank 0 gets
    the states of all, rounded once, as an exchange does it, and the records are dealt out: `compute` gives the same
    number, and the next samples may come in any split.

    Args:
        path: as for `save`.
        metrics: as for `save`: the same classes with the same settings. What they hold is replaced.
        strict: False: metrics that only the checkpoint has, in its dict or in a collection, are left out, and those
            that it lacks hold nothing.
        scope: where a static program's variables live; None: the global scope.
        communicator: None: the one that was set or is chosen automatically.
        timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

    Returns:
        How many workers saved, what of a pass of the sampler remains, and which metrics only one side has.

    Raises:
        CorruptFileError: a file is not what was written.
        InvalidInputError: it is the checkpoint of other metrics, or of other settings.
        FleetMetricsError: the same error on every worker, by the deadline. After any error the metrics hold what they
            held before, on all workers.
    """
    deadline, trouble = began(timeout)
    channel, trouble = channel_of(communicator, trouble=trouble)
    ready: list[Callable[[], None]] = []
    resumed, token = Resumed(1, None, None, None), None
    with Caught(trouble) as caught, _told_of(path):
        files, note, resumed = _opened(os.path.abspath(path_of("path", path)))
        token = [note["token"], flag_of("strict", strict)]
        ready, resumed.missing, resumed.unexpected = _ready(files, note, _named(metrics), channel, scope, strict)

    def decide(letters: Sequence[Letter]) -> Letter:
        _check_equal([letter.note for letter in letters])
        return Letter(None)

    channel.consult("load", decide, token, timeout=deadline.timeout, trouble=caught.error)
    for apply in ready:
        apply()
    return resumed


def _ready(
    files: Sequence[str], note: Any, metrics: Mapping[str, Any], channel: Communicator, scope: Any, strict: bool
) -> tuple[list[Callable[[], None]], tuple[str, ...], tuple[str, ...]]:
    """What lets each metric hold this worker's share; and the metrics that the checkpoint lacks, and has alone."""
    rank, workers, others = channel.rank, channel.world_size, len(files)
    # in a row, so that records stay in the order of the ranks
    mine = range(rank * others // workers, (rank + 1) * others // workers)
    parts: dict[int, dict[str, Any]] = {}
    plans: dict[str, _Plan] = {}
    missing: list[str] = []
    unexpected: list[str] = []
    # A worker without a share reads what the first one had, for the plan alone.
    for number in range(others) if rank == 0 and workers != others else mine or range(1):
        whole = number in mine
        arrays, said = read_arrays(files[number]) if whole else read_arrays(files[number], _is_of_a_state)
        arrays.pop(_INDICES, None)
        if said != {**note, "rank": number}:
            raise CorruptFileError(f"{files[number]}: it belongs to another checkpoint, or to another rank")
        names = {name for name, _ in arrays}
        if names != set(metrics) and (strict or {""} & {*names, *metrics}):
            raise InvalidInputError(f"{files[number]} {_not_both(names, metrics)}")
        both = {name: metric for name, metric in metrics.items() if name in names}
        states = {name: {key: arrays[its, key] for its, key in arrays if its == name} for name in both}
        if not parts:
            plans = {name: metric._plan(states[name], strict) for name, metric in both.items()}
            missing = [name for name in metrics if name not in names]
            unexpected = sorted(names - set(metrics))
        parts[number] = {name: metric._parsed(states[name], plans[name], whole) for name, metric in both.items()}
    ready = [metrics[name]._prepared([], [], scope) for name in missing]
    for name, plan in plans.items():
        of_states = [part[name] for part in parts.values()] if workers == others or rank == 0 else []
        own = [parts[number][name] for number in mine]
        ready.append(metrics[name]._prepared(of_states, own, scope, plan, workers == others))
        missing += [f"{name}.{part}" if name else part for part in plan.missing]
        unexpected += [f"{name}.{part}" if name else part for part in plan.unexpected]
    return ready, tuple(missing), tuple(unexpected)


def _not_both(names: Iterable[str], metrics: Iterable[str]) -> str:
    """How what a checkpoint holds and what is given differ."""
    held, given = (", ".join(map(repr, sorted(each))) for each in (names, metrics))
    if "" in names:
        return f"holds one metric by itself, and given is a dict with {given}; give the metric itself"
    if "" in metrics:
        return f"holds a dict with {held}, and given is one metric by itself; give a dict"
    return f"holds {held}; given are {given}"


def _is_of_a_state(_: str, key: str) -> bool:
    return _DEALT.match(key) is None


def _opened(path: str) -> tuple[list[str], dict[str, Any], Resumed]:
    """A checkpoint's files by rank, what all of them say of the job, and what there is to know of it."""
    folder = os.path.isdir(path)
    first = os.path.join(path, _MANIFEST) if folder else path
    if not os.path.isfile(first):
        where = f"{path!r}, in this folder" if folder else f"{path!r}"
        raise InvalidInputError(f"path: there is no checkpoint at {where}")
    arrays, note = read_arrays(first, lambda *name: name == _INDICES)
    try:
        resumed = Resumed(note["workers"], note["batches"], note["sampler"], arrays.get(_INDICES))
        there = len(os.listdir(path)) - 1 if folder else 1
        if not 0 < resumed.workers <= there or not re.fullmatch("[0-9a-f]{16}", note["token"]):
            raise ValueError(f"{resumed.workers} workers, of whom {there} are here")
        if resumed.batches is not None:
            resumed = resumed._replace(batches=tuple(resumed.batches))
    except MISFITS as error:
        raise CorruptFileError(f"{first}: it says of its job what cannot be: {error!s:.200}") from None
    return [_part(path, note["token"], rank) for rank in range(resumed.workers)] if folder else [path], note, resumed


@contextlib.contextmanager
def _told_of(path: Any) -> Iterator[None]:
    """Name the path in what the system says of it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a deadline, or what interrupts
            raise
        raise FileAccessError(f"path: {path} cannot be used: {error}") from None


def _named(metrics: Any) -> dict[str, Checkpointed]:
    named = dict(metrics) if isinstance(metrics, Mapping) else {"": metrics}
    for name, metric in named.items():
        if not isinstance(name, str) or not isinstance(metric, Checkpointed):
            raise InvalidInputError(
                "metrics must be a metric, a collection, a BaseMetric or an Evaluator, or a dict of them by name, not "
                f"{type(metric).__name__}"
            )
    return named


def _part(path: str, token: str, rank: int) -> str:
    return os.path.join(path, f"part-{token}-{rank}.fms")


def _check_equal(notes: Sequence[Any]) -> None:
    texts = [json.dumps(note) for note in notes]
    if len(set(texts)) > 1:
        raise AgreementError(f"the workers disagree: {by_rank(texts)}.")


def _tidy(path: str, token: str) -> None:
    """Remove the parts of earlier checkpoints, and of those that were never finished."""
    for name in os.listdir(path):
        found = _PART.fullmatch(name)
        if found and (found[1] not in (None, token) or found[2]):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, name))
