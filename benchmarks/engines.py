"""Evaluate Parquet files on Spark, Ray and Dask, beside one process and beside Spark's own evaluator.

    python benchmarks/engines.py [--rows 10_000_000] [--rounds FACTOR] [--write benchmarks/README.md]

Each variant is called once to warm it up, and then three times; a time is the median. The engines have all processors,
and have been started before. Spark's own evaluator is `BinaryClassificationEvaluator` of spark.ml: one call for each
number of bins, in a session that is warm from all others, for it takes longer than all of them together.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from _report import Target, arguments, machine, table, write

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import fleetmetrics as fm  # noqa: E402
from fleetmetrics import files  # noqa: E402
from fleetmetrics.engines import dask as dask_engine  # noqa: E402
from fleetmetrics.engines import ray, spark  # noqa: E402
from tests.engines import local  # noqa: E402

FILES, USERS, SLOTS, ROUNDS = 16, 50, 50, 3
"""Files; rows of a user; slots; calls that are timed."""
COLUMNS = {"prediction": "score", "label": "label"}
BY_USER = {**COLUMNS, "user": "user"}
TARGET = Target(">=", 10)


class Timed(NamedTuple):
    """A variant: what it took, and what it gave."""

    where: str
    what: str
    seconds: float
    values: list[Any]

    def line(self, rows: int) -> list[str]:
        values = {repr(value) for value in self.values}
        told = f"{self.values[0]!r}" if len(values) == 1 else f"{len(values)} values"
        return [f"{self.where}: {self.what}", f"{self.seconds:.2f}", f"{rows / self.seconds / 1e6:.1f}", told]


def make_files(folder: Path, rows: int) -> None:
    names = np.array([f"slot {number}" for number in range(SLOTS)])
    for number in range(FILES):
        random, some = np.random.default_rng(number), rows // FILES
        score = random.random(some, dtype=np.float32)
        data = {
            "label": (random.random(some) < 0.1 + 0.6 * score).astype(np.int64),
            "score": score,
            "user": random.integers(0, max(2, rows // USERS), some),
            "slot": names[random.integers(0, SLOTS, some)],
        }
        pa.parquet.write_table(pa.table(data), folder / f"part-{number:02}.parquet", row_group_size=131_072)


def states() -> fm.MetricCollection:
    means = {"log_loss": fm.LogLoss(), "copc": fm.COPC(), "mae": fm.MeanAbsoluteError()}
    return fm.MetricCollection({"auc": fm.AUC(), **means, "count": fm.Count()})


def value_of(evaluated: Any) -> Any:
    value = evaluated.metrics.compute_local()
    return value["auc"] if isinstance(value, dict) else value


def timed(where: str, what: str, call: Callable[[], Any], rounds: int, warm: bool = True) -> Timed:
    seconds, values = [], []
    for number in range(-warm, rounds):
        start = time.perf_counter()
        value = call()
        if number >= 0:
            seconds.append(time.perf_counter() - start)
        values.append(value)
    print(f"{where}: {what}: {np.median(seconds):.2f} s", file=sys.stderr, flush=True)
    return Timed(where, what, float(np.median(seconds)), values)


def of_spark(session: Any, folder: str, rounds: int) -> list[Timed]:
    from pyspark.ml.evaluation import BinaryClassificationEvaluator

    frame = session.read.parquet(folder)
    doubles = frame.withColumn("score", frame["score"].cast("double"))  # it takes no others

    def own(bins: int) -> float:
        return BinaryClassificationEvaluator(rawPredictionCol="score", numBins=bins).evaluate(doubles)

    def ours(data: Any, make: Any = states, columns: Any = COLUMNS, **settings: Any) -> Callable[[], Any]:
        return lambda: value_of(spark.evaluate(session, data, make, columns, **settings))

    return [
        timed("Spark", "states, files", ours(folder), rounds),
        timed("Spark", "states, frame", ours(frame), rounds),
        timed("Spark", "GAUC, frame by user", ours(frame, fm.GAUC, BY_USER, complete_by="user"), rounds),
        timed("Spark", "ExactAUC, frame by score", ours(frame, fm.ExactAUC, complete_by="score"), rounds),
        timed("Spark's own", "AUC, numBins=0", lambda: own(0), 1, warm=False),
        timed("Spark's own", "AUC, numBins=1000", lambda: own(1000), 1, warm=False),
    ]


def of_ray(engine: Any, folder: str, rounds: int) -> list[Timed]:
    data = engine.data.read_parquet(folder)

    def ours(data: Any, make: Any = states, columns: Any = COLUMNS, **settings: Any) -> Callable[[], Any]:
        return lambda: value_of(ray.evaluate(data, make, columns, **settings))

    return [
        timed("Ray", "states, files", ours(folder), rounds),
        timed("Ray", "states, dataset", ours(data), rounds),
        timed("Ray", "GAUC, dataset by user", ours(data, fm.GAUC, BY_USER, complete_by="user"), rounds),
    ]


def of_dask(client: Any, folder: str, rounds: int) -> list[Timed]:
    import dask.dataframe

    frame = dask.dataframe.read_parquet(folder)

    def ours(data: Any, make: Any = states, columns: Any = COLUMNS, **settings: Any) -> Callable[[], Any]:
        return lambda: value_of(dask_engine.evaluate(client, data, make, columns, **settings))

    return [
        timed("Dask", "states, files", ours(folder), rounds),
        timed("Dask", "states, frame", ours(frame), rounds),
        timed("Dask", "GAUC, frame by user", ours(frame, fm.GAUC, BY_USER, complete_by="user"), rounds),
    ]


def report(results: list[Timed], rows: int, head: str) -> str:
    """The table, and what it is to show."""
    by_name = {(each.where, each.what): each for each in results}
    frame, own = by_name["Spark", "states, frame"], by_name["Spark's own", "AUC, numBins=0"]
    files_ = by_name["Spark", "states, files"]
    lines = table(["variant", "seconds", "million rows/s", "AUC or GAUC"], [each.line(rows) for each in results])
    ratios = []
    for each in (files_, frame):
        ratio = own.seconds / each.seconds
        reached = "reached" if TARGET.reached(ratio) else "not reached"
        ratios.append(f"{each.what}: {ratio:.0f} times as fast as Spark's own evaluator ({TARGET}: {reached})")
    return f"{head}; {rows:,} rows in {FILES} files.\n\n{lines}\n\n{'; '.join(ratios)}."


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10_000_000, help="rows of all files")
    options = parser.parse_args()
    rounds, cores = max(1, round(ROUNDS * options.rounds)), os.cpu_count() or 1
    versions = {name: importlib.metadata.version(name) for name in ("pyspark", "ray", "dask", "pyarrow", "numpy")}
    head = machine(versions)
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), options.rows)

        def alone(processes: int) -> Callable[[], Any]:
            return lambda: value_of(files.evaluate(folder, states, COLUMNS, processes=processes))

        results = [timed("no engine", f"states, {number} processes", alone(number), rounds) for number in (1, cores)]
        for start, measure in (
            (lambda: local.spark_of(cores, **{"spark.driver.memory": "3g"}), of_spark),
            (lambda: local.ray_of(cores, object_store_memory=2_000_000_000), of_ray),
            (lambda: local.dask_of(cores), of_dask),
        ):
            with ExitStack() as stack:
                before = time.perf_counter()
                engine = stack.enter_context(start())
                print(f"started in {time.perf_counter() - before:.1f} s", file=sys.stderr, flush=True)
                results += measure(engine, folder, rounds)
    text = report(results, options.rows, head)
    print(text)
    if options.write:
        write(options.write, "engines", text)


if __name__ == "__main__":
    main()
