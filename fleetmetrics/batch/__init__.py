"""The samples of one ``add``, flattened, checked and weighted, and the sums over them."""

from fleetmetrics.batch.batch import Batch
from fleetmetrics.batch.sums import per_sample, statistic

__all__ = ["Batch", "per_sample", "statistic"]
