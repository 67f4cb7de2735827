"""Answers that match a reference: exactly, or in some words."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Settings
from fleetmetrics.batch import statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import TEXT, TEXT_LABELS, TextBatch
from fleetmetrics.metrics.text.text_metric import (
    Normalize,
    NormalizedMetric,
    best_values,
    normalized,
    references,
    words_of,
)
from fleetmetrics.support.typed import Unpack

__all__ = ["StringMatch", "TokenF1"]


@statistic
def _matches(batch: TextBatch, normalize: str) -> Any:
    predictions, labels = normalized(batch, normalize)
    equal = (text in references(label) for text, label in zip(predictions, labels))
    return batch.weighted_sum(np.fromiter(equal, bool, len(labels)))


def _f1(text: str, reference: str) -> float:
    """Twice the words in common, per word of both; 1 if there are no words in either."""
    one, other = words_of(text), words_of(reference)
    common = sum((Counter(one) & Counter(other)).values())
    both = len(one) + len(other)
    return 2 * common / both if both else 1.0


@statistic
def _best_f1(batch: TextBatch, normalize: str) -> Any:
    return batch.weighted_sum(best_values(_f1, *normalized(batch, normalize)))


class _Answers(NormalizedMetric[float]):
    better = "higher"
    requirements: tuple[str | Requirement, ...] = (TEXT, TEXT_LABELS)

    def __init__(self, *, normalize: Normalize = "squad", **settings: Unpack[Settings]) -> None:
        super().__init__(normalize=normalize, **settings)


class StringMatch(_Answers):
    """The share of the texts that equal a reference: SQuAD's exact match, or the accuracy of whole sentences.

    Formula: ``sum(w * m) / sum(w)`` with m 1 for an equal text, else 0.

    ``add(predictions, references)`` takes a list of strings, and of each sample a string or a list of several
    references, of which one suffices. References may be empty, for questions without an answer. Undefined without
    samples.

    Args:
        normalize: what counts of both texts. "squad": all but case, punctuation, articles and the number of blanks;
            "none": all characters; "spaces": all but spaces, as in PaddleOCR's accuracy; "alphanumeric": ASCII letters,
            of either case, and digits, as PaddleOCR's ``is_filter``.

    Examples:
        >>> metric = StringMatch()
        >>> metric.add(["the Eiffel Tower.", "1889"], [["Eiffel Tower", "La Tour Eiffel"], "in 1889"])
        >>> metric.compute()
        0.5
    """

    quotient: Quotient | None = Quotient({"matches": 1}, highest=1)
    declared: tuple[Declared, ...] = (Declared("matches", statistic=_matches, settings=("normalize",)), TOTAL)


class TokenF1(_Answers):
    """The mean F1 of the words of a text and of its reference: SQuAD's F1.

    Formula: ``sum(w * 2 * c / (m + n)) / sum(w)`` with ``c`` words in common of ``m`` predicted ones and ``n`` of the
    reference; the best of several references counts, and without words in both it is 1. A Chinese character is a
    word, as in the evaluation of CMRC 2018.

    Inputs and arguments as for `StringMatch`.

    Examples:
        >>> metric = TokenF1()
        >>> metric.add(["in the year 1889", "北京大学"], [["1889"], ["北京"]])
        >>> round(metric.compute(), 4)
        0.5833
    """

    quotient: Quotient | None = Quotient({"f1": 1}, highest=1)
    declared: tuple[Declared, ...] = (
        Declared("f1", dtype="float64", statistic=_best_f1, settings=("normalize",)),
        TOTAL,
    )
