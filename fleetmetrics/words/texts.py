"""The files of texts, ``en.ini`` and ``zh.ini`` in this folder: a translator edits them without Python.

The format is that of `configparser`, because Python 3.9 reads no TOML, and JSON has neither comments nor long lines.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Literal, Mapping, get_args

from fleetmetrics.errors import FileAccessError

__all__ = ["LANGUAGES", "texts_of"]

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@functools.lru_cache(maxsize=None)
def texts_of(language: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of a language's file, each with its texts by key.

    Args:
        language: one of `LANGUAGES`.

    Raises:
        FileAccessError: the file is missing, as in a zip of Python files alone.
    """
    import configparser  # few programs need a text
    import pkgutil

    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys keep their case
    name = f"{language}.ini"
    try:
        content = pkgutil.get_data(__package__, name)  # from a zip, too
    except OSError as error:
        place = f"fleetmetrics/words/{name}"
        raise FileAccessError(f"{place} is missing: copy or zip the package with all of its files ({error})") from None
    parser.read_string((content or b"").decode("utf-8"), name)
    return MappingProxyType({name: MappingProxyType(_joined(parser[name])) for name in parser.sections()})


def _joined(section: Mapping[str, str]) -> dict[str, str]:
    """The texts of a section, each on one line; double quotes around a text keep the spaces at its ends."""
    lines = {key: text.replace("\n", " ") for key, text in section.items()}
    return {key: line[1:-1] if line[:1] == line[-1:] == '"' else line for key, line in lines.items()}
