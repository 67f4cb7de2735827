"""The Python blocks of the READMEs and of the documentation run, and print what their comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("code", cases())
def test_a_program_of_the_docs_prints_what_it_says(code: str, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PADDLE_", "FLEETMETRICS_", "TRAINING_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == PRINTED.findall(code)
