"""What a metric over records promises in one process: MMEval's contract, and where fleetmetrics keeps it better."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.comm.backends import get_dist_backend

#: Fewer samples than were added are asked for here; that there is a warning is another test's promise.
pytestmark = pytest.mark.filterwarnings("ignore:.* cut off:UserWarning")


class Gathered(fm.BaseMetric):
    """What ``compute_metric`` gets is the value."""

    def compute_metric(self, results: Any) -> Any:
        return results


class Appending(Gathered):
    """Written for MMEval: it overrides ``add``, and appends one record per sample."""

    def add(self, predictions: Any, labels: Any) -> None:  # type: ignore[override]
        for prediction, label in zip(predictions, labels):
            self._results.append((prediction, label))

    def compute_metric(self, results: Any) -> Any:
        return {"accuracy": sum(a == b for a, b in results) / len(results)}


# -- MMEval's contract -----------------------------------------------------------------------------------


def test_a_class_written_for_mmeval_runs_as_it_is() -> None:
    metric = Appending()
    metric.add(predictions=[1, 2, 3], labels=[1, 2, 1])
    metric.add([4], [4])
    assert metric._results == [(1, 1), (2, 2), (3, 1), (4, 4)]
    assert metric.compute() == {"accuracy": 0.75}
    assert metric.compute(size=4) == {"accuracy": 0.75}
    assert len(metric._results) == 4
    metric.reset()
    assert metric._results == []
    metric._results += [(0, 1)]
    assert metric.compute() == {"accuracy": 0.0}


def test_the_arguments_are_mmevals_in_its_order() -> None:
    logger = logging.getLogger("mine")
    metric = Gathered({"classes": ("cat", "dog")}, "cat", "non_dist", logger)
    assert metric.dataset_meta == {"classes": ("cat", "dog")}
    assert metric.dist_collect_mode == "cat"
    assert metric.dist_comm is get_dist_backend("non_dist")
    assert metric.logger is logger
    default = Gathered()
    assert (default.dataset_meta, default.dist_collect_mode, default._results) == (None, "unzip", [])
    assert default.logger.name == "fleetmetrics"
    assert default.name == "Gathered"
    assert default.dist_comm is fm.get_communicator()


def test_dataset_meta_is_copied_in_and_out() -> None:
    given = {"classes": 2}
    metric = Gathered(given)
    given["classes"] = 3
    metric.dataset_meta["classes"] = 4  # type: ignore[index]
    assert metric.dataset_meta == {"classes": 2}
    metric.dataset_meta = given
    given["classes"] = 5
    assert metric.dataset_meta == {"classes": 3}
    metric.dataset_meta = None
    assert metric.dataset_meta is None


def test_the_communicator_can_be_replaced() -> None:
    metric, own = Gathered(), fm.LocalCommunicator()
    metric.dist_comm = own
    assert metric.dist_comm is own
    with pytest.raises(fm.InvalidInputError, match="communicator is 5; it must be"):
        metric.dist_comm = 5
    assert metric.dist_comm is own
    own.close()
    with pytest.raises(fm.CommunicatorError, match="closed"):
        metric.compute()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dist_collect_mode": "zip"}, "dist_collect_mode is 'zip'; allowed are 'unzip', 'cat', 'batch', 'auto'"),
        ({"dist_collect_mode": ["cat"]}, "dist_collect_mode is"),
        ({"dist_backend": "nccl"}, "dist_backend is 'nccl'; allowed are .*'non_dist', 'paddle_dist'"),
    ],
)
def test_an_unknown_name_is_an_assertion_error_as_in_mmeval(arguments: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text) as error:
        Gathered(**arguments)
    assert isinstance(error.value, fm.FleetMetricsError)


def test_a_class_without_a_value_cannot_be_instantiated() -> None:
    class HalfDone(fm.BaseMetric):
        def summarize(self, results: Any) -> Any:
            return {}

    for kind in (fm.BaseMetric, HalfDone):
        text = f"Can't instantiate abstract class {kind.__name__} with abstract method compute_metric"
        with pytest.raises(TypeError, match=text):
            kind()


def test_calling_it_is_the_value_of_one_batch_and_leaves_nothing() -> None:
    metric, columns = Appending(), Gathered()
    metric.add([1, 1], [0, 1])
    assert metric(predictions=[1, 2, 3, 4], labels=[1, 2, 3, 1]) == {"accuracy": 0.75}
    assert metric.compute() == {"accuracy": 0.5}
    columns.add([1, 2])
    assert columns([3])[0].tolist() == [3]
    assert columns(score=["c"]) == {"score": ["c"]}  # the batches before had other columns
    assert columns(["a", "a"], ids=[5, 5]) == (["a"],)
    assert columns.compute()[0].tolist() == [1, 2]


def test_compute_local_gives_the_value_of_this_worker_and_changes_nothing() -> None:
    metric = Appending()
    metric.dist_comm = fm.LocalCommunicator()
    metric.dist_comm.close()  # it is not asked
    metric.add([1, 1], [0, 1])
    assert metric.compute_local() == metric.compute_local() == {"accuracy": 0.5}
    assert len(metric._results) == 2
    sampled = Gathered(sampler=make_sampler(num_replicas=2))
    sampled.add([1, 2, 3])  # of a pass that is not over
    assert sampled.compute_local()[0].tolist() == [1, 2, 3]


def test_calling_it_survives_an_exception() -> None:
    metric = Appending()
    metric.add([1, 1], [0, 1])
    with pytest.raises(ZeroDivisionError):
        metric([], [])
    with pytest.raises(TypeError):
        metric([1], None)
    assert metric.compute() == {"accuracy": 0.5}
    columns = Gathered()
    columns.add([1, 2])
    with pytest.raises(fm.InvalidInputError, match="equal lengths"):
        columns([1], [2, 3])
    assert columns.compute()[0].tolist() == [1, 2]


# -- size and modes --------------------------------------------------------------------------------------


def test_size_means_the_same_with_one_worker_as_with_many() -> None:
    metric = Gathered()
    metric.add([1, 2], ["a", "b"])
    metric.add([3, 4], ["c", "d"])
    for size, count in [(None, 4), (4, 4), (3, 3), (np.int64(3), 3)]:
        numbers, texts = metric.compute(size)
        assert numbers.tolist() == [1, 2, 3, 4][:count]
        assert texts == ["a", "b", "c", "d"][:count]
    assert metric.compute(size=4)[1] == ["a", "b", "c", "d"]  # nothing was cut off for good


@pytest.mark.parametrize(("size", "count"), [(5, 4), (1, 0), (10**9, 999)])
def test_a_size_that_does_not_fit_is_an_error(size: int, count: int) -> None:
    metric = Gathered()
    metric.add(np.arange(count))
    text = f"Gathered: size is {size}, but {count} records were added; there must be one record per sample"
    with pytest.raises(fm.InvalidInputError, match=text):
        metric.compute(size)
    assert len(metric.compute() and metric.compute()[0]) == count


@pytest.mark.parametrize(("size", "count"), [(2, 4), (0, 4), (1, 3)])
def test_with_one_worker_a_surplus_that_no_sampler_pads_is_cut_with_a_warning(size: int, count: int) -> None:
    metric = Gathered()
    metric.add(np.arange(count))
    with pytest.warns(UserWarning, match=f"Gathered: size is {size}, but {count} records were added"):
        assert len(metric.compute(size) and metric.compute(size)[0]) == size


@pytest.mark.parametrize("size", [-1, 1.0, True, "3", [3]])
def test_a_size_is_a_number_of_samples(size: Any) -> None:
    metric = Gathered()
    metric.add([1, 2])
    with pytest.raises(fm.InvalidInputError, match=r"size is .*; it must be None, or the number of samples"):
        metric.compute(size)


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match="timeout is"):
        Gathered().compute(timeout=timeout)


@pytest.mark.parametrize("mode", ["unzip", "cat", "batch", "auto"])
@pytest.mark.parametrize("batch_size", [None, 1, 2, np.int64(2), 100])
def test_with_one_worker_the_order_is_that_of_the_adds(mode: str, batch_size: Any) -> None:
    metric = Gathered(dist_collect_mode=mode, batch_size=batch_size)
    for start in (0, 3, 3, 7):
        metric.add(np.arange(start, start + 3))
    assert metric.compute()[0].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5, 7, 8, 9]
    assert metric.compute(11)[0].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("batch_size", [0, -2, 1.5, True, "2"])
def test_a_batch_size_is_a_positive_integer(batch_size: Any) -> None:
    metric = Gathered(dist_collect_mode="batch", batch_size=batch_size)
    metric.add([1, 2])
    with pytest.raises(fm.InvalidInputError, match="batch_size must be an integer"):
        metric.compute()


def test_block_by_block_appended_records_need_a_batch_size() -> None:
    metric = Appending(dist_collect_mode="batch")
    metric.add([1, 2], [1, 3])
    with pytest.raises(fm.InvalidInputError, match=r"needs the blocks .* give batch_size=, or add columns"):
        metric.compute()
    metric.batch_size = 2
    assert metric.compute() == {"accuracy": 0.5}


def test_records_and_columns_do_not_mix() -> None:
    metric = Gathered()
    metric.add([1, 2])
    metric._results.append(3)
    with pytest.raises(fm.InvalidInputError, match=r"some records were appended to _results and others added as col"):
        metric.compute()
    metric.reset()
    metric._results.append(3)
    assert metric.compute() == [3]


def test_in_one_process_nothing_is_pickled() -> None:
    metric = Gathered()
    value = object()
    metric._results += [value, None, lambda: 0]
    assert metric.compute()[0] is value
    columns = Gathered()
    columns.add([value, None])
    assert columns.compute() == ([value, None],)


def test_what_compute_metric_raises_is_raised_as_it_is_and_the_records_stay() -> None:
    class Failing(Gathered):
        error: Any = KeyError("label", 3)

        def compute_metric(self, results: Any) -> Any:
            if self.error is not None:
                raise self.error
            return results

    metric = Failing()
    metric.add([1, 2])
    with pytest.raises(KeyError) as raised:
        metric.compute()
    assert raised.value is metric.error
    metric.error = None
    assert metric.compute()[0].tolist() == [1, 2]


# -- a sampler -------------------------------------------------------------------------------------------


def make_sampler(samples: int = 7, shuffle: bool = False, drop_last: bool = False, **more: Any) -> Any:
    options = {"num_replicas": 1, "rank": 0, **more}
    return paddle.io.DistributedBatchSampler(range(samples), 3, shuffle=shuffle, drop_last=drop_last, **options)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("appended", [False, True])
def test_a_sampler_puts_the_records_into_the_order_of_the_data_set(
    shuffle: bool, drop_last: bool, appended: bool
) -> None:
    sampler = make_sampler(shuffle=shuffle, drop_last=drop_last)
    metric = Gathered(sampler=sampler)
    assert metric.dist_collect_mode == "auto"
    for _ in range(3):  # passes
        seen = []
        for batch in sampler:
            seen += batch
            if appended:
                metric._results.extend(batch)
            else:
                metric.add(np.array(batch))
        results = metric.compute()
        assert list(results if appended else results[0]) == sorted(seen)
        metric.reset()


def test_a_loader_is_accepted_in_place_of_its_sampler() -> None:
    class Squares(paddle.io.Dataset):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            return np.int64(index * index)

        def __len__(self) -> int:
            return 7

    sampler = paddle.io.DistributedBatchSampler(Squares(), 2, num_replicas=1, rank=0, shuffle=True)
    loader = paddle.io.DataLoader(Squares(), batch_sampler=sampler, num_workers=0)
    metric = Gathered(sampler=loader)
    for _ in range(2):
        for batch in loader:
            metric.add(batch[0] if isinstance(batch, list) else batch)
        assert metric.compute()[0].reshape(-1).tolist() == [i * i for i in range(7)]
        metric.reset()


def test_a_record_too_many_or_too_few_is_an_error() -> None:
    metric = Gathered(sampler=make_sampler())
    for count in (6, 8):
        metric.reset()
        metric.add(np.arange(count))
        with pytest.raises(fm.InvalidInputError, match=f"Gathered: {count} records for the 7 samples that the sampler"):
            metric.compute()


def test_with_a_sampler_size_must_be_that_of_its_data_set() -> None:
    metric = Gathered(sampler=make_sampler())
    metric.add(np.arange(7))
    assert metric.compute(7)[0].size == 7
    for size in (3, 1000):
        with pytest.raises(fm.InvalidInputError, match=f"size is {size}"):
            metric.compute(size)


def test_a_sampler_excludes_other_arguments() -> None:
    with pytest.raises(fm.InvalidInputError, match="dist_collect_mode is 'unzip'; with a sampler it must be 'auto'"):
        Gathered(dist_collect_mode="unzip", sampler=make_sampler())
    with pytest.raises(fm.InvalidInputError, match="sampler is a BatchSampler without nranks"):
        Gathered(sampler=paddle.io.BatchSampler(range(3)))
    metric = Gathered(sampler=make_sampler(num_replicas=2))
    metric.add(np.arange(4))
    with pytest.raises(fm.InvalidInputError, match="the sampler is for rank 0 of 2, but this worker is rank 0 of 1"):
        metric.compute()


def test_nothing_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = Gathered(sampler=make_sampler())
        metric.add(score=np.linspace(0, 1, 7))
        assert metric.compute(7)["score"].size == 7
