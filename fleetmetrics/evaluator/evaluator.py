"""``Evaluator``: several metrics over the same samples, after MMEngine's."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

from fleetmetrics.comm import LocalCommunicator, get_communicator
from fleetmetrics.dealing import Dealing, epoch_under_way
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.base import BaseMetric
from fleetmetrics.evaluator.collate import paired_chunks, pseudo_collate, rows
from fleetmetrics.evaluator.registry import METRICS
from fleetmetrics.records.gather import gather
from fleetmetrics.records.share import Share, check_mode

__all__ = ["Evaluator", "Evaluators"]


class Evaluator:
    """Feeds several metrics, and computes them in one exchange between the workers.

    Args:
        metrics: a metric or a configuration, or a sequence of them. A configuration is a dict with ``type``, the name
            of a class in `METRICS`, and the class's arguments: ``dict(type="Accuracy", topk=(1, 5))``.
        sampler: the `paddle.io.DistributedBatchSampler` that deals the samples, or a `paddle.io.DataLoader` with one:
            settles padding and order exactly, shuffled or not.
        collect_mode: without a sampler, how the workers' records go together: "batch" (and "auto"): batch by batch,
            as `paddle.io.DistributedBatchSampler` deals them; "unzip": one sample from each rank in turn, as MMEngine
            does, which is wrong for that sampler; "cat": rank after rank.

    Raises:
        UnknownNameError: if a configuration names no metric of `METRICS`, or the collect mode is unknown.
        InvalidInputError: if the sampler is of another kind.

    Examples:
        >>> evaluator = Evaluator([dict(type="Accuracy", topk=(1, 2)), dict(type="SingleLabelMetric")])
        >>> evaluator.process(dict(pred_score=[[0.5, 0.25, 0.25], [0.5, 0.375, 0.125]], gt_label=[0, 1]))
        >>> evaluator.evaluate(size=2)["accuracy/top2"]
        100.0
    """

    def __init__(
        self,
        metrics: BaseMetric | Mapping[str, Any] | Sequence[BaseMetric | Mapping[str, Any]],
        *,
        sampler: Any = None,
        collect_mode: str = "auto",
    ) -> None:
        self._dataset_meta: dict[str, Any] | None = None
        entries = metrics if isinstance(metrics, Sequence) else [metrics]
        self.metrics = [METRICS.build(entry) if isinstance(entry, Mapping) else entry for entry in entries]
        for metric in self.metrics:
            if not callable(getattr(metric, "process", None)) or not callable(getattr(metric, "evaluate", None)):
                raise InvalidInputError(
                    f"metrics holds a {type(metric).__module__}.{type(metric).__qualname__}, which has no process and"
                    " evaluate; give metrics of fleetmetrics.evaluator, or configurations such as dict(type='Accuracy')"
                )
        self.sampler = sampler
        self.collect_mode = check_mode(collect_mode, "collect_mode")
        if sampler is not None:
            Dealing(sampler, 0)  # a sampler of another kind is an error now
        self._epoch: int | None = None  # of the sampler's pass, from the first batch on
        self._blocks: list[list[int]] = [[] for _ in self.metrics]  # records per batch, of each metric

    @property
    def dataset_meta(self) -> dict[str, Any] | None:
        """What the metrics know of the data set; setting it tells all of them."""
        return self._dataset_meta

    @dataset_meta.setter
    def dataset_meta(self, dataset_meta: dict[str, Any] | None) -> None:
        self._dataset_meta = dataset_meta
        for metric in self.metrics:
            metric.dataset_meta = dataset_meta

    def process(self, data_samples: Sequence[Any] | Mapping[str, Any], data_batch: Any = None) -> None:
        """Let every metric process a batch.

        Args:
            data_samples: predictions and ground truth of each sample: a dict, or an object with ``to_dict()``. Or
                those of the whole batch: a dict of arrays or tensors whose first axis is the sample.
            data_batch: what the data loader gave.

        Raises:
            InvalidInputError: if the arrays of a batch are not equally long.
        """
        if self.sampler is not None and self._epoch is None:
            self._epoch = epoch_under_way(self.sampler)
        if isinstance(data_samples, Mapping):
            data_samples = rows(data_samples)
        elif hasattr(data_samples, "shape"):
            raise InvalidInputError(
                f"data_samples is {type(data_samples).__name__}; give a dict per sample, or the whole batch as a dict"
                " of arrays, such as dict(pred_score=scores, gt_label=label)"
            )
        samples = [sample.to_dict() if hasattr(sample, "to_dict") else sample for sample in data_samples]
        for metric, blocks in zip(self.metrics, self._blocks):
            before = len(getattr(metric, "results", ()))
            metric.process(data_batch, samples)
            blocks.append(len(getattr(metric, "results", ())) - before)

    def evaluate(self, size: int | None = None, *, timeout: float | None = None) -> dict[str, Any]:
        """Compute all metrics over the samples of all workers; the results are forgotten then, unless one raises.

        Args:
            size: how many samples the whole data set has; what was gathered beyond it is padding.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

        Returns:
            Values by name, the same on every worker.

        Raises:
            InvalidInputError: a ValueError; if records are not one to one with samples, or two metrics have one name.
            RecordError: if a record can not cross to another worker.
            FleetMetricsError: the same error on every worker, by the deadline.
            Exception: what a metric raised, on every worker.
        """
        return _evaluate({"": self}, {"": size}, timeout)

    def evaluate_local(self) -> dict[str, Any]:
        """Compute all metrics over what this worker has processed, padding included; nothing is forgotten.

        Returns:
            Values by name.
        """
        shares = [self.metrics[i].share(mode="cat") for i in self.joint]
        return self.joined(gather("Evaluator.evaluate_local", lambda: shares, LocalCommunicator()), None)

    def offline_evaluate(
        self,
        data_samples: Iterable[Any],
        data: Iterable[Any] | None = None,
        chunk_size: int = 1,
        *,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Evaluate predictions that are there already, such as those that `DumpResults` wrote.

        With several workers each takes its part of the chunks: give all of them all samples.

        Args:
            data_samples: all of them, in the same order on every worker.
            data: what the data loader would give for each, or None.
            chunk_size: how many samples are processed at once.
            timeout: as in `evaluate`.

        Returns:
            As `evaluate`.

        Raises:
            AssertedInputError: an AssertionError; if there are not as many data as samples.
            InvalidInputError: if ``chunk_size`` is no positive integer; else as `evaluate`.
        """
        if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
            raise InvalidInputError(f"chunk_size is {chunk_size!r}; it must be an integer of at least 1.")
        channel = get_communicator()
        size = 0

        def shares() -> list[Share]:  # what goes wrong in here is heard by the others
            nonlocal size
            for number, (samples, batch) in enumerate(paired_chunks(data_samples, data, chunk_size)):
                size += len(samples)
                if number % channel.world_size == channel.rank:
                    self.process(samples, None if batch is None else pseudo_collate(batch))
            return [self._share(i, size, "batch", None) for i in self.joint]

        kept = [(i, len(self.metrics[i].results), len(self._blocks[i])) for i in self.joint]
        try:
            return self._finished(gather("Evaluator.offline_evaluate", shares, channel, timeout), size)
        except BaseException:
            for i, results, blocks in kept:  # or what was processed would get into the next number
                del self.metrics[i].results[results:], self._blocks[i][blocks:]
            raise

    # What an evaluation is made of

    @property
    def joint(self) -> list[int]:
        """Which metrics share one exchange: all but those with an ``evaluate`` of their own."""
        kinds = [getattr(type(metric), "evaluate", None) for metric in self.metrics]
        return [i for i, evaluate in enumerate(kinds) if evaluate is BaseMetric.evaluate]

    def shares(self, size: int | None) -> list[Share]:
        """What the metrics bring to an exchange.

        Args:
            size: as in `evaluate`.
        """
        dealing = None if self.sampler is None else Dealing(self.sampler, self._epoch)
        return [self._share(i, size, self.collect_mode, dealing) for i in self.joint]

    def _share(self, i: int, size: int | None, mode: str, dealing: Dealing | None) -> Share:
        metric, blocks = self.metrics[i], self._blocks[i]
        if mode in ("auto", "batch") and dealing is None:
            if sum(blocks) == len(metric.results):
                return metric.share(size, "batch", None, blocks)
            if mode == "batch" or any(blocks):
                raise InvalidInputError(
                    f"{type(metric).__name__} has {len(metric.results)} results, and {sum(blocks)} of them came from"
                    " Evaluator.process, so the batches are not known; process all samples through the Evaluator, or"
                    " give it collect_mode='unzip' or 'cat'"
                )
        return metric.share(size, None if mode == "auto" else mode, dealing)

    def _with_others(self, values: Sequence[dict[str, Any]], size: int | None) -> list[dict[str, Any]]:
        """The values of all metrics in order, those with an ``evaluate`` of their own included."""
        joint = iter(values)
        return [next(joint) if i in self.joint else metric.evaluate(size) for i, metric in enumerate(self.metrics)]

    def joined(self, values: Sequence[dict[str, Any]], size: int | None) -> dict[str, Any]:
        """Return the values of all metrics in one dict.

        Args:
            values: of the metrics that shared an exchange.
            size: as in `evaluate`.
        """
        joined: dict[str, Any] = {}
        for each in self._with_others(values, size):
            for name in each:
                if name in joined:
                    raise InvalidInputError(
                        f"There are multiple evaluation results with the same metric name {name}. Please make sure all"
                        " metrics have different prefixes."
                    )
            joined.update(each)
        return joined

    def _finished(self, values: Sequence[dict[str, Any]], size: int | None) -> dict[str, Any]:
        results = self.joined(values, size)
        self.reset()
        return results

    def reset(self) -> None:
        """Forget the results, as ``evaluate`` does when it is done: after a pass that was given up, say."""
        for i in self.joint:
            self.metrics[i].results.clear()
        self._blocks = [[] for _ in self.metrics]
        self._epoch = None


class Evaluators:
    """Several validation sets: an `Evaluator` for each, and one exchange for all.

    Args:
        evaluators: by the name of the set, which is put before the names of its values.

    Raises:
        InvalidInputError: if one of them is no `Evaluator`.

    Examples:
        >>> sets = Evaluators({"clean": Evaluator(dict(type="Accuracy")), "noisy": Evaluator(dict(type="Accuracy"))})
        >>> sets["clean"].process([dict(pred_label=1, gt_label=1)])
        >>> sets["noisy"].process([dict(pred_label=0, gt_label=1)])
        >>> sets.evaluate()
        {'clean/accuracy/top1': 100.0, 'noisy/accuracy/top1': 0.0}
    """

    def __init__(self, evaluators: Mapping[str, Evaluator]) -> None:
        for name, evaluator in evaluators.items():
            if not isinstance(evaluator, Evaluator):
                raise InvalidInputError(f"evaluators[{name!r}] must be an Evaluator, not {type(evaluator).__name__}")
        self._evaluators = dict(evaluators)

    def __getitem__(self, name: str) -> Evaluator:
        return self._evaluators[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluators)

    def __len__(self) -> int:
        return len(self._evaluators)

    def evaluate(
        self, sizes: Mapping[str, int | None] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Compute all metrics of all sets; the results are forgotten then, unless one raises.

        Args:
            sizes: how many samples each set has, by name; None, or a set that is left out: nothing is cut.
            timeout: as in `Evaluator.evaluate`.

        Returns:
            Values by name, such as "clean/accuracy/top1"; the same on every worker.

        Raises:
            InvalidInputError: if ``sizes`` names a set that is not there; else as `Evaluator.evaluate`.
        """
        return _evaluate(self._evaluators, sizes or {}, timeout)


def _evaluate(
    evaluators: Mapping[str, Evaluator], sizes: Mapping[str, int | None], timeout: float | None
) -> dict[str, Any]:
    """Evaluate in one exchange; the name of a set is put before those of its values."""

    def shares() -> list[Share]:
        unknown = sorted(set(sizes) - set(evaluators))
        if unknown:
            raise InvalidInputError(f"sizes names {', '.join(unknown)}; known sets are {', '.join(evaluators)}.")
        return [share for name, each in evaluators.items() for share in each.shares(sizes.get(name))]

    values = iter(gather("Evaluator.evaluate", shares, get_communicator(), timeout))
    results = {}
    for name, evaluator in evaluators.items():
        own = [value for _, value in zip(evaluator.joint, values)]
        found = evaluator.joined(own, sizes.get(name))
        results.update({f"{name}/{key}" if name else key: value for key, value in found.items()})
    for evaluator in evaluators.values():
        evaluator.reset()
    return results
