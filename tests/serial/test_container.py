"""Files of arrays: what was written comes back, and anything else is refused with file and place."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import socket
import stat
import struct
import tracemalloc
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pytest

from fleetmetrics.errors import CorruptFileError, FileAccessError
from fleetmetrics.serial.container import _HEAD, read_arrays, write_arrays
from tests.cover import thorough

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


def test_written_arrays_come_back(path: str) -> None:
    arrays, note = read_arrays(path)
    assert note == {"a": [1, None]} and list(arrays) == list(ARRAYS)
    assert all(arrays[name].dtype == array.dtype and (arrays[name] == array).all() for name, array in ARRAYS.items())
    assert all(arrays[name].shape == array.shape for name, array in ARRAYS.items())


def test_unwanted_arrays_are_skipped(path: str) -> None:
    assert list(read_arrays(path, lambda name, key: name == "auc")[0]) == [("auc", "histogram"), ("auc", "empty")]
    assert read_arrays(path, lambda *_: False)[0] == {}


@pytest.mark.parametrize("bits", [1, *thorough(8)])
def test_every_flipped_bit_and_every_cut_is_seen(path: str, bits: int) -> None:
    data = Path(path).read_bytes()
    for place in range(len(data)):
        turned = [1 << (place + bit) % 8 for bit in range(bits)]
        flipped = [data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :] for bit in turned]
        for bad in [data[:place], *flipped]:
            Path(path).write_bytes(bad)
            with pytest.raises(CorruptFileError, match=rf"^{path}: .*, at bytes? \d+( to \d+)? of {len(bad)}$"):
                read_arrays(path)
    Path(path).write_bytes(data + b"\0")
    with pytest.raises(CorruptFileError, match="the file continues after its last array"):
        read_arrays(path)


def test_a_numpy_archive_loses_the_facts_that_the_module_names(path: str) -> None:
    file = io.BytesIO()
    np.savez(file, note=np.frombuffer(b'{"a": 1}', np.uint8), a=np.arange(40), b=np.array([[1.5, 2.5]]))
    data, noticed = file.getvalue(), 0

    def found(data: bytes) -> list[bytes]:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return [arrays[name].tobytes() for name in ("note", "a", "b")]

    for place in range(len(data)):
        bad = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        try:
            assert found(bad) == found(data)
        except (BadZipFile, EOFError, KeyError, NotImplementedError, RuntimeError, ValueError):
            noticed += 1
    assert 0.75 < noticed / len(data) < 0.85
    assert found(data + b"more") == found(data)
    head = io.BytesIO()
    np.lib.format.write_array_header_2_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2**24,)})
    with ZipFile(path, "w") as archive:
        archive.writestr("a.npy", head.getvalue())
    tracemalloc.start()
    with pytest.raises(ValueError, match="EOF"), np.load(path) as arrays:
        arrays["a"]
    assert os.path.getsize(path) < 300 and tracemalloc.get_traced_memory()[1] > 8 * 2**24
    tracemalloc.stop()


def test_other_files_are_called_by_what_they_are(path: str) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, zeros=np.zeros(10**6))
    Path(path).write_bytes(file.getvalue())
    with pytest.raises(CorruptFileError, match=r"this is no checkpoint of fleetmetrics: it begins with b'PK.*a zip"):
        read_arrays(path)
    Path(path).write_bytes(b"")
    with pytest.raises(CorruptFileError, match="the file ends within the first 56 bytes, at byte 0 of 0"):
        read_arrays(path)


def test_a_claimed_size_takes_no_memory(path: str) -> None:
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


def test_a_replaced_file_keeps_its_permissions_and_the_links_to_it(tmp_path: Any, path: str) -> None:
    link = tmp_path / "link"
    link.symlink_to("it")
    for mode in (0o600, 0o640, 0o755):
        os.chmod(path, mode)
        write_arrays(str(link), ARRAYS, mode)
        assert stat.S_IMODE(os.stat(path).st_mode) == mode and read_arrays(path)[1] == mode
    assert os.readlink(link) == "it" and sorted(os.listdir(tmp_path)) == ["it", "link"]


@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_is_no_file_is_not_replaced(tmp_path: Any, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    else:
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # another /dev/null
        except PermissionError:
            pytest.skip("only root makes devices")
    before = os.lstat(path)
    with pytest.raises(FileAccessError, match=r"it is not a file; give the path of a file"):
        write_arrays(str(path), ARRAYS, None)
    assert os.lstat(path) == before and os.listdir(tmp_path) == ["it"]


def test_an_error_while_a_file_is_written_names_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/it'"):
        write_arrays(str(tmp_path / "it"), ARRAYS, None)
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError, match=r"No such file or directory: '.*/no/it'"):
        write_arrays(str(tmp_path / "no" / "it"), ARRAYS, None)


def test_whole_numbers_take_as_few_bytes_as_they_need_and_come_back_as_they_were(tmp_path: Any) -> None:
    ends = [
        np.array([0, 127]),
        np.array([-128, 128]),
        np.array([2**15 - 1, -(2**31)]),
        np.array([2**31, 0]),
        np.array([]),
    ]
    arrays = {("a", str(place)): array.astype(np.int64) for place, array in enumerate(ends)}
    arrays["a", "short"] = np.array([1], np.int8)
    sizes = []
    for name, array in arrays.items():
        sizes.append(write_arrays(str(tmp_path / "it"), {name: np.tile(array, 1000)}, None))
    assert 1900 < sizes[1] - sizes[0] < 2100 and 3900 < sizes[2] - sizes[1] < 4100 and sizes[3] - sizes[2] > 7900
    write_arrays(str(tmp_path / "it"), arrays, None)
    found, _ = read_arrays(str(tmp_path / "it"))
    assert {name: (array.dtype, array.tolist()) for name, array in found.items()} == {
        name: (array.dtype, array.tolist()) for name, array in arrays.items()
    }


@pytest.mark.parametrize("wide", ["<f8", "|O", 3, None])
def test_a_dtype_that_numbers_do_not_become_is_refused(tmp_path: Any, wide: Any) -> None:
    path = str(tmp_path / "it")
    write_arrays(path, {("a", "b"): np.arange(3)}, None)
    data = Path(path).read_bytes()
    length = _HEAD.unpack(data[: _HEAD.size])[1]
    note, ((*entry, _),) = json.loads(data[_HEAD.size : _HEAD.size + length])
    header = json.dumps([note, [[*entry, wide]]]).encode().ljust(length)
    head = _HEAD.pack(data[:16], len(header), hashlib.sha256(header).digest())
    Path(path).write_bytes(head + header + data[_HEAD.size + length :])
    with pytest.raises(CorruptFileError, match="does not become"):
        read_arrays(path)
