"""What peers say of arrays of any dtype."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmetrics.comm import Letter
from fleetmetrics.comm.columns import column_in


@pytest.mark.parametrize(
    "note",
    [
        [None, "<f8", [3]],
        [None, "O", [2]],
        [None, "S0", [2]],
        [None, "(9,)f8", []],
        [None, "<f8", [-2]],
        [None, 5, [2]],
    ],
)
def test_an_array_is_as_large_as_its_note_says(note: Any) -> None:
    assert column_in(Letter([None, "<f8", [2]], bytes(16))) == (None, "<f8", [2])
    with pytest.raises((ValueError, TypeError)):
        column_in(Letter(note, bytes(16)))
