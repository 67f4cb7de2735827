"""The secret of a job's workers: FLEETMETRICS_SECRET, or on one machine a file of the user."""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple

from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Key
from fleetmetrics.errors import AuthenticationError, NoChannelError, UnauthenticatedWarning
from fleetmetrics.support.warning import warn

__all__ = ["Secret", "secret_of", "secret_path", "warn_if_unauthenticated"]

_FILE = "secret"
#: The most bytes of that file.
_LARGEST = 4096


class Secret(NamedTuple):
    """The secret of a job's workers."""

    key: Key
    known: bool  # False if others can derive it: the workers are then not authenticated


def secret_of(job: Job) -> Secret:
    """Return the job's secret: from the environment, otherwise on one machine this user's, otherwise none.

    Raises:
        AuthenticationError: on one machine, no folder is safe for the user's secret.
        NoChannelError: no file descriptor is left to read it.
    """
    # bytes that are not UTF-8 come from the environment, where Python has escaped them
    secret = Key(job.secret.encode(errors="surrogateescape") or (_user_secret() if job.on_one_machine else b""))
    return Secret(Key(hmac.digest(secret, b"fleetmetrics", "sha256")), bool(secret))


def warn_if_unauthenticated(job: Job, secret: Secret) -> None:
    """Warn on rank 0 if its workers share no secret."""
    if not secret.known and job.rank == 0:
        warn(
            "the workers' channel is not authenticated: any process that reaches rank 0's port can pass for a "
            "worker. Set FLEETMETRICS_SECRET to the same long random string on all workers; until then only numbers "
            "are exchanged, never pickles",
            UnauthenticatedWarning,
        )


def secret_path(user: object) -> Path:
    """The file with the secret of a user's workers on this machine, if its folder is safe."""
    return Path(tempfile.gettempdir(), f"fleetmetrics-{user}", _FILE)


def _user_secret() -> Key:
    """The secret of this user on this machine, created by the first worker that asks.

    All workers check the same folders in the same order, and agree on which are safe, so they find the same secret.
    """
    failures = []
    for folder in _folders():
        try:
            return _secret_in(_private(folder))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise NoChannelError(
                    f"this process cannot read {folder / _FILE} ({error.strerror}): close files, or raise ulimit -n"
                ) from None
            failures.append(f"{folder} ({error.strerror or error})")
    raise AuthenticationError(
        "no folder is safe for the secret that the workers of one machine share, so any process could pass for one. "
        f"Tried: {', '.join(failures)}. Make one of these folders private to this user (mode 700), or set "
        "FLEETMETRICS_SECRET to the same long random string on all workers"
    )


def _folders() -> Iterator[Path]:
    """Folders for the secret: for temporary files, of the login session, and the home folder."""
    user = os.geteuid()
    with contextlib.suppress(OSError):  # no folder for temporary files is writable
        yield secret_path(user).parent
    # also by its usual name, since a worker started by cron or ssh may not have the variable
    yield Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}", "fleetmetrics")
    with contextlib.suppress(RuntimeError):  # this user has no home
        yield Path.home() / ".cache" / "fleetmetrics"


def _private(folder: Path) -> Path:
    """Create the folder if it is missing; an OSError if others can access it."""
    if folder.parent.name == ".cache":
        folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check(os.lstat(folder), stat.S_IFDIR)
    return folder


def _secret_in(folder: Path) -> Key:
    path = folder / _FILE
    if not path.exists():
        draft = folder / f"draft {os.getpid()} {secrets.token_hex(4)}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):  # atomically; the first file counts
            os.link(draft, path)
        draft.unlink()
    # a plain open would wait on a pipe without a writer
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        _check(os.fstat(file.fileno()), stat.S_IFREG)
        key = Key(file.read(_LARGEST + 1))
    if not 0 < len(key) <= _LARGEST:
        raise OSError(f"its file {_FILE} is {f'larger than {_LARGEST} bytes' if key else 'empty'}")
    return key


def _check(status: os.stat_result, kind: int) -> None:
    what = "its file" if kind == stat.S_IFREG else "it"
    if stat.S_IFMT(status.st_mode) != kind:
        raise OSError(f"{what} is not a plain {'file' if kind == stat.S_IFREG else 'folder'}")
    if status.st_uid != os.geteuid():
        raise OSError(f"{what} belongs to user {status.st_uid}")
    if status.st_mode & 0o077:
        raise OSError(f"{what} is open to others, mode {stat.S_IMODE(status.st_mode):o}")
