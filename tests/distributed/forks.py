"""Workers as forked children of the test: cheap, and what they do is written in the test itself.

In a test::

    with crew(3, lambda rank: outcome(lambda: member(rank, 3, port).all_reduce([1], timeout=5).tolist())) as workers:
        assert results(workers) == [[3]] * 3
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  imported by the first connection: a child forked meanwhile would wait forever
import faulthandler
import gc
import os
import pickle
import select
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.channel import _see_off
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import FleetMetricsError
from tests.distributed.cluster import PATIENCE

SECRET = "known to the workers of the tests"
#: Where a proxy stands; rank 0 listens on the same port of 127.0.0.1.
BEFORE = "127.0.0.2"


@dataclass(frozen=True)
class Detour(Job):
    """A job whose workers reach rank 0 by another address than its own, as where something relays.

    Args:
        via: that address, without the port; "": rank 0's own.
    """

    via: str = ""

    def candidates(self) -> list[tuple[str, int]]:
        """Return the addresses as this worker knows them."""
        return [(self.via or host, port) for host, port in super().candidates()]


def member(
    rank: int, world: int, port: int, host: str = "127.0.0.1", channel: str | None = None, **options: Any
) -> SocketCommunicator:
    """Return the communicator of one worker.

    Args:
        rank: of the worker.
        world: how many workers there are.
        port: rank 0's.
        host: rank 0's, as this worker knows it.
        channel: of the communicator.
        options: of the `Job`.
    """
    options = {"secret": SECRET, "named": True, **options}
    return SocketCommunicator(Detour(rank, world, endpoint=f"127.0.0.1:{port}", via=host, **options), channel=channel)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or "ClassName: message" of the error; a raw one with its traceback.

    Args:
        call: without arguments.
    """
    try:
        return call()
    except (FleetMetricsError, KeyboardInterrupt, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"RAW {traceback.format_exc()}"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the outcome of a call, and the seconds that it took.

    Args:
        call: without arguments.
    """
    start = time.monotonic()
    return outcome(call), time.monotonic() - start


class Fork:
    """A child process that runs a function; what it returns comes back pickled.

    Args:
        work: what the child does.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._reader, writer = os.pipe()
        gc.disable()  # until the child has put aside the test's garbage: Paddle's executors cannot end there
        try:
            self.pid = os.fork()  # after which Python's own hooks run, and make objects
            if not self.pid:
                _become(work, writer)
        finally:
            gc.enable()
        os.close(writer)
        self.status: int | None = None

    def result(self, seconds: float = PATIENCE) -> Any:
        """Return what the function returned; None if the child was killed.

        Args:
            seconds: how long to wait.
        """
        data, end = b"", time.monotonic() + seconds
        while True:
            if not select.select([self._reader], [], [], max(0.0, end - time.monotonic()))[0]:
                self.kill(signal.SIGUSR1)  # which prints where it is
                time.sleep(0.5)
                raise AssertionError(f"a worker was not ready within {seconds:g} s")
            piece = os.read(self._reader, 1 << 16)
            if not piece:
                break
            data += piece
        self.bury()
        if not data:
            return None
        fine, value = pickle.loads(data)
        assert fine, value
        return value

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal.

        Args:
            number: which.
        """
        if self.status is None:
            os.kill(self.pid, number)

    def bury(self) -> None:
        """Wait for the end."""
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
            os.close(self._reader)


def _become(work: Callable[[], Any], writer: int) -> None:
    """In the child: forget the test, and end without returning to it."""
    try:
        gc.freeze()  # what the test has left uncollected: it would close descriptors that are ours by then
        gc.enable()
        os.dup2(writer, 3)
        os.closerange(4, 1 << 16)  # a socket that the test closes must be closed
        faulthandler.register(signal.SIGUSR1, file=2)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        try:
            data = pickle.dumps((True, work()))
            _see_off()  # as a process that ends by itself
        except BaseException:
            data = pickle.dumps((False, traceback.format_exc()))
        _see_off()  # as any process does at its end
        while data:
            data = data[os.write(3, data) :]
    finally:
        os._exit(0)


@contextlib.contextmanager
def crew(world: int, work: Callable[[int], Any]) -> Iterator[list[Fork]]:
    """Fork workers; who is left at the end is killed.

    Args:
        world: how many.
        work: takes the rank.
    """
    workers: list[Fork] = []
    try:
        for rank in range(world):
            workers.append(Fork(lambda rank=rank: work(rank)))  # type: ignore[misc]
        yield workers
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.bury()


def results(workers: Sequence[Fork], seconds: float = PATIENCE) -> list[Any]:
    """Return what the workers returned, by rank; see `Fork.result`."""
    return [worker.result(seconds) for worker in workers]


def run(world: int, work: Callable[[int], Any], seconds: float = PATIENCE) -> list[Any]:
    """Fork workers, and return what each returned; see `crew`."""
    with crew(world, work) as workers:
        return results(workers, seconds)


def wait_for(path: Path, seconds: float = PATIENCE) -> None:
    """Wait until another process has touched a file.

    Args:
        path: which.
        seconds: how long at most.
    """
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no process touched {path}"
        time.sleep(0.002)


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something is so.

    Args:
        condition: looks at it.
        seconds: how long at most.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it has not come to be"
        time.sleep(0.002)
