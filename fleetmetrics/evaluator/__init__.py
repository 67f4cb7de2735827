"""Evaluation with MMEngine's interface: an `Evaluator` feeds metrics, and computes them over all workers."""

from __future__ import annotations

import functools
from typing import Callable

from fleetmetrics.evaluator.dump import DumpResults
from fleetmetrics.evaluator.engine_metric import BaseMetric
from fleetmetrics.evaluator.evaluator import Evaluator, Evaluators, get_metric_value
from fleetmetrics.evaluator.metrics import *  # noqa: F403
from fleetmetrics.evaluator.metrics import __all__ as _metrics
from fleetmetrics.evaluator.registry import METRICS
from fleetmetrics.evaluator.stand_ins import DataSample, load

__all__ = [
    "METRICS",
    "BaseMetric",
    "DataSample",
    "DumpResults",
    "Evaluator",
    "Evaluators",
    "get_metric_value",
    "load",
    *_metrics,
]

__dir__: Callable[[], list[str]] = functools.partial(sorted, __all__)
