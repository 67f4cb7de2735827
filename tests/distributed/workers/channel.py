"""One worker of the channel's tests: runs the case that the test names."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
from cluster import arguments, error_text, report, touch, wait_for_file

from fleetmetrics.comm import Block, SocketCommunicator, get_communicator
from fleetmetrics.comm.job import Job

comm: Any = None
rank = world = 0


def everything() -> None:
    """Many promises in one launch."""
    rng = np.random.default_rng(rank)
    blocks = [
        Block("hits", "sum", np.array([rank + 1, 2**24 + 1, -5 if rank else 3])),
        Block("loss", "sum", np.array([16777217.0, 0.1 * (rank + 1), 1e100 * (-1) ** rank])),
        Block("mixed", "sum", np.array([rank]) if rank % 2 else np.array([0.5])),
        Block("top", "max", np.array([rank, -rank])),
        Block("low", "min", np.array([[-0.0 if rank else 0.0, float(rank)]])),
        Block("scalar", "sum", np.array(2)),
        Block("empty", "sum", np.empty((3, 0))),
        Block("mixed the other way", "sum", np.array([0.5]) if rank % 2 else np.array([rank])),
    ]
    report(blocks=comm.reduce("many", blocks))
    size = arguments().get("large", 200_000)
    own_floats = rng.standard_normal(size)
    report(large_int=comm.all_reduce(np.arange(size) + rank)[[0, 1, -1]])
    report(large_float=comm.all_reduce(own_floats)[:1000], own_floats=own_floats[:1000])
    report(large_mixed=comm.all_reduce(np.ones(size) if rank else np.arange(size))[[0, -1]])
    report(
        gathered=comm.all_gather(np.arange(rank) * 1.5),
        texts=comm.all_gather(np.array(["a" * rank])),
        halves=comm.all_gather(np.array([rank], np.float16 if rank else np.int32)),
        scalars=comm.all_gather(np.array(rank)),
        large_gathered=[part[-1:] for part in comm.all_gather(np.full(size * rank, rank, np.int16))],
    )
    report(sent=[comm.broadcast(np.array([f"from {r}"]) if r == rank else None, r) for r in range(world)])
    report(large_sent=comm.broadcast(np.arange(size) if rank == 0 else None)[-1])
    comm.barrier()
    report(unchanged=own_floats.sum() == np.random.default_rng(rank).standard_normal(size).sum())


def errors() -> None:
    """All raise the same, and the next call works."""
    last = rank == world - 1
    ones = np.ones((1, 4), np.int64)

    def reduce(call: str, *blocks: Block, **options: Any) -> Any:
        return lambda: comm.reduce(call, blocks, **options)

    cases = [
        reduce("auc", Block("stat_pos", "sum", ones if last else np.ones((1, 3)))),
        reduce("acc", Block("total", "sum", ones)) if last else reduce("auc", Block("stat_pos", "sum", ones)),
        reduce("auc", Block("stat_pos", "max" if last else "sum", ones)),
        reduce("auc", Block("stat_pos", "sum", ones), trouble=KeyError("stat_neg") if last else None),
        reduce("auc", Block("stat_pos", "sum", np.full(3, 2**62))),
        reduce("auc", Block("stat_pos", "sum", np.full(200_000, 2**62))),
        (lambda: comm.all_reduce(np.array(["x"]) if last else [1])),
        (lambda: comm.all_reduce([1], timeout=-3 if last else 20)),
        (lambda: comm.all_gather(np.array(["x"]) if last else np.array([1]))),
        (lambda: comm.all_gather(np.ones((1, 2 if last else 3)))),
        (lambda: comm.broadcast([1], 0 if last else 1)),
        (lambda: comm.broadcast([1], world)),
        (lambda: comm.all_gather([1]) if last else comm.barrier()),
    ]
    texts = []
    for case in cases:
        texts.append(error_text(case))
        assert comm.all_reduce([1]).tolist() == [world]
    report(texts=texts)


class Reaching:
    """An object like `fleet.util` whose role maker knows this number of workers."""

    def __init__(self, workers: int) -> None:
        self.role_maker = self
        self._worker_num = lambda: workers

    def all_reduce(self, input: Any, mode: str) -> Any:
        raise AssertionError("the job's channel carries the numbers")


def no_communicator() -> None:
    """The last worker gives something else instead of a communicator, or of an object with all_reduce."""
    import fleetmetrics as fm

    last, folder = rank == world - 1, arguments()["folder"]
    sums = fm.Sum(name="sums")
    records = fm.MetricCollection({"exact": fm.ExactAUC()}, name="records")
    records.add([0.1, 0.9], [0, 1])
    fm.save(folder, sums)
    calls = {
        "a metric": lambda **given: sums.compute(**given),
        "records": lambda **given: records.compute(**given),
        "save": lambda **given: fm.save(folder, sums, **given),
        "load": lambda **given: fm.load(folder, sums, **given),
    }
    wrong = [("communicator", call, each) for call in calls for each in (5, "auto", SocketCommunicator)]
    calls["util of a metric"] = lambda **given: sums.compute(**given)
    calls["a function"] = lambda **given: fm.sum(np.ones(2), **given)
    calls["two numbers"] = lambda **given: fm.acc(1, 2, **given)
    calls["a histogram"] = lambda **given: fm.auc(np.ones(2), np.ones(2), **given)
    wrong += [("util", call, each) for each in (5, Reaching(3)) for call in [*calls][4:]]
    calls["a function"](util=Reaching(2) if last else None)
    texts, seconds = [], []
    for argument, call, each in wrong:
        start = time.monotonic()
        texts.append(error_text(lambda: calls[call](**({argument: each} if last else {}))))  # noqa: B023
        seconds.append(time.monotonic() - start)
        assert comm.all_reduce([1]).tolist() == [world]
    report(texts=texts, seconds=max(seconds))


def late() -> None:
    """The last worker comes late: in time, then too late, then never for a while."""
    last = rank == arguments().get("who", world - 1)
    time.sleep(0.3 if last else 0)
    report(in_time=comm.all_reduce([1], timeout=20))
    if last:
        wait_for_file(f"waited {(rank + 1) % world}")
    start = time.monotonic()
    text = error_text(lambda: comm.all_reduce([1], timeout=30 if last else 2))
    report(late=text, seconds=time.monotonic() - start)
    touch(f"waited {rank}")
    report(after=comm.all_reduce([1], timeout=20))


def late_to_connect() -> None:
    """The last worker has not even connected when the others give up."""
    last = rank == arguments().get("who", world - 1)
    touch(f"ready {rank}")
    for other in range(world):  # whose processes may start one after the other
        wait_for_file(f"ready {other}")
    if last:
        wait_for_file(f"waited {(rank + 1) % world}")
    report(late=error_text(lambda: comm.all_reduce([1], timeout=1 if not last else 20)))
    touch(f"waited {rank}")
    report(after=comm.all_reduce([1], timeout=20))


def lagging() -> None:
    """Rank 0 has given up five calls, two of them before rank 1 connected, and ended, when rank 1 comes to them."""
    texts, timeouts = [], [5.0, 1.0, 3.0, 1.0, 1.0] if rank == 0 else [30.0] * 5
    start = time.monotonic()
    for call, timeout in enumerate(timeouts):
        if rank == 1 and call == 0:
            wait_for_file("two calls are over")
            start = time.monotonic()
        if rank == 1 and call == 1:
            wait_for_file("0.json")
        if rank == 0 and call == 2:
            touch("two calls are over")
        if rank == 0 and call == 3:
            wait_for_file("rank 1 has heard")
        texts.append(error_text(lambda: comm.all_reduce([1], timeout=timeout)))  # noqa: B023
        if rank == 1:
            touch("rank 1 has heard")
    report(texts=texts, seconds=time.monotonic() - start)


def random_lateness() -> None:
    """Everybody is late by chance, often by just about the timeout."""
    delays = np.random.default_rng([arguments()["seed"], rank])
    outcomes = []
    comm.barrier()  # or rank 0 may be through all its calls before the others have started
    for call, timeout in enumerate([0.1] * 59 + [60]):
        time.sleep(delays.choice([0, 0, 0.02, 0.05, 0.08, 0.1, 0.12, 0.2]))
        outcomes.append(error_text(lambda: comm.all_reduce([call], timeout=timeout).tolist()))  # noqa: B023
    report(outcomes=outcomes)


def killed() -> None:
    """One worker is killed while the others wait for it."""
    comm.barrier()
    if rank == arguments()["who"]:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    first = error_text(lambda: comm.all_reduce([1], timeout=30))
    seconds = time.monotonic() - start
    report(first=first, seconds=seconds, second=error_text(lambda: comm.all_reduce([1], timeout=30)))


def stopped() -> None:
    """One worker stops in the middle; the test kills it in the end."""
    comm.barrier()
    if rank == arguments()["who"]:
        report(stopped=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    wait_for_file(f"{arguments()['who']}.json")
    start = time.monotonic()
    size = arguments()["size"]
    report(text=error_text(lambda: comm.all_reduce(np.ones(size), timeout=2)), seconds=time.monotonic() - start)
    touch(f"done {rank}")


def strangers() -> None:
    """Somebody else connects to rank 0's port, says nothing, or nonsense, while the last worker is awaited."""
    if rank == 1:
        silent = [knock(b"") for _ in range(3)]
        for data in (b"GET / HTTP/1.0\r\n\r\n", os.urandom(4096)):
            knock(data).close()
        touch("knocked")
        report(heard=[sock.recv(16).decode() for sock in silent])
    if rank == 2:
        wait_for_file("knocked")
    report(total=comm.all_reduce([1], timeout=20))


def knock(data: bytes) -> socket.socket:
    """Connect to where rank 0 listens, and send."""
    while True:
        for host, port in Job.from_environment().candidates():
            try:
                sock = socket.create_connection((host, port), 1)
                sock.sendall(data)
                return sock
            except OSError:
                time.sleep(0.01)


def forks() -> None:
    """A forked child must not touch the parent's sockets."""
    comm.barrier()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, error_text(comm.barrier).encode())
        comm.close()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    report(child=os.read(reader, 10_000).decode(), total=comm.all_reduce([1]))


def closes() -> None:
    """Closed here, closed there; a second channel exists beside the first."""
    other = SocketCommunicator()
    report(other=other.all_reduce([2]))
    other.close()
    other.close()
    report(closed=error_text(other.barrier), total=comm.all_reduce([1]))
    if rank == world - 1:
        comm.close()
        touch("closed")
    wait_for_file("closed")
    report(gone=error_text(lambda: comm.barrier(timeout=20)))


def same_rank() -> None:
    """Rank 2 believes that it is rank 1, and the last one is missing."""
    if rank == world - 1:
        wait_for_file("refused")
    job = replace(Job.from_environment(), rank=1 if rank == 2 else rank)
    text = error_text(lambda: SocketCommunicator(job).barrier(timeout=20 if rank < world - 1 else 0.5))
    if rank < world - 1:
        report(text=text)
        touch("refused")


if __name__ == "__main__":
    if arguments().get("paddle"):
        import paddle  # noqa: F401
    comm = get_communicator()
    rank, world = comm.rank, comm.world_size
    globals()[arguments()["case"]]()
    report(done=True, paddle="paddle" in sys.modules)
