"""Processes that share tasks; they start with a call and always end with it.

They are plain interpreters that do not import the program's main module: a script needs no ``if __name__ ==
"__main__"``, and a notebook works.

`concurrent.futures.ProcessPoolExecutor` and loky were tried. Both report a killed process, but an interrupted program
waits for their running tasks. Neither lets a process join its results, so that one result travels for each process
instead of one for each file. Spawned processes of the former run a script without that guard again, and forked ones
copy a process that has threads. Both lose an error that cannot be unpickled, and raise a `TypeError` of the pickle, or
report a broken pool, instead.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import pickle
import queue
import subprocess
import sys
import threading
from typing import Any, Callable, Generator, Iterator, NamedTuple, Sequence

from fleetmetrics.support.warning import warn

__all__ = ["processes_kept", "results_of", "serve"]

#: The message that there are no more tasks.
_END = pickle.dumps(None)

_START = "import sys; sys.path[:] = {!r}; from fleetmetrics.files.processes import serve; serve()"


#: The processes that wait for the next call; None: they end with their own.
_KEPT: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("processes kept", default=None)


@contextlib.contextmanager
def processes_kept() -> Iterator[None]:
    """Within this, processes whose results were joined wait for the next call: starting one takes about a second."""
    kept: list[Any] = []
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for process in kept:
            with process:
                process.kill()


class _Joined(NamedTuple):
    """The joined results of a process."""

    result: Any
    process: Any


def results_of(
    function: Callable[..., Any],
    tasks: Sequence[Any],
    processes: int,
    threads: int = 1,
    join: Callable[[Sequence[Any]], Any] | None = None,
) -> Generator[Any, None, None]:
    """``function(*task)`` of each task, in any order; run here for one process, or if tasks cannot be sent.

    Args:
        function: the work.
        tasks: the arguments of each call.
        processes: the number of processes that share the tasks.
        threads: the number of threads that share them in one process.
        join: makes one result from any number of results, even from none. A process then joins its own results, and
            sends one.

    Raises:
        Exception: the error of a task, or of a process that died.
    """
    processes = min(processes, len(tasks))
    letters = _pickled(function, tasks, join) if processes > 1 else []
    if not letters and threads == 1:
        for task in tasks:
            yield function(*task)
        return
    waiting: Iterator[Any] = iter(letters or tasks)
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    here: list[threading.Thread] = []
    kept = _KEPT.get()
    free: list[Any] = []  # processes that have sent their results
    with contextlib.ExitStack() as workers:
        workers.callback(list, waiting)  # otherwise threads would continue with the remaining tasks
        for _ in range(processes if letters else threads):
            process = None
            if letters:
                process = kept.pop() if kept else _start()
            joins = join is not None and process is not None
            thread = threading.Thread(target=_work, args=(function, process, waiting, done, joins), daemon=True)
            if process is None:
                here.append(thread)
            else:
                workers.callback(_kill, process, kept, free)
            thread.start()
        joined: list[Any] = []
        left = len(tasks)
        while left or len(joined) < (processes if letters and join is not None else 0):
            result = done.get()
            if isinstance(result, _Joined):
                joined.append(result.result)
                free.append(result.process)
                continue
            left -= 1
            if isinstance(result, Exception):
                list(waiting)
                for thread in here:  # no thread works for a call that has raised
                    thread.join()
                raise result
            if not letters or join is None:
                yield result
            elif left:
                yield join([])
        if kept is not None:
            kept += free
        if joined and join is not None:
            yield join(joined)


def _work(
    function: Callable[..., Any],
    process: subprocess.Popen[bytes] | None,
    waiting: Iterator[Any],
    done: queue.SimpleQueue[Any],
    joins: bool,
) -> None:
    """Do one task after another, here or in a process, until one fails."""
    with contextlib.ExitStack() as ending:
        if process is not None:
            ending.enter_context(process)
        for task in waiting:
            try:
                done.put(_answer(process, task) if process else function(*task))
            except Exception as error:
                done.put(error)
                return
        if joins:
            try:
                done.put(_Joined(_answer(process, _END), process))
                ending.pop_all()  # the call ends the process, or keeps it
            except Exception as error:
                done.put(error)


def _kill(process: Any, kept: list[Any] | None, free: list[Any]) -> None:
    """End the process of a call, unless it is kept for the next one."""
    if kept is not None and process in kept:
        return
    with process if process in free else contextlib.nullcontext():  # otherwise its thread closes its pipes
        process.kill()


def _pickled(function: Callable[..., Any], tasks: Sequence[Any], join: Any) -> list[bytes]:
    """The pickled tasks for other processes; empty, with a warning, if those could not read them."""
    try:
        letters = [pickle.dumps((function, task, join)) for task in tasks]
        if not any(b"__main__" in letter for letter in letters):
            return letters
        reason = "a class or function that they need is defined in the main program"
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)
    warn(
        f"one process reads everything, because the metrics cannot be sent to other processes: {reason}; define it "
        "in a module"
    )
    return []


def _start() -> subprocess.Popen[bytes]:
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command, pipe = [sys.executable, *flags, "-c", _START.format(sys.path)], subprocess.PIPE
    # In a separate session: Ctrl-C reaches only this process, which ends the others.
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)


def _answer(process: Any, letter: bytes) -> Any:
    """The outcome of a task in a process: a result, or the error that it raised."""
    try:
        pickle.dump(letter, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        how = f"with status {process.wait()}, by a signal if that is negative, perhaps because memory ran out"
        raise RuntimeError(f"a process that read files ended {how}; use fewer processes=") from None


def _done(asked: Any, held: list[Any]) -> bytes:
    """The answer to a letter; results to be joined are held until all tasks are done."""
    if asked is None:
        return pickle.dumps(held.pop() if held else None)
    function, task, join = asked
    result = function(*task)
    if join is None:
        return pickle.dumps(result)
    held[:] = [join([*held, result])]
    return pickle.dumps(None)


def _told(error: Exception) -> bytes:
    """An error for the other process; in words if it cannot be pickled or unpickled."""
    try:
        letter = pickle.dumps(error)
        pickle.loads(letter)
        return letter
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


def serve() -> None:
    """Do the tasks from the standard input, and answer on the standard output, until the input ends."""
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                tasks.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # the sender has no more tasks, or has ended

    held: list[Any] = []
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a task prints is not an answer
    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            letter = _done(pickle.loads(tasks.get()), held)
        except Exception as error:
            letter = _told(error)
        answers.write(letter)
        answers.flush()
