"""Every picture of a page is there, in light and dark, says what it shows, and is what its script draws."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import fleetmetrics

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURE = re.compile(r"!\[(?P<alt>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<path>[^)#\s]+)(?:#(?P<theme>[-\w]+))?\)")
METRICS = [
    *("scores", "click_through", "classification", "regression", "ranking"),
    *("slices", "uncertainty", "aggregation", "tokens"),
]
pytestmark = pytest.mark.numpy_only


def script_of(path: Path) -> str:
    """The command that writes a picture."""
    name = "drawings" if path.parent.name == "drawings" else "report_picture" if "report" in path.name else "pictures"
    return f"run: .venv-cpu/bin/python docs/scripts/{name}.py"


def shown(page: Path) -> list[tuple[int, re.Match[str]]]:
    """The pictures of a page, with their lines."""
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)
    return [(number, found) for number, line in lines for found in PICTURE.finditer(line)]


def complaints(page: Path) -> list[str]:
    """What is wrong with the pictures of a page, each with file, line and what to do."""
    found, themes = [], {"only-light": [], "only-dark": []}
    for line, each in shown(page):
        place, path = f"{page}:{line}: {each['path']}", page.parent / each["path"]
        if not path.is_file():
            found.append(f"{place} is missing; {script_of(path)}")
        if len(each["alt"].strip()) < 4:
            found.append(f"{place} has no alt text; write what it shows between the brackets")
        if each["theme"] in themes:
            themes[each["theme"]].append(each["path"].replace("-dark", ""))
            if ("-dark" in each["path"]) != (each["theme"] == "only-dark"):
                found.append(f"{place} is shown on the other background; write #only-light or #only-dark")
    if themes["only-light"] != themes["only-dark"]:
        odd = sorted(set(themes["only-light"]) ^ set(themes["only-dark"]))
        found.append(f"{page}:1: shows {odd} in light or dark only; add the other")
    return found


def test_every_picture_is_there_in_light_and_dark_and_has_an_alt_text() -> None:
    assert not [each for page in sorted(DOCS.rglob("*.md")) for each in complaints(page)]


@pytest.mark.parametrize(
    "text, said",
    [
        ("A\n![what](no.svg)", r":2: no.svg is missing; run: .*docs/scripts/pictures.py"),
        ("![a curve](drawings/no.svg)", r":1: drawings/no.svg is missing; run: .*docs/scripts/drawings.py"),
        ("\n\n![](here.svg)", r":3: here.svg has no alt text; write what it shows"),
        ("![a curve](here.svg#only-light)", r":1: shows \['here.svg'\] in light or dark only"),
        ("![a curve](here.svg#only-dark)", r":1: here.svg is shown on the other background"),
    ],
)
def test_a_picture_that_is_missing_or_says_nothing_is_named_by_file_and_line(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "here.svg").write_text("<svg/>", "utf-8")
    (tmp_path / "page.md").write_text(text, "utf-8")
    assert re.search(r"page\.md" + said, "\n".join(complaints(tmp_path / "page.md")))


@pytest.mark.parametrize("name", METRICS)
def test_each_page_of_metrics_shows_them_and_the_chinese_one_shows_the_same(name: str) -> None:
    english, chinese = (DOCS / "metrics" / f"{name}{language}.md" for language in ("", ".zh"))
    paths = [[each["path"].replace(".zh.", ".") for _, each in shown(page)] for page in (english, chinese)]
    assert paths[0] and paths[0] == paths[1]


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.zh.md")), ids=lambda page: page.name)
def test_a_chinese_page_shows_pictures_in_chinese(page: Path) -> None:
    assert not [each["path"] for _, each in shown(page) if ".zh." not in each["path"]]


#: Names of data and of metrics, and what Chinese texts say in English, too.
NAMES = {"auc", "banner", "cart", "feed", "search", "worker", "batch"}


def test_the_words_of_chinese_pictures_are_chinese() -> None:
    """Names of metrics in capitals aside."""
    for path in sorted((DOCS / "pictures").glob("**/*.zh.svg")):
        if path.parent.name != "drawings":  # theirs are tested below
            texts = re.findall(r"<text[^>]*>(.*?)</text>", path.read_text("utf-8"), re.DOTALL)
            words = {word for text in texts for word in re.findall("[a-z]{3,}", text)}
            assert words <= NAMES, f"{path.name}: {words - NAMES}; name them in CHINESE of docs/scripts/pictures.py"


def test_the_drawings_are_those_that_their_script_draws() -> None:
    drawn = runpy.run_path(str(DOCS / "scripts/drawings.py"))["drawn"]()
    there = {path.name: path.read_text("utf-8") for path in (DOCS / "pictures" / "drawings").glob("*")}
    stale = sorted(name for name in {*drawn, *there} if drawn.get(name) != there.get(name))
    assert not stale, "run: python docs/scripts/drawings.py"
    texts = "".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))
    assert not [name for name in drawn if f"/drawings/{name}#" not in texts]


def test_the_texts_of_a_drawing_can_be_read_on_a_phone_and_are_all_in_chinese() -> None:
    script = runpy.run_path(str(DOCS / "scripts/drawings.py"))
    said = set()
    for name, text in script["drawn"]().items():
        assert min(int(size) for size in re.findall(r'font-size="(\d+)"', text)) >= 12
        if ".zh." not in name:
            said |= set(re.findall(r">([^<\n]*[a-z]{3}[^<\n]*)</text>", text))
    untranslated = {each for each in said if each not in script["CHINESE"]}
    assert untranslated == {"rank 0", "rank 1", "rank 2", "Communicator-", "Error"}
    assert set(script["CHINESE"]) <= said | {"low"}


def test_the_bounds_and_the_shares_that_are_drawn_are_those_that_metrics_compute() -> None:
    auc = fleetmetrics.AUC(buckets=3, spacing="linear", bounds=True)
    auc.add([0.1] * 3 + [0.5] * 4 + [1.0] * 3, [0] * 3 + [0, 0, 1, 1] + [1] * 3)
    assert auc.compute() == (0.92, 0.84, 1.0)
    rights = ([1, 1, 1, 0], [1, 0], [1, 1, 1, 1])
    workers = [fleetmetrics.Accuracy() for _ in rights]
    for worker, right in zip(workers, rights):
        worker.add(right, [1] * len(right))
    assert fleetmetrics.merge_all(workers).compute() == 0.8


@pytest.mark.parametrize("name", ["files", "scale"])
def test_the_charts_of_benchmarks_have_no_white_box_and_are_light_on_dark_pages(name: str) -> None:
    light, dark = ((DOCS / "project" / f"{name}{theme}.svg").read_text("utf-8") for theme in ("", "-dark"))
    assert not re.search("fill: #ffffff", light + dark)
    assert "#000000" in light and "#000000" not in dark and '<svg fill="#ececec"' in dark


@pytest.mark.thorough
def test_the_pictures_of_reports_show_the_words_of_the_reports_that_the_pages_commands_write(tmp_path: Path) -> None:
    script = runpy.run_path(str(DOCS / "scripts/report_picture.py"))
    for name, ending, page in script["reports"](tmp_path):
        words = script["digest"](page.read_text("utf-8"))
        for shade in ("", "-dark"):
            picture = DOCS / "pictures" / f"{name}{shade}{ending}.png"
            assert script["held"](picture) == words, f"{picture.name} is stale; {script_of(picture)}"
