"""One worker of the tests of records that are processed in order, piece by piece."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from cluster import arguments, error_text, report

import fleetmetrics as fm
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.records import fold
from tests.distributed.test_fold import SAMPLES, samples

TIMEOUT = 20


class Watching(RecordMetric):
    """Keeps a column, and tells how it was shown to it."""

    columns = ("user",)
    error: Any = None

    def __init__(self, name: str | None = None, order: str | None = "user") -> None:
        super().__init__(name=name)
        self.keep_records(("user", "score", "weight"), order=order, key=None)

    def batch_records(self, batch: Any) -> Any:
        return {"user": batch.column("user"), "score": batch.values, "weight": batch.weight}

    def start(self) -> Any:
        return {"seen": [], "scores": [], "pieces": 0, "largest": 0}

    def fold(self, carry: Any, records: Any, states: Any) -> Any:
        if self.error is not None:
            raise self.error
        users = records["user"].tolist()
        assert self.table.order is None or users == sorted(users)
        assert not set(users) & set(carry["seen"])
        return {
            "seen": carry["seen"] + sorted(set(users)),
            "scores": carry["scores"] + sorted(records["score"].tolist()),
            "pieces": carry["pieces"] + 1,
            "largest": max(carry["largest"], len(users)),
        }

    def formula(self, **carry: Any) -> Any:
        return carry


def fed(metric: Any, share: Any, weighted: bool = False) -> Any:
    for start in range(0, len(share["score"]), 50):
        part = {name: column[start : start + 50] for name, column in share.items()}
        metric.add(part["score"], part["label"], np.ones(len(part["score"])) if weighted else None, user=part["user"])
    return metric


def together(share: Any) -> dict[str, Any]:
    """A collection whose members share what is kept, and others that do not."""
    metrics = fm.MetricCollection(
        {"gauc": fm.GAUC(), "uauc": fm.UAUC(), "ndcg": fm.NDCG(by="user"), "map": fm.MAP(by="user"), "n": fm.Count()}
    )
    fed(metrics, share)
    return {"tables": len(metrics.record_folds()), "values": metrics.compute(timeout=TIMEOUT)}


def troubles(share: Any, last: bool) -> dict[str, Any]:
    def timed(call: Any) -> Any:
        began = time.monotonic()
        return error_text(call), time.monotonic() - began

    def texts_here() -> Any:
        given = {**share, "user": share["user"].astype(str)} if last else share
        return fed(fm.GAUC(name="it"), given).compute(timeout=TIMEOUT)

    def mixed_on_the_last() -> Any:
        metric = fed(fm.GAUC(name="it"), share)
        if last:
            metric.add([0.5, 0.25], [1, 0], user=["a", "b"])
        return metric.compute(timeout=TIMEOUT)

    def failing() -> Any:
        metric = fed(Watching("it"), share)
        metric.error = KeyError("in fold")
        return metric.compute(timeout=TIMEOUT)

    def other_metric() -> Any:
        return fed((fm.UAUC if last else fm.GAUC)(name="it"), share).compute(timeout=TIMEOUT)

    return {call.__name__: timed(call) for call in (texts_here, mixed_on_the_last, failing, other_metric)}


if __name__ == "__main__":
    channel = fm.get_communicator()
    rank, world = channel.rank, channel.world_size
    last = rank == world - 1
    for kind in ("integers", "texts"):
        everything = samples(kind)
        # the last worker of several has nothing
        filled = max(1, world - 1)
        mine = np.arange(SAMPLES) % filled == rank
        share = {name: column[mine] for name, column in everything.items()}
        found = {}
        for size in arguments()["round_bytes"]:
            fold.ROUND_BYTES = size
            watching = fed(Watching(f"it {kind} {size}"), share, weighted=rank == 0)
            found[str(size)] = watching.compute(timeout=TIMEOUT)
            assert watching.compute(timeout=TIMEOUT) == found[str(size)]
            found[f"collection {size}"] = together(share)
        unordered = fed(Watching(f"{kind} without order", order=None), share)
        found["unordered"] = unordered.compute(timeout=TIMEOUT)
        report(**{kind: found})
    share = samples("integers")
    report(rank=rank, world=world, troubles=troubles(share, last), after=fed(fm.GAUC(name="again"), share).compute())
