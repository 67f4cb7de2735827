"""What was understood of the data, in words: the kinds of labels and scores, and whatever a reader has inferred.

A reader says a fact once for a file or a piece of it, never for a row: ``columns.understand("quotes", "none")``.
The facts travel with `fleetmetrics.files.Read`, are joined over files, processes and workers, and are printed below
the number of rows. If files differ, the result says both kinds.
"""

from __future__ import annotations

import functools
from typing import Any, Iterable, Mapping, Sequence

from fleetmetrics.support.vocabulary import argument

__all__ = ["facts_of", "joined", "label_in_words", "score_in_words"]

#: NumPy's names of Arrow's floats.
_FLOATS = {"double": "float64", "float": "float32", "halffloat": "float16"}
#: More kinds than these are counted.
_KINDS = 3


def joined(parts: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """By name, the kinds that were seen in any part; each once, and in the same order for any order of the parts."""
    kinds_by_name: dict[str, set[str]] = {}
    for part in parts:
        for name, kinds in part.items():
            kinds_by_name.setdefault(name, set()).update(kinds)
    first = [name for name in ("label", "score") if name in kinds_by_name]
    return {name: tuple(sorted(kinds_by_name[name])) for name in [*first, *sorted(kinds_by_name.keys() - {*first})]}


def facts_of(understood: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Each fact as one string, such as ``{"label": "0 and 1 (float64) or true and false (bool)"}``."""
    facts = {}
    for name, kinds in understood.items():
        more = len(kinds) - _KINDS
        facts[name] = " or ".join(kinds[:_KINDS]) + (f" or {more} more" if more > 0 else "")
    return facts


def label_in_words(rules: Sequence[Any], reading: Any, kind: Any) -> str:
    """What labels were taken as, such as "0 and 1 (int64)".

    Args:
        rules: the requirements of all metrics.
        reading: the options of reading.
        kind: the Arrow type of the column.
    """
    if reading.positive is not None:
        what = f"{reading.positive} is 1, all others 0, by {argument('positive')}"
    elif reading.classes is not None:
        what = f"names of {len(reading.classes)} classes, by {argument('classes')}"
    else:
        allowed = [rule.allowed for rule in rules if rule.argument == "label"]
        flags = "true and false" if str(kind) == "bool" else "0 and 1"
        kinds = {"a class: 0 or 1": flags, "a class": "classes", "a relevance": "relevances"}
        what = _first_of(kinds, allowed) or "numbers"
    return f"{what} ({_type_in_words(kind)})"


def score_in_words(rules: Sequence[Any], reading: Any, kind: Any, shape: Sequence[int], is_text: bool) -> str:
    """What scores were taken as, such as "probabilities (float64)".

    Args:
        rules: the requirements of all metrics.
        reading: the options of reading.
        kind: the Arrow type of the column.
        shape: of the scores: ``[n]`` or ``[n, k]``.
        is_text: whether they are names of classes.
    """
    allowed = [rule.allowed for rule in rules if rule.argument == "prediction"]
    if is_text:
        what = f"names of classes, by {argument('classes')}"
    elif len(shape) > 1:
        what = f"{shape[1]} a row"
    else:
        what = _first_of({"a class": "classes", "a probability": "probabilities"}, allowed) or "numbers"
    if reading.from_logits:
        what = f"{'log-odds' if len(shape) == 1 else f'{what}, logits'} made probabilities by {argument('from_logits')}"
    if reading.scale != 1.0:
        what += f", times {reading.scale:g}"
    return f"{what} ({_type_in_words(kind)})"


def _first_of(kinds: Mapping[str, str], allowed: Sequence[str]) -> str:
    """The first of the kinds with whose beginning a requirement begins; empty without one."""
    matching = (kind for begins, kind in kinds.items() if any(start.startswith(begins) for start in allowed))
    return next(matching, "")


@functools.lru_cache(maxsize=256)
def _type_in_words(kind: Any) -> str:
    """A type of Arrow, with NumPy's names of floats, and without the codes of strings."""
    if hasattr(kind, "indices") or str(kind).startswith("dictionary"):
        kind = kind.value_type
    if str(kind).startswith(("list", "large_list", "fixed_size_list")):
        return f"lists of {_type_in_words(kind.value_type)}"
    text = str(kind).replace("large_", "").replace("_view", "")
    return _FLOATS.get(text, text)
