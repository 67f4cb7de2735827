"""Write the tables of docs/metrics/all.md and all.zh.md, and the metrics' entries in the reference.

python docs/scripts/catalogue.py
"""

from __future__ import annotations

import sys

from _catalogue import DOCS, PAGES, catalogue, table, write_between
from _site import headings

from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.entries import ENTRIES
from fleetmetrics.report.definitions import CHINESE

#: The lines of what no report shows, beside those of the report.
_CHINESE = {
    **CHINESE,
    "Bootstrap": "带有标准误和置信区间的指标：对所有 worker 的样本重抽样。",
    "Interval": "带有标准误和置信区间的指标，无需重抽样：DeLong 方法或 delta 方法。",
    "Sliced": "同时为某一列（slot、渠道、国家、人群）的每个键各计算一个指标。",
    "Throughput": "所有 worker 并行运行时，每秒处理的样本总数。",
    "Windowed": "每个 worker 最近 ``last`` 次 ``add`` 上的指标，以及全部 ``add`` 上的指标。",
}


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


def entries(kinds: list[type]) -> str:
    """The entries of the reference, in the order of the names."""
    options = "    options:\n      members: false\n      show_root_heading: true\n      show_root_toc_entry: true\n"
    return "\n" + "\n".join(f"::: fleetmetrics.{kind.__name__}\n{options}" for kind in kinds) + "\n"


def _linked(kind: type, page: str) -> str:
    return f"[`{kind.__name__}`](../reference/metrics/{page}.md#fleetmetrics.{kind.__name__})"


def _summary(kind: type) -> str:
    line = (kind.__doc__ or "").splitlines()[0]
    return f"{line} *Keeps every sample.*" if issubclass(kind, RecordMetric) else line


def _in_chinese(kind: type) -> str:
    if kind.__name__ not in _CHINESE:
        raise LookupError(
            f"write a line of {kind.__name__} in Chinese into fleetmetrics/report/definitions.py, then run `make names`"
        )
    return _CHINESE[kind.__name__] + ("*保存每个样本。*" if issubclass(kind, RecordMetric) else "")


def _elsewhere(kind: type) -> dict[str, list[str]]:
    """The names by library."""
    if kind.__name__ not in ENTRIES:
        raise LookupError(
            f"fleetmetrics/entries.py has no entry of {kind.__name__}: write its Entry(range, undefined, source,"
            " names), then run `make names`"
        )
    found = ENTRIES[kind.__name__].elsewhere
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
        write_between(DOCS / "reference" / "metrics" / f"{page}.md", "entries", entries(kinds))


if __name__ == "__main__":
    main()
