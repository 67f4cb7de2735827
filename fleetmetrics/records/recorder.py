"""The base of metrics over records, in MMEval's and MMEngine's style, and the states that they condense records to."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Mapping, Sequence

import numpy as np

from fleetmetrics.comm.failures import by_rank
from fleetmetrics.errors import AgreementError, IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers.reductions import REDUCTIONS, combine, widen
from fleetmetrics.records.batches import Columns
from fleetmetrics.records.ledger import Ledger, counted
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.support.checks import choice_of, flag_of, path_of
from fleetmetrics.support.settings import Told, raise_if_missing, raise_if_unknown
from fleetmetrics.support.traced import keep_out_of_programs

__all__ = ["Recorder", "States", "checked_states", "combine_states"]

#: Reduction and int64 or float64 array by name.
States = Mapping[str, "tuple[str, np.ndarray]"]


class Recorder(Told, ABC):
    """The common part of metrics over records."""

    allow_pickle: bool
    collect_dir_shared: bool

    incidental: ClassVar[tuple[str, ...]] = (
        "collect_dir",
        "collect_dir_shared",
        "collect_device",
        "allow_pickle",
        "dataset_meta",
        "dist_backend",
        "logger",
        "sampler",
    )  # fmt: skip

    #: Whether a sampler that repeats samples is still to be warned of.
    warns_of_repeats: bool = True
    #: The method that computes the value from records, set by the class that users derive from.
    _computed_by: str
    #: The method that takes a batch, and the function that counts its samples.
    _fed_by: tuple[str, Callable[..., int | None]]

    if not TYPE_CHECKING:  # which should take the signature from __init__

        def __new__(cls, *arguments: Any, **settings: Any) -> Any:
            """Raise an error that hints at the argument meant, where Python would only name the unknown one."""
            parameters = inspect.signature(cls.__init__).parameters
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
                raise_if_unknown(cls, [name for name in settings if name not in parameters])
            raise_if_missing(cls, arguments, settings)
            return super().__new__(cls, *arguments, **settings)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name, count = cls._fed_by
        if inspect.isfunction(vars(cls).get(name)) and "_fed_by" not in vars(cls):  # a user's method
            setattr(cls, name, counted(vars(cls)[name], count))

    def __init__(self, collect_dir: str | None, collect_dir_shared: bool, allow_pickle: bool) -> None:
        keep_out_of_programs(type(self), self._fed_by[0], "compute", "compute_local", "evaluate")
        own = self._own_methods()
        if self._computed_by not in own and len(own) < 2:
            raise TypeError(
                f"Can't instantiate abstract class {type(self).__name__} with abstract method {self._computed_by} (or"
                " summarize and compute_from)"
            )
        self.collect_dir: str | None = None if collect_dir is None else path_of("collect_dir", collect_dir)
        self.collect_dir_shared = flag_of("collect_dir_shared", collect_dir_shared)
        self.allow_pickle = flag_of("allow_pickle", allow_pickle)
        self._ledger = Ledger()
        #: Facts about the data set.
        self.dataset_meta: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: Paddle 2.6 cannot pickle the tensors in records, and `paddle.save` breaks them."""
        held = {name: vars(self)[name] for name in ("_records", "results", "_columns") if name in vars(self)}
        plain = {name: value.plain() if isinstance(value, Columns) else value for name, value in held.items()}
        packed = pack([plain], True)
        state = {name: value for name, value in vars(self).items() if name not in held}
        return {**state, "packed": (packed.layout, b"".join(packed.buffers))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        (held,) = unpack(state["packed"][0], bytearray(state["packed"][1]), True)
        held.update({name: Columns(*held[name]) for name in held if name == "_columns"})
        vars(self).update({**state, **held})
        del self.packed  # type: ignore[attr-defined]

    def summarize(self, results: Any) -> Mapping[str, Any] | None:
        """Condense one worker's records to states, where sums suffice.

        Args:
            results: this worker's records without padding, in the form from which the value is computed; empty only if
                no worker has any.

        Returns:
            Arrays or numbers by name, to be summed over the workers; a pair such as ``("max", array)`` for another
            reduction; None to send these records after all.
        """
        raise NotImplementedError(f"{type(self).__name__} must define summarize")

    def compute_from(self, states: Any) -> Any:
        """The value, from the states of all workers; runs on one worker.

        Args:
            states: int64 or float64 arrays by name.
        """
        raise NotImplementedError(f"{type(self).__name__} must define compute_from")

    def _summarized(self, results: Any) -> Any:
        """The value from records, through states."""
        name = type(self).__name__
        states = self.summarize(results)
        if states is None:
            raise InvalidInputError(
                f"summarize of {name} returned None, and it does not define {self._computed_by} for that case"
            )
        return self.compute_from(combine_states(name, [checked_states(name, states)]))

    @abstractmethod
    def _appended(self) -> list[Any]:
        """The records that the batch method has appended."""

    @abstractmethod
    def _value_of(self, results: Any) -> Any:
        """The value from records, by the method that users define."""

    def _finished(self, value: Any) -> Any:
        """The value as users get it."""
        return value

    @classmethod
    def _own_methods(cls) -> dict[str, int]:
        """Those of the three methods that a user's class defines, and their distance in the class hierarchy."""
        names = (cls._computed_by, "summarize", "compute_from")
        depth = {name: next(i for i, parent in enumerate(cls.__mro__) if name in vars(parent)) for name in names}
        base = next(i for i, parent in enumerate(cls.__mro__) if "_computed_by" in vars(parent))
        return {name: place for name, place in depth.items() if place < base}


def checked_states(name: str, summary: Any) -> States:
    """The states that a metric's ``summarize`` returned: arrays or numbers, or pairs of a reduction and an array."""
    if not isinstance(summary, Mapping):
        raise InvalidInputError(
            f"summarize of {name} returned {type(summary).__name__}; it must return a dict of arrays by name, or None"
        )
    states = {}
    for key, value in summary.items():
        if isinstance(value, tuple) and len(value) != 2:
            raise InvalidInputError(
                f"summarize of {name}: {key!r} is a tuple of {len(value)}; give an array or a number, or a pair of a"
                " reduction and an array, such as ('max', array)"
            )
        reduction, array = value if isinstance(value, tuple) else ("sum", value)
        choice_of(f"summarize of {name}: the reduction of {key!r}", reduction, REDUCTIONS)
        states[str(key)] = (reduction, widen(array, f"{name}.{key}"))
    return states


def combine_states(name: str, states: Sequence[States | None]) -> dict[str, np.ndarray]:
    """Reduce the workers' states, by rank; None for one without records."""
    kinds = [
        "no records"
        if worker_states is None
        else ", ".join(f"{how} of {key} {list(a.shape)}" for key, (how, a) in worker_states.items())
        for worker_states in states
    ]
    present = [worker_states for worker_states in states if worker_states is not None]
    if len({kind for kind, worker_states in zip(kinds, states) if worker_states is not None}) > 1:
        raise AgreementError(f"{name}: summarize returned different states: {by_rank(kinds)}")
    result = {}
    for key, (reduction, _) in present[0].items():
        arrays = [worker_states[key][1] for worker_states in present]
        dtype = np.result_type(*arrays)
        try:
            result[key] = combine(reduction, [array.astype(dtype, copy=False) for array in arrays])
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{name}, state {key!r}: {error}") from None
    return result
