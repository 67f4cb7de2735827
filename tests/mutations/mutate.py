"""Break the package on purpose, one fault at a time, and see whether the tests fail.

Run it by `make faults`. It works on copies in a temporary directory: the working tree stays as it is. With words as
arguments, only faults that have one of them in their description are tried. A fault whose text is no longer where the
list says is reported as MOVED: the others are tried, and the run fails at its end.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ("fleetmetrics", "tests", "examples", "pyproject.toml")
#: A test that a fault makes hang has found it: seconds beyond three times what the tests take without it.
SECONDS = 60
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Copy(NamedTuple):
    """A copy of the repository.

    Args:
        directory: where it is.
    """

    directory: Path

    def pytest(self, python: str, arguments: list[str], timeout: float | None = None) -> tuple[int, str]:
        """Run tests there; return pytest's status (-1 if they took too long), and its last lines."""
        command = [python, "-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self.directory)}
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return -1, ""
        return process.returncode, output


class Place(NamedTuple):
    """Where a mutation's text is: its first character and the one after its last, in a file below the root."""

    file: Path
    start: int
    end: int


def place_of(mutation: Mutation, root: Path = ROOT) -> Place:
    """Find a mutation's text; LookupError unless it is in the named function exactly once."""
    name, _, function = mutation.where.partition("::")
    file = Path("fleetmetrics", name)
    if not (root / file).is_file():
        raise LookupError(f"there is no file {file}")
    whole = (root / file).read_text(encoding="utf-8")
    first, last = _extent(whole, function.split(".")) if function else (0, len(whole))
    number = whole.count(mutation.text, first, last)
    if number != 1:
        raise LookupError(f"{mutation.where} has the text {number} times: {mutation.text!r}")
    start = whole.index(mutation.text, first, last)
    return Place(file, start, start + len(mutation.text))


def _extent(whole: str, names: list[str]) -> tuple[int, int]:
    """The first and the last character of a function or a class, with its decorators."""
    node: ast.AST = ast.parse(whole)
    for name in names:
        found = [each for each in ast.walk(node) if isinstance(each, _NAMED) and each.name == name and each is not node]
        if not found:
            raise LookupError(f"there is no {'.'.join(names)}")
        node = found[0]
    assert isinstance(node, _NAMED) and node.end_lineno is not None
    lines = whole.splitlines(keepends=True)
    first = min([node.lineno, *[each.lineno for each in node.decorator_list]])
    return sum(map(len, lines[: first - 1])), sum(map(len, lines[: node.end_lineno]))


def python_of(mutation: Mutation) -> str:
    """The Python that runs a mutation's tests: this one, except for code of Paddle 2 alone."""
    return sys.executable if mutation.paddle == 3 else str(ROOT / ".venv" / "bin" / "python")


_times = iter(range(10**9, 2 * 10**9, 60))


def write(path: Path, text: str) -> None:
    """Write a module with a time of its own: bytecode of what stood there before is not taken for it."""
    path.write_text(text, encoding="utf-8")
    moment = next(_times)
    os.utime(path, (moment, moment))


def tried(mutation: Mutation, place: Place, copies: queue.Queue[Copy]) -> tuple[str, float]:
    """Run a mutation's tests in a copy without and with it; return the outcome, and the seconds."""
    copy = copies.get()
    path, start, tests = copy.directory / place.file, time.monotonic(), shlex.split(mutation.tests)
    python = python_of(mutation)
    whole = path.read_text(encoding="utf-8")
    try:
        status, output = copy.pytest(python, tests)
        if status != 0:  # a test that always fails finds nothing
            return f"ERROR: without it, pytest {mutation.tests} ended with {status}\n{output[-1500:]}", 0.0
        write(path, whole[: place.start] + mutation.replacement + whole[place.end :])
        status, output = copy.pytest(python, tests, SECONDS + 3 * (time.monotonic() - start))
    finally:
        write(path, whole)
        copies.put(copy)
    verdict = {1: "caught", -1: "caught: the tests hang", 0: "NOT CAUGHT"}.get(status)
    return verdict or f"ERROR: pytest ended with {status}\n{output[-1500:]}", time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="try only faults that have one of these in their description")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--moved", action="store_true", help="only say which faults quote text that has moved")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if not arguments.words or any(word in m.fault for word in arguments.words)]
    places = {}
    for mutation in chosen:
        try:
            places[mutation] = place_of(mutation)
        except LookupError as error:
            print(f"MOVED       {mutation.fault}: {error}", flush=True)
    if arguments.moved:
        print(f"{len(chosen) - len(places)} of {len(chosen)} have moved")
        return int(len(places) < len(chosen))
    caught = 0
    with tempfile.TemporaryDirectory(prefix="fleetmetrics-mutations-") as directory:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(arguments.jobs):
            copy = Copy(Path(directory, str(number)))
            copy.directory.mkdir()
            for name in COPIED:
                source, target = ROOT / name, copy.directory / name
                ignored = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(source, target, ignore=ignored) if source.is_dir() else shutil.copy2(source, target)
            copies.put(copy)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            trials = {pool.submit(tried, mutation, places[mutation], copies): mutation for mutation in places}
            for trial in concurrent.futures.as_completed(trials):
                (verdict, seconds), mutation = trial.result(), trials[trial]
                caught += verdict.startswith("caught")
                print(f"{verdict:11} {seconds:4.0f} s  {mutation.fault}  ({mutation.where})", flush=True)
    print(f"{caught} of {len(chosen)} caught, {len(chosen) - len(places)} moved")
    return int(caught < len(chosen))


if __name__ == "__main__":
    raise SystemExit(main())
