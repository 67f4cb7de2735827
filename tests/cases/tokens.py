"""Losses of tokens: what scikit-learn and NumPy compute from all tokens at once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case, labels
from tests.cases.classification import normals, positions

Rng = np.random.Generator
WIDTH, CLASSES = 4, 6


# -- data ------------------------------------------------------------------------------------------------


def losses(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """A loss for each of four tokens, some of which have the label 7."""
    label = labels(rng, samples * WIDTH, label_dtype, 9).reshape(samples, WIDTH)
    return (-np.log(rng.random((samples, WIDTH)))).astype(dtype), label


def means(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Mean losses, and how many tokens they are of: some of none."""
    tokens = labels(rng, samples, label_dtype, 9)
    return (-np.log(rng.random(samples))).astype(dtype), tokens


def sizes(rng: Rng, samples: int) -> dict[str, Any]:
    return {"bytes": rng.integers(1, 30, samples)}


def sizes_of_tokens(rng: Rng, samples: int) -> dict[str, Any]:
    return {"bytes": rng.integers(0, 5, (samples, WIDTH))}


# -- references ------------------------------------------------------------------------------------------


def of_logits(p: Any, y: Any, class_axis: int, ignored: tuple[int, ...] = ()) -> Any:
    """The loss of each position ``[n, ...]``, and which of them count."""
    from scipy.special import log_softmax

    p, y = np.moveaxis(p.astype(np.float64), class_axis, -1), y.astype(int)
    keep = ~np.isin(y, ignored)
    own = np.take_along_axis(log_softmax(p, axis=-1), np.where(keep, y, 0)[..., None], -1)[..., 0]
    return -own, keep


def summed(loss: Any, keep: Any, w: Any) -> tuple[float, float]:
    """The sums of losses and of weights; weights are by row."""
    weight = np.ones(len(loss)) if w is None else w
    weight = np.broadcast_to(weight.reshape(-1, *[1] * (loss.ndim - 1)), loss.shape)
    return float((weight * loss)[keep].sum()), float(weight[keep].sum())


def mean_of_logits(p: Any, y: Any, w: Any) -> float:
    total, number = summed(*of_logits(p, y, 1, (4, 77)), w)
    return total / number


def exp_of_logits(p: Any, y: Any, w: Any) -> float:
    total, number = summed(*of_logits(p, y, -1), w)
    return float(np.exp(total / number))


def bits_of_logits(p: Any, y: Any, w: Any, *, bytes: Any) -> float:
    loss, keep = of_logits(p, y, -1, (4,))
    weight = np.ones(len(loss)) if w is None else w
    counted = keep.reshape(len(keep), -1).any(axis=1)
    return summed(loss, keep, w)[0] / np.log(2) / float((weight * bytes)[counted].sum())


def mean_of_losses(p: Any, y: Any, w: Any) -> float:
    total, number = summed(p.astype(np.float64), y != 7, w)
    return total / number


def bits_of_losses(p: Any, y: Any, w: Any, *, bytes: Any) -> float:
    weight = np.ones(len(p)) if w is None else w
    return summed(p.astype(np.float64), p >= 0, w)[0] / np.log(2) / float((weight[:, None] * bytes).sum())


def exp_of_means(p: Any, y: Any, w: Any) -> float:
    weight = np.ones(len(p)) if w is None else w
    tokens = y.astype(np.float64)
    return float(np.exp((weight * tokens * p.astype(np.float64)).sum() / (weight * tokens).sum()))


CASES = {
    "token loss of logits": Case(
        functools.partial(fm.TokenLoss, class_axis=1, ignore_index=[4, 77]),
        positions(functools.partial(normals, columns=CLASSES), ignored=(4, 77)),
        mean_of_logits,
        shapes=("[n]",),
        kinds="f",
        by_row=True,
    ),
    "perplexity of logits": Case(
        fm.Perplexity,
        positions(functools.partial(normals, columns=CLASSES), class_axis=3),
        exp_of_logits,
        shapes=("[n]",),
        kinds="fi",
        by_row=True,
    ),
    "bits per byte of logits": Case(
        functools.partial(fm.BitsPerByte, ignore_index=4),
        positions(functools.partial(normals, columns=CLASSES), class_axis=3, ignored=(4,)),
        bits_of_logits,
        shapes=("[n]",),
        kinds="f",
        by_row=True,
        columns=sizes,
    ),
    "token loss of losses": Case(
        functools.partial(fm.TokenLoss, of="token_losses", ignore_index=7),
        losses,
        mean_of_losses,
        shapes=("[n]",),
        kinds="f",
        by_row=True,
    ),
    "bits per byte of losses": Case(
        functools.partial(fm.BitsPerByte, of="token_losses"),
        losses,
        bits_of_losses,
        shapes=("[n]",),
        kinds="f",
        by_row=True,
        columns=sizes_of_tokens,
    ),
    "perplexity of mean losses": Case(
        functools.partial(fm.Perplexity, of="mean_losses"),
        means,
        exp_of_means,
        shapes=("[n]", "[n, 1]"),
        kinds="f",
    ),
}
