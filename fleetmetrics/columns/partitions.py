"""The values that stand in the names of folders, such as ``day=2026-11-22``, as Hive and Spark write them."""

from __future__ import annotations

import copy
import datetime
import os
import re
from typing import Any, Callable, Mapping, Sequence
from urllib.parse import unquote

__all__ = ["FOLDERS", "NUMERAL", "FilePath", "in_words", "types_of", "values_of", "with_types"]

#: The type of texts that are numbers, not all of them integers as Python writes them: 08, 0.5. As keys they stay as
#: they are; compared with a number they are numbers, as in DuckDB.
NUMERAL = "numeral"
#: Where a table's field has the type of values from folders' names: its metadata.
FOLDERS = "folders"

#: The type of a column that has no value in any folder.
_NOTHING = "null"
#: Hive's name of the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"


class FilePath(str):
    """The path of a file, with what is known about its rows from outside of the file.

    Attributes:
        types: the Arrow type of each column in the folders' names, the one that fits all files of the run; None: not
            known yet.
        top: the path whose folders' names count; empty: the file's own.
    """

    types: Mapping[str, str] | None = None
    top: str = ""

    @property
    def identity(self) -> str:
        """What workers that read the same data have in common."""
        return str(self)

    def of_types(self, types: Mapping[str, str]) -> FilePath:
        """The same path, whose folders' values have other types."""
        path = copy.copy(self)
        path.types = types
        return path


def with_types(paths: Sequence[str]) -> list[FilePath]:
    """The paths, with the types that fit the values in the folders' names of all of them.

    Examples:
        >>> [path.types for path in with_types(["hour=9/a.csv", "hour=10/a.csv"])]
        [{'hour': 'int64'}, {'hour': 'int64'}]
    """
    file_paths = [path if isinstance(path, FilePath) else FilePath(path) for path in paths]
    known = {id(path.types): path.types for path in file_paths if path.types is not None}  # those of an earlier call
    types = _fitting([types_of([path for path in file_paths if path.types is None]), *known.values()])
    for path in file_paths:
        if path.types is None:
            path.types = types
    return [path if path.types == types else path.of_types(types) for path in file_paths]


def _fitting(known: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The types that fit the values of several types, by column."""
    kinds: dict[str, set[str]] = {}
    for types in known:
        for name, kind in types.items():
            kinds.setdefault(name, set()).update({kind} - {_NOTHING})
    numbers = {"int64", "uint64", NUMERAL}
    fitting = {}
    for name, some in sorted(kinds.items()):
        several = NUMERAL if some <= numbers else "string"
        fitting[name] = next(iter(some), _NOTHING) if len(some) < 2 else several
    return fitting


def types_of(paths: Sequence[str]) -> dict[str, str]:
    """The Arrow type of each column in the folders' names of some files, or `NUMERAL`.

    Integers, dates and times have types of their own, as in DuckDB; any other text makes all of its column strings.
    """
    texts: dict[str, set[str]] = {}
    tops = (getattr(path, "top", "") or path for path in paths)
    for folder in {os.path.dirname(top) for top in tops if "=" in top}:
        for name, text in _values_in(folder).items():
            texts.setdefault(name, set()).update([text] if text else [])
    return {name: _type_of(texts[name]) if texts[name] else _NOTHING for name in sorted(texts)}


def values_of(path: str) -> dict[str, str | None]:
    """The values in the names of a file's folders, by column; None for a null."""
    return _values_in(getattr(path, "top", "") or os.path.dirname(path))


def _values_in(folder: str) -> dict[str, str | None]:
    if "=" not in folder:
        return {}
    pairs = [part.partition("=") for part in folder.split(os.sep)]
    return {name: None if text == _NULL else unquote(text) for name, sign, text in pairs if name and sign}


def in_words(kind: str) -> str:
    """What the values in folders' names were taken as.

    Args:
        kind: their type, of `types_of`.
    """
    kinds = {"int64": "integers", "uint64": "integers", "date32": "dates", "timestamp[us]": "times", _NOTHING: "nulls"}
    return {**kinds, NUMERAL: "numbers as written"}.get(kind, "strings")


def _type_of(texts: set[str]) -> str:
    for kind, fits in _TYPES.items():
        if all(map(fits, texts)):
            return kind
    return "string"


def _is_integer(low: int, high: int) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        return re.fullmatch(r"-?[1-9][0-9]{,19}|0", text) is not None and low <= int(text) <= high

    return fits


def _is_time(pattern: str) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        if not re.fullmatch(pattern, text):
            return False
        try:
            datetime.datetime.fromisoformat(text[:19])
        except ValueError:
            return False
        return True

    return fits


#: Whether a text has a type, by the names of Arrow, the narrowest first.
_TYPES: dict[str, Any] = {
    "int64": _is_integer(-(2**63), 2**63 - 1),
    "uint64": _is_integer(0, 2**64 - 1),
    "date32": _is_time(r"\d{4}-\d\d-\d\d"),
    "timestamp[us]": _is_time(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"),
    NUMERAL: re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?").fullmatch,
}
