"""What a case of the contract consists of, the data that metrics are fed with, and what others compute from it."""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

import fleetmetrics as fm
from fleetmetrics.xp.score_buckets import lowest_scores

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
    #: Further columns by name; they stay NumPy arrays in every mode but the static one.
    columns: Mapping[str, Any] = MappingProxyType({})

    def map(self, function: Callable[[Any], Any]) -> Data:
        """The parts except for the columns, each made into something else."""
        return Data(*[None if part is None else function(part) for part in self[:4]], self.columns)

    def rows(self, start: int, stop: int) -> Data:
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return self.map(lambda part: part[start:stop])._replace(columns=columns)

    def given(self) -> dict[str, Any]:
        parts = {name: part for name, part in zip(self._fields[:4], self) if part is not None}
        return {**parts, **self.columns}


class Case(NamedTuple):
    """A metric of the catalogue and how to check it."""

    make: Callable[..., fm.Metric]
    #: Prediction and label from a random generator, a number of samples and two dtypes.
    draw: Callable[[np.random.Generator, int, str, str], tuple[Any, Any]]
    #: Prediction, label and weight (None: all 1) of the samples that count, with one axis (scores: two); and the
    #: further columns by name. Returns a number, or an array, tuple or dict of them.
    reference: Callable[..., Any]
    #: Without weights the value is the reference's bit for bit; else to `tolerance`.
    exact: bool = False
    shapes: tuple[str, ...] = SHAPES
    kinds: str = "fib"  # of predictions
    undefined: Any = np.nan  # the value without samples
    #: Fewer combinations of dtypes, weights and modes: the metric is made of the same parts as a thorough one.
    brief: bool = True
    #: Prediction and label are matrices of which a row is a sample: the reference gets them as they are.
    by_row: bool = False
    #: Further columns from a random generator and a number of samples.
    columns: Callable[[np.random.Generator, int], dict[str, Any]] | None = None
    modes: tuple[str, ...] = MODES
    tolerance: float = 1e-12
    #: How many warnings there are without samples; None: one.
    warnings: int = 1


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


def linear_bucket(top: int) -> Callable[[Any], Any]:
    """Paddle's buckets, in the precision of the scores."""

    def bucket(score: Any) -> Any:
        precision = np.float32 if score.dtype in (np.float16, np.float32) else np.float64
        return (score.astype(precision) * precision(top)).astype(np.int64)

    return bucket


def log_odds_bucket(score: Any, buckets: int = 4096) -> Any:
    """By comparison with the lowest score of each bucket."""
    return np.searchsorted(lowest_scores(buckets, "log_odds"), score.astype(np.float64), "right")


def area(bucket: Callable[[Any], Any]) -> Callable[[Any, Any, Any], float]:
    """scikit-learn's area over scores that are rounded to their buckets; of counts the correctly rounded one."""

    def reference(p: Any, y: Any, w: Any) -> float:
        place = bucket(p[:, 1] if p.ndim == 2 else p)
        positive = y.astype(bool)
        theirs = sklearn("roc_auc_score")(place, positive, w)
        pairs = place[positive][:, None] - place[~positive][None, :]
        if w is not None or not pairs.size:
            return theirs
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
