"""`paddle.Model` (hapi): metrics for its ``prepare``, and the values of all workers wherever it reports.

    metrics = ModelMetric(MetricCollection({"auc": AUC(), "samples": Count()}))
    model.prepare(optimizer, loss, metrics)
    model.fit(train, held_out, callbacks=[GlobalValues()])

What hapi hands to a metric depends on the mode:

    training                                this worker's batch
    evaluation, dynamic or legacy graph     the batches of all workers, rank after rank; of the last, what is beyond the
                                            size of the data set is cut off
    evaluation, PIR                         this worker's batch

Of that each worker adds what is its own and no padding. All exchange once, after the last batch, before any callback
hears that the pass is over. Importing this module imports Paddle.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import paddle

from fleetmetrics.accumulator import Accumulator
from fleetmetrics.arguments import flag_of
from fleetmetrics.base_metric import BaseMetric
from fleetmetrics.collection import MetricCollection
from fleetmetrics.comm import Letter, get_communicator
from fleetmetrics.comm.launchers import paddles_place
from fleetmetrics.errors import BucketWarning, FleetMetricsError, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.sampling import Dealing, Pass, epoch_under_way
from fleetmetrics.warning import muted

__all__ = ["GlobalValues", "ModelMetric", "own_predictions"]


class ModelMetric(paddle.metric.Metric):
    """Any metric for ``paddle.Model.prepare(metrics=...)``; `GlobalValues` must be among the callbacks.

    After every batch hapi logs this worker's value so far, under the metric's name, or under those of a collection's
    members. At the end of an epoch and of an evaluation the value over all workers takes its place, before other
    callbacks see it: those of an early stop decide the same everywhere.

    With several workers the data must come from a `paddle.io.DistributedBatchSampler`, as hapi makes one of a data set.

    Args:
        metric: a metric, a collection or a wrapper; or a `BaseMetric` without a sampler, which gets each sample once.
        feed: a function of the network's outputs and then the labels, arrays of one row per sample, that returns the
            arguments of the metric's ``add`` by name. None: they are its arguments, in that order.
        training: whether it counts in training, too; else its values there are nan.
        running: whether there is a value after every batch, which takes time; else it is nan. None: for metrics that do
            not keep every sample.

    Raises:
        InvalidInputError: if the metric is something else.

    Examples:
        >>> from fleetmetrics import AUC
        >>> metric = ModelMetric(AUC(name="auc"), feed=lambda logit, label: {
        ...     "prediction": 1 / (1 + np.exp(-logit)), "label": label})
        >>> metric.name()
        ['auc']
    """

    def __init__(
        self,
        metric: Accumulator | BaseMetric,
        *,
        feed: Callable[..., Mapping[str, Any]] | None = None,
        training: bool = True,
        running: bool | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(metric, (Accumulator, BaseMetric)):
            raise InvalidInputError(
                f"metric is a {type(metric).__name__}; it must be a metric, a collection, a wrapper or a BaseMetric"
            )
        if getattr(metric, "sampler", None) is not None:
            raise InvalidInputError(f"metric: {metric.name} has a sampler; make it without, ModelMetric drops padding")
        if running is None:
            running = isinstance(metric, Accumulator) and not list(metric.record_metrics())
        self.metric, self.feed = metric, feed
        self.training, self.running = flag_of("training", training), flag_of("running", running)
        self._pass: _Pass | None = None
        self._trouble: Exception | None = None

    def name(self) -> list[str]:
        """The names of the values in the logs."""
        if isinstance(self.metric, MetricCollection):
            return [f"{self.metric.prefix}{key}{self.metric.postfix}" for key in self.metric.metrics]
        return [self.metric.name]

    def update(self, *arrays: np.ndarray) -> None:
        """Add a batch of outputs and labels; for hapi. Several workers raise an error at the end of the pass, together.

        Raises:
            InvalidInputError: outside of a pass that `GlobalValues` knows of.
        """
        if self._pass is None:
            raise InvalidInputError(
                f"{self.metric.name}: paddle.Model needs a callback to report the values of all workers: give fit and "
                "evaluate callbacks=[fleetmetrics.integrations.hapi.GlobalValues()]. Elsewhere use the metric itself"
            )
        if self._trouble is not None or self._pass.skipped:
            return
        try:
            own = self._pass.own(arrays)
            if len(own[0]) and self.feed is None:
                self.metric.add(*own)
            elif len(own[0]) and self.feed is not None:
                self.metric.add(**self.feed(*own))
        except Exception as error:  # of any kind: the others go on
            if self._pass.workers == 1:
                raise
            self._trouble = error

    def accumulate(self) -> list[Any]:
        """This worker's values so far, in the order of the names; no communication. Nan where there is none."""
        if self.running and self._pass is not None and not self._pass.skipped:
            with contextlib.suppress(FleetMetricsError), muted(UndefinedMetricWarning, BucketWarning):
                return [_shown(value) for value in self._by_name(self.metric.compute_local()).values()]
        return [math.nan] * len(self.name())  # of what is wrong compute tells

    def reset(self) -> None:
        """Forget what was added; but not within a pass: hapi calls it before anything is reported."""
        if self._pass is None:
            self.metric.reset()

    def _by_name(self, value: Any) -> dict[str, Any]:
        return value if isinstance(self.metric, MetricCollection) else {self.metric.name: value}

    def _enter(self, one: _Pass | None) -> None:
        self.metric.reset()
        self._pass, self._trouble = one, None

    def _values(self) -> dict[str, Any]:
        """The values over all workers."""
        if self._pass is None or self._pass.skipped:
            return {}
        get_communicator().consult(f"ModelMetric {self.metric.name}", lambda _: Letter(None), trouble=self._trouble)
        return self._by_name(self.metric.compute())


class GlobalValues(paddle.callbacks.Callback):
    """Puts the values over all workers into the logs at the end of an epoch and of an evaluation.

    Its place among the callbacks does not matter. It stays with the model: a later evaluation needs none. Named tuples
    become dicts; what is in a dict stands on its own, too, as ``name/key``; ``logs["fleetmetrics"]`` has all as it is.

    Args:
        report: called on every worker at the end of each pass, with "train" or "eval" and the values by name.

    Raises:
        InvalidInputError: from ``fit`` and ``evaluate``, if a loader does not deal the samples to the workers.
        FleetMetricsError: from there, the same one on every worker.

    Examples:
        >>> callback = GlobalValues(report=print)
        >>> callback.values                     # of the last pass of either kind
        {}
    """

    def __init__(self, report: Callable[[str, dict[str, Any]], Any] | None = None) -> None:
        super().__init__()
        self.report = report
        self.values: dict[str, dict[str, Any]] = {}

    def set_model(self, model: Any) -> None:
        """Be told of the passes of a `paddle.Model`; hapi calls it."""
        super().set_model(model)
        # The one place that has the loader, and comes before the callbacks at the end of a pass.
        model._run_one_epoch = functools.partial(self._run, model)

    def on_train_begin(self, logs: Any = None) -> None:
        """Undo what num_iters of an earlier run has left: a stop after one epoch."""
        self.model.stop_training = False

    def _run(self, model: Any, loader: Any, callbacks: Any, mode: str, *more: Any) -> Any:
        more = more or ({},)  # hapi's default is one dict for all passes of all models
        run = functools.partial(type(model)._run_one_epoch, model, loader, callbacks, mode, *more)
        metrics = [each for each in model._metrics if isinstance(each, ModelMetric)]
        if mode == "predict" or not metrics:
            return run()
        names = model._metrics_name()
        if len(set(names)) < len(names):
            raise InvalidInputError(f"metrics: two would be logged under one name, of {', '.join(names)}; rename one")
        try:
            for metric in metrics:
                metric._enter(_Pass(model, loader, mode, skipped=mode == "train" and not metric.training))
            logs = run()
            values = {name: value for metric in metrics for name, value in metric._values().items()}
        finally:
            for metric in metrics:
                metric._enter(None)
        self.values[mode] = values
        shown = {name: _shown(value) for name, value in values.items()}
        whole = {name: value for name, value in shown.items() if isinstance(value, Mapping)}
        parts = {f"{name}/{key}": part for name, value in whole.items() for key, part in value.items()}
        logs.update({**shown, **parts, "fleetmetrics": values})
        if self.report is not None:
            self.report(mode, values)
        return logs


def _shown(value: Any) -> Any:
    """The value as Paddle's progress bar can print it: its % takes tuples apart."""
    return dict(zip(getattr(value, "_fields", range(len(value))), value)) if isinstance(value, tuple) else value


class _Pass:
    """Which of the rows that hapi hands over in one pass are this worker's own, and no padding."""

    def __init__(self, model: Any, loader: Any, mode: str, skipped: bool) -> None:
        world = get_communicator().world_size
        (self.rank, self.workers), self.skipped = paddles_place(os.environ), skipped
        if world not in (1, self.workers):
            raise InvalidInputError(
                f"PADDLE_TRAINERS_NUM, by which paddle.Model deals its data, is {self.workers}, and the channel has"
                f" {world} workers; start them with paddle.distributed.launch, or set PADDLE_TRAINERS_NUM and"
                " PADDLE_TRAINER_ID"
            )
        if self.workers == 1 or skipped:
            return
        self.by_paddle, dealing = _dealing(loader, 0, self.workers)
        dealing.check(self.rank, self.workers)
        self.dealt = Pass(loader)  # begun when the sampler has, and the epoch is known
        settings: dict[str, Any] = dealing.settings
        self.samples, self.batch = settings["samples"], settings["batch_size"]
        graph = type(model._adapter).__name__
        self.gathered = mode == "eval" and graph != "StaticPIRGraphAdapter"
        if not self.gathered:
            return
        model._adapter._merge_count["eval_total"] = 0  # num_iters or an error may have left another
        if not self.by_paddle or (settings["shuffle"] and dealing.dealt.count(self.rank) * self.workers > self.samples):
            raise InvalidInputError(
                "paddle.Model cuts off the last samples of an evaluation as padding, and these are others; evaluate "
                "with a paddle.io.DistributedBatchSampler that does not shuffle"
            )
        if graph == "StaticGraphAdapter" and len(model._metrics) > 1:
            raise InvalidInputError(
                "paddle.Model counts the samples of a static evaluation once for each of its metrics, and cuts off too "
                "many; put all into one MetricCollection, and that into one ModelMetric"
            )

    def own(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The rows that count."""
        if self.workers == 1:
            return arrays
        due, seen = self.dealt.begin().due, self.dealt.done
        rows = [len(array) if array.ndim else 0 for array in arrays]
        mine = min(self.batch if self.by_paddle else rows[0], due - seen)
        start, sizes = 0, {mine}
        if self.gathered:
            start, sizes = self.rank * mine, {self.workers * mine}
            sizes.add(min(self.workers * mine, self.samples - self.workers * seen))
        if len(set(rows)) != 1 or rows[0] not in sizes or not mine:
            raise InvalidInputError(
                f"paddle.Model hands over outputs and labels of {', '.join(map(str, rows))} rows, where "
                f"{' or '.join(map(str, sorted(sizes)))} samples are due; each must have one row per sample"
            )
        places, flags = np.arange(start, min(start + mine, rows[0])), self.dealt.take(mine)
        if flags is not None:
            places = places[flags[: len(places)]]
        return [array[places] for array in arrays]


def _dealing(loader: Any, epoch: int, workers: int) -> tuple[bool, Dealing]:
    """Whether Paddle's own sampler deals a loader's samples to the workers, and what it deals."""
    try:
        dealing = Dealing(loader, epoch)
    except InvalidInputError:
        dealing = None
    if dealing is None or dealing.ranks != workers:
        raise InvalidInputError(
            f"the data are not dealt to {workers} workers, and would count more than once: give paddle.Model a data "
            "set, or a paddle.io.DataLoader with a paddle.io.DistributedBatchSampler as its batch_sampler"
        )
    own = type(getattr(loader, "batch_sampler", loader)).__iter__
    return own is paddle.io.DistributedBatchSampler.__iter__, dealing


def own_predictions(outputs: Sequence[Any], loader: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Of what ``Model.predict`` returned, this worker's rows without padding, to be scored.

    Depending on the mode and the device hapi returns this worker's predictions or those of all, padding included.

    Args:
        outputs: by output an array, or a sequence of an array for each batch, with one row per sample.
        loader: the `paddle.io.DataLoader` that was given to ``predict``, with a `paddle.io.DistributedBatchSampler`.

    Returns:
        The outputs' arrays, and for each row the index of its sample in the data set, int64 [n]. Over all workers each
        sample comes once.

    Raises:
        InvalidInputError: for another loader, or outputs that are not of its samples.

    Examples:
        >>> sampler = paddle.io.DistributedBatchSampler(range(3), batch_size=2)
        >>> scores = [np.array([0.5, 0.25]), np.array([0.75])]       # of predict, batch by batch
        >>> own_predictions([scores], paddle.io.DataLoader(range(3), batch_sampler=sampler))
        ([array([0.5 , 0.25, 0.75])], array([0, 1, 2]))
    """
    _, workers = paddles_place(os.environ)
    by_paddle, dealing = _dealing(loader, epoch_under_way(loader), workers)
    rank, batch = dealing.rank(None), int(dealing.settings["batch_size"] or 1)
    arrays = [each if isinstance(each, np.ndarray) else np.concatenate(each) for each in outputs]
    count, rows = dealing.dealt.count(rank), {len(array) for array in arrays}
    places = np.arange(count)
    if rows == {count * workers} and by_paddle:  # of each step the rows of all, rank after rank
        first = places // batch * batch
        places = places + first * (workers - 1) + rank * np.minimum(batch, count - first)
    elif rows != {count}:
        raise InvalidInputError(
            f"outputs have {', '.join(map(str, sorted(rows)))} rows, and each of {workers} workers is dealt {count}"
        )
    kept = ~dealing.dealt.mask(rank)
    return [array[places[kept]] for array in arrays], dealing.dealt.indices(rank)[kept]
