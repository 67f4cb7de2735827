"""Metrics of ranked answers, and of scores user by user: what a loop over the queries computes."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator, Sequence

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case, labels

KINDS = "fi"


def answers(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Scores with ties, and relevances of which about half are 0."""
    relevance = rng.integers(0, 4, samples) * rng.integers(0, 2, samples)
    return (rng.integers(0, 5, samples) / 2).astype(dtype), relevance.astype(label_dtype)


def clicks(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    return (rng.integers(0, 9, samples) / 2).astype(dtype), labels(rng, samples, label_dtype)


def query(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {"query": rng.integers(-4, 12, samples)}


#: As many as there are integers in `query`: the orders of tied answers to one query grow with their factorial.
TEXTS = np.array(["shoes", "a hat", "", "snow", "ä", *[f"shoes {size}" for size in range(36, 47)]])


def text_query(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {"query": TEXTS[rng.integers(0, len(TEXTS), samples)]}


def named_documents(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {**query(rng, samples), "docno": rng.permutation([f"d{place}" for place in range(samples)])}


def user(rng: np.random.Generator, samples: int) -> dict[str, Any]:
    return {"user": rng.integers(10**12, 10**12 + 9, samples)}


def all_orders(score: Any, relevance: Any) -> Iterator[Any]:
    """The relevances in every order that the scores allow, each order once: equal relevances trade places unseen."""
    order = np.argsort(-score, kind="stable")
    ties = [relevance[list(group)].tolist() for _, group in itertools.groupby(order, key=lambda i: score[i])]
    for each in itertools.product(*map(arrangements, ties)):
        yield np.array([*itertools.chain(*each)])


def arrangements(values: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """The different orders of some values; of what is drawn, all of them are equally likely."""
    if not values:
        yield ()
    for first in sorted(set(values)):
        rest = list(values)
        rest.remove(first)
        yield from ((first, *others) for others in arrangements(rest))


def mean_over_queries(
    of_order: Callable[[Any], float], defined: Callable[[Any], bool] = lambda relevance: relevance.any()
) -> Callable[..., float]:
    """A reference: the weighted mean over queries of the mean over the orders of tied answers.

    Args:
        of_order: the value of relevances, best answer first.
        defined: whether a query counts.
    """

    def reference(p: Any, y: Any, w: Any, query: Any) -> float:
        found, weights = [], []
        for each in np.unique(query):
            own = query == each
            if defined(y[own]):
                found.append(np.mean([of_order(order) for order in all_orders(p[own], y[own].astype(float))]))
                weights.append(1.0 if w is None else w[own].mean())
        return float(np.average(found, weights=weights))

    return reference


def by_document(of_order: Callable[[Any], float]) -> Callable[..., float]:
    """A reference: the weighted mean over queries with a relevant document, with ties in the order of ids."""

    def reference(p: Any, y: Any, w: Any, query: Any, docno: Any) -> float:
        order = np.argsort(docno)
        order = order[np.argsort(-p[order].astype(float), kind="stable")]
        rest = (None if w is None else w[order], query[order])
        return mean_over_queries(of_order)(-np.arange(len(p)), y[order], *rest)

    return reference


def dcg(relevance: Any, k: int) -> float:
    return float(sum(gain / np.log2(place + 2) for place, gain in enumerate(relevance[:k])))


def average_precision(relevance: Any, k: int) -> float:
    hits = np.cumsum(relevance > 0)
    precision = [hits[i] / (i + 1) for i in range(min(k, len(relevance))) if relevance[i] > 0]
    return sum(precision) / min(k, hits[-1])


def reciprocal_rank(relevance: Any, k: int) -> float:
    return next((1 / (place + 1) for place, gain in enumerate(relevance[:k]) if gain > 0), 0.0)


def of_users(weight_of: Callable[[Any, Any], float]) -> Callable[..., float]:
    """A reference: scikit-learn's area of each user with both classes, averaged.

    Args:
        weight_of: what a user counts for, by labels and weights.
    """

    def reference(p: Any, y: Any, w: Any, user: Any) -> float:
        from sklearn.metrics import roc_auc_score

        found, weights = [], []
        w = np.ones(len(p)) if w is None else w
        for each in np.unique(user):
            own = user == each
            if len(np.unique(y[own].astype(bool))) == 2:
                found.append(roc_auc_score(y[own].astype(bool), p[own], sample_weight=w[own]))
                weights.append(weight_of(y[own], w[own]))
        return float(np.average(found, weights=weights))

    return reference


def of(kind: Any, **settings: Any) -> Callable[..., Any]:
    return lambda *names, **more: kind(*names, **settings, **more)


def ranking(make: Any, reference: Any, columns: Any = query, **more: Any) -> Case:
    shapes = ("[n]", "[n, 1]")
    modes = ("numpy", "dynamic")
    return Case(make, answers, reference, shapes=shapes, kinds=KINDS, columns=columns, modes=modes, **more)


def by_user(make: Any, weight_of: Any) -> Case:
    shapes = ("[n]", "[n, 1]")
    return Case(make, clicks, of_users(weight_of), shapes=shapes, columns=user, modes=("numpy", "dynamic"))


CASES = {
    "dcg": ranking(fm.DCG, mean_over_queries(lambda r: dcg(r, 99), lambda r: True)),
    "dcg at 3 of texts": ranking(of(fm.DCG, k=3), mean_over_queries(lambda r: dcg(r, 3), lambda r: True), text_query),
    "ndcg at 4": ranking(of(fm.NDCG, k=4), mean_over_queries(lambda r: dcg(r, 4) / dcg(-np.sort(-r), 4))),
    "ndcg of exponential gains": ranking(
        of(fm.NDCG, gains="exponential"),
        mean_over_queries(lambda r: dcg(2**r - 1, 99) / dcg(-np.sort(-(2**r - 1)), 99)),
    ),
    "mrr": ranking(fm.MRR, mean_over_queries(lambda r: reciprocal_rank(r, 99))),
    "map at 3": ranking(of(fm.MAP, k=3), mean_over_queries(lambda r: average_precision(r, 3))),
    "map by document": ranking(
        of(fm.MAP, ties="ascending", document="docno"), by_document(lambda r: average_precision(r, 99)), named_documents
    ),
    "hit rate at 2": ranking(of(fm.HitRate, k=2), mean_over_queries(lambda r: float((r[:2] > 0).any()))),
    "precision at 2": ranking(
        of(fm.PrecisionAtK, k=2), mean_over_queries(lambda r: (r[:2] > 0).sum() / 2, lambda r: True)
    ),
    "recall at 2": ranking(of(fm.RecallAtK, k=2), mean_over_queries(lambda r: (r[:2] > 0).sum() / (r > 0).sum())),
    "fall-out at 2": ranking(
        of(fm.FallOutAtK, k=2), mean_over_queries(lambda r: (r[:2] == 0).sum() / (r == 0).sum(), lambda r: not r.all())
    ),
    "f2 at 3": ranking(
        of(fm.FBetaAtK, k=3, beta=2),
        mean_over_queries(lambda r: 5 * (r[:3] > 0).sum() / (4 * (r > 0).sum() + 3)),
    ),
    "r-precision": ranking(fm.RPrecision, mean_over_queries(lambda r: (r[: (r > 0).sum()] > 0).mean())),
    "gauc": by_user(fm.GAUC, lambda y, w: w.sum()),
    "gauc by clicks": by_user(of(fm.GAUC, user_weight="clicks"), lambda y, w: (w * y).sum()),
    "uauc": by_user(fm.UAUC, lambda y, w: 1.0),
    "wuauc": by_user(fm.WuAUC, lambda y, w: w.sum()),
}
