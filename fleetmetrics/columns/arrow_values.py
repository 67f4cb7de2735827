"""Values of Arrow columns as arrays and keys: numbers, strings, nulls, dictionaries, lists of one length."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import NULL, Coded, keys_of
from fleetmetrics.columns.nested import dense, is_list, is_vector, item_in
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import argument as called

__all__ = [
    "array_in",
    "array_of",
    "arrow",
    "arrow_keys",
    "cleaned_keys",
    "days_in",
    "decoded",
    "keys_in",
    "nulls_in",
    "nulls_of",
    "numbers_in",
    "texts_in",
    "unknown_rows",
    "unnested",
]


def arrow(module: str = "") -> Any:
    """A module of pyarrow, imported when something must be read; MissingLibraryError if it cannot be."""
    return library(f"pyarrow.{module}" if module else "pyarrow")


def _is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of strings, or of their bytes, perhaps in a dictionary."""
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(
        is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    )


def cleaned_keys(array: Any, as_text: bool, null: Sequence[str]) -> Any:
    """Keys with nulls for nan, empty strings and these, as strings if requested; None: unchanged."""
    pa, pc, types = arrow(), arrow("compute"), arrow().types
    kind, ready = array.type, None

    def are_empty(values: Any) -> Any:
        if null:
            return pc.is_in(values, pa.array(["", *null], values.type))
        return pc.equal(pc.binary_length(values), 0)

    if types.is_dictionary(kind):
        values = array.dictionary
        none = pc.fill_null(are_empty(values), True) if _is_text(kind) else values.is_null()
        if pc.any(none).as_py():
            places = pc.indices_nonzero(none).cast(array.indices.type)
            indices = pc.if_else(pc.is_in(array.indices, places), None, array.indices)
            ready = pa.DictionaryArray.from_arrays(indices, values)
    elif _is_text(kind):
        empty = are_empty(array)
        ready = pc.if_else(empty, None, array) if pc.any(empty).as_py() else None
    elif types.is_floating(kind):
        nan = pc.is_nan(array.cast(pa.float64()))
        ready = pc.if_else(nan, None, array) if pc.any(nan).as_py() else None
    if as_text and not _is_text(kind):
        ready = _as_texts(array if ready is None else ready)
    return ready


def _as_texts(array: Any) -> Any:
    pa = arrow()
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    try:
        return array.cast(pa.string())
    except pa.ArrowException:
        raise InvalidInputError(f"holds {array.type!s:.80}, of which {called('text')} can make no strings") from None


def array_in(table: Any, name: str) -> Any:
    """A column of a table as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else column.combine_chunks()


def _plain_types() -> dict[str, Any]:
    """The types without views, by the names of those with them."""
    return {"string_view": arrow().large_string(), "binary_view": arrow().large_binary()}


def _without_runs(column: Any) -> Any:
    """A column without runs; pyarrow decodes no runs of dictionaries and of views, so their values come first."""
    pa = arrow()
    kind = column.type.value_type
    is_dictionary = pa.types.is_dictionary(kind)
    kind = kind.value_type if is_dictionary else kind
    kind = _plain_types().get(str(kind), kind)
    chunks = []
    for chunk in column.chunks:
        values = chunk.values
        if is_dictionary:
            values = values.dictionary.cast(kind).take(values.indices)
        runs = pa.RunEndEncodedArray.from_arrays(chunk.run_ends, values.cast(kind))
        chunks.append(arrow("compute").run_end_decode(runs.slice(chunk.offset, len(chunk))))
    return pa.chunked_array(chunks, kind)


def _without_extension(column: Any, field: Any) -> Any:
    """A column of a type that another library has added, as the values behind it; DataError for one of pandas."""
    pa = arrow()
    extended = isinstance(column.type, pa.BaseExtensionType)
    metadata = field.metadata or {}
    name = column.type.extension_name if extended else metadata.get(b"ARROW:extension:name", b"").decode()
    if name in ("pandas.interval", "pandas.period"):
        how = f"write it as strings: frame[{field.name!r}].astype(str)"
        raise DataError(
            f"column {field.name!r} holds {name.replace('.', ' ')}s, of which only pandas knows the text; {how}"
        )
    if not extended:
        return column
    stored = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if name == "arrow.bool8":
        return stored.cast(pa.bool_())
    if name != "arrow.uuid":
        return stored
    texts = [value and str(uuid.UUID(bytes=value)) for value in stored.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def decoded(table: Any) -> Any:
    """A table that can be filtered, without runs and views, whose columns have one chunk and one dictionary."""
    pa = arrow()
    plain = _plain_types()
    for place, column in enumerate(table.columns):
        if not all(map(len, column.chunks)):  # pyarrow cannot combine an empty slice of strings with others
            column = pa.chunked_array(filter(len, column.chunks), column.type)
            table = table.set_column(place, table.schema.field(place), column)
        if pa.types.is_run_end_encoded(column.type):
            column = _without_runs(column)
        if str(column.type) in plain:
            column = column.cast(plain[str(column.type)])
        elif pa.types.is_dictionary(column.type) and str(column.type.value_type) in plain:
            kind = plain[str(column.type.value_type)]
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind)) for chunk in column.chunks
            ]
            column = pa.chunked_array(chunks, pa.dictionary(column.type.index_type, kind))
        column = _without_extension(column, table.schema.field(place))
        if column.type != table.schema.field(place).type:
            table = table.set_column(place, table.schema.field(place).with_type(column.type), column)
    return table.unify_dictionaries().combine_chunks()


def nulls_of(table: Any) -> dict[str, np.ndarray]:
    """Flags of the rows that have no value, or lack one in a list, by column; only the columns with such rows."""
    flags_by_name = {name: nulls_in(array_in(table, name)) for name in table.column_names}
    return {name: flags for name, flags in flags_by_name.items() if flags is not None}


def unknown_rows(table: Any, name: str, nulls: Mapping[str, np.ndarray]) -> np.ndarray:
    """Flags of the rows without a value, null or nan, in a column."""
    unknown = nulls.get(name, np.zeros(table.num_rows, bool))
    array = array_in(table, name)
    nan = arrow("compute").is_nan(array).fill_null(True) if arrow().types.is_floating(array.type) else None
    return unknown if nan is None else unknown | np.asarray(nan)


def nulls_in(array: Any) -> np.ndarray | None:
    """Which values are null, or lists that hold one; None: none is."""
    pc = arrow("compute")
    nulls = np.asarray(pc.is_null(array)) if array.null_count else None
    if is_list(array.type):
        inner = nulls_in(pc.list_flatten(array))
        if inner is not None:
            nulls = np.zeros(len(array), bool) if nulls is None else nulls.copy()
            nulls[np.asarray(pc.list_parent_indices(array))[inner]] = True
    return nulls


def unnested(array: Any) -> tuple[Any, list[int]]:
    """The values of an Arrow array, out of lists of the same length, and its shape."""
    pc, shape = arrow("compute"), [len(array)]
    while is_list(array.type):
        lengths = np.asarray(pc.list_value_length(array))
        if (lengths != lengths[:1]).any():
            break
        shape.append(int(lengths[0]) if len(lengths) else 1)
        array = pc.list_flatten(array)
    return array, shape


def array_of(values: np.ndarray) -> Any:
    """An Arrow array; of several axes one of lists."""
    array = arrow().array(values.reshape(-1))
    for length in reversed(values.shape[1:]):
        array = arrow().FixedSizeListArray.from_arrays(array, length)
    return array


def _wrong(array: Any, allowed: str, value: Any = None) -> InvalidInputError:
    shown = f"the first row has {array[0].as_py()!r:.80}" if value is None else f"a row has {value!r:.80}"
    types = arrow().types
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    return InvalidInputError(f"must hold {allowed}, not {kind!s:.80}; {shown}")


def numbers_in(array: Any) -> np.ndarray:
    """Bools, integers or floats; of lists a matrix."""
    pa = arrow()
    array, shape = unnested(dense(array) if is_vector(array.type) else array)
    if is_list(array.type):
        one, other, *_ = dict.fromkeys(arrow("compute").list_value_length(array).to_pylist())
        raise InvalidInputError(f"must hold lists of equal length, not of {one} and {other}")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_decimal(kind):
        array = array.cast(pa.float64(), safe=False)
    elif array.null_count and (array.null_count == len(array) or pa.types.is_boolean(kind)):
        array = array.cast(pa.float64())  # nan, in a column whose rows may lack a value
    elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)) and len(array):
        raise _wrong(array, "numbers or bools")
    if pa.types.is_uint64(kind) and len(array):
        largest = arrow("compute").max(array).as_py()
        if largest is not None and largest >= 2**63:
            raise InvalidInputError(f"holds {largest}; the largest integer allowed is 2**63 - 1; convert it to floats")
    return array.to_numpy(zero_copy_only=False).reshape(shape)


def texts_in(array: Any, tags: bool, metric: str) -> np.ndarray:
    """Strings, or lists of them, as Python's objects.

    Args:
        array: the column.
        tags: whether a string is a sequence of tags between blanks.
        metric: the name of one that takes them, for the error.
    """
    types, kind = arrow().types, array.type
    while is_list(kind) or types.is_dictionary(kind):
        kind = kind.value_type
    only_empty = types.is_null(kind) and is_list(array.type)
    is_text = types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"
    if len(array) and not (is_text or only_empty):
        raise _wrong(array, f"strings, or lists of strings, for {metric}")
    values = np.empty(len(array), object)
    for place, value in enumerate(array.to_pylist()):
        values[place] = value.split() if tags and isinstance(value, str) else value
    return values


#: A moment as a string, for Arrow: its day, and whether it is one of UTC.
_MOMENT = r"^(\d{4}(?:-\d\d-\d\d|/\d\d/\d\d|\d{4}))[T ].*?(Z?)$"
#: What keys may be, for errors.
_KEYS = "integers, strings, bools, dates or times"


def _integers(array: Any) -> Any:
    """Convert floats to integers, as pandas stores integers with nulls; an error if one is not whole."""
    pa, pc = arrow(), arrow("compute")
    values = array.cast(pa.float64()).drop_null()  # of half floats, pyarrow has few functions
    if len(values) and pc.max(pc.abs(values)).as_py() >= 2**53:
        raise InvalidInputError(f"holds floats of 2**53 or more, which skip integers; convert {array.type} to integers")
    odd = pc.not_equal(values, pc.floor(values))
    if pc.any(odd).as_py():
        error = _wrong(array, _KEYS, values.filter(odd)[0].as_py())
        raise InvalidInputError(f"{error}; round them, cut them into ranges, or make them strings: {called('text')}")
    return array.cast(pa.float64()).cast(pa.int64())


def _whole(array: Any) -> Any:
    """Convert decimals to integers; an error if one is not whole, or has more than 64 bits."""
    pa, pc = arrow(), arrow("compute")
    wide = array.cast(pa.decimal256(76, array.type.scale))  # pyarrow has few functions of narrow ones
    values = wide.drop_null()
    odd = pc.not_equal(values, pc.floor(values))
    if pc.any(odd).as_py():
        error = _wrong(array, _KEYS, values.filter(odd)[0].as_py())
        raise InvalidInputError(f"{error}; make them strings: {called('text')}")
    for kind in (pa.int64(), pa.uint64()):
        with contextlib.suppress(pa.ArrowInvalid):
            return wide.cast(kind)
    largest = pc.max(pc.abs(values)).as_py()
    raise InvalidInputError(f"holds integers of more than 64 bits, {largest}; make them strings: {called('text')}")


def _whole_keys(array: Any) -> np.ndarray:
    """Integers as keys, with `NULL` for nulls."""
    pa, pc = arrow(), arrow("compute")
    if len(array) and pa.types.is_int64(array.type) and pc.min(array).as_py() == NULL["i"]:
        raise InvalidInputError(f"holds {NULL['i']}, which stands for rows without a key; use a null for these")
    if array.null_count:
        largest = pc.max(array).as_py()
        if largest is not None and largest >= 2**63:
            how = f"fill them, or make the keys strings: {called('text')}"
            raise InvalidInputError(f"holds nulls and {largest}, an integer of 2**63 or more; {how}")
        array = array.cast(pa.int64()).fill_null(NULL["i"])
    return array.to_numpy()


def keys_in(array: Any) -> Any:
    """Integers, or strings as places in a dictionary; dates, times and bools become strings, and nulls `NULL`."""
    types = arrow().types
    if len(array) and array.null_count == len(array):
        return np.full(len(array), NULL["i"])  # of whichever kind other rows are
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    for is_of, make in (
        (types.is_floating, _integers),
        (types.is_decimal, _whole),
        (types.is_integer, lambda same: same),
    ):
        if is_of(kind):
            return _whole_keys(make(array.dictionary_decode() if kind is not array.type else array))
    if not len(array):
        return np.empty(0, np.int64)
    known = [types.is_boolean, types.is_date, types.is_timestamp, types.is_time, types.is_string, types.is_binary]
    known += [types.is_large_string, types.is_large_binary, types.is_fixed_size_binary]
    if not any(is_kind(kind) for is_kind in known) and str(kind) not in (
        "string_view",
        "binary_view",
    ):  # of a dictionary
        nested = item_in(kind, "x") != ""
        raise InvalidInputError(f"{_wrong(array, _KEYS)}{'' if nested else '; convert it to one of these'}")
    if not types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, values = array.indices, array.dictionary
    if indices.null_count or values.null_count:
        values, indices = _with_null(values, indices)
    return Coded(indices.to_numpy(), keys_of([NULL["U"] if text is None else text for text in _texts(values)], "it"))


def days_in(array: Any) -> Any:
    """The same, with moments cut to the beginnings of their days, in UTC: they stay moments."""
    pa, pc = arrow(), arrow("compute")

    def cut(values: Any) -> Any:
        kind = values.type
        if pa.types.is_timestamp(kind):
            begun = pc.floor_temporal(values.cast(pa.timestamp(kind.unit)), unit="day")
            return begun.cast(pa.timestamp("s", "UTC" if kind.tz else None))
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return pc.replace_substring_regex(values, _MOMENT, r"\1T00\2") if is_text else values

    if not pa.types.is_dictionary(array.type):
        return keys_in(cut(array))
    return keys_in(pa.DictionaryArray.from_arrays(array.indices, cut(array.dictionary)))


def arrow_keys(array: Any) -> Any:
    """Keys of rows that all have one, in Arrow: integers of 64 bits or strings, the same as of `keys_in`."""
    pa, types = arrow(), arrow().types
    plain = array.dictionary_decode() if types.is_dictionary(array.type) else array
    if types.is_string(plain.type) or types.is_large_string(plain.type):
        with contextlib.suppress(pa.ArrowInvalid):  # of strings that are not UTF-8, which `keys_in` names
            plain.validate(full=True)
            return plain.cast(pa.string())
    keys = keys_in(array)
    if isinstance(keys, Coded):
        return pa.array(keys.values.tolist(), pa.string()).take(pa.array(keys.codes))
    return pa.array(keys if keys.dtype == np.uint64 else keys.astype(np.int64, copy=False))


def _texts(values: Any) -> list[str | None]:
    """Keys as strings; times with a fraction only if there is one."""
    pa, types, kind = arrow(), arrow().types, values.type
    if types.is_timestamp(kind):
        texts = np.datetime_as_string(values.to_numpy(zero_copy_only=False)).tolist()
        zone = "Z" if kind.tz else ""
        texts = [_without_zeros(text) + zone for text in texts]
        return [text if known else None for text, known in zip(texts, values.is_valid().to_pylist())]
    if types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
    try:
        texts = values.cast(pa.large_string()).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):  # the latter of a column declared as strings
        raise _wrong(values, "integers, or strings in UTF-8", _no_text(values)) from None
    return [text and _without_zeros(text) for text in texts] if types.is_time(kind) else texts


def _without_zeros(text: str) -> str:
    """A time without the zeros at the end of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _no_text(values: Any) -> bytes:
    """The first of these strings, or of their bytes, that is not UTF-8."""
    known = (value.as_buffer().to_pybytes() for value in values if value.is_valid)
    return next(text for text in known if text.decode("utf-8", "ignore").encode() != text)


def _with_null(values: Any, indices: Any) -> tuple[Any, Any]:
    """A dictionary with one null among its values, and the places in it, of which none is null."""
    pa = arrow()
    if indices.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        indices = indices.cast(pa.int64()).fill_null(len(values) - 1)
    return values, indices
