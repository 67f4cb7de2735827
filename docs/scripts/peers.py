"""Ask torchmetrics, torcheval, scikit-learn and fleetmetrics the same, and print where they answer differently.

    pip install torch torchmetrics torcheval scikit-learn      # in an environment of its own
    PYTHONPATH=. python docs/scripts/peers.py

With --write the table goes into docs/metrics/coming_from.md.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any, Callable

import numpy as np
import sklearn
import torch
import torcheval
import torchmetrics
from _catalogue import DOCS, table, write_between
from sklearn import metrics as of_sklearn
from torcheval import metrics as of_torcheval
from torchmetrics import aggregation, classification, regression, retrieval

import fleetmetrics as fm


def torch_metric(metric: Any, *batch: Any, **more: Any) -> Any:
    metric.update(*[torch.as_tensor(each) for each in batch], **{k: torch.as_tensor(v) for k, v in more.items()})
    return metric.compute()


def ours(metric: Any, *batch: Any, **more: Any) -> Any:
    metric.add(*batch, **more)
    return metric.compute()


def shown(ask: Callable[[], Any] | None) -> str:
    """The answer as a text."""
    if ask is None:
        return ""
    try:
        value = np.asarray(ask())
    except Exception as error:
        return type(error).__name__
    if not value.size:
        return "no value"
    number = value.ravel()[0].item()
    if math.isnan(number):
        return "nan"
    if number == int(number) and abs(number) < 1e12 if math.isfinite(number) else False:
        return f"{int(number):,}"
    return f"{number:.4g}" if abs(number) >= 1e5 or not math.isfinite(number) else f"{number:.4f}"


def rows() -> list[Any]:
    """Question; torchmetrics, torcheval, scikit-learn, fleetmetrics; None: it has no such metric."""
    one_query = [0.9, 0.5, 0.1], [1, 0, 1]
    below_0 = [-1.0, -2.0, -3.0], [1, 0, 1]
    equal = [0.5, 0.5], [0, 1]
    with_0 = [1.0, 2.0], [0.0, 2.0]
    far = 1e8 + np.linspace(0, 1, 1000)
    classes = [0, 1, 2, 1], [0, 1, 1, 1]
    gap = [0, 1, 3, 0, 3], [0, 3, 3, 0, 1]
    nobody = [0.25, 0.75], [0, 0]
    two_queries = [0.9, 0.5, 0.8, 0.7], [0, 1, 0, 0], [0, 0, 1, 1]
    macro = {"task": "multiclass", "num_classes": 3}
    return [
        (
            "MAP of the first 2, documents relevant 1 0 1",
            lambda: torch_metric(retrieval.RetrievalMAP(top_k=2), *one_query, indexes=[0] * 3),
            None,
            None,
            lambda: ours(fm.MAP(k=2), *one_query, query=[0] * 3),
        ),
        (
            "MAP, all scores below 0, relevant 1 0 1",
            lambda: torch_metric(retrieval.RetrievalMAP(), *below_0, indexes=[0] * 3),
            None,
            lambda: of_sklearn.label_ranking_average_precision_score([below_0[1]], [below_0[0]]),
            lambda: ours(fm.MAP(), *below_0, query=[0] * 3),
        ),
        (
            "MRR of two equal scores, relevant 0 1",
            lambda: torch_metric(retrieval.RetrievalMRR(), *equal, indexes=[0, 0]),
            None,
            None,
            lambda: ours(fm.MRR(), *equal, query=[0, 0]),
        ),
        (
            "the same, relevant 1 0",
            lambda: torch_metric(retrieval.RetrievalMRR(), equal[0], [1, 0], indexes=[0, 0]),
            None,
            None,
            lambda: ours(fm.MRR(), equal[0], [1, 0], query=[0, 0]),
        ),
        (
            "MRR, nothing is relevant to one of two queries",
            lambda: torch_metric(retrieval.RetrievalMRR(), *two_queries[:2], indexes=two_queries[2]),
            None,
            None,
            lambda: ours(fm.MRR(), *two_queries[:2], query=two_queries[2]),
        ),
        (
            "top-1 accuracy, scores 0.5 and 0.5, labels 0, 1",
            lambda: torch_metric(classification.MulticlassAccuracy(2, average="micro"), [[0.5, 0.5]] * 2, [0, 1]),
            lambda: torch_metric(of_torcheval.HitRate(k=1), [[0.5, 0.5]] * 2, [0, 1]).mean(),
            None,
            lambda: ours(fm.Accuracy(), [[0.5, 0.5]] * 2, [0, 1]),
        ),
        (
            "accuracy, p = 0.5, label 1",
            lambda: torch_metric(classification.BinaryAccuracy(), [0.5], [1]),
            lambda: torch_metric(of_torcheval.BinaryAccuracy(), [0.5], [1]),
            None,
            lambda: ours(fm.Accuracy(), [0.5], [1]),
        ),
        (
            "precision, p = 0.2, 0.3, 1.1, labels 1",
            lambda: torch_metric(classification.BinaryPrecision(), [0.2, 0.3, 1.1], [1, 1, 1]),
            lambda: torch_metric(of_torcheval.BinaryPrecision(), torch.tensor([0.2, 0.3, 1.1]), [1, 1, 1]),
            None,
            lambda: ours(fm.Precision(), [0.2, 0.3, 1.1], [1, 1, 1]),
        ),
        (
            "macro recall, a class that is predicted and never true",
            lambda: torch_metric(classification.MulticlassRecall(3, average="macro"), *classes),
            lambda: torch_metric(of_torcheval.MulticlassRecall(num_classes=3, average="macro"), *classes),
            lambda: of_sklearn.recall_score(classes[1], classes[0], average="macro"),
            lambda: ours(fm.Recall(**macro), *classes),
        ),
        (
            "linear kappa, classes 0, 1 and 3 of 4",
            lambda: torch_metric(classification.MulticlassCohenKappa(4, weights="linear"), *gap),
            None,
            lambda: of_sklearn.cohen_kappa_score(gap[1], gap[0], weights="linear"),
            lambda: ours(fm.CohenKappa(task="multiclass", num_classes=4, weights="linear"), *gap),
        ),
        (
            "Matthews, one class predicted",
            lambda: torch_metric(classification.BinaryMatthewsCorrCoef(), [1, 1], [1, 0]),
            None,
            lambda: of_sklearn.matthews_corrcoef([1, 0], [1, 1]),
            lambda: ours(fm.MatthewsCorrelation(), [1, 1], [1, 0]),
        ),
        (
            "area under the ROC curve, one class",
            lambda: torch_metric(classification.BinaryAUROC(), *nobody),
            lambda: torch_metric(of_torcheval.BinaryAUROC(), *nobody),
            lambda: of_sklearn.roc_auc_score(nobody[1], nobody[0]),
            lambda: ours(fm.AUC(), *nobody),
        ),
        (
            "average precision, no positive sample",
            lambda: torch_metric(classification.BinaryAveragePrecision(), *nobody),
            lambda: torch_metric(of_torcheval.BinaryAUPRC(), *nobody),
            lambda: of_sklearn.average_precision_score(nobody[1], nobody[0]),
            lambda: ours(fm.AveragePrecision(), *nobody),
        ),
        (
            "normalized entropy, no positive sample",
            None,
            lambda: torch_metric(of_torcheval.BinaryNormalizedEntropy(), nobody[0], [0.0, 0.0]),
            None,
            lambda: ours(fm.NormalizedEntropy(), *nobody),
        ),
        (
            "calibration, no positive sample",
            None,
            lambda: torch_metric(of_torcheval.WeightedCalibration(), *nobody),
            None,
            lambda: ours(fm.Calibration(), *nobody),
        ),
        (
            "ECE in 2 bins, p = 0.5, 0.5, 0.25, 0.75, labels 1 1 0 1",
            lambda: torch_metric(classification.BinaryCalibrationError(2), [0.5, 0.5, 0.25, 0.75], [1, 1, 0, 1]),
            None,
            None,
            lambda: ours(fm.ExpectedCalibrationError(bins=2), [0.5, 0.5, 0.25, 0.75], [1, 1, 0, 1]),
        ),
        (
            "MAPE, a label of 0",
            lambda: torch_metric(regression.MeanAbsolutePercentageError(), *with_0),
            None,
            lambda: of_sklearn.mean_absolute_percentage_error(with_0[1], with_0[0]),
            lambda: ours(fm.MeanAbsolutePercentageError(), *with_0),
        ),
        (
            "R2, labels 1e8 to 1e8 + 1, errors 0.01",
            lambda: torch_metric(regression.R2Score(), far + 0.01, far),
            lambda: torch_metric(of_torcheval.R2Score(), far + 0.01, far),
            lambda: of_sklearn.r2_score(far, far + 0.01),
            lambda: ours(fm.R2Score(), far + 0.01, far),
        ),
        (
            "sum of 16777216 and 1, one after the other",
            lambda: one_after_the_other(aggregation.SumMetric()),
            lambda: one_after_the_other(of_torcheval.Sum()),
            None,
            lambda: ours(fm.Sum(), [16777216.0, 1.0]),
        ),
    ]


def one_after_the_other(metric: Any) -> Any:
    metric.update(torch.tensor(16777216.0))
    metric.update(torch.tensor(1.0))
    return metric.compute()


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true")
    warnings.simplefilter("ignore")
    versions = [
        f"torchmetrics {torchmetrics.__version__}",
        f"torcheval {torcheval.__version__}",
        f"scikit-learn {sklearn.__version__}",
        "fleetmetrics",
    ]
    text = table(["", *versions], [[question, *map(shown, asked)] for question, *asked in rows()])
    print(text)
    if options.parse_args().write:
        write_between(DOCS / "metrics" / "coming_from.md", "peers", text)


if __name__ == "__main__":
    main()
