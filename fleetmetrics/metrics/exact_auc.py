"""The exact area under a curve, from the scores of all workers."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any, Literal, Mapping, Sequence

import numpy as np

from fleetmetrics.base.metric import Declared, Settings, Undefinable, WithoutColumns
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.exact_areas import (
    count_exact_auc,
    count_keys,
    ends_of_scores,
    exact_auc_of,
    exponent_of,
    fold_exact_auc,
    keys_of,
    sort_by_score,
    sorted_keys,
    start_exact_auc,
    unpacked,
)
from fleetmetrics.metrics.auc import curve_of
from fleetmetrics.metrics.click_through import clicks, others
from fleetmetrics.metrics.task import DISTRIBUTION_ALONE
from fleetmetrics.records.table import Kept, Records, Table
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp import numpy_ops

__all__ = ["ExactAUC"]

_COLUMNS = ("score", "label", "weight")


class ExactAUC(WithoutColumns[float], Undefinable[float], RecordMetric[float]):
    """Exact area under the ROC or the precision-recall curve, over the samples of all workers, with ties.

    Formula: see `fleetmetrics.formulas.exact_auc`. The value equals `sklearn.metrics.roc_auc_score` (with ``max_fpr``
    too), or for ``curve="PR"`` `sklearn.metrics.average_precision_score`, over all samples in one process.

    ``add(prediction, label)`` takes scores of the label's shape, probabilities or any other finite numbers (only their
    order counts; integers from 1 - 2**63 to 2**63 - 1 exactly, unless some batches hold floats), or ``[n, 2]``
    probabilities of both classes, and labels 0 or 1. Undefined if a class has no samples (for the PR curve class 1).

    Every worker keeps and sorts its own samples, at most 9 bytes each (5 with float32 scores, 8 more with weights);
    rank 0 (under MPI each worker) then reads those of all workers by descending score, a piece at a time.
    `fleetmetrics.AUC` needs 64 KiB, one exchange and no sorting; its ``bounds`` show whether that is accurate enough.

    Args:
        curve: "ROC", or "PR" for the average precision.
        max_fpr: standardized partial area up to this false positive rate, in (0, 1]; for ``curve="ROC"`` only. None:
            the whole area.

    Examples:
        >>> metric = ExactAUC()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
    """

    curve: str
    max_fpr: float | None
    table: Table

    better = "higher"
    requirements: tuple[str | Requirement, ...] = ("finite_prediction", "class_label")
    # The total weight of each class, which the fold needs from the first piece on.
    declared: tuple[Declared, ...] = (Declared("negatives", key="others"), Declared("positives", key="clicks"))

    def __init__(
        self, *, curve: Literal["ROC", "PR"] = "ROC", max_fpr: float | None = None, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(**settings)
        self.curve, self.max_fpr = curve_of(curve, max_fpr)
        self.table = _Scores(self.name, _COLUMNS, "score", "scores and classes by score", _sorted)

    def requirements_of(self, batch: Batch) -> tuple[Any, ...]:
        return (DISTRIBUTION_ALONE, "class_label") if batch.classes else self.requirements

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"negatives": others(batch), "positives": clicks(batch)}

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        xp = batch.xp
        return {"score": batch.scores, "label": xp.cast(batch.positive, "bool"), "weight": batch.weight}

    def start(self) -> dict[str, Any]:
        return start_exact_auc()

    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        totals = states["negatives"].item(), states["positives"].item()
        return count_exact_auc(records["label"], records["weight"], totals)

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        score, label, weight = (records[name] for name in _COLUMNS)
        totals = states["negatives"].item(), states["positives"].item()
        return fold_exact_auc(before, score, label, weight, totals, self.curve, self.max_fpr)

    def alone(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        if "keys" in records and self._is_whole:
            return count_keys(sorted_keys(records["keys"]))
        return super().alone(records, states)

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        return {name: carry[name] + later[name] for name in carry}

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        if not records.length:
            return {"ranges": []}
        low, high = ends_of_scores(records)
        counts = [states["negatives"].item(), states["positives"].item()]
        above, of_all = self.start(), None
        if not self._is_whole:
            ranges = [] if totals is None else totals["ranges"]
            weights = [[_times(x, entry[5]) for x in entry[2:4]] for entry in ranges]
            if not any(entry[:2] == [low, high] and _alike(its, counts) for entry, its in zip(ranges, weights)):
                raise InvalidInputError(
                    f"{self.name}: the contribution of samples with scores from {low} to {high} depends on higher "
                    'scores; give close(complete_by="score", totals=) an ExactAUC() that holds the same parts, '
                    "closed by score"
                )
            counts = of_all = [sum(its) for its in zip(*weights)]
            before = [its for entry, its in zip(ranges, weights) if entry[0] > high] or [[0, 0]]
            negative, positive = (_times(sum(its), -exponent_of(counts)) for its in zip(*before))
            above = {"negative": negative, "positive": positive, "area": 0}
        score, label, weight = (records.cached("prepared", self.table.prepare)[name] for name in _COLUMNS)
        folded = fold_exact_auc(above, score, label, weight, (counts[0], counts[1]), self.curve, self.max_fpr)
        return {"ranges": [[low, high, *folded.values(), exponent_of(counts), of_all]]}

    def join_closed(self, carry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        ranges = sorted([*carry["ranges"], *other["ranges"]], key=itemgetter(0))
        for one, two in zip(ranges, ranges[1:]):
            if two[0] <= one[1]:
                raise InvalidInputError(
                    f"{self.name}: one part has scores from {one[0]} to {one[1]}, and another one from {two[0]} to "
                    f"{two[1]}; to be closed by score, a part must have all samples of its range"
                )
        return {"ranges": ranges}

    def of_closed(self, carry: dict[str, Any], states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        carried, common = self.start(), max((entry[5] for entry in carry["ranges"]), default=0)
        for _, _, n, p, area, exponent, _ in reversed(carry["ranges"]):
            n, p = _times(n, exponent - common), _times(p, exponent - common)
            pairs = 2 * n * carried["positive"] if self._is_whole else 0
            area = _times(area, 2 * (exponent - common))
            carried = self.join(carried, {"negative": n, "positive": p, "area": area + pairs})
        weights = [_times(carried["negative"], common), _times(carried["positive"], common)]
        for *_, of_all in carry["ranges"]:
            if of_all is not None and not _alike(of_all, weights):
                raise InvalidInputError(
                    f"{self.name}: the samples of the classes weigh {weights} in the closed parts, but {of_all} in "
                    "totals; merge all parts that totals has"
                )
        return carried

    @property
    def _is_whole(self) -> bool:
        return self.curve == "ROC" and self.max_fpr in (None, 1)

    def formula(self, negative: Any, positive: Any, area: Any, **totals: np.ndarray) -> float:
        return exact_auc_of(negative, positive, area, self.curve, self.max_fpr, self.zero_division)


def _times(number: Any, exponent: int) -> Any:
    """A number times a power of two."""
    return math.ldexp(number, exponent) if exponent else number


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether weights differ by rounding at most."""
    return all(math.isclose(*pair) for pair in zip(one, other))


class _Scores(Table):
    """Score and label of a sample in one integer, while there are no weights and no scores below 0."""

    packed = "keys"

    def on_host(self, kept: Kept) -> Kept:
        records: Mapping[str, Any] = kept.records
        if kept.xp is numpy_ops and records["weight"] is None and records["score"].dtype.kind == "f":
            keys = keys_of(records["score"], records["label"])
            if keys is not None:
                return Kept(None, None, {"keys": keys})
        return super().on_host(kept)

    def joined(self, parts: Sequence[Mapping[str, Any]]) -> Records:
        if len({part["keys"].dtype if "keys" in part else None for part in parts}) > 1:
            apart = [_sorted(part) if "keys" in part else part for part in parts]
            parts = [{**own, "score": -own["score"]} if "keys" in part else part for own, part in zip(apart, parts)]
        return super().joined(parts)


def _sorted(records: Mapping[str, Any]) -> Records:
    if "keys" in records:
        columns: Any = (*unpacked(sorted_keys(records["keys"])), None)
    else:
        columns = sort_by_score(*(records[name] for name in _COLUMNS))
    return Records(dict(zip(_COLUMNS, columns)))
