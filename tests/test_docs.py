"""The Python blocks of the READMEs and of the documentation run, and print what their comments say.

And the pages on the metrics have all of them, as they are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from tests.contract import CASES
from tests.nursery import Nursery

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


def paddle_version() -> str:
    for name in ("paddlepaddle", "paddlepaddle-gpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            pass
    return ""


def runs(mark: str, paddle: str) -> bool:
    """Whether a block runs on this Paddle, by the comment before it."""
    if mark.startswith("not run"):
        return False
    return not mark.startswith("paddle ") or paddle.startswith(mark.split()[1] + ".")


def programs(page: Path, paddle: str) -> list[str]:
    """A block that begins with an import starts a program, the others go on with it."""
    found: list[str] = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if runs(block["mark"] or "", paddle):
            if block["code"].startswith(("import ", "from ")):
                found.append("")
            found[-1] += block["code"]
    return found


def cases() -> list[Any]:
    paddle = paddle_version()
    return [
        pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
        for page in (PAGES if paddle else [])
        for number, code in enumerate(programs(page, paddle), 1)
    ]


@pytest.fixture(scope="module")
def nurseries() -> Iterator[dict[bool, Nursery]]:
    """Processes that have imported what the programs need: with Paddle, and without."""
    most = [f"fleetmetrics.{name}" for name in ("metrics", "wrappers", "collection", "comm")]
    with Nursery(*most) as plain, Nursery(*most, "paddle") as paddle:
        yield {False: plain, True: paddle}


@pytest.mark.parametrize("code", cases())
def test_a_program_of_the_docs_prints_what_it_says(code: str, nurseries: dict[bool, Nursery], tmp_path: Path) -> None:
    done = nurseries["import paddle" in code].run(code, tmp_path)
    assert done.status == 0, done.err[-3000:]
    assert done.out.splitlines() == PRINTED.findall(code)


# -- the pages on the metrics ----------------------------------------------------------------------------


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))


@pytest.mark.usefixtures("scripts")
def test_every_metric_is_on_its_page_and_in_the_reference() -> None:
    from _catalogue import DOCS, catalogue

    for page, kinds in catalogue().items():
        text = (DOCS / "metrics" / f"{page}.md").read_text(encoding="utf-8")
        reference = (DOCS / "reference" / "metrics" / f"{page}.md").read_text(encoding="utf-8")
        assert kinds and not [kind.__name__ for kind in kinds if not re.search(rf"\b{kind.__name__}\b", text)]
        assert not [kind for kind in kinds if f"::: {kind.__module__}\n" not in reference]
    formulas = (DOCS / "reference" / "formulas.md").read_text(encoding="utf-8")
    public = [name for name, value in vars(fm.formulas).items() if name[0] != "_" and not inspect.ismodule(value)]
    assert len(public) > 60
    assert not [name for name in public if not re.search(rf"^ +- {name}$", formulas, re.MULTILINE)]


@pytest.mark.usefixtures("scripts")
def test_the_tables_of_all_metrics_are_what_their_docstrings_say() -> None:
    import catalogue
    from _catalogue import DOCS, between

    written = between((DOCS / "metrics" / "index.md").read_text(encoding="utf-8"), "catalogue")
    assert written == catalogue.tables(), "run docs/scripts/catalogue.py"


@pytest.mark.usefixtures("scripts")
def test_the_table_of_modes_has_what_does_not_run_everywhere_and_agrees_with_what_the_cases_claim() -> None:
    import modes
    from _catalogue import catalogue

    table = modes.known(modes.PAGE.read_text(encoding="utf-8"))
    everywhere = dict.fromkeys(modes.COLUMNS, modes.YES)  # what is not in the table
    names = [kind.__name__ for kinds in catalogue().values() for kind in kinds]
    assert list(table) == [name for name in names if table.get(name, everywhere) != everywhere], "run make modes"
    claims: dict[str, list[tuple[str, ...]]] = {"Throughput": [("numpy", "dynamic")]}  # which has no case
    for case in CASES.values():
        claims.setdefault(type(case.make()).__name__, []).append(case.modes)
    for kind in names:
        row = table.get(kind, everywhere)
        assert tuple(row) == modes.COLUMNS
        for column, cell in row.items():
            mode = {"NumPy": "numpy", "PIR": "static"}.get(column.split(",")[0], column.split(",")[0])
            said, claimed = set(cell.split(" or ")), {mode in claim for claim in claims[kind]}
            assert said <= {modes.YES, modes.FETCH, modes.MEASURE}, (kind, column, "run make modes")
            runs, is_refused = modes.YES in said, bool(said - {modes.YES})
            assert (runs, is_refused) == (True in claimed, False in claimed), (kind, column)
