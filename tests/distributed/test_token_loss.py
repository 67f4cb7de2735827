"""The loss of a language model on real workers: one number, where a mean of means is another one each time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, quick_on(paddle=3)]
WORKER = Path(__file__).parent / "workers" / "token_loss.py"
#: Of all texts at once, by scipy.special.log_softmax.
LOSS, BITS = 11.842624871016666, 11.536225620764098


@pytest.fixture(scope="module")
def jobs() -> dict[int, list[dict[str, Any]]]:
    return {workers: run(WORKER, workers, args={"workers": workers}) for workers in (1, 3)}


def test_every_worker_prints_the_loss_of_all_tokens_for_any_numbers(jobs: Any) -> None:
    for reports in jobs.values():
        for report in reports:
            assert report == reports[0]
            assert report["loss"] == pytest.approx(LOSS, rel=1e-12)
            assert report["perplexity"] == math.exp(report["loss"])
            assert report["bits"] == pytest.approx(BITS, rel=1e-12)
            assert report["losses"] == pytest.approx(LOSS, rel=1e-6)  # cross_entropy is in float32


def test_a_mean_of_the_means_of_batches_is_another_number_on_every_number_of_workers(jobs: Any) -> None:
    means = [jobs[workers][0]["batches"] for workers in (1, 3)]
    assert means == pytest.approx([11.4194, 8.9374], abs=1e-4)


def test_means_with_their_numbers_of_tokens_are_the_loss_except_for_repeated_samples(jobs: Any) -> None:
    assert jobs[1][0]["means"] == pytest.approx(LOSS, rel=1e-6)  # nothing is repeated
    assert abs(jobs[3][0]["means"] / LOSS - 1) > 1e-3
