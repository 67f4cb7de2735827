"""Take the pictures of the report on the README, the home page and the pages on files: docs/pictures/report*.png.

    PYTHONPATH=. python docs/scripts/report_picture.py

Debian's chromium draws them, at twice the size. report.png is what the README's commands write, of two models whose
scores examples/two_models.py makes; report_files.png what docs/start/files.md makes. A picture holds a digest of its
words; tests/test_pictures_of_pages.py writes the reports again and compares, without a browser.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from fleetmetrics.cli import main as command_line

DOCS = Path(__file__).resolve().parent.parent
READMES = {"en": DOCS.parent / "README.md", "zh": DOCS.parent / "README.zh-CN.md"}
WIDTH, SCALE = 1000, 2
#: What is not read as words: programs, styles, drawings and the numbers once more.
UNREAD = re.compile(r"<(script|style|svg|template)\b.*?</\1>|<[^>]+>", re.DOTALL)
#: What differs between two runs: times, sizes and versions.
TIME = r"\d{4}-\d\d-\d\d[T ]?[\d:.+Z]*|\d{4}年\d+月\d+日 ?[\d:]*"
VARYING = re.compile(rf"{TIME}|[\d.,]+ (?:KiB|MiB|s)\b|fleetmetrics \d[\w.]*")


def of_the_readme(folder: Path, language: str) -> None:
    """Run the commands above the picture."""
    text = READMES[language].read_text("utf-8")
    made = re.search(r"^python (examples/\S+)$", text, re.MULTILINE)
    found = re.search(r"^fleetmetrics (evaluate .*)$", text, re.MULTILINE)
    assert made and found
    if not (folder / "new").exists():
        subprocess.run([sys.executable, DOCS.parent / made[1]], cwd=folder, check=True)
    _run(folder, found[1])


def of_the_start(folder: Path, language: str) -> None:
    """Run the commands of the start page on files."""
    page = (DOCS / "start" / "files.md").read_text(encoding="utf-8")
    made = re.search(r"cat > make.py <<'END'\n(.*?)END\n", page, re.DOTALL)
    found = re.search(r"^fleetmetrics (evaluate .*)$", page, re.MULTILINE)
    assert made and found
    if not (folder / "scores.csv").exists():
        subprocess.run([sys.executable, "-c", made[1]], cwd=folder, check=True)
    _run(folder, f"{found[1]} --lang {language}")


def _run(folder: Path, command: str) -> None:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            status = command_line(shlex.split(command))
    finally:
        os.chdir(before)
    assert status == 0, (command, status)


def reports(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """The reports, each with the name of its picture and the ending of its language."""
    for name, write in {"report": of_the_readme, "report_files": of_the_start}.items():
        for language, ending in (("en", ""), ("zh", ".zh")):
            write(folder, language)
            yield name, ending, (folder / "report.html").rename(folder / f"drawn-{name}{ending}.html")


def digest(page: str) -> str:
    """Of the words of a report."""
    words = html.unescape(UNREAD.sub(" ", page)).split()
    return hashlib.sha256(VARYING.sub("", " ".join(words)).encode()).hexdigest()


def held(picture: Path) -> str:
    """The digest that a picture holds."""
    with Image.open(picture) as image:
        return str(image.info.get("words", ""))


def main() -> None:
    """Draw all."""
    from tests.browser import Browser

    with tempfile.TemporaryDirectory() as place, Browser() as browser:
        for name, ending, page in reports(Path(place)):
            for scheme, shade in (("light", ""), ("dark", "-dark")):
                browser.open(page, WIDTH, scheme)
                height = int(browser.value(HEIGHT))
                raw = Path(place, "raw.png")
                browser.picture(raw, height, SCALE)
                info = PngInfo()
                info.add_text("words", digest(page.read_text("utf-8")))
                picture = DOCS / "pictures" / f"{name}{shade}{ending}.png"
                Image.open(raw).convert("RGB").quantize(128).save(picture, pnginfo=info, optimize=True)
                print(picture.name, height, f"{picture.stat().st_size / 1024:.0f} KiB", flush=True)


#: The place in pixels behind the first section, which shows the slices.
HEIGHT = 'Math.ceil(document.querySelector("section").getBoundingClientRect().bottom + scrollY + 24)'


if __name__ == "__main__":
    main()
