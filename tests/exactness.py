"""How far a value depends on how the samples are split: measured over random splits, by `docs/scripts/exactness.py`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tests import contract
from tests.contract import CASES, Data
from tests.fakes import together

#: What a window holds depends on the batches: it is left out.
NAMES = [name for name in CASES if "window" not in name]
SAMPLES = 400


def taken(data: Data, place: Any) -> Data:
    columns = {name: column[place] for name, column in data.columns.items()}
    return data.map(lambda part: part[place])._replace(columns=columns)


def value_of(name: str, data: Data, parts: int, rng: np.random.Generator) -> Any:
    """The value of this many workers, each with random samples in random batches; one worker has one batch."""
    worker = rng.integers(0, parts, len(data.prediction))
    sizes = rng.integers(1, 100, parts) if parts > 1 else [len(data.prediction)]

    def work(channel: Any) -> Any:
        metric = CASES[name].make(name="metric")
        own = taken(data, np.flatnonzero(worker == channel.rank))
        contract.feed(metric, contract.batches(own, int(sizes[channel.rank])), "numpy")
        return metric.compute(communicator=channel)

    values = together([work] * parts)
    for value in values:
        if isinstance(value, BaseException):
            raise value
    return values[0]


def may_be_exact(name: str, weighted: bool) -> bool:
    """Whether nothing is rounded on the way: states are counts or extremes, or records are summed without rounding."""
    metric = CASES[name].make()
    if weighted and any(metric.record_metrics()):
        return False
    if type(metric).__name__ == "ExactAUC" and (metric.curve == "PR" or metric.max_fpr is not None):
        return False  # a sum over pieces, whose ends depend on how many workers there are
    data = contract.draw(name, contract.first_dtypes(name), "real" if weighted else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        contract.feed(metric, [data], "numpy")
        sums = [state.read() for state in metric._states() if state.reduction not in ("max", "min")]
    return not any(array.dtype.kind == "f" and array.any() for array in sums)


def digits(name: str, weighted: bool, seed: int, splits: int = 6) -> float:
    """The decimal digits that all splits have in common, relative to the largest number of the value; inf: all bits."""
    rng = np.random.default_rng(seed)
    data = contract.draw(name, contract.first_dtypes(name), "real" if weighted else None, samples=SAMPLES, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = _flat(value_of(name, data, 1, rng))
        others = [_flat(value_of(name, data, int(parts), rng)) for parts in rng.integers(2, 8, splits)]
    largest = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    off = max(_distance(one, other) for other in others)
    return math.inf if off == 0 else -math.log10(off / largest) if largest else 0.0


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    assert one.shape == other.shape, (one, other)
    assert (np.isfinite(one) == np.isfinite(other)).all(), (one, other)
    finite = np.isfinite(one)
    return float(np.abs(one[finite] - other[finite]).max(initial=0.0))


def _flat(value: Any) -> np.ndarray:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return np.concatenate([_flat(each) for each in value]) if len(value) else np.empty(0)
    return np.ravel(np.asarray(np.nan if value is None else value, np.float64))
