"""What rank 0 has computed, a value or an error, on its way to the other workers."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import Any, Callable

from fleetmetrics.comm.letters import Letter
from fleetmetrics.comm.trouble import described, named_error
from fleetmetrics.errors import FleetMetricsError, RecordError
from fleetmetrics.records.packing import pack, unpack

__all__ = ["answer", "outcome"]


def answer(compute: Callable[[], Any], allow_pickle: bool) -> Letter:
    """Compute, and write the letter that tells every worker the value, or the error.

    Args:
        compute: without arguments.
        allow_pickle: whether a value without an array form, or an error, may be pickled.
    """
    try:
        value = compute()
    except Exception as error:
        return _error_letter(error, allow_pickle)
    try:
        packed = pack([value], allow_pickle, "the result")
    except RecordError as error:
        return _error_letter(error, allow_pickle)
    return Letter({"done": True, "value": packed.layout}, packed.buffers)


def outcome(letter: Letter, allow_pickle: bool) -> Any:
    """Return the value, or raise the error, that a letter tells.

    Args:
        letter: from `answer`.
        allow_pickle: as there.
    """
    if "value" in letter.note:
        (value,) = unpack(letter.note["value"], letter.payload, allow_pickle)
        return value
    error: BaseException = named_error(*letter.note["error"])
    if letter.note["pickled"] and allow_pickle:
        error = pickle.loads(letter.payload)
    raise error from FleetMetricsError("this was raised on rank 0:\n" + letter.note["trace"])


def _error_letter(error: Exception, allow_pickle: bool) -> Letter:
    """An error of Python or of the user is raised as what it is on every worker, if it survives pickling."""
    data = b""
    if allow_pickle and not isinstance(error, FleetMetricsError):
        with contextlib.suppress(Exception):
            data = pickle.dumps(error)
            if type(pickle.loads(data)) is not type(error):
                data = b""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Letter({"done": True, "error": described(error), "pickled": bool(data), "trace": trace}, data)
