"""The environment variables that the package reads; `support.launcher` has those of launchers."""

from __future__ import annotations

import os
from typing import NamedTuple

from fleetmetrics.errors import InvalidInputError

__all__ = ["PADDLES", "SETTINGS", "Setting", "setting"]


class Setting(NamedTuple):
    """A variable that users set.

    Args:
        meaning: a line of the reference.
        allowed: its values; () for any text.
        rule: the end of the error for another value.
    """

    meaning: str
    allowed: tuple[str, ...] = ()
    rule: str = ""


#: The variables that users of this package set, by name.
SETTINGS: dict[str, Setting] = {
    "FLEETMETRICS_BIND": Setting(
        "the address on which rank 0 listens, without a port, if it is not the host of its endpoint: behind NAT "
        "or a forwarded port, or `0.0.0.0` for all addresses"
    ),
    "FLEETMETRICS_DIGESTS": Setting(
        "`all` (the default): every message carries a digest of its numbers; `heads`: only of its head. Rank 0's "
        "setting applies to all workers",
        ("all", "heads"),
        "allowed are 'all' and 'heads'",
    ),
    "FLEETMETRICS_ENDPOINT": Setting("`host:port` where rank 0 must listen instead; the same on all workers"),
    "FLEETMETRICS_ENGINE": Setting(
        "`mpi`: MPI finds the workers and sends records; unset: sockets",
        ("mpi",),
        "it must be mpi, for workers that mpirun started, or unset: the workers then use their own sockets",
    ),
    "FLEETMETRICS_LOG": Setting(
        "`info` or `warning`: the level of the log of exchanges; unset: the level of Python's logging",
        ("info", "warning"),
        "it must be info, warning, or unset",
    ),
    "FLEETMETRICS_RUN": Setting(
        "the name of this run, different for each run and the same on all its workers; needed if no launcher names it"
    ),
    "FLEETMETRICS_SECRET": Setting(
        "a long random string that only the workers of the job know; jobs over several machines need it"
    ),
    "FLEETMETRICS_TIMEOUT": Setting(
        "the longest wait for the other workers, in seconds; by default 300 until all have met, then 1,800, and 60 in "
        "an interactive session"
    ),
    "FLEETMETRICS_WORKER": Setting(
        "`this`: this process is the worker, although a process with the same environment started it",
        ("this",),
        "allowed is 'this', for a process that is the worker although a process with the same environment started it",
    ),
}

#: The variables of Paddle that its launcher does not use to number workers.
PADDLES = {
    "PADDLE_MASTER": "the address of rank 0, if there are no endpoints",
    "TRAINING_ROLE": "`PSERVER`, `COORDINATOR` or `HETER_TRAINER`: the process is not a worker and cannot compute"
    " metrics; `PADDLE_ROLE` means the same",
    "PADDLE_PSERVERS_IP_PORT_LIST": "the servers: with `TRAINING_ROLE`, the job has parameter servers",
    "PADDLE_GLOO_RENDEZVOUS": "`3`: Gloo's workers meet in a folder, which distinguishes runs",
    "PADDLE_GLOO_FS_PATH": "that folder",
    "PADDLE_DISTRI_BACKEND": "set by `paddle.distributed.spawn`, which draws free ports: no other run has the same "
    "endpoints",
    "POD_NAME": "the machine's name in Paddle's launcher",
}


def setting(name: str) -> str:
    """Return the value of a setting without spaces around it, one of few in lower case; "" if it is not set.

    Args:
        name: one of `SETTINGS`.

    Raises:
        InvalidInputError: the value is not allowed.
    """
    value = os.environ.get(name, "").strip()
    _, allowed, rule = SETTINGS[name]
    if not value or not allowed:
        return value
    if value.lower() not in allowed:
        raise InvalidInputError(f"the environment variable {name} holds {value!r}; {rule}")
    return value.lower()
