"""How many samples a call brings, and which records are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetmetrics.records.ledger import Ledger, kept_records, samples_added, samples_processed

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize(
    ("arguments", "samples"),
    [
        (([1, 2], [3, 4]), 2),
        ((np.zeros([3, 5]), [1, 2, 3], "RGB", None, 0.5), 3),
        (([{}, {}],), 2),
        (({"pred": [1, 2], "label": [1, 2]},), 2),
        (([1, 2], [1, 2, 3]), None),
        (("ab", 3), None),
        ((), None),
    ],
)
def test_of_mmevals_add_all_columns_are_equally_long(arguments: Any, samples: Any) -> None:
    assert samples_added(*arguments) == samples
    assert samples_added(**{f"column{n}": each for n, each in enumerate(arguments)}) == samples


@pytest.mark.parametrize(
    ("batch", "given", "samples"),
    [
        (None, [{}, {}, {}], 3),
        ([], [SimpleNamespace(), SimpleNamespace()], 2),
        (None, ["a", "b"], 2),
        (None, [], 0),
        (None, {"score": [1, 2, 3], "label": [1, 2, 3]}, 3),
        (None, np.zeros([4, 2]), 4),
        ((np.zeros([4, 8]), np.zeros(4)), (np.zeros([4, 2]), np.zeros(4)), 4),  # scores and labels
        ({"inputs": [1, 2], "data_samples": [3, 4]}, [np.zeros(9), np.zeros(9)], 2),  # the scores of each sample
        (None, [np.zeros(2), np.zeros(2)], 2),
        (None, (np.zeros([4, 2]), np.zeros(4)), None),  # either
        (None, [np.zeros([3, 4]), np.zeros([7, 4])], None),  # the boxes of each, perhaps
    ],
)
def test_of_mmengines_process_there_is_one_for_each_object(batch: Any, given: Any, samples: Any) -> None:
    assert samples_processed(batch, given) == samples
    assert samples_processed(batch, predictions=given) == samples


def test_records_of_batches_that_hold_nothing_but_padding_are_dropped() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        runs = np.column_stack([rng.integers(0, 4, [5, 2]), rng.integers(1, 3, 5)])
        total = int(runs[:, 0] @ runs[:, 2])
        keep, places = rng.random(total) < 0.7, rng.permutation(total)
        expected_flags, expected_places, doubled, start = [], [], 0, 0
        for samples, records in np.repeat(runs[:, :2], runs[:, 2], axis=0).tolist():
            own, where = keep[start : start + samples], places[start : start + samples]
            start += samples
            if samples == records:
                expected_flags += own.tolist()
                expected_places += where[own].tolist()
                continue
            stays = bool(own.any()) or not samples
            expected_flags += [stays] * records
            if samples and stays:
                expected_places += [where[own][0]] * records
                doubled += int((~own).sum()) * (records > 0)
            elif stays:  # records without samples: before the next that counts
                later = places[start:][keep[start:]]
                expected_places += [later[0] if later.size else 0] * records
        flags, found, twice = kept_records(runs, keep, places)
        assert (flags.tolist(), found.tolist(), twice) == (expected_flags, expected_places, doubled)


def test_a_ledger_does_not_know_records_that_it_has_not_counted() -> None:
    ledger = Ledger()
    assert ledger.note(3) == {"samples": 3, "calls": [], "nested": False}
    for records in (2, 2, 1):
        ledger.enter([2], records, nested=False)
    assert ledger.note(5) == {"samples": 6, "calls": [[2, 2, 2], [2, 1, 1]], "nested": False}
    assert ledger.note(6)["calls"] == []
    ledger.cut(2)
    assert ledger.note(4) == {"samples": 4, "calls": [], "nested": False}
    ledger.enter([None], 1, nested=True)
    assert ledger.note(5) == {"samples": None, "calls": [], "nested": True}


def test_a_ledger_that_was_cut_goes_on_with_the_batch_under_way() -> None:
    ledger, batch = Ledger(), [3]
    ledger.enter(batch, 3, nested=False)
    ledger.cut(0)
    ledger.enter(batch, 2, nested=False)
    assert (ledger.calls, ledger.records) == ([[3, 2]], 2)


def test_one_call_by_another_metric_is_remembered_after_calls_of_its_own() -> None:
    ledger = Ledger()
    ledger.enter([1], 1, nested=True)
    ledger.enter([1], 1, nested=False)
    assert ledger.note(2) == {"samples": 2, "calls": [], "nested": True}


@pytest.mark.parametrize("records", [1, 3])
def test_calls_with_more_or_fewer_records_than_samples_are_told(records: int) -> None:
    ledger = Ledger()
    for batch in ([2], [2]):
        ledger.enter(batch, records, nested=False)
    assert ledger.note(2 * records) == {"samples": 4, "calls": [[2, records, 2]], "nested": False}
