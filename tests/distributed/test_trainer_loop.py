"""A Trainer's evaluation on real workers: the loss of all tokens, where it prints another each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import run
from tests.distributed.test_token_loss import LOSS
from tests.trainer import loss_of

pytestmark = [pytest.mark.distributed, quick_on(paddle=2)]
WORKER = Path(__file__).parent / "workers" / "trainer.py"


@pytest.fixture(scope="module")
def jobs() -> dict[int, list[dict[str, Any]]]:
    return {workers: run(WORKER, workers, args={"workers": workers}) for workers in (1, 3)}


def everywhere(jobs: Any, *names: str) -> list[dict[str, Any]]:
    return [report[name] for reports in jobs.values() for report in reports for name in names]


def test_a_trainer_by_itself_prints_another_loss_for_every_number_of_workers(jobs: Any) -> None:
    assert [jobs[workers][0]["alone"]["eval_loss"] for workers in (1, 3)] == pytest.approx([9.6580, 10.0150], abs=1e-4)


def test_a_trainer_that_is_followed_prints_the_loss_of_all_tokens_on_every_worker(jobs: Any) -> None:
    for values in everywhere(jobs, "followed", "after", "padded", "pipeline"):
        assert values["eval_loss"] == pytest.approx(LOSS, rel=1e-12)
        assert not values.get("told")
    accuracies = {values["eval_accuracy"] for values in everywhere(jobs, "followed", "after", "pipeline")}
    assert len(accuracies) == 1


def test_no_logits_are_gathered(jobs: Any) -> None:
    assert everywhere(jobs, "gathered") == [[]] * 4


def test_means_with_their_numbers_of_tokens_are_the_loss_and_padding_warns(jobs: Any) -> None:
    for values in [jobs[1][0]["means"], *everywhere(jobs, "pipeline_means")]:
        assert values["eval_loss"] == pytest.approx(LOSS, rel=1e-6)
    told = [report["means"]["told"] for report in jobs[3]]
    assert [len(each) for each in told] == [0, 1, 1]
    assert told[1][0].startswith("DistributedBatchSampler repeats 1 sample on this worker, and a mean loss cannot be")


def test_of_an_evaluation_of_a_few_steps_each_sample_counts_once_also_in_the_last_window(jobs: Any) -> None:
    """Six samples in each; the last window has the thirteenth, and two that the first window had."""
    expected = [loss_of(range(6)), loss_of(range(6, 12)), loss_of([12])]
    for report in jobs[3]:
        for name, evaluations in (("mapping", 3), ("interleaved", 2)):
            losses, told = report["windows"][name]
            assert losses == pytest.approx(expected[:evaluations], rel=1e-12) and told == [], name
    for rank, report in enumerate(jobs[3]):
        losses, told = report["windows"]["means"]
        assert losses[:2] == pytest.approx(expected[:2], rel=1e-6) and losses[2] != pytest.approx(expected[2])
        assert [each.split(",")[0] for each in told] == (
            ["MappingDistributedBatchSampler repeats 1 sample on this worker"] if rank else []
        )


def test_a_batch_that_is_refused_on_one_worker_is_one_error_on_all_after_the_last_batch(jobs: Any) -> None:
    texts = set(everywhere(jobs, "spoiled"))
    assert len(texts) == 2  # that of three workers says which it was
    assert all("prediction must be logits without nan and inf" in text for text in texts)
