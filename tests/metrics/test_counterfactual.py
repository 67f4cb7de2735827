"""Counterfactual values: what they are of, in which cases they are right, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm

pytestmark = pytest.mark.numpy_only

LOGGING, NEW = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
RATE = np.array([0.2, 0.4, 0.8])


def logged(samples: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    action = rng.choice(3, samples, p=LOGGING)
    return action, np.stack([NEW[action], LOGGING[action]], axis=1), (rng.random(samples) < RATE[action]).astype(int)


def value(metric, *arguments):
    metric.add(*arguments)
    return metric.compute()


def test_all_estimates_find_the_value_of_the_new_policy_and_their_intervals_hold_it():
    action, both, reward = logged(20_000)
    model = np.stack([np.full(20_000, 0.3), np.full(20_000, 0.3)], axis=1)  # of no use
    for metric, table in ((fm.IPS(), both), (fm.SNIPS(), both), (fm.DoublyRobust(), np.hstack([both, model]))):
        result = value(fm.Interval(metric), table, reward)
        assert result.low < NEW @ RATE < result.high and result.std < 0.02
    assert abs(reward.mean() - NEW @ RATE) > 0.2
    assert len(action) > value(fm.EffectiveSampleSize(), both, reward) > 5_000


def test_a_right_model_needs_no_right_propensities_and_the_same_policy_no_weights():
    action, both, reward = logged(20_000)
    wrong = both * [1, 0.5]
    right = np.stack([RATE[action], np.full(len(action), NEW @ RATE)], axis=1)
    assert value(fm.DoublyRobust(), np.hstack([wrong, right]), reward) == pytest.approx(NEW @ RATE, abs=0.03)
    assert abs(value(fm.IPS(), wrong, reward) - NEW @ RATE) > 0.3
    same = both[:, [1, 1]]
    assert value(fm.IPS(), same, reward) == value(fm.SNIPS(), same, reward) == reward.mean()
    assert value(fm.EffectiveSampleSize(), same, reward) == len(action)


def test_metrics_of_equal_clip_share_their_sums():
    _, both, reward = logged(50)
    metrics = fm.MetricCollection({"snips": fm.SNIPS(clip=2), "size": fm.EffectiveSampleSize(clip=2), "ips": fm.IPS()})
    metrics.add(both, reward)
    assert len([state for state in metrics._states() if state.name.endswith(".ratios")]) == 1
    assert metrics.compute()["snips"] == value(fm.SNIPS(clip=2), both, reward)


@pytest.mark.parametrize("kind", [fm.SNIPS, fm.EffectiveSampleSize])
def test_a_policy_that_takes_nothing_of_the_log_has_no_value(kind):
    metric = kind()
    metric.add([[0.0, 0.5], [0.0, 1.0]], [1, 1])
    with pytest.warns(fm.UndefinedMetricWarning, match="the new policy takes none of the logged actions"):
        assert np.isnan(metric.compute())


@pytest.mark.parametrize(
    ("prediction", "label", "words"),
    [
        ([0.5, 0.2], [1, 0], r"prediction has shape \[n\]; it must be \[n, 2\]: the new policy's and the logging"),
        ([[0.5, 0.2, 0.3]], [1], r"prediction has shape \[n, 3\]; it must be \[n, 2\]"),
        ([[0.5, 0.2], [0.5, 0.0]], [1, 0], "the logging policy's above 0 .* 1 of 2 samples is not, the first at pos"),
        ([[1.5, 0.2]], [1], "prediction must be probabilities of the logged action"),
        ([[0.5, np.nan]], [1], "prediction must be probabilities of the logged action"),
        ([[0.5, 0.2]], None, r"label is missing; give add\(prediction, label\)"),
        ([[0.5, 0.2]], [np.inf], "label must be a finite number"),
    ],
)
def test_what_is_no_log_of_a_policy_is_refused(prediction, label, words):
    with pytest.raises(fm.InvalidInputError, match=words):
        fm.IPS().add(prediction, label)


def test_expected_rewards_must_be_numbers_and_a_clip_must_be_positive():
    with pytest.raises(fm.InvalidInputError, match="finite expected rewards in its last two columns"):
        fm.DoublyRobust().add([[0.5, 0.5, 0.1, np.nan]], [1])
    with pytest.raises(fm.InvalidInputError, match="clip must be a finite number above 0, not 0"):
        fm.IPS(clip=0)


@pytest.mark.parametrize("weight", [1e-200, 1e200, 1e300])
def test_the_effective_sample_size_grows_with_the_weights_to_any_size(weight):
    log, reward = [[0.5, 0.25], [0.0, 0.5], [1.0, 0.8]], [1, 1, 0]
    alone, weighted = fm.EffectiveSampleSize(), fm.EffectiveSampleSize()
    alone.add(log, reward)
    weighted.add(log, reward, weight=[weight] * 3)
    assert weighted.compute() == pytest.approx(alone.compute() * weight, rel=1e-12)
