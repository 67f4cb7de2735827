"""Reading a value out of whatever holds it; and the states of NumPy arrays and tensors."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

from fleetmetrics import FleetMetricsError, IntegerOverflowError, InvalidInputError, StateNotFoundError
from fleetmetrics.numbers.reductions import combine, identity
from fleetmetrics.state.state import State, name_of, read
from tests.contract import new_programs, static_mode
from tests.paddle_version import PIR, on_legacy_graph, on_pir

NUMBERS = {"int64": [2**63 - 1, -(2**63)], "float64": [0.1, -np.inf], "float32": [0.5, 2.0**24], "bool": [True, False]}


# -- reading ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "uint64"])
def test_integers_and_bools_are_read_as_int64(dtype):
    array = read(np.array([[0, 1]], dtype))
    assert array.dtype == np.int64 and array.tolist() == [[0, 1]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_read_as_float64(dtype):
    array = read(np.array(0.5, dtype))
    assert array.dtype == np.float64 and array.shape == () and array == 0.5


@pytest.mark.parametrize(
    "value, expected", [(3, 3), (0.5, 0.5), (True, 1), ([[1, 2]], [[1, 2]]), ((), []), (2**53 + 1, 2**53 + 1)]
)
def test_numbers_and_lists_are_read_as_they_are(value, expected):
    assert read(value).tolist() == expected


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [[2], [2, 1], [1, 2]])
def test_a_dynamic_tensor_is_read_without_loss(dtype, shape):
    array = np.array(NUMBERS[dtype], dtype).reshape(shape)
    assert read(paddle.to_tensor(array)).tolist() == array.tolist()


def test_tensors_without_axes_without_entries_and_of_bfloat16_are_read():
    assert read(paddle.to_tensor(7)).shape == ()
    assert read(paddle.zeros([0, 3])).shape == (0, 3)
    assert read(paddle.to_tensor([0.5], dtype="bfloat16")).tolist() == [0.5]


@pytest.mark.parametrize("value", [b"text", None, 1j, [1j], object(), {"a": 1}, np.array(["a"]), [[1], [2, 3]]])
def test_an_argument_without_numbers_is_an_error_that_names_it_and_its_type(value):
    with pytest.raises(
        InvalidInputError, match=r"^stat_pos (must hold bools, integers or floats, not|has no rect)"
    ) as error:
        read(value, argument="stat_pos")
    assert type(value).__name__ in str(error.value) or "rectangular" in str(error.value)


def test_an_unsigned_integer_above_int64_is_an_error_that_gives_it():
    with pytest.raises(IntegerOverflowError, match=r"^total holds 9223372036854775808; the largest .* 2\*\*63 - 1"):
        read(np.array([2**63], np.uint64), argument="total")


# -- reading from a scope --------------------------------------------------------------------------------


NAMES = {"stat_pos": [[1, 2**53 + 1]], "stat_neg": [[3, 4]], "correct": [5], "loss": 0.5}


@pytest.fixture
def scope():
    scope = paddle.static.Scope()
    for name, value in NAMES.items():
        scope.var(name).get_tensor().set(np.array(value), paddle.CPUPlace())
    return scope


def test_a_name_is_looked_up_in_the_scope_that_is_given(scope):
    assert read("stat_pos", scope).tolist() == [[1, 2**53 + 1]]
    assert read("loss", scope) == 0.5


def test_a_name_is_looked_up_in_the_guarded_scope(scope):
    with paddle.static.scope_guard(scope):
        assert read("correct").tolist() == [5]


def test_a_variable_of_an_outer_scope_is_found(scope):
    assert read("correct", scope.new_scope()).tolist() == [5]


@pytest.fixture
def program(scope):
    """A current program with the scope's variables: a scope of Paddle 2.6 does not tell what it holds."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        for name in () if PIR else NAMES:
            main.global_block().create_var(name=name, shape=[1], dtype="int64")
        yield main
    paddle.disable_static()


def test_an_unknown_name_is_an_error_that_names_it_and_the_candidates(scope, program):
    with pytest.raises(
        StateNotFoundError, match=r"^stat: no variable 'stat_poz' in the scope \(names there: "
    ) as error:
        read("stat_poz", scope, "stat")
    assert "stat_pos" in str(error.value) and "startup program" in str(error.value)
    assert isinstance(error.value, FleetMetricsError) and isinstance(error.value, LookupError)


def test_a_name_like_no_other_is_an_error_that_lists_what_there_is(scope, program):
    with pytest.raises(StateNotFoundError, match="correct, loss, stat_neg, stat_pos"):
        read("zzzzzz", scope)
    with pytest.raises(StateNotFoundError, match="no variable of the current program is there"):
        read("zzzzzz", paddle.static.Scope())


def test_a_variable_that_holds_nothing_yet_is_an_error_that_says_so(scope):
    scope.var("later").get_tensor()
    with pytest.raises(
        StateNotFoundError, match="'later' is in the scope but holds nothing yet; run the startup program"
    ):
        read("later", scope)


@on_legacy_graph
def test_a_legacy_variable_is_read_by_its_name(scope):
    with new_programs() as programs:
        variable = paddle.static.create_global_var([1, 2], 0, "int64", persistable=True, name="stat_pos")
        missing = paddle.static.create_global_var([1], 0, "int64", persistable=True, name="stat_pot")
    assert name_of(variable) == "stat_pos" and read(variable, scope).tolist() == [[1, 2**53 + 1]]
    error = pytest.raises(StateNotFoundError, match=r"no variable 'stat_pot' in the scope .*stat_pos")
    with paddle.static.program_guard(programs[0]), error:
        read(missing, scope)


@on_pir
def test_a_pir_value_with_a_name_is_read_by_it(scope):
    with new_programs() as programs:  # noqa: F841, they must live
        value = paddle.pir.core.create_persistable_value(
            dtype="int64", shape=[1, 2], name="stat_pos", initializer=paddle.nn.initializer.Constant(0.0)
        )
    assert name_of(value) == "stat_pos" and read(value, scope).tolist() == [[1, 2**53 + 1]]


@on_pir
def test_a_pir_intermediate_has_no_name_and_the_error_says_what_to_do(scope):
    with new_programs() as programs:  # noqa: F841, they must live
        value = paddle.static.data("x", [2], "int64") + 1
    with pytest.raises(
        InvalidInputError, match=r"^correct is an intermediate value .* no name; pass a persistable state"
    ) as error:
        read(value, scope, "correct")
    assert "exe.run" in str(error.value)


def test_data_of_a_program_that_never_ran_is_not_found(scope):
    with new_programs() as programs:  # noqa: F841, they must live
        data = paddle.static.data("never_fed", [2], "int64")
    with pytest.raises(StateNotFoundError, match="'never_fed'"):
        read(data, scope)


def test_pir_and_the_legacy_graph_are_told_apart():
    with static_mode():
        in_pir_mode = getattr(paddle.framework, "in_pir_mode", bool)
        assert in_pir_mode() == PIR


# -- states ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_a_state_is_born_at_its_identity_and_returns_there(reduction, dtype):
    state = State("mine", (2, 3), dtype, reduction)
    empty = np.full((2, 3), identity(reduction, dtype))
    assert state.read().tobytes() == empty.tobytes() and state.read().dtype == dtype
    state.accumulate(np.ones((2, 3), dtype))
    assert (state.read() == 1).all()
    state.reset()
    assert state.read().tobytes() == empty.tobytes() and state.read().dtype == dtype


@pytest.mark.parametrize("make", [np.asarray, paddle.to_tensor], ids=["numpy", "dynamic"])
@pytest.mark.parametrize("reduction, expected", [("sum", [5, -3]), ("max", [4, 2]), ("min", [1, -5])])
def test_a_state_accumulates_by_its_reduction(reduction, expected, make):
    state = State("mine", (2,), "int64", reduction)
    for increment in ([1, 2], [4, -5]):
        state.accumulate(make(np.array(increment)))
    assert state.read().tolist() == expected and state.read().dtype == np.int64


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_sum_of_integers_that_does_not_fit_is_an_error_and_changes_nothing(shape):
    state = State("mine", shape, "int64", "sum")
    state.accumulate(np.full(shape, 2**63 - 1)[()])
    with pytest.raises(IntegerOverflowError):
        state.accumulate(np.ones(shape, np.int64)[()])
    assert (state.read() == 2**63 - 1).all()


@pytest.mark.parametrize("make", [np.asarray, paddle.to_tensor], ids=["numpy", "dynamic"])
def test_floats_make_an_integer_state_a_float64(make):
    state = State("mine", (), "int64", "sum")
    state.accumulate(make(np.array(2**24, np.int64)))
    state.accumulate(make(np.array(0.5, np.float64)))
    state.accumulate(make(np.array(1, np.int64)))
    assert state.read().dtype == np.float64 and state.read() == 2**24 + 1.5


def test_a_state_moves_to_the_device_with_the_first_tensor():
    state = State("mine", (), "int64", "sum")
    state.accumulate(np.int64(2**62))
    state.accumulate(paddle.to_tensor(5))
    assert isinstance(state.value, paddle.Tensor) and state.read() == 2**62 + 5


@pytest.mark.parametrize("shape", [(), (2,)])
def test_an_overflow_says_what_was_summed(shape):
    large = np.full(shape, 2**62)[()]
    state, other = (State(name, shape, "int64", "sum") for name in ("mine", "other"))
    state.accumulate(large)
    with pytest.raises(IntegerOverflowError, match="the sum over the batches of this worker at"):
        state.accumulate(large)
    other.accumulate(large)
    with pytest.raises(IntegerOverflowError, match="the sum over what is merged at"):
        state.together([{state: each.saved()} for each in (state, other)])
    with pytest.raises(IntegerOverflowError, match="the sum over 2 workers at"):
        combine("sum", [state.read(), other.read()])
