"""Print how often slices that are drawn at random are called different from the whole, and how often spoilt ones are.

    python docs/scripts/slices.py

Each slice is a random sample, so at most 5 % of those with a verdict may have a p-value of at most 0.05, for any size,
click rate and metric. ``limit``: the number of rows, or positives for areas, from which a slice has a verdict, and the
false alarms of slices of about this size. ``(w)``: rows have weights, the largest a thousand times the smallest;
``(d)``: clicks have the weight 1, other rows 10; ``uneven``: few users have most rows. ``--``: too few; blank: not
simulated. ``holds``: the share of the 95 % intervals that contain the value of the whole. ``found``: of slices of 500
rows in which half of the scores are those of other rows, or half of the clicks are lost, the share with a p-value of at
most 0.05. The last line counts the runs that call any slice different by q-values of at most 0.05.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Iterable, NamedTuple

import numpy as np

import fleetmetrics as fm
from fleetmetrics.evaluation.question.evidence import evidence_of
from fleetmetrics.formulas.slices import false_discovery_rates

SIZES = (10, 60, 500, 2000)
"""Rows of a slice, or positives for areas."""
OF_A_SIZE = 400
"""How many slices of each size there are at least, so that the standard error of 5 % is 1.1 %."""
SPOILT = 500
"""Rows, or positives, of the slices that are spoilt: one in five."""


class Case(NamedTuple):
    """What is simulated: a metric, the click rate, and how slices and users are drawn."""

    name: str
    metric: Any
    rate: float
    users: str = ""  # "", "within" (all rows of a user are in one slice), "across" slices, or "uneven": within, by Zipf
    weights: str = ""  # "", "w": the largest a thousand times the smallest, or "d": other rows count ten times


class Found(NamedTuple):
    """Of slices of a size: p-values, nan without a verdict; whether intervals hold the whole; if any q is small."""

    p: np.ndarray
    holds: np.ndarray
    any: np.ndarray


BINARY = {
    "click_through_rate": fm.ClickThroughRate,
    "calibration": fm.Calibration,
    "log_loss": fm.LogLoss,
    "brier_score": fm.BrierScore,
    "accuracy": fm.Accuracy,
}
OF_CLASSES = {
    "f1": lambda rate: fm.F1(threshold=min(3 * rate, 0.5)),
    "precision": lambda rate: fm.Precision(threshold=min(3 * rate, 0.5)),
    "recall": lambda rate: fm.Recall(threshold=min(3 * rate, 0.5)),
    "jaccard": lambda rate: fm.Jaccard(threshold=min(3 * rate, 0.5)),
    "f_beta": lambda rate: fm.FBeta(beta=2, threshold=min(3 * rate, 0.5)),
}
CASES = [
    *(Case("auc", fm.AUC, rate) for rate in (0.003, 0.03, 0.3)),
    *(Case(name, metric, rate) for name, metric in BINARY.items() for rate in (0.003, 0.3)),
    *(Case(name, partial(metric, rate), rate) for name, metric in OF_CLASSES.items() for rate in (0.003, 0.3)),
    Case("mean_absolute_error", fm.MeanAbsoluteError, 0.3),
    Case("weighted_mape", fm.WeightedMeanAbsolutePercentageError, 0.3),
    Case("root_mean_squared_error", fm.RootMeanSquaredError, 0.3),
    Case("mean_bias", fm.MeanBias, 0.3),
    *(
        Case(name, metric, 0.3, users)
        for name, metric in {
            "auc": fm.AUC,
            "log_loss": fm.LogLoss,
            "click_through_rate": fm.ClickThroughRate,
            "gauc": fm.GAUC,
            "ndcg": lambda: fm.NDCG(10, by="user"),
        }.items()
        for users in ("within", "across")
    ),
    *(
        Case(name, metric, 0.3, "uneven")
        for name, metric in (("click_through_rate", BINARY["click_through_rate"]), ("gauc", fm.GAUC))
    ),
    *(
        Case(name, BINARY[name], 0.3, users, "w")
        for name in ("click_through_rate", "log_loss")
        for users in ("", "within")
    ),
    Case("f1", partial(OF_CLASSES["f1"], 0.3), 0.3, "", "w"),
    Case("click_through_rate", fm.ClickThroughRate, 0.003, "", "d"),
    Case("click_through_rate", fm.ClickThroughRate, 0.3, "", "d"),
]


def drawn(case: Case, rows: int, slices: int, random: np.random.Generator) -> dict[str, Any]:
    """Scores that are right except for what users add, labels, and slices at random."""
    of_users = 0.0
    found: dict[str, Any] = {}
    if case.users:
        number, uneven = max(rows // 12, 1), case.users == "uneven"
        share = np.arange(1, number + 1) ** -0.85
        user = random.choice(number, rows, p=share / share.sum()) if uneven else random.integers(0, number, rows)
        of_users = random.normal(0, 1, user.max() + 1)[user]
        found["user"] = user
    logit = random.normal(np.log(case.rate / (1 - case.rate)) - 0.5, 1.2, rows)
    probability = 1 / (1 + np.exp(-logit))
    label = random.random(rows) < 1 / (1 + np.exp(-logit - of_users))
    slot = random.integers(0, slices, rows)
    if case.users in ("within", "uneven"):
        slot = random.integers(0, slices, user.max() + 1)[user]
    if case.weights:
        found["weight"] = 10.0 ** random.uniform(0, 3, rows) if case.weights == "w" else np.where(label, 1.0, 10.0)
    return {"prediction": probability, "label": label.astype(np.int64), "slot": slot, **found}


def judged(
    metric: Any, prediction: Any, label: Any, slot: Any, user: Any = None, weight: Any = None
) -> tuple[Any, float]:
    """The tests of the slices, as the command line makes them, and the value of the whole."""
    columns = {} if user is None else {"user": user}
    evidence = evidence_of(metric, weight is not None, user is not None, False)
    assert evidence is not None
    inside = fm.Sliced(evidence.of_slice(), "slot", max_keys=1000)
    its = {name: columns[name] for name in inside.columns if name in columns}
    inside.add(prediction, label, weight=weight, slot=slot, **its)
    whole = evidence.of_whole()
    for each in filter(None, (whole, metric)):
        each.add(prediction, label, weight=weight, **{name: columns[name] for name in each.columns})
    found = evidence.tested(list(inside.compute().values()), whole and whole.compute(), 0.95)
    return found, metric.compute()


def spoilt(case: Case, data: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """The same data, of which every fifth slice is spoilt."""
    rows = np.flatnonzero((data["slot"] % 5 == 0) & (random.random(len(data["slot"])) < 0.5))
    lost = case.name in ("click_through_rate", "calibration")
    name = "label" if lost else "prediction"
    values = data[name].copy()
    values[rows] = 0 if lost else random.permutation(values[rows])
    return {**data, name: values}


def limit(case: Case, random: np.random.Generator) -> float:
    """The rows, or positives, from which a slice has a verdict."""
    rows, slices = round(100_000 / min(1, 10 * case.rate)), 20
    tests = judged(case.metric(), **drawn(case, rows, slices, random))[0].tests
    if case.name == "auc":
        return float(tests.needed[:, 0].max())
    return float(rows * np.median(tests.needed / tests.units.sum()))


def power(case: Case, slices: int, random: np.random.Generator) -> str:
    """The share of spoilt slices with a small p-value."""
    rows, found = round(SPOILT * slices / (case.rate if case.name == "auc" else 1)), []
    for _ in range(math.ceil(500 / slices)):
        data = spoilt(case, drawn(case, rows, slices, random), random)
        tested, _whole = judged(case.metric(), **data)
        found.append(tested.tests.p_value[np.arange(len(tested.tests.p_value)) % 5 == 0])
    p = np.concatenate(found)
    return f"{np.mean(p <= 0.05):.0%}" if np.mean(~np.isnan(p)) > 0.5 else "--"


def simulated(case: Case, size: int, slices: int, runs: int, random: np.random.Generator) -> Found:
    """Runs with the given number of slices, each of about the given number of rows, or positives."""
    rows = round(size * slices / (case.rate if case.name == "auc" else 1))
    p, holds, some = [], [], []
    for _ in range(runs):
        tested, whole = judged(case.metric(), **drawn(case, rows, slices, random))
        p.append(tested.tests.p_value)
        known = ~np.isnan(p[-1])
        holds.append(((tested.low <= whole) & (whole <= tested.high))[known])
        some.append((false_discovery_rates(p[-1]) <= 0.05).any())
    return Found(np.concatenate(p), np.concatenate(holds), np.array(some))


def main(places: Iterable[int] = range(len(CASES)), rows: int = 400_000) -> None:
    """Print a line for each case: false alarms by size, intervals, spoilt slices, and runs with any false alarm."""
    print(_line(["metric", "rate", "users", "limit", "", *(f"{size:,}" for size in SIZES), "holds", "found"]))
    some: list[bool] = []
    for place in places:
        case, random = CASES[place], np.random.default_rng(place)
        cells, holds, least = [], [], limit(case, random)
        for size in (least, *SIZES):
            of_slice = size / (case.rate if case.name == "auc" else 1)
            slices = int(min(rows / of_slice, 200))
            if slices < 20:
                cells.append("")
                continue
            runs = math.ceil(OF_A_SIZE / slices) * (2 if size == least else 1)  # half of these are too few
            found = simulated(case, size, slices, runs, random)
            known = found.p[~np.isnan(found.p)]
            cells.append(f"{np.mean(known <= 0.05):.1%}" if len(known) >= 50 else "--")
            holds.append(found.holds)
            some += found.any.tolist()
        held = np.concatenate(holds) if holds else np.zeros(0)
        ends = [f"{np.mean(held):.1%}" if len(held) >= 50 else ""]
        slices = int(min(rows / (SPOILT / (case.rate if case.name == "auc" else 1)), 200))
        ends.append(power(case, slices, random) if slices >= 20 else "")
        name = f"{case.name} ({case.weights})" if case.weights else case.name
        print(_line([name, f"{case.rate:.2%}", case.users, f"{least:,.0f}", *cells, *ends]), flush=True)
    print(f"{sum(some)} of {len(some)} runs call any slice different ({sum(some) / len(some):.1%})")


def _line(texts: list[str]) -> str:
    widths = [24, 6, 7, *[6] * (len(SIZES) + 4)]
    cells = [text.ljust(width) if width in (24, 7) else text.rjust(width) for text, width in zip(texts, widths)]
    return "  ".join(cells).rstrip()


if __name__ == "__main__":
    main()
