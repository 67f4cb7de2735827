"""Regression metrics: large values with a small spread, domains, constant targets, sharing, arguments."""

from __future__ import annotations

import decimal
import itertools
import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest

import fleetmetrics as fm
from tests import exactness
from tests.cases.regression import tweedie
from tests.contract import CASES, MODES, Data, batches, draw, feed, first_dtypes, new_scope, same
from tests.cover import thorough
from tests.fakes import together

pytestmark = pytest.mark.halved

RNG = np.random.default_rng(7)
CUTS = [0, 100, 100, 170, 400]  # four workers, the second one empty


def merged(make, data, mode):
    """The metric of four workers, merged."""
    scope, total = new_scope(mode), make()
    for start, stop in itertools.pairwise(CUTS):
        worker = make()
        feed(worker, batches(data.rows(start, stop), 30), mode, data, scope)
        total.merge(worker, scope)
    return total


# -- what sums of squares would lose -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_spread_of_1_around_1e8_survives_on_several_workers(weighted, mode):
    spread = np.round(RNG.normal(size=(2, 400)) * 2**10) / 2**10  # so that adding 1e8 rounds nothing
    label, prediction = 1e8 + spread[0], 1e8 + spread[0] + spread[1]
    weight = RNG.integers(1, 9, 400) / 8 if weighted else None
    data = Data(prediction, label, weight)
    w = np.ones(400) if weight is None else weight

    def covariance(x, y):
        mean_x, mean_y = np.average(x, weights=w), np.average(y, weights=w)
        return np.average((x - mean_x) * (y - mean_y), weights=w)

    p, y = spread[0] + spread[1], spread[0]
    expected = {
        fm.R2Score: 1 - np.average(spread[1] ** 2, weights=w) / covariance(y, y),
        fm.ExplainedVariance: 1 - covariance(spread[1], spread[1]) / covariance(y, y),
        fm.PearsonCorrelation: covariance(p, y) / math.sqrt(covariance(p, p) * covariance(y, y)),
    }
    for make, value in expected.items():
        assert merged(make, data, mode).compute() == pytest.approx(value, abs=1e-8), make
    naive = np.average(label**2, weights=w) - np.average(label, weights=w) ** 2
    assert abs(naive / covariance(y, y) - 1) > 0.1


REGRESSION = [getattr(fm, name) for name in fm.metrics.__all__]
REGRESSION = [kind for kind in REGRESSION if kind.__module__.startswith("fleetmetrics.metrics.regression.")]
OF_ALL_SAMPLES = [fm.SpearmanCorrelation, fm.KendallCorrelation, fm.XAUC]


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("make", OF_ALL_SAMPLES)
def test_integers_that_no_float_tells_apart_are_told_apart(make, mode):
    prediction, label = RNG.integers(0, 50, (2, 90))
    lowest = np.int64(-(2**63))
    small, large, one = make(), make(), make()
    small.add(prediction, label)
    for start, stop in ((0, 40), (40, 90)):
        worker = make()
        feed(worker, [Data(prediction[start:stop] + 2**62, lowest + (49 - label[start:stop]))], mode)
        feed(one, [Data(prediction[start:stop] + 2**62, label[start:stop] + 2**62)], mode)
        large.merge(worker)
    assert one.compute() == small.compute()
    reversed_label = make()
    reversed_label.add(prediction, -label)
    assert large.compute() == reversed_label.compute()


@pytest.mark.parametrize("make", OF_ALL_SAMPLES)
def test_integers_beside_floats_are_compared_as_floats(make):
    prediction, label = RNG.integers(-500, 500, (2, 60))
    expected = make()
    expected.add(prediction / 4, label.astype(float))
    mixed = make()
    mixed.add(prediction[:30] * 4, label[:30].astype(np.float32))
    mixed.add(prediction[30:] * 4.0, label[30:])
    assert mixed.compute() == expected.compute()
    workers = [
        lambda channel: one_worker(make, prediction[:30] * 4, label[:30].astype(float), channel),
        lambda channel: one_worker(make, prediction[30:] * 4.0, label[30:], channel),
    ]
    assert together(workers) == [expected.compute()] * 2


def one_worker(make, prediction, label, channel):
    metric = make(name="it")
    metric.add(prediction, label)
    return metric.compute(communicator=channel)


OF_VARIATION = [fm.R2Score, fm.ExplainedVariance, fm.PearsonCorrelation, *OF_ALL_SAMPLES]


@pytest.mark.parametrize("make", OF_VARIATION)
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e8 + 0.3])
def test_a_constant_target_on_several_workers_is_undefined(make, constant):
    data = Data(RNG.normal(size=400), np.full(400, constant), RNG.random(400))
    for mode in ("numpy", "dynamic"):
        with pytest.warns(fm.UndefinedMetricWarning, match="all labels are equal; the value is nan"):
            assert math.isnan(merged(make, data, mode).compute())
    assert merged(lambda: make(zero_division=0.5), data, "numpy").compute() == 0.5


def test_one_sample_has_no_variance():
    for make in OF_VARIATION:
        metric = make()
        metric.add(1.0, 2.0)
        with pytest.warns(fm.UndefinedMetricWarning, match="all labels are equal"):
            assert math.isnan(metric.compute())


OF_MOMENTS = [fm.R2Score, fm.ExplainedVariance, fm.PearsonCorrelation, fm.Variance, fm.StandardDeviation]


def small_numbers(make, size, weight=None):
    """The values of all samples in one batch, in several, and of several workers; and what was warned of."""
    rng = np.random.default_rng(3)
    label = rng.normal(size=40)
    given = [(0.5 * label + rng.normal(size=40)) * size, label * size]
    given = given[1:] if issubclass(make, fm.Variance) else given
    values, said = [], []
    for parts in (1, 4, 20):
        metrics = [make(name="it") for _ in range(2)]
        for number, rows in enumerate(np.array_split(np.arange(40), parts)):
            metrics[number % 2].add(*[each[rows] for each in given], weight=weight)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = together([lambda channel, its=each: its.compute(communicator=channel) for each in metrics])
            values += [*found, fm.merge_all(metrics).compute()]
        said.append({str(each.message) for each in caught if each.category is fm.UndefinedMetricWarning})
    return values, said


@pytest.mark.numpy_only
@pytest.mark.parametrize("make", OF_MOMENTS)
def test_squares_that_lose_digits_warn_on_any_split_of_the_samples(make):
    for size, weight in (
        (1e-155, None),
        (1e-160, None),
        (1e-162, None),
        (1e-170, None),
        (2.0**-80, 2.0**-900),
        (2.0**-330, 2.0**-500),
        (2.0**-500, 2.0**-330),
        (1e-160, 1e150),
    ):
        for texts in small_numbers(make, size, weight)[1]:
            assert any("is inexact, and depends on how the samples were split" in text for text in texts)


@pytest.mark.numpy_only
@pytest.mark.parametrize("make", OF_MOMENTS)
def test_numbers_whose_squares_are_just_large_enough_have_the_digits_of_ordinary_ones(make):
    ordinary, _ = small_numbers(make, 1.0)
    for size, weight in ((2.0**-508, None), (2.0**-511, 64.0), (2.0**-400, 2.0**-200), (2.0**-500, 2.0**900)):
        values, said = small_numbers(make, size, weight)
        unit = {fm.Variance: size * size, fm.StandardDeviation: size}.get(make, 1)
        assert not any(said)
        np.testing.assert_allclose(np.array(values) / unit, ordinary, rtol=1e-13, atol=1e-15)


def test_adjusted_r2_counts_samples_and_not_weights():
    data = Data(RNG.normal(size=9), RNG.normal(size=9), np.full(9, 100.0))
    plain, adjusted = fm.R2Score(), fm.R2Score(adjusted=3)
    for metric in (plain, adjusted):
        feed(metric, batches(data, 4), "numpy")
    assert adjusted.compute() == pytest.approx(1 - (1 - plain.compute()) * 8 / 5, rel=1e-12)
    few = fm.R2Score(adjusted=3)
    feed(few, [data.rows(0, 4)], "numpy")
    with pytest.warns(fm.UndefinedMetricWarning, match="adjusted=3 needs more than 4 samples, and there are 4"):
        assert math.isnan(few.compute())


# -- all samples at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_ties_between_workers_share_their_rank(mode):
    from scipy import stats

    prediction, label = RNG.integers(0, 20, (2, 400)) / 4 + [[0.0], [1.0]]
    for make, function in ((fm.SpearmanCorrelation, stats.spearmanr), (fm.KendallCorrelation, stats.kendalltau)):
        metric = merged(make, Data(prediction, label), mode)
        assert metric.compute() == pytest.approx(function(prediction, label).statistic, rel=1e-12)


@pytest.mark.parametrize("make", OF_ALL_SAMPLES)
def test_a_metric_that_keeps_every_sample_says_in_a_static_program_what_to_do(make):
    with pytest.raises(fm.StaticProgramError, match=rf"{make.__name__}\).* fetch prediction, label"):
        feed(make(), [Data(np.ones(3), np.ones(3))], "static")


def test_a_collection_keeps_the_samples_once_and_counts_the_pairs_once(monkeypatch):
    counted = []
    count = fm.formulas.pair_counts
    monkeypatch.setattr(fm.formulas, "pair_counts", lambda *args: counted.append(1) or count(*args))
    collection = fm.MetricCollection([make(name=make.__name__) for make in OF_ALL_SAMPLES])
    prediction, label = RNG.integers(0, 9, (2, 60))
    collection.add(prediction, label)
    values = collection.compute()
    assert len(collection.record_folds()) == len(counted) == 1
    for make in OF_ALL_SAMPLES:
        alone = make()
        alone.add(prediction, label)
        assert values[make.__name__] == alone.compute()


def test_xauc_of_clicks_is_the_area_under_the_curve():
    prediction, label = RNG.integers(0, 20, 300) / 4, RNG.integers(0, 2, 300)
    pairs, area = fm.XAUC(), fm.ExactAUC()
    for metric in (pairs, area):
        metric.add(prediction, label)
    assert pairs.compute() == area.compute()


# -- domains -----------------------------------------------------------------------------------------------

NUMBERS = [-2.0, -1.0, -0.5, 0.0, 1e-300, 0.5, 3.0]


@pytest.mark.numpy_only
@pytest.mark.parametrize("power", [-3, -0.5, 0, 1, 1.5, 1.999, 2, 2.5, 3])
def test_tweedie_deviance_takes_what_scikit_learn_takes(power):
    from sklearn.metrics import mean_tweedie_deviance

    for prediction, label in itertools.product(NUMBERS, NUMBERS):
        metric = tweedie(power)()
        try:
            with np.errstate(over="ignore"):
                expected = mean_tweedie_deviance([label], [prediction], power=power)
        except ValueError:
            with pytest.raises(fm.InvalidInputError, match=r"must be a finite number (above|of at least) 0"):
                metric.add([prediction], [label])
            continue
        if abs(expected) < 1e100:
            metric.add([prediction], [label])
            assert metric.compute() == pytest.approx(expected, rel=1e-10, abs=1e-12), (prediction, label)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("power", [0, 1, 3])
def test_tweedie_deviance_of_whole_powers_equals_scikit_learn_in_all_modes(power, mode):
    from sklearn.metrics import mean_tweedie_deviance

    prediction, label = RNG.random((2, 60)) * 10 + 0.01
    mask = RNG.random(60) < 0.7
    metric = tweedie(power)()
    scope = feed(metric, batches(Data(prediction, label, None, mask)), mode)
    expected = mean_tweedie_deviance(label[mask], prediction[mask], power=power)
    assert metric.compute(scope) == pytest.approx(expected, rel=1e-12)


def exact_deviance(prediction: float, label: float, power: float) -> float:
    with decimal.localcontext() as context:
        context.prec = 80
        p, y, k = map(decimal.Decimal, (prediction, label, power))
        if k == 1:
            return float(2 * (y * (y / p).ln() - y + p))
        if k == 2:
            return float(2 * ((p / y).ln() + y / p - 1))
        return float(2 * (y ** (2 - k) / ((1 - k) * (2 - k)) - y * p ** (1 - k) / (1 - k) + p ** (2 - k) / (2 - k)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("power", [-3.5, -0.5, 0, 1, 1.1, 1.5, 1.9, 2, 2.5, 3, 7])
def test_tweedie_deviance_near_a_perfect_prediction_is_exact_and_never_negative(power, mode):
    modes = [mode] if mode != "static" or power in (1, 1.5, 2) else []
    ratios = 1 + np.concatenate([10.0 ** -np.arange(1, 16), -(10.0 ** -np.arange(1, 16)), [2.0**-52, 0.5, 3.0]])
    for ratio in ratios[::6] if mode == "static" else ratios:  # a program for each
        for each in modes:
            for prediction in (1.0, 3e-5, 123456.789) if each == "numpy" else (0.7,):
                label = float(prediction * ratio)
                metric = tweedie(power)()
                scope = feed(metric, [Data(np.array([prediction]), np.array([label]))], each)
                expected = exact_deviance(prediction, label, power)
                assert metric.compute(scope) == pytest.approx(expected, rel=1e-11, abs=0), (prediction, ratio)


@pytest.mark.parametrize("make", [CASES["mean squared log error"].make, CASES["root mean squared log error"].make])
@pytest.mark.parametrize("value", [-1.0, -1.5, np.nan, np.inf])
def test_logarithmic_errors_need_numbers_above_minus_one(make, value):
    for argument, pair in (("prediction", ([0.5, value], [0.5, 0.5])), ("label", ([0.5, 0.5], [0.5, value]))):
        metric = make()
        metric.add([0.5], [-0.5])
        before = metric.compute()
        with pytest.raises(fm.InvalidInputError, match=f"{argument} must be a finite number above -1; 1 of 2 .* 1: "):
            metric.add(*pair)
        assert metric.compute() == before


def test_a_static_program_leaves_out_values_outside_the_domain_and_compute_raises():
    metric = tweedie(2)()
    data = Data(np.array([1.0, 0.0, 2.0, 2.0]), np.array([1.0, 1.0, -1.0, 1.0]))
    scope = feed(metric, [data], "static")
    with pytest.raises(fm.InvalidInputError, match=r"2 of 4 samples were invalid .* label: a finite number above 0"):
        metric.compute(scope)
    metric.validate = False
    assert metric.compute(scope) == pytest.approx(math.log(2) - 0.5, rel=1e-12)


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_log_cosh_keeps_the_digits_of_small_errors_and_does_not_overflow(mode):
    for error, expected in ((1e-9, 5e-19), (1e-3, 4.99999916666689e-07), (0.0, 0.0), (1e6, 1e6 - math.log(2))):
        metric = CASES["log cosh error"].make()
        scope = feed(metric, [Data(np.array([error, -error]), np.zeros(2))], mode)
        assert metric.compute(scope) == pytest.approx(expected, rel=1e-13, abs=0)
    exact = float((Fraction(1e-3) ** 2) / 2 - (Fraction(1e-3) ** 4) / 12 + (Fraction(1e-3) ** 6) / 45)
    assert exact == pytest.approx(4.99999916666689e-07, rel=1e-14)


def test_labels_of_zero_are_as_in_scikit_learn_or_undefined():
    from sklearn.metrics import mean_absolute_percentage_error

    metric = fm.MeanAbsolutePercentageError()
    metric.add([0.5, 1.0], [0.0, 1.0])
    assert metric.compute() == mean_absolute_percentage_error([0.0, 1.0], [0.5, 1.0])
    weighted = CASES["weighted mean absolute percentage error"].make()
    weighted.add([0.5, 1.0], [0.0, 0.0])
    with pytest.warns(fm.UndefinedMetricWarning, match="all labels are 0; the value is nan"):
        assert math.isnan(weighted.compute())
    symmetric = CASES["symmetric mean absolute percentage error"].make()
    symmetric.add([0.0, 1.0], [0.0, 0.0])
    assert symmetric.compute() == 1.0


@pytest.mark.parametrize("mode", MODES)
def test_several_quantiles_take_a_column_each(mode):
    from sklearn.metrics import mean_pinball_loss

    prediction, label = RNG.normal(size=(60, 2)), RNG.normal(size=60)
    metric = fm.QuantileLoss(quantile=(0.2, 0.9))
    value = metric.compute(feed(metric, batches(Data(prediction, label)), mode))
    expected = [mean_pinball_loss(label, prediction[:, k], alpha=q) for k, q in enumerate((0.2, 0.9))]
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    one = fm.QuantileLoss(quantile=[0.2])
    value = one.compute(feed(one, batches(Data(prediction[:, :1], label)), mode))
    assert value.shape == (1,) and value[0] == pytest.approx(expected[0], rel=1e-12)


@pytest.mark.parametrize("shape, label", [((5,), (5,)), ((5, 3), (5,)), ((5, 2), (5, 2))])
def test_several_quantiles_refuse_other_shapes(shape, label):
    with pytest.raises(fm.InvalidInputError, match=r"prediction must have shape \[n, 2\], one column per quantile"):
        fm.QuantileLoss(quantile=[0.1, 0.9]).add(np.ones(shape), np.ones(label))


@pytest.mark.parametrize("kind", [kind for kind in REGRESSION if kind is not fm.QuantileLoss])
def test_scores_of_several_classes_are_no_regression(kind):
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\] and label \[n\]"):
        kind().add(np.ones((5, 3)), np.ones(5))


# -- squares that are too small ------------------------------------------------------------------------------

SQUARED = [fm.MeanSquaredError, fm.RootMeanSquaredError]
OF_LOGARITHMS = [fm.MeanSquaredLogError, fm.RootMeanSquaredLogError]


@pytest.mark.parametrize("kind", SQUARED + OF_LOGARITHMS)
@pytest.mark.parametrize("error", [1e-160, 1e-165, 1e-320])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0]])
def test_squares_beyond_float64_are_warned_of(kind, error, weight):
    metric, exact = kind(), kind()
    metric.add([error, 0.0], [0.0, 0.0], weight=weight)
    exact.add([0.5, 0.5], [0.5, 0.5])
    exact.merge(metric)  # the other worker's were right
    for each in (metric, exact):
        with pytest.warns(fm.UndefinedMetricWarning, match="is inexact: the squared errors.* are below 2.2e-308"):
            assert 0 <= each.compute() < 1e-150


@pytest.mark.parametrize("kind", SQUARED)
@pytest.mark.parametrize("options", [{}, {"mask": [True, False, True]}, {"weight": [1.0, 0.0, 1.0]}])
def test_errors_of_0_and_squares_beside_which_others_are_nothing_are_right(kind, options):
    metric = kind()
    metric.add([0.5, 1e-200 if options else 0.5, 0.5], [0.5, 0.0 if options else 0.5, 0.5], **options)
    assert metric.compute() == 0.0
    metric.add([1e-200, 1.0], [0.0, 0.0])
    assert metric.compute() > 0.1


LIGHT = [fm.MeanAbsoluteError, fm.MeanBias, fm.MeanSquaredError, fm.RootMeanSquaredError, fm.QuantileLoss]


@pytest.mark.numpy_only
@pytest.mark.parametrize("kind", [*LIGHT, fm.LogCoshError, fm.TweedieDeviance])
def test_products_with_weights_that_lose_digits_are_warned_of_once(kind):
    for size, weight in ((1e-150, 1e-200), (1e-200, 1e-150), (1e-200, 1e-310)):
        metric = kind()
        metric.add([0.0, size], [2 * size, 0.0], weight=[weight, 2 * weight])
        with pytest.warns(
            fm.UndefinedMetricWarning, match="is inexact: its sums are below .* Multiply the weights"
        ) as said:
            metric.compute()
        assert len(said) == 1


@pytest.mark.numpy_only
@pytest.mark.parametrize("size", [1e-160, *thorough(1e-155, 1e-310)])
def test_small_values_have_a_value_that_no_split_changes_or_a_warning(size):
    """In the whole catalogue, for numbers whose squares are below float64."""
    tried = 0
    for name in exactness.NAMES:
        drawn = draw(name, first_dtypes(name), "eighths", samples=40)
        if drawn.prediction.dtype == object:
            continue  # texts and tags have no size
        small = drawn._replace(prediction=drawn.prediction.astype(np.float64) * size)
        both = small._replace(label=None if drawn.label is None else drawn.label.astype(np.float64) * size)
        for data in (small, both):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    one, three = (exactness.value_of(name, data, parts, np.random.default_rng(1)) for parts in (1, 3))
                except fm.InvalidInputError:  # labels that are classes
                    continue
            told = [each for each in said if re.search("inexact|undefined", str(each.message))]
            assert told or same(one, three, False, 1e-9), name
            tried += 1
    assert tried > 150


def test_a_warning_names_the_slices_whose_squares_are_too_small():
    metric = fm.Sliced(fm.MeanSquaredError())
    metric.add([1e-200, 0.5], [0.0, 0.5], slot=["small", "right"])
    with pytest.warns(fm.UndefinedMetricWarning, match="mean_squared_error of slot 'small' is inexact") as said:
        value = metric.compute()
    assert value["right"] == 0.0 and 0 <= value["small"] < 1e-320
    assert len(said) == 1


# -- arguments and sharing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda: fm.QuantileLoss(quantile=1.5),
            r"quantile must be a number in \[0, 1\], or a sequence .*, not 1.5",
        ),
        (lambda: fm.QuantileLoss(quantile=[0.5, -1]), "quantile must be a number from 0 to 1, not -1"),
        (
            lambda: fm.QuantileLoss(quantile=[]),
            r"quantile must be a number in \[0, 1\], or a sequence .*, not \[\]",
        ),
        (lambda: fm.QuantileLoss(quantile="half"), "quantile must be .*, not 'half'"),
        (lambda: tweedie(0.5)(), "power must be a finite number of at most 0 or at least 1, not 0.5"),
        (lambda: tweedie(np.nan)(), "power must be a finite number of at most 0 or at least 1, not nan"),
        (lambda: tweedie(True)(), "power must be .*, not True"),
        (lambda: fm.R2Score(adjusted=-1), "adjusted must be an integer of at least 0, not -1"),
        (lambda: fm.R2Score(adjusted=1.0), "adjusted must be an integer of at least 0, not 1.0"),
        (lambda: fm.R2Score(zero_division=None), "zero_division must be nan or a finite number, not None"),
        (lambda: fm.PearsonCorrelation(zero_division=np.inf), "zero_division must be nan or a finite number, not inf"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_what_is_allowed(make, text):
    with pytest.raises(fm.InvalidInputError, match=text):
        make()


def test_a_collection_keeps_one_state_of_a_kind():
    members = {kind.__name__: kind() for kind in REGRESSION if kind not in OF_ALL_SAMPLES}
    collection = fm.MetricCollection({**members, "adjusted": fm.R2Score(adjusted=1)})
    alone = {name: getattr(fm, name)() for name in members}
    prediction, label = RNG.random((2, 50)) + 0.1
    collection.add(prediction, label)
    for metric in alone.values():
        metric.add(prediction, label)
    values = collection.compute()
    assert {name: values[name] for name in alone} == {name: metric.compute() for name, metric in alone.items()}
    states = {state.name for member in collection.metrics.values() for state in member.states.values()}
    # total, number, absolute, squared, signed, relative (2), log, log-cosh, label, largest, pinball (2), deviance,
    # moments of labels and errors, comoments, the histogram of errors
    assert len(states) == 18


@pytest.mark.parametrize(
    "make, arguments, warning",
    [
        (fm.MeanAbsoluteError, ([], []), "mean_absolute_error is undefined: there are no samples (their total weight "),
        (fm.RootMeanSquaredError, ([], []), "root_mean_squared_error is undefined: there are no samples"),
        (fm.QuantileLoss, ([], []), "quantile_loss is undefined: there are no samples"),
        (fm.MaxError, ([], []), "max_error is undefined: there are no samples"),
        (
            fm.WeightedMeanAbsolutePercentageError,
            ([1.0, 2.0], [0.0, 0.0]),
            "weighted_mean_absolute_percentage_error is undefined: all labels are 0;",
        ),
        (
            fm.WeightedMeanAbsolutePercentageError,
            ([], []),
            "weighted_mean_absolute_percentage_error is undefined: there are no samples",
        ),
    ],
)
def test_an_undefined_mean_names_the_metric_and_the_reason_or_is_what_was_asked_for(make, arguments, warning, recwarn):
    metric = make()
    metric.add(*map(np.array, arguments))
    with pytest.warns(fm.UndefinedMetricWarning, match="^" + re.escape(warning)):
        assert np.isnan(metric.compute())
    recwarn.clear()
    metric = make(zero_division=-0.25)  # not its root
    metric.add(*map(np.array, arguments))
    assert metric.compute() == -0.25 and not recwarn.list


@pytest.mark.parametrize("error", ["absolute", "relative"])
def test_the_bounds_of_a_quantile_contain_that_of_the_errors(error):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        quantile, times = rng.choice([0.0, 0.25, 0.5, 0.9, 1.0]), rng.integers(0, 4, 50)
        times[0] = 1
        p, y = (np.round(rng.normal(size=50), seed % 3) * 10.0 ** rng.integers(-9, 9) for _ in range(2))
        sizes = np.abs(p - y) / (1 if error == "absolute" else np.maximum(np.abs(y), 2.0**-52))
        exact = np.quantile(np.repeat(sizes, times), quantile, method="averaged_inverted_cdf")
        metric = fm.QuantileError(quantile, error=error, bounds=True)
        for rows in (slice(0, 7), slice(7, 50)):
            metric.add(p[rows], y[rows], weight=times[rows])
        _, low, high = metric.compute()
        assert low <= exact <= high
        assert high <= low * (1 + 1 / 64) + 1e-19 or exact > 2.0**64  # an error relative to a label of 0


def test_a_quantile_beyond_the_buckets_is_bounded_by_infinity_and_other_settings_are_errors():
    metric = fm.QuantileError(1.0, bounds=True)
    metric.add([3e19], [0.0])
    assert metric.compute() == (np.inf, 2.0**64, np.inf)
    for settings, message in (
        ({"quantile": 1.5}, "quantile must be a number from 0 to 1, not 1.5"),
        ({"error": "squared"}, "error must be one of 'absolute', 'relative', not 'squared'"),
        ({"bounds": 1}, "bounds must be True or False, not 1"),
    ):
        with pytest.raises(fm.InvalidInputError, match=message):
            fm.QuantileError(**settings)
