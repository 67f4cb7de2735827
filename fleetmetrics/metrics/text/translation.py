"""Translations compared with references by their n-grams: BLEU and chrF, which sacrebleu computes."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

from fleetmetrics.base.metric import Settings
from fleetmetrics.batch import per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import REFERENCES, TEXT, TextBatch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import NO_SAMPLES, stand_in
from fleetmetrics.metrics.text.text_metric import TextMetric, references
from fleetmetrics.support.checks import choice_of, flag_of, whole_number_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.typed import Unpack

__all__ = ["BLEU", "CHRF"]


class SignedScore(float):
    """A score with the signature that sacrebleu gives it: what it depends on, for tables of papers.

    Args:
        value: the score.
        signature: such as ``nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0``.
    """

    signature: str

    def __new__(cls, value: float, signature: str) -> SignedScore:
        score = super().__new__(cls, value)
        score.signature = signature
        return score

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.signature


class _Counting:
    """What a metric of sacrebleu gains here, by what sacrebleu has for classes that derive from its own."""

    _extract_corpus_statistics: Any
    _compute_score_from_stats: Any
    get_signature: Any
    num_refs: int

    def counts(self, text: str, label: Any) -> list[int]:
        """The counts of a sample."""
        counts: list[int] = self._extract_corpus_statistics([text], [[one] for one in references(label)])[0]
        return counts

    def score(self, counts: list[float], fewest: int, most: int) -> SignedScore:
        """The score of the sums of counts, for these numbers of references of a sample."""
        self.num_refs = fewest if fewest == most else -1
        counted = all(0 <= count < math.inf for count in counts)
        value = float(self._compute_score_from_stats(counts).score) if counted else math.nan
        return SignedScore(value, str(self.get_signature()))


@functools.lru_cache(maxsize=64)
def _scorer(kind: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    """The metric of sacrebleu; InvalidInputError for settings that it does not take."""
    try:
        counting: Any = type(kind, (_Counting, getattr(library("sacrebleu.metrics"), kind)), {})
        return counting(**dict(settings))
    except (AssertionError, ImportError, RuntimeError) as error:  # the latter two of tokenizers that are not installed
        raise InvalidInputError(f"sacrebleu cannot make this {kind}: {' '.join(str(error).split())}") from None


@per_sample
def _counts(batch: TextBatch, kind: str, settings: tuple[tuple[str, Any], ...]) -> np.ndarray:
    """The counts of sacrebleu, a row for each sample."""
    return np.array([*map(_scorer(kind, settings).counts, batch.predictions, batch.labels)], np.int64)


@statistic
def _sums(batch: TextBatch, kind: str, settings: tuple[tuple[str, Any], ...], width: int) -> list[Any]:
    """The sum of each of the counts, of which a sample has that number."""
    return [*map(batch.weighted_sum, _counts(batch, kind, settings).reshape(-1, width).T)]


@statistic
def _extremes(batch: TextBatch) -> list[Any]:
    """The fewest and the most references of a sample."""
    numbers = np.array([len(references(label)) for label in batch.labels], np.int64)
    return [batch.extreme(numbers, "min"), batch.extreme(numbers, "max")]


class _OfSacrebleu(TextMetric[SignedScore]):
    better = "higher"
    requirements: tuple[str | Requirement, ...] = (TEXT, REFERENCES)
    kind = ""
    scoring: tuple[tuple[str, Any], ...]

    def _score_with(self, counts: int, **scoring: Any) -> None:
        """Let sacrebleu score with these settings, from that number of counts."""
        self.scoring = tuple(scoring.items())
        _scorer(self.kind, self.scoring)
        self.declare("fewest", reduction="min", key="fewest references")
        self.declare("most", reduction="max", key="most references")
        for place in range(counts):
            self.declare(f"count_{place}", key=(self.kind, self.scoring, place))

    def batch_statistics(self, batch: Any) -> dict[str, Any]:
        sums = _sums(batch, self.kind, self.scoring, len(self.states) - 2)
        return dict(zip(self.states, _extremes(batch) + sums))

    def formula(self, fewest: np.ndarray, most: np.ndarray, **counts: np.ndarray) -> SignedScore:
        if fewest > most:
            return SignedScore(stand_in(self._title, NO_SAMPLES, self.zero_division), "")
        sums = [count.item() for count in counts.values()]
        score: SignedScore = _scorer(self.kind, self.scoring).score(sums, fewest.item(), most.item())
        return score


class BLEU(_OfSacrebleu):
    """BLEU: the n-grams of translations that their references have, too, with a penalty for short translations.

    Formula: ``100 * b * (p_1 * p_2 * p_3 * p_4) ** (1 / 4)``, of the sums over the samples of all workers: the
    precision ``p_n`` of n-grams, and ``b = min(1, exp(1 - r / c))`` of ``c`` words, with ``r`` in the references. It is
    sacrebleu's number, and the value's ``signature`` is sacrebleu's. A mean of the BLEU of batches is no BLEU.

    ``add(predictions, references)`` takes a list of strings, not split into words, and of each sample a string or a
    list of several references; a blank one is an error. Undefined without samples.

    Args:
        tokenize: sacrebleu's tokenizer: "13a" for most languages, "zh" for Chinese (by characters), "char", "intl" or
            "none"; "ja-mecab" and others need more of sacrebleu.
        lowercase: whether case does not count.
        smooth: of a precision of 0: "exp", "floor", "add-k" or "none".

    Examples:
        >>> metric = BLEU()
        >>> metric.add(["the cat sat on the mat"], [["the cat sat on a mat", "a cat was on the mat"]])
        >>> value = metric.compute()
        >>> round(value, 4)
        67.56
        >>> value.signature.partition("|version")[0]
        'nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp'
    """

    kind = "BLEU"
    lowercase: bool
    smooth: str
    tokenize: str

    def __init__(
        self,
        *,
        tokenize: str = "13a",
        lowercase: bool = False,
        smooth: Literal["exp", "floor", "add-k", "none"] = "exp",
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        known = library("sacrebleu.metrics").BLEU.TOKENIZERS
        self.tokenize = choice_of("tokenize", tokenize, tuple(known))
        self.lowercase = flag_of("lowercase", lowercase)
        self.smooth = choice_of("smooth", smooth, ("exp", "floor", "add-k", "none"))
        self._score_with(10, tokenize=tokenize, lowercase=lowercase, smooth_method=smooth, force=True)


class CHRF(_OfSacrebleu):
    """chrF: the F score of the n-grams of characters in translations, in which recall counts more.

    Formula: ``100 * (1 + beta**2) * P * R / (beta**2 * P + R)``, with the mean precision ``P`` and recall ``R`` of
    n-grams of 1 to 6 characters, from sums over the samples of all workers. It is sacrebleu's number, and the value's
    ``signature`` is sacrebleu's.

    Inputs as for `BLEU`; it needs no words, and suits Chinese as it is. Undefined without samples.

    Args:
        word_order: the longest n-grams of words that count, too: 2 gives chrF++.
        beta: how much recall counts, compared with precision.
        lowercase: whether case does not count.

    Examples:
        >>> metric = CHRF()
        >>> metric.add(["the cat sat on the mat"], ["the cat is on the mat"])
        >>> round(metric.compute(), 4)
        64.5779
    """

    kind = "CHRF"
    beta: int
    lowercase: bool
    word_order: int

    def __init__(
        self, *, word_order: int = 0, beta: int = 2, lowercase: bool = False, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(**settings)
        self.word_order = whole_number_of("word_order", word_order, 0, 9)
        self.beta = whole_number_of("beta", beta, 1, 99)
        self.lowercase = flag_of("lowercase", lowercase)
        self._score_with(3 * (6 + self.word_order), word_order=self.word_order, beta=self.beta, lowercase=lowercase)
