"""What `make metric` lays out: files that are right as far as they go, on each page, with the rest marked TODO."""

from __future__ import annotations

import ast
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from fleetmetrics.words.texts import texts_of
from tests.test_docs import ROOT

pytestmark = pytest.mark.numpy_only


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the script defines, in a copy of the files that it changes."""
    for name in ("tests/cases", "docs/metrics", "docs/scripts", "fleetmetrics/words"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (ROOT / "fleetmetrics/metrics").rglob(""):
        (tmp_path / folder.relative_to(ROOT)).mkdir(parents=True, exist_ok=True)
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))
    defined = runpy.run_path(str(ROOT / "docs/scripts/new_metric.py"))
    names = defined["lay_out"].__globals__
    names.update(ROOT=tmp_path, DOCS=tmp_path / "docs", __file__=str(tmp_path / "docs/scripts/new_metric.py"))
    return names


@pytest.mark.parametrize("keeps", ["sums", "records"])
@pytest.mark.parametrize("page", ["regression", "scores", "classification", "tokens", "text", "ranking", "aggregation"])
def test_a_metric_is_laid_out_on_each_page_and_works_as_far_as_it_goes(
    script: dict[str, Any], tmp_path: Path, page: str, keeps: str
) -> None:
    paths = script["lay_out"](script["Layout"]("OddThing", page, keeps))
    changed = [str(path.relative_to(tmp_path)) for path in paths]
    folder = f"{page}/" if page in ("regression", "classification", "text", "ranking") else ""
    assert changed[:6] == [
        f"fleetmetrics/metrics/{folder}odd_thing.py",
        f"tests/cases/{page}.py",
        "fleetmetrics/words/en.ini",
        "fleetmetrics/words/zh.ini",
        f"docs/metrics/{page}.md",
        f"docs/metrics/{page}.zh.md",
    ]
    assert changed[6:] == ([] if folder else ["docs/scripts/_catalogue.py"])
    assert all("OddThing" in path.read_text("utf-8") for path in paths[:6])
    assert all("TODO" in path.read_text("utf-8") for path in (paths[0], *paths[2:6]))
    ast.parse(paths[1].read_text("utf-8"))
    if not folder:
        catalogue = runpy.run_path(str(paths[6]))
        assert catalogue["PAGES"][page][1][-1] == "metrics.odd_thing"
    metric = runpy.run_path(str(paths[0]))["OddThing"]()
    metric.add([0.5, 0.25], [1, 0])
    assert metric.compute() == 0.375 and metric.better == "lower"


def test_the_entries_are_in_the_order_of_the_names_of_their_page(script: dict[str, Any], tmp_path: Path) -> None:
    script["lay_out"](script["Layout"]("OddThing", "scores", "sums"))
    for language in ("en", "zh"):
        text = (tmp_path / f"fleetmetrics/words/{language}.ini").read_text("utf-8")
        names = [line[1:-1] for line in text.splitlines() if line[:1] == "[" and line[1].isupper()]
        assert names[names.index("OddThing") - 1] == "Lift" and names[names.index("OddThing") + 1][:9] == "Precision"
        assert [name for name in names if name != "OddThing"] == [
            name for name in texts_of(language) if name[0].isupper()
        ]


@pytest.mark.parametrize("name", ["AaThing", "ZzThing"])
def test_the_first_and_the_last_entry_of_a_page_are_below_its_comment(
    script: dict[str, Any], tmp_path: Path, name: str
) -> None:
    script["lay_out"](script["Layout"](name, "classification", "sums"))
    text = (tmp_path / "fleetmetrics/words/en.ini").read_text("utf-8")
    sections = text.partition("\n# Classification\n")[2].partition("\n\n# Segmentation\n")[0].split("\n\n")
    assert f"[{name}]" == sections[0 if name == "AaThing" else -1].partition("\n")[0]


@pytest.mark.parametrize(
    ("name", "page", "told"),
    [
        ("odd_thing", "regression", "NAME must be a class name"),
        ("", "regression", "NAME must be a class name"),
        ("AUC", "scores", "AUC is there already"),
        ("OddThing", "odd", "PAGE must be one of scores, click_through"),
    ],
)
def test_what_is_no_new_metric_is_refused_and_nothing_is_written(
    script: dict[str, Any], tmp_path: Path, name: str, page: str, told: str
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(SystemExit, match=told):
        script["lay_out"](script["Layout"](name, page, "sums"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
