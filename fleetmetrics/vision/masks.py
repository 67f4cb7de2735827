"""Masks of an image's objects as COCO's compressed run lengths, checked when they are added."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Tuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.optional import library
from fleetmetrics.xp import numpy_ops

Size = Tuple[int, int]  # height and width

#: A run of more characters would exceed int64.
_LONGEST = 12


def size_of(what: str, size: Any) -> Size:
    """The height and width of an image, from more entries maybe: ``(height, width, channels)``."""
    array = np.asarray(size)
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in "iu" or (array < 1).any():
        raise InvalidInputError(f"{what} must be (height, width), two positive integers, not {size!r:.80}")
    return int(array[0]), int(array[1])


def run_lengths(what: str, masks: Any, size: Size | None, may_be_empty: bool) -> tuple[list[str], Size | None]:
    """Encode the masks of an image's objects.

    Args:
        what: names the image in errors.
        masks: booleans ``[n, height, width]``; or a list that has, for each object, booleans ``[height, width]``, a
            dict of ``size`` and ``counts`` as pycocotools gives it, or a list of polygons, ``[x1, y1, x2, y2, ...]``.
        size: the height and width of the image; None: those of the first mask.
        may_be_empty: whether a mask may have no pixels.

    Returns:
        The counts of each mask, and the size.
    """
    if not isinstance(masks, (list, tuple)):
        masks = numpy_ops.unwidened(masks, "masks")
        if masks.ndim != 3 and masks.size:
            raise InvalidInputError(
                f"{what}: masks has shape {list(masks.shape)}; it must be [n, height, width], or a list"
            )
    counts = []
    for number, mask in enumerate(masks):
        one = f"{what}: mask {number}"
        rle = _encoded(one, mask, size)
        if size is None or rle["size"] not in (size, [*size]):
            its_size = size_of(f"size of {one}", rle["size"])
            size = its_size if size is None else size
            if its_size != size:
                raise InvalidInputError(f"{one} has the size {_text(its_size)}, but its image {_text(size)}")
        counts.append(rle["counts"] if isinstance(rle["counts"], str) else bytes(rle["counts"]).decode("latin-1"))
    if counts and size is not None:
        _check(what, counts, size, may_be_empty)
    return counts, size


def _check(what: str, counts: Sequence[str], size: Size, may_be_empty: bool) -> None:
    """Raise unless all counts can be read and fill an image of the size."""
    pixels, its_own = _pixels(counts)
    wrong = np.flatnonzero(pixels != size[0] * size[1])
    if wrong.size:
        number, total = wrong[0], pixels[wrong[0]]
        how = "cannot be read" if total < 0 else f"has runs of {total} pixels, not {_text(size)}"
        raise InvalidInputError(
            f"{what}: mask {number} {how}: {counts[number]!r:.60}; give counts as pycocotools encodes them"
        )
    if not may_be_empty and not its_own.all():
        number = its_own.argmin()
        raise InvalidInputError(f"{what}: mask {number} has no pixels; leave the object out, or set its iscrowd")


def _encoded(what: str, mask: Any, size: Size | None) -> Mapping[str, Any]:
    """A mask as a dict of ``size`` and compressed ``counts``."""
    coder = library("faster_coco_eval.core.mask")
    if isinstance(mask, Mapping):
        if not {"size", "counts"} <= {*mask}:
            raise InvalidInputError(f"{what} is a dict with {', '.join(map(str, mask))}; it must have size and counts")
        if isinstance(mask["counts"], (str, bytes)):
            return mask
        runs, shape = np.asarray(mask["counts"]), size_of(f"size of {what}", mask["size"])
        if runs.ndim != 1 or runs.dtype.kind not in "iu" or (runs < 0).any():
            raise InvalidInputError(
                f"counts of {what} must be a text, or integers of at least 0, not {runs.tolist()!r:.80}"
            )
        return _tried(what, coder.frPyObjects, {"size": shape, "counts": runs.tolist()}, *shape)
    if isinstance(mask, (list, tuple)):
        if size is None:
            raise InvalidInputError(f"{what} is a list of polygons, which needs size: (height, width) of the image")
        return _tried(what, coder.merge, _tried(what, coder.frPyObjects, _polygons(what, mask, size), *size))
    pixels = numpy_ops.unwidened(mask, what)
    if pixels.ndim != 2 or pixels.dtype.kind not in "biu" or not np.isin(pixels, (0, 1)).all():
        kind = f"shape {list(pixels.shape)} and dtype {pixels.dtype}"
        raise InvalidInputError(f"{what} has {kind}; it must be booleans [height, width], such as scores > 0.5")
    return _tried(what, coder.encode, np.asfortranarray(pixels.astype(np.uint8)))


def _polygons(what: str, polygons: Sequence[Any], size: Size) -> list[list[float]]:
    """The polygons of an object, as flat lists."""
    flat = [np.asarray(numpy_ops.asarray(polygon, what)).reshape(-1) for polygon in polygons]
    for points in flat:
        if len(points) < 6 or len(points) % 2 or points.dtype.kind not in "iuf" or not np.isfinite(points).all():
            raise InvalidInputError(
                f"{what} has the polygon {points.tolist()!r:.80}; it must be [x1, y1, x2, y2, x3, y3] or longer"
            )
        if (np.abs(points.reshape(-1, 2)) > 2 * np.array(size[::-1])).any():
            raise InvalidInputError(f"{what} has a polygon far outside of the image, which is {_text(size)}")
    if not flat:
        raise InvalidInputError(f"{what} has no polygons")
    return [points.astype(np.float64).tolist() for points in flat]


def _tried(what: str, coder: Any, *args: Any) -> Any:
    try:
        return coder(*args)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} cannot be encoded: {error!s:.100}") from error


def _pixels(counts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """How many pixels each mask has with the background, or -1 if it cannot be read, and without.

    A mask is the runs of background and object in turn. Each character has 5 bits of a number, the lowest first, and
    a flag that more follow; the last bit of all is the sign. A number is the run, or, from the fourth on, its
    difference from the last run but one.
    """
    masks, lengths = len(counts), np.array([*map(len, counts)])
    codes = np.frombuffer("".join(counts).encode(), np.uint8).astype(np.int64) - 48
    last = lengths.cumsum() - 1
    ends = np.flatnonzero(codes < 32)
    characters = np.diff(ends, prepend=-1)
    if (
        not lengths.all()
        or not ((codes >= 0) & (codes < 64)).all()
        or not (codes[last] < 32).all()
        or characters.max() > _LONGEST
    ):
        if masks == 1:
            return np.array([-1]), np.array([0])
        all_pixels, its_own = zip(*(_pixels([text]) for text in counts))
        return np.concatenate(all_pixels), np.concatenate(its_own)
    places = np.arange(len(codes)) - np.repeat(ends - characters + 1, characters)
    numbers = np.add.reduceat((codes & 31) << 5 * places, ends - characters + 1)
    numbers -= np.where(codes[ends] & 16, np.left_shift(1, 5 * characters), 0)

    first = np.searchsorted(ends, last - lengths + 1)  # the first number of each mask
    mask = np.repeat(np.arange(masks), np.diff(first, append=len(numbers)))
    index = np.arange(len(numbers)) - first[mask]
    group = 3 * mask + np.where(index == 0, 0, 1 + index % 2)  # whose numbers add up
    order = np.argsort(group, kind="stable")
    group, numbers = group[order], numbers[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    sums = numbers.cumsum()
    runs = sums - np.repeat(sums[starts] - numbers[starts], np.diff(starts, append=len(sums)))
    all_pixels = np.bincount(group // 3, runs, masks).astype(np.int64)
    all_pixels[group[runs < 0] // 3] = -1
    return all_pixels, np.bincount(group // 3, np.where(group % 3 == 2, runs, 0), masks).astype(np.int64)


def _text(size: Size) -> str:
    return f"{size[0]} x {size[1]}"
