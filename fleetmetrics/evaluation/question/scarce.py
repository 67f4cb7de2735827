"""What there is too little of for an interval or a verdict: how much it needs, and why so much.

Formulas count the rows, users or positives that have a part in a value, and users by groups of them. A need says how
many of all there must be, as the result counts them; so it is never below what there is.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from fleetmetrics.formulas.spreads import LEAST, Largest, Spread

__all__ = ["Scarce", "at_least", "because_of", "because_of_uneven", "counts_of", "in_full", "needs_of", "scarce_of"]


class Scarce(NamedTuple):
    """The numbers needed of what there is too little, and the reason for more than usual.

    Args:
        needs: by name, such as "users"; empty if there is enough.
        because: if a user or query has much of the data, ``unit`` with its name, and either ``share``, the part that
            one of them has of what ``of`` names, or ``like``, the number of equal ones that would vary as much.
    """

    needs: dict[str, int]
    because: dict[str, Any]


def counts_of(rows: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """The numbers of rows, positives, negatives, users or queries that there are, if known.

    Args:
        rows: the number of rows that count.
        sizes: the other numbers.
    """
    counts = {"rows": rows, **sizes}
    return {**counts, "negatives": rows - sizes["positives"]} if "positives" in sizes else counts


def in_full(need: float, number: float, total: float | None) -> int:
    """How many of all are needed, if those that have a part in the value become more at the same rate.

    Args:
        need: how many of those that have a part in it are needed.
        number: how many of these there are.
        total: how many there are in all; None: unknown.
    """
    if total is None:
        return math.ceil(need)
    if number > 0:
        need *= max(1.0, total / number)
    return max(math.ceil(need), math.floor(total) + 1)


def needs_of(spreads: Iterable[tuple[Spread, Mapping[str, float]]], unit: str) -> dict[str, int]:
    """The numbers needed of what there is too little.

    Args:
        spreads: each with what there is, as `counts_of` has it; inf: there are more than the groups show, and the
            need is one of rows.
        unit: what independent samples, or groups of them, are called.
    """
    needs: dict[str, int] = {}
    spreads = list(spreads)
    in_rows = any(counts.get(unit) == math.inf and "rows" in counts for _, counts in spreads)
    for spread, counts in spreads:
        for name, (number, need) in spread.short.items():
            name = unit if name in ("users", "samples") else name
            name = "rows" if name == unit and in_rows else name
            needs[name] = max(in_full(need, number, counts.get(name)), needs.get(name, 0))
    return needs


def scarce_of(
    spreads: Iterable[tuple[Spread, Mapping[str, float]]], largest: Iterable[Largest | None], unit: str
) -> Scarce:
    """The same with the reason.

    Args:
        spreads: as for `needs_of`.
        largest: the largest user or query of each side.
        unit: as for `needs_of`.
    """
    needs = needs_of(spreads, unit)
    return Scarce(needs, because_of(largest, unit) if needs else {})


def at_least(unit: str, counts: Sequence[Mapping[str, float]]) -> Scarce:
    """What is needed at least, if a variance is unknown.

    Args:
        unit: what independent samples, or groups of them, are called.
        counts: what there is of each side, as `counts_of` has it.
    """
    unit = "rows" if any(count.get(unit) == math.inf for count in counts) else unit
    return Scarce({unit: max(in_full(LEAST, 0.0, count.get(unit)) for count in counts)}, {})


def because_of(largest: Iterable[Largest | None], unit: str) -> dict[str, Any]:
    """`Scarce.because` of the largest user or query, the larger one of two sides; empty if none is large.

    Args:
        largest: of each side.
        unit: what they are: rows are no reason.
    """
    known = [user for user in largest if user is not None]
    if unit == "rows" or not known:
        return {}
    return {"unit": unit, **max(known)._asdict()}


def because_of_uneven(like: float, number: float | None, unit: str) -> dict[str, Any]:
    """The same of users or queries that vary like few equal ones; empty if they are not few.

    Args:
        like: the number of these.
        number: of all of them; None: unknown.
        unit: as for `because_of`.
    """
    few = like < LEAST and (number is None or number >= 2 * like)
    return {"unit": unit, "like": max(round(like), 1)} if few and unit != "rows" else {}
