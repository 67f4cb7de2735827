"""What errors say of ranks and of others' errors."""

from __future__ import annotations

import pytest

from fleetmetrics.comm.failures import (
    described,
    late_text,
    named_error,
    raise_trouble,
    ranks_text,
    readable,
    readable_lines,
)
from fleetmetrics.errors import CommunicatorError, InvalidInputError
from fleetmetrics.wrappers.sliced_states import KeyKindError


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([2, 1, 0], "ranks 0, 1, 2"),
        (range(4), "ranks 0 to 3"),
        ([*range(256, 512), 1, 600], "ranks 1, 256 to 511, 600"),
        ([1, 3, 5, 7], "ranks 1, 3, 5, 7"),
    ],
)
def test_four_ranks_in_a_row_are_a_range(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_the_late_are_named() -> None:
    assert late_text([1], "arrive", 5, "exchange 1 (auc)").startswith(
        "rank 1 did not arrive within 5 s at exchange 1 (auc)."
    )
    assert late_text(range(1, 9), "connect", 1e4 / 3, "e").startswith(
        "ranks 1 to 8 did not connect within 3330 s at e."
    )


def test_an_error_keeps_its_class_if_it_is_one_of_ours() -> None:
    assert type(named_error(*described(InvalidInputError("no")))) is InvalidInputError
    assert type(named_error(*described(KeyKindError("no")))) is InvalidInputError  # its nearest public base
    assert str(named_error(*described(KeyError("a")))) == "KeyError: 'a'"
    for name in ("KeyError", "warn", "__name__", "UndefinedMetricWarning", "\ud800"):
        assert type(named_error(name, "text")) is CommunicatorError


def test_the_text_of_anothers_error_is_escaped_and_cut() -> None:
    said = str(named_error("InvalidInputError", "\x1b]0;owned\x07\r\n" + "x" * 2_000_000))
    assert said.startswith(r"\x1b]0;owned\x07\r\nxxx") and said.isprintable() and len(said) <= 10_000


def test_a_text_that_is_cut_twice_says_how_long_it_was() -> None:
    once = readable("x" * 20_000)
    assert once.endswith(" ... (cut: 20000 characters)") and len(once) == 10_000
    assert readable("on rank 1: " + once) == ("on rank 1: " + once)[: 10_000 - 28] + once[-28:]


def test_all_in_trouble_are_named_with_the_class_of_the_first() -> None:
    with pytest.raises(InvalidInputError, match=r"^on ranks 1, 3: no; on rank 2: b$"):
        raise_trouble([None, ("InvalidInputError", "no"), ("RecordError", "b"), ("InvalidInputError", "no")])
    raise_trouble([None, None])


def test_lines_of_a_peer_are_escaped_and_of_too_many_the_last_are_kept() -> None:
    assert readable_lines("Traceback:\n  \x1b[2J\n") == "Traceback:\n  \\x1b[2J\n"
    text = readable_lines("x\n" * 1_000_000 + "ValueError: the end")
    assert text.startswith("(cut: 2000019 characters) ...\n")
    assert text.endswith("\nx\nValueError: the end") and len(text) < 11_000
