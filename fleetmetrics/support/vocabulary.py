"""Words that messages, results and reports share: articles, plurals, verdicts, and the names of what is asked.

An error names an argument as the user has given it: ``ci`` to who calls from Python, ``--ci`` in a shell.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import re
from typing import Any, Iterator, Literal, Mapping, get_args

__all__ = [
    "RESULT_KEYS",
    "SIZES",
    "VERDICTS",
    "Verdict",
    "agreeing",
    "argument",
    "as_options",
    "counted",
    "described",
    "entries_in_words",
    "in_shell",
    "kind_in_words",
    "names_in",
    "parts_of",
    "separated",
    "snake_case",
    "with_article",
]

Verdict = Literal["worse", "different", "better", "within chance", "too few"]
#: The verdicts on a slice, the most important first.
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: What is counted of a slice, and of the whole, beside rows.
SIZES = ("positives", "users", "queries")
#: What a result has beside the values of metrics, in JSON.
RESULT_KEYS = (
    "about",
    "asked",
    "at_k",
    "baseline",
    "conditions",
    "data",
    "explained",
    "others",
    "references",
    "rows",
    "slices",
    "tasks",
    "verdicts",
    "versus",
    "warnings",
)

#: What NumPy abbreviates, by the letter of a dtype: <U3 are strings.
_KINDS = {
    "O": "objects",
    "S": "bytes",
    "U": "strings",
    "V": "records",
    "M": "times",
    "c": "complex numbers",
    "m": "durations",
}

#: The verbs of messages whose singular is not the plural with an s.
_SINGULAR = {"are": "is", "do": "does", "have": "has", "were": "was"}
#: Names that begin with a vowel when spoken, such as AUC, F1 and ndarray; not MAP, UAUC and UtilCommunicator.
_SPOKEN_VOWEL = re.compile(
    r"(?!MAP|ROC|U[A-Z]|[Uu](int|[^aeiou][aeiou]))([AEFHILMNORSX](?![a-z])|[AEIOUaeiou]|ndarray)"
)

_OPTIONS = contextvars.ContextVar("fleetmetrics_options", default=False)


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """Arguments are called as in a shell, by this thread, until it ends."""
    token = _OPTIONS.set(True)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def in_shell() -> bool:
    """Whether arguments are called as in a shell."""
    return _OPTIONS.get()


def argument(name: str, value: str = "") -> str:
    """What an argument of `fleetmetrics.evaluate` is called in a message.

    Args:
        name: in Python.
        value: what to give it.
    """
    if in_shell():
        return f"--{name.replace('_', '-')}{' ' if value else ''}{value}"
    return f"{name}={value}" if value else name


def counted(number: int, what: str, verb: str = "") -> str:
    """A number of things, in words.

    Args:
        number: of them.
        what: they are, in the plural.
        verb: the verb that follows, in the plural.

    Examples:
        >>> counted(1, "queries"), counted(2000, "queries"), counted(1, "files", "were")
        ('1 query', '2,000 queries', '1 file was')
    """
    return f"{number:,} {_singular(what) if number == 1 else what}{verb and f' {agreeing(number, verb)}'}"


def _singular(what: str) -> str:
    if what.endswith("ies"):
        return f"{what[:-3]}y"
    return what[:-2] if what.endswith("sses") else what[:-1]


def agreeing(number: int, verb: str) -> str:
    """A verb for a number of things.

    Args:
        number: of them.
        verb: in the plural.

    Examples:
        >>> agreeing(1, "have"), agreeing(2, "have"), agreeing(1, "hold")
        ('has', 'have', 'holds')
    """
    return verb if number != 1 else _SINGULAR.get(verb, f"{verb}s")


def with_article(name: str) -> str:
    """A name, such as that of a class, with its indefinite article.

    Examples:
        >>> with_article("AUC"), with_article("F1"), with_article("Sliced"), with_article("int")
        ('an AUC', 'an F1', 'a Sliced', 'an int')
    """
    return f"{'an' if _SPOKEN_VOWEL.match(name) else 'a'} {name}"


def kind_in_words(dtype: Any) -> str:
    """What entries of a dtype are, in words, such as strings for <U3; of numbers the dtype's name."""
    return _KINDS.get(dtype.kind, str(dtype))


def entries_in_words(array: Any) -> str:
    """What an array holds where numbers belong, with the first that is not a number.

    Examples:
        >>> import numpy as np
        >>> entries_in_words(np.array(["cat", "dog"])), entries_in_words(np.array([1, None]))
        ("strings such as 'cat'", 'objects such as None')
    """
    words = kind_in_words(array.dtype)
    if array.dtype.kind not in _KINDS or not array.size:
        return words
    odd = next((entry for entry in array.flat if not isinstance(entry, (int, float))), array.flat[0])
    plain = odd.item() if array.dtype.kind in "SU" else odd
    return f"{words} such as {plain!r:.60}" if array.dtype.kind in "OSU" else f"{words} such as {plain!s:.60}"


@functools.lru_cache(maxsize=1024)
def snake_case(name: str) -> str:
    """The name of a class as the command line and warnings write it: ``log_loss``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def separated(text: str, separator: str = ",") -> list[str]:
    """The parts of a text between separators that are not within double quotes; these stay."""
    return [part.strip() for part in re.split(f'{re.escape(separator)}(?=(?:[^"]*"[^"]*")*[^"]*$)', text)]


def names_in(text: str, separator: str = ",") -> list[str]:
    """Names between separators; one in double quotes may hold a separator, and a double quote twice.

    Examples:
        >>> names_in('p0,"a,b"')
        ['p0', 'a,b']
    """
    parts = separated(text, separator)
    quoted = re.compile(r'"((?:[^"]|"")*)"')
    return [match[1].replace('""', '"') if match else part for part, match in zip(parts, map(quoted.fullmatch, parts))]


def described(metric: Any) -> dict[str, str]:
    """What a result says about a metric: its class, which values are better, and what it is, in a line."""
    kind = type(metric)
    what = (kind.__doc__ or "").partition("\n")[0].replace("`", "")
    return {"kind": kind.__name__, "better": getattr(metric, "better", ""), "definition": what}


def parts_of(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts of a result in its JSON form, each of which has metrics, with the beginning of their names.

    Args:
        result: of one task, which is its only part, without a name; or of several: ``("click.", ...)`` and so on.
    """
    if result.get("tasks"):
        yield from ((f"{task}.", part) for task, part in result["tasks"].items())
    else:
        yield "", result
