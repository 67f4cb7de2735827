"""Write the reports of five data sets, each with one bad slice planted in it, into a folder.

    python docs/scripts/reports.py FOLDER

Clicks at a rate of 0.02 % and of 3 %, diabetes (regression), digits (ten classes), ranked answers, and two models of
the same rows by id. The test of this script looks at what the first line says and at which slices are called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Mapping

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import fleetmetrics as fm


def clicks(rate: float, rows: int, share: float = 0.1) -> dict[str, Any]:
    """Calibrated scores of clicks, by twenty slots; in "slot-07" the score says nothing."""
    random = np.random.default_rng(3)
    odds = random.normal(0, 1.6, rows) + np.log(rate) - 1.1
    score = 1 / (1 + np.exp(-odds))
    score *= rate / score.mean()
    slot = np.where(random.random(rows) < share, 7, random.integers(0, 20, rows))
    label = random.random(rows) < np.where(slot == 7, rate, np.minimum(score, 1))
    names = np.array([f"slot-{each:02d}" for each in range(20)])
    return {"y": label.astype(np.int64), "p": np.minimum(score, 1), "slot": names[slot]}


def rare() -> Any:
    return fm.evaluate(clicks(0.0002, 1_000_000, 0.3), label="y", score="p", by="slot", ci=0.95)


def three_percent() -> Any:
    return fm.evaluate(clicks(0.03, 200_000), label="y", score="p", by="slot", ci=0.95)


def diabetes() -> Any:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import LinearRegression

    x, y = load_diabetes(return_X_y=True)
    random = np.random.default_rng(0)
    clinic = random.integers(0, 6, len(y))
    score = LinearRegression().fit(x, y).predict(x)
    score[clinic == 2] = random.permutation(score[clinic == 2]) + 60
    frame = {"y": y, "p": score, "clinic": clinic}
    return fm.evaluate(frame, label="y", score="p", task="regression", by="clinic", ci=0.95)


def digits() -> Any:
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    x, y = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    scores = GaussianNB(var_smoothing=0.01).fit(x[::2], y[::2]).predict_proba(x)
    camera = random.integers(0, 8, len(y))
    scores[camera == 5] = random.permutation(scores[camera == 5])
    frame = {"y": y, "camera": camera, **{f"p{each}": scores[:, each] for each in range(10)}}
    names = [f"p{each}" for each in range(10)]
    return fm.evaluate(frame, label="y", score=names, task="multiclass", by="camera", ci=0.95)


def ranking() -> Any:
    random = np.random.default_rng(0)
    queries, answers = 3000, 20
    query = np.repeat(np.arange(queries), answers)
    country = np.repeat(random.integers(0, 8, queries), answers)
    quality = random.normal(0, 1, len(query))
    relevant = (quality + random.normal(0, 0.7, len(query)) > 1.2).astype(np.int64)
    score = np.where(country == 3, random.normal(0, 1, len(query)), quality)
    frame = {"y": relevant, "p": score, "q": query, "country": np.array(list("abcdefgh"))[country]}
    return fm.evaluate(frame, label="y", score="p", user="q", task="ranking", by="country", ci=0.95)


def two_models() -> Any:
    new = clicks(0.1, 60_000)
    new["id"] = np.arange(60_000)
    random = np.random.default_rng(1)
    odds = np.log(new["p"]) + random.normal(0, 0.8, 60_000)
    old = {**new, "p": np.minimum(np.exp(odds), 1)}
    back = random.permutation(60_000)
    baseline = {name: column[back] for name, column in old.items()}
    asked: Mapping[str, Any] = {"label": "y", "score": "p", "by": "slot", "join_on": "id", "metrics": "auc,log_loss"}
    return fm.evaluate(new, baseline=baseline, **asked)


#: The slice that is bad, by column and key, in each set.
PLANTED: dict[str, tuple[str, Any]] = {
    "rare": ("slot", "slot-07"),
    "three_percent": ("slot", "slot-07"),
    "diabetes": ("clinic", 2),
    "digits": ("camera", 5),
    "ranking": ("country", "d"),
    "two_models": ("slot", "slot-07"),
}
SETS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (rare, three_percent, diabetes, digits, ranking, two_models)
}
CONDITIONS = {"two_models": ["auc_delta.low<0", "log_loss_delta.high>0"], "three_percent": ["auc<0.9"]}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in SETS.items():
        found = make()
        for lang in ("en", "zh"):
            found.to_html(folder / f"{name}-{lang}.html", lang, CONDITIONS.get(name, ()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
