"""The structure of the package: imports point one way, and each module has a name of its own."""

from __future__ import annotations

import ast
import importlib
import re
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


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a tree imports, in functions and for type checkers, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (part if part in MODULES else node.module for part in parts)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


@pytest.fixture(scope="module")
def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The modules of the package that each of them imports."""
    return {name: {each for each in imported(tree) if each in MODULES} - {name} for name, tree in trees.items()}


def test_no_imports_go_in_a_circle(imports):
    # The package itself is what users import; it hands out names lazily.
    TopologicalSorter({name: found - {"fleetmetrics"} for name, found in imports.items()}).prepare()


@pytest.mark.parametrize("package", ["fleetmetrics", "fleetmetrics.evaluation"])
def test_the_docstring_lists_the_folders_in_an_order_in_which_imports_point_one_way(imports, package):
    folders = re.findall(r"^    (\w+)  +\S", ast.get_docstring(ast.parse(MODULES[package].read_text())), re.M)
    assert sorted(folders) == sorted(path.parent.name for path in MODULES[package].parent.glob("*/__init__.py"))
    height = {f"{package}.{folder}": number for number, folder in enumerate(folders)}

    def folder_of(module):
        return ".".join(module.split(".")[: package.count(".") + 2])

    for name in (module for module in imports if f"{module}.".startswith(f"{package}.")):
        below = {folder_of(module) for module in imports[name]}.intersection(height)
        up = {other for other in below if height[other] > height.get(folder_of(name), len(height))}
        assert not up, f"{name} imports {sorted(up)}"


def test_what_any_folder_may_use_stands_on_nothing(imports):
    assert imports["fleetmetrics.errors"] == set()


def test_each_module_has_a_name_of_its_own():
    """Except for formulas, which are the twins of the metrics of the same name."""
    names = Counter(
        path.name for path in MODULES.values() if path.name != "__init__.py" and path.parent.name != "formulas"
    )
    assert [name for name, number in names.items() if number > 1] == []


@pytest.mark.parametrize("package", ["comm", "evaluator", "files", "formulas", "plot"])
def test_completion_in_a_package_shows_what_users_call(package):
    module = importlib.import_module(f"fleetmetrics.{package}")
    assert dir(module) == sorted(module.__all__)


def test_no_conditional_expression_is_a_part_of_another(trees):
    """Such as ``a if b else c if d else e``, which must be read twice."""
    nested = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp)
        and any(isinstance(part, ast.IfExp) for part in (node.test, node.body, node.orelse))
    ]
    assert nested == []


#: Methods of named tuples, which are public in spite of their names.
OF_TUPLES = {"_asdict", "_replace"}


@pytest.mark.parametrize("folder", ["base", "metrics", "wrappers"])
def test_metrics_and_what_holds_them_call_no_private_method_of_each_other(trees, folder):
    """They call those of `fleetmetrics.base.nesting`."""
    called = []
    for module in (name for name in trees if name.startswith(f"fleetmetrics.{folder}.")):
        for node in ast.walk(trees[module]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, name = ast.unparse(node.func.value), node.func.attr
                if re.match(r"_[a-z]", name) and name not in OF_TUPLES and owner not in ("self", "cls", "super()"):
                    called.append(f"{module}:{node.lineno}: {owner}.{name}")
    assert called == []
