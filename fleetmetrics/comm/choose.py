"""Choose a metric's communicator: by name, after MMEval's distributed backends, or automatically."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from typing import Any, Callable, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm.communicator import Communicator
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.descriptions import Block, Decide, Letter, RowKeys
from fleetmetrics.comm.frames import joined
from fleetmetrics.comm.job import Job, refuse_other_roles
from fleetmetrics.comm.sockets import SocketCommunicator, making
from fleetmetrics.comm.util import UtilCommunicator
from fleetmetrics.errors import (
    CommunicatorError,
    FleetMetricsError,
    InvalidInputError,
    NoChannelError,
    UnknownNameError,
)

__all__ = [
    "LocalCommunicator",
    "automatic_communicator",
    "channel_of",
    "check_backend",
    "communicator_for",
    "engine_asked",
    "get_communicator",
    "get_dist_backend",
    "list_all_backends",
    "on_channel",
    "set_communicator",
    "set_default_dist_backend",
]

_T = TypeVar("_T")


class LocalCommunicator(Communicator):
    """The communicator of a job with one worker. It checks its arguments like the others, and returns copies.

    Examples:
        >>> with LocalCommunicator() as comm:
        ...     comm.all_reduce([1.5, 2.0])
        array([1.5, 2. ])
    """

    rank = 0
    world_size = 1
    authenticated = True

    def __init__(self) -> None:
        self._closed = False

    def _consult(
        self, call: str, decide: Decide, mine: Letter, deadline: Deadline, trouble: BaseException | None
    ) -> Letter:
        if self._closed:
            raise CommunicatorError("this communicator is closed; make a new one.")
        if trouble is not None:
            raise trouble
        answer = decide([Letter(mine.note, joined(mine.payload))])
        return Letter(answer.note, joined(answer.payload))

    def reduce(
        self,
        call: str,
        blocks: Sequence[Block | RowKeys],
        *,
        settings: str = "",
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Return copies of the blocks' arrays; see `Communicator`."""
        self.consult(call, lambda letters: Letter(None), timeout=timeout, trouble=trouble)
        return [block.array if isinstance(block, Block) and block.fresh else block.array.copy() for block in blocks]

    def close(self) -> None:
        """Refuse all further calls."""
        self._closed = True


_chosen: Communicator | None = None  # by set_communicator
_automatic: Communicator | None = None
_by_util: weakref.WeakKeyDictionary[Any, UtilCommunicator] = weakref.WeakKeyDictionary()


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
    return _chosen if _chosen is not None else automatic_communicator()


def automatic_communicator() -> Communicator:
    """Return the communicator of the launcher's job; ignore ``set_communicator``.

    Raises:
        NoChannelError, ServerProcessError, InvalidInputError: as `get_communicator`.
    """
    global _automatic
    if engine_asked():
        return _engine()
    if _automatic is None or isinstance(_automatic, LocalCommunicator):
        job = Job.from_environment()  # again for the local one: fleet may have been initialized in the meantime
        with making:
            if job.world_size > 1 and not isinstance(_automatic, SocketCommunicator):
                _automatic = SocketCommunicator(job, channel="automatic")
            elif _automatic is None:
                _automatic = LocalCommunicator()
    return _automatic


def engine_asked() -> str:
    """The engine that FLEETMETRICS_ENGINE names, or ""; raises `InvalidInputError` for an unknown name."""
    name = os.environ.get("FLEETMETRICS_ENGINE", "").strip()
    if name in ("", "mpi"):
        return name
    raise InvalidInputError(
        f"the environment variable FLEETMETRICS_ENGINE holds {name!r}; it must be mpi, for workers that mpirun "
        "started, or unset: the workers then use their own sockets."
    )


def _engine() -> Communicator:
    """The communicator of MPI, if FLEETMETRICS_ENGINE asks for it."""
    refuse_other_roles(os.environ)
    try:
        return get_dist_backend("mpi4py")
    except ImportError as error:
        raise NoChannelError(f"FLEETMETRICS_ENGINE is mpi, but {error}") from error


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


def checked_communicator(communicator: Any) -> Communicator:
    """Check that this is a communicator, and return it."""
    if isinstance(communicator, Communicator):
        return communicator
    raise InvalidInputError(
        f"communicator is {communicator!r:.80}; it must be a fleetmetrics.comm.Communicator, or None."
    )


def channel_of(
    communicator: Any = None, util: Any = None, trouble: BaseException | None = None, group: Any = None
) -> tuple[Communicator, BaseException | None]:
    """The communicator of a call, and any trouble of the call.

    A wrong ``communicator`` or ``util`` becomes the call's trouble, since the other workers wait on the job's channel
    and must get the error. A wrong ``group`` raises at once: the waiting workers are unknown.
    """
    try:
        channel = communicator_for(util) if communicator is None else checked_communicator(communicator)
    except InvalidInputError as error:
        channel, trouble = get_communicator(), trouble or error
    return channel if group is None else channel.among(group), trouble


def on_channel(
    call: str,
    work: Callable[[Communicator, BaseException | None], _T],
    communicator: Any = None,
    util: Any = None,
    group: Any = None,
) -> _T:
    """Make a call with its communicator and its trouble, see `channel_of`; even an interrupted call counts.

    Args:
        call: the name of the call; errors quote it.
        work: makes the exchanges.
        communicator: as for `channel_of`.
        util: as for `channel_of`.
        group: as for `channel_of`.

    Returns:
        The result of the function.
    """
    try:
        return work(*channel_of(communicator, util, group=group))
    except FleetMetricsError:
        raise
    except BaseException as error:
        with contextlib.suppress(FleetMetricsError):
            channel_of(communicator, util, group=group)[0].left(call, error)
        raise


def communicator_for(util: Any = None) -> Communicator:
    """Return the communicator for the ``util`` argument of the functions after fleet.metrics.

    Args:
        util: None for `get_communicator`; a `Communicator`; or an object with Paddle's
            ``all_reduce(input, mode)``, such as ``fleet.util``.

    Returns:
        A communicator, the same one for the same object.

    Raises:
        InvalidInputError: ``util`` is none of these.
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
    except TypeError:  # an object that has no hash or takes no weak reference
        return UtilCommunicator(util)


def _fleet_util() -> Communicator:
    from paddle.distributed import fleet

    return communicator_for(fleet.util)


def _mpi4py() -> Communicator:
    from fleetmetrics.comm.mpi import MPICommunicator

    return MPICommunicator()


#: These two backends are created once; the others look up the current communicator.
_BACKENDS: dict[str, Callable[[], Communicator]] = {
    "auto": get_communicator,
    "non_dist": functools.lru_cache(maxsize=None)(LocalCommunicator),
    "paddle_dist": automatic_communicator,
    "fleet_util": _fleet_util,
    "mpi4py": functools.lru_cache(maxsize=None)(_mpi4py),
}
#: MMEval's names for the workers of a job, by the library that connects them.
_OF_MMEVAL = ("oneflow", "tf_horovod", "torch_cpu", "torch_cuda")
_default = "auto"


def list_all_backends() -> list[str]:
    """Return the names of the communicators.

    Returns:
        "auto": what `get_communicator` returns. "non_dist": this process alone. "paddle_dist": the workers of the
        job that Paddle's launcher started. "fleet_util": the workers behind ``fleet.util``. "mpi4py": the workers
        that ``mpirun`` started, with the extra ``fleetmetrics[mpi]``. As arguments, MMEval's "torch_cpu",
        "torch_cuda", "tf_horovod" and "oneflow" also mean "auto".

    Examples:
        >>> list_all_backends()
        ['auto', 'non_dist', 'paddle_dist', 'fleet_util', 'mpi4py']
    """
    return list(_BACKENDS)


def set_default_dist_backend(dist_backend: str) -> None:
    """Choose the communicator of every `BaseMetric` that names none.

    Args:
        dist_backend: a name, see `list_all_backends`. The initial one is "auto", not MMEval's "non_dist": a metric
            is never silently local.

    Raises:
        UnknownNameError: the name is unknown; it is also an AssertionError.
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
        UnknownNameError: the name is unknown; it is also an AssertionError.
        NoChannelError: the workers cannot be reached.
        ImportError: a library that the communicator needs is not installed.

    Examples:
        >>> get_dist_backend("non_dist").world_size
        1
    """
    return _BACKENDS[check_backend(dist_backend) or _default]()


def check_backend(dist_backend: str | None) -> str | None:
    """This package's name of a backend, or None; raises `UnknownNameError` for an unknown name."""
    named = isinstance(dist_backend, str)
    if named and dist_backend in _OF_MMEVAL:
        return "auto"
    if dist_backend is not None and not (named and dist_backend in _BACKENDS):
        raise UnknownNameError(
            f"dist_backend is {dist_backend!r}; allowed are {', '.join(map(repr, _BACKENDS))}, or None for the default."
        )
    return dist_backend
