"""One process of a job that Paddle's own launcher has started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cluster import arguments, error_text, report

from fleetmetrics.comm import Block, UtilCommunicator, communicator_for, get_communicator


def exchange(comm: Any) -> list[np.ndarray]:
    blocks = [
        Block("hits", "sum", np.array([2**24 + 1, -comm.rank])),
        Block("loss", "sum", np.array([16777217.0, 0.1 * (comm.rank + 1)])),
        Block("top", "max", np.array([comm.rank])),
    ]
    return comm.reduce("many", blocks)


def be_a_server() -> None:
    """Paddle 3 has no parameter servers: wait until the workers have reported."""
    if os.environ.get("PADDLE_WITH_GLOO") == "1":
        import paddle
        from paddle.distributed import fleet  # the first server holds the addresses of the workers' Gloo

        paddle.enable_static()
        fleet.init(is_collective=False)
    text = error_text(get_communicator)
    Path(os.environ["CLUSTER_DIRECTORY"], f"server {os.environ.get('PADDLE_PORT', '')}").write_text(text)
    workers = int(os.environ["PADDLE_TRAINERS_NUM"])
    while len(list(Path(os.environ["CLUSTER_DIRECTORY"]).glob("[0-9]*.json"))) < workers:
        time.sleep(0.05)
    time.sleep(0.5)


def collective() -> None:
    import paddle
    import paddle.distributed as dist
    from paddle.distributed import fleet

    comm = get_communicator()
    report(before=exchange(comm), dynamic=paddle.in_dynamic_mode())
    dist.init_parallel_env()
    tensor = paddle.to_tensor([1])
    dist.all_reduce(tensor)
    report(paddle_total=tensor.item(), after=exchange(comm))
    fleet.init(is_collective=True)
    report(with_fleet=exchange(get_communicator()), same=get_communicator() is comm)
    paddle.enable_static()
    report(static=exchange(comm), still_static=not paddle.in_dynamic_mode())


def static_first() -> None:
    import paddle
    from paddle.distributed import fleet

    paddle.enable_static()
    report(before=exchange(get_communicator()))
    fleet.init(is_collective=True)
    report(after=exchange(get_communicator()), still_static=not paddle.in_dynamic_mode())


def parameter_server() -> None:
    """As a click-through-rate script does it, on the version that has parameter servers."""
    import paddle
    from paddle.distributed import fleet

    paddle.enable_static()
    report(before=exchange(get_communicator()))
    fleet.init(is_collective=False)
    report(after=exchange(get_communicator()))
    report(util=exchange(communicator_for(fleet.util)), same=communicator_for(fleet.util) is get_communicator())
    if arguments().get("gloo"):
        comm = UtilCommunicator(fleet.util)
        report(by_gloo=exchange(comm), rank=comm.rank, world=comm.world_size)
        report(util_gathered=comm.all_gather(np.arange(comm.rank + 1)), util_large=comm.all_reduce(np.ones(5000))[-1])
        report(util_error=error_text(lambda: comm.reduce("auc", [Block("x", "sum", np.ones(comm.rank + 1))])))
    else:
        report(by_gloo=error_text(lambda: exchange(UtilCommunicator(fleet.util))))


if __name__ == "__main__":
    if os.environ.get("TRAINING_ROLE") == "PSERVER":
        be_a_server()
        sys.exit(0)
    globals()[arguments()["case"]]()
    report(done=True)
    sys.stdout.flush()
