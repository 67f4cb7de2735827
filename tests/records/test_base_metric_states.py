"""A metric whose records condense to states, where a sum will do: in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm

#: Fewer samples than were added are asked for here; that there is a warning is another test's promise.
pytestmark = pytest.mark.filterwarnings("ignore:.* cut off:UserWarning")


class Gathered(fm.BaseMetric):
    """What ``compute_metric`` gets is the value."""

    def compute_metric(self, results: Any) -> Any:
        return results


class Extremes(fm.BaseMetric):
    """States of all three reductions instead of records."""

    seen: list[Any]

    def summarize(self, results: Any) -> Any:
        score = results["score"]
        return {"n": len(score), "sum": score.sum(), "top": ("max", score[:1]), "low": ("min", np.array(score.min()))}

    def compute_from(self, states: Any) -> Any:
        self.seen = [(array.dtype.name, array.shape) for array in states.values()]
        return {name: array.tolist() for name, array in states.items()}


def test_a_metric_of_states_needs_no_compute_metric() -> None:
    metric = Extremes()
    metric.add(score=np.array([0.5, 2.0], np.float32))
    metric.add(score=np.array([1.0]))
    assert metric.compute() == {"n": 3, "sum": 3.5, "top": [0.5], "low": 0.5}
    assert metric.seen == [("int64", ()), ("float64", ()), ("float64", (1,)), ("float64", ())]
    assert metric.compute(2)["sum"] == 2.5


def test_calling_it_is_the_value_of_one_batch() -> None:
    metric = Extremes()
    metric.add(score=np.array([0.5, 2.0]))
    assert metric(score=np.array([3.0, 4.0])) == {"n": 2, "sum": 7.0, "top": [3.0], "low": 3.0}
    assert metric.compute()["n"] == 2


def test_a_metric_of_states_gets_states_if_ids_identify_padding() -> None:
    metric = Extremes()
    metric.add(score=np.array([0.5, 2.0]), ids=[8, 7])
    metric.add(score=np.array([0.5]), ids=[8])
    assert metric.compute() == {"n": 2, "sum": 2.5, "top": [2.0], "low": 0.5}
    assert metric.seen[0] == ("int64", ())


def test_summarize_gets_arrays_where_a_batch_was_empty() -> None:
    metric = Extremes()
    for score in ([], np.array([0.5, 2.0]), np.empty((0,)), [1.0]):
        metric.add(score=score)
    assert metric.compute() == {"n": 3, "sum": 3.5, "top": [0.5], "low": 0.5}


@pytest.mark.parametrize("with_compute_metric", [False, True])
@pytest.mark.parametrize("batches", [0, 1])
def test_summarize_gets_no_records_only_if_no_worker_has_any(with_compute_metric: bool, batches: int) -> None:
    given = []

    class Counting(fm.BaseMetric):
        def summarize(self, results: Any) -> Any:
            given.append(results)
            return {"n": len(results)}

        def compute_from(self, states: Any) -> Any:
            return states

    class Careful(Counting, Gathered):
        pass

    metric = Careful() if with_compute_metric else Counting()
    for _ in range(batches):
        metric.add([])
    assert metric.compute() == ([] if with_compute_metric else {"n": 0})
    assert given == ([] if with_compute_metric else [[]])


def test_summarize_may_return_none_where_the_records_are_needed() -> None:
    class Undecided(Gathered):
        condense = True

        def summarize(self, results: Any) -> Any:
            return {"n": len(results)} if self.condense else None

        def compute_from(self, states: Any) -> Any:
            return states["n"].item()

    metric = Undecided()
    metric._results += ["a", "b"]
    assert metric.compute() == 2
    metric.condense = False
    assert metric.compute() == ["a", "b"]


def test_a_class_that_takes_the_records_again_gets_them() -> None:
    """Derived from a metric of states, it overrides ``compute_metric`` only."""

    class Listing(Extremes):
        def compute_metric(self, results: Any) -> Any:
            return results["score"].tolist()

    metric = Listing()
    metric.add(score=np.array([0.5, 2.0]))
    assert metric.compute() == [0.5, 2.0]


def test_where_the_records_are_needed_there_must_be_a_compute_metric() -> None:
    class Undecided(fm.BaseMetric):
        def summarize(self, results: Any) -> Any:
            return None

        def compute_from(self, states: Any) -> Any:
            return states["n"]

    metric = Undecided()
    metric.add([1, 2])
    with pytest.raises((fm.FleetMetricsError, NotImplementedError), match="compute_metric"):
        metric.compute()


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (3, "summarize of Wrong returned int; it must return a dict of arrays by name, or None"),
        ({"n": ("mean", 3)}, "the reduction of 'n' must be one of 'sum', 'max', 'min', .*not 'mean'"),
        ({"n": "three"}, "Wrong.n must hold bools, integers or floats"),
        ({"n": [[1], [1, 2]]}, "Wrong.n has no rectangular array form"),
        ({"n": (1, 2, 3)}, "Wrong.*'n'"),
    ],
)
def test_what_summarize_returns_is_checked(states: Any, text: str) -> None:
    class Wrong(fm.BaseMetric):
        def summarize(self, results: Any) -> Any:
            return states

        def compute_from(self, states: Any) -> Any:
            raise AssertionError("it must not come to this")

    metric = Wrong()
    metric.add([1])
    with pytest.raises(fm.InvalidInputError, match=text):
        metric.compute()
