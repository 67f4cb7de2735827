"""A reader who follows a computation passes few rooms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
#: The most modules that a compute on two workers may pass, once it has found the others.
MOST = {"AUC": 13, "Sliced": 18}


def test_a_computation_on_two_workers_passes_few_modules():
    reports = run(Path(__file__).parent / "workers" / "modules.py", args={"metrics": list(MOST)})
    for rank, told in enumerate(reports):
        for name, modules in told["modules"].items():
            assert len(modules) <= MOST[name], f"{rank} {name} {sorted(modules)}"
