"""The check of English in `make lint`: each tic is found with its file and line, in pages, comments and texts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import prose

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize("rule", prose.RULES, ids=lambda rule: rule.example)
def test_each_tic_is_found_where_it_is(rule: prose.Rule, tmp_path: Path):
    split = rule.example.replace(" ", '"\n    " ')
    broken = rule.example.replace(" ", "\n# ")  # over the end of a line, too
    for name, text, line in (
        ("page.md", f"# A page\n\nFine. Then {rule.example}.\n", 3),
        ("comment.py", f"import os\n\nhere = os  # {broken}\n", 3),
        ("docstring.py", f'def run():\n    """Do it.\n\n    Here {rule.example}.\n    """\n', 4),
        ("message.py", f'raise ValueError(\n    f"{split}"\n)\n', 2),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert [(hit.line, hit.instead) for hit in prose.of_file(path)] == [(line, rule.instead)], name


def test_code_is_not_prose(tmp_path: Path):
    code = tmp_path / "code.py"
    code.write_text('nobody = ("so", "many")\nlay(nobody)\n"""`whoever` and test_nobody are names."""\n')
    page = tmp_path / "page.md"
    page.write_text("`nobody` is a name.\n<!-- prose: off -->\nnobody\n<!-- prose: on -->\nas many rows as before\n")
    assert [*prose.of_file(code), *prose.of_file(page)] == []


def test_a_planted_tic_fails_with_file_line_and_rewrite(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n" + " ".join(["It is", "told", "so.\n"]))
    done = subprocess.run([sys.executable, prose.__file__, str(page)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == f"{page}:3: 'is told' reads as a translation; write: the error names ...; rank 0 tells ...\n"


def test_an_unpacked_sdist_has_no_git_and_the_same_files(tmp_path: Path):
    there = ["Makefile", "README.md", ".github/workflows/ci.yml", "docs/site.md", "tests/test_a.py", "tests/prose.py"]
    made = [".venv-dev/lib/a.py", "build/lib/a.py", "site/a.md", "x.egg-info/a.md", ".pytest_cache/README.md"]
    for name in [*there, *made, "data.bin"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("words")
    assert sorted(prose.files(tmp_path)) == sorted(there[:-1])
    if shutil.which("git"):
        for command in (["git", "init", "-q"], ["git", "add", "--force", *there]):
            subprocess.run(command, cwd=tmp_path, check=True)
        assert sorted(prose.files(tmp_path)) == sorted(there[:-1])


@pytest.mark.thorough
def test_the_repository_has_none():
    found = [f"{name}:{hit.line}: {hit.found}" for name in prose.files() for hit in prose.of_file(prose.ROOT / name)]
    assert found == []
