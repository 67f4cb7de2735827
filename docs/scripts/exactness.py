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

from tests.contract import CASES
from tests.exactness import NAMES, digits

SEEDS = range(3)


def cell(name: str, weighted: bool) -> float:
    """The digits that are promised: one less than the fewest that were met, 14 at most."""
    fewest = min(digits(name, weighted, seed) for seed in SEEDS)
    return fewest if math.isinf(fewest) else min(14, math.floor(fewest) - 1)


def main() -> None:
    """Write the table."""
    rows = [(name, cell(name, False), cell(name, True)) for name in sorted(NAMES)]
    texts = [[name, type(CASES[name].make()).__name__, *("all bits" if math.isinf(each) else int(each) for each in found)]
             for name, *found in rows]  # fmt: skip
    for page in (DOCS / "metrics" / "exactness.md", DOCS / "zh" / "exactness.md"):
        write_between(page, "exactness", table(["case", "metric", "without weights", "with weights"], texts))


if __name__ == "__main__":
    main()
