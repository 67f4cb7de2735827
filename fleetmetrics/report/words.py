"""Words, numbers and dates of a page, in one of its two languages."""

from __future__ import annotations

import contextlib
import math
from datetime import datetime
from typing import Any, Iterable, Mapping

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.vocabulary import needed

__all__ = ["LEGEND", "PICTURE_WORDS", "Words", "digits_of"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: A number with more digits after the point than this is written with a power of ten.
_MOST_DIGITS = 9
#: The names of the two sides in a legend.
LEGEND = {"en": ("new", "baseline"), "zh": ("新值", "基线")}
#: The words of charts in Chinese.
PICTURE_WORDS = {
    "false positive rate": "假正率",
    "true positive rate": "真正率",
    "precision": "精确率",
    "recall": "召回率",
    "specificity": "特异度",
    "threshold": "阈值",
    "share of the samples, highest scores first": "样本占比（得分从高到低）",
    "share of the positive ones": "正样本占比",
    "lift": "提升度",
    "density": "密度",
    "density in the class": "类内密度",
    "density by log-odds": "按对数几率的密度",
    "score": "得分",
    "label": "标签",
    "class": "类别",
    "all {}": "全部 {}",
    "predicted": "预测",
    "actual": "实际",
    "true": "真实",
    "value": "值",
    "pass": "轮次",
    "differs": "有差异",
    "within chance": "在偶然范围内",
    "too few to tell": "数据太少",
    ", the first {} of {}": "，前 {} 个（共 {} 个）",
    "prediction - label": "预测 − 标签",
    "undefined": "无定义",
    "{}% outside": "{}% 在图外",
    " (buckets ±{})": "（分桶 ±{}）",
}


class Words:
    """Words, numbers and dates in one of the two languages; InvalidInputError for any other."""

    def __init__(self, lang: str) -> None:
        if not isinstance(lang, str) or lang not in LEGEND:
            raise InvalidInputError(f"lang must be 'en' or 'zh', not {lang!r:.80}")
        self.lang = lang

    def __call__(self, english: str, chinese: str) -> str:
        """The text in the language."""
        return chinese if self.lang == "zh" else english

    @property
    def sizes(self) -> Mapping[str, str]:
        """The names of counts of data and slices."""
        return {
            "rows": self("rows", "行"),
            "positives": self("positives", "正样本"),
            "negatives": self("negatives", "负样本"),
            "users": self("users", "用户"),
            "queries": self("queries", "查询"),
        }

    def key(self, key: Any) -> Any:
        """The name of a slice; (null) for rows without a key."""
        return self("(null)", "（空）") if key is None else key

    @property
    def of_pictures(self) -> Mapping[str, str] | None:
        """The words of charts that replace the English ones."""
        return PICTURE_WORDS if self.lang == "zh" else None

    def number(self, value: Any, digits: int | None = None) -> str:
        """A number with these digits after the point, usually from `digits_of`; integers in full; ``1.23 × 10⁻⁵``."""
        if value is None:
            return self("undefined", "无定义")
        if isinstance(value, list):
            return self(f"{len(value):,} entries, in the JSON", f"{len(value):,} 项，见 JSON")
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
        return "—" if value is None else ("+" if value > 0 else "") + self.number(value, digits)

    def span(self, ends: Mapping[str, Any], digits: int | None = None, *, sign: bool = False) -> str:
        """An interval, if it is known."""
        low, high = ends.get("low"), ends.get("high")
        if low is None or high is None:
            return ""
        one, other = ((self.signed if sign else self.number)(each, digits) for each in (low, high))
        return self("{} to {}", "{} 至 {}").format(one, other)

    def ends(self, ends: Mapping[str, Any], digits: int | None = None, *, sign: bool = False) -> str:
        """An interval, or the kind of data that is too scarce for one."""
        return self.few(ends) if ends.get("needs") else self.span(ends, digits, sign=sign)

    def few(self, entry: Mapping[str, Any]) -> str:
        """The kind of data that is too scarce, and why."""
        return self("too few: ", "数据太少，") + self.needed(entry)

    def needed(self, entry: Mapping[str, Any]) -> str:
        """What an interval or a verdict needs, and why."""
        needs, because = entry["needs"], entry.get("because") or {}
        if self.lang == "en":
            return needed(needs, because)
        text = "需 " + "、".join(f"{number:,} {self.sizes.get(name, name)}" for name, number in needs.items())
        return f"{text}，因为{self._because(because)}" if because else text

    def _because(self, because: Mapping[str, Any]) -> str:
        unit = self.sizes.get(because["unit"], because["unit"])
        if "like" in because:
            return f"各{unit}的差异相当于只有 {because['like']:,} 个同样大小的{unit}"
        what = {"rows": "行", "all rows": "全部行", "weight": "权重", "denominator": "分母"}[because["of"]]
        return f"一个{unit}占{what}的 {100 * because['share']:.0f}%"

    def date(self, text: str) -> str:
        """An ISO date in the usual form of the language."""
        with contextlib.suppress(ValueError):
            then = datetime.fromisoformat(text.replace("Z", "+00:00"))
            text = self(f"{then:%Y-%m-%d}", f"{then.year}年{then.month}月{then.day}日") + f"{then: %H:%M %Z}".rstrip()
        return text


def digits_of(values: Iterable[Any], widths: Iterable[Any] = ()) -> int:
    """The number of digits after the point for numbers in a column.

    The largest number gets five significant digits from 0.1 on, otherwise four; the width of every interval, and every
    difference, gets two.
    """
    sizes = [abs(each) for each in values if isinstance(each, (int, float)) and each]
    wanted = []
    if sizes:
        size = max(sizes)
        wanted.append((4 if size >= 0.1 else 3) - math.floor(math.log10(size)))
    narrow = [abs(each) for each in widths if isinstance(each, (int, float)) and each]
    wanted += [1 - math.floor(math.log10(each)) for each in narrow]
    return max(0, *wanted) if wanted else 0
