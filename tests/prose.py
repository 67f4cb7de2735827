"""Find phrases that read as a translation, in pages, comments, docstrings and messages: `make lint` runs this file.

Vale's package on PyPI downloads its program at the first run, and proselint has no rules of ours and reads no Python.
A test plants the example of each rule. To show a tic on purpose, put it between `<!-- prose: off -->` and
`<!-- prose: on -->`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: They quote the tics.
QUOTING = {"tests/prose.py", "tests/test_prose.py"}


class Rule(NamedTuple):
    """A tic: an example, the words to look for, and what to write instead."""

    example: str
    words: str
    instead: str


class Hit(NamedTuple):
    """A tic in a file."""

    line: int
    found: str
    instead: str


RULES = [
    Rule(*rule)
    for rule in (
        ("what stands there", r"what stands|stands? (at|between|behind|beside|below|there)", "name the thing"),
        ("is told", r"(is|are|was|were|be|been) told(?! apart)", "the error names ...; rank 0 tells ..."),
        ("that is none", r"that (is|are) none", "invalid; not a ..."),
        (
            "there was none",
            r"(there|where) (is|was|are|were) none|where there (is|was|are|were) no",
            "without ...",
        ),
        ("nobody", r"nobody", "no worker; no caller; the passive"),
        ("whoever", r"who(m)?(so)?ever", "any process that ...; the worker that ..."),
        ("as many", r"so many|as many(?!( \w+){0,3} as)", "that many; the same number of"),
        ("looks whether", r"look(s|ed|ing)? whether", "checks whether"),
        ("for whom", r"for whom", "for which users; where"),
        ("as the parts say", r"as the \w+ says?", "see ...; according to ..."),
        ("by comma", r"by (comma|semicolon|blank)", "separated by commas"),
        ("all that", r"(?<!\bafter.)(?<!\babove.)(?<!\bat.)all that", "everything that; all ..."),
        ("of its own accord", r"of (its|their) own accord", "by itself"),
        ("to be had", r"(is|are|was|were) (to be )?had|to be had", "is available"),
        ("came of", r"(come|comes|came|become|becomes|became) of", "the outcome of; what happens to"),
        ("nothing of", r"nothing of", "none of; knows nothing about"),
        ("but for", r"but for", "except for"),
        ("knows no", r"(know|knows|knew) no", "has no; does not support"),
        ("makes of", r"(make|makes) of|(is|are|was|were) made of it", "turns ... into; computes from"),
        ("of 3 s after 2.4", r"of [\d.]+ s after", "after 2.4 s of 3 s"),
        ("for want of", r"for want of|in (its|their) stead|thereof|wherein|for ever", "without; instead; forever"),
        ("mended", r"mend(s|ed|ing)?", "fixed; repaired"),
        ("shall", r"shall", "must; will"),
        ("lay", r"lay", "was"),
        ("has yet to come", r"(has|have|had) yet to", "has not come"),
        ("in the place of", r"in (the|its|their) place of", "instead of"),
        ("makes no sense", r"(make|makes|made) no sense", "is invalid"),
        ("hears of it", r"(hear|hears|heard) of", "gets the error; learns about"),
        ("its kin", r"(its|their) (kin|like)(?! (this|that|an?|the))", "and similar metrics"),
        ("is looked at", r"(is|are|was|were|be|been) (not )?looked at", "is checked; is read; is evaluated"),
        ("what is said", r"(is|are|was|were|what is) said(?! (to|of an?))", "the error says; the text of"),
        ("without a word", r"without a word", "silently"),
        ("however many", r"however (many|much|large|small|often)", "for any number of; of any size"),
        ("whatever the order", r"whatever the", "in any order; for any ...; with any ..."),
        ("equally many", r"equally (many|long)", "the same number of; of the same length"),
        ("anew", r"anew", "again; from zero"),
        ("under way", r"under way", "current; running"),
        ("and the like", r"(and|or) the like", "and similar ..."),
        ("begins so", r"begins? so", "begins with it"),
        ("per cent", r"per cent", "%"),
    )
]


def _alternative(words: str) -> str:
    """A rule's words as a group; its inner groups do not capture, and a blank may be the end of a line."""
    return "(" + re.sub(r"\((?!\?)", "(?:", words).replace(" ", r"\s+") + ")"


#: One group for each rule, in their order.
TICS = re.compile(
    r"\b(?<![`/.-])(?:" + "|".join(_alternative(rule.words) for rule in RULES) + r")(?![\w`/-])", re.IGNORECASE
)
#: The comments and the texts of a program.
PROSE = re.compile(
    r"""#[^\n]*|(?P<quote>\"{3}|'{3})(?:\\.|.)*?(?P=quote)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


def prose_of_python(source: str) -> str:
    """Return a program's comments and texts, each on its line; a full stop replaces the code between two of them."""
    parts, done = [], 0
    for match in PROSE.finditer(source):
        code = source[done : match.start()]
        parts.append(code if not code.strip(" \nfFrRbB") else "." + "\n" * code.count("\n"))
        parts.append(re.sub(r"^#:?|^[\"']+|[\"']+$", lambda signs: " " * len(signs[0]), match[0]))
        done = match.end()
    return "".join(parts)


def tics(text: str) -> Iterator[Hit]:
    """The tics of a text, by line."""
    for match in TICS.finditer(text):
        found = " ".join(match[0].split())
        yield Hit(text.count("\n", 0, match.start()) + 1, found, RULES[(match.lastindex or 0) - 1].instead)


def of_file(path: Path) -> Iterator[Hit]:
    """The tics of a page or a program."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = prose_of_python(text)
    else:
        text = re.sub(r"(?s)<!-- prose: off -->.*?<!-- prose: on -->", lambda m: "\n" * m[0].count("\n"), text)
        text = re.sub(r"`[^`\n]*`", lambda m: "`" * len(m[0]), text)
    return tics(text)


#: The files with prose, and the folders that git does not have: an unpacked sdist has no git.
KINDS = ("*.md", "*.py", "Makefile", "*.toml", "*.yml", "*.yaml", "*.ini")
MADE = re.compile(r"(?:.*/)?(?:\.(?!github/|ci/|pre-commit)[^/]*|build|dist|site|__pycache__|[^/]*\.egg-info)(?:/.*)?")


def files(root: Path = ROOT) -> list[str]:
    """The files of the repository, or of an unpacked sdist, by their names from the root."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", *KINDS]
        listed = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    else:
        paths = (path.relative_to(root).as_posix() for kind in KINDS for path in root.rglob(kind))
        listed = sorted(name for name in paths if not MADE.fullmatch(name))
    return [name for name in listed if name and name not in QUOTING and (root / name).exists()]


def main(names: list[str]) -> int:
    """Print the tics of the files, of all without names; 1 if there are any."""
    status = 0
    for name in names or files():
        for hit in of_file(ROOT / name):
            print(f"{name}:{hit.line}: {hit.found!r} reads as a translation; write: {hit.instead}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
