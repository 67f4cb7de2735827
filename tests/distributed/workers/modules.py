"""One worker that reports which modules of the package a compute runs through, the second time."""

from __future__ import annotations

import os
import sys
from typing import Any

from cluster import arguments, report

import fleetmetrics as fm

METRICS = {"AUC": lambda: fm.AUC(), "Sliced": lambda: fm.Sliced(fm.AUC(), "slot")}


def modules_of(metric: Any) -> list[str]:
    """The files whose functions were called."""
    found = set()

    def note(frame: Any, event: str, arg: Any) -> None:
        found.add(frame.f_code.co_filename)

    metric.compute()
    sys.setprofile(note)
    try:
        metric.compute()
    finally:
        sys.setprofile(None)
    root = os.path.dirname(fm.__file__)
    return sorted(os.path.relpath(path, root) for path in found if path.startswith(root))


modules = {}
for name in arguments()["metrics"]:
    metric = METRICS[name]()
    columns = {"slot": [1, 1, 2, 2]} if name == "Sliced" else {}
    metric.add([0.1, 0.9, 0.4, 0.6], [0, 1, 1, 0], **columns)
    modules[name] = modules_of(metric)
report(modules=modules)
