"""Values of policies: their definitions in NumPy, on ratios that are not rounded to anything."""

from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case

Rng = np.random.Generator


def policies(rng: Rng, samples: int, dtype: str, label_dtype: str, columns: int = 2) -> tuple[Any, Any]:
    """Probabilities of the logged actions under both policies, expected rewards, and rewards."""
    target = rng.random(samples) * (rng.random(samples) < 0.8)
    logged = rng.integers(1, 9, samples) / 8
    table = np.stack([target, logged, rng.random(samples), rng.normal(size=samples)][:columns], axis=1)
    return table.astype(dtype), rng.integers(0, 2, samples).astype(label_dtype)


def by_definition(value: Callable[..., float], clip: float = np.inf) -> Callable[..., float]:
    def reference(p: Any, y: Any, w: Any) -> float:
        p = p.astype(float)
        weight = np.ones(len(p)) if w is None else w
        return value(np.minimum(p[:, 0] / p[:, 1], clip), y.astype(float), weight, *p.T[2:]) if len(p) else np.nan

    return reference


TABLE: dict[str, Any] = {"shapes": ("[n]",), "kinds": "f"}
CASES = {
    "ips": Case(fm.IPS, policies, by_definition(lambda r, y, w: np.average(r * y, weights=w)), **TABLE),
    "clipped ips": Case(
        functools.partial(fm.IPS, clip=1.5),
        policies,
        by_definition(lambda r, y, w: np.average(r * y, weights=w), 1.5),
        **TABLE,
    ),
    "snips": Case(fm.SNIPS, policies, by_definition(lambda r, y, w: np.average(y, weights=w * r)), **TABLE),
    "doubly robust": Case(
        fm.DoublyRobust,
        functools.partial(policies, columns=4),
        by_definition(lambda r, y, w, m, q: np.average(q + r * (y - m), weights=w)),
        **TABLE,
    ),
    "effective sample size": Case(
        fm.EffectiveSampleSize,
        policies,
        by_definition(lambda r, y, w: (w * r).sum() ** 2 / (w * r**2).sum()),
        **TABLE,
    ),
}
