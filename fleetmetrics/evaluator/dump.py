"""Predictions in a file, for `Evaluator.offline_evaluate`."""

from __future__ import annotations

import os
import pickle
from typing import Any, Sequence

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric, logger, to_cpu
from fleetmetrics.evaluator.registry import ENGINE
from fleetmetrics.serial.container import whole_file
from fleetmetrics.xp import is_eager_tensor, namespace

__all__ = ["DumpResults"]


@ENGINE.register_module()
class DumpResults(BaseMetric):
    """Writes all data samples, in order and without padding, into a pickle file on rank 0.

    The file is written completely or not at all. If that fails, every worker raises and keeps its samples.
    Read it with ``pickle.load``, and only if you trust its source.

    Args:
        out_file_path: ends with ".pkl" or ".pickle"; its directory is created if missing.
        collect_device, collect_dir, collect_dir_shared, allow_pickle: as in `BaseMetric`.

    Raises:
        InvalidInputError: (a ValueError) for any other ending.
        OSError: on every worker, from ``evaluate``, if the file cannot be written.

    Examples:
        >>> import tempfile
        >>> dump = DumpResults(os.path.join(tempfile.mkdtemp(), "predictions.pkl"))
        >>> dump.process(None, [{"pred_label": 1}])
        >>> dump.evaluate(1)
        {}
        >>> pickle.load(open(dump.out_file_path, "rb"))
        [{'pred_label': 1}]
    """

    def __init__(
        self,
        out_file_path: str,
        collect_device: str = "cpu",
        collect_dir: str | None = None,
        *,
        collect_dir_shared: bool = True,
        allow_pickle: bool = False,
    ) -> None:
        super().__init__(
            collect_device, "", collect_dir, collect_dir_shared=collect_dir_shared, allow_pickle=allow_pickle
        )
        if not str(out_file_path).endswith((".pkl", ".pickle")):
            raise InvalidInputError("The output file must be a pkl file.")
        self.out_file_path = str(out_file_path)

    def process(self, data_batch: Any, predictions: Sequence[dict[str, Any]]) -> None:
        """Keep the data samples, with their tensors on the host."""
        self.results.extend(to_cpu(list(predictions)))

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        """Write the file and return no values."""
        path = os.path.abspath(self.out_file_path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with whole_file(path) as file:
            _Pickler(file, protocol=4).dump(results)
        logger.info("Results has been saved to %s.", self.out_file_path)
        return {}


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays: Paddle 2.6 cannot pickle them."""

    def reducer_override(self, obj: Any) -> Any:
        if not is_eager_tensor(obj):
            return NotImplemented
        import paddle

        return paddle.to_tensor, (namespace(obj).host(obj), str(obj.dtype).rpartition(".")[2])
