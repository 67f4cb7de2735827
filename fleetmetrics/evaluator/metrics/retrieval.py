"""Retrieval metrics: a query's scores over the items of a gallery, modeled on MMPretrain 1.2.0."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import AssertedInputError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluator.engine_metric import BaseMetric, as_dicts
from fleetmetrics.evaluator.metrics import common, inputs
from fleetmetrics.evaluator.registry import PRETRAIN
from fleetmetrics.support.checks import knows_its_arguments, whole_number_of
from fleetmetrics.support.warning import warn

__all__ = ["RetrievalAveragePrecision", "RetrievalRecall"]

_MODES = ("IR", "integrate")


class _Answers(NamedTuple):
    """The answers to each query."""

    relevant: np.ndarray  #: [queries, k] flags, the best answer first
    total: np.ndarray  #: [queries] int64, the number of relevant items


def _answers_of_samples(samples: Sequence[Mapping[str, Any]], k: int) -> _Answers:
    scores = map(inputs.score_of, samples)
    rows = [(score, inputs.target_of(sample, len(score))) for sample, score in zip(samples, scores)]
    answers = []
    for _, gallery in groupby(rows, lambda row: len(row[0])):
        score, relevance = (np.stack(column) for column in zip(*gallery))
        answers.append(_from_scores(inputs.as_scores(score, "pred_score"), _relevant(relevance, "gt_score"), k))
    return _Answers(*map(np.concatenate, zip(*answers)))


def _relevant(relevance: np.ndarray, argument: str) -> np.ndarray:
    if not (relevance >= 0).all():
        wrong = relevance[~(relevance >= 0)][0]
        raise InvalidInputError(f"{argument} holds {wrong}; it must be 0 for an irrelevant item, else positive")
    return relevance > 0


def _from_scores(score: np.ndarray, relevant: np.ndarray, k: int) -> _Answers:
    if k > score.shape[1]:
        raise InvalidInputError(f"topk is {k}, but there are scores of only {score.shape[1]} items")
    return _Answers(np.take_along_axis(relevant, inputs.best(score, k), axis=1), np.count_nonzero(relevant, axis=1))


def _answers(pred: Any, target: Any, k: int, pred_indices: bool, target_indices: bool) -> _Answers:
    """The answers given to `calculate`."""
    ranked = _rows(pred, "pred") if pred_indices else _scores(pred)
    wanted: Any = _rows(target, "target") if target_indices else _flags(target)
    if len(ranked) != len(wanted):
        raise AssertedInputError(f"Length of `pred`({len(ranked)}) and `target` ({len(wanted)}) must be the same")
    if isinstance(ranked, np.ndarray):
        items = ranked.shape[1]
        if target_indices:
            wanted = inputs.one_hot(wanted, items, "target") > 0
        elif wanted.shape[1] != items:
            raise InvalidInputError(f"target has {wanted.shape[1]} items, pred has scores of {items}")
        return _from_scores(ranked, wanted, k)
    if not target_indices:
        wanted = [np.flatnonzero(row) for row in wanted]
    relevant = np.zeros((len(ranked), k), np.bool_)
    for row, (answers, items) in enumerate(zip(ranked, wanted)):
        distinct, first = np.unique(answers[:k], return_index=True)
        relevant[row, first[np.isin(distinct, items)]] = True  # a repeated item is found once
    return _Answers(relevant, np.array([np.unique(items).size for items in wanted], np.int64))


def _scores(pred: Any) -> np.ndarray:
    array = inputs.to_batch(pred, "pred")
    if isinstance(pred, Sequence) and array.dtype.kind != "f":
        raise TypeError(
            f"The pred must be type of torch.tensor, np.ndarray or Sequence of floats but get {type(pred)} of integers."
            " If these are indices of items, set `pred_indices` to True"
        )
    return inputs.as_scores(array, "pred")


def _flags(target: Any) -> np.ndarray:
    array = inputs.to_batch(target, "target")
    if array.ndim != 2:
        raise InvalidInputError(
            f"target has shape {list(array.shape)}; allowed is [queries, items], or indices with `target_indices`"
        )
    return _relevant(array, "target")


def _rows(value: Any, argument: str) -> list[np.ndarray]:
    """Any number of item indices for each query."""
    if isinstance(value, (str, bytes)) or not (isinstance(value, Sequence) or hasattr(value, "__array__")):
        raise AssertedInputError(
            f"`{argument}` must be Sequence of indices when `{argument}_indices` set to True, but get {type(value)}"
        )
    rows = []
    for number, row in enumerate(value if isinstance(value, Sequence) else inputs.to_batch(value, argument)):
        try:
            indices = inputs.to_array(row, argument)
            if indices.ndim != 1:
                raise TypeError
        except TypeError:
            raise AssertedInputError(
                f"`{argument}` should be Sequence of indices when `{argument}_indices` set to True. but "
                f"{argument}[{number}] is {row}"
            ) from None
        rows.append(inputs.as_labels(indices, argument))
        if rows[-1].size and rows[-1].min() < 0:
            raise InvalidInputError(f"{argument}[{number}] holds {rows[-1].min()}; indices of items are at least 0")
    return rows


def _warn_of_empty(metric: str, irrelevant: Any, total: Any) -> None:
    if irrelevant > 0:
        warn(
            f"{metric} is undefined for {irrelevant} of {total} queries, which have no relevant item; they count as 0",
            UndefinedMetricWarning,
        )


@PRETRAIN.register_module()
class RetrievalRecall(BaseMetric):
    """Share of the queries with a relevant item among the k best answers, in percent, modeled on MMPretrain's.

    Formula: ``100 * hits / queries``. Lower items come first where scores are equal. (A query counts once, even if
    several items are relevant to it: the Recall@k of image retrieval, not the share of the relevant items.)

    Data samples hold ``pred_score`` ``[items]``, and ``gt_score`` ``[items]``, positive where the item is relevant, or
    ``gt_label``, the relevant items. Workers exchange counts.

    Differs from MMPretrain's as all do, see `fleetmetrics.evaluator.metrics`, and in addition:

    - a query without relevant items counts as 0, as there, but with `UndefinedMetricWarning`;
    - a query with an empty list of answers counts as 0: MMPretrain fails with a ValueError;
    - negative targets are invalid: MMPretrain considers them relevant.

    Args:
        topk: one k or several.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"retrieval"``.

    Results:
        ``Recall@{k}``.

    Raises:
        InvalidInputError: an argument is invalid, or k is larger than the number of items.

    Examples:
        >>> metric = RetrievalRecall(topk=(1, 2))
        >>> metric.process(None, [{"pred_score": [0.5, 0.3, 0.2], "gt_label": [1, 2]}])
        >>> metric.compute_metrics(metric.results)
        {'Recall@1': 0.0, 'Recall@2': 100.0}
    """

    default_prefix: str | None = "retrieval"

    def __init__(self, topk: int | Sequence[int], collect_device: str = "cpu", prefix: str | None = None) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.topk: tuple[int, ...] = common.top_ks(topk)

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        if len(data_samples):  # only the hits are kept: a gallery may be large
            answers = _answers_of_samples(as_dicts(data_samples), max(self.topk))
            for hits, relevant in zip(_hits(answers, self.topk), answers.total.tolist()):
                self.results.append({"hits": hits, "relevant": relevant})

    def summarize(self, results: Sequence[Any]) -> dict[str, np.ndarray]:
        hits = inputs.stack(results, "hits") if results else np.zeros([0, len(self.topk)], np.bool_)
        return _recall_counts(hits, np.array(inputs.column(results, "relevant")))

    def compute_from(self, states: dict[str, np.ndarray]) -> dict[str, Any]:
        return {f"Recall@{k}": value for k, value in zip(self.topk, _recalls(states))}

    @staticmethod
    @knows_its_arguments
    def calculate(
        pred: Any, target: Any, topk: int | Sequence[int], pred_indices: bool = False, target_indices: bool = False
    ) -> list[np.ndarray]:
        """The recall of these answers, in percent.

        Args:
            pred: scores ``[queries, items]``, or with ``pred_indices`` each query's items, the best first.
            target: ``[queries, items]``, positive where the item is relevant, or with ``target_indices`` the relevant
                items of each query.
            topk: one k or several.
            pred_indices: whether ``pred`` holds items.
            target_indices: whether ``target`` holds items.

        Returns:
            A 0-d float64 array for each k.

        Raises:
            AssertedInputError: queries and targets differ in number, or indices are expected and missing.
            TypeError: scores are not an array, tensor or sequence of floats. (Integers in a sequence are indices.)

        Examples:
            >>> RetrievalRecall.calculate([[0], [1], [2], [3]], [[0, 1], [2], [1], [0, 3]], 1, True, True)
            [array(50.)]
        """
        topk = common.top_ks(topk)
        answers = _answers(pred, target, max(topk), pred_indices, target_indices)
        return [np.asarray(value) for value in _recalls(_recall_counts(_hits(answers, topk), answers.total))]


def _hits(answers: _Answers, topk: Sequence[int]) -> np.ndarray:
    return np.stack([answers.relevant[:, :k].any(axis=1) for k in topk], axis=1)


def _recall_counts(hits: np.ndarray, relevant: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "hits": np.count_nonzero(hits, axis=0).astype(np.int64, copy=False),
        "irrelevant": np.array(np.count_nonzero(relevant == 0), np.int64),
        "total": np.array(len(hits), np.int64),
    }


def _recalls(states: dict[str, np.ndarray]) -> list[float]:
    _warn_of_empty("RetrievalRecall", states["irrelevant"], states["total"])
    return [formulas.ratio.bare(100 * hits, states["total"], "RetrievalRecall") for hits in states["hits"].tolist()]


@PRETRAIN.register_module()
class RetrievalAveragePrecision(BaseMetric):
    """Mean over the queries of the average precision of their k best answers, in percent, modeled on MMPretrain's.

    Formula: ``100 * sum_q (sum_i p_qi / R_q) / queries`` over the positions i up to k of the relevant answers to query
    q, to which ``R_q`` items are relevant, found or not. ``p_qi`` is the precision of the first i answers, or in mode
    ``"integrate"`` the mean of that and of the precision before; see
    `fleetmetrics.formulas.average_precision_of_ranking`. Lower items come first where scores are equal.

    Data samples are those of `RetrievalRecall`. Workers exchange two numbers per query.

    Differs from MMPretrain's as `RetrievalRecall` does. In addition:

    - the value is global: MMPretrain's ``compute_metrics`` only covers the samples of the first worker;
    - repeated items count once, in answers and targets: MMPretrain gives 200 % for the answers ``[0, 0]`` to the target
      0, and 50 % for the answer 0 to the target ``[0, 0]``;
    - a query without relevant items counts as 0, where MMPretrain fails with a ZeroDivisionError.

    Args:
        topk: k, required.
        mode: ``"IR"`` or ``"integrate"``.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"retrieval"``.

    Results:
        ``mAP@{k}``.

    Raises:
        AssertedInputError: ``mode`` is invalid.
        InvalidInputError: another argument is invalid, or k is larger than the number of items.

    Examples:
        >>> metric = RetrievalAveragePrecision(topk=3)
        >>> metric.process(None, [{"pred_score": [0.5, 0.3, 0.2], "gt_label": [0, 1]}])
        >>> metric.compute_metrics(metric.results)
        {'mAP@3': 100.0}
    """

    default_prefix: str | None = "retrieval"

    def __init__(
        self, topk: int | None = None, mode: str = "IR", collect_device: str = "cpu", prefix: str | None = None
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.topk: int = whole_number_of("`topk`", topk, 1)
        self.mode: str = common.check_choice("mode", mode, _MODES)

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        if len(data_samples):  # only the value is kept: a gallery may be large
            answers = _answers_of_samples(as_dicts(data_samples), self.topk)
            values = 100 * formulas.average_precision_of_ranking.bare(*answers, self.mode)
            for value, relevant in zip(values.tolist(), answers.total.tolist()):
                self.results.append({"ap": value, "relevant": relevant})

    def compute_metrics(self, results: Sequence[Any]) -> dict[str, Any]:
        # Workers send a number per query: the last bits of partial sums would depend on how queries are distributed.
        values, relevant = inputs.column(results, "ap"), np.array(inputs.column(results, "relevant"))
        return {f"mAP@{self.topk}": _mean_precision(values, relevant)}

    @staticmethod
    @knows_its_arguments
    def calculate(
        pred: Any,
        target: Any,
        topk: int | None = None,
        pred_indices: bool = False,
        target_indices: bool = False,
        mode: str = "IR",
    ) -> float:
        """The mean average precision of these answers, in percent.

        Args:
            pred: scores or items, as for `RetrievalRecall.calculate`.
            target: relevance or items, as for `RetrievalRecall.calculate`.
            topk: k, required.
            pred_indices: whether ``pred`` holds items.
            target_indices: whether ``target`` holds items.
            mode: ``"IR"`` or ``"integrate"``.

        Raises:
            AssertedInputError: ``mode`` is invalid; else as `RetrievalRecall.calculate`.
            InvalidInputError: ``topk`` is not an integer from 1 to the number of items.

        Examples:
            >>> RetrievalAveragePrecision.calculate([[0, 1, 2, 3]], [[0, 3]], 4, True, True)
            75.0
        """
        k = whole_number_of("`topk`", topk, 1)
        common.check_choice("mode", mode, _MODES)
        answers = _answers(pred, target, k, pred_indices, target_indices)
        values = 100 * formulas.average_precision_of_ranking.bare(*answers, mode)
        return _mean_precision(values.tolist(), answers.total)


def _mean_precision(values: Sequence[float], relevant: np.ndarray) -> float:
    _warn_of_empty("RetrievalAveragePrecision", np.count_nonzero(relevant == 0), len(values))
    return formulas.ratio.bare(math.fsum(values), len(values), "RetrievalAveragePrecision")
