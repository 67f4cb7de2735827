"""Whatever a checkpoint's file or a state dict holds, it is read or refused by name: nothing executed, little memory.

`make fuzz` tries many more of them: FUZZ is the number for each test.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fleetmetrics as fm
from fleetmetrics.serial.container import _HEAD, _MAGIC, read_arrays
from fleetmetrics.state.state_dicts import ABOUT
from tests.fuzz.test_serial import DTYPES, JSON, SHAPES, SIZES, WORDS, fuzz, little_memory, nodes

pytestmark = pytest.mark.numpy_only


class Everything(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return len(results)


def made(full: bool) -> dict[str, Any]:
    metrics = fm.MetricCollection(
        {
            "auc": fm.AUC(buckets=4),
            "exact": fm.ExactAUC(),
            "by": fm.Sliced(fm.Mean(), "slot"),
            "recent": fm.Windowed(fm.Variance(), 2),
        }
    )
    records = Everything()
    if full:
        metrics.add([0.5, 0.75], [1, 0], slot=["a", "b"])
        records.add(score=np.array([1.0, 2.0]), text=["a", "bc"], ids=[1, 2])
    return {"metrics": metrics, "records": records}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def written(folder: Path) -> bytes:
    fm.save(folder / "good", made(True))
    return (folder / "good").read_bytes()


def loaded(folder: Path, data: bytes) -> bool:
    """Whether it is taken; otherwise it is refused by name, and what was held stays."""
    (folder / "bad").write_bytes(data)
    metrics = made(False)
    with little_memory(data):
        try:
            fm.load(folder / "bad", metrics)
        except fm.FleetMetricsError:
            assert not metrics["metrics"].holds_samples() and not len(metrics["records"]._columns)
            return False
    return True


def head_of(header: bytes, magic: bytes = _MAGIC) -> bytes:
    head = _HEAD.pack(magic, len(header), hashlib.sha256(header).digest())
    return head + header + bytes(-(len(head) + len(header)) % 16)


@fuzz
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda rest: _MAGIC + rest)))
def test_random_bytes_are_not_a_checkpoint(folder: Path, data: bytes) -> None:
    (folder / "bytes").write_bytes(data)
    with little_memory(data), pytest.raises(fm.CorruptFileError, match=r"bytes: .*, at bytes? \d+.* of \d+$"):
        read_arrays(str(folder / "bytes"))


@fuzz
@given(data=st.data())
def test_every_change_of_a_byte_is_seen(folder: Path, written: bytes, data: st.DataObject) -> None:
    changed = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed)))
        changed[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    if data.draw(st.booleans()):
        del changed[data.draw(st.integers(0, len(changed))) :]
    if changed != written:
        (folder / "changed").write_bytes(changed)
        with little_memory(changed), pytest.raises(fm.CorruptFileError):
            read_arrays(str(folder / "changed"))


@fuzz
@given(data=st.data())
def test_a_false_header_with_a_right_checksum_is_read_or_refused(
    folder: Path, written: bytes, data: st.DataObject
) -> None:
    length = _HEAD.unpack(written[: _HEAD.size])[1]
    tree = json.loads(written[_HEAD.size : _HEAD.size + length])
    rest = written[len(head_of(written[_HEAD.size : _HEAD.size + length])) :]
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(nodes([tree]))
        parent, place = places[data.draw(st.integers(0, len(places) - 1))]
        others = st.sampled_from(places).map(lambda pair: copy.deepcopy(pair[0][pair[1]]))
        parent[place] = data.draw(st.one_of(SIZES, DTYPES, SHAPES, others, JSON, WORDS))
    if isinstance(tree, list) and tree and isinstance(tree[0], dict) and data.draw(st.booleans()):
        tree[0][data.draw(st.sampled_from(sorted(tree[0]) or ["a"]))] = data.draw(JSON)
    header = json.dumps(tree).encode()
    loaded(folder, head_of(header) + rest)


@fuzz
@given(data=st.data())
def test_any_change_of_a_state_dict_is_taken_or_refused_as_a_whole(data: st.DataObject) -> None:
    for metric, again in zip(made(True).values(), made(False).values()):
        state: dict[str, Any] = dict(metric.state_dict())
        about = json.loads(state[ABOUT].tobytes())
        for _ in range(data.draw(st.integers(0, 2))):
            key = data.draw(st.sampled_from(sorted(state)))
            array = data.draw(
                st.one_of(
                    JSON,
                    st.binary(max_size=40).map(lambda data: np.frombuffer(data, np.uint8)),
                    st.sampled_from([np.zeros(3), np.array(["a"]), np.array(None), np.zeros((2, 0), np.int64)]),
                    st.sampled_from(sorted(state)).map(state.get),
                )
            )
            state[key] = array
        if data.draw(st.booleans()):
            key = data.draw(st.sampled_from(sorted(about["arrays"])))
            about["arrays"][key] = data.draw(st.one_of(st.tuples(DTYPES, SHAPES).map(list), JSON))
            state[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        if data.draw(st.booleans()):
            state.pop(data.draw(st.sampled_from(sorted(state))))
        before = {key: array.tobytes() for key, array in again.state_dict().items()}
        with contextlib.suppress(fm.FleetMetricsError):
            again.set_state_dict(state)
            continue
        assert before == {key: array.tobytes() for key, array in again.state_dict().items()}
