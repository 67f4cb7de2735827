"""Errors in words, on their way to other workers, and the ranks that they name."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from contextvars import ContextVar
from typing import Any, Callable, Iterable, Sequence, Tuple

from fleetmetrics import errors
from fleetmetrics.comm.deadline import DEFAULT_TIMEOUT, FIRST_TIMEOUT, INTERACTIVE_TIMEOUT
from fleetmetrics.errors import CommunicatorError, FleetMetricsError

__all__ = [
    "Caught",
    "Trouble",
    "by_a_handler",
    "by_rank",
    "called",
    "calling",
    "described",
    "error_header",
    "error_in",
    "fit_cause",
    "in_words",
    "late_text",
    "named_error",
    "raise_trouble",
    "ranks_text",
    "readable",
    "readable_lines",
    "since_earlier",
]

#: The name of an error's class, and its text; fit for JSON.
Trouble = Tuple[str, str]


#: Characters that move a terminal's cursor, begin a line or reverse the direction of text, and halves of characters.
_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: The most characters that a peer's error may have.
_LONGEST_TEXT = 10_000
#: The end of a text that has been cut; it keeps this end if it is quoted and cut again.
_CUT = re.compile(r" \.\.\. \(cut: \d{1,20} characters\)$")


def readable(text: str) -> str:
    """A peer's text, fit for an error and a log: with control characters escaped, and at most a few pages long."""
    text = _UNREADABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    if len(text) > _LONGEST_TEXT:
        before = _CUT.search(text)
        end = before[0] if before else f" ... (cut: {len(text)} characters)"
        text = text[: _LONGEST_TEXT - len(end)] + end
    return text


def readable_lines(text: str) -> str:
    """Like `readable`, for text of several lines, such as a traceback: it keeps the last lines, which say most."""
    cut = f"(cut: {len(text)} characters) ...\n" if len(text) > _LONGEST_TEXT else ""
    return cut + "\n".join(readable(line) for line in text[-_LONGEST_TEXT:].split("\n"))


def fit_cause(error: BaseException) -> BaseException | None:
    """An error as the cause of another one; None if a traceback must not show its text."""
    return error if readable(str(error)) == str(error) else None


#: The names of the current exchange's workers, by their place in it; empty if the ranks are the job's.
_names: ContextVar[Sequence[int]] = ContextVar("names", default=())


#: The ranks in the job by which errors currently name workers.
called_now: Callable[[], Sequence[int]] = _names.get


class calling:
    """Inside the context, errors name the workers of a group's exchange by these ranks in the job."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks

    def __enter__(self) -> None:
        self._token = _names.set(self._ranks)

    def __exit__(self, *_: object) -> None:
        _names.reset(self._token)


def called(rank: int) -> int:
    """The rank in the job of a worker of the current exchange."""
    names = _names.get()
    return names[rank] if rank < len(names) else rank


class Caught:
    """Keeps the first error of its ``with`` blocks, of any type, for the waiting workers."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self.error = self.error or error
        return isinstance(error, Exception)


def by_a_handler(error: BaseException | None) -> bool:
    """Whether a signal handler of this process raised the error, which is then the user's own."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers]
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_frame.f_code not in codes:
        trace = trace.tb_next
    return trace is not None


def described(error: BaseException) -> Trouble:
    """Return the name and text from which another worker raises the same error, or its nearest public base."""
    if isinstance(error, FleetMetricsError):
        public = (kind.__name__ for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
        return next(public), str(error)
    name = type(error).__name__
    return name, f"{name}: {error}"


def named_error(name: str, text: str) -> FleetMetricsError:
    """Return an error of fleetmetrics by the name of its class, with a text that is fit for a log."""
    text = readable(text)
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, FleetMetricsError):
        return kind(text)
    return CommunicatorError(text)


def error_header(error: BaseException, broken: bool = False) -> bytes:
    """The header of a message with an error, and whether a worker is gone for good; `error_in` reads it."""
    return json.dumps([*described(error), broken]).encode()


def error_in(header: bytes, rank: int = 0) -> tuple[FleetMetricsError, bool]:
    """The error in the header of a message from this rank, and whether a worker is gone for good."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        name, text, *broken = json.loads(header)
        return named_error(str(name), str(text)), broken == [True]
    return CommunicatorError(f"{in_words([rank])} reports an error in a message that cannot be read"), False


def raise_trouble(troubles: Sequence[Trouble | None]) -> None:
    """Raise the error of the first worker in trouble, naming all of them."""
    ranks: dict[str, list[int]] = {}
    first = ""
    for rank, trouble in enumerate(troubles):
        if trouble is not None:
            first = first or trouble[0]
            ranks.setdefault(trouble[1], []).append(rank)
    if ranks:
        raise named_error(first, "; ".join(f"on {ranks_text(on)}: {text}" for text, on in ranks.items()))


def by_rank(texts: Iterable[str]) -> str:
    """Group ranks by their text, in words.

    Examples:
        >>> by_rank(["acc", "auc", "auc"])
        'acc on rank 0, auc on ranks 1, 2'
    """
    groups: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        groups.setdefault(text, []).append(rank)
    return ", ".join(f"{text} on {ranks_text(ranks)}" for text, ranks in groups.items())


def ranks_text(ranks: Iterable[int]) -> str:
    """Name workers of the current exchange by their ranks in the job; see `in_words`.

    Examples:
        >>> with calling([4, 6]):
        ...     ranks_text([1])
        'rank 6'
    """
    return in_words(map(called, ranks))


def in_words(ranks: Iterable[int]) -> str:
    """Name ranks of the job; four or more in a row become a range.

    Examples:
        >>> in_words([1, 2, 256, 257, 258, 259])
        'ranks 1, 2, 256 to 259'
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 3 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(texts)}"


def since_earlier(text: str) -> str:
    """The error of a call after the one in which the channel broke."""
    prefix = "the workers' channel is broken since an earlier call: "
    return text if text.startswith(prefix) else prefix + text


def late_text(ranks: Sequence[int], how: str, timeout: float, label: str) -> str:
    """Say who is missing."""
    return (
        f"{ranks_text(ranks)} did not {how} within {float(f'{timeout:.3g}'):g} s at {label}. Look at the log of"
        f" {'those workers' if len(ranks) > 1 else 'that worker'}: every worker must call the same metrics in the same"
        " order. If it is only slow, give more seconds: timeout=, or FLEETMETRICS_TIMEOUT; the default is"
        f" {FIRST_TIMEOUT:g} s until all workers have met, then {DEFAULT_TIMEOUT:,g} s, and in an interactive session"
        f" {INTERACTIVE_TIMEOUT:g} s"
    )
