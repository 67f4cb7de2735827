"""Handwritten digits, a network that reads them, and how the loops of Paddle's projects deal and gather them.

The pictures are scikit-learn's, whose pixels are whole numbers. The network's weights are multiples of 1/16, so what
it says of a picture does not depend on the batch that the picture is in, to the last bit.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import paddle

#: So few that the network errs often; and pictures that three workers cannot share evenly, so that two come twice.
TRAINED, TESTED = slice(14), slice(814, 917)


@functools.lru_cache(maxsize=None)
def digits() -> tuple[np.ndarray, np.ndarray]:
    """All pictures, float32 [n, 64], and what they show, int64 [n]."""
    found = importlib.util.find_spec("sklearn")  # without its import, which takes a second
    assert found is not None and found.origin is not None
    table = np.loadtxt(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return table[:, :-1].astype("float32"), table[:, -1].astype("int64")


class Digits(paddle.io.Dataset):
    """The pictures to be evaluated."""

    def __init__(self) -> None:
        pictures, labels = digits()
        self.pictures, self.labels = pictures[TESTED], labels[TESTED]

    def __getitem__(self, index: int) -> Any:
        return self.pictures[index], self.labels[index]

    def __len__(self) -> int:
        return len(self.labels)


def network(trained: slice = TRAINED) -> Any:
    """Logits by the distance to the mean picture of each digit."""
    pictures, labels = digits()
    pictures, labels = pictures[trained], labels[trained]
    means = np.round(np.stack([pictures[labels == digit].mean(axis=0) for digit in range(10)]) * 16) / 16
    layer = paddle.nn.Linear(64, 10)
    layer.weight.set_value((means / 64).T.astype("float32"))
    layer.bias.set_value((-np.square(means).sum(axis=1) / 128).astype("float32"))
    return layer


def dealt(dataset: Any, batch_size: int, shuffle: bool = False, epoch: int = 0) -> Any:
    """A loader that deals to the workers, as all of these projects make it."""
    sampler = paddle.io.DistributedBatchSampler(dataset, batch_size=batch_size, shuffle=shuffle)
    sampler.set_epoch(epoch)
    return paddle.io.DataLoader(dataset, batch_sampler=sampler)


def gathered(tensor: Any) -> Any:
    """The tensors of all workers, one after the other."""
    parts: list[Any] = []
    paddle.distributed.all_gather(parts, tensor)
    return paddle.concat(parts)
