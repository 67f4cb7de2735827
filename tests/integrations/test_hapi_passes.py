"""What each worker adds of the rows that paddle.Model hands over: each sample once, in every mode, one rank at a time.

A stand-in deals and hands over as paddle.Model does; tests/distributed/test_hapi.py has the real one on three workers.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

paddle = pytest.importorskip("paddle", reason="Paddle is not installed")

import fleetmetrics as fm  # noqa: E402
from fleetmetrics.integrations.hapi import GlobalValues, ModelMetric  # noqa: E402

#: Samples, rows in a batch and workers; the last steps are full, short, and nothing but padding on some workers.
DEALS = [(12, 2, 3), (10, 2, 3), (13, 2, 3), (7, 3, 3), (2, 4, 3), (9, 4, 2), (21, 3, 4)]
in_deals = pytest.mark.parametrize(("size", "batch", "workers"), DEALS)


class DynamicGraphAdapter:
    """One that gathers, and counts how much it has gathered."""

    def __init__(self) -> None:
        self._merge_count = {"eval_total": 5}  # of an evaluation that ended early


class StaticGraphAdapter(DynamicGraphAdapter):
    """That of the legacy graph."""


class StaticPIRGraphAdapter(DynamicGraphAdapter):
    """One that does not gather."""


class Model:
    """paddle.Model as one of its workers, whose samples are the powers of two of their indices."""

    def __init__(self, adapter: Callable[[], Any], *metrics: Any, steps: int | None = None) -> None:
        self._adapter, self._metrics, self.steps, self.stop_training = adapter(), list(metrics), steps, True
        self.change: Callable[[np.ndarray], list[np.ndarray]] = lambda rows: [rows]

    def _metrics_name(self) -> list[str]:
        return ["loss", *(name for metric in self._metrics for name in list(metric.name()))]

    def _run_one_epoch(self, loader: Any, callbacks: Any, mode: str, logs: Any) -> Any:
        samplers = [loader.batch_sampler, *loader.others] if hasattr(loader, "others") else [loader.batch_sampler]
        dealt = sorted(((each.local_rank, list(each)) for each in samplers), key=lambda pair: pair[0])
        own, counts = samplers[0].local_rank, self._adapter._merge_count
        for step in range(len(dealt[own][1]))[: self.steps]:
            rows = np.array(dealt[own][1][step])
            if mode == "eval" and type(self._adapter) is not StaticPIRGraphAdapter:
                rows = np.concatenate([steps[step] for _, steps in dealt])
                rows = rows[: len(loader.dataset) - counts["eval_total"]]
                counts["eval_total"] += len(rows)
            for metric in self._metrics:
                metric.update(*self.change(2.0**rows))
        return logs


def loader_of(size: int, batch: int, workers: int, rank: int, shuffle: bool = False, **settings: Any) -> Any:
    sampler = paddle.io.DistributedBatchSampler
    ranks = [rank, *(each for each in range(workers) if each != rank)]
    own, *others = [sampler(range(size), batch, workers, each, shuffle, **settings) for each in ranks]
    loader = paddle.io.DataLoader(range(size), batch_sampler=own)
    loader.others = others
    return loader


@pytest.fixture
def total(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """What each pass adds up to over all workers."""

    def found(size: int, batch: int, workers: int, *modes: str, **given: Any) -> list[float]:
        adapter, steps = given.pop("adapter", DynamicGraphAdapter), given.pop("steps", None)
        beside = given.pop("beside", ())
        sums = np.zeros(len(modes))
        for rank in range(workers):
            monkeypatch.setenv("PADDLE_TRAINERS_NUM", str(workers))
            monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
            channel = fm.LocalCommunicator()
            channel.rank, channel.world_size = rank, workers
            with fm.set_communicator(channel):
                model, callback = Model(adapter, ModelMetric(fm.Sum(name="bits")), *beside, steps=steps), GlobalValues()
                callback.set_model(model)
                callback.on_train_begin()
                assert model.stop_training is False
                loader = loader_of(size, batch, workers, rank, **given)
                for place, mode in enumerate(modes):
                    logs = model._run_one_epoch(loader, None, mode)
                    assert callback.values[mode] == {"bits": logs["bits"]} == logs["fleetmetrics"]
                    sums[place] += logs["bits"]
        return sums.tolist()

    return found


@in_deals
@pytest.mark.parametrize("adapter", [DynamicGraphAdapter, StaticGraphAdapter, StaticPIRGraphAdapter])
def test_each_sample_counts_once_in_an_evaluation(
    total: Any, size: int, batch: int, workers: int, adapter: Any
) -> None:
    assert total(size, batch, workers, "eval", "eval", adapter=adapter) == [2.0**size - 1] * 2


@in_deals
@pytest.mark.parametrize("adapter", [DynamicGraphAdapter, StaticGraphAdapter])
def test_each_sample_counts_once_in_a_shuffled_evaluation(
    total: Any, size: int, batch: int, workers: int, adapter: Any
) -> None:
    assert total(size, batch, workers, "eval", "eval", adapter=adapter, shuffle=True) == [2.0**size - 1] * 2


@in_deals
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_sample_counts_once_in_every_epoch(total: Any, size: int, batch: int, workers: int, shuffle: bool) -> None:
    assert total(size, batch, workers, "train", "train", "train", shuffle=shuffle) == [2.0**size - 1] * 3


@in_deals
def test_a_pass_that_ends_early_counts_what_was_dealt_by_then(total: Any, size: int, batch: int, workers: int) -> None:
    begun = 2.0 ** min(size, batch * workers) - 1
    assert total(size, batch, workers, "eval", "eval", steps=1) == [begun, begun]
    shuffled = [loader_of(size, batch, workers, rank, shuffle=True).batch_sampler for rank in range(workers)]
    dealt = {index for sampler in shuffled for index in next(iter(sampler))}
    assert total(size, batch, workers, "train", steps=1, shuffle=True) == [sum(2.0**index for index in dealt)]


class Theirs(paddle.metric.Metric):
    """A metric of Paddle's kind, for which Paddle cuts off the padding of an evaluation."""

    def name(self) -> list[str]:
        return ["theirs"]

    def update(self, *arrays: np.ndarray) -> None: ...

    def reset(self) -> None: ...

    def accumulate(self) -> float:
        return 0.0


@in_deals
def test_beside_metrics_of_paddle_each_sample_counts_once(total: Any, size: int, batch: int, workers: int) -> None:
    assert total(size, batch, workers, "eval", "eval", beside=[Theirs()]) == [2.0**size - 1] * 2
    assert total(size, batch, workers, "train", beside=[Theirs()], shuffle=True) == [2.0**size - 1]
    assert total(12, 2, 3, "eval", beside=[Theirs()], shuffle=True) == [2.0**12 - 1], "there is no padding to cut off"


def test_a_sampler_that_drops_the_rest_has_no_padding_to_leave_out(total: Any) -> None:
    assert total(12, 2, 3, "eval", "train", drop_last=True) == [2.0**12 - 1] * 2
    assert total(12, 2, 3, "eval", shuffle=True) == [2.0**12 - 1]


def alone(rank: int, workers: int) -> Any:
    channel: Any = fm.LocalCommunicator()
    channel.rank, channel.world_size = rank, workers
    return channel


def told(monkeypatch: pytest.MonkeyPatch, model: Model, loader: Any, mode: str = "eval", group: Any = None) -> str:
    """The error of a pass on the second of three workers."""
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    channel = fm.LocalCommunicator()
    channel.rank, channel.world_size = 1, 3
    channel._among = lambda ranks: alone(ranks.index(1), len(ranks))
    GlobalValues(group=group).set_model(model)
    with fm.set_communicator(channel), pytest.raises(fm.InvalidInputError) as error:
        model._run_one_epoch(loader, None, mode)
    own = [each for each in model._metrics if isinstance(each, ModelMetric)]
    assert all(metric._pass is None and metric._trouble is None for metric in own)
    assert model._adapter._merge_count["eval_total"] >= 0
    return str(error.value)


class Backwards(paddle.io.DistributedBatchSampler):
    """Deals as Paddle's own, and hands out the other way round."""

    def __iter__(self) -> Any:
        return reversed(list(super().__iter__()))


def test_ambiguous_batches_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def bits() -> ModelMetric:
        return ModelMetric(fm.Sum(name="bits"))

    plain = paddle.io.DataLoader(range(10), batch_size=2)
    other = paddle.io.DataLoader(range(10), batch_sampler=Backwards(range(10), 2, 3, 1))
    theirs, not_these = paddle.metric.Accuracy(), "cuts off the last samples as padding, which are not the padding"
    dynamic, legacy = DynamicGraphAdapter, StaticGraphAdapter
    for mode in ("eval", "train"):
        assert "not divided among 3 workers" in told(monkeypatch, Model(dynamic, bits()), plain, mode)
        four = loader_of(10, 2, 4, 1)
        assert "not divided among 3 workers" in told(monkeypatch, Model(dynamic, bits()), four, mode)
    assert not_these in told(monkeypatch, Model(dynamic, bits(), theirs), loader_of(10, 2, 3, 1, shuffle=True))
    assert not_these in told(monkeypatch, Model(dynamic, bits(), theirs), other)
    two = told(monkeypatch, Model(legacy, bits(), theirs), loader_of(10, 2, 3, 1))
    assert "has its own metrics (Accuracy), for which" in two and "once for each of its metrics" in two
    two = told(monkeypatch, Model(dynamic, bits(), theirs), loader_of(10, 2, 2, 0), group=[1, 2])
    assert "beyond the size of the data set, regardless of groups; evaluate with every metric in a ModelMetric" in two
    assert "not divided among 2 workers" in told(
        monkeypatch, Model(dynamic, bits()), loader_of(10, 2, 3, 1), group=[1, 2]
    )
    assert "which is not in it" in told(monkeypatch, Model(dynamic, bits()), loader_of(10, 2, 3, 1), group=[0, 2])
    assert "logged under the same name, among loss, bits, bits" in told(
        monkeypatch, Model(dynamic, bits(), bits()), loader_of(10, 2, 3, 1)
    )
    loss = ModelMetric(fm.MetricCollection({"loss": fm.MeanSquaredError()}, name="losses"))
    assert (
        "'loss', under which paddle.Model logs its own loss, that of this worker's last batch; give the metric"
        in told(monkeypatch, Model(dynamic, bits(), loss), loader_of(10, 2, 3, 1))
    )
    for change in (lambda rows: [rows, rows[1:]], lambda rows: [np.repeat(rows, 2)], lambda rows: [rows[0]]):
        for mode in ("eval", "train"):
            model = Model(dynamic, bits())
            model.change = change  # type: ignore[assignment]
            assert "rows, but " in told(monkeypatch, model, loader_of(10, 2, 3, 1), mode)


def test_a_metric_that_leaves_training_out_adds_and_reports_nothing_there(total: Any) -> None:
    trained, evaluated = ModelMetric(fm.Sum(name="a")), ModelMetric(fm.Sum(name="b"), training=False)
    model, callback = Model(DynamicGraphAdapter, trained, evaluated), GlobalValues()
    callback.set_model(model)
    loader = loader_of(4, 2, 1, 0)
    assert set(model._run_one_epoch(loader, None, "train")) == {"a", "fleetmetrics"}
    model._adapter._merge_count["eval_total"] = 0
    logs = model._run_one_epoch(loader, None, "eval")
    assert (logs["a"], logs["b"]) == (15, 15)
    assert callback.values == {"train": {"a": 15}, "eval": {"a": 15, "b": 15}}


def test_a_sampler_of_another_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    channel = fm.LocalCommunicator()
    channel.rank, channel.world_size = 1, 3
    with fm.set_communicator(channel):
        model, callback = Model(DynamicGraphAdapter, ModelMetric(fm.Sum())), GlobalValues()
        callback.set_model(model)
        with pytest.raises(fm.InvalidInputError, match="is for rank 2 of 3, but this worker is rank 1 of 3"):
            model._run_one_epoch(loader_of(7, 2, 3, 2), None, "eval")


class Noting(fm.LocalCommunicator):
    """The second of three workers, who writes down what it says, and the groups that it works in."""

    def __init__(self) -> None:
        super().__init__()
        self.rank, self.world_size = 1, 3
        self.said: dict[str, Any] = {}

    def _consult(self, call: str, decide: Any, mine: Any, *rest: Any) -> Any:
        self.said[call] = mine.note
        return super()._consult(call, decide, mine, *rest)

    def _among(self, ranks: Any) -> Any:
        return alone(ranks.index(1), len(ranks))


def test_a_group_computes_its_own_values_once_all_workers_said_how_many_rows_they_evaluate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    asked: list[Any] = []

    class Ours(fm.Sum):
        def compute(self, *, group: Any = None, **more: Any) -> Any:
            asked.append(group)
            return super().compute(group=group, **more)

    channel, model = Noting(), Model(DynamicGraphAdapter, ModelMetric(Ours(name="bits")), steps=0)
    GlobalValues(group=[1, 2]).set_model(model)
    with fm.set_communicator(channel):
        model._run_one_epoch(loader_of(9, 2, 2, 0), None, "eval")
    assert channel.said["Model.evaluate"] == [5, 2] and asked == [[1, 2]]


@pytest.fixture
def second_of_three(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    with fm.set_communicator(alone(1, 3)):
        yield


def test_a_worker_with_an_error_goes_on_and_tells_the_first_one_at_the_end(second_of_three: Any) -> None:
    asked: list[int] = []

    def feed(rows: np.ndarray) -> Any:
        asked.append(len(rows))
        raise (ValueError("the first"), KeyError("a later one"))[len(asked) > 1]

    model = Model(DynamicGraphAdapter, ModelMetric(fm.Sum(), feed=feed))
    steps: list[int] = []
    model.change = lambda rows: [steps.append(len(rows)) or rows]  # type: ignore[func-returns-value]
    GlobalValues().set_model(model)
    with pytest.raises(Exception, match="the first"):
        model._run_one_epoch(loader_of(12, 2, 3, 1), None, "train")
    assert steps == [2, 2] and asked == [2], "the others wait for no batch of it"


def test_feed_gets_no_batch_without_rows_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "2")
    asked: list[int] = []
    metric = ModelMetric(fm.Sum(name="bits"), feed=lambda rows: asked.append(len(rows)) or {"value": rows})
    model = Model(DynamicGraphAdapter, metric)
    GlobalValues().set_model(model)
    with fm.set_communicator(alone(2, 3)):
        assert model._run_one_epoch(loader_of(2, 4, 3, 2), None, "eval")["bits"] == 0
    assert asked == []


@pytest.mark.parametrize("workers", [1, 3])
def test_training_that_is_left_out_needs_no_dealt_data_and_shows_no_values(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", str(workers))
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    asked: list[Any] = []
    shown: list[str] = []
    metric = ModelMetric(fm.Sum(), feed=asked.append, training=False)  # type: ignore[arg-type]
    model = Model(DynamicGraphAdapter, metric)
    model.change = lambda rows: [shown.append(str(metric.accumulate())) or rows]  # type: ignore[func-returns-value]
    GlobalValues().set_model(model)
    plain = paddle.io.DataLoader(range(4), batch_sampler=Backwards(range(4), 2, 1, 0))
    with fm.set_communicator(alone(0, workers)):
        assert model._run_one_epoch(plain, None, "train") == {"fleetmetrics": {}}
    assert asked == [] and shown == ["[nan]"] * 2


def test_passes_without_values_are_left_to_paddle(second_of_three: Any) -> None:
    plain = paddle.io.DataLoader(range(4), batch_size=2)
    for mode, model in {
        "predict": Model(DynamicGraphAdapter, ModelMetric(fm.Sum()), steps=0),
        "eval": Model(DynamicGraphAdapter, Theirs(), steps=0),
    }.items():
        GlobalValues().set_model(model)
        model._adapter._merge_count["eval_total"] = 0
        plain.batch_sampler.local_rank = 0
        assert model._run_one_epoch(plain, None, mode) == {}


def test_a_channel_of_one_worker_in_a_job_of_three_has_the_rows_of_this_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    model = Model(DynamicGraphAdapter, ModelMetric(fm.Sum(name="bits")))
    GlobalValues().set_model(model)
    with fm.set_communicator(fm.LocalCommunicator()):
        logs = model._run_one_epoch(loader_of(6, 2, 3, 1), None, "eval")
    assert logs["bits"] == sum(2.0**index for step in loader_of(6, 2, 3, 1).batch_sampler for index in step)
