"""The results that the documentation shows are numbers that the benchmarks have printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import DOCS

pytestmark = pytest.mark.numpy_only


def test_every_result_is_a_number_that_a_benchmark_has_printed() -> None:
    printed = (Path(__file__).resolve().parents[2] / "benchmarks" / "README.md").read_text("utf-8")
    shown = (DOCS / "project" / "benchmarks.md").read_text("utf-8")
    numbers = re.findall(r"(?<!\w)[\d,.]+ (?:us|ms|s|MiB)(?!\w)|[\d.]+ \([\d.]+ - [\d.]+\)", shown)
    assert len(numbers) > 25
    assert not [number for number in numbers if number not in printed], "quote what benchmarks/README.md has"
