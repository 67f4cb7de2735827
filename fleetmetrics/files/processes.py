"""Processes that share tasks: started for one call, and gone when it ends, however it ends.

They are plain interpreters that do not import the program's main module: a script needs no ``if __name__ ==
"__main__"``, and a notebook works.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from typing import Any, Callable, Generator, Sequence

from fleetmetrics.errors import warn

__all__ = ["results_of", "serve"]

_START = "import sys; sys.path[:] = {!r}; from fleetmetrics.files.processes import serve; serve()"


def results_of(
    function: Callable[..., Any], tasks: Sequence[Any], processes: int, threads: int = 1
) -> Generator[Any, None, None]:
    """``function(*task)`` of each task, in any order; one process, or tasks that cannot be sent: all done here.

    Raises:
        Exception: what a task raised, or that its process died.
    """
    processes = min(processes, len(tasks))
    letters = _pickled(function, tasks) if processes > 1 else []
    if not letters and threads == 1:
        for task in tasks:
            yield function(*task)
        return
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for task in letters or tasks:
        waiting.put(task)
    with contextlib.ExitStack() as workers:
        for _ in range(processes if letters else threads):
            workers.callback(_start(waiting, done).kill if letters else _thread(function, waiting, done))
        for _ in tasks:
            result = done.get()
            if isinstance(result, Exception):
                raise result
            yield result


def _thread(
    function: Callable[..., Any], waiting: queue.SimpleQueue[Any], done: queue.SimpleQueue[Any]
) -> Callable[[], None]:
    """Let a thread do tasks; returns what keeps it from beginning another one."""
    stopped = threading.Event()

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while not stopped.is_set():
                task = waiting.get_nowait()
                try:
                    done.put(function(*task))
                except Exception as error:
                    done.put(error)

    threading.Thread(target=work, daemon=True).start()
    return stopped.set


def _pickled(function: Callable[..., Any], tasks: Sequence[Any]) -> list[bytes]:
    """The tasks for other processes; none, with a warning, if those could not read them."""
    try:
        letters = [pickle.dumps((function, task)) for task in tasks]
        if not any(b"__main__" in letter for letter in letters):
            return letters
        reason = "something that they need is defined in the main program"
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)
    warn(f"one process does all, for the metrics cannot be sent to others: {reason}; define it in a module")
    return []


def _start(waiting: queue.SimpleQueue[bytes], done: queue.SimpleQueue[Any]) -> subprocess.Popen[bytes]:
    """Start a process, and a thread that gives it one task after the other."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command, pipe = [sys.executable, *flags, "-c", _START.format(sys.path)], subprocess.PIPE
    # In a session of its own: Ctrl-C comes to this process alone, which ends the others.
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)

    def give() -> None:
        with process, contextlib.suppress(queue.Empty):
            while True:
                letter = waiting.get_nowait()
                try:
                    pickle.dump(letter, process.stdin)  # type: ignore[arg-type]
                    process.stdin.flush()  # type: ignore[union-attr]
                    done.put(pickle.load(process.stdout))  # type: ignore[arg-type]
                except (EOFError, OSError, pickle.UnpicklingError):
                    how = f"with status {process.wait()}, by a signal if that is negative, perhaps for want of memory"
                    done.put(RuntimeError(f"a process that read files ended {how}; give fewer processes="))
                    return

    threading.Thread(target=give, daemon=True).start()
    return process


def serve() -> None:
    """Do the tasks that come on the standard input, and answer on the standard output, until the former ends."""
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                tasks.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # who gave the tasks has no more, or is gone

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints is no answer
    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            function, task = pickle.loads(tasks.get())
            letter = pickle.dumps(function(*task))
        except Exception as error:
            letter = pickle.dumps(error)
        answers.write(letter)
        answers.flush()
