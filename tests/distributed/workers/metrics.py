"""One worker that computes every metric in every mode over its share of the samples."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import paddle
from cluster import arguments, error_text, report
from launchers import be_a_server
from starting import start

import fleetmetrics as fm
from tests.contract import (
    CASES,
    MODES,
    batches,
    digest,
    draw,
    feed,
    feed_together,
    first_dtypes,
    plain,
    shares,
)
from tests.fakes import Recorder

#: How many metrics share a static program: Paddle's time to prepare one grows with the square of its operations.
PROGRAM = 12


def parts_of(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


def every_metric(channel: Recorder, util: Any) -> dict[str, Any]:
    """Value and digest of the global states of each case, mode and split."""
    found = {}
    for split, weight in arguments()["splits"]:
        modes = {name: of for name, of in arguments()["modes"][split].items() if of}
        entries = {}
        for name in modes:
            data = draw(name, first_dtypes(name), weight, mask=True)
            entries[name] = data, batches(data.rows(*shares(channel.world_size, split)[channel.rank]))
        together = {name: CASES[name].make() for name, of in modes.items() if "static" in of}
        scopes = {}
        for part in parts_of(list(together), PROGRAM):
            scopes.update(dict.fromkeys(part, feed_together([(together[name], *entries[name]) for name in part])))
        for name, of in modes.items():
            for mode in of:
                metric = together[name] if mode == "static" else CASES[name].make()
                where = scopes[name] if mode == "static" else feed(metric, entries[name][1], mode)
                value = metric.compute(where, communicator=channel)
                states = channel.arrays[len(metric._check.states) :]
                found[f"{name}/{mode}/{split}"] = plain(value), digest(states)
                if util is not None and mode == "numpy":
                    assert repr(metric.compute(where, util=util)) == repr(value), name
    return found


def collection(channel: Recorder) -> dict[str, Any]:
    """The values of many metrics, and how many exchanges they took."""
    found = {}
    data = draw("auc", ("float32", "int64"), "eighths", mask=True)
    mine = data.rows(*shares(channel.world_size, "empty")[channel.rank])
    for mode in MODES:
        members = [
            fm.AUC(name="auc"),
            fm.Accuracy(name="accuracy"),
            fm.LogLoss(name="loss"),
            fm.MeanSquaredError(name="mse"),
            fm.Count(name="n"),
        ]
        together = fm.MetricCollection(members, name=f"together in {mode} mode")
        scope = feed(together, batches(mine), mode, data)
        before = channel.exchanges
        found[mode] = repr(together.compute(scope, communicator=channel))
        assert channel.exchanges == before + 1
    return found


def troubles(channel: Recorder) -> dict[str, str]:
    """The error that every worker must raise in the same words."""
    last = channel.rank == channel.world_size - 1
    data = draw("auc", samples=9)
    broken = data._replace(label=data.label + 5 * last)

    def invalid_on_the_last() -> Any:
        metric = fm.AUC(name="deferred")
        return metric.compute(feed(metric, [broken], "static"), timeout=20)

    def never_started_on_the_last() -> Any:
        metric = fm.AUC(name="never started")
        scope = feed(metric, [data], "static")
        return metric.compute(paddle.static.Scope() if last else scope, timeout=20)

    def overflow() -> Any:
        metric = fm.Sum(name="large")
        metric.add([2**63 - 5])
        return metric.compute(timeout=20)

    def undefined() -> Any:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            return fm.AUC(name="undefined").compute(timeout=20), [w.category.__name__ for w in told]

    cases = {
        "other metric": lambda: (fm.Count(name="it") if last else fm.AUC(name="it")).compute(timeout=20),
        "other name": lambda: fm.AUC(name="mine" if last else "yours").compute(timeout=20),
        "other settings": lambda: fm.AUC(name="it", num_thresholds=7 if last else 9).compute(timeout=20),
        "other order": lambda: [fm.AUC(name=n).compute(timeout=20) for n in (("b", "a") if last else ("a", "b"))],
        "other members": lambda: fm.MetricCollection(
            [fm.Count(name="n"), *[fm.AUC(name="a")] * last], name="it"
        ).compute(timeout=20),
        "invalid": invalid_on_the_last,
        "never started": never_started_on_the_last,
        "overflow": overflow,
        "undefined": undefined,
    }
    return {case: error_text(call) for case, call in cases.items()}


if __name__ == "__main__":
    if os.environ.get("TRAINING_ROLE") == "PSERVER":
        be_a_server()
        sys.exit(0)
    util = start(arguments()["launch"])
    channel = Recorder(fm.get_communicator())
    report(rank=channel.rank, world=channel.world_size, found=every_metric(channel, util))
    report(collection=collection(channel), troubles=troubles(channel))
