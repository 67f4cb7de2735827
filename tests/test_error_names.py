"""Every error of add and compute says which metric of which class it is about, in a collection by its key."""

from __future__ import annotations

import re

import pytest

import fleetmetrics as fm
from tests.contract import static_mode


def told(call, *args, **given):
    with pytest.raises(fm.InvalidInputError) as caught:
        call(*args, **given)
    return str(caught.value)


BAD = {
    "value": ([0.5, 7.0], [0, 1], {}, "prediction must be a probability"),
    "label": ([0.5, 0.5], [0, 7], {}, "label must be a class"),
    "shape": ([0.5, 0.5], [0, 1, 1], {}, "label has shape [3] but prediction has [2]"),
    "dtype": (["a", "b"], [0, 1], {}, "prediction must hold bools, integers or floats"),
    "columns": ([[0.2, 0.3, 0.5]] * 2, [0, 1], {}, "prediction has shape [n, 3]"),
    "weight": ([0.5, 0.5], [0, 1], {"weight": [1, -1]}, "weight must be a finite number of at least 0"),
    "mask": ([0.5, 0.5], [0, 1], {"mask": [0.5, 1]}, "mask must be True or False"),
    "no label": ([0.5, 0.5], None, {}, "label is missing"),
}
OF_THE_BATCH = ("shape", "dtype", "weight", "mask")  # any check of it


@pytest.mark.parametrize("bad", BAD)
def test_a_metric_is_named_with_its_class(bad):
    prediction, label, more, text = BAD[bad]
    assert re.match(r"auc_\d+ \(AUC\): ", told(fm.AUC().add, prediction, label, **more))
    metric = fm.AUC(name="ctr")
    assert told(metric.add, prediction, label, **more).startswith(f"ctr (AUC): {text}")


@pytest.mark.parametrize("bad", BAD)
def test_a_member_of_a_collection_is_named_by_its_key(bad):
    prediction, label, more, text = BAD[bad]
    metrics = fm.MetricCollection(
        {"clicks": fm.Count(), "area": fm.AUC(), "error": fm.MeanAbsoluteError()}, name="test"
    )
    owner = "test (MetricCollection)" if bad in OF_THE_BATCH else "test['area'] (AUC)"
    assert told(metrics.add, prediction, label, **more).startswith(f"{owner}: {text}")


def test_the_repr_of_a_wrapper_names_its_metric():
    metric = fm.Sliced(fm.AUC(), by="slot", name="slots")
    assert told(metric.add, [7.0], [1], slot=[1]).startswith("slots (Sliced(AUC)): prediction must be a probability")


def test_a_missing_column_is_named_with_the_member_that_needs_it():
    metrics = fm.MetricCollection({"area": fm.AUC(), "by_user": fm.GAUC()}, name="test")
    assert told(metrics.add, [0.5], [1]).startswith("test['by_user'] (GAUC): user is missing; pass add(..., user=)")
    assert told(fm.GAUC(name="mine").add, [0.5], [1]).startswith("mine (GAUC): user is missing")
    assert told(metrics.add, [0.5, 0.5], [1, 0], user=[1]).startswith("test (MetricCollection): user has shape [1]")


def test_a_missing_argument_is_named_with_the_members_that_need_it():
    import paddle

    metrics = fm.MetricCollection(
        {"clicks": fm.Count(), "area": fm.AUC(), "error": fm.MeanAbsoluteError()}, name="test"
    )
    scope, main, startup = paddle.static.Scope(), paddle.static.Program(), paddle.static.Program()
    with static_mode(), paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        p, y = paddle.static.data("p", [-1], "float32"), paddle.static.data("y", [-1], "int64")
        metrics.add(p, y)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        executor.run(main, feed={"p": [7.0], "y": [1]})
    text = told(metrics.compute, scope)
    assert text.startswith("test (MetricCollection): 1 of 1 sample was invalid and left out")
    assert re.search(r"prediction: a probability in [^;]* \(required by test\['area'\] \(AUC\)\); ", text)
    assert "weight: a finite number of at least 0; " in text


def test_an_error_of_a_value_names_the_member():
    class Broken(fm.Metric):
        def __init__(self):
            super().__init__()
            self.declare("total", key="total")

        def batch_statistics(self, batch):
            return {"total": batch.total}

        def formula(self, total):
            raise fm.InvalidInputError("total must be prime")

    metrics = fm.MetricCollection({"fine": fm.Count(), "prime": Broken()}, name="test")
    metrics.add([1.0])
    assert told(metrics.compute) == told(metrics.compute_local) == "test['prime'] (Broken): total must be prime"
