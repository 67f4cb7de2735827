"""What the reference shows beside the docstrings: an extension of griffe, which mkdocs.yml names.

Signatures have every argument with its type and default, also what ``Unpack[...]`` stands for. A metric's entry has a
table of its section in fleetmetrics/words, every argument, also those that other metrics describe, and what ``add``
takes; its formulas are mathematics, and names between single backticks are links.
"""

from __future__ import annotations

import ast
import inspect
import logging
import re
import sys
from html import escape
from pathlib import Path
from typing import Any, Iterator

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import fleetmetrics
from docs.scripts._arguments import described, in_one_place
from docs.scripts.mathematics import NotMathematics, is_mathematics, mathml
from fleetmetrics.base.accumulator import FOR_USERS
from fleetmetrics.support.settings import signature_of
from fleetmetrics.words.catalogue import entries

log = logging.getLogger("mkdocs.hooks.reference")
ROOT = Path(fleetmetrics.__file__).resolve().parent.parent
#: The methods of a metric that users call, in the order in which they need them.
METHODS = list(FOR_USERS)
_SECTION = re.compile(r"^(?:Args|Raises|Returns|Yields|Examples|Attributes):$", re.MULTILINE)
_HEADED = re.compile(r"^(Formula|Source|Elsewhere):\s*", re.MULTILINE)
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_NAME = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)")


class Reference(griffe.Extension):
    """Completes what griffe has read of the package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """After all modules of a package have been read."""
        if pkg.path != "fleetmetrics":
            return
        kinds = {name: pkg[f"{module.partition('.')[2]}.{name}"] for name, module in fleetmetrics._modules.items()}
        wrong = [*unlisted(kinds), *(line for each in kinds.values() for line in untyped(each))]
        links = Links(pkg)
        for name, kind in kinds.items():
            if isinstance(kind, griffe.Class):
                _spell_out(kind, getattr(fleetmetrics, name))
            wrong += hidden(kind)
        wrong += list(undescribed(kinds))
        for name in entries():
            kinds[name].docstring.value = in_one_place(getattr(fleetmetrics, name), kinds[name].docstring.value)
        wrong += [line for each in _described(pkg) for line in _rewrite(each, links)]
        wrong += without_mathematics(kinds)
        for line in wrong:
            log.warning(line)
        for name, entry in entries().items():
            _add_facts(kinds[name], getattr(fleetmetrics, name), entry, links)


def _place(each: griffe.Object, root: Path = ROOT) -> str:
    return f"{Path(str(each.filepath)).resolve().relative_to(root)}:{each.lineno}"


# -- what must be there -----------------------------------------------------------------------------------


def unlisted(kinds: dict[str, Any], folder: Path = ROOT / "docs" / "reference") -> Iterator[str]:
    """The metrics that no page of the reference has."""
    pages = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.md"))
    for name in entries():
        if name in kinds and not re.search(rf"^::: fleetmetrics\.{name}$", pages, re.MULTILINE):
            yield f"{_place(kinds[name])}: {name} is on no page of docs/reference; run `make names`"


def without_mathematics(kinds: dict[str, Any]) -> Iterator[str]:
    """The metrics whose entries show no formula; what wraps a metric has that of the metric."""
    for name in entries():
        kind = kinds[name]
        place = ("fleetmetrics.metrics.", "fleetmetrics.vision.")
        if fleetmetrics._modules[name].startswith(place) and "<math" not in kind.docstring.value:
            yield f"{_place(kind)}: {name} shows no formula; write `Formula: ``sum(w * x)``` in its docstring"


def undescribed(kinds: dict[str, Any]) -> Iterator[str]:
    """The arguments of metrics that no docstring describes."""
    common = inspect.signature(fleetmetrics.Metric).parameters
    for name in entries():
        kind = getattr(fleetmetrics, name)
        for argument in inspect.signature(kind).parameters:
            if argument not in common and not described(kind, argument):
                yield f"{_place(kinds[name])}: {name}: nothing says what {argument} is; write it into its Args"


def untyped(each: Any, root: Path = ROOT) -> Iterator[str]:
    """The public functions, methods and arguments without a type."""
    if isinstance(each, griffe.Class):
        for name, member in each.members.items():
            if not member.is_alias and (not name.startswith("_") or name == "__init__"):
                yield from untyped(member, root)
    elif isinstance(each, griffe.Function):
        missing = [f"the argument {one.name}" for one in each.parameters if one.annotation is None]
        bound = each.parent is not None and each.parent.is_class and "staticmethod" not in each.labels
        missing = missing[1:] if bound and missing else missing
        missing += ["what it returns"] * (each.returns is None)
        for what in missing:
            yield f"{_place(each, root)}: {each.path}: {what} has no type; write one, then run `make types`"


def hidden(each: Any, root: Path = ROOT) -> Iterator[str]:
    """The arguments of a class or a function that readers do not see: ``Unpack[...]`` stands for them."""
    function = each.members.get("__init__") if isinstance(each, griffe.Class) else each
    for one in function.parameters if isinstance(function, griffe.Function) else ():
        if str(one.annotation).startswith("Unpack["):
            yield (
                f"{_place(each, root)}: {each.path}: **{one.name} hides the arguments of {one.annotation}; name them, "
                "then run `make types`"
            )


# -- signatures -------------------------------------------------------------------------------------------

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


def _spell_out(kind: griffe.Class, value: Any) -> None:
    """Give a class the arguments that it takes, those of its bases included, each with type and default."""
    if not isinstance(getattr(value, "__signature__", None), inspect.Signature):
        return
    init = kind.members.get("__init__")
    if init is None or init.is_alias:
        init = griffe.Function("__init__", lineno=kind.lineno, endlineno=kind.lineno, returns="None")
        kind.set_member("__init__", init)
    parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for each in signature_of(value).parameters.values():
        default = None if each.default is each.empty else repr(each.default)
        annotation = None
        if each.annotation is not each.empty:
            text = each.annotation if isinstance(each.annotation, str) else each.annotation.__name__
            annotation = griffe.safe_get_annotation(ast.parse(text, mode="eval").body, parent=init)
        parameters.append(griffe.Parameter(each.name, annotation=annotation, kind=_KINDS[each.kind], default=default))
    init.parameters = griffe.Parameters(*parameters)
    kind.overloads.pop("__init__", None)


# -- docstrings -------------------------------------------------------------------------------------------


class Links:
    """Where names between single backticks lead to."""

    def __init__(self, pkg: griffe.Module) -> None:
        self.pkg = pkg

    def target(self, name: str, of: griffe.Object) -> str:
        """The identifier of what a name means in the docstring of an object; "": nothing that is documented."""
        plain = name[len("fleetmetrics.") :] if name.startswith("fleetmetrics.") else name
        if plain in fleetmetrics._modules:
            return f"fleetmetrics.{plain}"
        short = plain.rpartition(".")[2]
        function = getattr(fleetmetrics.formulas, short, None) if short in fleetmetrics.formulas.__all__ else None
        if plain in (short, f"formulas.{short}") and getattr(function, "__module__", None):
            return f"{function.__module__}.{short}"
        holder = of if of.is_class else of.parent
        if plain in METHODS and holder is not None and holder.is_class:
            return f"fleetmetrics.Metric.{plain}"
        return name if name.startswith("fleetmetrics.") else f"{of.module.path}.{name}"

    def made(self, text: str, of: griffe.Object) -> str:
        """Text with links; where nothing is documented under a name, it stays a name."""
        return _NAME.sub(lambda found: _link(self.target(found[1], of), found[1]), text)

    def made_outside_code(self, text: str, of: griffe.Object) -> str:
        """The same in text whose indented lines are code."""
        return "".join(line if line.startswith("    ") else self.made(line, of) for line in text.splitlines(True))


def _link(target: str, name: str) -> str:
    return f'<autoref identifier="{target}" optional><code>{name}</code></autoref>'


def _described(each: Any) -> Iterator[Any]:
    """Every object with a docstring."""
    if each.docstring is not None:
        yield each
    for member in each.members.values():
        if not member.is_alias:
            yield from _described(member)


def _rewrite(each: Any, links: Links) -> list[str]:
    """Turn the formulas of a docstring into mathematics, its names into links, and head its parts; what is wrong."""
    text = each.docstring.value
    section = _SECTION.search(text)
    head, rest = (text[: section.start()], text[section.start() :]) if section else (text, "")
    try:
        head = "\n\n".join(_paragraphs(head, each, links))
    except NotMathematics as error:
        return [
            f"{_place(each)}: {each.path}: {error}; write it as other formulas, or teach docs/scripts/mathematics.py"
        ]
    each.docstring.value = links.made_outside_code(head, each) + ("\n\n" + links.made(rest, each) if rest else "")
    return []


def _paragraphs(head: str, each: Any, links: Links) -> Iterator[str]:
    """The paragraphs before the sections, those of formulas with mathematics."""
    within = False
    for paragraph in re.split(r"\n\n+", head.strip()):
        headed = _HEADED.match(paragraph)
        indented = paragraph.startswith("    ")
        if headed:
            yield f'<p class="fm-part">{headed[1]}</p>'
            within = headed[1] == "Formula"
            paragraph = paragraph[headed.end() :]
            if within and headed[0].endswith("\n    "):
                paragraph = "    " + paragraph
                indented = True
        elif not indented:
            within = False
        if within and indented:
            yield _displayed(paragraph)
        elif within:
            yield _with_mathematics(paragraph[:1].upper() + paragraph[1:] if headed else paragraph)
            yield from _formulas_of_others(paragraph, links)
        else:
            yield paragraph


def _with_mathematics(text: str) -> str:
    def drawn(found: re.Match[str]) -> str:
        code = " ".join(found[1].split())
        return f'<span class="fm-math">{mathml(code)}</span>' if is_mathematics(code) else found[0]

    return _CODE.sub(drawn, text)


def _displayed(block: str) -> str:
    """Indented lines, each a formula, or several with much space between them."""
    lines = []
    for piece in (piece for line in block.splitlines() for piece in re.split(r" {3,}", line.strip())):
        case = re.match(r"(k = \d|else): +", piece)
        label = (f"{mathml(case[1])}: " if "=" in case[1] else f"{case[1]}: ") if case else ""
        lines.append(f'<p class="fm-math">{label}{mathml(piece[case.end() :] if case else piece)}</p>')
    return "\n\n".join(lines)


def _formulas_of_others(paragraph: str, links: Links) -> Iterator[str]:
    """The formulas that a metric refers to: "see `fleetmetrics.formulas.auc_from_histogram`"."""
    if re.search(r"``[^`]*\b(?:sum|max_t|sqrt)\b", paragraph):
        return
    for name in re.findall(r"`fleetmetrics\.formulas\.([\w.]+)`", paragraph):
        function = getattr(fleetmetrics.formulas, name, None)
        path = f"{function.__module__}.{name}" if function is not None else f"fleetmetrics.formulas.{name}"
        there = links.pkg[path.partition(".")[2]]
        text = inspect.cleandoc(getattr(there.docstring, "source", None) or _source(there))
        found = re.search(r"^Formula:.*?(?=\n\n(?! )|\Z)", text, re.DOTALL | re.MULTILINE)
        if found:
            first, *more = list(_paragraphs(found[0], there, links))[1:]
            link = _link(path, name.rpartition(".")[2])
            yield from (f"<p>{link}:</p>", first) if first.startswith("<p") else (f"{link}: {first}",)
            yield from more


def _source(there: Any) -> str:
    """The docstring as it is written, whether or not it has been rewritten here."""
    lines = Path(str(there.filepath)).read_text(encoding="utf-8").splitlines()
    tree = ast.parse("\n".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == there.name:
            return ast.get_docstring(node) or ""
    return ""


# -- the table of a metric --------------------------------------------------------------------------------


def _add_facts(kind: griffe.Class, value: Any, entry: Any, links: Links) -> None:
    """Put the table behind the first paragraph."""
    names = "; ".join(
        f"{library}: {', '.join(f'<code>{escape(name)}</code>' if name.isascii() else name for name in listed)}"
        for library, listed in entry.elsewhere.items()
    )
    rows = {
        "Range": escape(entry.range),
        "Better": escape(entry.better(value)) if issubclass(value, fleetmetrics.Metric) else "",
        "Undefined if": escape(entry.undefined),
        "Plots": ", ".join(
            _link(f"fleetmetrics.plot.{name}", f"fleetmetrics.plot.{name}") for name in getattr(value, "pictures", ())
        ),
        "Reference": escape(entry.source),
        "Other names": names,
        "Methods": ", ".join(_link(f"fleetmetrics.Metric.{name}", name) for name in METHODS if hasattr(value, name)),
    }
    lines = (f'<tr><th scope="row">{name}</th><td>{what}</td></tr>' for name, what in rows.items() if what)
    table = f'<table class="fm-facts"><tbody>{"".join(lines)}</tbody></table>'
    first, gap, rest = kind.docstring.value.partition("\n\n")
    kind.docstring.value = f"{first}\n\n{table}{gap}{rest}"
