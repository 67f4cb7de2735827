"""Options of reading in addition to the columns: conditions on rows, string labels, scores on other scales."""

from __future__ import annotations

import codecs
import contextlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Mapping, Sequence

import numpy as np

from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.columns.where import Condition
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.checks import choice_of, flag_of, positive_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import argument, names_in

__all__ = ["BLANKS", "ON_FILES", "Reading", "SideReading", "StreamReading", "named_labels"]

#: The options that say how files are written: two evaluations that differ only in these have the same meaning.
ON_FILES = ("quote", "separator", "encoding", "null", "format")

#: The separator that is any run of blanks and tabs.
BLANKS = "blanks"
#: The quotes that can be around values of CSV, or none.
_QUOTES = ("none", '"', "'")


@dataclass(frozen=True)
class Reading:
    r"""Options of reading that `fleetmetrics.files.evaluate` and the command line take in addition to columns.

    Args:
        header: names for the columns of CSV without a header; None: CSV has a header.
        text: columns of keys to keep as strings: 007 is "007".
        where: a condition on rows, such as ``"day = '2026-11-01' and n > 3"``; other rows are skipped and counted.
        positive: the label that counts as 1, as a string; every other is 0.
        classes: the names of the classes, as labels hold them, in the order of the scores; they become 0, 1, ... So do
            the names in one column of predictions: for metrics of several classes any values, else whatever is not a
            float, which is a probability.
        from_logits: whether predictions are log-odds; for several classes, logarithms up to a constant.
        scale: the factor of the predictions.
        quote: what is around values of CSV that hold separators or ends of lines: ``"none"``, ``'"'`` or ``"'"``; None:
            ``'"'``, but a value that would take whole rows into it is a bad row.
        separator: the character between values of CSV, also as ``"tab"``, ``"^A"`` or ``"\x01"``; "blanks": any run of
            blanks and tabs. None: recognized: a comma, tab, semicolon, pipe or ``^A``.
        encoding: of files of text, such as "gb18030"; None: UTF-8, or UTF-16 with a byte order mark.
        null: what else stands for no value in numbers of CSV and in keys, such as ``["\\N", "NA"]``; also in one string
            with commas.
        format: of the files, as for `fleetmetrics.files.evaluate`; None: each is recognized.

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
    from_logits: bool = False
    scale: float = 1.0
    quote: Literal["none", '"', "'"] | None = None
    separator: str | None = None
    encoding: str | None = None
    null: str | Sequence[str] = ()
    format: Literal["parquet", "npz", "arrow", "jsonl", "libsvm", "csv"] | None = None

    @property
    def joined(self) -> tuple[str, CommonIds] | None:
        """The column of ids, and the ids that count; None: all rows count."""
        return None

    @property
    def named_by(self) -> Mapping[str, str]:
        """The argument of the caller's function that names a column, by column; the others name those of ``add``."""
        return {}

    @property
    def may_lack(self) -> Sequence[str]:
        """The columns of numbers in which a row may lack a value, which is nan then."""
        return ()

    @property
    def in_arrow(self) -> Sequence[str]:
        """The arguments whose keys stay in Arrow, where strings take less memory and time."""
        return ()

    @property
    def cut(self) -> str:
        """The column of keys whose moments are cut to days; "": none."""
        return ""

    def __post_init__(self) -> None:
        if isinstance(self.null, str):
            object.__setattr__(self, "null", [string for string in names_in(self.null) if string])
        lists = (("columns", self.header), ("text", self.text), ("classes", self.classes), ("null", self.null))
        for name, strings in lists:
            if strings is None:
                continue
            if not isinstance(strings, (list, tuple)) or not all(
                isinstance(string, str) and string for string in strings
            ):
                raise InvalidInputError(f"{argument(name)} must be a list of strings, not {strings!r:.80}")
            twice = next((string for string in strings if strings.count(string) > 1), None)
            if twice is not None:
                raise InvalidInputError(f"{argument(name)} has {twice!r} {strings.count(twice)} times; name it once")
        if self.positive is not None and (not isinstance(self.positive, str) or not self.positive):
            raise InvalidInputError(
                f"{argument('positive')} must be a string, as in the data, not {self.positive!r:.80}"
            )
        if self.classes is not None and len(self.classes) < 2:
            raise InvalidInputError(f"{argument('classes')} must name two classes or more, not {list(self.classes)}")
        flag_of(argument("from_logits"), self.from_logits)
        positive_of(argument("scale"), self.scale)
        choice_of(argument("quote"), self.quote, (None, *_QUOTES))
        if self.separator is not None:
            self._check_separator()
        _check_encoding(self.encoding)
        if self.where is not None:
            self.condition  # noqa: B018  # an error here is raised at once

    def _check_separator(self) -> None:
        """Raise InvalidInputError unless the separator can be between values."""
        between = self.between if isinstance(self.separator, str) else ""
        between = between or ""
        if between != BLANKS and (len(between) != 1 or between.isalnum() or between in "\0\n\r.+-\"'"):
            raise InvalidInputError(
                f"{argument('separator')} must be one character between values, such as ';', or tab, {BLANKS} (any run "
                f"of them), ^A or \\x01, not {self.separator!r:.80}"
            )

    @cached_property
    def between(self) -> str | None:
        """The separator itself; `BLANKS`: any run of blanks and tabs; None: it is recognized."""
        if self.separator is None:
            return None
        if self.separator in ("tab", "\\t"):
            return "\t"
        control = re.fullmatch(r"\^([@-_])", self.separator)
        code = re.fullmatch(r"\\(?:x|u00)([0-9a-fA-F]{2})|\\0?([0-7]{2})", self.separator)
        if control:
            return chr(ord(control[1]) - 64)
        if code:
            return chr(int(code[1], 16) if code[1] else int(code[2], 8))
        return self.separator

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

    @cached_property
    def flips(self) -> bool:
        """Whether the positive label is a number, but not 1: predicted labels are then no flags of it."""
        with contextlib.suppress(ValueError):
            return self.positive is not None and float(self.positive) != 1
        return False

    def is_class(self, value: Any) -> bool:
        """Whether one of the classes has this name."""
        return any(_is_named(value, name) for name in self.classes or ())

    def labels(self, array: Any) -> np.ndarray:
        """Numbers for named labels: 1 for the positive one, else 0; or the place among the classes, -1 for others."""
        pa = library("pyarrow")
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        values = array.dictionary.to_pylist()
        if self.classes is None:
            labels = [int(_is_named(value, str(self.positive))) for value in values]
        else:
            labels = [
                next((place for place, name in enumerate(self.classes) if _is_named(value, name)), -1)
                for value in values
            ]
        indices = array.indices
        if indices.null_count:  # of a task that these rows do not have
            known = np.asarray(indices.is_valid())
            return np.where(known, np.array([*labels, 0], np.float64)[indices.fill_null(0).to_numpy()], np.nan)
        return np.array(labels, np.int64)[indices.to_numpy(zero_copy_only=False)] if labels else np.zeros(0)

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Predictions ``[n]`` or ``[n, classes]`` from the scores in the data."""
        if self.scale != 1.0:
            values = np.multiply(values, self.scale, dtype=np.float64)
        if not self.from_logits:
            return values
        values = np.asarray(values, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if values.ndim == 1 or values.shape[1] == 1:
                small = np.exp(-np.abs(values))
                return np.where(values < 0, small, 1.0) / (1.0 + small)
            raised = np.exp(values - values.max(axis=1, keepdims=True))
            return raised / raised.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class SideReading(Reading):
    """Options of reading for a side of an evaluation, whose rows may count only if the other side has their ids.

    Args:
        id: the column of ids.
        common: the ids that count; None: all rows count.
        days: the column of slices whose moments are cut to days; "": none.
        arguments: of the evaluation, by the columns that they name.
    """

    id: str = ""
    common: CommonIds | None = None
    days: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def named_by(self) -> Mapping[str, str]:  # noqa: D102
        return self.arguments

    @property
    def joined(self) -> tuple[str, CommonIds] | None:  # noqa: D102
        return None if self.common is None else (self.id, self.common)

    @property
    def cut(self) -> str:  # noqa: D102
        return self.days


@dataclass(frozen=True)
class StreamReading(Reading):
    """Options of reading for streams that are joined: ids stay in Arrow, and rows may lack some numbers.

    Args:
        lacking: the columns of these numbers.
        arguments: of the comparison, by the columns that they name.
    """

    lacking: Sequence[str] = ()
    arguments: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def named_by(self) -> Mapping[str, str]:  # noqa: D102
        return self.arguments

    @property
    def may_lack(self) -> Sequence[str]:  # noqa: D102
        return self.lacking

    @property
    def in_arrow(self) -> Sequence[str]:  # noqa: D102
        return ("id",)


def _check_encoding(name: Any) -> None:
    """Raise InvalidInputError unless Python knows this encoding of text."""
    if name is None:
        return
    try:
        if isinstance(name, str) and codecs.lookup(name)._is_text_encoding:
            return
    except (LookupError, ValueError):  # the latter of a name with a NUL
        pass
    raise InvalidInputError(
        f"{argument('encoding')} must be the name of an encoding of text, such as utf-8, gb18030, gbk, big5, utf-16, "
        f"latin-1 or shift_jis, not {name!r:.80}"
    )


def _is_named(value: Any, name: str) -> bool:
    """Whether this string names a value of the data: numbers in any notation, bools as true and false, or 1 and 0."""
    if isinstance(value, bool):
        return name.lower() == str(value).lower() or name == str(int(value))
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value == name:
        return True
    for number in (int, float):  # integers beyond 2**53 as they are
        try:
            return value is not None and number(str(value)) == number(name)
        except (TypeError, ValueError):
            continue
    return False


def named_labels(value: Any) -> str:
    """The advice for a column of labels whose first one is a word."""
    return f"; if labels are names, give {argument('positive', 'LABEL')}" if isinstance(value, str) else ""
