"""Check the number of added samples against the size of the data set, if the size is given."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from fleetmetrics.errors import SizeWarning
from fleetmetrics.state.state import State
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.support.warning import warn

__all__ = ["DataSize"]


class DataSize:
    """The size of a data set, and the state that counts the samples that are added.

    Args:
        owner: the name of the metric.
        size: the number of samples; anything but a whole number of at least 0 raises `InvalidInputError`.
    """

    added: State
    size: int

    def __init__(self, owner: str, size: Any) -> None:
        self.size = whole_number_of("size", size, 0)
        self.added = State(f"{owner}.added", (), "int64", "sum")

    def warn_unless_met(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        """Warn if all workers together have added more samples than the data set has, or fewer.

        Args:
            owner: the metric's name in the warning.
            values: the global states.
        """
        added = values[self.added].item()
        if added == self.size:
            return
        if added > self.size:
            why = "A sampler repeats samples so that all workers have the same number; with sampler= each counts once"
        else:
            why = (
                "Add every batch of every worker; with sampler= each sample counts once, and a missing one is an error"
            )
        warn(
            f"{owner}: {counted(added, 'samples', 'were')} counted, but the data set has {self.size:,} (size=). {why}",
            SizeWarning,
        )
