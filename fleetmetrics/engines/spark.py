"""Metrics of files or data frames on Spark."""

from __future__ import annotations

import pickle
import zlib
from typing import Any, Callable, Iterable, Iterator, Mapping

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.engines import WAY, Part, Plan, joined, paths_of
from fleetmetrics.files import Evaluated, Reading
from fleetmetrics.files.parts import Made

__all__ = ["evaluate"]


def evaluate(
    spark: Any,
    files_or_frame: Any,
    make_metrics: Callable[[], Made],
    columns: Mapping[str, Any],
    *,
    complete_by: str | None = None,
    totals: Any = None,
    skip_bad_rows: bool = False,
    reading: Reading | None = None,
) -> Evaluated[Made]:
    """Metrics of files, or of a data frame, by tasks of Spark; see `fleetmetrics.files.evaluate`.

    Args:
        spark: the session.
        files_or_frame: a data frame; or files, as `fleetmetrics.files.find` takes them, which the driver and all
            executors see under the same names. Each is a task, which reads it without Spark: several times faster.
        make_metrics: makes new metrics, without arguments; any function.
        columns: the column for each argument of ``add``.
        complete_by: "user", or the column that metrics are ``by``: a frame is shuffled by it; each file must
            have all samples of its users. "score" for `ExactAUC`: a frame is divided into ranges of the prediction.
        totals: for `ExactAUC` with ``curve="PR"`` or ``max_fpr``: an `ExactAUC` without these, of a first pass.
        skip_bad_rows: whether to skip and count rows with a null or an invalid value.
        reading: how the data are read, beside which columns are what; see `fleetmetrics.files.Reading`.

    Returns:
        The metrics, closed if ``complete_by`` is given, and a record of the data read.

    Raises:
        DataError: a file, a column or a row is invalid.
        InvalidInputError: the metrics keep samples, and ``complete_by`` is missing or not true.

    Examples:
        >>> from pyspark.sql import SparkSession
        >>> from fleetmetrics import AUC
        >>> spark = SparkSession.builder.getOrCreate()
        >>> frame = spark.createDataFrame([(0.1, 0), (0.4, 0), (0.35, 1), (0.8, 1)], "score double, clicked int")
        >>> metrics, read = evaluate(spark, frame, AUC, {"prediction": "score", "label": "clicked"})
        >>> metrics.compute(), read.rows
        (0.75, 4)
    """
    plan = Plan(make_metrics, columns, complete_by, totals, skip_bad_rows, reading)
    if hasattr(files_or_frame, "mapInArrow"):
        column = plan.divided_by(files_or_frame.columns)
        names = [f"c{number}" for number in range(len(plan.names))]  # mapInArrow fails on names such as "a.b"
        quoted = ["`" + name.replace("`", "``") + "`" for name in plan.names]
        frame = files_or_frame.select(*quoted).toDF(*names)
        if column:
            by = frame[names[plan.names.index(column)]]
            if plan.bounds:  # repartitionByRange would draw other boundaries
                by = sum((by >= bound).cast("int") for bound in plan.bounds)
            frame = (frame.repartitionByRange if plan.by_range and not plan.bounds else frame.repartition)(by)
        parts, few = _mapped(frame, plan.of_batches), False
    else:
        paths = paths_of(files_or_frame)

        def of_files(batches: Iterable[Any]) -> Part:
            return joined(plan.of_file(paths[number]) for batch in batches for number in batch["id"].to_pylist())

        parts, few = _mapped(spark.range(0, len(paths), 1, len(paths)), of_files), len(paths) <= WAY
    if not few:  # so that the driver always takes few
        few_parts = parts.repartition(WAY)
        parts = _mapped(few_parts, lambda batches: joined(_joined(batch["part"].to_pylist()) for batch in batches))
    return plan.result(_joined(row.part for row in parts.collect()))


def _mapped(frame: Any, function: Callable[[Iterable[Any]], Part]) -> Any:
    """A frame with a part of each partition."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import cloudpickle  # it pickles classes of a notebook, too

        part = zlib.compress(cloudpickle.dumps(function(batches)), 1)
        yield arrow().RecordBatch.from_pydict({"part": [part]})

    return frame.mapInArrow(task, "part binary")


def _joined(packed: Iterable[bytes]) -> Part:
    return joined(pickle.loads(zlib.decompress(part)) for part in packed)
