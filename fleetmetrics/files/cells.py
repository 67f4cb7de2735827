"""Columns of texts as columns of their types: all rows that do not fit are found in one pass."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Collection, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.reading import named_labels
from fleetmetrics.errors import DataError
from fleetmetrics.files.encodings import likely_encoding
from fleetmetrics.files.row_pieces import Bad, Piece
from fleetmetrics.support.vocabulary import argument, in_shell

__all__ = ["beside_fractions", "beyond_floats", "integer_type", "misfit", "not_text", "nulls_of_numbers", "typed"]

#: The numbers that Arrow reads from CSV, for RE2; longer ones have no room in a decimal.
_FLOAT = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"
_INTEGER = r"^(?:-?[0-9]{1,70}|0[xX][0-9a-fA-F]{1,16})$"
_TRUE, _FALSE = ("1", "True", "TRUE", "true"), ("0", "False", "FALSE", "false")
#: The rows of a piece whose defects are described; the record of the data shows fewer.
_DESCRIBED = 16
#: Around numbers, Arrow ignores these.
_BLANKS = " \t"
#: Names of missing values in some systems, and perhaps values in others.
_NOTHING = ("\\N", "None", "NONE", "none", "Null", "nil", "-", "--", "?", ".", "missing", "(null)", "<null>", "<NA>")


class _Made(NamedTuple):
    """A column of a type."""

    array: Any
    fits: Any = None  #: flags; null is one that fits, too. None: all fit


def nulls_of_numbers(null: Sequence[str]) -> list[str]:
    """The names of missing values in columns of numbers: those that Arrow knows, and the given ones."""
    return [*arrow("csv").ConvertOptions().null_values, *null]


def integer_type(texts: Any) -> Any:
    """The Arrow type of texts that are whole numbers without a point, or names of missing values; None: other texts."""
    pc = arrow("compute")
    texts = _array(pc.utf8_trim(texts, _BLANKS))
    known = texts.filter(pc.invert(pc.is_in(texts, arrow().array(nulls_of_numbers(())))))
    whole = len(known) and pc.all(pc.match_substring_regex(known, _INTEGER)).as_py()
    return _integers(known).array.type if whole else None


def typed(
    piece: Piece,
    kinds: Mapping[str, Any],
    bad: Bad,
    null: Sequence[str] = (),
    loose: Sequence[str] = (),
    labels: Sequence[str] = (),
    whole: Collection[str] = (),
) -> tuple[Piece, dict[str, Any]]:
    """Columns of bytes converted to their types, without the rows that do not fit; and the types.

    Args:
        piece: the rows.
        kinds: the type of each column; that of whole numbers may turn out to be another one of 64 bits.
        bad: receives the first defect of each row that does not fit.
        null: names of missing values, besides an empty text.
        loose: columns whose numbers need not be whole, whatever their type.
        labels: columns of labels; if the first row has a word there, they may be names of classes.
        whole: columns of texts, of which none stands for a missing value.
    """
    pa, pc = arrow(), arrow("compute")
    typed_columns: dict[str, Any] = {}
    defects: dict[int, str] = {}  # the column of the first defect of a row
    for name, kind in kinds.items():
        column = _array(piece.table.column(name))
        converted = _texts(column)
        nothing = ["", *null] if pa.types.is_string(kind) else nulls_of_numbers(null)
        texts = converted.array
        if name not in whole:
            texts = pc.if_else(pc.is_in(texts, pa.array(nothing)), None, texts)
        misfits = _misfits(converted)
        if not pa.types.is_string(kind):
            converted = _converted(texts, kind, name, name in loose)
            texts, misfits = converted.array, misfits + _misfits(converted)
        typed_columns[name] = texts
        for row in misfits:
            defects.setdefault(row, name)
    for place, (row, name) in enumerate(sorted(defects.items())):
        value = piece.table.column(name)[row].as_py() if place < _DESCRIBED else None
        reason = "" if value is None else f": {misfit(value, kinds[name], name)}"
        if name in labels and piece.start + row == 0:
            reason += named_labels(None if value is None else value.decode(errors="replace"))
        bad(f"row {piece.start + row}, column {name!r}{reason}")
    kinds = {name: array.type for name, array in typed_columns.items()}
    piece = piece._replace(table=pa.table(typed_columns))
    if defects:
        keep = np.ones(len(piece.table), bool)
        keep[list(defects)] = False
        piece = piece.taken(keep)
    return piece, kinds


def _misfits(converted: _Made) -> list[int]:
    """The rows that do not fit."""
    if converted.fits is None:
        return []
    fits = converted.fits.fill_null(True)
    return [int(row) for row in arrow("compute").indices_nonzero(arrow("compute").invert(fits)).to_pylist()]


def misfit(value: Any, kind: Any, name: str) -> str:
    """How a value differs from the type of its column.

    Args:
        value: bytes of a text, or a value of JSON.
        kind: the type.
        name: of the column.
    """
    types = arrow().types
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return not_text(value)
    if types.is_integer(kind):
        if re.fullmatch(r"\s*-?\d+\s*", str(value)):
            return f"{value!r} does not fit in 64 bits beside the others; {argument('text', name)} reads strings"
        return f"{value!r} is not a whole number{_null_hint(value)}"
    if not types.is_floating(kind):
        return f"{value!r} is not of type {kind}"
    commas = isinstance(value, str) and re.fullmatch(r"\s*[+-]?[\d,.]*,[\d,.]*\s*", value)
    return f"{value!r} is not a number{'; numbers have no commas: 1234.5' if commas else _null_hint(value)}"


def beside_fractions(name: str) -> DataError:
    """The error for a column of large integers and of fractions, which no type of 64 bits holds."""
    return DataError(
        f"column {name!r} holds integers of 2**53 or more beside fractions, and no number of 64 bits holds both; split "
        "the column"
    )


def not_text(data: bytes) -> str:
    """The defect of bytes that are not UTF-8."""
    return f"{data[:40]!r} is not UTF-8; name the file's encoding: {argument('encoding', likely_encoding(data))}"


def _null_hint(value: Any) -> str:
    """The advice for what may stand for no value."""
    if not isinstance(value, str) or value not in _NOTHING:
        return ""
    quoted = f"'{value}'"
    return f"; if it stands for no value: {argument('null', quoted if in_shell() else repr(value))}"


def _array(column: Any) -> Any:
    """A column as one array."""
    if not hasattr(column, "num_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else arrow().concat_arrays(column.chunks)


def _texts(column: Any) -> _Made:
    """Bytes as strings."""
    pa = arrow()
    try:
        return _Made(column.cast(pa.string()))
    except pa.ArrowInvalid:
        known = [_is_text(value) for value in column.to_pylist()]
        fits = pa.array(known)
        return _Made(arrow("compute").if_else(fits, column, None).cast(pa.string()), fits)


def _is_text(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def _converted(texts: Any, kind: Any, name: str, loose: bool) -> _Made:
    """Strings as numbers or bools; null where they do not fit."""
    pa, pc = arrow(), arrow("compute")
    if pa.types.is_null(kind):
        return _Made(pa.nulls(len(texts)), pc.is_null(texts))
    if pa.types.is_boolean(kind):
        fits = pc.if_else(pc.is_valid(texts), pc.is_in(texts, pa.array([*_TRUE, *_FALSE])), None)
        return _Made(pc.if_else(fits, pc.is_in(texts, pa.array(_TRUE)), None), fits)
    texts = pc.utf8_trim(texts, _BLANKS)
    if pa.types.is_integer(kind):
        integers = _integers(texts)
        if not loose or integers.fits is None or not pc.any(pc.invert(integers.fits)).as_py():
            return integers
        if pc.any(pc.greater_equal(pc.abs(integers.array.cast(pa.float64(), safe=False)), 2.0**53)).as_py():
            raise beside_fractions(name)
        kind = pa.float64()
    fits = pc.match_substring_regex(texts, _FLOAT)
    return _Made(pc.if_else(fits, texts, None).cast(kind), fits)


def _integers(texts: Any) -> _Made:
    """Strings as int64, or as uint64 if one has no room in it and none is negative."""
    pa, pc = arrow(), arrow("compute")
    fits = pc.match_substring_regex(texts, _INTEGER)
    texts = pc.if_else(fits, texts, None)
    for kind in (pa.int64(), pa.uint64()):
        try:
            return _Made(texts.cast(kind), fits)
        except pa.ArrowInvalid:
            continue
    plain = pc.if_else(pc.match_substring_regex(texts, "^-?[0-9]+$"), texts, None)
    numbers = plain.cast(pa.decimal256(76, 0))
    low, high, kind = -(2**63), 2**63, pa.int64()
    if pc.min(numbers).as_py() >= 0:
        low, high, kind = 0, 2**64, pa.uint64()
    bounds = [pa.scalar(Decimal(bound), numbers.type) for bound in (low, high)]
    room = pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less(numbers, bounds[1])).fill_null(False)
    return _Made(pc.if_else(room, texts, None).cast(kind), pc.if_else(pc.is_valid(texts), room, fits))


def beyond_floats(column: Any) -> bool:
    """Whether a column of floats has numbers that may have been other integers."""
    largest = arrow("compute").max(arrow("compute").abs(column)).as_py()
    return largest is not None and largest >= 2**53
