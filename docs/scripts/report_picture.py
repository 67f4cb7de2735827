"""Take the pictures of the report on the README, the home page and the page on files: docs/pictures/report*.png.

    PYTHONPATH=. python docs/scripts/report_picture.py

Debian's chromium draws them. report.png compares two models of generated clicks, in one slot of which the scores say
nothing (`two_models` of reports.py); report_files.png is what docs/start/files.md makes.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import fleetmetrics
from tests.browser import Browser

DOCS = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 1000, 780


def two_models() -> tuple[Any, list[str]]:
    """A result, and the conditions of its gate."""
    reports = runpy.run_path(str(DOCS / "scripts" / "reports.py"))
    return reports["two_models"](), reports["CONDITIONS"]["two_models"]


def of_the_page(folder: str) -> tuple[Any, list[str]]:
    """What the commands of docs/start/files.md evaluate."""
    page = (DOCS / "start" / "files.md").read_text(encoding="utf-8")
    made = re.search(r"cat > make.py <<'END'\n(.*?)END\n", page, re.DOTALL)
    assert made
    subprocess.run([sys.executable, "-c", made[1]], cwd=folder, check=True)
    asked: dict[str, Any] = {"label": "y", "score": "p", "by": "slot", "metrics": "auc,calibration"}
    return fleetmetrics.evaluate(Path(folder, "scores.csv"), **asked), []


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for name, (found, conditions) in {"report": two_models(), "report_files": of_the_page(folder)}.items():
            for language, ending in (("en", ""), ("zh", ".zh")):
                page = Path(folder, f"{name}-{language}.html")
                found.to_html(page, language, conditions)
                for scheme, shade in (("light", ""), ("dark", "-dark")):
                    browser.open(page, WIDTH, scheme)
                    browser.picture(DOCS / "pictures" / f"{name}{shade}{ending}.png", HEIGHT)


if __name__ == "__main__":
    main()
