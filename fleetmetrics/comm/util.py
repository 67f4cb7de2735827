"""The communicator behind ``util=fleet.util``: any object with ``all_reduce(input, mode)``, and nothing else.

Only lists of non-negative Python integers below 2**53 are given to it, which is what Paddle's own reduces
without loss. The first reduction of every exchange is a fixed-length agreement: how many workers there are,
whether they call the same, and which part of the floating-point range they need.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm import fixedpoint as fp
from fleetmetrics.comm.base import Block, Deadline, resolve_timeout
from fleetmetrics.comm.columns import as_column, by_rank, decode, encode, join, ordinal
from fleetmetrics.comm.job import JobCommunicator
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.letters import CONSULTS
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.member import Answer, margin, trouble_frame, troubles_in
from fleetmetrics.comm.packing import Layout, agree, describe, layout_of
from fleetmetrics.comm.patience import run_until
from fleetmetrics.comm.trouble import raise_trouble
from fleetmetrics.comm.wire import ARRIVAL, Frame
from fleetmetrics.errors import (
    AgreementError,
    CommunicatorError,
    DeadlineError,
    IntegerOverflowError,
    InvalidInputError,
    NoChannelError,
)
from fleetmetrics.numbers import combine

__all__ = ["UtilCommunicator"]

# Digests of 20 bits each.
_CALL_DIGESTS, _DTYPE_DIGESTS = 4, 2
_channels = itertools.count(1)


class UtilCommunicator(JobCommunicator):
    """The workers behind an object with Paddle's ``all_reduce(input, mode)``.

    Sums, maxima and minima are exact, as with the other communicators. ``all_gather`` and ``broadcast`` need
    the ranks, from the object's role maker or from the launcher's environment. If the launcher's environment
    is there, the workers first meet over sockets, so that one that is missing is named before the deadline.

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
        self._util = util
        if job is None and not os.environ.get("PADDLE_TRAINERS_NUM"):
            job = Job()
        self._job = job if job is not None else Job.from_environment()
        several = self._job.world_size > 1
        super().__init__(Meeting(self._job, f"util {next(_channels)}") if several else None)
        self._workers = 0
        self._broken = ""

    @property
    def world_size(self) -> int:  # type: ignore[override]
        """Number of workers; asks them the first time."""
        if self._workers == 0:
            deadline = Deadline(resolve_timeout())
            self._arrive("world_size", b"[]", deadline, None)
            self._count(int(self._reduce([1], "sum", deadline)[0]))
        return self._workers

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of this worker."""
        if self.world_size == 1:
            return 0
        known = self._known_rank()
        if known is None:
            raise CommunicatorError(
                f"util has {self._workers} workers, and does not say which of them this is. Start the workers through"
                " fleetrun, or leave util out."
            )
        return known

    def __repr__(self) -> str:  # to ask for the rank would be a collective call
        return f"UtilCommunicator({self._util!r})"

    def reduce(
        self,
        call: str,
        blocks: Sequence[Block],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Reduce many states in at most five reductions, two in the usual case; see `Communicator`."""
        deadline, trouble = self._begin(timeout, trouble)
        layout = describe(call, blocks)
        self._arrive(call, layout.header, deadline, trouble)
        arrays = [block.array.reshape(-1) for block in blocks]
        same_dtypes, specials, used = self._agree(layout, arrays, trouble, deadline)
        dtypes = list(layout.dtypes)
        if not same_dtypes:
            floats = self._reduce([int(dtype == "float64") for dtype in dtypes], "sum", deadline)
            dtypes = ["float64" if count else "int64" for count in floats]
            arrays = [array.astype(dtype, copy=False) for array, dtype in zip(arrays, dtypes)]
            used[list(fp.INTEGER_WINDOW)] = True
        results: dict[int, np.ndarray] = {}
        sums = [i for i, how in enumerate(layout.reductions) if how == "sum"]
        results.update(zip(sums, self._sums(layout, sums, arrays, specials, used, deadline)))
        extremes = [i for i, how in enumerate(layout.reductions) if how in ("max", "min")]
        results.update(zip(extremes, self._extremes(layout, extremes, arrays, deadline)))
        for i in set(range(len(arrays))) - set(results):
            results[i] = combine(layout.reductions[i], self._gathered(arrays[i], deadline))
        return [results[i].reshape(shape) for i, shape in enumerate(layout.shapes)]

    def close(self) -> None:
        """Refuse all further calls; util itself stays as it is."""
        self._broken = "this communicator is closed; make a new one on every worker."
        if self._meeting is not None:
            self._meeting.close()

    # Meeting and agreeing

    def _begin(self, timeout: float | None, trouble: BaseException | None) -> tuple[Deadline, BaseException | None]:
        if self._broken:
            raise CommunicatorError(self._broken)
        return super()._begin(timeout, trouble)

    def _arrive(self, call: str, header: bytes, deadline: Deadline, trouble: BaseException | None) -> None:
        if self._meeting is not None:
            self._meeting.exchange(self._label(call), self._compare, deadline, header=header, trouble=trouble)

    def _compare(self, frames: Sequence[Frame]) -> Answer:
        headers = [json.loads(frame.header) for frame in frames]
        if any(frame.note == CONSULTS for frame in frames):
            calls = by_rank(header[0] if header else "world_size" for header in headers)
            raise AgreementError(f"the workers disagree at their {ordinal(self._number)} exchange: {calls}.")
        if all(headers):
            agree([layout_of(frame.header) for frame in frames], self._number)
        elif any(headers):
            raise AgreementError("some workers ask for the world size, and others for a metric.")
        return Answer(b"", b"")

    def _agree(
        self, layout: Layout, arrays: Sequence[np.ndarray], trouble: BaseException | None, deadline: Deadline
    ) -> tuple[bool, bool, np.ndarray]:
        """Make sure that all call the same.

        Returns whether the dtypes agree, whether any worker has special values, and which limbs the floats need.
        """
        floats = [
            array
            for array, how in zip(arrays, layout.reductions)
            if how == "sum" and array.dtype == np.float64 and array.size
        ]
        used = np.zeros(fp.WINDOW, bool)
        for array in floats:
            used |= fp.float_window(array)
        frame = Frame(ARRIVAL, 0, layout.header) if trouble is None else trouble_frame(0, trouble, deadline)
        signature = repr((layout.call, layout.names, layout.reductions, layout.shapes))
        digests = fp.digests(signature, _CALL_DIGESTS) + fp.digests(repr(layout.dtypes), _DTYPE_DIGESTS)
        special = any(map(fp.has_specials, floats))
        message = [1, int(trouble is not None), int(special), len(frame.header) + 1]
        message += [value for digest in digests for value in (digest, digest * digest)]
        message += used.astype(int).tolist()
        answer = self._reduce(message, "sum", deadline)
        workers, troubles, specials, length = answer[:4]
        self._count(workers)
        squares = list(zip(answer[4::2], answer[5::2]))[: len(digests)]
        # Cauchy and Schwarz: the sum of squares is as small as this only if all are equal
        equal = [total * total == workers * square for total, square in squares]
        if troubles or not all(equal[:_CALL_DIGESTS]):
            self._raise_together(frame, troubles, length, deadline)
        return all(equal[_CALL_DIGESTS:]), specials > 0, np.array(answer[4 + 2 * len(digests) :]) > 0

    def _raise_together(self, frame: Frame, troubles: int, length: int, deadline: Deadline) -> None:
        """Let every worker know what the others say, so that all raise the same."""
        rank = self._known_rank()
        if rank is None:
            speaks = troubles == 0 or frame.kind != ARRIVAL
            texts = self._slots([_tagged(frame) if speaks else b""], length, deadline)
            if troubles == 1:
                raise_trouble(troubles_in([_untagged(texts[0])]), ranks_known=False)
            silence = "util does not say on which ranks. Look at their logs."
            if troubles:
                raise CommunicatorError(f"{troubles} of {self._workers} workers failed before the exchange; {silence}")
            raise AgreementError(
                f"the {self._workers} workers disagree at their {ordinal(self._number)} exchange: their metrics, states"
                f" or shapes differ; {silence}"
            )
        slots = [_tagged(frame) if i == rank else b"" for i in range(self._workers)]
        frames = [_untagged(text) for text in self._slots(slots, length, deadline)]
        raise_trouble(troubles_in(frames))
        agree([layout_of(other.header) for other in frames], self._number)
        raise AgreementError(f"the workers disagree at their {ordinal(self._number)} exchange.")

    def _slots(self, texts: Sequence[bytes], length: int, deadline: Deadline) -> list[bytes]:
        width = -(-length // fp.BYTES_PER_INTEGER) * fp.BYTES_PER_INTEGER
        message = b"".join(text.ljust(width, b"\0") for text in texts)
        joined = fp.to_bytes(self._reduce(fp.to_integers(message), "sum", deadline))
        return [joined[i * width : (i + 1) * width].rstrip(b"\0") for i in range(len(texts))]

    def _count(self, workers: int) -> None:
        expected = self._job.world_size
        if expected > 1 and workers != expected:
            raise NoChannelError(
                f"util.all_reduce answers for {workers} worker{'s' if workers != 1 else ''}, but PADDLE_TRAINERS_NUM is"
                f" {expected}: the number would be local. fleetrun turns Paddle's Gloo off; leave util out, and"
                " fleetmetrics connects the workers itself, or start them with PADDLE_WITH_GLOO=1."
            )
        if not 0 < workers <= fp.WORKER_LIMIT:
            raise CommunicatorError(f"util.all_reduce counts {workers} workers; 1 to {fp.WORKER_LIMIT} are possible.")
        self._workers = workers

    def _known_rank(self) -> int | None:
        if self._job.world_size == self._workers:
            return self._job.rank
        ask = getattr(getattr(self._util, "role_maker", None), "_worker_index", None)
        rank = ask() if callable(ask) else None
        return rank if isinstance(rank, int) and 0 <= rank < self._workers else None

    # Reducing

    def _sums(
        self,
        layout: Layout,
        chosen: Sequence[int],
        arrays: Sequence[np.ndarray],
        specials: bool,
        used: np.ndarray,
        deadline: Deadline,
    ) -> list[np.ndarray]:
        window = np.flatnonzero(used)
        first, limbs = (int(window[0]), int(window[-1] - window[0]) + 1) if window.size else (0, 0)
        parts: list[np.ndarray] = []
        for i in chosen:
            if arrays[i].dtype == np.int64:
                parts.append(fp.integer_limbs(arrays[i]))
            else:
                parts.append(fp.float_limbs(arrays[i], first, limbs).reshape(-1))
                parts.append(fp.special_counts(arrays[i]) if specials else np.empty(0, np.int64))
        pieces = iter(self._reduce_parts(parts, "sum", deadline))
        results = []
        for i in chosen:
            if arrays[i].dtype == np.int64:
                try:
                    results.append(fp.integers_from_limbs(next(pieces), self._workers))
                except IntegerOverflowError as error:
                    raise IntegerOverflowError(f"{layout.call}, state {layout.names[i]!r}: {error}") from None
            else:
                table = next(pieces).reshape(limbs, arrays[i].size)
                total, counts = fp.floats_from_limbs(table, first, self._workers), next(pieces)
                results.append(fp.split_counts(total, counts) if specials else total)
        return results

    def _extremes(
        self, layout: Layout, chosen: Sequence[int], arrays: Sequence[np.ndarray], deadline: Deadline
    ) -> list[np.ndarray]:
        own = [fp.keys(arrays[i], layout.reductions[i]) for i in chosen]
        high = [(key >> np.uint64(32)).astype(np.int64) for key in own]
        highest = self._reduce_parts(high, "max", deadline)
        low = [
            np.where(mine == best, (key & np.uint64(0xFFFFFFFF)).astype(np.int64), 0)
            for key, mine, best in zip(own, high, highest)
        ]
        lowest = self._reduce_parts(low, "max", deadline)
        return [
            fp.values_from_keys(
                (best.astype(np.uint64) << np.uint64(32)) | rest.astype(np.uint64),
                layout.reductions[i],
                str(arrays[i].dtype),
            )
            for i, best, rest in zip(chosen, highest, lowest)
        ]

    def _gathered(self, array: np.ndarray, deadline: Deadline) -> list[np.ndarray]:
        """The arrays of all workers, of one dtype and length, each in a slot of its own."""
        mine = self.rank
        texts = [array.tobytes() if i == mine else b"" for i in range(self._workers)]
        return [np.frombuffer(text, array.dtype) for text in self._slots_exactly(texts, array.nbytes, deadline)]

    def _reduce_parts(self, parts: Sequence[np.ndarray], mode: str, deadline: Deadline) -> list[np.ndarray]:
        sizes = [part.size for part in parts]
        if not sum(sizes):
            return list(parts)
        answer = np.array(self._reduce(np.concatenate(parts).tolist(), mode, deadline), np.int64)
        return np.split(answer, np.cumsum(sizes)[:-1])

    def _reduce(self, numbers: list[int], mode: str, deadline: Deadline) -> list[int]:
        """One call of util, which knows no deadline of its own."""

        def work() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that Gloo is off is said in the error
                return self._util.all_reduce(numbers, mode)

        label = f"exchange {self._number}, in util.all_reduce"
        try:
            answer = run_until(work, deadline.remaining - margin(deadline.timeout), label)
        except DeadlineError as error:
            self._broken = f"util is of no more use since an earlier call: {error}"
            raise
        except Exception as error:
            self._broken = f"util.all_reduce failed: {type(error).__name__}: {error}"
            raise CommunicatorError(self._broken) from error
        result = [int(number) for number in np.asarray(answer).reshape(-1).tolist()]
        if len(result) != len(numbers):
            raise CommunicatorError(f"util.all_reduce took {len(numbers)} numbers and gave back {len(result)}.")
        return result

    # Gathering

    def _gather(self, call: str, array: Any, source: int | None, timeout: float | None) -> list[np.ndarray]:
        deadline, trouble = self._begin(timeout, None)
        header, data = b"", b""
        try:
            if source is not None and not 0 <= source < self.world_size:
                raise InvalidInputError(f"source is {source!r}; it must be a rank from 0 to {self.world_size - 1}.")
            here = source in (None, self.rank)
            header, data = encode(call, source, as_column(array) if here else np.empty(0))
        except CommunicatorError:
            raise
        except Exception as error:
            trouble = trouble or error
        self._arrive(call, describe(call, []).header, deadline, trouble)
        self._agree(describe(call, []), [], trouble, deadline)
        mine = [len(header) if i == self.rank else 0 for i in range(self._workers)]
        mine += [len(data) if i == self.rank else 0 for i in range(self._workers)]
        lengths = self._reduce(mine, "sum", deadline)
        width = max(map(sum, zip(lengths[: self._workers], lengths[self._workers :])))
        texts = [header + data if i == self.rank else b"" for i in range(self._workers)]
        gathered = self._slots_exactly(texts, width, deadline)
        headers = [text[:length] for text, length in zip(gathered, lengths)]
        payloads = [
            text[start : start + size] for text, start, size in zip(gathered, lengths, lengths[self._workers :])
        ]
        return decode(join(headers, self._number), [np.frombuffer(p, np.uint8) for p in payloads])

    def _slots_exactly(self, texts: Sequence[bytes], width: int, deadline: Deadline) -> list[bytes]:
        message = b"".join(text.ljust(width, b"\0") for text in texts)
        joined = fp.to_bytes(self._reduce(fp.to_integers(message), "sum", deadline))
        return [joined[i * width : (i + 1) * width] for i in range(len(texts))]


def _tagged(frame: Frame) -> bytes:
    return bytes([frame.kind]) + frame.header


def _untagged(text: bytes) -> Frame:
    return Frame(text[0], 0, text[1:])
