"""MMPretrain's metrics on NumPy arrays, Paddle tensors and sequences; importing this registers them.

All differ from MMPretrain's in this: invalid labels and targets and nan scores are errors; a label repeated in a sample
counts once; counts are integers, and shares float64 instead of float32, which without samples are nan, with
`UndefinedMetricWarning`, instead of 0 or an error; `calculate` leaves its arguments alone.
"""

from fleetmetrics.evaluator.metrics.detection import CocoMetric
from fleetmetrics.evaluator.metrics.multi_label import AveragePrecision, MultiLabelMetric
from fleetmetrics.evaluator.metrics.retrieval import RetrievalAveragePrecision, RetrievalRecall
from fleetmetrics.evaluator.metrics.single_label import Accuracy, ConfusionMatrix, SingleLabelMetric

__all__ = [
    "Accuracy",
    "AveragePrecision",
    "CocoMetric",
    "ConfusionMatrix",
    "MultiLabelMetric",
    "RetrievalAveragePrecision",
    "RetrievalRecall",
    "SingleLabelMetric",
]
