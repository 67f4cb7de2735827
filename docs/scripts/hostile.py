"""Call every public function that has an example with nonsense, one argument at a time, and count the outcomes.

    python docs/scripts/hostile.py

`tests/test_hostile_calls.py` makes the same calls. Among what is accepted are values that mean something: a flag for a
flag, 2 for a number of answers, a list of one number for a number.
"""

from __future__ import annotations

import sys
from collections import Counter

from _catalogue import DOCS

sys.path.insert(0, str(DOCS.parent))

from tests import hostile


def main() -> None:
    found: Counter[str] = Counter()
    functions = 0
    for module in hostile.MODULES:
        functions += len(list(hostile.functions(module)))
        of_module = Counter(hostile.outcome(call)[0] for call in hostile.calls(module))
        found.update(of_module)
        print(line(module, of_module))
    print(line("all", found), f"({functions} functions, {len(hostile.OBJECTS)} objects)")


def line(name: str, found: Counter[str]) -> str:
    kinds = (("named", "errors that name the argument"), ("accepted", "accepted"), ("raw", "other errors"))
    return f"{name}: {sum(found.values()):,} calls: " + ", ".join(f"{found[kind]:,} {words}" for kind, words in kinds)


if __name__ == "__main__":
    main()
