"""What a worker starts inherits its environment, and is not that worker."""

from __future__ import annotations

import os
from typing import Iterator

import pytest

from fleetmetrics import launcher
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.comm.worker import MARK, is_the_worker, leave_mark, started_by_worker
from fleetmetrics.errors import InvalidInputError

pytestmark = pytest.mark.numpy_only

PLACE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}


@pytest.fixture(autouse=True)
def unmarked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*VARIABLES, "POD_NAME", "FLEETMETRICS_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(MARK, "")
    launcher._mark.cache_clear()
    yield
    launcher._mark.cache_clear()


def placed(monkeypatch: pytest.MonkeyPatch, **changed: str) -> Job:
    for name, text in {**PLACE, **changed}.items():
        monkeypatch.setenv(name, text)
    return Job.from_environment()


def test_a_single_worker_marks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "1")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    launcher.notice()
    assert not os.environ[MARK]


def test_a_place_that_the_program_sets_later_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher.notice()
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    launcher.notice()
    assert not os.environ[MARK]
    placed(monkeypatch)
    launcher.notice()
    assert os.environ[MARK]


@pytest.mark.parametrize(
    "changed",
    [{"PADDLE_TRAINER_ID": ""}, {"PADDLE_TRAINERS_NUM": "3"}, {"TRAINING_ROLE": "PSERVER"}],
    ids=["the parent of preforked workers", "a contradiction", "a server"],
)
def test_a_process_without_a_usable_place_leaves_no_mark(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    for name, text in {**PLACE, **changed}.items():
        monkeypatch.setenv(name, text)
    launcher.notice()
    assert not os.environ[MARK]


def test_a_helper_leaves_the_mark_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    job = placed(monkeypatch)
    leave_mark(job)
    mark = os.environ[MARK].replace(str(os.getpid()), "17")
    monkeypatch.setenv(MARK, mark)
    leave_mark(job)
    assert os.environ[MARK] == mark and "process 17," in started_by_worker(job)


def test_a_member_of_a_group_is_the_worker_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    job = placed(monkeypatch, PADDLE_TRAINER_ID="2", PADDLE_TRAINERS_NUM="3", PADDLE_TRAINER_ENDPOINTS="a:1,b:2,c:3")
    leave_mark(job)
    mark = os.environ[MARK]
    leave_mark(job.among([1, 2]))
    assert os.environ[MARK] == mark


def test_a_place_given_as_arguments_leaves_no_mark() -> None:
    leave_mark(Job.placed(1, 2, "127.0.0.1:8500"))
    assert not os.environ[MARK]


def test_the_setting_says_only_this(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_the_worker()
    monkeypatch.setenv("FLEETMETRICS_WORKER", " this ")
    assert is_the_worker()
    monkeypatch.setenv("FLEETMETRICS_WORKER", "that")
    with pytest.raises(InvalidInputError, match="FLEETMETRICS_WORKER holds 'that'; allowed is 'this'"):
        is_the_worker()
