"""What the tables of exactness promise of each metric, with other samples and splits than those they were made from."""

from __future__ import annotations

import math
import re
import runpy

import pytest

from tests.cover import thorough
from tests.exactness import NAMES, digits, may_be_exact
from tests.pages import DOCS, both

pytestmark = pytest.mark.numpy_only

ROW = re.compile(r"^\| ([^|]+) \| (all bits|\d+) \| (all bits|\d+) \|$", re.M)
ROWS = ROW.findall((DOCS / "project" / "evidence.md").read_text("utf-8"))


def test_every_case_has_a_row_and_every_exception_the_least_of_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [name for name, *_ in ROWS]
    differ = sorted({*rows} ^ {*NAMES})
    assert rows == sorted(NAMES), f"docs/project/evidence.md and tests/cases differ in {differ}; run `make exactness`"
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    exceptions = runpy.run_path(str(DOCS / "scripts" / "exactness.py"))["exceptions"]
    least = exceptions(
        {name: [math.inf if cell == "all bits" else int(cell) for cell in cells] for name, *cells in ROWS}
    )
    for page in both("explanation/exactness"):
        assert ROW.findall(page.read_text("utf-8")) == [tuple(row) for row in least], "run `make exactness`"


@pytest.mark.parametrize("splits", [1, *thorough(2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name, plain, with_weights", ROWS)
def test_a_value_depends_on_the_split_by_no_more_than_the_docs_say(
    name: str, plain: str, with_weights: str, weighted: bool, splits: int
) -> None:
    promised = with_weights if weighted else plain
    assert (promised == "all bits") == may_be_exact(name, weighted)
    assert digits(name, weighted, 1000, splits) >= (math.inf if promised == "all bits" else int(promised))
