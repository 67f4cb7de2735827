"""What makes thousands of tests quick: less garbage to look through, waiting beside computing, nothing twice."""

from __future__ import annotations

import gc
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

from tests import cover

pytest_plugins = ["tests.processes"]

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
