"""What rank 0 remembers of calls that are over: which error a call has, and which workers took another way."""

from __future__ import annotations

import pytest

from fleetmetrics.comm.past import KEPT, Ended, Latest, Past
from fleetmetrics.errors import AgreementError

pytestmark = pytest.mark.numpy_only

#: An exchange of ranks 0 to 2 that has ended, and exchanges of later calls.
SPLIT, NEXT, LATER, LAST = (7, 3, 1), (7, 4, 1), (7, 5, 1), (7, 6, 1)
ALL = (0, 1, 2)
TEXT = (
    "the workers diverged at exchange 3 (auc): it ended with a result on ranks 0, 2, and with an error on rank 1. "
    "Compute it again on all workers; they are in step again"
)


def parted() -> Past:
    """An exchange had a result on ranks 0, 2, and rank 1 has left it with an error."""
    past = Past()
    past.ended[SPLIT] = Ended(SPLIT, "exchange 3 (auc)", ALL)
    past.leave(SPLIT, 1, {1})
    return past


def told(past: Past, place: tuple[int, int, int], ranks: tuple[int, ...] = ALL) -> str:
    """The error at an exchange of these ranks, or nothing."""
    try:
        past.announce_split(place, ranks)
    except AgreementError as error:
        return str(error)
    return ""


def test_the_first_error_of_a_call_is_that_of_all_who_come_later() -> None:
    past = Past()
    past.fail((7, 3), b"the first")
    past.fail((7, 3), b"another")
    assert past.failed[7, 3] == b"the first"


def test_a_split_is_told_at_the_next_exchange_and_only_there() -> None:
    past = parted()
    assert told(past, NEXT) == TEXT
    assert not told(past, LATER)


def test_a_split_is_told_to_each_group_that_has_one_of_its_workers() -> None:
    past = parted()
    assert not told(past, NEXT, (3, 4))
    assert told(past, NEXT, (0, 1)) == TEXT
    assert told(past, LATER, (2, 3)) == TEXT
    assert not told(past, LAST, (2, 3))


def test_a_worker_that_did_not_wait_for_the_error_is_told_again_even_after_other_exchanges() -> None:
    past = parted()
    assert told(past, NEXT) == TEXT
    assert not told(past, LATER, (0, 1))
    past.leave(NEXT, 2, {2})
    assert not told(past, LATER, (0, 1))
    assert told(past, LAST, (1, 2)) == TEXT


@pytest.mark.parametrize("how", ["all leave it", "the others learn of it"])
def test_an_exchange_that_had_no_result_anywhere_is_no_split(how: str) -> None:
    past = Past()
    past.ended[SPLIT] = Ended(SPLIT, "exchange 3 (auc)", ALL)
    past.leave(SPLIT, 1, {1, 2} if how == "all leave it" else {1})
    if how == "all leave it":
        past.leave(SPLIT, 0, {0})
    else:
        past.learn(0, SPLIT[:2])
        past.learn(2, SPLIT[:2])
    assert not told(past, NEXT)


def test_who_had_no_part_in_an_exchange_does_not_part_it() -> None:
    past = Past()
    past.ended[SPLIT] = Ended(SPLIT, "exchange 3 (auc)", (0, 1))
    past.leave(SPLIT, 2, {2})
    past.leave(NEXT, 1, {1})
    assert not past.splits and not told(past, LATER)


def test_once_all_have_closed_a_channel_it_is_forgotten_and_no_other_one() -> None:
    past = parted()
    past.fail(SPLIT[:2], b"an error")
    past.fail((8, 1), b"of another channel")
    past.ended[8, 1, 1] = Ended((8, 1, 1), "exchange 1 (auc)", ALL)
    for rank in (0, 1):
        past.close(7, rank, 3)
    assert past.closed[7] == {0, 1} and SPLIT in past.ended and SPLIT in past.splits and SPLIT[:2] in past.failed
    past.close(7, 2, 3)
    assert not past.closed and not past.splits
    assert list(past.failed) == [(8, 1)] and list(past.ended) == [(8, 1, 1)]


def test_what_is_remembered_has_bounds() -> None:
    latest: Latest[int, None] = Latest()
    for number in range(KEPT + 10):
        latest[number] = None
    assert list(latest) == list(range(10, KEPT + 10))
    past = Past()
    for call in range(100):
        place = (7, 2 * call + 1, 1)
        past.ended[place] = Ended(place, "an exchange", ALL)
        past.leave(place, 1, {1})
        assert told(past, (7, 2 * call + 2, 1))
    assert len(past.splits) < 12
