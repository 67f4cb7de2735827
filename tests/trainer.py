"""An imitation of PaddleFormers' Trainer: the order of its calls in an evaluation, what each is given and returns.

PaddleFormers 1.2 was read for it, and `follow` was run with the real one, on one and on three workers; it needs more
packages than the tests have. ``theirs`` is the loss that such a trainer prints: a mean loss once for each sample.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import paddle

import fleetmetrics as fm

TEXTS, LENGTH, CLASSES, BATCH, IGNORED = 13, 12, 9, 2, -100


class Texts(paddle.io.Dataset):
    """The first text has one token that counts, the last one twelve."""

    def __getitem__(self, place: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(place)
        label = rng.integers(0, CLASSES, LENGTH)
        label[1 + (LENGTH - 1) * place // (TEXTS - 1) :] = IGNORED
        return {"labels": label, "x": rng.normal(size=(LENGTH, CLASSES)).astype("float32") * (1 + place)}

    def __len__(self) -> int:
        return TEXTS


class Dropping(paddle.io.DistributedBatchSampler):
    """Deals sample by sample, and leaves out what is left over: as the samplers of these trainers do."""

    def __iter__(self) -> Any:
        own = list(range(self.local_rank, len(self.dataset) // self.nranks * self.nranks, self.nranks))
        return (own[start : start + self.batch_size] for start in range(0, len(own), self.batch_size))


def loss_of(places: Any = range(TEXTS)) -> float:
    """The loss of all tokens of some texts."""
    metric = fm.TokenLoss(ignore_index=IGNORED)
    for place in places:
        metric.add(Texts()[place]["x"][None], Texts()[place]["labels"][None])
    return metric.compute()


def criterion(logits: Any, label: Any) -> Any:
    """The mean loss of the tokens that count."""
    label = label[0] if isinstance(label, tuple) else label  # a pipeline's may come with a mask
    flat = paddle.reshape(label, [-1])
    each = paddle.nn.functional.cross_entropy(paddle.reshape(logits, [-1, CLASSES]), flat, reduction="none")
    counted = paddle.cast(flat != IGNORED, "float32")
    return paddle.sum(paddle.reshape(each, [-1]) * counted) / paddle.sum(counted)


class Output(NamedTuple):
    metrics: dict[str, float]
    num_samples: int


class Pipeline:
    """A stage of a pipeline: the last one alone has logits, and calls the loss function for each micro-batch."""

    def __init__(self, last: bool, several: bool = True) -> None:
        self.last = last
        self._layers = paddle.nn.Layer()
        self._layers._loss_fn = [criterion] if several else criterion  # in Paddle 3, in 2.6

    def eval_batch(self, batches: list[dict[str, Any]]) -> Any:
        found = self._layers._loss_fn
        loss = found[0] if isinstance(found, list) else found
        means = [loss(each["x"], (each["labels"], None)) for each in batches] if self.last else [paddle.zeros([])]
        return sum(means[1:], means[0]) / len(means)


class Trainer:
    def __init__(
        self,
        rank: int,
        workers: int,
        model: Any = None,
        accumulated: int = 1,
        sampler: Any = Dropping,
        max_evaluate_steps: int = -1,
    ) -> None:
        self.args = SimpleNamespace(
            dataset_world_size=workers, dataset_rank=rank, max_evaluate_steps=max_evaluate_steps
        )
        self.evaluations = 0
        self.model, self.accumulated, self.deal = model, accumulated, sampler
        self.label_names = ["labels"]
        self.gathered: list[str] = []
        self._pp_eval_data_buffer: list[Any] = []

    def _get_eval_sampler(self, dataset: Any) -> Any:
        if self.args.dataset_world_size == 1:
            return paddle.io.BatchSampler(dataset, batch_size=BATCH)
        ranks, rank = self.args.dataset_world_size, self.args.dataset_rank
        steps = max(0, self.args.max_evaluate_steps)
        window = {"consumed_samples": self.evaluations * steps * BATCH * ranks} if steps else {}
        return self.deal(dataset, BATCH, num_replicas=ranks, rank=rank, **window)

    def get_eval_dataloader(self, dataset: Any = None) -> Any:
        dataset = Texts() if dataset is None else dataset
        return paddle.io.DataLoader(dataset, batch_sampler=self._get_eval_sampler(dataset))

    def evaluate(self, dataset: Any = None, metric_key_prefix: str = "eval") -> dict[str, float]:
        loader = self.get_eval_dataloader(dataset)
        output = self.evaluation_loop(
            loader,
            description="Evaluation",
            prediction_loss_only=True,
            metric_key_prefix=metric_key_prefix,
            max_eval_iters=self.args.max_evaluate_steps,
        )
        self.evaluations += 1
        return output.metrics

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: Any = None,
        metric_key_prefix: str = "eval",
        max_eval_iters: int = -1,
    ) -> Output:
        losses: list[float] = []
        for step, inputs in enumerate(dataloader):
            loss, logits, _ = self.prediction_step(self.model, inputs, prediction_loss_only, ignore_keys, step=step)
            if loss is not None:
                losses += [float(loss)] * len(inputs["labels"])
            if logits is not None:
                self.gathered.append("logits")
            if step + 1 == max_eval_iters:
                break
        sums = fm.get_communicator().all_reduce(np.array([sum(losses), len(losses)]))
        return Output({f"{metric_key_prefix}_loss": float(sums[0] / sums[1])}, TEXTS)

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None, step: int = -1
    ) -> tuple[Any, Any, Any]:
        if isinstance(model, Pipeline):
            self._pp_eval_data_buffer.append(inputs)
            if len(self._pp_eval_data_buffer) < self.accumulated:
                return None, None, None
            batches, self._pp_eval_data_buffer = self._pp_eval_data_buffer, []
            return model.eval_batch(batches), None, None
        logits, labels = inputs["x"], inputs["labels"]
        loss = criterion(logits, labels)
        return (loss, None, None) if prediction_loss_only else (loss, (logits, "hidden states"), labels)
