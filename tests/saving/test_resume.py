"""A job that is resumed, by the same number of workers or another: the number that the job without a break gives."""

from __future__ import annotations

import itertools
import os
import re
import signal
import warnings
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import Evaluator
from fleetmetrics.samplers.dealing import epoch_under_way
from fleetmetrics.samplers.sampling import dealt_indices
from fleetmetrics.serial.container import read_arrays, write_arrays
from tests import contract
from tests.contract import CASES, plain
from tests.distributed import forks
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, outcome
from tests.exactness import may_be_exact, taken
from tests.fakes import Together, together

pytestmark = pytest.mark.numpy_only

WORKERS = [1, 2, 3, 7]
SAMPLES = 103


def run(number: int, work: Callable[[Together], Any]) -> list[Any]:
    results = together([work] * number)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def quiet(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def of_four(name: str, weight: str | None, path: Any) -> Any:
    """The value of a job of four, which it saves; the last worker has no samples."""
    data = contract.draw(name, contract.first_dtypes(name), weight, samples=SAMPLES)
    worker = np.random.default_rng(5).integers(0, 3, SAMPLES)

    def work(channel: Together) -> Any:
        metric = CASES[name].make(name="metric")
        own = taken(data, np.flatnonzero(worker == channel.rank))
        contract.feed(metric, contract.batches(own, 9), "numpy")
        fm.save(path, metric, communicator=channel)
        return metric.compute(communicator=channel)

    return repr(plain(quiet(lambda: run(4, work))[0]))


def is_promised(name: str, weight: str | None) -> bool:
    """What docs/howto/checkpoints.md promises: the states of any metric; records except for sums over pieces of them.

    A window of floats is summed over the workers first.
    """
    metric = CASES[name].make()
    return may_be_exact(name, weight is not None) or not (any(metric.record_metrics()) or "window" in name)


@pytest.mark.kinds
@pytest.mark.parametrize("weight", [None, "real"])
@pytest.mark.parametrize("name", CASES)
def test_the_value_after_a_resume_is_that_before_it_to_the_last_bit(
    name: str, weight: str | None, tmp_path: Any
) -> None:
    path = tmp_path / "job"
    value = of_four(name, weight, path)
    assert sorted(each.name.partition("-")[0] for each in path.iterdir()) == ["checkpoint.fms", *["part"] * 4]
    for number in [4, 1, 7] if weight else [4, 2, 3]:

        def work(channel: Together) -> Any:
            metric = CASES[name].make(name="metric")
            assert fm.load(path, metric, communicator=channel).workers == 4
            return metric.compute(communicator=channel)

        found = {repr(plain(each)) for each in quiet(lambda work=work, number=number: run(number, work))}
        if number == 4 or is_promised(name, weight):
            assert found == {value}, number
        else:
            assert len(found) == 1
            assert contract.same(eval(found.pop(), SPECIAL), eval(value, SPECIAL), False, 1e-12)


SPECIAL = {"nan": float("nan"), "inf": float("inf")}


# -- in the middle of a pass of a padded, shuffled sampler ------------------------------------------------


class Subset:
    """As `paddle.io.Subset`."""

    def __init__(self, dataset: Any, indices: Any) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)


def sampler_of(number: int, rank: int, dataset: Any = range(SAMPLES), epoch: int = 3) -> Any:
    """As `paddle.io.DistributedBatchSampler`, in the pass of this epoch."""
    return SimpleNamespace(
        dataset=dataset,
        batch_size=4,
        nranks=number,
        local_rank=rank,
        shuffle=True,
        drop_last=False,
        epoch=epoch + 1,
    )


RNG = np.random.default_rng(0)
SCORE = RNG.random(SAMPLES).astype(np.float32)
LABEL = (RNG.random(SAMPLES) < SCORE).astype(int)
USER = RNG.integers(0, 12, SAMPLES)
SLOT = np.array(["a", "b", "日本"])[RNG.integers(0, 3, SAMPLES)]


class Sorted(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return [np.asarray(results["score"]).tolist(), list(results["text"])] if len(results) else []


class Ranks(fm.evaluator.BaseMetric):
    default_prefix = "ranks"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend((sample["score"], sample["text"]) for sample in data_samples)

    def compute_metrics(self, results: Any) -> Any:
        return {"all": list(map(list, results))}


def resumed(channel: Together, path: Any) -> tuple[dict[str, Any], Any]:
    """A job that goes on, with a sampler over what remains."""
    job = job_of(channel)
    rest = fm.load(path, job, communicator=channel).remaining
    sampler = sampler_of(channel.world_size, channel.rank, Subset(range(SAMPLES), rest.tolist()))
    job["records"].sampler = job["evaluator"].sampler = sampler
    return job, rest


def job_of(channel: Together) -> dict[str, Any]:
    sampler = sampler_of(channel.world_size, channel.rank)
    made = Sorted(sampler=sampler), Evaluator(Ranks(), sampler=sampler)
    made[0].dist_comm = channel
    metrics = fm.MetricCollection(
        {
            "auc": fm.AUC(),
            "exact": fm.ExactAUC(),
            "gauc": fm.GAUC(by="user"),
            "count": fm.Count(),
            "by": fm.Sliced(fm.Accuracy(), "slot"),
        },
        name="all",
    )
    return {"metrics": metrics, "records": made[0], "evaluator": made[1]}


def evaluate(channel: Together, job: dict[str, Any], start: int, stop: int, rest: Any = None) -> None:
    """Add some batches of this worker's."""
    sampler = job["records"].sampler
    indices, padding = dealt_indices(sampler, epoch=3), fm.padding_mask(sampler, epoch=3)
    indices = indices if rest is None else rest[indices]
    for batch in range(start, min(stop, -(-len(indices) // 4))):
        part = slice(4 * batch, 4 * batch + 4)
        chosen = indices[part]
        job["metrics"].add(SCORE[chosen], LABEL[chosen], mask=~padding[part], user=USER[chosen], slot=SLOT[chosen])
        job["records"].add(score=SCORE[chosen], text=[f"sample {each}" for each in chosen])
        samples = [{"score": float(SCORE[each]), "text": f"sample {each}"} for each in chosen]
        job["evaluator"].process(samples)


def values(channel: Together, job: dict[str, Any]) -> str:
    with fm.set_communicator(channel):
        evaluated = job["evaluator"].evaluate()
    found = [job["metrics"].compute(communicator=channel), job["records"].compute(), evaluated]
    return repr(plain(found))


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers are threads, and `set_communicator` is for a process."""
    import threading

    from fleetmetrics.evaluator import evaluator

    own = threading.local()
    monkeypatch.setattr(evaluator, "get_communicator", lambda: own.channel)
    monkeypatch.setattr(fm, "set_communicator", lambda channel: _Here(own, channel))


class _Here:
    def __init__(self, own: Any, channel: Any) -> None:
        own.channel = channel

    def __enter__(self) -> None: ...

    def __exit__(self, *_: Any) -> None: ...


@pytest.mark.usefixtures("one_at_a_time")
def test_the_rest_of_a_pass_may_be_dealt_to_any_number_of_workers(tmp_path: Any) -> None:
    def whole(channel: Together) -> Any:
        job = job_of(channel)
        evaluate(channel, job, 0, 99)
        return values(channel, job)

    def until_it_was_killed(channel: Together) -> None:
        job, done = job_of(channel), 2 + channel.rank  # the workers are not equally far
        evaluate(channel, job, 0, done)
        fm.save(tmp_path, job, sampler=job["records"].sampler, batches=done, communicator=channel)

    def on_as_many(channel: Together) -> Any:
        job = job_of(channel)
        found = fm.load(tmp_path, job, communicator=channel)
        assert found.batches == (2, 3, 4, 5)
        evaluate(channel, job, found.batches[channel.rank], 99)
        return values(channel, job)

    def go_on(channel: Together) -> Any:
        job, rest = resumed(channel, tmp_path)
        assert 0 <= len(rest) - (SAMPLES - 14 * 4) <= 1  # one of those that were done may be padding
        evaluate(channel, job, 0, 99, rest)
        return values(channel, job)

    (value, *others) = run(4, whole)
    assert set(others) == {value}
    assert value.count("sample 102'") == 2 and "'count': 103" in value
    run(4, until_it_was_killed)
    assert set(run(4, on_as_many)) == {value}
    for number in (4, *WORKERS):
        assert set(run(number, go_on)) == {value}, number


@pytest.mark.usefixtures("one_at_a_time")
def test_a_job_may_be_broken_off_again_and_again(tmp_path: Any) -> None:
    def first(channel: Together) -> None:
        job = job_of(channel)
        evaluate(channel, job, 0, 3)
        fm.save(tmp_path, job, sampler=job["records"].sampler, batches=3, communicator=channel)

    def further(channel: Together) -> int:
        job, rest = resumed(channel, tmp_path)
        evaluate(channel, job, 0, 2, rest)
        fm.save(tmp_path, job, sampler=job["records"].sampler, batches=2, communicator=channel)
        return len(rest)

    def last(channel: Together) -> Any:
        job, rest = resumed(channel, tmp_path)
        evaluate(channel, job, 0, 99, rest)
        return values(channel, job)

    def whole(channel: Together) -> Any:
        job = job_of(channel)
        evaluate(channel, job, 0, 99)
        return values(channel, job)

    run(4, first)
    numbers = [run(number, further)[0] for number in (2, 2, 3)]  # once on the same number
    assert numbers == sorted(numbers, reverse=True) and numbers[-1] > 0
    value = run(4, whole)[0]
    assert set(run(1, last)) == set(run(3, last)) == {value}


def test_remaining_indices_are_those_that_count_and_were_not_done() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        samples, number, size = (int(rng.integers(1, high)) for high in (60, 8, 7))
        sampler = sampler_of(number, 0, range(samples))
        sampler.batch_size, sampler.shuffle = size, bool(rng.integers(0, 2))
        sampler.drop_last, sampler.epoch = bool(rng.integers(0, 2)), int(rng.integers(0, 9))
        batches = rng.integers(0, 5, number)
        seen: list[int] = []
        for rank, done in enumerate(batches):
            keep = ~fm.padding_mask(sampler, rank)
            keep[done * size :] = False
            seen += dealt_indices(sampler, rank)[keep].tolist()
        everything = np.unique(np.concatenate([dealt_indices(sampler, rank) for rank in range(number)])).tolist()
        rest = fm.remaining_indices(sampler, batches)
        assert sorted([*seen, *rest.tolist()]) == everything and rest.dtype == np.int64
        assert rest.tolist() == sorted(rest)


def test_the_epoch_under_way_is_the_samplers_unless_it_counts_on_as_it_shuffles() -> None:
    for shuffle, epoch, under_way in ((True, 4, 3), (True, 0, 0), (False, 4, 4), (False, 0, 0)):
        assert epoch_under_way(SimpleNamespace(nranks=2, shuffle=shuffle, epoch=epoch)) == under_way


def test_a_batch_of_several_blocks_is_done_with_all_of_them() -> None:
    for shuffle, samples, done in itertools.product((False, True), (24, 31), ([1, 1], [2, 0], [0, 3])):
        sampler = sampler_of(2, 0, range(samples))
        sampler.shuffle, sampler._acc_steps = shuffle, 2  # as in auto-parallel: eight samples of a rank to a batch
        seen: list[int] = []
        for rank, batches in enumerate(done):
            keep = ~fm.padding_mask(sampler, rank)
            keep[8 * batches :] = False
            seen += dealt_indices(sampler, rank)[keep].tolist()
        assert sorted([*seen, *fm.remaining_indices(sampler, done).tolist()]) == list(range(samples))


def test_one_worker_alone_keeps_in_its_file_which_samples_of_the_data_set_its_subset_has(tmp_path: Any) -> None:
    sampler = sampler_of(1, 0, Subset(range(50), list(range(11, 41))))
    metric = fm.Sum(name="sum")
    metric.add([1.0])
    fm.save(tmp_path / "one.fms", metric, sampler=sampler, batches=2)
    found = fm.load(tmp_path / "one.fms", fm.Sum(name="sum")).remaining
    assert found.tolist() == (fm.remaining_indices(sampler, [2], epoch=3) + 11).tolist()
    assert len(found) == 30 - 2 * 4


def test_the_rest_of_a_part_of_a_part_has_indices_of_the_whole_data_set(tmp_path: Any) -> None:
    """A `Subset` of a `Subset`: what remains of a pass over what remained."""
    outer = Subset(range(100), np.arange(99, 19, -1).tolist())
    inner = Subset(outer, np.arange(0, 80, 3).tolist())
    innermost = Subset(inner, [5, 0, 26, 7, 8, 9, 10, 11])
    whole = [99 - 3 * place for place in innermost.indices]

    def work(channel: Together) -> Any:
        sampler = sampler_of(2, channel.rank, innermost)
        sampler.batch_size = 2
        fm.save(tmp_path, fm.Count(name="it"), sampler=sampler, batches=1, communicator=channel)
        return [whole[place] for place in dealt_indices(sampler, epoch=3)[:2]]

    done = itertools.chain.from_iterable(run(2, work))
    rest = fm.load(tmp_path, fm.Count(name="it")).remaining
    assert sorted([*done, *rest.tolist()]) == sorted(whole)


class Backwards:
    """Deals in a way of its own: the data set from its end, as one batch after the other."""

    nranks, batch_size, shuffle, drop_last, epoch = 2, 2, False, False, 0
    dataset: Any = range(12)

    def __init__(self, rank: int) -> None:
        self.local_rank = rank

    def __iter__(self) -> Any:
        yield from np.arange(11, -1, -1).reshape(3, 2, 2)[:, self.local_rank].tolist()


def test_of_a_sampler_with_a_way_of_its_own_no_formula_says_what_remains(tmp_path: Any) -> None:
    def work(channel: Together) -> None:
        sampler = Backwards(channel.rank)
        fm.save(tmp_path, fm.Count(name="it"), sampler=sampler, batches=1, communicator=channel)

    run(2, work)
    found = fm.load(tmp_path, fm.Count(name="it"))
    assert found.sampler is None and found.batches == (1, 1)
    with pytest.raises(fm.InvalidInputError, match=r"its own __iter__.*remaining_indices\(sampler, batches\)"):
        len(found.remaining)
    assert fm.remaining_indices(Backwards(0), found.batches).tolist() == list(range(8))


@pytest.mark.parametrize("batches", [[1], [1, 2, 3], [-1, 0], "ab"])
def test_wrong_numbers_of_batches_are_an_error(batches: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match="batches is"):
        fm.remaining_indices(sampler_of(2, 0), batches)


# -- what goes wrong on one worker goes wrong on all -----------------------------------------------------


def counted(number: int, path: Any, change: Callable[[Together], Any]) -> list[Any]:
    """Every worker's error or nothing, and what its metric holds afterwards."""

    def work(channel: Together) -> Any:
        metric = fm.Sum(name="it")
        metric.add([100])
        told: Any = None
        try:
            change(channel)
            fm.load(path, metric, communicator=channel)
        except fm.FleetMetricsError as error:
            told = f"{type(error).__name__}: {error}"
        return told, metric.compute_local()

    return together([work] * number)


def saved_by(number: int, path: Any, metric: Callable[[int], Any] = lambda rank: fm.Sum(name="it")) -> None:
    def work(channel: Together) -> None:
        own = metric(channel.rank)
        own.add([1 << channel.rank])
        fm.save(path, own, communicator=channel)

    run(number, work)


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_damaged_part_is_an_error_on_all_workers_and_nothing_is_loaded(number: int, tmp_path: Any) -> None:
    saved_by(4, tmp_path)
    part = next(each for each in sorted(tmp_path.iterdir()) if each.name.endswith("-2.fms"))
    data = bytearray(part.read_bytes())
    data[-3] ^= 1
    part.write_bytes(data)
    found = counted(number, tmp_path, lambda channel: None)
    assert {value for _, value in found} == {100}
    assert len({told for told, _ in found}) == 1 and found[0][0].startswith("CorruptFileError: ")
    assert f"{part.name}: the array " in found[0][0] and "its SHA-256 differs, at bytes " in found[0][0]


def test_a_part_that_is_missing_or_of_another_save_is_an_error(tmp_path: Any) -> None:
    saved_by(2, tmp_path / "one")
    saved_by(2, tmp_path / "other")
    parts = [sorted(each for each in (tmp_path / name).iterdir() if "part" in each.name) for name in ("one", "other")]
    parts[0][1].write_bytes(parts[1][1].read_bytes())
    assert "it belongs to a different checkpoint" in counted(2, tmp_path / "one", lambda channel: None)[0][0]
    parts[0][0].write_bytes(parts[0][1].read_bytes())
    parts[0][1].unlink()
    assert counted(2, tmp_path / "one", lambda channel: None)[1][0].startswith("CorruptFileError")


def test_one_worker_may_save_into_a_folder_that_there_is_and_tidies_only_what_is_its_own(tmp_path: Any) -> None:
    draft, other = tmp_path / "checkpoint.fms.0123456789abcdef", tmp_path / "notes.txt"
    for path in (draft, other):
        path.write_text("left over")
    metric, again = fm.Sum(name="it"), fm.Sum(name="it")
    metric.add([5])
    for _ in range(2):
        fm.save(tmp_path, metric)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert len(names) == 3 and names[:2] == ["checkpoint.fms", "notes.txt"] and names[2].startswith("part-")
    assert fm.load(tmp_path, again).workers == 1 and again.compute() == 5


def test_a_checkpoint_that_says_of_more_workers_than_there_are_parts_is_refused(tmp_path: Any) -> None:
    saved_by(2, tmp_path)
    arrays, note = read_arrays(str(tmp_path / "checkpoint.fms"))
    for workers in (3, 10**12, 0, -1):
        write_arrays(str(tmp_path / "checkpoint.fms"), arrays, {**note, "workers": workers})
        with pytest.raises(fm.CorruptFileError, match=f"of the job is invalid: {workers} workers, of which 2 are here"):
            fm.load(tmp_path, fm.Sum(name="it"))


def test_a_checkpoint_of_one_file_that_says_of_two_workers_is_refused(tmp_path: Any) -> None:
    path = str(tmp_path / "it.fms")
    fm.save(path, fm.Sum(name="it"))
    arrays, note = read_arrays(path)
    write_arrays(path, arrays, {**note, "workers": 2})
    with pytest.raises(fm.CorruptFileError, match="of the job is invalid: 2 workers, of which 1 are here"):
        fm.load(path, fm.Sum(name="it"))


@pytest.mark.parametrize("token", ["../../elsewhere/f", "0123456789ABCDEF", "0123456789abcde", 7])
def test_a_checkpoint_names_no_files_but_its_own(tmp_path: Any, token: Any) -> None:
    saved_by(2, tmp_path)
    arrays, note = read_arrays(str(tmp_path / "checkpoint.fms"))
    write_arrays(str(tmp_path / "checkpoint.fms"), arrays, {**note, "token": token})
    with pytest.raises(fm.CorruptFileError, match="its description of the job is invalid"):
        fm.load(tmp_path, fm.Sum(name="it"))


def test_a_strict_load_on_one_worker_is_an_error_on_all_and_changes_nothing(tmp_path: Any) -> None:
    saved_by(2, tmp_path)

    def work(channel: Together) -> Any:
        metric = fm.Sum(name="it")
        metric.add([100])
        with pytest.raises(fm.AgreementError, match=r"the workers disagree: .*true.* on rank 0, .*false.* on rank 1"):
            fm.load(tmp_path, metric, strict=channel.rank == 0, communicator=channel)
        return metric.compute_local()

    assert together([work] * 2) == [100, 100]


def test_workers_without_a_share_of_a_checkpoint_forget_what_they_held(tmp_path: Any) -> None:
    saved_by(2, tmp_path)

    def work(channel: Together) -> Any:
        metric = fm.Sum(name="it")
        metric.add([100])
        fm.load(tmp_path, metric, communicator=channel)
        return metric.compute(communicator=channel)

    assert together([work] * 5) == [1 + 2] * 5


def test_batches_that_one_worker_does_not_say_are_unknown_on_all(tmp_path: Any) -> None:
    def work(channel: Together) -> Any:
        fm.save(tmp_path, fm.Sum(name="it"), batches=None if channel.rank else 3, communicator=channel)
        found = fm.load(tmp_path, fm.Sum(name="it"), communicator=channel)
        with pytest.raises(fm.InvalidInputError, match="the checkpoint does not record the remaining samples"):
            found._replace(sampler={"samples": 10}).remaining()
        return found.batches

    assert together([work] * 2) == [None, None]


def test_workers_may_name_their_metrics_in_any_order_and_have_done_no_batch(tmp_path: Any) -> None:
    def work(channel: Together) -> Any:
        metrics = {name: fm.Sum(name=name) for name in ("ab", "ba")[channel.rank]}
        metrics["a"].add([1 + channel.rank])
        sampler = sampler_of(2, channel.rank)
        fm.save(tmp_path, metrics, sampler=sampler, batches=2 * channel.rank, communicator=channel)
        again = {name: fm.Sum(name=name) for name in "ab"}
        found = fm.load(tmp_path, again, communicator=channel)
        return found.batches, len(found.remaining), again["a"].compute_local()

    assert run(2, work) == [((0, 2), SAMPLES - 2 * 4, 1), ((0, 2), SAMPLES - 2 * 4, 2)]


@pytest.mark.parametrize("call", ["save", "load"])
def test_an_interruption_of_a_save_or_a_load_does_not_blame_the_file(
    call: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own deadline, such as `signal.alarm` or pytest-timeout, raises an OSError that no system has made."""
    metric = fm.Sum(name="it")
    fm.save(tmp_path / "it.fms", metric)

    def late(*_: Any) -> Any:
        raise TimeoutError("the user's alarm")

    monkeypatch.setattr(f"fleetmetrics.saving.checkpoint.{'write' if call == 'save' else 'read'}_arrays", late)
    with pytest.raises(TimeoutError, match="the user's alarm") as raised:
        getattr(fm, call)(tmp_path / "it.fms", metric)
    assert not isinstance(raised.value, fm.FileAccessError)


def test_different_checkpoints_are_an_error_on_all_workers_and_change_nothing(tmp_path: Any) -> None:
    for name in ("one", "other"):
        saved_by(2, tmp_path / name)

    def work(channel: Together) -> Any:
        metric = fm.Sum(name="it")
        metric.add([100])
        with pytest.raises(fm.AgreementError, match="the workers disagree"):
            fm.load(tmp_path / ("one", "other")[channel.rank], metric, communicator=channel)
        return metric.compute_local()

    assert together([work] * 2) == [100, 100]


@pytest.mark.parametrize("what", ["seed", "part", "part, dealt in a way of its own"])
def test_workers_whose_samplers_differ_cannot_save(tmp_path: Any, what: str) -> None:
    def work(channel: Together) -> str:
        part = Subset(range(50), [*range(11), 20 + (what != "seed") * channel.rank])
        sampler = sampler_of(2, channel.rank, part, epoch=channel.rank if what == "seed" else 3)
        if "own" in what:
            sampler = Backwards(channel.rank)
            sampler.dataset = part
        try:
            fm.save(tmp_path, fm.Sum(name="it"), sampler=sampler, batches=1, communicator=channel)
        except fm.AgreementError as error:
            return str(error)
        return ""

    told = together([work] * 2)
    assert told[0] == told[1] and "the workers disagree" in told[0]


def test_parts_that_changed_places_are_refused(tmp_path: Any) -> None:
    saved_by(3, tmp_path)
    parts = sorted(each for each in tmp_path.iterdir() if "part" in each.name)
    data = [part.read_bytes() for part in parts]
    parts[0].write_bytes(data[1])
    parts[1].write_bytes(data[0])
    for number in (1, 3):
        found = counted(number, tmp_path, lambda channel: None)
        assert {value for _, value in found} == {100}
        assert all("it belongs to a different checkpoint or rank" in told for told, _ in found)


@pytest.mark.parametrize("what", ["shorter", "gone", "longer"])
def test_a_part_that_rank_0_does_not_see_as_it_was_written_is_an_error_on_all(tmp_path: Any, what: str) -> None:
    saved_by(2, tmp_path)

    def work(channel: Together) -> str:
        own = channel.consult

        def consult(call: str, *args: Any, **settings: Any) -> Any:
            if call == "save, parts" and channel.rank == 1:
                newest = max(tmp_path.glob("part-*-1.fms"), key=lambda path: path.stat().st_mtime_ns)
                data = newest.read_bytes()
                newest.unlink()
                if what != "gone":
                    newest.write_bytes(data[:-1] if what == "shorter" else data + b"x")
            return own(call, *args, **settings)

        channel.consult = consult  # type: ignore[method-assign]
        try:
            fm.save(tmp_path, fm.Sum(name="it"), communicator=channel)
        except fm.InvalidInputError as error:
            return str(error)
        return ""

    told = together([work] * 2)
    assert told[0] == told[1] and re.search(r"rank 0 does not see the \d+ bytes that rank 1 wrote", told[0])
    assert [value for _, value in counted(2, tmp_path, lambda channel: None)] == [1, 2]  # the old one stands


def test_a_worker_that_cannot_write_is_an_error_on_all_and_the_old_checkpoint_stays(tmp_path: Any) -> None:
    saved_by(3, tmp_path)
    before = sorted(each.name for each in tmp_path.iterdir())

    def work(channel: Together) -> str:
        metric = fm.Sum(name="it")
        metric.add([50])
        channel.calls_before = channel.consult  # type: ignore[attr-defined]

        def consult(call: str, *args: Any, **settings: Any) -> Any:
            if call == "save, parts" and channel.rank == 1:
                settings["trouble"] = OSError(28, "No space left on device")
            return channel.calls_before(call, *args, **settings)  # type: ignore[attr-defined]

        channel.consult = consult  # type: ignore[method-assign]
        try:
            fm.save(tmp_path, metric, communicator=channel)
        except fm.FleetMetricsError as error:
            return str(error)
        return ""

    told = together([work] * 3)
    assert len(set(told)) == 1 and "on rank 1: OSError: [Errno 28] No space left" in told[0]
    assert set(before) <= {each.name for each in tmp_path.iterdir()}
    assert counted(1, tmp_path, lambda channel: None) == [(None, 7)]
    saved_by(2, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3  # what was left over is gone


@pytest.mark.parametrize("victim, step", [(2, 1), (0, 1), (0, 2)])
def test_a_worker_that_is_killed_while_it_saves_leaves_the_checkpoint_that_there_was(
    victim: int, step: int, tmp_path: Any
) -> None:
    """Rank 0 puts its part in place first, and then the file that names all parts."""
    (port,) = free_ports(1)

    def work(rank: int) -> Any:
        channel, metric, steps = member(rank, 3, port), fm.Sum(name="it"), 0
        metric.add([1 << rank])
        fm.save(tmp_path, metric, communicator=channel, timeout=20)
        metric.add([100])
        own = os.replace

        def replace(*names: Any) -> None:
            nonlocal steps
            steps += 1
            if (rank, steps) == (victim, step):
                os.kill(os.getpid(), signal.SIGKILL)
            own(*names)

        os.replace = replace  # in this child only
        return outcome(lambda: fm.save(tmp_path, metric, communicator=channel, timeout=20))

    told = forks.run(3, work)
    assert told.pop(victim) is None and len(told) == 2
    assert all(each.startswith("CommunicatorError: ") and f"rank {victim}" in each for each in told), told
    assert counted(1, tmp_path, lambda channel: None) == [(None, 7)]
    saved_by(2, tmp_path)
    assert len(os.listdir(tmp_path)) == 3


def test_workers_that_save_different_metrics_get_an_error(tmp_path: Any) -> None:
    def work(channel: Together) -> str:
        with pytest.raises(fm.AgreementError, match=r"the workers disagree: .* on rank 0, .* on rank 1") as raised:
            fm.save(tmp_path, {"ab"[channel.rank]: fm.Count()}, communicator=channel)
        return str(raised.value)

    assert len(set(run(2, work))) == 1 and not os.listdir(tmp_path)


def test_a_worker_that_cannot_make_its_state_is_an_error_on_all(tmp_path: Any) -> None:
    class Things(fm.BaseMetric):
        def compute_metric(self, results: Any) -> Any:
            return len(results)

    def work(channel: Together) -> str:
        metric = Things()
        metric._results.append(object() if channel.rank == 1 else 1)
        try:
            fm.save(tmp_path, metric, communicator=channel)
        except fm.RecordError as error:
            return str(error)
        return ""

    told = run(2, work)
    assert told[0] == told[1] and "on rank 1: records" in told[0]


def test_windows_go_on_side_by_side(tmp_path: Any) -> None:
    def four(channel: Together) -> Any:
        metric = fm.Windowed(fm.Sum(), 2, name="it")
        for value in range(3 + channel.rank):
            metric.add([value * 10 + channel.rank])
        fm.save(tmp_path, metric, communicator=channel)
        return metric.compute(communicator=channel)

    before = run(4, four)[0]

    def two(channel: Together) -> Any:
        metric = fm.Windowed(fm.Sum(), 2, name="it")
        fm.load(tmp_path, metric, communicator=channel)
        return metric.compute(communicator=channel)

    assert run(2, two) == [before] * 2


def test_records_without_sampler_or_ids_cannot_go_to_another_number(tmp_path: Any) -> None:
    def metric_of(channel: Together, ids: bool) -> Any:
        metric = Sorted()
        metric.dist_comm = channel
        given = {"ids": [3 - channel.rank]} if ids else {}
        metric.add(score=np.array([0.5 + channel.rank]), text=["a"], **given)
        return metric

    for ids in (False, True):
        run(2, lambda channel, ids=ids: fm.save(tmp_path, metric_of(channel, ids), communicator=channel))

        def work(channel: Together, ids: bool = ids) -> Any:
            metric = Sorted()
            metric.dist_comm = channel
            fm.load(tmp_path, metric, communicator=channel)
            return metric.compute()

        assert run(2, work)[0] == ([[1.5, 0.5], ["a", "a"]] if ids else [[0.5, 1.5], ["a", "a"]])
        if ids:
            assert run(3, work) == [[[1.5, 0.5], ["a", "a"]]] * 3
        else:
            with pytest.raises(
                fm.InvalidInputError,
                match=r"on ranks 1, 2: Sorted: with a different number of workers, .* add records with ids=",
            ):
                run(3, work)
