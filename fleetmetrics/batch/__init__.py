"""What a call of ``add`` brings: flat, checked, weighted; and the sums over its samples."""

from fleetmetrics.batch.batch import Batch
from fleetmetrics.batch.keys import keys_of
from fleetmetrics.batch.sums import per_sample, statistic

__all__ = ["Batch", "keys_of", "per_sample", "statistic"]
