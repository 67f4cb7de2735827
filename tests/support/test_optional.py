"""The error for a missing library has the command that installs it."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

import fleetmetrics as fm
from fleetmetrics.support.optional import library

pytestmark = pytest.mark.numpy_only


def test_a_library_that_is_not_installed_is_an_error_that_says_how_to_install_it():
    with pytest.raises(
        fm.MissingLibraryError, match=r"no_such_library.*; install it with pip install no_such_library$"
    ) as caught:
        library("no_such_library.part")
    assert isinstance(caught.value, (ImportError, fm.FleetMetricsError))


def test_a_library_is_looked_for_once_until_it_is_replaced(monkeypatch):
    found = library("numpy")
    monkeypatch.setattr("importlib.import_module", None)
    assert library("numpy") is found
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(fm.MissingLibraryError, match="numpy cannot be imported"):
        library("numpy")


def test_a_pyarrow_that_is_too_old_is_named_with_the_first_that_works(monkeypatch):
    old = types.ModuleType("pyarrow")
    old.__version__, old.compute = "17.0.0", types.ModuleType("pyarrow.compute")
    for name, module in (("pyarrow", old), ("pyarrow.compute", old.compute)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("pyarrow", "pyarrow.compute"):
        told = r"pyarrow 17.0.0 is too old, 18 or later is needed; .*pip install 'pyarrow>=18'$"
        with pytest.raises(fm.MissingLibraryError, match=told):
            library(name)
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
    assert set(re.findall(r"pyarrow>=(\d+)", text)) == {"18"}


def test_a_pyarrow_that_needs_numpy_2_is_named_with_the_version_that_does_not(monkeypatch):
    def refuses(name):
        raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4")  # what pyarrow 26 says

    monkeypatch.setattr("fleetmetrics.support.optional._FOUND", {})
    monkeypatch.setattr("importlib.import_module", refuses)
    with pytest.raises(fm.MissingLibraryError, match=r"pyarrow>=18.*pip install 'pyarrow<26'"):
        library("pyarrow.parquet")


@pytest.mark.parametrize(
    "name, package", [("paddle.static", "paddlepaddle"), ("ray", r"'ray\[data\]'"), ("jinja2", "jinja2")]
)
def test_the_command_has_the_name_of_the_index(monkeypatch, name, package):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("fleetmetrics.support.optional._FOUND", {})
    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(fm.MissingLibraryError, match=f"pip install {package}$"):
        library(name)
