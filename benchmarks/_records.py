"""The records that `gather.py` brings together, and what they are added to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable

import numpy as np

import fleetmetrics

BATCH_SIZE = 4096


class Count(fleetmetrics.BaseMetric):
    """The least that a metric can do with its records: what is measured is their way."""

    ready, results = 0.0, ()

    def compute_metric(self, results: Any) -> int:
        self.ready, self.results = time.perf_counter(), results
        return len(results)


class Lists:
    """What one writes by hand for scores and labels."""

    def __init__(self) -> None:
        self.scores: list[Any] = []
        self.labels: list[Any] = []

    def add(self, score: Any, label: Any) -> None:
        self.scores.append(score)
        self.labels.append(label)


@dataclass
class Box:
    left: float
    right: float
    label: int


def word(random: Any) -> str:
    return f"sample {random.randint(10**9)} of {random.randint(10**6)}"


def floats(random: Any, size: int) -> np.ndarray:
    return np.asarray(random.rand(size), np.float32)


def tensor(random: Any) -> Any:
    import paddle

    return paddle.to_tensor(floats(random, 10))


DICTS = "dicts of two arrays of 4 floats and a label"
LISTS: dict[str, Callable[[Any], Any]] = {
    DICTS: lambda random: {"score": floats(random, 4), "box": floats(random, 4), "label": random.randint(80)},
    "(score, label)": lambda random: (random.rand(), random.randint(2)),
    "floats": lambda random: random.rand(),
    "texts": word,
    "arrays of 1 to 19 floats": lambda random: floats(random, random.randint(1, 20)),
    "lists of a text and a list of floats": lambda random: [word(random), random.rand(random.randint(1, 6)).tolist()],
    "a float or None": lambda random: random.rand() if random.rand() < 0.5 else None,
    "instances of a dataclass": lambda random: Box(random.rand(), random.rand(), random.randint(80)),
    "Paddle tensors of 10 floats": tensor,
}
"""Makes one record from random numbers."""


def clicks(random: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels, 12 bytes a record."""
    return floats(random, size), random.randint(0, 2, size)


def batches(*columns: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Each array has memory of its own, as what a model returns."""
    starts = range(0, len(columns[0]), BATCH_SIZE)
    return [tuple(column[start : start + BATCH_SIZE].copy() for column in columns) for start in starts]


def append(lists: Lists, given: Iterable[Any]) -> None:
    scores, labels = lists.scores, lists.labels
    for score, label in given:
        scores.append(score)
        labels.append(label)


def by_position(metric: Count | Lists, given: Iterable[Any]) -> None:
    for score, label in given:
        metric.add(score, label)


def by_name(metric: Count | Lists, given: Iterable[Any]) -> None:
    for score, label in given:
        metric.add(score=score, label=label)
