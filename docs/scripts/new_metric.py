"""Write a draft of a metric: its class, its case, its entry in both languages, and a line on its page in both.

    make metric NAME=MedianAbsoluteError                  # a quotient of sums, on the page on regression
    make metric NAME=MedianAbsoluteError KEEPS=records    # of all samples together
    make metric NAME=MeanIoU PAGE=classification

What is left to write has the mark TODO, and tests fail until the last one has gone. CONTRIBUTING.md walks through it.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

from _catalogue import DOCS, PAGES, catalogue

sys.path.insert(0, str(DOCS.parent))

from fleetmetrics.support.vocabulary import snake_case

ROOT = DOCS.parent
#: Pages on wrappers: they have no template.
WRAPPERS = ("slices", "uncertainty")

CLASS = '''"""{title}."""

from __future__ import annotations

from typing import Any

{imports}

__all__ = ["{name}"]


{before}class {name}({bases}):
    """TODO: what it is, in one sentence.

    Formula: ``{formula}``. TODO: what `add` takes; when it is undefined.

    Examples:
        >>> metric = {name}()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        TODO
    """

    better = "lower"
{body}'''

SUMS = """    quotient: Quotient | None = Quotient({{"{state}": 1}})
    declared: tuple[Declared, ...] = (Declared("{state}", dtype="float64", statistic=_{state}), TOTAL)
"""
STATISTIC = """@statistic
def _{state}(batch: Batch) -> Any:
    return batch.weighted_sum(batch.values, zero_at_zero=True)  # TODO


"""
RECORDS = """    record: tuple[str, ...] = ("TODO: what is kept of a sample", "weight")

    def batch_records(self, batch: Batch) -> dict[str, Any]:
        return {{"TODO: what is kept of a sample": batch.values, "weight": batch.weight}}

    def value(self, records: Records) -> float:
        return float(records["TODO: what is kept of a sample"].mean())  # a weight of None is 1 for each
"""
ENGLISH = """[{name}]
range = TODO, such as from 0
undefined = there are no samples
source = TODO
scikit-learn = {state}

"""
CHINESE = """[{name}]
names = TODO
definition = TODO。

"""


class Layout(NamedTuple):
    """A new metric.

    Args:
        name: of its class.
        page: of ``docs/metrics``.
        keeps: "sums" or "records".
    """

    name: str
    page: str
    keeps: str

    @property
    def state(self) -> str:
        return snake_case(self.name)

    @property
    def title(self) -> str:
        return self.state.replace("_", " ").capitalize()

    @property
    def source(self) -> Path:
        """The file of the class: in the folder of the page, if it has one."""
        (first, *_) = PAGES[self.page][1]
        folder = ROOT / "fleetmetrics" / first.replace(".", "/")
        return (folder if folder.is_dir() else folder.parent) / f"{self.state}.py"

    def code(self) -> str:
        """The module of the class."""
        records, of_numbers = self.keeps == "records", self.page == "regression"
        bases = ["OfNumbers[float]"] if of_numbers else ["WithoutColumns[float]", "Undefinable[float]"][: 2 - records]
        names = [*["TOTAL", "Declared", "Quotient"][: 3 * (not records)], *([] if of_numbers else bases)]
        imports = [
            f"from fleetmetrics.base.metric import {', '.join(sorted(name.partition('[')[0] for name in names))}",
            "from fleetmetrics.base.record_metric import OfAllSamples",
            f"from fleetmetrics.batch import Batch{'' if records else ', statistic'}",
            "from fleetmetrics.metrics.regression.differences import OfNumbers",
            "from fleetmetrics.records.table import Records",
        ]
        wanted = [bool(names), records, True, of_numbers, records]
        return CLASS.format(
            name=self.name,
            title=self.title,
            imports="\n".join(line for line, is_wanted in zip(imports, wanted) if is_wanted),
            before="" if records else STATISTIC.format(state=self.state),
            bases=", ".join([*bases, *(["OfAllSamples"] if records else [])]),
            formula="TODO" if records else "sum(w * x) / sum(w)",
            body=(RECORDS if records else SUMS).format(state=self.state),
        )

    def case(self, text: str) -> str:
        """The module of the page's cases with one more, whose reference is scikit-learn's function of that name."""
        draw = "numbers" if self.page == "regression" else "probabilities"
        modes = ', modes=("numpy", "dynamic")' if self.keeps == "records" else ""
        line = f'    "{self.title.lower()}": Case(fm.{self.name}, {draw}, sklearn("{self.state}"){modes}),\n'
        head, end, rest = text.rpartition("\n}\n")
        imports = re.compile(r"^from tests\.cases\.base import (\(.*?\)|.*?)$", re.MULTILINE | re.DOTALL)

        def with_both(found: re.Match[str]) -> str:
            names = sorted({draw, "sklearn", *re.findall(r"\w+", found[1])}, key=lambda name: (name.islower(), name))
            return f"from tests.cases.base import {', '.join(names)}"

        return imports.sub(with_both, head, count=1) + "\n" + line + end[1:] + rest

    def entry(self, text: str, template: str) -> str:
        """A file of texts with the entry, in the order of the names on the page."""
        names = {kind.__name__ for kind in catalogue()[self.page]} - {self.name}
        sections = re.split(r"^(?=[#[])", text, flags=re.MULTILINE)  # a comment heads the page below it
        own = [place for place, section in enumerate(sections) if re.match(r"\[(\w+)\]", section)]
        own = [place for place in own if sections[place][1:].partition("]")[0] in names]
        after = [place for place in own if sections[place][1:].partition("]")[0].lower() > self.name.lower()]
        place = after[0] if after else own[-1] + 1
        sections.insert(place, template.format(name=self.name, state=self.state))
        return "".join(sections)

    def line(self, text: str) -> str:
        """The page with a line in its first block of formulas, or without one with a section."""
        names = "|".join(kind.__name__ for kind in catalogue()[self.page])
        block = re.search(rf"^```text\n(?:.*\n)*?(?:{names}) .*\n(?:.+\n)*?(?=\n|```)", text, re.MULTILINE)
        if block:
            column = max(len(found[0]) for found in re.finditer(rf"^(?:{names}) +", block[0], re.MULTILINE))
            return text[: block.end()] + f"{self.name:<{column - 1}} TODO\n" + text[block.end() :]
        head, found, end = text.rpartition("\n## ")
        return f"{head}\n## {self.title}\n\n`{self.name}` TODO\n{found}{end}"


def lay_out(layout: Layout) -> list[Path]:
    """Write the files; return them."""
    if layout.page in WRAPPERS or layout.page not in PAGES:
        sys.exit(f"error: PAGE must be one of {', '.join(each for each in PAGES if each not in WRAPPERS)}")
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]+", layout.name):
        sys.exit("error: NAME must be a class name: make metric NAME=MedianAbsoluteError")
    if layout.source.exists() or layout.name in {kind.__name__ for kinds in catalogue().values() for kind in kinds}:
        sys.exit(f"error: {layout.name} is there already")
    words, pages = ROOT / "fleetmetrics" / "words", DOCS / "metrics"
    texts = {
        layout.source: layout.code(),
        **{path: layout.case(path.read_text("utf-8")) for path in [ROOT / "tests" / "cases" / f"{layout.page}.py"]},
        words / "en.ini": layout.entry((words / "en.ini").read_text("utf-8"), ENGLISH),
        words / "zh.ini": layout.entry((words / "zh.ini").read_text("utf-8"), CHINESE),
    }
    for page in (pages / f"{layout.page}.md", pages / f"{layout.page}.zh.md"):
        texts[page] = layout.line(page.read_text("utf-8"))
    if layout.source.parent.name == "metrics":  # a page without a folder lists its modules
        own = Path(__file__).with_name("_catalogue.py")
        listed = rf'(^    "{layout.page}": \(.*?)(,?\)\),$)'
        texts[own] = re.sub(listed, rf'\1, "metrics.{layout.state}"\2', own.read_text("utf-8"), flags=re.MULTILINE)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*texts]


def main() -> None:
    """Write the files, and print what is left to do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="the name of the class")
    parser.add_argument("--page", default="regression", help="the page of docs/metrics")
    parser.add_argument("--keeps", default="sums", choices=["sums", "records"], help="what a worker keeps of samples")
    arguments = parser.parse_args()
    paths = lay_out(Layout(arguments.name, arguments.page, arguments.keeps))
    print("\n".join(str(path.relative_to(ROOT)) for path in paths))
    chinese = paths[5].relative_to(ROOT)
    print(
        f"""
Write what is marked TODO, then:
  make format written
  python docs/scripts/translations.py {chinese}    # when it says what the English page says
  make test-metric NAME={arguments.name}"""
    )


if __name__ == "__main__":
    main()
