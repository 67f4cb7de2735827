"""Every picture of the documentation, drawn anew, looks as it did when somebody looked at it.

After a change that is meant, look at them again, and write them by
``.venv-cpu/bin/python -m pytest tests/plot/test_images.py --mpl-generate-path=tests/plot/baseline`` and
``docs/scripts/pictures.py``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetmetrics import plot

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
sys.path.append(str(DOCS / "scripts"))

import pictures  # noqa: E402

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize("name", pictures.PICTURES)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.mpl_image_compare(style="default", tolerance=4, savefig_kwargs={"dpi": 72})
def test_a_picture_looks_as_it_did(theme: str, name: str) -> Any:
    with plot.style(dark=theme == "dark"):
        return pictures.PICTURES[name]().figure


def test_the_documentation_shows_the_pictures_that_its_script_draws() -> None:
    """By what is written in them: coordinates may differ in a digit between versions of matplotlib."""
    said = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)
    files = {path.stem: path.read_text("utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    assert {name.replace("-dark", "") for name in files} == set(pictures.PICTURES)
    for name in ("roc", "calibration", "slices", "at_k", "over_passes"):
        drawn = said.findall(plot.svg(pictures.PICTURES[name]().figure))
        assert drawn == said.findall(files[name]) == said.findall(files[f"{name}-dark"]) and len(drawn) > 8
    for page in ("guide/pictures.md", "zh/pictures.md"):
        shown = re.findall(r"\]\(\.\./pictures/([-\w]+)\.svg#only-(light|dark)\)", (DOCS / page).read_text("utf-8"))
        assert {name for name, _ in shown} == set(files)
        assert all(name.endswith("-dark") == (theme == "dark") for name, theme in shown)
