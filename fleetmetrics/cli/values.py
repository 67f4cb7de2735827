"""What the texts of options mean: names between commas, numbers of classes, names here and there."""

from __future__ import annotations

import argparse
from typing import Any, Mapping, Sequence

from fleetmetrics.support.hints import arguments_meant
from fleetmetrics.support.vocabulary import names_in, separated

__all__ = [
    "OF_TYPES",
    "SEPARATED",
    "VALUES",
    "classes",
    "columns",
    "columns_of_streams",
    "header",
    "metrics",
    "names",
    "options_meant",
    "renames",
    "slices",
]


def options_meant(name: str, options: Sequence[str]) -> list[str]:
    """The option that may be meant by another name, or nothing; all without the dashes before them."""
    arguments = [option.replace("-", "_") for option in options]
    return [argument.replace("_", "-") for argument in arguments_meant(name.replace("-", "_"), arguments)]


def columns(text: str) -> Any:
    """The name of a column, or a list of several between commas; a name with a comma is in double quotes."""
    several = names_in(text)
    return several if several[1:] else several[0]


def classes(text: str) -> Any:
    """The number of classes, or a list of their names."""
    return int(text) if text.isdigit() else names_in(text)


def header(text: str) -> list[str]:
    """The names of all columns."""
    return names_in(text)


def names(text: str) -> list[str]:
    """Names, without empty ones."""
    return list(filter(None, names_in(text)))


def renames(text: str) -> dict[str, str]:
    """The baseline's names of columns, by the names here."""
    pairs = [pair.partition("=") for pair in names(text)]
    if not all(here and there for here, _, there in pairs) or len({here for here, *_ in pairs}) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} must be HERE=THERE, such as y=label, for each column once")
    return {here: there for here, _, there in pairs}


def slices(text: str) -> list[str]:
    """The columns of slices; names in double quotes keep the quotes only if they contain a star."""
    crossed = [(by, names_in(by, "*")) for by in separated(text)]
    return [parts[0] if len(parts) == 1 and "*" not in parts[0] else by for by, parts in crossed if by]


def metrics(text: str) -> str:
    """Metrics, which are separated where they are checked."""
    return text


def columns_of_streams(text: str) -> str:
    """A column, or one for each stream, which are separated where the streams are known."""
    return text


#: How the command line takes an option, by what `Option.takes` says.
VALUES: Mapping[str, Mapping[str, Any]] = {
    "column": {"metavar": "COLUMN"},
    "columns": {"metavar": "COLUMN", "type": columns},
    "classes": {"metavar": "N", "type": classes},
    "files": {"metavar": "FILES", "action": "append"},
    "header": {"metavar": "NAMES", "type": header},
    "metrics": {"metavar": "NAMES", "type": metrics},
    "names": {"metavar": "NAMES", "type": names},
    "renames": {"metavar": "HERE=THERE", "type": renames},
    "slices": {"metavar": "COLUMNS", "type": slices},
}
#: And by its type, where the option says nothing.
OF_TYPES: Mapping[str, Mapping[str, Any]] = {
    "bool": {"action": "store_true"},
    "int": {"metavar": "N", "type": int},
    "float": {"type": float},
}
#: What takes several values between commas.
SEPARATED = (columns, columns_of_streams, header, metrics, names, renames, slices)
