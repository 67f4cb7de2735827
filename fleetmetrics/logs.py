"""The log of the package, all through the logger "fleetmetrics"; see docs/howto/logs.md."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections import Counter
from typing import Any, Generator, Iterable, Sequence, TypeVar

from fleetmetrics.errors import InvalidInputError

__all__ = ["Watch", "level_asked", "logger", "progress", "say", "watch"]

logger: logging.Logger = logging.getLogger("fleetmetrics")
#: A worker that arrives this long after the median keeps the others waiting.
LATE_SECONDS = 0.1
#: After this number of exchanges with a late worker, the log names the rank that was last most often.
LATE_EXCHANGES = 10
#: Work that takes this long shows its progress.
LONG_SECONDS = 10.0
_T = TypeVar("_T")


def level_asked() -> str:
    """The level in FLEETMETRICS_LOG, or ""; raises `InvalidInputError` if it is invalid."""
    level = os.environ.get("FLEETMETRICS_LOG", "").strip().upper()
    if level in ("", "INFO", "WARNING"):
        return level
    text = f"the environment variable FLEETMETRICS_LOG holds {level.lower()!r}; it must be info, warning, or unset."
    raise InvalidInputError(text)


def watch(rank: int, ranks: Sequence[int] = ()) -> Watch | None:
    """The logger of a worker's exchanges; None if logging is off. Raises if FLEETMETRICS_LOG is not a level.

    Args:
        rank: this worker's rank; in a group its place.
        ranks: the group's ranks in the job; () for the whole job.
    """
    level = level_asked()
    if level:
        logger.setLevel(level)
    if level and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
    return Watch(rank, ranks) if level or _asked() else None


def say(text: str) -> None:
    """Print a line unasked: through the logger if the program has one, else on the standard error."""
    if logger.hasHandlers():
        logger.warning(f"fleetmetrics: {text}")
    else:
        print(f"fleetmetrics: {text}", file=sys.stderr, flush=True)


def _asked() -> bool:
    """Whether the program enabled this logger; the root's level proves nothing, because Paddle sets it to INFO."""
    return logging.NOTSET < logger.level <= logging.INFO


class Watch:
    """Logs the exchanges of one worker; rank 0's also records when the others arrive."""

    def __init__(self, rank: int, ranks: Sequence[int] = ()) -> None:
        self.rank = rank
        self._names = ranks or range(sys.maxsize)  # the workers' ranks in the job
        self._last: list[tuple[int, float]] = []  # in exchanges with a late worker: the last rank, and its delay
        self._came: dict[int, float] = {}
        self._waits = self._received = 0.0

    def arrived(self, rank: int, payload: Any) -> None:
        """Record that a worker has arrived at rank 0, and its payload."""
        self._came[rank] = time.monotonic()
        self._received += _size(payload)

    def waits(self) -> None:
        """Record that rank 0 has read the first arrivals, and begins to wait."""
        self._waits = self._waits or time.monotonic()

    def over(self, label: str, sent: Any, answer: Any, seconds: float) -> None:
        """Log an exchange: its label, this worker's payload, rank 0's (None: an error), and its duration."""
        told = "an error" if answer is None else f"{_size(answer)} bytes"
        sizes = f"{_size(sent)} bytes out, {told} in" if self.rank else f"{self._received:.0f} bytes in, {told} to each"
        text = f"fleetmetrics: rank {self._names[self.rank]}, {label}: {sizes}, {1000 * seconds:.1f} ms"
        if self._came and not self._waits:
            text += f"; rank {self._names[0]} came last"  # the others log the delay
        elif self._came:
            order = sorted([(self._waits, 0), *((when, rank) for rank, when in self._came.items())])
            (when, last), (middle, _) = order[-1], order[(len(order) - 1) // 2]
            text += f"; rank {self._names[last]} came last, {1000 * (when - middle):.1f} ms after the middle one"
            self._count(last, when - middle)
        self._came, self._waits, self._received = {}, 0.0, 0.0
        logger.info(text)

    def _count(self, rank: int, late: float) -> None:
        """Warn of a rank that keeps the others waiting regularly."""
        if late >= LATE_SECONDS:
            self._last.append((rank, late))
        if len(self._last) < LATE_EXCHANGES:
            return
        [(rank, times)] = Counter(each for each, _ in self._last).most_common(1)
        seconds = sum(late for each, late in self._last if each == rank)
        if times >= 0.8 * LATE_EXCHANGES:
            logger.warning(
                f"fleetmetrics: rank {self._names[rank]} came last at {times} of the last {LATE_EXCHANGES} exchanges "
                f"at which a worker was late, by {seconds:.1f} s in all: check what else it does, and how its samples "
                "and its machine differ"
            )
        self._last.clear()


def _size(payload: Any) -> int:
    """The bytes of a payload, in one buffer or several."""
    return sum(memoryview(part).nbytes for part in (payload if isinstance(payload, (list, tuple)) else [payload]))


def progress(items: Iterable[_T], what: str, channel: Any, total: int | None = None) -> Generator[_T, None, None]:
    """Yield the items; during long runs, show the progress: a bar on rank 0's terminal, else lines.

    Args:
        items: to work on.
        what: names the work.
        channel: of the workers that share the work, with its rank and world_size; None: this process works alone.
        total: the number of items, if known.
    """
    together = channel is not None and channel.world_size > 1
    quiet = (together and channel.rank != 0) or level_asked() == "WARNING"
    whose = f"rank {channel.rank}, " if together else ""
    began, pause, bar = time.monotonic(), LONG_SECONDS, None
    then = began + pause
    try:
        for number, item in enumerate(items, 1):
            yield item
            if bar is not None:
                bar.update()
            elif time.monotonic() >= then:
                pause *= 2  # after 10, 30, 70, 150 seconds
                then += pause
                with contextlib.suppress(ImportError):
                    if not quiet and sys.stderr.isatty():
                        from tqdm import tqdm

                        bar = tqdm(desc=what, total=total, initial=number, leave=False)
                        continue
                of = "" if total is None else f" of {total}"
                text = f"fleetmetrics: {whose}{what}: {number}{of} done after {time.monotonic() - began:.0f} s"
                if _asked():
                    logger.info(text)
                elif not quiet:
                    print(text, file=sys.stderr, flush=True)
    finally:
        if bar is not None:
            bar.close()
