"""Which machine, and which secret."""

from __future__ import annotations

import stat
import warnings
from pathlib import Path

import pytest

from fleetmetrics.comm import job as room
from fleetmetrics.comm.job import Job, secret_of
from fleetmetrics.errors import UnauthenticatedWarning

FAR = "10.0.0.1:8500,10.0.0.2:8500"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(room.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("job", "same"),
    [
        (Job(0, 2, endpoint="127.0.0.3:8500"), True),
        (Job(0, 2, endpoint="localhost:8500"), True),
        (Job(0, 2, endpoint="[::1]:8500"), True),
        (Job(0, 2, endpoint="10.0.0.1:8500"), False),
        (Job(0, 2, endpoints="10.0.0.1:8500,10.0.0.1:8501"), True),
        (Job(0, 2, endpoints=FAR), False),
    ],
)
def test_workers_on_one_machine(job: Job, same: bool) -> None:
    assert job.on_one_machine == same


def test_workers_of_one_user_on_one_machine_find_a_secret_that_nobody_else_can_read(temporary: Path) -> None:
    found = {secret_of(Job(rank, 2, endpoint="127.0.0.1:8500")) for rank in range(2)}
    assert len(found) == 1 and found.pop().known
    [folder] = temporary.iterdir()
    [file] = folder.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, file)] == [0o700, 0o600]


def test_a_secret_that_others_can_read_is_none(temporary: Path) -> None:
    job = Job(1, 2, endpoint="127.0.0.1:8500")
    assert secret_of(job).known
    [file] = temporary.glob("*/secret")
    file.chmod(0o644)
    assert not secret_of(job).known


def test_keys_follow_from_the_secret_and_the_job() -> None:
    jobs = [Job(0, 2, endpoints=FAR, secret=secret) for secret in "ab"] + [Job(0, 2, endpoint="h:1", secret="a")]
    assert len({secret_of(job).key for job in jobs}) == 3
    assert "of the test" not in repr(Job(secret="of the test"))


def test_without_a_secret_rank_0_warns_once_what_to_set() -> None:
    with pytest.warns(UnauthenticatedWarning, match="Set FLEETMETRICS_SECRET"):
        assert not secret_of(Job(0, 2, endpoints=FAR)).known
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not secret_of(Job(1, 2, endpoints=FAR)).known
