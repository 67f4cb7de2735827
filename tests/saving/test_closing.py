"""Parts that are complete by a column are closed, and give what one pass over all samples gives."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.errors import AgreementError, FleetMetricsError, InvalidInputError
from fleetmetrics.records import folding
from fleetmetrics.records.folding import _packed
from fleetmetrics.records.table import Closed
from fleetmetrics.support import warning
from tests import contract
from tests.contract import CASES
from tests.exactness import taken
from tests.fakes import together

pytestmark = pytest.mark.numpy_only

PARTS = 16
BY_COLUMN = [
    name for name in CASES if any(each.table.order in each.columns for each in CASES[name].make().record_metrics())
]


def quiet(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def by_trees(parts: Any, seed: int) -> Any:
    """What pickled parts make in some order, merged by threes."""
    rng = np.random.default_rng(seed)
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    while len(parts) > 1:
        rng.shuffle(parts)
        parts = [fm.merge_all(parts[start : start + 3]) for start in range(0, len(parts), 3)]
    return parts[0]


@pytest.mark.parametrize("weight", [None, "real"])
@pytest.mark.parametrize("name", BY_COLUMN)
def test_closed_parts_in_any_tree_give_what_one_pass_gives(name, weight):
    data = contract.draw(name, contract.first_dtypes(name), weight, samples=300)
    whole, *parts = [CASES[name].make() for _ in range(PARTS + 1)]
    table = whole.record_folds()[0].table
    column = np.asarray(data.columns[table.order])
    part = np.unique(column, return_inverse=True)[1].reshape(-1) % (PARTS - 1)  # one stays empty
    quiet(lambda: contract.feed(whole, [data], "numpy"))
    for number, metric in enumerate(parts):
        own = taken(data, np.flatnonzero(part == number))
        contract.feed(metric, contract.batches(own), "numpy")
        metric.close(complete_by=table.order)
    found = [by_trees(parts, seed) for seed in range(4)]
    assert len({repr(contract.plain(quiet(each.compute))) for each in found}) == 1
    assert len({repr([(key, array.tobytes()) for key, array in each.state_dict().items()]) for each in found}) == 1
    assert contract.same(quiet(found[0].compute), quiet(whole.compute), False, 1e-13)


def scored(number: int = 600, seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    score = np.round(rng.normal(size=number), 2)
    return score, (rng.random(number) < 0.4 + 0.1 * score).astype(int), rng.random(number), rng.integers(0, 4, number)


def by_ranges(make: Any, weighted: Any, totals: Any = None, dtype: Any = float) -> list[Any]:
    """The metric over all, and of each part with the scores of a range."""
    score, label, weight, slot = scored()
    place = np.searchsorted([-1.5, -0.2, 0.0, 0.3, 5.0], score)
    score = (score * (100 if dtype is int else 1)).astype(dtype)
    metrics = [make() for _ in range(7)]
    for number, metric in enumerate(metrics):
        own = np.flatnonzero((place == number) | (number == 6))
        for rows in np.array_split(own, 3):
            if len(rows):
                columns = {"slot": slot[rows]} if isinstance(metric, fm.Sliced) else {}
                metric.add(score[rows], label[rows], weight=weighted * weight[rows] if weighted else None, **columns)
        if number < 6:
            metric.close(complete_by="score", totals=totals)
    return [metrics[-1], *metrics[:-1]]


@pytest.mark.parametrize("dtype", [float, np.float32, int])
@pytest.mark.parametrize("weighted", [0, 1e220, 1e-220])
def test_ranges_of_scores_give_what_one_pass_gives(weighted, dtype):
    totals: Any = {}
    for sliced in (False, True):
        for settings in ({}, {"curve": "PR"}, {"max_fpr": 0.3}):

            def make(settings: Any = settings, sliced: Any = sliced) -> Any:
                metric = fm.ExactAUC(**settings)
                return fm.Sliced(metric) if sliced else metric

            whole, *parts = by_ranges(make, weighted, totals.get(sliced) if settings else None, dtype)
            found = [by_trees(parts, seed) for seed in range(4)]
            totals.setdefault(sliced, found[0])
            values = [each.compute() for each in found]
            assert len({repr(value) for value in values}) == 1
            assert contract.same(values[0], whole.compute(), not (weighted or settings), 1e-13)


def gauc(users: Any, complete_by: str | None = "user", **members: Any) -> Any:
    metrics = fm.MetricCollection({"gauc": fm.GAUC(), "auc": fm.AUC(), **members}, name="m")
    if len(users):
        score = np.linspace(0, 1, len(users))
        metrics.add(score, np.arange(len(users)) % 2, user=users)
    if complete_by:
        metrics.close(complete_by=complete_by)
    return metrics


def test_closed_parts_are_small_and_metrics_without_samples_stay_as_they_are():
    users = np.repeat(np.arange(1000), 100)
    closed, open_ = gauc(users), gauc(users, None)
    assert closed.compute() == open_.compute()
    assert len(pickle.dumps(closed)) < 90_000 < 500_000 < len(pickle.dumps(open_))
    auc = fm.AUC()
    auc.close(complete_by="user")
    auc.add([0.1, 0.2], [0, 1])
    assert auc.compute() == 1.0


@pytest.mark.parametrize("batches", [1, 7, 1000])
@pytest.mark.parametrize("by", [None, "slot"])
def test_large_parts_are_folded_some_users_at_a_time_and_give_the_same_bits(monkeypatch, batches, by):
    rng = np.random.default_rng(8)
    columns = {"user": rng.integers(-90, 90, 5000), "slot": rng.integers(0, 3, 5000)}
    given = [rng.random(5000), rng.integers(0, 2, 5000), *columns.values(), rng.random(5000)]

    def filled() -> Any:
        gauc, ndcg = fm.GAUC(), fm.NDCG(k=3, by="user")
        metrics = fm.MetricCollection({"gauc": fm.Sliced(gauc, by=by) if by else gauc, "ndcg": ndcg}, name="m")
        for score, label, user, slot, weight in zip(*(np.array_split(each, batches) for each in given)):
            more = {"slot": slot} if by else {}
            user = user.astype(np.int64) if user[0] % 2 else user.astype(np.int8)
            metrics.add(score, label, weight=weight, user=user, **more)
        return metrics

    whole, folded, groups = filled(), filled(), []
    want = whole.compute()
    whole.close("user")
    monkeypatch.setattr(folding, "AT_ONCE", 600)
    places = folding._places_by_group
    monkeypatch.setattr(folding, "_places_by_group", lambda *a: groups.append(places(*a)) or groups[-1])
    folded.close("user")
    assert groups and {len(each) for each in groups} == {9}
    assert folded.compute() == whole.compute() == want
    assert [each.table.closed.members.tolist() for each in folded.record_folds()] == [
        each.table.closed.members.tolist() for each in whole.record_folds()
    ]


def test_what_is_muted_is_muted_in_the_threads_that_fold_and_their_errors_come_out(monkeypatch):
    monkeypatch.setattr(folding, "AT_ONCE", 10)
    metric = fm.GAUC()
    metric.add(np.linspace(0, 1, 100), np.arange(100) % 2, user=np.arange(100) // 5)
    muted = []
    monkeypatch.setattr(fm.GAUC, "of_groups", lambda self, records: muted.append(warning.muted_now()) or {}["gone"])
    with warning.muted(fm.UndefinedMetricWarning), pytest.raises(KeyError, match="gone"):
        metric.close("user")
    assert set(muted) == {(fm.UndefinedMetricWarning,)}
    monkeypatch.undo()
    assert metric.compute() == gauc(np.arange(100) // 5, None).compute()["gauc"]  # nothing was lost


@pytest.mark.parametrize("users", [([1, 1, 2], [3, 3, 2]), (["ann", "bob"], ["bob", "eve"])])
def test_a_user_in_two_parts_is_refused_and_nothing_is_merged(users):
    one, other = map(gauc, users)
    before = {key: array.tobytes() for key, array in one.state_dict().items()}
    with pytest.raises(InvalidInputError, match=r"'user' (2|-?[0-9]{15,}) .* is in two parts that are both"):
        one.merge(other)
    with pytest.raises(InvalidInputError, match="'user'"):
        fm.merge_all([gauc([]), one, gauc([7, 7]), other])
    assert {key: array.tobytes() for key, array in one.state_dict().items()} == before


def test_a_closed_metric_takes_no_samples_until_it_is_reset():
    metrics = gauc([1, 1])
    before = {key: array.tobytes() for key, array in metrics.state_dict().items()}
    with pytest.raises(InvalidInputError, match="is closed, and takes no more samples"):
        metrics.add([0.5], [1], user=[3])
    assert {key: array.tobytes() for key, array in metrics.state_dict().items()} == before
    metrics.close(complete_by="user")  # once more: nothing happens
    metrics.reset()
    metrics.add([0.5, 0.6], [1, 0], user=[3, 3])
    assert metrics.compute() == {"gauc": 0.0, "auc": 0.0}


def test_open_and_closed_parts_do_not_merge_unless_one_was_never_fed():
    closed, open_ = gauc([1, 1]), gauc([2, 2], None)
    for one, other in ((closed, open_), (open_, closed)):
        with pytest.raises(InvalidInputError, match="some parts are closed and others are not"):
            one.merge(other)
    for parts in ([closed, gauc([], None)], [gauc([], None), closed], [closed, gauc([])], [gauc([]), closed]):
        assert fm.merge_all(parts).compute() == closed.compute()
    assert fm.merge_all([gauc([]), open_.fresh()]).holds_samples()


def test_a_column_that_does_not_complete_a_metric_is_refused_with_the_one_that_does():
    with pytest.raises(InvalidInputError, match=r"\['exact'\] \(ExactAUC\): .*closed only by 'score'"):
        gauc([1, 1], exact=fm.ExactAUC())
    with pytest.raises(InvalidInputError, match=r"\['rank'\] \(SpearmanCorrelation\).*by no column"):
        gauc([1, 1], rank=fm.SpearmanCorrelation())
    with pytest.raises(InvalidInputError, match="only by 'user'"):
        gauc([1, 1], "query")
    with pytest.raises(InvalidInputError, match="belongs to"):
        gauc([1, 1], None).metrics["gauc"].close(complete_by="user")
    with pytest.raises(InvalidInputError, match=r"GAUC.* takes no totals"):
        fm.GAUC().close("user", totals=gauc([1, 1]))
    with pytest.raises(InvalidInputError, match="totals must be a metric closed by 'user', not 3"):
        gauc([1, 1], None).close("user", totals=3)
    for metric in (fm.Sum(), fm.GAUC()):
        with pytest.raises(InvalidInputError, match="complete_by must be the name of a column, not 3"):
            metric.close(3)


class Fails(RecordMetric):
    """Adds up users, and cannot."""

    columns = ("user",)

    def __init__(self, **common):
        super().__init__(**common)
        self.keep_records(("user", "score"), order="user")

    def batch_records(self, batch):
        return {"user": batch.column("user"), "score": batch.values}

    def start(self):
        return {}

    def piece(self, before, records, states):
        raise KeyError("no")


def test_where_one_metric_cannot_be_closed_none_is():
    metrics = gauc([1, 1, 2], None, fails=Fails())
    with pytest.raises(KeyError):
        metrics.close("user")
    assert [folds.table.closed for folds in metrics.record_folds()] == [None, None]


def test_totals_closed_by_another_column_are_refused():
    part = fm.ExactAUC(curve="PR")
    part.add([0.3, 0.4], [0, 1])
    for totals in (gauc([1, 1, 2]), fm.ExactAUC(), fm.AUC()):
        with pytest.raises(InvalidInputError, match="totals must be a metric closed by 'score', not"):
            part.close("score", totals=totals)
    part.add([0.5], [1])  # it is not closed
    assert part.compute() == 1.0


@pytest.mark.parametrize("settings", [{}, {"curve": "PR"}, {"max_fpr": 0.3}], ids=str)
@pytest.mark.parametrize("nothing", [{"weight": [0, 0]}, {"mask": [0, 0]}, {"weight": 0}], ids=str)
def test_a_part_whose_samples_count_nothing_is_closed_as_one_without_samples(nothing, settings):
    totals = None
    for own in ({}, settings):
        parts = [fm.ExactAUC(**own) for _ in range(2)]
        parts[0].add([0.9, 0.8, 0.7], [1, 0, 1])
        parts[1].add([0.3, 0.4], [0, 1], **nothing)
        for part in parts:
            part.close(complete_by="score", totals=totals if own else None)
        totals = fm.merge_all(parts)
    whole = fm.ExactAUC(**settings)
    whole.add([0.9, 0.8, 0.7], [1, 0, 1])
    assert totals.compute() == whole.compute()
    with pytest.warns(fm.UndefinedMetricWarning):
        assert np.isnan(parts[1].compute())


def test_ranges_that_overlap_are_refused_with_both():
    parts = [fm.ExactAUC() for _ in range(2)]
    for part, scores in zip(parts, ([0.1, 0.5], [0.5, 0.9])):
        part.add(scores, [0, 1])
        part.close(complete_by="score")
    with pytest.raises(InvalidInputError, match=r"from 0.1 to 0.5, and another one from 0.5 to 0.9"):
        fm.merge_all(parts)


def test_totals_are_asked_for_and_must_be_those_of_the_same_parts():
    _, *parts = by_ranges(fm.ExactAUC, False)
    with pytest.raises(InvalidInputError, match="depends on higher scores"):
        by_ranges(lambda: fm.ExactAUC(curve="PR"), False)
    with pytest.raises(InvalidInputError, match="depends on higher scores"):
        by_ranges(lambda: fm.ExactAUC(curve="PR"), True, fm.merge_all(parts))
    _, *made = by_ranges(lambda: fm.ExactAUC(curve="PR"), False, fm.merge_all(parts))
    with pytest.raises(InvalidInputError, match="in totals; merge all parts"):
        fm.merge_all(made[:-2]).compute()


def test_of_totals_in_a_collection_the_first_area_counts():
    data = {"prediction": [0.1, 0.4, 0.35, 0.8, 0.6], "label": [0, 0, 1, 1, 0]}
    totals = fm.MetricCollection({"whole": fm.ExactAUC(), "slots": fm.Sliced(fm.ExactAUC())})
    totals.add(**data, slot=[*"aabbb"])
    totals.close("score")
    found, want = fm.ExactAUC(curve="PR"), fm.ExactAUC(curve="PR")
    for metric in (found, want):
        metric.add(**data)
    found.close("score", totals=totals)
    assert found.compute() == pytest.approx(want.compute(), rel=1e-13)


def test_slices_may_differ_between_parts_but_none_may_be_evicted():
    def part(users: Any, slots: Any) -> Any:
        metric = fm.Sliced(fm.GAUC(), max_keys=3)
        metric.add(np.linspace(0, 1, len(users)), np.arange(len(users)) % 2, user=users, slot=slots)
        metric.close(complete_by="user")
        return metric

    one, other = part([1, 1, 1, 1], ["a", "a", "c", "c"]), part([2, 2, 3, 3], ["b", "b", "a", "a"])
    assert (
        fm.merge_all([one, other]).compute() == fm.merge_all([other, one]).compute() == {"a": 1.0, "b": 1.0, "c": 1.0}
    )
    lost = part([5, 5, 5, 5], ["B", "B", "A", "A"])
    with pytest.raises(InvalidInputError, match=r"slot has more than 3 keys .* 'b' was closed as one of those"):
        fm.merge_all([one, other, lost]).compute()
    full = part([1, 1, 2, 2, 3, 3, 4, 4, 4, 4], [*"aabbccdde", "e"])
    with pytest.warns(UserWarning, match="the 3 smallest are kept"):
        assert full.compute() == {"a": 1.0, "b": 1.0, "c": 1.0, "other": 0.75}


# -- saved, and over a channel --------------------------------------------------------------------------------


def in_four_parts(make: Any) -> list[Any]:
    score, label, weight, slot = scored()
    user = np.arange(len(score)) // 7 % 41
    metrics = [make() for _ in range(5)]
    for number, metric in enumerate(metrics):
        rows = np.flatnonzero((user % 4 == number) | (number == 4))
        metric.add(score[rows], label[rows], weight=weight[rows], user=user[rows], slot=slot[rows])
        if number < 4:
            metric.close(complete_by="user")
    return metrics


def make_both() -> Any:
    return fm.MetricCollection({"gauc": fm.GAUC(), "by": fm.Sliced(fm.UAUC()), "count": fm.Count()}, name="both")


def run(number: int, work: Any) -> list[Any]:
    return together([work] * number)


def test_workers_with_closed_parts_compute_what_one_computes(tmp_path):
    *parts, whole = in_four_parts(make_both)
    values = run(4, lambda channel: parts[channel.rank].compute(communicator=channel))
    assert len({repr(value) for value in values}) == 1
    assert contract.same(values[0], whole.compute(), False, 1e-13)
    run(4, lambda channel: fm.save(tmp_path / "job", parts[channel.rank], communicator=channel))
    for number in (1, 2, 3, 4, 7):

        def again(channel: Any) -> Any:
            metrics = make_both()
            fm.load(tmp_path / "job", metrics, communicator=channel)
            return metrics.compute(communicator=channel)

        assert [contract.same(each, values[0], False, 1e-13) for each in run(number, again)] == [True] * number


def test_a_user_on_two_workers_is_the_same_error_on_all():
    parts = [gauc([1, 1]), gauc([2, 2, 1]), gauc([], None)]
    found = run(3, lambda channel: parts[channel.rank].compute(communicator=channel))
    assert len({str(error) for error in found}) == 1
    assert all(isinstance(error, FleetMetricsError) for error in found) and "'user' 1 (for" in str(found[0])
    open_ = [gauc([1, 1]), gauc([2, 2], None), gauc([], None)]
    found = run(3, lambda channel: open_[channel.rank].compute(communicator=channel))
    assert all(
        isinstance(error, AgreementError) and "close the metric on all of them or on none" in str(error)
        for error in found
    )


def test_a_state_dict_and_a_file_hold_a_closed_part(tmp_path):
    *parts, _ = in_four_parts(make_both)
    again, from_file = make_both(), make_both()
    again.set_state_dict(parts[1].state_dict())
    fm.save(tmp_path / "part.fms", parts[2])
    fm.load(tmp_path / "part.fms", from_file)
    merged = fm.merge_all([parts[0], again, from_file, parts[3]])
    assert merged.compute() == fm.merge_all(parts[:4]).compute()
    with pytest.raises(InvalidInputError, match="in two parts"):
        merged.merge(again)


def test_open_and_closed_parts_of_a_job_do_not_become_one_on_another_number_of_workers(tmp_path):
    parts = [gauc([1, 1]), gauc([2, 2], None)]
    run(2, lambda channel: fm.save(tmp_path, parts[channel.rank], communicator=channel))
    metrics = gauc([], None)
    with pytest.raises(InvalidInputError, match="some parts are closed and others are not"):
        fm.load(tmp_path, metrics)
    assert not metrics.holds_samples()


def test_a_malformed_closed_part_is_refused():
    part = in_four_parts(make_both)[0]
    good = part.state_dict()
    layouts = [key for key in good if key.endswith("closed layout")]
    assert len(layouts) == 2
    for key in layouts:
        payload = key.replace("layout", "payload")
        for name, wrong in ((key, b"[1, 2]"), (key, b"{"), (payload, good[payload].tobytes()[:-16])):
            about = json.loads(good["fleetmetrics"].tobytes())
            about["arrays"][name] = ["|u1", [len(wrong)]]
            bad = {**good, name: np.frombuffer(wrong, np.uint8)}
            bad["fleetmetrics"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
            metrics = make_both()
            with pytest.raises(InvalidInputError, match="malformed"):
                metrics.set_state_dict(bad)
            assert not metrics.holds_samples()


def test_an_impossible_carry_is_refused():
    metric = fm.GAUC()
    metric.add([0.3, 0.4, 0.2], [0, 1, 1], user=[1, 1, 2])
    metric.close("user")
    (folds,) = metric.record_folds()
    carries, members = folds.table.closed
    other = [{name: each for name, each in carries[0].items() if name != "drawn"}]
    folds.check({folds: _packed(Closed(carries, members))})
    for wrong in ((carries, members[::-1]), (carries, members[[0, 0, 1]]), (carries, members * 1.0), (other, members)):
        with pytest.raises(InvalidInputError, match="malformed"):
            folds.check({folds: _packed(Closed(*wrong))})


def test_a_member_of_a_closed_collection_computes_only_with_it():
    metrics = fm.MetricCollection({"uauc": fm.UAUC(), "gauc": fm.GAUC()})
    metrics.add([0.3, 0.4, 0.2, 0.7, 0.1], [0, 1, 1, 0, 0], user=[1, 1, 2, 2, 1])
    want = metrics.compute()
    metrics.close("user")
    assert metrics.compute() == want
    for member in metrics.metrics.values():
        with pytest.raises(InvalidInputError, match="was closed in a collection; compute the collection"):
            member.compute()
