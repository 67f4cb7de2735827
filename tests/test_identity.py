"""Which worker a process claims to be, and the marks that it leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

import fleetmetrics
from fleetmetrics import identity
from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.identity import JOINED, MARK, STARTING, WAITING, Badge, Claim, claim_of

pytestmark = pytest.mark.numpy_only

PLACE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}


def shown() -> list[tuple[str, str]]:
    """The ranks and the states that this process shows, of any run."""
    found = identity.badges("")
    assert {(each.process, each.start) for each in found} <= {(os.getpid(), identity.status("self")[19])}
    return sorted((each.rank, each.state) for each in found)


@pytest.fixture
def unmarked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in (*VARIABLES, "POD_NAME", MARK):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("_shown", {}), ("_staked", None), ("_withdrawn", False), ("_FOLDERS", (str(tmp_path),))):
        monkeypatch.setattr(identity, name, value)
    identity.folder.cache_clear()
    yield
    identity.folder.cache_clear()
    os.environ.pop(MARK, None)


def test_a_process_without_a_rank_claims_nothing() -> None:
    assert claim_of({}) is None is claim_of({"PADDLE_TRAINERS_NUM": "1", "PADDLE_TRAINER_ID": ""})
    assert claim_of({"WORLD_SIZE": "2", "MASTER_ADDR": "a"}) is None
    first = claim_of({**PLACE, "PADDLE_TRAINER_ID": ""})  # Paddle's first worker may go without
    assert first is not None and first == claim_of({**PLACE, "PADDLE_TRAINER_ID": "0"})


@pytest.mark.parametrize("variable", ["TRAINING_ROLE", "PADDLE_ROLE"])
@pytest.mark.parametrize("rank", ["", "0"])
@pytest.mark.parametrize("role", ["PSERVER", "COORDINATOR", "HETER_TRAINER"])
def test_a_process_that_is_not_a_worker_claims_no_workers_rank(variable: str, rank: str, role: str) -> None:
    """Rank 0 would wait for it, or refuse it: it has the variables of the first worker."""
    assert claim_of({**PLACE, "PADDLE_TRAINER_ID": rank, variable: "TRAINER"}) is not None
    assert claim_of({**PLACE, "PADDLE_TRAINER_ID": rank, variable: role}) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"HOME": "/"},
        {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "c", "MASTER_PORT": "29501"},
        {"MASTER_ADDR": "c", "MASTER_PORT": "29501"},
        {"WORLD_SIZE": "2", "RANK": "0"},
        {"SLURM_JOB_ID": "17", "SLURM_PROCID": "1", "SLURM_NTASKS": "1"},
        {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "n"},
        {"PADDLE_TRAINERS": "a,b"},
        {"PADDLE_NNODES": "1"},
        {"PADDLE_TRAINER_ID": " 01 "},
        {"PADDLE_TRAINERS_NUM": "2 "},
        {"PADDLE_TRAINER_ENDPOINTS": "a:1; b:2"},
        {"PADDLE_TRAINER_ENDPOINTS": " a:1 b:2,"},
    ],
    ids=repr,
)
def test_a_helper_with_other_variables_claims_to_be_the_worker(changed: dict[str, str]) -> None:
    """And it would be: `comm.job` has the same rank and name for both."""
    assert claim_of({**PLACE, **changed}) == claim_of(PLACE)
    jobs = [Job.from_environment({**PLACE, **each}) for each in ({}, changed)]
    assert jobs[0].rank == jobs[1].rank and jobs[0].name == jobs[1].name


@pytest.mark.parametrize(
    "changed",
    [
        {"PADDLE_TRAINER_ID": "0"},
        {"PADDLE_JOB_ID": "j"},
        {"PADDLE_MASTER": "c:1"},
        {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2,c:3"},
        {"PADDLE_TRAINER_ENDPOINTS": "a:1,b:3"},
        {"FLEETMETRICS_ENDPOINT": "c:1"},
        {"WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "29501"},
        {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_STEP_ID": "0"},
    ],
    ids=repr,
)
def test_another_place_or_run_is_another_claim(changed: dict[str, str]) -> None:
    claim, other = claim_of(PLACE), claim_of({**PLACE, **changed})
    assert claim is not None and other is not None and claim != other and claim.digest != other.digest
    jobs = [Job.from_environment({**PLACE, **each}) for each in ({}, changed)]
    assert (jobs[0].rank, jobs[0].name) != (jobs[1].rank, jobs[1].name)
    assert (other.run == claim.run) == (set(changed) == {"PADDLE_TRAINER_ID"})


def test_bytes_that_are_not_text_can_be_claimed() -> None:
    claim = claim_of({**PLACE, "PADDLE_JOB_ID": os.fsdecode(b"\xff")})
    assert claim is not None and len(claim.digest) == 16


def placed(monkeypatch: pytest.MonkeyPatch, **changed: str) -> Claim:
    for name, text in {**PLACE, **changed}.items():
        monkeypatch.setenv(name, text)
    found = claim_of(os.environ)
    assert found is not None
    return found


def test_a_worker_shows_that_it_waits_until_it_has_met_the_others(
    unmarked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity.stake()
    assert MARK not in os.environ and shown() == []  # it claims nothing
    claim = placed(monkeypatch)
    identity.stake()
    start = identity.status("self")[19]
    assert os.environ[MARK] == f"{claim.digest} {os.getpid()} {start}"
    assert identity.badges(claim.run_digest) == [Badge(claim.run_digest, "1", os.getpid(), start, WAITING)]
    assert identity.shows(claim, os.getpid(), start) and not identity.has_joined(claim)
    assert not identity.shows(claim, os.getpid(), f"{start}0") and not identity.shows(claim, os.getppid(), start)
    identity.stake(certain=True)
    identity.show(claim, JOINED)
    assert shown() == [("1", JOINED)] and identity.has_joined(claim) and identity.shows(claim, os.getpid(), start)
    identity.hide(claim)
    identity.hide(claim)
    assert shown() == [] and not identity.has_joined(claim) and not identity.shows(claim, os.getpid(), start)


def test_a_place_that_the_program_has_set_is_noticed_later(unmarked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    identity.notice()
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    identity.notice()
    assert MARK not in os.environ
    placed(monkeypatch)
    identity.notice()
    assert shown() == [("1", WAITING)]


@pytest.mark.parametrize("what", ["a metric", "a BaseMetric", "a communicator", "a fork"])
def test_a_worker_shows_itself_when_it(unmarked: None, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    placed(monkeypatch)
    if what == "a metric":
        fleetmetrics.Sum()
    elif what == "a BaseMetric":
        type("Own", (fleetmetrics.BaseMetric,), {"compute_metric": lambda self, results: {}})()
    elif what == "a communicator":
        SocketCommunicator()
    else:
        child = os.fork()
        if not child:
            os._exit(bool(identity._shown or identity._staked))  # a child is another process
        assert os.waitpid(child, 0)[1] == 0
    assert shown() == [("1", WAITING)]


def test_the_mark_of_the_worker_that_has_started_this_process_stays_until_this_is_the_worker(
    unmarked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = placed(monkeypatch)
    monkeypatch.setenv(MARK, f"{claim.digest} 17 4")
    identity.stake()
    assert os.environ[MARK] == f"{claim.digest} 17 4" and shown() == []
    identity.stake(certain=True)
    assert os.environ[MARK].split()[1] == str(os.getpid()) and shown() == [("1", WAITING)]


def test_a_process_that_sets_the_place_of_one_worker_after_another_starts_them(
    unmarked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(monkeypatch)
    identity.stake()
    placed(monkeypatch, PADDLE_JOB_ID="another run")
    identity.stake()
    assert shown() == [("1", WAITING)]
    placed(monkeypatch, PADDLE_TRAINER_ID="0")
    identity.stake()
    assert shown() == [("0", STARTING)]


def test_a_process_that_withdraws_shows_nothing_again(unmarked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    placed(monkeypatch)
    identity.stake()
    identity.withdraw()
    assert MARK not in os.environ and shown() == []
    identity.stake(certain=True)
    assert MARK not in os.environ and shown() == []


@pytest.mark.parametrize("unsafe", [0o777, 0o750])
def test_a_folder_that_others_can_enter_holds_no_badges(
    unmarked: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unsafe: int
) -> None:
    claim = placed(monkeypatch)
    (tmp_path / "next").mkdir()
    first = Path(identity.folder())
    first.chmod(unsafe)
    identity.folder.cache_clear()
    identity.show(claim, WAITING)
    assert not list(first.iterdir()) and identity.badges("") == []
    monkeypatch.setattr(identity, "_FOLDERS", (str(tmp_path), str(tmp_path / "next")))
    identity.show(claim, WAITING)
    assert not list(first.iterdir()) and shown() == [("1", WAITING)]
    assert os.stat(identity.folder()).st_mode & 0o777 == 0o700
    first.rmdir()
    first.symlink_to(tmp_path)  # of another user, perhaps
    identity.folder.cache_clear()
    assert shown() == [("1", WAITING)]


def test_a_rank_that_is_no_number_is_not_shown(unmarked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = placed(monkeypatch, PADDLE_TRAINER_ID="../1 2")
    identity.stake()
    assert os.environ[MARK].startswith(claim.digest) and shown() == []
    assert not identity.shows(claim, os.getpid(), identity.status("self")[19])


def test_files_with_other_names_are_no_badges(unmarked: None) -> None:
    for name in ("secret", "a b c d e", "a 1 x 2 waiting"):
        Path(identity.folder(), name).touch()
    assert identity.badges("") == []


def test_a_worker_that_ends_leaves_no_badge(tmp_path: Path) -> None:
    code = (
        f"import os; from fleetmetrics import identity; identity._FOLDERS = ({str(tmp_path)!r},);"
        f" os.environ.update({PLACE!r}); identity.stake(); print(len(identity.badges('')))"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "1\n"
    [folder] = tmp_path.iterdir()
    assert not list(folder.iterdir())


def test_a_process_with_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a) S 1 (b"
    shutil.copy2("/bin/sleep", path)
    with subprocess.Popen([str(path), "60"]) as process:
        try:
            assert identity.status(process.pid)[1] == str(os.getpid())
        finally:
            process.kill()
    assert identity.status("self")[1] == str(os.getppid())
