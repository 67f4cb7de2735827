"""Confusion matrices to try formulas on, and how to catch their warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import metrics

from fleetmetrics.errors import UndefinedMetricWarning

CLASSES = 5
SEEDS = range(6)


def matrix_of(label, prediction, weight=None, classes=CLASSES):
    return metrics.confusion_matrix(label, prediction, labels=range(classes), sample_weight=weight)


def draw(seed):
    """Labels and predictions of five classes; in half of them some are never true, never predicted or neither."""
    rng = np.random.default_rng(seed)
    label, prediction = rng.integers(0, CLASSES, (2, 40))
    if seed % 2:
        label[label == 1] = 0
        prediction[prediction == 2] = 0
        label[label == 4] = prediction[prediction == 4] = 3
    return label, prediction, rng.random(40) if seed % 3 else None


def draw_labels(seed):
    """Three labels; in half of them one is never true, and one neither true nor predicted."""
    rng = np.random.default_rng(seed)
    label, prediction = rng.integers(0, 2, (2, 40, 3))
    if seed % 2:
        label[:, 1:] = 0
        prediction[:, 2] = 0
    return label, prediction, rng.random(40) if seed % 3 else None


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def one_warning(function, *arguments):
    with pytest.warns(UndefinedMetricWarning) as caught:
        value = function(*arguments)
    assert len(caught) == 1
    return value, str(caught[0].message)
