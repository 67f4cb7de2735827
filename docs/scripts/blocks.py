"""The Python blocks of a page, as programs: which run, and where one prints something else than its comments say."""

from __future__ import annotations

import importlib.util
import itertools
import re
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

from tests.nursery import Nursery

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
IMPORTED = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)
#: How the error of a program begins that needs a library which is not there.
NOT_HERE = ("ModuleNotFoundError", "fleetmetrics.errors.MissingLibraryError")


def runs(mark: str, paddle: str) -> bool:
    """Whether a block runs on this Paddle, by the comment before it."""
    if mark.startswith("not run"):
        return False
    return not mark.startswith("paddle ") or paddle.startswith(mark.split()[1] + ".")


def programs(page: Path, paddle: str) -> list[str]:
    """A block that begins with an import starts a program, as does the first one; the others go on."""
    found: list[str] = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if runs(block["mark"] or "", paddle):
            if not found or block["code"].startswith(("import ", "from ")):
                found.append("")
            found[-1] += block["code"]
    return found


def place(line: str, pages: Sequence[Path]) -> str:
    """The file and the line that begin with a line of a program."""
    for page in pages:
        for number, each in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if each == line:
                return f"{page.relative_to(ROOT) if ROOT in page.parents else page.name}:{number}"
    return "a page"


def what_differs(code: str, printed: list[str], pages: Sequence[Path]) -> str:
    """The first line that prints something else than its comment says, and how to try again."""
    said = list(PRINTED.finditer(code))
    for each, found in itertools.zip_longest(said, printed):
        if each is None or found != each[1]:
            where = place(each[0], pages) if each else place(said[-1][0] if said else code.splitlines()[0], pages)
            shown = repr(found) if found is not None else "nothing"
            wanted = repr(each[1]) if each else "nothing"
            told = "Correct one of them, then run `make test-cpu ARGS=tests/test_docs.py`"
            return f"{where}: prints {shown}, and the page says {wanted}. {told}"
    return ""


def wrong(pages: Sequence[Path]) -> Iterator[str]:
    """What is wrong in the programs that run here; `make test` runs those that need Paddle or another library too."""
    with Nursery("numpy", "fleetmetrics.metrics", "fleetmetrics.comm") as nursery:
        for page in pages:
            for code in programs(page, paddle=""):
                if all(importlib.util.find_spec(name) for name in IMPORTED.findall(code)):
                    with tempfile.TemporaryDirectory() as folder:
                        directory = Path(folder, "empty")
                        directory.mkdir()
                        done = nursery.run(code, directory)
                    last = (done.err.splitlines() or [""])[-1]
                    if done.status and not last.startswith(NOT_HERE):
                        where = place(code.splitlines()[0], [page])
                        yield f"{where}: the program ends with {last}. Correct it, then run `make docs`."
                    elif not done.status and done.out.splitlines() != PRINTED.findall(code):
                        yield what_differs(code, done.out.splitlines(), [page])
