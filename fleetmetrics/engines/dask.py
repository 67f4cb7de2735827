"""Metrics of files or data frames on Dask."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from fleetmetrics.columns.frames import table_of
from fleetmetrics.engines import Plan, joined, paths_of, tree
from fleetmetrics.files import Evaluated, Reading
from fleetmetrics.files.parts import Made
from fleetmetrics.support.optional import library

__all__ = ["evaluate"]


def evaluate(
    client: Any,
    files_or_frame: Any,
    make_metrics: Callable[[], Made],
    columns: Mapping[str, Any],
    *,
    complete_by: str | None = None,
    totals: Any = None,
    skip_bad_rows: bool = False,
    reading: Reading | None = None,
) -> Evaluated[Made]:
    """Metrics of files, or of a frame of ``dask.dataframe``, by tasks of Dask: of a client, or without one.

    The other arguments, the result and the errors are those of `fleetmetrics.engines.spark.evaluate`.

    Examples:
        >>> import dask.dataframe, pandas
        >>> from fleetmetrics import AUC
        >>> rows = pandas.DataFrame({"p": [0.1, 0.4, 0.35, 0.8], "y": [0, 0, 1, 1]})
        >>> frame = dask.dataframe.from_pandas(rows, npartitions=2)
        >>> metrics, read = evaluate(None, frame, AUC, {"prediction": "p", "label": "y"})
        >>> metrics.compute(), read.rows
        (0.75, 4)
    """
    delayed = library("dask").delayed
    plan = Plan(make_metrics, columns, complete_by, totals, skip_bad_rows, reading)
    if hasattr(files_or_frame, "to_delayed"):
        column = plan.divided_by(list(files_or_frame.columns))
        frame = files_or_frame[plan.names]
        if column:
            frame = frame.set_index(column, drop=False) if plan.by_range else frame.shuffle(column)
        of_partition = delayed(lambda part: plan.of_batches([table_of(part, plan.names)]))
        parts = [of_partition(partition) for partition in frame.to_delayed()]
    else:
        of_file = delayed(plan.of_file)
        parts = [of_file(path) for path in paths_of(files_or_frame)]
    whole = tree(parts, delayed(joined))
    return plan.result(whole.compute() if client is None else client.compute(whole).result())
