"""Dynamic tensors of Paddle <-> arrays, many at a time: one by one, 100,000 of them take a second and more."""

from __future__ import annotations

import math
from operator import attrgetter, methodcaller
from typing import Any, Sequence

import numpy as np

__all__ = ["arrays_of", "tensors_of_block", "tensors_of_parts"]

#: Paddle joins or parts so many tensors in one operation.
_AT_ONCE = 4096
#: Tensors of more entries are moved one by one.
_SMALL = 1024


def arrays_of(tensors: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Move tensors to the host.

    Args:
        tensors: dense, of one dtype, on any device.

    Returns:
        Blocks, with the tensors as their rows, and no arrays; or no blocks, and an array for each tensor. Where NumPy
        does not have the dtype, the bits as integers.
    """
    shapes = set(map(tuple, map(attrgetter("shape"), tensors)))
    if len(shapes) == 1 and 0 < math.prod(shapes.pop()) <= _SMALL:
        import paddle

        starts = range(0, len(tensors), _AT_ONCE)
        try:
            # The guard: static mode stacks no tensors, and automatic mixed precision could cast them.
            with paddle.base.dygraph.guard(), paddle.no_grad():
                return [paddle.stack(tensors[start : start + _AT_ONCE]).numpy() for start in starts], []
        except Exception:  # not every dtype can be stacked
            pass
    return [], list(map(methodcaller("numpy"), tensors))


def tensors_of_block(block: np.ndarray, dtype: str) -> list[Any]:
    """Return the rows as tensors on the CPU.

    Args:
        block: at least one row.
        dtype: Paddle's, as text.
    """
    import paddle

    starts = range(0, len(block), _AT_ONCE)
    # The guard: static mode has no tensors, and those of a GPU build would not stay on the CPU.
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        parts = [paddle.unbind(paddle.to_tensor(block[start : start + _AT_ONCE])) for start in starts]
        return [tensor for part in parts for tensor in _typed(part, dtype)]


def tensors_of_parts(flat: np.ndarray, shapes: Sequence[Any], dtype: str) -> list[Any]:
    """Return the parts of a flat array as tensors on the CPU.

    Args:
        flat: their entries, one tensor after the other.
        shapes: of the tensors, at least one.
        dtype: Paddle's, as text.
    """
    import paddle

    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        parts = paddle.split(paddle.to_tensor(flat), list(map(math.prod, shapes)))
        shaped = (part if len(shape) == 1 else part.reshape(shape) for part, shape in zip(parts, shapes))
        return _typed(list(shaped), dtype)


def _typed(tensors: list[Any], dtype: str) -> list[Any]:
    """Tensors of one dtype; with their bits read as another one, if it is one that NumPy does not have.

    Asking a tensor for its dtype takes longer than making it.
    """
    if str(tensors[0].dtype) == dtype:
        return tensors
    return [tensor.view(dtype.split(".")[-1]) for tensor in tensors]
