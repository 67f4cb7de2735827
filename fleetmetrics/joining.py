"""Which ids the data of both sides of a comparison have."""

from __future__ import annotations

import tempfile
from typing import Any, Sequence

import numpy as np

from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.batch.keys import Coded

__all__ = ["CommonIds", "distinct_ids"]


class CommonIds:
    """The ids that both sides have: eight bytes each, which the processes that share the files share, too.

    Args:
        ids: the integers of `distinct_ids`, rising.
    """

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids
        self._file: Any = None

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
        place = np.minimum(np.searchsorted(self.ids, numbers), len(self.ids) - 1)
        found: np.ndarray = np.asarray(self.ids[place] == numbers)
        return found

    def __getstate__(self) -> str:
        """The file that another process maps: a copy for each file and process would not be of bounded memory."""
        if self._file is None:
            # It is gone with this object.
            self._file = tempfile.NamedTemporaryFile(prefix="fleetmetrics-", suffix=".npy")  # noqa: SIM115
            np.save(self._file, self.ids)
            self._file.flush()
        return str(self._file.name)

    def __setstate__(self, path: str) -> None:
        self.__init__(np.load(path, mmap_mode="r"))  # type: ignore[misc]


def distinct_ids(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Integers, each once, rising.

    Args:
        parts: of `integer_ids`.
    """
    return np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))
