"""Aggregates of values: mean, variance, histogram."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import fleetmetrics as fm
from fleetmetrics.formulas import HistogramCounts
from tests.cases.base import Case, values

EDGES = [-150.0, -0.1 * 3, 0.0, 1 / 3, 50.0, 2.0**29]


def average(p: Any, _: Any, w: Any) -> float:
    return float(np.average(p.astype(float), weights=w))


def variance(p: Any, _: Any, w: Any) -> float:
    """For these weights statsmodels' `DescrStatsW`; NumPy's `cov` has the same meaning for whole ones."""
    from statsmodels.stats.weightstats import DescrStatsW

    return float(DescrStatsW(p.astype(float), w, ddof=0.5).var)


def deviation(p: Any, _: Any, w: Any) -> float:
    p = p.astype(float)
    return float(np.sqrt(np.average((p - np.average(p, weights=w)) ** 2, weights=w)))


def histogram(edges: Any) -> Any:
    def reference(p: Any, _: Any, w: Any) -> HistogramCounts:
        p = p.astype(float)
        w = np.ones(p.size, np.int64) if w is None else w
        weights = None if w.dtype == np.int64 else w
        counts = np.histogram(p, edges, weights=weights)[0]
        return HistogramCounts(counts, np.array(edges), w[p < edges[0]].sum().item(), w[p > edges[-1]].sum().item())

    return reference


def some_values(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, None]:
    """Half of the floats are edges, or lie beside one."""
    drawn, _ = values(rng, samples, dtype, label_dtype)
    if np.dtype(dtype).kind == "f":
        edges = np.array(EDGES[:-1], dtype)
        near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]).astype(dtype)
        drawn = np.where(rng.random(samples) < 0.5, rng.choice(near[np.isfinite(near)], samples), drawn)
    return drawn.astype(dtype), None


CASES = {
    "mean": Case(fm.Mean, values, average),
    "variance": Case(
        functools.partial(fm.Variance, ddof=0.5), values, variance, shapes=("[n]", "[n, 1]", "[n, m]"), kinds="fi"
    ),
    "standard deviation": Case(fm.StandardDeviation, values, deviation, kinds="fi"),
    "histogram of edges": Case(
        functools.partial(fm.Histogram, bins=EDGES),
        some_values,
        histogram(EDGES),
        exact=True,
        undefined=HistogramCounts(np.zeros(5), np.array(EDGES), 0, 0),
        warnings=0,
    ),
    "histogram of equal bins": Case(
        functools.partial(fm.Histogram, bins=7, range=(-1, 1.1)),
        some_values,
        histogram(np.linspace(-1, 1.1, 8)),
        exact=True,
        undefined=HistogramCounts(np.zeros(7), np.linspace(-1, 1.1, 8), 0, 0),
        warnings=0,
    ),
}
