"""A collection: many metrics, one add, one exchange, shared states once."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.batch import statistic
from tests import contract
from tests.contract import MODES, Data, batches, feed, new_programs, state_bytes
from tests.fakes import Absent, Listener

#: Members that suit one kind of data: probabilities and binary labels.
MEMBERS = {
    "accuracy": fm.Accuracy,
    "sharp": lambda **k: fm.Accuracy(threshold=0.75, **k),
    "auc": fm.AUC,
    "coarse": lambda **k: fm.AUC(num_thresholds=7, **k),
    "loss": fm.LogLoss,
    "mae": fm.MeanAbsoluteError,
    "mse": fm.MeanSquaredError,
    "rmse": fm.RootMeanSquaredError,
    "sum": fm.Sum,
    "max": fm.Max,
    "min": fm.Min,
    "count": fm.Count,
}


def collection(name: str | None = None, **options: bool) -> fm.MetricCollection:
    return fm.MetricCollection({key: make() for key, make in MEMBERS.items()}, name=name, **options)


def probabilities(seed: int = 0, weight: str | None = "eighths") -> Data:
    return contract.draw("auc", ("float32", "int64"), weight, mask=True, seed=seed)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weight", [None, "real"])
def test_each_value_is_that_of_the_metric_alone(weight, mode):
    data, together = probabilities(weight=weight), collection()
    values = together.compute(feed(together, batches(data), mode))
    assert list(values) == list(MEMBERS)
    for key, make in MEMBERS.items():
        alone = make()
        assert alone.compute(feed(alone, batches(data), mode)) == values[key], key


@pytest.mark.parametrize("mode", MODES)
def test_all_values_take_one_exchange(mode):
    together, listener = collection("all"), Listener()
    scope = feed(together, batches(probabilities()), mode)
    together.compute(scope, communicator=listener)
    assert listener.calls == ["MetricCollection all"]
    together.compute_local(scope)
    assert len(listener.calls) == 1


def test_states_that_count_the_same_are_kept_and_sent_once():
    together, listener = collection("all"), Listener()
    together.add(*probabilities()[:4])
    together.compute(communicator=listener)
    names = [block.name for block in listener.blocks[0]]
    check = ["all.seen", "all.invalid", "all.first_invalid"]
    own = [
        "all.accuracy.correct",
        "all.accuracy.total",
        "all.sharp.correct",
        "all.auc.histogram",
        "all.coarse.histogram",
    ]
    own += ["all.loss.log_likelihood", "all.mae.absolute_error", "all.mse.squared_error"]
    values = [f"all.sum.{n}" for n in ("integers", "floats", "estimate", "number_of_floats")]
    extremes = [f"all.max.{n}" for n in ("integers", "number_of_integers", "floats", "number_of_floats")]
    assert names == [*check, *own, *values, *extremes, "all.min.integers", "all.min.floats"]


def test_settings_that_differ_do_not_share():
    pairs = [
        (fm.Accuracy(top_k=2), fm.Accuracy(top_k=3), "correct"),
        (fm.Accuracy(threshold=0.25), fm.Accuracy(threshold=0.5), "correct"),
        (fm.AUC(num_thresholds=8), fm.AUC(num_thresholds=9), "histogram"),
        (fm.Max(), fm.Min(), "floats"),
    ]
    for one, other, state in pairs:
        fm.MetricCollection([one, other])
        assert one.states[state] is not other.states[state]
    one, other = fm.MeanSquaredError(), fm.RootMeanSquaredError()
    fm.MetricCollection([one, other])
    assert list(one.states.values()) == list(other.states.values())


def test_a_state_without_a_key_is_never_shared():
    class Own(fm.Metric):
        def __init__(self):
            super().__init__()
            self.declare("total")

    one, other = Own(), Own()
    fm.MetricCollection([one, other])
    assert one.states["total"] is not other.states["total"]


def test_a_shared_state_counts_each_sample_once():
    together = fm.MetricCollection(
        [fm.MeanAbsoluteError(name="mae"), fm.MeanSquaredError(name="mse"), fm.Count(name="count")]
    )
    together.add([1.0, 2.0], [2.0, 4.0])
    assert together.compute() == {"mae": 1.5, "mse": 2.5, "count": 2}


def test_a_sequence_is_keyed_by_name_and_a_mapping_by_key():
    assert list(fm.MetricCollection([fm.Count(name="one"), fm.Count(name="two")]).compute()) == ["one", "two"]
    assert list(fm.MetricCollection({"a": fm.Count(name="one"), "b": fm.Count(name="one")}).compute()) == ["a", "b"]
    assert list(fm.MetricCollection(iter([fm.Count(name="one")])).compute()) == ["one"]
    assert fm.MetricCollection([]).compute() == {}


def test_members_are_found_by_their_keys_as_in_a_dict():
    metrics = fm.MetricCollection({"auc": fm.AUC(), "mae": fm.MeanAbsoluteError()}, prefix="val_")
    assert metrics["auc"] is metrics.metrics["auc"]
    assert (len(metrics), "mae" in metrics, "val_mae" in metrics) == (2, True, False)
    with pytest.raises(fm.InvalidInputError, match="no metric 'acc'; it has 'auc', 'mae'"):
        metrics["acc"]
    assert fm.MetricCollection([])


def test_iteration_is_over_the_keys_as_in_a_dict():
    metrics = fm.MetricCollection({"auc": fm.AUC(), "mae": fm.MeanAbsoluteError()}, prefix="val_")
    assert list(metrics) == list(metrics.keys()) == ["auc", "mae"]
    assert dict(metrics.items()) == {key: metrics[key] for key in metrics}
    assert list(metrics.values()) == [metrics["auc"], metrics["mae"]]
    assert list(fm.MetricCollection([])) == []


def test_one_key_twice_is_an_error_that_names_it():
    with pytest.raises(fm.InvalidInputError, match="two entries 'same'; give each its own key or name"):
        fm.MetricCollection([fm.Count(name="same"), fm.Sum(name="same")])


@pytest.mark.parametrize("entry", [None, 3, "auc", fm.AUC])
def test_a_member_that_is_not_a_metric_is_an_error_that_names_it(entry):
    with pytest.raises(fm.InvalidInputError, match=rf"metrics\['a'\] must be a Metric, not {type(entry).__name__}"):
        fm.MetricCollection({"a": entry})
    with pytest.raises(fm.InvalidInputError, match=f"metrics must hold Metric objects, not {type(entry).__name__}"):
        fm.MetricCollection([entry])


def test_a_collection_in_a_collection_is_an_error():
    with pytest.raises(fm.InvalidInputError, match="must hold Metric objects, not MetricCollection"):
        fm.MetricCollection([fm.MetricCollection([])])


@pytest.mark.parametrize("mode", MODES)
def test_a_metric_that_holds_samples_is_refused(mode):
    metric = fm.Count()
    feed(metric, [Data(np.ones(3), None)], mode)
    with pytest.raises(fm.InvalidInputError, match=r"metrics\['mine'\] already holds samples; a collection takes new"):
        fm.MetricCollection({"mine": metric})


def test_a_metric_cannot_be_taken_twice():
    metric = fm.Count()
    with pytest.raises(fm.InvalidInputError):
        fm.MetricCollection({"a": metric, "b": metric})
    metric = fm.Count()
    fm.MetricCollection({"a": metric})
    with pytest.raises(fm.InvalidInputError):
        fm.MetricCollection({"b": metric})


def test_members_refuse_add_and_say_where_to_add():
    metric = fm.MeanAbsoluteError()
    together = fm.MetricCollection([metric, fm.Sum(name="sum")], name="all")
    with pytest.raises(
        fm.InvalidInputError, match=f"{metric.name} belongs to all, whose members share states; add to the"
    ):
        metric.add([1.0], [1.0])
    with pytest.raises(fm.InvalidInputError, match="sum belongs to all"):
        together.metrics["sum"].add([1.0])
    assert together.metrics["sum"].compute_local() == 0


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_a_sample_that_breaks_one_members_rule_counts_for_none(mode):
    together = fm.MetricCollection([fm.MeanAbsoluteError(name="mae"), fm.AUC(name="auc")], name="all")
    feed(together, [Data(np.array([0.25, 0.5]), np.array([0, 1]))], mode)
    before = state_bytes(together)
    with pytest.raises(
        fm.InvalidInputError,
        match=r"^all\['auc'\] \(AUC\): prediction must be a probability .* 1 of 2 .* position 1: 7.0",
    ):
        feed(together, [Data(np.array([0.25, 7.0]), np.array([0, 1]))], mode)
    assert state_bytes(together) == before


def test_a_static_program_leaves_such_a_sample_out_for_all_members():
    together = fm.MetricCollection([fm.MeanAbsoluteError(name="mae"), fm.AUC(name="auc")])
    scope = feed(together, [Data(np.array([0.25, 7.0, 0.5]), np.array([0, 1, 1]))], "static")
    with pytest.raises(fm.InvalidInputError, match="1 of 3 samples was invalid and left out, the first at position 1"):
        together.compute(scope)
    together.validate = False
    assert together.compute(scope) == {"mae": 0.375, "auc": 1.0}


@pytest.mark.parametrize("mode", MODES)
def test_reset_and_merge_work_on_all_members(mode):
    one, two, both = collection("one"), collection("two"), collection("both")
    first, second = probabilities(1), probabilities(2)
    scope = contract.new_scope(mode)
    for metric, data in ((one, first), (two, second)):
        feed(metric, batches(data), mode, scope=scope)
    feed(both, [*batches(first), *batches(second)], "numpy")
    total = collection("total")
    total.merge(two, scope)
    total.merge(one, scope)
    values, expected = total.compute(), both.compute()
    assert all(contract.same(values[key], expected[key], exact=False) for key in MEMBERS)
    one.merge(two, scope)
    assert all(contract.same(one.compute_local(scope)[key], expected[key], exact=False) for key in MEMBERS)
    one.reset(scope)
    with pytest.warns(fm.UndefinedMetricWarning, match="there are no samples|the samples labeled"):
        values = one.compute_local(scope)
    assert values["count"] == 0 != two.compute_local(scope)["count"]


def test_merging_a_collection_of_other_members_is_an_error():
    one, other = fm.MetricCollection([fm.AUC()]), fm.MetricCollection([fm.AUC(), fm.Count()])
    with pytest.raises(fm.InvalidInputError, match="other must be a MetricCollection with the settings of"):
        one.merge(other)


def test_the_values_are_over_all_workers():
    mine, theirs, listener = collection("all"), collection("all"), Listener()
    theirs.add(*probabilities(1)[:4])
    theirs.compute(communicator=listener)
    mine.add(*probabilities(2)[:4])
    one = collection("one")
    one.add(*probabilities(1)[:4])
    one.add(*probabilities(2)[:4])
    values, expected = mine.compute(communicator=Absent(listener)), one.compute()
    assert all(contract.same(values[key], expected[key], exact=False) for key in MEMBERS)


def test_variables_in_a_static_program_are_named_after_collection_and_key():
    together = fm.MetricCollection({"auc": fm.AUC(), "mae": fm.MeanAbsoluteError()}, name="named_collection")
    with new_programs() as (main, _):
        together.add(paddle.static.data("p", [-1]), paddle.static.data("y", [-1], "int64"))
        names = [state.name for state in fm.static.states(main)]
        with pytest.raises(fm.StaticProgramError, match="call it only once"):
            together.add(paddle.static.data("q", [-1]), paddle.static.data("z", [-1], "int64"))
    check = [f"named_collection.{name}" for name in ("seen", "invalid", "first_invalid")]
    members = [f"named_collection.{name}" for name in ("auc.histogram", "mae.absolute_error", "mae.total")]
    assert names == check + members


# -- what members share ------------------------------------------------------------------------------------


class Weighed(fm.Metric):
    """A sum of predictions times a factor, under a key that leaves the factor out."""

    def __init__(self, factor: float, key: str | None = "predictions", name: str | None = None) -> None:
        super().__init__(name=name)
        self.factor = factor
        self.declare("total", dtype="float64", key=key)

    def batch_statistics(self, batch):
        return {
            "total": batch.weighted_sum(batch.xp.multiply(batch.values, batch.xp.full_like(batch.values, self.factor)))
        }

    def formula(self, total):
        return total.item()


@statistic
def _predictions(batch):
    return batch.weighted_sum(batch.values)


class Plain(Weighed):
    """The same without a factor, filled by one statistic."""

    def batch_statistics(self, batch):
        return {"total": _predictions(batch)}


@pytest.mark.parametrize("mode", MODES)
def test_members_that_fill_one_state_with_different_statistics_are_an_error_and_nothing_is_added(mode):
    together = fm.MetricCollection({"one": Weighed(1.0, name="one"), "two": Weighed(2.0, name="two")})
    with pytest.raises(fm.InvalidInputError, match=r"(?s)one \(Weighed\) and two \(Weighed\).*key 'predictions'"):
        feed(together, [Data(np.array([1.0, 2.0]), np.array([0, 1]))], mode)
    assert not together.holds_samples()


@pytest.mark.parametrize("wrap", [fm.Sliced, lambda metric: fm.Windowed(metric, 2)], ids=["sliced", "windowed"])
def test_wrapped_members_do_not_get_each_others_states_either(wrap):
    together = fm.MetricCollection({"one": wrap(Weighed(1.0)), "two": wrap(Weighed(2.0))})
    columns = {"slot": [1, 1]} if wrap is fm.Sliced else {}
    with pytest.raises(fm.InvalidInputError, match=r"(?s)share .*key"):
        together.add([1.0, 2.0], [0, 1], **columns)


@pytest.mark.parametrize("mode", MODES)
def test_members_of_one_statistic_share_a_state_and_those_without_a_key_never_do(mode):
    members = {"one": Plain(1.0), "two": Plain(1.0), "three": Weighed(3.0, key=None)}
    together = fm.MetricCollection(members)
    scope = feed(together, [Data(np.array([1.0, 2.0]), np.array([0, 1]))], mode)
    assert together.compute(scope) == {"one": 3.0, "two": 3.0, "three": 9.0}
    assert members["one"].states["total"] is members["two"].states["total"]


def test_members_that_keep_different_records_under_one_key_are_an_error():
    class Kept(RecordMetric):
        def __init__(self, doubled, name):
            super().__init__(name=name)
            self.doubled = doubled
            self.keep_records(("score",), order="score", key="score")

        def batch_records(self, batch):
            return {"score": batch.values * 2 if self.doubled else batch.values}

    together = fm.MetricCollection([Kept(False, "plain"), Kept(True, "doubled")])
    with pytest.raises(fm.InvalidInputError, match=r"(?s)plain \(Kept\) and doubled \(Kept\).*key 'score'"):
        together.add([1.0, 2.0], [0, 1])


def test_a_member_that_adds_nothing_to_a_state_does_not_get_what_another_adds():
    class Silent(Plain):
        def batch_statistics(self, batch):
            return {"total": None}

    for members in ([Plain(1.0), Silent(1.0)], [Silent(1.0), Plain(1.0)]):
        together = fm.MetricCollection(dict(zip("ab", members)))
        with pytest.raises(fm.InvalidInputError, match="fill it with different statistics"):
            together.add([1.0], [1.0])
