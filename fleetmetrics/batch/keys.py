"""Keys of samples: users, queries, slices and ids."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.tensors import native, without_tensors
from fleetmetrics.support.vocabulary import entries_in_words, with_article

__all__ = ["NULL", "Coded", "coded_of", "crossed", "distinct", "joined_arrays", "keys_of", "of_one_kind"]

#: The key of samples without one, among strings and among integers: no string of data begins with it, no id is as low.
NULL: dict[str, Any] = {"U": "\0null", "i": -(2**63)}

_HOW = {
    "S": "; decode it: numpy.char.decode({0}, 'utf-8')",
    "b": "; convert it to integers: numpy.asarray({0}, int)",
    "f": "; fill in missing values, and convert it to integers: numpy.asarray({0}, int)",
    "m": "; count whole units of it: {0} // numpy.timedelta64(1, 'D')",
    "M": "; write it as strings: numpy.asarray({0}).astype(str)",
}


class Coded:
    """Strings ``[n]`` as places in a dictionary; reading only the dictionary creates no string per sample.

    Args:
        codes: integers ``[n]``, the place of each sample's text among the values.
        values: strings; some may belong to no sample.
    """

    codes: np.ndarray
    values: np.ndarray

    def __init__(self, codes: np.ndarray, values: np.ndarray) -> None:
        self.codes, self.values = codes, values

    @classmethod
    def of(cls, texts: Any) -> Coded:
        """Texts with a dictionary built from them: about ten times faster than sorting them."""
        if isinstance(texts, Coded):
            return texts
        table: dict[str, int] = {}
        codes = np.array([table.setdefault(text, len(table)) for text in texts.tolist()], np.int64)
        return cls(codes, np.array(list(table), texts.dtype))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, place: Any) -> Coded:
        return Coded(self.codes[place], self.values)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the strings."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of the places and of the dictionary."""
        return self.codes.nbytes + self.values.nbytes

    def copy(self) -> Coded:
        """The same, with places of its own."""
        return Coded(self.codes.copy(), self.values)

    def texts(self) -> np.ndarray:
        """The text of each sample."""
        return self.values[self.codes] if len(self.codes) else self.values[:0]

    @functools.cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The samples' distinct strings, sorted, and the place of each sample's string among them."""
        values, place, codes = self.indexed
        return values, place[codes]

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """How many samples have each of the values."""
        return np.bincount(self.codes, minlength=len(self.values))

    @functools.cached_property
    def indexed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The samples' distinct strings, sorted; the place of each code's string among them; and the codes."""
        values, place = np.unique(self.values, return_inverse=True)
        place = place.reshape(-1)
        met = np.zeros(len(values), bool)
        met[place[self.numbers > 0]] = True
        return values[met], (np.cumsum(met) - 1)[place], self.codes


def distinct(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys of samples, sorted, and the place of each sample's among them."""
    values, place, codes = indexed(column)
    return values, place[codes]


def indexed(column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct keys of samples, sorted; the place of each code's among them; and the code of each sample."""
    if column.dtype.kind == "U":
        return Coded.of(column).indexed
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, -1)
    if high - low >= 4 * len(column):
        values, codes = np.unique(column, return_inverse=True)
        return values, np.arange(len(values)), codes.reshape(-1)
    codes = (column - column.dtype.type(low)).astype(np.int64, copy=False)
    met = np.bincount(codes, minlength=high - low + 1) > 0
    return np.flatnonzero(met).astype(column.dtype) + column.dtype.type(low), np.cumsum(met) - 1, codes


def crossed(columns: Sequence[Any]) -> Coded:
    """One key from the keys of several columns: ``de*2026-11-01``, for the combinations in the data.

    A backslash goes before anything that could make two combinations equal: a star, a backslash, the string ``(null)``.
    """
    codes, names = np.zeros(len(columns[0]), np.int64), [""]
    for number, column in enumerate(columns):
        values, place = distinct(column)
        texts = [_part(value) for value in values.tolist()]
        met, codes = distinct(codes * len(texts) + place)
        star = "*" if number else ""
        both = (divmod(pair, len(texts)) for pair in met.tolist())
        names = [f"{names[one]}{star}{texts[other]}" for one, other in both]
    return Coded(codes, np.array(names, str))


def of_one_kind(columns: Sequence[Any]) -> list[Any]:
    """The same keys; integers that are all `NULL` become strings if others are strings."""
    if not any(len(column) and column.dtype.kind == "U" for column in columns):
        return list(columns)
    return [
        np.full(len(column), NULL["U"])
        if column.dtype.kind == "i" and len(column) and (column == NULL["i"]).all()
        else column
        for column in columns
    ]


def _part(key: Any) -> str:
    """A key as a part of a crossed one."""
    if key in NULL.values():
        return "(null)"
    text = str(key).replace("\\", "\\\\").replace("*", "\\*")
    return f"\\{text}" if text == "(null)" else text


def coded_of(values: Any, argument: str) -> Coded | None:
    """Arrow's dictionary arrays and pandas' categories, if they hold strings; None for other values."""
    if isinstance(values, Coded):
        return values
    values = getattr(values, "cat", values)  # of a pandas Series
    if hasattr(values, "indices") and hasattr(values, "dictionary"):
        if values.null_count or values.dictionary.null_count:
            return None
        codes, entries = np.asarray(values.indices), values.dictionary.to_pylist()
    elif hasattr(values, "codes") and hasattr(values, "categories"):
        codes, entries = np.asarray(values.codes), list(values.categories)
    else:
        return None
    if not entries or not all(isinstance(entry, str) for entry in entries) or (len(codes) and codes.min() < 0):
        return None
    return Coded(codes, keys_of(entries, argument))


def keys_of(values: Any, argument: str) -> Any:
    r"""Keys, in any form, as int64 (uint64 if necessary) or as strings; an error for anything else, or for both.

    Those that are `Coded` stay so.

    Different keys stay different. NumPy unifies ``True`` and ``1``, ``"a"`` and ``b"a"``, ``"1"`` and ``1``, ``"a"``
    and ``"a\0"``.
    """
    if isinstance(values, Coded):
        return values
    array = without_tensors(values, argument)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise InvalidInputError(f"{argument} is a masked array; give its data, and mask=~array.mask, to add")
    if not isinstance(array, np.ndarray) or array.dtype == object:
        array = _of_objects(array, argument)
    array = native(array)
    if array.dtype.kind in "iu":
        unsigned = array.dtype == np.uint64 and array.size and array.max() >= 2**63
        return array if unsigned else array.astype(np.int64, copy=False)
    if array.dtype.kind == "U":
        return array
    if not array.size:
        return array.astype(np.int64)
    raise InvalidInputError(
        f"{argument} must hold integers or strings, one per sample, not {entries_in_words(array)} "
        f"(given {with_article(type(values).__name__)})"
        + _HOW.get(array.dtype.kind, "").format(argument if argument.isidentifier() else "...")
    )


def _of_objects(values: Any, argument: str) -> np.ndarray:
    """A sequence or an array of objects as an array of one kind."""
    try:
        objects = np.asarray(values, object)
    except Exception as error:  # arrays of different shapes, and whatever an object's __array__ raises
        raise InvalidInputError(f"{argument} has no rectangular array form: {error}") from None
    flat = objects.ravel().tolist()
    types = set(map(type, flat))
    if isinstance(values, np.ndarray) and not types <= {str, int}:
        entries = objects.tolist()
        plain = without_tensors(entries, argument)
        if plain is not entries:
            return _of_objects(plain, argument)
    texts = {kind for kind in types if issubclass(kind, str)}
    integers = {kind for kind in types if issubclass(kind, (int, np.integer)) and kind not in (bool, np.timedelta64)}
    for kind, what in (
        (texts, "integers or strings, not both; among strings"),
        (integers, "integers or strings; among integers"),
    ):
        if kind and kind != types:
            other = next(value for value in flat if type(value) not in kind)
            raise InvalidInputError(f"{argument} must hold {what} it holds {other!r} of type {type(other).__name__}")
    if texts:
        flat = flat if texts == {str} else list(map(str.__str__, flat))  # an enum's own string is its name
        lost = next((value for value in flat if value.endswith("\0")), None) if "\0" in "".join(flat) else None
        if lost is not None:
            raise InvalidInputError(
                f"{argument} holds {lost!r}; arrays of strings lose trailing NULs: strip them, text.rstrip('\\0')"
            )
        return np.array(flat).reshape(objects.shape)
    if integers:
        return np.array(flat, _common(min(flat), max(flat), argument)).reshape(objects.shape)
    if types & {list, tuple, np.ndarray}:
        raise InvalidInputError(f"{argument} has no rectangular array form; give one entry per sample")
    return np.array(flat).reshape(objects.shape)


def joined_arrays(arrays: Sequence[Any], argument: str) -> Any:
    """Concatenate arrays of one axis, all of strings or all of numbers; NumPy joins int64 and uint64 to floats.

    Strings that are all `Coded` stay so.
    """
    if any(isinstance(array, Coded) for array in arrays):
        if not all(isinstance(array, Coded) for array in arrays):
            return np.concatenate([array.texts() if isinstance(array, Coded) else array for array in arrays])
        if all(array.values is arrays[0].values for array in arrays):
            return Coded(np.concatenate([array.codes for array in arrays]), arrays[0].values)
        before = np.cumsum([0, *(len(array.values) for array in arrays)])
        dtype = np.int32 if before[-1] < 2**31 else np.int64
        codes = np.concatenate([array.codes.astype(dtype) + dtype(start) for array, start in zip(arrays, before)])
        return Coded(codes, np.concatenate([array.values for array in arrays]))
    if np.result_type(*arrays).kind == "f" and all(array.dtype.kind in "iu" for array in arrays):
        filled = [array for array in arrays if array.size] or arrays[:1]
        low, high = min(int(array.min()) for array in filled), max(int(array.max()) for array in filled)
        arrays = [array.astype(_common(low, high, argument)) for array in filled]
    return np.concatenate(arrays)


def _common(low: int, high: int, argument: str) -> Any:
    """The dtype for integers in this range."""
    if low < -(2**63) or high >= (2**64 if low >= 0 else 2**63):
        raise InvalidInputError(
            f"{argument} must hold integers below 2**63 (below 2**64 if none is negative), not {low} and {high}"
        )
    return np.int64 if high < 2**63 else np.uint64
