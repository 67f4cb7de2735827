"""Split the samples of cases of the contract at random, and write the tables of exactness.

    python docs/scripts/exactness.py          # the cases that have no row
    python docs/scripts/exactness.py --all    # all of them again

The table says for which metrics the value of two to seven workers is that of one to the last bit, and how many digits
they have in common for the others. `tests/test_exactness.py` holds it for other samples and splits.
"""

from __future__ import annotations

import argparse
import math
import re
import sys

from _catalogue import DOCS, between, table, write_between

sys.path.insert(0, str(DOCS.parent))

from tests.contract import CASES
from tests.exactness import NAMES, digits, may_be_exact

SEEDS = range(2)
#: The page of the table of cases.
CASES_PAGE = DOCS / "project" / "evidence.md"
ROW = re.compile(r"^\| ([^|]+) \| (all bits|\d+) \| (all bits|\d+) \|$", re.MULTILINE)
#: The pages of the table of the metrics that promise less than others, with its head.
HEADERS = {
    "exactness.md": ["metric", "without weights", "with weights"],
    "exactness.zh.md": ["指标", "不带权重", "带权重"],
}


def cell(name: str, weighted: bool) -> float:
    """What is promised: all bits (inf) where nothing is rounded; else one digit less than was met, 14 at most."""
    fewest = min(digits(name, weighted, seed) for seed in SEEDS)
    if may_be_exact(name, weighted):
        assert math.isinf(fewest), (name, weighted, fewest)
        return math.inf
    return min(14.0, math.floor(min(fewest, 15.0)) - 1)


def shown(digits: float) -> str:
    """A cell's text."""
    return "all bits" if math.isinf(digits) else str(int(digits))


def by_metric(cases: dict[str, list[float]]) -> list[list[str]]:
    """A row for each metric: the least of its cases."""
    least: dict[str, list[float]] = {}
    for name, cells in cases.items():
        kind = type(CASES[name].make()).__name__
        least[kind] = [min(pair) for pair in zip(cells, least.get(kind, cells))]
    return [[f"`{kind}`", *map(shown, cells)] for kind, cells in sorted(least.items())]


def exceptions(cases: dict[str, list[float]]) -> list[list[str]]:
    """The rows of the metrics that promise fewer than 14 digits."""
    return [row for row in by_metric(cases) if not {*row[1:]} <= {"all bits", "14"}]


def known() -> dict[str, list[float]]:
    """The rows of the table of cases."""
    rows = ROW.findall(between(CASES_PAGE.read_text(encoding="utf-8"), "exactness"))
    return {name: [math.inf if cell == "all bits" else int(cell) for cell in cells] for name, *cells in rows}


def main() -> None:
    """Write the tables: of every case among the evidence, of the exceptions where they are explained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="measure all cases, not only those without a row")
    before = {} if parser.parse_args().all else known()
    cases = {name: before.get(name) or [cell(name, weighted) for weighted in (False, True)] for name in sorted(NAMES)}
    rows = [[name, *map(shown, cells)] for name, cells in cases.items()]
    write_between(CASES_PAGE, "exactness", table(["case of the tests", "without weights", "with weights"], rows))
    for page, header in HEADERS.items():
        write_between(DOCS / "explanation" / page, "exactness", table(header, exceptions(cases)))


if __name__ == "__main__":
    main()
