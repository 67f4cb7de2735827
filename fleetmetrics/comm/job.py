"""What the communicators of a launched job have in common: they count exchanges, and may meet over sockets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from fleetmetrics.comm.base import SECONDS_FOR_TROUBLE, Communicator, Deadline, resolve_timeout
from fleetmetrics.comm.letters import Decide, Letter
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.wire import Payload
from fleetmetrics.errors import InvalidInputError

__all__ = ["JobCommunicator"]


class JobCommunicator(Communicator):
    """The workers of one job.

    Args:
        meeting: where they meet; None if they cannot.
    """

    def __init__(self, meeting: Meeting | None) -> None:
        self._meeting = meeting
        self._number = 0

    def all_gather(self, array: Any, *, timeout: float | None = None) -> list[np.ndarray]:
        """Give every worker's array to every worker; see `Communicator`."""
        return self._gather("all_gather", array, None, timeout)

    def broadcast(self, array: Any, source: int = 0, *, timeout: float | None = None) -> np.ndarray:
        """Give one worker's array to every worker; see `Communicator`."""
        return self._gather("broadcast", array, source, timeout)[source]

    def consult(
        self,
        call: str,
        decide: Decide,
        note: Any = None,
        payload: Payload = b"",
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> Letter:
        """Bring something to rank 0, and hear what it makes of everybody's; see `Communicator`."""
        if self._meeting is None:
            return super().consult(call, decide, note, payload, timeout=timeout, trouble=trouble)
        deadline, trouble = self._begin(timeout, trouble)
        return self._meeting.consult(self._label(call), call, decide, note, payload, deadline, trouble)

    @abstractmethod
    def _gather(self, call: str, array: Any, source: int | None, timeout: float | None) -> list[np.ndarray]:
        """Give the arrays of all workers, or that of the source, to every worker."""

    def _begin(self, timeout: float | None, trouble: BaseException | None) -> tuple[Deadline, BaseException | None]:
        """Count the exchange; even a wrong timeout must reach the others, who are waiting."""
        self._number += 1
        try:
            return Deadline(resolve_timeout(timeout)), trouble
        except InvalidInputError as error:
            return Deadline(SECONDS_FOR_TROUBLE), trouble or error

    def _label(self, call: str) -> str:
        return f"exchange {self._number} ({call})"
