"""Data of a module in files."""

from __future__ import annotations

from pathlib import Path

import pytest


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
