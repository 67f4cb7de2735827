"""What no input may do to any metric of the catalogue: see `outcome` for what it may."""

from __future__ import annotations

import contextlib
import inspect
import math
import warnings
from typing import Any, Iterator

import numpy as np
import pytest

import fleetmetrics as fm
from tests import contract
from tests.contract import CASES, Data, arguments, draw, first_dtypes, same, state_bytes
from tests.cover import quick_on, thorough
from tests.kinds import kinds_of, one_of_each

#: Every metric of the catalogue that one add feeds, with several settings; wrappers have tests of their own.
EVERY = [name for name, case in CASES.items() if not isinstance(case.make(), (fm.Sliced, fm.Windowed, fm.Bootstrap))]
#: Those of texts and of tags.
TEXTS = [name for name in EVERY if CASES[name].make().samples in ("texts", "tags")]
NAMES = [name for name in EVERY if name not in TEXTS]
STATIC = [name for name in NAMES if "static" in CASES[name].modes]


def flat(value: Any) -> Any:
    """A value of any kind as one array."""
    if isinstance(value, (dict, tuple)):
        parts = [flat(part) for part in (value.values() if isinstance(value, dict) else value)]
        return np.concatenate(parts) if parts else np.zeros(0)
    return np.ravel(np.asarray(value, np.float64))


def outcome(metric: Any, data: Data) -> tuple[str, Any]:
    """Add and compute: ("value", it) or ("error", its text); whatever else happens fails the test.

    The errors are fleetmetrics', NumPy has nothing to warn of, and a value with nan in it comes with exactly one
    warning, which is an `UndefinedMetricWarning`; another one may say that squares lose digits.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            metric.add(**arguments(metric, data))
            value = metric.compute()
        except fm.FleetMetricsError as error:
            return "error", str(error)
    seen = [each for each in seen if each.category is not fm.BucketWarning and "inexact" not in str(each.message)]
    most = 4 if isinstance(metric, fm.ClassificationReport) else 1  # one of all classes, one of each average of samples
    assert len(seen) <= most and all(issubclass(each.category, fm.UndefinedMetricWarning) for each in seen), seen
    assert seen or not np.isnan(flat(value)).any(), "nan without a warning"
    return "value", value


def value_of(metric: Any, data: Data) -> Any:
    kind, value = outcome(metric, data)
    assert kind == "value", value
    return value


# -- arrays of every make ----------------------------------------------------------------------------------


def strided(array: Any) -> Any:
    wide = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    wide[::2] = array
    return wide[::2]


def unaligned(array: Any) -> Any:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(array.tobytes(), np.uint8)
    return raw[1:].view(array.dtype).reshape(array.shape)


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


MAKES = {
    "lists": lambda array: array.tolist(),
    "tuples": lambda array: tuple(map(tuple, array.tolist())) if array.ndim > 1 else tuple(array.tolist()),
    "a list of scalars": list,
    "in Fortran's order": np.asfortranarray,
    "backwards": lambda array: array[::-1].copy()[::-1],
    "with gaps": strided,
    "unaligned": unaligned,
    "read-only": read_only,
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "long doubles": lambda array: array.astype(np.longdouble) if array.dtype.kind == "f" else array,
    "a matrix": lambda array: array if array.ndim > 2 else array.reshape(len(array), -1).view(np.matrix),
    "a masked array that masks nothing": np.ma.array,
    "a column": lambda array: array[:, None] if array.ndim == 1 else array,
}


@pytest.mark.halved
@pytest.mark.parametrize("make", MAKES)
def test_an_array_counts_the_same_in_any_memory_layout(make):
    for name in NAMES:
        data = draw(name, first_dtypes(name), "real")
        assert same(value_of(CASES[name].make(), data.map(MAKES[make])), value_of(CASES[name].make(), data), True), name


def test_columns_of_a_data_frame_are_taken_as_they_are():
    pandas = pytest.importorskip("pandas")
    for name in NAMES:
        data = draw(name, first_dtypes(name), "real")
        if any(part is not None and part.ndim > 2 for part in data[:4]) or any(
            column.ndim > 1 for column in data.columns.values()
        ):
            continue
        frames = data.map(lambda part: pandas.Series(part)[::-1][::-1] if part.ndim == 1 else pandas.DataFrame(part))
        columns = {key: pandas.Series(column, dtype=object) for key, column in data.columns.items()}
        if any(column.dtype.kind != "U" for column in data.columns.values()):
            columns = {key: pandas.Series(column) for key, column in data.columns.items()}
        frames = frames._replace(columns=columns)
        assert same(value_of(CASES[name].make(), frames), value_of(CASES[name].make(), data), True), name
    float32 = np.array([0.29, 0.57], np.float32)
    for given in (float32, pandas.Series(float32), list(float32)):  # the buckets depend on the precision
        metric = fm.AUC(num_thresholds=100)
        metric.add(given, [0, 1])
        assert metric.states["histogram"].read().sum(axis=0).nonzero()[0].tolist() == [29, 57]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "text",
        ["a", "b"],
        [[1.0], [1.0, 2.0]],
        [None, 1.0],
        {"a": 1},
        [1j, 0],
        np.zeros(2, "M8[s]"),
        np.zeros(2, "f8,f8"),
        np.array([0.5, None], object),
        np.ma.array([0.5, 0.5], mask=[False, True]),
        np.array([2**64 - 1, 0], np.uint64),
    ],
    ids=lambda each: f"{type(each).__name__} {getattr(each, 'dtype', '')}",
)
@pytest.mark.parametrize("names", kinds_of(NAMES))
def test_an_argument_that_is_not_an_array_of_numbers_is_named(names, broken):
    for name in names:
        good = draw(name, first_dtypes(name), samples=2)
        for argument in ("prediction", "label", "weight", "mask"):
            if (broken is None and argument != "prediction") or (argument == "label" and good.label is None):
                continue
            metric = CASES[name].make()
            given = {**arguments(metric, good), argument: broken}
            named = dict(zip(("prediction", "label"), metric.arguments)).get(argument, argument)
            if argument == "prediction" and "value" in given:
                given["value"] = given.pop("prediction")
            with pytest.raises(fm.FleetMetricsError, match=rf"^\S+( \(.*\))?: {named} "):
                metric.add(**given)


# -- values ------------------------------------------------------------------------------------------------


def replaced(array: Any, value: Any) -> Any:
    """The array with another first entry."""
    array = array.astype(np.int64 if isinstance(value, int) else np.float64)
    array.flat[0] = value
    return array


def as_large_as(array: Any, size: float) -> Any:
    array = array.astype(np.float64)
    return array / max(1.0, np.abs(array).max()) * size


def hostile(data: Data) -> Iterator[tuple[str, Data]]:
    """The same samples, spoilt in many ways."""
    n, p, y = len(data.prediction), data.prediction, data.label
    yield "one sample", data.rows(0, 1)
    yield "every other one masked, by numbers", data._replace(mask=(np.arange(n) % 2).astype(np.float32))
    yield "equal predictions", data._replace(prediction=np.broadcast_to(p[:1], p.shape))
    yield (
        "integers at the bounds",
        data._replace(prediction=np.where(np.indices(p.shape).sum(0) % 2, 2**63 - 1, -(2**63))),
    )
    for weight in (1.7e308, 1e300, 1e-300, 1e-310):
        yield f"weights {weight}", data._replace(weight=np.full(n, weight))
    yield "one weight of 1.7e308", data._replace(weight=np.where(np.arange(n) == 5, 1.7e308, 1.0))
    yield "weights of all sizes", data._replace(weight=np.where(np.arange(n) % 2, 1e300, 1e-300))
    for weight in (
        np.full(n, -1.0),
        np.full(n, np.nan),
        np.ones(n - 1),
        np.ones((1, n)),
        np.ones((n, 2)),
        2.0,
        0,
        False,
    ):
        yield f"weight {weight}", data._replace(weight=weight)
    for flag in (math.nan, 2, -1, 0.5):
        yield f"a flag of {flag}", data._replace(mask=replaced(np.ones(n), flag))
    for value in (2, -1, 0.5, 2**62, math.nan, math.inf, 1e300, -1e308, 5e-324, -5e-324):
        yield f"prediction {value}", data._replace(prediction=replaced(p, value))
        if y is not None:
            yield f"label {value}", data._replace(label=replaced(y, value))
    for size in (1.7e308, 1e300, 1e155, 1e-200, 5e-324):
        yield f"predictions up to {size}", data._replace(prediction=as_large_as(p, size))
        if y is not None and size < 1e308:
            yield f"all up to {size}", data._replace(prediction=as_large_as(p, size), label=as_large_as(y, size))
    for shape in ((n, 1, 1), (n, 0), (1, n), (n, 7), (0,)):
        yield f"prediction {list(shape)}", data._replace(prediction=np.zeros(shape))
    yield "fewer predictions", data._replace(prediction=p[:-1])
    if y is not None:
        for value in (0, 1):
            yield f"labels {value}", data._replace(label=np.full_like(y, value))
        for dtype in ("bool", "float16", "int8", "uint8", "uint64"):
            yield f"{dtype} labels", data._replace(label=(y > 0).astype(dtype))
        yield "both equal", Data(np.broadcast_to(p[:1], p.shape), np.broadcast_to(y[:1], y.shape), columns=data.columns)
        yield "swapped", data._replace(prediction=y, label=p)
        yield "no label", data._replace(label=None)
        yield "a label for all", data._replace(label=1)
    for key, column in data.columns.items():
        for name, other in (
            ("each its own", np.arange(n)),
            ("below 0", np.arange(n) % 5 - 2),
            ("large", np.full(n, 2**64 - 1, np.uint64)),
            ("bytes", np.array([b"a", b"bc"])[np.arange(n) % 2]),
            ("nan", np.full(n, np.nan)),
            ("for all", 3),
            ("two each", np.zeros((n, 2), int)),
            ("ragged", [[1, 2], [3]]),
            ("short", column[:-1]),
        ):
            yield f"{key} {name}", data._replace(columns={key: other})


#: What may be among texts, or in place of one.
ODD = [
    None,
    3,
    math.nan,
    b"a",
    "",
    " \t\u3000",
    "a \ud800 b",
    "a\0b",
    [],
    [None],
    ["a", None],
    [["a"]],
    {"a": 1},
    ["X-PER"],
]
ODD += [("a",), np.array(["a", "b"]), np.str_("a b"), object()]
#: What may be in place of all texts.
NOT_TEXTS = ["text", b"x", 3, None, {"a": 1}, {"a"}, [], np.zeros(53), np.zeros((53, 2)), np.array("a"), [[]] * 53]


def hostile_texts(data: Data) -> Iterator[tuple[str, Data]]:
    """The same texts or tags, spoilt in many ways."""
    n, p, y = len(data.prediction), data.prediction, data.label
    yield "one sample", data.rows(0, 1)
    yield "fewer predictions", data._replace(prediction=p[:-1])
    yield "swapped", data._replace(prediction=y, label=p)
    yield "two columns", data._replace(label=np.stack([y, y], 1))
    for size in (1.7e308, 1e300, 1e-310):
        yield f"weights {size}", data._replace(weight=np.full(n, size))
    yield "weights of all sizes", data._replace(weight=np.where(np.arange(n) % 2, 1e300, 1e-300))
    for weight in (np.full(n, -1.0), np.full(n, np.nan), np.ones(n - 1), np.ones((n, 2)), 2.0, 0, "a", [None] * n):
        yield f"weight {weight}", data._replace(weight=weight)
    for flag in (math.nan, 2, 0.5):
        yield f"a flag of {flag}", data._replace(mask=replaced(np.ones(n), flag))
    for odd in ODD:
        first = p.copy(), y.copy()
        for array in first:
            array[0] = odd
        yield f"prediction {odd!r}", data._replace(prediction=first[0])
        yield f"label {odd!r}", data._replace(label=first[1])
        yield f"both {odd!r}", data._replace(prediction=first[0], label=first[1])
    for given in NOT_TEXTS:
        yield f"predictions {given!r}", data._replace(prediction=given)
        yield f"labels {given!r}", data._replace(label=given)


@pytest.mark.parametrize("thirds", [1, *thorough(3)])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.numpy_only] * (CASES[name].brief or name in TEXTS)) for name in EVERY],
)
def test_hostile_values_give_a_value_or_an_error_that_adds_nothing(name, thirds):
    """Of each kind of metric one case meets all values, and for `make test` the others share them out."""
    good, metric = draw(name, first_dtypes(name)), CASES[name].make()
    known, before = value_of(metric, good), state_bytes(metric)
    thirds, turn = 3 if name in one_of_each() else thirds, EVERY.index(name)
    for place, (what, data) in enumerate((hostile_texts if name in TEXTS else hostile)(good)):
        if (place + turn) % 3 >= thirds:
            continue
        kind, _ = outcome(CASES[name].make(), data)
        if kind == "value":
            continue
        try:
            metric.add(**arguments(metric, data))
        except fm.FleetMetricsError:
            assert state_bytes(metric) == before, what
        else:  # compute is what raises
            metric = CASES[name].make()
            value_of(metric, good)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
        assert same(metric.compute(), known, True)


@pytest.mark.kinds
@pytest.mark.numpy_only
@pytest.mark.parametrize("name", EVERY)
def test_masked_samples_have_no_effect_for_any_values(name):
    good = draw(name, first_dtypes(name), mask=True)
    nothing = outcome(CASES[name].make(), good.rows(0, 0))
    assert nothing[0] == "value"
    for left_out in ({"mask": np.zeros(53, bool)}, {"weight": np.zeros(53)}, {"weight": 0}, {"mask": False}):
        data = contract.spoil(good._replace(**left_out), np.zeros(53, bool))
        assert same(outcome(CASES[name].make(), data)[1], nothing[1], True), left_out


#: What counts weights, or sets them against a number, grows with them.
WITH_THE_WEIGHT = (
    fm.Count,
    fm.Sum,
    fm.Histogram,
    fm.StatScores,
    fm.ClassificationReport,
    fm.EntityReport,
    fm.ConfusionMatrix,
    fm.BucketError,
    fm.CalibrationCurve,
    fm.AdjustedRand,  # of pairs of samples
    fm.EffectiveSampleSize,
)


@pytest.mark.numpy_only
@pytest.mark.parametrize("scale", [2.0**900, 2.0**30, 2.0**-900])
def test_weights_of_any_size_give_the_value_of_ordinary_ones(scale):
    for name in EVERY:
        metric = CASES[name].make()
        if isinstance(metric, WITH_THE_WEIGHT) or getattr(metric, "ddof", 0):
            continue
        data = draw(name, first_dtypes(name), "real")
        scaled = data._replace(weight=data.weight * scale)
        if isinstance(metric, fm.KuiperCalibration) and not 2.0**-400 < scale < 2.0**400:  # which squares the weights
            kind, value = outcome(metric, scaled)
            assert "Scale them" in value if kind == "error" else math.isnan(value.p_value)
            continue
        assert same(value_of(metric, scaled), value_of(CASES[name].make(), data), False, 1e-9), name


def test_an_overflow_is_an_error_and_nothing_of_the_batch_is_added():
    collection = fm.MetricCollection({"count": fm.Count(), "sum": fm.Sum(), "max": fm.Max(), "mean": fm.Mean()})
    collection.add([2**63 - 1])
    known = collection.compute()
    for batch in ([2**63 - 1], [1.7e308, 1.7e308], [2**62] * 3):
        with pytest.raises(fm.FleetMetricsError):
            collection.add(batch)
        assert collection.compute() == known
    for metric in (fm.MeanSquaredError(), fm.PearsonCorrelation(), fm.R2Score(), fm.MaxError()):
        metric.add([1.0, 2.0, 4.0], [1.0, 3.0, 2.0])
        known = metric.compute()
        with pytest.raises(fm.InvalidInputError, match=f"{metric.name}.*finite"):
            metric.add([1.7e308, 0.0], [-1.7e308, 1.0])
        assert metric.compute() == known


def test_numbers_that_add_up_beyond_64_bits_are_an_error_and_nothing_of_the_batch_is_added():
    import paddle

    for make in (np.array, list, paddle.to_tensor):
        metric = fm.Throughput()
        metric.add(5, 1.0)
        with pytest.raises(fm.IntegerOverflowError, match=f"^{metric.name}: the integers add up to about 1.38351e.19"):
            metric.add(make([2**62] * 3), make([1.0] * 3))
        assert metric.compute() == 5.0
        metric.add(make([2**62, 2**62 - 6]), make([1.0, 2.0]))
        assert metric.compute() == (2**63 - 1) / 4
    with pytest.raises(fm.IntegerOverflowError):
        fm.Sum().add(paddle.to_tensor([2**62] * 3))


def test_values_without_labels_take_weights_by_keyword_only():
    values, weights = [1.0, 2.0], [1.0, 3.0]
    for metric in (
        fm.MetricCollection({"mean": fm.Mean(), "count": fm.Count()}),
        fm.MetricCollection({"of slices": fm.Sliced(fm.Mean(), by="slot")}),
        fm.MetricCollection([fm.Mean() * 2]),
        fm.Mean() + fm.Max(),
    ):
        slot = {"slot": [1, 1]} if "slot" in str(getattr(metric, "metrics", "")) else {}
        with pytest.raises(fm.InvalidInputError, match=r"got a label, but its metrics take only values.*weight=\.\.\."):
            metric.add(values, weights, **slot)
    collection = fm.MetricCollection({"mean": fm.Mean(), "count": fm.Count()})
    collection.add(values, weight=weights)
    assert collection.compute() == {"mean": 1.75, "count": 4.0}
    collection.reset()
    collection.add(values, None, weights)
    assert collection.compute() == {"mean": 1.75, "count": 4.0}
    mixed = fm.MetricCollection({"mean": fm.Mean(), "mae": fm.MeanAbsoluteError(), "count": fm.Count()})
    mixed.add(values, weights)
    assert mixed.compute() == {"mean": 1.5, "mae": 0.5, "count": 2}
    counted = fm.MetricCollection([fm.Count(name="count")])
    counted.add(values, weights)
    assert counted.compute() == {"count": 2}


# -- masks -------------------------------------------------------------------------------------------------

NO_FLAGS = [math.nan, 2.0, -1.0, 0.5, math.inf]


@pytest.mark.parametrize("flag", NO_FLAGS)
def test_a_mask_holds_flags_and_an_error_says_where_it_does_not(flag):
    import paddle

    data = draw("mean squared error", first_dtypes("mean squared error"))
    mask = np.arange(53) % 3 > 0
    broken = mask.astype(np.float64)
    broken[[7, 9]] = flag
    told = "mask must be True or False, or 1 or 0, for each sample; 2 of 53 samples are not, the first at position 7: "
    known = fm.MeanSquaredError()
    known.add(*data[:2], mask=mask)
    for make in (np.asarray, paddle.to_tensor):
        for dtype in ("bool", "int8", "int64", "float32", "float64"):
            metric = fm.MeanSquaredError()
            metric.add(make(data.prediction), make(data.label), mask=make(mask.astype(dtype)))
            assert metric.compute() == pytest.approx(known.compute(), rel=1e-12)
        value = metric.compute()
        with pytest.raises(fm.InvalidInputError, match=told + str(flag)):
            metric.add(make(data.prediction), make(data.label), mask=make(broken))
        assert metric.compute() == value
    weighted_out = fm.MeanSquaredError()
    weighted_out.add(*data[:2], weight=(broken == mask).astype(int), mask=broken)  # a weight of 0: nothing is checked
    lenient = fm.MeanSquaredError(validate=False)
    lenient.add(*data[:2], mask=broken)
    assert lenient.states["total"].read() == np.count_nonzero(broken)


def test_a_mask_of_rows_holds_flags():
    for flag in (2, 0.5):
        metric = fm.MeanSquaredError()
        for mask in ([1, flag], [[1, 1], [flag, 1]], flag):
            with pytest.raises(fm.InvalidInputError, match="mask must be True or False"):
                metric.add([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 5.0]], mask=mask)
        for mask in ([1, 0], [True, False], [[1, 1], [0, 0]], [1.0, 0.0]):
            metric.add([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 5.0]], mask=mask)
        metric.add([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 5.0]], mask=True)
        metric.add([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 5.0]], mask=0)
        assert metric.compute() == 1 / 12


def test_compute_reports_an_invalid_mask_of_a_static_program():
    import paddle

    data = draw("mean squared error", first_dtypes("mean squared error"))
    metric = fm.MeanSquaredError(name="masked")
    with contract.new_programs() as (main, startup):
        columns = {"prediction": data.prediction, "label": data.label, "mask": np.ones(53, np.float32)}
        given = {name: paddle.static.data(name, [-1], str(part.dtype)) for name, part in columns.items()}
        metric.add(**given)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        for mask, invalid in ((np.arange(53) % 2, 0), (np.resize([*NO_FLAGS, 1, 0, 1, 0, 0], 53), 28)):
            metric.reset()
            executor.run(main, feed={**columns, "mask": mask.astype(np.float32)})
            if not invalid:
                expected = fm.MeanSquaredError()
                expected.add(*data[:2], mask=mask == 1)
                assert metric.compute() == pytest.approx(expected.compute(), rel=1e-12)
                continue
            told = rf"^masked \(MeanSquaredError\): {invalid} of 53 .* position 0 .* mask: True or False, or 1 or 0"
            with pytest.raises(fm.InvalidInputError, match=told):
                metric.compute()


def test_compute_reports_labels_beyond_the_classes_of_the_scores():
    import paddle

    metric = fm.LogLoss(task="multiclass", name="loss")
    with contract.new_programs() as (main, startup):
        metric.add(paddle.static.data("score", [-1, 2], "float32"), paddle.static.data("label", [-1], "int64"))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        executor.run(main, feed={"score": np.float32([[0.25, 0.75], [0.5, 0.5]]), "label": np.array([1, 3])})
        with pytest.raises(fm.InvalidInputError, match="a whole number of at least 0, below the number of classes"):
            metric.compute()


# -- unchecked ---------------------------------------------------------------------------------------------


def strays(data: Data) -> Iterator[Data]:
    """The same samples, one of which has a class, a probability or a relevance that does not exist."""
    for argument in ("prediction", "label"):
        array = getattr(data, argument)
        if array is None or array.dtype.kind == "b":
            continue
        for value in (7, -1, 2**40, -(2**63), 1.5, math.nan):
            if isinstance(value, int) or array.dtype.kind == "f":
                yield data._replace(**{argument: replaced(array, value)})


#: Metrics that take probabilities ``[n, 2]`` of two classes; the last two have no logits.
OF_TWO = "AUC AveragePrecision KolmogorovSmirnov EqualErrorRate ROCCurve Calibration BrierScore NormalizedEntropy F1 "
OF_TWO += "PredictedClickThroughRate ThresholdSweep CalibrationCurve ExpectedCalibrationError LogLoss ExactAUC GAUC"


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
@pytest.mark.parametrize("name", OF_TWO.split())
def test_two_columns_are_the_probabilities_of_two_classes_or_an_error(name):
    """Two scores of other things, such as of two tasks, do not add up to 1: the first would be ignored, in silence."""
    make, user = getattr(fm, name), {"user": [1, 1, 1]} if name == "GAUC" else {}
    metric, label = make(), [0, 1, 1]
    told = r"which add up to 1.* the first at position 1: \[0.5 0.1\]"
    with pytest.raises(fm.InvalidInputError, match=told) as caught:
        metric.add([[0.75, 0.25], [0.5, 0.1], [0.9, 0.3]], label, **user)
    assert ("give from_logits=True" in str(caught.value)) == (name not in OF_TWO.split()[-2:])
    both, second = make(), make()
    both.add(np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]]), label, **user)
    second.add([0.25, 0.5, 0.875], label, **user)
    np.testing.assert_array_equal(flat(both.compute()), flat(second.compute()))


@pytest.mark.parametrize("mode", [pytest.param("numpy", marks=pytest.mark.numpy_only), "dynamic"])
@pytest.mark.parametrize("names", kinds_of(NAMES))
@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning", "ignore:.*encountered in:RuntimeWarning")
def test_what_is_not_checked_ends_nothing_and_loses_nothing(names, mode):
    for name in NAMES if mode == "numpy" else names:
        if mode not in CASES[name].modes:
            continue
        data = draw(name, first_dtypes(name), samples=9)
        metric = CASES[name].make()
        metric.validate = False
        for part in strays(data):
            contract.feed(metric, [part], mode)
            with contextlib.suppress(fm.InvalidInputError):  # of metrics without a value for such samples
                metric.compute()
        metric.reset()
        metric.validate = True
        contract.feed(metric, [data], mode)
        with contextlib.suppress(fm.InvalidInputError):
            fresh = CASES[name].make()
            contract.feed(fresh, [data], mode)
            assert same(metric.compute(), fresh.compute(), True), name


@pytest.mark.parametrize("mode", ["numpy", "dynamic", "static"])
def test_where_nothing_is_checked_a_sample_of_no_place_is_left_out(mode):
    nowhere, somewhere = 53, np.arange(53)
    scores = np.random.default_rng(0).random(54)
    labels = np.append(somewhere % 3, 1)
    metrics = {
        "label": (lambda: fm.ConfusionMatrix(task="multiclass", num_classes=3, validate=False), labels[::-1].copy(), 7),
        "class": (lambda: fm.F1(task="multiclass", num_classes=3, validate=False), labels[::-1].copy(), -1),
        "bucket": (lambda: fm.AUC(num_thresholds=100, validate=False), scores, 1.5),
        "nan": (lambda: fm.AUC(validate=False), scores, math.nan),
    }
    for name, (make, prediction, value) in metrics.items():
        label = labels.copy() if prediction.dtype.kind == "i" else labels % 2
        if name == "label":
            label[nowhere] = value
        else:
            prediction = prediction.copy()
            prediction[nowhere] = value
        if name == "nan" and mode != "numpy":
            continue  # it counts for some bucket there
        metric, reference = make(), make()
        scope = contract.feed(metric, [Data(prediction, label)], mode)
        reference.add(prediction[:nowhere], label[:nowhere])
        assert same(metric.compute(scope), reference.compute(), True), name
        state = next(iter(metric.states.values()))
        assert state.read(scope).sum() == 53, name


def values_alone(value: Any) -> Any:
    """A value, of `Bootstrap` without how many samples were drawn: they were, whether used or not."""
    if isinstance(value, dict):
        return {key: values_alone(each) for key, each in value.items()}
    return value._replace(drawn=0) if isinstance(value, fm.BootstrapResult) else value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda metric: fm.Sliced(metric, by="key"),
        lambda metric: fm.Sliced(metric, by="key", keys=[0, 1]),
        lambda metric: fm.Windowed(metric, last=2),
        lambda metric: fm.Bootstrap(metric, replicates=5, ids="key"),
        lambda metric: fm.Sliced(fm.Bootstrap(metric, replicates=5, ids="id"), by="key"),
    ],
)
def test_lanes_leave_out_samples_without_a_place(wrap, monkeypatch):
    monkeypatch.setattr("fleetmetrics.wrappers.bootstrap._AT_ONCE", 100)  # in parts, too
    label = np.arange(54) % 3
    stray = label.copy()
    stray[53] = 7
    metric = wrap(fm.ConfusionMatrix(task="multiclass", num_classes=3, validate=False))
    columns = {name: np.arange(54) // (27 if name == "key" else 1) for name in metric.columns}
    metric.add(label[::-1].copy(), stray, **columns)
    reference = metric.fresh()
    reference.add(label[::-1].copy(), label, mask=np.arange(54) < 53, **columns)
    assert same(values_alone(metric.compute()), values_alone(reference.compute()), True)


# -- settings ----------------------------------------------------------------------------------------------

#: What any argument might be given by mistake.
MISTAKES: list[Any] = [
    *(None, True, 0, -1, 2.5, -0.5, 1e308, 10**400, math.nan, math.inf, -math.inf, "", "x", b"x", 1j, object()),
    *([], [0.5], [0.8, 0.2], [0.5, 0.5], [-1], [None], ["a"], [math.nan], [[1, 2], [3]], (), {}, {"a": 1}),
    *(np.array(3), np.array(0.5), np.array([]), np.array(["a"]), np.float16(0.25), np.int8(2)),
]
NEEDED = {
    "RecallAtFixedPrecision": {"min_precision": 0.5},
    "PrecisionAtFixedRecall": {"min_recall": 0.5},
    "SensitivityAtSpecificity": {"min_specificity": 0.5},
    "SpecificityAtSensitivity": {"min_sensitivity": 0.5},
    "TPRAtFPR": {"max_fpr": 0.5},
    "ExactMatch": {"num_labels": 2},
    "EntityReport": {"types": ["A"]},
    **{
        name: {"num_classes": 2}
        for name in ("BoundaryF", "Dice", "FrequencyWeightedIoU", "HausdorffDistance", "MeanIoU", "PixelAccuracy")
    },
}


def settings_of(kind: type) -> dict[str, Any]:
    """The keyword arguments of a metric and of those it passes them on to, with their defaults."""
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        if "__init__" in vars(each):
            parameters = inspect.signature(each.__init__).parameters.values()
            found = {**{every.name: every.default for every in parameters if every.kind is every.KEYWORD_ONLY}, **found}
            if all(every.kind is not every.VAR_KEYWORD for every in parameters):
                break
    return found


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", fm.metrics.__all__)
def test_a_setting_is_taken_or_refused_by_name(name):
    kind = getattr(fm, name)
    arguments_ = settings_of(kind)
    tasks: list[dict[str, Any]] = [{}]
    if "num_classes" in arguments_:
        tasks.append({"task": "multiclass", "num_classes": 3})
    for argument in [*sorted(arguments_), "name"]:
        refused = 0
        for task in tasks:
            for value in MISTAKES:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    try:
                        kind(**{**NEEDED.get(name, {}), **task, argument: value})
                    except fm.InvalidInputError as error:
                        assert argument in str(error), (value, error)
                        refused += 1
        assert refused, argument


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", fm.metrics.__all__)
def test_a_flag_is_true_or_false_and_nothing_else(name):
    kind = getattr(fm, name)
    flags = [argument for argument, default in settings_of(kind).items() if isinstance(default, bool)]
    assert {"validate", "share"} <= set(flags)
    needed = {**NEEDED.get(name, {}), **({"task": "binary"} if kind is fm.Accuracy else {})}
    needed.update({"num_classes": 3} if "classwise" in flags else {})
    for argument in flags:
        for value in (True, False, np.True_, np.False_):
            kind(**{**needed, argument: value})
        for wrong in (0, 1, "no", "False", 1.5, None, [], np.array([True, False])):
            with pytest.raises(fm.InvalidInputError, match=f"^{argument} must be True or False, not "):
                kind(**{**needed, argument: wrong})


def test_the_flags_of_wrappers_are_true_or_false():
    class Records(fm.BaseMetric):
        def compute_metric(self, results):
            return {}

    for wrong in (0, 1, "no", 1.5):
        for make, argument in (
            (lambda **flag: fm.Windowed(fm.Mean(), 2, **flag), "lifetime"),
            (lambda **flag: fm.Windowed(fm.Mean(), 2, **flag), "validate"),
            (lambda **flag: fm.Sliced(fm.Mean(), **flag), "share"),
            (lambda **flag: fm.MetricCollection([], **flag), "validate"),
            (Records, "allow_pickle"),
            (Records, "collect_dir_shared"),
        ):
            with pytest.raises(fm.InvalidInputError, match=f"^{argument} must be True or False, not {wrong!r}"):
                make(**{argument: wrong})
    assert fm.Sliced(fm.Mean(validate=False)).validate is False


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: fm.ConfusionMatrix(task="multiclass", num_classes=10**6), "num_classes=1000000"),
        (lambda: fm.Accuracy(task="multiclass", num_classes=10**6), "num_classes=1000000"),
        (lambda: fm.F1(task="multiclass", num_classes=10**30), "num_classes"),
        (lambda: fm.Precision(task="multilabel", num_labels=2**29), "num_labels=536870912"),
        (lambda: fm.LogLoss(task="multilabel", num_labels=2**40), "num_labels"),
        (lambda: fm.AUC(task="multiclass", num_classes=2**20), "num_classes=1048576"),
        (lambda: fm.AUC(spacing="linear", buckets=2**30), "buckets"),
        (lambda: fm.AUC(num_thresholds=2**30), "num_thresholds"),
        (lambda: fm.BucketError(buckets=2**30), "buckets"),
        (lambda: fm.Histogram(bins=2**30), "bins"),
        (lambda: fm.ExpectedCalibrationError(bins=10**12), "bins"),
        (lambda: fm.ThresholdSweep(thresholds=2**30), "thresholds"),
        (lambda: fm.Lift(fractions=2**30), "fractions"),
        (lambda: fm.Bootstrap(fm.AUC(), replicates=10**6, ids="id"), "replicates=1000000"),
        (lambda: fm.Windowed(fm.AUC(), last=10**6), "last=1000000"),
        (lambda: fm.Windowed(fm.Sliced(fm.AUC(), keys=range(1000)), last=1000), "last=1000"),
        (lambda: fm.Sliced(fm.AUC(), max_keys=10**6), "max_keys=1000000"),
        (lambda: fm.Sliced(fm.Bootstrap(fm.AUC(), ids="id")), "max_keys=1000"),
        (lambda: fm.Sliced(fm.AUC(), keys=range(2**18)), "keys, of which there are 262144,"),
    ],
)
def test_a_state_beyond_8_gib_is_an_error_that_names_the_setting_before_it_is_made(make, named):
    with pytest.raises(fm.InvalidInputError, match=f"^{named} .*at most"):
        make()


def test_what_needs_no_large_state_may_have_many_classes_and_a_state_of_one_s_own_has_the_limit_too():
    fm.Accuracy(task="multiclass", num_classes=10**6, top_k=3)
    fm.Sliced(fm.Accuracy(), max_keys=10**6)

    class Wide(fm.Metric):
        def __init__(self) -> None:
            super().__init__(name="wide")
            self.declare("cells", (2**16, 2**15))

    with pytest.raises(fm.InvalidInputError, match=r"^wide: .* 'cells' would have the shape \[65536, 32768\]"):
        Wide()


@pytest.mark.numpy_only
@pytest.mark.parametrize("zero_division", [0.0, 1.0, -7.0])
def test_zero_division_replaces_an_undefined_value_without_a_warning(zero_division):
    for name in NAMES:
        if "zero_division" not in settings_of(type(CASES[name].make())) or name == "f1 without some":
            continue
        good = draw(name, first_dtypes(name))
        for data in (good.rows(0, 0), good._replace(label=np.zeros_like(good.label)), good.rows(0, 1)):
            metric = CASES[name].make(zero_division=zero_division)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    metric.add(**arguments(metric, data))
                except fm.InvalidInputError:
                    continue
                value = metric.compute()
            value = value[0] if isinstance(value, fm.formulas.OperatingPoint) else value  # its threshold is nan
            assert not np.isnan(flat(value)[: 7 if isinstance(metric, fm.ThresholdSweep) else None]).any(), name


def test_large_settings_mean_everything():
    ranks = {"prediction": [0.9, 0.1, 0.5], "label": [0, 1, 1], "query": [1, 1, 1]}
    for kind in (fm.DCG, fm.NDCG, fm.MAP, fm.MRR, fm.HitRate, fm.RecallAtK):
        values = []
        for k in (None, 3, 2**63 - 1):
            metric = kind(k=k)
            metric.add(**ranks)
            values.append(metric.compute())
        assert values[0] == values[1] == values[2]
    metric = fm.Accuracy(top_k=10**30)
    metric.add([[0.1, 0.9]], [0])
    assert metric.compute() == 1.0
    metric = fm.FBetaAtK(k=2, beta=1e200) - fm.RecallAtK(k=2)
    metric.add(**ranks)
    assert metric.compute() == 0
    metric = fm.FBeta(beta=10**400) - fm.Recall()
    metric.add([0.9, 0.1, 0.6], [0, 1, 1])
    assert metric.compute() == 0
    metric = fm.ThresholdSweep(thresholds=[0.3, 0.7], beta=1e200)
    metric.add([0.9, 0.1, 0.6], [0, 1, 1])
    assert metric.compute().f_beta.tolist() == metric.compute().recall.tolist() == [0.5, 0.0]


def test_a_column_has_a_name_of_its_own():
    for kind in (fm.GAUC, fm.NDCG, fm.MRR):
        for by in ("score", "weight", "label", "prediction", "mask", "", None, 3):
            with pytest.raises(fm.InvalidInputError, match="by must be a name other than"):
                kind(by=by)
    with pytest.raises(fm.InvalidInputError, match=r"by must be a name other than .*relevance"):
        fm.NDCG(by="relevance")


def test_bins_whose_edges_would_be_one_number_are_an_error():
    for bounds in ((1.0, np.nextafter(1.0, 2.0)), (0.0, 5e-324), (-1.7e308, 1.7e308)):
        with pytest.raises(fm.InvalidInputError, match="bins=10 do not fit"):
            fm.Histogram(range=bounds)


def test_exponential_gains_take_small_relevances_and_refuse_those_without_a_gain():
    query = {"query": [1, 1]}
    metric = fm.NDCG(gains="exponential")
    metric.add([0.9, 0.1], [1e-160, 2e-160], **query)
    assert metric.compute() == pytest.approx((1 + 2 / np.log2(3)) / (2 + 1 / np.log2(3)))
    with pytest.raises(fm.InvalidInputError, match=r"label must be a relevance from 0 to 1000, .* 1 of 2 samples"):
        metric.add([0.9, 0.1], [0, 1024], **query)


# -- static programs ---------------------------------------------------------------------------------------

#: By the kind of the array: what most metrics do not count, and the others take as any other number.
BROKEN = {"f": (math.nan, math.inf, -math.inf, -7.0, 0.5, 7.0), "i": (-1, 7, 99, 2**31, 2**40, -(2**63)), "b": ()}


def broken_batch(name: str) -> Data:
    data = draw(name, first_dtypes(name))
    for argument, first in (("prediction", 1), ("label", 4)):
        array = getattr(data, argument)
        if array is not None:
            array = array.copy()
            for place, value in enumerate(BROKEN[array.dtype.kind]):
                array[first + 7 * place] = value
            data = data._replace(**{argument: array})
    return data


def is_sound(name: str, row: Data) -> bool:
    metric = CASES[name].make()
    try:
        metric.add(**arguments(metric, row))
    except fm.InvalidInputError:
        return False
    return True


@quick_on(paddle=2)
def test_a_static_program_leaves_out_the_samples_that_are_an_error_elsewhere_and_no_others():
    made = {name: CASES[name].make() for name in STATIC}
    of_each_kind = {
        (type(m).batch_statistics, *(how for how, _ in m._filled_by.values())): name for name, m in made.items()
    }
    batches = {name: broken_batch(name) for name in of_each_kind.values()}
    entries = [(CASES[name].make(), data, [data, data]) for name, data in batches.items()]
    scope = contract.feed_together(entries)
    for (metric, data, _), name in zip(entries, batches):
        rows = {first + 7 * place for first in (1, 4) for place in range(6)}  # the others are as they were drawn
        sound = np.array([row not in rows or is_sound(name, data.rows(row, row + 1)) for row in range(53)])
        broken = np.count_nonzero(~sound)
        if broken:
            with pytest.raises(
                fm.InvalidInputError, match=rf"^{metric.name} \(.*\): .* (was|were) invalid and left out"
            ) as error:
                metric.compute(scope)
            each = data.prediction[0].size if isinstance(metric, fm.ExactMatch) or CASES[name].by_row else 1
            assert each > 1 or f" {2 * broken} of 106 samples" in str(error.value)
            assert f"at position {np.flatnonzero(~sound)[0]} " in str(error.value) or each > 1
        metric.validate = False
        reference = CASES[name].make()
        for _ in range(2):
            reference.add(**arguments(reference, data._replace(mask=sound)))
        if not CASES[name].by_row or isinstance(metric, fm.ExactMatch):  # else other labels of the row still count
            value, expected = metric.compute(scope), reference.compute()
            if name == "explained variance":  # beside labels of 2**40 it is 0, except for its last bits
                value, expected = 1.0 + value, 1.0 + expected
            assert same(value, expected, False, 1e-9), name


def test_many_metrics_in_one_program_and_in_its_clones_keep_apart():
    import paddle

    kinds = [
        *(fm.AUC, fm.AveragePrecision, fm.Accuracy, fm.F1, fm.Precision, fm.MatthewsCorrelation, fm.LogLoss),
        *(fm.NormalizedEntropy, fm.ClickThroughRate, fm.Calibration, fm.ExpectedCalibrationError, fm.MeanSquaredError),
        *(fm.R2Score, fm.PearsonCorrelation, fm.MaxError, fm.KolmogorovSmirnov, fm.ThresholdSweep, fm.Count),
    ]
    data = draw("auc", ("float32", "int64"))
    weight = np.arange(53) / 8 + 1
    reference = fm.MetricCollection({kind.__name__: kind() for kind in kinds})
    reference.add(*data[:2], weight)
    collection, other = reference.fresh("many"), fm.AUC(num_thresholds=100, name="apart")
    with contract.new_programs() as (main, startup):
        feed = {**data.given(), "weight": weight}
        given = {name: paddle.static.data(name, [-1], str(part.dtype)) for name, part in feed.items()}
        collection.add(**given)
        other.add(given["prediction"], given["label"])
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        programs = [main, main.clone()]
        if not getattr(paddle.framework, "in_pir_mode", bool)():  # for which clone takes no argument
            programs.append(main.clone(for_test=True))
        for program in programs:
            collection.reset()
            executor.run(program, feed=feed)
            assert same(collection.compute(), reference.compute(), False)
        assert other.states["histogram"].read().sum() == 53 * len(programs)
        collection.reset()
        spoilt = {name: part.copy() for name, part in feed.items()}
        spoilt["prediction"][3], spoilt["label"][7] = 1.5, 9
        executor.run(main, feed=spoilt)
        with pytest.raises(
            fm.InvalidInputError, match=rf"^{collection.name} \(MetricCollection\): 2 of 53 samples were invalid"
        ):
            collection.compute()
        collection.validate = False
        fewer = reference.fresh()
        fewer.add(*data[:2], weight, ~np.isin(np.arange(53), [3, 7]))
        assert same(collection.compute(), fewer.compute(), False)
