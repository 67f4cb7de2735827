"""One worker that runs the evaluation loops of Paddle's projects, theirs and ours."""

from __future__ import annotations

import importlib

import paddle
from cluster import arguments, report

if __name__ == "__main__":
    paddle.set_device("cpu")
    if paddle.distributed.ParallelEnv().nranks > 1:
        paddle.distributed.init_parallel_env()
    with paddle.no_grad():
        for name in arguments()["loops"]:
            report(**{name: importlib.import_module(f"{name}_loop").passes()})
