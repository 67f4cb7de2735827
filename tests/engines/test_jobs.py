"""Training jobs inside of an engine: its tasks and actors are the workers of one channel, and get one number."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm

WORKERS = 3


def metrics() -> fm.MetricCollection:
    return fm.MetricCollection({"loss": fm.LogLoss(), "auc": fm.ExactAUC(), "gauc": fm.GAUC()})


def add(metrics: Any, ranks: Any) -> Any:
    for rank in ranks:
        random = np.random.default_rng(rank)
        scores = random.random(500)
        metrics.add(scores, random.random(500) < scores, user=random.integers(0, 40, 500))
    return metrics


@pytest.fixture(scope="module")
def alone() -> dict[str, float]:
    return fm.merge_all([add(metrics(), [rank]) for rank in range(WORKERS)]).compute_local()


def free_endpoint(host: str) -> str:
    with socket.create_server(("", 0)) as free:
        return f"{host}:{free.getsockname()[1]}"


def workers_of_the_stage() -> fm.SocketCommunicator:
    """In a barrier task: the channel to the others, of which the first one has found a free port."""
    from pyspark import BarrierTaskContext

    task = BarrierTaskContext.get()
    tasks, rank = task.getTaskInfos(), task.partitionId()
    endpoint, *_ = task.allGather(free_endpoint(tasks[0].address.partition(":")[0]))
    return fm.SocketCommunicator(rank=rank, world_size=len(tasks), endpoint=endpoint, secret="of this job")


def test_the_barrier_tasks_of_spark_compute_what_one_process_does(spark, alone):
    def train(ranks: Any) -> Any:
        with workers_of_the_stage() as workers:
            yield add(metrics(), ranks).compute(communicator=workers, timeout=60)

    data = spark.sparkContext.parallelize(range(WORKERS), WORKERS)
    assert data.barrier().mapPartitions(train).collect() == [alone] * WORKERS


def test_a_barrier_stage_of_a_data_frame_is_a_job_too(spark, alone):
    def train(batches: Any) -> Any:
        import pyarrow

        with workers_of_the_stage() as workers:
            part = metrics()
            for batch in batches:
                add(part, batch["id"].to_pylist())
            yield pyarrow.RecordBatch.from_pylist([part.compute(communicator=workers, timeout=60)])

    schema = "loss double, auc double, gauc double"
    frame = spark.range(0, WORKERS, 1, WORKERS).mapInArrow(train, schema, barrier=True)
    assert [row.asDict() for row in frame.collect()] == [alone] * WORKERS


class Worker:
    """An actor of Ray."""

    def endpoint(self) -> str:
        import ray

        return free_endpoint(ray.util.get_node_ip_address())

    def train(self, rank: int, world_size: int, endpoint: str, timeout: float) -> Any:
        with fm.SocketCommunicator(
            rank=rank, world_size=world_size, endpoint=endpoint, secret="of this job"
        ) as workers:
            try:
                return add(metrics(), [rank]).compute(communicator=workers, timeout=timeout)
            except fm.CommunicatorError as error:
                return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def actors(ray: Any) -> Any:
    kind = ray.remote(num_cpus=0)(Worker)
    return [kind.remote() for _ in range(WORKERS)]


def trained(ray: Any, actors: list[Any], world_size: int, timeout: float) -> list[Any]:
    endpoint = ray.get(actors[0].endpoint.remote())
    tasks = [actor.train.remote(rank, world_size, endpoint, timeout) for rank, actor in enumerate(actors)]
    return ray.get(tasks)


def test_the_actors_of_ray_compute_what_one_process_does(ray, actors, alone):
    assert trained(ray, actors, WORKERS, 60) == [alone] * WORKERS


def test_where_an_actor_never_comes_the_others_get_an_error_and_no_number(ray, actors):
    told = trained(ray, actors[:2], WORKERS, 3)
    assert all(text.startswith("DeadlineError") and "rank 2" in text for text in told), told
