"""The errors before Paddle runs a program with states: that they hold nothing yet, or that threads would race."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics import static
from tests.contract import new_programs
from tests.cover import thorough
from tests.nursery import Nursery, common
from tests.paddle_version import on_legacy_graph, on_pir
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


def test_a_program_without_its_startup_program_is_an_error_and_then_runs():
    program = Program()
    program.scope = paddle.static.Scope()
    with pytest.raises(fm.StateNotFoundError, match="Run the startup program first"):
        program.run(1)
    assert program.run(None, 1, 2) == 3


def test_another_scope_is_searched_too_however_given():
    job = Job()
    job.count.reset(job.scope)
    job.run(job.test)
    other = paddle.static.Scope()
    for more, options in (((), {"scope": other}), (([], "feed", "fetch", other), {})):
        with pytest.raises(fm.StateNotFoundError):
            job.run(job.test, *more, **options)
    job.run(job.test)
    assert job.count.compute(job.scope) == 8


def test_a_state_created_after_the_first_run_is_checked():
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
def nursery() -> Nursery:
    return common()


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
@pytest.mark.parametrize("threads", [1, 16])
def test_any_number_of_threads_counts_each_batch_once(name, threads, nursery, tmp_path):
    then = f"""
    run = executor.{name}
    text, described = str(main), main.desc.serialize_to_string()
    for _ in range(3):
        run(main, dataset)
    untouched = (str(main), main.desc.serialize_to_string()) == (text, described)
    left = [each for each in ("0", "1", "2") if paddle.static.global_scope().find_var("fleetmetrics.lock_" + each)]
    print([count("total"), count(stat_pos.name), untouched, left, main._fleet_opt["stat_var_names"]])
    """
    total, stat_pos, untouched, left, merged = from_dataset(nursery, tmp_path, then, threads, ("state", "stat_pos"))
    assert (total, stat_pos) == (3, 3)
    assert untouched and not left
    assert merged == [] if threads > 1 else len(merged) == 2


@on_legacy_graph
def test_what_is_taken_off_stat_var_names_is_locked_in_every_later_run(nursery, tmp_path):
    """It was not: Paddle's own counters lost a sample in 100,000 from the second run on."""
    then = """
    from fleetmetrics.static import variables
    seen, locked = [], variables.locked
    def recording(program, counters, scope):
        seen.append(sorted(counters))
        return locked(program, counters, scope)
    variables.locked = recording
    for _ in range(3):
        executor.train_from_dataset(main, dataset)
    print([seen, stat_pos.name, main._fleet_opt["stat_var_names"]])
    """
    seen, stat_pos, left = from_dataset(nursery, tmp_path, then, 4, ("state", "stat_pos"), lines=10)
    assert seen == [sorted(["total", stat_pos])] * 3 and left == []


@on_legacy_graph
def test_metrics_and_the_drop_in_auc_count_what_one_thread_would_in_any_scope_and_from_memory(nursery, tmp_path):
    then = """
    n, most = fm.Count(name="n"), fm.static.create_state("most", dtype="float64", reduction="max")
    n.add(x)
    fm.static.accumulate(most, paddle.cast(paddle.max(x), "float64"))
    auc = fm.AUC(buckets=64, name="auc")
    auc.add(x, paddle.cast(x, "int64"))
    _, _, [batch_pos, _, mine, _] = fm.static.auc(x, paddle.cast(x, "int64"), slide_steps=2)
    recent = fm.Windowed(fm.Count(), 64, name="recent")
    recent.add(x)
    scope = paddle.static.Scope()
    executor.run(startup, scope=scope)
    held = paddle.distributed.InMemoryDataset()
    held.init(batch_size=3, thread_num=8, use_var=[x])
    held.set_filelist([str(number) for number in range(FILES)])
    held.load_into_memory()
    executor.train_from_dataset(main, dataset, scope=scope)  # in batches of one
    window = recent.compute(scope).window
    executor.train_from_dataset(main, held, scope=scope)
    with paddle.static.scope_guard(scope):
        twice = n.compute(), int(fm.sum(mine).sum()), count("total"), float(fm.max("most"))
        histogram = sum(int(np.array(scope.find_var(each.name).get_tensor()).sum()) for each in fm.static.states()
                        if each.name.startswith("auc.") and each.reduction == "sum" and each.shape)
    print([*twice, histogram, window])
    """
    samples, mine, total, most, histogram, window = from_dataset(nursery, tmp_path, then, threads=8, lines=300)
    assert (samples, mine, total, most, window) == (4800, 4800, 2, 1.0, 64)
    assert histogram % 4800 == 0 and histogram > 0


@pytest.mark.thorough
@on_legacy_graph
def test_without_the_lock_samples_are_lost(nursery, tmp_path):
    """The reason: sooner or later two threads meet: sooner in long files."""
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
def test_a_batch_that_fails_is_an_error_and_not_a_thread_that_the_others_wait_for(nursery, tmp_path):
    then = """
    open("3", "a").write("1 7\\n")
    try:
        executor.train_from_dataset(main, dataset)
    except SystemError as error:
        print(["predict data must less or equal 1" in str(error)], flush=True)
    import os
    os._exit(0)  # Paddle's own data set would not end
    """
    assert from_dataset(nursery, tmp_path, then, threads=8, names=("stat_pos",), lines=100) == [True]


@on_legacy_graph
def test_where_threads_cannot_be_kept_apart_they_are_refused(nursery, tmp_path):
    then = """
    told = []
    main._pipeline_opt = {"section_program": main}
    told.append(error(lambda: executor.train_from_dataset(main, dataset)))
    main._pipeline_opt = None
    def more():
        paddle.assign(state.variable + 1, state.variable)
    paddle.static.nn.cond(paddle.sum(x) > 0, more, lambda: None)
    told.append(error(lambda: executor.train_from_dataset(main, dataset)))
    told.append(error(lambda: executor.train_from_dataset(main, from_files(1), None, 2)))
    print([*told, count("total"), main._fleet_opt["stat_var_names"]])
    """
    pipeline, branch, by_argument, before, merged = from_dataset(nursery, tmp_path, then, names=("state",))
    assert pipeline.startswith("this program accumulates into total, and 4 threads would lose batches")
    assert "Give the dataset thread_num=1" in pipeline
    assert branch.startswith("this program updates total inside a branch or a loop") and by_argument == branch
    assert before == 0 and merged == ["total"]


@on_legacy_graph
def test_a_run_from_a_dataset_without_the_startup_program_is_an_error_too(nursery, tmp_path):
    then = """
    try:
        executor.train_from_dataset(main, dataset, paddle.static.Scope())
    except fm.StateNotFoundError as error:
        print([str(error)])
    """
    (told,) = from_dataset(nursery, tmp_path, then)
    assert "Run the startup program first" in told


@on_pir
def test_paddle_3_takes_no_program_with_states_from_a_dataset_and_that_is_said():
    program = Program()
    dataset = paddle.distributed.QueueDataset()
    with pytest.raises(fm.StaticProgramError, match=r"train_from_dataset does not run programs of Paddle 3 \(PIR\)"):
        program.executor.train_from_dataset(program.main, dataset, program.scope)
    with pytest.raises(AttributeError, match="_pipeline_opt"):  # what Paddle says of its own programs
        program.executor.train_from_dataset(paddle.static.Program(), dataset)


@on_legacy_graph
@pytest.mark.parametrize("threads", [2, *thorough(8)])
def test_stat_var_names_are_too_large_by_a_power_of_two_and_the_functions_warn(threads, nursery, tmp_path):
    then = """
    import warnings
    paddle.static.Executor.train_from_dataset.__wrapped__(executor, main, dataset)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fm.sum(stat_pos)
        fm.sum("total")
        buckets = np.array(paddle.static.global_scope().find_var(stat_pos.name).get_tensor())
        from paddle.distributed import fleet
        with fm.patch_fleet(util=True):
            fleet.util.all_reduce(buckets.reshape(-1), "sum")
            fleet.util.all_reduce(buckets.reshape(-1) + 1, "sum")
        fm.auc(buckets, buckets * 0)
    print([count(stat_pos.name), count("total"), *[str(each.message) for each in told]])
    """
    stat_pos, total, *told = from_dataset(nursery, tmp_path, then, threads, ("stat_pos", "state"))
    for value in (stat_pos, total):
        assert 0.9 < value / 2 ** (threads - 1) <= 1
    much = (
        f"for each thread after the first: {threads} threads count {2 ** (threads - 1)} times too much. Train with one"
    )
    told = [each for each in told if "undefined" not in each]
    assert len(told) == 4 and all("is one of the strategy's stat_var_names" in each and much in each for each in told)
    assert told[2].startswith("input is what ") and told[3].startswith("stat_pos is what ")


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
    assert "doubles for each thread after the first: all count too much" in unknown


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
