"""What is said before Paddle runs a program with states: that they hold nothing yet, or that threads would race."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics import static
from tests.contract import new_programs
from tests.nursery import Nursery
from tests.paddle_version import on_legacy_graph
from tests.static.test_variables import Program, fresh


class Job:
    """A network in a training program, and in a test program with a metric of its own."""

    def __init__(self):
        self.scope, self.executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
        self.count = fm.Count(name=fresh("held_out"))
        self.train, self.startup = self.build(train=True)
        self.test, self.test_startup = self.build(train=False)
        with new_programs(), paddle.static.scope_guard(self.scope):
            self.executor.run(self.startup)

    def build(self, train):
        with new_programs() as (main, startup), paddle.utils.unique_name.guard():
            x = paddle.static.data("x", [-1, 1], "float32")
            weight, bias = paddle.ParamAttr("watch.weight"), paddle.ParamAttr("watch.bias")
            y = paddle.static.nn.fc(x, 1, weight_attr=weight, bias_attr=bias)
            if train:
                paddle.optimizer.SGD(0.1).minimize(paddle.mean(y))
            else:
                self.count.add(y)
        return main, startup

    def run(self, program, *more, **options):
        with new_programs(), paddle.static.scope_guard(self.scope):
            return self.executor.run(program, {"x": np.ones([4, 1], "float32")}, *more, **options)


def test_a_test_program_without_first_values_is_an_error_that_says_what_to_call():
    job = Job()
    job.run(job.train)
    with pytest.raises(fm.StateNotFoundError, match=r"held_out_\d+.*call reset\(\) of the metric"):
        job.run(job.test)
    job.count.reset(job.scope)
    job.run(job.test)  # and the executor is none the worse for it
    job.run(job.train)
    assert job.count.compute(job.scope) == 4


def test_a_program_that_runs_before_its_startup_program_is_told_so_and_then_runs():
    program = Program()
    program.scope = paddle.static.Scope()
    with pytest.raises(fm.StateNotFoundError, match="Run the startup program first"):
        program.run(1)
    assert program.run(None, 1, 2) == 3


def test_another_scope_is_looked_at_too_however_it_is_given():
    job = Job()
    job.count.reset(job.scope)
    job.run(job.test)
    other = paddle.static.Scope()
    for more, options in (((), {"scope": other}), (([], "feed", "fetch", other), {})):
        with pytest.raises(fm.StateNotFoundError):
            job.run(job.test, *more, **options)
    job.run(job.test)
    assert job.count.compute(job.scope) == 8


def test_a_state_that_comes_after_the_first_run_is_looked_at():
    program = Program()
    program.run(1)
    with new_programs(), paddle.static.program_guard(program.main, program.startup):
        late = static.create_state(fresh("late"))
        static.accumulate(late, program.x)
    with pytest.raises(fm.StateNotFoundError, match=late.name):
        program.run(1)
    late.reset(program.scope)
    program.run(1)
    assert fm.sum(late, program.scope) == 1


def test_clones_compiled_programs_and_programs_without_states_are_run():
    program = Program()
    with new_programs(), paddle.static.scope_guard(program.scope):
        program.executor.run(program.main.clone(), feed={"x": np.array(1)})
        if hasattr(program.main, "desc"):
            program.executor.run(paddle.static.CompiledProgram(program.main), feed={"x": np.array(1)})
        program.executor.run(paddle.static.Program())
    assert program.read() >= 1


def test_paddles_executor_keeps_its_signature_and_its_name():
    Program()
    executor = paddle.static.Executor
    assert list(inspect.signature(executor.run).parameters)[:4] == ["self", "program", "feed", "fetch_list"]
    assert executor.run.__name__ == "run" and not hasattr(executor.run.__wrapped__, "__wrapped__")
    assert not hasattr(executor.train_from_dataset.__wrapped__, "__wrapped__")


# -- train_from_dataset: Paddle's threads are of one number in a process, so each case has one of its own ----

FROM_DATASET = """
import sys
import numpy as np, paddle
import fleetmetrics as fm

paddle.enable_static()
FILES, LINES = 8, {lines}
names, threads = {names}, {threads}
main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
x = paddle.static.data("x", [-1, 1], "float32")
state = fm.static.create_state("total")
fm.static.accumulate(state, paddle.sum(paddle.cast(x, "int64")))
_, _, [_, _, stat_pos, _] = paddle.static.auc(x, paddle.cast(x, "int64"))
main._fleet_opt = {{"stat_var_names": [{{"stat_pos": stat_pos.name, "state": "total"}}[each] for each in names]}}
executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(startup)
for number in range(FILES):
    open(str(number), "w").write("1 1\\n" * LINES)
def from_files(threads):
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=1, thread_num=threads, use_var=[x])
    dataset.set_filelist([str(number) for number in range(FILES)])
    return dataset
dataset = from_files(threads)
def count(name):
    return int(np.array(paddle.static.global_scope().find_var(name).get_tensor()).sum()) / (FILES * LINES)
def error(call):
    try:
        call()
    except fm.StaticProgramError as error:
        return str(error)
{then}
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery("paddle", "fleetmetrics.static", GLOG_minloglevel="2") as nursery:
        yield nursery


def from_dataset(
    nursery: Nursery, folder: Path, then: str, threads: int = 4, names: tuple[str, ...] = (), lines: int = 1000
) -> Any:
    """What the last line of a program says that counts the lines of eight files, in batches of one."""
    code = FROM_DATASET.format(names=names, threads=threads, lines=lines, then=textwrap.dedent(then))
    done = nursery.run(code, folder)
    assert done.status == 0, done.err[-3000:]
    return ast.literal_eval(done.out.splitlines()[-1])


@on_legacy_graph
@pytest.mark.parametrize("name", ["train_from_dataset", "infer_from_dataset"])
def test_threads_are_refused_over_a_program_with_states_and_one_thread_counts_right(name, nursery, tmp_path):
    then = f"""
    run = executor.{name}
    told = [error(lambda: run(main, dataset)), error(lambda: run(main, dataset, thread=1))]
    dataset = from_files(1)
    told.append(error(lambda: run(main, dataset, None, 2)))
    before = count("total")
    run(main, dataset)
    print([*told, before, count("total")])
    """
    by_dataset, in_spite_of_argument, by_argument, before, after = from_dataset(nursery, tmp_path, then)
    assert by_dataset.startswith("this program accumulates into total, and 4 threads would lose batches")
    assert "Give the dataset thread_num=1" in by_dataset and "and 2 threads" in by_argument
    assert in_spite_of_argument == by_dataset  # Paddle starts four
    assert (before, after) == (0, 1)


@on_legacy_graph
def test_what_is_refused_would_lose_samples(nursery, tmp_path):
    """The reason: there is no lock, and sooner or later two threads meet: sooner in long files."""
    then = """
    lost = 1
    for _ in range(50):
        state.reset()
        paddle.static.Executor.train_from_dataset.__wrapped__(executor, main, dataset)
        lost = min(lost, count("total"))
        if lost < 1:
            break
    print(lost)
    """
    assert 0 < from_dataset(nursery, tmp_path, then, threads=8, lines=5000) < 1


@on_legacy_graph
@pytest.mark.parametrize("threads", [2, 8])
def test_stat_var_names_are_too_large_by_a_power_of_two_and_the_functions_warn(threads, nursery, tmp_path):
    then = """
    import warnings
    paddle.static.Executor.train_from_dataset.__wrapped__(executor, main, dataset)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fm.sum(stat_pos)
        fm.sum("total")
    print([count(stat_pos.name), count("total"), *[str(each.message) for each in told]])
    """
    stat_pos, total, *told = from_dataset(nursery, tmp_path, then, threads, ("stat_pos", "state"))
    for value in (stat_pos, total):
        assert 0.9 < value / 2 ** (threads - 1) <= 1
    much = f"for each thread but the first: {threads} threads count {2 ** (threads - 1)} times too much. Train with one"
    assert len(told) == 2 and all("is one of the strategy's stat_var_names" in each and much in each for each in told)


@on_legacy_graph
def test_one_thread_counts_what_is_in_stat_var_names_right_and_that_is_no_warning(nursery, tmp_path):
    then = """
    import warnings
    executor.train_from_dataset(main, dataset)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fm.auc(stat_pos, stat_pos)
    del dataset
    with warnings.catch_warnings(record=True) as unknown:
        warnings.simplefilter("always")
        fm.sum(stat_pos)
    said = [str(each.message) for each in unknown]
    print([count(stat_pos.name), count("total"), len(told), *said])
    """
    *counts, warnings, unknown = from_dataset(nursery, tmp_path, then, 1, ("stat_pos", "state"))
    assert (counts, warnings) == ([1, 1], 0)
    assert "doubles for each thread but the first: all count too much" in unknown


# -- counters that share a name ----------------------------------------------------------------------------


@on_legacy_graph
def test_a_counter_that_three_metrics_share_by_its_name_is_a_warning():
    scope, executor, name = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace()), fresh("total_ins_num")
    with new_programs() as (main, startup), paddle.static.scope_guard(scope):
        x = paddle.static.data("x", [-1, 1], "float32")
        for _ in range(3):
            total = paddle.static.create_global_var([1], 0.0, "float32", persistable=True, name=name)
            paddle.assign(total + paddle.sum(paddle.ones_like(x)), total)
        alone = paddle.static.create_global_var([1], 0.0, "float32", persistable=True)
        paddle.assign(alone + paddle.sum(paddle.ones_like(x)), alone)
        executor.run(startup)
        executor.run(main, feed={"x": np.ones([5, 1], "float32")})
        told = f"total_ins_num: 3 operations of the program write '{name}', and count each batch 3 times"
        for given in (total, name):
            with pytest.warns(UserWarning, match=told):
                assert fm.mae(5.0, given) == pytest.approx(1 / 3)
        assert fm.mae(5.0, alone) == 1.0  # a warning would be an error
