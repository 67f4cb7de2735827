"""``BaseMetric`` of the `Evaluator`, after MMEngine's."""

from __future__ import annotations

import logging
import sys
from typing import Any, Sequence

from fleetmetrics.comm import get_communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import Columns
from fleetmetrics.records.gather import gather
from fleetmetrics.records.share import Recorder, Share
from fleetmetrics.sampling import Dealing
from fleetmetrics.xp import is_eager_tensor

__all__ = ["BaseMetric", "to_cpu"]

_DEVICES = ("cpu", "gpu", "npu")
logger = logging.getLogger("fleetmetrics")


class BaseMetric(Recorder):
    """A metric that an `Evaluator` feeds: ``process`` appends one record per sample to ``self.results``.

    Derive from it, and define ``process(data_batch, data_samples)`` and ``compute_metrics(results)``, as with MMEngine.
    Where a sum will do, define ``summarize(results)`` and ``compute_from(states)`` as well (or instead of
    ``compute_metrics``): then only states travel between workers.

    Differs from MMEngine where that gives a wrong number: records that are None are records; workers with unequally
    many lose none; a ``size`` larger than what was gathered is an error; ``collect_dir`` is never emptied of what the
    metric did not write; what ``compute_metrics`` raises is raised on every worker, and the results are kept.

    Args:
        collect_device: "cpu", "gpu" or "npu"; records cross through the host in any case.
        prefix: put before the names of the results, with a slash; None: the class's ``default_prefix``.
        collect_dir: a directory through which the records go to rank 0 instead of through memory; it is made if need
            be.
        collect_dir_shared: False if the workers do not see the same ``collect_dir``.
        allow_pickle: whether records that have no array form may be pickled on their way to another worker.

    Raises:
        ValueError: if ``collect_dir`` is given and ``collect_device`` is not "cpu".
        NotImplementedError: for another device.

    Examples:
        >>> class Positive(BaseMetric):
        ...     default_prefix = "positive"
        ...     def process(self, data_batch, data_samples):
        ...         self.results.extend(sample["score"] > 0 for sample in data_samples)
        ...     def compute_metrics(self, results):
        ...         return {"share": sum(results) / len(results)}
        >>> metric = Positive()
        >>> metric.process(None, [{"score": 0.5}, {"score": -0.5}])
        >>> metric.evaluate(size=2)
        {'positive/share': 0.5}
    """

    _computed_by = "compute_metrics"
    #: The prefix of metrics that are given none.
    default_prefix: str | None = None

    def __init__(
        self,
        collect_device: str = "cpu",
        prefix: str | None = None,
        collect_dir: str | None = None,
        *,
        collect_dir_shared: bool = True,
        allow_pickle: bool = True,
    ) -> None:
        if type(self).process is BaseMetric.process:
            raise TypeError(f"Can't instantiate abstract class {type(self).__name__} with abstract method process")
        super().__init__(collect_dir, collect_dir_shared, allow_pickle)
        if collect_device not in _DEVICES:
            raise NotImplementedError(f"device must be 'cpu' , 'gpu' or 'npu', but got {collect_device}")
        if collect_dir is not None and collect_device != "cpu":
            raise InvalidInputError("`collec_dir` could only be configured when `collect_device='cpu'`")
        self.collect_device = collect_device
        self.results: list[Any] = []
        self.prefix = prefix or self.default_prefix
        #: How an `Evaluator` that asks for the value has put the samples together; arguments of `share`.
        self.arrangement: dict[str, Any] = {}
        if self.prefix is None:
            logger.warning("The prefix is not set in metric class %s.", type(self).__name__)

    @property
    def dataset_meta(self) -> dict[str, Any] | None:
        """What the metric knows of the data set."""
        return self._dataset_meta

    @dataset_meta.setter
    def dataset_meta(self, dataset_meta: dict[str, Any] | None) -> None:
        self._dataset_meta = dataset_meta

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        """Append one record per sample to ``self.results``.

        Args:
            data_batch: what the data loader gave.
            data_samples: predictions and ground truth, a dict per sample.
        """
        raise NotImplementedError

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        """The values, from the records of all samples; runs on one worker.

        Args:
            results: one record per sample; empty if there are none.

        Returns:
            Values by name.
        """
        return dict(self._summarized(results))

    def evaluate(self, size: int | None = None, *, timeout: float | None = None) -> dict[str, Any]:
        """The values over the samples of all workers; the results are forgotten then, unless it raises.

        Args:
            size: how many samples the whole data set has; what was gathered beyond it, one sample from each rank in
                turn, is padding. Where `paddle.io.DistributedBatchSampler` deals the samples, evaluate through an
                `Evaluator`, which knows the batches.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

        Returns:
            Values by name, the same on every worker.

        Raises:
            InvalidInputError: if records are not one to one with samples.
            RecordError: if a record can not cross to another worker.
            FleetMetricsError: the same error on every worker, by the deadline.
            Exception: what ``compute_metrics`` raised, on every worker.
        """
        name = type(self).__name__
        (values,) = gather(name, lambda: [self.share(size, **self.arrangement)], get_communicator(), timeout)
        self.results.clear()
        return dict(values)

    def share(
        self,
        size: int | None = None,
        mode: str | None = None,
        dealing: Dealing | None = None,
        blocks: Sequence[int] | None = None,
    ) -> Share:
        """What this metric brings to an exchange; arguments as of `fleetmetrics.records.share.Share`."""
        name = type(self).__name__
        if not self.results:
            logger.warning(
                "%s got empty `self.results`. Please ensure that the processed results are properly added into"
                " `self.results` in `process` method.",
                name,
            )
        name = name if self.prefix in (None, self.default_prefix) else f"{name} {self.prefix}"
        return Share(self, name, Columns.of(to_cpu(list(self.results))), size, mode, dealing, blocks)

    def _finished(self, value: dict[str, Any]) -> dict[str, Any]:
        return {f"{self.prefix}/{key}": each for key, each in value.items()} if self.prefix else value


def to_cpu(data: Any) -> Any:
    """Move the tensors in a record to the host.

    Args:
        data: a tensor, or dicts, lists and tuples of them; other things are returned as they are.
    """
    if "paddle" not in sys.modules:
        return data
    if is_eager_tensor(data):
        return data if data.place.is_cpu_place() else data.cpu()
    if type(data) is dict:
        return {key: to_cpu(value) for key, value in data.items()}
    return type(data)(map(to_cpu, data)) if type(data) in (list, tuple) else data
