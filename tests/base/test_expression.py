"""Arithmetic on metrics: a formula that waits for the values of all workers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from tests import contract
from tests.contract import batches, draw, feed
from tests.fakes import Listener


def errors(**named):
    return fm.MeanSquaredError(**named), fm.MeanAbsoluteError()


DATA = draw("mean squared error", weight="real", mask=True)


@pytest.mark.parametrize("mode", contract.MODES)
def test_the_value_is_that_of_the_operands_values(mode):
    squared, absolute = errors()
    expression = 2 * squared * absolute / (squared + absolute) - (-squared) ** 2 / 3 + abs(absolute - 5)
    scope = feed(expression, batches(DATA), mode)
    s, a = squared.compute(scope), absolute.compute(scope)
    assert expression.compute(scope) == expression.compute_local(scope) == 2 * s * a / (s + a) - s**2 / 3 + abs(a - 5)


def test_numbers_can_be_either_operand():
    metric = fm.Count()
    made = [3 + metric, metric + 3, 3 - metric, metric - 3, 3 * metric, 8 / metric, metric / 8, 2**metric, metric**2]
    metric.add([1.0, 2.0, 3.0, 4.0])
    assert [each.compute() for each in made] == [7, 7, -1, 1, 12, 2.0, 0.5, 16, 16]
    assert str(2 * (fm.Count(name="n") + 1)) == "(2 * (n + 1))"


def test_one_exchange_brings_every_state_once():
    squared, absolute = errors(name="s")
    expression = squared / absolute + squared
    feed(expression, batches(DATA), "numpy")
    listener = Listener()
    expression.compute(communicator=listener)
    assert len(listener.calls) == 1
    names = [block.name for block in listener.blocks[0]]
    assert len(set(names)) == len(names) and names.count("s.squared_error") == 1


def test_in_a_collection_it_shares_the_states_of_its_operands():
    for order in (("ratio", "s"), ("s", "ratio")):
        squared, absolute = errors()
        members = {"ratio": squared / absolute, "s": squared}
        together = fm.MetricCollection({key: members[key] for key in order})
        feed(together, batches(DATA), "numpy")
        alone = [contract.CASES["mean squared error"].make(), contract.CASES["mean absolute error"].make()]
        s, a = [(feed(each, batches(DATA), "numpy"), each.compute())[1] for each in alone]
        assert together.compute() == {key: {"ratio": s / a, "s": s}[key] for key in order}
        listener = Listener()
        together.compute(communicator=listener)
        assert sum(block.name.endswith(".total") for block in listener.blocks[0]) == 1


def test_reset_merge_and_fresh_reach_the_operands():
    one, other = (sum(errors(), start=fm.Count()) for _ in range(2))
    feed(one, batches(DATA.rows(0, 20)), "numpy")
    feed(other, batches(DATA.rows(20, 53)), "numpy")
    whole = one.fresh("whole")
    feed(whole, batches(DATA), "numpy")
    one.merge(other)
    assert one.compute() == pytest.approx(whole.compute(), rel=1e-12)
    assert whole.name == "whole" and not whole.fresh().holds_samples()
    one.reset()
    assert not one.holds_samples()


@pytest.mark.parametrize("name", [None, "again"])
@pytest.mark.parametrize("whole", ["expression", "collection", "sliced"])
def test_a_fresh_one_keeps_which_operands_are_one(whole, name):
    squared, absolute = errors()
    expression = squared / absolute + squared
    metric = {
        "expression": lambda: expression,
        "collection": lambda: fm.MetricCollection({"both": expression, "s": squared}),
        "sliced": lambda: fm.Sliced(expression, by="slot"),
    }[whole]()
    fresh = metric.fresh(name)
    assert len(fresh.leaf_metrics()) == len(metric.leaf_metrics())
    assert [state.kind for state in fresh._states()] == [state.kind for state in metric._states()]
    batch = {"prediction": [1.0, 3.0], "label": [0.0, 1.0], **({"slot": ["a", "b"]} if whole == "sliced" else {})}
    metric.add(**batch)
    fresh.add(**batch)
    fresh.merge(metric)
    metric.add(**batch)
    assert fresh.compute() == metric.compute()
    assert all(state.name.startswith("again.") for state in fresh._states()) or name is None


def test_the_expression_reports_a_sample_that_is_invalid_for_an_operand():
    metric = fm.MeanSquaredError(name="m")
    expression = metric * 2
    data = DATA._replace(prediction=np.full(53, np.nan), weight=None, mask=None)
    scope = feed(metric, [data], "static")
    with pytest.raises(fm.InvalidInputError, match=r"^m: 53 of 53 samples were invalid"):
        expression.compute(scope)


def test_a_divisor_of_zero_is_undefined_with_a_warning():
    metric = fm.Count()
    with pytest.warns(fm.UndefinedMetricWarning, match="a quotient of metrics is undefined: the divisor is 0"):
        assert np.isnan((1 / metric).compute())


@pytest.mark.parametrize(
    "expression, batch",
    [
        (fm.ClickThroughRate() ** -1, ([0.5, 0.5], [0, 0])),
        (2 ** fm.Sum(), ([5000.0],)),
        ((fm.AUC() - 2) ** 0.5, ([0.1, 0.9], [0, 1])),
        (fm.Count() ** 1e300, ([1, 2],)),
    ],
)
def test_a_power_that_is_not_finite_is_undefined_with_a_warning(expression, batch):
    for operand in expression.operands:
        if isinstance(operand, fm.Metric):
            operand.add(*batch)
    with pytest.warns(fm.UndefinedMetricWarning, match="a power of metrics is undefined: 1 of 1 is not finite"):
        assert np.isnan(expression.compute())


def test_arrays_are_not_operands():
    with pytest.raises(fm.InvalidInputError, match=r"\* takes metrics and numbers, not ndarray"):
        np.array([1.0, 2.0]) * fm.AUC()


def test_records_take_part_too():
    gauc, uauc = fm.GAUC(), fm.UAUC()
    difference = gauc - uauc
    difference.add([0.1, 0.4, 0.8, 0.6, 0.7], [0, 1, 0, 1, 0], user=[1, 1, 2, 2, 2])
    assert difference.compute() == pytest.approx(0.4 - 0.5)
    with pytest.raises(fm.InvalidInputError, match="user is missing"):
        difference.add([0.1], [0])


def test_an_operand_that_is_neither_a_metric_nor_a_number_is_an_error():
    for wrong in ("auc", None, [1.0], True):
        with pytest.raises(fm.InvalidInputError, match="takes metrics and numbers, not"):
            fm.Count() + wrong
    many = fm.NDCG(k=[1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(fm.InvalidInputError, match="is a dict; arithmetic takes numbers and arrays"):
            (many + 1).compute()


def test_rename_gives_metric_and_states_a_new_name_while_it_is_empty():
    metric = fm.Count(name="old").rename("new")
    assert metric.name == "new" and [state.name for state in metric.states.values()] == ["new.total"]
    metric.add([1.0])
    with pytest.raises(fm.InvalidInputError, match="new already holds samples; rename a metric before the first add"):
        metric.rename("newer")
    with pytest.raises(fm.InvalidInputError, match="name must be a non-empty string"):
        fm.Count().rename("")


def test_a_collection_gives_its_keys_prefix_postfix_and_other_names():
    metrics = fm.MetricCollection({"n": fm.Count(), "mae": fm.MeanAbsoluteError()}, prefix="val_", postfix="_all")
    metrics.add([1.0, 2.0], [1.0, 3.0])
    assert metrics.rename({"n": "samples"}).compute() == {"val_samples_all": 2, "val_mae_all": 0.5}
    test = metrics.fresh(prefix="test/", postfix="")
    test.add([1.0], [1.0])
    assert test.compute() == {"test/samples": 1, "test/mae": 0.0} and metrics.compute()["val_samples_all"] == 2
    with pytest.raises(fm.InvalidInputError, match="keys names 'x'; the collection has 'samples', 'mae'"):
        metrics.rename({"x": "y"})
    with pytest.raises(fm.InvalidInputError, match="two members the same key"):
        metrics.rename({"mae": "samples"})
    with pytest.raises(fm.InvalidInputError, match="prefix must be a string, not 3"):
        fm.MetricCollection([], prefix=3)


@pytest.mark.parametrize("make", [lambda: fm.Sum() * 10, lambda: fm.Sum() + 1.5e308, lambda: -fm.Sum() - 1.5e308])
def test_a_result_beyond_float64_is_undefined_with_a_warning(make):
    expression = make()
    expression.add([1e308])
    with pytest.warns(fm.UndefinedMetricWarning, match="the result is beyond float64"):
        assert np.isnan(expression.compute())
