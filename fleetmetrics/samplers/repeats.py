"""Samples that have counted more than once: those that a sampler repeats, and those that every worker has added.

A sampler that deals a data set to several workers repeats samples so that all get the same number. If every worker has
added exactly what such a sampler of its process deals it in a pass, and the metric has no sampler, more samples were
added than the data set has. A training sampler gives no false alarm: a metric that did not get its whole pass has
another number. If a second sampler deals the same number without repeats, either may have dealt them: no warning then.

Without any sampler, each worker evaluates the whole data set, and all add the very same samples. Sums tell without a
message of their own: where all workers hold equal ones, the sum over the workers is their number times this worker's,
in each entry. Records tell by a digest of a few, which goes with their description. Equal numbers are no proof. The
number of samples is often equal, and that of right answers may be, by chance. So states count as equal only with
evidence: sixteen entries of histograms and matrices that are not all one number, where a sum of floats that is not
whole is as good as eight. Records need as many different bytes as numbers have, and flags lack.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import weakref
import zlib
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import SizeWarning
from fleetmetrics.samplers.dealing import Dealing, places_in
from fleetmetrics.serial.descriptions import Block
from fleetmetrics.serial.serializer import pack
from fleetmetrics.support.warning import warn

__all__ = ["Repeats", "all_equal", "digest_of", "repeats_of", "sums_are_equal", "warn_of_same_samples"]

#: Where the base classes of samplers are, by module: samplers of other libraries derive from them.
_BASES = {"paddle.io": ("BatchSampler", "Sampler"), "torch.utils.data": ("Sampler",)}
#: The seconds that looking for samplers may take in a process: these, and this share of the time since the first look.
_SECONDS, _SHARE = 0.5, 0.01
#: Of a data set of no more samples, a copy of a sampler with an order of its own is iterated once.
_FEW = 10_000
#: The evidence that is enough, in entries that are not 0.
_ENOUGH = 16
#: The evidence of a sum of floats, in such entries.
_OF_A_FLOAT = 8
#: The number of entries by which large states are first compared: those of other samples differ there.
_FIRST = 64
#: The number of records of each column that are compared, at its beginning, middle and end.
_LOOKED_AT = 16
#: How many different bytes they must have: flags, and numbers of few classes, have fewer.
_BYTES = 24

_samplers: weakref.WeakSet[Any] = weakref.WeakSet()
#: The numbers of samples that samplers with an order of their own deal this worker.
_counted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_spent = 0.0
_first: float | None = None


class Repeats(NamedTuple):
    """A sampler that deals more samples than its data set has, and the number that it deals each worker."""

    sampler: str
    dealt: int
    ranks: int
    samples: int

    def warn(self, name: str, owner: str, size: str = "") -> None:
        """Warn that a metric has counted the repeats.

        Args:
            name: of the metric.
            owner: the class to create with the sampler.
            size: another call that leaves the repeats out.
        """
        more = f", or call {size.format(self.samples)}" if size else f", or {owner}(..., size={self.samples}) to check"
        warn(
            f"{name}: each worker added the {self.dealt:,} samples that {self.sampler} assigns to it, "
            f"{self.dealt * self.ranks:,} in all, but the data set has {self.samples:,}: those that it repeats, so "
            f"that all workers get the same number, count again. Create {owner}(..., sampler=sampler){more}",
            SizeWarning,
        )


def repeats_of(added: int, rank: int, ranks: int, look: bool) -> Repeats | None:
    """The sampler of this process that deals a worker exactly this number of samples, with repeats.

    Args:
        added: the number of samples that this worker has added, none of them masked.
        rank: of this worker among those that compute.
        ranks: the number of these.
        look: whether to look for samplers, which takes some milliseconds, if no known one fits.
    """
    fitting = _fitting(added, rank, ranks)
    if not fitting and look and added and _look():
        fitting = _fitting(added, rank, ranks)
    return fitting[0] if fitting and all(repeats.samples < added * ranks for repeats in fitting) else None


def _fitting(added: int, rank: int, ranks: int) -> list[Repeats]:
    """The known samplers that deal a worker this number of samples, with repeats or without any."""
    fitting: list[Repeats] = []
    if not _samplers:  # the usual case, at each exchange
        return fitting
    for sampler in list(_samplers):
        with contextlib.suppress(Exception):  # a sampler without a size, and whatever a user's object raises
            if places_in(sampler) == (ranks, rank):
                samples = len(sampler.dataset)
                if 0 < samples <= added * ranks and added <= samples and _deals(sampler, rank, added, samples, ranks):
                    fitting.append(Repeats(type(sampler).__name__, added, ranks, samples))
    return sorted(fitting)  # in one order on every worker


def _deals(sampler: Any, rank: int, added: int, samples: int, ranks: int) -> bool:
    """Whether a sampler deals a worker this number of samples in a pass."""
    share = int(getattr(sampler, "num_samples", -(-samples // ranks)))
    batch = int(getattr(sampler, "batch_size", 1) or 1)
    if getattr(sampler, "drop_last", False):
        share -= share % batch
    if added in (share, len(sampler) * batch):
        return True
    if samples > _FEW:
        return False
    if sampler not in _counted:  # a sampler with an order of its own
        _counted[sampler] = Dealing(sampler).dealt.count(rank)
    return _counted[sampler] == added


def _look() -> bool:
    """Look for the samplers of this process; False if that would take too long."""
    global _spent, _first
    now = time.perf_counter()
    _first = now if _first is None else _first
    if _spent > _SECONDS + _SHARE * (now - _first):
        return False
    kinds = set(_kinds())
    if kinds:  # an object refers to its class
        for referrer in gc.get_referrers(*kinds):
            if type(referrer) in kinds:
                with contextlib.suppress(TypeError):  # a class whose objects have no weak references, or no hash
                    _samplers.add(referrer)
    _spent += time.perf_counter() - now
    return True


def _kinds() -> Iterator[type]:
    """The classes of samplers."""
    bases = [getattr(sys.modules.get(module), name, None) for module, names in _BASES.items() for name in names]
    kinds = [base for base in bases if isinstance(base, type)]
    while kinds:
        kind = kinds.pop()
        yield kind
        kinds += type.__subclasses__(kind)


# The same samples on every worker


def warn_of_same_samples(called: str, workers: int) -> None:
    """Warn on each worker."""
    loader = "DataLoader(data, batch_sampler=paddle.io.DistributedBatchSampler(data, batch_size))"
    warn(
        f"{called}: all {workers} workers have added the very same samples, and each counts {workers} times. Divide "
        f"the data set, {loader}, and give the metric sampler=; or let one worker evaluate it, with compute_local()"
    )


def sums_are_equal(blocks: Sequence[Any], totals: Sequence[np.ndarray], workers: int) -> bool:
    """Whether all workers hold the same states, from this worker's and the sums over all; False without evidence.

    Args:
        blocks: this worker's.
        totals: the sum over all workers for each block.
        workers: how many there are.
    """
    pairs = []
    with np.errstate(over="ignore"):  # of sums near the largest float64: they are then no evidence
        for block, total in zip(blocks, totals):
            if type(block) is not Block or block.reduction != "sum":
                continue
            mine = block.array
            if mine.shape != total.shape:  # of the keys of all workers, which this one does not have
                return False
            if mine.size == 1:
                if mine.item() * workers != total.item():
                    return False
            elif mine.size:  # those of other samples differ in the middle already
                mine, total = mine.reshape(-1), total.reshape(-1)
                start = mine.size // 2
                if (mine[start : start + _FIRST] * workers).tobytes() != total[start : start + _FIRST].tobytes():
                    return False
            pairs.append((mine, total))
        for mine, total in pairs:
            if not np.array_equal(mine * workers, total):
                return False
    return sum(_evidence(mine.reshape(-1)) for mine, _ in pairs) >= _ENOUGH


def _evidence(sums: np.ndarray) -> int:
    filled = sums[sums != 0]
    whole = filled == np.floor(filled)
    counts = filled[whole]
    varied = counts.size > 1 and bool((counts != counts[0]).any())
    return (counts.size if varied else 0) + _OF_A_FLOAT * len(set(filled[~whole].tolist()))


def digest_of(columns: Iterable[Any], number: int) -> int:
    """A digest of some records, and of their number; 0 if they have too little content to tell samples apart."""
    middle = max(0, number // 2 - _LOOKED_AT // 2)
    data = b""
    for column in columns:
        if column is not None:
            places = [column[:_LOOKED_AT], column[middle : middle + _LOOKED_AT], column[-_LOOKED_AT:]]
            data += b"".join([_bytes(place) for place in places])
    return zlib.crc32(data, number) | 1 << 32 if len(set(data)) >= _BYTES else 0


def _bytes(records: Any) -> bytes:
    if isinstance(records, np.ndarray) and records.dtype.kind != "O":
        return records.tobytes()
    try:
        return b"".join(pack(list(records)).buffers)
    except Exception:  # what cannot be sent tells nothing
        return b""


def all_equal(digests: Sequence[int]) -> bool:
    """Whether several workers' digests are those of the same records."""
    return len(digests) > 1 and digests[0] != 0 and len(set(digests)) == 1
