"""Partial results: parts of the data give what one pass over all of it gives, in any order and any tree."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import InvalidInputError

pytestmark = pytest.mark.numpy_only


def test_no_parts_are_refused():
    with pytest.raises(InvalidInputError, match="parts is empty"):
        fm.merge_all([])
    with pytest.raises(InvalidInputError, match="parts must hold metrics or collections, not int"):
        fm.merge_all([3])


def test_what_is_merged_is_new_and_the_parts_stay_as_they_are():
    parts = [fm.Sum(name="mine"), fm.Sum(), fm.Sum()]
    for part, value in zip(parts, (1.0, 2.0, 4.0)):
        part.add([value])
    merged = fm.merge_all(iter(parts))
    merged.add([8.0])
    assert (merged.name, merged.compute()) == ("mine", 15.0)
    assert [part.compute() for part in parts] == [1.0, 2.0, 4.0]


def test_parts_of_other_settings_are_refused():
    with pytest.raises(InvalidInputError, match="by"):
        fm.merge_all([fm.Sliced(fm.AUC()), fm.Sliced(fm.AUC(), by="day")])


def test_sums_of_many_parts_are_rounded_once():
    parts = []
    for value in np.random.default_rng(0).normal(size=16):
        parts.append(fm.MetricCollection({"sum": fm.Sum(), "count": fm.Count()}))
        parts[-1].add([value])
    orders = [np.random.default_rng(seed).permutation(16) for seed in range(30)]
    assert len({fm.merge_all([parts[place] for place in order]).compute()["sum"] for order in orders}) == 1
