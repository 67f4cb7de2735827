"""The commands of the first pages, and for existing scripts, print in an empty directory what the pages show."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.scripts.blocks import runs
from tests.cover import quick_on
from tests.distributed.cluster import unless_paddles_own
from tests.nursery import common
from tests.pages import both
from tests.test_docs import ROOT, paddle_version

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(not paddle_version(), reason="Paddle is not installed"),
]
STARTS = ("start/parameter_server", "start/dynamic", "start/openmmlab", "start/files")
SCRIPTS = ("howto/existing_scripts", "howto/paddlerec")
PAGES = [*(both(name)[0] for name in (*STARTS, *SCRIPTS)), ROOT / "examples" / "wide_and_deep" / "README.md"]
#: Scripts of pages without Paddle.
WITHOUT_PADDLE = ("make.py",)
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>bash|text)\n(?P<text>.*?)^```$", re.M | re.S)
DECIMALS = re.compile(r"\d+\.\d+(e-\d+)?")
MARK = "DOCS_SCRIPTS_MARK"


class Command(NamedTuple):
    """Some lines of shell, and what they print; with servers, numbers behind the point differ from run to run."""

    text: str
    shown: list[str]
    varies: bool


class Recipe(NamedTuple):
    """The commands of a page from one that writes a script to the next."""

    script: str
    commands: list[Command]


def recipes() -> dict[str, Recipe]:
    """The recipes of all pages, by page and script."""
    found: dict[str, Recipe] = {}
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            mark = block["mark"] or ""
            if not runs(mark, paddle_version()):
                continue
            if block["kind"] == "text":
                commands = list(found.values())[-1].commands
                commands[-1] = commands[-1]._replace(shown=block["text"].splitlines())
                continue
            written = re.match(r"cat > (\S+)", block["text"])
            if written:
                found[f"{page.stem} {written[1]}"] = Recipe(written[1], [])
            varies = bool(mark) and not mark.endswith("exact")
            list(found.values())[-1].commands.append(Command(block["text"], [], varies))
    return found


def run(command: Command, directory: Path, **variables: str) -> list[str]:
    foreign = ("PADDLE_", "FLEETMETRICS_", "TRAINING_", "FLAGS_", "GLOG_")
    mark = uuid.uuid4().hex
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "FLEETMETRICS_TIMEOUT": "60",
        **variables,
        MARK: mark,
    }
    try:
        done = subprocess.run(
            ["bash", "-e", "-c", command.text],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=150,
        )
    finally:
        end_all(mark)
    logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in directory.rglob("*log*") if path.is_file())
    assert done.returncode == 0, f"{command.text}\n{done.stdout}\n{done.stderr}\n{logs}"
    return done.stdout.splitlines()


def end_all(mark: str) -> None:
    """End what a launcher has left behind."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def alike(lines: list[str]) -> list[int]:
    """For each line the first one that is equal."""
    return [lines.index(line) for line in lines]


@pytest.fixture(scope="module")
def forked() -> dict[str, str]:
    """The environment in which scripts, launchers and what precedes them are forked: Paddle is imported once."""
    scripts = {recipe.script for recipe in recipes().values()}
    return common().environment(*scripts, "fleetrun", "paddle.distributed.launch", "fleetmetrics.run", "run.py")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[quick_on(paddle=3)] * (recipe.script in WITHOUT_PADDLE))
        for name, recipe in recipes().items()
    ]
    if paddle_version()
    else [],
)
@pytest.mark.thorough
def test_a_recipe_prints_in_an_empty_directory_what_the_page_shows(
    name: str, forked: dict[str, str], tmp_path: Path
) -> None:
    def paste() -> None:
        directory = Path(tempfile.mkdtemp(dir=tmp_path))
        for command in recipes()[name].commands:
            printed = run(command, directory, **forked)
            if command.varies:
                assert alike(printed) == alike(command.shown), printed  # the workers say the same, or they do not
                assert [DECIMALS.sub("#", line) for line in printed] == [
                    DECIMALS.sub("#", line) for line in command.shown
                ]
            else:
                assert printed == command.shown

    unless_paddles_own(paste)


@pytest.mark.parametrize("page", SCRIPTS)
def test_the_chinese_page_has_the_same_commands_and_programs(page: str) -> None:
    code = re.compile(r"^(?:<!-- [^\n]* -->\n)?```\w+\n.*?^```$", re.M | re.S)
    english, chinese = (code.findall(path.read_text("utf-8")) for path in both(page))
    assert len(english) > 5 and chinese == english
