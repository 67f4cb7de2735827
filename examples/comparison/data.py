"""The samples of the comparison, and the numbers that one process prints over all of them."""

from __future__ import annotations

import numpy as np

WORKERS = 2
BUCKETS = 4095
"""`num_thresholds` of the AUC on both sides."""
TIMEOUT = 3
"""FLEETMETRICS_TIMEOUT of the job in which a worker never asks, in seconds."""
PATIENCE = 20
"""Seconds until such a job is ended."""

BIG_BATCH, BIG_BATCHES, SMALL_BATCHES = 2**20, 16, 1000
"""16 batches of 2**20 samples bring a counter to 2**24; then 1000 batches of one sample come."""


def counted(size: int) -> dict[str, np.ndarray]:
    """A batch whose every sample has the prediction 0.25 and the label 1: an absolute error of 0.75."""
    return {"prediction": np.full([size, 1], 0.25, np.float32), "label": np.ones([size, 1], np.int64)}


def clicks(rank: int) -> dict[str, np.ndarray]:
    """One worker's share: the second worker's model is better, and it has more samples."""
    random = np.random.default_rng(rank)
    size = (600, 1400)[rank]
    label = (random.random([size, 1]) < 0.2).astype(np.int64)
    logit = random.normal((0.5, 2.0)[rank] * label - 1.0, 1.0)
    return {"prediction": (1 / (1 + np.exp(-logit))).astype(np.float32), "label": label}


def one_process() -> dict[str, str]:
    """What one process prints that has the samples of all workers, by question; plain NumPy, in float64."""
    shares = [clicks(rank) for rank in range(WORKERS)]
    prediction = np.concatenate([share["prediction"] for share in shares]).ravel()
    label = np.concatenate([share["label"] for share in shares]).ravel()
    wrong = np.abs(prediction.astype(np.float64) - label)
    accuracy = np.mean((prediction > 0.5) == label)
    return {
        "number of samples": f"{WORKERS * (BIG_BATCH * BIG_BATCHES + SMALL_BATCHES)}",
        "their MAE": f"{0.75:.6f}",
        "sum of 16777217.0 and 16777217.0": "33554434",
        "sum of -5 and 3": "-2",
        "MSE of no samples": "nan",
        "sum of 3 and 2.5": "5.500000",
        "accuracy, worker 1 never asks": "",
        "AUC": f"{area(prediction, label):.6f}",
        "AUC from the program": f"{area(prediction, label):.6f}",
        "AUC from fetched arrays": f"{area(prediction, label):.6f}",
        "MAE": f"{wrong.mean():.6f}",
        "accuracy from tensors": f"{accuracy:.6f}",
        "accuracy from arrays": f"{accuracy:.6f}",
    }


def area(prediction: np.ndarray, label: np.ndarray) -> float:
    """The share of pairs of a click and no click that are in the right order, equal buckets counting half."""
    bucket = (prediction * np.float32(BUCKETS)).astype(np.int64)
    above = bucket[label == 1][:, None] - bucket[label == 0][None, :]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))
