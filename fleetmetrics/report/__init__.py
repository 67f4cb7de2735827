"""The report: a result as one HTML file that opens anywhere, light, dark, printed or on a phone, without a network."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import math
import re
import statistics
from collections import Counter
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, Iterator, Mapping

from fleetmetrics import plot
from fleetmetrics.accumulator import Accumulator
from fleetmetrics.comm import LocalCommunicator, set_communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.optional import library
from fleetmetrics.plot.canvas import plain
from fleetmetrics.vocabulary import RESERVED, SIZES, VERDICTS

__all__ = ["PICTURES", "drawn", "html"]

#: How many files are named at most; values of more classes are not listed.
_FILES, _CLASSES = 100, 20
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: What is drawn of the metrics, with a caption.
PICTURES = {
    "roc": ("ROC curve; the exact one is within the band, if one is seen", "ROC 曲线；若可见阴影带，精确曲线在其中"),
    "precision_recall": ("Precision and recall at each threshold", "各阈值下的精确率与召回率"),
    "calibration": ("Calibration: what was predicted against what happened", "校准：预测与实际"),
    "score_histogram": ("Scores of each class", "各类别的分数"),
    "confusion_matrix": ("Confusion matrix, with shares of each true class", "混淆矩阵，及各真实类别中的占比"),
    "residuals": ("Errors of the predictions", "预测误差"),
    "at_k": ("Metrics of the first k answers", "前 k 个结果的指标"),
}
#: What pictures say, in both languages.
_SAID = {"false positive rate": "假正率", "true positive rate": "真正率", "precision": "精确率", "recall": "召回率"}
_SAID.update({"hit_rate": "命中率", "density in the class": "类内密度", "density": "密度", "score": "分数"})
_SAID.update({"label": "标签", "prediction": "预测", "predicted": "预测", "actual": "实际", "true": "真实"})
_SAID.update({"undefined": "无定义", "% outside": "% 在图外", "new": "新值", "baseline": "基线"})
_SAID.update({" to ": " 至 ", ", ": "，"})


def html(result: Mapping[str, Any], metrics: Any = None, baseline: Any = None, lang: str = "en") -> str:
    """Write a result as one HTML page that needs no other file and no network.

    It says what data were read and what was asked, shows the metrics with intervals and against a baseline, pictures,
    and the slices in the order of the harm that they do, and holds the result as JSON in the element ``#result``. What
    comes from the data is escaped, and the page's policy lets no other script run and nothing be loaded.

    Args:
        result: what ``fleetmetrics evaluate --json`` prints. Beside the metrics, every key may be missing.
        metrics: the metric, collection or dict of metrics of which what this process holds is drawn; None: no pictures.
        baseline: that of the baseline, drawn beside it.
        lang: ``"en"`` or ``"zh"``.

    Returns:
        The page; write it as UTF-8.

    Raises:
        InvalidInputError: ``lang`` is another, or the result holds what JSON cannot.
        MissingLibraryError: jinja2 or, for the pictures, matplotlib is not installed.

    Examples:
        >>> import fleetmetrics.report
        >>> page = fleetmetrics.report.html({"auc": 0.77, "data": {"files": ["day.parquet"], "rows": 2000000}})
        >>> "2,000,000 rows" in page
        True
    """
    if not isinstance(lang, str) or lang not in ("en", "zh"):
        raise InvalidInputError(f"lang must be 'en' or 'zh', not {lang!r:.80}")
    if not isinstance(result, Mapping):
        raise InvalidInputError(f"result must be a dict, what fleetmetrics evaluate --json prints, not {result!r:.80}")
    for argument, given in (("metrics", metrics), ("baseline", baseline)):
        if given is not None and not isinstance(getattr(given, "metrics", given), (Accumulator, Mapping)):
            raise InvalidInputError(f"{argument} must be a metric, a MetricCollection or None, not {given!r:.80}")
    jinja2, raw = library("jinja2", "report"), library("markupsafe", "report").Markup
    result = {"data": {}, "asked": {}, "slices": {}, "baseline": None, "warnings": [], **_plain(result)}
    words = _Words(lang)
    sides = _sides(result, metrics, baseline)
    flags = dict.fromkeys(("autoescape", "lstrip_blocks", "trim_blocks"), True)
    folder = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=folder, undefined=jinja2.StrictUndefined, **flags)
    script = folder.get_source(environment, "report.js")[0]
    environment.policies["json.dumps_kwargs"] = {}  # in the given order
    environment.filters.update(number=words.number, date=words.date)
    page = environment.get_template("report.html").render(
        t=words,
        result=result,
        rows=list(_rows(result)),
        tables=[_table(by, slices, result) for by, slices in result["slices"].items() if slices],
        pictures=[(raw(svg), caption) for svg, caption in _pictures(sides, words)],
        script=raw(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page.encode("utf-8", "backslashreplace").decode("utf-8")  # a file's name may hold bytes that are no text


class _Words:
    """Texts, numbers and dates in one of the two languages."""

    def __init__(self, lang: str) -> None:
        self.lang = lang

    def __call__(self, english: str, chinese: str) -> str:
        return chinese if self.lang == "zh" else english

    def number(self, value: Any) -> str:
        """Five digits, or all of an integer; ``1.2 × 10⁻⁵`` where zeros would hide them."""
        if value is None:
            return self("undefined", "无定义")
        if isinstance(value, list):
            return self(f"{len(value):,} entries, in the JSON", f"{len(value):,} 项，见 JSON")
        if isinstance(value, (bool, str)):
            return str(value)
        size = abs(value)
        if isinstance(value, int) or 1e5 <= size < 1e15 or not size:
            text = f"{size:,.0f}"
        elif 1e-4 <= size < 1e15:
            text = f"{size:,.{min(5, 4 - math.floor(math.log10(size)))}f}"
        else:
            mantissa, exponent = f"{size:.1e}".split("e")
            text = f"{mantissa} × 10{str(int(exponent)).translate(_RAISED)}"
        return f"−{text}" if value < 0 else text

    def date(self, text: str) -> str:
        """An ISO date as people read it."""
        with contextlib.suppress(ValueError):
            then = datetime.fromisoformat(text.replace("Z", "+00:00"))
            text = self(f"{then:%Y-%m-%d}", f"{then.year}年{then.month}月{then.day}日") + f"{then: %H:%M %Z}".rstrip()
        return text


def _plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result as JSON holds it: nan and infinity are null. Of thousands of files a hundred, and how many more."""
    try:
        text = json.dumps(result, default=lambda value: value.tolist())
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(f"result must be what JSON holds, numbers, texts, lists and dicts: {error}") from None
    found = json.loads(text, parse_constant=lambda _: None)
    for data in (found.get("data", {}), (found.get("baseline") or {}).get("data", {})):
        if len(data.get("files", [])) > _FILES:
            data.update(files_left_out=len(data["files"]) - _FILES, files=data["files"][:_FILES])
    return found


def _rows(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each number of each metric, by the name that ``--fail-if`` calls it."""
    about = [f"{name}{more}" for name in result for more in ("_interval", "_delta")]
    for name, value in result.items():
        if name in RESERVED or name in about:
            continue
        old = dict(_leaves(name, (result["baseline"] or {}).get(name)))
        interval, delta = (result.get(f"{name}{more}") or {} for more in ("_interval", "_delta"))
        low, high = delta.get("low"), delta.get("high")
        by_chance = None if low is None or high is None else low <= 0 <= high
        more = {"interval": interval, "delta": delta, "difference": delta.get("value"), "within_chance": by_chance}
        for path, leaf in _leaves(name, value):
            yield {"name": path, "value": leaf, "old": old.get(path), **more}


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """The numbers of a value, by their paths: those of classes one by one; a longer array as a whole, a curve not."""
    if isinstance(value, dict):
        numbers = [(f"{name}.{key}", each) for key, each in value.items() if not isinstance(each, list)]
        return [leaf for each in numbers for leaf in _leaves(*each)]
    if isinstance(value, list) and len(value) <= _CLASSES and not any(isinstance(each, (list, dict)) for each in value):
        return [(f"{name}.{place}", each) for place, each in enumerate(value)]
    return [(name, value)]


def _table(by: str, slices: list[dict[str, Any]], result: Mapping[str, Any]) -> dict[str, Any]:
    """One slicing: its rows, and the scale of their bars, which holds all values that are beyond chance."""
    metric, whole = slices[0]["metric"] or "—", result.get(slices[0]["metric"])
    sure = [row["value"] for row in slices if not row.get("within_chance")]  # the others may be anywhere
    values = [each for each in (whole, *sure) if each is not None] or [0]
    wide = [row["high"] - row["low"] for row in slices if row.get("low") is not None and row.get("high") is not None]
    room = max((max(values) - min(values)) / 6, statistics.median(wide or [0])) or 1
    scale = {"least": min(values) - room, "width": max(values) - min(values) + 2 * room, "whole": whole}
    more = slices[0].get("metrics", {}).items()
    others = [name for name, value in more if name != metric and not isinstance(value, (list, dict))]
    sizes = [name for name in SIZES if name in slices[0]]
    counts = Counter(row.get("verdict") or "" for row in slices)
    ordered = {name: counts[name] for name in (*VERDICTS, "") if counts[name]}
    return {
        "by": by,
        "metric": metric,
        "scale": scale,
        "rows": slices,
        "others": others,
        "sizes": sizes,
        "counts": ordered,
    }


def _side(metrics: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """What can be drawn, by name: the metrics, and values by k."""
    found = {**(metrics if isinstance(metrics, Mapping) else getattr(metrics, "metrics", {"": metrics}))}
    by_k = {name: values.get(name) for name, metric in found.items() if hasattr(metric, "k")}
    for name, value in {**by_k, **values.get("at_k", {})}.items():
        if isinstance(value, dict) and value and all(map(str.isdecimal, value)):
            found[name] = {int(k): each for k, each in value.items()}
    return found


def _sides(result: Mapping[str, Any], metrics: Any, baseline: Any) -> dict[str, dict[str, Any]]:
    """What can be drawn of each side, by what a legend calls it."""
    if metrics is None:
        return {}
    if baseline is None:
        return {"": _side(metrics, result)}
    return {"new": _side(metrics, result), "baseline": _side(baseline, result["baseline"] or {})}


def drawn(kind: str, result: Mapping[str, Any], metrics: Any, baseline: Any = None, ax: Any = None) -> Any:
    """Draw one of the pictures of the report; None: no metric has it.

    Args:
        kind: of `PICTURES`.
        result: as for `html`.
        metrics: that of the new side.
        baseline: that of the other side, or None.
        ax: the axes to draw on; None: new ones.
    """
    return _of_sides(kind, _sides(result, metrics, baseline), ax)


def _of_sides(kind: str, sides: Mapping[str, Any], ax: Any = None) -> Any:
    """The axes with the picture of each side; None: no metric has it."""
    axes = None
    with set_communicator(LocalCommunicator()):
        for label, side in sides.items():
            if axes is None or kind != "confusion_matrix":  # there is no room for two
                axes = _drawn(kind, side, axes or ax, label) or axes
    return axes


def _pictures(sides: Mapping[str, Any], words: _Words) -> Iterator[tuple[str, str]]:
    """A picture of each kind that a metric has, as SVG, and its caption."""
    for kind, captions in PICTURES.items():
        with plot.style():
            axes = _of_sides(kind, sides)
        if axes:
            svg = plot.svg(axes.figure, kind)
            title = escape("; ".join([words(*captions), *axes.get_legend_handles_labels()[1]]))
            svg = svg.replace(">", f' role="img"><title>{title}</title>', 1)
            for text in set(re.findall(">[^<>]+</t", svg)) if words.lang == "zh" else ():
                svg = svg.replace(text, functools.reduce(lambda said, pair: said.replace(*pair), _SAID.items(), text))
            yield svg, words(*captions)


def _drawn(kind: str, side: Mapping[str, Any], axes: Any, label: str) -> Any:
    """The axes with the first metric that has such a picture, or all values by k; None: there is none."""
    found = None
    for name, metric in side.items():
        if isinstance(metric, dict) != (kind == "at_k") or (kind == "residuals" and name != "errors"):
            continue  # nobody knows whether another histogram is of errors
        with contextlib.suppress(InvalidInputError):
            called = f"{label} {plain(name)}".strip() if kind == "at_k" else label
            found = getattr(plot, kind)(metric, found or axes, called)
            if kind != "at_k":
                break
    return found
