"""What comes in through any door gives the value that is right, or an error of the package; never another error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from tests import doors

#: The share of the calls that the tests make; docs/scripts/hostile.py makes all.
SHARE = {"arrays": 0.2, "settings": 0.2, "frames": 0.1, "files": 0.2, "options": 0.5, "states": 0.2, "swapped": 0.3}


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", doors.DOORS)
def test_no_call_ends_in_a_wrong_value_or_another_librarys_error(door: str, tmp_path: Path, monkeypatch: Any) -> None:
    if door in ("frames", "files", "options", "states"):
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    with fm.set_communicator(fm.LocalCommunicator()):
        found = [(call, *doors.outcome(call)) for call in doors.calls(tmp_path, SHARE[door], only=door)]
    assert len(found) > 10
    wrong = [f"{call.text}: {kind}: {text}" for call, kind, text in found if kind in ("wrong", "raw")]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.numpy_only
def test_every_outcome_is_told_apart() -> None:
    def named() -> None:
        raise fm.InvalidInputError("no")

    calls = {
        "right": doors.Call("a", "b", lambda: {"x": 0.5}, lambda: {"x": 0.5}),
        "wrong": doors.Call("a", "b", lambda: {"x": 0.5}, lambda: {"x": 0.25}),
        "accepted": doors.Call("a", "b", lambda: 1),
        "named": doors.Call("a", "b", named),
        "raw": doors.Call("a", "b", lambda: 1 // 0),
    }
    assert [doors.outcome(call)[0] for call in calls.values()] == list(calls)
    assert doors.outcome(doors.Call("a", "b", lambda: doors.command("evaluate", "nothing.csv")))[0] == "named"
