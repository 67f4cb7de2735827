"""Every metric says where its values lie, when it has none, where it comes from, and what others call it."""

from __future__ import annotations

import math
import re
import warnings

import pytest

import fleetmetrics as fm
from fleetmetrics.words.catalogue import entries, owners
from tests.contract import CASES

pytestmark = pytest.mark.numpy_only

#: Libraries whose users look for their names here.
LIBRARIES = "DeepCTR EasyRec Evidently MCGrad Paddle RecBole TFMA TorchEasyRec TorchRec ranx scikit-learn torcheval"


def metrics() -> list[str]:
    places = ("fleetmetrics.metrics.", "fleetmetrics.vision.", "fleetmetrics.wrappers.", "fleetmetrics.base.collection")
    kinds = [getattr(fm, name) for name, module in fm._modules.items() if module.startswith(places)]
    return [kind.__name__ for kind in kinds if isinstance(kind, type) and hasattr(kind, "compute")]


@pytest.mark.parametrize("name", metrics())
def test_the_entry_of_a_metric_has_every_fact_of_its_page(name):
    assert name in entries(), f"write [{name}] into fleetmetrics/words/en.ini and zh.ini, then run `make names`"
    entry = entries()[name]
    missing = [field for field in ("range", "undefined", "source", "definition") if not getattr(entry, field)]
    assert not missing, f"[{name}] in fleetmetrics/words/*.ini lacks {missing}"
    assert "中文" in entry.elsewhere, f"[{name}] in fleetmetrics/words/zh.ini lacks names"
    assert entry.definition.endswith("。") and re.search("[\u4e00-\u9fff]", entry.definition)
    assert all(name.strip() == name != "" for names in entry.elsewhere.values() for name in names), entry.names


def test_no_entry_is_of_a_metric_that_there_is_not_and_every_library_is_there():
    gone = set(entries()) - set(metrics())
    assert not gone, f"fleetmetrics/words/en.ini has entries of {gone}, which are no metrics; remove them"
    libraries = {library for entry in entries().values() for library in entry.elsewhere}
    assert libraries == {*LIBRARIES.split(), "torchmetrics", "others", "中文"}


def test_where_neither_direction_is_better_a_number_says_what_is_best_or_none_is():
    for name, entry in entries().items():
        kind = getattr(fm, name)
        if entry.best:
            assert not kind.better and entry.better(kind) == f"the closer to {entry.best}"
    assert entries()["AUC"].better(fm.AUC) == "higher values"
    assert entries()["ROCCurve"].better(fm.ROCCurve) == "the value is not a single number"
    assert entries()["ClickThroughRate"].better(fm.ClickThroughRate) == "neither higher nor lower values"


def test_a_name_that_several_metrics_have_is_the_first_ones():
    assert owners()["PCOC"] == owners()["点击率校准"] == "Calibration" and owners()["roc_auc_score"] == "AUC"
    assert owners()["Auc"] == owners()["paddle.metric.Auc"] == "AUC"
    assert not [name for name in owners() if "(" in name]


@pytest.mark.parametrize("case", sorted(CASES))
def test_without_samples_a_metric_is_defined_where_its_entry_says_never(case):
    metric = CASES[case].make()
    entry = entries()[type(metric).__name__]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = metric.compute_local()
    undefined = any(issubclass(each.category, fm.UndefinedMetricWarning) for each in caught)
    if isinstance(value, float):
        assert undefined == math.isnan(value)
    if entry.undefined.startswith("never"):
        assert not undefined, entry.undefined
