"""``size=``: samples that do not add up to the data set's size are a warning, on every worker."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from tests.fakes import Together, together
from tests.samplers.test_sampler import order_of, paddles

pytestmark = pytest.mark.numpy_only
SAMPLES = 53
P, Y = np.random.default_rng(0).random(SAMPLES), np.random.default_rng(1).integers(0, 2, SAMPLES)

MAKE: dict[str, Any] = {
    "metric": lambda **more: fm.Accuracy(name="it", **more),
    "of all samples": lambda **more: fm.ExactAUC(name="it", **more),
    "collection": lambda **more: fm.MetricCollection({"n": fm.Count(), "f": fm.Mean() * 2}, name="it", **more),
    "sliced": lambda **more: fm.Sliced(fm.Accuracy(), by="user", name="it", **more),
    "given inside": lambda **more: fm.Sliced(fm.Accuracy(**more), by="user", name="it"),
    "window": lambda **more: fm.Windowed(fm.Accuracy(), last=1, name="it", **more),
}


def told(work: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        work()
    return [str(each.message) for each in said if each.category is fm.SizeWarning]


def add(metric: Any, order: Any, **more: Any) -> None:
    user = {"user": order % 3} if "user" in metric.columns else {}
    label = () if metric.takes_label is False else (Y[order],)
    metric.add(P[order], *label, **user, **more)


@pytest.mark.parametrize("kind", MAKE)
def test_repeated_samples_warn_on_every_worker_unless_the_metric_has_the_sampler(kind: str) -> None:
    def work(channel: Together, told: bool, size: int = SAMPLES) -> Any:
        sampler = paddles(channel.rank, 5)
        metric = MAKE[kind](size=size, **({} if told else {"sampler": sampler}))
        add(metric, order_of(sampler))
        return metric, metric.compute(communicator=channel)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        together([lambda channel: work(channel, True)] * 5)
    texts = [str(each.message) for each in said if each.category is fm.SizeWarning]
    assert len(texts) == 5 and len(set(texts)) == 1
    assert texts[0].startswith("it (")
    assert "55 samples were counted, but the data set has 53 (size=). " in texts[0]
    assert "with sampler= each counts once" in texts[0]
    assert told(lambda: together([lambda channel: work(channel, False)] * 5)) == []


def test_missing_samples_are_a_warning_unless_a_pass_is_left_early() -> None:
    metric = fm.Accuracy(name="it", size=1025)
    metric.add(P, Y)
    [text] = told(metric.compute)
    assert text.startswith("it (Accuracy): 53 samples were counted, but the data set has 1,025 (size=). Add every")
    assert told(lambda: metric.compute(partial=True)) == told(metric.compute_local) == []


def test_a_sample_of_any_weight_counts_unless_it_is_masked() -> None:
    metric = fm.MeanSquaredError(size=4)
    metric.add([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], mask=[[True, False], [False, False]])
    metric.add([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], weight=[1.0, 0.0, 2.0])
    metric.add([1.0, 2.0], [1.0, 2.0], mask=[False, False])
    assert told(metric.compute) == []


def test_a_failed_add_is_not_counted_and_a_reset_begins_anew() -> None:
    metric = fm.MeanSquaredError(size=2)
    for _ in range(2):
        metric.reset()
        with pytest.raises(fm.InvalidInputError, match="prediction must be a finite number"):
            metric.add([np.nan, 0.0], [0.0, 0.0])
        metric.add([0.0, 0.0], [0.0, 0.0])
        assert told(metric.compute) == []


@pytest.mark.parametrize("kind", MAKE)
def test_merged_resumed_copied_and_fresh_ones_know_how_many_were_added(kind: str) -> None:
    def half(start: int, size: int = SAMPLES) -> Any:
        metric = MAKE[kind](size=size)
        add(metric, np.arange(start, SAMPLES, 2))
        return metric

    resumed = MAKE[kind](size=SAMPLES)
    resumed.set_state_dict(half(0).state_dict())
    for one in (half(0), resumed, copy.deepcopy(half(0)), pickle.loads(pickle.dumps(half(0)))):
        add(one, np.arange(1, SAMPLES, 2))
        assert told(one.compute) == []
    assert told(fm.merge_all([half(0), half(1)]).compute) == []
    again = half(0).fresh()
    add(again, np.arange(SAMPLES))
    assert told(again.compute) == []
    with pytest.raises(fm.InvalidInputError, match="size"):
        half(0, size=54).set_state_dict(half(0).state_dict())


def test_another_size_on_another_worker_is_an_error() -> None:
    def work(channel: Together) -> Any:
        metric = fm.Count(name="n", size=channel.rank or None)
        return metric.compute(communicator=channel)

    for error in together([work] * 3):
        assert isinstance(error, fm.AgreementError) and "Count n of 2 samples" in str(error)


@pytest.mark.parametrize("size", [-1, 2.5, "53", [1]])
def test_an_invalid_size_is_refused_where_it_is_given(size: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match="size must be an integer of at least 0"):
        fm.Count(size=size)


def test_only_the_outermost_takes_a_size() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"'n'.* has a size; .*give the size to the collection"):
        fm.MetricCollection({"n": fm.Count(size=3)})
    with pytest.raises(fm.InvalidInputError, match="takes metrics without a size"):
        fm.Count(size=3) + 1


def test_it_costs_one_integer_in_the_same_exchange_and_nothing_where_it_is_not_given() -> None:
    def blocks(**more: Any) -> int:
        metric = fm.MetricCollection([fm.Count(name="n"), fm.Mean(name="m")], **more)
        metric.add([1.0, 2.0])
        return sum(state.read().size for state in metric._states())

    assert blocks(size=2) == blocks() + 1
