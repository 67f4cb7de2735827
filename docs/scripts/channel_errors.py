"""Print the errors of the workers' channel that the guide quotes: each by real processes, without Paddle.

    python docs/scripts/channel_errors.py

Each case is a function that both workers run; its name says what goes wrong.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import fleetmetrics

TIMEOUT = 3


def different_metrics(rank: int) -> None:
    fleetmetrics.acc(1, 2) if rank == 0 else fleetmetrics.mae(1.0, 2)


def different_shapes(rank: int) -> None:
    fleetmetrics.AUC(num_thresholds=(4095, 199)[rank]).compute()


def bad_input(rank: int) -> None:
    fleetmetrics.sum([1.0, 2.0] if rank == 0 else ["no", "numbers"])


def overflow(rank: int) -> None:
    fleetmetrics.sum(np.array([2**62]))


def late(rank: int) -> None:
    if rank == 1:
        fleetmetrics.get_communicator().barrier()
        time.sleep(2 * TIMEOUT)
        return
    fleetmetrics.get_communicator().barrier()
    fleetmetrics.acc(1, 2)


def killed(rank: int) -> None:
    fleetmetrics.get_communicator().barrier()
    if rank == 1:
        os._exit(1)
    fleetmetrics.acc(1, 2)


def server(rank: int) -> None:
    os.environ["TRAINING_ROLE"] = "PSERVER"
    fleetmetrics.acc(1, 2)


def no_endpoints(rank: int) -> None:
    del os.environ["PADDLE_TRAINER_ENDPOINTS"]
    fleetmetrics.acc(1, 2)


def mpi(rank: int) -> None:
    for name in [name for name in os.environ if name.startswith("PADDLE_")]:
        del os.environ[name]
    os.environ["OMPI_COMM_WORLD_SIZE"] = "2"
    fleetmetrics.acc(1, 2)


class LocalUtil:
    """What `fleet.util` is where Gloo is off."""

    def all_reduce(self, input: list[int], mode: str) -> np.ndarray:
        return np.array(input)


def local_util(rank: int) -> None:
    fleetmetrics.acc(1, 2, util=LocalUtil())


def forked(rank: int) -> None:
    fleetmetrics.acc(1, 2)
    if os.fork() == 0:
        try:
            fleetmetrics.acc(1, 2)
        except fleetmetrics.FleetMetricsError as error:
            show(error)
        os._exit(0)
    os.wait()


CASES = [
    different_metrics,
    different_shapes,
    bad_input,
    overflow,
    late,
    killed,
    forked,
    local_util,
    server,
    no_endpoints,
    mpi,
]


def show(error: Exception) -> None:
    print(f"{type(error).__name__}: {error}", flush=True)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def run(name: str) -> None:
    endpoints = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    workers = []
    for rank in range(2):
        place = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINER_ENDPOINTS": endpoints}
        environment = {**os.environ, **place, "FLEETMETRICS_TIMEOUT": str(TIMEOUT)}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path])
        command = [sys.executable, __file__, name, str(rank)]
        workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    print(f"-- {name}")
    texts = [worker.communicate()[0].strip() for worker in workers]
    if texts[0] == texts[1]:
        print(f"both ranks: {texts[0]}")
    else:
        for rank, text in enumerate(texts):
            print(f"rank {rank}: {text}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        try:
            globals()[sys.argv[1]](int(sys.argv[2]))
        except fleetmetrics.FleetMetricsError as error:
            show(error)
    else:
        for case in CASES:
            run(case.__name__)
