"""Pages of tables: the history of a model, the consistency of streams."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from fleetmetrics import plot
from fleetmetrics.plot.chart import Chart
from fleetmetrics.report import page
from fleetmetrics.words import Words

__all__ = ["page_of", "points"]


def page_of(
    title: str,
    lead: str,
    tables: Iterable[tuple[str, Sequence[Sequence[str]], Sequence[str]]],
    result: Mapping[str, Any],
    pictures: Iterable[tuple[str, str]] = (),
    lang: str = "en",
) -> str:
    """A page that needs no other file.

    Args:
        title: of the page.
        lead: its first sentence.
        tables: of each, the title, the rows with the headers first, and the notes.
        result: all numbers, as JSON.
        pictures: of each chart, the SVG and the caption.
        lang: "en" or "zh".
    """
    parts: dict[str, Any] = {"title": title, "lead": lead, "tables": list(tables), "result": result}
    return page(Words(lang), "tables.html", pictures=list(pictures), **parts)


def points(values: Mapping[str, Mapping[str, Any]], name: str, number: int) -> tuple[str, str]:
    """The chart of a metric over time as SVG, and its caption.

    Args:
        values: ``value``, ``low`` and ``high`` by the name of the point.
        name: of the metric.
        number: of the chart on its page.
    """
    return plot.over_time(values, Chart()).svg(f"history{number}", name), name
