"""What the command line compares, of files, saved states and all workers; and the result, which all outputs read."""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import operator
import re
import warnings
from collections import Counter
from datetime import datetime, timezone
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics._version import __version__
from fleetmetrics.batch.keys import Coded
from fleetmetrics.cli.choices import collection, columns_of, evidence_for, keys_of
from fleetmetrics.cli.evidence import Evidence
from fleetmetrics.cli.slices import SIZES, judged
from fleetmetrics.comm import Communicator
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.errors import CorruptFileError, DataError, FleetMetricsError, InvalidInputError
from fleetmetrics.files import Read, evaluate, evaluate_file, together
from fleetmetrics.formulas.bootstrap import BootstrapResult, bootstrap_result
from fleetmetrics.metric import Metric
from fleetmetrics.serial import MISFITS
from fleetmetrics.serial.container import read_arrays, write_arrays
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.settings import difference
from fleetmetrics.wrappers.bootstrap import Bootstrap

__all__ = ["check_joined", "failed", "load", "of_files", "of_workers", "result_of", "save"]

_CONDITION = re.compile(r"\s*(.+?)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*")
_SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class Side(NamedTuple):
    """One side of a comparison, or the only one."""

    metrics: Any  #: what `collection` makes
    read: Read
    asked: dict[str, Any]
    error: str = ""  #: of a file that could not be used; the metrics hold the others


def of_files(paths: Sequence[str], asked: dict[str, Any], close: bool = False, **settings: Any) -> Side:
    """Evaluate files; there may be none. ``close``: nothing more is to come of their users."""
    make = functools.partial(collection, asked)
    metrics = make()
    read, said = Read(), ""
    columns = columns_of(metrics, asked)
    if close and {each.table.columns[0] for each in metrics.record_metrics()} == {"user"} and "-" not in paths:
        settings["complete_by"] = "user"
    try:
        if paths:
            metrics, read = evaluate(paths, make, columns, **settings)
    except DataError as error:
        metrics, read = error.evaluated or (metrics, read)
        said = str(error)
    return Side(metrics, read, asked, said)


def save(path: str, side: Side) -> None:
    """Write a side, whole or not at all."""
    arrays = {("", name): array for name, array in side.metrics.state_dict().items()}
    write_arrays(path, arrays, {"version": __version__, "asked": side.asked, "read": side.read})


def load(paths: Sequence[str], like: str) -> tuple[Side, list[str]]:
    """What `save` has written to files as one side, and what to warn of.

    CorruptFileError for something else; DataError for another version's, and if not the same was asked as of the file
    ``like``, but for the names of columns.
    """
    path, (_, note) = like, read_arrays(like, lambda *_: False)
    reads: list[Read] = []

    def states() -> Iterator[dict[str, Any]]:
        nonlocal path, note
        for path in paths:
            arrays, note = read_arrays(path)
            differs = difference(_alike(note["asked"]), _alike(asked))
            if differs:
                differs = differs.replace(", here ", f" in {like}, here ")
                raise InvalidInputError(f"it does not go together with {like}: {differs}")
            reads.append(Read(*note["read"]))
            yield {name: array for (_, name), array in arrays.items()}

    try:
        asked = note["asked"]
        metrics = collection(asked)
        metrics._hold(states())
    except InvalidInputError as error:
        raise DataError(f"{path}, by fleetmetrics {note.get('version')}: {error}") from None
    except FleetMetricsError:
        raise
    except MISFITS as error:
        raise CorruptFileError(f"{path}: --save-state has not written this ({type(error).__name__}: {error})") from None
    often = Counter(name for read in reads for name in read.files)
    said = [f"{name} is in {times} states: its rows count {times} times" for name, times in often.items() if times > 1]
    return Side(metrics, together(reads), asked), said


def _alike(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {**asked, "columns": ", ".join(sorted(asked["columns"]))}


def of_workers(
    channel: Communicator, sides: Sequence[Side], paths: Any, finish: Callable[[list[Side]], tuple[int, str]]
) -> tuple[int, str]:
    """Bring what each worker has made of its share to rank 0, and tell all what ``finish`` makes of it there.

    ``paths`` are the files that this worker sees, which must be those that the others see.
    """
    mine = [[list(side.read), side.error, side.metrics.state_dict()] for side in sides]
    letter = Letter(*pack([paths, mine], False, "what a worker has made"))

    def decide(letters: Sequence[Letter]) -> Letter:
        seen, made = zip(*(unpack(*letter) for letter in letters))
        if any(each != seen[0] for each in seen):
            raise DataError("the workers do not see the same files; put them where all of them see them")
        return Letter(finish([_together(side, parts) for side, parts in zip(sides, zip(*made))]))

    status, text = channel.consult("evaluate", decide, *letter).note
    return status, text


def _together(side: Side, parts: Any) -> Side:
    side.metrics._hold(arrays for *_, arrays in parts)
    read = together(Read(*read) for read, *_ in parts)
    errors = [error for _, error, _ in parts if error]
    return side._replace(read=read._replace(files=tuple(sorted(read.files))), error=min(errors, default=""))


def check_joined(new: Side, old: Side) -> None:
    """Raise DataError unless both sides have the same ids with the same labels; with an example, if files are there."""
    one, other = (side.metrics.metrics[" joined"].compute_local().tolist() for side in (new, old))
    if one == other:
        return
    try:
        here, there = (_counted(side) for side in (new, old))
        key, label = min([*(here - there), *(there - here)])
        example = f"; {key!r} with label {label:g} is {here[key, label]} times here, {there[key, label]} times there"
    except ValueError:
        example = ""
    column, rows = new.asked["columns"]["id"], f"{one[-1]:,} rows against {other[-1]:,}"
    raise DataError(f"--join-on {column}: ids and labels are not those of the baseline: {rows}{example}")


class _Counted(Metric):
    """All rows, by id and label: to find an example, after an error."""

    columns = ("id",)

    def __init__(self) -> None:
        super().__init__()
        self.rows: Counter[Any] = Counter()

    def add(self, prediction: Any, label: Any, id: Any) -> None:  # type: ignore[override]
        ids = id.texts() if isinstance(id, Coded) else id
        self.rows.update(zip(ids.tolist(), np.asarray(label, np.float64).tolist()))


def _counted(side: Side) -> Counter[Any]:
    columns = {name: side.asked["columns"][name] for name in ("prediction", "label", "id")}
    found = (evaluate_file(path, _Counted, columns, skip_bad_rows=True).metrics.rows for path in side.read.files)
    return sum(found, Counter())


def result_of(new: Side, old: Side | None, command: str = "", said: Sequence[str] = ()) -> dict[str, Any]:
    """The result of a side, of its comparison with ``old``, and of how it was asked; ``said`` are warnings so far."""
    keys = list(keys_of(new.asked["metrics"]))
    texts = list(said)
    values, others = _computed(new, texts), None
    if old is not None:
        for metric in old.metrics.metrics.values():
            if isinstance(metric, Bootstrap) and metric.ids is None:
                metric.seed += 1  # or both sides would draw from the same numbers
        others = _computed(old, texts, "baseline: ")
    result = {key: values[key] for key in keys}
    result["rows"] = values[" rows"]
    for key in keys:
        one, other = (_interval(each, f"{key} interval") for each in (values, others or {}))
        if one:
            result[f"{key}_interval"] = _ends(one, values[key])
        if others and _is_number(values[key]) and _is_number(others[key]):
            result[f"{key}_delta"] = delta = {"value": values[key] - others[key]}
            if one and other:
                delta.update(_ends(_less(one, other), delta["value"]))
    asked = {name: value for name, value in new.asked.items() if value is not None}
    result.update(
        data=_data(new, values),
        asked={**asked, "metrics": keys, "command": command, "version": __version__},
        **judged(values, keys, asked["by"], *_ranked_by(new), asked.get("ci", 0.95)),
        baseline=old
        and others
        and {"data": _data(old, others), "rows": others[" rows"], **{key: others[key] for key in keys}},
        warnings=list(dict.fromkeys(texts)),
    )
    for side, each in ((result, values), (result["baseline"] or {}, others or {})):
        by_k = {key[6:]: value for key, value in each.items() if key.startswith(" at k ")}
        side.update({"at_k": by_k} if by_k else {})
    return _plain(result)


def _ranked_by(side: Side) -> tuple[Evidence | None, str]:
    """How the metric that ranks slices is tested, if it is, and which of its values are the better ones."""
    first = side.metrics.metrics[next(iter(keys_of(side.asked["metrics"])))]
    return evidence_for(side.asked) if side.asked["by"] else None, first.better


def _computed(side: Side, texts: list[str], about: str = "") -> dict[str, Any]:
    """The values; warnings go to the texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values: dict[str, Any] = side.metrics.compute_local()
    texts += [f"{about}{each.message}" for each in caught]
    return values


def _data(side: Side, values: Mapping[str, Any]) -> dict[str, Any]:
    """What was read, of which so many rows count: those of weight 0 are left out everywhere, and told here."""
    rows = values[" rows"]
    columns = [[each] if isinstance(each, str) else each for each in side.asked["columns"].values()]
    nulls = dict.fromkeys([*itertools.chain(*columns), *side.asked["by"]], 0)
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    read, counted = (
        side.read._asdict(),
        {"rows": rows + side.read.skipped, "weight_0": side.read.rows - rows - side.read.skipped},
    )
    sizes = {name: values[f" {name}"] for name in SIZES if f" {name}" in values}
    return {**read, **counted, **sizes, "nulls": {**nulls, **side.read.nulls}, "date": date}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


def _interval(values: Mapping[Any, Any], name: Any) -> BootstrapResult | None:
    """The interval of a number; None if there is none."""
    found = values.get(name)
    return found if isinstance(found, BootstrapResult) and _is_number(found.value) else None


def _less(one: BootstrapResult, other: BootstrapResult) -> BootstrapResult:
    """The interval of the difference: who is drawn for one side is drawn for the other, too."""
    found = bootstrap_result.bare(math.nan, one.replicates - other.replicates, 0, None, one.confidence)
    return found._replace(value=one.value - other.value)


def _ends(interval: BootstrapResult, value: float) -> dict[str, float]:
    """The ends of an interval that is moved to a value."""
    moved = value - interval.value
    return {"low": interval.low + moved, "high": interval.high + moved}


def _plain(value: Any) -> Any:
    """What JSON holds: named tuples as dicts, arrays as lists, nan and infinity as None."""
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def failed(texts: Sequence[str], result: Mapping[str, Any], early: bool = False) -> list[str]:
    """What to say of each condition that holds; an undefined number fails, whatever it is compared with.

    InvalidInputError if a condition is none, or the result has no number of that name. ``early``: nothing is in the
    result yet, so there may be more inside of the values and of what was read.
    """
    said, there = [], dict(_by_path(result)) if texts else {}
    there = {name: each for name, each in there.items() if name != "baseline" and not name.startswith("asked.")}
    within = [*result["asked"]["metrics"], "data", "slices", "explained"]
    if result["baseline"]:
        within.append("baseline")
    for text in texts:
        try:
            path, sign, limit = _CONDITION.fullmatch(text).groups()  # type: ignore[union-attr]
            number = float(limit)
            if math.isnan(number):  # with which nothing compares
                raise ValueError
        except (AttributeError, ValueError):
            what = f"a name, one of {' '.join(_SIGNS)}, and a number"
            raise InvalidInputError(f"--fail-if {text!r} must be {what}, like 'auc<0.77'") from None
        value = there.get(path, "")
        if value is None:
            said.append(f"--fail-if {text!r} fails: {path} is undefined")
        elif _is_number(value) and getattr(operator, _SIGNS[sign])(value, number):
            away = f", {abs(value - number):.6g} {'below' if value < number else 'above'}" if value != number else ""
            said.append(f"--fail-if {text!r} holds: {path} is {value:.6g}{away}")
        elif not _is_number(value) and not (early and path.startswith(tuple(f"{name}." for name in within))):
            names = [name for name in there if name in result or not re.search(r"\.\d+(\.|$)", name)]
            names = [name for name in names if there[name] is None or _is_number(there[name])]
            why = ""
            if ("_delta" in path or path.startswith("baseline.")) and not result["baseline"]:
                why = "; deltas need --baseline"
            elif path.endswith((".low", ".high")) and "ci" not in result["asked"]:
                why = "; intervals need --ci, or --join-on"
            near = f"the nearest is {difflib.get_close_matches(path, names, 1, 0)[0]!r}"
            raise InvalidInputError(f"--fail-if {text!r}: there is no {path!r}{why}; {near}, of {', '.join(names)}")
    return said


def _by_path(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What stands under each path with dots; a delta is its value."""
    if not isinstance(found, (dict, list)):
        yield path, found
        return
    entries = found if isinstance(found, dict) else dict(enumerate(found))
    if "value" in entries:
        yield path, entries["value"]
    for key, each in entries.items():
        yield from _by_path(each, f"{path}.{key}" if path else str(key))
