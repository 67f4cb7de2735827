"""What people read, in two languages: ``en.ini`` and ``zh.ini`` hold the texts; numbers and dates are here."""

from __future__ import annotations

import contextlib
import math
from datetime import datetime
from typing import Any, Iterable, Mapping

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.words.texts import LANGUAGES, texts_of

__all__ = ["Words", "digits_of"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: A number with more digits after the point than this is written with a power of ten.
_MOST_DIGITS = 9
#: The keys of metrics that are acronyms.
_ACRONYMS = ("auc", "gauc", "uauc", "copc", "ctr", "ndcg", "mrr", "map", "mae", "mse", "rmse", "ks", "f1")


class Words:
    """Texts, numbers and dates in a language; InvalidInputError if the package has no texts in it."""

    def __init__(self, lang: str) -> None:
        if not isinstance(lang, str) or lang not in LANGUAGES:
            raise InvalidInputError(f"lang must be {' or '.join(map(repr, LANGUAGES))}, not {lang!r:.80}")
        self.lang = lang
        self._texts = texts_of(lang)

    def __call__(self, name: str, /, **values: Any) -> str:
        """A text with values in it.

        Args:
            name: ``section.key`` in the language's file. If ``number`` is 1, it is the text of ``section.key.one``, if
                the language has that.
            **values: by their names in the text.
        """
        section, _, key = name.partition(".")
        forms = self._texts[section]
        text = forms[key]
        if values.get("number") == 1:
            text = forms.get(f"{key}.one", text)
        return text.format(**values) if values else text

    def section(self, name: str) -> Mapping[str, str]:
        """The texts of a section by key."""
        return self._texts[name]

    def listed(self, names: Iterable[str]) -> str:
        """Names in a list."""
        return self("punctuation.names").join(names)

    def metric(self, name: str) -> str:
        """A metric in a sentence: AUC, where a table has its key."""
        return name.upper() if name in _ACRONYMS else name

    def key(self, key: Any) -> Any:
        """The name of a slice; (null) for rows without a key."""
        return self("numbers.null") if key is None else key

    def slice(self, column: str, key: Any) -> str:
        """A slice in a sentence: with its column, unless the key says it: slot_07, but slot 7."""
        name = str(self.key(key))
        return name if name.lower().startswith(column.lower()) else f"{column} {name}"

    @property
    def of_charts(self) -> Mapping[str, str] | None:
        """The texts of charts that replace the English ones; None: they are English."""
        english, own = texts_of("en")["charts"], self.section("charts")
        return None if own is english else {english[key]: text for key, text in own.items()}

    def number(self, value: Any, digits: int | None = None) -> str:
        """A number with these digits after the point, usually from `digits_of`; integers in full; ``1.23 × 10⁻⁵``."""
        if value is None:
            return self("numbers.undefined")
        if isinstance(value, list):
            return self("numbers.entries", number=len(value))
        if isinstance(value, (bool, str)):
            return str(value)
        size = abs(value)
        if digits is None:
            digits = digits_of([value]) if size >= 1e-4 else _MOST_DIGITS + 1
        if isinstance(value, int) or 1e5 <= size < 1e15 or not size:
            text = f"{size:,.0f}"
        elif digits <= _MOST_DIGITS and size < 1e15:
            text = f"{size:,.{digits}f}"
        else:
            mantissa, exponent = f"{size:.2e}".split("e")
            text = f"{mantissa} × 10{str(int(exponent)).translate(_RAISED)}"
        return f"−{text}" if value < 0 else text

    def signed(self, value: Any, digits: int | None = None) -> str:
        """A difference."""
        if value is None:
            return "—"
        return ("+" if value > 0 else "") + self.number(value, digits)

    def span(self, ends: Mapping[str, Any], digits: int | None = None, *, sign: bool = False) -> str:
        """An interval, if it is known."""
        low, high = ends.get("low"), ends.get("high")
        if low is None or high is None:
            return ""
        written = self.signed if sign else self.number
        return self("numbers.span", low=written(low, digits), high=written(high, digits))

    def ends(self, ends: Mapping[str, Any], digits: int | None = None, *, sign: bool = False) -> str:
        """An interval, or the kind of data that is too scarce for one."""
        return self.few(ends) if ends.get("needs") else self.span(ends, digits, sign=sign)

    def few(self, entry: Mapping[str, Any]) -> str:
        """The kind of data that is too scarce, and why."""
        return self("needs.too_few", needs=self.needed(entry["needs"], entry.get("because")))

    def needed(self, needs: Mapping[str, int], because: Mapping[str, Any] | None = None) -> str:
        """What an interval or a verdict needs, and why.

        Args:
            needs: the numbers, by what they are of.
            because: the reason, as the result's JSON has it; empty or None: none.

        Examples:
            >>> Words("en").needed({"users": 9000}, {"unit": "users", "share": 0.25, "of": "rows"})
            'needs 9,000 users, as one user has 25% of the rows'
        """
        sizes = (self("needs.size", number=number, name=self._size(name, number)) for name, number in needs.items())
        text = self("needs.and").join(sizes)
        if because:
            return self("needs.needs_because", sizes=text, reason=self.reason(because))
        return self("needs.needs", sizes=text)

    def reason(self, *because: Mapping[str, Any]) -> str:
        """The reason for a need.

        Args:
            *because: as the result's JSON has it; several that differ in their numbers only.

        Examples:
            >>> Words("en").reason({"unit": "queries", "like": 16})
            'the queries count like 16 of equal size'
            >>> Words("en").reason(*({"unit": "users", "share": share, "of": "rows"} for share in (0.25, 0.3)))
            'one user has 25 to 30% of the rows'
        """
        unit, whole = because[0]["unit"], because[0].get("of", "")
        numbers = sorted(reason["like"] if "like" in reason else 100 * reason["share"] for reason in because)
        low, high = (f"{number:,.0f}" for number in (numbers[0], numbers[-1]))
        number = low if low == high else self("numbers.span", low=low, high=high)
        if not whole:
            return self("needs.like", units=self._size(unit), number=number)
        return self("needs.share", unit=self._size(unit, 1), number=number, whole=self(f"wholes.{whole}"))

    def _size(self, name: str, number: int = 2) -> str:
        """What is counted, as the noun of a number."""
        return self(f"sizes.{name}", number=number) if name in self.section("sizes") else name

    def date(self, text: str) -> str:
        """An ISO date in the usual form of the language."""
        with contextlib.suppress(ValueError):
            time = datetime.fromisoformat(text.replace("Z", "+00:00"))
            text = self("numbers.date", time=time) + f"{time: %H:%M %Z}".rstrip()
        return text


def digits_of(values: Iterable[Any], widths: Iterable[Any] = ()) -> int:
    """The number of digits after the point for numbers in a column.

    The largest number gets five significant digits from 0.1 on, otherwise four; the width of every interval, and every
    difference, gets two.
    """
    sizes = [abs(value) for value in values if isinstance(value, (int, float)) and value]
    wanted = []
    if sizes:
        size = max(sizes)
        wanted.append((4 if size >= 0.1 else 3) - math.floor(math.log10(size)))
    narrow = [abs(width) for width in widths if isinstance(width, (int, float)) and width]
    wanted += [1 - math.floor(math.log10(width)) for width in narrow]
    return max(0, *wanted) if wanted else 0
