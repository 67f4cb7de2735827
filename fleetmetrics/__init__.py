"""fleetmetrics: global metrics for Paddle's distributed jobs.

N workers print the number that one process would print over the whole data set, the same on every rank, or
they all raise the same clear error before the deadline.

Examples:
        >>> import fleetmetrics
        >>> auc = fleetmetrics.AUC()
        >>> auc.add(prediction=[0.1, 0.4, 0.35, 0.8], label=[0, 0, 1, 1])
        >>> auc.compute()                           # over all workers, wherever it runs
        0.75

Importing this does not import Paddle; ``fleetmetrics.static`` does.
"""

from __future__ import annotations

from typing import Any

from fleetmetrics._version import __version__
from fleetmetrics.base_metric import BaseMetric
from fleetmetrics.collection import MetricCollection
from fleetmetrics.comm import (
    Communicator,
    LocalCommunicator,
    SocketCommunicator,
    UtilCommunicator,
    get_communicator,
    set_communicator,
)
from fleetmetrics.comm.backends import get_dist_backend, list_all_backends, set_default_dist_backend
from fleetmetrics.errors import *  # noqa: F403
from fleetmetrics.errors import __all__ as _errors
from fleetmetrics.functional import acc, auc, mae, max, min, mse, rmse, sum
from fleetmetrics.hints import hint_of_name
from fleetmetrics.metric import Metric
from fleetmetrics.metrics import *  # noqa: F403
from fleetmetrics.metrics import __all__ as _metrics
from fleetmetrics.sampling import padding_mask
from fleetmetrics.wrappers import *  # noqa: F403
from fleetmetrics.wrappers import __all__ as _wrappers

__all__ = [
    "BaseMetric",
    "Communicator",
    "LocalCommunicator",
    "Metric",
    "MetricCollection",
    "SocketCommunicator",
    "UtilCommunicator",
    "__version__",
    "acc",
    "auc",
    "evaluator",  # noqa: F405
    "get_communicator",
    "get_dist_backend",
    "list_all_backends",
    "mae",
    "max",
    "min",
    "mse",
    "padding_mask",
    "rmse",
    "set_communicator",
    "set_default_dist_backend",
    "static",  # noqa: F405
    "sum",
    *_errors,
    *_metrics,
    *_wrappers,
]


def __getattr__(name: str) -> Any:
    if name in ("evaluator", "static"):  # lazily: static imports Paddle
        import importlib

        return importlib.import_module(f"fleetmetrics.{name}")
    raise AttributeError(f"module 'fleetmetrics' has no attribute {name!r}{hint_of_name(name, __all__)}")
