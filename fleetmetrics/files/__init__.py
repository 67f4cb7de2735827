"""Metrics of files: Parquet, CSV, JSON Lines, NPZ and Arrow IPC, of any size, on all cores; see docs/guide/files.md."""

from fleetmetrics.files.evaluation import evaluate, find
from fleetmetrics.files.one_file import Evaluated, Read, evaluate_file, together

__all__ = ["Evaluated", "Read", "evaluate", "evaluate_file", "find", "together"]
