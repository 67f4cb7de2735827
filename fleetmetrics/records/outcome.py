"""What rank 0 has computed, a value or an error, on its way to the other workers."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import Any, Callable

from fleetmetrics.comm.letters import Letter
from fleetmetrics.comm.trouble import described, named_error
from fleetmetrics.errors import FleetMetricsError, RecordError
from fleetmetrics.records.serializer import pack, unpack

__all__ = ["answer", "outcome"]


def answer(compute: Callable[[], list[Any]], allow_pickle: bool) -> Letter:
    """Compute, and write the letter that tells every worker the values, or the error.

    Args:
        compute: without arguments.
        allow_pickle: whether a value without an array form, or an error, may be pickled.
    """
    try:
        values = compute()
    except Exception as error:
        return _error_letter(error, allow_pickle)
    try:
        packed = pack(values, allow_pickle, "the results")
    except RecordError as error:
        return _error_letter(error, allow_pickle)
    return Letter({"done": True, "values": packed.layout}, packed.buffers)


def outcome(letter: Letter, allow_pickle: bool) -> list[Any]:
    """Return the values, or raise the error, that a letter tells.

    Args:
        letter: from `answer`.
        allow_pickle: as there.
    """
    if "values" in letter.note:
        return unpack(letter.note["values"], letter.payload, allow_pickle)
    error: BaseException = named_error(*letter.note["error"])
    if letter.note["pickled"] and allow_pickle:
        error = pickle.loads(letter.payload)
    raise error from FleetMetricsError("this was raised on rank 0:\n" + letter.note["trace"])


def _error_letter(error: Exception, allow_pickle: bool) -> Letter:
    """An error of Python or of the user is raised as what it is on every worker, if it survives pickling."""
    data = b""
    if allow_pickle and not isinstance(error, FleetMetricsError):
        with contextlib.suppress(Exception):
            pickled = pickle.dumps(error)
            data = pickled if type(pickle.loads(pickled)) is type(error) else b""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Letter({"done": True, "error": described(error), "pickled": bool(data), "trace": trace}, data)
