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
from tests.contract import new_programs
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
a, b = fm.AUC(), fm.AUC()
a.add(good, label), b.add(bad, label)
made.update(a=a, b=b)
"""
ONE_LESS = """
b = fm.AUC()
b.add(bad, label)
made.update(b=b)
"""
ONE_MORE = """
x, a, b = fm.AUC(), fm.AUC(), fm.AUC()
x.add(bad, label), a.add(good, label), b.add(bad, label)
made.update(x=x, a=a, b=b)
"""
OTHER_SETTINGS = """
a, b = fm.AUC(), fm.AUC(curve="PR")
a.add(good, label), b.add(bad, label)
made.update(a=a, b=b)
"""
OTHER_ORDER = """
b, a = fm.AUC(), fm.AUC()
b.add(bad, label), a.add(good, label)
made.update(a=a, b=b)
"""
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


@AFTER
@pytest.mark.parametrize("build", [ONE_LESS, OTHER_SETTINGS], ids=["one less", "other settings"])
def test_paddles_load_into_a_script_with_other_metrics_is_an_error_that_names_them(nursery, saved, build, after):
    said, _ = ran(nursery, saved, build, LOAD, after)
    for text in [said] if isinstance(said, str) else said.values():
        if text != 1.0:
            assert text.startswith("StaticProgramError: ") and "auc_" in text and "a different metric" in text
            assert "give each a name=" in text and "reset" in text
    assert 0.5 not in (said.values() if isinstance(said, dict) else [])


@AFTER
def test_paddles_load_into_a_script_with_one_metric_more_is_an_error(nursery, saved, after):
    said, _ = ran(nursery, saved, ONE_MORE, LOAD, after)
    assert isinstance(said, str) and "auc_2" in said


@pytest.mark.parametrize("build", [ONE_LESS, ONE_MORE], ids=["one less", "one more"])
def test_our_load_resets_and_names_entries_that_do_not_fit(nursery, saved, build):
    said, told = ran(nursery, saved, build, OWN)
    assert set(said.values()) == {None}
    strange = next(each for each in told if "start from zero: auc_0" in each and "different metrics" in each)
    assert "Give each metric of a static program a name=" in strange
    assert ran(nursery, saved, build, OWN, RUN)[0] == {name: 1.0 if name == "a" else 0.5 for name in said}


@pytest.mark.parametrize("load", [LOAD, OWN], ids=["paddle", "fleetmetrics"])
def test_the_same_script_goes_on_with_a_warning_of_generated_names(nursery, saved, load):
    said, told = ran(nursery, saved, TWO, load, RUN)
    assert said == {"a": 1.0, "b": 0.5}
    assert told and all("generated from the order of creation" in each for each in told)
    said, told = ran(nursery, saved, OTHER_ORDER, load, RUN)
    assert "auc_0" in told[0] and "fed its metrics in a different order" in told[0]


@pytest.mark.parametrize("load", [LOAD, OWN], ids=["paddle", "fleetmetrics"])
def test_named_metrics_go_on_in_any_order_and_nothing_is_said(nursery, tmp_path, load):
    def named(build: str) -> str:
        return (
            build.replace("a, b = fm.AUC(), fm.AUC", 'a, b = fm.AUC(name="a"), fm.AUC')
            .replace("b, a = fm.AUC(), fm.AUC()", 'b, a = fm.AUC(name="b"), fm.AUC(name="a")')
            .replace("fm.AUC()", 'fm.AUC(name="b")')
            .replace('curve="PR"', 'curve="PR", name="b"')
        )

    assert ran(nursery, tmp_path, named(TWO), SAVE)[0] == {"a": 1.0, "b": 0.5}
    for build, values in ((TWO, {"a": 1.0, "b": 0.5}), (OTHER_ORDER, {"a": 1.0, "b": 0.5}), (ONE_LESS, {"b": 0.5})):
        assert ran(nursery, tmp_path, named(build), load, RUN) == (values, [])
    said, told = ran(nursery, tmp_path, named(OTHER_SETTINGS), load)
    assert said["a"] == 1.0 and said["b"] != 0.5
    assert "b" in (told[0] if load == OWN else said["b"])


@pytest.mark.parametrize(
    ("first", "second"), [("", ", buckets=200"), (", buckets=200", ""), (", buckets=200", ", buckets=200")], ids=repr
)
def test_our_load_lets_a_metric_whose_states_have_another_shape_begin_anew(nursery, tmp_path, first, second):
    def named(one: str, two: str) -> str:
        return TWO.replace("fm.AUC(), fm.AUC()", f'fm.AUC(name="a"{one}), fm.AUC(name="b"{two})')

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


DROP_IN = """
area, _, [_, _, pos, neg] = fm.static.auc(paddle.reshape({first}, [-1, 1]), paddle.reshape(label, [-1, 1]))
{second}
class Sums:
    def compute(self):
        return float(fm.auc(pos, neg))
made.update(a=Sums())
"""


def test_paddles_own_auc_by_another_name_is_claimed_too(nursery, tmp_path):
    second = "fm.static.auc(paddle.reshape(bad, [-1, 1]), paddle.reshape(label, [-1, 1]))"
    both = DROP_IN.replace("{first}", "good").replace("{second}", second)
    one = DROP_IN.replace("{first}", "bad").replace("{second}", "")
    assert ran(nursery, tmp_path, both, SAVE)[0] == {"a": 1.0}
    said, _ = ran(nursery, tmp_path, one, LOAD)
    assert said["a"].startswith("StaticProgramError: static.auc_0: ")
    said, _ = ran(nursery, tmp_path, one, LOAD, RUN)
    assert said.startswith("StaticProgramError: static.auc_0: ")
    assert ran(nursery, tmp_path, both, LOAD, RUN)[0] == {"a": 1.0}


def test_a_reset_claims_what_another_metric_has_left(nursery, saved):
    reset = """
        made["b"].reset()
        executor.run(main, feed=feed)
"""
    assert ran(nursery, saved, ONE_LESS, LOAD, reset) == ({"b": 0.5}, [])


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
    kept = Kept(fm.Count())
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
