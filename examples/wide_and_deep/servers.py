"""Asynchronous parameter servers: every setting that Paddle 2.6 needs for them.

Each worker computes gradients on its own share and pushes them without waiting for the others; the servers
hold the parameters and the optimizer.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import paddle
from paddle.distributed import fleet

import fleetmetrics
from model import TABLES, Network

SHARDS = 10
"""Into how many parts a server divides a table. With Paddle's default of 1000 a step takes five times as long."""


def minimize(network: Network, learning_rate: float) -> None:
    """Add Adam on the servers. On a worker `network.loss.block.program` is a new program from then on."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    # Paddle waits for servers in steps of 3 s and forever; `await_servers` does it better.
    strategy.a_sync_configs = {"launch_barrier": False}
    for name in TABLES:
        table = strategy.sparse_table_configs.add()
        table.table_name, table.table_class, table.shard_num = name, "MemorySparseTable", SHARDS
    optimizer = paddle.optimizer.Adam(learning_rate)
    fleet.distributed_optimizer(optimizer, strategy).minimize(network.loss)


def serve() -> None:
    """Run this process's server until the launcher ends it."""
    with quiet():
        fleet.init_server()
    fleet.run_server()


def await_servers(patience: float = 60) -> None:
    """Wait until every server accepts connections.

    Raises:
        ConnectionError: a server does not within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    for endpoint in fleet.server_endpoints():
        host, _, port = endpoint.rpartition(":")
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectionError(f"the parameter server at {endpoint} does not answer: {error}") from None
                time.sleep(0.1)


def watch() -> None:
    """From now on, end this process if a server is gone: `Executor.run` would wait for it forever."""

    def check() -> None:
        while True:
            time.sleep(2)
            try:
                await_servers(patience=5)
            except ConnectionError as error:
                print(f"\nerror: {error}", file=sys.stderr, flush=True)
                os._exit(1)

    threading.Thread(target=check, daemon=True).start()


class Parameters:
    """A worker's copy of the dense parameters.

    `Executor.run` looks embeddings up on the servers in each step and pushes every gradient, but never fetches the
    dense parameters back. So it is done here, with the runtime behind `fleet`, for which there is no public name.
    """

    def __init__(self) -> None:
        from paddle.distributed.ps.utils.public import get_the_one_recv_context

        runtime = fleet.fleet._runtime_handle
        self._worker = runtime._worker
        with quiet():
            self._tables = get_the_one_recv_context(runtime.context)

    def pull(self) -> None:
        """Fetch the dense parameters from the servers."""
        for table, names in self._tables.items():
            self._worker.pull_dense_params(paddle.static.global_scope(), table, names)

    def settle(self, workers: fleetmetrics.Communicator) -> None:
        """Wait until the servers have every worker's gradients, then fetch the trained parameters."""
        self._worker.client_flush()
        workers.barrier()
        self.pull()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Paddle's debugging prints and its warnings about tables out of the log."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
