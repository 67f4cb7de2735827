"""Change the imports of scripts for MMEval, MMEngine's evaluator and MMPretrain's metrics.

``python -m fleetmetrics.migrate FILE...`` shows the changes as a diff, and names by file and line what has no
counterpart. ``--write`` makes the changes: in all files, or in none if one cannot be read. Exit status: 0 if no
manual work remains, 1 if some does, 2 after an error, which names the file.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import re
import sys
import tokenize
from typing import Any, Sequence

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.serial.container import whole_file
from fleetmetrics.support.checks import texts_of

__all__ = ["main", "migrated"]

_PRETRAIN = "Accuracy AveragePrecision ConfusionMatrix MultiLabelMetric RetrievalAveragePrecision RetrievalRecall"
#: The place in this package for the names of each module, and of modules inside it.
_COUNTERPARTS = {
    "mmeval": ("fleetmetrics", "BaseMetric get_dist_backend list_all_backends set_default_dist_backend"),
    "mmengine": ("fleetmetrics.evaluator", "METRICS"),
    "mmengine.evaluator": ("fleetmetrics.evaluator", "BaseMetric DumpResults Evaluator get_metric_value"),
    "mmpretrain.registry": ("fleetmetrics.evaluator", "METRICS"),
    "mmpretrain.evaluation": ("fleetmetrics.evaluator", f"{_PRETRAIN} SingleLabelMetric"),
}
_MODULES = re.compile(
    r"mmeval(\.core|\.metrics)?|mmengine(\.evaluator|\.registry)?|mmpretrain(\.registry|\.evaluation(\.metrics)?)?"
)
#: Names to report if they have no counterpart; everything else of MMEngine and MMPretrain stays.
_NAMED = re.compile(r"(mmeval|mmengine\.(evaluator|dist)|mmpretrain\.evaluation)(\.|$)|mm\w+\.registry\.EVALUATORS?$")
#: The same in strings: types in configurations, and modules that are imported by name.
_TEXTS = re.compile(
    r"(mmeval|mmengine\.evaluator)[\w.]*|(mmpretrain\.)?(ANLS|COCOCaption|GQAAcc|MultiTasksMetric|NocapsSave|ReportVQA|"
    r"ScienceQAMetric|ShapeBiasMetric|VisualGroundingMetric|VOCAveragePrecision|VOCMultiLabelMetric|VQAAcc)"
)


def migrated(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Change only the imports of a script, and the uses of modules that it imports.

    Args:
        text: Python source; anything else is a `SyntaxError`.

    Returns:
        The new text, and the remaining manual work by line.

    Examples:
        >>> migrated("import mmeval; print(mmeval.BaseMetric)")
        ('import fleetmetrics; print(fleetmetrics.BaseMetric)', [])
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"text must be the source of a script, not {text!r:.80}")
    script = _Script(text)
    for start, end, new in sorted(script.edits, reverse=True):
        text = text[:start] + new + text[end:]
    ast.parse(text)
    return text, sorted(script.notes)


def _counterpart(path: str) -> str:
    """Its name here, such as "fleetmetrics.BaseMetric" for "mmeval.core.BaseMetric"; empty without a counterpart."""
    module, _, name = path.rpartition(".")
    for known, (home, names) in _COUNTERPARTS.items():
        if f"{module}.".startswith(f"{known}.") and name in names.split():
            return f"{home}.{name}"
    return ""


def _bound(node: Any) -> list[tuple[str, str]]:
    """The names that an import binds, each with its meaning."""
    if isinstance(node, ast.ImportFrom):
        return [(name.asname or name.name, f"{'.' * node.level}{node.module or ''}.{name.name}") for name in node.names]
    return [(name.asname, name.name) if name.asname else (name.name.partition(".")[0],) * 2 for name in node.names]


class _Script:
    """A script: ``edits``, texts with their places; and ``notes``, the remaining manual work."""

    def __init__(self, text: str) -> None:
        self.text, self.lines = text, re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
        self.edits: list[tuple[int, int, str]] = []
        self.notes: set[tuple[int, str]] = set()
        nodes: list[Any] = list(ast.walk(ast.parse(text)))
        imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        modules = {name: path for node in imports for name, path in _bound(node) if _MODULES.fullmatch(path)}
        # Names of modules: the used parts are here, or are not.
        self.changed: set[str] = set()
        self.needed: set[str] = set()
        outer = {id(node.value): node for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Name) and node.id in modules:
                self._change_use(node, modules[node.id], outer)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _TEXTS.fullmatch(node.value):
                self._name(node, repr(node.value), "has no counterpart in fleetmetrics")
        for node in imports:
            self._change_import(node)

    def _name(self, node: Any, path: str, text: str = "") -> None:
        if text or _NAMED.match(path):
            self.notes.add((node.lineno, f"{path} {text or 'has no counterpart in fleetmetrics, and stays'}"))

    def _put(self, first: Any, last: Any, text: str) -> None:
        """Put a string where these are; `ast` counts lines from 1, and columns in bytes."""
        ends = [(first.lineno - 1, first.col_offset), (last.end_lineno - 1, last.end_col_offset)]
        start, end = (len("".join(self.lines[:n]) + self.lines[n].encode()[:column].decode()) for n, column in ends)
        self.edits.append((start, end, text))

    def _change_use(self, name: Any, path: str, outer: dict[int, Any]) -> None:
        """Change ``mmeval.BaseMetric``."""
        last, here = name, ""
        while not here and id(last) in outer:
            last = outer[id(last)]
            path = f"{path}.{last.attr}"
            here = _counterpart(path)
        (self.changed if here else self.needed).add(name.id)
        if here:
            self._put(name, last, here)
        else:
            self._name(name, path)

    def _change_import(self, node: Any) -> None:
        own = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
        homes: dict[str, list[str]] = {}
        for alias, (name, path) in zip(node.names, _bound(node)):
            text = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            home = _counterpart(path).rpartition(".")[0] if own else ""
            if name not in self.changed - self.needed:
                homes.setdefault(home or own, []).append(text)
            if text == "*" and _MODULES.fullmatch(own):
                self._name(node, path, "hides what is used: import it by name, and run this again")
            elif text == "Registry" and own.startswith("mmengine") and "METRICS" in self.text:
                self._name(node, path, "stays; for metrics there is fleetmetrics.evaluator.registry.Registry")
            elif not home and name not in {*self.changed, *self.needed}:
                self._name(node, path)
        order = sorted(homes, key=lambda home: home == own)
        new = [(f"from {home} " if home else "") + f"import {', '.join(homes[home])}" for home in order]
        if any(name in self.changed for name, _ in _bound(node)):
            new.insert(0, "import fleetmetrics")
        elif {*homes} == {own}:
            return
        line = self.lines[node.lineno - 1]
        head, newline = line.encode()[: node.col_offset].decode(), "\r\n" if line.endswith("\r\n") else "\n"
        self._put(node, node, ("; " if head.strip() else newline + head).join(new))
        if own and len(order) == len(new) == 1 and order[0] != own:  # the names are the same, so their form stays
            start, end, _ = self.edits.pop()
            self.edits.append((start, end, self.text[start:end].replace(own, order[0], 1)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser("python -m fleetmetrics.migrate", description=about, allow_abbrev=False)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Python script or configuration")
    parser.add_argument("--write", action="store_true", help="make the changes, instead of showing them")
    options = parser.parse_args(None if arguments is None else texts_of("arguments", arguments))
    changed, notes = {}, []
    try:
        for path in options.files:
            with open(path, "rb") as file:
                data = file.read()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            changed[path] = data.decode(encoding), *migrated(data.decode(encoding)), encoding
        for path, (old, new, left, encoding) in changed.items():
            notes += [f"{path}:{line}: {text}" for line, text in left]
            if new != old and options.write:
                with whole_file(path) as draft:
                    draft.write(new.encode(encoding))
                print(f"{path}: changed")
            elif new != old:
                print(*difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm=""), sep="\n")
    except Exception as error:  # also of Python's own parser; 1 would say that manual work remains
        print(
            f"{path}:{getattr(error, 'lineno', None) or 1}: {error}; nothing was changed here or after", file=sys.stderr
        )
        return 2
    for note in notes:
        print(note, file=sys.stderr)
    return 1 if notes else 0


if __name__ == "__main__":
    sys.exit(main())
