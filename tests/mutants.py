"""Change one module at a time in a copy of the repository, by mutmut, and print which changes the tests catch.

    make mutations MODULE=fleetmetrics/formulas/auc.py                    # as many mutants as SAMPLE, by its own tests
    make mutations MODULE=fleetmetrics/formulas/auc.py TESTS="tests/formulas tests/metrics/test_auc.py"
    make mutations SINCE=main                                             # the lines that changed since a commit

mutmut (https://mutmut.readthedocs.io) makes the mutants: it writes all mutants of a function beside it, asks the tests
once which functions they call, and forks a process for each mutant that runs the tests of its function alone.

A mutant is caught if a test fails, or takes far longer than without it. The rest are survivors, with file, line and
difference: each of them is a promise without a test, or changes nothing that anyone sees.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "fleetmetrics"
#: Folders of tests that start processes, which mutmut cannot watch, or that take minutes.
ELSEWHERE = ("distributed", "engines", "examples", "fuzz", "typing")
HEADER = "[tool.mutmut]\n"
PYTEST = ("-p", "no:cacheprovider")
#: What a test process exits with when the mutant is caught: a failure, a crash, or too much time.
CAUGHT = frozenset([1, 3, 24, 36, 152, 255, -9, -11, -24])
#: The status that mutmut writes for a mutant in a function that no test calls.
NOT_CALLED = 33
OVERWRITTEN = "tests/evaluation/test_nothing_lost.py -k not_overwrite_its"
BROKEN_FILES = "tests/files/test_formats.py -k broken_in_the_middle"
HEAD = "| module | mutants | tried | caught | share | not called |\n| --- | --- | --- | --- | --- | --- |\n"


class Fault(NamedTuple):
    """A fault by hand, where mutmut changes nothing: outside functions, in ``__new__``, in a bare ``yield``.

    Args:
        text: a text that the module has once.
        replacement: what would be wrong there.
        tests: arguments of pytest: the tests that fail then.
    """

    text: str
    replacement: str
    tests: str


BY_HAND = {
    "fleetmetrics/comm/channel.py": [
        Fault("_TRIES = range(20)", "_TRIES = range(1)", "tests/comm/test_interruptions.py -k keeps_it_from_no_worker"),
    ],
    "fleetmetrics/comm/folds.py": [
        Fault('    "shuffle": shuffle,\n', "", "tests/comm/test_folds.py -k by_name"),
    ],
    "fleetmetrics/evaluation/output/conditions.py": [
        Fault(r"([^\s<>=!]+)\s*", r"(\S+)\s*", "tests/evaluation/output/test_conditions.py -k may_hold"),
    ],
    "fleetmetrics/evaluation/result.py": [
        Fault(
            "yield from (source.path for",
            "yield from (None for",
            OVERWRITTEN,
        ),
    ],
    "fleetmetrics/files/dialect.py": [
        Fault(r'",\t;|\1"', r'",\t;\1"', "tests/files/test_lines.py -k between_values"),
    ],
    "fleetmetrics/files/formats.py": [
        Fault("zipfile.BadZipFile, zlib.error, ", "zipfile.BadZipFile, ", BROKEN_FILES),
        Fault(", lzma.LZMAError)", ")", BROKEN_FILES),
    ],
    "fleetmetrics/formulas/slices.py": [
        Fault("LEAST = 5\n", "LEAST = 1\n", "tests/formulas/test_slices.py -k 'number_of_positives or how_much'"),
    ],
    "fleetmetrics/metrics/regression/differences.py": [
        Fault(
            "class OfNumbers(WithoutColumns[Value], ",
            "class OfNumbers(",
            "tests/support/test_typed.py -k columns_of_its",
        ),
    ],
    "fleetmetrics/samplers/iterated.py": [
        Fault("        yield\n", "        yield stack.pop_all()\n", "tests/samplers/test_sampler.py -k random"),
    ],
    "fleetmetrics/support/settings.py": [
        Fault(
            "_kept(settings)\n            except RecursionError:",
            "_kept(settings)\n            except KeyError:",
            "tests/base/test_user_metrics.py -k holds_itself",
        ),
    ],
    "fleetmetrics/support/vocabulary.py": [
        Fault("[AEFHILMNORSX](?![a-z])|", "", "tests/support/test_vocabulary.py"),
    ],
    "fleetmetrics/xp/numpy_ops.py": [
        Fault("_FACTORS = 16", "_FACTORS = 64", "tests/xp/test_namespaces.py -k logs"),
    ],
    "fleetmetrics/xp/paddle_values.py": [
        Fault("@functools.lru_cache(maxsize=64)\ndef _on_", "def _on_", "tests/test_device.py -k a_collection"),
    ],
}


class Mutant(NamedTuple):
    """A change of one function.

    Args:
        name: mutmut's name of it.
        line: the first line that it changes.
        diff: the lines before and after, with ``-`` and ``+``.
    """

    name: str
    line: int
    diff: tuple[str, ...]


class Outcome(NamedTuple):
    """The outcome of the tests of a module.

    Args:
        module: its path in the repository.
        total: the number of its mutants.
        status: how the tests of each mutant that was tried ended.
    """

    module: Path
    total: int
    status: dict[Mutant, int]

    @property
    def caught(self) -> int:
        return sum(status in CAUGHT for status in self.status.values())

    @property
    def not_called(self) -> int:
        return sum(status == NOT_CALLED for status in self.status.values())

    def row(self) -> str:
        """The row of a table: module, mutants, tried, caught, share, in functions that no test calls."""
        tried = len(self.status)
        share = f"{100 * self.caught / tried:.0f} %" if tried else ""
        return f"| `{self.module}` | {self.total:,} | {tried} | {self.caught} | {share} | {self.not_called} |"


# -- which tests belong to a module ------------------------------------------------------------------------------


def tests_of(module: Path, root: Path) -> list[str]:
    """Return the test files in the folder of a module's tests that mirror it or use it; else any that import it."""
    folder = root.joinpath("tests", *module.relative_to(PACKAGE).parent.parts)
    dotted = _dotted(module)
    name = dotted.rpartition(".")[2]
    imported = re.compile(
        rf"\b{re.escape(dotted)}\b|^from {re.escape(dotted.rpartition('.')[0])} import .*\b{name}\b", re.MULTILINE
    )
    public = _public_names(root / module) if folder != root / "tests" else []
    named = re.compile("|".join(rf"\b{re.escape(each)}\b" for each in public) or "(?!)")
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(root.glob("tests/**/test_*.py"))}
    near = {
        file
        for file, text in texts.items()
        if file.parent == folder
        and (re.fullmatch(rf"test_{name}(_.*)?", file.stem) or imported.search(text) or named.search(text))
    }
    far = {
        file
        for file, text in texts.items()
        if imported.search(text) and file.relative_to(root / "tests").parts[0] not in ELSEWHERE
    }
    chosen = sorted(near or far) or ([folder] if folder.is_dir() and folder != root / "tests" else [])
    return [str(file.relative_to(root)) for file in chosen]


def _dotted(module: Path) -> str:
    """The name by which a module is imported."""
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


def _public_names(file: Path) -> list[str]:
    """The names in a module's ``__all__``."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(statement.value)]
    return []


def changed_lines(commit: str) -> dict[Path, set[int]]:
    """Return the lines of the package's modules that differ from a commit, as they are now."""
    command = ["git", "diff", "--unified=0", "--no-color", commit, "--", f"{PACKAGE}/*.py"]
    lines: dict[Path, set[int]] = {}
    file = Path()
    for line in subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        if line.startswith("+++ b/"):
            file = Path(line[len("+++ b/") :])
        hunk = re.match(r"@@ .* \+(\d+)(?:,(\d+))? @@", line)
        if hunk:
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + count))
    return {file: numbers for file, numbers in lines.items() if numbers and (ROOT / file).is_file()}


# -- mutants -----------------------------------------------------------------------------------------------------


def undecorated(source: str) -> str:
    """Return a module in which ``f = decorator(f)`` follows a function, on the same lines: mutmut passes over others.

    What is defined twice, as a property with its setter, stays.
    """
    lines = source.splitlines()
    for body in _bodies(ast.parse(source)):
        functions = [node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        names = [function.name for function in functions]
        for function in functions:
            decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
            if not decorators or decorators in (["staticmethod"], ["classmethod"]) or names.count(function.name) > 1:
                continue
            after = function.end_lineno or 0
            if after < len(lines) and lines[after].strip():
                continue
            first = min(decorator.lineno for decorator in function.decorator_list)
            lines[first - 1 : function.lineno - 1] = [""] * (function.lineno - first)
            call = "".join(f"({decorator})(" for decorator in decorators) + function.name + ")" * len(decorators)
            lines[after : after + 1] = [" " * function.col_offset + f"{function.name} = {call}"]
    return "\n".join(lines) + "\n"


def _bodies(module: ast.Module) -> Iterable[list[ast.stmt]]:
    """The statements of a module, and of each of its classes."""
    yield module.body
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.body


def mutants_of(module: Path, source: str, copy: Path) -> list[Mutant]:
    """Return the mutants of a module that mutmut writes, in the order of its lines."""
    extend_mutmut()
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.file_utils import change_cwd

    with change_cwd(copy):  # mutmut reads its settings there
        mutated = mutate_file_contents(str(module), source)
    lines = mutated.code.splitlines()
    functions = {name: lines[span.start - 1 : span.end] for name, span in mutated.line_span_by_function_name.items()}
    return mutants_from(module, source, mutated.mutant_names, functions)


def mutants_from(
    module: Path, source: str, names: Sequence[str], functions: Mapping[str, Sequence[str]]
) -> list[Mutant]:
    """Return what each mutant changes, from the lines of the functions that mutmut wrote."""
    first_lines = _first_lines(source)
    dotted = _dotted(module)
    mutants = []
    for name in names:
        function = name.rpartition("__mutmut_")[0]
        before, after = (_from_signature(functions[each]) for each in (f"{function}__mutmut_orig", name))
        place, diff = _difference(before, after)
        mutants.append(Mutant(f"{dotted}.{name}", first_lines[function] + place, diff))
    return sorted(mutants, key=lambda mutant: mutant.line)


def _first_lines(source: str) -> dict[str, int]:
    """Where each function begins, by mutmut's name for it."""
    lines = {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines[f"x_{node.name}"] = node.lineno
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    lines[f"xǁ{node.name}ǁ{child.name}"] = child.lineno
    return lines


def _from_signature(lines: Sequence[str]) -> list[str]:
    """The lines of a function without its decorators, comments and name."""
    first = next(number for number, line in enumerate(lines) if re.match(r"\s*(async )?def ", line))
    return [re.sub(r"def \w+", "def _", lines[first], count=1), *lines[first + 1 :]]


def _difference(before: Sequence[str], after: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """The first line that differs, from 0, and the lines that do."""
    changes = [
        change
        for change in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if change[0] != "equal"
    ]
    diff: list[str] = []
    for _, start, end, new_start, new_end in changes:
        diff += [f"- {line.strip()}" for line in before[start:end]]
        diff += [f"+ {line.strip()}" for line in after[new_start:new_end]]
    return (changes[0][1] if changes else 0), tuple(diff)


@functools.lru_cache(maxsize=None)
def extend_mutmut() -> None:
    """Give mutmut, once, what it lacks: a statement goes, a condition is negated, nothing is returned or handled."""
    import libcst as cst
    from mutmut.mutation import mutators

    def statement_goes(node: Any) -> Iterable[cst.CSTNode]:
        if not isinstance(node, cst.Expr) or isinstance(node.value, cst.Call):
            yield cst.Pass()

    def negated(node: Any) -> Iterable[cst.CSTNode]:
        test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))

    def item_goes(node: Any) -> Iterable[cst.CSTNode]:
        for item in node.elements if len(node.elements) > 1 else ():
            yield node.with_changes(elements=[other for other in node.elements if other is not item])

    def returns_nothing(node: Any) -> Iterable[cst.CSTNode]:
        if node.value is not None and getattr(node.value, "value", "") != "None":
            yield node.with_changes(value=cst.Name("None"))

    def handles_nothing(node: Any) -> Iterable[cst.CSTNode]:
        if node.type is not None:
            yield node.with_changes(type=cst.Name("ZeroDivisionError"))

    mutators.mutation_operators += [
        *((kind, statement_goes) for kind in (cst.Expr, cst.Del, cst.Raise)),
        (cst.If, negated),
        (cst.Tuple, item_goes),
        (cst.Return, returns_nothing),
        (cst.ExceptHandler, handles_nothing),
    ]


def mutmut() -> None:
    """Run mutmut with them, as a process of its own in a copy."""
    extend_mutmut()
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # the tests are those of the directory that mutmut makes
    from mutmut.__main__ import cli

    cli()


# -- trying them -------------------------------------------------------------------------------------------------


def copy_of_tree(target: Path) -> None:
    """Copy what git tracks, and what it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def settings(module: Path, tests: Sequence[str], failing: Sequence[str], copy: Path) -> str:
    """The section of pyproject.toml that mutmut reads in the copy."""
    values = {
        "only_mutate": [str(module)],
        "also_copy": sorted({file.name for file in copy.iterdir()} - {PACKAGE, "mutants"}),
        "timeout_constant": 4.0,
        "timeout_multiplier": 4.0,
        "pytest_add_cli_args": [*PYTEST, *(f"--deselect={test}" for test in failing)],
        "pytest_add_cli_args_test_selection": list(tests),
    }
    return HEADER + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def tried(module: Path, tests: Sequence[str], wanted: set[int] | None, sample: int, jobs: int) -> Outcome:
    """Try a module's mutants, or a sample of those in the wanted lines, in a copy of the repository."""
    with tempfile.TemporaryDirectory(prefix="fleetmetrics-mutants-") as directory:
        copy = Path(directory)
        copy_of_tree(copy)
        whole = (copy / module).read_text(encoding="utf-8")
        by_hand = _by_hand(copy, module, whole, wanted)
        source = undecorated(whole)
        (copy / module).write_text(source, encoding="utf-8")
        mutants = mutants_of(module, source, copy)
        chosen = [mutant for mutant in mutants if wanted is None or mutant.line in wanted]
        if sample and len(chosen) > sample:
            chosen = sorted(random.Random(1).sample(chosen, sample), key=lambda mutant: mutant.line)
        status = _run(copy, module, tests, chosen, jobs) if chosen else {}
        outcome = {mutant: status[mutant.name] for mutant in chosen}
        if None in outcome.values():
            raise SystemExit(f"mutmut stopped before it had tried all mutants of {module}")
        return Outcome(module, len(mutants) + len(by_hand), {**outcome, **by_hand})


def _by_hand(copy: Path, module: Path, whole: str, wanted: set[int] | None) -> dict[Mutant, int]:
    """Try the faults by hand of a module."""
    status = {}
    for fault in BY_HAND.get(str(module), []):
        line = whole.count("\n", 0, whole.index(fault.text)) + 1
        if wanted is None or line in wanted:
            (copy / module).write_text(whole.replace(fault.text, fault.replacement), encoding="utf-8")
            command = [sys.executable, "-m", "pytest", *PYTEST, "-q", "-x", *shlex.split(fault.tests)]
            diff = (f"- {fault.text.strip()}", f"+ {fault.replacement.strip()}")
            status[Mutant("by hand", line, diff)] = _output(command, copy, {**os.environ, "PYTHONPATH": ""}).returncode
    return status


def _run(copy: Path, module: Path, tests: Sequence[str], chosen: Sequence[Mutant], jobs: int) -> dict[str, int]:
    """Let mutmut try mutants of a copy, without tests that fail already because a function is called through it."""
    environment = {**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from tests.mutants import mutmut; mutmut()", "run", "--max-children", str(jobs)]
    command += [mutant.name for mutant in chosen]
    project = (copy / "pyproject.toml").read_text(encoding="utf-8")
    failing: list[str] = []
    while True:
        (copy / "pyproject.toml").write_text(
            project.replace(HEADER, settings(module, tests, failing, copy)), encoding="utf-8"
        )
        run = _output(command, copy, environment)
        if not run.returncode:
            return json.loads((copy / "mutants" / f"{module}.meta").read_text(encoding="utf-8"))["exit_code_by_key"]
        clean = [sys.executable, "-m", "pytest", *PYTEST, "-q", "--tb=no", *tests]
        output = _output(clean, copy / "mutants", {**environment, "MUTANT_UNDER_TEST": ""}).stdout
        if failing or not (failing := re.findall(r"^FAILED (\S+)", output, re.MULTILINE)):
            raise SystemExit(f"mutmut ended with {run.returncode}:\n{run.stdout[-4000:]}\n{output[-4000:]}")
        print("".join(f"left out, for it sees that functions are wrapped: {test}\n" for test in failing), end="")


def _output(command: Sequence[str], directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", type=Path, help="files of the package")
    parser.add_argument("--since", help="only lines that differ from this commit")
    parser.add_argument("--tests", default="", help="arguments of pytest; else the tests that belong to the module")
    parser.add_argument("--sample", type=int, default=150, help="at most this number of mutants a module; 0: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    chosen = parser.parse_args(arguments)
    lost = [str(module) for module in chosen.modules if not (ROOT / module).is_file()]
    if lost or not (chosen.modules or chosen.since):
        parser.error(f"no such file: {', '.join(lost)}" if lost else "which? MODULE=fleetmetrics/... or SINCE=<commit>")
    lines = changed_lines(chosen.since) if chosen.since else {}
    outcomes = []
    for module in chosen.modules or sorted(lines):
        tests = shlex.split(chosen.tests) or tests_of(module, ROOT)
        if not tests:
            raise SystemExit(f"no test file mirrors or imports {module}: name them, TESTS=...")
        print(f"{module}: {' '.join(tests)}", flush=True)
        outcome = tried(module, tests, lines.get(module) if chosen.since else None, chosen.sample, chosen.jobs)
        outcomes.append(outcome)
        for mutant, status in outcome.status.items():
            if status not in CAUGHT:
                print(f"{module}:{mutant.line}: " + ("no test calls this" if status == NOT_CALLED else "survived"))
                print("".join(f"    {line}\n" for line in mutant.diff), end="", flush=True)
    print(HEAD + "\n".join(outcome.row() for outcome in outcomes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
