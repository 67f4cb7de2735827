"""Tensors of torch on the CPU go in; where torch is missing, by a stand-in that behaves as its tensors do."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import fleetmetrics as fm


class StandIn:
    """As much of a torch tensor as matters: NumPy cannot read one with a gradient, of bfloat16, or on a device."""

    def __init__(self, array, dtype="torch.float32", device="cpu", requires_grad=False):
        self.array, self.dtype, self.device, self.requires_grad = np.asarray(array), dtype, device, requires_grad

    def detach(self):
        return StandIn(self.array, self.dtype, self.device)

    def float(self):
        return StandIn(self.array.astype(np.float32), "torch.float32", self.device)

    def cpu(self):
        return StandIn(self.array, self.dtype)

    def numpy(self):
        if self.requires_grad or self.device != "cpu" or self.dtype == "torch.bfloat16":
            raise TypeError("can't convert to numpy")
        return self.array

    def __array__(self, dtype=None, copy=None):
        return self.numpy()


def stand_in(values, dtype="float32", **more):
    return StandIn(np.array(values, "float32" if dtype == "bfloat16" else dtype), f"torch.{dtype}", **more)


def of_torch(values, dtype="float32", **more):
    import torch

    return torch.tensor(values, dtype=getattr(torch, dtype), **more)


MAKERS = [stand_in, *([of_torch] if importlib.util.find_spec("torch") else [])]
each_maker = pytest.mark.parametrize("make", MAKERS)


@each_maker
@pytest.mark.parametrize("more", [{}, {"dtype": "bfloat16"}, {"requires_grad": True}, {"dtype": "float64"}])
def test_tensors_on_the_cpu_are_arrays(make, more):
    metric, told = fm.GAUC(), fm.GAUC()
    given = [0.25, 0.5, 0.75, 0.5], [0, 1, 1, 0], [1.0, 2.0, 1.0, 1.0]
    metric.add(
        make(given[0], **more),
        make(given[1], dtype="int64"),
        make(given[2], **more),
        make([True, True, True, False], dtype="bool"),
        user=make([7, 7, 8, 8], dtype="int64"),
    )
    told.add(*map(np.array, given), np.array([True, True, True, False]), user=np.array([7, 7, 8, 8]))
    assert metric.compute() == told.compute()


@each_maker
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_one_hot_tensors_are_read_as_arrays_are(make, dtype):
    scores, label = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625]], [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    metric = fm.Accuracy()
    metric.add(make(scores), make(label, dtype=dtype))
    assert metric.compute() == 2 / 3
    with pytest.raises(fm.InvalidInputError, match="label is one-hot, which AUC does not take"):
        fm.AUC().add(make(scores), make(label, dtype=dtype))


@each_maker
@pytest.mark.parametrize("argument", ["prediction", "label", "weight", "mask"])
def test_a_tensor_on_another_device_is_an_error_that_says_cpu(make, argument):
    given = {"prediction": [0.5], "label": [1], "weight": [1.0], "mask": [True]}
    given[argument] = make([1.0], device="meta")
    with pytest.raises(
        fm.InvalidInputError, match=rf"{argument} is a torch tensor on device 'meta'; give {argument}\.cpu"
    ):
        fm.AUC().add(**given)
    with pytest.raises(fm.InvalidInputError, match="user is a torch tensor on device 'meta'"):
        fm.GAUC().add([0.5], [1], user=make([1.0], device="meta"))
