"""What a call of ``add`` brings: flat, checked, weighted; and the sums over its samples."""

from fleetmetrics.batch.batch import Batch, texts_or_numbers
from fleetmetrics.batch.sums import statistic

__all__ = ["Batch", "statistic", "texts_or_numbers"]
