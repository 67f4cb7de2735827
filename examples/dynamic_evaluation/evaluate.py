"""Evaluate a network on several workers: what each of them has alone, what all have, and what one process has.

    python -m paddle.distributed.launch --nproc_per_node 3 --backend gloo evaluate.py
    python evaluate.py

Every worker trains the same network on scikit-learn's digits, and evaluates its share of those held out.
"""

from __future__ import annotations

import math
import sys
import zlib  # noqa: F401, SciPy may crash if this comes after Paddle 2.6

import numpy as np
import paddle
from paddle import nn
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import fleetmetrics
from fleetmetrics import Accuracy, Count, MetricCollection
from fleetmetrics.evaluator import Evaluator

HELD_OUT = 457  # samples: no number of workers divides them
BATCH = 16
METRICS = [dict(type="Accuracy", topk=(1, 5)), dict(type="SingleLabelMetric")]


class Digits(fleetmetrics.BaseMetric):
    """The first way: a custom metric. It gets the columns that `add` was given, of all workers together."""

    def compute_metric(self, results):
        label, score = results["label"], results["score"]
        return {
            "accuracy": np.mean(score.argmax(axis=1) == label),
            "log loss": -math.fsum(np.log(score[np.arange(len(label)), label], dtype=np.float64)) / len(label),
            "AUC": roc_auc_score(label, score, multi_class="ovr"),
            "samples": results["sample"],  # what was counted; only for the comparison
        }


@paddle.no_grad()
def feed(model, loader, *pairs, states=None):
    """The loop of an evaluation, the same on one worker and on many."""
    for image, label, sample in loader:
        # Probabilities: `Accuracy` by default counts no score below 0, as logits may be. And the last bits of a
        # network's output depend on the batch that a sample is in: hence float64 in there, and float32 from here on.
        score = nn.functional.softmax(model(image)).astype("float32")
        # The second way: ready-made metrics. They take a dict for each sample.
        data_samples = [dict(pred_score=s, gt_label=g) for s, g in zip(score.numpy(), label.numpy())]
        for metric, evaluator in pairs:
            metric.add(score=score, label=label, sample=sample)
            evaluator.process(data_samples)
        if states is not None:  # The third way: metrics that keep no samples, but sums of them.
            states.add(score, label)


def values(metric, evaluator, size=None):
    """The values of both by name, and the samples that were counted. All workers must call it."""
    found = {**metric.compute(size), **evaluator.evaluate(size)}
    return found, found.pop("samples")


def alone():
    """A block in which values are those of this worker alone."""
    return fleetmetrics.set_communicator(fleetmetrics.LocalCommunicator())


def main():
    paddle.set_device("cpu")
    if paddle.distributed.get_world_size() > 1:
        paddle.distributed.init_parallel_env()
    workers = fleetmetrics.get_communicator()
    model, held_out = trained()
    if workers.rank == 0:
        print(f"workers: {workers.world_size}, samples: {HELD_OUT}, in batches of {BATCH}")
        pair = Digits(), Evaluator(METRICS)
        feed(model, paddle.io.DataLoader(held_out, batch_size=BATCH), pair)
        with alone():
            one_process, _ = values(*pair)

    right = True
    for shuffle in (False, True):
        sampler = paddle.io.DistributedBatchSampler(held_out, BATCH, shuffle=shuffle)
        exact = Digits(sampler=sampler), Evaluator(METRICS, sampler=sampler)  # nothing else is needed
        states = MetricCollection({"accuracy": Accuracy(), "samples": Count()}, sampler=sampler)  # or this
        # For the comparison: one sample from each worker in turn, cut at the size, as MMEval and MMEngine do it; and
        # a worker's own values.
        turns = Digits(dist_collect_mode="unzip"), Evaluator(METRICS, collect_mode="unzip")
        own = Digits(), Evaluator(METRICS)
        feed(model, paddle.io.DataLoader(held_out, batch_sampler=sampler), exact, turns, own, states=states)
        overall, counted = values(*exact)
        of_states = states.compute()
        interleaved, others = values(*turns, size=HELD_OUT)
        with alone():
            local, dealt = values(*own)
        # By rank: its own values and the global ones; how many samples it was dealt, and how many of them are padding.
        rows = workers.all_gather(np.array([[*local.values()], [*overall.values()]]))
        shares = workers.all_gather(np.array([len(dealt), len(dealt) - states.compute_local()["samples"]]))
        if workers.rank == 0:
            print("\nshuffled" if shuffle else "\nin order")
            show(one_process, overall, interleaved, [row for row, _ in rows])
            right &= of_states == {"accuracy": one_process["accuracy"], "samples": HELD_OUT}
            for rank, (share, padded) in enumerate(shares):
                right &= (same := np.array_equal(rows[rank][1], [*one_process.values()]))
                verdict = "the global values of one process" if same else "OTHER GLOBAL VALUES THAN ONE PROCESS"
                print(f"worker {rank}: {share} samples, {padded} of them padding; {verdict}")
            print(f"global:      {tally(counted)}\ninterleaved: {tally(others)}")
    sys.exit(0 if right else 1)


def trained():
    """A small network, and the samples held out; the same on every worker."""
    image, label = load_digits(return_X_y=True)
    paddle.set_default_dtype("float64")
    image, label = paddle.to_tensor(image / 16), paddle.to_tensor(label)
    paddle.seed(1)  # in place of paddle.DataParallel: each worker trains on everything
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
    adam = paddle.optimizer.Adam(0.01, parameters=model.parameters())
    end = len(label) - HELD_OUT
    for start in [*range(0, end, 32)] * 5:
        batch = slice(start, min(start + 32, end))
        nn.functional.cross_entropy(model(image[batch]), label[batch]).backward()
        adam.step()
        adam.clear_grad()
    model.eval()  # or Dropout goes on
    return model, paddle.io.TensorDataset([image[end:], label[end:], paddle.arange(HELD_OUT)])


def show(one_process, overall, interleaved, by_rank):
    """One metric a line, and how far the global and the interleaved value are from that of one process."""
    workers = [f"worker {rank}" for rank in range(len(by_rank))]
    table = [["", *workers, "one process", "global", "off by", "interleaved", "off by"]]
    for (name, one), *local in zip(one_process.items(), *by_rank):
        cells = [f"{value:#.6g}" for value in (*local, one)]
        for value in (overall[name], interleaved[name]):
            cells += [f"{value:#.6g}", f"{abs(value - one):.1e}"]
        table.append([name, *cells])
    widths = [max(map(len, column)) for column in zip(*table)]
    for name, *cells in table:
        print("  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]))


def tally(samples):
    """Which samples were counted more than once, and which never."""
    times = np.bincount(samples, minlength=HELD_OUT)
    twice, never = np.flatnonzero(times > 1).tolist(), np.flatnonzero(times == 0).tolist()
    return f"counted twice: {twice or 'none'}, never: {never or 'none'}"


if __name__ == "__main__":
    main()
