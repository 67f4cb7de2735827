"""The engine mpi and the backend "mpi4py", under a real mpirun."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from fleetmetrics.comm.mpi import _own_address
from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, PATIENCE, SLACK, Job, free_ports, run
from tests.distributed.dealt import RECORD_METRICS, dealt

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
WORKER = Path(__file__).parent / "workers" / "mpi.py"
ENGINE = {"FLEETMETRICS_ENGINE": "mpi"}
#: Cases of one job, in this order; with the last one MPI breaks.
IN_TURN = ["port", "folding", "late", "stopped"]


def of(case: str, report: dict[str, Any] | None) -> dict[str, Any]:
    """What a worker has reported of a case."""
    return {name.partition(": ")[2]: value for name, value in (report or {}).items() if name.startswith(f"{case}: ")}


def reports_of(case: str, workers: int, launch: str = "mpi", env: Any = None, **args: Any) -> list[dict[str, Any]]:
    """The reports of a job that has one case."""
    return [of(case, report) for report in run(WORKER, workers, launch, args={"cases": [case], **args}, env=env)]


@pytest.fixture(scope="module")
def in_turn() -> dict[str, list[dict[str, Any]]]:
    """The reports of a job of three workers that has several cases, one after the other."""
    with Job(WORKER, 3, "mpi", args={"cases": IN_TURN, "round_bytes": []}, env=ENGINE) as job:
        waited_for(lambda: all("error" in of("stopped", job.report_of(rank)) for rank in (0, 1)), job)
        for pid in stopped(job):
            os.kill(pid, signal.SIGCONT)
        reports = job.wait()
    return {case: [of(case, report) for report in reports] for case in IN_TURN}


@pytest.mark.parametrize("workers", [3, *thorough(1)])
def test_metrics_are_global_and_the_same_on_every_rank_and_without_the_backend_workers_use_sockets(
    workers: int,
) -> None:
    found = run(WORKER, workers, "mpi", args={"cases": ["not_chosen", "metrics"]})
    for report in found:
        channel = "SocketCommunicator" if workers > 1 else "LocalCommunicator"
        assert of("not_chosen", report) == {"total": workers, "channel": channel}
    reports = [of("metrics", report) for report in found]
    ranks = range(workers)
    assert [(report["rank"], report["world"]) for report in reports] == [(rank, workers) for rank in ranks]
    for report in reports:
        assert report["total"] == sum(rank + 1 for rank in ranks)
        assert report["records"] == [10 * rank + i for rank in ranks for i in range(rank)]
        assert report["error"] == reports[0]["error"]
        assert report["same"]


def test_groups_overlap_and_need_no_rank_0_and_a_rank_killed_inside_mpi_ends_the_job() -> None:
    with Job(WORKER, 4, "mpi", args={"cases": ["groups", "killed"]}, env=ENGINE) as job:
        waited_for(lambda: all("entered" in of("killed", job.report_of(rank)) for rank in range(4)), job)
        assert job.processes[0].wait(AT_ONCE) != 0
        reports = [of("groups", job.report_of(rank)) for rank in range(4)]
    for rank, report in enumerate(reports):
        assert report["total"] == 4
        assert "which is not in it" in report["outside"]
        for ranks, (total, value, wrong) in report["found"].items():
            members = [int(each) for each in re.findall(r"\d", ranks)]
            assert rank in members and total == sum(members)
            assert wrong.startswith("InvalidInputError: on rank 2: ")
            assert [total, value, wrong] == reports[2]["found"][ranks]


@pytest.mark.parametrize("workers", [2, *thorough(4)])
@pytest.mark.thorough
def test_records_fold_on_all_workers_to_the_bits_of_the_star_and_of_one_process(workers: int) -> None:
    sizes = [2000, 2**24]
    reports = reports_of("folding", workers, env=ENGINE, round_bytes=sizes)
    assert [report["rank"] for report in reports] == list(range(workers))
    for name, make in RECORD_METRICS.items():
        one = repr(dealt(make(), 0, 1).compute())
        for size in sizes:
            found = [text for report in reports for text in report["found"][f"{name}, {size}"]]
            assert len(set(found)) == 1, (name, found)
            if name == "average precision":  # its sum is rounded piece by piece
                assert float(found[0]) == pytest.approx(float(one), rel=1e-13)
            else:
                assert found[0] == one, name


def test_a_shuffle_over_mpi_delivers_to_each_worker_its_rows_from_every_worker(in_turn: Any) -> None:
    reports = in_turn["folding"]
    for to, report in enumerate(reports):
        assert report["shuffled"] == [[[rank, to], (bytes([to]) * 5 * rank).hex()] for rank in range(3)]
        assert report["wrong"] == reports[0]["wrong"]
        assert report["wrong"].startswith("CommunicatorError: on ranks 1, 2: TypeError: Object of type object")
        assert report["after"] == 3


@pytest.mark.parametrize("late", [2, *thorough(0)])
@pytest.mark.thorough
def test_a_rank_that_is_late_to_the_start_is_named_and_the_next_try_works(late: int) -> None:
    reports = reports_of("late_to_the_start", 3, late=late)
    expected = f"DeadlineError: rank {late} did not connect within 1 s at "
    for rank, report in enumerate(reports):
        if rank == late == 0:  # the others have not met it in their first try, and meet it in its own
            assert report["error"].startswith("no error")
        else:
            assert report["error"].startswith(expected) and "MPICommunicator" in report["error"], report["error"]
        assert rank == late or report["seconds"] < 1 + SLACK
        assert report["totals"] == [6]


def test_rank_0_listens_from_the_start_so_that_no_process_takes_its_port(in_turn: Any) -> None:
    for rank, report in enumerate(in_turn["port"]):
        assert report["total"] == 3 and report["endpoint"].startswith("127.0.0.1:")
        assert rank or "Address already in use" in report["taken"]


@pytest.mark.thorough
def test_rank_0_listens_where_the_variables_say_and_a_taken_port_is_an_error_on_all() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_ports(1)[0]))
        other.listen()
        endpoint = f"localhost:{other.getsockname()[1]}"
        env = {**ENGINE, "FLEETMETRICS_ENDPOINT": endpoint, "FLEETMETRICS_BIND": "127.0.0.1"}
        with Job(WORKER, 3, "mpi", args={"cases": ["port"], "taken": True}, env=env) as job:
            waited_for(lambda: all((job.directory / f"told {rank}").exists() for rank in range(3)), job)
            other.close()
            (job.directory / "free").touch()
            reports = [of("port", report) for report in job.wait()]
    for report in reports:
        assert report["error"].startswith("NoChannelError: rank 0 cannot listen for the other 2 workers: 127.0.0.1:")
        assert (report["endpoint"], report["total"]) == (endpoint, 3)


@pytest.mark.parametrize("local, host", [("3", "127.0.0.1"), ("2", "10.1.2.3")])
def test_rank_0_of_several_machines_does_not_listen_where_only_its_own_can_come(
    monkeypatch: pytest.MonkeyPatch, local: str, host: str
) -> None:
    class Way:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def connect(self, address: object) -> None:
            pass

        def getsockname(self) -> tuple[str, int]:
            return "10.1.2.3", 9

    monkeypatch.setenv("PMI_SIZE", "3")
    monkeypatch.setenv("MPI_LOCALNRANKS", local)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(0, 0, 0, "", ("127.0.1.1", 0))])
    monkeypatch.setattr(socket, "socket", lambda *_: Way())
    assert _own_address(3) == host


def test_a_late_rank_is_named_before_a_worker_enters_mpi_and_the_next_call_works(in_turn: Any) -> None:
    one = dealt(fm.GAUC(), 0, 1).compute()
    for report in in_turn["late"]:
        assert report["error"].startswith("DeadlineError: rank 2 did not arrive within 2 s"), report["error"]
        assert report["seconds"] < 2 + SLACK
        assert report["again"] == one


def test_a_rank_stopped_inside_mpi_is_named_and_mpi_counts_as_broken(in_turn: Any) -> None:
    reports = in_turn["stopped"]
    for rank, report in enumerate(reports):
        assert rank == 2 or report["seconds"] < 3 + SLACK
        assert report["error"].startswith("DeadlineError: rank 2 did not arrive within 3 s"), report["error"]
        assert "this job can no longer use MPI, because GAUC it, records failed: " in report["after"]
        assert report["after"] == reports[0]["after"]
        assert report["total"] == 3  # what needs no records goes on


@pytest.mark.thorough
def test_an_interruption_inside_mpi_reaches_the_others_by_the_deadline() -> None:
    zero, one = reports_of("interrupted", 2, env=ENGINE)
    assert one["error"] == "KeyboardInterrupt"
    assert "rank 1" in zero["error"] and "KeyboardInterrupt" in zero["error"], zero["error"]
    assert zero["seconds"] < 2 + SLACK
    assert zero["after"] == one["after"] and "this job can no longer use MPI" in zero["after"]
    assert zero["total"] == one["total"] == 2


@pytest.mark.parametrize(
    "engine, error",
    [
        ("mpi", r"NoChannelError: the engine mpi needs workers that mpirun started, but none of .*PMI_SIZE"),
        ("nccl", r"InvalidInputError: .*FLEETMETRICS_ENGINE holds 'nccl'; it must be mpi"),
    ],
)
def test_an_unavailable_engine_is_an_error_that_says_why(engine: str, error: str) -> None:
    (report,) = reports_of("without", 1, "bare", env={"FLEETMETRICS_ENGINE": engine})
    assert re.match(error, report["error"]), report["error"]
    assert report["backend"].startswith("NoChannelError: the engine mpi needs workers that mpirun started")


def test_an_mpirun_unknown_to_mpi4py_is_an_error_and_not_a_local_value() -> None:
    env = {**ENGINE, "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "0"}
    (report,) = reports_of("without", 1, "bare", env=env)
    expected = (
        "NoChannelError: OMPI_COMM_WORLD_SIZE is 3, but mpi4py's MPI sees 1 process: mpirun belongs to a different"
    )
    assert report["error"].startswith(expected) and report["backend"].startswith(expected), report


def test_without_mpi4py_the_engine_is_an_error_that_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "mpi4py.py").write_text("raise ImportError('not here')")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *map(str, (WORKER.parents[3], WORKER.parents[1]))])}
    for report in reports_of("without", 2, env={**ENGINE, **env}):
        assert report["error"].startswith("NoChannelError: FLEETMETRICS_ENGINE is mpi, but the engine mpi cannot")
        assert "not here" in report["error"] and "pip install mpi4py" in report["error"]
        assert report["backend"].startswith("ImportError: the engine mpi cannot import mpi4py (not here)")


def waited_for(done: Any, job: Job, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, job.logs()
        time.sleep(0.02)


def stopped(job: Job) -> list[int]:
    """The processes of a job that are stopped."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            mine = job.mark.encode() in path.read_bytes()
            state = path.with_name("stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [int(path.parent.name)] if mine and state == "T" else []
    return found
