"""Classification: each metric, and each kind of input; `tests/metrics/test_classification.py` has every average."""

from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case, labels, probabilities, scores, two_columns

Rng = np.random.Generator
LABELS = 3
OF_SCORES = ("[n]", "[n, 1]")  # of several scores, or several labels, per sample
SEVERAL = ("[n]", "[n, 1]", "[n, m]")  # scikit-learn has no second class for one sample


# -- data ------------------------------------------------------------------------------------------------


def few_classes(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Of classes 0 to 3: class 4 has no samples, class 3 is predicted and never true."""
    return labels(rng, samples, dtype, 4), labels(rng, samples, label_dtype, 3)


def with_ignored(draw: Callable[..., Any], ignored: int) -> Callable[..., Any]:
    def drawn(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
        prediction, label = draw(rng, samples, dtype, label_dtype)
        return prediction, np.where(rng.random(label.shape) < 0.3, ignored, label).astype(label_dtype)

    return drawn


def many_labels(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    prediction, label = probabilities(rng, samples * LABELS, dtype, label_dtype)
    return prediction.reshape(-1, LABELS), label.reshape(-1, LABELS)


def softmax(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    table = rng.random((samples, 6))
    return (table / table.sum(axis=1, keepdims=True)).astype(dtype), labels(rng, samples, label_dtype, 6)


def normals(rng: Rng, samples: int, dtype: str, label_dtype: str, columns: int = 0) -> tuple[Any, Any]:
    """Logits or decision values; labels with one class per column."""
    shape = (samples, columns) if columns else samples
    return (rng.normal(size=shape) * 3).astype(dtype), labels(rng, samples, label_dtype, columns or 2)


def many_logits(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    prediction, label = normals(rng, samples * LABELS, dtype, label_dtype)
    return prediction.reshape(-1, LABELS), label.reshape(-1, LABELS)


def positions(draw: Callable[..., Any], *, class_axis: int = 1, ignored: Any = ()) -> Callable[..., Any]:
    """Rows of four positions, each with the scores of six classes on this axis."""

    def drawn(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
        prediction, label = draw(rng, samples * 4, dtype, label_dtype)
        if ignored:
            label = np.where(rng.random(label.shape) < 0.3, rng.choice(ignored, label.shape), label).astype(label_dtype)
        dense = np.moveaxis(prediction.reshape(samples, 2, 2, -1), -1, class_axis)
        return np.ascontiguousarray(dense), label.reshape(samples, 2, 2)

    return drawn


# -- references ------------------------------------------------------------------------------------------


def hard(p: Any) -> Any:
    """Predicted classes: of scores the highest, of probabilities those above 0.5."""
    if p.ndim == 2 and p.shape[1] == 6:
        return p.argmax(axis=1)
    if p.ndim == 2 and p.shape[1] == 2:
        p = p[:, 1]
    return (p > 0.5).astype(int) if p.dtype.kind == "f" else p.astype(int)


def sklearn(name: str, ignored: Any = None, value: Callable[[Any], Any] = float, **options: Any) -> Any:
    """scikit-learn's function of predicted classes; it is imported when it is needed, which workers never do."""

    def reference(p: Any, y: Any, w: Any) -> Any:
        from sklearn import metrics

        y = y.astype(int)
        if ignored is not None:
            keep = ~np.isin(y, ignored)
            p, y, w = p[keep], y[keep], None if w is None else w[keep]
        return value(getattr(metrics, name)(y, hard(p), sample_weight=w, **options))

    return reference


def among_two(name: str, **options: Any) -> Any:
    """scikit-learn's function of the labels where they are among the two highest scores, elsewhere of the highest."""

    def reference(p: Any, y: Any, w: Any) -> Any:
        y = y.astype(int)
        best = np.argsort(-p.astype(float), axis=1)
        return sklearn(name, **options)(np.where((best[:, :2] == y[:, None]).any(axis=1), y, best[:, 0]), y, w)

    return reference


def negatives(p: Any, y: Any, w: Any) -> float:
    """Specificity: the mean over the classes of the recall of everything outside it."""
    from sklearn.metrics import multilabel_confusion_matrix

    tn, fp, _, _ = multilabel_confusion_matrix(y.astype(int), hard(p), sample_weight=w).reshape(-1, 4).T
    return float(np.mean(tn / (tn + fp)))


def each_position(function: Callable[..., Any], class_axis: int = 1) -> Callable[..., Any]:
    """A reference of all positions, each with the weight of its row."""

    def reference(p: Any, y: Any, w: Any) -> Any:
        p = np.moveaxis(p, class_axis, -1)
        return function(p.reshape(-1, p.shape[-1]), y.reshape(-1), None if w is None else np.repeat(w, y[0].size))

    return reference


def by_label(function: Callable[..., Any]) -> Callable[..., Any]:
    """The mean of a reference over the labels, each by itself."""
    return lambda p, y, w: float(np.mean([function(p[:, k], y[:, k], w) for k in range(y.shape[1])]))


def counts(p: Any, y: Any, w: Any) -> Any:
    from sklearn.metrics import multilabel_confusion_matrix

    tn, fp, fn, tp = multilabel_confusion_matrix(y.astype(int), hard(p), sample_weight=w).reshape(-1, 4).T
    return np.stack([tp, fp, tn, fn, tp + fn], axis=1)


def log_loss(p: Any, y: Any, w: Any) -> float:
    from sklearn.metrics import log_loss as theirs

    return float(
        theirs(y.astype(int), p.astype(float), sample_weight=w, labels=range(p.shape[1] if p.ndim == 2 else 2))
    )


def of_logits(p: Any, y: Any, w: Any) -> float:
    p = p.astype(float)
    if p.ndim == 1:
        return log_loss(1 / (1 + np.exp(-p)), y, w)
    return log_loss(np.exp(p) / np.exp(p).sum(axis=1, keepdims=True), y, w)


def hinge(p: Any, y: Any, w: Any) -> float:
    from sklearn.metrics import hinge_loss

    several = p.ndim == 2
    return float(
        hinge_loss(y.astype(int), p.astype(float), sample_weight=w, labels=range(p.shape[1] if several else 2))
    )


def contingency(p: Any, y: Any, w: Any) -> Any:
    """How many samples, or how much weight, there is of each class in each cluster that occurs."""
    from sklearn.metrics import confusion_matrix

    table = confusion_matrix(y.astype(int), p.astype(int), sample_weight=w)
    return table[table.any(axis=1)][:, table.any(axis=0)]


def adjusted_rand(p: Any, y: Any, w: Any) -> float:
    """scikit-learn's; with weights, by the definition."""
    from sklearn.metrics import adjusted_rand_score

    if w is None:
        return float(adjusted_rand_score(y.astype(int), p.astype(int)))
    table = contingency(p, y, w)
    parts = [table, table.sum(axis=1), table.sum(axis=0), table.sum()]
    together, true, predicted, pairs = (float((part * (part - 1)).sum()) / 2 for part in parts)
    chance = true * predicted / pairs
    return (together - chance) / ((true + predicted) / 2 - chance)


def mutual_information(p: Any, y: Any, w: Any) -> float:
    from scipy.stats import entropy
    from sklearn.metrics import normalized_mutual_info_score

    if w is None:
        return float(normalized_mutual_info_score(y.astype(int), p.astype(int)))
    table = contingency(p, y, w)
    apart = float(entropy(table.sum(axis=0)) + entropy(table.sum(axis=1)))
    return 2 * (apart - float(entropy(table.reshape(-1)))) / apart


def cramers_v(p: Any, y: Any, w: Any) -> float:
    from scipy.stats import chi2_contingency

    table = contingency(p, y, w)
    return float(np.sqrt(chi2_contingency(table, correction=False)[0] / table.sum() / (min(table.shape) - 1)))


def made(kind: type[fm.Metric], task: str, **settings: Any) -> Any:
    size = {"multiclass": {"num_classes": 6}, "multilabel": {"num_labels": LABELS}}.get(task, {})
    return functools.partial(kind, **{"task": task, **size, **settings})


def of_classes(kind: type[fm.Metric], **settings: Any) -> Any:
    return made(kind, "multiclass", **{"num_classes": 5, **settings})


_NOTHING = {**dict.fromkeys(("precision", "recall", "f1-score"), np.nan), "support": 0}
NO_REPORT = {**{str(place): _NOTHING for place in range(5)}, "accuracy": np.nan}
NO_REPORT.update(dict.fromkeys(("macro avg", "weighted avg"), _NOTHING))
NO_REPORT_OF_LABELS = dict.fromkeys(
    (*map(str, range(LABELS)), "micro avg", "macro avg", "weighted avg", "samples avg"), _NOTHING
)

CASES = {
    "precision": Case(fm.Precision, probabilities, sklearn("precision_score", zero_division=np.nan), exact=True),
    "precision of two columns": Case(
        fm.Precision, two_columns, sklearn("precision_score"), True, OF_SCORES, kinds="fi"
    ),
    "precision of classes, macro": Case(
        of_classes(fm.Precision),
        few_classes,
        sklearn("precision_score", average="macro", zero_division=np.nan),
        kinds="i",
    ),
    "precision of scores, weighted": Case(
        made(fm.Precision, "multiclass", average="weighted"),
        scores,
        sklearn("precision_score", average="weighted", zero_division=np.nan),
        shapes=OF_SCORES,
        kinds="fi",
    ),
    "recall": Case(fm.Recall, probabilities, sklearn("recall_score", zero_division=np.nan), exact=True),
    "recall of classes, each": Case(
        of_classes(fm.Recall, average=None, zero_division=0),
        few_classes,
        sklearn("recall_score", value=np.asarray, average=None, labels=range(5), zero_division=0),
        exact=True,
        kinds="i",
        undefined=np.zeros(5),
        warnings=0,
    ),
    "recall of labels, micro": Case(
        made(fm.Recall, "multilabel", average="micro"),
        many_labels,
        sklearn("recall_score", average="micro"),
        shapes=OF_SCORES,
        by_row=True,
    ),
    "precision of scores, top 2": Case(
        made(fm.Precision, "multiclass", top_k=2),
        scores,
        among_two("precision_score", average="macro"),
        shapes=OF_SCORES,
        kinds="fi",
    ),
    "f1 of classes, micro": Case(
        of_classes(fm.F1, average="micro"), few_classes, sklearn("f1_score", average="micro"), kinds="i"
    ),
    "f2 of labels, weighted": Case(
        made(fm.FBeta, "multilabel", average="weighted", beta=2),
        many_labels,
        sklearn("fbeta_score", average="weighted", beta=2),
        shapes=OF_SCORES,
        by_row=True,
    ),
    "precision of rows": Case(
        made(fm.Precision, "multilabel", average="samples"),
        many_labels,
        sklearn("precision_score", average="samples", zero_division=np.nan),
        shapes=OF_SCORES,
        by_row=True,
    ),
    "f1 of rows, zeros": Case(
        made(fm.F1, "multilabel", average="samples", zero_division=0),
        many_labels,
        sklearn("f1_score", average="samples", zero_division=0),
        shapes=OF_SCORES,
        by_row=True,
        undefined=0,
        warnings=0,
    ),
    "f1 without some": Case(
        functools.partial(fm.F1, ignore_index=-1),
        with_ignored(probabilities, -1),
        sklearn("f1_score", ignored=-1, zero_division=np.nan),
        exact=True,
        kinds="f",
    ),
    "specificity of scores, macro": Case(
        made(fm.Specificity, "multiclass"), scores, negatives, shapes=OF_SCORES, kinds="fi"
    ),
    "jaccard of labels, macro": Case(
        made(fm.Jaccard, "multilabel"),
        many_labels,
        sklearn("jaccard_score", average="macro"),
        shapes=OF_SCORES,
        by_row=True,
    ),
    "stat scores of scores": Case(
        made(fm.StatScores, "multiclass"),
        scores,
        counts,
        exact=True,
        shapes=OF_SCORES,
        kinds="fi",
        undefined=np.zeros((6, 5)),
        warnings=0,
    ),
    "report of classes": Case(
        of_classes(fm.ClassificationReport),
        few_classes,
        sklearn("classification_report", value=dict, labels=range(5), zero_division=np.nan, output_dict=True),
        kinds="i",
        undefined=NO_REPORT,
    ),
    "report of labels": Case(
        made(fm.ClassificationReport, "multilabel"),
        many_labels,
        sklearn("classification_report", value=dict, zero_division=np.nan, output_dict=True),
        shapes=OF_SCORES,
        by_row=True,
        undefined=NO_REPORT_OF_LABELS,
    ),
    "confusion matrix of classes": Case(
        of_classes(fm.ConfusionMatrix, normalize="true", zero_division=0),
        few_classes,
        sklearn("confusion_matrix", value=np.asarray, labels=range(5), normalize="true"),
        exact=True,
        kinds="i",
        undefined=np.zeros((5, 5)),
        warnings=0,
    ),
    "accuracy of positions": Case(
        functools.partial(fm.Accuracy, class_axis=-1),
        positions(scores, class_axis=3),
        each_position(sklearn("accuracy_score"), 3),
        exact=True,
        shapes=("[n]",),
        kinds="fi",
        by_row=True,
    ),
    "confusion matrix of pixels, without some": Case(
        made(fm.ConfusionMatrix, "multiclass", class_axis=1, ignore_index=[5, 77]),
        positions(scores, ignored=(5, 77)),
        each_position(sklearn("confusion_matrix", ignored=(5, 77), value=np.asarray, labels=range(6))),
        exact=True,
        shapes=("[n]",),
        kinds="fi",
        by_row=True,
        undefined=np.zeros((6, 6)),
        warnings=0,
    ),
    "log loss of positions": Case(
        functools.partial(fm.LogLoss, from_logits=True, class_axis=-3),
        positions(functools.partial(normals, columns=6)),
        each_position(of_logits),
        shapes=("[n]",),
        kinds="f",
        by_row=True,
    ),
    "confusion matrix of labels": Case(
        made(fm.ConfusionMatrix, "multilabel"),
        many_labels,
        sklearn("multilabel_confusion_matrix", value=np.asarray),
        exact=True,
        shapes=OF_SCORES,
        by_row=True,
        undefined=np.zeros((LABELS, 2, 2)),
        warnings=0,
    ),
    "balanced accuracy of scores": Case(
        made(fm.BalancedAccuracy, "multiclass", adjusted=True),
        scores,
        sklearn("balanced_accuracy_score", adjusted=True),
        shapes=OF_SCORES,
        kinds="fi",
    ),
    "cohen kappa of classes, quadratic": Case(
        of_classes(fm.CohenKappa, weights="quadratic"),
        few_classes,
        sklearn("cohen_kappa_score", weights="quadratic", labels=range(5)),
        kinds="i",
        tolerance=1e-11,
    ),
    "matthews correlation of scores": Case(
        made(fm.MatthewsCorrelation, "multiclass"),
        scores,
        sklearn("matthews_corrcoef"),
        shapes=OF_SCORES,
        kinds="fi",
        tolerance=1e-11,
    ),
    "hamming loss of labels": Case(
        made(fm.HammingLoss, "multilabel"), many_labels, sklearn("hamming_loss"), shapes=OF_SCORES, by_row=True
    ),
    "accuracy of a task": Case(of_classes(fm.Accuracy), few_classes, sklearn("accuracy_score"), exact=True, kinds="i"),
    "accuracy of labels": Case(
        made(fm.Accuracy, "multilabel", average="macro"),
        many_labels,
        by_label(sklearn("accuracy_score")),
        shapes=OF_SCORES,
        by_row=True,
    ),
    "exact match": Case(
        functools.partial(fm.ExactMatch, num_labels=LABELS),
        many_labels,
        sklearn("accuracy_score"),
        exact=True,
        shapes=OF_SCORES,
        by_row=True,
    ),
    "log loss of classes": Case(made(fm.LogLoss, "multiclass"), softmax, log_loss, shapes=OF_SCORES, kinds="f"),
    "log loss of labels": Case(
        made(fm.LogLoss, "multilabel"), many_labels, by_label(log_loss), shapes=OF_SCORES, by_row=True, kinds="f"
    ),
    "log loss of logits": Case(made(fm.LogLoss, "binary", from_logits=True), normals, of_logits, kinds="f"),
    "log loss of logits of classes": Case(
        made(fm.LogLoss, "multiclass", from_logits=True),
        functools.partial(normals, columns=6),
        of_logits,
        shapes=OF_SCORES,
        kinds="f",
    ),
    "log loss of logits of labels": Case(
        made(fm.LogLoss, "multilabel", from_logits=True),
        many_logits,
        by_label(of_logits),
        shapes=OF_SCORES,
        by_row=True,
        kinds="f",
    ),
    "hinge loss": Case(fm.HingeLoss, normals, hinge, shapes=SEVERAL, kinds="f"),
    "hinge loss of classes": Case(
        made(fm.HingeLoss, "multiclass"), functools.partial(normals, columns=6), hinge, shapes=OF_SCORES, kinds="f"
    ),
    "adjusted rand": Case(
        of_classes(fm.AdjustedRand), few_classes, adjusted_rand, kinds="i", shapes=SEVERAL, tolerance=1e-11
    ),
    "normalized mutual information": Case(
        of_classes(fm.NormalizedMutualInformation),
        few_classes,
        mutual_information,
        kinds="i",
        shapes=SEVERAL,
        tolerance=1e-11,
    ),
    "cramers v": Case(of_classes(fm.CramersV), few_classes, cramers_v, kinds="i", shapes=SEVERAL, tolerance=1e-11),
}
