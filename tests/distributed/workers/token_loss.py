"""One worker of a language model's evaluation: its batches have very different numbers of tokens."""

from __future__ import annotations

import numpy as np
import paddle
from cluster import arguments, report

import fleetmetrics as fm

WORKERS = arguments()["workers"]
TEXTS, LENGTH, CLASSES, BATCH = 13, 12, 9, 2


def text(place):
    """Logits, labels, of which the first text has one and the last one twelve, and bytes."""
    rng = np.random.default_rng(place)
    label = rng.integers(0, CLASSES, LENGTH)
    label[1 + (LENGTH - 1) * place // (TEXTS - 1) :] = -100
    return rng.normal(size=(LENGTH, CLASSES)).astype("float32") * (1 + place), label, 3 + place


rank = fm.get_communicator().rank
sampler = paddle.io.DistributedBatchSampler(range(TEXTS), BATCH, num_replicas=WORKERS, rank=rank, shuffle=True)
exact = fm.MetricCollection(
    {
        "loss": fm.TokenLoss(ignore_index=-100),
        "perplexity": fm.Perplexity(ignore_index=-100),
        "bits": fm.BitsPerByte(ignore_index=-100),
    },
    sampler=sampler,
)
of_losses = fm.TokenLoss(of="token_losses", ignore_index=-100, sampler=sampler)
of_means, batches = fm.TokenLoss(of="mean_losses"), fm.Mean()
for places in sampler:
    logits, label, size = (np.stack(part) for part in zip(*map(text, places)))
    logits, label = paddle.to_tensor(logits), paddle.to_tensor(label)
    exact.add(logits, label, bytes=size)
    each = paddle.nn.functional.cross_entropy(logits, label, reduction="none", ignore_index=-100)
    of_losses.add(paddle.reshape(each, label.shape), label)
    counted = label != -100
    mean = (paddle.reshape(each, label.shape) * counted.astype("float32")).sum() / counted.astype("float32").sum()
    of_means.add(mean, tokens=counted.astype("float32").sum())
    batches.add(mean)
report(
    **exact.compute(),
    losses=of_losses.compute(),
    means=of_means.compute(),
    batches=batches.compute(),
)
