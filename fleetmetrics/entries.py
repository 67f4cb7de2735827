"""The facts about each metric beside its docstring: one table for the reference, `fleetmetrics metrics` and hints.

A metric that is not in it fails tests/test_entries.py; whether higher values are better the metric itself declares.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["ENTRIES", "Entry", "owners"]


class Entry(NamedTuple):
    """The facts about a metric.

    Args:
        range: where its values lie.
        undefined: when it has no value.
        source: a reference to the literature.
        names: what it is called elsewhere: ``library: name, name; library: name``; "others" are of no library.
        best: the value of a perfect prediction, where neither higher nor lower values are better.
    """

    range: str
    undefined: str
    source: str
    names: str
    best: str = ""

    def better(self, kind: Any) -> str:
        """Which values of the metric are better, in words."""
        if self.best:
            return f"the closer to {self.best}"
        if kind.better:
            return f"{kind.better} values"
        return "neither higher nor lower values" if kind.gives == "number" else "the value is not a single number"

    @property
    def elsewhere(self) -> dict[str, list[str]]:
        """The names by library, in the order of the table."""
        parts = (part.partition(": ") for part in self.names.split("; "))
        return {library: names.split(", ") for library, _, names in parts}


_MANNING = "Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), section 8.4"
_BERRY = "Berry and Linoff, Data Mining Techniques (1997), chapter 5"
_ZHOU = "Zhou, Obuchowski and McClish, Statistical Methods in Diagnostic Medicine (2011), section 2"
_VAN = "van Rijsbergen, Information Retrieval (1979), chapter 7"
_HE = 'He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, section 3'
_MCMAHAN = 'McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013'
_ZHU = 'Zhu et al., "Optimized cost per click in Taobao display advertising", KDD 2017'
_VAN_2 = 'van Rijsbergen, Information Retrieval (1979), chapter 7; Chinchor, "MUC-4 evaluation metrics" (1992)'
_MANNING_2 = "Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), sections 8.3 and 13.6"
_JELINEK = (
    'Jelinek, Mercer, Bahl and Baker, "Perplexity: a measure of the difficulty of speech recognition tasks", Journal '
    "of the Acoustical Society of America 62 (1977)"
)
_HYNDMAN = (
    'Hyndman and Koehler, "Another look at measures of forecast accuracy", International Journal of Forecasting 22 '
    "(2006), section 2.2"
)
_GNEITING = (
    'Gneiting, "Making and evaluating point forecasts", Journal of the American Statistical Association 106 (2011)'
)
_TOFALLIS = (
    'Tofallis, "A better measure of relative prediction accuracy for model selection and model estimation", Journal '
    "of the Operational Research Society 66 (2015), without the shift by 1"
)
_JAERVELIN = (
    'Jaervelin and Kekaelaeinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20 (2002); ties: '
    'McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence of tied '
    'scores", ECIR 2008'
)
_CHAN = 'Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983)'
_JAIN = "Jain, The Art of Computer Systems Performance Analysis (1991), chapter 12"

#: By the name of the class.
ENTRIES: dict[str, Entry] = {
    # Scores and curves
    "AUC": Entry(
        "0 to 1",
        'all samples are of one class; with curve="PR": no sample is positive',
        'Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC) curve", '
        'Radiology 143 (1982). For max_fpr McClish, "Analyzing a portion of the ROC curve", Medical Decision Making '
        '9 (1989). For several classes Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 '
        "(2006), section 9",
        "torchmetrics: AUROC, BinaryAUROC; torcheval: BinaryBinnedAUROC; scikit-learn: roc_auc_score; Paddle: "
        "paddle.metric.Auc, paddle.static.auc, fleet.metrics.auc; TFMA: AUC, AUCPrecisionRecall; TorchRec: auc; "
        "EasyRec: AUC; TorchEasyRec: AUC; RecBole: AUC; DeepCTR: auc; Evidently: RocAuc; others: ROCAUC, "
        "AreaUnderCurve; 中文: 曲线下面积, ROC曲线下面积",
    ),
    "AveragePrecision": Entry(
        "0 to 1",
        "no sample is positive",
        _MANNING,
        "torchmetrics: AveragePrecision; torcheval: BinaryBinnedAUPRC; scikit-learn: average_precision_score; TFMA: "
        "AUCPrecisionRecall; TorchRec: auprc; others: AUPRC, PRAUC, AP; 中文: 平均精确率",
    ),
    "CumulativeGain": Entry(
        "0 to 1",
        "no sample is positive",
        _BERRY,
        "others: gain chart, CAP curve; 中文: 累积增益曲线",
    ),
    "ExactAUC": Entry(
        "0 to 1",
        'all samples are of one class; with curve="PR": no sample is positive',
        'Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC) curve", '
        "Radiology 143 (1982)",
        "torchmetrics: AUROC(thresholds=None); torcheval: BinaryAUROC, BinaryAUPRC; scikit-learn: roc_auc_score, "
        "average_precision_score; TorchRec: auc, auprc; 中文: 精确AUC",
    ),
    "KolmogorovSmirnov": Entry(
        "0 to 1",
        "all samples are of one class",
        'Smirnov, "Table for estimating the goodness of fit of empirical distributions", Annals of Mathematical '
        "Statistics 19 (1948)",
        "others: KS, KSStatistic; 中文: KS值",
    ),
    "Lift": Entry(
        "from 0",
        "no sample is positive",
        _BERRY,
        "TFMA: Lift; 中文: 提升度",
    ),
    "PrecisionAtFixedRecall": Entry(
        "0 to 1, and a threshold",
        "no sample is positive",
        _MANNING,
        "torchmetrics: PrecisionAtFixedRecall; TFMA: PrecisionAtRecall; 中文: 固定召回率下的精确率",
    ),
    "PrecisionRecallCurve": Entry(
        "0 to 1",
        "no sample is positive: the recall",
        'Davis and Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006',
        "torchmetrics: PrecisionRecallCurve; torcheval: BinaryBinnedPrecisionRecallCurve; scikit-learn: "
        "precision_recall_curve; others: PR curve; 中文: PR曲线",
    ),
    "RecallAtFixedPrecision": Entry(
        "0 to 1, and a threshold",
        "no sample is positive",
        _MANNING,
        "torchmetrics: RecallAtFixedPrecision; torcheval: BinaryRecallAtFixedPrecision; TFMA: RecallAtPrecision; "
        "TorchRec: hindsight_target_pr; 中文: 固定精确率下的召回率",
    ),
    "ROCCurve": Entry(
        "0 to 1",
        "a class has no samples: its rate",
        'Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 (2006)',
        "torchmetrics: ROC; scikit-learn: roc_curve; 中文: ROC曲线",
    ),
    "SensitivityAtSpecificity": Entry(
        "0 to 1, and a threshold",
        "all samples are of one class",
        _ZHOU,
        "torchmetrics: SensitivityAtSpecificity; TFMA: SensitivityAtSpecificity; 中文: 固定特异度下的灵敏度",
    ),
    "SpecificityAtSensitivity": Entry(
        "0 to 1, and a threshold",
        "all samples are of one class",
        _ZHOU,
        "torchmetrics: SpecificityAtSensitivity; TFMA: SpecificityAtSensitivity; 中文: 固定灵敏度下的特异度",
    ),
    "ThresholdSweep": Entry(
        "0 to 1",
        "nothing is predicted positive: the precision; a class has no samples: its rate",
        _VAN,
        "TFMA: ConfusionMatrixAtThresholds, ConfusionMatrixPlot; EasyRec: Max_F1; 中文: 阈值扫描",
    ),
    # Click-through rates
    "BrierDecomposition": Entry(
        "0 to 1",
        "there are no samples",
        'Murphy, "A new vector partition of the probability score", Journal of Applied Meteorology 12 (1973); '
        'Stephenson, Coelho and Jolliffe, "Two extra components in the Brier score decomposition", Weather and '
        "Forecasting 23 (2008)",
        "others: Murphy decomposition; 中文: Brier 分解",
    ),
    "BrierScore": Entry(
        "0 to 1",
        "there are no samples",
        'Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78 (1950)',
        "scikit-learn: brier_score_loss; 中文: Brier 分数",
    ),
    "BucketError": Entry(
        "from 0",
        "no group of neighboring buckets holds enough samples",
        "BasicAucCalculator::calculate_bucket_error in Paddle's paddle/fluid/framework/fleet/metrics.cc; for "
        'relative errors of rates see He et al., "Practical lessons from predicting clicks on ads at Facebook", '
        "ADKDD 2014",
        "Paddle: BUCKET_ERROR; 中文: 分桶误差",
    ),
    "Calibration": Entry(
        "from 0",
        "no sample is labeled 1",
        _HE,
        "TorchRec: calibration; torcheval: WeightedCalibration; TFMA: Calibration; MCGrad: calibration_ratio; "
        "others: PCOC, predicted clicks over clicks; 中文: 点击率校准, 校准度",
        best="1",
    ),
    "CalibrationCurve": Entry(
        "0 to 1",
        "there are no samples: empty arrays",
        'DeGroot and Fienberg, "The comparison and evaluation of forecasters", The Statistician 32 (1983)',
        "scikit-learn: calibration_curve; TFMA: CalibrationPlot; others: reliability diagram; 中文: 校准曲线, 可靠性图",
    ),
    "ClickThroughRate": Entry(
        "0 to 1",
        "there are no samples",
        _MCMAHAN,
        "torcheval: ClickThroughRate; TorchRec: ctr; Paddle: actual_ctr; TFMA: MeanLabel; others: CTR; 中文: 点击率, "
        "实际点击率",
    ),
    "COPC": Entry(
        "from 0",
        "all predictions are 0",
        _HE,
        "Paddle: COPC; others: click over predicted click; 中文: 点击预测比",
        best="1",
    ),
    "ExpectedCalibrationError": Entry(
        "0 to 1",
        "there are no samples",
        'Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015; '
        'Guo et al., "On calibration of modern neural networks", ICML 2017',
        "torchmetrics: CalibrationError; MCGrad: expected_calibration_error; others: ECE; 中文: 期望校准误差",
    ),
    "GAUC": Entry(
        "0 to 1",
        "no user has samples of both classes",
        _ZHU,
        "TorchRec: gauc; EasyRec: GAUC, SessionAUC; TorchEasyRec: GroupedAUC; RecBole: GAUC; others: GroupAUC; 中文: "
        "分组AUC",
    ),
    "NormalizedEntropy": Entry(
        "from 0",
        "all labels are equal",
        'He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, equation 1',
        "TorchRec: ne; torcheval: BinaryNormalizedEntropy; MCGrad: normalized_entropy; others: NE, NCE; 中文: 归一化熵",
    ),
    "PredictedClickThroughRate": Entry(
        "0 to 1",
        "there are no samples",
        _MCMAHAN,
        "Paddle: predicted_ctr; TFMA: MeanPrediction; others: pCTR; 中文: 预测点击率, 预估点击率",
    ),
    "RecalibratedNormalizedEntropy": Entry(
        "from 0",
        "all labels are equal",
        'He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, section 6.3',
        "TorchRec: recalibrated_ne; 中文: 重校准归一化熵",
    ),
    "UAUC": Entry(
        "0 to 1",
        "no user has samples of both classes",
        _ZHU,
        "Paddle: uauc; TorchRec: uauc; torchmetrics: RetrievalAUROC; 中文: 用户AUC",
    ),
    "WuAUC": Entry(
        "0 to 1",
        "no user has samples of both classes",
        _ZHU,
        "Paddle: wuauc; TorchRec: wuauc; 中文: 加权用户AUC",
    ),
    # Classification
    "Accuracy": Entry(
        "0 to 1",
        "there are no samples",
        'Sokolova and Lapalme, "A systematic analysis of performance measures for classification tasks", Information '
        "Processing and Management 45 (2009)",
        "torchmetrics: Accuracy; torcheval: BinaryAccuracy, MulticlassAccuracy; scikit-learn: accuracy_score, "
        "top_k_accuracy_score; Paddle: paddle.metric.Accuracy, paddle.static.accuracy, fleet.metrics.acc; TFMA: "
        "BinaryAccuracy; TorchRec: accuracy; EasyRec: Accuracy; TorchEasyRec: Accuracy; DeepCTR: acc, accuracy; "
        "Evidently: Accuracy; others: CategoricalAccuracy, SparseCategoricalAccuracy, TopKAccuracy; 中文: 准确率",
    ),
    "BalancedAccuracy": Entry(
        "0 to 1",
        "there are no samples; with adjusted=True: only one class is true",
        'Brodersen et al., "The balanced accuracy and its posterior distribution", ICPR 2010',
        "scikit-learn: balanced_accuracy_score; TFMA: BalancedAccuracy; 中文: 平衡准确率",
    ),
    "CohenKappa": Entry(
        "-1 to 1",
        "there are no samples, or a single class is true and predicted",
        'Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 '
        '(1960); "Weighted kappa", Psychological Bulletin 70 (1968)',
        "torchmetrics: CohenKappa; scikit-learn: cohen_kappa_score; others: Kappa; 中文: Kappa系数",
    ),
    "ConfusionMatrix": Entry(
        "from 0",
        "with normalize: a row, a column or the matrix is empty",
        'Stehman, "Selecting and interpreting measures of thematic classification accuracy", Remote Sensing of '
        "Environment 62 (1997)",
        "torchmetrics: ConfusionMatrix; torcheval: BinaryConfusionMatrix, MulticlassConfusionMatrix; scikit-learn: "
        "confusion_matrix, multilabel_confusion_matrix; TFMA: ConfusionMatrixPlot; 中文: 混淆矩阵",
    ),
    "ExactMatch": Entry(
        "0 to 1",
        "there are no samples",
        'Ghamrawi and McCallum, "Collective multi-label classification", CIKM 2005, section 5',
        "torchmetrics: ExactMatch; torcheval: MultilabelAccuracy; scikit-learn: accuracy_score; others: "
        "SubsetAccuracy; 中文: 完全匹配率",
    ),
    "F1": Entry(
        "0 to 1",
        "a class is neither true nor predicted",
        _VAN_2,
        "torchmetrics: F1Score; torcheval: BinaryF1Score, MulticlassF1Score; scikit-learn: f1_score; TFMA: F1Score; "
        "Evidently: F1Score; others: Dice; 中文: F1值",
    ),
    "FBeta": Entry(
        "0 to 1",
        "a class is neither true nor predicted",
        _VAN_2,
        "torchmetrics: FBetaScore; scikit-learn: fbeta_score; 中文: F值",
    ),
    "HammingLoss": Entry(
        "0 to 1",
        "there are no samples",
        'Schapire and Singer, "BoosTexter: a boosting-based system for text categorization", Machine Learning 39 '
        "(2000), section 2",
        "torchmetrics: HammingDistance; scikit-learn: hamming_loss; 中文: 汉明损失",
    ),
    "HingeLoss": Entry(
        "from 0",
        "there are no samples",
        'Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector machines", Journal '
        "of Machine Learning Research 2 (2001)",
        "torchmetrics: HingeLoss; scikit-learn: hinge_loss; 中文: 合页损失",
    ),
    "Jaccard": Entry(
        "0 to 1",
        "a class is neither true nor predicted",
        'Jaccard, "The distribution of the flora in the alpine zone", New Phytologist 11 (1912)',
        "torchmetrics: JaccardIndex; scikit-learn: jaccard_score; TFMA: ThreatScore; others: IoU, MeanIoU; "
        "中文: 交并比",
    ),
    "LogLoss": Entry(
        "from 0",
        "there are no samples",
        "Bishop, Pattern Recognition and Machine Learning (2006), equations 4.90 and 4.108",
        "scikit-learn: log_loss; TorchRec: log_loss; TFMA: BinaryCrossEntropy; RecBole: LogLoss; DeepCTR: "
        "binary_crossentropy, logloss; Evidently: LogLoss; others: BCE, BinaryCrossentropy, CategoricalCrossentropy, "
        "CrossEntropy, NLL; 中文: 对数损失, 交叉熵",
    ),
    "MatthewsCorrelation": Entry(
        "-1 to 1",
        "a single class is true, or predicted",
        'Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme", Biochimica '
        'et Biophysica Acta 405 (1975); Gorodkin, "Comparing two K-category assignments by a K-category correlation '
        'coefficient", Computational Biology and Chemistry 28 (2004)',
        "torchmetrics: MatthewsCorrCoef; scikit-learn: matthews_corrcoef; TFMA: MatthewsCorrelationCoefficient; "
        "others: MCC; 中文: 马修斯相关系数",
    ),
    "Precision": Entry(
        "0 to 1",
        "a class is never predicted",
        _MANNING_2,
        "torchmetrics: Precision; torcheval: BinaryPrecision, MulticlassPrecision; scikit-learn: precision_score; "
        "Paddle: paddle.metric.Precision; TFMA: Precision; TorchRec: precision; MCGrad: precision; Evidently: "
        "Precision; others: PPV, PositivePredictiveValue; 中文: 精确率, 查准率",
    ),
    "Recall": Entry(
        "0 to 1",
        "a class is never true",
        _MANNING_2,
        "torchmetrics: Recall; torcheval: BinaryRecall, MulticlassRecall; scikit-learn: recall_score; Paddle: "
        "paddle.metric.Recall; TFMA: Recall; TorchRec: recall; MCGrad: recall; Evidently: Recall, TPR; others: "
        "Sensitivity, TruePositiveRate; 中文: 召回率, 查全率",
    ),
    "Specificity": Entry(
        "0 to 1",
        "a class is always true",
        'Altman and Bland, "Diagnostic tests 1: sensitivity and specificity", BMJ 308 (1994)',
        "torchmetrics: Specificity; TFMA: Specificity; Evidently: TNR; others: Selectivity, TrueNegativeRate; 中文: "
        "特异度",
    ),
    "StatScores": Entry(
        "from 0",
        "never: zeros without samples",
        'Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 (2006), section 2',
        "torchmetrics: StatScores; 中文: 真正例与假正例数",
    ),
    # Language models
    "BitsPerByte": Entry(
        "from 0",
        "there are no bytes",
        'Gao et al., "The Pile: an 800GB dataset of diverse text for language modeling" (2020), section 3.1',
        "others: bits_per_byte, BPB; 中文: 每字节比特数",
    ),
    "Perplexity": Entry(
        "from 1",
        "no token counts",
        _JELINEK,
        "torchmetrics: Perplexity; torcheval: Perplexity; others: PPL; 中文: 困惑度",
    ),
    "TokenLoss": Entry(
        "from 0",
        "no token counts",
        _JELINEK,
        "others: cross_entropy, eval_loss; 中文: token 损失",
    ),
    # Regression
    "ExplainedVariance": Entry(
        "up to 1",
        "all labels are equal, or there are no samples",
        "Achen, \"What does 'explained variance' explain?\", Political Analysis 2 (1990)",
        "torchmetrics: ExplainedVariance; scikit-learn: explained_variance_score; 中文: 解释方差",
    ),
    "KendallCorrelation": Entry(
        "-1 to 1",
        "all predictions, or all labels, are equal",
        'Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945); Knight, "A computer method for '
        "calculating Kendall's tau with ungrouped data\", Journal of the American Statistical Association 61 (1966)",
        "torchmetrics: KendallRankCorrCoef; others: kendalltau, KendallTau; 中文: 肯德尔相关系数",
    ),
    "LogCoshError": Entry(
        "from 0",
        "there are no samples",
        'Saleh and Saleh, "Statistical properties of the log-cosh loss function used in machine learning" (2022), '
        "arXiv:2208.04564",
        "torchmetrics: LogCoshError; others: LogCosh; 中文: 对数双曲余弦误差",
    ),
    "MaxError": Entry(
        "from 0",
        "there are no samples",
        "Cheney, Introduction to Approximation Theory (1966), chapter 1: the uniform norm",
        "scikit-learn: max_error; Evidently: AbsMaxError; 中文: 最大误差",
    ),
    "MeanAbsoluteError": Entry(
        "from 0",
        "there are no samples",
        'Willmott and Matsuura, "Advantages of the mean absolute error (MAE) over the root mean square error '
        '(RMSE)", Climate Research 30 (2005)',
        "torchmetrics: MeanAbsoluteError; scikit-learn: mean_absolute_error; Paddle: fleet.metrics.mae; TorchRec: "
        "mae; EasyRec: MeanAbsoluteError; TorchEasyRec: MeanAbsoluteError; RecBole: MAE; Evidently: MAE; "
        "中文: 平均绝对误差",
    ),
    "MeanAbsolutePercentageError": Entry(
        "from 0",
        "there are no samples",
        _HYNDMAN,
        "torchmetrics: MeanAbsolutePercentageError; scikit-learn: mean_absolute_percentage_error; Evidently: MAPE; "
        "中文: 平均绝对百分比误差",
    ),
    "MeanBias": Entry(
        "any",
        "there are no samples",
        'Willmott, "Some comments on the evaluation of model performance", Bulletin of the American Meteorological '
        "Society 63 (1982)",
        "Evidently: MeanError; others: bias, mean error; 中文: 平均偏差",
        best="0",
    ),
    "MeanSquaredError": Entry(
        "from 0",
        "there are no samples",
        _GNEITING,
        "torchmetrics: MeanSquaredError; torcheval: MeanSquaredError; scikit-learn: mean_squared_error; Paddle: "
        "fleet.metrics.mse; TorchRec: mse; EasyRec: MeanSquaredError; TorchEasyRec: MeanSquaredError; DeepCTR: mse; "
        "others: MSE; 中文: 均方误差",
    ),
    "MeanSquaredLogError": Entry(
        "from 0",
        "there are no samples",
        _TOFALLIS,
        "torchmetrics: MeanSquaredLogError; scikit-learn: mean_squared_log_error; others: "
        "MeanSquaredLogarithmicError, MSLE; 中文: 均方对数误差",
    ),
    "PearsonCorrelation": Entry(
        "-1 to 1",
        "all predictions, or all labels, are equal",
        'Rodgers and Nicewander, "Thirteen ways to look at the correlation coefficient", The American Statistician '
        "42 (1988)",
        "torchmetrics: PearsonCorrCoef; others: pearsonr; 中文: 皮尔逊相关系数",
    ),
    "QuantileLoss": Entry(
        "from 0",
        "there are no samples",
        'Koenker and Bassett, "Regression quantiles", Econometrica 46 (1978)',
        "scikit-learn: mean_pinball_loss; others: PinballLoss; 中文: 分位数损失",
    ),
    "R2Score": Entry(
        "up to 1",
        "all labels are equal, or there are at most adjusted + 1 samples",
        'Kvalseth, "Cautionary note about R2", The American Statistician 39 (1985)',
        "torchmetrics: R2Score; torcheval: R2Score; scikit-learn: r2_score; Evidently: R2Score; others: R2, "
        "RSquared; 中文: 决定系数",
    ),
    "RootMeanSquaredError": Entry(
        "from 0",
        "there are no samples",
        _GNEITING,
        "torchmetrics: MeanSquaredError(squared=False); scikit-learn: root_mean_squared_error; Paddle: "
        "fleet.metrics.rmse; TorchRec: rmse; EasyRec: RootMeanSquaredError; RecBole: RMSE; Evidently: RMSE; 中文: "
        "均方根误差",
    ),
    "RootMeanSquaredLogError": Entry(
        "from 0",
        "there are no samples",
        _TOFALLIS,
        "scikit-learn: root_mean_squared_log_error; others: RMSLE; 中文: 均方根对数误差",
    ),
    "SpearmanCorrelation": Entry(
        "-1 to 1",
        "all predictions, or all labels, are equal",
        'Spearman, "The proof and measurement of association between two things", American Journal of Psychology 15 '
        "(1904); Kendall, Rank Correlation Methods (1948), chapter 3, for ties",
        "torchmetrics: SpearmanCorrCoef; others: spearmanr; 中文: 斯皮尔曼相关系数",
    ),
    "SymmetricMeanAbsolutePercentageError": Entry(
        "0 to 2",
        "there are no samples",
        _HYNDMAN,
        "torchmetrics: SymmetricMeanAbsolutePercentageError; others: SMAPE; 中文: 对称平均绝对百分比误差",
    ),
    "TweedieDeviance": Entry(
        "from 0",
        "there are no samples",
        "Jorgensen, The Theory of Dispersion Models (1997), chapter 4",
        "torchmetrics: TweedieDevianceScore; scikit-learn: mean_tweedie_deviance, mean_poisson_deviance, "
        "mean_gamma_deviance; 中文: Tweedie偏差",
    ),
    "WeightedMeanAbsolutePercentageError": Entry(
        "from 0",
        "all labels are 0",
        'Kolassa and Schuetz, "Advantages of the MAD/Mean ratio over the MAPE", Foresight 6 (2007)',
        "torchmetrics: WeightedMeanAbsolutePercentageError; others: WMAPE, WAPE; 中文: 加权平均绝对百分比误差",
    ),
    "XAUC": Entry(
        "0 to 1",
        "all labels are equal",
        'Zhan et al., "Deconfounding duration bias in watch-time prediction for video recommendation", KDD 2022; '
        'ties as in Harrell et al., "Evaluating the yield of medical tests", JAMA 247 (1982)',
        "TorchRec: xauc, rauc; 中文: 时长AUC",
    ),
    # Ranking
    "DCG": Entry(
        "from 0",
        "there are no samples",
        _JAERVELIN,
        "scikit-learn: dcg_score; ranx: dcg; MCGrad: dcg_score; 中文: 折损累计增益",
    ),
    "FallOutAtK": Entry(
        "0 to 1",
        "all answers to a query are relevant: the query",
        _VAN,
        "torchmetrics: RetrievalFallOut; 中文: 误检率",
    ),
    "FBetaAtK": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        _VAN,
        "ranx: f1; Evidently: FBetaTopK; 中文: 前k个的F值",
    ),
    "HitRate": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        'Deshpande and Karypis, "Item-based top-N recommendation algorithms", ACM TOIS 22 (2004)',
        "torchmetrics: RetrievalHitRate; RecBole: Hit; ranx: hit_rate; Evidently: HitRate; others: HitRatio, HR; 中文: "
        "命中率",
    ),
    "MAP": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        _MANNING,
        "torchmetrics: RetrievalMAP; scikit-learn: label_ranking_average_precision_score; RecBole: MAP; ranx: map; "
        "Evidently: MAP; others: MeanAveragePrecision; 中文: 平均精度均值",
    ),
    "MRR": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        'Voorhees, "The TREC-8 question answering track report", TREC 1999',
        "torchmetrics: RetrievalMRR; torcheval: ReciprocalRank; RecBole: MRR; ranx: mrr; Evidently: MRR; others: "
        "MeanReciprocalRank; 中文: 平均倒数排名",
    ),
    "NDCG": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        _JAERVELIN,
        "torchmetrics: RetrievalNormalizedDCG; scikit-learn: ndcg_score; TFMA: NDCG; TorchRec: ndcg; RecBole: NDCG; "
        "ranx: ndcg, ndcg_burges; MCGrad: ndcg_score; Evidently: NDCG; others: NormalizedDCG, "
        "NormalizedDiscountedCumulativeGain; 中文: 归一化折损累计增益",
    ),
    "PrecisionAtK": Entry(
        "0 to 1",
        "there are no samples",
        _MANNING,
        "torchmetrics: RetrievalPrecision; torcheval: RetrievalPrecision; TorchRec: precision_session_level; "
        "RecBole: Precision; ranx: precision; Evidently: PrecisionTopK; 中文: 前k个的精确率",
    ),
    "RecallAtK": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        _MANNING,
        "torchmetrics: RetrievalRecall; TorchRec: recall_session_level; EasyRec: RecallAtTopK; TorchEasyRec: "
        "RecallAtK; RecBole: Recall; ranx: recall; Evidently: RecallTopK; 中文: 前k个的召回率",
    ),
    "RPrecision": Entry(
        "0 to 1",
        "a query has no relevant answer: the query",
        _MANNING,
        "torchmetrics: RetrievalRPrecision; ranx: r-precision; 中文: R精确率",
    ),
    # Aggregation
    "Count": Entry(
        "from 0",
        "never: 0 without samples",
        _JAIN,
        "TFMA: ExampleCount, WeightedExampleCount; Paddle: INS Count; others: Counter; 中文: 样本数",
    ),
    "Histogram": Entry(
        "from 0",
        "never: zeros without values",
        "Scott, Multivariate Density Estimation (1992), chapter 3",
        "others: numpy.histogram; 中文: 直方图",
    ),
    "Max": Entry(
        "any",
        "there are no values",
        _JAIN,
        "torchmetrics: MaxMetric; torcheval: Max; Paddle: fleet.metrics.max; 中文: 最大值",
    ),
    "Mean": Entry(
        "any",
        "there are no values",
        'Bland and Kerry, "Weighted comparison of means", BMJ 316 (1998)',
        "torchmetrics: MeanMetric; torcheval: Mean; TorchRec: weighted_avg; others: Average, Avg; 中文: 均值",
    ),
    "Min": Entry(
        "any",
        "there are no values",
        _JAIN,
        "torchmetrics: MinMetric; torcheval: Min; Paddle: fleet.metrics.min; 中文: 最小值",
    ),
    "StandardDeviation": Entry(
        "from 0",
        "the total weight is at most ddof",
        _CHAN,
        "others: Std, StdDev; 中文: 标准差",
    ),
    "Sum": Entry(
        "any",
        "never: 0 without values",
        _JAIN,
        "torchmetrics: SumMetric; torcheval: Sum; Paddle: fleet.metrics.sum; 中文: 求和",
    ),
    "Throughput": Entry(
        "from 0",
        "no time has passed",
        "Jain, The Art of Computer Systems Performance Analysis (1991), chapter 3",
        "torcheval: Throughput; TorchRec: throughput, tower_qps; others: QPS; 中文: 吞吐量",
    ),
    "Variance": Entry(
        "from 0",
        "the total weight is at most ddof",
        _CHAN,
        "others: Var; 中文: 方差",
    ),
    # Slices and windows
    "Sliced": Entry(
        "that of the metric",
        "as the metric, slice by slice; there are no samples: an empty dict",
        "the slices of TensorFlow Model Analysis (SlicingSpec)",
        "TFMA: SlicingSpec, slicing_specs; TorchRec: segmented_ne; 中文: 分组指标, 切片",
    ),
    "Windowed": Entry(
        "that of the metric",
        "as the metric",
        "torcheval's windowed metrics, whose max_num_updates is last",
        "torchmetrics: Running; torcheval: WindowedBinaryAUROC; Paddle: slide_steps; TorchRec: window_; 中文: 滑动窗口",
    ),
    # Confidence intervals
    "Bootstrap": Entry(
        "that of the metric",
        "as the metric",
        'Chamandy, Muralidharan, Najmi and Naidu, "Estimating uncertainty for massive data streams", Google (2012); '
        'Hanley and MacGibbon, "Creating non-parametric bootstrap samples using Poisson frequencies", Computer '
        "Methods and Programs in Biomedicine 83 (2006)",
        "torchmetrics: BootStrapper; TFMA: confidence_intervals; 中文: 自助法",
    ),
    "Interval": Entry(
        "that of the metric",
        "as the metric; std, low and high: there are too few samples, users or clicks",
        'DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating '
        'characteristic curves", Biometrics 44 (1988); Sun and Xu, "Fast implementation of DeLong\'s algorithm", IEEE '
        'Signal Processing Letters 21 (2014); Deng, Knoblich and Lu, "Applying the delta method in metric '
        'analytics", KDD 2018',
        "others: DeLong, delta method; 中文: 置信区间",
    ),
    "MetricCollection": Entry(
        "that of each metric",
        "as the metrics",
        "the bundles of metrics of TFMA and Paddle",
        "torchmetrics: MetricCollection; others: CompositeMetric, MetricDict, Metrics; 中文: 指标集合",
    ),
}


def owners() -> dict[str, str]:
    """Our metric by each name of other libraries, the first metric of the table that has it.

    Of ``paddle.metric.Auc`` the last part is a name, too; ``AUROC(thresholds=None)`` is none.
    """
    found: dict[str, str] = {}
    for metric, entry in ENTRIES.items():
        for name in (name for names in entry.elsewhere.values() for name in names):
            for each in (name, re.split(r"\.", name)[-1]):
                if "(" not in each:
                    found.setdefault(each, metric)
    return found
