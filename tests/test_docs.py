"""The Python blocks of the READMEs and of the documentation run, and print what their comments say.

And the pages on the metrics have all of them, as they are.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from tests.contract import CASES
from tests.distributed.cluster import AT_ONCE, SLACK
from tests.nursery import Nursery

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


def paddle_version() -> str:
    for name in ("paddlepaddle", "paddlepaddle-gpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            pass
    return ""


def runs(mark: str, paddle: str) -> bool:
    """Whether a block runs on this Paddle, by the comment before it."""
    if mark.startswith("not run"):
        return False
    return not mark.startswith("paddle ") or paddle.startswith(mark.split()[1] + ".")


def programs(page: Path, paddle: str) -> list[str]:
    """A block that begins with an import starts a program, the others go on with it."""
    found: list[str] = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if runs(block["mark"] or "", paddle):
            if block["code"].startswith(("import ", "from ")):
                found.append("")
            found[-1] += block["code"]
    return found


def cases() -> list[Any]:
    """The programs of all pages; one that two pages have, but for comments, runs once.

    One without Paddle runs on one version of it.
    """
    paddle = paddle_version()
    pages: dict[Any, list[str]] = {}
    codes: dict[Any, str] = {}
    for page in PAGES if paddle else []:
        for number, code in enumerate(programs(page, paddle), 1):
            same = ast.dump(ast.parse(code)), *PRINTED.findall(code)
            codes.setdefault(same, code)
            pages.setdefault(same, []).append(f"{page.relative_to(ROOT)}-{number}")
    return [
        pytest.param(code, id=" ".join(pages[same]), marks=[pytest.mark.numpy_only] * ("paddle" not in code))
        for same, code in codes.items()
    ]


@pytest.fixture(scope="module")
def nurseries() -> Iterator[dict[bool, Nursery]]:
    """Processes that have imported what the programs need: with Paddle, and without."""
    most = [f"fleetmetrics.{name}" for name in ("metrics", "wrappers", "collection", "comm")]
    with Nursery(*most) as plain, Nursery(*most, "paddle") as paddle:
        yield {False: plain, True: paddle}


@pytest.mark.parametrize("code", cases())
def test_a_program_of_the_docs_prints_what_it_says(code: str, nurseries: dict[bool, Nursery], tmp_path: Path) -> None:
    done = nurseries["import paddle" in code].run(code, tmp_path)
    assert done.status == 0, done.err[-3000:]
    assert done.out.splitlines() == PRINTED.findall(code)


# -- the pages on what can go wrong ----------------------------------------------------------------------

GUIDES = [ROOT / "docs" / folder / f"{name}.md" for folder in ("guide", "zh") for name in ("faults", "security")]
QUOTED = re.compile(r"^<!-- (?P<case>\w+) -->\n```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SEEN = re.compile(r"rank \d, after (?P<seconds>[\d.]+) s: (?:(?P<kind>\w+): )?(?P<text>.*)")


def spoken(text: str) -> str:
    """An error's text without line breaks, and without what differs from run to run."""
    text = re.sub(r"\d+ (file descriptors|are open)|(process|child|-Hn) \d+", r"\1\2", " ".join(text.split()))
    return text.replace(tempfile.gettempdir(), "/tmp")


@pytest.mark.numpy_only
def test_every_fault_of_the_guide_is_what_the_workers_see() -> None:
    script = [sys.executable, str(ROOT / "docs" / "scripts" / "channel_errors.py")]
    printed = subprocess.run(script, stdout=subprocess.PIPE, text=True, timeout=250, check=True).stdout
    seen: dict[str, list[Any]] = {}
    for part in printed.split("-- ")[1:]:
        name, *lines = part.splitlines()
        seen[name] = [SEEN.fullmatch(line) for line in lines]
        waits = name in ("never_comes", "late", "stopped", "no_descriptors", "ports_taken", "hanging_util")
        waits |= name == "dead_name_server"
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
    assert all("'rank-0.example'" in each["text"] for each in seen["dead_name_server"])
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
    for page in GUIDES:
        text = page.read_text("utf-8")
        assert not set(re.findall(r"`(test_\w+)`", text)) - tests, page
        for row in re.findall(r"^\| (?!---|fault |what |故障|内容).*", text, re.MULTILINE):
            assert "`test_" in row, row
    for english, chinese in zip(GUIDES[:2], GUIDES[2:]):
        names = [re.findall(r"`(test_\w+|FLEETMETRICS_\w+)`", page.read_text("utf-8")) for page in (english, chinese)]
        assert sorted(set(names[0])) == sorted(set(names[1]))
        assert f"{handshake.REFUSAL_SECONDS:g} s" in GUIDES[0].read_text("utf-8")
    for figure in (f"after {handshake.GUEST_SECONDS:g} s", f"more than {door._GUESTS} "):
        assert figure in GUIDES[1].read_text("utf-8")


# -- the pages on the metrics ----------------------------------------------------------------------------


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))


@pytest.mark.usefixtures("scripts")
def test_every_metric_is_on_its_page_and_in_the_reference() -> None:
    from _catalogue import DOCS, catalogue

    for page, kinds in catalogue().items():
        text = (DOCS / "metrics" / f"{page}.md").read_text(encoding="utf-8")
        reference = (DOCS / "reference" / "metrics" / f"{page}.md").read_text(encoding="utf-8")
        assert kinds and not [kind.__name__ for kind in kinds if not re.search(rf"\b{kind.__name__}\b", text)]
        assert not [kind for kind in kinds if f"::: {kind.__module__}\n" not in reference]
    formulas = (DOCS / "reference" / "formulas.md").read_text(encoding="utf-8")
    public = [name for name, value in vars(fm.formulas).items() if name[0] != "_" and not inspect.ismodule(value)]
    assert len(public) > 60
    assert not [name for name in public if not re.search(rf"^ +- {name}$", formulas, re.MULTILINE)]


@pytest.mark.usefixtures("scripts")
def test_the_tables_of_all_metrics_are_what_their_docstrings_say() -> None:
    import catalogue
    from _catalogue import DOCS, between

    written = between((DOCS / "metrics" / "index.md").read_text(encoding="utf-8"), "catalogue")
    assert written == catalogue.tables(), "run docs/scripts/catalogue.py"


@pytest.mark.numpy_only
@pytest.mark.usefixtures("scripts")
def test_the_table_of_modes_has_what_does_not_run_everywhere_and_agrees_with_what_the_cases_claim() -> None:
    import modes
    from _catalogue import catalogue

    table = modes.known(modes.PAGE.read_text(encoding="utf-8"))
    everywhere = dict.fromkeys(modes.COLUMNS, modes.YES)  # what is not in the table
    names = [kind.__name__ for kinds in catalogue().values() for kind in kinds]
    assert list(table) == [name for name in names if table.get(name, everywhere) != everywhere], "run make modes"
    claims: dict[str, list[tuple[str, ...]]] = {"Throughput": [("numpy", "dynamic")]}  # which has no case
    for case in CASES.values():
        claims.setdefault(type(case.make()).__name__, []).append(case.modes)
    for kind in names:
        row = table.get(kind, everywhere)
        assert tuple(row) == modes.COLUMNS
        for column, cell in row.items():
            mode = {"NumPy": "numpy", "PIR": "static"}.get(column.split(",")[0], column.split(",")[0])
            said, claimed = set(cell.split(" or ")), {mode in claim for claim in claims[kind]}
            assert said <= {modes.YES, modes.FETCH, modes.MEASURE}, (kind, column, "run make modes")
            runs, is_refused = modes.YES in said, bool(said - {modes.YES})
            assert (runs, is_refused) == (True in claimed, False in claimed), (kind, column)
