"""Every picture of the documentation, drawn again, looks like the one that was reviewed.

After a change that is meant, look at them again, and write them by
``.venv-cpu/bin/python -m pytest tests/plot/test_images.py --mpl-generate-path=tests/plot/baseline`` and
``docs/scripts/pictures.py``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Iterable

import pytest

from fleetmetrics import plot

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
sys.path.append(str(DOCS / "scripts"))

import pictures  # noqa: E402
import real_pictures  # noqa: E402

from tests.pages import both  # noqa: E402

pytestmark = pytest.mark.numpy_only


ALL = {**pictures.PICTURES, **{f"metrics_{name}": drawn for name, drawn in real_pictures.PICTURES.items()}}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.mpl_image_compare(style="default", tolerance=4, savefig_kwargs={"dpi": 72})
def test_a_picture_looks_as_it_did(theme: str, name: str) -> Any:
    with plot.style(dark=theme == "dark"):
        return ALL[name]().figure


def files_of(names: Iterable[str]) -> list[str]:
    """Those of pictures: light and dark, in English and in Chinese."""
    return sorted(f"{name}{end}.svg" for name in names for end in ("", "-dark", ".zh", "-dark.zh"))


def test_the_pictures_of_real_data_that_the_documentation_shows_are_all_of_the_script_s() -> None:
    names = [path.name for path in (DOCS / "pictures" / "metrics").glob("*.svg")]
    assert sorted(names) == files_of(real_pictures.PICTURES)


@pytest.mark.thorough
def test_the_documentation_shows_the_pictures_that_its_script_draws() -> None:
    """By what is written in them: coordinates may differ in a digit between versions of matplotlib."""
    said = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)
    files = {path.stem: path.read_text("utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    assert sorted(f"{name}.svg" for name in files) == files_of(pictures.PICTURES)
    for name in ("roc", "calibration", "slices", "at_k", "over_passes"):
        drawn = said.findall(plot.svg(pictures.PICTURES[name]().figure))
        assert drawn == said.findall(files[name]) == said.findall(files[f"{name}-dark"]) and len(drawn) > 8
        with plot.style(words=pictures.CHINESE):
            drawn = said.findall(plot.svg(pictures.PICTURES[name]().figure))
        assert drawn == said.findall(files[f"{name}.zh"]) == said.findall(files[f"{name}-dark.zh"])
    for page, language in zip(both("howto/pictures"), ("", ".zh")):
        shown = re.findall(r"\]\(\.\./pictures/([-.\w]+)\.svg#only-(light|dark)\)", page.read_text("utf-8"))
        assert {name for name, _ in shown} == {name for name in files if name.endswith(".zh") == bool(language)}
        assert all(("-dark" in name) == (theme == "dark") for name, theme in shown)
