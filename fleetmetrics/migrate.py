"""Change the imports of scripts for Paddle's fleet.metrics, MMEval, MMEngine's evaluator and MMPretrain's metrics.

``python -m fleetmetrics.migrate FILE...`` shows the changes as a diff, and names by file and line what has no
counterpart; of a folder it takes every Python file. ``--write`` makes the changes: in all files, or in none if one
cannot be read. Exit status: 0 if no manual work remains, 1 if some does, 2 after an error, which names the file.
"""

from __future__ import annotations

import ast
import difflib
import io
import os
import re
import sys
import tokenize
from typing import Any, Iterator, NamedTuple, Sequence

from fleetmetrics.cli.parsers import Parser
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.serial.container import whole_file
from fleetmetrics.support.checks import texts_of
from fleetmetrics.support.vocabulary import counted

__all__ = ["main", "migrated"]

_FLEET = "paddle.distributed.fleet.metrics"
#: Its names in a script, and two that only pages of Paddle have. Each module is here as a whole.
_WHOLE = re.compile(r"paddle\.(distributed\.(fleet\.)?)?metrics(\.metric)?")
#: Without Gloo, Paddle's own, of which nothing here has the name.
_LOCAL = re.compile(r"paddle\.distributed\.fleet\.util\.all_(reduce|gather)")
_PRETRAIN = "Accuracy AveragePrecision ConfusionMatrix MultiLabelMetric RetrievalAveragePrecision RetrievalRecall"
#: The place in this package for the names of each module, and of modules inside it.
_COUNTERPARTS = {
    "mmeval": ("fleetmetrics", "BaseMetric get_dist_backend list_all_backends set_default_dist_backend"),
    "mmengine": ("fleetmetrics.evaluator", "METRICS load"),
    "mmengine.evaluator": ("fleetmetrics.evaluator", "BaseMetric DumpResults Evaluator get_metric_value"),
    "mmpretrain.registry": ("fleetmetrics.evaluator", "METRICS"),
    "mmpretrain.structures": ("fleetmetrics.evaluator", "DataSample"),
    "mmpretrain.evaluation": ("fleetmetrics.evaluator", f"{_PRETRAIN} SingleLabelMetric"),
    _FLEET: ("fleetmetrics", "acc auc mae max min mse rmse sum"),
}
_MODULES = re.compile(
    r"mmeval(\.core|\.metrics)?|mmengine(\.evaluator|\.registry|\.fileio)?|"
    r"mmpretrain(\.registry|\.structures|\.evaluation(\.metrics)?)?|paddle(\.distributed(\.fleet)?)?"
)
#: Names to report if they have no counterpart: all except helpers, which compute nothing.
_NAMED = re.compile(
    r"(mmengine|mmpretrain|mmcv)(\.|$)|mmeval($|\.(?!(metrics\.)?utils\b|fileio\b|core\.dispatch))|"
    r"mm\w+\.registry\.EVALUATORS?$|paddle\.distributed\.fleet\.metrics\."
)
#: The same in strings: types in configurations, and modules that are imported by name.
_TEXTS = re.compile(
    r"(mmeval|mmengine\.evaluator)[\w.]*|(mm(pretrain|det)\.)?(ANLS|COCOCaption|Coco(Panoptic)?Metric|GQAAcc|"
    r"MultiTasksMetric|NocapsSave|ReportVQA|ScienceQAMetric|ShapeBiasMetric|VisualGroundingMetric|VOCAveragePrecision|"
    r"VOCMultiLabelMetric|VQAAcc)"
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
    module = _FLEET if _WHOLE.fullmatch(module) else module
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
        tree = ast.parse(text)
        nodes: list[Any] = list(ast.walk(tree))  # the statements of the module itself come first
        imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        meanings = dict(entry for node in imports for entry in _bound(node))
        # Names of modules: the used parts are here, or are not.
        self.changed: set[str] = set()
        self.needed: set[str] = set()
        self.outer = {id(node.value): node for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Name) and _MODULES.fullmatch(meanings.get(node.id, "")):
                self._change_use(node, meanings[node.id])
            elif isinstance(node, ast.Name) and id(node) in self.outer:
                self._check_use(node, meanings.get(node.id, ""))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _TEXTS.fullmatch(node.value):
                self._name(node, repr(node.value), "has no counterpart in fleetmetrics")
            elif isinstance(node, ast.Constant) and node.value == _FLEET:
                self._name(node, repr(node.value), "stays: import 'fleetmetrics' by its name instead")
        #: Whether a line above imports fleetmetrics, and whether that line is new.
        self.ours_is_bound = self.ours_is_new = False
        for node in imports:
            self._change_import(node, node in tree.body)

    def _name(self, node: Any, path: str, text: str = "") -> None:
        if text or _NAMED.match(path):
            self.notes.add((node.lineno, f"{path} {text or 'has no counterpart in fleetmetrics, and stays'}"))

    def _put(self, first: Any, last: Any, text: str) -> None:
        """Put a string where these are; `ast` counts lines from 1, and columns in bytes."""
        ends = [(first.lineno - 1, first.col_offset), (last.end_lineno - 1, last.end_col_offset)]
        start, end = (len("".join(self.lines[:n]) + self.lines[n].encode()[:column].decode()) for n, column in ends)
        self.edits.append((start, end, text))

    def _paths(self, name: Any, meaning: str) -> list[tuple[Any, str]]:
        """A name and its attributes, each with its path: mmeval, mmeval.core, mmeval.core.BaseMetric."""
        paths = [(name, meaning)]
        while id(name) in self.outer:
            name = self.outer[id(name)]
            paths.append((name, f"{paths[-1][1]}.{name.attr}"))
        return paths

    def _change_use(self, name: Any, meaning: str) -> None:
        """Change ``mmeval.BaseMetric``, or ``fleet.metrics.auc``."""
        paths = self._paths(name, meaning)
        last, path = next((entry for entry in paths if _counterpart(entry[1])), paths[-1])
        here = "fleetmetrics" if _WHOLE.fullmatch(path) else _counterpart(path)
        (self.changed if here else self.needed).add(name.id)
        if path.startswith("paddle."):
            self.needed.add(name.id)  # an import of Paddle stays, also where nothing else here uses it
        if here:
            self._put(name, last, here)
        elif _LOCAL.fullmatch(path) and "patch_fleet" not in self.text:
            text = "stays, and without Gloo covers one worker: call fleetmetrics.patch_fleet(util=True) before it"
            self._name(name, path, text)
        else:
            self._name(name, path)

    def _check_use(self, name: Any, meaning: str) -> None:
        """Name what is used of ``fleet.metrics`` and is not changed by changing an import."""
        for node, path in self._paths(name, name.id):
            _, dot, function = f".{path}".rpartition(".fleet.metrics.")
            here = dot and _counterpart(f"{_FLEET}.{function}")
            if here:
                self._name(node, path, f"stays: no import says what it is; if Paddle's, write {here}")
        for node, path in self._paths(name, meaning)[1:2]:
            if _WHOLE.fullmatch(meaning) and not _counterpart(path):
                self._name(node, path)

    def _drop(self, node: Any) -> bool:
        """Remove a statement, if it is alone on its line."""
        line = self.lines[node.lineno - 1]
        alone = node.lineno == node.end_lineno and line.strip() == (ast.get_source_segment(self.text, node) or "")
        if alone:
            start = len("".join(self.lines[: node.lineno - 1]))
            self.edits.append((start, start + len(line), ""))
        return alone

    def _change_import(self, node: Any, is_global: bool) -> None:
        if is_global and isinstance(node, ast.Import) and _bound(node) == [("fleetmetrics", "fleetmetrics")]:
            if self.ours_is_new:
                self._drop(node)
            self.ours_is_bound = True
            return
        own = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
        homes: dict[str, list[str]] = {}
        new = []
        for alias, (name, path) in zip(node.names, _bound(node)):
            text = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            home = _counterpart(path).rpartition(".")[0] if own else ""
            if _WHOLE.fullmatch(path):
                new.append(f"import fleetmetrics as {name}")
                continue
            if name not in self.changed - self.needed:
                homes.setdefault(home or own, []).append(text)
            if text == "*" and _NAMED.match(path):
                self._name(node, path, "hides what is used: import it by name, and run this again")
            elif text == "Registry" and own.startswith("mmengine") and "METRICS" in self.text:
                self._name(node, path, "stays; for metrics there is fleetmetrics.evaluator.registry.Registry")
            elif not home and name not in {*self.changed, *self.needed}:
                self._name(node, path)
        order = sorted(homes, key=lambda home: home == own)
        new += [(f"from {home} " if home else "") + f"import {', '.join(homes[home])}" for home in order]
        if any(name in self.changed for name, _ in _bound(node)) and not (new and self.ours_is_bound):
            if is_global and self.ours_is_bound and self._drop(node):
                return
            new.insert(0, "import fleetmetrics")
            self.ours_is_new |= is_global and not self.ours_is_bound
            self.ours_is_bound |= is_global
        elif {*homes} == {own} and len(homes[own]) == len(node.names):
            return
        line = self.lines[node.lineno - 1]
        head, newline = line.encode()[: node.col_offset].decode(), "\r\n" if line.endswith("\r\n") else "\n"
        self._put(node, node, ("; " if head.strip() else newline + head).join(new))
        start, end, _ = self.edits[-1]
        old = self.text[start:end]
        if len(order) == len(new) == 1 and order[0] != own in old:  # the names are the same, so their form stays
            self.edits[-1] = start, end, old.replace(own, order[0], 1)


def _scripts(path: str) -> Iterator[str]:
    """The file itself, or a folder's Python files, without those of hidden folders and virtual environments."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=_raise):
        is_environment = [os.path.exists(os.path.join(folder, name, "pyvenv.cfg")) for name in folders]
        folders[:] = sorted(name for name, is_one in zip(folders, is_environment) if not (is_one or name[0] == "."))
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py"))


def _raise(error: OSError) -> None:
    raise error


class _Source(NamedTuple):
    """A file's text, the text that it becomes, and the remaining manual work by line."""

    old: str
    new: str
    left: list[tuple[int, str]]
    encoding: str


def _source(path: str) -> _Source:
    if path.endswith(".ipynb"):
        raise InvalidInputError("a notebook is no script; make one by jupyter nbconvert --to script")
    with open(path, "rb") as file:
        data = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = data.decode(encoding)
    return _Source(text, *migrated(text), encoding)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    about = (__doc__ or "").partition("\n")[0]
    parser = Parser("python -m fleetmetrics.migrate", description=about)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Python script or configuration, or a folder")
    parser.add_argument("--write", action="store_true", help="make the changes, instead of showing them")
    tokens = sys.argv[1:] if arguments is None else texts_of("arguments", arguments)
    try:
        options = parser.parse_args(tokens)
    except InvalidInputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    sources: dict[str, _Source] = {}
    path = options.files[0]
    try:
        for path in options.files:
            if not (scripts := list(_scripts(path))):
                raise InvalidInputError("no file in this folder ends in .py")
            for path in scripts:
                sources[path] = _source(path)
        for path, source in sources.items():
            if source.new != source.old and options.write:
                with whole_file(path) as draft:
                    draft.write(source.new.encode(source.encoding))
                print(f"{path}: changed")
            elif source.new != source.old:
                lines = source.old.splitlines(), source.new.splitlines()
                print(*difflib.unified_diff(*lines, path, path, lineterm=""), sep="\n")
    except Exception as error:  # also of Python's own parser; 1 would say that manual work remains
        print(
            f"{path}:{getattr(error, 'lineno', None) or 1}: {error}; nothing was changed here or after", file=sys.stderr
        )
        return 2
    notes = [f"{path}:{line}: {text}" for path, source in sources.items() for line, text in source.left]
    if not notes and all(source.new == source.old for source in sources.values()):
        print(f"nothing to change in {counted(len(sources), 'files')}", file=sys.stderr)
    for note in notes:
        print(note, file=sys.stderr)
    return 1 if notes else 0


if __name__ == "__main__":
    sys.exit(main())
