# Written by `make names`.
from fleetmetrics._version import __version__ as __version__
from fleetmetrics.base.collection import MetricCollection as MetricCollection
from fleetmetrics.base.merging import merge_all as merge_all
from fleetmetrics.base.metric import Declared as Declared
from fleetmetrics.base.metric import Metric as Metric
from fleetmetrics.base.record_metric import GroupedMetric as GroupedMetric
from fleetmetrics.base.record_metric import RecordMetric as RecordMetric
from fleetmetrics.batch import Batch as Batch
from fleetmetrics.comm import Communicator as Communicator
from fleetmetrics.comm import LocalCommunicator as LocalCommunicator
from fleetmetrics.comm import SocketCommunicator as SocketCommunicator
from fleetmetrics.comm import UtilCommunicator as UtilCommunicator
from fleetmetrics.comm import get_communicator as get_communicator
from fleetmetrics.comm import set_communicator as set_communicator
from fleetmetrics.comm.backends import get_dist_backend as get_dist_backend
from fleetmetrics.comm.backends import list_all_backends as list_all_backends
from fleetmetrics.comm.backends import set_default_dist_backend as set_default_dist_backend
from fleetmetrics.doctor import doctor as doctor
from fleetmetrics.errors import AgreementError as AgreementError
from fleetmetrics.errors import AssertedInputError as AssertedInputError
from fleetmetrics.errors import AuthenticationError as AuthenticationError
from fleetmetrics.errors import BucketWarning as BucketWarning
from fleetmetrics.errors import CommunicatorError as CommunicatorError
from fleetmetrics.errors import ConditionError as ConditionError
from fleetmetrics.errors import CorruptFileError as CorruptFileError
from fleetmetrics.errors import DataError as DataError
from fleetmetrics.errors import DeadlineError as DeadlineError
from fleetmetrics.errors import DuplicateStateError as DuplicateStateError
from fleetmetrics.errors import FileAccessError as FileAccessError
from fleetmetrics.errors import FleetMetricsError as FleetMetricsError
from fleetmetrics.errors import IntegerOverflowError as IntegerOverflowError
from fleetmetrics.errors import InvalidInputError as InvalidInputError
from fleetmetrics.errors import MissingArgumentError as MissingArgumentError
from fleetmetrics.errors import MissingLibraryError as MissingLibraryError
from fleetmetrics.errors import NoChannelError as NoChannelError
from fleetmetrics.errors import NotReadyError as NotReadyError
from fleetmetrics.errors import RecordError as RecordError
from fleetmetrics.errors import ServerProcessError as ServerProcessError
from fleetmetrics.errors import SizeWarning as SizeWarning
from fleetmetrics.errors import StateNotFoundError as StateNotFoundError
from fleetmetrics.errors import StaticProgramError as StaticProgramError
from fleetmetrics.errors import UnauthenticatedWarning as UnauthenticatedWarning
from fleetmetrics.errors import UndefinedMetricWarning as UndefinedMetricWarning
from fleetmetrics.errors import UnknownArgumentError as UnknownArgumentError
from fleetmetrics.errors import UnknownAttributeError as UnknownAttributeError
from fleetmetrics.errors import UnknownNameError as UnknownNameError
from fleetmetrics.errors import UnnamedRunWarning as UnnamedRunWarning
from fleetmetrics.evaluation import EvaluationResult as EvaluationResult
from fleetmetrics.evaluation import evaluate as evaluate
from fleetmetrics.evaluation.consistency.consistency_result import ConsistencyResult as ConsistencyResult
from fleetmetrics.evaluation.consistency.streams import consistency as consistency
from fleetmetrics.evaluation.history import HistoryResult as HistoryResult
from fleetmetrics.evaluation.history import history as history
from fleetmetrics.formulas.bootstrap import BootstrapResult as BootstrapResult
from fleetmetrics.formulas.differences import Difference as Difference
from fleetmetrics.formulas.differences import paired_difference as paired_difference
from fleetmetrics.formulas.differences import unpaired_difference as unpaired_difference
from fleetmetrics.formulas.intervals import IntervalResult as IntervalResult
from fleetmetrics.functional import acc as acc
from fleetmetrics.functional import auc as auc
from fleetmetrics.functional import mae as mae
from fleetmetrics.functional import max as max
from fleetmetrics.functional import min as min
from fleetmetrics.functional import mse as mse
from fleetmetrics.functional import rmse as rmse
from fleetmetrics.functional import sum as sum
from fleetmetrics.integrations.patch import patch_fleet as patch_fleet
from fleetmetrics.integrations.scalars import flatten as flatten
from fleetmetrics.integrations.scikit_learn import classification_report as classification_report
from fleetmetrics.integrations.scoring import scorer as scorer
from fleetmetrics.metrics.aggregation import Count as Count
from fleetmetrics.metrics.aggregation import Max as Max
from fleetmetrics.metrics.aggregation import Min as Min
from fleetmetrics.metrics.aggregation import Sum as Sum
from fleetmetrics.metrics.aggregation import Throughput as Throughput
from fleetmetrics.metrics.auc import AUC as AUC
from fleetmetrics.metrics.auc import AveragePrecision as AveragePrecision
from fleetmetrics.metrics.by_user import GAUC as GAUC
from fleetmetrics.metrics.by_user import UAUC as UAUC
from fleetmetrics.metrics.by_user import WuAUC as WuAUC
from fleetmetrics.metrics.calibration.binned import CalibrationCurve as CalibrationCurve
from fleetmetrics.metrics.calibration.brier import BrierDecomposition as BrierDecomposition
from fleetmetrics.metrics.calibration.brier import BrierScore as BrierScore
from fleetmetrics.metrics.calibration.calibration_errors import AdaptiveCalibrationError as AdaptiveCalibrationError
from fleetmetrics.metrics.calibration.calibration_errors import ExpectedCalibrationError as ExpectedCalibrationError
from fleetmetrics.metrics.calibration.kuiper import KuiperCalibration as KuiperCalibration
from fleetmetrics.metrics.classification.accuracy import Accuracy as Accuracy
from fleetmetrics.metrics.classification.accuracy import ExactMatch as ExactMatch
from fleetmetrics.metrics.classification.agreement import BalancedAccuracy as BalancedAccuracy
from fleetmetrics.metrics.classification.agreement import CohenKappa as CohenKappa
from fleetmetrics.metrics.classification.agreement import ConfusionMatrix as ConfusionMatrix
from fleetmetrics.metrics.classification.agreement import HammingLoss as HammingLoss
from fleetmetrics.metrics.classification.agreement import MatthewsCorrelation as MatthewsCorrelation
from fleetmetrics.metrics.classification.averaged import F1 as F1
from fleetmetrics.metrics.classification.averaged import FBeta as FBeta
from fleetmetrics.metrics.classification.averaged import Jaccard as Jaccard
from fleetmetrics.metrics.classification.averaged import Precision as Precision
from fleetmetrics.metrics.classification.averaged import Recall as Recall
from fleetmetrics.metrics.classification.averaged import Specificity as Specificity
from fleetmetrics.metrics.classification.averaged import StatScores as StatScores
from fleetmetrics.metrics.classification.class_reports import ClassificationReport as ClassificationReport
from fleetmetrics.metrics.classification.contingency import AdjustedRand as AdjustedRand
from fleetmetrics.metrics.classification.contingency import CramersV as CramersV
from fleetmetrics.metrics.classification.contingency import NormalizedMutualInformation as NormalizedMutualInformation
from fleetmetrics.metrics.classification.losses import HingeLoss as HingeLoss
from fleetmetrics.metrics.classification.losses import LogLoss as LogLoss
from fleetmetrics.metrics.click_through import BucketError as BucketError
from fleetmetrics.metrics.click_through import COPC as COPC
from fleetmetrics.metrics.click_through import Calibration as Calibration
from fleetmetrics.metrics.click_through import ClickThroughRate as ClickThroughRate
from fleetmetrics.metrics.click_through import NormalizedEntropy as NormalizedEntropy
from fleetmetrics.metrics.click_through import PredictedClickThroughRate as PredictedClickThroughRate
from fleetmetrics.metrics.click_through import RecalibratedNormalizedEntropy as RecalibratedNormalizedEntropy
from fleetmetrics.metrics.counterfactual import DoublyRobust as DoublyRobust
from fleetmetrics.metrics.counterfactual import EffectiveSampleSize as EffectiveSampleSize
from fleetmetrics.metrics.counterfactual import IPS as IPS
from fleetmetrics.metrics.counterfactual import SNIPS as SNIPS
from fleetmetrics.metrics.curves import CumulativeGain as CumulativeGain
from fleetmetrics.metrics.curves import KolmogorovSmirnov as KolmogorovSmirnov
from fleetmetrics.metrics.curves import Lift as Lift
from fleetmetrics.metrics.curves import PrecisionRecallCurve as PrecisionRecallCurve
from fleetmetrics.metrics.curves import ROCCurve as ROCCurve
from fleetmetrics.metrics.distribution import Histogram as Histogram
from fleetmetrics.metrics.distribution import Mean as Mean
from fleetmetrics.metrics.distribution import StandardDeviation as StandardDeviation
from fleetmetrics.metrics.distribution import Variance as Variance
from fleetmetrics.metrics.exact_auc import ExactAUC as ExactAUC
from fleetmetrics.metrics.operating_points import EqualErrorRate as EqualErrorRate
from fleetmetrics.metrics.operating_points import PrecisionAtFixedRecall as PrecisionAtFixedRecall
from fleetmetrics.metrics.operating_points import RecallAtFixedPrecision as RecallAtFixedPrecision
from fleetmetrics.metrics.operating_points import SensitivityAtSpecificity as SensitivityAtSpecificity
from fleetmetrics.metrics.operating_points import SpecificityAtSensitivity as SpecificityAtSensitivity
from fleetmetrics.metrics.operating_points import TPRAtFPR as TPRAtFPR
from fleetmetrics.metrics.operating_points import ThresholdSweep as ThresholdSweep
from fleetmetrics.metrics.ranking.at_k import FBetaAtK as FBetaAtK
from fleetmetrics.metrics.ranking.at_k import FallOutAtK as FallOutAtK
from fleetmetrics.metrics.ranking.at_k import HitRate as HitRate
from fleetmetrics.metrics.ranking.at_k import PrecisionAtK as PrecisionAtK
from fleetmetrics.metrics.ranking.at_k import RPrecision as RPrecision
from fleetmetrics.metrics.ranking.at_k import RecallAtK as RecallAtK
from fleetmetrics.metrics.ranking.order import DCG as DCG
from fleetmetrics.metrics.ranking.order import MAP as MAP
from fleetmetrics.metrics.ranking.order import MRR as MRR
from fleetmetrics.metrics.ranking.order import NDCG as NDCG
from fleetmetrics.metrics.regression.correlation import ExplainedVariance as ExplainedVariance
from fleetmetrics.metrics.regression.correlation import PearsonCorrelation as PearsonCorrelation
from fleetmetrics.metrics.regression.correlation import R2Score as R2Score
from fleetmetrics.metrics.regression.deviances import QuantileLoss as QuantileLoss
from fleetmetrics.metrics.regression.deviances import TweedieDeviance as TweedieDeviance
from fleetmetrics.metrics.regression.differences import LogCoshError as LogCoshError
from fleetmetrics.metrics.regression.differences import MaxError as MaxError
from fleetmetrics.metrics.regression.differences import MeanAbsoluteError as MeanAbsoluteError
from fleetmetrics.metrics.regression.differences import MeanBias as MeanBias
from fleetmetrics.metrics.regression.differences import MeanSquaredError as MeanSquaredError
from fleetmetrics.metrics.regression.differences import MeanSquaredLogError as MeanSquaredLogError
from fleetmetrics.metrics.regression.differences import RootMeanSquaredError as RootMeanSquaredError
from fleetmetrics.metrics.regression.differences import RootMeanSquaredLogError as RootMeanSquaredLogError
from fleetmetrics.metrics.regression.median_absolute_error import MedianAbsoluteError as MedianAbsoluteError
from fleetmetrics.metrics.regression.quantile_error import QuantileError as QuantileError
from fleetmetrics.metrics.regression.ranks import KendallCorrelation as KendallCorrelation
from fleetmetrics.metrics.regression.ranks import SpearmanCorrelation as SpearmanCorrelation
from fleetmetrics.metrics.regression.ranks import XAUC as XAUC
from fleetmetrics.metrics.regression.relative import MeanAbsolutePercentageError as MeanAbsolutePercentageError
from fleetmetrics.metrics.regression.relative import SymmetricMeanAbsolutePercentageError as SymmetricMeanAbsolutePercentageError
from fleetmetrics.metrics.regression.relative import WeightedMeanAbsolutePercentageError as WeightedMeanAbsolutePercentageError
from fleetmetrics.metrics.segmentation.boundaries import BoundaryF as BoundaryF
from fleetmetrics.metrics.segmentation.boundaries import HausdorffDistance as HausdorffDistance
from fleetmetrics.metrics.segmentation.overlap import Dice as Dice
from fleetmetrics.metrics.segmentation.overlap import FrequencyWeightedIoU as FrequencyWeightedIoU
from fleetmetrics.metrics.segmentation.overlap import MeanIoU as MeanIoU
from fleetmetrics.metrics.segmentation.overlap import PixelAccuracy as PixelAccuracy
from fleetmetrics.metrics.text.edits import CharErrorRate as CharErrorRate
from fleetmetrics.metrics.text.edits import NormalizedEditDistance as NormalizedEditDistance
from fleetmetrics.metrics.text.edits import WordErrorRate as WordErrorRate
from fleetmetrics.metrics.text.entities import EntityF1 as EntityF1
from fleetmetrics.metrics.text.entities import EntityReport as EntityReport
from fleetmetrics.metrics.text.matches import StringMatch as StringMatch
from fleetmetrics.metrics.text.matches import TokenF1 as TokenF1
from fleetmetrics.metrics.text.rouge import ROUGE as ROUGE
from fleetmetrics.metrics.text.translation import BLEU as BLEU
from fleetmetrics.metrics.text.translation import CHRF as CHRF
from fleetmetrics.metrics.tokens import BitsPerByte as BitsPerByte
from fleetmetrics.metrics.tokens import Perplexity as Perplexity
from fleetmetrics.metrics.tokens import TokenLoss as TokenLoss
from fleetmetrics.records.base_metric import BaseMetric as BaseMetric
from fleetmetrics.samplers.sampling import padding_mask as padding_mask
from fleetmetrics.samplers.sampling import remaining_indices as remaining_indices
from fleetmetrics.saving.checkpoint import Resumed as Resumed
from fleetmetrics.saving.checkpoint import load as load
from fleetmetrics.saving.checkpoint import save as save
from fleetmetrics.saving.copies import check_copies as check_copies
from fleetmetrics.vision.coco import MeanAveragePrecision as MeanAveragePrecision
from fleetmetrics.vision.gallery import Retrieval as Retrieval
from fleetmetrics.vision.text_regions import TextDetection as TextDetection
from fleetmetrics.vision.voc import VOCMeanAveragePrecision as VOCMeanAveragePrecision
from fleetmetrics.wrappers.bootstrap import Bootstrap as Bootstrap
from fleetmetrics.wrappers.interval import Interval as Interval
from fleetmetrics.wrappers.sliced import Sliced as Sliced
from fleetmetrics.wrappers.windowed import Windowed as Windowed
from fleetmetrics.wrappers.windowed import WindowedValue as WindowedValue
from . import evaluation as evaluation
from . import evaluator as evaluator
from . import files as files
from . import formulas as formulas
from . import plot as plot
from . import report as report
from . import static as static

_modules: dict[str, str]

def _first_use(package: str, name: str, modules: dict[str, str]) -> object: ...
__all__ = [
    "AUC",
    "Accuracy",
    "AdaptiveCalibrationError",
    "AdjustedRand",
    "AgreementError",
    "AssertedInputError",
    "AuthenticationError",
    "AveragePrecision",
    "BLEU",
    "BalancedAccuracy",
    "BaseMetric",
    "Batch",
    "BitsPerByte",
    "Bootstrap",
    "BootstrapResult",
    "BoundaryF",
    "BrierDecomposition",
    "BrierScore",
    "BucketError",
    "BucketWarning",
    "CHRF",
    "COPC",
    "Calibration",
    "CalibrationCurve",
    "CharErrorRate",
    "ClassificationReport",
    "ClickThroughRate",
    "CohenKappa",
    "Communicator",
    "CommunicatorError",
    "ConditionError",
    "ConfusionMatrix",
    "ConsistencyResult",
    "CorruptFileError",
    "Count",
    "CramersV",
    "CumulativeGain",
    "DCG",
    "DataError",
    "DeadlineError",
    "Declared",
    "Dice",
    "Difference",
    "DoublyRobust",
    "DuplicateStateError",
    "EffectiveSampleSize",
    "EntityF1",
    "EntityReport",
    "EqualErrorRate",
    "EvaluationResult",
    "ExactAUC",
    "ExactMatch",
    "ExpectedCalibrationError",
    "ExplainedVariance",
    "F1",
    "FBeta",
    "FBetaAtK",
    "FallOutAtK",
    "FileAccessError",
    "FleetMetricsError",
    "FrequencyWeightedIoU",
    "GAUC",
    "GroupedMetric",
    "HammingLoss",
    "HausdorffDistance",
    "HingeLoss",
    "Histogram",
    "HistoryResult",
    "HitRate",
    "IPS",
    "IntegerOverflowError",
    "Interval",
    "IntervalResult",
    "InvalidInputError",
    "Jaccard",
    "KendallCorrelation",
    "KolmogorovSmirnov",
    "KuiperCalibration",
    "Lift",
    "LocalCommunicator",
    "LogCoshError",
    "LogLoss",
    "MAP",
    "MRR",
    "MatthewsCorrelation",
    "Max",
    "MaxError",
    "Mean",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanAveragePrecision",
    "MeanBias",
    "MeanIoU",
    "MeanSquaredError",
    "MeanSquaredLogError",
    "MedianAbsoluteError",
    "Metric",
    "MetricCollection",
    "Min",
    "MissingArgumentError",
    "MissingLibraryError",
    "NDCG",
    "NoChannelError",
    "NormalizedEditDistance",
    "NormalizedEntropy",
    "NormalizedMutualInformation",
    "NotReadyError",
    "PearsonCorrelation",
    "Perplexity",
    "PixelAccuracy",
    "Precision",
    "PrecisionAtFixedRecall",
    "PrecisionAtK",
    "PrecisionRecallCurve",
    "PredictedClickThroughRate",
    "QuantileError",
    "QuantileLoss",
    "R2Score",
    "ROCCurve",
    "ROUGE",
    "RPrecision",
    "RecalibratedNormalizedEntropy",
    "Recall",
    "RecallAtFixedPrecision",
    "RecallAtK",
    "RecordError",
    "RecordMetric",
    "Resumed",
    "Retrieval",
    "RootMeanSquaredError",
    "RootMeanSquaredLogError",
    "SNIPS",
    "SensitivityAtSpecificity",
    "ServerProcessError",
    "SizeWarning",
    "Sliced",
    "SocketCommunicator",
    "SpearmanCorrelation",
    "Specificity",
    "SpecificityAtSensitivity",
    "StandardDeviation",
    "StatScores",
    "StateNotFoundError",
    "StaticProgramError",
    "StringMatch",
    "Sum",
    "SymmetricMeanAbsolutePercentageError",
    "TPRAtFPR",
    "TextDetection",
    "ThresholdSweep",
    "Throughput",
    "TokenF1",
    "TokenLoss",
    "TweedieDeviance",
    "UAUC",
    "UnauthenticatedWarning",
    "UndefinedMetricWarning",
    "UnknownArgumentError",
    "UnknownAttributeError",
    "UnknownNameError",
    "UnnamedRunWarning",
    "UtilCommunicator",
    "VOCMeanAveragePrecision",
    "Variance",
    "WeightedMeanAbsolutePercentageError",
    "Windowed",
    "WindowedValue",
    "WordErrorRate",
    "WuAUC",
    "XAUC",
    "__version__",
    "acc",
    "auc",
    "check_copies",
    "classification_report",
    "consistency",
    "doctor",
    "evaluate",
    "flatten",
    "get_communicator",
    "get_dist_backend",
    "history",
    "list_all_backends",
    "load",
    "mae",
    "merge_all",
    "mse",
    "padding_mask",
    "paired_difference",
    "patch_fleet",
    "remaining_indices",
    "rmse",
    "save",
    "scorer",
    "set_communicator",
    "set_default_dist_backend",
    "unpaired_difference",
]
