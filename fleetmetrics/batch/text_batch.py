"""Batches whose samples are texts, or sequences of tags: an entry each, whatever its length."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

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
    "pieces",
    "text_rule",
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
        self.entries = {"prediction": _entries_of(prediction, "prediction")}
        if label is not None:
            self.entries["label"] = _entries_of(label, "label")
        sizes = [*map(len, self.entries.values())]
        if sizes[0] != sizes[-1]:
            raise InvalidInputError(
                f"label has {sizes[1]} entries but prediction has {sizes[0]}; they must be equal, one entry per "
                "sample: several references of a sample are a list in its entry"
            )
        super().__init__(np.arange(sizes[0]), None, to_host(_eager(weight)), to_host(_eager(mask)), columns)
        self.all_places: Any = self.prediction
        self.label: Any = None if label is None else self.prediction
        self.characters = {}
        for argument, entries in self.entries.items():
            try:
                self.characters[argument] = sum(map(len, map("".join, pieces(entries))))
            except TypeError:  # not all are strings: to join them is faster than to ask each
                self.entries[argument] = [*map(_as_list, entries)]

    @property
    def predictions(self) -> Sequence[Any]:
        """The predictions that count."""
        return self.kept("prediction")

    @property
    def labels(self) -> Any:
        """The references that count."""
        return super().labels if self.label is None else self.kept("label")

    def kept(self, argument: str) -> Sequence[Any]:
        """The entries of an argument that count."""
        entries, places = self.entries[argument], getattr(self, argument)
        if places is self.all_places:
            return entries
        return self.cached(("kept", argument), lambda: [*map(entries.__getitem__, places.tolist())])

    def given(self, argument: str, place: int) -> Any:  # noqa: D102
        return self.entries[argument][place] if argument in self.entries else super().given(argument, place)


def _eager(values: Any) -> Any:
    """The values, which are no variable of a static program."""
    if values is not None and is_static(values):
        raise StaticProgramError(
            "a static program has no variables of texts: fetch its outputs with exe.run(fetch_list=...), decode "
            "them, and pass lists to add after each run"
        )
    return values


def _entries_of(values: Any, argument: str) -> Sequence[Any]:
    """Python's objects, a string or a list for each sample."""
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, np.ndarray):
        return values.tolist() if values.ndim else [values.item()]
    one_axis = len(getattr(_eager(values), "shape", (0,))) == 1  # a data frame would be its columns
    if one_axis and not isinstance(values, (str, bytes, Mapping, set, frozenset)) and not is_eager_tensor(values):
        values = _as_list(values)
        if isinstance(values, Iterable):
            return list(values)
    shown = f": {values!r:.60}" if isinstance(values, (str, bytes)) else ""
    raise InvalidInputError(
        f"{argument} must be a list with one entry per sample, of strings or of sequences of tags, not "
        f"{with_article(type(values).__name__)}{shown}"
    )


def _as_list(values: Any) -> Any:
    """What an array, or a column of a frame, holds; anything else as it is."""
    listed = next((getattr(values, name) for name in ("to_pylist", "tolist", "to_list") if hasattr(values, name)), None)
    return values if listed is None else listed()


def pieces(entries: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The entries, a piece at a time."""
    if len(entries) <= _AT_ONCE:
        return (entries,)
    return (entries[start : start + _AT_ONCE] for start in range(0, len(entries), _AT_ONCE))


class _AreTexts(NamedTuple):
    """Which entries of an argument are a text with a property, or several; equal ones share one check."""

    argument: str
    has_property: Callable[[str], Any]
    several: bool

    def __call__(self, batch: Any) -> Any:
        entries = batch.kept(self.argument)
        if self.argument in batch.characters and (self.has_property is _any or all(map(self.has_property, entries))):
            return None
        return np.fromiter(map(self.allows, entries), bool, len(entries))

    def allows(self, entry: Any) -> bool:
        """Whether an entry, which may be anything, is such a text."""
        texts = entry if self.several and isinstance(entry, (list, tuple)) else (entry,)
        return len(texts) > 0 and all(isinstance(text, str) and self.has_property(text) for text in texts)

    def fault(self, entry: Any) -> Any:
        """What an error shows: the entry."""
        return entry


def _any(text: str) -> bool:
    return True


def text_rule(
    argument: str, allowed: str, has_property: Callable[[str], Any] = _any, several: bool = False
) -> Requirement:
    """The requirement that each entry of an argument is a string with a property.

    Args:
        argument: its name.
        allowed: the property in words.
        has_property: whether a string has it; any string, if left out.
        several: whether an entry may be a list of such strings.
    """
    holds: Any = _AreTexts(argument, has_property, several)
    return Requirement(argument, allowed, holds)


#: Of a text that is not blank, something is left.
_NOT_BLANK: Callable[[str], Any] = str.lstrip
TEXT = text_rule("prediction", "a string")
TEXT_LABEL = text_rule("label", "a string")
TEXT_LABELS = text_rule("label", "a string, or a list of strings", several=True)
REFERENCE = text_rule("label", "a string that is not blank", _NOT_BLANK)
REFERENCES = text_rule("label", "a string that is not blank, or a list of such strings", _NOT_BLANK, several=True)
