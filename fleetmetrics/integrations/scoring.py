"""Metrics of the catalogue as scorers for scikit-learn's cross-validation and searches; it does not import it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluation.arguments.named import named
from fleetmetrics.support.settings import raise_if_unknown
from fleetmetrics.support.vocabulary import with_article

__all__ = ["Scorer", "scorer"]


def scorer(metric: str, **settings: Any) -> Scorer:
    """Return a metric as a scorer of scikit-learn: ``cross_val_score(model, x, y, scoring=scorer("auc"))``.

    Higher scores are better: the score is the value, or its negative if lower values are better, as for ``log_loss``.

    Args:
        metric: the name of a metric of predictions and labels, as for `fleetmetrics.evaluate`: ``"auc"``, ``"f1"``,
            ``"f1:average=macro"``.
        **settings: of the metric.

    Returns:
        A function of an estimator, samples and labels, and ``sample_weight``. It asks a classifier for its predicted
        classes where a metric compares classes, such as F1 without ``threshold``, else for its probabilities; for its
        ``decision_function`` where the metric takes such scores; and a regressor for its predictions. Labels may be
        any classes; of two, the second of ``classes_`` is 1. The score is that of this process's samples, in a job of
        several workers, too.

    Raises:
        InvalidInputError: there is no such metric, it has several values, no better direction, or takes more than
            predictions and labels.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import cross_val_score
        >>> x, y = [[0.0], [0.1], [0.9], [1.0]] * 3, [0, 0, 1, 1] * 3
        >>> cross_val_score(LogisticRegression(), x, y, scoring=scorer("exact_auc"), cv=3)
        array([1., 1., 1.])
    """
    return Scorer(metric, settings)


class Scorer:
    """See `scorer`; it can be pickled, for searches in several processes.

    Args:
        metric: its name.
        settings: of the metric.
    """

    metric: str
    settings: dict[str, Any]

    def __init__(self, metric: str, settings: dict[str, Any]) -> None:
        if not isinstance(metric, str):
            raise InvalidInputError(f'metric must be the name of a metric, such as "auc", not {metric!r:.80}')
        (self._named,) = named([metric]).values()
        self.metric, self.settings = metric, dict(settings)
        kind: Any = self._named.kind()
        parameters, chosen = kind.__signature__.parameters, {*settings, *self._named.settings}
        raise_if_unknown(kind, [name for name in settings if name not in parameters])
        for name in chosen & {"task", "num_classes", "num_labels"}:
            raise InvalidInputError(f"metric {metric!r}: leave out {name}; the classes are those of the estimator")
        for name in {*settings} & {*self._named.settings}:
            raise InvalidInputError(f"metric {metric!r} sets {name}, and so does {name}={settings[name]!r}; give one")
        self._takes_several, self._averages = "num_classes" in parameters, "average" in chosen
        example = self._made(2)
        why = ""
        if kind.gives != "number":
            why = "its value is no single number"
        elif example.columns:
            why = f"it needs {example.columns[0]} for each sample, and a scorer gets predictions and labels"
        elif example.samples not in ("numbers", "any"):
            why = f"it takes {example.samples}, and a scorer gets classes and numbers"
        elif not example.takes_label:
            why = "it takes no labels"
        elif not kind.better:
            why = "neither higher nor lower values are better"
        if why:
            raise InvalidInputError(f"metric {metric!r} ({kind.__name__}) cannot be a scorer: {why}")
        self._sign = -1.0 if kind.better == "lower" else 1.0
        self._of_classes = self._takes_several or "class_label" in example.requirements
        if getattr(example, "from_logits", False):
            self._asks = ["decision_function"]
        elif "threshold" in parameters and not chosen & {"threshold", "top_k"}:
            self._asks = ["predict"]
        elif "class_scores" in example.requirements:
            self._asks = ["decision_function"]
        else:
            self._asks = ["predict_proba", *["decision_function"] * ("finite_prediction" in example.requirements)]

    def _made(self, classes: int) -> Any:
        """A new metric; of two classes it is one of the second, unless the classes are averaged."""
        if classes > 2 or self._averages:
            return self._named.metric("multiclass", classes, **self.settings)
        return self._named.metric(**self.settings)

    def __call__(self, estimator: Any, x: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of a fitted estimator on these samples."""
        if self._of_classes:
            classes = self._classes_of(estimator)
            metric, label = self._made(len(classes)), self._places(classes, y, "y")
            prediction = self._prediction(estimator, x, classes)
        else:
            metric, label, prediction = self._made(2), y, estimator.predict(x)
        metric.add(prediction, np.asarray(label), sample_weight)
        value = metric.compute_local()
        if not isinstance(value, float):
            what = "one value for each class" if isinstance(value, np.ndarray) else with_article(type(value).__name__)
            one = 'choose one, such as average="macro"' if isinstance(value, np.ndarray) else "leave out bounds"
            raise InvalidInputError(f"{self!r} gives {what}, and a score is one number; {one}")
        return self._sign * value

    def _classes_of(self, estimator: Any) -> np.ndarray:
        classes = getattr(estimator, "classes_", None)
        if not isinstance(classes, np.ndarray) or len(classes) < 2:
            raise InvalidInputError(
                f"{self!r} takes a classifier of two classes or more; {type(estimator).__name__} has classes_ "
                f"{classes!r:.80}"
            )
        if len(classes) > 2 and not self._takes_several:
            raise InvalidInputError(f"{self!r} takes two classes, and {type(estimator).__name__} has {len(classes)}")
        return classes

    def _prediction(self, estimator: Any, x: Any, classes: np.ndarray) -> Any:
        """Places of classes, or scores ``[n]`` of the second of two classes, or ``[n, classes]``."""
        asks = next((name for name in self._asks if hasattr(estimator, name)), None)
        if asks is None:
            raise InvalidInputError(
                f"{self!r} needs {' or '.join(self._asks)}, and {type(estimator).__name__} has none; take an estimator "
                "with it (such as CalibratedClassifierCV of scikit-learn), or another metric, such as exact_auc"
            )
        prediction = getattr(estimator, asks)(x)
        if asks == "predict":
            return self._places(classes, prediction, "prediction")
        of_second = asks == "predict_proba" and len(classes) == 2 and not self._averages
        return prediction[:, 1] if of_second else prediction

    def _places(self, classes: np.ndarray, values: Any, argument: str) -> np.ndarray:
        """The place of each value among the classes, which are sorted."""
        values = np.asarray(values)
        if values.ndim != 1:
            raise InvalidInputError(f"{argument} has shape {list(values.shape)}; {self!r} takes one class per sample")
        places = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        unknown = classes[places] != values
        if unknown.any():
            raise InvalidInputError(
                f"{argument} holds {values[unknown].tolist()[0]!r}, the first at position {unknown.argmax()}, which "
                f"the estimator has not seen: its classes are {classes.tolist()!r:.80}. Stratify the folds"
            )
        return places

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"scorer({self.metric!r}{settings})"
