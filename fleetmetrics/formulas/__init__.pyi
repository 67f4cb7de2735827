# Written by `make names`.
from fleetmetrics.formulas.aggregation import HistogramCounts as HistogramCounts
from fleetmetrics.formulas.aggregation import histogram_counts as histogram_counts
from fleetmetrics.formulas.aggregation import standard_deviation as standard_deviation
from fleetmetrics.formulas.aggregation import variance as variance
from fleetmetrics.formulas.auc import BoundedArea as BoundedArea
from fleetmetrics.formulas.auc import auc_bounds as auc_bounds
from fleetmetrics.formulas.auc import auc_from_histogram as auc_from_histogram
from fleetmetrics.formulas.auc import average_precision_bounds as average_precision_bounds
from fleetmetrics.formulas.auc import average_precision_from_histogram as average_precision_from_histogram
from fleetmetrics.formulas.calibration import BrierParts as BrierParts
from fleetmetrics.formulas.calibration import CalibrationPoints as CalibrationPoints
from fleetmetrics.formulas.calibration import KuiperParts as KuiperParts
from fleetmetrics.formulas.calibration import brier_decomposition as brier_decomposition
from fleetmetrics.formulas.calibration import calibration_curve as calibration_curve
from fleetmetrics.formulas.calibration import expected_calibration_error as expected_calibration_error
from fleetmetrics.formulas.calibration import kuiper_calibration as kuiper_calibration
from fleetmetrics.formulas.class_areas import auc_of_classes as auc_of_classes
from fleetmetrics.formulas.class_areas import average_precision_of_classes as average_precision_of_classes
from fleetmetrics.formulas.class_report import ClassReport as ClassReport
from fleetmetrics.formulas.class_report import classification_report as classification_report
from fleetmetrics.formulas.classification import balanced_accuracy as balanced_accuracy
from fleetmetrics.formulas.classification import cohen_kappa as cohen_kappa
from fleetmetrics.formulas.classification import confusion_accuracy as confusion_accuracy
from fleetmetrics.formulas.classification import hamming_loss as hamming_loss
from fleetmetrics.formulas.classification import matthews_correlation as matthews_correlation
from fleetmetrics.formulas.classification import mean_of_samples as mean_of_samples
from fleetmetrics.formulas.click_through import bucket_error as bucket_error
from fleetmetrics.formulas.click_through import normalized_entropy as normalized_entropy
from fleetmetrics.formulas.confusion import f_beta as f_beta
from fleetmetrics.formulas.confusion import jaccard as jaccard
from fleetmetrics.formulas.confusion import normalized_confusion as normalized_confusion
from fleetmetrics.formulas.confusion import precision as precision
from fleetmetrics.formulas.confusion import precision_recall_f1 as precision_recall_f1
from fleetmetrics.formulas.confusion import recall as recall
from fleetmetrics.formulas.confusion import specificity as specificity
from fleetmetrics.formulas.confusion import stat_scores as stat_scores
from fleetmetrics.formulas.contingency import adjusted_rand as adjusted_rand
from fleetmetrics.formulas.contingency import cramers_v as cramers_v
from fleetmetrics.formulas.contingency import normalized_mutual_information as normalized_mutual_information
from fleetmetrics.formulas.correlation import explained_variance as explained_variance
from fleetmetrics.formulas.correlation import pearson_correlation as pearson_correlation
from fleetmetrics.formulas.correlation import r2_score as r2_score
from fleetmetrics.formulas.correlation import rank_comoments as rank_comoments
from fleetmetrics.formulas.correlation import spearman_correlation as spearman_correlation
from fleetmetrics.formulas.curves import PrecisionRecall as PrecisionRecall
from fleetmetrics.formulas.curves import ROC as ROC
from fleetmetrics.formulas.curves import cumulative_gain as cumulative_gain
from fleetmetrics.formulas.curves import kolmogorov_smirnov as kolmogorov_smirnov
from fleetmetrics.formulas.curves import lift as lift
from fleetmetrics.formulas.curves import precision_recall_curve as precision_recall_curve
from fleetmetrics.formulas.curves import roc_curve as roc_curve
from fleetmetrics.formulas.exact_areas import exact_auc as exact_auc
from fleetmetrics.formulas.operating_points import OperatingPoint as OperatingPoint
from fleetmetrics.formulas.operating_points import Sweep as Sweep
from fleetmetrics.formulas.operating_points import equal_error_rate as equal_error_rate
from fleetmetrics.formulas.operating_points import precision_at_fixed_recall as precision_at_fixed_recall
from fleetmetrics.formulas.operating_points import recall_at_fixed_precision as recall_at_fixed_precision
from fleetmetrics.formulas.operating_points import sensitivity_at_specificity as sensitivity_at_specificity
from fleetmetrics.formulas.operating_points import specificity_at_sensitivity as specificity_at_sensitivity
from fleetmetrics.formulas.operating_points import threshold_sweep as threshold_sweep
from fleetmetrics.formulas.operating_points import tpr_at_fpr as tpr_at_fpr
from fleetmetrics.formulas.pairs import PairCounts as PairCounts
from fleetmetrics.formulas.pairs import kendall_correlation as kendall_correlation
from fleetmetrics.formulas.pairs import pair_counts as pair_counts
from fleetmetrics.formulas.pairs import xauc as xauc
from fleetmetrics.formulas.quotients import ratio as ratio
from fleetmetrics.formulas.ranking import average_precision as average_precision
from fleetmetrics.formulas.ranking import average_precision_of_ranking as average_precision_of_ranking
__all__ = [
    "BoundedArea",
    "BrierParts",
    "CalibrationPoints",
    "ClassReport",
    "HistogramCounts",
    "KuiperParts",
    "OperatingPoint",
    "PairCounts",
    "PrecisionRecall",
    "ROC",
    "Sweep",
    "adjusted_rand",
    "auc_bounds",
    "auc_from_histogram",
    "auc_of_classes",
    "average_precision",
    "average_precision_bounds",
    "average_precision_from_histogram",
    "average_precision_of_classes",
    "average_precision_of_ranking",
    "balanced_accuracy",
    "brier_decomposition",
    "bucket_error",
    "calibration_curve",
    "classification_report",
    "cohen_kappa",
    "confusion_accuracy",
    "cramers_v",
    "cumulative_gain",
    "equal_error_rate",
    "exact_auc",
    "expected_calibration_error",
    "explained_variance",
    "f_beta",
    "hamming_loss",
    "histogram_counts",
    "jaccard",
    "kendall_correlation",
    "kolmogorov_smirnov",
    "kuiper_calibration",
    "lift",
    "matthews_correlation",
    "mean_of_samples",
    "normalized_confusion",
    "normalized_entropy",
    "normalized_mutual_information",
    "pair_counts",
    "pearson_correlation",
    "precision",
    "precision_at_fixed_recall",
    "precision_recall_curve",
    "precision_recall_f1",
    "r2_score",
    "rank_comoments",
    "ratio",
    "recall",
    "recall_at_fixed_precision",
    "roc_curve",
    "sensitivity_at_specificity",
    "spearman_correlation",
    "specificity",
    "specificity_at_sensitivity",
    "standard_deviation",
    "stat_scores",
    "threshold_sweep",
    "tpr_at_fpr",
    "variance",
    "xauc",
]
