"""One idea has one argument, in every metric: the table of the glossary says the rule, and this holds it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

import fleetmetrics as fm
from fleetmetrics import evaluator
from fleetmetrics.metrics.buckets import BucketHistogram

pytestmark = pytest.mark.numpy_only

GLOSSARY = Path(__file__).resolve().parents[1] / "docs" / "explanation"
#: The default of ``average``, by what is averaged.
AVERAGES = {
    **dict.fromkeys(["AUC", "AveragePrecision", "LogLoss", "MultiLabelMetric", "SingleLabelMetric"], "macro"),
    **dict.fromkeys(["AdaptiveCalibrationError", "ExpectedCalibrationError"], "macro"),
    **dict.fromkeys(["F1", "FBeta", "Jaccard", "Precision", "Recall", "Specificity"], "auto"),
    **dict.fromkeys(["Dice", "MeanIoU", "PixelAccuracy"], "auto"),
    "Accuracy": "micro",
    "StatScores": None,
}


def _of(*folders: str) -> Callable[[Any], bool]:
    return lambda owner: any(f"fleetmetrics.{folder}." in f"{owner.__module__}." for folder in folders)


#: Which owners may have each argument.
RULES: dict[str, Callable[[Any], bool]] = {
    "buckets": lambda owner: issubclass(owner, BucketHistogram),
    "bins": lambda owner: (
        owner.gives in ("curve", "counts", "parts")
        or owner in (fm.ExpectedCalibrationError, fm.AdaptiveCalibrationError)
    ),
    "thresholds": lambda owner: owner is fm.ThresholdSweep,
    "fractions": lambda owner: issubclass(owner, fm.CumulativeGain),
    "k": _of("metrics.ranking"),
    "top_k": _of("metrics.classification"),
    "topk": _of("evaluator", "vision"),
    "by": _of("metrics.ranking", "metrics.by_user", "wrappers.sliced", "evaluation"),
    "ids": _of("wrappers"),
    "join_on": lambda owner: owner in (fm.consistency, fm.evaluate),
    "confidence": _of("wrappers", "formulas"),
    "ci": lambda owner: owner is fm.evaluate,
    "replicates": lambda owner: owner in (fm.evaluate, fm.Bootstrap, fm.BootstrapResult),
    "average": lambda owner: owner.__name__ in AVERAGES,
}
#: What other libraries call these, or some function here once did, and this one does not.
FOREIGN = {"n_bins", "num_bins", "num_buckets", "n_thresholds", "at", "ks", "group_by", "user_ids", "on", "averaging"}
FOREIGN |= {"id", "draws", "logits"}


def arguments() -> Iterator[tuple[Any, inspect.Parameter]]:
    owners = [getattr(fm, name) for name in fm.__all__] + [getattr(evaluator, name) for name in evaluator.__all__]
    for owner in owners:
        if callable(owner) and not (isinstance(owner, type) and issubclass(owner, BaseException)):
            yield from ((owner, parameter) for parameter in inspect.signature(owner).parameters.values())


@pytest.mark.parametrize("name", RULES)
def test_an_argument_of_this_name_is_where_the_rule_has_it(name: str) -> None:
    owners = [owner for owner, parameter in arguments() if parameter.name == name]
    assert owners and [owner.__name__ for owner in owners if not RULES[name](owner)] == []


def test_no_argument_has_the_name_that_another_library_gives_it() -> None:
    assert {(owner.__name__, each.name) for owner, each in arguments() if each.name in FOREIGN} == set()


def test_each_default_of_average_is_that_of_its_family() -> None:
    defaults = {owner.__name__: each.default for owner, each in arguments() if each.name == "average"}
    assert defaults == AVERAGES


@pytest.mark.parametrize("page", ["glossary.md", "glossary.zh.md"])
def test_the_glossary_has_a_row_for_each(page: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (GLOSSARY / page).read_text("utf-8"), re.MULTILINE)
    assert rows == list(RULES)
