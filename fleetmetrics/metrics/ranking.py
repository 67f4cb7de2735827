"""Ranking metrics: how good the order is in which the answers to a query are given."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch import Batch
from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning, warn
from fleetmetrics.formulas import ranking
from fleetmetrics.formulas.ranking import RankedQueries
from fleetmetrics.formulas.ratio import stand_in
from fleetmetrics.metrics.arguments import choice_of, column_of, number_of, zero_division_of
from fleetmetrics.record_metric import RecordMetric
from fleetmetrics.records.table import Records
from fleetmetrics.requirements import Requirement

__all__ = ["DCG", "MAP", "MRR", "NDCG", "FBetaAtK", "HitRate", "PrecisionAtK", "RPrecision", "RecallAtK"]

_RELEVANCE = Requirement(
    "label", "a relevance: a finite number of at least 0", lambda batch: batch.xp.is_weight(batch.label)
)
_EXPONENT = Requirement(
    "label",
    "a relevance from 0 to 1000, so that the gain 2**relevance - 1 is a finite number",
    lambda batch: batch.xp.logical_and(
        batch.xp.is_weight(batch.label), batch.xp.logical_not(batch.xp.greater(batch.label, 1000.0))
    ),
)


def _cutoffs(k: Any) -> list[int | None]:
    asked = list(k) if isinstance(k, (list, tuple, set, range)) or np.ndim(k) == 1 else [k]
    for each in asked:
        whole = isinstance(each, (int, np.integer)) and not isinstance(each, bool) and 1 <= each < 2**63
        if not whole and not (each is None and asked == [k]):
            raise InvalidInputError(f"k must be None, an integer of at least 1, or a sequence of them, not {k!r}")
    if not asked or len(set(asked)) < len(asked):
        raise InvalidInputError(f"k must name each number of places once, not {k!r}")
    return [None if each is None else int(each) for each in asked]


class _Ranking(RecordMetric):
    """What the metrics of ranked answers share: what they keep, and the mean over queries."""

    requirements = ("finite_prediction", _RELEVANCE)
    #: How warnings call it.
    title = ""

    def __init__(
        self,
        name: str | None = None,
        *,
        k: int | Sequence[int] | None = None,
        by: str = "query",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, validate=validate, share=share)
        self.k, self.by = k, column_of("by", by, ("score", "relevance"))
        self.zero_division = zero_division_of(zero_division)
        self._cutoffs = _cutoffs(k)
        self.columns = (by,)
        self.keep_records((by, "score", "relevance", "weight"), order=by, key="answers to queries")

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        """The value of each query, nan where it is undefined."""
        raise NotImplementedError

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        score = batch.values if batch.classes else batch.prediction  # scores of several classes are an error there
        return {self.by: batch.column(self.by), "score": score, "relevance": batch.labels, "weight": batch.weight}

    def start(self) -> dict[str, Any]:
        return {"total": np.zeros(len(self._cutoffs)), "weight": 0.0, "left_out": 0, "weight_left_out": 0.0}

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        ranked = records.cached(
            "ranked",
            lambda each: ranking.rank_queries(each[self.by], each["score"], each["relevance"], each["weight"]),
        )
        values = np.stack([self.of_queries(ranked, k) for k in self._cutoffs])
        undefined = np.isnan(values[0])
        return {
            "total": carry["total"] + np.where(undefined, 0, values) @ ranked.weight,
            "weight": carry["weight"] + float(ranked.weight[~undefined].sum()),
            "left_out": carry["left_out"] + int(undefined.sum()),
            "weight_left_out": carry["weight_left_out"] + float(ranked.weight[undefined].sum()),
        }

    def formula(self, total: Any, weight: float, left_out: int, weight_left_out: float) -> Any:
        if not math.isnan(self.zero_division):
            total, weight = total + self.zero_division * weight_left_out, weight + weight_left_out
        elif left_out and weight:
            warn(
                f"{self.title} is undefined for {left_out} queries, to which nothing is relevant: they are left out; "
                "zero_division= would give them a value",
                UndefinedMetricWarning,
            )
        if not weight:
            reason = "no query has a relevant answer" if left_out else "there are no samples"
            total, weight = np.full(len(self._cutoffs), stand_in(self.title, reason, self.zero_division)), 1.0
        values = (np.asarray(total) / weight).tolist()
        return (
            dict(zip(self._cutoffs, values)) if isinstance(self.k, (list, tuple, set, range, np.ndarray)) else values[0]
        )


def _defined(ranked: RankedQueries, values: np.ndarray) -> np.ndarray:
    return np.where(ranked.relevant > 0, values, np.nan)


class DCG(_Ranking):
    """Discounted cumulative gain of the answers to a query, the mean over all queries.

    Formula: ``sum_i gain_i / log2(i + 1)`` over the places i = 1, 2, ..., k of the answers in the order of their
    scores, the highest first. Tied answers share the mean of their gains: the value is the mean over all their orders.

    ``add(prediction, label, query=)`` takes scores and relevances (finite, at least 0; with exponential gains at most
    1000) of equal shape, and which query each answer belongs to: integers or texts. The answers to a query may come in
    any batch and on any worker. A query counts for the mean weight of its answers. Undefined without samples: nan with
    `UndefinedMetricWarning`.

    Every worker keeps its own samples; rank 0 looks at those of all workers query by query, and never holds them all.

    Source: Jaervelin and Kekaelaeinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20 (2002); ties:
    McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence of tied
    scores", ECIR 2008.

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        k: how many answers count; None: all. Several at once: the value is a dict by k.
        by: the argument of ``add`` that says which query an answer belongs to.
        gains: "linear", the relevance as scikit-learn has it, or "exponential", ``2**relevance - 1``.
        zero_division: the value of an undefined query, without a warning; nan: it is left out, with one.
        validate: False skips the check of scores, relevances and weights.
        share: has no use here; as in `fleetmetrics.Metric`.

    Raises:
        InvalidInputError: an argument is not what is allowed.

    Examples:
        >>> metric = DCG(k=2)
        >>> metric.add([0.9, 0.1, 0.5], [3, 2, 0], query=[7, 7, 7])
        >>> metric.compute()
        3.0
    """

    title = "dcg"

    def __init__(
        self,
        name: str | None = None,
        *,
        k: int | Sequence[int] | None = None,
        by: str = "query",
        gains: str = "linear",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, k=k, by=by, zero_division=zero_division, validate=validate, share=share)
        self.gains = choice_of("gains", gains, ("linear", "exponential"))
        if gains == "exponential":
            self.requirements = ("finite_prediction", _EXPONENT)

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.dcg_at(ranked, k, self.gains == "exponential")


class NDCG(DCG):
    """Normalized discounted cumulative gain: `DCG` over the highest that any order of the answers would have.

    Formula: ``DCG@k / IDCG@k`` for each query, then the mean over queries. The number of scikit-learn's ``ndcg_score``
    with ``ignore_ties=False``. Undefined for a query to which nothing is relevant.

    Inputs, arguments, errors and source as for `DCG`.

    Examples:
        >>> metric = NDCG(k=[1, 3])
        >>> metric.add([0.9, 0.1, 0.5], [2, 4, 0], query=["shoes", "shoes", "shoes"])
        >>> metric.compute()
        {1: 0.5, 3: 0.7601875334318685}
    """

    title = "ndcg"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        ideal = ranking.ideal_dcg_at(ranked, k, self.gains == "exponential")
        return _defined(ranked, super().of_queries(ranked, k) / np.where(ranked.relevant > 0, ideal, 1))


class MRR(_Ranking):
    """Mean reciprocal rank: one over the place of the first relevant answer, the mean over queries.

    Formula: ``1 / place of the first answer with relevance > 0``, 0 if it comes after the k-th; where it is tied, the
    mean over the orders of the tie. Undefined for a query to which nothing is relevant.

    Source: Voorhees, "The TREC-8 question answering track report", TREC 1999. Inputs, arguments and errors as for
    `DCG`, without ``gains``.

    Examples:
        >>> metric = MRR()
        >>> metric.add([0.9, 0.5, 0.1], [0, 1, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    title = "mrr"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return _defined(ranked, ranking.reciprocal_rank_at(ranked, k))


class MAP(_Ranking):
    """Mean average precision over queries.

    Formula: ``sum_i precision_i * [i is relevant] / min(R, k)`` over the places i = 1, ..., k, where R answers are
    relevant. Undefined for a query to which nothing is relevant. torchmetrics divides by the relevant answers found
    among the first k, which rewards a ranking for missing some.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), section 8.4. Inputs, arguments
    and errors as for `DCG`, without ``gains``.

    Examples:
        >>> metric = MAP()
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.8333333333333333
    """

    title = "map"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.average_precision_at(ranked, k)


class HitRate(_Ranking):
    """Share of queries with a relevant answer among the first k.

    Formula: ``[some answer of relevance > 0 is among the first k]``, the mean over queries; where the k-th place is
    tied, the probability over the orders of the tie. Undefined for a query to which nothing is relevant.

    Source: Deshpande and Karypis, "Item-based top-N recommendation algorithms", ACM TOIS 22 (2004). Inputs, arguments
    and errors as for `DCG`, without ``gains``.

    Examples:
        >>> metric = HitRate(k=2)
        >>> metric.add([0.9, 0.5, 0.1, 0.8], [0, 1, 1, 1], query=[7, 7, 7, 9])
        >>> metric.compute()
        1.0
    """

    title = "hit rate"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return _defined(ranked, ranking.hit_rate_at(ranked, k))


class PrecisionAtK(_Ranking):
    """Share of relevant answers among the first k, the mean over queries.

    Formula: ``|relevant among the first k| / k``; without k over the number of answers. A query of fewer answers is
    divided by k all the same.

    Source: Manning, Raghavan and Schuetze (2008), section 8.4. Inputs, arguments and errors as for `DCG`, without
    ``gains``.

    Examples:
        >>> metric = PrecisionAtK(k=2)
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    title = "precision at k"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.hits_at(ranked, k) / _places(ranked, k)


class RecallAtK(_Ranking):
    """Share of the relevant answers that are among the first k, the mean over queries.

    Formula: ``|relevant among the first k| / R``, where R answers are relevant. Undefined for a query to which nothing
    is relevant.

    Source: Manning, Raghavan and Schuetze (2008), section 8.4. Inputs, arguments and errors as for `DCG`, without
    ``gains``.

    Examples:
        >>> metric = RecallAtK(k=1)
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    title = "recall at k"

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return _defined(ranked, ranking.hits_at(ranked, k) / np.maximum(ranked.relevant, 1))


class FBetaAtK(_Ranking):
    """Weighted harmonic mean of `PrecisionAtK` and `RecallAtK` of a query, the mean over queries.

    Formula: ``(1 + beta**2) * |relevant among the first k| / (beta**2 * R + k)``, where R answers are relevant.
    Undefined for a query to which nothing is relevant.

    Source: van Rijsbergen, Information Retrieval (1979), chapter 7. Inputs, arguments and errors as for `DCG`, with
    ``beta`` (above 0; 1: both count alike) instead of ``gains``.

    Examples:
        >>> metric = FBetaAtK(k=2)
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    title = "f-beta at k"

    def __init__(
        self,
        name: str | None = None,
        *,
        k: int | Sequence[int] | None = None,
        beta: float = 1.0,
        by: str = "query",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, k=k, by=by, zero_division=zero_division, validate=validate, share=share)
        self.beta = number_of("beta", beta, allowed="a finite number above 0")
        if self.beta <= 0:
            raise InvalidInputError(f"beta must be a finite number above 0, not {beta!r}")

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        square = min(self.beta, 1e100) ** 2  # a larger one changes no digit
        below = square * ranked.relevant + _places(ranked, k)
        return _defined(ranked, (1 + square) * ranking.hits_at(ranked, k) / below)


class RPrecision(_Ranking):
    """Precision at R, where R is how many relevant answers a query has; the mean over queries.

    Formula: ``|relevant among the first R| / R``. Undefined for a query to which nothing is relevant.

    Source: Manning, Raghavan and Schuetze (2008), section 8.4. Inputs, arguments and errors as for `DCG`, without
    ``k`` and ``gains``.

    Examples:
        >>> metric = RPrecision()
        >>> metric.add([0.9, 0.5, 0.1], [1, 0, 1], query=[7, 7, 7])
        >>> metric.compute()
        0.5
    """

    title = "r-precision"

    def __init__(
        self,
        name: str | None = None,
        *,
        by: str = "query",
        zero_division: float = math.nan,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, by=by, zero_division=zero_division, validate=validate, share=share)

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        return ranking.r_precision(ranked)


def _places(ranked: RankedQueries, k: int | None) -> Any:
    """How many answers count: k, or all that the query has."""
    return np.diff(np.append(ranked.start, len(ranked.query))) if k is None else k
