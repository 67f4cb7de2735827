"""Count how often an Interval of 95 % holds the true value, by metric, number of samples and rate of clicks.

    python docs/scripts/intervals.py [--sets 2000] [--first 0] [--only "2,000 users"] [--processes 2]

The probability of a click is a sigmoid of what a user and what a sample adds, of eight levels each, so that the true
value of each metric is a sum over 64 kinds of samples. Without users each sample is independent. "weighted": the
weights have a log-normal distribution. "uneven users": so have the numbers of their samples. Errors of numbers have
the distribution that the heading names. "-" is a size of which
fewer than 1 in 100 data sets get an interval; where more than 1 in 100 get none, their share is behind the coverage,
which is that of the data sets whose clicks happened to suffice.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Iterable, NamedTuple

import numpy as np

import fleetmetrics as fm

LEVELS = np.linspace(-1.75, 1.75, 8)
#: Of another score, which orders what a sample adds wrongly at times.
OTHER = np.array([-1.0, -1.75, 0.25, -0.5, 0.75, -0.25, 1.0, 1.75])
ROWS = 6  #: of a user, on average
CLICKS = 0.3  #: the rate of GAUC's samples, of which only the order counts
HITS = 0.95  #: how many users have their click on top for sure


class Size(NamedTuple):
    """A kind of data sets: independent samples, or users with several."""

    size: int
    rate: float
    kind: str  # "samples", "weighted samples", "users", "uneven users"

    @property
    def by_user(self) -> bool:
        return "users" in self.kind

    def __str__(self) -> str:
        return f"{self.size:,} {self.kind}, {100 * self.rate:g} %"


class Errors(NamedTuple):
    """Numbers with errors of a distribution."""

    size: int
    kind: str

    def __str__(self) -> str:
        return f"{self.size:,} {self.kind} errors"


_SAMPLES = ((1_000, 0.01), (300, 0.5), (1_000, 0.5), (1_000, 0.1), (10_000, 0.1), (10_000, 0.02), (20_000, 0.01))
_USERS = ((200, 0.5), (400, 0.1), (2_000, 0.1), (2_000, 0.02))
TABLES = [
    [*(Size(*each, "samples") for each in _SAMPLES), Size(5_000, 0.5, "weighted samples")],
    [*(Size(*each, "users") for each in _USERS), Size(2_000, 0.1, "uneven users")],
    [Errors(size, kind) for kind in ("normal", "Student's t(5)", "log-normal") for size in (200, 2_000)],
]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


class World:
    """Samples of a rate of clicks, and the true values of the metrics."""

    def __init__(self, rate: float) -> None:
        low, high, every = -30.0, 30.0, np.add.outer(LEVELS, LEVELS).ravel()
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if sigmoid(middle + every).mean() < rate else (low, middle)
        self.p, self.q = sigmoid(low + every), sigmoid(low + np.add.outer(LEVELS, OTHER).ravel())

    def draw(self, random: np.random.Generator, users: Any) -> tuple[Any, Any, Any]:
        """Labels and both scores of samples, by the number of the user of each."""
        place = 8 * random.integers(0, 8, users[-1] + 1)[users] + random.integers(0, 8, len(users))
        return random.random(len(users)) < self.p[place], self.p[place], self.q[place]

    def area(self, score: Any) -> float:
        order = np.argsort(score, kind="stable")
        _, place = np.unique(score[order], return_inverse=True)
        ones, zeros = (np.bincount(place, each[order]) for each in (self.p, 1 - self.p))
        return float(ones @ (np.cumsum(zeros) - zeros / 2) / ones.sum() / zeros.sum())

    def precision(self, score: Any) -> float:
        order = np.argsort(-score, kind="stable")
        _, place = np.unique(-score[order], return_inverse=True)
        ones, zeros = (np.bincount(place, each[order]) for each in (self.p, 1 - self.p))
        return float(ones @ (np.cumsum(ones) / np.cumsum(ones + zeros)) / ones.sum())

    def true(self) -> dict[str, float]:
        p, q = self.p, self.q
        rate, loss = p.mean(), -(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
        root = math.sqrt((p * (1 - p)).mean())
        return {
            "AUC": self.area(p),
            "AUC, difference": self.area(p) - self.area(q),
            "AveragePrecision": self.precision(p),
            "ClickThroughRate": rate,
            "COPC": 1.0,
            "LogLoss": loss,
            "NormalizedEntropy": loss / -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate)),
            "RootMeanSquaredError": root,
            "RootMeanSquaredError, difference": root - math.sqrt((p * (1 - q) ** 2 + (1 - p) * q**2).mean()),
            "GAUC": 0.5 * (1 + math.erf(0.5)),  # scores of clicks are one standard deviation higher
            "GAUC, difference": 0.0,
            "HitRate": HITS + (1 - HITS) * -math.expm1(1 - ROWS) / (ROWS - 1),  # others by chance
        }


class OfClicks:
    """The metrics of clicks, which are reset for each data set."""

    def __init__(self, size: Size) -> None:
        self.size, self.world = size, World(size.rate)
        self.true = self.world.true()
        areas = {"AUC": fm.AUC(tolerance=None), "AveragePrecision": fm.AveragePrecision(tolerance=None)}
        names = ("ClickThroughRate", "COPC", "LogLoss", "NormalizedEntropy", "RootMeanSquaredError")
        pair = ("AUC", "RootMeanSquaredError")
        plain = {**areas, **{name: getattr(fm, name)() for name in names}}
        by_user = {name: fm.Interval(each, ids="user") for name, each in plain.items()}
        alone = {name: fm.Interval(each) for name, each in plain.items()}
        own = {name: each for name, each in by_user.items() if name not in pair} if size.by_user else alone
        self.all = fm.MetricCollection(own)
        self.pair = fm.MetricCollection({name: by_user[name] for name in pair})
        self.grouped = fm.Interval(fm.GAUC())
        self.hits = fm.Interval(fm.HitRate(1, by="user"))

    def of(self, random: np.random.Generator) -> dict[str, Any]:
        """Those of one data set, and of differences over the same samples."""
        size, by_user, users = self.size.size, self.size.by_user, np.arange(self.size.size)
        if by_user:
            uneven = random.lognormal(-0.5, 1, size) if "uneven" in self.size.kind else 1
            users = np.repeat(users, 1 + random.poisson((ROWS - 1) * uneven, size))
        label, p, q = self.world.draw(random, users)
        more = {"user": users} if by_user else {}
        if "weighted" in self.size.kind:
            more["weight"] = random.lognormal(-0.5, 1, size)
        found = self.computed(self.all, p, label, **more)
        one, other = (self.computed(self.pair, score, label, user=users) for score in (p, q))
        found = {**one, **found}
        for name in one:
            found[f"{name}, difference"] = fm.paired_difference(one[name], other[name])
        if by_user:
            label, common = random.random(len(users)) < CLICKS, random.standard_normal(len(users))
            one, other = (
                self.computed(
                    self.grouped,
                    label + (common + random.standard_normal(len(users))) / math.sqrt(2),
                    label,
                    user=users,
                )
                for _ in range(2)
            )
            found.update({"GAUC": one, "GAUC, difference": fm.paired_difference(one, other)})
        if self.size.kind == "users":
            first = np.diff(users, prepend=-1) > 0  # the only click of a user, which mostly has the highest score
            score = np.where(first & (random.random(len(users)) < HITS), 2, random.random(len(users)))
            found["HitRate"] = self.computed(self.hits, score, first, user=users)
        return found

    @staticmethod
    def computed(metric: Any, *given: Any, **columns: Any) -> Any:
        metric.reset()
        metric.add(*given, **columns)
        return metric.compute()


class OfErrors:
    """The metrics of numbers."""

    def __init__(self, size: Errors) -> None:
        self.size = size
        names = ("MeanAbsoluteError", "MeanSquaredError", "RootMeanSquaredError", "MeanBias")
        self.all = fm.MetricCollection({name: fm.Interval(getattr(fm, name)()) for name in names})
        absolute, square, bias = {
            "normal": (math.sqrt(2 / math.pi), 1, 0),
            "Student's t(5)": (8 * math.sqrt(5) / (6 * math.pi), 5 / 3, 0),
            "log-normal": (math.exp(0.5), math.exp(2), math.exp(0.5)),
        }[size.kind]
        self.true = dict(zip(names, (absolute, square, math.sqrt(square), bias)))

    def of(self, random: np.random.Generator) -> dict[str, Any]:
        """Those of one data set."""
        draw = {"normal": random.standard_normal, "log-normal": lambda n: random.lognormal(0, 1, n)}
        error = draw.get(self.size.kind, lambda n: random.standard_t(5, n))(self.size.size)
        label = random.standard_normal(self.size.size)
        self.all.reset()
        self.all.add(label + error, label)
        found: dict[str, Any] = self.all.compute()
        return found


def made(size: Size | Errors) -> OfClicks | OfErrors:
    """The metrics of a kind of data sets."""
    return OfErrors(size) if isinstance(size, Errors) else OfClicks(size)


def ends(size: Size | Errors, seeds: Iterable[int]) -> dict[str, list[tuple[float, float]]]:
    """Of each interval of each data set."""
    intervals, rate = made(size), getattr(size, "rate", 0)
    found: dict[str, list[tuple[float, float]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
        for seed in seeds:
            for name, each in intervals.of(np.random.default_rng([size.size, int(1e6 * rate), seed])).items():
                found.setdefault(name, []).append((each.low, each.high))
    return found


def coverage(found: Iterable[tuple[float, float]], true: float) -> tuple[float, float]:
    """How many of the intervals that there are hold the true value, and how many data sets have none."""
    low, high = np.array(found).T
    none = np.isnan(low)
    held = (low <= true) & (true <= high)
    return float(held[~none].mean()) if not none.all() else math.nan, float(none.mean())


def cell(held: float, none: float) -> str:
    if none > 0.99:
        return "-"
    return f"{100 * held:.1f}" + (f" ({100 * none:.0f} % none)" if none > 0.01 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=2000, help="data sets of each size")
    parser.add_argument("--first", type=int, default=0, help="the number of the first: others are drawn")
    parser.add_argument("--only", default="", metavar="TEXT", help="sizes that have this in their heading")
    parser.add_argument("--processes", type=int, help="how many processes work: one for each core")
    options = parser.parse_args()
    began, stop = time.time(), options.first + options.sets
    parts = [range(each, min(each + 100, stop)) for each in range(options.first, stop, 100)]
    with ProcessPoolExecutor(options.processes) as pool:
        tables = [[size for size in table if options.only in str(size)] for table in TABLES]
        under_way = [[(size, [pool.submit(ends, size, part) for part in parts]) for size in table] for table in tables]
        for table in filter(None, under_way):
            print_table(table)
    print(f"{options.sets:,} data sets of each size, {time.time() - began:.0f} s")


def print_table(table: list[tuple[Size | Errors, list[Any]]]) -> None:
    """A line for each metric, a column for each size; "" where a metric is not of this size."""
    print("| metric |" + "".join(f" {size} |" for size, _ in table))
    print("| --- |" + " --- |" * len(table))
    columns: list[dict[str, str]] = []
    for size, parts in table:
        done, true = [each.result() for each in parts], made(size).true
        every = {name: [each for part in done for each in part[name]] for name in true if name in done[0]}
        columns.append({name: cell(*coverage(each, true[name])) for name, each in every.items()})
    for name in dict.fromkeys(name for column in columns for name in column):
        print(f"| {name} | " + " | ".join(column.get(name, "") for column in columns) + " |", flush=True)
    print(flush=True)


if __name__ == "__main__":
    main()
