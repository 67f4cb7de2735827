"""Losses of language models, from sums over the tokens that count.

``loss`` is the sum of the tokens' negative log-likelihoods, in nats. Where a value is undefined it is
``zero_division``; nan, the default, comes with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any

from fleetmetrics.formulas.ratio import ratio
from fleetmetrics.support.given import amount, given, number, stand_in_value

__all__ = ["bits_per_byte", "perplexity", "token_loss"]

_NO_TOKENS = "no token counts (their total weight is 0)"


@given(loss=number, total=amount, zero_division=stand_in_value)
def token_loss(loss: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean negative log-likelihood of a token, in nats.

    Formula: ``loss / total``.

    Args:
        loss: of all tokens together.
        total: the number, or the weight, of the tokens.
        zero_division: see the module.

    Examples:
        >>> token_loss(6.0, 4)
        1.5
    """
    return ratio.bare(loss, total, "token_loss", zero_division, _NO_TOKENS)


@given(loss=number, total=amount, zero_division=stand_in_value)
def perplexity(loss: Any, total: Any, zero_division: float = math.nan) -> float:
    """The exponential of the mean loss of a token.

    Formula: ``exp(loss / total)``; infinity if the mean is above 709.78 nats, the limit of float64.

    Args:
        loss: of all tokens together.
        total: the number, or the weight, of the tokens.
        zero_division: see the module.

    Examples:
        >>> perplexity(0.0, 4)
        1.0
        >>> perplexity(710.0, 1)
        inf
    """
    if total == 0:
        return ratio.bare(loss, total, "perplexity", zero_division, _NO_TOKENS)
    try:
        return math.exp(ratio.bare(loss, total, "perplexity"))
    except OverflowError:
        return math.inf


@given(loss=number, size=amount, zero_division=stand_in_value)
def bits_per_byte(loss: Any, size: Any, zero_division: float = math.nan) -> float:
    """The loss in bits per byte of text: comparable between tokenizers.

    Formula: ``loss / (ln(2) * size)``.

    Args:
        loss: of all tokens together.
        size: of the text, in bytes.
        zero_division: see the module.

    Examples:
        >>> round(bits_per_byte(6.0, 4), 6)
        2.164043
    """
    value = ratio.bare(loss, size, "bits_per_byte", zero_division, "there are no bytes")
    return value / math.log(2) if size else value
