"""Metrics that users write: with any attributes and constructors, they merge, resume and start from zero."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.metric import TOTAL, Declared
from tests.fakes import Together, together

pytestmark = pytest.mark.numpy_only


class Noting(fm.MeanAbsoluteError):
    """Stores what it likes with every batch."""

    def batch_statistics(self, batch: Any) -> Any:
        self.last_batch = len(batch.prediction)
        self.__dict__.setdefault("seen", []).append(self.last_batch)
        return super().batch_statistics(batch)


class Reused(fm.MeanAbsoluteError):
    """Has an attribute with the name of an argument, which is something else."""

    def __init__(self, window: int = 3, **common: Any) -> None:
        super().__init__(**common)
        self.window: Any = collections.deque(maxlen=window)

    def batch_statistics(self, batch: Any) -> Any:
        self.window.append(len(batch.prediction))
        return super().batch_statistics(batch)


class OfClasses(fm.Accuracy):
    """Changes what it hands on, and its name."""

    def __init__(self, classes: int, **common: Any) -> None:
        super().__init__(name=f"of_{classes}", task="multiclass", num_classes=classes, **common)


class Popping(fm.MeanAbsoluteError):
    """Takes its argument out of the others."""

    def __init__(self, **settings: Any) -> None:
        self.scale = settings.pop("scale", 1.0)
        super().__init__(**settings)


class BySlot(fm.Sliced):
    """A wrapper that knows what is inside of it."""

    def __init__(self, **common: Any) -> None:
        super().__init__(fm.MeanAbsoluteError(), by="slot", **common)


class Around(fm.Windowed):
    """A wrapper that calls what it is around otherwise."""

    def __init__(self, inside: fm.Metric, *, batches: int = 4) -> None:
        super().__init__(inside, batches)


class Both(fm.MetricCollection):
    """A collection that makes its members."""

    def __init__(self, **common: Any) -> None:
        super().__init__({"noting": Noting(), "count": fm.Count()}, **common)


@dataclasses.dataclass(eq=False)
class Scaled(fm.Metric):
    """A dataclass."""

    declared = (fm.Declared("error", dtype="float64"), TOTAL)
    scale: float = 1.0
    edges: list[float] = dataclasses.field(default_factory=lambda: [0.0, 1.0])

    def __post_init__(self) -> None:
        fm.Metric.__init__(self)

    def batch_statistics(self, batch: Any) -> Any:
        self.edges.append(0.5)
        return {"error": (abs(batch.values - batch.targets) * self.scale).sum(), "total": batch.total}

    def formula(self, error: Any, total: Any) -> float:
        return float(error / total)


class Several(fm.MeanAbsoluteError):
    """Takes any number of arguments."""

    def __init__(self, *powers: float, **common: Any) -> None:
        super().__init__(**common)
        self.powers = list(powers)


#: How each is made, and one of other settings.
KINDS: dict[str, tuple[Any, Any]] = {
    "noting": (Noting, lambda: Noting(zero_division=0.5)),
    "reused": (Reused, lambda: Reused(5)),
    "of classes": (lambda: OfClasses(3), lambda: OfClasses(4)),
    "popping": (lambda: Popping(scale=2.0), lambda: Popping(scale=3.0)),
    "by slot": (BySlot, lambda: BySlot(max_keys=3)),
    "around": (lambda: Around(Noting()), lambda: Around(Noting(), batches=5)),
    "both": (Both, None),
    "scaled": (lambda: Scaled(2.0), lambda: Scaled(3.0)),
    "several": (lambda: Several(1, 2), lambda: Several(1, 3)),
    "sliced": (lambda: fm.Sliced(Noting()), lambda: fm.Sliced(Noting(zero_division=0.5))),
    "drawn": (lambda: fm.Bootstrap(Reused(), 5, ids="slot"), lambda: fm.Bootstrap(Reused(4), 5, ids="slot")),
    "expression": (lambda: Noting() * 2 + Reused(), lambda: Noting() * 2 + Reused(4)),
    "in a collection": (
        lambda: fm.MetricCollection({"one": Noting(), "other": Reused()}),
        lambda: fm.MetricCollection({"one": Noting(), "other": Reused(4)}),
    ),
}
MADE = [name for name, (_, other) in KINDS.items() if other is not None]


def fed(metric: Any, *sizes: int) -> Any:
    wanted = {name for leaf in metric.leaf_metrics() for name in leaf.columns}
    for size in sizes:
        rng = np.random.default_rng(size)
        given = {"prediction": rng.integers(0, 3, size) / 1.0, "label": rng.integers(0, 3, size)}
        metric.add(**given, **({"slot": rng.integers(0, 2, size)} if wanted else {}))
    return metric


def value_of(metric: Any) -> str:
    return repr(metric.compute_local())


@pytest.mark.parametrize("name", KINDS)
def test_it_merges_with_any_stored_values(name: str) -> None:
    make, _ = KINDS[name]
    parts = [fed(make(), 4), fed(make(), 4, 9), make()]
    whole = fed(make(), 4, 4, 9)
    if "around" not in name:  # of a window the batches are merged side by side
        merged = fm.merge_all(parts)
        parts[0].merge(parts[1:])
        assert value_of(merged) == value_of(parts[0]) == value_of(whole)
    else:
        assert fm.merge_all(parts).holds_samples()


@pytest.mark.parametrize("name", KINDS)
def test_it_resumes_from_a_checkpoint_with_any_stored_values(name: str) -> None:
    make, _ = KINDS[name]
    metric, again = fed(make(), 4, 9), fed(make(), 2)
    again.set_state_dict(metric.state_dict())
    assert value_of(again) == value_of(metric) == value_of(copy.deepcopy(metric))
    if name != "scaled":  # where a class is local to a test, pickle cannot find it
        assert value_of(pickle.loads(pickle.dumps(metric))) == value_of(metric)
        pickle.loads(pickle.dumps(metric)).merge(metric)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_another_number_of_workers_resumes_with_any_attributes(name: str, workers: int, tmp_path: Any) -> None:
    make, path = KINDS[name][0], tmp_path / "job"

    def save(channel: Together) -> Any:
        metric = fed(make().fresh("it"), 4 + channel.rank)
        fm.save(path, metric, communicator=channel)
        return repr(metric.compute(communicator=channel))

    def load(channel: Together) -> Any:
        metric = make().fresh("it")
        fm.load(path, metric, communicator=channel)
        return repr(metric.compute(communicator=channel))

    (value,) = set(together([save] * 2))
    assert set(together([load] * workers)) == {value}


@pytest.mark.parametrize("name", MADE)
def test_one_of_other_settings_neither_merges_nor_loads(name: str) -> None:
    make, other = KINDS[name]
    metric, state = fed(make(), 4), fed(other(), 4).state_dict()
    with pytest.raises(fm.InvalidInputError, match="with the settings of"):
        metric.merge(fed(other(), 4))
    with pytest.raises(fm.InvalidInputError, match="different settings: "):
        metric.set_state_dict(state)
    assert value_of(metric) == value_of(fed(make(), 4))


@pytest.mark.parametrize("name", KINDS)
def test_a_fresh_one_has_the_settings_and_nothing_else(name: str) -> None:
    make, _ = KINDS[name]
    metric = fed(make(), 4)
    first, second = metric.fresh("mine"), metric.fresh()
    assert first.name == "mine" and second.name not in ("mine", metric.name)
    assert type(first) is type(metric) and not first.holds_samples() and not second.fresh().holds_samples()
    for each in (first, second, first.fresh()):
        assert value_of(fed(each, 4)) == value_of(metric)
        each.merge(metric)
    assert not {"seen", "last_batch"} & vars(metric.fresh()).keys()
    if name == "reused":
        assert not metric.fresh().window and metric.fresh().window.maxlen == 3


def test_settings_are_the_arguments_with_their_defaults() -> None:
    assert Noting().settings().keys() == {"zero_division"}
    assert Reused().settings()["window"] == Reused(3).settings()["window"] == Reused(window=3).settings()["window"]
    assert Several(1, 2).settings()["powers"] == (1, 2)
    assert OfClasses(3).settings()["classes"] == 3 and Popping(scale=2).settings()["scale"] == 2
    assert Scaled().settings()["scale"] == 1.0


def test_a_list_that_its_owner_changes_is_the_list_that_was_given() -> None:
    edges = [0.0, 1.0]
    metric = Scaled(edges=edges)
    edges.append(2.0)
    assert metric.settings()["edges"] == [0.0, 1.0]


class Made(fm.MeanAbsoluteError):
    """Takes anything."""

    def __init__(self, setting: Any = None, **common: Any) -> None:
        super().__init__(**common)


def scaled_by(factor: float) -> Any:
    return lambda value: value * factor


def scaled(factor: float, value: float) -> float:
    return value * factor


def named(value: float) -> float:
    return value


class Place:
    def __init__(self, x: int) -> None:
        self.x = x


class Slots:
    __slots__ = ("__private", "later", "x")

    def __init__(self, x: Any, private: int = 0) -> None:
        self.x, self.__private = x, private


class SlotsAndMore(Slots):
    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self.same = 1


def drawn(seed: int) -> np.random.Generator:
    """A generator that has been used."""
    generator = np.random.default_rng(seed)
    generator.random(3)
    return generator


Color = __import__("enum").Enum("Color", "RED BLUE")
LONG = list(range(100))
EQUAL: list[tuple[Any, Any]] = [
    ([1, 2], (1, 2)),
    ([1, 2], np.array([1.0, 2.0])),
    (LONG, np.array(LONG)),
    (np.array(LONG, float), tuple(LONG)),
    (1, np.int64(1)),
    (float("nan"), np.float32("nan")),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1, 2, 3}, frozenset([3, 2, 1])),
    (named, named),
    (functools.partial(scaled, 2), functools.partial(scaled, 2.0)),
    (Place(1), Place(1)),
    (Color.RED, Color.RED),
    (fm.AUC(), fm.AUC(curve="ROC", name="another")),
    (str.upper, str.upper),
    (Slots(1), Slots(1)),
    (Slots([1, 2]), Slots(np.array([1, 2]))),
    (np.ma.array([1, 2], mask=[False, True]), np.ma.array([1, 9], mask=[False, True])),
    (np.ma.array([1, 2]), [1, 2]),
    (np.random.default_rng(3), drawn(3)),
    (memoryview(b"ab"), b"ab"),
    (pathlib.Path("a"), pathlib.Path("./a")),
]
UNEQUAL: list[tuple[Any, Any]] = [
    ([1, 2], [1, 3]),
    ([1, 2], [1, 2, 3]),
    (LONG, LONG[::-1]),
    (np.array(LONG), np.array(LONG) + 0.5),
    (np.zeros((10, 20)), np.zeros((20, 10))),
    (1, "1"),
    (float("nan"), 0.0),
    (None, 0),
    ({"a": 1}, {"a": 1, "b": None}),
    (named, scaled_by),
    (functools.partial(scaled, 2), functools.partial(scaled, 3)),
    (functools.partial(scaled, 2), scaled),
    (Place(1).__init__, Place(2).__init__),
    (Place(1), Place(2)),
    (Color.RED, Color.BLUE),
    (fm.AUC(), fm.AUC(curve="PR")),
    (b"a", b"b"),
    (Slots(1), Slots(2)),
    (Slots(1, 1), Slots(1, 2)),
    (SlotsAndMore(1), SlotsAndMore(2)),
    (np.ma.array([1, 2], mask=[False, True]), np.ma.array([1, 2], mask=[True, False])),
    (np.ma.array([1, 2], mask=[False, True]), [1, 2]),
    (np.random.default_rng(3), np.random.default_rng(4)),
    (np.random.default_rng(3), np.random.Generator(np.random.MT19937(3))),
    (np.random.PCG64(3), np.random.PCG64(4)),
    (memoryview(b"ab"), memoryview(b"ac")),
    (pathlib.Path("a"), pathlib.Path("b")),
    (np.datetime64("2026-01-01"), np.datetime64("2026-01-02")),
    (__import__("decimal").Decimal(1), __import__("decimal").Decimal(2)),
    (fm.AUC() + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1, fm.AUC() + 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_settings_are_equal_by_value(one: Any, other: Any) -> None:
    metric = fed(Made(one), 3)
    metric.merge(fed(Made(other), 3))
    metric.set_state_dict(fed(Made(other), 3).state_dict())


@pytest.mark.parametrize(("one", "other"), UNEQUAL)
def test_other_settings_are_seen(one: Any, other: Any) -> None:
    metric = fed(Made(one), 3)
    with pytest.raises(fm.InvalidInputError, match="setting"):
        metric.merge(fed(Made(other), 3))
    with pytest.raises(fm.InvalidInputError, match="setting"):
        metric.set_state_dict(fed(Made(other), 3).state_dict())


@pytest.mark.parametrize(
    "nameless",
    [scaled_by(2), lambda value: value + 1, [scaled_by(2)], functools.partial(scaled_by(2), 1), Place(scaled_by(2))],
    ids=["a local function", "a lambda", "one in a list", "one in a partial", "one in an object"],
)
def test_a_function_without_a_name_of_its_own_is_compared_with_none(nameless: Any) -> None:
    metric = fed(Made(nameless), 3)
    metric.compute_local()
    for compare in (metric.state_dict, lambda: metric.merge(fed(Made(nameless), 3))):
        with pytest.raises(fm.InvalidInputError, match=r"function .*<lambda> of .*:\d+, which has no name.*functools"):
            compare()


@pytest.mark.parametrize("nameless", [scaled_by(2), functools.partial(scaled_by(2), 1)], ids=["alone", "in a partial"])
def test_workers_compute_with_no_function_that_has_no_name(nameless: Any) -> None:
    """Nothing would tell two of them apart that have one name and other bodies."""
    outcomes = together([lambda channel: fed(Made(nameless), 3).compute(communicator=channel)] * 2)
    assert all(isinstance(outcome, fm.FleetMetricsError) for outcome in outcomes) and "functools" in str(outcomes[0])


def test_an_iterator_that_can_be_read_only_once_is_an_error() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"generator, which can be read only once.*give a list"):
        Made(number for number in range(3)).merge(Made())


def raising(*_: Any, **__: Any) -> Any:
    raise RuntimeError("not today")


@pytest.mark.parametrize("method", ["__repr__", "__array__", "__getattr__"])
def test_a_setting_that_cannot_be_described_is_named(method: str) -> None:
    metric = fed(Made(type("Odd", (), {"__slots__": (), method: raising})()), 3)
    words = r"Made's setting 'setting', of type Odd, cannot be compared .*: RuntimeError: not today"
    for act in (lambda: metric.merge(Made()), metric.state_dict, lambda: Made().merge(metric)):
        with pytest.raises(fm.InvalidInputError, match=words):
            act()


def test_a_generator_without_a_seed_is_an_error() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"RandomState, has no seed that can be read.*default_rng\(seed\)"):
        Made(np.random.RandomState(3)).merge(Made())


def test_a_setting_that_holds_itself_is_an_error() -> None:
    ring: list[Any] = []
    ring.append(ring)
    for setting in (ring, {"ring": ring}, (1, ring)):
        with pytest.raises(fm.InvalidInputError, match=r"^Made: a setting holds itself, or is nested too deeply"):
            Made(setting)
    ordered: Any = collections.OrderedDict()
    ordered["me"] = ordered
    with pytest.raises(fm.InvalidInputError, match="a setting holds itself"):
        Made(ordered).merge(Made())


#: One metric, written in two ways.
SPELLINGS: list[tuple[Any, Any]] = [
    (lambda: fm.Accuracy(num_classes=3), lambda: fm.Accuracy(task="multiclass", num_classes=np.int64(3))),
    (lambda: fm.Accuracy(task="binary"), lambda: fm.Accuracy(task="binary", threshold=0.5, top_k=1)),
    (lambda: fm.F1(num_classes=3), lambda: fm.F1(task="multiclass", num_classes=3, average="macro")),
    (fm.F1, lambda: fm.F1(task="binary", average="binary")),
    (lambda: fm.F1(num_classes=3, top_k=1), lambda: fm.F1(num_classes=3, threshold=0.25)),
    (lambda: fm.F1(num_classes=3, average=None), lambda: fm.F1(num_classes=3, average="none")),
    (lambda: fm.AUC(num_labels=3, average=None), lambda: fm.AUC(num_labels=3, average="none")),
    (lambda: fm.LogLoss(num_labels=3, average=None), lambda: fm.LogLoss(num_labels=3, average="none")),
    (lambda: fm.StatScores(num_classes=3), lambda: fm.StatScores(num_classes=3, average="none")),
    (fm.AUC, lambda: fm.AUC(buckets=4096, spacing="log_odds", task="binary")),
    (lambda: fm.AUC(num_thresholds=99), lambda: fm.AUC(buckets=100, spacing="linear")),
    (fm.AUC, lambda: fm.AUC(tolerance=None)),
    (lambda: fm.Histogram(bins=2), lambda: fm.Histogram(bins=[0, 0.5, 1])),
    (lambda: fm.Histogram(bins=[0, 0.5, 1]), lambda: fm.Histogram(bins=(0, 0.5, 1.0), range=(0, 5))),
    (lambda: fm.ExpectedCalibrationError(bins=2), lambda: fm.ExpectedCalibrationError(bins=np.array([0, 0.5, 1]))),
    (lambda: fm.ThresholdSweep(thresholds=3), lambda: fm.ThresholdSweep(thresholds=[0, 0.5, 1])),
    (lambda: fm.CumulativeGain(fractions=2), lambda: fm.CumulativeGain(fractions=[0.5, 1.0])),
    (lambda: fm.FBeta(2), lambda: fm.FBeta(beta=2.0)),
    (lambda: fm.NDCG(5), lambda: fm.NDCG(k=np.int32(5))),
    (lambda: fm.NDCG([5, 3]), lambda: fm.NDCG(k=(5, 3))),
    (lambda: fm.Sliced(fm.Count()), lambda: fm.Sliced(fm.Count(name="inside"), by="slot", max_keys=1000)),
    (lambda: fm.Sliced(fm.Count(), keys=[2, 1]), lambda: fm.Sliced(fm.Count(), keys=np.array([1, 2]), max_keys=7)),
    (lambda: fm.Bootstrap(fm.GAUC()), lambda: fm.Bootstrap(fm.GAUC(), ids="user", seed=np.int64(0))),
    (lambda: fm.Windowed(fm.AUC(), 3), lambda: fm.Windowed(fm.AUC(curve="ROC"), last=3, lifetime=True)),
    (lambda: fm.MetricCollection([fm.AUC(name="a")]), lambda: fm.MetricCollection({"a": fm.AUC()}, prefix="test/")),
    (
        lambda: fm.MetricCollection(iter([fm.AUC(name="a")])),
        lambda: fm.MetricCollection({"b": fm.AUC()}).rename({"b": "a"}),
    ),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_two_ways_to_write_one_metric_are_one_metric(one: Any, other: Any) -> None:
    for mine, theirs in ((one(), other()), (other(), one())):
        mine.merge(theirs)
        mine.set_state_dict(theirs.state_dict())
        mine.fresh().merge(theirs.fresh())


class Passing(fm.BaseMetric):
    """Over records, with an attribute that changes."""

    def __init__(self, topk: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.topk, self.calls = topk, 0

    def add(self, scores: Any) -> None:
        self.calls += 1
        self._records.extend(scores)

    def compute_metric(self, results: Any) -> Any:
        return {"sum": sum(results) * self.topk}


def test_a_metric_over_records_resumes_with_any_attributes() -> None:
    metric, again = Passing(topk=2), Passing(topk=2)
    metric.add([1, 2])
    again.set_state_dict(metric.state_dict())
    assert again.compute_local() == metric.compute_local() == {"sum": 6}
    with pytest.raises(fm.InvalidInputError, match="'topk' is 2, here 1"):
        Passing().set_state_dict(metric.state_dict())


class Steps(fm.Metric[list]):
    """Counts the samples above each of several thresholds, by flags that nothing else holds."""

    declared = (Declared("above", (200,)), Declared("ones", (200,)))

    def batch_statistics(self, batch: Any) -> Any:
        levels = np.arange(200) / 200
        above = [batch.number_of(batch.prediction > level) for level in levels]
        ones = [batch.ones_of(batch.prediction > level).sum() for level in levels]
        return {"above": np.array(above), "ones": np.array(ones)}

    def formula(self, above: Any, ones: Any) -> Any:
        return [above.tolist(), ones.tolist()]


class Emptied(fm.Metric[list]):
    """Changes its flags between two counts."""

    declared = (Declared("before"), Declared("after"))

    def batch_statistics(self, batch: Any) -> Any:
        flags = batch.prediction > 0.5
        before = batch.number_of(flags)
        flags[:] = False
        return {"before": before, "after": batch.number_of(flags)}

    def formula(self, before: Any, after: Any) -> Any:
        return [int(before), int(after)]


def test_flags_are_counted_as_they_are_whatever_was_counted_before():
    values = np.random.default_rng(5).random(1000)
    steps, emptied = Steps(), Emptied()
    steps.add(values)
    emptied.add(values)
    assert steps.compute() == [[int((values > level).sum()) for level in np.arange(200) / 200]] * 2
    assert emptied.compute() == [int((values > 0.5).sum()), 0]
