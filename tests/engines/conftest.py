"""Each engine is started once, when the first test asks for it; its tests come one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

import pytest

from tests.engines import local


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    settings = {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "1g", "spark.driver.maxResultSize": "1m"}
    with local.spark_of(3, **settings) as session:
        yield session


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    with local.ray_of(2, object_store_memory=200_000_000) as engine:
        yield engine


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    with local.dask_of(2) as engine:
        yield engine


class Engine(NamedTuple):
    """An engine as the tests know it."""

    evaluate: Callable[..., Any]
    frame: Callable[[Any, int], Any]  #: of an Arrow table, and a number of partitions


@pytest.fixture(scope="session", params=["spark", "ray", "dask", "dask without a client"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "spark":
        from fleetmetrics.engines.spark import evaluate

        session = request.getfixturevalue("spark")

        def evaluate_on_spark(*args: Any, **settings: Any) -> Any:
            return evaluate(session, *args, **settings)

        return Engine(evaluate_on_spark, lambda table, parts: session.createDataFrame(table).repartition(parts))
    if request.param == "ray":
        from fleetmetrics.engines.ray import evaluate as evaluate_on_ray

        data = request.getfixturevalue("ray").data
        return Engine(
            evaluate_on_ray,
            lambda table, parts: data.from_arrow([table.slice(n, len(table) // parts) for n in starts(table, parts)]),
        )
    import dask.dataframe

    from fleetmetrics.engines.dask import evaluate as evaluate_on_dask

    client = None if "without" in request.param else request.getfixturevalue("client")

    def frame(table: Any, parts: int) -> Any:
        return dask.dataframe.from_pandas(table.to_pandas(), npartitions=parts, sort=False)

    return Engine(lambda *args, **settings: evaluate_on_dask(client, *args, **settings), frame)


def starts(table: Any, parts: int) -> range:
    assert len(table) % parts == 0
    return range(0, len(table), max(1, len(table) // parts))
