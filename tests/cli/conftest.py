"""Pages without drawings."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the time of a page is that of its drawings, at which `tests/report` and `tests/plot` look."""
    if find_spec("matplotlib") is not None:
        monkeypatch.setattr("fleetmetrics.plot.svg", lambda *_: "<svg></svg>")
