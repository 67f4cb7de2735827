"""What a process knows of its job: its role, its rank, where the others are, and the secret they have in common."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import struct
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from fleetmetrics.errors import InvalidInputError, NoChannelError, ServerProcessError, UnauthenticatedWarning, warn

__all__ = ["MPI_VARIABLES", "Job", "Secret", "refuse_server", "secret_of", "split_endpoint"]

MPI_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
# Of each 4 bytes of the job's name follows a port where rank 0 may listen.
_EIGHT_WORDS = struct.Struct("!8I")
# Below the range that Linux deals out to outgoing connections (32768 and up).
_FIRST_PORT, _PORTS = 20000, 12000


def split_endpoint(endpoint: str, variable: str) -> tuple[str, int]:
    """Split "host:port" or "[::1]:port"; another form is an `InvalidInputError` that names the variable.

    Examples:
        >>> split_endpoint("10.0.0.1:8500", "PADDLE_MASTER")
        ('10.0.0.1', 8500)
    """
    host, _, port = endpoint.strip().rpartition(":")
    host = host.strip("[]")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise InvalidInputError(f"the environment variable {variable} holds {endpoint!r}; it must be host:port.")
    return host, int(port)


@dataclass(frozen=True)
class Job:
    """One process's place in a distributed job.

    Args:
        rank: number of this worker, from 0.
        world_size: how many workers there are.
        endpoints: PADDLE_TRAINER_ENDPOINTS as it stands in the environment.
        collective: True without parameter servers.
        endpoint: FLEETMETRICS_ENDPOINT, where rank 0 shall listen, or "".
        secret: FLEETMETRICS_SECRET, what the workers know and nobody else, or "".
        bind: FLEETMETRICS_BIND, the address on which rank 0 shall listen if it is not that of its endpoint, or "".
        master: PADDLE_MASTER, or "".
        reserved: ports that the environment promises to others.

    Examples:
        >>> Job.from_environment({"PADDLE_TRAINERS_NUM": "1"}).world_size
        1
    """

    rank: int = 0
    world_size: int = 1
    endpoints: str = ""
    collective: bool = True
    endpoint: str = ""
    secret: str = field(default="", repr=False)
    bind: str = ""
    master: str = ""
    reserved: frozenset[int] = frozenset()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Job:
        """Read the job from the environment variables that Paddle's launchers set.

        Without a launcher this is rank 0 of 1. ``environment``: None for the variables of this process.

        Raises:
            InvalidInputError: if a variable is malformed.
            NoChannelError: if there are several workers, and the variables do not say where.
            ServerProcessError: in a parameter server.
        """
        env = os.environ if environment is None else environment
        refuse_server(env)
        world_size = _whole_number(env, "PADDLE_TRAINERS_NUM", 1)
        rank = _whole_number(env, "PADDLE_TRAINER_ID", 0)
        if rank >= world_size:
            raise InvalidInputError(
                f"PADDLE_TRAINER_ID is {rank}, but PADDLE_TRAINERS_NUM is {world_size}: ranks run from 0 to"
                f" {world_size - 1}. Start the workers through fleetrun, or set both."
            )
        if "PADDLE_TRAINERS_NUM" not in env:
            _refuse_mpi(env)
        if world_size == 1 and environment is None:
            _refuse_forgotten_fleet()
        if world_size == 1:
            _refuse_several_endpoints(env)
        job = cls(
            rank=rank,
            world_size=world_size,
            endpoints=env.get("PADDLE_TRAINER_ENDPOINTS", "").strip(),
            collective=not (env.get("TRAINING_ROLE") and env.get("PADDLE_PSERVERS_IP_PORT_LIST")),
            endpoint=env.get("FLEETMETRICS_ENDPOINT", "").strip(),
            secret=env.get("FLEETMETRICS_SECRET", ""),
            bind=env.get("FLEETMETRICS_BIND", "").strip(),
            master=env.get("PADDLE_MASTER", "").strip(),
            reserved=_ports_in(env) if world_size > 1 else frozenset(),
        )
        if world_size > 1:
            job.candidates()
        return job

    @property
    def name(self) -> bytes:
        """What sets this job apart from others on the same machines; no secret."""
        where = self.endpoint.rpartition(":")[2] if self.endpoint else f"{self.endpoints}|{self.master}"
        return hashlib.sha256(where.encode()).digest()

    @property
    def on_one_machine(self) -> bool:
        """Whether all workers share a machine: they reach rank 0 by a loopback address, or have one host in common."""
        host, hosts = self.candidates()[0][0], {part.rpartition(":")[0] for part in _parts(self.endpoints)}
        return host in ("localhost", "::1") or host.startswith("127.") or len(hosts) == 1

    def candidates(self) -> list[tuple[str, int]]:
        """Return the addresses where rank 0 may listen, best first, the same list on every rank."""
        if self.endpoint:
            return [split_endpoint(self.endpoint, "FLEETMETRICS_ENDPOINT")]
        if not self.endpoints and not self.master:
            raise NoChannelError(
                f"PADDLE_TRAINERS_NUM says that there are {self.world_size} workers, but PADDLE_TRAINER_ENDPOINTS"
                " and PADDLE_MASTER are empty, so rank 0 cannot be found. Start the workers through fleetrun, or"
                " set FLEETMETRICS_ENDPOINT=host:port (host of rank 0) on all of them."
            )
        parts = _parts(self.endpoints)
        if parts and len(parts) != self.world_size:
            raise InvalidInputError(
                f"PADDLE_TRAINER_ENDPOINTS names {len(parts)} workers, but PADDLE_TRAINERS_NUM is"
                f" {self.world_size}; they must agree."
            )
        endpoints = [split_endpoint(part, "PADDLE_TRAINER_ENDPOINTS") for part in parts]
        first = endpoints[0] if endpoints else split_endpoint(self.master, "PADDLE_MASTER")
        derived = [(first[0], _FIRST_PORT + word % _PORTS) for word in _EIGHT_WORDS.unpack(self.name)]
        # In collective mode Paddle itself may want the first trainer endpoint (its store; NCCL in static mode).
        return derived if self.collective else [first, *derived]


def _whole_number(env: Mapping[str, str], name: str, lowest: int) -> int:
    text = env.get(name, "").strip() or str(lowest)
    if not (text.isascii() and text.isdigit()) or int(text) < lowest:
        raise InvalidInputError(
            f"the environment variable {name} holds {env[name]!r}; it must be a whole number from {lowest}."
        )
    return int(text)


def refuse_server(env: Mapping[str, str]) -> None:
    """Raise `ServerProcessError` if the environment is that of a parameter server."""
    role = (env.get("TRAINING_ROLE") or env.get("PADDLE_ROLE") or "TRAINER").upper()
    if role == "PSERVER":
        raise ServerProcessError(
            "this process is a parameter server (TRAINING_ROLE=PSERVER), which holds no samples; compute metrics"
            " on the workers only, for example inside `if fleet.is_worker():`."
        )


def _parts(endpoints: str) -> list[str]:
    return [part.strip() for part in endpoints.split(",") if part.strip()]


def _refuse_several_endpoints(env: Mapping[str, str]) -> None:
    """Endpoints of several trainers beside a number of workers that is missing, or 1."""
    endpoints = _parts(env.get("PADDLE_TRAINER_ENDPOINTS", ""))
    if len(endpoints) > 1:
        number = env.get("PADDLE_TRAINERS_NUM", "").strip()
        raise NoChannelError(
            f"PADDLE_TRAINER_ENDPOINTS names {len(endpoints)} workers, but PADDLE_TRAINERS_NUM is"
            f" {number or 'not set'}: the number would be local. Start the workers through fleetrun, or set"
            " PADDLE_TRAINERS_NUM and PADDLE_TRAINER_ID; for a single process, unset PADDLE_TRAINER_ENDPOINTS."
        )


def _refuse_mpi(env: Mapping[str, str]) -> None:
    torchrun = ("WORLD_SIZE",) if "RANK" in env and "MASTER_ADDR" in env else ()
    for name in (*MPI_VARIABLES, "HOROVOD_SIZE", *torchrun):
        if env.get(name, "").isdigit() and int(env[name]) > 1:
            raise NoChannelError(
                f"{name} says that an MPI launcher or torchrun started {env[name]} processes, but Paddle's variables"
                " (PADDLE_TRAINERS_NUM, ...) are not set, so the workers cannot find each other. Start them through"
                " fleetrun, or set FLEETMETRICS_ENGINE=mpi (or call"
                " fleetmetrics.set_communicator(fleetmetrics.get_dist_backend('mpi4py')) first)."
            )


def _refuse_forgotten_fleet() -> None:
    """A fleet with several workers beside an environment that says one would make a silently local number."""
    fleet: Any = getattr(sys.modules.get("paddle.distributed.fleet"), "fleet", None)
    role_maker = getattr(fleet, "_role_maker", None)
    count = getattr(role_maker, "_worker_num", None)
    workers = count() if callable(count) else 1
    if isinstance(workers, int) and workers > 1:
        raise NoChannelError(
            f"fleet was initialised with {workers} workers, but the environment variable PADDLE_TRAINERS_NUM"
            " is not set (or says 1), so the others cannot be found. Set PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID and"
            " PADDLE_TRAINER_ENDPOINTS, start through fleetrun, or call fleetmetrics.set_communicator."
        )


def _ports_in(env: Mapping[str, str]) -> frozenset[int]:
    ports = set()
    for name, value in env.items():
        if name.startswith(("PADDLE_", "MASTER_", "POD_")):
            words = value.replace(";", ",").split(",")
            ports |= {int(word.rpartition(":")[2]) for word in words if word.rpartition(":")[2].isdigit()}
    return frozenset(port for port in ports if 1023 < port < 65536)


class Secret(NamedTuple):
    """What the workers of a job know."""

    key: bytes
    known: bool  # False if anybody can work it out: then the workers are not authenticated


def secret_of(job: Job) -> Secret:
    """Return the job's secret: that of the environment, else on one machine this user's, else none."""
    secret = job.secret.encode() or (_user_secret() if job.on_one_machine else b"")
    if not secret and job.rank == 0:
        warn(
            "the workers' channel is not authenticated: whoever reaches rank 0's port may pass for a worker. Set"
            " FLEETMETRICS_SECRET to the same long random text on all workers; until then only numbers are exchanged,"
            " never pickles.",
            UnauthenticatedWarning,
        )
    return Secret(hmac.digest(secret, b"fleetmetrics" + job.name, "sha256"), bool(secret))


def secret_path(user: object) -> Path:
    """Where the workers of a user on this machine find their secret."""
    return Path(tempfile.gettempdir(), f"fleetmetrics-{user}", "secret")


def _user_secret() -> bytes:
    """The secret of this user on this machine, made by the first who asks; empty if there is no safe place for it."""
    with contextlib.suppress(OSError):
        path = secret_path(os.geteuid())  # fails without a free file descriptor
        folder = path.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(os.lstat(folder), stat.S_IFDIR):
            return b""
        if not path.exists():
            draft = folder / f"draft {os.getpid()} {secrets.token_hex(4)}"
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
            with contextlib.suppress(FileExistsError):  # whole or not at all, and the first one counts
                os.link(draft, path)
            draft.unlink()
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            if _is_private(os.fstat(file.fileno()), stat.S_IFREG):
                return file.read()
    return b""


def _is_private(found: os.stat_result, kind: int) -> bool:
    return stat.S_IFMT(found.st_mode) == kind and found.st_uid == os.geteuid() and not found.st_mode & 0o077
