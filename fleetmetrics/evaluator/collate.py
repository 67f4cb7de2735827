"""Batches out of single samples, for offline evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Iterable, Iterator

from fleetmetrics.errors import AssertedInputError
from fleetmetrics.records.batches import Columns

__all__ = ["paired_chunks", "pseudo_collate", "rows"]


def rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Turn a batch's columns into a dict for each sample.

    Args:
        columns: arrays, tensors or lists whose first axis is the sample, by name.

    Raises:
        InvalidInputError: if they are not equally long.

    Examples:
        >>> rows({"name": ["a", "b"], "tags": [["x", "y"], []]})
        [{'name': 'a', 'tags': ['x', 'y']}, {'name': 'b', 'tags': []}]
    """
    batch = Columns()
    batch.append((), columns)
    (entries,) = batch.batches
    return [dict(zip(columns, row)) for row in zip(*entries)]


def paired_chunks(
    data_samples: Iterable[Any], data: Iterable[Any] | None, chunk_size: int
) -> Iterator[tuple[list[Any], list[Any] | None]]:
    """Cut samples, and the data that go with them, into chunks.

    Args:
        data_samples: the samples.
        data: as many data, or None.
        chunk_size: of a chunk, at least 1.

    Yields:
        A chunk of the samples, and of the data.

    Raises:
        AssertedInputError: if there are not as many data as samples.

    Examples:
        >>> list(paired_chunks("abc", None, 2))
        [(['a', 'b'], None), (['c'], None)]
    """
    if data is not None and isinstance(data, Sequence) and isinstance(data_samples, Sequence):
        _check_lengths(len(data_samples), len(data))
    samples, others = iter(data_samples), None if data is None else iter(data)
    count = 0
    while True:
        chunk = list(islice(samples, chunk_size))
        other = None if others is None else list(islice(others, chunk_size))
        if other is not None and len(other) != len(chunk):
            _check_lengths(count + len(chunk), count + len(other))
        if not chunk:
            return
        count += len(chunk)
        yield chunk, other


def _check_lengths(samples: int, data: int) -> None:
    if samples != data:
        raise AssertedInputError(
            f"data_samples and data should have the same length, but got data_samples length: {samples} data length:"
            f" {data}"
        )


def pseudo_collate(data_batch: Sequence[Any]) -> Any:
    """Turn a list of samples into a batch of the samples' own structure, without stacking anything.

    Args:
        data_batch: samples of one structure: dicts, lists, tuples and named tuples of whatever.

    Returns:
        That structure, with a sequence of the samples' values at each leaf.

    Raises:
        RuntimeError: if sequences in it are of different lengths.

    Examples:
        >>> pseudo_collate([dict(image=[1, 2], name="a"), dict(image=[3, 4], name="b")])
        {'image': [(1, 3), (2, 4)], 'name': ['a', 'b']}
    """
    first = data_batch[0]
    kind: Any = type(first)
    if isinstance(first, Mapping):
        return kind({key: pseudo_collate([sample[key] for sample in data_batch]) for key in first})
    if isinstance(first, (str, bytes)) or not isinstance(first, Sequence):
        return data_batch
    if len({len(sample) for sample in data_batch}) > 1:
        raise RuntimeError("each data_itement in list of batch should be of equal size")
    columns = [pseudo_collate(column) for column in zip(*data_batch)]
    if hasattr(first, "_fields"):
        return kind(*columns)
    return columns if isinstance(first, tuple) else _as(kind, columns)


def _as(kind: Any, columns: list[Any]) -> Any:
    try:
        return kind(columns)
    except TypeError:  # such as range
        return columns
