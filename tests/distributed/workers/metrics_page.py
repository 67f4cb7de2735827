"""One worker of scripts in the manner of Paddle's page on distributed metrics: unedited, patched, and migrated."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import numpy as np
import paddle
from cluster import report
from launchers import be_a_server
from starting import start

import fleetmetrics as fm
from fleetmetrics.migrate import migrated
from tests.contract import new_programs
from tests.paddle_version import PIR

HEAD = """
import numpy as np
import paddle
import paddle.distributed.fleet as fleet
from paddle.distributed.fleet import metrics

click = paddle.static.data("click", [-1, 1], "float32")
label = paddle.static.data("label", [-1, 1], "int64")
pred, truth = paddle.concat([1 - click, click], axis=1), paddle.cast(label, "float32")
"""
COUNT = """
total_cnt = paddle.static.create_global_var(name="total_cnt", persistable=True, dtype="float32", shape=[1], value=0)
state = paddle.static.create_global_var(name="state", persistable=True, dtype="float32", shape=[1], value=0)
batch_cnt = paddle.sum(paddle.full(shape=[paddle.shape(label)[0], 1], fill_value=1.0))
paddle.assign(state + BATCH, state)
paddle.assign(total_cnt + batch_cnt, total_cnt)
local = state / total_cnt
"""
CORRECT = COUNT.replace("BATCH", "batch_cnt * paddle.static.accuracy(input=pred, label=label)")
ABSERR = COUNT.replace("BATCH", "paddle.nn.functional.l1_loss(click, truth, reduction='sum')")
SQRERR = COUNT.replace("BATCH", "paddle.nn.functional.mse_loss(click, truth, reduction='sum')")
LOSS = "loss = paddle.mean(paddle.nn.functional.square_error_cost(click, truth))\n"
TRAIN = """
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
for feed in batches:
    fetched = exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=FETCHED)
"""
#: By function of the page: the lines before training, what training fetches, and the calls after it.
SECTIONS: dict[str, tuple[str, str, list[str]]] = {
    "sum": (LOSS, "[loss]", ["fleet.metrics.sum(fetched[0])", "metrics.sum(fetched[0], None, fleet.util)"]),
    "max": (LOSS, "[loss]", ["fleet.metrics.max(fetched[0])", "metrics.max(fetched[0])"]),
    "min": (LOSS, "[loss]", ["fleet.metrics.min(fetched[0])", "metrics.min(fetched[0])"]),
}
if not PIR:  # where create_global_var fails, and paddle.static.auc keeps nothing
    of_names = ["fleet.metrics.{}(state, total_cnt)", "metrics.{}('state', 'total_cnt', scope=None, util=fleet.util)"]
    for name, states in (("acc", CORRECT), ("mae", ABSERR), ("mse", SQRERR), ("rmse", SQRERR)):
        SECTIONS[name] = (states, "[local]", [call.format(name) for call in of_names])
    by_hand = "float(fleet.metrics.sum(state)) / float(fleet.metrics.sum(total_cnt))"
    SECTIONS["by hand"] = (CORRECT, "[local]", [by_hand, by_hand.replace("fleet.metrics", "metrics")])
    area = "auc, batch_auc, [_, _, stat_pos, stat_neg] = paddle.static.auc(input=pred, label=label)\n"
    calls = ["fleet.metrics.auc(stat_pos, stat_neg)", "metrics.auc(stat_pos.name, stat_neg.name)"]
    SECTIONS["auc"] = (area, "[auc]", calls)


def values_of(name: str, migrate: bool, batches: list[dict[str, np.ndarray]]) -> list[Any]:
    states, fetched, calls = SECTIONS[name]
    text = HEAD + states + TRAIN.replace("FETCHED", fetched) + f"values = [{', '.join(calls)}]\n"
    if migrate:
        text, left = migrated(text)
        assert left == [] and "fleet.metrics" not in text, text
    room: dict[str, Any] = {"batches": batches}
    with new_programs(), paddle.static.scope_guard(paddle.static.Scope()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, f"{name}.py", "exec"), room)
        return room["values"]


if __name__ == "__main__":
    if os.environ.get("TRAINING_ROLE") == "PSERVER":
        be_a_server()
        sys.exit(0)
    start("ps")
    rank = int(os.environ["PADDLE_TRAINER_ID"])
    random = np.random.default_rng(rank)  # eighths, so that float32 is exact
    batches = [
        {"click": random.integers(0, 9, [size, 1]).astype("float32") / 8, "label": random.integers(0, 2, [size, 1])}
        for size in [4] * (2 + rank)
    ]
    report(batches=[list(batch.values()) for batch in batches])
    report(paddles={name: values_of(name, False, batches) for name in SECTIONS})
    with fm.patch_fleet():
        report(unedited={name: values_of(name, False, batches) for name in SECTIONS})
    report(migrated={name: values_of(name, True, batches) for name in SECTIONS})
