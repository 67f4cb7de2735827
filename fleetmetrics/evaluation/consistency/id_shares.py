"""Rows by their ids: in shares that fit into memory, and the rows that each id has in several streams."""

from __future__ import annotations

import os
import zlib
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.errors import DataError
from fleetmetrics.support.vocabulary import argument

__all__ = ["IdPlaces", "IdShares"]

#: Mixes the bits of ids that count up, or are hashes, so that shares have about the same number of rows.
_MIX = np.uint64(0x9E3779B97F4A7C15)


#: The number of ids that are strings of Python at a time.
_STRINGS = 1 << 16


class IdShares:
    """Arrow tables whose rows are dealt into shares by their ids, in memory or on disk.

    Ids are integers or strings. An integer never equals a string, so ids of each Arrow type have shares of their own.

    Args:
        number: of shares.
        folder: where files of shares go; None: they stay in memory.
        columns: the Arrow type of each column beside ``id``, by its name.
    """

    columns: Mapping[str, str]
    folder: str | None
    number: int

    def __init__(self, number: int, folder: str | None, columns: Mapping[str, str]) -> None:
        self.number, self.folder, self.columns = number, folder, columns
        self._batches: dict[tuple[str, int], list[Any]] = {}  # in memory, or as numbers within the file of their kind
        self._files: dict[str, _BatchFile] = {}

    @property
    def kinds(self) -> set[str]:
        """The Arrow types of the ids."""
        return {kind for kind, _ in self._batches}

    def add(self, table: Any) -> None:
        """Deal out rows; DataError if the disk takes no more.

        Args:
            table: with a column ``id`` of the Arrow type int64, uint64 or string.
        """
        for part in _by_kind(table):
            kind = str(part.schema.field("id").type)
            shares = _shares_of(part.column("id"), self.number)
            order = np.argsort(shares, kind="stable")
            ends = np.cumsum(np.bincount(shares, minlength=self.number)).tolist()
            part = part.take(arrow().array(order)).combine_chunks()
            for share, (start, end) in enumerate(zip([0, *ends], ends)):
                for batch in part.slice(start, end - start).to_batches() if end > start else ():
                    self._batches.setdefault((kind, share), []).append(self._kept(kind, batch))

    def _kept(self, kind: str, batch: Any) -> Any:
        """What `take` finds a batch by."""
        if self.folder is None:
            return batch
        try:
            if kind not in self._files:
                path = os.path.join(self.folder, f"{id(self)}-{kind}.arrow")
                self._files[kind] = _BatchFile(path, batch.schema)
            return self._files[kind].write(batch)
        except OSError as error:
            raise DataError(
                f"rows that exceed {argument('memory')} go to {self.folder}, which does not take them: {error}; give "
                "more memory, or a folder of a larger disk in the environment variable TMPDIR"
            ) from None

    def take(self, kind: str, share: int) -> Any:
        """The rows of a share, once: a share in memory is let go.

        Args:
            kind: the Arrow type of the ids.
            share: its number.
        """
        batches = self._batches.pop((kind, share), [])
        if not batches:
            pa = arrow()
            types = {"id": kind, **self.columns}
            return pa.table({name: pa.array([], pa.type_for_alias(kind)) for name, kind in types.items()})
        if kind in self._files:
            return self._files[kind].read(batches)
        return arrow().Table.from_batches(batches)


class _BatchFile:
    """Record batches in a file of Arrow: first all are written, then read by their numbers."""

    def __init__(self, path: str, schema: Any) -> None:
        self.path, self.length = path, 0
        self._writer = arrow("ipc").new_file(path, schema)

    def write(self, batch: Any) -> int:
        self._writer.write_batch(batch)
        self.length += 1
        return self.length - 1

    def read(self, numbers: Sequence[int]) -> Any:
        self._writer.close()
        with arrow().memory_map(self.path) as source:
            reader = arrow("ipc").open_file(source)
            return arrow().Table.from_batches([reader.get_batch(number) for number in numbers])


class IdPlaces(NamedTuple):
    """The distinct ids of several columns, and where each of them is."""

    ids: Any  #: an Arrow column
    places: Sequence[np.ndarray]  #: for each column, the place of each id; -1: it has none
    counts: Sequence[np.ndarray]  #: for each column, how often it has each id

    @classmethod
    def of(cls, columns: Sequence[Any]) -> IdPlaces:
        """The ids of Arrow columns of one type, in no order."""
        pa = arrow()
        tables = [pa.table({"id": ids, str(at): pa.array(np.arange(len(ids)))}) for at, ids in enumerate(columns)]
        names = [str(at) for at, ids in enumerate(columns) if len(ids)]
        grouped = pa.concat_tables(tables, promote_options="default").group_by("id")
        grouped = grouped.aggregate([(name, how) for name in names for how in ("max", "count")])
        numbers = {name: grouped[name].fill_null(-1).to_numpy() for name in grouped.column_names if name != "id"}
        none = np.full(grouped.num_rows, -1), np.zeros(grouped.num_rows, np.int64)
        places, counts = (
            [numbers.get(f"{at}_{how}", default) for at in range(len(columns))]
            for how, default in zip(("max", "count"), none)
        )
        return cls(grouped["id"], places, counts)


def _by_kind(table: Any) -> Iterator[Any]:
    """The rows with ids of 2**63 or more, and the others, whose ids are int64 or strings."""
    pa, pc = arrow(), arrow("compute")
    ids = table["id"]
    if pa.types.is_uint64(ids.type):
        large = pc.greater_equal(ids, pa.scalar(2**63, pa.uint64()))
        yield table.filter(large)
        table = table.filter(pc.invert(large))
        table = table.set_column(table.column_names.index("id"), "id", table["id"].cast(pa.int64()))
    yield table


def _shares_of(ids: Any, number: int) -> np.ndarray:
    """The share of each id, the same in every stream and every run."""
    if number == 1:
        return np.zeros(len(ids), np.int64)
    if arrow().types.is_string(ids.type):
        some = (ids.slice(start, _STRINGS).to_pylist() for start in range(0, len(ids), _STRINGS))
        numbers = np.fromiter((zlib.crc32(text.encode()) for texts in some for text in texts), np.int64, len(ids))
    else:
        numbers = ids.to_numpy()
    mixed: np.ndarray = (numbers.view(np.uint64) * _MIX >> np.uint64(32)) % np.uint64(number)
    return mixed.astype(np.int64)
