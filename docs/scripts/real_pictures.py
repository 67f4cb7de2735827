"""The pictures of the metrics' pages, docs/pictures/metrics/*.svg, from the data sets that scikit-learn has with it.

`python docs/scripts/pictures.py` writes them. The models are simple, and score samples that they were not trained on.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fleetmetrics as fm
from fleetmetrics import plot
from fleetmetrics.plot.canvas import worded


class Scored(NamedTuple):
    """What a model says of samples that it has not been trained on, and what is true."""

    score: np.ndarray
    label: np.ndarray


def held(metric: Any, *scored: Any, **columns: Any) -> Any:
    metric.add(*scored, **columns)
    return metric


def classified(data: Any, columns: Any = slice(None)) -> Scored:
    """The probabilities of a logistic regression on some columns, by five folds."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    features = data.data[:, columns]
    return Scored(cross_val_predict(model, features, data.target, cv=5, method="predict_proba"), data.target)


@functools.lru_cache(maxsize=None)
def tumors(columns: tuple[str, ...] = ("mean texture", "mean smoothness", "mean symmetry")) -> Scored:
    """Of 569 breast tumors: how likely each is malignant by a few measurements; 1 is malignant."""
    data = datasets.load_breast_cancer()
    found = classified(data, [list(data.feature_names).index(name) for name in columns])
    return Scored(found.score[:, 0], 1 - found.label)


def texture() -> Scored:
    """The same by one measurement."""
    return tumors(("mean texture",))


@functools.lru_cache(maxsize=None)
def digits() -> Scored:
    """Of 1,697 handwritten digits: what a model says that has seen 100."""
    data = datasets.load_digits()
    model = LogisticRegression(max_iter=1000).fit(data.data[:100], data.target[:100])
    return Scored(model.predict_proba(data.data[100:]), data.target[100:])


@functools.lru_cache(maxsize=None)
def diabetes() -> Scored:
    """Of 442 patients: how far diabetes goes in a year, by a linear regression."""
    data = datasets.load_diabetes()
    return Scored(cross_val_predict(LinearRegression(), data.data, data.target, cv=5), data.target)


def roc() -> Any:
    ax = plot.roc(held(fm.AUC(), *tumors()), label=worded("three columns"))
    return plot.roc(held(fm.AUC(), *texture()), ax, label=worded("one column"))


def roc_classes() -> Any:
    """Of three kinds of wine, by two of their measurements."""
    return plot.roc(held(fm.AUC(task="multiclass", num_classes=3), *classified(datasets.load_wine(), [2, 10])))


def threshold_sweep() -> Any:
    return plot.threshold_sweep(held(fm.ThresholdSweep(thresholds=np.linspace(0.02, 0.96, 95)), *tumors()))


def confusion_matrix() -> Any:
    return plot.confusion_matrix(held(fm.ConfusionMatrix(task="multiclass", num_classes=10), *digits()))


def slices() -> Any:
    scored = digits()
    found = held(fm.Sliced(fm.Bootstrap(fm.Accuracy()), by="digit"), *scored, digit=scored.label)
    ax = plot.slices(found, whole=held(fm.Accuracy(), *scored).compute())
    ax.set(xlabel=worded("accuracy"), ylabel=worded("digit"))
    return ax


def windowed() -> Any:
    """A model reads each batch of digits, and learns from it afterwards."""
    data = datasets.load_digits()
    model, metric = SGDClassifier(random_state=0), fm.Windowed(fm.Accuracy(), last=8)
    values = {}
    for batch, part in enumerate(np.split(np.arange(1760), 55)):
        if batch:
            metric.add(model.predict(data.data[part]), data.target[part])
            values[batch] = metric.compute()
        model.partial_fit(data.data[part], data.target[part], classes=np.arange(10))
    shown = {batch: each for batch, each in values.items() if batch % 3 == 0}
    ax = plot.over_passes({batch: each.window for batch, each in shown.items()}, label=worded("last 8 batches"))
    plot.over_passes({batch: each.lifetime for batch, each in shown.items()}, ax, label=worded("all so far"))
    ax.set(xlabel=worded("batch"), ylabel=worded("accuracy"))
    return ax


def residuals() -> Any:
    score, label = diabetes()
    return plot.residuals(held(fm.Histogram(bins=24, range=(-180, 180)), score - label))


def predicted_actual() -> Any:
    """Eight groups of the same number of patients, by their predictions."""
    score, label = diabetes()
    groups = np.argsort(np.argsort(score)) * 8 // len(score)
    names, rows = ("predicted", "actual"), {"group": groups}
    found = {
        name: held(fm.Sliced(fm.Mean(), by="group"), column, **rows) for name, column in zip(names, (score, label))
    }
    spread = held(fm.Sliced(fm.StandardDeviation(ddof=1), by="group"), label, **rows).compute()
    means = {name: np.array([*metric.compute().values()]) for name, metric in found.items()}
    error = np.array([*spread.values()]) / np.sqrt(np.bincount(groups))
    return plot.predicted_actual({**means, "error": error})


def histogram() -> Any:
    ax = plot.histogram(held(fm.Histogram(bins=30, range=(0, 360)), diabetes().label))
    ax.set_xlabel(worded("progression after one year"))
    return ax


def at_k() -> Any:
    """The first 100 digits ask; the others answer, the most similar first; relevant is the same digit."""
    data = datasets.load_digits()
    coarse = data.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    relevant = (data.target[:100, None] == data.target[100:]).astype(np.int64).ravel()
    query = np.repeat(np.arange(100), len(data.target) - 100)
    ax = None
    for name, features in (("64 pixels", data.data), ("16 pixels", coarse)):
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        score = (unit[:100] @ unit[100:].T).ravel()
        ax = plot.at_k(
            held(fm.NDCG(k=[1, 2, 5, 10, 20, 50, 100]), score, relevant, query=query), ax, label=worded(name)
        )
    ax.set_ylabel("NDCG")
    return ax


def intervals() -> Any:
    """The same tumors, 100 to 569 of them, in an order of chance."""
    order = np.random.default_rng(0).permutation(len(tumors().label))
    ax = None
    for name, scored in (("three columns", tumors()), ("one column", texture())):
        found = {}
        for size in (150, 250, 350, 450, 569):
            first = order[:size]
            found[str(size)] = held(fm.Interval(fm.AUC()), scored.score[first], scored.label[first]).compute()
        ax = plot.over_time(found, ax, label=worded(name))
    ax.set(xlabel=worded("samples"), ylabel="AUC")
    return ax


def perplexity() -> Any:
    """Of scikit-learn's descriptions of its data sets, letter by letter, by pairs of letters in that of the tumors."""
    texts = [getattr(datasets, f"load_{name}")().DESCR for name in ("diabetes", "digits", "iris", "linnerud", "wine")]
    trained = np.frombuffer(datasets.load_breast_cancer().DESCR.encode("ascii", "replace"), np.uint8)
    pairs = np.full((128, 128), 0.1)
    np.add.at(pairs, (trained[:-1], trained[1:]), 1)
    losses = -np.log(pairs / pairs.sum(axis=1, keepdims=True))
    workers = []
    for text in texts:
        letters = np.frombuffer(text.encode("ascii", "replace"), np.uint8)
        workers.append(held(fm.Perplexity(of="token_losses"), losses[letters[:-1], letters[1:]]))
    ax = plot.by_worker([each.compute_local() for each in workers], fm.merge_all(workers).compute())
    ax.set_xlabel(worded("perplexity"))
    return ax


PICTURES: dict[str, Callable[[], Any]] = {
    "roc": roc,
    "roc_band": lambda: plot.roc(held(fm.AUC(buckets=16, spacing="linear"), *tumors())),
    "roc_classes": roc_classes,
    "precision_recall": lambda: plot.precision_recall(held(fm.AveragePrecision(), *tumors())),
    "score_histogram": lambda: plot.score_histogram(held(fm.AUC(), *tumors())),
    "gain": lambda: plot.gain(held(fm.CumulativeGain(), *tumors())),
    "lift": lambda: plot.lift(held(fm.Lift(), *tumors())),
    "threshold_sweep": threshold_sweep,
    "confusion_matrix": confusion_matrix,
    "slices": slices,
    "windowed": windowed,
    "residuals": residuals,
    "predicted_actual": predicted_actual,
    "histogram": histogram,
    "at_k": at_k,
    "intervals": intervals,
    "perplexity": perplexity,
}
