"""The base of the metrics of ranked documents."""

from __future__ import annotations

import math
from typing import Any, Dict, Literal, Mapping, Sequence, get_args

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Quotient, Settings, Undefinable
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.batch import Batch
from fleetmetrics.batch.keys import distinct
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas import ranking
from fleetmetrics.formulas.groups import scaled
from fleetmetrics.formulas.quotients import stand_in
from fleetmetrics.formulas.ranking import RankedQueries
from fleetmetrics.records.table import Records
from fleetmetrics.support.checks import choice_of, column_of, is_whole
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.vocabulary import in_shell
from fleetmetrics.support.warning import warn


def _is_relevance(batch: Batch) -> Any:
    return batch.xp.is_weight(batch.label)


_RELEVANCE = Requirement("label", "a relevance: a finite number of at least 0", _is_relevance)


def _cutoffs(k: Any) -> list[int | None]:
    asked = list(k) if isinstance(k, (list, tuple, set, range)) or np.ndim(k) == 1 else [k]
    for cutoff in asked:
        if not (is_whole(cutoff) and 1 <= cutoff < 2**63) and not (cutoff is None and asked == [k]):
            raise InvalidInputError(f"k must be None, an integer of at least 1, or a sequence of them, not {k!r}")
    if not asked or len(set(asked)) < len(asked):
        raise InvalidInputError(f"k must name each number of places once, not {k!r}")
    return [None if cutoff is None else int(cutoff) for cutoff in asked]


#: The values at several places, by their number.
AtEach = Dict[int, float]


#: How documents of equal score are ranked.
_Ties = Literal["mean", "best", "worst", "ascending", "descending"]


class QuerySettings(Settings, total=False):
    """Arguments of every metric of ranked documents."""

    by: str
    ties: _Ties
    document: str


class QueryMetric(Undefinable[Value], GroupedMetric[Value]):
    """Keeps the documents and averages over queries; arguments as for `DCG`."""

    by: str
    columns: tuple[str, ...]
    document: str
    ties: _Ties

    better = "higher"
    #: Of the value of a query.
    highest: float = 1.0
    requirements: tuple[str | Requirement, ...] = ("finite_prediction", _RELEVANCE)
    #: Its name in warnings.
    title = ""
    #: For warnings: which queries have no value, and the reason if all have none.
    undefined_for = "without a relevant document"
    all_undefined = "no query has a relevant document"
    k: int | Sequence[int] | None = None
    _cutoffs: Sequence[int | None] = (None,)
    counts: tuple[str, ...] = ("left_out",)

    def __init__(
        self, *, by: str = "query", ties: _Ties = "mean", document: str = "document", **settings: Unpack[Settings]
    ) -> None:
        super().__init__(**settings)
        self.by = column_of("by", by, ("score", "relevance"))
        self.ties = choice_of("ties", ties, get_args(_Ties))
        self.document = column_of("document", document, ("score", "relevance", by))
        by_id = ties in ("ascending", "descending")
        if document != "document" and not by_id:
            raise InvalidInputError(
                f"document={document!r} names ids that only ties='ascending' and 'descending' compare, not {ties!r}"
            )
        self.columns = (by, document) if by_id else (by,)
        self.keep_records((*self.columns, "score", "relevance", "weight"), order=by, key="answers to queries")

    @property
    def quotient(self) -> Quotient | None:
        several = len(self._cutoffs) > 1 or not math.isnan(self.zero_division)
        return None if several else Quotient({"total": 1}, {"weight": 1}, highest=self.highest)

    def of_queries(self, ranked: RankedQueries, k: int | None) -> np.ndarray:
        """The value of each query, nan where it is undefined."""
        raise NotImplementedError

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        score = batch.values if batch.classes else batch.prediction  # scores of several classes are an error there
        columns = {name: batch.column(name) for name in self.columns}
        return {**columns, "score": score, "relevance": batch.labels, "weight": batch.weight}

    def sums(self) -> dict[str, tuple[int, ...]]:
        return {"total": (len(self._cutoffs),), "weight": (), "weight_left_out": ()}

    def of_groups(self, records: Records) -> dict[str, Any]:
        ranked, exponent = records.cached(("ranked", self.ties), self._ranked)
        values = np.stack([self.of_queries(ranked, k) for k in self._cutoffs])
        undefined = np.isnan(values[0])
        return {
            "total": np.where(undefined, 0, values) * ranked.weight,
            "weight": np.where(undefined, 0, ranked.weight),
            "weight_left_out": np.where(undefined, ranked.weight, 0),
            "exponent": exponent,
            "left_out": undefined,
        }

    def _ranked(self, records: Records) -> tuple[RankedQueries, int]:
        weight, exponent = scaled(records["weight"])
        documents = records[self.by], records["score"], records["relevance"]
        return ranking.rank_queries.bare(*documents, weight, self._order_of_ties(records)), exponent

    def _order_of_ties(self, records: Records) -> Any:
        """Of documents of equal score the lowest of these numbers comes first; None: they tie."""
        if self.ties == "mean":
            return None
        if self.document in records:
            places = distinct(records[self.document])[1]
            return places if self.ties == "ascending" else -places
        return records["relevance"] if self.ties == "worst" else -records["relevance"].astype(np.float64)

    def formula(self, total: Any, weight: Any, weight_left_out: Any, left_out: int) -> Any:
        if not math.isnan(self.zero_division):
            total, weight = total + self.zero_division * weight_left_out, weight + weight_left_out
        elif left_out and weight:
            setting = f"{self.title.replace(' ', '_')}:zero_division=0" if in_shell() else "zero_division="
            warn(
                f"{self.title} is undefined for {left_out} queries {self.undefined_for}: they are left out; "
                f"{setting} would give them a value",
                UndefinedMetricWarning,
            )
        if not weight:
            reason = self.all_undefined if left_out else "there are no samples"
            total = np.full(len(self._cutoffs), stand_in(self.title, reason, self.zero_division))
            weight = 1.0
        values = (total / weight).tolist()
        if isinstance(self.k, (list, tuple, set, range, np.ndarray)):
            return dict(zip(self._cutoffs, values))
        return values[0]


class RankingMetric(QueryMetric[Value]):
    """A metric of all documents of a query or of the first k."""

    pictures: tuple[str, ...] = ("at_k",)

    k: int | Sequence[int] | None

    def __init__(self, k: int | Sequence[int] | None = None, **settings: Unpack[QuerySettings]) -> None:
        super().__init__(**settings)
        self.k, self._cutoffs = k, _cutoffs(k)


def where_relevant(ranked: RankedQueries, values: np.ndarray) -> np.ndarray:
    """The values of queries, nan for those without relevant documents."""
    return np.where(ranked.relevant > 0, values, np.nan)
