"""Metrics around metrics: by slice, over a window, and with an interval from resampling."""

from fleetmetrics.formulas.bootstrap import BootstrapResult, PairedDifference, paired_difference
from fleetmetrics.wrappers.bootstrap import Bootstrap
from fleetmetrics.wrappers.sliced import Sliced
from fleetmetrics.wrappers.windowed import Windowed, WindowedValue

__all__ = [
    "Bootstrap",
    "BootstrapResult",
    "PairedDifference",
    "Sliced",
    "Windowed",
    "WindowedValue",
    "paired_difference",
]
