"""What the command line can be asked: metrics by name, those of a task, and the collection that answers it."""

from __future__ import annotations

import ast
import copy
import functools
import re
from typing import Any, Callable, Mapping, Sequence

import numpy as np

import fleetmetrics
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, words
from fleetmetrics.cli.evidence import Evidence, GroupCount, evidence_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas import histogram_counts
from fleetmetrics.hints import hint_of_name
from fleetmetrics.metric import Declared, Metric
from fleetmetrics.metrics.aggregation import Count
from fleetmetrics.metrics.regression.differences import signed_error
from fleetmetrics.record_metric import GroupedMetric
from fleetmetrics.xp.score_buckets import log_odds, odds_bounds

__all__ = ["Joined", "Rows", "asked_of", "collection", "columns_of", "evidence_for", "keys_of", "kinds", "listed"]

#: The metrics of a task, where none are asked for.
_TASKS = {
    "binary": "auc,log_loss,calibration,average_precision,normalized_entropy,expected_calibration_error,brier_score,"
    "click_through_rate",
    "multiclass": "accuracy,balanced_accuracy,f1=f1:average=macro,matthews_correlation",
    "regression": "mean_absolute_error,root_mean_squared_error,mean_bias,r2_score,pearson_correlation",
    "ranking": "ndcg@10,map,mrr,hit_rate@10,recall@10",
}
_SHORT = (
    "ap=average_precision ctr=click_through_rate ece=expected_calibration_error ks=kolmogorov_smirnov mcc="
    "matthews_correlation mae=mean_absolute_error mape=mean_absolute_percentage_error mse=mean_squared_error "
    "ne=normalized_entropy r2=r2_score rmse=root_mean_squared_error"
)
_SPEC = re.compile(r"(?:(?P<key>[\w.-]+)=)?(?P<name>\w+)(?:@(?P<k>\d+))?(?P<settings>(?::\w+=[^:]+)*)")
#: Between metrics; those within brackets separate none.
_COMMA = r",(?![^\[(]*[\])])"
#: What else the result has.
_RESERVED = ("asked", "at_k", "baseline", "data", "explained", "rows", "slices", "verdicts", "warnings")
#: The slice of all keys but the first thousand.
_OTHER = "(other)"
#: Of an area there is a histogram for each draw: so few buckets are enough for an interval's width.
_COARSE = {"buckets": 512, "tolerance": None}
#: Metrics whose values are no numbers: they have no interval.
_NO_NUMBER = re.compile("Curve|Sweep|Lift|Gain|Histogram|Matrix|StatScores|Decomposition")
#: What a report draws of these metrics of ranked answers, and at how many places.
_AT_PLACES, _PLACES = ("hit_rate", "precision", "recall"), [1, 3, 10, 30, 100]
#: Of errors, for each sign.
_BINS = 4096


class Rows(Count):
    """How many rows count, whatever they weigh; those of weight 0 do not."""

    declared = (Declared("total", key="rows"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        return {"total": batch.number}


class Positives(Metric):
    """How many rows are labelled 1, whatever they weigh; other metrics check the labels."""

    declared = (Declared("total", key="positives"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        rows = copy.copy(batch)
        rows.weight = None
        return {"total": rows.weighted_sum(rows.positive)}

    def formula(self, total: np.ndarray) -> Any:
        return total.item()


class Errors(Metric):
    """Errors of predictions of any size: each doubling from 2e-10 to 4e9, of either sign, is split into 64 bins."""

    requirements = ("finite_prediction", "finite_label")
    declared = (Declared("cells", (2 * _BINS - 1,)),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        error, layout = signed_error(batch), log_odds(_BINS)
        place = np.abs(error).view(np.int64)
        place >>= layout.shift
        place -= layout.first
        place.clip(0, _BINS - 1, out=place)
        np.negative(place, out=place, where=error < 0)
        place += _BINS - 1
        return {"cells": batch.histogram(place)}

    def formula(self, cells: np.ndarray) -> Any:
        bounds = odds_bounds(_BINS)
        return histogram_counts(cells, [*-bounds[::-1], *bounds])


class Joined(Metric):
    """Which ids there are, how often, with which labels: 128 bits in four sums of hashes, and how many rows."""

    columns = ("id",)
    declared = (Declared("sums", (5,), "int64"),)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:  # noqa: D102
        ids = integer_ids(batch.columns["id"])
        label = (np.asarray(batch.label, np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
        both = ids ^ (label * np.int64(0x5851F42D4C957F2D))
        sums = [word.sum(dtype=np.int64) for seed in (0, 1) for word in words(batch.xp, both, seed)]
        return {"sums": np.array([*sums, len(both)], np.int64)}

    def formula(self, sums: np.ndarray) -> Any:  # noqa: D102
        return sums


@functools.lru_cache(maxsize=1)
def kinds() -> dict[str, str]:
    """The classes of the catalogue by the names of the command line; nothing is imported."""
    found = {}
    for kind, module in fleetmetrics._modules.items():
        if module.startswith("fleetmetrics.metrics.") and kind != "Throughput":
            found[re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()] = kind
    return found


def asked_of(args: Any) -> dict[str, Any]:
    """What the arguments of ``evaluate`` ask for, as JSON holds it."""
    named = {"prediction": args.score, "label": args.label, "weight": args.weight, "user": args.user}
    named["id"] = args.join_on
    several, classes = isinstance(args.score, list), None
    if args.task == "multiclass":
        classes = args.classes or (len(args.score) if several else None)
        if classes is None:
            raise InvalidInputError("--task multiclass: give --classes N, or a column of each class, --score p0,p1,p2")
    if args.ci is not None and not 0 < args.ci < 1:
        raise InvalidInputError(f"--ci must be a number between 0 and 1, such as 0.95, not {args.ci:g}")
    if args.join_on and not args.baseline:
        raise InvalidInputError("--join-on joins the files with those of --baseline; give both")
    metrics = args.metrics
    if metrics is None:
        metrics = _TASKS[args.task]
        if args.task == "binary" and args.user:
            metrics += ",gauc"
        if args.task == "multiclass" and several:
            metrics += ",log_loss"
    return {
        "task": args.task,
        "classes": classes,
        "columns": {name: column for name, column in named.items() if column},
        "metrics": [each.strip() for each in re.split(_COMMA, metrics) if each.strip()],
        "by": list(filter(None, args.by.split(","))),
        "ci": args.ci if args.ci is not None else 0.95 if args.join_on else None,
    }


def keys_of(specs: Sequence[str]) -> dict[str, re.Match[str]]:
    """What each metric is called in the result, with its text, ``key=name@k:setting=value``, if all that can be."""
    found: dict[str, re.Match[str]] = {}
    for spec in specs:
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise InvalidInputError(f"--metrics: {spec!r} must be like auc, ndcg@10, or pr=auc:curve=PR")
        key = match["key"] or spec
        if key in found or key in _RESERVED or key.endswith(("_interval", "_delta")):
            raise InvalidInputError(f"--metrics: {key!r} is there already; give it another name, NAME={spec}")
        found[key] = match
    if not found:
        raise InvalidInputError("--metrics is empty; give at least one name, or leave it out")
    return found


def _made(spec: re.Match[str], asked: Mapping[str, Any], **more: Any) -> Any:
    """A new metric; ``more`` are settings where its class has them and its text does not."""
    text, name, known = spec[0], spec["name"].lower(), kinds()
    short = dict(each.split("=") for each in _SHORT.split())
    kind_name = known.get(f"{name}_at_k" if spec["k"] else "") or known.get(short.get(name, name))
    if kind_name is None:
        hint = hint_of_name(name, {each: getattr(fleetmetrics, kind).__doc__ for each, kind in known.items()})
        raise InvalidInputError(f"--metrics: there is no {spec['name']!r}{hint}; `fleetmetrics metrics` lists them")
    kind = getattr(fleetmetrics, kind_name)
    parameters = kind.__signature__.parameters
    more["by"] = "user"
    if asked["task"] == "multiclass":
        more.update(task="multiclass", num_classes=asked["classes"])
    settings = {name: value for name, value in more.items() if name in parameters}
    for name, _, value in (each.partition("=") for each in spec["settings"].split(":")[1:]):
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    if spec["k"]:
        settings.setdefault("k", int(spec["k"]))
    missing = [each.name for each in parameters.values() if each.default is each.empty and each.name not in settings]
    if missing:
        raise InvalidInputError(f"--metrics: {text} needs {missing[0]}, {text}:{missing[0]}=VALUE")
    try:
        return kind(name=spec["key"] or text, **settings)
    except (InvalidInputError, TypeError) as error:
        raise InvalidInputError(f"--metrics: {text}: {error}") from None


def interval_of(spec: re.Match[str], asked: Mapping[str, Any]) -> Any:
    """The metric with an interval, to be moved to its value; or None where it has none.

    Users are drawn, else the ids by which the baseline is joined, else rows.
    """
    from fleetmetrics import Bootstrap

    metric = _made(spec, asked)
    ids: str | None = next((each for each in ("user", "id") if each in asked["columns"]), "row")
    if ids == "row" and metric.cells and "weight" not in asked["columns"]:
        ids = None
    kept = metric.record_metrics()  # those of all samples at once add up nothing of which a draw takes more or less
    if any(not isinstance(each, GroupedMetric) or each.table.order != ids for each in kept):
        return None
    if _NO_NUMBER.search(metric.kind_name()):
        return None
    if ids is not None:
        metric = _made(spec, asked, **_COARSE)
    return Bootstrap(metric, 200, confidence=asked["ci"], ids=ids, name=metric.name)


def evidence_for(asked: Mapping[str, Any]) -> Evidence | None:
    """How the first metric, which ranks the slices, is tested; None: it is not."""
    first = _made(next(iter(keys_of(asked["metrics"]).values())), asked)
    columns = asked["columns"]
    return evidence_of(first, "weight" in columns, "user" in columns, asked["task"] == "ranking")


def _sizes(asked: Mapping[str, Any]) -> dict[str, Callable[[], Metric]]:
    """What is counted beside rows, and makes the metric that counts it: positives, and users where they are kept."""
    metrics = [_made(spec, asked) for spec in keys_of(asked["metrics"]).values()]
    binary = asked["task"] == "binary" and not isinstance(asked["columns"].get("label"), list)
    binary = binary and any("class_label" in metric.requirements for metric in metrics)
    found: dict[str, Callable[[], Metric]] = {"positives": Positives} if binary else {}
    for metric in metrics:
        if isinstance(metric, GroupedMetric) and metric.table.order == "user":
            found["queries" if asked["task"] == "ranking" else "users"] = functools.partial(GroupCount, metric)
            break
    return found


def collection(asked: Mapping[str, Any]) -> Any:
    """What answers: each metric under its key, and what else the result is made of under names with blanks.

    ``asked`` has ``task``, ``classes``, ``metrics`` (their texts), ``by``, ``ci``, and ``columns``, of which only the
    keys are looked at. Raises InvalidInputError if a metric or setting is none.
    """
    from fleetmetrics import MetricCollection, Sliced

    keys = keys_of(asked["metrics"])
    found = {" rows": Rows(), **{key: _made(spec, asked) for key, spec in keys.items()}}
    if asked["ci"]:
        found.update({f"{key} interval": interval_of(spec, asked) for key, spec in keys.items()})
    sizes = _sizes(asked)
    found.update({f" {name}": make() for name, make in sizes.items()})
    evidence = evidence_for(asked) if asked["by"] else None
    if evidence:
        found[" evidence"] = evidence.of_whole()
    for place, by in enumerate(_arguments(asked)):
        inside = {" rows": Rows(), " evidence": evidence and evidence.of_slice()}
        inside.update({f" {name}": make() for name, make in sizes.items()})
        inside.update({key: _made(spec, asked) for key, spec in keys.items()})
        found.update({f"{place} {key}": each and Sliced(each, by, other=_OTHER) for key, each in inside.items()})
    if asked["task"] == "regression":
        found[" errors"] = Errors()
    for key, spec in keys.items():
        if asked["task"] == "ranking" and spec["k"] and spec["name"] in _AT_PLACES:
            found[f" at k {key.partition('@')[0]}"] = _made(spec, asked, k=_PLACES)
    if "id" in asked["columns"]:
        found[" joined"] = Joined()
    return MetricCollection({key: each for key, each in found.items() if each is not None}, name="metrics")


def _arguments(asked: Mapping[str, Any]) -> list[str]:
    """The argument of ``add`` for each column of ``--by``; a column may have a name that is none."""
    taken = ("prediction", "label", "weight", "mask", "user", "id", "row")
    return [by if by.isidentifier() and by not in taken else f"slice_{place}" for place, by in enumerate(asked["by"])]


def columns_of(metrics: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The column of each argument of ``add`` that the metrics need; InvalidInputError if one was not named."""
    from fleetmetrics.files import ROW

    given = {**asked["columns"], "row": ROW, **dict(zip(_arguments(asked), asked["by"]))}
    needed = {name: metric for metric in metrics.leaves() for name in metric.columns}
    for name, metric in needed.items():
        if given.get(name) is None:
            raise InvalidInputError(f"{metric.name} needs the column of the {name}; give --user COLUMN")
    label = [] if metrics.takes_label is False else ["label"]
    used = ["prediction", *label, "weight", *needed]
    return {name: given[name] for name in used if name in given}


def listed() -> list[str]:
    """A line for each metric: its name, what it is, and what it needs beside label and score."""
    lines, width = [], max(map(len, kinds()))
    for name, kind in sorted(kinds().items()):
        metric = getattr(fleetmetrics, kind)
        parameters = metric.__signature__.parameters.values()
        needs = [f":{each.name}=" for each in parameters if each.default is each.empty]
        if any(each.name == "by" for each in parameters):
            needs.append("--user")
        if name == "exact_match":
            needs.append(":num_labels=")
        what = metric.__doc__.partition("\n")[0].replace("`", "")
        lines.append(f"{name:{width}}  {what}{f' Needs {needs[0]}.' if needs else ''}")
    return lines
