"""The script that compares every metric with other libraries runs for any number of seeds in the same memory."""

from __future__ import annotations

import gc
import re
import runpy
import tracemalloc
from typing import Any, Callable

import numpy as np
import pytest

from tests.cases.ranking import all_orders, dcg, mean_over_queries
from tests.contract import CASES, draw, expected, first_dtypes
from tests.cover import thorough
from tests.test_docs import ROOT

pytestmark = pytest.mark.numpy_only

#: Keys, and texts as keys of records; moments, histograms, records by user, all records, windows, replicates.
KINDS = ["sliced auc", "dcg at 3 of texts", *thorough("pearson correlation", "auc", "gauc", "exact auc")]
KINDS += thorough("windowed mean squared error", "bootstrap accuracy")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """What the script defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "scripts"))
        return runpy.run_path(str(ROOT / "docs/scripts/comparisons.py"))


@pytest.fixture
def values_of(script: dict[str, Any]) -> Callable[..., list[object]]:
    """The function of the script that computes what it compares."""
    found: Callable[..., list[object]] = script["values_of"]
    return found


def test_the_page_has_no_more_comparisons_than_the_script_makes(script: dict[str, Any]) -> None:
    """Those of a metric that came after the last run of all are not claimed."""
    (compared,) = re.findall(r"\| ([\d,]+) comparisons \|", (ROOT / "docs/project/tested.md").read_text("utf-8"))
    number = sum(2 * len(list(script["combinations"](name, 1))) for name in CASES)
    assert 0.5 * number < int(compared.replace(",", "")) <= number


def grown(work: Callable[[], object]) -> int:
    """The bytes that a later round holds more than the one before: the fewest of three, as caches fill up."""
    work()
    return min(_kept_by(work) for _ in range(3))


def _kept_by(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.thorough
def test_another_round_of_seeds_takes_no_more_memory(name: str, values_of: Callable[..., list[object]]) -> None:
    def compare() -> None:
        data = draw(name, first_dtypes(name), "real", True)
        values_of(name, data, np.random.default_rng(7)), expected(name, data)

    assert grown(compare) < 60_000


def test_many_tied_answers_take_no_memory_to_judge() -> None:
    """A query with a dozen of them has half a billion orders."""
    relevance = np.arange(12) % 4 == 0
    judge = mean_over_queries(lambda order: dcg(order, 3))
    tracemalloc.start()
    try:
        value = judge(np.zeros(12), relevance, None, query=np.zeros(12))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    assert value == pytest.approx(3 / 12 * (1 + 1 / np.log2(3) + 1 / 2))
    assert len(list(all_orders(np.zeros(12), relevance))) == 220
