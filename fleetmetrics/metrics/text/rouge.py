"""Summaries compared with references: ROUGE, which rouge-score computes."""

from __future__ import annotations

import functools
import re
from typing import Any

from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Settings
from fleetmetrics.batch import statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import TEXT, TextBatch, text_rule
from fleetmetrics.metrics.text.text_metric import CHINESE, TextMetric, best_values
from fleetmetrics.support.checks import choice_of, flag_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.typed import Unpack

__all__ = ["ROUGE"]

_TOKENS = re.compile(rf"[a-z0-9]+|[{CHINESE}]")
_KINDS = (*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum")


class _Tokenizer:
    """That of rouge-score, with each Chinese character as a token, which it would drop.

    Args:
        stem: the function for words of more than 3 letters; None: they stay.
    """

    def __init__(self, stem: Any) -> None:
        self._stem = stem

    def tokenize(self, text: str) -> list[str]:
        tokens = _TOKENS.findall(text.lower())
        return tokens if self._stem is None else [self._stem(token) if len(token) > 3 else token for token in tokens]


@functools.lru_cache(maxsize=32)
def _scorer(of: str, stem: bool) -> Any:
    scorer = library("rouge_score.rouge_scorer").RougeScorer
    return scorer([of], tokenizer=_Tokenizer(library("nltk.stem.porter").PorterStemmer().stem if stem else None))


@statistic
def _scores(batch: TextBatch, of: str, stem: bool) -> Any:
    score = _scorer(of, stem).score

    def f1(text: str, reference: str) -> float:
        value: float = score(reference, text)[of].fmeasure
        return value

    return batch.weighted_sum(best_values(f1, batch.predictions, batch.labels))


def _has_tokens(text: str) -> bool:
    return _TOKENS.search(text.lower()) is not None


_WITH_TOKENS = text_rule(
    "label", "a string with Latin letters, digits or Chinese, or a list of such strings", _has_tokens, several=True
)


class ROUGE(TextMetric[float]):
    """ROUGE: the mean F1 of the n-grams, or of the longest common subsequence, of summaries and their references.

    Formula: ``sum(w * f) / sum(w)`` with the F1 of a sample as rouge-score computes it; the best of several references
    counts. Words are sequences of Latin letters and digits, as there, and each Chinese character is a word, too.

    ``add(predictions, references)`` takes a list of strings, and of each sample a string or a list of several
    references; one without words is an error. Undefined without samples.

    Args:
        of: "rouge1" to "rouge9", of n-grams; "rougeL", of the whole text; "rougeLsum", of its lines.
        stem: whether words count without their English endings.

    Examples:
        >>> metric = ROUGE()
        >>> metric.add(["the cat was under the bed", "今天下雨"], ["the cat was found under the bed", "今天有雨"])
        >>> round(metric.compute(), 4)
        0.8365
    """

    better = "higher"
    quotient: Quotient | None = Quotient({"scores": 1}, highest=1)
    requirements: tuple[str | Requirement, ...] = (TEXT, _WITH_TOKENS)
    declared: tuple[Declared, ...] = (
        Declared("scores", dtype="float64", statistic=_scores, settings=("of", "stem")),
        TOTAL,
    )
    of: str
    stem: bool

    def __init__(self, *, of: str = "rougeL", stem: bool = False, **settings: Unpack[Settings]) -> None:
        self.of = choice_of("of", of, _KINDS)
        self.stem = flag_of("stem", stem)
        _scorer(self.of, self.stem)
        super().__init__(**settings)
