"""How ``python -m fleetmetrics.migrate`` edits scripts, what it names, and what it never does."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fleetmetrics.migrate import _COUNTERPARTS, main, migrated
from tests.pages import both

pytestmark = pytest.mark.numpy_only
ROOT = Path(__file__).resolve().parent.parent


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


CHANGED = [
    (
        "from mmeval import BaseMetric\n",
        "from fleetmetrics import BaseMetric\n",
    ),
    (
        "from mmeval.core import (  # their base\n    BaseMetric as Base,\n    list_all_backends,  # names\n)\n",
        "from fleetmetrics import (  # their base\n    BaseMetric as Base,\n    list_all_backends,  # names\n)\n",
    ),
    (
        "from mmeval.core.base_metric import BaseMetric\n",
        "from fleetmetrics import BaseMetric\n",
    ),
    (
        "from mmeval.core.dist import set_default_dist_backend, get_dist_backend",
        "from fleetmetrics import set_default_dist_backend, get_dist_backend",
    ),
    (
        "from mmengine.evaluator import BaseMetric, Evaluator, DumpResults, get_metric_value",
        "from fleetmetrics.evaluator import BaseMetric, Evaluator, DumpResults, get_metric_value",
    ),
    (
        "from mmengine.evaluator.metric import BaseMetric",
        "from fleetmetrics.evaluator import BaseMetric",
    ),
    (
        "from mmengine.registry import METRICS",
        "from fleetmetrics.evaluator import METRICS",
    ),
    (
        "from mmpretrain.registry import METRICS",
        "from fleetmetrics.evaluator import METRICS",
    ),
    (
        "from mmpretrain.evaluation import Accuracy, SingleLabelMetric as S",
        "from fleetmetrics.evaluator import Accuracy, SingleLabelMetric as S",
    ),
    (
        "from mmpretrain.evaluation.metrics import ConfusionMatrix",
        "from fleetmetrics.evaluator import ConfusionMatrix",
    ),
    (
        "from mmpretrain.evaluation.metrics.retrieval import RetrievalRecall",
        "from fleetmetrics.evaluator import RetrievalRecall",
    ),
    (
        "from mmengine import Config, METRICS",
        "from fleetmetrics.evaluator import METRICS\nfrom mmengine import Config",
    ),
    (
        "if 1:\n    from mmengine.registry import METRICS, MODELS\n",
        "if 1:\n    from fleetmetrics.evaluator import METRICS\n    from mmengine.registry import MODELS\n",
    ),
    (
        "import os; from mmengine.registry import METRICS, HOOKS\n",
        "import os; from fleetmetrics.evaluator import METRICS; from mmengine.registry import HOOKS\n",
    ),
    (
        "if 1:\r\n\tfrom mmengine.registry import METRICS, HOOKS\r\n",
        "if 1:\r\n\tfrom fleetmetrics.evaluator import METRICS\r\n\tfrom mmengine.registry import HOOKS\r\n",
    ),
    (
        "import mmeval\nclass A(mmeval.BaseMetric): ...\n",
        "import fleetmetrics\nclass A(fleetmetrics.BaseMetric): ...\n",
    ),
    (
        "import mmeval.core as core, os\nx = core . list_all_backends()\n",
        "import fleetmetrics\nimport os\nx = fleetmetrics.list_all_backends()\n",
    ),
    (
        "from mmengine import evaluator\nE = evaluator.Evaluator(evaluator.DumpResults('a.pkl'))",
        "import fleetmetrics\nE = fleetmetrics.evaluator.Evaluator(fleetmetrics.evaluator.DumpResults('a.pkl'))",
    ),
    (
        "import mmengine.evaluator\nimport mmengine\nmmengine.evaluator.Evaluator, mmengine.Config\n",
        "import fleetmetrics\n"
        "import mmengine.evaluator\n"
        "import fleetmetrics\n"
        "import mmengine\n"
        "fleetmetrics.evaluator.Evaluator, mmengine.Config\n",
    ),
    (
        "é = '指标'; from mmeval import BaseMetric; ü = BaseMetric\n",
        "é = '指标'; from fleetmetrics import BaseMetric; ü = BaseMetric\n",
    ),
    (
        "import mmpretrain.evaluation\nmmpretrain.evaluation.Accuracy.calculate([0], [0])\n",
        "import fleetmetrics\nfleetmetrics.evaluator.Accuracy.calculate([0], [0])\n",
    ),
]


@pytest.mark.parametrize(("text", "changed"), CHANGED)
def test_what_has_a_counterpart_is_changed_and_the_rest_of_the_text_stays(text: str, changed: str) -> None:
    assert migrated(text) == (changed, [])
    assert migrated(changed) == (changed, [])


@pytest.mark.parametrize(
    "text",
    [
        "from mmengine.hooks import Hook\nimport mmengine\nmmengine.Config\n",
        "from mmpretrain.models import build\nfrom mmpretrain.structures import DataSample\n",
        "from . import mmeval\nfrom .mmeval import BaseMetric\n",
        "import paddle\nmodel = dict(type='Accuracy')  # mmeval\n",
        "",
    ],
)
def test_code_without_metrics_is_left_alone(text: str) -> None:
    assert migrated(text) == (text, [])


STAYS = "has no counterpart in fleetmetrics, and stays"


@pytest.mark.parametrize(
    ("text", "changed", "notes"),
    [
        (
            "\nfrom mmeval import BaseMetric, COCODetection\n",
            "\nfrom fleetmetrics import BaseMetric\nfrom mmeval import COCODetection\n",
            [(2, f"mmeval.COCODetection {STAYS}")],
        ),
        (
            "import mmeval\n\nclass A(mmeval.BaseMetric): ...\nb = mmeval.BLEU()\n",
            "import fleetmetrics\nimport mmeval\n\nclass A(fleetmetrics.BaseMetric): ...\nb = mmeval.BLEU()\n",
            [(4, f"mmeval.BLEU {STAYS}")],
        ),
        (
            "from mmeval import *\n",
            None,
            [(1, "mmeval.* hides what is used: import it by name, and run this again")],
        ),
        ("from mmengine.dist import is_main_process\n", None, [(1, f"mmengine.dist.is_main_process {STAYS}")]),
        ("from mmpretrain.evaluation import VQAAcc\n", None, [(1, f"mmpretrain.evaluation.VQAAcc {STAYS}")]),
        ("from mmengine.registry import EVALUATOR\n", None, [(1, f"mmengine.registry.EVALUATOR {STAYS}")]),
        (
            "from mmengine.registry import METRICS, Registry\n",
            "from fleetmetrics.evaluator import METRICS\nfrom mmengine.registry import Registry\n",
            [(1, "mmengine.registry.Registry stays; for metrics there is fleetmetrics.evaluator.registry.Registry")],
        ),
        (
            "e = dict(type='MultiTasksMetric', task_metrics={})\nf = [{'type': 'mmpretrain.VQAAcc'}]\n",
            None,
            [
                (1, "'MultiTasksMetric' has no counterpart in fleetmetrics"),
                (2, "'mmpretrain.VQAAcc' has no counterpart in fleetmetrics"),
            ],
        ),
        (
            "import importlib\nimportlib.import_module('mmeval.metrics')\n",
            None,
            [(2, "'mmeval.metrics' has no counterpart in fleetmetrics")],
        ),
    ],
)
def test_names_without_a_counterpart_are_listed_by_line(
    text: str, changed: str | None, notes: list[tuple[int, str]]
) -> None:
    assert migrated(text) == (text if changed is None else changed, notes)


def test_the_command_shows_a_diff_and_writes_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "evaluate.py"
    script.write_text("# -*- coding: gbk -*-\nfrom mmeval import BaseMetric\n名 = '指标'\n", encoding="gbk")
    script.chmod(0o750)
    before = script.read_bytes()
    assert main([str(script)]) == 0
    out, err = capsys.readouterr()
    assert f"--- {script}\n+++ {script}\n" in out and "-from mmeval import BaseMetric\n+from fleetmetrics" in out
    assert err == "" and script.read_bytes() == before
    assert main([str(script), "--write"]) == 0
    assert capsys.readouterr().out == f"{script}: changed\n"
    assert script.read_bytes() == before.replace(b"from mmeval", b"from fleetmetrics")
    assert script.stat().st_mode & 0o777 == 0o750 and os.listdir(tmp_path) == ["evaluate.py"]
    assert main([str(script), "--write"]) == 0 and capsys.readouterr().out == ""


def test_the_status_says_whether_something_is_left_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\ufefffrom mmeval import BaseMetric, BLEU", encoding="utf-8")
    done = run(["-m", "fleetmetrics.migrate", "a.py"], tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"a.py:1: mmeval.BLEU {STAYS}\n"
    assert "+from fleetmetrics import BaseMetric\n+from mmeval import BLEU\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("broken.py", b"from mmeval import BaseMetric\nif x\n", "broken.py:2: "),
        ("bytes.py", b"from mmeval import BaseMetric\n\xff\n", "bytes.py:1: "),
        ("zeros.py", b"from mmeval import BaseMetric\n\0\n", "zeros.py:1: "),
        ("missing.py", None, "missing.py:1: [Errno 2] No such file"),
        ("folder", b"", "folder:1: [Errno 21] Is a directory"),
    ],
)
def test_where_one_file_cannot_be_read_none_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None, text: str
) -> None:
    good = tmp_path / "good.py"
    good.write_text("from mmeval import BaseMetric\n")
    if name == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["--write", str(good), str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert text in err and err.endswith("; nothing was changed here or after\n") and out == ""
    assert good.read_text() == "from mmeval import BaseMetric\n"


def test_a_link_stays_a_link_and_a_failed_write_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("from mmeval import BaseMetric\n")
    link.symlink_to(real)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert main(["--write", str(link)]) == 2
    assert capsys.readouterr() == (
        "",
        f"{link}:1: [Errno 28] No space left on device: '{link}'; nothing was changed here or after\n",
    )
    assert real.read_text() == "from mmeval import BaseMetric\n" and len(os.listdir(tmp_path)) == 2
    assert main(["--write", str(link)]) == 0
    assert link.is_symlink() and real.read_text() == "from fleetmetrics import BaseMetric\n"


# -- the pages -------------------------------------------------------------------------------------------

PAGES = both("howto/from_openmmlab")


def test_every_counterpart_is_there_and_on_the_pages() -> None:
    for module, (home, names) in _COUNTERPARTS.items():
        here = __import__(home, fromlist=["*"])
        assert all(hasattr(here, name) for name in names.split())
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            assert module == "mmengine" or f"`from {module} import" in text
    for name in ("mmeval.core", "mmpretrain.registry", "mmpretrain.evaluation.metrics", "mmeval.BaseMetric"):
        assert all(name in page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_commands_of_the_pages_print_what_they_show(page: Path, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (shown, script), *runs = [part.partition("\n")[::2] for part in block.split("$ ")[1:]]
    (tmp_path / shown.split()[1]).write_text(script, encoding="utf-8")
    assert shown.startswith("cat ") and len(runs) == 2
    for command, printed in runs:
        assert command.startswith("python -m fleetmetrics.migrate ")
        done = run(command.split()[1:], tmp_path)
        assert done.stdout + done.stderr == printed
        assert done.returncode == 1


def test_the_sources_of_this_package_come_through_unchanged() -> None:
    for path in ROOT.rglob("fleetmetrics/**/*.py"):
        text = path.read_text(encoding="utf-8")
        assert migrated(text)[0] == text
        ast.parse(text)
