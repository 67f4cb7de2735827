"""The communicator behind ``util=fleet.util``: any object with ``all_reduce(input, mode)``, and nothing else.

It is given lists of non-negative Python integers below 2**53, and only to sum: that much Paddle's own does without
loss. A consultation takes three sums. The first tells everybody how long each worker's letter is; in the second the
letters lie one behind the other, where each worker adds zeros to the others'; the third brings rank 0's answer.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import warnings
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm.communicator import Communicator, Decide, Letter
from fleetmetrics.comm.deadline import Deadline, began, margin, resolve_timeout, run_until
from fleetmetrics.comm.failures import by_rank, described, named_error, raise_trouble, read_each
from fleetmetrics.comm.frames import Payload, joined
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.sockets import SocketCommunicator
from fleetmetrics.errors import AgreementError, CommunicatorError, DeadlineError, InvalidInputError, NoChannelError

__all__ = ["UtilCommunicator"]

WORKER_LIMIT = 2**12 - 1
# Each worker takes one slot of a table; so many times the workers draw until no two share one.
_SLOTS, _DRAWS = 2**13, 32
# What a worker brings to be counted: a util that rounds to float32 loses the 1.
_ONE = 2**40 + 1
_BYTES_PER_INTEGER = 6
_LENGTHS = struct.Struct("<QQ")  # of the JSON and of the payload
# An answer that is no longer than this, or than the longest letter, is sent at once.
_FIRST_PIECE = 2**10
_channels = itertools.count(1)


class UtilCommunicator(Communicator):
    """The workers behind an object with Paddle's ``all_reduce(input, mode)``.

    Everything is exact, as with the other communicators. If the launcher's environment speaks of several workers, they
    first meet over sockets, so that one that is missing is named before the deadline; else they are told apart by
    the object's role maker or by lot.

    Args:
        util: for example ``fleet.util``.
        job: where this process stands; None to read the launcher's environment.

    Raises:
        InvalidInputError: if util has no callable ``all_reduce``.

    Examples:
        >>> class Util:
        ...     def all_reduce(self, input, mode):
        ...         return np.array(input) * 2
        >>> UtilCommunicator(Util()).all_reduce([1.5, -2.0])
        array([ 3., -4.])
    """

    def __init__(self, util: Any, job: Job | None = None) -> None:
        if not callable(getattr(util, "all_reduce", None)):
            raise InvalidInputError(
                f"util is {util!r}, which has no all_reduce(input, mode); give paddle.distributed.fleet.util, or"
                " leave util out."
            )
        if job is None:
            job = Job.from_environment() if os.environ.get("PADDLE_TRAINERS_NUM") else Job()
        self._util = util
        self._star: SocketCommunicator | None = None
        self._place: tuple[int, int] | None = None  # rank and number of workers
        if job.world_size > 1:
            self._star = SocketCommunicator(job, channel=f"util {next(_channels)}")
            self.authenticated = self._star.authenticated
            self._place = job.rank, job.world_size
        self._mirrored = False
        self._calls = 0
        self._busy = self._broken = ""

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of this worker; asks the others the first time."""
        return (self._place or self._meet(Deadline(resolve_timeout())))[0]

    @property
    def world_size(self) -> int:  # type: ignore[override]
        """Number of workers; asks them the first time."""
        return (self._place or self._meet(Deadline(resolve_timeout())))[1]

    def __repr__(self) -> str:  # to ask for the rank may be a collective call
        return f"UtilCommunicator({self._util!r})"

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
        if self._busy:
            raise CommunicatorError(
                f"{self._busy} is not over: what runs inside of it, such as compute_metric, runs on rank 0 alone and"
                " cannot call the other workers."
            )
        deadline, trouble = began(timeout, trouble)
        if self._broken:
            trouble = CommunicatorError(self._broken)
        if self._star is not None:
            self._star.consult(call, lambda letters: Letter(None), timeout=timeout, trouble=trouble)
        if self._broken:
            raise CommunicatorError(self._broken)
        self._calls += 1
        self._busy = f"exchange {self._calls} ({call})"
        try:
            mine = _packed([call, note, trouble and described(trouble)], payload)
            (told, problem), data = _unpacked(self._exchanged(mine, decide, deadline))
        finally:
            self._busy = ""
        if problem is not None:
            raise named_error(*problem) from trouble
        return Letter(told, data)

    def close(self) -> None:
        """Refuse all further calls; util itself stays as it is."""
        self._broken = "this communicator is closed; make a new one on every worker."
        if self._star is not None:
            self._star.close()

    def _meet(self, deadline: Deadline) -> tuple[int, int]:
        """Find out how many workers there are and which of them this is: each takes a slot of a table."""
        draw = np.random.default_rng()
        slot, counts = _told_by(self._util, "_worker_index"), np.zeros(1)
        slot = slot if 0 <= slot < _SLOTS else int(draw.integers(_SLOTS))
        for _ in range(_DRAWS):
            counts = np.array(self._sum(np.bincount([slot], minlength=_SLOTS).tolist(), deadline))
            self._check_count(int(counts.sum()))
            if counts.max() == 1:
                break
            if counts[slot] > 1:
                slot = int(draw.choice(np.flatnonzero(counts == 0)))
        # whoever draws the same every time is no other worker: util is an imitation that multiplies
        self._mirrored = bool(counts.max() > 1)
        self._place = np.count_nonzero(counts[:slot]), int(counts.sum())
        self.authenticated = self._place[1] == 1
        return self._place

    def _check_count(self, workers: int) -> None:
        known = "PADDLE_TRAINERS_NUM" if self._star is not None else "the number of workers of its role maker"
        expected = self._place[1] if self._place is not None else _told_by(self._util, "_worker_num")
        if expected > 1 and workers != expected:
            raise NoChannelError(
                f"util.all_reduce answers for {workers} worker{'s' if workers != 1 else ''}, but {known} is"
                f" {expected}: the number would be local. fleetrun turns Paddle's Gloo off; leave util out, and"
                " fleetmetrics connects the workers itself, or start them with PADDLE_WITH_GLOO=1."
            )
        if not 0 < workers <= WORKER_LIMIT:
            raise CommunicatorError(f"util.all_reduce counts {workers} workers; 1 to {WORKER_LIMIT} are possible.")

    def _exchanged(self, mine: bytes, decide: Decide, deadline: Deadline) -> bytes:
        """Bring a letter, and return the answer."""
        rank, workers = self._place or self._meet(deadline)
        if self._mirrored:
            return self._answer([mine] * workers, decide)
        count, *sizes = self._sum([_ONE, *(len(mine) if i == rank else 0 for i in range(workers))], deadline)
        if count % _ONE:
            raise CommunicatorError(f"util.all_reduce does not add up whole numbers: workers' {_ONE} make {count}.")
        self._check_count(count // _ONE)
        piece = min(max(_FIRST_PIECE, *sizes), 64 * _FIRST_PIECE)
        sizes[0] = 0  # rank 0 has its own letter
        letters = self._laid_out(mine if rank else b"", rank, sizes, deadline)
        answer = self._answer([mine, *letters[1:]], decide) if rank == 0 else b""
        told = self._laid_out(answer[:piece], 0, [piece], deadline)[0]
        rest = _LENGTHS.size + sum(_LENGTHS.unpack_from(told)) - piece
        return told + self._laid_out(answer[piece:], 0, [rest], deadline)[0] if rest > 0 else told

    def _answer(self, letters: Sequence[bytes], decide: Decide) -> bytes:
        """What rank 0 makes of the letters; the others must hear of an error, whatever it is."""
        try:
            heads, payloads = zip(*read_each(letters, _unpacked))
            calls, notes, troubles = zip(*heads)
            raise_trouble(troubles)
            if len(set(calls)) > 1:
                raise AgreementError(f"the workers disagree at exchange {self._calls}: {by_rank(calls)}.")
            decision = decide([Letter(note, payload) for note, payload in zip(notes, payloads)])
            return _packed([decision.note, None], decision.payload)
        except Exception as error:
            return _packed([None, described(error)])

    def _laid_out(self, mine: bytes, place: int, sizes: Sequence[int], deadline: Deadline) -> list[bytes]:
        """Give everybody what lies at each place; this worker puts its own at one, zeros at the others."""
        ends = np.cumsum([-(-size // _BYTES_PER_INTEGER) for size in sizes])
        table = np.zeros((ends[-1], _BYTES_PER_INTEGER), np.uint8)
        start = _BYTES_PER_INTEGER * (ends[place - 1] if place else 0)
        table.reshape(-1)[start : start + len(mine)] = np.frombuffer(mine, np.uint8)
        numbers = np.pad(table, ((0, 0), (0, 8 - _BYTES_PER_INTEGER))).view("<i8").reshape(-1).tolist()
        sums = np.array(self._sum(numbers, deadline) if numbers else [], "<i8")
        parts = np.split(sums.view(np.uint8).reshape(-1, 8)[:, :_BYTES_PER_INTEGER], ends[:-1])
        return [part.tobytes()[:size] for part, size in zip(parts, sizes)]

    def _sum(self, numbers: list[int], deadline: Deadline) -> list[int]:
        """One call of util, which knows no deadline of its own."""

        def work() -> list[int]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that Gloo is off is said in the error
                answer = np.asarray(self._util.all_reduce(numbers, "sum")).reshape(-1)
            if len(answer) != len(numbers):
                raise ValueError(f"it took {len(numbers)} numbers and gave back {len(answer)}")
            return [int(number) for number in answer.tolist()]

        self._broken = f"util.all_reduce was interrupted at {self._busy}."
        try:
            result: list[int] = run_until(work, deadline.remaining - margin(deadline.timeout), "")
        except DeadlineError:
            seconds = float(f"{deadline.timeout:.3g}")
            text = f"util.all_reduce was not ready within {seconds:g} s at {self._busy}: look at the workers' logs."
            self._broken = f"util is of no more use since an earlier call: {text}"
            raise DeadlineError(text) from None
        except Exception as error:
            self._broken = f"util.all_reduce failed at {self._busy}: {type(error).__name__}: {error}"
            raise CommunicatorError(self._broken) from error
        self._broken = ""
        return result


def _told_by(util: Any, name: str) -> int:
    """What the role maker of Paddle's util says of the workers; -1 if nothing."""
    ask = getattr(getattr(util, "role_maker", None), name, None)
    number = ask() if callable(ask) else None
    return number if isinstance(number, int) else -1


def _packed(head: list[Any], payload: Payload = b"") -> bytes:
    text, data = json.dumps(head, separators=(",", ":")).encode(), joined(payload)
    return b"".join([_LENGTHS.pack(len(text), len(data)), text, data])


def _unpacked(letter: bytes) -> tuple[Any, bytearray]:
    length, size = _LENGTHS.unpack_from(letter)
    start = _LENGTHS.size + length
    return json.loads(letter[_LENGTHS.size : start]), bytearray(letter[start : start + size])
