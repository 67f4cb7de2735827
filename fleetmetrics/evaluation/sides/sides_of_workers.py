"""The sides over the data of all workers: each sends its part to rank 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Sequence

from fleetmetrics.comm import Communicator
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluation.sides.side import Side
from fleetmetrics.files import Read, together
from fleetmetrics.files.parts import read_of
from fleetmetrics.serial.descriptions import Letter
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.support.settings import difference

__all__ = ["of_all_workers", "of_workers"]

_CALL = "evaluate"


def of_workers(
    channel: Communicator,
    make: Callable[[], tuple[Any, Sequence[Side]]],
    finish: Callable[[list[Side]], Any],
    trouble: BaseException | None = None,
    timeout: float | None = None,
) -> Any:
    """Bring each worker's part to rank 0, and give all workers the result of ``finish`` there.

    Args:
        channel: of the workers.
        make: makes this worker's sides, and names the files that it sees: the others must see the same.
        finish: called on rank 0 only; returns values that `pack` takes.
        trouble: an earlier error on this worker.
        timeout: seconds to wait for the others, once this worker has its part.

    Raises:
        FleetMetricsError: the error of a worker, the same on all.
    """
    if channel.world_size == 1 and trouble is None:
        return finish(list(make()[1]))
    sides: Sequence[Side] = ()

    def decide(letters: Sequence[Letter]) -> Letter:
        files, arguments, parts_of_workers = zip(*(unpack(*letter) for letter in letters))
        for rank, own in enumerate(arguments):
            differs = difference(own, arguments[0], there="on rank 0")
            if differs:
                raise InvalidInputError(f"rank {rank} got different arguments from rank 0: {differs}")
        if any(seen != files[0] for seen in files):
            raise DataError("the workers do not see the same files; put them on a file system that all workers share")
        done = finish([_together(side, parts) for side, parts in zip(sides, zip(*parts_of_workers))])
        return Letter(*pack(done, False, "the result of all workers"))

    with channel.call(_CALL, timeout, trouble) as call:
        files, sides = make()
        asked = [side.asked.plain() for side in sides]
        letter = pack([files, asked, _packed(sides)], False, "a worker's result")
        call.prepared()
        return unpack(*call.consult(decide, *letter))


def of_all_workers(
    channel: Communicator,
    make: Callable[[], tuple[Any, list[Side]]],
    trouble: BaseException | None = None,
    timeout: float | None = None,
) -> list[Side]:
    """The sides over the data of all workers, on each of them.

    Args:
        channel: of the workers.
        make: as for `of_workers`.
        trouble: an earlier error on this worker.
        timeout: as for `of_workers`.
    """
    if channel.world_size == 1 and trouble is None:
        return make()[1]
    sides: list[Side] = []

    def kept() -> tuple[Any, list[Side]]:
        files, own = make()
        sides.extend(own)
        return files, own

    parts = of_workers(channel, kept, _packed, trouble, timeout)
    return [_together(side, [part]) for side, part in zip(sides, parts)]


def _packed(sides: Sequence[Side]) -> list[list[Any]]:
    """The parts of sides that another worker needs."""
    return [[_plain(side.read), side.error, side.metrics.state_dict()] for side in sides]


def _plain(read: Read) -> list[Any]:
    """A record of the data read, as JSON holds it; see `read_of`."""
    return [*read._replace(sources=[list(source) for source in read.sources])]  # type: ignore[arg-type]


def _together(side: Side, parts: Sequence[Any]) -> Side:
    side.metrics.hold_merged(arrays for *_, arrays in parts)
    read = together(read_of(read) for read, *_ in parts)
    errors = [error for _, error, _ in parts if error]
    return replace(side, read=read._replace(files=tuple(sorted(read.files))), error=min(errors, default=""))
