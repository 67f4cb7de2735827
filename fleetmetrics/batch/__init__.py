"""The samples of one ``add``, flattened, checked and weighted, and the sums over them."""

from fleetmetrics.batch.batch import Batch
from fleetmetrics.batch.keys import keys_of
from fleetmetrics.batch.sums import per_sample, statistic

__all__ = ["Batch", "keys_of", "per_sample", "statistic"]
