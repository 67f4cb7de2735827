"""One side of a comparison, or the only one: from files, a frame, saved states, or all workers."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping, Sequence

from fleetmetrics._version import __version__
from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.base.metric import Metric
from fleetmetrics.columns.frames import Columns, table_of
from fleetmetrics.columns.partitions import FilePath, with_types
from fleetmetrics.columns.reading import ON_FILES, Reading
from fleetmetrics.comm import Communicator
from fleetmetrics.comm.descriptions import Letter
from fleetmetrics.errors import ConditionError, CorruptFileError, DataError, FleetMetricsError, InvalidInputError
from fleetmetrics.evaluation.asked import Asked
from fleetmetrics.evaluation.counted import Joined
from fleetmetrics.evaluation.probe import Probe
from fleetmetrics.files import ROW, Read, evaluate, together
from fleetmetrics.files.formats import pieces_of
from fleetmetrics.files.found import Found, find, look
from fleetmetrics.files.largest import choose_largest
from fleetmetrics.files.one_file import of_tables
from fleetmetrics.files.parts import read_of
from fleetmetrics.files.places import local_path
from fleetmetrics.serial import MISFITS
from fleetmetrics.serial.container import Arrays, read_arrays, write_arrays
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.support.arguments import listed, path_of
from fleetmetrics.support.settings import difference
from fleetmetrics.support.vocabulary import argument, counted
from fleetmetrics.wrappers.bootstrap import Bootstrap
from fleetmetrics.wrappers.sliced import Sliced

__all__ = [
    "Side",
    "are_files",
    "errors_of",
    "framed",
    "load",
    "of_all_workers",
    "of_files",
    "of_frame",
    "of_share",
    "of_workers",
    "save",
    "shared_files",
    "states_of",
]

_CALL = "evaluate"


@dataclass(frozen=True)
class Side:
    """The evaluated data of one side.

    Args:
        asked: the arguments.
        shape: `Asked.probe`.
        metrics: its collection.
        read: a record of the data read.
        error: the error of an unusable file; the metrics hold the others.
        baseline: whether it is the other side, whose replicates of counts are drawn with a different seed.
        states: the paths of saved states behind it, as given and from the root.
        task: the place of the task, if this is the view of one of several; None: all.
    """

    asked: Asked
    shape: Probe[Any]
    metrics: MetricCollection
    read: Read
    error: str = ""
    baseline: bool = False
    states: Sequence[str] = ()
    task: int | None = None

    @property
    def members(self) -> Probe[Metric]:
        """The metrics."""
        members = self.shape.of(self.metrics.metrics)
        return members if self.task is None else members.tasks[self.task]

    def of_task(self, place: int) -> Side:
        """The view of one of several tasks, which shares metrics and record with the others."""
        return replace(self, asked=self.asked.parts[place], task=place)

    def of_tasks(self) -> list[Side]:
        """The view of each task; of one task the side itself."""
        return [self.of_task(place) for place in range(len(self.asked.tasks))] or [self]

    def measured(self, said: list[str]) -> Probe[Any]:
        """The values; warnings are appended to ``said``."""
        for metric in self._sliced():
            metric.keep_largest(self.asked.max_slices)
        found: dict[str, Any] = {}
        for task, metrics in self._by_task():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                values = metrics.compute_local()
            found.update(values)
            texts = [self.asked.in_words(str(each.message)) for each in caught]
            if task and not any(values[key] for key in values if key.startswith("tasks ") and key.endswith(" rows")):
                texts = ["no row has a label"]
            said += [f"{'baseline: ' if self.baseline else ''}{f'{task}: ' if task else ''}{text}" for text in texts]
        return self.shape.of(found)

    def _by_task(self) -> Iterator[tuple[str, MetricCollection]]:
        """The metrics of each task with its name, so that a warning has it; those of all rows without a name."""
        metrics = self._drawn()
        if not self.asked.tasks:
            yield "", metrics
            return
        for place, task in enumerate(["", *self.asked.tasks], -1):
            view = copy.copy(metrics)
            view._known = {}
            of_task = f"tasks {place} "
            view.metrics = {
                key: each
                for key, each in metrics.metrics.items()
                if (key.startswith(of_task) if task else not key.startswith("tasks "))
            }
            yield task, view

    def _sliced(self) -> list[Sliced]:
        """A metric of the slices of each column."""
        members = self.members
        slices = (each for part in (members, *members.tasks) for each in part.slices)
        return [each.rows for each in slices if isinstance(each.rows, Sliced)]

    def others(self) -> dict[str, int | None]:
        """The number of slices in "(other)", by column; None: unknown."""
        found = {by: metric._kept_of for by, metric in zip(self.asked.by, self._sliced())}
        return {by: of - self.asked.max_slices if of else None for by, of in found.items() if of is not None}

    def _drawn(self) -> MetricCollection:
        """The metrics, with draws of this side: counts are drawn at the end, so any saved state has them."""
        if not self.baseline:
            return self.metrics
        view = copy.copy(self.metrics)
        view.metrics = {key: _reseeded(metric) for key, metric in view.metrics.items()}
        return view


def _reseeded(metric: Any) -> Any:
    if not isinstance(metric, Bootstrap) or metric.ids is not None:
        return metric
    view = copy.copy(metric)
    view.seed = 1  # otherwise both sides would use the same random numbers
    return view


# -- made of data -----------------------------------------------------------------------------------------


def of_files(
    paths: Sequence[str],
    asked: Asked,
    *,
    everybodys: Sequence[str] = (),
    bad: Sequence[str] = (),
    baseline: bool = False,
    close: bool = False,
    **settings: Any,
) -> Side:
    """Evaluate files; there may be none.

    Args:
        paths: of the files.
        everybodys: the paths of all workers, which keep the same slices; none: the same files.
        bad: further files that cannot be read.
        asked: the arguments.
        baseline: whether they are the other side.
        close: whether the users of these data have no samples elsewhere.
        **settings: of `fleetmetrics.files.evaluate`.
    """
    shape = asked.probe()
    metrics = shape.collection()
    read, said = Read(), ""
    columns = asked.columns_of(metrics)
    placed = asked.compared and asked.first.ranked and asked.unit  # among all rows, so no metric can be closed
    if (
        close
        and not placed
        and {each.table.columns[0] for each in metrics._record_metrics()} == {"user"}
        and "-" not in paths
    ):
        settings["complete_by"] = "user"
    try:
        if set(everybodys) > set(paths) and "-" not in everybodys:
            choose_largest(metrics, everybodys, columns, asked.max_slices, reading=asked.reading)
        elif paths and "-" not in paths:
            settings["max_slices"] = asked.max_slices
        if paths:
            metrics, read = evaluate(paths, lambda: metrics, columns, reading=asked.reading, **settings)
    except ConditionError:
        raise
    except DataError as error:
        metrics, read = error.evaluated or (metrics, read)
        said = str(error)
    return Side(asked, shape, metrics, together([read, Read(bad_files=tuple(bad))]), said, baseline)


def of_share(
    found: Found,
    asked: Asked,
    channel: Communicator,
    *,
    skip_bad_files: bool = False,
    processes: int | None = None,
    close: bool = False,
    **settings: Any,
) -> tuple[list[str], Side]:
    """Evaluate this worker's share of files; return the paths of all, with the versions of tables, and the side.

    Args:
        found: the files of all workers.
        asked: the arguments.
        channel: the channel of the workers that share them.
        skip_bad_files: whether to skip and count unreadable files.
        processes: the number of processes that share them, if this worker is alone.
        close: whether a single worker's users have no samples elsewhere.
        **settings: further settings of `of_files`.
    """
    alone = channel.world_size == 1
    paths, bad = found
    side = of_files(
        paths[channel.rank :: channel.world_size],
        asked,
        everybodys=paths,
        bad=bad if channel.rank == 0 else (),
        skip_bad_files=skip_bad_files,
        processes=processes if alone else 1,
        close=alone and close,
        **settings,
    )
    return [path.identity if isinstance(path, FilePath) else path for path in paths], side


def shared_files(data: Sequence[Any], channel: Communicator, skip_bad_files: bool) -> list[Found]:
    """The files that workers share, of each side, and those left out; values in folders' names have one type.

    Args:
        data: of each side, as `fleetmetrics.files.find` takes files; or a data frame, which has no files.
        channel: of the workers.
        skip_bad_files: whether to leave out unreadable files.
    """
    sides = [_found(each, channel, skip_bad_files) if are_files(each) else Found([], []) for each in data]
    paths = iter(with_types([path for side in sides for path in side.paths]))
    return [side._replace(paths=[next(paths) for _ in side.paths]) for side in sides]


def _found(files: Any, channel: Communicator, skip_bad_files: bool) -> Found:
    found = look(files) if skip_bad_files else Found(find(files), [])
    if channel.world_size > 1 and "-" in found.paths:
        raise InvalidInputError("several workers cannot share the standard input; give files")
    return found


def are_files(data: Any) -> bool:
    """Whether these are paths instead of a data frame."""
    return isinstance(data, (str, os.PathLike, list, tuple, set))


def framed(frame: Any, wanted: Columns, baseline: bool) -> Any:
    """A data frame as an Arrow table.

    Args:
        frame: the data.
        wanted: the requested columns.
        baseline: whether these are the other side.
    """
    return table_of(frame, [*wanted.names, *wanted.looked_at], argument("baseline") if baseline else "data")


def of_frame(
    frame: Any, asked: Asked, *, baseline: bool = False, whole: bool = True, skip_bad_rows: bool = False
) -> Side:
    """Evaluate a data frame, or a dict of arrays; DataError if one cannot be used.

    Args:
        frame: the data.
        asked: the arguments.
        baseline: whether they are the other side.
        whole: whether this is all of the side; otherwise the largest slices are chosen later.
        skip_bad_rows: whether to skip and count rows with nulls or invalid values.
    """
    shape = asked.probe()
    metrics = shape.collection()
    columns = asked.columns_of(metrics)
    slices = {name: column for name, column in columns.items() if column != ROW}
    wanted = Columns(metrics, slices, asked.reading)
    name = argument("baseline") if baseline else "data"
    table = framed(frame, wanted, baseline)
    if whole:
        choose_largest(metrics, [table], slices, asked.max_slices, reading=asked.reading)
    # Rows have different numbers on each side: without ids, the sides are drawn independently.
    first = 1 << 62 if baseline and not asked.same_rows else 0
    metrics, read = of_tables([table], metrics, columns, skip_bad_rows, name, first, asked.reading)
    return Side(asked, shape, metrics, read, "", baseline)


# -- saved ------------------------------------------------------------------------------------------------


def save(path: str, side: Side) -> None:
    """Write a side, whole or not at all; InvalidInputError for one of several tasks."""
    if side.task is not None:
        raise InvalidInputError("this is one of several tasks, which one state holds; save the whole result")
    arrays = {("", name): array for name, array in side.metrics.state_dict().items()}
    write_arrays(path, arrays, {"version": __version__, "asked": side.asked.plain(), "read": side.read})


def states_of(states: Any, name: str = "states") -> list[str]:
    """The paths of saved states; one path is a list of one.

    Args:
        states: as given.
        name: the argument.
    """
    given = [states] if isinstance(states, (str, os.PathLike)) else listed(name, states, "paths")
    if not given:
        raise InvalidInputError(f"{name} is empty; name at least one")
    return [local_path(path_of(name, each)) for each in given]


def load(paths: Sequence[str], like: str, *, baseline: bool = False) -> tuple[Side, list[str]]:
    """Read files of `save` as one side, with warnings.

    Args:
        paths: the files.
        like: a file with the same arguments; the columns of the other side may have other names.
        baseline: whether this is the other side.

    Raises:
        CorruptFileError: a file is not a saved state.
        DataError: a file is missing, the arguments differ, a file has a different version, or some data are in two
            states.
    """
    for path in {like: None, **dict.fromkeys(paths)}:
        _check_is_there(path)
    path, (_, note) = like, _contents(like, lambda *_: False)
    reads: list[tuple[str, Read]] = []

    def states() -> Iterator[dict[str, Any]]:
        nonlocal path, note
        for path in paths:
            arrays, note = _contents(path)
            differs = difference(
                _alike(Asked.of_plain(note["asked"]).plain(), baseline), _alike(asked.plain(), baseline)
            )
            if differs:
                differs = differs.replace(", here ", f" in {like}, here ")
                raise InvalidInputError(f"it cannot be combined with {like}: {differs}")
            reads.append((path, read_of(note["read"])))
            yield {name: array for (_, name), array in arrays.items()}

    try:
        asked = Asked.of_plain(note["asked"])
        if baseline:  # its slices may lack the states of a comparison, or have only those
            own = _contents(paths[0], lambda *_: False)[1]["asked"]
            asked = replace(asked, compared=own.get("compared"))
        shape = asked.probe()
        metrics = shape.collection()
        metrics._hold(states())
    except InvalidInputError as error:
        raise DataError(f"{path}, by fleetmetrics {note.get('version')}: {error}") from None
    except FleetMetricsError:
        raise
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except MISFITS as error:
        raise CorruptFileError(f"{path}: its arguments are malformed ({type(error).__name__}: {error})") from None
    said = [f"{state} lacks {_listed(read.bad_files)}" for state, read in reads if read.bad_files]
    said += _counted_twice(reads)
    known = (*paths, *map(os.path.abspath, paths))
    return Side(asked, shape, metrics, together(read for _, read in reads), "", baseline, known), said


def _contents(path: str, *wanted: Callable[[str, str], bool]) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the note of a file of `save`; CorruptFileError for the file of any other function."""
    arrays, note = read_arrays(path, *wanted)
    if not isinstance(note, dict) or not {"asked", "read"} <= note.keys() or not isinstance(note["asked"], dict):
        writers = "fleetmetrics evaluate --save-state and EvaluationResult.save_state write those"
        raise CorruptFileError(f"{path} is a file of fleetmetrics, but no saved evaluation: {writers}")
    return arrays, note


def _check_is_there(path: str) -> None:
    """Raise DataError unless this is a file that can be opened."""
    try:
        with open(path, "rb"):
            return
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name the states in it") from None
    except FileNotFoundError:
        pattern = re.search(r"[*?[]", path)
        why = "; only the shell expands patterns, if they are unquoted and match files" if pattern else ""
        raise DataError(f"there is no file {path}{why}") from None
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror or error}") from None


def _alike(asked: Mapping[str, Any], baseline: bool) -> dict[str, Any]:
    """The arguments that two states must share: a baseline's columns may have other names."""
    alike = {name: each for name, each in asked.items() if name not in ("header", *ON_FILES)}
    if not baseline:
        return alike
    return {**alike, "columns": ", ".join(sorted(asked["columns"])), "compared": None, "join": None}


def _listed(bad: Sequence[str]) -> str:
    """Files that a state lacks, in words."""
    number = "a file that" if len(bad) == 1 else f"{len(bad)} files that"
    return f"{number} could not be used: {'; '.join(bad[:3])}{'; ...' if bad[3:] else ''}"


def _counted_twice(reads: Sequence[tuple[str, Read]]) -> list[str]:
    """The warning if rows may count twice; DataError if they do."""
    for state, number in Counter(os.path.realpath(state) for state, _ in reads).items():
        if number > 1:
            raise DataError(f"{state} is given {number} times: its rows would count {number} times; name it once")
    said: list[str] = []
    paths: dict[str, tuple[str, Any]] = {}
    contents: dict[Any, tuple[str, str]] = {}
    for state, read in reads:
        for source in read.sources:
            if not source.rows:
                continue
            content = source.size, source.digest
            before = contents.setdefault(content, (state, source.path))
            if before == (state, source.path):
                earlier, of = paths.setdefault(source.path, (state, content))
                if of != content:
                    said.append(
                        f"{source.path} was read for {earlier}, and again for {state} with different contents: rows "
                        "that both readings have count twice"
                    )
            elif before[1] == source.path:
                raise DataError(
                    f"{source.path} is in {before[0]} and in {state}: its rows would count twice; merge each file once"
                )
            elif before[0] != state:  # in one state, that was asked for
                said.append(
                    f"{before[1]}, which is in {before[0]}, and {source.path}, in {state}, look the same in size, "
                    "beginning and end; if they are copies, their rows count twice"
                )
    return said


def errors_of(sides: Sequence[Side]) -> list[str]:
    """The errors in the data of sides: unusable files, no rows, and a label that no file has."""
    errors = [side.error for side in sides if side.error]
    errors += [] if errors else [_no_rows(side) for side in sides if not any(_rows_of_tasks(side))]
    for side in (view for each in sides for view in each.of_tasks()):
        asked, positives = side.asked, side.members.sizes.get("positives")
        if errors or asked.positive is None or positives is None or not side.read.rows:
            continue
        if not positives.compute_local():
            column = asked.columns["label"]
            there = _labels_in(side.read.files[:1], column, asked) if isinstance(column, str) else ""
            which = f"{'baseline: ' if side.baseline else ''}{argument('positive')} {asked.positive!r}"
            errors.append(f"{which}: no row has that label in column {column!r}{there}")
    return errors


def _rows_of_tasks(side: Side) -> list[int]:
    """The number of rows that count for each task."""
    return [view.members.rows.compute_local() for view in side.of_tasks()]


def _no_rows(side: Side) -> str:
    """The error for a side without rows that count, and where its rows are."""
    read, which = side.read, "baseline: " if side.baseline else ""
    rows = side.members.rows.compute_local()
    where = {
        f"left out by {argument('where')}": read.left_out,
        "with ids on this side only": read.unmatched,
        "skipped": read.skipped,
        "without a label": rows,
        "with weight 0": read.rows - read.skipped - rows,
    }
    rows = [f"{counted(number, 'rows')} {what}" for what, number in where.items() if number]
    rows += [f"{counted(len(read.bad_files), 'files')} skipped"] if read.bad_files else []
    files = f" in {counted(len(read.files), 'files')}" if read.files else ""
    return f"{which}there are no rows to evaluate{files}{': ' * bool(rows)}{', '.join(rows)}"


def _labels_in(paths: Sequence[str], column: str, asked: Asked) -> str:
    """Some of the labels that files have, in words."""
    options = {name: getattr(asked, name) for name in ("header", *ON_FILES)}
    wanted = Columns(Joined(), {"id": column}, Reading(**options))
    for path in paths:
        for piece in pieces_of(path, None, wanted, lambda text: None):
            values = piece.table.column(column).unique().to_pylist()[:5]
            return f"; there are {', '.join(map(repr, values))}"
    return ""


# -- of several workers -----------------------------------------------------------------------------------


def of_workers(
    channel: Communicator,
    make: Callable[[], tuple[Any, Sequence[Side]]],
    finish: Callable[[list[Side]], Any],
    trouble: BaseException | None = None,
    timeout: float | None = None,
) -> Any:
    """Bring each worker's part to rank 0, and give all workers the result of ``finish`` there.

    Args:
        channel: of the workers.
        make: makes this worker's sides, and names the files that it sees: the others must see the same.
        finish: called on rank 0 only; returns values that `pack` takes.
        trouble: an earlier error on this worker.
        timeout: seconds to wait for the others, once this worker has its part.

    Raises:
        FleetMetricsError: the error of a worker, the same on all.
    """
    if channel.world_size == 1 and trouble is None:
        return finish(list(make()[1]))
    sides: Sequence[Side] = ()

    def decide(letters: Sequence[Letter]) -> Letter:
        saw, were_asked, made = zip(*(unpack(*letter) for letter in letters))
        for rank, each in enumerate(were_asked):
            differs = difference(each, were_asked[0])
            if differs:
                text = differs.replace(", here ", " on rank 0, here ")
                raise InvalidInputError(f"rank {rank} got different arguments from rank 0: {text}")
        if any(each != saw[0] for each in saw):
            raise DataError("the workers do not see the same files; put them on a file system that all workers share")
        done = finish([_together(side, parts) for side, parts in zip(sides, zip(*made))])
        return Letter(*pack(done, False, "the result of all workers"))

    with channel.call(_CALL, timeout, trouble) as call:
        seen, sides = make()
        asked = [side.asked.plain() for side in sides]
        letter = pack([seen, asked, _packed(sides)], False, "a worker's result")
        call.prepared()
        return unpack(*call.consult(decide, *letter))


def of_all_workers(
    channel: Communicator,
    make: Callable[[], tuple[Any, list[Side]]],
    trouble: BaseException | None = None,
    timeout: float | None = None,
) -> list[Side]:
    """The sides over the data of all workers, on each of them.

    Args:
        channel: of the workers.
        make: as for `of_workers`.
        trouble: an earlier error on this worker.
        timeout: as for `of_workers`.
    """
    if channel.world_size == 1 and trouble is None:
        return make()[1]
    sides: list[Side] = []

    def kept() -> tuple[Any, list[Side]]:
        seen, made = make()
        sides.extend(made)
        return seen, made

    parts = of_workers(channel, kept, _packed, trouble, timeout)
    return [_together(side, [part]) for side, part in zip(sides, parts)]


def _packed(sides: Sequence[Side]) -> list[list[Any]]:
    """The parts of sides that another worker needs."""
    return [[_plain(side.read), side.error, side.metrics.state_dict()] for side in sides]


def _plain(read: Read) -> list[Any]:
    """A record of the data read, as JSON holds it; see `read_of`."""
    return [*read._replace(sources=[list(each) for each in read.sources])]  # type: ignore[arg-type]


def _together(side: Side, parts: Sequence[Any]) -> Side:
    side.metrics._hold(arrays for *_, arrays in parts)
    read = together(read_of(read) for read, *_ in parts)
    errors = [error for _, error, _ in parts if error]
    return replace(side, read=read._replace(files=tuple(sorted(read.files))), error=min(errors, default=""))
