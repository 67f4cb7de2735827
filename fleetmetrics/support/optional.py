"""Optional libraries, imported at first use; the error for a missing one has the command that installs it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

from fleetmetrics.errors import MissingLibraryError

__all__ = ["library"]

#: The first usable release of libraries whose earlier releases fail with their own errors. pyarrow 17 cannot read the
#: string views of polars; rapidfuzz compares pairs of lists since 3.8.
_FIRST = {"pyarrow": "18", "rapidfuzz": "3.8"}
#: What pip calls libraries whose modules have other names, or that need more than their own package.
_ON_INDEX = {
    "dask": "'dask[distributed]'",
    "faster_coco_eval": "faster-coco-eval",
    "paddle": "paddlepaddle",
    "ray": "'ray[data]'",
    "rouge_score": "rouge-score",
}
#: The libraries found so far: reading a small file requests parts of pyarrow twenty times.
_FOUND: dict[str, Any] = {}


def library(name: str) -> Any:
    """Import an optional library.

    Args:
        name: the module, such as ``"pyarrow.parquet"``.

    Raises:
        MissingLibraryError: the library is not installed, broken, or too old.

    Examples:
        >>> library("numpy").__name__
        'numpy'
    """
    module = _FOUND.get(name)
    if module is not None and sys.modules.get(name) is module:
        return module
    top = name.partition(".")[0]
    package = f"'{top}>={_FIRST[top]}'" if top in _FIRST else _ON_INDEX.get(top, top)
    how = f"install it with pip install {package}"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if "pyarrow" in name and "numpy" in str(error).lower():  # its metadata does not declare it
            how += "; pyarrow 26 needs NumPy 2; with NumPy 1, which Paddle 2.6 needs, run pip install 'pyarrow<26'"
        raise MissingLibraryError(f"{name} cannot be imported ({error}); {how}") from error
    if top in _FIRST:
        version = sys.modules[top].__version__
        if _numbers(version) < _numbers(_FIRST[top]):
            raise MissingLibraryError(f"{top} {version} is too old, {_FIRST[top]} or later is needed; {how}")
    _FOUND[name] = module
    return module


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]
