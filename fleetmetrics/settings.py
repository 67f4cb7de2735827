"""What the base and the metrics check of their settings alike."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = ["MOST_ENTRIES", "flag_of", "raise_if_too_large"]

#: So many entries of 8 bytes are 8 GiB.
MOST_ENTRIES = 2**30


def flag_of(argument: str, value: Any) -> bool:
    """True or False; 0 and 1 are none, for what is mistaken for a flag is a number more often than a flag a number.

    Raises:
        InvalidInputError: it is neither.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidInputError(f"{argument} must be True or False, not {value!r}")


def raise_if_too_large(setting: str, shape: Sequence[int], state: str) -> None:
    """Raise if a setting would make a state too large, before anything of its size is made.

    Args:
        setting: name and value, such as "num_classes=1000000".
        shape: of the state.
        state: how the message calls it.

    Raises:
        InvalidInputError: it would have more than `MOST_ENTRIES` entries.
    """
    sizes = [int(size) for size in shape]
    if math.prod(sizes) > MOST_ENTRIES:
        raise InvalidInputError(
            f"{setting} is too large: {state} would have the shape {sizes}, and at most 2**30 entries (8 GiB) are "
            "allowed; give a smaller one"
        )
