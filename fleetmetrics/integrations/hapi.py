"""`paddle.Model` (hapi): metrics for its ``prepare``, and the values of all workers in its reports.

    metrics = ModelMetric(MetricCollection({"auc": AUC(), "samples": Count()}, name="clicks"))
    model.prepare(optimizer, loss, metrics)
    model.fit(train, held_out, callbacks=[GlobalValues()])

The rows that hapi passes to a metric depend on the mode:

    training                                this worker's batch
    evaluation, dynamic or legacy graph     the batches of all workers of the job, rank after rank; for metrics of
                                            `paddle.metric`, without rows beyond the size of the data set
    evaluation, PIR                         this worker's batch

Each worker adds its own rows of these, without padding. All workers exchange once, after the last batch, before any
callback for the end of the pass. Importing this module imports Paddle.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import paddle

from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.comm import Communicator, Letter, get_communicator
from fleetmetrics.comm.communicator import Call
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.folds import barrier
from fleetmetrics.comm.groups import ranks_of
from fleetmetrics.comm.launchers import paddles_place
from fleetmetrics.errors import (
    AgreementError,
    BucketWarning,
    FleetMetricsError,
    InvalidInputError,
    UndefinedMetricWarning,
)
from fleetmetrics.records.base_metric import BaseMetric
from fleetmetrics.samplers.dealing import Dealing, epoch_under_way
from fleetmetrics.samplers.progress import Pass
from fleetmetrics.support.checks import flag_of
from fleetmetrics.support.vocabulary import with_article
from fleetmetrics.support.warning import muted

__all__ = ["GlobalValues", "ModelMetric", "own_predictions"]

#: hapi cuts off rows beyond the size of the data set: a count that begins here never reaches it.
_FAR_BELOW = -(2**62)
#: The name under which hapi logs what the model minimizes.
_LOSS = "loss"
#: The name of the exchange before an evaluation.
_CALL = "Model.evaluate"


class ModelMetric(paddle.metric.Metric):
    """Any metric for ``paddle.Model.prepare(metrics=...)``; `GlobalValues` must be among the callbacks.

    After every batch hapi logs this worker's value so far, under the metric's name, or under those of a collection's
    members. At the end of an epoch and of an evaluation the value over all workers replaces it, before other
    callbacks see it: early stopping decides the same on every worker.

    With several workers the data must come from a `paddle.io.DistributedBatchSampler`, as hapi makes one of a data set.

    Args:
        metric: a metric, a collection or a wrapper; or a `BaseMetric` without a sampler, which gets each sample once.
        feed: a function of the network's outputs and then the labels, arrays of one row per sample, that returns the
            arguments of the metric's ``add`` by name. None: they are its arguments, in that order.
        training: whether to count in training, too; otherwise the values in training are nan.
        running: whether to compute a value after every batch, which takes time; otherwise it is nan. None: only for
            metrics that do not keep every sample.

    Raises:
        InvalidInputError: the metric is anything else.

    Examples:
        >>> from fleetmetrics import AUC
        >>> metric = ModelMetric(AUC(name="auc"), feed=lambda logit, label: {
        ...     "prediction": 1 / (1 + np.exp(-logit)), "label": label})
        >>> metric.name()
        ['auc']
    """

    feed: Callable[..., Mapping[str, Any]] | None
    metric: BaseMetric | Accumulator[Any]
    running: bool
    training: bool

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
                f"metric is {with_article(type(metric).__name__)}; "
                "it must be a metric, a collection, a wrapper or a BaseMetric"
            )
        if getattr(metric, "sampler", None) is not None:
            raise InvalidInputError(
                f"metric: {metric.name} has a sampler; create it without one, because ModelMetric drops padding"
            )
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
        """Add a batch of outputs and labels; for hapi. Several workers raise an error together, at the end of the pass.

        Raises:
            InvalidInputError: outside a pass that `GlobalValues` follows.
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
            if len(own[0]) and self.feed is not None:
                self.metric.add(**self.feed(*own))
            elif len(own[0]):
                self.metric.add(*own)
        except Exception as error:  # any error: the other metrics continue
            if self._pass.everyone == 1:
                raise
            self._trouble = error

    def accumulate(self) -> list[Any]:
        """This worker's values so far, in the order of the names, without communication; nan if undefined."""
        if self.running and self._pass is not None and not self._pass.skipped:
            with contextlib.suppress(FleetMetricsError), muted(UndefinedMetricWarning, BucketWarning):
                return [_shown(value) for value in self._by_name(self.metric.compute_local()).values()]
        return [math.nan] * len(self.name())  # compute raises the error

    def reset(self) -> None:
        """Forget the added samples, except during a pass: hapi calls it before any report."""
        if self._pass is None:
            self.metric.reset()

    def _by_name(self, value: Any) -> dict[str, Any]:
        return value if isinstance(self.metric, MetricCollection) else {self.metric.name: value}

    def _enter(self, one: _Pass | None) -> None:
        self.metric.reset()
        self.metric._pass.handled = True  # `own` leaves padding out
        self._pass, self._trouble = one, None

    def _values(self, timeout: float | None) -> dict[str, Any]:
        """The values over all workers."""
        if self._pass is None or self._pass.skipped:
            return {}
        group = self._pass.group
        channel = get_communicator().among(group)
        with channel.call(f"ModelMetric {self.metric.name}", timeout, self._trouble) as call:
            call.consult(barrier)
        return self._by_name(self.metric.compute(group=group, timeout=timeout))


class GlobalValues(paddle.callbacks.Callback):
    """Puts the values over all workers into the logs at the end of an epoch and of an evaluation.

    Its place among the callbacks does not matter. It stays with the model: a later evaluation needs none. Named tuples
    become dicts; each entry of a dict is also logged as ``name/key``; ``logs["fleetmetrics"]`` has the values
    unchanged.

    Args:
        report: called on every worker at the end of each pass, with "train" or "eval" and the values by name.
        group: the workers that the values cover and to which the loaders deal, see `fleetmetrics.Communicator.among`;
            None: all.
        timeout: seconds to wait for the others at the end of a pass; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or
            300 until all have met.

    Raises:
        InvalidInputError: from ``fit`` and ``evaluate``: a loader does not deal the samples to the workers.
        AgreementError: from ``evaluate``: groups evaluate different numbers of samples, or in other batches.
        FleetMetricsError: from ``evaluate``: the same error on every worker.

    Examples:
        >>> callback = GlobalValues(report=print)
        >>> callback.values                     # of the last pass of either kind
        {}
    """

    group: Any
    report: Callable[[str, dict[str, Any]], Any] | None
    timeout: float | None

    def __init__(
        self,
        report: Callable[[str, dict[str, Any]], Any] | None = None,
        *,
        group: Any = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self.report, self.group, self.timeout = report, group, timeout
        self.values: dict[str, dict[str, Any]] = {}

    def set_model(self, model: Any) -> None:
        """Note the passes of a `paddle.Model`; hapi calls it."""
        super().set_model(model)
        # Only `_run_one_epoch` has the loader and ends before the callbacks at the end of a pass.
        model._run_one_epoch = functools.partial(self._run, model)

    def on_train_begin(self, logs: Any = None) -> None:
        """Undo the stop after one epoch that num_iters of an earlier run left."""
        self.model.stop_training = False

    def _run(self, model: Any, loader: Any, callbacks: Any, mode: str, *more: Any) -> Any:
        more = more or ({},)  # hapi's default is one dict for all passes of all models
        run = functools.partial(type(model)._run_one_epoch, model, loader, callbacks, mode, *more)
        metrics = [metric for metric in model._metrics if isinstance(metric, ModelMetric)]
        if mode == "predict" or not metrics:
            return run()
        _check_names(model)
        try:
            if _gathers(model, mode):
                with get_communicator().call(_CALL, self.timeout) as call:
                    self._enter(model, loader, mode, metrics)
                    _agree(call, metrics[0]._pass)
            else:
                self._enter(model, loader, mode, metrics)
            logs = run()
            values = {name: value for metric in metrics for name, value in metric._values(self.timeout).items()}
        finally:
            for metric in metrics:
                metric._enter(None)
            if mode == "eval":
                model._adapter._merge_count["eval_total"] = 0
        self.values[mode] = values
        shown = {name: _shown(value) for name, value in values.items()}
        whole = {name: value for name, value in shown.items() if isinstance(value, Mapping)}
        parts = {f"{name}/{key}": part for name, value in whole.items() for key, part in value.items()}
        logs.update({**shown, **parts, "fleetmetrics": values})
        if self.report is not None:
            self.report(mode, values)
        return logs

    def _enter(self, model: Any, loader: Any, mode: str, metrics: Sequence[ModelMetric]) -> None:
        for metric in metrics:
            skipped = mode == "train" and not metric.training
            metric._enter(_Pass(model, loader, mode, self.group, skipped))


def _shown(value: Any) -> Any:
    """The value in a form that Paddle's progress bar can print: its % unpacks tuples."""
    return dict(zip(getattr(value, "_fields", range(len(value))), value)) if isinstance(value, tuple) else value


class _Pass:
    """The rows of a pass that are this worker's own and not padding."""

    def __init__(self, model: Any, loader: Any, mode: str, group: Any, skipped: bool) -> None:
        self.group, self.skipped = group, skipped
        self.place, self.everyone, channel = _placed(group)
        self.gathered = _gathers(model, mode)
        self.due = self.batch = 0
        if self.everyone == 1 or skipped:
            return
        ranks = channel.world_size if group is not None else self.everyone
        rank = channel.rank if group is not None else self.place
        self.by_paddle, dealing = _dealing(loader, 0, ranks)
        dealing.check(rank, ranks)
        self.dealt = Pass(loader)  # it begins when the sampler has begun and the epoch is known
        settings: dict[str, Any] = dealing.settings
        self.samples, self.batch, self.due = settings["samples"], settings["batch_size"], dealing.dealt.count(rank)
        #: Whether Paddle's own metrics get the same rows, and Paddle cuts off the padding.
        self.cut = self.gathered and not all(isinstance(metric, ModelMetric) for metric in model._metrics)
        if self.gathered:
            model._adapter._merge_count["eval_total"] = 0 if self.cut else _FAR_BELOW
        if self.cut:
            self._check_what_is_cut(model, settings["shuffle"])

    def _check_what_is_cut(self, model: Any, shuffled: bool) -> None:
        """Raise `InvalidInputError` if Paddle cuts off rows other than the padding."""
        if self.group is not None:
            what = "and cuts off those beyond the size of the data set, regardless of groups"
        elif not self.by_paddle or (shuffled and self.due * self.everyone > self.samples):
            what = "and cuts off the last samples as padding, which are not the padding"
        elif type(model._adapter).__name__ == "StaticGraphAdapter":
            what = "counts the samples of a static evaluation once for each of its metrics, and cuts off too many"
        else:
            return
        own = ", ".join(type(metric).__name__ for metric in model._metrics if not isinstance(metric, ModelMetric))
        raise InvalidInputError(
            f"paddle.Model has its own metrics ({own}), for which it gathers the samples of all workers, {what}; "
            "evaluate with every metric in a ModelMetric"
        )

    def own(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The rows that count."""
        if self.everyone == 1:
            return arrays
        due, seen = self.dealt.begin().due, self.dealt.done
        rows = [len(array) if array.ndim else 0 for array in arrays]
        shared = self.everyone if self.gathered else 1
        mine = min(self.batch if self.by_paddle else rows[0] // shared, due - seen)
        start, sizes = (self.place * mine if self.gathered else 0), {shared * mine}
        if self.cut:
            sizes.add(min(shared * mine, self.samples - shared * seen))
        if len(set(rows)) != 1 or rows[0] not in sizes or not mine:
            raise InvalidInputError(
                f"paddle.Model passes outputs and labels of {', '.join(map(str, rows))} rows, but "
                f"{' or '.join(map(str, sorted(sizes)))} samples are due; each must have one row per sample"
            )
        places, flags = np.arange(start, min(start + mine, rows[0])), self.dealt.take(mine)
        if flags is not None:
            places = places[flags[: len(places)]]
        return [array[places] for array in arrays]


def _check_names(model: Any) -> None:
    """Raise if two values would have one name in the logs."""
    names = model._metrics_name()
    if len(set(names)) == len(names):
        return
    if names.count(_LOSS) > 1 and names[0] == _LOSS:
        raise InvalidInputError(
            f"metrics: a metric has the name {_LOSS!r}, under which paddle.Model logs its own loss, that of this "
            "worker's last batch; give the metric another name, such as 'log_loss', in the collection or with name="
        )
    raise InvalidInputError(f"metrics: two would be logged under the same name, among {', '.join(names)}; rename one")


def _gathers(model: Any, mode: str) -> bool:
    """Whether hapi passes the rows of all workers to metrics."""
    several = paddles_place(os.environ)[1] > 1
    return several and mode == "eval" and type(model._adapter).__name__ != "StaticPIRGraphAdapter"


def _placed(group: Any) -> tuple[int, int, Communicator]:
    """This worker's place among the workers over which hapi gathers, their number, and the channel of the group."""
    place, everyone = paddles_place(os.environ)
    channel = get_communicator()
    if channel.world_size not in (1, everyone):
        raise InvalidInputError(
            f"PADDLE_TRAINERS_NUM, by which paddle.Model splits its data, is {everyone}, but the channel has "
            f"{channel.world_size} workers; start them with paddle.distributed.launch, or set PADDLE_TRAINERS_NUM and "
            "PADDLE_TRAINER_ID"
        )
    return place, everyone, channel.among(group)


def _agree(call: Call, its: _Pass | None) -> None:
    """Raise if the workers, whose rows Paddle gathers, evaluate different numbers of them."""

    def decide(letters: Sequence[Letter]) -> Letter:
        sizes = ["{:,} samples in batches of {}".format(*letter.note) for letter in letters]
        if len(set(sizes)) > 1:
            raise AgreementError(
                "paddle.Model gathers the samples of all workers at each step of an evaluation, and they have "
                f"{by_rank(sizes)}; give every group the same number, in batches of one size"
            )
        return Letter(None)

    note = [0, 0] if its is None else [its.due, its.batch or 0]
    call.consult(decide, note)


def _dealing(loader: Any, epoch: int, workers: int) -> tuple[bool, Dealing]:
    """Whether Paddle's own sampler deals a loader's samples to the workers, and its dealing."""
    try:
        dealing = Dealing(loader, epoch)
    except InvalidInputError:
        dealing = None
    if dealing is None or dealing.ranks != workers:
        raise InvalidInputError(
            f"the data are not divided among {workers} workers, and would count more than once: give paddle.Model a "
            "data set, or a paddle.io.DataLoader with a paddle.io.DistributedBatchSampler as its batch_sampler, for "
            "a group with num_replicas= and rank="
        )
    own = type(getattr(loader, "batch_sampler", loader)).__iter__
    return own is paddle.io.DistributedBatchSampler.__iter__, dealing


def own_predictions(outputs: Sequence[Any], loader: Any, *, group: Any = None) -> tuple[list[np.ndarray], np.ndarray]:
    """Return this worker's rows, without padding, from the result of ``Model.predict``, for scoring.

    Depending on the mode and the device hapi returns this worker's predictions or those of all, padding included.

    Args:
        outputs: for each output an array, or a sequence of one array per batch, with one row per sample.
        loader: the `paddle.io.DataLoader` given to ``predict``, with a `paddle.io.DistributedBatchSampler`.
        group: the workers to which it deals, see `fleetmetrics.Communicator.among`; None: all.

    Returns:
        The outputs' arrays, and for each row the index of its sample in the data set, int64 [n]. Over all workers each
        sample comes once.

    Raises:
        InvalidInputError: another loader, or outputs of other samples.

    Examples:
        >>> sampler = paddle.io.DistributedBatchSampler(range(3), batch_size=2)
        >>> scores = [np.array([0.5, 0.25]), np.array([0.75])]       # of predict, batch by batch
        >>> own_predictions([scores], paddle.io.DataLoader(range(3), batch_sampler=sampler))
        ([array([0.5 , 0.25, 0.75])], array([0, 1, 2]))
    """
    place, workers = paddles_place(os.environ)
    dealt_to = workers if group is None else len(ranks_of(group, place, workers))
    by_paddle, dealing = _dealing(loader, epoch_under_way(loader), dealt_to)
    rank, batch = dealing.rank(None), int(dealing.settings["batch_size"] or 1)
    arrays = [output if isinstance(output, np.ndarray) else np.concatenate(output) for output in outputs]
    count, rows = dealing.dealt.count(rank), {len(array) for array in arrays}
    places = np.arange(count)
    if rows == {count * workers} and by_paddle:  # for each step the rows of all workers, rank after rank
        first = places // batch * batch
        at = rank if group is None else place
        places = places + first * (workers - 1) + at * np.minimum(batch, count - first)
    elif rows != {count}:
        raise InvalidInputError(
            f"outputs have {', '.join(map(str, sorted(rows)))} rows, but each of {workers} workers gets {count}"
        )
    kept = ~dealing.dealt.mask(rank)
    return [array[places[kept]] for array in arrays], dealing.dealt.indices(rank)[kept]
