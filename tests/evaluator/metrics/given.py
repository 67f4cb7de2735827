"""What the tests of the evaluator's metrics share: data, the forms that it may have, and ways to evaluate it."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any, Iterator, Sequence

import numpy as np
import paddle
import pytest
from sklearn.datasets import load_digits

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.numbers.reductions import combine

Samples = Sequence["dict[str, Any]"]


class Torch:
    """As much of a torch tensor as the metrics use."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype, self.place = array, array.dtype, "gpu"

    def detach(self) -> Torch:
        return self

    def cpu(self) -> Torch:
        self.place = "cpu"
        return self

    def numpy(self) -> np.ndarray:
        assert self.place == "cpu"
        return self.array


#: The forms that an array may have.
FORMS = {"numpy": np.asarray, "paddle": paddle.to_tensor, "sequence": lambda array: np.asarray(array).tolist()}
FORMS_OF_A_SAMPLE = {**FORMS, "torch": lambda array: Torch(np.asarray(array))}


@functools.lru_cache(maxsize=None)
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Scores [1797, 10] (softmax, float32) of a poor classifier of the digits, and their labels."""
    images, label = load_digits(return_X_y=True)
    images = images + np.random.default_rng(0).normal(0, 6, images.shape)
    centers = np.stack([images[::3][label[::3] == digit].mean(axis=0) for digit in range(10)])
    distance = ((images[:, None] - centers) ** 2).mean(axis=2)
    likelihood = np.exp(distance.min(axis=1, keepdims=True) - distance)
    return (likelihood / likelihood.sum(axis=1, keepdims=True)).astype(np.float32), label


@functools.lru_cache(maxsize=None)
def properties() -> tuple[np.ndarray, np.ndarray]:
    """Scores [1797, 5] of properties that a digit may have, any number of them, and which it has."""
    score, label = digits()
    sets = [{0, 2, 4, 6, 8}, {2, 3, 5, 7}, {5, 6, 7, 8, 9}, {0, 1, 4, 9}, {0, 6, 8, 9}]
    has = np.array([[digit in each for each in sets] for digit in range(10)])
    return (score @ has).astype(np.float32), has[label].astype(np.int64)


@functools.lru_cache(maxsize=None)
def similar() -> tuple[np.ndarray, np.ndarray]:
    """Similarities [80, 400] of digits to those of a gallery, and whether they are the same digit."""
    images, label = load_digits(return_X_y=True)
    images = images + np.random.default_rng(1).normal(0, 8, images.shape)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    score = images[:80] @ images[100:500].T
    return score.astype(np.float32), (label[:80, None] == label[None, 100:500]).astype(np.int64)


def samples(**columns: Any) -> list[dict[str, Any]]:
    """Data samples from columns."""
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def evaluate(metric: Any, data_samples: Samples, batch_size: int = 64) -> dict[str, Any]:
    """Process batch by batch, and compute."""
    for start in range(0, len(data_samples), batch_size):
        metric.process(None, data_samples[start : start + batch_size])
    assert len(metric.results) == len(data_samples)  # one record per sample
    return metric.compute_metrics(metric.results)


def evaluate_split(metric: Any, records: Sequence[Any], workers: np.ndarray) -> dict[str, Any]:
    """Compute as several workers do, each of which holds some of the records."""
    parts = [[r for r, at in zip(records, workers) if at == worker] for worker in range(workers.max() + 1)]
    states = [metric.summarize(part) for part in parts if part]
    assert all(state.dtype in (np.int64, np.float64) for each in states for state in each.values())
    return metric.compute_from({name: combine("sum", [each[name] for each in states]) for name in states[0]})


def plain(value: Any) -> Any:
    """Arrays as lists, for comparisons."""
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def close(value: Any) -> Any:
    """Equal up to the rounding of float64."""
    value = plain(value)
    if isinstance(value, dict):
        return {name: close(entry) for name, entry in value.items()}
    return [close(entry) for entry in value] if isinstance(value, list) else pytest.approx(value, rel=1e-12, abs=1e-12)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """No warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def undefined() -> Any:
    """A warning that a metric is undefined."""
    return pytest.warns(UndefinedMetricWarning)
