"""One worker of the tests of what goes wrong with records: which error it raises, and how soon."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
from cluster import arguments, report, touch, wait_for_file
from watching import Box, Gathered, timed

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, Evaluator

comm: Any = None
rank = world = 0
last = False
TIMEOUT = 30


class Other(Gathered):
    pass


class auc(Gathered):
    """As a function is called."""


class OwnError(Exception):
    pass


class ValueErrorOfOurs(Exception):
    pass


ValueErrorOfOurs.__name__ = "ValueError"


class TwoArguments(Exception):
    """It can be pickled, and not be read again."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


class Unpicklable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.callback = lambda: 0


class Failing(Gathered):
    """It raises what the test says, until the test changes that."""

    error: Any = None

    def compute_metric(self, results: Any) -> Any:
        if self.error is not None:
            raise self.error
        return {"n": len(results)}


class Condensing(Gathered):
    states: Any = None

    def summarize(self, results: Any) -> Any:
        return self.states() if callable(self.states) else self.states

    def compute_from(self, states: Any) -> Any:
        return {name: array.tolist() for name, array in states.items()}


class Returning(Gathered):
    value: Any = None

    def compute_metric(self, results: Any) -> Any:
        return self.value()


class Processing(BaseMetric):
    default_prefix = "p"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(data_samples)

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"n": len(results)}


def sampler(**changes: Any) -> Any:
    """The attributes of Paddle's sampler that are read: each worker has 4 samples."""
    settings = {"dataset": range(4 * world - 1), "batch_size": 2, "nranks": world, "local_rank": rank}
    return SimpleNamespace(**{**settings, "shuffle": False, "drop_last": False, "epoch": 0, **changes})


def fed(metric: Any, *columns: Any, count: int = 4, **named: Any) -> Any:
    """A metric with records."""
    if columns or named:
        metric.add(*columns, **named)
    else:
        metric._results.extend(range(count))
    return metric


def compute(metric: Any, size: Any = None, timeout: Any = TIMEOUT) -> Callable[[], Any]:
    return lambda: metric.compute(size, timeout=timeout)


def differing() -> dict[str, Callable[[], Any]]:
    """What the last worker does in another way than the others, or all of them do wrong."""
    four = np.arange(4.0)
    both = fed(fed(Gathered()), four) if last else fed(Gathered(), four)
    states = {"n": 1, "sum": np.zeros(2)}
    return {
        "a negative size": compute(fed(Gathered()), -1),
        "a size that is no number": compute(fed(Gathered()), "4" if last else 4),
        "a size too large": compute(fed(Gathered()), 4 * world + 1),
        "a size too small": compute(fed(Gathered()), 2 * world),
        "records for boxes": compute(fed(Gathered(), count=20), 10 * world),
        "another size": compute(fed(Gathered()), 4 * world - last),
        "a timeout of zero": compute(fed(Gathered()), timeout=0 if last else TIMEOUT),
        "another class": compute(fed(Other() if last else Gathered())),
        "another mode": compute(fed(Gathered(dist_collect_mode="cat" if last else "unzip"))),
        "no blocks": compute(fed(Gathered(dist_collect_mode="batch", batch_size=None if last else 2))),
        "a block of zero": compute(fed(Gathered(dist_collect_mode="batch", batch_size=0 if last else 2))),
        "other names": compute(fed(Gathered(), **{"label" if last else "score": four})),
        "no names": compute(fed(Gathered(), four) if last else fed(Gathered(), score=four)),
        "more columns": compute(fed(Gathered(), *[four] * (2 if last else 1))),
        "records and columns": compute(both),
        "records, others columns": compute(fed(Gathered()) if last else fed(Gathered(), four)),
        "another batch size": compute(fed(Gathered(sampler=sampler(batch_size=3 if last else 2)))),
        "another data set": compute(fed(Gathered(sampler=sampler(dataset=range(4 * world - last))))),
        "no sampler": compute(
            fed(Gathered(sampler=None if last else sampler(), dist_collect_mode="auto", batch_size=2))
        ),
        "another's sampler": compute(fed(Gathered(sampler=sampler(local_rank=0)))),
        "a sampler for more": compute(fed(Gathered(sampler=sampler(nranks=world + 1)))),
        "a sample too many": compute(fed(Gathered(sampler=sampler()), count=5 if last else 4)),
        "no samples": compute(fed(Gathered(sampler=sampler()), count=0 if last else 4)),
        "no ids": compute(fed(Gathered(), four, ids=None if last else [0, 1, 2, 3])),
        "strings as ids": compute(fed(Gathered(), four, ids=list("abcd") if last else [0, 1, 2, 3])),
        "ids that conflict": compute(fed(Gathered(), four + last, ids=[0, 1, 2, 3])),
        "ids and a wrong size": compute(fed(Gathered(), four, ids=[0, 1, 2, 3]), 5),
        "cannot be pickled": compute(fed(Gathered(allow_pickle=True), [0, (lambda: 0) if last else 0])),
        "cannot be pickled on rank 0": compute(fed(Failing(), [0, 0 if rank else (lambda: 0)])),
        "may not be pickled": compute(fed(Gathered(), [0, Box(1) if last else 0])),
        "may be pickled, but by whom": strangers(fed(Gathered(allow_pickle=True), [0, Box(1) if last else 0])),
        "summarize raises": compute(fed(with_states(lambda: {"n": states["m" if last else "n"]}))),
        "summarize raises on rank 0": compute(fed(with_states(lambda: {"n": states["n" if rank else "m"]}))),
        "summarize is wrong": compute(fed(with_states(3 if last else states))),
        "summarize gives up": compute(fed(with_states(None if last else states))),
        "other states": compute(fed(with_states({"n": 1} if last else states))),
        "states of other shapes": compute(fed(with_states({"n": 1, "sum": np.zeros(3 if last else 2)}))),
        "states that overflow": compute(fed(with_states({"n": 2**62}))),
        "states only on some": compute(fed(Other() if last else with_states(states))),
        "another call: sum": (lambda: fm.sum(1)) if last else compute(fed(Gathered())),
        "another call: records": compute(fed(Gathered())) if last else (lambda: fm.sum(1)),
        "another call: AUC": (lambda: fm.AUC(name="it").compute(timeout=TIMEOUT)) if last else compute(fed(Gathered())),
        "another call: of one name": (lambda: fm.auc([1, 2], [2, 1])) if last else compute(fed(auc())),
        "another call: gather": (lambda: comm.all_gather([1], timeout=TIMEOUT)) if last else compute(fed(Gathered())),
        "another call: evaluator": evaluate if last else compute(fed(Gathered())),
        "objects pickled by some": lambda: comm.all_gather_object(1, allow_pickle=last, timeout=TIMEOUT),
        "another call: metric": evaluate if last else (lambda: fm.Count(name="it").compute(timeout=TIMEOUT)),
    }


def strangers(metric: Any) -> Callable[[], Any]:
    """The value, on a channel whose workers have not proved who they are."""

    def call() -> Any:
        comm.authenticated = False
        try:
            return metric.compute(timeout=TIMEOUT)
        finally:
            comm.authenticated = True

    return call


def evaluate() -> Any:
    return Evaluator(Processing()).evaluate(timeout=TIMEOUT)


def with_states(states: Any) -> Condensing:
    metric = Condensing()
    metric.states = states
    return metric


def raising() -> dict[str, Any]:
    """What ``compute_metric`` raises on rank 0; the records are there for the next call."""
    found = {}
    errors = {
        "ValueError": ValueError("no labels"),
        "KeyError": KeyError("label"),
        "OSError": OSError(28, "No space left on device", "/tmp/out.pkl"),
        "UnicodeDecodeError": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        "AssertionError": AssertionError(),
        "StopIteration": StopIteration(3),
        "an argument without array form": ValueError(Box(1)),
        "a name of Python's": ValueErrorOfOurs("mine"),
        "OwnError": OwnError("mine", 3),
        "TwoArguments": TwoArguments(3, "no labels"),
        "Unpicklable": Unpicklable("no labels"),
        "local class": type("Local", (Exception,), {})("no labels"),
        "InvalidInputError": fm.InvalidInputError("no labels"),
        "of the package's family": type("Derived", (fm.RecordError,), {})("no labels"),
    }
    for case, error in errors.items():
        for allow_pickle in (True, False):
            metric = fed(Failing(allow_pickle=allow_pickle))
            metric.error = error
            text, seconds = timed(compute(metric))
            metric.error = None
            found[f"{case} {allow_pickle}"] = [text, seconds, metric.compute()]
    metric = fed(Failing(allow_pickle=True))
    metric.error = OwnError("mine")
    try:
        metric.compute()
    except OwnError as error:
        found["cause"] = str(error.__cause__)
    return found


def returning() -> dict[str, Any]:
    """Values that are hard to hand on; and what ``compute_metric`` must not do."""
    cases: dict[str, Callable[[], Any]] = {
        "a lambda": lambda: {"value": lambda: 0},
        "a box": lambda: Box(rank),
        "a box that may not be pickled": lambda: Box(rank),
        "itself": endless,
        "a collective": lambda: fm.sum(1),
        "another metric": lambda: fed(Gathered()).compute(),
        "an evaluator": lambda: evaluate(),
        "a barrier": lambda: comm.barrier(),
    }
    found = {}
    for case, value in cases.items():
        metric = fed(Returning(allow_pickle=case != "a box that may not be pickled"))
        metric.value = value
        found[case] = timed(lambda metric=metric: repr(metric.compute(timeout=TIMEOUT)))
        assert comm.all_reduce([1]).tolist() == [world], case
    metric = fed(Returning(allow_pickle=not last))
    metric.value = cases["a box"]
    found["a box for some"] = timed(lambda: repr(metric.compute(timeout=TIMEOUT)))
    return found


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def strict() -> Any:
    """Warnings are errors here; what is warned of, on one worker, must not keep the others waiting."""
    metric = fed(Gathered())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = timed(compute(metric, 4 * world - 1))
    return found


def guessing() -> dict[str, list[int]]:
    """How often it is warned of records that are cut off as padding."""
    cases = {
        "by default": compute(fed(Gathered()), 4 * world - 1),
        "nothing to cut": compute(fed(Gathered()), 4 * world),
        "chosen": compute(fed(Gathered(dist_collect_mode="unzip")), 4 * world - 1),
        "known": compute(fed(Gathered(sampler=sampler()))),
        "more than Paddle's sampler pads": compute(fed(Gathered(dist_collect_mode="unzip"), count=15), 10 * world),
    }
    found = {}
    for case, call in cases.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call()
        found[case] = [sum("cut off" in str(each.message) for each in told)]
    return found


def everything() -> None:
    found = {}
    for case, call in differing().items():
        found[case] = timed(call)
        assert comm.all_reduce([1]).tolist() == [world], case
    report(differing=found, raising=raising(), returning=returning(), guessing=guessing(), strict=strict())


def late() -> None:
    """One worker comes too late; the records are there for the next call, with which it comes in time."""
    metric = fed(Gathered(dist_collect_mode="cat"))
    late_one = rank == arguments()["who"]
    if late_one:
        wait_for_file(f"waited {(rank + 1) % world}")
    text, seconds = timed(compute(metric, timeout=TIMEOUT if late_one else 2))
    touch(f"waited {rank}")
    report(text=text, seconds=seconds, after=metric.compute(timeout=20))


class Slow(Gathered):
    """It is not ready before the others have given up."""

    def compute_metric(self, results: Any) -> Any:
        for other in range(1, world):
            wait_for_file(f"waited {other}")
        return results


def slow() -> None:
    metric = fed(Slow(dist_collect_mode="cat"))
    text, seconds = timed(compute(metric, timeout=2))
    touch(f"waited {rank}")
    report(text=text, seconds=seconds, after=metric.compute(timeout=20))


class Deadly:
    """The process that packs it dies."""

    def __reduce__(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        return Deadly, ()


class Dying(Gathered):
    def compute_metric(self, results: Any) -> Any:
        return Deadly().__reduce__() if arguments()["who"] == 0 else results


def killed() -> None:
    """One worker is killed between what it says that it has, and sending it."""
    metric = fed(Dying(allow_pickle=True), [Deadly() if rank == arguments()["who"] and rank else 0])
    text, seconds = timed(compute(metric))
    report(text=text, seconds=seconds, next=timed(compute(metric))[0])


if __name__ == "__main__":
    comm = fm.get_communicator()
    rank, world = comm.rank, comm.world_size
    last = rank == world - 1
    comm.barrier()
    globals()[arguments()["case"]]()
    report(done=True, paddle="paddle" in sys.modules)
