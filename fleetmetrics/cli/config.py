"""Options in a TOML file, instead of a long command."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Mapping

from fleetmetrics.cli.values import classes, metrics, options_meant, slices
from fleetmetrics.errors import InvalidInputError, MissingLibraryError
from fleetmetrics.support.hints import did_you_mean
from fleetmetrics.support.optional import library

__all__ = ["tokens_of"]


def tokens_of(path: str, parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    """The options of a file as tokens of a command line; options on the command line itself win.

    Args:
        path: the file.
        parser: the parser of the options.
        args: the arguments of the command line, which replace those of the file.

    Raises:
        InvalidInputError: the file or an option does not exist, or a value has the wrong type.
    """
    options = {text[2:]: action for action in parser._actions for text in action.option_strings if text[:2] == "--"}
    options = {name: action for name, action in options.items() if name not in ("help", "config")}
    tokens: list[str] = []
    for key, value in _read(path).items():
        name = key.replace("_", "-")
        if name == "files":
            tokens += [] if args.files else _texts(path, key, value)
            continue
        if name not in options:
            meant = options_meant(name, ["files", *options])
            hint = did_you_mean(meant) or f"; there are files, {', '.join(options)}"
            raise InvalidInputError(f"{path}: there is no option {key!r}{hint}")
        of_file = _tokens_of_option(path, key, value, options[name])
        tokens += [] if _is_on_the_line(options[name], args) else of_file
    return tokens


def _is_on_the_line(action: argparse.Action, args: argparse.Namespace) -> bool:
    """Whether the command line itself has an option."""
    return action.dest in args.stored or getattr(args, action.dest) not in (action.default, None)


def _tokens_of_option(path: str, key: str, value: Any, action: argparse.Action) -> list[str]:
    """An option and its value as tokens of a command line."""
    option = f"--{key.replace('_', '-')}"
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise InvalidInputError(f"{path}: {key} must be true or false, not {value!r}")
        return [option] if value else []
    if isinstance(action, argparse._AppendAction):
        return [f"{option}={text}" for text in _texts(path, key, value)]
    return [f"{option}={_text(path, key, value, action)}"]


def _text(path: str, key: str, value: Any, action: argparse.Action) -> str:
    """A value as a token of the command line."""
    if action.type in (int, float):
        kinds, what = ((int,), "an integer") if action.type is int else ((int, float), "a number")
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise InvalidInputError(f"{path}: {key} must be {what}, not {value!r}")
        return str(value)
    if action.type is classes and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return value
    texts = _texts(path, key, value)
    if action.type in (metrics, slices):
        return ",".join(texts)
    return ",".join('"{}"'.format(text.replace('"', '""')) for text in texts)


def _texts(path: str, key: str, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(f"{path}: {key} must be a string, or a list of strings, not {value!r}")
    return texts


def _read(path: str) -> Mapping[str, Any]:
    try:
        toml = library("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except MissingLibraryError as error:
        raise MissingLibraryError(f"--config {path}: {error}") from None
    try:
        with open(path, "rb") as file:
            options: Mapping[str, Any] = toml.load(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(f"--config {path or repr(path)}: {reason}") from None
    return options
