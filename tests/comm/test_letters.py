"""Letters as bytes, and letters that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmetrics.comm import Letter
from fleetmetrics.comm.letters import LETTER_UNIT, divided, letter_in, read_each, split, written
from fleetmetrics.errors import RecordError
from fleetmetrics.serial.descriptions import joined


@pytest.mark.parametrize("payload", [b"", b"xyz", [b"ab", b"", bytes(range(40))]])
def test_a_letter_comes_back_from_its_bytes_and_from_no_others(payload: Any) -> None:
    data = b"".join(written(Letter(["a", {"b": "ä"}], payload)))
    found = letter_in(data)
    assert found.note == ["a", {"b": "ä"}] and bytes(found.payload) == joined(payload)
    assert len(data) % LETTER_UNIT == 0
    for bad in data[:-LETTER_UNIT], data + bytes(LETTER_UNIT), b"", data[:5], b"\xff" * len(data):
        with pytest.raises(ValueError):
            letter_in(bad)


def test_the_number_and_lengths_of_parts_are_those_announced() -> None:
    assert [bytes(each.payload) for each in divided(Letter([["a", 1], ["b", 2]], b"xyz"), 2)] == [b"x", b"yz"]
    for note, number in ([["a", 1]], 1), ([["a", 3]], 2), ([["a", -1], ["b", 4]], 2):
        with pytest.raises(ValueError):
            divided(Letter(note, b"xyz"), number)
    with pytest.raises(ValueError, match="3 bytes, but there are 4"):
        split(b"xyz", [1, 3])


def test_an_unreadable_letter_is_quoted_escaped_and_cut() -> None:
    def unreadable(letter: str) -> None:
        raise RecordError(f"a layout of {letter}")

    with pytest.raises(RecordError) as caught:
        read_each(["\x1b]0;owned\x07\nrank 0 is well" + "x" * 2_000_000], unreadable)
    said = str(caught.value)
    assert said.startswith(r"the message from rank 0 cannot be read: a layout of \x1b]0;owned\x07\nrank 0 is well")
    assert said.isprintable() and len(said) < 11_000
    assert caught.value.__cause__ is None, "the traceback would show the text as it came"
