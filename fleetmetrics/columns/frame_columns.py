"""Columns of pandas' and polars' data frames that Arrow does not take as they are."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Sequence

import numpy as np

from fleetmetrics.columns.nested import inside
from fleetmetrics.errors import DataError
from fleetmetrics.support.optional import library
from fleetmetrics.support.tensors import as_array

__all__ = ["array_of_column", "columns_read", "table_of_pandas", "table_of_polars", "with_others"]

#: pandas' types that become strings, as pandas prints them.
_PRINTED = ("IntervalDtype", "PeriodDtype")


def table_of_pandas(frame: Any, names: Sequence[str], called: str) -> Any:
    """The requested columns of a data frame of pandas as an Arrow table.

    Args:
        frame: the data frame.
        names: of the columns, or of values inside of them.
        called: the name of the argument.

    Raises:
        DataError: two columns have one name, or Arrow cannot hold a column.
    """
    pa = library("pyarrow")
    columns, others = columns_read(names, list(frame.columns))
    part = frame[columns]

    def table(columns: Any) -> Any:
        return pa.Table.from_pandas(columns, preserve_index=False)

    usual = _usual(part, table)
    if usual is not None:
        return with_others(usual, others, frame.columns)
    twice = part.columns[part.columns.duplicated()]
    if len(twice):
        number = int((part.columns == twice[0]).sum())
        raise DataError(f"{called}: {number} columns are called {twice[0]!r}; rename them until only one is")
    for name, dtype in part.dtypes.items():
        readable = _readable(part[name], dtype)
        part = part if readable is None else part.assign(**{name: readable})
    how = "convert it, such as with frame[{0!r}].astype(str), or to numbers"
    return with_others(_whole_or_named(part, lambda name: part[[name]], table, called, how), others, frame.columns)


def _readable(column: Any, dtype: Any) -> Any:
    """A column of pandas that Arrow takes; None: it is one."""
    kind = type(dtype).__name__
    if kind == "SparseDtype":
        return column.sparse.to_dense()
    if kind in _PRINTED:
        return column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
    if kind == "CategoricalDtype" and type(dtype.categories.dtype).__name__ in _PRINTED:
        return column.cat.rename_categories([str(category) for category in dtype.categories])
    return None


def table_of_polars(frame: Any, names: Sequence[str], called: str) -> Any:
    """The requested columns of a data frame of polars as an Arrow table; see `table_of_pandas`."""
    pa, polars = library("pyarrow"), sys.modules["polars"]
    columns, others = columns_read(names, frame.columns)
    part = frame[columns]
    usual = _usual(part, pa.table)
    if usual is not None:
        return with_others(usual, others, frame.columns)
    how = "convert it, such as with polars.col({0!r}).cast(polars.String), or to numbers"
    for name, dtype in part.schema.items():
        if str(dtype).startswith("Object"):  # polars exports addresses
            raise DataError(f"{called}: column {name!r}, of {dtype}, cannot be read; {how.format(name)}")
        if str(dtype) in ("Int128", "UInt128"):  # as decimals: Arrow has no such integers
            part = part.with_columns(polars.col(name).cast(polars.Decimal(38, 0)))
    return with_others(_whole_or_named(part, lambda name: part[[name]], pa.table, called, how), others, frame.columns)


def columns_read(names: Sequence[str], there: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The columns that hold the requested ones; and all others if one of these is missing, for its error.

    Args:
        names: of columns, or of values inside of them.
        there: all columns.
    """
    column_by_name = {name: name if name in there else getattr(inside(name, there), "column", None) for name in names}
    columns = list(dict.fromkeys(column for column in column_by_name.values() if column is not None))
    return columns, [other for other in there if None in column_by_name.values() and other not in columns]


def with_others(table: Any, others: Sequence[Any], there: Sequence[Any]) -> Any:
    """A table with further columns, which are only named, in the order of all columns."""
    if not others:
        return table
    for name in dict.fromkeys(map(str, others)):
        table = table.append_column(name, library("pyarrow").nulls(table.num_rows))
    return table.select(list(dict.fromkeys(map(str, there))))


def _errors() -> tuple[type[Exception], ...]:
    """The errors of conversions to Arrow."""
    return (library("pyarrow").ArrowException, TypeError, ValueError, OverflowError, AttributeError)


def _usual(part: Any, table: Callable[[Any], Any]) -> Any:
    """A table of columns that need no second look; None if one does."""
    pa = library("pyarrow")
    with contextlib.suppress(*_errors()):
        arrow_table = table(part)
        for kind in arrow_table.schema.types:
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if isinstance(kind, pa.BaseExtensionType) or pa.types.is_struct(kind) or "binary" in str(kind):
                return None  # of pandas' intervals and periods, and of polars' objects
        return arrow_table
    return None


def _whole_or_named(part: Any, one: Callable[[Any], Any], table: Callable[[Any], Any], called: str, how: str) -> Any:
    """A table; DataError, which names the column, if one cannot be converted."""
    errors = _errors()
    try:
        return table(part)
    except errors:
        for name in part.columns:
            column = one(name)
            try:
                table(column)
            except errors as error:
                dtype = column[name].dtype
                reason = str(error).splitlines()[0]
                raise DataError(
                    f"{called}: column {name!r}, of {dtype}, cannot be read ({reason}); {how.format(name)}"
                ) from None
        raise


def array_of_column(name: str, values: Any, called: str) -> np.ndarray:
    """A column of a dict as an array; DataError for one whose values are of different kinds or lengths."""
    try:
        array = values if isinstance(values, np.ma.MaskedArray) else as_array(values, f"{called}: column {name!r}")
    except ValueError as error:
        raise DataError(f"{called}: column {name!r} has no rectangular array form: {error}") from None
    if array.dtype.kind in "US" and isinstance(values, (list, tuple)):
        odd = next((value for value in np.asarray(values, object).flat if not isinstance(value, (str, bytes))), None)
        if odd is not None:  # NumPy makes 1 and "1" alike
            raise DataError(
                f"{called}: column {name!r} holds strings and {odd!r}, of {type(odd).__name__}; give one kind"
            )
    return array
