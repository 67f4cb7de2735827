"""How many samples a call brings, and which records are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetmetrics.records.ledger import Ledger, counted, kept_records, samples_added, samples_processed

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize(
    ("arguments", "samples"),
    [
        (([1, 2], [3, 4]), 2),
        ((np.zeros([3, 5]), [1, 2, 3], "RGB", None, 0.5), 3),
        (([{}, {}],), 2),
        ((range(3),), 3),
        ((SimpleNamespace(shape=[3, 4]),), 3),  # as of a tensor
        ((np.zeros([2, 3]), np.float64(0.5)), 2),
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
        ({"inputs": [1, 2, 3]}, (np.zeros([4, 2]), np.zeros(4)), None),  # neither
        (None, [np.zeros([3, 4]), np.zeros([7, 4])], None),  # the boxes of each, perhaps
    ],
)
def test_of_mmengines_process_there_is_one_for_each_object(batch: Any, given: Any, samples: Any) -> None:
    assert samples_processed(batch, given) == samples
    assert samples_processed(batch, predictions=given) == samples


def test_where_a_subclass_renames_the_arguments_of_process_the_last_ones_are_the_samples() -> None:
    assert samples_processed(batch=[1, 2, 3], predictions=["a", "b"]) == 2


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


# -- a counted method ---------------------------------------------------------------------------------------------


class Keeping:
    """A metric that keeps a record of each sample, and hands the first sample of a batch to another metric."""

    def __init__(self, other: Keeping | None = None) -> None:
        self._ledger, self.kept, self.other = Ledger(), list[int](), other

    def _appended(self) -> list[int]:
        return self.kept

    def _add(self, samples: list[int]) -> None:
        if 13 in samples:
            raise ValueError("13")
        self.kept += samples
        if self.other is not None:
            self.other.add(samples[:1])

    add = counted(_add, samples_added)


class Doubling(Keeping):
    """Hands the batch on to its parent class, twice."""

    def _twice(self, samples: list[int]) -> None:
        super().add(samples)
        super().add(samples)

    add = counted(_twice, samples_added)


def test_each_call_is_counted_and_one_that_fails_is_not() -> None:
    metric = Keeping()
    metric.add([1, 2])
    with pytest.raises(ValueError, match="13"):
        metric.add([13])
    metric.add([3])
    assert metric._ledger.calls == [[2, 2], [1, 1]]


def test_what_a_method_hands_on_to_that_of_its_parent_class_is_one_call() -> None:
    metric = Doubling()
    metric.add([1, 2])
    assert metric._ledger.calls == [[2, 4]] and not metric._ledger.nested


def test_what_a_metric_hands_to_another_one_counts_as_the_batch_that_it_was_given() -> None:
    last = Keeping()
    middle = Keeping(last)
    Keeping(middle).add([1, 2, 3])
    for inner in (middle, last):
        assert (inner._ledger.calls, inner._ledger.nested) == ([[3, 1]], True)


def test_what_a_metric_hands_on_in_two_calls_for_one_batch_is_one_call() -> None:
    last = Keeping()
    middle = Keeping(last)
    middle.other = SimpleNamespace(add=lambda samples: [last.add(samples), last.add(samples)])  # type: ignore[assignment]
    middle.add([1, 2, 3])
    assert (last._ledger.calls, last._ledger.records) == ([[3, 2]], 2)


def test_after_its_records_were_cleared_from_outside_a_metric_is_counted_anew() -> None:
    metric = Keeping()
    metric.add([1, 2])
    metric.kept.clear()
    metric.add([3])
    assert metric._ledger.calls == [[1, 1]] and metric._ledger.note(1)["samples"] == 1
