"""All errors and warnings of fleetmetrics.

All errors derive from `FleetMetricsError`, so one ``except`` catches them; each also derives from
the built-in error that a reader would expect (``ValueError``, ``TimeoutError``, ...).
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AgreementError",
    "AssertedInputError",
    "AuthenticationError",
    "BucketWarning",
    "CommunicatorError",
    "ConditionError",
    "CorruptFileError",
    "DataError",
    "DeadlineError",
    "DuplicateStateError",
    "FileAccessError",
    "FleetMetricsError",
    "IntegerOverflowError",
    "InvalidInputError",
    "MissingArgumentError",
    "MissingLibraryError",
    "NoChannelError",
    "NotReadyError",
    "RecordError",
    "ServerProcessError",
    "SizeWarning",
    "StateNotFoundError",
    "StaticProgramError",
    "UnauthenticatedWarning",
    "UndefinedMetricWarning",
    "UnknownArgumentError",
    "UnknownAttributeError",
    "UnknownNameError",
    "UnnamedRunWarning",
]


class FleetMetricsError(Exception):
    """The base class of the errors of fleetmetrics."""

    about: Any = None  # the metric, or the requirement that a sample broke, until a caller adds its name
    broken: Any = None  # if samples break a requirement: the argument, what is allowed, and flags of these samples


class InvalidInputError(FleetMetricsError, ValueError):
    """An argument is invalid: the message names it, its value and what is allowed."""


class DataError(InvalidInputError):
    """Data in a file or a frame are invalid: the message names the file, the column and the row."""

    evaluated: Any = None  # the result over the usable files
    of_row: bool = False  # whether a row is at fault instead of the whole file


class ConditionError(DataError):
    """A condition on rows compares a column with a value of another kind: no file or row is at fault."""


class AssertedInputError(InvalidInputError, AssertionError):
    """An argument is invalid where MMEval, MMEngine or MMPretrain have an ``assert``."""


class MissingArgumentError(InvalidInputError, TypeError):
    """A metric was created without an argument that it needs; the message names it."""


class UnknownArgumentError(InvalidInputError, TypeError):
    """A metric or function has no argument of this name; the message names a similar one, and lists all."""


class UnknownAttributeError(InvalidInputError, AttributeError):
    """A metric or result has no attribute of this name; the message names a similar one."""


class UnknownNameError(AssertedInputError, KeyError):
    """A name is unknown: of a number of a result, a metric type, a collect mode or a backend.

    The message names a similar one, or lists the known ones.
    """

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError's puts the message into quotes


class RecordError(InvalidInputError, TypeError):
    """A record cannot go to another worker: it has no array form, and pickling is off or fails."""


class FileAccessError(FleetMetricsError, OSError):
    """A file or folder cannot be read or written: the message names it, with the system's reason."""


class CorruptFileError(FleetMetricsError, ValueError):
    """A checkpoint is damaged or foreign: the message names the file, the place and the defect."""


class StateNotFoundError(FleetMetricsError, LookupError):
    """A state variable is not in the scope, or has no value yet."""


class DuplicateStateError(FleetMetricsError, ValueError):
    """Two metrics would share a state variable by accident."""


class StaticProgramError(FleetMetricsError, RuntimeError):
    """A metric is used with a static program in a way that would give a wrong number."""


class MissingLibraryError(FleetMetricsError, ImportError):
    """An optional library cannot be imported; the message has the command that installs it."""


class IntegerOverflowError(FleetMetricsError, OverflowError):
    """A sum of integers does not fit into 64 bits."""


class CommunicatorError(FleetMetricsError, RuntimeError):
    """A worker has gone, was interrupted or is refused; or the channel is closed, or used from the wrong process."""


class NoChannelError(CommunicatorError):
    """The environment names several workers, but there is no channel to them."""


class ServerProcessError(CommunicatorError):
    """A metric was computed in a parameter server, or in another process of the job that is not a worker."""


class AgreementError(CommunicatorError):
    """The workers' calls differ or wait for each other, or one ended with a result on some only; it names the ranks."""


class AuthenticationError(CommunicatorError):
    """A worker could not prove that it knows the job's secret."""


class DeadlineError(CommunicatorError, TimeoutError):
    """A worker did not arrive before the deadline; the message names it."""


class NotReadyError(FleetMetricsError, TimeoutError):
    """The answer of `compute_async` has not come within the timeout of ``result``; it may still come."""


class UnauthenticatedWarning(UserWarning):
    """Any process that reaches rank 0's port can pass for a worker: several machines without FLEETMETRICS_SECRET."""


class UnnamedRunWarning(UserWarning):
    """Nothing names the run, so another run with the same endpoints can pass for this one: set FLEETMETRICS_RUN."""


class UndefinedMetricWarning(UserWarning):
    """A metric is undefined for its samples; the value is the documented substitute."""


class SizeWarning(UserWarning):
    """The number of counted samples is not the ``size`` of the data set."""


class BucketWarning(UserWarning):
    """Buckets leave the value more uncertain than the metric's ``tolerance``."""
