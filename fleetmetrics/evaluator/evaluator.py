"""``Evaluator``: several metrics over the same samples, as in MMEngine; ``Evaluators``: several validation sets."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Sequence, Sized

from fleetmetrics.comm import Communicator, LocalCommunicator, get_communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.dump import samples_in
from fleetmetrics.evaluator.engine_metric import Arrangement, BaseMetric, as_dicts, to_cpu
from fleetmetrics.evaluator.feeding import FedMetric, paired_chunks, pseudo_collate, rows, swap_noticed
from fleetmetrics.evaluator.registry import METRICS
from fleetmetrics.records.batches import Columns
from fleetmetrics.records.gather import gather
from fleetmetrics.records.resumable import PassOfRecords, Resumable, plain_settings
from fleetmetrics.records.share import Share, check_mode
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.logs import progress

__all__ = ["Evaluator", "Evaluators", "get_metric_value"]


class Evaluator(Resumable):
    """Feeds several metrics, and computes them in one exchange between the workers.

    Args:
        metrics: a metric or a configuration, or a sequence of them. A configuration is a dict of the class's arguments
            and its name in `METRICS` as ``type``: ``dict(type="Accuracy", topk=(1, 5))``.
        sampler: as in `fleetmetrics.BaseMetric`.
        collect_mode: the order of the workers' records without a sampler. "batch" or "auto": batch by batch,
            as `paddle.io.DistributedBatchSampler` assigns them; "unzip": one sample from each rank in turn, as in
            MMEngine, which is wrong for that sampler; "cat": rank after rank.

    Raises:
        UnknownNameError: if the collect mode, or a configuration's ``type``, is unknown.
        InvalidInputError: for any other kind of sampler.

    Examples:
        >>> evaluator = Evaluator([dict(type="Accuracy", topk=(1, 2)), dict(type="SingleLabelMetric")])
        >>> evaluator.process(dict(pred_score=[[0.5, 0.25, 0.25], [0.5, 0.375, 0.125]], gt_label=[0, 1]))
        >>> evaluator.evaluate(size=2)["accuracy/top2"]
        100.0
    """

    collect_mode: str
    metrics: list[Any | BaseMetric]

    def __init__(
        self,
        metrics: BaseMetric | Mapping[str, Any] | Sequence[BaseMetric | Mapping[str, Any]],
        *,
        sampler: Any = None,
        collect_mode: str = "auto",
    ) -> None:
        self._dataset_meta: dict[str, Any] | None = None
        if isinstance(metrics, str):
            raise InvalidInputError(
                f"metrics must be metrics or configurations, such as dict(type=...), not {metrics!r}"
            )
        entries = metrics if isinstance(metrics, Sequence) else [metrics]
        self.metrics = [METRICS.build(entry) if isinstance(entry, Mapping) else entry for entry in entries]
        self._fed()  # raises for anything that is not a metric
        self.collect_mode = check_mode("collect_mode", collect_mode)
        self._pass = PassOfRecords(sampler)

    @property
    def dataset_meta(self) -> dict[str, Any] | None:
        """The metrics' facts about the data set; setting it sets theirs."""
        return self._dataset_meta

    @dataset_meta.setter
    def dataset_meta(self, dataset_meta: dict[str, Any] | None) -> None:
        self._dataset_meta = dataset_meta
        for metric in self.metrics:
            metric.dataset_meta = dataset_meta

    def process(self, data_samples: Sequence[Any] | Mapping[str, Any], data_batch: Any = None) -> None:
        """Let every metric process a batch.

        Args:
            data_samples: predictions and ground truth: for each sample a dict or an object with ``to_dict()``, or for
                the whole batch a dict of arrays or tensors whose first axis is the sample.
            data_batch: the data loader's batch.

        Raises:
            InvalidInputError: the arrays of a batch differ in length.
        """
        if isinstance(data_samples, Mapping):
            data_samples = rows(data_samples)
        elif hasattr(data_samples, "shape"):
            raise InvalidInputError(
                f"data_samples is {type(data_samples).__name__}; give a dict per sample, or the whole batch as a dict"
                " of arrays, such as dict(pred_score=scores, gt_label=label)"
            )
        samples = as_dicts(data_samples)
        fed = self._fed()
        if not any(feed.results for feed in fed):
            self._pass.begin_anew()
        self._begin_pass()
        for feed in fed:
            feed.metric.process(data_batch, samples)

    def evaluate(self, size: int | None = None, *, group: Any = None, timeout: float | None = None) -> dict[str, Any]:
        """Compute all metrics over the samples of all workers. The results are cleared afterwards, unless one raises.

        Args:
            size: the number of samples in the whole data set; any further ones are padding.
            group: the workers to compute over; only these call it, see `fleetmetrics.Communicator.among`. None: all.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or
                300 until all have met.

        Returns:
            Values by name, the same on every worker.

        Raises:
            InvalidInputError: two results have the same name; else as `BaseMetric.evaluate`.
        """
        return _evaluate_together({"": self}, {"": size}, group, timeout)

    def evaluate_local(self) -> dict[str, Any]:
        """Return values by name over this worker's samples, padding included; the results are kept."""
        fed = self._fed()
        shares = [feed.metric.share(None, "cat", None) for feed in fed if feed.joins]
        values = iter(gather("Evaluator.evaluate_local", lambda: shares, LocalCommunicator()))
        return _merged(fed, values, FedMetric.ask_alone)

    def offline_evaluate(
        self,
        data_samples: Iterable[Any] | str | os.PathLike[str],
        data: Iterable[Any] | None = None,
        chunk_size: int = 1,
        *,
        allow_pickle: bool = False,
        group: Any = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Evaluate existing predictions, such as those that `DumpResults` wrote.

        The workers share the work: give each of them all samples.

        Args:
            data_samples: all of them, in the same order on every worker; or a file, a folder, or a pattern such as
                "predictions/*.parquet", in any format of `fleetmetrics.files`. A column is a field; a dot in its name,
                a struct, or an object of JSON is a dict in a dict.
            data: the data loader's item for each sample, or None.
            chunk_size: how many samples to process at once.
            allow_pickle: whether to read ".pkl" files, too, which can run any code.
            group: as in `evaluate`; its workers share the work.
            timeout: as in `evaluate`.

        Returns:
            As `evaluate`.

        Raises:
            AssertedInputError: (an AssertionError) if data and samples differ in length.
            InvalidInputError: if ``chunk_size`` is not a positive integer, or samples and data look swapped; else as
                `evaluate`.
            DataError: if a file does not exist, or its format is not that of its name; the error names file and row.
        """
        channel = get_communicator().among(group)
        size = 0

        def shares() -> list[Share]:  # an error in here reaches the other workers
            nonlocal size
            whole_number_of("chunk_size", chunk_size, 1)
            of_files = isinstance(data_samples, (str, os.PathLike))
            all_samples: Any = samples_in(data_samples, allow_pickle) if of_files else data_samples
            total = -(-len(all_samples) // chunk_size) if isinstance(all_samples, Sized) else None
            chunks = paired_chunks(all_samples, data, chunk_size)
            for number, (samples, batch) in enumerate(progress(chunks, "offline_evaluate", channel, total)):
                size += len(samples)
                if number % channel.world_size == channel.rank:
                    with swap_noticed(samples, batch):
                        self.process(samples, None if batch is None else pseudo_collate(batch))
            return [feed.metric.share(size, "batch", None) for feed in fed if feed.joins]

        fed = self._fed()
        marks = [feed.mark() for feed in fed]
        try:
            values = iter(gather("Evaluator.offline_evaluate", shares, channel, timeout))
            results = _merged(fed, values, lambda feed: feed.ask(size, Arrangement("batch", channel=channel)))
        except BaseException:
            for feed, mark in zip(fed, marks):  # or these samples would count in the next evaluation
                feed.cut(*mark)
            raise
        self.reset()
        return results

    def reset(self) -> None:
        """Clear the results, as ``evaluate`` does: after an abandoned pass, for example."""
        for feed in self._fed():
            feed.cut(0, 0)
        self._before = None
        self._pass.reset()

    def settings(self) -> dict[str, Any]:
        """The settings that a checkpoint compares: its own and its metrics', if plain values and public."""
        return {"collect_mode": self.collect_mode, "metrics": list(map(plain_settings, self.metrics))}

    def _recorders(self) -> list[Any]:
        return self.metrics

    def _given(self) -> list[Columns]:
        return [Columns.of(to_cpu(list(feed.results))) for feed in self._fed()]

    def _give(self, by_metric: list[Columns]) -> None:
        for feed, columns in zip(self._fed(), by_metric):
            feed.results[:] = chain(*[batch[0] for batch in columns.batches])

    # The parts of an evaluation

    def shares(self, size: int | None) -> list[Share]:
        """The metrics' parts of an exchange, except for those that override ``evaluate``."""
        fed = [feed for feed in self._fed() if feed.joins]
        if self._before is None:
            dealing = self._pass.dealing
            return [feed.metric.share(size, self.collect_mode, dealing) for feed in fed]
        if len(fed) < len(self.metrics):
            raise InvalidInputError("a metric that overrides evaluate cannot continue from the checkpoint of a sampler")
        return [self._goes_on(feed.metric.share(size, "cat", None), place) for place, feed in enumerate(fed)]

    def joined(self, values: Iterator[dict[str, Any]], size: int | None, channel: Communicator) -> dict[str, Any]:
        """The values of all metrics in one dict."""
        asked = Arrangement(self.collect_mode, self._pass.dealing, channel=channel)
        return _merged(self._fed(), values, lambda feed: feed.ask(size, asked))

    def _fed(self) -> list[FedMetric]:
        """One `FedMetric` for each of ``metrics``, which users may change."""
        return list(map(FedMetric, self.metrics))


class Evaluators(Dict[str, Evaluator]):
    """Several validation sets: an `Evaluator` for each, and one exchange for all.

    Args:
        evaluators: by the name of the set, which goes before the names of its values.

    Raises:
        InvalidInputError: if one of them is not an `Evaluator`.

    Examples:
        >>> from fleetmetrics.evaluator import Evaluator
        >>> sets = Evaluators({"clean": Evaluator(dict(type="Accuracy")), "noisy": Evaluator(dict(type="Accuracy"))})
        >>> sets["clean"].process([dict(pred_label=1, gt_label=1)])
        >>> sets["noisy"].process([dict(pred_label=0, gt_label=1)])
        >>> sets.evaluate()
        {'clean/accuracy/top1': 100.0, 'noisy/accuracy/top1': 0.0}
    """

    def __init__(self, evaluators: Mapping[str, Evaluator]) -> None:
        if not isinstance(evaluators, Mapping):
            raise InvalidInputError(f"evaluators must be a dict of an Evaluator for each set, not {evaluators!r:.80}")
        for name, evaluator in evaluators.items():
            if not isinstance(evaluator, Evaluator):
                raise InvalidInputError(f"evaluators[{name!r}] must be an Evaluator, not {type(evaluator).__name__}")
        super().__init__(evaluators)

    def evaluate(
        self, sizes: Mapping[str, int | None] | None = None, *, group: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Compute all metrics of all sets. The results are cleared afterwards, unless one raises.

        Args:
            sizes: the number of samples in each set, by name; nothing is cut from a set without one.
            group: as in `Evaluator.evaluate`.
            timeout: as in `Evaluator.evaluate`.

        Returns:
            Values by name, such as "clean/accuracy/top1"; the same on every worker.

        Raises:
            InvalidInputError: if ``sizes`` names an unknown set; else as `Evaluator.evaluate`.
        """
        return _evaluate_together(self, sizes or {}, group, timeout)


def _merged(
    fed: Iterable[FedMetric], values: Iterator[dict[str, Any]], ask: Callable[[FedMetric], dict[str, Any]]
) -> dict[str, Any]:
    """The values of all metrics: the next ones for those that join the exchange, their own answers for others."""
    merged: dict[str, Any] = {}
    for feed in fed:
        for name, value in (next(values) if feed.joins else ask(feed)).items():
            if name in merged:
                raise InvalidInputError(
                    f"There are multiple evaluation results with the same metric name {name}. Please make sure all"
                    " metrics have different prefixes"
                )
            merged[name] = value
    return merged


def _evaluate_together(
    evaluators: Mapping[str, Evaluator], sizes: Mapping[str, int | None], group: Any, timeout: float | None
) -> dict[str, Any]:
    """Evaluate in one exchange; a set's name, unless empty, goes before those of its values."""

    def shares() -> list[Share]:
        unknown = sorted(set(sizes) - set(evaluators))
        if unknown:
            raise InvalidInputError(f"sizes names {', '.join(unknown)}; known sets are {', '.join(evaluators)}")
        return [
            replace(share, name=f"{name}: {share.name}" if name else share.name)
            for name, evaluator in evaluators.items()
            for share in evaluator.shares(sizes.get(name))
        ]

    channel = get_communicator().among(group)
    values = iter(gather("Evaluator.evaluate", shares, channel, timeout))
    results = {}
    for name, evaluator in evaluators.items():
        evaluator_results = evaluator.joined(values, sizes.get(name), channel)
        results.update({f"{name}/{key}" if name else key: value for key, value in evaluator_results.items()})
    for evaluator in evaluators.values():
        evaluator.reset()
    return results


def get_metric_value(indicator: str, metrics: Mapping[str, Any]) -> Any:
    """Return the value of a metric, named in full or without its prefix.

    Args:
        indicator: "accuracy/top1", or "top1" if only one metric has that name.
        metrics: what `Evaluator.evaluate` returned.

    Raises:
        InvalidInputError: (a ValueError) unless exactly one metric has that name.

    Examples:
        >>> get_metric_value("top1", {"accuracy/top1": 75.0, "single-label/recall": 50.0})
        75.0
    """
    if not isinstance(indicator, str):
        raise InvalidInputError(f"indicator must be the name of a metric, not {indicator!r:.80}")
    if not isinstance(metrics, Mapping) or not all(isinstance(name, str) for name in metrics):
        raise InvalidInputError(f"metrics must be a dict of values by name, not {metrics!r:.80}")
    in_full = "/" in indicator
    matched = [name for name in metrics if (name if in_full else name.rpartition("/")[2]) == indicator]
    if not matched:
        raise InvalidInputError(f'The indicator "{indicator}" can not match any metric in {list(metrics)}')
    if len(matched) > 1:
        raise InvalidInputError(f'The indicator "{indicator}" matches multiple metrics {matched}')
    return metrics[matched[0]]
