"""Data samples in files: `DumpResults` writes what `Evaluator.offline_evaluate` reads."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import zipfile
from typing import Any, BinaryIO, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.columns.arrow_values import array_of, arrow, nulls_of, unnested
from fleetmetrics.columns.frames import Columns
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric, logger, to_cpu
from fleetmetrics.evaluator.registry import ENGINE
from fleetmetrics.files import find
from fleetmetrics.files.formats import pieces_of
from fleetmetrics.files.row_pieces import Piece
from fleetmetrics.records.batches import are_alike
from fleetmetrics.serial.container import whole_file
from fleetmetrics.support.tensors import as_array
from fleetmetrics.xp import is_eager_tensor, namespace

__all__ = ["DumpResults", "samples_in"]

_PICKLES = (".pkl", ".pickle")
_FORMATS = {".parquet": "parquet", ".npz": "npz"}  # other formats are recognized by their first bytes
_ENDINGS = (*_FORMATS, *_PICKLES)
_HELP = (
    "a sample is a dict, and a field is a number, a string or an array of numbers, of the same kind in all samples; "
    "or write a .pkl file"
)


@ENGINE.register_module()
class DumpResults(BaseMetric):
    """Writes all data samples, in order and without padding, into a file on rank 0.

    The file is written completely or not at all. If that fails, every worker raises and keeps its samples.
    `Evaluator.offline_evaluate` reads it.

    Args:
        out_file_path: its directory is created if missing. The ending decides the format: ".parquet" or ".npz" for a
            column per field, whose values are numbers, strings, or arrays of one shape, also in nested dicts;
            ".pkl" or ".pickle" for anything, in a pickle: read it only if you trust its source.
        collect_device, collect_dir, collect_dir_shared, allow_pickle: as in `BaseMetric`.

    Raises:
        InvalidInputError: (a ValueError) another ending; or from ``evaluate``, a field that is not a column.
        OSError: on every worker, from ``evaluate``, if the file cannot be written.

    Examples:
        >>> import tempfile
        >>> dump = DumpResults(os.path.join(tempfile.mkdtemp(), "predictions.npz"))
        >>> dump.process(None, [{"pred_score": [0.25, 0.75], "gt_label": 1}])
        >>> dump.evaluate(1)
        {}
        >>> np.load(dump.out_file_path)["pred_score"]
        array([[0.25, 0.75]])
    """

    def __init__(
        self, out_file_path: str, collect_device: str = "cpu", collect_dir: str | None = None, **more: bool
    ) -> None:
        super().__init__(collect_device, "", collect_dir, **more)
        self.out_file_path: str = str(out_file_path)
        if not self.out_file_path.endswith(_ENDINGS):
            raise InvalidInputError(f"out_file_path must end in .pkl, .parquet or .npz, not be {out_file_path!r}")

    def process(self, data_batch: Any, predictions: Sequence[dict[str, Any]]) -> None:
        """Keep the data samples, with their tensors on the host."""
        self.results.extend(to_cpu(list(predictions)))

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        """Write the file and return no values."""
        path = os.path.abspath(self.out_file_path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with whole_file(path) as file:
            if path.endswith(_PICKLES):
                _Pickler(file, protocol=4).dump(results)
            else:
                _write_columns(file, path, _columns_of(results))
        logger.info("Results has been saved to %s.", self.out_file_path)
        return {}


class _Sample(NamedTuple):
    """A data sample: a row of columns, until an `Evaluator` takes it as a dict."""

    fields: Sequence[tuple[list[str], Any]]
    place: int

    def to_dict(self) -> dict[str, Any]:
        sample: dict[str, Any] = {}
        for (*path, name), column in self.fields:
            functools.reduce(lambda inner, key: inner.setdefault(key, {}), path, sample)[name] = column[self.place]
        return sample


class _Everything(Columns):
    """All columns of a file, unchanged."""

    unexpected = "error"

    def chosen(self, there: Sequence[str]) -> list[str]:
        return list(there)

    def kind(self, name: str, first: Any, whole: bool = False) -> Any:
        return arrow().string() if arrow().types.is_temporal(first) else first


def samples_in(files: Any, allow_pickle: bool) -> Iterator[Any]:
    """The data samples in files, in order; ``files`` as for `fleetmetrics.files.find`."""
    for path in find(files):
        if path.endswith(_PICKLES):
            if not allow_pickle:
                raise InvalidInputError(f"{path} can run any code; if you trust it, give allow_pickle=True")
            with open(path, "rb") as file:
                yield from pickle.load(file)
            continue
        try:
            for piece in pieces_of(path, _FORMATS.get(os.path.splitext(path)[1]), _Everything(), _refuse):
                yield from _samples(piece)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def _refuse(text: str) -> None:
    raise DataError(f"{text} (the first row is row 0)")


def _samples(piece: Piece) -> Iterator[_Sample]:
    table, fields = piece.table, []
    while any(map(arrow().types.is_struct, table.schema.types)):
        table = table.flatten()
    for name, flags in nulls_of(table).items():
        _refuse(f"row {piece.rows[flags.argmax()]}, column {name!r}: no value")
    for name, column in zip(table.column_names, table.combine_chunks().columns):
        values, shape = unnested(column)
        fields.append((name.split("."), values.to_numpy(zero_copy_only=False).reshape(shape)))
    return (_Sample(fields, place) for place in range(len(table)))


def _write_columns(file: BinaryIO, path: str, columns: Mapping[str, np.ndarray]) -> None:
    if path.endswith(".npz"):
        with zipfile.ZipFile(file, "w") as archive:  # a field of numpy.savez cannot be called "file"
            for name, column in columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, column, allow_pickle=False)
        return
    table = arrow().table({name: array_of(column) for name, column in columns.items()})
    arrow("parquet").write_table(table, file)


def _columns_of(samples: Sequence[Any]) -> dict[str, np.ndarray]:
    """The fields of data samples by name; the error names a field that is not a column, and the sample."""
    rows = [dict(_fields("", sample)) for sample in samples]
    for place, row in enumerate(rows):
        for name in rows[0].keys() ^ row.keys():
            raise InvalidInputError(f"only one of the samples 0 and {place} has the field {name!r}; {_HELP}")
    return {name: _column(name, [row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        yield name, value
        return
    for key, inner in value.items():
        if not isinstance(key, str) or "." in key:
            raise InvalidInputError(f"the name of the field {key!r} must be a string without a dot; {_HELP}")
        yield from _fields(f"{name}.{key}" if name else key, inner)


def _column(name: str, values: Sequence[Any]) -> np.ndarray:
    arrays = [_array(value)[None] for value in values]
    odd = [i for i, array in enumerate(arrays) if array.dtype == object or not are_alike([arrays[0], array])]
    if odd or not name:
        kinds = [f"{type(values[i]).__name__} {list(arrays[i].shape[1:])} in sample {i}" for i in {0, *odd[:1]}]
        what = f"the field {name!r}" if name else "a data sample"
        raise InvalidInputError(f"{what} is {', '.join(kinds)}; {_HELP}")
    return np.concatenate(arrays)


def _array(value: Any) -> np.ndarray:
    with contextlib.suppress(ValueError):  # ragged
        array = as_array(value, "value")
        if array.size and (array.dtype.kind in "biuf" or (isinstance(value, str) and array.item() == value)):
            return array  # NumPy drops NUL at the end of a string
    return np.empty((), object)


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays: Paddle 2.6 cannot pickle them."""

    def reducer_override(self, obj: Any) -> Any:
        if not is_eager_tensor(obj):
            return NotImplemented
        import paddle

        return paddle.to_tensor, (namespace(obj).host(obj), str(obj.dtype).rpartition(".")[2])
