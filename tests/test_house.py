"""The structure of the package: imports point one way, and each module has a name of its own."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Iterator

import pytest
from graphlib import TopologicalSorter

pytestmark = pytest.mark.numpy_only

PACKAGE = Path(__file__).resolve().parent.parent / "fleetmetrics"
MODULES = {
    ".".join(("fleetmetrics", *path.relative_to(PACKAGE).with_suffix("").parts)).replace(".__init__", ""): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
#: What a module of the first kind may not know of.
BELOW = {
    "errors": {name.split(".")[1] for name in MODULES if "." in name},  # all
    "warning": {"arguments", "numbers", "formulas", "sampling", "batch", "xp", "state", "comm", "metric", "metrics"},
    "optional": {"arguments", "numbers", "formulas", "sampling", "batch", "xp", "state", "comm", "metric", "metrics"},
    "arguments": {"numbers", "formulas", "sampling", "batch", "xp", "state", "comm", "metric", "metrics"},
    "exact_sums": {"arguments", "numbers", "formulas", "sampling", "batch", "xp", "state", "comm", "metric", "metrics"},
    "numbers": {"formulas", "sampling", "batch", "xp", "state", "comm", "metric", "metrics"},
    "formulas": {"sampling", "batch", "xp", "state", "comm", "static", "metric", "metrics", "records"},
    "dealing": {"sampling", "batch", "xp", "state", "comm", "static", "metric", "metrics", "records"},
    "sampling": {"batch", "xp", "state", "comm", "static", "metric", "metrics", "records"},
    "xp": {"batch", "state", "static", "metric", "metrics", "records", "comm", "serial"},
    "serial": {"arguments", "numbers", "batch", "state", "static", "comm", "metric", "metrics", "records", "wrappers"},
    "comm": {"batch", "xp", "state", "static", "metric", "metrics", "records", "wrappers"},
    "batch": {"accumulator", "metric", "metrics", "wrappers", "records", "evaluator", "static"},
    "state": {"accumulator", "metric", "metrics", "wrappers", "evaluator"},
    "records": {"accumulator", "metric", "metrics", "wrappers", "evaluator", "record_metric", "base_metric"},
    "plot": {"batch", "state", "static", "accumulator", "metric", "metrics", "wrappers", "records", "evaluator"},
    "vocabulary": {name.split(".")[1] for name in MODULES if "." in name},  # all
    "report": {"evaluation", "cli"},
    "evaluation": {"cli"},
    "metric": {"metrics", "wrappers", "collection", "evaluator", "record_metric"},
    "metrics": {"wrappers", "collection", "evaluator"},
    "wrappers": {"evaluator"},
}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a tree imports, in functions and for type checkers, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (part if part in MODULES else node.module for part in parts)


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules of the package that each of them imports."""
    return {
        name: {each for each in imported(ast.parse(path.read_text())) if each in MODULES} - {name}
        for name, path in MODULES.items()
    }


def test_no_imports_go_in_a_circle(imports):
    # The package itself is what users import; it hands out names lazily.
    TopologicalSorter({name: found - {"fleetmetrics"} for name, found in imports.items()}).prepare()


def test_imports_point_down_the_way_of_the_data(imports):
    for name, found in imports.items():
        room = name.split(".")[1] if "." in name else ""
        up = {each for each in found if "." in each and each.split(".")[1] in BELOW.get(room, ())}
        assert not up, f"{name} imports {sorted(up)}"


def test_each_module_has_a_name_of_its_own():
    """Except for formulas, which are the twins of the metrics of the same name."""
    names = Counter(
        path.name for path in MODULES.values() if path.name != "__init__.py" and path.parent.name != "formulas"
    )
    assert [name for name, number in names.items() if number > 1] == []
