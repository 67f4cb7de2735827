"""Mean, variance and histogram: large values, exact edges, arguments."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import formulas
from fleetmetrics.batch import Batch
from fleetmetrics.batch.lanes import Groups, Replicates
from fleetmetrics.numbers.reductions import combine
from tests.contract import MODES, Data, batches, feed, new_scope

RNG = np.random.default_rng(8)


def exact_variance(values, weight):
    x, w = ([Fraction(each) for each in array.tolist()] for array in (values, weight))
    mean = sum(map(Fraction.__mul__, x, w)) / sum(w)
    return float(sum(each * (value - mean) ** 2 for value, each in zip(x, w)) / sum(w))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weights", ["ones", "of very different size"])
@pytest.mark.parametrize("offset", [0.0, 1e8, 1.7e12, -1e15])
def test_the_variance_is_exact_with_a_large_mean_and_any_split(offset, weights, mode):
    values = offset + RNG.normal(size=400)
    weight = np.ones(400) if weights == "ones" else 10.0 ** RNG.uniform(-8, 8, 400)
    exact = exact_variance(values, weight)
    for parts, order in [(1, None), (2, None), (7, np.argsort(values)), (50, np.argsort(weight))]:
        if mode != "numpy" and parts == 7:
            continue
        chosen = np.arange(400) if order is None else order
        data = Data(values[chosen], None, None if weights == "ones" else weight[chosen])
        metric = fm.Variance()
        scope = feed(metric, batches(data, -(-400 // parts)), mode)
        assert metric.compute(scope) == pytest.approx(exact, rel=1e-14)


def test_workers_in_any_order_have_the_variance_of_one():
    values = 1.7e12 + RNG.normal(size=(9, 50)) * 10.0 ** RNG.integers(-3, 4, (9, 1))
    exact = exact_variance(values.ravel(), np.ones(450))
    states = []
    for mine in values:
        worker = fm.Variance()
        worker.add(mine)
        states.append(worker.states["moments"].read())
    merged = [combine("moments", [states[i] for i in RNG.permutation(9)]) for _ in range(20)]
    assert len({each.tobytes() for each in merged}) == 1
    assert formulas.variance(merged[0]) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_the_variance_of_values_around_1e8_survives_on_several_workers(mode):
    spread = np.round(RNG.normal(size=300) * 2**10) / 2**10
    data, scope, total = Data(1e8 + spread, None), new_scope(mode), fm.Variance(ddof=1)
    for start, stop in itertools.pairwise([0, 100, 100, 170, 300]):
        worker = fm.Variance(ddof=1)
        feed(worker, batches(data.rows(start, stop), 30), mode, data, scope)
        total.merge(worker, scope)
    assert total.compute() == pytest.approx(np.var(spread, ddof=1), rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weighted", [False, True])
def test_many_equal_values_have_no_variance(weighted, mode):
    data = Data(np.full(20_000, 0.1), None, RNG.random(20_000) if weighted else None)
    metric = fm.Variance()
    scope = feed(metric, batches(data, 3001), mode)
    assert metric.compute(scope) == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_many_equal_values_in_a_lane_have_no_variance(weighted):
    weight = RNG.random(20_000) if weighted else None
    lane = RNG.integers(0, 4, 20_000)
    batch = Batch(np.array([0.1, 1e8 + 0.1, -1 / 3, 0.0])[lane], None, weight)
    group, once = Groups(batch.xp, lane, 4), Replicates(batch.xp, np.ones((20_000, 2), np.int64), 2)
    for lanes in (batch.in_lanes(group), batch.in_lanes(group).in_lanes(once)):
        for moments in lanes.moments(lanes.values).reshape(-1, 4):
            assert moments[0] > 0 and formulas.variance(moments) == 0


def test_a_weight_of_n_counts_as_n_equal_values():
    values, times = RNG.normal(size=50), RNG.integers(0, 5, 50)
    for make in (fm.Mean, lambda: fm.Variance(ddof=1), lambda: fm.StandardDeviation(ddof=1)):
        weighted, repeated = make(), make()
        weighted.add(values, weight=times)
        repeated.add(np.repeat(values, times))
        assert weighted.compute() == pytest.approx(repeated.compute(), rel=1e-12)


def test_variance_of_one_value_with_ddof_1_is_undefined():
    for make in (fm.Variance, fm.StandardDeviation):
        metric = make(ddof=1)
        metric.add(3.0)
        with pytest.warns(fm.UndefinedMetricWarning, match="the total weight is 1, and ddof is 1; the value is nan"):
            assert math.isnan(metric.compute())


EDGES = [[0.0, 0.1, 0.2, 0.1 * 3, 0.7], [-1e300, -1e-300, 0.0, 1e-30, 1 / 3, 1e30], np.linspace(-2, 3.3, 41).tolist()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("edges", EDGES, ids=["tenths", "of all sizes", "many"])
def test_values_at_an_edge_and_next_to_it_are_in_the_same_bins_as_in_numpy(edges, mode):
    edges = np.array(edges)
    values = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    metric = fm.Histogram(bins=edges)
    value = metric.compute(feed(metric, [Data(values, None)], mode))
    assert value.counts.tolist() == np.histogram(values, edges)[0].tolist()
    assert value.counts.dtype == np.int64 and value.edges.tolist() == edges.tolist()
    assert (value.below, value.above) == (1, 1)
    assert type(value.below) is type(value.above) is int


def test_bins_in_a_range_are_those_of_numpy():
    values = np.concatenate([RNG.random(500), RNG.integers(0, 50, 500) / 49, np.arange(11) / 10]) * 3 - 1
    metric = fm.Histogram(bins=49, range=(-1, 2))
    metric.add(values.reshape(3, -1))
    counts, edges = np.histogram(values, 49, (-1, 2))
    value = metric.compute()
    assert value.counts.tolist() == counts.tolist() and value.edges.tolist() == edges.tolist()


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"bins": 0}, "bins must be an integer of at least 1, not 0"),
        ({"bins": 2.0}, "bins must be an integer of at least 1, not 2.0"),
        ({"bins": "auto"}, "bins must be an integer of at least 1, not "),
        ({"bins": [0.5]}, "bins must be an integer of at least 1, or the edges of the bins: two or more finite"),
        ({"bins": [0.0, 1.0, 1.0]}, r"each larger than the one before; not \[0.0, 1.0, 1.0\]"),
        ({"bins": [0.0, np.inf]}, r"two or more finite numbers, .*; not \[0.0, inf\]"),
        ({"bins": [[0.0], [1.0, 2.0]]}, "two or more finite numbers"),
        ({"range": (1, 0)}, r"range must be two finite numbers, the lower one first, not \(1, 0\)"),
        ({"range": (0, np.inf)}, r"range must be two finite numbers, the lower one first, not \(0, inf\)"),
        ({"range": None}, "range must be two finite numbers, the lower one first, not None"),
    ],
)
def test_a_wrong_argument_of_a_histogram_is_named_with_its_value(arguments, text):
    with pytest.raises(fm.InvalidInputError, match=text):
        fm.Histogram(**arguments)


def test_ddof_must_be_a_number():
    for value in (-1, None, np.nan):
        with pytest.raises(fm.InvalidInputError, match=f"ddof must be a finite number of at least 0, not {value}"):
            fm.Variance(ddof=value)
