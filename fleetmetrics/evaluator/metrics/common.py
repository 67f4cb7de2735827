"""Arguments common to the metrics' constructors and `calculate`."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import AssertedInputError, InvalidInputError
from fleetmetrics.support.checks import number_of, whole_number_of

AVERAGES = ("micro", "macro", None)
ITEMS = ("precision", "recall", "f1-score", "support")


def _entries(argument: str, value: Any) -> tuple[Any, ...]:
    entries = (value,) if _is_single(value) else tuple(value)
    if not entries:
        raise InvalidInputError(f"{argument} is empty; give at least one value")
    return entries


def _is_single(value: Any) -> bool:
    """Whether a value has no entries of its own; a string and an array without axes have none."""
    return isinstance(value, str) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0


def top_ks(topk: Any) -> tuple[int, ...]:
    """One k or several as a tuple."""
    return tuple(whole_number_of("topk, or each of several,", k, 1) for k in _entries("topk", topk))


def threshold(thr: Any, argument: str = "thr") -> float | None:
    """A threshold as a float; None stays None."""
    return None if thr is None else number_of(argument, thr, allowed="a finite number or None")


def thresholds(thrs: Any) -> tuple[float | None, ...]:
    """One threshold or several as a tuple."""
    return tuple(threshold(thr, "thrs, or each of several,") for thr in _entries("thrs", thrs))


def suffixes(thrs: Sequence[float | None]) -> list[str]:
    """The suffixes of the results of several thresholds; empty for a single one.

    Thresholds that are equal to two digits are written in full.

    Examples:
        >>> suffixes([0.5, 0.121, 0.123, None])
        ['_thr-0.50', '_thr-0.121', '_thr-0.123', '_no-thr']
    """
    if len(thrs) == 1:
        return [""]
    shared = Counter(f"{thr:.2f}" for thr in set(thrs) if thr is not None)

    def suffix(thr: float | None) -> str:
        if thr is None:
            return "_no-thr"
        short = f"{thr:.2f}"
        return f"_thr-{short}" if shared[short] == 1 else f"_thr-{thr!r}"

    return list(map(suffix, thrs))


def check_choice(argument: str, value: Any, options: Sequence[str | None]) -> Any:
    """One of the options."""
    if not (value is None or isinstance(value, str)) or value not in options:
        raise AssertedInputError(f"Invalid `{argument}` argument, please specify from {list(options)}. It is {value!r}")
    return value


def check_items(items: Any, metric: str) -> tuple[str, ...]:
    """The items as a tuple."""
    if _is_single(items):
        raise AssertedInputError(f'items must be a sequence of names such as ("recall",), not {items!r}')
    items = tuple(items)
    for item in items:
        if not isinstance(item, str) or item not in ITEMS:
            raise AssertedInputError(
                f"The metric {item} is not supported by `{metric}`, please specify from "
                '"precision", "recall", "f1-score" and "support"'
            )
    return items


def check_class_count(num_classes: Any) -> int | None:
    """The number of classes as an int; None stays None."""
    return None if num_classes is None else whole_number_of("num_classes", num_classes, 1)


def known_class_count(num_classes: Any) -> int:
    """The required number of classes as an int."""
    count = check_class_count(num_classes)
    if count is None:
        raise AssertedInputError("Please specify the `num_classes` if the `pred` is labels instead of scores")
    return count


def shares(states: Mapping[str, np.ndarray], average: str | None) -> list[tuple[np.ndarray, ...]]:
    """Precision, recall and F1 in percent, and the support, of each threshold."""
    return [
        formulas.precision_recall_f1.bare(100 * hits, predicted, states["actual"], states["total"], average)
        for hits, predicted in zip(states["true_positive"], states["predicted"])
    ]


def named_shares(
    states: Mapping[str, np.ndarray], items: Sequence[str], average: str | None, endings: Sequence[str]
) -> dict[str, Any]:
    """The `shares` as MMPretrain names them; ``endings`` has one for each threshold."""
    of_average = {"macro": "", "micro": "_micro", None: "_classwise"}[average]
    return {
        item + ending + of_average: value.tolist()
        for ending, values in zip(endings, shares(states, average))
        for item, value in zip(ITEMS, values)
        if item in items
    }
