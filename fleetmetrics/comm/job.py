"""The job as a process sees it: the process's role and rank, and the addresses of the others."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import textwrap
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Mapping

from fleetmetrics.comm.launchers import is_host, parts_of, place_of, refuse_groups
from fleetmetrics.errors import InvalidInputError, NoChannelError, ServerProcessError, UnnamedRunWarning
from fleetmetrics.support.launcher import draws_ports, launch_of, other_role
from fleetmetrics.support.warning import warn

__all__ = ["UNNAMED", "Hidden", "Job", "job_of", "program", "refuse_other_roles", "split_endpoint"]

# Each 4 bytes of the digest of the job's name give a port where rank 0 may listen.
_EIGHT_WORDS = struct.Struct("!8I")
# Below the range that Linux assigns to outgoing connections (32768 and up).
_FIRST_PORT, _PORTS = 20000, 12000
#: What may happen to a run without a name, and the way out.
UNNAMED = (
    "until all of its workers have met, rank 0 can take a worker of another run with the same addresses for its own, "
    "such as one that is left over, and the number is then one of both runs' data. If two processes claim one rank in "
    "that time, all raise an error. Set FLEETMETRICS_RUN to a new name for each run, the same on all of its workers"
)


def split_endpoint(endpoint: str, variable: str) -> tuple[str, int]:
    """Split "host:port" or "[::1]:port"; any other form is an `InvalidInputError` that names the variable.

    Examples:
        >>> split_endpoint("10.0.0.1:8500", "PADDLE_MASTER")
        ('10.0.0.1', 8500)
    """
    host, _, port = endpoint.strip().rpartition(":")
    host = host.strip("[]")
    if not is_host(host) or not (port.isascii() and port.isdigit() and len(port) < 6) or not 0 < int(port) < 65536:
        several = " of each worker, separated by commas" if variable == "PADDLE_TRAINER_ENDPOINTS" else ""
        raise InvalidInputError(
            f"the environment variable {variable} holds {endpoint!r:.80}; it must be host:port{several}"
        )
    return host, int(port)


class Hidden(str):
    """A string that no repr shows, and hence no traceback with local variables."""

    def __repr__(self) -> str:
        return "<secret>" if self else "''"


@dataclass(frozen=True)
class Job:
    """One process's place in a distributed job.

    Args:
        rank: number of this worker, from 0.
        world_size: the number of workers.
        endpoints: PADDLE_TRAINER_ENDPOINTS, separated by commas.
        collective: True without parameter servers.
        endpoint: FLEETMETRICS_ENDPOINT, where rank 0 must listen, or "".
        secret: FLEETMETRICS_SECRET, which only the workers know, or "".
        bind: FLEETMETRICS_BIND, the address on which rank 0 must listen if it is not its endpoint's, or "".
        master: PADDLE_MASTER, or "".
        host: the machine of rank 0 according to a launcher other than Paddle's, or "".
        run: the launcher's name for this run and FLEETMETRICS_RUN, which distinguish it from others on the same
            machines, or "".
        named: whether a launcher, FLEETMETRICS_RUN or a secret of its own names this run, so that no other run can be
            taken for it.
        program: the script or module that this process runs; "": unknown, or any is allowed.
        variables: the variables that give the number of workers and the rank; or the program's arguments.
        reserved: ports that the environment promises to others.
        claimed: whether the place comes from the environment, which other processes of this machine may share.

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
    host: str = ""
    run: str = ""
    named: bool = field(default=False, compare=False)
    program: str = field(default="", compare=False)
    variables: tuple[str, str] = field(default=("world_size=", "rank="), compare=False)
    reserved: frozenset[int] = frozenset()
    claimed: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "secret", Hidden(self.secret))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Job:
        """Read the job from the environment variables that launchers set; `launchers` has them all.

        Without a launcher this is rank 0 of 1. If ``environment`` is None, the variables of this process count, and its
        process groups are checked as well.

        Raises:
            InvalidInputError: if a variable is malformed.
            NoChannelError: there are several workers, and the variables contradict each other or lack their addresses.
            ServerProcessError: in a parameter server, or in another process that is not a worker.
        """
        env = os.environ if environment is None else environment
        refuse_other_roles(env)
        place = place_of(env)
        if place.size == 1 and environment is None:
            refuse_groups()
        endpoints = _endpoints_in(env)
        if place.launcher is None:
            return cls()
        launch, claimed = launch_of(env), place.size > 1 and environment is None
        job = cls(
            rank=place.rank,
            world_size=place.size,
            endpoints=",".join(endpoints),
            collective=not (env.get("TRAINING_ROLE") and env.get("PADDLE_PSERVERS_IP_PORT_LIST")),
            endpoint=env.get("FLEETMETRICS_ENDPOINT", "").strip(),
            secret=env.get("FLEETMETRICS_SECRET", ""),
            bind=env.get("FLEETMETRICS_BIND", "").strip(),
            master=env.get("PADDLE_MASTER", "").strip(),
            host=place.host,
            run="|".join(filter(None, (place.run, launch))) if place.size > 1 else "",
            named=place.named or bool(launch) or draws_ports(env),
            program=program() if claimed and not env.get("FLEETMETRICS_RUN", "").strip() else "",
            variables=place.variables,
            reserved=_ports_in(env) if place.size > 1 else frozenset(),
            claimed=claimed,
        )
        if place.size > 1:
            job.candidates()
        return job

    @classmethod
    def placed(cls, rank: Any, world_size: Any, endpoint: Any, secret: str | None = None) -> Job:
        """The job of a worker whose program gives its place; a secret of its own names the run.

        Raises:
            InvalidInputError: an argument is missing or invalid.
        """
        for name, value, lowest in (("world_size", world_size, 1), ("rank", rank, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise InvalidInputError(
                    f"{name} is {value!r}; give rank, world_size and endpoint together: whole numbers from 0 and from "
                    '1, and "host:port" of rank 0'
                )
        if rank >= world_size:
            raise InvalidInputError(
                f"rank is {rank}; with world_size {world_size} it must be from 0 to {world_size - 1}"
            )
        if not isinstance(endpoint, str):
            raise InvalidInputError(f'endpoint is {endpoint!r}; it must be "host:port" of rank 0')
        split_endpoint(endpoint, "endpoint")
        run = os.environ.get("FLEETMETRICS_RUN", "").strip()
        return cls(
            rank,
            world_size,
            endpoint=endpoint.strip(),
            secret=Hidden(os.environ.get("FLEETMETRICS_SECRET", "")) if secret is None else secret,
            bind=os.environ.get("FLEETMETRICS_BIND", "").strip(),
            run=f"arguments|FLEETMETRICS_RUN={run}" if run else "",
            named=bool(run or secret),
        )

    def with_secret(self, secret: str) -> Job:
        """The same job with a secret of the program, which names the run."""
        return replace(self, secret=secret, named=True)

    def warn_if_unnamed(self) -> None:
        """Warn on rank 0 if nothing names this run."""
        if not self.named and self.rank == 0 and self.world_size > 1:
            warn(f"nothing names this run ({self.title}). {UNNAMED[0].upper()}{UNNAMED[1:]}", UnnamedRunWarning)

    @cached_property
    def name(self) -> bytes:
        """The identity of this run, as a string; it is not secret."""
        return hashlib.sha256(self._written()).digest()

    @cached_property
    def mark(self) -> bytes:
        """A key from the identity of this run, for processes that may not know the secret; it is never sent."""
        return hashlib.sha256(b"mark" + self._written()).digest()

    def _written(self) -> bytes:
        whole = (self.endpoint, self.endpoints, self.master, self.host, self.run)
        return json.dumps(whole).encode()

    @property
    def title(self) -> str:
        """The identity of this run, in words."""
        values = (
            ("FLEETMETRICS_ENDPOINT", self.endpoint),
            ("PADDLE_TRAINER_ENDPOINTS", self.endpoints),
            ("PADDLE_MASTER", self.master),
            ("the host", self.host),
        )
        where = [f"{name} {textwrap.shorten(value.replace(',', ', '), 200)}" for name, value in values if value]
        return ", ".join(filter(None, [self.run_name, *where]))

    @property
    def run_name(self) -> str:
        """The names that a launcher and FLEETMETRICS_RUN give this run, in words."""
        return ", ".join(self.run.split("|")[1:])

    @property
    def on_one_machine(self) -> bool:
        """Whether all workers share a machine: they reach rank 0 at a loopback address, or share one host."""
        host, hosts = self.candidates()[0][0], {part.rpartition(":")[0] for part in parts_of(self.endpoints)}
        return _is_loopback(host) or len(hosts) == 1

    def candidates(self) -> list[tuple[str, int]]:
        """Return the addresses where rank 0 may listen, best first, the same list on every rank."""
        if self.endpoint:
            return [split_endpoint(self.endpoint, "FLEETMETRICS_ENDPOINT")]
        parts = parts_of(self.endpoints)
        if not parts and not self.master and not self.host:
            raise NoChannelError(
                f"PADDLE_TRAINERS_NUM says that there are {self.world_size} workers, but PADDLE_TRAINER_ENDPOINTS"
                " and PADDLE_MASTER are empty, so rank 0 cannot be found. Start the workers through fleetrun, or"
                " set FLEETMETRICS_ENDPOINT=host:port (host of rank 0) on all of them"
            )
        if parts and len(parts) != self.world_size:
            raise InvalidInputError(
                f"PADDLE_TRAINER_ENDPOINTS names {len(parts)} workers, but {self.variables[0]} is {self.world_size}; "
                "they must agree"
            )
        endpoints = [split_endpoint(part, "PADDLE_TRAINER_ENDPOINTS") for part in parts]
        firsts = endpoints[:1] or ([split_endpoint(self.master, "PADDLE_MASTER")] if self.master else [])
        host = firsts[0][0] if firsts else self.host
        derived = self._derived(host)
        # In collective mode Paddle itself may want the first trainer endpoint (its store; NCCL in static mode).
        return derived if self.collective else [*firsts, *derived]

    def _derived(self, host: str) -> list[tuple[str, int]]:
        return [(host, _FIRST_PORT + word % _PORTS) for word in _EIGHT_WORDS.unpack(self.name)]


def program() -> str:
    """The name of the script or module that this process runs; "" if it is interactive or unknown.

    A child of multiprocessing has its parent's. A profiler that runs a script names it as its first argument.
    """
    main, first = sys.modules.get("__main__"), sys.argv[0] if sys.argv else ""
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if hasattr(sys, "ps1") or not file:
        return ""
    if spec is None:
        return os.path.basename(file)
    is_script = spec.name == "__main__" or (first != spec.origin and first.endswith(".py") and os.path.exists(first))
    return os.path.basename(first) if is_script else str(spec.name).removesuffix(".__main__")


def job_of(job: Any) -> Job:
    """The place of this process, as a user has given it."""
    if not isinstance(job, Job):
        raise InvalidInputError(f"job must be a Job, such as Job.from_environment(), or None, not {job!r:.80}")
    return job


def refuse_other_roles(env: Mapping[str, str]) -> None:
    """Raise `ServerProcessError` in the environment of a parameter server, or of any other process but a worker."""
    role = other_role(env)
    if role:
        name = next(name for name in ("TRAINING_ROLE", "PADDLE_ROLE") if env.get(name))
        raise ServerProcessError(
            f"this process is {role} ({name}={env[name]}), not a worker; compute metrics on the workers only, for"
            " example inside `if fleet.is_worker():`"
        )


def _endpoints_in(env: Mapping[str, str]) -> list[str]:
    """The workers' endpoints, checked even in a job of one: an unknown separator would hide the other workers."""
    listed = env.get("PADDLE_TRAINER_ENDPOINTS")
    endpoints = parts_of(listed) if listed else []
    for endpoint in endpoints:
        split_endpoint(endpoint, "PADDLE_TRAINER_ENDPOINTS")
    return endpoints


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _ports_in(env: Mapping[str, str]) -> frozenset[int]:
    ports = set()
    for name, value in env.items():
        if name.startswith(("PADDLE_", "MASTER_", "POD_")):
            words = [word.rpartition(":")[2] for word in parts_of(value)]
            ports |= {int(word) for word in words if word.isdigit()}
    return frozenset(port for port in ports if 1023 < port < 65536)
