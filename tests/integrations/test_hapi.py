"""ModelMetric, GlobalValues and own_predictions in one process; tests/distributed/test_hapi.py has three."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle", reason="Paddle is not installed")

import fleetmetrics as fm  # noqa: E402
from fleetmetrics.integrations.hapi import GlobalValues, ModelMetric, own_predictions  # noqa: E402
from fleetmetrics.support.warning import warn  # noqa: E402

SCORES, CLICKS = np.float32([[0.9], [0.2], [0.6], [0.4], [0.3]]), np.int64([[1], [0], [0], [1], [0]])


class Records(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return {"n": len(results[0])}


def evaluated(*metrics: ModelMetric, callbacks: Any, verbose: int = 0) -> dict[str, Any]:
    data = paddle.io.TensorDataset([paddle.to_tensor(SCORES), paddle.to_tensor(CLICKS)])
    spec = paddle.static.InputSpec
    model = paddle.Model(paddle.nn.Identity(), spec([None, 1], "float32", "x"), spec([None, 1], "int64", "y"))
    model.prepare(metrics=list(metrics))
    return model.evaluate(data, batch_size=2, verbose=verbose, callbacks=callbacks)


class Steps(paddle.callbacks.Callback):
    """The logs after every batch, and at last."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, Any]] = []

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        self.seen.append(dict(logs))

    def on_eval_end(self, logs: Any = None) -> None:
        self.last = dict(logs)


def test_outputs_and_labels_are_what_add_takes_in_that_order() -> None:
    metrics = fm.MetricCollection({"auc": fm.ExactAUC(), "samples": fm.Count()}, prefix="held out ", postfix="!")
    assert evaluated(ModelMetric(metrics), callbacks=GlobalValues()) == {
        "held out auc!": 5 / 6,
        "held out samples!": 5,
    }


def test_the_logs_have_running_values_except_for_metrics_that_keep_every_sample_or_do_not_want_them() -> None:
    steps, told = Steps(), []
    callbacks = [steps, GlobalValues(report=lambda mode, values: told.append((mode, values)))]
    count, silent = ModelMetric(fm.Count(name="n")), ModelMetric(fm.Count(name="silent"), running=False)
    exact, records = ModelMetric(fm.ExactAUC(name="exact")), ModelMetric(Records())
    values = evaluated(count, silent, exact, records, callbacks=callbacks)
    assert [logs["n"] for logs in steps.seen] == [2, 4, 5]
    assert all(math.isnan(logs[name]) for logs in steps.seen for name in ("silent", "exact", "Records"))
    assert values == {"n": 5, "silent": 5, "exact": 5 / 6, "Records": {"n": 5}}
    assert told == [("eval", values)] and callbacks[1].values == {"eval": values}


@pytest.mark.parametrize("verbose", [1, 2])
def test_named_tuples_are_printed_and_what_is_in_them_can_be_watched(verbose: int) -> None:
    window, heard, told = fm.Windowed(fm.MeanAbsoluteError(), last=1, name="error"), Steps(), []
    callback = GlobalValues(report=lambda _, values: told.append(values["error"]))
    values = evaluated(ModelMetric(window), callbacks=[callback, heard], verbose=verbose)
    assert values["error"]["window"] == pytest.approx(0.3) and heard.last["error/window"] == values["error"]["window"]
    assert heard.last["fleetmetrics"]["error"].lifetime == values["error"]["lifetime"] == told[0].lifetime
    assert [set(logs["error"]) for logs in heard.seen] == [{"lifetime", "window"}] * 3


def test_an_undefined_running_value_does_not_warn() -> None:
    with pytest.warns() as warned:
        evaluated(
            ModelMetric(fm.AUC(name="auc"), feed=lambda x, y: {"prediction": x, "label": y * 0}),
            callbacks=GlobalValues(),
        )
    kinds = [each.category for each in warned]
    assert kinds.count(fm.UndefinedMetricWarning) == 1, "one at the end, and none for the three batches"


def test_it_waits_for_the_others_as_long_as_it_is_told() -> None:
    with pytest.raises(fm.InvalidInputError, match="timeout is -3"):
        evaluated(ModelMetric(fm.Count(name="n")), callbacks=GlobalValues(timeout=-3))


def test_a_callback_serves_several_models_and_each_keeps_its_own() -> None:
    callback = GlobalValues()
    for _ in range(2):
        assert evaluated(ModelMetric(fm.Count(name="n")), callbacks=callback) == {"n": 5}


def test_values_of_one_model_do_not_stand_in_the_logs_of_the_next() -> None:
    steps = Steps()
    for name in ("one", "other"):
        evaluated(ModelMetric(fm.Count(name=name)), callbacks=[steps, GlobalValues()])
    assert [set(logs) & {"one", "other"} for logs in steps.seen] == [{"one"}] * 3 + [{"other"}] * 3


def test_an_error_leaves_the_metric_ready_for_the_next_pass() -> None:
    wrong = [True]
    metric = ModelMetric(fm.Accuracy(name="a"), feed=lambda x, y: {"prediction": x, "label": y + 7 * wrong.pop()})
    steps = Steps()
    with pytest.raises(fm.InvalidInputError, match="label must be a class"):
        evaluated(metric, callbacks=[GlobalValues(), steps])
    assert steps.seen == [], "one worker keeps no other waiting: it gets the error at once"
    wrong += [False] * 3
    assert evaluated(metric, callbacks=GlobalValues()) == {"a": 0.6}


def test_an_object_that_is_not_a_metric_or_drops_padding_itself_is_refused() -> None:
    with pytest.raises(fm.InvalidInputError, match="metric is an Accuracy; it must be a metric, a collection"):
        ModelMetric(paddle.metric.Accuracy())
    sampler = paddle.io.DistributedBatchSampler(range(3), 2)
    with pytest.raises(fm.InvalidInputError, match="Records has a sampler; create it without"):
        ModelMetric(Records(sampler=sampler))


def test_switches_that_are_neither_true_nor_false_are_refused() -> None:
    for name in ("training", "running"):
        with pytest.raises(fm.InvalidInputError, match=f"{name} must be"):
            ModelMetric(fm.Count(), **{name: "no"})


def test_what_is_wrong_with_a_running_value_is_left_to_the_value_of_all_workers(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    metric = ModelMetric(fm.Count(name="n"))
    assert [math.isnan(value) for value in metric.accumulate()] == [True], "there is no value outside a pass"
    turns: list[int] = []

    def compute_local() -> int:
        turns.append(len(turns))
        if turns[-1] == 1:
            raise fm.InvalidInputError("not yet")
        warn("too few", fm.errors.BucketWarning)
        return 7

    steps = Steps()
    monkeypatch.setattr(metric.metric, "compute_local", compute_local)
    assert evaluated(metric, callbacks=[GlobalValues(), steps]) == {"n": 5}
    assert [str(logs["n"]) for logs in steps.seen] == ["7", "nan", "7"]
    assert not [each for each in recwarn if each.category is fm.errors.BucketWarning]


def test_a_reset_outside_a_pass_forgets_the_samples() -> None:
    metric = ModelMetric(fm.Count())
    metric.metric.add(SCORES)
    metric.reset()
    assert metric.metric.compute() == 0


def test_a_tuple_without_names_is_logged_by_its_places() -> None:
    class Pair(Records):
        def compute_metric(self, results: Any) -> Any:
            return len(results[0]), 2

    assert evaluated(ModelMetric(Pair()), callbacks=GlobalValues()) == {"Pair": {0: 5, 1: 2}}


def test_without_the_callback_there_is_no_value_of_one_worker() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"callbacks=\[fleetmetrics\.integrations\.hapi\.GlobalValues"):
        evaluated(ModelMetric(fm.Count(name="n")), callbacks=None)


def test_workers_unknown_to_paddle_are_an_error() -> None:
    class Three(fm.LocalCommunicator):
        world_size = 3

    with fm.set_communicator(Three()), pytest.raises(
        fm.InvalidInputError,
        match=r"by which paddle\.Model splits its data, is 1, but the channel has 3 workers",
    ):
        evaluated(ModelMetric(fm.Count(name="n")), callbacks=GlobalValues())


def test_predictions_that_are_not_the_loaders_are_refused() -> None:
    loader = paddle.io.DataLoader(range(5), batch_sampler=paddle.io.DistributedBatchSampler(range(5), 2))
    with pytest.raises(fm.InvalidInputError, match="outputs have 4 rows, but each of 1 workers gets 5"):
        own_predictions([np.zeros(4)], loader)
    with pytest.raises(fm.InvalidInputError, match="outputs have 4, 5 rows"):
        own_predictions([np.zeros(5), np.zeros(4)], loader)
    with pytest.raises(fm.InvalidInputError, match="not divided among 1 workers"):
        own_predictions([np.zeros(5)], [1, 2])


def test_predictions_of_a_shuffled_pass_come_with_their_samples() -> None:
    sampler = paddle.io.DistributedBatchSampler(range(5), 2, shuffle=True)
    dealt = [index for batch in sampler for index in batch]
    (values,), samples = own_predictions([np.array(dealt) / 8], paddle.io.DataLoader(range(5), batch_sampler=sampler))
    assert samples.tolist() == dealt and (values * 8).tolist() == dealt != sorted(dealt)


DEALS = [(10, 2, 3), (13, 2, 3), (7, 3, 3), (2, 4, 3), (9, 4, 2), (5, 5, 4)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("size", "batch", "workers"), DEALS)
def test_of_the_predictions_of_all_workers_each_finds_its_own_also_where_the_last_step_is_short(
    monkeypatch: pytest.MonkeyPatch, size: int, batch: int, workers: int, shuffle: bool
) -> None:
    """On devices hapi gathers each step of predict, rank after rank; elsewhere it returns this worker's rows."""
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", str(workers))

    def loader(rank: int) -> Any:
        sampler = paddle.io.DistributedBatchSampler(range(size), batch, workers, rank, shuffle)
        return paddle.io.DataLoader(range(size), batch_sampler=sampler)

    samplers = [loader(rank).batch_sampler for rank in range(workers)]
    own = [[np.array(step) / 8 for step in [*sampler, *sampler][-len(sampler) :]] for sampler in samplers]
    steps = [np.concatenate(step) for step in zip(*own)]
    scored = []
    for rank in range(workers):
        held_out = loader(rank)
        list(held_out.batch_sampler), list(held_out.batch_sampler)  # predict's is the second epoch of this sampler
        for given in (steps, np.concatenate(steps), own[rank]):
            (values,), samples = own_predictions([given], held_out)
            assert (values * 8).tolist() == samples.tolist()
        scored += samples.tolist()
    assert sorted(scored) == list(range(size))
    with pytest.raises(fm.InvalidInputError, match=f"outputs have .* rows, but each of {workers} workers gets"):
        own_predictions([np.zeros(len(own[0]) * batch * workers + 1)], loader(0))


def test_a_group_finds_its_own_among_the_predictions_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three workers share nine samples, the other has five for itself."""
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")

    def loader(rank: int) -> Any:
        size, workers, place = (5, 1, 0) if rank == 1 else (9, 2, rank // 2)
        sampler = paddle.io.DistributedBatchSampler(range(size), 2, workers, place)
        return paddle.io.DataLoader(range(size), batch_sampler=sampler)

    own = [[np.array(step) / 8 for step in loader(rank).batch_sampler] for rank in range(3)]
    steps = [np.concatenate(step) for step in zip(*own)]
    scored = []
    for rank in range(3):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
        for given in (steps, own[rank]):
            (values,), samples = own_predictions([given], loader(rank), group=[1] if rank == 1 else [0, 2])
            assert (values * 8).tolist() == samples.tolist()
        scored.append(samples.tolist())
    assert sorted(scored[0] + scored[2]) == list(range(9)) and scored[1] == list(range(5))


def test_of_a_sampler_of_ones_own_nobody_knows_the_order_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(paddle.io.DistributedBatchSampler):
        def __iter__(self) -> Any:
            return super().__iter__()

    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    loader = paddle.io.DataLoader(range(6), batch_sampler=Own(range(6), 2, 3, 0))
    with pytest.raises(fm.InvalidInputError, match="outputs have 6 rows, but each of 3 workers gets 2"):
        own_predictions([np.zeros(6)], loader)


class Leaving(fm.LocalCommunicator):
    """Notes the calls that an interruption keeps this worker from."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def _leave(self, call: Any, error: BaseException | None) -> None:
        super()._leave(call, error)
        if error is not None:
            self.calls.append(call.name)


class InterruptedCount(fm.Count):
    """Ctrl-C comes before the exchange."""

    def _check_pass(self, *_: Any) -> str:
        raise KeyboardInterrupt


def test_an_interruption_of_an_evaluation_counts_as_the_call_for_which_the_others_wait(monkeypatch: Any) -> None:
    with fm.set_communicator(Leaving()) as channel:
        with pytest.raises(KeyboardInterrupt):
            evaluated(ModelMetric(InterruptedCount(name="n")), callbacks=GlobalValues())
        assert channel.calls == ["InterruptedCount n"]

        def interrupted(*_: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr("fleetmetrics.integrations.hapi._Pass", interrupted)
        monkeypatch.setattr("fleetmetrics.integrations.hapi._gathers", lambda *_: True)  # as with several workers
        with pytest.raises(KeyboardInterrupt):
            evaluated(ModelMetric(fm.Count(name="n")), callbacks=GlobalValues())
        assert channel.calls == ["InterruptedCount n", "Model.evaluate"]
