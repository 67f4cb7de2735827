"""Say which Chinese sections are older than their English ones; or stamp pages that have been translated.

    python docs/scripts/translations.py            # check all pages; the exit status is 1 if one is stale
    python docs/scripts/translations.py PAGE ...   # after translating: PAGE is docs/howto/files.zh.md, say

Below each heading of a Chinese page, a comment holds the digest of the English section that it was translated from.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

from _site import headings

DOCS = Path(__file__).resolve().parent.parent
#: Folders whose pages have a Chinese page each.
TRANSLATED = ("start", "howto", "metrics", "explanation")
#: What `make names` and `make exactness` write on the pages of both languages.
GENERATED = re.compile(r"<!-- (catalogue|exactness) -->.*?<!-- /\1 -->", re.DOTALL)
STAMP = re.compile(r"<!-- en: (?P<digest>[0-9a-f]{8}) -->\n?")
FENCE = re.compile(r" *(```|~~~)")
COMMENT = re.compile(r" *#.*")


class Section(NamedTuple):
    """A heading and what follows it up to the next one."""

    line: int
    """Of the heading, from 1."""
    heading: str
    text: str

    @property
    def digest(self) -> str:
        """Of the words that somebody wrote: line breaks may move."""
        words = " ".join(GENERATED.sub("", STAMP.sub("", self.heading + "\n" + self.text)).split())
        return hashlib.sha256(words.encode()).hexdigest()[:8]

    @property
    def translated_from(self) -> str:
        found = STAMP.match(self.text)
        return found["digest"] if found else ""

    @property
    def code(self) -> list[str]:
        """The lines of programs, commands and outputs, without comments, which are translated."""
        found, inside = [], False
        for line in self.text.splitlines():
            if FENCE.match(line):
                inside = not inside
            elif inside:
                found.append(COMMENT.sub("", line) if not line.lstrip().startswith("print(") else line)
        return [line for line in found if line]


def sections(path: Path) -> list[Section]:
    """All sections of a page; headings in code begin none."""
    page = path.read_text(encoding="utf-8")
    found = headings(page)
    ends = [each.start() for each in found[1:]] + [len(page)]
    return [
        Section(page.count("\n", 0, each.start()) + 1, each[0], page[each.end() + 1 : end])
        for each, end in zip(found, ends)
    ]


def english_of(page: Path) -> Path:
    return page.with_name(page.name.replace(".zh.md", ".md"))


def complaints(page: Path, docs: Path = DOCS) -> list[str]:
    """What is wrong with a Chinese page, each with file, line and what to do."""
    ours, theirs = sections(page), sections(english_of(page))
    name = page.relative_to(docs)
    if len(ours) != len(theirs):
        headings = ", ".join(each.heading for each in theirs[len(ours) :] or ours[len(theirs) :])
        return [
            f"{name}:1: has {len(ours)} sections, the English page has {len(theirs)}; see {headings}. Translate what "
            f"is new, remove what is gone, then run: python docs/scripts/translations.py docs/{name}"
        ]
    found = []
    for chinese, english in zip(ours, theirs):
        if chinese.translated_from != english.digest:
            found.append(
                f"{name}:{chinese.line}: {chinese.heading} is older than the English section {english.heading} "
                f"(line {english.line}). Translate it again, then run: python docs/scripts/translations.py docs/{name}"
            )
        elif chinese.code != english.code:
            line = next((a or b for a, b in zip([*chinese.code, ""], [*english.code, ""]) if a != b), "the last line")
            found.append(f"{name}:{chinese.line}: {chinese.heading} has other code than the English section: {line}")
    return found


def stamp(page: Path, docs: Path = DOCS) -> None:
    """Write the digests of the English sections below the headings of a page with the same sections."""
    theirs = sections(english_of(page))
    lines = [line for line in page.read_text(encoding="utf-8").splitlines(keepends=True) if not STAMP.fullmatch(line)]
    page.write_text("".join(lines), encoding="utf-8")
    ours = sections(page)
    if len(ours) != len(theirs):
        sys.exit("\n".join(complaints(page, docs)))
    for chinese, english in zip(reversed(ours), reversed(theirs)):
        lines.insert(chinese.line, f"<!-- en: {english.digest} -->\n")
    page.write_text("".join(lines), encoding="utf-8")


def untranslated(docs: Path) -> list[str]:
    """The English pages that should have a Chinese one and have none."""
    pages = [page for folder in TRANSLATED for page in sorted((docs / folder).glob("*.md"))]
    return [
        f"{page.relative_to(docs)}:1: has no Chinese page {page.stem}.zh.md"
        for page in pages
        if not page.name.endswith(".zh.md") and not page.with_suffix(".zh.md").exists()
    ]


def main(pages: list[str]) -> None:
    for page in pages:
        stamp(Path(page).resolve())
    found = untranslated(DOCS) + [each for page in sorted(DOCS.rglob("*.zh.md")) for each in complaints(page)]
    if found and not pages:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
