"""What docs/metrics/exactness.md promises of each metric, with other samples and splits than those it was made from."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from tests.exactness import NAMES, digits, may_be_exact

pytestmark = pytest.mark.numpy_only

PAGES = [Path(__file__).parent.parent / "docs" / page / "exactness.md" for page in ("metrics", "zh")]
ROWS = re.findall(r"^\| ([^|]+) \| (all bits|\d+) \| (all bits|\d+) \|$", PAGES[0].read_text("utf-8"), re.M)


def test_every_case_has_a_row_and_both_languages_have_the_same() -> None:
    assert [name for name, *_ in ROWS] == sorted(NAMES)
    tables = [re.findall(r"^\|.*$", page.read_text("utf-8"), re.M) for page in PAGES]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name, plain, with_weights", ROWS)
def test_a_value_depends_on_the_split_by_no_more_than_the_docs_say(
    name: str, plain: str, with_weights: str, weighted: bool
) -> None:
    promised = with_weights if weighted else plain
    assert (promised == "all bits") == may_be_exact(name, weighted)
    assert digits(name, weighted, 1000, splits=2) >= (math.inf if promised == "all bits" else int(promised))
