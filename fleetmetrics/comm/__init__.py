"""The workers' channel: communicators, and the choice among them. Importing this does not import Paddle.

All exchanges, of states, arrays, records and objects, run like this::

      worker 1                      rank 0                      worker 2
    program  thread             thread  program             thread  program
       | ask    |    arrival      |      ask |    arrival      |   ask |
       |------->|---------------->|<---------|<----------------|<------|    what is called, a letter, the deadline
       |        |              decides       |                 |       |
       |        |     answer      |          |     answer      |       |
       |<-------|<----------------|--------->|---------------->|------>|    the same to all: a result, or an error

A program's thread only leaves a message in its `inbox` and waits for the reply; the channel's own thread touches the
sockets. Rank 0's is the `server`: it keeps the `door`, knows from the `roster` who is who, from a `meeting` who waits
where, and from the `past` what is over, watches the clock, and answers, also while the program is elsewhere; `status`
has its words. The other workers' is a `client`, which looks for rank 0. A decision that is a pure function of the
letters is made by the server on their `arrivals`; another one, such as a user's formula, by the program of the first
rank. Rank 0 gives up early enough for its verdict to reach every worker before the first deadline, and says who is
missing.

`job` reads the place of this process from the table in `launchers`, and `worker` marks it, so that a process which it
starts is not taken for it. `secret` has what only the workers know, `handshake` lets both sides prove it, `message`
seals what follows, and `addresses` says where rank 0 listens. What travels is described in `serial.descriptions`;
metrics import nothing else before they compute. `letters` are their bytes, `states` has the bytes and the reduction of
states, `rows` those by key and the pieces of large ones, `columns` arrays of any dtype, and `folds` the pure functions
of letters. `channel` is the communicator on top, `answers` let a thread wait in the program's place, and `groups` finds
the workers of a group. `local` is the communicator of one worker, `util` goes through an object with ``all_reduce``
where no launcher's variables name the workers, and `mpi` sends records over MPI. `choose` has the one function that
picks among them, and `backends` the names that MMEval gives them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

import fleetmetrics

if TYPE_CHECKING:
    from fleetmetrics.comm.answers import Answer
    from fleetmetrics.comm.channel import SocketCommunicator
    from fleetmetrics.comm.choose import communicator_for, get_communicator, set_communicator
    from fleetmetrics.comm.communicator import Call, Communicator
    from fleetmetrics.comm.local import LocalCommunicator
    from fleetmetrics.comm.util import UtilCommunicator
    from fleetmetrics.serial.descriptions import Block, Letter, RowKeys

__all__ = [
    "Answer",
    "Block",
    "Call",
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
__dir__: Callable[[], list[str]] = functools.partial(sorted, __all__)
#: Each name is imported at its first use: few processes need all.
_MODULES = {
    **dict.fromkeys(("Block", "Letter", "RowKeys"), "fleetmetrics.serial.descriptions"),
    **dict.fromkeys(("Call", "Communicator"), "fleetmetrics.comm.communicator"),
    **dict.fromkeys(("communicator_for", "get_communicator", "set_communicator"), "fleetmetrics.comm.choose"),
    "Answer": "fleetmetrics.comm.answers",
    "LocalCommunicator": "fleetmetrics.comm.local",
    "SocketCommunicator": "fleetmetrics.comm.channel",
    "UtilCommunicator": "fleetmetrics.comm.util",
}


def __getattr__(name: str) -> Any:
    value = globals()[name] = fleetmetrics._first_use(__name__, name, _MODULES)
    return value
