"""Communicators by name, after MMEval's distributed backends."""

from __future__ import annotations

from typing import Callable

from fleetmetrics.comm.base import Communicator
from fleetmetrics.comm.choose import automatic_communicator, communicator_for, get_communicator
from fleetmetrics.comm.local import LocalCommunicator
from fleetmetrics.errors import UnknownNameError

__all__ = ["check_backend", "get_dist_backend", "list_all_backends", "set_default_dist_backend"]


def _fleet_util() -> Communicator:
    from paddle.distributed import fleet

    return communicator_for(fleet.util)


def _mpi4py() -> Communicator:
    from fleetmetrics.comm.mpi import MPICommunicator

    return MPICommunicator()


_BACKENDS: dict[str, Callable[[], Communicator]] = {
    "auto": get_communicator,
    "non_dist": LocalCommunicator,
    "paddle_dist": automatic_communicator,
    "fleet_util": _fleet_util,
    "mpi4py": _mpi4py,
}
# These are made once; the others know themselves which one is in force.
_KEPT = ("non_dist", "mpi4py")
_made: dict[str, Communicator] = {}
_default = "auto"


def list_all_backends() -> list[str]:
    """Return the names of the communicators.

    Returns:
        "auto": what `get_communicator` returns. "non_dist": this process alone. "paddle_dist": the workers of the
        job that Paddle's launcher started. "fleet_util": those behind ``fleet.util``. "mpi4py": those that
        ``mpirun`` started, with the extra ``fleetmetrics[mpi]``.

    Examples:
        >>> list_all_backends()
        ['auto', 'non_dist', 'paddle_dist', 'fleet_util', 'mpi4py']
    """
    return list(_BACKENDS)


def set_default_dist_backend(dist_backend: str) -> None:
    """Choose the communicator of every `BaseMetric` that names none.

    Args:
        dist_backend: a name, see `list_all_backends`. The first one is "auto", and not MMEval's "non_dist": a metric
            is never local in silence.

    Raises:
        UnknownNameError: an AssertionError too; for another name.
    """
    global _default
    _default = check_backend(dist_backend) or _default


def get_dist_backend(dist_backend: str | None = None) -> Communicator:
    """Return the communicator of this name.

    Args:
        dist_backend: a name, see `list_all_backends`; None: the default.

    Returns:
        The same one at every call.

    Raises:
        UnknownNameError: an AssertionError too; for another name.
        NoChannelError: if the workers cannot be reached.
        ImportError: if what it needs is not installed.

    Examples:
        >>> get_dist_backend("non_dist").world_size
        1
    """
    name = check_backend(dist_backend) or _default
    if name not in _KEPT:
        return _BACKENDS[name]()
    if name not in _made:
        _made[name] = _BACKENDS[name]()
    return _made[name]


def check_backend(dist_backend: str | None) -> str | None:
    """Return the name, or raise.

    Args:
        dist_backend: a name, or None.

    Raises:
        UnknownNameError: for an unknown one.
    """
    if dist_backend is not None and dist_backend not in _BACKENDS:
        raise UnknownNameError(
            f"dist_backend is {dist_backend!r}; allowed are {', '.join(map(repr, _BACKENDS))}, or None for the default."
        )
    return dist_backend
