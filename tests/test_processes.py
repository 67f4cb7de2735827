"""`pytest --processes`: every test is reported once, also one that ends its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.numpy_only
ROOT = Path(__file__).resolve().parent.parent
#: Without Paddle it takes half a second.
PROGRAM = "import sys; sys.modules['paddle'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
TESTS = """
import os, threading, warnings
import pytest

def test_passes(tmp_path): (tmp_path / "file").write_text(""); warnings.warn("a warning", stacklevel=1)
def test_fails(): print("the output"); assert os.getpid() < 0
def test_ends_its_process(): os._exit(3)
def test_comes_after(): pass
def test_skips(): pytest.skip("a reason")
@pytest.fixture
def broken(): yield; raise ValueError("in the end")
def test_breaks_in_the_end(broken): pass
"""


def printed_of(folder: Path, *options: str) -> str:
    """What pytest prints that runs the tests of a folder in processes."""
    command = [sys.executable, "-c", PROGRAM, "-p", "tests.processes", "--processes", "2", f"--rootdir={folder}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    ).stdout


def test_each_test_is_reported_once_and_one_that_ends_its_process_has_failed(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(TESTS)
    printed = printed_of(tmp_path, "-q", "-rA")
    assert "4 failed, 6 passed, 2 skipped, 2 warnings, 2 errors" in printed, printed
    for name in ("test_one.py", "test_two.py"):
        assert f"FAILED {name}::test_ends_its_process - the process ended with status 3" in printed
        assert f"ERROR {name}::test_breaks_in_the_end - ValueError: in the end" in printed
        assert f"PASSED {name}::test_comes_after" in printed
    assert printed.count("UserWarning: a warning") == 2 and printed.count("the output\n") == 2


def test_a_module_that_starts_threads_is_an_error_before_anything_is_forked(tmp_path: Path) -> None:
    thread = "threading.Thread(target=threading.Event().wait, name='busy', daemon=True).start()"
    (tmp_path / "test_it.py").write_text(TESTS + thread)
    assert "a module of tests has started threads, which no fork would have: busy" in printed_of(tmp_path)
