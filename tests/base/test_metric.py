"""The life of a metric: names, declared states, the one exchange, and the modes that do not mix."""

from __future__ import annotations

import contextlib
import inspect
import warnings

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Undefinable
from fleetmetrics.batch import statistic
from fleetmetrics.comm import RowKeys
from fleetmetrics.comm.deadline import DEFAULT_TIMEOUT
from tests import contract
from tests.cases.regression import tweedie
from tests.contract import MODES, Data, feed, new_programs
from tests.fakes import Absent, Listener


@statistic
def _largest_error(batch):
    return batch.xp.extreme(batch.xp.absolute(batch.values - batch.targets), batch.keep, "max")


class LargestError(fm.Metric):
    """A metric as a user writes it, after the package's own example."""

    requirements = ("finite_prediction", "finite_label")

    def __init__(self, **common):
        super().__init__(**common)
        self.declare("largest", dtype="float64", reduction="max")
        self.declare("total", key="total")

    def batch_statistics(self, batch):
        return {"largest": _largest_error(batch), "total": batch.total}

    def formula(self, largest, total):
        return largest.item() if total else 0.0


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, stem",
    [
        (fm.AUC, "auc"),
        (fm.MeanAbsoluteError, "mean_absolute_error"),
        (fm.LogLoss, "log_loss"),
        (fm.Max, "max"),
        (LargestError, "largest_error"),
        (lambda: fm.MetricCollection([]), "metric_collection"),
    ],
)
def test_default_names_count_up_in_the_order_of_creation(make, stem):
    first, second = make().name, make().name
    number = int(first.rpartition("_")[2])
    assert (first, second) == (f"{stem}_{number}", f"{stem}_{number + 1}")


@pytest.mark.parametrize("name", ["", 3, b"auc", ["auc"]])
def test_a_name_must_be_a_string_that_is_not_empty(name):
    with pytest.raises(fm.InvalidInputError, match="name must be a non-empty string or None, not ") as error:
        fm.AUC(name=name)
    assert repr(name) in str(error.value)


def test_states_are_named_after_the_metric():
    metric = fm.Accuracy(name="validation")
    assert [state.name for state in metric.states.values()] == ["validation.correct", "validation.total"]


# -- a metric of one's own -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_metric_is_its_states_its_statistics_and_its_formula(mode):
    rng = np.random.default_rng(0)
    data = Data(rng.normal(size=40), rng.normal(size=40), None, rng.random(40) < 0.7)
    metric = LargestError()
    scope = feed(metric, contract.batches(data), mode)
    assert metric.compute(scope) == np.abs(data.prediction - data.label)[data.mask].max()
    metric.reset(scope)
    assert metric.compute(scope) == 0.0


def test_a_metric_without_statistics_or_formula_says_what_is_missing():
    class Half(fm.Metric):
        pass

    with pytest.raises(NotImplementedError, match="Half must define batch_statistics"):
        Half().add([1.0])
    with pytest.raises(NotImplementedError, match="Half must define formula"):
        Half().compute()


# -- the exchange ----------------------------------------------------------------------------------------


def test_compute_is_one_exchange_and_compute_local_is_without_one():
    for case in contract.CASES.values():
        metric, listener = case.make(name="mine"), Listener()
        told = pytest.warns(fm.UndefinedMetricWarning) if case.warnings else contextlib.nullcontext()
        with fm.set_communicator(listener), told:
            metric.compute_local()
            assert listener.calls == []
            metric.compute()
        assert listener.calls == [f"{type(metric).__name__} mine"]


def test_a_warning_points_to_the_line_that_asked():
    for compute in (fm.AUC().compute, fm.AUC().compute_local, fm.MetricCollection([fm.LogLoss()]).compute):
        with pytest.warns(fm.UndefinedMetricWarning) as told:
            compute()
        assert [w.filename for w in told] == [__file__]


def test_compute_hands_on_its_communicator_and_timeout():
    metric, listener, other = fm.Count(), Listener(), Listener()
    with fm.set_communicator(other):
        metric.compute(communicator=listener, timeout=7)
        metric.compute(util=listener)
    assert listener.timeouts == pytest.approx([7, DEFAULT_TIMEOUT], abs=1) and other.calls == []


@pytest.mark.filterwarnings(r"ignore:.* undefined for \d+ .* left out:fleetmetrics.UndefinedMetricWarning")
def test_what_is_exchanged_is_int64_and_float64_only():
    for name, case in contract.CASES.items():
        metric, listener = case.make(), Listener()
        feed(
            metric,
            [contract.draw(name, contract.combinations()[0][1] if "f" in case.kinds else ("int64", "int64"))],
            "numpy",
        )
        metric.compute(communicator=listener)
        states = [block for block in listener.blocks[0] if not isinstance(block, RowKeys)]
        assert {str(block.array.dtype) for block in states} <= {"int64", "float64"}


def test_the_value_is_over_all_workers_and_leaves_what_is_here():
    mine, theirs, listener = fm.Accuracy(name="same"), fm.Accuracy(name="same"), Listener()
    mine.add([1, 1, 1], [1, 1, 0])
    theirs.add([0] * 5, [0] * 5)
    theirs.compute(communicator=listener)
    for _ in range(2):
        assert mine.compute(communicator=Absent(listener)) == 7 / 8
    assert mine.compute_local() == 2 / 3


def test_an_invalid_sample_on_another_worker_is_an_error_here_too():
    data = Data(np.array([0.5, np.nan, 0.25]), np.array([1, 0, 3]))
    theirs, listener = fm.AUC(name="same"), Listener()
    scope = feed(theirs, [data], "static")
    with pytest.raises(fm.InvalidInputError):
        theirs.compute(scope, communicator=listener)
    mine = fm.AUC(name="same")
    mine.add([0.25, 0.75], [0, 1])
    with pytest.raises(
        fm.InvalidInputError, match=r"same \(\w+\): 2 of 3 samples were invalid and left out, the first at position 1"
    ):
        mine.compute(communicator=Absent(listener))
    assert mine.compute_local() == 1.0


def test_a_worker_that_cannot_read_its_states_tells_the_others():
    metric, listener = fm.AUC(), Listener()
    feed(metric, [Data(np.array([0.5]), np.array([1]))], "static")
    with pytest.raises(fm.StateNotFoundError, match=rf"no variable '{metric.name}\.seen' in the scope"):
        metric.compute(paddle.static.Scope(), communicator=listener)
    assert isinstance(listener.troubles[0], fm.StateNotFoundError)


# -- what does not fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_shapes_that_do_not_fit_are_an_error_and_nothing_is_lost(mode):
    make = paddle.to_tensor if mode == "dynamic" else np.asarray
    metric = fm.MeanAbsoluteError()
    metric.add(make([1.0, 2.0]), make([1.0, 4.0]))
    for prediction, label in [([1.0], [1.0, 2.0]), ([[1.0, 2.0]], [1.0])]:
        with pytest.raises(fm.InvalidInputError, match="shape"):
            metric.add(make(prediction), make(label))
    assert metric.compute() == 1.0


def test_a_metric_that_holds_arrays_is_refused_in_a_static_program():
    metric = fm.AUC()
    metric.add([0.25, 0.5], [0, 1])
    with new_programs(), pytest.raises(fm.StaticProgramError, match="already holds arrays; create a separate metric"):
        metric.add(paddle.static.data("p", [-1]), paddle.static.data("y", [-1], "int64"))
    assert metric.compute() == 1.0


@pytest.mark.parametrize("make", [np.asarray, paddle.to_tensor], ids=["numpy", "dynamic"])
def test_a_metric_in_a_static_program_refuses_arrays(make):
    metric = fm.AUC()
    scope = feed(metric, [Data(np.array([0.25, 0.5]), np.array([0, 1]))], "static")
    with pytest.raises(fm.StaticProgramError, match=f"{metric.name} accumulates inside a static program"):
        metric.add(make([0.5]), make([1]))
    assert metric.compute(scope) == 1.0


def test_add_is_called_once_per_static_program():
    metric = fm.Count(name="added once")
    with new_programs():
        value = paddle.static.data("x", [-1])
        metric.add(value)
        with pytest.raises(
            fm.StaticProgramError, match=r"was already called in a static program.*call it only once.*share=True"
        ):
            metric.add(value)
    with new_programs(), pytest.raises(fm.StaticProgramError, match="second metric"):
        metric.add(paddle.static.data("x", [-1]))


def test_an_add_whose_statistics_fail_leaves_no_state_in_the_program():
    metric = fm.AUC(validate=False, name="fails")
    with new_programs() as (main, _):
        label = paddle.static.data("y", [-1], "int64")
        with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\]"):
            metric.add(paddle.static.data("scores", [-1, 3]), label)
        assert fm.static.states(main) == []
        metric.add(paddle.static.data("p", [-1]), label)
        assert len(fm.static.states(main)) == 4


def test_an_add_that_fails_in_a_static_program_may_be_mended():
    metric = fm.AUC(name="repeated")
    with new_programs() as (main, startup):
        score, label = paddle.static.data("p", [-1]), paddle.static.data("y", [-1], "int64")
        for bad in ({"label": None}, {"label": label, "weight": np.ones(3)}, {"label": ["a"]}):
            with pytest.raises(fm.InvalidInputError):
                metric.add(score, **bad)
        assert fm.static.states(main) == []
        metric.add(score, label)
        scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.scope_guard(scope):
            executor.run(startup)
            executor.run(main, feed={"p": np.array([0.5, 0.25], "float32"), "y": np.array([1, 0])})
    assert metric.compute(scope) == 1.0


def test_an_array_beside_static_variables_is_an_error_that_names_it():
    with new_programs(), pytest.raises(
        fm.InvalidInputError, match="label must be a variable of the static program or one"
    ):
        fm.AUC().add(paddle.static.data("p", [-1]), np.array([1, 0]))


def test_every_metric_without_samples_is_zero_division():
    """Except for those whose value without samples is no number: sums and counts, which are 0, and curves."""
    exempt = {"Count", "Sum", "Histogram", "Throughput", "BrierDecomposition", "CalibrationCurve", "KuiperCalibration"}
    lacking = []
    for name in sorted(set(fm.metrics.__all__) - exempt):
        parameters = inspect.signature(getattr(fm, name)).parameters.values()
        given = {p.name: 0.5 for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
        if name == "ExactMatch" or "num_classes" in given:
            given["num_labels" if name == "ExactMatch" else "num_classes"] = 2
        given.update({"types": ["A"]} if "types" in given else {})
        try:
            metric = getattr(fm, name)(**given, zero_division=4.0)
        except TypeError as error:
            lacking.append((name, str(error)))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error", fm.UndefinedMetricWarning)
            value = metric.compute()
        assert not isinstance(value, (int, float)) or value == 4.0, name
    assert lacking == []


# -- what a metric declares ---------------------------------------------------------------------------------


class Forgetful(fm.Metric):
    """It declares two states, and fills the one it is asked to."""

    def __init__(self, *filled: str) -> None:
        super().__init__()
        self.filled = filled
        self.declare("total")
        self.declare("hits")

    def batch_statistics(self, batch):
        return dict.fromkeys(self.filled, batch.number)

    def formula(self, total, hits):
        return hits.item() / total.item()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filled", "told"), [(["total"], "leaves out hits"), (["total", "hits", "misses"], "returns misses, not declared")]
)
def test_a_batch_that_does_not_fill_what_was_declared_is_an_error_at_the_first_add(filled, told, mode):
    metric = Forgetful(*filled)
    with pytest.raises(fm.InvalidInputError, match=f"batch_statistics of Forgetful {told}.*total, hits"):
        feed(metric, [Data(np.array([0.5]), np.array([1]))], mode)
    assert not metric.holds_samples()


# -- what may be merged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (lambda: fm.Sum() * 2, lambda: fm.Sum() * 3, "operands is 3, here 2"),
        (lambda: fm.Sum() + 2, lambda: fm.Sum() - 2, "symbol is '-', here '\\+'"),
        (lambda: 1 - fm.F1(), lambda: 1 - fm.FBeta(beta=2.0), "in .operands.: it is an FBeta, here an F1"),
        (lambda: fm.FBeta(beta=2.0), lambda: fm.FBeta(beta=0.5), "beta is 0.5, here 2.0"),
        (lambda: fm.QuantileLoss(quantile=0.9), lambda: fm.QuantileLoss(quantile=0.5), "quantile is 0.5, here 0.9"),
        (lambda: fm.AUC(max_fpr=0.1), lambda: fm.AUC(), "max_fpr is None, here 0.1"),
        (lambda: fm.AUC(zero_division=0.5), lambda: fm.AUC(), "zero_division is nan, here 0.5"),
        (lambda: fm.Variance(ddof=1), lambda: fm.Variance(), "ddof is 0.0, here 1.0"),
        (lambda: fm.Sliced(fm.FBeta(beta=2.0)), lambda: fm.Sliced(fm.FBeta(beta=1.0)), "beta is 1.0, here 2.0"),
        (lambda: fm.Sliced(fm.Count()), lambda: fm.Sliced(fm.Count(), max_keys=5), ""),
        (lambda: fm.Windowed(fm.Count(), 3), lambda: fm.Windowed(fm.Count(), 4), "last is 4, here 3"),
        (
            lambda: fm.MetricCollection({"f": fm.FBeta(beta=2.0)}),
            lambda: fm.MetricCollection({"f": fm.FBeta(beta=0.5)}),
            "beta is 0.5, here 2.0",
        ),
        (
            lambda: fm.MetricCollection({"f": fm.F1()}),
            lambda: fm.MetricCollection({"g": fm.F1()}),
            "keys is .g., here .f.",
        ),
        (lambda: fm.F1(), lambda: fm.Precision(), "it is a Precision"),
        (lambda: fm.NDCG(k=5), lambda: fm.NDCG(k=10), "k is 10, here 5"),
    ],
)
def test_metrics_of_other_settings_do_not_merge_and_the_error_says_what_differs(one, other, told):
    mine, theirs = one(), other()
    with pytest.raises(fm.InvalidInputError, match=f"other must be an? .* with the settings of .*{told}"):
        mine.merge(theirs)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fm.Sum() * 2,
        lambda: fm.AUC(),
        lambda: fm.Lift(),
        lambda: fm.CumulativeGain(),
        lambda: fm.Sliced(fm.AUC(), "slot", keys=[1, 2]),
        lambda: fm.Windowed(fm.AUC(), 3),
        lambda: fm.Bootstrap(fm.AUC(), ids="request"),
        lambda: fm.GAUC(),
        tweedie(1.5),
        lambda: fm.MetricCollection({"e": 1 - fm.AUC(), "g": fm.GAUC()}),
    ],
)
def test_metrics_of_equal_settings_merge(make):
    make().merge(make())


@statistic
def _twice_the_samples(batch):
    return 2 * batch.total


class Odds(Undefinable):
    """A metric with a quotient needs no formula."""

    declared = (TOTAL, Declared("twice", statistic=_twice_the_samples))
    quotient = Quotient({"total": 3, "twice": 1}, {"twice": 1}, value=lambda odds: odds**2, reason="none is odd")


def test_a_quotient_of_states_is_the_formula_exact_for_counts_of_any_size():
    metric = Odds()
    metric.add([1.0, 2.0], [1.0, 2.0])
    assert metric.compute() == 2.5**2
    large = np.array(2**53 + 1)
    assert metric.formula(total=large, twice=large) == 16.0
    single = Odds.__new__(Odds)
    single.zero_division = np.nan
    single.quotient = Quotient({"twice": 1})
    assert single.formula(twice=np.array(2**53 + 1), total=np.array(2**53 + 3)) == (2**53 + 1) / (2**53 + 3)


def test_the_quotient_says_why_it_is_undefined_although_there_are_samples():
    for total, reason in ((3, "none is odd"), (0, "there are no samples")):
        with pytest.warns(fm.UndefinedMetricWarning, match=f"^odds is undefined: {reason}"):
            assert np.isnan(Odds().formula(total=np.array(total), twice=np.array(0)))
    assert Odds(zero_division=0.5).formula(total=np.array(3), twice=np.array(0)) == 0.5


def test_the_entries_of_a_state_are_weighted_by_the_factors_of_the_quotient():
    class Diagonal(Odds):
        quotient = Quotient({"cells": np.eye(2)}, {"cells": np.ones((2, 2))})

    assert Diagonal().formula(cells=np.array([[3, 1], [2, 4]])) == 0.7
