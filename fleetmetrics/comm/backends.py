"""The communicators by name, after MMEval's distributed backends."""

from __future__ import annotations

from fleetmetrics.comm.choose import resolve
from fleetmetrics.comm.communicator import Communicator
from fleetmetrics.errors import UnknownNameError
from fleetmetrics.support.checks import knows_its_arguments

__all__ = ["backend_of", "check_backend", "get_dist_backend", "list_all_backends", "set_default_dist_backend"]

_BACKENDS = ("auto", "non_dist", "paddle_dist", "fleet_util", "mpi4py")
#: MMEval's names for the workers of a job, by the library that connects them.
_OF_MMEVAL = ("oneflow", "tf_horovod", "torch_cpu", "torch_cuda")

_default = "auto"


def list_all_backends() -> list[str]:
    """Return the names of the communicators.

    Returns:
        "auto": what `get_communicator` returns. "non_dist": this process alone. "paddle_dist": the workers of the
        job that Paddle's launcher started. "fleet_util": the workers of ``fleet.util``. "mpi4py": the workers
        that ``mpirun`` started, with the extra ``mpi``. As arguments, MMEval's "torch_cpu",
        "torch_cuda", "tf_horovod" and "oneflow" also mean "auto".

    Examples:
        >>> list_all_backends()
        ['auto', 'non_dist', 'paddle_dist', 'fleet_util', 'mpi4py']
    """
    return list(_BACKENDS)


@knows_its_arguments
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


@knows_its_arguments
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
    return resolve(backend=backend_of(dist_backend))


def backend_of(dist_backend: str | None) -> str:
    """The name of the backend that counts, for `resolve`: this one, or the default."""
    return check_backend(dist_backend) or _default


def check_backend(dist_backend: str | None) -> str | None:
    """This package's name of a backend, or None; raises `UnknownNameError` for an unknown name."""
    named = isinstance(dist_backend, str)
    if named and dist_backend in _OF_MMEVAL:
        return "auto"
    if dist_backend is not None and not (named and dist_backend in _BACKENDS):
        raise UnknownNameError(
            f"dist_backend is {dist_backend!r}; allowed are {', '.join(map(repr, _BACKENDS))}, or None for the default"
        )
    return dist_backend
