"""The two array namespaces do the same, in dynamic mode and inside a static program."""

from __future__ import annotations

import inspect

import numpy as np
import paddle
import pytest

from fleetmetrics.xp import is_eager_tensor, is_static, namespace, numpy_ops, paddle_ops
from tests.contract import new_programs

LOW, HIGH = -(2**63), 2**63 - 1
RNG = np.random.default_rng(0)
SCORES = RNG.integers(0, 4, (50, 5)) / 4
FLAGS = RNG.random(50) < 0.3
INTEGERS = np.array([LOW, LOW + 1, -1, 0, 1, 2**53 + 1, HIGH])
FLOATS = [-np.inf, -1e300, -1.0, -(2.0**-52), -1e-300, -0.0, 0.0, 1e-300, 0.5, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 2.0]
FLOATS = np.array([*FLOATS, 1e300, np.inf, np.nan])
FLOATS32 = np.array([-1e-37, 0.0, 1e-37, 0.5, 1.0, 1 + 2.0**-23, 3e38, np.inf, np.nan], np.float32)
EDGES = np.array([-1e300, -1 / 3, 1e-300, 1e-30, 0.1, 0.2, 0.1 * 3, 1 - 2.0**-53, 1.0, 1e30 + 1, 2**53 - 1.0, 1e200])
EDGES = np.sort(EDGES)
FINITE = np.append(EDGES, FLOATS[np.isfinite(FLOATS)])

#: A result, from the namespace and the inputs.
CASES = {
    "all_rows": (lambda xp, x: xp.all_rows(x), SCORES > 0),
    "at_least": (lambda xp, x: xp.at_least(x, 2.0**-52), np.array([0.0, 1e-300, 2.0**-52, 0.1])),
    "bucket float32": (lambda xp, x: xp.bucket(x, 4095), RNG.random(999, np.float32)),
    "bucket float64": (lambda xp, x: xp.bucket(x, 4095), RNG.random(999)),
    "bucket of many": (lambda xp, x: xp.bucket(x, 2**24 + 1), np.append(RNG.random(999), 1.0)),
    "bucket of integers": (lambda xp, x: xp.bucket(x, 7), np.array([0, 1])),
    "constant": (lambda xp, x: xp.add(xp.constant(EDGES), x), np.zeros(len(EDGES))),
    "count": (lambda xp, x: xp.count(x), FLOATS),
    "equal integers": (lambda xp, x, y: xp.equal(x, y), INTEGERS, INTEGERS + 0),
    "equal an integer and a float": (lambda xp, x, y: xp.equal(x, y), np.array([1, 2]), np.array([1.0, 2.5])),
    "greater float32": (lambda xp, x: xp.greater(x, 0.1), np.array([0.1, 0.1 + 1e-7], np.float32)),
    "greater float64": (lambda xp, x: xp.greater(x, 0.1), np.array([0.1, np.nextafter(0.1, 1)])),
    "is_class": (lambda xp, x: xp.is_class(x, 2), FLOATS),
    "is_class of integers": (lambda xp, x: xp.is_class(x, 3), INTEGERS),
    "is_probability": (lambda xp, x: xp.is_probability(x), FLOATS),
    "is_probability of float32": (lambda xp, x: xp.is_probability(x), FLOATS32),
    "is_probability of integers": (lambda xp, x: xp.is_probability(x), INTEGERS),
    "is_weight": (lambda xp, x: xp.is_weight(x), FLOATS),
    "isfinite": (lambda xp, x: xp.isfinite(x), FLOATS),
    "largest integer": (lambda xp, x: xp.extreme(x, None, "max"), INTEGERS),
    "least integer": (lambda xp, x: xp.extreme(x, None, "min"), INTEGERS),
    "largest of the kept": (lambda xp, x, k: xp.extreme(x, k, "max"), INTEGERS, INTEGERS < LOW + 2),
    "least of the kept": (lambda xp, x, k: xp.extreme(x, k, "min"), INTEGERS, INTEGERS > 2**53),
    "largest float of the kept": (lambda xp, x, k: xp.extreme(x, k, "max"), SCORES[:, 0], FLAGS),
    "least float of the kept": (lambda xp, x, k: xp.extreme(x, k, "min"), SCORES[:, 0], FLAGS),
    "bitwise_and": (lambda xp, x: xp.bitwise_and(x, 2**32 - 1), INTEGERS),
    "bitwise_xor": (lambda xp, x, y: xp.bitwise_xor(xp.reshape(x, [-1, 1]), y), INTEGERS, INTEGERS[::-1].copy()),
    "extreme_by": (lambda xp, i, x: xp.extreme_by(i, x, None, 9, "max"), np.arange(50) % 7, SCORES[:, 0]),
    "extreme_by of the kept": (
        lambda xp, i, x, k: xp.extreme_by(i, x, k, 3, "min"),
        np.arange(7) % 3,
        INTEGERS,
        INTEGERS > 0,
    ),
    "integers": (lambda xp, x: xp.equal(xp.integers(INTEGERS), x), INTEGERS),
    "minimum": (lambda xp, x, y: xp.minimum(x, y), INTEGERS, INTEGERS[::-1].copy()),
    "number": (lambda xp, x: xp.add(x, xp.number(2**40 + 1)), np.array([1, 2])),
    "position among integers": (lambda xp, x: xp.position(xp.integers(INTEGERS), x), INTEGERS),
    "quotient": (lambda xp, x: xp.quotient(x, 2**15), np.array([0, 1, 2**15 - 1, 2**15, 2**62 + 1])),
    "quotient of multiples": (lambda xp, x: xp.quotient(x, 2**32), np.array([-(2**63), -(2**32), 2**62])),
    "remainder": (lambda xp, x: xp.remainder(x, 7), np.array([0, 6, 7, 2**62])),
    "repeat": (lambda xp, x: xp.repeat(x, 3), FLAGS),
    "repeat of rows": (lambda xp, x: xp.repeat(x, 3), SCORES),
    "replaced": (lambda xp, x, i, r: xp.replaced(x, i, r, None), SCORES[:3] + 0, np.array(1), SCORES[9]),
    "replaced in vain": (
        lambda xp, x, i, r, k: xp.replaced(x, i, r, k),
        SCORES[:3] + 0,
        *map(np.array, (1, SCORES[9], 0)),
    ),
    "sum_of_columns": (lambda xp, x: xp.sum_of_columns(x), (SCORES * 2**60).astype(np.int64) // 64),
    "full_like": (lambda xp, x: xp.full_like(x, -np.inf), SCORES),
    "full_like of integers": (lambda xp, x: xp.full_like(x, -100), INTEGERS),
    "highest_of_rows": (lambda xp, s: xp.highest_of_rows(s), SCORES),
    "highest_of_rows of integers": (lambda xp, s: xp.highest_of_rows(s), (SCORES * 4).astype(np.int64)),
    "highest_of_rows of bools": (lambda xp, s: xp.highest_of_rows(s), SCORES > 0.5),
    "logical_not": (lambda xp, x: xp.logical_not(x), FLAGS),
    "logical_or": (lambda xp, x, y: xp.logical_or(x, y), FLAGS, FLAGS[::-1].copy()),
    "sum_of_rows": (lambda xp, s: xp.sum_of_rows(s), SCORES),
    "largest_of_rows": (lambda xp, s: xp.largest_of_rows(s), SCORES),
    "position": (lambda xp, x: xp.position(xp.constant(EDGES), x), FINITE),
    "position of the right": (
        lambda xp, x: xp.position(xp.constant(EDGES), x, True),
        FINITE,
    ),
    "rank_of_label": (lambda xp, s, y: xp.rank_of_label(s, y), SCORES, RNG.integers(0, 5, 50)),
    "scale": (lambda xp, x: xp.scale(x, 1 / 3), FLOATS),
    "sum of bools": (lambda xp, x: xp.sum(x), FLAGS),
    "sum of integers": (lambda xp, x: xp.sum(x), np.array([2**62, 2**62 - 1, -5])),
    "sum of float32": (lambda xp, x: xp.sum(x), np.array([2**24, 1, 1], np.float32)),
}

#: The same, where the last bit is left to the library.
ROUNDED = {
    "exp": (lambda xp, x: xp.exp(x), FLOATS[(FLOATS > -700) & (FLOATS < 700)]),
    "log1p": (lambda xp, x: xp.log1p(x), FLOATS[(FLOATS > -1) & np.isfinite(FLOATS)]),
    "power": (lambda xp, x: xp.power(x, 1.3), FLOATS[(FLOATS > 0) & (FLOATS < 1e200)]),
    "sinh": (lambda xp, x: xp.sinh(x), FLOATS[np.abs(FLOATS) < 700]),
    "sum_of_logs": (lambda xp, x: xp.sum_of_logs(x), np.append(np.full(20_000, 2.0**-52), RNG.random(999))),
    "sum_of_logs of few": (lambda xp, x: xp.sum_of_logs(x), np.array([2.0**-52, 0.5, 1.0])),
}


def in_static_program(call, inputs):
    with new_programs() as (main, _):
        names = [f"x{n}" for n in range(len(inputs))]
        data = [paddle.static.data(n, list(x.shape), str(x.dtype)) for n, x in zip(names, inputs)]
        result = call(paddle_ops, *data)
        executor = paddle.static.Executor(paddle.CPUPlace())
        return executor.run(main, feed=dict(zip(names, inputs)), fetch_list=[result])[0]


@pytest.mark.parametrize("case", CASES)
def test_numpy_dynamic_and_static_agree_in_value_and_dtype(case):
    call, *inputs = CASES[case]
    expected = np.asarray(call(numpy_ops, *inputs))
    dynamic = call(paddle_ops, *map(paddle.to_tensor, inputs)).numpy()
    for result in (dynamic, in_static_program(call, inputs)):
        assert result.tobytes() == expected.tobytes() and result.dtype == expected.dtype
        assert result.shape == expected.shape


@pytest.mark.parametrize("case", ROUNDED)
def test_functions_of_the_library_agree_to_float64(case):
    call, *inputs = ROUNDED[case]
    expected = call(numpy_ops, *inputs)
    dynamic = call(paddle_ops, *map(paddle.to_tensor, inputs)).numpy()
    for result in (dynamic, in_static_program(call, inputs)):
        np.testing.assert_allclose(result, expected, rtol=1e-14, atol=0)


def test_both_namespaces_have_the_functions_that_metrics_may_use():
    for name, value in vars(numpy_ops).items():
        home = getattr(value, "__module__", "") or ""
        imported = inspect.ismodule(value) or (home.startswith("fleetmetrics.") and home != numpy_ops.__name__)
        assert name.startswith("_") or hasattr(paddle_ops, name) or imported, name


def test_the_namespace_is_paddles_if_any_value_is():
    tensor = paddle.to_tensor([1])
    assert namespace(None, [1], np.ones(2)) is numpy_ops
    assert namespace(np.ones(2), tensor) is namespace(None, tensor) is paddle_ops
    with new_programs() as programs:
        variable = paddle.static.data("x", [1])
        assert namespace(variable, 1.0) is paddle_ops
        assert is_static(variable) and not is_eager_tensor(variable)
    assert is_eager_tensor(tensor) and not is_static(tensor)
    assert not any(f(v) for f in (is_static, is_eager_tensor) for v in (None, 1, "x", np.ones(1), [tensor]))
    assert len(programs) == 2
