"""The workers behind an object with ``all_reduce(input, mode)``, where no launcher's variables name them.

It only sums lists of non-negative Python integers below 2**53, which Paddle's own object sums without loss. To gather
letters, every worker puts its own into its place of a table, and zeros into the places of the others: the sum has all
of them. In a launched job `choose` gives the job's communicator for ``util=`` instead.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from concurrent import futures
from typing import Any, Callable, Sequence

import numpy as np

from fleetmetrics.comm.communicator import Communicator
from fleetmetrics.comm.deadline import Deadline, margin, resolve_timeout
from fleetmetrics.comm.failures import described, named_error, raise_trouble
from fleetmetrics.comm.folds import answered
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.letters import letter_in, read_each, written
from fleetmetrics.errors import CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from fleetmetrics.serial.descriptions import Decide, Letter
from fleetmetrics.support.vocabulary import counted

__all__ = ["UtilCommunicator", "check_util", "check_workers", "through"]

# Each worker draws a slot of a table; workers that share a slot draw again, at most this number of times.
_SLOTS, _DRAWS = 2**13, 32
# Each worker adds this number: a util that rounds to float32 loses the 1, and the sum over 8,191 workers stays below
# 2**53.
_ONE = 2**40 + 1
#: The attribute of util that has its communicator.
_KEPT = "_fleetmetrics_communicator"


class UtilCommunicator(Communicator):
    """The workers behind an object with Paddle's ``all_reduce(input, mode)``.

    All results are exact, as with the other communicators. The object's role maker, or random numbers, distinguish the
    workers.

    Args:
        util: for example ``fleet.util``.

    Raises:
        InvalidInputError: util has no callable ``all_reduce``.

    Examples:
        >>> class Util:
        ...     def all_reduce(self, input, mode):
        ...         return np.array(input) * 2
        >>> UtilCommunicator(Util()).all_reduce([1.5, -2.0])
        array([ 3., -4.])
    """

    def __init__(self, util: Any) -> None:
        check_util(util)
        self.util = util
        self._workers = max(_told_by(util, "_worker_num", 0), Job.from_environment(os.environ).world_size)
        self._rank, self._mirrored = -1, False  # not known yet
        self._calls = 0
        self._busy = self._broken = ""

    @property
    def rank(self) -> int:  # type: ignore[override]
        """The rank of this worker; the first use is an exchange."""
        self._meet(Deadline(resolve_timeout()))
        return self._rank

    @property
    def world_size(self) -> int:  # type: ignore[override]
        """The number of workers; the first use is an exchange."""
        self._meet(Deadline(resolve_timeout()))
        return self._workers

    @property
    def authenticated(self) -> bool:  # type: ignore[override]
        """Whether there is a single worker, which has no one to prove itself to; the first use is an exchange."""
        return self.world_size == 1

    def __repr__(self) -> str:  # reading the rank may be a collective call
        return f"UtilCommunicator({self.util!r})"

    def among(self, group: Any) -> Communicator:
        """This communicator: util reaches all workers; `InvalidInputError` for a group."""
        if group is None:
            return self
        raise InvalidInputError(f"group is {group!r:.80}, but util reaches all workers; leave one of them out")

    def _consult(
        self, call: str, decide: Decide, mine: Letter, deadline: Deadline, trouble: BaseException | None
    ) -> Letter:
        if self._busy:
            raise CommunicatorError(
                f"{self._busy} is not over: code that rank 0 runs inside it cannot call the other workers"
            )
        if self._broken:
            raise trouble or CommunicatorError(self._broken)
        self._calls += 1
        self._busy = f"exchange {self._calls} ({call})"
        answer, interruption = b"", None
        try:
            self._meet(deadline)
            note = [call, mine.note, trouble and described(trouble)]
            letters = self._bytes_of_all(_packed(note, mine.payload), deadline)
            if self._rank == 0:
                answer, interruption = self._answer(letters, decide)
            answer = self._bytes_of_all(answer, deadline)[0]
        finally:
            self._busy = ""
        if interruption is not None:
            raise interruption
        (note, problem), payload = letter_in(answer)
        if problem is not None:
            raise named_error(*problem) from trouble
        return Letter(note, payload)

    def close(self) -> None:
        """Refuse all further calls; util itself stays usable."""
        self._broken = "this communicator is closed; make a new one on every worker"

    def _meet(self, deadline: Deadline) -> None:
        """Find the number of workers and this one's rank, once; each draws a slot of a table."""
        if self._rank >= 0:
            return
        draw = np.random.default_rng()
        slot, counts = _told_by(self.util, "_worker_index", -1), np.zeros(_SLOTS)
        for _ in range(_DRAWS):
            if not 0 <= slot < _SLOTS or counts[slot] > 1:
                slot = int(draw.choice(np.flatnonzero(counts != 1)))
            counts = self._sum(np.bincount([slot], minlength=_SLOTS), deadline)
            if counts.max() == 1:
                break
        workers = int(counts.sum())
        if counts[slot] not in (1, workers):
            raise CommunicatorError(f"the {workers} workers of util cannot be distinguished; leave util out")
        # equal draws every time mean that there is no other worker: util is a mock that multiplies
        self._mirrored = bool(counts[slot] > 1)
        self._rank, self._workers = int(np.count_nonzero(counts[:slot])), workers

    def _answer(self, letters: Sequence[bytes], decide: Decide) -> tuple[bytes, BaseException | None]:
        """Rank 0's answer to the letters, and the interruption that it must raise once the others have it."""
        try:
            heads, payloads = zip(*read_each(letters, letter_in))
            calls, notes, troubles = zip(*heads)
            raise_trouble(troubles)
            decision = answered(decide, self._calls, calls, list(map(Letter, notes, payloads)))
            return _packed([decision.note, None], decision.payload), None
        except Exception as error:
            return _packed([None, described(error)]), None
        except BaseException as error:  # Ctrl-C, sys.exit
            shared = CommunicatorError(f"rank 0 was interrupted ({type(error).__name__}) at {self._busy}")
            return _packed([None, described(shared)]), error

    def _bytes_of_all(self, mine: bytes, deadline: Deadline) -> list[bytes]:
        """The bytes of all workers, by two sums: of their sizes, and of a table in which each has a place."""
        if self._mirrored:
            return [mine] * self._workers
        words = np.frombuffer(mine, "<u4")  # a letter's bytes are a multiple of 16
        own = np.zeros(self._workers, np.int64)
        own[self._rank] = len(words)
        ends = np.cumsum(self._sum(own, deadline))
        table = np.zeros(ends[-1], np.int64)
        table[ends[self._rank] - len(words) : ends[self._rank]] = words
        return [part.tobytes() for part in np.split(self._sum(table, deadline).astype("<u4"), ends[:-1])]

    def _sum(self, numbers: np.ndarray, deadline: Deadline) -> np.ndarray:
        """One call of util, which has no deadline."""

        def work() -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the error says that Gloo is off
                answer = np.asarray(self.util.all_reduce([_ONE, *numbers.tolist()], "sum")).reshape(-1)
            if len(answer) != len(numbers) + 1:
                raise ValueError(f"it received {len(numbers) + 1} numbers and returned {len(answer)}")
            if int(answer[0]) % _ONE or answer[0] <= 0:
                raise ValueError(f"it does not add up whole numbers: every worker's {_ONE} became {answer[0]}")
            return answer.astype(np.int64)

        where = self._busy or "the count of the workers"

        def broken(what: str) -> str:
            self._broken = f"util.all_reduce {what} at {where}; util is unusable. Look at the workers' logs"
            return self._broken

        broken("was interrupted")
        try:
            sums: np.ndarray = _run_until(work, max(0.0, deadline.remaining - margin(deadline.timeout)))
        except DeadlineError:
            raise DeadlineError(broken(f"was not ready within {float(f'{deadline.timeout:.3g}'):g} s")) from None
        except Exception as error:
            raise CommunicatorError(broken(f"failed ({type(error).__name__}: {error})")) from error
        self._broken = ""
        workers, expected = int(sums[0]) // _ONE, self._workers
        if expected > 1 and workers != expected:
            raise NoChannelError(
                f"util.all_reduce covers {counted(workers, 'workers')}, but there are {expected}: the number would be "
                "local. fleetrun turns Paddle's Gloo off; leave util out, and fleetmetrics connects the workers "
                "itself, or start them with PADDLE_WITH_GLOO=1"
            )
        return sums[1:]


def _run_until(work: Callable[[], Any], seconds: float) -> Any:
    """Run a function that has no deadline in a thread for which the process does not wait at its end."""
    outcome: futures.Future[Any] = futures.Future()

    def target() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=target, daemon=True, name="fleetmetrics").start()
    if not futures.wait([outcome], seconds).done:
        raise DeadlineError(f"it was not ready within {seconds:g} s")
    return outcome.result()


def through(util: Any) -> UtilCommunicator:
    """The communicator through an object's ``all_reduce``, the same one at every call if the object can keep it."""
    patch = sys.modules.get("fleetmetrics.integrations.patch")
    patched = patch is not None and patch.answers_util()
    if getattr(util, "role_maker", util) is None and not patched:
        raise InvalidInputError("util is fleet.util before fleet.init(); call that first, or leave util out")
    kept: UtilCommunicator | None = getattr(util, _KEPT, None)
    if kept is None or kept.util is not util:  # a copy has the attributes of its original
        kept = UtilCommunicator(util)
        with contextlib.suppress(AttributeError, TypeError):
            setattr(util, _KEPT, kept)
    return kept


def check_util(util: Any) -> None:
    """Raise `InvalidInputError` unless this is an object with ``all_reduce``."""
    if not callable(getattr(util, "all_reduce", None)):
        raise InvalidInputError(
            f"util is {util!r:.80}, which has no all_reduce(input, mode); give paddle.distributed.fleet.util, or"
            " leave util out"
        )


def check_workers(util: Any, workers: int) -> None:
    """Raise `NoChannelError` if the role maker of Paddle's util knows another number of workers than the job has."""
    known = _told_by(util, "_worker_num", 0)
    if known not in (0, workers):
        raise NoChannelError(
            f"util has {counted(known, 'workers')} by its role maker, but this job has {workers}: leave util out for "
            "the number over the job, or give fleetmetrics.comm.UtilCommunicator(util)"
        )


def _told_by(util: Any, name: str, otherwise: int) -> int:
    ask = getattr(getattr(util, "role_maker", None), name, None)
    number = ask() if callable(ask) else None
    return number if isinstance(number, int) else otherwise


def _packed(note: Any, payload: Any = b"") -> bytes:
    return b"".join(written(Letter(note, payload)))
