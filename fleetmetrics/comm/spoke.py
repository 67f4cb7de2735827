"""The side of the meeting of a worker other than rank 0."""

from __future__ import annotations

import contextlib
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
        self._poll = select.poll()
        self._stream: Stream | None = None
        self._missed: list[Frame] = []
        self._verdicts: dict[int, Frame] = {}  # of later calls

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
        return self._stream

    def _converse(self, stream: Stream, frame: Frame, late: Frame, deadline: Deadline) -> Answer:
        gives_up_at, leaves_at = deadline.end - margin(deadline.timeout), 0.0
        answer = self._answer_to(frame.call, stream)
        if answer is None:
            while self._missed:
                self._tell(stream, self._missed.pop(0))
            self._tell(stream, frame)
        while answer is None:
            self._poll.register(stream, select.POLLIN | (select.POLLOUT if stream.sending else 0))
            wait_for(self._poll, leaves_at or gives_up_at)
            now = time.monotonic()  # before the look, so that an answer that is here by then counts
            self._tell(stream)
            answer = self._answer_to(frame.call, stream)
            if answer is None and not leaves_at and now >= gives_up_at:
                self._tell(stream, late)
                # A process that was not scheduled says this late. What rank 0 sent before it heard must be waited
                # for all the same, or there is a number on rank 0 and an error here.
                leaves_at = max(deadline.end, time.monotonic() + margin(deadline.timeout))
            elif answer is None and leaves_at and now >= leaves_at:
                # the frame for rank 0 is on its way already, so it must not be sent again
                raise DeadlineError(late.header.decode())
        if answer.kind == ANSWER:
            return Answer(answer.header, answer.payload)
        report = json.loads(answer.header)
        if report["broken"]:
            self.broken = report["text"]
        raise named_error(report["class"], report["text"])

    def _tell(self, stream: Stream, frame: Frame | None = None) -> None:
        """Send a frame, or what is left of one; that rank 0 has gone is for reading to find, after its last words."""
        with contextlib.suppress(OSError):
            if frame is None:
                stream.flush()
            else:
                stream.send(frame)

    def _answer_to(self, call: int, stream: Stream) -> Frame | None:
        """Read up to the answer; what belongs to an exchange that this worker gave up is forgotten."""
        while call not in self._verdicts:
            frame = stream.receive()
            if frame is None or frame.call == call or (frame.kind == ERROR and json.loads(frame.header)["broken"]):
                return frame
            if frame.call > call:  # rank 0 is ahead, and has given up what this worker has yet to call
                self._verdicts[frame.call] = frame
        return self._verdicts.pop(call)

    def _break(self, reason: str) -> Answer:
        self.broken = reason
        self.close()
        raise CommunicatorError(reason) from None
