"""What every metric promises: the table of the metrics, their data, and what other libraries compute from it.

`tests/cases/` holds the tables, one per domain. A case says how a metric is made, which data suit it, and how
scikit-learn or NumPy gets its value from all the samples that count. This module draws the data, splits them among
workers and feeds them in each of the three modes. `tests/test_contract.py` uses the table in one process,
`tests/distributed/test_metrics.py` among real workers, `tests/distributed/test_equality.py` with real data, too.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import inspect
import itertools
import traceback
import zlib
from pathlib import Path
from typing import Any, Iterator, Sequence

import numpy as np

from tests.cases.base import DTYPES, MODES, SAMPLES, SHAPES, WEIGHTS, Case, Data  # noqa: F401

# Paddle keeps the stack of each operation of a static program, for its error messages, and 3.x forever: to look up its
# lines takes a quarter of the time that it takes to build a program. The stack of this import does as well.
_stack = traceback.extract_stack(limit=4)
traceback.extract_stack = lambda f=None, limit=None: _stack

#: Every metric of the catalogue, some with several settings or kinds of input.
CASES: dict[str, Case] = {}
for _path in sorted(Path(__file__).parent.glob("cases/*.py")):
    if _path.stem not in ("base", "__init__"):
        CASES.update(importlib.import_module(f"tests.cases.{_path.stem}").CASES)


def combinations(*more: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every thorough case with every pair of dtypes that its predictions may have, and with every given argument."""
    return [
        (name, dtypes, *rest)
        for name, case in CASES.items()
        if not case.brief
        for dtypes in DTYPES
        if np.dtype(dtypes[0]).kind in case.kinds
        for rest in itertools.product(*more)
    ]


# -- samples and splits ------------------------------------------------------------------------------------


def draw(
    name: str,
    dtypes: tuple[str, str] = DTYPES[0],
    weight: str | None = None,
    mask: bool = False,
    shape: str = "[n]",
    samples: int = SAMPLES,
    seed: int = 0,
) -> Data:
    """Samples for a case. What a mask or a weight of 0 drops is nonsense; weights and masks go by rows.

    Args:
        name: key of `CASES`.
        dtypes: of prediction and label.
        weight: one of `WEIGHTS`.
        mask: whether some samples are masked.
        shape: one of `SHAPES`.
        samples: how many; `[]` has one, `[n, m]` has rows of three.
        seed: for other samples.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    single, matrix = shape == "[]", shape == "[n, m]"
    rows = 1 if single else samples
    case = CASES[name]
    prediction, label = case.draw(rng, rows * 3 if matrix else rows, *dtypes)
    columns = case.columns(rng, rows) if case.columns else {}
    w = m = None
    if weight is not None:
        w = rng.integers(0, 9, rows) / 8 if weight == "eighths" else rng.random(rows) * (rng.random(rows) < 0.9)
        w = w + 1 if single else w
    if mask:
        m = rng.random(rows) < 0.8 if not single else np.array([True])
    data = Data(prediction, label, w, m, columns)
    if matrix:
        data = Data(*[None if part is None else part.reshape(rows, 3) for part in (prediction, label)], w, m, columns)
    if shape == "[n, 1]":
        data = data.map(lambda part: part[:, None] if part.ndim == 1 else part)
    data = spoil(data, counts(data))
    return data.map(lambda part: part.reshape([])) if single else data


def counts(data: Data) -> Any:
    """Flags of the rows that neither weight nor mask drops."""
    keep = np.ones(len(data.prediction), bool)
    for part in (data.weight, data.mask):
        keep &= True if part is None else part.reshape(-1) != 0
    return keep


def spoil(data: Data, keep: Any) -> Data:
    """Put nonsense into the rows that do not count."""
    prediction, label = data.prediction.copy(), None if data.label is None else data.label.copy()
    for array in (prediction, label):
        if array is not None and array.dtype.kind == "f":
            array[~keep] = np.resize([np.nan, np.inf, -np.inf, 7], array[~keep].shape)
        elif array is not None and array.dtype == object:  # of texts
            array[~keep] = None
        elif array is not None and array.dtype.kind in "iu":
            array[~keep] = 99
    return data._replace(prediction=prediction, label=label)


def expected(name: str, data: Data) -> float:
    """The reference's value over the samples that count."""
    if data.prediction.ndim == 0:
        data = data.map(lambda part: part.reshape(1))
    keep = counts(data)
    prediction, label, weight = (
        None if part is None else part[keep] for part in (data.prediction, data.label, data.weight)
    )
    columns = {key: column[keep] for key, column in data.columns.items()}
    case = CASES[name]
    if case.by_row:
        return case.reference(prediction, label, None if weight is None else weight.reshape(-1), **columns)
    of_scores = prediction.ndim == 2 and prediction.shape[1] > 1 and label is not None and label.size == len(label)
    width = 1 if of_scores or prediction.ndim == 1 else prediction[0].size if len(prediction) else 1
    prediction = prediction if of_scores else prediction.reshape(-1)
    label = None if label is None else label.reshape(-1)
    weight = None if weight is None else np.repeat(weight.reshape(-1), width)
    return case.reference(prediction, label, weight, **columns)


def is_exact(name: str, data: Data, weight: str | None) -> bool:
    """Whether value and states are the same bits however the samples are split, and in all modes."""
    if name in ("max", "min"):
        return True
    of_integers = name == "sum" and data.prediction.dtype.kind != "f"
    return (CASES[name].exact or of_integers) and weight in (None, "eighths")


def is_exact_value(name: str, data: Data, weight: str | None) -> bool:
    """Whether the value is the reference's bit for bit: it is no quotient of weights."""
    return is_exact(name, data, weight) and (weight is None or name in ("max", "min", "count"))


def same(value: Any, reference: Any, exact: bool, tolerance: float = 1e-12) -> bool:
    """Whether two values agree: bit for bit, or to a relative tolerance; numbers, or arrays, tuples, dicts of them."""
    if isinstance(reference, dict):
        pairs = [(value[key], reference[key]) for key in reference] if list(value) == list(reference) else [(0, 1)]
        return all(same(mine, theirs, exact, tolerance) for mine, theirs in pairs)
    if isinstance(reference, (tuple, list)):
        return len(value) == len(reference) and all(
            same(mine, theirs, exact, tolerance) for mine, theirs in zip(value, reference)
        )
    if value is None or reference is None:
        return value is reference
    mine, theirs = np.asarray(value), np.asarray(reference)
    if mine.shape != theirs.shape or (np.isnan(mine) != np.isnan(theirs)).any():
        return False
    mine, theirs = mine[~np.isnan(mine)], theirs[~np.isnan(theirs)]
    with np.errstate(invalid="ignore"):  # inf equals inf, and inf - inf is nothing
        close = (mine == theirs) | (np.abs(mine - theirs) <= (0 if exact else tolerance * np.abs(theirs)))
    return bool(close.all())


def plain(value: Any) -> Any:
    """A value as it looks after it has crossed to another process: lists for tuples, texts for keys."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def shares(workers: int, split: str, samples: int = SAMPLES) -> list[tuple[int, int]]:
    """Each worker's samples, from and to.

    Args:
        workers: how many.
        split: "uneven"; or "empty", where the last worker of several has none.
        samples: how many there are.
    """
    filled = workers - 1 if split == "empty" and workers > 1 else workers
    cuts = [samples * i * (i + 1) // (filled * (filled + 1)) for i in range(filled + 1)]
    return [*itertools.pairwise(cuts), (samples, samples)][:workers] if filled else [(0, samples)]


def batches(data: Data, size: int = 16) -> list[Data]:
    """The samples in batches, the last one short; none for no samples."""
    if data.prediction.ndim == 0:
        return [data]
    return [data.rows(start, start + size) for start in range(0, len(data.prediction), size)]


# -- feeding ---------------------------------------------------------------------------------------------


def feed(metric: Any, parts: Sequence[Data], mode: str, like: Data | None = None, scope: Any = None) -> Any:
    """Give batches to a metric in one of the modes.

    Args:
        metric: a metric or a collection.
        parts: the batches, of one dtype and shape except for their length.
        mode: one of `MODES`.
        like: a batch to build a static program for, if there are no parts.
        scope: of a static program; None: a new one.

    Returns:
        The scope of a static program, for `compute`; else None.
    """
    if mode == "static":
        return StaticFeed(metric, parts[0] if like is None else like, scope).run(parts)
    for part in parts:
        if mode == "dynamic":
            import paddle

            part = part.map(lambda array: array if array.dtype == object else paddle.to_tensor(array))
        metric.add(**arguments(metric, part))
    return None


def arguments(metric: Any, part: Data) -> dict[str, Any]:
    """A batch as the keyword arguments of a metric's `add`."""
    given = part.given()
    if metric.takes_label is False:
        given.pop("label", None)
    if _takes_value(type(metric)):
        given["value"] = given.pop("prediction")
    return given


@functools.lru_cache(maxsize=None)
def _takes_value(kind: type) -> bool:
    return "value" in inspect.signature(kind.add).parameters  # type: ignore[attr-defined]


def feed_together(entries: Sequence[tuple[Any, Data, Sequence[Data]]]) -> Any:
    """Give batches to several metrics in one static program, which is built and compiled once.

    Args:
        entries: metric, a batch like those it gets, and its batches; the same number for each.

    Returns:
        The scope, for `compute`.
    """
    import paddle

    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    with static_mode(), paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        for number, (metric, like, _) in enumerate(entries):
            variables = _variables(like, f"{number} ")
            named(metric).add(**arguments(metric, Data(**{"label": None, **variables})))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        for parts in zip(*[parts for _, _, parts in entries]):
            given = [(number, part.given()) for number, part in enumerate(parts)]
            executor.run(
                main, feed={f"{number} {name}": value for number, part in given for name, value in part.items()}
            )
    return scope


def named(metric: Any) -> Any:
    """The metric, for a static program: its generated name counts as chosen, and no two tests have the same."""
    for each in (metric, *metric.fed_metrics()):
        each.named_by_default = False
    return metric


def _variables(like: Data, prefix: str = "") -> dict[str, Any]:
    import paddle

    made = {
        name: paddle.static.data(prefix + name, [-1, *part.shape[1:]] if part.ndim else [], _dtype_of(part))
        for name, part in like.given().items()
    }
    columns = {name: made.pop(name) for name in like.columns}
    return {**made, "columns": columns}


def _dtype_of(part: Any) -> str:
    """The dtype of a variable; texts have none, and their metrics refuse any."""
    return "int64" if part.dtype == object else str(part.dtype)


class StaticFeed:
    """A static program that adds the batches it is fed to a metric.

    Args:
        metric: a metric or a collection.
        like: a batch; its first sizes may differ from batch to batch.
        scope: None: a new one.
    """

    def __init__(self, metric: Any, like: Data, scope: Any = None) -> None:
        import paddle

        self.metric = metric
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        self.scope = paddle.static.Scope() if scope is None else scope
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        with static_mode(), paddle.static.program_guard(self.main, self.startup):
            named(metric).add(**arguments(metric, Data(**{"label": None, **_variables(like)})))
            self.start()

    def start(self) -> None:
        """Run the startup program."""
        import paddle

        with static_mode(), paddle.static.scope_guard(self.scope):
            self.executor.run(self.startup)

    def renewed(self) -> StaticFeed:
        """The same program with states of its own, in a new scope."""
        import paddle

        other = copy.copy(self)
        other.scope = paddle.static.Scope()
        other.start()
        return other

    def run(self, parts: Sequence[Data]) -> Any:
        """Run the program on each batch and return the scope."""
        import paddle

        with static_mode(), paddle.static.scope_guard(self.scope):
            for part in parts:
                self.executor.run(self.main, feed=part.given())
        return self.scope


def first_dtypes(name: str) -> tuple[str, str]:
    """The first pair of dtypes that a case takes."""
    return next(dtypes for dtypes in DTYPES if np.dtype(dtypes[0]).kind in CASES[name].kinds)


def new_scope(mode: str) -> Any:
    """A scope that several static programs can share; None in the other modes."""
    if mode != "static":
        return None
    import paddle

    return paddle.static.Scope()


@contextlib.contextmanager
def static_mode() -> Iterator[None]:
    """Paddle's static mode until the end of the block."""
    import paddle

    dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        yield
    finally:
        if dynamic:
            paddle.disable_static()


@contextlib.contextmanager
def new_programs() -> Iterator[tuple[Any, Any]]:
    """Static mode, and a main and a startup program of one's own; keep them as long as their variables.

    A value of a PIR program that is gone ends the process when somebody looks at it.
    """
    import paddle

    main, startup = paddle.static.Program(), paddle.static.Program()
    with static_mode(), paddle.static.program_guard(main, startup):
        yield main, startup


def state_bytes(metric: Any, scope: Any = None) -> list[tuple[str, str, bytes]]:
    """What a metric or collection has accumulated: the end of each state's name, dtype and bytes.

    The states of the deferred check are not among them: they differ by mode.
    """
    states = dict.fromkeys(state for leaf in metric.leaf_metrics() for state in leaf.states.values())
    arrays = [(state.name.rpartition(".")[2], state.read(scope)) for state in states]
    return [(name, str(array.dtype), array.tobytes()) for name, array in arrays]


def digest(arrays: Sequence[Any]) -> str:
    """Text that tells states apart by dtype and every bit."""
    return hashlib.sha256(b"|".join(str(array.dtype).encode() + array.tobytes() for array in arrays)).hexdigest()
