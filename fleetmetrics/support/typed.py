"""Names for hints that not every Python or installation has, so that `typing.get_type_hints` works on all.

Type checkers read them from typing_extensions and matplotlib, which are not needed at run time.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib import axes as _axes
    from matplotlib.figure import Figure as Figure
    from typing_extensions import Required as Required
    from typing_extensions import Self as Self
    from typing_extensions import TypeVar
    from typing_extensions import Unpack as Unpack

    class NewAxes(_axes.Axes):
        """The axes of a new figure: those of the caller may be in a part of one, which has no ``savefig``."""

        @property
        def figure(self) -> Figure: ...

    Axes = TypeVar("Axes", bound=_axes.Axes, default=NewAxes)
else:

    class _Bare:
        """Stands for the name in a hint, which it drops: ``Unpack[Settings]`` is ``Settings``."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item

    Required = getattr(typing, "Required", _Bare)
    Self = getattr(typing, "Self", Any)
    Unpack = getattr(typing, "Unpack", _Bare)
    Figure = Any
    #: The axes that a picture was given; without any, `NewAxes`.
    Axes = typing.TypeVar("Axes")

__all__ = ["Axes", "Figure", "Required", "Self", "Unpack"]
