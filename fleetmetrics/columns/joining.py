"""Which ids the data of both sides of a comparison have."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any, Sequence

import numpy as np

from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.batch.keys import Coded
from fleetmetrics.numbers.reductions import distinct_of

__all__ = ["CommonIds", "distinct_ids"]


class CommonIds:
    """The ids that both sides have: eight bytes each, which the processes that share the files share, too.

    Args:
        ids: the integers of `distinct_ids`, rising.
    """

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids
        self._path: str | None = None

    @classmethod
    def of(cls, sides: Sequence[np.ndarray]) -> CommonIds:
        """Those of two sides, which have distinct ids each."""
        return cls(np.intersect1d(sides[0], sides[1], assume_unique=True))

    def flags(self, keys: Any) -> np.ndarray:
        """For which of these keys it is one of the ids."""
        if isinstance(keys, Coded):
            return self._among(integer_ids(keys.values))[keys.codes] if len(keys) else np.zeros(0, bool)
        return self._among(integer_ids(keys))

    def _among(self, numbers: np.ndarray) -> np.ndarray:
        if not len(self.ids):
            return np.zeros(len(numbers), bool)
        order = np.argsort(numbers)  # looked up in order, they are found several times as fast
        sought = numbers[order]
        place = np.minimum(np.searchsorted(self.ids, sought), len(self.ids) - 1)
        is_common = np.empty(len(numbers), bool)
        is_common[order] = self.ids[place] == sought
        return is_common

    def __getstate__(self) -> str:
        """The file that another process maps: a copy for each file and process would not be of bounded memory."""
        if self._path is None:
            number, self._path = tempfile.mkstemp(prefix="fleetmetrics-", suffix=".npy")
            weakref.finalize(self, os.unlink, self._path)  # at the end of the program at the latest
            with open(number, "wb") as file:
                np.save(file, self.ids)
        return self._path

    def __setstate__(self, path: str) -> None:
        self.__init__(np.load(path, mmap_mode="r"))  # type: ignore[misc]


def distinct_ids(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Integers, each once, rising.

    Args:
        parts: of `integer_ids`.
    """
    return distinct_of(np.concatenate([np.zeros(0, np.int64), *parts]))
