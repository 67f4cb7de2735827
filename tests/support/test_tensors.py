"""Tensors in lists, tuples and records, and NumPy's newer dtypes, are taken by value, or refused by name."""

from __future__ import annotations

import collections
import importlib.util
from typing import Any

import ml_dtypes
import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.keys import keys_of
from fleetmetrics.comm.columns import as_column
from fleetmetrics.support.tensors import as_array, without_tensors
from tests.contract import CASES, arguments, draw, same
from tests.paddle_version import on_pir

WITH_TORCH = importlib.util.find_spec("torch") is not None
#: Numbers that bfloat16 and float8 hold exactly; read as integers or as bits, all differ.
VALUES = [3.5, 2.25, -0.75, 0.125]


def of_paddle(value: Any, dtype: str = "bfloat16") -> Any:
    return paddle.to_tensor(value, dtype=dtype)


def of_torch(value: Any, dtype: str = "bfloat16") -> Any:
    import torch

    return torch.tensor(value, dtype=getattr(torch, dtype), requires_grad="float" in dtype)


def of_numpy(value: Any, dtype: str = "bfloat16") -> Any:
    return np.array(value, getattr(ml_dtypes, dtype, dtype))


MAKERS = [of_paddle, of_numpy, *([of_torch] if WITH_TORCH else [])]
each_maker = pytest.mark.parametrize("make", MAKERS)
CONTAINERS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "deque": collections.deque,
    "objects": lambda values: _objects(values),
    "one tensor among numbers": lambda values: [float(values[0]), *values[1:]],
}


def _objects(values: Any) -> Any:
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array


@each_maker
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_a_container_of_tensors_is_read_by_value(make: Any, container: str, dtype: str) -> None:
    given = CONTAINERS[container]([make(value, dtype) for value in VALUES])
    assert as_array(given, "value").tolist() == VALUES
    assert as_array([make([value], dtype) for value in VALUES], "value").tolist() == [[value] for value in VALUES]
    nested = [[make(value, dtype) for value in VALUES], tuple(make(value, dtype) for value in VALUES)]
    assert as_array(nested, "value").tolist() == [VALUES, VALUES]
    assert as_array(make(VALUES, dtype), "value").tolist() == VALUES


@each_maker
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_integers_and_bools_stay_what_they_are(make: Any, dtype: str) -> None:
    found = as_array([make(1, dtype), make(0, dtype)], "value")
    assert found.tolist() == [1, 0]
    assert found.dtype == dtype


def test_large_integers_in_a_list_of_tensors_are_exact() -> None:
    ids = [2**60 + 1, 2**60 + 3]
    assert as_array([of_paddle(each, "int64") for each in ids], "value").tolist() == ids
    assert keys_of([of_paddle(each, "int64") for each in ids], "user").tolist() == ids
    assert keys_of(_objects([of_paddle([each], "int64") for each in ids]), "user").tolist() == [[each] for each in ids]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_dtypes_that_numpy_lacks_are_read_by_value(dtype: str) -> None:
    values = [3.0, 1.0, 2.0, 0.0]
    assert as_array(of_numpy(values, dtype), "value").tolist() == values
    metric = fm.MeanAbsoluteError()
    metric.add(of_numpy(values, dtype), of_numpy([1.0] * 4, dtype))
    assert metric.compute() == 1.0


@on_pir
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_of_paddle_is_read_by_value(dtype: str) -> None:
    tensor = paddle.to_tensor([3.5, 1.75]).astype(dtype)
    for given in (tensor, [tensor], [each for each in tensor.astype("float32").astype(dtype).reshape([2, 1])]):
        metric = fm.Mean()
        metric.add(given)
        assert metric.compute() == 2.625


@each_maker
@pytest.mark.parametrize("shape", [[], [1]])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.brief and "f" in case.kinds])
def test_every_metric_takes_lists_of_tensors(make: Any, shape: list[int], name: str) -> None:
    data = draw(name, weight="eighths", mask=True, samples=12)
    data = data._replace(prediction=data.prediction.astype(ml_dtypes.bfloat16).astype(np.float32))
    plain, listed = CASES[name].make(), CASES[name].make()
    given = arguments(plain, data)
    plain.add(**given)

    def spread(array: Any) -> Any:
        dtype = "bfloat16" if array.dtype == np.float32 and array is data.prediction else str(array.dtype)
        return [make(each.reshape(shape if each.size == 1 else each.shape).tolist(), dtype) for each in array]

    listed.add(
        **{
            key: spread(each) if isinstance(each, np.ndarray) and each.dtype.kind in "biuf" else each
            for key, each in given.items()
        }
    )
    assert same(listed.compute(), plain.compute(), exact=False)


@each_maker
def test_the_functions_of_fleet_take_them(make: Any) -> None:
    listed = [make(3.5), make(2.25)]
    assert fm.sum(listed).tolist() == fm.max(tuple(listed)).tolist() == fm.min(listed).tolist() == [3.5, 2.25]
    assert fm.sum(make([3.5, 2.25])).tolist() == [3.5, 2.25]
    assert fm.mae(make(4.5), make(3.0)) == fm.mae([make([4.5])], [make([3.0])]) == 1.5
    assert fm.auc([make(0.0), make(1.0), make(1.0)], make([2.0, 0.0, 0.0])) == 1.0
    assert fm.LocalCommunicator().all_reduce(listed).tolist() == [3.5, 2.25]
    assert fm.LocalCommunicator().all_gather(listed)[0].tolist() == [3.5, 2.25]
    assert as_column(listed).tolist() == [3.5, 2.25]
    assert fm.formulas.auc_from_histogram(listed, [make(2.0), make(1.0)]) == fm.formulas.auc_from_histogram(
        [3.5, 2.25], [2.0, 1.0]
    )


@each_maker
def test_settings_take_them(make: Any) -> None:
    one, other = (fm.ThresholdSweep(thresholds=each) for each in ([make(0.25), make(0.5)], [0.25, 0.5]))
    for metric in (one, other):
        metric.add([0.3, 0.6], [0, 1])
    one.merge(other)
    assert list(one.compute()[0]) == [0.25, 0.5]


@each_maker
def test_a_frame_of_arrays_takes_them(make: Any) -> None:
    frame = {"p": [make(0.25), make(0.75), make(0.5)], "y": make([0, 1, 1], "int64")}
    assert fm.evaluate(frame, score="p", label="y", metrics="exact_auc")["exact_auc"] == 1.0


def test_float_keys_in_tensors_are_refused() -> None:
    with pytest.raises(fm.InvalidInputError, match="user must hold integers or strings"):
        keys_of([of_paddle(3.0), of_paddle(4.0)], "user")
    with pytest.raises(fm.InvalidInputError, match="user must hold integers or strings"):
        keys_of([of_paddle([3.0]), of_paddle([4.0])], "user")


SPARSE = paddle.sparse.sparse_coo_tensor([[0, 1]], [1.0, 2.0], [3])


@pytest.mark.parametrize("given", [SPARSE, [SPARSE], (SPARSE, SPARSE), [1.0, [SPARSE]]], ids=str)
def test_sparse_tensors_are_refused_in_words(given: Any) -> None:
    for call in (
        fm.Mean().add,
        fm.sum,
        lambda value: fm.AUC().add(value, [1, 0, 1]),
        lambda v: fm.Mean().add([1.0], v),
    ):
        with pytest.raises(fm.InvalidInputError, match=r"sparse or distributed tensor.*to_dense"):
            call(given)
    with pytest.raises(fm.InvalidInputError, match="user is a sparse or distributed tensor"):
        fm.GAUC().add([0.1, 0.2, 0.3], [0, 1, 1], user=given if given is not SPARSE else [SPARSE])


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = [of_paddle(1.0)]
    endless.append(endless)
    empty: list[Any] = []
    empty += [empty, empty]
    for given in (endless, empty):
        with pytest.raises(fm.InvalidInputError):
            fm.Mean().add(given)


def test_other_values_pass_as_they_are() -> None:
    for value in ([1.0, [2]], "text", {"a": of_paddle(1.0)}, range(3), None, [b"a", "b"], memoryview(b"ab")):
        assert without_tensors(value, "value") is value


class NoArray:
    """Like an array of CuPy, which NumPy may not read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")


@pytest.mark.parametrize("given", [NoArray(), [NoArray(), NoArray()]], ids=["one", "a list"])
def test_what_numpy_may_not_read_is_refused_in_words(given: Any) -> None:
    for call in (fm.Mean().add, fm.sum, lambda value: fm.GAUC().add([0.5], [1], user=value)):
        with pytest.raises(fm.InvalidInputError, match=r"implicit conversion|no rectangular array form|one per sample"):
            call(given)


@pytest.mark.skipif(not WITH_TORCH, reason="torch is not installed")
def test_tensors_of_torch_without_an_array_form_are_refused_in_words() -> None:
    import torch

    for given in (torch.eye(2).to_sparse(), [torch.eye(2).to_sparse()], torch.nested.nested_tensor([torch.ones(2)])):
        with pytest.raises(fm.InvalidInputError, match="value is a torch tensor without an array form"):
            fm.Mean().add(given)
    for given in ([torch.ones(2, device="meta")], (torch.ones((), device="meta"), 1.0)):
        with pytest.raises(fm.InvalidInputError, match=r"torch tensor on device 'meta'; give prediction\.cpu"):
            fm.Mean().add(given)
    metric = fm.Mean()
    metric.add([torch.tensor(1.5).to(torch.float8_e5m2), torch.nn.Parameter(torch.tensor(2.5))])
    assert metric.compute() == 2.0
