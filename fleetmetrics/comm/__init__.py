"""The workers' channel: communicators, and the choice among them. Importing this does not import Paddle.

All exchanges, of states, arrays, records and objects, run like this::

       worker 1            rank 0            worker 2
          |    arrival       |     arrival      |
          | ---------------> | <--------------- |     what is called, a note, a payload, the sender's deadline,
          |                  |                  |     and how its last exchange ended
          |            decides, alone           |
          |     answer       |      answer      |
          | <--------------- | ---------------> |     the same to all: a result, or an error
          |       ack        |                  |
          | ---------------> |                  |     if no worker has the answer, rank 0 takes it back

`Communicator.consult` is the interface of that exchange, and `descriptions` has what travels; metrics import nothing
else before they compute. `job` reads the place of this process, from the table in `launchers`; `rivals` looks for other
processes that claim the same place. `finding` decides where rank 0 listens and
looks for it, `handshake` lets rank 0 and each worker prove themselves, `door` keeps the connections that have not yet
done so, and `frames` carries their sealed messages. `hub` is rank 0's side of the star, with its `peers` and its
`meeting`, `star` the other workers', `turns` the queue of a worker's threads, and `sockets` the communicator on top.
Rank 0 gives up early enough for its verdict to reach every worker before the first deadline, and names the missing
ranks. It has no threads: it coordinates inside its own call. `blocks` puts many states into one payload, `slabs` cuts
those that are too large for one, and `unions` finds the rows of all workers' keys. `groups` finds the workers of a
group, which has its own star; `boards` lets workers detect that they wait in different groups. `local` is the
communicator of one worker, `util` goes through an object with ``all_reduce`` where no launcher's variables name the
workers, and `mpi` sends large arrays over MPI. `choose` has the one function that picks among them, and `backends` the
names that MMEval gives them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetmetrics.comm.channel import SocketCommunicator
    from fleetmetrics.comm.choose import communicator_for, get_communicator, set_communicator
    from fleetmetrics.comm.communicator import Communicator
    from fleetmetrics.comm.descriptions import Block, Letter, RowKeys
    from fleetmetrics.comm.local import LocalCommunicator
    from fleetmetrics.comm.util import UtilCommunicator

__all__ = [
    "Block",
    "Communicator",
    "Letter",
    "LocalCommunicator",
    "RowKeys",
    "SocketCommunicator",
    "UtilCommunicator",
    "communicator_for",
    "get_communicator",
    "set_communicator",
]
_MODULES = {
    **dict.fromkeys(("Block", "Letter", "RowKeys"), "descriptions"),
    "Communicator": "communicator",
    "LocalCommunicator": "local",
    "SocketCommunicator": "channel",
    "UtilCommunicator": "util",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: metrics need only the descriptions of states, without any sockets."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'choose')}"), name)
    globals()[name] = value
    return value
