"""One worker of a script that calls `fleet.util` itself, as PaddleRec's trainers do, with fleetmetrics behind it."""

from __future__ import annotations

import os
import sys

import numpy as np
from cluster import arguments, error_text, report
from launchers import be_a_server
from paddle.distributed import fleet
from starting import start

import fleetmetrics as fm


def area(positive, negative):
    """An AUC of the script's own, of histograms that it has summed by itself."""
    above, total = 0, 0.0
    for pos, neg in zip(positive[::-1], negative[::-1]):
        total += neg * (above + above + pos) / 2
        above += pos
    return total / (positive.sum() * negative.sum())


if __name__ == "__main__":
    if os.environ.get("TRAINING_ROLE") == "PSERVER":
        be_a_server()
        sys.exit(0)
    start(arguments()["launch"])
    channel = fm.get_communicator()
    rank, world = channel.rank, channel.world_size
    histogram = np.arange(8) * (rank + 1)
    with fm.patch_fleet(util=True):
        report(
            rank=rank,
            positive=fleet.util.all_reduce(histogram),
            auc=area(fleet.util.all_reduce(histogram), fleet.util.all_reduce(histogram[::-1])),
            ours=fm.auc(histogram, histogram[::-1]),
            signs=[fleet.util.all_reduce([-5 if rank == 0 else 3], mode).item() for mode in ("sum", "max", "min")],
            float32=fleet.util.all_reduce(np.array([2**24 + 1.0])),
            gathered=fleet.util.all_gather(rank + 0.5),
            barrier=fleet.util.barrier(),
            by_util=fm.sum(histogram, util=fleet.util),
            lengths=error_text(lambda: fleet.util.all_reduce([1] * (rank + 1))),
            many=error_text(lambda: fleet.util.all_gather([1] * (rank + 1))),
        )
