"""The exchange: local states in, global ones out, one packed message for everything that a call needs."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from fleetmetrics.comm import Communicator, communicator_for
from fleetmetrics.keyed import Item, reduce_keyed

__all__ = ["exchange"]


def exchange(
    call: str,
    collect: Callable[[], Sequence[Item]],
    *,
    keyed: bool = False,
    util: Any = None,
    communicator: Communicator | None = None,
    timeout: float | None = None,
) -> list[np.ndarray]:
    """Reduce a set of local arrays over all workers, in one exchange.

    A worker that cannot even read its own states still takes part, with its error: then every worker raises
    that error, and none waits for the deadline.

    Args:
        call: what is computed, for the agreement header and for messages.
        collect: makes this worker's blocks.
        keyed: whether some of them have rows by key, see `fleetmetrics.keyed`; the same on every worker.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the communicator.
        communicator: None: the one that was set or is chosen automatically.
        timeout: seconds to wait for the other workers; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

    Returns:
        The global arrays, in the order of the blocks.

    Raises:
        FleetMetricsError: the same one on every worker.
    """
    channel = communicator if communicator is not None else communicator_for(util)
    blocks: Sequence[Any] = []
    trouble: Exception | None = None
    try:
        blocks = collect()
    except Exception as error:  # whatever it is: the others are waiting
        trouble = error
    if keyed:
        return reduce_keyed(call, channel, blocks, timeout, trouble)
    return channel.reduce(call, blocks, timeout=timeout, trouble=trouble)
