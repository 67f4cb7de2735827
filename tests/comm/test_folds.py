"""Rank 0's decisions: they need the workers' letters only, and their errors are fit for a log."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest

from fleetmetrics.comm import Block, Letter, RowKeys
from fleetmetrics.comm.communicator import Decide
from fleetmetrics.comm.folds import FOLDS, answered
from fleetmetrics.errors import AgreementError, FleetMetricsError, InvalidInputError, RecordError
from tests.fakes import Together, together


class Noting(Together):
    """Notes what decides."""

    def consult(self, call: str, decide: Decide, *rest: Any, **more: Any) -> Letter:
        self.decides = {*getattr(self, "decides", ()), decide}
        return super().consult(call, decide, *rest, **more)


def test_every_decision_of_a_communicators_own_operations_is_a_fold_that_is_found_by_name() -> None:
    """Rank 0's thread runs them, without any program."""

    def work(comm: Noting) -> list[str]:
        keys = RowKeys("keys", np.arange(2) + comm.rank, 2)
        comm.reduce("small", [Block("n", "sum", np.ones(3))])
        comm.reduce("large", [Block("n", "sum", np.ones(70_000)), keys, Block("rows", "max", np.ones(3), "keys")])
        comm.all_gather(np.arange(100_000))
        comm.broadcast([1.5])
        comm.all_gather_object("a")
        comm.shuffle("letters", [Letter(None, b"a")] * 2)
        comm.barrier()
        with pytest.raises(AgreementError, match="the workers disagree on its settings: on rank 1, a is 1"):
            comm.reduce("small", [], settings=f'{{"a": {comm.rank}}}')
        return sorted(name for name, fold in FOLDS.items() if fold in comm.decides) * (len(comm.decides) == len(FOLDS))

    assert together([work] * 2, Noting) == [sorted(FOLDS)] * 2


@pytest.mark.parametrize("kind", [AgreementError, InvalidInputError, RecordError])
def test_an_error_of_rank_0_that_quotes_a_worker_is_escaped_and_cut(kind: type[FleetMetricsError]) -> None:
    def decide(letters: Sequence[Letter]) -> Letter:
        raise kind(f"the workers disagree: {letters[0].note}")

    with pytest.raises(kind) as caught:
        answered(decide, 3, ["call"] * 2, [Letter("\x1b[2J\n" + "x" * 2_000_000)] * 2)
    said, where = str(caught.value), " at exchange 3" if kind is AgreementError else ""
    assert said.startswith(rf"the workers disagree{where}: \x1b[2J\nxxx") and len(said) < 11_000
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_an_error_of_rank_0_that_needs_nothing_is_raised_as_it_is() -> None:
    error = InvalidInputError("no")

    def decide(letters: Sequence[Letter]) -> Letter:
        raise error

    with pytest.raises(InvalidInputError) as caught:
        answered(decide, 1, ["call"], [Letter(None)])
    assert caught.value is error
