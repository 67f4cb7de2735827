"""Write the tables of docs/metrics/all.md and all.zh.md, and the metrics' entries in the reference.

python docs/scripts/catalogue.py
"""

from __future__ import annotations

import sys

from _catalogue import DOCS, PAGES, catalogue, table, write_between
from _site import headings

from fleetmetrics import BaseMetric, RecordMetric
from fleetmetrics.words.catalogue import Entry, entries


def rows() -> str:
    """The metrics by name."""
    found = [
        [_linked(kind, page), _summary(kind), f"[{PAGES[page][0]}]({page}.md)", _listed(_elsewhere(kind))]
        for page, kinds in catalogue().items()
        for kind in kinds
    ]
    return _by_name(["metric", "what it is", "explained in", "elsewhere"], found)


def chinese_rows() -> str:
    """The same in Chinese; the metrics' Chinese names have a column of their own."""
    found = []
    for page, kinds in catalogue().items():
        title = headings((DOCS / "metrics" / f"{page}.zh.md").read_text(encoding="utf-8"))[0][2]
        for kind in kinds:
            names = _elsewhere(kind)
            chinese = names.pop("中文", [])
            found.append(
                [_linked(kind, page), "、".join(chinese), _in_chinese(kind), f"[{title}]({page}.md)", _listed(names)]
            )
    return _by_name(["指标", "中文名", "含义", "说明", "其他库的名称"], found)


def _by_name(header: list[str], found: list[list[str]]) -> str:
    return table(header, sorted(found, key=lambda row: row[0].lower()))


def references(kinds: list[type]) -> str:
    """The entries of the reference, in the order of the names."""
    options = "    options:\n      members: false\n      show_root_heading: true\n      show_root_toc_entry: true\n"
    return "\n" + "\n".join(f"::: fleetmetrics.{kind.__name__}\n{options}" for kind in kinds) + "\n"


def _linked(kind: type, page: str) -> str:
    return f"[`{kind.__name__}`](../reference/metrics/{page}.md#fleetmetrics.{kind.__name__})"


def _summary(kind: type) -> str:
    line = (kind.__doc__ or "").splitlines()[0]
    return f"{line} *Keeps every sample.*" if issubclass(kind, (RecordMetric, BaseMetric)) else line


def _in_chinese(kind: type) -> str:
    return _entry(kind).definition + ("*保存每个样本。*" if issubclass(kind, (RecordMetric, BaseMetric)) else "")


def _entry(kind: type) -> Entry:
    entry = entries().get(kind.__name__)
    if entry is None or not entry.definition:
        raise LookupError(
            f"fleetmetrics/words lacks [{kind.__name__}]: write its range, undefined, source and names elsewhere into"
            " en.ini, and its names and definition into zh.ini, then run `make names`"
        )
    return entry


def _elsewhere(kind: type) -> dict[str, list[str]]:
    """The names by library."""
    found = _entry(kind).elsewhere
    return {library: [name for name in names if name != kind.__name__] for library, names in found.items()}


def _listed(elsewhere: dict[str, list[str]]) -> str:
    names = dict.fromkeys(name for names in elsewhere.values() for name in names)
    return ", ".join(f"`{name}`" if name.isascii() else name for name in names)


def main() -> None:
    """Write the lists; a metric that lacks something is named, with what to write and where."""
    try:
        write_between(DOCS / "metrics" / "all.md", "catalogue", rows())
        write_between(DOCS / "metrics" / "all.zh.md", "catalogue", chinese_rows())
    except LookupError as error:
        sys.exit(f"error: {error}")
    for page, kinds in catalogue().items():
        write_between(DOCS / "reference" / "metrics" / f"{page}.md", "entries", references(kinds))


if __name__ == "__main__":
    main()
