"""Metrics of the first k documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.formulas import ranking
from fleetmetrics.formulas.ranking import RankedQueries
from fleetmetrics.metrics.ranking.queries import AtEach, QueryMetric, QuerySettings, RankingMetric, where_relevant
from fleetmetrics.support.checks import flag_of, positive_of
from fleetmetrics.support.typed import Unpack

__all__ = ["FBetaAtK", "FallOutAtK", "HitRate", "PrecisionAtK", "RPrecision", "RecallAtK"]


class HitRate(RankingMetric[Value]):
    """Share of queries with a relevant document among the first k.

    Formula: ``[some document of relevance > 0 is among the first k]``, the mean over queries; if the k-th rank is tied,
    the probability over the orders of the tie. Undefined for a query without relevant documents.

    Inputs and arguments as for `DCG`, without ``gains``.

    Examples:
        >>> metric = HitRate(k=2)
        >>> metric.add([0.9, 0.5, 0.1, 0.8], [0, 1, 1, 1], query=[7, 7, 7, 9])
        >>> metric.compute()
        1.0
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: HitRate[float], k: int | None = None, **settings: Unpack[QuerySettings]) -> None: ...
        @overload
        def __init__(self: HitRate[AtEach], k: Sequence[int], **settings: Unpack[QuerySettings]) -> None: ...
        def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[QuerySettings]) -> None: ...

    title = "hit rate"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return where_relevant(ranked, ranking.hit_rate_at.bare(ranked, k))


class PrecisionAtK(RankingMetric[Value]):
    """Share of relevant documents among the first k, the mean over queries.

    Formula: ``|relevant among the first k| / k``, even for a query with fewer documents; without k, the divisor is the
    number of documents. Inputs and further arguments as for `MAP`.

    Args:
        adaptive_k: whether to divide by the documents of a query that has fewer than k, as XGBoost's ``pre@k`` does.

    Examples:
        >>> metric = PrecisionAtK(k=2)
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    adaptive_k: bool

    title = "precision at k"

    @overload
    def __init__(
        self: PrecisionAtK[float], k: int | None = None, *, adaptive_k: bool = False, **settings: Unpack[QuerySettings]
    ) -> None: ...
    @overload
    def __init__(
        self: PrecisionAtK[AtEach], k: Sequence[int], *, adaptive_k: bool = False, **settings: Unpack[QuerySettings]
    ) -> None: ...
    def __init__(
        self,
        k: int | Sequence[int] | None = None,
        *,
        adaptive_k: bool = False,
        **settings: Unpack[QuerySettings],
    ) -> None:
        super().__init__(k, **settings)
        self.adaptive_k = flag_of("adaptive_k", adaptive_k)

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        places = _places(ranked, k)
        if self.adaptive_k:
            places = np.minimum(places, _places(ranked, None))
        return ranking.hits_at.bare(ranked, k) / places


class RecallAtK(RankingMetric[Value]):
    """Share of the relevant documents that are among the first k, the mean over queries.

    Formula: ``|relevant among the first k| / R``, where R documents are relevant. Undefined for a query without
    relevant documents. Inputs and arguments as for `MAP`.

    Examples:
        >>> metric = RecallAtK(k=1)
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: RecallAtK[float], k: int | None = None, **settings: Unpack[QuerySettings]) -> None: ...
        @overload
        def __init__(self: RecallAtK[AtEach], k: Sequence[int], **settings: Unpack[QuerySettings]) -> None: ...
        def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[QuerySettings]) -> None: ...

    title = "recall at k"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return where_relevant(ranked, ranking.hits_at.bare(ranked, k) / np.maximum(ranked.relevant, 1))


class FallOutAtK(RankingMetric[Value]):
    """Share of the irrelevant documents that are among the first k, the mean over queries; lower is better.

    Formula: ``|irrelevant among the first k| / N``, where N documents have a relevance of 0. Undefined for a query with
    relevant documents only.

    Inputs and arguments as for `DCG`, without ``gains``.

    Examples:
        >>> metric = FallOutAtK(k=2)
        >>> metric.add([0.9, 0.5, 0.1], [0, 1, 0], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: FallOutAtK[float], k: int | None = None, **settings: Unpack[QuerySettings]) -> None: ...
        @overload
        def __init__(self: FallOutAtK[AtEach], k: Sequence[int], **settings: Unpack[QuerySettings]) -> None: ...
        def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[QuerySettings]) -> None: ...

    better = "lower"
    title = "fall-out at k"
    undefined_for = "without an irrelevant document"
    all_undefined = "no query has an irrelevant document"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.fall_out_at.bare(ranked, k)


class FBetaAtK(RankingMetric[Value]):
    """Weighted harmonic mean of `PrecisionAtK` and `RecallAtK` of a query, the mean over queries.

    Formula: ``(1 + beta**2) * |relevant among the first k| / (beta**2 * R + k)``, where R documents are relevant.
    Undefined for a query without relevant documents.

    Inputs and further arguments as for `DCG`, without ``gains``.

    Args:
        beta: the importance of recall relative to precision, above 0.

    Examples:
        >>> metric = FBetaAtK(k=2)
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    beta: float

    title = "f-beta at k"

    @overload
    def __init__(
        self: FBetaAtK[float], k: int | None = None, *, beta: float = 1.0, **settings: Unpack[QuerySettings]
    ) -> None: ...
    @overload
    def __init__(
        self: FBetaAtK[AtEach], k: Sequence[int], *, beta: float = 1.0, **settings: Unpack[QuerySettings]
    ) -> None: ...
    def __init__(
        self, k: int | Sequence[int] | None = None, *, beta: float = 1.0, **settings: Unpack[QuerySettings]
    ) -> None:
        super().__init__(k, **settings)
        self.beta = positive_of("beta", beta)

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        square = min(self.beta, 1e100) ** 2  # a larger one changes no digit
        below = square * ranked.relevant + _places(ranked, k)
        return where_relevant(ranked, (1 + square) * ranking.hits_at.bare(ranked, k) / below)


class RPrecision(QueryMetric[float]):
    """Precision at R, the number of relevant documents of a query; the mean over queries.

    Formula: ``|relevant among the first R| / R``. Undefined for a query without relevant documents. Inputs and
    arguments as for `MAP`, without ``k``.

    Examples:
        >>> metric = RPrecision()
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    title = "r-precision"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.r_precision.bare(ranked)


def _places(ranked: RankedQueries, k: int | None) -> Any:
    """The number of documents that count: k, or all of the query."""
    return np.diff(np.append(ranked.start, len(ranked.query))) if k is None else k
