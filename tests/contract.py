"""What every metric promises: the table of the metrics, their data, and what other libraries compute from it.

A case says how a metric is made, which data suit it, and how scikit-learn or NumPy gets its value from all the
samples that count. The rest of this module splits data among workers and feeds it in each of the three modes.
`tests/test_contract.py` uses the table in one process, `tests/distributed/test_metrics.py` among real workers.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from fractions import Fraction
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

import fleetmetrics as fm

MODES = ("numpy", "dynamic", "static")
#: Prediction and label. Where labels are classes, floats hold whole numbers.
DTYPES = (
    ("float64", "int64"),
    ("float32", "float32"),
    ("float16", "int32"),
    ("int64", "int64"),
    ("int32", "uint8"),
    ("bool", "bool"),
)
#: "eighths" are sums without rounding, so that results are the same bits however the samples are split.
WEIGHTS = (None, "eighths", "real")
SHAPES = ("[n]", "[n, 1]", "[]", "[n, m]")
SAMPLES = 53


class Data(NamedTuple):
    """Samples as `add` takes them; None where an argument is left out."""

    prediction: Any
    label: Any
    weight: Any = None
    mask: Any = None

    def map(self, function: Callable[[Any], Any]) -> Data:
        return Data(*[None if part is None else function(part) for part in self])

    def rows(self, start: int, stop: int) -> Data:
        return self.map(lambda part: part[start:stop])

    def given(self) -> dict[str, Any]:
        return {name: part for name, part in self._asdict().items() if part is not None}


class Case(NamedTuple):
    """A metric of the catalogue and how to check it."""

    make: Callable[..., fm.Metric]
    #: Prediction and label from a random generator, a number of samples and two dtypes.
    draw: Callable[[np.random.Generator, int, str, str], tuple[Any, Any]]
    #: Prediction, label and weight (None: all 1) of the samples that count, with one axis (scores: two).
    reference: Callable[[Any, Any, Any], float]
    #: Without weights the value is the reference's bit for bit; else to 1e-12.
    exact: bool
    shapes: tuple[str, ...] = SHAPES
    kinds: str = "fib"  # of predictions
    undefined: float = np.nan  # the value without samples


# -- data ------------------------------------------------------------------------------------------------


def labels(rng: np.random.Generator, samples: int, dtype: str, classes: int = 2) -> Any:
    return rng.integers(0, classes, samples).astype(dtype)


def probabilities(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Half of them with few digits, to meet thresholds and edges of buckets; 0 and 1 for integers."""
    values = np.where(rng.random(samples) < 0.5, rng.integers(0, 9, samples) / 8, rng.random(samples))
    whole = np.dtype(dtype).kind != "f"
    return (np.round(values) if whole else values).astype(dtype), labels(rng, samples, label_dtype)


def two_columns(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    second, label = probabilities(rng, samples, dtype, label_dtype)
    return np.stack([1 - second.astype(float), second], axis=1).astype(dtype), label


def scores(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Of six classes; no two scores of a sample are equal, since scikit-learn orders those otherwise."""
    table = rng.permuted(np.tile(np.arange(6) - 2.0, (samples, 1)), axis=1)
    two = label_dtype == "bool"
    return table.astype(dtype), labels(rng, samples, label_dtype, 2 if two else 6)


def classes(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    two = "bool" in (dtype, label_dtype)
    return labels(rng, samples, dtype, 2 if two else 5), labels(rng, samples, label_dtype, 2 if two else 5)


def numbers(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    return values(rng, samples, dtype, "")[0], values(rng, samples, label_dtype, "")[0]


def values(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, None]:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return (rng.normal(size=samples) * 100).astype(dtype), None
    low, high = {"b": (0, 2), "u": (0, 200)}.get(kind, (-(2**30), 2**30))
    return rng.integers(low, high, samples).astype(dtype), None


# -- references ------------------------------------------------------------------------------------------


def sklearn(name: str, **options: Any) -> Callable[[Any, Any, Any], float]:
    """scikit-learn's metric of that name; it is imported when it is needed, which workers never do."""

    def reference(p: Any, y: Any, w: Any) -> float:
        from sklearn import metrics

        return float(getattr(metrics, name)(y.astype(float), p.astype(float), sample_weight=w, **options))

    return reference


def accuracy(predicted: Callable[[Any], Any]) -> Callable[[Any, Any, Any], float]:
    return lambda p, y, w: sklearn("accuracy_score")(predicted(p), y, w)


def area(buckets: int) -> Callable[[Any, Any, Any], float]:
    """scikit-learn's area over scores that are rounded to their buckets; of counts the correctly rounded one."""

    def reference(p: Any, y: Any, w: Any) -> float:
        score = p[:, 1] if p.ndim == 2 else p
        precision = np.float32 if score.dtype in (np.float16, np.float32) else np.float64
        bucket = (score.astype(precision) * precision(buckets)).astype(np.int64)
        positive = y.astype(bool)
        theirs = sklearn("roc_auc_score")(bucket, positive, w)
        if w is not None:
            return theirs
        pairs = bucket[positive][:, None] - bucket[~positive][None, :]
        exact = float(Fraction(int(2 * (pairs > 0).sum() + (pairs == 0).sum()), 2 * pairs.size))
        assert abs(exact - theirs) <= 1e-12
        return exact

    return reference


def log_loss(p: Any, y: Any, w: Any) -> float:
    return sklearn("log_loss", labels=[0, 1])(p[:, 1] if p.ndim == 2 else p, y, w)


def total(p: Any, _: Any, w: Any) -> float:
    if w is None and p.dtype.kind != "f":
        return int(p.sum(dtype=object)) if p.size else 0
    ones = np.ones(p.size) if w is None else w
    return float(sum((Fraction(float(x)) * Fraction(float(v)) for x, v in zip(p, ones)), Fraction(0)))


def extreme(function: Callable[[Any], Any]) -> Callable[[Any, Any, Any], float]:
    return lambda p, _, w: function(p).astype(np.float64 if p.dtype.kind == "f" else np.int64).item()


def count(p: Any, _: Any, w: Any) -> float:
    return len(p) if w is None else float(w.sum())


#: Every metric of the catalogue, some with several settings or kinds of input.
CASES: dict[str, Case] = {
    "accuracy of probabilities": Case(fm.Accuracy, probabilities, accuracy(lambda p: p > 0.5), True, kinds="f"),
    "accuracy of classes": Case(fm.Accuracy, classes, accuracy(lambda p: p), True, kinds="ib"),
    "accuracy of scores": Case(
        fm.Accuracy, scores, accuracy(lambda p: p.argmax(axis=1)), True, ("[n]", "[n, 1]"), kinds="fi"
    ),
    "accuracy among three": Case(
        lambda *a, **k: fm.Accuracy(*a, top_k=3, **k),
        scores,
        sklearn("top_k_accuracy_score", k=3, labels=range(6)),
        True,
        ("[n]", "[n, 1]"),
        kinds="fi",
    ),
    "auc": Case(fm.AUC, probabilities, area(4095), True, undefined=0.5),
    "auc of few buckets": Case(
        lambda *a, **k: fm.AUC(*a, num_thresholds=7, **k), probabilities, area(7), True, undefined=0.5
    ),
    "auc of two columns": Case(fm.AUC, two_columns, area(4095), True, ("[n]", "[n, 1]"), undefined=0.5),
    "log loss": Case(fm.LogLoss, probabilities, log_loss, False),
    "log loss of two columns": Case(fm.LogLoss, two_columns, log_loss, False, ("[n]", "[n, 1]"), kinds="f"),
    "mean absolute error": Case(fm.MeanAbsoluteError, numbers, sklearn("mean_absolute_error"), False),
    "mean squared error": Case(fm.MeanSquaredError, numbers, sklearn("mean_squared_error"), False),
    "root mean squared error": Case(fm.RootMeanSquaredError, numbers, sklearn("root_mean_squared_error"), False),
    "sum": Case(fm.Sum, values, total, False, undefined=0),
    "max": Case(fm.Max, values, extreme(np.max), True),
    "min": Case(fm.Min, values, extreme(np.min), True),
    "count": Case(fm.Count, numbers, count, True, undefined=0),
}


def combinations(*more: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every case with every pair of dtypes that its predictions may have, and with all that is given."""
    return [
        (name, dtypes, *rest)
        for name, case in CASES.items()
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
    rng = np.random.default_rng([seed, list(CASES).index(name)])
    single, matrix = shape == "[]", shape == "[n, m]"
    rows = 1 if single else samples
    prediction, label = CASES[name].draw(rng, rows * 3 if matrix else rows, *dtypes)
    w = m = None
    if weight is not None:
        w = rng.integers(0, 9, rows) / 8 if weight == "eighths" else rng.random(rows) * (rng.random(rows) < 0.9)
        w = w + 1 if single else w
    if mask:
        m = rng.random(rows) < 0.8 if not single else np.array([True])
    data = Data(prediction, label, w, m)
    if matrix:
        data = Data(*[None if part is None else part.reshape(rows, 3) for part in (prediction, label)], w, m)
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
    of_scores = CASES[name].draw in (scores, two_columns)
    width = 1 if of_scores else prediction[0].size if len(prediction) else 1
    prediction = prediction if of_scores else prediction.reshape(-1)
    label = None if label is None else label.reshape(-1)
    weight = None if weight is None else np.repeat(weight.reshape(-1), width)
    return CASES[name].reference(prediction, label, weight)


def is_exact(name: str, data: Data, weight: str | None) -> bool:
    """Whether value and states are the same bits however the samples are split, and in all modes."""
    if name in ("max", "min"):
        return True
    of_integers = name == "sum" and data.prediction.dtype.kind != "f"
    return (CASES[name].exact or of_integers) and weight in (None, "eighths")


def is_exact_value(name: str, data: Data, weight: str | None) -> bool:
    """Whether the value is the reference's bit for bit: it is no quotient of weights."""
    return is_exact(name, data, weight) and (weight is None or name in ("max", "min", "count"))


def same(value: float, reference: float, exact: bool) -> bool:
    """Whether two values agree: bit for bit, or to 1e-12 relative."""
    if np.isnan(reference) or np.isnan(value):
        return bool(np.isnan(reference) and np.isnan(value))
    return value == reference if exact else abs(value - reference) <= 1e-12 * abs(reference)


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
        parts: the batches, of one dtype and shape but for their length.
        mode: one of `MODES`.
        like: a batch to build a static program for, where there are none.
        scope: of a static program; None: a new one.

    Returns:
        The scope of a static program, for `compute`; else None.
    """
    if mode == "static":
        return StaticFeed(metric, parts[0] if like is None else like, scope).run(parts)
    for part in parts:
        if mode == "dynamic":
            import paddle

            part = part.map(paddle.to_tensor)
        metric.add(**arguments(metric, part))
    return None


def arguments(metric: Any, part: Data) -> dict[str, Any]:
    """A batch as the keyword arguments of a metric's `add`."""
    given = part.given()
    if isinstance(metric, (fm.Sum, fm.Max, fm.Min)):
        given["value"] = given.pop("prediction")
        given.pop("label", None)
    return given


class StaticFeed:
    """A static program that adds the batches it is fed to a metric.

    Args:
        metric: a metric or a collection.
        like: a batch; its first sizes may differ from batch to batch.
        scope: None: a new one.
    """

    def __init__(self, metric: Any, like: Data, scope: Any = None) -> None:
        import paddle

        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        self.scope = paddle.static.Scope() if scope is None else scope
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        with static_mode(), paddle.static.program_guard(self.main, self.startup):
            variables = {
                name: paddle.static.data(name, [-1, *part.shape[1:]] if part.ndim else [], str(part.dtype))
                for name, part in like.given().items()
            }
            metric.add(**arguments(metric, Data(**{"label": None, **variables})))
            self.start()

    def start(self) -> None:
        """Run the startup program."""
        import paddle

        with static_mode(), paddle.static.scope_guard(self.scope):
            self.executor.run(self.startup)

    def run(self, parts: Sequence[Data]) -> Any:
        """Run the program on each batch and return the scope."""
        import paddle

        with static_mode(), paddle.static.scope_guard(self.scope):
            for part in parts:
                self.executor.run(self.main, feed=part.given())
        return self.scope


def first_dtypes(name: str) -> tuple[str, str]:
    """The first pair of dtypes that a case takes."""
    return next(dtypes for key, dtypes in combinations() if key == name)


def new_scope(mode: str) -> Any:
    """A scope that several static programs can share; None in the other modes."""
    import paddle

    return paddle.static.Scope() if mode == "static" else None


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
    states = dict.fromkeys(state for member in metric._members().values() for state in member.states.values())
    arrays = [(state.name.rpartition(".")[2], state.read(scope)) for state in states]
    return [(name, str(array.dtype), array.tobytes()) for name, array in arrays]


def digest(arrays: Sequence[Any]) -> str:
    """Text that tells states apart by dtype and every bit."""
    return hashlib.sha256(b"|".join(str(array.dtype).encode() + array.tobytes() for array in arrays)).hexdigest()
