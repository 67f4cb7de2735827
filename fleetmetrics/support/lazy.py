"""A package whose names are imported at their first use, for its ``__getattr__``."""

from __future__ import annotations

import importlib
from typing import Any, Mapping

__all__ = ["first_use"]


def first_use(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """The value of a name that a package does not have yet.

    Args:
        package: the package's name.
        name: the attribute: a public name, or a module of the package.
        modules: the module of each public name.

    Raises:
        AttributeError: the package has no such name, or its module does not import here. `hasattr` takes only an
            `AttributeError` for a no.
    """
    if name in modules:
        return getattr(importlib.import_module(modules[name]), name)
    if name.startswith("_"):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"{package}.{name}")
    except ImportError as error:
        if error.name != f"{package}.{name}":
            raise AttributeError(f"module {package!r} has no attribute {name!r} here: {error}") from error
        from fleetmetrics.support.hints import hint_of_name

        hint = hint_of_name(name, {public: public for public in modules})
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}") from None
