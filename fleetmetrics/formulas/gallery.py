"""Search of a gallery: the places of the items that match a query, by the similarity of their features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["SIMILARITIES", "Features", "Found", "search"]

SIMILARITIES = ("cosine", "dot", "euclidean")
#: The most bytes of similarities to hold at a time, and how many items to compare at a time.
_AT_ONCE, _ITEMS = 64 << 20, 2048
#: Of fewer matches, each is compared with all items.
_FEW = 100


class Features(NamedTuple):
    """Pictures, or other things, by their features."""

    features: np.ndarray  #: ``[n, d]``, finite
    labels: np.ndarray  #: ``[n]``, integers or strings: what matches what
    cameras: np.ndarray | None = None  #: ``[n]``, integers or strings


class Found(NamedTuple):
    """What the search gave for each query that something in the gallery matches."""

    precision: np.ndarray  #: float64 ``[queries]``, the average precision
    first: np.ndarray  #: int64 ``[queries]``, the place of the first match, from 1
    penalty: np.ndarray  #: float64 ``[queries]``, the matches over the place of the last one: the inverse penalty


def search(queries: Features, gallery: Features, similarity: str) -> Found:
    """Rank the gallery for each query, and find the matches: the items with the label of the query.

    Similarities are computed in float64, and compared in float32: equal features stay equal, whichever block they are
    in. Equally similar items are ranked with the matches last, so that their order in the gallery does not count, and a
    network that gives the same features to everything finds nothing. Only a block of similarities is held at a time.
    Neither large nor small features overflow: powers of two scale them, which changes no order.

    Args:
        queries: of the same width as the gallery.
        gallery: if it has cameras, an item with the label and the camera of the query is left out.
        similarity: one of `SIMILARITIES`.
    """
    items = len(gallery.labels)
    codes = np.unique(np.concatenate([gallery.labels, queries.labels]), return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes[:items], kind="stable")  # the matches of a query are then side by side
    starts, ends = (np.searchsorted(codes[:items][order], codes[items:], side) for side in ("left", "right"))
    cameras = None if gallery.cameras is None else gallery.cameras[order]
    rows = max(1, _AT_ONCE // (4 * max(1, items)))
    frame = _frame(queries.features, gallery.features, similarity)
    by_query = []
    for begin in range(0, len(queries.labels), rows):
        scores = _similarities(queries.features[begin : begin + rows], gallery.features, order, similarity, frame)
        for query, row in enumerate(scores, begin):
            start, end = starts[query], ends[query]
            matches = row[start:end]
            if cameras is not None and queries.cameras is not None:
                matches = matches[cameras[start:end] != queries.cameras[query]]
            if len(matches):
                by_query.append(_places(np.sort(matches), row[:start], row[end:]))
    precision, first, penalty = zip(*by_query) if by_query else ((), (), ())
    return Found(np.array(precision, np.float64), np.array(first, np.int64), np.array(penalty, np.float64))


def _places(matches: np.ndarray, *others: np.ndarray) -> tuple[float, int, float]:
    """Average precision, place of the first match, and inverse penalty of the last, from similarities, sorted."""
    near = np.concatenate([some[some >= matches[0]] for some in others])
    best = matches[::-1]
    if len(best) < _FEW:  # to compare with all is a hundred times faster than to sort
        ahead = np.array([np.count_nonzero(near >= match) for match in best])
    else:
        ahead = len(near) - np.searchsorted(np.sort(near), best)
    number = np.arange(1, len(best) + 1)
    places = number + ahead
    return float((number / places).mean()), int(places[0]), float(len(best) / places[-1])


class _Frame(NamedTuple):
    """Where features are read from, and in which unit, so that similarities fit float32; no order depends on it."""

    origin: Any = 0.0  #: float64 ``[d]``, or 0
    exponent: Any = None  #: the unit's power of two; None: each row has its own


def _frame(queries: np.ndarray, gallery: np.ndarray, similarity: str) -> _Frame:
    if similarity == "cosine" or not len(gallery) or not len(queries):
        return _Frame()
    ends = [np.array([extreme(axis=0) for extreme in (some.min, some.max)], np.float64) for some in (gallery, queries)]
    if similarity == "dot":
        return _Frame(exponent=_exponent(ends[0]))
    origin = ends[0][0] / 2 + ends[0][1] / 2  # amid the gallery: from afar, float32 cannot tell neighbors apart
    return _Frame(origin, _exponent(np.concatenate(ends) - origin))


def _exponent(values: np.ndarray, axis: int | None = None) -> Any:
    """The power of two above all values."""
    return np.clip(np.frexp(np.abs(values).max(axis))[1], -1000, 1000)


def _similarities(
    queries: np.ndarray, gallery: np.ndarray, order: np.ndarray, similarity: str, frame: _Frame
) -> np.ndarray:
    """float32 ``[queries, items]``, the items in this order; Euclidean distances as what falls with them."""
    scores = np.empty((len(queries), len(order)), np.float32)
    wanted = _scaled(queries, similarity, frame if similarity == "euclidean" else _Frame())
    for start in range(0, len(order), _ITEMS):
        place = slice(start, start + _ITEMS)
        items = _scaled(gallery[order[place]], similarity, frame)
        block = wanted @ items.T
        if similarity == "euclidean":
            block -= np.einsum("ij,ij->i", items, items) / 2
        scores[:, place] = block
    return scores


def _scaled(features: np.ndarray, similarity: str, frame: _Frame) -> np.ndarray:
    """float64, in the frame; of length 1 for the cosine."""
    features = features.astype(np.float64)
    if similarity == "cosine":
        with np.errstate(over="ignore"):
            length = np.linalg.norm(features, axis=1, keepdims=True)
        if length.min() > 2.0**-500 and length.max() < 2.0**500:
            return features / length
    exponent = _exponent(features, 1)[:, None] if frame.exponent is None else frame.exponent
    features = (features - frame.origin) * np.ldexp(1.0, -exponent)
    return features / np.linalg.norm(features, axis=1, keepdims=True) if similarity == "cosine" else features
