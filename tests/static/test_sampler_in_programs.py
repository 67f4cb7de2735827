"""A static program runs ``add`` for every batch, and Python only once: it takes flags, and no sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from tests.contract import new_programs


def sampler() -> Any:
    return paddle.io.DistributedBatchSampler(range(10), 2, num_replicas=3, rank=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: fm.Accuracy(name="it", **more),
        lambda **more: fm.MetricCollection({"accuracy": fm.Accuracy()}, name="it", **more),
    ],
)
def test_a_sampler_is_refused_and_the_flags_that_the_error_names_are_right(make: Any) -> None:
    with new_programs() as (main, startup):
        prediction = paddle.static.data("prediction", [None], "float32")
        label = paddle.static.data("label", [None], "int64")
        mask = paddle.static.data("mask", [None], "bool")
        metric = make(sampler=sampler())
        with pytest.raises(fm.StaticProgramError, match=r"it.* has a sampler.* mask=flags.* fleetmetrics.padding_mask"):
            metric.add(prediction, label)
        metric.sampler = None  # none of the batch was added
        metric.add(prediction, label, mask=mask)
        executor, scope = paddle.static.Executor(), paddle.static.Scope()
        with paddle.static.scope_guard(scope):
            executor.run(startup)
            flags = ~fm.padding_mask(sampler())
            for start in range(0, 4, 2):
                feed = {
                    "prediction": np.array([0.9, 0.2], np.float32),
                    "label": np.array([1, 1]),
                    "mask": flags[start : start + 2],
                }
                executor.run(main, feed=feed)
        value = metric.compute(scope)
    assert flags.tolist() == [True, True, False, False]
    assert value in (0.5, {"accuracy": 0.5})


@pytest.mark.parametrize("width", [None, 3])
def test_the_samples_of_each_run_are_counted_where_the_size_of_the_data_is_given(width: Any) -> None:
    shape = [None] if width is None else [None, width]
    with new_programs() as (main, startup):
        prediction = paddle.static.data("prediction", shape, "float32")
        label = paddle.static.data("label", shape, "int64")
        mask = paddle.static.data("mask", [None], "bool")
        every, some = fm.Accuracy(name="every", size=5), fm.Accuracy(name="some", size=5)
        every.add(prediction, label)
        some.add(prediction, label, mask=mask)
        executor, scope = paddle.static.Executor(), paddle.static.Scope()
        with paddle.static.scope_guard(scope):
            executor.run(startup)
            for flags in ([True, True, True], [False, True, True]):
                feed = {"prediction": np.full([3, *shape[1:]], 0.9, np.float32), "label": np.ones([3, *shape[1:]], int)}
                executor.run(main, feed={**feed, "mask": np.array(flags)})
        with pytest.warns(
            fm.SizeWarning, match=r"6 samples were counted, but the data set has 5 \(size=\). .*sampler="
        ):
            every.compute(scope)
        assert some.compute(scope) == 1.0
