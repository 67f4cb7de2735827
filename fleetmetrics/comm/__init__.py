"""The workers' channel: communicators, and the choice among them. Importing this does not import Paddle."""

from __future__ import annotations

from fleetmetrics.comm.base import Block, Communicator
from fleetmetrics.comm.choose import communicator_for, get_communicator, set_communicator
from fleetmetrics.comm.local import LocalCommunicator
from fleetmetrics.comm.sockets import SocketCommunicator
from fleetmetrics.comm.util import UtilCommunicator

__all__ = [
    "Block",
    "Communicator",
    "LocalCommunicator",
    "SocketCommunicator",
    "UtilCommunicator",
    "communicator_for",
    "get_communicator",
    "set_communicator",
]
