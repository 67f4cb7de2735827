"""Whatever public functions are given: a value that the docstring allows, or an error that names the argument."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import evaluator, files, formulas, plot
from fleetmetrics.formulas import bootstrap, groups, ranking
from tests import contract, hostile
from tests.contract import CASES
from tests.cover import thorough

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
        (lambda: formulas.mean_of_samples(-1, 4, 4), "shares"),
        (lambda: formulas.ratio(1, math.inf, "metric"), "denominator"),
        (lambda: formulas.ratio(math.inf, 1, "metric"), "numerator"),
        (lambda: formulas.ratio(1, -4, "metric"), "denominator"),
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
                (formulas.tpr_at_fpr, "max_fpr"),
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
    if not isinstance(case.make(), (fm.Sliced, fm.Windowed, fm.Bootstrap, fm.Interval))
    and not case.make().record_folds()
]
#: States that say only whether there are samples, are one of several forms of a number, or have entries without use.
NOT_IN_THE_VALUE = (
    "precision confusion",  # the true negatives
    "recall confusion",
    "calibration total",
    "copc total",
    "precision of rows rows",
    "precision of rows defined",
    "weighted mean absolute percentage error total",
    "sum",
    "max",
    "min",
    "report of labels rows",
    "snips total",
    "effective sample size total",
    "entity f1 total",
    "entity f1 of iob2 total",
    *(f"{name} {state}" for name in ("bleu", "chrf") for state in ("fewest", "most")),  # numbers of references
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
    for state in metric.own_states():
        for wrong in (math.nan, -1e6, math.inf, -math.inf, 1e308):
            spoilt = values[state].astype(np.float64)
            spoilt.flat[int(np.abs(spoilt).argmax())] = wrong
            try:
                with np.errstate(all="ignore"):
                    value = metric.value_from_states({**values, state: spoilt}, {})
            except fm.FleetMetricsError:
                continue
            part = f"{name} {state.name.rpartition('.')[2]}"
            if math.isnan(wrong) and not part.startswith(NOT_IN_THE_VALUE):
                assert np.isnan(flat(value)).any(), f"{part}: {value}"


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("prediction", [math.nan, math.inf, -math.inf])
def test_a_normalized_entropy_of_what_is_no_number_is_nan_and_not_the_best(prediction: float) -> None:
    assert math.isnan(formulas.normalized_entropy(math.nan, 2, 4))
    for kind in (fm.NormalizedEntropy, fm.RecalibratedNormalizedEntropy):
        metric = kind(validate=False)
        metric.add([prediction, 0.5, 0.2], [1, 0, 1])
        assert math.isnan(metric.compute()), kind


# -- the functions on files and frames, and settings of metrics ----------------------------------------------

FRAME = {"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8], "s": ["a", "b", "a", "b"], "id": [1, 2, 3, 4]}
#: An error of the user's own object stays what it is.
OBJECTS = {name: make for name, make in hostile.OBJECTS.items() if name != "raises"}


def paths(folder: Any) -> dict[str, str]:
    """A file of rows, a saved state and a checkpoint in a folder."""
    names = {name: f"{folder}/{name}" for name in ("rows.csv", "state", "checkpoint")}
    rows = zip(*FRAME.values())
    with open(names["rows.csv"], "w") as file:
        file.write("\n".join(",".join(map(str, row)) for row in (FRAME, *rows)))
    fm.evaluate(FRAME, label="y", score="p", metrics="auc").save_state(names["state"])
    fm.save(names["checkpoint"], fm.AUC())
    return names


ASKED = {
    "label": "y",
    "score": "p",
    "metrics": "ctr",
    "task": "binary",
    "classes": None,
    "weight": "id",
    "user": "id",
    "by": "s",
    "ci": None,
    "rank_by": None,
    "replicates": 10,
    "max_slices": 10,
    "min_positives": 0,
    "positive": None,
    "from_logits": False,
    "scale": 1.0,
    "where": "id > 0",
    "text": (),
    "columns": None,
    "skip_bad_rows": False,
    "skip_bad_files": False,
    "processes": 1,
    "communicator": None,
}
COMPARED = {"baseline": FRAME, "baseline_score": "p", "baseline_columns": {"s": "s"}, "join_on": "id", "join": None}
READ = {"make_metrics": fm.AUC, "columns": {"prediction": "p", "label": "y"}, "skip_bad_rows": False, "format": None}


def consistency_of_columns(**given: Any) -> Any:
    return fm.consistency(**{"id": "id", "score": "p", "label": "y", "by": "s", "features": "id", **given})


FRONT_DOORS = {
    "evaluate": (lambda rows, **given: fm.evaluate(FRAME, **given), ASKED),
    "evaluate compared": (
        lambda rows, **given: fm.evaluate(FRAME, **given),
        {**COMPARED, "label": "y", "score": "p", "metrics": "auc", "replicates": 10, "ci": 0.9, "always_valid": None},
    ),
    "evaluate data": (lambda rows, data: fm.evaluate(data, label="y", score="p", metrics="auc"), {"data": FRAME}),
    "merge": (lambda rows, states: fm.evaluation.merge(states), {"states": "state"}),
    "compare": (lambda rows, **given: fm.evaluation.compare(**given), {"new": "state", "old": "state"}),
    "consistency": (
        lambda rows, **given: consistency_of_columns(streams={"one": rows, "two": rows}, **given),
        {
            **dict.fromkeys(("where", "columns", "memory")),
            **{"id": "id", "score": "p", "label": "y", "by": "s", "features": "id", "text": (), "tolerance": 1e-6},
        },
    ),
    "consistency streams": (lambda rows, streams: consistency_of_columns(streams=streams), {"streams": None}),
    "files.evaluate": (lambda rows, **given: files.evaluate(rows, processes=1, **given), READ),
    "files.evaluate_file": (lambda rows, path: files.evaluate_file(path, *[*READ.values()][:2]), {"path": None}),
    "files.find": (lambda rows, paths: files.find(paths), {"paths": None}),
    "save": (lambda rows, path: fm.save(path, fm.AUC()), {"path": None}),
    "load": (lambda rows, **given: fm.load(**given), {"path": "checkpoint", "metrics": fm.AUC(), "strict": True}),
    "flatten": (lambda rows, **given: fm.flatten(**given), {"values": {}, "prefix": "", "most": 9, "matrices": True}),
    "socket": (
        lambda rows, **given: fm.SocketCommunicator(**given),
        {"rank": 0, "world_size": 1, "endpoint": "127.0.0.1:1", "secret": "a"},
    ),
    "thresholds": (lambda rows, thresholds: fm.ThresholdSweep(thresholds=thresholds), {"thresholds": 2}),
    "fractions": (lambda rows, fractions: fm.Lift(fractions=fractions), {"fractions": 2}),
    "bins": (lambda rows, bins: fm.Histogram(bins=bins), {"bins": 2}),
    "quantile": (lambda rows, quantile: fm.QuantileLoss(quantile), {"quantile": 0.5}),
    "bootstrap": (
        lambda rows, **given: fm.Bootstrap(fm.AUC(), **given),
        {"replicates": 10, "seed": 0, "confidence": 0.9, "ids": None},
    ),
}


# -- constructors, and what takes metrics, samplers and results ------------------------------------------------


class Records(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return {}


class Sampler:
    """What `fleetmetrics.padding_mask` reads of a sampler."""

    dataset, nranks, local_rank, batch_size, epoch = range(10), 2, 0, 2, 0
    shuffle = drop_last = False


def declare(**given: Any) -> None:
    fm.Metric().declare(**given)


@functools.lru_cache(maxsize=None)
def drawn() -> Any:
    metric = fm.Bootstrap(fm.AUC(), 5, ids="id")
    metric.add(FRAME["p"], FRAME["y"], id=FRAME["id"])
    return metric.compute()


COMMON = {"name": "x", "validate": True, "share": False, "sampler": None, "size": None}
CALL = {"communicator": None, "group": None, "timeout": None}
#: What is called with arguments that are right; a function without arguments makes a new one.
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Metric": (fm.Metric, COMMON),
    "RecordMetric": (fm.RecordMetric, COMMON),
    "GroupedMetric": (fm.GroupedMetric, COMMON),
    "Sliced": (fm.Sliced, {"metric": fm.AUC, "by": "s", "keys": None, "max_keys": 10, "other": "other", **COMMON}),
    "Windowed": (fm.Windowed, {"metric": fm.AUC, "last": 2, "lifetime": True, **COMMON}),
    "Bootstrap": (
        fm.Bootstrap,
        {"metric": fm.AUC, "replicates": 5, "seed": 0, "confidence": 0.9, "ids": "id", **COMMON},
    ),
    "Interval": (fm.Interval, {"metric": fm.AUC, "confidence": 0.9, "ids": "id", "groups": 64, **COMMON}),
    "MetricCollection": (
        fm.MetricCollection,
        {"metrics": lambda: [fm.AUC()], "prefix": "", "postfix": "", **COMMON},
    ),
    "BaseMetric": (
        Records,
        {
            **dict.fromkeys(("dataset_meta", "dist_collect_mode", "dist_backend", "logger", "sampler")),
            **{"allow_pickle": False, "collect_dir": None, "collect_dir_shared": False},
        },
    ),
    "Batch": (fm.Batch, {"prediction": [0.5], "label": [1], "weight": None, "mask": None, "columns": None}),
    "declare": (declare, {"name": "a", "shape": (), "dtype": "int64", "reduction": "sum"}),
    "SocketCommunicator": (
        fm.SocketCommunicator,
        {"job": None, "rank": 0, "world_size": 1, "endpoint": "127.0.0.1:1", "secret": "a", "channel": None},
    ),
    "UtilCommunicator": (fm.UtilCommunicator, {"util": None}),
    "set_communicator": (fm.set_communicator, {"communicator": None}),
    "get_dist_backend": (fm.get_dist_backend, {"dist_backend": None}),
    "check_copies": (fm.check_copies, {"metrics": fm.AUC, "group": lambda: [0], "communicator": None, "timeout": None}),
    "save": (
        functools.partial(fm.save, "written"),
        {"metrics": fm.AUC, "sampler": None, "batches": None, **CALL},
    ),
    "merge_all": (fm.merge_all, {"parts": lambda: [fm.AUC(), fm.AUC()]}),
    "merge": (lambda **given: fm.AUC().merge(**given), {"other": fm.AUC}),
    "compute": (lambda **given: fm.AUC().compute(**given), CALL),
    "padding_mask": (fm.padding_mask, {"sampler": Sampler, "rank": 0, "epoch": 0}),
    "remaining_indices": (fm.remaining_indices, {"sampler": Sampler, "batches": lambda: [1, 1], "epoch": 0}),
    "paired_difference": (fm.paired_difference, {"one": drawn, "other": drawn, "confidence": 0.9}),
    "unpaired_difference": (fm.unpaired_difference, {"one": drawn, "other": drawn, "confidence": 0.9}),
    "Evaluator": (evaluator.Evaluator, {"metrics": lambda: [], "sampler": None, "collect_mode": "auto"}),
    "Evaluators": (evaluator.Evaluators, {"evaluators": dict}),
    "get_metric_value": (evaluator.get_metric_value, {"indicator": "a", "metrics": lambda: {"a": 1}}),
    "DumpResults": (evaluator.DumpResults, {"out_file_path": "a.pkl", "collect_device": "cpu", "collect_dir": None}),
    "SingleLabelMetric": (
        evaluator.SingleLabelMetric,
        {"thrs": 0.5, "items": ("recall",), "average": "macro", "num_classes": None, "collect_device": "cpu"},
    ),
    "MultiLabelMetric": (
        evaluator.MultiLabelMetric,
        {"thr": 0.5, "topk": None, "items": ("recall",), "average": "macro", "prefix": "a"},
    ),
    "RetrievalRecall": (evaluator.RetrievalRecall, {"topk": 1, "prefix": "a"}),
    "RetrievalAveragePrecision": (evaluator.RetrievalAveragePrecision, {"topk": 1, "mode": "IR", "prefix": "a"}),
}
UNNAMED = "not named"
#: Errors that are about the setting, or about all workers, and do not name the argument.
OF_SETTINGS = re.compile("a setting (holds|is|has)|already belongs to|file descriptors|a must hold")


#: Of the objects that stand in for an argument, how many thirds: for `make test` the arguments share them out.
THIRDS = pytest.mark.parametrize("thirds", [1, *thorough(3)])


def objects(turn: int, thirds: int) -> list[tuple[str, Any]]:
    """Some of the objects with their names; those of three turns are all of them."""
    return [item for place, item in enumerate(OBJECTS.items()) if (place + turn) % 3 < thirds]


def outcomes(call: Any, given: dict[str, Any], turn: int = 0, thirds: int = 3) -> list[tuple[str, str]]:
    """What is wrong with the errors of a call with one argument replaced by each object: the argument, and why."""
    found = []
    for argument in given:
        for key, make in objects(turn, thirds):
            others = {name: value() if callable(value) else value for name, value in given.items() if name != argument}
            try:
                call(**others, **{argument: make()})
            except fm.FleetMetricsError as error:
                if argument not in str(error) and not OF_SETTINGS.search(str(error)):
                    found.append((f"{argument}={key}", f"{UNNAMED}: {error}"))
            except Exception as error:
                found.append((f"{argument}={key}", f"{type(error).__name__}: {error}"))
    return found


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_constructors_and_functions_name_the_argument_that_they_cannot_take(
    name: str, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with fm.set_communicator(fm.LocalCommunicator()):
        found = outcomes(*CALLS[name])
    if CALLS[name][0].__module__.startswith("fleetmetrics.evaluator"):  # whose messages are those of MMPretrain
        found = [each for each in found if not each[1].startswith(UNNAMED)]
    assert not found


def metric_of(kind: Any, *columns: Any, **settings: Any) -> Any:
    metric = kind(**settings)
    metric.add(*columns)
    return metric


SCORED = FRAME["p"], FRAME["y"]
PICTURE = {"ax": None, "label": ""}
PICTURES: dict[str, dict[str, Any]] = {
    **{
        name: {"metric": lambda: metric_of(fm.AUC, *SCORED), **PICTURE}
        for name in ("calibration", "gain", "lift", "precision_recall", "roc", "score_histogram", "threshold_sweep")
    },
    **{
        name: {"metric": lambda: metric_of(fm.Histogram, [0.5], bins=2), **PICTURE}
        for name in ("histogram", "residuals")
    },
    "confusion_matrix": {
        "metric": lambda: metric_of(fm.ConfusionMatrix, *SCORED),
        "classes": lambda: ["no", "yes"],
        **PICTURE,
    },
    "predicted_actual": {"metric": lambda: {"predicted": [0.5], "actual": [0.5], "error": [0.1]}, **PICTURE},
    "at_k": {"metric": lambda: {1: 0.5}, **PICTURE},
    "over_passes": {"values": lambda: [0.5], **PICTURE},
    "over_time": {"values": lambda: {"a": 0.5}, **PICTURE},
    "slices": {"metric": lambda: {"a": 0.5}, "ax": None, "most": 20, "whole": None},
    "by_worker": {"local": lambda: [0.5], "whole": 0.5, "ax": None},
    "draw": {"metric": lambda: metric_of(fm.AUC, *SCORED), "ax": None},
    "style": {"dark": False, "words": None},
    "svg": {"figure": None, "name": ""},
}


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore")
@THIRDS
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_name_what_they_cannot_draw(name: str, thirds: int) -> None:
    pytest.importorskip("matplotlib")

    def call(**given: Any) -> None:
        with contextlib.ExitStack() as stack, fm.set_communicator(fm.LocalCommunicator()):
            made = getattr(plot, name)(**given)
            if name == "style":
                stack.enter_context(made)

    found = outcomes(call, PICTURES[name], [*PICTURES].index(name), thirds)
    assert not [each for each in found if not each[1].startswith(UNNAMED)]


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore")
@THIRDS
@pytest.mark.parametrize("name", FRONT_DOORS)
def test_the_front_doors_name_what_they_cannot_take(name: str, thirds: int, tmp_path: Any, monkeypatch: Any) -> None:
    pytest.importorskip("pyarrow")
    there = paths(tmp_path)
    monkeypatch.chdir(tmp_path)
    call, given = FRONT_DOORS[name]
    known = {
        argument: there.get(value, value) if isinstance(value, str) else value for argument, value in given.items()
    }
    raw = []
    for turn, argument in enumerate(given):
        for key, make in objects(turn, thirds):
            try:
                call(there["rows.csv"], **{**known, argument: make()})
            except fm.FleetMetricsError:
                pass
            except Exception as error:
                if (argument, key) != ("make_metrics", "function"):  # which raises an error of its own
                    raw.append(f"{argument}={key}: {type(error).__name__}: {error}")
    assert not raw, "\n".join(raw[:20])


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: fm.ThresholdSweep(thresholds=MASKED), "^thresholds must be"),
        (lambda: fm.Lift(fractions=MASKED), "^fractions must be"),
        (lambda: fm.Histogram(bins=MASKED), "^bins must be"),
        (lambda: fm.QuantileLoss(MASKED), "^quantile must be"),
        (lambda: fm.flatten({"a": MASKED}), "^values holds a masked array under 'a'"),
        (lambda: fm.flatten(hostile.circular()), "^values holds itself"),
        (lambda: fm.Bootstrap(fm.AUC(), 10**400), "^replicates must be at most"),
        (lambda: declare(name="a", reduction="mean"), "^reduction must be one of 'sum', 'max', 'min', 'moments'"),
        (lambda: declare(name="a", dtype="float32"), "^dtype must be one of 'int64', 'float64', not 'float32'"),
        (lambda: declare(name="a", shape=[2, -1]), "^shape must hold whole numbers of at least 0"),
        (lambda: fm.MetricCollection(""), "^metrics must be a list of metrics"),
        (lambda: plot.slices({"a": 0.5}, most=True), "^most must be an integer of at least 1, not True"),
        (lambda: plot.at_k({"a": 0.5}), "a dict by k; metric is dict"),
        (lambda: fm.evaluate(FRAME, label="y", score="p", replicates=2**63), "^replicates must be at most"),
        (
            lambda: fm.evaluate(FRAME, label="y", score="p", baseline=FRAME, always_valid=10**400),
            "^always_valid must be at most",
        ),
        (lambda: fm.AUC().merge(fm.evaluation.merge("\ud800")), r"^states must be a path .* '\\ud800'$"),
    ],
)
def test_settings_that_hide_something_or_never_end_are_refused(call: Any, said: str) -> None:
    with pytest.raises(fm.InvalidInputError, match=said):
        call()
