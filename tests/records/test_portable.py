"""Records are the same on one worker and on several: what has an array travels, and what cannot is named."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

import fleetmetrics as fm
from fleetmetrics.serial.serializer import pack, portable, unpack
from tests.fakes import together

WITH_TORCH = importlib.util.find_spec("torch") is not None


class Kept(fm.BaseMetric):
    """Appends what it gets, and returns what it kept."""

    def add(self, records: Any) -> None:
        self._results.extend(records)

    def compute_metric(self, results: Any) -> Any:
        return [shown(each) for each in results]


class Columns(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return [shown(each) for each in results["column"]]


class Picture:
    """Like an image of PIL."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([[1, 2], [3, 4]], np.uint8)


class Box:
    """Has no array."""


def shown(value: Any) -> Any:
    """A record in words: its class, dtype and entries."""
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shown, value)]
    kind = f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"
    entries = value.float() if "torch" in kind else value
    return [kind, str(getattr(value, "dtype", "")), np.asarray(entries).tolist()]


def travelling() -> list[Any]:
    found = [
        Picture(),
        {"image": Picture(), "score": 0.5},
        pd.Series([1.5, 2.5]),
        [pd.array([1, 2], dtype="int64"), (pd.Index([3]),)],
        np.array([1.5, 2.25], ml_dtypes.bfloat16),
        ml_dtypes.bfloat16(0.5),
        np.ma.array([1, 2]),
        np.asmatrix([[1.0, 2.0]]),
        np.array([1.5, 2.5]),
        7,
        "text",
        None,
    ]
    if WITH_TORCH:
        import torch

        found += [
            torch.tensor(True),
            torch.tensor([1.5, 2.25], requires_grad=True),
            {"score": torch.tensor(0.5).bfloat16()},
            [torch.tensor([3]), (torch.tensor(2.0).to(torch.float8_e5m2),)],
            torch.nn.Parameter(torch.ones(2, 2)),
        ]
    return found


def test_what_has_an_array_is_the_same_record_on_one_worker_and_on_two() -> None:
    def work(channel: Any) -> Any:
        metric = Kept()
        metric.dist_comm = channel
        metric.add(travelling())
        return metric.compute()

    alone = Kept()
    alone.add(travelling())
    value = alone.compute()
    assert alone.compute_local() == value
    assert value[0] == ["numpy ndarray", "uint8", [[1, 2], [3, 4]]]
    assert value[1] == {"image": value[0], "score": ["builtins float", "", 0.5]}
    assert value[4] == ["numpy ndarray", "float32", [1.5, 2.25]]
    for found in together([work, work]):
        assert found == [each for pair in zip(value, value) for each in pair]  # one of each worker in turn


NOT_TRAVELLING: dict[str, Any] = {
    "an object": Box(),
    "in a dict": {"boxes": [Box()]},
    "missing values": pd.array([1, None], dtype="Int64"),
    "masked": np.ma.array([1, 2], mask=[False, True]),
    "an array of objects": np.array([Box()]),
    "a function": len,
}


TOLD = r"records\[1\].* is .*no array form"


@pytest.mark.parametrize("what", NOT_TRAVELLING)
def test_what_cannot_travel_is_an_error_on_several_workers_and_a_warning_on_one(what: str) -> None:
    def work(channel: Any) -> Any:
        metric = Kept()
        metric.dist_comm = channel
        metric.add([1, NOT_TRAVELLING[what]])
        with pytest.raises(fm.RecordError, match=TOLD):
            metric.compute()
        return len(metric._results)

    assert together([work, work]) == [2, 2]
    alone = Kept()
    alone.add([1, NOT_TRAVELLING[what]])
    with pytest.warns(UserWarning, match=TOLD + ".*with several, this is a RecordError"):
        assert len(alone.compute()) == 2


def test_columns_are_warned_of_too_and_nothing_is_where_pickles_are_allowed_or_sums_suffice() -> None:
    metric = Columns()
    metric.add(column=[1, Box()])
    with pytest.warns(UserWarning, match=r"records\[1\] is .*Box, which has no array form"):
        metric.compute()

    class Summed(Kept):
        def summarize(self, results: Any) -> Any:
            return {"n": np.array(len(results))}

        def compute_from(self, states: Any) -> Any:
            return int(states["n"])

    summed, there = Summed(), Kept(allow_pickle=True)
    summed.add([Box(), Box()])
    there.add([pd.Series([1.5]), 2.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert summed.compute() == 2
        assert there.compute()[0] == ["pandas Series", "float64", [1.5]]


def test_records_of_the_usual_kinds_are_not_copied() -> None:
    records = [{"score": np.ones(2), "name": "a"}, (1, [2.0, None])]
    assert portable(records) is records
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(fm.RecordError, match="nested too deeply"):
        portable([endless])


@pytest.mark.skipif(not WITH_TORCH, reason="torch is not installed")
def test_tensors_of_torch_come_back_as_they_were() -> None:
    import torch

    given = [torch.arange(3), torch.tensor(1.5).bfloat16(), torch.tensor([True]), torch.zeros(0, 2), torch.tensor(1j)]
    packed = pack(given)
    found = unpack(packed.layout, bytearray(b"".join(packed.buffers)))
    assert all(one.dtype == other.dtype and torch.equal(one, other) for one, other in zip(given, found))
    for bad in (torch.eye(2).to_sparse(), torch.ones(2, device="meta")):
        with pytest.raises(fm.RecordError, match=r"records\[0\] is a torch tensor without an array form"):
            pack([bad])
    for layout in ([1, ["torch", "torch.save", ["arrays", "<f4", [1]]]], [1, ["torch", "x", ["number", "<f4"]]]):
        with pytest.raises(fm.RecordError):
            unpack(layout, bytes(8))
