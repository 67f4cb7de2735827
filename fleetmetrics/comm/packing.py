"""Many states in one buffer, the header that describes them, and the check that all headers agree."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm.base import Block
from fleetmetrics.comm.columns import by_rank, ordinal, ranks_text
from fleetmetrics.errors import AgreementError, IntegerOverflowError
from fleetmetrics.numbers import combine

__all__ = ["Layout", "agree", "combine_packed", "describe", "layout_of", "pack", "unpack"]


# NumPy takes 10 us to name a dtype.
_DTYPE_NAMES = {np.dtype(name): name for name in ("int64", "float64")}


@dataclass(frozen=True)
class Layout:
    """Where each block lies in the buffer: blocks of one reduction and dtype side by side.

    Args:
        header: what crosses the wire, JSON.
        call: what is computed.
        names, reductions, dtypes, shapes: of the blocks, in the caller's order.
        order: the blocks' numbers in the order of the buffer.
        spans: of each block, in the caller's order: the first element and the one after the last.
        groups: reduction, dtype, first element and the one after the last.
    """

    header: bytes
    call: str
    names: tuple[str, ...]
    reductions: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    groups: tuple[tuple[str, str, int, int], ...]

    @property
    def size(self) -> int:
        """Number of elements, of eight bytes each."""
        return self.groups[-1][3] if self.groups else 0


@functools.lru_cache(maxsize=256)
def _make_layout(call: str, blocks: tuple[tuple[str, str, str, tuple[int, ...]], ...]) -> Layout:
    order = sorted(range(len(blocks)), key=lambda i: (blocks[i][1], blocks[i][2]))
    spans, start = [(0, 0)] * len(blocks), 0
    groups: list[tuple[str, str, int, int]] = []
    for i in order:
        _, reduction, dtype, shape = blocks[i]
        end = start + int(np.prod(shape, dtype=np.int64))
        spans[i] = (start, end)
        if groups and groups[-1][:2] == (reduction, dtype):
            groups[-1] = (reduction, dtype, groups[-1][2], end)
        else:
            groups.append((reduction, dtype, start, end))
        start = end
    header = json.dumps([call, blocks], separators=(",", ":")).encode()
    names, reductions, dtypes, shapes = zip(*blocks) if blocks else ((), (), (), ())
    return Layout(header, call, names, reductions, dtypes, shapes, tuple(order), tuple(spans), tuple(groups))


@functools.lru_cache(maxsize=256)
def layout_of(header: bytes) -> Layout:
    """Return the layout that a header describes.

    Args:
        header: as in `Layout`.
    """
    call, blocks = json.loads(header)
    return _make_layout(call, tuple((name, how, dtype, tuple(shape)) for name, how, dtype, shape in blocks))


def describe(call: str, blocks: Sequence[Block]) -> Layout:
    """Return the layout of a caller's blocks.

    Args:
        call: what is computed.
        blocks: the states.
    """
    return _make_layout(
        call,
        tuple([(block.name, block.reduction, _DTYPE_NAMES[block.array.dtype], block.array.shape) for block in blocks]),
    )


def pack(layout: Layout, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Put the arrays into one buffer of int64 words.

    Args:
        layout: where they go.
        arrays: in the caller's order.
    """
    words = np.empty(layout.size, np.int64)
    for i in layout.order:
        start, end = layout.spans[i]
        words[start:end] = arrays[i].reshape(-1).view(np.int64)
    return words


def unpack(layout: Layout, words: np.ndarray) -> list[np.ndarray]:
    """Cut a buffer of int64 words into arrays that share its memory.

    Args:
        layout: where they lie.
        words: the buffer.
    """
    return [
        words[start:end].view(dtype).reshape(shape)
        for (start, end), dtype, shape in zip(layout.spans, layout.dtypes, layout.shapes)
    ]


def combine_packed(layouts: Sequence[Layout], agreed: Layout, words: Sequence[np.ndarray]) -> np.ndarray:
    """Reduce the workers' buffers.

    Args:
        layouts: by rank.
        agreed: the one of the result, from `agree`.
        words: the buffers by rank.

    Returns:
        The reduced buffer, in the agreed layout.

    Raises:
        IntegerOverflowError: naming the state.
    """
    if all(layout is agreed for layout in layouts):
        try:
            result = np.empty(agreed.size, np.int64)
            for reduction, dtype, start, end in agreed.groups:
                reduced = combine(reduction, [word[start:end].view(dtype) for word in words])
                result[start:end] = reduced.view(np.int64)
            return result
        except IntegerOverflowError:
            pass  # the way below says in which state
    columns = zip(*[unpack(layout, word) for layout, word in zip(layouts, words)])
    reduced_blocks = []
    for name, reduction, dtype, column in zip(agreed.names, agreed.reductions, agreed.dtypes, columns):
        try:
            reduced_blocks.append(combine(reduction, column).astype(dtype, copy=False))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{agreed.call}, state {name!r}: {error}") from None
    return pack(agreed, reduced_blocks)


def agree(layouts: Sequence[Layout], number: int | None = None) -> Layout:
    """Check that all workers call the same, up to a dtype that NumPy promotes.

    Args:
        layouts: by rank.
        number: of the exchange, for the error; None: it is not known.

    Returns:
        The layout of the result.

    Raises:
        AgreementError: saying what differs, and on which ranks.
    """
    first = layouts[0]
    if all(layout is first for layout in layouts):
        return first
    if len({(layout.call, layout.names, layout.reductions, layout.shapes) for layout in layouts}) > 1:
        when = "" if number is None else f" at their {ordinal(number)} exchange"
        raise AgreementError(f"the workers disagree{when}: {_difference(layouts)}")
    dtypes = [str(np.result_type(*column)) for column in zip(*[layout.dtypes for layout in layouts])]
    return _make_layout(first.call, tuple(zip(first.names, first.reductions, dtypes, first.shapes)))


def _difference(layouts: Sequence[Layout]) -> str:
    first = layouts[0]
    if len({(layout.call, layout.names) for layout in layouts}) == 1:
        differences = []
        for i, name in enumerate(first.names):
            for what in ("shapes", "reductions"):
                values = [_show(getattr(layout, what)[i]) for layout in layouts]
                if len(set(values)) > 1:
                    differences.append(f"{first.call}, state {name!r}: {what[:-1]} {by_rank(values)}")
        return "; ".join(differences) + "."
    return _calls(layouts) + "."


def _show(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _signature(layout: Layout) -> str:
    blocks = [
        f"{name} {dtype}{list(shape)}" + ("" if how == "sum" else f" {how}")
        for name, how, dtype, shape in zip(layout.names, layout.reductions, layout.dtypes, layout.shapes)
    ]
    return f"{layout.call}({', '.join(blocks)})"


def _calls(layouts: Sequence[Layout]) -> str:
    groups: dict[str, list[int]] = {}
    for rank, layout in enumerate(layouts):
        groups.setdefault(_signature(layout), []).append(rank)
    return "; ".join(
        f"{ranks_text(ranks)} call{'s' if len(ranks) == 1 else ''} {text}" for text, ranks in groups.items()
    )
