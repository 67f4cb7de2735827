"""Masks of an image's objects as COCO's compressed run lengths, checked when they are added."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence, Tuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.optional import library
from fleetmetrics.xp import numpy_ops

Size = Tuple[int, int]  # height and width

#: Seven characters hold any run of an image, and so few that no sum of runs exceeds int64.
_LONGEST = 7


def size_of(what: str, size: Any) -> Size:
    """The height and width of an image, from more entries maybe: ``(height, width, channels)``."""
    array = np.asarray(size)
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in "iu" or (array < 1).any():
        raise InvalidInputError(f"{what} must be (height, width), two positive integers, not {size!r:.80}")
    return int(array[0]), int(array[1])


def run_lengths(what: str, masks: Any, size: Size | None) -> tuple[list[str], Size | None]:
    """Encode the masks of an image's objects; `check_run_lengths` then checks those of all images together.

    Args:
        what: names the image in errors.
        masks: booleans ``[n, height, width]``; or a list that has, for each object, booleans ``[height, width]``, a
            dict of ``size`` and ``counts`` as pycocotools gives it, or a list of polygons, ``[x1, y1, x2, y2, ...]``.
        size: the height and width of the image; None: those of the first mask.

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
    return counts, size


def check_run_lengths(whose: Sequence[str], images: Sequence[Mapping[str, Any]], may_be_empty: bool) -> None:
    """Raise unless the masks of all images can be read and fill their image.

    Args:
        whose: names the images in errors.
        images: for each the counts of its ``masks``, and, if it has any, its ``size``.
        may_be_empty: whether a mask may have no pixels.
    """
    places = [(image, number) for image, one in enumerate(images) for number in range(len(one["masks"]))]
    if not places:
        return
    runs = _sums_of_runs([counts for image in images for counts in image["masks"]])
    sizes = np.repeat([math.prod(image.get("size", ())) for image in images], [len(image["masks"]) for image in images])
    for flags in (runs.sum(axis=1) != sizes, (runs[:, 1] == 0) & (not may_be_empty)):
        if flags.any():
            image, number = places[flags.argmax()]
            raise InvalidInputError(f"{whose[image]}: mask {number} {_fault(images[image], number, runs[flags][0])}")


def _fault(image: Mapping[str, Any], number: int, runs: np.ndarray) -> str:
    """What is wrong with a mask, by the sums of its runs."""
    total, counts = runs.sum(), image["masks"][number]
    if total == math.prod(image["size"]):
        return "has no pixels; leave the object out, or set its iscrowd"
    how = "cannot be read" if total < 0 else f"has runs of {total} pixels, not {_text(image['size'])}"
    return f"{how}: {counts!r:.60}; give counts as pycocotools encodes them"


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
    flags = pixels.dtype.kind == "b"
    if pixels.dtype.kind in "iu":
        flags = pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1
    if pixels.ndim != 2 or not flags:
        kind = f"shape {list(pixels.shape)} and dtype {pixels.dtype}"
        raise InvalidInputError(f"{what} has {kind}; it must be booleans [height, width], such as scores > 0.5")
    return _tried(what, coder.encode, np.asfortranarray(pixels, np.uint8))


def _polygons(what: str, polygons: Sequence[Any], size: Size) -> list[list[float]]:
    """The polygons of an object, as flat lists."""
    flat = [np.asarray(numpy_ops.asarray(polygon, what)).reshape(-1) for polygon in polygons]
    if len(flat) == size[0] and all(len(row) == size[1] and np.isin(row, (0, 1)).all() for row in flat):
        raise InvalidInputError(f"{what} is a list with the rows of a mask, where polygons may be; make it an array")
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


def _sums_of_runs(counts: Sequence[str]) -> np.ndarray:
    """How many pixels each mask's background and object have, ``[masks, 2]``; -1 and 0 if it cannot be read.

    A mask is the runs of background and object in turn. Each character has 5 bits of a number, the lowest first, and
    a flag that more follow; the last bit of all is the sign. A number is the run, or, from the fourth on, its
    difference from the last run but one.
    """
    lengths = np.array([*map(len, counts)])
    codes = np.frombuffer("".join(counts).encode("utf-8", "surrogatepass"), np.uint8) - np.uint8(48)
    last, ends = lengths.cumsum() - 1, np.flatnonzero(codes < 32)
    characters = np.diff(ends, prepend=-1)
    if not (lengths.all() and (codes < 64).all() and (codes[last] < 32).all() and characters.max() <= _LONGEST):
        return np.array([[-1, 0]]) if len(counts) == 1 else np.concatenate([_sums_of_runs([one]) for one in counts])
    digits = codes[ends]
    numbers = ((digits & 15).astype(np.int64) - (digits & 16)) << 5 * (characters - 1)
    for place in range(1, characters.max()):
        longer = np.flatnonzero(characters > place)
        bits = (codes[ends[longer] - place] & 31).astype(np.int64)
        numbers[longer] += bits << 5 * (characters[longer] - 1 - place)

    first = np.searchsorted(ends, last - lengths + 1)  # the first number of each mask
    size = np.diff(first, append=len(numbers))
    rows = (size + 1) // 2  # of each mask: a run of the background, and one of the object
    start = rows.cumsum() - rows
    steps = np.zeros(2 * rows.sum(), np.int64)
    steps[np.arange(len(numbers)) + np.repeat(2 * start - first, size)] = numbers
    steps[2 * start] = 0  # the third number is no difference from the first
    runs = np.stack([steps[::2].cumsum(), steps[1::2].cumsum()])
    before = np.where(start, runs[:, start - 1], 0)  # at the first mask, an entry that does not count
    runs -= np.repeat(before, rows, axis=1)
    runs[0, start] = numbers[first]
    runs[1, (start + rows - 1)[size % 2 == 1]] = 0  # the last background is the end
    sums = np.add.reduceat(runs, start, axis=1).T
    sums[np.minimum.reduceat(np.minimum(*runs), start) < 0] = -1, 0
    return sums


def _text(size: Sequence[int]) -> str:
    return f"{size[0]} x {size[1]}"
