"""Feed every door of the package with what people really feed in, and with nonsense, and count the outcomes.

    python docs/scripts/hostile.py

First every public function that has an example gets nonsense, one argument at a time; `tests/test_hostile_calls.py`
makes the same calls. Among what is accepted are values that mean something: a flag for a flag, 2 for a number of
answers, a list of one number for a number. Then every metric, frame, file, command and saved state gets data in other
forms, and nonsense; `tests/test_doors.py` makes a share of these calls. The status is 1 after an error
of another library, or a value that is wrong.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _catalogue import DOCS

sys.path.insert(0, str(DOCS.parent))

import fleetmetrics
from tests import doors, hostile

#: The outcomes of a call through a door, in words.
KINDS = {"right": "right", "named": "named errors", "accepted": "accepted", "wrong": "wrong", "raw": "other errors"}


def main() -> int:
    found: Counter[str] = Counter()
    functions = 0
    for module in hostile.MODULES:
        functions += len(list(hostile.functions(module)))
        of_module = Counter(hostile.outcome(call)[0] for call in hostile.calls(module))
        found.update(of_module)
        print(line(module, of_module))
    print(line("all", found), f"({functions} functions, {len(hostile.OBJECTS)} objects)")
    return found["raw"] + through_doors()


def through_doors() -> int:
    """Print the outcomes by door, and what went wrong; return how many calls that is."""
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(fleetmetrics.set_communicator(fleetmetrics.LocalCommunicator()))
        stack.callback(os.chdir, os.getcwd())
        os.chdir(folder)
        for call in doors.calls(Path(folder)):
            kind, text = doors.outcome(call)
            found.setdefault(call.door, Counter())[kind] += 1
            if kind in ("wrong", "raw"):
                print(f"{kind}: {call.door}: {call.text}: {text}")
    total = sum(found.values(), Counter())
    print(f"{'door':10s}{'calls':>8s}" + "".join(f"{words:>14s}" for words in KINDS.values()))
    for door, counts in {**found, "all": total}.items():
        print(f"{door:10s}{sum(counts.values()):8,}" + "".join(f"{counts[kind]:14,}" for kind in KINDS))
    return total["wrong"] + total["raw"]


def line(name: str, found: Counter[str]) -> str:
    kinds = (("named", "errors that name the argument"), ("accepted", "accepted"), ("raw", "other errors"))
    return f"{name}: {sum(found.values()):,} calls: " + ", ".join(f"{found[kind]:,} {words}" for kind, words in kinds)


if __name__ == "__main__":
    sys.exit(min(1, main()))
