"""Checkpoints: the contents of metrics in a file, or in a folder with a part for each worker of a job.

A file has the state dicts of one worker's metrics, see `fleetmetrics.state.state_dicts`, and facts about the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.choose import call_of
from fleetmetrics.comm.communicator import Call
from fleetmetrics.comm.failures import Caught, by_rank, ranks_text
from fleetmetrics.errors import AgreementError, CorruptFileError, FileAccessError, InvalidInputError
from fleetmetrics.samplers.dealing import dataset_indices
from fleetmetrics.samplers.progress import Pass
from fleetmetrics.samplers.sampling import remaining_indices
from fleetmetrics.serial import MISFITS
from fleetmetrics.serial.container import read_arrays, write_arrays
from fleetmetrics.serial.descriptions import Letter
from fleetmetrics.state.state_dicts import Checkpointed, Plan, is_of_a_state
from fleetmetrics.support.checks import flag_of, knows_its_arguments, path_of, whole_number_of

__all__ = ["Resumed", "load", "named_metrics", "save"]

_T = TypeVar("_T")

#: The entry of a file for the sampler's indices; no state dict has such an entry.
_INDICES = ("", "indices")
_MANIFEST = "checkpoint.fms"
_PART = re.compile(r"(?:part-([0-9a-f]{16})-\d+|checkpoint)\.fms(\.[0-9a-f]{16})?")


class _Job(NamedTuple):
    workers: int
    batches: tuple[int, ...] | None
    sampler: dict[str, Any] | None
    indices: np.ndarray | None


class Resumed(_Job):
    """Facts about the job that saved a checkpoint; None: `save` did not get them.

    Args:
        workers: their number.
        batches: the number of batches that each worker had finished, by rank.
        sampler: the settings of its sampler, and the epoch of the pass.
        indices: the data set's indices that the sampler assigned; None: all.

    Attributes:
        missing: with ``strict=False``, the metrics that the checkpoint lacks; they are empty now.
        unexpected: with ``strict=False``, the metrics that only the checkpoint has.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def remaining(self) -> np.ndarray:
        """The data set's indices that no worker has processed: int64, rising, each once; see `remaining_indices`.

        Raises:
            InvalidInputError: `save` did not get sampler and batches, or the sampler has its own ``__iter__``.
        """
        if self.sampler is None or self.batches is None:
            raise InvalidInputError(
                "the checkpoint does not record the remaining samples: save it with sampler= and batches=. If the "
                "sampler defines its own __iter__, call fleetmetrics.remaining_indices(sampler, batches)"
            )
        try:
            settings = dict(self.sampler)
            sampler = SimpleNamespace(dataset=range(settings.pop("samples")), local_rank=0, **settings)
            remaining = remaining_indices(sampler, self.batches)
            return remaining if self.indices is None else self.indices[remaining]
        except MISFITS as error:
            raise CorruptFileError(f"the checkpoint's sampler is invalid: {self.sampler!r:.200} ({error})") from None


@knows_its_arguments
def save(
    path: Any,
    metrics: Any,
    *,
    sampler: Any = None,
    batches: int | None = None,
    scope: Any = None,
    communicator: Communicator | None = None,
    group: Any = None,
    timeout: float | None = None,
) -> None:
    """Write the contents of metrics to a file, or with several workers to a folder with a part of each.

    Every worker must call it. The checkpoint is written whole or not at all: until all workers have written their
    parts, the path keeps the previous checkpoint. It contains no pickle.

    Args:
        path: the file, or the folder, the same for all workers.
        metrics: a metric, a collection, a `BaseMetric` or an `Evaluator`; or a dict of them by name.
        sampler: the `paddle.io.DistributedBatchSampler` of the current pass; `load` needs it to find the remaining
            samples.
        batches: the number of the sampler's batches that this worker has added.
        scope: the scope of a static program's variables; None: the global scope.
        communicator: None: the one that was set or is chosen automatically.
        group: the workers that save; each group needs its own path; see `fleetmetrics.Communicator.among`.
            None: all.
        timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have met.

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
    with call_of("save", communicator, group=group, timeout=timeout) as call:
        target = os.path.abspath(path_of("path", path))
        alone = call.channel.world_size == 1 and not os.path.isdir(target)
        _write(target, _share_of(metrics, sampler, batches, scope), call, alone)


class _Share(NamedTuple):
    """A worker's part of a checkpoint.

    Args:
        arrays: by metric and key.
        names: of the metrics.
        sampler: its settings.
        indices: of the data set, that the sampler assigns.
        batches: the number that it has finished.
    """

    arrays: Mapping[tuple[str, str], np.ndarray]
    names: Sequence[str]
    sampler: dict[str, Any] | None
    indices: np.ndarray | None
    batches: int | None

    @property
    def dealt(self) -> dict[tuple[str, str], np.ndarray]:
        """The entries that are written once instead of in each part."""
        return {} if self.indices is None else {_INDICES: self.indices}


def _share_of(metrics: Any, sampler: Any, batches: int | None, scope: Any) -> _Share:
    named = named_metrics(metrics)
    arrays: dict[tuple[str, str], np.ndarray] = {}
    for name, metric in named.items():
        arrays.update({(name, key): array for key, array in metric.state_dict(scope).items()})
    settings = indices = None
    if sampler is not None:
        dealing = Pass(sampler).begin().dealing
        indices = dataset_indices(sampler)
        settings = dealing.settings if dealing.formula else None  # `Resumed.remaining` is computed from these
    done = None if batches is None else whole_number_of("batches", batches, 0)
    return _Share(arrays, sorted(named), settings, indices, done)


def _write(path: str, share: _Share, call: Call, alone: bool) -> None:
    """Write this worker's part between two exchanges: all save alike, and all have written.

    Args:
        path: the file if this worker is alone, else the folder.
        share: the part to write.
        call: of all workers.
        alone: whether there are no others, nor were any.
    """
    channel = call.channel

    def begin(letters: Sequence[Letter]) -> Letter:
        _check_equal([letter.note[:2] for letter in letters])
        if not alone:
            with _told_of(path):
                os.makedirs(path, exist_ok=True)
        return Letter([os.urandom(8).hex(), [letter.note[2] for letter in letters]])

    same = [share.sampler, None if share.indices is None else zlib.crc32(share.indices.data)]
    mine = [share.names, same, share.batches]
    token, by_worker = call.consult(begin, mine).note
    note = {"workers": channel.world_size, "rank": channel.rank, "token": token, "sampler": share.sampler}
    note["batches"] = None if None in by_worker else by_worker
    size = 0
    with Caught() as caught, _told_of(path):
        part = path if alone else _part(path, token, channel.rank)
        size = write_arrays(part, {**share.arrays, **share.dealt} if alone else share.arrays, note)

    def finish(letters: Sequence[Letter]) -> Letter:
        for rank, letter in enumerate(() if alone else letters):
            part = _part(path, token, rank)
            if not os.path.isfile(part) or os.path.getsize(part) != letter.note:
                raise InvalidInputError(
                    f"path: {ranks_text([0])} does not see the {letter.note} bytes that {ranks_text([rank])} wrote to "
                    f"{part}; it must be on a file system that all workers share"
                )
        if not alone:
            with _told_of(path):
                write_arrays(os.path.join(path, _MANIFEST), share.dealt, note)
                _tidy(path, token)
        return Letter(None)

    call.consult(finish, size, name="save, parts", trouble=caught.error)


@knows_its_arguments
def load(
    path: Any,
    metrics: Any,
    *,
    strict: bool = True,
    scope: Any = None,
    communicator: Communicator | None = None,
    group: Any = None,
    timeout: float | None = None,
) -> Resumed:
    """Restore metrics from a checkpoint of `save`, on any number of workers.

    Every worker must call it. With the same number of workers, each gets its own contents back. With a different
    number, rank 0 gets the states of all, rounded once as in an exchange, and the records are divided: `compute` gives
    the same number, and the next samples may be split in any way.

    Args:
        path: as for `save`.
        metrics: as for `save`: the same classes with the same settings. Their contents are replaced.
        strict: False: ignore metrics that only the checkpoint has, in its dict or in a collection, and leave metrics
            that it lacks empty.
        scope: the scope of a static program's variables; None: the global scope.
        communicator: None: the one that was set or is chosen automatically.
        group: the workers that load, as for `save`; None: all.
        timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have met.

    Returns:
        The number of workers that saved, the rest of the sampler's pass, and the metrics that only one side has.

    Raises:
        CorruptFileError: a file is damaged or foreign.
        InvalidInputError: the checkpoint has different metrics or settings.
        FleetMetricsError: the same error on every worker, by the deadline. After any error the metrics keep
            their contents, on all workers.
    """

    def decide(letters: Sequence[Letter]) -> Letter:
        _check_equal([letter.note for letter in letters])
        return Letter(None)

    with call_of("load", communicator, group=group, timeout=timeout) as call:
        with _told_of(path):
            files, note, resumed = _opened(os.path.abspath(path_of("path", path)))
            token = [note["token"], flag_of("strict", strict)]
            named = named_metrics(metrics)
            ready, resumed.missing, resumed.unexpected = _ready(files, note, named, call.channel, scope, strict)
        call.consult(decide, token)
    for apply in ready:
        apply()
    return resumed


def _ready(
    files: Sequence[str], note: Any, metrics: Mapping[str, Any], channel: Communicator, scope: Any, strict: bool
) -> tuple[list[Callable[[], None]], tuple[str, ...], tuple[str, ...]]:
    """A function to restore each metric's share on this worker; and the metrics that only one side has."""
    rank, workers, others = channel.rank, channel.world_size, len(files)
    # in a row, so that records stay in the order of the ranks
    mine = range(rank * others // workers, (rank + 1) * others // workers)
    parts: dict[int, dict[str, Any]] = {}
    plans: dict[str, Plan] = {}
    missing: list[str] = []
    unexpected: list[str] = []
    # A worker without a share reads the first one's, only for the plan.
    for number in range(others) if rank == 0 and workers != others else mine or range(1):
        whole = number in mine
        arrays, saved_note = (
            read_arrays(files[number]) if whole else read_arrays(files[number], lambda _, key: is_of_a_state(key))
        )
        arrays.pop(_INDICES, None)
        if saved_note != {**note, "rank": number}:
            raise CorruptFileError(f"{files[number]}: it belongs to a different checkpoint or rank")
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
    """The difference between a checkpoint's metrics and the given ones."""
    held, wanted = (", ".join(map(repr, sorted(known))) for known in (names, metrics))
    if "" in names:
        what = f"a dict with {wanted}" if wanted else "an empty dict"
        return f"holds a single metric, but you gave {what}; give the metric itself"
    if "" in metrics:
        return f"holds a dict with {held}, but you gave a single metric; give a dict"
    return f"holds {held}, but you gave {wanted}"


def _opened(path: str) -> tuple[list[str], dict[str, Any], Resumed]:
    """A checkpoint's files by rank, their common description of the job, and a `Resumed`."""
    folder = os.path.isdir(path)
    first = os.path.join(path, _MANIFEST) if folder else path
    if not os.path.isfile(first):
        where = f"{path!r}, in this folder" if folder else f"{path!r}"
        raise InvalidInputError(f"path: there is no checkpoint at {where}")
    arrays, note = read_arrays(first, lambda *name: name == _INDICES)
    try:
        resumed = Resumed(note["workers"], note["batches"], note["sampler"], arrays.get(_INDICES))
        there = len(os.listdir(path)) - 1 if folder else 1
        if not 0 < resumed.workers <= there:
            raise ValueError(f"{resumed.workers} workers, of which {there} are here")
        if not re.fullmatch("[0-9a-f]{16}", note["token"]):
            raise ValueError(f"files are not named by {note['token']!r}")
        if resumed.batches is not None:
            resumed = resumed._replace(batches=tuple(resumed.batches))
    except MISFITS as error:
        raise CorruptFileError(f"{first}: its description of the job is invalid: {error!s:.200}") from None
    return [_part(path, note["token"], rank) for rank in range(resumed.workers)] if folder else [path], note, resumed


@contextlib.contextmanager
def _told_of(path: Any) -> Iterator[None]:
    """Name the path in the system's error."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a deadline, or an interruption
            raise
        raise FileAccessError(f"path: {path} cannot be used: {error}") from None


def named_metrics(metrics: Any) -> dict[str, Checkpointed]:
    """The metrics by name, as `save` takes them; a single one has the name ""."""
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
        raise AgreementError(f"the workers disagree: {by_rank(texts)}")


def _tidy(path: str, token: str) -> None:
    """Remove the parts of earlier checkpoints, finished or not."""
    for name in os.listdir(path):
        match = _PART.fullmatch(name)
        if match and (match[1] not in (None, token) or match[2]):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, name))
