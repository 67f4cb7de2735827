"""Metrics of the order of all documents, in which the first ones count more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Sequence, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import ranking
from fleetmetrics.formulas.ranking import RankedQueries
from fleetmetrics.metrics.ranking.queries import AtEach, QuerySettings, RankingMetric, where_relevant
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.vocabulary import counted

__all__ = ["DCG", "MAP", "MRR", "NDCG"]


def _has_a_sum(batch: Batch) -> Any:
    xp = batch.xp
    if xp.within(batch.targets, 0, 1e280):
        return None
    return xp.logical_and(xp.is_weight(batch.label), xp.logical_not(xp.greater(batch.targets, 1e280)))


def _has_a_gain(batch: Batch) -> Any:
    xp = batch.xp
    return xp.logical_and(xp.is_weight(batch.label), xp.logical_not(xp.greater(batch.label, 1000.0)))


_GAIN = Requirement("label", "a relevance from 0 to 1e280, so that sums of them are finite numbers", _has_a_sum)
_EXPONENT = Requirement(
    "label", "a relevance from 0 to 1000, so that the gain 2**relevance - 1 is a finite number", _has_a_gain
)


class _HasEntry(NamedTuple):
    """Which labels have one of this number of gains; equal ones share one check."""

    size: int

    def __call__(self, batch: Batch) -> Any:
        return batch.xp.is_class(batch.label, self.size)


def _gains_of(gains: Any) -> Any:
    """The argument ``gains``: a name, or the gains by relevance as a tuple."""
    if isinstance(gains, str):
        return choice_of("gains", gains, ("linear", "exponential"))
    try:
        table = np.asarray(gains, np.float64)
        valid = table.ndim == 1 and table.size > 0 and bool(((table >= 0) & (table <= 1e280)).all())
    except (OverflowError, TypeError, ValueError):
        valid = False
    if not valid:
        raise InvalidInputError(
            "gains must be 'linear', 'exponential', or a list of the gains of relevance 0, 1, 2, ... as numbers of at "
            f"least 0 and at most 1e280, such as LightGBM's label_gain [0, 1, 3, 7]; not {gains!r:.80}"
        )
    return tuple(table.tolist())


class GainSettings(QuerySettings, total=False):
    """Arguments of `DCG`."""

    gains: Literal["linear", "exponential"] | Sequence[float]


class DCG(RankingMetric[Value]):
    """Discounted cumulative gain of the documents of a query, the mean over all queries.

    Formula: ``sum_i gain_i / log2(i + 1)`` over the ranks i = 1, 2, ..., k of the documents by descending score. Tied
    documents share the mean of their gains: the value is the mean over all their orders.

    ``add(prediction, label, query=)`` takes scores and relevances (from 0 to 1e280; with exponential gains at most
    1000) of equal shape, and the query of each document: integers or strings. The documents of a query may come in any
    batch and on any worker. A query has the mean weight of its documents. Undefined without samples.

    Every worker keeps its own samples; rank 0 reads those of all workers query by query and never holds them all.

    Args:
        k: the number of documents that count, at least 1; None: all. For a sequence, the value is a dict by k.
        by: the argument of ``add`` that names the query of a document.
        gains: "linear", the relevance as in scikit-learn; "exponential", ``2**relevance - 1``; or a list of the gains
            of relevance 0, 1, 2, ..., LightGBM's ``label_gain``: relevances are then whole numbers.
        ties: of documents of equal score. "mean": the mean over all their orders; "best" or "worst": the order with the
            most or the least relevant first; "ascending" or "descending": that of their ids, ``add(..., document=)``,
            integers or strings. trec_eval takes descending ids, XGBoost and LightGBM ascending numbers of rows.
            Documents with the same id have the mean over their orders.
        document: the argument of ``add`` with the ids; with ``ties="ascending"`` or ``"descending"`` only.
        zero_division: the value of an undefined query, without a warning; nan: it is left out, with a warning.

    Examples:
        >>> metric = DCG(k=2)
        >>> metric.add([0.9, 0.1, 0.5], [3, 2, 0], query=[7, 7, 7])
        >>> metric.compute()
        3.0
    """

    gains: Any
    requirements: tuple[str | Requirement, ...]

    title = "dcg"
    highest: float = math.inf

    @overload
    def __init__(self: DCG[float], k: int | None = None, **settings: Unpack[GainSettings]) -> None: ...
    @overload
    def __init__(self: DCG[AtEach], k: Sequence[int], **settings: Unpack[GainSettings]) -> None: ...
    def __init__(
        self,
        k: int | Sequence[int] | None = None,
        *,
        gains: Literal["linear", "exponential"] | Sequence[float] = "linear",
        **settings: Unpack[QuerySettings],
    ) -> None:
        super().__init__(k, **settings)
        self.gains = _gains_of(gains)
        self.settle(gains=self.gains)
        rule = _EXPONENT if self.gains == "exponential" else _GAIN
        if isinstance(self.gains, tuple):
            has_gain: Any = _HasEntry(len(self.gains))
            allowed = f"a relevance with a gain: a whole number from 0 to {len(self.gains) - 1}, as gains has "
            rule = Requirement("label", allowed + counted(len(self.gains), "entries"), has_gain)
        self.requirements = ("finite_prediction", rule)

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.dcg_at.bare(self._with_gains(ranked), k, self.gains == "exponential")

    def _with_gains(self, ranked: RankedQueries) -> RankedQueries:
        """The documents, with the gains of a list in place of their relevances."""
        if not isinstance(self.gains, tuple):
            return ranked
        return ranked._replace(gain=np.take(self.gains, ranked.gain.astype(np.int64), mode="clip"))


class NDCG(DCG[Value]):
    """Normalized discounted cumulative gain: `DCG` divided by the highest DCG of any order of the documents.

    Formula: ``DCG@k / IDCG@k`` for each query, then the mean over queries; scikit-learn's ``ndcg_score`` with
    ``ignore_ties=False``. Undefined for a query without relevant documents. Inputs and arguments as for `DCG`.

    Examples:
        >>> metric = NDCG()
        >>> metric.add([0.9, 0.1, 0.5, 0.2, 0.7], [1, 0, 0, 1, 0], query=[7, 7, 7, 8, 8])
        >>> metric.compute()
        0.8154648767857288
        >>> metric = NDCG(k=[1, 3])
        >>> metric.add([0.9, 0.1, 0.5], [2, 4, 0], query=["shoes", "shoes", "shoes"])
        >>> metric.compute()
        {1: 0.5, 3: 0.7601875334318685}
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: NDCG[float], k: int | None = None, **settings: Unpack[GainSettings]) -> None: ...
        @overload
        def __init__(self: NDCG[AtEach], k: Sequence[int], **settings: Unpack[GainSettings]) -> None: ...
        def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[GainSettings]) -> None: ...

    title = "ndcg"
    highest: float = 1.0

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        ideal = ranking.ideal_dcg_at.bare(self._with_gains(ranked), k, self.gains == "exponential")
        return np.where(ideal > 0, super().of_queries(ranked, k) / np.where(ideal > 0, ideal, 1), np.nan)


class MRR(RankingMetric[Value]):
    """Mean reciprocal rank: one over the rank of the first relevant document, the mean over queries.

    Formula: ``1 / rank of the first document with relevance > 0``, 0 if it comes after the k-th; if it is tied, the
    mean over the orders of the tie. Undefined for a query without relevant documents.

    Inputs and arguments as for `DCG`, without ``gains``.

    Examples:
        >>> metric = MRR()
        >>> metric.add([0.9, 0.5, 0.1], [0, 1, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: MRR[float], k: int | None = None, **settings: Unpack[QuerySettings]) -> None: ...
        @overload
        def __init__(self: MRR[AtEach], k: Sequence[int], **settings: Unpack[QuerySettings]) -> None: ...
        def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[QuerySettings]) -> None: ...

    title = "mrr"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return where_relevant(ranked, ranking.reciprocal_rank_at.bare(ranked, k))


class MAP(RankingMetric[Value]):
    """Mean average precision over queries.

    Formula: ``sum_i precision_i * [i is relevant] / min(R, k)`` over the ranks i = 1, ..., k, where R documents are
    relevant. Undefined for a query without relevant documents. torchmetrics divides by the number of relevant documents
    among the first k, which rewards a ranking that misses some.

    Inputs and arguments as for `DCG`, without ``gains``.

    Examples:
        >>> metric = MAP()
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.8333333333333333
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: MAP[float], k: int | None = None, **settings: Unpack[QuerySettings]) -> None: ...
        @overload
        def __init__(self: MAP[AtEach], k: Sequence[int], **settings: Unpack[QuerySettings]) -> None: ...
        def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[QuerySettings]) -> None: ...

    title = "map"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.average_precision_at.bare(ranked, k)
