"""One value out of an evaluation's results."""

from __future__ import annotations

from typing import Any, Mapping

from fleetmetrics.errors import InvalidInputError

__all__ = ["get_metric_value"]


def get_metric_value(indicator: str, metrics: Mapping[str, Any]) -> Any:
    """Return the value of a metric, named in full or without its prefix.

    Args:
        indicator: "accuracy/top1", or "top1" if only one metric has that name.
        metrics: what `Evaluator.evaluate` returned.

    Raises:
        InvalidInputError: a ValueError; if no metric has that name, or several have.

    Examples:
        >>> get_metric_value("top1", {"accuracy/top1": 75.0, "single-label/recall": 50.0})
        75.0
    """
    if "/" in indicator:
        if indicator not in metrics:
            raise InvalidInputError(f'The indicator "{indicator}" can not match any metric in {list(metrics)}')
        return metrics[indicator]
    matched = [name for name in metrics if name.rpartition("/")[2] == indicator]
    if not matched:
        raise InvalidInputError(f"The indicator {indicator} can not match any metric in {list(metrics)}")
    if len(matched) > 1:
        raise InvalidInputError(f'The indicator "{indicator}" matches multiple metrics {matched}')
    return metrics[matched[0]]
