"""Metrics outside the catalogue: counts of a result in addition to the requested metrics."""

from __future__ import annotations

import copy
import hashlib
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.base.metric import Common, Declared, Metric
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, words
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import histogram_counts
from fleetmetrics.metrics.aggregation import Count
from fleetmetrics.metrics.regression.differences import signed_error
from fleetmetrics.state.state import State
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.vocabulary import argument
from fleetmetrics.xp.score_buckets import log_odds, odds_bounds

__all__ = ["Actual", "Errors", "Joined", "Positives", "Rows"]

#: The number of cells of errors and predictions for each sign; and the most groups of predictions.
_BINS, _GROUPS = 4096, 20


class Rows(Count):
    """The number of rows that count, of any weight above 0.

    Args:
        several: whether a row may have several labels.
    """

    declared: tuple[Declared, ...] = (Declared("total", key="rows"),)

    def __init__(self, *, several: bool = False, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.several = several

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        if batch.width == 1:
            return {"total": batch.number}
        if not self.several:
            raise InvalidInputError(
                f"label has lists of {batch.width} labels; write each label to a column of its own and name the "
                f"columns, {argument('label', 'click,like')} and {argument('score', 'p1,p2')}; or evaluate all labels "
                f"together, {argument('task', 'multilabel')}"
            )
        rows = copy.copy(batch)
        rows.weight = None
        return {"total": rows.weighted_sum(rows.first_of_rows(None))}


class Positives(Metric):
    """The number of rows labeled 1, of any weight above 0; other metrics check the labels."""

    samples: str = "any"
    declared: tuple[Declared, ...] = (Declared("total", key="positives"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        rows = copy.copy(batch)
        rows.weight = None
        return {"total": rows.weighted_sum(rows.positive)}

    def formula(self, total: np.ndarray) -> Any:  # noqa: D102
        return total.item()

    def values_from_rows(self, values: Mapping[State, np.ndarray]) -> Sequence[Any]:  # noqa: D102
        return values[self.states["total"]].tolist()


class Errors(Metric):
    """Errors of predictions of any size: each doubling from 2e-10 to 4e9, of either sign, has 64 bins."""

    requirements: tuple[str | Requirement, ...] = ("finite_prediction", "finite_label")
    pictures: tuple[str, ...] = ("residuals",)
    gives = "counts"
    declared: tuple[Declared, ...] = (Declared("cells", (2 * _BINS - 1,)),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        return {"cells": batch.histogram(_cell(signed_error(batch)))}

    def formula(self, cells: np.ndarray) -> Any:  # noqa: D102
        return histogram_counts(cells, _edges())


class Actual(Metric):
    """The mean label by prediction: the number, the sum of the labels and that of their squares by cell.

    The cells are those of `Errors`; the formula forms groups of equal size.
    """

    requirements: tuple[str | Requirement, ...] = ("finite_prediction", "finite_label")
    pictures: tuple[str, ...] = ("predicted_actual",)
    gives = "curve"
    declared: tuple[Declared, ...] = (
        Declared("number", (2 * _BINS - 1,)),
        Declared("label", (2 * _BINS - 1,), "float64"),
        Declared("square", (2 * _BINS - 1,), "float64"),
    )

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        place, label = _cell(np.asarray(batch.values, np.float64)), np.asarray(batch.targets, np.float64)
        sums = {"label": label, "square": label * label}
        return {
            "number": batch.histogram(place),
            **{name: batch.histogram(place, amount=amount) for name, amount in sums.items()},
        }

    def formula(self, number: np.ndarray, label: np.ndarray, square: np.ndarray) -> Any:
        """The groups; a prediction counts as the middle of its cell, and weighted groups have no standard error."""
        used, edges = np.flatnonzero(number), _edges()
        if not len(used):
            return dict.fromkeys(("predicted", "actual", "error"), np.zeros(0))
        until = np.cumsum(number[used])
        group = (_GROUPS * (until - number[used] / 2) / until[-1]).astype(int)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        middle = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]]) * number
        rows, predicted, actual, squares = (
            np.add.reduceat(sums[used], starts) for sums in (number, middle, label, square)
        )
        with np.errstate(over="ignore", invalid="ignore"):  # rows may be the smallest weights
            mean = actual / rows
            error = np.sqrt(np.maximum(squares / rows - mean**2, 0) / rows)
        error[rows < 2] = np.nan
        return {
            "predicted": predicted / rows,
            "actual": mean,
            "error": error if number.dtype.kind == "i" else error * np.nan,
        }


def _cell(values: np.ndarray) -> np.ndarray:
    """The cell of each value, by its sign and size."""
    layout = log_odds(_BINS)
    place = np.abs(values).view(np.int64)
    place >>= layout.shift
    place -= layout.first
    place.clip(0, _BINS - 1, out=place)
    np.negative(place, out=place, where=values < 0)
    place += _BINS - 1
    return place


def _edges() -> np.ndarray:
    bounds = odds_bounds(_BINS)
    return np.concatenate([-bounds[::-1], bounds])


def ids_with_labels(ids: Any, labels: Any) -> np.ndarray:
    """An integer for each id with its label: int64 ``[n]``."""
    of_texts = labels.dtype == object if isinstance(labels, np.ndarray) else isinstance(labels, (list, tuple))
    if of_texts:
        digests = b"".join(hashlib.blake2b(repr(label).encode(), digest_size=8).digest() for label in labels)
        bits = np.frombuffer(digests, "<i8").astype(np.int64)
    else:
        bits = (np.asarray(labels, np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
    mixed: np.ndarray = integer_ids(ids) ^ (bits * np.int64(0x5851F42D4C957F2D))
    return mixed


class Joined(Metric):
    """A fingerprint of the ids with their labels, 128 bits in four sums of hashes, and the number of rows."""

    columns: tuple[str, ...] = ("id",)
    samples: str = "any"
    declared: tuple[Declared, ...] = (Declared("sums", (5,), "int64"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        both = ids_with_labels(batch.columns["id"], batch.labels)
        sums = [word.sum(dtype=np.int64) for seed in (0, 1) for word in words(batch.xp, both, seed)]
        return {"sums": np.array([*sums, len(both)], np.int64)}

    def formula(self, sums: np.ndarray) -> Any:  # noqa: D102
        return sums
