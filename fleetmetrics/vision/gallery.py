"""Retrieval: how well the features of a network find, in a gallery, what matches a query."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Sequence

import numpy as np

from fleetmetrics.batch.keys import keys_of
from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.gallery import SIMILARITIES, Features, search
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.records.base_metric import BaseMetric
from fleetmetrics.records.share import Share
from fleetmetrics.state.state_dicts import Holder
from fleetmetrics.support.checks import choice_of, whole_number_of
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import numpy_ops

__all__ = ["Retrieval"]


class _WithFeatures(BaseMetric):
    """Keeps features with their labels."""

    similarity: str

    def add(self, features: Any, labels: Any, cameras: Any = None, *, ids: Any = None) -> None:
        rows = np.array(numpy_ops.asarray(features, "features"))  # a copy, since its owner may write into it
        columns = {"features": rows, "labels": _one_each(labels, "labels")}
        if cameras is not None:
            columns["cameras"] = _one_each(cameras, "cameras")
        self._check(rows)
        super().add(**columns, ids=ids)

    def _check(self, rows: np.ndarray) -> None:
        before = self._columns.batches[0][0].shape[1:] if self._columns.batches else rows.shape[1:]
        if rows.ndim != 2 or rows.shape[1:] != before or not rows.shape[1]:
            width = before[0] if before else "d"
            raise InvalidInputError(
                f"{self.name}: features has shape {list(rows.shape)}; it must be [n, {width}], a row for each sample, "
                "of the same width in every batch"
            )
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if wrong.size:
            raise InvalidInputError(f"{self.name}: row {wrong[0]} of features has nan or inf; the batch was not added")
        zero = np.flatnonzero(~rows.any(axis=1)) if self.similarity == "cosine" else wrong
        if zero.size:
            raise InvalidInputError(
                f"{self.name}: row {zero[0]} of features is all zeros, which has no cosine; use similarity='dot' or "
                "'euclidean', or leave the sample out"
            )


class _Gallery(_WithFeatures):
    """The gallery, which comes before the queries: rank 0 keeps it until it has them."""

    def __init__(self, similarity: str, sampler: Any) -> None:
        super().__init__(sampler=sampler)
        self.similarity: str = similarity
        self.items: Features | None = None

    @property
    def name(self) -> str:
        return "Retrieval.gallery"

    def compute_metric(self, results: Any) -> None:
        self.items = _features_of(self.name, results)


class Retrieval(_WithFeatures):
    """How well features find matching items in a gallery: mAP, mINP and recall at k, as for image retrieval.

    Formula: of a query whose m matches have the places r_1 < r_2 < ... in the ranked gallery, the average precision is
    ``sum_i(i / r_i) / m``, the inverse negative penalty is ``m / r_m``, and the recall at k is ``[r_1 <= k]``. The
    values are means over the queries.

    An item matches a query of the same label. Queries without a match are left out, with `UndefinedMetricWarning`.
    **Ties**: of equally similar items, those that match come last, so the order of the gallery and the number of
    workers do not count. Similarities are compared in float32.

    `add` takes queries, and ``gallery.add`` the gallery, on any worker and in any order: features ``[n, d]``, a label
    each (integers or strings), and maybe ``cameras``: an item with the query's label and camera is left out of its
    ranking. For queries that are in the gallery, give the index of each picture as its camera. Features go to the host.
    Rank 0 gathers all features and holds a block of similarities at a time. Undefined without queries that match.

    Args:
        topk: the k of recall, one or several.
        similarity: ``"cosine"``, ``"dot"``, or ``"euclidean"``, by which the nearest is the most similar.
        sampler: assigns the queries, as for `BaseMetric`: the padding is left out. Or add with ``ids=``.
        gallery_sampler: the same for the gallery.

    Raises:
        InvalidInputError: an argument is invalid; or, from ``compute``, the gallery is empty, or widths differ.

    Examples:
        >>> metric = Retrieval(topk=(1, 2))
        >>> metric.gallery.add([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], labels=[7, 8, 8])
        >>> metric.add([[1.0, 0.0], [0.1, 1.0]], labels=[8, 8])
        >>> metric.compute()
        {'mAP': 0.7916666666666666, 'mINP': 0.8333333333333333, 'recall@1': 0.5, 'recall@2': 1.0}
    """

    gallery: _Gallery
    topk: tuple[int, ...]

    better = "higher"
    gives = "parts"
    incidental: ClassVar[tuple[str, ...]] = (*BaseMetric.incidental, "gallery_sampler")

    def __init__(
        self,
        topk: int | Sequence[int] = (1, 5),
        similarity: str = "cosine",
        *,
        sampler: Any = None,
        gallery_sampler: Any = None,
    ) -> None:
        super().__init__(sampler=sampler)
        several = topk if isinstance(topk, (list, tuple)) else [topk]
        self.topk = tuple(whole_number_of("topk, or each of several,", k, 1) for k in several)
        self.similarity: str = choice_of("similarity", similarity, SIMILARITIES)
        self.settle(topk=self.topk)
        self.gallery = _Gallery(similarity, gallery_sampler)

    def compute_metric(self, results: Any) -> dict[str, float]:
        queries, gallery, self.gallery.items = _features_of(self.name, results), self.gallery.items, None
        if queries is None:
            return dict.fromkeys(self._names(), undefined(self.name, "there are no queries"))
        if gallery is None:
            raise InvalidInputError(f"{self.name}: the gallery is empty; add to it on some worker: gallery.add(...)")
        _check_alike(self.name, queries, gallery)
        ranks = search(queries, gallery, self.similarity)
        total, number = len(queries.labels), len(ranks.first)
        if not number:
            return dict.fromkeys(self._names(), undefined(self.name, "nothing in the gallery matches a query"))
        if number < total:
            warn(
                f"{self.name} is undefined for {counted(total - number, 'queries')} of {total}, which nothing in the "
                "gallery matches; left out",
                UndefinedMetricWarning,
            )
        hits = [int(np.count_nonzero(ranks.first <= k)) / number for k in self.topk]
        means = (math.fsum(ranks.precision) / number, math.fsum(ranks.penalty) / number)
        return dict(zip(self._names(), (*means, *hits)))

    def _names(self) -> list[str]:
        return ["mAP", "mINP", *(f"recall@{k}" for k in self.topk)]

    def _shares(self, size: int | None = None, whole: bool = True) -> list[Share]:
        return [*self.gallery._shares(whole=whole), *super()._shares(size, whole)]

    def holders(self) -> Sequence[Holder]:
        return [*super().holders(), *self.gallery.holders()]

    def reset(self) -> None:
        """Forget the queries and the gallery of this worker."""
        super().reset()
        self.gallery.reset()


def _one_each(values: Any, argument: str) -> np.ndarray:
    keys: np.ndarray = keys_of(values, argument)
    if keys.shape[1:] not in ((), (1,)):
        raise InvalidInputError(f"{argument} has shape {list(keys.shape)}; it must be [n] or [n, 1], one per sample")
    return keys.reshape(-1)


def _features_of(name: str, results: Any) -> Features | None:
    """The joined columns; None without samples."""
    if not len(results):
        return None
    if not isinstance(results["features"], np.ndarray):  # no array holds them all
        widths = sorted({len(row) for row in results["features"]})
        raise InvalidInputError(
            f"{name}: the features of some samples have {' and of others '.join(map(str, widths))} numbers; all need "
            "the same number"
        )
    keys = {column: keys_of(values, f"{name}: {column}") for column, values in results.items() if column != "features"}
    return Features(results["features"], **keys)


def _check_alike(name: str, queries: Features, gallery: Features) -> None:
    """Raise unless queries and gallery can be compared."""
    if queries.features.shape[1] != gallery.features.shape[1]:
        widths = f"{queries.features.shape[1]} numbers, and those of the gallery {gallery.features.shape[1]}"
        raise InvalidInputError(f"{name}: features of the queries have {widths}; both need the same number")
    if (queries.cameras is None) != (gallery.cameras is None):
        raise InvalidInputError(f"{name}: only one of queries and gallery came with cameras; give them to both")
    for column in ("labels", "cameras"):
        both = [getattr(queries, column), getattr(gallery, column)]
        if len({values.dtype.kind == "U" for values in both if values is not None}) > 1:
            raise InvalidInputError(f"{name}: {column} are strings on one side and integers on the other; use one kind")
