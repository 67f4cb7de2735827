"""The commands of the pages on `fleetmetrics evaluate`, pasted in an empty directory, print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fleetmetrics.cli.parsers import parsed
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.request import Request
from tests.nursery import common
from tests.pages import both

pytestmark = pytest.mark.numpy_only
pytest.importorskip("pyarrow")

#: Later pages use the files of the first.
NAMES = ("evaluate_files", "release_gate", "merge", "report")
BLOCK = re.compile(r"^(<!-- not run[^\n]* -->\n)?```bash\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)


def commands(page: Path) -> list[tuple[str, str]]:
    found = [(text, shown) for mark, text, shown in BLOCK.findall(page.read_text("utf-8")) if not mark]
    return [each for each in found if not each[0].startswith("pip install")]


@pytest.fixture
def forked() -> dict[str, str]:
    """The environment in which the program is forked where its imports are done already."""
    return common().environment("fleetmetrics")


@pytest.mark.thorough
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


# -- files for continuous integration ------------------------------------------------------------------------------

CI = re.compile(r"^```yaml\n# (\S+)\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("language", [0, 1])
def test_the_files_for_continuous_integration_are_valid_and_so_are_their_commands(language: int) -> None:
    yaml = pytest.importorskip("yaml")
    files = {
        name: yaml.safe_load(text) for name, text in CI.findall(both("howto/release_gate")[language].read_text("utf-8"))
    }
    steps = files[".github/workflows/gate.yml"]["jobs"]["gate"]["steps"]
    gitlab = files[".gitlab-ci.yml"]["gate"]
    assert files[".github/workflows/gate.yml"][True] == "pull_request"  # YAML reads `on` as a flag
    kept = [step["with"]["path"] for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert kept == gitlab["artifacts"]["paths"] == ["report.html"] and gitlab["artifacts"]["when"] == "always"
    for scripts in ([step["run"] for step in steps if "run" in step], gitlab["script"]):
        install, gate = scripts
        assert install.startswith('pip install "fleetmetrics[report] @ $')
        program, *tokens = shlex.split(gate.partition(" >>")[0])
        args = parsed(tokens)
        assert program == "fleetmetrics" and args.html == "report.html" and len(args.fail_if) == 2
        Request.of(args.files, Options.among(vars(args))).check_conditions(args.fail_if)
