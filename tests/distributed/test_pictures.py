"""Metrics of pictures among real workers: the number of one process, with padding and an empty worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
WORKER = Path(__file__).parent / "workers" / "pictures.py"


def features(count: int, seed: int) -> list[Any]:
    """Features, many of which are equally near, labels and cameras."""
    rng = np.random.default_rng(seed)
    shapes = {"low": 0, "high": 3, "size": (count, 5)}
    return [
        (rng.integers(**shapes) + 0.5).tolist(),
        rng.integers(0, 6, count).tolist(),
        (np.arange(count) % 3).tolist(),
    ]


GIVEN = {"queries": features(23, 0), "gallery": features(61, 1)}


@pytest.fixture(scope="module", params=[2, 5])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args=GIVEN)


def test_retrieval_has_the_bits_of_one_process(reports):
    metric = fm.Retrieval(topk=(1, 5))
    metric.add(*GIVEN["queries"])
    metric.gallery.add(*GIVEN["gallery"])
    value = metric.compute()
    assert [report["retrieval"] for report in reports] == [value] * len(reports) and 0 < value["mAP"] < 1


def test_retrieval_over_features_of_two_widths_or_without_a_gallery_is_one_error_on_all(reports):
    for report in reports:
        assert report["retrieval_errors"] == reports[0]["retrieval_errors"]
        wide, empty = report["retrieval_errors"]
        assert "Retrieval.gallery: the features of some samples have 2 and of others 3 numbers" in wide
        assert "Retrieval: the gallery is empty" in empty
