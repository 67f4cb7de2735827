"""Sums and extremes: exact integers of any size, an error where int64 would wrap."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, new_programs

LOW, HIGH = -(2**63), 2**63 - 1


def value(metric: fm.Metric, batches: list, mode: str, mask: list | None = None) -> float:
    masks = [None if mask is None else np.array(mask)] * len(batches)
    parts = [Data(np.array(batch), None, None, m) for batch, m in zip(batches, masks)]
    return metric.compute(feed(metric, parts, mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "batches",
    [[[2**24, 1]], [[2**24], [1]], [[2**53, 1], [2, 2**53]], [[HIGH - 5, 2], [3, 0]], [[LOW + 9, -4], [-3, -2]]],
)
def test_integers_are_summed_as_integers(batches, mode):
    total = value(fm.Sum(), batches, mode)
    assert total == sum(sum(batch) for batch in batches) and type(total) is int


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "batches", [[[HIGH, 1]], [[HIGH], [1]], [[LOW], [-1]], [[2**62] * 4], [[2**62] * 2, [2**62] * 2], [[LOW], [LOW]]]
)
def test_an_overflow_is_an_error_and_never_a_wrap(batches, mode):
    with pytest.raises(fm.IntegerOverflowError, match="2\\*\\*63"):
        value(fm.Sum(), batches, mode)


def test_an_overflow_in_add_loses_nothing():
    metric = fm.Sum()
    metric.add([HIGH - 1])
    with pytest.raises(fm.IntegerOverflowError):
        metric.add([7])
    assert metric.compute() == HIGH - 1


def test_an_overflow_between_merged_workers_is_an_error_and_loses_nothing():
    mine, theirs = fm.Sum(), fm.Sum()
    mine.add([HIGH])
    theirs.add([1])
    with pytest.raises(fm.IntegerOverflowError):
        mine.merge(theirs)
    assert (mine.compute(), theirs.compute()) == (HIGH, 1)


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_integers_and_floats_add_up_in_one_metric(mode):
    metric = fm.Sum()
    feed(metric, [Data(np.array([2**53, 1]), None)], mode)
    assert metric.compute() == 2**53 + 1
    feed(metric, [Data(np.array([0.5], "float32"), None)], mode)
    assert metric.compute() == pytest.approx(2**53 + 1.5, rel=1e-15)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("numbers", [[LOW], [HIGH], [LOW, HIGH], [LOW + 1, LOW + 2], [HIGH - 1, HIGH - 2], [2**53 + 1]])
def test_extremes_of_integers_are_exact(numbers, mode):
    for metric, function in ((fm.Max(), max), (fm.Min(), min)):
        extreme = value(metric, [numbers, numbers], mode)
        assert extreme == function(numbers) and type(extreme) is int


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("numbers", [[LOW + 3, 0, LOW + 2], [HIGH - 3, 0, HIGH - 2], [-1, -9, -2], [5, -9, 7]])
def test_a_mask_does_not_show_in_extremes_of_integers(numbers, mode):
    kept = [numbers[0], numbers[2]]
    assert value(fm.Max(), [numbers], mode, [True, False, True]) == max(kept)
    assert value(fm.Min(), [numbers], mode, [True, False, True]) == min(kept)


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_extremes_compare_integers_and_floats_exactly(mode):
    largest, smallest = fm.Max(), fm.Min()
    for metric, integer in ((largest, 2**53 + 1), (smallest, -(2**53) - 1)):
        feed(metric, [Data(np.array([integer]), None), Data(np.array([float(integer)]), None)], mode)
        assert metric.compute() == integer
    assert type(largest.compute()) is type(smallest.compute()) is int


@pytest.mark.parametrize("mode", MODES)
def test_extremes_of_several_scores_of_a_sample(mode):
    scores, label = np.array([[0.1, 0.9], [0.5, 0.2], [0.4, 0.8]]), np.array([0, 1, 1])
    members = {"high": fm.Max(), "low": fm.Min(), "accuracy": fm.Accuracy()}
    metric = fm.MetricCollection(members)
    found = metric.compute(feed(metric, [Data(scores, label, None, np.array([False, True, True]))], mode))
    assert (found["high"], found["low"]) == (0.8, 0.2)
    drawn, accuracy = fm.Bootstrap(fm.Min(), 3, ids="slot", seed=2), fm.Accuracy()
    metric = fm.MetricCollection({"high": fm.Sliced(fm.Max(), "slot"), "low": drawn, "accuracy": accuracy})
    metric.add(scores, label, slot=[7, 8, 7])
    found = metric.compute()
    assert found["high"] == {7: 0.9, 8: 0.5} and found["low"].value == 0.1


@pytest.mark.parametrize("mode", MODES)
def test_count_without_labels_and_with_scores(mode):
    assert value(fm.Count(), [[0.5, 0.25, 0.75], [0.5]], mode) == 4
    metric = fm.Count()
    scope = feed(metric, [Data(np.ones([7, 3]), np.zeros([7, 1], np.int64))], mode)
    assert metric.compute(scope) == 7


def test_a_uint64_that_int64_cannot_hold_is_an_error():
    with pytest.raises(
        fm.IntegerOverflowError, match=r"value holds 18446744073709551615; the largest integer .* 2\*\*63 - 1"
    ):
        fm.Sum().add(np.array([2**64 - 1], np.uint64))


# -- throughput --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_seconds_of_a_worker_add_up_and_of_several_the_longest_counts(mode):
    workers = [fm.Throughput() for _ in range(3)]
    for worker, seconds in zip(workers, ([0.5, 1.0], [2.0, 0.25], [])):
        for each in seconds:
            number, each = (np.array(64), np.array(each))
            if mode == "dynamic":
                import paddle

                number, each = paddle.to_tensor(number), paddle.to_tensor(each)
            worker.add(number, each)
    assert workers[0].compute() == 128 / 1.5
    total = fm.Throughput()
    for worker in workers:
        total.merge(worker)
    assert total.compute() == 256 / 2.25
    total.reset()
    total.add([10, 20, 99], seconds=[1.0, 2.0, 3.0], mask=[True, True, False])
    assert total.compute() == 10.0


def test_throughput_without_time_is_undefined():
    with pytest.warns(fm.UndefinedMetricWarning, match="throughput is undefined: no time has passed"):
        assert np.isnan(fm.Throughput().compute())


@pytest.mark.parametrize(
    "number, seconds, text",
    [
        (-1, 1.0, "number must be a finite number of at least 0, the number of samples; 1 of 1"),
        (np.nan, 1.0, "number must be a finite number of at least 0, the number of samples; 1 of 1"),
        (64, 0.0, "seconds must be a finite number above 0, the seconds; 1 of 1"),
        (64, np.inf, "seconds must be a finite number above 0, the seconds; 1 of 1"),
    ],
)
def test_throughput_refuses_what_is_no_number_of_samples_in_some_time(number, seconds, text):
    with pytest.raises(fm.InvalidInputError, match=text):
        fm.Throughput().add(number, seconds)


def test_throughput_in_a_static_program_says_what_to_do():
    import paddle

    with new_programs(), pytest.raises(fm.StaticProgramError, match="measure it around"):
        fm.Throughput().add(paddle.static.data("n", [1]), 0.5)
