"""Optional libraries, imported at first use; the error for a missing one names the extra that brings it."""

from __future__ import annotations

import importlib
from typing import Any

from fleetmetrics.errors import MissingLibraryError

__all__ = ["library"]


def library(name: str, extra: str) -> Any:
    """Import an optional library.

    Args:
        name: the module, such as ``"pyarrow.parquet"``.
        extra: the extra of this package that brings it.

    Raises:
        MissingLibraryError: it is not installed, or broken.

    Examples:
        >>> library("numpy", "files").__name__
        'numpy'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        how = f"install it by pip install 'fleetmetrics[{extra}]'"
        if "pyarrow" in name and "numpy" in str(error).lower():  # which its metadata does not say
            how += "; pyarrow 26 needs NumPy 2, and beside NumPy 1, as Paddle 2.6 needs it: pip install 'pyarrow<26'"
        raise MissingLibraryError(f"{name} cannot be imported ({error}); {how}") from error
