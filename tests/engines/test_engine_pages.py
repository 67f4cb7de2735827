"""The programs of the page on engines run on real ones, and print what one process computes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import fleetmetrics as fm
from tests.pages import both

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = both("howto/engines")
BLOCK = re.compile(
    r"^<!-- not run here but in tests/engines: (?P<engine>\w+) -->\n```python\n(?P<code>.*?)^```$", re.M | re.S
)
COLUMNS = {"prediction": "score", "label": "clicked", "user": "uid", "slot": "slot"}


def program(page: Path, engine: str) -> str:
    blocks = [block["code"] for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    names = [block["engine"] for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return "".join(code for code, name in zip(blocks, names) if name == engine)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "preds").mkdir()
    for number in range(3):
        random = np.random.default_rng(number)
        score = random.random(400)
        data = {
            "score": score,
            "clicked": (random.random(400) < score).astype(int),
            "uid": random.integers(0, 60, 400),
            "slot": random.choice(["home", "feed"], 400),
        }
        pyarrow.parquet.write_table(pa.table(data), folder / "preds" / f"{number}.parquet")
    return folder


def value(folder: Path, metric: fm.Metric, *arguments: str) -> Any:
    """What one process has of all rows."""
    metric.add_frame(pyarrow.parquet.read_table(folder / "preds"), **{name: COLUMNS[name] for name in arguments})
    return metric.compute_local()


def printed(engine: str, folder: Path, capsys: Any) -> list[str]:
    code = program(PAGES[0], engine).replace('"preds', f'"{folder}/preds')  # engines stay where they were started
    exec(compile(code, "page", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def auc(folder: Path) -> float:
    return value(folder, fm.AUC(), "prediction", "label")


def test_the_programs_for_spark_print_what_one_process_computes(spark, folder, auc, capsys):
    whole, gauc, exact, trained = printed("spark", folder, capsys)
    assert whole.startswith(f"1200 {{'auc': {auc}, 'loss': ")
    assert float(gauc) == pytest.approx(value(folder, fm.GAUC(), "prediction", "label", "user"), rel=1e-13)
    assert float(exact) == pytest.approx(value(folder, fm.ExactAUC(), "prediction", "label"), rel=1e-13)
    assert trained == f"[Row(auc={auc}), Row(auc={auc})]"


def test_the_programs_for_ray_print_what_one_process_computes(ray, folder, auc, capsys):
    assert printed("ray", folder, capsys) == [f"{auc}", f"{auc}", "[1.0, 1.0]"]


def test_the_program_for_dask_prints_what_one_process_computes(folder, auc, capsys):
    assert printed("dask", folder, capsys) == [f"{auc}", f"{auc}"]


def test_the_program_for_beam_prints_what_one_process_computes(folder, auc, capsys):
    [line] = printed("beam", folder, capsys)
    assert line.startswith(f"{{'auc': {auc}, 'loss': ")
    loss = value(folder, fm.LogLoss(), "prediction", "label")
    assert float(line.rpartition(" ")[2][:-1]) == pytest.approx(loss, rel=1e-13)


def test_the_chinese_page_has_the_same_programs():
    for engine in ("spark", "ray", "dask", "beam"):
        codes = [re.sub(r" *#.*", "", program(page, engine)) for page in PAGES]
        assert codes[0] == codes[1]
