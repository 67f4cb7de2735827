"""The error for a missing library names the extra that brings it."""

from __future__ import annotations

import pytest

import fleetmetrics as fm
from fleetmetrics.optional import library

pytestmark = pytest.mark.numpy_only


def test_a_library_that_is_not_installed_is_an_error_that_says_which_extra_brings_it():
    with pytest.raises(fm.MissingLibraryError, match=r"no_such_library.*pip install 'fleetmetrics\[files\]'") as caught:
        library("no_such_library", "files")
    assert isinstance(caught.value, (ImportError, fm.FleetMetricsError))


def test_a_pyarrow_that_needs_numpy_2_is_named_with_the_version_that_does_not(monkeypatch):
    def refuses(name):
        raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4")  # what pyarrow 26 says

    monkeypatch.setattr("importlib.import_module", refuses)
    with pytest.raises(fm.MissingLibraryError, match=r"fleetmetrics\[files\].*pip install 'pyarrow<26'"):
        library("pyarrow.parquet", "files")
