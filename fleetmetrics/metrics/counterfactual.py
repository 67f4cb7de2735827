"""The value of a policy that did not choose, from what another one has logged."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.checks import positive_of
from fleetmetrics.support.typed import Unpack

__all__ = ["IPS", "SNIPS", "DoublyRobust", "EffectiveSampleSize"]

_NONE_TAKEN = "the new policy takes none of the logged actions"


def _column(batch: Batch, place: int) -> Any:
    return batch.xp.cast(batch.of_class(place), "float64")


def _are_probabilities(batch: Batch) -> Any:
    xp, target, logged = batch.xp, _column(batch, 0), _column(batch, 1)
    valid = xp.logical_and(xp.is_probability(target), xp.is_probability(logged))
    return xp.logical_and(valid, xp.greater(logged, 0.0))


def _are_expected(batch: Batch) -> Any:
    xp = batch.xp
    return xp.logical_and(xp.isfinite(_column(batch, 2)), xp.isfinite(_column(batch, 3)))


_PROBABILITIES = Requirement(
    "prediction",
    "probabilities of the logged action: the new policy's from 0 to 1, and the logging policy's above 0 and up to 1",
    _are_probabilities,
)
_EXPECTED = Requirement("prediction", "finite expected rewards in its last two columns", _are_expected)


@per_sample
def _ratios(batch: Batch, clip: float | None) -> Any:
    """How much more often the new policy takes each logged action: float64; 0 for samples that do not count."""
    xp = batch.xp
    ratios = xp.divide(_column(batch, 0), xp.or_one(_column(batch, 1)))
    return ratios if clip is None else xp.minimum(ratios, xp.full_like(ratios, clip))


@statistic
def _sum_of_ratios(batch: Batch, clip: float | None) -> Any:
    return batch.weighted_sum(_ratios(batch, clip), zero_at_zero=True)


@statistic
def _sum_of_squares(batch: Batch, clip: float | None) -> Any:
    return batch.weighted_sum(batch.xp.square(_ratios(batch, clip)), zero_at_zero=True)


@statistic
def _reweighted(batch: Batch, clip: float | None) -> Any:
    return batch.weighted_sum(batch.xp.multiply(_ratios(batch, clip), batch.targets), zero_at_zero=True)


@statistic
def _corrected(batch: Batch, clip: float | None) -> Any:
    """The expected reward of the new policy, plus the error of the logged action's, reweighted."""
    xp = batch.xp
    error = xp.subtract(batch.targets, _column(batch, 2))
    value = xp.add(_column(batch, 3), xp.multiply(_ratios(batch, clip), error))
    return batch.weighted_sum(value, zero_at_zero=True)


class _OffPolicy(WithoutColumns[float], Undefinable[float]):
    """A metric of the probabilities with which two policies take a logged action."""

    requirements: tuple[str | Requirement, ...] = ("finite_label", _PROBABILITIES)
    better = "higher"
    #: The columns of a prediction, and in words; more than it needs are those of `DoublyRobust`.
    width: ClassVar[int] = 2
    columns_in_words: ClassVar[str] = "the new policy's and the logging policy's probability of the logged action"

    clip: float | None

    def __init__(self, *, clip: float | None = None, **settings: Unpack[Settings]) -> None:
        self.clip = None if clip is None else positive_of("clip", clip)
        self.settle(clip=self.clip)
        super().__init__(**settings)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """Those of the class, for the right columns."""
        if batch.label is None:
            raise InvalidInputError("label is missing; give add(prediction, label)")
        if batch.classes not in (self.width, DoublyRobust.width):
            shape = f"[n, {batch.classes}]" if batch.classes else "[n]"
            raise InvalidInputError(
                f"prediction has shape {shape}; it must be [n, {self.width}]: {self.columns_in_words}. Give "
                "np.stack([...], axis=1)"
            )
        return self.requirements


class IPS(_OffPolicy):
    """Value of a policy by inverse propensity scores: the mean reward that it would have had on logged traffic.

    Formula: ``sum(w * r * t / l) / sum(w)``, where the new policy takes the logged action with probability ``t``, and
    the logging policy has taken it with probability ``l``, its propensity. ``add(prediction, label)`` takes ``t`` and
    ``l`` as a prediction ``[n, 2]`` (or the four columns of `DoublyRobust`), and the rewards ``r`` ``[n]``. Without
    bias if every action of the new policy was possible in the log. Undefined without samples.

    `Interval` gives its confidence interval, `EffectiveSampleSize` how many samples it stands on.

    Args:
        clip: the most that ``t / l`` counts: fewer large ratios, and a bias towards 0; None: no limit.
        **settings: those of `Undefinable`.

    Raises:
        InvalidInputError: a setting is invalid.

    Examples:
        >>> metric = IPS()
        >>> metric.add([[0.5, 0.25], [0.0, 0.5], [1.0, 0.8]], [1, 1, 0])
        >>> round(metric.compute(), 6)
        0.666667
    """

    quotient: Quotient | None = Quotient({"reweighted": 1}, lowest=-math.inf)
    declared: tuple[Declared, ...] = (
        Declared("reweighted", dtype="float64", statistic=_reweighted, settings=("clip",)),
        TOTAL,
    )


class SNIPS(_OffPolicy):
    """Value of a policy by self-normalized inverse propensity scores: the mean reward, weighted by the ratios.

    Formula: ``sum(w * r * t / l) / sum(w * t / l)``. Inputs and ``clip`` as for `IPS`. The value stays between the
    lowest and the highest reward, with less variance than `IPS` and a bias that vanishes with more samples. Undefined
    without samples, and if all ``t`` are 0.

    Args:
        clip: as for `IPS`.
        **settings: those of `Undefinable`.

    Raises:
        InvalidInputError: a setting is invalid.

    Examples:
        >>> metric = SNIPS()
        >>> metric.add([[0.5, 0.25], [0.0, 0.5], [1.0, 0.8]], [1, 1, 0])
        >>> round(metric.compute(), 6)
        0.615385
    """

    quotient: Quotient | None = Quotient({"reweighted": 1}, {"ratios": 1}, lowest=-math.inf, reason=_NONE_TAKEN)
    declared: tuple[Declared, ...] = (
        Declared("reweighted", dtype="float64", statistic=_reweighted, settings=("clip",)),
        Declared("ratios", dtype="float64", statistic=_sum_of_ratios, settings=("clip",)),
        TOTAL,
    )


class DoublyRobust(_OffPolicy):
    """Value of a policy by a model of the rewards, corrected by inverse propensity scores.

    Formula: ``sum(w * (q + (r - m) * t / l)) / sum(w)``, where a model expects the reward ``m`` of the logged action,
    and ``q`` of the new policy's own. ``add(prediction, label)`` takes ``t``, ``l``, ``m`` and ``q`` as a prediction
    ``[n, 4]``, and the rewards ``r`` ``[n]``. Right if the propensities are, or the model is. Undefined without
    samples.

    Args:
        clip: as for `IPS`.
        **settings: those of `Undefinable`.

    Raises:
        InvalidInputError: a setting is invalid.

    Examples:
        >>> metric = DoublyRobust()
        >>> metric.add([[0.5, 0.25, 0.5, 0.75], [0.0, 0.5, 0.25, 0.5]], [1, 1])
        >>> metric.compute()
        1.125
    """

    requirements: tuple[str | Requirement, ...] = ("finite_label", _PROBABILITIES, _EXPECTED)
    width: ClassVar[int] = 4
    columns_in_words: ClassVar[str] = (
        f"{_OffPolicy.columns_in_words}, and the expected reward of that action and of the new policy"
    )
    quotient: Quotient | None = Quotient({"corrected": 1}, lowest=-math.inf)
    declared: tuple[Declared, ...] = (
        Declared("corrected", dtype="float64", statistic=_corrected, settings=("clip",)),
        TOTAL,
    )


class EffectiveSampleSize(_OffPolicy):
    """How many samples of the new policy itself the logged ones are worth, where `IPS` reweights them.

    Formula: ``sum(w * t / l)**2 / sum(w * (t / l)**2)``, at most the total weight. Inputs and ``clip`` as for
    `IPS`; the rewards do not count. Undefined without samples, and if all ``t`` are 0.

    Args:
        clip: as for `IPS`.
        **settings: those of `Undefinable`.

    Raises:
        InvalidInputError: a setting is invalid.

    Examples:
        >>> metric = EffectiveSampleSize()
        >>> metric.add([[0.5, 0.25], [0.0, 0.5], [1.0, 0.5]], [1, 1, 0])
        >>> metric.compute()
        2.0
    """

    declared: tuple[Declared, ...] = (
        Declared("ratios", dtype="float64", statistic=_sum_of_ratios, settings=("clip",)),
        Declared("squares", dtype="float64", statistic=_sum_of_squares, settings=("clip",)),
        TOTAL,
    )

    def formula(self, ratios: np.ndarray, squares: np.ndarray, total: np.ndarray) -> float:
        if not squares.item() and total.item():
            return self._ratio(0, 0, _NONE_TAKEN)
        # Divided by about the sum of the ratios, whose square may be beyond floats.
        scaled, exponent = np.frexp(ratios)
        with np.errstate(over="ignore"):
            return float(np.ldexp(self._ratio(scaled.item() ** 2, np.ldexp(squares, -exponent).item()), exponent))
