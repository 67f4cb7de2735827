"""Several validation sets, each with an `Evaluator`, in one process."""

from __future__ import annotations

import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import Evaluator, Evaluators
from tests.evaluator.metrics_of_the_tests import Failing, Seen, Total

#: Fewer samples than were added are asked for here; that there is a warning is another test's promise.
pytestmark = pytest.mark.filterwarnings("ignore:.* cut off:UserWarning")


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
    with pytest.raises(fm.InvalidInputError, match=r"sizes names c, d; known sets are a, b$"):
        sets.evaluate({"d": 3, "c": 2, "a": 2})
    with pytest.raises(fm.InvalidInputError, match=r"evaluators\['b'\] must be an Evaluator, not Seen"):
        Evaluators({"a": sets["a"], "b": Seen()})  # type: ignore[dict-item]
