"""Write every public name: _names.py for the lazy packages themselves, and __init__.pyi for type checkers.

    python docs/scripts/names.py

Of fleetmetrics/metrics, and of the modules named in ``FORMULAS``, all are public that is in ``__all__``.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Iterable

from _catalogue import DOCS

sys.path.insert(0, str(DOCS.parent))

PACKAGE = DOCS.parent / "fleetmetrics"

#: What is public of the other modules; None: their ``__all__``.
OTHERS: dict[str, list[str] | None] = {
    "_version": ["__version__"],
    "records.base_metric": None,
    "batch": ["Batch"],
    "saving.checkpoint": ["Resumed", "load", "save"],
    "base.collection": None,
    "comm": [
        "Communicator",
        "LocalCommunicator",
        "SocketCommunicator",
        "UtilCommunicator",
        "get_communicator",
        "set_communicator",
    ],
    "comm.backends": ["get_dist_backend", "list_all_backends", "set_default_dist_backend"],
    "saving.copies": None,
    "doctor": ["doctor"],
    "errors": None,
    "evaluation": ["EvaluationResult", "evaluate"],
    "evaluation.consistency_result": ["ConsistencyResult"],
    "evaluation.streams": ["consistency"],
    "formulas.bootstrap": ["BootstrapResult"],
    "formulas.differences": None,
    "formulas.intervals": ["IntervalResult"],
    "functional": None,
    "base.metric": ["Declared", "Metric"],
    "saving.merging": None,
    "integrations.patch": None,
    "base.record_metric": ["GroupedMetric", "RecordMetric"],
    "samplers.sampling": ["padding_mask", "remaining_indices"],
    "integrations.scalars": ["flatten"],
    "wrappers.bootstrap": None,
    "wrappers.interval": None,
    "wrappers.sliced": None,
    "wrappers.windowed": None,
}
#: The modules whose functions are those of `fleetmetrics.formulas`.
FORMULAS = (
    *("aggregation", "auc", "calibration", "class_areas", "classification", "click_through", "confusion"),
    *("correlation", "curves", "exact_areas", "operating_points", "pairs", "quotients", "ranking"),
)
#: The modules that are reached by their names.
ROOMS = ("evaluation", "evaluator", "files", "formulas", "plot", "report", "static")
#: What ``from fleetmetrics import *`` leaves alone: Python's own names.
NOT_STARRED = ("max", "min", "sum")


def public() -> dict[str, list[str]]:
    """The public names by module."""
    found: dict[str, Iterable[str]] = {}
    for name, chosen in OTHERS.items():
        module = importlib.import_module(f"fleetmetrics.{name}")
        found[module.__name__] = module.__all__ if chosen is None else chosen
    root = importlib.import_module("fleetmetrics.metrics")
    for info in pkgutil.walk_packages(root.__path__, "fleetmetrics.metrics."):
        module = importlib.import_module(info.name)
        found[info.name] = [] if info.ispkg else getattr(module, "__all__", [])
    return {module: sorted(names) for module, names in sorted(found.items()) if names}


def stub(modules: dict[str, list[str]], *more: str) -> str:
    """The stub of a package, which ends with ``more`` lines: type checkers follow no lazy import."""
    lines = [f"from {module} import {name} as {name}" for module, names in modules.items() for name in names]
    starred = sorted({name for names in modules.values() for name in names if name not in NOT_STARRED})
    all_ = ["__all__ = [", *[f'    "{name}",' for name in starred], "]"]
    return "\n".join(["# Written by `make names`.", *lines, *more, *all_, ""])


_TABLE = '''"""The public names; written by `make names`."""

from __future__ import annotations

#: The module of each name, which is imported at its first use.
MODULES: dict[str, str] = {{
{names}
}}
'''
_MORE = """#: The modules that are reached by their names.
ROOMS: tuple[str, ...] = (
{rooms}
)
#: What ``from fleetmetrics import *`` leaves alone: Python's own names.
NOT_STARRED: tuple[str, ...] = ({not_starred})
"""


def table(modules: dict[str, list[str]]) -> str:
    """The table, in Python: an archive that the package is imported from may lack the stub."""
    names = [f'    "{name}": "{module}",' for module, names in modules.items() for name in names]
    return _TABLE.format(names="\n".join(names))


def of_formulas() -> dict[Path, str]:
    """What the files of `fleetmetrics.formulas` hold; metrics import those names, so that nothing is imported here."""
    modules: dict[str, list[str]] = {}
    for name in FORMULAS:
        tree = ast.parse((PACKAGE / "formulas" / f"{name}.py").read_text(encoding="utf-8"))
        named = [node.value for node in tree.body if isinstance(node, ast.Assign) and _is_all(node.targets[0])]
        modules[f"fleetmetrics.formulas.{name}"] = sorted(ast.literal_eval(named[0]))
    folder = PACKAGE / "formulas"
    return {folder / "_names.py": table(modules), folder / "__init__.pyi": stub(modules)}


def _is_all(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "__all__"


def of_the_package() -> dict[Path, str]:
    """What the files of the package itself hold."""
    modules = public()
    rooms = [f'    "{name}",' for name in ROOMS]
    more = _MORE.format(rooms="\n".join(rooms), not_starred=", ".join(f'"{name}"' for name in NOT_STARRED))
    imported = [f"from . import {name} as {name}" for name in ROOMS]
    return {
        PACKAGE / "_names.py": table(modules) + more,
        PACKAGE / "__init__.pyi": stub(modules, *imported, "", "_modules: dict[str, str]"),
    }


if __name__ == "__main__":
    for written in (of_formulas, of_the_package):
        for path, text in written().items():
            path.write_text(text, encoding="utf-8")
