"""Exact losses and metrics from ``evaluate`` of the Trainer of PaddleFleet, PaddleFormers or PaddleNLP.

    follow(trainer, {"loss": TokenLoss(ignore_index=-100), "accuracy": Accuracy(ignore_index=-100)})
    trainer.evaluate()  # {"eval_loss": ..., "eval_accuracy": ..., ...}, over all workers

Such a trainer averages the mean losses of its batches, a loss once for each sample, and gathers all logits for other
metrics; under pipeline parallelism it has only that loss. Here each worker adds its own batches where the logits are:
after the model, or in the loss function of a pipeline's last stage. All workers exchange once, after the last batch,
before the trainer logs and before callbacks choose the best model. This module imports no trainer.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Iterator, Literal, Mapping, Sequence

from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.comm import get_communicator
from fleetmetrics.comm.folds import barrier
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.integrations.scalars import flatten
from fleetmetrics.metrics.tokens import Perplexity, TokenLoss
from fleetmetrics.samplers.dealing import Dealing
from fleetmetrics.samplers.progress import Part, Pass
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.vocabulary import counted, with_article
from fleetmetrics.support.warning import warn

__all__ = ["EvaluationMetrics", "follow"]

_Of = Literal["logits", "mean_losses"]


def follow(
    trainer: Any,
    metrics: Mapping[str, Accumulator] | Sequence[Accumulator] | MetricCollection | None = None,
    *,
    of: _Of = "logits",
    ignore_index: int = -100,
    group: Any = None,
    timeout: float | None = None,
) -> EvaluationMetrics:
    """Let a trainer's ``evaluate`` return the values of metrics over all workers.

    Every worker must call it with equal metrics, and then ``evaluate`` as usual. A metric called ``loss`` replaces
    the trainer's ``eval_loss``.

    Args:
        trainer: with the ``evaluation_loop`` and ``prediction_step`` of PaddleFleet's, PaddleFormers' and PaddleNLP's.
        metrics: by name, or a collection; None: ``loss`` and ``perplexity``.
        of: the metrics' input. ``"logits"``: logits and labels of each batch, without the samples that its sampler
            repeats. ``"mean_losses"``: the mean loss and its number of tokens, for metrics that take these, if no
            worker has all logits of a token (tensor parallelism); repeated samples count again.
        ignore_index: the label of tokens that are not in a mean loss, for their number.
        group: the workers that the values cover, see `fleetmetrics.Communicator.among`; None: all. Copies under tensor
            parallelism do not change a mean, and the stages of a pipeline belong together.
        timeout: seconds to wait for the others after the last batch; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or
            300 until all have met.

    Returns:
        An object whose ``leave`` ends this.

    Raises:
        InvalidInputError: the trainer lacks these methods or is already followed, or the metrics cannot be collected.
            From ``evaluate``: the error of a refused batch, on all workers, after the last batch.
    """
    return EvaluationMetrics(trainer, metrics, of=of, ignore_index=ignore_index, group=group, timeout=timeout)


class EvaluationMetrics:
    """The metrics of a followed trainer; see `follow`."""

    group: Any
    ignore_index: int
    metrics: MetricCollection
    of: Any
    timeout: float | None
    trainer: Any

    def __init__(
        self,
        trainer: Any,
        metrics: Any = None,
        *,
        of: _Of = "logits",
        ignore_index: int = -100,
        group: Any = None,
        timeout: float | None = None,
    ) -> None:
        missing = [name for name in ("evaluation_loop", "prediction_step") if not hasattr(trainer, name)]
        if missing:
            raise InvalidInputError(
                f"trainer is {with_article(type(trainer).__name__)} without {' and '.join(missing)}; "
                "it must be a Trainer of PaddleFleet, PaddleFormers or PaddleNLP"
            )
        if isinstance(getattr(trainer.evaluation_loop, "__self__", None), EvaluationMetrics):
            raise InvalidInputError("trainer already has EvaluationMetrics; call their leave() first")
        self.of, self.ignore_index = choice_of("of", of, ("logits", "mean_losses")), ignore_index
        if metrics is None:
            ignored = ignore_index if of == "logits" else None
            kinds = {"loss": TokenLoss, "perplexity": Perplexity}
            metrics = {name: kind(of=of, ignore_index=ignored) for name, kind in kinds.items()}
        self.metrics = metrics if isinstance(metrics, MetricCollection) else MetricCollection(metrics)
        self.trainer, self.group, self.timeout = trainer, group, timeout
        self._loop, self._step = trainer.evaluation_loop, trainer.prediction_step
        self._under_way = False
        self._pass: Pass | None = None  # the pass of the evaluation; None: no sample is repeated
        self._trouble: Exception | None = None
        self._load: Any = getattr(trainer, "get_eval_dataloader", None)
        trainer.evaluation_loop, trainer.prediction_step = self._evaluate, self._predict
        if self._load is not None:
            trainer.get_eval_dataloader = self._loader

    def leave(self) -> None:
        """Restore the trainer's own methods."""
        for name in ("evaluation_loop", "prediction_step", "get_eval_dataloader"):
            vars(self.trainer).pop(name, None)

    # -- what the trainer calls ----------------------------------------------------------------------------

    def _loader(self, *arguments: Any, **named: Any) -> Any:
        if (getattr(getattr(self.trainer, "args", None), "max_evaluate_steps", 0) or 0) > 0:  # only some of the samples
            return self._load(*arguments, **named)
        deal = self.trainer._get_eval_sampler
        self.trainer._get_eval_sampler = lambda dataset: _whole(deal(dataset), dataset)
        try:
            return self._load(*arguments, **named)
        finally:
            del self.trainer._get_eval_sampler

    def _evaluate(self, dataloader: Any, *arguments: Any, **named: Any) -> Any:
        call = inspect.signature(self._loop).bind(dataloader, *arguments, **named).arguments
        if call.get("description") == "Prediction":  # its samples may lack labels
            return self._loop(dataloader, *arguments, **named)
        self.metrics.reset()
        self.metrics._pass.handled = True  # the mask is the sampler's, or a warning names the repeats
        self._trouble, self._under_way = None, True
        try:
            sampler = getattr(dataloader, "batch_sampler", None) or getattr(dataloader, "_batch_sampler", None)
            self._pass = _begun(sampler)
            if self._pass is not None:
                self._warn_of(self._pass, max(0, call.get("max_eval_iters") or 0))
            output = self._loop(dataloader, *arguments, **named)
        finally:
            self._under_way = False
        left = len(getattr(self.trainer, "_pp_eval_data_buffer", ()))
        if left:
            warn(
                f"the trainer skipped the last {left} batches of this evaluation, which do not fill the "
                "gradient_accumulation_steps of its pipeline; make the number of batches a multiple of "
                "gradient_accumulation_steps"
            )
        prefix = call.get("metric_key_prefix", "eval")
        output.metrics.update({f"{prefix}_{name}": value for name, value in self._values().items()})
        return output

    def _values(self) -> dict[str, float]:
        channel = get_communicator().among(self.group)
        with channel.call("Trainer.evaluate", self.timeout, self._trouble) as call:
            call.consult(barrier)
        return flatten(self.metrics.compute(group=self.group, timeout=self.timeout))

    def _warn_of(self, its: Pass, most: int) -> None:
        """Warn of samples that the pass lacks, or counts twice; ``most``: the number of steps, 0: all."""
        begun, sampler = its.begin(), its.sampler
        lost = 0 if most else (begun.dealing.settings["samples"] or 0) - begun.dealing.dealt.distinct
        if lost > 0:
            warn(f"{type(sampler).__name__} leaves {lost} of {len(sampler.dataset)} samples out of this evaluation")
        last = its.done + most * begun.dealing.batch if most else begun.due
        again = sum(its.done <= place < last for place in begun.repeats)
        if self.of == "mean_losses" and again:
            warn(
                f"{type(sampler).__name__} repeats {counted(again, 'samples')} on this worker, and a mean loss "
                "cannot be split: the repeats count again. With of='logits' they do not"
            )

    def _predict(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None, **more: Any
    ) -> tuple[Any, Any, Any]:
        if not self._under_way:
            return self._step(model, inputs, prediction_loss_only, ignore_keys, **more)
        if hasattr(model, "eval_batch"):
            with self._listening(model._layers):
                return self._step(model, inputs, prediction_loss_only, ignore_keys, **more)
        labels = [inputs.get(name) for name in self.trainer.label_names]
        loss_only = prediction_loss_only and self.of == "mean_losses"
        loss, logits, answers = self._step(model, inputs, loss_only, ignore_keys, **more)
        self._feed(loss, logits, labels)
        return (loss, None, None) if prediction_loss_only else (loss, logits, answers)

    @contextlib.contextmanager
    def _listening(self, layers: Any) -> Iterator[None]:
        """Capture the arguments of a pipeline's loss function, which only its last stage calls."""
        before = layers._loss_fn
        several = isinstance(before, list)  # in Paddle 3
        heard = self._heard(before[0] if several else before)
        layers.__dict__["_loss_fn"] = [heard, *before[1:]] if several else heard
        try:
            yield
        finally:
            del layers.__dict__["_loss_fn"]
            layers._loss_fn = before

    def _heard(self, function: Any) -> Any:
        def heard(output: Any, label: Any, *more: Any, **named: Any) -> Any:
            loss = function(output, label, *more, **named)
            self._feed(loss, output, label)
            return loss

        return heard

    # -- what the metrics get ------------------------------------------------------------------------------

    def _feed(self, loss: Any, logits: Any, labels: Any) -> None:
        """Add a batch. Several workers raise an error together at the end, because the others wait for this one."""
        if self._trouble is not None:
            return
        try:
            self._add(loss, _first(logits), _first(labels))
        except Exception as error:  # any error
            if get_communicator().world_size == 1:
                raise
            self._trouble = error

    def _add(self, loss: Any, logits: Any, labels: Any) -> None:
        if labels is None:
            raise InvalidInputError(f"a batch has no {' and '.join(self.trainer.label_names)}; evaluate with labels")
        if self.of == "mean_losses":
            self.metrics.add(loss.detach().mean(), (labels != self.ignore_index).sum())
            return
        if logits is None:
            raise InvalidInputError("the model returns no logits with its loss; of='mean_losses' needs none")
        flags = None if self._pass is None else self._pass.take(int(labels.shape[0]))
        self.metrics.add(logits, labels, mask=flags)


def _begun(sampler: Any) -> Pass | None:
    """The pass that a sampler deals to several workers; None: it deals all samples to this worker.

    With ``max_evaluate_steps``, each evaluation continues where the previous one stopped, after ``consumed_samples``:
    only the whole pass shows which samples are padding.
    """
    dealing = _dealing(sampler)
    if dealing is None:
        return None
    its, rank, parts = Pass(sampler), dealing.rank(None), []
    if dealing.consumed:
        whole = dealing.after(0)
        due = whole.dealt.count(rank)
        parts.append(Part(whole.settings, rank, due - dealing.dealt.count(rank), due))
    its.hold(parts, dealing.epoch)
    its.begin()
    return its


def _dealing(sampler: Any) -> Dealing | None:
    """The dealing of a sampler to several workers; None: it has one worker."""
    try:
        dealing = Dealing(sampler)
    except InvalidInputError:
        return None
    return dealing if dealing.ranks > 1 else None


def _whole(sampler: Any, dataset: Any) -> Any:
    """The sampler; Paddle's, which repeats samples, replaces one that silently leaves some out."""
    dealing = None if getattr(sampler, "drop_last", False) else _dealing(sampler)
    if dealing is None or dealing.dealt.distinct >= len(dataset):
        return sampler
    import paddle

    return paddle.io.DistributedBatchSampler(
        dataset, sampler.batch_size, num_replicas=dealing.ranks, rank=dealing.local_rank
    )


def _first(value: Any) -> Any:
    """The logits among a model's outputs, and the labels if they are among them."""
    while isinstance(value, (tuple, list)):
        value = value[0] if value else None
    return value
