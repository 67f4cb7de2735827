"""The match of the rows of both sides: the ids that both have, and a check that they are the same."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Collection, Sequence

import numpy as np

from fleetmetrics.batch.keys import Coded
from fleetmetrics.comm import Communicator
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.failures import Caught
from fleetmetrics.dataframes import Columns
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluation.asked import Asked
from fleetmetrics.evaluation.counted import Joined
from fleetmetrics.evaluation.side import Side, are_files, framed, shared_files
from fleetmetrics.files import ROW, evaluate_file
from fleetmetrics.files.ids import Ids, ids_of, together
from fleetmetrics.joining import CommonIds
from fleetmetrics.metric import Metric
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.vocabulary import argument, counted

__all__ = ["check_joined", "common_ids"]


# -- those of both sides ----------------------------------------------------------------------------------


def common_ids(
    channel: Communicator,
    questions: Callable[[], Sequence[Asked]],
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
        questions: makes the `Asked` of each side, or raises its error.
        data: files or a data frame of each side.
        skip_bad_rows: whether to skip rows without a value in some column.
        skip_bad_files: whether to skip unreadable files.
        trouble: an earlier error on this worker.
        timeout: seconds to wait for the others, once this worker has its ids.

    Raises:
        InvalidInputError: an argument is invalid.
        DataError: no id is on both sides.
    """
    asked: list[Asked] = []

    def make() -> list[Ids]:
        asked.extend(questions())
        found = []
        for place, each in enumerate(data):
            sources: Any = each
            if are_files(each):
                paths, _ = shared_files(each, channel, skip_bad_files)
                if "-" in paths:
                    raise InvalidInputError(
                        f"{argument('join', 'inner')} reads the data twice; the standard input can be read only once"
                    )
                sources = paths[channel.rank :: channel.world_size]
            found.append(_ids(sources, asked[place], place > 0, skip_bad_rows))
        return found

    if channel.world_size == 1 and trouble is None:
        return _common(make(), asked[0])
    letter, call = Letter(None), "evaluate: the ids of both sides"
    with channel.leaving(call), Caught(trouble) as caught:
        letter = Letter(*pack([list(each) for each in make()], False, "the ids of a worker"))

    def decide(letters: Sequence[Letter]) -> Letter:
        workers = [[Ids(*ids) for ids in unpack(*letter)] for letter in letters]
        found = _common([together(parts) for parts in zip(*workers)], asked[0])
        return Letter(*pack([found.ids], False, "the ids of both sides"))

    (ids,) = unpack(*channel.consult(call, decide, *letter, timeout=timeout, trouble=caught.error))
    return CommonIds(ids)


def _ids(sources: Any, asked: Asked, baseline: bool, skip_bad_rows: bool) -> Ids:
    """The ids of paths, or of a data frame."""
    metrics: Any = Joined()
    columns: dict[str, Any] = {"id": asked.columns["id"]}
    if skip_bad_rows:  # a row that lacks any value counts on neither side
        metrics = asked.probe().collection()
        columns = {name: column for name, column in asked.columns_of(metrics).items() if column != ROW}
    wanted = Columns(metrics, columns, asked.reading)
    tables = sources if isinstance(sources, list) else [framed(sources, wanted, baseline)]
    return ids_of(tables, wanted, wanted.required)


def _common(sides: Sequence[Ids], asked: Asked) -> CommonIds:
    found = CommonIds.of([each.numbers for each in sides])
    if all(each.kinds for each in sides):  # for a side without ids, the passes report the reason
        if sides[0].kinds != sides[1].kinds:
            raise DataError(_of_other_kinds(asked, [each.kinds for each in sides]))
        if not len(found.ids):
            raise DataError(_nothing_common(asked))
    return found


def _nothing_common(asked: Asked) -> str:
    which = argument("join_on", asked.columns["id"])
    return f"{which}: no id is on both sides; are these the same ids, in the same form?"


def _of_other_kinds(asked: Asked, kinds: Sequence[Collection[str]]) -> str:
    """The error for ids that are integers on one side, and strings on the other."""
    column, (own, others) = asked.columns["id"], (" and ".join(sorted(each)) for each in kinds)
    how = f"{argument('text', column)} makes both strings"
    return f"{argument('join_on', column)}: ids are {own} here, but {others} in the baseline; {how}"


# -- whether they are the same ----------------------------------------------------------------------------


def check_joined(new: Side, old: Side) -> None:
    """Raise DataError unless both sides have the same ids with the same labels; with an example if there are files."""
    one, other = (side.members.joined.compute_local().tolist() for side in (new, old))  # type: ignore[union-attr]
    if new.asked.join and not one[-1] and not other[-1]:
        raise DataError(_nothing_common(new.asked))
    if one == other:
        return
    try:
        here, there = (_counted(side) for side in (new, old))
        kinds = [{"strings" if isinstance(key, str) else "integers" for key, _ in each} for each in (here, there)]
        if kinds[0] != kinds[1]:
            raise _OtherKindError(_of_other_kinds(new.asked, kinds))
        key, label = min([*(here - there), *(there - here)])
        times = f"{counted(here[key, label], 'times')} here and {counted(there[key, label], 'times')} there"
        example = f"; {key!r} with label {label:g} occurs {times}"
    except _OtherKindError:
        raise
    except ValueError:
        example = ""
    column, rows = new.asked.columns["id"], f"{counted(one[-1], 'rows')} against {other[-1]:,}"
    which = argument("join_on", column)
    raise DataError(f"{which}: ids and labels differ from the baseline's: {rows}{example}")


class _OtherKindError(DataError):
    """Ids are integers on one side, and strings on the other."""


class _Counted(Metric):
    """All rows by id and label, to find an example after an error."""

    columns = ("id",)

    def __init__(self) -> None:
        super().__init__()
        self.rows: Counter[Any] = Counter()

    def add(self, prediction: Any, label: Any, id: Any) -> None:  # type: ignore[override]
        ids = id.texts() if isinstance(id, Coded) else id
        self.rows.update(zip(ids.tolist(), np.asarray(label, np.float64).tolist()))


def _counted(side: Side) -> Counter[Any]:
    if side.asked.join and side.asked.common is None:
        raise ValueError("a saved state does not record which ids are common")
    columns = {name: side.asked.columns[name] for name in ("prediction", "label", "id")}
    settings: Any = {"skip_bad_rows": True, "reading": side.asked.reading}
    found = (evaluate_file(path, _Counted, columns, **settings).metrics.rows for path in side.read.files)
    return sum(found, Counter())
