"""Checkpoints: plain arrays that come back as they were, through a dict, Paddle's files, NumPy's, and our own."""

from __future__ import annotations

import copy
import io
import json
import warnings
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.state.state_dicts import ABOUT
from tests.cases.regression import tweedie
from tests.contract import CASES, StaticFeed, batches, draw, feed, first_dtypes, same, state_bytes
from tests.fakes import Together, together
from tests.test_pickle import MORE

paddle = pytest.importorskip("paddle")


def value_of(metric: Any, scope: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a case has none of may be undefined
        return metric.compute_local(scope)


def through_npz(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as found:
        return dict(found)


def through_paddle(return_numpy: bool, state: dict[str, Any], tmp_path: Any) -> dict[str, Any]:
    path = str(tmp_path / f"state-{return_numpy}.pdparams")
    paddle.save(state, path)
    return paddle.load(path, return_numpy=return_numpy)


@pytest.mark.kinds
@pytest.mark.numpy_only
@pytest.mark.parametrize("name", CASES)
def test_a_metric_goes_on_from_its_state_dict_as_if_nothing_had_happened(name: str) -> None:
    metric = CASES[name].make()
    parts = batches(draw(name, first_dtypes(name), "real" if "numpy" in CASES[name].modes else None))
    again = CASES[name].make()
    feed(metric, parts[:2], "numpy")
    state = through_npz(metric.state_dict())
    assert all(array.dtype.kind in "biuf" for array in state.values())
    again.set_state_dict(state)
    assert state_bytes(again) == state_bytes(metric) and same(value_of(again), value_of(metric), exact=True)
    for each in (metric, again):
        feed(each, parts[2:], "numpy")
    assert state_bytes(again) == state_bytes(metric) and same(value_of(again), value_of(metric), exact=True)
    before = {key: array.tobytes() for key, array in state.items()}
    assert before == {key: array.tobytes() for key, array in state.items()}  # nothing is shared with what goes on


@pytest.mark.parametrize("name", MORE)
def test_other_settings_go_through_too(name: str) -> None:
    metric = MORE[name]()
    again = copy.deepcopy(metric)
    again.set_state_dict(metric.state_dict())
    assert state_bytes(again) == state_bytes(metric) and not again.holds_samples()


TENSORS = ["auc", "count", "mean absolute error", "variance", "exact auc", "max"]


@pytest.mark.parametrize("return_numpy", [False, True])
@pytest.mark.parametrize("name", TENSORS)
def test_paddle_saves_and_loads_the_state_of_tensors(name: str, return_numpy: bool, tmp_path: Any) -> None:
    metric, again = CASES[name].make(), CASES[name].make()
    parts = batches(draw(name, first_dtypes(name)))
    feed(metric, parts[:2], "dynamic")
    state = through_paddle(return_numpy, metric.state_dict(), tmp_path)
    assert isinstance(state[ABOUT], np.ndarray) is return_numpy
    again.set_state_dict(state)
    for each in (metric, again):
        feed(each, parts[2:], "dynamic")
    assert state_bytes(again) == state_bytes(metric) and same(value_of(again), value_of(metric), exact=True)


WRAPPED = {
    "sliced by text": lambda: fm.Sliced(fm.MeanSquaredError(), "key"),
    "sliced by given keys": lambda: fm.Sliced(fm.AUC(buckets=16), "key", keys=["a", "b"]),
    "sliced records": lambda: fm.Sliced(fm.GAUC(by="user"), "key"),
    "windowed": lambda: fm.Windowed(fm.MeanSquaredError(), 2),
    "bootstrap": lambda: fm.Bootstrap(fm.MeanSquaredError(), 5, ids="user"),
    "expression": lambda: fm.MeanSquaredError() / (fm.Count() + 1),
    "collection": lambda: fm.MetricCollection(
        {"auc": fm.AUC(), "exact": fm.ExactAUC(), "recent": fm.Windowed(fm.AUC(), 2), "by": fm.Sliced(fm.AUC(), "key")}
    ),
}


def some(rng: Any, metric: Any, tensors: bool = False) -> None:
    number = 40
    given: dict[str, Any] = {"prediction": rng.random(number), "label": rng.integers(0, 2, number)}
    if tensors:
        given = {name: paddle.to_tensor(value) for name, value in given.items()}
    wanted = {name for leaf in metric.leaf_metrics() for name in leaf.columns}
    columns = {"key": np.array(["a", "b", "日本"])[rng.integers(0, 3, number)], "user": rng.integers(0, 9, number)}
    metric.add(**given, **{name: column for name, column in columns.items() if name in wanted})


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_and_collections_come_back_through_paddle_and_numpy(name: str, tensors: bool, tmp_path: Any) -> None:
    metric = WRAPPED[name]()
    some(np.random.default_rng(0), metric, tensors)
    ways = [through_npz, lambda state: through_paddle(False, state, tmp_path), lambda state: state]
    ways.append(lambda state: through_paddle(True, state, tmp_path))
    for way in ways:
        again = WRAPPED[name]()
        again.set_state_dict(way(metric.state_dict()))
        assert repr(value_of(again)) == repr(value_of(metric))
        one = WRAPPED[name]()
        one.set_state_dict(metric.state_dict())
        for each in (one, again):
            some(np.random.default_rng(1), each, tensors)
        assert repr(value_of(again)) == repr(value_of(one)) != repr(value_of(metric))


def test_a_state_dict_is_a_copy_both_ways() -> None:
    metric, again = (fm.Sliced(fm.AUC(), "slot", keys=[1, 2]) for _ in range(2))
    metric.add([0.5], [1], slot=[1])
    state = metric.state_dict()
    kept = {key: array.copy() for key, array in state.items()}
    again.set_state_dict(state)
    for each in (metric, again):
        each.add([0.5, 0.25], [1, 0], slot=[1, 2])
    assert all((state[key] == kept[key]).all() for key in kept)


def test_a_metric_of_another_name_takes_it() -> None:
    metric, again = fm.AUC(name="one") - 1, fm.AUC(name="other") - 1
    metric.add([0.9, 0.1], [1, 0])
    again.set_state_dict(metric.state_dict())
    assert again.compute() == metric.compute()


# -- what does not fit -----------------------------------------------------------------------------------

OTHERS = {
    "class": (lambda: fm.AUC(), lambda: fm.Count(), "AUC"),
    "setting": (lambda: fm.AUC(curve="PR"), lambda: fm.AUC(), "'curve' is 'PR', here 'ROC'"),
    "number of buckets": (lambda: fm.AUC(buckets=8), lambda: fm.AUC(buckets=16), "'buckets' is 8, here 16"),
    "inside": (lambda: fm.Sliced(fm.NDCG(k=3)), lambda: fm.Sliced(fm.NDCG(k=4)), "'k' is 3, here 4"),
    "keys": (
        lambda: fm.Sliced(fm.Count(), keys=[1]),
        lambda: fm.Sliced(fm.Count(), keys=[2]),
        "is 1, here 2",
    ),
    "number of keys": (lambda: fm.Sliced(fm.Count(), max_keys=5), lambda: fm.Sliced(fm.Count()), "is 5, here 1000"),
    "window": (lambda: fm.Windowed(fm.AUC(), 2), lambda: fm.Windowed(fm.AUC(), 3), "'last' is 2, here 3"),
    "seed": (lambda: fm.Bootstrap(fm.AUC(), seed=1), lambda: fm.Bootstrap(fm.AUC()), "'seed' is 1, here 0"),
    "operation": (lambda: fm.AUC() + 1, lambda: fm.AUC() - 1, r"'symbol' is '\+', here '-'"),
    "operand": (lambda: fm.AUC() + 1, lambda: fm.AUC() + 2, "is 1, here 2"),
    "member": (
        lambda: fm.MetricCollection({"a": fm.AUC()}),
        lambda: fm.MetricCollection({"b": fm.AUC()}),
        "'keys' is 'a', here 'b'",
    ),
    "power": (tweedie(1.5), tweedie(1.25), "'power' is 1.5, here 1.25"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_something_else_is_an_error_that_says_what_differs(what: str) -> None:
    theirs, mine, told = OTHERS[what]
    metric = mine()
    before = state_bytes(metric)
    with pytest.raises(
        fm.InvalidInputError, match=rf"comes from a different metric, or from different settings: .*{told}"
    ):
        metric.set_state_dict(theirs().state_dict())
    assert state_bytes(metric) == before


def changed(state: dict[str, Any], **about: Any) -> dict[str, Any]:
    said = {**json.loads(state[ABOUT].tobytes()), **about}
    return {**state, ABOUT: np.frombuffer(json.dumps(said).encode(), np.uint8)}


def test_another_version_is_an_error_that_names_both() -> None:
    for number in (7, 0):
        state = changed(fm.AUC().state_dict(), format=number, **{"written by": "9.0"})
        told = rf"has format {number} .fleetmetrics '9.0'., and fleetmetrics .* format 1"
        with pytest.raises(fm.InvalidInputError, match=told):
            fm.AUC().set_state_dict(state)


def test_a_state_dict_that_fails_changes_nothing() -> None:
    metric = fm.MetricCollection({"auc": fm.AUC(buckets=8), "exact": fm.ExactAUC(), "by": fm.Sliced(fm.Mean())})
    metric.add([0.5, 0.75], [1, 0], slot=[1, 2])
    other = fm.MetricCollection({"auc": fm.AUC(buckets=8), "exact": fm.ExactAUC(), "by": fm.Sliced(fm.Mean())})
    other.add([0.25, 0.75], [1, 0], slot=[3, 4])
    good, before, value = other.state_dict(), state_bytes(metric), metric.compute()
    keys = [key for key in good if key != ABOUT]
    assert len(keys) > 5
    for key in keys:
        for array in (np.zeros((9, 9)), np.zeros(3, np.uint8), np.array("text"), None):
            with pytest.raises(fm.InvalidInputError):
                metric.set_state_dict({**good, key: array})
        with pytest.raises(fm.InvalidInputError, match="the checkpoint lacks"):
            metric.set_state_dict({name: array for name, array in good.items() if name != key})
    for state in (
        {},
        {ABOUT: 3},
        {**good, ABOUT: np.zeros(3, np.uint8)},
        changed(good, arrays={"a": 1}),
        {**good, "b": 1},
    ):
        with pytest.raises(fm.InvalidInputError):
            metric.set_state_dict(state)
    assert state_bytes(metric) == before and metric.compute() == value
    metric.set_state_dict(good)
    assert metric.compute() == other.compute()


# -- static programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["auc", "mean squared error", "variance"])
def test_a_static_programs_states_are_saved_and_loaded_in_its_scope(name: str, tmp_path: Any) -> None:
    data = draw(name, first_dtypes(name), "real")
    parts = batches(data)
    one = StaticFeed(CASES[name].make(), data)
    one.run(parts[:2])
    state = one.metric.state_dict(one.scope)
    one.run(parts[2:])
    other = one.renewed()
    other.metric.set_state_dict(state, other.scope)
    other.run(parts[2:])
    assert state_bytes(one.metric, one.scope) == state_bytes(other.metric, other.scope)
    arrays = CASES[name].make()
    arrays.set_state_dict(state)  # and without a program
    feed(arrays, parts[2:], "numpy")
    assert same(value_of(arrays), value_of(one.metric, one.scope), exact=False)
    with pytest.raises(fm.StateNotFoundError):
        one.metric.set_state_dict(state, paddle.static.Scope())


def test_a_file_holds_what_a_program_has_in_its_scope(tmp_path: Any) -> None:
    data = draw("auc", first_dtypes("auc"))
    one = StaticFeed(fm.AUC(), data)
    one.run(batches(data))
    other = one.renewed()
    fm.save(tmp_path / "it", one.metric, scope=one.scope)
    fm.load(tmp_path / "it", other.metric, scope=other.scope)
    assert state_bytes(one.metric, one.scope) == state_bytes(other.metric, other.scope)


def test_floats_do_not_fit_into_a_programs_integers() -> None:
    data = draw("count", first_dtypes("count"))
    program = StaticFeed(fm.Count(), data)
    program.run(batches(data))
    weighted = fm.Count()
    weighted.add([1.0, 2.0], weight=[0.5, 0.25])
    before = state_bytes(program.metric, program.scope)
    with pytest.raises(fm.InvalidInputError, match=r"is int64 in its static program"):
        program.metric.set_state_dict(weighted.state_dict(), program.scope)
    assert state_bytes(program.metric, program.scope) == before


# -- files -----------------------------------------------------------------------------------------------


def test_a_file_holds_several_metrics_by_name(tmp_path: Any) -> None:
    make = lambda: {"auc": fm.AUC(), "by": fm.Sliced(fm.Mean(), "slot")}  # noqa: E731
    metrics, again = make(), make()
    metrics["auc"].add([0.9, 0.2], [1, 0])
    metrics["by"].add([0.5, 2.0], slot=["a", "b"])
    path = tmp_path / "metrics.fms"
    fm.save(path, metrics)
    assert [each.name for each in tmp_path.iterdir()] == ["metrics.fms"]
    found = fm.load(path, again)
    assert found == (1, None, None, None)
    assert {name: metric.compute() for name, metric in again.items()} == {
        name: metric.compute() for name, metric in metrics.items()
    }
    with pytest.raises(fm.InvalidInputError, match="holds 'auc', 'by', but you gave 'auc'"):
        fm.load(path, {"auc": fm.AUC()})
    with pytest.raises(fm.InvalidInputError, match="does not record the remaining samples: save it with sampler"):
        _ = found.remaining


def test_a_save_that_fails_leaves_the_file_as_it_was(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    metric, path = fm.Sum(), tmp_path / "it"
    metric.add([1])
    fm.save(path, metric)
    metric.add([2])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            fm.save(path, metric)
    assert [each.name for each in tmp_path.iterdir()] == ["it"]
    fm.load(path, metric)
    assert metric.compute() == 1


@pytest.mark.parametrize("given", [None, 3, {"a": None}, {1: 2}])
def test_an_object_that_cannot_be_saved_is_named(given: Any, tmp_path: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match="metrics must be a metric, a collection"):
        fm.save(tmp_path / "it", given)


def test_a_folder_without_a_checkpoint_is_named(tmp_path: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match="there is no checkpoint at"):
        fm.load(tmp_path / "nothing", fm.AUC())
    with pytest.raises(fm.InvalidInputError, match="in this folder"):
        fm.load(tmp_path, fm.AUC())


# -- collections that have gained or lost a metric -------------------------------------------------------


def asked(**metrics: Any) -> fm.MetricCollection:
    return fm.MetricCollection(metrics, name="it")


#: Some share states, some are sliced, drawn, kept as records, or made of others.
MEMBERS: dict[str, Any] = {
    "auc": fm.AUC,
    "accuracy": fm.Accuracy,
    "mae": fm.MeanAbsoluteError,
    "mse": fm.MeanSquaredError,
    "count": fm.Count,
    "exact": fm.ExactAUC,
    "exact_pr": lambda: fm.ExactAUC(curve="PR"),
    "by_key": lambda: fm.Sliced(fm.Accuracy(), "key"),
    "errors_by_key": lambda: fm.Sliced(fm.MeanAbsoluteError(), "key"),
    "drawn": lambda: fm.Bootstrap(fm.MeanAbsoluteError(), 5, ids="user"),
    "drawn_too": lambda: fm.Bootstrap(fm.MeanSquaredError(), 5, ids="user"),
    "recent": lambda: fm.Windowed(fm.MeanAbsoluteError(), 2),
    "quotient": lambda: fm.MeanAbsoluteError() / fm.MeanSquaredError(),
}


@pytest.mark.numpy_only
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("gained", MEMBERS)
def test_a_collection_that_has_gained_and_lost_a_metric_takes_the_others(
    gained: str, workers: int, tmp_path: Any
) -> None:
    names = list(MEMBERS)
    lost = names[(names.index(gained) + 4) % len(names)]
    path = tmp_path / "job"

    def make(without: str) -> Any:
        return asked(**{name: made() for name, made in MEMBERS.items() if name != without})

    def save(channel: Together) -> Any:
        metrics = make(gained)
        some(np.random.default_rng(channel.rank), metrics)
        fm.save(path, metrics, communicator=channel)
        return reprs(metrics.compute(communicator=channel))

    def load(channel: Together) -> Any:
        metrics, again = make(lost), make(lost)
        some(np.random.default_rng(7), metrics)  # which is replaced
        with pytest.raises(fm.InvalidInputError, match="different settings: 'keys' is "):
            fm.load(path, metrics, communicator=channel)
        found = fm.load(path, metrics, strict=False, communicator=channel)
        assert {each.partition(".")[0] for each in found.missing} == {gained}
        assert {each.partition(".")[0] for each in found.unexpected} == {lost}
        loaded = metrics.compute(communicator=channel)
        fm.save(f"{path}-{workers}", metrics, communicator=channel)
        fm.load(f"{path}-{workers}", again, communicator=channel)
        assert repr(again.compute(communicator=channel)) == repr(loaded)
        for each in (metrics, again):
            some(np.random.default_rng(20 + channel.rank), each)
        later, own = metrics.compute(communicator=channel), MEMBERS[gained]().fresh("own")
        assert repr(again.compute(communicator=channel)) == repr(later)
        some(np.random.default_rng(20 + channel.rank), own)
        return reprs(loaded), repr(later[gained]), repr(own.compute(communicator=channel))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, *_ = together([save] * 2)
        results = together([load] * workers)
    for result in results:
        if isinstance(result, BaseException):
            raise result
        loaded, later, own = result
        assert {name: loaded[name] for name in loaded if name != gained} == {n: before[n] for n in before if n != lost}
        assert later == own


def reprs(values: dict[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in values.items()}


@pytest.mark.numpy_only
def test_without_strict_a_metric_with_other_settings_is_an_error_all_the_same() -> None:
    saved = asked(a=fm.AUC(), b=fm.Count()).state_dict()
    metrics = asked(a=fm.AUC(curve="PR"), c=fm.Count())
    with pytest.raises(fm.InvalidInputError, match="in 'a': 'curve' is 'ROC', here 'PR'"):
        metrics.set_state_dict(saved, strict=False)
    with pytest.raises(fm.InvalidInputError, match="it is a MetricCollection, here an AUC"):
        fm.AUC().set_state_dict(saved, strict=False)
    with pytest.raises(fm.InvalidInputError, match="strict must be True or False, not 0"):
        metrics.set_state_dict(saved, strict=0)


@pytest.mark.numpy_only
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint64", "uint8"])
def test_numbers_of_another_type_are_not_taken_for_those_that_were_saved(dtype: str) -> None:
    saved = counted().state_dict()
    key = [*saved][-1]
    assert saved[key].dtype == np.int64
    with pytest.raises(fm.InvalidInputError, match=f"'{key}' of the checkpoint is malformed"):
        fm.Count().set_state_dict({**saved, key: saved[key].astype(dtype)})


def counted() -> Any:
    metric = fm.Count()
    metric.add([0.5] * 3)
    return metric


def test_without_strict_a_metric_alone_or_of_another_class_is_an_error_all_the_same() -> None:
    class Mine(fm.MetricCollection):
        pass

    with pytest.raises(fm.InvalidInputError, match=r"threshold.*0\.7|0\.7.*threshold"):
        fm.Accuracy(threshold=0.7).set_state_dict(fm.Accuracy().state_dict(), strict=False)
    mine, other = (kind({"a": fm.Count(), "b": fm.Mean()}) for kind in (Mine, fm.MetricCollection))
    with pytest.raises(fm.InvalidInputError, match="Mine"):
        mine.set_state_dict(other.state_dict(), strict=False)


def test_without_strict_a_dict_may_have_gained_and_lost_metrics(tmp_path: Any) -> None:
    path = tmp_path / "it.fms"
    saved, again, new = fm.Count(), fm.Count(), fm.Count()
    saved.add([1.0, 2.0]), new.add([1.0])
    fm.save(path, {"kept": saved, "lost": fm.AUC()})
    with pytest.raises(fm.InvalidInputError, match="holds 'kept', 'lost', but you gave 'gained', 'kept'"):
        fm.load(path, {"kept": again, "gained": new})
    found = fm.load(path, {"kept": again, "gained": new}, strict=False)
    assert (found.missing, found.unexpected) == (("gained",), ("lost",))
    assert again.compute() == 2 and not new.holds_samples()


@pytest.mark.numpy_only
def test_without_strict_what_a_collection_of_a_dict_has_gained_and_lost_is_named_with_its_key(tmp_path: Any) -> None:
    path = tmp_path / "it.fms"
    fm.save(path, {"all": asked(kept=fm.Count(), lost=fm.Mean())})
    found = fm.load(path, {"all": asked(kept=fm.Count(), gained=fm.Max())}, strict=False)
    assert (found.missing, found.unexpected) == (("all.gained",), ("all.lost",))


@pytest.mark.numpy_only
def test_keys_in_another_order_are_an_error_that_lists_both_orders() -> None:
    saved = asked(b=fm.Count(), a=fm.Mean()).state_dict()
    with pytest.raises(fm.InvalidInputError, match="'keys' is 'b, a', here 'a, b'"):
        asked(a=fm.Mean(), b=fm.Count()).set_state_dict(saved)
    asked(a=fm.Mean(), b=fm.Count()).set_state_dict(saved, strict=False)


@pytest.mark.numpy_only
def test_one_metric_against_a_dict_is_an_error_that_says_so(tmp_path: Any) -> None:
    path = tmp_path / "it.fms"
    fm.save(path, fm.Count())
    with pytest.raises(fm.InvalidInputError, match="a single metric, but you gave a dict with 'a'"):
        fm.load(path, {"a": fm.Count()})
    fm.save(path, {"a": fm.Count()})
    for strict in (True, False):
        with pytest.raises(fm.InvalidInputError, match="a dict with 'a', but you gave a single metric"):
            fm.load(path, fm.Count(), strict=strict)


@pytest.mark.numpy_only
def test_the_setting_that_differs_is_named_as_it_was_given() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"'threshold' is 0\.5, here 0\.7"):
        fm.Accuracy(threshold=0.7).set_state_dict(fm.Accuracy().state_dict())
    with pytest.raises(fm.InvalidInputError, match=r"in 'metrics\.a\.metric': 'threshold' is 0\.5"):
        asked(a=fm.Sliced(fm.Accuracy(threshold=0.7))).set_state_dict(asked(a=fm.Sliced(fm.Accuracy())).state_dict())


@pytest.mark.numpy_only
def test_a_path_instead_of_a_state_dict_is_an_error_that_names_load(tmp_path: Any) -> None:
    for path in ("metrics.npz", tmp_path / "it.fms"):
        with pytest.raises(
            fm.InvalidInputError, match=r"not the path '.*'; .*paddle.load or numpy.load.*fleetmetrics.load"
        ):
            fm.Count().set_state_dict(path)


def test_in_a_static_program_a_metric_that_shares_states_cannot_be_gained() -> None:
    saved = asked(a=fm.MeanAbsoluteError()).state_dict()
    metrics = fm.MetricCollection({"a": fm.MeanAbsoluteError(), "b": fm.MeanSquaredError()}, name="gained")
    data = draw("mean absolute error", first_dtypes("mean absolute error"))
    program = StaticFeed(metrics, data)
    program.run(batches(data)[:1])
    with pytest.raises(fm.InvalidInputError, match=r"gained\['b'\] .*as the static program does"):
        metrics.set_state_dict(saved, program.scope, strict=False)
