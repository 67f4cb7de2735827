"""The workers' channel: communicators, and the choice among them. Importing this does not import Paddle.

An exchange goes like this; all the others, of states, arrays, records and objects, are made of it::

       worker 1            rank 0            worker 2
          |    arrival       |     arrival      |
          | ---------------> | <--------------- |     what is called, a note, a payload, the sender's deadline,
          |                  |                  |     and what became of the exchange before
          |            decides, alone           |
          |     answer       |      answer      |
          | <--------------- | ---------------> |     the same to all: a result, or an error
          |       ack        |                  |
          | ---------------> |                  |     if nobody has the answer, rank 0 takes it back

`Communicator.consult` is that exchange as its users see it. `job` reads where this process stands, from the table in
`launchers`; `rivals` looks for other processes that claim the same place. `finding` says where rank 0 listens and
looks for it, by `handshake` it and each worker prove themselves to each other, `door` keeps those who have yet to do
so, and `frames` are what they say from then on, sealed. `hub` is rank 0's side of the star, with its `peers` and its
`meeting`, `star` the other workers', `turns` the line of a worker's threads, and `sockets` the communicator on top.
Rank 0 gives up early enough for its verdict to reach everybody before the first deadline, and names the ranks that
are missing. It has no threads: it coordinates inside of its own call. `blocks` puts many states into one payload,
`slabs` cuts those that are too large for one, and `unions` finds the rows of all workers' keys. `hosts` is a second
level beside the star, for many workers on several hosts, and `divisible` has the decisions of which its leaders make
a part. `groups` says which workers a group holds, which has a star of its own; by `boards` those find each other that
wait in different ones. `util` goes through ``fleet.util`` instead, `mpi` takes what is big over MPI, and `choose`
picks a communicator when the caller names none.
"""

from __future__ import annotations

from fleetmetrics.comm.blocks import Block, RowKeys
from fleetmetrics.comm.choose import LocalCommunicator, communicator_for, get_communicator, set_communicator
from fleetmetrics.comm.communicator import Communicator, Letter
from fleetmetrics.comm.sockets import SocketCommunicator
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
