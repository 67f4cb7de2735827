"""Several validation sets, each with an `Evaluator`, in one process."""

from __future__ import annotations

from typing import Any

import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, Evaluator, Evaluators

#: Fewer samples than were added are asked for here; that there is a warning is another test's promise.
pytestmark = pytest.mark.filterwarnings("ignore:.* cut off:UserWarning")


class Seen(BaseMetric):
    """What it is given is the value."""

    default_prefix = "seen"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches: list[Any] = []

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.batches.append((data_batch, data_samples))
        self.results.extend(data_samples)

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"records": list(results), "n": len(results)}


class Total(BaseMetric):
    """A sum instead of records."""

    default_prefix = "total"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(data_samples)

    def summarize(self, results: list[Any]) -> Any:
        return {"sum": sum(results), "top": ("max", max(results))}

    def compute_from(self, states: Any) -> dict[str, Any]:
        return {name: array.item() for name, array in states.items()}


class Failing(Seen):
    error: Any = ValueError("no labels")

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return super().compute_metrics(results)


def test_several_sets_have_their_own_values() -> None:
    sets = Evaluators({"clean": Evaluator([Seen(), Total()]), "noisy": Evaluator(Total(prefix="mine"))})
    assert (list(sets), len(sets), "clean" in sets) == (["clean", "noisy"], 2, True)
    for _ in range(2):
        sets["clean"].process([1, 2, 3])
        sets["noisy"].process([7])
        assert sets.evaluate({"clean": 2}) == {
            "clean/seen/records": [1, 2],
            "clean/seen/n": 2,
            "clean/total/sum": 3,
            "clean/total/top": 2,
            "noisy/mine/sum": 7,
            "noisy/mine/top": 7,
        }
    assert sets["noisy"].metrics[0].results == []


def test_one_set_that_fails_leaves_the_results_of_all() -> None:
    sets = Evaluators({"a": Evaluator(Seen()), "b": Evaluator(Failing())})
    for name in sets:
        sets[name].process([1, 2])
    with pytest.raises(ValueError, match="no labels"):
        sets.evaluate()
    assert [sets[name].metrics[0].results for name in sets] == [[1, 2], [1, 2]]
    with pytest.raises(fm.InvalidInputError, match="size is 3"):
        sets.evaluate({"a": 3})
    with pytest.raises(fm.InvalidInputError, match=r"sizes names c, d; known sets are a, b\."):
        sets.evaluate({"d": 3, "c": 2, "a": 2})
    with pytest.raises(fm.InvalidInputError, match=r"evaluators\['b'\] must be an Evaluator, not Seen"):
        Evaluators({"a": sets["a"], "b": Seen()})  # type: ignore[dict-item]
