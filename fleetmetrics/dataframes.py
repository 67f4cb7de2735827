"""Columns of Arrow data, of a file or a data frame, as what ``add`` takes."""

from __future__ import annotations

import difflib
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import Coded, keys_of
from fleetmetrics.errors import DataError, InvalidInputError

__all__ = ["Columns", "arguments_of", "arrow", "columns_of", "is_list"]

#: What is a number, or several, for each sample; all other arguments are keys.
_NUMBERS = frozenset(["prediction", "label", "weight", "mask"])


def arrow(module: str = "") -> Any:
    """A module of pyarrow, imported when something must be read.

    Raises:
        InvalidInputError: it is not there, or does not fit to this NumPy.
    """
    import importlib

    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise InvalidInputError(
            f"files and data frames are read by pyarrow, which cannot be imported ({error}); "
            "pip install 'fleetmetrics[files]'"
        ) from None


class Columns:
    """Which column of the data is which argument of ``add``, and how its values become that.

    Args:
        given: the column by argument, or several columns by argument, which become the columns of a matrix.
        numbers: the arguments that are numbers; all others are keys.
    """

    def __init__(self, given: Mapping[str, Any], numbers: Iterable[str] = ()) -> None:
        self.by_argument: dict[str, list[str]] = {}
        self._alone: set[str] = set()
        for argument, column in given.items():
            if column is None:
                continue
            names = [column] if isinstance(column, str) else list(column) if isinstance(column, (list, tuple)) else []
            if not names or not all(isinstance(name, str) for name in names):
                raise InvalidInputError(f"{argument} must be the name of a column, or a list of names, not {column!r}")
            self.by_argument[argument] = names
            if isinstance(column, str):
                self._alone.add(argument)
        if not self.by_argument:
            raise InvalidInputError("columns is empty; give the column of each argument, such as prediction='score'")
        self._numbers = _NUMBERS.union(numbers)
        #: The columns that are asked for, each once.
        self.names = list(dict.fromkeys(name for names in self.by_argument.values() for name in names))
        #: Those that are keys in an argument, and numbers in none.
        self.keys = {name for argument in self.by_argument for name in self._names_of(argument, False)}
        self.keys -= {name for argument in self.by_argument for name in self._names_of(argument, True)}

    def _names_of(self, argument: str, numbers: bool) -> list[str]:
        return self.by_argument[argument] if (argument in self._numbers) is numbers else []

    def check(self, there: Sequence[str], where: str) -> None:
        """Raise DataError unless all columns are among those that are there."""
        for argument, names in self.by_argument.items():
            for name in names:
                if name not in there:
                    near = difflib.get_close_matches(name, there, 1, 0.5)
                    hint = f" Did you mean {near[0]!r}?" if near else ""
                    raise DataError(
                        f"{where}: no column {name!r}, which {argument} is to be.{hint} "
                        f"There are {', '.join(map(repr, there)) or 'none'}"
                    )

    def nulls(self, table: Any) -> dict[str, np.ndarray]:
        """Flags of the rows that have no value, by column; only the columns with such rows."""
        found = {name: _nulls(table.column(name)) for name in self.names}
        return {name: flags for name, flags in found.items() if flags is not None}

    def arguments(self, table: Any, raising: Callable[[str, int, str], DataError]) -> dict[str, Any]:
        """What ``add`` takes, of a table without nulls.

        Args:
            table: Arrow data.
            raising: makes the error, of a column, its first row that is at fault, and what is.
        """
        found = {}
        for argument, names in self.by_argument.items():
            read = _numbers if argument in self._numbers else _keys
            arrays = []
            for name in names:
                try:
                    arrays.append(read(_whole(table.column(name))))
                except _Wrong as wrong:
                    raise raising(name, wrong.row, wrong.text) from None
            found[argument] = arrays[0] if argument in self._alone else np.stack(arrays, axis=1)
        return found


class _Wrong(Exception):
    """A column is of another type than it must be: what is wrong, and the first row that is."""

    def __init__(self, text: str, row: int = 0) -> None:
        super().__init__(text)
        self.text, self.row = text, row


def _whole(column: Any) -> Any:
    """A chunked column as one array, whose dictionary is one."""
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):
        column = column.unify_dictionaries()
        chunks = column.chunks
        if not chunks:
            return column.combine_chunks()
        indices = arrow().chunked_array([chunk.indices for chunk in chunks]).combine_chunks()
        return arrow().DictionaryArray.from_arrays(indices, chunks[-1].dictionary, safe=False)
    whole = column.combine_chunks()
    return whole.chunk(0) if hasattr(whole, "chunks") else whole


def _nulls(column: Any) -> np.ndarray | None:
    """Flags of the rows without a value, or with one missing in a list; None if there is none."""
    pa, pc = arrow(), arrow("compute")
    kind, found = column.type, None
    if column.null_count or pa.types.is_null(kind):
        found = np.asarray(pc.is_null(column))
    if pa.types.is_dictionary(kind):
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        if any(chunk.dictionary.null_count for chunk in chunks):
            found = np.asarray(pc.is_null(column.cast(kind.value_type)))
    elif is_list(kind):
        parents, flat = pc.list_parent_indices(column), pc.list_flatten(column)
        if flat.null_count:
            found = np.zeros(len(column), bool) if found is None else found.copy()
            found[np.asarray(parents)[np.asarray(pc.is_null(flat))]] = True
    return found


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    types = arrow().types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_time(kind: Any) -> bool:
    return arrow().types.is_date(kind) or arrow().types.is_timestamp(kind)


def _numbers(array: Any) -> np.ndarray:
    """Bools, integers or floats; of lists a matrix."""
    pa, pc = arrow(), arrow("compute")
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if is_list(kind):
        lengths = np.asarray(pc.list_value_length(array))
        if len(lengths) and (lengths != lengths[0]).any():
            row = int((lengths != lengths[0]).argmax())
            raise _Wrong(f"holds lists of different lengths, {lengths[0]} and {lengths[row]}", row)
        width = int(lengths[0]) if len(lengths) else 1
        return _numbers(pc.list_flatten(array)).reshape(len(array), width)
    if pa.types.is_decimal(kind):
        return array.cast(pa.float64(), safe=False).to_numpy()
    if pa.types.is_boolean(kind):
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array.to_numpy()
    if not len(array):
        return np.empty(0)
    raise _Wrong(f"must hold numbers or bools, and is of the type {kind}: {array[0].as_py()!r}")


def _keys(array: Any) -> Any:
    """Integers, or texts as codes and a dictionary; dates, times and bools become texts."""
    pa = arrow()
    kind = array.type
    if pa.types.is_integer(kind):
        return array.to_numpy()
    if not pa.types.is_dictionary(kind):
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            try:
                array = array.cast(pa.large_string())
            except pa.ArrowInvalid:
                raise _Wrong("holds bytes that are no UTF-8") from None
        elif str(kind) == "string_view":
            array = array.cast(pa.large_string())
        kind = array.type
        types = pa.types
        if not any(is_one(kind) for is_one in (types.is_string, types.is_large_string, types.is_boolean, _is_time)):
            if not len(array):
                return np.empty(0, np.int64)
            raise _Wrong(f"must hold integers, texts or dates, and is of the type {kind}: {array[0].as_py()!r}")
        array = array.dictionary_encode()
    indices, values = array.indices.to_numpy(), array.dictionary
    if pa.types.is_integer(values.type):
        return values.to_numpy()[indices]
    return Coded(indices, _texts(values))


def _texts(values: Any) -> np.ndarray:
    """The entries of a dictionary as texts: times in ISO's form, those with a zone in UTC."""
    pa = arrow()
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.where(values.to_numpy(zero_copy_only=False), "true", "false")
    if _is_time(kind):
        if str(kind) == "date64[day]":
            values = values.cast(pa.date32())
        texts = np.datetime_as_string(values.to_numpy(zero_copy_only=False)).tolist()
        zone = "Z" if getattr(kind, "tz", None) else ""
        return np.array([(text.rstrip("0").rstrip(".") if "." in text else text) + zone for text in texts], str)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return keys_of(values.to_pylist(), "the dictionary") if len(values) else np.empty(0, str)
    raise _Wrong(f"must hold integers, texts or dates, and is a dictionary of the type {kind}")


def _table(frame: Any, names: Sequence[str]) -> Any:
    """A data frame as an Arrow table; only the columns that are asked for are converted.

    Raises:
        InvalidInputError: it is none.
    """
    pa = arrow()
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        return frame
    there = list(getattr(frame, "columns", ()))
    part = frame[[name for name in dict.fromkeys(names) if name in there]] if there else frame
    if type(frame).__module__.startswith("pandas."):
        return pa.Table.from_pandas(part, preserve_index=False)
    if hasattr(part, "__arrow_c_stream__") or hasattr(part, "__arrow_c_array__"):
        return pa.table(part)
    hint = "; call collect() first" if hasattr(frame, "collect") else ""
    raise InvalidInputError(
        "frame must be a data frame of pandas, polars or pyarrow, or have __arrow_c_stream__, not "
        f"{type(frame).__name__}{hint}"
    )


def columns_of(metrics: Any, columns: Mapping[str, Any]) -> Columns:
    """The columns of the arguments of a metric's or a collection's ``add``."""
    return Columns(columns, [argument for each in (metrics, *metrics.leaves()) for argument in each.arguments])


def arguments_of(metrics: Any, frame: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """What the ``add`` of metrics takes of a data frame.

    Raises:
        DataError: a column is missing, has nulls, or is of another type than it must be.
    """
    wanted = columns_of(metrics, columns)
    table = _table(frame, wanted.names)
    wanted.check(table.column_names, "frame")
    for name, flags in wanted.nulls(table).items():
        raise DataError(
            f"frame, column {name!r}: {flags.sum()} of {len(flags)} rows have no value, the first at position "
            f"{flags.argmax()}; fill them, or leave such rows out"
        )
    return wanted.arguments(table, lambda name, row, text: DataError(f"frame, column {name!r}: {text}, row {row}"))
