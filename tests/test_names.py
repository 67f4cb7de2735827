"""The public names: a generated list says which module has each, and a module is imported when its name is used."""

from __future__ import annotations

import functools
import inspect
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.accumulator import FOR_USERS
from tests.contract import CASES

ROOT = Path(__file__).resolve().parent.parent


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def loaded(code: str) -> set[str]:
    """The package's modules that are loaded after a statement."""
    return set(
        run(f"import sys, fleetmetrics; {code}; print(*[n for n in sys.modules if n.startswith('fleetmetrics')])")
    )


@pytest.mark.numpy_only
def test_the_list_of_names_matches_the_modules():
    code = "import sys; sys.path.insert(0, 'docs/scripts'); import names; "
    code += "print(*[path for path, text in names.written().items() if path.read_text() != text])"
    assert not run(code), "run `make names`"


@pytest.mark.numpy_only
def test_the_package_is_imported_from_a_zip_with_its_python_files_alone(tmp_path):
    """As Spark's ``--py-files`` and zipapp carry it."""
    with zipfile.ZipFile(tmp_path / "fleetmetrics.zip", "w") as archive:
        for path in (ROOT / "fleetmetrics").rglob("*.py"):
            archive.write(path, path.relative_to(ROOT))
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import fleetmetrics as fm
assert fm.__file__.startswith(sys.argv[1]), fm.__file__
metric = fm.AUC()
metric.add([0.9, 0.2, 0.7], [1, 0, 0])
print(metric.compute(), fm.auc([0, 1], [1, 0]), "GAUC" in dir(fm), fm.metrics.UAUC.__name__)
fm.AUROC
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "fleetmetrics.zip")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["1.0", "1.0", "True", "UAUC"] and "did you mean AUC" in done.stderr, done.stderr


def test_every_name_is_there_and_is_listed():
    for name in [*fm._modules, "evaluator", "formulas", "static"]:
        assert getattr(fm, name) is not None and name in dir(fm)
    assert set(fm.__all__) == {*fm._modules} - {"sum", "max", "min"} and fm.sum([1, 2]).tolist() == [1, 2]


@pytest.mark.numpy_only
def test_completion_offers_public_names_alone():
    rooms = {"evaluation", "evaluator", "files", "formulas", "plot", "report", "static"}
    assert {name for name in dir(fm) if not name.startswith("__")} == {*fm._modules, *rooms} - {"__version__"}


class Records(fm.BaseMetric):
    """Of MMEval's kind."""

    def compute_metric(self, results: Any) -> Any:
        return len(results)


class Own(fm.Metric):
    """A metric of a user's."""

    limit = 3

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        self.seen: list[int] = []

    def shown(self) -> None: ...


@pytest.mark.numpy_only
def test_completion_of_a_metric_offers_what_users_call():
    called = {"name", *FOR_USERS}
    for metric in (fm.AUC(), fm.GAUC(), fm.Count(), fm.Bootstrap(fm.AUC()), fm.Sliced(fm.AUC()), fm.AUC() / fm.Count()):
        offered = {name for name in dir(metric) if not name.startswith("_")}
        assert called <= offered <= {*called, *inspect.signature(type(metric)).parameters}, type(metric)
        assert len(offered) <= 30
    assert {"buckets", "curve", "tolerance"} <= {*dir(fm.AUC())} and {"metric", "by"} <= {*dir(fm.Sliced(fm.AUC()))}
    assert "plot" not in dir(fm.MetricCollection([fm.AUC()])) and "metrics" in dir(fm.MetricCollection([fm.AUC()]))
    assert {"limit", "seen", "shown", "compute"} <= {*dir(Own())} and "batch_statistics" not in dir(Own())
    assert "batch_statistics" in dir(fm.AUC), "for authors"
    assert all(hasattr(fm.AUC(), name) for name in dir(fm.AUC()))


def offered(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_completion_offers_what_users_call_and_not_what_authors_of_the_package_do():
    of_records = {"add", "compute", "compute_local", "compute_metric", "dataset_meta", "dist_comm", "reset", "sampler"}
    states = {"name", "set_state_dict", "settings", "state_dict"}
    for_all = {name for name in offered(Records()) if name not in ("dist_collect_mode", "batch_size", "logger")}
    assert for_all - {"allow_pickle", "collect_dir", "collect_dir_shared"} == of_records | states
    evaluator = fm.evaluator.Evaluator(fm.evaluator.Accuracy())
    process = {"evaluate", "evaluate_local", "offline_evaluate", "process", "reset"}
    assert process <= offered(evaluator) and not {"settle", "shares", "incidental"} & offered(evaluator)
    result = fm.evaluate({"y": np.array([0, 1]), "p": np.array([0.2, 0.7])}, label="y", score="p", metrics="auc")
    assert {"frame", "plot", "slices", "to_html", "values"} <= offered(result) and len(offered(result)) <= 22
    assert not {"inputs", "tables"} & offered(result)
    for module in (fm.comm, fm.evaluator, fm.files, fm.formulas, fm.plot):
        assert offered(module) == set(module.__all__), module
        assert all(hasattr(module, name) for name in dir(module)), module


@pytest.mark.numpy_only
def test_import_loads_one_module_and_a_metric_none_that_it_does_not_need():
    assert loaded("pass") == {"fleetmetrics", "fleetmetrics._names"}
    assert loaded("fleetmetrics.errors") - loaded("pass") == {"fleetmetrics.errors"}
    found = {name.split(".")[1] for name in loaded("fleetmetrics.AUC") if "." in name}
    others = {
        "base_metric",
        "cli",
        "dataframes",
        "doctor",
        "evaluator",
        "files",
        "migrate",
        "plot",
        "report",
        "wrappers",
    }
    assert not found & others
    assert len(loaded("fleetmetrics.AUC")) <= 45, "of the package's 270 modules: each import costs every process"
    assert run("import sys, fleetmetrics; print('numpy' in sys.modules)") == ["False"]


#: The modules by which a process speaks to others.
SPEAKING = {"_socket", "_ssl", "concurrent.futures", "hmac", "secrets", "select", "tempfile"}


@pytest.mark.numpy_only
def test_metrics_load_nothing_of_the_channel_before_they_compute_and_no_sockets_in_a_process_alone():
    of_metrics = ("base", "functional", "metrics", "samplers", "wrappers")
    names = [name for name, module in fm._modules.items() if module.split(".")[1] in of_metrics]
    code = f"""
import numpy, sys
numpys = {{*sys.modules}}
import fleetmetrics as fm
for name in {names}:
    getattr(fm, name)
metric = fm.MetricCollection([fm.AUC(), fm.GAUC(), fm.ExactAUC()])
metric.add([0.1, 0.9], [0, 1], user=[1, 1])
print(*{{*sys.modules}} - numpys, "|")
metric.compute()
print(*{{*sys.modules}} - numpys)
"""
    before, after = ({*part.split()} for part in " ".join(run(code)).split("|"))
    assert "AUC" in names and "Sliced" in names
    assert not {name for name in before if name.startswith("fleetmetrics.comm")}
    assert not (before | after) & SPEAKING


@pytest.mark.numpy_only
def test_star_brings_every_name_without_paddle_and_leaves_pythons_own():
    code = "import sys; sys.modules['paddle'] = None; from fleetmetrics import *; import fleetmetrics as fm; "
    code += "m = AUC(); m.add([0.9, 0.1], [1, 0]); print(m.compute(), sum([1, 2]), max(1, 2), fm.max(3))"
    assert run(code) == ["1.0", "3", "2", "3"]


@pytest.mark.numpy_only
def test_without_paddle_only_what_needs_it_raises():
    start = "import sys; sys.modules['paddle'] = None; import fleetmetrics as fm; fm.evaluator; fm.Sliced\n"
    tried = (
        ("fm.static", "AttributeError"),
        ("import fleetmetrics.static", "fm.MissingLibraryError"),
        ("from fleetmetrics import static", "fm.MissingLibraryError"),
        ("from fleetmetrics.static import auc", "fm.MissingLibraryError"),
    )
    code = "".join(f"try: {line}\nexcept {kind} as error: print(error)\n" for line, kind in tried)
    assert " ".join(run(start + code)).count("pip install paddlepaddle") == len(tried)
    assert run(start + "print(hasattr(fm, 'static'), 'static' in dir(fm), getattr(fm, 'static', 3))") == [
        "False",
        "True",
        "3",
    ]


def test_a_metric_is_unpickled_where_only_the_package_is_imported():
    metric = fm.QuantileLoss(0.75)
    metric.add([1.0, 4.0], [3.0, 3.0])
    data = pickle.dumps(metric)
    assert run(f"import pickle; print(pickle.loads({data!r}).compute())") == ["0.875"]


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fleetmetrics' has no attribute 'nothing_of_the_kind'"):
        getattr(fm, "nothing_of_the_kind")  # noqa: B009
    with pytest.raises(ImportError, match="AUROC"):
        from fleetmetrics import AUROC  # noqa: F401
    assert not hasattr(fm, "_private") and not hasattr(fm.metrics, "Sliced") and fm.metrics.AUC is fm.AUC


def test_type_checkers_read_the_same_list():
    text = (ROOT / "fleetmetrics" / "__init__.pyi").read_text(encoding="utf-8")
    assert re.search(r"^from fleetmetrics\.metrics\.auc import AUC as AUC$", text, re.MULTILINE)
    assert "*.pyi" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@functools.lru_cache(maxsize=1)
def texts() -> dict[Path, str]:
    """What the repository says of metrics, by file."""
    files = [*ROOT.glob("docs/**/*.md")]  # CONTRIBUTING shows one metric as a diff
    files += [path for folder in ("fleetmetrics", "tests", "examples") for path in (ROOT / folder).rglob("*")]
    return {path: path.read_text(encoding="utf-8") for path in files if path.suffix in (".md", ".py", ".pyi", ".ini")}


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "case", ["mean bias", "median absolute error", "tweedie deviance of power 2", "root mean squared log error"]
)
def test_a_metric_has_a_module_a_case_a_page_rows_in_five_tables_and_a_chinese_line(case):
    name = type(CASES[case].make()).__name__
    found = [path for path, text in texts().items() if name in text and re.search(rf"\b{name}\b", text)]
    # A table of simulations, names in other libraries, and tests of what several metrics have in common name some.
    extra = {"uncertainty.md", "coming_from.md"}
    extra |= {"test_regression.py", "test_interval.py", "test_large_integers.py", "test_reference.py"}
    names = [path.name for path in found if not path.name.endswith(".zh.md")]  # not the Chinese twins
    assert len([each for each in names if each not in extra]) == 10, found


@pytest.mark.numpy_only
def test_nothing_is_left_to_write_of_every_metric_that_make_metric_laid_out():
    files = [*ROOT.glob("docs/metrics/*.md"), *ROOT.glob("tests/cases/*.py"), *ROOT.glob("fleetmetrics/words/*.ini")]
    files += (ROOT / "fleetmetrics" / "metrics").rglob("*.py")
    left = [str(path.relative_to(ROOT)) for path in files if "TODO" in path.read_text(encoding="utf-8")]
    assert not left, f"write what is marked TODO in {left}"
