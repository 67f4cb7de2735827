"""What `make mutations` tries: the tests that belong to a module, the mutants of its lines, and how it counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import mutants

pytestmark = pytest.mark.numpy_only

MODULE = Path("fleetmetrics", "formulas", "shares.py")
SOURCE = '''
"""Shares."""

__all__ = ["share"]

import functools


@functools.lru_cache(
    maxsize=4,
)
def share(part, whole):
    """Divide."""
    return part / whole


class Table:
    rows = 0

    @property
    @functools.lru_cache
    def size(self):
        return self.rows + 1

    @property
    def width(self):
        return 1

    @width.setter
    def width(self, value):
        self.rows = value
'''


@pytest.fixture
def root(tmp_path):
    """A repository with a module and its tests."""
    texts = {
        MODULE: SOURCE,
        "fleetmetrics/formulas/bare.py": "",
        "fleetmetrics/deep/__init__.py": "",
        "tests/formulas/test_shares.py": "",
        "tests/formulas/test_shares_of_users.py": "",
        "tests/formulas/test_others.py": "import fleetmetrics",
        "tests/formulas/test_public.py": "formulas.share(1, 2)",
        "tests/test_elsewhere.py": "share",
        "tests/metrics/test_importer.py": "from fleetmetrics.formulas import ratio, shares\n",
        "tests/metrics/test_dotted.py": "from fleetmetrics.formulas.shares import share\n",
        "tests/distributed/test_shares.py": "from fleetmetrics.formulas.shares import share\n",
        "tests/deep/test_deep.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_tests_of_a_module_mirror_it_or_use_it_in_the_folder_of_its_tests(root):
    assert mutants.tests_of(MODULE, root) == [
        "tests/formulas/test_public.py",
        "tests/formulas/test_shares.py",
        "tests/formulas/test_shares_of_users.py",
    ]
    assert mutants.tests_of(Path("fleetmetrics/deep/__init__.py"), root) == ["tests/deep/test_deep.py"]


def test_a_module_without_such_a_test_gets_those_that_import_it_or_else_the_whole_folder(root):
    for file in root.glob("tests/formulas/*.py"):
        file.write_text("")
        file.rename(file.with_name(f"test_other_{file.name}"))
    assert mutants.tests_of(MODULE, root) == ["tests/metrics/test_dotted.py", "tests/metrics/test_importer.py"]
    assert mutants.tests_of(Path("fleetmetrics/formulas/bare.py"), root) == ["tests/formulas"]


def test_a_module_without_tests_asks_for_them(tmp_path, monkeypatch):
    (tmp_path / "fleetmetrics").mkdir()
    (tmp_path / "fleetmetrics" / "lonely.py").write_text("")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"no test file mirrors or imports fleetmetrics/lonely.py: .*TESTS="):
        mutants.main(["fleetmetrics/lonely.py"])


def test_decorators_move_below_their_functions_and_no_line_moves():
    source = mutants.undecorated(SOURCE)
    before, after = SOURCE.splitlines(), source.splitlines()
    assert len(before) == len(after) and before.index("def share(part, whole):") == after.index(
        "def share(part, whole):"
    )
    assert "share = (functools.lru_cache(maxsize=4))(share)" in after
    assert "    size = (property)((functools.lru_cache)(size))" in after
    assert "    @width.setter" in after and "@functools" not in source
    names: dict = {}
    exec(source, names)
    table = names["Table"]()
    table.width = 6
    assert table.size == 7 and names["share"](1, 2) == 0.5 and names["share"].cache_info().maxsize == 4


def test_a_mutant_has_the_line_that_it_changes_and_the_difference():
    functions = {
        "x_share__mutmut_orig": [
            "# above",
            "def x_share__mutmut_orig(part, whole):",
            '    """Divide."""',
            "    return part / whole",
        ],
        "x_share__mutmut_1": ["def x_share__mutmut_1(part, whole):", '    """Divide."""', "    return part * whole"],
        "xǁTableǁsize__mutmut_orig": ["    def xǁTableǁsize__mutmut_orig(self):", "        return self.rows + 1"],
        "xǁTableǁsize__mutmut_1": ["    def xǁTableǁsize__mutmut_1(self):", "        return self.rows - 1"],
    }
    table, share = "xǁTableǁsize__mutmut_1", "x_share__mutmut_1"
    lines = SOURCE.splitlines()
    assert mutants.mutants_from(MODULE, SOURCE, [table, share], functions) == [
        mutants.Mutant(
            f"fleetmetrics.formulas.shares.{share}",
            lines.index("    return part / whole") + 1,
            ("- return part / whole", "+ return part * whole"),
        ),
        mutants.Mutant(
            f"fleetmetrics.formulas.shares.{table}",
            lines.index("        return self.rows + 1") + 1,
            ("- return self.rows + 1", "+ return self.rows - 1"),
        ),
    ]


def outcome(*statuses, total=9):
    return mutants.Outcome(
        MODULE, total, {mutants.Mutant(f"x_{number}", number, ()): status for number, status in enumerate(statuses)}
    )


def test_a_failure_a_crash_and_too_much_time_are_caught_and_what_no_test_calls_is_not():
    row = "| `fleetmetrics/formulas/shares.py` | 9 | 6 | 4 | 67 % | 1 |"
    assert outcome(1, 0, -11, 36, -24, mutants.NOT_CALLED).row() == row
    assert outcome().row() == "| `fleetmetrics/formulas/shares.py` | 9 | 0 | 0 |  | 0 |"


@pytest.mark.parametrize("module", mutants.BY_HAND)
def test_the_text_of_a_fault_by_hand_stands_once_in_its_module(module):
    whole = (mutants.ROOT / module).read_text(encoding="utf-8")
    assert [whole.count(fault.text) for fault in mutants.BY_HAND[module]] == [1] * len(mutants.BY_HAND[module])


@pytest.mark.thorough
def test_faults_by_hand_are_tried_and_counted_in_the_lines_that_are_wanted(root, monkeypatch):
    (root / "tests/formulas/test_shares.py").write_text(
        "from pathlib import Path\n\ndef test_rows():\n"
        "    assert 'rows = 0' in Path('fleetmetrics/formulas/shares.py').read_text()\n"
    )
    seen = mutants.Fault("rows = 0", "rows = 1", "tests/formulas/test_shares.py")
    missed = mutants.Fault("return 1", "return 2", "tests/formulas/test_shares.py")
    monkeypatch.setattr(mutants, "BY_HAND", {str(MODULE): [seen, missed]})
    lines = [SOURCE[: SOURCE.index(fault.text)].count("\n") + 1 for fault in (seen, missed)]
    tried = mutants._by_hand(root, MODULE, SOURCE, None)
    assert {mutant.line: status for mutant, status in tried.items()} == dict(zip(lines, [1, 0]))
    assert [mutant.line for mutant in mutants._by_hand(root, MODULE, SOURCE, {lines[1]})] == lines[1:]


def test_changed_lines_are_those_of_the_package_as_they_are_now(root, monkeypatch):
    def git(*arguments):
        who = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
        subprocess.run(["git", *who, *arguments], cwd=root, check=True, stdout=subprocess.DEVNULL)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    text = SOURCE.replace("part / whole", "whole / part\n\n\ndef half():\n    return 2")
    (root / MODULE).write_text(text)
    (root / "tests/formulas/test_shares.py").write_text("# changed")
    (root / "fleetmetrics/formulas/bare.py").unlink()
    monkeypatch.setattr(mutants, "ROOT", root)
    first = text.splitlines().index("    return whole / part") + 1
    assert mutants.changed_lines("HEAD") == {MODULE: set(range(first, first + 5))}
