"""Values inside of columns: fields of structs, items of lists, entries of maps, and Spark's vectors.

``pred.ctr`` is the field ``ctr`` of the column ``pred``, ``probability.values[1]`` the second item of a list in a
struct, ``attrs.country`` an entry of a map. A column whose own name this is comes first.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import DataError
from fleetmetrics.support.optional import library

__all__ = ["Inside", "dense", "inside", "is_list", "is_nested", "is_vector", "item_in", "pruned", "type_inside"]

_STEP = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<item>\d{1,9})\]")
#: The fields of a vector of Spark's, and its type if its zeros are left out.
_VECTOR, _SPARSE = {"type", "size", "indices", "values"}, 0


class Inside(NamedTuple):
    """A value inside of a column."""

    column: str
    steps: Sequence[str | int]  #: names of fields, and places of items

    def of(self, array: Any) -> Any:
        """The value in each row; null where a list is too short.

        Args:
            array: the column.

        Raises:
            DataError: there is no such value.
        """
        for number, step in enumerate(self.steps):
            name = self.column + "".join(map(_shown, self.steps[:number]))
            step_values = _field(array, step, name) if isinstance(step, str) else _item(array, step)
            if step_values is None:
                raise DataError(
                    f"column {name!r}, of {_in_words(array.type)}, has no {_shown(step)}{_hint(array, name)}"
                )
            array = step_values
        return array


def inside(name: str, there: Sequence[str]) -> Inside | None:
    """The value inside of one of these columns that a name means; None: it means none.

    Examples:
        >>> inside("pred.values[1]", ["y", "pred"])
        Inside(column='pred', steps=('values', 1))
    """
    for place in reversed([match.start() for match in re.finditer(r"[.\[]", name)]):
        if name[:place] in there:
            steps = list(_STEP.finditer(name, place))
            if "".join(step[0] for step in steps) == name[place:]:
                return Inside(name[:place], tuple(step["field"] or int(step["item"]) for step in steps))
    return None


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    types = library("pyarrow").types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_nested(kind: Any) -> bool:
    """Whether an Arrow type has values inside."""
    return is_list(kind) or bool(library("pyarrow").types.is_nested(kind))


def is_vector(kind: Any) -> bool:
    """Whether an Arrow type is that of Spark's vectors."""
    return _is_struct(kind) and {kind[place].name for place in range(kind.num_fields)} == _VECTOR


def dense(array: Any) -> Any:
    """Spark's vectors, also those without their zeros, as lists."""
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    kind, size, indices, values = (pc.struct_field(array, name) for name in ("type", "size", "indices", "values"))
    is_sparse = np.asarray(pc.fill_null(kind, 1)) == _SPARSE
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0))
    sizes = np.where(is_sparse, np.asarray(pc.fill_null(size, 0)), lengths).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(np.arange(len(array)), lengths)
    places = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
    places[is_sparse[rows]] = np.asarray(pc.list_flatten(indices.filter(pa.array(is_sparse))))
    flat = np.zeros(starts[-1])
    flat[starts[rows] + places] = np.asarray(pc.list_flatten(values))
    return pa.LargeListArray.from_arrays(pa.array(starts), pa.array(flat), mask=pc.is_null(array))


def type_inside(kind: Any, steps: Sequence[str | int]) -> Any:
    """The type of a value inside of an Arrow type; null where it is unknown."""
    pa = library("pyarrow")
    for step in steps:
        if isinstance(step, str):
            kind = kind.field(step).type if _is_struct(kind) and kind.get_field_index(step) >= 0 else pa.null()
        else:
            kind = kind.value_type if is_list(kind) else pa.null()
    return kind


def pruned(kind: Any, wanted: Sequence[tuple[Sequence[str | int], Any]]) -> Any:
    """An Arrow type with only the values that are read, of their types.

    Args:
        kind: of the column.
        wanted: the steps to each value, and its type.
    """
    pa = library("pyarrow")
    leaf = next((leaf for steps, leaf in wanted if not steps), None)
    if leaf is not None:
        return leaf
    if is_list(kind):
        return pa.list_(pruned(kind.value_type, [(steps[1:], leaf) for steps, leaf in wanted]))
    if not _is_struct(kind) or is_vector(kind):
        return kind
    fields = {}
    for field in kind:
        inner = [(steps[1:], leaf) for steps, leaf in wanted if steps[0] == field.name]
        if inner:
            fields[field.name] = pruned(field.type, inner)
    return pa.struct(fields) if fields else kind


def item_in(kind: Any, name: str) -> str:
    """The name of a value inside of a column, as an example for errors; empty: the type has none.

    Args:
        kind: the type of the column.
        name: of the column.
    """
    if is_list(kind) or is_vector(kind):
        return f"{name}[{1 if is_vector(kind) else 0}]"
    if _is_struct(kind) and kind.num_fields:
        fields = [kind[place] for place in range(kind.num_fields)]
        field = next((field for field in fields if field.name == "values"), fields[0])  # of a vector, more or less
        return item_in(field.type, f"{name}.{field.name}") or f"{name}.{field.name}"
    return ""


def _is_struct(kind: Any) -> bool:
    return bool(library("pyarrow").types.is_struct(kind))


def _field(array: Any, name: str, column: str) -> Any:
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    if pa.types.is_null(array.type):
        return array
    if pa.types.is_map(array.type) and (pa.types.is_string(array.type.key_type)):
        return pc.map_lookup(array, pa.scalar(name, array.type.key_type), "last")
    if not _is_struct(array.type) or array.type.get_field_index(name) < 0:
        return None
    if is_vector(array.type) and name in ("values", "indices"):
        sparse = np.asarray(pc.fill_null(pc.struct_field(array, "type"), 1)) == _SPARSE
        if sparse.any():
            raise DataError(
                f"column {column!r} has vectors without their zeros, such as {array[int(sparse.argmax())].as_py()}: "
                f"places in {name!r} are not those of the vector; name the vector, {column}, or an item, {column}[1]"
            )
    return pc.struct_field(array, name)


def _item(array: Any, place: int) -> Any:
    pa, pc = library("pyarrow"), library("pyarrow.compute")
    array = dense(array) if is_vector(array.type) else array
    if pa.types.is_null(array.type):
        return array
    if not is_list(array.type):
        return None
    valid = np.asarray(pc.is_valid(array))
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts, valid = (np.arange(len(array)) + array.offset) * size, valid & (size > place)
    else:
        starts = np.asarray(array.offsets)[:-1]
        valid = valid & (np.asarray(pc.fill_null(pc.list_value_length(array), 0)) > place)
    return array.values.take(pa.array(np.where(valid, starts + place, 0), pa.int64(), mask=~valid))


def _shown(step: str | int) -> str:
    return f".{step}" if isinstance(step, str) else f"[{step}]"


def _in_words(kind: Any) -> str:
    text = str(kind)
    return text if len(text) < 80 else f"{text[:77]}..."


def _hint(array: Any, name: str) -> str:
    example = item_in(array.type, name)
    return f"; there is {example}" if example else ""
