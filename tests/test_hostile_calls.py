"""Whatever public functions are given: a value that the docstring allows, or an error that names the argument."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import formulas
from fleetmetrics.formulas import bootstrap, groups, ranking
from tests import contract, hostile
from tests.contract import CASES

HISTOGRAMS = [0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75]
MASKED = np.ma.masked_array([0.25, 0.75], [True, False])


@pytest.mark.parametrize(
    "module",
    # what functional is given may be the name of a variable, for which Paddle is asked
    [pytest.param(name, marks=[pytest.mark.numpy_only] * (name != "functional")) for name in hostile.MODULES],
)
def test_nonsense_is_a_value_that_is_allowed_or_an_error_of_the_package(module: str) -> None:
    raw = [
        f"{call}: {text}" for call in hostile.calls(module) for kind, text in [hostile.outcome(call)] if kind == "raw"
    ]
    assert not raw, "\n".join(raw[:20])


@pytest.mark.numpy_only
@pytest.mark.parametrize("module", [name for name in hostile.MODULES if name.startswith("formulas")])
def test_an_error_names_the_argument_that_is_wrong(module: str) -> None:
    """Or, where a size does not fit, the one that has another."""
    for call in hostile.calls(module):
        kind, text = hostile.outcome(call)
        if kind == "named":
            named = [name for name in inspect.signature(call.function).parameters if name in text]
            assert named, f"{call}: {text}"


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "call, argument",
    [
        (lambda: formulas.throughput(-1, 2), "number"),
        (lambda: formulas.throughput(1, -2), "seconds"),
        (lambda: formulas.accuracy(-1, 4), "correct"),
        (lambda: formulas.accuracy(1, math.inf), "total"),
        (lambda: formulas.ratio(math.inf, 1, "metric"), "numerator"),
        (lambda: formulas.root_mean_squared_error(-16.0, 4), "squared_error"),
        (lambda: formulas.normalized_entropy(math.inf, 2, 4), "log_likelihood"),
        (lambda: formulas.normalized_entropy(1.0, 2, 4), "log_likelihood"),
        (lambda: formulas.average_precision_of_ranking([[True]], [1], mode="anything"), "mode"),
        (lambda: bootstrap.bootstrap_result(2.0, [1.0, 3.0], 0, None, confidence=-1), "confidence"),
        (lambda: bootstrap.bootstrap_result(2.0, [1.0, 3.0], 0, None, confidence=1.5), "confidence"),
        *[
            (lambda function=function, least=least: function(*HISTOGRAMS, least), argument)
            for function, argument in (
                (formulas.recall_at_fixed_precision, "min_precision"),
                (formulas.precision_at_fixed_recall, "min_recall"),
                (formulas.sensitivity_at_specificity, "min_specificity"),
                (formulas.specificity_at_sensitivity, "min_sensitivity"),
            )
            for least in (math.nan, -1, 2, "0.5", None)
        ],
        (lambda: formulas.threshold_sweep([0, 1, 1], [2, 1, 0], [0.25, math.nan]), "thresholds"),
        (lambda: formulas.threshold_sweep([0, 1, 1], [2, 1, 0], MASKED), "thresholds is a masked array"),
        (lambda: formulas.brier_decomposition([[1, 1], [0, 2]], [[0.25, 0.75], [0, 1.5]], MASKED, [0, 1]), "masked"),
        (lambda: formulas.precision([[3, 1], [2, 4]], zero_division="0"), "zero_division"),
        (lambda: formulas.variance([4.0, 2.5, 5.0], ddof=math.nan), "ddof"),
        (lambda: formulas.f_beta([[3, 1], [2, 4]], beta=-1), "beta"),
        (lambda: formulas.bucket_error([0, 1], [0, 1], max_span=0), "max_span"),
        (lambda: formulas.kendall_correlation(5), "pairs"),
        (lambda: formulas.xauc((1, 2, 3, 4, 5)), "pairs"),
        (lambda: groups.auc_by_group([1, 1, 2], [0.1, 0.4], [0, 1, 0]), "score"),
        (
            lambda: groups.auc_by_group([2, 1], [0.1, 0.4], [0, 1]),
            "group must be sorted: entry 1 .1. is below",
        ),
        (lambda: ranking.rank_queries([1, 1], [0.1, 0.4], [0]), "relevance"),
    ],
)
def test_nonsense_that_looks_like_a_number_is_refused_by_name(call: Any, argument: str) -> None:
    with pytest.raises(fm.InvalidInputError, match=argument):
        call()


# -- unchecked values: nan stays nan ----------------------------------------------------------------

NAMES = [
    name
    for name, case in CASES.items()
    if not isinstance(case.make(), (fm.Sliced, fm.Windowed, fm.Bootstrap, fm.Interval)) and not case.make()._folds()
]
#: States that say only whether there are samples, are one of several forms of a number, or have entries without use.
NOT_IN_THE_VALUE = (
    "precision confusion",  # the true negatives
    "recall confusion",
    "calibration total",
    "copc total",
    "weighted mean absolute percentage error total",
    "sum",
    "max",
    "min",
)


def flat(value: Any) -> Any:
    """The numbers of a value of any kind in one array."""
    if isinstance(value, (dict, tuple)):
        parts = [flat(part) for part in (value.values() if isinstance(value, dict) else value)]
        return np.concatenate(parts) if parts else np.zeros(0)
    return np.ravel(np.asarray(value, np.float64))


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_unchecked_states_cause_no_raw_error_and_nan_is_refused(name: str) -> None:
    """As with ``validate=False``, or from a peer: the metric calls its formula without the checks."""
    metric = CASES[name].make()
    metric.add(**contract.arguments(metric, contract.draw(name, contract.first_dtypes(name))))
    values = {state: state.read() for state in metric._states()}
    for state in metric._own_states():
        for wrong in (math.nan, -1e6, math.inf, -math.inf, 1e308):
            spoilt = values[state].astype(np.float64)
            spoilt.flat[int(np.abs(spoilt).argmax())] = wrong
            try:
                with np.errstate(all="ignore"):
                    value = metric.evaluate({**values, state: spoilt}, {})
            except fm.FleetMetricsError:
                continue
            part = f"{name} {state.name.rpartition('.')[2]}"
            if math.isnan(wrong) and not part.startswith(NOT_IN_THE_VALUE):
                assert np.isnan(flat(value)).any(), f"{part}: {value}"


@pytest.mark.numpy_only
def test_a_normalized_entropy_of_nan_is_nan_and_not_the_best() -> None:
    assert math.isnan(formulas.normalized_entropy(math.nan, 2, 4))
    for kind in (fm.NormalizedEntropy, fm.RecalibratedNormalizedEntropy):
        metric = kind(validate=False)
        metric.add([math.nan, 0.5, 0.2], [1, 0, 1])
        assert math.isnan(metric.compute()), kind
