"""Every function of Paddle's page on distributed metrics, in both spellings, as real workers call it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.distributed.cluster import run
from tests.paddle_version import PIR

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "metrics_page.py"


def test_the_pages_lines_give_the_numbers_of_one_process_patched_and_migrated():
    reports = run(WORKER, 2, "ps")
    batches = [batch for report in reports for batch in report["batches"]]
    click, label = (np.concatenate([batch[part] for batch in batches])[:, 0].astype(float) for part in (0, 1))
    losses = [np.mean((report["batches"][-1][0] - report["batches"][-1][1]) ** 2) for report in reports]
    expected = {"sum": sum(losses), "max": max(losses), "min": min(losses)}
    if not PIR:
        ahead = click[label == 1][:, None] - click[label == 0]
        right = (click > 0.5) == label
        expected["auc"] = np.mean((ahead > 0) + (ahead == 0) / 2)
        expected["mae"], expected["mse"] = np.mean(np.abs(click - label)), np.mean((click - label) ** 2)
        expected.update({"acc": right.mean(), "by hand": right.mean(), "rmse": np.sqrt(expected["mse"])})
    for report in reports:
        for way in ("unedited", "migrated"):
            values = {name: [float(np.squeeze(value)) for value in pair] for name, pair in report[way].items()}
            assert values == {name: pytest.approx([value] * 2, abs=1e-15) for name, value in expected.items()}, way
    # Paddle's own are of one worker under this launcher, which is why all this is done.
    paddles = [report["paddles"] for report in reports]
    assert all(paddles[0][name] != paddles[1][name] for name in expected)
