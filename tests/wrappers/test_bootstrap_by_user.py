"""Intervals of metrics by user and by query: users are drawn, and each replicate is the metric of those drawn."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.batch.hashing import integer_ids, poisson, salts, words
from fleetmetrics.records import fold
from fleetmetrics.xp import numpy_ops
from tests.contract import same
from tests.fakes import Together, together

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")]

N, USERS, REPLICATES, SEED = 2000, 150, 20, 4
RNG = np.random.default_rng(5)
USER = RNG.integers(0, USERS, N)
DATA = {
    "prediction": np.round(RNG.random(N), 2),
    "label": RNG.integers(0, 2, N),
    "weight": RNG.random(N) * 1e200,
    "user": USER,
    "slot": RNG.integers(0, 3, N),
}
METRICS = {
    "gauc": fm.GAUC(),
    "gauc by clicks": fm.GAUC(user_weight="clicks"),
    "uauc": fm.UAUC(),
    "ndcg": fm.NDCG(k=[1, 10], by="user"),
    "ndcg that is 0 where it is undefined": fm.NDCG(k=3, by="user", zero_division=0.0),
    "map": fm.MAP(by="user"),
    "mrr": fm.MRR(by="user"),
    "hit rate": fm.HitRate(k=2, by="user"),
    "recall": fm.RecallAtK(k=5, by="user"),
}


class Spreading(Together):
    spreads = True


def times_of(ids: Any, seed: int = SEED) -> np.ndarray:
    times = poisson(numpy_ops, *words(numpy_ops, integer_ids(np.asarray(ids)), seed), salts(seed, REPLICATES))
    return times.astype(np.int64)


def sure(metric: Any, **settings: Any) -> fm.Bootstrap:
    return fm.Bootstrap(metric.fresh(), REPLICATES, seed=SEED, **{"name": "mine", **settings})


def fed(metric: Any, data: dict[str, np.ndarray] = DATA, names: Any = (), size: int = 77) -> Any:
    wanted = ("prediction", "label", "user", *names)
    for start in range(0, len(data["user"]), size):
        metric.add(**{name: data[name][start : start + size] for name in wanted})
    return metric


def taken(rows: Any, **changed: np.ndarray) -> dict[str, np.ndarray]:
    return {**{name: column[rows] for name, column in DATA.items()}, **changed}


def of_drawn(metric: Any, drawn: np.ndarray, names: Any = ()) -> Any:
    """The metric's own value where each user is repeated as often as it was drawn."""
    copies = [np.flatnonzero(drawn[USER] > copy) for copy in range(drawn.max())]
    user = np.concatenate([USER[rows] * 100 + copy for copy, rows in enumerate(copies)])
    return fed(metric.fresh(), taken(np.concatenate(copies), user=user), names, 10**9).compute()


def bits(value: Any) -> Any:
    """All numbers of a result, or of a dict of results, as text."""
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items()}
    return [each.tolist() if isinstance(each, np.ndarray) else each for each in value]


@pytest.mark.parametrize("names", [(), ("weight",)], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", METRICS)
def test_each_replicate_is_the_metric_of_the_users_that_it_draws(name: str, names: Any) -> None:
    metric, times = METRICS[name], times_of(np.arange(USERS))
    result = fed(sure(metric), names=names).compute()
    wanted = [of_drawn(metric, column, names) for column in times.T]
    for key, each in result.items() if isinstance(result, dict) else [(None, result)]:
        assert each.replicates.tolist() == [value if key is None else value[key] for value in wanted]
        assert each.drawn.tolist() == times[USER].sum(axis=0).tolist()
    assert repr(fed(metric.fresh(), names=names).compute()) == repr(
        {key: each.value for key, each in result.items()} if isinstance(result, dict) else result.value
    )


@pytest.mark.parametrize("name", ["gauc", "ndcg"])
@pytest.mark.parametrize("names", [(), ("slot",), ("weight",)], ids=["whole", "slices", "weights"])
def test_the_bits_are_the_same_for_workers_orders_parts_and_pieces(name: str, names: Any, monkeypatch: Any) -> None:
    def make() -> Any:
        return fm.Sliced(sure(METRICS[name]), name="it") if "slot" in names else sure(METRICS[name])

    wanted = fed(make(), names=names).compute()
    found = []
    parts = [fed(make(), taken(np.flatnonzero(part == USER % 3)), names) for part in range(3)]
    for part in parts:
        part.close(complete_by="user")
    found += [fm.merge_all(pickle.loads(pickle.dumps(parts[::way]))).compute() for way in (1, -1)]
    loaded = make()
    loaded.set_state_dict(fm.merge_all(parts).state_dict())
    found.append(loaded.compute())

    dealt = np.random.default_rng(1).integers(0, 3, N)
    if "weight" not in names:  # the order of a user's own samples shows in the last digit of a sum of weights
        found.append(fed(make(), taken(np.random.default_rng(0).permutation(N)), names, 400).compute())

    def work(channel: Together, close: bool) -> Any:
        metric = fed(make(), taken(np.flatnonzero((USER % 3 if close else dealt) == channel.rank)), names)
        if close:
            metric.close(complete_by="user")
        return metric.compute(communicator=channel)

    for piece in (300, 2**24):
        monkeypatch.setattr(fold, "ROUND_BYTES", piece)
        for kind in (Together, Spreading):
            for close in (True,) if "weight" in names else (False, True):
                found += together([lambda channel, close=close: work(channel, close)] * 3, kind)
    assert [bits(each) for each in found] == [bits(wanted)] * len(found)


def test_the_name_of_the_users_may_be_given_or_not() -> None:
    one, other = fm.Bootstrap(fm.GAUC(), 5), fm.Bootstrap(fm.GAUC(), 5, ids="user")
    for metric in (one, other):
        metric.add([0.1, 0.2, 0.3], [0, 1, 0], user=[1, 1, 1])
    one.merge(other)
    assert len(one.compute().replicates) == 5


def test_slices_draw_the_same_users() -> None:
    result = fed(fm.Sliced(sure(METRICS["gauc"])), names=("slot",)).compute()
    for slot, each in result.items():
        alone = fed(sure(METRICS["gauc"]), taken(np.flatnonzero(DATA["slot"] == slot))).compute()
        assert bits(each) == bits(alone)


def test_in_a_collection_the_samples_are_kept_once_beside_those_of_other_metrics() -> None:
    metrics = fm.MetricCollection(
        {
            "gauc": fm.GAUC(),
            "sure": sure(fm.GAUC()),
            "auc": sure(fm.AUC(), ids="user"),
            "both": sure(fm.GAUC() - fm.AUC()),
        },
        name="all",
    )
    result = fed(metrics).compute()
    assert len(metrics.record_folds()) == 1
    assert bits(result["sure"]) == bits(fed(sure(fm.GAUC())).compute()) and result["sure"].value == result["gauc"]
    difference = fm.paired_difference(result["sure"], result["auc"])
    assert difference.value == result["both"].value
    assert difference.std == pytest.approx(result["both"].std, rel=1e-9)


def test_texts_and_any_integers_are_users() -> None:
    for users in (np.char.add("u", USER.astype(str)), USER.astype(np.uint64) + 2**63, USER - 2**62):
        result = fed(sure(fm.UAUC()), {**DATA, "user": users}).compute()
        sizes = dict(zip(*np.unique(users, return_counts=True)))
        assert result.drawn.tolist() == (np.array(list(sizes.values())) @ times_of(np.array(list(sizes)))).tolist()


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e280])
def test_numbers_of_any_size_are_added_without_rounding(scale: float) -> None:
    label = RNG.random(N) * 10.0 ** RNG.integers(-20, 1, N) * scale
    metric = fm.DCG(by="user")
    result = fed(sure(metric), {**DATA, "label": label}).compute()
    column = times_of(np.arange(USERS))[:, 0]
    rows = [np.flatnonzero(column[USER] > copy) for copy in range(column.max())]
    user = np.concatenate([USER[own] * 100 + copy for copy, own in enumerate(rows)])
    every = np.concatenate(rows)
    assert result.replicates[0] == fed(metric, taken(every, user=user, label=label[every]), size=10**9).compute()


def test_without_samples_every_replicate_is_undefined() -> None:
    masked = sure(fm.GAUC())
    masked.add([0.5], [1], mask=[0], user=[3])
    for metric in (sure(fm.GAUC()), masked):
        result = metric.compute()
        assert np.isnan(result.value) and np.isnan(result.replicates).all() and not result.drawn.any()


def test_a_metric_of_your_own_that_adds_up_users_has_an_interval() -> None:
    class Silent(fm.GroupedMetric):
        """Share of the users that never click."""

        columns = ("user",)
        counts = ("silent", "users")

        def __init__(self, **common: Any) -> None:
            super().__init__(**common)
            self.keep_records(("user", "click"), order="user")

        def batch_records(self, batch: Any) -> Any:
            return {"user": batch.column("user"), "click": batch.positive}

        def of_groups(self, records: Any) -> Any:
            user, place = np.unique(records["user"], return_inverse=True)
            return {"silent": np.bincount(place, records["click"]) < 5, "users": np.ones(len(user), int)}

        def formula(self, silent: int, users: int) -> float:
            return silent / users if users else float("nan")

    result = fed(sure(Silent())).compute()
    silent = np.bincount(USER, DATA["label"]) < 5
    assert result.value == silent.mean()
    assert result.replicates.tolist() == [(silent * column).sum() / column.sum() for column in times_of(range(USERS)).T]


def test_a_metric_that_cannot_be_drawn_by_user_says_why() -> None:
    class OfYourOwn(RecordMetric):
        def __init__(self) -> None:
            super().__init__()
            self.keep_records(("score",))

    every = r"takes metrics whose states are sums, and .* keeps every sample; resample groups of samples yourself"
    cases = {
        r"gauc_\d+ \(GAUC\) adds one term per user: give ids='user', not 'request'": lambda: fm.Bootstrap(
            fm.GAUC(), ids="request"
        ),
        r"adds one term per query: give ids='query', not 'user'": lambda: fm.Bootstrap(fm.GAUC() + fm.MRR()),
        "ExactAUC.*": lambda: fm.Bootstrap(fm.ExactAUC(), ids="user"),
        every: lambda: fm.Bootstrap(OfYourOwn()),
        "Windowed takes metrics whose states are sums": lambda: fm.Windowed(fm.Bootstrap(fm.GAUC()), 3),
    }
    for told, make in cases.items():
        with pytest.raises(fm.InvalidInputError, match=told):
            make()
    metric = fm.Bootstrap(fm.GAUC())
    assert metric.ids == "user" and same(metric.fresh().compute().drawn, np.zeros(200), False)
