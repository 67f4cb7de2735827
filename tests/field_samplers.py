"""Samplers as the frameworks on Paddle have them, written by what they deal: which samples, to whom, in which order."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import paddle


class LastBatchPaddingSampler(paddle.io.DistributedBatchSampler):
    """PaddleFleet's for evaluations: it fills the last step of all workers with the first samples of the data set."""

    def __iter__(self) -> Iterator[list[int]]:
        samples, step = len(self.dataset), self.batch_size * self.nranks
        order = np.arange(samples)
        order = np.append(order, np.resize(order[:step], -samples % step))
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        yield from order.reshape(-1, self.nranks, self.batch_size)[:, self.local_rank].tolist()


class MappingDistributedBatchSampler(paddle.io.DistributedBatchSampler):
    """PaddleFleet's: what Paddle's own deals, except for what all workers together consumed before."""

    def __init__(self, *given: Any, consumed_samples: int = 0, **more: Any) -> None:
        super().__init__(*given, **more)
        self.consumed_samples = consumed_samples

    def set_epoch(self, epoch: int = 0, consumed_samples: int = 0) -> None:
        self.epoch, self.consumed_samples = epoch, consumed_samples

    def __iter__(self) -> Iterator[list[int]]:
        own = [index for batch in super().__iter__() for index in batch]
        yield from _in_batches(own[self.consumed_samples // self.nranks :], self.batch_size)


class DistributedBatchSampler(paddle.io.BatchSampler):
    """PaddleFormers': of the name of Paddle's own, it deals sample by sample, drops the rest, and seeds Paddle."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int,
        rank: int,
        shuffle: bool = False,
        drop_last: bool = False,
        consumed_samples: int = 0,
        data_seed: int = 0,
    ) -> None:
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.nranks, self.local_rank, self.consumed_samples = num_replicas, rank, consumed_samples
        self.base_seed = self.curr_seed = data_seed
        self.epoch = 0

    def set_epoch(self, epoch: int = 0, consumed_samples: int = 0) -> None:
        self.curr_seed, self.epoch, self.consumed_samples = self.base_seed + epoch, epoch, consumed_samples

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(len(self.dataset) // self.nranks * self.nranks)
        if self.shuffle:
            paddle.seed(self.curr_seed)
            order = paddle.randperm(order.size).numpy()
        own = order[self.local_rank :: self.nranks][self.consumed_samples // self.nranks :]
        yield from _in_batches(own.tolist(), self.batch_size)

    def __len__(self) -> int:
        return -(-(len(self.dataset) // self.nranks - self.consumed_samples // self.nranks) // self.batch_size)


class WholeRest(DistributedBatchSampler):
    """PaddleFormers' of another version: each worker is dealt all of the last, incomplete step."""

    def __iter__(self) -> Iterator[list[int]]:
        steps = _in_batches(list(range(self.consumed_samples, len(self.dataset))), self.batch_size * self.nranks)
        for step in steps:
            start = self.local_rank * self.batch_size
            whole = len(step) == self.batch_size * self.nranks
            yield step[start : start + self.batch_size] if whole else step

    def __len__(self) -> int:
        return -(-(len(self.dataset) - self.consumed_samples) // (self.batch_size * self.nranks))


class Backwards(paddle.io.DistributedBatchSampler):
    """One with a way of its own: from the end of the data set, in runs; the last worker gets fewer."""

    def __iter__(self) -> Iterator[list[int]]:
        order, each = list(range(len(self.dataset)))[::-1], -(-len(self.dataset) // self.nranks)
        yield from _in_batches(order[self.local_rank * each :][:each], self.batch_size)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _in_batches(indices: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


#: By name a sampler over a data set, for a worker of several.
KINDS: dict[str, Any] = {
    "in order": lambda data, rank, ranks: paddle.io.DistributedBatchSampler(data, 4, ranks, rank),
    "shuffled": lambda data, rank, ranks: paddle.io.DistributedBatchSampler(data, 4, ranks, rank, shuffle=True),
    "dropped": lambda data, rank, ranks: paddle.io.DistributedBatchSampler(data, 4, ranks, rank, True, True),
    "subset": lambda data, rank, ranks: paddle.io.DistributedBatchSampler(
        paddle.io.Subset(data, range(0, len(data), 2)), 4, ranks, rank, shuffle=True
    ),
    "own": lambda data, rank, ranks: Backwards(data, 4, ranks, rank),
    "last batch": lambda data, rank, ranks: LastBatchPaddingSampler(data, 4, ranks, rank),
    "last batch, shuffled": lambda data, rank, ranks: LastBatchPaddingSampler(data, 4, ranks, rank, shuffle=True),
    "mapping": lambda data, rank, ranks: MappingDistributedBatchSampler(data, 4, ranks, rank, shuffle=True),
    "interleaved": lambda data, rank, ranks: DistributedBatchSampler(data, 4, ranks, rank, shuffle=True),
    "whole rest": lambda data, rank, ranks: WholeRest(data, 4, ranks, rank),
}
