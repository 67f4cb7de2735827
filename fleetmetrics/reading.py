"""Options of reading in addition to the columns: conditions on rows, string labels, scores on other scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Sequence

import numpy as np

from fleetmetrics.arguments import flag_of, positive_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.joining import CommonIds
from fleetmetrics.optional import library
from fleetmetrics.vocabulary import argument
from fleetmetrics.where import Condition

__all__ = ["JoinedReading", "LackingReading", "Reading"]


@dataclass(frozen=True)
class Reading:
    r"""Options of reading that `fleetmetrics.files.evaluate` and the command line take in addition to columns.

    Args:
        header: names for the columns of CSV without a header; None: CSV has a header.
        text: columns of keys to keep as strings: 007 is "007".
        where: a condition on rows, such as ``"day = '2026-11-01' and n > 3"``; other rows are skipped and counted.
        positive: the label that counts as 1, as a string; every other is 0.
        classes: the names of the classes, as labels hold them, in the order of the scores; they become 0, 1, ...
        logits: whether predictions are log-odds; for several classes, logarithms up to a constant.
        scale: the factor of the predictions.

    Examples:
        >>> import pathlib, tempfile
        >>> from fleetmetrics import AUC, files
        >>> path = pathlib.Path(tempfile.mkdtemp(), "clicks.tsv")
        >>> _ = path.write_text("click\t63.7\tmon\nno\t12\tmon\nno\t99\ttue\n")
        >>> reading = Reading(header=["y", "p", "day"], where="day != 'tue'", positive="click", scale=0.01)
        >>> metrics, read = files.evaluate(path, AUC, {"prediction": "p", "label": "y"}, reading=reading)
        >>> metrics.compute(), read.rows, read.left_out
        (1.0, 2, 1)
    """

    header: Sequence[str] | None = None
    text: Sequence[str] = ()
    where: str | None = None
    positive: str | None = None
    classes: Sequence[str] | None = None
    logits: bool = False
    scale: float = 1.0

    @property
    def joined(self) -> tuple[str, CommonIds] | None:
        """The column of ids, and the ids that count; None: all rows count."""
        return None

    @property
    def may_lack(self) -> Sequence[str]:
        """The columns of numbers in which a row may lack a value, which is nan then."""
        return ()

    def __post_init__(self) -> None:
        for name, given in (("columns", self.header), ("text", self.text), ("classes", self.classes)):
            if given is None:
                continue
            if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) and each for each in given):
                raise InvalidInputError(f"{argument(name)} must be a list of strings, not {given!r:.80}")
            twice = next((each for each in given if given.count(each) > 1), None)
            if twice is not None:
                raise InvalidInputError(f"{argument(name)} has {twice!r} {given.count(twice)} times; name it once")
        if self.positive is not None and (not isinstance(self.positive, str) or not self.positive):
            raise InvalidInputError(
                f"{argument('positive')} must be a string, as in the data, not {self.positive!r:.80}"
            )
        if self.classes is not None and len(self.classes) < 2:
            raise InvalidInputError(f"{argument('classes')} must name two classes or more, not {list(self.classes)}")
        flag_of(argument("logits"), self.logits)
        positive_of(argument("scale"), self.scale)
        if self.where is not None:
            self.condition  # noqa: B018  # an error here is raised at once

    def check_texts(self, keys: Sequence[str]) -> None:
        """Raise InvalidInputError unless the columns that stay strings are among the keys, or in the condition."""
        known = [*keys, *(self.condition.names if self.condition else [])]
        odd = next((name for name in self.text if name not in known), None)
        if odd is not None:
            there = f", {', '.join(map(repr, dict.fromkeys(known)))}" if known else "; no columns of keys were given"
            raise InvalidInputError(f"{argument('text')} {odd!r} is not one of the columns of keys{there}")

    @cached_property
    def condition(self) -> Condition | None:
        """The condition on rows; None: all rows count."""
        return None if self.where is None else Condition(self.where)

    @property
    def names_labels(self) -> bool:
        """Whether labels are looked up by their names."""
        return self.positive is not None or self.classes is not None

    def labels(self, array: Any) -> np.ndarray:
        """Numbers for named labels: 1 for the positive one, else 0; or the place among the classes, -1 for others."""
        pa = library("pyarrow", "files")
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        values = array.dictionary.to_pylist()
        if self.classes is None:
            found = [int(_is_named(value, str(self.positive))) for value in values]
        else:
            found = [
                next((place for place, name in enumerate(self.classes) if _is_named(value, name)), -1)
                for value in values
            ]
        indices = array.indices
        if indices.null_count:  # of a task that these rows do not have
            known = np.asarray(indices.is_valid())
            return np.where(known, np.array([*found, 0], np.float64)[indices.fill_null(0).to_numpy()], np.nan)
        return np.array(found, np.int64)[indices.to_numpy(zero_copy_only=False)] if found else np.zeros(0)

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Predictions ``[n]`` or ``[n, classes]`` from the scores in the data."""
        if self.scale != 1.0:
            values = np.multiply(values, self.scale, dtype=np.float64)
        if not self.logits:
            return values
        values = np.asarray(values, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if values.ndim == 1 or values.shape[1] == 1:
                small = np.exp(-np.abs(values))
                return np.where(values < 0, small, 1.0) / (1.0 + small)
            raised = np.exp(values - values.max(axis=1, keepdims=True))
            return raised / raised.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class JoinedReading(Reading):
    """Options of reading for a side whose rows count only if the other side has their ids, too.

    Args:
        id: the column of ids.
        common: the ids that count.
    """

    id: str = ""
    common: CommonIds | None = None

    @property
    def joined(self) -> tuple[str, CommonIds] | None:  # noqa: D102
        return None if self.common is None else (self.id, self.common)


@dataclass(frozen=True)
class LackingReading(Reading):
    """Options of reading for data whose rows may lack a value in some columns of numbers.

    Args:
        lacking: these columns.
    """

    lacking: Sequence[str] = ()

    @property
    def may_lack(self) -> Sequence[str]:  # noqa: D102
        return self.lacking


def _is_named(value: Any, name: str) -> bool:
    """Whether this string names a value of the data: numbers in any notation, bools as true and false."""
    if isinstance(value, bool):
        return name.lower() == str(value).lower()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value == name:
        return True
    try:
        return value is not None and float(value) == float(name)
    except (TypeError, ValueError):
        return False
