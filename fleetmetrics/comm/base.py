"""What every communicator can do: rank, world size, and five collective operations."""

from __future__ import annotations

import json
import math
import os
import pickle
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm.letters import Decide, Letter, joined, read_letters, written
from fleetmetrics.comm.trouble import described, named_error, raise_trouble
from fleetmetrics.comm.wire import Buffer, Payload
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers import REDUCTIONS, widen

__all__ = ["DEFAULT_TIMEOUT", "SECONDS_FOR_TROUBLE", "Block", "Communicator", "Deadline", "resolve_timeout"]

# As long as torch.distributed waits by default: longer than any evaluation skew, shorter than a night.
DEFAULT_TIMEOUT = 1800.0
#: What a worker waits that was given no valid timeout, until the others have heard of it.
SECONDS_FOR_TROUBLE = 10.0

_STATE_DTYPES = (np.dtype(np.int64), np.dtype(np.float64))
_Self = TypeVar("_Self", bound="Communicator")


@dataclass(frozen=True)
class Block:
    """One state on its way through the channel.

    Args:
        name: how errors call it.
        reduction: "sum", "max" or "min".
        array: int64 or float64, of any shape.

    Raises:
        InvalidInputError: for another reduction or dtype.

    Examples:
        >>> Block("correct", "sum", np.array([3])).name
        'correct'
    """

    name: str
    reduction: str
    array: np.ndarray

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTIONS:
            allowed = ", ".join(REDUCTIONS)
            raise InvalidInputError(f"state {self.name!r}: reduction is {self.reduction!r}; allowed are {allowed}.")
        if not isinstance(self.array, np.ndarray) or self.array.dtype not in _STATE_DTYPES:
            kind = getattr(self.array, "dtype", type(self.array).__name__)
            raise InvalidInputError(f"state {self.name!r} is {kind}; a state is a NumPy array, int64 or float64.")


class Deadline:
    """A moment until which a call may wait.

    Args:
        timeout: seconds from now.
    """

    __slots__ = ("end", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.end = time.monotonic() + timeout

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.end - time.monotonic())


def resolve_timeout(timeout: float | None = None) -> float:
    """Return the seconds to wait: the argument, else FLEETMETRICS_TIMEOUT, else half an hour.

    Args:
        timeout: seconds, or None.

    Returns:
        A positive, finite number of seconds.

    Raises:
        InvalidInputError: if the argument or the environment variable is not such a number.

    Examples:
        >>> resolve_timeout(5)
        5.0
    """
    source, value = "timeout", timeout
    if timeout is None:
        text = os.environ.get("FLEETMETRICS_TIMEOUT")
        if text is None:
            return DEFAULT_TIMEOUT
        source, value = "the environment variable FLEETMETRICS_TIMEOUT", text  # type: ignore[assignment]
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(value, bool) or not 0 < seconds < math.inf:
        raise InvalidInputError(f"{source} is {value!r}; it must be a number of seconds greater than 0.")
    return seconds


class Communicator(ABC):
    """The workers' channel.

    Every operation is collective: each worker of the job calls the same one in the same order. All of them get
    the same result, or all raise the same error before the deadline. One thread at a time may use it.
    """

    rank: int
    world_size: int
    #: Whether `shuffle` takes a direct way, and not that through rank 0.
    spreads = False

    @abstractmethod
    def reduce(
        self,
        call: str,
        blocks: Sequence[Block],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Reduce many states in one exchange.

        Args:
            call: what is computed, the same on every worker; errors quote it.
            blocks: the states; names, reductions and shapes must be the same on every worker.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.
            trouble: what went wrong here before the exchange; then every worker raises it.

        Returns:
            New arrays in the order of the blocks; float64 where any worker's block is.

        Raises:
            AgreementError: if the workers' calls or blocks differ.
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.
            IntegerOverflowError: if a sum of integers does not fit into 64 bits.
        """

    @abstractmethod
    def all_gather(self, array: Any, *, timeout: float | None = None) -> list[np.ndarray]:
        """Give every worker's array to every worker.

        Args:
            array: numbers, booleans, or bytes or text of fixed width; lengths of the first axis may differ by rank.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

        Returns:
            The arrays by rank, of one dtype: the one to which NumPy promotes the workers' dtypes.

        Raises:
            AgreementError: if the dtypes have nothing in common, or the shapes beyond the first axis differ.
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.
        """

    @abstractmethod
    def broadcast(self, array: Any, source: int = 0, *, timeout: float | None = None) -> np.ndarray:
        """Give one worker's array to every worker.

        Args:
            array: what to send; looked at on the source only.
            source: the rank that sends.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

        Returns:
            A new array.

        Raises:
            InvalidInputError: if source is no rank.
            AgreementError: if the workers name different sources.
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.
        """

    @abstractmethod
    def close(self) -> None:
        """Give the channel back; a second call does nothing."""

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
        """Bring something to rank 0, and hear what it makes of everybody's.

        Only rank 0 gets to see what the others bring. This one is made of `all_gather` and `broadcast`, for
        communicators that have nothing better.

        Args:
            call: what is done, the same on every worker; errors quote it.
            decide: makes the answer from the workers' letters; looked at on rank 0 only.
            note: a description, fit for JSON.
            payload: bytes, in one buffer or several.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.
            trouble: what went wrong here before; then every worker raises it.

        Returns:
            The answer, the same on every worker.

        Raises:
            FleetMetricsError: the trouble of a worker, or what ``decide`` raised on rank 0.
            AgreementError: if the workers' calls differ.
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.

        Examples:
            >>> from fleetmetrics.comm import LocalCommunicator
            >>> LocalCommunicator().consult("count", lambda letters: Letter(sum(each.note for each in letters)), 5)
            Letter(note=5, payload=b'')
        """
        deadline = Deadline(resolve_timeout(timeout))
        header = written(call, [note, None if trouble is None else described(trouble)])
        headers = self.all_gather(_as_bytes(header), timeout=deadline.remaining)
        payloads = self.all_gather(_as_bytes(joined(payload)), timeout=deadline.remaining)
        answer: Any = [None, None]
        data: Any = b""
        if self.rank == 0:
            try:
                letters = read_letters([each.tobytes() for each in headers], [each.data for each in payloads])
                raise_trouble([letter.note[1] for letter in letters])
                decision = decide([Letter(letter.note[0], letter.payload) for letter in letters])
                answer, data = [decision.note, None], decision.payload
            except Exception as error:  # the others must hear of it, whatever it is
                answer = [None, described(error)]
        told = self.broadcast(_as_bytes(json.dumps(answer).encode()), timeout=deadline.remaining)
        data = self.broadcast(_as_bytes(joined(data)), timeout=deadline.remaining)
        note, problem = json.loads(told.tobytes())
        if problem is not None:
            raise named_error(*problem) from trouble
        return Letter(note, data.data)

    def shuffle(
        self,
        call: str,
        letters: Sequence[Letter],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[Letter]:
        """Give each worker what every worker has for it; here through rank 0, which every worker hears.

        Args:
            call: what is done, the same on every worker; errors quote it.
            letters: for each worker, by rank.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.
            trouble: what went wrong here before; then every worker raises it.

        Returns:
            The letters for this worker, by the rank that sent each.

        Raises:
            AgreementError, DeadlineError, CommunicatorError: as in ``consult``.

        Examples:
            >>> from fleetmetrics.comm import LocalCommunicator
            >>> LocalCommunicator().shuffle("records", [Letter("for rank 0")])
            [Letter(note='for rank 0', payload=b'')]
        """
        sent = [joined(letter.payload) for letter in letters]
        note = [[letter.note, len(data)] for letter, data in zip(letters, sent)]

        def decide(brought: Sequence[Letter]) -> Letter:
            return Letter([letter.note for letter in brought], [joined(letter.payload) for letter in brought])

        told = self.consult(call, decide, note, sent, timeout=timeout, trouble=trouble)
        found, start = [], 0
        for row in told.note:
            for rank, (note, size) in enumerate(row):
                if rank == self.rank:
                    found.append(Letter(note, told.payload[start : start + size]))
                start += size
        return found

    def all_reduce(self, array: Any, reduction: str = "sum", *, timeout: float | None = None) -> np.ndarray:
        """Reduce one array over the workers.

        Args:
            array: booleans, integers (widened to int64) or floats (widened to float64).
            reduction: "sum", "max" or "min".
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

        Returns:
            A new array, int64 or float64.

        Raises:
            InvalidInputError: for another dtype or reduction, on every worker.
            AgreementError, DeadlineError, CommunicatorError, IntegerOverflowError: as in ``reduce``.

        Examples:
            >>> from fleetmetrics.comm import LocalCommunicator
            >>> LocalCommunicator().all_reduce([1, 2, 3])
            array([1, 2, 3])
        """
        return self.reduce_made(
            "all_reduce", lambda: [Block("array", reduction, widen(array, "array"))], timeout=timeout
        )[0]

    def reduce_made(
        self, call: str, make: Callable[[], Sequence[Block]], *, timeout: float | None = None
    ) -> list[np.ndarray]:
        """Reduce states that are made here: a worker that cannot make its own still takes part, with its error.

        Args:
            call: as in ``reduce``, also for what is returned and raised.
            make: returns the states; whatever it raises is raised on every worker.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.
        """
        blocks: Sequence[Block] = []
        trouble: Exception | None = None
        try:
            blocks = make()
        except Exception as error:  # the others must hear of it, whatever it is
            trouble = error
        return self.reduce(call, blocks, timeout=timeout, trouble=trouble)

    @property
    def is_initialized(self) -> bool:
        """Whether there are several workers; MMEval's name for it."""
        return self.world_size > 1

    def all_gather_object(self, obj: Any, *, timeout: float | None = None) -> list[Any]:
        """Give every worker's object to every worker, pickled.

        Args:
            obj: whatever can be pickled.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

        Returns:
            The objects by rank.

        Raises:
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.

        Examples:
            >>> from fleetmetrics.comm import LocalCommunicator
            >>> LocalCommunicator().all_gather_object({"a": 1})
            [{'a': 1}]
        """
        return self._exchange_objects("all_gather_object", obj, range(self.world_size), timeout)

    def broadcast_object(self, obj: Any, src: int = 0, *, timeout: float | None = None) -> Any:
        """Give one worker's object to every worker, pickled.

        Args:
            obj: whatever can be pickled; looked at on the source only.
            src: the rank that sends.
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

        Returns:
            The object.

        Raises:
            InvalidInputError: if src is no rank.
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.
        """
        return self._exchange_objects(f"broadcast_object from rank {src}", obj, [src], timeout)[0]

    def _exchange_objects(self, call: str, obj: Any, ranks: Sequence[int], timeout: float | None) -> list[Any]:
        """Give the objects of these ranks to every worker."""
        data, trouble = b"", None
        try:
            if not set(ranks) <= set(range(self.world_size)):
                raise InvalidInputError(f"src is {ranks[0]!r}; it must be a rank from 0 to {self.world_size - 1}.")
            data = pickle.dumps(obj) if self.rank in ranks else b""
        except Exception as error:  # the others must hear of it, whatever it is
            trouble = error

        def decide(letters: Sequence[Letter]) -> Letter:
            sent = [joined(letters[rank].payload) for rank in ranks]
            return Letter([len(each) for each in sent], sent)

        answer = self.consult(call, decide, payload=data, timeout=timeout, trouble=trouble)
        ends = np.cumsum(answer.note)
        return [pickle.loads(answer.payload[end - size : end]) for end, size in zip(ends, answer.note)]

    def barrier(self, *, timeout: float | None = None) -> None:
        """Wait until every worker is here.

        Args:
            timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

        Raises:
            DeadlineError: if a worker does not arrive in time.
            CommunicatorError: if the channel is broken.
        """
        self.reduce("barrier", [], timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank={self.rank}, world_size={self.world_size})"

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_bytes(data: Buffer) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
