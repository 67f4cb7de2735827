"""The base class of communicators: all operations are built on one, `consult`."""

from __future__ import annotations

import collections
import functools
import threading
from typing import Any, Callable, Iterable, Iterator, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm import folds, rows, states
from fleetmetrics.comm.columns import array_of, as_column, gather, gather_chunks, parts_in
from fleetmetrics.comm.deadline import DEFAULT_TIMEOUT, Deadline, began
from fleetmetrics.comm.failures import by_a_handler
from fleetmetrics.comm.groups import ranks_of
from fleetmetrics.comm.letters import divided, read_each, split
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.reductions import widen
from fleetmetrics.serial.descriptions import Block, Decide, Letter, Payload, RowKeys, joined

__all__ = ["Communicator", "Decide", "Letter"]

_Self = TypeVar("_Self", bound="Communicator")


class Call:
    """A call while it runs; see `Communicator.call`."""

    name: str
    step: int
    channel: Communicator
    deadline: Deadline
    trouble: BaseException | None

    def __init__(
        self, channel: Communicator, name: str, timeout: float | Deadline | None, trouble: BaseException | None
    ) -> None:
        self.name, self.channel, self._timeout, self.trouble = name, channel, timeout, trouble
        self.numbers: list[int] = []  # its number among the channel's calls, once it has begun
        self.step = 0  # the number of its exchanges so far

    @property
    def number(self) -> int:
        """Its number among the calls of the channel; 0 on a channel that does not count."""
        return self.numbers[0] if self.numbers else 0

    def __enter__(self) -> Call:
        try:
            self.channel._enter(self)
            self.deadline, self.trouble = began(self._timeout, self.trouble, self.channel._default_timeout())
        except BaseException as error:
            if self.numbers:
                self.channel._leave(self, error)
            raise
        return self

    def consult(
        self,
        decide: Decide,
        note: Any = None,
        payload: Payload = b"",
        *,
        name: str = "",
        trouble: BaseException | None = None,
    ) -> Letter:
        """Take part in the next exchange; see `Communicator.consult`. ``name``: of the exchange; "": the call's."""
        return self._begin(decide, Letter(note, payload), name, trouble)()

    def consult_each(self, decide: Decide, letters: Iterable[Letter]) -> Iterator[Letter]:
        """Take part in an exchange for each letter; a letter is on its way before the answer to the last has come."""
        begun: collections.deque[Callable[[], Letter]] = collections.deque()
        for letter in letters:
            begun.append(self._begin(decide, letter))
            if len(begun) > 1:
                yield begun.popleft()()
        yield from (answer() for answer in begun)

    def _begin(
        self, decide: Decide, mine: Letter, name: str = "", trouble: BaseException | None = None
    ) -> Callable[[], Letter]:
        trouble, self.trouble = self.trouble or trouble, None
        self.step += 1
        return self.channel._begin(self, name or self.name, decide, mine, trouble)

    def reduce(self, blocks: Sequence[Block | RowKeys], settings: str = "") -> list[np.ndarray]:
        """Reduce many states in one exchange; large ones follow piece by piece; see `Communicator.reduce`."""
        return self.channel._reduce(self, blocks, settings)

    def shuffle(
        self, letters: Sequence[Letter], *, name: str = "", trouble: BaseException | None = None
    ) -> list[Letter]:
        """Send each worker its letters from every worker; see `Communicator.shuffle`."""
        return self.channel._shuffle(self, letters, name or self.name, trouble)

    def prepared(self) -> None:
        """Let the seconds to wait for the others begin now, after a preparation that may take long."""
        self.deadline = Deadline(self.deadline.timeout)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        common: BaseException | None = None
        try:
            is_news = isinstance(error, Exception) and not getattr(error, "known_to_all", False)
            if is_news and not self.step and not by_a_handler(error):
                self.trouble = self.trouble or error
                self.consult(folds.barrier)
        except BaseException as raised:
            common = raised
        if error is not None:
            self.channel._leave(self, common or error)
        if common is not None and common is not error:
            raise common from error


class Communicator:
    """The workers' channel: a subclass has a rank, a world size, and `consult`.

    Every operation is collective: each worker of the job calls the same one in the same order. All of them get
    the same result, or all raise the same error before the deadline: `AgreementError` if the workers' calls differ,
    `DeadlineError` if a worker does not arrive in time, `CommunicatorError` if the channel is broken. ``timeout`` is in
    seconds; None: FLEETMETRICS_TIMEOUT, else 1,800, or 300 until all have met, or 60 in an interactive session. The
    calls of a worker's threads do not wait for each other; they are numbered in the order in which they begin.
    """

    rank: int
    world_size: int
    #: Whether the workers have proved their identity; only then may they send pickles.
    authenticated: bool = False
    #: Whether `shuffle` sends directly instead of through rank 0.
    spreads: bool = False
    #: Whether its calls are numbered, so that one may wait while others begin and end.
    overlaps: bool = False

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
        """Send a letter to rank 0, and get its answer to the letters of all workers.

        Only rank 0 sees the others' letters.

        Args:
            call: the name of the call, the same on every worker; errors quote it.
            decide: computes the answer from the workers' letters; runs on rank 0 only.
            note: a description, fit for JSON.
            payload: bytes, in one buffer or several.
            trouble: an earlier error on this worker; every worker then raises it.
            timeout: seconds to wait.

        Returns:
            The answer, the same on every worker.

        Raises:
            FleetMetricsError: a worker's trouble, or the error of ``decide`` on rank 0.

        Examples:
            >>> from fleetmetrics import LocalCommunicator
            >>> LocalCommunicator().consult("count", lambda letters: Letter(sum(each.note for each in letters)), 5)
            Letter(note=5, payload=b'')
        """
        with self.call(call, timeout, trouble) as begun:
            return begun.consult(decide, note, payload, name=call)

    def _consult(
        self, call: str, decide: Decide, mine: Letter, deadline: Deadline, trouble: BaseException | None
    ) -> Letter:
        if type(self).consult is Communicator.consult:
            raise NotImplementedError(f"{type(self).__name__} has no consult, which connects the workers")
        return self.consult(call, decide, *mine, timeout=deadline.left, trouble=trouble)

    def among(self, group: Any) -> Communicator:
        """Return the channel of some of the workers, independent of the others.

        Args:
            group: a ``Group`` of Paddle's; a list of ranks, this worker's among them;
                ``fleet.get_hybrid_communicate_group()`` for the workers with other samples than this one, along
                its data and sharding axes; or None for all workers.

        Returns:
            The same communicator for the same workers: ``rank`` and ``world_size`` are the place in the group and its
            size. Errors name the workers by their ranks in the job.

        Raises:
            InvalidInputError: ``group`` is not such a group, or lacks this worker; nothing has been sent.
            NoChannelError: the machine of the group's first rank is unknown.

        Examples:
            >>> from fleetmetrics import LocalCommunicator
            >>> LocalCommunicator().among([0]).world_size
            1
        """
        if group is None:
            return self
        ranks = ranks_of(group, self.rank, self.world_size)
        return self if ranks == tuple(range(self.world_size)) else self._among(ranks)

    def _among(self, ranks: tuple[int, ...]) -> Communicator:
        raise InvalidInputError(
            f"group is {list(ranks)}, and {type(self).__name__} has no groups; leave out group, or communicator"
        )

    def call(self, name: str, timeout: float | Deadline | None = None, trouble: BaseException | None = None) -> Call:
        """A call of several steps: what a worker prepares, and one or more exchanges, in a ``with`` block.

        An error inside the block before its first exchange becomes the error of every worker. If the block is
        interrupted, the other workers get an error at once, and the next call is the same on all workers again.

        Args:
            name: of the call, the same on every worker; errors quote it.
            timeout: seconds to wait for the others.
            trouble: an earlier error on this worker; every worker then raises it.

        Examples:
            >>> from fleetmetrics import LocalCommunicator
            >>> with LocalCommunicator().call("count") as call:
            ...     call.consult(lambda letters: Letter(len(letters)))
            Letter(note=1, payload=b'')
        """
        return Call(self, name, timeout, trouble)

    def _enter(self, call: Call) -> None:
        """Begin a call."""

    def _begin(
        self, call: Call, name: str, decide: Decide, mine: Letter, trouble: BaseException | None
    ) -> Callable[[], Letter]:
        """Begin the next exchange of a call; the result waits for the answer."""
        answer = self._consult(name, decide, mine, call.deadline, trouble)
        return lambda: answer

    def follow(self, thread: threading.Thread) -> None:
        """Know of a thread that goes on with a call."""

    def _leave(self, call: Call, error: BaseException) -> None:
        """End a call with an error."""

    def _default_timeout(self) -> float:
        """Seconds that a call waits if nothing else is asked."""
        return DEFAULT_TIMEOUT

    def reduce(
        self,
        call: str,
        blocks: Sequence[Block | RowKeys],
        *,
        settings: str = "",
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Reduce many states in one exchange; large ones follow piece by piece.

        Args:
            call: the name of the call, the same on every worker; errors quote it.
            blocks: the states, and the keys of states with rows by key; names, reductions and shapes must be the same
                on every worker, but keys may differ.
            settings: JSON that must also be the same on every worker; only its digest is sent.
            trouble: an earlier error on this worker; every worker then raises it.
            timeout: seconds to wait.

        Returns:
            New arrays in the order of the blocks, float64 if any worker's block is; for keys, the keys of all workers.

        Raises:
            AgreementError: also if some workers' keys are integers, and others' are strings.
            IntegerOverflowError: if a sum of integers does not fit into 64 bits.
        """
        with self.call(call, timeout, trouble) as begun:
            return begun.reduce(blocks, settings)

    def _reduce(self, call: Call, blocks: Sequence[Block | RowKeys], settings: str) -> list[np.ndarray]:
        layout = states.describe(call.name, blocks, settings)
        whole = layout.is_whole
        letter_of = states.letter_of if whole else rows.letter_of
        answer = call.consult(rows.reduce_states, *letter_of(layout, blocks))
        if answer.note == states.SETTINGS_DIFFER:
            call.consult(folds.settings, [call.name, settings])
        if whole:
            return read_each([answer], functools.partial(states.result_of, layout))[0]
        [(arrays, slabs)] = read_each([answer], functools.partial(rows.result_of, layout, blocks))
        parts = list(rows.parts_of(slabs, self.world_size))
        answers = call.consult_each(rows.reduce_pieces, (rows.letter_of_part(call.name, part) for part in parts))
        for part, answer in zip(parts, answers):
            read_each([answer.payload], functools.partial(rows.put, part))
        return arrays

    def all_gather(
        self, array: Any, *, timeout: float | None = None, trouble: BaseException | None = None
    ) -> list[np.ndarray]:
        """Give every worker's array to every worker.

        Args:
            array: numbers, booleans, or bytes or strings of fixed width; the first axis may have any length.
            timeout: seconds to wait.
            trouble: an earlier error on this worker; every worker then raises it.

        Returns:
            The arrays by rank, all of the dtype to which NumPy promotes the workers' dtypes.

        Raises:
            AgreementError: the dtypes have no common type, or the shapes differ beyond the first axis.
        """
        return self._gather("all_gather", array, None, timeout, trouble)

    def broadcast(self, array: Any, source: int = 0, *, timeout: float | None = None) -> np.ndarray:
        """Give one worker's array to every worker.

        Args:
            array: the array to send; read on the source only.
            source: the rank that sends.
            timeout: seconds to wait.

        Returns:
            A new array.

        Raises:
            InvalidInputError: source is not a rank.
            AgreementError: if the workers name different sources.
        """
        return self._gather("broadcast", array, source, timeout)[source]

    def _gather(
        self,
        name: str,
        array: Any,
        source: int | None,
        timeout: float | None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Give the arrays of all workers, or that of the source, to every worker."""
        with self.call(name, timeout, trouble) as call:
            if source is not None and source not in range(self.world_size):
                raise InvalidInputError(f"source is {source!r}; it must be a rank from 0 to {self.world_size - 1}")
            column = as_column(array) if source in (None, self.rank) else np.empty(0)
            data, size = memoryview(column.tobytes()), states.CHUNK_BYTES
            note = [source, column.dtype.str, column.shape]
            answer = call.consult(gather, note, b"" if len(data) > size else data)
            [(common, sizes, parts)] = read_each([answer], functools.partial(parts_in, source))
            starts = range(0, 0 if parts else max(sizes), size)
            mine = [data[start : start + size] for start in starts]
            chunks = []  # an announced size may be wrong: memory grows with the bytes that arrive
            for start, chunk in zip(
                starts, call.consult_each(gather_chunks, [Letter(len(part), part) for part in mine])
            ):
                due = [min(size, max(0, count - start)) for count in sizes]
                chunks += read_each([joined(chunk.payload)], lambda payload: split(payload, due))  # noqa: B023
            parts = parts or list(map(np.concatenate, zip(*chunks)))
            return read_each(
                zip(parts, answer.note),
                lambda part_and_note: array_of(part_and_note[0], *part_and_note[1]).astype(common),
            )

    def shuffle(
        self,
        call: str,
        letters: Sequence[Letter],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[Letter]:
        """Send each worker its letters from every worker, here through rank 0; raises like ``consult``.

        Args:
            call: as in ``consult``.
            letters: one for each worker, by rank.
            timeout: as in ``consult``.
            trouble: as in ``consult``.

        Returns:
            The letters for this worker, by the rank of the sender.

        Examples:
            >>> from fleetmetrics import LocalCommunicator
            >>> [letter.note for letter in LocalCommunicator().shuffle("records", [Letter("for rank 0")])]
            ['for rank 0']
        """
        with self.call(call, timeout, trouble) as begun:
            return begun.shuffle(letters)

    def _shuffle(self, call: Call, letters: Sequence[Letter], name: str, trouble: BaseException | None) -> list[Letter]:
        sent = [joined(letter.payload) for letter in letters]
        note = [[letter.note, len(data)] for letter, data in zip(letters, sent)]
        answer = call.consult(folds.shuffle, note, sent, name=name, trouble=trouble)
        return read_each([answer], functools.partial(folds.mine, self.rank))[0]

    def all_reduce(self, array: Any, reduction: str = "sum", *, timeout: float | None = None) -> np.ndarray:
        """Reduce one array over the workers.

        Args:
            array: booleans, integers (widened to int64) or floats (widened to float64).
            reduction: "sum", "max" or "min".
            timeout: seconds to wait.

        Returns:
            A new array, int64 or float64.

        Raises:
            InvalidInputError: the dtype or reduction is invalid; raised on every worker.
            IntegerOverflowError: as in ``reduce``.

        Examples:
            >>> from fleetmetrics import LocalCommunicator
            >>> LocalCommunicator().all_reduce([1, 2, 3])
            array([1, 2, 3])
        """
        with self.call("all_reduce", timeout) as call:
            return call.reduce([Block("array", reduction, widen(array, "array"))])[0]

    @property
    def is_initialized(self) -> bool:
        """Whether there are several workers; MMEval's name for it."""
        return self.world_size > 1

    def all_gather_object(self, obj: Any, *, allow_pickle: bool = False, timeout: float | None = None) -> list[Any]:
        """Give every worker's object to every worker.

        Args:
            obj: None, numbers, strings, arrays, and lists, tuples and dicts of them; with allow_pickle, anything
                that can be pickled, if the workers have proved their identity.
            allow_pickle: whether to pickle objects without an array form; the same on every worker.
            timeout: seconds to wait.

        Returns:
            The objects by rank.

        Raises:
            RecordError: if an object has no array form, and pickles are not allowed.

        Examples:
            >>> from fleetmetrics import LocalCommunicator
            >>> LocalCommunicator().all_gather_object({"a": 1})
            [{'a': 1}]
        """
        return self._exchange_objects("all_gather_object", obj, range(self.world_size), allow_pickle, timeout)

    def broadcast_object(
        self, obj: Any, src: int = 0, *, allow_pickle: bool = False, timeout: float | None = None
    ) -> Any:
        """Give one worker's object to every worker.

        Args:
            obj: as for `all_gather_object`; read on the source only.
            src: the rank that sends.
            allow_pickle: as for `all_gather_object`.
            timeout: seconds to wait.

        Returns:
            The object.

        Raises:
            InvalidInputError: src is not a rank.
            RecordError: as for `all_gather_object`.
        """
        return self._exchange_objects(f"broadcast_object from rank {src}", obj, [src], allow_pickle, timeout)[0]

    def _exchange_objects(
        self, call: str, obj: Any, ranks: Sequence[int], allow_pickle: bool, timeout: float | None
    ) -> list[Any]:
        """Give the objects of these ranks to every worker."""
        if allow_pickle:
            call += " with pickles"  # if the workers differ, some could not read the others' letters
        from fleetmetrics.serial.serializer import pack, unpack

        pickles = allow_pickle and self.authenticated
        with self.call(call, timeout) as begun:
            if not set(ranks) <= set(range(self.world_size)):
                raise InvalidInputError(f"src is {ranks[0]!r}; it must be a rank from 0 to {self.world_size - 1}")
            letter = Letter(None)
            if self.rank in ranks:
                layout, buffers = pack([obj], pickles, "the object")
                letter = Letter(layout, joined(buffers))
            answer = begun.consult(folds.objects, *letter)

        def read(answer: Letter) -> list[Any]:
            return [unpack(layout, data, pickles)[0] for layout, data in divided(answer, len(ranks))]

        return read_each([answer], read)[0]

    def barrier(self, *, timeout: float | None = None) -> None:
        """Wait until every worker has arrived."""
        self.consult("barrier", folds.barrier, timeout=timeout)

    def close(self) -> None:
        """Close the channel; further calls do nothing."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank={self.rank}, world_size={self.world_size})"

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
