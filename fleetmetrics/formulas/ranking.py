"""Ranked documents of queries, all queries at once; and average precision over samples.

If documents tie, a value is the mean over all orders of the tied documents, in closed form: it depends neither on the
order of the samples nor on the number of workers. `rank_queries` can also rank documents of equal score by another
number. Functions of ``ranked`` take what `rank_queries` returns and the number ``k`` of documents that count (None:
all), and return float64 ``[queries]``, nan where undefined.

Average precision is of five kinds, which differ in what they do with samples or documents of equal score:

- `average_precision_at`: the mean over all orders of the tied documents of a query;
- `average_precision_of_ranking`: documents that come in their final order, so that none are tied;
- `average_precision`, and `fleetmetrics.formulas.exact_auc` with ``curve="PR"``: tied samples enter together, of
  several classes with samples that do not count, and of one with weights;
- `fleetmetrics.formulas.average_precision_from_histogram`: so do all samples of a bucket.

Source: McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence of tied
scores", ECIR 2008.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.arrays import flags, keys, numbers, weights
from fleetmetrics.formulas.groups import best_first, starts_of, sums_of
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.support.checks import at_least, checked, flag, made_by, one_of, optional
from fleetmetrics.support.vocabulary import agreeing, counted

__all__ = ["average_precision", "average_precision_of_ranking"]

#: Ties of more documents than this are handled one by one.
_LONG_TIE = 256


class RankedQueries(NamedTuple):
    """The documents of each query, the best first; made by `rank_queries`.

    Args:
        start: int64 ``[queries]``, where the documents of each begin.
        weight: float64 ``[queries]``, the weight of each.
        query: int64 ``[documents]``, the query of each document.
        place: int64 ``[documents]``, the number of documents before it in its query.
        gain: float64 ``[documents]``, its relevance.
        relevant: int64 ``[queries]``, the number of its documents with a relevance above 0.
        tie_start: int64 ``[documents]``, the place of the first document that ties with it.
        tie_size: int64 ``[documents]``, the number of documents that tie, itself included.
        tie_hits: int64 ``[documents]``, the number of relevant ones among these.
    """

    start: np.ndarray
    weight: np.ndarray
    query: np.ndarray
    place: np.ndarray
    gain: np.ndarray
    relevant: np.ndarray
    tie_start: np.ndarray
    tie_size: np.ndarray
    tie_hits: np.ndarray


@checked(
    query=keys("documents"),
    score=numbers("documents"),
    relevance=weights("documents"),
    weight=optional(weights("documents")),
    then=optional(numbers("documents")),
)
def rank_queries(query: Any, score: Any, relevance: Any, weight: Any = None, then: Any = None) -> RankedQueries:
    """Sort the documents of each query by their scores, the highest first.

    Args:
        query: ``[documents]`` integers or strings, sorted: which query a document belongs to.
        score: ``[documents]`` finite numbers.
        relevance: ``[documents]`` numbers of at least 0; above 0 is relevant.
        weight: ``[documents]`` numbers of at least 0, or None. A query has the mean weight of its documents.
        then: ``[documents]`` finite numbers: of documents of equal score, the lowest comes first, and those with equal
            numbers tie. None: documents of equal score tie.

    Returns:
        The documents, query by query.

    Examples:
        >>> ranked = rank_queries([7, 7, 7, 9], [0.5, 0.9, 0.5, 0.1], [1, 0, 0, 2])
        >>> ranked.place.tolist(), ranked.tie_size.tolist()
        ([0, 1, 2, 0], [1, 2, 2, 1])
    """
    first = starts_of(query)
    start = np.flatnonzero(first)
    sizes = np.diff(np.append(start, len(query)))
    order = best_first(score, start, sizes)
    score, gain = score[order], relevance[order].astype(np.float64)
    # the documents of a query stay together, so start and sizes hold for the sorted documents too
    new_tie = first.copy()
    new_tie[1:] |= score[1:] != score[:-1]
    if then is not None:
        then, tie = then[order], new_tie.cumsum()
        order = np.lexsort((then, tie))
        then, gain = then[order], gain[order]
        new_tie[1:] |= then[1:] != then[:-1]
    ties = np.flatnonzero(new_tie)
    tied = np.diff(ties, append=len(query))
    place = np.arange(len(query)) - np.repeat(start, sizes)
    hits = np.append(0, np.cumsum(gain > 0))  # the number of relevant documents before each document
    weights = np.ones(len(start)) if weight is None else sums_of(np.asarray(weight, np.float64), start) / sizes
    return RankedQueries(
        start,
        weights,
        np.repeat(np.arange(len(start)), sizes),
        place,
        gain,
        np.diff(hits[np.append(start, len(query))]),
        np.repeat(place[ties], tied),
        np.repeat(tied, tied),
        np.repeat(np.diff(hits[np.append(ties, len(query))]), tied),
    )


def _within(ranked: RankedQueries, k: Any) -> np.ndarray:
    """Which documents are among the first k; k may be a number per query."""
    if k is None:
        return np.ones(len(ranked.place), bool)
    return ranked.place < (k if np.ndim(k) == 0 else np.asarray(k)[ranked.query])


_RANKED = made_by("rank_queries", RankedQueries)
_FIRST = optional(at_least(1))


def _answered(argument: str, value: Any, sizes: Any) -> Any:
    ranked = _RANKED(argument, value, sizes)
    sizes["queries"] = len(ranked.start), argument
    return ranked


def _firsts(argument: str, value: Any, sizes: Any) -> Any:
    several = isinstance(value, (list, tuple, np.ndarray))
    return weights("queries")(argument, value, sizes) if several else _FIRST(argument, value, sizes)


@checked(ranked=_answered, k=_firsts)
def hits_at(ranked: RankedQueries, k: Any = None) -> np.ndarray:
    """The number of relevant documents among the first k; k may be an array, one per query.

    Examples:
        >>> hits_at(rank_queries([1, 1, 1], [0.9, 0.5, 0.5], [1, 1, 0]), 2).tolist()
        [1.5]
    """
    return sums_of(ranked.tie_hits / ranked.tie_size * _within(ranked, k), ranked.start)


@checked(ranked=_RANKED)
def r_precision(ranked: RankedQueries) -> np.ndarray:
    """Share of relevant documents among the first R of a query with R relevant ones; nan for R = 0.

    Examples:
        >>> r_precision(rank_queries([1, 1, 1], [0.9, 0.5, 0.1], [1, 0, 1])).tolist()
        [0.5]
    """
    return _shares_or_nan(hits_at.bare(ranked, ranked.relevant), ranked.relevant)


@checked(ranked=_RANKED, k=_FIRST)
def fall_out_at(ranked: RankedQueries, k: int | None = None) -> np.ndarray:
    """Share of the irrelevant documents that are among the first k; nan if all documents are relevant.

    Examples:
        >>> fall_out_at(rank_queries([1, 1, 1], [0.9, 0.5, 0.1], [0, 1, 0]), 2).tolist()
        [0.5]
    """
    misses = ranked.tie_size - ranked.tie_hits
    misses_within = sums_of(misses / ranked.tie_size * _within(ranked, k), ranked.start)
    return _shares_or_nan(misses_within, np.diff(np.append(ranked.start, len(ranked.query))) - ranked.relevant)


def _shares_or_nan(part: np.ndarray, whole: Any) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


@checked(ranked=_RANKED, k=_FIRST, exponential=flag)
def dcg_at(ranked: RankedQueries, k: int | None = None, exponential: bool = False) -> np.ndarray:
    """Discounted cumulative gain of the first k documents.

    Formula: ``sum_i gain_i / log2(i + 1)`` over the ranks i = 1, 2, ..., k; the gain is the relevance, or if
    ``exponential``, ``2**relevance - 1``.

    Source for exponential gains: Burges et al., "Learning to rank using gradient descent", ICML 2005.

    Examples:
        >>> dcg_at(rank_queries([1, 1], [0.9, 0.1], [3, 2]), 1).tolist()
        [3.0]
    """
    gains = _gains(ranked.gain, exponential)
    tied = np.flatnonzero(ranked.tie_size > 1)
    if len(tied):
        sizes = ranked.tie_size[tied]
        begins = np.flatnonzero(ranked.place[tied] == ranked.tie_start[tied])
        gains = gains.copy()
        gains[tied] = np.repeat(sums_of(gains[tied], begins) / sizes[begins], sizes[begins])
    return _discounted(ranked, gains, k)


@checked(ranked=_RANKED, k=_FIRST, exponential=flag)
def ideal_dcg_at(ranked: RankedQueries, k: int | None = None, exponential: bool = False) -> np.ndarray:
    """The highest `dcg_at` of any order of the documents.

    Examples:
        >>> ideal_dcg_at(rank_queries([1, 1], [0.1, 0.9], [3, 2]), 1).tolist()
        [3.0]
    """
    sizes = np.diff(np.append(ranked.start, len(ranked.gain)))
    best = ranked.gain[best_first(ranked.gain, ranked.start, sizes)]
    return _discounted(ranked, _gains(best, exponential), k)


def _gains(relevance: np.ndarray, exponential: bool) -> np.ndarray:
    if not exponential:
        return relevance
    below_1 = np.expm1(np.minimum(relevance, 1.0) * math.log(2))  # the difference would lose the digits of small ones
    return np.where(relevance < 1, below_1, np.exp2(relevance) - 1)


def _discounted(ranked: RankedQueries, gains: np.ndarray, k: int | None) -> np.ndarray:
    longest = int(ranked.place.max(initial=0)) + 1
    discount = 1 / np.log2(np.arange(longest) + 2)
    if k is not None:
        discount[k:] = 0
    return sums_of(gains * discount[ranked.place], ranked.start)


@checked(ranked=_RANKED, k=_FIRST)
def hit_rate_at(ranked: RankedQueries, k: int | None = None) -> np.ndarray:
    """Whether a relevant document is among the first k: 0, 1, or a probability if the k-th rank is tied.

    Examples:
        >>> hit_rate_at(rank_queries([1, 1, 1], [0.9, 0.5, 0.5], [0, 1, 0]), 2).tolist()
        [0.5]
    """
    drawn = ranked.place - ranked.tie_start
    left = ranked.tie_size - drawn
    # the factor by which one more document of the tie lowers the probability that none so far is relevant
    factor = np.where(_within(ranked, k), np.maximum(left - ranked.tie_hits, 0) / left, 1.0)
    return 1 - (np.multiply.reduceat(factor, ranked.start) if len(ranked.start) else factor[:0])


@checked(ranked=_RANKED, k=_FIRST)
def reciprocal_rank_at(ranked: RankedQueries, k: int | None = None) -> np.ndarray:
    """One over the rank of the first relevant document; 0 if the first k have none.

    Examples:
        >>> reciprocal_rank_at(rank_queries([1, 1, 1], [0.9, 0.5, 0.1], [0, 1, 1])).tolist()
        [0.5]
    """
    value = np.zeros(len(ranked.start))
    begins = np.flatnonzero((ranked.place == ranked.tie_start) & (ranked.tie_hits > 0))
    query, first = np.unique(ranked.query[begins], return_index=True)  # each query's best tie with a relevant document
    begins = begins[first]
    size, hits, before = ranked.tie_size[begins], ranked.tie_hits[begins], ranked.place[begins]
    last = np.minimum(size - hits + 1, np.inf if k is None else k - before)  # the possible places of the first one
    for i in np.flatnonzero(last > _LONG_TIE):
        value[query[i]] = _long_tie(int(size[i]), int(hits[i]), int(before[i]), int(last[i]))
    short = np.flatnonzero(last <= _LONG_TIE)
    none_yet = np.ones(len(short))
    for drawn in range(int(last[short].max(initial=0))):
        more = last[short] > drawn
        short, none_yet = short[more], none_yet[more]
        chance = hits[short] / (size[short] - drawn)
        value[query[short]] += none_yet * chance / (before[short] + drawn + 1)
        none_yet = none_yet * (1 - chance)
    return value


def _long_tie(size: int, hits: int, before: int, last: int) -> float:
    drawn = np.arange(last)
    chance = hits / (size - drawn)
    none_yet = np.concatenate([[1.0], np.cumprod(1 - chance)[:-1]])
    return float(np.sum(none_yet * chance / (before + drawn + 1)))


@checked(ranked=_RANKED, k=_FIRST)
def average_precision_at(ranked: RankedQueries, k: int | None = None) -> np.ndarray:
    """Mean of the precision at each relevant document; nan if no document is relevant.

    Formula: ``sum_i precision_i * [i is relevant] / min(R, k)`` over the ranks i = 1, ..., k, of R relevant documents.

    Examples:
        >>> average_precision_at(rank_queries([1, 1, 1], [0.9, 0.5, 0.1], [1, 0, 1])).tolist()
        [0.8333333333333333]
    """
    drawn = ranked.place - ranked.tie_start
    begins = ranked.place == ranked.tie_start
    hits = np.cumsum(np.where(begins, ranked.tie_hits, 0))
    before_query = (hits - ranked.tie_hits)[ranked.start][ranked.query] if len(ranked.start) else hits
    before = hits - ranked.tie_hits - before_query  # relevant documents of the query above the tie
    among = drawn * (ranked.tie_hits - 1) / np.maximum(ranked.tie_size - 1, 1)
    precision = (before + among + 1) / (ranked.place + 1)
    total = sums_of(ranked.tie_hits / ranked.tie_size * precision * _within(ranked, k), ranked.start)
    return _shares_or_nan(total, ranked.relevant if k is None else np.minimum(ranked.relevant, k))


def _targets(argument: str, value: Any, sizes: Any) -> np.ndarray:
    array: np.ndarray = numbers("samples", "classes")(argument, value, sizes)
    if not np.isin(array, (-1, 0, 1)).all():
        wrong = array[~np.isin(array, (-1, 0, 1))][0]
        raise InvalidInputError(f"{argument} must hold 1, 0 and -1, not {wrong}")
    return array


@checked(score=numbers("samples", "classes", infinite=True), target=_targets)
def average_precision(score: Any, target: Any) -> np.ndarray:
    """Average precision of each class: the area under the steps of its precision-recall curve, in [0, 1].

    Formula: ``sum_t (R_t - R_{t-1}) * P_t`` over the distinct scores t from the highest, where ``P_t`` and ``R_t`` are
    precision and recall of the samples that score at least t: samples of equal score enter together.

    Args:
        score: ``[n, classes]``, without nan.
        target: ``[n, classes]``: 1 where the sample is of the class, 0 where it is not, -1 where it does not count.

    Returns:
        float64 ``[classes]``. With `UndefinedMetricWarning`: 0.0 for a class without a positive sample, and nan without
        any
        samples.

    Examples:
        >>> average_precision([[0.9], [0.8], [0.7], [0.6]], [[1], [0], [1], [0]])
        array([0.83333333])
    """
    columns = np.ascontiguousarray(np.transpose(score)), np.ascontiguousarray(np.transpose(target))
    values = np.array([_area(*column) for column in zip(*columns)])
    empty = int(np.count_nonzero(np.isnan(values)))
    if not score.size:
        undefined("average_precision", "there are no samples")
    elif empty:
        value = undefined(
            "average_precision",
            f"{empty} of {counted(len(values), 'classes')} {agreeing(empty, 'have')} no positive sample",
            0.0,
        )
        values[np.isnan(values)] = value
    return values


def _area(score: np.ndarray, target: np.ndarray) -> float:
    rising, hits = np.sort(score[target != -1]), np.sort(score[target == 1])
    if not hits.size:
        return math.nan
    # for each positive, the numbers of positives and of samples that score at least as high
    hits_above = hits.size - np.searchsorted(hits, hits)
    all_above = rising.size - np.searchsorted(rising, hits)
    return float(np.sum(hits_above / all_above) / hits.size)


@checked(relevant=flags("queries", None), total=weights("queries"), mode=one_of("IR", "integrate"))
def average_precision_of_ranking(relevant: Any, total: Any, mode: str = "IR") -> np.ndarray:
    """Average precision of the documents of each query, the best documents first; 0 if no document is relevant.

    Formula: ``sum_i p_i / total`` over the positions i = 1, 2, ... of the relevant documents, with h relevant ones up
    to and including i. ``"IR"`` (information retrieval): ``p_i = h / i``. ``"integrate"`` (the trapezoidal rule of the
    Oxford Buildings benchmark): ``p_i`` is the mean of ``h / i`` and ``(h - 1) / (i - 1)``, and of ``h / i`` and 1
    where ``i = 1``.

    Source: Manning, Raghavan and Schuetze (2008), section 8.4; Philbin et al., "Object retrieval with large
    vocabularies and fast spatial matching", CVPR 2007.

    Args:
        relevant: bool ``[queries, k]``: whether the document at this position is relevant.
        total: ``[queries]``, the number of relevant documents, found or not.
        mode: ``"IR"`` or ``"integrate"``.

    Examples:
        >>> average_precision_of_ranking([[True, False, True]], [2])
        array([0.83333333])
    """
    hits, position = np.cumsum(relevant, axis=1), np.arange(1, relevant.shape[1] + 1)
    precision = hits / position
    if mode == "integrate":
        before = np.where(position == 1, 1.0, (hits - 1) / np.maximum(position - 1, 1))
        precision = (precision + before) / 2
    # one after the other, not pairwise: the same bits for any number of further positions
    precisions = np.cumsum(precision * relevant, axis=1)[:, -1:].sum(axis=1)
    return precisions / np.maximum(total, 1)
