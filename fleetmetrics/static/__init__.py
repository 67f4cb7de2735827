"""State variables inside a static program, in the legacy graph (Paddle 2.6) and in PIR (3.x).

A state is a persistable global variable of the worker, int64 or float64, that operations of the program
update with every batch. It is read with ``scope.find_var(name)``, saved with the other persistables, and
reduced over the workers by `fleetmetrics.sum`, ``max`` and ``min``, or by a metric's ``compute``.

Importing this module imports Paddle.
"""

from fleetmetrics.support.optional import library

library("paddle")  # its error says what to install

from fleetmetrics.static.claims import claim  # noqa: E402
from fleetmetrics.static.drop_in import auc, ctr_metric_bundle  # noqa: E402
from fleetmetrics.static.scopes import Glance  # noqa: E402
from fleetmetrics.static.variables import StaticState, accumulate, create_state, current_program, load, states  # noqa: E402

__all__ = [
    "Glance",
    "StaticState",
    "accumulate",
    "auc",
    "claim",
    "create_state",
    "ctr_metric_bundle",
    "current_program",
    "load",
    "states",
]
