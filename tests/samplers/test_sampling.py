"""The real sampler is the judge: what it deals, over the space of small cases."""

import functools
import itertools
import random
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from paddle.io import BatchSampler, DataLoader, Dataset, DistributedBatchSampler

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.arrangement import arrange
from fleetmetrics.samplers.dealing import Dealing, dataset_indices, epoch_under_way
from fleetmetrics.samplers.iterated import Iterated
from fleetmetrics.samplers.sampling import dealt_indices, kept_positions, padding_mask, remaining_indices

#: Ranks, batch sizes, numbers of samples. How blocks are dealt does not depend on the shuffling, which is slow.
WHOLE_SPACE = (range(1, 9), (*range(1, 9), 16), (*range(41), 63, 64))
SHUFFLED_SPACE = (range(1, 9), (1, 2, 3, 5, 16), (*range(20), 33, 50, 64))
ONE_RANK_OR_THREE = ((1, 3), (1, 2, 3, 5), range(34))


def make(samples, batch=2, ranks=3, shuffle=False, drop_last=False, rank=0, kind=DistributedBatchSampler):
    return kind(range(samples), batch, num_replicas=ranks, rank=rank, shuffle=shuffle, drop_last=drop_last)


def described(samples, batch=2, ranks=3, shuffle=False, drop_last=False, rank=0, epoch=0, **more):
    values = {"dataset": range(samples), "batch_size": batch, "nranks": ranks, "local_rank": rank, "shuffle": shuffle}
    return SimpleNamespace(**values, drop_last=drop_last, epoch=epoch, **more)


def iterate(sampler, epoch=0):
    """What the sampler itself deals to each rank."""
    dealt = []
    for rank in range(sampler.nranks):
        sampler.local_rank = rank
        sampler.set_epoch(epoch)
        dealt.append(list(itertools.chain.from_iterable(sampler)))
    sampler.local_rank = 0
    sampler.set_epoch(epoch)
    return dealt


@functools.lru_cache(maxsize=None)
def positions_by_rank(batch, ranks, total, shuffle, drop_last, epoch):
    """A sampler of `total` samples, which pads nothing, deals the positions in the padded list of a shorter one."""
    return [np.array(part, int) for part in iterate(make(total, batch, ranks, shuffle, drop_last), epoch)]


def padding_by_rank(positions, samples, batch):
    """True except for the first entry of each sample that is dealt: the earliest step, of that the lowest position."""
    entries = [(j // batch, g, rank, j) for rank, part in enumerate(positions) for j, g in enumerate(part.tolist())]
    masks, seen = [np.ones(part.size, bool) for part in positions], set()
    for _, position, rank, place in sorted(entries):
        masks[rank][place] = position % samples in seen
        seen.add(position % samples)
    return masks


def disagreement(samples, batch, ranks, shuffle, drop_last, epoch):
    """What is wrong with one pass of one real sampler, in a word; None if nothing is."""
    sampler = make(samples, batch, ranks, shuffle, drop_last)
    real = iterate(sampler, epoch)
    dealing = Dealing(sampler, epoch)
    if [dealing.dealt.indices(rank).tolist() for rank in range(ranks)] != real:
        return "dealt"
    if [dealing.dealt.count(rank) for rank in range(ranks)] != [len(part) for part in real]:
        return "count"
    masks = [dealing.dealt.mask(rank) for rank in range(ranks)]
    positions = positions_by_rank(batch, ranks, -(-samples // ranks) * ranks, shuffle, drop_last, epoch)
    if [mask.tolist() for mask in masks] != [mask.tolist() for mask in padding_by_rank(positions, samples, batch)]:
        return "mask"
    kept = [np.array(part, int)[~mask] for part, mask in zip(real, masks)]
    ordered = np.full(sum(part.size for part in kept), -1)
    if ordered.size != dealing.dealt.distinct:
        return "distinct"
    for rank, part in enumerate(kept):
        ordered[dealing.dealt.kept(rank)] = part
    return None if ordered.tolist() == sorted(set(itertools.chain.from_iterable(real))) else "order"


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    ("shuffle", "epoch", "space"), [(False, 0, WHOLE_SPACE), (True, 0, ONE_RANK_OR_THREE), (True, 3, SHUFFLED_SPACE)]
)
def test_dealing_padding_and_order_are_those_of_the_real_sampler(shuffle, epoch, space, drop_last):
    failures = []
    for ranks, batch, samples in itertools.product(*space):
        wrong = disagreement(samples, batch, ranks, shuffle, drop_last, epoch)
        if wrong:
            failures.append((wrong, f"{ranks} ranks, batch {batch}, {samples} samples"))
    assert failures == []


def test_one_rank_gets_its_positions_as_all_do():
    for sampler in (make(50, 4, 3, shuffle=True, drop_last=True), make(5, 2, 8), make(0)):
        dealing = Dealing(sampler, 7)
        for rank in range(dealing.ranks):
            assert np.array_equal(dealt_indices(sampler, rank, 7), dealing.dealt.indices(rank))
            assert np.array_equal(padding_mask(sampler, rank, 7), dealing.dealt.mask(rank))
            assert np.array_equal(kept_positions(sampler, rank, 7), dealing.dealt.kept(rank))
            assert dealing.dealt.kept(rank).dtype == np.int32


def test_the_example_of_the_documents():
    sampler = make(13)
    assert [padding_mask(sampler, rank).tolist() for rank in range(3)] == [
        [False, False, False, False, False],
        [False, False, False, False, True],
        [False, False, False, False, True],
    ]


def test_a_copy_counts_where_drop_last_drops_the_original():
    stand_ins = 0
    for epoch in range(20):
        sampler = make(11, 2, 4, shuffle=True, drop_last=True)  # drops 4 of (0, ..., 10, 0)
        flat = np.concatenate(positions_by_rank(2, 4, 12, True, True, epoch))
        masks = np.concatenate([padding_mask(sampler, rank, epoch) for rank in range(4)])
        assert masks[flat == 11].tolist() == ([0 in flat] if 11 in flat else [])
        stand_ins += 11 in flat and 0 not in flat
    assert stand_ins > 0


def test_several_blocks_to_a_batch_as_in_auto_parallel():
    for samples, batch, drop_last, shuffle in itertools.product(range(40), (1, 2, 3), (False, True), (False, True)):
        sampler = make(samples, batch, 3, shuffle, drop_last)
        if hasattr(sampler, "_acc_steps"):  # Paddle 2.6 has none
            sampler._acc_steps = 2
        real = iterate(sampler, 4)
        masks = [padding_mask(sampler, rank) for rank in range(3)]
        assert [dealt_indices(sampler, rank).tolist() for rank in range(3)] == real
        kept = [index for part, mask in zip(real, masks) for index in np.array(part, int)[~mask]]
        assert sorted(kept) == sorted(set(itertools.chain.from_iterable(real)))


def test_a_data_set_that_has_become_shorter_is_dealt_as_paddle_deals_it():
    sampler = make(12, 2, 3)
    sampler.dataset = range(5)
    assert [dealt_indices(sampler, rank).tolist() for rank in range(3)] == iterate(sampler)
    assert sum(int((~padding_mask(sampler, rank)).sum()) for rank in range(3)) == 5


def test_rank_and_epoch_are_the_samplers_unless_given():
    sampler = make(20, 2, 3, shuffle=True, rank=2)
    sampler.set_epoch(5)
    batches = iter(sampler)
    first = next(batches)
    assert sampler.epoch == 6
    assert dealt_indices(sampler, epoch=sampler.epoch - 1).tolist() == first + list(
        itertools.chain.from_iterable(batches)
    )
    assert dealt_indices(sampler).tolist() == dealt_indices(sampler, rank=2, epoch=6).tolist()
    assert dealt_indices(sampler).tolist() == list(itertools.chain.from_iterable(sampler))
    assert dealt_indices(make(20), np.int64(1), np.int64(5)).dtype == np.int64


class Numbers(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return np.float32(index)


def test_a_data_loader_is_accepted_in_place_of_its_sampler():
    loader = DataLoader(Numbers(), batch_sampler=make(10, rank=2))
    assert dealt_indices(loader).tolist() == [4, 5, 0, 1]
    assert padding_mask(loader).tolist() == [False, False, True, True]
    assert kept_positions(loader, 0).tolist() == [0, 1, 6, 7]


def test_a_loader_whose_sampler_deals_no_batch_is_accepted_in_its_place_too():
    """Such a sampler has no length, and is false."""
    sampler = make(5, batch=4, ranks=3, drop_last=True)
    loader = SimpleNamespace(batch_sampler=sampler)
    assert not sampler and dealt_indices(loader).tolist() == dealt_indices(sampler).tolist() == []


def test_an_object_with_the_attributes_of_the_sampler_will_do():
    for shuffle, drop_last in itertools.product((False, True), repeat=2):
        real, like = make(23, 3, 4, shuffle, drop_last), described(23, 3, 4, shuffle, drop_last)
        for rank in range(4):
            assert np.array_equal(dealt_indices(real, rank, 2), dealt_indices(like, rank, 2))
            assert np.array_equal(padding_mask(real, rank, 2), padding_mask(like, rank, 2))


# Samplers that deal in their own way


class Sequential(DistributedBatchSampler):
    """Deals runs of the data set instead of blocks, with an overlap for padding, as some samplers do."""

    def __iter__(self):
        each = self.num_samples
        start = min(self.local_rank * each, len(self.dataset) - each)
        indices = np.arange(start, start + each)
        if self.shuffle:
            np.random.RandomState([self.epoch, self.local_rank]).shuffle(indices)
            self.epoch += 1
        for batch in range(0, each, self.batch_size):
            yield indices[batch : batch + self.batch_size]


class Odd(DistributedBatchSampler):
    def __iter__(self):
        for batch in super().__iter__():
            yield [index for index in batch if index % 2]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", [Sequential, Odd])
def test_a_sampler_that_deals_in_its_own_way_is_iterated(kind, shuffle):
    sampler = make(10, 2, 3, shuffle, kind=kind)
    real = iterate(sampler, 4)
    dealt = [dealt_indices(sampler, rank) for rank in range(3)]
    assert [part.tolist() for part in dealt] == real
    masks = [padding_mask(sampler, rank) for rank in range(3)]
    kept = [part[~mask] for part, mask in zip(dealt, masks)]
    samples = sorted(set(itertools.chain.from_iterable(real)))
    assert sorted(np.concatenate(kept)) == samples
    ordered = np.full(len(samples), -1)
    for rank, part in enumerate(kept):
        ordered[kept_positions(sampler, rank)] = part
    assert ordered.tolist() == samples
    assert (sampler.epoch, sampler.local_rank) == (4, 0)  # copies were iterated
    earlier = make(10, 2, 3, shuffle, kind=kind)
    assert [dealt_indices(earlier, rank, epoch=4).tolist() for rank in range(3)] == real


def test_a_sampler_of_ones_own_has_its_epoch_and_needs_no_more_than_a_rank():
    class Turning:
        """Deals two samples to each rank, of which each epoch turns the order; it does not mention shuffling."""

        nranks, local_rank, epoch = 2, 0, 1

        def __iter__(self):
            yield np.roll(np.arange(4), self.epoch)[2 * self.local_rank :][:2]

    assert [dealt_indices(Turning(), rank).tolist() for rank in range(2)] == [[3, 0], [1, 2]]
    assert [dealt_indices(Turning(), rank, epoch=2).tolist() for rank in range(2)] == [[2, 3], [0, 1]]


def test_among_repeated_samples_the_earliest_counts_then_the_lowest_rank():
    class Given(DistributedBatchSampler):
        def __iter__(self):
            yield [[7, 3, 3], [1, 7], [1, 9, 9, 7]][self.local_rank]

    sampler = make(10, kind=Given)
    assert [padding_mask(sampler, rank).tolist() for rank in range(3)] == [
        [False, False, True],
        [False, True],
        [True, False, True, True],
    ]
    assert [kept_positions(sampler, rank).tolist() for rank in range(3)] == [[2, 1], [0], [3]]


@pytest.mark.numpy_only
def test_of_many_repeated_samples_the_earliest_counts_then_the_lowest_rank():
    """That many that a sort may change the order of what is equal."""

    class Same(SimpleNamespace):
        def __iter__(self):
            return iter([np.arange(100)])

    dealing = Dealing(Same(nranks=3, local_rank=0, epoch=0))
    assert [dealing.dealt.mask(rank).sum() for rank in range(3)] == [0, 100, 100]


class Drawing(SimpleNamespace):
    """Shuffles with the generators of the process, with its own, or with a copy of that of the process."""

    nranks, local_rank, epoch = 2, 0, 0

    def __iter__(self):
        if self.draws == "python":
            random.seed(3)
            yield random.sample(range(9), 9)
        if self.draws == "numpy":
            np.random.seed(3)
            yield np.random.permutation(9)
        if self.draws == "its own":
            self.generator.seed(3)
            yield self.generator.permutation(9)
        if self.draws == "a copy":
            one = random.Random()
            one.setstate(random.getstate())
            yield one.sample(range(9), 9)


@pytest.mark.numpy_only
@pytest.mark.parametrize("draws", ["python", "numpy", "its own"])
def test_a_look_at_what_a_sampler_deals_changes_no_random_state(draws):
    sampler = Drawing(draws=draws, generator=np.random.RandomState(5))

    def states():
        own = sampler.generator.get_state()[1].tolist()
        return random.getstate(), np.random.get_state()[1].tolist(), own

    before = states()
    assert sorted(dealt_indices(sampler, 1).tolist()) == [*range(9)]
    assert states() == before


@pytest.mark.numpy_only
def test_an_order_that_follows_the_random_state_of_the_process_is_an_error():
    with pytest.raises(InvalidInputError, match="Drawing gives a different order each time that it is iterated"):
        dealt_indices(Drawing(draws="a copy"), 1)


@pytest.mark.numpy_only
def test_the_digest_of_what_is_dealt_tells_who_is_dealt_it():
    one, other = ([Iterated([[part] for part in parts]).digest] for parts in ([[0, 1], [2]], [[0], [1, 2]]))
    assert one != other


class Shuffled(SimpleNamespace):
    """Like PyTorch's: it pads an order of all samples, and deals every n-th to a rank."""

    epoch, iterated = 1, 0

    def order(self):
        Shuffled.iterated += 1
        order = np.random.RandomState(self.epoch).permutation(len(self.dataset))
        return np.resize(order, -(-order.size // self.ranks) * self.ranks)

    def __iter__(self):
        return iter(self.order()[self.rank :: self.num_replicas].tolist())


class InBlocks(Shuffled):
    """Like Paddle's: it deals blocks of a batch in turn, and the same number of the rest to each."""

    batch_size = 3

    def __iter__(self):
        order, step = self.order(), self.num_replicas * self.batch_size
        whole = order.size // step * step
        yield from order[:whole].reshape(-1, self.num_replicas, self.batch_size)[:, self.rank].tolist()
        yield order[whole:].reshape(self.num_replicas, -1)[self.rank].tolist()


class FirstGetsMore(Shuffled):
    """It gives the first half to the first rank, and the others a part each of the second half."""

    def __iter__(self):
        order = self.order()
        half = order.size // 2
        rest = np.array_split(order[half:], self.num_replicas - 1) if self.num_replicas > 1 else [order[half:]]
        return iter((order[:half] if self.rank == 0 else rest[self.rank - 1]).tolist())


@pytest.mark.numpy_only
@pytest.mark.parametrize("kind", [Shuffled, InBlocks, FirstGetsMore])
@pytest.mark.parametrize("samples", [31, 32, 40])
def test_a_sampler_that_shares_out_one_order_is_iterated_twice_however_many_ranks_there_are(kind, samples):
    for rank in range(8):
        sampler = kind(dataset=range(samples), num_replicas=8, ranks=8, rank=rank)
        Shuffled.iterated = 0
        mask = padding_mask(sampler)
        assert Shuffled.iterated == 2 or kind is FirstGetsMore
        assert mask.tolist() == padding_mask(sampler, rank).tolist()
        assert dealt_indices(sampler).tolist() == np.hstack([*sampler]).tolist()
        assert Dealing(sampler).settings["order"] == Dealing(sampler, every=True).settings["order"]


def test_paddles_own_way_of_dealing_needs_no_iteration(monkeypatch):
    class Named(DistributedBatchSampler):
        name = "evaluation"

    monkeypatch.setattr(DistributedBatchSampler, "__iter__", None)
    assert dealt_indices(make(10, kind=Named), 2).tolist() == [4, 5, 0, 1]


@pytest.mark.numpy_only
def test_what_does_not_change_paddles_order_is_no_setting_of_a_pass():
    given = {"dataset": range(10), "batch_size": 2, "nranks": 3, "local_rank": 1, "shuffle": False, "drop_last": False}
    plain = Dealing(SimpleNamespace(**given, epoch=0))
    odd = Dealing(SimpleNamespace(**given, epoch=2**40, consumed_samples=6))  # no seed, and nothing is consumed
    assert odd.settings == plain.settings and odd.dealt.indices(1).tolist() == plain.dealt.indices(1).tolist()


@pytest.mark.numpy_only
def test_a_sampler_of_single_samples_has_the_batches_of_the_loader_around_it():
    class Sampler(SimpleNamespace):  # as PyTorch's
        def __iter__(self):
            return iter(range(self.rank, 10, self.num_replicas))

    class Loader(SimpleNamespace):
        def __iter__(self):
            for sample in self.sampler:
                yield [sample]

    loader = Loader(batch_size=3, sampler=Sampler(num_replicas=2, rank=0, dataset=range(10)))
    assert Dealing(loader).settings["batch_size"] == 3
    assert remaining_indices(loader, [1, 0]).tolist() == [1, 3, 5, 6, 7, 8, 9]


def test_another_librarys_sampler_of_the_same_name_is_iterated():
    namesake = type("DistributedBatchSampler", (DistributedBatchSampler,), {"__iter__": lambda self: iter([[5]])})
    assert dealt_indices(make(10, kind=namesake), 2).tolist() == [5]


# Arguments


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: padding_mask(BatchSampler(dataset=range(9), batch_size=2)), "BatchSampler without nranks"),
        (lambda: padding_mask(DataLoader(Numbers(), batch_size=2)), "each worker evaluates everything"),
        (lambda: padding_mask([[0, 1]]), "list without nranks, local_rank.*BaseMetric ids="),
        (lambda: padding_mask(SimpleNamespace(nranks=2)), "without local_rank, dataset, batch_size"),
        (lambda: padding_mask(make(9), 3), "rank must be at most 2, not 3"),
        (lambda: padding_mask(make(9), -1), "rank must be an integer of at least 0, not -1"),
        (lambda: padding_mask(make(9), 1.0), "rank must be an integer of at least 0, not 1.0"),
        (lambda: padding_mask(make(9, rank=5)), "rank must be at most 2, not 5"),
        (lambda: padding_mask(make(9), epoch=-1), "epoch must be an integer of at least 0, not -1"),
        (lambda: padding_mask(make(9), epoch=2**32), "epoch must be at most 4294967295, not 4294967296"),
        (lambda: padding_mask(make(9), epoch="1"), "epoch must be an integer of at least 0, not '1'"),
        (
            lambda: padding_mask(described(9, shuffle=True, epoch=None)),
            "epoch must be an integer of at least 0, not None",
        ),
        (lambda: padding_mask(described(9, batch=0)), "batch_size must be an integer of at least 1, not 0"),
        (lambda: padding_mask(described(9, ranks=0)), "nranks must be an integer of at least 1, not 0"),
        (lambda: kept_positions(make(9), 0, 0.5), "epoch must be an integer of at least 0, not 0.5"),
    ],
)
def test_wrong_arguments_are_named(call, text):
    with pytest.raises(InvalidInputError, match=text):
        call()


# Memory


def peak_of(call):
    call()
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_unshuffled_the_mask_is_all_that_is_made():
    sampler = described(4_000_001, 64, 4)
    for rank in range(4):
        mask, peak = peak_of(lambda rank=rank: padding_mask(sampler, rank))
        assert mask.size == 1_000_001
        assert peak < mask.size + 10_000


def test_a_rank_of_many_does_not_pay_for_the_whole_data_set():
    sampler = described(2**33, 8, 2**20)
    positions, peak = peak_of(lambda: kept_positions(sampler, 2**20 - 1))
    assert positions.dtype == np.int64
    assert positions[[0, -1]].tolist() == [8 * (2**20 - 1), 2**33 - 1]
    assert peak < 1_000_000


def test_positions_take_eight_bytes_from_2_to_the_31_records_on():
    for samples, dtype in ((2**31, np.int64), (2**31 - 2**20, np.int32)):
        assert kept_positions(described(samples, 8, 2**20), 0).dtype == dtype


def test_a_batch_may_be_larger_than_any_data_set():
    for shuffle in (False, True):
        like, larger = described(10, 4, 3, shuffle), described(10, 2**40, 3, shuffle)
        for rank in range(3):
            assert dealt_indices(larger, rank).tolist() == dealt_indices(like, rank).tolist()
            assert padding_mask(larger, rank).tolist() == padding_mask(like, rank).tolist()


def test_shuffled_one_permutation_is_made():
    sampler = described(1_000_001, 64, 4, shuffle=True, drop_last=True)
    mask, peak = peak_of(lambda: padding_mask(sampler, 3))
    assert peak < 4 * 1_000_004 + 9 * mask.size + 100_000


# Records without a sampler


def blocks_of(samples, batch, ranks):
    whole, rest = divmod(-(-samples // ranks), batch)
    return [[batch] * whole + [rest] * bool(rest)] * ranks


def test_block_by_block_cut_at_the_length_of_the_data_set_is_right_where_nothing_is_shuffled():
    failures = []
    for ranks, batch, samples in itertools.product(*WHOLE_SPACE):
        sampler, blocks = described(samples, batch, ranks), blocks_of(samples, batch, ranks)
        gathered = np.full(sum(map(sum, blocks)), -1)
        for rank, places in enumerate(arrange("batch", [sum(part) for part in blocks], blocks)):
            gathered[places] = dealt_indices(sampler, rank)
        if gathered[:samples].tolist() != list(range(samples)):
            failures.append((ranks, batch, samples))
    assert failures == []


def test_sample_by_sample_cut_at_the_length_is_what_others_do_and_keeps_the_wrong_samples():
    wrong = dict.fromkeys([2, 3, 4, 8], 0)
    for ranks, batch, samples in itertools.product(wrong, (2, 3, 4, 8, 16), range(1, 65)):
        sampler, each = described(samples, batch, ranks), -(-samples // ranks)
        gathered = np.full(each * ranks, -1)
        for rank, places in enumerate(arrange("unzip", [each] * ranks)):
            gathered[places] = dealt_indices(sampler, rank)
        wrong[ranks] += len(set(gathered[:samples].tolist())) != samples
    assert sum(wrong.values()) == 372  # of 1,280
    assert wrong[2] == 0  # which is why it goes unnoticed


def test_paddle_is_not_needed():
    code = """
import sys
sys.modules["paddle"] = None  # importing it fails
from types import SimpleNamespace
from fleetmetrics.records.arrangement import arrange
from fleetmetrics.samplers.sampling import padding_mask
print(padding_mask(SimpleNamespace(dataset=range(10), batch_size=2, nranks=3, local_rank=2, shuffle=True,
                                   drop_last=True, epoch=1)).size, arrange("cat", [2]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "4 [slice(0, 2, 1)]", done.stderr


@pytest.mark.numpy_only
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_remaining_indices_of_batches_of_several_blocks_are_those_in_no_batch(shuffle):
    """As where gradients are accumulated: a batch of a worker is two blocks of three."""
    sampler = SimpleNamespace(
        dataset=range(50), batch_size=3, nranks=2, local_rank=0, shuffle=shuffle, drop_last=False, epoch=0, _acc_steps=2
    )
    done = [dealt_indices(sampler, rank)[: 6 * number].tolist() for rank, number in enumerate((2, 1))]
    left = remaining_indices(sampler, [2, 1])
    assert left.tolist() == sorted({*range(50)} - {*done[0], *done[1]})
    for batches in ([1], [1, 1, 1], []):
        with pytest.raises(InvalidInputError, match=r"batches is .*; it must hold a number for each of 2 ranks$"):
            remaining_indices(sampler, batches)


@pytest.mark.numpy_only
def test_the_pass_under_way_is_the_one_that_began_last_and_parts_of_parts_are_of_the_whole():
    sampler = SimpleNamespace(dataset=range(9), batch_size=2, nranks=1, local_rank=0, drop_last=False)
    for shuffle, epoch, found in ((True, 0, 0), (True, 1, 0), (True, 3, 2), (False, 3, 3)):
        sampler.shuffle, sampler.epoch = shuffle, epoch
        assert epoch_under_way(sampler) == found  # one that shuffles counts on as it begins a pass
    assert dataset_indices(sampler) is None
    part = SimpleNamespace(dataset=range(9), indices=[8, 6, 4, 2])
    sampler.dataset = SimpleNamespace(dataset=part, indices=[3, 0])
    assert dataset_indices(sampler).tolist() == [2, 8]
