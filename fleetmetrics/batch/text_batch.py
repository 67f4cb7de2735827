"""Batches whose samples are texts, or sequences of tags: an entry each, whatever its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError, StaticProgramError
from fleetmetrics.support.vocabulary import with_article
from fleetmetrics.xp import is_eager_tensor, is_static, to_host

__all__ = [
    "REFERENCE",
    "REFERENCES",
    "TEXT",
    "TEXT_LABEL",
    "TEXT_LABELS",
    "TextBatch",
    "entries_of",
    "pieces",
    "required",
    "strings",
]

#: The number of entries of a piece: few enough that they stay in the processor's cache.
_AT_ONCE = 1024


class TextBatch(Batch):
    """A batch of texts or of sequences of tags, in NumPy's namespace.

    Args:
        prediction: a list of strings, or of sequences of tags; arrays and columns of them.
        label: the references, one entry for each prediction; an entry may be a list of several references.
        weight: as for `Batch`.
        mask: as for `Batch`.
        columns: as for `Batch`.

    Raises:
        InvalidInputError: an argument is not one entry for each sample.
        StaticProgramError: an argument is a variable of a static program.
    """

    #: The entries by argument; `prediction` and `label` are the places of those that count.
    entries: dict[str, Sequence[Any]]
    #: The number of characters of the arguments whose entries are all strings.
    characters: dict[str, int]

    def __init__(
        self,
        prediction: Any,
        label: Any = None,
        weight: Any = None,
        mask: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        if any(is_static(values) for values in (prediction, label, weight, mask) if values is not None):
            raise StaticProgramError(
                "a static program has no variables of texts: fetch its outputs with exe.run(fetch_list=...), decode "
                "them, and pass lists to add after each run"
            )
        self.entries = {"prediction": entries_of(prediction, "prediction")}
        if label is not None:
            self.entries["label"] = entries_of(label, "label")
        sizes = [*map(len, self.entries.values())]
        if sizes[0] != sizes[-1]:
            raise InvalidInputError(
                f"label has {sizes[1]} entries but prediction has {sizes[0]}; they must be equal, one entry per "
                "sample: several references of a sample are a list in its entry"
            )
        super().__init__(np.arange(sizes[0]), None, to_host(weight), to_host(mask), columns)
        self.all_places: Any = self.prediction
        self.label: Any = None if label is None else self.prediction
        self.characters = {}
        for argument, entries in self.entries.items():
            try:
                self.characters[argument] = sum(len("".join(piece)) for piece in pieces(entries))
            except TypeError:  # not all are strings: to join them is faster than to ask each
                arrays_as_lists = [entry.tolist() if isinstance(entry, np.ndarray) else entry for entry in entries]
                self.entries[argument] = arrays_as_lists

    @property
    def labels(self) -> Any:
        """The references that count."""
        return strings(self, "label") if "label" in self.entries else super().labels

    @property
    def all_count(self) -> bool:
        """Whether no entry was left out, and each counts once."""
        return self.prediction is self.all_places and self.weight is self.lanes is None

    def given(self, argument: str, place: int) -> Any:  # noqa: D102
        return self.entries[argument][place] if argument in self.entries else super().given(argument, place)


def entries_of(values: Any, argument: str) -> Sequence[Any]:
    """Python's objects, a string or a list for each sample."""
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, np.ndarray):
        return values.tolist() if values.ndim else [values.item()]
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or is_eager_tensor(values):
        raise _not_entries(values, argument)
    listed = next((getattr(values, name) for name in ("to_pylist", "tolist") if hasattr(values, name)), None)
    if listed is None and not isinstance(values, Iterable):
        raise _not_entries(values, argument)
    entries: list[Any] = list(values) if listed is None else listed()
    return entries


def pieces(entries: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The entries, a piece at a time."""
    if len(entries) <= _AT_ONCE:
        return (entries,)
    return (entries[start : start + _AT_ONCE] for start in range(0, len(entries), _AT_ONCE))


def _not_entries(values: Any, argument: str) -> InvalidInputError:
    shown = f": {values!r:.60}" if isinstance(values, (str, bytes)) else ""
    return InvalidInputError(
        f"{argument} must be a list with one entry per sample, of strings or of sequences of tags, not "
        f"{with_article(type(values).__name__)}{shown}"
    )


def strings(batch: Any, argument: str) -> Sequence[Any]:
    """The entries of an argument that count."""
    entries: Sequence[Any] = batch.entries[argument]
    places = getattr(batch, argument)
    if places is batch.all_places:
        return entries
    return batch.cached(("strings", argument), lambda: [*map(entries.__getitem__, places.tolist())])


@dataclass(frozen=True)
class _All:
    """Which entries of an argument have a property; equal ones share one check."""

    argument: str
    has_property: Callable[[Any], bool]
    fault: Callable[[Any], Any]
    of_strings: Callable[[Sequence[str]], bool] | None

    def __call__(self, batch: Any) -> Any:
        entries = strings(batch, self.argument)
        if self.of_strings and self.argument in batch.characters and self.of_strings(entries):
            return None
        flags = np.fromiter(map(self.has_property, entries), bool, len(entries))
        return None if flags.all() else flags


def _itself(entry: Any) -> Any:
    return entry


def required(
    argument: str,
    allowed: str,
    has_property: Callable[[Any], bool],
    fault: Callable[[Any], Any] = _itself,
    of_strings: Callable[[Sequence[str]], bool] | None = None,
) -> Requirement:
    """The requirement that each entry of an argument has a property.

    Args:
        argument: its name.
        allowed: the property in words.
        has_property: whether any object has it.
        fault: what an error shows of an entry without it.
        of_strings: whether strings surely have it, all at once; None: that is not known.
    """
    holds: Any = _All(argument, has_property, fault, of_strings)
    return Requirement(argument, allowed, holds)


def _is_text(entry: Any) -> bool:
    return isinstance(entry, str)


def _is_reference(entry: Any) -> bool:
    return isinstance(entry, str) and entry.strip() != ""


def _are_references(entry: Any) -> bool:
    if isinstance(entry, (list, tuple)):
        return len(entry) > 0 and all(map(_is_reference, entry))
    return _is_reference(entry)


def _are_texts(entry: Any) -> bool:
    return isinstance(entry, str) or (isinstance(entry, (list, tuple)) and len(entry) > 0 and all(map(_is_text, entry)))


def _always(entries: Sequence[str]) -> bool:
    return True


def _none_blank(entries: Sequence[str]) -> bool:
    return all(map(str.strip, entries))


TEXT = required("prediction", "a string", _is_text, of_strings=_always)
TEXT_LABEL = required("label", "a string", _is_text, of_strings=_always)
TEXT_LABELS = required("label", "a string, or a list of strings", _are_texts, of_strings=_always)
REFERENCE = required("label", "a string that is not blank", _is_reference, of_strings=_none_blank)
REFERENCES = required(
    "label", "a string that is not blank, or a list of such strings", _are_references, of_strings=_none_blank
)
