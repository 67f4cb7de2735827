"""`fleet.util` behind `patch_fleet(util=True)`, under each launcher: Paddle's own is local in two of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fleetmetrics as fm
from tests.distributed.cluster import run

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "patched_util.py"


@pytest.mark.parametrize("launch, workers", [("ps", 3), ("ps_gloo", 2), ("collective", 2), ("bare", 1)])
def test_fleet_util_is_of_all_workers_under_each_launcher(launch, workers):
    reports = run(WORKER, workers, launch, args={"launch": launch})
    times = workers * (workers + 1) // 2
    positive = np.arange(8) * times
    signs = [-5] + [3] * (workers - 1)
    for report in reports:
        assert report["positive"].tolist() == report["by_util"].tolist() == positive.tolist()
        assert report["auc"] == pytest.approx(report["ours"]) == fm.auc(positive, positive[::-1])
        assert report["signs"] == [sum(signs), max(signs), min(signs)]
        assert report["float32"].tolist() == [workers * (2**24 + 1.0)]
        assert report["gathered"] == [rank + 0.5 for rank in range(workers)] and report["barrier"] is None
    lengths, many = ({report[name] for report in reports} for name in ("lengths", "many"))
    if workers > 1:
        assert len(lengths) == 1 and lengths.pop().startswith("AgreementError: ")
        assert len(many) == 1 and "input must be one number" in many.pop()
