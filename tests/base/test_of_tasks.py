"""Several tasks in one collection: each value is that of the task alone, bit for bit, whatever holds the samples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import new_programs
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, run

TASKS = {
    "ctr": {"prediction": "p_ctr", "label": "click"},
    "cvr": {"prediction": "p_cvr", "label": "buy", "mask": "click"},
    "stay": {"prediction": "p_stay", "label": "stay", "weight": "seconds"},
}
PLAIN = {task: dict(list(its.items())[:2]) for task, its in TASKS.items()}
METRICS = {
    "auc": fm.AUC,
    "exact": fm.ExactAUC,
    "accuracy": fm.Accuracy,
    "loss": fm.LogLoss,
    "mae": fm.MeanAbsoluteError,
    "rmse": fm.RootMeanSquaredError,
    "correlation": fm.PearsonCorrelation,
    "calibration": fm.ExpectedCalibrationError,
    "rate": fm.ClickThroughRate,
    "last": lambda: fm.Windowed(fm.AUC(), last=2),
    "interval": lambda: fm.Interval(fm.Accuracy()),
    "twice": lambda: 2 * fm.LogLoss(),
}


def made(metrics=METRICS):
    return {key: make() for key, make in metrics.items()}


def drawn(rows: int, seed: int = 0, dtype: str = "float32") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = {f"p_{name}": rng.random(rows).astype(dtype) for name in ("ctr", "cvr", "stay")}
    labels = {name: rng.integers(0, 2, rows) for name in ("click", "buy", "stay")}
    return {**scores, **labels, "seconds": rng.exponential(size=rows), "user": rng.integers(0, 9, rows)}


def alone(task: dict[str, str], batches, metrics=METRICS):
    """The metrics of a task in a collection of its own."""
    collection = fm.MetricCollection(made(metrics))
    for batch in batches:
        collection.add(**{argument: batch[name] for argument, name in task.items()})
    return collection


def flat(values_by_task):
    return {f"{task}/{key}": value for task, values in values_by_task.items() for key, value in values.items()}


@pytest.mark.numpy_only
@pytest.mark.parametrize("tasks", [TASKS, PLAIN])
@pytest.mark.parametrize(
    ("rows", "dtype", "shape"), [(128, "float64", [-1]), (129, "float32", [-1, 1]), (9001, "float32", [-1])]
)
def test_each_value_is_that_of_the_task_alone(tasks, rows, dtype, shape):
    """Without weights and masks, the samples of all tasks are computed at once."""
    batches = [{name: column.reshape(shape) for name, column in drawn(rows, seed, dtype).items()} for seed in range(3)]
    together = fm.MetricCollection.of_tasks(tasks, made())
    for batch in batches:
        together.add(batch)
    expected = flat({task: alone(its, batches).compute() for task, its in tasks.items()})
    found = together.compute()
    assert list(found) == list(expected)
    assert repr(found) == repr(expected)


@pytest.mark.numpy_only
def test_further_columns_and_slices_are_those_of_the_task():
    tasks = {task: {**its, "user": "user", "slot": "user"} for task, its in TASKS.items()}
    metrics = {"gauc": fm.GAUC, "sliced": lambda: fm.Sliced(fm.LogLoss(), by="slot")}
    batches = [drawn(50, seed) for seed in range(2)]
    together = fm.MetricCollection.of_tasks(tasks, made(metrics))
    for batch in batches:
        together.add(batch)
    assert together.compute() == flat({task: alone(its, batches, metrics).compute() for task, its in tasks.items()})


def of_program(together, batches):
    """Add batches in a static program; return its scope."""
    paddle = pytest.importorskip("paddle")
    scope = paddle.static.Scope()
    with new_programs() as (main, startup), paddle.static.scope_guard(scope):
        together.add({name: paddle.static.data(name, [-1], str(its.dtype)) for name, its in batches[0].items()})
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        for batch in batches:
            executor.run(main, feed=batch)
    return scope


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_tensors_and_static_programs_give_the_values_of_arrays(mode):
    paddle = pytest.importorskip("paddle")
    metrics = {key: METRICS[key] for key in ("auc", "accuracy", "rate")}
    batches = [drawn(30, seed) for seed in range(2)]
    together = fm.MetricCollection.of_tasks(TASKS, made(metrics), name=f"tasks {mode}")
    scope = of_program(together, batches) if mode == "static" else None
    for batch in batches if mode == "dynamic" else ():
        together.add({name: paddle.to_tensor(column) for name, column in batch.items()})
    expected = flat({task: alone(its, batches, metrics).compute() for task, its in TASKS.items()})
    assert together.compute(scope) == pytest.approx(expected, rel=1e-14)


def test_an_invalid_row_of_a_static_program_is_found_by_compute():
    together, batch = fm.MetricCollection.of_tasks(TASKS, {"auc": fm.AUC()}, name="invalid tasks"), drawn(5)
    batch["p_cvr"][3], batch["click"][3] = 2.0, 1
    scope = of_program(together, [batch])
    with pytest.raises(fm.InvalidInputError, match="1 of 5 samples was invalid and left out, the first at position 3"):
        together.compute(scope)


@pytest.mark.numpy_only
@pytest.mark.distributed
def test_three_workers_give_the_values_of_one_process():
    (port,), batches = free_ports(1), [drawn(40, seed) for seed in range(2)]
    metrics = {key: METRICS[key] for key in ("auc", "exact", "accuracy", "mae", "calibration", "rate")}

    def work(rank):
        together = fm.MetricCollection.of_tasks(TASKS, made(metrics), name="tasks")
        for batch in batches[rank : rank + 1]:  # the last worker is empty
            together.add(batch)
        return together.compute(communicator=member(rank, 3, port), timeout=60)

    one = fm.MetricCollection.of_tasks(TASKS, made(metrics))
    for batch in batches:
        one.add(batch)
    expected = one.compute()
    for found in run(3, work):
        assert found == pytest.approx(expected, rel=1e-14)
        assert found["ctr/accuracy"] == expected["ctr/accuracy"]


@pytest.mark.numpy_only
def test_checkpoints_merges_and_copies_hold_all_tasks(tmp_path):
    first, second = (fm.MetricCollection.of_tasks(TASKS, made(), name=name) for name in ("one", "two"))
    first.add(drawn(20, 0))
    fm.save(tmp_path / "tasks", first)
    fm.load(tmp_path / "tasks", second)
    assert second.compute() == first.compute()
    part = first.fresh()
    assert part.compute_local() != first.compute()
    part.add(drawn(20, 1))
    merged = fm.merge_all([first, part])
    first.add(drawn(20, 1))
    assert merged.compute()["cvr/auc"] == first.compute()["cvr/auc"]
    first.rename({"cvr/auc": "conversion"}).add(drawn(5, 2))
    again = first.fresh()
    again.add(drawn(5, 2))
    assert again.compute().keys() == first.compute().keys() > {"conversion", "cvr/exact"}


@pytest.mark.numpy_only
def test_padding_of_a_sampler_counts_in_no_task():
    batch = drawn(5)
    sampler = SimpleNamespace(
        dataset=range(5), batch_size=3, nranks=2, local_rank=1, shuffle=False, drop_last=False, epoch=0
    )
    together = fm.MetricCollection.of_tasks(TASKS, {"n": fm.Count(), "mae": fm.MeanAbsoluteError()}, sampler=sampler)
    mine = [1, 3, 0]  # 0 is padding
    together.add({name: column[mine] for name, column in batch.items()})
    own = {name: column[mine[:2]] for name, column in batch.items()}
    assert together.compute_local()["ctr/mae"] == pytest.approx(np.abs(own["p_ctr"] - own["click"]).mean())
    assert together.compute_local()["ctr/n"] == 2


@pytest.mark.numpy_only
@pytest.mark.parametrize("tasks", [TASKS, PLAIN])
def test_a_batch_that_one_task_refuses_is_added_to_none(tasks):
    together = fm.MetricCollection.of_tasks(tasks, {"auc": fm.AUC(), "n": fm.Count()}, name="m")
    batch = drawn(6)
    batch["stay"][2] = 7
    with pytest.raises(fm.InvalidInputError, match=r"m\['stay/auc'\] \(AUC\): label"):
        together.add(batch)
    with pytest.raises(fm.InvalidInputError, match=r"'cvr': label has shape"):
        together.add({**drawn(6), "buy": np.ones((2, 5))})
    with pytest.raises(fm.InvalidInputError, match=r"'ctr': label has shape \[5\]"):
        together.add({**drawn(6), **{label: np.ones(5) for label in ("click", "buy", "stay")}})
    assert not together.holds_samples()


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ({}, "tasks must be a dict of columns by the name of a task"),
        ({"ctr": "p"}, "it must be the names of its columns by argument"),
        ({"ctr": {"prediction": "p"}}, r"tasks\['ctr'\] lacks 'label'"),
        ({"ctr": {"prediction": "p", "label": "y", "score": "s"}}, "has no argument 'score'; allowed are prediction"),
    ],
)
def test_tasks_that_name_no_columns_are_refused(tasks, words):
    with pytest.raises(fm.InvalidInputError, match=words):
        fm.MetricCollection.of_tasks(tasks, {"auc": fm.AUC()})


@pytest.mark.numpy_only
def test_each_metric_of_each_task_has_a_key_of_its_own():
    """Or one of two would be missing, and the others would take each other's samples."""
    tasks = {task: {"prediction": "p", "label": "y"} for task in ("a", "a/b")}
    with pytest.raises(fm.InvalidInputError, match="tasks 'a' and 'a/b' both have a metric a/b/c; rename a task"):
        fm.MetricCollection.of_tasks(tasks, {"b/c": fm.AUC(), "c": fm.AUC()})
    with pytest.raises(fm.InvalidInputError, match="metrics must hold a metric for the tasks, not "):
        fm.MetricCollection.of_tasks(tasks, {})


@pytest.mark.numpy_only
def test_what_is_no_batch_of_tasks_is_refused_with_the_way_out():
    together = fm.MetricCollection.of_tasks(TASKS, [fm.AUC(name="auc")], name="m")
    batch = drawn(4)
    with pytest.raises(
        fm.InvalidInputError, match=r"add takes one dict of columns by name.*'p_ctr': ..., 'click': ..."
    ):
        together.add(batch["p_ctr"], batch["click"])
    with pytest.raises(fm.InvalidInputError, match=r"no column 'p_cvr' for prediction of 'cvr'; did you mean 'p_cv'?"):
        together.add({name.replace("p_cvr", "p_cv"): column for name, column in batch.items()})
    with pytest.raises(fm.InvalidInputError, match="m: column 'buy' for label of 'cvr' is None; give its values"):
        together.add({**batch, "buy": None})
    with pytest.raises(fm.InvalidInputError, match="'stay' has 3 rows, and 'ctr' has 4; give all tasks the same rows"):
        together.add({**batch, **{name: batch[name][:3] for name in ("p_stay", "stay", "seconds")}})
    used = fm.AUC()
    used.add([0.5], [1])
    with pytest.raises(fm.InvalidInputError, match="already holds samples"):
        fm.MetricCollection.of_tasks(TASKS, {"auc": used})


@pytest.mark.numpy_only
def test_a_data_frame_has_the_columns_of_all_tasks():
    pyarrow = pytest.importorskip("pyarrow")
    batch, metrics = drawn(12), {"auc": fm.AUC, "mae": fm.MeanAbsoluteError}
    together, framed = (fm.MetricCollection.of_tasks(TASKS, made(metrics)) for _ in range(2))
    together.add(batch)
    framed.add_frame(pyarrow.table(batch))
    assert framed.compute() == pytest.approx(together.compute())


@pytest.mark.numpy_only
@pytest.mark.parametrize("metric, samples", [(fm.WordErrorRate(), "texts"), (fm.EntityF1(), "tags")])
def test_tasks_take_no_texts_and_say_what_does(metric, samples):
    told = rf"metrics\['one'\] takes {samples}, .*make a MetricCollection for each task"
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.MetricCollection.of_tasks({"a": {"prediction": "p", "label": "y"}}, {"one": metric})
