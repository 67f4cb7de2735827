"""One worker of the tests of slices, windows and intervals."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import paddle
from cluster import error_text, report

import fleetmetrics as fm
from fleetmetrics.comm import rows
from fleetmetrics.comm.states import CHUNK_BYTES
from tests.contract import plain
from tests.distributed.test_wrappers import SAMPLES, by_user, collection, fed, samples
from tests.fakes import Recorder

TIMEOUT = 20


def share_of(rank: int, workers: int, names: Any) -> dict[str, Any]:
    """A worker's samples; the last of several has none."""
    filled = max(1, workers - 1)
    start, stop = SAMPLES * rank // filled, SAMPLES * (rank + 1) // filled
    return {name: column[start:stop] for name, column in samples().items() if name in names}


def values(channel: Recorder) -> dict[str, Any]:
    """What a collection computes, and how many exchanges that takes."""
    names = set(samples()) - {"user"}
    share = share_of(channel.rank, channel.world_size, names)
    tensors = {
        name: paddle.to_tensor(column) if name in ("prediction", "label", "weight", "slot") else column
        for name, column in share.items()
    }
    found, told = {}, []
    for kind, mine in {"weighted": share, "of tensors": tensors}.items():
        metrics = fed(collection(), mine)
        before = channel.exchanges + channel.consultations
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found[kind] = plain(metrics.compute(communicator=channel, timeout=TIMEOUT))
        exchanges = channel.exchanges + channel.consultations - before
        told = [str(each.message) for each in caught if each.category is not fm.BucketWarning]
    return {"values": found, "exchanges": exchanges, "warnings": told}


def troubles(channel: Recorder) -> dict[str, str]:
    last = channel.rank == channel.world_size - 1

    def computed(metric: Any, slot: Any) -> Any:
        metric.add([0.5], slot=[slot])
        return metric.compute(timeout=TIMEOUT)

    def unreadable() -> Any:
        metric = fm.Sliced(fm.Count(), name="it")
        if last:
            metric.states["it.samples"].block = lambda scope: 1 / 0
        return computed(metric, 1)

    cases = {
        "kinds of keys": lambda: computed(fm.Sliced(fm.Count(), name="it"), "text" if last else 1),
        "number of keys": lambda: computed(fm.Sliced(fm.Count(), max_keys=6 if last else 5, name="it"), 1),
        "given or not": lambda: computed(fm.Sliced(fm.Count(), keys=[1] if last else None, name="it"), 1),
        "one cannot read": unreadable,
    }
    return {case: error_text(call) for case, call in cases.items()}


def memory(channel: Recorder) -> dict[str, Any]:
    """The most bytes that NumPy and Python took at a time to compute large slices, of which each worker has its own."""
    metrics = fm.MetricCollection(
        {"auc": fm.Sliced(fm.AUC(buckets=2**15)), "mae": fm.MeanAbsoluteError()}, name="large"
    )
    slot = np.arange(240) // 20 + 12 * channel.rank
    metrics.add(np.linspace(0.05, 0.95, 240), np.arange(240) % 2, np.full(240, 0.5), slot=slot)
    held = sum(state.value.nbytes for state in metrics._states() if isinstance(state.value, np.ndarray))
    tracemalloc.start()
    slots = len(metrics.compute(timeout=TIMEOUT)["auc"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"held": held, "peak": peak, "slots": slots}


if __name__ == "__main__":
    channel = Recorder(fm.get_communicator())
    report(rank=channel.rank, **values(channel))

    sliced = fm.Sliced(fm.GAUC(), "country", name="by country")
    fed(sliced, share_of(channel.rank, channel.world_size, ("prediction", "label", "country", "user")))
    report(records=plain(sliced.compute(timeout=TIMEOUT)))

    names = ("prediction", "label", "country", "user")
    sure = fed(by_user(), share_of(channel.rank, channel.world_size, names))
    report(**{"by user": plain(sure.compute(timeout=TIMEOUT))})

    own = samples()["user"] % channel.world_size == channel.rank
    closed = fed(by_user(), {name: column[own] for name, column in samples().items() if name in names})
    closed.close(complete_by="user")
    report(**{"by user, closed": plain(closed.compute(timeout=TIMEOUT))})

    counted = fm.Bootstrap(fm.AUC(buckets=64), 200, name="counted")
    fed(counted, share_of(channel.rank, channel.world_size, ("prediction", "label")))
    report(**{"without ids": plain(counted.compute(timeout=TIMEOUT))})

    rows.LETTER_BYTES = CHUNK_BYTES  # small letters show with small slices what rank 0 holds
    report(memory=memory(channel))
    report(troubles=troubles(channel))
    report(after=int(np.sum(fm.get_communicator().all_gather(np.ones(1, int)))))
