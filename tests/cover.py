"""Which combinations of a test's arguments `make test` leaves to `make test-all`.

A test has lists of arguments: those of each `parametrize` and of each fixture with parameters. `make test` runs every
entry of every list at least once; `make test-all` runs every combination. A test that is marked `product` has a table
that is itself a product: each of its arguments is such a list. Of a test that is marked `halved` each version of Paddle
runs about half of the longest list, and the other version the rest. A test that is marked `kinds` checks what the base
classes of the metrics do: `make test` runs it for one case of each kind.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec

import pytest

#: A list of arguments, and one of its entries.
Entry = tuple[str, Hashable]


def of_the_other(items: Sequence[pytest.Item], older: bool) -> list[pytest.Item]:
    """Return the halved tests that the other version of Paddle runs: which one does is in the name of an entry."""
    return [
        item
        for combinations in _by_test(items).values()
        if combinations[0].get_closest_marker("halved")
        for item, entry in zip(combinations, _longest(_entries(combinations)))
        if zlib.crc32(_name(item, entry).encode()) % 2 != older and not item.get_closest_marker("numpy_only")
    ]


def _name(item: pytest.Item, entry: Entry) -> str:
    """An entry's name, the same in every process and with every version of NumPy."""
    params = item.callspec.params  # type: ignore[attr-defined]
    return re.sub(" at 0x[0-9a-f]+", "", ", ".join(str(params[name]) for name in entry[0].split(",")))


def of_a_kind_seen(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests marked `kinds` of the cases that another case stands for."""
    marked = [item for item in items if item.get_closest_marker("kinds")]
    if not marked:
        return []
    from tests.kinds import one_of_each

    return [item for item in marked if item.callspec.params["name"] not in one_of_each()]  # type: ignore[attr-defined]


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that are not needed to run every entry of every list."""
    return [item for combinations in _by_test(items).values() for item in _beyond(combinations)]


def _by_test(items: Sequence[pytest.Item]) -> dict[str, list[pytest.Item]]:
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return tests


def _longest(entries: Sequence[Sequence[Entry]]) -> Sequence[Entry]:
    """The list with most entries: which of them each combination has."""
    return max(zip(*entries), key=lambda column: len(set(column)))


def _beyond(combinations: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The combinations of one test without those that have an entry first; each entry is used about equally often."""
    entries = _entries(combinations)
    longest = _longest(entries)
    used: Counter[Entry] = Counter()
    kept: set[int] = set()
    for rows in _by(longest).values():
        row = min(rows, key=lambda row: sum(used[entry] for entry in entries[row]))
        kept.add(row)
        used.update(entries[row])
    for row, item in enumerate(combinations):
        if row not in kept and not all(used[entry] for entry in entries[row]):
            used.update(entries[row])
        elif row not in kept:
            yield item


def _by(column: Sequence[Entry]) -> dict[Entry, list[int]]:
    rows: dict[Entry, list[int]] = {}
    for row, entry in enumerate(column):
        rows.setdefault(entry, []).append(row)
    return rows


def _entries(combinations: Sequence[pytest.Item]) -> list[list[Entry]]:
    """The entry that each combination of one test has of each of the test's lists."""
    lists = [(",".join(names), names) for names in _lists(combinations[0])]
    rows = [item.callspec.params for item in combinations]  # type: ignore[attr-defined]
    return [[(joined, tuple(_key(params[name]) for name in names)) for joined, names in lists] for params in rows]


def _lists(item: pytest.Item) -> list[list[str]]:
    """The names of the arguments that each of a test's lists has."""
    params = item.callspec.params  # type: ignore[attr-defined]
    split = item.get_closest_marker("product") is not None
    lists, seen = [], set()
    for mark in item.iter_markers("parametrize"):
        names = mark.kwargs.get("argnames", mark.args[0] if mark.args else ())
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        names = [name for name in names if name in params]
        seen.update(names)
        lists += [[name] for name in names] if split else [names]
    return lists + [[name] for name in params if name not in seen]


def _key(value: object) -> Hashable:
    """What tells values apart: 1 is not True, and what cannot be hashed is itself alone."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def thorough(*values: object) -> list[object]:
    """Values of one argument that `make test` leaves to `make test-all`: `[3, *thorough(1, 2, 4)]`."""
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]


def quick_on(paddle: int) -> pytest.MarkDecorator:
    """Mark a test that starts jobs for seconds: `make test` runs it on this Paddle, `make test-all` on both.

    Args:
        paddle: the major version; without Paddle the test is quick.
    """
    others = find_spec("paddle") is not None and int(version("paddlepaddle").partition(".")[0]) != paddle
    return pytest.mark.thorough if others else pytest.mark.quick
