"""A worker of a job with data, sharding and tensor parallelism: the topology is Paddle's, without process groups."""

import paddle  # noqa: I001
import numpy as np
from cluster import arguments, error_text, report
from paddle.distributed.communication.group import Group
from paddle.distributed.fleet.base.topology import CommunicateTopology

import fleetmetrics as fm

NAMES = ["data", "pipe", "sharding", "sep", "model"]


class Hybrid:
    """What ``fleet.get_hybrid_communicate_group()`` gives, as far as it needs no process group of Gloo or NCCL."""

    def __init__(self, dims):
        self._topology = CommunicateTopology(NAMES, dims)

    def topology(self):
        return self._topology


def main():
    given = arguments()
    channel = fm.get_communicator()
    rank, hybrid = channel.rank, Hybrid(given["dims"])
    place = hybrid.topology().get_coord(rank)
    sharding = given["dims"][2]
    dealt = place.data * sharding + place.sharding
    rng = np.random.default_rng(3)
    scores, labels = rng.random(given["samples"]), rng.integers(0, 2, given["samples"])
    sampler = paddle.io.DistributedBatchSampler(
        range(given["samples"]), batch_size=4, num_replicas=given["dims"][0] * sharding, rank=dealt
    )
    metrics = fm.MetricCollection({"auc": fm.AUC(), "exact": fm.ExactAUC(), "n": fm.Count()}, sampler=sampler)
    for batch in sampler:
        metrics.add(paddle.to_tensor(scores[batch]), paddle.to_tensor(labels[batch]))
    fm.check_copies(metrics, hybrid)
    report(value=metrics.compute(group=hybrid))
    if place.model == 0:
        axis = hybrid.topology().get_fused_ranks(["data", "sharding"])[0]
        report(by_group=metrics.compute(group=Group(dealt, 7, axis)))
    else:
        axis = hybrid.topology().get_fused_ranks(["data", "sharding"])[0]
        report(outside=error_text(lambda: metrics.compute(group=Group(-1, 7, axis))))
    if rank == given["odd"]:
        metrics.reset()
    report(apart=error_text(lambda: fm.check_copies({"eval": metrics}, hybrid)))
    report(copies=error_text(lambda: fm.check_copies(fm.Count(), None)))
    report(wrong=error_text(lambda: fm.Count().compute(group=Hybrid([2, 1, 1, 1, 1]))))


if __name__ == "__main__":
    main()
