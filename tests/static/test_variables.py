"""State variables inside a static program, in the legacy graph and in PIR."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics import static
from fleetmetrics.numbers.reductions import identity
from tests import contract
from tests.contract import Data, StaticFeed, new_programs, static_mode
from tests.paddle_version import PIR, on_legacy_graph, on_pir

LOW, HIGH = -(2**63), 2**63 - 1
_numbers = itertools.count()


def fresh(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}_{next(_numbers)}"


class Program:
    """A program with one state that accumulates what is fed as `x`, in a scope of its own."""

    def __init__(self, shape=(), dtype="int64", reduction="sum", name=None, feed_dtype=None):
        self.scope, self.executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
        self.feed_dtype = feed_dtype or dtype
        with new_programs() as (self.main, self.startup):
            self.state = static.create_state(name or fresh("state"), shape, dtype, reduction)
            self.x = paddle.static.data("x", list(shape), self.feed_dtype)
            static.accumulate(self.state, self.x)
        self.run(None)

    def run(self, *values, program=None):
        """Run the program on each value; the startup program for None."""
        with static_mode(), paddle.static.scope_guard(self.scope):
            for value in values:
                feeds = None if value is None else {"x": np.asarray(value, self.feed_dtype)}
                self.executor.run(self.startup if value is None else program or self.main, feed=feeds)
        return self.read()

    def read(self):
        return np.array(self.scope.find_var(self.state.name).get_tensor())


# -- creating --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), 4, [2]])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_a_state_starts_at_the_identity_of_its_reduction_and_accumulates(shape, dtype, reduction):
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    program = Program(sizes, dtype, reduction)
    start = program.read()
    assert start.tobytes() == np.full(sizes, identity(reduction, dtype), dtype).tobytes()
    assert start.dtype == dtype and start.shape == sizes
    values = np.random.default_rng(0).integers(-(2**40), 2**40, (3, *sizes)).astype(dtype)
    expected = {"sum": np.sum, "max": np.max, "min": np.min}[reduction](values, axis=0)
    assert program.run(*values).tolist() == expected.tolist()
    function = getattr(fm, reduction)
    assert function(program.state, program.scope).tobytes() == np.asarray(expected, dtype).tobytes()
    assert function(program.state.name, program.scope).dtype == dtype


@pytest.mark.parametrize("start, step", [(2**53, 1), (2**62, 2**62 - 1), (-(2**62), -(2**62)), (HIGH, 0), (LOW, 0)])
def test_int64_counts_exactly_up_to_its_limits(start, step):
    assert Program().run(start, step) == start + step


@pytest.mark.parametrize("value", [LOW, HIGH, LOW + 1, HIGH - 1, 2**53 + 1, -(2**53) - 1])
def test_extremes_of_int64_are_exact(value):
    assert Program(reduction="max").run(LOW, value) == value
    assert Program(reduction="min").run(HIGH, value) == value


def test_a_counter_does_not_stop_at_2_to_24():
    for dtype in ("int64", "float64"):
        assert Program(dtype=dtype).run(2**24, 1, 1) == 2**24 + 2


@pytest.mark.parametrize("feed_dtype", ["bool", "uint8", "int32", "int64"])
def test_bools_and_integers_are_accumulated_in_an_int64(feed_dtype):
    program = Program((2,), feed_dtype=feed_dtype)
    assert program.run(*np.array([[1, 0], [1, 1]], feed_dtype)).tolist() == [2, 1]
    assert program.read().dtype == np.int64


@pytest.mark.parametrize("feed_dtype", ["bool", "int32", "float16", "float32", "float64"])
def test_a_float64_takes_every_dtype(feed_dtype):
    program = Program((2,), "float64", feed_dtype=feed_dtype)
    assert program.run(*np.array([[1, 0], [1, 1]], feed_dtype)).tolist() == [2.0, 1.0]


def test_floats_for_an_int64_are_an_error_that_says_what_to_do():
    with new_programs():
        state = static.create_state(fresh("state"))
        with pytest.raises(fm.InvalidInputError, match="is int64; create it with dtype='float64'"):
            static.accumulate(state, paddle.static.data("x", [], "float32"))


def test_a_scalar_may_have_one_axis():
    for shape, feed_shape in [((), [1]), ((1,), [])]:
        with new_programs() as (main, startup):
            state = static.create_state(fresh("state"), shape)
            static.accumulate(state, paddle.static.data("x", feed_shape, "int64"))
            scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
            with paddle.static.scope_guard(scope):
                executor.run(startup)
                for _ in range(3):
                    executor.run(main, feed={"x": np.full(feed_shape, 5)})
                assert fm.sum(state).tolist() == np.full(shape, 15).tolist()


def test_another_shape_is_an_error_that_says_both():
    with new_programs():
        state = static.create_state(fresh("state"), [2, 3])
        with pytest.raises(fm.InvalidInputError, match=r"batch_value has shape \[3, 2\] but state .* has \[2, 3\]"):
            static.accumulate(state, paddle.static.data("x", [3, 2], "int64"))


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"name": ""}, "name must be a non-empty string, not ''"),
        ({"name": 3}, "name must be a non-empty string, not 3"),
        ({"dtype": "float32"}, "dtype must be one of 'int64', 'float64', not 'float32'"),
        ({"dtype": "int32"}, "dtype must be one of 'int64', 'float64', not 'int32'"),
        ({"reduction": "mean"}, "reduction must be one of 'sum', 'max', 'min', 'moments', 'comoments', not 'mean'"),
        ({"shape": [-1]}, r"shape must hold whole numbers of at least 0, not \[-1\]"),
        ({"shape": [None, 2]}, r"shape must hold whole numbers of at least 0, not \[None, 2\]"),
        ({"shape": 2.5}, "shape must hold whole numbers of at least 0, not 2.5"),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it_its_value_and_what_is_allowed(arguments, told):
    with new_programs() as (main, _), pytest.raises(fm.InvalidInputError, match=told):
        static.create_state(**{"name": fresh("state"), **arguments})
    assert static.states(main) == []


def test_without_a_static_program_the_error_says_how_to_start_one():
    with pytest.raises(fm.StaticProgramError, match=r"no static program is being built; call paddle.enable_static\(\)"):
        static.create_state(fresh("state"))


def test_an_invalid_state_or_variable_is_an_error():
    with new_programs():
        x = paddle.static.data("x", [], "int64")
        with pytest.raises(fm.InvalidInputError, match="state must come from create_state, not be a str"):
            static.accumulate("clicks", x)
        with pytest.raises(fm.InvalidInputError, match="must be a variable of the static program, not ndarray"):
            static.accumulate(static.create_state(fresh("state")), np.array(1))


# -- names: by accident never, on purpose yes ------------------------------------------------------------


def test_a_name_that_a_state_has_is_an_error_that_says_how_to_share():
    first = Program()
    with new_programs(), pytest.raises(
        fm.DuplicateStateError, match=rf"'{first.state.name}' already exists.*share=True"
    ):
        static.create_state(first.state.name)
    with static_mode(), paddle.static.program_guard(first.main), pytest.raises(fm.DuplicateStateError):
        static.create_state(first.state.name)


@pytest.mark.filterwarnings("ignore")
def test_a_name_that_another_variable_has_is_an_error():
    with new_programs():
        name = fresh("weight")
        paddle.static.create_parameter([2], "float32", name=name)
        with pytest.raises(fm.DuplicateStateError, match=r"has a variable .* that is not a state of fleetmetrics"):
            static.create_state(name, [2])


def test_a_name_is_free_again_when_its_program_is_gone():
    gc.disable()  # whether it is free must not depend on the moment
    try:
        name = fresh("state")
        Program(name=name)
        assert Program(name=name).run(3) == 3
    finally:
        gc.enable()


def test_two_programs_share_a_state_on_purpose():
    first = Program((2,))
    with new_programs() as (main, _):
        again = static.create_state(first.state.name, (2,), share=True)
        static.accumulate(again, paddle.static.data("x", [2], "int64"))
    assert first.run([1, 2]).tolist() == [1, 2]
    assert first.run([10, 20], program=main).tolist() == [11, 22]
    assert first.run([100, 200]).tolist() == [111, 222]


def test_two_inputs_of_one_program_share_a_state_on_purpose():
    program = Program((2,))
    with static_mode(), paddle.static.program_guard(program.main, program.startup):
        again = static.create_state(program.state.name, (2,), share=True)
        static.accumulate(again, program.x)
    assert again.name == program.state.name
    assert program.run([1, 2]).tolist() == [2, 4]


@pytest.mark.parametrize("other", [{"shape": (3,)}, {"dtype": "float64"}, {"reduction": "max"}])
def test_sharing_with_other_settings_is_an_error_that_says_what_it_is(other):
    program = Program((2,))
    with new_programs(), pytest.raises(
        fm.DuplicateStateError, match=r"cannot be shared as .* it is shape=\(2,\), dtype='int64'"
    ):
        static.create_state(program.state.name, **{"shape": (2,), **other}, share=True)


def test_metrics_of_one_name_are_an_error_and_with_share_one():
    name, data = fresh("click"), Data(np.array([0.25, 0.75]), np.array([0, 1]))
    first = fm.MeanAbsoluteError(name=name)
    feed = StaticFeed(first, data)
    with pytest.raises(fm.DuplicateStateError, match=f"'{name}.seen' already exists"):
        StaticFeed(fm.MeanAbsoluteError(name=name), data)
    second = fm.MeanAbsoluteError(name=name, share=True)
    other = StaticFeed(second, Data(np.array([1.0]), np.array([0])), scope=feed.scope)
    other.start()
    feed.run([data])
    other.run([Data(np.array([1.0]), np.array([0]))])
    assert first.compute(feed.scope) == second.compute(feed.scope) == 0.5


def test_metrics_of_different_names_never_meet():
    data = Data(np.array([0.25, 0.75]), np.array([0, 1]))
    metrics = [fm.MeanAbsoluteError(name=fresh("mae")) for _ in range(2)]
    feeds = [StaticFeed(metric, data) for metric in metrics]
    feeds[0].run([data])
    assert metrics[0].compute(feeds[0].scope) == 0.25
    assert metrics[1].compute_local(feeds[1].run([data, data])) == 0.25
    assert fm.sum(f"{metrics[1].name}.total", feeds[1].scope) == 4


# -- what a program and a scope say about it -------------------------------------------------------------


def test_states_are_listed_in_the_order_of_their_creation():
    with new_programs() as (main, _):
        names = [fresh(stem) for stem in ("z", "a", "m")]
        for name, dtype, reduction in zip(names, ["int64", "float64", "int64"], ["sum", "max", "min"]):
            static.create_state(name, (2,), dtype, reduction)
        assert [state.name for state in static.states()] == names
        assert "shape=(2,), dtype='float64', reduction='max'" in repr(static.states()[1])
    with new_programs() as (other, _):
        assert static.states() == static.states(other) == []
    assert [(s.name, s.shape, s.dtype, s.reduction) for s in static.states(main)] == [
        (names[0], (2,), "int64", "sum"),
        (names[1], (2,), "float64", "max"),
        (names[2], (2,), "int64", "min"),
    ]


def test_states_of_a_clone_are_listed_too():
    program = Program()
    with static_mode():
        clone = program.main.clone()
        assert [state.name for state in static.states(clone)] == [program.state.name]


def test_states_of_a_metric_can_be_found_in_the_scope():
    metric = fm.AUC(name=fresh("auc"), num_thresholds=4)
    scope = contract.feed(metric, [Data(np.array([0.25, 0.75]), np.array([0, 1]))], "static")
    found = np.array(scope.find_var(f"{metric.name}.histogram").get_tensor())
    assert found.dtype == np.int64 and found.tolist() == [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]
    weighted = fm.AUC(name=fresh("auc"), num_thresholds=4)
    data = Data(np.array([0.25, 0.75]), np.array([0, 1]), np.array([0.5, 2.0]))
    found = np.array(contract.feed(weighted, [data], "static").find_var(f"{weighted.name}.histogram").get_tensor())
    assert found.dtype == np.float64 and found.tolist() == [[0, 0.5, 0, 0, 0], [0, 0, 0, 2, 0]]


def test_states_are_no_parameters():
    with new_programs() as (main, _):
        prediction = paddle.static.nn.fc(paddle.static.data("x", [-1, 2], "float32"), 1)
        before = parameters(main)
        fm.MeanAbsoluteError(name=fresh("mae")).add(prediction, paddle.static.data("y", [-1, 1], "float32"))
        assert parameters(main) == before and len(before) == 2
        assert all(state.variable.persistable for state in static.states())


def parameters(program):
    return [parameter.name for parameter in program.global_block().all_parameters()]


# -- passes, scopes, copies ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_reset_between_passes_returns_to_the_start_and_keeps_the_dtype(dtype, reduction):
    program = Program((2,), dtype, reduction)
    start = program.read()
    first = program.run([3, -4], [5, 6])
    program.state.reset(program.scope)
    again = program.read()
    assert again.tobytes() == start.tobytes() and again.dtype == dtype
    assert program.run([3, -4], [5, 6]).tobytes() == first.tobytes()


def test_reset_without_a_scope_is_for_the_guarded_one():
    program = Program()
    program.run(5)
    with paddle.static.scope_guard(program.scope):
        program.state.reset()
    assert program.read() == 0


def test_each_scope_has_its_own_values():
    program = Program()
    program.run(5)
    other, program.scope = program.scope, paddle.static.Scope()
    program.run(None, 7)
    assert (fm.sum(program.state, other), fm.sum(program.state, program.scope)) == (5, 7)


def test_a_metric_computes_from_the_scope_that_is_given_or_guarded():
    metric = fm.Count()
    scope = contract.feed(metric, [Data(np.ones(3), None)], "static")
    assert metric.compute(scope) == metric.compute(scope=scope) == metric.compute_local(scope) == 3
    with paddle.static.scope_guard(scope):
        assert metric.compute() == 3
    with pytest.raises(
        fm.StateNotFoundError, match=r"no variable 'count_.*the startup program must have run; pass scope="
    ):
        metric.compute(paddle.static.Scope())


def test_a_value_of_another_shape_or_kind_is_not_written():
    program = Program((2,))
    program.run([1, 2])
    for value in (np.array([1, 2, 3]), np.array([0.5, 1.0])):
        with pytest.raises(
            fm.InvalidInputError, match=rf"value for state '{program.state.name}' must have shape \[2\]"
        ):
            program.state.write(value, program.scope)
    assert program.read().tolist() == [1, 2]
    program.state.write(np.array([HIGH, LOW]), program.scope)
    assert program.run([-1, 1]).tolist() == [HIGH - 1, LOW + 1]


def test_states_are_saved_and_loaded_with_the_other_persistables(tmp_path):
    program, floats = Program((3,)), Program(dtype="float64")
    expected = program.run([2**53 + 1, HIGH, LOW])
    expected_float = floats.run(0.1, 1e300)
    for saved in (program, floats):
        with static_mode(), paddle.static.scope_guard(saved.scope):
            paddle.static.save(saved.main, str(tmp_path / saved.state.name))
        saved.scope = paddle.static.Scope()
        saved.run(None)
        with static_mode(), paddle.static.scope_guard(saved.scope):
            paddle.static.load(saved.main, str(tmp_path / saved.state.name), saved.executor)
    assert program.read().tolist() == expected.tolist() and program.read().dtype == np.int64
    assert floats.read().tobytes() == expected_float.tobytes()
    assert program.run([1, -1, 1]).tolist() == (expected + np.array([1, -1, 1])).tolist()


# -- training and test programs --------------------------------------------------------------------------


class Training:
    """A small regression that is trained, with or without a metric in its program."""

    def __init__(self, metric=None, where="after"):
        paddle.seed(7)
        self.scope, self.executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
        with new_programs() as (self.main, self.startup):
            self.x = paddle.static.data("x", [-1, 2], "float32")
            self.y = paddle.static.data("y", [-1, 1], "float32")
            self.prediction = paddle.static.nn.fc(self.x, 1, weight_attr=constant(0.5), bias_attr=constant(0.0))
            self.loss = paddle.mean(paddle.square(self.prediction - self.y))
            self.test = None
            if metric is not None and where == "before":
                metric.add(self.prediction, self.y)
            self.test = self.clone()
            paddle.optimizer.SGD(0.1).minimize(self.loss)
            if metric is not None and where == "after":
                metric.add(self.prediction, self.y)

    def clone(self):
        return self.main.clone()

    def train(self, steps=3):
        """Run it, and return each step's loss and the weights in the end, as bytes."""
        rng = np.random.default_rng(0)
        with static_mode(), paddle.static.scope_guard(self.scope):
            self.executor.run(self.startup)
            losses = [self.run(self.main, rng, [self.loss])[0].tobytes() for _ in range(steps)]
        weights = [np.array(self.scope.find_var(name).get_tensor()).tobytes() for name in parameters(self.main)]
        return losses, weights

    def run(self, program, rng, fetch_list=None):
        x = rng.normal(size=(8, 2)).astype("float32")
        feeds = {"x": x, "y": (x @ [[1], [2]]).astype("float32")}
        return self.executor.run(program, feed=feeds, fetch_list=fetch_list)


def constant(value):
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(value))


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_metric_before_or_after_minimize_leaves_training_as_it_is(where):
    metric = fm.MeanSquaredError(name=fresh("mse"))
    training = Training(metric, where)
    losses, weights = training.train()
    assert (losses, weights) == Training().train()
    expected = np.mean([np.frombuffer(loss, np.float32)[0] for loss in losses])
    assert metric.compute(training.scope) == pytest.approx(expected, rel=1e-6)
    assert fm.sum(f"{metric.name}.total", training.scope) == 24


@on_legacy_graph
def test_a_test_clone_of_the_legacy_graph_accumulates_into_the_same_variables():
    class WithClone(Training):
        def clone(self):
            return self.main.clone(for_test=True)

    metric = fm.Count(name=fresh("count"))
    training = WithClone(metric, "before")
    training.train(steps=2)
    with static_mode(), paddle.static.scope_guard(training.scope):
        training.run(training.test, np.random.default_rng(1))
        assert metric.compute() == 24
        metric.reset()
        training.run(training.test, np.random.default_rng(1))
    assert metric.compute(training.scope) == 8
    assert [state.name for state in static.states(training.test)] == [f"{metric.name}.{n}" for n in names_of(metric)]


@on_pir
def test_a_clone_in_pir_accumulates_into_the_same_variables():
    class WithClone(Training):
        def clone(self):
            clone = self.main.clone()
            clone.set_is_test_attr()
            return clone

    metric = fm.Count(name=fresh("count"))
    training = WithClone(metric, "before")
    _, weights = training.train(steps=2)
    with static_mode(), paddle.static.scope_guard(training.scope):
        training.run(training.test, np.random.default_rng(1))
        assert metric.compute() == 24
        metric.reset()
        training.run(training.test, np.random.default_rng(1))
    assert metric.compute(training.scope) == 8
    assert weights == [np.array(training.scope.find_var(n).get_tensor()).tobytes() for n in parameters(training.main)]
    assert [state.name for state in static.states(training.test)] == [f"{metric.name}.{n}" for n in names_of(metric)]


def names_of(metric):
    return ["seen", "invalid", "first_invalid", *metric.states]


def test_a_test_program_of_its_own_shares_the_metric_on_purpose():
    name = fresh("shared")
    metric, of_test = fm.Count(name=name), fm.Count(name=name, share=True)
    feed = StaticFeed(metric, Data(np.ones(2), None))
    other = StaticFeed(of_test, Data(np.ones(3), None), feed.scope)
    feed.run([Data(np.ones(2), None)])
    other.run([Data(np.ones(3), None)])
    assert metric.compute(feed.scope) == of_test.compute(feed.scope)


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_batches_of_any_size_run_through_one_program(batch):
    metric = fm.MetricCollection([fm.AUC(name="auc"), fm.MeanAbsoluteError(name="mae"), fm.Max(name="max")])
    data = contract.draw("auc", ("float32", "int64"), "eighths", mask=True, samples=100)
    feed = StaticFeed(metric, data)
    feed.run([data.rows(0, 10), data.rows(10, 10 + batch), data.rows(10 + batch, 100)])
    assert metric.compute(feed.scope)["auc"] == pytest.approx(contract.expected("auc", data), rel=1e-12)


class Named(Training):
    """The same, as in a new process: with the names of the first program."""

    def __init__(self, metric=None):
        with paddle.utils.unique_name.guard():
            super().__init__(metric)


@pytest.mark.filterwarnings("ignore:This list is not set:UserWarning", "ignore:Failed to load:RuntimeWarning")
@pytest.mark.parametrize("way", ["save", "save_vars"])
def test_a_checkpoint_from_before_the_metrics_were_added_loads_and_says_what_begins_anew(way, tmp_path):
    old, count = Named(), fm.Count(name=f"count of {way}")
    _, weights = old.train()
    path = str(tmp_path / "it")
    with static_mode(), paddle.static.scope_guard(old.scope):
        if way == "save":
            paddle.static.save(old.main, path)
        else:
            own = [each for each in old.main.list_vars() if each.persistable and each.name in parameters(old.main)]
            paddle.static.io.save_vars(old.executor, path, old.main, vars=own)
    new = Named(fm.MetricCollection({"mse": fm.MeanSquaredError(), "count": count}, name=f"all of {way}"))
    new.train()
    with static_mode(), paddle.static.scope_guard(new.scope):
        if way == "save_vars" and PIR:
            with pytest.raises(fm.InvalidInputError, match="holds no variable that"):
                fm.static.load(new.main, path)  # which reads no such folder in PIR
            return
        with pytest.warns(
            UserWarning, match=r"it was saved without these states .* from zero: .*Everything else"
        ) as told:
            fm.static.load(new.main, path)
        text = next(str(each.message) for each in told if "saved without" in str(each.message))
        assert all(state.name in text for state in fm.static.states(new.main))
    found = [np.array(new.scope.find_var(name).get_tensor()).tobytes() for name in parameters(new.main)]
    assert found == weights and states_of(count, new.scope) == 0
    with static_mode(), paddle.static.scope_guard(new.scope):
        new.run(new.main, np.random.default_rng(0))
        paddle.static.save(new.main, path)
        new.run(new.main, np.random.default_rng(0))
        fm.static.load(new.main, path)  # with the states: nothing to say
    assert states_of(count, new.scope) == 8


def states_of(metric, scope):
    (state,) = metric.own_states()
    return state.read(scope)


def test_labels_that_are_checked_to_be_classes_are_not_split_as_large_integers_are():
    def splits(*metrics):
        with new_programs() as (main, _):
            score, label = (
                paddle.static.data(name, [None], dtype) for name, dtype in (("s", "float32"), ("y", "int64"))
            )
            fm.MetricCollection([kind(name=fresh("metric")) for kind in metrics], name=fresh("all")).add(score, label)
            operators = [each.name() if PIR else each.type for each in main.global_block().ops]
        return any("bitwise_and" in operator for operator in operators)

    assert splits(fm.MeanAbsoluteError) and not splits(fm.MeanAbsoluteError, fm.Accuracy)
