"""The check of batches that cannot be looked at when they are added."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from fleetmetrics.batch import Batch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.requirements import FLAGS, Requirement, applicable
from fleetmetrics.state import State

__all__ = ["Check"]


class Check:
    """The states of the deferred check: how many samples broke a requirement, and which one was the first.

    Where a batch cannot be looked at when it is added (static programs; tensors on a device, which nobody waits
    for) its invalid samples are left out of all statistics and counted here; ``compute`` raises.

    Args:
        owner: name of the metric or collection.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.seen = State(f"{owner}.seen", (), "int64", "sum")
        self.invalid = State(f"{owner}.invalid", (), "int64", "sum")
        self.first = State(f"{owner}.first_invalid", (), "int64", "min")  # its place among this worker's samples
        self.states = [self.seen, self.invalid, self.first]

    def statistics(self, batch: Batch) -> dict[State, Any]:
        """What a batch adds; nothing where it was checked at once."""
        if batch.valid is None:
            return {}
        xp = batch.xp
        seen, first = (xp.asarray(state.current(), state.name) for state in (self.seen, self.first))
        length = xp.count(batch.valid)
        invalid = xp.subtract(length, batch.number_of(batch.valid))
        place = xp.add(seen, xp.first_zero(batch.ones_of(batch.valid)))
        return {self.first: xp.where(xp.cast(invalid, "bool"), place, first), self.invalid: invalid, self.seen: length}

    def raise_if_invalid(self, values: Mapping[State, np.ndarray], requirements: Iterable[str | Requirement]) -> None:
        """Raise if any worker met an invalid sample."""
        invalid = values[self.invalid].item()
        if invalid:
            rules = "; ".join(rule.text for rule in [*applicable(tuple(requirements)), FLAGS])
            raise InvalidInputError(
                f"{self.owner}: {invalid} of {values[self.seen].item()} samples were invalid and left out, the first "
                f"at position {values[self.first].item()} of its worker's samples; required: {rules}. "
                "Mask such samples and reset, or set validate=False on the metric to compute without them"
            )
