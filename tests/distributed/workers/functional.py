"""One worker that calls the drop-in functions where Paddle's own go wrong."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable

import numpy as np
import paddle
from cluster import arguments, error_text, report
from launchers import be_a_server
from starting import start

import fleetmetrics as fm
from tests.contract import new_programs
from tests.paddle_version import PIR

rank = world = 0


def numbers(**options: Any) -> dict[str, Any]:
    """Right calls; the test knows what one process would give."""
    last = rank == world - 1
    histogram = np.arange(4 * (rank + 1)).reshape(rank + 1, 4).sum(axis=0, keepdims=True)
    return {
        "2**24 + 1 as a float": fm.sum(np.array([16777217.0]), **options),
        "2**24 + 1 as an int": fm.sum(16777217, **options),
        "2**53 + 1": fm.sum([2**53 + 1, -(2**53) - 1], **options),
        "mixed signs": [f(np.array([-5 if rank == 0 else 3]), **options) for f in (fm.sum, fm.max, fm.min)],
        "an int on one rank, a float on the others": fm.sum(2**24 + 1 if rank == 0 else 0.5, **options),
        "tenths": fm.sum([0.1 * (rank + 1), 1e300 * (-1) ** rank], **options),
        "not a number on the last rank": [f([np.nan if last else 1.0], **options) for f in (fm.max, fm.min)],
        "0-d": fm.acc(np.array(rank + 1), np.array(4), **options),
        "a tensor": fm.sum(paddle.to_tensor([rank, 2**53 + 1]), **options),
        "a tensor 0-d": fm.mae(paddle.to_tensor(0.5), paddle.to_tensor(rank + 1), **options),
        "histograms": fm.auc(histogram, histogram[:, ::-1], **options),
        "histograms as tensors": fm.auc(paddle.to_tensor(histogram), paddle.to_tensor(histogram[:, ::-1]), **options),
        "no samples on the last rank": fm.mse(0.0 if last else 3.0, 0 if last else 4, **options),
        "no samples anywhere": undefined(lambda: fm.rmse(0.0, 0, **options)),
        "no classes anywhere": undefined(lambda: fm.auc([[0, 0]], [[0, 0]], **options)),
    }


def undefined(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        value = call()
    return [repr(value), [w.category.__name__ for w in told]]


def variables(scope: Any, **options: Any) -> list[Any]:
    """States of a static program, as variables and by name."""
    with new_programs() as (main, startup), paddle.static.scope_guard(scope):
        correct, total = (fm.static.create_state(name, [1]) for name in ("correct", "total"))
        for state in (correct, total):
            fm.static.accumulate(state, paddle.static.data(f"batch_{state.name}", [1], "int64"))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        for _ in range(2):
            executor.run(main, feed={"batch_correct": np.array([rank + 1]), "batch_total": np.array([2**24])})
        static = [fm.acc(correct.variable, total.variable, scope, **options), fm.sum("total", **options)]
    return [*static, fm.acc("correct", "total", scope, **options)]


def areas(**options: Any) -> list[float]:
    """Calls of `static.auc` without names, which the last worker makes in a different order."""
    with new_programs() as (main, startup), paddle.static.scope_guard(paddle.static.Scope()):
        names = ("click", "buy")
        score = paddle.static.data("score", [-1, 1], "float32")
        labels = {name: paddle.static.data(name, [-1, 1], "int64") for name in names}
        order = names[::-1] if rank == world - 1 else names
        statistics = {name: fm.static.auc(score, labels[name])[2][2:] for name in order}
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        right = np.array([[0], [1]])
        executor.run(main, feed={"score": np.float32([[0.2], [0.8]]), "click": right, "buy": 1 - right})
        return [fm.auc(*statistics[name], **options) for name in names]


def errors(scope: Any, **options: Any) -> dict[str, str]:
    """Wrong calls, for which every worker must get the same error, and after which the next call works."""
    last = rank == world - 1
    empty = paddle.static.Scope()
    calls = {
        "unequal lengths": lambda: fm.sum(np.ones(3 if last else 2), **options),
        "unequal shapes": lambda: fm.max(np.ones([1, 2] if last else [2, 1]), **options),
        "unequal histograms": lambda: (
            fm.auc(np.ones(4), np.ones(4), **options) if last else fm.auc(np.ones(8), np.ones(8), **options)
        ),
        "missing name on the last rank": lambda: fm.acc("correct", "total", empty if last else scope, **options),
        "another function": lambda: (fm.mae if last else fm.acc)(1, 2, **options),
        "another variable": lambda: fm.sum("correct" if last else "total", scope, **options),
        "another order": lambda: [f(np.ones(2), **options) for f in ((fm.max, fm.sum) if last else (fm.sum, fm.max))],
        "no number on the last rank": lambda: fm.mse([] if last else 3.0, 4, **options),
        "no numbers on the last rank": lambda: fm.sum([1j] if last else [1], **options),
        "a negative count on the last rank": lambda: fm.auc([1, -2 if last else 2], [3, 4], **options),
        "more right than there are, in all": lambda: fm.acc(0 if last else 9, 4, **options),
        "overflow": lambda: fm.sum([2**62] * 2, **options),
    }
    if PIR:
        calls["unnamed on the last rank"] = lambda: unnamed(last, **options)
    found = {}
    for case, call in calls.items():
        found[case] = error_text(call)
        assert fm.sum(1, **options) == world, case
    return found


def unnamed(here: bool, **options: Any) -> Any:
    with new_programs():
        intermediate = paddle.static.data("x", [1], "int64") + 1
        return fm.sum(intermediate if here else 1, **options)


def facts(launch: str) -> dict[str, Any]:
    """What Paddle's own functions say, where they can be called at all."""
    from paddle.distributed.fleet import metrics as paddles

    def quietly(call: Callable[[], Any]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()

    if launch == "collective":
        from paddle.distributed import fleet

        fleet.init(is_collective=True)
    found = {"sum of ones": quietly(lambda: paddles.sum(np.array([1.0])))}
    if launch == "ps_gloo":
        found["2**24 + 1"] = paddles.sum(np.array([16777217.0]))
        found["mixed signs"] = str(paddles.sum(np.array([-5 if rank == 0 else 3]))[0])
    return found


if __name__ == "__main__":
    if os.environ.get("TRAINING_ROLE") == "PSERVER":
        be_a_server()
        sys.exit(0)
    util = start(arguments()["launch"])
    channel = fm.get_communicator()
    rank, world = channel.rank, channel.world_size
    scope = paddle.static.Scope()
    report(rank=rank, numbers=numbers(), variables=variables(scope), areas=areas(), errors=errors(scope))
    if util is not None:
        report(numbers_by_util=numbers(util=util), variables_by_util=fm.acc("correct", "total", scope, util))
        report(errors_by_util=errors(scope, util=util))
    if arguments()["launch"] != "bare":
        report(facts=facts(arguments()["launch"]))
        channel.barrier()  # Paddle's store is in rank 0: if that ends first, the others fail in fleet.init
