"""Reading the variables of a scope."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from fleetmetrics.errors import FleetMetricsError, InvalidInputError, StateNotFoundError
from fleetmetrics.static.claims import Claim, array_in, check_reading, global_scope
from fleetmetrics.support.hints import near

__all__ = ["Glance"]


class Glance:
    """A scope from which variables are read in a row: each claim of a metric is checked once.

    Args:
        scope: None: the global scope.
    """

    def __init__(self, scope: Any = None) -> None:
        self._scope = global_scope() if scope is None else scope
        self._find: Any = getattr(self._scope, "find_var", None)  # called for each variable
        self._checked: set[Claim] = set()

    def read(self, name: str, argument: str = "scope") -> np.ndarray:
        """A copy of a variable's numbers.

        Args:
            name: of the variable.
            argument: the name of the argument that named it, for errors.

        Raises:
            StateNotFoundError: there is no such variable, or it holds nothing yet.
            InvalidInputError: this is no scope of Paddle's.
            StaticProgramError: it holds the counts of another metric.
        """
        try:
            variable = self._find(name)
        except (TypeError, UnicodeError):
            raise InvalidInputError(
                f"{argument}: {name!r:.60} is looked up in scope, which must be one of Paddle's or None, not "
                f"{self._scope!r:.60}"
            ) from None
        check_reading(name, self._scope, self._checked)
        array = None if variable is None else array_in(variable)
        if array is None:
            raise self._missing(name, variable, argument)
        return array

    def _missing(self, name: str, variable: Any, argument: str) -> FleetMetricsError:
        if variable is not None:
            return StateNotFoundError(
                f"{argument}: variable {name!r} is in the scope but holds nothing yet; run the startup program first"
            )
        known = _names_in(self._scope)
        names = near(name, known) or known[:5]
        hint = f"names there: {', '.join(names)}" if names else "no variable of the current program is there"
        return StateNotFoundError(
            f"{argument}: no variable {name!r} in the scope ({hint}). It must be persistable and the startup program "
            "must have run; pass scope= if it ran in a different scope"
        )


def _names_in(scope: Any) -> list[str]:
    """The scope's names; a 2.6 scope does not list them, so this tries those of the current program."""
    if hasattr(scope, "local_var_names"):
        return sorted(scope.local_var_names())
    names = {variable.name for variable in paddle.static.default_main_program().list_vars()}
    return sorted(name for name in names if scope.find_var(name) is not None)
