"""Calls through every door of the package with what people really feed in, and with nonsense.

Each call has the value that is right, where there is one: its input is the same data in another form. `calls` makes
all of them, about 4,600; `docs/scripts/hostile.py` counts the outcomes, `tests/test_doors.py` makes a share.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import io
import itertools
import math
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

import fleetmetrics as fm
from fleetmetrics import FleetMetricsError, cli, evaluation, evaluator, files
from tests import contract
from tests.contract import CASES

__all__ = ["DOORS", "Call", "calls", "outcome"]

#: A case of each class of the catalogue.
ONE_OF_EACH = list({type(case.make()): name for name, case in reversed(CASES.items())}.values())
#: Statuses of a command that are answers, or name an error.
ANSWERS, ERRORS = (0, 1), (2, 3)


class Call(NamedTuple):
    """A call through a door.

    Args:
        door: which door.
        text: what is given.
        make: makes the call.
        right: the value that is right; None: any value, or an error that names what is wrong.
    """

    door: str
    text: str
    make: Callable[[], Any]
    right: Callable[[], Any] | None = None


def outcome(call: Call) -> tuple[str, str]:
    """How a call ends: "right", "wrong", "accepted" (without a known value), "named" or "raw"; and its text."""
    streams = io.StringIO()
    with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.redirect_stderr(streams):
        warnings.simplefilter("ignore")
        try:
            with contextlib.redirect_stdout(streams):
                value = call.make()
            if call.right is None:
                return "accepted", f"{value!r:.200}"
            expected = call.right()
            return ("right" if same(value, expected) else "wrong"), f"{value!r:.100} for {expected!r:.100}"
        except FleetMetricsError as error:
            return "named", str(error)
        except Refused as error:
            return "named", str(error)
        except Exception as error:
            return "raw", f"{type(error).__name__}: {error}"


class Refused(Exception):
    """A command said what is wrong, with the status of an error."""


def same(value: Any, other: Any) -> bool:
    """Whether two values are alike, up to the precision of float16."""
    if isinstance(value, (dict, tuple)) and isinstance(other, (dict, tuple)):
        parts = [list(each.values()) if isinstance(each, dict) else list(each) for each in (value, other)]
        return len(parts[0]) == len(parts[1]) and all(map(same, *parts))
    try:
        one, two = np.asarray(value, np.float64), np.asarray(other, np.float64)
    except (TypeError, ValueError):
        return bool(repr(value) == repr(other))
    return one.shape == two.shape and np.allclose(one, two, rtol=1e-3, atol=1e-6, equal_nan=True)


# -- arrays into every metric ------------------------------------------------------------------------------


def _as_texts(array: Any) -> Any:
    return np.array([f"{each}" for each in np.ravel(array)]).reshape(np.shape(array))


def _one_hot(array: Any) -> Any:
    return np.eye(3)[np.resize([0, 1, 2], len(array))]


class Tensorlike:
    """What has ``__array__``, as a tensor of another library has."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
        self.shape, self.ndim, self.dtype = self.array.shape, self.array.ndim, self.array.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array if dtype is None else self.array.astype(dtype)

    def __len__(self) -> int:
        return len(self.array)


def bfloat16() -> Any:
    """NumPy's bfloat16 of ml_dtypes; float16 where that is not installed."""
    try:
        import ml_dtypes

        return ml_dtypes.bfloat16
    except ImportError:
        return np.float16


#: The same numbers in another form.
FORMS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda array: array.tolist(),
    "tuples": lambda array: tuple(array.tolist()),
    "objects": lambda array: array.astype(object),
    "backwards in memory": lambda array: array[::-1][::-1],
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "lists of tensors": lambda array: [Tensorlike(each) for each in array],
    "lists of bfloat16": lambda array: [Tensorlike(np.asarray(each).astype(bfloat16())) for each in array],
    "long doubles": lambda array: array.astype(np.longdouble) if array.dtype.kind == "f" else array.astype(np.uint64),
    "a masked array of nothing": lambda array: np.ma.masked_array(array, False),
    "what has __array__": Tensorlike,
}
#: Those that texts may have, too.
OF_TEXTS = ("lists", "tuples", "objects", "backwards in memory", "what has __array__")
#: What no metric can take as numbers, or what only some can.
ODD: dict[str, Callable[[Any], Any]] = {
    "texts": _as_texts,
    "bytes": lambda array: _as_texts(array).astype("S"),
    "one-hot": _one_hot,
    "logits": lambda array: np.asarray(array, float) * 20 - 10,
    "nan": lambda array: np.where(np.arange(len(array)).reshape([-1] + [1] * (array.ndim - 1)) == 1, np.nan, array),
    "infinite": lambda array: np.asarray(array, float) * np.inf,
    "beyond 2**53": lambda array: np.asarray(array).astype(np.int64) + 2**60,
    "complex": lambda array: np.asarray(array) + 1j,
    "dates": lambda array: np.full(np.shape(array), "2026-01-01", "datetime64[D]"),
    "decimals": lambda array: [decimal.Decimal(str(each)) for each in np.ravel(array).tolist()],
    "None": lambda array: [None] * len(array),
    "mixed": lambda array: [*np.ravel(array).tolist()[1:], "a"],
    "dicts": lambda array: [{"a": 1}] * len(array),
    "ragged": lambda array: [[1]] + [[1, 2]] * (len(array) - 1),
    "masked": lambda array: np.ma.masked_array(array, np.arange(np.size(array)).reshape(np.shape(array)) % 3 == 0),
    "records": lambda array: np.zeros(len(array), [("a", int)]),
    "one row": lambda array: array[:1],
    "none": lambda array: array[:0],
    "one value": lambda array: np.zeros_like(array),
    "a scalar": lambda array: 1,
    "a generator": lambda array: (each for each in array),
    "too many axes": lambda array: np.reshape(array, [*np.shape(array), 1, 1, 1]),
}


def computed(name: str, change: Callable[[Any], Any], which: tuple[str, ...]) -> Any:
    """The value of a case, some of whose arguments are changed."""
    metric = CASES[name].make()
    given = contract.arguments(metric, _data(name))
    for argument in which:
        if given.get(argument) is not None:
            given[argument] = change(np.asarray(given[argument]))
    metric.add(**given)
    return metric.compute()


@functools.lru_cache(maxsize=None)
def _data(name: str) -> Any:
    return contract.draw(name, contract.first_dtypes(name), samples=24)


def arrays() -> Iterator[Call]:
    """Every metric, with arrays in other forms and with nonsense."""
    arguments = ("prediction", "label", "value")
    for name in ONE_OF_EACH:
        right = functools.partial(computed, name, lambda array: array, arguments)
        texts = _data(name).prediction.dtype == object
        for key in OF_TEXTS if texts else FORMS:
            yield Call("arrays", f"{name}: {key}", functools.partial(computed, name, FORMS[key], arguments), right)
        both = itertools.product(ODD, (("prediction", "value"), ("label",)))
        for place, (key, which) in enumerate(both):
            if (place + len(name)) % 4 == 0 or key in ("one-hot", "logits", "one row", "texts"):
                text = f"{name}: {'/'.join(which)} {key}"
                odd = functools.partial(_of_numbers, ODD[key]) if texts else ODD[key]
                yield Call("arrays", text, functools.partial(computed, name, odd, which))


def _of_numbers(change: Callable[[Any], Any], array: Any) -> Any:
    """Numbers instead of texts, changed."""
    return change(np.arange(len(array)) % 2)


def settings() -> Iterator[Call]:
    """Every metric, with settings of other names and values."""
    wrong: dict[str, Any] = {"top_k": 2, "topk": 2, "k": 2, "size": "all", "sampler": 5, "zero_division": "warn"}
    kinds = [type(CASES[name].make()) for name in ONE_OF_EACH]
    for kind, (name, value) in itertools.product(kinds, wrong.items()):
        yield Call("settings", f"{kind.__name__}({name}={value!r})", functools.partial(kind, **{name: value}))
    for kind in (
        "Accuracy",
        "SingleLabelMetric",
        "MultiLabelMetric",
        "RetrievalRecall",
        "DumpResults",
        "ConfusionMatrix",
    ):
        for name in ("top_k", "k", "threshold", "n_classes"):
            config = {"type": kind, name: 1}
            yield Call("settings", f"{config}", functools.partial(evaluator.METRICS.build, config))


# -- frames ------------------------------------------------------------------------------------------------

ROWS = {"y": [0, 0, 1, 1, 0, 1], "p": [0.125, 0.5, 0.375, 0.75, 0.25, 0.625], "s": list("ababab"), "id": list(range(6))}
RIGHT = {"auc": 8 / 9, "ctr": 0.5}


def frames() -> dict[str, Callable[[], Any]]:
    """The rows as data frames of every kind, and frames with columns of other things than numbers."""
    found: dict[str, Callable[[], Any]] = {
        "dict": lambda: ROWS,
        "arrays": lambda: {k: np.array(v) for k, v in ROWS.items()},
    }
    with contextlib.suppress(ImportError):
        found.update(_of_pandas())
    with contextlib.suppress(ImportError):
        found.update(_of_arrow())
    return found


def _of_pandas() -> dict[str, Callable[[], Any]]:
    import pandas as pd

    def changed(column: str, make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: pd.DataFrame({**ROWS, column: make(ROWS[column])})

    return {
        "pandas": lambda: pd.DataFrame(ROWS),
        "pandas, duplicate columns": lambda: pd.concat([pd.DataFrame(ROWS), pd.DataFrame({"p": ROWS["p"]})], axis=1),
        "pandas, sparse": changed("p", pd.arrays.SparseArray),
        "pandas, decimals": changed("p", lambda values: [decimal.Decimal(str(each)) for each in values]),
        "pandas, mixed": changed("p", lambda values: [*values[1:], "a"]),
        "pandas, texts": changed("p", lambda values: [str(each) for each in values]),
        "pandas, nested": changed("p", lambda values: [{"x": each} for each in values]),
        "pandas, lists": changed("p", lambda values: [[each] for each in values]),
        "pandas, ragged": changed("p", lambda values: [[each] * (1 + place % 2) for place, each in enumerate(values)]),
        "pandas, categories": changed("y", pd.Categorical),
        "pandas, booleans": changed("y", lambda values: pd.array([bool(each) for each in values], "boolean")),
        "pandas, missing": changed("y", lambda values: pd.array([None, *values[1:]], "Int64")),
        "pandas, dates": changed("y", lambda values: pd.date_range("2026", periods=len(values))),
        "pandas, times": changed("s", lambda values: [datetime.time(each % 24) for each in range(len(values))]),
        "pandas, large ids": changed("id", lambda values: np.array(values, np.uint64) + np.uint64(2**63)),
        "pandas, of no rows": lambda: pd.DataFrame(ROWS)[:0],
        "pandas, of one row": lambda: pd.DataFrame(ROWS)[:1],
        "pandas, levels of columns": lambda: pd.concat({"a": pd.DataFrame(ROWS)}, axis=1),
        "pandas, a series": lambda: pd.DataFrame(ROWS)["p"],
    }


def _of_arrow() -> dict[str, Callable[[], Any]]:
    import pyarrow as pa

    def typed(column: str, kind: Any, make: Callable[[Any], Any] = list) -> Callable[[], Any]:
        return lambda: pa.table({**ROWS, column: pa.array(make(ROWS[column]), kind)})

    return {
        "arrow": lambda: pa.table(ROWS),
        "arrow, float16": typed("p", pa.float16(), lambda values: np.array(values, np.float16)),
        "arrow, decimals": typed("p", pa.decimal128(9, 3), lambda values: [decimal.Decimal(str(v)) for v in values]),
        "arrow, structs": typed("p", None, lambda values: [{"x": each} for each in values]),
        "arrow, maps": typed(
            "p", pa.map_(pa.string(), pa.float64()), lambda values: [[("x", each)] for each in values]
        ),
        "arrow, nulls": typed("p", None, lambda values: [None, *values[1:]]),
        "arrow, binary": typed("s", pa.binary(), lambda values: [each.encode() for each in values]),
        "arrow, dictionaries": typed("s", pa.string(), list),
        "arrow, durations": typed("id", pa.duration("s"), list),
        "arrow, twice the same name": lambda: pa.Table.from_arrays([pa.array(ROWS["p"])] * 2, names=["p", "p"]),
        "arrow, unsigned": typed("id", pa.uint64(), lambda values: [2**64 - 1 - each for each in values]),
        "arrow, no columns": lambda: pa.table({}),
    }


#: Frames whose numbers are those of the rows.
PLAIN = {"dict", "arrays", "pandas", "arrow", "arrow, float16", "pandas, large ids", "arrow, unsigned", "arrow, binary"}


def evaluated(frame: Any, **more: Any) -> dict[str, float]:
    result = fm.evaluate(frame, **{"label": "y", "score": "p", "metrics": "auc,ctr", **more})
    return {name: result[name] for name in ("auc", "ctr")}


def added(frame: Any, **columns: str) -> Any:
    metric = fm.AUC()
    metric.add_frame(frame, **columns)
    return metric.compute()


def of_frames() -> Iterator[Call]:
    """Frames into `evaluate` and `add_frame`."""
    asked: dict[str, dict[str, Any]] = {
        "plain": {},
        "by": {"by": "s"},
        "where": {"where": "id >= 0"},
        "user": {"user": "id"},
        "weight": {"weight": "p"},
        "swapped": {"label": "p", "score": "y"},
        "baseline": {"baseline_score": "p"},
        "bad rows": {"skip_bad_rows": True},
    }
    for (key, make), (how, more) in itertools.product(frames().items(), asked.items()):
        right = (lambda: RIGHT) if key in PLAIN and how in ("plain", "by") else None
        yield Call("frames", f"{key}: {how}", lambda make=make, more=more: evaluated(make(), **more), right)
    for key, make in frames().items():
        right_of_one: Any = (lambda: RIGHT["auc"]) if key in PLAIN else None
        call = lambda make=make: added(make(), prediction="p", label="y")  # noqa: E731
        yield Call("frames", f"{key}: add_frame", call, right_of_one)


# -- files and commands ------------------------------------------------------------------------------------

LINES = ["y,p,s,id", *(",".join(map(str, row)) for row in zip(*ROWS.values()))]
CSV = "\n".join(LINES) + "\n"


def contents() -> dict[str, tuple[str, bytes]]:
    """Files by what is wrong with them: the name and the bytes."""
    rows = [dict(zip(ROWS, row)) for row in zip(*ROWS.values())]
    json_lines = "\n".join(str(row).replace("'", '"') for row in rows)
    return {
        "csv": ("a.csv", CSV.encode()),
        "a quote never closed": ("a.csv", CSV.replace("1,0.375", '"1,0.375').encode()),
        "gbk": ("a.csv", CSV.replace("a,", "点击,").encode("gbk")),
        "utf-16": ("a.csv", CSV.encode("utf-16")),
        "a byte-order mark": ("a.csv", b"\xef\xbb\xbf" + CSV.encode()),
        "NUL bytes": ("a.csv", CSV.encode() + b"\0" * 64),
        "Avro": ("a.csv", b"Obj\x01\x04\x16avro.schema" + bytes(100)),
        "Avro by name": ("a.avro", b"Obj\x01\x04\x16avro.schema" + bytes(100)),
        "LibSVM": ("a.libsvm", b"1 qid:1 1:0.5 2:0.1\n0 qid:1 1:0.2 2:0.4\n"),
        "LibSVM as csv": ("a.csv", b"1 qid:1 1:0.5 2:0.1\n0 qid:1 1:0.2 2:0.4\n"),
        "semicolons": ("a.csv", CSV.replace(",", ";").encode()),
        "tabs": ("a.tsv", CSV.replace(",", "\t").encode()),
        "blanks": ("a.txt", CSV.replace(",", " ").encode()),
        "Hive's separator": ("a.csv", CSV.replace(",", "\x01").encode()),
        "Hive's null": ("a.csv", CSV.replace("0.375", "\\N").encode()),
        "no header": ("a.csv", "\n".join(LINES[1:]).encode()),
        "too few cells": ("a.csv", (CSV + "1,0.5\n").encode()),
        "too many cells": ("a.csv", (CSV + "1,0.5,a,7,8\n").encode()),
        "a text among numbers": ("a.csv", (CSV + "1,much,a,7\n").encode()),
        "a column twice": ("a.csv", CSV.replace("s,id", "p,id").encode()),
        "empty": ("a.csv", b""),
        "only a header": ("a.csv", (LINES[0] + "\n").encode()),
        "json lines": ("a.jsonl", json_lines.encode()),
        "mixed json": ("a.jsonl", (json_lines + "\n[1, 2]\n3\n").encode()),
        "json that is cut": ("a.jsonl", (json_lines + '\n{"y": 1, "p').encode()),
        "one json": ("a.json", ("[" + json_lines.replace("\n", ",") + "]").encode()),
        "Parquet by name": ("a.parquet", CSV.encode()),
        "Parquet that is cut": ("a.parquet", b"PAR1" + bytes(50)),
        "gzip by name": ("a.csv.gz", CSV.encode()),
        "a pickle": ("a.pkl", b"\x80\x04K\x01."),
        "zip": ("a.npz", b"PK\x03\x04" + bytes(60)),
        "a saved state by name": ("a.fms", CSV.encode()),
        "numbers of 64 bits": ("a.csv", CSV.replace(",5\n", f",{2**63 - 1}\n").encode()),
        "a label of text": ("a.csv", CSV.replace("\n1,", "\nclick,").encode()),
        "Windows": ("a.csv", CSV.replace("\n", "\r\n").encode()),
    }


#: Files whose rows are those that `RIGHT` is about.
WHOLE = {"csv", "a byte-order mark", "json lines", "Windows", "tabs", "numbers of 64 bits"}


def command(*given: str) -> int:
    """The status of a command; `Refused` for that of an error, which must come with a line that says why."""
    out, said = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            status = cli.main(list(given))
        except SystemExit as ended:
            status = int(ended.code or 0)
    text = said.getvalue() + out.getvalue()
    if "Traceback" in text or "unexpected" in text.lower() or status not in ANSWERS + ERRORS:
        raise RuntimeError(f"status {status}: {text[-400:]}")
    if status in ERRORS:
        if not text.strip():
            raise RuntimeError(f"status {status}, silently")
        raise Refused(text)
    return status


def of_files(folder: Path) -> Iterator[Call]:
    """Files of every content into commands and functions."""
    columns = {"prediction": "p", "label": "y"}
    for place, (key, (name, data)) in enumerate(contents().items()):
        path = folder / str(place) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        text = str(path)
        of_rows = (lambda: RIGHT) if key in WHOLE else None
        asked = [text, "--label", "y", "--score", "p", "--metrics", "auc,ctr"]
        doors: list[tuple[str, Callable[..., Any], Any]] = [
            ("evaluate", functools.partial(evaluated, text, processes=1), of_rows),
            ("evaluate, bad rows", functools.partial(evaluated, text, processes=1, skip_bad_rows=True), of_rows),
            ("evaluate, where", functools.partial(evaluated, text, processes=1, where="id >= 0 and s = 'a'"), None),
            ("command", functools.partial(command, "evaluate", *asked), None),
            ("command, bad files", functools.partial(command, "evaluate", *asked, "--skip-bad-files"), None),
            ("command, gate", functools.partial(command, "evaluate", *asked, "--fail-if", "auc < 0.5"), None),
            (
                "consistency",
                functools.partial(command, "consistency", text, text, "--join-on", "id", "--score", "p"),
                None,
            ),
            ("files.evaluate", functools.partial(files.evaluate, text, fm.AUC, columns, processes=1), None),
            ("offline_evaluate", functools.partial(_offline, text), None),
            ("merge", functools.partial(evaluation.merge, [text]), None),
            ("compare", functools.partial(evaluation.compare, text, text), None),
            ("load", functools.partial(fm.load, text, fm.AUC()), None),
            ("history", functools.partial(command, "history", text), None),
        ]
        yield from (Call("files", f"{key}: {how}", make, right) for how, make, right in doors)


def _offline(path: str) -> Any:
    return evaluator.Evaluator({"type": "Accuracy"}).offline_evaluate(path)


OPTIONS = {
    "--metrics": ["", "auc,auc", "auk", "accuracy:topk=3", "ndcg", "auc:curve=XY", "x=y=auc", "share=auc", "auc@0"],
    "--label": ["", "nothing", "p", "y,s"],
    "--score": ["", "nothing", "s", "p,y"],
    "--by": ["", "nothing", "s*", "s*nothing", "p"],
    "--where": ["", "y", "y = ", "p = 'a'", "s = 1", "nothing = 1", "y = 1 or", "date > now()", "y in ()"],
    "--fail-if": ["", "auc", "auc <", "auk < 1", "auc < x", "auc_delta < 0", "slices.s.auc < 1"],
    "--ci": ["0", "1", "2", "nan", "-1", "a"],
    "--task": ["", "multi", "ranking", "regression", "multiclass"],
    "--classes": ["1", "a", "a,b", "-3", "10000000000"],
    "--processes": ["0", "-1", "a", "1.5"],
    "--rank-by": ["", "nothing", "ctr"],
    "--user": ["", "nothing", "p"],
    "--weight": ["", "nothing", "s", "y"],
    "--positive": ["", "2", "click"],
    "--scale": ["0", "nan", "inf", "a"],
    "--max-slices": ["0", "-1", "a"],
    "--json": ["", "/nowhere/at/all.json"],
    "--join-on": ["id", "", "nothing"],
    "--join": ["outer", ""],
    "--unknown": ["1"],
    "--lab": ["y"],
}


def of_options(folder: Path) -> Iterator[Call]:
    """Options with values that they cannot take."""
    path = folder / "options.csv"
    path.write_text(CSV)
    for option, values in OPTIONS.items():
        for value in values:
            given = {"--label": "y", "--score": "p", "--metrics": "auc,ctr", option: value}
            words = [word for pair in given.items() for word in pair]
            call = functools.partial(command, "evaluate", str(path), *words)
            yield Call("options", f"{option} {value!r}", call)
    for words in (
        [],
        ["evaluate"],
        ["nothing"],
        ["evaluate", "--label"],
        ["merge"],
        ["compare", "a"],
        ["metrics", "auk"],
    ):
        yield Call("options", " ".join(words), functools.partial(command, *words))


# -- saved states ------------------------------------------------------------------------------------------


def of_states(folder: Path) -> Iterator[Call]:
    """States of one kind where those of another are asked for."""
    kinds = [type(CASES[name].make()) for name in ONE_OF_EACH]
    makers = [CASES[name].make for name in ONE_OF_EACH]
    result = folder / "result.fms"
    fm.evaluate(ROWS, label="y", score="p", metrics="auc").save_state(str(result))
    for place, (make, kind) in enumerate(zip(makers, kinds)):
        other = makers[(place + 7) % len(makers)]
        path = folder / f"{place}.fms"
        calls = {
            "load into another": lambda make=make, other=other, path=path: _reloaded(path, make(), other()),
            "state_dict of another": lambda make=make, other=other: other().set_state_dict(make().state_dict()),
            "merge with another": lambda make=make, other=other: make().merge(other()),
            "the state of an evaluation": lambda make=make: fm.load(str(result), make()),
            "into itself": lambda make=make, path=path: _reloaded(path, make(), make()),
        }
        yield from (Call("states", f"{kind.__name__}: {how}", call) for how, call in calls.items())
    for name, call in {
        "merge a checkpoint": lambda: evaluation.merge([str(folder / "0.fms")]),
        "compare a state with a checkpoint": lambda: evaluation.compare(str(result), str(folder / "0.fms")),
        "compare a state with a folder": lambda: evaluation.compare(str(result), str(folder)),
        "history of a checkpoint": lambda: command("history", str(folder / "0.fms")),
    }.items():
        yield Call("states", name, call)


def _reloaded(path: Path, metric: Any, other: Any) -> None:
    fm.save(str(path), metric)
    fm.load(str(path), other)


# -- swapped and unknown arguments -------------------------------------------------------------------------


def swapped() -> Iterator[Call]:
    """Arguments in the wrong place, and of other names."""
    score, label = np.array(ROWS["p"]), np.array(ROWS["y"])
    samples = [dict(pred_label=1, gt_label=1), dict(pred_label=0, gt_label=1)]
    data = [dict(inputs=[1.0]), dict(inputs=[2.0])]
    for name in ONE_OF_EACH:
        metric, given = CASES[name].make(), contract.arguments(CASES[name].make(), _data(name))
        pair = [each for each in (given.get("label"), given.get("prediction", given.get("value"))) if each is not None]
        yield Call("swapped", f"{name}: label first", functools.partial(metric.add, *pair))
        for argument in ("y_true", "target", "sample_weight", "top_k"):
            call = functools.partial(CASES[name].make().add, score, **{argument: label})
            yield Call("swapped", f"{name}: {argument}=", call)
    offline = evaluator.Evaluator({"type": "Accuracy"}).offline_evaluate
    calls: dict[str, Callable[[], Any]] = {
        "offline_evaluate(data, samples)": lambda: offline(data, samples),
        "save(metric, path)": lambda: fm.save(fm.AUC(), "path"),
        "load(metric, path)": lambda: fm.load(fm.AUC(), "path"),
        "evaluate(label, frame)": lambda: fm.evaluate("y", label=ROWS, score="p"),
        "Sliced(by, metric)": lambda: fm.Sliced("s", fm.AUC()),
        "acc(total, correct)": lambda: fm.acc(4, 3),
        "flatten(prefix, values)": lambda: fm.flatten("a", {"b": 1}),
        "padding_mask(rank, sampler)": lambda: fm.padding_mask(0, object()),
        "check_copies(group, metric)": lambda: fm.check_copies([0], fm.AUC()),
        "check_copies(None)": lambda: fm.check_copies(fm.AUC(), None),
    }
    yield from (Call("swapped", text, call) for text, call in calls.items())


# -- all ---------------------------------------------------------------------------------------------------

DOORS: dict[str, Callable[[Path], Iterator[Call]]] = {
    "arrays": lambda _: arrays(),
    "settings": lambda _: settings(),
    "frames": lambda _: of_frames(),
    "files": of_files,
    "options": of_options,
    "states": of_states,
    "swapped": lambda _: swapped(),
}


def calls(folder: Path, share: float = 1.0, seed: int = 0, only: str | None = None) -> Iterator[Call]:
    """All calls, or a share of each door's at random.

    Args:
        folder: an empty one, for files.
        share: above 0, at most 1.
        seed: of the choice.
        only: the name of a door; None: all.
    """
    for name, make in DOORS.items():
        if only not in (None, name):
            continue
        chance = np.random.default_rng([seed, len(name)])
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for call in make(place):
            if math.isclose(share, 1) or chance.random() < share:
                yield call
