"""Names of `typing` that hints use and that not every Python has, so that `typing.get_type_hints` works on all.

Type checkers read them from typing_extensions, which is not needed at run time.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Required as Required
    from typing_extensions import Self as Self
    from typing_extensions import Unpack as Unpack
else:

    class _Bare:
        """Stands for the name in a hint, which it drops: ``Unpack[Settings]`` is ``Settings``."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item

    Required = getattr(typing, "Required", _Bare)
    Self = getattr(typing, "Self", Any)
    Unpack = getattr(typing, "Unpack", _Bare)

__all__ = ["Required", "Self", "Unpack"]
