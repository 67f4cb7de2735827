"""Real data that scikit-learn and this repository bundle, in the form that the cases of the contract take them.

Predictions are what a simple rule says of a sample: a feature of a tumor, the nearest mean picture of a digit, a line
of text as somebody reads it who confuses letters. The columns of wrappers are no property of the samples: they are
drawn as in the contract.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from pathlib import Path
from typing import Any, Callable

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn import datasets

from tests.cases import (
    aggregation,
    base,
    classification,
    click_through,
    counterfactual,
    ranking,
    regression,
    scores,
    segmentation,
    tokens,
)
from tests.cases.base import Data
from tests.cases.text import objects
from tests.contract import CASES

#: How many of each data set: neither two nor five workers can share them evenly.
ROWS = 101
README = Path(__file__).parent.parent / "README.zh-CN.md"


# -- tables ----------------------------------------------------------------------------------------------


def tumors() -> tuple[Any, Any]:
    """Features of tumors from 0 to 1, and whether they are benign."""
    features, label = datasets.load_breast_cancer(return_X_y=True)
    low, high = features.min(axis=0), features.max(axis=0)
    return (1 - (features - low) / (high - low))[:ROWS], label[:ROWS]


def benign(of_two: bool = False) -> Data:
    features, label = tumors()
    score = features[:, 27]
    return Data(np.stack([1 - score, score], axis=1) if of_two else score, label)


def decided() -> Data:
    features, label = tumors()
    return Data(8 * features[:, 0] - 4, label)


def policies(columns: int = 2) -> Data:
    """One feature as the probability of an action, eighths of another as what was logged."""
    features, label = tumors()
    logged = np.ceil(features[:, 2] * 7 + 1) / 8
    return Data(np.stack([features[:, 1], logged, *features.T[3:5]][:columns], axis=1), label)


def patients() -> tuple[Any, Any, Any]:
    """How far diabetes goes by the body mass alone, how far it went, and a group of ages."""
    features, label = datasets.load_diabetes(return_X_y=True)
    return (150 + 900 * features[:, 2])[:ROWS], label[:ROWS], np.digitize(features[:ROWS, 0], np.arange(-9, 10) / 100)


def progression() -> Data:
    return Data(*patients()[:2])


def quantiles() -> Data:
    score, label, _ = patients()
    return Data(score[:, None] + [-60, 0, 60], label)


def progressed() -> Data:
    return Data(patients()[1], None)


def answers(texts: bool = False, **columns: Any) -> Data:
    """The patients of an age as the answers to a query, some with equal scores."""
    score, label, age = patients()
    query = np.char.add("age ", age.astype(str)) if texts else age
    return Data(np.round(score / 5), np.digitize(label, [140, 200, 260]), columns={"query": query, **columns})


def of_ages() -> Data:
    score, label, age = patients()
    return Data(np.round(score / 5), (label > 140).astype(int), columns={"user": age})


# -- pictures --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def pictures_of_digits() -> Any:
    return datasets.load_digits(return_X_y=True)


def digits(classes: int, part: slice = slice(None)) -> tuple[Any, Any, Any]:
    """Pictures, how much each resembles the mean picture of each digit in a part of the pixels, and labels."""
    pictures, label = pictures_of_digits()
    pictures, label = pictures[label < classes], label[label < classes]
    last = slice(len(label) - 200, None)
    means = np.stack([pictures[last][label[last] == digit].mean(axis=0) for digit in range(classes)])
    return pictures, -((pictures[:, None, part] - means[:, part]) ** 2).mean(axis=2) / 8, label


def logits(classes: int) -> Data:
    _, score, label = digits(classes)
    return Data(score[:ROWS], label[:ROWS])


def softmax(classes: int) -> Data:
    score, label = logits(classes)[:2]
    odds = np.exp(score - score.max(axis=1, keepdims=True))
    return Data(odds / odds.sum(axis=1, keepdims=True), label)


def read(classes: int) -> Data:
    """The digits as somebody reads them who sees their upper halves."""
    _, score, label = digits(classes, slice(32))
    return Data(score[:ROWS].argmax(axis=1), label[:ROWS])


def traits(odds: bool = False) -> Data:
    """Whether a digit is even, above 4, or has a loop, and how likely that is."""
    table, label = softmax(10)[:2]
    traits = np.array([[digit % 2 == 0, digit > 4, digit in (0, 6, 8, 9)] for digit in range(10)])
    score = np.clip(table @ traits, 1e-3, 1 - 1e-3)
    return Data(np.log(score / (1 - score)) if odds else score, traits[label].astype(int))


def in_fours(class_axis: int = 1, ignored: Any = ()) -> Data:
    """Rows of four digits below 6."""
    _, score, label = digits(6)
    table, label = (part[: 4 * ROWS].reshape(ROWS, 2, 2, *part.shape[1:]) for part in (score, label))
    label[::7, 0, 0] = (*ignored, *label[0, 0])[0]
    return Data(np.ascontiguousarray(np.moveaxis(table, -1, class_axis)), label)


def levels(pictures: Any) -> Any:
    """The pixels in five classes of ink."""
    return np.digitize(pictures.reshape(-1, 8, 8), [1, 5, 9, 13])


def blurred() -> Data:
    """The class of each pixel in a blurred picture and in the sharp one, of which a column is ignored."""
    pictures = pictures_of_digits()[0][:ROWS]
    label = levels(pictures)
    label[:, :, 7] = 77
    return Data(levels(softened(pictures)), label)


def softened(pictures: Any) -> Any:
    return gaussian_filter(pictures.reshape(-1, 8, 8), (0, 0.6, 0.6))


def blurred_scores() -> Data:
    """A score of each of six classes for each pixel."""
    prediction, label = blurred()[:2]
    return Data(-np.abs(prediction[:, None] - np.arange(6)[:, None, None] - 0.25), np.where(label == 77, 0, label))


def shifted() -> Data:
    """Pictures that moved by a pixel: they have the same classes."""
    label = levels(pictures_of_digits()[0][:ROWS])
    return Data(np.roll(label, 1, axis=2), label)


# -- texts -----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def lines() -> list[str]:
    """Sentences that describe the data sets."""
    names = ("breast_cancer", "wine", "digits", "diabetes", "iris", "linnerud")
    text = "\n\n".join(getattr(datasets, f"load_{name}")().DESCR for name in names)
    parts = [" ".join(part.split()) for part in re.split(r"(?<=[.:;]) |\n\n|\n *[-:|] ", text)]
    return [part for part in parts if len(re.findall(r"[a-z]{2,}", part)) > 2][:ROWS]


def misread(line: str) -> str:
    for true, seen in {"rn": "m", "cl": "d", "ll": "l", " of the ": " of ", "ea": "ae", "1": "l"}.items():
        line = line.replace(true, seen)
    return line


def sentences(several: bool = False) -> Data:
    """Some of several have two further references."""
    true = lines()
    more = [[line, line.lower(), line.split(",")[0]] if several and n % 3 else line for n, line in enumerate(true)]
    return Data(objects([*map(misread, true)]), objects(more))


def chinese() -> Data:
    text = README.read_text("utf-8")
    true = [part for line in text.splitlines() for part in line.split("。") if re.search("[\u4e00-\u9fff]{4}", part)]
    seen = [line.replace("的", "").replace("个", "各").replace("一", "一一") for line in true]
    return Data(objects(seen[:ROWS]), objects(true[:ROWS]))


def tagged() -> Data:
    """Words with a capital letter as places, and numbers as persons; the first word only where it is predicted."""

    def tags(words: list[str], first: bool) -> list[str]:
        kinds = [
            "PER" if re.search(r"\d", word) else "LOC" if word[0].isupper() and (n or first) else ""
            for n, word in enumerate(words)
        ]
        return [f"{'IB'[kind != last]}-{kind}" if kind else "O" for kind, last in zip(kinds, ["", *kinds])]

    return Data(*(objects([tags(line.split(), first) for line in lines()]) for first in (True, False)))


def spelled() -> Data:
    """Four letters a row: how rare each is, and whether it is a vowel, a consonant, a blank or something else."""
    letters = [*" ".join(lines())][: 4 * ROWS]
    often = Counter(letters)
    loss = [-np.log(often[letter] / len(letters)) for letter in letters]
    kinds = [letter.islower() + letter.isspace() * 2 + (letter in "aeiou") * 4 for letter in letters]
    return Data(np.reshape(loss, (ROWS, 4)), np.reshape(kinds, (ROWS, 4)) + 5)  # blanks have the label 7


def means_of_four() -> Data:
    data = spelled()
    return Data(data.prediction.mean(axis=1), (data.label != 7).sum(axis=1))


# -- cases -----------------------------------------------------------------------------------------------

_of: Any = functools.partial
#: By what a case draws.
_BY_DRAW: dict[Any, Callable[[], Data]] = {
    aggregation.some_values: progressed,
    base.probabilities: benign,
    base.two_columns: _of(benign, of_two=True),
    base.scores: _of(logits, 6),
    base.classes: _of(read, 5),
    base.numbers: progression,
    base.values: progressed,
    classification.few_classes: _of(read, 5),
    classification.many_labels: traits,
    classification.many_logits: _of(traits, odds=True),
    classification.softmax: _of(softmax, 6),
    classification.normals: decided,
    click_through.softmax: _of(softmax, 4),
    click_through.logits: decided,
    click_through.logits_of_four: _of(logits, 4),
    counterfactual.policies: policies,
    ranking.answers: answers,
    ranking.clicks: of_ages,
    regression.alike: progression,
    regression.columns: quantiles,
    regression.positive: progression,
    scores.three_classes: _of(softmax, 3),
    segmentation.masks: blurred,
    segmentation.squares: shifted,
    tokens.losses: spelled,
    tokens.means: means_of_four,
}
#: By its name, where the function that draws is one of several that were made alike.
_BY_NAME: dict[str, Callable[[], Data]] = {
    "dcg at 3 of texts": _of(answers, texts=True),
    "map by document": _of(answers, docno=np.array([f"patient {n}" for n in range(ROWS)])),
    "doubly robust": _of(policies, 4),
    "f1 without some": benign,
    "average precision of classes of logits": _of(logits, 3),
    **dict.fromkeys(("log loss of logits of classes", "hinge loss of classes"), _of(logits, 6)),
    **dict.fromkeys(("accuracy of positions", "perplexity of logits"), _of(in_fours, 3)),
    "log loss of positions": in_fours,
    "confusion matrix of pixels, without some": _of(in_fours, ignored=(77,)),
    "token loss of logits": _of(in_fours, ignored=(77,)),
    "bits per byte of logits": _of(in_fours, 3, ignored=(4,)),
    "mean iou of images of scores": blurred_scores,
    "word error rate of chinese": chinese,
    **dict.fromkeys(("character error rate", "word error rate", "normalized edit distance"), sentences),
    **dict.fromkeys(("string match", "token f1", "bleu", "chrf", "rouge"), _of(sentences, several=True)),
    **dict.fromkeys(("entity f1", "entity f1 of iob2", "entity report"), tagged),
}


def real(name: str) -> Data:
    """The real data of a case."""
    case = CASES[name]
    make = _BY_NAME.get(name) or _BY_DRAW.get(case.draw)
    assert make is not None, f"the case {name!r} draws in a way of its own: add its real data to {__file__}"
    data = make()
    if case.columns and not data.columns:
        return data._replace(columns=case.columns(np.random.default_rng(0), len(data.prediction)))
    return data
