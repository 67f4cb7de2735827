"""The owners of states in a scope: a small variable next to each metric's states names them, also in checkpoints.

Paddle loads variables by their names, and a counter names a metric without ``name=``: in a script with one metric less,
``auc_0`` is another metric. So the variable holds a digest of the metric's kind and settings, and for a generated name,
of all such metrics of the program; and a number of the process, which shows whether a checkpoint brought it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import weakref
from typing import Any, Iterable, Sequence

import numpy as np
import paddle

from fleetmetrics.errors import StaticProgramError
from fleetmetrics.numbers.reductions import identity
from fleetmetrics.static.programs import kind_under_construction
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import paddle_ops

__all__ = ["BY_COUNTER", "Claim", "array_in", "check_reading", "claim", "claims_of", "global_scope", "renew"]

global_scope = paddle.static.global_scope

#: Constants up to here are exact in every program.
_BITS = 48

_claims: dict[str, Claim] = {}
_by_state: dict[str, Claim] = {}


class Claim:
    """The owner's mark of states.

    Args:
        name: the name of the metric, or of another owner of states.
        kind: its class, and its settings, fit for JSON.
        made_up: whether a counter generated the name.
        states: name, shape, dtype and reduction of each of its states.
        program: the program that holds them.
    """

    kind: Any
    made_up: bool
    name: str
    states: Sequence[Any]
    variable: str

    def __init__(self, name: str, kind: Any, made_up: bool, states: Sequence[Any], program: Any) -> None:
        self.name, self.kind, self.made_up, self.states = name, kind, made_up, states
        self.program: weakref.ref[Any] = weakref.ref(program)
        self.variable = f"{name}.claim"
        self._digest: int | None = None
        self._beside = 0  # the number of claims at its creation

    def alike(self) -> list[Claim]:
        """The claims of this program with generated names, in order."""
        return [each for each in _claims.values() if each.made_up and each.program() is self.program()]

    @property
    def digest(self) -> int:
        """The number to compare; never 0."""
        if self._digest is None or (self.made_up and self._beside != len(_claims)):
            self._digest, self._beside = self._digest_of_now(), len(_claims)
        return self._digest

    def _digest_of_now(self) -> int:
        said = [[each.name, each.kind] for each in self.alike()] if self.made_up else self.kind
        return 1 + int.from_bytes(hashlib.sha256(json.dumps(said).encode()).digest()[: _BITS // 8], "big") // 2

    def check(self, scope: Any) -> None:
        """Raise if the scope holds another metric's counts; claim free states."""
        found = _numbers(scope, self.variable)
        if found is None:
            return
        digest, process = found
        own = process == _process(os.getpid())
        if digest == self.digest and own:
            return
        if digest not in (0, self.digest) and not (own and self.made_up):  # a metric may join those of its program
            raise StaticProgramError(f"{self.name}: {self.explained()}")
        if digest and not own and self.made_up:
            warn(f"{self.name} was loaded {BY_COUNTER}")
        self.write(scope)

    def explained(self) -> str:
        """The possible causes, in words."""
        others = [each.name for each in self.alike() if each is not self]
        beside = ""
        if self.made_up:
            beside = f", or the metrics around it were not {', '.join(others) or 'the same'}"
        return (
            "a checkpoint has the states of a different metric under this name: its class or its settings "
            f"differ{beside}. Build the metrics of the saved program, give each a name=, or reset this one; "
            "fleetmetrics.static.load starts metrics that do not fit from zero"
        )

    def fits(self, found: Any) -> bool:
        """Whether variables, by name, belong to this metric or to no metric."""
        array = found.get(self.variable)
        return array is None or int(np.asarray(array).ravel()[0]) in (0, self.digest)

    def write(self, scope: Any = None) -> None:
        """Mark the states in the scope as this metric's."""
        scope = global_scope() if scope is None else scope
        held = np.array([self.digest, _process(os.getpid())])
        scope.var(self.variable).get_tensor().set(held, paddle.CPUPlace())


#: Why a generated name may be wrong.
BY_COUNTER = (
    "by a name that was generated from the order of creation: if the saved program fed its metrics in a different "
    "order, these are the counts of a different metric. Give each metric of a static program a name="
)


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> int:
    """A number of this process."""
    return int.from_bytes(os.urandom(_BITS // 8), "big") // 2


def claim(name: str, kind: Any, made_up: bool, states: Sequence[Any], program: Any) -> None:
    """Add an owner's mark to states; shared states stay with the first owner."""
    made = Claim(name, kind, made_up, [(each.name, each.shape, each.dtype, each.reduction) for each in states], program)
    before = _claims.get(made.variable)
    if before is not None and before.program() is not None and before.states == made.states:
        made = before
    program_kind = kind_under_construction()
    if made.variable not in program_kind.variables(program):
        program_kind.create(made.variable, (2,), "int64", lambda: paddle_ops.identity((2,), "int64", "sum"))
    if made is not before:
        _claims.pop(made.variable, None)
        _claims[made.variable] = made
    _by_state.update({state.name: made for state in states})


def claims_of(names: Iterable[str]) -> list[Claim]:
    """The claims of states, each once."""
    return list(dict.fromkeys(_by_state[name] for name in names if name in _by_state))


def check_reading(name: str, scope: Any, checked: set[Claim]) -> None:
    """Raise if a state to be read belongs to another metric; ``checked``: the claims that need no second look."""
    own = _by_state.get(name)
    if own is not None and own not in checked:
        own.check(scope)
        checked.add(own)


def renew(name: str, scope: Any) -> None:
    """Claim the states of a reset metric, as soon as all of them are reset."""
    for own in claims_of([name]):
        held = [(_array(scope, state), shape, dtype, reduction) for state, shape, dtype, reduction in own.states]
        if all(array is None or (array == identity(reduction, dtype)).all() for array, _, dtype, reduction in held):
            own.write(scope)


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


def _numbers(scope: Any, name: str) -> list[int] | None:
    array = _array(scope, name)
    return None if array is None else [int(each) for each in array.ravel()]
