"""Choose the communicator of a call: `resolve` has the order in which arguments and settings count."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from typing import TYPE_CHECKING, Any

from fleetmetrics.comm.communicator import Call, Communicator
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.job import Job, refuse_other_roles
from fleetmetrics.comm.local import LocalCommunicator
from fleetmetrics.errors import FleetMetricsError, InvalidInputError, NoChannelError
from fleetmetrics.support.checks import knows_its_arguments
from fleetmetrics.support.environment import setting

if TYPE_CHECKING:
    from fleetmetrics.comm.channel import SocketCommunicator

__all__ = [
    "call_of",
    "channel_of",
    "checked_communicator",
    "communicator_for",
    "connect",
    "get_communicator",
    "resolve",
    "set_communicator",
]


_chosen: Communicator | None = None  # by set_communicator
_automatic: Communicator | None = None  # of a launched job of several workers, since its first call
_ready: SocketCommunicator | None = None  # the one for that call, which connects in the background
_making = threading.Lock()


def resolve(communicator: Any = None, util: Any = None, backend: str = "auto") -> Communicator:
    """The communicator of a call: the first of these that is given.

    1. ``communicator``: the argument of a call, or a `BaseMetric`'s ``dist_comm``.
    2. ``util``: a `Communicator`; or an object with ``all_reduce(input, mode)``: if the program runs in a job of
       several workers, that job's communicator, by 4 to 6, otherwise a `UtilCommunicator`.
    3. ``backend``, a name of `list_all_backends`: a `BaseMetric`'s, or that of `set_default_dist_backend`. "auto"
       leaves the choice to 4 to 6, "paddle_dist" to 5 and 6.
    4. `set_communicator`.
    5. The environment variable FLEETMETRICS_ENGINE.
    6. The launcher's variables: a `SocketCommunicator` for several workers, a `LocalCommunicator` for one.

    Raises:
        InvalidInputError: ``communicator`` or ``util`` is something else, or a variable is malformed.
        NoChannelError: there are several workers and no way to reach them, or ``util`` has another number of them.
        ServerProcessError: this process is a parameter server, or otherwise not a worker.
    """
    if communicator is not None:
        return checked_communicator(communicator)
    if util is not None:
        return util if isinstance(util, Communicator) else _by_util(util)
    if backend == "mpi4py":
        return _mpi4py()
    if backend == "non_dist":
        return _alone()
    if backend == "fleet_util":
        from paddle.distributed import fleet

        return resolve(util=fleet.util)
    return _of_the_job() if _chosen is None or backend == "paddle_dist" else _chosen


def channel_of(
    communicator: Any = None, util: Any = None, group: Any = None
) -> tuple[Communicator, BaseException | None]:
    """The communicator of a call, see `resolve`, and any trouble of the call.

    A wrong ``communicator`` or ``util`` becomes the call's trouble, since the other workers wait on the job's channel
    and must get the error. A wrong ``group`` raises at once: the waiting workers are unknown.
    """
    trouble: BaseException | None = None
    try:
        channel = resolve(communicator, util)
    except (InvalidInputError, NoChannelError) as error:
        if communicator is util is None:
            raise
        channel, trouble = resolve(), error
    return channel if group is None else channel.among(group), trouble


def call_of(
    name: str, communicator: Any = None, util: Any = None, group: Any = None, timeout: float | Deadline | None = None
) -> Call:
    """A call on its communicator, with its trouble; see `channel_of` and `Communicator.call`."""
    try:
        channel, trouble = channel_of(communicator, util, group=group)
        return channel.call(name, timeout, trouble)
    except FleetMetricsError:
        raise
    except BaseException as error:  # the others get the error of this one, too
        with contextlib.suppress(BaseException), channel_of(communicator, util, group=group)[0].call(name):
            raise error
        raise


def checked_communicator(communicator: Any) -> Communicator:
    """Check that this is a communicator, and return it."""
    if isinstance(communicator, Communicator):
        return communicator
    raise InvalidInputError(
        f"communicator is {communicator!r:.80}; it must be a fleetmetrics.comm.Communicator, or None"
    )


def _by_util(util: Any) -> Communicator:
    """The job's communicator if there are several workers, otherwise one through the object itself."""
    from fleetmetrics.comm.util import check_util, check_workers, through

    check_util(util)
    # without the check of process groups: util may reach a group that no variable names
    launched = (
        _chosen or _automatic or setting("FLEETMETRICS_ENGINE") or Job.from_environment(os.environ).world_size > 1
    )
    channel = resolve() if launched else None
    if channel is None or channel.world_size == 1:
        return through(util)
    check_workers(util, channel.world_size)
    return channel


def _of_the_job() -> Communicator:
    """The communicator of the launcher's job, or of the engine that a variable names."""
    global _automatic
    if setting("FLEETMETRICS_ENGINE"):
        refuse_other_roles(os.environ)
        try:
            return _mpi4py()
        except ImportError as error:
            raise NoChannelError(f"FLEETMETRICS_ENGINE is mpi, but {error}") from error
    if _automatic is None:
        job = Job.from_environment()  # a single worker asks at every call: fleet may have been initialized since
        if job.world_size == 1:
            return _alone()
        with _making:
            if _automatic is None:
                _automatic = _made_ready(job)
    return _automatic


def connect(job: Job) -> None:
    """Connect to the other workers in the background, before the first call."""
    if _chosen is None and _automatic is None and not setting("FLEETMETRICS_ENGINE"):
        with _making:
            _made_ready(job).connect()


def _made_ready(job: Job) -> SocketCommunicator:
    """The communicator of the job as it is now: variables may have changed since the first metric."""
    global _ready
    from fleetmetrics.comm.channel import SocketCommunicator  # a process alone needs no sockets

    if _ready is None or _ready.job != job:
        if _ready is not None:
            _ready.close()
        _ready = SocketCommunicator(job, channel="automatic")
    return _ready


def _begin_anew() -> None:
    """In a forked child, which may be another worker: forget the parent's channel."""
    global _automatic, _making, _ready
    _automatic = _ready = None
    _making = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_begin_anew)


@functools.lru_cache(maxsize=None)
def _mpi4py() -> Communicator:
    from fleetmetrics.comm.mpi import MPICommunicator

    return MPICommunicator()


@functools.lru_cache(maxsize=None)
def _alone() -> Communicator:
    return LocalCommunicator()


def get_communicator() -> Communicator:
    """Return the communicator of this process: the one that was set, otherwise that of the launcher's job.

    Returns:
        The same communicator at every call: that of ``set_communicator`` if set, a `LocalCommunicator` if the
        environment names one worker, otherwise a `SocketCommunicator`.

    Raises:
        NoChannelError: there are several workers, and no way to reach them.
        ServerProcessError: this process is a parameter server, or otherwise not a worker.
        InvalidInputError: the launcher's environment is malformed.

    Examples:
        >>> get_communicator().world_size
        1
    """
    return resolve()


class set_communicator:
    """Use this communicator from now on; as a context manager, until the end of the block.

    Args:
        communicator: any `Communicator`, or None for the automatic choice.

    Raises:
        InvalidInputError: ``communicator`` is anything else.

    Examples:
        >>> with set_communicator(LocalCommunicator()) as comm:
        ...     get_communicator() is comm
        True
    """

    @knows_its_arguments
    def __init__(self, communicator: Communicator | None) -> None:
        global _chosen
        if communicator is not None:
            checked_communicator(communicator)
        self._previous = _chosen
        self._communicator = communicator
        _chosen = communicator

    def __enter__(self) -> Communicator | None:
        return self._communicator

    def __exit__(self, *_: object) -> None:
        global _chosen
        _chosen = self._previous


def communicator_for(util: Any = None) -> Communicator:
    """Return the communicator for the ``util`` argument of the functions after fleet.metrics.

    Args:
        util: None for `get_communicator`; a `Communicator`; or an object with Paddle's ``all_reduce(input, mode)``,
            such as ``fleet.util``: in a job of several workers, that job's communicator, which needs no Gloo;
            otherwise the numbers go through ``all_reduce``.

    Returns:
        A communicator, the same one for the same object.

    Raises:
        InvalidInputError: ``util`` is none of these.
        NoChannelError: ``util`` has another number of workers than the job; or as `get_communicator`.
        ServerProcessError: as `get_communicator`.

    Examples:
        >>> communicator_for(None) is get_communicator()
        True
    """
    return resolve(util=util)
