"""Which class of the catalogue is on which page, and the places of a page that scripts write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent

#: Page of ``docs/metrics``, its title, and the modules whose classes it describes.
PAGES = {
    "scores": ("Scores and curves", ("metrics.auc", "metrics.exact_auc", "metrics.curves", "metrics.operating_points")),
    "click_through": ("Click-through rates", ("metrics.click_through", "metrics.calibration", "metrics.by_user")),
    "classification": ("Classification", ("metrics.classification",)),
    "segmentation": ("Segmentation", ("metrics.segmentation",)),
    "tokens": ("Language models", ("metrics.tokens",)),
    "text": ("Text and speech", ("metrics.text",)),
    "regression": ("Regression", ("metrics.regression",)),
    "ranking": ("Ranking", ("metrics.ranking",)),
    "retrieval": ("Retrieval", ("vision.gallery",)),
    "detection": ("Detection and OCR", ("vision.coco", "vision.voc", "vision.text_regions")),
    "counterfactual": ("Counterfactual values", ("metrics.counterfactual",)),
    "aggregation": ("Aggregation", ("metrics.aggregation", "metrics.distribution")),
    "slices": ("Slices and windows", ("wrappers.sliced", "wrappers.windowed")),
    "uncertainty": ("Confidence intervals", ("wrappers.bootstrap", "wrappers.interval")),
}


def page_of(kind: type) -> str:
    """The page that describes a class.

    Raises:
        LookupError: it is on none.
    """
    for page, (_, modules) in PAGES.items():
        if any(f"{kind.__module__}.".startswith(f"fleetmetrics.{module}.") for module in modules):
            return page
    raise LookupError(
        f"PAGES in docs/scripts/_catalogue.py has no page for {kind.__module__}, the module of {kind.__name__}: write"
        " it there, then run `make names`"
    )


def catalogue() -> dict[str, list[type]]:
    """The classes by page, in the order of the pages; on a page by name."""
    import fleetmetrics

    places = ("fleetmetrics.metrics.", "fleetmetrics.vision.", "fleetmetrics.wrappers.")
    kinds = [getattr(fleetmetrics, name) for name, module in fleetmetrics._modules.items() if module.startswith(places)]
    over_anything = fleetmetrics.Metric, fleetmetrics.BaseMetric
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, over_anything)]
    pages: dict[str, list[type]] = {page: [] for page in PAGES}
    for kind in sorted(kinds, key=lambda kind: kind.__name__.lower()):
        pages[page_of(kind)].append(kind)
    return pages


def between(text: str, marker: str) -> str:
    """The text between ``<!-- marker -->`` and ``<!-- /marker -->``."""
    found = re.search(_pattern(marker), text, re.DOTALL)
    if found is None:
        raise LookupError(f"there is no <!-- {marker} --> ... <!-- /{marker} -->")
    return found[2]


def write_between(page: Path, marker: str, content: str) -> None:
    """Replace the text between the markers."""
    text = page.read_text(encoding="utf-8")
    between(text, marker)
    text = re.sub(_pattern(marker), lambda found: f"{found[1]}{content}{found[3]}", text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


def _pattern(marker: str) -> str:
    return rf"(<!-- {marker} -->\n)(.*?)(<!-- /{marker} -->)"


def table(header: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
