"""A consultation: everybody brings something, rank 0 alone sees it all, everybody hears the same."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest

from fleetmetrics import Communicator, CommunicatorError, InvalidInputError, LocalCommunicator
from fleetmetrics.comm import Block
from fleetmetrics.comm.communicator import Letter


class Plain(Communicator):
    """A communicator of a user's own, with no consultation: one worker."""

    rank, world_size = 0, 1

    def reduce(self, call: str, blocks: Sequence[Block], *, timeout: Any = None, trouble: Any = None) -> Any:
        raise NotImplementedError

    def all_gather(self, array: Any, *, timeout: Any = None) -> list[np.ndarray]:
        return [np.array(array)]

    def broadcast(self, array: Any, source: int = 0, *, timeout: Any = None) -> np.ndarray:
        return np.array(array)

    def close(self) -> None:
        pass


def echo(letters: Sequence[Letter]) -> Letter:
    return Letter([letter.note for letter in letters], [bytes(letter.payload) for letter in letters])


CHANNELS = pytest.mark.parametrize("channel", [LocalCommunicator(), Plain()], ids=["local", "plain"])


@CHANNELS
@pytest.mark.parametrize("payload", [b"", b"abc", [b"ab", b"", memoryview(b"c")]])
def test_the_answer_is_what_rank_0_makes_of_the_letters(channel: Communicator, payload: Any) -> None:
    answer = channel.consult("auc", echo, {"n": 3}, payload)
    assert answer.note == [{"n": 3}]
    assert bytes(answer.payload) == b"".join([payload] if isinstance(payload, bytes) else payload)


@CHANNELS
def test_trouble_is_raised(channel: Communicator) -> None:
    with pytest.raises(InvalidInputError, match="size is -1"):
        channel.consult("auc", echo, trouble=InvalidInputError("size is -1"))


@CHANNELS
def test_what_rank_0_raises_is_raised(channel: Communicator) -> None:
    def refuse(letters: Sequence[Letter]) -> Letter:
        raise InvalidInputError("no")

    with pytest.raises(InvalidInputError, match="no"):
        channel.consult("auc", refuse)


@CHANNELS
def test_a_wrong_timeout_is_an_error(channel: Communicator) -> None:
    with pytest.raises(InvalidInputError, match="timeout is 0"):
        channel.consult("auc", echo, timeout=0)


def test_a_closed_channel_is_an_error() -> None:
    channel = LocalCommunicator()
    channel.close()
    with pytest.raises(CommunicatorError, match="closed"):
        channel.consult("auc", echo)
