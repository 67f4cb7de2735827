"""Evaluate tiny data at random, with any metric and any options, and count the outcomes.

    python docs/scripts/tiny.py
    python docs/scripts/tiny.py 5000 1

The arguments are the number of evaluations, and the first seed. `tests/evaluation/test_tiny.py` makes some of them. An
error that names what is wrong, such as ids that the sides do not share, is an answer; any other error is not, nor is a
result that contradicts itself.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from _catalogue import DOCS

sys.path.insert(0, str(DOCS.parent))

from tests import tiny

#: One evaluation in twenty also makes its report.
REPORTS = 20


def main(number: int = 2000, first: int = 0) -> None:
    """Print the outcomes, and the seeds of those that are wrong."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + number):
            kind, text = tiny.outcome(tiny.drawn(seed), Path(folder), report=seed % REPORTS == 0)
            found[kind] += 1
            if kind in ("raw", "false"):
                print(f"seed {seed}: {kind}: {text}", flush=True)
    words = {"result": "results", "named": "named errors", "raw": "other errors", "false": "false results"}
    print(f"{number:,} evaluations: " + ", ".join(f"{found[kind]:,} {what}" for kind, what in words.items()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
