"""The options of the job, which `demo.py` checks before it starts anything. Nothing here knows Paddle."""

from __future__ import annotations

import argparse
import contextlib
import math
from pathlib import Path


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read and check the options of `train.py`, besides those that the parser has already."""
    parser.add_argument("--data", type=existing_file, nargs="+", metavar="FILE", help="Criteo TSV instead of RAND")
    parser.add_argument("--batch-size", type=positive_integer, default=256, help="rows per step (%(default)s)")
    parser.add_argument("--passes", type=positive_integer, default=20, help="passes over the data (%(default)s)")
    parser.add_argument("--learning-rate", type=positive_number, default=0.002, help="of Adam (%(default)s)")
    return parser.parse_args()


def existing_file(text: str) -> Path:
    """An argument that names a file."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text}: there is no such file")
    return Path(text)


def positive_integer(text: str) -> int:
    """An argument that is an integer of at least 1."""
    with contextlib.suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}; allowed: an integer of at least 1")


def positive_number(text: str) -> float:
    """An argument that is a finite number above 0."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number above 0")
