"""On a device ``add`` waits for nothing, and ``compute`` once for each exchange.

All of it with a stand-in for the device, see `tests/device.py`; ``make gpu`` looks at a real one.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import Evaluator
from fleetmetrics.xp import paddle_ops, paddle_values, together_to_host
from tests.cases.base import Case, Data
from tests.contract import CASES, arguments, batches, draw, first_dtypes, same
from tests.device import LOOKED_AT, WAITS, Device, on_device
from tests.pages import both


def parts_of(name: str, weight: str | None = None, mask: bool = False) -> list[Data]:
    return [on_device(part) for part in batches(draw(name, first_dtypes(name), weight, mask))]


def watched(metric: Any, parts: list[Data]) -> Device:
    """Add the batches while the stand-in watches."""
    given = [arguments(metric, part) for part in parts]
    with Device() as device:
        for each in given:
            metric.add(**each)
    return device


def fed(name: str, weight: str | None = None, mask: bool = False, **settings: Any) -> tuple[Any, Device]:
    """A metric after all its batches; the constants have crossed with an earlier one's."""
    parts = parts_of(name, weight, mask)
    watched(CASES[name].make(**settings), parts[:1])
    metric = CASES[name].make(**settings)
    return metric, watched(metric, parts)


IN_MEMORY = [name for name, case in CASES.items() if "dynamic" in case.modes]


# -- the stand-in itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "look",
    [
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor.cpu(),
        lambda tensor: np.asarray(tensor),
        lambda tensor: tensor.sum().item(),
        lambda tensor: float(tensor.sum()),
        lambda tensor: int(tensor.sum()),
        lambda tensor: bool((tensor > 0).any()),
        lambda tensor: 1 if (tensor > 0).all() else 0,
        lambda tensor: f"{tensor.sum()}",
        lambda tensor: tensor[tensor > 1],
        lambda tensor: tensor.nonzero(),
        lambda tensor: paddle.nonzero(tensor),
        lambda tensor: paddle.unique(tensor),
        lambda tensor: paddle.masked_select(tensor, tensor > 1),
        lambda tensor: paddle.where(tensor > 1),
        lambda tensor: paddle.bincount(tensor.astype("int64")),
        lambda tensor: paddle.to_tensor([1.0]),
        lambda tensor: paddle.numel(tensor),
    ],
)
def test_the_stand_in_sees_what_waits(look):
    tensor = paddle.to_tensor([1.0, 2.0, 3.0])
    with Device() as device:
        look(tensor)
    assert sum(device.waits.values()) == 1
    with Device() as device:
        tensor.sum() + tensor[0] * tensor[1:].max()
    assert not device.waits and device.operations["sum"] == 1


def test_the_stand_in_leaves_paddle_as_it_was():
    before = [dict(vars(owner)) for owner in (paddle.Tensor, paddle, paddle._C_ops, paddle_ops)]
    with Device():
        assert vars(paddle.Tensor)["numpy"] is not before[0]["numpy"]
    assert [dict(vars(owner)) for owner in (paddle.Tensor, paddle, paddle._C_ops, paddle_ops)] == before


# -- add -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"weight": "real", "mask": True}, {"validate": False}], ids=repr)
@pytest.mark.halved
@pytest.mark.parametrize("name", IN_MEMORY)
def test_add_waits_for_nothing(name, settings):
    _, device = fed(name, **settings)
    assert set(device.waits) == WAITS.get(name, set()), device.places
    assert not set(device.operations) - LOOKED_AT


def collection() -> fm.MetricCollection:
    return fm.MetricCollection(
        {
            "auc": fm.AUC(buckets=256),
            "exact": fm.ExactAUC(),
            "accuracy": fm.Accuracy(),
            "mae": fm.MeanAbsoluteError(),
            "loss": fm.LogLoss(),
            "ece": fm.ExpectedCalibrationError(),
            "largest": fm.Max(),
            "spread": fm.MeanSquaredError() - fm.MeanAbsoluteError() ** 2,
            "window": fm.Windowed(fm.AUC(buckets=256), last=2),
            "interval": fm.Bootstrap(fm.Accuracy(), replicates=20, ids="request"),
            "slices": fm.Sliced(fm.Accuracy(), keys=[0, 1]),
            "users": fm.GAUC(),
        }
    )


def batches_of_collection() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "prediction": rng.random(16).astype("float32"),
            "label": rng.integers(0, 2, 16),
            "mask": np.arange(16) > number,
            "slot": rng.integers(0, 3, 16),
            "user": rng.integers(0, 4, 16),
            "request": rng.integers(0, 99, 16),
        }
        for number in range(4)
    ]


def test_a_collection_waits_for_nothing_and_copies_once_for_each_exchange():
    wanted, tried, metrics = collection(), collection(), collection()
    given = [{name: paddle.to_tensor(value) for name, value in part.items()} for part in batches_of_collection()]
    for part in batches_of_collection():
        wanted.add(**part)
    with Device():
        tried.add(**given[0])  # the constants
    with Device() as device:
        for part in given:
            metrics.add(**part)
    assert not device.waits, device.places
    with Device() as device:
        values = metrics.compute()
    assert device.waits == {"numpy": 3}, device.places  # the states; the scores; those by user
    reference = wanted.compute()
    for name, value in values.items():
        assert same(value, reference[name], exact=False), name
    metrics.add(**given[0])  # and it goes on
    assert metrics.compute()["exact"] > 0


def test_throughput_waits_for_nothing():
    number, seconds = paddle.to_tensor([64, 64]), paddle.to_tensor([1.5, 0.5])
    metric = fm.Throughput()
    with Device() as device:
        metric.add(number, seconds)
        metric.add(number, seconds)
    assert not device.waits and metric.compute() == 64


class Mine(fm.BaseMetric):
    def compute_metric(self, results):
        assert all(isinstance(column, np.ndarray) for column in results.values())
        return {"mean": float(results["score"].mean()), "texts": "".join(results["text"])}


def test_records_stay_on_the_device_until_compute_copies_them_at_once():
    metric, score = Mine(), paddle.to_tensor([1.0, 2.0])
    with Device() as device:
        for _ in range(3):
            metric.add(score=score, square=score * score, text=np.array(["a", "b"]))
        score.zero_()
    assert not device.waits, device.places
    copied = pickle.loads(pickle.dumps(metric))
    with Device() as device:
        assert metric.compute() == {"mean": 1.5, "texts": "ababab"}
    assert device.waits == {"numpy": 1}
    metric.add(score=score, square=score, text=np.array(["c", "d"]))
    assert metric.compute() == {"mean": 9 / 8, "texts": "abababcd"}
    assert copied.compute() == {"mean": 1.5, "texts": "ababab"}


def test_a_sample_that_is_not_a_column_is_kept_on_the_host():
    metric, evaluator = Mine(), Evaluator([{"type": "Accuracy"}])
    number = paddle.to_tensor([1])
    samples = [{"pred_score": paddle.to_tensor([0.25, 0.75]), "gt_label": number}]
    adds = (lambda: metric.add(score=number, text=["a"], ids=number), lambda: evaluator.process(samples))
    for add in adds:
        with Device() as device:
            add()
        assert set(device.waits) == {"numpy"}, "fixed: take it off the list in docs/howto/dynamic.md"


@pytest.mark.parametrize("page", both("howto/dynamic"))
def test_the_docs_have_the_list_of_what_waits(page):
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!---|call |调用)(.*?) \|", text, re.MULTILINE)
    waiting = {type(CASES[name].make()) for name in WAITS}
    assert len(rows) == 6 and waiting == {fm.Sliced, fm.BoundaryF, fm.HausdorffDistance}
    named = (
        "`Sliced`.*`keys`|`keys`.*`Sliced`",
        "`BoundaryF`.*`HausdorffDistance`",
        "text|文本",
        "`BaseMetric.add`.*`Evaluator.process`",
        "`ModelMetric`",
        "`merge`",
    )
    for row, names in zip(rows, named):
        assert re.search(names, row)


def test_weights_of_texts_are_read_on_the_host():
    with Device() as device:
        fm.WordErrorRate().add(["a b"], ["a c"], weight=paddle.ones([1]))
    assert set(device.waits) == {"numpy"}, "fixed: take it off the list in docs/howto/dynamic.md"


def test_a_constant_crosses_to_the_device_once():
    paddle_values._on_device.cache_clear()
    paddle_ops._lowest_scores.cache_clear()
    crossed = 0
    for metric in [fm.AUC(buckets=64), fm.Histogram(bins=[0.0, 0.25, 0.5])] * 2:
        label = None if isinstance(metric, fm.Histogram) else np.array([0, 1])
        crossed += watched(metric.fresh(), [on_device(Data(np.array([0.1, 0.3]), label))] * 3).waits["to_tensor"]
    assert crossed == 2


def test_invalid_samples_are_left_out_and_compute_says_so():
    metric = fm.LogLoss(name="loss")
    with Device() as device:
        metric.add(paddle.full([2], 0.5), paddle.zeros([2], "int64"))
    metric = fm.LogLoss(name="loss")
    prediction, label = paddle.to_tensor([0.5, 2.0, 0.25]), paddle.to_tensor([1, 0, 0])
    with Device() as device:
        metric.add(prediction, label)
    assert not device.waits
    with pytest.raises(fm.InvalidInputError, match="1 of 3 samples was invalid and left out, the first at position 1"):
        metric.compute()


@pytest.mark.parametrize("make", [fm.ExactAUC, fm.SpearmanCorrelation, fm.GAUC, fm.MeanAbsoluteError, fm.Max])
def test_a_tensor_that_changes_after_add_changes_nothing(make):
    metric, other = make(validate=False), make(validate=False)  # an invalid sample is cut out of a copy
    for each in (metric, other):
        given = {"prediction": paddle.to_tensor([0.1, 0.9, 0.4, 0.6]), "user": paddle.to_tensor([1, 1, 2, 2])}
        given["label"] = paddle.to_tensor([0.0, 1.0, 1.0, 0.0])
        names = (*each.arguments[: 2 if each.takes_label else 1], *each.columns)
        with Device():
            each.add(**{name: given.get(name, given["prediction"]) for name in names})
            for tensor in given.values() if each is metric else ():
                tensor.zero_()
    assert metric.compute() == other.compute()


# -- compute ---------------------------------------------------------------------------------------------


@pytest.mark.kinds
@pytest.mark.halved
@pytest.mark.parametrize("name", IN_MEMORY)
def test_compute_copies_once_for_each_exchange_and_gives_what_the_cpu_gives(name):
    case: Case = CASES[name]
    data = draw(name, first_dtypes(name), "real", mask=True)
    metric, _ = fed(name, "real", mask=True)
    exchanges = 1 + len(metric.record_folds())
    before = [state.value for state in metric._states()]
    with Device() as device:
        value = metric.compute()
    assert set(device.waits) <= {"numpy"} and device.waits["numpy"] <= exchanges, device.places
    assert all(state.value is each for state, each in zip(metric._states(), before))
    wanted = case.make()
    for part in batches(data):
        wanted.add(**arguments(wanted, part))
    assert same(value, wanted.compute(), exact=False, tolerance=max(case.tolerance, 1e-11))
    with Device() as device:
        assert same(metric.compute(), value, exact=True)


# -- from a device to the host ---------------------------------------------------------------------------


def test_tensors_of_all_dtypes_and_shapes_cross_together():
    rng = np.random.default_rng(0)
    arrays = [
        rng.random(3) < 0.5,
        rng.random([2, 3]),
        rng.random([3, 1]).astype("float32"),
        rng.integers(-(2**63), 2**63 - 1, [5]),
        np.array(7),
        np.array(-0.0),
        np.array([np.nan, np.inf]),
        rng.integers(-100, 100, 7).astype("int8"),
        rng.integers(0, 200, 3).astype("uint8"),
        rng.integers(-(2**15), 2**15, 3).astype("int16"),
        rng.integers(-(2**31), 2**31, 3).astype("int32"),
        rng.random(3).astype("float16"),
        np.array(True),
    ]
    tensors = [paddle.to_tensor(array) for array in arrays]
    for at_once in (2**28, 64, 0):
        for array, found in zip(arrays, paddle_ops.hosts(tensors, at_once)):
            assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    rounded = paddle_ops.hosts([tensors[1].astype("bfloat16"), tensors[3]])
    assert rounded[0].dtype == np.float32 and (rounded[1] == arrays[3]).all()


def test_what_is_on_the_host_stays_as_it_is_among_what_crosses():
    array, tensor = np.arange(3), paddle.arange(3)
    with Device() as device:
        ((none, same_array, crossed, text), ()) = together_to_host([(None, array, tensor, "text"), ()])
    assert device.waits == {"numpy": 1}
    assert none is None and same_array is array and text == "text" and (crossed == array).all()


@pytest.mark.parametrize(
    "value",
    [0.1, -0.0, 1e308, 5e-324, np.inf, -np.inf, 2**-1074 * 3, 2**62 + 1, -(2**63), 2**63 - 1, 2**53 + 1, -7, True],
)
def test_a_number_is_made_on_the_device_to_the_last_bit(value):
    array = np.asarray(value)
    with Device() as device:
        tensor = paddle_ops.asarray(value, "value")
    assert not device.waits and tensor.numpy().tobytes() == array.tobytes() and tensor.shape == []
