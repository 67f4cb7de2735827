"""The drop-in functions: Paddle's signatures, every kind of input, and the numbers that Paddle promises."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import paddle
import pytest
from paddle.distributed.fleet import metrics as paddles

import fleetmetrics as fm
from fleetmetrics import functional
from fleetmetrics.functional import _call
from tests.contract import new_programs, static_mode
from tests.distributed.cluster import free_ports
from tests.paddle_version import PIR, on_legacy_graph, on_pir

REDUCED = "sum", "max", "min"
COUNTERS = {"acc": 0.75, "mae": 0.75, "mse": 0.75, "rmse": math.sqrt(0.75)}
FORMS = {
    "python": lambda number: number,
    "scalar": lambda number: np.array(number)[()],
    "0-d": np.array,
    "[1]": lambda number: np.array([number]),
    "[1, 1]": lambda number: np.array([[number]]),
    "list": lambda number: [number],
    "dynamic 0-d": paddle.to_tensor,
    "dynamic [1]": lambda number: paddle.to_tensor([number]),
}


class OneWorker:
    """The stand-in for `fleet.util` in Paddle's own test: Gloo among one process."""

    def __init__(self, directory):
        self.gloo = paddle.base.core.Gloo()
        self.gloo.set_rank(0)
        self.gloo.set_size(1)
        self.gloo.set_prefix("fleetmetrics")
        self.gloo.set_iface("lo")
        self.gloo.set_hdfs_store(str(directory), "", "")
        self.gloo.init()

    def all_reduce(self, input, mode="sum", comm_world="worker"):
        array = np.array(input)
        return np.array(self.gloo.all_reduce(array.reshape(-1).tolist(), mode)).reshape(array.shape)


@pytest.fixture(scope="module")
def util(tmp_path_factory):
    return OneWorker(tmp_path_factory.mktemp("gloo"))


@pytest.mark.parametrize("name", functional.__all__)
def test_signature_is_paddles(name):
    ours, theirs = (list(inspect.signature(getattr(module, name)).parameters.values()) for module in (fm, paddles))
    further = [ours.pop().name for each in list(ours) if each.kind is each.KEYWORD_ONLY]
    assert further == [*(["slide_steps"] if name == "auc" else []), "timeout", "group"]
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
    assert getattr(fm, name) is getattr(functional, name)


def test_every_function_of_paddle_is_here():
    public = {name for name in dir(paddles) if inspect.isfunction(getattr(paddles, name)) and name[0] != "_"}
    assert public == set(functional.__all__)


@pytest.mark.parametrize("name", functional.__all__)
def test_timeout_is_what_the_error_of_a_missing_worker_advises(name):
    given = [[1, 0], [0, 1]] if name == "auc" else [1, 2] if name not in REDUCED else [1]
    who = "rank (1 did not connect|0 did not answer)"  # the latter where a busy machine does not run rank 0's thread
    late = pytest.raises(fm.DeadlineError, match=rf"{who} within 0\.25 s .*timeout=, or")
    port = free_ports(1)[0]
    with fm.SocketCommunicator(rank=0, world_size=2, endpoint=f"127.0.0.1:{port}", secret="a") as alone, late:
        getattr(fm, name)(*given, util=alone, timeout=0.25)


@pytest.mark.parametrize("name", functional.__all__)
def test_an_invalid_timeout_is_refused_by_name(name):
    with pytest.raises(fm.InvalidInputError, match="timeout is -3"):
        getattr(fm, name)(*[[1]] * (1 + (name not in REDUCED)), timeout=-3)


# -- inputs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COUNTERS)
def test_counters_may_have_any_shape_that_holds_one_number(name, form):
    make = FORMS[form]
    value = getattr(fm, name)(make(3.0 if name != "acc" else 3), make(4))
    assert value == COUNTERS[name] and type(value) is float


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("number", [2**24 + 1, -5, 2**63 - 1, 0.1, True])
def test_an_element_keeps_its_value_its_shape_and_its_kind(number, name, form):
    if isinstance(number, float) and "dynamic" in form:
        number = 0.5  # a tensor of Python floats is a float32
    given = FORMS[form](number)
    result = getattr(fm, name)(given)
    assert result.dtype == (np.float64 if isinstance(number, float) else np.int64)
    assert result.shape == tuple(np.shape(given)) and result.item() == number


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 3, 4)])
def test_arrays_of_any_shape_come_back_in_it(name, shape):
    given = np.arange(math.prod(shape)).reshape(shape)
    result = getattr(fm, name)(given)
    assert result.shape == shape and (result == given).all() and result is not given


@pytest.mark.parametrize("name", COUNTERS)
def test_of_a_longer_array_the_first_number_counts_with_a_warning_as_in_paddle(name):
    with pytest.warns(
        UserWarning, match="holds 4 numbers; only the first is used, as in paddle.distributed.fleet"
    ) as told:
        value = getattr(fm, name)(np.array([3.0, 9, 9, 9]), np.array([4, 7, 7, 7]))
    assert value == COUNTERS[name]
    arguments = list(inspect.signature(getattr(fm, name)).parameters)[:2]
    assert [str(w.message).split()[0] for w in told] == arguments
    assert {w.filename for w in told} == {__file__}  # where the caller can do something about it


@pytest.mark.parametrize("name", COUNTERS)
def test_an_empty_array_is_an_error_that_names_the_argument(name):
    for place, argument in enumerate(list(inspect.signature(getattr(fm, name)).parameters)[:2]):
        given = [np.array(3), np.array(4)]
        given[place] = np.empty([1, 0])
        with pytest.raises(fm.InvalidInputError, match=f"^{argument} is empty; it must hold one number"):
            getattr(fm, name)(*given)


@pytest.mark.parametrize("name", COUNTERS)
def test_no_samples_are_nan_with_a_warning(name):
    with pytest.warns(fm.UndefinedMetricWarning) as told:
        assert math.isnan(getattr(fm, name)(0, 0))
    assert [w.filename for w in told] == [__file__]


@pytest.mark.parametrize("shape", [(8,), (1, 8), (2, 4), (8, 1)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float64"])
@pytest.mark.parametrize("make", [np.asarray, paddle.to_tensor], ids=["numpy", "dynamic"])
def test_auc_takes_histograms_of_any_shape_and_dtype(make, dtype, shape):
    positive, negative = (make(np.arange(8).reshape(shape)[::step].astype(dtype)) for step in (1, -1))
    assert fm.auc(positive, negative) == fm.formulas.auc_from_histogram(np.array(positive), np.array(negative))


def test_auc_without_a_class_is_half_with_a_warning():
    with pytest.warns(fm.UndefinedMetricWarning, match="auc is undefined"):
        assert fm.auc([[0, 3]], [[0, 0]]) == 0.5


def test_auc_of_histograms_of_different_length_is_an_error_that_says_both():
    with pytest.raises(fm.InvalidInputError, match="stat_pos has 3 entries and stat_neg 4"):
        fm.auc([[1, 2, 3]], [[1, 2, 3, 4]])


@pytest.mark.parametrize("bad", [-1, math.nan])
def test_auc_of_a_negative_count_is_an_error_that_says_which(bad):
    with pytest.raises(fm.InvalidInputError, match=f"stat_neg must hold counts of at least 0; entry 2 is {bad}"):
        fm.auc([1.0, 2, 3], [1, 2, bad])


@pytest.mark.parametrize("name", functional.__all__)
@pytest.mark.parametrize("value", [None, "missing", ["a"], 1j])
def test_a_value_that_is_not_a_number_is_an_error_of_fleetmetrics(name, value):
    count = 1 if name in ("sum", "max", "min") else 2
    with pytest.raises(fm.FleetMetricsError):
        getattr(fm, name)(*[value] * count, scope=paddle.static.Scope())


@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_nan_stays_nan(name):
    assert np.isnan(getattr(fm, name)([math.nan, 1.0])).tolist() == [True, False]


def test_arguments_are_not_changed():
    given = np.array([1, 2])
    fm.sum(given)[0] = 9
    assert given.tolist() == [1, 2]


# -- variables and names ---------------------------------------------------------------------------------


def variables(values):
    """Persistable variables of a new program, and a scope where they hold these values."""
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    with new_programs() as programs, paddle.static.scope_guard(scope):
        made = [make_variable(f"given_{n}", np.array(value)) for n, value in enumerate(values)]
        executor.run(programs[1])
    for variable, value in zip(made, values):
        tensor = scope.find_var(variable.name).get_tensor()
        tensor.set(np.array(value), paddle.CPUPlace())
    return programs, made, scope


def make_variable(name, array):
    if PIR:
        return paddle.pir.core.create_persistable_value(
            dtype=str(array.dtype),
            shape=list(array.shape),
            name=name,
            initializer=paddle.nn.initializer.Constant(0.0),
        )
    return paddle.static.create_global_var(list(array.shape), 0, str(array.dtype), persistable=True, name=name)


@pytest.mark.parametrize("own", [False, True], ids=["fleetmetrics", "util"])
@pytest.mark.parametrize("by", ["variable", "name"])
@pytest.mark.parametrize("where", ["argument", "guard"])
def test_variables_and_names_work_as_in_paddles_own_test(by, where, own, util):
    programs, given, scope = variables([[[3]], [[4]]])
    correct, total = given if by == "variable" else [variable.name for variable in given]
    options = {"util": util if own else None, "scope": scope if where == "argument" else None}
    with paddle.static.scope_guard(scope if where == "guard" else paddle.static.Scope()):
        for name in ("sum", "max", "min"):
            assert getattr(fm, name)(total, **options).tolist() == [[4]]
        assert fm.acc(correct, total, **options) == fm.mae(correct, total, **options) == 0.75
        assert fm.mse(correct, total, **options) == 0.75 and fm.rmse(correct, total, **options) == math.sqrt(0.75)
        assert fm.auc(correct, total, **options) == 0.5
        assert fm.acc(correct, total, options["scope"], options["util"]) == 0.75
    assert len(programs) == 2


def test_arrays_work_with_a_util_as_in_paddles_own_test(util):
    array = np.array([1, 2, 3, 4])
    for name in ("sum", "max", "min"):
        assert getattr(fm, name)(array, util=util).tolist() == [1, 2, 3, 4]
    assert fm.auc(array[None], array[None], util=util) == 0.5
    with pytest.warns(UserWarning, match="only the first is used"):
        assert fm.acc(array, array, util=util) == 1.0


def test_a_util_gives_integers_above_2_to_53_and_floats_back_unchanged(util):
    assert fm.sum([2**62 + 1, -(2**63), -5], util=util).tolist() == [2**62 + 1, -(2**63), -5]
    floats = [16777217.0, 0.1, -1e300, 5e-324, math.inf]
    assert fm.sum(floats, util=util).tolist() == fm.max(floats, util=util).tolist() == floats


def test_an_unknown_name_is_an_error_that_names_it_and_the_argument():
    with pytest.raises(fm.StateNotFoundError, match=r"^stat_neg: no variable 'absent'"):
        programs, given, scope = variables([[[3]]])
        fm.auc(given[0], "absent", scope)
    assert len(programs) == 2


def test_a_variable_before_the_startup_program_is_an_error_that_says_what_to_do():
    with new_programs():
        variable = make_variable("not_started", np.zeros([1]))
        with pytest.raises(fm.StateNotFoundError, match=r"'not_started'.*startup program"):
            fm.sum(variable, paddle.static.Scope())


@on_pir
def test_an_unnamed_pir_value_is_an_error_that_says_what_to_do():
    with new_programs():
        intermediate = paddle.static.data("x", [1], "int64") + 1
        with pytest.raises(fm.InvalidInputError, match=r"^total is an intermediate value of a PIR program"):
            fm.acc(1, intermediate)


def test_a_state_of_fleetmetrics_is_taken_as_such_or_by_name():
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    with new_programs() as (main, startup), paddle.static.scope_guard(scope):
        state = fm.static.create_state("clicks_of_functional", [2], "int64")
        fm.static.accumulate(state, paddle.static.data("clicks", [2], "int64"))
        executor.run(startup)
        for _ in range(2):
            executor.run(main, feed={"clicks": np.array([2**53, 1])})
    assert fm.sum(state, scope).tolist() == fm.sum("clicks_of_functional", scope).tolist() == [2**54, 2]


@on_legacy_graph
def test_variables_that_paddle_numbers_are_one_call_on_all_workers():
    with new_programs():
        table, label = paddle.static.data("p", [-1, 2]), paddle.static.data("y", [-1, 1], "int64")
        made = {_call("sum", paddle.static.create_global_var([1], 0, "int64")) for _ in range(2)}
        of_auc = {_call("auc", *paddle.static.auc(table, label)[2][2:]) for _ in range(2)}
    assert len(made) == len(of_auc) == 1


def test_the_call_names_the_variables_so_that_two_are_not_mixed_up():
    assert _call("auc", "stat_pos", "stat_neg") == "auc of stat_pos, stat_neg" != _call("auc", "stat_neg", "stat_pos")
    assert _call("sum", np.ones(2)) == "sum"


# -- paddle.static.auc -----------------------------------------------------------------------------------


@on_legacy_graph
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("slide_steps", [0, 1, 3])
@pytest.mark.parametrize("thresholds", [7, 8, 4095])
def test_auc_of_the_statistics_of_paddle_static_auc_equals_the_value_of_paddle(thresholds, slide_steps, steps):
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    rng = np.random.default_rng(thresholds)
    with new_programs() as (main, startup), paddle.static.scope_guard(scope):
        table, label = paddle.static.data("p", [-1, 2]), paddle.static.data("y", [-1, 1], "int64")
        value, batch_value, states = paddle.static.auc(table, label, num_thresholds=thresholds, slide_steps=slide_steps)
        executor.run(startup)
        for _ in range(steps):
            score = rng.random(40, np.float32)
            feeds = {"p": np.stack([1 - score, score], 1), "y": rng.integers(0, 2, (40, 1))}
            fetched = executor.run(main, feed=feeds, fetch_list=[value, batch_value])
        batch_positive, batch_negative, positive, negative = states
        assert fm.auc(positive, negative) == pytest.approx(fetched[0].item(), rel=1e-12)
        assert fm.auc(batch_positive, batch_negative) == pytest.approx(fetched[1].item(), rel=1e-12)
        histograms = [np.array(scope.find_var(state.name).get_tensor()) for state in (batch_positive, batch_negative)]
        assert fm.auc(*[state.name for state in states[:2]]) == fm.auc(batch_positive, batch_negative)
    assert fm.auc(*histograms, slide_steps=slide_steps) == pytest.approx(fetched[1].item(), rel=1e-12)
    if slide_steps > 1:
        with pytest.warns(UserWarning, match="could be batch statistics"):
            assert fm.auc(*histograms) == fm.auc(*[each[None] for each in histograms])


def test_batch_statistics_have_the_window_that_the_program_says():
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    rng = np.random.default_rng(3)
    with new_programs() as (main, startup), paddle.static.scope_guard(scope):
        score, label = paddle.static.data("p", [-1, 1]), paddle.static.data("y", [-1, 1], "int64")
        value, batch_value, statistics = fm.static.auc(score, label, num_thresholds=7, slide_steps=2)
        executor.run(startup)
        for _ in range(4):
            feeds = {"p": rng.random((40, 1), np.float32), "y": rng.integers(0, 2, (40, 1))}
            whole, latest = executor.run(main, feed=feeds, fetch_list=[value, batch_value])
        states = fm.static.states()
        for as_given in (statistics, [each.name for each in statistics], states):
            assert fm.auc(*as_given[:2]) == pytest.approx(latest.item(), rel=1e-12)
            assert fm.auc(*as_given[2:]) == pytest.approx(whole.item(), rel=1e-12)
        arrays = [np.array(scope.find_var(each.name).get_tensor()) for each in statistics[:2]]
        for mixed in ([statistics[0], statistics[3]], [statistics[2], statistics[1]], [statistics[0], arrays[1]]):
            with pytest.raises(fm.InvalidInputError, match="two statistics of one kind"):
                fm.auc(*mixed)
    assert fm.auc(*arrays, slide_steps=2) == pytest.approx(latest.item(), rel=1e-12)
    for wrong, text in (
        (1, "hold no such window"),
        (4, r"has 25 entries: batch"),
        (-1, "at least 0"),
        (2.0, "integer"),
    ):
        with pytest.raises(fm.InvalidInputError, match=text):
            fm.auc(*arrays, slide_steps=wrong)


@pytest.mark.parametrize(
    ("positive", "negative"), [([1, 2, 1, 2, 7], [2, 1, 2, 1, 7]), ([3, 0, 3, 0, 1], [0, 0, 0, 0, 1])]
)
def test_histograms_are_never_guessed_to_be_batch_statistics(positive, negative):
    as_rows = fm.auc([positive], [negative])
    with pytest.warns(UserWarning, match="give slide_steps=0 for histograms"):
        assert fm.auc(positive, negative) == as_rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fm.auc(positive, negative, slide_steps=0) == as_rows


@pytest.mark.parametrize("buckets", [3, 5, 9, 201, 4097])
def test_a_plain_flat_histogram_is_not_read_as_a_sliding_window(buckets):
    for seed in range(20):
        positive, negative = np.random.default_rng(seed).integers(0, 9, (2, buckets))
        positive[-1] = negative[-1] = 1 + seed % 3  # where Paddle would count its steps
        assert fm.auc(positive, negative) == fm.auc(positive[None], negative[None])


# -- where Paddle itself goes wrong: facts to learn ------------------------------------------------------


@on_legacy_graph
def test_paddle_itself_rounds_2_to_24_plus_1_and_refuses_what_we_take(util):
    assert paddles.sum(np.array([16777217.0]), util=util) == 16777216.0
    with pytest.raises(IndexError):
        paddles.acc(np.array(3), np.array(4), util=util)
    with pytest.raises(ZeroDivisionError):
        paddles.acc(np.array([0]), np.array([0]), util=util)
    with pytest.raises(AttributeError), static_mode():
        paddles.sum(paddle.to_tensor([1]), util=util)
    assert fm.sum(np.array([16777217.0]), util=util) == 16777217.0


def test_a_right_call_warns_of_nothing(util):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm.auc([[0, 1, 1]], [[2, 0, 0]], util=util)
        fm.acc(np.array([3]), np.array([4]), util=util)
