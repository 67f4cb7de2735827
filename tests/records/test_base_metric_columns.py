"""What a batch's columns may be, and what happens to them and to the samples' ids. One process."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm

pytestmark = pytest.mark.halved


class Gathered(fm.BaseMetric):
    """What ``compute_metric`` gets is the value."""

    def compute_metric(self, results: Any) -> Any:
        return results


def added(*batches: Any, ids: Any = None) -> Any:
    """The single column that these batches give."""
    metric = Gathered()
    for i, batch in enumerate(batches):
        metric.add(batch, ids=None if ids is None else ids[i])
    (column,) = metric.compute()
    return column


# -- columns ---------------------------------------------------------------------------------------------


def test_columns_come_back_as_they_were_named() -> None:
    by_place, by_name = Gathered(), Gathered()
    for batch in ([1, 2], [3]):
        scores, labels = [n / 10 for n in batch], np.array(batch)
        by_place.add(scores, labels)
        by_name.add(label=labels, score=scores) if len(batch) == 1 else by_name.add(score=scores, label=labels)
    assert [column.tolist() for column in by_place.compute()] == [[0.1, 0.2, 0.3], [1, 2, 3]]
    assert isinstance(by_place.compute(), tuple)
    found = by_name.compute()
    assert list(found) == ["score", "label"]
    assert [column.tolist() for column in found.values()] == [[0.1, 0.2, 0.3], [1, 2, 3]]
    assert Gathered().compute() == []


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "<U3"])
def test_an_array_keeps_its_dtype(dtype: str) -> None:
    parts = [np.array([[0, 1], [1, 0]]).astype(dtype), np.array([[1, 1]]).astype(dtype)]
    found = added(*parts)
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == np.concatenate(parts).tolist()


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_a_tensor_becomes_an_array(dtype: str) -> None:
    tensor = paddle.to_tensor([[0.0, 1.0], [1.0, 0.0]]).astype(dtype)
    found = added(tensor, tensor[:1])
    assert type(found) is np.ndarray
    assert found.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert found.dtype == ("float32" if dtype == "bfloat16" else dtype)


def test_a_tensor_with_a_gradient_is_detached() -> None:
    tensor = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    assert added(tensor * 2).tolist() == [2.0, 4.0]


def test_numbers_in_a_list_become_an_array_and_other_things_stay() -> None:
    assert added([1, 2], [True]).tolist() == [1, 2, 1]
    assert added([1, 2.5]).dtype == np.float64
    assert added(("a", "b"), ["c"]) == ["a", "b", "c"]
    assert added([None, {"a": 1}], [[1, 2], "b"]) == [None, {"a": 1}, [1, 2], "b"]
    assert added([2**70]) == [2**70]
    assert [part.tolist() for part in added([np.arange(2), np.arange(3)])] == [[0, 1], [0, 1, 2]]
    assert [part.tolist() for part in added([paddle.to_tensor([1]), paddle.to_tensor([2, 3])])] == [[1], [2, 3]]


def test_an_array_of_objects_is_a_list_in_the_first_batch_as_in_the_second() -> None:
    ragged = np.empty(2, object)
    ragged[:] = [np.arange(2), "text"]
    found = added(ragged, ragged, ragged)
    assert isinstance(found, list)
    assert [str(part) for part in found] == ["[0 1]", "text"] * 3


def test_batches_of_different_shapes_become_a_list_of_samples() -> None:
    found = added(np.zeros((2, 3)), np.ones((1, 5)), np.zeros((0, 7)))
    assert [part.shape for part in found] == [(3,), (3,), (5,)]


def test_empty_batches_leave_no_trace() -> None:
    assert added([], np.arange(2), np.empty((0, 4)), [], [5]).tolist() == [0, 1, 5]
    assert Gathered().compute() == []
    metric = Gathered()
    metric.add(score=[], label=np.empty(0))
    assert metric.compute() == []


@pytest.mark.parametrize(
    ("columns", "named", "text"),
    [
        (([1, 2], [1]), {}, r"must have equal lengths, one entry per sample; given: column 0 2, column 1 1"),
        ((), {"score": [1], "label": [1, 2]}, "given: score 1, label 2"),
        ((), {"score": [1, 2], "ids": [1]}, "given: score 2, ids 1"),
        (([1],), {"label": [1]}, "add was given 1 column without a name and label; name all or none"),
        ((), {}, "add was given nothing"),
        ((), {"ids": [1]}, "add was given nothing"),
        ((3,), {}, "column 0 is int 3; a batch's column must be an array, a tensor or a list"),
        ((np.array(3.0),), {}, "column 0 is ndarray"),
        ((), {"score": "abc"}, "score is str 'abc'"),
        ((), {"score": {1: 2}}, "score is dict"),
        ((), {"score": None}, "score is NoneType None"),
        ((paddle.to_tensor(3.0),), {}, "column 0 is"),
        (([1],), {"ids": [1.5]}, "ids must hold integers or strings, one per sample, not float64"),
        (([1],), {"ids": [[1, 2]]}, "ids has shape"),
        (([1],), {"ids": 7}, r"ids has shape \[\]; it must hold one integer or string per sample"),
        (([1],), {"ids": [True]}, "ids must hold integers or strings, one per sample, not bool"),
        (([1, 1],), {"ids": ["a", b"a"]}, "among strings it holds b'a'"),
    ],
)
def test_a_batch_that_is_refused_leaves_nothing(columns: Any, named: Any, text: str) -> None:
    metric = Gathered()
    with pytest.raises(fm.InvalidInputError, match=text):
        metric.add(*columns, **named)
    assert metric.compute() == []
    metric.add(score=[1], label=["a"])  # what was refused has settled nothing
    with pytest.raises(fm.InvalidInputError):
        metric.add(*columns, **named)
    assert metric.compute() == {"score": [1], "label": ["a"]}


def test_every_batch_brings_the_same_columns() -> None:
    metric = Gathered()
    metric.add(score=[1.0], label=[1])
    for columns, named, text in [
        (([1.0], [1]), {}, "add was given 2 columns without names, and score, label before"),
        ((), {"score": [1.0]}, "add was given score, and score, label before; every batch must have the same columns"),
        ((), {"score": [1.0], "target": [1]}, "add was given score, target, and score, label before"),
        ((), {"score": [1.0], "label": [1], "ids": [3]}, "earlier batches came without them; give ids to every add"),
    ]:
        with pytest.raises(fm.InvalidInputError, match=text):
            metric.add(*columns, **named)
    metric.reset()
    metric.add([2.0], ids=[3])
    with pytest.raises(fm.InvalidInputError, match="earlier batches came with them"):
        metric.add([2.0])
    with pytest.raises(fm.InvalidInputError, match="add was given 2 columns without names, and 1 column"):
        metric.add([2.0], [3.0], ids=[3])
    assert metric.compute()[0].tolist() == [2.0]


@pytest.mark.parametrize("place", range(2))
@pytest.mark.parametrize(
    "view",
    [
        lambda big: big[:10],
        lambda big: big[-10:, 0],
        lambda big: big[:, 0][:10],
        lambda big: big.reshape(-1)[5:15],
        lambda big: big.T[1][:10],
        lambda big: big[:10].view(np.int64),
        lambda big: np.broadcast_to(big[0, 0], 10),
    ],
)
def test_a_small_view_does_not_keep_a_large_array_alive(view: Any, place: int) -> None:
    gc.freeze()  # the rest of the test run need not be looked through
    metric = Gathered()
    for _ in range(place):
        metric.add(np.zeros_like(view(np.zeros((1000, 3)))))
    big = np.zeros((1000, 3))
    alive = weakref.ref(big)
    metric.add(view(big))
    del big
    gc.collect()
    assert alive() is None
    assert len(metric.compute()[0]) == 10 * (place + 1)


def test_a_list_may_be_filled_again() -> None:
    metric, texts = Gathered(), ["a", "b", "c"]
    metric.add(texts)
    texts[0] = "other"
    metric.add(texts)
    assert metric.compute() == (["a", "b", "c", "other", "b", "c"],)


def test_what_compute_metric_writes_does_not_change_what_was_accumulated() -> None:
    class Sorting(fm.BaseMetric):
        def compute_metric(self, results: Any) -> Any:
            before = [list(column) for column in results]
            for column in results:
                column.sort()
            return before

    metric, plain = Sorting(), Sorting()
    metric.add(np.array([3, 1, 2]), ["c", "a", "b"])
    plain._results += [[3, 1, 2]]
    assert metric.compute() == metric.compute() == [[3, 1, 2], ["c", "a", "b"]]
    assert plain._results == [[3, 1, 2]]


# -- ids -------------------------------------------------------------------------------------------------


def test_a_sample_that_comes_twice_counts_once_and_the_ids_make_the_order() -> None:
    assert added([0.7, 0.9], [0.7, 0.1], ids=[[7, 9], [7, 1]]).tolist() == [0.1, 0.7, 0.9]
    assert added(["b", "c"], ["a", "b"], ids=[["y", "z"], ["x", "y"]]) == ["a", "b", "c"]
    assert added([1.0], ids=[paddle.to_tensor([[3]])]).tolist() == [1.0]


def test_ids_may_be_integers_of_any_width_and_stay_what_they_are() -> None:
    large = 2**53
    found = added([1, 2], [3, 4], ids=[np.array([5, large]), np.array([large + 1, 7], np.uint64)])
    assert found.tolist() == [1, 4, 2, 3]
    assert added([1], [2], ids=[np.array([-1], np.int8), np.array([2**64 - 1], np.uint64)]).tolist() == [1, 2]


def test_ids_are_all_integers_or_all_strings() -> None:
    with pytest.raises(
        fm.InvalidInputError, match="integers in some batches and strings in others, 4 and 'b'; use one"
    ):
        added([1], [2], [3], ids=[["b"], [4], ["c"]])


def test_ids_of_an_empty_batch_settle_nothing() -> None:
    assert added([], [1.0, 2.0], ids=[[], ["b", "a"]]).tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.5, 0.5 + 1e-6),
        (1e6, 1e6 + 100),
        (np.float32(0.1), 0.1),
        (0.0, 1e-7),
        (float("nan"), float("nan")),
        (np.array([0.5, 0.1]), np.array([0.5, 0.1 + 1e-6])),
        ({"score": 0.5, "box": [1.0, 2]}, {"box": [1.0 + 1e-6, 2], "score": 0.5}),
        (("a", None, 0.5), ("a", None, 0.5 + 1e-6)),
        (paddle.to_tensor([0.5]), paddle.to_tensor([0.5 + 1e-6])),
        (3, 3),
        ("text", "text"),
    ],
)
def test_two_evaluations_of_a_sample_may_differ_by_rounding(one: Any, other: Any) -> None:
    assert len(added([one, other], ids=[[4, 4]])) == 1
    assert len(added([one], [other], ids=[[4], [4]])) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.5, 0.51),
        (0.5, float("nan")),
        (3, 4),
        (True, False),
        ("text", "Text"),
        (None, 0.0),
        (np.array([0.5, 0.1]), np.array([0.1, 0.5])),
        (np.zeros(2), np.zeros(3)),
        ({"score": 0.5}, {"score": 0.5, "box": 1}),
        ([1, 2], [1, 2, 3]),
        (paddle.to_tensor([0.5]), paddle.to_tensor([0.6])),
    ],
)
def test_two_records_of_one_id_that_differ_are_an_error(one: Any, other: Any) -> None:
    text = (
        "ids: 1 of 2 ids came with records that differ: 4. A sample that is evaluated twice must give the same record"
    )
    for batches, ids in [(([one, other, one],), [[4, 4, 5]]), (([one], [other, one]), [[4], [4, 5]])]:
        with pytest.raises(fm.InvalidInputError, match=text):
            added(*batches, ids=ids)


def test_a_conflict_shows_some_of_the_ids() -> None:
    text = r"ids: 9 of 9 ids came with records that differ: 'a', 'b', 'c', 'd', 'e', \.\.\."
    with pytest.raises(fm.InvalidInputError, match=text):
        added(np.arange(18), ids=[list("abcdefghi") * 2])


def test_with_ids_size_counts_the_different_ones() -> None:
    metric = Gathered()
    metric.add([1, 2, 1], ids=[5, 6, 5])
    assert metric.compute(2)[0].tolist() == [1, 2]
    for size in (1, 3):
        with pytest.raises(fm.InvalidInputError, match=f"size is {size}, but the 3 records have 2 distinct ids"):
            metric.compute(size)
