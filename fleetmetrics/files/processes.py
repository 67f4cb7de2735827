"""Processes that share tasks: started for one call, and gone when it ends, however it ends.

They are started as plain interpreters, which import neither the program's main module nor anything of it that the tasks
do not name: a script needs no ``if __name__ == "__main__"``, and a notebook works.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator, Sequence

from fleetmetrics.errors import FleetMetricsError, warn

__all__ = ["results_of", "serve"]

_START = "import sys; sys.path[:] = {path!r}; from fleetmetrics.files.processes import serve; serve()"


def results_of(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], processes: int
) -> Iterator[tuple[int, Any]]:
    """The place of each task and ``function(*task)``, or the FleetMetricsError that it raised, as they are done.

    Args:
        function: of a module.
        tasks: what it is called with; all of it can be pickled, or one process, this one, does everything.
        processes: how many; there are never more than tasks.

    Raises:
        Exception: a task raised anything else, or its process died.
    """
    processes = min(processes, len(tasks))
    letters = _pickled(function, tasks) if processes > 1 else []
    if not letters:
        for place, task in enumerate(tasks):
            yield place, _result(function, task)
        return
    waiting: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    for each in enumerate(letters):
        waiting.put(each)
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    workers = [_Worker(waiting, done) for _ in range(processes)]
    try:
        for _ in tasks:
            place, result = done.get()
            if isinstance(result, Exception) and not isinstance(result, FleetMetricsError):
                raise result
            yield place, result
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.thread.join()


def _pickled(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[bytes]:
    """The tasks for other processes; none, with a warning, if those could not read them."""
    try:
        letters = [pickle.dumps((function, task)) for task in tasks]
        reason = "are defined in the program itself" if any(b"__main__" in letter for letter in letters) else ""
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        letters, reason = [], f"cannot be pickled ({error})"
    if not reason:
        return letters
    warn(f"the metrics {reason}, so one process does all; define what they need in a module to use all cores")
    return []


def _result(function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    try:
        return function(*task)
    except FleetMetricsError as error:
        return error


class _Worker:
    """A process, and the thread that gives it tasks one by one."""

    def __init__(self, waiting: queue.SimpleQueue[Any], done: queue.SimpleQueue[Any]) -> None:
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _START.format(path=sys.path)]  # type: ignore[attr-defined]
        # A session of its own: Ctrl-C comes to this process alone, which ends the others.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1, start_new_session=True
        )
        self.thread = threading.Thread(target=self._work, args=(waiting, done), daemon=True)
        self.thread.start()

    def _work(self, waiting: queue.SimpleQueue[Any], done: queue.SimpleQueue[Any]) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self.process, self.process.stdin as tasks, self.process.stdout as results:
            while True:
                try:
                    place, letter = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    pickle.dump(letter, tasks)
                    tasks.flush()
                    done.put((place, pickle.load(results)))
                except (EOFError, OSError, pickle.UnpicklingError):
                    status = self.process.wait()
                    how = f"by signal {-status}, perhaps for want of memory" if status < 0 else f"with status {status}"
                    done.put((place, RuntimeError(f"a process ended {how}; fewer processes= need less memory")))
                    return


def serve() -> None:
    """Do the tasks that come on the standard input, and answer on the standard output, until the former ends."""
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    source = sys.stdin.buffer

    def read() -> None:
        try:
            while True:
                tasks.put(pickle.load(source))
        except (EOFError, OSError):
            os._exit(0)  # whoever gave the tasks is gone, or has no more

    with os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # what a task prints is not an answer
        threading.Thread(target=read, daemon=True).start()
        while True:
            try:
                function, task = pickle.loads(tasks.get())
                result = _result(function, task)
            except Exception as error:
                result = error
            try:
                letter = pickle.dumps(result)
            except Exception:
                letter = pickle.dumps(RuntimeError(f"{type(result).__name__}: {result}"))
            results.write(letter)
            results.flush()
