"""The contract that every metric goes through, in each mode; see `tests/contract.py` for the table."""

from __future__ import annotations

import functools
import itertools
import pickle
import warnings
from collections.abc import Iterator
from typing import Any, Callable, Sequence

import numpy as np
import pytest
import sklearn

import fleetmetrics as fm
from fleetmetrics.support.vocabulary import with_article
from tests import contract
from tests.contract import CASES, MODES, WEIGHTS, Data, batches, draw, feed, first_dtypes, same, state_bytes

#: Of the drawn samples some queries have nothing that is relevant, and there are too few for an interval.
pytestmark = [
    pytest.mark.halved,
    pytest.mark.filterwarnings(
        r"ignore:.* undefined for \d+ .* left out:fleetmetrics.UndefinedMetricWarning",
        r"ignore:.* has too few samples for a reliable interval:fleetmetrics.UndefinedMetricWarning",
    ),
]


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """scikit-learn does not look at what is drawn here: that would take longer than to compute."""
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        yield


def expected(name: str, data: Data) -> Any:
    """The reference's value over the samples that count; the modes that are tried with the same data share one."""
    return _expected(name, pickle.dumps([*data[:4], dict(data.columns)]))


@functools.lru_cache(maxsize=64)
def _expected(name: str, data: bytes) -> Any:
    return contract.expected(name, Data(*pickle.loads(data)))


def identify(value: object) -> str | None:
    if isinstance(value, bool):
        return "masked" if value else "unmasked"
    return "/".join(value) if isinstance(value, tuple) else None


def once(arguments: Sequence[Any]) -> Any:
    """Arguments of a test; one on arrays alone runs on one version of Paddle, since it does not touch it."""
    return pytest.param(*arguments, marks=[pytest.mark.numpy_only] * ("numpy" in arguments))


def feeding(metric: Any, parts: Sequence[Data], mode: str, like: Data) -> tuple[Any, Callable[[Sequence[Data]], Any]]:
    """Feed batches; the scope, and what feeds further ones."""
    if mode == "static":
        program = contract.StaticFeed(metric, like)
        return program.run(parts), program.run
    return feed(metric, parts, mode), lambda more: feed(metric, more, mode)


def test_table_has_every_metric_of_the_catalogue():
    # Throughput takes the longest time of a worker, and not what one process would have taken; it has tests of its own.
    promised = {*fm.metrics.__all__, "Sliced", "Windowed", "Bootstrap", "Interval"} - {"Throughput"}
    assert {type(case.make()).__name__ for case in CASES.values()} == promised


THOROUGH = [name for name, case in CASES.items() if not case.brief]
BRIEF = [name for name, case in CASES.items() if case.brief]


def in_modes(modes: Sequence[str] = MODES, brief: Sequence[str] = MODES) -> list[Any]:
    """Each case in each of these modes that it claims; those on arrays alone run on one version.

    Args:
        modes: for the thorough cases.
        brief: for the others.
    """
    of = {True: brief, False: modes}
    return [once((name, mode)) for name, case in CASES.items() for mode in of[case.brief] if mode in case.modes]


#: Each pair of dtypes without and with weights and a mask; and the first pair with every kind of both. Fewer static
#: programs, which know of all this no more than which arguments there are, and take ten times as long to build.
INPUTS = sorted(
    {(name, *rest) for name, *rest in contract.combinations([None], [False], ("numpy", "dynamic"))}
    | {(name, *rest) for name, *rest in contract.combinations(["real"], [True], MODES)}
    | {
        (name, first_dtypes(name), weight, mask, mode)
        for name, weight, mask, mode in itertools.product(THOROUGH, WEIGHTS, [False, True], MODES)
        if mode != "static" or (weight, mask) not in [("real", False), ("eighths", True)]
    }
    | {
        (name, first_dtypes(name), weight, weight is not None, mode)
        for name, weight, mode in itertools.product(BRIEF, (None, "real"), ("numpy", "dynamic"))
    }
    | {
        (name, dtypes, "eighths", True, "numpy")
        for name, dtypes in itertools.product(BRIEF, contract.DTYPES)
        if np.dtype(dtypes[0]).kind in CASES[name].kinds
    },
    key=repr,
)


@pytest.mark.product
@pytest.mark.parametrize("name, dtypes, weight, mask, mode", INPUTS, ids=identify)
def test_value_equals_scikit_learn_or_numpy_over_the_samples_that_count(name, dtypes, weight, mask, mode):
    data = draw(name, dtypes, weight, mask)
    metric = CASES[name].make()
    scope = feed(metric, batches(data), mode)
    value, reference = metric.compute(scope), expected(name, data)
    exact = contract.is_exact_value(name, data, weight)
    assert same(value, reference, exact, CASES[name].tolerance), (value, reference)
    assert CASES[name].brief or type(value) is type(reference)


@pytest.mark.product
@pytest.mark.parametrize(
    "name, shape, weight, mode",
    [
        (name, shape, weight, mode)
        for name in THOROUGH
        for shape in CASES[name].shapes
        for weight, mode in [*itertools.product([None, "real"], ["numpy", "dynamic"]), ("real", "static")]
        if (shape, mode) != ("[n]", "static")  # those of the test above
    ],
    ids=identify,
)
def test_value_is_right_for_every_shape(name, shape, weight, mode):
    dtypes = first_dtypes(name)
    seeds = range(6 if shape == "[]" else 1)
    data = [draw(name, dtypes, weight, weight is not None, shape, seed=seed) for seed in seeds]
    metric = CASES[name].make()
    scope = feed(metric, data if shape == "[]" else batches(data[0]), mode)
    whole = (
        Data(*[None if parts[0] is None else np.stack(parts) for parts in zip(*(each[:4] for each in data))])
        if shape == "[]"
        else data[0]
    )
    assert same(metric.compute(scope), expected(name, whole), contract.is_exact_value(name, whole, weight))


@pytest.mark.parametrize("name", BRIEF)
def test_a_brief_case_is_right_for_every_shape(name):
    for shape in CASES[name].shapes:
        data = draw(name, first_dtypes(name), "real", True, shape)
        metric = CASES[name].make()
        feed(metric, batches(data), "numpy")
        with warnings.catch_warnings():
            if shape == "[]":  # of one sample much is undefined, here and there
                warnings.simplefilter("ignore", UserWarning)
            assert same(metric.compute(), expected(name, data), False, CASES[name].tolerance), shape


@pytest.mark.parametrize("mode", MODES)
def test_a_large_batch_keeps_float_sums_to_1e_12(mode):
    samples = 500_000
    for name, value in (("mean absolute error", 0.1), ("mean squared error", 0.1 * 0.1), ("log loss", -np.log(0.1))):
        metric = CASES[name].make()
        label = np.ones(samples) if name == "log loss" else np.zeros(samples)
        scope = feed(metric, [Data(np.full(samples, 0.1), label)], mode)
        assert metric.compute(scope) == pytest.approx(value, rel=1e-12, abs=0), name


# -- merging ---------------------------------------------------------------------------------------------

CUTS = [0, 7, 7, 40, 53]  # four workers, the second one empty


@pytest.mark.kinds
@pytest.mark.product
@pytest.mark.parametrize(
    "name, weight, mode",
    [
        *map(once, itertools.product(THOROUGH, WEIGHTS, ["numpy", "dynamic"])),
        *[(name, "eighths", "static") for name in THOROUGH],
        *[once((name, "eighths", "numpy")) for name in BRIEF],
    ],
    ids=identify,
)
def test_merging_workers_in_any_order_gives_what_one_process_would(name, weight, mode):
    data = draw(name, first_dtypes(name), weight, mask=True)
    one = CASES[name].make()
    feed(one, batches(data), "numpy")
    shares = [batches(data.rows(start, stop)) for start, stop in itertools.pairwise(CUTS)]
    if mode == "static":  # the same program on each worker
        program = contract.StaticFeed(CASES[name].make(), data)
        workers = [(program.metric, program.renewed().run(share)) for share in shares]
    else:
        workers = [(CASES[name].make(), None) for _ in shares]
        for (worker, _), share in zip(workers, shares):
            feed(worker, share, mode)
    for seed in range(5):
        left, right = CASES[name].make(), CASES[name].make()
        for place, worker in enumerate(np.random.default_rng(seed).permutation(4)):
            (left if place < seed else right).merge(*workers[worker])
        right.merge(left)
        assert same(right.compute(), one.compute(), contract.is_exact(name, data, weight), CASES[name].tolerance)
        if contract.is_exact(name, data, weight):
            assert state_bytes(right) == state_bytes(one)


@pytest.mark.kinds
@pytest.mark.numpy_only
@pytest.mark.parametrize("seeds", [range(2), range(2, 4), range(4, 6), range(6, 8)], ids=repr)
@pytest.mark.parametrize("name", CASES)
def test_splitting_among_any_workers_gives_what_one_process_would(name, seeds):
    data = draw(name, first_dtypes(name), "eighths", mask=True)
    reference = expected(name, data)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        total = CASES[name].make()
        cuts = [0, *np.sort(rng.integers(0, 54, rng.integers(0, 7))), 53]
        for start, stop in itertools.pairwise(cuts):
            worker = CASES[name].make()
            feed(worker, batches(data.rows(start, stop), size=rng.integers(1, 20)), "numpy")
            total.merge(worker)
        assert same(total.compute(), reference, name in ("max", "min", "count"), CASES[name].tolerance)


@pytest.mark.product
@pytest.mark.parametrize("name, mode", in_modes(["dynamic", "static"], ["dynamic", "static"]))
def test_states_merge_from_one_mode_into_another_and_adding_goes_on(name, mode):
    """Of a brief case's static program, which is built once for all this, the value with weights and a mask, too."""
    weight = "real" if CASES[name].brief and mode == "static" else None
    data = draw(name, first_dtypes(name), weight, mask=weight is not None)
    reference, exact = expected(name, data), contract.is_exact_value(name, data, weight)
    theirs, mine = CASES[name].make(), CASES[name].make()
    scope, more = feeding(theirs, batches(data.rows(20, 53)), mode, data)
    feed(mine, batches(data.rows(0, 20)), "numpy")
    mine.merge(theirs, scope)
    assert same(mine.compute(), reference, exact, CASES[name].tolerance)
    more(batches(data.rows(0, 20)))
    assert same(theirs.compute(scope), reference, exact, CASES[name].tolerance)


@pytest.mark.kinds
@pytest.mark.product
@pytest.mark.parametrize("name, weight", [*itertools.product(THOROUGH, WEIGHTS), *[(name, "real") for name in BRIEF]])
def test_arrays_and_tensors_mix_in_one_metric(name, weight):
    plain, given = (draw(name, first_dtypes(name), kind, mask=True, seed=n) for n, kind in enumerate((None, weight)))
    metric, one = CASES[name].make(), CASES[name].make()
    for n, part in enumerate([*batches(plain), *batches(given), *batches(plain), *batches(given)]):
        feed(metric, [part], ("numpy", "dynamic")[n // 2 % 2])
        feed(one, [part], "numpy")
    assert same(metric.compute(), one.compute(), contract.is_exact(name, given, weight), CASES[name].tolerance)


@functools.lru_cache(maxsize=None)
def _one_of_each() -> list[Any]:
    return [case.make() for case in CASES.values()]


@pytest.mark.kinds
@pytest.mark.numpy_only
@pytest.mark.parametrize("name", CASES)
def test_merging_another_metric_is_an_error_and_changes_nothing(name):
    metric = CASES[name].make()
    feed(metric, batches(draw(name, first_dtypes(name))), "numpy")
    before = state_bytes(metric)
    others = [other for other in _one_of_each() if type(other) is not type(metric)]
    for other in [*others, None, 3, fm.AUC(num_thresholds=11), fm.MetricCollection([])]:
        with pytest.raises(fm.InvalidInputError, match=f"other must be {with_article(type(metric).__name__)}"):
            metric.merge(other)
    assert state_bytes(metric) == before


# -- reset and compute -----------------------------------------------------------------------------------


@pytest.mark.kinds
@pytest.mark.product
@pytest.mark.parametrize("name, mode", in_modes(brief=["numpy"]))
def test_reset_forgets_everything_and_the_next_pass_starts_anew(name, mode):
    metric, again = CASES[name].make(), CASES[name].make()
    first, second = (draw(name, first_dtypes(name), "real", mask=True, seed=seed) for seed in (0, 1))
    if mode == "static":
        program = contract.StaticFeed(metric, first)
        untouched = state_bytes(metric, program.scope)
        program.run(batches(first))
        metric.reset(program.scope)
        assert state_bytes(metric, program.scope) == untouched
        scope = program.run(batches(second))
    else:
        untouched = state_bytes(metric)
        feed(metric, batches(first), mode)
        metric.reset()
        assert state_bytes(metric) == untouched
        scope = feed(metric, batches(second), mode)
    scope_again = feed(again, batches(second), mode)
    assert state_bytes(metric, scope) == state_bytes(again, scope_again)
    assert same(metric.compute(scope), again.compute(scope_again), exact=True)


@pytest.mark.kinds
@pytest.mark.product
@pytest.mark.parametrize("name, mode", in_modes(brief=["numpy"]))
def test_compute_changes_nothing_and_adding_goes_on(name, mode):
    data = draw(name, first_dtypes(name))
    metric = CASES[name].make()
    scope, more = feeding(metric, batches(data.rows(0, 30)), mode, data)
    before = state_bytes(metric, scope)
    value = metric.compute(scope)
    assert same(metric.compute(scope), value, exact=True) and same(metric.compute_local(scope), value, exact=True)
    assert state_bytes(metric, scope) == before
    more(batches(data.rows(30, 53)))
    assert same(
        metric.compute(scope), expected(name, data), contract.is_exact_value(name, data, None), CASES[name].tolerance
    )


# -- no samples ------------------------------------------------------------------------------------------


@pytest.mark.product
@pytest.mark.parametrize("name, mode", in_modes(brief=["numpy", "dynamic"]))
def test_no_samples_are_undefined_with_a_warning(name, mode):
    data = draw(name, first_dtypes(name), mask=True)
    masked = contract.spoil(data._replace(mask=np.zeros(53, bool)), np.zeros(53, bool))
    for parts in ([], batches(masked)):
        metric = CASES[name].make()
        scope = feed(metric, parts, mode, data)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = metric.compute(scope)
        assert same(value, CASES[name].undefined, exact=True)
        told = [str(w.message) for w in caught if w.category is fm.UndefinedMetricWarning]
        assert len(told) == CASES[name].warnings, told


@pytest.mark.kinds
@pytest.mark.product
@pytest.mark.parametrize("name, mode", in_modes(["numpy", "dynamic"], ["numpy", "dynamic"]))
def test_an_empty_batch_and_a_masked_batch_leave_no_trace(name, mode):
    data = draw(name, first_dtypes(name), mask=True)
    nobody = np.zeros(53, bool)
    metric = CASES[name].make()
    feed(metric, [data], mode)
    before = state_bytes(metric)
    feed(metric, [data.rows(0, 0), contract.spoil(data._replace(mask=nobody), nobody)], mode)
    assert state_bytes(metric) == before


# -- what a mask and a weight may look like --------------------------------------------------------------


@pytest.mark.kinds
@pytest.mark.product
@pytest.mark.parametrize("name, mode", in_modes(brief=["numpy"]))
def test_one_weight_for_all_samples_is_that_weight_for_each(name, mode):
    data = draw(name, first_dtypes(name))
    each, one = CASES[name].make(), CASES[name].make()
    scope = feed(each, [data._replace(weight=np.full(53, 0.375))], mode)
    scope_of_one = feed(one, [data._replace(weight=np.array(0.375))], mode)
    assert same(
        one.compute(scope_of_one), each.compute(scope), contract.is_exact(name, data, "eighths"), CASES[name].tolerance
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32"])
def test_masks_and_weights_of_any_dtype_mean_the_same(dtype, mode):
    names = ("accuracy of scores", "auc", "mean absolute error", "max", "count")
    for name in names[:: 2 if mode == "static" else 1]:
        data = draw(name, first_dtypes(name))
        mask = np.arange(53) % 3 > 0
        data = contract.spoil(data, mask)
        by_mask, by_weight = CASES[name].make(), CASES[name].make()
        scope_of_mask = feed(by_mask, [data._replace(mask=mask.astype(dtype))], mode)
        scope_of_weight = feed(by_weight, [data._replace(weight=mask.astype(dtype))], mode)
        reference = expected(name, data._replace(mask=mask))
        assert same(
            by_mask.compute(scope_of_mask), reference, contract.is_exact_value(name, data, None), CASES[name].tolerance
        )
        assert same(by_weight.compute(scope_of_weight), reference, contract.is_exact_value(name, data, "real"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in THOROUGH if "[n, m]" in CASES[name].shapes])
def test_a_matrix_takes_a_weight_and_a_mask_for_each_element(name, mode):
    flat = draw(name, first_dtypes(name), "eighths", mask=True, samples=51)
    matrix = flat.map(lambda part: part.reshape(17, 3))
    metric = CASES[name].make()
    scope = feed(metric, batches(matrix), mode)
    assert same(metric.compute(scope), expected(name, flat), contract.is_exact_value(name, flat, "eighths"))


# -- bad input -------------------------------------------------------------------------------------------

#: Which argument is broken, by what, where it is not allowed, and what is.
BROKEN = [
    ("prediction", np.nan, [name for name in THOROUGH if "f" in CASES[name].kinds and name != "count"]),
    ("prediction", -np.inf, ["accuracy of scores", "auc", "log loss", "mean squared error", "sum", "max", "min"]),
    ("prediction", 1.5, ["auc", "auc of two columns", "log loss", "log loss of two columns"]),
    ("prediction", -1e-9, ["auc", "log loss"]),
    ("prediction", 1 + 2.0**-40, ["auc", "log loss"]),
    ("prediction", -0.25, ["auc", "auc of two columns", "log loss", "log loss of two columns"]),
    ("label", 2, ["accuracy of probabilities", "auc", "auc of two columns", "log loss", "log loss of two columns"]),
    ("label", 0.5, ["accuracy of probabilities", "accuracy of scores", "auc", "log loss"]),
    ("label", -1, ["accuracy of scores", "accuracy among three", "auc", "log loss"]),
    ("label", 6, ["accuracy of scores", "accuracy among three"]),
    ("label", np.inf, ["mean absolute error", "mean squared error", "root mean squared error", "auc"]),
    ("weight", -1, THOROUGH),
    ("weight", -1e-12, ["accuracy of classes", "auc"]),
    ("label", 1e-9, ["accuracy of probabilities", "accuracy of scores", "auc", "log loss"]),
    ("weight", np.nan, ["accuracy of classes", "auc", "sum", "max", "count"]),
    ("weight", np.inf, ["accuracy of classes", "auc", "sum", "max", "count"]),
]
ALLOWED = {
    "weight": "a finite number of at least 0",
    "label": "a class: 0 or 1, or with several scores a whole number below the number of scores|a finite number",
    "prediction": r"a probability in \[0, 1\] \(apply the sigmoid or softmax to logits first\)|a finite number"
    r"|probabilities in \[0, 1\] of all classes, which add up to 1 \(apply the softmax to logits first\)",
}


def break_samples(name: str, argument: str, value: float) -> tuple[Data, Data]:
    """Sound samples; and the same with the samples 4 and 9 broken, and sample 2 both broken and masked."""
    dtypes = ("float64", "float64") if "f" in CASES[name].kinds else ("int64", "float64")
    data = draw(name, dtypes, "eighths")._replace(mask=np.arange(53) != 2)
    data = data._replace(weight=data.weight + 1, **{"prediction": draw(name, dtypes).prediction})
    data = data._replace(label=draw(name, dtypes).label)
    array = getattr(data, argument).copy()
    array[[2, 4, 9]] = value
    return data, data._replace(**{argument: array})


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize(
    "argument, value, name", [(argument, value, name) for argument, value, names in BROKEN for name in names]
)
def test_a_broken_sample_is_an_error_that_says_which_and_nothing_is_lost(name, argument, value, mode):
    sound, broken = break_samples(name, argument, value)
    metric = CASES[name].make(name="mine")
    feed(metric, [sound], mode)
    before, known = state_bytes(metric), metric.compute()
    named = metric.arguments[0] if argument == "prediction" else argument
    with pytest.raises(
        fm.InvalidInputError,
        match=rf"^mine \(\w+\): {named} must be ({ALLOWED[argument]}); 2 of 53 samples are not, the first at "
        r"position 4: \S.*\. None of this batch was added; mask such samples, or pass "
        r"validate=False to skip the check$",
    ) as error:
        feed(metric, [broken], mode)
    assert isinstance(error.value, fm.FleetMetricsError) and isinstance(error.value, ValueError)
    assert str(float(value)) in str(error.value) or str(value) in str(error.value)
    assert state_bytes(metric) == before and metric.compute() == known
    feed(metric, [sound], mode)
    doubled = known * 2 if name in ("sum", "count") else known
    assert same(metric.compute(), doubled, exact=False)


#: By name, for which a static program is built once: argument and value.
BROKEN_IN_PROGRAMS = {
    name: [(argument, value) for argument, value, names in BROKEN if name in names[::3]]
    for name in dict.fromkeys(name for _, _, names in BROKEN for name in names[::3])
}


@pytest.mark.parametrize("name", BROKEN_IN_PROGRAMS)
def test_a_static_program_leaves_a_broken_sample_out_and_compute_raises(name):
    metric = CASES[name].make()
    program = contract.StaticFeed(metric, break_samples(name, "weight", -1)[0])
    for argument, value in BROKEN_IN_PROGRAMS[name]:
        sound, broken = break_samples(name, argument, value)
        scope = program.renewed().run([sound, broken, broken])
        told = (
            rf"^{metric.name} \(.*\): 4 of 159 samples were invalid and left out, the first at position 57 of its "
            f"worker's samples; required: .*{argument}: ({ALLOWED[argument]})"
        )
        metric.validate = True
        for _ in range(2):
            with pytest.raises(fm.InvalidInputError, match=told):
                metric.compute(scope)
        assert fm.sum(f"{metric.name}.invalid", scope) == 4
        metric.validate = False
        keep = (np.arange(53) != 4) & (np.arange(53) != 9)
        valid = Data(*[None if part is None else np.concatenate([part, part[keep], part[keep]]) for part in sound[:4]])
        assert same(metric.compute(scope), expected(name, valid), contract.is_exact_value(name, valid, "eighths"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("argument, value", [("prediction", np.nan), ("label", np.nan), ("weight", -1)])
def test_validate_false_skips_the_check(argument, value, mode):
    for name in ("accuracy of probabilities", "mean squared error"):
        _, broken = break_samples(name, argument, value)
        metric = CASES[name].make(validate=False)
        scope = feed(metric, [broken], mode)
        if name == "mean squared error":
            p, y, w = (part[np.arange(53) != 2] for part in broken[:3])
            assert same(metric.compute(scope), np.sum(w * (p - y) ** 2) / np.sum(w), exact=False)
        else:
            assert metric.compute(scope) >= 0


def test_reset_forgets_broken_samples_too():
    sound, broken = break_samples("auc", "label", 2)
    metric = CASES["auc"].make()
    program = contract.StaticFeed(metric, sound)
    with pytest.raises(fm.InvalidInputError):
        metric.compute(program.run([broken]))
    metric.reset(program.scope)
    assert same(metric.compute(program.run([sound])), expected("auc", sound), exact=False)
