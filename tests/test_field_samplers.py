"""Samplers of the field, those of Paddle's frameworks and PyTorch's: each sample of a pass once, also in its rest."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.samplers.progress import Part, Pass
from fleetmetrics.samplers.sampling import dealt_indices
from tests.fakes import Together, together
from tests.field_samplers import KINDS, DistributedBatchSampler, MappingDistributedBatchSampler

SAMPLES = 53


def run(number: int, work: Any) -> Any:
    """What all workers return, the same one."""
    results = together([work] * number)
    assert len({repr(each) for each in results}) == 1, results
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def added(metric: Any, sampler: Any) -> list[int]:
    """The samples that the sampler assigns, added as their indices."""
    seen = []
    for batch in sampler:
        metric.add(np.array(batch, float))
        seen += batch
    return seen


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_each_sample_of_a_pass_counts_once(kind: str, ranks: int) -> None:
    samplers = [KINDS[kind](range(SAMPLES), rank, ranks) for rank in range(ranks)]
    metrics = [fm.MetricCollection({"n": fm.Count(), "sum": fm.Sum()}, name="it", sampler=one) for one in samplers]
    for epoch in (0, 3):
        seen: set[int] = set()
        for metric, sampler in zip(metrics, samplers):
            sampler.set_epoch(epoch)
            metric.reset()
            seen.update(added(metric, sampler))
        value = run(ranks, lambda channel: metrics[channel.rank].compute(communicator=channel))
        assert value == {"n": len(seen), "sum": sum(seen)}


class OneBackwards(paddle.io.DistributedBatchSampler):
    """It shares out one order of all samples, but the second rank deals its share backwards."""

    def __iter__(self) -> Iterator[list[int]]:
        own = list(range(len(self.dataset)))[self.local_rank :: self.nranks]
        yield own[::-1] if self.local_rank == 1 else own


def test_a_worker_that_is_not_dealt_what_the_others_expect_is_an_error_on_all() -> None:
    """Workers iterate a sampler for their own rank alone, where that tells what the others are dealt."""
    samplers = [OneBackwards(range(12), 4, 3, rank) for rank in range(3)]
    metrics = [fm.Count(name="it", sampler=sampler) for sampler in samplers]
    for metric, sampler in zip(metrics, samplers):
        added(metric, sampler)
    with pytest.raises(fm.AgreementError, match="order"):
        run(3, lambda channel: metrics[channel.rank].compute(communicator=channel))


# -- the rest of a pass ----------------------------------------------------------------------------------

RESUMABLE = [MappingDistributedBatchSampler, DistributedBatchSampler]


def made(kind: Any, rank: int, ranks: int = 3, consumed: int = 0, **more: Any) -> Any:
    return kind(range(SAMPLES), 4, num_replicas=ranks, rank=rank, consumed_samples=consumed, **more)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", RESUMABLE)
def test_a_metric_of_a_checkpoint_goes_on_with_the_rest(kind: Any, shuffle: bool) -> None:
    """What the rest repeats was counted before: 53 samples on 3 workers are 54, and Paddle's way pads one."""
    values = []
    for rank in range(3):
        metric = fm.Sum(name="it", sampler=made(kind, rank, shuffle=shuffle))
        (order,) = [np.concatenate(list(made(kind, rank, shuffle=shuffle)))]
        next(iter(metric.sampler))
        metric.add(order[:4].astype(float))
        for consumed in (12, 24):  # it is broken off twice
            again = fm.Sum(name="it", sampler=made(kind, rank, consumed=consumed, shuffle=shuffle))
            again.set_state_dict(metric.state_dict())
            next(iter(again.sampler))
            again.add(order[consumed // 3 :][:4].astype(float))
            metric = again
        metric.add(order[12:].astype(float))
        values.append(metric)
    dealt = np.unique(np.concatenate([dealt_indices(made(kind, rank, shuffle=shuffle), epoch=0) for rank in range(3)]))
    value = run(3, lambda channel: values[channel.rank].compute(communicator=channel))
    assert value == dealt.sum() and len(dealt) == (SAMPLES if kind is RESUMABLE[0] else 51)


@pytest.mark.parametrize("kind", RESUMABLE)
def test_a_new_metric_counts_what_the_rest_deals_each_once(kind: Any) -> None:
    def work(channel: Together) -> Any:
        sampler = made(kind, channel.rank, consumed=24)
        metric = fm.Sum(name="it", sampler=sampler)
        seen = added(metric, sampler)
        return metric.compute(communicator=channel), sorted(set().union(*channel.all_gather_object(seen)))

    value, seen = run(3, work)
    assert value == sum(seen)


def test_the_rest_of_a_rest_goes_on_from_there() -> None:
    kind, values, seen = MappingDistributedBatchSampler, [], set()
    for rank in range(3):
        metric, again = (fm.Sum(name="it", sampler=made(kind, rank, consumed=k, shuffle=True)) for k in (12, 24))
        order = np.concatenate(list(metric.sampler)).astype(float)
        seen |= set(order.tolist())
        metric.add(order[:4])
        again.set_state_dict(metric.state_dict())
        next(iter(again.sampler))
        again.add(order[4:])
        values.append(again)
    assert run(3, lambda channel: values[channel.rank].compute(communicator=channel)) == sum(seen)


def test_a_rest_that_is_not_that_of_the_checkpoint_is_an_error() -> None:
    kind = MappingDistributedBatchSampler
    metric = fm.Count(name="it", sampler=made(kind, 0))
    metric.add(np.zeros(8))
    state = metric.state_dict()
    for sampler, told in [
        (
            made(kind, 0, consumed=36),
            "after 12 samples of rank 0 .*consumed_samples is 36.* 8 were done at the checkpoint",
        ),
        (made(kind, 0, consumed=24, ranks=2), "consumed_samples is 24.* not the one of the checkpoint.* workers"),
        (made(kind, 0, consumed=24, shuffle=True), "not the one of the checkpoint"),
    ]:
        for when in ("before", "after"):
            again = fm.Count(name="it", sampler=sampler if when == "before" else None)
            again.set_state_dict(state)
            if when == "after":
                again.sampler = sampler
            with pytest.raises(fm.InvalidInputError, match=told):
                again.add(np.zeros(4))
    again = fm.Count(name="it", sampler=made(kind, 0, consumed=36))
    metric.add(np.zeros(10))
    again.set_state_dict(metric.state_dict())  # of a whole pass
    again.sampler = made(kind, 0, consumed=24, shuffle=True)
    again.add(np.zeros(4))


@pytest.mark.parametrize("rank", [1, None])  # None: of an earlier version, which did not say
def test_the_rest_goes_on_after_the_part_of_its_own_rank(rank: int | None) -> None:
    settings = Pass(made(MappingDistributedBatchSampler, 1)).settings or {}
    one = Pass(made(MappingDistributedBatchSampler, 1, consumed=24))
    one.hold([Part(settings, 0, 4, 18), Part(settings, rank, 8, 18)])
    one.begin()
    assert one.done == 8


@pytest.mark.parametrize("done", [(8, 18), (18, 8), (8, 8)])
def test_the_rest_of_another_pass_is_an_error_while_any_rank_of_the_checkpoint_has_samples_left(
    done: tuple[int, int],
) -> None:
    settings = Pass(made(MappingDistributedBatchSampler, 1)).settings or {}
    one = Pass(made(MappingDistributedBatchSampler, 1, consumed=24, shuffle=True))
    one.hold([Part(settings, rank, each, 18) for rank, each in enumerate(done)])
    with pytest.raises(fm.InvalidInputError, match="not the one of the checkpoint"):
        one.begin()


def test_records_of_a_checkpoint_go_on_with_the_rest() -> None:
    class Places(fm.BaseMetric):
        def compute_metric(self, results: Any) -> Any:
            return results["place"].tolist()

    def work(channel: Together) -> Any:
        kind = MappingDistributedBatchSampler
        metric, again = (Places(sampler=made(kind, channel.rank, consumed=k, shuffle=True)) for k in (0, 24))
        order = np.concatenate(list(metric.sampler))
        metric.add(place=order[:8])
        again.set_state_dict(metric.state_dict())
        assert np.concatenate(list(again.sampler)).tolist() == order[8:].tolist()
        again.add(place=order[8:])
        again.dist_comm = channel
        return again.compute()

    assert run(3, work) == list(range(SAMPLES))


# -- the job's random state ------------------------------------------------------------------------------


def test_a_sampler_that_seeds_paddle_leaves_the_jobs_random_state_as_it_is() -> None:
    sampler = DistributedBatchSampler(range(SAMPLES), 4, 3, 1, shuffle=True, data_seed=7)
    paddle.seed(5)
    alone = paddle.rand([4]).tolist(), paddle.rand([4]).tolist()
    paddle.seed(5)
    first = paddle.rand([4]).tolist()
    metric = fm.Count(sampler=sampler)
    metric.add(np.zeros(4))
    metric.state_dict()
    assert fm.padding_mask(sampler, epoch=4).tolist() == [False] * 17
    assert (first, paddle.rand([4]).tolist()) == alone


# -- PyTorch's -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_pytorchs_own_sampler_alone_and_in_a_loader(shuffle: bool, drop_last: bool) -> None:
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
    for ranks in (1, 2, 3, 5):
        samplers = [
            data.DistributedSampler(range(SAMPLES), ranks, rank, shuffle, 3, drop_last) for rank in range(ranks)
        ]
        for sampler in samplers:
            sampler.set_epoch(2)
        loaders = [data.DataLoader(range(SAMPLES), batch_size=4, sampler=sampler) for sampler in samplers]
        for given in (samplers, loaders):
            metrics, seen = [fm.Sum(name="it", sampler=one) for one in given], []
            for metric, loader in zip(metrics, loaders):
                for batch in loader:
                    metric.add(batch.numpy().astype(float))
                    seen += batch.tolist()
            value = run(ranks, lambda channel: metrics[channel.rank].compute(communicator=channel))  # noqa: B023
            assert value == sum(set(seen)) and (drop_last or len(set(seen)) == SAMPLES)
