"""One worker of the tests of records: what it has, and the result of all workers' records."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any, Callable

import numpy as np
import paddle
from cluster import arguments, error_text, report
from launchers import be_a_server
from starting import start
from watching import Box, Gathered, Plain, Watch, attempt

import fleetmetrics as fm
from fleetmetrics.comm import communicator_for

rank = world = 0


def modes() -> dict[str, list[int]]:
    """All collect modes, ways to add, and numbers of records by rank."""
    found = {}
    for split, counts in arguments()["splits"].items():
        mine = [100 * rank + i for i in range(counts[rank])]
        for mode, batch_size in arguments()["modes"]:
            columns, appended = (Gathered(dist_collect_mode=mode, batch_size=batch_size) for _ in range(2))
            for first in range(0, len(mine), 3):
                columns.add(np.array(mine[first : first + 3]), [f"{n}" for n in mine[first : first + 3]])
                appended._results.extend(mine[first : first + 3])
            results = columns.compute() or (np.empty(0, int), [])
            assert [int(text) for text in results[1]] == results[0].tolist()
            found[f"{mode} {batch_size} {split} columns"] = results[0].tolist()
            if (mode, batch_size) != ("batch", None):
                found[f"{mode} {batch_size} {split} appended"] = appended.compute()
    return found


def sampled() -> list[dict[str, Any]]:
    """Passes of Paddle's own sampler, whose samples are their indices."""
    found = []
    for batch_size, samples, shuffle, drop_last, epoch in arguments()["passes"]:
        options = {"shuffle": shuffle, "drop_last": drop_last, "num_replicas": world, "rank": rank}
        sampler = paddle.io.DistributedBatchSampler(range(samples), batch_size, **options)
        sampler.set_epoch(epoch)
        columns, appended, ids = Gathered(sampler=sampler), Gathered(sampler=sampler), Gathered()
        blocks, unzipped = Gathered(dist_collect_mode="batch"), Gathered()
        dealt = []
        for batch in sampler:
            dealt += batch
            for metric in (columns, blocks, unzipped):
                metric.add(np.array(batch))
            ids.add(np.array(batch), ids=batch)
            appended._results.extend(batch)
        values = {
            "local": columns.compute_local() or [[]],
            "columns": columns.compute() or [[]],
            "appended": [appended.compute()],
            "ids": ids.compute() or [[]],
        }
        if not shuffle and not drop_last:
            values["blocks"] = blocks.compute(samples) or [[]]
            values["unzipped"] = unzipped.compute(samples) or [[]]
        found.append({"dealt": dealt, **{way: np.asarray(value[0]).tolist() for way, value in values.items()}})
    return found


class Squares(paddle.io.Dataset):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return np.float32(index / 8), np.int64(index * index)

    def __len__(self) -> int:
        return 23


def loaded() -> list[Any]:
    """Two passes as in a user's script: tensors out of a loader, whose sampler asks Paddle for the ranks."""
    sampler = paddle.io.DistributedBatchSampler(Squares(), 3, shuffle=True)
    loader = paddle.io.DataLoader(Squares(), batch_sampler=sampler, num_workers=0)
    metric, found = Gathered(sampler=loader), []
    for _ in range(2):
        for x, y in loader:
            metric.add(score=x.reshape([-1]) * 2, square=y.reshape([-1, 1]), name=[f"{n}" for n in y.numpy().ravel()])
        metric.compute()
        found.append(metric.compute())
        metric.reset()
    return found


class Unpadded(paddle.io.DistributedBatchSampler):  # type: ignore[misc]
    """A user's own: it deals every sample once, so that some workers have one more, or none at all."""

    def __iter__(self) -> Any:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        mine = order[self.local_rank :: self.nranks].tolist()
        return iter([mine[start : start + self.batch_size] for start in range(0, len(mine), self.batch_size)])


def unpadded() -> list[Any]:
    """Passes of a sampler that pads nothing, three of each."""
    found = []
    for samples in (1, 2, 3, 4, 7, 11):
        for shuffle in (False, True):
            sampler = Unpadded(range(samples), 2, num_replicas=world, rank=rank, shuffle=shuffle)
            metric = Gathered(sampler=sampler)
            for _ in range(3):
                for batch in sampler:
                    metric.add(np.array(batch))
                found.append(attempt(lambda metric=metric: metric.compute()[0].tolist()))
                metric.reset()
    return found


class Digest(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return [len(results), hashlib.sha256(repr(results).encode()).hexdigest()]


def large() -> list[Any]:
    """Much more than goes at once; on some workers, and in different amounts."""

    def records(of: int) -> list[Any]:
        return [{"box": [i / 8, of], "text": f"{of}, {i}: {'x' * (i % 300)}"} for i in range(40_000 * of)]

    metric, one = Digest(dist_collect_mode="cat"), Digest(dist_backend="non_dist")
    through = Digest(dist_collect_mode="cat", collect_dir=os.path.join(os.environ["CLUSTER_DIRECTORY"], "records"))
    for each in (metric, through):
        each._results.extend(records(rank))
    if rank == 0:
        one._results.extend(each for of in range(world) for each in records(of))
    return [metric.compute(), through.compute(), one.compute() if rank == 0 else None]


def odd(of: int) -> list[Any]:
    """A worker's records that are no numbers."""
    many: list[Any] = [None, of, None, 2**70 + of, 0.1 * of, float("nan"), 1j * of, f"text {of}", "", b"\0" * of]
    many += [np.float32(of), np.arange(of), np.full((2, of), 0.5), np.array(["a", "bcd"]), (of,), [], {}, ()]
    many += [
        {"a": [of, (None, [b""])], 3: {}},
        Box(of),
        np.array([None, of], object),
        np.datetime64("2026-11-20"),
        None,
    ]
    return [*many, paddle.to_tensor([0.5 * of]), {"score": paddle.to_tensor(of), "names": ["x"] * of}, True]


def odds() -> dict[str, Any]:
    """What came over, and what should have: records of all kinds, and columns of several shapes and dtypes."""

    def compared(batches: Callable[[int], Any], expected: list[Any], appended: bool = False) -> list[str]:
        metric = Gathered(dist_collect_mode="cat", allow_pickle="Box(" in repr(expected))
        for batch in batches(rank):
            metric._results.extend(batch) if appended else metric.add(batch)
        return [repr(attempt(lambda: list(metric.compute() if appended else metric.compute()[0]))), repr(expected)]

    everyone = range(world)
    shapes = [n for of in everyone for n in range(of + 1)]
    return {
        "appended": compared(lambda of: [odd(of)], [each for of in everyone for each in odd(of)], appended=True),
        "listed": compared(lambda of: [odd(of)], [each for of in everyone for each in odd(of)]),
        "ragged": compared(
            lambda of: [np.full((2, n), n) for n in range(of + 1)], [np.full(n, n) for n in shapes for _ in range(2)]
        ),
        "boxes": compared(
            lambda of: [[Box(n), None] for n in range(of + 1)], [each for n in shapes for each in (Box(n), None)]
        ),
        "objects": compared(
            lambda of: [np.array([{"a": of}, None], object)] * 2,
            [each for of in everyone for each in ({"a": of}, None) * 2],
        ),
        "objects after boxes": compared(
            lambda of: [[Box(of)], np.array([{"a": of}, None], object)],
            [each for of in everyone for each in (Box(of), {"a": of}, None)],
        ),
        "objects after numbers": compared(
            lambda of: [np.array([0.5]), np.array([{"a": of}, None], object)],
            [each for of in everyone for each in (np.float64(0.5), {"a": of}, None)],
        ),
        "dtypes without a common one": compared(
            lambda of: [np.array([0.5 * of]), np.array(["2026-11-20"], "M8[D]")],
            [each for of in everyone for each in (np.float64(0.5 * of), np.datetime64("2026-11-20"))],
        ),
        "dtypes": compared(
            lambda of: [np.array([of], np.float32 if of % 2 else np.int64)],
            [*(np.arange(world) if world < 2 else np.arange(world, dtype=np.float64))],
        ),
    }


def ids() -> dict[str, Any]:
    """Samples that several workers have."""
    mine = [rank, rank + 1, rank + 2]

    def integers() -> Any:
        metric = Gathered()
        metric.add(score=np.array(mine) / 3 + 1e-7 * rank, name=[f"{n}" for n in mine], ids=np.array(mine))
        return {name: list(column) for name, column in metric.compute(world + 2).items()}

    def texts() -> Any:
        metric = Gathered()
        metric.add(mine, ids=[f"sample {n}" for n in mine])
        return metric.compute()[0].tolist()

    def empty_first() -> Any:
        metric = Gathered()
        if rank == world - 1:
            metric.add([], ids=[])  # of what kind are they?
        if rank != 1 % world or world == 2:
            metric.add([rank], ids=[f"{world - rank}"])
        return (metric.compute() or [np.empty(0)])[0].tolist()

    def wide() -> Any:
        metric = Gathered()
        metric.add([rank], ids=np.array([2**53 + rank], np.int64 if rank % 2 else np.uint64))
        return metric.compute()[0].tolist()

    return {case.__name__: attempt(case) for case in (integers, texts, empty_first, wide)}


class Moments(fm.BaseMetric):
    """A sum will do, so records never travel."""

    summarized = 0

    def summarize(self, results: Any) -> Any:
        self.summarized += 1
        values = np.array([value() for value in results])
        return {"n": len(values), "sum": values.sum(), "top": ("max", [values.max()]), "low": ("min", values.min())}

    def compute_from(self, states: Any) -> Any:
        return {name: array.tolist() for name, array in states.items()}


def states(channel: Watch) -> dict[str, Any]:
    """Records that cannot be pickled are no trouble where only states travel."""
    metric = Moments()
    metric.dist_comm = channel
    values = [0.1 * (n + 1) * (rank + 1) for n in range(1000 * rank)]  # rank 0 has none
    metric._results.extend(lambda value=value: value for value in values)
    before = channel.sent
    value = metric.compute() if world > 1 else {}
    return {"value": value, "sent": channel.sent - before, "summarized": metric.summarized}


class Mean(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return {"mean": results["score"].mean(), "n": results["score"].size}


def sizes(channel: Watch) -> dict[str, Any]:
    """Records go to rank 0 and nowhere else."""
    metric = Mean()
    metric.dist_comm = channel
    if rank == 0:  # one batch on one worker: no other worker takes part
        assert metric(score=np.array([1.0, 2.0])) == {"mean": 1.5, "n": 2}
    metric.add(score=np.full(100_000, 1.0 + rank))
    sent, heard, consults = channel.sent, channel.heard, channel.consults
    return {
        "value": metric.compute(100_000 * world),
        "sent": channel.sent - sent,
        "heard": channel.heard - heard,
        "consults": channel.consults - consults,
    }


def poor(channel: fm.Communicator) -> dict[str, Any]:
    """With a communicator that has no consultation of its own."""
    last = rank == world - 1
    with fm.set_communicator(channel):
        found: dict[str, Any] = {"modes": modes(), "ids": ids()}
        found["error"] = error_text(lambda: Gathered().compute(-1 if last else None, timeout=20))

        class Failing(fm.BaseMetric):
            def compute_metric(self, results: Any) -> Any:
                raise LookupError("no labels")

        found["failing"] = error_text(lambda: Failing().compute(timeout=20))
        found["differing"] = error_text(lambda: (Mean if last else Gathered)().compute(timeout=20))
        found["after"] = modes() == found["modes"]
    return found


if __name__ == "__main__":
    if os.environ.get("TRAINING_ROLE") == "PSERVER":
        be_a_server()
        sys.exit(0)
    util = start(arguments()["launch"])
    channel = Watch(fm.get_communicator())
    rank, world = channel.rank, channel.world_size
    report(rank=rank, world=world, modes=modes(), sampled=sampled(), loaded=loaded())
    report(odds=odds(), ids=ids(), states=states(channel), sizes=sizes(channel))
    report(own=poor(Plain(channel)), unpadded=unpadded(), large=large() if arguments()["large"] else None)
    if util is not None:
        report(util=poor(communicator_for(util)))
