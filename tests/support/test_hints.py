"""Errors name ours when a user writes the name of another library."""

from __future__ import annotations

import copy
import pickle

import pytest

import fleetmetrics as fm


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *[(name, "prediction") for name in ("preds", "y_pred", "y_score", "y_prob", "input", "output", "predicton")],
        *[(name, "label") for name in ("target", "y_true", "labels", "lable")],  # codespell:ignore
        *[(name, "weight") for name in ("sample_weight", "weights")],
    ],
)
def test_an_argument_of_another_library_gets_a_hint_of_ours(given, meant):
    for metric in (fm.AUC(), fm.MetricCollection({"auc": fm.AUC()}), fm.Sliced(fm.AUC(), by="slot")):
        with pytest.raises(fm.InvalidInputError) as caught:
            metric.add(**{given: [0.5]})
        kind = type(metric).__name__
        assert str(caught.value).startswith(f"{kind}.add has no argument {given!r}; did you mean {meant}? Allowed are")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fm.Sliced(by="s"), r"Sliced needs metric: Sliced\(metric=\.\.\., \.\.\.\)"),
        (lambda: fm.Interval(confidence=0.9), "Interval needs metric"),
        (lambda: fm.RecallAtFixedPrecision(name="a"), "RecallAtFixedPrecision needs min_precision"),
        (lambda: fm.evaluator.DumpResults(collect_device="cpu"), "DumpResults needs out_file_path"),
    ],
)
def test_a_missing_setting_is_named(make, said):
    with pytest.raises(fm.MissingArgumentError, match=said) as error:
        make()
    assert isinstance(error.value, fm.InvalidInputError) and isinstance(error.value, TypeError)


def test_torchmetrics_and_scikit_learns_calls_are_explained():
    with pytest.raises(fm.InvalidInputError, match=r"no argument 'preds'; did you mean prediction?"):
        fm.Accuracy().add(preds=[1], target=[1])
    with pytest.raises(fm.InvalidInputError, match=r"no argument 'y_true'; did you mean label?"):
        fm.Accuracy().add(y_true=[1], y_pred=[1])


def test_a_missing_argument_names_a_similar_column():
    with pytest.raises(fm.InvalidInputError, match=r"GAUC.add has no argument 'user_id'; did you mean user\? Allowed"):
        fm.GAUC().add([0.5], [1], user_id=[7])
    with pytest.raises(fm.InvalidInputError, match=r"NDCG.add has no argument 'indexes'; did you mean query\? Allowed"):
        fm.NDCG().add([0.5], [1], indexes=[7])


def test_aggregates_of_values_hint_at_value():
    for given in ("prediction", "input", "x", "values"):
        with pytest.raises(fm.InvalidInputError, match=rf"Sum.add has no argument '{given}'; did you mean value\?"):
            fm.Sum().add(**{given: [1.0]})
    with pytest.raises(fm.InvalidInputError, match=r"Max.add has no argument 'label'. Allowed are value, weight, mask"):
        fm.Max().add([1.0], label=[1.0])
    with pytest.raises(fm.InvalidInputError, match=r"Throughput.add has no argument 'secs'; did you mean seconds\?"):
        fm.Throughput().add(5, secs=1.0)


def test_an_unknown_argument_gets_the_list():
    with pytest.raises(fm.InvalidInputError) as caught:
        fm.AUC().add([0.5], [1], color=[7])
    assert str(caught.value) == "AUC.add has no argument 'color'. Allowed are prediction, label, weight, mask"


def test_a_missing_prediction_is_named():
    with pytest.raises(fm.InvalidInputError, match=r"AUC.add: prediction is missing"):
        fm.AUC().add(label=[1])
    with pytest.raises(fm.InvalidInputError, match=r"Sum.add: value is missing"):
        fm.Sum().add()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *[(name, "add") for name in ("update", "forward", "update_state")],
        *[(name, "compute") for name in ("accumulate", "eval", "result")],
        ("reset_state", "reset"),
        ("clone", "fresh"),
    ],
)
def test_a_method_of_another_library_gets_a_hint_of_ours(given, meant):
    for metric in (fm.AUC(), fm.MetricCollection({"auc": fm.AUC()})):
        with pytest.raises(AttributeError, match=f"has no attribute '{given}'; did you mean {meant}"):
            getattr(metric, given)
        assert not hasattr(metric, given)


def test_an_unknown_attribute_is_plainly_missing():
    with pytest.raises(AttributeError, match=r"^'AUC' object has no attribute 'color'$"):
        fm.AUC().color  # noqa: B018


def test_metrics_can_still_be_copied_and_pickled():
    metric = fm.AUC()
    metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    for other in (copy.copy(metric), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert other.compute_local() == 0.75


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("AUROC", "AUC"),
        ("BinaryAUROC", "AUC"),
        ("MulticlassAUROC", "AUC(task='multiclass')"),
        ("Auc", "AUC"),
        ("roc_auc_score", "AUC"),
        ("average_precision_score", "AveragePrecision"),
        ("MSE", "MeanSquaredError"),
        ("mean_squared_error", "MeanSquaredError"),
        ("MulticlassAccuracy", "Accuracy(task='multiclass')"),
        ("MultilabelF1Score", "F1(task='multilabel')"),
        ("BinaryF1Score", "F1"),
        ("f1_score", "F1"),
        ("accuracy_score", "Accuracy"),
        ("log_loss", "LogLoss"),
        ("BinaryNormalizedEntropy", "NormalizedEntropy"),
        ("MulticlassCalibrationError", "ExpectedCalibrationError(task='multiclass')"),
        ("RetrievalNormalizedDCG", "NDCG"),
        ("pearsonr", "PearsonCorrelation"),
        ("matthews_corrcoef", "MatthewsCorrelation"),
        ("JaccardIndex", "Jaccard"),
        ("MeanMetric", "Mean"),
        ("Recal", "Recall"),  # codespell:ignore
        ("PCOC", "Calibration"),
        ("点击率校准", "Calibration"),
        ("SessionAUC", "GAUC"),
        ("ndcg_burges", "NDCG"),
    ],
)
def test_a_metric_of_another_library_gets_a_hint_of_ours(given, meant):
    with pytest.raises(AttributeError) as caught:
        getattr(fm, given)
    assert str(caught.value) == f"module 'fleetmetrics' has no attribute {given!r}; did you mean {meant}?"


def test_an_unknown_name_is_plainly_missing():
    with pytest.raises(AttributeError, match=r"^module 'fleetmetrics' has no attribute 'Zebra'$"):
        fm.Zebra  # noqa: B018
    assert not hasattr(fm, "__wrapped__")
