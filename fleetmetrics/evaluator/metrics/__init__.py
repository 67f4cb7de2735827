"""MMPretrain's metrics on NumPy arrays, Paddle tensors and sequences; importing this registers them."""

from fleetmetrics.evaluator.metrics.confusion_matrix import ConfusionMatrix
from fleetmetrics.evaluator.metrics.multi_label import AveragePrecision, MultiLabelMetric
from fleetmetrics.evaluator.metrics.retrieval import RetrievalAveragePrecision, RetrievalRecall
from fleetmetrics.evaluator.metrics.single_label import Accuracy, SingleLabelMetric

__all__ = [
    "Accuracy",
    "AveragePrecision",
    "ConfusionMatrix",
    "MultiLabelMetric",
    "RetrievalAveragePrecision",
    "RetrievalRecall",
    "SingleLabelMetric",
]
