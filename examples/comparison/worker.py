"""One process of a job of the comparison: asks `paddle.distributed.fleet.metrics` and fleetmetrics the same.

`compare.py` starts it. Every answer is written down as it comes, one JSON file per rank, so that a process which
dies or waits forever leaves its earlier answers behind.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any, Callable

os.environ.setdefault("GLOG_minloglevel", "2")

import numpy as np
import paddle
from paddle.distributed import fleet
from paddle.distributed.fleet import metrics as fleet_metrics

import fleetmetrics
from data import BIG_BATCH, BIG_BATCHES, BUCKETS, PATIENCE, SMALL_BATCHES, clicks, counted

RANK = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
ANSWERS: dict[str, dict[str, str]] = {}


def ask(question: str, side: str, call: Callable[[], Any]) -> None:
    """Write down what one side answers: a number or an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = text(call())
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    ANSWERS.setdefault(question, {})[side] = answer
    path = Path(os.environ["COMPARISON_DIRECTORY"]) / f"{RANK}.json"
    path.with_suffix(".half").write_text(json.dumps(ANSWERS))
    path.with_suffix(".half").replace(path)


def text(value: Any) -> str:
    number = np.asarray(value).item()
    if isinstance(number, float):
        return f"{number:.0f}" if number.is_integer() else f"{number:.6f}"
    return str(number)


def both(question: str, paddle_call: Callable[[], Any], our_call: Callable[[], Any]) -> None:
    """fleetmetrics is asked first, since what follows may end the process."""
    ask(question, "fleetmetrics", our_call)
    ask(question, "fleet.metrics", paddle_call)


def inputs() -> tuple[Any, Any]:
    return paddle.static.data("prediction", [-1, 1], "float32"), paddle.static.data("label", [-1, 1], "int64")


def two_classes(prediction: Any) -> Any:
    return paddle.concat([1 - prediction, prediction], axis=1)


def executor() -> Any:
    """An executor whose startup program has run."""
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    return executor


# -- parameter servers, Paddle 2.6: a static program on every worker --------------------------------------------


def gloo_on() -> None:
    prediction, label = inputs()
    _, absolute_error, _, _, _, total = paddle.static.ctr_metric_bundle(prediction, paddle.cast(label, "float32"))
    count, mae = fleetmetrics.Count(name="count"), fleetmetrics.MeanAbsoluteError(name="mae")
    count.add(prediction)
    mae.add(prediction, label)
    exe = executor()
    for size in [BIG_BATCH] * BIG_BATCHES + [1] * SMALL_BATCHES:
        exe.run(feed=counted(size))
    both("number of samples", lambda: fleet_metrics.sum(total), count.compute)
    both("their MAE", lambda: fleet_metrics.mae(absolute_error, total), mae.compute)

    numbers = {
        "sum of 16777217.0 and 16777217.0": np.array([16777217.0]),
        "sum of -5 and 3": np.array([(-5, 3)[RANK]]),
        "sum of 3 and 2.5": np.array([(3, 2.5)[RANK]], (np.int64, np.float64)[RANK]),
    }
    zero = np.array([0.0])
    both("MSE of no samples", lambda: fleet_metrics.mse(zero, zero), lambda: fleetmetrics.mse(zero, zero))
    for question, number in numbers.items():
        both(question, lambda: fleet_metrics.sum(number), lambda: fleetmetrics.sum(number))  # noqa: B023


def late_worker() -> None:
    if RANK == 1:
        time.sleep(10 * PATIENCE)
    correct, total = np.array([3]), np.array([4])
    question = "accuracy, worker 1 never asks"
    both(question, lambda: fleet_metrics.acc(correct, total), lambda: fleetmetrics.acc(correct, total))


def gloo_off() -> None:
    prediction, label = inputs()
    _, _, (_, _, positive, negative) = paddle.static.auc(two_classes(prediction), label, num_thresholds=BUCKETS)
    bundle = paddle.static.ctr_metric_bundle(prediction, paddle.cast(label, "float32"))
    auc = fleetmetrics.AUC(name="auc", num_thresholds=BUCKETS)
    mae = fleetmetrics.MeanAbsoluteError(name="mae")
    auc.add(prediction, label)
    mae.add(prediction, label)
    executor().run(feed=clicks(RANK))
    both("AUC", lambda: fleet_metrics.auc(positive, negative), auc.compute)
    both("MAE", lambda: fleet_metrics.mae(bundle[1], bundle[5]), mae.compute)


# -- no servers: `paddle.distributed.launch` -------------------------------------------------------------------


def dynamic() -> None:
    fleet.init(is_collective=True, log_level="ERROR")
    batch = clicks(RANK)
    prediction, label = paddle.to_tensor(batch["prediction"]), paddle.to_tensor(batch["label"])
    correct = paddle.sum((prediction > 0.5) == paddle.cast(label, "bool")).reshape([1])
    total = paddle.to_tensor([label.shape[0]])
    accuracy = fleetmetrics.Accuracy(name="accuracy")
    accuracy.add(prediction, label)
    both("accuracy from tensors", lambda: fleet_metrics.acc(correct, total), accuracy.compute)
    arrays = correct.numpy(), total.numpy()
    both("accuracy from arrays", lambda: fleet_metrics.acc(*arrays), lambda: fleetmetrics.acc(*arrays))


def pir() -> None:
    fleet.init(is_collective=True, log_level="ERROR")
    paddle.enable_static()
    prediction, label = inputs()
    _, positive, negative = paddle.static.auc(two_classes(prediction), label, num_thresholds=BUCKETS)
    auc = fleetmetrics.AUC(name="auc", num_thresholds=BUCKETS)
    auc.add(prediction, label)
    arrays = executor().run(feed=clicks(RANK), fetch_list=[positive, negative])
    both("AUC from the program", lambda: fleet_metrics.auc(positive, negative), auc.compute)
    both("AUC from fetched arrays", lambda: fleet_metrics.auc(*arrays), lambda: fleetmetrics.auc(*arrays))


def beside_servers(questions: Callable[[], None]) -> None:
    """Ask on the workers of a parameter-server job with a minimal model."""
    paddle.enable_static()
    fleet.init(log_level="ERROR")
    x = paddle.static.data("x", [-1, 1], "float32")
    loss = paddle.mean(paddle.static.nn.fc(x, 1))
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.0), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor()
    fleet.init_worker()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        questions()
    fleet.stop_worker()


if __name__ == "__main__":
    job = globals()[os.environ["COMPARISON_JOB"]]
    if job in (dynamic, pir):
        job()
    else:
        beside_servers(job)
