"""Conditions on the rows to count, such as ``day = '2026-11-01' and n > 3``.

The grammar is that of SQL conditions without functions. A comparison with a null is not true.
"""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.columns.literals import Literal, compared
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import argument

__all__ = ["Condition"]

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<column>"(?:[^"]|"")+"|`[^`]+`)|(?P<sign><=|>=|<>|!=|==|[=<>(),])"""
    r"""|(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?)(?![\w.])"""
    r"""|(?P<word>[^\W\d][\w.]*(?:\[\d+\][\w.]*)*)"""
)
_SIGNS = {"=": "equal", "==": "equal", "!=": "not_equal", "<>": "not_equal", "<": "less", "<=": "less_equal"}
_SIGNS.update({">": "greater", ">=": "greater_equal"})
_WORDS = ("and", "or", "not", "in", "is", "null", "true", "false")
_HOW = "write it like day = '2026-11-01' and (n > 3 or slot in ('feed', 'news')) and note is not null"


class _Test(NamedTuple):
    """A column against literals; none: whether it is null."""

    column: str
    sign: str
    literals: Sequence[Literal]

    def flags(self, table: Any) -> Any:
        pc = library("pyarrow.compute")
        field, column = table.schema.field(self.column), table.column(self.column).combine_chunks()
        if not self.literals:
            return pc.is_null(column)
        flags = compared(field, column, self.sign, self.literals[0])
        for literal in self.literals[1:]:
            flags = pc.or_kleene(flags, compared(field, column, self.sign, literal))
        return flags


class _Not(NamedTuple):
    """The opposite."""

    part: Any

    def flags(self, table: Any) -> Any:
        return library("pyarrow.compute").invert(self.part.flags(table))


class _Both(NamedTuple):
    """Two tests, by ``and_kleene`` or ``or_kleene``."""

    by: str
    one: Any
    other: Any

    def flags(self, table: Any) -> Any:
        both = self.one.flags(table), self.other.flags(table)
        return getattr(library("pyarrow.compute"), self.by)(*both)


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


class Condition:
    """A condition on the columns of a row.

    Args:
        text: tests of columns with literals, ``= != < <= > >=``, ``in (...)``, ``between ... and ...``, ``is null``,
            with ``and``, ``or``, ``not`` and brackets. Strings are in single quotes, names that are not words in
            double quotes.

    Raises:
        InvalidInputError: the condition is malformed; the message has the place.

    Examples:
        >>> import pyarrow
        >>> table = pyarrow.table({"day": ["mon", "tue", None], "n": [1, 5, 7]})
        >>> Condition("day = 'tue' or n < 3").flags(table).tolist()
        [True, True, False]
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"{argument('where')} must be a condition, not {text!r:.80}; {_HOW}")
        self.text = text
        self._tokens = list(self._split())
        self._next = 0
        self._tests: list[_Test] = []
        self._columns: list[_Token] = []
        self._root = self._joined("or", lambda: self._joined("and", self._negated))
        if self._token.kind != "end":
            raise self._wrong("'and', 'or' or the end")
        #: The columns that it looks at, each once.
        self.names: list[str] = list(dict.fromkeys(test.column for test in self._tests))

    def kind(self, name: str) -> type | None:
        """The kind of the literals that a column is compared with; None: no literals."""
        literal = next((test.literals[0] for test in self._tests if test.column == name and test.literals), None)
        if isinstance(literal, Fraction):
            return int if literal.denominator == 1 else float
        return None if literal is None else type(literal)

    def large(self, name: str) -> int | None:
        """The first integer of 2**53 or more that it looks for in a column, which no float tells from its neighbors."""
        tests = (test for test in self._tests if test.column == name and test.sign in ("equal", "not_equal"))
        numbers = (literal for test in tests for literal in test.literals if isinstance(literal, Fraction))
        return next((int(number) for number in numbers if number.denominator == 1 and abs(number) >= 2**53), None)

    def renamed(self, names: Mapping[str, str]) -> str:
        """The text with other names of columns, by those here.

        Examples:
            >>> print(Condition("day = 'day' or n < 3").renamed({"day": "the day"}))
            "the day" = 'day' or n < 3
        """
        text = self.text
        for token in reversed(self._columns):
            name = names.get(_name_of(token))
            if name is not None:
                quoted = name.replace('"', '""')
                text = f'{text[: token.place]}"{quoted}"{text[token.place + len(token.text) :]}'
        return text

    def flags(self, table: Any) -> np.ndarray:
        """Flags of the rows of an Arrow table for which it holds."""
        flags = self._root.flags(table)
        return np.asarray(flags.fill_null(False).to_numpy(zero_copy_only=False), bool)

    # -- reading the text -----------------------------------------------------------------------------------

    def _split(self) -> Iterator[_Token]:
        place = 0
        while self.text[place:].strip():
            place += len(self.text[place:]) - len(self.text[place:].lstrip())
            match = _TOKEN.match(self.text, place)
            if match is None:
                raise InvalidInputError(self._at(place, "cannot be read"))
            kind, text = str(match.lastgroup), match[0]
            if kind == "word" and text.lower() in (*_WORDS, "between"):
                kind, text = "key", text.lower()
            yield _Token(kind, text, place)
            place = match.end()
        yield _Token("end", "", len(self.text))

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _taken(self, *texts: str) -> str:
        """The next token, if it is a sign or a word of the grammar among these; or nothing."""
        token = self._token
        if token.kind not in ("sign", "key") or token.text not in texts:
            return ""
        self._next += 1
        return token.text

    def _needed(self, text: str) -> None:
        if not self._taken(text):
            raise self._wrong(repr(text))

    def _at(self, place: int, what: str) -> str:
        where = f"at {self.text[place:]!r:.30}" if self.text[place:].strip() else "at its end"
        return f"{argument('where')} {self.text!r}: {where} it {what}; {_HOW}"

    def _wrong(self, wanted: str) -> InvalidInputError:
        return InvalidInputError(self._at(self._token.place, f"should have {wanted}"))

    def _joined(self, word: str, part: Callable[[], Any]) -> Any:
        joined = part()
        while self._taken(word):
            joined = _Both(f"{word}_kleene", joined, part())
        return joined

    def _negated(self) -> Any:
        if self._taken("not"):
            return _Not(self._negated())
        if self._taken("("):
            negated = self._joined("or", lambda: self._joined("and", self._negated))
            self._needed(")")
            return negated
        return self._test()

    def _test(self) -> Any:
        column = self._column()
        if self._taken("is"):
            opposite = self._taken("not")
            self._needed("null")
            return self._made(column, "is_null", [], bool(opposite))
        opposite = self._taken("not")
        if self._taken("in"):
            self._needed("(")
            literals = [self._literal()]
            while self._taken(","):
                literals.append(self._literal())
            self._needed(")")
            return self._made(column, "equal", literals, bool(opposite))
        if self._taken("between"):
            low = self._made(column, "greater_equal", [self._literal()])
            self._needed("and")
            both = _Both("and_kleene", low, self._made(column, "less_equal", [self._literal()]))
            return _Not(both) if opposite else both
        sign = "" if opposite else self._taken(*_SIGNS)
        if not sign:
            raise self._wrong("'in' or 'between'" if opposite else "=, !=, <, <=, >, >=, 'in', 'between' or 'is'")
        return self._made(column, _SIGNS[sign], [self._literal()])

    def _made(self, column: str, sign: str, literals: Sequence[Literal], opposite: bool = False) -> Any:
        test = _Test(column, sign, literals)
        self._tests.append(test)
        return _Not(test) if opposite else test

    def _column(self) -> str:
        token = self._token
        if token.kind not in ("word", "column"):
            raise self._wrong("the name of a column")
        self._next += 1
        self._columns.append(token)
        return _name_of(token)

    def _literal(self) -> Literal:
        token = self._token
        word = self._taken("true", "false")
        if word:
            return word == "true"
        if token.kind not in ("text", "number"):
            raise self._wrong("a number, a string in single quotes, true or false")
        self._next += 1
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        number = Fraction(token.text)
        if abs(number) > Fraction(sys.float_info.max):
            raise InvalidInputError(self._at(token.place, "should have a number that a float can hold"))
        return number


def _name_of(token: _Token) -> str:
    """The column that a token names."""
    quote = token.text[0]
    return token.text[1:-1].replace('""', '"') if quote == '"' else token.text.strip("`")
