"""The communicator behind ``util=fleet.util``; it needs only an object with ``all_reduce(input, mode)``.

It only sums lists of non-negative Python integers below 2**53, which Paddle's own object sums without loss. A
consultation takes two sums, in which every worker puts zeros in the places of the others: first of the letters side by
side, then of rank 0's answer. The workers exchange the lengths of the letters over sockets if the launcher's variables
allow it, otherwise in an earlier sum.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm.blocks import answered, letter_in, read_each, written
from fleetmetrics.comm.communicator import Communicator, Decide, Letter
from fleetmetrics.comm.deadline import Deadline, margin, resolve_timeout, run_until
from fleetmetrics.comm.failures import described, named_error, raise_trouble
from fleetmetrics.comm.job import Job, job_of
from fleetmetrics.comm.sockets import SocketCommunicator
from fleetmetrics.comm.star import interruption
from fleetmetrics.errors import CommunicatorError, DeadlineError, InvalidInputError, NoChannelError

__all__ = ["UtilCommunicator"]

# Each worker draws a slot of a table; workers that share a slot draw again, at most this number of times.
_SLOTS, _DRAWS = 2**13, 32
# Each worker adds this number: a util that rounds to float32 loses the 1, and the sum over 8,191 workers stays below
# 2**53.
_ONE = 2**40 + 1
_BYTES_PER_INTEGER = 6
# An answer no longer than this, or than the longest letter, takes one sum, otherwise two.
_PIECE = 2**12
_channels = itertools.count(1)


class UtilCommunicator(Communicator):
    """The workers behind an object with Paddle's ``all_reduce(input, mode)``.

    All results are exact, as with the other communicators. If the launcher's environment names several workers, they
    first meet over sockets, so that an error names a missing one before the deadline. Otherwise the object's role
    maker, or random numbers, distinguish them.

    Args:
        util: for example ``fleet.util``.
        job: the place of this process; None: from the launcher's environment.

    Raises:
        InvalidInputError: util has no callable ``all_reduce``.

    Examples:
        >>> class Util:
        ...     def all_reduce(self, input, mode):
        ...         return np.array(input) * 2
        >>> UtilCommunicator(Util()).all_reduce([1.5, -2.0])
        array([ 3., -4.])
    """

    authenticated: bool

    def __init__(self, util: Any, job: Job | None = None) -> None:
        if not callable(getattr(util, "all_reduce", None)):
            raise InvalidInputError(
                f"util is {util!r}, which has no all_reduce(input, mode); give paddle.distributed.fleet.util, or"
                " leave util out."
            )
        # Without a job: the object may have groups that no variable names.
        job = Job.from_environment(os.environ) if job is None else job_of(job)
        self._util = util
        self._star: SocketCommunicator | None = None
        self._place: tuple[int, int] | None = None  # rank and number of workers
        self.authenticated = _told_by(util, "_worker_num") == 1  # a single worker has no one to prove itself to
        if job.world_size > 1:
            self._star = SocketCommunicator(job, channel=f"util {next(_channels)}")
            self.authenticated = self._star.authenticated
            self._place = job.rank, job.world_size
        self._mirrored = False
        self._calls = 0
        self._busy = self._broken = ""

    @property
    def rank(self) -> int:  # type: ignore[override]
        """The rank of this worker; the first use is an exchange."""
        return (self._place or self._meet(Deadline(resolve_timeout())))[0]

    @property
    def world_size(self) -> int:  # type: ignore[override]
        """The number of workers; the first use is an exchange."""
        return (self._place or self._meet(Deadline(resolve_timeout())))[1]

    def __repr__(self) -> str:  # reading the rank may be a collective call
        return f"UtilCommunicator({self._util!r})"

    def among(self, group: Any) -> Communicator:
        """This communicator: util reaches all workers; `InvalidInputError` for a group."""
        if group is None:
            return self
        raise InvalidInputError(f"group is {group!r:.80}, but util reaches all workers; leave one of them out.")

    def _consult(
        self, call: str, decide: Decide, mine: Letter, deadline: Deadline, trouble: BaseException | None
    ) -> Letter:
        if self._busy:
            raise CommunicatorError(
                f"{self._busy} is not over: code that rank 0 runs inside it cannot call the other workers."
            )
        trouble = CommunicatorError(self._broken) if self._broken else trouble
        letter, sizes = _packed(Letter([call, mine.note, trouble and described(trouble)], mine.payload)), None
        if self._star is not None:
            arrival = json.dumps([len(letter), deadline.remaining, deadline.timeout]).encode()
            told = self._star.consult(call, _arrived, mine.note, arrival, timeout=deadline.left, trouble=trouble)
            sizes, remaining, timeout = told.note
            # the earliest deadline of all; workers send their remaining time before they wait for each other
            deadline = Deadline(timeout, min(remaining, deadline.remaining))
        elif self._broken:
            raise CommunicatorError(self._broken)
        self._calls += 1
        self._busy = f"exchange {self._calls} ({call})"
        try:
            (answer, problem), data = letter_in(self._exchanged(letter, sizes, decide, deadline))
        finally:
            self._busy = ""
        if problem is not None:
            raise named_error(*problem) from trouble
        return Letter(answer, data)

    def close(self) -> None:
        """Refuse all further calls; util itself stays usable."""
        self._broken = "this communicator is closed; make a new one on every worker."
        if self._star is not None:
            self._star.close()

    def _meet(self, deadline: Deadline) -> tuple[int, int]:
        """Find the number of workers and this one's rank; each draws a slot of a table."""
        draw = np.random.default_rng()
        slot, counts = _told_by(self._util, "_worker_index"), np.zeros(_SLOTS)
        for _ in range(_DRAWS):
            if not 0 <= slot < _SLOTS or counts[slot] > 1:
                slot = int(draw.choice(np.flatnonzero(counts != 1)))
            counts = self._sum(np.bincount([slot], minlength=_SLOTS), deadline)
            if counts.max() == 1:
                break
        workers = int(counts.sum())
        if counts[slot] not in (1, workers):
            raise CommunicatorError(f"the {workers} workers of util cannot be distinguished; leave util out.")
        # equal draws every time mean that there is no other worker: util is a mock that multiplies
        self._mirrored = bool(counts[slot] > 1)
        self._place = int(np.count_nonzero(counts[:slot])), workers
        self.authenticated = workers == 1
        return self._place

    def _exchanged(self, mine: bytes, sizes: list[int] | None, decide: Decide, deadline: Deadline) -> bytes:
        """Send a letter, and return the answer."""
        rank, workers = self._place or self._meet(deadline)
        if self._mirrored:
            return self._answer([mine] * workers, decide)[0]
        if sizes is None:
            own = np.zeros(workers, np.int64)
            own[rank] = len(mine)
            sizes = self._sum(own, deadline).tolist()
        piece = min(max(_PIECE, *sizes), 32 * _PIECE)
        # rank 0 has its own letter
        letters = self._added(mine if rank else b"", rank, [0, *sizes[1:]], deadline)
        answer, interrupted = self._answer([mine, *letters[1:]], decide) if rank == 0 else (b"", None)
        told = self._added(len(answer).to_bytes(8, "little") + answer[:piece], 0, [8 + piece], deadline)[0]
        length, told = int.from_bytes(told[:8], "little"), told[8:]
        if length > piece:
            told += self._added(answer[piece:], 0, [length - piece], deadline)[0]
        if interrupted is not None:
            raise interrupted
        return told[:length]

    def _answer(self, letters: Sequence[bytes], decide: Decide) -> tuple[bytes, BaseException | None]:
        """Rank 0's answer to the letters, and the error that it must raise once the others have it."""
        try:
            heads, payloads = zip(*read_each(letters, letter_in))
            calls, notes, troubles = zip(*heads)
            raise_trouble(troubles)
            decision = answered(decide, self._calls, calls, list(map(Letter, notes, payloads)))
            return _packed(Letter([decision.note, None], decision.payload)), None
        except Exception as error:
            return _packed(Letter([None, described(error)])), None
        except BaseException as error:  # Ctrl-C, sys.exit
            told = CommunicatorError(interruption(0, error, self._busy))
            return _packed(Letter([None, described(told)])), error

    def _added(self, mine: bytes, place: int, sizes: Sequence[int], deadline: Deadline) -> list[bytes]:
        """Sum the places; this worker puts its own numbers into its place, and zeros into the others."""
        ends = np.cumsum([-(-size // _BYTES_PER_INTEGER) for size in sizes])
        table = np.zeros((ends[-1], 8), np.uint8)
        padded = mine + b"\0" * (-len(mine) % _BYTES_PER_INTEGER)
        rows = np.frombuffer(padded, np.uint8).reshape(-1, _BYTES_PER_INTEGER)
        start = ends[place - 1] if place else 0
        table[start : start + len(rows), :_BYTES_PER_INTEGER] = rows
        sums = self._sum(table.view("<i8").reshape(-1), deadline).astype("<i8").view(np.uint8)
        parts = np.split(sums.reshape(-1, 8)[:, :_BYTES_PER_INTEGER], ends[:-1])
        return [part.tobytes()[:size] for part, size in zip(parts, sizes)]

    def _sum(self, numbers: np.ndarray, deadline: Deadline) -> np.ndarray:
        """One call of util, which has no deadline."""

        def work() -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the error says that Gloo is off
                answer = np.asarray(self._util.all_reduce([_ONE, *numbers.tolist()], "sum")).reshape(-1)
            if len(answer) != len(numbers) + 1:
                raise ValueError(f"it received {len(numbers) + 1} numbers and returned {len(answer)}")
            if int(answer[0]) % _ONE or answer[0] <= 0:
                raise ValueError(f"it does not add up whole numbers: every worker's {_ONE} became {answer[0]}")
            return answer.astype(np.int64)

        where = self._busy or "the count of the workers"

        def broken(what: str) -> str:
            self._broken = f"util.all_reduce {what} at {where}; util is unusable. Look at the workers' logs."
            return self._broken

        broken("was interrupted")
        try:
            sums: np.ndarray = run_until(work, deadline, margin(deadline.timeout), where)
        except DeadlineError:
            raise DeadlineError(broken(f"was not ready within {float(f'{deadline.timeout:.3g}'):g} s")) from None
        except Exception as error:
            raise CommunicatorError(broken(f"failed ({type(error).__name__}: {error})")) from error
        self._broken = ""
        workers = int(sums[0]) // _ONE
        expected = self._place[1] if self._place is not None else _told_by(self._util, "_worker_num")
        if expected > 1 and workers != expected:
            raise NoChannelError(
                f"util.all_reduce covers {workers} worker{'s' if workers != 1 else ''}, but "
                f"{'PADDLE_TRAINERS_NUM' if self._star is not None else 'their number'} is {expected}: the number "
                "would be local. fleetrun turns Paddle's Gloo off; leave util out, and fleetmetrics connects the "
                "workers itself, or start them with PADDLE_WITH_GLOO=1."
            )
        return sums[1:]


def _arrived(letters: Sequence[Letter]) -> Letter:
    sizes, remaining, timeouts = zip(*(json.loads(bytes(letter.payload)) for letter in letters))
    return Letter([sizes, *min(zip(remaining, timeouts))])


def _told_by(util: Any, name: str) -> int:
    """A number from the role maker of Paddle's util; -1 without one."""
    ask = getattr(getattr(util, "role_maker", None), name, None)
    number = ask() if callable(ask) else None
    return number if isinstance(number, int) else -1


def _packed(letter: Letter) -> bytes:
    return b"".join(written(letter))
