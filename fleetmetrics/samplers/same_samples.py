"""Notice that every worker has added the very same samples: each evaluated the whole data set, without a sampler.

Sums tell without a message of their own: where all workers hold equal ones, the sum over the workers is their number
times this worker's, in each entry. Records tell by a digest of a few, which goes with their description.

Equal numbers are no proof. The number of samples is often equal, and that of right answers may be, by chance. So states
count as equal only with evidence: sixteen entries of histograms and matrices that are not all one number, where a sum
of floats that is not whole is as good as eight. Records need as many different bytes as numbers have, and flags lack.
"""

from __future__ import annotations

import zlib
from typing import Any, Iterable, Sequence

import numpy as np

from fleetmetrics.comm.descriptions import Block
from fleetmetrics.serial.serializer import pack
from fleetmetrics.support.warning import warn

__all__ = ["all_equal", "digest_of", "sums_are_equal", "warn_of_same_samples"]

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
            data += b"".join([_bytes(each) for each in places])
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
