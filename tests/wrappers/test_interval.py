"""Intervals without resampling: equal to a loop over samples, close to the bootstrap, on any number of workers."""

from __future__ import annotations

import importlib.util
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

import fleetmetrics as fm
from fleetmetrics.batch.hashing import integer_ids, words
from fleetmetrics.evaluation.question.versus import overall_metric
from fleetmetrics.records import fold
from fleetmetrics.xp import numpy_ops
from tests.contract import CASES, MODES, Data, batches, feed
from tests.fakes import Together, together

RNG = np.random.default_rng(23)
N, USERS = 1500, 200
#: How many are checked one by one.
FEW = slice(400)
#: Users differ in how often they click, so that their samples are alike; scores lie in the middle of buckets.
OF_USER = RNG.normal(size=USERS)
USER = np.sort(RNG.integers(0, USERS, N))[RNG.permutation(N)]
P = np.round(1 / (1 + np.exp(-OF_USER[USER] - RNG.normal(size=N))), 3)
Y = (RNG.random(N) < P).astype(np.int64)
W = RNG.random(N) * 3
SLOT = RNG.integers(0, 2, N)
METRICS = {
    "auc": fm.AUC(buckets=1024, spacing="linear", tolerance=None),
    "accuracy": fm.Accuracy(),
    "accuracy from a matrix": fm.Accuracy(task="binary"),
    "precision": fm.Precision(),
    "click-through rate": fm.ClickThroughRate(),
    "log loss": fm.LogLoss(),
    "normalized entropy": fm.NormalizedEntropy(),
    "calibration": fm.Calibration(),
    "mean squared error": fm.MeanSquaredError(),
    "root mean squared error": fm.RootMeanSquaredError(),
    "mean bias": CASES["mean bias"].make(),
}


class Spreading(Together):
    spreads = True


def moved(name: str, weighted: bool) -> np.ndarray:
    """How far each sample moves the value: of few samples, by the formula of the metric."""
    p, y = P[FEW], Y[FEW]
    w = W[FEW] if weighted else np.ones(len(p))
    likelihood, rate = np.log(np.where(y == 1, p, 1 - p)), (w @ y) / w.sum()
    of_rate = np.where(y == 1, math.log(rate), math.log(1 - rate))
    if name == "auc":
        above = (p[:, None] > p) + 0.5 * (p[:, None] == p)
        one, zero = w * y, w * (1 - y)
        area = one @ above @ zero / one.sum() / zero.sum()
        placed = np.where(
            y == 1, (above @ zero / zero.sum() - area) / one.sum(), (one @ above / one.sum() - area) / zero.sum()
        )
        return w * placed
    n, d = {
        "accuracy": ((p > 0.5) == y, 1),
        "accuracy from a matrix": ((p > 0.5) == y, 1),
        "precision": ((p > 0.5) & (y == 1), p > 0.5),
        "click-through rate": (y, 1),
        "log loss": (-likelihood, 1),
        "normalized entropy": (likelihood, of_rate),
        "calibration": (p, y),
        "mean squared error": ((p - y) ** 2, 1),
        "root mean squared error": ((p - y) ** 2, 1),
        "mean bias": (p - y, 1),
    }[name]
    n, d = n * w, d * w
    apart: np.ndarray = (n - n.sum() / d.sum() * d) / d.sum()
    return apart / (2 * math.sqrt(n.sum() / d.sum())) if name == "root mean squared error" else apart


def interval(metric: Any, ids: str | None = None, **settings: Any) -> fm.Interval:
    return fm.Interval(metric.fresh(), ids=ids, **settings)


def fed(metric: Any, rows: Any = slice(None), weight: Any = None, **columns: np.ndarray) -> Any:
    metric.add(P[rows], Y[rows], None if weight is None else weight[rows], **{k: v[rows] for k, v in columns.items()})
    return metric


def scales(apart: np.ndarray, name: str, weighted: bool) -> float:
    """The variance that independent samples have, which move the value so far."""
    if name != "auc":
        some = apart != 0 if name == "precision" else np.ones(len(apart), bool)
        return float((apart**2).sum()) * some.sum() / (some.sum() - 1)
    total = 0.0
    for own in (Y[FEW] == 1, Y[FEW] == 0):
        weight = W[FEW][own] if weighted else np.ones(own.sum())
        size = weight.sum() ** 2 / (weight**2).sum()
        total += size / (size - 1) * float((apart[own] ** 2).sum())
    return total


@pytest.mark.numpy_only
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_the_standard_error_is_that_of_the_samples_contributions(name: str, weighted: bool) -> None:
    apart = moved(name, weighted)
    metric = fed(interval(METRICS[name]), FEW, weight=W if weighted else None)
    plain = fed(METRICS[name].fresh(), FEW, weight=W if weighted else None).compute()
    result = metric.compute()
    assert result.value == plain and result.groups is None
    assert result.std == pytest.approx(math.sqrt(scales(apart, name, weighted)), rel=1e-9)
    assert result.low < plain < result.high


@pytest.mark.numpy_only
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("user", [USER, np.arange(N)[::-1]], ids=["several rows", "one row"])
def test_with_ids_the_error_is_that_of_the_contributions_of_groups_of_users(
    user: np.ndarray, name: str, weighted: bool
) -> None:
    group = words(numpy_ops, integer_ids(user[FEW]), 0)[0].astype(np.int64) % 4096
    wanted = np.bincount(group, moved(name, weighted), 4096)
    result = fed(interval(METRICS[name], "user", groups=4096), FEW, weight=W if weighted else None, user=user).compute()
    np.testing.assert_allclose(result.groups, wanted, atol=1e-9 * np.abs(wanted).max())
    assert result.drawn.tolist() == np.bincount(group, minlength=4096).tolist()
    filled = np.count_nonzero(result.groups)
    assert result.std == pytest.approx(math.sqrt(filled / (filled - 1) * (wanted**2).sum()), rel=1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ids", [None, "user"])
@pytest.mark.parametrize("name", ["auc", "accuracy from a matrix", "log loss", "normalized entropy"])
def test_every_mode_has_the_same_interval(name: str, ids: str | None, mode: str) -> None:
    wanted = fed(interval(METRICS[name], ids), weight=W, **({"user": USER} if ids else {})).compute()
    metric = interval(METRICS[name], ids)
    data = Data(P, Y, W, None, {"user": USER} if ids else {})
    if ids and name == "auc" and mode == "static":
        with pytest.raises(fm.StaticProgramError):
            feed(metric, batches(data, 500), mode)
        return
    found = metric.compute(feed(metric, batches(data, 500), mode))
    assert found[:4] == pytest.approx(wanted[:4], rel=1e-9)
    if ids:
        np.testing.assert_allclose(found.groups, wanted.groups, atol=1e-12)


@pytest.mark.numpy_only
def test_masked_samples_leave_no_trace() -> None:
    keep = RNG.random(N) < 0.7
    for name, metric in METRICS.items():
        one, other = interval(metric), interval(metric)
        one.add(np.where(keep, P, np.nan), Y, mask=keep)
        assert one.compute() == fed(other, keep).compute(), name


# -- workers --------------------------------------------------------------------------------------------------


def bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items()}
    return [each.tolist() if isinstance(each, np.ndarray) else each for each in value]


@pytest.mark.numpy_only
@pytest.mark.parametrize("channel", [Together, Spreading])
def test_workers_have_the_bits_of_one_process(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "ROUND_BYTES", 2048)  # many pieces

    def make() -> fm.MetricCollection:
        return fm.MetricCollection(
            {
                "auc": interval(METRICS["auc"]),
                "auc of users": interval(METRICS["auc"], "user"),
                "rate": interval(fm.ClickThroughRate()),
                "rate of users": interval(fm.ClickThroughRate(), "user"),
                "gauc": interval(fm.GAUC()),
                "sliced": fm.Sliced(interval(METRICS["auc"], "user"), by="slot"),
            },
            name="mine",
        )

    data = {"user": USER, "slot": SLOT}
    wanted = bits(fed(make(), **data).compute())
    order = RNG.permutation(N)
    parts = [fed(make(), rows, **data) for rows in np.array_split(order, [100, 150, 900])]
    for found in together([lambda it, part=part: part.compute(communicator=it) for part in parts], channel):
        assert bits(found) == wanted
    merged = fm.merge_all([fed(make(), rows, **data) for rows in np.array_split(order, 3)])
    assert bits(merged.compute()) == wanted
    assert bits(pickle.loads(pickle.dumps(merged)).compute()) == wanted


@pytest.mark.numpy_only
def test_weights_of_users_are_added_up_in_an_order_that_knows_nothing_of_workers() -> None:
    wanted = fed(interval(METRICS["auc"], "user"), weight=W, user=USER).compute()
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(N)
        found = fed(interval(METRICS["auc"], "user"), order, weight=W, user=USER).compute()
        assert found.groups == pytest.approx(wanted.groups, abs=1e-15)


@pytest.mark.numpy_only
def test_wrappers_around_it_are_those_of_each_part() -> None:
    sliced = fed(fm.Sliced(interval(METRICS["log loss"], "user"), by="slot"), user=USER, slot=SLOT).compute()
    for slot, found in sliced.items():
        alone = fed(interval(METRICS["log loss"], "user"), slot == SLOT, user=USER).compute()
        assert found[:4] == pytest.approx(alone[:4]) and found.drawn.tolist() == alone.drawn.tolist()
    windowed = fm.Windowed(interval(METRICS["auc"]), last=2)
    for rows in np.array_split(np.arange(N), 3):
        fed(windowed, rows, weight=W)
    last = np.concatenate(np.array_split(np.arange(N), 3)[1:])
    assert windowed.compute().window[:4] == pytest.approx(fed(interval(METRICS["auc"]), last, weight=W).compute()[:4])


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", ["auc", "accuracy", "precision", "log loss"])
def test_slices_without_ids_are_those_of_each_part(name: str) -> None:
    """The states of an interval and those of the slices have names of their own."""
    sliced = fed(fm.Sliced(interval(METRICS[name]), by="slot"), slot=SLOT).compute()
    for slot, found in sliced.items():
        assert found[:4] == pytest.approx(fed(interval(METRICS[name]), slot == SLOT).compute()[:4])


# -- beside the bootstrap ----------------------------------------------------------------------------------------


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "metric, ids",
    [(fm.AUC(buckets=64, tolerance=None), None), (METRICS["log loss"], "user"), (fm.GAUC(), "user")],
)
def test_it_agrees_with_ten_thousand_draws_within_their_noise(metric: Any, ids: str | None) -> None:
    columns = {"user": USER} if ids else {}
    draws = fed(fm.Bootstrap(metric.fresh(), 10_000, seed=1, ids=ids), **columns).compute()
    found = fed(interval(metric, ids), **columns).compute()
    units = len(np.unique(USER)) if ids else min(Y.sum(), N - Y.sum())
    exact = 1 / (2 * units)  # which the bootstrap does not correct for
    noise = 1 / math.sqrt(2 * 10_000)
    assert found.std == pytest.approx(draws.std, rel=4 * noise + exact + (1 / 2**14) ** 0.5)
    for end, other in ((found.low, draws.low), (found.high, draws.high)):
        # The noise of a percentile of 2.5 %, 0.027 std, and how far the scales of the two differ at such a distance.
        assert abs(end - other) < (4 * 0.027 + 0.1) * draws.std


@pytest.mark.numpy_only
def test_a_pair_agrees_with_paired_draws() -> None:
    other = np.clip(np.round(P + RNG.normal(size=N) / 10, 3), 0.001, 0.999)
    results = []
    for wrapped in (interval(METRICS["auc"], "user"), fm.Bootstrap(METRICS["auc"].fresh(), 500, ids="user")):
        pair = []
        for score in (P, other):
            one = wrapped.fresh()
            one.add(score, Y, user=USER)
            pair.append(one.compute())
        results.append(fm.paired_difference(*pair))
    analytic, drawn = results
    assert analytic.value == pytest.approx(drawn.value, abs=1e-12)
    assert analytic.std == pytest.approx(drawn.std, rel=0.13)  # four times the noise of this many draws
    assert analytic.std < 0.5 * math.hypot(*(each.std for each in pair))  # what they have in common cancels


@pytest.mark.thorough
@pytest.mark.numpy_only
def test_coverage_is_that_of_the_table_in_the_docs() -> None:
    path = Path(__file__).parents[2] / "docs" / "scripts" / "intervals.py"
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", path)
    script = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(script)  # type: ignore[union-attr]
    sets = 100
    error = math.sqrt(0.95 * 0.05 / sets)  # of one coverage; those of one size go up and down together
    for size in (script.Size(1_000, 0.1, "samples"), script.Size(200, 0.5, "users")):
        true, found = script.World(size.rate).true(), script.ends(size, range(sets))
        found.pop("HitRate", None)  # 200 users have too few without a hit
        every = [script.coverage(ends, true[name]) for name, ends in found.items()]
        held, none = np.transpose(every)
        assert held.min() > 0.95 - 4 * error and none.max() <= 0.05, dict(zip(found, every))
        assert abs(held.mean() - 0.95) < 3 * error, dict(zip(found, every))
    few = script.ends(script.Size(1_000, 0.01, "samples"), range(3))
    exact = few.pop("ClickThroughRate")
    assert {script.cell(*script.coverage(ends, 0.5)) for ends in few.values()} == {"-"}
    assert all(low < 0.01 < high < 0.03 for low, high in exact)


@pytest.mark.numpy_only
@pytest.mark.parametrize("ids", [None, "user"])
@pytest.mark.parametrize("kind", [fm.MeanAbsoluteError, fm.MeanBias])
def test_small_or_large_numbers_have_the_interval_of_others_or_none(kind: Any, ids: str | None) -> None:
    """Squares, and cubes, of what each sample adds leave float64 long before the numbers do."""

    def interval(size: float) -> Any:
        metric = fm.Interval(kind(), ids=ids)
        metric.add((P + Y) * size, 0.5 * P * size, **({} if ids is None else {"user": USER}))
        return metric.compute()

    ordinary, none = interval(1.0), []
    for size in (1e-310, 1e-200, 1e-155, 1e-120, 1e-100, 1e-90, 1e-60, 1e60, 1e90, 1e120):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = interval(size)
            except fm.FleetMetricsError:
                assert size > 1e100
                continue
        if math.isnan(found.low):
            assert any("beyond float64" in str(each.message) for each in said), (size, [str(w.message) for w in said])
            none.append(size)
        else:
            ends = np.array([found.value, found.low, found.high, found.std]) / size
            assert ends == pytest.approx([ordinary.value, ordinary.low, ordinary.high, ordinary.std], rel=1e-6), size
    assert not {1e-60, 1e60, 1e90} & {*none} and not (ids and {1e-120, 1e-100, 1e-90} & {*none})


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
@pytest.mark.parametrize("size", [1.0, 1e-90, 1e-104, 1e-120, 1e-155, 1e-200])
def test_one_error_among_many_samples_gives_no_interval_at_any_size(size: float) -> None:
    metric = fm.Interval(fm.MeanBias())
    metric.add(np.where(np.arange(N) == 7, size, 1e-3 * size * RNG.normal(size=N)), np.zeros(N))
    assert math.isnan(metric.compute().low)


@pytest.mark.numpy_only
@pytest.mark.parametrize("ids", [None, "user"])
@pytest.mark.parametrize("bounded", [False, True])
def test_weights_that_add_up_to_less_than_one_have_the_interval_of_larger_ones(ids: str | None, bounded: bool) -> None:
    kind = overall_metric if bounded else lambda metric, ids: fm.Interval(metric, ids=ids)
    found = []
    for scale in (1.0, 2.0**-16):
        metric = kind(METRICS["auc"].fresh(), ids)
        result = fed(metric, weight=scale * W, **({"user": USER} if ids else {})).compute()
        found.append((result.value, math.sqrt(result.spread.variance)) if bounded else result[:4])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


# -- errors and edges -------------------------------------------------------------------------------------------


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "make, told",
    [
        (
            lambda: fm.Interval(fm.R2Score()),
            r"Interval takes AUC .*; r2_score_\d+ \(R2Score\) is none of these: use Boot",
        ),
        (lambda: fm.Interval(fm.AveragePrecision(bounds=True)), "is none of these"),
        (lambda: fm.Interval(fm.AUC(max_fpr=0.1)), "is none of these"),
        (lambda: fm.Interval(fm.AUC(bounds=True)), "is none of these"),
        (lambda: fm.Interval(fm.AUC(num_classes=3)), "is none of these"),
        (lambda: fm.Interval(fm.NDCG(k=[1, 2])), "is none of these"),
        (lambda: fm.Interval(fm.GAUC(), ids="query"), "give ids='user', not 'query'"),
        (
            lambda: fm.Interval(fm.AUC(), ids="a b"),
            "ids must be the name of an additional argument of add, or None, not 'a b'",
        ),
        (lambda: fm.Interval(fm.AUC(), confidence=1.0), "confidence must be a number between 0 and 1, not 1.0"),
        (lambda: fm.Interval(fm.AUC(), groups=8), "groups must be an integer of at least 64, not 8"),
        (lambda: fm.Interval(fm.Interval(fm.AUC())), "one interval is enough"),
        (lambda: fm.Bootstrap(fm.Interval(fm.AUC())), "one interval is enough"),
        (lambda: fm.Interval(fm.Sliced(fm.AUC())), r"reverse them: Sliced\(Interval\(metric\)\)"),
        (lambda: fm.Interval(fm.Accuracy() * 2), "is none of these"),
    ],
)
def test_a_metric_without_an_interval_is_an_error_that_says_what_to_do(make: Any, told: str) -> None:
    with pytest.raises(fm.InvalidInputError, match=told):
        make()


@pytest.mark.numpy_only
def test_rows_of_several_elements_need_ids() -> None:
    metric = fm.Interval(fm.MeanAbsoluteError())
    with pytest.raises(fm.InvalidInputError, match=r"rows of several elements, which are dependent\. Give ids="):
        metric.add(np.ones((100, 2)), np.zeros((100, 2)))
    rows = RNG.normal(size=(100, 1)) * [1.0, 1.0]
    twice, once = fm.Interval(fm.MeanAbsoluteError(), ids="row"), fm.Interval(fm.MeanAbsoluteError(), ids="row")
    twice.add(rows, 0 * rows, row=np.arange(100))
    once.add(rows[:, 0], 0 * rows[:, 0], row=np.arange(100))
    assert twice.compute()[:4] == pytest.approx(once.compute()[:4])


@pytest.mark.numpy_only
def test_no_samples_and_one_class_are_undefined_once() -> None:
    for metric in (METRICS["auc"], fm.Accuracy(), fm.NormalizedEntropy(), fm.GAUC()):
        for ids in ("user",) if isinstance(metric, fm.GAUC) else (None, "user"):
            for rows in (np.zeros(N, bool), Y == 1):
                one = interval(metric, ids)
                if rows.any():
                    fed(one, rows, **({"user": USER} if ids else {}))
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    found = one.compute()
                if isinstance(metric, fm.Accuracy) and rows.any():
                    assert found.low < found.value < found.high
                    continue
                assert len(said) == 1 and all(map(math.isnan, found[:4])), (metric, ids)


@pytest.mark.numpy_only
def test_too_few_clicks_are_a_warning_and_the_interval_is_nan() -> None:
    rare = np.zeros(N, np.int64)
    rare[:12] = 1
    for metric, told in [
        (METRICS["auc"], r"12 positives, but it needs \d+"),
        (fm.Calibration(), r"1,500 samples, but it needs [45],\d+"),
    ]:
        one = interval(metric)
        one.add(P, rare)
        with pytest.warns(fm.UndefinedMetricWarning, match=told):
            found = one.compute()
        assert not math.isnan(found.value) and all(map(math.isnan, found[1:4]))
    stand_in = fm.Interval(fm.Accuracy(zero_division=0.5))
    with pytest.warns(fm.UndefinedMetricWarning, match="too few samples"):
        assert stand_in.compute().value == 0.5


SHARES = (fm.Accuracy, fm.ClickThroughRate, fm.Precision, fm.Recall, fm.Specificity, fm.Jaccard)


@pytest.mark.numpy_only
@pytest.mark.parametrize("kind", SHARES)
def test_a_share_of_few_samples_has_an_exact_interval(kind: Any) -> None:
    metric, alone = fm.Interval(kind()), kind()
    for label, score in ((1, 0.9), (0, 0.7), (1, 0.2), (0, 0.1), (1, 0.8)):
        metric.add([score], [label])
        alone.add([score], [label])
        found = metric.compute()
        value = alone.compute()
        if math.isnan(value):
            continue
        assert 0 <= found.low <= value == found.value <= found.high <= 1 and math.isnan(found.std)
    hits, number = {"ClickThroughRate": (3, 5), "Specificity": (1, 2), "Jaccard": (2, 4)}.get(
        kind.__name__, (3, 5) if kind is fm.Accuracy else (2, 3)
    )
    wanted = beta.ppf([0.025, 0.975], [hits, hits + 1], [number - hits + 1, number - hits])
    assert (found.low, found.high) == pytest.approx(tuple(wanted), rel=1e-12)


@pytest.mark.numpy_only
def test_an_exact_interval_is_of_the_states_of_all_workers_and_of_equal_weights_alone() -> None:
    label, score = np.array([1, 0, 1, 1, 0, 0, 1]), np.linspace(0.05, 0.95, 7)

    def found(rows: Any, **columns: Any) -> Any:
        metric = fm.Interval(fm.Accuracy())
        metric.add(score[rows], label[rows], **columns)
        return metric

    whole = found(slice(0, 7)).compute()
    parts = found(slice(0, 3))
    parts.merge(found(slice(3, 7)))
    assert parts.compute()[:5] == pytest.approx(whole[:5], rel=0, nan_ok=True)
    equal = found(slice(0, 7), weight=np.full(7, 0.3)).compute()
    assert equal[1:4] == pytest.approx(whole[1:4], rel=1e-12, nan_ok=True)
    with pytest.warns(fm.UndefinedMetricWarning, match="too few samples"):
        assert math.isnan(found(slice(0, 7), weight=np.arange(1.0, 8)).compute().low)
    users = fm.Interval(fm.Accuracy(), ids="user")
    users.add(score, label, user=[1, 1, 1, 2, 2, 2, 2])
    with pytest.warns(fm.UndefinedMetricWarning, match="2 users"):
        assert math.isnan(users.compute().low)
    difference = fm.unpaired_difference(whole, whole)  # it needs a standard error
    assert difference.value == 0 and math.isnan(difference.low) and math.isnan(difference.p_value)


@pytest.mark.numpy_only
def test_users_of_uneven_sizes_get_no_interval_because_their_clicks_happen_to_look_tame() -> None:
    """A third of these data sets had one, and too few of those intervals held the rate."""
    random = np.random.default_rng(0)
    user = np.repeat(np.arange(150), np.maximum(1, 4 * random.lognormal(0, 1.4, 150)).astype(int))
    metric = interval(fm.ClickThroughRate(), "user")
    for _ in range(30):
        rate = 1 / (1 + np.exp(-random.normal(size=150)))
        metric.reset()
        metric.add(np.full(len(user), 0.5), (random.random(len(user)) < rate[user]).astype(int), user=user)
        with pytest.warns(fm.UndefinedMetricWarning, match=r"1\d\d users, but"):
            assert math.isnan(metric.compute().low)


@pytest.mark.numpy_only
def test_parts_of_areas_by_users_cannot_be_closed() -> None:
    with pytest.raises(fm.InvalidInputError, match="no part can be closed"):
        fed(interval(METRICS["auc"], "user"), user=USER).close(complete_by="user")
    whole = fed(interval(fm.GAUC()), user=USER)
    parts = [fed(interval(fm.GAUC()), own, user=USER) for own in (USER < 100, USER >= 100)]
    for part in parts:
        part.close(complete_by="user")
    assert bits(fm.merge_all(parts).compute()) == bits(whole.compute())


@pytest.mark.numpy_only
def test_intervals_of_one_collection_share_what_is_alike() -> None:
    def entries(*metrics: Any) -> int:
        both = fm.MetricCollection({str(place): each for place, each in enumerate(metrics)})
        return len(list(both.own_states())) + len({each.table for each in both.record_metrics()})

    auc = METRICS["auc"]
    assert entries(interval(auc), auc.fresh()) == entries(interval(auc)) == 2
    assert entries(interval(auc, "user"), interval(auc)) == entries(interval(auc, "user")) == 3
    assert entries(interval(fm.GAUC()), fm.GAUC()) == 1


@pytest.mark.numpy_only
def test_results_become_scalars() -> None:
    found = fm.flatten({"auc": fed(interval(METRICS["auc"], "user"), user=USER).compute()})
    assert list(found) == ["auc/value", "auc/std", "auc/low", "auc/high"]
