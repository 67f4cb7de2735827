"""Edit distances of texts: word and character error rate, and the normalized distance; rapidfuzz computes them."""

from __future__ import annotations

from typing import Any, Callable, Literal, Sequence

import numpy as np

from fleetmetrics.base.metric import TOTAL, Declared, Quotient
from fleetmetrics.batch import per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import TEXT, TEXT_LABEL, TextBatch, pieces
from fleetmetrics.metrics.text.text_metric import NormalizedMetric, TextSettings, normalized, words_of
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.typed import Unpack

__all__ = ["CharErrorRate", "NormalizedEditDistance", "WordErrorRate"]


_Split = Callable[[str], Sequence[str]]


@per_sample
def _units(batch: TextBatch, split: _Split | None, normalize: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """The predictions and labels as sequences of what is counted: characters, or what they are split into."""
    predictions, labels = normalized(batch, normalize)
    return (predictions, labels) if split is None else ([*map(split, predictions)], [*map(split, labels)])


@per_sample
def _distances(batch: TextBatch, split: _Split | None, normalize: str, normalized: bool = False) -> np.ndarray:
    """The distance of each sample; ``normalized``: per character of the longer text."""
    levenshtein, compare = library("rapidfuzz.distance").Levenshtein, library("rapidfuzz.process").cpdist
    scorer, dtype = (levenshtein.normalized_distance, np.float64) if normalized else (levenshtein.distance, np.int64)
    pairs = zip(*map(pieces, _units(batch, split, normalize)))
    return np.concatenate([compare(*pair, scorer=scorer, dtype=dtype) for pair in pairs])


@statistic
def _edits(batch: TextBatch, split: _Split | None, normalize: str) -> Any:
    return batch.weighted_sum(_distances(batch, split, normalize))


@statistic
def _length(batch: TextBatch, split: _Split | None, normalize: str) -> Any:
    labels = _units(batch, split, normalize)[1]
    if labels is batch.entries["label"] and batch.weight is batch.lanes is None and "label" in batch.characters:
        return np.int64(batch.characters["label"])
    return batch.weighted_sum(np.fromiter(map(len, labels), np.int64, len(labels)))


@statistic
def _normalized_distances(batch: TextBatch, normalize: str) -> Any:
    return batch.weighted_sum(_distances(batch, None, normalize, True))


class _ErrorRate(NormalizedMetric[float]):
    better = "lower"
    quotient: Quotient | None = Quotient({"edits": 1}, {"length": 1})
    declared: tuple[Declared, ...] = (
        Declared("edits", statistic=_edits, settings=("split", "normalize")),
        Declared("length", statistic=_length, settings=("split", "normalize")),
    )
    split: _Split | None = None


class CharErrorRate(_ErrorRate):
    """Character error rate, CER: the edits that turn predictions into references, per character of the references.

    Formula: ``sum(w * d) / sum(w * n)`` over the samples of all workers, with the Levenshtein distance ``d`` of a text
    (insertions, deletions and substitutions of characters) and the length ``n`` of its reference; above 1 if there are
    more edits than characters. rapidfuzz computes the distances.

    ``add(predictions, references)`` takes lists of strings, one entry per sample; a reference that is blank is an
    error. Undefined without samples.

    Args:
        normalize: what counts of both texts. "none": all characters, blanks too; "spaces": all but spaces, as
            PaddleSpeech's ``remove_space``; "alphanumeric": ASCII letters, of either case, and digits; "squad": without
            case, punctuation and articles.

    Examples:
        >>> metric = CharErrorRate()
        >>> metric.add(["this is the prediction"], ["this is a reference"])
        >>> round(metric.compute(), 4)
        0.5789
    """


class WordErrorRate(_ErrorRate):
    """Word error rate, WER: the edits that turn predictions into references, per word of the references.

    Formula: ``sum(w * d) / sum(w * n)`` as for `CharErrorRate`, in words instead of characters: what is between blanks.
    A Chinese character is a word of its own, so that a text in Chinese has an error rate of characters.

    Inputs and arguments as for `CharErrorRate`.

    Args:
        chinese: "characters": each Chinese character is a word; "words": only blanks are between words, for texts that
            were segmented.

    Examples:
        >>> metric = WordErrorRate()
        >>> metric.add(["the cat sat", "我喜欢 paddle"], ["the cat sat down", "我很喜欢 paddle"])
        >>> metric.compute()
        0.2222222222222222
    """

    chinese: str
    split: _Split

    def __init__(
        self, *, chinese: Literal["characters", "words"] = "characters", **settings: Unpack[TextSettings]
    ) -> None:
        self.chinese = choice_of("chinese", chinese, ("characters", "words"))
        self.split = words_of if chinese == "characters" else str.split
        super().__init__(**settings)


class NormalizedEditDistance(NormalizedMetric[float]):
    """The mean edit distance of a text, per character of the longer one of prediction and reference.

    Formula: ``sum(w * d / max(m, n)) / sum(w)`` with the Levenshtein distance ``d`` and the lengths ``m`` and ``n``
    of both texts; 0 if both are empty. PaddleOCR's ``norm_edit_dis``, also called 1-N.E.D., is
    ``1 - NormalizedEditDistance(normalize="spaces")``, which is a metric, too.

    Inputs and arguments as for `CharErrorRate`; references may be empty.

    Examples:
        >>> metric = 1 - NormalizedEditDistance(normalize="spaces")
        >>> metric.add(["PAD DLE", "0CR"], ["PADDLE", "OCR"])
        >>> round(metric.compute(), 4)
        0.8333
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"distance": 1}, highest=1)
    requirements: tuple[str | Requirement, ...] = (TEXT, TEXT_LABEL)
    declared: tuple[Declared, ...] = (
        Declared("distance", dtype="float64", statistic=_normalized_distances, settings=("normalize",)),
        TOTAL,
    )
