"""Tiny evaluations at random: a few rows, any metric, any options; each gives a result that holds together, or names
what is wrong.

`tests/evaluation/test_tiny.py` makes some hundreds of them, `docs/scripts/tiny.py` as many as one likes.
"""

from __future__ import annotations

import contextlib
import json
import math
import traceback
import warnings
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np

import fleetmetrics as fm
from fleetmetrics.evaluation import compare, merge
from fleetmetrics.evaluation.arguments.named import kinds
from fleetmetrics.support.vocabulary import VERDICTS

#: The settings that some metrics need.
NEEDED = {
    "precision_at_fixed_recall": ":min_recall=0.5",
    "recall_at_fixed_precision": ":min_precision=0.5",
    "sensitivity_at_specificity": ":min_specificity=0.5",
    "specificity_at_sensitivity": ":min_sensitivity=0.5",
    "tpr_at_fpr": ":max_fpr=0.5",
}
#: Metrics of rows of classes, and of vectors or tokens, which a column of scores does not have.
OTHERS = {"bits_per_byte", "exact_match", "perplexity", "token_loss"}
RANKING = ("ndcg@2", "map", "mrr", "hit_rate@2", "recall_at_k@1", "precision_at_k@3", "r_precision", "dcg@2")
OF_CLASSES = ("accuracy", "balanced_accuracy", "f1", "f1:average=macro", "precision", "recall", "jaccard")
OF_CLASSES = (*OF_CLASSES, "cohen_kappa", "matthews_correlation", "specificity", "hamming_loss", "confusion_matrix")
REGRESSION = ("mean_absolute_error", "root_mean_squared_error", "mean_bias", "mean_squared_error", "r2_score")
REGRESSION = (*REGRESSION, "pearson_correlation", "spearman_correlation", "kendall_correlation", "log_cosh_error")
REGRESSION = (*REGRESSION, "mean_absolute_percentage_error", "weighted_mean_absolute_percentage_error", "max_error")
REGRESSION = (*REGRESSION, "explained_variance", "quantile_loss", "symmetric_mean_absolute_percentage_error", "mean")
WEIGHTS = ("none", "none", "counts", "some zero", "uneven", "huge", "minute")
BY = (["s"], ["s"], ["s", "t"], ["s*t"], ["u"], [])


class Outcome(NamedTuple):
    """The outcome of an evaluation: "result", "named" error, "raw" error, or a "false" result; and the text."""

    kind: str
    text: str


class Tiny(NamedTuple):
    """A tiny evaluation.

    Args:
        data: the new side.
        old: the other side, or None.
        options: of `fleetmetrics.evaluate`.
        saved: whether both sides are saved, and compared or merged then.
    """

    data: Mapping[str, np.ndarray]
    old: Mapping[str, np.ndarray] | None
    options: Mapping[str, Any]
    saved: bool

    def __str__(self) -> str:
        sides = [{name: each.tolist() for name, each in side.items()} for side in (self.data, self.old) if side]
        return f"{self.options}{' saved' * self.saved}: {sides}"


def drawn(seed: int) -> Tiny:
    """The evaluation of a seed."""
    random = np.random.default_rng([seed, 30])
    task = str(random.choice(["binary"] * 4 + ["multiclass", "regression", "ranking"]))
    weight = str(random.choice(WEIGHTS))
    rows = [_size(random) for _ in range(2)]
    options: dict[str, Any] = {"label": "y", "score": "p", "task": task, "processes": 1, "replicates": 20}
    options["metrics"] = [_metric(task, random) for _ in range(random.integers(1, 4))]
    options["metrics"] = list(dict.fromkeys(options["metrics"]))
    if task == "multiclass":
        options["classes"] = 3
    by = BY[random.integers(len(BY))]
    user = task == "ranking" or random.random() < 0.4 or any(_is_by_user(each) for each in options["metrics"])
    options.update(by=by, **({"user": "u"} if user else {}), **({} if weight == "none" else {"weight": "w"}))
    if random.random() < 0.5:
        options["ci"] = float(random.choice([0.5, 0.95, 0.999]))
    if random.random() < 0.2:
        options["max_slices"] = int(random.integers(1, 4))
    if random.random() < 0.1 and task == "binary":
        options["min_positives"] = int(random.integers(1, 5))
    numbers = [each for each in options["metrics"] if _kind(each).gives == "number"]
    if by and numbers and random.random() < 0.2:
        options["rank_by"] = str(random.choice(numbers))
    data, old = (_side(task, each, weight, random) for each in rows)
    way = str(random.choice(["alone", "baseline", "baseline", "score", "join", "inner"]))
    if way in ("join", "inner"):
        if way == "join":
            old = {**data, "p": data["q"], "s": random.permutation(data["s"])}
        else:  # a label belongs to its id
            of_id = np.concatenate([data["y"], old["y"]])
            data, old = ({**side, "y": of_id[side["i"]], "w": np.ones(len(side["i"]))} for side in (data, old))
        options.update(join_on="i", **({"join": "inner"} if way == "inner" else {}))
    if way == "score":
        options["baseline_score"] = "q"
    elif way != "alone" and random.random() < 0.1 and "ci" in options:
        options["always_valid"] = int(random.integers(1, 100))
    saved = way in ("alone", "baseline") and random.random() < 0.3
    return Tiny(data, None if way in ("alone", "score") else old, options, saved)


def _size(random: np.random.Generator) -> int:
    """A few rows; sometimes one, sometimes enough for verdicts."""
    most = int(random.choice([1, 3, 8, 30, 30, 300], p=[0.15, 0.15, 0.2, 0.2, 0.2, 0.1]))
    return int(random.integers(1, most + 1))


def _kind(metric: str) -> Any:
    name, _, k = metric.partition(":")[0].partition("@")
    return getattr(fm, kinds().get(f"{name}_at_k" if k else "") or kinds()[name])


def _is_by_user(metric: str) -> bool:
    return "by" in _kind(metric).__signature__.parameters


def _metric(task: str, random: np.random.Generator) -> str:
    if task == "binary":
        every = [each for each in kinds() if each not in OTHERS]
        name = str(random.choice(every))
        return name + NEEDED.get(name, "")
    return str(random.choice({"ranking": RANKING, "multiclass": OF_CLASSES, "regression": REGRESSION}[task]))


def _side(task: str, rows: int, weight: str, random: np.random.Generator) -> dict[str, np.ndarray]:
    few = int(random.choice([1, 2, 3, 5]))
    found: dict[str, Any] = {}
    if task == "regression":
        size = 10.0 ** random.choice([0, 0, 0, -150, 60, 150])
        found = {name: size * random.normal(size=rows).round(int(random.choice([0, 1, 6]))) for name in "ypq"}
    elif task == "multiclass":
        found = {name: random.integers(0, 3, rows) for name in "ypq"}
    else:
        found["y"] = _labels(rows, random)
        for name in "pq":
            found[name] = random.random(rows).round(int(random.choice([0, 1, 6])))
            if random.random() < 0.1:
                found[name][:] = random.choice([0.0, 0.3, 1.0])
    found.update(s=random.integers(0, few, rows), t=random.choice(["a", "b"], rows))
    found.update(u=random.integers(0, max(1, rows // few), rows), i=random.permutation(rows))
    found["w"] = {
        "none": lambda: np.ones(rows),
        "counts": lambda: random.integers(1, 4, rows),
        "some zero": lambda: random.integers(0, 2, rows) * random.random(rows),
        "uneven": lambda: 10.0 ** random.uniform(-3, 3, rows),
        "huge": lambda: random.random(rows) * 1e300 / rows,
        "minute": lambda: random.random(rows) * 1e-300,
    }[weight]()
    return found


def _labels(rows: int, random: np.random.Generator) -> np.ndarray:
    kind = random.choice(["mixed", "mixed", "mixed", "none", "all", "one", "all but one"])
    if kind == "mixed":
        return random.integers(0, 2, rows)
    label = np.full(rows, int(kind in ("all", "all but one")))
    if kind in ("one", "all but one"):
        label[random.integers(rows)] ^= 1
    return label


# -- its outcome --------------------------------------------------------------------------------------


def outcome(tiny: Tiny, folder: Path, report: bool = False) -> Outcome:
    """Evaluate it, print it, and check that the result holds together.

    Args:
        tiny: the evaluation.
        folder: for states.
        report: whether to make the report as well.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", category=RuntimeWarning, module=r"fleetmetrics|numpy")
        try:
            result = _result(tiny, folder)
            text = f"{result}{result._repr_html_()}"
            assert text
            result.frame()
            for by in result.slices:
                result.frame(by)
            if report:
                result.to_html()
            wrong = list(faults(result))
        except fm.FleetMetricsError as error:
            return Outcome("named", f"{type(error).__name__}: {error}")
        except Exception as error:
            place = next(
                each for each in reversed(traceback.extract_tb(error.__traceback__)) if "fleetmetrics/" in each.filename
            )
            where = f"{place.filename.rpartition('fleetmetrics/')[2]}:{place.lineno}"
            return Outcome("raw", f"{type(error).__name__}: {error} at {where}")
    return Outcome("false", "; ".join(wrong)) if wrong else Outcome("result", "")


def _result(tiny: Tiny, folder: Path) -> fm.EvaluationResult:
    options = dict(tiny.options)
    if not tiny.saved:
        return fm.evaluate(tiny.data, baseline=tiny.old, **options)
    always = options.pop("always_valid", None)
    more = {} if tiny.old is None else {"ci": options.pop("ci", 0.95)}
    paths = []
    for place, side in enumerate(filter(None, (tiny.data, tiny.old))):
        paths.append(folder / f"{place}.state")
        fm.evaluate(side, **options, **more).save_state(paths[-1])
    return compare(*paths, always_valid=always) if tiny.old is not None else merge(paths)


def faults(result: fm.EvaluationResult) -> Iterator[str]:
    """What does not hold together in a result."""
    json.dumps(result.to_dict(), allow_nan=False)
    share = 1 - result.confidence
    for key, interval in result.intervals.items():
        if by_formula(result.asked.metric(key)):  # percentiles of a few draws need not hold the value
            yield from _around(f"{key}'s interval", result.values[key], interval.low, interval.high, interval.needs)
    for key, delta in result.deltas.items():
        if delta.known_interval is not None and by_formula(result.asked.metric(key)):
            ends = delta.interval.low, delta.interval.high
            yield from _around(f"{key}_delta", delta.value, *ends, delta.interval.needs)
    for by, slices in result.slices.items():
        for each in slices:
            yield from _around(f"{by} {each.key}", each.value, each.low, each.high, None)
            yield from _judged(f"{by} {each.key}", each, share)
        if sum(each.rows for each in slices) != result.new.rows:
            yield f"{by} has {sum(each.rows for each in slices)} rows of {result.new.rows}"
    for by, column in result.versus.items():
        for each in column.slices:
            yield from _around(f"versus {by} {each.key}", each.delta, each.low, each.high, None)
            yield from _judged(f"versus {by} {each.key}", each, share)
        added = [each.added for each in column.slices]
        if any(map(math.isnan, added)) != all(map(math.isnan, added)):
            yield f"versus {by}: some slices add nothing known: {added}"
        with contextlib.suppress(OverflowError):
            total = math.fsum([*added, column.remainder])
            size = math.fsum(map(abs, [*added, column.delta, result.values[column.metric]]))
            if math.isfinite(total) and not abs(total - column.delta) <= 1e-6 * size:
                yield f"versus {by}: parts {total} of {column.delta}"


def by_formula(metric: Any) -> bool:
    """Whether a metric's interval needs no draws."""
    return bool(metric.ranked) or metric.linear is not None


def _around(name: str, value: float, low: float, high: float, needs: Any) -> Iterator[str]:
    known = [math.isnan(each) for each in (low, high)]
    if any(known):
        if not all(known):
            yield f"{name}: {low} to {high}"
        if needs is not None and not needs and math.isfinite(value):
            yield f"{name}: no interval, and no reason"
    elif not low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high):
        yield f"{name}: {value} is not within {low} to {high}"
    elif needs:
        yield f"{name}: {low} to {high}, and needs {needs}"


def _judged(name: str, each: Any, share: float) -> Iterator[str]:
    if each.verdict in (None, "too few"):
        if not (math.isnan(each.p) and math.isnan(each.q)):
            yield f"{name}: {each.verdict}, with p {each.p} and q {each.q}"
        if each.verdict and not each.needs:
            yield f"{name}: too few, and no reason"
    elif each.verdict not in VERDICTS:
        yield f"{name}: {each.verdict}"
    elif not 0 <= each.p <= each.q <= 1:
        yield f"{name}: p {each.p} and q {each.q}"
    elif (each.q <= share) != (each.verdict != "within chance"):
        yield f"{name}: {each.verdict} with q {each.q}"
