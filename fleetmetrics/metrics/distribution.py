"""The distribution of values: mean, variance, histogram."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.metric import TOTAL, Common, Declared, Settings, Undefinable, formula_of
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.aggregation import Values
from fleetmetrics.support.checks import edges_of, number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["Histogram", "Mean", "StandardDeviation", "Variance"]


@statistic
def _value_sum(batch: Batch) -> Any:
    return batch.weighted_sum(batch.values, zero_at_zero=True)


@statistic
def _value_moments(batch: Batch) -> Any:
    return batch.moments(batch.values)


@statistic
def _cells(batch: Batch, edges: tuple[float, ...]) -> Any:
    """The numbers of values below the first edge, in each bin, and above the last edge."""
    xp = batch.xp
    with np.errstate(over="ignore"):  # infinity is above the largest float
        closed = np.array([*edges[:-1], np.nextafter(edges[-1], np.inf)])
    return batch.histogram(xp.position(xp.constant(closed), batch.values, True))


class Mean(Undefinable[float], Values[float]):
    """Arithmetic mean of all values; with weights the weighted mean.

    Formula: ``sum(w * x) / sum(w)``, in float64 for values of any dtype. Inputs as for `Sum`. Undefined without values.

    Examples:
        >>> metric = Mean()
        >>> metric.add([1.0, 3.0], weight=[3.0, 1.0])
        >>> metric.compute()
        1.5
    """

    declared: tuple[Declared, ...] = (Declared("value_sum", dtype="float64", statistic=_value_sum), TOTAL)

    def formula(self, value_sum: Any, total: Any) -> float:
        return self._ratio(value_sum, total)


class Variance(Undefinable[float], Values[float]):
    """Variance of all values.

    Formula: ``sum(w * (x - mean(x))**2) / (sum(w) - ddof)``: a value of weight w counts as w equal values. It is
    computed in float64 and merged by pairwise formulas, and stays accurate if values are large compared with their
    spread. Inputs as for `Sum`, but integers beyond 2**53 are an error. Undefined if the total weight is at most
    ``ddof``. Squared deviations below 2.2e-308, where float64 has few digits, cause an `UndefinedMetricWarning`.

    Args:
        ddof: the number to subtract from the weight, at least 0: 0 for the variance of these values, 1 for an unbiased
            estimate of the variance of the population.

    Examples:
        >>> metric = Variance(ddof=1)
        >>> metric.add([1e8, 1e8 + 1, 1e8 + 2])
        >>> metric.compute()
        1.0
    """

    ddof: float

    requirements: tuple[str | Requirement, ...] = ("exact_prediction",)
    declared: tuple[Declared, ...] = (Declared("moments", (4,), "float64", "moments", statistic=_value_moments),)
    formula: Any = formula_of(formulas.variance, "ddof", "zero_division")

    def __init__(self, *, ddof: float = 0, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.ddof = number_of("ddof", ddof, 0)
        self.settle(ddof=self.ddof)


class StandardDeviation(Variance):
    """Standard deviation of all values: the square root of `Variance`.

    Formula: ``sqrt(sum(w * (x - mean(x))**2) / (sum(w) - ddof))``. Inputs and arguments as for `Variance`.

    Examples:
        >>> metric = StandardDeviation()
        >>> metric.add([1.0, 5.0])
        >>> metric.compute()
        2.0
    """

    formula: Any = formula_of(formulas.standard_deviation, "ddof", "zero_division")


class Histogram(Values[formulas.HistogramCounts]):
    """The number of values in each bin.

    Formula: ``counts[k] = sum(w * [edges[k] <= x < edges[k + 1]])``. The last bin also holds its upper edge, as in
    `numpy.histogram`; values are compared with the edges as float64, without rounding. Values outside are counted
    separately. Inputs as for `Sum`.

    The value is a `fleetmetrics.formulas.HistogramCounts`: ``counts`` (int64; with weights, their sums in float64),
    ``edges``, ``below`` and ``above``.

    Args:
        bins: the number of bins of equal width in ``range``; or all edges, rising, one more than bins.
        range: lowest and highest edge; ignored if ``bins`` are edges.

    Examples:
        >>> metric = Histogram(bins=4, range=(0.0, 1.0))
        >>> metric.add([0.0, 0.25, 0.3, 1.0, 1.5])
        >>> value = metric.compute()
        >>> value.counts.tolist(), value.above
        ([1, 2, 0, 1], 1)
    """

    gives = "counts"
    pictures: tuple[str, ...] = ("histogram", "residuals")

    edges: tuple[float, ...]

    cell_states: tuple[str, ...] = ("cells",)
    formula: Any = formula_of(formulas.histogram_counts, "edges")

    def __init__(
        self, *, bins: int | Sequence[float] = 10, range: tuple[float, float] = (0.0, 1.0), **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        try:
            low, high = (number_of("range", bound) for bound in range)
        except (TypeError, ValueError):
            low = high = 0.0
        if not low < high:
            raise InvalidInputError(f"range must be two finite numbers, the lower one first, not {range!r}")
        self.edges = edges_of(bins, low, high)
        self.settle(bins=self.edges, range=None)
        self.declare("cells", (len(self.edges) + 1,), statistic=_cells, settings=("edges",))
