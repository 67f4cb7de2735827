"""The owners of states in a scope: a variable beside each metric's states has a digest of its class and settings.

Paddle loads variables by their names, so a checkpoint may hold the states of a different metric under the same names,
in the same shapes. The startup program sets the digest, checkpoints carry it, and what reads the states compares it.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

import numpy as np
import paddle

from fleetmetrics.errors import StaticProgramError
from fleetmetrics.numbers.reductions import identity
from fleetmetrics.static.programs import kind_under_construction

__all__ = ["Claim", "array_in", "check_reading", "claim", "claims_of", "global_scope", "renew"]

global_scope = paddle.static.global_scope

#: Constants up to here are exact in every program.
_BITS = 48

_by_state: dict[str, Claim] = {}


@dataclass(frozen=True, eq=False)
class Claim:
    """The owner's mark of states.

    Attributes:
        name: the name of the metric, or of another owner of states.
        digest: the number that stands for its class and settings.
        states: name, shape, dtype and reduction of each of its states.
        program: a weak reference to the program that holds them.
    """

    name: str
    digest: int
    states: tuple[tuple[str, tuple[int, ...], str, str], ...]
    program: weakref.ref[Any]

    @property
    def variable(self) -> str:
        """The name of the variable that holds the digest."""
        return f"{self.name}.claim"

    def check(self, scope: Any) -> None:
        """Raise if the scope holds another metric's counts."""
        digest = _array(scope, self.variable)
        if digest is not None and not self._is(digest):
            raise StaticProgramError(
                f"{self.name}: a checkpoint has the states of a different metric under this name: its class or its "
                "settings differ. Build the metric of the saved program, give this one a different name, or reset it; "
                "fleetmetrics.static.load starts metrics that do not fit from zero"
            )

    def fits(self, variables: Any) -> bool:
        """Whether variables, by name, belong to this metric or to no metric."""
        return self.variable not in variables or self._is(np.asarray(variables[self.variable]))

    def _is(self, digest: np.ndarray) -> bool:
        return digest.size > 0 and digest.flat[0] == self.digest

    def write(self, scope: Any) -> None:
        """Mark the states in the scope as this metric's."""
        scope.var(self.variable).get_tensor().set(np.array([self.digest]), paddle.CPUPlace())


def claim(name: str, kind: Any, states: Sequence[Any], program: Any) -> None:
    """Add an owner's mark to the states of a program under construction; shared states stay with the first owner.

    Args:
        name: the owner's name.
        kind: its class, and its settings, fit for JSON.
        states: its states.
        program: the program that holds them.
    """
    declared = tuple((state.name, state.shape, state.dtype, state.reduction) for state in states)
    digest = int.from_bytes(hashlib.sha256(json.dumps(kind).encode()).digest()[: _BITS // 8], "big")
    owner = Claim(name, digest, declared, weakref.ref(program))
    first = _by_state.get(declared[0][0])
    if first is not None and first.program() is not None and (first.name, first.states) == (name, declared):
        owner = first
    program_kind = kind_under_construction()
    if owner.variable not in program_kind.variables(program):
        program_kind.create(owner.variable, (1,), "int64", lambda: paddle.full([1], owner.digest, "int64"))
    _by_state.update({state[0]: owner for state in declared})


def claims_of(names: Iterable[str]) -> list[Claim]:
    """The claims of states, each once."""
    return list(dict.fromkeys(_by_state[name] for name in names if name in _by_state))


def check_reading(name: str, scope: Any, checked: set[Claim]) -> None:
    """Raise if a state to be read belongs to another metric; ``checked``: the claims that need no second look."""
    owner = _by_state.get(name)
    if owner is not None and owner not in checked:
        owner.check(scope)
        checked.add(owner)


def renew(name: str, scope: Any) -> None:
    """Claim the states of a reset metric, as soon as all of them are reset."""
    for owner in claims_of([name]):
        held = [(_array(scope, state), dtype, reduction) for state, _, dtype, reduction in owner.states]
        if all(array is None or (array == identity(reduction, dtype)).all() for array, dtype, reduction in held):
            owner.write(scope)


def array_in(variable: Any) -> np.ndarray | None:
    """A copy of the numbers of a scope's variable; None if it holds nothing yet."""
    tensor = variable.get_tensor()
    if not tensor._is_initialized():
        return None
    copy: np.ndarray = tensor.__array__()  # numpy.asarray tries other protocols first and takes twice as long
    return copy


def _array(scope: Any, name: str) -> np.ndarray | None:
    variable = scope.find_var(name)
    return None if variable is None else array_in(variable)
