"""One worker that runs the evaluation loops of Paddle's projects, theirs and ours, and asks the doctor."""

from __future__ import annotations

import contextlib
import importlib
import io

import paddle
from cluster import arguments, report

import fleetmetrics

if __name__ == "__main__":
    paddle.set_device("cpu")
    if paddle.distributed.ParallelEnv().nranks > 1:
        paddle.distributed.init_parallel_env()
    with paddle.no_grad():
        for name in arguments()["loops"]:
            report(**{name: importlib.import_module(f"{name}_loop").passes()})
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        fleetmetrics.doctor()
    report(doctor=printed.getvalue())
