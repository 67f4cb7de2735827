"""Arrays of any fixed-size dtype on their way through all_gather and broadcast: header, bytes, and back."""

from __future__ import annotations

import functools
import json
from typing import Any, Iterable, Sequence

import numpy as np

from fleetmetrics.errors import AgreementError, InvalidInputError

__all__ = ["as_column", "by_rank", "decode", "encode", "join", "ordinal", "ranks_text"]

_NUMBERS = "biufc"


def as_column(array: Any) -> np.ndarray:
    """Return a contiguous array of native byte order that can cross the wire as bytes.

    Args:
        array: numbers, booleans, or bytes or text of fixed width.

    Returns:
        The array, without a copy where possible.

    Raises:
        InvalidInputError: for another dtype.
    """
    given = np.asarray(array)
    if given.dtype.kind not in _NUMBERS + "SU":
        raise InvalidInputError(
            f"array is of dtype {given.dtype}; allowed are numbers, booleans, and bytes or text of fixed width."
        )
    return np.asarray(given, dtype=given.dtype.newbyteorder("="), order="C")


def encode(call: str, source: int | None, column: np.ndarray) -> tuple[bytes, bytes]:
    """Return the header and the bytes of a worker's array.

    Args:
        call: "all_gather" or "broadcast".
        source: the rank that sends, or None if all do.
        column: from `as_column`.
    """
    return json.dumps([call, source, column.dtype.str, column.shape]).encode(), column.tobytes()


def join(headers: Sequence[bytes], number: int) -> dict[str, Any]:
    """Check that the workers' arrays go together.

    Args:
        headers: by rank.
        number: of the exchange, for the error.

    Returns:
        The verdict: dtypes, shapes and sizes in bytes by rank, and the common dtype; fit for JSON.

    Raises:
        AgreementError: if the calls differ, or the arrays cannot be joined.
    """
    parts = [json.loads(header) for header in headers]
    if len({(call, source) for call, source, _, _ in parts}) > 1:
        calls = by_rank(_call_text(call, source) for call, source, _, _ in parts)
        raise AgreementError(f"the workers disagree at their {ordinal(number)} exchange: {calls}.")
    dtypes, shapes = [part[2] for part in parts], [part[3] for part in parts]
    source = parts[0][1]
    common = _join_all(dtypes, shapes) if source is None else dtypes[source]
    sizes = [int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize for shape, dtype in zip(shapes, dtypes)]
    return {"dtype": common, "dtypes": dtypes, "shapes": shapes, "sizes": sizes}


def decode(verdict: dict[str, Any], parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays by rank.

    Args:
        verdict: from `join`.
        parts: the bytes by rank.
    """
    return [
        np.frombuffer(part.tobytes(), dtype).reshape(shape).astype(verdict["dtype"])
        for part, dtype, shape in zip(parts, verdict["dtypes"], verdict["shapes"])
    ]


def by_rank(texts: Iterable[str]) -> str:
    """Say which ranks have which text.

    Args:
        texts: by rank.

    Examples:
        >>> by_rank(["acc", "auc", "auc"])
        'acc on rank 0, auc on ranks 1, 2'
    """
    groups: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        groups.setdefault(text, []).append(rank)
    return ", ".join(f"{text} on {ranks_text(ranks)}" for text, ranks in groups.items())


def ranks_text(ranks: Sequence[int]) -> str:
    """Say which ranks.

    Examples:
        >>> ranks_text([1, 2])
        'ranks 1, 2'
    """
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def ordinal(number: int) -> str:
    """Say which one in a row.

    Examples:
        >>> ordinal(2), ordinal(11)
        ('2nd', '11th')
    """
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _call_text(call: str, source: int | None) -> str:
    return call if source is None else f"{call} from rank {source}"


def _join_all(dtypes: Sequence[str], shapes: Sequence[Sequence[int]]) -> str:
    kinds = {"number" if np.dtype(text).kind in _NUMBERS else np.dtype(text).kind for text in dtypes}
    if len(kinds) > 1:
        what = by_rank(str(np.dtype(text)) for text in dtypes)
        raise AgreementError(f"the workers gather arrays that cannot be joined: {what}.")
    if len({(len(shape), tuple(shape[1:])) for shape in shapes}) > 1:
        what = by_rank(f"shape {list(shape)}" for shape in shapes)
        raise AgreementError(f"the workers gather arrays that differ beyond the first axis: {what}.")
    return functools.reduce(np.promote_types, [np.dtype(text) for text in dtypes]).str
