"""Batches in lanes: each sum over samples, by lane, is that of the lane's samples alone."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Callable, NamedTuple

import numpy as np
import paddle
import pytest

from fleetmetrics import InvalidInputError
from fleetmetrics.batch import Batch
from fleetmetrics.batch.lanes import Groups, Replicates
from fleetmetrics.numbers.reductions import identity
from fleetmetrics.state.state import Lanes
from fleetmetrics.xp import Scattered, namespace, numpy_ops
from tests.contract import new_programs

N, GROUPS, REPLICATES = 57, 5, 4
RNG = np.random.default_rng(3)
P = RNG.integers(0, 9, N) / 8
#: Far from 0, against their spread.
Y = 1e6 + RNG.normal(size=N)
LARGE = RNG.integers(-(2**61), 2**61, N) // N
INDEX = RNG.integers(0, GROUPS - 1, N)  # the last group has none
TIMES = RNG.poisson(1.0, (N, REPLICATES)) * (RNG.random((N, REPLICATES)) < 0.8)
TIMES[:, 2] = 0
BUCKET, KIND = RNG.integers(0, 6, N), RNG.integers(0, 2, N)


class Sum(NamedTuple):
    """A sum over samples, and the state that takes it."""

    make: Callable[[Batch, Callable[[np.ndarray], Any]], Any]
    shape: tuple[int, ...] = ()
    dtype: str = "int64"
    reduction: str = "sum"
    tolerance: float = 0.0


#: `put` makes a constant of the batch's mode that has an entry per sample.
SUMS = {
    "total": Sum(lambda batch, put: batch.total),
    "number": Sum(lambda batch, put: batch.number),
    "sum of flags": Sum(lambda batch, put: batch.weighted_sum(put(P > 0.5))),
    "sum of integers": Sum(lambda batch, put: batch.weighted_sum(put(LARGE))),
    "sum of floats": Sum(lambda batch, put: batch.weighted_sum(batch.targets), (), "float64", "sum", 1e-14),
    "histogram": Sum(lambda batch, put: batch.histogram(put(BUCKET)), (6,)),
    "histogram of pairs": Sum(lambda batch, put: batch.histogram(put(KIND), put(BUCKET)), (2, 6)),
    "histogram of flags": Sum(lambda batch, put: batch.histogram(put(BUCKET), amount=put(P > 0.5)), (6,)),
    "histogram of integers": Sum(lambda batch, put: batch.histogram(put(BUCKET), amount=put(LARGE)), (6,)),
    "histogram of floats": Sum(
        lambda batch, put: batch.histogram(put(BUCKET), amount=batch.targets), (6,), "float64", "sum", 1e-14
    ),
    "largest integer": Sum(lambda batch, put: batch.extreme(put(LARGE), "max"), (), "int64", "max"),
    "least float": Sum(lambda batch, put: batch.extreme(batch.targets, "min"), (), "float64", "min"),
    "moments": Sum(lambda batch, put: batch.moments(batch.targets), (4,), "float64", "moments", 1e-14),
    "comoments": Sum(
        lambda batch, put: batch.moments(batch.targets, batch.values), (8,), "float64", "comoments", 1e-13
    ),
}
WEIGHTS = {"unweighted": None, "weighted": RNG.integers(0, 9, N) / 8}
MASKS = {"all": None, "masked": RNG.random(N) < 0.7}


def lanes_of(kind: str, put: Callable[[np.ndarray], Any], xp: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The lanes, the outer ones first, and the shape of their axes."""
    groups, replicates = Groups(xp, put(INDEX), GROUPS), Replicates(xp, put(TIMES), REPLICATES)
    return {
        "groups": ([groups], (GROUPS,)),
        "replicates": ([replicates], (REPLICATES,)),
        "nested": ([groups, replicates], (GROUPS, REPLICATES)),
    }[kind]


def samples_of(kind: str, lane: tuple[int, ...]) -> np.ndarray:
    """The places of a lane's samples, each so often as it counts."""
    if kind == "groups":
        return np.flatnonzero(lane[0] == INDEX)
    if kind == "replicates":
        return np.repeat(np.arange(N), TIMES[:, lane[0]])
    return np.repeat(np.arange(N), TIMES[:, lane[1]] * (lane[0] == INDEX))


def taken(places: np.ndarray, array: np.ndarray) -> np.ndarray:
    return array[places]


def batch_of(form: Callable[[np.ndarray], Any], weight: Any, mask: Any) -> Batch:
    batch = Batch(form(P), form(Y), *[None if part is None else form(part) for part in (weight, mask)])
    batch.check((), validate=True)
    return batch


def merged(each: Sum, shape: tuple[int, ...], increment: Any) -> Any:
    """A state at its identity, with an increment merged into it."""
    scattered = isinstance(increment, Scattered)
    amount = increment.amount if scattered else increment
    xp = namespace(increment.indices[0] if scattered else increment)
    floats = each.dtype == "float64" or (amount is not None and xp.kind(xp.asarray(amount, "amount")) == "f")
    dtype = "float64" if floats else "int64"
    if xp is numpy_ops:
        state = np.full(shape, identity(each.reduction, dtype), dtype)
        if not scattered:
            return np.asarray(xp.merge(each.reduction, state, increment))
        return Lanes("mine", shape, dtype, each.reduction).scatter(state, increment)
    return xp.merge(each.reduction, xp.identity(shape, dtype, each.reduction), increment)


def in_lanes(mode: str, kind: str, weight: Any, mask: Any) -> dict[str, np.ndarray]:
    """Every sum in lanes."""

    def made(put: Callable[[np.ndarray], Any], form: Callable[[np.ndarray], Any]) -> dict[str, Any]:
        batch = batch_of(form, weight, mask)
        lanes, axes = lanes_of(kind, put, batch.xp)
        for each in lanes:
            batch = batch.in_lanes(each)
        return {name: merged(each, axes + each.shape, each.make(batch, put)) for name, each in SUMS.items()}

    if mode == "dynamic":
        return {name: state.numpy() for name, state in made(paddle.to_tensor, paddle.to_tensor).items()}
    if mode == "numpy":
        keep = np.ones(N, bool)
        for part in (weight, mask):
            keep &= True if part is None else part != 0
        return made(lambda array: array[keep], np.asarray)
    feed: dict[str, np.ndarray] = {}

    def variable(array: np.ndarray) -> Any:
        feed[f"x{len(feed)}"] = array
        return paddle.static.data(f"x{len(feed) - 1}", [-1, *array.shape[1:]], str(array.dtype))

    with new_programs() as (main, _):
        states = made(variable, variable)
        arrays = paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=list(states.values()))
    return dict(zip(states, arrays))


@pytest.mark.parametrize(
    "weight, mask, mode",
    [
        *itertools.product(WEIGHTS, MASKS, ["numpy", "dynamic"]),
        ("unweighted", "all", "static"),
        ("weighted", "masked", "static"),
    ],
)
@pytest.mark.parametrize("kind", ["groups", "replicates", "nested"])
def test_each_lane_has_the_sums_of_its_samples(kind: str, weight: str, mask: str, mode: str) -> None:
    found = in_lanes(mode, kind, WEIGHTS[weight], MASKS[mask])
    axes = lanes_of(kind, np.asarray, None)[1]
    for lane in np.ndindex(axes):
        chosen = samples_of(kind, lane)
        parts = [None if part is None else part[chosen] for part in (WEIGHTS[weight], MASKS[mask])]
        batch = Batch(P[chosen], Y[chosen], *parts)
        keep = np.ones(len(chosen), bool)
        for part in parts:
            keep &= True if part is None else part != 0
        batch.check((), validate=True)
        for name, each in SUMS.items():
            alone = merged(each, each.shape, each.make(batch, functools.partial(taken, chosen[keep])))
            if "moments" in each.reduction and not len(batch.prediction):
                alone = np.zeros(each.shape)
            mine = found[name][lane]
            assert mine.shape == alone.shape and (mine.dtype == alone.dtype or weight == "weighted"), name
            tolerance = max(each.tolerance, 1e-14 if weight == "weighted" and each.reduction == "sum" else 0.0)
            np.testing.assert_allclose(mine, alone, tolerance, 1e-12 if tolerance else 0, err_msg=f"{name} {lane}")


def test_lanes_in_lanes_are_replicates_in_groups_only() -> None:
    batch = Batch(P, Y)
    groups, replicates = Groups(batch.xp, INDEX, GROUPS), Replicates(batch.xp, TIMES, REPLICATES)
    for outer, inner in [(groups, groups), (replicates, groups), (replicates, replicates)]:
        with pytest.raises(InvalidInputError, match="replicates in groups only"):
            batch.in_lanes(outer).in_lanes(inner)


def test_statistics_are_kept_apart_from_those_without_lanes() -> None:
    batch = Batch(P, Y, np.arange(N))
    assert batch.total == N * (N - 1) / 2
    increment = batch.in_lanes(Groups(batch.xp, INDEX, GROUPS)).total
    assert np.bincount(increment.indices[0], increment.amount).tolist() == np.bincount(INDEX, np.arange(N)).tolist()


@pytest.mark.parametrize("form", [np.asarray, paddle.to_tensor], ids=["numpy", "dynamic"])
def test_a_part_of_a_batch_adds_what_its_samples_do(form: Any) -> None:
    batch = Batch(form(P[:56].reshape(-1, 2)), form(Y[:56].reshape(-1, 2)), columns={"user": np.arange(28)})
    parts = [batch.part(slice(0, 20)), batch.part(slice(20, 56))]
    assert sum(float(part.weighted_sum(part.targets)) for part in parts) == pytest.approx(Y[:56].sum(), rel=1e-15)
    assert np.concatenate([np.asarray(part.label_index) for part in parts]).tolist() == [0, 1] * 28
    assert np.concatenate([part.column("user") for part in parts]).tolist() == np.repeat(np.arange(28), 2).tolist()
