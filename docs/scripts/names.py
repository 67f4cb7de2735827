"""Write every public name: _names.py for the lazy packages themselves, and __init__.pyi for type checkers.

    python docs/scripts/names.py

Of fleetmetrics/metrics, of fleetmetrics/vision, and of the modules named in ``FORMULAS``, all are public that is in
``__all__``. And write the arguments of `evaluate`, and those that `consistency` shares with it, from their list in
fleetmetrics/evaluation/arguments/options.py.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import runpy
import sys
import textwrap
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
    "evaluation.consistency.consistency_result": ["ConsistencyResult"],
    "evaluation.consistency.streams": ["consistency"],
    "evaluation.history": ["HistoryResult", "history"],
    "formulas.bootstrap": ["BootstrapResult"],
    "formulas.differences": None,
    "formulas.intervals": ["IntervalResult"],
    "functional": None,
    "base.metric": ["Declared", "Metric"],
    "base.merging": None,
    "integrations.patch": None,
    "base.record_metric": ["GroupedMetric", "RecordMetric"],
    "samplers.sampling": ["padding_mask", "remaining_indices"],
    "integrations.scalars": ["flatten"],
    "integrations.scikit_learn": None,
    "integrations.scoring": ["scorer"],
    "wrappers.bootstrap": None,
    "wrappers.interval": None,
    "wrappers.sliced": None,
    "wrappers.windowed": None,
}
#: The modules whose functions are those of `fleetmetrics.formulas`.
FORMULAS = (
    *("aggregation", "auc", "calibration", "class_areas", "class_report", "classification", "click_through"),
    *("confusion", "contingency", "correlation", "curves", "exact_areas", "operating_points", "pairs", "quotients"),
    "ranking",
)
#: The modules that are reached by their names.
ROOMS = ("evaluation", "evaluator", "files", "formulas", "plot", "report", "static")
#: What the packages inside call for their names.
FIRST_USE = "def _first_use(package: str, name: str, modules: dict[str, str]) -> object: ..."
#: What ``from fleetmetrics import *`` leaves alone: Python's own names.
NOT_STARRED = ("max", "min", "sum")


def public() -> dict[str, list[str]]:
    """The public names by module."""
    found: dict[str, Iterable[str]] = {}
    for name, chosen in OTHERS.items():
        module = importlib.import_module(f"fleetmetrics.{name}")
        found[module.__name__] = module.__all__ if chosen is None else chosen
    for root in ("fleetmetrics.metrics", "fleetmetrics.vision"):
        for info in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}."):
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
#: The module of each name of `fleetmetrics.formulas`, likewise.
FORMULAS: dict[str, str] = {{
{formulas}
}}
#: The modules that are reached by their names.
ROOMS: tuple[str, ...] = (
{rooms}
)
#: What ``from fleetmetrics import *`` leaves alone: Python's own names.
NOT_STARRED: tuple[str, ...] = ({not_starred})
'''


def table(names: dict[str, str]) -> str:
    """The table, in Python, of the package's own names and the formulas: an archive may lack the stubs."""
    rooms = [f'    "{name}",' for name in ROOMS]
    not_starred = ", ".join(f'"{name}"' for name in NOT_STARRED)
    tables = [[f'    "{name}": "{module}",' for name, module in each.items()] for each in (names, by_name(formulas()))]
    package, of_formulas = map("\n".join, tables)
    return _TABLE.format(names=package, formulas=of_formulas, rooms="\n".join(rooms), not_starred=not_starred)


def by_name(modules: dict[str, list[str]]) -> dict[str, str]:
    """The module of each name."""
    return {name: module for module, names in modules.items() for name in names}


def formulas() -> dict[str, list[str]]:
    """The names of `fleetmetrics.formulas` by module, read from the files: the package imports them by the table."""
    modules = {}
    for name in FORMULAS:
        tree = ast.parse((PACKAGE / "formulas" / f"{name}.py").read_text(encoding="utf-8"))
        assigned = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
        modules[f"fleetmetrics.formulas.{name}"] = sorted(ast.literal_eval(assigned["__all__"]))
    return modules


def with_options(source: str, after: str, before: str, names: Iterable[str]) -> str:
    """The source of a function with some of its arguments as they are declared, in the signature and the docstring.

    Args:
        source: of its module.
        after: the argument before them.
        before: the argument that follows.
        names: of these arguments.
    """
    options = importlib.import_module("fleetmetrics.evaluation.arguments.options")
    fields = {declared.name: declared for declared in dataclasses.fields(options.Options)}
    parameters, descriptions = [], []
    for declared in (fields[name] for name in names):
        default = "" if declared.default is dataclasses.MISSING else f" = {declared.default!r}".replace("'", '"')
        kind = re.sub(r"'(\w+)'", r'"\1"', declared.type)  # Python keeps a hint with other quotes than ours
        parameters.append(f"    {declared.name}: {kind}{default},\n")
        text = f"{declared.name}: {options.OPTIONS[declared.name].reference}"
        wrapped = textwrap.wrap(text, 112, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        descriptions += [f"        {line}\n" for line in wrapped]
    signature = re.compile(rf"(?<=\n)(    {after}: [^\n]*,\n(?:    \*,\n)?)    .*?(?=    {before}: )", re.DOTALL)
    docstring = re.compile(rf"(?<=\n)(        {after}: .*?\n)        \w+: .*?(?=        {before}: )", re.DOTALL)
    source, signatures = signature.subn(lambda match: match[1] + "".join(parameters), source)
    source, docstrings = docstring.subn(lambda match: match[1] + "".join(descriptions), source)
    if (signatures, docstrings) != (1, 1):
        raise SystemExit(f"there is no place for arguments between {after} and {before}")
    return source


def written() -> dict[Path, str]:
    """What the files hold."""
    modules = public()
    rooms = [f"from . import {name} as {name}" for name in ROOMS]
    calls, streams = PACKAGE / "evaluation" / "calls.py", PACKAGE / "evaluation" / "consistency" / "streams.py"
    options = importlib.import_module("fleetmetrics.evaluation.arguments.options")
    return {
        PACKAGE / "_names.py": table(by_name(modules)),
        PACKAGE / "__init__.pyi": stub(modules, *rooms, "", "_modules: dict[str, str]", "", FIRST_USE),
        PACKAGE / "formulas" / "__init__.pyi": stub(formulas()),
        calls: with_options(calls.read_text(encoding="utf-8"), "data", "communicator", options.OPTIONS),
        streams: with_options(streams.read_text(encoding="utf-8"), "skip_bad_rows", "memory", options.OF_FILES),
    }


if __name__ == "__main__":
    # The formulas first: the package, whose names are then looked up, imports them by the table.
    (PACKAGE / "_names.py").write_text(table(runpy.run_path(str(PACKAGE / "_names.py"))["MODULES"]), encoding="utf-8")
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
