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
        "é = '指标'; from mmeval import BaseMetric; ü = BaseMetric\n",
        "é = '指标'; from fleetmetrics import BaseMetric; ü = BaseMetric\n",
    ),
    (
        "import mmpretrain.evaluation\nmmpretrain.evaluation.Accuracy.calculate([0], [0])\n",
        "import fleetmetrics\nfleetmetrics.evaluator.Accuracy.calculate([0], [0])\n",
    ),
    (
        "from mmpretrain.structures import DataSample\nfrom mmengine.fileio import load\nDataSample, load('a.pkl')\n",
        "from fleetmetrics.evaluator import DataSample\nfrom fleetmetrics.evaluator import load\n"
        "DataSample, load('a.pkl')\n",
    ),
    (
        "import mmengine\nfrom mmpretrain import structures as s\nmmengine.load, mmengine.fileio.load, s.DataSample\n",
        "import fleetmetrics\n"
        "fleetmetrics.evaluator.load, fleetmetrics.evaluator.load, fleetmetrics.evaluator.DataSample\n",
    ),
]
#: By a spelling of Paddle's eight functions in its own documents, or in a script that someone has written from them.
FLEET = [
    (
        "from paddle.distributed.fleet import metrics\nmetrics.auc(p, n)\n",
        "import fleetmetrics as metrics\nmetrics.auc(p, n)\n",
    ),
    (
        "from paddle.distributed.fleet import metrics as m, UserDefinedRoleMaker  # both\nm.acc(c, t)\n",
        "import fleetmetrics as m\nfrom paddle.distributed.fleet import UserDefinedRoleMaker  # both\nm.acc(c, t)\n",
    ),
    (
        "import paddle.distributed.fleet.metrics.metric as metric\ngetattr(metric, 'sum')(x)\n",
        "import fleetmetrics as metric\ngetattr(metric, 'sum')(x)\n",
    ),
    (
        "from paddle.distributed.fleet.metrics import (\n    auc,  # area\n    mae as error,\n)\nauc(p, n)\n",
        "from fleetmetrics import (\n    auc,  # area\n    mae as error,\n)\nauc(p, n)\n",
    ),
    (
        "from paddle.distributed.fleet.metrics.metric import rmse\n",
        "from fleetmetrics import rmse\n",
    ),
    (
        "import paddle.distributed.fleet as fleet\nfleet.init()\nfleet.metrics.auc(p, n, scope, fleet.util)\n",
        "import fleetmetrics\nimport paddle.distributed.fleet as fleet\nfleet.init()\n"
        "fleetmetrics.auc(p, n, scope, fleet.util)\n",
    ),
    (
        "import paddle\nfrom paddle.distributed import fleet\n\n\ndef f():\n    fleet . metrics.metric.mse(e, t)\n",
        "import paddle\nimport fleetmetrics\nfrom paddle.distributed import fleet\n\n\ndef f():\n"
        "    fleetmetrics.mse(e, t)\n",
    ),
    (
        "def f():\n    from paddle.distributed import fleet\n    ours = fleet.metrics\n    return ours.min(x)\n",
        "def f():\n    import fleetmetrics\n    from paddle.distributed import fleet\n    ours = fleetmetrics\n"
        "    return ours.min(x)\n",
    ),
    (
        "def f():\n    from paddle.distributed import fleet\n    fleet.metrics.min(x)\n\n\n"
        "def g():\n    from paddle.distributed import fleet\n    fleet.metrics.max(x)\n",
        "def f():\n    import fleetmetrics\n    from paddle.distributed import fleet\n    fleetmetrics.min(x)\n\n\n"
        "def g():\n    import fleetmetrics\n    from paddle.distributed import fleet\n    fleetmetrics.max(x)\n",
    ),
    (
        "import mmeval\nif 1:\n    import mmeval.core as core, os\nmmeval.BaseMetric, core.BaseMetric\n",
        "import fleetmetrics\nif 1:\n    import os\nfleetmetrics.BaseMetric, fleetmetrics.BaseMetric\n",
    ),
    (
        "import paddle\nimport paddle.distributed as d\npaddle.distributed.fleet.metrics.max(x), d.fleet.metrics.sum\n",
        "import fleetmetrics\nimport paddle\nimport paddle.distributed as d\nfleetmetrics.max(x), fleetmetrics.sum\n",
    ),
    (  # on Paddle's pages, and in no Paddle
        "import paddle\npaddle.metrics.max(loss), paddle.distributed.metrics.min(loss)\n",
        "import fleetmetrics\nimport paddle\nfleetmetrics.max(loss), fleetmetrics.min(loss)\n",
    ),
]


@pytest.mark.parametrize(("text", "changed"), CHANGED + FLEET)
def test_what_has_a_counterpart_is_changed_and_the_rest_of_the_text_stays(text: str, changed: str) -> None:
    assert migrated(text) == (changed, [])
    assert migrated(changed) == (changed, [])


@pytest.mark.parametrize(
    "text",
    [
        "from mmeval.utils import try_import\nfrom mmeval.core.dispatcher import dispatch\ntry_import('torch')\n",
        "import mmeval.metrics.utils as utils\nfrom mmeval.fileio import get_local_path\n",
        "import paddle\nfrom paddle.distributed import fleet\nfleet.init()\npaddle.metric.Auc, fleet.util.barrier()\n",
        "from paddle.metric import Accuracy\nfrom paddle import *\nmetrics.auc(auc, x.metrics.sum(), fleet.sum())\n",
        "from paddle.distributed import fleet\nfleetmetrics.patch_fleet(util=True)\nfleet.util.all_reduce(x)\n",
        "from . import mmeval\nfrom .mmeval import BaseMetric\n",
        "import paddle\nmodel = dict(type='Accuracy')  # mmeval\n",
        "",
    ],
)
def test_code_without_metrics_and_helpers_of_them_are_left_alone(text: str) -> None:
    assert migrated(text) == (text, [])


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (
            "import mmeval\nimport os\nimport fleetmetrics\nmmeval.BaseMetric, fleetmetrics.AUC\n",
            "import fleetmetrics\nimport os\nfleetmetrics.BaseMetric, fleetmetrics.AUC\n",
        ),
        (
            "import fleetmetrics\nimport mmeval\nmmeval.BaseMetric\n",
            "import fleetmetrics\nfleetmetrics.BaseMetric\n",
        ),
        (
            "import mmeval\nimport fleetmetrics  # ours\nmmeval.BaseMetric\n",
            "import fleetmetrics\nimport fleetmetrics  # ours\nfleetmetrics.BaseMetric\n",
        ),
        (
            "import fleetmetrics\ndef f():\n    import mmeval\n    return mmeval.BaseMetric\n",
            "import fleetmetrics\ndef f():\n    import fleetmetrics\n    return fleetmetrics.BaseMetric\n",
        ),
        ("import fleetmetrics\nimport os\nimport fleetmetrics\n",) * 2,
    ],
)
def test_a_script_that_imports_this_package_somewhere_does_not_import_it_twice(text: str, changed: str) -> None:
    assert migrated(text) == (changed, [])


def test_the_library_of_images_that_stays_is_named() -> None:
    text = "import mmcv\nfrom mmcv.ops import nms\n"
    stays = "has no counterpart in fleetmetrics, and stays"
    assert migrated(text) == (text, [(1, f"mmcv {stays}"), (2, f"mmcv.ops.nms {stays}")])


STAYS = "has no counterpart in fleetmetrics, and stays"
LOCAL = "stays, and without Gloo covers one worker: call fleetmetrics.patch_fleet(util=True) before it"
BY_NAME = "'paddle.distributed.fleet.metrics' stays: import 'fleetmetrics' by its name instead"


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
        (
            "from mmengine import Config, METRICS",
            "from fleetmetrics.evaluator import METRICS\nfrom mmengine import Config",
            [(1, f"mmengine.Config {STAYS}")],
        ),
        (
            "if 1:\n    from mmengine.registry import METRICS, MODELS\n",
            "if 1:\n    from fleetmetrics.evaluator import METRICS\n    from mmengine.registry import MODELS\n",
            [(2, f"mmengine.registry.MODELS {STAYS}")],
        ),
        (
            "import os; from mmengine.registry import METRICS, HOOKS\n",
            "import os; from fleetmetrics.evaluator import METRICS; from mmengine.registry import HOOKS\n",
            [(1, f"mmengine.registry.HOOKS {STAYS}")],
        ),
        (
            "if 1:\r\n\tfrom mmengine.registry import METRICS, HOOKS\r\n",
            "if 1:\r\n\tfrom fleetmetrics.evaluator import METRICS\r\n\tfrom mmengine.registry import HOOKS\r\n",
            [(2, f"mmengine.registry.HOOKS {STAYS}")],
        ),
        (
            "import mmengine.evaluator\nimport mmengine\nmmengine.evaluator.Evaluator, mmengine.Config\n",
            "import fleetmetrics\n"
            "import mmengine.evaluator\n"
            "import mmengine\n"
            "fleetmetrics.evaluator.Evaluator, mmengine.Config\n",
            [(3, f"mmengine.Config {STAYS}")],
        ),
        (
            "import mmengine\nimport mmpretrain.models as m\nfrom mmengine.structures import InstanceData\n",
            None,
            [
                (1, f"mmengine {STAYS}"),
                (2, f"mmpretrain.models {STAYS}"),
                (3, f"mmengine.structures.InstanceData {STAYS}"),
            ],
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
            "from paddle.distributed.fleet.metrics import *\n",
            None,
            [(1, "paddle.distributed.fleet.metrics.* hides what is used: import it by name, and run this again")],
        ),
        (
            "from paddle.distributed.fleet import metrics\nmetrics.accuracy(c, t)\n",
            "import fleetmetrics as metrics\nmetrics.accuracy(c, t)\n",
            [(2, f"paddle.distributed.fleet.metrics.accuracy {STAYS}")],
        ),
        (
            "def f(fleet):\n    fleet.metrics.auc(p, n), self.fleet.metrics.acc(c, t)\n",
            None,
            [
                (2, "fleet.metrics.auc stays: no import says what it is; if Paddle's, write fleetmetrics.auc"),
                (2, "self.fleet.metrics.acc stays: no import says what it is; if Paddle's, write fleetmetrics.acc"),
            ],
        ),
        (
            "from paddle.distributed import fleet\nfleet.util.all_reduce(x), fleet.util.all_gather(1)\n",
            None,
            [(2, f"paddle.distributed.fleet.util.all_{name} {LOCAL}") for name in ("gather", "reduce")],
        ),
        ("m = importlib.import_module('paddle.distributed.fleet.metrics')\n", None, [(1, BY_NAME)]),
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
    assert main([str(script), "--write"]) == 0 and capsys.readouterr() == ("", "nothing to change in 1 file\n")


def test_of_a_folder_it_takes_the_scripts_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = "from paddle.distributed.fleet import metrics\n", "import fleetmetrics as metrics\n"
    ours = ["b.py", "models/net.py", "models/deep/a.py"]
    others = [".git/a.py", "env/lib/a.py", "env/pyvenv.cfg", "models/.cache/b.py", "README.md"]
    for name in (*ours, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(old)
    monkeypatch.chdir(tmp_path)
    assert main(["--write", "."]) == 0
    assert capsys.readouterr() == ("./b.py: changed\n./models/net.py: changed\n./models/deep/a.py: changed\n", "")
    assert [(tmp_path / name).read_text() for name in (*ours, *others)] == [new] * 3 + [old] * 5
    (tmp_path / "models" / "deep" / "a.py").write_text("if x\n")
    (tmp_path / "b.py").write_text(old)
    assert main(["--write", "b.py", "models"]) == 2
    assert capsys.readouterr().err.startswith("models/deep/a.py:1: ") and (tmp_path / "b.py").read_text() == old


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--writ", "a.py"], "there is no option --writ; did you mean --write?"),
        ([], "the following arguments are required: FILE"),
    ],
)
def test_an_invalid_command_is_named(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2 and text in capsys.readouterr().err


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
        ("folder", b"", "folder:1: no file in this folder ends in .py"),
        ("pages.ipynb", b'{"cells": []}', "pages.ipynb:1: a notebook is no script; make one by jupyter nbconvert"),
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
        for page in both("howto/from_fleet_metrics") if module.startswith("paddle") else PAGES:
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


@pytest.mark.numpy_only
@pytest.mark.thorough
def test_the_sources_of_this_package_come_through_unchanged() -> None:
    for path in (ROOT / "fleetmetrics").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert migrated(text)[0] == text
        ast.parse(text)
