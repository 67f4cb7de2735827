"""Metrics of files or datasets on Ray."""

from __future__ import annotations

import pickle
from typing import Any, Callable, Mapping

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.engines import Plan, joined, paths_of, tree
from fleetmetrics.files import Evaluated, Reading
from fleetmetrics.files.parts import Made
from fleetmetrics.support.optional import library

__all__ = ["evaluate"]


def evaluate(
    files_or_dataset: Any,
    make_metrics: Callable[[], Made],
    columns: Mapping[str, Any],
    *,
    complete_by: str | None = None,
    totals: Any = None,
    skip_bad_rows: bool = False,
    reading: Reading | None = None,
) -> Evaluated[Made]:
    """Metrics of files, or of a dataset of ``ray.data``, by tasks of Ray.

    The other arguments, the result and the errors are those of `fleetmetrics.engines.spark.evaluate`.

    Examples:
        >>> import ray
        >>> from fleetmetrics import AUC
        >>> dataset = ray.data.from_items([{"p": 0.1, "y": 0}, {"p": 0.4, "y": 0}, {"p": 0.35, "y": 1}])
        >>> metrics, read = evaluate(dataset, AUC, {"prediction": "p", "label": "y"})
        >>> metrics.compute(), read.rows
        (0.5, 3)
    """
    ray = library("ray")
    plan = Plan(make_metrics, columns, complete_by, totals, skip_bad_rows, reading)
    if hasattr(files_or_dataset, "map_batches"):
        read = ray.remote(lambda table: joined(map(pickle.loads, table["part"].to_pylist())))
        parts = [read.remote(table) for table in _tables(ray, files_or_dataset, plan)]
    else:
        of_file = ray.remote(lambda path: plan.of_file(path))
        parts = [of_file.remote(path) for path in paths_of(files_or_dataset)]
    join = ray.remote(lambda *parts: joined(parts))
    return plan.result(ray.get(tree(parts, lambda some: join.remote(*some))))


def _tables(ray: Any, dataset: Any, plan: Plan) -> list[Any]:
    """References to tables with the pickled parts of blocks of a dataset."""
    column = plan.divided_by(dataset.columns())
    blocks = dataset.select_columns(plan.names)
    if plan.by_range:
        blocks = blocks.sort(column, boundaries=plan.bounds or None)  # otherwise each pass draws new boundaries
    elif column:
        blocks = blocks.repartition(4 * int(ray.cluster_resources()["CPU"]), keys=[column])

    def of_block(table: Any) -> Any:
        part = ray.cloudpickle.dumps(plan.of_batches([table]))  # it pickles classes of a notebook, too
        return arrow().table({"part": [part]})

    size = blocks.context.target_max_block_size
    try:
        if plan.by_range:
            blocks.context.target_max_block_size = None  # so that equal scores stay in one block
        return blocks.map_batches(of_block, batch_size=None, batch_format="pyarrow").to_arrow_refs()
    finally:
        blocks.context.target_max_block_size = size
