"""What makes thousands of tests quick: less garbage to look through, waiting beside computing, nothing twice."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol

from tests import cover, nursery, standing_in

if "PYTEST_XDIST_WORKER" in os.environ:
    # There are more workers than processors: threads of theirs would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# `make types` runs these, with packages that other environments lack.
collect_ignore = ["typing"]

# What is collected lives to the end: each search for garbage would look at all of it.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Pictures are always compared: pytest-mpl does so with --mpl only, which other environments do not know."""
    config.option.mpl = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules of which no test is wanted, with the older Paddle, are not imported: each process would."""
    unwanted = [mark for mark in ("numpy_only", "thorough") if f"not {mark}" in config.option.markexpr]
    if not unwanted or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return True if re.search(rf"^pytestmark = .*\b({'|'.join(unwanted)})\b", text, re.MULTILINE) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[list[pytest.Collector]]:
    """No test has a doctest, for which `--doctest-modules` would look."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Combinations that no entry of a list needs are thorough; the older Paddle gets other ones than the newer.

    ``-k LogCoshError`` finds the tests of the case "log cosh error", too.
    """
    for item in items if config.option.keyword else ():
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        item.extra_keyword_matches.update(each.replace(" ", "") for each in parameters if isinstance(each, str))
    if "thorough" not in config.option.markexpr:
        return
    older = "not numpy_only" in config.option.markexpr
    unwanted = ("thorough", "numpy_only") if older else ("thorough",)
    wanted = [item for item in items if not any(map(item.get_closest_marker, unwanted))]
    left = {*cover.of_the_other(wanted, older), *cover.of_a_kind_seen(wanted)}
    for item in left:
        item.add_marker("thorough")
    wanted = [item for item in wanted if item not in left]
    for item in cover.left_out(wanted[::-1] if older else wanted):
        item.add_marker("thorough")


def pytest_collection_finish() -> None:
    """From here on there is garbage; a search for that of collecting would take longer than to keep it.

    Paddle has forty loggers that do not propagate: pytest would add its handlers to each of them six times a test.
    """
    gc.freeze()
    gc.enable()
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and not name.startswith("fleetmetrics"):
            logger.propagate = True


class _NoPaddle:
    """A finder of modules that has none of Paddle."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name.partition(".")[0] == "paddle":
            raise ImportError("a test that is marked numpy_only must not import Paddle")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """As pytest's own, but a process of pytest-xdist reports neither starts nor setups that passed at once."""
    if "PYTEST_XDIST_WORKER" not in os.environ or item.config.option.verbose > 0:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if not (report.when == "setup" and report.passed and report.duration < 0.01):
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """One version is enough for a test that never touches Paddle: see that it does not."""
    if item.get_closest_marker("numpy_only") is None:
        return (yield)
    paddle = sys.modules.pop("paddle", None)
    sys.meta_path.insert(0, _NoPaddle)
    try:
        return (yield)
    finally:
        sys.meta_path.remove(_NoPaddle)
        if paddle is not None:
            sys.modules["paddle"] = paddle


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Paddle is imported once for the processes of pytest-xdist and for all programs that they start."""
    if find_spec("paddle") is not None:
        python = f"{sys.executable} {standing_in.__file__} {nursery.share()}"
        specs[:] = [type(spec)(f"{spec}//id={spec.id}//python={python}") for spec in specs]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of pytest-xdist's workers half or one more begin with the tests that wait, the others with those that compute.

    The tests of a module stay together: they share a job, or what is made once for all of them.
    """
    from xdist.scheduler import LoadFileScheduling

    class WaitBesideComputing(LoadFileScheduling):
        def _assign_work_unit(self, node: Any) -> None:
            waits = self.nodes.index(node) % 2 == 0
            scopes = [each for each in self.workqueue if each.startswith(WAITING) == waits]
            if scopes:
                scope = min(scopes, key=lambda each: [not each.startswith(first) for first in WAITING])
                self.workqueue.move_to_end(scope, last=False)
            assigned = self.assigned_work[node]
            # pytest-xdist would count the tests of finished modules again after each test.
            for scope in [scope for scope, tests in assigned.items() if all(tests.values())]:
                del assigned[scope]
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return WaitBesideComputing(config, log)
