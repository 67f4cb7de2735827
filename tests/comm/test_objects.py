"""Objects cross by their array form; by pickle only if the call asks for it and the workers are authenticated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleetmetrics import Communicator, LocalCommunicator
from fleetmetrics.errors import InvalidInputError, RecordError
from tests.fakes import Together, together


class Proved(Together):
    authenticated = True


class Box:
    """Something that only pickle can carry."""

    def __init__(self, content: int) -> None:
        self.content = content


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


def test_what_has_an_array_form_needs_neither_pickle_nor_proof() -> None:
    def work(comm: Communicator) -> list[Any]:
        mine = {"rank": comm.rank, "rows": [np.arange(comm.rank), (None, "text", 1.5, 2j, b"")]}
        return [repr(comm.all_gather_object(mine)), repr(comm.broadcast_object(mine if comm.rank == 1 else Box(0), 1))]

    found = together([work] * 3)
    assert found[0] == found[1] == found[2]
    assert found[0][1] in found[0][0]


@pytest.mark.parametrize(("kind", "allow_pickle"), [(Together, False), (Together, True), (Proved, False)])
def test_an_object_without_one_is_an_error_on_every_worker(kind: type[Together], allow_pickle: bool) -> None:
    def work(comm: Communicator) -> list[str]:
        texts = []
        for call in (comm.all_gather_object, comm.broadcast_object):
            with pytest.raises(RecordError) as raised:
                call(Trap() if comm.rank == 0 else 0, allow_pickle=allow_pickle)
            texts.append(str(raised.value))
        return [*texts, comm.all_gather_object(1)]

    found = together([work] * 3, kind)
    assert found[0] == found[1] == found[2] and found[0][2] == [1, 1, 1]
    for text in found[0][:2]:
        for part in (
            "test_objects.Trap, which has no array form",
            "both allow_pickle=True and authenticated workers",
        ):
            assert part in text


def test_with_both_conditions_it_comes_back() -> None:
    def work(comm: Communicator) -> list[int]:
        boxes = comm.all_gather_object(Box(comm.rank), allow_pickle=True)
        return [*(box.content for box in boxes), comm.broadcast_object(Box(7), 2, allow_pickle=True).content]

    assert together([work] * 3, Proved) == [[0, 1, 2, 7]] * 3


def test_a_single_worker_gets_the_same_values_and_may_pickle() -> None:
    comm = LocalCommunicator()
    assert comm.all_gather_object([1, "a"]) == [[1, "a"]]
    assert comm.broadcast_object(Box(1), allow_pickle=True).content == 1
    with pytest.raises(RecordError, match="Box, which has no array form"):
        comm.all_gather_object(Box(1))
    with pytest.raises(InvalidInputError, match="src is 1"):
        comm.broadcast_object(1, 1)
