"""Say which links of the files beside the site lead nowhere: READMEs, CONTRIBUTING, CHANGELOG, forms of .github.

    python docs/scripts/links.py

MkDocs checks the links between the pages of docs/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Iterator
from urllib.parse import unquote

from _site import FENCED, headings

ROOT = Path(__file__).resolve().parent.parent.parent
#: Where pages lie that readers see beside the site.
BESIDE = ("*.md", ".github/**/*.md", "benchmarks/**/*.md", "examples/**/*.md", "docs/project/[de]*.md")
CODE = re.compile(r"`[^`\n]*`")
#: A link or a picture of Markdown, and an attribute of HTML.
TARGET = re.compile(r"\]\(<?([^()\s>]+)>?\)|\b(?:href|src|srcset)=\"([^\"\s]+)\"")


def complaints(root: Path = ROOT) -> list[str]:
    """The links that lead to no file, or to no heading of one, each with its file and line."""
    pages = [path for pattern in BESIDE for path in sorted(root.glob(pattern))]
    return [each for page in pages for each in _broken(page, root)]


def _broken(page: Path, root: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    for found in TARGET.finditer(_without_code(text)):
        target = unquote(found[1] or found[2])
        if re.match(r"[a-z]+:", target):
            continue  # another site's: a build asks no server
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        line = text.count("\n", 0, found.start()) + 1
        where = f"{page.relative_to(root)}:{line}: the link {target!r} leads to"
        if not there.exists():
            yield f"{where} no file. Correct it, then run `make docs`."
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text("utf-8")):
            yield f"{where} no heading of {there.name}. Correct it, then run `make docs`."


def _without_code(text: str) -> str:
    """The text with code blanked out; every other character keeps its place."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return CODE.sub(blank, FENCED.sub(blank, text))


def anchors(markdown: str) -> set[str]:
    """The anchors that GitHub gives to the headings, and those that a page writes itself."""
    own = set(re.findall(r"\bid=\"([^\"]+)\"|\{ *#([-\w]+) *\}", markdown))
    names = [re.sub(r"[^\w\- ]", "", each[2].lower()).replace(" ", "-") for each in headings(markdown)]
    again = {f"{name}-{names[:place].count(name)}" for place, name in enumerate(names)}
    return {*names, *again, *(name for pair in own for name in pair if name)}


if __name__ == "__main__":
    sys.exit("\n".join(complaints()) or None)
