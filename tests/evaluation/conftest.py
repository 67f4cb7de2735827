"""Data of a module in files, and deltas with few groups."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deltas keep a histogram of scores for each of 64 groups, and not of 1,024: that would take most of the time."""
    monkeypatch.setattr("fleetmetrics.evaluation.question.versus._GROUPS", 64)


@pytest.fixture
def there(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module's ``DATA`` as new.parquet and its ``OLD`` as old.parquet; the test is in it."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    for name in ("DATA", "OLD"):
        path = tmp_path / ("new.parquet" if name == "DATA" else "old.parquet")
        pyarrow.parquet.write_table(pa.table(getattr(request.module, name)), path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
