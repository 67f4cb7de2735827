"""What makes thousands of tests in one process quick: less to copy, and less garbage to look through."""

from __future__ import annotations

import gc
import sys
import traceback
from types import FrameType

_extract_stack = traceback.extract_stack


def extract_stack(f: FrameType | None = None, limit: int | None = None) -> traceback.StackSummary:
    """The innermost frames, which are what an error message of Paddle is about.

    Paddle keeps a stack with each operation of a static program, 3.x for ever; among pytest's own forty frames that
    takes longer than the rest of building a program.
    """
    return _extract_stack(f or sys._getframe(1), limit or 12)


traceback.extract_stack = extract_stack

# What is collected lives to the end: each search for garbage would look at all of it.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()
