"""A static checkpoint never gives one metric the counts of another: it finds them by name, or they start from zero."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from tests.contract import Data, StaticFeed, new_programs
from tests.nursery import Nursery, common
from tests.static.test_variables import fresh

#: A script that counts with some metrics in one program, and loads what another one has saved.
SCRIPT = """
import warnings
import numpy as np, paddle, fleetmetrics as fm
paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    good = paddle.static.data("good", [-1], "float32")
    bad = paddle.static.data("bad", [-1], "float32")
    label = paddle.static.data("label", [-1], "int64")
    made = {}
    {build}
executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(startup)
label = np.array([1, 0, 1, 0])
feed = {"good": np.float32([0.9, 0.2, 0.7, 0.6]), "bad": np.float32([0.1, 0.2, 0.7, 0.6]), "label": label}
said = []

def value(metric):
    try:
        found = metric.compute()
        return None if found != found else round(found, 6)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    try:
        {then}
        said.append({name: value(metric) for name, metric in made.items()})
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
print([*said, [str(each.message) for each in told]])
"""

TWO = """
a, b = fm.AUC(name="a"), fm.AUC(name="b")
a.add(good, label), b.add(bad, label)
made.update(a=a, b=b)
"""
ONE_LESS = """
b = fm.AUC(name="b")
b.add(bad, label)
made.update(b=b)
"""
OTHER_ORDER = """
b, a = fm.AUC(name="b"), fm.AUC(name="a")
b.add(bad, label), a.add(good, label)
made.update(a=a, b=b)
"""
OTHER_SETTINGS = TWO.replace('name="b"', 'curve="PR", name="b"')
THRESHOLD = """
b = fm.Accuracy(name="b", threshold={threshold})
b.add(bad, label)
made.update(b=b)
"""
SQUARED = """
b = fm.MeanSquaredError(name="b")
b.add(bad, label)
made.update(b=b)
"""
ROOT = SQUARED.replace("fm.", "fm.Root")
KEYS = """
b = fm.MetricCollection({"x": fm.{x}(), "y": fm.{y}()})
b.add(bad, label)
made.update(b=b)
"""
SQUARED_FIRST = KEYS.replace("{x}", "MeanSquaredError").replace("{y}", "RootMeanSquaredError")
ROOT_FIRST = KEYS.replace("{y}", "MeanSquaredError").replace("{x}", "RootMeanSquaredError")
SAVE = """
        for _ in range(2):
            executor.run(main, feed=feed)
        paddle.static.save(main, "checkpoint")
"""
LOAD = """
        paddle.static.load(main, "checkpoint", executor)
"""
OWN = """
        fm.static.load(main, "checkpoint", executor)
"""
RUN = """
        executor.run(main, feed=feed)
"""


@pytest.fixture(scope="module")
def nursery() -> Nursery:
    return common()


def ran(nursery: Nursery, folder: Path, build: str, *then: str) -> tuple[Any, list[str]]:
    """What the metrics say, or the error, and what was warned of."""
    lines = "".join(then).strip()
    code = SCRIPT.replace("{build}", textwrap.indent(build.strip(), "    ").strip()).replace("{then}", lines)
    done = nursery.run(code, folder)
    assert done.status == 0, done.err[-3000:]
    said, told = ast.literal_eval(done.out.splitlines()[-1])
    return said, [each for each in told if "metric" in each]


@pytest.fixture
def saved(nursery: Nursery, tmp_path: Path) -> Path:
    assert ran(nursery, tmp_path, TWO, SAVE)[0] == {"a": 1.0, "b": 0.5}
    return tmp_path


#: Whether the loaded values are read at once, or after a run.
AFTER = pytest.mark.parametrize("after", ["", RUN], ids=["at once", "after a run"])


#: What is saved, and a script whose metrics have the same names and states of the same shapes, with one that differs.
FOREIGN = {
    "settings": (TWO, OTHER_SETTINGS),
    "threshold": (THRESHOLD.format(threshold=0.5), THRESHOLD.format(threshold=0.65)),
    "class": (SQUARED, ROOT),
    "class of a member": (SQUARED_FIRST, ROOT_FIRST),
}


@pytest.mark.parametrize("after", ["", RUN, RUN + RUN], ids=["at once", "after a run", "after two"])
@pytest.mark.parametrize(("first", "second"), FOREIGN.values(), ids=FOREIGN)
def test_paddles_load_of_a_different_metric_under_the_name_is_an_error_that_names_it(
    nursery, tmp_path, first, second, after
):
    ran(nursery, tmp_path, first, SAVE)
    said, _ = ran(nursery, tmp_path, second, LOAD, after)
    assert isinstance(said, str) == bool(after), "the run itself raises the error, and so does compute"
    if isinstance(said, dict):
        assert said.pop("a", 1.0) == 1.0
        (said,) = said.values()
    name = "metric_collection" if second is ROOT_FIRST else "b"
    assert said.startswith(f"StaticProgramError: {name}: a checkpoint has the states of a different metric")
    assert "a different name" in said and "reset" in said


@pytest.mark.parametrize("between", ["", RUN, RUN + RUN], ids=["none", "one", "two"])
def test_so_is_one_that_is_loaded_between_two_runs(nursery, saved, between):
    said, _ = ran(nursery, saved, OTHER_SETTINGS, RUN, LOAD, between)
    assert said["a"] == 1.0 and said["b"].startswith("StaticProgramError: b: ")


def test_what_is_saved_before_the_first_run_has_an_owner_too(nursery, tmp_path):
    ran(nursery, tmp_path, TWO, SAVE.replace("range(2)", "range(0)"))
    said, _ = ran(nursery, tmp_path, OTHER_SETTINGS, LOAD)
    assert said["b"].startswith("StaticProgramError: b: ")


@pytest.mark.parametrize("build", [OTHER_SETTINGS, TWO], ids=["foreign", "own"])
def test_our_load_is_right_whatever_paddles_load_has_left(nursery, saved, build):
    ran(nursery, saved, OTHER_SETTINGS, SAVE.replace("checkpoint", "foreign"))
    said, told = ran(nursery, saved, build, LOAD.replace("checkpoint", "foreign"), LOAD, OWN, RUN)
    assert said["a"] == 1.0 and isinstance(said["b"], float) and len(told) == (build is OTHER_SETTINGS)
    said, _ = ran(nursery, saved, TWO, LOAD.replace("checkpoint", "foreign"), OWN, RUN)
    assert said == {"a": 1.0, "b": 0.5}


def test_after_the_startup_program_the_metric_is_its_own_again(nursery, saved):
    again = """
        executor.run(startup)
"""
    assert ran(nursery, saved, OTHER_SETTINGS, LOAD, again, RUN)[0]["a"] == 1.0


@pytest.mark.parametrize("after", ["", RUN], ids=["at once", "after a run"])
def test_our_load_resets_and_names_a_metric_that_does_not_fit(nursery, saved, after):
    said, told = ran(nursery, saved, OTHER_SETTINGS, OWN, after)
    assert said["a"] == 1.0 and (said["b"] is None) == (not after)
    (text,) = told
    assert "start from zero: b." in text and "a different class or different settings" in text


@pytest.mark.parametrize("load", [LOAD, OWN], ids=["paddle", "fleetmetrics"])
def test_metrics_go_on_in_any_order_and_with_fewer_beside_them_and_nothing_is_said(nursery, saved, load):
    for build, values in ((TWO, {"a": 1.0, "b": 0.5}), (OTHER_ORDER, {"a": 1.0, "b": 0.5}), (ONE_LESS, {"b": 0.5})):
        assert ran(nursery, saved, build, load, RUN) == (values, [])


@pytest.mark.parametrize(
    ("first", "second"), [("", ", buckets=200"), (", buckets=200", ""), (", buckets=200", ", buckets=200")], ids=repr
)
def test_our_load_lets_a_metric_whose_states_have_another_shape_begin_anew(nursery, tmp_path, first, second):
    def named(one: str, two: str) -> str:
        return TWO.replace('name="a"', f'name="a"{one}').replace('name="b"', f'name="b"{two}')

    assert ran(nursery, tmp_path, named("", ""), SAVE)[0] == {"a": 1.0, "b": 0.5}
    said, told = ran(nursery, tmp_path, named(first, second), OWN)
    assert said == {"a": None if first else 1.0, "b": None if second else 0.5}
    (text,) = [each for each in told if "start from zero" in each]
    assert ("a.histogram" in text, "b.histogram" in text) == (bool(first), bool(second))
    assert ran(nursery, tmp_path, named(first, second), OWN, RUN)[0] == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize("odd", [np.zeros((2, 3), np.int64), np.float32(4)], ids=["shape", "dtype"])
def test_so_does_one_with_a_state_of_another_form_in_a_checkpoint_that_names_no_owner(tmp_path, odd):
    name, path = fresh("plain"), str(tmp_path / "it")
    kept = Kept(fm.Count(name=name))
    kept.run(kept.startup)
    kept.run()
    held = {state.name: np.array(4) for state in fm.static.states(kept.main)}
    held[f"{name}.total"] = odd
    with new_programs(), paddle.static.scope_guard(kept.scope), pytest.MonkeyPatch.context() as patch:
        patch.setattr(paddle.static, "load_program_state", lambda path: held)
        with pytest.warns(UserWarning, match=f"they start from zero: .*{name}"):
            fm.static.load(kept.main, path)
    assert kept.metric.compute(kept.scope) == 0
    kept.run()
    assert kept.metric.compute(kept.scope) == 3


AREA = """
_, _, [_, _, *{name}] = fm.static.auc(paddle.reshape({score}, [-1, 1]), paddle.reshape(label, [-1, 1]))
made.update({name}=Area({name}))
"""
GOOD, BAD = AREA.format(name="a", score="good"), AREA.format(name="b", score="bad")
AREAS = """
class Area:
    def __init__(self, statistics):
        self.statistics = statistics
    def compute(self):
        return float(fm.auc(*self.statistics))
"""


@pytest.mark.parametrize(
    ("calls", "values"),
    [
        (GOOD + BAD, {"a": 1.0, "b": 0.5}),
        (BAD + GOOD, {"a": 1.0, "b": 0.5}),
        (BAD, {"b": 0.5}),
        (AREA.format(name="b", score="paddle.nn.functional.relu(bad)"), {"b": 0.5}),
    ],
    ids=["the same calls", "a different order", "one call fewer", "one more layer"],
)
@pytest.mark.parametrize("load", [LOAD, OWN], ids=["paddle", "fleetmetrics"])
def test_so_do_the_statistics_of_the_drop_in_calls_without_names(nursery, tmp_path, calls, values, load):
    assert ran(nursery, tmp_path, AREAS + GOOD + BAD, SAVE)[0] == {"a": 1.0, "b": 0.5}
    assert ran(nursery, tmp_path, AREAS + calls, load) == (values, [])


def test_a_reset_claims_what_another_metric_has_left(nursery, saved):
    reset = """
        made["b"].reset()
        executor.run(main, feed=feed)
"""
    said, told = ran(nursery, saved, OTHER_SETTINGS, LOAD, reset)
    assert (said["a"], told) == (1.0, []) and 0 < said["b"] < 1


def test_metrics_of_two_classes_may_share_their_states_on_purpose():
    name, data = fresh("shared"), Data(np.array([0.5, 0.5]), np.array([0, 1]))
    squared, root = fm.MeanSquaredError(name=name), fm.RootMeanSquaredError(name=name, share=True)
    feed, other = StaticFeed(squared, data), StaticFeed(root, data)
    assert (squared.compute(feed.run([data])), root.compute(other.run([data]))) == (0.25, 0.5)


class Kept:
    """A count in a program, with its scope."""

    def __init__(self, metric: Any, **settings: Any) -> None:
        self.metric, self.scope, self.executor = (
            metric,
            paddle.static.Scope(),
            paddle.static.Executor(paddle.CPUPlace()),
        )
        with new_programs() as (self.main, self.startup):
            metric.add(paddle.static.data("x", [-1], "float32"))

    def run(self, program: Any = None) -> None:
        with new_programs(), paddle.static.scope_guard(self.scope):
            feed = {"x": np.ones(3, "float32")} if program is None else None
            self.executor.run(program or self.main, feed=feed)


def test_a_new_start_in_one_process_says_nothing(recwarn):
    kept = Kept(fm.Count(name=fresh("new")))
    for _ in range(2):
        kept.run(kept.startup)
        for number in (3, 6):
            kept.run()
            assert kept.metric.compute(kept.scope) == number
    kept.metric.reset(kept.scope)
    kept.run()
    assert kept.metric.compute(kept.scope) == 3
    assert not [each for each in recwarn if "metric" in str(each.message)]


def test_the_third_argument_is_paddles(tmp_path):
    kept = Kept(fm.Count(name=fresh("third")))
    kept.run(kept.startup)
    kept.run()
    path = str(tmp_path / "it")
    with new_programs(), paddle.static.scope_guard(kept.scope):
        paddle.static.save(kept.main, path)
        kept.run()
        fm.static.load(kept.main, path, kept.executor)
    assert kept.metric.compute(kept.scope) == 3
    with new_programs(), pytest.raises(fm.InvalidInputError, match=r"executor, the third argument .* scope="):
        fm.static.load(kept.main, path, kept.scope)
    kept.run()
    with new_programs():
        fm.static.load(kept.main, path, scope=kept.scope)
    assert kept.metric.compute(kept.scope) == 3
