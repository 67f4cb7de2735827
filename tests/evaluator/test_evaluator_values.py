"""One value out of an evaluation's results, as MMEngine's."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmetrics.errors import FleetMetricsError
from fleetmetrics.evaluator import get_metric_value

METRICS = {
    "accuracy/top1": 75.0,
    "accuracy/top5": 90.0,
    "single-label/recall": 50.0,
    "multi/label/recall": 25.0,
    "n": 4,
}


@pytest.mark.parametrize(
    ("indicator", "value"),
    [("accuracy/top5", 90.0), ("top1", 75.0), ("n", 4), ("multi/label/recall", 25.0), ("single-label/recall", 50.0)],
)
def test_a_metric_is_found_by_its_name_with_or_without_the_prefix(indicator: str, value: Any) -> None:
    assert get_metric_value(indicator, METRICS) == value


@pytest.mark.parametrize(
    ("indicator", "text"),
    [
        ("accuracy/top2", f'The indicator "accuracy/top2" can not match any metric in {list(METRICS)}'),
        ("label/recall", f'The indicator "label/recall" can not match any metric in {list(METRICS)}'),
        ("top2", f'The indicator "top2" can not match any metric in {list(METRICS)}'),
        ("recall", "The indicator \"recall\" matches multiple metrics ['single-label/recall', 'multi/label/recall']"),
    ],
)
def test_no_match_and_several_are_value_errors_in_mmengines_words(indicator: str, text: str) -> None:
    with pytest.raises(ValueError) as error:
        get_metric_value(indicator, METRICS)
    assert str(error.value) == text
    assert isinstance(error.value, FleetMetricsError)
