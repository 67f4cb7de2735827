"""Cases of the contract that stand for the others: one of each kind of metric.

A test with `@pytest.mark.kinds` checks what the base classes of the metrics do. `make test` runs it for one case of
each kind, and `make test-all` for all cases. A metric with a mechanism of its own is of a kind of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from tests.contract import CASES


@functools.lru_cache(maxsize=None)
def one_of_each() -> frozenset[str]:
    """The names of the first case of each kind, those of all shapes and dtypes before the brief ones."""
    firsts: dict[Hashable, str] = {}
    for name, case in sorted(CASES.items(), key=lambda item: item[1].brief):
        firsts.setdefault(kind(case.make()), name)
    return frozenset(firsts.values())


def kind(metric: Any) -> Hashable:
    """Its base classes, which of their methods its own classes replace, its inputs, its states, and its parts."""
    classes = [each for each in type(metric).__mro__ if each.__module__.startswith("fleetmetrics.")]
    own = [each for each in classes if each.__module__.startswith("fleetmetrics.metrics.")]
    bases = tuple(each for each in classes if each not in own)
    of_bases = {name for each in bases for name in vars(each)}
    return (
        bases,
        frozenset(name for each in own for name in vars(each) if name in of_bases and not name.startswith("__")),
        metric.samples,
        frozenset((type(state), state.declared_dtype, state.reduction) for state in metric.states.values()),
        tuple(kind(part) for part in vars(metric).values() if hasattr(part, "batch_statistics")),
    )


def kinds_of(names: Sequence[str]) -> list[Any]:
    """Lists of cases for `parametrize`: one of each kind, and for `make test-all` all of them."""
    few = [name for name in names if name in one_of_each()]
    return [pytest.param(few, id="one of each kind"), pytest.param(names, id="all", marks=pytest.mark.thorough)]
