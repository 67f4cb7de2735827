"""Which communicator a metric uses when nobody says."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any

from fleetmetrics.comm.base import Communicator
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.local import LocalCommunicator
from fleetmetrics.comm.sockets import SocketCommunicator
from fleetmetrics.comm.util import UtilCommunicator
from fleetmetrics.errors import InvalidInputError

__all__ = ["automatic_communicator", "communicator_for", "get_communicator", "set_communicator"]

_chosen: Communicator | None = None  # by set_communicator
_automatic: Communicator | None = None
_by_util: weakref.WeakKeyDictionary[Any, UtilCommunicator] = weakref.WeakKeyDictionary()


def get_communicator() -> Communicator:
    """Return the communicator of this process: the one that was set, else the one of the launcher's job.

    Returns:
        The same communicator at every call: its own if ``set_communicator`` set one, a
        `LocalCommunicator` where the environment speaks of one worker, else a `SocketCommunicator`.

    Raises:
        NoChannelError: if there are several workers, and no way to reach them.
        ServerProcessError: in a parameter server.
        InvalidInputError: if the launcher's environment is malformed.

    Examples:
        >>> get_communicator().world_size
        1
    """
    return _chosen if _chosen is not None else automatic_communicator()


def automatic_communicator() -> Communicator:
    """Return the communicator of the launcher's job, whatever ``set_communicator`` has set.

    Raises:
        NoChannelError, ServerProcessError, InvalidInputError: as `get_communicator`.
    """
    global _automatic
    if _automatic is None or isinstance(_automatic, LocalCommunicator):
        job = Job.from_environment()  # again for the local one: fleet may have been initialised in the meantime
        if job.world_size > 1:
            _automatic = SocketCommunicator(job, channel="automatic")
        elif _automatic is None:
            _automatic = LocalCommunicator()
    return _automatic


class set_communicator:
    """Use this communicator from now on; as a context manager, until the end of the block.

    Args:
        communicator: any `Communicator`, or None for the automatic choice.

    Raises:
        InvalidInputError: if it is something else.

    Examples:
        >>> with set_communicator(LocalCommunicator()) as comm:
        ...     get_communicator() is comm
        True
    """

    def __init__(self, communicator: Communicator | None) -> None:
        global _chosen
        if communicator is not None and not isinstance(communicator, Communicator):
            raise InvalidInputError(
                f"communicator is {communicator!r}; it must be a fleetmetrics.comm.Communicator, or None."
            )
        self._previous = _chosen
        self._communicator = communicator
        _chosen = communicator

    def __enter__(self) -> Communicator | None:
        return self._communicator

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _chosen
        _chosen = self._previous


def communicator_for(util: Any = None) -> Communicator:
    """Return the communicator for the ``util`` argument of the functions after fleet.metrics.

    Args:
        util: None for `get_communicator`; a `Communicator`; or an object with Paddle's
            ``all_reduce(input, mode)``, such as ``fleet.util``.

    Returns:
        A communicator, the same one for the same object.

    Raises:
        InvalidInputError: if it is neither.
        NoChannelError, ServerProcessError: as `get_communicator`.

    Examples:
        >>> communicator_for(None) is get_communicator()
        True
    """
    if util is None:
        return get_communicator()
    if isinstance(util, Communicator):
        return util
    try:
        if util not in _by_util:
            _by_util[util] = UtilCommunicator(util)
        return _by_util[util]
    except TypeError:  # an object that cannot be hashed or weakly referred to
        return UtilCommunicator(util)
