"""The slices of a column as a frame: one name for each number, which conditions look up; with a baseline, deltas, too.

It is made of a result in its JSON form, so that conditions mean the same for a result of today and a saved one.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.support.vocabulary import SIZES

__all__ = ["Cell", "SliceFrame"]

#: The numbers of a slice beside its metrics, those of the deltas beside the baseline, and the ends of both intervals.
_OF_SLICE = ("rows", "share", "difference", "harm", "p", "q")
_OF_DELTA = ("baseline_rows", "mix", "within", "added")
_ENDS = ("low", "high")
#: The numbers that a slice with too few rows also has; the others need a test.
_UNTESTED = {"rows", "share", "baseline_rows", *SIZES, "mix", "within", "added"}


class Cell(NamedTuple):
    """A number of a slice.

    Args:
        key: the key of the slice, in words.
        slice: the slice in its JSON form.
        value: the number; None if it is undefined, or if the slice has too few rows for it.
    """

    key: str
    slice: Mapping[str, Any]
    value: Any


class SliceFrame(Mapping[str, "list[Cell]"]):
    """The numbers of the slices of a column, by name: of each slice a cell.

    The numbers of slices have the order of the slices, and those of a comparison the order of the contributions: these
    also have the slices that only the baseline has.

    Args:
        result: in its JSON form.
        by: the column.
    """

    def __init__(self, result: Mapping[str, Any], by: str) -> None:
        metrics = result["asked"]["metrics"]
        first = result["asked"].get("rank_by", next(iter(metrics)))  # without slices no metric ranks them
        slices = result["slices"][by]
        names: dict[str, tuple[str, ...]] = {metric: ("metrics", metric) for metric in metrics}
        names.update({f"{first}_interval.{end}": (end,) for end in _ENDS})
        names.update({name: (name,) for name in _OF_SLICE})
        names.update({size: (size,) for size in SIZES if not slices or size in slices[0]})
        self._columns = {name: (slices, path) for name, path in names.items()}
        if result.get("baseline"):
            deltas = result["versus"].get(by, {"slices": []})["slices"]
            names = {f"{metric}_delta": ("deltas", metric) for metric in metrics}
            names.update({f"{first}_delta.{name}": (name,) for name in (*_ENDS, "p", "q")})
            names.update({name: (name,) for name in _OF_DELTA})
            self._columns.update({name: (deltas, path) for name, path in names.items()})

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> list[Cell]:
        slices, path = self._columns[name]
        return [Cell(_in_words(slice["key"]), slice, _number(slice, path)) for slice in slices]


def _in_words(key: Any) -> str:
    return "(null)" if key is None else str(key)


def _number(slice: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The number at a path; None if undefined, or with too few rows for a verdict."""
    *parts, name = path
    needs_test = name == slice["metric"] if parts else name not in _UNTESTED
    if needs_test and slice["verdict"] == "too few":
        return None
    for part in parts:
        slice = slice.get(part, {})
    return slice.get(name)
