"""A worker's end of the channel: its thread looks for rank 0, proves who this is, and carries messages."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import secrets
import socket
import time

from fleetmetrics.comm.addresses import addresses_of
from fleetmetrics.comm.door import ENOUGH_REFUSALS, REFUSAL_SECONDS
from fleetmetrics.comm.failures import error_header, error_in, in_words, since_earlier
from fleetmetrics.comm.handshake import (
    GUEST_SECONDS,
    NONE,
    Found,
    OtherRun,
    Refused,
    Unproven,
    greet,
    other_run_text,
    unproven_text,
)
from fleetmetrics.comm.inbox import Inbox
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import (
    ANSWER,
    ARRIVAL,
    CLOSED,
    ENDS,
    ERROR,
    LEFT,
    LETTERS,
    STATUS,
    TROUBLE,
    Connection,
    Garbled,
    Lost,
    Message,
    Silent,
    silence,
)
from fleetmetrics.comm.past import KEPT, Latest
from fleetmetrics.errors import AuthenticationError, CommunicatorError, FleetMetricsError

__all__ = ["Client"]

#: Seconds that a process waits, before it ends, until its last messages have arrived.
_SEE_OFF_SECONDS = 1.0
#: A refused worker continues for this much longer, so that rank 0 sees it fail for long enough.
_LONGER_SECONDS = 0.3
#: Seconds in which a worker looks again for a rank 0 that has welcomed it and was lost before it said anything.
_LOST_SECONDS = 1.0
#: What an address did that did nothing, and what to do if all are so.
_NO_ANSWER = "it did not answer in time"
_FIREWALL = (
    ". If a firewall lets in only certain ports, set FLEETMETRICS_ENDPOINT=host:port on all workers to a port that it "
    "lets in, on rank 0's machine"
)
#: The first wait for each step of the greeting, doubled from round to round.
_STEP_SECONDS = (1.0, GUEST_SECONDS)
#: Seconds between rounds: at first, at most while a call waits, and at most while none does.
_PAUSE_SECONDS = (0.005, 0.1, 1.0)


class Client(Inbox):
    """A worker's end; see `Inbox`."""

    broken: bytes
    met: bool
    rank_0: bytes
    round_trip: float
    session: bytes

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.session = secrets.token_bytes(16)  # rank 0 tells by it whether this is another process
        self.rank_0 = NONE  # the number of the rank 0 that this worker has met
        self.broken = b""  # the error of every later call
        self._connection: Connection | None = None
        self._why_broken = ""  # why a worker cannot come back, as rank 0 has said
        self._verdicts: Latest[tuple[int, int], bytes] = Latest()  # errors of calls that have not begun here
        self._answered = 0  # the number of the last call with a result
        self._lost_since = 0.0  # when a first connection was lost
        self._owed: collections.deque[Message] = collections.deque(maxlen=KEPT)  # of calls that failed without rank 0
        self._called = False  # whether it has said anything to a rank 0, which is then the one that it has met
        self._unheard: list[Message] = []  # sent on a connection on which rank 0 has said nothing yet
        self._tried: dict[str, str] = {}  # by address: the last answer
        self._known: set[str] = set()  # the addresses at which there was a rank 0
        self._looks_up = ""  # the name that is being looked up
        self._has_tried = False  # whether rank 0 has let it in, or a search has ended with an error
        self._ends = False  # whether this process is about to end

    def missing(self) -> str:
        """Why there is no connection to rank 0; see `Inbox`."""
        if self._connection is not None:
            return ""
        if self._looks_up and not self._tried:
            return f"The name {self._looks_up!r} of its address is still being looked up; does the name server answer?"
        tried = dict(self._tried)
        hint = _FIREWALL if tried and set(tried.values()) == {_NO_ANSWER} else ""
        return "Tried: " + ", ".join(f"{where} ({why})" for where, why in tried.items()) + hint

    # -- its thread

    def _run(self) -> None:
        while not self.closed:
            try:
                self._find()
                self._converse()
            except FleetMetricsError as error:
                self._give_up(error)
            except Exception as error:
                self._break(self._failed_text(error))
            self._disconnect()

    def _give_up(self, error: FleetMetricsError) -> None:
        """Every call that waits gets the error; the next call tries again."""
        self._has_tried = True
        header = error_header(error)
        for message in list(self._asked):
            if message.kind in (ARRIVAL, TROUBLE):  # rank 0 learns it from the next connection
                self._owed.append(Message(LEFT, *message.place, header=header))
        self._put_error(header)
        self._take_asked(lambda message: self._put(Message(ERROR, *message.place, header=header)))
        while not self._asked and not self.closed:
            self._poll.wait(time.monotonic() + 60)
            self._read_wake()

    def _converse(self) -> None:
        """Carry messages until the connection ends."""
        connection = self._connection
        while connection is not None and not self.closed:
            try:
                self._take_asked(functools.partial(self._send, connection))
                self._poll.follow(connection)
                descriptors = [descriptor for descriptor, _ in self._poll.wait(time.monotonic() + silence() / 2)]
                if self._woken in descriptors:
                    self._read_wake()
                if connection.fileno() not in descriptors:
                    if connection.silent:
                        raise Silent
                    continue
                if connection.sending:
                    with contextlib.suppress(Lost):  # rank 0 may have said something before
                        connection.flush()
                message = connection.receive()
                if message is None:
                    continue
                self._lost_since = 0.0
                self._unheard.clear()
                if message.kind == CLOSED:  # rank 0 has a new connection for new communicators
                    self.rank_0 = NONE
                    self._break_calls(_gone_text("it closed the channel"))
                    return
                self._receive(message)
            except Garbled as error:
                self._break(f"messages from rank 0 to {in_words([self.job.rank])} cannot be trusted: {error}")
            except Lost as error:
                if connection.heard:
                    self._break(_gone_text(error.why) + self._last_result())
                self._lost_since = self._lost_since or time.monotonic()
                self._asked.extendleft(reversed(self._unheard))
                self._unheard.clear()
                return  # lost before the first message: look again

    def _receive(self, message: Message) -> None:
        """Take a message to the thread that waits for it; keep the error of a call that has not begun here."""
        if message.kind not in (ANSWER, ERROR, LEFT, LETTERS, STATUS):
            raise Garbled(f"rank 0 sent a message of kind {message.kind}")
        if message.kind == ANSWER:
            self.met, self._answered = True, message.call
        elif message.kind == ERROR:
            error, broken = error_in(message.header)
            self._why_broken = str(error) if broken else ""
        if message.kind == ERROR and message.place not in self._replies:
            self._verdicts[message.place[:2]] = message.header
        self._put(message)

    def _last_result(self) -> str:
        """Which exchange may have ended otherwise on other workers, in words."""
        if not self._answered:
            return ""
        return (
            f". Exchange {self._answered}, the last with a result on this rank, may have ended with an error on others"
        )

    def _is_failed(self, message: Message) -> bool:
        """Whether a call has failed on the others before it began here; it gets their error."""
        header = self._verdicts.get(message.place[:2]) if message.kind in (ARRIVAL, TROUBLE) else None
        if header is not None:
            self._put(Message(ERROR, *message.place, header=header))
        return header is not None

    def _send(self, connection: Connection, message: Message) -> None:
        if self._is_failed(message):
            return
        self._called = True
        if not connection.heard:
            self._unheard.append(dataclasses.replace(message))
        with contextlib.suppress(Lost):  # reading finds that it has gone, after its last messages
            connection.send(message)

    def _break(self, text: str) -> None:
        """The channel cannot continue: this and every later call raises."""
        text = since_earlier(self._why_broken) if self._why_broken else text
        first = error_header(CommunicatorError(text))
        later = error_header(CommunicatorError(since_earlier(text)), broken=True)
        self.broken = later if self._replies else first
        for place in list(self._replies):
            self._put(Message(ERROR, *place, header=self._verdicts.get(place[:2], first)))
        self._disconnect()
        while not self.closed:
            self._poll.wait(time.monotonic() + 60)
            self._read_wake()
            calls = any(message.kind in (ARRIVAL, TROUBLE) for message in self._asked)
            self._take_asked(functools.partial(self._refuse, later))
            if calls:
                self._tell_successor()

    def _tell_successor(self) -> None:
        """If rank 0 was started again, let it know that the others have met the one before, and go on."""
        for where in self._places():
            with contextlib.suppress(OSError, Unproven, OtherRun, Refused):
                greet(
                    self.job, self.secret.key, self.session, self.rank_0, True, where, _STEP_SECONDS[0]
                ).connection.close()

    def _refuse(self, later: bytes, message: Message) -> None:
        if not self._is_failed(message):
            self._put(Message(ERROR, *message.place, header=self.broken))
            self.broken = later

    def _break_calls(self, text: str) -> None:
        self._put_error(error_header(CommunicatorError(text)))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._poll.unregister(connection)
            connection.close()

    # -- looking for rank 0

    def _find(self) -> None:
        """Try the candidates until a listener has proved that it is rank 0 of this run.

        Raises:
            AuthenticationError: rank 0 of this run has another secret.
            CommunicatorError: rank 0 refuses this worker, or its only address belongs to another run.
        """
        pause, step = _PAUSE_SECONDS[0], _STEP_SECONDS[0]
        unproven_since, unproven = 0.0, 0
        other_since = 0.0
        while not self.closed:
            places, silent = self._places(), False
            for where in places:
                calls = bool(self._asked)
                try:
                    self._welcome(greet(
                        self.job, self.secret.key, self.session, self.rank_0 if self._called else NONE, calls,
                        where, step,
                    ))  # fmt: skip
                    return
                except Unproven:
                    unproven, unproven_since = unproven + 1, unproven_since or time.monotonic()
                    self._note(where, "it has another secret", known=True)
                except OtherRun as error:
                    other_since = other_since or time.monotonic()
                    text = other_run_text(f"{where[0]}:{where[1]}", str(error), self.job.title)
                    self._note(where, text, known=True)
                    if len(places) == 1 and time.monotonic() - other_since > REFUSAL_SECONDS:
                        raise CommunicatorError(text) from None
                except Refused as error:
                    if calls or not self._asked:  # otherwise it has called meanwhile, of which rank 0 tells the others
                        raise CommunicatorError(str(error)) from None
                except OSError as error:
                    is_late = isinstance(error, (TimeoutError, socket.timeout))
                    silent |= is_late
                    why = _NO_ANSWER if is_late else error.strerror or str(error)
                    self._note(where, why or type(error).__name__)
            if silent:  # a busy rank 0, a slow network, or a silent listener
                step = min(2 * step, _STEP_SECONDS[1])
            if self._lost_since and time.monotonic() - self._lost_since > _LOST_SECONDS + 5 * self.round_trip:
                raise CommunicatorError(_gone_text(Lost.why))
            # rank 0 may have given up a moment before, and ended
            if unproven >= ENOUGH_REFUSALS and time.monotonic() - unproven_since > REFUSAL_SECONDS + _LONGER_SECONDS:
                raise AuthenticationError(unproven_text([self.job.rank]))
            self._poll.wait(time.monotonic() + pause)
            self._read_wake()
            pause = min(2 * pause, _PAUSE_SECONDS[1] if self._asked or self._ends else _PAUSE_SECONDS[2])

    def _welcome(self, rank_0: Found) -> None:
        self._connection, self.round_trip, self.rank_0 = rank_0
        self._poll.register(self._connection)
        self._tried.clear()
        self._known.clear()
        with contextlib.suppress(Lost):  # the conversation finds it
            self._connection.send(Message(STATUS))  # rank 0 learns that its welcome has arrived
        self._has_tried = True
        self._asked.extendleft(reversed(self._owed))
        self._owed.clear()

    def _places(self) -> list[tuple[str, int]]:
        """The possible addresses of rank 0, as numbers; an empty list if a name is not known."""
        places: list[tuple[str, int]] = []
        known: dict[str, list[str]] = {}
        for host, port in self.job.candidates():
            if host not in known:
                self._looks_up = host
                try:
                    known[host] = addresses_of(host)
                except OSError as error:  # the name may appear together with rank 0's machine, a descriptor become free
                    known[host] = []
                    trouble = "is not known" if isinstance(error, socket.gaierror) else "cannot be looked up"
                    self._note((host, port), f"the name {host!r} {trouble}, {error.strerror}")
                finally:
                    self._looks_up = ""
            places += [(address, port) for address in known[host]]
        return places

    def _note(self, where: tuple[str, int], why: str, known: bool = False) -> None:
        """Note the answer of an address; a rank 0 that was there says more than that none is there now."""
        name = f"[{where[0]}]:{where[1]}" if ":" in where[0] else f"{where[0]}:{where[1]}"
        if known:
            self._known.add(name)
        if known or name not in self._known:
            self._tried[name] = why

    # -- the end

    def see_off(self) -> None:
        """Before this process ends, let its last messages arrive; see `Inbox`."""
        end, self._ends = time.monotonic() + _SEE_OFF_SECONDS, True
        self._wake()
        while self._thread is not None and not (self._has_tried or self._over) and time.monotonic() < end:
            time.sleep(0.002)  # rank 0, which may start a little later, would wait for a rank that never connected
        connection = self._connection
        if connection is not None:  # rank 0 may wait for this process, and this one for rank 0, as in MPI's finalizing
            self.ask(Message(CLOSED, header=ENDS))
        while connection is not None and (self._asked or connection.on_its_way) and time.monotonic() < end:
            time.sleep(0.002)

    def _shut(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Lost):
                self._take_asked(self._connection.send)
                self._connection.send(Message(CLOSED))

    def drop(self) -> None:
        """Close the descriptors; see `Inbox`."""
        if self._connection is not None:
            self._connection.close()
        super().drop()


def _gone_text(why: str) -> str:
    return f"rank 0 has gone away: {why}. Look at its log. Other ranks may have a result of this exchange"
