"""Write the table of docs/metrics/all.md, from the metrics' docstrings, and their entries in the reference.

python docs/scripts/catalogue.py
"""

from __future__ import annotations

import sys

from _catalogue import DOCS, PAGES, catalogue, table, write_between

from fleetmetrics.entries import ENTRIES
from fleetmetrics.record_metric import RecordMetric


def rows() -> str:
    """The metrics by name."""
    found = [
        [_linked(kind, page), _summary(kind), f"[{PAGES[page][0]}]({page}.md)", _elsewhere(kind)]
        for page, kinds in catalogue().items()
        for kind in kinds
    ]
    found.sort(key=lambda row: row[0].lower())
    return table(["metric", "what it is", "explained in", "elsewhere"], found)


def entries(kinds: list[type]) -> str:
    """The entries of the reference, in the order of the names."""
    options = "    options:\n      members: false\n      show_root_heading: true\n      show_root_toc_entry: true\n"
    return "\n" + "\n".join(f"::: fleetmetrics.{kind.__name__}\n{options}" for kind in kinds) + "\n"


def _linked(kind: type, page: str) -> str:
    return f"[`{kind.__name__}`](../reference/metrics/{page}.md#fleetmetrics.{kind.__name__})"


def _summary(kind: type) -> str:
    line = (kind.__doc__ or "").splitlines()[0]
    return f"{line} *Keeps every sample.*" if issubclass(kind, RecordMetric) else line


def _elsewhere(kind: type) -> str:
    if kind.__name__ not in ENTRIES:
        raise LookupError(
            f"fleetmetrics/entries.py has no entry of {kind.__name__}: write its Entry(range, undefined, source,"
            " names), then run `make names`"
        )
    found = ENTRIES[kind.__name__].elsewhere
    names = dict.fromkeys(name for library in found for name in found[library] if name != kind.__name__)
    return ", ".join(f"`{name}`" if name.isascii() else name for name in names)


def main() -> None:
    """Write the lists; a metric that lacks something is named, with what to write and where."""
    try:
        write_between(DOCS / "metrics" / "all.md", "catalogue", rows())
    except LookupError as error:
        sys.exit(f"error: {error}")
    for page, kinds in catalogue().items():
        write_between(DOCS / "reference" / "metrics" / f"{page}.md", "entries", entries(kinds))


if __name__ == "__main__":
    main()
