"""Texts and sequences of tags: what jiwer, rapidfuzz, seqeval, sacrebleu and rouge-score compute."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Callable, Sequence

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case

Rng = np.random.Generator
WORDS = ("a", "the", "Cat", "sat,", "on", "mat", "1889", "it's", "über")
CHINESE = ("北京", "大学", "我", "喜欢", "paddle", "，", "7")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER", "I")
MODES = ("numpy", "dynamic")


def objects(entries: Sequence[Any]) -> Any:
    array = np.empty(len(entries), object)
    for place, entry in enumerate(entries):
        array[place] = entry
    return array


def changed(rng: Rng, words: Sequence[str], of: Sequence[str]) -> list[str]:
    """The words, some of them others, missing or twice."""
    others = rng.choice(of, len(words)).tolist()
    pairs = zip(words, others, rng.random(len(words)).tolist())
    return [part for word, other, u in pairs for part in {0: [], 1: [other], 2: [word, other]}.get(int(u * 8), [word])]


def texts(rng: Rng, samples: int, of: Sequence[str] = WORDS, between: str = " ", several: bool = False) -> Any:
    """Predictions and references, up to three of a sample."""
    references = [rng.choice(of, rng.integers(1, 9)).tolist() for _ in range(samples)]
    predictions = [between.join(changed(rng, words, of)) for words in references]
    labels: list[Any] = [between.join(words) for words in references]
    if several:
        more = [[between.join(changed(rng, words, of)) or "x" for _ in range(rng.integers(3))] for words in references]
        labels = [[label, *others] if others else label for label, others in zip(labels, more)]
    return objects(predictions), objects(labels)


def drawn(**options: Any) -> Callable[..., Any]:
    return lambda rng, samples, dtype, label_dtype: texts(rng, samples, **options)


def sequences(rng: Rng, samples: int, tags: Sequence[str] = TAGS) -> Any:
    labels = [rng.choice(tags, rng.integers(0, 9)).tolist() for _ in range(samples)]
    other = iter(rng.choice(tags, 9 * samples).tolist())
    predictions = [[next(other) if rng.random() < 0.3 else tag for tag in label] for label in labels]
    return objects(predictions), objects(labels)


def weights(w: Any, samples: int) -> Any:
    return np.ones(samples) if w is None else w


def of_samples(function: Callable[[str, Any], float]) -> Callable[..., float]:
    """The weighted mean of a value of each sample; the best of several references."""

    def reference(p: Any, y: Any, w: Any) -> float:
        best = [max(function(a, b) for b in ([label] if isinstance(label, str) else label)) for a, label in zip(p, y)]
        return float(np.average(best, weights=w)) if len(p) else np.nan

    return reference


def error_rate(process: str, split: Callable[[str], Any] = str) -> Callable[..., float]:
    """That of jiwer, by the edits and lengths that it counts in each sample."""

    def reference(p: Any, y: Any, w: Any) -> float:
        import jiwer

        w, edits, length = weights(w, len(p)), 0.0, 0.0
        for text, label, weight in zip(p, y, w):
            out = getattr(jiwer, f"process_{process}")(split(label), split(text))
            edits += weight * (out.substitutions + out.deletions + out.insertions)
            length += weight * (out.substitutions + out.deletions + out.hits)
        return edits / length if length else np.nan

    return reference


def by_characters(text: str) -> str:
    """Blanks around Chinese characters, so that jiwer's words are ours."""
    return "".join(f" {letter} " if "\u4e00" <= letter <= "\u9fff" else letter for letter in text)


def distance(text: str, label: str) -> float:
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_distance(text.replace(" ", ""), label.replace(" ", ""))


def as_squad(text: str) -> list[str]:
    """The words that SQuAD compares."""
    kept = "".join(letter for letter in text.lower() if letter not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def token_f1(text: str, label: str) -> float:
    one, other = as_squad(text), as_squad(label)
    common = sum((Counter(one) & Counter(other)).values())
    if not one or not other:
        return float(one == other)
    precision, recall = common / len(one), common / len(other)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def entity_f1(p: Any, y: Any, w: Any, scheme: str = "") -> float:
    """That of seqeval, which has no weights: from the counts in each sequence."""
    from seqeval import scheme as schemes
    from seqeval.metrics.sequence_labeling import get_entities

    def entities(tags: list[str]) -> set[Any]:
        if not scheme:
            return set(get_entities(tags))
        return {entity.to_tuple() for entity in schemes.Tokens(tags, getattr(schemes, scheme)).entities}

    sums = np.zeros(3)
    for prediction, label, weight in zip(p, y, weights(w, len(p))):
        one, other = entities(prediction), entities(label)
        sums += weight * np.array([len(one & other), len(one), len(other)])
    return float(2 * sums[0] / (sums[1] + sums[2])) if sums[1] + sums[2] else np.nan


def entity_report(p: Any, y: Any, w: Any) -> Any:
    """Seqeval's functions of each type in turn, of which it has no weights: from the counts in each sequence."""
    from seqeval.metrics.sequence_labeling import get_entities

    types = ("LOC", "PER")
    counts = np.zeros((2, 3))
    for prediction, label, weight in zip(p, y, weights(w, len(p))):
        one, other = set(get_entities(prediction)), set(get_entities(label))
        for place, name in enumerate(types):
            sizes = [sum(entity[0] == name for entity in some) for some in (one & other, one, other)]
            counts[place] += weight * np.array(sizes)
    rows = {name: counts[place] for place, name in enumerate(types)}
    measured = {name: measures(*row) for name, row in rows.items()}
    right, predicted, true = counts.sum(axis=0)
    measured["micro avg"] = measures(right, predicted, true)
    numbers = np.array([[*measured[name].values()][:3] for name in types])
    occurs = (counts[:, 1] + counts[:, 2]) > 0
    for name, share in (("macro avg", occurs.astype(float)), ("weighted avg", counts[:, 2] * occurs)):
        mean = [mean_of(numbers[:, k], share) for k in range(3)]
        measured[name] = {**dict(zip(("precision", "recall", "f1-score"), mean)), "support": true}
    return measured


def measures(right: float, predicted: float, true: float) -> dict[str, float]:
    both = predicted + true
    return {
        "precision": right / predicted if predicted else np.nan,
        "recall": right / true if true else np.nan,
        "f1-score": 2 * right / both if both else np.nan,
        "support": true,
    }


def mean_of(values: Any, share: Any) -> float:
    """The weighted mean of the defined values."""
    kept = ~np.isnan(values) & (share > 0)
    return float((values[kept] * share[kept]).sum() / share[kept].sum()) if kept.any() else np.nan


def sacrebleu(kind: str, **options: Any) -> Callable[..., float]:
    """Its corpus score; with weights, from the weighted sums of its counts."""

    def reference(p: Any, y: Any, w: Any) -> float:
        from sacrebleu import metrics

        scorer = getattr(metrics, kind)(**options)
        labels = [[label] if isinstance(label, str) else label for label in y]
        streams = [[refs[k] if k < len(refs) else None for refs in labels] for k in range(max(map(len, labels)))]
        if w is None:
            return float(scorer.corpus_score(list(p), streams).score)
        counts = np.array(scorer._extract_corpus_statistics(list(p), streams))
        return float(scorer._compute_score_from_stats((w @ counts).tolist()).score)

    return reference


def rouge(of: str) -> Callable[[str, str], float]:
    def score(text: str, label: str) -> float:
        from rouge_score.rouge_scorer import RougeScorer

        return RougeScorer([of]).score(label, text)[of].fmeasure

    return score


def case(make: Any, draw: Any, reference: Any, **options: Any) -> Case:
    return Case(make, draw, reference, **{"shapes": ("[n]",), "kinds": "b", "modes": MODES, **options})


several = drawn(several=True)
CASES = {
    "character error rate": case(fm.CharErrorRate, drawn(), error_rate("characters")),
    "word error rate": case(fm.WordErrorRate, drawn(), error_rate("words")),
    "word error rate of chinese": case(
        fm.WordErrorRate, drawn(of=CHINESE, between=""), error_rate("words", by_characters)
    ),
    "normalized edit distance": case(
        functools.partial(fm.NormalizedEditDistance, normalize="spaces"), drawn(), of_samples(distance)
    ),
    "string match": case(fm.StringMatch, several, of_samples(lambda p, y: float(as_squad(p) == as_squad(y)))),
    "token f1": case(fm.TokenF1, several, of_samples(token_f1)),
    "entity f1": case(fm.EntityF1, lambda rng, samples, *_: sequences(rng, samples), entity_f1),
    "entity f1 of iob2": case(
        functools.partial(fm.EntityF1, scheme="IOB2"),
        lambda rng, samples, *_: sequences(rng, samples, TAGS[:5]),
        functools.partial(entity_f1, scheme="IOB2"),
    ),
    "entity report": case(
        functools.partial(fm.EntityReport, types=["LOC", "PER"]),
        lambda rng, samples, *_: sequences(rng, samples, TAGS[:7]),
        entity_report,
        undefined=entity_report([], [], None),
    ),
    "bleu": case(fm.BLEU, several, sacrebleu("BLEU", force=True)),
    "chrf": case(fm.CHRF, several, sacrebleu("CHRF")),
    "rouge": case(fm.ROUGE, several, of_samples(rouge("rougeL"))),
}
