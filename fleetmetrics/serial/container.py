"""A file of arrays: written whole or not at all, and read without trust.

It begins with 16 fixed bytes, the length of the header (8 bytes) and its SHA-256; then come the header, JSON, and the
arrays, padded to 16 bytes each. The header has a note, and names, dtype, shape and SHA-256 of each array: every byte is
under a checksum. int64 is written in fewer bytes if it fits, and the header records that it was int64. There is no
pickle in it and nothing compressed: a file can ask for no more memory than eight times its bytes.

`numpy.savez` with a member of JSON would lose this. Its zip detects a flipped bit in an array, by a CRC-32, and no flip
led to a wrong number; but its own records have no checksum: one flip in five of a small archive goes unnoticed, and so
do bytes after its end. It trusts an array's size before it checks the CRC-32: `numpy.load` allocates 1 GiB for an
archive of 600 bytes. And an error is one of six classes, without the place in the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import struct
from typing import Any, BinaryIO, Callable, Dict, Iterator, Mapping, NoReturn, Tuple

import numpy as np

from fleetmetrics.errors import CorruptFileError, FileAccessError
from fleetmetrics.serial import MISFITS, described_array, pack_arrays, small

__all__ = ["Arrays", "read_arrays", "whole_file", "write_arrays"]

_MAGIC = b"\x93fleetmetrics\r\n1"
_HEAD = struct.Struct("<16sQ32s")
_WIDE, *_NARROW = (np.dtype(kind).str for kind in (np.int64, np.int8, np.int16, np.int32))
#: Arrays by the name of what holds them, and their own.
Arrays = Dict[Tuple[str, str], np.ndarray]


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file that replaces an existing one once it is written completely, and disappears if that fails.

    The file keeps its permissions, and a link stays: the file that it leads to is replaced.

    Raises:
        FileAccessError: the path is that of a device, a pipe or a socket.
        OSError: the file cannot be written; the error names it.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target)):
        raise FileAccessError(f"{path} is not a file; give the path of a file")
    half = f"{target}.{os.urandom(8).hex()}"  # only this user could read a file of tempfile
    try:
        with open(half, "xb") as file:
            if os.path.exists(target):
                shutil.copymode(target, half)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(half)
        if isinstance(error, OSError) and error.filename in (None, half):
            error.filename = path
        raise


def write_arrays(path: str, arrays: Mapping[tuple[str, str], np.ndarray], note: Any) -> int:
    """Write plain arrays and a note, fit for JSON, or leave the file as it is; returns the number of bytes."""
    packed = [pack_arrays([small(array)]) for array in arrays.values()]
    digests = [hashlib.sha256() for _ in packed]
    for digest, content in zip(digests, packed):
        for buffer in content.buffers:  # joining them would take twice the memory
            digest.update(buffer)
    entries = [
        [*name, *content.layout[0], digest.hexdigest()] for name, content, digest in zip(arrays, packed, digests)
    ]
    for entry, array in zip(entries, arrays.values()):
        entry += [array.dtype.str] if entry[2] != array.dtype.str else []
    header = json.dumps([note, entries]).encode()
    header += b" " * (-(len(header) + _HEAD.size) % 16)
    with whole_file(path) as file:
        file.write(_HEAD.pack(_MAGIC, len(header), hashlib.sha256(header).digest()) + header)
        for content in packed:
            file.writelines(content.buffers)
        size = file.tell()
    with contextlib.suppress(OSError):  # the new name must outlive a power cut, if the folder can be synchronized
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return size


def read_arrays(path: str, wanted: Callable[[str, str], bool] = lambda *_: True) -> tuple[Arrays, Any]:
    """Read a file's arrays, those ``wanted`` by name, and its note.

    Raises:
        CorruptFileError: the file was not written by `write_arrays`, or is damaged.
        OSError: the file cannot be opened or read.
    """
    with open(path, "rb") as file:
        return _Reader(path, file).read(wanted)


class _Reader:
    """Reads a file from the beginning, and keeps its position."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._size, self._at = os.fstat(file.fileno()).st_size, 0

    def _fail(self, what: str, length: int = 0) -> NoReturn:
        place = f"bytes {self._at} to {self._at + length}" if length else f"byte {self._at}"
        raise CorruptFileError(f"{self._path}: {what}, at {place} of {self._size}")

    def _take(self, length: int, digest: str | None, what: str) -> bytes:
        """Read the next bytes and check their digest; skip them if it is None."""
        if length > self._size - self._at:
            self._fail(f"the file ends within {what}, which has {length} bytes")
        data = b""
        if digest is None:
            self._file.seek(length, os.SEEK_CUR)
        else:
            data = self._file.read(length)
            if hashlib.sha256(data).hexdigest() != digest:
                self._fail(f"{what} has changed: its SHA-256 differs", length)
        self._at += length
        return data

    def read(self, wanted: Callable[[str, str], bool]) -> tuple[Arrays, Any]:
        head = self._file.read(_HEAD.size)
        if not _MAGIC.startswith(head[:16]):
            hint = ""
            if head[:2] == b"PK":
                hint = "; it is a zip archive, such as numpy.savez writes: numpy.load reads it, for set_state_dict"
            self._fail(f"this is no checkpoint of fleetmetrics: it begins with {head[:16]!r}{hint}")
        if len(head) < _HEAD.size:
            self._fail(f"the file ends within the first {_HEAD.size} bytes")
        _, length, digest = _HEAD.unpack(head)
        self._at = _HEAD.size
        header = self._take(length, digest.hex(), "the header")
        try:
            note, entries = json.loads(header)
            named_entries = [((name, key), entry) for name, key, *entry in entries]
            if any({str}.union(map(type, name)) != {str} or len(entry) not in (3, 4) for name, entry in named_entries):
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            self._fail("the header before is malformed")
        arrays: Arrays = {}
        for name, (dtype, shape, digest, *wide) in named_entries:
            what = f"the array {'/'.join(filter(None, name))!r:.80}"
            try:
                kind, size = described_array(dtype, shape)
                if wide and (wide[0] != _WIDE or kind.str not in _NARROW):
                    raise ValueError(f"{dtype!r:.40} does not become {wide[0]!r:.40}")
                chosen = wanted(*name)
                data = self._take(size + -size % 16, str(digest) if chosen else None, what)
                if chosen:
                    array = np.frombuffer(data, kind, size // kind.itemsize).reshape(shape)
                    arrays[name] = array.astype(np.int64 if wide else kind)
            except CorruptFileError:
                raise
            except MISFITS as error:
                self._fail(f"{what}: {error}")
        if self._at != self._size:
            self._fail("the file continues after its last array")
        return arrays, note
