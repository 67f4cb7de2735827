"""The `Evaluator`'s ``BaseMetric``, modeled on MMEngine's."""

from __future__ import annotations

import contextvars
import logging
import sys
from typing import Any, Iterable, NamedTuple, Sequence

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.choose import resolve
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import Columns
from fleetmetrics.records.gather import gather
from fleetmetrics.records.ledger import samples_processed
from fleetmetrics.records.recorder import Recorder
from fleetmetrics.records.share import Share
from fleetmetrics.samplers.dealing import Dealing
from fleetmetrics.xp import is_eager_tensor

__all__ = ["Arrangement", "BaseMetric", "arrangement", "as_dicts", "to_cpu"]

_DEVICES = ("cpu", "gpu", "npu")
logger: logging.Logger = logging.getLogger("fleetmetrics")


class Arrangement(NamedTuple):
    """The context in which an `Evaluator` calls its metrics."""

    mode: str | None = None  #: how the samples were distributed
    dealing: Dealing | None = None
    keep: bool = False  #: whether to keep the results afterwards
    channel: Communicator | None = None  #: the channel to the workers that take part; None: the current one


_BY_ITSELF = Arrangement()
#: The `Evaluator`'s context; it also applies to metrics that a metric calls.
arrangement: contextvars.ContextVar[Arrangement] = contextvars.ContextVar("arrangement", default=_BY_ITSELF)


class UnknownDeviceError(InvalidInputError, NotImplementedError):
    """MMEngine's error is a NotImplementedError."""


class BaseMetric(Recorder):
    """A metric that an `Evaluator` feeds: ``process`` appends one record per sample to ``self.results``.

    Subclasses define ``process(data_batch, data_samples)`` and ``compute_metrics(results)``, as in MMEngine. Where
    sums suffice, define ``summarize(results)`` and ``compute_from(states)`` too (or instead of ``compute_metrics``):
    workers then exchange only states.

    Differs from MMEngine where MMEngine gives a wrong number: None is a record like any other; workers with different
    numbers of records lose none; a ``size`` larger than what was gathered is an error; only the metric's own files are
    removed from ``collect_dir``; an error in ``compute_metrics`` is raised on every worker, and the results are kept.

    Args:
        collect_device: "cpu", "gpu" or "npu"; records pass through the host in any case.
        prefix: put before the names of the results, with a slash; None: the class's ``default_prefix``.
        collect_dir: a directory, created if missing, through which records go to rank 0 instead of through memory.
        collect_dir_shared: False if the workers do not see the same ``collect_dir``.
        allow_pickle: as in `fleetmetrics.BaseMetric`.

    Raises:
        ValueError: ``collect_dir`` is given and ``collect_device`` is not "cpu".
        InvalidInputError: (a NotImplementedError) another device.

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

    prefix: str | None

    _fed_by, _computed_by = ("process", samples_processed), "compute_metrics"
    #: The default prefix.
    default_prefix: str | None = None

    def __init__(
        self,
        collect_device: str = "cpu",
        prefix: str | None = None,
        collect_dir: str | None = None,
        *,
        collect_dir_shared: bool = True,
        allow_pickle: bool = False,
    ) -> None:
        if type(self).process is BaseMetric.process:
            raise TypeError(f"Can't instantiate abstract class {type(self).__name__} with abstract method process")
        super().__init__(collect_dir, collect_dir_shared, allow_pickle)
        if not isinstance(collect_device, str) or collect_device not in _DEVICES:
            raise UnknownDeviceError(f"collect_device must be 'cpu', 'gpu' or 'npu', not {collect_device!r:.80}")
        if prefix is not None and not isinstance(prefix, str):
            raise InvalidInputError(f"prefix must be a string or None, not {prefix!r:.80}")
        if collect_dir is not None and collect_device != "cpu":
            raise InvalidInputError(f"collect_dir needs collect_device='cpu', not {collect_device!r}")
        self.collect_device = collect_device
        self.results: list[Any] = []
        self.prefix = prefix or self.default_prefix
        if self.prefix is None:
            logger.warning("The prefix is not set in metric class %s.", type(self).__name__)

    def _appended(self) -> list[Any]:
        return self.results

    def _value_of(self, results: Any) -> Any:
        return self.compute_metrics(results)

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        """Append one record per sample to ``self.results``.

        Args:
            data_batch: the data loader's batch.
            data_samples: predictions and ground truth, a dict per sample.
        """
        raise NotImplementedError

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        """The values, from the records of all samples; runs on one worker.

        Args:
            results: one record per sample; empty without samples.

        Returns:
            Values by name.
        """
        return dict(self._summarized(results))

    def evaluate(self, size: int | None = None, *, group: Any = None, timeout: float | None = None) -> dict[str, Any]:
        """The values over the samples of all workers. The results are cleared afterwards, unless it raises.

        Args:
            size: the number of samples in the whole data set. Any further ones, taking one from each rank in turn,
                are padding. With `paddle.io.DistributedBatchSampler`, evaluate through an `Evaluator`, which knows
                the batches.
            group: the workers to compute over; only these call it, see `fleetmetrics.Communicator.among`. None: all.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or
                300 until all have met.

        Returns:
            Values by name, the same on every worker.

        Raises:
            FleetMetricsError: as `fleetmetrics.BaseMetric.compute`.
            Exception: the error of ``compute_metrics``, on every worker.
        """
        name, asked = type(self).__name__, arrangement.get()
        channel = resolve(asked.channel).among(group)
        (values,) = gather(name, lambda: [self.share(size, asked.mode, asked.dealing)], channel, timeout)
        if not asked.keep:
            self.results.clear()
            self._ledger.cut(0)
        return dict(values)

    def share(self, size: int | None = None, mode: str | None = None, dealing: Dealing | None = None) -> Share:
        """This metric's part of an exchange; for the arguments see `fleetmetrics.records.share.Share`."""
        name = type(self).__name__
        if not self.results:
            logger.warning(
                "%s got empty `self.results`. Please ensure that the processed results are properly added into"
                " `self.results` in `process` method.",
                name,
            )
        blocks, counted = None, self._ledger.records
        if dealing is None and mode in ("auto", "batch"):
            if counted == len(self.results):
                mode, blocks = "batch", [records for _, records in self._ledger.calls]
            elif counted or mode == "batch":
                raise InvalidInputError(
                    f"{name} has {len(self.results)} results, but only {counted} of them came from process, so the "
                    "batches are unknown; process all samples, or give the Evaluator collect_mode='unzip' or 'cat'"
                )
        name = name if self.prefix in (None, self.default_prefix) else f"{name} {self.prefix}"
        records = Columns.of(to_cpu(list(self.results)))
        return Share(self, name, records, size, None if mode == "auto" else mode, dealing, blocks)

    def _finished(self, value: dict[str, Any]) -> dict[str, Any]:
        return {f"{self.prefix}/{key}": result for key, result in value.items()} if self.prefix else value


def as_dicts(data_samples: Iterable[Any]) -> list[Any]:
    """Data samples as dicts if they have a ``to_dict``; others unchanged."""
    return [sample.to_dict() if hasattr(sample, "to_dict") else sample for sample in data_samples]


def to_cpu(data: Any) -> Any:
    """Move a tensor, or those in nested dicts, lists and tuples, to the host; return anything else unchanged."""
    if "paddle" not in sys.modules:
        return data
    if is_eager_tensor(data):
        return data if data.place.is_cpu_place() else data.cpu()
    if type(data) is dict:
        return {key: to_cpu(value) for key, value in data.items()}
    return type(data)(map(to_cpu, data)) if type(data) in (list, tuple) else data
