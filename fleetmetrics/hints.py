"""What somebody who comes from another library may have meant: names of arguments, methods and metrics."""

from __future__ import annotations

import difflib
import re
from typing import Iterable, Sequence

__all__ = ["hint_of_argument", "hint_of_method", "hint_of_name"]

#: Names that other libraries give to the arguments of ``add``.
_ARGUMENTS = {
    "prediction": "forecast input inputs logits output outputs pred predicted prediction predictions preds prob probs "
    "probability probabilities score scores y_hat y_pred y_prob y_proba y_score",
    "label": "actual ground_truth gt labels target targets truth y y_true",
    "weight": "sample_weight sample_weights weights w",
    "mask": "masks padding_mask valid",
    "value": "input inputs prediction preds val values x",
    "column": "group group_id groups indexes qid queries query query_id uid user user_id users",
}

#: And to the methods.
_METHODS = {
    "add": "append collect feed forward process update update_state",
    "compute": "accumulate eval evaluate get result value",
    "merge": "merge_state",
    "reset": "clear reset_state reset_states",
    "fresh": "clone",
}

#: And to the metrics, where that is more than a prefix, a suffix, or a matter of capitals.
_METRICS = {
    "AUC": "AUROC AreaUnderCurve ROCAUC ROCAUCScore",
    "Accuracy": "CategoricalAccuracy SparseCategoricalAccuracy TopKAccuracy",
    "AveragePrecision": "AUPRC PRAUC",
    "Bootstrap": "BootStrapper",
    "BrierScore": "BrierScoreLoss",
    "ClickThroughRate": "CTR",
    "CohenKappa": "Kappa",
    "Count": "Counter",
    "ExactMatch": "SubsetAccuracy",
    "ExpectedCalibrationError": "CalibrationError ECE",
    "F1": "Dice",
    "FallOutAtK": "RetrievalFallOut",
    "GAUC": "GroupAUC GroupedAUC",
    "HammingLoss": "HammingDistance",
    "HitRate": "HitRatio HR",
    "Jaccard": "IoU MeanIoU",
    "KendallCorrelation": "KendallRankCorrCoef KendallTau",
    "KolmogorovSmirnov": "KS KSStatistic",
    "LogLoss": "BCE BinaryCrossentropy CategoricalCrossentropy CrossEntropy NLL",
    "MAP": "MeanAveragePrecision RetrievalMAP",
    "MRR": "MeanReciprocalRank ReciprocalRank RetrievalMRR",
    "MatthewsCorrelation": "MCC MatthewsCorrCoef",
    "Mean": "Average Avg",
    "MeanAbsoluteError": "MAE",
    "MeanAbsolutePercentageError": "MAPE",
    "MeanSquaredError": "MSE",
    "MeanSquaredLogError": "MSLE MeanSquaredLogarithmicError",
    "MetricCollection": "CompositeMetric MetricDict Metrics",
    "NDCG": "NormalizedDCG NormalizedDiscountedCumulativeGain RetrievalNormalizedDCG",
    "NormalizedEntropy": "NE",
    "PearsonCorrelation": "PearsonCorrCoef PearsonR",
    "Precision": "PPV PositivePredictiveValue",
    "PrecisionAtK": "RetrievalPrecision",
    "QuantileLoss": "MeanPinballLoss PinballLoss",
    "R2Score": "R2 RSquared",
    "ROCCurve": "ROC",
    "RPrecision": "RetrievalRPrecision",
    "Recall": "Sensitivity TPR TruePositiveRate",
    "RecallAtK": "RetrievalRecall",
    "RootMeanSquaredError": "RMSE",
    "RootMeanSquaredLogError": "RMSLE",
    "SpearmanCorrelation": "SpearmanCorrCoef SpearmanR",
    "Specificity": "Selectivity TNR TrueNegativeRate",
    "StandardDeviation": "Std StdDev",
    "SymmetricMeanAbsolutePercentageError": "SMAPE",
    "TweedieDeviance": "MeanGammaDeviance MeanPoissonDeviance MeanTweedieDeviance",
    "Variance": "Var",
    "WeightedMeanAbsolutePercentageError": "WMAPE",
    "Windowed": "Running",
}
_TASKS = ("binary", "multiclass", "multilabel")


def hint_of_argument(given: str, allowed: Sequence[str]) -> str:
    """``"; did you mean prediction?"``, or a full stop.

    Args:
        given: an argument that there is not.
        allowed: those that there are; the first one is what is measured.
    """
    for argument, names in _ARGUMENTS.items():
        if given.lower() in names.split():
            columns = [each for each in allowed if each not in _ARGUMENTS and argument == "column"]
            for meant in [argument, *(columns if len(columns) == 1 else ())]:
                if meant in allowed:
                    return f"; did you mean {meant}?"
    return _did_you_mean(difflib.get_close_matches(given.lower(), allowed, 1)) or "."


def hint_of_method(name: str) -> str:
    """``"; did you mean compute?"``, or nothing.

    Args:
        name: an attribute that there is not.
    """
    return _did_you_mean([ours for ours, theirs in _METHODS.items() if name in theirs.split()])


def hint_of_name(name: str, known: Iterable[str]) -> str:
    """``"; did you mean AUC?"``, or nothing.

    Args:
        name: one that the package does not have, such as "BinaryAUROC" or "roc_auc_score".
        known: those that it has.
    """
    if name.startswith("_"):
        return ""
    names = {_plain(each): each for each in sorted(known, reverse=True)}  # a class rather than a function
    names.update((_plain(each), ours) for ours, theirs in _METRICS.items() for each in theirs.split())
    plain = _plain(name)
    task = next((each for each in _TASKS if plain.startswith(each)), "")
    for tried in (plain, plain[len(task) :]):
        for end in ("", "score", "metric", "index"):
            if tried.endswith(end) and tried[: len(tried) - len(end)] in names:
                ours = names[tried[: len(tried) - len(end)]]
                return _did_you_mean([f"{ours}(task={task!r})" if task not in ("", "binary") else ours])
    return _did_you_mean([names[each] for each in difflib.get_close_matches(plain, names, 1, 0.75)])


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _did_you_mean(found: Sequence[str]) -> str:
    return f"; did you mean {found[0]}?" if found else ""
