"""The facts about each metric beside its docstring: for the reference, ``fleetmetrics metrics``, reports and hints.

``en.ini`` and ``zh.ini`` have a section for each metric; whether higher values are better, its class declares.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping, NamedTuple

from fleetmetrics.words.texts import texts_of

__all__ = ["Entry", "entries", "owners"]


class Entry(NamedTuple):
    """The facts about a metric.

    Args:
        range: where its values lie.
        undefined: when it has no value.
        source: a reference to the literature.
        elsewhere: what it is called, by library; "others" are of no library, and "中文" are its Chinese names.
        definition: what it is in Chinese, in a sentence; the English one begins its docstring.
        best: the value of a perfect prediction, where neither higher nor lower values are better.
    """

    range: str
    undefined: str
    source: str
    elsewhere: Mapping[str, list[str]]
    definition: str
    best: str = ""

    def better(self, kind: Any) -> str:
        """Which values of the metric are better, in words."""
        if self.best:
            return f"the closer to {self.best}"
        if kind.better:
            return f"{kind.better} values"
        return "neither higher nor lower values" if kind.gives == "number" else "the value is not a single number"

    @property
    def names(self) -> str:
        """What it is called elsewhere, in a line: ``library: name, name; library: name``."""
        return "; ".join(f"{library}: {', '.join(names)}" for library, names in self.elsewhere.items())


@functools.lru_cache(maxsize=None)
def entries() -> Mapping[str, Entry]:
    """The entries of all metrics by the names of their classes, in the order of the files."""
    english, chinese = texts_of("en"), texts_of("zh")
    return {name: _entry(english[name], chinese.get(name, {})) for name in english if name[0].isupper()}


def _entry(english: Mapping[str, str], chinese: Mapping[str, str]) -> Entry:
    names = {**english, "中文": chinese.get("names", "")}
    facts = {fact: names.pop(fact, "") for fact in ("range", "undefined", "source", "best")}
    elsewhere = {library: listed.split(", ") for library, listed in names.items() if listed}
    return Entry(**facts, elsewhere=elsewhere, definition=chinese.get("definition", ""))


def owners() -> dict[str, str]:
    """Our metric by each name of other libraries, the first metric of the files that has it.

    Of ``paddle.metric.Auc`` the last part is a name, too; ``AUROC(thresholds=None)`` is none.
    """
    metrics: dict[str, str] = {}
    for metric, entry in entries().items():
        for name in (name for names in entry.elsewhere.values() for name in names):
            for part in (name, name.rpartition(".")[2]):
                if "(" not in part:
                    metrics.setdefault(part, metric)
    return metrics
