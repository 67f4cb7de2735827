"""``sampler=``: each sample of a pass counts once on any number of workers; a pass that is not whole is an error."""

from __future__ import annotations

import copy
import pickle
import random
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.samplers.dealing import epoch_under_way
from fleetmetrics.samplers.progress import Part, Pass
from fleetmetrics.samplers.sampling import dealt_indices
from tests.contract import CASES, Data, arguments, draw, expected, first_dtypes, is_exact_value, same
from tests.exactness import taken
from tests.fakes import Together, together

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.filterwarnings(r"ignore:.* undefined for \d+ .* left out:fleetmetrics.UndefinedMetricWarning"),
]
SAMPLES = 53


class Subset:
    """As `paddle.io.Subset`."""

    def __init__(self, dataset: Any, indices: Any) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)


class Interleaved:
    """As PyTorch's: it deals sample by sample, pads with the first ones, and does not raise its epoch."""

    def __init__(self, rank: int, ranks: int, samples: int = SAMPLES, batch_size: int = 4) -> None:
        self.nranks, self.local_rank, self.epoch, self.batch_size = ranks, rank, 3, batch_size
        self.dataset, self.shuffle, self.drop_last = range(samples), True, False

    def __iter__(self) -> Any:
        order = np.random.RandomState(self.epoch).permutation(len(self.dataset))
        mine = np.resize(order, -(-order.size // self.nranks) * self.nranks)[self.local_rank :: self.nranks]
        yield from np.split(mine, range(self.batch_size, mine.size, self.batch_size))


def paddles(rank: int, ranks: int, **changes: Any) -> Any:
    """As `paddle.io.DistributedBatchSampler`, in the pass of epoch 3."""
    held = {"dataset": range(SAMPLES), "batch_size": 4, "shuffle": True, "drop_last": False, "epoch": 4, **changes}
    held["epoch"] -= not held["shuffle"]
    return SimpleNamespace(nranks=ranks, local_rank=rank, **held)


#: How the samples are dealt.
KINDS: dict[str, Callable[[int, int], Any]] = {
    "shuffled": paddles,
    "in order": lambda rank, ranks: paddles(rank, ranks, shuffle=False),
    "dropped": lambda rank, ranks: paddles(rank, ranks, drop_last=True),
    "subset": lambda rank, ranks: paddles(rank, ranks, dataset=Subset(range(SAMPLES), range(0, SAMPLES, 2))),
    "own": Interleaved,
}


def order_of(sampler: Any) -> np.ndarray:
    """The samples of this worker in the current pass."""
    found, of = dealt_indices(sampler, epoch=3), getattr(sampler.dataset, "indices", None)
    return found if of is None else np.asarray(of)[found]


def given(metric: Any, data: Data, order: Any, size: int = 4) -> None:
    for start in range(0, len(order), size):
        metric.add(**arguments(metric, taken(data, order[start : start + size])))


def run(number: int, work: Callable[[Together], Any]) -> Any:
    """What all workers return, the same one."""
    results = together([work] * number)
    assert len({repr(each) for each in results}) == 1, results
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


@pytest.mark.kinds
@pytest.mark.parametrize("name", CASES)
def test_each_sample_counts_once_on_any_number_of_workers_with_any_sampler(name: str) -> None:
    data, case = draw(name, first_dtypes(name), samples=SAMPLES), CASES[name]
    if "window" in name:
        return  # which is of the last batches, and these differ by worker
    ways = [("shuffled", 3), ("in order", 5), ("dropped", 2), ("subset", 3), ("own", 5), ("own", 1)]
    turn = 2 * list(CASES).index(name)  # what is dealt is one thing for all metrics: each is tried in two ways
    for kind, ranks in [ways[(turn + place) % len(ways)] for place in range(2)]:
        parts, seen = [], []
        for rank in range(ranks):
            sampler = KINDS[kind](rank, ranks)
            metric = case.make(name="metric", sampler=sampler)
            order = order_of(sampler)
            given(metric, data, order)
            seen += order.tolist()
            parts.append(metric)
        reference = expected(name, taken(data, np.unique(seen)))
        exact = is_exact_value(name, data, None)
        assert same(fm.merge_all(parts).compute(), reference, exact, case.tolerance), (kind, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_collection_with_wrappers_and_records_exchanges_once(kind: str, ranks: int) -> None:
    rng = np.random.default_rng(0)
    p, y, user = rng.random(SAMPLES), rng.integers(0, 2, SAMPLES), rng.integers(0, 5, SAMPLES)

    def made(**more: Any) -> Any:
        f1 = fm.Precision(task="binary") * 2
        members = {"n": fm.Count(), "gauc": fm.GAUC(), "by": fm.Sliced(fm.Count(), by="user"), "f1": f1}
        return fm.MetricCollection(members, name="all", **more)

    def add(metric: Any, order: Any) -> None:
        for start in range(0, len(order), 4):
            some = order[start : start + 4]
            metric.add(p[some], y[some], user=user[some])

    def work(channel: Together) -> Any:
        sampler = KINDS[kind](channel.rank, ranks)
        metric = made(sampler=sampler)
        for _ in range(2):  # a second pass after a reset
            metric.reset()
            add(metric, order_of(sampler))
            value = metric.compute(communicator=channel)
        return value

    one = made()
    add(one, np.unique(np.concatenate([order_of(KINDS[kind](rank, ranks)) for rank in range(ranks)])))
    assert same(run(ranks, work), one.compute(), False)


# -- passes that are not whole ---------------------------------------------------------------------------


def counted(sampler: Any, rows: int, **more: Any) -> Any:
    metric = fm.Count(name="n", sampler=sampler, **more)
    if rows:
        metric.add(np.zeros(rows))
    return metric


def test_a_pass_with_too_few_samples_is_an_error_that_says_how_many_on_which_rank_unless_it_is_meant() -> None:
    def work(channel: Together, **more: Any) -> Any:
        metric = counted(paddles(channel.rank, 3), 18 - 3 * (channel.rank == 2))
        return metric.compute(communicator=channel, **more)

    with pytest.raises(fm.InvalidInputError, match=r"on rank 2: n \(Count\): 15 of the 18 samples .* rank 2 .*partial"):
        run(3, work)
    assert run(3, lambda channel: work(channel, partial=True)) in range(50, 52)


def test_too_many_samples_are_an_error_and_a_failed_add_leaves_the_pass_where_it_was() -> None:
    metric = counted(paddles(0, 3), 18)
    for _ in range(2):
        with pytest.raises(
            fm.InvalidInputError,
            match=r"n \(Count\): 20 samples were added, but the sampler assigns 18 .* rank 0 .*reset",
        ):
            metric.add(np.zeros(2))
    metric.reset()
    metric.add(np.zeros(18))


def test_an_add_that_fails_leaves_the_pass_where_it_was() -> None:
    metric = fm.MeanSquaredError(sampler=paddles(0, 3))
    metric.add(np.zeros(16), np.zeros(16))
    with pytest.raises(fm.InvalidInputError, match="prediction must be a finite number"):
        metric.add([np.nan, 0.0], [0.0, 0.0])
    metric.add(np.zeros(2), np.zeros(2))
    assert metric._pass.done == metric._pass.due == 18


@pytest.mark.parametrize("changes", [{"epoch": 9}, {"batch_size": 3}, {"dataset": range(SAMPLES + 1)}])
def test_another_sampler_epoch_or_batch_size_on_another_rank_is_an_error(changes: dict[str, Any]) -> None:
    def work(channel: Together) -> Any:
        metric = counted(paddles(channel.rank, 3, **(changes if channel.rank == 1 else {})), 18)
        return metric.compute(communicator=channel)

    with pytest.raises(fm.AgreementError, match=r"batch_size 4.*epoch 3.* on ranks 0, 2"):
        run(3, work)


class Seeded(Interleaved):
    """It deals in the order of a seed."""

    def __init__(self, rank: int, seed: int) -> None:
        super().__init__(rank, 3)
        self.seed = seed

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield (batch + self.seed) % SAMPLES


@pytest.mark.parametrize("what", ["subset", "order"])
def test_samplers_that_differ_only_in_the_samples_or_their_order_are_an_error(what: str) -> None:
    def work(channel: Together) -> Any:
        own = channel.rank == 1
        subset = Subset(range(SAMPLES), np.arange(9) + own)
        made = paddles(channel.rank, 3, dataset=subset) if what == "subset" else Seeded(channel.rank, own)
        return counted(made, dealt_indices(made).size).compute(communicator=channel)

    with pytest.raises(fm.AgreementError, match=rf"{what} \d+.* on rank"):
        run(3, work)


def test_a_sampler_of_another_rank_is_an_error_on_all_workers() -> None:
    def work(channel: Together) -> Any:
        return counted(paddles(max(1, channel.rank), 3), 18).compute(communicator=channel)

    with pytest.raises(fm.InvalidInputError, match="is for rank 1 of 3, but this worker is rank 0 of 3"):
        run(3, work)


def test_a_sampler_of_other_workers_is_an_error_and_compute_local_is_this_workers_value() -> None:
    metric = counted(paddles(0, 3), 18)
    with pytest.raises(fm.InvalidInputError, match="is for rank 0 of 3, but this worker is rank 0 of 1"):
        metric.compute()
    assert 17 <= metric.compute_local() <= 18


@pytest.mark.parametrize("made", [[[0, 1]], 3, SimpleNamespace(nranks=2)])
def test_an_invalid_sampler_is_refused_where_it_is_given(made: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match=r"sampler is an? .* without"):
        fm.Count(sampler=made)


# -- only the outermost ----------------------------------------------------------------------------------


def test_only_the_outermost_takes_a_sampler() -> None:
    sampler = paddles(0, 3)
    wrapped = fm.Sliced(fm.Count(sampler=sampler), by="user")
    assert wrapped.sampler is sampler and wrapped.metric.sampler is None
    with pytest.raises(fm.InvalidInputError, match=r"'n'.* has a sampler; .*give the sampler to the collection"):
        fm.MetricCollection({"n": fm.Count(sampler=sampler)})
    with pytest.raises(fm.InvalidInputError, match="takes metrics without a sampler"):
        fm.Count(sampler=sampler) + 1
    expression = fm.Count(name="n") * 2
    expression.sampler = sampler
    expression.operands[0].sampler = sampler
    with pytest.raises(fm.InvalidInputError, match="its sampler is ignored"):
        expression.compute()


def test_a_fresh_one_has_the_same_sampler_in_a_pass_of_its_own() -> None:
    sampler = paddles(0, 3)
    collection = fm.MetricCollection({"n": fm.Count(), "w": fm.Windowed(fm.Count(), last=2)}, sampler=sampler)
    collection.add(np.zeros(18))
    again = collection.fresh()
    assert again.sampler is sampler and again._pass.done == 0
    again.add(np.zeros(18))


# -- checkpoints, copies and the job's random state ------------------------------------------------------


def test_a_checkpoint_carries_the_pass() -> None:
    sampler = paddles(1, 3)
    one, metric = counted(sampler, 18), counted(sampler, 10)
    again = counted(sampler, 0)
    again.set_state_dict(metric.state_dict())
    with pytest.raises(fm.InvalidInputError, match="10 of the 18 samples"):
        again._pass.check(1, 3)
    again.add(np.zeros(8))
    assert again.compute_local() == one.compute_local()
    assert again._pass.check(1, 3) == one._pass.settings
    with pytest.raises(fm.InvalidInputError, match="19 samples were added, but the sampler assigns 18"):
        again.add([0.0])


def test_of_a_pass_that_another_sampler_goes_on_with_the_rest_is_not_asked_for() -> None:
    again = counted(paddles(1, 3), 0)
    again.set_state_dict(counted(paddles(1, 3), 10).state_dict())
    again.sampler = rest = paddles(1, 3, dataset=Subset(range(SAMPLES), range(29)))
    with pytest.raises(fm.InvalidInputError, match="0 of the 10 samples"):
        again._pass.check(1, 3)
    again.add(np.zeros(10))
    assert again._pass.check(1, 3) == Pass(rest).settings


@pytest.mark.parametrize("how", ["reset", "sampler"])
def test_after_a_resumed_pass_the_next_one_begins_at_its_first_sample(how: str) -> None:
    again = counted(paddles(1, 3), 0)
    again.set_state_dict(counted(paddles(1, 3), 10).state_dict())
    if how == "reset":
        again.reset()
    else:
        again.add(np.zeros(8))
        again.sampler = paddles(1, 3)
    again.add(np.zeros(18))
    with pytest.raises(fm.InvalidInputError, match="19 samples were added, but the sampler assigns 18"):
        again.add([0.0])


def part_of(sampler: Any, rank: int | None, done: int) -> Part:
    """The progress of a rank in the pass of a sampler."""
    return Part(Pass(sampler).settings or {}, rank, done, 18)


def test_among_the_parts_of_several_ranks_a_worker_goes_on_with_its_own() -> None:
    sampler = paddles(1, 3)
    for ranks, done in (((0, 1, 2), 4), ((0, 2), 0), ((2, None), 4)):  # None: of an earlier version
        one = Pass(sampler)
        one.hold([part_of(sampler, rank, 4 if rank in (1, None) else 7) for rank in ranks])
        one.begin()
        assert one.done == done


def test_the_settings_of_all_workers_are_known_right_after_a_checkpoint_unless_it_is_of_several_ranks() -> None:
    sampler = paddles(1, 3)
    for parts, known in (((1,), True), ((), False), ((0,), False), ((0, 1), False), ((None,), False)):
        one = Pass(sampler)
        one.hold([part_of(sampler, rank, 18) for rank in parts])
        assert one.check(1, 3) == (one.settings if known else None)
    without = paddles(1, 3, dataset=range(9), drop_last=True)  # deals to no worker
    one = Pass(without)
    one.hold([])
    assert one.check(1, 3) == one.settings


def test_a_pass_that_has_begun_keeps_its_epoch_and_a_look_does_not_begin_one() -> None:
    sampler = paddles(1, 3)
    one = Pass(sampler)
    one.check(1, 3, whole=False)
    assert one.epoch is None and one.done == 0
    sampler.epoch = 8
    one.take(4)
    settings = one.settings
    sampler.epoch, sampler.batch_size = 12, 5
    assert one.epoch == 7 and one.settings == settings is not None and settings["batch_size"] == 4
    one.hold([], epoch=2)
    assert one.epoch == 2
    one.take(4)
    assert one.epoch == 2


def test_a_whole_pass_is_computed_right_after_a_checkpoint_on_another_number_of_workers(tmp_path: Any) -> None:
    def saved(rows: int) -> Any:
        return lambda channel: fm.save(
            tmp_path / str(rows), counted(paddles(channel.rank, 3), rows), communicator=channel
        )

    def loaded(rows: int) -> Any:
        def work(channel: Together) -> Any:
            metric = counted(paddles(channel.rank, 2), 0)
            fm.load(tmp_path / str(rows), metric, communicator=channel)
            return metric.compute(communicator=channel)

        return work

    run(3, saved(18))
    run(3, saved(17))
    assert run(2, loaded(18)) == SAMPLES
    with pytest.raises(fm.InvalidInputError, match="17 of the 18 samples"):
        run(2, loaded(17))


def test_copies_keep_the_sampler_and_a_pickle_leaves_it_and_says_so() -> None:
    metric = counted(paddles(1, 3), 10)
    copied = copy.deepcopy(metric)
    assert copied.sampler is metric.sampler
    copied.add(np.zeros(8))
    assert metric._pass.done == 10
    sent = pickle.loads(pickle.dumps(metric))
    with pytest.raises(fm.InvalidInputError, match="was not pickled with it"):
        sent.add(np.zeros(8))
    with pytest.raises(fm.InvalidInputError, match="10 of the 18 samples"):
        sent.compute()


class Seeding(Interleaved):
    """It seeds the generators of the whole process."""

    def __iter__(self) -> Any:
        np.random.seed(self.epoch)
        random.seed(self.epoch)
        order = np.random.permutation(len(self.dataset))
        yield order[self.local_rank :: self.nranks]


def test_the_epoch_under_way_is_lower_only_for_samplers_that_raise_it_as_a_pass_begins() -> None:
    class Raises(Interleaved):
        def __iter__(self) -> Any:
            yield from super().__iter__()
            self.epoch += 1

    class Before(Interleaved):
        def __iter__(self) -> Any:
            self.epoch += 1
            yield from super().__iter__()

    for kind, epoch in ((Interleaved, 3), (Raises, 3), (Before, 2)):
        sampler = kind(0, 3)
        assert (epoch_under_way(sampler), sampler.epoch) == (epoch, 3)
    for shuffle, epoch in ((True, 3), (False, 4)):
        assert epoch_under_way(paddles(0, 3, shuffle=shuffle, epoch=4 + (not shuffle))) == epoch


def test_asking_for_an_order_keeps_the_jobs_random_state() -> None:
    sampler = Seeding(1, 3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    metric = counted(sampler, 4)
    metric.state_dict()
    assert before == (random.getstate(), np.random.get_state()[1].tolist())


def test_a_sampler_that_deals_by_chance_is_an_error() -> None:
    class Chance(Interleaved):
        def __iter__(self) -> Any:
            yield np.random.permutation(len(self.dataset))[self.local_rank :: self.nranks]

    with pytest.raises(fm.InvalidInputError, match="Chance gives a different order each time"):
        counted(Chance(0, 3), 4)


def test_flags_are_made_only_of_batches_with_padding() -> None:
    one = Pass(paddles(2, 3, shuffle=False, dataset=range(10), batch_size=2))
    assert one.take(2) is None and one.take(2).tolist() == [False, False]
    assert one.done == one.due


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_flags_are_those_of_the_mask_wherever_an_add_ends(size: int) -> None:
    sampler = paddles(2, 3, shuffle=False, dataset=range(10), batch_size=2)
    one, found = Pass(sampler), list[bool]()
    while one.done < 4:
        rows = min(size, 4 - one.done)
        flags = one.take(rows)
        found += [True] * rows if flags is None else flags.tolist()
    assert found == (~fm.padding_mask(sampler)).tolist() == [True, True, False, False]
