"""What no input may do to any metric of the catalogue: see `outcome` for what it may."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any, Iterator

import numpy as np
import pytest

import fleetmetrics as fm
from tests import contract
from tests.contract import CASES, Data, arguments, draw, first_dtypes, same, state_bytes

#: Every metric of the catalogue that one add feeds, with several settings; wrappers have tests of their own.
NAMES = [name for name, case in CASES.items() if not isinstance(case.make(), (fm.Sliced, fm.Windowed, fm.Bootstrap))]
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
    warning, which is an `UndefinedMetricWarning`.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            metric.add(**arguments(metric, data))
            value = metric.compute()
        except fm.FleetMetricsError as error:
            return "error", str(error)
    assert len(seen) <= 1 and all(issubclass(each.category, fm.UndefinedMetricWarning) for each in seen), seen
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
    "a matrix": lambda array: array.reshape(len(array), -1).view(np.matrix),
    "a masked array that masks nothing": np.ma.array,
    "a column": lambda array: array[:, None] if array.ndim == 1 else array,
}


@pytest.mark.parametrize("make", MAKES)
def test_an_array_counts_alike_however_it_lies_in_memory(make):
    for name in NAMES:
        data = draw(name, first_dtypes(name), "real")
        assert same(value_of(CASES[name].make(), data.map(MAKES[make])), value_of(CASES[name].make(), data), True), name


def test_columns_of_a_data_frame_are_taken_as_they_are():
    pandas = pytest.importorskip("pandas")
    for name in NAMES:
        data = draw(name, first_dtypes(name), "real")
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
def test_what_is_no_array_of_numbers_is_an_error_that_names_the_argument(broken):
    for name in NAMES:
        good = draw(name, first_dtypes(name), samples=2)
        for argument in ("prediction", "label", "weight", "mask"):
            if (broken is None and argument != "prediction") or (argument == "label" and good.label is None):
                continue
            metric = CASES[name].make()
            given = {**arguments(metric, good), argument: broken}
            if argument == "prediction" and "value" in given:
                given["value"] = given.pop("prediction")
            with pytest.raises(fm.FleetMetricsError, match=f"^{argument} "):
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
    for weight in (1e300, 1e-300, 1e-310):
        yield f"weights {weight}", data._replace(weight=np.full(n, weight))
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


@pytest.mark.parametrize("name", NAMES)
def test_hostile_values_give_a_value_or_an_error_that_adds_nothing(name):
    good = draw(name, first_dtypes(name))
    for what, data in hostile(good):
        kind, _ = outcome(CASES[name].make(), data)
        if kind == "value":
            continue
        metric = CASES[name].make()
        known = value_of(metric, good)
        before = state_bytes(metric)
        try:
            metric.add(**arguments(metric, data))
        except fm.FleetMetricsError:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
                assert state_bytes(metric) == before and same(metric.compute(), known, True), what


@pytest.mark.parametrize("name", NAMES)
def test_samples_that_do_not_count_are_as_none_whatever_they_hold(name):
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
    fm.ConfusionMatrix,
    fm.BucketError,
    fm.CalibrationCurve,
)


@pytest.mark.parametrize("scale", [2.0**900, 2.0**30, 2.0**-900])
def test_weights_of_any_size_give_the_value_of_ordinary_ones(scale):
    for name in NAMES:
        metric = CASES[name].make()
        if isinstance(metric, WITH_THE_WEIGHT) or getattr(metric, "ddof", 0):
            continue
        data = draw(name, first_dtypes(name), "real")
        scaled = data._replace(weight=data.weight * scale)
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
    "ExactMatch": {"num_labels": 2},
}
#: Anything is true or false.
FLAGS = {"validate", "share", "from_logits", "bounds", "squared"}


def settings_of(kind: type) -> set[str]:
    """The keyword arguments of a metric and of those it passes them on to."""
    found: set[str] = set()
    for each in kind.__mro__:
        if "__init__" in vars(each):
            parameters = inspect.signature(each.__init__).parameters.values()
            found |= {every.name for every in parameters if every.kind is every.KEYWORD_ONLY}
            if all(every.kind is not every.VAR_KEYWORD for every in parameters):
                break
    return found


@pytest.mark.parametrize("name", fm.metrics.__all__)
def test_a_setting_is_taken_or_refused_by_name(name):
    kind = getattr(fm, name)
    arguments_ = settings_of(kind)
    tasks: list[dict[str, Any]] = [{}]
    if "num_classes" in arguments_:
        tasks.append({"task": "multiclass", "num_classes": 3})
    flags = FLAGS if kind is fm.R2Score else {*FLAGS, "adjusted"}
    for argument in [*sorted(arguments_ - flags), "name"]:
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


@pytest.mark.parametrize("zero_division", [0.0, 1.0, -7.0])
def test_zero_division_stands_in_without_a_warning(zero_division):
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


def test_a_static_program_leaves_out_the_samples_that_are_an_error_elsewhere_and_no_others():
    made = {name: CASES[name].make() for name in STATIC}
    of_each_kind = {(type(m).batch_statistics, getattr(m, "sum_of_errors", None)): name for name, m in made.items()}
    batches = {name: broken_batch(name) for name in of_each_kind.values()}
    entries = [(CASES[name].make(), data, [data, data]) for name, data in batches.items()]
    scope = contract.feed_together(entries)
    for (metric, data, _), name in zip(entries, batches):
        sound = np.array([is_sound(name, data.rows(row, row + 1)) for row in range(53)])
        broken = np.count_nonzero(~sound)
        if broken:
            with pytest.raises(fm.InvalidInputError, match=f"^{metric.name}: .* were invalid and left out") as error:
                metric.compute(scope)
            each = data.prediction[0].size if isinstance(metric, fm.ExactMatch) or CASES[name].by_row else 1
            assert each > 1 or f" {2 * broken} of 106 samples" in str(error.value)
            assert f"at position {np.flatnonzero(~sound)[0]} " in str(error.value) or each > 1
        metric.validate = False
        reference = CASES[name].make()
        for _ in range(2):
            reference.add(**arguments(reference, data._replace(mask=sound)))
        if not CASES[name].by_row or isinstance(metric, fm.ExactMatch):  # else other labels of the row still count
            assert same(metric.compute(scope), reference.compute(), False, 1e-9), name


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
    collection, other = reference.fresh(), fm.AUC(num_thresholds=100)
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
        with pytest.raises(fm.InvalidInputError, match=f"^{collection.name}: 2 of 53 samples were invalid"):
            collection.compute()
        collection.validate = False
        fewer = reference.fresh()
        fewer.add(*data[:2], weight, ~np.isin(np.arange(53), [3, 7]))
        assert same(collection.compute(), fewer.compute(), False)
