"""Every error and warning that fleetmetrics raises on purpose.

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
    "CorruptFileError",
    "DataError",
    "DeadlineError",
    "DuplicateStateError",
    "FileAccessError",
    "FleetMetricsError",
    "IntegerOverflowError",
    "InvalidInputError",
    "MissingLibraryError",
    "NoChannelError",
    "RecordError",
    "ServerProcessError",
    "SizeWarning",
    "StateNotFoundError",
    "StaticProgramError",
    "UnauthenticatedWarning",
    "UndefinedMetricWarning",
    "UnknownNameError",
]


class FleetMetricsError(Exception):
    """The base of every error that fleetmetrics raises on purpose."""

    about: Any = None  # the metric, or the requirement that a sample broke, while nobody has said whose
    broken: Any = None  # where samples break a requirement: the argument, what is allowed, and flags of such samples


class InvalidInputError(FleetMetricsError, ValueError):
    """An argument is not what it should be: the message names it, its value and what is allowed."""


class DataError(InvalidInputError):
    """Data in a file or a frame are not what they should be: the message names the file, the column and the row."""

    evaluated: Any = None  # what was made of the files that could be used
    of_row: bool = False  # whether a row is at fault, and not the file as a whole


class AssertedInputError(InvalidInputError, AssertionError):
    """An argument is not what it should be, where MMEval, MMEngine or MMPretrain have an ``assert``."""


class UnknownNameError(AssertedInputError, KeyError):
    """A name is none of those known: a metric type, a collect mode, a backend. The message lists them."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError's puts the message into quotes


class RecordError(InvalidInputError, TypeError):
    """A record cannot cross to another worker: it has no array form, and may not or cannot be pickled."""


class FileAccessError(FleetMetricsError, OSError):
    """A file or folder cannot be read or written: the message names it, and says what the system says."""


class CorruptFileError(FleetMetricsError, ValueError):
    """A file is not the checkpoint that was written: the message names the file, the place and what is wrong there."""


class StateNotFoundError(FleetMetricsError, LookupError):
    """A state variable is not in the scope, or holds nothing yet."""


class DuplicateStateError(FleetMetricsError, ValueError):
    """Two metrics would share a state variable by accident."""


class StaticProgramError(FleetMetricsError, RuntimeError):
    """A metric is used with a static program in a way that cannot give a right number."""


class MissingLibraryError(FleetMetricsError, ImportError):
    """An optional library cannot be imported; the message says which extra brings it."""


class IntegerOverflowError(FleetMetricsError, OverflowError):
    """A sum of integers does not fit into 64 bits."""


class CommunicatorError(FleetMetricsError, RuntimeError):
    """The workers' channel is broken, closed, or used from the wrong process."""


class NoChannelError(CommunicatorError):
    """The environment says that there are several workers, and no channel to them can be had."""


class ServerProcessError(CommunicatorError):
    """A metric was computed on a parameter server, which holds no samples."""


class AgreementError(CommunicatorError):
    """The workers called different metrics, or with different states; the message says which ranks."""


class AuthenticationError(CommunicatorError):
    """Workers could not prove to each other that they know the job's secret."""


class DeadlineError(CommunicatorError, TimeoutError):
    """A worker did not arrive before the deadline; the message names it."""


class UnauthenticatedWarning(UserWarning):
    """Anyone who reaches rank 0's port may pass for a worker: several machines, and no FLEETMETRICS_SECRET."""


class UndefinedMetricWarning(UserWarning):
    """A metric is undefined on the samples it was given; the value is the documented stand-in."""


class SizeWarning(UserWarning):
    """The samples that were counted do not add up to the ``size`` of the data set."""


class BucketWarning(UserWarning):
    """Buckets leave the value more uncertain than the metric's ``tolerance``."""
