"""What only the workers of a job know."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable

import pytest

from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.secret import secret_of, warn_if_unauthenticated
from fleetmetrics.errors import AuthenticationError, InvalidInputError, UnauthenticatedWarning
from tests.distributed.cluster import free_ports
from tests.distributed.forks import outcome, run

pytestmark = pytest.mark.numpy_only

FAR = "10.0.0.1:8500,10.0.0.2:8500"
NEAR = Job(1, 2, endpoint="127.0.0.1:8500")


class Places:
    """The three folders where the secret may be, none of which is there yet."""

    def __init__(self, root: Path) -> None:
        self.temporary = root / "tmp" / f"fleetmetrics-{os.geteuid()}"
        self.login = root / "run" / "fleetmetrics"
        self.home = root / "home" / ".cache" / "fleetmetrics"
        for name in ("tmp", "run", "home"):
            (root / name).mkdir()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    found = Places(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return found


def _holding(folder: Path, text: str = "known to another, 32 bytes or more") -> Path:
    folder.mkdir(mode=0o700, parents=True)
    file = folder / "secret"
    file.write_text(text)
    file.chmod(0o600)
    return file


def _a_file(folder: Path) -> None:
    folder.touch()


def _linked_file(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "secret").symlink_to(_holding(folder.with_name("elsewhere")))


def _a_pipe(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / "secret", 0o600)


#: What makes a folder unsafe, or of no use.
UNSAFE: dict[str, Callable[[Path], Any]] = {
    "open folder": lambda folder: _holding(folder).parent.chmod(0o777),
    "open file": lambda folder: _holding(folder).chmod(0o644),
    "linked folder": lambda folder: folder.symlink_to(_holding(folder.with_name("elsewhere")).parent),
    "linked file": _linked_file,
    "empty file": lambda folder: _holding(folder, ""),
    "huge file": lambda folder: os.truncate(_holding(folder), 1 << 40),
    "pipe": _a_pipe,
    "a file in its place": _a_file,
}


def test_workers_of_one_user_on_one_machine_find_a_secret_that_others_cannot_read(places: Places) -> None:
    found = run(8, lambda rank: secret_of(Job(rank, 8, endpoint="127.0.0.1:8500")))
    assert len(set(found)) == 1 and found[0].known
    [file] = places.temporary.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (places.temporary, file)] == [0o700, 0o600]
    assert len(file.read_text()) == 64
    assert not places.login.exists() and not places.home.exists()


@pytest.mark.parametrize("what", UNSAFE)
def test_all_workers_skip_an_unsafe_folder(places: Places, what: str) -> None:
    usual = secret_of(NEAR)
    places.temporary.joinpath("secret").unlink()
    places.temporary.rmdir()
    UNSAFE[what](places.temporary)
    of_the_login = run(4, lambda rank: secret_of(Job(rank, 4, endpoint="127.0.0.1:8500")))
    assert len(set(of_the_login)) == 1 and of_the_login[0].known and of_the_login[0] != usual
    assert [path.name for path in places.login.iterdir()] == ["secret"]
    UNSAFE["open file"](places.home)
    places.login.chmod(0o750)
    with pytest.raises(AuthenticationError):
        secret_of(NEAR)
    places.home.joinpath("secret").unlink()
    assert secret_of(NEAR).known
    assert stat.S_IMODE(places.home.stat().st_mode) == 0o700


@pytest.mark.parametrize("what", UNSAFE)
def test_without_a_safe_folder_it_is_an_error_that_names_all(places: Places, what: str) -> None:
    for folder in (places.temporary, places.login, places.home):
        folder.parent.mkdir(exist_ok=True)
        UNSAFE[what](folder)
        elsewhere = folder.with_name("elsewhere")
        if elsewhere.exists():
            elsewhere.rename(folder.with_name("and elsewhere"))
            if folder.is_symlink():
                folder.unlink()
                folder.symlink_to(folder.with_name("and elsewhere"))
    with pytest.raises(AuthenticationError, match=r"no folder is safe.*FLEETMETRICS_SECRET") as caught:
        secret_of(NEAR)
    for folder in (places.temporary, places.login, places.home):
        assert str(folder) in str(caught.value)
    assert "known to another" not in str(caught.value)
    assert secret_of(Job(1, 2, endpoint="127.0.0.1:8500", secret="set")).known


def test_a_folder_of_another_user_is_not_used(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a user with another number, this user's folders are another's."""
    someone = os.geteuid() + 1
    for folder in (places.temporary.with_name(f"fleetmetrics-{someone}"), places.login, places.home):
        _holding(folder)
    monkeypatch.setattr(os, "geteuid", lambda: someone)
    with pytest.raises(AuthenticationError, match=f"fleetmetrics-{someone} .it belongs to user {someone - 1}"):
        secret_of(NEAR)


def test_no_folder_for_temporary_files_leaves_the_others(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refused)
    assert secret_of(NEAR).known and places.login.exists()


def test_workers_meet_where_the_usual_folder_is_not_safe(places: Places) -> None:
    UNSAFE["open folder"](places.temporary)
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        comm = SocketCommunicator(rank=rank, world_size=2, endpoint=f"127.0.0.1:{port}")
        return comm.authenticated, outcome(lambda: comm.all_reduce([rank + 1], timeout=20).tolist())

    assert run(2, work) == [(True, [3])] * 2


def test_a_secret_of_the_environment_may_be_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for value in (b"\xff\xfe", b"\xff", "\N{SNOWMAN}".encode()):
        monkeypatch.setitem(os.environ, "FLEETMETRICS_SECRET", os.fsdecode(value))
        two = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", "PADDLE_TRAINER_ENDPOINTS": FAR}
        job = Job.from_environment({**os.environ, **two})
        keys.add(bytes(secret_of(job).key))
    assert len(keys) == 3
    with pytest.raises(InvalidInputError, match="lone surrogate"):
        SocketCommunicator(NEAR, secret="\ud800")


def test_keys_follow_from_the_secret() -> None:
    assert len({secret_of(Job(0, 2, endpoints=FAR, secret=secret)).key for secret in "ab"}) == 2


def test_no_repr_shows_the_secret_nor_a_key(places: Places) -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        comm = SocketCommunicator(rank=rank, world_size=2, endpoint=f"127.0.0.1:{port}", secret="of the test")
        comm.barrier(timeout=20)
        end = comm._end
        key = end.secret.key
        shown = [repr(vars(each)) for each in (comm, end, getattr(end, "_door", end))]
        shown += [f"{end.secret!r} {end.secret!s} {key!r} {key!s} {key}"]
        return [text for text in shown if "of the test" in text or repr(bytes(key)) in text or bytes(key).hex() in text]

    assert run(2, work) == [[], []]


def test_without_a_secret_rank_0_warns_once_what_to_set() -> None:
    first, second = Job(0, 2, endpoints=FAR), Job(1, 2, endpoints=FAR)
    with pytest.warns(UnauthenticatedWarning, match="Set FLEETMETRICS_SECRET"):
        warn_if_unauthenticated(first, secret_of(first))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_unauthenticated(second, secret_of(second))
