"""The arguments of a metric's entry, all in one place: those of its own docstring, and those of the metrics it names.

A docstring says "as for `Precision`" rather than the same twice; a reader of one entry wants the text.
"""

from __future__ import annotations

import inspect
import re
from typing import Iterator

import fleetmetrics

_SECTION = re.compile(r"^Args:\n((?: {4}.*\n?|\n(?= {4}))+)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}([\w*]+): (.*(?:\n(?: {8}.*|$))*)", re.MULTILINE)
_AS_FOR = re.compile(r"`(?:fleetmetrics\.)?([A-Z]\w+)`")
#: What points to the arguments of other metrics: in the section itself, and before it.
_SETTINGS = re.compile(r"as\s+for\s+`(?:fleetmetrics\.)?[A-Z]\w+`")
_PROSE = re.compile(r"(?:arguments\b[^.]*?\bas\s+for|[Ll]ike)\s+`(?:fleetmetrics\.)?[A-Z]\w+`", re.DOTALL)
_INPUTS = re.compile(r"[Ii]nputs\b[^.]*?\bas\s+for\s+(?:a\s+\w+\s+)?`(?:fleetmetrics\.)?([A-Z]\w+)`", re.DOTALL)


def arguments(kind: type) -> dict[str, str]:
    """The arguments that a docstring describes, with their texts."""
    section = _SECTION.search(inspect.cleandoc(kind.__doc__ or "") + "\n")
    entries = _ENTRY.findall(section[1]) if section else []
    return {name: re.sub(r"\n +", "\n", text).strip() for name, text in entries}


def described(kind: type, name: str, seen: tuple[type, ...] = ()) -> str:
    """What an argument of a metric is, wherever it is described; "": nowhere."""
    own = arguments(kind).get(name, "")
    whole = re.fullmatch(r"as\s+for\s+`(?:fleetmetrics\.)?([A-Z]\w+)`\.?", own)
    if own and not whole:
        return own
    others = [whole[1]] if whole else list(_pointed_to(kind))
    for other in [getattr(fleetmetrics, each) for each in others] + list(kind.__mro__[1:]):
        found = described(other, name, (*seen, kind)) if other not in (*seen, kind) and other is not object else ""
        if found:
            return found
    return own


def _pointed_to(kind: type) -> Iterator[str]:
    """The metrics whose arguments a docstring names as its own."""
    rest = " ".join(text for name, text in arguments(kind).items() if name.startswith("*"))
    head = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:")[0]
    for text in [*(each[0] for each in _SETTINGS.finditer(rest)), *(each[0] for each in _PROSE.finditer(head))]:
        for name in _AS_FOR.findall(text):
            if isinstance(getattr(fleetmetrics, name, None), type):
                yield name


def inputs(kind: type, seen: tuple[type, ...] = ()) -> str:
    """The paragraph on what ``add`` takes, if a docstring has it, or names the metric that has."""
    head = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:")[0]
    own = next((each for each in head.split("\n\n") if each.startswith("``add(")), "")
    other = _INPUTS.search(head)
    if own or other is None or kind in seen:
        return own
    return inputs(getattr(fleetmetrics, other[1]), (*seen, kind))


def in_one_place(kind: type, docstring: str) -> str:
    """A docstring with every argument of the metric, and with what ``add`` takes."""
    common = arguments(fleetmetrics.Metric)
    lines = []
    for name in inspect.signature(kind).parameters:
        text = described(kind, name)
        if name in common:
            text = f"{re.split(r'[.;](?:[ ]|$)', ' '.join(text.split()), maxsplit=1)[0]}; see `Metric`."
        if text:
            lines.append(f"    {name}: " + text.replace("\n", "\n        "))
    section = "Args:\n" + "\n".join(lines) + "\n" if lines else ""
    head, found, rest = docstring.partition("\nArgs:\n")
    if found:
        rest = _SECTION.sub("", f"Args:\n{rest}\n", count=1)
    else:
        place = re.search(r"^(?:Raises|Returns|Examples|Attributes):$", docstring, re.MULTILINE)
        head, rest = (docstring[: place.start()], docstring[place.start() :]) if place else (docstring, "")
    takes = inputs(kind)
    if takes and takes not in head:
        head = f"{head.rstrip()}\n\n{takes}\n"
    return f"{head.rstrip()}\n\n{section}\n{rest.lstrip()}".rstrip() + "\n"
