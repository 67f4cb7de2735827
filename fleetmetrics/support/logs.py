"""The log of the package, all through the logger "fleetmetrics"; see docs/howto/logs.md."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
import time
from collections import Counter
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping, Sized, TypeVar

from fleetmetrics.support.environment import setting

__all__ = ["Attendance", "Watch", "logger", "progress", "say", "watch", "without_progress"]

logger: logging.Logger = logging.getLogger("fleetmetrics")
#: A worker that arrives this long after the median keeps the others waiting.
LATE_SECONDS = 0.1
#: After this number of exchanges with a late worker, the log names the rank that was last most often.
LATE_EXCHANGES = 10
#: Whether the program has asked for silence.
_SILENT = contextvars.ContextVar("fleetmetrics_silent", default=False)
#: Work that takes this long shows its progress.
LONG_SECONDS = 10.0
_T = TypeVar("_T")


def watch(rank: int) -> Watch | None:
    """The logger of the exchanges of the worker with this rank; None if logging is off.

    Raises:
        InvalidInputError: FLEETMETRICS_LOG is not a level.
    """
    level = setting("FLEETMETRICS_LOG").upper()
    if level:
        logger.setLevel(level)
    if level and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
    return Watch(rank) if level or _asked() else None


def say(text: str) -> None:
    """Print a line unasked: through the logger if the program has one, else on the standard error."""
    if logger.hasHandlers():
        logger.warning(f"fleetmetrics: {text}")
    else:
        print(f"fleetmetrics: {text}", file=sys.stderr, flush=True)


def _asked() -> bool:
    """Whether the program enabled this logger; the root's level proves nothing, because Paddle sets it to INFO."""
    return logging.NOTSET < logger.level <= logging.INFO


class Attendance:
    """When the workers came to one exchange, as rank 0 has seen it.

    Attributes:
        times: by rank, in the order of arrival.
        received: the bytes that rank 0 got from the others.
    """

    received: int
    times: dict[int, float]

    __slots__ = ("received", "times")

    def __init__(self) -> None:
        self.times, self.received = {}, 0

    def note(self, rank: int, payload: Sized) -> None:
        """A worker comes now, with this payload."""
        self.times[rank] = time.monotonic()
        if rank:
            self.received += len(payload)


class Watch:
    """Logs the exchanges of one worker.

    Args:
        rank: of this worker in the job.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._late: list[tuple[int, float]] = []  # of exchanges with a late worker: the last rank, and its delay

    def over(
        self, label: str, sent: Sized, received: Sized | None, seconds: float, attendance: Attendance | None
    ) -> None:
        """Log an exchange that has ended.

        Args:
            label: its name.
            sent: this worker's payload.
            received: rank 0's payload; None: an error.
            seconds: that it took.
            attendance: who came when; on rank 0 only, and None there if the exchange could not begin.
        """
        answer = "an error" if received is None else f"{len(received)} bytes"
        if self._rank:
            sizes = f"{len(sent)} bytes out, {answer} in"
        else:
            sizes = f"{attendance.received if attendance else 0} bytes in, {answer} to each"
        text = f"fleetmetrics: rank {self._rank}, {label}: {sizes}, {1000 * seconds:.1f} ms"
        if attendance is not None and len(attendance.times) > 1:
            text += self._last_of(attendance.times)
        logger.info(text)

    def _last_of(self, times: Mapping[int, float]) -> str:
        """Which worker came last, in words."""
        ranks = list(times)
        last, middle = ranks[-1], ranks[(len(ranks) - 1) // 2]
        if last == 0:
            return "; rank 0 came last"  # the others log the delay
        delay = times[last] - times[middle]
        if delay >= LATE_SECONDS:
            self._count(last, delay)
        return f"; rank {last} came last, {1000 * delay:.1f} ms after the middle one"

    def _count(self, rank: int, delay: float) -> None:
        """Warn of a rank that keeps the others waiting regularly."""
        self._late.append((rank, delay))
        late = self._late.copy()  # another thread may be here, too
        if len(late) < LATE_EXCHANGES:
            return
        self._late.clear()
        [(rank, times)] = Counter(rank for rank, _ in late).most_common(1)
        seconds = sum(delay for other, delay in late if other == rank)
        if times >= 0.8 * LATE_EXCHANGES:
            logger.warning(
                f"fleetmetrics: rank {rank} came last at {times} of the last {len(late)} exchanges at which a worker "
                f"was late, by {seconds:.1f} s in all: check what else it does, and how its samples and its machine "
                "differ"
            )


@contextlib.contextmanager
def without_progress() -> Iterator[None]:
    """Within this, `progress` shows nothing."""
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)


def progress(
    items: Iterable[_T],
    what: str,
    channel: Any,
    total: int | Callable[[], int | None] | None = None,
    size: Callable[[_T], int] | None = None,
    unit: str = "",
) -> Generator[_T, None, None]:
    """Yield the items; during long runs, show the progress: a bar on rank 0's terminal, else lines.

    Args:
        items: to work on.
        what: names the work.
        channel: of the workers that share the work, with its rank and world_size; None: this process works alone.
        total: the number of items, or their size in all, if known; or a function that finds it out.
        size: gives the size of an item; None: items are counted.
        unit: of the size.
    """
    together = channel is not None and channel.world_size > 1
    quiet = (together and channel.rank != 0) or setting("FLEETMETRICS_LOG") == "warning" or _SILENT.get()
    whose = f"rank {channel.rank}, " if together else ""
    began, pause, bar, done = time.monotonic(), LONG_SECONDS, None, 0
    then, known = began + pause, total if isinstance(total, int) else None
    try:
        for item in items:
            step = 1 if size is None else size(item)
            done += step
            yield item
            if bar is not None:
                bar.update(step)
            elif time.monotonic() >= then:
                pause *= 2  # after 10, 30, 70, 150 seconds
                then += pause
                known = total() if callable(total) else known
                with contextlib.suppress(ImportError):
                    if not quiet and sys.stderr.isatty():
                        from tqdm import tqdm

                        bar = tqdm(desc=what, total=known, initial=done, leave=False)
                        continue
                text = f"fleetmetrics: {whose}{what}: {_how_far(done, known, unit, time.monotonic() - began)}"
                if _asked():
                    logger.info(text)
                elif not quiet:
                    print(text, file=sys.stderr, flush=True)
    finally:
        if bar is not None:
            bar.close()


def _how_far(done: int, total: int | None, unit: str, seconds: float) -> str:
    """What is done after some seconds, and how many more the rest will take."""
    of = "" if total is None else f" of {total:,}"
    text = f"{done:,}{of}{unit and f' {unit}'} done after {seconds:.0f} s"
    return text if total is None or not 0 < done <= total else f"{text}, {seconds * (total - done) / done:.0f} s left"
