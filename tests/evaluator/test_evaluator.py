"""What an `Evaluator` promises in one process: MMEngine's contract, and where fleetmetrics keeps it better."""

from __future__ import annotations

import inspect
import logging
import warnings
from types import SimpleNamespace
from typing import Any, Iterator

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import METRICS, BaseMetric, Evaluator
from tests.evaluator.metrics_of_the_tests import Failing, Seen, Total

#: Fewer samples than were added are asked for here; that there is a warning is another test's promise.
pytestmark = pytest.mark.filterwarnings("ignore:.* cut off:UserWarning")


@pytest.fixture
def registered() -> Iterator[None]:
    METRICS.register_module(name="Seen of this test", module=Seen)
    yield
    del METRICS.module_dict["Seen of this test"]


def warnings_in(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if (r.name, r.levelname) == ("fleetmetrics", "WARNING")]


# -- a metric alone --------------------------------------------------------------------------------------


def test_a_metric_is_made_as_in_mmengine() -> None:
    metric = Seen("gpu", "mine")
    assert (metric.collect_device, metric.prefix, metric.collect_dir, metric.results) == ("gpu", "mine", None, [])
    assert metric.dataset_meta is None
    assert Seen("cpu", None, "/tmp/here").collect_dir == "/tmp/here"
    assert Seen(collect_device="npu", prefix="", collect_dir=None).prefix == "seen"
    assert list(inspect.signature(BaseMetric.process).parameters) == ["self", "data_batch", "data_samples"]
    assert list(inspect.signature(BaseMetric.compute_metrics).parameters) == ["self", "results"]
    metric.dataset_meta = meta = {"classes": 3}
    assert metric.dataset_meta is meta


def test_arguments_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="collect_dir needs collect_device='cpu', not 'gpu'"):
        Seen("gpu", collect_dir="/tmp/here")
    with pytest.raises(NotImplementedError, match="collect_device must be 'cpu', 'gpu' or 'npu', not 'tpu'"):
        Seen("tpu")


@pytest.mark.parametrize("missing", ["process", "compute_metrics"])
def test_a_class_without_a_method_cannot_be_instantiated(missing: str) -> None:
    names = {"process", "compute_metrics"} - {missing}
    kind: Any = type("Half", (BaseMetric,), {name: getattr(Seen, name) for name in names})
    with pytest.raises(TypeError, match=f"Can't instantiate abstract class Half with abstract method {missing}"):
        kind()


def test_the_prefix_is_put_before_the_names() -> None:
    for metric, names in [
        (Seen(), ["seen/records", "seen/n"]),
        (Seen(prefix="mine"), ["mine/records", "mine/n"]),
        (Seen(prefix="a/b"), ["a/b/records", "a/b/n"]),
    ]:
        metric.process(None, [1])
        assert list(metric.evaluate(1)) == names


def test_without_a_prefix_it_warns_and_the_names_stay(caplog: Any) -> None:
    class Nameless(Seen):
        default_prefix = None

    metric = Nameless()
    assert metric.prefix is None
    assert warnings_in(caplog) == ["The prefix is not set in metric class Nameless."]
    metric.process(None, [1])
    assert metric.evaluate(1) == {"records": [1], "n": 1}


def test_without_results_it_warns_and_computes(caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "fleetmetrics")
    assert Seen().evaluate(0) == {"seen/records": [], "seen/n": 0}
    text = "Seen got empty `self.results`. Please ensure that the processed results are properly added into"
    assert warnings_in(caplog) == [f"{text} `self.results` in `process` method."]


def test_a_metric_that_keeps_nothing_in_results_is_an_error_where_there_should_be_records() -> None:
    """What it keeps elsewhere cannot become global: MMEngine gives the value of worker 0."""

    class Counting(Seen):
        def process(self, data_batch: Any, data_samples: Any) -> None:
            self.n = getattr(self, "n", 0) + len(data_samples)

        def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
            return {"n": self.n}

    evaluator = Evaluator(Counting())
    evaluator.process([1, 2, 3])
    with pytest.raises(fm.InvalidInputError, match="Counting: size is 3, but 0 records were added"):
        evaluator.evaluate(3)


def test_none_is_a_record_and_size_cuts_the_end() -> None:
    metric = Seen()
    metric.process(None, [None, 1, None, 2])
    assert metric.evaluate(3) == {"seen/records": [None, 1, None], "seen/n": 3}
    assert metric.results == []


@pytest.mark.parametrize("size", [5, -1, "4", 2.0, True])
def test_a_size_that_does_not_fit_is_an_error_and_the_results_stay(size: Any) -> None:
    metric = Seen()
    metric.process(None, [1, 2, 3, 4])
    with pytest.raises(fm.InvalidInputError, match="size is"):
        metric.evaluate(size)
    assert metric.results == [1, 2, 3, 4]
    assert metric.evaluate()["seen/n"] == 4


def test_results_stay_when_it_fails_and_go_when_it_does_not() -> None:
    metric = Failing()
    metric.process(None, [1, 2])
    for evaluate in (metric.evaluate, Evaluator(metric, collect_mode="cat").evaluate):
        with pytest.raises(ValueError, match="no labels") as raised:
            evaluate(2)
        assert raised.value is metric.error
        assert metric.results == [1, 2]
    metric.error = None
    assert metric.evaluate(2)["seen/n"] == 2
    assert metric.results == []


def test_tensors_reach_compute_metrics() -> None:
    metric = Seen()
    metric.process(None, [{"score": paddle.to_tensor([0.5]), "rest": [(paddle.to_tensor(1), "a")]}])
    (record,) = metric.evaluate(1)["seen/records"]
    assert record["score"].place.is_cpu_place()
    assert (record["score"].tolist(), record["rest"][0][0].item(), record["rest"][0][1]) == ([0.5], 1, "a")


# -- an evaluator ----------------------------------------------------------------------------------------


def test_metrics_may_be_one_or_several_objects_or_configurations(registered: None) -> None:
    config = dict(type="Seen of this test", prefix="b")
    for metrics, prefixes in [
        (Seen(), ["seen"]),
        (config, ["b"]),
        ([Seen(prefix="a"), config], ["a", "b"]),
        ((dict(type=Seen, prefix="c"), Total()), ["c", "total"]),
        ([], []),
    ]:
        evaluator = Evaluator(metrics)
        assert [metric.prefix for metric in evaluator.metrics] == prefixes
    assert config == dict(type="Seen of this test", prefix="b")


def test_an_unknown_type_lists_the_known_ones(registered: None) -> None:
    with pytest.raises(
        KeyError, match=r"Sen of this test is not in the metric registry.*did you mean 'Seen of this"
    ) as e:
        Evaluator(dict(type="Sen of this test"))
    assert "DumpResults" in str(e.value)
    with pytest.raises(fm.UnknownNameError, match="collect_mode is 'zip'"):
        Evaluator(Seen(), collect_mode="zip")
    with pytest.raises(fm.InvalidInputError, match="sampler is a BatchSampler without"):
        Evaluator(Seen(), sampler=paddle.io.BatchSampler(range(3)))


def test_dataset_meta_goes_to_every_metric() -> None:
    evaluator = Evaluator([Seen(), Total()])
    assert evaluator.dataset_meta is None
    evaluator.dataset_meta = meta = {"classes": 3}
    assert all(each.dataset_meta is meta for each in [evaluator, *evaluator.metrics])


def test_a_batch_may_be_a_dict_of_columns() -> None:
    evaluator = Evaluator(Seen())
    evaluator.process(dict(score=np.array([[0.5, 0.25], [1.0, 2.0]]), label=paddle.to_tensor([3, 4]), name=["a", "b"]))
    (_, samples), *_ = evaluator.metrics[0].batches
    assert [list(sample) for sample in samples] == [["score", "label", "name"]] * 2
    assert [sample["score"].tolist() for sample in samples] == [[0.5, 0.25], [1.0, 2.0]]
    assert [(int(sample["label"]), sample["name"]) for sample in samples] == [(3, "a"), (4, "b")]
    for wrong, text in [(dict(a=[1], b=[1, 2]), "equal length"), (np.zeros(3), "data_samples is ndarray; give a dict")]:
        with pytest.raises(fm.InvalidInputError, match=text):
            evaluator.process(wrong)
    assert len(evaluator.evaluate(2)["seen/records"]) == 2


def test_compute_local_gives_the_values_of_this_worker_and_changes_nothing() -> None:
    sampler = paddle.io.DistributedBatchSampler(range(7), 3, num_replicas=2, rank=1)
    evaluator = Evaluator([Seen(), Total()], sampler=sampler)
    evaluator.process([1, 2, 3])
    for _ in range(2):
        assert evaluator.evaluate_local() == {"seen/records": [1, 2, 3], "seen/n": 3, "total/sum": 6, "total/top": 3}


def test_a_pass_that_was_given_up_is_forgotten() -> None:
    sampler = paddle.io.DistributedBatchSampler(range(4), 2, num_replicas=1, rank=0, shuffle=True)
    evaluator = Evaluator([Seen(), Total()], sampler=sampler)
    for batch in sampler:
        evaluator.process(batch)
        break
    evaluator.reset()
    assert [metric.results for metric in evaluator.metrics] == [[], []]
    for batch in sampler:
        evaluator.process(batch)
    assert evaluator.evaluate()["seen/records"] == [0, 1, 2, 3]


def test_objects_with_to_dict_arrive_as_dicts() -> None:
    class Sample:
        def to_dict(self) -> dict[str, Any]:
            return {"label": 3}

    evaluator = Evaluator([Seen(prefix="a"), Seen(prefix="b")])
    evaluator.process(data_samples=[Sample(), {"label": 4}, 5], data_batch="batch")
    evaluator.process((6,))
    for metric in evaluator.metrics:
        assert metric.batches == [("batch", [{"label": 3}, {"label": 4}, 5]), (None, [6])]
    assert evaluator.evaluate(size=4)["a/n"] == 4


def test_the_values_of_all_metrics_come_in_one_dict() -> None:
    evaluator = Evaluator([Seen(), Total()])
    evaluator.process([3, 1])
    evaluator.process([2])
    assert evaluator.evaluate(3) == {"seen/records": [3, 1, 2], "seen/n": 3, "total/sum": 6, "total/top": 3}
    assert [metric.results for metric in evaluator.metrics] == [[], []]
    evaluator.process([4])
    assert evaluator.evaluate()["total/sum"] == 4


def test_two_metrics_of_one_name_are_an_error_and_the_results_stay() -> None:
    evaluator = Evaluator([Seen(), Seen()])
    evaluator.process([1])
    text = "There are multiple evaluation results with the same metric name seen/records. Please make sure all metrics"
    with pytest.raises(ValueError, match=f"{text} have different prefixes$"):
        evaluator.evaluate(1)
    assert [metric.results for metric in evaluator.metrics] == [[1], [1]]


def test_one_metric_that_fails_leaves_the_results_of_all() -> None:
    evaluator = Evaluator([Seen(prefix="a"), Failing(), Total()])
    evaluator.process([1, 2])
    with pytest.raises(ValueError, match="no labels"):
        evaluator.evaluate(2)
    assert [metric.results for metric in evaluator.metrics] == [[1, 2]] * 3
    evaluator.metrics[1].error = None
    assert evaluator.evaluate(2)["a/n"] == 2
    assert [metric.results for metric in evaluator.metrics] == [[]] * 3


def test_metrics_of_another_family_take_part() -> None:
    """MMEngine needs no more of a metric than ``process`` and ``evaluate``."""

    class Own:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def process(self, data_batch: Any, data_samples: Any) -> None:
            self.seen += data_samples

        def evaluate(self, size: int) -> dict[str, Any]:
            return {"own": (size, self.seen)}

    evaluator = Evaluator([Seen(), Own()])  # type: ignore[list-item]
    evaluator.process([1, 2])
    assert evaluator.evaluate(2) == {"seen/records": [1, 2], "seen/n": 2, "own": (2, [1, 2])}


class Renaming(Seen):
    def evaluate(self, size: Any = None, **options: Any) -> dict[str, Any]:
        return {name.upper(): value for name, value in super().evaluate(size, **options).items()}


def test_the_evaluator_calls_an_overridden_evaluate() -> None:
    evaluator = Evaluator([Renaming(), Total()])
    for _ in range(2):
        evaluator.process([1, 2])
        assert list(evaluator.evaluate(2)) == ["SEEN/RECORDS", "SEEN/N", "total/sum", "total/top"]
        assert evaluator.metrics[0].results == []


def test_a_metric_that_overrides_evaluate_keeps_its_records_if_asked_to() -> None:
    evaluator = Evaluator([Renaming(), Seen()])
    evaluator.process([1, 2])
    assert evaluator.evaluate_local() == evaluator.evaluate_local()
    assert [metric.results for metric in evaluator.metrics] == [[1, 2], [1, 2]]
    evaluator.reset()
    assert [metric.results for metric in evaluator.metrics] == [[], []]


def test_batches_that_did_not_come_through_the_evaluator_are_noticed() -> None:
    evaluator = Evaluator(Seen())
    evaluator.process([1, 2])
    evaluator.metrics[0].results.append(3)
    with pytest.raises(fm.InvalidInputError, match=r"Seen has 3 results, but only 2 of them came from process"):
        evaluator.evaluate(3)
    for mode in ("unzip", "cat"):
        evaluator.collect_mode = mode
        with pytest.raises(fm.InvalidInputError, match="size is 4"):
            evaluator.evaluate(4)
    assert evaluator.evaluate(3)["seen/records"] == [1, 2, 3]


@pytest.mark.parametrize("forget", ["clear", "evaluate"])
def test_results_that_are_forgotten_by_hand_are_forgotten(forget: str) -> None:
    """As scripts for MMEngine do it."""
    evaluator = Evaluator([Seen(), Total()])
    evaluator.process([1, 2])
    for metric in evaluator.metrics:
        metric.results.clear() if forget == "clear" else metric.evaluate(2)
    evaluator.process([3])
    evaluator.process([4, 5])
    assert evaluator.evaluate(3) == {"seen/records": [3, 4, 5], "seen/n": 3, "total/sum": 12, "total/top": 5}


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_sampler_puts_the_records_into_the_order_of_the_data_set(shuffle: bool) -> None:
    sampler = paddle.io.DistributedBatchSampler(range(7), 3, num_replicas=1, rank=0, shuffle=shuffle)
    evaluator = Evaluator([Seen(), Total()], sampler=sampler)
    for _ in range(3):
        for batch in sampler:
            evaluator.process(batch)
        assert evaluator.evaluate(7)["seen/records"] == list(range(7))
    evaluator.process([1])
    with pytest.raises(fm.InvalidInputError, match="Seen: 1 record for the 7 samples that the sampler assigns"):
        evaluator.evaluate(7)


# -- scripts as they are ---------------------------------------------------------------------------------


class DataSample:
    """As MMPretrain's: it has no items, and knows how to become a dict."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self.fields


@pytest.mark.parametrize(
    ("config", "fields", "values"),
    [
        ({"type": "Accuracy"}, {"pred_score": [0.1, 0.9], "gt_label": 1}, [100.0]),
        ({"type": "SingleLabelMetric", "items": ["recall"]}, {"pred_score": [0.1, 0.9], "gt_label": 1}, [50.0]),
        ({"type": "ConfusionMatrix"}, {"pred_label": 1, "gt_label": 1, "num_classes": 2}, [[[0, 0], [0, 1]]]),
        (
            {"type": "MultiLabelMetric", "thr": 0.5, "items": ["recall"], "average": "micro"},
            {"pred_label": [1], "gt_score": [0, 1]},
            [100.0],
        ),
        (
            {"type": "AveragePrecision", "average": None},
            {"pred_score": [0.1, 0.9], "gt_score": [1, 1]},
            [[100.0, 100.0]],
        ),
        ({"type": "RetrievalRecall", "topk": 1}, {"pred_score": [0.1, 0.9], "gt_label": [1]}, [100.0]),
        ({"type": "RetrievalAveragePrecision", "topk": 1}, {"pred_score": [0.1, 0.9], "gt_label": [1]}, [100.0]),
    ],
    ids=lambda config: config.get("type") if isinstance(config, dict) else None,
)
@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
def test_process_takes_data_samples_that_are_no_dicts(config: Any, fields: Any, values: Any) -> None:
    """MMPretrain's own tests call ``metric.process([], [DataSample])``."""
    metric = METRICS.build(config)
    metric.process([], [DataSample(**fields)])
    assert [np.asarray(value).tolist() for value in metric.evaluate(1).values()] == values


def test_fewer_records_than_samples_run_in_one_process_without_a_warning() -> None:
    class Sifted(Seen):
        def process(self, data_batch: Any, data_samples: Any) -> None:
            super().process(data_batch, [each for each in data_samples if each % 2])

    class Counted(Seen):
        def process(self, data_batch: Any, data_samples: Any) -> None:
            super().process(data_batch, [len(data_samples)])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric, records in [(Sifted(), [1, 3, 5]), (Counted(), [4, 2])]:
            for evaluate in (
                metric.evaluate,
                Evaluator(metric).evaluate,
                Evaluator(metric, collect_mode="cat").evaluate,
            ):
                metric.process(None, [0, 1, 2, 3])
                metric.process(None, [4, 5])
                assert evaluate(6)["seen/records"] == records
            metric.process(None, [0, 1, 2, 3])
            with pytest.raises(fm.InvalidInputError, match="size is 6"):  # a batch is missing
                metric.evaluate(6)
            metric.results.clear()
        evaluator = Evaluator([Sifted(), Counted(prefix="counted")])
        assert evaluator.offline_evaluate([3, 4, 5, 6, 7], chunk_size=2) == {
            "seen/records": [3, 5, 7],
            "seen/n": 3,
            "counted/records": [2, 2, 1],
            "counted/n": 3,
        }


def test_mmengines_own_base_metric_does_not_return_a_local_value(monkeypatch: pytest.MonkeyPatch) -> None:
    class BaseMetric:
        def process(self, data_batch: Any, data_samples: Any) -> None:
            pass

        def evaluate(self, size: Any) -> dict[str, Any]:
            return {"n": 1}

    BaseMetric.__module__ = "mmengine.evaluator.metric"
    metric = type("Forgotten", (BaseMetric,), {})()
    assert Evaluator(metric).evaluate(1) == {"n": 1}
    monkeypatch.setattr("fleetmetrics.evaluator.feeding.get_communicator", lambda: SimpleNamespace(world_size=2))
    with pytest.raises(fm.InvalidInputError, match=r"Forgotten is MMEngine's class.*python -m fleetmetrics.migrate"):
        Evaluator(metric).evaluate(1)


def test_local_values_leave_the_counts_of_samples_as_they_are() -> None:
    class Sifted(Renaming):
        def process(self, data_batch: Any, data_samples: Any) -> None:
            super().process(data_batch, [each for each in data_samples if each % 2])

    class Handing(Seen):
        """It leaves all to another metric, as MMPretrain's ``MultiTasksMetric``."""

        inner = Sifted(prefix="inner")

        def process(self, data_batch: Any, data_samples: Any) -> None:
            self.inner.process(data_batch, data_samples)

        def evaluate(self, size: Any = None) -> dict[str, Any]:  # type: ignore[override]
            return self.inner.evaluate(size)

    evaluator = Evaluator([Sifted(), Total(), Handing()])
    evaluator.process([1, 2, 3])
    for evaluate in (evaluator.evaluate_local, evaluator.evaluate_local, lambda: evaluator.evaluate(3)):
        values = evaluate()
        assert (values["SEEN/N"], values["INNER/N"]) == (2, 2)
