"""Copies of a model: check that workers with the same samples hold equal states."""

from __future__ import annotations

import hashlib
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.choose import channel_of
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.groups import copies_of
from fleetmetrics.comm.letters import read_each
from fleetmetrics.errors import AgreementError, InvalidInputError
from fleetmetrics.saving.checkpoint import named_metrics
from fleetmetrics.serial.descriptions import Letter
from fleetmetrics.support.checks import knows_its_arguments

__all__ = ["check_copies"]

_CALL = "check_copies"
#: The number of differing entries that the error names.
_NAMED = 5


@knows_its_arguments
def check_copies(
    metrics: Any,
    group: Any = None,
    *,
    scope: Any = None,
    communicator: Communicator | None = None,
    timeout: float | None = None,
) -> None:
    """Raise on all workers with the same samples unless their states are equal, bit for bit.

    With model parallelism several workers have copies, or parts, of one model: ``compute(group=...)`` counts one of
    them and ignores the others. Call this first to be sure that they agree. Every worker of the group
    must call it.

    Args:
        metrics: as for `save`: a metric, a collection, a `BaseMetric` or an `Evaluator`; or a dict of them by name.
        group: ``fleet.get_hybrid_communicate_group()``, for this worker and those that differ from it in neither its
            data axis nor its sharding axis; or a ``Group`` of Paddle's or a list of ranks that hold copies.
        scope: the scope of a static program's variables; None: the global scope.
        communicator: None: the one that was set or is chosen automatically.
        timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have met.

    Raises:
        AgreementError: the states differ; the message names the entries and the ranks.
        InvalidInputError: ``group`` is not a group, or lacks this worker; nothing has been sent.
        FleetMetricsError: the same error on every worker of the group, by the deadline.

    Examples:
        >>> from fleetmetrics import Accuracy
        >>> check_copies(Accuracy(), [0])
    """
    whole, trouble = channel_of(communicator)
    if group is None:
        raise InvalidInputError(
            "group is None; it must say which workers hold copies: fleet.get_hybrid_communicate_group(), a Group of"
            " paddle.distributed.new_group, or a list of ranks"
        )
    channel = whole.among(copies_of(group, whole.rank, whole.world_size))

    def decide(letters: Sequence[Letter]) -> Letter:
        held = read_each(letters, lambda letter: dict(letter.note))
        keys = sorted({key for entries in held for key in entries})
        apart = [key for key in keys if len({entries.get(key) for entries in held}) > 1]
        if apart:
            more = f" and {len(apart) - _NAMED} more" if len(apart) > _NAMED else ""
            texts = by_rank(f"{entries.get(apart[0]) or 'nothing'}" for entries in held)
            raise AgreementError(
                f"the copies differ in {', '.join(map(repr, apart[:_NAMED]))}{more}: the digests of {apart[0]!r} are "
                f"{texts}. Workers that see the same samples must add the same values: check dropout, outputs that "
                "were not gathered, and samplers that assign by the rank in the job"
            )
        return Letter(None)

    with channel.call(_CALL, timeout, trouble) as call:
        digests = {
            f"{name}.{key}" if name else key: _digest(array)
            for name, metric in named_metrics(metrics).items()
            for key, array in metric.state_dict(scope).items()
        }
        call.consult(decide, digests)


def _digest(array: np.ndarray) -> str:
    whole = np.ascontiguousarray(array)
    return hashlib.sha256(repr((whole.dtype.str, whole.shape)).encode() + whole.tobytes()).hexdigest()[:8]
