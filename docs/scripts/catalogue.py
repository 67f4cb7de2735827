"""Write the tables of all metrics in docs/metrics/index.md, from the first lines of their docstrings.

python docs/scripts/catalogue.py
"""

from __future__ import annotations

from _catalogue import DOCS, PAGES, catalogue, table, write_between

from fleetmetrics.hints import elsewhere
from fleetmetrics.record_metric import RecordMetric


def tables() -> str:
    """A heading and a table for each page."""
    parts = []
    for page, kinds in catalogue().items():
        rows = [[f"`{kind.__name__}`", _summary(kind), _elsewhere(kind)] for kind in kinds]
        links = f"[The page]({page}.md), [every argument](../reference/metrics/{page}.md)."
        parts.append(f"### {PAGES[page][0]}\n\n{links}\n\n{table(['metric', 'what it is', 'elsewhere'], rows)}")
    return "\n" + "\n".join(parts) + "\n"


def _summary(kind: type) -> str:
    line = (kind.__doc__ or "").splitlines()[0]
    return f"{line} *Keeps every sample.*" if issubclass(kind, RecordMetric) else line


def _elsewhere(kind: type) -> str:
    return ", ".join(f"`{name}`" for name in elsewhere(kind.__doc__))


if __name__ == "__main__":
    write_between(DOCS / "metrics" / "index.md", "catalogue", tables())
