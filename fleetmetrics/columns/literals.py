"""Compare a column of Arrow with a value that a condition names, exactly, for any type of column."""

from __future__ import annotations

import datetime
import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Mapping, Union

import numpy as np

from fleetmetrics.columns.partitions import FOLDERS, NUMERAL
from fleetmetrics.errors import ConditionError
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import argument

__all__ = ["Literal", "compared", "shown", "type_in_words"]

#: A string, a number, exact, or a bool.
Literal = Union[str, Fraction, bool]

#: The signs of comparisons, by the names of Arrow's functions.
_SIGNS = {"equal": "=", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_CLOCK = r"(\d+):(\d\d)(?::(\d\d)(?:\.(\d+))?)?"
_TIME = re.compile(_CLOCK)
_MOMENT = re.compile(rf"(\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK} ?(Z|[+-]\d\d(?::?\d\d)?)?)?")
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def compared(field: Any, array: Any, sign: str, literal: Literal) -> Any:
    """Flags of the values for which a comparison holds; null for nulls.

    Args:
        field: of the column, which may come from folders' names.
        array: the values.
        sign: the name of Arrow's function, such as "less_equal".
        literal: the other side.

    Raises:
        ConditionError: the literal is of another kind; the message has one that fits.
    """
    types = library("pyarrow").types
    try:
        if types.is_dictionary(array.type):  # each value is compared once, not once per row
            flags = _of_values(field, array.dictionary, sign, literal)
            return library("pyarrow.compute").take(flags, array.indices)
        return _of_values(field, array, sign, literal)
    except _UnfitError:
        raise ConditionError(_told(field, array.type, sign, literal)) from None


class _UnfitError(Exception):
    """The literal is of another kind than the column."""


def _of_values(field: Any, array: Any, sign: str, literal: Literal) -> Any:
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    types, kind = pa.types, array.type
    source = (field.metadata or {}).get(FOLDERS.encode(), b"").decode()
    if types.is_null(kind):  # pyarrow cannot compare such columns
        return pa.nulls(len(array), pa.bool_())
    as_it_is = source in ("", "string") or (source == NUMERAL and sign in ("equal", "not_equal"))
    if not as_it_is and isinstance(literal, str) and _NUMBER.fullmatch(literal):
        literal = Fraction(literal)
    if source == NUMERAL and isinstance(literal, Fraction):
        numbers = [None if text is None else Fraction(text) for text in array.to_pylist()]
        return pa.array([None if number is None else _HOLDS[sign](number, literal) for number in numbers], pa.bool_())
    if types.is_temporal(kind):
        number = _moment(kind, literal)
        counts = array.cast(pa.int32()) if kind.bit_width == 32 else array
        return _of_counts(counts.cast(pa.int64()), sign, number, *_INT64)
    if types.is_boolean(kind) and isinstance(literal, bool):
        return getattr(pc, sign)(array.cast(pa.int8()), pa.scalar(int(literal), pa.int8()))
    if isinstance(literal, str):
        if types.is_fixed_size_binary(kind):
            array = array.cast(pa.binary())
        if any(is_kind(kind) for is_kind in (types.is_string, types.is_large_string)):
            flags = getattr(pc, sign)(array, pa.scalar(literal, array.type))
            if not source and sign not in ("equal", "not_equal") and _NUMBER.fullmatch(literal):
                _check_order(array, sign, literal, flags)
            return flags
        if types.is_binary(array.type) or types.is_large_binary(kind):
            return getattr(pc, sign)(array, pa.scalar(literal.encode(), array.type))
    if isinstance(literal, Fraction):
        if types.is_integer(kind):
            low = -(2 ** (kind.bit_width - 1)) if types.is_signed_integer(kind) else 0
            return _of_counts(array, sign, literal, low, low + 2**kind.bit_width - 1)
        if types.is_floating(kind):
            return _of_floats(array, sign, literal)
        if types.is_decimal(kind):
            return _of_decimals(array, sign, literal)
    raise _UnfitError


def _check_order(array: Any, sign: str, literal: str, flags: Any) -> None:
    """Raise if all strings are numbers, and they compare with a number otherwise than as texts: '10' with '9'."""
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    if pc.all(pc.match_substring_regex(array, f"^(?:{_NUMBER.pattern})$")).as_py():
        numbers = getattr(pc, sign)(array.cast(pa.float64()), float(literal))
        if pc.any(pc.not_equal(flags, numbers)).as_py():
            raise _UnfitError


_INT64 = -(2**63), 2**63 - 1
_HOLDS: Mapping[str, Any] = {
    "equal": Fraction.__eq__,
    "not_equal": lambda one, other: one != other,
    "less": Fraction.__lt__,
    "less_equal": Fraction.__le__,
    "greater": Fraction.__gt__,
    "greater_equal": Fraction.__ge__,
}


def _of_counts(array: Any, sign: str, number: Fraction, low: int, high: int, scalar: Any = None) -> Any:
    """Compare integers, or others with a least step, with any number.

    Args:
        array: of these.
        sign: of the comparison.
        number: in steps.
        low: the least number of steps that the array's type has.
        high: the largest.
        scalar: makes a value of the array's type from a number of steps; None: integers.
    """
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    floor = number.numerator // number.denominator
    if floor != number:  # between two steps
        if sign in ("equal", "not_equal"):
            return _constant(array, sign == "not_equal")
        sign = "less_equal" if sign.startswith("less") else "greater"
    if not low <= floor <= high:
        return _constant(array, bool(_HOLDS[sign](Fraction(0), Fraction(floor))))
    return getattr(pc, sign)(array, scalar(floor) if scalar else pa.scalar(floor, array.type))


def _of_decimals(array: Any, sign: str, number: Fraction) -> Any:
    pa = library("pyarrow")
    kind = array.type
    if kind.bit_width < 128:  # of which some releases of pyarrow compare none
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
    most = 10**kind.precision - 1
    exact = Context(prec=100)

    def scalar(steps: int) -> Any:
        return pa.scalar(Decimal(steps).scaleb(-kind.scale, exact), array.type)

    return _of_counts(array, sign, number * Fraction(10) ** kind.scale, -most, most, scalar)


def _of_floats(array: Any, sign: str, number: Fraction) -> Any:
    """Compare floats with a number as a float of the same type; one beyond these as a double."""
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    own = np.dtype(f"f{array.type.bit_width // 8}")
    value = float(number)
    if abs(value) <= float(np.finfo(own).max):
        value = float(own.type(value))
    return getattr(pc, sign)(array.cast(pa.float64()), pa.scalar(value, pa.float64()))


def _constant(array: Any, flag: bool) -> Any:
    """The same flag for each value, null for nulls."""
    pc = library("pyarrow.compute")
    return pc.if_else(pc.is_valid(array), flag, None)


def _moment(kind: Any, literal: Literal) -> Fraction:
    """A date, a time of day, a time or a duration as a number in the units of a temporal type."""
    types = library("pyarrow").types
    if not isinstance(literal, str):
        raise _UnfitError
    text = literal.strip()
    if types.is_time(kind) or types.is_duration(kind):
        sign, text = (-1, text[1:]) if text[:1] == "-" and types.is_duration(kind) else (1, text)
        match = _TIME.fullmatch(text)
        if match is None:
            raise _UnfitError
        return sign * _seconds(*match.groups()) * _UNITS[kind.unit]
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise _UnfitError
    day, *clock, zone = match.groups()
    zoned = types.is_timestamp(kind) and kind.tz is not None
    if zone and not zoned:
        raise _UnfitError
    try:
        days = datetime.date.fromisoformat(day).toordinal() - datetime.date(1970, 1, 1).toordinal()
    except ValueError:
        raise _UnfitError from None
    seconds = days * 86400 + (_seconds(*clock) if clock[0] else 0)
    if zone and zone != "Z":  # without a zone it is in UTC, as keys are
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        seconds -= (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    if types.is_date32(kind):
        return Fraction(seconds) / 86400
    return Fraction(seconds) * (1000 if types.is_date64(kind) else _UNITS[kind.unit])


def _seconds(hours: str, minutes: str, seconds: str | None, fraction: str | None) -> Fraction:
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return whole + Fraction(int(fraction or 0), 10 ** len(fraction or ""))


# -- what does not fit ------------------------------------------------------------------------------------


def shown(literal: Literal) -> str:
    """A literal as a condition has it."""
    if isinstance(literal, str):
        text = literal.replace("'", "''")
        return f"'{text}'"
    if isinstance(literal, bool):
        return str(literal).lower()
    return str(literal.numerator) if literal.denominator == 1 else repr(float(literal))


def type_in_words(field: Any) -> str:
    """The type of a column, for errors."""
    source = (field.metadata or {}).get(FOLDERS.encode(), b"").decode()
    kind = field.type.value_type if library("pyarrow").types.is_dictionary(field.type) else field.type
    return f"{kind}, from the folders' names" if source else str(kind)


def _told(field: Any, kind: Any, sign: str, literal: Literal) -> str:
    types = library("pyarrow").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    written = re.fullmatch(r"[^\W\d]\w*", field.name)
    name = field.name if written else '"' + field.name.replace('"', '""') + '"'
    what = f"{argument('where')} compares column {field.name!r}, of {type_in_words(field)}, with {shown(literal)}"
    return f"{what}; {_advice(kind, f'{name} {_SIGNS[sign]}', name, sign, literal)}"


def _advice(kind: Any, start: str, name: str, sign: str, literal: Literal) -> str:
    types = library("pyarrow").types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        if isinstance(literal, str) and _NUMBER.fullmatch(literal):
            return f"write it as one: {start} {literal}"
        return f"write it as one: {start} {3 if types.is_integer(kind) else 0.5}"
    if types.is_boolean(kind):
        return f"write it as true or false: {start} true"
    if types.is_timestamp(kind):
        zone = " +08:00" if kind.tz else ""
        return f"write it as a time{' with a zone, or in UTC' if zone else ''}: {start} '2026-11-01 18:00:00{zone}'"
    if types.is_date(kind):
        return f"write it as a date: {start} '2026-11-01'"
    if types.is_time(kind) or types.is_duration(kind):
        return f"write it as a time: {start} '18:00:00'"
    if types.is_nested(kind):
        item = f'"{name}.{kind[0].name}"' if types.is_struct(kind) and kind.num_fields else f'"{name}[0]"'
        return f"name one of the values in it, such as {item.replace(chr(34) * 2, chr(34))}"
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if not (any(text(kind) for text in texts) or types.is_fixed_size_binary(kind)):
        return f"only {name} is null, and is not null, fit such a column"
    if sign in ("equal", "not_equal") or (isinstance(literal, bool)):
        return f"write it as a string: {start} '{shown(literal)}'"
    how = f"name the values, {name} in ('9', '10'), or store numbers"
    return f"it holds strings, and as texts '10' is less than '9': {how}"
