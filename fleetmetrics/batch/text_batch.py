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
    "required",
    "strings",
]

#: The number of strings that are joined to check them.
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

    label: Any
    #: The arguments whose entries are all strings.
    plain: set[str]

    def __init__(
        self,
        prediction: Any,
        label: Any = None,
        weight: Any = None,
        mask: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        if any(map(is_static, (prediction, label, weight, mask))):
            raise StaticProgramError(
                "a static program has no variables of texts: fetch its outputs with exe.run(fetch_list=...), decode "
                "them, and pass lists to add after each run"
            )
        predictions, of_strings = entries_of(prediction, "prediction")
        super().__init__(np.zeros(len(predictions), np.int8), None, to_host(weight), to_host(mask), columns)
        self.prediction = predictions
        self.plain = {"prediction"} if of_strings else set()
        if label is not None:
            self.label, of_strings = entries_of(label, "label")
            self.plain |= {"label"} if of_strings else set()
            if len(self.label) != len(predictions):
                raise InvalidInputError(
                    f"label has {len(self.label)} entries but prediction has {len(predictions)}; they must be equal, "
                    "one entry per sample: several references of a sample are a list in its entry"
                )


def entries_of(values: Any, argument: str) -> tuple[np.ndarray, bool]:
    """An array ``[n]`` of Python's objects, a string or a list for each sample; and whether all are strings."""
    if isinstance(values, np.ndarray):
        entries: Any = values.tolist() if values.ndim else [values.item()]
    elif isinstance(values, (str, bytes, Mapping, set, frozenset)) or is_eager_tensor(values):
        raise _not_entries(values, argument)
    elif isinstance(values, (list, tuple)):
        entries = values
    else:
        listed = next((getattr(values, name) for name in ("to_pylist", "tolist") if hasattr(values, name)), None)
        if listed is None and not isinstance(values, Iterable):
            raise _not_entries(values, argument)
        entries = list(values) if listed is None else listed()
    of_strings = _are_strings(entries)
    if not of_strings:
        entries = [entry.tolist() if isinstance(entry, np.ndarray) else entry for entry in entries]
    return _objects(entries), of_strings


def _are_strings(entries: Sequence[Any]) -> bool:
    """Whether all entries are strings: to join some at a time is three times faster than to look at their types."""
    try:
        for start in range(0, len(entries), _AT_ONCE):
            "".join(entries[start : start + _AT_ONCE])
    except TypeError:
        return False
    return True


def _objects(entries: Sequence[Any]) -> np.ndarray:
    """An array of these objects; of a list of strings, `numpy.array` would measure each, and of lists it makes rows."""
    try:
        return np.fromiter(entries, object, len(entries))
    except ValueError:  # before NumPy 1.23
        array = np.empty(len(entries), object)
        for place, entry in enumerate(entries):
            array[place] = entry
        return array


def _not_entries(values: Any, argument: str) -> InvalidInputError:
    shown = f": {values!r:.60}" if isinstance(values, (str, bytes)) else ""
    return InvalidInputError(
        f"{argument} must be a list with one entry per sample, of strings or of sequences of tags, not "
        f"{with_article(type(values).__name__)}{shown}"
    )


def strings(batch: Batch, argument: str) -> list[Any]:
    """The entries of an argument."""
    entries: list[Any] = batch.cached(("strings", argument), getattr(batch, argument).tolist)
    return entries


@dataclass(frozen=True)
class _All:
    """Which entries of an argument have a property; equal ones share one check."""

    argument: str
    has_property: Callable[[Any], bool]
    fault: Callable[[Any], Any]
    of_strings: Callable[[list[str]], bool] | None

    def __call__(self, batch: Any) -> Any:
        entries = strings(batch, self.argument)
        if self.of_strings and self.argument in batch.plain and self.of_strings(entries):
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
    of_strings: Callable[[list[str]], bool] | None = None,
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


def _always(entries: list[str]) -> bool:
    return True


def _none_blank(entries: list[str]) -> bool:
    return all(map(str.strip, entries))


TEXT = required("prediction", "a string", _is_text, of_strings=_always)
TEXT_LABEL = required("label", "a string", _is_text, of_strings=_always)
TEXT_LABELS = required("label", "a string, or a list of strings", _are_texts, of_strings=_always)
REFERENCE = required("label", "a string that is not blank", _is_reference, of_strings=_none_blank)
REFERENCES = required(
    "label", "a string that is not blank, or a list of such strings", _are_references, of_strings=_none_blank
)
