"""Metrics around metrics: their references apply that of the metric to each slice, window or replicate."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any, Callable

import numpy as np

import fleetmetrics as fm
from fleetmetrics.batch.hashing import integer_ids, poisson, salts, words
from fleetmetrics.xp import numpy_ops
from tests.cases.base import Case, accuracy, area, linear_bucket, numbers, probabilities, sklearn
from tests.cases.ranking import of_users

IN_MEMORY = ("numpy", "dynamic")
SHAPES = ("[n]", "[n, 1]")
KEYS = [-(2**60) - 1, 3, 2**53 + 1]
REPLICATES = 20
GROUPS = 64


def slot(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    """The keys, and two other ones."""
    return {"slot": np.array([*KEYS, 2**53, 7])[rng.integers(0, 5, samples)]}


def country(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {"country": np.array(["fr", "de", "日本", ""])[rng.integers(0, 4, samples)]}


def slot_and_user(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {"slot": rng.integers(0, 2, samples), "user": rng.integers(10**12, 10**12 + 3, samples)}


def request(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    """Some samples have one id."""
    return {"request": rng.integers(-(2**62), 2**62, samples // 2 + 1)[rng.integers(0, samples // 2 + 1, samples)]}


def slot_and_request(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {"slot": rng.integers(0, 2, samples), **request(rng, samples)}


def by_slice(
    reference: Callable[..., Any], by: str = "slot", keys: Any = None, nothing: Any = np.nan
) -> Callable[..., dict[Any, Any]]:
    """A reference for each slice.

    Args:
        reference: of the samples of one.
        by: the column with the keys.
        keys: the slices; None: those that there are.
        nothing: what a slice without samples has.
    """

    def sliced(p: Any, y: Any, w: Any, **columns: Any) -> dict[Any, Any]:
        column = columns.pop(by)
        known = np.unique(column) if keys is None else np.sort(keys)
        chosen = {key: column == key for key in known.tolist()}
        rest = ~np.isin(column, known)
        found = {}
        for key, own in {**chosen, **({"other": rest} if rest.any() else {})}.items():
            parts = [None if part is None else part[own] for part in (p, y, w)]
            more = {name: part[own] for name, part in columns.items()}
            found[key] = reference(*parts, **more) if own.any() else nothing
        return found

    return sliced


def resampled(reference: Callable[..., float], ids: str = "request") -> Callable[..., tuple[Any, ...]]:
    """A reference for `BootstrapResult`: that of the samples as often as each replicate draws them."""

    def result(p: Any, y: Any, w: Any, **columns: Any) -> tuple[Any, ...]:
        hashes = words(numpy_ops, integer_ids(columns[ids]), 7)
        times = poisson(numpy_ops, *hashes, salts(7, REPLICATES)).astype(np.int64)
        values = []
        for drawn in times.T:
            own = np.repeat(np.arange(len(p)), drawn)
            values.append(reference(*[None if part is None else part[own] for part in (p, y, w)]))
        values = np.array(values)
        low, high = np.percentile(values, [5, 95])
        return (reference(p, y, w), values.mean(), values.std(ddof=1), low, high, 0.9, values, 7, times.sum(axis=0))

    return result


def bootstrap(metric: fm.Metric, *names: str, **settings: Any) -> fm.Bootstrap:
    more = {"replicates": REPLICATES, "seed": 7, "confidence": 0.9, "ids": "request", **settings}
    return fm.Bootstrap(metric, *names, **more)


def moved_by_request(p: Any, y: Any, w: Any, request: Any) -> tuple[Any, ...]:
    """A reference for `IntervalResult` of absolute errors: how far requests move the mean; too few for an interval."""
    group = words(numpy_ops, integer_ids(request), 0)[0].astype(np.int64) % GROUPS
    error = [Fraction(each) for each in np.abs(p.astype(np.float64) - y).tolist()]
    weight = [Fraction(each) for each in (np.ones(len(p)) if w is None else w).tolist()]
    total = sum(weight)
    mean = sum(map(operator.mul, error, weight)) / total
    moved = [Fraction(0)] * GROUPS  # in fractions: where groups do not move it, that is 0, and no rounding of it
    for at, its, counts in zip(group.tolist(), error, weight):
        moved[at] += (its - mean) * counts / total
    drawn = np.bincount(group, minlength=GROUPS)
    return (float(mean), *[np.nan] * 3, 0.9, np.array(moved, np.float64), drawn)


def squared_error(p: Any, y: Any, w: Any) -> float:
    return sklearn("mean_squared_error")(p, y, w)


def twice(reference: Callable[..., float]) -> Callable[..., tuple[float, float]]:
    return lambda p, y, w: (reference(p, y, w),) * 2


ACCURACY = accuracy(lambda p: p > 0.5)
AREA = area(linear_bucket(4095))
NO_REPLICATES = (*[np.nan] * 5, 0.9, np.full(REPLICATES, np.nan), 7, np.zeros(REPLICATES, int))

CASES = {
    "sliced auc": Case(
        lambda name=None, **k: fm.Sliced(fm.AUC(num_thresholds=4095), name=name, **k),
        probabilities,
        by_slice(AREA),
        shapes=SHAPES,
        columns=slot,
        modes=IN_MEMORY,
        undefined={},
    ),
    "sliced variance by text": Case(
        lambda name=None, **k: fm.Sliced(fm.MeanSquaredError(), "country", name=name, **k),
        numbers,
        by_slice(squared_error, "country"),
        shapes=SHAPES,
        columns=country,
        modes=IN_MEMORY,
        undefined={},
    ),
    "sliced accuracy of given keys": Case(
        lambda name=None, **k: fm.Sliced(fm.Accuracy(), keys=KEYS, name=name, **k),
        probabilities,
        by_slice(ACCURACY, keys=KEYS),
        exact=True,
        shapes=SHAPES,
        kinds="f",
        columns=slot,
        undefined=dict.fromkeys(KEYS, np.nan),
    ),
    "sliced gauc": Case(
        lambda name=None, **k: fm.Sliced(fm.GAUC(), name=name, **k),
        probabilities,
        by_slice(of_users(lambda y, w: w.sum())),
        shapes=SHAPES,
        columns=slot_and_user,
        modes=IN_MEMORY,
        undefined={},
    ),
    "sliced exact auc of given keys": Case(
        lambda name=None, **k: fm.Sliced(fm.ExactAUC(), keys=[0, 1], name=name, **k),
        probabilities,
        by_slice(sklearn("roc_auc_score"), keys=[0, 1]),
        shapes=SHAPES,
        columns=lambda rng, samples: {"slot": rng.integers(0, 2, samples)},
        modes=IN_MEMORY,
        undefined=dict.fromkeys((0, 1), np.nan),
    ),
    "windowed mean squared error": Case(
        lambda name=None, **k: fm.Windowed(fm.MeanSquaredError(), 100, name=name, **k),
        numbers,
        twice(squared_error),
        undefined=(np.nan, np.nan),
        warnings=2,
    ),
    "bootstrap accuracy": Case(
        lambda name=None, **k: bootstrap(fm.Accuracy(), name=name, **k),
        probabilities,
        resampled(ACCURACY),
        shapes=SHAPES,
        kinds="f",
        columns=request,
        undefined=NO_REPLICATES,
        tolerance=1e-11,
    ),
    "interval of absolute errors": Case(
        lambda name=None, **k: fm.Interval(
            fm.MeanAbsoluteError(), confidence=0.9, ids="request", groups=GROUPS, name=name, **k
        ),
        numbers,
        moved_by_request,
        shapes=SHAPES,
        columns=request,
        undefined=(*[np.nan] * 4, 0.9, np.full(GROUPS, np.nan), np.zeros(GROUPS, int)),
        tolerance=1e-9,
    ),
    "sliced bootstrap of squared errors": Case(
        lambda name=None, **k: fm.Sliced(bootstrap(fm.MeanSquaredError()), keys=[0, 1], name=name, **k),
        numbers,
        by_slice(resampled(squared_error), keys=[0, 1]),
        shapes=SHAPES,
        columns=slot_and_request,
        undefined=dict.fromkeys((0, 1), NO_REPLICATES),
        tolerance=1e-10,
    ),
}
