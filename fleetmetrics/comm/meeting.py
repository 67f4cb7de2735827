"""Arrival, agreement and small payloads in one round trip: a star of sockets around rank 0.

No threads. Rank 0 coordinates inside its own call: it waits until every worker has arrived, combines what they
brought, and answers all of them alike, with the result or with an error. A worker that does not arrive is
named before anyone's own deadline. Frames carry the number of their exchange, so that what belongs to an
abandoned one is never taken for the next.
"""

from __future__ import annotations

import json
import os
from typing import Any, Sequence

from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.columns import by_rank
from fleetmetrics.comm.hub import Hub
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.letters import CONSULTS, Decide, Letter, joined, read_letters, written
from fleetmetrics.comm.member import Answer, Combine, Member, trouble_frame
from fleetmetrics.comm.spoke import Spoke
from fleetmetrics.comm.wire import ARRIVAL, Frame, Payload
from fleetmetrics.errors import AgreementError, CommunicatorError, FleetMetricsError

__all__ = ["Meeting"]


class Meeting:
    """The workers' meeting; connects at the first exchange.

    Args:
        job: where this process stands among the others; of at least two workers.
        channel: sets the meetings of one job apart.
    """

    def __init__(self, job: Job, channel: str) -> None:
        self._member: Member = Hub(job, channel) if job.rank == 0 else Spoke(job, channel)
        self._process = os.getpid()
        self._calls = 0
        self._busy = ""
        self._closed = False

    def exchange(
        self,
        label: str,
        combine: Combine,
        deadline: Deadline,
        *,
        header: bytes = b"",
        payload: Payload = b"",
        note: int = 0,
        trouble: BaseException | None = None,
    ) -> Answer:
        """Bring something, and get what rank 0 makes of everybody's.

        Args:
            label: what the workers do, for errors: "exchange 3 (auc)".
            combine: what rank 0 does with the frames by rank.
            deadline: until when this worker waits.
            header: for the code.
            payload: for the numbers; one buffer or several.
            note: a number for the code.
            trouble: an error to bring instead.

        Returns:
            The same answer on every rank.

        Raises:
            DeadlineError: if somebody does not arrive, or gave up.
            CommunicatorError: if somebody has gone away, or the channel was broken or closed before.
            FleetMetricsError: what ``combine`` raised on rank 0, or a worker's trouble.
        """
        self._check()
        self._calls += 1
        if trouble is None:
            frame = Frame(ARRIVAL, self._calls, header, payload, note, deadline.remaining, deadline.timeout)
        else:
            frame = trouble_frame(self._calls, trouble, deadline)
        self._busy = label
        try:
            return self._member.exchange(frame, label, combine, deadline)
        except FleetMetricsError as error:
            raise error from trouble
        finally:
            self._busy = ""

    def consult(
        self,
        label: str,
        call: str,
        decide: Decide,
        note: Any,
        payload: Payload,
        deadline: Deadline,
        trouble: BaseException | None,
    ) -> Letter:
        """Bring a letter, and get rank 0's; see `Communicator.consult`.

        Args:
            label: what the workers do, for errors.
            call: the same on every worker.
            decide: makes the answer, on rank 0.
            note: fit for JSON.
            payload: one buffer or several.
            deadline: until when this worker waits.
            trouble: an error to bring instead.
        """

        def combine(frames: Sequence[Frame]) -> Answer:
            if any(frame.note != CONSULTS for frame in frames):
                kinds = [_kind(frame) for frame in frames]
                raise AgreementError(f"the workers disagree at {label}: {by_rank(kinds)}.")
            answer = decide(read_letters([frame.header for frame in frames], [frame.payload for frame in frames]))
            return Answer(json.dumps(answer.note).encode(), answer.payload)

        header = written(call, note)
        answer = self.exchange(label, combine, deadline, header=header, payload=payload, note=CONSULTS, trouble=trouble)
        return Letter(json.loads(answer.header), joined(answer.payload))

    def close(self) -> None:
        """Close the channel; a second call does nothing, and neither does one in a forked child."""
        if not self._closed and self._process == os.getpid():
            self._closed = True
            self._member.close()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise CommunicatorError(
                f"the workers' channel belongs to process {self._process}, and this is its forked child {os.getpid()};"
                " compute global metrics in the worker's main process only."
            )
        if self._busy:
            raise CommunicatorError(
                f"{self._busy} is not over: what runs inside of it, such as compute_metric, runs on rank 0 alone and"
                " cannot call the other workers."
            )
        if self._closed:
            raise CommunicatorError("the workers' channel is closed; make a new communicator on every worker.")
        if self._member.broken:
            raise CommunicatorError(f"the workers' channel is broken since an earlier call: {self._member.broken}")


def _kind(frame: Frame) -> str:
    """What a worker does, as far as its frame says; the header of one that knows nothing yet is empty."""
    call = (json.loads(frame.header) or ["world_size"])[0]
    return f"{call}, over records" if frame.note == CONSULTS else f"{call}, over states or arrays"
