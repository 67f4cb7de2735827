"""Moments of parts are those of all samples, in the arithmetic of a batch and in that of whole numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, Sequence

import numpy as np
import pytest

from fleetmetrics.numbers.moments import RESTS, WIDTHS, merged, merged_exactly, merged_floats, words_of
from fleetmetrics.xp import numpy_ops

pytestmark = pytest.mark.numpy_only


def sums_of(group: Sequence[float]) -> list[Fraction]:
    """What can be added: the weight, the sums of w x, and those of the products."""
    weight, *numbers = map(Fraction, group)
    size = len(group) // 4
    means = [x + rest for x, rest in zip(numbers[:size], numbers[-size:])]
    pairs = [x * y for place, x in enumerate(means) for y in means[place:]]
    squares = [each + weight * pair for each, pair in zip(numbers[size:], pairs)]
    return [weight, *[weight * x for x in means], *squares]


def moments_of(totals: Sequence[Fraction], size: int) -> list[float]:
    """The moments of such sums, each rounded once."""
    weight, sums, products = totals[0], totals[1 : 1 + size], totals[1 + size :]
    means = [each / weight for each in sums]
    pairs = [x * y for place, x in enumerate(means) for y in means[place:]]
    about = [each - weight * pair for each, pair in zip(products, pairs)]
    rest = [float(x - Fraction(float(x))) for x in means]
    return [float(weight), *map(float, means), *map(float, about), *rest]


def groups_of(kind: str, number: int, seed: int = 0) -> np.ndarray:
    """Groups of timestamps, whose means have a second word, and whose second variable falls with the first."""
    rng = np.random.default_rng(seed)
    found = []
    for weight in rng.permutation([0.3, 1.0, 2.0, 17.25, 1000.0, 3.0])[:number]:
        spread = rng.random() * weight
        means = 1.7e9 + rng.normal(0, 100, 2)
        rests = rng.normal(0, 1e-8, 2)
        if kind == "moments":
            found.append([weight, means[0], spread, rests[0]])
        else:
            found.append([weight, *means, spread, -0.7 * spread, 2 * spread, *rests])
    return np.array(found)


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("seed", range(4))
def test_two_groups_have_the_moments_of_all_samples_to_the_last_digits(kind: str, seed: int) -> None:
    one, other = groups_of(kind, 2, seed)
    totals = [a + b for a, b in zip(sums_of(one), sums_of(other))]
    size = WIDTHS[kind] // 4
    weight, *wanted = moments_of(totals, size)
    ways = [
        merged_floats(one.tolist(), other.tolist()),
        merged_floats(other.tolist(), one.tolist()),
        merged(numpy_ops, np.stack([one, other])).tolist(),
        merged(numpy_ops, np.stack([other, one])[:, None])[0].tolist(),
    ]
    for found in ways:
        assert found[0] == weight
        assert found[1 + size : -size] == pytest.approx(wanted[size:-size], rel=1e-14)
        for place in range(size):  # both words together: as good as the step from one mean to the other
            mean, true = [Fraction(each[1 + place]) + Fraction(each[place - size]) for each in (found, [0, *wanted])]
            assert abs(mean - true) < 3e-14, (found, wanted)


@pytest.mark.parametrize("kind", WIDTHS)
def test_groups_without_samples_change_nothing(kind: str) -> None:
    nothing, group = [0.0] * WIDTHS[kind], groups_of(kind, 1)[0].tolist()
    assert merged_floats(nothing, nothing) == merged(numpy_ops, np.array([nothing, nothing])).tolist() == nothing
    for parts in ([group, nothing], [nothing, group]):
        assert merged_floats(*parts) == group
        assert merged(numpy_ops, np.array(parts)).tolist() == group
        assert merged_exactly(kind, [np.array(each) for each in parts], [None, None])[0].tolist() == group
    assert merged_exactly(kind, [np.array(nothing)] * 2, [None, None])[0].tolist() == nothing


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("scale", [1.0, 2.0**-300, 2.0**200])
def test_every_tree_of_merges_has_the_rounded_moments_of_all_samples(kind: str, scale: float) -> None:
    size = WIDTHS[kind] // 4
    powers = np.array([0, *[1] * size, *[2] * (2 * size - 1 + size // 2), *[1] * size])[: WIDTHS[kind]]
    powers[-size:] = 1
    groups = list(groups_of(kind, 5) * scale**powers)
    wanted = moments_of([sum(each) for each in zip(*map(sums_of, groups))], size)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 4, 1, 0, 2]):
        value, rest = groups[order[0]], None
        for at in order[1:]:
            value, rest = merged_exactly(kind, [groups[at], value], [None, rest])
        assert value.tolist() == wanted
        left, its = merged_exactly(kind, [groups[at] for at in order[:2]], [None, None])
        right, theirs = merged_exactly(kind, [groups[at] for at in order[2:]], [None] * 3)
        value, again = merged_exactly(kind, [left, right], [its, theirs])
        assert value.tolist() == wanted
        assert merged_exactly(kind, [left, right], [its, theirs], keep=False)[1] is None
        for words in (rest, again):  # with its rest, the value is the sum of everything added
            assert words is not None and words.shape[1:] == (RESTS[kind],)
            exact = [a + sum(map(Fraction, b)) for a, b in zip(sums_of(value), words.T.tolist())]
            assert exact == [sum(each) for each in zip(*map(sums_of, groups))]


@pytest.mark.parametrize("kind", WIDTHS)
def test_a_mean_of_integers_that_is_a_third_has_its_rest(kind: str) -> None:
    size = WIDTHS[kind] // 4
    groups = [np.array([1.0, *[each] * size, *[0.0] * (WIDTHS[kind] - 1 - size)]) for each in (0.0, 0.0, 1.0)]
    value, rest = merged_exactly(kind, groups, [None] * 3)
    assert value.tolist() == moments_of([sum(each) for each in zip(*map(sums_of, groups))], size)
    assert rest is not None  # the squared deviations are two thirds
    assert merged_exactly(kind, [value, groups[2]], [rest, None])[0].tolist()[1] == 0.5


def test_a_part_alone_with_its_rest_is_rounded_once_more() -> None:
    groups = groups_of("moments", 3)
    value, rest = merged_exactly("moments", list(groups), [None] * 3)
    again, the_same = merged_exactly("moments", [value], [rest])
    assert again.tolist() == value.tolist() and rest is not None and the_same is not None
    assert the_same.tolist() == rest.tolist()
    assert merged_exactly("moments", [np.array([1.0, 3.0, 0.0, 0.0])] * 2, [None, None])[1] is None  # nothing is left


def test_states_of_many_groups_have_a_rest_each_of_its_own_length() -> None:
    short, long = np.array([1.0, 2.0, 0.0, 0.0]), groups_of("moments", 1)[0]
    parts = [np.stack([short, long]), np.stack([short, [1e-9, 5.0, 1e-30, 0.0]])]
    value, rest = merged_exactly("moments", parts, [None, None])
    assert value[0].tolist() == [2.0, 2.0, 0.0, 0.0] and rest is not None and len(rest) > 1
    assert not rest[:, 0].any() and rest[:, 1].any()
    for place in range(2):
        own = merged_exactly("moments", [part[place] for part in parts], [None, None])
        assert value[place].tolist() == own[0].tolist()


def test_states_of_many_groups_keep_the_rest_of_each_through_a_tree_of_merges() -> None:
    parts = [np.stack([groups_of("moments", 6, seed)[place] for seed in range(3)]) for place in range(6)]
    value, rest = parts[0], None
    for part in parts[1:]:
        value, rest = merged_exactly("moments", [value, part], [rest, None])
    assert rest is not None and len(rest) > 1
    for place in range(3):
        own = [part[place] for part in parts]
        assert value[place].tolist() == moments_of([sum(each) for each in zip(*map(sums_of, own))], 1)


@pytest.mark.parametrize("kind", WIDTHS)
def test_what_has_no_weight_has_no_moments(kind: str) -> None:
    groups = [np.array([0.0, each, *[0.0] * (WIDTHS[kind] - 2)]) for each in (5.0, 7.0)]
    assert merged_exactly(kind, groups, [None, None])[0].tolist() == [0.0] * WIDTHS[kind]


def test_what_is_below_the_range_of_floats_ends_the_rest() -> None:
    groups = [np.array([1.0, each, 0.0, 0.0]) for each in (1e-200, 3e-200)]
    value, rest = merged_exactly("moments", groups, [None, None])
    assert value.tolist() == [2.0, 2e-200, 0.0, 0.0]
    assert merged_exactly("moments", [value, groups[0]], [rest, None])[0].tolist()[0] == 3.0


def test_the_rest_above_the_range_of_floats_is_kept_where_more_is_below_it() -> None:
    groups = [np.array([1.0, each, 0.0, 0.0]) for each in (1e-150, 3e-150)]
    value, rest = merged_exactly("moments", groups, [None, None])
    assert rest is not None
    exact = sum(sums_of(group)[2] for group in groups)
    least = Fraction(5e-324)
    assert abs(sums_of(value)[2] - exact) > 1000 * least
    assert abs(sums_of(value)[2] + sum(map(Fraction, rest[:, 2].tolist())) - exact) <= least / 2


def test_large_numbers_that_cancel_sum_to_no_words() -> None:
    for values in ([0.0], [1.0, -1.0], [1e308, 1e308, -1e308, -1e308]):
        assert words_of(values)[0] == words_of(values, 1)[0] == 0.0
    assert words_of([1e308, 1e308, -1e308, 1.0, 2.0**-80], 2) == [1e308, 1.0]
    assert words_of([1.0, 2.0**-80, 2.0**-160], 2) == [1.0, 2.0**-80]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e200])
def test_moments_that_are_not_finite_are_the_same_in_every_order(bad: float) -> None:
    groups = [np.array([1.0, bad, 0.0, 0.0]), np.array([2.0, -1e200, 0.0, 0.0]), np.array([3.0, 1.0, 1.0, 0.0])]
    with np.errstate(all="ignore"):
        found = [
            merged_exactly("moments", list(order), [None] * 3)[0].tobytes() for order in itertools.permutations(groups)
        ]
    assert len(set(found)) == 1
    assert not np.isfinite(np.frombuffer(found[0])).all()


def test_of_two_variables_the_one_that_is_a_number_is_the_same_in_every_order() -> None:
    means = [(math.nan, 0.1), (5.0, 0.7), (-5.0, 1e16), (math.nan, 0.3)]
    groups = [np.array([1.0, *each, *[0.0] * 5]) for each in means]
    found = [merged_exactly("comoments", list(order), [None] * 4)[0] for order in itertools.permutations(groups)]
    assert len({value.tobytes() for value in found}) == 1
    assert math.isnan(found[0][1]) and math.isfinite(found[0][2])


def test_squared_deviations_are_never_below_zero_and_products_may_be() -> None:
    falling = [np.array([1.0, x, -x, 0.0, 0.0, 0.0, 0.0, 0.0]) for x in (0.1, 0.2, 0.7)]
    value, _ = merged_exactly("comoments", falling, [None] * 3)
    assert value[3] > 0 > value[4] and value[5] > 0
    negative = [np.array([1.0, 0.0, -(2.0**-60), 0.0]), np.array([1.0, 0.0, 0.0, 0.0])]
    assert merged_exactly("moments", negative, [None, None])[0].tolist() == [2.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1e308, 1e308, -1e308], [1e308]),
        ([1e308, 1e308, -1e308, 1.0], [1e308, 1.0]),
        ([1e308, 1e308], [math.inf]),
        ([-1e308, -1e308], [-math.inf]),
        ([math.inf, 1e308, 1e308], [math.inf]),
        ([-math.inf, 1.0], [-math.inf]),
        ([1.0, 2.0**-80, 2.0**-160, 2.0**-240], [1.0, 2.0**-80, 2.0**-160, 2.0**-240]),
        ([5e-324, 5e-324], [1e-323]),
    ],
)
def test_words_are_the_exact_sum_in_any_order_of_additions(values: list[float], wanted: list[float]) -> None:
    for order in itertools.permutations(values):
        found = words_of(list(order))
        assert [each for each in found if each] == wanted
        assert words_of(list(order), 1) == wanted[:1]


def test_a_sum_without_a_number_is_nan() -> None:
    values: Any
    for values in ([math.inf, -math.inf], [math.nan, 1.0], [math.nan, math.inf]):
        assert np.isnan(words_of(values)).tolist() == [True]
        assert math.copysign(1, words_of(values)[0]) == 1  # the same bits on every rank
