"""AUC: Paddle's buckets, bit for bit, in every mode."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, static_mode
from tests.paddle_version import on_legacy_graph


def edges(thresholds: int, dtype: str) -> np.ndarray:
    """Every bucket's edge and its neighbours, and what lies between."""
    edge = (np.arange(thresholds + 1) / thresholds).astype(dtype)
    zero, one = np.zeros(1, dtype), np.ones(1, dtype)
    around = [np.nextafter(edge, zero), edge, np.minimum(np.nextafter(edge, one), one)]
    tiny = np.array([np.finfo(dtype).tiny, np.finfo(dtype).eps, 0.5, -0.0], dtype)
    return np.concatenate([*around, tiny, np.random.default_rng(0).random(4000).astype(dtype)])


def histogram(score: np.ndarray, label: np.ndarray, thresholds: int, mode: str) -> np.ndarray:
    """The histograms of both classes that the metric accumulates over two batches."""
    metric = fm.AUC(num_thresholds=thresholds)
    half = len(score) // 2
    parts = [Data(score[:half], label[:half]), Data(score[half:], label[half:])]
    scope = feed(metric, parts, mode)
    return metric.states["histogram"].read(scope).reshape(2, -1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("thresholds", [1, 3, 200, 4095, 10_000])
def test_a_score_falls_into_the_same_bucket_in_every_mode(thresholds, dtype):
    score = edges(thresholds, dtype)
    label = np.random.default_rng(1).integers(0, 2, len(score))
    precision = np.float64 if dtype == "float64" else np.float32
    bucket = (score.astype(precision) * precision(thresholds)).astype(int)
    expected = [np.bincount(bucket[label == c], minlength=thresholds + 1) for c in (0, 1)]
    for mode in MODES:
        np.testing.assert_array_equal(histogram(score, label, thresholds, mode), expected)


@on_legacy_graph
@pytest.mark.parametrize("thresholds", [7, 200, 4095])
def test_histograms_are_those_of_paddle_static_auc_bit_for_bit(thresholds):
    score = edges(thresholds, "float32")
    label = np.random.default_rng(1).integers(0, 2, len(score))
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with static_mode(), paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        table = paddle.static.data("table", [-1, 2], "float32")
        truth = paddle.static.data("truth", [-1, 1], "int64")
        states = paddle.static.auc(table, truth, num_thresholds=thresholds)[2]
        executor.run(startup)
        for part in np.array_split(np.arange(len(score)), 3):
            feeds = {"table": np.stack([1 - score, score], 1)[part], "truth": label[part, None]}
            executor.run(main, feed=feeds)
    positive, negative = (np.array(scope.find_var(state.name).get_tensor()).reshape(-1) for state in states[2:])
    for mode in MODES:
        np.testing.assert_array_equal(histogram(score, label, thresholds, mode), [negative, positive])
    assert fm.auc(states[2], states[3], scope) == fm.formulas.auc_from_histogram(positive, negative)


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "4095", None, np.float64(3)])
def test_num_thresholds_must_be_a_whole_number_of_at_least_1(value):
    with pytest.raises(fm.InvalidInputError, match="num_thresholds must be an integer of at least 1, not ") as error:
        fm.AUC(num_thresholds=value)
    assert repr(value) in str(error.value)


def test_more_than_two_columns_are_an_error_that_says_what_is_allowed():
    metric = fm.AUC()
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\]; allowed are \[n\], \[n, 1\]"):
        metric.add(np.full([4, 3], 1 / 3), [0, 1, 2, 0])
