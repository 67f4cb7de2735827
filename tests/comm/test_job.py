"""Which machine, and which run."""

from __future__ import annotations

import pytest

from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.job import Job

FAR = "10.0.0.1:8500,10.0.0.2:8500"


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


def test_the_name_of_a_run_has_every_variable_that_distinguishes_it() -> None:
    jobs = [
        Job(0, 2, endpoints=FAR),
        Job(0, 2, endpoints=FAR, run="Paddle's launcher|PADDLE_JOB_ID=a"),
        Job(0, 2, endpoints=FAR, run="Paddle's launcher|PADDLE_JOB_ID=b"),
        Job(0, 2, endpoints=FAR, master="10.0.0.1:9"),
        *(Job(0, 2, endpoints, endpoint=endpoint) for endpoints in ("", FAR) for endpoint in ("a:8500", "b:8500")),
    ]
    assert len({job.name for job in jobs}) == len({job.title for job in jobs}) == len(jobs)
    assert jobs[0].name == Job(1, 2, endpoints=FAR, secret="of another").name


def test_no_repr_shows_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Error reporters write the local variables and the attributes of what they find there."""
    monkeypatch.setenv("FLEETMETRICS_SECRET", "of the environment")
    endpoint = "127.0.0.1:8500"
    environment = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", "FLEETMETRICS_ENDPOINT": endpoint}
    for job in (
        Job(0, 2, endpoint=endpoint, secret="of the job"),
        Job.from_environment({**environment, "FLEETMETRICS_SECRET": "of the environment"}),
        SocketCommunicator(rank=0, world_size=2, endpoint=endpoint)._job,
        SocketCommunicator(rank=0, world_size=2, endpoint=endpoint, secret="of the arguments")._job,
    ):
        assert job.secret.startswith("of the")
        assert "of the" not in f"{job!r} {vars(job)!r} {vars(job.among([0]))!r}"
