"""All messages of errors and warnings have one style; walks the source for those that it can read there."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

import pytest

pytestmark = pytest.mark.numpy_only

PACKAGE = Path(__file__).resolve().parents[1] / "fleetmetrics"


class Module:
    """A module's source: the messages in it, and the texts that they may end with."""

    def __init__(self, path: Path) -> None:
        self.path, self.tree = path, ast.parse(path.read_text("utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self.functions = {node.name: node for node in self.nodes if isinstance(node, ast.FunctionDef)}
        self.assigned: dict[ast.AST, dict[str, list[ast.expr]]] = {}

    def messages(self) -> Iterator[tuple[int, str]]:
        """The line of each message, and a text that it may end with; nothing for one that is not known here."""
        for call in self.nodes:
            if isinstance(call, ast.Call) and call.args and self._is_of_message(call.func):
                around = (function for function in self.functions.values() if _is_within(call, function))
                for function in [self.tree, *around]:
                    yield from ((call.lineno, end) for end in self._ends(call.args[0], function))
        for name, function in self.functions.items():
            for node in ast.walk(function) if name == "text" or name.endswith(("_text", "_status")) else ():
                if isinstance(node, ast.Return):
                    yield from ((node.lineno, end) for end in self._ends(node.value, function))

    @staticmethod
    def _is_of_message(called: ast.expr) -> bool:
        name = getattr(called, "id", getattr(called, "attr", ""))
        return name.endswith(("Error", "Warning")) or name in ("warn", "_refusal", "error", "_refuse")

    def _ends(self, text: ast.expr | None, function: ast.AST, depth: int = 4) -> Iterator[str]:
        """The texts that an expression may end with, through names and functions of the module."""
        if depth == 0 or text is None:
            return
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield text.value
        elif isinstance(text, ast.JoinedStr) and text.values:
            yield from self._ends(text.values[-1], function, depth)
        elif isinstance(text, ast.FormattedValue):
            yield from self._ends(text.value, function, depth)
        elif isinstance(text, ast.BinOp):
            yield from self._ends(text.right, function, depth)
        elif isinstance(text, ast.IfExp):
            yield from self._ends(text.body, function, depth)
            yield from self._ends(text.orelse, function, depth)
        elif isinstance(text, ast.BoolOp):
            for value in text.values:
                yield from self._ends(value, function, depth)
        elif isinstance(text, ast.Name):
            for value in self._values(function).get(text.id, []):
                yield from self._ends(value, function, depth - 1)
        elif isinstance(text, ast.Call):
            name = getattr(text.func, "id", getattr(text.func, "attr", ""))
            for node in ast.walk(self.functions[name]) if name in self.functions else ():
                if isinstance(node, ast.Return):
                    yield from self._ends(node.value, self.functions[name], depth - 1)

    def _values(self, function: ast.AST) -> dict[str, list[ast.expr]]:
        """What a function assigns, by name."""
        if function not in self.assigned:
            values = self.assigned[function] = {}
            for node in self.nodes:
                if isinstance(node, (ast.Assign, ast.AugAssign)) and _is_within(node, function):
                    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                        values.setdefault(getattr(target, "id", ""), []).append(node.value)
        return self.assigned[function]


def _is_within(node: ast.stmt | ast.expr, function: ast.AST) -> bool:
    """Whether a node lies in a function; all do in the module."""
    return not isinstance(function, ast.FunctionDef) or function.lineno <= node.lineno <= (function.end_lineno or 0)


def test_no_message_ends_in_a_full_stop() -> None:
    """A message may go on: "; did you mean ...?", a place in a file, or how many more there are."""
    modules = map(Module, sorted(PACKAGE.rglob("*.py")))
    ends = {(module.path.relative_to(PACKAGE), line, end) for module in modules for line, end in module.messages()}
    assert len(ends) > 500
    wrong = [f"{path}:{line}: {end[-40:]!r}" for path, line, end in sorted(ends) if end.endswith(".") and end != "."]
    assert not wrong, "\n".join(wrong)
