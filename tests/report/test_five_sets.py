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
    fewer = {"replicates": 100} if name == "rare" else {}  # 1,000 take half a minute, and nothing below depends on them
    found: Any = reports.SETS[name](**fewer)
    by, key = reports.PLANTED[name]
    assert found.slices[by][0].key == key
    assert [each.key for each in found.slices[by] if each.verdict == "worse"] == [key]
    page = found.to_html(conditions=reports.CONDITIONS.get(name, ()))
    lead = re.findall('<p class="lead"><bdi>(.*?)</bdi>', page)[0]
    assert f"worst in {by} {key}: " in lead
    starts = {"two_models": "Better than the baseline: auc +0.0", "diabetes": "The model p has mean_absolute_error "}
    assert lead.startswith(starts.get(name, "The model"))
    ends = {
        "two_models": "ready for release: none of 2 conditions holds.",
        "three_percent": "do not release: auc&lt;0.9.",
    }
    assert lead.endswith(ends.get(name, "% of the rows."))
    pictures = len(re.findall("<figure>", page))
    assert pictures == {"rare": 7, "three_percent": 7, "two_models": 7, "diabetes": 2, "digits": 1, "ranking": 1}[name]
