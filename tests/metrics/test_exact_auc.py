"""ExactAUC: any finite scores, mixed batches, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import fleetmetrics as fm
from fleetmetrics.formulas import exact_auc
from tests.contract import new_programs


def samples(size: int = 300) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    score = np.round(rng.normal(size=size) * 3, 1)
    return score, (rng.random(size) < 1 / (1 + np.exp(-score))).astype(np.int64), rng.random(size)


def test_logits_are_ranked_as_they_are():
    score, label, _ = samples()
    metric = fm.ExactAUC()
    metric.add(score, label)
    assert metric.compute() == pytest.approx(roc_auc_score(label, score), rel=1e-14)


def test_batches_with_and_without_weights_and_of_both_precisions_mix():
    score, label, weight = samples()
    score = score.astype(np.float32).astype(np.float64)
    metrics = fm.MetricCollection(
        {"roc": fm.ExactAUC(), "pr": fm.ExactAUC(curve="PR"), "part": fm.ExactAUC(max_fpr=0.2)}
    )
    metrics.add(score[:100], label[:100])
    metrics.add(score[100:200].astype(np.float32), label[100:200], weight[100:200])
    metrics.add(score[200:], label[200:], mask=np.arange(100) % 2)
    counted = np.ones(300)
    counted[100:200] = weight[100:200]
    counted[200:] = np.arange(100) % 2
    values = metrics.compute()
    assert values["roc"] == pytest.approx(roc_auc_score(label, score, sample_weight=counted), rel=1e-12)
    assert values["part"] == pytest.approx(roc_auc_score(label, score, sample_weight=counted, max_fpr=0.2), rel=1e-12)
    assert values["pr"] == pytest.approx(average_precision_score(label, score, sample_weight=counted), rel=1e-12)


@pytest.mark.parametrize("settings", [{}, {"curve": "PR"}, {"max_fpr": 0.2}], ids=["roc", "pr", "part"])
def test_batches_of_both_precisions_on_both_sides_of_zero_mix_whenever_one_computes(settings):
    score, label, _ = samples()
    score = score.astype(np.float32).astype(np.float64)
    parts = [np.abs(score[:100]), np.abs(score[100:200]).astype(np.float32), score[200:250], np.abs(score[250:])]
    metric, other, both = (fm.ExactAUC(**settings) for _ in range(3))
    both.add(parts[0], label[:100])
    both.add(parts[1], label[100:200])
    assert both.compute() == pytest.approx(exact_auc(np.concatenate(parts[:2]), label[:200], **settings), abs=1e-14)
    for number, part in enumerate(parts):
        start = sum(map(len, parts[:number]))
        added = other if number == 1 else metric
        added.add(part, label[start : start + len(part)])
        added.compute()
    metric.merge(other)
    whole = np.concatenate(parts[:1] + parts[2:] + parts[1:2])
    order = np.concatenate([label[:100], label[200:], label[100:200]])
    for _ in range(2):
        assert metric.compute() == pytest.approx(exact_auc(whole, order, **settings), abs=1e-14)


def test_in_a_collection_the_samples_are_kept_once():
    metrics = fm.MetricCollection({"roc": fm.ExactAUC(name="a"), "pr": fm.ExactAUC(name="b", curve="PR")})
    tables = {id(member.table) for member in metrics.metrics.values()}
    assert len(tables) == 1


def test_it_lies_between_the_bounds_of_the_bucketed_area():
    score, label, weight = samples()
    score = 1 / (1 + np.exp(-score))
    metrics = fm.MetricCollection({"exact": fm.ExactAUC(), "bounded": fm.AUC(buckets=16, bounds=True)})
    metrics.add(score, label, weight)
    values = metrics.compute()
    assert values["bounded"].low < values["exact"] < values["bounded"].high


def test_two_columns_must_be_probabilities_whose_order_is_that_of_the_last_one():
    with pytest.raises(fm.InvalidInputError, match="probabilities in"):
        fm.ExactAUC().add([[1.0, 2.0], [5.0, 3.0]], [1, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_an_error(bad):
    with pytest.raises(fm.InvalidInputError, match="prediction must be a finite number; 1 of 3 samples"):
        fm.ExactAUC().add([0.5, bad, 0.25], [0, 1, 1])


@pytest.mark.numpy_only
def test_integers_are_compared_exactly_up_to_64_bits_and_larger_ones_are_refused():
    metric = fm.ExactAUC()
    metric.add(np.array([2**63 - 1, 2**63 - 2, 1 - 2**63, 2 - 2**63]), [1, 0, 0, 1])
    assert metric.compute() == 0.75
    with pytest.raises(fm.IntegerOverflowError, match=r"prediction holds 9223372036854775808; .* 2\*\*63 - 1"):
        metric.add(np.array([2**63], np.uint64), [1])
    assert metric.compute() == 0.75
    lowest = fm.ExactAUC()
    lowest.add(np.array([-(2**63), 0]), [0, 1])
    with pytest.raises(fm.InvalidInputError, match=r"integers above -2\*\*63"):
        lowest.compute()


def test_a_static_program_is_an_error_that_names_the_way_to_do_it():
    import paddle

    with new_programs() as programs:
        score, label = paddle.static.data("p", [-1], "float32"), paddle.static.data("y", [-1], "int64")
        with pytest.raises(fm.StaticProgramError, match="fetch"):
            fm.ExactAUC().add(score, label)
    assert programs


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"curve": "pr"}, "curve must be one of 'ROC', 'PR', not 'pr'"),
        ({"max_fpr": 2}, "max_fpr must be None or a number above 0 and at most 1, not 2"),
        ({"max_fpr": 0.5, "curve": "PR"}, "max_fpr is for curve='ROC'"),
        ({"zero_division": None}, "zero_division must be nan or a finite number, not None"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(settings, told):
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.ExactAUC(**settings)
