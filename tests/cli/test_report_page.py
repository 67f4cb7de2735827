"""The commands of the pages on `fleetmetrics evaluate`, pasted in an empty directory, print what the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nursery import common
from tests.pages import both

pytestmark = pytest.mark.numpy_only
pytest.importorskip("pyarrow")

#: Later pages use the files of the first.
NAMES = ("evaluate_files", "release_gate", "states", "report")
BLOCK = re.compile(r"^(<!-- not run[^\n]* -->\n)?```bash\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)


def commands(page: Path) -> list[tuple[str, str]]:
    found = [(text, shown) for mark, text, shown in BLOCK.findall(page.read_text("utf-8")) if not mark]
    return [each for each in found if not each[0].startswith("pip install")]


@pytest.fixture
def forked() -> dict[str, str]:
    """The environment in which the program is forked where its imports are done already."""
    return common().environment("fleetmetrics")


def test_the_commands_print_what_the_pages_show(tmp_path: Path, forked: dict[str, str]) -> None:
    program = tmp_path / "bin" / "fleetmetrics"  # what pip installs
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom fleetmetrics.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, **forked, "PATH": path, "OMP_NUM_THREADS": "1"}
    folder = tmp_path / "empty"
    folder.mkdir()
    found = [each for name in NAMES for each in commands(both(f"howto/{name}")[0])]
    assert len(found) == 8
    for text, shown in found:
        done = subprocess.run(
            ["bash", "-e", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=200
        )
        assert (done.returncode, done.stdout) == (0, shown), (text, done.stderr)


@pytest.mark.parametrize("name", NAMES)
def test_the_chinese_page_has_the_same_commands_and_outputs(name: str) -> None:
    english, chinese = both(f"howto/{name}")
    assert BLOCK.findall(chinese.read_text("utf-8")) == BLOCK.findall(english.read_text("utf-8"))
