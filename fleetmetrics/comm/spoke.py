"""The side of the meeting of a worker other than rank 0."""

from __future__ import annotations

import json
import select
import time

from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.member import Answer, Combine, Member, late_text, margin, wait_for
from fleetmetrics.comm.rendezvous import connect
from fleetmetrics.comm.trouble import named_error
from fleetmetrics.comm.wire import ANSWER, ERROR, GAVE_UP, Frame, Stream
from fleetmetrics.errors import CommunicatorError, DeadlineError, FleetMetricsError

__all__ = ["Spoke"]


class Spoke(Member):
    """A worker other than rank 0.

    Args:
        job: where this process stands.
        channel: sets the meetings of one job apart.
    """

    def __init__(self, job: Job, channel: str) -> None:
        self._job = job
        self._token = job.token(channel)
        self._stream: Stream | None = None
        self._missed: list[Frame] = []

    def exchange(self, frame: Frame, label: str, combine: Combine, deadline: Deadline) -> Answer:
        """Send the frame and wait for rank 0's answer; see `Meeting.exchange`."""
        late = Frame(GAVE_UP, frame.call, self._late_text(label, deadline).encode())
        try:
            stream = self._connected(deadline)
        except TimeoutError:
            self._missed.append(late)
            raise DeadlineError(late.header.decode()) from None
        try:
            return self._converse(stream, frame, late, deadline)
        except FleetMetricsError:  # before OSError, which DeadlineError is as well
            raise
        except OSError:
            return self._break("rank 0 has gone away: its process ended, or it closed the channel. Look at its log.")
        finally:
            stream.keep_unsent()

    def close(self) -> None:
        """Close the socket."""
        if self._stream is not None:
            self._stream.close()

    def _late_text(self, label: str, deadline: Deadline) -> str:
        how = "connect" if self._stream is None else "arrive"
        return late_text([0], how, deadline.timeout, label)

    def _connected(self, deadline: Deadline) -> Stream:
        if self._stream is None:
            self._stream = Stream(connect(self._job, self._token, deadline.end))
            self._poll = select.poll()
        return self._stream

    def _converse(self, stream: Stream, frame: Frame, late: Frame, deadline: Deadline) -> Answer:
        gives_up_at = deadline.end - margin(deadline.timeout)
        told = False
        answer = self._answer_to(frame.call, stream)
        while self._missed:
            stream.send(self._missed.pop(0))
        if answer is None:
            stream.send(frame)
        while answer is None:
            self._poll.register(stream, select.POLLIN | (select.POLLOUT if stream.sending else 0))
            wait_for(self._poll, deadline.end if told else gives_up_at)
            stream.flush()
            answer = self._answer_to(frame.call, stream)
            now = time.monotonic()
            if answer is None and not told and now >= gives_up_at:
                stream.send(late)
                told = True
            if answer is None and now >= deadline.end:
                # the frame for rank 0 is on its way already, so it must not be sent again
                raise DeadlineError(late.header.decode())
        if answer.kind == ANSWER:
            return Answer(answer.header, answer.payload)
        report = json.loads(answer.header)
        if report["broken"]:
            self.broken = report["text"]
        raise named_error(report["class"], report["text"])

    def _answer_to(self, call: int, stream: Stream) -> Frame | None:
        while True:
            frame = stream.receive()
            # what belongs to an exchange that this worker gave up is read and forgotten
            if frame is None or frame.call == call or (frame.kind == ERROR and json.loads(frame.header)["broken"]):
                return frame

    def _break(self, reason: str) -> Answer:
        self.broken = reason
        self.close()
        raise CommunicatorError(reason) from None
