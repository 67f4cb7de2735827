"""`pytest --processes 4`: one process imports and collects everything, and forks those that run the tests.

Each of them runs the tests of one module at a time. A process that a test has ended is replaced. Every other one is
forked before anything is imported, and begins with the tests that fork workers themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import mmap
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import pytest
from _pytest._io import TerminalWriter
from _pytest.junitxml import LogXML
from _pytest.terminal import TerminalReporter
from _pytest.tmpdir import TempPathFactory

from tests import nursery

#: Tests that start processes, and mostly wait for them: those that take longest come first.
WAITING = (
    "tests/examples/test_wide_and_deep_demo.py",
    "tests/distributed/test_strangers.py",
    "tests/distributed/test_runs.py",
    "tests/distributed/test_hapi.py",
    "tests/distributed/test_metrics.py",
    "tests/test_docs_scripts.py",
    "tests/distributed/",
    "tests/examples/",
    "tests/test_docs.py",
)
#: The import of tests that fork workers: 4 ms of processor time each where little is imported, 38 where everything is
#: collected.
_FORKS = "from tests.distributed.forks import"
#: Reports are sent when a test fails, and otherwise after this many seconds.
_SEND_AFTER = 0.2
#: Threads that may run while this process forks: of memory managers, which see to it.
_MAY_FORK = ("jemalloc_bg_thd", "polars-ooc-clea")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=0, help="how many processes run the tests; 0: this one")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    options = session.config.option
    if not options.processes or options.collectonly or options.usepdb:
        return
    # There are more processes than processors: threads of theirs would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if find_spec("paddle") is not None:
        nursery.share()
    session.config.stash[_TESTS] = _Tests(session, options.processes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    tests = session.config.stash.get(_TESTS, None)
    if tests is None or session.testsfailed:
        return None
    if find_spec("paddle") is not None:
        for module in nursery.modules():
            import_module(module)
    gc.freeze()  # a process that looked for garbage there would copy it
    tests.run()
    return True


class _Tests:
    """The tests of a session: which are left, and which process runs which.

    Args:
        session: one that is about to be collected.
        count: how many processes run at a time.
    """

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        self._hook = session.config.hook
        self._count = count
        self._left: dict[str, list[int]] = {}  # by module: their places in the session
        self._forking: set[str] = set()  # modules
        self._processes: dict[Connection, _Process] = {}
        for number in range(0, count, 2):
            self._fork(number, early=True)

    def run(self) -> None:
        """Run them all, once they are collected."""
        for place, item in enumerate(self._session.items):
            self._left.setdefault(item.nodeid.partition("::")[0], []).append(place)
        root = self._session.config.rootpath
        self._forking = {module for module in self._left if _FORKS in (root / module).read_text("utf-8")}
        reporter: Any = self._session.config.pluginmanager.getplugin("terminalreporter")
        reporter.showfspath = False
        try:
            for number in range(1, self._count, 2):
                self._fork(number)
            for process in self._processes.values():
                self._give(process)
            while self._processes:
                for connection in wait(self._processes):
                    assert isinstance(connection, Connection)
                    self._hear(connection)
        finally:
            for process in self._processes.values():
                process.end()

    def _fork(self, number: int, early: bool = False) -> _Process:
        threads = [thread.name for thread in threading.enumerate()[1:]] + _pools()
        assert not threads, f"a module of tests has started threads, which no fork would have: {', '.join(threads)}"
        process = _Process(self._session, number, early, self._processes)
        self._processes[process.connection] = process
        return process

    def _give(self, process: _Process) -> None:
        """Have a process run the tests of the next module: of every other process preferably one that waits."""
        waits = process.number % 2 == 0
        modules = [module for module in self._left if module.startswith(WAITING) == waits] or list(self._left)
        if process.early:
            modules = [module for module in self._left if module in self._forking]
        if not modules:
            process.send([])
            return
        module = min(modules, key=lambda module: [not module.startswith(first) for first in WAITING])
        process.places = self._left.pop(module)
        process.send([(place, self._session.items[place].nodeid) for place in process.places])

    def _hear(self, connection: Connection) -> None:
        process = self._processes[connection]
        told = None
        with contextlib.suppress(EOFError, OSError):
            told = connection.recv()
        if told is None:
            del self._processes[connection]
            self._replace(process)
            return
        for kind, values in told:
            if kind == "warning":
                self._warn(*values)
            elif kind == "ended":
                self._give(process)
            else:
                self._report(process, *values)

    def _warn(self, text: str, category: type[Warning], file: str, line: int, rest: dict[str, Any]) -> None:
        message = warnings.WarningMessage(text, category, file, line)
        self._hook.pytest_warning_recorded.call_historic(kwargs={"warning_message": message, **rest})

    def _report(self, process: _Process, place: int, reports: list[pytest.TestReport]) -> None:
        item = self._session.items[place]
        process.places.remove(place)
        self._hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _replace(self, process: _Process) -> None:
        """A process has ended. Where tests are left of its module, one of them has ended it."""
        status = process.wait()
        if process.places:
            place = process.runs()
            if place not in process.places:
                place = process.places[0]
            item = self._session.items[place]
            words = f"the process ended with status {status} while it ran this test"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
            after = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "teardown")
            self._report(process, place, [report, after])
            if process.places:
                self._left[item.nodeid.partition("::")[0]] = process.places
        if self._left:
            self._give(self._fork(process.number + self._count))


class _Process:
    """One that runs tests, as the one that has forked it sees it.

    Args:
        session: what it may run.
        number: by which its folders and ports differ from those of the others.
        early: whether the session is not collected yet.
        others: the connections to these.
    """

    def __init__(self, session: pytest.Session, number: int, early: bool, others: Iterable[Connection]) -> None:
        self.number = number
        self.early = early
        self.places: list[int] = []
        self._place = mmap.mmap(-1, 8)
        self.connection, end = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for connection in (self.connection, *others):
                connection.close()
            _run(session, number, early, end, self._place)
        end.close()

    def send(self, tests: list[tuple[int, str]]) -> None:
        """Tell it what to run next, by place and name, all of one module; nothing: it ends."""
        with contextlib.suppress(BrokenPipeError):
            self.connection.send(tests)

    def runs(self) -> int:
        """The place of the test that it has begun last."""
        return int.from_bytes(self._place[:8], "little")

    def wait(self) -> int:
        """The status with which it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def end(self) -> None:
        """Interrupt its test, so that this one ends what it has started; or else end it."""
        for end in (signal.SIGINT, signal.SIGKILL):
            os.kill(self.pid, end)
            for _ in range(100):
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return
                time.sleep(0.1)


_TESTS = pytest.StashKey[_Tests]()

# -- in the process ----------------------------------------------------------------------------------------


class _Reports:
    """What the process tells of its tests; a plugin."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unsent: list[tuple[str, Any]] = []
        self._reports: list[pytest.TestReport] = []
        self._sent = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed:
            report.keywords = {}
        if not (report.when == "setup" and report.passed and report.duration < 0.01):
            self._reports.append(report)

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        category = warning_message.category
        try:
            pickle.dumps(category)
        except (pickle.PicklingError, AttributeError):
            category = Warning
        rest = {"when": when, "nodeid": nodeid, "location": location}
        values = (str(warning_message.message), category, warning_message.filename, warning_message.lineno, rest)
        self._unsent.append(("warning", values))

    def forget(self) -> None:
        """Drop what is not sent yet."""
        self._unsent.clear()

    def send(self, place: int) -> None:
        """Tell of a test that is over, some time."""
        reports, self._reports = self._reports, []
        self._unsent.append(("reports", (place, reports)))
        if time.monotonic() - self._sent > _SEND_AFTER or not all(report.passed for report in reports):
            self.flush()

    def flush(self, *last: tuple[str, Any]) -> None:
        """Tell all."""
        self._connection.send([*self._unsent, *last])
        self._unsent.clear()
        self._sent = time.monotonic()


class _Stacks:
    """Where pytest-timeout writes what each thread does."""

    def __init__(self) -> None:
        self._tw = TerminalWriter(sys.__stderr__)


def _run(session: pytest.Session, number: int, early: bool, connection: Connection, running: mmap.mmap) -> None:
    """Run tests in this process, which has been forked, as long as there are some; it does not return."""
    status = 1
    try:
        atexit._clear()
        os.environ[nursery.NUMBER] = str(number)
        reports = _Reports(connection)
        _become(session.config, number, reports)
        while tests := connection.recv():
            if early:
                session.perform_collect([str(session.config.rootpath / tests[0][1].partition("::")[0])])
                named = {item.nodeid: item for item in session.items}
                items = [named[name] for _, name in tests]
            else:
                items = [session.items[place] for place, _ in tests]
            # What belongs to the session stays.
            for (place, _), item, following in zip(tests, items, [*items[1:], session]):
                running[:8] = place.to_bytes(8, "little")
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                reports.send(place)
            reports.flush(("ended", None))
        session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()
        status = 0
    except KeyboardInterrupt:
        session._setupstate.teardown_exact(None)
    except (EOFError, BrokenPipeError):
        pass  # the one that has forked this one is gone
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)  # destructors of Paddle 2.6 hang now and then


def _become(config: pytest.Config, number: int, reports: _Reports) -> None:
    """Have folders and captured output of its own, and report to the one that has forked this one."""
    config.option.basetemp = config._tmp_path_factory.getbasetemp() / f"gw{number}"  # type: ignore[attr-defined]
    config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)  # type: ignore[attr-defined]
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture._global_capturing = None  # not closed: modules may have kept what was sys.stdout
    capture.start_global_capturing()
    capture.suspend_global_capture()
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, (TerminalReporter, LogXML)):
            config.pluginmanager.unregister(plugin)
    config.pluginmanager.register(_Stacks(), "terminalreporter")
    config.pluginmanager.register(reports)
    reports.forget()  # the warnings that there have been


def _pools() -> list[str]:
    """The names of threads of libraries, where the system lists them; Paddle's are named as its process."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").glob("*")]
    return [name for name in names if name not in (names[0], *_MAY_FORK)]
