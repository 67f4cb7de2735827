"""Whatever a file of CSV, JSON Lines or NPZ holds, it is read or refused by name, with file and row.

`make fuzz` tries many more of them: FUZZ is the number for each test.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fleetmetrics as fm
from tests.fuzz.test_serial import fuzz

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.numpy_only

SCORE, LABEL = np.arange(7) / 8, np.array([1, 0, 0, 1, 1, 0, 1])
ROWS = [(score, label) for score, label in zip(SCORE.tolist(), LABEL.tolist())]
TEXTS = {
    "csv": "score,label\n" + "".join(f"{score},{label}\n" for score, label in ROWS),
    "jsonl": "".join(json.dumps({"score": score, "label": label}) + "\n" for score, label in ROWS),
}
PIECES = st.sampled_from(
    [
        b"\n", b"\r", b"\0", b",", b'"', b"\\", b"{", b"}", b"[", b"]", b":", b"nan", b"inf", b"-1", b"1e400", b"null",
        b"\xff", b"\xef\xbb\xbf", b"score", b"label", b"99999999999999999999", b'{"score": {}}\n', b"1,2,3\n", b"true",
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def archive(compression: int, **arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, array in arrays.items():
            held = io.BytesIO()
            np.save(held, array)
            made.writestr(f"{name}.npy", held.getvalue())
    return file.getvalue()


def evaluated(path: Path, data: bytes, skip: bool = False, columns: Any = None) -> tuple[Any, int] | None:
    """The metric and the number of rows; None if the file is refused by its name."""
    path.write_bytes(data)
    columns = columns or {"prediction": "score", "label": "label"}
    make = fm.MeanSquaredError if len(columns) == 2 else fm.Mean
    try:
        found = fm.files.evaluate(str(path), make, columns, processes=1, skip_bad_rows=skip, progress=False)
        return found.metrics.compute(), found.read.rows
    except fm.FleetMetricsError as error:
        assert str(path) in str(error) or "samples" in str(error), str(error)
        return None


def changed(data: st.DataObject, given: bytes) -> bytes:
    """Some bytes of it are others, or a piece is put in, or the end is cut off."""
    made = bytearray(given)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(made)))
        made[place : place + data.draw(st.integers(0, 3))] = data.draw(st.one_of(PIECES, st.binary(max_size=3)))
    return bytes(made[: data.draw(st.one_of(st.just(len(made)), st.integers(0, len(made))))])


@fuzz
@given(data=st.data(), kind=st.sampled_from(sorted(TEXTS)), skip=st.booleans())
def test_any_change_of_a_text_is_read_or_refused(folder: Path, data: st.DataObject, kind: str, skip: bool) -> None:
    found = evaluated(folder / f"changed.{kind}", changed(data, TEXTS[kind].encode()), skip)
    assert found is None or (np.isfinite(found[0]) and 0 < found[1] < 20)


@fuzz
@given(data=st.binary(max_size=200), kind=st.sampled_from(["csv", "jsonl", "npz"]))
def test_any_bytes_are_read_or_refused(folder: Path, data: bytes, kind: str) -> None:
    evaluated(folder / f"bytes.{kind}", data)
    evaluated(folder / "zip.npz", b"PK\x03\x04" + data)


@fuzz
@given(data=st.data(), compression=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]), both=st.booleans())
def test_no_change_of_an_archive_makes_another_number(
    folder: Path, data: st.DataObject, compression: int, both: bool
) -> None:
    columns = {"prediction": "score", "label": "label"} if both else {"value": "score"}
    good = archive(compression, score=SCORE, label=LABEL)
    right = evaluated(folder / "good.npz", good, columns=columns)
    assert right is not None and right[1] == 7
    found = evaluated(folder / "changed.npz", changed(data, good), columns=columns)
    assert found in (None, right)
