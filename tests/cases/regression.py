"""Regression: errors, relative errors, losses with a parameter, correlations."""

from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case, numbers, sklearn

Rng = np.random.Generator


def positive(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Above 0, of moderate size; 1 for bools."""
    return tuple(  # type: ignore[return-value]
        np.ones(samples, kind)
        if np.dtype(kind).kind == "b"
        else (rng.integers(1, 30, samples) / (4 if np.dtype(kind).kind == "f" else 1)).astype(kind)
        for kind in (dtype, label_dtype)
    )


def alike(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Predictions that have something to do with the labels; some of both are equal."""
    label = rng.integers(-9, 10, samples)
    prediction = label + rng.integers(-4, 5, samples)
    return (prediction > 0 if dtype == "bool" else prediction).astype(dtype), (
        np.abs(label) % 2 == 1 if label_dtype == "bool" else np.abs(label) if label_dtype == "uint8" else label
    ).astype(label_dtype)


def columns(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Predictions of three quantiles."""
    _, label = numbers(rng, samples, dtype, label_dtype)
    return np.stack([numbers(rng, samples, dtype, label_dtype)[0] for _ in range(3)], axis=1), label


def errors(function: Callable[[Any], Any]) -> Callable[..., float]:
    """The weighted mean of a function of the errors."""
    return lambda p, y, w: float(np.average(function(p.astype(float) - y.astype(float)), weights=w))


def max_error(p: Any, y: Any, w: Any) -> float:
    from sklearn import metrics

    return float(metrics.max_error(y.astype(float), p.astype(float)))


def symmetric(p: Any, y: Any, w: Any) -> float:
    p, y = p.astype(float), y.astype(float)
    size = np.abs(p) + np.abs(y)
    return float(np.average(np.where(size > 0, 2 * np.abs(p - y) / np.where(size > 0, size, 1), 0), weights=w))


def relative_to_all(p: Any, y: Any, w: Any) -> float:
    p, y, w = p.astype(float), y.astype(float), np.ones(p.size) if w is None else w
    return float(np.sum(w * np.abs(p - y)) / np.sum(w * np.abs(y)))


def log_cosh(error: Any) -> Any:
    return np.logaddexp(error, -error) - np.log(2)


def adjusted_r2(p: Any, y: Any, w: Any) -> float:
    r2 = sklearn("r2_score")(p, y, w)
    return 1 - (1 - r2) * (len(p) - 1) / (len(p) - 3)


def quantiles(p: Any, y: Any, w: Any) -> Any:
    return np.array([sklearn("mean_pinball_loss", alpha=q)(p[:, k], y, w) for k, q in enumerate((0.1, 0.5, 0.9))])


def middle_of_bucket(quantile: float) -> Any:
    """A quantile of the absolute errors, as the middle of its 64th of a doubling; or the mean of two of them."""

    def reference(p: Any, y: Any, w: Any) -> float:
        error = np.abs(p.astype(float) - y.astype(float))
        order = np.argsort(error)
        below = (np.ones(len(error)) if w is None else w[order]).cumsum()
        share = quantile * below[-1]
        ends = error[order[np.searchsorted(below, [share * (1 - 1e-12), share * (1 + 1e-12)])]]
        mantissa, exponent = np.frexp(ends)
        return float(np.ldexp(np.where(ends > 0, np.floor(mantissa * 128) + 0.5, 0), exponent - 7).mean())

    return reference


def pearson(p: Any, y: Any, w: Any) -> float:
    return float(np.corrcoef(p.astype(float), y.astype(float))[0, 1]) if w is None else weighted_pearson(p, y, w)


def weighted_pearson(p: Any, y: Any, w: Any) -> float:
    covariance = np.cov(p.astype(float), y.astype(float), aweights=w)
    return float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))


def spearman(p: Any, y: Any, w: Any) -> float:
    """Weights in eighths as repeated samples; others by the definition."""
    from scipy import stats

    p, y = p.astype(float), y.astype(float)
    if w is None:
        return float(stats.spearmanr(p, y).statistic)
    if (w * 8 == np.round(w * 8)).all():
        times = (w * 8).astype(int)
        return float(stats.spearmanr(np.repeat(p, times), np.repeat(y, times)).statistic)
    ranks = [[w[x < each].sum() + w[x == each].sum() / 2 for each in x] for x in (p, y)]
    return weighted_pearson(*map(np.array, ranks), w)


def kendall(p: Any, y: Any, w: Any) -> float:
    """SciPy's, or with weights by the definition."""
    from scipy import stats

    p, y = p.astype(float), y.astype(float)
    if w is None:
        return float(stats.kendalltau(p, y).statistic)
    of_p, of_y, product = signs(p), signs(y), np.outer(w, w)
    return float(
        (of_p * of_y * product).sum() / np.sqrt((of_p**2 * product).sum()) / np.sqrt((of_y**2 * product).sum())
    )


def in_order(p: Any, y: Any, w: Any) -> float:
    """Pairs whose labels fall, and of them those whose predictions do: XAUC by the definition."""
    product = np.ones((len(p), len(p)), int) if w is None else np.outer(w, w)
    product = np.where(signs(y.astype(float)) > 0, product, 0)
    return float((product * (signs(p.astype(float)) + 1)).sum() / (2 * product.sum()))


def signs(x: Any) -> Any:
    return np.sign(x[:, None] - x[None, :]).astype(int)


def tweedie(power: float) -> Any:
    return functools.partial(fm.TweedieDeviance, power=power)


SCALARS = ("[n]", "[n, 1]", "[n, m]")
CASES = {
    "mean absolute percentage error": Case(
        fm.MeanAbsolutePercentageError, numbers, sklearn("mean_absolute_percentage_error")
    ),
    "symmetric mean absolute percentage error": Case(fm.SymmetricMeanAbsolutePercentageError, alike, symmetric),
    "weighted mean absolute percentage error": Case(
        fm.WeightedMeanAbsolutePercentageError, alike, relative_to_all, shapes=SCALARS
    ),
    "mean squared log error": Case(fm.MeanSquaredLogError, positive, sklearn("mean_squared_log_error")),
    "root mean squared log error": Case(
        fm.RootMeanSquaredLogError, positive, sklearn("root_mean_squared_log_error"), kinds="fi"
    ),
    "mean bias": Case(fm.MeanBias, alike, errors(lambda error: error), tolerance=1e-11),
    "max error": Case(fm.MaxError, numbers, max_error),
    "log cosh error": Case(fm.LogCoshError, alike, errors(log_cosh)),
    "quantile loss": Case(
        functools.partial(fm.QuantileLoss, quantile=0.8), numbers, sklearn("mean_pinball_loss", alpha=0.8)
    ),
    "quantile loss of three": Case(
        functools.partial(fm.QuantileLoss, quantile=[0.1, 0.5, 0.9]),
        columns,
        quantiles,
        shapes=("[n]", "[n, 1]"),
        undefined=np.full(3, np.nan),
    ),
    "tweedie deviance of power -0.5": Case(
        tweedie(-0.5), positive, sklearn("mean_tweedie_deviance", power=-0.5), tolerance=1e-10, kinds="fi"
    ),
    "tweedie deviance of power 1.7": Case(
        tweedie(1.7), positive, sklearn("mean_tweedie_deviance", power=1.7), tolerance=1e-10, kinds="fi"
    ),
    "tweedie deviance of power 2": Case(
        tweedie(2), positive, sklearn("mean_tweedie_deviance", power=2), tolerance=1e-10, kinds="fi"
    ),
    "adjusted r2 score": Case(functools.partial(fm.R2Score, adjusted=2), alike, adjusted_r2, shapes=SCALARS),
    "explained variance": Case(fm.ExplainedVariance, alike, sklearn("explained_variance_score"), shapes=SCALARS),
    "pearson correlation": Case(fm.PearsonCorrelation, alike, pearson, shapes=SCALARS, kinds="fib"),
    "spearman correlation": Case(fm.SpearmanCorrelation, alike, spearman, shapes=SCALARS, modes=("numpy", "dynamic")),
    "kendall correlation": Case(fm.KendallCorrelation, alike, kendall, shapes=SCALARS, modes=("numpy", "dynamic")),
    "xauc": Case(fm.XAUC, alike, in_order, exact=True, shapes=SCALARS, modes=("numpy", "dynamic")),
    "median absolute error": Case(
        fm.MedianAbsoluteError, numbers, sklearn("median_absolute_error"), modes=("numpy", "dynamic")
    ),
    "quantile error": Case(functools.partial(fm.QuantileError, 0.9), numbers, middle_of_bucket(0.9)),
}
