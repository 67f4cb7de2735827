"""The page on the design names every part of the package, and words that the source uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fleetmetrics"
PAGE = (ROOT / "docs" / "project" / "design.md").read_text()
HOUSE = PAGE.partition("## Where the code lives")[2].partition("## Decisions")[0]
CHANNEL, _, EVALUATION = HOUSE.partition("The modules of `comm/`")[2].partition("The modules of `evaluation/`")
WORDS = [
    word
    for row in re.findall(r"^\| ([a-z][a-z ,]*) \|", PAGE.partition("## Where the code lives")[0], re.MULTILINE)
    for word in row.split(", ")
    if word != "word"
]


def parts_of(folder):
    """The modules and folders that a reader sees in the listing of a folder."""
    return {
        path.name + "/" * path.is_dir()
        for path in folder.iterdir()
        if path.name != "_version.py" and (path.is_dir() or path.suffix == ".py") and not path.name.startswith("__init")
    } - {"__pycache__/"}


def test_the_page_names_every_part_of_the_package_and_nothing_else():
    assert set(re.findall(r"`([a-z_]+(?:\.py|/))`", HOUSE.partition("The modules of `comm/`")[0])) == parts_of(PACKAGE)


def test_the_page_names_every_module_of_the_channel():
    assert set(re.findall(r"`([a-z_]+\.py)`", CHANNEL)) == parts_of(PACKAGE / "comm")


def test_the_page_names_every_module_of_the_evaluation():
    folder = PACKAGE / "evaluation"
    parts = set().union(*map(parts_of, {folder, *(path.parent for path in folder.glob("*/__init__.py"))}))
    assert set(re.findall(r"`([a-z_]+(?:\.py|/))`", EVALUATION)) - {"evaluation/"} == parts


@pytest.mark.parametrize("word", WORDS)
def test_the_source_uses_the_words_of_the_glossary(word):
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert re.search(rf"\b{word}(s|d|ed)?\b", source, re.IGNORECASE)
