"""The samples of the files that one pass adds, if all of them would not fit in memory."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.batch.keys import Coded

__all__ = ["Share", "score_of"]


def score_of(arguments: Mapping[str, Any]) -> np.ndarray:
    """The score of each sample, from the arguments of ``add``; for two classes, that of the second."""
    return arguments["prediction"].reshape(len(arguments["prediction"]), -1)[:, -1]


class Share(NamedTuple):
    """Some of the samples: of users or queries chosen by hash, or with "score" those in a range."""

    by: str  #: the argument of ``add`` that names the users, or "score"
    number: int
    of: int
    bounds: Sequence[float] = ()  #: the lower ends of the ranges, except for the first

    def flags(self, arguments: Mapping[str, Any]) -> np.ndarray:
        """The flags of this share's samples, from the arguments of ``add``."""
        if self.by == "score":
            score = score_of(arguments)
            flags = np.ones(len(score), bool) if self.number == self.of - 1 else score < self.bounds[self.number]
            return flags & ~(score < self.bounds[self.number - 1]) if self.number else flags  # nan is in the last range
        column = arguments[self.by]
        ids = integer_ids(column.values if isinstance(column, Coded) else column).view(np.uint64)
        mine = (ids * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(self.of) == self.number
        return mine[column.codes] if isinstance(column, Coded) else mine
