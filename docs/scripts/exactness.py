"""Split the samples of every case of the contract at random, and write the table of docs/metrics/exactness.md.

    python docs/scripts/exactness.py

The table says for which metrics the value of two to seven workers is that of one to the last bit, and how many digits
they have in common for the others. `tests/test_exactness.py` holds it for other samples and splits.
"""

from __future__ import annotations

import math
import sys

from _catalogue import DOCS, table, write_between

sys.path.insert(0, str(DOCS.parent))

from tests.exactness import NAMES, digits, may_be_exact

SEEDS = range(2)


def cell(name: str, weighted: bool) -> float:
    """What is promised: all bits (inf) where nothing is rounded; else one digit less than was met, 14 at most."""
    fewest = min(digits(name, weighted, seed) for seed in SEEDS)
    if may_be_exact(name, weighted):
        assert math.isinf(fewest), (name, weighted, fewest)
        return math.inf
    return min(14.0, math.floor(min(fewest, 15.0)) - 1)


def main() -> None:
    """Write the table."""
    texts = []
    for name in sorted(NAMES):
        promised = [cell(name, weighted) for weighted in (False, True)]
        shown = ["all bits" if math.isinf(each) else int(each) for each in promised]
        texts.append([name, *shown])
    for page in (DOCS / "metrics" / "exactness.md", DOCS / "zh" / "exactness.md"):
        write_between(page, "exactness", table(["case of the tests", "without weights", "with weights"], texts))


if __name__ == "__main__":
    main()
