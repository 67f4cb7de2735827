"""Workers that compute one metric with different settings all get an error that names the setting and the ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Sequence

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm.states import check_settings
from tests.distributed.cluster import free_ports
from tests.fakes import together

pytestmark = pytest.mark.numpy_only


class Scaled(fm.BaseMetric):
    """A user's metric over records."""

    def __init__(self, scale: float = 1.0, log: Any = None, path: str = "", **common: Any) -> None:
        super().__init__(**common)
        self.scale = scale

    def add(self, values: Sequence[float]) -> None:
        self._results += list(values)

    def compute_metric(self, results: Sequence[float]) -> dict[str, float]:
        return {"scaled": float(np.sum(results)) * self.scale}


class Quiet(Scaled):
    """One whose path cannot change the result."""

    incidental = (*Scaled.incidental, "path")


class Logged(fm.Mean):
    """A user's metric over states, with an object that is no setting of what it computes."""

    def __init__(self, log: Any = None, **common: Any) -> None:
        super().__init__(**common)


def scores(metric: Any, **more: Any) -> None:
    metric.add([0.1, 0.8, 0.6, 0.3], [0, 1, 0, 1], **more)


def one_value(metric: Any) -> None:
    metric.add([1.0])


CASES: dict[str, tuple[Callable[[int], Any], Callable[[Any], None], str]] = {
    "a number": (lambda rank: fm.FBeta(beta=1 + rank), scores, "beta is 2, on rank 0 1"),
    "unset": (lambda rank: fm.ExactAUC(max_fpr=0.5 if rank else None), scores, "max_fpr is 0.5, on rank 0 None"),
    "nan": (lambda rank: fm.Recall(zero_division=1 if rank else np.nan), scores, "zero_division is 1, on rank 0 nan"),
    "a threshold": (lambda rank: fm.Accuracy(threshold=0.5 + rank / 4), scores, "threshold is 0.75, on rank 0 0.5"),
    "a constant of an expression": (lambda rank: fm.Accuracy(name="a") * (rank + 1), scores, " is 2, on rank 0 1"),
    "fixed keys": (
        lambda rank: fm.Sliced(fm.Count(), by="g", keys=[0, 1 + rank]),
        lambda metric: scores(metric, g=[0, 0, 0, 0]),
        "keys is 2, on rank 0 1",
    ),
    "rows by key": (
        lambda rank: fm.Sliced(fm.Precision(zero_division=rank), by="g"),
        lambda metric: scores(metric, g=[0, 1, 0, 1]),
        "in 'metric': zero_division is 1, on rank 0 0",
    ),
    "a member of a collection": (
        lambda rank: fm.MetricCollection({"f": fm.FBeta(beta=1 + rank), "n": fm.Count()}),
        scores,
        "in 'metrics.f': beta is 2, on rank 0 1",
    ),
    "large states": (
        lambda rank: fm.AUC(num_thresholds=2**17 - 1, zero_division=rank), scores, "zero_division is 1, on rank 0 0"
    ),
    "a seed": (
        lambda rank: fm.Bootstrap(fm.Accuracy(), 20, seed=rank, ids="row"),
        lambda metric: scores(metric, row=[1, 2, 3, 4]),
        "seed is 1, on rank 0 0",
    ),
    "a user's metric": (lambda rank: Scaled(scale=1 + rank), one_value, "scale is 2, on rank 0 1"),
    "a string": (lambda rank: Scaled(path=f"{rank}"), one_value, "path is '1', on rank 0 '0'"),
}  # fmt: skip


def on_workers(make: Callable[[int], Any], add: Callable[[Any], None], workers: int = 2) -> list[Any]:
    """What each worker gets, over sockets."""
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    comms = [
        fm.SocketCommunicator(rank=rank, world_size=workers, endpoint=endpoint, secret="of the test")
        for rank in range(workers)
    ]

    def work(rank: int) -> Any:
        metric, found = make(rank), []
        if not isinstance(metric, fm.BaseMetric):
            metric = metric.fresh("m")  # generated names count the metrics of the process, which has all workers here
        add(metric)
        for _ in range(2):
            try:
                if isinstance(metric, fm.BaseMetric):
                    metric.dist_comm = comms[rank]
                    found.append(metric.compute())
                else:
                    found.append(metric.compute(communicator=comms[rank], timeout=20))
            except fm.FleetMetricsError as error:
                found.append(f"{type(error).__name__}: {error}")
        found.append(comms[rank].all_reduce([rank], timeout=20).tolist())
        return found

    found = together([lambda comm: work(comm.rank)] * workers)
    for each in comms[::-1]:
        each.close()
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_setting_that_differs_is_named_on_all_workers_and_the_next_call_works(case: str) -> None:
    make, add, told = CASES[case]
    [first, again, after], *others = on_workers(make, add, 3 if case == "nan" else 2)
    assert [first, again, after] == others[0], others
    where = "on ranks 1, 2, " if case == "nan" else "on rank 1, "
    assert first.startswith("AgreementError: "), first
    assert f"the workers disagree on its settings: {where}" in first and told in first, first
    assert again == first and isinstance(after, list)


def test_settings_that_are_equal_in_value_or_cannot_change_the_result_are_not_compared() -> None:
    makes: list[Callable[[int], Any]] = [
        lambda rank: fm.FBeta(beta=[2, 2.0][rank]),
        lambda rank: fm.Accuracy(validate=rank > 1, threshold=[0.5, np.float64(0.5)][rank]),
        lambda rank: fm.Precision(zero_division=[1, 1.0][rank]),
    ]
    for make in makes:
        one, other = on_workers(make, scores)
        assert one == other and isinstance(one[0], float), one
    for make, value in [
        (lambda rank: Scaled(log=SimpleNamespace(rank=rank)), {"scaled": 2.0}),
        (lambda rank: Quiet(path=str(rank)), {"scaled": 2.0}),
        (lambda rank: Logged(log=SimpleNamespace(rank=rank)), 1.0),
    ]:
        one, other = on_workers(make, one_value)
        assert one[0] == other[0] == value, one


def test_a_setting_that_no_description_fits_counts_by_its_class() -> None:
    class Odd:
        def __getattribute__(self, name: str) -> Any:
            if name in ("__class__", "__dict__"):
                return object.__getattribute__(self, name)
            raise RuntimeError(name)

    assert Logged(log=iter([1]))._terms() == Logged(log=iter([2]))._terms() != Logged()._terms()
    assert Logged(log=Odd())._terms() == Logged(log=Odd())._terms() != Logged()._terms()
    assert Logged(log=1)._terms() != Logged(log="1")._terms()


def test_a_digest_alone_crosses_the_wire_while_settings_agree() -> None:
    sent = []

    def work(comm: Any) -> float:
        metric = fm.Accuracy(threshold=0.125, name="m")
        scores(metric)
        consult = comm.consult
        comm.consult = lambda call, decide, note=None, *rest, **more: (
            sent.append(note) or consult(call, decide, note, *rest, **more)
        )
        return metric.compute(communicator=comm)

    assert together([work] * 2) == [0.75, 0.75]
    assert len(sent) == 2 and "0.125" not in str(sent)


def test_settings_of_peers_are_read_with_care() -> None:
    with pytest.raises(fm.CommunicatorError, match="the message from rank 1 cannot be read"):
        check_settings("auc", ['{"a": 1}', "{"])
    with pytest.raises(fm.AgreementError, match="on ranks 1, 2, they are written differently"):
        check_settings("auc", ['{"a": 1}', '{"a":1}', '{"a":1}'])
    with pytest.raises(fm.AgreementError, match="on rank 1, a is 2, on rank 0 1"):
        check_settings("auc", ['{"a": 1}', '{"a": 2}', '{"a": 1}'])
    check_settings("auc", ["{}", "{}"])
