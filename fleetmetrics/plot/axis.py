"""An axis of a chart: its scale, its ends, its ticks and their texts."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

__all__ = ["SMALL", "Axis", "short", "tick"]

#: The size of the numbers at an axis, in points.
SMALL = 7.0
#: Axes that follow from the data have this share of their length beyond it.
_MARGIN = 0.05


def tick(number: float, _: Any = None) -> str:
    """A number at an axis of shares, which may be close to 0 or to 1."""
    if 0 < number < 1e-3:
        return f"{number:.0e}".replace("e-0", "e-")
    if 0.9995 < number < 1:
        return f"1-{1 - number:.0e}".replace("e-0", "e-")
    return f"{number:.9g}"


def short(number: float, _: Any = None) -> str:
    """A count in few characters: 12k, 3.4M."""
    rounded = float(f"{number:.3g}")  # 999,802 is 1M, and not 1e+03k
    size, letter = next((unit for unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if rounded >= unit[0]), (1, ""))
    return f"{number / size:.3g}{letter}"


class Axis:
    """The scale, ends and ticks of an axis; what is None follows from the data."""

    scale: str = "linear"
    label: str = ""
    #: The most steps between ticks.
    most: int = 5
    size: float = SMALL
    rotation: int = 0
    grid: bool = True

    def __init__(self) -> None:
        self.ends: tuple[float | None, float | None] = (None, None)
        self.ticks: Sequence[float] | None = None
        self.texts: Sequence[str] | None = None
        self.form: Callable[[float], str] | None = None

    def scaled(self, values: Any) -> np.ndarray:
        """Numbers of the data on the scale."""
        values = np.asarray(values, float)
        if self.scale == "linear":
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(values / (1 - values) if self.scale == "logit" else values)

    def span(self, shown: Sequence[np.ndarray]) -> tuple[float, float]:
        """Both ends, on the scale, around the values that are shown."""
        values = self.scaled(np.concatenate([*shown, np.zeros(0)]))
        values = values[np.isfinite(values)]
        least, most = (values.min(), values.max()) if values.size else (0.0, 1.0)
        room = _MARGIN * (most - least) or _MARGIN * abs(most) or 0.5
        ends = [None if end is None else float(self.scaled(end)) for end in self.ends]
        low, high = (auto if end is None else end for end, auto in zip(ends, (least - room, most + room)))
        return (low, high) if low != high else (low, low + 1)

    def marks(self, low: float, high: float) -> list[tuple[float, str]]:
        """The ticks between two ends, on the scale, and their texts."""
        values = self._values(low, high) if self.ticks is None else self.ticks
        texts = self.texts or ([self.form(value) for value in values] if self.form else _decimals(values))
        inside = sorted((low, high))
        places = zip(self.scaled(values).tolist(), texts)
        return [(place, text) for place, text in places if inside[0] - 1e-9 <= place <= inside[1] + 1e-9]

    def _values(self, low: float, high: float) -> Sequence[float]:
        low, high = sorted((low, high))
        if self.scale == "linear":
            return _round_numbers(low, high, self.most)
        powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
        step = max(1, math.ceil(len(powers) / 7))
        if self.scale == "log":
            values = [10.0**power for power in powers if power % step == 0]
            finer = [digit * 10.0**power for power in [powers.start - 1, *powers] for digit in (1, 2, 5)]
        else:
            values = [_of_power(power) for power in powers if power % step == 0]
            finer = _round_numbers(1 / (1 + 10.0**-low), 1 / (1 + 10.0**-high), self.most)
        return values if len(values) > 1 else finer


def _of_power(power: int) -> float:
    """The tick of a logit axis: 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, ..."""
    if power == 0:
        return 0.5
    return float(f"1e{power}") if power < 0 else 1 - float(f"1e-{power}")


def _round_numbers(low: float, high: float, most: int) -> list[float]:
    """At most ``most + 1`` round numbers between two others."""
    size = (high - low) / most
    power = 10.0 ** math.floor(math.log10(size))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= size * (1 - 1e-9))
    return [step * place for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decimals(values: Sequence[float]) -> list[str]:
    """Numbers with the digits after the point that the finest of them needs."""
    largest = max(map(abs, values), default=0)
    if largest and not 1e-4 <= largest < 1e7:
        return [f"{value:.3g}" for value in values]
    digits = next((digits for digits in range(8) if all(abs(round(v, digits) - v) < 1e-9 for v in values)), 8)
    return [f"{value:.{digits}f}".replace("-", "\u2212") for value in values]
