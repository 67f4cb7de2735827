"""Formulas of docstrings as MathML: ``sum(w * p) / sum(w * y)`` is read by this file, and drawn by the browser.

A docstring stays readable in a terminal, and is the only place where a formula is written.
"""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

__all__ = ["NotMathematics", "is_mathematics", "mathml"]

_TOKEN = re.compile(
    r"(?P<number>\d[\d.,]*\d|\d)|(?P<name>[A-Za-z][A-Za-z0-9]*'?(?:_\{[^}]*\}|(?:_[A-Za-z0-9]+)*)'?)"
    r"|(?P<sign>\*\*|<=|>=|!=|-\+|[-+*/(){}\[\]|,<>=:@.#])|(?P<space>\s+)"
)
_SIGNS = {"*": "⋅", "-": "−", "<=": "≤", ">=": "≥", "!=": "≠", "-+": "∓", ".": "⋅"}
_RELATIONS = ("=", "<", ">", "<=", ">=", "!=")
_LETTERS = {"beta": "β", "inf": "∞"}
_OVER = {"sum": "∑", "max": "max", "min": "min", "mean": "mean"}
#: What a span of code needs to be mathematics: an operation, or a name with an index.
_SHOWS = re.compile(
    r" (?:[-+*/=<>]|>=|<=|-\+) |\*\*|^-?(?:sqrt|ln|exp|max|min)[( ]|\bsum[_ (]|\|\w|^-?[A-Za-z](_\w{1,2})?$|^\w_\w \w"
    r"|^\[[a-z]+ [a-z]"
)
#: And what it cannot have: quotes, settings, shapes, calls with settings.
_CODE = re.compile(r'"|\w=\S|^\[\w+[],]|\.\w{3,}|\b(?:add|int)\(|\w{3,} in ')
_WORDS = re.compile(r"[a-z]+ (?:[a-z]+ ?)+")


class NotMathematics(ValueError):
    """A text that this file cannot read."""


class _Token(NamedTuple):
    kind: str
    text: str
    apart: bool  # whether a space is before it


class _Part(NamedTuple):
    """A piece of MathML, and how tightly it holds together: 0 a sum or a relation, 1 a product, 2 one thing."""

    xml: str
    level: int = 2
    bare: str = ""  # without the parentheses that it was written with


def is_mathematics(text: str) -> bool:
    """Whether a span of code in a formula's text is mathematics rather than code."""
    return bool(_SHOWS.search(text)) and not _CODE.search(text)


def mathml(text: str) -> str:
    """A formula as MathML.

    Raises:
        NotMathematics: it cannot be read; the message says where.
    """
    reader = _Reader(text)
    xml = reader.listed()
    if reader.here is not None:
        raise NotMathematics(f"{text!r}: {reader.here.text!r} is not expected")
    return f'<math displaystyle="true" alttext="{_safe(text)}">{xml}</math>'


def _safe(text: str) -> str:
    """Text in which Markdown sees nothing."""
    return re.sub(r"[*_`\[\]|~^\\]", lambda found: f"&#{ord(found[0])};", escape(text))


def _mo(sign: str, more: str = "") -> str:
    return f"<mo{more}>{_safe(_SIGNS.get(sign, sign))}</mo>"


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _within(left: str, xml: str, right: str) -> str:
    """Brackets, which grow with what is tall alone: without a font for mathematics they would tower over letters."""
    how = f' fence="true" stretchy="{str(any(tall in xml for tall in ("<mfrac", "<munder", "<msqrt"))).lower()}"'
    return _row(_mo(left, how), xml, _mo(right, how))


def _index(text: str) -> str:
    """What is below a name: ``b+1``, ``ij``, or a word."""
    if re.fullmatch(r"[a-z]{2}", text):
        return _row(*(f"<mi>{each}</mi>" for each in text))
    return _Reader(text).listed()


def _named(name: str) -> str:
    """A variable: ``p``, ``R_{b+1}``, ``beta``, ``R2``, ``TP'``; words that are longer than indices stay words."""
    if name.endswith("'"):
        return f"<msup>{_named(name[:-1])}{_mo('′')}</msup>"
    base, _, below = name.partition("_")
    if base.endswith("'"):
        return f"<msubsup>{_named(base[:-1])}{_index(below)}{_mo('′')}</msubsup>"
    if below.startswith("{") or (below and len(below) <= 2 and "_" not in below):
        return f"<msub>{_named(base)}{_index(below.strip('{}'))}</msub>"
    if below:
        return f"<mtext>{_safe(name.replace('_', ' '))}</mtext>"
    digits = re.fullmatch(r"([A-Za-z]+)(\d)", name)
    if digits:
        kind = "msup" if digits[1] == "R" else "msub"
        return f"<{kind}>{_named(digits[1])}<mn>{digits[2]}</mn></{kind}>"
    return f"<mi>{_LETTERS.get(name, name)}</mi>"


class _Reader:
    """Reads from left to right; each method reads what its name says, and leaves the rest."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.tokens: list[_Token] = []
        position, apart = 0, False
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise NotMathematics(f"{text!r}: {text[position]!r} is no mathematics")
            position = found.end()
            if found.lastgroup != "space":
                self.tokens.append(_Token(str(found.lastgroup), found[0], apart))
            apart = found.lastgroup == "space"

    @property
    def here(self) -> _Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def sees(self, *signs: str) -> bool:
        return self.here is not None and self.here.kind == "sign" and self.here.text in signs

    def take(self, *signs: str) -> str:
        if self.here is None or (signs and not self.sees(*signs)):
            raise NotMathematics(f"{self.text!r}: {' or '.join(signs) or 'more'} is missing")
        self.place += 1
        return self.tokens[self.place - 1].text

    def listed(self) -> str:
        """Relations between commas."""
        parts = [self.relation().xml]
        while self.sees(","):
            parts += [_mo(self.take()), self.relation().xml]
        return parts[0] if len(parts) == 1 else _row(*parts)

    def relation(self) -> _Part:
        parts = [self.total()]
        signs = []
        while self.sees(*_RELATIONS):
            signs.append(self.take())
            parts.append(self.total())
        if not signs:
            return parts[0]
        return _Part(_row(parts[0].xml, *(_mo(sign) + part.xml for sign, part in zip(signs, parts[1:]))), 0)

    def total(self) -> _Part:
        """Terms with signs between them."""
        first = _mo(self.take()) if self.sees("-") else ""
        part = self.product()
        if not first and not self.sees("+", "-", "-+"):
            return part
        xml = first + part.xml
        while self.sees("+", "-", "-+"):
            xml += _mo(self.take()) + self.product().xml
        return _Part(_row(xml), 0)

    def product(self) -> _Part:
        """Factors; what is before a slash is the numerator."""
        part = self.power()
        while self.sees("*", "/", ".") or self.goes_on():
            if self.sees("/"):
                self.take()
                below = self.power()
                part = _Part(f"<mfrac>{_row(part.bare or part.xml)}{_row(below.bare or below.xml)}</mfrac>")
            else:
                sign = self.take() if self.sees("*", ".") else ""
                part = _Part(_row(part.xml, _mo(sign or "*"), self.power().xml), 1)
        return part

    def goes_on(self) -> bool:
        """Whether a factor follows without a sign: ``w_i N_ir``."""
        return (
            self.here is not None and (self.here.kind in ("name", "number") or self.sees("(", "[")) and self.here.apart
        )

    def power(self) -> _Part:
        part = self.thing()
        while self.sees("**"):
            self.take()
            negative = _mo(self.take()) if self.sees("-") else ""
            above = self.thing()
            part = _Part(f"<msup>{part.xml}{_row(negative, above.bare or above.xml)}</msup>")
        return part

    def thing(self) -> _Part:
        """A number, a name with what belongs to it, or something within brackets."""
        if self.here is None:
            self.take()
        if self.sees("("):
            inner = self.bracketed("(", ")")
            return _Part(_within("(", inner, ")"), bare=inner)
        if self.sees("[", "|"):
            return _Part(self.told())
        if self.sees("{"):
            return _Part(self.chosen())
        if self.sees("#"):
            return _Part(_row(_mo(self.take()), self.thing().xml))
        if self.here is not None and self.here.kind == "number":
            return _Part(f"<mn>{self.take()}</mn>")
        if self.here is not None and self.here.kind == "name":
            return self.name()
        raise NotMathematics(f"{self.text!r}: {self.here and self.here.text!r} is not expected")

    def bracketed(self, left: str, right: str) -> str:
        self.take(left)
        inner = self.listed()
        self.take(right)
        return inner

    def told(self) -> str:
        """``|x|``, the absolute value or a number of things, and ``[x > 0]``, 1 where it holds; both may be words."""
        left = self.take("[", "|")
        right = "]" if left == "[" else "|"
        rest = self.tokens[self.place :]
        end = next((place for place, token in enumerate(rest) if token.text == right), None)
        if end is None:
            raise NotMathematics(f"{self.text!r}: {right} is missing")
        words = "".join(" " * token.apart + token.text for token in rest[:end]).strip()
        if _WORDS.search(words) or (left == "[" and words.isalpha() and len(words) > 1):
            self.place += end + 1
            return _within(left, f"<mtext>{_safe(words)}</mtext>", right)
        inner = self.listed()
        self.take(right)
        return _within(left, inner, right)

    def chosen(self) -> str:
        """``{ x(t) : y(t) >= 1 }``, the x of those t for which it holds; or what holds alone."""
        self.take("{")
        of = self.relation().xml
        if self.sees("}"):
            self.take()
            return _within("{", of, "}")
        self.take(":")
        where = self.relation().xml
        self.take("}")
        return _within("{", _row(of, _mo(":"), where), "}")

    def name(self) -> _Part:
        name = self.take()
        base, _, below = name.partition("_")
        called = self.sees("(") and self.here is not None and not self.here.apart
        if name == "sqrt" and called:
            return _Part(f"<msqrt>{self.bracketed('(', ')')}</msqrt>")
        if (
            base in _OVER
            and (len(below) <= 2 or below[0] == "{")
            and (below or called or base == "sum" or self.sees("{"))
        ):
            return self.over(base, below.strip("{}"), called)
        if called:
            part = _row(_named(name), _mo("⁡"), _within("(", self.bracketed("(", ")"), ")"))
        else:
            part = _named(name)
        if self.sees("[") and self.here is not None and not self.here.apart:
            part = f"<msub>{part}{_row(self.bracketed('[', ']'))}</msub>"
        if self.sees("@"):
            self.take()
            part = f"<msub>{part}{_row(_mo('@'), self.power().xml)}</msub>"
        return _Part(part)

    def over(self, base: str, below: str, called: bool) -> _Part:
        """A sum, maximum or mean: of what is in its parentheses, or of the factors that follow."""
        sign = _mo(_OVER[base], ' largeop="true"') if base == "sum" else f'<mi>{base}</mi><mspace width="0.2em"/>'
        if below:
            sign = f"<munder>{_row(sign)}{_index(below)}</munder>"
        if called:
            place = self.place
            self.take("(")
            inner = self.relation()
            if self.sees(",") or (inner.level == 0 or base != "sum"):
                self.place = place
                of = _within("(", self.bracketed("(", ")"), ")")
            else:
                self.take(")")
                of = inner.xml
        elif self.sees("{"):
            of = self.chosen()
        else:
            of = self.power().xml
            while self.sees("*") or self.goes_on():
                of += _mo(self.take() if self.sees("*") else "*") + self.power().xml
        xml = _row(sign, of)
        more = self.sees("*") or self.goes_on()
        return _Part(_within("(", xml, ")") if more else xml, bare=xml)
