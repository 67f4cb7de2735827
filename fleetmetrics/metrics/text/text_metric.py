"""The base of the metrics of texts: how a text is read, in characters or in words."""

from __future__ import annotations

import re
import string
from typing import Any, Callable, Literal, Sequence

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import per_sample
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import REFERENCE, TEXT, TextBatch, text_rule
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.typed import Unpack

#: Chinese characters, among which Japanese Kanji are.
CHINESE = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{CHINESE}]|[^\s{CHINESE}]+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)


def _without_spaces(text: str) -> str:
    return text.replace(" ", "")


def _alphanumeric(text: str) -> str:
    return "".join(filter(_ALPHANUMERIC.__contains__, text)).lower()


def _as_squad(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


Normalize = Literal["none", "spaces", "alphanumeric", "squad"]
#: What is left of a text before it is compared; "none": all of it.
_LEFT: dict[str, Callable[[str], str]] = {
    "none": str,
    "spaces": _without_spaces,
    "alphanumeric": _alphanumeric,
    "squad": _as_squad,
}


def words_of(text: str) -> list[str]:
    """The words between blanks; a Chinese character is a word of its own."""
    return text.split() if text.isascii() else _WORD.findall(text)


@per_sample
def normalized(batch: TextBatch, normalize: str) -> tuple[Sequence[str], Sequence[Any]]:
    """Predictions and labels; a label is a string, or a list of several references."""
    if normalize == "none":
        return batch.predictions, batch.labels
    left = _LEFT[normalize]
    labels = [left(label) if isinstance(label, str) else [*map(left, label)] for label in batch.labels]
    return [*map(left, batch.predictions)], labels


def references(label: Any) -> Sequence[str]:
    """The references of a sample, of which there may be one."""
    return (label,) if isinstance(label, str) else label


def best_values(score: Callable[[str, str], float], predictions: Sequence[str], labels: Sequence[Any]) -> np.ndarray:
    """Of each sample the highest score of its prediction beside a reference."""
    samples = zip(predictions, labels)
    best = (max(score(text, reference) for reference in references(label)) for text, label in samples)
    return np.fromiter(best, np.float64, len(labels))


class TextMetric(WithoutColumns[Value], Undefinable[Value]):
    """A metric that compares texts with their references: ``add(["a cat"], ["the cat"])``."""

    samples: str = "texts"
    requirements: tuple[str | Requirement, ...] = (TEXT, REFERENCE)


def _counts(text: str) -> bool:
    return not text.strip() or bool(_alphanumeric(text))


_COUNTED = text_rule(
    "label", "a text with an ASCII letter or digit: normalize='alphanumeric' counts no others", _counts, several=True
)
_WORDED = text_rule("label", "a text with a word: normalize='squad' counts no articles and punctuation", _as_squad)


class TextSettings(Settings, total=False):
    """Arguments of every metric of texts of which only a part may count."""

    normalize: Normalize


class NormalizedMetric(TextMetric[Value]):
    """A metric of texts of which only a part may count."""

    normalize: str
    requirements: tuple[str | Requirement, ...]

    def __init__(self, *, normalize: Normalize = "none", **settings: Unpack[Settings]) -> None:
        self.normalize = choice_of("normalize", normalize, tuple(_LEFT))
        super().__init__(**settings)
        if normalize == "alphanumeric":  # otherwise all texts in Chinese would be equal
            self.requirements = (*self.requirements, _COUNTED)
        if normalize == "squad" and REFERENCE in self.requirements:
            self.requirements = (*self.requirements, _WORDED)
