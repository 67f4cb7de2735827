from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fleetmetrics.errors import IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers.exact_sums import sum_in_words
from fleetmetrics.numbers.reductions import check_rest, combine, combine_exactly, distinct_of, identity, sum_of_numbers


def bits(array: np.ndarray) -> list[int]:
    return np.ascontiguousarray(array).view(np.int64).reshape(-1).tolist()


def rounded_exact_sum(column: list[float]) -> float:
    exact = sum(map(Fraction, column), Fraction(0))
    if exact == 0:
        return -0.0 if all(math.copysign(1, value) < 0 for value in column) else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def random_floats(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    if kind == "bits":
        values = rng.integers(0, 2**64, size, dtype=np.uint64).view(np.float64)
        return np.where(np.isfinite(values), values, 1.0)
    if kind == "subnormal":
        return rng.integers(-(2**20), 2**20, size) * 5e-324
    if kind == "wide":
        return rng.standard_normal(size) * 10.0 ** rng.integers(-200, 200, size)
    if kind == "halves":  # ties, and what lies just beside them
        return rng.choice([1.0, 2.0**-53, -(2.0**-53), 2.0**-106, 2.0**53, 1.0 + 2.0**-52], size)
    return rng.standard_normal(size)


@pytest.mark.parametrize("kind", ["bits", "subnormal", "wide", "halves", "alike"])
@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_a_sum_of_floats_is_the_rounded_exact_sum(kind: str, workers: int) -> None:
    rng = np.random.default_rng(workers)
    arrays = [random_floats(rng, kind, 300) for _ in range(workers)]
    if workers > 2:
        arrays[1][:100] = -arrays[0][:100]  # cancellation
    result = combine("sum", arrays)
    expected = [rounded_exact_sum([float(array[i]) for array in arrays]) for i in range(300)]
    assert bits(result) == bits(np.array(expected))


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_the_order_of_the_ranks_leaves_no_trace(reduction: str) -> None:
    special = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 1.0, 5e-324, 1e16]
    for column in itertools.combinations_with_replacement(special, 3):
        results = {
            bits(combine(reduction, [np.array([value]) for value in order]))[0]
            for order in itertools.permutations(column)
        }
        assert len(results) == 1, (reduction, column)


@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_all_that_is_not_a_number_has_the_same_bits(reduction: str, size: int) -> None:
    odd = np.array([0x7FF8000000000001, -1], np.int64).view(np.float64)
    columns = [np.full(size, each) for each in (*odd, 1.0)]
    for order in itertools.permutations(columns):
        assert bits(combine(reduction, order)) == bits(np.full(size, math.nan))


@pytest.mark.parametrize("size", [1, 40])
def test_a_sum_just_below_the_middle_under_a_power_of_two_is_rounded_down(size: int) -> None:
    """The neighbors of 1 are nearer below it than above it."""
    arrays = [np.full(size, value) for value in (1.0, -(2.0**-54), -(2.0**-120))]
    assert combine("sum", arrays).tolist() == [1 - 2.0**-53] * size


@pytest.mark.parametrize("sign", [1, -1])
def test_an_exact_sum_has_as_many_words_as_it_needs(sign: int) -> None:
    terms = [np.array([sign * value]) for value in (1e200, 1.0, 1e-200)]
    assert [word.item() for word in sum_in_words(terms)] == [sign * 1e200, sign * 1.0, sign * 1e-200]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1e308, 1e308, -1e308], 1e308),
        ([1.7e308, 1.7e308, 1.0], math.inf),
        ([math.inf, 1.0, -math.inf], math.nan),
        ([math.inf, 1e308, 1e308], math.inf),
        ([math.nan, math.inf, 1.0], math.nan),
        ([-0.0, -0.0, -0.0], -0.0),
        ([1.0, -1.0, -0.0], 0.0),
        ([1e308, 1e308, -math.inf], -math.inf),
    ],
)
def test_special_values_follow_ieee(column: list[float], expected: float) -> None:
    assert bits(combine("sum", [np.array([value]) for value in column])) == bits(np.array([expected]))


def test_integers_are_summed_as_integers() -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.integers(-(2**62), 2**62, 500) for _ in range(3)]
    arrays[2] = -(arrays[0] // 2 + arrays[1] // 2)
    expected = [sum(int(array[i]) for array in arrays) for i in range(500)]
    assert combine("sum", arrays).tolist() == expected
    assert combine("sum", [np.array([2**24]), np.array([1])]).tolist() == [2**24 + 1]


def test_integers_may_pass_the_limit_on_the_way() -> None:
    top, one = np.array(2**63 - 1), np.array(1)
    assert int(combine("sum", [top, one, -one])) == 2**63 - 1
    bottom = np.array(-(2**63))
    assert int(combine("sum", [bottom, top])) == -1


@pytest.mark.parametrize("total", [2**63, -(2**63) - 1])
def test_an_overflow_of_many_integers_or_of_two_numbers_is_never_a_number(total: int) -> None:
    halves = total // 2, total - total // 2
    with pytest.raises(IntegerOverflowError, match=rf"position \[0\] is {total}"):
        combine("sum", [np.full(100, half) for half in halves])
    with pytest.raises(IntegerOverflowError, match=str(total)):
        sum_of_numbers(*halves)


def test_an_integer_that_no_float_holds_is_exact_beside_one() -> None:
    value, rest = combine_exactly("sum", [np.array(2**53 + 1), np.array(-1.0)], [None, None])
    assert (value.item(), rest) == (2.0**53, None)
    value, rest = combine_exactly("sum", [np.array(-(2**53) - 1), np.array(0.0)], [None, None])
    assert rest is not None and (value.item(), rest.tolist()) == (-(2.0**53), [-1.0])


@pytest.mark.parametrize("values", [[], [3], [3, 1, 3, -2], ["b", "a", "b"]])
def test_distinct_values_rise(values: list[object]) -> None:
    array = np.array(values) if values else np.empty(0, np.int64)
    assert distinct_of(array).tolist() == sorted(set(values))  # type: ignore[type-var]


@pytest.mark.parametrize("total", [2**63, -(2**63) - 1])
def test_an_overflow_names_position_and_true_value(total: int) -> None:
    a, b = np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)
    a[1, 0], b[1, 0] = total // 2, total - total // 2
    with pytest.raises(IntegerOverflowError, match=rf"position \[1, 0\] is {total}"):
        combine("sum", [a, b])


@pytest.mark.parametrize(
    ("values", "negative"), [([-0.0, -0.0], True), ([-0.0] * 3, True), ([-0.0, 0.0], False), ([1.0, -1.0], False)]
)
def test_a_merged_zero_is_negative_if_all_parts_are(values: list[float], negative: bool) -> None:
    arrays = [np.array(value) for value in values]
    for result in (combine("sum", arrays), combine_exactly("sum", arrays, [None] * len(arrays))[0]):
        assert result == 0 and bool(np.signbit(result)) is negative


@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("how", ["max", "min"])
def test_extremes_of_few_numbers_and_of_many_have_the_same_bits(how: str, size: int) -> None:
    values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324]
    for column in itertools.product(values, repeat=3):
        found = combine(how, [np.full(size, value) for value in column])
        wanted = math.nan if any(map(math.isnan, column)) else {"max": max, "min": min}[how](column)
        if wanted == 0:
            negative = [math.copysign(1, value) < 0 for value in column]
            wanted = -0.0 if (all if how == "max" else any)(negative) else 0.0
        assert bits(found) == bits(np.full(size, wanted)), column


def test_maxima_and_minima() -> None:
    arrays = [np.array([1.0, -0.0, math.nan]), np.array([2.0, 0.0, 1.0])]
    assert bits(combine("max", arrays)) == bits(np.array([2.0, 0.0, math.nan]))
    assert bits(combine("min", arrays)) == bits(np.array([1.0, -0.0, math.nan]))
    assert combine("min", [np.array([-(2**63)]), np.array([3])]).tolist() == [-(2**63)]


def test_an_integer_beside_a_float_is_promoted() -> None:
    result = combine("sum", [np.array([1]), np.array([0.5])])
    assert result.dtype == np.float64
    assert result.tolist() == [1.5]


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_the_identity_changes_nothing(reduction: str, dtype: str) -> None:
    values = np.array([-3, 0, 7], dtype)
    neutral = np.full(3, identity(reduction, dtype))
    result = combine(reduction, [values, neutral, neutral])
    assert result.dtype == values.dtype
    assert bits(result) == bits(values)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_shapes_stay_and_the_result_is_new(shape: tuple[int, ...], workers: int) -> None:
    for dtype in (np.int64, np.float64):
        arrays = [np.ones(shape, dtype) for _ in range(workers)]
        for reduction, expected in (("sum", workers), ("max", 1), ("min", 1)):
            result = combine(reduction, arrays)
            assert result.shape == shape
            assert (result == expected).all()
            assert not any(np.shares_memory(result, array) for array in arrays)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: combine("mean", [np.array(1)]), "reduction is 'mean'"),
        (lambda: combine("sum", []), "arrays is empty"),
        (lambda: combine("sum", [np.array([1]), np.array([1, 2])]), "shapes"),
        (lambda: combine("sum", [np.array([1], np.int32)]), "int32"),
        (lambda: identity("sum", "float32"), "float32"),
    ],
)
def test_wrong_arguments_are_named(call: object, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(("reduction", "width"), [("moments", 4), ("comoments", 8)])
@pytest.mark.parametrize("states", [1, 2, 3, 5])
def test_moments_of_several_states_in_one_flat_array_are_merged_state_by_state(reduction, width, states):
    """The channel sends all states of one reduction as one array."""
    generator = np.random.default_rng(states)
    workers = [np.abs(generator.normal(size=(states, width))) for _ in range(3)]
    flat = combine(reduction, [each.reshape(-1) for each in workers])
    alone = [combine(reduction, [each[place] for each in workers]) for place in range(states)]
    assert flat.tobytes() == np.concatenate(alone).tobytes()


def test_only_sums_and_moments_of_floats_have_a_rest():
    value, rest = np.zeros(3), np.full((2, 3), 1e-20)
    check_rest("it", "sum", value, rest)
    check_rest("it", "moments", np.zeros((2, 4)), np.zeros((5, 2, 3)))
    for reduction, held, more in (
        ("max", value, rest),
        ("min", value, rest),
        ("sum", np.zeros(3, np.int64), rest),
        ("sum", value, rest.astype(np.float32)),
        ("sum", value, rest[:, :2]),
        ("sum", value, np.full((1, 3), np.nan)),
        ("sum", np.float64(0), np.float64(0)),
        ("moments", np.zeros((2, 4)), np.zeros((5, 2, 4))),
    ):
        with pytest.raises(InvalidInputError, match="it has an invalid rest"):
            check_rest("it", reduction, np.asarray(held), np.asarray(more))
