"""What the package says of itself: one version, the Pythons that are tried, what its workflows may do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import fleetmetrics as fm
from fleetmetrics.support import optional

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {fm.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_each_python_that_is_named_is_tried() -> None:
    named = set(re.findall(r"Python :: (3\.\d+)", "\n".join(PYPROJECT["project"]["classifiers"])))
    tried = set(re.findall(r'python(?:-version)?: "(3\.\d+)"', WORKFLOWS[0].read_text(encoding="utf-8")))
    assert named == tried
    assert PYPROJECT["project"]["requires-python"] == f">={min(named, key=lambda each: int(each[2:]))}"


#: Where the oldest Python is named beside `requires-python`.
OLDEST = {
    "Makefile": r"vermin .*--target=(3\.\d+)-",
    "CONTRIBUTING.md": r"newer than Python (3\.\d+) \|",
    "README.md": r"Python (3\.\d+) or later",
    "README.zh-CN.md": r"Python (3\.\d+) 及以上",
    "docs/start/install.md": r"Python (3\.\d+) or later",
    "docs/start/install.zh.md": r"Python (3\.\d+) 及以上",
}


def test_the_oldest_python_is_the_same_in_all_files_and_builds_the_package() -> None:
    """setuptools 77, the first that reads the license expression, needs Python 3.9."""
    oldest = PYPROJECT["project"]["requires-python"][2:]
    named = {name: set(re.findall(pattern, (ROOT / name).read_text("utf-8"))) for name, pattern in OLDEST.items()}
    assert named == {name: {oldest} for name in OLDEST}
    assert PYPROJECT["build-system"]["requires"] == ["setuptools>=77"] and int(oldest[2:]) >= 9


def test_each_numpy_that_is_named_is_tried() -> None:
    oldest = re.search(r"numpy>=(1\.\d+)", PYPROJECT["project"]["dependencies"][0])
    assert oldest
    for path in (WORKFLOWS[0], ROOT / ".ci" / "run"):
        assert f"numpy=={oldest[1]}." in path.read_text("utf-8"), path


def test_the_wheel_holds_what_is_not_python_too() -> None:
    given = PYPROJECT["tool"]["setuptools"]["package-data"]
    held = {
        path
        for package, names in given.items()
        for name in names
        for path in ROOT.joinpath(*package.split(".")).glob(name)
    }
    there = {
        path for path in (ROOT / "fleetmetrics").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert held == there and {"py.typed", "report.html", "report.css", "report.js"} <= {path.name for path in there}


def test_packages_for_tests_are_not_extras() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert not set(extras) & {"test", "dev", "docs", "bench", "fuzz", "examples"}
    brought = {name for extra in extras.values() for name in extra}
    assert not any(name.startswith(("pytest", "ruff", "mypy")) for name in brought)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_its_actions_and_has_no_rights_but_those_of_its_jobs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert used and all(
        re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) and re.fullmatch(r" # v[\d.]+", tag) for action, tag in used
    )
    assert "\npermissions: {}\n" in text and "contents: write" not in text


def test_only_publishing_may_ask_for_an_identity() -> None:
    asking = [(path.stem, path.read_text(encoding="utf-8").count("id-token: write")) for path in WORKFLOWS]
    assert asking == [("ci", 0), ("release", 1)]


#: An extra where a page names it, and the command for it.
EXTRA = re.compile(r"\[(?:the )?(?:extra|附加依赖) ([^\]]+)\]\(\.\./start/install\.md\)")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_no_page_installs_from_an_index_that_does_not_have_the_package() -> None:
    """`pip install 'fleetmetrics[files]'` works only where the package is there already, or with its address."""
    told = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in PAGES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"pip install ['\"]?fleetmetrics(?!\[\w+\] @ )|pip install -U fleetmetrics", line)
    ]
    assert not told, f"link start/install.md and name the extra in {told}"


def test_each_extra_that_a_page_names_exists_and_install_has_all() -> None:
    extras = set(PYPROJECT["project"]["optional-dependencies"])
    named = {
        (path.name, extra)
        for path in PAGES
        for names in EXTRA.findall(path.read_text("utf-8"))
        for extra in re.findall(r"`(\w+)`", names)
    }
    assert len(named) > 15 and {extra for _, extra in named} <= extras
    for page in ("install.md", "install.zh.md"):
        text = (ROOT / "docs" / "start" / page).read_text("utf-8")
        assert set(re.findall(r"\"\.\[(\w+)\]\"", text)) == extras, f"docs/start/{page}"


def test_the_install_commands_of_errors_name_what_the_extras_bring() -> None:
    """Never the package itself, which no index has, and never a name that only looks like that of the library."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "fleetmetrics").rglob("*.py")}
    assert not [path for path, text in sources.items() if re.search(r"pip install \W*fleetmetrics", text)]
    asked = {name for text in sources.values() for name in re.findall(r'\blibrary\("(\w+)', text)}
    assert {"pyarrow", "matplotlib", "ray", "paddle"} <= asked
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    brought = {re.match(r"[\w-]+", line)[0] for lines in extras for line in lines}
    known = {name: re.match(r"'?([\w-]+)", optional._ON_INDEX.get(name, name))[1] for name in asked}
    of_others = {"markupsafe", "cycler", "tomllib", "nltk"}  # jinja2, matplotlib, Python and rouge-score bring them
    assert {*known.values()} - of_others <= brought
