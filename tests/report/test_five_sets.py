"""Five sets with one bad slice each: the page names it on its first line, and no other slice is called worse."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "scripts"))

import reports

from tests.cover import thorough

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize("name", ["two_models", "digits", "ranking", *thorough("rare", "three_percent", "diabetes")])
def test_the_planted_slice_is_on_the_first_line_and_no_other_is_called_worse(name: str) -> None:
    found: Any = reports.SETS[name]()
    by, key = reports.PLANTED[name]
    assert found.slices[by][0].key == key
    assert [each.key for each in found.slices[by] if each.verdict == "worse"] == [key]
    page = found.to_html(conditions=reports.CONDITIONS.get(name, ()))
    verdict, lead = re.findall('<h1 class="verdict[^"]*"><bdi>(.*?)</bdi>|<p class="lead"><bdi>(.*?)</bdi>', page)
    name_of = key if str(key).startswith(by) else f"{by} {key}"
    assert f"Worst in {name_of}: " in lead[1] and lead[1].endswith("% of the rows.")
    starts = {
        "two_models": "Release: all 2 conditions passed",
        "three_percent": "Do not release: AUC must be at least 0.9, and it is 0.",
        "diabetes": "The model p has mean_absolute_error ",
    }
    assert verdict[0].startswith(starts.get(name, "The model"))
    pictures = len(re.findall(r"<figure>", page))
    assert pictures == {"rare": 7, "three_percent": 7, "two_models": 7, "diabetes": 2, "digits": 1, "ranking": 1}[name]
