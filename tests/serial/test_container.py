"""Files of arrays: what was written comes back, and anything else is refused with file and place."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from fleetmetrics.errors import CorruptFileError
from fleetmetrics.serial.container import _HEAD, read_arrays, write_arrays

pytestmark = pytest.mark.numpy_only

ARRAYS = {
    ("auc", "histogram"): np.arange(12).reshape(3, 4),
    ("auc", "empty"): np.zeros((0, 3)),
    ("", "flags"): np.array([True, False]),
    ("日本", "one"): np.array(1.5),
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    write_arrays(str(tmp_path / "it"), ARRAYS, {"a": [1, None]})
    return str(tmp_path / "it")


def test_what_was_written_comes_back(path: str) -> None:
    arrays, note = read_arrays(path)
    assert note == {"a": [1, None]} and list(arrays) == list(ARRAYS)
    assert all(arrays[name].dtype == array.dtype and (arrays[name] == array).all() for name, array in ARRAYS.items())
    assert all(arrays[name].shape == array.shape for name, array in ARRAYS.items())


def test_arrays_that_nobody_wants_are_passed_over(path: str) -> None:
    assert list(read_arrays(path, lambda name, key: name == "auc")[0]) == [("auc", "histogram"), ("auc", "empty")]
    assert read_arrays(path, lambda *_: False)[0] == {}


def test_every_flipped_bit_and_every_cut_is_seen(path: str) -> None:
    data = Path(path).read_bytes()
    for place in range(len(data)):
        for bad in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]):
            Path(path).write_bytes(bad)
            with pytest.raises(CorruptFileError, match=rf"^{path}: .*, at bytes? \d+( to \d+)? of {len(bad)}$"):
                read_arrays(path)
    Path(path).write_bytes(data + b"\0")
    with pytest.raises(CorruptFileError, match="the file goes on after its last array"):
        read_arrays(path)


def test_other_files_are_called_by_what_they_are(path: str) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, zeros=np.zeros(10**6))
    Path(path).write_bytes(file.getvalue())
    with pytest.raises(CorruptFileError, match=r"this is no checkpoint of fleetmetrics: it begins with b'PK.*a zip"):
        read_arrays(path)
    Path(path).write_bytes(b"")
    with pytest.raises(CorruptFileError, match="the file ends within the first 56 bytes, at byte 0 of 0"):
        read_arrays(path)


def test_a_size_that_is_only_said_takes_no_memory(path: str) -> None:
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:16] + struct.pack("<Q", 2**62) + data[24:])
    with pytest.raises(CorruptFileError, match=f"the file ends within the header, which has {2**62} bytes, at byte 56"):
        read_arrays(path)
    assert _HEAD.size == 56


def test_a_file_is_replaced_as_a_whole(path: str) -> None:
    with pytest.raises(TypeError):
        write_arrays(path, ARRAYS, object())
    with pytest.raises(OSError):
        write_arrays(os.path.join(path, "below a file"), ARRAYS, None)
    assert os.listdir(os.path.dirname(path)) == ["it"] and read_arrays(path)[1] == {"a": [1, None]}
