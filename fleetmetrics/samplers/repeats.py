"""Samples that a sampler of this process deals twice, and that a metric without a sampler has counted again.

A sampler that deals a data set to several workers repeats samples so that all get the same number. If every worker has
added exactly what such a sampler deals it in a pass, more samples were added than the data set has, so that some
counted twice. A training sampler gives no false alarm: a metric that did not get its whole pass has another number.
If a second sampler deals the same number without repeats, either may have dealt them: no warning then.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import weakref
from typing import Any, Iterator, NamedTuple

from fleetmetrics.errors import SizeWarning
from fleetmetrics.samplers.dealing import Dealing, places_in
from fleetmetrics.support.warning import warn

__all__ = ["Repeats", "repeats_of"]

#: Where the base classes of samplers are, by module: samplers of other libraries derive from them.
_BASES = {"paddle.io": ("BatchSampler", "Sampler"), "torch.utils.data": ("Sampler",)}
#: The seconds that looking for samplers may take in a process: these, and this share of the time since the first look.
_SECONDS, _SHARE = 0.5, 0.01

#: Of a data set of no more samples, a copy of a sampler with an order of its own is iterated once.
_FEW = 10_000

_samplers: weakref.WeakSet[Any] = weakref.WeakSet()
#: The numbers of samples that samplers with an order of their own deal this worker.
_counted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_spent = 0.0
_first: float | None = None


class Repeats(NamedTuple):
    """A sampler that deals more samples than its data set has, and the number that it deals each worker."""

    sampler: str
    each: int
    ranks: int
    samples: int

    def warn(self, name: str, made: str, size: str = "") -> None:
        """Warn that a metric has counted the repeats.

        Args:
            name: of the metric.
            made: the class to create with the sampler.
            size: another call that leaves the repeats out.
        """
        more = f", or call {size.format(self.samples)}" if size else f", or {made}(..., size={self.samples}) to check"
        warn(
            f"{name}: each worker added the {self.each:,} samples that {self.sampler} deals it, "
            f"{self.each * self.ranks:,} in all, but the data set has {self.samples:,}: those that it repeats, so that "
            f"all workers get the same number, count again. Create {made}(..., sampler=sampler){more}",
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
    found = _fitting(added, rank, ranks)
    if not found and look and added and _look():
        found = _fitting(added, rank, ranks)
    return found[0] if found and all(each.samples < added * ranks for each in found) else None


def _fitting(added: int, rank: int, ranks: int) -> list[Repeats]:
    """The known samplers that deal a worker this number of samples, with repeats or without any."""
    found: list[Repeats] = []
    if not _samplers:  # the usual case, at each exchange
        return found
    for sampler in list(_samplers):
        with contextlib.suppress(Exception):  # a sampler without a size, and whatever a user's object raises
            if places_in(sampler) == (ranks, rank):
                samples = len(sampler.dataset)
                if 0 < samples <= added * ranks and added <= samples and _deals(sampler, rank, added, samples, ranks):
                    found.append(Repeats(type(sampler).__name__, added, ranks, samples))
    return sorted(found)  # in one order on every worker


def _deals(sampler: Any, rank: int, added: int, samples: int, ranks: int) -> bool:
    """Whether a sampler deals a worker this number of samples in a pass."""
    each = int(getattr(sampler, "num_samples", -(-samples // ranks)))
    batch = int(getattr(sampler, "batch_size", 1) or 1)
    if getattr(sampler, "drop_last", False):
        each -= each % batch
    if added in (each, len(sampler) * batch):
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
        for each in gc.get_referrers(*kinds):
            if type(each) in kinds:
                with contextlib.suppress(TypeError):  # a class whose objects have no weak references, or no hash
                    _samplers.add(each)
    _spent += time.perf_counter() - now
    return True


def _kinds() -> Iterator[type]:
    """The classes of samplers."""
    bases = [getattr(sys.modules.get(module), name, None) for module, names in _BASES.items() for name in names]
    kinds = [each for each in bases if isinstance(each, type)]
    while kinds:
        kind = kinds.pop()
        yield kind
        kinds += type.__subclasses__(kind)
