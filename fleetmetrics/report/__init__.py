"""The report: a result as one HTML file that opens anywhere, light, dark, printed or on a phone, without a network."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import statistics
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from fleetmetrics import plot
from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.comm import LocalCommunicator, set_communicator
from fleetmetrics.errors import BucketWarning, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.class_report import AVERAGES, REPORTS
from fleetmetrics.plot.canvas import charts, plain
from fleetmetrics.plot.chart import Chart
from fleetmetrics.plot.plotted import held
from fleetmetrics.report.by_slice import ends_of, plots, significant
from fleetmetrics.report.gate import condition_of, value_of
from fleetmetrics.report.headline import Headline, best_of, change_of, headline
from fleetmetrics.serial.container import whole_file
from fleetmetrics.support.checks import knows_its_arguments, path_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import RESULT_KEYS, SIZES, VERDICTS, described, parts_of
from fleetmetrics.support.warning import muted
from fleetmetrics.words import Words, digits_of
from fleetmetrics.words.catalogue import entries
from fleetmetrics.words.texts import Language

__all__ = ["PICTURES", "drawn", "html", "page", "written"]

#: The most files to name, classes to list, and classes with a row.
_FILES, _CLASSES, _CLASS_ROWS = 100, 20, 100
#: More warnings than these are counted and folded.
_WARNINGS = 5
#: The charts of the metrics, in the order of the page.
PICTURES = (
    "roc",
    "precision_recall",
    "calibration",
    "score_histogram",
    "gain",
    "lift",
    "threshold_sweep",
    "confusion_matrix",
    "predicted_actual",
    "residuals",
    "at_k",
)
#: What a result without them has.
_EMPTY: Mapping[str, Any] = {"data": {}, "asked": {}, "slices": {}, "baseline": None, "warnings": []}
#: Charts without room for two sides.
_ALONE = ("confusion_matrix", "threshold_sweep")
#: The histogram to draw as errors: histograms of other values look the same.
_ERRORS = "errors"


@knows_its_arguments
def html(result: Mapping[str, Any], metrics: Any = None, baseline: Any = None, lang: Language = "en") -> str:
    """Write a result as one HTML page that needs no other file and no network.

    Its first line is a verdict in words. Then come plots by slice, what is significant, the metrics, the tables of
    slices, folded, the other plots, the data and the request. The element ``#result`` holds the result as JSON. Strings
    from the data are escaped, and the page's policy blocks other scripts and all loading.

    Args:
        result: the output of ``fleetmetrics evaluate --json``. Every key except the metrics may be missing.
        metrics: the metric, collection or dict of metrics to draw, with this process's states; of several tasks, a dict
            of these by task. None: no charts.
        baseline: the same for the baseline.
        lang: ``"en"`` or ``"zh"``.

    Returns:
        The page; write it as UTF-8.

    Raises:
        InvalidInputError: ``lang`` is invalid, or the result holds values that JSON cannot represent.
        MissingLibraryError: jinja2 is not installed.

    Examples:
        >>> import fleetmetrics.report
        >>> page = fleetmetrics.report.html({"auc": 0.77, "data": {"files": ["day.parquet"], "rows": 2000000}})
        >>> "2,000,000 rows" in page
        True
    """
    words = Words(lang)
    if not isinstance(result, Mapping):
        raise InvalidInputError(f"result must be a dict, as fleetmetrics evaluate --json prints it, not {result!r:.80}")
    for argument, drawn_of in (("metrics", metrics), ("baseline", baseline)):
        if drawn_of is not None and not isinstance(getattr(drawn_of, "metrics", drawn_of), (Accumulator, Mapping)):
            raise InvalidInputError(f"{argument} must be a metric, a MetricCollection or None, not {drawn_of!r:.80}")
    kept = {**_EMPTY, **_plain(result)}
    about = kept.get("about") or {name: described(metric) for name, metric in _members(metrics).items()}
    shown = {**kept, "about": about}
    parts = [(task, {**_EMPTY, "about": {}, **part}) for task, part in parts_of(shown)]
    sides = {task: _sides(part, _of_task(metrics, task), _of_task(baseline, task), words) for task, part in parts}
    return page(
        words,
        "report.html",
        result=shown,
        kept=kept,
        headline=_headline([(task[:-1], headline(part, words)) for task, part in parts], words),
        conditions=[
            {**outcome, **condition_of(outcome["condition"], shown, words)._asdict()}
            for outcome in shown.get("conditions") or ()
        ],
        by_slice=[plot_ for task, part in parts for plot_ in _of_task_in(task, plots(part, words), words)],
        significant=[
            (words("headline.task", task=task[:-1], sentence=title) if task else title, *rest)
            for task, part in parts
            for title, *rest in significant(part, words)
        ],
        is_tested=any(_is_tested(part) for _, part in parts),
        tasks=[(task[:-1], part) for task, part in parts if task],
        rows=[{**row, "name": f"{task}{row['name']}"} for task, part in parts for row in _rows(part, words)],
        versus=[
            {**_versus(by, column), "task": task[:-1]}
            for task, part in parts
            for by, column in (part.get("versus") or {}).items()
            if column["slices"]
        ],
        tables=[
            {**_table(by, slices, part), "task": task[:-1]}
            for task, part in parts
            for by, slices in part["slices"].items()
            if slices
        ],
        classes=[
            {**row, "class": f"{task[:-1]} {row['class']}".strip()} for task in sides for row in _classes(sides[task])
        ],
        pictures=[
            (svg, f"{task[:-1]}: {caption}" if task else caption)
            for task in sides
            for svg, caption in _pictures(sides[task], words)
        ],
        warnings=_WARNINGS,
    )


def _of_task(metrics: Any, task: str) -> Any:
    """The metrics of one of several tasks; without several, all."""
    return metrics[task[:-1]] if task and metrics is not None else metrics


def _of_task_in(task: str, drawn: Iterator[Any], words: Words) -> Iterator[Any]:
    """Plots with the name of their task, if there are several."""
    for one in drawn:
        yield one._replace(title=words("headline.task", task=task[:-1], sentence=one.title)) if task else one


def _headline(parts: Sequence[tuple[str, Headline]], words: Words) -> Headline:
    """The first lines; of several tasks those of each, and the worst tone."""
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]

    def each(texts: Sequence[tuple[str, str]]) -> str:
        return words("punctuation.semicolon").join(
            words("headline.task", task=task, sentence=text) for task, text in texts if text
        )

    tones = {part.tone for _, part in parts}
    tones = tones & {"bad"} or tones
    tone = tones.pop() if len(tones) == 1 else ""
    return Headline(
        each([(task, part.verdict) for task, part in parts]), each([(task, part.lead) for task, part in parts]), tone
    )


def _is_tested(part: Mapping[str, Any]) -> bool:
    """Whether a difference of any slice or metric has a test."""
    rows = [row for rows in part["slices"].values() for row in rows]
    rows += [row for column in (part.get("versus") or {}).values() for row in column["slices"]]
    return any(row.get("verdict") for row in rows) or any(
        _has_ends(part.get(f"{name}_delta") or {}) for name in part["about"]
    )


def written(text: str, path: Any) -> str:
    """Write the page to a file, whole or not at all; None: do not write it.

    Args:
        text: of the page.
        path: of the file.
    """
    if path is not None:
        with whole_file(path_of("path", path)) as file:
            file.write(text.encode("utf-8"))
    return text


def page(words: Words, template: str, **parts: Any) -> str:
    """A page from a template of this folder; only its own script may run.

    Args:
        words: of the language.
        template: its file.
        **parts: the parts of the page; ``pictures`` are pairs of SVG and caption.
    """
    environment, raw = _environment(words.lang), library("markupsafe").Markup
    script = environment.loader.get_source(environment, "report.js")[0]
    parts["pictures"] = [(raw(svg), caption) for svg, caption in parts["pictures"]]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = environment.get_template(template).render(t=words, script=raw(script), digest=digest, **parts)
    # A file's name may hold bytes that are not valid text.
    return str(text.encode("utf-8", "backslashreplace").decode("utf-8"))


@functools.lru_cache(maxsize=None)
def _environment(lang: str) -> Any:
    """The templates of this folder, with the numbers and dates of a language; compiled once in a process."""
    jinja2, words = library("jinja2"), Words(lang)
    flags = dict.fromkeys(("autoescape", "lstrip_blocks", "trim_blocks"), True)
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, **flags)
    environment.policies["json.dumps_kwargs"] = {}  # in the given order
    environment.filters.update(
        number=words.number, date=words.date, signed=words.signed, span=words.span, ends=words.ends
    )
    environment.globals["found"] = functools.partial(value_of, words=words)
    return environment


def _plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result as JSON: nan and infinity are null; at most a hundred files, with the number of the others."""
    try:
        text = json.dumps(result, default=lambda value: value.tolist())
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"result must hold what JSON holds: numbers, strings, lists and dicts: {error}"
        ) from None
    parsed = json.loads(text, parse_constant=lambda _: None)
    for data in (parsed.get("data", {}), (parsed.get("baseline") or {}).get("data", {})):
        if len(data.get("files", [])) > _FILES:
            data.update(files_left_out=len(data["files"]) - _FILES, files=data["files"][:_FILES])
    return parsed


def _rows(result: Mapping[str, Any], words: Words) -> Iterator[dict[str, Any]]:
    """A row for each number of each metric, by its name in ``--fail-if``."""
    beside = [f"{name}{more}" for name in result for more in ("_interval", "_delta")]
    for name, value in result.items():
        if name in RESULT_KEYS or name in beside:
            continue
        about = result["about"].get(name) or {}
        better, line, best = about.get("better", ""), about.get("definition", ""), best_of(about)
        if words.lang == "zh":
            entry = entries().get(about.get("kind", ""))
            line = entry.definition if entry else ""
        old = dict(_leaves(name, (result["baseline"] or {}).get(name)))
        interval, delta = (result.get(f"{name}{more}") or {} for more in ("_interval", "_delta"))
        leaves = [leaf for leaf in _leaves(name, value) if not _is_of_class(leaf[0], name, about)]
        for place, (path, leaf) in enumerate(leaves):
            numbers, widths = [leaf, old.get(path)], [delta.get("value")]
            widths += [ends["high"] - ends["low"] for ends in (interval, delta) if _has_ends(ends)]
            sizes = [abs(number) for number in numbers if isinstance(number, float) and number]
            tiny = bool(sizes) and max(sizes) < 1e-6
            yield {
                "name": path,
                "value": leaf,
                "old": old.get(path),
                "interval": interval,
                "delta": delta,
                "change": change_of(delta, better, (leaf, old.get(path)), best),
                "best": "" if best is None else f"{best:g}",
                "rises": (delta.get("value") or 0) > 0,
                "better": better,
                "definition": "" if place else line,
                "signatures": [about[key] for key in ("signature", "baseline_signature") if about.get(key)],
                "digits": None if tiny else digits_of(numbers, widths),
            }


def _is_of_class(path: str, name: str, about: Mapping[str, Any]) -> bool:
    """Whether this is a number of a class, or of samples, in a report of classes: the table of classes has it."""
    if about.get("kind") not in REPORTS:
        return False
    return not path.startswith(tuple(f"{name}.{average}" for average in AVERAGES)) or path.endswith(".support")


def _has_ends(ends: Mapping[str, Any]) -> bool:
    return ends.get("low") is not None and ends.get("high") is not None


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """The numbers of a value, by their paths: of classes one by one; a longer array as a whole; none of a curve."""
    if isinstance(value, dict):
        parts = [(f"{name}.{key}", part) for key, part in value.items() if not isinstance(part, list)]
        return [leaf for path, part in parts for leaf in _leaves(path, part)]
    if isinstance(value, list) and len(value) <= _CLASSES and not any(isinstance(part, (list, dict)) for part in value):
        return [(f"{name}.{place}", number) for place, number in enumerate(value)]
    return [(name, value)]


def _table(by: str, slices: list[dict[str, Any]], result: Mapping[str, Any]) -> dict[str, Any]:
    """The table of one slicing: its rows, and the scale of their bars, which a value far from the others may leave."""
    metric, whole = slices[0]["metric"] or "—", result.get(slices[0]["metric"])
    together = result.get("references", {}).get(by)
    whole = whole if together is None else together
    sure = [row["value"] for row in slices if not row.get("within_chance") and row.get("verdict") != "too few"]
    values = [value for value in (whole, *sure) if value is not None] or [0]
    wide = [row["high"] - row["low"] for row in slices if row.get("low") is not None and row.get("high") is not None]
    least, most = ends_of(values, whole)
    room = max((most - least) / 6, statistics.median(wide or [0])) or 1
    scale = {"least": least - room, "width": most - least + 2 * room, "whole": whole}
    more = slices[0].get("metrics", {}).items()
    others = [name for name, value in more if name != metric and not isinstance(value, (list, dict))]
    sizes = [name for name in SIZES if name in slices[0]]
    counts = Counter(row.get("verdict") or "" for row in slices)
    ordered = {name: counts[name] for name in (*VERDICTS, "") if counts[name]}
    numbers = {name: [row["metrics"].get(name) for row in slices if "metrics" in row] for name in others}
    return {
        "by": by,
        "together": together is not None,
        "metric": metric,
        "scale": scale,
        "rows": slices,
        "others": others,
        "sizes": sizes,
        "counts": ordered,
        "digits": _digits_of_column([whole, *(row["value"] for row in slices)]),
        "digits_of": {name: _digits_of_column(column) for name, column in numbers.items()},
        "has": {name for name in ("low", "q", "harm") if any(row.get(name) is not None for row in slices)},
    }


def _versus(by: str, column: Mapping[str, Any]) -> dict[str, Any]:
    """The table of the slices of both sides; of paired rows, whose shares do not change, without the parts of a mix."""
    rows = column["slices"]
    mixed = any(abs(row["mix"] or 0) > 1e-12 for row in rows)
    deltas = (name for name in rows[0].get("deltas") or () if name != column["metric"])
    return {
        **column,
        "by": by,
        "parts": (("mix", "within") if mixed else ()) + ("added",) if column["made_of"] else (),
        "moved": any(row["rows"] != row["baseline_rows"] for row in rows),
        "deltas": [
            name for name in deltas if not all(isinstance(row["deltas"].get(name), (list, dict)) for row in rows)
        ],
        "has": {name for name in ("q",) if any(row.get(name) is not None for row in rows)},
    }


def _digits_of_column(values: list[Any]) -> int:
    """The digits of a medium-sized value."""
    sizes = [abs(value) for value in values if isinstance(value, (int, float)) and value]
    return min(9, digits_of([statistics.median(sizes)] if sizes else []))


def _classes(sides: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class, by the first confusion matrix of each side."""
    matrices = [matrix for matrix in map(_matrix, sides.values()) if matrix is not None]
    if not matrices or any(matrix.shape != matrices[0].shape for matrix in matrices):
        return []
    new = matrices[0]
    named = (getattr(metric, "target_names", ()) for metric in next(iter(sides.values())).values())
    names = next((names for names in named if len(names) == len(new)), range(len(new)))
    hits, true, predicted = (counts.tolist() for counts in (new.diagonal(), new.sum(axis=1), new.sum(axis=0)))
    old = _f1(matrices[1]) if matrices[1:] else []
    rows = [
        {
            "class": names[place],
            "rows": true[place],
            "precision": hits[place] / predicted[place] if predicted[place] else None,
            "recall": hits[place] / true[place] if true[place] else None,
            "f1": f1,
            **({"old": old[place]} if old else {}),
        }
        for place, f1 in enumerate(_f1(new))
    ]
    if len(rows) > _CLASS_ROWS:
        rows = sorted(rows, key=lambda row: (row["f1"] is None, row["f1"]))[:_CLASS_ROWS]
    return rows


def _f1(matrix: np.ndarray) -> list[float | None]:
    both = (matrix.sum(axis=1) + matrix.sum(axis=0)).tolist()
    return [2 * hits / of if of else None for hits, of in zip(matrix.diagonal().tolist(), both)]


def _matrix(side: Mapping[str, Any]) -> np.ndarray | None:
    """The confusion matrix of the first metric that has one."""
    for metric in side.values():
        if "confusion_matrix" in getattr(metric, "pictures", ()):
            with set_communicator(LocalCommunicator()):
                matrix: np.ndarray = held(metric)["confusion"]
            return matrix
    return None


def _members(metrics: Any) -> dict[str, Any]:
    """Metrics by name."""
    if metrics is None:
        return {}
    return {**(metrics if isinstance(metrics, Mapping) else getattr(metrics, "metrics", {"": metrics}))}


def _side(metrics: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The drawable parts, by name: the metrics, and values by k."""
    parts = {name: metric for name, metric in _members(metrics).items() if metric is not None}
    by_k = {name: values.get(name) for name, metric in parts.items() if "at_k" in getattr(metric, "pictures", ())}
    for name, value in {**by_k, **values.get("at_k", {})}.items():
        if isinstance(value, dict) and value and all(map(str.isdecimal, value)):
            parts[name] = {int(k): number for k, number in value.items()}
    return parts


def _sides(result: Mapping[str, Any], metrics: Any, baseline: Any, words: Words) -> dict[str, dict[str, Any]]:
    """The drawable parts of each side, by its name in a legend."""
    if metrics is None:
        return {}
    if baseline is None:
        return {"": _side(metrics, result)}
    new, old = words("legend.new"), words("legend.baseline")
    return {new: _side(metrics, result), old: _side(baseline, result["baseline"] or {})}


def drawn(kind: str, result: Mapping[str, Any], metrics: Any, baseline: Any = None, ax: Any = None) -> Any:
    """Draw one of the charts of the report; None: no metric has it.

    Args:
        kind: of `PICTURES`.
        result: as for `html`.
        metrics: of the new side.
        baseline: of the other side, or None.
        ax: the axes to draw on; None: new ones.
    """
    return _of_sides(kind, _sides(result, metrics, baseline, Words("en")), ax)


def _of_sides(kind: str, sides: Mapping[str, Any], ax: Any = None) -> Any:
    """The axes with the chart of each side; None: no metric has it."""
    axes = None
    with set_communicator(LocalCommunicator()):
        for label, side in sides.items():
            if axes is None or kind not in _ALONE:
                axes = _drawn(kind, side, axes or ax, label) or axes
    return axes


def _pictures(sides: Mapping[str, Any], words: Words) -> Iterator[tuple[str, str]]:
    """The charts that the metrics have, as SVG, with their captions."""
    for kind in PICTURES:
        if not any(_drawable(kind, side) for side in sides.values()):
            continue
        with charts(words.of_charts), muted(UndefinedMetricWarning, BucketWarning):  # the page tells
            chart = _of_sides(kind, sides, Chart())
        if chart:
            caption = words(f"captions.{kind}")
            title = escape("; ".join([caption, *chart.get_legend_handles_labels()[1]]))
            yield chart.svg(kind, title), caption


def _drawn(kind: str, side: Mapping[str, Any], axes: Any, label: str) -> Any:
    """The axes with the first metric that has such a chart, or with all values by k; None without one."""
    if kind == "at_k":
        drawn_on = None
        for name, values in side.items():
            if isinstance(values, dict):
                drawn_on = plot.at_k(values, drawn_on or axes, f"{label} {plain(name)}".strip())
        return drawn_on
    metrics = _drawable(kind, side)
    return getattr(plot, kind)(metrics[0], axes, label) if metrics else None


def _drawable(kind: str, side: Mapping[str, Any]) -> list[Any]:
    """The metrics, or dicts of values by k, that have such a chart."""
    if kind == "at_k":
        return [values for values in side.values() if isinstance(values, dict)]
    return [
        metric
        for name, metric in side.items()
        if kind in getattr(metric, "pictures", ()) and (kind != "residuals" or name == _ERRORS)
    ]
