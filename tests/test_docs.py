"""The Python blocks of the READMEs and of the documentation run, and print what their comments say.

And the pages on the metrics have all of them, as they are.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import functools
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from docs.scripts.blocks import BLOCK, PRINTED, place, programs, runs, what_differs
from tests.contract import CASES
from tests.cover import quick_on
from tests.distributed.cluster import AT_ONCE, SLACK
from tests.nursery import Nursery, common, is_here
from tests.pages import DOCS, both

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]


def paddle_version() -> str:
    for name in ("paddlepaddle", "paddlepaddle-gpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            pass
    return ""


def _same(code: str) -> tuple[str, ...]:
    """What two programs have in common that differ in comments only."""
    return ast.dump(ast.parse(code)), *PRINTED.findall(code)


def cases() -> list[Any]:
    """The programs of all pages; one that two pages have, except for comments, runs once.

    One without Paddle runs on one version of it, and for `make test` so does one that both versions have.
    """
    paddle = paddle_version()
    pages: dict[Any, list[str]] = {}
    codes: dict[Any, str] = {}
    for page in PAGES if paddle else []:
        for number, code in enumerate(programs(page, paddle), 1):
            same = _same(code)
            codes.setdefault(same, code)
            pages.setdefault(same, []).append(f"{page.relative_to(ROOT)}-{number}")
    other = "2.6.2" if paddle.startswith("3") else "3.3.1"
    of_both = {_same(code) for page in PAGES for code in programs(page, other)} if paddle else set()

    def marks(same: Any, code: str) -> list[pytest.MarkDecorator]:
        if "paddle" not in code:
            return [pytest.mark.numpy_only]
        return [quick_on(2 + zlib.crc32(repr(same).encode()) % 2)] if same in of_both else []

    return [pytest.param(code, id=" ".join(pages[same]), marks=marks(same, code)) for same, code in codes.items()]


@pytest.fixture(scope="module")
def nurseries() -> Iterator[dict[bool, Nursery]]:
    """Processes that have imported what the programs need: with Paddle, and without."""
    most = [f"fleetmetrics.{name}" for name in ("metrics", "wrappers", "base.collection", "comm", "evaluation")]
    others = ("pandas", "pyarrow.dataset", "pyarrow.parquet", "matplotlib.pyplot", "sklearn.metrics", "jinja2")
    with Nursery("numpy", *filter(is_here, others), *most) as plain:
        yield {False: plain, True: common()}


@pytest.mark.parametrize("code", cases())
def test_a_program_of_the_docs_prints_what_it_says(code: str, nurseries: dict[bool, Nursery], tmp_path: Path) -> None:
    done = nurseries["paddle" in code].run(code, tmp_path)
    assert done.status == 0, f"{place(code.splitlines()[0], PAGES)}: {done.err[-3000:]}"
    assert done.out.splitlines() == PRINTED.findall(code), what_differs(code, done.out.splitlines(), PAGES)


def test_a_program_that_prints_something_else_is_named_by_file_and_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "import os\nprint(1)  # 1\nprint(2)  # 3\n"
    page.write_text(f"# A page\n\n```python\n{code}```\n")
    said = what_differs(code, ["1", "2"], [page])
    assert said.startswith("page.md:6: prints '2', and the page says '3'.") and "make test-cpu" in said
    assert what_differs(code, ["1"], [page]).startswith("page.md:6: prints nothing")


# -- the pages on what can go wrong ----------------------------------------------------------------------

GUIDES = [page for pages in zip(both("explanation/faults"), both("explanation/security")) for page in pages]
QUOTED = re.compile(r"^<!-- (?P<case>\w+) -->\n```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SEEN = re.compile(r"rank \d, after (?P<seconds>[\d.]+) s: (?:(?P<kind>\w+): )?(?P<text>.*)")


def spoken(text: str) -> str:
    """An error's text without line breaks, and without what differs from run to run."""
    text = re.sub(r"\d+ (file descriptors|are open)|(process|child|-Hn) \d+", r"\1\2", " ".join(text.split()))
    text = re.sub(r"process, \d+|(127\.0\.0\.1):\d+", r"\1", text)
    return text.replace(tempfile.gettempdir(), "/tmp")


@pytest.mark.numpy_only
@pytest.mark.thorough
def test_the_workers_see_every_fault_as_the_guide_describes_it() -> None:
    script = [sys.executable, str(ROOT / "docs" / "scripts" / "channel_errors.py")]
    printed = subprocess.run(script, stdout=subprocess.PIPE, text=True, timeout=250, check=True).stdout
    seen: dict[str, list[Any]] = {}
    for part in printed.split("-- ")[1:]:
        name, *lines = part.splitlines()
        seen[name] = [SEEN.fullmatch(line) for line in lines]
        waits = name in ("never_comes", "late", "stopped", "no_descriptors", "ports_taken", "hanging_util")
        waits |= name == "dead_name_server"  # of an unknown name, rank 0 says so at once
        assert all(float(each["seconds"]) < (3 + SLACK if waits else AT_ONCE) for each in seen[name][:1]), part
        assert all(hasattr(fm, each["kind"]) for each in seen[name] if each["kind"] and name != "in_compute_metric"), (
            part
        )
        assert "accumulated is lost" not in part
    quoted = [
        (each["case"], spoken(each["text"])) for page in GUIDES for each in QUOTED.finditer(page.read_text("utf-8"))
    ]
    assert len(quoted) > 15
    for name, text in quoted:
        assert text in [spoken(each["text"]) for each in seen[name]]
    same = ("late", "stopped", "different_metrics", "different_shapes", "different_secrets", "bad_input", "overflow")
    same += ("different_settings", "other_util")
    same += ("malformed", "no_group", "no_communicator", "no_array_form", "hanging_util", "no_number", "silent_address")
    for name in (*same, "in_compute_metric", "local_util", "server", "no_endpoints", "no_trainers_num", "mpi"):
        assert seen[name][1]["text"] == "the same", name
    kinds = {name: [each["kind"] or each["text"] for each in both] for name, both in seen.items()}
    assert kinds["interrupted"] == ["KeyboardInterrupt", "CommunicatorError"]
    assert kinds["exits"] == ["SystemExit", "CommunicatorError"]
    assert kinds["no_descriptors"] == ["NoChannelError", "DeadlineError"]
    assert kinds["ports_taken"] == ["NoChannelError", "DeadlineError"]
    assert kinds["dead_name_server"] == ["DeadlineError"] * 2 and kinds["hanging_util"][0] == "DeadlineError"
    assert "did not connect" in seen["ports_taken"][1]["text"]
    assert all("rank-0.example" in each["text"] for each in seen["dead_name_server"])
    assert kinds["unknown_name"] == ["NoChannelError", "DeadlineError"]
    assert "(the name 'rank-0.example' is not known, Name or service" in seen["unknown_name"][1]["text"]
    assert kinds["silent_address"][0] == "no error"
    assert kinds["unsafe_folders"] == ["AuthenticationError"] * 2
    for name in ("malformed", "no_group", "no_communicator"):
        assert kinds[name][0] == "InvalidInputError"
    assert seen["malformed"][0]["text"].startswith("on rank 1: the environment variable FLEETMETRICS_TIMEOUT is 'soon'")
    assert (kinds["no_array_form"][0], kinds["no_number"][0]) == ("RecordError", "NoChannelError")
    assert kinds["in_compute_metric"][0] == "ZeroDivisionError"
    assert kinds["different_secrets"][0] == "AuthenticationError"


@pytest.mark.numpy_only
def test_every_test_and_figure_that_these_pages_name_is_there() -> None:
    from fleetmetrics.comm import door, handshake

    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tests = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    told = (DOCS / "project" / "evidence.md").read_text("utf-8")
    assert not set(re.findall(r"`(test_\w+)`", told)) - tests
    shown = dict(re.findall(r"^\| (.*) \| (`test_\w+`(?:, `test_\w+`)*) \|$", told, re.MULTILINE))
    row = re.compile(r"^\| (?!---|fault |what |故障|内容)(.*?) \| .*", re.MULTILINE)
    for english, chinese in zip(GUIDES[:2], GUIDES[2:]):
        texts = [page.read_text("utf-8") for page in (english, chinese)]
        assert "`test_" not in "".join(texts), "name tests in docs/project/evidence.md"
        faults = row.findall(texts[0])
        assert not [each for each in faults if each not in shown], "give it a row in docs/project/evidence.md"
        assert len(row.findall(texts[1])) == len(faults) > 6
        names = [set(re.findall(r"`(FLEETMETRICS_\w+)`", text)) for text in texts]
        assert names[0] == names[1]
        assert f"{door.REFUSAL_SECONDS:g} s" in GUIDES[0].read_text("utf-8")
    for figure in (f"after {handshake.GUEST_SECONDS:g} s", f"more than {door._GUESTS} "):
        assert figure in GUIDES[1].read_text("utf-8")


# -- the pages on the metrics ----------------------------------------------------------------------------


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))


@pytest.mark.usefixtures("scripts")
def test_every_metric_is_on_its_page_and_in_the_reference() -> None:
    from _catalogue import DOCS, between, catalogue
    from catalogue import references

    for page, kinds in catalogue().items():
        text = (DOCS / "metrics" / f"{page}.md").read_text(encoding="utf-8")
        reference = (DOCS / "reference" / "metrics" / f"{page}.md").read_text(encoding="utf-8")
        unnamed = [kind.__name__ for kind in kinds if not re.search(rf"\b{kind.__name__}\b", text)]
        assert not unnamed, f"write a paragraph on {unnamed} into docs/metrics/{page}.md, and into {page}.zh.md"
        assert kinds and between(reference, "entries") == references(kinds), "run `make names`"
    formulas = (DOCS / "reference" / "formulas.md").read_text(encoding="utf-8")
    assert len(fm.formulas.__all__) > 50
    unlisted = [name for name in fm.formulas.__all__ if not re.search(rf"^ +- {name}$", formulas, re.MULTILINE)]
    assert not unlisted, f"write {unlisted} below its module in docs/reference/formulas.md, as `        - name`"


@pytest.mark.numpy_only
@pytest.mark.usefixtures("scripts")
def test_make_names_says_what_a_new_metric_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    import catalogue

    monkeypatch.setattr(catalogue, "entries", dict)
    told = r"error: fleetmetrics/words lacks \[AUC\]: write its range.* into en.ini, .* then run `make names`"
    with pytest.raises(SystemExit, match=told):
        catalogue.main()


@pytest.mark.numpy_only
def test_the_new_metric_of_the_guide_for_contributors_is_one_of_the_repository() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (diff,) = re.findall(r"^```diff\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    files = re.findall(r"^\+{3} (.*)\n((?:\+(?!\+\+ ).*\n)+)", diff, re.MULTILINE)
    assert len(files) >= 6
    for name, added in files:
        rest = (ROOT / name).read_text("utf-8").splitlines()
        for line in added.splitlines():
            assert line[1:] in rest, f"CONTRIBUTING.md shows a line that {name} does not have there: {line[1:]}"
            rest = rest[rest.index(line[1:]) + 1 :]


@pytest.mark.numpy_only
@pytest.mark.usefixtures("scripts")
def test_the_tables_of_all_metrics_match_their_docstrings() -> None:
    import catalogue
    from _catalogue import DOCS, between

    for name, rows in (("all.md", catalogue.rows()), ("all.zh.md", catalogue.chinese_rows())):
        written = between((DOCS / "metrics" / name).read_text(encoding="utf-8"), "catalogue")
        assert written == rows, f"docs/metrics/{name}: run `make names`"


@pytest.mark.numpy_only
@pytest.mark.usefixtures("scripts")
def test_the_table_of_modes_has_what_does_not_run_everywhere_and_agrees_with_what_the_cases_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import modes
    from _catalogue import between, catalogue

    table = modes.known(modes.PAGE.read_text(encoding="utf-8"))
    names = [kind.__name__ for kinds in catalogue().values() for kind in kinds if issubclass(kind, fm.Metric)]
    assert not {*names} ^ {*table}, f"run `make modes`: the page differs in { ({*names} ^ {*table}) }"
    monkeypatch.setattr(modes, "columns_here", dict)  # run nothing
    written = modes.content(table, again=False)
    assert between(modes.PAGE.read_text(encoding="utf-8"), "modes") == written, "run `make modes`"
    claims: dict[str, list[tuple[str, ...]]] = {"Throughput": [("numpy", "dynamic")]}  # which has no case
    for case in CASES.values():
        claims.setdefault(type(case.make()).__name__, []).append(case.modes)
    assert not set(names) - set(claims), f"write a case of {set(names) - set(claims)} into tests/cases"
    for kind in names:
        assert tuple(table[kind]) == modes.COLUMNS
        for column, cell in table[kind].items():
            mode = {"NumPy": "numpy", "PIR": "static"}.get(column.split(",")[0], column.split(",")[0])
            said, claimed = set(cell.split(" or ")), {mode in claim for claim in claims[kind]}
            assert said <= {modes.YES, modes.FETCH, modes.MEASURE}, (kind, column, "run `make modes`")
            runs, is_refused = modes.YES in said, bool(said - {modes.YES})
            told = f"{kind}, {column}: the table says {cell!r}, and the case {claims[kind]}; run `make modes`"
            assert (runs, is_refused) == (True in claimed, False in claimed), told


@pytest.mark.numpy_only
@pytest.mark.usefixtures("scripts")
def test_the_references_of_commands_and_of_the_environment_match_the_code() -> None:
    import commands
    from _catalogue import DOCS, between

    page = (DOCS / "reference" / "command_line.md").read_text(encoding="utf-8")
    assert between(page, "commands") == commands.commands(), "run `make names`"
    for option in ("`--fail-if", "`--always-valid ROWS", "`--join-on COLUMN", "<code>--lang en&#124;zh</code>"):
        assert option in page
    assert "\\|" not in page and "one per stream, separated by commas (required) |" in page
    assert "replicates for metrics whose interval has no formula | `1000` |" in page and "130 after Ctrl-C" in page
    assert not re.findall(r"^\| [`<].*[`>] \|  \|", page, re.MULTILINE), (
        "an option has no help; write one into its parser"
    )
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    assert between(page, "settings") == commands.settings(), "run `make names`"
    assert between(page, "launchers") == commands.launchers(), "run `make names`"


@pytest.mark.numpy_only
def test_every_variable_that_the_package_reads_is_in_the_reference_of_the_environment() -> None:

    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "fleetmetrics").rglob("*.py"))
    names = set(re.findall(r"[\"'](FLEETMETRICS_[A-Z]+|PADDLE_[A-Z_]+|TRAINING_ROLE|POD_NAME)[\"']", sources))
    assert len(names) > 15
    assert not [name for name in sorted(names) if f"`{name}`" not in page], "say it in support/environment.py"


# -- names where a program keeps them --------------------------------------------------------------------

#: What makes a program one that keeps names of states, or of metrics in logs.
KEEPS = re.compile(r"enable_static|static\.data\(|paddle\.Model\(|program_guard|ModelMetric|LogWriter|SummaryWriter")


def unnamed(code: str) -> list[str]:
    """The metrics of a program that are not within another one, and are made without a name."""
    from fleetmetrics.words.catalogue import entries

    tree = ast.parse(code)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    static = [call.lineno for call in calls if ast.unparse(call) == "paddle.enable_static()"]
    calls = [call for call in calls if not static or call.lineno > static[0]]  # what is before it keeps no names
    made = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in {*entries(), *own_metrics()}]
    made += [call for call in calls if ast.unparse(call.func).endswith(".fresh") and not call.args]
    within = {inner for call in made for inner in ast.walk(call) if inner is not call}
    within |= {
        inner for node in ast.walk(tree) if isinstance(node, ast.Dict) for inner in ast.walk(node)
    }  # named by key
    named = ("name", "prefix")
    return [
        f"line {call.lineno}: {ast.unparse(call)}"
        for call in made
        if call not in within and not any(each.arg in named for each in call.keywords)
    ]


@functools.lru_cache(maxsize=None)
def own_metrics() -> set[str]:
    """The classes of metrics that the pages define."""
    defined = re.compile(r"^class (\w+)\((?:\w+\.)?Metric\b", re.MULTILINE)
    return {name for page in PAGES for name in defined.findall(page.read_text("utf-8"))}


def patched(page: Path) -> Iterator[str]:
    """The lines that the page's patches of programs leave, each that is whole."""
    for block in re.findall(r"^```(?:bash|diff)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^[+ ] *(.*\S)", block, re.MULTILINE) if "\n+++ " in block else ():
            with contextlib.suppress(SyntaxError):
                ast.parse(line)
                yield line


def sources() -> list[tuple[str, str]]:
    """The programs of the pages, the examples of docstrings, and the scripts, each with its place."""
    found = [(str(page.relative_to(ROOT)), code) for page in PAGES for code in all_programs(page)]
    finder = doctest.DocTestParser()
    for path in [*sorted((ROOT / "fleetmetrics").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]:
        text, place = path.read_text("utf-8"), str(path.relative_to(ROOT))
        if path.parts[len(ROOT.parts)] == "examples":
            found.append((place, text))
            continue
        if not KEEPS.search(text):
            continue
        docs = [ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
        found += [(place, "".join(each.source for each in finder.get_examples(doc))) for doc in docs if doc]
    return found


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def all_programs(page: Path) -> list[str]:
    """Those of every version of Paddle."""
    text = page.read_text("utf-8")
    code = "".join(f"{block['code']}" if runs(block["mark"] or "", "2.0") else "" for block in BLOCK.finditer(text))
    more = "".join(f"{block['code']}" if runs(block["mark"] or "", "3.0") else "" for block in BLOCK.finditer(text))
    starts = re.compile(r"^(?=(?:import numpy|import paddle|import fleetmetrics|from fleetmetrics)\b)", re.MULTILINE)
    return [*starts.split(code), *starts.split(more)] if KEEPS.search(code + more) else []


@pytest.mark.numpy_only
def test_metrics_of_examples_have_names_where_a_program_keeps_them() -> None:
    found = [f"{place}, {line}" for place, code in sources() if KEEPS.search(code) for line in unnamed(code)]
    found += [f"{page.relative_to(ROOT)}, {line}" for page in PAGES for code in patched(page) for line in unnamed(code)]
    assert not found, "give them name=: " + "; ".join(found)
    assert unnamed("auc = fm.AUC()") and not unnamed("m = MetricCollection({'auc': AUC()}, name='m')")
    assert unnamed("own = MissedClicks(threshold=0.6)") and unnamed("held_out = counts.fresh()")
    assert not unnamed("auc = fm.AUC()\npaddle.enable_static()") and unnamed("paddle.enable_static()\nauc = fm.AUC()")


@pytest.mark.numpy_only
@pytest.mark.thorough
def test_the_table_on_the_first_screens_is_that_of_the_comparison() -> None:
    """`make compare` prints it; examples/comparison/README.md has all of what it prints."""
    whole = (ROOT / "examples" / "comparison" / "README.md").read_text("utf-8")
    for name in ("README.md", "README.zh-CN.md", "docs/index.md", "docs/index.zh.md"):
        table = re.search(r"```text\n(\$ fleetrun .*?)```", (ROOT / name).read_text("utf-8"), re.DOTALL)
        assert table and table[1] in whole, name


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_change_on_the_first_screen_is_the_one_that_migrate_makes(name: str) -> None:
    from fleetmetrics.migrate import migrated

    (diff,) = re.findall(r"^```diff\n(.*?)^```$", (ROOT / name).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    programs = [part.splitlines() for part in diff.split("\n\n")]
    assert len(programs) == 2
    for lines in programs:
        before, after = ["".join(f"{line[1:]}\n" for line in lines if line[0] != sign) for sign in "+-"]
        assert migrated(before) == (after, []) and re.search(r"fleet\.metrics\.|import metrics", before)


@pytest.mark.numpy_only
def test_a_text_leads_to_every_page_and_each_guide_to_its_reference() -> None:
    pages = {page for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md")}
    pages -= {DOCS / "project" / f"{name}.md" for name in ("design", "evidence")}  # not of the site
    link = re.compile(r"\]\(([^)#\s]+\.md)[^)]*\)")
    links = {page: {(page.parent / path).resolve() for path in link.findall(page.read_text("utf-8"))} for page in pages}
    reached = {there for page, found in links.items() for there in found - {page}}
    assert not pages - reached - {DOCS / "index.md"}, "link them where they help"
    guides = [page for page in pages if page.parent.name == "howto"]
    assert guides and not [page for page in guides if not any("reference" in each.parts for each in links[page])]
