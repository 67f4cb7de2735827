"""The tool behind `make faults`: where it finds the text of a fault, and what it says when the text has moved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.numpy_only

TOOL = Path(__file__).parent / "mutations" / "mutate.py"
PACKAGE = """
def one():
    return 1


class Two:
    @property
    def one(self):
        def inner():
            return 1
        return inner()
"""


@pytest.fixture
def tool(monkeypatch):
    """The module of the tool."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import mutate

    return mutate


@pytest.fixture
def root(tmp_path):
    """A package to break."""
    (tmp_path / "fleetmetrics").mkdir()
    (tmp_path / "fleetmetrics" / "numbers.py").write_text(PACKAGE)
    return tmp_path


@pytest.mark.parametrize("where, line", [("::one", 3), ("::Two.one", 10), ("::Two.one.inner", 10)])
def test_text_is_found_in_the_function_that_is_named_though_another_has_it_too(tool, root, where, line):
    place = tool.place_of(tool.Mutation("", f"numbers.py{where}", "return 1", "", ""), root)
    assert PACKAGE[place.start : place.end] == "return 1" and PACKAGE[: place.start].count("\n") + 1 == line


@pytest.mark.parametrize("where", ["numbers.py", "numbers.py::Two.two", "arrays.py", "numbers.py::one::two"])
def test_text_that_has_moved_is_named(tool, root, where):
    with pytest.raises(LookupError):
        tool.place_of(tool.Mutation("", where, "return 1", "", ""), root)


def test_a_fault_whose_text_has_moved_fails_the_run_and_stops_no_other(tmp_path):
    for each in TOOL.parent.glob("*.py"):
        (tmp_path / each.name).write_text(each.read_text())
    with open(tmp_path / "mutations.py", "a") as file:
        file.write("MUTATIONS[:] = [Mutation('lost', 'numbers.py::combine', 'no such text', '', 'tests')]")
    found = subprocess.run([sys.executable, str(tmp_path / "mutate.py"), "--moved"], stdout=subprocess.PIPE, text=True)
    assert found.returncode == 1 and found.stdout.startswith("MOVED       lost") and "1 of 1 have moved" in found.stdout


def test_what_is_of_paddle_2_alone_is_tried_with_paddle_2(tool):
    assert tool.python_of(tool.Mutation("", "", "", "", "")) == sys.executable
    assert tool.python_of(tool.Mutation("", "", "", "", "", paddle=2)) == str(tool.ROOT / ".venv" / "bin" / "python")
    threads = [each for each in tool.MUTATIONS if each.where.startswith("static/threads.py")]
    assert threads and all(each.paddle == 2 for each in threads)


def test_the_pages_have_the_right_number_of_faults(tool):
    assert len(tool.MUTATIONS) == len({each.fault for each in tool.MUTATIONS}) > 200
