"""The match of the rows of both sides: the ids that both have, and a check that they are the same."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, Callable, Collection, Iterable, Sequence

import numpy as np

from fleetmetrics.base.metric import Metric
from fleetmetrics.batch.hashing import words
from fleetmetrics.batch.keys import Coded
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.comm import Communicator, LocalCommunicator
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluation.question.counted import Joined, ids_with_labels
from fleetmetrics.evaluation.question.probe import Probe
from fleetmetrics.evaluation.question.question import OTHER, Question
from fleetmetrics.evaluation.sides.side import Side
from fleetmetrics.evaluation.sides.side_of_data import are_files, framed, shared_files
from fleetmetrics.files import ROW, evaluate_file
from fleetmetrics.files.ids import Ids, ids_of, together
from fleetmetrics.serial.descriptions import Letter
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.support.vocabulary import argument, counted
from fleetmetrics.xp import numpy_ops

__all__ = ["check_joined", "check_kinds", "common_ids"]


# -- those of both sides ----------------------------------------------------------------------------------


def common_ids(
    channel: Communicator,
    questions: Callable[[], Sequence[Question]],
    data: Sequence[Any],
    *,
    skip_bad_rows: bool = False,
    skip_bad_files: bool = False,
    trouble: BaseException | None = None,
    timeout: float | None = None,
) -> CommonIds:
    """The ids that both sides have, over the data of all workers; each worker reads the ids of its share.

    Args:
        channel: of the workers.
        questions: makes the `Question` of each side, or raises its error.
        data: files or a data frame of each side.
        skip_bad_rows: whether to skip rows without a value in some column.
        skip_bad_files: whether to skip unreadable files.
        trouble: an earlier error on this worker.
        timeout: seconds to wait for the others, once this worker has its ids.

    Raises:
        InvalidInputError: an argument is invalid.
        DataError: no id is on both sides.
    """
    asked: list[Question] = []

    def make() -> list[Ids]:
        asked.extend(questions())
        ids = []
        files = shared_files(data, channel, skip_bad_files)
        for place, side in enumerate(data):
            sources: Any = side
            if are_files(side):
                paths = files[place].paths
                if "-" in paths:
                    raise InvalidInputError(
                        f"{argument('join', 'inner')} reads the data twice; the standard input can be read only once"
                    )
                sources = paths[channel.rank :: channel.world_size]
            ids.append(_ids(sources, asked[place], place > 0, skip_bad_rows))
        return ids

    if channel.world_size == 1 and trouble is None:
        return _common(make(), asked[0])

    def decide(letters: Sequence[Letter]) -> Letter:
        workers = [[Ids(*ids) for ids in unpack(*letter)] for letter in letters]
        common = _common([together(parts) for parts in zip(*workers)], asked[0])
        return Letter(*pack([common.ids], False, "the ids of both sides"))

    with channel.call("evaluate: the ids of both sides", timeout, trouble) as call:
        letter = pack([list(ids_of_side) for ids_of_side in make()], False, "the ids of a worker")
        call.prepared()
        (ids,) = unpack(*call.consult(decide, *letter))
    return CommonIds(ids)


def _ids(sources: Any, asked: Question, baseline: bool, skip_bad_rows: bool) -> Ids:
    """The ids of paths, or of a data frame."""
    metrics: Any = Joined()
    columns: dict[str, Any] = {"id": asked.roles["id"]}
    if skip_bad_rows:  # a row that lacks any value counts on neither side
        metrics = asked.probe().collection()
        columns = {name: column for name, column in asked.columns_of(metrics).items() if column != ROW}
    wanted = Columns(metrics, columns, asked.reading)
    tables = sources if isinstance(sources, list) else [framed(sources, wanted, baseline)]
    return ids_of(tables, wanted, wanted.required)


def _common(sides: Sequence[Ids], asked: Question) -> CommonIds:
    common = CommonIds.of([side.numbers for side in sides])
    if all(side.kinds for side in sides):  # for a side without ids, the passes report the reason
        if sides[0].kinds != sides[1].kinds:
            raise DataError(_of_other_kinds(asked, [side.kinds for side in sides]))
        if not len(common.ids):
            raise DataError(_nothing_common(asked))
    return common


def _nothing_common(asked: Question) -> str:
    which = argument("join_on", asked.roles["id"])
    return f"{which}: no id is on both sides; are these the same ids, in the same form?"


def _of_other_kinds(asked: Question, kinds: Sequence[Collection[str]]) -> str:
    """The error for ids that are integers on one side, and strings on the other."""
    column, (own, others) = asked.roles["id"], (" and ".join(sorted(names)) for names in kinds)
    how = f"{argument('text', column)} makes both strings"
    return f"{argument('join_on', column)}: ids are {own} here, but {others} in the baseline; {how}"


def check_kinds(by: Sequence[str], values: Probe[Any], others: Probe[Any]) -> None:
    """Raise DataError if keys are integers on one side and strings on the other: no slice would be on both.

    Args:
        by: the columns of slices.
        values: of the new side.
        others: of the baseline.
    """
    for column, *sides in zip(by, values.slices, others.slices):
        kinds = [_kinds_of(slices.rows) for slices in sides]
        if all(kinds) and not kinds[0] & kinds[1]:
            own, theirs = (" and ".join(sorted(names)) for names in kinds)
            how = f"{argument('text', column)} makes both strings"
            raise DataError(f"{argument('by')}: keys of {column} are {own} here, but {theirs} in the baseline; {how}")


def _kinds_of(keys: Iterable[Any]) -> set[str]:
    known = [key for key in keys if key is not None and key != OTHER]
    return {"strings" if isinstance(key, str) else "integers" for key in known}


# -- whether they are the same ----------------------------------------------------------------------------

#: To find an example of what differs, ids with their labels fall into this many buckets, by each of two hashes.
_BUCKETS, _SEED = 1 << 16, 2
#: The kinds of ids.
_KINDS = ("integers", "strings")


def check_joined(new: Side, old: Side, channel: Communicator | None = None, timeout: float | None = None) -> None:
    """Raise DataError unless both sides have the same ids with the same labels; with an example if there are files.

    Args:
        new: the new side.
        old: the other side.
        channel: of the workers that all check the same sides, and share their files; None: this process alone.
        timeout: seconds to wait for the other workers; None: FLEETMETRICS_TIMEOUT, else 1,800, or
            300 until all have met.
    """
    sides = new, old
    one, other = (side.members.joined.compute_local().tolist() for side in sides)  # type: ignore[union-attr]
    if new.asked.join and new.task is None and not one[-1] and not other[-1]:
        raise DataError(_nothing_common(new.asked))
    if one == other:
        return
    which, rows = argument("join_on", new.asked.roles["id"]), f"{counted(one[-1], 'rows')} against {other[-1]:,}"
    example = _example(sides, channel or LocalCommunicator(), timeout) if all(map(_can_be_read, sides)) else ""
    raise DataError(f"{which}: ids and labels differ from the baseline's: {rows}{example}")


def _can_be_read(side: Side) -> bool:
    """Whether there are files, and a saved state does not lack the ids that are common."""
    return bool(side.read.files) and not (side.asked.join and side.asked.common is None)


def _example(sides: Sequence[Side], channel: Communicator, timeout: float | None) -> str:
    """An id with its label that the sides have differently often; empty if reading once more finds none.

    The files are read twice: the first time ids with their labels are counted by their hashes, the second time only
    those of one hash are kept. So the memory depends neither on the rows nor on what differs.

    Args:
        sides: new and old.
        channel: of the workers that share the files.
        timeout: seconds to wait for the others.

    Raises:
        DataError: ids are integers on one side, and strings on the other; raised on every worker.
    """
    tables, failures = np.zeros((2, 2 * _BUCKETS + len(_KINDS)), np.int64), 1
    with contextlib.suppress(DataError, OSError):  # a file has changed, or gone
        tables, failures = np.stack([_read_again(side, _Counts, channel).table for side in sides]), 0
    *numbers, failures = channel.all_reduce(np.append(tables, failures), timeout=timeout)
    if failures:
        return ""
    tables = np.reshape(numbers, tables.shape)
    kinds = [{name for name, number in zip(_KINDS, table[-2:]) if number} for table in tables]
    if kinds[0] != kinds[1]:
        raise DataError(_of_other_kinds(sides[0].asked, kinds))
    here, there = tables[:, :-2]
    differ = np.flatnonzero(here != there)
    if not len(differ):
        return ""
    bucket = int(differ[(here + there)[differ].argmin()])
    counts: list[list[Any]] = [[], []]
    with contextlib.suppress(DataError, OSError):
        counts = [list(_read_again(side, lambda: _Chosen(bucket), channel).rows.items()) for side in sides]
    gathered = channel.all_gather_object(counts, timeout=timeout)
    before, after = (
        sum((Counter({tuple(key): number for key, number in rows[at]}) for rows in gathered), Counter())
        for at in range(2)
    )
    if before == after:
        return ""
    key, label = min([*(before - after), *(after - before)])
    times = f"{counted(before[key, label], 'times')} here and {counted(after[key, label], 'times')} there"
    return f"; {key!r} with label {label:g} occurs {times}"


def _read_again(side: Side, make: Callable[[], Any], channel: Communicator) -> Any:
    """A metric of this worker's share of the files."""
    columns = {name: side.asked.roles[name] for name in ("prediction", "label", "id")}
    metrics = make()
    settings: Any = {"skip_bad_rows": True, "reading": side.asked.reading}
    for path in side.read.files[channel.rank :: channel.world_size]:
        evaluate_file(path, lambda: metrics, columns, **settings)
    return metrics


def _buckets(ids: Any, labels: Any) -> np.ndarray:
    """The bucket of each id with its label, by each hash: ``[2, n]``."""
    low, high = words(numpy_ops, ids_with_labels(ids, labels), _SEED)
    return np.stack([low % _BUCKETS, high % _BUCKETS + _BUCKETS]).astype(np.int64)


class _Counts(Metric):
    """The numbers of ids with their labels by bucket, and of ids of each kind."""

    columns = ("id",)

    def __init__(self) -> None:
        super().__init__()
        self.table: np.ndarray = np.zeros(2 * _BUCKETS + len(_KINDS), np.int64)

    def add(self, prediction: Any, label: Any, id: Any) -> None:  # type: ignore[override]
        self.table[: 2 * _BUCKETS] += np.bincount(_buckets(id, label).ravel(), minlength=2 * _BUCKETS)
        self.table[2 * _BUCKETS + (id.dtype.kind == "U")] += len(id)


class _Chosen(Metric):
    """The rows of one bucket, by id and label."""

    columns = ("id",)

    def __init__(self, bucket: int) -> None:
        super().__init__()
        self.bucket = bucket
        self.rows: Counter[Any] = Counter()

    def add(self, prediction: Any, label: Any, id: Any) -> None:  # type: ignore[override]
        mine = (_buckets(id, label) == self.bucket).any(axis=0)
        ids = id[mine]
        ids = ids.texts() if isinstance(ids, Coded) else ids
        self.rows.update(zip(ids.tolist(), np.asarray(label, np.float64)[mine].tolist()))
