"""Stand-ins for two names that scripts of MMPretrain and MMEngine need around their metrics: `DataSample` and `load`.

They are no copies: they hold and read what metrics take, and have no models, devices or remote files.
"""

from __future__ import annotations

import codecs
import copy
import json
import os
import pickle
from collections import OrderedDict
from typing import Any, Mapping

import numpy as np

from fleetmetrics.errors import DataError, FleetMetricsError, InvalidInputError
from fleetmetrics.support.tensors import as_array

__all__ = ["DataSample", "load"]


class DataSample:
    """The labels and predictions of one sample, as `Evaluator.process` takes them.

    Attributes are fields: ``sample.gt_label``, ``sample.caption = "a cat"``. A stand-in for MMPretrain's class: tensors
    stay as they are, and lists become NumPy arrays instead of torch's tensors. It has no ``to``, ``cpu`` or ``new``.

    Args:
        metainfo: facts about the sample, such as ``dict(img_shape=(960, 720), num_classes=5)``.
        data: its fields.

    Examples:
        >>> sample = DataSample(metainfo=dict(sample_idx=7)).set_gt_label(1).set_pred_score([0.25, 0.75])
        >>> sample.gt_label, sample.num_classes, "pred_label" in sample
        (array([1]), 2, False)
        >>> sample.to_dict()
        {'sample_idx': 7, 'num_classes': 2, 'gt_label': array([1]), 'pred_score': array([0.25, 0.75])}
    """

    def __init__(self, *, metainfo: Mapping[str, Any] | None = None, **data: Any) -> None:
        self._metainfo_fields: set[str] = set()
        self.set_metainfo(metainfo or {})
        for name, value in data.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        fields = ", ".join(field for field in vars(self) if not field.startswith("_"))
        raise AttributeError(f"this data sample has no {name!r}; it has {fields or 'no fields'}")

    def set_metainfo(self, metainfo: Mapping[str, Any]) -> None:
        """Set facts about the sample."""
        self._metainfo_fields.update(metainfo)
        for name, value in metainfo.items():
            setattr(self, name, copy.deepcopy(value))

    def set_gt_label(self, value: Any) -> DataSample:
        """Set the true class, or classes: an integer, or a list, array or tensor of them."""
        return self._set_label("gt_label", value)

    def set_pred_label(self, value: Any) -> DataSample:
        """Set the predicted class, or classes: an integer, or a list, array or tensor of them."""
        return self._set_label("pred_label", value)

    def set_gt_score(self, value: Any) -> DataSample:
        """Set the true value of each class, such as [0, 1, 1]: a list, an array or a tensor."""
        return self._set_score("gt_score", value)

    def set_pred_score(self, value: Any) -> DataSample:
        """Set the predicted score of each class: a list, an array or a tensor."""
        return self._set_score("pred_score", value)

    def _set_label(self, name: str, value: Any) -> DataSample:
        labels = value if hasattr(value, "cpu") else as_array(value, name)
        labels = labels.reshape([1]) if labels.ndim == 0 else labels
        if isinstance(labels, np.ndarray):
            whole = labels.dtype.kind in "biuf" and (labels == np.floor(labels)).all()
            if not whole:
                raise InvalidInputError(f"{name} must hold classes, as integers, not {value!r:.80}")
            labels = labels.astype(np.int64)
        setattr(self, name, _one_axis(name, labels))
        return self

    def _set_score(self, name: str, value: Any) -> DataSample:
        scores = _one_axis(name, value if hasattr(value, "cpu") else as_array(value, name))
        if isinstance(scores, np.ndarray) and scores.dtype.kind not in "biuf":
            raise InvalidInputError(f"{name} must hold a number for each class, not {value!r:.80}")
        if "num_classes" not in self:
            self.set_metainfo({"num_classes": len(scores)})
        elif len(scores) != self.num_classes:
            raise InvalidInputError(f"{name} has {len(scores)} entries, and num_classes is {self.num_classes}")
        setattr(self, name, scores)
        return self

    @property
    def metainfo(self) -> dict[str, Any]:
        """The facts about the sample."""
        return {name: value for name, value in vars(self).items() if name in self._metainfo_fields}

    def keys(self) -> list[str]:
        """The names of the other fields."""
        return [name for name in vars(self) if not name.startswith("_") and name not in self._metainfo_fields]

    def items(self) -> list[tuple[str, Any]]:
        """The names and values of the other fields."""
        return [(name, getattr(self, name)) for name in self.keys()]

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or the default."""
        return getattr(self, name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, as metrics get them."""
        return {**self.metainfo, **dict(self.items())}

    def __repr__(self) -> str:
        return f"DataSample({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


def _one_axis(name: str, values: Any) -> Any:
    if values.ndim != 1:
        raise InvalidInputError(f"{name} of one sample must have one axis, not the shape {list(values.shape)}")
    return values


def load(file: str | os.PathLike[str], file_format: str | None = None, *, allow_pickle: bool = False) -> Any:
    """Read a JSON or pickle file, such as one of predictions: a stand-in for MMEngine's function, for local files.

    Of a pickle it reads plain values, NumPy arrays, Paddle's tensors and `DataSample`, which cannot run any code.

    Args:
        file: its path.
        file_format: "json", "pkl" or "pickle"; None: the ending of the path.
        allow_pickle: whether to read any pickle, which can run any code, such as one of torch's tensors.

    Returns:
        What the file holds.

    Raises:
        InvalidInputError: if the format is another one, or the pickle holds anything else.
        DataError: if the content is not of this format.
        OSError: if the file cannot be read.

    Examples:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "predictions.json")
        >>> with open(path, "w") as file:
        ...     _ = file.write('[{"pred_label": 1, "gt_label": 1}]')
        >>> load(path)
        [{'pred_label': 1, 'gt_label': 1}]
    """
    path = os.fspath(file)
    form = path.rpartition(".")[2] if file_format is None else file_format
    if form not in ("json", "pkl", "pickle"):
        raise InvalidInputError(
            f"{path}: the format must be json, pkl or pickle, not {form!r}; "
            "Evaluator.offline_evaluate reads .parquet, .npz and more by itself"
        )
    with open(path, "rb") as opened:
        try:
            if form == "json":
                return json.load(opened)
            return pickle.load(opened) if allow_pickle else _PlainUnpickler(opened).load()
        except FleetMetricsError as error:
            raise InvalidInputError(f"{path} {error}; if you trust the file, load(..., allow_pickle=True)") from None
        except Exception as error:
            raise DataError(f"{path} cannot be read as {form}: {error!r}") from error


_NUMPY: list[Any] = [np.ndarray, np.dtype, *(np.empty(0).__reduce_ex__(protocol)[0] for protocol in (2, 5))]
_BUILTINS, _KINDS = ("builtins", "__builtin__"), (bytearray, bytes, complex, frozenset, range, set)
#: What pickles of plain values name; "numpy" stands for NumPy's modules, whose names differ by its version.
_PLAIN: dict[tuple[str, str], Any] = {
    **{("numpy", kind.__name__): kind for kind in (*_NUMPY, np.float64().__reduce__()[0])},
    **{(module, kind.__name__): kind for module in _BUILTINS for kind in _KINDS},
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): codecs.encode,  # bytes, in the protocol that MMEngine writes
}


class _PlainUnpickler(pickle.Unpickler):
    """Reads what can run no code."""

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        if name == "DataSample" and package in ("fleetmetrics", "mmpretrain"):
            return DataSample
        if name == "to_tensor" and package == "paddle":
            import paddle

            return paddle.to_tensor
        plain = _PLAIN.get((package, name))
        if plain is None:
            raise InvalidInputError(f"holds {module}.{name}, and such a pickle can run any code")
        return plain
