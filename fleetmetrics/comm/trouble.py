"""Errors on their way to other workers: the name of the class, and the text."""

from __future__ import annotations

from typing import Sequence, Tuple

from fleetmetrics import errors
from fleetmetrics.comm.columns import ranks_text
from fleetmetrics.errors import CommunicatorError, FleetMetricsError

__all__ = ["Trouble", "described", "named_error", "raise_trouble"]

#: The name of an error's class, and its text; fit for JSON.
Trouble = Tuple[str, str]


def described(error: BaseException) -> Trouble:
    """Return what another worker needs to raise the same.

    Args:
        error: any exception; one that is not of fleetmetrics becomes a `CommunicatorError` that names its class.
    """
    name = type(error).__name__
    return name, str(error) if isinstance(error, FleetMetricsError) else f"{name}: {error}"


def named_error(name: str, text: str) -> FleetMetricsError:
    """Return an error of fleetmetrics by the name of its class.

    Args:
        name: of the class.
        text: the message.
    """
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, FleetMetricsError):
        return kind(text)
    return CommunicatorError(text)


def raise_trouble(troubles: Sequence[Trouble | None], *, ranks_known: bool = True) -> None:
    """Raise the error of the first worker in trouble, naming all that are.

    Args:
        troubles: by rank; None where there is none.
        ranks_known: False if they are not by rank.

    Raises:
        FleetMetricsError: if there is any trouble.
    """
    ranks: dict[str, list[int]] = {}
    first = ""
    for rank, trouble in enumerate(troubles):
        if trouble is not None:
            first = first or trouble[0]
            ranks.setdefault(trouble[1], []).append(rank)
    if ranks:
        texts = [f"on {ranks_text(on) if ranks_known else 'one worker'}: {text}" for text, on in ranks.items()]
        raise named_error(first, "; ".join(texts))
